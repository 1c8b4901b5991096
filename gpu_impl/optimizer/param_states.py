"""``optimizer.state``: the state of each parameter as torch's tools see it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, MutableMapping
from typing import Any

from torch import Tensor

from gpu_impl.optimizer.one_at_a_time import LOAD, READING
from gpu_impl.optimizer.run import Run
from gpu_impl.optimizer.state import ParamState, all_params, facts_for, pack, unpack
from gpu_impl.optimizer.state_fits import check


class ParamStates(MutableMapping[Tensor, ParamState]):
    """The state of each parameter that has joined or will, by parameter, as copies; to change one, assign it.

    Args:
        run: whose state it is.
        changed: called when one was assigned.
    """

    def __init__(self, run: Run, changed: Callable[[], None]) -> None:
        self._run, self._changed = run, changed
        self._states: dict[int, ParamState] | None = None

    def __deepcopy__(self, memo: dict[int, Any]) -> dict[Tensor, ParamState]:
        return copy.deepcopy(dict(self), memo)

    def __reduce__(self) -> tuple[type, tuple[dict[Tensor, ParamState]]]:
        return dict, (dict(self),)

    def _packed(self) -> dict[int, ParamState]:
        if self._states is None:
            with self._run.one_at_a_time.during(READING):
                self._states = pack(self._run)
        return self._states

    def _numbers(self) -> dict[Tensor, int]:
        joined = {number for content in self._run.contents for number in content.numbers}
        return {p: k for k, p in enumerate(all_params(self._run)) if p.requires_grad or k in joined}

    def __getitem__(self, param: Tensor) -> ParamState:
        return self._packed()[self._numbers()[param]]

    def __setitem__(self, param: Tensor, value: ParamState) -> None:
        groups = [{**group, "onebit": facts_for(self._run, group)} for group in self._run.groups]
        states = {**self._packed(), self._numbers()[param]: value}
        with self._run.one_at_a_time.during(LOAD):
            check(self._run, groups, states)
            with self._run:
                unpack(self._run, groups, states)
        self._states = None
        self._changed()

    def __delitem__(self, param: Tensor) -> None:
        raise TypeError("the state of a parameter can't be deleted: make a new optimizer")

    def __iter__(self) -> Iterator[Tensor]:
        return iter(self._numbers())

    def __len__(self) -> int:
        return len(self._numbers())
