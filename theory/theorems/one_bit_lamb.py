"""T3c, T3g, T3l, T3m: what 1-bit LAMB conserves, and that its changing step spoils the virtual iterate by how much.

1-bit LAMB sends the layer's scale times the momentum and divides what is decoded by it. Its step is a base rate times a
trust ratio that may change by a tenth each step. Source of the algorithm: Li et al. 2021 (2104.06069).
"""

from __future__ import annotations

from typing import Any

import sympy as sp

from theory.formula import ForAll, array, eq, le, lt
from theory.notation import (
    UNIT,
    Row,
    beta1,
    count,
    grads,
    i,
    k,
    momentum,
    preconditioner,
    t,
    virtual_iterate,
)
from theory.theorem import Hypothesis, Theorem
from theory.theorems.conservation import (
    GRADS,
    GRADS_BY_STEP,
    MOMENTUM,
    ONE_STEP,
    SCALES,
    exchanged,
    mean_grad,
    residual,
    server_feedback,
    worker_feedback,
)
from theory.theorems.virtual_iterate import applied, total_errors, virtual, with_parameters
from theory.witness import instance

layer_scale = sp.Symbol("layer_scale", positive=True)
layer_scales, learning_rates = array("layer_scales"), array("learning_rates")
trust_change = sp.Symbol("trust_change", positive=True)
s = count("s", least=0)
P = preconditioner[k]

LAYER_SCALE = Row(layer_scale, "s", "scale of the layer, by which its momentum is multiplied before it is sent")
LAYER_SCALES = Row(layer_scales, "s", "scale of the layer at each step")
LEARNING_RATES = Row(learning_rates, r"\gamma", "learning rate of each step: base rate times trust ratio")
TRUST_CHANGE = Row(
    trust_change,
    r"\eta",
    "largest relative change of the trust ratio in a step",
    domain=UNIT,
    default=0.1,
)

_MOMENTUM = beta1 * momentum[t, k] + (1 - beta1) * grads[t + 1, i, k]
WORKER = worker_feedback(layer_scale * _MOMENTUM)
SERVER = server_feedback(layer_scale * momentum[t + 1, k])


def _step(scale: float) -> dict[str, Any]:
    """One step at beta1 = 1/2; the layer's scale was 2 before it and is ``scale`` in it."""
    sent_D, arrays = exchanged(scale * (0.5 * MOMENTUM + 0.5 * GRADS))
    arrays |= {"beta1": 0.5, "momentum": [MOMENTUM, sent_D / scale], "grads": GRADS_BY_STEP}
    return arrays | {"layer_scale": scale, "layer_scales": [2.0, scale]}


def _full_clip() -> dict[str, Any]:
    """The rate grows from 1/8 by a quarter, the largest share that is allowed here."""
    run = _step(4.0) | {"preconditioner": SCALES, "trust_change": 0.25, "learning_rates": [0.125, 0.125, 0.15625]}
    pairs = zip([0.25, 0.3125], run["momentum"], total_errors(run), strict=True)
    updates = [factor * SCALES * (0.5 * m + e / 4.0) for factor, m, e in pairs]
    return with_parameters(run, "momentum", 0.125 * SCALES, updates)


FIXED = Theorem(
    id="T3c",
    title="Conservation law of 1-bit LAMB",
    conclusion=eq(
        momentum[t + 1, k] + residual(t + 1) / layer_scale,
        beta1 * momentum[t, k] + (1 - beta1) * mean_grad + residual(t) / layer_scale,
    ),
    hypotheses=(WORKER, SERVER),
    words="With the layer's scale fixed, shared momentum plus total error over the scale after a step is beta1 times "
    "the momentum before it, plus {rest} times the mean gradient, plus the total error over the scale before it.",
    numbers={"rest": 1 - beta1},
    good_for="L1 certifies 1-bit LAMB too, with errors in units of the momentum.",
    source="ours, for the update of Li et al. 2021",
    where=(LAYER_SCALE,),
    example=lambda: instance(FIXED, ONE_STEP, _step(4.0)),
    laws=("L1",),
)

