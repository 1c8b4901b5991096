"""What the state of a parameter holds, by algorithm: the names in a state_dict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

OF = "_of_"
"""In the name of what only one worker has; its number follows."""


@dataclass(frozen=True)
class Names:
    """Names of tensors. Beside them a state has ``step``, ``frozen``, and for each worker ``ignored_of_3``.

    Attributes:
        optimizer: class that has such a state.
        format: of the state.
        earlier: formats that are read as well.
        shared: of the parameter's shape, the same on all workers.
        own: of the parameter's shape, each worker's, saved as ``name_of_3``: on another number of workers each has the
            mean of all [C11]. ``server_error`` comes on top.
        numbers: one number a parameter, the same on all workers, and what it is at the start.
        positive: those of the numbers that are above 0; the others are at least 0.
        keeps_x: whether ``master``, the float32 copy of a 16-bit parameter, is there for every parameter: the value
            that all workers share.
    """

    optimizer: str
    format: str
    earlier: tuple[str, ...] = ()
    shared: tuple[str, ...] = ("exp_avg", "exp_avg_sq")
    own: tuple[str, ...] = ("worker_error",)
    numbers: Mapping[str, float] = field(default_factory=dict)
    positive: tuple[str, ...] = ()
    keeps_x: bool = False

    def saved(self, rank: int) -> dict[str, str]:
        """The names of what has the parameter's shape, as worker ``rank`` saves it."""
        own = {name: f"{name}{OF}{rank}" for name in (*self.own, "server_error")}
        return {**{name: name for name in self.shared}, **own, "master": "master"}

    def has_master(self, *, is_narrow: bool) -> bool:
        """Whether a parameter, of 16 bits or not, has a ``master``."""
        return is_narrow or self.keeps_x


ONE_BIT_ADAM = Names("OneBitAdam", "onebit-adam-state-5", ("onebit-adam-state-4",))
"""The earlier format is without norms of single parameters; a rule that had not frozen yet begins to compare anew."""

ONE_BIT_LAMB = Names(
    "OneBitLamb",
    "onebit-lamb-state-1",
    shared=("exp_avg", "exp_avg_sq", "fresh_variance"),
    numbers={"trust_mean": 0.0, "last_ratio": 1.0, "layer_scale": 1.0},
    positive=("last_ratio", "layer_scale"),
)

ZERO_ONE_ADAM = Names(
    "ZeroOneAdam",
    "zero-one-adam-state-1",
    own=("worker_error", "momentum", "accumulated", "walked"),
    numbers={"rate": 0.0},
    keeps_x=True,
)

ALGORITHMS = (ONE_BIT_ADAM, ONE_BIT_LAMB, ZERO_ONE_ADAM)


def names_of(format_: str) -> Names:
    """The names in a state of this format, which is one of ours."""
    return next(names for names in ALGORITHMS if format_ in (names.format, *names.earlier))
