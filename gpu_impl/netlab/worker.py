"""What the workers of a lab are told to do; each function runs on all of them at once.

A worker holds one contestant, three times: on the group of all workers, on a group that sends nothing, and as training
of each worker for itself. So what others do on the machine disturbs all three alike. And it holds the collectives of a
step, without anything else of it.
"""

from __future__ import annotations

import copy
import gc
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter, process_time

from torch import Tensor
from torch import distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from gpu_impl.netlab.collective import Collective
from gpu_impl.netlab.contestants import CONTESTANTS, IN_NODES, LAB, PREPARATION, Training, alone
from gpu_impl.netlab.layers import Layers
from gpu_impl.netlab.silent_group import NAME, SilentGroup

SETTLE = 0.1
"""Seconds after which a connection has acknowledged what it got: Linux waits for at most 40 ms."""

NETWORK, SILENT, ALONE, EXCHANGE = "network", "silent", "alone", "exchange"


@dataclass(frozen=True)
class Steps:
    """What a worker saw of some steps, or of periods of them.

    Attributes:
        began: when the first began, on the clock that all workers share.
        ended: when each of them ended.
        cpu_seconds: of all of this process's threads, in all of them together.
    """

    began: float
    ended: list[float]
    cpu_seconds: float


_held: dict[str, Callable[[], None]] = {}
_silent: list[SilentGroup] = []
_meshes: list[DeviceMesh] = []


def ready() -> None:
    """Answers once the worker has started."""


def prepare(name: str, n_parameters: int, batch: int) -> tuple[int, list[Collective]]:
    """Take up a contestant, past its first steps; D, the number of its parameters, and the collectives of a period."""
    _held.clear()
    gc.collect()
    group, silent = dist.group.WORLD, _silent_group()
    assert group is not None
    one, model = CONTESTANTS[name], Layers(n_parameters)
    for which, workers in ((NETWORK, group), (SILENT, silent)):
        training = one.build(copy.deepcopy(model), workers, LAB)
        _hold(which, training, model.samples(batch, dist.get_rank()), one.period)
    _hold(ALONE, alone(model), model.samples(batch, dist.get_rank()))
    silent.calls.clear()
    _held[SILENT]()
    calls = [call.prepared() for call in silent.calls]

    def exchange() -> None:
        for call in calls:
            call()

    _held[EXCHANGE] = exchange
    return model.n_parameters, silent.calls.copy()


def prepare_in_nodes(name: str, n_parameters: int, batch: int, node_size: int) -> int:
    """Take up a contestant on two tiers of links, on the network alone; D."""
    _held.clear()
    gc.collect()
    model = Layers(n_parameters)
    if name in IN_NODES:
        if not _meshes:
            shape = dist.get_world_size() // node_size, node_size
            _meshes.append(init_device_mesh("cpu", shape, mesh_dim_names=("between", "inside")))
        training = IN_NODES[name](copy.deepcopy(model), _meshes[0])
    else:
        group = dist.group.WORLD
        assert group is not None
        training = CONTESTANTS[name].build(copy.deepcopy(model), group, LAB)
    _hold(NETWORK, training, model.samples(batch, dist.get_rank()))
    _hold(ALONE, alone(model), model.samples(batch, dist.get_rank()))
    return model.n_parameters


def steps(which: str, n_periods: int) -> Steps:
    """Periods of NETWORK, or of EXCHANGE: of the former the collectives alone; all between two barriers."""
    dist.barrier()
    measured = _timed(which, n_periods)
    dist.barrier()
    time.sleep(SETTLE)
    return measured


def single_steps(which: str, n_periods: int) -> list[Steps]:
    """Periods of SILENT, or steps ALONE, each begun by all workers at the same time."""
    measured = []
    for _ in range(n_periods):
        dist.barrier()
        measured.append(_timed(which, 1))
    return measured


def _timed(which: str, n_periods: int) -> Steps:
    period, ended = _held[which], list[float]()
    cpu, began = process_time(), perf_counter()
    for _ in range(n_periods):
        period()
        ended.append(perf_counter())
    return Steps(began, ended, process_time() - cpu)


def _hold(which: str, training: Training, samples: tuple[Tensor, Tensor], period: int = 1) -> None:
    """Keep the steps of a period under that name, and take the first of them."""

    def steps_of_a_period() -> None:
        for _ in range(period):
            training.step(*samples)

    _held[which] = steps_of_a_period
    for _ in range(math.ceil(PREPARATION / period)):
        steps_of_a_period()


def _silent_group() -> SilentGroup:
    """A group of the same size and rank that sends nothing; the same one each time."""
    if not _silent:
        group = dist.new_group(backend=NAME)
        assert isinstance(group, SilentGroup)
        _silent.append(group)
    return _silent[0]
