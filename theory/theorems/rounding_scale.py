"""T11c: the scale of a compressed vector, summed in any order of depth h."""

from __future__ import annotations

import numpy as np
import sympy as sp

from theory.notation import roundoff
from theory.rounding import scale_tolerance
from theory.symbolic import Rounder, inequality
from theory.theorem import Example, Link, Status, Theorem, WrongVariant

depth = sp.Symbol("h", integer=True, nonnegative=True)


def _l1_tree(fl: Rounder) -> sp.Expr:
    """Mean of three magnitudes, added in sequence (depth 2 for the first two), reciprocal of d, stored."""
    a, b, c = sp.symbols("a b c", nonnegative=True)
    total = fl("add 2", fl("add 1", a + b) + c)
    return fl("store", fl("mul", total * fl("reciprocal", sp.Rational(1, 3))))


def proof() -> tuple[Link, ...]:
    """A sum of non-negative terms keeps its relative error; the root halves it; norms are Lipschitz in u."""
    a, b, c = sp.symbols("a b c", nonnegative=True)
    fl = Rounder()
    computed = _l1_tree(fl)
    tail = ("reciprocal", "mul", "store")
    claimed = (
        (a + b) * fl.factors(("add 1", "add 2", *tail)) + c * fl.factors(("add 2", *tail))
    ) / 3  # depth 2: h + 2 roundings in the accumulator, one in storage; d itself may cost one more
    theta = sp.Symbol("z", positive=True)
    small = 1 / (1 + theta)  # gamma in (0, 1)
    root, e = sp.Symbol("r", positive=True), sp.Symbol("e", positive=True)
    f, part = sp.symbols("f p", nonnegative=True)
    first, second = sp.symbols("u_1 u_2", real=True)
    r, s = sp.symbols("r s", real=True)
    return (
        Link("l1: every term's roundings (depth 2)", computed, claimed),
        Link(
            "relative errors of non-negative terms do not amplify",
            a * (small - f) + b * (small - part),
            small * (a + b),
            slack=(a * f, b * part),
        ),
        inequality("root, upper side: (1 + gamma/2)^2 >= 1 + gamma", 1 + small, (1 + small / 2) ** 2),
        inequality(
            "root, lower side: 1 - sqrt(1 - gamma) >= gamma/2, so it is the larger side",
            1 - small,
            (1 - small / 2) ** 2,
        ),
        inequality("underflow, r = sqrt x: (r + sqrt e)^2 >= x + e", root**2 + e**2, (root + e) ** 2),
        inequality("underflow, r = sqrt x: (r + e/r)^2 >= x + e", root**2 + e, (root + e / root) ** 2),
        inequality("underflow downwards, x = e + p: (r - e/r)^2 = p^2/x <= x - e", part**2 / (e + part), part),
        Link(
            "Cauchy-Schwarz in two coordinates, hence the l2 scale moves by at most the l2 scale of the difference",
            (first * r + second * s) ** 2,
            (first**2 + second**2) * (r**2 + s**2),
            slack=((first * s - second * r) ** 2,),
        ),
    )


def bound(dim: int = 4, kind: str = "l1", depth: int | None = None, dtype: str = "float32") -> float:
    """Relative tolerance of the scale of ``dim`` ones."""
    return float(scale_tolerance(np.ones(int(dim)), "l1" if kind == "l1" else "l2", dtype, depth))


def measured_ratios(kind: str, dim: int, count: int, seed: int = 0) -> np.ndarray:
    """error/tolerance over ``count`` vectors, summed in sequence in float32 (depth dim - 1); float64 oracle."""
    u = np.random.default_rng(seed).standard_normal((count, dim)).astype(np.float32)
    terms = np.abs(u) if kind == "l1" else u * u
    total = terms[:, 0]
    for column in range(1, dim):
        total = total + terms[:, column]
    mean = total / np.float32(dim)
    computed = mean if kind == "l1" else np.sqrt(mean)
    wide = u.astype(np.float64)
    oracle = np.abs(wide).mean(1) if kind == "l1" else np.sqrt((wide * wide).mean(1))
    return np.abs(computed - oracle) / scale_tolerance(wide, "l1" if kind == "l1" else "l2", "float32")


