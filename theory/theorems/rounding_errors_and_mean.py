"""T11d and T11g: the server's mean, in every order of evaluation, and the new error, in floating point."""

from __future__ import annotations

from fractions import Fraction

import sympy as sp

from theory import orders
from theory.floating import (
    FORMAT,
    INPUTS,
    ORDER,
    computed,
    eta,
    exact,
    fl,
    gamma,
    inputs,
    least,
    nonzero,
    order,
    precision,
    products,
    reads,
    representable,
    roundings,
    u,
    x,
)
from theory.formula import ForAll, array, eq, le, lt, mean, total
from theory.notation import N, Row, count, i
from theory.orders import Plus, Read, Times
from theory.theorem import Example, Hypothesis, Theorem

depth = count("depth", least=0)
sent = array("sent")
tolerances = array("tolerances")
weights = array("weights")
server_entry = sp.Symbol("server_entry", real=True)
reach = sp.Abs(sent[i]) + tolerances[i]


def mean_example() -> Example:
    """A server that adds to the server error, one small term after another: each addition rounds up by half a unit."""
    n = 8
    message = 0.51 * n * 2.0**-23
    single = float(orders.nearest(message, 24, 149))
    tree: orders.Order = Read(n)
    for worker in range(n):
        tree = Plus(tree, Times(1 / n, Read(worker)))
    values = [single] * n + [1.0]
    error = abs(orders.computed(tree, values, 24, 149) - (Fraction(single) + 1))
    return Example(
        "eight workers, from the server error on",
        float(error),
        {
            "precision": 24,
            "least": 149,
            "n_workers": n,
            "depth": n,
            "order": tree,
            "inputs": values,
            "sent": values[:n],
            "tolerances": [0.0] * n,
            "weights": [1 / n] * n,
            "server_entry": 1.0,
        },
    )


MEAN = Theorem(
    id="T11d",
    title="Server mean in floating point",
    conclusion=le(
        sp.Abs(computed(precision, least, order, inputs) - (mean(sent[i], i, N) + server_entry)),
        gamma(depth + 3, precision) * mean(reach, i, N)
        + mean(tolerances[i], i, N)
        + gamma(depth, precision) * sp.Abs(server_entry)
        + eta() * (1 + gamma(depth + 3, precision)) * total(nonzero(reach), i, N),
    ),
    hypotheses=(
        representable(inputs, N + 1, "in_format", "what is summed are numbers of the format"),
        Hypothesis(
            "reads_messages",
            ForAll(((i, N),), le(sp.Abs(inputs[i] - sent[i]), tolerances[i])),
            "the first inputs are the messages s_i q_i, within their tolerances",
        ),
        Hypothesis("reads_error", eq(inputs[N], server_entry), "the last input is the server error"),
        Hypothesis(
            "weights_stored",
            ForAll(((i, N),), le(sp.Abs(weights[i] - 1 / N), gamma(2, precision) / N)),
            "each message is divided by N, or multiplied by a rounded 1/N, N itself rounded or not",
        ),
        Hypothesis(
            "read_once",
            ForAll((x,), eq(reads(order, x), total(x[i], i, N) + x[N])),
            "each input is read once",
        ),
        Hypothesis(
            "evaluates",
            ForAll((x,), eq(exact(order, x), total(weights[i] * x[i], i, N) + x[N])),
            "in exact arithmetic it is the weighted sum plus the server error",
        ),
        Hypothesis(
            "message_path",
            ForAll(((i, N),), le(roundings(order, i), depth + 1)),
            "a message passes one product and at most `depth` additions",
        ),
        Hypothesis("error_path", le(roundings(order, N), depth), "the server error passes at most `depth` additions"),
        Hypothesis(
            "message_product", ForAll(((i, N),), le(products(order, i), 1)), "a message is multiplied once at most"
        ),
        Hypothesis("error_product", le(products(order, N), 0), "the server error is not multiplied"),
        Hypothesis("few", lt((depth + 3) * u(), 1), "fewer roundings than one over the unit roundoff"),
    ),
    where=(
        *FORMAT,
        ORDER,
        INPUTS,
        Row(depth, "h", "most additions that one term goes through: N for any order", default=8),
        Row(sent, r"\operatorname{sent}", "what each worker sends: its scale with a sign"),
        Row(tolerances, r"\operatorname{tol}", "how far the message used may be from the one given"),
        Row(weights, r"\hat w", "1/N as it is stored or divided by"),
        Row(server_entry, r"\bar\delta", "server error, one coordinate", default=0.0),
    ),
    words="The mean of the messages plus the server error, summed in any order and from any term on, divided before or "
    "after, differs from the exact one by at most gamma of (depth + {three}) times the mean size of the messages, "
    "gamma "
    "of depth times the server error, and one smallest subnormal for each message that is not zero.",
    numbers={"three": sp.Integer(3)},
    good_for="Where the mean plus the error exceeds this bound, it tells which bit the server must send, whatever "
    "the order of its sum.",
    source="ours",
    example=mean_example,
    laws=("L1", "C2"),
    coq_imports=("Rounding",),
    remarks="A sum that starts at the server error rounds it N times. Where no server error is added the same bound, "
    "with 0 for it and depth N - 1, is that of a mean of gradients. The model has no largest number, so no overflow "
    "is assumed: neither the inputs nor what is computed on the way may overflow.",
)

