"""T11k: Adam's second moment in floating point."""

from __future__ import annotations

from fractions import Fraction

import sympy as sp

from theory import orders
from theory.floating import (
    FORMAT,
    INPUTS,
    ORDER,
    compose,
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
    roundings,
    x,
)
from theory.formula import ForAll, eq, le
from theory.notation import Row, beta2
from theory.orders import Plus, Read, Times
from theory.rounding import coefficient_error, round_to
from theory.theorem import Example, Hypothesis, Theorem


def rounded(value: sp.Expr) -> sp.Expr:
    """In the format."""
    return fl(precision, least, value)


def stored(name: str, value: sp.Expr, used: sp.Expr, error: sp.Expr, words: str) -> Hypothesis:
    """A coefficient within a known relative error."""
    return Hypothesis(name, le(sp.Abs(used - value), error * value), words)


second, gradient = sp.Symbol("second", nonnegative=True), sp.Symbol("gradient", real=True)
gradient_used = sp.Symbol("gradient_used", real=True)
stored_beta2, stored_rest = sp.symbols("stored_beta2 stored_rest", real=True)
beta2_error, rest_error, grads_tolerance = sp.symbols("beta2_error rest_error grads_tolerance", nonnegative=True)
size = sp.Abs(gradient) + grads_tolerance
shifted = (2 * sp.Abs(gradient) + grads_tolerance) * grads_tolerance
added = compose(rest_error, gamma(3, precision))


def second_example() -> Example:
    """The worst inputs that the search over last bits has found."""
    beta, v, g = 0.99, 0.1267024576663971, 0.06247686967253685
    kept, rest = (float(round_to(value, "float32")) for value in (beta, 1 - beta))
    tree = Plus(Times(kept, Read(0)), Times(rest, Times(1, Read(1))))
    b = Fraction(beta)
    value = orders.computed(tree, [v, Fraction(g) ** 2], 24, 149)
    error = abs(value - (b * Fraction(v) + (1 - b) * Fraction(g) ** 2))
    of_beta, of_rest = coefficient_error(beta, "float32")
    return Example(
        "float32, beta2 = 0.99",
        float(error),
        {
            "precision": 24, "least": 149, "beta2": beta, "second": v, "gradient": g, "gradient_used": g,
            "grads_tolerance": 0.0, "order": tree, "inputs": [v, g * g], "stored_beta2": kept, "stored_rest": rest,
            "beta2_error": of_beta, "rest_error": of_rest,
        },
    )  # fmt: skip


THEOREM = Theorem(
    id="T11k",
    title="Second moment in floating point",
    conclusion=le(
        sp.Abs(computed(precision, least, order, inputs) - (beta2 * second + (1 - beta2) * gradient**2)),
        compose(beta2_error, gamma(2, precision)) * beta2 * second
        + (1 - beta2) * (added * (gradient**2 + shifted) + shifted)
        + eta() * (1 + added) * (nonzero(second) + (1 + sp.Max(1, size)) * nonzero(size)),
    ),
    hypotheses=(
        Hypothesis("enough_bits", le(4, precision), "the format has at least four bits"),
        Hypothesis("second_in_format", eq(rounded(second), second), "v is a number of the format"),
        Hypothesis("reads_second", eq(inputs[0], second), "the first input is v"),
        Hypothesis("reads_square", eq(inputs[1], gradient_used**2), "the second is the square of g, not yet rounded"),
        Hypothesis("near", le(sp.Abs(gradient_used - gradient), grads_tolerance), "g is within its tolerance"),
        stored("beta2_stored", beta2, stored_beta2, beta2_error, "the stored beta2 is off by a known relative error"),
        stored("rest_stored", 1 - beta2, stored_rest, rest_error, "so is its complement"),
        Hypothesis("read_once", ForAll((x,), eq(reads(order, x), x[0] + x[1])), "each input is read once"),
        Hypothesis(
            "evaluates",
            ForAll((x,), eq(exact(order, x), stored_beta2 * x[0] + stored_rest * x[1])),
            "in exact arithmetic it is the expression with the stored coefficients",
        ),
        Hypothesis("second_path", le(roundings(order, 0), 2), "v passes a product and an addition"),
        Hypothesis("square_path", le(roundings(order, 1), 3), "g passes its square, a product and an addition"),
        Hypothesis("second_product", le(products(order, 0), 1), "v is multiplied once"),
        Hypothesis("square_product", le(products(order, 1), 2), "g is squared and multiplied once"),
    ),
    where=(
        *FORMAT,
        ORDER,
        INPUTS,
        Row(second, "v", "second moment, one coordinate", default=1.0),
        Row(gradient, "g", "gradient, one coordinate", default=1.0),
        Row(gradient_used, "g'", "gradient as it is used"),
        Row(grads_tolerance, r"\operatorname{tol}", "how far it may be off", default=0.0),
        Row(stored_beta2, r"\hat\beta", "beta2 as it is stored"),
        Row(stored_rest, r"\hat c", "complement of beta2 as it is stored"),
        Row(beta2_error, r"\rho", "relative error of the stored beta2", default=2.0**-24),
        Row(rest_error, r"\rho'", "relative error of the stored complement", default=2.0**-24),
    ),
    words="The computed beta2 v + (complement of beta2) g squared, its products rounded or fused with the addition, "
    "differs from the exact one by at most {two} roundings of the first term and {three} of the second, beside what "
    "the "
    "coefficients are off, and smallest subnormals where v or g is not zero.",
    numbers={"two": sp.Integer(2), "three": sp.Integer(3)},
    good_for="Checks Adam's second moment element by element.",
    source="ours",
    example=second_example,
    laws=("L3",),
    coq_imports=("Rounding",),
    remarks="The coefficient is applied to the square. Applied to g before the second multiplication the count is "
    "the same; what that product loses to underflow is multiplied by g, which the factor max(1, size of g) covers. "
    "Not covered: the root of the coefficient applied to g before it is squared, and the lerp of v and the square. "
    "The model has no largest number, so no overflow is assumed: neither the inputs nor what is computed on the way "
    "may overflow.",
)
