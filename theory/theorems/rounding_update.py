"""T11e, T11l and T11m: the parameter update in floating point, in every order: its roundings, P, and the root of v."""

from __future__ import annotations

from fractions import Fraction

import sympy as sp

from theory import orders
from theory.floating import (
    EVALUATION,
    FORMAT,
    INPUTS,
    compose,
    eta,
    evaluated,
    fl,
    gamma,
    ideal,
    inputs,
    least,
    nonzero,
    order,
    passed,
    precision,
    spill,
    u,
    x,
)
from theory.formula import ForAll, eq, le, lt
from theory.notation import Row, count, k
from theory.orders import Plus, Read, Times
from theory.rounding import round_to
from theory.theorem import Example, Hypothesis, Theorem

NO_OVERFLOW = (
    "The model has no largest number, so no overflow is assumed: neither the inputs nor what is computed on the way "
    "may overflow."
)
q = sp.Symbol("q", real=True)
point, moment, keep = sp.symbols("point moment keep", real=True)
rate, shrink, stored_rate, stored_shrink = sp.symbols("rate shrink stored_rate stored_shrink", nonnegative=True)
moment_tolerance, rate_error, decay_error = sp.symbols("moment_tolerance rate_error decay_error", nonnegative=True)
point_spill, moment_spill, decay_spill = sp.symbols("point_spill moment_spill decay_spill", nonnegative=True)
point_steps, moment_steps, decay_steps = (
    count(name, least=0) for name in ("point_steps", "moment_steps", "decay_steps")
)
reach = sp.Abs(moment) + moment_tolerance


def update_example() -> Example:
    """Parameters of size 1, where the final subtraction's rounding dominates."""
    x0, m0, lr = 1 + 2.0**-23, 1.0, float(round_to(0.99 * 2.0**-24, "float32"))
    tree = Plus(Read(0), Times(-lr, Times(1.0, Read(1))))
    error = abs(orders.computed(tree, [x0, m0], 24, 149) - (Fraction(x0) - Fraction(lr) * Fraction(m0)))
    return Example(
        "one float32 update, parameters of size 1, no decay",
        float(error),
        {
            "precision": 24, "least": 149, "order": tree, "inputs": [x0, m0, x0] + [0.0] * 12, "point": x0,
            "moment": m0, "moment_tolerance": 0.0, "keep": 1.0, "rate": lr, "stored_rate": lr, "rate_error": 0.0,
            "shrink": 0.0, "stored_shrink": 0.0, "decay_error": 0.0, "point_steps": 1, "moment_steps": 3,
            "decay_steps": 0, "point_spill": 0.0, "moment_spill": 1 + 2.0**-20, "decay_spill": 0.0,
        },
    )  # fmt: skip


