"""T5a, T5e-T5g: errors under two-sided compression and momentum stay bounded, for every contractive compressor.

Notation of one step, n = 1 - beta1:  worker i compresses u_i = beta1 m + n g_i + delta_i and sends c_i; the server
compresses w = mean c_i + b and sends the next m; both keep what their message left. z = m + mean delta_i + b is the
momentum with the whole residual. Conservation (L1) gives z' = z - n m + n mean g_i whatever was sent, and with it
z^2 + weight * mean delta_i^2 shrinks in every step: the cross terms cancel, so no small gain is asked for. The proof
is ErrorFeedback.v, in root mean squares over outcomes; here there is one outcome (T5b and T5h have noise).
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import sympy as sp

from theory.formula import ForAll, eq, le, mean, norm_squared
from theory.notation import (
    N,
    Row,
    beta1,
    contraction,
    corrected,
    d,
    gradient_bound,
    grads,
    i,
    j,
    k,
    messages,
    momentum,
    server_error,
    server_input,
    t,
    worker_errors,
)
from theory.theorem import Example, Hypothesis, Theorem

heterogeneity = sp.Symbol("heterogeneity", nonnegative=True)
HETEROGENEITY = Row(
    heterogeneity, "H", "bound on the root mean square over workers of ||g_i - mean gradient||", default=1.0
)

INPUT = Hypothesis(
    "worker_input",
    ForAll(
        (t, (i, N), (k, d)),
        eq(
            corrected[t + 1, i, k],
            beta1 * momentum[t, k] + (1 - beta1) * grads[t + 1, i, k] + worker_errors[t, i, k],
        ),
    ),
    "each worker compresses its momentum plus its error",
)
FEEDBACK = Hypothesis(
    "worker_feedback",
    ForAll((t, (i, N), (k, d)), eq(worker_errors[t + 1, i, k], corrected[t + 1, i, k] - messages[t + 1, i, k])),
    "each worker keeps what its message leaves",
)
SERVER_INPUT = Hypothesis(
    "server_input_is",
    ForAll((t, (k, d)), eq(server_input[t + 1, k], mean(messages[t + 1, i, k], i, N) + server_error[t, k])),
    "the server compresses the mean message plus its error",
)
SERVER_FEEDBACK = Hypothesis(
    "server_feedback",
    ForAll((t, (k, d)), eq(server_error[t + 1, k], server_input[t + 1, k] - momentum[t + 1, k])),
    "the server keeps what its message, the next momentum, leaves",
)
WORKER_CONTRACTS = Hypothesis(
    "worker_contraction",
    ForAll(
        (t, (i, N)),
        le(
            norm_squared(worker_errors[t + 1, i, k], k, d),
            contraction**2 * norm_squared(corrected[t + 1, i, k], k, d),
        ),
    ),
    "every worker's compression leaves at most q times the norm of its input (l1 scale: q^2 = 1 - phi <= 1 - 1/d)",
)
SERVER_CONTRACTS = Hypothesis(
    "server_contraction",
    ForAll(
        (t,),
        le(norm_squared(server_error[t + 1, k], k, d), contraction**2 * norm_squared(server_input[t + 1, k], k, d)),
    ),
    "so does the server's",
)
GRADIENTS = Hypothesis(
    "gradients_bounded",
    ForAll((t,), le(mean(norm_squared(grads[t + 1, i, k], k, d), i, N), gradient_bound**2)),
    "the root mean square over workers of the gradients' norms is at most G in every step",
)
SPREAD = Hypothesis(
    "heterogeneity_bounded",
    ForAll(
        (t,),
        le(
            mean(norm_squared(grads[t + 1, i, k] - mean(grads[t + 1, j, k], j, N), k, d), i, N),
            heterogeneity**2,
        ),
    ),
    "and that of their differences from the mean gradient at most H",
)
WORKER_START = Hypothesis(
    "worker_start", ForAll(((i, N), (k, d)), eq(worker_errors[0, i, k], 0)), "worker errors start at zero"
)
SERVER_START = Hypothesis("server_start", ForAll(((k, d),), eq(server_error[0, k], 0)), "so does the server's")
MOMENTUM_START = Hypothesis(
    "momentum_start",
    le(norm_squared(momentum[0, k], k, d), gradient_bound**2),
    "at the freeze the momentum, an average of gradients, has norm at most G",
)
ALGORITHM = (
    INPUT, FEEDBACK, SERVER_INPUT, SERVER_FEEDBACK, WORKER_CONTRACTS, SERVER_CONTRACTS, GRADIENTS,
    WORKER_START, SERVER_START, MOMENTUM_START,
)  # fmt: skip
"""1-bit Adam's compression stage with any contractive compressor, in any dimension, with any number of workers."""

RATE = (1 - contraction) / (1 + contraction) * (1 + beta1) / 2
VIRTUAL = gradient_bound / RATE * sp.sqrt(1 + (1 - beta1) * contraction / beta1)
WORKER = contraction * (VIRTUAL + (1 - beta1) * heterogeneity) / (1 - contraction)
SERVER = contraction * (VIRTUAL + WORKER)

mean_error = mean(worker_errors[t, i, k], i, N)


