"""T2a, T2b: error feedback makes compression errors telescope through any linear recurrence, one- or two-sided."""

from __future__ import annotations

import numpy as np
import sympy as sp

from theory.theorem import Example, Link, Status, Theorem, WrongVariant

# Matrices as non-commuting symbols: the state map A_t, the input map B_t, and their values one step later.
A, A_next, B, B_next = sp.symbols("A A_+ B B_+", commutative=False)
e, e_next, e_before = sp.symbols("e e_+ e_-", commutative=False)  # pending errors
p, p_next, c_next = sp.symbols("p p_+ c_+", commutative=False)  # input, next input, next decoded message
z, z_exact, R = sp.symbols("z z^* R", commutative=False)  # states with and without compression, the remainder


def feedback_step(exact_state: sp.Expr, state: sp.Expr) -> sp.Expr:
    """One step of both recurrences on symbols: z*_+ - z_+ when c_+ was sent instead of p_+."""
    return (A_next * exact_state + B_next * p_next) - (A_next * state + B_next * c_next)


def proof_one_sided() -> tuple[Link, ...]:
    """Induction: z* - z = B_t e_t + R_t with R_{t+1} = A_{t+1} R_t + (A_{t+1} B_t - B_{t+1}) e_t."""
    message = p_next + e - e_next  # c_+ = C(p_+ + e) and e_+ = p_+ + e - c_+
    stepped = feedback_step(z + B * e + R, z).subs(c_next, message)
    remainder = A_next * R + (A_next * B - B_next) * e
    constant = sp.Symbol("a", positive=True)
    factor = constant / (1 + constant)  # a scalar A in (0, 1)
    gain, worst = sp.symbols("b E", positive=True)
    short, less = sp.symbols("r s", nonnegative=True)
    return (
        Link("the error is what was not sent", (p_next + e) - message, e_next),
        Link("base: nothing sent, nothing pending", (B * e + R).subs({e: 0, R: 0}), sp.Integer(0)),
        Link("step: the difference has the claimed form again", sp.expand(stepped),
             sp.expand(B_next * e_next + remainder)),
        Link("a plain sum (A = 1, B constant) leaves the last error only",
             sp.expand(remainder.subs({A_next: 1, B_next: B})), R),
        Link("scalar A in (0, 1), e = E - s, R = B E - r: the remainder stays below B E",
             factor * (gain * worst - short) + (1 - factor) * gain * (worst - less), gain * worst,
             (factor * short, sp.factor(1 - factor) * gain * less)),
        Link("so the difference stays below 2 B E", gain * (worst - less) + (gain * worst - short), 2 * gain * worst,
             (gain * less, short)),
    )  # fmt: skip


def proof_two_sided() -> tuple[Link, ...]:
    """Worker and server errors act as one error Delta = mean_i delta_i + server error; N = 3 written out."""
    n = 3
    inputs = sp.symbols("p_1:4", real=True)
    old, sent = sp.symbols("delta_1:4", real=True), sp.symbols("c_1:4", real=True)
    server_old, decoded = sp.symbols("s_- c", real=True)
    new = [x + y - message for x, y, message in zip(inputs, old, sent, strict=True)]
    server_input = sum(sent) / n + server_old
    server_new = server_input - decoded
    pending_old, pending_new = sum(old) / n + server_old, sum(new) / n + server_new
    weights, weight_next = sp.symbols("k k_+", real=True)
    return (
        Link("what is decoded is the mean input plus the change of Delta", decoded,
             sum(inputs) / n + pending_old - pending_new),
        Link("with c = p + e_- - e the one-sided induction applies to e = Delta",
             sum(inputs) / n + pending_old - decoded, pending_new),
        Link("Delta is linear in the workers' errors, whatever the compressors",
             sp.expand(weights * pending_new - weight_next * pending_new),
             sp.expand((weights - weight_next) * pending_new)),
    )  # fmt: skip


def bound(state_map: float = 0.9, gain: float = 1.0, error: float = 1.0) -> float:
    """Largest distance between the recurrences with and without compression: B E for a sum, 2 B E for A in (0, 1)."""
    if not 0 <= state_map <= 1:
        raise ValueError(f"the state map must lie in [0, 1], got {state_map}")
    return gain * error * (1.0 if state_map == 1 else 2.0)


def simulate(state_map: float, errors_T: np.ndarray, *, feedback: bool = True) -> np.ndarray:
    """z*_t - z_t for prescribed pending errors (with feedback) or per-step losses (without), B = 1."""
    losses = np.diff(np.r_[0.0, errors_T]) if feedback else errors_T
    gap, gaps = 0.0, []
    for loss in losses:
        gap = state_map * gap + loss
        gaps.append(gap)
    return np.array(gaps)


def example() -> Example:
    """The error keeps one sign for 100 steps, then flips."""
    gaps = simulate(0.9, np.r_[-np.ones(100), 1.0])
    return Example("A = 0.9, error -1 for 100 steps, then +1", float(np.abs(gaps).max()), bound(0.9))


