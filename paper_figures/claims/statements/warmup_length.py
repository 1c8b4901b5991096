"""P14: a short warm-up is enough, and a very short one is not."""

from __future__ import annotations

from paper_figures.algorithms import ADAM, ONE_BIT
from paper_figures.claims.claim import Check, Claim, Facts
from paper_figures.claims.facts import where
from paper_figures.claims.statistics import Runs, final, no_worse, worse

SHORTEST, ENOUGH = 1, 100
OF = "Adam's final loss"


def measure(facts: Facts) -> list[Check]:
    """Final loss against Adam's for every T_w; the shortest against a quarter of the run."""
    table = facts["warmup_length"]
    adam = final(table, ADAM.label)
    steps = int(table["step"].max())

    def at(freeze_step: int) -> Runs:
        return final(where(table, freeze_step=freeze_step), ONE_BIT.label)

    def setting(freeze_step: int) -> str:
        return f"T_w = {freeze_step} ({freeze_step / steps:.2g} of the steps)"

    swept = sorted(int(value) for value in table["freeze_step"].dropna().unique())
    checks = [no_worse(at(ENOUGH), adam, setting(ENOUGH), of=OF, required=True)]
    checks += [no_worse(at(value), adam, setting(value), of=OF) for value in swept if value not in (SHORTEST, ENOUGH)]
    checks.append(
        worse(
            at(SHORTEST), at(ENOUGH), f"T_w = {SHORTEST} against {ENOUGH}",
            of=f"the final loss with T_w = {ENOUGH}", required=True,
        )
    )  # fmt: skip
    return checks


CLAIM = Claim(
    id="P14",
    title="Length of the warm-up",
    statement=(
        "A warm-up of a part of the steps is enough: 1-bit Adam then ends at most 10 % above Adam. "
        "Frozen after the first step it ends higher."
    ),
    where="the settings of BERT and SQuAD",
    published="14 % to 22 % of the steps",
    source="recalled",
    conditions="How much is enough depends on 1/(1-β2) and on how far the loss still has to fall.",
    figures=("warmup_length",),
    theorems=("T7a", "T7h"),
    laws=("L3",),
    pair=(SHORTEST, ENOUGH),
    pair_column="freeze_step",
    measure=measure,
)
