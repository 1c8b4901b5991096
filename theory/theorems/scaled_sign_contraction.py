"""T1a, T1b, T1d-T1i: the exact error of the scaled sign with either scale, and where it contracts (law L10)."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import sympy as sp

from theory.formula import ForAll, array, eq, le, lt, mean, norm_squared, sgn, total
from theory.notation import Row, corrected, d, k
from theory.rationals import RATIONALS
from theory.theorem import Hypothesis, Quoted, Theorem
from theory.witness import instance

alignment = sp.Symbol("alignment", positive=True)
magnitude = sp.Symbol("magnitude", real=True)
other_magnitude = sp.Symbol("other_magnitude", real=True)
bits = array("bits")

ALIGNMENT = Row(
    alignment,
    r"\varphi",
    "||u||_1^2/(d ||u||_2^2): one if all coordinates are of one size, 1/d if one is not 0",
    domain=sp.Interval.Lopen(0, 1),
    default=2 / math.pi,
)
MAGNITUDE = Row(magnitude, "s", "the scale that is sent: the size of every decoded coordinate")
OTHER = Row(other_magnitude, "s'", "any other scale")
BITS = Row(bits, "b", "any other signs", "(d,)")

one_norm = total(sp.Abs(corrected[k]), k, d)
square_norm = norm_squared(corrected[k], k, d)
lost = norm_squared(corrected[k] - magnitude * sgn(corrected[k]), k, d)
lost_share = lost / square_norm

NONZERO = Hypothesis("nonzero", lt(0, square_norm), "u is not zero")
L1_SCALE = Hypothesis("l1_scale", eq(magnitude, mean(sp.Abs(corrected[k]), k, d)), "the scale is the l1 scale")
L2_SCALE = Hypothesis("l2_scale", eq(magnitude, sp.sqrt(square_norm / d)), "the scale is the l2 scale")
PHI = Hypothesis("phi", eq(alignment, one_norm**2 / (d * square_norm)), "the alignment is that of u")

ROOT = sp.Symbol("root_of_phi", positive=True)
THRESHOLD = sp.Rational(1, 4)
_REMARK = "sgn(0) = +1 [C2], and the error uses the sign that is sent. d counts live coordinates only [C1]: padding " \
    "would lower the scale."  # fmt: skip


def alignment_of(u: np.ndarray) -> Fraction:
    """phi of a vector."""
    return Fraction(np.abs(u).sum()) ** 2 / (u.size * Fraction((u * u).sum()))


def of_vector(u: np.ndarray, kind: str) -> dict[str, Any]:
    """What the theorems speak of, for one vector of numbers of few bits and the scale ``kind``, which is a fraction."""
    total_size, squares = Fraction(np.abs(u).sum()), Fraction((u * u).sum())
    size = total_size / u.size if kind == "l1" else RATIONALS.power(squares / u.size, Fraction(1, 2))
    return {"live": u.size, "corrected": u, "magnitude": size, "alignment": alignment_of(u)}


LAPLACE_VECTOR = np.round(np.random.default_rng(0).laplace(size=500) * 2**10) / 2**10
TWO_SIZES = np.tile([7.0, -1.0], 8)
ONE_HOT = np.r_[4.0, np.zeros(1023)]  # its errors are exact in binary64
JUST_DENSE = np.r_[np.ones(121), np.zeros(320)]


L1 = Theorem(
    id="T1a",
    title="Error of the scaled sign, l1 scale",
    conclusion=eq(lost_share, 1 - alignment),
    hypotheses=(NONZERO, L1_SCALE, PHI),
    words="With the l1 scale the compression error is exactly the share {share} of the squared norm of u.",
    numbers={"share": 1 - alignment},
    good_for="One number of the input, phi, says how much a worker's message loses.",
    source="EF-signSGD (Karimireddy et al. 2019), Lemma 8 for the inequality; the equality is elementary",
    example=lambda: instance(L1, "a Laplace vector of 500 coordinates", of_vector(LAPLACE_VECTOR, "l1")),
    where=(ALIGNMENT, MAGNITUDE),
    laws=("L10", "C1", "C2"),
    remarks=_REMARK,
)

L2 = Theorem(
    id="T1b",
    title="Error of the scaled sign, l2 scale",
    conclusion=eq(lost_share, 2 * (1 - sp.sqrt(alignment))),
    hypotheses=(NONZERO, L2_SCALE, PHI),
    words="With the l2 scale the compression error is exactly the share {share} of the squared norm of u.",
    numbers={
        "share": 2 * (1 - sp.sqrt(alignment)),
        "excess": Quoted(
            sp.factor(2 * (1 - ROOT) - (1 - ROOT**2)), {ROOT: sp.sqrt(alignment)}, by="this share less that of T1a"
        ),
    },
    good_for="The published scale loses more than the l1 scale, by the share {excess} of the squared norm of u, unless "
    "all sizes are equal.",
    source="ours",
    example=lambda: instance(L2, "sizes 7 and 1 in turn", of_vector(TWO_SIZES, "l2")),
    where=(ALIGNMENT, MAGNITUDE),
    laws=("L10", "C1", "C2"),
    remarks=_REMARK,
)

L2_IF = Theorem(
    id="T1d",
    title="The l2 scale contracts above the threshold of phi",
    conclusion=lt(lost_share, 1),
    hypotheses=(NONZERO, L2_SCALE, PHI, Hypothesis("above", lt(THRESHOLD, alignment), "phi exceeds the threshold")),
    words="If phi exceeds {threshold}, the error of the l2 scale is smaller than u.",
    numbers={"threshold": THRESHOLD},
    good_for="Where phi is above the threshold, the published scale is a contraction in the Euclidean norm.",
    source="ours",
    example=lambda: instance(L2_IF, "121 of 441 coordinates are not zero", of_vector(JUST_DENSE, "l2")),
    where=(ALIGNMENT, MAGNITUDE),
    needs=("T1b",),
    laws=("L10",),
)

L2_ONLY_IF = Theorem(
    id="T1e",
    title="The l2 scale contracts only above the threshold of phi",
    conclusion=lt(THRESHOLD, alignment),
    hypotheses=(NONZERO, L2_SCALE, PHI, Hypothesis("contracts", lt(lost_share, 1), "the error is smaller than u")),
    words="If the error of the l2 scale is smaller than u, then phi exceeds {threshold}.",
    numbers={"threshold": THRESHOLD},
    good_for="A theory that needs a contraction in the Euclidean norm does not cover the published scale on sparse "
    "inputs.",
    source="ours",
    example=lambda: instance(L2_ONLY_IF, "121 of 441 coordinates are not zero", of_vector(JUST_DENSE, "l2")),
    where=(ALIGNMENT, MAGNITUDE),
    needs=("T1b",),
    laws=("L10",),
    remarks="T5d shows what holds below the threshold instead: errors that stay bounded in the maximum norm.",
)

ANY_SCALE = Theorem(
    id="T1f",
    title="What another scale costs",
    conclusion=eq(
        norm_squared(corrected[k] - other_magnitude * sgn(corrected[k]), k, d),
        lost + d * (other_magnitude - magnitude) ** 2,
    ),
    hypotheses=(L1_SCALE,),
    words="Any other scale loses more than the l1 scale, by d times the square of their difference.",
    good_for="The l1 scale is the least-squares scale, and a wrong scale (padding, a stale one) has a known price.",
    source="ours; elementary",
    example=lambda: instance(
        ANY_SCALE, "a Laplace vector of 500 coordinates", of_vector(LAPLACE_VECTOR, "l1") | {"other_magnitude": 2.0}
    ),
    where=(MAGNITUDE, OTHER),
    laws=("L10", "C1"),
)

OPTIMAL = Theorem(
    id="T1g",
    title="No one-bit code loses less than the l1 scale",
    conclusion=le(lost, norm_squared(corrected[k] - other_magnitude * bits[k], k, d)),
    hypotheses=(L1_SCALE, Hypothesis("one_bit", ForAll(((k, d),), eq(sp.Abs(bits[k]), 1)), "each bit is a sign")),
    words="Whatever signs and whatever single scale are sent, the error is at least that of the l1 scale with the "
    "signs of u.",
    good_for="One bit a coordinate and one scale can't do better in one step: gains must come from blocks or feedback.",
    source="ours; elementary",
    example=lambda: instance(
        OPTIMAL,
        "a Laplace vector of 500 coordinates",
        of_vector(LAPLACE_VECTOR, "l1") | {"other_magnitude": 0.9, "bits": np.where(LAPLACE_VECTOR >= 0, 1, -1)},
    ),
    where=(MAGNITUDE, OTHER, BITS),
    laws=("L10", "C2"),
)

WORST_L1 = Theorem(
    id="T1h",
    title="Worst input of the l1 scale",
    conclusion=le(lost_share, 1 - 1 / d),
    hypotheses=(NONZERO, L1_SCALE),
    words="With the l1 scale the error is at most the share {share} of the squared norm of u.",
    numbers={"share": 1 - 1 / d},
    good_for="The l1 scale is a contraction for every input, with a factor that worsens with the length.",
    source="EF-signSGD (Karimireddy et al. 2019), Lemma 8 with phi >= 1/d",
    example=lambda: instance(WORST_L1, "one coordinate of 1,024 is not zero", of_vector(ONE_HOT, "l1")),
    where=(MAGNITUDE,),
    laws=("L10",),
    remarks="Vectors with one coordinate that is not zero attain it.",
)

WORST_L2 = Theorem(
    id="T1i",
    title="Worst input of the l2 scale",
    conclusion=le(lost_share, 2 * (1 - 1 / sp.sqrt(d))),
    hypotheses=(NONZERO, L2_SCALE),
    words="With the l2 scale the error is at most the share {share} of the squared norm of u.",
    numbers={"share": 2 * (1 - 1 / sp.sqrt(d))},
    good_for="How much the published scale can add: almost twice the squared norm of u on long one-hot vectors.",
    source="ours",
    example=lambda: instance(WORST_L2, "one coordinate of 1,024 is not zero", of_vector(ONE_HOT, "l2")),
    where=(MAGNITUDE,),
    laws=("L10",),
    remarks="Vectors with one coordinate that is not zero attain it.",
)

THEOREMS = (L1, L2, L2_IF, L2_ONLY_IF, ANY_SCALE, OPTIMAL, WORST_L1, WORST_L2)
