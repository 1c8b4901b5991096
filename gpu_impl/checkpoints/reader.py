"""The files of one checkpoint: what is written is read back first, and what is read is checked."""

from __future__ import annotations

import io
import json
import logging
import os
import pickle
import warnings
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeGuard

import torch
from torch import Tensor
from torch.distributed.checkpoint import state_dict_loader
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.filesystem import FileSystemReader
from torch.distributed.checkpoint.metadata import TensorStorageMetadata

from gpu_impl.checkpoints.generations import MANIFEST, is_there, latest_checkpoint
from gpu_impl.checkpoints.together import interruption_in
from gpu_impl.optimizer.agreement import checksum
from gpu_impl.optimizer.flat_params import local

FORMAT = "onebit-adam-checkpoint-2"
PLAIN, INDEX = "plain.pt", ".metadata"


def sum_key(key: str, shard: list[str]) -> str:
    """Name of a tensor's checksum: the shards of a DTensor share a key, but each has its own."""
    return f"{key}@{','.join(shard)}" if shard else key


def extra_name(rank: int) -> str:
    """The file of one rank's ``extra``."""
    return f"extra-{rank}.pt"


def packed(value: Any, what: str) -> bytes:
    """``value`` as ``torch.save`` writes it, after it was read back.

    Raises:
        ValueError: ``torch.load(weights_only=True)`` will not read it.
    """
    file = io.BytesIO()
    try:
        torch.save(value, file)
        unpacked(file.getvalue())
    except Exception as error:
        reason = next(
            (line for line in str(error).splitlines() if "Unsupported" in line or "GLOBAL" in line), str(error)
        )
        raise ValueError(
            f"{what} could not be loaded again: give tensors, numbers, strings, lists, tuples and dicts, such as "
            f"float(x) for a NumPy number and str(path) for a path ({reason.strip()[:200]})"
        ) from None
    return file.getvalue()


def unpacked(contents: bytes) -> Any:
    """What :func:`packed` was given."""
    return torch.load(io.BytesIO(contents), weights_only=True, map_location="cpu")


def write_synced(file: Path, contents: bytes) -> None:
    """Write a file, and wait until it is on the disk."""
    with file.open("wb") as stream:
        stream.write(contents)
        stream.flush()
        os.fsync(stream.fileno())


def write_manifest(part: Path, plain: bytes, n_ranks: int, manifest: dict[str, Any]) -> None:
    """Write what is no tensor, and the manifest with the checksums of all files and tensors."""
    write_synced(part / PLAIN, plain)
    names = [PLAIN, INDEX, *map(extra_name, range(n_ranks))]
    files = {name: zlib.crc32((part / name).read_bytes()) for name in names}
    body = {"format": FORMAT, "files": files, **manifest}
    write_synced(part / MANIFEST, json.dumps({**body, "digest": _digest(body)}).encode())


def _digest(body: dict[str, Any]) -> int:
    return zlib.crc32(json.dumps(body, sort_keys=True).encode())


@contextmanager
def plain_errors() -> Iterator[None]:
    """Around calls of ``torch.distributed.checkpoint``: its exceptions are BaseExceptions that print a trace each.

    What it logs about a file that is missing, two traces more, is left out.

    Raises:
        OSError: what the first rank that failed says, in one line; from its error.
        BaseException: a signal handler raised it.
    """
    with warnings.catch_warnings(), ExitStack() as stack:
        warnings.filterwarnings("ignore", "torch.distributed is disabled")  # one rank reads by itself on purpose
        root = logging.getLogger()  # where torch writes to
        root.addFilter(_is_not_of_the_loader)
        stack.callback(root.removeFilter, _is_not_of_the_loader)
        try:
            yield
        except CheckpointException as error:
            if (interruption := interruption_in(error)) is not None:
                raise interruption from None
            reasons = {rank: reason for rank, (reason, _) in error.failures.items()}
            rank, reason = next(iter(reasons.items()))
            raise OSError(f"rank {rank}: {_first_line(reason)}") from reason


def is_out_of_memory(error: BaseException | None) -> TypeGuard[RuntimeError | MemoryError]:
    """Whether it says that memory could not be had."""
    says = isinstance(error, RuntimeError) and ("allocate memory" in str(error) or "out of memory" in str(error))
    return says or isinstance(error, MemoryError)


@contextmanager
def told_if_out_of_memory(key: str) -> Iterator[None]:
    """Around reading ``key``.

    Raises:
        RuntimeError: there was no memory for it; the checkpoint may be whole.
    """
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        raise RuntimeError(
            f"there was not enough memory to read {key}; nothing says that the checkpoint is damaged: free memory, or "
            "let fewer processes load on this machine at once"
        ) from error


def _first_line(error: BaseException | None) -> str:
    if isinstance(error, pickle.UnpicklingError):  # torch advises to load it all the same
        return "it is no tensor that torch saved"
    return (str(error).splitlines() or [type(error).__name__])[0][:200]


def _is_not_of_the_loader(record: logging.LogRecord) -> bool:
    return record.module != state_dict_loader.__name__.rpartition(".")[2]


