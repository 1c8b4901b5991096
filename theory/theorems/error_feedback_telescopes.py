"""T2a-T2d: error feedback makes compression errors telescope through any linear recurrence, one- or two-sided."""

from __future__ import annotations

from typing import Any

import numpy as np
import sympy as sp

from theory.formula import ForAll, array, eq, le, lt, mean, total
from theory.notation import UNIT, N, Row, count, error_bound, i, j, k, messages, server_error, t, worker_errors
from theory.theorem import Hypothesis, Theorem
from theory.theorems.conservation import GRADS, ONE_STEP, exchanged
from theory.witness import instance

state_dim, input_dim = count("state_dim"), count("input_dim")
s, row = count("s", least=0), count("row", least=0)  # a step and a coordinate that are quantified over
exact, state, remainder = array("exact_state"), array("state"), array("remainder")
state_map, input_map = array("state_map"), array("input_map")
inputs, decoded, residual = array("inputs"), array("decoded"), array("residual")
decay = sp.Symbol("decay", positive=True)
input_weight = sp.Symbol("input_weight", real=True)

EXACT = Row(exact, "z^*", "state of the recurrence that is fed the inputs themselves", "(n,)")
STATE = Row(state, "z", "state of the recurrence that is fed what was decoded", "(n,)")
INPUTS = Row(inputs, "p", "what is to be sent", "(m,)")
DECODED = Row(decoded, "c", "what is decoded from the message", "(m,)")
RESIDUAL = Row(residual, "e", "error that is kept for the next step", "(m,)")
WEIGHT = Row(input_weight, "b", "weight of the input in the recurrence", default=1.0)
DECAY = Row(decay, "a", "what the recurrence keeps of its state", domain=UNIT, default=0.9)


def feedback(*axes: sp.Expr) -> Hypothesis:
    """The error is what was not sent, for entries with these indices."""
    entry = eq(residual[s + 1, *axes], inputs[s + 1, *axes] + residual[s, *axes] - decoded[s + 1, *axes])
    bound = (s, (i, input_dim)) if axes else (s,)
    return Hypothesis("feedback", ForAll(bound, entry), "the error is what the message leaves of input plus error")


def _run_with_matrices() -> dict[str, Any]:
    """Three steps of a recurrence with random maps and errors, in small integers: every operation is exact."""
    rng = np.random.default_rng(0)
    maps, weights = rng.integers(-2, 3, (4, 3, 3)), rng.integers(-2, 3, (4, 3, 2))
    inputs, errors = rng.integers(-4, 5, (4, 2)), rng.integers(-4, 5, (4, 2))
    errors[0], sent = 0, np.zeros((4, 2), int)
    z_exact, z, rest = (np.zeros((4, 3), int) for _ in range(3))
    for now in range(3):
        sent[now + 1] = inputs[now + 1] + errors[now] - errors[now + 1]
        z_exact[now + 1] = maps[now + 1] @ z_exact[now] + weights[now + 1] @ inputs[now + 1]
        z[now + 1] = maps[now + 1] @ z[now] + weights[now + 1] @ sent[now + 1]
        rest[now + 1] = maps[now + 1] @ rest[now] + (maps[now + 1] @ weights[now] - weights[now + 1]) @ errors[now]
    sizes = {"state_dim": 3, "input_dim": 2, "step": 3, "k": 1}
    arrays = {"exact_state": z_exact, "state": z, "remainder": rest, "state_map": maps, "input_map": weights}
    return sizes | arrays | {"inputs": inputs, "decoded": sent, "residual": errors}