UPDATE = Theorem(
    id="T11e",
    title="Parameter update in floating point",
    conclusion=le(
        sp.Abs(evaluated(precision, least, order, inputs) - (point - rate * moment - shrink * point)),
        (gamma(point_steps, precision) * sp.Abs(keep) + gamma(decay_steps, precision) * stored_shrink + decay_error)
        * sp.Abs(point)
        + (gamma(moment_steps, precision) * (rate + rate_error) + rate_error) * reach
        + rate * moment_tolerance
        + eta() * ((point_spill + decay_spill) * nonzero(point) + moment_spill * nonzero(reach)),
    ),
    hypotheses=(
        Hypothesis(
            "in_format", ForAll((k,), eq(fl(precision, least, inputs[k]), inputs[k])), "the inputs are in the format"
        ),
        Hypothesis("reads_point", eq(inputs[0], point), "the first input is the parameter"),
        Hypothesis(
            "reads_moment", le(sp.Abs(inputs[1] - moment), moment_tolerance), "the second is m, within its tolerance"
        ),
        Hypothesis("reads_again", eq(inputs[2], point), "the third is the parameter once more, for the weight decay"),
        Hypothesis(
            "evaluates",
            ForAll((x,), eq(ideal(order, x), keep * x[0] - stored_rate * x[1] - stored_shrink * x[2])),
            "in exact arithmetic it is the update with the stored coefficients",
        ),
        Hypothesis(
            "paths",
            ForAll(
                (q, x),
                eq(
                    passed(q, order, x),
                    sp.Abs(keep) * q**point_steps * x[0]
                    + stored_rate * q**moment_steps * x[1]
                    + stored_shrink * q**decay_steps * x[2],
                ),
            ),
            "each input is read once, and passes so many operations",
        ),
        Hypothesis(
            "spills",
            ForAll(
                (x,),
                le(
                    spill(1 + u(), order, x),
                    point_spill * nonzero(x[0]) + moment_spill * nonzero(x[1]) + decay_spill * nonzero(x[2]),
                ),
            ),
            "what a product loses to underflow comes out so many times as large",
        ),
        Hypothesis(
            "rate_stored", le(sp.Abs(stored_rate - rate), rate_error), "the stored lr P is off by a known error"
        ),
        Hypothesis(
            "decay_stored",
            le(sp.Abs(keep - stored_shrink - (1 - shrink)), decay_error),
            "so is what is left of x, as one factor or as two",
        ),
        Hypothesis(
            "few",
            lt((point_steps + moment_steps + decay_steps) * u(), 1),
            "fewer roundings than one over the unit roundoff",
        ),
    ),
    where=(
        *FORMAT,
        EVALUATION,
        INPUTS,
        Row(point, "x", "parameter, one coordinate", default=1.0),
        Row(moment, "m", "momentum, one coordinate", default=1.0),
        Row(moment_tolerance, r"\operatorname{tol}", "how far the momentum used may be off", default=0.0),
        Row(keep, r"\hat k", "stored factor of x: one, or one less lr times the decay", default=1.0),
        Row(rate, "r", "lr P, by which m is multiplied", default=1e-3),
        Row(stored_rate, r"\hat r", "the same as it is stored: the product of the constants"),
        Row(rate_error, r"\omega_r", "how far it may be off", default=0.0),
        Row(shrink, "l", "lr times weight decay"),
        Row(stored_shrink, r"\hat l", "the same as it is stored; nothing where x has a factor", default=0.0),
        Row(decay_error, r"\omega_l", "how far the share of x may be off", default=0.0),
        Row(point_steps, "h_x", "operations that x passes", default=1),
        Row(moment_steps, "h_m", "operations that m passes", default=4),
        Row(decay_steps, "h_l", "operations that x passes on its way through the decay", default=4),
        Row(point_spill, "a_x", "what underflow of products with x comes to", default=0.0),
        Row(moment_spill, "a_m", "what underflow of products with m comes to", default=1.01),
        Row(decay_spill, "a_l", "what underflow of products of x with the decay comes to", default=0.0),
    ),
    words="The update x - lr (P m + decay x), its operations in any order, fused or not, differs from the exact one by "
    "at most gamma of the operations that each term passes, beside what its coefficients and m are off, and by what "
    "its products lose to underflow, however much they are multiplied afterwards.",
    good_for="Checks the parameters after a step, element by element, for any learning rate and order of the update.",
    source="ours",
    example=update_example,
    laws=("L3", "C5"),
    coq_imports=("Rounding", "Updates"),
    remarks="P times m, m divided by the denominator, lr first or last, decay inside the bracket, as a second "
    "subtraction or as a factor of x: each is an order of evaluation with constants of its own. A division is a "
    "product with a constant that need not be a number of the format. The tolerance function takes the largest of "
    "three such bounds. " + NO_OVERFLOW,
)

learning_rate, root_exact, offset = sp.symbols("learning_rate root_exact offset", nonnegative=True)
root_tolerance, offset_error, step_error, quotient_error, quotient_slip = sp.symbols(
    "root_tolerance offset_error step_error quotient_error quotient_slip", nonnegative=True
)
root_used, stored_offset, stored_step, stored_quotient = sp.symbols(
    "root_used stored_offset stored_step stored_quotient", real=True
)
bottom = fl(precision, least, root_used + stored_offset)
missing = root_tolerance + offset_error * offset + u() * (root_exact + root_tolerance + offset * (1 + offset_error))
smallest = sp.Max(root_exact + offset - missing, (1 - offset_error) * offset)


def rate_example() -> Example:
    """A denominator whose sum falls just short of a midpoint, so that it is rounded by half a unit."""
    one, other = 1.0, float(round_to(0.99 * 2.0**-24, "float32"))
    quotient = 1 / float(orders.nearest(Fraction(one) + Fraction(other), 24, 149))
    return Example(
        "float32, a root of 1 and an eps of just under half its last bit",
        abs(quotient - 1 / (one + other)),
        {
            "precision": 24, "least": 149, "learning_rate": 1.0, "stored_step": 1.0, "step_error": 0.0,
            "root_exact": one, "root_used": one, "root_tolerance": 0.0, "offset": other, "stored_offset": other,
            "offset_error": 0.0, "stored_quotient": quotient, "quotient_error": 2.0**-50, "quotient_slip": 0.0,
        },
    )  # fmt: skip


