"""1-bit LAMB: hyper-parameters with its layers, state, and their levels. Its relation: ``relation/one_bit_lamb.py``."""

from __future__ import annotations

import operator
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any, Self

import numpy as np

import reference
from verification.algorithms.base import Algorithm, Array, CommonHyper, FrozenDtype


@dataclass(frozen=True)
class PublishedLambHyper(CommonHyper):
    """Hyper-parameters of 1-bit LAMB (docs/family.md).

    Attributes:
        bias_correction: as in 1-bit Adam [C5].
        layers: how many elements each layer has, in their order; (): all of them are one layer.
        min_trust, max_trust: the range of the trust ratio c.
        trust_decay: decay of its running mean c-bar.
        min_ratio, max_ratio, ratio_change: the range of r, and its largest relative change in a step.
    """

    bias_correction: bool = False  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride, reportAssignmentType]
    layers: tuple[int, ...] = ()
    min_trust: float = 0.01
    max_trust: float = 10.0
    trust_decay: float = 0.9
    min_ratio: float = 0.5
    max_ratio: float = 4.0
    ratio_change: float = 0.1

    def slices(self, dim: int) -> list[slice]:
        """Where each layer lies among ``dim`` elements."""
        edges = np.cumsum([0, *(self.layers or (dim,))]).tolist()
        return [slice(start, stop) for start, stop in pairwise(edges)]

    def without(self, part: slice) -> Self:
        """The same for a run without these elements; a layer that loses all of its own is no layer."""
        if not self.layers:
            return self
        left = np.delete(np.repeat(np.arange(len(self.layers)), self.layers), part)
        counts = np.bincount(left, minlength=len(self.layers))
        return replace(self, layers=tuple(int(count) for count in counts if count))


@dataclass(frozen=True)
class LambHyper(PublishedLambHyper):
    """The same with block scales [C13] and P in 16 bits [C14]."""

    scale_block: int | None = None  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride, reportAssignmentType]
    frozen_dtype: FrozenDtype = "float32"  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride, reportAssignmentType]


@dataclass(frozen=True)
class LambSnapshot:
    """State after ``step`` applied steps, as copies that later steps don't change.

    What a layer has one number of stands at every element of the layer.

    Attributes:
        params_ND, momentum_D, variance_D, worker_errors_ND, server_error_D, step: as in 1-bit Adam's ``Snapshot``, the
            errors in units of s m.
        trust_mean_D: c-bar (D,), the running mean of the trust ratio in the warm-up.
        layer_scale_D: s (D,), 1 until the freeze.
        fresh_variance_D: v' (D,), 0 until the freeze.
        ratio_D: r (D,) of the last step, 1 until the freeze.
    """

    params_ND: Array
    momentum_D: Array
    variance_D: Array
    worker_errors_ND: Array
    server_error_D: Array
    trust_mean_D: Array
    layer_scale_D: Array
    fresh_variance_D: Array
    ratio_D: Array
    step: int


def draw(name: str, level: Any, dim: int, rng: np.random.Generator) -> Any:
    """The value of a level: of ``layers`` so many sizes that add up to D, or those that a class declares."""
    if name != "layers" or not isinstance(level, str):
        return level
    most = {"one": 1, "two": 2, "several": 6, "many": 40 if dim < MANY_FROM else 300}[level]
    cuts = rng.integers(1, dim, most - 1) if dim > 1 else np.zeros(0, np.int64)
    if level == "several" and dim > 8:  # some of them small, as biases are
        cuts[: len(cuts) // 2] = rng.integers(1, 8, len(cuts) // 2)
    sizes = np.diff(np.unique(np.r_[0, cuts, dim]))
    return () if sizes.size == 1 else tuple(int(size) for size in sizes)


MANY_FROM = 1025
"""From this D on many layers are 300."""

OVERFLOW = "v' or a layer's scale would overflow"
REBUILT = "the gradient that is rebuilt may be 0, and nothing stands under the root"


def as_reference(hyper: PublishedLambHyper) -> reference.OneBitLamb:
    """The reference's optimizer: each layer is an array of one dimension."""
    values = dict(vars(hyper))
    sizes = values.pop("layers")
    return reference.OneBitLamb(**values, shapes=[(size,) for size in sizes] or None)


ONE_BIT_LAMB = Algorithm(
    name="one_bit_lamb",
    title="1-bit LAMB",
    published=PublishedLambHyper,
    hyper=LambHyper,
    snapshot=LambSnapshot,
    reference=as_reference,
    own_levels={
        "layers": ("one", "two", "several", "many"),
        "min_trust": (0.01, 0.25),
        "max_trust": (10.0, 0.5),
        "trust_decay": (0.9, 0.5, 0.0),
        "min_ratio": (0.5, 0.95, 1.5),
        "max_ratio": (4.0, 1.05, 0.8),
        "ratio_change": (0.1, 0.5, 0.0),
    },
    draw=draw,
    excluded=(
        ("layers", lambda layers: layers != "one", "dead", partial(operator.eq, "nearly"), OVERFLOW),
        ("eps", partial(operator.eq, 0.0), "beta2", partial(operator.eq, 0.0), REBUILT),
        ("gradients", partial(operator.eq, "spread"), "magnitude", partial(operator.eq, "huge"), OVERFLOW),
    ),
    ranges=(("min_trust", "max_trust"), ("min_ratio", "max_ratio")),
    huge=1e12,
    no_magnitudes=("largest",),
    exact=({"beta1": 0.5, "layers": ()},),
    at_start={"layer_scale_D": 1.0, "ratio_D": 1.0},
)