CHANGING = Theorem(
    id="T3l",
    title="What a changing layer scale costs 1-bit LAMB",
    conclusion=eq(
        momentum[t + 1, k] + residual(t + 1) / layer_scales[t + 1],
        beta1 * momentum[t, k]
        + (1 - beta1) * mean_grad
        + residual(t) / layer_scales[t]
        + (1 / layer_scales[t + 1] - 1 / layer_scales[t]) * residual(t),
    ),
    hypotheses=(
        worker_feedback(layer_scales[t + 1] * _MOMENTUM),
        server_feedback(layer_scales[t + 1] * momentum[t + 1, k]),
        Hypothesis("positive_scales", ForAll((s,), lt(0, layer_scales[s])), "scales are positive"),
    ),
    words="If the layer's scale changes, the law of the fixed scale fails by exactly the total error times the change "
    "of the reciprocal scale.",
    good_for="Why the scales of 1-bit LAMB are fixed at the freeze.",
    source="ours",
    where=(LAYER_SCALES,),
    example=lambda: instance(CHANGING, ONE_STEP, _step(4.0)),
    laws=("L1",),
)

RECONSTRUCTED = Theorem(
    id="T3m",
    title="Error of the gradient that 1-bit LAMB reconstructs",
    conclusion=eq(
        (momentum[t + 1, k] - beta1 * momentum[t, k]) / (1 - beta1),
        mean_grad + (residual(t) - residual(t + 1)) / (layer_scale * (1 - beta1)),
    ),
    hypotheses=(WORKER, SERVER),
    words="The gradient that 1-bit LAMB reconstructs from the momenta before and after a step is the mean gradient "
    "plus the change of the total error, over the scale and over {rest}.",
    numbers={"rest": 1 - beta1},
    good_for="How much compression noise enters LAMB's fresh variance.",
    source="ours, for the update of Li et al. 2021",
    where=(LAYER_SCALE,),
    needs=("T3c",),
    example=lambda: instance(RECONSTRUCTED, ONE_STEP, _step(4.0)),
    laws=("L1",),
    remarks="It enters the fresh variance squared, and squares do not telescope (T4a).",
)

_UNSCALED = beta1 * momentum[s, k] + residual(s) / layer_scale


VIRTUAL = Theorem(
    id="T3g",
    title="1-bit LAMB has a virtual iterate up to its changing step",
    conclusion=le(
        sp.Abs(virtual_iterate[t + 1, k] - (virtual_iterate[t, k] - learning_rates[t + 1] * P * mean_grad)),
        trust_change
        * learning_rates[t + 1]
        / (1 - beta1)
        * sp.Abs(P * (beta1 * momentum[t + 1, k] + residual(t + 1) / layer_scale)),
    ),
    hypotheses=(
        WORKER,
        SERVER,
        applied(learning_rates[t + 1] * P * momentum[t + 1, k]),
        virtual(learning_rates[s + 1] / (1 - beta1) * P * _UNSCALED),
        Hypothesis(
            "trust_clip",
            ForAll((s,), le(sp.Abs(learning_rates[s + 1] - learning_rates[s]), trust_change * learning_rates[s])),
            "the learning rate changes by at most a given share in a step",
        ),
    ),
    words="The virtual iterate of 1-bit LAMB moves by the preconditioned mean gradient step up to an error of at "
    "most the share {change} of the residual update, where the learning rate changes by at most this share in a step.",
    numbers={"change": trust_change},
    good_for="Why no exact L2 holds for 1-bit LAMB, and how large the miss can be.",
    source="ours, for the update of Li et al. 2021",
    where=(LAYER_SCALE, LEARNING_RATES, TRUST_CHANGE),
    needs=("T3c",),
    example=lambda: instance(VIRTUAL, "the rate grows by the full share in a step", _full_clip()),
    laws=("L2",),
    remarks="The base rate is constant and the layer's scale fixed. With a constant trust ratio the miss is zero, so "
    "L2 holds exactly. Attained by every step in which the ratio changes by the full share.",
)

THEOREMS = (FIXED, VIRTUAL, CHANGING, RECONSTRUCTED)