def example_two_sided() -> Example:
    """Worker and server errors of 1/2 each, moving together."""
    gaps = simulate(0.9, np.r_[-np.ones(100), 1.0] * 0.5) + simulate(0.9, np.r_[-np.ones(100), 1.0] * 0.5)
    return Example("A = 0.9, worker and server errors 1/2 in step", float(np.abs(gaps).max()), bound(0.9))


def _wrong_step(message: sp.Expr, claimed: sp.Expr) -> bool:
    stepped = sp.expand(feedback_step(z + B * e + R, z).subs(c_next, message))
    return sp.expand(stepped - claimed) != 0


_good = p_next + e - e_next
_claim = B_next * e_next + A_next * R + (A_next * B - B_next) * e

ONE_SIDED = Theorem(
    id="T2a",
    title="Error feedback telescopes through any linear recurrence",
    words="If z_t = A_t z_{t-1} + B_t c_t is fed decoded messages c_t = p_t + e_{t-1} - e_t instead of p_t, it "
    "differs from the uncompressed recurrence by B_t e_t plus a remainder driven by (A_{t+1} B_t - B_{t+1}) "
    "e_t: pending errors, never a sum of past compression errors. For A in (0, 1) and abs(e) <= E the "
    "difference stays below 2 B E.",
    statement=(
        sp.Eq(z_exact - z, B * e + R),
        sp.Eq(sp.Symbol("R_+", commutative=False), A_next * R + (A_next * B - B_next) * e),
    ),
    hypotheses=(
        "e_0 = 0",
        "e_t = p_t + e_{t-1} - c_t with the very c_t that was applied",
        "A_t, B_t linear, else arbitrary",
    ),
    source="ours; the argument of error feedback (Stich et al. 2018; Karimireddy et al. 2019) without its special "
    "cases",
    status=Status.PROVED,
    proof=proof_one_sided,
    bound=bound,
    example=example,
    wrong_variants=(
        WrongVariant("the pending error is subtracted, not added", lambda: _wrong_step(p_next - e - e_next, _claim)),
        WrongVariant("remainder driven by (A + 1) B", lambda: _wrong_step(_good, _claim + 2 * B_next * e)),
        WrongVariant("the difference is B e alone, whatever A is", lambda: _wrong_step(_good, B_next * e_next)),
        WrongVariant("half the bound, B E, for A = 0.9", lambda: example().attained > bound(0.9) / 2),
        WrongVariant(
            "no feedback: losses of size 1 through a sum stay bounded",
            lambda: bool(np.abs(simulate(1.0, np.ones(50), feedback=False)).max() > 10 * bound(1.0)),
        ),
    ),
    laws=("L1", "L2"),
    remarks="A_t and B_t may be matrices and change with t (schedules, preconditioners); the symbols do not "
    "commute in the proof. The bound's links are for a scalar A in (0, 1) and constant B.",
)

TWO_SIDED = Theorem(
    id="T2b",
    title="Two-sided error feedback telescopes",
    words="With error feedback at N workers and at the server, what is decoded equals the mean input plus "
    "Delta_{t-1} - Delta_t, Delta = mean_i delta_i + server error: T2a applies with e = Delta, for any "
    "compressors and any chunks.",
    statement=(
        sp.Eq(
            sp.Symbol("c_t"),
            sp.Symbol(r"\bar{p}_t") + sp.Symbol(r"\Delta_{t-1}") - sp.Symbol(r"\Delta_t"),
        ),
    ),
    hypotheses=("every error is what its own compressor left", "workers are averaged with equal weights 1/N"),
    source="DoubleSqueeze (Tang et al. 2019) for SGD; here for any linear recurrence",
    status=Status.PROVED,
    proof=proof_two_sided,
    bound=bound,
    example=example_two_sided,
    wrong_variants=(
        WrongVariant("worker errors count with weight 1, not 1/N", lambda: _two_sided_variant(worker_weight=1)),
        WrongVariant("the server error is subtracted", lambda: _two_sided_variant(server_sign=-1)),
        WrongVariant("the server keeps no error", lambda: _two_sided_variant(server_sign=0)),
    ),
    laws=("L1",),
    remarks="Written out for N = 3; every expression is linear and symmetric in the workers.",
)


def _two_sided_variant(*, worker_weight: float = 0, server_sign: int = 1) -> bool:
    """Whether the conservation identity fails with a changed definition of Delta (N = 3)."""
    inputs, old, sent = sp.symbols("p_1:4"), sp.symbols("delta_1:4"), sp.symbols("c_1:4")
    server_old, decoded = sp.symbols("s_- c")
    weight = sp.Integer(1) if worker_weight else sp.Rational(1, 3)
    new = [x + y - message for x, y, message in zip(inputs, old, sent, strict=True)]
    server_new = sum(sent) / 3 + server_old - decoded
    change = weight * (sum(old) - sum(new)) + server_sign * (server_old - server_new)
    return not Link("wrong", decoded, sum(inputs) / 3 + change).holds()


THEOREMS = (ONE_SIDED, TWO_SIDED)