MATRICES = Theorem(
    id="T2a",
    title="Error feedback telescopes through any linear recurrence",
    conclusion=eq(
        exact[t, k] - state[t, k], total(input_map[t, k, i] * residual[t, i], i, input_dim) + remainder[t, k]
    ),
    hypotheses=(
        Hypothesis("coordinate", lt(k, state_dim), "k is a coordinate of the state"),
        Hypothesis("no_residual", ForAll(((i, input_dim),), eq(residual[0, i], 0)), "no error at the start"),
        Hypothesis(
            "same_start", ForAll(((row, state_dim),), eq(exact[0, row], state[0, row])), "both start in one state"
        ),
        feedback(i),
        Hypothesis(
            "exact_step",
            ForAll(
                (s, (row, state_dim)),
                eq(
                    exact[s + 1, row],
                    total(state_map[s + 1, row, j] * exact[s, j], j, state_dim)
                    + total(input_map[s + 1, row, i] * inputs[s + 1, i], i, input_dim),
                ),
            ),
            "one recurrence is fed the inputs",
        ),
        Hypothesis(
            "compressed_step",
            ForAll(
                (s, (row, state_dim)),
                eq(
                    state[s + 1, row],
                    total(state_map[s + 1, row, j] * state[s, j], j, state_dim)
                    + total(input_map[s + 1, row, i] * decoded[s + 1, i], i, input_dim),
                ),
            ),
            "the other the very messages that left the error",
        ),
        Hypothesis(
            "remainder_start", ForAll(((row, state_dim),), eq(remainder[0, row], 0)), "the remainder starts at zero"
        ),
        Hypothesis(
            "remainder_step",
            ForAll(
                (s, (row, state_dim)),
                eq(
                    remainder[s + 1, row],
                    total(state_map[s + 1, row, j] * remainder[s, j], j, state_dim)
                    + total(
                        (total(state_map[s + 1, row, j] * input_map[s, j, i], j, state_dim) - input_map[s + 1, row, i])
                        * residual[s, i],
                        i,
                        input_dim,
                    ),
                ),
            ),
            "it is driven by A' B - B' times the residual error, where A' and B' are the maps one step later",
        ),
    ),
    words="From the same start, without a residual error, a linear recurrence that is fed messages with error "
    "feedback differs from the uncompressed one by B times the residual error, plus a remainder which the "
    "products A' B - B' of the residual errors drive: it never contains a sum of past compression errors.",
    good_for="Whatever linear optimizer state is compressed with error feedback, what it lacks is a residual error.",
    source="ours; the argument of error feedback (Stich et al. 2018; Karimireddy et al. 2019) without its special "
    "cases",
    where=(
        Row(state_dim, "n", "coordinates of the state"),
        Row(input_dim, "m", "coordinates of the input"),
        EXACT,
        STATE,
        Row(remainder, "R", "what the difference contains besides the residual error", "(n,)"),
        Row(state_map, "A", "map of the state, which may change with the step", "(n, n)"),
        Row(input_map, "B", "map of the input, which may change with the step", "(n, m)"),
        INPUTS,
        DECODED,
        RESIDUAL,
    ),
    example=lambda: instance(MATRICES, "three steps with random matrices of integers", _run_with_matrices()),
    laws=("L1", "L2"),
    remarks="The maps may be any matrices that don't depend on the messages: schedules, preconditioners, several "
    "averages at once. The compressor does not occur at all.",
)


def _two_sided_step() -> dict[str, Any]:
    decoded_D, arrays = exchanged(GRADS)
    return arrays | {"inputs": [0 * GRADS, GRADS], "decoded": [decoded_D, decoded_D]}


TWO_SIDED = Theorem(
    id="T2b",
    title="Two-sided error feedback telescopes",
    conclusion=eq(
        decoded[t + 1, k],
        mean(inputs[t + 1, i, k], i, N)
        + (mean(worker_errors[t, i, k], i, N) + server_error[t, k])
        - (mean(worker_errors[t + 1, i, k], i, N) + server_error[t + 1, k]),
    ),
    hypotheses=(
        Hypothesis(
            "worker_feedback",
            ForAll(
                ((i, N),),
                eq(worker_errors[t + 1, i, k], inputs[t + 1, i, k] + worker_errors[t, i, k] - messages[t + 1, i, k]),
            ),
            "each worker keeps what its message leaves of its input plus its error",
        ),
        Hypothesis(
            "server_feedback",
            eq(server_error[t + 1, k], mean(messages[t + 1, i, k], i, N) + server_error[t, k] - decoded[t + 1, k]),
            "the server keeps what its message leaves of the mean message plus its error",
        ),
    ),
    words="What is decoded is the mean input plus the total error before the step less the total error after it, "
    "where the total error is the mean of the worker errors plus the server error.",
    good_for="Workers and server telescope as one compressor with one error would. Bounds on errors do not carry "
    "over like that: see T5a and T5c.",
    source="DoubleSqueeze (Tang et al. 2019) for SGD; here for any inputs",
    where=(
        Row(inputs, "p", "what the workers want to send", "(N, D)"),
        Row(decoded, r"\bar{c}", "what everyone decodes from the server's message", "(D,)"),
    ),
    example=lambda: instance(TWO_SIDED, ONE_STEP, _two_sided_step()),
    laws=("L1",),
    remarks="Any compressors, any chunks. T2a then applies with the total error for e and the mean input for p.",
)

