"""T8a: the lazy error and the implicit momentum (docs/algorithm.md) equal the eager form operation by operation.

Eager: keep delta; after compressing store delta <- fl(u - fl(s q)), and mbar <- fl(S Q) as floats.
Lazy:  keep u and s; the NEXT step forms fl(u - fl(s sgn(u))) in registers; mbar is kept as bits and scales.

Rounding is an uninterpreted function ``fl`` here: two forms that build the same expression are equal in every
arithmetic, fused or not, so the proof is about bits and not about real numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import sympy as sp

from theory.notation import beta1
from theory.theorem import Example, Link, Status, Theorem, WrongVariant


class Rounded(sp.Function):
    """Rounding to the working precision; all that is known of it is that 0 stays 0."""

    @classmethod
    def eval(cls, *args: Any) -> Any:
        """Evaluate at 0 only."""
        return sp.S.Zero if args[0] == 0 else None


class Sign(sp.Function):
    """The sign bit of C2 as +1 or -1; all that is known of it is that the sign of 0 is +1."""

    @classmethod
    def eval(cls, *args: Any) -> Any:
        """Evaluate at 0 only."""
        return sp.S.One if args[0] == 0 else None


class Scale(sp.Function):
    """The scale of a vector, written as a function of its generic coordinate; the scale of 0 is 0."""

    @classmethod
    def eval(cls, *args: Any) -> Any:
        """Evaluate at 0 only."""
        return sp.S.Zero if args[0] == 0 else None


def fl(exact: sp.Expr) -> sp.Expr:
    """Round."""
    return cast(sp.Expr, Rounded(exact))


def sgn(u: sp.Expr) -> sp.Expr:
    """Sign of C2."""
    return cast(sp.Expr, Sign(u))


def scale(u: sp.Expr) -> sp.Expr:
    """Scale of C1."""
    return cast(sp.Expr, Scale(u))


@dataclass(frozen=True)
class Trace:
    """What a worker makes visible: its messages (sign, scale) step by step, and the error pending at the end."""

    messages: tuple[tuple[sp.Expr, sp.Expr], ...]
    pending: sp.Expr


def new_error(u: sp.Expr, s: sp.Expr, q: sp.Expr) -> sp.Expr:
    """fl(u - fl(s q)): the one place where an error is formed."""
    return fl(u - fl(s * q))


def corrected(momentum: sp.Expr, gradient: sp.Expr, error: sp.Expr) -> sp.Expr:
    """fl(fl(fl(beta1 mbar) + fl((1-beta1) g)) + delta)."""
    return fl(fl(fl(beta1 * momentum) + fl((1 - beta1) * gradient)) + error)


def eager(momenta: tuple[sp.Expr, ...], gradients: tuple[sp.Expr, ...], error: sp.Expr) -> Trace:
    """Section 2 of the specification: the error is formed as soon as the message is."""
    messages: list[tuple[sp.Expr, sp.Expr]] = []
    for momentum, gradient in zip(momenta, gradients, strict=True):
        u = corrected(momentum, gradient, error)
        s, q = scale(u), sgn(u)
        error = new_error(u, s, q)
        messages.append((q, s))
    return Trace(tuple(messages), error)


def lazy(
    momenta: tuple[sp.Expr, ...], gradients: tuple[sp.Expr, ...], u: sp.Expr, s: sp.Expr, fault: str = ""
) -> Trace:
    """Section 5: keep (u, s), form the error when it is needed. ``fault`` names a wrong variant, for the tests."""
    messages: list[tuple[sp.Expr, sp.Expr]] = []
    for momentum, gradient in zip(momenta, gradients, strict=True):
        stored = fl(u) if fault == "stored in fewer bits" else u
        u = corrected(momentum, gradient, new_error(stored, s, sgn(stored)))
        if fault == "old scale sent":
            messages.append((sgn(u), s))
        s = scale(stored) if fault == "scale of the previous u" else scale(u)
        if fault != "old scale sent":
            messages.append((sgn(u), s))
    return Trace(tuple(messages), new_error(u, s, sgn(u)))


def symbols(steps: int) -> tuple[tuple[sp.Expr, ...], tuple[sp.Expr, ...]]:
    """Free momenta and gradients, one per step."""
    return sp.symbols(f"m1:{steps + 1}", real=True), sp.symbols(f"g1:{steps + 1}", real=True)


def equality_links(fault: str = "") -> tuple[Link, ...]:
    """Base: three steps from zero. Induction (the last three): one step from any (u, s), error fl(u - fl(s sgn u))."""
    momenta, gradients = symbols(3)
    want, have = eager(momenta, gradients, sp.S.Zero), lazy(momenta, gradients, sp.S.Zero, sp.S.Zero, fault)
    links: list[Link] = []
    for step, (left, right) in enumerate(zip(want.messages, have.messages, strict=True), 1):
        links += [
            Link(f"from zero errors, step {step}: the same bit is sent", left[0], right[0]),
            Link(f"from zero errors, step {step}: the same scale is sent", left[1], right[1]),
        ]
    u, s = sp.symbols("u s", positive=True)
    one = eager(momenta[:1], gradients[:1], new_error(u, s, sgn(u)))
    other = lazy(momenta[:1], gradients[:1], u, s, fault)
    links += [
        Link("induction: from any stored (u, s) the same bit is sent", one.messages[0][0], other.messages[0][0]),
        Link("induction: from any stored (u, s) the same scale is sent", one.messages[0][1], other.messages[0][1]),
        Link("induction: and the same error is pending", one.pending, other.pending),
    ]
    return tuple(links)


def implicit_momentum_links(exact_sign: bool = True) -> tuple[Link, ...]:
    """mbar kept as bits and scales is recomputed by the multiplication that made it."""
    w, server = sp.symbols("w S_j", positive=True)
    bits = (1 + sgn(w)) / 2  # 1 for +1, 0 for -1
    sign = 2 * bits - 1 if exact_sign else bits
    return (
        Link("unpacked bit 2 b - 1 is the sign that was packed", 2 * bits - 1, sgn(w)),
        Link("mbar = fl(S Q) recomputed from the bits is the stored mbar", fl(server * sgn(w)), fl(server * sign)),
    )


def proof() -> tuple[Link, ...]:
    """Worker and server (same recursion with w for u), then the momentum."""
    return (*equality_links(), *implicit_momentum_links())


def simulate(lazy_form: bool, bits_of_u: int = 32, steps: int = 25, dim: int = 37) -> np.ndarray:
    """float32 messages of one worker over ``steps`` steps, (steps, dim); gradients include both zeros."""
    rng = np.random.default_rng(7)
    beta, rest = np.float32(0.9), np.float32(1) - np.float32(0.9)
    momentum, error = np.zeros(dim, np.float32), np.zeros(dim, np.float32)
    stored, old_scale = np.zeros(dim, np.float32), np.float32(0)
    sent: list[np.ndarray] = []
    for _ in range(steps):
        gradient = rng.standard_normal(dim).astype(np.float32)
        gradient[::5], gradient[1::5] = np.float32(0.0), np.float32(-0.0)
        if lazy_form:
            error = stored - old_scale * np.where(stored >= 0, np.float32(1), np.float32(-1))
        u = beta * momentum + rest * gradient + error
        sign = np.where(u >= 0, np.float32(1), np.float32(-1))
        size = np.float32(np.sqrt(np.mean(u.astype(np.float64) ** 2)))
        error = u - size * sign
        keep = np.int64(-1) << (32 - bits_of_u)
        stored, old_scale = (u.view(np.int32) & keep.astype(np.int32)).view(np.float32), size
        momentum = size * sign
        sent.append(momentum.copy())
    return np.array(sent)


def bitwise_equal(bits_of_u: int = 32) -> bool:
    """Whether the two float32 programs send the same bits for 25 steps, zeros of both signs included."""
    return simulate(False).tobytes() == simulate(True, bits_of_u).tobytes()


def differing_messages(n_steps: float) -> float:
    """How many messages of ``n_steps`` steps differ between the two forms: none."""
    return 0.0 * n_steps


THEOREM = Theorem(
    id="T8a",
    title="Lazy error and implicit momentum are bitwise the eager form",
    words=(
        "Storing u and s and forming δ = u - s·sgn(u) one step later, and storing m̄ as bits and scales, sends the"
        " same bits and the same scales at every step, in any arithmetic."
    ),
    statement=(
        sp.Eq(sp.Symbol("delta_eager"), fl(sp.Symbol("u") - fl(sp.Symbol("s") * sgn(sp.Symbol("u")))), evaluate=False),
        sp.Eq(sp.Symbol("m_eager"), fl(sp.Symbol("S_j") * sgn(sp.Symbol("w"))), evaluate=False),
    ),
    hypotheses=(
        "u is stored in the precision in which it was computed",
        "the same expression is compiled the same way in both places (both fused, or both not)",
        "fl(0) = 0 and sgn(±0) = +1 (C2); the state starts as u = 0, s = 0",
    ),
    source="ours",
    status=Status.PROVED,
    proof=proof,
    bound=differing_messages,
    example=lambda: Example(
        "float32 messages equal in 25 steps, of 25 x 37", float(np.sum(simulate(False) == simulate(True))), 25.0 * 37.0
    ),
    numeric_checks={"two float32 programs agree bitwise for 25 steps, zeros of both signs included": bitwise_equal},
    wrong_variants=(
        WrongVariant("u stored in fewer bits", lambda: not equality_links("stored in fewer bits")[-3].holds()),
        WrongVariant(
            "the scale that belongs to the previous u",
            lambda: not equality_links("scale of the previous u")[-2].holds(),
        ),
        WrongVariant(
            "the stored scale is sent before it is renewed",
            lambda: not equality_links("old scale sent")[-2].holds(),
        ),
        WrongVariant(
            "bits unpacked to 0 and 1 instead of -1 and +1",
            lambda: not all(link.holds() for link in implicit_momentum_links(exact_sign=False)),
        ),
        WrongVariant("u stored with 16 bits: the float32 programs part", lambda: not bitwise_equal(bits_of_u=16)),
    ),
    laws=("C2", "L5"),
    remarks=(
        "Induction runs over steps: equal messages give equal m̄ on the next step. The first compressed step reads"
        " Adam's m as floats, since m̄ is ±S_j only after it."
    ),
)
