"""P6: the 0.96 rule picks a freeze step that works."""

from __future__ import annotations

from paper_figures.algorithms import ADAM, DIGITS, NO_FEEDBACK, ONE_BIT, TEXT
from paper_figures.claims.claim import Check, Claim, EvidenceError, Facts
from paper_figures.claims.facts import where
from paper_figures.claims.problems import PROBLEMS
from paper_figures.claims.statistics import final, no_worse, worse
from paper_figures.figures.freeze_rule import PANELS, frozen_at_once


def measure(facts: Facts) -> list[Check]:
    """1-bit Adam that freezes itself against Adam; then, on each problem, whether the rule waited at all."""
    table = facts["freeze_rule"]
    frozen_by_rule = where(table, label=ONE_BIT.label)
    if len(set(frozen_by_rule["beta2"])) != 1:
        raise EvidenceError("freeze_rule has 1-bit Adam with no beta2, or with several")
    beta2 = float(frozen_by_rule["beta2"].iloc[0])
    of, checks, waiting = "Adam's final loss", [], []
    for experiment, _ in PANELS:
        problem, (name, column) = experiment.problem, PROBLEMS[experiment.problem]
        here = where(table, problem=problem, beta2=beta2)
        adam, own = final(here, ADAM.label, column), final(here, ONE_BIT.label, column)
        main = experiment is TEXT  # as for P35
        checks.append(no_worse(own, adam, f"{name}, frozen by the rule", of=of, part=problem, required=main))
        if experiment is DIGITS:
            less = final(here, NO_FEEDBACK.label, column)
            checks.append(worse(less, adam, "the same, feedback removed", of=of, part=problem, guard=True))
        step, at_once_S = frozen_at_once(where(here, label=ONE_BIT.label), beta2)
        waited = int((~at_once_S).sum())
        waiting.append(
            Check(
                setting=f"{name}, β2 = {beta2}", value=waited,
                unit=f"of {len(at_once_S)} seeds not yet frozen at step {step}, the first recorded after t = Δ + 1",
                test="exact, of these runs: the rule waits beyond its first chance in all of them",
                exact=waited == len(at_once_S), required=main,
            )
        )  # fmt: skip
    return checks + waiting


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
        "from the first step on delay or prevent it. These runs have no warm-up of the learning "
        "rate; the paper's have, and wait at least for its end."
    ),
    figures=("freeze_rule",),
    theorems=("T7c", "T7k"),
    laws=("C10",),
    pair=(ONE_BIT.label, NO_FEEDBACK.label),
    measure=measure,
)
