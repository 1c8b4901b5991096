"""T7j, T7n: how large the one magnitude of a sign message is, when coordinates are of very different size.

A sign compressor has one magnitude S for all coordinates. In r = beta1 m + delta the loop is
r' = r + (1-beta1)(g - S sgn(r + (1-beta1) g)): each coordinate adds up its gradients and takes S off at every step. A
coordinate with gradients much larger than S runs up a large r, and the l2 scale, a root mean square, follows it; the
l1 scale, a mean of magnitudes, does not. In the update form (C12) P g takes the place of g, and numbers of one size
are compressed: both scales are then small, whatever v is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import sympy as sp

from theory.formula import ForAll, Formula, array, eq, le, lt, mean, sgn, total
from theory.notation import Row, T, beta1, count, d, k, momentum, scale, total_error
from theory.rationals import RATIONALS, fractions
from theory.theorem import Hypothesis, Quoted, Theorem
from theory.witness import instance

s = count("s", least=0)
outcome, n_outcomes = count("outcome", least=0), count("n_outcomes")
weight = array("weight")
signal = array("signal")
corrected = array("corrected")
flatness = sp.Symbol("flatness", positive=True)
drift = sp.Symbol("drift", nonnegative=True)
strength = sp.Symbol("strength", positive=True)
start = sp.Symbol("start", nonnegative=True)
mean_gradient, at_start, at_end = sp.symbols("mean_gradient at_start at_end", real=True)

PULL = 2 * flatness - 1 + beta1
NOISE = (1 - beta1) * (2 * drift * strength + strength**2) + start**2 / ((1 - beta1) * T)
MAGNITUDE = (drift + sp.sqrt(drift**2 + PULL * NOISE)) / PULL
LATE_NOISE: dict[Any, Any] = {drift: 0, start: 0, strength: 1, beta1: sp.Rational(9, 10)}
"""Noise of mean zero in units of its root mean square, when the start has faded, at the default beta1."""
GAUSSIAN = sp.sqrt(2 / sp.pi)
"""Flatness of vectors whose entries are spread like a Gaussian."""


def expected(term: object) -> sp.Sum:
    """Expectation over the outcomes."""
    return total(weight[outcome] * term, outcome, n_outcomes)


def everywhere(body: Formula) -> ForAll:
    """In every step, every outcome and every coordinate."""
    return ForAll((s, (outcome, n_outcomes), (k, d)), body)


SPACE = (
    Hypothesis("probabilities", ForAll(((outcome, n_outcomes),), le(0, weight[outcome])), "no probability is negative"),
    Hypothesis("sum_one", eq(total(weight[outcome], outcome, n_outcomes), 1), "the probabilities sum to one"),
)
LOOP = (
    Hypothesis(
        "compressed",
        everywhere(
            eq(
                corrected[s, outcome, k],
                beta1 * momentum[s, outcome, k] + (1 - beta1) * signal[s, outcome, k] + total_error[s, outcome, k],
            )
        ),
        "what is compressed: the momentum with the next gradient, plus the error",
    ),
    Hypothesis(
        "one_bit",
        everywhere(eq(momentum[s + 1, outcome, k], scale[s, outcome] * sgn(corrected[s, outcome, k]))),
        "a sign a coordinate, with one magnitude",
    ),
    Hypothesis(
        "feedback",
        everywhere(eq(total_error[s + 1, outcome, k], corrected[s, outcome, k] - momentum[s + 1, outcome, k])),
        "error feedback",
    ),
)
SCALE = (
    Hypothesis(
        "flat",
        ForAll(
            (s, (outcome, n_outcomes)),
            le(flatness * scale[s, outcome], mean(sp.Abs(corrected[s, outcome, k]), k, d)),
        ),
        "the mean magnitude is at least the share psi of the scale: psi = 1 for l1, the root of L10's phi for l2",
    ),
    Hypothesis(
        "rms_at_most",
        ForAll((s, (outcome, n_outcomes)), le(mean(sp.Abs(corrected[s, outcome, k]), k, d), scale[s, outcome])),
        "and at most the scale: true of l1 and of l2",
    ),
    Hypothesis("flat_enough", lt(0, PULL), "psi is above (1 - beta1)/2"),
)
RESIDUAL = beta1 * momentum[s, outcome, k] + total_error[s, outcome, k]
DRIFT = Hypothesis(
    "small_drift",
    ForAll(
        (s, (k, d)),
        le(expected(RESIDUAL * signal[s, outcome, k]), drift * expected(sp.Abs(RESIDUAL))),
    ),
    "given the past, no coordinate's mean gradient exceeds B (0: noise of mean zero)",
)
STRENGTH = Hypothesis(
    "bounded_strength",
    ForAll((s,), le(mean(expected(signal[s, outcome, k] ** 2), k, d), strength**2)),
    "the mean of the squared gradients over coordinates is at most M^2",
)
START = Hypothesis(
    "small_start",
    le(mean(expected((beta1 * momentum[0, outcome, k] + total_error[0, outcome, k]) ** 2), k, d), start**2),
    "the residual at the freeze, beta1 times Adam's momentum, has a root mean square of at most R_0",
)
WHERE = (
    Row(s, "s", "step of the compression stage", unit="steps"),
    Row(n_outcomes, r"\Omega", "outcomes of the finite probability space", default=1),
    Row(weight, "p", "probability of an outcome", "(n_outcomes,)"),
    Row(signal, "h", "what enters the momentum: the gradient; in the update form P times the gradient", "(D,)"),
    Row(
        flatness, r"\psi", "least ratio of mean magnitude to scale: 1 for l1", domain=sp.Interval.Lopen(0, 1), default=1
    ),
    Row(drift, "B", "largest mean gradient of a coordinate", default=0.0),
    Row(strength, "M", "root mean square of the gradients over coordinates", default=1.0),
    Row(start, "R_0", "root mean square of the residual at the freeze", default=0.0),
)


EPS = 2.0**-20


def noise(sizes: Sequence[float], *, update_form: bool = False) -> dict[str, Any]:
    """The l1 loop on all sequences of fair signs times the sizes, three steps, beta1 = 1/2, from no residual.

    Values of everything that T7j, T7e and T7m speak of. The momentum form has a floor that the smallest v lies below,
    the update form has none.
    """
    size_D, steps, beta1 = np.array(sizes, dtype=float), 3, Fraction(1, 2)
    signs = 1.0 - 2.0 * np.array(list(product((0, 1), repeat=steps * size_D.size)))
    grads_TXD = signs.reshape(-1, steps, size_D.size).swapaxes(0, 1) * size_D
    grads_TXD = fractions(grads_TXD)
    mean_v, kappa = Fraction(float(np.mean(size_D**2))), Fraction(0 if update_form else 4, 25)
    variance_D = np.maximum(fractions(size_D**2), fractions(kappa * mean_v))
    preconditioner_D = np.array([1 / (RATIONALS.power(v, Fraction(1, 2)) + Fraction(EPS)) for v in variance_D])
    signal_TXD = preconditioner_D * grads_TXD if update_form else grads_TXD
    momentum, error, params = ([0 * signal_TXD[0]] for _ in range(3))
    corrected, scales = list[np.ndarray](), list[np.ndarray]()
    for signal_XD in signal_TXD:
        corrected.append(beta1 * momentum[-1] + (1 - beta1) * signal_XD + error[-1])
        scales.append(np.abs(corrected[-1]).mean(axis=1))
        momentum.append(scales[-1][:, None] * np.where(corrected[-1] >= 0, 1, -1))
        error.append(corrected[-1] - momentum[-1])
        params.append(params[-1] - (1 if update_form else preconditioner_D) * momentum[-1])
    arrays = {"grads": grads_TXD, "signal": signal_TXD, "corrected": corrected, "scale": scales, "momentum": momentum}
    arrays |= {"total_error": error, "params": params, "variance": variance_D, "preconditioner": preconditioner_D}
    space = {"n_outcomes": len(signs), "weight": np.full(len(signs), 1 / len(signs)), "second": size_D**2}
    numbers = {"beta1": beta1, "live": size_D.size, "n_steps": steps, "lr": 1.0, "eps": EPS, "coordinate": 0}
    bounds = {"flatness": 1.0, "drift": 0.0, "strength": RATIONALS.power(mean_v, Fraction(1, 2)), "start": 0.0}
    return arrays | space | numbers | bounds | {"variance_floor": kappa, "mean_variance": mean_v}


def steady() -> dict[str, Any]:
    """One constant gradient of 1 beside 63 coordinates without any, which are all alike: what the first one shows.

    The scale is l2, rounded up to 20 bits.
    """
    beta1, gradient_D, steps = Fraction(9, 10), fractions([1, 0]), 1000
    momentum, error, scales = [0 * gradient_D], [0 * gradient_D], list[Fraction]()
    for _ in range(steps):
        u_D = beta1 * momentum[-1] + (1 - beta1) * gradient_D + error[-1]
        scales.append(Fraction(math.ceil(2**20 * math.sqrt((u_D[0] ** 2 + 63 * u_D[1] ** 2) / 64)), 2**20))
        momentum.append(scales[-1] * np.where(u_D >= 0, 1, -1))
        error.append(u_D - momentum[-1])
    arrays = {"momentum": np.array(momentum)[:, 0], "total_error": np.array(error)[:, 0], "scale": scales}
    at_end = beta1 * momentum[-1][0] + error[-1][0]
    numbers = {"beta1": beta1, "n_steps": steps, "mean_gradient": 1.0, "at_start": 0.0, "at_end": at_end}
    return arrays | numbers | {"signal": np.ones(steps)}


MAGNITUDE_THEOREM = Theorem(
    id="T7j",
    title="The one magnitude of a sign message, whatever the sizes of the coordinates",
    conclusion=le(sp.sqrt(total(expected(scale[s, outcome] ** 2), s, T) / T), MAGNITUDE),
    hypotheses=(*SPACE, *LOOP, *SCALE, DRIFT, STRENGTH, START),
    where=WHERE,
    words="For one compressor with error feedback the root mean square of the scale over time and outcomes is "
    "bounded by the strength of the gradients, their largest mean and the residual at the freeze, whose share "
    "fades with time. In a long run, for noise of mean zero and the l1 scale, it is at most {noise} of the root mean "
    "square of the gradients at the default beta1, however many coordinates there are and however much their sizes "
    "differ. For l2 the bound needs that the vectors are flat: {gauss} where their entries are spread like a "
    "Gaussian, and more and more the less flat they are.",
    numbers={
        "noise": Quoted(MAGNITUDE, {**LATE_NOISE, flatness: 1}),
        "gauss": Quoted(MAGNITUDE, {**LATE_NOISE, flatness: GAUSSIAN}),
    },
    good_for="Bounds compressed steps in root mean square: the scale is the step's size, and a run can read flatness "
    "and scale off.",
    source="ours; the argument is the energy of a sign sigma-delta loop",
    example=lambda: instance(
        MAGNITUDE_THEOREM, "l1, all sequences of three fair signs on two coordinates of sizes 1 and 7", noise((1, 7))
    ),
    laws=("C1", "C7", "C12"),
    remarks="One compressor in a row (N = 1, or workers alone). Of two-sided compression nothing is proved. "
    "Measured with N = 8, the l1 scale and M of the mean gradient, the bound held in every run with one server for "
    "the whole buffer. With a server for each of eight chunks it did not: a worker's one scale spans its whole "
    "buffer. With M of its own chunk a server's largest scale was 1.5 times the bound for sizes exp(N(0, 4)) (median "
    "of twenty seeds; 5.8 in one), and 15 to 17 times where sizes halve from chunk to chunk. The bound is on a mean "
    "over time, not on the largest step. For l2 the flatness is assumed, and a run has to report it; it is small where "
    "sizes differ much: for noise of sizes "
    "exp(N(0, 4)) at beta1 = 0.9 the l2 scale had a root mean square of 0.79 to 0.99 of M with 1,024 coordinates and "
    "of 0.98 to 1.31 with 4,096 (three seeds, 5,000 steps), the l1 scale of 0.10 to 0.21.",
)

PERSISTENT = Theorem(
    id="T7n",
    title="The magnitude has to reach every persistent gradient",
    conclusion=sp.Ge(
        mean(scale[s], s, T),
        sp.Abs(mean_gradient) - sp.Abs(at_end - at_start) / ((1 - beta1) * T),
        evaluate=False,
    ),
    hypotheses=(
        Hypothesis(
            "conserved",
            ForAll(
                (s,),
                eq(
                    momentum[s + 1] + total_error[s + 1],
                    beta1 * momentum[s] + (1 - beta1) * signal[s] + total_error[s],
                ),
            ),
            "the law L1 for one coordinate, with any number of workers and any compressor",
        ),
        Hypothesis(
            "one_magnitude", ForAll((s,), le(sp.Abs(momentum[s + 1]), scale[s])), "no entry exceeds the magnitude"
        ),
        Hypothesis("mean_over_time", eq(T * mean_gradient, total(signal[s], s, T)), "mean of the gradients over time"),
        Hypothesis("residual_start", eq(at_start, beta1 * momentum[0] + total_error[0]), "the residual at the start"),
        Hypothesis("residual_end", eq(at_end, beta1 * momentum[T] + total_error[T]), "the residual at the end"),
    ),
    where=(
        Row(s, "s", "step of the compression stage", unit="steps"),
        Row(signal, "h", "mean gradient of the workers; in the update form P times it", "(D,)"),
        Row(mean_gradient, r"\bar g", "mean over time of the gradient of one coordinate", default=1.0),
        Row(at_start, "r_0", "beta1 times momentum plus total error at the start", default=0.0),
        Row(at_end, "r_T", "beta1 times momentum plus total error at the end", default=0.0),
    ),
    words="The mean magnitude over a run is at least the size of the mean gradient of any coordinate of the chunk, "
    "less a deduction: the change of the residual on that coordinate, over {keep} times the number of steps. If "
    "the residual stays bounded, the deduction vanishes in a long run, whatever the scale.",
    numbers={"keep": 1 - beta1},
    good_for="One coordinate with a persistent gradient sets a least magnitude for all of its chunk: the size of its "
    "mean gradient, in the update form that of P times it.",
    source="ours; L1 summed over time",
    example=lambda: instance(PERSISTENT, "a constant gradient on one of 64 coordinates, l2", steady()),
    laws=("L1", "C12"),
    remarks="It holds for any number of workers, both sides of the exchange and any scale. It is a lower bound and "
    "says nothing on how large the magnitude gets. The largest mean gradient of a chunk of d coordinates can be the "
    "root of d times their root mean square: where one coordinate alone has a gradient.",
)
THEOREMS = (MAGNITUDE_THEOREM, PERSISTENT)