@cache
def shrinking_run(factor: Any, beta: Any, steps: int, gradient: Any = 1) -> dict[str, Any]:
    """Values for every variable of a run of C(u) = (1 - ``factor``) u: one worker, one coordinate, constant gradient.

    ``step`` is the step of the largest z. The run is exact if ``factor`` and ``beta`` are fractions.
    """
    m, delta, b, u, c, w = np.zeros((6, steps + 1), dtype=np.result_type(np.asarray(factor), np.asarray(beta)))
    m[0] = gradient
    for s in range(steps):
        u[s + 1] = beta * m[s] + (1 - beta) * gradient + delta[s]
        c[s + 1] = (1 - factor) * u[s + 1]
        w[s + 1] = c[s + 1] + b[s]
        m[s + 1] = (1 - factor) * w[s + 1]
        delta[s + 1], b[s + 1] = u[s + 1] - c[s + 1], w[s + 1] - m[s + 1]
    worker = {"worker_errors": delta, "corrected": u, "messages": c, "grads": np.full(steps + 1, gradient)}
    server = {"momentum": m, "server_error": b, "server_input": w}
    return {
        **{name: values[:, None, None] for name, values in worker.items()},
        **{name: values[:, None] for name, values in server.items()},
        "n_workers": 1, "live": 1, "step": int(np.argmax(np.abs(m + delta + b))), "beta1": beta, "contraction": factor,
        "gradient_bound": gradient, "heterogeneity": 0.0,
    }  # fmt: skip


HALF, SLOW = Fraction(1, 2), Fraction(99, 100)


def _example(symbol: str, attained: Any, *, factor: Any = HALF, beta: Any = SLOW) -> Example:
    values = shrinking_run(factor, beta, 2000)
    used = {name: value for name, value in values.items() if name != "heterogeneity" or symbol != "z"}
    at = values["step"]
    state = [values["momentum"][at, 0], values["worker_errors"][at, 0, 0], values["server_error"][at, 0]]
    return Example(
        f"{symbol} for C(u) = u/2, beta1 = {float(beta)}, one worker, a constant gradient",
        float(abs(attained(*state))),
        used,
    )


_PROOF = (
    "No small-gain condition on q or beta1 is needed. Any sequence of gradients is covered, also one chosen after "
    "seeing the errors. With the l1 scale q^2 = 1 - phi <= 1 - 1/d always (T1h); with the l2 scale it asks for phi > "
    "1/4 in every compression (T1d), which holds for every input only in up to three dimensions (T1i)."
)

VIRTUAL_MOMENTUM = Theorem(
    id="T5a",
    title="Bounded errors under two-sided compression and momentum",
    conclusion=le(sp.sqrt(norm_squared(momentum[t, k] + mean_error + server_error[t, k], k, d)), VIRTUAL),
    hypotheses=ALGORITHM,
    words="With compressors that leave at most the share q, below one, of the norm of their input, any number of "
    "workers, errors that start at zero and any gradients whose root mean square over workers is at most G, as is the "
    "norm of the momentum at the freeze, the norm of momentum plus total error never exceeds {limit}.",
    numbers={"limit": VIRTUAL},
    good_for="For compressors that contract, the paper's assumption of bounded errors becomes a theorem: T5e, T5f "
    "and T5g read the errors off it.",
    source="ours; the paper assumes E||delta|| and E||server error|| <= eps/2",
    example=lambda: _example("z", lambda m, delta, b: m + delta + b),
    laws=("L1",),
    remarks="Sharp in the limit beta1 -> 1: C(u) = (1-q) u with a constant gradient attains G (1+q)/(1-q). " + _PROOF,
)

WORKER_ERRORS = Theorem(
    id="T5e",
    title="Bounded worker errors",
    conclusion=le(sp.sqrt(mean(norm_squared(worker_errors[t, i, k], k, d), i, N)), WORKER),
    hypotheses=(*ALGORITHM, SPREAD),
    words="Under the conditions of T5a, and where gradients differ from their mean by at most H, the root mean "
    "square over workers of the norms of their errors never exceeds {limit}.",
    numbers={"limit": WORKER},
    good_for="Bounds the errors that the workers keep, before a run, if q, G and H are known.",
    source="ours",
    where=(HETEROGENEITY,),
    example=lambda: _example("worker error", lambda m, delta, b: delta),
    laws=("L1",),
    remarks="Up to (1+q)/(1-q) above the largest error known to us. " + _PROOF,
)

SERVER_ERROR = Theorem(
    id="T5f",
    title="Bounded server error",
    conclusion=le(sp.sqrt(norm_squared(server_error[t, k], k, d)), SERVER),
    hypotheses=(*ALGORITHM, SPREAD),
    words="Under the conditions of T5e the norm of the server error never exceeds {limit}.",
    numbers={"limit": SERVER},
    good_for="Bounds the errors that the servers keep, before a run, if q, G and H are known.",
    source="ours",
    where=(HETEROGENEITY,),
    example=lambda: _example("server error", lambda m, delta, b: b),
    laws=("L1",),
    remarks=_PROOF,
)

TOTAL_ERROR = Theorem(
    id="T5g",
    title="Bounded total error",
    conclusion=le(sp.sqrt(norm_squared(mean_error + server_error[t, k], k, d)), WORKER + SERVER),
    hypotheses=(*ALGORITHM, SPREAD),
    words="Under the conditions of T5e the whole residual, mean worker error plus server error, has a norm of at "
    "most {limit}.",
    numbers={"limit": WORKER + SERVER},
    good_for="Where gradients are bounded and compressors contract it is the number E that T6a, T6b, T6d, T6e, T6g, "
    "T6k and T6l ask for.",
    source="ours",
    where=(HETEROGENEITY,),
    example=lambda: _example("total error", lambda m, delta, b: delta + b),
    laws=("L1",),
    remarks=_PROOF,
)

THEOREMS = (VIRTUAL_MOMENTUM, WORKER_ERRORS, SERVER_ERROR, TOTAL_ERROR)