_AVERAGE = (
    Hypothesis("no_residual", eq(residual[0], 0), "no error at the start"),
    Hypothesis("same_start", eq(exact[0], state[0]), "both start in one state"),
    feedback(),
)


def _steps(kept: sp.Expr | int) -> tuple[Hypothesis, ...]:
    return (
        Hypothesis(
            "exact_step",
            ForAll((s,), eq(exact[s + 1], kept * exact[s] + input_weight * inputs[s + 1])),
            "one recurrence is fed the inputs",
        ),
        Hypothesis(
            "compressed_step",
            ForAll((s,), eq(state[s + 1], kept * state[s] + input_weight * decoded[s + 1])),
            "the other the messages",
        ),
    )


def average_of(kept: float, inputs_T: np.ndarray, errors_T: np.ndarray) -> dict[str, Any]:
    """Run both recurrences, weight 1, on given inputs and residual errors, both from step 0."""
    decoded_T = np.r_[0.0, inputs_T[1:] + errors_T[:-1] - errors_T[1:]]
    states = np.zeros((2, errors_T.size))
    for step in range(1, errors_T.size):
        states[:, step] = kept * states[:, step - 1] + np.r_[inputs_T[step], decoded_T[step]]
    arrays = {"inputs": inputs_T, "decoded": decoded_T, "residual": errors_T}
    return arrays | {"exact_state": states[0], "state": states[1], "input_weight": 1.0}


ONE_SIGN = np.r_[0.0, -np.ones(20), 1.0]
"""Errors that keep one sign for 20 steps and then flip; with dyadic weights every operation is exact."""


DISTANCE = Theorem(
    id="T2c",
    title="How far error feedback lets a moving average drift",
    conclusion=le(sp.Abs(exact[t + 1] - state[t + 1]), (2 - decay**t) * error_bound * sp.Abs(input_weight)),
    hypotheses=(
        *_AVERAGE,
        *_steps(decay),
        Hypothesis("bounded", ForAll((s,), le(sp.Abs(residual[s]), error_bound)), "the residual error is bounded"),
    ),
    words="If both start in one state and the residual error never exceeds E in size, a moving average of messages "
    "stays within {factor} |b| E of that of the inputs, b being the weight of an input.",
    numbers={"factor": 2 - decay**t},
    good_for="A momentum of compressed gradients is off by at most twice the bound of the residual error, times the "
    "weight, however long training runs.",
    source="ours",
    where=(EXACT, STATE, INPUTS, DECODED, RESIDUAL, DECAY, WEIGHT),
    example=lambda: instance(
        DISTANCE,
        "a = 1/2, error -1 for 20 steps, then +1",
        average_of(0.5, np.zeros(22), ONE_SIGN) | {"step": 20, "decay": 0.5, "error_bound": 1.0},
    ),
    laws=("L1",),
    remarks="Errors that keep one sign and then flip attain it at every step.",
)

SUM = Theorem(
    id="T2d",
    title="A plain sum lacks the last error only",
    conclusion=eq(exact[t] - state[t], input_weight * residual[t]),
    hypotheses=(*_AVERAGE, *_steps(1)),
    words="If what is decoded is summed up from the same start, without a residual error, as SGD does, the sum lacks b "
    "times the last residual error only.",
    good_for="The parameters of compressed SGD are the weighted residual error away from those that the same "
    "gradients give without compression.",
    source="Stich et al. 2018; Karimireddy et al. 2019",
    where=(EXACT, STATE, INPUTS, DECODED, RESIDUAL, WEIGHT),
    example=lambda: instance(SUM, "a sum of 21 messages", average_of(1.0, np.arange(22.0), ONE_SIGN) | {"step": 21}),
    laws=("L2",),
    remarks="The inputs are taken as given: gradients of compressed SGD are taken at its own parameters.",
)

THEOREMS = (MATRICES, TWO_SIDED, DISTANCE, SUM)
