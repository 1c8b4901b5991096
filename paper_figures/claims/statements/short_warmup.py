"""P30: a warm-up of thirty steps with bias correction sends fifteen times fewer bytes than Adam, at no worse loss."""

from __future__ import annotations

from paper_figures.algorithms import ADAM_CORRECTED, NO_FEEDBACK, ONE_BIT, ONE_BIT_CORRECTED, SHORT
from paper_figures.claims.claim import MAIN_MARGIN, Check, Claim, Facts
from paper_figures.claims.facts import where
from paper_figures.claims.problems import HEADLINE, PROBLEMS
from paper_figures.claims.statistics import final, last, no_worse, worse

FEWER = 15
OF = "Adam's final loss"
OF_USUAL = "the final loss of 1-bit Adam with a warm-up of 10 % to 15 %"


def measure(facts: Facts) -> list[Check]:
    """Final loss against Adam's and against a usual warm-up's, then bytes of the whole run, on each problem."""
    checks, volumes = [], []
    for problem, (name, column) in PROBLEMS.items():
        here = where(facts["short_warmup"], problem=problem)
        adam, short, blind, usual, corrected = (
            final(here, a.label, column) for a in (ADAM_CORRECTED, SHORT, NO_FEEDBACK, ONE_BIT, ONE_BIT_CORRECTED)
        )
        checks += [
            no_worse(short, adam, name, of=OF, margin=MAIN_MARGIN, part=name, required=name in HEADLINE),
            no_worse(short, usual, f"{name}, the usual warm-up", of=f"{OF_USUAL}, uncorrected", margin=MAIN_MARGIN,
                     part=name),
            no_worse(short, corrected, f"{name}, the usual warm-up, corrected", of=f"{OF_USUAL}, bias correction",
                     margin=MAIN_MARGIN, part=name),
            worse(blind, adam, f"{name}, feedback removed", of=OF, part=name, guard=True),
        ]  # fmt: skip
        dense, sent = (last(here, a.label, "bytes_per_worker").mean() for a in (ADAM_CORRECTED, SHORT))
        volumes.append(
            Check(
                setting=f"{name}, bytes of the whole run", value=(ratio := float(dense / sent)), bound=FEWER,
                unit="times fewer than fp32 Adam", test="exact: counted, warm-up included", exact=ratio >= FEWER,
                required=name in HEADLINE,
            )
        )  # fmt: skip
    return checks + volumes


CLAIM = Claim(
    id="P30",
    title="A short warm-up",
    statement=(
        "With bias correction a warm-up of 30 steps is enough: 1-bit Adam then ends at most 5 % above Adam, each with "
        "bias correction and at its own best step size, and sends at least 15 times fewer bytes over the whole run. "
        "And it ends at most 5 % above 1-bit Adam with a usual warm-up, be that corrected or not."
    ),
    where="this project; the paper warms up for 14 % to 22 % of the steps",
    published="",
    source="ours",
    conditions=(
        "A loss that falls by orders of magnitude after the freeze, which a v of the first steps cannot follow (P1, "
        "T7a). And few parameters: with D = 31 scales are most of what a compressed step sends (T10d)."
    ),
    figures=("short_warmup",),
    theorems=("T7a", "T10a", "T10d"),
    laws=("C5",),
    pair=(SHORT.label, NO_FEEDBACK.label),
    measure=measure,
)
