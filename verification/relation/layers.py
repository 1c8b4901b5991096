"""What 1-bit LAMB has one number of a layer of, as intervals in which a correct implementation's may lie.

Each is a quotient of norms or of roots, cut to a range. Division and cutting are monotone, so intervals map to
intervals: the ends are those of the operands, moved outward by the roundings of the operation.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from theory import rounding
from theory.rounding.formats import scalar_error
from verification.protocol import Traits
from verification.relation.movement import Known
from verification.relation.tolerances import scale_of

Floats = NDArray[np.float64]
Interval = tuple[Floats, Floats]


def rms(known: Known, layers: Sequence[slice], traits: Traits) -> Interval:
    """The root mean square of each layer (L,), the norm being summed as a scale is [T11h]; of zeros alone it is 0."""
    value_D, slack_D = np.broadcast_arrays(known.value, known.tolerance)
    some_D = (value_D != 0) | (slack_D != 0)
    found = [
        scale_of(value_D[layer], slack_D[layer], "l2", traits) if some_D[layer].any() else (0.0, 0.0)
        for layer in layers
    ]
    value_L, slack_L = (np.array(column) for column in zip(*found, strict=True))
    with np.errstate(invalid="ignore"):
        slack_L = np.where(np.isnan(slack_L), np.inf, slack_L)
    return np.maximum(value_L - slack_L, 0.0), value_L + slack_L


def quotient(over: Interval, under: Interval, traits: Traits, roundings: int) -> Interval:
    """over / under in so many roundings; from 0 on, and without an upper end, where ``under`` may be 0."""
    relative = rounding.gamma(roundings, traits.dtype) + rounding.gamma(4, "float64")
    with np.errstate(divide="ignore", invalid="ignore"):
        low, high = over[0] / under[1] * (1 - relative), over[1] / under[0] * (1 + relative)
    return np.where(np.isfinite(low), low, 0.0), np.where(np.isnan(high), np.inf, high)


def cut(interval: Interval, low: float | Floats, high: float | Floats, traits: Traits, roundings: int = 1) -> Interval:
    """The interval cut to [low, high], whose ends are stored numbers, or formed from such in so many roundings."""
    slack = rounding.gamma(roundings, traits.dtype) + rounding.gamma(2, "float64")
    ends = np.clip(interval[0], low, high), np.clip(interval[1], low, high)
    return ends[0] * (1 - slack), ends[1] * (1 + slack)


def trust_ratios(weights: Interval, update: Interval, low: float, high: float, traits: Traits) -> Interval:
    """c = ||x|| / ||P m + lambda x||, cut to [low, high] (L,); 1 where a norm is 0.

    Both norms are those of as many elements, so they may be given as root mean squares. The quotient of norms takes
    two roundings more than that, for the root of the number of elements is in neither.
    """
    ratio = quotient(weights, update, traits, 3)
    zero_L = (weights[1] == 0) | (update[1] == 0)
    doubtful_L = ~zero_L & ((weights[0] == 0) | (update[0] == 0))  # an implementation may find 0 there
    lows = np.where(zero_L, 1.0, np.where(doubtful_L, np.minimum(ratio[0], 1.0), ratio[0]))
    highs = np.where(zero_L, 1.0, np.where(doubtful_L, np.maximum(ratio[1], 1.0), ratio[1]))
    return cut((lows, highs), low, high, traits)


def layer_scales(momentum: Interval, traits: Traits) -> Interval:
    """s = (mean of the layers' root mean squares) / the layer's own (L,); 1 where that is 0."""
    count = len(momentum[0])
    relative = rounding.gamma(count + 1, traits.dtype) + rounding.gamma(count + 1, "float64")
    mean = np.full(count, momentum[0].mean() * (1 - relative)), np.full(count, momentum[1].mean() * (1 + relative))
    found = quotient(mean, momentum, traits, 2)
    zero_L, doubtful_L = momentum[1] == 0, momentum[0] == 0
    lows = np.where(zero_L, 1.0, np.where(doubtful_L, np.minimum(found[0], 1.0), found[0]))
    return lows, np.where(zero_L, 1.0, found[1])


def variance_ratios(
    frozen_D: Floats, fresh_D: Floats, live_D: NDArray[np.bool_], layers: Sequence[slice], eps: float, traits: Traits
) -> Interval:
    """max (sqrt(v) + eps) / (sqrt(v') + eps) over the live elements of each layer (L,); of none of them anything.

    Proof. Root, sum and quotient round once each, v' once more where it is used before it is stored; eps is stored.
    All terms are positive, so these are relative errors of the quotient, and of the largest of them.
    """
    stored = scalar_error(eps, traits.dtype)
    side = rounding.compose(stored, rounding.gamma(3, traits.dtype), rounding.gamma(3, "float64"))
    relative = rounding.compose(side, side, rounding.gamma(1, traits.dtype), rounding.gamma(1, "float64"))
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio_D = (np.sqrt(frozen_D) + eps) / (np.sqrt(fresh_D) + eps)
    ends = []
    for layer in layers:
        inside = ratio_D[layer][live_D[layer]]
        whole = inside.size and np.isfinite(inside).all()  # without eps a v' of 0 is divided by
        ends.append((inside.max() * (1 - relative), inside.max() * (1 + relative)) if whole else (0.0, np.inf))
    low_L, high_L = np.array(ends).T
    return low_L, high_L


def spread(values: Interval, layers: Sequence[slice]) -> Known:
    """The interval of its layer at every element."""
    lengths = [layer.stop - layer.start for layer in layers]
    return Known.between(*(np.repeat(ends_L, lengths) for ends_L in values))
