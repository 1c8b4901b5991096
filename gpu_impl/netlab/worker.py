"""What the workers of a lab are told to do; each function runs on all of them at once.

A worker holds one contestant, three times: on the group of all workers, on a group that sends nothing, and as training
of each worker for itself. So what others do on the machine disturbs all three alike. And it holds the collectives of a
step, without anything else of it.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter, process_time

from torch import distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from gpu_impl.netlab.collective import Collective
from gpu_impl.netlab.contestants import CONTESTANTS, IN_NODES, PREPARATION, Training, alone
from gpu_impl.netlab.layers import Layers
from gpu_impl.netlab.silent_group import NAME, SilentGroup

SETTLE = 0.1
"""Seconds after which a connection has acknowledged what it got: Linux waits for at most 40 ms."""

NETWORK, SILENT, ALONE, EXCHANGE = "network", "silent", "alone", "exchange"


@dataclass(frozen=True)
class Steps:
    """What a worker saw of some steps.

    Attributes:
        began: when the first began, on the clock that all workers share.
        ended: when each of them ended.
        cpu_seconds: of all of this process's threads, in all steps together.
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
    """Take up a contestant, past its first steps; D, the number of its parameters, and the collectives of a step."""
    _held.clear()
    gc.collect()
    group, silent = dist.group.WORLD, _silent_group()
    assert group is not None
    build = CONTESTANTS[name].build
    _held[NETWORK] = _steps_of(build(Layers(n_parameters), group), batch)
    _held[SILENT] = _steps_of(build(Layers(n_parameters), silent), batch)
    _held[ALONE] = _steps_of(alone(model := Layers(n_parameters)), batch)
    for step in _held.values():
        for _ in range(PREPARATION):
            step()
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
        training = IN_NODES[name](model, _meshes[0])
    else:
        group = dist.group.WORLD
        assert group is not None
        training = CONTESTANTS[name].build(model, group)
    _held[NETWORK] = _steps_of(training, batch)
    _held[ALONE] = _steps_of(alone(Layers(n_parameters)), batch)
    for step in _held.values():
        for _ in range(PREPARATION):
            step()
    return model.n_parameters


def steps(which: str, n_steps: int) -> Steps:
    """Steps of NETWORK, or of EXCHANGE: of the former the collectives alone; all between two barriers."""
    dist.barrier()
    measured = _timed(which, n_steps)
    dist.barrier()
    time.sleep(SETTLE)
    return measured


def single_steps(which: str, n_steps: int) -> list[Steps]:
    """Steps of SILENT or ALONE, each begun by all workers at the same time."""
    measured = []
    for _ in range(n_steps):
        dist.barrier()
        measured.append(_timed(which, 1))
    return measured


def _timed(which: str, n_steps: int) -> Steps:
    step, ended = _held[which], list[float]()
    cpu, began = process_time(), perf_counter()
    for _ in range(n_steps):
        step()
        ended.append(perf_counter())
    return Steps(began, ended, process_time() - cpu)


def _steps_of(training: Training, batch: int) -> Callable[[], None]:
    inputs, targets = training.model.samples(batch, dist.get_rank())
    return lambda: training.step(inputs, targets)


def _silent_group() -> SilentGroup:
    """A group of the same size and rank that sends nothing; the same one each time."""
    if not _silent:
        group = dist.new_group(backend=NAME)
        assert isinstance(group, SilentGroup)
        _silent.append(group)
    return _silent[0]
