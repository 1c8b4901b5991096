"""T1c, T1m-T1o: the alignment phi, hence both errors of the scaled sign (T1a, T1b), of the usual kinds of vectors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import sympy as sp

from theory.evaluate import bound
from theory.formula import ForAll, Implies, array, eq, le, lt, ne, norm_squared, total
from theory.notation import UNIT, Row, corrected, count, d, k
from theory.theorem import Example, Hypothesis, Quoted, Theorem
from theory.theorems.moments import (
    CUBED,
    FIRST,
    FOURTH,
    MOMENTS,
    SECOND,
    SPACE,
    SQUARED,
    expected,
    first,
    fourth,
    outcomes,
    sample,
    second,
    w,
)
from theory.theorems.scaled_sign_contraction import ALIGNMENT, PHI, THRESHOLD, alignment, alignment_of, of_vector
from theory.witness import instance

l, missed = count("l", least=0), array("missed")
deviation = sp.Symbol("deviation", positive=True)
density = sp.Symbol("density", positive=True)
x = sp.Symbol("x")

DENSITY = Row(density, "p", "share of coordinates that are not zero", domain=sp.Interval.Lopen(0, 1), default=0.1)

_phi = total(sp.Abs(sample[w, k]), k, d) ** 2 / (d * norm_squared(sample[w, k], k, d))
_limit = first**2 / second
_tolerance = _limit * deviation * (3 + deviation) / (1 - deviation)


def _pairs() -> Example:
    """Two coordinates of size one or three, independent: phi is far from its limit wherever they are equal."""
    inputs: dict[str, Any] = {"live": 2, "outcomes": 4, "probability": [0.25] * 4, "deviation": 0.05}
    inputs |= {"sample": [[1.0, 1.0], [1.0, -3.0], [3.0, 1.0], [-3.0, 3.0]], "missed": [1.0, 0.0, 0.0, 1.0]}
    moments = {"first_moment": 2.0, "second_moment": 5.0, "fourth_moment": 41.0}
    return instance(LONG, "two coordinates of size one or three", inputs | moments)


LONG = Theorem(
    id="T1c",
    title="The alignment of a long random vector",
    conclusion=le(
        expected(missed[w]),
        ((second - first**2) / first**2 + (fourth - second**2) / second**2) / (d * deviation**2),
    ),
    hypotheses=(
        *MOMENTS,
        Hypothesis(
            "sizes_uncorrelated",
            ForAll(
                ((k, d), (l, d)),
                Implies(
                    (ne(k, l),),
                    eq(expected(sp.Abs(sample[w, k]) * sp.Abs(sample[w, l])), first**2),
                ),
            ),
            "sizes of different coordinates are uncorrelated",
        ),
        Hypothesis(
            "squares_uncorrelated",
            ForAll(
                ((k, d), (l, d)),
                Implies((ne(k, l),), eq(expected(sample[w, k] ** 2 * sample[w, l] ** 2), second**2)),
            ),
            "and so are their squares",
        ),
        Hypothesis("indicator", ForAll(((w, outcomes),), le(missed[w], 1)), "missed is at most one"),
        Hypothesis(
            "where_missed",
            ForAll(((w, outcomes),), Implies((lt(0, missed[w]),), lt(_tolerance, sp.Abs(_phi - _limit)))),
            "and positive only where phi is far from its limit",
        ),
    ),
    implied=(SQUARED, CUBED),
    words="Take a random vector whose coordinates have one mean size, one mean square and bounded fourth powers, and "
    "in which both the sizes and the squares of different coordinates are uncorrelated. The probability that its phi "
    "is farther than {tolerance} from the square of E|x| over the mean square of x is at most a constant over d.",
    numbers={"tolerance": _tolerance},
    good_for="Where sizes and squares are uncorrelated, as of independent coordinates of one law, phi of a long "
    "vector is near the constants of T1m and T1n.",
    source="ours; Chebyshev's inequality",
    example=_pairs,
    where=(
        *SPACE,
        Row(missed, r"\mathbb{1}", "one where phi is far from its limit, else zero", "(n,)"),
        FIRST,
        SECOND,
        FOURTH,
        Row(deviation, r"\varepsilon", "relative deviation of the two means", domain=UNIT, default=0.1),
    ),
    laws=("L10",),
    remarks="That the coordinates themselves are uncorrelated is not enough: with independent signs and sizes that "
    "one common coin decides, phi stays far from the limit at every length. A finite probability space, of any size: "
    "gradients in a computer are of this kind.",
)


def sample_of(family: str, dim: int, seed: int, *, share: float = 0.1) -> np.ndarray:
    """One vector: ``"gaussian"``, ``"laplace"`` or ``"sparse"``, a Gaussian of which a ``share`` is not zero."""
    rng = np.random.default_rng(seed)
    if family == "laplace":
        return rng.laplace(size=dim)
    dense = rng.standard_normal(dim)
    return np.where(rng.random(dim) < share, dense, 0.0) if family == "sparse" else dense


def _long_vector_agrees(family: str, limit: float, moments: tuple[float, float, float]) -> bool:
    """Whether a vector of a million coordinates lies within T1c's tolerance, which one in twenty may miss."""
    u = sample_of(family, 1_000_000, 1)
    names = dict(zip(("first_moment", "second_moment", "fourth_moment"), moments, strict=True))
    off = math.sqrt(bound(LONG, **names, live=u.size, deviation=0.5) * 0.5**2 / 0.05)
    return abs(alignment_of(u) - limit) <= limit * off * (3 + off) / (1 - off)


