"""Loading a checkpoint: all is read and checked before anything changes; from N workers to N' by C11."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from gpu_impl.checkpoints.reader import Reader
from gpu_impl.checkpoints.save import check_arguments, everyone_of, names_in
from gpu_impl.checkpoints.together import Together
from gpu_impl.optimizer.base import OneBitOptimizer
from gpu_impl.optimizer.flat_params import local
from gpu_impl.optimizer.names import OF
from gpu_impl.optimizer.one_at_a_time import LOAD
from gpu_impl.optimizer.resize import mean_of
from gpu_impl.optimizer.sharding import shard_of
from gpu_impl.optimizer.state import (
    IGNORED,
    NORMS,
    SERVER,
    SERVER_ALL,
    WORKER,
    all_params,
    of_workers,
)
from gpu_impl.optimizer.state_fits import check_algorithm, check_facts, check_names


def load_checkpoint(folder: str | os.PathLike[str], optimizer: OneBitOptimizer, model: nn.Module | None = None) -> Any:
    """Continue from :func:`save_checkpoint`, on as many workers (exact to the last bit) or on others [C11].

    All workers must call it. ``folder`` is what was saved to, or one checkpoint in it, for an older one. ``model`` must
    be given if it was saved, and have the same parameters; it may be sharded over another number of ranks.

    Returns:
        The ``extra`` that this rank saved; rank 0's on a rank that did not exist then.

    Raises:
        ValueError: there is no checkpoint, it is damaged, or it does not fit; or an argument is not what it should be.
        FileNotFoundError: it was deleted while it was read; try again.
        OSError: the folder can't be read, or the nodes don't share it.
        RuntimeError: a step or a save is under way.
        KeyboardInterrupt: Ctrl-C; the other workers get a RuntimeError.

    In each case nothing is changed, on any worker. What ends it later, while model and optimizer are written to (a want
    of memory, an exception of a signal handler), leaves an optimizer that refuses to step and to save.
    """
    check_arguments("load_checkpoint", folder, optimizer, model)
    with optimizer.alone(LOAD):
        extra = _load(Path(folder), optimizer, model)
    optimizer.after_load()
    return extra


def _load(folder: Path, optimizer: OneBitOptimizer, model: nn.Module | None) -> Any:
    def read() -> tuple[dict[str, Any], dict[str, Any], Any, dict[str, Any]]:
        reader = Reader(folder)
        model_state = _model_state(reader, model)
        check_names(reader.plain["names"], names_in(model, all_params(optimizer.run)) if model is not None else None)
        state = _own_state(reader, optimizer)
        optimizer.check_state_dict(state)
        return state, model_state, reader.extra(together.everyone.rank), reader.manifest

    with Together(lambda: everyone_of(optimizer, model, "load_checkpoint()")) as together:
        state, model_state, extra, manifest = together.call(read)
        seen = together.everyone.objects((manifest["run"], manifest["files"]))
        together.call(partial(_same_for_all, seen, folder))
        with optimizer.run:
            if model is not None:
                model.load_state_dict(model_state)
            optimizer.continue_from(state)  # after the model: between two meetings it says where this worker stands
        optimizer.run.identity = manifest["run"]
    return extra


def _same_for_all(seen: list[Any], folder: Path) -> None:
    """Whether all ranks have read the same checkpoint.

    Raises:
        OSError: they have not.
    """
    other = next((rank for rank, one in enumerate(seen) if one != seen[0]), None)
    if other is not None:
        raise OSError(f"{folder} is not shared by all nodes: rank {other} finds another checkpoint there than rank 0")


def _own_state(reader: Reader, optimizer: OneBitOptimizer) -> dict[str, Any]:
    """This rank's state_dict, resized if the number of workers changed; old workers' errors are read one at a time."""
    groups = reader.plain["param_groups"]
    n_old = check_facts(groups)["n_workers"]
    check_algorithm(optimizer.run, groups)
    n_new, rank = optimizer.collectives.size, optimizer.collectives.rank
    params, states, names = all_params(optimizer.run), {}, optimizer.run.names
    plain_names = {"step", NORMS, *names.numbers}
    for number, plain in reader.plain["states"].items():
        if number >= len(params):
            raise ValueError(f"the checkpoint is of at least {number + 1} parameters, there are {len(params)}")
        source = _Source(reader, params[number], f"optimizer/{number}/")
        saved = set(reader.names_under(source.prefix))
        shared = {name: source.read(name, like_param=name not in plain_names) for name in saved if OF not in name}
        if n_old == n_new:
            own = {f"{name}{OF}{rank}": source.read(f"{name}{OF}{rank}") for name in names.own}
            ignored = source.read(f"{IGNORED}{rank}", like_param=False)
        else:
            olds = range(n_old)
            own = {f"{name}{OF}{rank}": mean_of([source.read(f"{name}{OF}{k}") for k in olds]) for name in names.own}
            ignored = sum(source.read(f"{IGNORED}{old}", like_param=False) for old in range(n_old if rank == 0 else 0))
        server = torch.zeros_like(own[f"{WORKER}{rank}"])
        for name in sorted(name for name in saved if name.startswith(SERVER)):
            server += source.read(name)
        states[number] = {**shared, **own, SERVER_ALL: server, f"{IGNORED}{rank}": ignored, **plain}
    return {"state": states, "param_groups": of_workers(groups, n_new, [rank])}


class _Source:
    """The tensors of one parameter in a checkpoint."""

    def __init__(self, reader: Reader, param: Tensor, prefix: str) -> None:
        self.reader, self.param, self.prefix = reader, param, prefix
        self.shard = shard_of([{"params": [param]}])

    def read(self, name: str, *, like_param: bool = True) -> Tensor:
        """One of them, sharded as the parameter is now."""
        like = None
        if like_param and isinstance(self.param, DTensor):
            values = torch.empty_like(local(self.param), dtype=torch.float32)
            mesh, placements = self.param.device_mesh, self.param.placements
            shape, stride = self.param.shape, self.param.stride()
            like = DTensor.from_local(values, mesh, placements, run_check=False, shape=shape, stride=stride)
        return self.reader.tensor(self.prefix + name, self.shard, like=like)


def _model_state(reader: Reader, model: nn.Module | None) -> dict[str, Any]:
    """A state_dict for the model, read into new tensors.

    Raises:
        ValueError: the checkpoint has another model's, or one but no model is given.
    """
    plain = reader.plain["model"]
    saved = {key.removeprefix("model/") for key in reader.kinds if key.startswith("model/")} | set(plain)
    if model is None:
        if saved:
            raise ValueError("the checkpoint holds the model too: pass model=, for its optimizer state fits no other")
        return {}
    state = model.state_dict()
    if set(state) != saved:
        for prefix in ("_orig_mod.", "module."):  # of torch.compile; of DistributedDataParallel
            for where, some, others in (("the checkpoint", saved, state), ("the model", state, saved)):
                if some != set(others) and {name.replace(prefix, "") for name in some} == set(others):
                    raise ValueError(
                        f"the names in {where} have {prefix!r} and the others have not: save and load the same, the "
                        "model itself or what wraps it"
                    )
        odd = sorted(set(state) ^ saved)
        raise ValueError(f"the checkpoint is of another model: {', '.join(odd[:3])} is in one of the two only")
    loaded: dict[str, Any] = {}
    for name, value in state.items():
        if isinstance(value, Tensor):
            loaded[name] = reader.tensor(f"model/{name}", shard_of([{"params": [value]}]), like=value)
        else:
            loaded[name] = plain[name]
    return loaded
