"""T3a, T3b, T3i: what a step with error feedback conserves (law L1), whatever its compressors send.

1-bit Adam, 1-bit Adam that compresses updates [C12], and compressed momentum SGD. 1-bit LAMB and 0/1 Adam have files
of their own.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import sympy as sp

from theory.formula import ForAll, array, eq, mean
from theory.notation import (
    N,
    Row,
    beta1,
    grads,
    i,
    k,
    messages,
    momentum,
    preconditioner,
    server_error,
    t,
    worker_errors,
)
from theory.theorem import Hypothesis, Theorem
from theory.witness import instance

update = array("update")
sgd_momentum = sp.Symbol("sgd_momentum", nonnegative=True)
grad_weight = sp.Symbol("grad_weight", positive=True)

UPDATE_ROW = Row(update, r"\bar{y}", "shared update, P times the momentum: what is sent with compress=update", "(D,)")
SGD_MOMENTUM = Row(
    sgd_momentum, r"\mu", "momentum constant of SGD; none at zero", domain=sp.Interval.Ropen(0, 1), default=0.9
)
GRAD_WEIGHT = Row(grad_weight, r"\alpha", "weight of the gradient in the momentum", default=1.0)


def worker_feedback(buffer: Any) -> Hypothesis:
    """Error feedback of worker i that wants to send ``buffer``."""
    kept = eq(worker_errors[t + 1, i, k], buffer + worker_errors[t, i, k] - messages[t + 1, i, k])
    return Hypothesis(
        "worker_feedback",
        ForAll(((i, N),), kept),
        "each worker keeps what its message leaves of its own buffer plus its error",
    )


def server_feedback(decoded: Any) -> Hypothesis:
    """Error feedback of the server, from whose message everyone decodes ``decoded``."""
    return Hypothesis(
        "server_feedback",
        eq(server_error[t + 1, k], mean(messages[t + 1, i, k], i, N) + server_error[t, k] - decoded),
        "the server keeps what its message leaves of the mean message plus its error",
    )


def residual(step: Any) -> sp.Expr:
    """Mean of the worker errors plus server error: the total error Delta."""
    return mean(worker_errors[step, i, k], i, N) + server_error[step, k]


mean_grad = mean(grads[t + 1, i, k], i, N)
WORKER = worker_feedback(beta1 * momentum[t, k] + (1 - beta1) * grads[t + 1, i, k])
SERVER = server_feedback(momentum[t + 1, k])
UPDATE_WORKER = worker_feedback(beta1 * update[t, k] + (1 - beta1) * preconditioner[k] * grads[t + 1, i, k])
UPDATE_SERVER = server_feedback(update[t + 1, k])
SGD_WORKER = worker_feedback(sgd_momentum * momentum[t, k] + grad_weight * grads[t + 1, i, k])


GRADS, MOMENTUM = np.array([[1.0, -3.0], [2.0, 5.0]]), np.array([0.5, -0.5])
ERRORS, SERVER_ERROR, SCALES = np.array([[1.0, 0.0], [0.0, 0.5]]), np.array([0.25, -0.5]), np.array([2.0, 4.0])
"""A state of two workers in numbers that binary64 adds exactly; SCALES is P, or a scale of a layer."""
GRADS_BY_STEP = [0 * GRADS, GRADS]


def exchange(
    buffers_ND: np.ndarray, errors_ND: np.ndarray, server_D: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The compressed all-reduce, l1 scales, one chunk: decoded output, messages, worker errors, server error."""

    def sign_of(u: np.ndarray) -> np.ndarray:
        return np.abs(u).mean(-1, keepdims=True) * np.where(u >= 0, 1.0, -1.0)

    u_ND = buffers_ND + errors_ND
    w_D = sign_of(u_ND).mean(0) + server_D
    return sign_of(w_D), sign_of(u_ND), u_ND - sign_of(u_ND), w_D - sign_of(w_D)