class Reader:
    """One checkpoint on disk.

    Attributes:
        manifest: "run", "files" and "tensors" (checksums).
        plain: "states", "param_groups", "names" and "model": all that is no tensor of its own.
        kinds: what the checkpoint has, by key.

    Raises:
        ValueError: there is none, or it is damaged or incomplete.
        FileNotFoundError: it was deleted meanwhile.
        OSError: it can't be read, for a reason of the system's. So do the methods, all three.
    """

    def __init__(self, folder: Path) -> None:
        data = latest_checkpoint(folder)
        if data is None:
            raise ValueError(f"there is no checkpoint in {folder}")
        with told_if_gone(data):
            self.data, self.manifest = data, _read_manifest(data)
            plain = self._file(PLAIN)
            self._file(INDEX)
            self.plain: dict[str, Any] = unpacked(plain)
            self.kinds = FileSystemReader(self.data).read_metadata().state_dict_metadata

    def extra(self, rank: int) -> Any:
        """What this rank gave to be kept; rank 0's for a rank that did not exist then."""
        name = extra_name(rank)
        with told_if_gone(self.data):
            return unpacked(self._file(name if name in self.manifest["files"] else extra_name(0)))

    def _file(self, name: str) -> bytes:
        try:
            contents = (self.data / name).read_bytes()
        except FileNotFoundError:
            raise ValueError(f"the checkpoint is incomplete: {self.data.name}/{name} is missing") from None
        if zlib.crc32(contents) != self.manifest["files"].get(name):
            raise ValueError(f"the checkpoint is damaged: {self.data.name}/{name} is not what was written")
        return contents

    def names_under(self, prefix: str) -> list[str]:
        """The next part of the keys that begin with ``prefix``."""
        return sorted({key.removeprefix(prefix).split("/")[0] for key in self.kinds if key.startswith(prefix)})

    def tensor(self, key: str, shard: list[str], like: Tensor | None = None) -> Tensor:
        """One tensor on the CPU, or in the form of ``like``: of a DTensor this rank's shard.

        Raises:
            ValueError: it is missing, damaged, or not of the shape and dtype of ``like``.
            RuntimeError: there is no memory for it.
        """
        kind = self.kinds.get(key)
        if not isinstance(kind, TensorStorageMetadata):
            raise ValueError(f"the checkpoint has no {key}: it is of another model, or made with other settings")
        found = (tuple(kind.size), kind.properties.dtype)
        if like is not None and found != (wanted := (tuple(like.shape), like.dtype)):
            raise ValueError(f"{key} is {found[1]} {found[0]} in the checkpoint, must be {wanted[1]} {wanted[0]}")
        with told_if_out_of_memory(key):
            target = torch.empty(kind.size, dtype=kind.properties.dtype) if like is None else torch.empty_like(like)
            self._read(key, target)
            if checksum([local(target)]) != self.manifest["tensors"].get(sum_key(key, shard)):
                self._check_pieces(key, kind)
        return target

    def _read(self, key: str, target: Tensor) -> None:
        try:
            with told_if_gone(self.data), plain_errors():
                state_dict_loader.load({key: target}, checkpoint_id=self.data, no_dist=True)
        except FileNotFoundError:
            raise
        except OSError as error:
            reason = error.__cause__
            if is_out_of_memory(reason):
                raise reason from None
            if isinstance(reason, OSError) and not isinstance(reason, FileNotFoundError):
                raise reason from None
            raise ValueError(f"the checkpoint is damaged: {key} can't be read ({_first_line(reason)})") from error

    def _check_pieces(self, key: str, kind: TensorStorageMetadata) -> None:
        """Compare the pieces that were written with their checksums, for nobody has seen these shards before.

        Raises:
            ValueError: one is not what was written.
        """
        whole = torch.empty(kind.size, dtype=kind.properties.dtype)
        self._read(key, whole)
        written = {value for name, value in self.manifest["tensors"].items() if name.partition("@")[0] == key}
        for piece in kind.chunks:
            part = whole
            for axis, (start, size) in enumerate(zip(piece.offsets, piece.sizes, strict=True)):
                part = part.narrow(axis, start, size)
            if checksum([part]) not in written:
                raise ValueError(f"the checkpoint is damaged: {key} is not what was written")


@contextmanager
def told_if_gone(data: Path) -> Iterator[None]:
    """Around reading the checkpoint ``data``. A deletion begins with its manifest.

    Raises:
        FileNotFoundError: reading failed, and the manifest is gone.
    """
    try:
        yield
    except (OSError, ValueError):
        if is_there(data / MANIFEST):
            raise
        raise FileNotFoundError(
            f"{data} is gone: it was deleted while it was read, as a job does that saves there and keeps few; try "
            "again, or let that job keep more (keep=)"
        ) from None


def _read_manifest(data: Path) -> dict[str, Any]:
    file = data / MANIFEST
    try:
        body = json.loads(file.read_text())
    except ValueError as error:
        raise ValueError(f"the checkpoint is damaged: {file} can't be read: {error}") from None
    if not isinstance(body, dict) or body.get("format") != FORMAT:
        raise ValueError(f"{file} is not one of our checkpoints: format {FORMAT!r} expected")
    if body.pop("digest", None) != _digest(body):
        raise ValueError(f"the checkpoint is damaged: {file} is not what was written")
    return body
