"""P19: the errors are bounded, by a theorem instead of an assumption."""

from __future__ import annotations

from typing import Any

from paper_figures.claims.claim import Check, Claim, EvidenceError, Facts
from paper_figures.claims.facts import proved
from paper_figures.claims.statistics import MIN_SEEDS
from paper_figures.figures.error_bounds import bounds

PROBLEMS = {"quadratic": "quadratic", "mlp": "digits MLP"}
PROOFS = ("T5a", "T5e", "T5f", "T5g")
NORMS = {"worker": "worker errors", "server": "server error", "total": "the whole residual"}


def measure(facts: Facts) -> list[Check]:
    """The largest measured norm over its bound, over every recorded step of every seed."""
    rows: Any = bounds(facts["error_bounds"])
    certified = proved(facts, *PROOFS)
    checks = []
    for problem, name in PROBLEMS.items():
        here = rows.loc[rows["problem"] == problem]
        if (n_seeds := here["seed"].nunique()) < MIN_SEEDS:
            raise EvidenceError(f"error_bounds has {n_seeds} seeds of {problem}, at least {MIN_SEEDS} are needed")
        for norm, word in NORMS.items():
            largest = float((here[f"{norm}_error_norm"] / here[f"{norm}_bound"]).max())
            checks.append(
                Check(
                    setting=f"{name}, {word}", value=largest, unit="of the bounds of T5e-T5g, at most", n_seeds=n_seeds,
                    test="exact: at most 1 at every step of every seed, and the theorems re-checked", bound=1.0,
                    exact=bool(largest <= 1 and certified), required=True,
                )
            )  # fmt: skip
    return checks


CLAIM = Claim(
    id="P19",
    title="Errors are bounded",
    statement=(
        "Worker errors, server error and the whole residual stay below the bounds that T5e-T5g prove from the "
        "gradients and the contraction of the same run; the paper assumes such bounds."
    ),
    where="the assumptions of theorem 1",
    published="",
    source="recalled",
    conditions=(
        "The compressor must contract: always so with the l1 scale, with the l2 scale only where φ > 1/4 (P15). The "
        "bound is sharp for one compressor and one gradient (T5a's example), and far from sharp for these."
    ),
    figures=("error_bounds",),
    others=("proofs",),
    theorems=("T5a", "T5b", "T5d", "T5e", "T5f", "T5g"),
    laws=("L10",),
    pair=None,
    measure=measure,
)
