"""T3d, T3h, T3n, T3o: what 0/1 Adam conserves, and its virtual iterate for every synchronisation interval.

Between two synchronisations each worker steps on its own momentum and adds up lr times it; the sums are averaged with
one bit. Source of the algorithm: Lu et al. 2022 (2202.06009); the virtual iterate is new, as far as we know.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import sympy as sp

from theory.formula import ForAll, array, eq, mean, total
from theory.notation import (
    N,
    Row,
    beta1,
    count,
    i,
    j,
    k,
    lr,
    momentum,
    params,
    preconditioner,
    t,
    virtual_iterate,
)
from theory.rationals import fractions
from theory.theorem import Hypothesis, Theorem
from theory.theorems.conservation import (
    GRADS,
    MOMENTUM,
    SCALES,
    exchanged,
    residual,
    server_feedback,
    worker_feedback,
)
from theory.theorems.virtual_iterate import applied, total_errors, virtual, with_parameters
from theory.witness import instance

interval = count("interval")
s, h = count("s", least=0), count("h", least=0)
accumulated, local_momentum, local_grads = array("accumulated"), array("local_momentum"), array("local_grads")
decoded = array("decoded")
P = preconditioner[k]

INTERVAL = Row(interval, "H", "local steps between two synchronisations", default=16)
ACCUMULATED = Row(
    accumulated, "u", "lr times local momenta, added up in a round after each local step", "(H + 1, N, D)"
)
LOCAL_MOMENTUM = Row(local_momentum, "m", "momentum of each worker after each local step of a round", "(H + 1, N, D)")
LOCAL_GRADS = Row(local_grads, "g", "gradient of each worker in each local step of a round", "(H, N, D)")
DECODED = Row(decoded, r"\bar{c}", "what everyone decodes at a synchronisation", "(D,)")

old_share = total(beta1 ** (j + 1), j, interval)  # S_H, the weight of the old momentum in a round
weighted_grads = total((1 - beta1 ** (interval - j)) * mean(local_grads[j, i, k], i, N), j, interval)

ROUND = (
    Hypothesis(
        "momentum_start",
        ForAll(((i, N),), eq(local_momentum[0, i, k], momentum[t, k])),
        "a round starts from the shared momentum",
    ),
    Hypothesis(
        "momentum_step",
        ForAll(
            ((h, interval), (i, N)),
            eq(local_momentum[h + 1, i, k], beta1 * local_momentum[h, i, k] + (1 - beta1) * local_grads[h, i, k]),
        ),
        "each worker averages its own gradients",
    ),
    Hypothesis("sum_start", ForAll(((i, N),), eq(accumulated[0, i, k], 0)), "the sum of a round starts at zero"),
    Hypothesis(
        "sum_step",
        ForAll(
            ((h, interval), (i, N)),
            eq(accumulated[h + 1, i, k], accumulated[h, i, k] + lr * local_momentum[h + 1, i, k]),
        ),
        "each worker adds up lr times its momentum",
    ),
)
WORKER = worker_feedback(accumulated[interval, i, k])
SERVER = server_feedback(decoded[t + 1, k])
SYNCHRONISED = applied(P * decoded[t + 1, k])


def _round() -> dict[str, Any]:
    """A round of three local steps of two workers from x = 1: beta1 = 1/2, lr = 1/8."""
    grads, local, added = [GRADS, -2.0 * GRADS[::-1], GRADS + 1.0], [np.stack([MOMENTUM, MOMENTUM])], [0.0 * GRADS]
    for g_ND in grads:
        local.append(0.5 * local[-1] + 0.5 * g_ND)
        added.append(added[-1] + 0.125 * local[-1])
    decoded_D, run = exchanged(added[-1])
    run |= {"accumulated": added, "local_momentum": local, "local_grads": grads, "decoded": [decoded_D, decoded_D]}
    run |= {"beta1": 0.5, "lr": 0.125, "interval": 3, "preconditioner": SCALES}
    run |= {"momentum": [MOMENTUM, fractions(decoded_D) / Fraction(3, 8)]}
    old, pairs = Fraction(7, 8), zip(run["momentum"], total_errors(run), strict=True)
    updates = [fractions(SCALES) * 3 / (3 - old) * (fractions(e) + old / 8 * fractions(m)) for m, e in pairs]
    return with_parameters(run, "decoded", SCALES, updates)


ONE_ROUND = "one round of three local steps, two workers, l1 scale"


LAW = Theorem(
    id="T3d",
    title="Conservation law of 0/1 Adam",
    conclusion=eq(
        params[t + 1, k] - P * residual(t + 1),
        params[t, k] - P * residual(t) - P * mean(accumulated[interval, i, k], i, N),
    ),
    hypotheses=(WORKER, SERVER, SYNCHRONISED),
    words="At every synchronisation the parameters less P times the total error move by exactly P times the mean of "
    "what the workers accumulated.",
    good_for="A certificate for 0/1 Adam that needs no reference.",
    source="ours, for the update of Lu et al. 2022",
    where=(INTERVAL, ACCUMULATED, DECODED),
    needs=("T2b",),
    example=lambda: instance(LAW, ONE_ROUND, _round()),
    laws=("L1",),
    remarks="The step counts synchronisations. P must not change in the round: that adds its change times the total "
    "error.",
)

SUM = Theorem(
    id="T3n",
    title="What a round of 0/1 Adam accumulates",
    conclusion=eq(mean(accumulated[interval, i, k], i, N), lr * (old_share * momentum[t, k] + weighted_grads)),
    hypotheses=ROUND,
    words="In a round the workers accumulate lr times the sum of the powers of beta1 times the old momentum, plus lr "
    "times the gradients, of which the latest weighs least: {latest}.",
    numbers={"latest": 1 - beta1},
    good_for="How much each gradient of a round has entered the parameters at its end.",
    source="ours, for the update of Lu et al. 2022",
    where=(INTERVAL, ACCUMULATED, LOCAL_MOMENTUM, LOCAL_GRADS),
    example=lambda: instance(SUM, ONE_ROUND, _round()),
    laws=("L1",),
    remarks="Local parameters differ between synchronisations, so the gradients are taken at different points; the law "
    "is about what is added up. The learning rate is constant in the round.",
)

WEIGHTS = Theorem(
    id="T3o",
    title="The gradient weights of a round of 0/1 Adam",
    conclusion=eq(total(1 - beta1 ** (interval - j), j, interval), interval - old_share),
    words="The weights of a round's gradients sum to the number of its steps less the weight of the old momentum.",
    good_for="With the factor of T3h a round moves y by as many mean gradient steps as it has steps.",
    source="ours",
    where=(INTERVAL,),
    example=lambda: instance(WEIGHTS, "a round of 16 steps", {"interval": 16, "beta1": 0.9}),
    laws=("L2",),
)


def _residual_update(step: Any) -> sp.Expr:
    factor = interval / (interval - old_share)
    return P * factor * (residual(step) + lr * old_share * momentum[step, k])


VIRTUAL = Theorem(
    id="T3h",
    title="Virtual iterate of 0/1 Adam for any synchronisation interval",
    conclusion=eq(
        virtual_iterate[t + 1, k],
        virtual_iterate[t, k] - lr * P * interval / (interval - old_share) * weighted_grads,
    ),
    hypotheses=(
        *ROUND,
        WORKER,
        SERVER,
        SYNCHRONISED,
        Hypothesis(
            "new_momentum",
            eq(momentum[t + 1, k], decoded[t + 1, k] / (lr * interval)),
            "the shared momentum is what was decoded over lr times the steps of the round",
        ),
        virtual(_residual_update(s)),
    ),
    words="At synchronisations the parameters with the residual update applied move by lr times P times the gradients "
    "of the round, each with a weight that depends on its age, the interval and beta1 alone.",
    good_for="0/1 Adam is preconditioned SGD on y for every interval; at an interval of one step it is L2.",
    source="ours, for the update of Lu et al. 2022",
    where=(INTERVAL, ACCUMULATED, LOCAL_MOMENTUM, LOCAL_GRADS, DECODED),
    needs=("T2b", "T3n"),
    example=lambda: instance(VIRTUAL, ONE_ROUND, _round()),
    laws=("L2",),
    remarks="P, the learning rate and the interval are constant. If the interval or P changes, y is redefined, "
    "which shifts it once. Between synchronisations the workers' parameters differ: L6 holds only at them.",
)

THEOREMS = (LAW, VIRTUAL, SUM, WEIGHTS)
