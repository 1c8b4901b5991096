"""What a run knows: its phase and counts, settings, workers and buckets. All parts of the optimizer read it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from enum import StrEnum
from itertools import chain
from operator import is_, itemgetter, methodcaller
from typing import Any, Self

import torch
from torch import Tensor
from torch import distributed as dist

from gpu_impl.kernels.select import get_backend
from gpu_impl.optimizer.bucket import Bucket, Group
from gpu_impl.optimizer.collectives import Collectives
from gpu_impl.optimizer.flat_params import local, refuse_shared
from gpu_impl.optimizer.freeze_rule import FreezeRule
from gpu_impl.optimizer.nodes import Nodes
from gpu_impl.optimizer.one_at_a_time import OneAtATime
from gpu_impl.optimizer.parcel import Parcel
from gpu_impl.optimizer.plan import Content, Kind, cut, numbered
from gpu_impl.optimizer.settings import Settings, refuse_settings, unread


class Phase(StrEnum):
    """Where a run is. Frozen: after step T_w, until the first compressed step has been applied."""

    WARM_UP = "warm-up"
    FROZEN = "frozen"
    COMPRESSED = "compressed"


PARAMS, NON_FREEZE = itemgetter("params"), methodcaller("get", "non_freeze", False)

_made: Counter[str] = Counter()
"""Optimizers that were made on each process group."""


class Run:
    """One optimizer's run.

    Args:
        settings: what holds for the whole run.
        backend: name of the kernels.
        process_group: the workers that average; None is the default group.
        bucket: the class of the buckets: which algorithm this is.
        node_group: the workers of this node [C15]; None: there are no nodes.

    Attributes:
        groups: the optimizer's parameter groups.
        contents: which parameters lie in which bucket.
        parcels: all buckets, as they travel.
        names: of what is in a state.
        phase: of the run. Buckets that don't freeze stay with Adam in every phase.
        frozen_at: T_w, once the variance is frozen.
        freeze_rule: when that is.
        calls: steps asked for; those not applied were skipped.
        number: of this optimizer among those that this process has made on the group; 0 of a copy.
        applied: steps applied; on a GPU a float64 tensor () there, so that nobody waits for it.
        bytes_before: bytes sent before the last step.
        values_changed: how often lr, betas, eps or weight decay has been seen to change.
        written: a checksum of what was written to parameters since the last step where the workers had met, or 0.
        shards: the ranks that hold the rest of a sharded model.
        identity: of the run, in its checkpoints; given by the first.
        broken: why the state can't be used any more, or "".
        one_at_a_time: the step, save or load that is under way.
        settings_differ: whether a learning rate was seen to differ between workers, on the device.
    """

    def __init__(
        self,
        settings: Settings,
        backend: str,
        process_group: dist.ProcessGroup | None,
        bucket: type[Bucket] = Bucket,
        node_group: dist.ProcessGroup | None = None,
    ) -> None:
        self.settings, self.backend = settings, backend
        self.process_group, self.node_group = process_group, node_group
        self.bucket, self.names = bucket, bucket.names
        self.groups: list[Group] = []
        self.contents: list[Content] = []
        self.parcels: list[Parcel] = []
        self.phase, self.frozen_at = Phase.WARM_UP, 0
        self.freeze_rule = FreezeRule(settings.freeze_step, settings.lr_warmup_steps)
        self.shards: list[Collectives] = []
        self.calls, self.bytes_before, self.values_changed = 0, 0, 0
        self.written = 0
        self.applied: Tensor | int = 0
        self.identity = ""
        self.number = 0
        self.broken, self.one_at_a_time = "", OneAtATime()
        self.settings_differ: Tensor | bool = False
        self._collectives: Collectives | None = None
        self._left_out: list[Tensor] = []  # they have never needed a gradient
        self._groups_seen = 0
        self._taken: tuple[list[Group], list[int], list[Tensor], list[bool]] = [], [], [], []  # see _note_taken
        self._unread = unread(settings)
        self._numbers: dict[str, Tensor] = {}

    def take_number(self) -> None:
        """Count this optimizer: two that are alike would else be taken for one another."""
        name, group = "", self.process_group
        if group is not None and group != dist.group.WORLD:
            with suppress(RuntimeError):  # one that torch's own functions did not make has no name
                name = group.group_name
        _made[name] += 1
        self.number = _made[name]

    @property
    def collectives(self) -> Collectives:
        """The workers; looked up when first needed, for the group may be initialised after the optimizer was made."""
        if self._collectives is None or not (self._collectives.is_of_group or self.parcels):
            node = self.node_group
            self._collectives = Collectives(self.process_group) if node is None else Nodes(self.process_group, node)
        return self._collectives

    @property
    def device(self) -> torch.device:
        """Where the small numbers of a step live: with the first parameter, or on the CPU if there is none."""
        params = (param for group in self.groups for param in group["params"])
        return next((local(param).device for param in params), torch.device("cpu"))

    @property
    def steps(self) -> int:
        """Applied steps t. Waits for the device."""
        return int(self.applied)

    def set_applied(self, steps: int) -> None:
        """Continue after that many applied steps."""
        if isinstance(self.applied, int):
            self.applied = steps
        else:
            self.applied.fill_(steps)

    @property
    def skipped_steps(self) -> int:
        """Steps that were skipped for a gradient that was not finite [C8]. Waits for the device."""
        return self.calls - self.steps

    @property
    def is_frozen(self) -> bool:
        """Whether T_w has passed."""
        return self.phase is not Phase.WARM_UP

    @property
    def is_settled(self) -> bool:
        """Nothing hangs on whether a step is skipped but what the kernels decide themselves: the host need not know."""
        return self.phase is Phase.COMPRESSED and all(
            bucket.skips_itself and bucket.is_frozen and bucket.carried is None for _, bucket in self.pairs()
        )

    def pairs(self) -> Iterator[tuple[Group, Bucket]]:
        """Every bucket with its parameter group."""
        for parcel in self.parcels:
            yield from parcel.buckets

    def see(self, groups: list[Group]) -> None:
        """Take note of the parameter groups as they are now; in each step, so without a loop of Python's.

        Raises:
            ValueError: somebody has changed which parameters are in them, or which groups stay with Adam: what lies in
                the buffers is settled. Or there is a setting in a group that holds for all.
        """
        self.groups = groups
        if not all(map(self._unread.isdisjoint, groups)):
            for number, group in enumerate(groups):
                refuse_settings(number, group, self.settings, self.names.optimizer)
        params = list(map(PARAMS, groups))
        before, sizes, kept, stay = self._taken
        is_same = all(map(is_, before, groups)) and all(map(is_, kept, chain.from_iterable(params)))
        if not is_same or list(map(len, params))[: len(sizes)] != sizes:
            raise ValueError(
                "the parameter groups are not those that the optimizer began with: new parameters go in by "
                "add_param_group({'params': [...]}), others are turned off by requires_grad_(False); which of them it "
                "trains is settled by the first step or a load"
            )
        if (now := list(map(NON_FREEZE, groups))[: len(stay)]) != stay:
            number = next(k for k in range(len(stay)) if now[k] != stay[k])
            raise ValueError(
                f"non_freeze of group {number} was {stay[number]} when the optimizer began with it and is now "
                f"{now[number]}: it is settled by the first step or a load"
            )

    def take_over(self) -> bool:
        """Lay parameters that need a gradient into flat buffers, where that has not been done; whether there were any.

        A parameter that begins to need one during the warm-up joins it. One that does so later has no variance that
        could be frozen: it is trained by Adam with full gradients, as is a group with ``non_freeze``.
        """
        if len(self.groups) == self._groups_seen and not any(param.requires_grad for param in self._left_out):
            return False
        left_out: list[Tensor] = []
        seen = {id(param) for content in self.contents for param in content.params}
        kinds: dict[int, Kind] = {}
        for group, numbers in numbered(self.groups):
            freezes = not group.get("non_freeze", False) and not self.is_frozen
            for number, param in zip(numbers, group["params"], strict=True):
                if not param.requires_grad and id(param) not in seen:
                    left_out.append(param)
                elif id(param) not in seen:
                    refuse_shared(param)
                    seen.add(id(param))
                    kinds[number] = Kind(freezes, self.steps)
        self._note_taken()
        self._groups_seen, self._left_out = len(self.groups), left_out
        if not kinds:
            return False
        first_parcel = max((content.parcel for content in self.contents), default=-1) + 1
        with self:  # half laid out, some parameters would never move again
            self._lay_out(cut(self.groups, kinds, self.settings.bucket_elements, first_parcel))
        return True

    def _lay_out(self, contents: list[Content]) -> None:
        """Make the buffers of ``contents``."""
        self.contents += contents
        if self.device.type != "cpu" and isinstance(self.applied, int):
            self.applied = torch.tensor(float(self.applied), dtype=torch.float64, device=self.device)
        by_parcel: dict[int, list[Content]] = {}
        for content in contents:
            if content.here()[0]:
                by_parcel.setdefault(content.parcel, []).append(content)
        for some in by_parcel.values():
            backend = get_backend(self.backend, local(some[0].params[0]).device)
            backend.check_extensions(**self.settings.extensions)
            self.parcels.append(Parcel(some, self.collectives, backend, self.settings, self.bucket))

    def lay_out_anew(self, contents: list[Content]) -> None:
        """Go on with these buffers; the state is lost."""
        self.contents, self.parcels, self._groups_seen = [], [], -1
        self._lay_out(contents)
        self._note_taken()

    def _note_taken(self) -> None:
        """Groups, their sizes, all parameters, and which groups stay with Adam."""
        params, stay = list(map(PARAMS, self.groups)), list(map(NON_FREEZE, self.groups))
        self._taken = list(self.groups), list(map(len, params)), list(chain.from_iterable(params)), stay

    def numbers(self, name: str) -> Tensor:
        """The number of this name of every parameter (n,) float64, also of those that have no elements here."""
        n, start = sum(len(group["params"]) for group in self.groups), self.names.numbers[name]
        known = self._numbers.get(name)
        if known is None or known.shape[0] < n:
            table = torch.full((n,), start, dtype=torch.float64, device=self.device)
            if known is not None:
                table[: known.shape[0]] = known
            self._numbers[name] = table
        return self._numbers[name]

    @property
    def n_taken(self) -> int:
        """Parameters that have joined."""
        return sum(len(content.numbers) for content in self.contents)

    def check_whole(self) -> None:
        """Raise RuntimeError if a step or a load ended in the middle."""
        if self.broken:
            raise RuntimeError(self.broken)

    def __reduce__(self) -> Any:
        """Copied or pickled it would write to buffers that are another optimizer's, or nobody's."""
        raise TypeError("the inside of an optimizer can't be copied: copy the optimizer itself, or its state_dict()")

    def __enter__(self) -> Self:
        """A step or a load begins: if it ends in the middle, by Ctrl-C too, the state must not be used or saved."""
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self.broken = (
                f"this optimizer stopped in the middle of a step or a load ({kind.__name__}): load a checkpoint before "
                "going on"
            )
