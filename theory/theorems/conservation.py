"""T3a-T3d: what is conserved (law L1) by 1-bit Adam, momentum SGD, 1-bit LAMB and 0/1 Adam, for any compressor."""

from __future__ import annotations

import numpy as np
import sympy as sp

from theory.notation import beta1
from theory.theorem import Example, Link, Status, Theorem, WrongVariant

N_WORKERS = 3
momentum, server_error, decoded = sp.symbols(r"m \bar{\delta} c", real=True)
grads = sp.symbols("g_1:4", real=True)
errors = sp.symbols("delta_1:4", real=True)
sent = sp.symbols("c_1:4", real=True)  # decoded worker messages: any numbers at all, so any compressor


def mean(values: tuple[sp.Expr, ...] | list[sp.Expr]) -> sp.Expr:
    """Mean over the workers."""
    return sp.Add(*values) / len(values)


def exchange(buffers: list[sp.Expr]) -> tuple[sp.Expr, sp.Expr]:
    """The compressed all-reduce on symbols: (decoded output, Delta after), with arbitrary messages."""
    corrected = [buffer + error for buffer, error in zip(buffers, errors, strict=True)]
    left = [u - message for u, message in zip(corrected, sent, strict=True)]
    server_input = mean(sent) + server_error
    return decoded, mean(left) + (server_input - decoded)


PENDING = mean(errors) + server_error


def proof_adam() -> tuple[Link, ...]:
    """Run the three lines of the algorithm, and two steps of it, on symbols."""
    output, pending = exchange([beta1 * momentum + (1 - beta1) * g for g in grads])
    gain = sp.Symbol("alpha", real=True)  # momentum SGD: m = beta m + alpha g, alpha = 1 or 1 - beta
    output_sgd, pending_sgd = exchange([beta1 * momentum + gain * g for g in grads])
    return (
        Link("L1: m' + Delta' = beta1 m + (1-beta1) mean g + Delta", output + pending,
             beta1 * momentum + (1 - beta1) * mean(grads) + PENDING),
        Link("any input weight, as in momentum SGD", output_sgd + pending_sgd,
             beta1 * momentum + gain * mean(grads) + PENDING),
        Link("a server without compression: its error stays what it was", (output + pending).subs(
            decoded, mean(sent) + server_error), beta1 * momentum + (1 - beta1) * mean(grads) + PENDING),
    )  # fmt: skip


def proof_sgd() -> tuple[Link, ...]:
    """The same for m = beta1 m + alpha g, and its special case without momentum (DoubleSqueeze)."""
    gain = sp.Symbol("alpha", real=True)
    output, pending = exchange([beta1 * momentum + gain * g for g in grads])
    plain, pending_plain = exchange([gain * g for g in grads])
    return (
        Link("m' + Delta' = beta1 m + alpha mean g + Delta", output + pending,
             beta1 * momentum + gain * mean(grads) + PENDING),
        Link("no momentum: c + Delta' = alpha mean g + Delta", plain + pending_plain, gain * mean(grads) + PENDING),
    )  # fmt: skip


layer_scale, layer_scale_after = sp.symbols("s s_+", positive=True)


