"""P35: a rule that is two-sided, and corrected for the cold start, waits for the variance."""

from __future__ import annotations

import numpy as np

from paper_figures.algorithms import ADAM, LOGISTIC, NO_FEEDBACK, ONE_BIT, TEXT
from paper_figures.claims.claim import Check, Claim, Facts
from paper_figures.claims.facts import where
from paper_figures.claims.problems import PROBLEMS
from paper_figures.claims.statistics import final, no_worse, worse
from paper_figures.figures.freeze_rule import OWN, PANELS, TWO_SIDED

OF = "Adam's final loss, with the same β2"


def measure(facts: Facts) -> list[Check]:
    """On each problem: the end against Adam's, and whether the rule fires early enough to save bytes."""
    checks = []
    for experiment, _ in PANELS:
        (name, column), main = PROBLEMS[experiment.problem], experiment is TEXT
        here = where(facts["freeze_rule"], problem=experiment.problem, beta2=OWN)
        adam = final(here, ADAM.label, column)
        own = where(here, label=TWO_SIDED.label)
        halfway = own.loc[own["step"] <= own["step"].max() // 2].groupby("seed")["frozen"].max()
        checks += [
            no_worse(final(here, TWO_SIDED.label, column), adam, name, of=OF, part=name, required=main),
            Check(
                setting=f"{name}, in the first half", value=int(np.sum(halfway)),
                unit=f"of {len(halfway)} seeds freeze",
                test="exact, of these runs: all do", exact=bool(np.all(halfway)), required=main,
            ),
        ]  # fmt: skip
        if experiment is LOGISTIC:
            published = final(here, ONE_BIT.label, column)
            checks.append(worse(published, adam, f"{name}, published rule", of=OF, part=name, guard=True))
    return checks


CLAIM = Claim(
    id="P35",
    title="A two-sided freeze rule",
    statement=(
        "The rule: freeze once the bias-corrected norm of v has moved by at most 4 % over Δ = 1/(1-β2) steps, either "
        "way. The run then ends at most 10 % above Adam, and the rule fires in its first half."
    ),
    where="this project: the cause of P6 removed",
    published="",
    source="ours",
    conditions=(
        "The rule speaks of a window. A loss that falls by orders of magnitude after the freeze needs a v that falls "
        "with it (T7a); then no rule that freezes early ends on Adam."
    ),
    figures=("freeze_rule",),
    theorems=("T7a", "T7i"),
    laws=("C10",),
    pair=(TWO_SIDED.label, NO_FEEDBACK.label),
    measure=measure,
)
