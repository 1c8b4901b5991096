"""P2: 1-bit Adam is momentum with a frozen variance and without compression, thanks to error feedback."""

from __future__ import annotations

from paper_figures.algorithms import FROZEN, NO_FEEDBACK, ONE_BIT
from paper_figures.claims.claim import MAIN_MARGIN, Check, Claim, Facts
from paper_figures.claims.facts import broken, proved, where
from paper_figures.claims.problems import FIGURES, HEADLINE, finals, game
from paper_figures.claims.statistics import final, same, worse
from paper_figures.figures.scale_and_sparsity import LOOKS

THEOREMS = ("T3a", "T3e", "T5a")
PROPERTIES = ("collective.conservation", "optimizer.conservation", "optimizer.apply")


def measure(facts: Facts) -> list[Check]:
    """Equivalence to 32 bits on each problem; that it takes the feedback; and the two laws behind it."""
    checks, of = [], "the final loss with 32 bits"
    for problem, runs in finals(facts):
        frozen = runs(FROZEN.label)
        checks += [
            same(
                runs(ONE_BIT.label),
                frozen,
                problem,
                of=of,
                margin=MAIN_MARGIN,
                part=problem,
                required=problem in HEADLINE,
            ),
            worse(runs(NO_FEEDBACK.label), frozen, f"{problem}, feedback removed", of=of, part=problem, guard=True),
        ]
    runs = game(facts)
    distance = "the distance with 32 bits, mean after the freeze"
    checks.append(
        same(runs(ONE_BIT.label), runs(FROZEN.label), "GAN on digits", of=distance, margin=MAIN_MARGIN, part="GAN")
    )
    sparse = facts["scale_and_sparsity"]
    dense = where(sparse, batch_size=sparse["batch_size"].max())
    one_bit, momentum = (final(dense, LOOKS[kind][0]) for kind in ("l2", "none"))
    setting = "matrix factorisation, nearly exact gradients"
    checks.append(same(one_bit, momentum, setting, of=of, margin=MAIN_MARGIN, part=setting))
    of_optimizer, _ = broken(facts, "verify-reference", PROPERTIES[1:])
    of_collective, _ = broken(facts, "verify-reference-collective", PROPERTIES[:1])
    failing = of_optimizer + of_collective
    checks.append(
        Check(
            setting="conservation L1 and virtual iterate L2, every element of every case", value=len(failing),
            unit=f"of {len(PROPERTIES)} properties broken, {', '.join(THEOREMS)} re-checked",
            test="exact: onebit verify and onebit prove",
            exact=not failing and proved(facts, *THEOREMS), guard=True,
        )
    )  # fmt: skip
    return checks


CLAIM = Claim(
    id="P2",
    title="Error compensation",
    statement=(
        "In the compression stage 1-bit Adam follows Adam with the same frozen variance that sends 32 bits. Nothing is "
        "lost for good (L1), and the virtual iterate takes uncompressed steps (L2). The final loss is within 5 % of "
        "that with 32 bits, each at its own best step size. Without error feedback that is false."
    ),
    where="Algorithm 1, figure 4",
    published="",
    source="seen",
    conditions=(
        "L1 and L2 are exact for every compressor, but speak about the virtual iterate: x itself is off by γ/(1-β1) P "
        "Δ. Where P is huge (κ = 0, tiny variance) that distance leaves the region in which the loss is smooth, and "
        "the run diverges though both laws hold: P17. And where gradients are nearly free of noise, momentum with 32 "
        "bits converges on and on, while one bit at a constant step size stops at a floor of order γ² E_Δ² (T6d)."
    ),
    figures=(*FIGURES, "gan", "scale_and_sparsity"),
    others=("proofs", "verify-reference", "verify-reference-collective"),
    theorems=THEOREMS,
    laws=("L1", "L2"),
    properties=PROPERTIES,
    pair=(ONE_BIT.label, NO_FEEDBACK.label),
    measure=measure,
)
