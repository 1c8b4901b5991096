"""T7d, T7e, T7l, T7m: Adam's own worst step, and what a variance floor kappa (C7) makes of compressed steps.

Adam cannot move a coordinate by more than gamma C, C = (1-beta1)/sqrt((1-beta2)(1-beta1^2/beta2)): its m and v come
from the same gradients. After the freeze that tie is cut: every live coordinate moves by gamma S P_k with ONE S a
chunk, whatever its own gradient. T7j bounds S; a floor v_k >= kappa mean(v) bounds P_k.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import sympy as sp

from theory.evaluate import bound
from theory.formula import ForAll, array, eq, le, lt, total
from theory.notation import (
    Row,
    T,
    beta1,
    beta2,
    count,
    d,
    eps,
    grads,
    k,
    lr,
    momentum,
    params,
    preconditioner,
    t,
    variance,
)
from theory.notation import variance_floor as kappa
from theory.theorem import Hypothesis, Quoted, Theorem
from theory.theorems import one_bit_magnitude as magnitude
from theory.theorems.one_bit_magnitude import MAGNITUDE, PULL, expected, flatness, outcome, s, signal, start
from theory.witness import instance

mean_variance = sp.Symbol("mean_variance", positive=True)
second = array("second")
coordinate = count("coordinate", least=0)
WORST = (1 - beta1) / sp.sqrt((1 - beta2) * (1 - beta1**2 / beta2))
NEEDED = (1 - beta2) * (1 - beta1**2 / beta2) / ((1 - beta1) * PULL)
DEFAULTS = {beta1: sp.Rational(9, 10), beta2: sp.Rational(999, 1000)}
MEMORY = Hypothesis("memory", lt(beta1**2, beta2), "beta1 squared is below beta2: v remembers longer")


def worst_adam_step(beta1: float, beta2: float) -> float:
    """C: Adam (without bias correction) never moves a coordinate by more than lr * C (T7d).

    Raises:
        ValueError: beta1^2 >= beta2, where no bound exists.
    """
    return float(bound(WORST_STEP, lr=1.0, beta1=beta1, beta2=beta2))


def variance_floor(beta1: float, beta2: float, flatness: float = 1.0) -> float:
    """The kappa at which T7e's bound for noise of mean zero is Adam's own worst step (T7l).

    Args:
        beta1: momentum constant.
        beta2: second-moment constant, beta1^2 < beta2 < 1.
        flatness: psi of T7j: 1 for the l1 scale, the least root of phi for l2 (0.8 for Gaussian vectors).

    Raises:
        ValueError: beta1^2 >= beta2, or flatness not above (1 - beta1)/2.
    """
    return float(bound(DEFAULT_FLOOR, beta1=beta1, beta2=beta2, flatness=flatness))


def growing() -> dict[str, Any]:
    """100 gradients growing by beta2/beta1 a step."""
    fast, slow = Fraction(9, 10), Fraction(999, 1000)
    grads_T = [(slow / fast) ** (step - 100) for step in range(101)]
    momentum_T, variance_T = [Fraction()], [Fraction()]
    for gradient in grads_T[1:]:
        momentum_T.append(fast * momentum_T[-1] + (1 - fast) * gradient)
        variance_T.append(slow * variance_T[-1] + (1 - slow) * gradient**2)
    numbers = {"lr": 1.0, "beta1": fast, "beta2": slow, "eps": 1e-8, "step": 100}
    return numbers | {"grads": grads_T, "momentum": momentum_T, "variance": variance_T}


WORST_STEP = Theorem(
    id="T7d",
    title="Adam's worst step",
    conclusion=le(sp.Abs(lr * momentum[t] / (sp.sqrt(variance[t]) + eps)), lr * WORST),
    hypotheses=(
        Hypothesis(
            "adam_momentum",
            ForAll((s,), eq(momentum[s + 1], beta1 * momentum[s] + (1 - beta1) * grads[s + 1])),
            "m of one coordinate is Adam's",
        ),
        Hypothesis(
            "adam_variance",
            ForAll((s,), eq(variance[s + 1], beta2 * variance[s] + (1 - beta2) * grads[s + 1] ** 2)),
            "v of one coordinate is Adam's",
        ),
        Hypothesis("momentum_start", eq(momentum[0], 0), "m starts at zero"),
        Hypothesis("variance_start", eq(variance[0], 0), "v starts at zero"),
        MEMORY,
    ),
    where=(Row(s, "s", "step", unit="steps"),),
    words="Adam without bias correction moves a coordinate by at most {worst} times the learning rate with the "
    "default constants, whatever its gradients.",
    numbers={"worst": Quoted(WORST, DEFAULTS)},
    good_for="The yardstick for compressed steps: what is larger than this, Adam without bias correction would never "
    "have done.",
    source="ours; the bound of Kingma and Ba 2015, section 2.1, with the exact constant",
    example=lambda: instance(WORST_STEP, "100 gradients growing by beta2/beta1 a step", growing()),
    laws=("L3",),
    remarks="Kingma and Ba print (1-beta1)/sqrt(1-beta2) as the bound for the sparsest case, one single gradient; "
    "spread gradients exceed it by up to 1/sqrt(1-beta1^2/beta2). Gradients that grow by beta2/beta1 a step come "
    "near the bound: that is shown by the example, not proved.",
)
POSITIVE_MEAN = Row(mean_variance, r"\bar v", "mean of the live v at the freeze", default=1.0)
COORDINATE = Row(coordinate, "l", "the coordinate whose steps are looked at")
STEP_SIZE = sp.sqrt(
    total(expected((params[s + 1, outcome, coordinate] - params[s, outcome, coordinate]) ** 2), s, T) / T
)


FLOORED_STEP = Theorem(
    id="T7e",
    title="Steps under the variance floor",
    conclusion=le(STEP_SIZE, lr * MAGNITUDE / sp.sqrt(kappa * mean_variance)),
    hypotheses=(
        *magnitude.SPACE,
        *magnitude.LOOP,
        *magnitude.SCALE,
        magnitude.DRIFT,
        magnitude.STRENGTH,
        magnitude.START,
        Hypothesis(
            "update",
            magnitude.everywhere(
                eq(
                    params[s + 1, outcome, k],
                    params[s, outcome, k] - lr * preconditioner[k] * momentum[s + 1, outcome, k],
                )
            ),
            "the parameters move by the preconditioned message (momentum form, no weight decay)",
        ),
        Hypothesis(
            "preconditioned",
            ForAll(((k, d),), eq(preconditioner[k], 1 / (sp.sqrt(variance[k]) + eps))),
            "P is that of the frozen v",
        ),
        Hypothesis(
            "floored", ForAll(((k, d),), le(kappa * mean_variance, variance[k])), "no live v lies below the floor C7"
        ),
        Hypothesis("live_coordinate", lt(coordinate, d), "it is a live coordinate"),
    ),
    where=(*magnitude.WHERE, POSITIVE_MEAN, COORDINATE),
    domains={kappa: sp.Interval.open(0, sp.oo)},
    words="For one compressor with error feedback, the root mean square over time and outcomes of the steps of any "
    "live coordinate is at most the learning rate times the bound of T7j over the root of the floor times the mean "
    "of v. "
    "In a long run, for noise of mean zero whose mean square is the mean of v, and the l1 scale, that is {noise} "
    "learning rates at the default constants and floor, however much the sizes of the coordinates differ. For l2 it "
    "grows as the vectors get less flat.",
    numbers={
        "noise": Quoted(
            lr * MAGNITUDE / sp.sqrt(kappa * mean_variance),
            {**magnitude.LATE_NOISE, flatness: 1, lr: 1, mean_variance: 1, kappa: sp.Rational(1, 1000)},
        ),
    },
    good_for="Says what a variance floor guarantees of one compressor: the root mean square of the steps, from "
    "numbers that a run can report.",
    source="ours",
    example=lambda: instance(
        FLOORED_STEP,
        "l1, three fair signs on two coordinates of sizes 1 and 7, the former at the floor",
        magnitude.noise((1, 7)),
    ),
    laws=("C7",),
    needs=("T7j",),
    remarks="What kappa guarantees is the size of a step, not convergence. An earlier form of this theorem took the "
    "bound for noise for granted with either scale; it is false for l2 where the sizes of coordinates differ. A "
    "larger kappa costs adaptivity: a coordinate below the floor slows down by the root of v over the floor. A freeze "
    "long before v has forgotten its start, without bias correction, finds v low, and M larger against it. Two-sided "
    "compression is not covered: a worker's one scale spans its whole buffer, so a chunk of small gradients is sent "
    "numbers of the others' size. Measured with the l1 scale, a server for each worker and sizes that differ from "
    "chunk to chunk, a coordinate at the default floor had steps of up to 10.2 learning rates in root mean square with "
    "N = 8 and of up to 11.6 with N = 128; with one server of up to 7.6.",
)

DEFAULT_FLOOR = Theorem(
    id="T7l",
    title="The floor at which compressed steps are Adam's worst step",
    conclusion=eq(kappa, NEEDED),
    hypotheses=(
        Hypothesis(
            "as_adam",
            eq(lr * sp.sqrt((1 - beta1) / (PULL * kappa)), lr * WORST),
            "the bound of T7e, for noise of mean zero whose mean square is the mean of v in a long run, is Adam's "
            "worst step T7d",
        ),
        magnitude.SCALE[2],
        MEMORY,
    ),
    where=magnitude.WHERE,
    domains={kappa: sp.Interval.open(0, sp.oo)},
    words="For noise of mean zero, in a long run, the bound on compressed steps and Adam's worst step meet at the "
    "floor {floor} for the l1 scale and the default constants. For l2 it is {gauss} where vectors are spread like a "
    "Gaussian, and {uneven} at a flatness of a tenth.",
    numbers={
        "floor": Quoted(NEEDED, {**DEFAULTS, flatness: 1}),
        "gauss": Quoted(NEEDED, {**DEFAULTS, flatness: magnitude.GAUSSIAN}),
        "uneven": Quoted(NEEDED, {**DEFAULTS, flatness: sp.Rational(1, 10)}),
    },
    good_for="It is where the default kappa of 1-bit Adam comes from, and says how much larger it would be where "
    "vectors are not flat.",
    source="ours",
    laws=("C7",),
    example=lambda: instance(
        DEFAULT_FLOOR,
        "beta1 = beta2 = 0.9, l1: Adam's worst step is the learning rate",
        {
            "lr": 1.0,
            "beta1": Fraction(9, 10),
            "beta2": Fraction(9, 10),
            "flatness": 1.0,
            "variance_floor": Fraction(1, 19),
        },
    ),
    remarks="It compares a root mean square over time and outcomes with a largest step, and is for one "
    "compressor. A floor of "
    "about the complement of beta2 treats a coordinate as if it had seen one gradient of average size within the "
    "memory of v. A larger floor makes the bound on the steps smaller still.",
)
RATIOS = total(second[k] / sp.Max(variance[k], kappa * mean_variance), k, d)
UPDATE_BOUND = lr * sp.sqrt(((1 - beta1) * RATIOS / d + start**2 / ((1 - beta1) * T)) / PULL)

UPDATE_STEP = Theorem(
    id="T7m",
    title="Steps of the update form, whatever the variance",
    conclusion=le(
        STEP_SIZE,
        UPDATE_BOUND,
    ),
    hypotheses=(
        *magnitude.SPACE,
        *magnitude.LOOP,
        *magnitude.SCALE,
        Hypothesis(
            "mean_zero",
            ForAll((s, (k, d)), le(expected(magnitude.RESIDUAL * signal[s, outcome, k]), 0)),
            "the noise has mean zero given the past (or pulls back)",
        ),
        magnitude.START,
        Hypothesis(
            "update",
            magnitude.everywhere(
                eq(params[s + 1, outcome, k], params[s, outcome, k] - lr * momentum[s + 1, outcome, k])
            ),
            "the parameters move by the message itself (update form C12, no weight decay)",
        ),
        Hypothesis(
            "preconditioned",
            magnitude.everywhere(eq(signal[s, outcome, k], preconditioner[k] * grads[s, outcome, k])),
            "what is compressed is P times the gradient",
        ),
        Hypothesis(
            "floored_preconditioner",
            ForAll(((k, d),), eq(preconditioner[k], 1 / (sp.sqrt(sp.Max(variance[k], kappa * mean_variance)) + eps))),
            "P is that of the frozen v, raised to the floor C7",
        ),
        Hypothesis("live_variance", ForAll(((k, d),), lt(0, variance[k])), "every coordinate is live (C6)"),
        Hypothesis(
            "second_moments",
            ForAll((s, (k, d)), le(expected(grads[s, outcome, k] ** 2), second[k])),
            "a bound on the mean squared gradient of each coordinate",
        ),
        Hypothesis("second_positive", ForAll(((k, d),), lt(0, second[k])), "it is positive"),
        Hypothesis("live_coordinate", lt(coordinate, d), "it is a live coordinate"),
    ),
    where=(
        *magnitude.WHERE,
        POSITIVE_MEAN,
        COORDINATE,
        Row(second, "m", "mean squared gradient of each coordinate", "(live,)"),
    ),
    words="In the update form with one compressor the root mean square over time and outcomes of the steps of any "
    "coordinate is "
    "bounded by the mean over coordinates of the squared gradient over the floored v. In a long run, for noise of "
    "mean zero, the l1 scale and the default beta1, it is {noise} learning rates where v is the mean squared "
    "gradient, whatever v is and without a floor.",
    numbers={"noise": Quoted(UPDATE_BOUND, {**magnitude.LATE_NOISE, flatness: 1, lr: 1, RATIOS: d})},
    good_for="In the update form, under noise, kappa is needed against a v that was frozen too small, not against "
    "coordinates of very different size.",
    source="ours",
    example=lambda: instance(
        UPDATE_STEP, "l1, the same in the update form, without a floor", magnitude.noise((1, 7), update_form=True)
    ),
    laws=("C7", "C12"),
    needs=("T7j",),
    remarks="One compressor in a row. The floor enters only where v lies below it. A gradient with a mean that "
    "persists adds to it: T7j with P g for g. Compared with T7e's bound for the momentum form, start terms aside: no "
    "squared gradient over its floored v exceeds the squared gradient over the floor. This comparison is no part of "
    "the statement.",
)
THEOREMS = (WORST_STEP, FLOORED_STEP, DEFAULT_FLOOR, UPDATE_STEP)
