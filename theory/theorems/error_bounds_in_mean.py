"""T5b, T5h: root mean squares of the errors under gradient noise, on a finite probability space.

The gradient of worker i is signal + noise. The noise is uncorrelated with the state before it, with the signals and
with the other workers' noise; "mean 0 given the past, independent across workers" implies all of that. In the decrease
of T5a the noise then enters by its variance alone. The proof is that of T5a, in ErrorFeedback.v.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import sympy as sp

from theory.descent import NONNEGATIVE_WEIGHTS, SPACE_ROWS, expect, n_outcomes, w
from theory.formula import ForAll, Implies, array, eq, le, mean, norm_squared
from theory.notation import (
    N,
    Row,
    beta1,
    contraction,
    corrected,
    d,
    gradient_bound,
    i,
    j,
    k,
    messages,
    momentum,
    noise,
    server_error,
    server_input,
    t,
    worker_errors,
)
from theory.theorem import Example, Hypothesis, Theorem
from theory.theorems.error_bounds import HETEROGENEITY, VIRTUAL, heterogeneity

signal, noises = array("signal"), array("noises")
ROWS = (
    *(row for row in SPACE_ROWS if row.code in ("n_outcomes", "probability")),
    Row(signal, "h", "mean of a worker's gradient given the past, by outcome", "(N, D)"),
    Row(noises, r"\xi", "what a worker's gradient has besides", "(N, D)"),
)
outcome = (w, n_outcomes)
everywhere: Any = (t, outcome, (i, N), (k, d))
DIFFERENT: Any = sp.Ne(i, j, evaluate=False)
gradient = signal[t + 1, w, i, k] + noises[t + 1, w, i, k]
NEXT_NOISE = noises[t + 1, w, i, k]


def _uncorrelated(name: str, what: Any, words: str, *more: Any) -> Hypothesis:
    return Hypothesis(name, ForAll((t, (i, N), *more, (k, d)), eq(expect(what * NEXT_NOISE), 0)), words)


START_SQUARE = gradient_bound**2 + (1 - beta1) / (1 + beta1) * noise**2 / N
ALGORITHM = (
    NONNEGATIVE_WEIGHTS,
    Hypothesis(
        "worker_input",
        ForAll(
            everywhere,
            eq(
                corrected[t + 1, w, i, k],
                beta1 * momentum[t, w, k] + (1 - beta1) * gradient + worker_errors[t, w, i, k],
            ),
        ),
        "each worker compresses its momentum plus its error",
    ),
    Hypothesis(
        "worker_feedback",
        ForAll(everywhere, eq(worker_errors[t + 1, w, i, k], corrected[t + 1, w, i, k] - messages[t + 1, w, i, k])),
        "each worker keeps what its message leaves",
    ),
    Hypothesis(
        "server_input_is",
        ForAll(
            (t, outcome, (k, d)),
            eq(server_input[t + 1, w, k], mean(messages[t + 1, w, i, k], i, N) + server_error[t, w, k]),
        ),
        "the server compresses the mean message plus its error",
    ),
    Hypothesis(
        "server_feedback",
        ForAll(
            (t, outcome, (k, d)),
            eq(server_error[t + 1, w, k], server_input[t + 1, w, k] - momentum[t + 1, w, k]),
        ),
        "the server keeps what its message, the next momentum, leaves",
    ),
    Hypothesis(
        "worker_contraction",
        ForAll(
            (t, outcome, (i, N)),
            le(
                norm_squared(worker_errors[t + 1, w, i, k], k, d),
                contraction**2 * norm_squared(corrected[t + 1, w, i, k], k, d),
            ),
        ),
        "every worker's compression leaves at most q times the norm of its input, in every outcome",
    ),
    Hypothesis(
        "server_contraction",
        ForAll(
            (t, outcome),
            le(
                norm_squared(server_error[t + 1, w, k], k, d),
                contraction**2 * norm_squared(server_input[t + 1, w, k], k, d),
            ),
        ),
        "so does the server's",
    ),
    Hypothesis(
        "signal_bounded",
        ForAll((t,), le(expect(mean(norm_squared(signal[t + 1, w, i, k], k, d), i, N)), gradient_bound**2)),
        "the mean gradients of the workers are at most G in root mean square",
    ),
    _uncorrelated("noise_and_momentum", momentum[t, w, k], "noise is uncorrelated with the momentum before it"),
    _uncorrelated("noise_and_errors", worker_errors[t, w, j, k], "with every worker's error before it", (j, N)),
    _uncorrelated("noise_and_server", server_error[t, w, k], "with the server's error before it"),
    _uncorrelated("noise_and_signal", signal[t + 1, w, j, k], "with every worker's mean gradient", (j, N)),
    Hypothesis(
        "noise_across_workers",
        ForAll(
            (t, (i, N), (j, N), (k, d)),
            Implies((DIFFERENT,), eq(expect(NEXT_NOISE * noises[t + 1, w, j, k]), 0)),
        ),
        "and with every other worker's noise",
    ),
    Hypothesis(
        "noise_variance",
        ForAll((t, (i, N)), le(expect(norm_squared(NEXT_NOISE, k, d)), noise**2)),
        "its variance is at most sigma^2 on every worker",
    ),
    Hypothesis(
        "worker_start",
        ForAll((outcome, (i, N), (k, d)), eq(worker_errors[0, w, i, k], 0)),
        "worker errors start at zero",
    ),
    Hypothesis("server_start", ForAll((outcome, (k, d)), eq(server_error[0, w, k], 0)), "so does the server's"),
    Hypothesis(
        "momentum_start",
        le(expect(norm_squared(momentum[0, w, k], k, d)), START_SQUARE),
        "the momentum at the freeze is at most what Adam's average of such gradients is",
    ),
)
SPREAD = Hypothesis(
    "heterogeneity_bounded",
    ForAll(
        (t,),
        le(
            expect(
                mean(
                    norm_squared(gradient - mean(signal[t + 1, w, j, k] + noises[t + 1, w, j, k], j, N), k, d),
                    i,
                    N,
                )
            ),
            heterogeneity**2,
        ),
    ),
    "the workers' gradients, noise included, differ from their mean by at most H in root mean square",
)

NOISE_PART = (
    2
    * noise
    * (1 + contraction)
    * sp.sqrt(
        (1 - beta1)
        * (1 / N + contraction * (1 - beta1) / beta1)
        / ((1 - contraction) * (1 + beta1) * (4 * (1 + contraction) - (1 - beta1) * (1 - contraction) * (1 + beta1)))
    )
)
IN_MEAN = VIRTUAL + NOISE_PART
WORKER = contraction * (IN_MEAN + (1 - beta1) * heterogeneity) / (1 - contraction)
TOTAL = WORKER + contraction * (IN_MEAN + WORKER)
mean_error = mean(worker_errors[t, w, i, k], i, N)


def coin_flips(beta: float = 0.5, factor: float = 0.5, steps: int = 5) -> dict[str, Any]:
    """Values for every variable: one worker, gradients +-1 by independent coins, C(u) = (1 - ``factor``) u.

    Every sequence of coins is an outcome, and one more coin is the sign of the first momentum.
    """
    coins = np.array(list(product((-1.0, 1.0), repeat=steps + 1)))  # (outcomes, steps + 1)
    outcomes = len(coins)
    m, delta, b, u, c, s = np.zeros((6, steps + 1, outcomes))
    m[0] = np.floor(2**10 * np.sqrt((1 - beta) / (1 + beta))) / 2**10 * coins[:, 0]
    for r in range(steps):
        u[r + 1] = beta * m[r] + (1 - beta) * coins[:, r + 1] + delta[r]
        c[r + 1] = (1 - factor) * u[r + 1]
        s[r + 1] = c[r + 1] + b[r]
        m[r + 1] = (1 - factor) * s[r + 1]
        delta[r + 1], b[r + 1] = u[r + 1] - c[r + 1], s[r + 1] - m[r + 1]
    worker = {"worker_errors": delta, "corrected": u, "messages": c, "noises": coins.T, "signal": 0 * coins.T}
    server = {"momentum": m, "server_error": b, "server_input": s}
    return {
        **{name: values[:, :, None, None] for name, values in worker.items()},
        **{name: values[:, :, None] for name, values in server.items()},
        "n_outcomes": outcomes, "probability": np.full(outcomes, 1 / outcomes), "n_workers": 1, "live": 1,
        "step": steps, "beta1": beta, "contraction": factor, "gradient_bound": 0.0, "noise": 1.0, "heterogeneity": 0.0,
    }  # fmt: skip


def _example(*parts: str) -> Example:
    values = coin_flips()
    state = sum(np.reshape(values[name][-1], -1) for name in parts)
    if "momentum" in parts:
        values = {name: value for name, value in values.items() if name != "heterogeneity"}
    what = " + ".join(name.replace("_", " ") for name in parts)
    return Example(
        f"{what}, root mean square over all coins: gradients +-1 by coins, C(u) = u/2, beta1 = 1/2",
        float(np.sqrt(np.mean(np.asarray(state) ** 2))),
        values,
    )


_REMARK = (
    "Uncorrelated is weaker than: mean 0 given the past and independent across workers. Worker errors see their own "
    "noise in full, their mean sees 1/N of its variance."
)

VIRTUAL_MOMENTUM = Theorem(
    id="T5b",
    title="Second moments of momentum plus errors under gradient noise",
    conclusion=le(sp.sqrt(expect(norm_squared(momentum[t, w, k] + mean_error + server_error[t, w, k], k, d))), IN_MEAN),
    hypotheses=ALGORITHM,
    words="With compressors that leave at most a share q of their input and uncorrelated noise of variance sigma "
    "squared on every worker, errors that start at zero and a momentum whose mean square at the freeze is at most "
    "{start}, momentum plus total error is in root mean square at most the bound of T5a for the mean gradients plus "
    "{part}: pure noise contributes only of the order of the root of {share}.",
    numbers={"part": NOISE_PART, "share": 1 - beta1, "start": START_SQUARE},
    good_for="For compressors that contract, bounded errors in root mean square, without a bound on each gradient.",
    source="ours",
    where=ROWS,
    example=lambda: _example("momentum", "worker_errors", "server_error"),
    laws=("L1",),
    remarks=_REMARK,
)

TOTAL_ERROR = Theorem(
    id="T5h",
    title="Second moment of the total error under gradient noise",
    conclusion=le(sp.sqrt(expect(norm_squared(mean_error + server_error[t, w, k], k, d))), TOTAL),
    hypotheses=(*ALGORITHM, SPREAD),
    words="Under the noise of T5b, and where gradients, noise included, differ from their mean by at most H in root "
    "mean square, the total error is in root mean square at most {limit}.",
    numbers={"limit": TOTAL},
    good_for="Under noise, where compressors contract, it is the number E that T6a, T6b, T6d, T6e, T6g, T6k and T6l "
    "ask for.",
    source="ours",
    where=(*ROWS, HETEROGENEITY),
    example=lambda: _example("worker_errors", "server_error"),
    laws=("L1",),
    remarks=_REMARK,
)

THEOREMS = (VIRTUAL_MOMENTUM, TOTAL_ERROR)
