"""T11b and T11f: u = beta1 m + (1-beta1) g + delta, which a worker compresses, in floating point, in every order."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

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
    representable,
    roundings,
    x,
)
from theory.formula import ForAll, eq, le
from theory.notation import Row, beta1
from theory.orders import Plus, Read, Times
from theory.rounding import coefficient_error, round_to
from theory.theorem import Example, Hypothesis, Theorem

m, g, delta = sp.symbols("m g delta", real=True)
anchor, far = sp.symbols("anchor far", real=True)
stored_beta1, stored_rest = sp.symbols("stored_beta1 stored_rest", real=True)
beta1_error, rest_error, grads_tolerance = sp.symbols("beta1_error rest_error grads_tolerance", nonnegative=True)
weight, weight_error = sp.symbols("weight weight_error", nonnegative=True)
anchor_tolerance, far_tolerance = sp.symbols("anchor_tolerance far_tolerance", nonnegative=True)
stored_weight, far_used = sp.symbols("stored_weight far_used", real=True)
gap = sp.Abs(far - anchor) + anchor_tolerance + far_tolerance
CLOSED_UNIT: Any = sp.Interval(0, 1)

SCALARS = (
    Row(m, "m", "momentum, one coordinate", default=1.0),
    Row(g, "g", "gradient, one coordinate", default=1.0),
    Row(delta, r"\delta", "error of the last step, one coordinate", default=1.0),
    Row(grads_tolerance, r"\operatorname{tol}", "how far the gradient used may be from g", default=0.0),
)
ENOUGH_BITS = Hypothesis("enough_bits", le(4, precision), "the format has at least four bits")
ONCE = ForAll((x,), eq(reads(order, x), x[0] + x[1] + x[2]))


def product_example() -> Example:
    """The worst inputs that the search over last bits has found: nearly every rounding in one direction."""
    beta = 0.9
    stored, rest = (float(round_to(value, "float32")) for value in (beta, 1 - beta))
    values = [1.143408179283142, 0.5000001192092896, 1.0132789611816406e-06]
    tree = Plus(Plus(Times(stored, Read(0)), Times(rest, Read(1))), Read(2))
    b = Fraction(beta)
    one, two, three = map(Fraction, values)
    error = abs(orders.computed(tree, values, 24, 149) - (b * one + (1 - b) * two + three))
    of_beta, of_rest = coefficient_error(beta, "float32")
    return Example(
        "float32, beta1 = 0.9",
        float(error),
        {
            "precision": 24, "least": 149, "beta1": beta, "m": values[0], "g": values[1], "delta": values[2],
            "grads_tolerance": 0.0, "order": tree, "inputs": values, "stored_beta1": stored, "stored_rest": rest,
            "beta1_error": of_beta, "rest_error": of_rest,
        },
    )  # fmt: skip


PRODUCT = Theorem(
    id="T11b",
    title="Corrected momentum in floating point, from two products",
    conclusion=le(
        sp.Abs(computed(precision, least, order, inputs) - (beta1 * m + (1 - beta1) * g + delta)),
        compose(beta1_error, gamma(3, precision)) * beta1 * sp.Abs(m)
        + compose(rest_error, gamma(3, precision)) * (1 - beta1) * (sp.Abs(g) + grads_tolerance)
        + gamma(2, precision) * sp.Abs(delta)
        + eta() * (nonzero(m) + nonzero(sp.Abs(g) + grads_tolerance))
        + (1 - beta1) * grads_tolerance,
    ),
    hypotheses=(
        ENOUGH_BITS,
        representable(inputs, 3, "in_format", "momentum, gradient and error are numbers of the format"),
        Hypothesis("reads_m", eq(inputs[0], m), "the first input is the momentum"),
        Hypothesis(
            "reads_g", le(sp.Abs(inputs[1] - g), grads_tolerance), "the second is the gradient, within its tolerance"
        ),
        Hypothesis("reads_delta", eq(inputs[2], delta), "the third is the error"),
        Hypothesis(
            "beta1_stored",
            le(sp.Abs(stored_beta1 - beta1), beta1_error * beta1),
            "the stored beta1 is off by a known relative error",
        ),
        Hypothesis(
            "rest_stored",
            le(sp.Abs(stored_rest - (1 - beta1)), rest_error * (1 - beta1)),
            "so is the stored complement of beta1",
        ),
        Hypothesis("read_once", ONCE, "each input is read once"),
        Hypothesis(
            "evaluates",
            ForAll((x,), eq(exact(order, x), stored_beta1 * x[0] + stored_rest * x[1] + x[2])),
            "in exact arithmetic it is the expression with the stored coefficients",
        ),
        Hypothesis("m_path", le(roundings(order, 0), 3), "m passes a product and two additions, or fewer operations"),
        Hypothesis("g_path", le(roundings(order, 1), 3), "so does g"),
        Hypothesis("delta_path", le(roundings(order, 2), 2), "delta passes two additions at most"),
        Hypothesis("m_product", le(products(order, 0), 1), "m is multiplied once at most"),
        Hypothesis("g_product", le(products(order, 1), 1), "g is multiplied once at most"),
        Hypothesis("delta_product", le(products(order, 2), 0), "delta is not multiplied"),
    ),
    where=(
        *FORMAT,
        ORDER,
        INPUTS,
        *SCALARS,
        Row(stored_beta1, r"\hat\beta", "beta1 as it is stored"),
        Row(stored_rest, r"\hat c", "complement of beta1 as it is stored"),
        Row(beta1_error, r"\rho", "relative error of the stored beta1", default=2.0**-24),
        Row(rest_error, r"\rho'", "relative error of the stored complement", default=2.0**-24),
    ),
    words="The computed beta1 m + (complement of beta1) g + delta, its terms added in any order, products rounded or "
    "fused with an addition, differs from the exact one by at most {three} roundings of each product (and what the "
    "stored coefficients are off), {two} of delta, and one smallest subnormal for each product that is not zero.",
    numbers={"three": sp.Integer(3), "two": sp.Integer(2)},
    good_for="Where u exceeds this bound the bit that is sent is determined; elsewhere either sign is right.",
    source="ours",
    example=product_example,
    laws=("C2",),
    coq_imports=("Rounding",),
    remarks="The bound of the tolerance function is this right-hand side. An upper bound of the stored coefficients' "
    "errors is known exactly, so it is charged exactly and not as a fourth unknown rounding. The model has no "
    "largest number, so no overflow is assumed: neither the inputs nor what is computed on the way may overflow.",
)


def lerp_example() -> Example:
    """m + (1-beta1)(g - m) with a small beta1: it rounds at the size of m, however little of m is left."""
    beta, values = 0.1, [1.1113202571868896, 7.74875559272914e-07, 0.0]
    c = float(round_to(1 - beta, "float32"))
    rounded_gap = float(round_to(values[1] - values[0], "float32"))
    tree = Plus(Plus(Read(0), Times(c, Read(1))), Read(2))
    w, a, b = Fraction(1 - beta), Fraction(values[0]), Fraction(values[1])
    error = abs(orders.computed(tree, [values[0], rounded_gap, 0.0], 24, 149) - (a + w * (b - a)))
    return Example(
        "float32, beta1 = 0.1, from the momentum",
        float(error),
        {
            "precision": 24, "least": 149, "anchor": values[0], "far": values[1], "delta": 0.0, "weight": 1 - beta,
            "stored_weight": c, "weight_error": abs(c - (1 - beta)) * (1 + 2.0**-50), "order": tree,
            "inputs": [values[0], rounded_gap, 0.0], "anchor_tolerance": 0.0, "far_tolerance": 0.0,
            "far_used": values[1],
        },
    )  # fmt: skip


LERP = Theorem(
    id="T11f",
    title="Corrected momentum in floating point, by interpolation",
    conclusion=le(
        sp.Abs(computed(precision, least, order, inputs) - (anchor + weight * (far - anchor) + delta)),
        gamma(2, precision) * (sp.Abs(anchor) + anchor_tolerance)
        + (gamma(4, precision) * weight + (1 + gamma(4, precision)) * weight_error) * gap
        + gamma(2, precision) * sp.Abs(delta)
        + eta() * nonzero(gap)
        + (1 - weight) * anchor_tolerance
        + weight * far_tolerance,
    ),
    hypotheses=(
        Hypothesis("enough_bits", le(5, precision), "the format has at least five bits"),
        Hypothesis("anchor_in_format", eq(fl(precision, least, inputs[0]), inputs[0]), "the anchor is in the format"),
        Hypothesis("far_in_format", eq(fl(precision, least, far_used), far_used), "so is the other end"),
        Hypothesis("delta_in_format", eq(fl(precision, least, delta), delta), "and the error"),
        Hypothesis("reads_anchor", le(sp.Abs(inputs[0] - anchor), anchor_tolerance), "the first input is the anchor"),
        Hypothesis("near_far", le(sp.Abs(far_used - far), far_tolerance), "the other end is within its tolerance"),
        Hypothesis("reads_gap", eq(inputs[1], fl(precision, least, far_used - inputs[0])), "the second is their gap"),
        Hypothesis("reads_delta", eq(inputs[2], delta), "the third is the error"),
        Hypothesis(
            "weight_stored",
            le(sp.Abs(stored_weight - weight), weight_error),
            "the stored weight is off by a known error",
        ),
        Hypothesis("read_once", ONCE, "each input is read once"),
        Hypothesis(
            "evaluates",
            ForAll((x,), eq(exact(order, x), x[0] + stored_weight * x[1] + x[2])),
            "in exact arithmetic it is the interpolation with the stored weight, plus the error",
        ),
        Hypothesis("anchor_path", le(roundings(order, 0), 2), "the anchor passes two additions at most"),
        Hypothesis("gap_path", le(roundings(order, 1), 3), "the gap passes a product and two additions at most"),
        Hypothesis("delta_path", le(roundings(order, 2), 2), "delta passes two additions at most"),
        Hypothesis("anchor_product", le(products(order, 0), 0), "the anchor is not multiplied"),
        Hypothesis("gap_product", le(products(order, 1), 1), "the gap is multiplied once at most"),
        Hypothesis("delta_product", le(products(order, 2), 0), "delta is not multiplied"),
    ),
    where=(
        *FORMAT,
        ORDER,
        INPUTS,
        SCALARS[2],
        Row(anchor, "a", "where the interpolation starts: m or g", default=1.0),
        Row(far, "b", "the other one", default=1.0),
        Row(anchor_tolerance, r"\tau_a", "how far the anchor used may be from a", default=0.0),
        Row(far_tolerance, r"\tau_b", "how far the other end used may be from b", default=0.0),
        Row(far_used, "b'", "the other end as it is used"),
        Row(weight, "w", "share of b: complement of beta1 from m, beta1 from g", domain=CLOSED_UNIT, default=0.1),
        Row(stored_weight, r"\hat w", "the weight as it is stored"),
        Row(weight_error, r"\omega", "error of the stored weight", default=2.0**-28),
    ),
    words="The computed a + w (b - a) + delta, its terms added in any order, differs from the exact one by at most "
    "{two} roundings of the anchor a and of delta, {four} of w (b - a) (and what the stored weight is off), and one "
    "smallest subnormal if b is not a.",
    numbers={"two": sp.Integer(2), "four": sp.Integer(4)},
    good_for="Covers torch.lerp, and m plus (complement of beta1) (g - m) for every beta1: its error has the size "
    "of m even where little of m is left.",
    source="ours",
    example=lerp_example,
    laws=("C2",),
    coq_imports=("Rounding",),
    remarks="With a = m, b = g, w = 1 - beta1, or a = g, b = m, w = beta1, the exact value is the corrected "
    "momentum. The model has no largest number, so no overflow is assumed: neither the inputs nor what is computed "
    "on the way may overflow.",
)

THEOREMS = (PRODUCT, LERP)
