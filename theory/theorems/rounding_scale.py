"""T11c, T11h, T11i, T11n: the scale of a compressed vector, summed in any order of depth h, in floating point."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
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
    roundings,
    smallest_subnormal,
    u,
    unit_roundoff,
    x,
)
from theory.formula import ForAll, array, eq, le, lt, mean, total
from theory.notation import Row, count, d, k
from theory.orders import Order, Plus, Read, Times
from theory.theorem import Example, Hypothesis, Theorem

depth = count("depth", least=0)
stored_precision = count("stored_precision")
stored_least = count("stored_least", least=0)
vector, used, tolerances = array("vector"), array("used"), array("tolerances")
weights = array("weights")
stored_weight = sp.Symbol("stored_weight", real=True)


def kept(value: Any) -> Any:
    """The scale as it is stored, in a format of its own."""
    return fl(stored_precision, stored_least, value)


LAST = unit_roundoff(stored_precision)
STORED_ETA = smallest_subnormal(stored_least)
IN_FORMAT = Hypothesis(
    "in_format",
    ForAll(((k, d),), eq(fl(precision, least, used[k]), used[k])),
    "what is summed are numbers of the accumulator's format",
)
MAGNITUDES = Hypothesis("magnitudes", ForAll(((k, d),), eq(inputs[k], sp.Abs(used[k]))), "the inputs are magnitudes")
FEW = Hypothesis("few", lt((depth + 3) * u(), 1), "fewer roundings than one over the unit roundoff")
NEAR = Hypothesis(
    "near",
    ForAll(((k, d),), le(sp.Abs(used[k] - vector[k]), tolerances[k])),
    "the vector used is within its tolerances",
)
READ_ONCE = Hypothesis("read_once", ForAll((x,), eq(reads(order, x), total(x[k], k, d))), "each input is read once")
SUMS = Hypothesis(
    "sums", ForAll((x,), eq(exact(order, x), total(x[k], k, d))), "in exact arithmetic it is the sum of the inputs"
)
WHERE = (
    *FORMAT,
    ORDER,
    INPUTS,
    Row(stored_precision, "p'", "bits of the format in which the scale is stored", default=24),
    Row(stored_least, "e'", "its smallest positive number is 2^-stored_least", default=149),
    Row(depth, "h", "most additions that one term goes through: d - 1 for any order", default=10),
    Row(vector, "u", "what is compressed"),
    Row(used, "u'", "the same as the implementation has it"),
    Row(tolerances, r"\operatorname{tol}", "how far it may be off, by coordinate"),
    Row(stored_weight, r"\hat w", "1/d, or its root, as it is stored or divided by"),
)

size = mean(sp.Abs(vector[k]), k, d)
moved = mean(tolerances[k], k, d)
L1 = Theorem(
    id="T11c",
    title="l1 scale in floating point",
    conclusion=le(
        sp.Abs(kept(fl(precision, least, stored_weight * computed(precision, least, order, inputs))) - size),
        compose(gamma(depth + 3, precision), LAST) * (size + moved)
        + moved
        + (eta() + STORED_ETA) * nonzero(size + moved),
    ),
    hypotheses=(
        IN_FORMAT,
        MAGNITUDES,
        NEAR,
        READ_ONCE,
        SUMS,
        Hypothesis(
            "paths",
            ForAll(((k, d),), le(roundings(order, k), depth)),
            "no term goes through more than `depth` additions",
        ),
        Hypothesis("no_product", ForAll(((k, d),), le(products(order, k), 0)), "the terms are added as they are"),
        Hypothesis(
            "weight_stored",
            le(sp.Abs(stored_weight - 1 / d), gamma(2, precision) / d),
            "the sum is divided by d, or multiplied by a rounded 1/d, d itself rounded or not",
        ),
        FEW,
    ),
    where=WHERE,
    words="The l1 scale, summed in any order of depth h, differs from the exact one by at most gamma of (h + {three}) "
    "and the rounding in storage, relatively, and one smallest subnormal of each format; a vector that is off by tau "
    "moves it by at most the mean of tau.",
    numbers={"three": sp.Integer(3)},
    good_for="Checks a reported scale without knowing in which order it was summed.",
    source="ours; Higham, Chapter 4, for sums",
    example=lambda: example("l1"),
    laws=("C1",),
    coq_imports=("Rounding",),
    remarks="The model has no largest number, so no overflow is assumed: neither the inputs nor what is computed on "
    "the way may overflow. In float32 two entries of 3e38 break this: their sum is inf. An implementation that has "
    "to work there must scale first [C1], which this theorem does not cover.",
)


def weighted_example() -> Example:
    """Small subnormal numbers, of whose halves each is rounded up; their sum is exact."""
    number, tiny = 2, 2.0**-149
    tree = Plus(Times(0.5, Read(0)), Times(0.5, Read(1)))
    values = [3 * tiny] * number
    scale = orders.computed(tree, values, 24, 149)
    return Example(
        "two numbers of three times the smallest subnormal",
        float(abs(scale - Fraction(values[0]))),
        {
            "live": number,
            "precision": 24,
            "least": 149,
            "stored_precision": 24,
            "stored_least": 149,
            "depth": 1,
            "order": tree,
            "inputs": values,
            "vector": values,
            "used": values,
            "tolerances": [0.0] * number,
            "weights": [0.5] * number,
        },
    )


reach = sp.Abs(vector[k]) + tolerances[k]
WEIGHTED_FIRST = Theorem(
    id="T11n",
    title="l1 scale in floating point, each magnitude divided before the sum",
    conclusion=le(
        sp.Abs(kept(computed(precision, least, order, inputs)) - size),
        compose(gamma(depth + 3, precision), LAST) * (size + moved)
        + moved
        + eta() * (1 + gamma(depth + 3, precision)) * total(nonzero(reach), k, d)
        + STORED_ETA * nonzero(size + moved),
    ),
    hypotheses=(
        IN_FORMAT,
        MAGNITUDES,
        NEAR,
        READ_ONCE,
        Hypothesis(
            "evaluates",
            ForAll((x,), eq(exact(order, x), total(weights[k] * x[k], k, d))),
            "in exact arithmetic it is the weighted sum",
        ),
        Hypothesis(
            "paths",
            ForAll(((k, d),), le(roundings(order, k), depth + 1)),
            "a magnitude passes one product and at most `depth` additions",
        ),
        Hypothesis("one_product", ForAll(((k, d),), le(products(order, k), 1)), "it is multiplied once at most"),
        Hypothesis(
            "weights_stored",
            ForAll(((k, d),), le(sp.Abs(weights[k] - 1 / d), gamma(2, precision) / d)),
            "each is divided by d, or multiplied by a rounded 1/d, d itself rounded or not",
        ),
        FEW,
    ),
    where=(*WHERE[:-1], Row(weights, r"\hat w", "1/d as it is stored or divided by")),
    words="The l1 scale whose magnitudes are divided one by one, then summed in any order of depth h, differs from the "
    "exact one as that of T11c does, but for one smallest subnormal for each coordinate that is not zero.",
    good_for="Covers whoever divides first so that the sum can't overflow; as T11c's bound is smaller, it is the "
    "tolerance of every l1 scale.",
    source="ours; Higham, Chapter 4, for sums",
    example=weighted_example,
    laws=("C1",),
    coq_imports=("Rounding",),
    remarks="The model has no largest number, so no overflow is assumed. Among subnormal numbers the last term is more "
    "than the scale itself may be: there such an evaluation says little.",
)

root_mean_square = sp.sqrt(total(vector[k] ** 2, k, d) / d)
root_moved = sp.sqrt(total(tolerances[k] ** 2, k, d) / d)
summed = gamma(depth + 1, precision)
relative = compose(summed / (1 + sp.sqrt(1 - summed)), gamma(5, precision), LAST)
spill = 2 * eta() * (1 + summed) / (1 - summed)
off = 2 * spill / (sp.Max(root_mean_square - root_moved, 0) + sp.sqrt(spill))
L2_BOUND = (
    relative * (root_mean_square + root_moved)
    + root_moved
    + ((1 + relative) * off + 2 * eta() + STORED_ETA) * nonzero(root_mean_square + root_moved)
)
SQUARES = (
    Hypothesis("squares", ForAll(((k, d),), eq(inputs[k], used[k] ** 2)), "the inputs are squares, not yet rounded"),
    NEAR,
    READ_ONCE,
    SUMS,
    Hypothesis(
        "paths",
        ForAll(((k, d),), le(roundings(order, k), depth + 1)),
        "a square is rounded, or fused with an addition, and goes through at most `depth` additions",
    ),
    Hypothesis("one_product", ForAll(((k, d),), le(products(order, k), 1)), "each input is one product"),
    Hypothesis("few", lt(2 * (depth + 1) * u(), 1), "at most half as many roundings as the format allows"),
    Hypothesis("enough_bits", le(5, precision), "the accumulator has at least five bits"),
)
ROOT_OF_MEAN = Theorem(
    id="T11h",
    title="l2 scale in floating point, as the root of the mean square",
    conclusion=le(
        sp.Abs(
            kept(
                fl(
                    precision,
                    least,
                    sp.sqrt(fl(precision, least, stored_weight * computed(precision, least, order, inputs))),
                )
            )
            - root_mean_square
        ),
        L2_BOUND,
    ),
    hypotheses=(
        *SQUARES,
        Hypothesis(
            "weight_stored",
            le(sp.Abs(stored_weight - 1 / d), gamma(2, precision) / d),
            "the sum is divided by d, or multiplied by a rounded 1/d, d itself rounded or not",
        ),
    ),
    where=WHERE,
    words="The l2 scale, squares rounded or fused and summed in any order of depth h, differs from the exact one by at "
    "most half of gamma of (h + {one}), {five} roundings and the one in storage, relatively, and what squares lose to "
    "underflow; a vector that is off by tau moves it by at most the l2 scale of tau.",
    numbers={"one": sp.Integer(1), "five": sp.Integer(5)},
    good_for="Checks a reported scale without knowing in which order it was summed.",
    source="ours; Higham, Chapter 4, for sums",
    example=lambda: example("mean"),
    laws=("C1",),
    coq_imports=("Rounding",),
    remarks="One bound covers this form and that of T11i. The model has no largest number, so no overflow is "
    "assumed: neither the inputs nor what is computed on the way may overflow. In float32 four entries of 3e19 break "
    "this: their squares are inf, while the scale is 3e19. An implementation that has to work there must scale first "
    "[C1], which this theorem does not cover.",
)
ROOT_OF_SUM = replace(
    ROOT_OF_MEAN,
    id="T11i",
    title="l2 scale in floating point, as the root of the sum over the root of d",
    conclusion=le(
        sp.Abs(
            kept(
                fl(
                    precision,
                    least,
                    stored_weight * fl(precision, least, sp.sqrt(computed(precision, least, order, inputs))),
                )
            )
            - root_mean_square
        ),
        L2_BOUND,
    ),
    hypotheses=(
        *SQUARES,
        Hypothesis(
            "weight_stored",
            le(sp.Abs(stored_weight - 1 / sp.sqrt(d)), gamma(3, precision) / sp.sqrt(d)),
            "the root is divided by the root of d, or multiplied by a rounded reciprocal of it",
        ),
    ),
    example=lambda: example("root"),
    remarks="One bound covers this form and that of T11h. The model has no largest number, so no overflow is "
    "assumed: neither the inputs nor what is computed on the way may overflow. In float32 four entries of 3e19 break "
    "this: their squares are inf, while the scale is 3e19. An implementation that has to work there must scale first "
    "[C1], which this theorem does not cover.",
)


def example(form: str) -> Example:
    """A sequential float32 sum whose additions all round the same way."""
    number = 64
    small = float(orders.nearest(Fraction(51, 100) * Fraction(1, 2**23), 24, 149))
    values = [1.0] + [small if form == "l1" else float(orders.nearest(small**0.5, 24, 149))] * (number - 1)
    tree: Order = Read(0) if form == "l1" else Times(1, Read(0))
    for place in range(1, number):
        tree = Plus(tree, Read(place) if form == "l1" else Times(1, Read(place)))
    terms = [abs(value) if form == "l1" else Fraction(value) ** 2 for value in values]
    total_sum = orders.computed(tree, terms, 24, 149)
    single: Callable[[Any], Fraction] = lambda value: orders.nearest(value, 24, 149)  # noqa: E731
    if form == "l1":
        weight, truth = 1 / number, float(sum((Fraction(term) for term in terms), Fraction(0)) / number)
        scale = single(single(Fraction(weight) * total_sum))
    elif form == "mean":
        weight, truth = 1 / number, float(sum(terms) / number) ** 0.5
        scale = single(float(single(Fraction(weight) * total_sum)) ** 0.5)
    else:
        weight, truth = 1 / number**0.5, float(sum(terms) / number) ** 0.5
        scale = single(Fraction(weight) * single(float(total_sum) ** 0.5))
    return Example(
        "sixty-four coordinates in sequence",
        abs(float(scale) - truth),
        {
            "live": number,
            "precision": 24,
            "least": 149,
            "stored_precision": 24,
            "stored_least": 149,
            "depth": number - 1,
            "order": tree,
            "inputs": [float(term) for term in terms],
            "vector": values,
            "used": values,
            "tolerances": [0.0] * number,
            "stored_weight": weight,
        },
    )


THEOREMS = (L1, WEIGHTED_FIRST, ROOT_OF_MEAN, ROOT_OF_SUM)
