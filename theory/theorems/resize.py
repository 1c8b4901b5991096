"""T9a-T9d: a change of the number of workers conserves the total error (C11); a reset moves the run for good.

Resize: every new worker starts with the mean of the old worker errors, the server error is cut into new chunks. Reset:
all errors become zero, as earlier implementations did on resume.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import sympy as sp

from theory.formula import ForAll, Implies, array, eq, lt, mean
from theory.notation import (
    D,
    N,
    Row,
    beta1,
    count,
    grads,
    i,
    j,
    k,
    lr,
    messages,
    momentum,
    params,
    server_error,
    t,
    total_error,
    virtual_iterate,
    worker_errors,
)
from theory.theorem import Hypothesis, Theorem
from theory.theorems.conservation import exchange
from theory.witness import instance

new_workers, newcomers = count("new_workers"), count("newcomers", least=0)
chunk_length, new_chunk_length = count("chunk_length"), count("new_chunk_length")
place, new_chunk, new_place = count("place", least=0), count("new_chunk", least=0), count("new_place", least=0)
s, run, h = count("s", least=0), count("run", least=0), count("h", least=0)
a, b, c, e = (count(name, least=0) for name in "abce")  # chunk and place, before and after
new_errors, chunk_errors, new_chunk_errors = array("new_errors"), array("chunk_errors"), array("new_chunk_errors")
p_coordinate = sp.Symbol("p_coordinate", positive=True)
lost_error = sp.Symbol("lost_error", real=True)

NEW_WORKERS = Row(new_workers, "N'", "workers after the resize", default=3)
NEWCOMERS = Row(newcomers, "M", "workers that join", default=1)
NEW_ERRORS = Row(new_errors, r"\delta'", "worker errors after the resize", "(N', D)")
P_COORDINATE = Row(p_coordinate, "p", "entry of the preconditioner at one coordinate", default=1.0)
LOST_ERROR = Row(lost_error, r"\Delta_0", "total error that the reset throws away, at one coordinate", default=1.0)
CHUNKS = (
    Row(chunk_length, "c", "length of a server chunk"),
    Row(new_chunk_length, "c'", "length of a server chunk after the resize"),
    Row(place, "m", "place in a chunk, counted from 0"),
    Row(new_chunk, "j'", "chunk after the resize, counted from 0"),
    Row(new_place, "m'", "place in that chunk, counted from 0"),
    Row(chunk_errors, r"\bar{\delta}", "server errors by chunk and place", "(N, c)"),
    Row(new_chunk_errors, r"\bar{\delta}'", "server errors after the resize, by chunk and place", "(N', c')"),
)

here, there = j * chunk_length + place, new_chunk * new_chunk_length + new_place


def _three_become_two() -> dict[str, Any]:
    """Eleven parameters; chunks of 4 on three workers become chunks of 6 on two."""
    errors_ND, server_D = np.arange(33.0).reshape(3, 11), np.arange(11.0) / 4
    padded = np.r_[server_D, 0.0]
    inputs = {"n_workers": 3, "new_workers": 2, "dim": 11, "worker_errors": errors_ND}
    inputs |= {"chunk_length": 4, "j": 2, "place": 1, "chunk_errors": padded.reshape(3, 4)}
    inputs |= {"new_chunk_length": 6, "new_chunk": 1, "new_place": 3, "new_chunk_errors": padded.reshape(2, 6)}
    return inputs | {"new_errors": np.stack([errors_ND.mean(0)] * 2)}


def _one_joins() -> dict[str, Any]:
    errors_ND = np.array([[1.0, 2.0], [3.0, -4.0], [2.0, 5.0]])
    return {
        "n_workers": 3, "newcomers": 1, "k": 1, "worker_errors": errors_ND, "new_errors": [*errors_ND, np.zeros(2)],
    }  # fmt: skip


RESIZE = Theorem(
    id="T9a",
    title="Resize conserves the total error",
    conclusion=eq(
        mean(new_errors[i, there], i, new_workers) + new_chunk_errors[new_chunk, new_place],
        mean(worker_errors[i, here], i, N) + chunk_errors[j, place],
    ),
    hypotheses=(
        Hypothesis("in_chunk", lt(place, chunk_length), "the place lies in its chunk"),
        Hypothesis("in_new_chunk", lt(new_place, new_chunk_length), "and so does the place after the resize"),
        Hypothesis("inside", lt(here, D), "the place is that of a parameter"),
        Hypothesis("same_place", eq(there, here), "both places are the same parameter"),
        Hypothesis(
            "mean_errors",
            ForAll(((i, new_workers), (k, D)), eq(new_errors[i, k], mean(worker_errors[h, k], h, N))),
            "every new worker starts with the mean of the old worker errors",
        ),
        Hypothesis(
            "cut_anew",
            ForAll(
                (a, (b, chunk_length), c, (e, new_chunk_length)),
                Implies(
                    (eq(c * new_chunk_length + e, a * chunk_length + b),),
                    eq(new_chunk_errors[c, e], chunk_errors[a, b]),
                ),
            ),
            "the server error is one vector that is cut into new chunks",
        ),
    ),
    words="If every new worker starts with the mean of the old worker errors and the server error is cut into new "
    "chunks, the total error of every parameter is what it was, for any numbers of workers and any chunks.",
    good_for="y of L2 does not move when the world size changes, if parameters and momentum are kept.",
    source="ours",
    example=lambda: instance(RESIZE, "three workers become two, chunks of 4 become chunks of 6", _three_become_two()),
    where=(NEW_WORKERS, NEW_ERRORS, *CHUNKS),
    laws=("L9", "C11"),
    remarks="Exact arithmetic; in floating point the mean rounds. The shared momentum has one size on the old chunks: "
    "its form in bits and scales (T8a) can't hold it before the next compressed step; a checkpoint carries it in full.",
)

NEWCOMERS_AT_ZERO = Theorem(
    id="T9d",
    title="Newcomers that start at zero lose a share of the worker errors",
    conclusion=eq(
        mean(worker_errors[i, k], i, N) - mean(new_errors[i, k], i, N + newcomers),
        newcomers / (N + newcomers) * mean(worker_errors[i, k], i, N),
    ),
    hypotheses=(
        Hypothesis(
            "kept", ForAll(((i, N),), eq(new_errors[i, k], worker_errors[i, k])), "old workers keep their errors"
        ),
        Hypothesis("zero", ForAll(((i, newcomers),), eq(new_errors[N + i, k], 0)), "newcomers have none"),
    ),
    words="If old workers keep their own errors and newcomers start at zero, the mean error loses the share {share}.",
    numbers={"share": newcomers / (N + newcomers)},
    good_for="Why C11 spreads the mean: the plain way loses what T9b says a reset loses, in part.",
    source="ours",
    example=lambda: instance(NEWCOMERS_AT_ZERO, "a fourth worker joins three", _one_joins()),
    where=(NEWCOMERS, NEW_ERRORS),
    laws=("C11",),
)


def _residual(which: int, step: sp.Expr | int) -> sp.Expr:
    return mean(worker_errors[which, step, i], i, N) + server_error[which, step]


_BOTH = ((run, 2), s)
_AFTER_RESET = "the runs start with the same"


def two_runs(steps: int) -> dict[str, Any]:
    """Two runs with the same gradients, of which run 1 lost its errors: two workers, l1 scale; the first coordinate."""
    rng, runs = np.random.default_rng(0), []
    grads_TND = np.r_[np.zeros((1, 2, 2)), rng.integers(-8, 9, (steps, 2, 2)) / 4]
    for errors_ND in (np.array([[3.0, 0.0], [1.0, -2.0]]), np.zeros((2, 2))):
        # columns: x, momentum, worker errors, server error, messages
        rows = [(np.zeros(2), np.ones(2), errors_ND, np.zeros(2), np.zeros((2, 2)))]
        for g_ND in grads_TND[1:]:
            x_D, m_D, e_ND, e_D, _ = rows[-1]
            m_D, messages_ND, e_ND, e_D = exchange(0.5 * m_D + 0.5 * g_ND, e_ND, e_D)
            rows.append((x_D - 0.125 * 2.0 * m_D, m_D, e_ND, e_D, messages_ND))
        runs.append([np.stack(column)[..., 0] for column in zip(*rows, strict=True)])
    names = ("params", "momentum", "worker_errors", "server_error", "messages")
    arrays = {name: np.stack(pair) for name, *pair in zip(names, *runs, strict=True)}
    residual = arrays["worker_errors"].mean(-1) + arrays["server_error"]
    arrays["virtual_iterate"] = arrays["params"] - 0.125 / 0.5 * 2.0 * (0.5 * arrays["momentum"] + residual)
    numbers = {"lr": 0.125, "beta1": 0.5, "p_coordinate": 2.0, "lost_error": 2.0, "n_workers": 2, "step": steps}
    return arrays | numbers | {"grads": grads_TND[..., 0]}


RESET = Theorem(
    id="T9b",
    title="Resetting the errors displaces the virtual iterate for good",
    conclusion=eq(virtual_iterate[1, t] - virtual_iterate[0, t], lr / (1 - beta1) * p_coordinate * lost_error),
    hypotheses=(
        Hypothesis(
            "worker_feedback",
            ForAll(
                (*_BOTH, (i, N)),
                eq(
                    worker_errors[run, s + 1, i],
                    beta1 * momentum[run, s]
                    + (1 - beta1) * grads[s + 1, i]
                    + worker_errors[run, s, i]
                    - messages[run, s + 1, i],
                ),
            ),
            "both runs have error feedback at the workers, and the same gradients",
        ),
        Hypothesis(
            "server_feedback",
            ForAll(
                _BOTH,
                eq(
                    server_error[run, s + 1],
                    mean(messages[run, s + 1, i], i, N) + server_error[run, s] - momentum[run, s + 1],
                ),
            ),
            "and at the server",
        ),
        Hypothesis(
            "parameters",
            ForAll(_BOTH, eq(params[run, s + 1], params[run, s] - lr * p_coordinate * momentum[run, s + 1])),
            "both apply what they decode",
        ),
        Hypothesis(
            "virtual",
            ForAll(
                _BOTH,
                eq(
                    virtual_iterate[run, s],
                    params[run, s]
                    - lr
                    / (1 - beta1)
                    * p_coordinate
                    * (beta1 * momentum[run, s] + mean(worker_errors[run, s, i], i, N) + server_error[run, s]),
                ),
            ),
            "y is x with the residual update applied (L2)",
        ),
        Hypothesis("same_params", eq(params[1, 0], params[0, 0]), f"{_AFTER_RESET} parameters"),
        Hypothesis("same_momentum", eq(momentum[1, 0], momentum[0, 0]), f"{_AFTER_RESET} momentum"),
        Hypothesis("workers_reset", ForAll(((i, N),), eq(worker_errors[1, 0, i], 0)), "one run lost its worker errors"),
        Hypothesis("server_reset", eq(server_error[1, 0], 0), "and its server error"),
        Hypothesis("lost", eq(lost_error, _residual(0, 0)), "the other kept its total error"),
    ),
    words="Of two runs that see the same gradients, one whose errors were set to zero stays {factor} times the lost "
    "total error away from the other, measured in y, at every later step.",
    numbers={"factor": lr / (1 - beta1) * p_coordinate},
    good_for="Why errors belong into checkpoints: with the same gradients nothing that momentum does makes up for a "
    "reset.",
    source="ours; the behaviour is DeepSpeed's on resume (run)",
    example=lambda: instance(RESET, "30 steps after a reset, two workers, l1 scale", two_runs(30)),
    where=(P_COORDINATE, LOST_ERROR),
    needs=("T3e",),
    laws=("L2", "L9"),
    remarks="For one coordinate, whatever the compressors do to it. Constant learning rate, no weight decay. The "
    "gradients are taken as given: a run that computes its own sees others as soon as its parameters differ. At the "
    "default beta1 = 0.9 the displacement is ten updates by the lost error.",
)


def uncompressed(steps: int) -> dict[str, Any]:
    """Two runs without compression, of which run 0 starts with an error of one, at beta1 = 1/2: all is exact."""
    x, m, residual = (np.zeros((2, steps + 1)) for _ in range(3))
    residual[0, 0] = 1.0
    for step in range(1, steps + 1):
        m[:, step] = 0.5 * m[:, step - 1] + residual[:, step - 1]  # the residual is sent in full in the first step
        x[:, step] = x[:, step - 1] - 0.125 * m[:, step]
    arrays = {"params": x, "momentum": m, "total_error": residual, "grads": np.zeros(steps + 1)}
    return arrays | {"lr": 0.125, "beta1": 0.5, "p_coordinate": 1.0, "lost_error": 1.0, "step": steps}


SHORTFALL = Theorem(
    id="T9c",
    title="How a reset reaches the parameters",
    conclusion=eq(params[1, t] - params[0, t], lr * p_coordinate * lost_error * (1 - beta1**t) / (1 - beta1)),
    hypotheses=(
        Hypothesis(
            "conserved",
            ForAll(
                _BOTH,
                eq(
                    momentum[run, s + 1] + total_error[run, s + 1],
                    beta1 * momentum[run, s] + (1 - beta1) * grads[s + 1] + total_error[run, s],
                ),
            ),
            "both runs obey L1 with the same mean gradients",
        ),
        Hypothesis("exact", ForAll(_BOTH, eq(total_error[run, s + 1], 0)), "nothing is compressed after the reset"),
        Hypothesis(
            "parameters",
            ForAll(_BOTH, eq(params[run, s + 1], params[run, s] - lr * p_coordinate * momentum[run, s + 1])),
            "both apply their momentum",
        ),
        Hypothesis("same_params", eq(params[1, 0], params[0, 0]), f"{_AFTER_RESET} parameters"),
        Hypothesis("same_momentum", eq(momentum[1, 0], momentum[0, 0]), f"{_AFTER_RESET} momentum"),
        Hypothesis("reset", eq(total_error[1, 0], 0), "one run lost its total error"),
        Hypothesis("lost", eq(total_error[0, 0], lost_error), "the other kept it"),
    ),
    words="With no compression after the reset the parameters lack lr times P times the lost error times {growth} "
    "after t steps.",
    numbers={"growth": (1 - beta1**t) / (1 - beta1)},
    good_for="With the same gradients the parameters drift apart to the displacement of T9b within a few time "
    "constants of the momentum.",
    source="ours",
    example=lambda: instance(SHORTFALL, "20 uncompressed steps after a reset", uncompressed(20)),
    where=(P_COORDINATE, LOST_ERROR),
    laws=("L9",),
)

THEOREMS = (RESIZE, RESET, SHORTFALL, NEWCOMERS_AT_ZERO)
