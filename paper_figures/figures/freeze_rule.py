"""The rule C10, ||v_t||_1 >= 0.96 ||v_{t-Delta}||_1, over training: where it fires, and what it makes of the run."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from numpy.typing import NDArray

from paper_figures.algorithms import (
    ADAM,
    BLACK,
    BLUE,
    DIGITS,
    GREEN,
    GREY,
    LOGISTIC,
    NO_FEEDBACK,
    ONE_BIT,
    ORANGE,
    TEXT,
    TUNED,
    VERMILION,
    Algorithm,
    Experiment,
)  # fmt: skip
from paper_figures.claims.problems import PROBLEMS
from paper_figures.claims.statistics import final
from paper_figures.drawing import band, by_seed, legend_below, log_x, mark, note, of, seeds_note, stacked
from paper_figures.figure import PaperFigure, Scale
from paper_figures.numbers import listed, percent, share_of, times_within
from reference.experiments import RunConfig
from theory.theorems.freeze_rule import THRESHOLD, window_length

PANELS = ((DIGITS, "Digits MLP"), (TEXT, "Character transformer"), (LOGISTIC, "Logistic regression"))
LOOKS = {0.98: (BLUE, "solid"), 0.999: (BLACK, (0, (5, 2)))}
DEFAULT = 0.999  # left unsaid, so that these runs are those of the convergence figures


OWN = 0.98
"""beta2 of the runs that freeze themselves."""

TWO_SIDED = Algorithm("two-sided, norm of all of v", "one_bit_adam", GREEN)
EVERY_ARRAY = Algorithm("two-sided, norm of every array", "one_bit_adam", ORANGE)
RULES = (ONE_BIT, TWO_SIDED, EVERY_ARRAY)
"""1-bit Adam that freezes itself: by the published rule, and by ours."""


def rules_of(experiment: Experiment) -> Iterator[tuple[Algorithm, dict[str, Any]]]:
    """Rules, each with hyper-parameters of a run that it freezes, at the tuned step size; one vector has no arrays."""
    own = {"beta2": OWN, "lr": TUNED[experiment.problem][ONE_BIT.label]}
    yield ONE_BIT, {**own, "freeze_step": "paper"}
    yield TWO_SIDED, {**own, "freeze_step": "auto"}
    if shapes := experiment.shapes():
        arrays = {str(k): math.prod(shape) for k, shape in enumerate(shapes)}
        yield EVERY_ARRAY, {**own, "freeze_step": "auto", "arrays": arrays}


def runs(scale: Scale) -> list[RunConfig]:
    """Adam at two beta2 on three problems; 1-bit Adam that freezes itself, by three rules.

    Without error feedback too, on the digits: the claim that the rule's choice works needs a run that does not.
    """
    adam = [
        config
        for experiment, _ in PANELS
        for beta2 in LOOKS
        for config in experiment.runs(
            scale, (ADAM,), hyper={} if beta2 == DEFAULT else {"beta2": beta2}, tags={"beta2": beta2}
        )
    ]
    own = [
        config
        for experiment, _ in PANELS
        for rule, hyper in rules_of(experiment)
        for config in experiment.runs(scale, (rule,), hyper=hyper, tags={"beta2": OWN})
    ]
    fed = {"beta2": OWN, "freeze_step": "paper"}
    return adam + own + DIGITS.runs(scale, (NO_FEEDBACK,), hyper=fed, tags={"beta2": OWN})


def ratios(table: pd.DataFrame) -> pd.DataFrame:
    """Adam's rows that have a row Delta steps before them, with ``window`` (Delta) and ``ratio`` of the norms of v."""
    adam = of(table, ADAM)
    adam = adam.assign(window=adam["beta2"].map(window_length))
    keys = ["problem", "beta2", "seed"]
    before = adam.loc[adam["variance_l1"] > 0, [*keys, "step", "window", "variance_l1"]]
    before = before.assign(step=before["step"] + before["window"]).drop(columns="window")
    found = adam.merge(before, on=[*keys, "step"], suffixes=("", "_before"))
    return found.assign(ratio=found["variance_l1"] / found["variance_l1_before"])


