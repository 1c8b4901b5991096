"""What an algorithm under test brings along: its hyper-parameters, its state, and their part of the case space."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from reference import Optimizer
    from verification.search.covering import Rule

Array = NDArray[Any]
Scale = Literal["l1", "l2"]
Compress = Literal["momentum", "update"]
FrozenDtype = Literal["float32", "bfloat16"]


@dataclass(frozen=True)
class CommonHyper:
    """Hyper-parameters of every algorithm; what one of them does not have is fixed here."""

    lr: float = 1e-3
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    weight_decay: float = 0.0
    freeze_step: int = 2
    scale: Scale = "l2"
    variance_floor: float = 0.0

    @property
    def bias_correction(self) -> bool:
        """Whether m and v are corrected for their start at zero [C5]."""
        return False

    @property
    def compress(self) -> Compress:
        """What is compressed [C12]."""
        return "momentum"

    @property
    def scale_block(self) -> int | None:
        """Elements of a block that share a scale [C13]; None: one scale a worker, one a chunk."""
        return None

    @property
    def frozen_dtype(self) -> FrozenDtype:
        """What P is rounded to at the freeze [C14]; "float32": it is not."""
        return "float32"

    @property
    def sent_unit(self) -> float:
        """What a momentum is multiplied by before it is compressed, where that is one number."""
        return 1.0

    def refreshes(self, t: int) -> bool:
        """Whether step t changes v."""
        return t <= self.freeze_step

    def meets(self, t: int) -> bool:
        """Whether the workers exchange anything in step t."""
        return t > 0

    def without(self, part: slice) -> Self:
        """The same for a run without these elements."""
        return self


LEVELS: dict[str, tuple[Any, ...]] = {
    "scale": ("l2", "l1"),
    "bias_correction": (False, True),
    "variance_floor": (0.0, 1e-3, 0.5),
    "weight_decay": (0.0, 0.1),
    "eps": (1e-8, 1e-3, 0.0),
    "lr": (1e-3, 0.5),
    "beta1": (0.9, 0.5, 0.0, 0.99),
    "beta2": (0.999, 0.5, 0.9, 0.0),
    "compress": ("momentum", "update"),
    "scale_block": (None, (8, 8), (16, 56), (64, 1016), (1024, 1024), (1032, 4096)),
    "frozen_dtype": ("float32", "bfloat16"),
}
"""Levels of the hyper-parameters that several algorithms have."""


def array_names(snapshot: Any) -> tuple[str, ...]:
    """The arrays of a snapshot, or of its type; a name ends with its axes: (N, D) or (D,)."""
    return tuple(one.name for one in fields(snapshot) if one.name != "step")


def as_it_is(name: str, level: Any, dim: int, rng: np.random.Generator) -> Any:
    """A level that is a value."""
    return level


@dataclass(frozen=True)
class Algorithm:
    """An algorithm that implementations are checked for; its step relation is in ``relation``.

    Attributes:
        name: what a class says in ``algorithm``.
        title: the same for a reader.
        published: the hyper-parameters of a class without extensions.
        hyper: all hyper-parameters.
        snapshot: the state, arrays and ``step``.
        reference: the reference's optimizer with these hyper-parameters; refuses those that no run can have.
        own_levels: hyper-parameter of this algorithm alone -> its levels in the case space.
        draw: the value of a level, from the name, the level, D and a generator.
        excluded: pairs of levels that are not combined, beside those of every algorithm.
        ranges: pairs of hyper-parameters that are the ends of a range.
        huge: what gradients of the magnitude "huge" are multiplied by.
        no_magnitudes: magnitudes of gradients for which its state would overflow.
        exact: hyper-parameters that a run without rounding needs; of several kinds of such runs, each once.
        compresses_at_once: whether rounds before T_w are compressed too.
        at_start: arrays of the state that are not 0 when a run starts, beside x -> their numbers.
    """

    name: str
    title: str
    published: type[CommonHyper]
    hyper: type[CommonHyper]
    snapshot: type[Any]
    reference: Callable[[Any], Optimizer]
    own_levels: Mapping[str, tuple[Any, ...]]
    draw: Callable[[str, Any, int, np.random.Generator], Any] = as_it_is
    excluded: tuple[Rule, ...] = ()
    ranges: tuple[tuple[str, str], ...] = ()
    huge: float = 1e28
    no_magnitudes: tuple[str, ...] = ()
    exact: tuple[Mapping[str, Any], ...] = ({"beta1": 0.5},)
    compresses_at_once: bool = False
    at_start: Mapping[str, float] = field(default_factory=dict)

    @cached_property
    def known(self) -> dict[str, Any]:
        """Every hyper-parameter with its default."""
        return {one.name: one.default for one in fields(self.hyper)}

    @cached_property
    def levels(self) -> dict[str, tuple[Any, ...]]:
        """Every hyper-parameter but T_w with its levels."""
        return {name: some for name, some in (LEVELS | dict(self.own_levels)).items() if name in self.known}

    @cached_property
    def extensions(self) -> tuple[str, ...]:
        """The hyper-parameters that the published algorithm does not have."""
        published = {one.name for one in fields(self.published)}
        return tuple(name for name in self.known if name not in published)