value, size, sent_sign = sp.symbols("value size sent_sign", real=True)
value_used, size_used = sp.symbols("value_used size_used", real=True)
value_tolerance, size_tolerance = sp.symbols("value_tolerance size_tolerance", nonnegative=True)


def error_example() -> Example:
    """A sum just above a midpoint is rounded by almost half a unit in the last place."""
    unit = 2.0**-24
    one, other = 1 + 2 * unit, unit * (1 + 2.0**-20)
    error = abs(orders.nearest(Fraction(one) + Fraction(other), 24, 149) - (Fraction(one) + Fraction(other)))
    return Example(
        "1 + 2^-23 and a scale of 2^-24, sign -1",
        float(error),
        {
            "precision": 24,
            "least": 149,
            "value": one,
            "size": other,
            "sent_sign": -1.0,
            "value_used": one,
            "size_used": other,
            "value_tolerance": 0.0,
            "size_tolerance": 0.0,
        },
    )


ERROR = Theorem(
    id="T11g",
    title="New compression error in floating point",
    conclusion=le(
        sp.Abs(fl(precision, least, value_used - size_used * sent_sign) - (value - size * sent_sign)),
        u() * (sp.Abs(value - size * sent_sign) + value_tolerance + size_tolerance) + value_tolerance + size_tolerance,
    ),
    hypotheses=(
        Hypothesis("value_in_format", eq(fl(precision, least, value_used), value_used), "u is a number of the format"),
        Hypothesis("size_in_format", eq(fl(precision, least, size_used), size_used), "so is s"),
        Hypothesis("value_near", le(sp.Abs(value_used - value), value_tolerance), "u is within its tolerance"),
        Hypothesis("size_near", le(sp.Abs(size_used - size), size_tolerance), "s is within its tolerance"),
        Hypothesis("one_bit", eq(sent_sign**2, 1), "the sign is plus or minus one, and the very one that was sent"),
    ),
    where=(
        *FORMAT,
        Row(value, "u", "what is compressed, one coordinate", default=1.0),
        Row(size, "s", "its scale", default=1.0),
        Row(sent_sign, "q", "sign that was sent", default=1.0),
        Row(value_used, "u'", "u as the implementation has it"),
        Row(size_used, "s'", "s as the implementation has it"),
        Row(value_tolerance, r"\tau_u", "how far u' may be from u", default=0.0),
        Row(size_tolerance, r"\tau_s", "how far s' may be from s", default=0.0),
    ),
    words="The new error differs from u - s q, taken with the scale and the sign that were sent, by one rounding of "
    "it: "
    "s q is exact, and a difference does not underflow.",
    good_for="The law L1 can be checked at every element, those with an ambiguous sign included.",
    source="ours",
    example=error_example,
    laws=("L1", "C2"),
    coq_imports=("Rounding",),
    remarks="The scale and the sign are those that were sent; u and s may be off by known tolerances. The model has "
    "no largest number, so no overflow is assumed: neither the inputs nor what is computed on the way may overflow.",
)

THEOREMS = (MEAN, ERROR)