def frozen_at_once(own: pd.DataFrame, beta2: float) -> tuple[int, NDArray[Any]]:
    """The first recorded step after the first chance, t = Delta + 1, of runs that a rule freezes; who is frozen there.

    Returns:
        The step, and whether a run is frozen at it, by seed (S,).
    """
    step = int(own.loc[own["step"] > window_length(beta2), "step"].to_numpy().min())
    return step, own.loc[own["step"] == step].sort_values("seed")["frozen"].to_numpy() == 1


def outcomes(table: pd.DataFrame) -> Iterator[tuple[str, Algorithm, NDArray[Any], float]]:
    """Problem, rule, final loss over that of Adam with the same beta2 for every seed, share of steps compressed."""
    for experiment, _ in PANELS:
        here = table.loc[(table["problem"] == experiment.problem) & (table["beta2"] == OWN)]
        _, column = PROBLEMS[experiment.problem]
        adam = final(here, ADAM.label, column)
        for rule in [rule for rule in RULES if rule.label in set(here["label"])]:
            frozen = float(np.mean(np.asarray(of(here, rule)["frozen"])))
            yield experiment.problem, rule, final(here, rule.label, column).log_S - adam.log_S, frozen


def numbers(table: pd.DataFrame) -> dict[str, str]:
    """By problem and rule: the loss over Adam's, the steps compressed; of the digits who freezes, and where it ends.

    And how many runs the published rule freezes at once, by the first recorded step after its first chance.
    """
    found = {}
    for problem, rule, log_S, frozen in outcomes(table):
        name = f"{PROBLEMS[problem][0]}, {NAMES[rule.label]}"
        found |= {name: times_within(log_S), f"{name}, compressed": percent(frozen)}
        own = of(table.loc[(table["problem"] == problem) & (table["beta2"] == OWN)], rule)
        froze_S = np.asarray(own.groupby("seed")["frozen"].max()) == 1
        found |= {f"{name}, freeze": share_of(froze_S), f"{name}, ends": listed(np.exp(log_S[froze_S]))}
        if rule is ONE_BIT:
            step, at_once_S = frozen_at_once(own, OWN)
            found |= {f"{name}, at once": share_of(at_once_S), "step": str(step)}
    return found


NAMES = {ONE_BIT.label: "published", TWO_SIDED.label: "two-sided", EVERY_ARRAY.label: "every array"}
"""What ``numbers`` call the rules."""


def draw_outcomes(axes: Axes, table: pd.DataFrame) -> None:
    """A row a problem, a marker a seed, coloured by rule; the share of compressed steps stands beside it."""
    names = [experiment.problem for experiment, _ in PANELS]
    for problem, rule, log_S, frozen in outcomes(table):
        place = RULES.index(rule)
        y = len(names) - 1 - names.index(problem) + 0.25 * (1 - place)
        name = "published rule" if rule is ONE_BIT else rule.label
        axes.plot(
            np.exp(log_S), np.full(log_S.size, y), "osD"[place], color=rule.color, markersize=5, linestyle="none",
            label=name if problem == names[0] else "_",
        )  # fmt: skip
        axes.annotate(
            f"{frozen:.0%} compressed", (1.0, y), xycoords=("axes fraction", "data"), xytext=(-4, 0),
            textcoords="offset points", fontsize=8, color="#444444", ha="right", va="center",
        )  # fmt: skip
    axes.axvline(1, color=GREY, linewidth=1.0)
    axes.set_yticks(range(len(names)), [title.replace(" ", "\n") for _, title in reversed(PANELS)], fontsize=8)
    axes.set(
        xlabel=f"final loss over Adam's, β₂ = {OWN:g}",
        ylabel="problem",
        xscale="log",
        title="What the rules make of the run",
    )
    axes.set_ylim(-0.5, len(names) - 0.5)
    low, high = axes.get_xlim()
    axes.set_xlim(low, high * (high / low) ** 0.5)  # room for what stands beside it
    legend_below(axes, ncols=1)


