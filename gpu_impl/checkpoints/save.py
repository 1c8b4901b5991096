"""Checkpoints by ``torch.distributed.checkpoint``: one folder, written by all ranks, read by as many or by others.

What all ranks share is written once, every rank's errors under keys of its own. ``generations.py`` says how a folder
holds several checkpoints, and why an interrupted save, or a full disk, leaves those before it whole.

A checkpoint is trusted like a program: ``torch.distributed.checkpoint`` unpickles its index.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from torch.distributed.checkpoint import state_dict_saver
from torch.distributed.tensor import DTensor

from gpu_impl.checkpoints.full_disk import told_if_full
from gpu_impl.checkpoints.generations import WRITER, NewGeneration, check_folder, prepare
from gpu_impl.checkpoints.reader import Reader, extra_name, packed, plain_errors, sum_key, write_manifest, write_synced
from gpu_impl.checkpoints.receipts import Receipt, read_back, receipts_of
from gpu_impl.checkpoints.together import Together
from gpu_impl.optimizer.agreement import agree, checksum, same_occasion
from gpu_impl.optimizer.base import OneBitOptimizer, check_ours
from gpu_impl.optimizer.collectives import Collectives, told
from gpu_impl.optimizer.flat_params import local
from gpu_impl.optimizer.names import OF
from gpu_impl.optimizer.one_at_a_time import SAVE
from gpu_impl.optimizer.run import Run
from gpu_impl.optimizer.sharding import shard_of
from gpu_impl.optimizer.state import SERVER, all_params


def save_checkpoint(
    folder: str | os.PathLike[str],
    optimizer: OneBitOptimizer,
    model: nn.Module | None = None,
    extra: Any = None,
    *,
    keep: int = 2,
) -> None:
    """Save a run; all workers must call it. The new checkpoint appears when all is written, or not at all.

    Args:
        folder: a folder that all workers see. What others have put there stays; several runs may share it.
        optimizer: its state, every worker's part.
        model: its parameters, and rank 0's buffers.
        extra: this rank's of anything that ``torch.load(weights_only=True)`` reads: a scheduler's state, an epoch, a
            random state. Every rank's is kept.
        keep: of this run's checkpoints in the folder the last so many stay.

    Raises:
        ValueError: ``extra`` could not be loaded again, or ``optimizer`` and ``model`` are not what they should be.
        RuntimeError: workers differ where they must not, or the last step ended in the middle, or is under way.
        OSError: the folder can't be written, the disk is full, or the nodes don't share the folder.
        KeyboardInterrupt: Ctrl-C; the other workers get a RuntimeError.

    Whatever is raised before the new checkpoint is complete is raised on all workers, and the older ones are whole.
    """
    if not isinstance(keep, int) or isinstance(keep, bool) or keep < 1:
        raise ValueError(f"keep must be an integer >= 1, got {keep!r}")
    check_arguments("save_checkpoint", folder, optimizer, model)
    with (
        optimizer.alone(SAVE),
        Together(lambda: everyone_of(optimizer, model, "save_checkpoint()")) as together,
        ExitStack() as stack,
    ):
        agree(together.everyone, {"keep": keep})
        together.call(lambda: stack.enter_context(optimizer.at_last_meeting()))
        contents = _contents(optimizer, model, extra, together)
        _write(Path(folder), optimizer.run, contents, keep, together)


@dataclass(frozen=True)
class _Contents:
    """What is to be written: this rank's tensors and extra, what is no tensor, and the checksums of all ranks."""

    tensors: dict[str, Tensor]
    extra: bytes
    plain: bytes
    checksums: dict[str, int]


def _contents(optimizer: OneBitOptimizer, model: nn.Module | None, extra: Any, together: Together) -> _Contents:
    everyone = together.everyone
    state = together.call(optimizer.state_dict)
    params, shard = all_params(optimizer.run), shard_of(optimizer.param_groups)
    written: dict[str, Tensor] = {}
    compared: dict[str, int] = {}
    plain_states: dict[int, dict[str, Any]] = {}
    for number, one in state["state"].items():
        plain_states[number] = {name: value for name, value in one.items() if not isinstance(value, Tensor)}
        for name, value in one.items():
            if isinstance(value, Tensor) and not is_empty_row(name, value):
                key = f"optimizer/{number}/{name}"
                compared[sum_key(key, shard)] = checksum([local(value)])
                if OF in name or isinstance(value, DTensor) or number % everyone.size == everyone.rank:
                    written[key] = value
    plain_model: dict[str, Any] = {}
    for name, value in ({} if model is None else model.state_dict()).items():
        if not isinstance(value, Tensor):
            plain_model[name] = value
        elif isinstance(value, DTensor) or everyone.rank == 0:
            written[f"model/{name}"] = value
            compared[sum_key(f"model/{name}", shard if isinstance(value, DTensor) else [])] = checksum([local(value)])
    for number, param in enumerate(params):
        compared[sum_key(f"parameter {number}", shard)] = checksum([local(param)])

    def pack() -> tuple[bytes, bytes]:
        names = names_in(model, params)
        plain = {"states": plain_states, "param_groups": state["param_groups"], "names": names, "model": plain_model}
        return packed(extra, "extra"), _packed_plain(plain)

    packed_extra, plain = together.call(pack)
    return _Contents(written, packed_extra, plain, _same_everywhere(everyone.objects(compared)))