def _lamb(scale_now: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
    """1-bit LAMB: compress s m, unscale what is decoded. Returns (momentum after, Delta after in scaled units)."""
    output, pending = exchange([scale_now * (beta1 * momentum + (1 - beta1) * g) for g in grads])
    return output / scale_now, pending


def proof_lamb() -> tuple[Link, ...]:
    """Per-layer scale s, fixed at the freeze; then the exact defect if it changes; then the reconstructed gradient."""
    after, pending = _lamb(layer_scale)
    after_changed, pending_changed = _lamb(layer_scale_after)
    exact = beta1 * momentum + (1 - beta1) * mean(grads)
    return (
        Link("fixed s: m' + Delta'/s = beta1 m + (1-beta1) mean g + Delta/s", after + pending / layer_scale,
             exact + PENDING / layer_scale),
        Link("s changes to s_+: the defect is (1/s_+ - 1/s) Delta", after_changed + pending_changed / layer_scale_after,
             exact + PENDING / layer_scale + (1 / layer_scale_after - 1 / layer_scale) * PENDING),
        Link("the gradient that feeds v_fresh carries the change of Delta", (after - beta1 * momentum) / (1 - beta1),
             mean(grads) + (PENDING - pending) / (layer_scale * (1 - beta1))),
    )  # fmt: skip


lr, precondition, params = sp.symbols("gamma P x", positive=True)


def _zero_one_round(steps: int) -> tuple[sp.Expr, sp.Expr]:
    """0/1 Adam between two synchronisations: (mean of u_i, its claimed closed form), ``steps`` local half-steps."""
    local = sp.symbols(f"g_1:{N_WORKERS + 1}_1:{steps + 1}", real=True)
    total = []
    for worker in range(N_WORKERS):
        m_i, u_i = momentum, sp.Integer(0)
        for k in range(steps):
            m_i = beta1 * m_i + (1 - beta1) * local[worker * steps + k]
            u_i = u_i + lr * m_i
        total.append(u_i)
    means = [mean([local[worker * steps + k] for worker in range(N_WORKERS)]) for k in range(steps)]
    geometric = sp.Add(*(beta1**k for k in range(1, steps + 1)))
    weights = [1 - beta1 ** (steps - k) for k in range(steps)]
    return mean(total), lr * (geometric * momentum + sp.Add(*(w * g for w, g in zip(weights, means, strict=True))))


def proof_zero_one() -> tuple[Link, ...]:
    """Conservation of u at the synchronisation; what u accumulates, by induction on the number of local steps."""
    accumulated = sp.symbols("u_1:4", real=True)
    output, pending = exchange(list(accumulated))
    power, geometric, weight, sum_now, grad = sp.symbols("B S omega U g", real=True)  # B = beta1^H
    fresh = beta1 * power * momentum + (1 - beta1) * grad  # the new momentum: beta1^(H+1) m + ... + (1-beta1) g_H+1
    links = [
        Link("at a synchronisation: c + Delta' = mean u + Delta", output + pending, mean(accumulated) + PENDING),
        Link("so z = x - P Delta steps by P mean u", (params - precondition * output) - precondition * pending,
             (params - precondition * PENDING) - precondition * mean(accumulated)),
        Link("induction: the old momentum's weight S_H gains beta1^(H+1)",
             (sum_now + lr * geometric * momentum) + lr * fresh,
             sum_now + lr * (geometric + beta1 * power) * momentum + lr * (1 - beta1) * grad),
        Link("induction: a gradient's weight 1 - beta1^k becomes 1 - beta1^(k+1)",
             (1 - weight) + (1 - beta1) * weight, 1 - beta1 * weight),
    ]  # fmt: skip
    for steps in (1, 2, 4):
        run, claimed = _zero_one_round(steps)
        links.append(Link(f"{steps} local steps run on symbols", run, claimed))
    return tuple(links)


def residual(beta1: float = 0.9, momentum: float = 0.0, grad: float = 0.0, pending: float = 0.0) -> float:
    """What m' + Delta' must be."""
    return beta1 * momentum + (1 - beta1) * grad + pending


def _numeric(kind: str) -> Example:
    """One numeric step with a scaled sign, in dyadic arithmetic (exact): attained against claimed."""
    g, m, delta, server = (
        np.array([[1.0, -3.0], [2.0, 5.0]]),
        np.array([0.5, -0.5]),
        np.array([[1.0, 0], [0, 0.5]]),
        0.25,
    )
    beta, gain = 0.5, {"adam": 0.5, "sgd": 1.0, "lamb": 0.5, "zero-one": 0.5}[kind]
    scale = 4.0 if kind == "lamb" else 1.0
    before = delta.mean(0) + server
    u = scale * (beta * m + gain * g) + delta
    messages = np.abs(u).mean(1, keepdims=True) * np.where(u >= 0, 1, -1)
    w = messages.mean(0) + server
    output = np.abs(w).mean() * np.where(w >= 0, 1, -1)
    after = (u - messages).mean(0) + (w - output)
    attained = output / scale + after / scale
    claimed = beta * m + gain * g.mean(0) + before / scale
    return Example("one exact dyadic step, first coordinate", float(attained[0]), float(claimed[0]))


def _refuted(lhs: sp.Expr, rhs: sp.Expr) -> bool:
    return not Link("wrong", lhs, rhs).holds()


def _adam_step() -> sp.Expr:
    output, pending = exchange([beta1 * momentum + (1 - beta1) * g for g in grads])
    return output + pending


_after, _before = sp.Symbol(r"\bar{m}_t + \Delta_t"), sp.Symbol(r"\bar{m}_{t-1}")
_gbar, _pending = sp.Symbol(r"\bar{g}_t"), sp.Symbol(r"\Delta_{t-1}")
_same_weights = "every worker averages with weight 1/N; each error is what its own compressor left of its own input"
_remark = (
    "Written out for N = 3 workers; every line is linear and symmetric in them. The messages are free symbols, so "
)

ADAM = Theorem(
    id="T3a",
    title="Conservation law of 1-bit Adam",
    words="m_t + Delta_t = beta1 m_{t-1} + (1-beta1) mean g_t + Delta_{t-1}, whatever the compressors send.",
    statement=(sp.Eq(_after, beta1 * _before + (1 - beta1) * _gbar + _pending),),
    hypotheses=(_same_weights,),
    source="ours; used implicitly in the proof of Theorem 1 of Tang et al. 2021",
    status=Status.PROVED,
    proof=proof_adam,
    bound=residual,
    example=lambda: _numeric("adam"),
    wrong_variants=(
        WrongVariant("Delta without the server error",
                     lambda: _refuted(_adam_step(), beta1 * momentum + (1 - beta1) * mean(grads) + mean(errors))),
        WrongVariant("Delta subtracted on the right",
                     lambda: _refuted(_adam_step(), beta1 * momentum + (1 - beta1) * mean(grads) - PENDING)),
        WrongVariant("half of the gradient's weight",
                     lambda: _refuted(_adam_step(), beta1 * momentum + (1 - beta1) * mean(grads) / 2 + PENDING)),
        WrongVariant("errors decay by beta1",
                     lambda: _refuted(_adam_step(), beta1 * (momentum + PENDING) + (1 - beta1) * mean(grads))),
    ),
    laws=("L1",),
    remarks=_remark + "no property of the compressor is used, only that what is sent is what is subtracted.",
)  # fmt: skip

SGD = Theorem(
    id="T3b",
    title="Conservation law of compressed momentum SGD",
    words="m_t + Delta_t = beta1 m_{t-1} + alpha mean g_t + Delta_{t-1} for any input weight alpha; without "
    "momentum it is the law of DoubleSqueeze.",
    statement=(sp.Eq(_after, beta1 * _before + sp.Symbol("alpha") * _gbar + _pending),),
    hypotheses=(_same_weights,),
    source="ours; DoubleSqueeze (Tang et al. 2019) for beta1 = 0",
    status=Status.PROVED,
    proof=proof_sgd,
    bound=residual,
    example=lambda: _numeric("sgd"),
    wrong_variants=(
        WrongVariant("the weight (1-beta1) is built in", lambda: _refuted(
            exchange_sum(1), beta1 * momentum + (1 - beta1) * mean(grads) + PENDING)),
        WrongVariant("the sum of the gradients, not the mean", lambda: _refuted(
            exchange_sum(1), beta1 * momentum + sp.Add(*grads) + PENDING)),
        WrongVariant("errors enter negatively", lambda: _refuted(
            exchange_sum(1), beta1 * momentum + mean(grads) - PENDING)),
    ),
    laws=("L1",),
    remarks=_remark + "any compressor is covered.",
)  # fmt: skip


def exchange_sum(gain: int) -> sp.Expr:
    """m' + Delta' of momentum SGD with input weight ``gain``."""
    output, pending = exchange([beta1 * momentum + gain * g for g in grads])
    return output + pending


def _lamb_sum(weight_of_pending: sp.Expr) -> bool:
    after, pending = _lamb(layer_scale)
    exact = beta1 * momentum + (1 - beta1) * mean(grads)
    return _refuted(after + pending * weight_of_pending, exact + PENDING * weight_of_pending)


LAMB = Theorem(
    id="T3c",
    title="Conservation law of 1-bit LAMB",
    words="With the per-layer scales s fixed at the freeze, 1-bit LAMB conserves m + Delta/s; if s changes, the "
    "law fails by exactly (1/s_+ - 1/s) Delta. Its reconstructed gradient is off by the change of Delta/s, "
    "over 1 - beta1.",
    statement=(
        sp.Eq(
            sp.Symbol(r"\bar{m}_t + \Delta_t/s"),
            beta1 * _before + (1 - beta1) * _gbar + sp.Symbol(r"\Delta_{t-1}/s"),
        ),
    ),
    hypotheses=(_same_weights, "the scales are positive and constant after the freeze"),
    source="ours, for the update of Li et al. 2021 (2104.06069) as described in docs/published.md",
    status=Status.PROVED,
    proof=proof_lamb,
    bound=residual,
    example=lambda: _numeric("lamb"),
    wrong_variants=(
        WrongVariant("Delta counted in unscaled units", lambda: _lamb_sum(sp.Integer(1))),
        WrongVariant("Delta multiplied by s", lambda: _lamb_sum(layer_scale)),
        WrongVariant("the reconstructed gradient is the mean gradient", lambda: _refuted(
            (_lamb(layer_scale)[0] - beta1 * momentum) / (1 - beta1), mean(grads))),
        WrongVariant("a changing s does no harm", lambda: _refuted(
            _lamb(layer_scale_after)[0] + _lamb(layer_scale_after)[1] / layer_scale_after,
            beta1 * momentum + (1 - beta1) * mean(grads) + PENDING / layer_scale)),
    ),
    laws=("L1",),
    remarks="The reconstructed gradient enters v_fresh squared, and squares do not telescope (T4a): the clip of r to "
    "[0.5, 4] is what bounds the damage. L2 for LAMB is T3g: its step size changes every step.",
)  # fmt: skip

ZERO_ONE = Theorem(
    id="T3d",
    title="Conservation law of 0/1 Adam",
    words="At every synchronisation c + Delta' = mean u + Delta, so z = x - P Delta steps by P mean u exactly; "
    "with a constant learning rate u accumulates gamma (S_H m + sum_j (1 - beta1^{H-j+1}) mean g_j), S_H = "
    "beta1 + ... + beta1^H.",
    statement=(
        sp.Eq(sp.Symbol(r"z_{\tau+1}"), sp.Symbol(r"z_\tau") - sp.Symbol("P") * sp.Symbol(r"\bar{u}")),
    ),
    hypotheses=(_same_weights, "P constant over the round (no T_v inside it)", "constant learning rate in a round"),
    source="ours, for the update of Lu et al. 2022 (2202.06009) as described in docs/published.md",
    status=Status.PROVED,
    proof=proof_zero_one,
    bound=residual,
    example=lambda: _numeric("zero-one"),
    wrong_variants=(
        WrongVariant("every gradient of a round weighs 1 - beta1", lambda: _refuted(
            _zero_one_round(2)[0], _zero_one_wrong(equal_weights=True))),
        WrongVariant("the old momentum counts H times", lambda: _refuted(
            _zero_one_round(2)[0], _zero_one_wrong(equal_weights=False))),
        WrongVariant("z = x + P Delta", lambda: _refuted(
            (params - precondition * exchange(list(grads))[0]) + precondition * exchange(list(grads))[1],
            (params + precondition * PENDING) - precondition * mean(grads))),
    ),
    laws=("L1",),
    remarks="Local parameters differ between synchronisations, so the g_j are taken at different points; the law "
    "is about what is added up. A change of P by T_v inside a round, or of P at all while Delta is "
    "pending, adds (P_+ - P) Delta.",
)  # fmt: skip


def _zero_one_wrong(*, equal_weights: bool) -> sp.Expr:
    local = sp.symbols(f"g_1:{N_WORKERS + 1}_1:3", real=True)
    means = [mean(local[k::2]) for k in range(2)]
    if equal_weights:
        return lr * ((beta1 + beta1**2) * momentum + (1 - beta1) * (means[0] + means[1]))
    return lr * (2 * momentum + (1 - beta1**2) * means[0] + (1 - beta1) * means[1])


THEOREMS = (ADAM, SGD, LAMB, ZERO_ONE)