def exchanged(buffers_ND: np.ndarray) -> tuple[np.ndarray, dict[str, Any]]:
    """What is decoded from these buffers in the state above, and the arrays before and after."""
    decoded_D, messages_ND, errors_ND, server_D = exchange(buffers_ND, ERRORS, SERVER_ERROR)
    arrays: dict[str, Any] = {"messages": [0 * GRADS, messages_ND], "worker_errors": [ERRORS, errors_ND]}
    return decoded_D, arrays | {"server_error": [SERVER_ERROR, server_D], "n_workers": 2, "step": 0, "k": 0}


def adam_step() -> dict[str, Any]:
    """One step of 1-bit Adam at beta1 = 1/2."""
    decoded_D, arrays = exchanged(0.5 * MOMENTUM + 0.5 * GRADS)
    return arrays | {"beta1": 0.5, "momentum": [MOMENTUM, decoded_D], "grads": GRADS_BY_STEP}


def update_step() -> dict[str, Any]:
    """One step of 1-bit Adam with compress=update at beta1 = 1/2; MOMENTUM is the update before it."""
    decoded_D, arrays = exchanged(0.5 * MOMENTUM + 0.5 * SCALES * GRADS)
    return arrays | {"beta1": 0.5, "update": [MOMENTUM, decoded_D], "preconditioner": SCALES, "grads": GRADS_BY_STEP}


def sgd_step() -> dict[str, Any]:
    """One step of compressed SGD without momentum, gradients weighted by 2."""
    decoded_D, arrays = exchanged(2.0 * GRADS)
    return arrays | {"sgd_momentum": 0.0, "grad_weight": 2.0, "momentum": [MOMENTUM, decoded_D], "grads": GRADS_BY_STEP}


ONE_STEP = "one exact step of two workers, l1 scale"


ADAM = Theorem(
    id="T3a",
    title="Conservation law of 1-bit Adam",
    conclusion=eq(
        momentum[t + 1, k] + residual(t + 1),
        beta1 * momentum[t, k] + (1 - beta1) * mean_grad + residual(t),
    ),
    hypotheses=(WORKER, SERVER),
    words="Shared momentum plus total error after a step is beta1 times the momentum before it, plus {rest} times "
    "the mean gradient, plus the total error before it, whatever the compressors send.",
    numbers={"rest": 1 - beta1},
    good_for="L1 can be read off any running system, without a reference.",
    source="ours; used implicitly in the proof of Theorem 1 of Tang et al. 2021",
    example=lambda: instance(ADAM, ONE_STEP, adam_step()),
    laws=("L1",),
    remarks="No property of a compressor is used, only that what is sent is what is subtracted.",
)

SGD = Theorem(
    id="T3b",
    title="Conservation law of compressed momentum SGD",
    conclusion=eq(
        momentum[t + 1, k] + residual(t + 1),
        sgd_momentum * momentum[t, k] + grad_weight * mean_grad + residual(t),
    ),
    hypotheses=(SGD_WORKER, SERVER),
    words="Shared momentum plus total error after a step is mu times the momentum before it, plus alpha times the mean "
    "gradient, plus the total error before it.",
    good_for="The same certificate for momentum SGD, and without momentum for SGD itself (DoubleSqueeze).",
    source="ours; DoubleSqueeze (Tang et al. 2019) for SGD without momentum",
    where=(SGD_MOMENTUM, GRAD_WEIGHT),
    example=lambda: instance(SGD, ONE_STEP, sgd_step()),
    laws=("L1",),
)

UPDATE = Theorem(
    id="T3i",
    title="Conservation law of 1-bit Adam that compresses updates",
    conclusion=eq(
        update[t + 1, k] + residual(t + 1),
        beta1 * update[t, k] + (1 - beta1) * preconditioner[k] * mean_grad + residual(t),
    ),
    hypotheses=(UPDATE_WORKER, UPDATE_SERVER),
    words="Where P times the momentum is compressed in place of the momentum, L1 holds with P times the gradient for "
    "the gradient.",
    good_for="The certificate L1 works unchanged with compress=update: its errors are in units of the update.",
    source="ours",
    where=(UPDATE_ROW,),
    example=lambda: instance(UPDATE, ONE_STEP, update_step()),
    laws=("L1", "C12"),
    remarks="P is frozen, so it is one vector for all steps.",
)

THEOREMS = (ADAM, SGD, UPDATE)
