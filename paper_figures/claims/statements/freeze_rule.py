"""P6: the 0.96 rule picks a freeze step that works."""

from __future__ import annotations

from typing import Any

from paper_figures.algorithms import ADAM, DIGITS, NO_FEEDBACK, ONE_BIT
from paper_figures.claims.claim import Check, Claim, EvidenceError, Facts
from paper_figures.claims.facts import where
from paper_figures.claims.problems import PROBLEMS
from paper_figures.claims.statistics import MIN_SEEDS, final, no_worse, worse
from paper_figures.figures.freeze_rule import PANELS, first_fired, ratios


def measure(facts: Facts) -> list[Check]:
    """1-bit Adam that freezes itself against Adam; then, per problem and beta2, whether the rule waited at all."""
    table = facts["freeze_rule"]
    frozen_by_rule = where(table, label=ONE_BIT.label)
    if len(set(frozen_by_rule["beta2"])) != 1:
        raise EvidenceError("freeze_rule has 1-bit Adam with no beta2, or with several")
    of, checks = "Adam's final loss", []
    for experiment, _ in PANELS:
        problem, (name, column) = experiment.problem, PROBLEMS[experiment.problem]
        here = where(table, problem=problem, beta2=frozen_by_rule["beta2"].iloc[0])
        adam, own = final(here, ADAM.label, column), final(here, ONE_BIT.label, column)
        stress = experiment is DIGITS
        checks.append(no_worse(own, adam, f"{name}, frozen by the rule", of=of, part=problem, required=stress))
        if stress:
            less = final(here, NO_FEEDBACK.label, column)
            checks.append(worse(less, adam, "the same, feedback removed", of=of, part=problem, guard=True))
    ratio: Any = ratios(table)
    fired = first_fired(ratio)
    for (problem, beta2), chances in ratio.groupby(["problem", "beta2"]):
        here = where(fired, problem=problem, beta2=beta2)
        if chances["seed"].nunique() < MIN_SEEDS:
            raise EvidenceError(f"{problem}, beta2 = {beta2} has {chances['seed'].nunique()} seeds")
        first = int(chances["step"].min())
        waited = int((here["step"] > first).sum()) + chances["seed"].nunique() - len(here)
        checks.append(
            Check(
                setting=f"{PROBLEMS[problem][0]}, β2 = {beta2}", value=waited,
                unit=f"of {chances['seed'].nunique()} seeds in which the rule waits beyond its first chance",
                test="exact: it decides, in every seed, and not the cold start",
                exact=waited == chances["seed"].nunique(),
            )
        )  # fmt: skip
    return checks


CLAIM = Claim(
    id="P6",
    title="The 0.96 rule",
    statement=(
        "Freezing at the first t with ‖v_t‖₁ ≥ 0.96 ‖v_{t-Δ}‖₁, Δ = 1/(1-β2), gives a run that ends at most 10 % "
        "above Adam; and it waits until the variance has settled."
    ),
    where="the choice of the warm-up, figure 2",
    published="stops BERT-Large at step 22,173",
    source="recalled",
    conditions=(
        "The rule is one-sided, and v grows from zero: while squared gradients don't fall it holds, so that without a "
        "learning-rate warm-up it fires at its first chance, t = Δ + 1 (T7k, C10). Gradients that fall fast enough "
        "from the first step on delay or prevent it."
    ),
    figures=("freeze_rule",),
    theorems=("T7c", "T7k"),
    laws=("C10",),
    pair=(ONE_BIT.label, NO_FEEDBACK.label),
    measure=measure,
)
