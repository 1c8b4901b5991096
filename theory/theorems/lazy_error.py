"""T8a, T8i, T8j: the lazy error and the implicit momentum (docs/kernels.md) compute what the eager form computes.

Eager: a step forms delta = fl(u - fl(s q)) as soon as the message is known, and keeps mbar = fl(S Q) as floats.
Lazy:  keep u and s; the NEXT step forms fl(u - fl(s sgn(u))) in registers; mbar is kept as bits and scales.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import sympy as sp

from theory.floating import fl
from theory.formula import ForAll, Formula, array, eq, sgn
from theory.notation import (
    Row,
    beta1,
    corrected,
    grads,
    i,
    k,
    messages,
    momentum,
    params,
    scale,
    server_error,
    server_input,
    t,
    worker_errors,
)
from theory.theorem import Example, Hypothesis, Theorem

rounded: Any = sp.Function("rounded", real=True)
worker_scale: Any = sp.Function("worker_scale", real=True)
chunk_scale: Any = sp.Function("chunk_scale", real=True)
server_sum: Any = sp.Function("server_sum", real=True)
update: Any = sp.Function("update", real=True)

lazy_params, lazy_corrected, lazy_scale = array("lazy_params"), array("lazy_corrected"), array("lazy_scale")
lazy_messages, lazy_server_input = array("lazy_messages"), array("lazy_server_input")
lazy_server_scale, bits, decoded = array("lazy_server_scale"), array("bits"), array("decoded")

Rounding = Callable[[Any], Any]


def always(*variables: Any, body: Formula) -> ForAll:
    """For every step, worker, coordinate that is named."""
    return ForAll(variables, body)


def momentum_plus_error(fl_: Rounding, mbar: Any, gradient: Any, error: Any) -> Any:
    """fl(fl(fl(beta1 mbar) + fl((1-beta1) g)) + delta) with the stored coefficients."""
    return fl_(fl_(fl_(fl_(beta1) * mbar) + fl_(fl_(1 - beta1) * gradient)) + error)


def left_over(fl_: Rounding, value: Any, size: Any) -> Any:
    """fl(u - fl(s sgn(u))): the one place where an error is formed."""
    return fl_(value - fl_(size * sgn(value)))


def eager(fl_: Rounding) -> tuple[Hypothesis, ...]:
    """One compressed step as the algorithm states it."""
    u, w = corrected[t + 1, i, k], server_input[t + 1, k]
    return (
        Hypothesis(
            "eager_corrected",
            always(
                t,
                i,
                k,
                body=eq(u, momentum_plus_error(fl_, momentum[t, k], grads[t + 1, i, k], worker_errors[t, i, k])),
            ),
            "eager: momentum plus error",
        ),
        Hypothesis(
            "eager_scale", always(t, i, body=eq(scale[t + 1, i], worker_scale(corrected[t + 1, i]))), "its scale"
        ),
        Hypothesis(
            "eager_message",
            always(t, k, i, body=eq(messages[t + 1, k, i], fl_(scale[t + 1, i] * sgn(u)))),
            "what each worker sends",
        ),
        Hypothesis(
            "eager_error",
            always(t, i, k, body=eq(worker_errors[t + 1, i, k], left_over(fl_, u, scale[t + 1, i]))),
            "what it keeps",
        ),
        Hypothesis(
            "eager_server",
            always(t, k, body=eq(w, server_sum(messages[t + 1, k], server_error[t, k]))),
            "the server adds up the messages of all workers and its own error",
        ),
        Hypothesis(
            "eager_momentum",
            always(t, k, body=eq(momentum[t + 1, k], fl_(chunk_scale(server_input[t + 1], k) * sgn(w)))),
            "its message is the next momentum",
        ),
        Hypothesis(
            "eager_server_error",
            always(t, k, body=eq(server_error[t + 1, k], fl_(w - momentum[t + 1, k]))),
            "what it keeps",
        ),
        Hypothesis(
            "eager_params",
            always(t, k, body=eq(params[t + 1, k], update(params[t, k], momentum[t + 1, k], k))),
            "the parameters move by the momentum",
        ),
    )


def lazy(fl_: Rounding) -> tuple[Hypothesis, ...]:
    """The same step with (u, s), (w, S) and bits in memory, and errors and momentum in registers only."""
    u, w = lazy_corrected[t + 1, i, k], lazy_server_input[t + 1, k]
    sign: Any = sgn(w)
    residual = left_over(fl_, lazy_corrected[t, i, k], lazy_scale[t, i])
    server_residual = left_over(fl_, lazy_server_input[t, k], lazy_server_scale[t, k])
    return (
        Hypothesis(
            "lazy_corrected_step",
            always(t, i, k, body=eq(u, momentum_plus_error(fl_, decoded[t, k], grads[t + 1, i, k], residual))),
            "lazy: the error is formed from the stored u and s of the step before",
        ),
        Hypothesis(
            "lazy_scale_step",
            always(t, i, body=eq(lazy_scale[t + 1, i], worker_scale(lazy_corrected[t + 1, i]))),
            "the scale of u",
        ),
        Hypothesis(
            "lazy_message",
            always(t, k, i, body=eq(lazy_messages[t + 1, k, i], fl_(lazy_scale[t + 1, i] * sgn(u)))),
            "what each worker sends",
        ),
        Hypothesis(
            "lazy_server",
            always(t, k, body=eq(w, server_sum(lazy_messages[t + 1, k], server_residual))),
            "the server's error is formed in the same way",
        ),
        Hypothesis(
            "lazy_server_scale_step",
            always(t, k, body=eq(lazy_server_scale[t + 1, k], chunk_scale(lazy_server_input[t + 1], k))),
            "the scale of its chunk",
        ),
        Hypothesis(
            "lazy_bits",
            always(t, k, body=eq(bits[t + 1, k], (1 + sign) / 2)),
            "the momentum is kept as bits, 1 for plus and 0 for minus",
        ),
        Hypothesis(
            "lazy_momentum",
            always(t, k, body=eq(decoded[t + 1, k], fl_(lazy_server_scale[t + 1, k] * (2 * bits[t + 1, k] - 1)))),
            "and is decoded where it is needed",
        ),
        Hypothesis(
            "lazy_params_step",
            always(t, k, body=eq(lazy_params[t + 1, k], update(lazy_params[t, k], decoded[t + 1, k], k))),
            "the parameters move by it",
        ),
    )


ZERO = (
    Hypothesis("no_error", always(i, k, body=eq(worker_errors[0, i, k], 0)), "there is no residual at the freeze"),
    Hypothesis("no_server_error", always(k, body=eq(server_error[0, k], 0)), "nor at the server"),
    Hypothesis("stored_zero", always(i, k, body=eq(lazy_corrected[0, i, k], 0)), "the stored u starts at zero"),
    Hypothesis("scale_zero", always(i, body=eq(lazy_scale[0, i], 0)), "so does the stored s"),
    Hypothesis("server_zero", always(k, body=eq(lazy_server_input[0, k], 0)), "and the server's w"),
    Hypothesis("server_scale_zero", always(k, body=eq(lazy_server_scale[0, k], 0)), "and its S"),
)
START = (
    Hypothesis(
        "same_momentum", always(k, body=eq(decoded[0, k], momentum[0, k])), "the first step reads Adam's m as floats"
    ),
    Hypothesis("same_params", always(k, body=eq(lazy_params[0, k], params[0, k])), "both start at the same point"),
)

WHERE = (
    Row(worker_scale, r"\operatorname{scale}", "scale of a worker's vector, any function of it", coq="(nat -> R) -> R"),
    Row(
        chunk_scale, r"\operatorname{Scale}", "scale of the chunk that coordinate k is in", coq="(nat -> R) -> nat -> R"
    ),
    Row(
        server_sum,
        r"\operatorname{sum}",
        "server's sum, any function of messages and error",
        coq="(nat -> R) -> R -> R",
    ),
    Row(update, r"\operatorname{update}", "parameter update of coordinate k, any function", coq="R -> R -> nat -> R"),
    Row(lazy_params, r"x'", "parameters of the lazy form"),
    Row(lazy_corrected, r"u'", "u as the lazy form stores it"),
    Row(lazy_scale, r"s'", "its scale, stored"),
    Row(lazy_messages, r"c'", "messages of the lazy form"),
    Row(lazy_server_input, r"w'", "w as the lazy form stores it"),
    Row(lazy_server_scale, r"S'", "scale of the chunk that a coordinate is in, stored"),
    Row(bits, "b", "bits of the momentum"),
    Row(decoded, r"m'", "momentum of the lazy form, in registers"),
)
ANY_ROUNDING = Row(rounded, r"\operatorname{fl}", "rounding after each operation, any function", coq="R -> R")


def example(*, conclusion: str, any_rounding: bool) -> Example:
    """Both forms run for three steps in float32, two workers, three coordinates."""
    steps, n, d, beta = 3, 2, 3, 0.9
    g = np.random.default_rng(7).standard_normal((steps + 1, n, d)).round(2).astype(np.float32).astype(float)
    single: Rounding = lambda value: np.float64(np.float32(value))  # noqa: E731
    sign: Rounding = lambda value: np.where(np.asarray(value) >= 0, 1.0, -1.0)  # noqa: E731
    size = lambda row: float(single(np.abs(np.asarray(row)).mean()))  # noqa: E731
    functions: dict[str, Any] = {
        "worker_scale": size,
        "chunk_scale": lambda row, _: size(row),
        "server_sum": lambda row, error: float(single(single(np.sum(row)) / n + error)),
        "update": lambda x, m, _: float(single(x - single(0.1 * m))),
    }
    zeros: Callable[..., Any] = lambda *shape: np.zeros((steps + 1, *shape))  # noqa: E731
    u, s, c, e, w, S, E, m, x, b = (
        zeros(n, d), zeros(n), zeros(d, n), zeros(n, d), zeros(d), zeros(d), zeros(d), zeros(d), zeros(d), zeros(d),
    )  # fmt: skip
    m[0], x[0] = [0.5, -0.25, 0.125], [1.0, 2.0, 3.0]
    for step in range(1, steps + 1):
        kept = single(single(beta) * m[step - 1])
        u[step] = single(single(kept + single(single(1 - beta) * g[step])) + e[step - 1])
        s[step] = [size(row) for row in u[step]]
        c[step] = single(s[step][:, None] * sign(u[step])).T
        e[step] = single(u[step] - c[step].T)
        w[step] = [functions["server_sum"](c[step][place], E[step - 1][place]) for place in range(d)]
        S[step], b[step] = size(w[step]), (1 + sign(w[step])) / 2
        m[step] = single(S[step] * sign(w[step]))
        E[step] = single(w[step] - m[step])
        x[step] = [functions["update"](x[step - 1][place], m[step][place], place) for place in range(d)]
    inputs: dict[str, Any] = {
        "step": steps - 1, "i": 1, "k": 2, "beta1": beta, "grads": g, "params": x, "momentum": m, "corrected": u,
        "scale": s, "messages": c, "worker_errors": e, "server_input": w, "server_error": E, "lazy_params": x,
        "lazy_corrected": u, "lazy_scale": s, "lazy_messages": c, "lazy_server_input": w, "lazy_server_scale": S,
        "bits": b, "decoded": m, **functions,
    }  # fmt: skip
    if any_rounding:
        inputs["rounded"] = lambda value: float(single(value))
    if conclusion == "params":
        return Example(
            "three steps in float32", float(x[steps - 1, 2]), {key: inputs[key] for key in inputs if key != "i"}
        )
    return Example("three steps in float32", float(e[steps - 1, 1, 2]), inputs)


def binary32(value: Any) -> Any:
    """Rounding to float32."""
    return fl(24, 149, value)


ANY = Theorem(
    id="T8a",
    title="Lazy error and implicit momentum are the eager form, in any arithmetic",
    conclusion=eq(lazy_params[t, k], params[t, k]),
    hypotheses=(
        Hypothesis(
            "same_errors",
            always(
                i, k, body=eq(left_over(rounded, lazy_corrected[0, i, k], lazy_scale[0, i]), worker_errors[0, i, k])
            ),
            "at the start what the lazy form stores stands for the errors (both are zero at the freeze)",
        ),
        Hypothesis(
            "same_server_errors",
            always(
                k, body=eq(left_over(rounded, lazy_server_input[0, k], lazy_server_scale[0, k]), server_error[0, k])
            ),
            "also at the server",
        ),
        *START,
        *eager(rounded),
        *lazy(rounded),
    ),
    where=(ANY_ROUNDING, *WHERE),
    words="Storing u and s and forming the error u - s sgn(u) one step later, and storing the momentum as bits and "
    "scales, gives the same parameters after every step, whatever the rounding, the scales and the order of the "
    "sums, if both forms use the same ones.",
    good_for="Kernels may compute the lazy form, which passes once over memory in a compression, and no parameter "
    "changes.",
    source="ours",
    example=lambda: example(conclusion="params", any_rounding=True),
    laws=("C2", "L5"),
    remarks="With the identity for the rounding it is the statement over the real numbers; T8i is the one in "
    "binary32. Both forms must round the same expression in the same way (both fused, or both not), and u must be "
    "stored in the precision in which it was computed. Real numbers have one zero: a program keeps -0.0 apart, and "
    "[C2] sends the same bit for both.",
)
SINGLE = replace(
    ANY,
    id="T8i",
    title="Lazy error and implicit momentum are the eager form, in binary32",
    hypotheses=(*ZERO, *START, *eager(binary32), *lazy(binary32)),
    where=WHERE,
    words="In single precision without overflow, every operation rounded to nearest in the order of the eager form, "
    "storing u and s and forming the error one step later, and storing the momentum as bits and scales, gives the "
    "same parameters after every step.",
    good_for="Fused kernels that round the same operations in the same order may be compared with the readable form "
    "for equality, not within a tolerance.",
    example=lambda: example(conclusion="params", any_rounding=False),
    needs=("T8a",),
    coq_imports=("Rounding",),
    remarks="T8a with Flocq's rounding to nearest, ties to even, for precision 24 and smallest positive number "
    "2^-149. Real numbers have one zero: a program keeps -0.0 apart, and [C2] sends the same bit for both. Both "
    "forms must round the same expression in the same way, none of it fused, and store u in binary32. The model has "
    "no largest number, so no overflow is assumed: neither the inputs nor what is computed on the way may overflow.",
)
RESIDUAL = replace(
    ANY,
    id="T8j",
    title="The error that the lazy form stands for is the eager one",
    conclusion=eq(left_over(rounded, lazy_corrected[t, i, k], lazy_scale[t, i]), worker_errors[t, i, k]),
    hypotheses=tuple(h for h in ANY.hypotheses if h.name not in ("same_params", "eager_params", "lazy_params_step")),
    where=(ANY_ROUNDING, *(row for row in WHERE if row.symbol not in (lazy_params, update))),
    words="At every step what the lazy form would read as a worker's error is the error of the eager form, whatever "
    "the "
    "rounding.",
    good_for="A checkpoint of the lazy form can be read as errors, and law L1 can be checked on it.",
    example=lambda: _without(example(conclusion="error", any_rounding=True), "params", "lazy_params", "update"),
    remarks="T8a's remarks hold here too: the same rounding of the same expressions in both forms, and one zero.",
)


def _without(instance: Example, *names: str) -> Example:
    return replace(instance, inputs={key: value for key, value in instance.inputs.items() if key not in names})


THEOREMS = (ANY, SINGLE, RESIDUAL)