def draw(table: pd.DataFrame) -> Canvas:
    """The ratio against t / Delta, a panel a problem; then where 1-bit Adam ends by each rule."""
    canvas, (*panels, last) = stacked(2.7, 2.7, 3.0, 2.8)
    draw_outcomes(last, table)
    ratio = ratios(table)
    for axes, (experiment, title) in zip(panels, PANELS, strict=True):
        here = ratio.loc[ratio["problem"] == experiment.problem]
        for beta2, (color, dashes) in LOOKS.items():
            window = window_length(beta2)
            step_T, ratio_TS = by_seed(here.loc[here["beta2"] == beta2], "ratio")
            if not len(step_T):
                continue  # the run is shorter than Delta
            band(
                axes, step_T / window, ratio_TS, label=f"β₂ = {beta2:g}, Δ = {window:,}", color=color, linestyle=dashes
            )
        axes.axhline(THRESHOLD, color=VERMILION, linewidth=1.2)
        axes.annotate(
            "0.96: above it, freeze", (0.99, THRESHOLD), xycoords=("axes fraction", "data"), xytext=(0, -3),
            textcoords="offset points", color=VERMILION, fontsize=9, ha="right", va="top",
            bbox={"facecolor": "white", "alpha": 0.8, "linewidth": 0, "pad": 1},
        )  # fmt: skip
        axes.set(ylabel="‖v(t)‖₁ / ‖v(t − Δ)‖₁", title=title)
        log_x(axes)
        axes.set_ylim(0.3, 1.6)  # in the digits, v jumps a thousandfold where Adam itself stumbles
        mark(axes, 1.0, "from a cold start it fires here, at t = Δ + 1", top=0.97)
    panels[-1].set_xlabel("t / Δ")
    legend_below(panels[-1], ncols=1)
    note(canvas, seeds_note(table))
    return canvas


FIGURE = PaperFigure(
    name="freeze_rule",
    title="The 0.96 rule: freeze once v has nearly stopped falling",
    beside="Tang et al. 2021, section on the warm-up (there: BERT-Large stops at step 22,173, recalled)",
    caption=(
        "Above: the ratio that the rule C10 watches, the norm of v over its value Δ = 1/(1−β₂) steps ago, over runs "
        "of Adam. The rule is meant to fire when v has stopped falling. But v starts at zero: at the very first "
        "chance, t = Δ + 1, it is compared with a single squared gradient times 1−β₂, so without a learning-rate "
        "warm-up, and while squared gradients don't fall, the rule fires there (theorem T7k), whatever comes after. "
        "The curves begin at the first recorded step after that, and show what the rule would see if it waited. On "
        "the transformer the ratio comes to stay above 0.96, as v goes on growing; on logistic regression it comes "
        "later, and hovers there; on the digits v falls for as long as the loss does, so the ratio stays below, but "
        "for jumps where Adam itself stumbles. Below: where 1-bit Adam ends that is left to a rule, a marker a seed. "
        "By the published rule {digits MLP, published, at once} seeds are frozen at step {step} on the digits, "
        "{character transformer, published, at once} on the transformer and {logistic regression, published, at once} "
        "on logistic regression: that is the first recorded step after the first chance. They end at {logistic "
        "regression, published} times Adam's distance to the optimum on logistic regression, and at {digits MLP, "
        "published} times its loss on the digits. Two-sided and corrected for the cold start, the same norm waits: on "
        "logistic regression the run ends at {logistic regression, two-sided} times Adam's distance, with {logistic "
        "regression, two-sided, compressed} of its steps compressed; on the transformer at {character transformer, "
        "two-sided} times Adam's loss, with {character transformer, two-sided, compressed}, and by the published rule "
        "at {character transformer, published} times. On the digits {digits MLP, two-sided, freeze} seeds freeze, and "
        "end at {digits MLP, two-sided, ends} times Adam's loss; the others are Adam. The norms of all arrays settle "
        "late, if they do: {character transformer, every array, compressed} compressed on the transformer, {digits "
        "MLP, every array, compressed} on the digits."
    ),
    draw=draw,
    numbers=numbers,
    runs=runs,
)