def example() -> Example:
    """The worst of 40,000 sequential float32 sums of four magnitudes."""
    return Example("l1 scale of 4 coordinates, worst of 40,000", float(measured_ratios("l1", 4, 40_000).max()), 1.0)


def _depth_forgotten() -> bool:
    """A sequential float32 sum of 20,000 equal terms is further off than a bound without depth allows."""
    u = np.full(20_000, 0.1, dtype=np.float32)
    total = np.add.accumulate(u)[-1]
    error = abs(float(total) / u.size - float(u[0]))
    wide = u.astype(np.float64)
    return float(scale_tolerance(wide, "l1", "float32", 0)) < error <= float(scale_tolerance(wide, "l1", "float32"))


def _padding_counted() -> bool:
    """Counting d_pad instead of d shrinks the scale by more than any tolerance."""
    u = np.ones(5)
    return abs(5 / 8 - 1.0) > float(scale_tolerance(u, "l1", "bfloat16"))


def _squares_underflow() -> bool:
    """float32 squares of 1e-23 are 0: the l2 scale vanishes, and only the underflow term covers that."""
    u = np.full(4, 1e-23, dtype=np.float32)
    computed = float(np.sqrt((u * u).sum() / np.float32(4)))
    exact = float(u[0])
    error = abs(computed - exact)
    return error > 1e-3 * exact and error <= float(scale_tolerance(u.astype(np.float64), "l2", "float32"))


def _one_rounding_fewer() -> bool:
    fl = Rounder()
    computed = _l1_tree(fl)
    a, b, c = sp.symbols("a b c", nonnegative=True)
    claimed = ((a + b) * fl.factors(("add 1", "add 2", "mul", "store")) + c * fl.factors(("add 2", "mul", "store"))) / 3
    return not Link("wrong", computed, claimed).holds()


_scale, _computed = sp.Symbol("s", nonnegative=True), sp.Symbol(r"\mathrm{fl}(s)", nonnegative=True)
_k = depth + 4

THEOREM = Theorem(
    id="T11c",
    title="Scale of a reduction of depth h",
    words="The l1 scale is within (1 + gamma_{h+3})(1 + u) - 1 of the exact one, relatively; the l2 scale within half "
    "of gamma_{h+1}, four more roundings and the store, plus what squares lose to underflow; if u itself is off by "
    "tau, either scale moves by at most the scale of tau.",
    statement=(sp.Le(sp.Abs(_computed - _scale), _scale * _k * roundoff / (1 - _k * roundoff)),),
    hypotheses=(
        "no term goes through more than h additions in the accumulator format (h = d - 1 allows every order)",
        "d >= 1 counts live coordinates only and is at most one rounding away in the accumulator format",
        "no overflow: in float32, abs(u) < 1.8e19 for the l2 scale",
    ),
    source="ours; Higham, Chapter 4, for sums",
    status=Status.PROVED,
    proof=proof,
    bound=bound,
    example=example,
    wrong_variants=(
        WrongVariant("depth left out", _depth_forgotten),
        WrongVariant("padding counted in d", _padding_counted),
        WrongVariant("no underflow term for l2", _squares_underflow),
        WrongVariant("the reciprocal of d is free", _one_rounding_fewer),
    ),
    laws=("C1",),
    remarks="The symbolic run is for three terms; a longer sum adds one factor (1 + d) per level of the tree, which "
    "is what depth means. The norm's Lipschitz bound is certified in two coordinates; Cauchy-Schwarz in d coordinates "
    "is the sum of that identity over pairs (Lagrange). The bound for l2 covers sqrt(sum/d) and sqrt(sum)/sqrt(d).",
)