RATE = Theorem(
    id="T11l",
    title="Preconditioned learning rate in floating point",
    conclusion=le(
        sp.Abs(stored_quotient - learning_rate / (root_exact + offset)),
        compose(step_error, quotient_error, missing / smallest) * learning_rate / (root_exact + offset) + quotient_slip,
    ),
    hypotheses=(
        Hypothesis("root_in_format", eq(fl(precision, least, root_used), root_used), "the root is in the format"),
        Hypothesis("offset_in_format", eq(fl(precision, least, stored_offset), stored_offset), "so is eps"),
        Hypothesis("root_not_negative", le(0, root_used), "a root is not negative"),
        Hypothesis("root_near", le(sp.Abs(root_used - root_exact), root_tolerance), "it is within its tolerance"),
        Hypothesis(
            "offset_stored",
            le(sp.Abs(stored_offset - offset), offset_error * offset),
            "the stored eps is off by a known relative error",
        ),
        Hypothesis(
            "step_stored",
            le(sp.Abs(stored_step - learning_rate), step_error * learning_rate),
            "so is the learning rate",
        ),
        Hypothesis(
            "quotient_stored",
            le(
                sp.Abs(stored_quotient - stored_step / bottom),
                quotient_error * sp.Abs(stored_step) / bottom + quotient_slip,
            ),
            "and their quotient, or the product with a reciprocal, which may underflow besides",
        ),
        Hypothesis("not_zero", lt(0, smallest), "the denominator is known to be positive"),
    ),
    where=(
        *FORMAT,
        Row(learning_rate, r"\gamma", "learning rate, over the bias correction of m", default=1e-3),
        Row(stored_step, r"\hat\gamma", "the same as it is stored"),
        Row(step_error, r"\rho_\gamma", "relative error of it", default=2.0**-24),
        Row(root_exact, "r", "root of v, over that of its bias correction", default=1.0),
        Row(root_used, "r'", "the root as it is used"),
        Row(root_tolerance, r"\tau_r", "how far it may be off", default=2.0**-23),
        Row(offset, r"\varepsilon", "eps, which may be nothing here", default=1e-8),
        Row(stored_offset, r"\hat\varepsilon", "eps as it is stored"),
        Row(offset_error, r"\rho_\varepsilon", "relative error of it", default=2.0**-24),
        Row(stored_quotient, r"\hat p", "lr P as it is stored"),
        Row(quotient_error, r"\rho_p", "relative error of the quotient", default=2.0**-24),
        Row(quotient_slip, r"\omega_p", "what it may lose to underflow", default=0.0),
    ),
    words="lr over (root plus eps), the sum rounded, differs from the exact one by what its parts are off, relatively: "
    "the denominator is short by at most the tolerance of the root, the error of eps and one rounding, and it is never "
    "below eps.",
    good_for="Gives T11e the error of its coefficient lr P, also where v is smaller than what it is known to.",
    source="ours",
    example=rate_example,
    laws=("L3", "C6"),
    coq_imports=("Rounding",),
    remarks="Where the root is known only to within more than itself the denominator is at least eps as it is stored. "
    "Without eps and with such a root there is no bound. " + NO_OVERFLOW,
)

second, second_used = sp.Symbol("second", nonnegative=True), sp.Symbol("second_used", real=True)
second_error, second_slip, root_error = sp.symbols("second_error second_slip root_error", nonnegative=True)


def root_example() -> Example:
    """v = 0, known to within 2^-40: its root may be 2^-20."""
    return Example(
        "v = 0, known to within 2^-40",
        2.0**-20,
        {
            "second": 0.0, "second_used": 2.0**-40, "second_error": 0.0, "second_slip": 2.0**-40,
            "root_used": 2.0**-20, "root_error": 0.0,
        },
    )  # fmt: skip


ROOT = Theorem(
    id="T11m",
    title="Root of an uncertain second moment",
    conclusion=le(
        sp.Abs(root_used - sp.sqrt(second)),
        compose(second_error, root_error) * sp.sqrt(second)
        + (1 + root_error) * second_slip / sp.Max(sp.sqrt(second), sp.sqrt(second_slip)),
    ),
    hypotheses=(
        Hypothesis("not_negative", le(0, second_used), "the second moment used is not negative"),
        Hypothesis(
            "second_near",
            le(sp.Abs(second_used - second), second_error * second + second_slip),
            "it is within a relative and an absolute error",
        ),
        Hypothesis(
            "rooted",
            le(sp.Abs(root_used - sp.sqrt(second_used)), root_error * sp.sqrt(second_used)),
            "its root is taken to within a relative error",
        ),
    ),
    where=(
        Row(second, "v", "second moment over its bias correction", default=1.0),
        Row(second_used, "v'", "the same as it is used"),
        Row(second_error, r"\rho_v", "relative error of it", default=2.0**-24),
        Row(second_slip, r"\omega_v", "absolute error of it", default=0.0),
        Row(root_used, "r'", "the root as it is used"),
        Row(root_error, r"\rho_r", "relative error of taking it", default=2.0**-24),
    ),
    words="The root of a v that is off relatively and by an absolute amount is off by no more than the relative errors "
    "and by the amount over the root of v or, where v is small, by the root of the amount.",
    good_for="Gives T11l the tolerance of the root of v in Adam's step, where v itself was just computed.",
    source="ours",
    example=root_example,
    laws=("L3",),
    remarks="The root of a number of the format does not underflow, so rounding it is a relative error alone. Where "
    "v and the amount are both nothing the formula has no value; there the tolerance takes its last term as nothing.",
)

THEOREMS = (UPDATE, RATE, ROOT)