def _packed_plain(plain: dict[str, Any]) -> bytes:
    """What is no tensor, packed.

    Raises:
        ValueError: something in it could not be loaded again; the message names it.
    """
    try:
        return packed(plain, "what the model's state_dict holds beside tensors")
    except ValueError:
        for k, group in enumerate(plain["param_groups"]):
            for name, value in group.items():
                packed(value, f"{name!r} in parameter group {k} of the optimizer")
        raise


def _write(folder: Path, run: Run, contents: _Contents, keep: int, together: Together) -> None:
    everyone, tensors = together.everyone, contents.tensors
    run.identity = run.identity or everyone.objects(uuid.uuid4().hex[:8])[0]
    identity = run.identity
    number = together.call(lambda: prepare(folder, identity) if everyone.rank == 0 else 0)
    new = NewGeneration(folder, identity, everyone.objects(number)[0])  # rank 0's, whose file system counts

    def begin() -> None:
        if everyone.rank == 0:
            new.begin()

    def write() -> list[Receipt]:
        new.part.mkdir(parents=True, exist_ok=True)  # it is there, if the nodes share the folder
        with told_if_full(folder, tensors.values()):
            with plain_errors():
                if everyone.size == 1:
                    state_dict_saver.save(tensors, checkpoint_id=new.part, no_dist=True)
                else:  # a RuntimeError is of a collective: failed writes come as what plain_errors() knows
                    own = {"checkpoint_id": new.part, "process_group": everyone.group}
                    told("save", state_dict_saver.save, tensors, **own)
            write_synced(new.part / extra_name(everyone.rank), contents.extra)
        return receipts_of(new.part, everyone.rank)

    def complete() -> None:
        if everyone.rank == 0:
            read_back(new.part, receipts)
            with told_if_full(folder, tensors.values()):
                facts = {"run": new.run, "tensors": contents.checksums}
                write_manifest(new.part, contents.plain, everyone.size, facts)
            try:
                Reader(new.part)
            except ValueError as error:
                raise OSError(f"what was written can't be read: {error}") from None

    def commit() -> None:
        if everyone.rank == 0:
            new.commit(keep)

    try:
        together.call(begin)
        receipts = everyone.objects(together.call(write))
        together.call(complete)
        together.call(commit, interruptible=False)  # nothing is worse than a checkpoint too many
    except BaseException:
        if everyone.rank == 0 or not (new.part / WRITER).exists():  # or this node has a folder of its own
            new.discard()
        raise


def check_arguments(call: str, folder: Any, optimizer: Any, model: Any) -> None:
    """Whether they are what they should be.

    Raises:
        ValueError: they are not.
        OSError: the folder is a file, or can't be looked at.
    """
    call = f"{call}(folder, optimizer, model)"
    check_folder(call, folder)
    check_ours(call, optimizer)
    if model is not None and not isinstance(model, nn.Module):
        hint = ": give the model itself" if isinstance(model, dict) else ""
        raise ValueError(f"model must be a torch.nn.Module or None, got {type(model).__name__}{hint}")


def everyone_of(optimizer: OneBitOptimizer, model: nn.Module | None, call: str) -> Collectives:
    """All who save together, once they have come: the workers; with a sharded model, or in nodes, all processes.

    Raises:
        WorkersDisagreeError: another worker calls something else, or does not give the model.
    """
    occasion = f"{call} without a model" if model is None else call
    optimizer.meet(occasion)
    if not shard_of(optimizer.param_groups) and optimizer.collectives.inside is None:
        return optimizer.collectives
    everyone = Collectives()
    everyone.where = f" of {occasion}"
    same_occasion(everyone, occasion)
    return everyone


def is_empty_row(name: str, value: Tensor) -> bool:
    """Whether this is a server's error outside of its chunk: zeros. Of shards all or none are written."""
    return name.startswith(SERVER) and not isinstance(value, DTensor) and not bool(value.any())


def names_in(model: nn.Module | None, params: Sequence[Tensor]) -> list[str]:
    """The model's names of the optimizer's parameters, in the optimizer's order; "" for one that it does not have.

    Raises:
        ValueError: it has none of them.
    """
    found = {} if model is None else {id(param): name for name, param in model.named_parameters()}
    names = [found.get(id(param), "") for param in params]
    if model is not None and not any(names):
        raise ValueError("none of the model's parameters is the optimizer's: this is not the model that it trains")
    return names


def _same_everywhere(tables: list[dict[str, int]]) -> dict[str, int]:
    """The checksums of all ranks together.

    Raises:
        RuntimeError: two ranks have different values of one tensor.
    """
    merged: dict[str, int] = {}
    for rank, table in enumerate(tables):
        for key, value in table.items():
            if merged.setdefault(key, value) != value:
                raise RuntimeError(f"{key} on rank {rank} differs from that of a lower rank [L6]: nothing was saved")
    return merged