def _integrates_to(half_density: sp.Expr, mean_size: sp.Expr, mean_square: sp.Expr) -> bool:
    """Whether SymPy's integrals of 2 x^n times the density on the positive axis are these moments, exactly."""
    moments = (sp.integrate(2 * x**power * half_density, (x, 0, sp.oo)) for power in (1, 2))
    return [sp.simplify(m - known) for m, known in zip(moments, (mean_size, mean_square), strict=True)] == [0, 0]


_TENTH = sp.Rational(1, 10)
GAUSSIAN = Theorem(
    id="T1m",
    title="Alignment of a sparse Gaussian vector",
    conclusion=eq(first**2 / second, 2 * density / sp.pi),
    hypotheses=(
        Hypothesis(
            "mean_size", eq(first, density * sp.sqrt(2) / sp.sqrt(sp.pi)), "a share p is normal with variance one"
        ),
        Hypothesis("mean_square", eq(second, density), "and all else is zero"),
    ),
    words="The square of E|x| over the mean square of x is {limit} for a Gaussian of which only a share p of the "
    "coordinates is not zero. By T1c phi of a long vector is near it where sizes and squares are uncorrelated.",
    numbers={
        "limit": 2 * density / sp.pi,
        "dense": Quoted(THRESHOLD / (2 / sp.pi), by="the threshold of T1d over the limit at p of one"),
    },
    good_for="With T1c to T1e: on long sparse Gaussians the l2 scale contracts with high probability if p exceeds "
    "{dense}, and with high probability does not if p is below.",
    source="ours; the measured values are in docs/published.md",
    where=(FIRST, SECOND, DENSITY),
    example=lambda: instance(
        GAUSSIAN,
        "a tenth of the coordinates",
        {"density": _TENTH, "first_moment": sp.sqrt(2 / sp.pi) * _TENTH, "second_moment": _TENTH},
    ),
    numeric_checks={
        "the moments, by integration": lambda: _integrates_to(
            sp.exp(-(x**2) / 2) / sp.sqrt(2 * sp.pi), sp.sqrt(2 / sp.pi), sp.Integer(1)
        ),
        "a long vector, all coordinates": lambda: _long_vector_agrees(
            "gaussian", bound(GAUSSIAN, density=1), (math.sqrt(2 / math.pi), 1.0, 3.0)
        ),
        "a long vector, a tenth of them": lambda: _long_vector_agrees(
            "sparse", bound(GAUSSIAN, density=0.1), (0.1 * math.sqrt(2 / math.pi), 0.1, 0.3)
        ),
    },
    laws=("L10",),
    remarks="Coq has the algebra; the two moments of the normal distribution are hypotheses, which SymPy integrates. "
    "T1c says how far phi of a vector of finite length can be from it. Any variance gives the same ratio.",
)

LAPLACE = Theorem(
    id="T1n",
    title="Alignment of a Laplace vector",
    conclusion=eq(first**2 / second, sp.Rational(1, 2)),
    hypotheses=(
        Hypothesis("mean_size", eq(first, 1), "E|x| of Laplace's distribution with scale one"),
        Hypothesis("mean_square", eq(second, 2), "and its mean square"),
    ),
    words="The square of E|x| over the mean square of x is {limit} for Laplace's distribution. By T1c phi of a long "
    "vector is near it where sizes and squares are uncorrelated.",
    numbers={"limit": sp.Rational(1, 2)},
    good_for="Heavier tails than a Gaussian's: on long vectors the l1 scale loses about half, the l2 scale more than "
    "half.",
    source="ours; the measured values are in docs/published.md",
    where=(FIRST, SECOND),
    example=lambda: instance(LAPLACE, "scale one", {"first_moment": 1.0, "second_moment": 2.0}),
    numeric_checks={
        "the moments, by integration": lambda: _integrates_to(sp.exp(-x) / 2, sp.Integer(1), sp.Integer(2)),
        "a long vector": lambda: _long_vector_agrees("laplace", bound(LAPLACE), (1.0, 2.0, 24.0)),
    },
    laws=("L10",),
    remarks="Coq has the algebra; the two moments are hypotheses, which SymPy integrates.",
)

ONE_HOT = Theorem(
    id="T1o",
    title="Alignment of a one-hot vector",
    conclusion=eq(alignment, 1 / d),
    hypotheses=(
        PHI,
        Hypothesis("inside", lt(k, d), "k is a coordinate"),
        Hypothesis("hot", ne(corrected[k], 0), "which is not zero"),
        Hypothesis(
            "others_zero",
            ForAll(((l, d),), Implies((ne(l, k),), eq(corrected[l], 0))),
            "all others are",
        ),
    ),
    words="If one coordinate alone is not zero, phi is {least}.",
    numbers={"least": 1 / d},
    good_for="The sparsest vectors are the worst input of both scales (T1h, T1i).",
    source="ours",
    example=lambda: instance(ONE_HOT, "one coordinate of 64", of_vector(np.eye(64)[5], "l1") | {"k": 5}),
    where=(ALIGNMENT,),
    laws=("L10",),
)

THEOREMS = (LONG, GAUSSIAN, LAPLACE, ONE_HOT)
