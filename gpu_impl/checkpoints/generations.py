"""The checkpoints of a run that lie in one folder: what each is called, which is the newest, how a new one appears.

    folder/checkpoint-1f0c44ab-000003/     run 1f0c44ab's third; complete, for the rename is the last thing that happens
    folder/.checkpoint-1f0c44ab-000004.part/     being written by the process that holds the lock on its ``writer``

A save may be killed at any instruction. What is left of it is recognised and removed by the next save of any run: an
unfinished folder whose lock nobody holds, and a complete one whose manifest was renamed to ``deleted``, which is how a
deletion begins. Only files of our own names are removed; a folder in which others have put something stays, and so does
a link to a checkpoint that was moved elsewhere. What the system does not let us delete, such as another user's, is told
once and stays; it stops neither the save nor the deletion of the others.
"""

from __future__ import annotations

import fcntl
import logging
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

logger = logging.getLogger("onebit")

_NAME = re.compile(r"checkpoint-([0-9a-f]{8})-(\d{6,})")
_PART = re.compile(r"\.checkpoint-([0-9a-f]{8})-(\d{6,})\.part")
MANIFEST, DELETED, WRITER = "checkpoint.json", "deleted", "writer"
_OURS = re.compile(
    r"writer|deleted|checkpoint\.json|plain\.pt|extra-\d+\.pt|__\d+_\d+\.distcp|(__\d+)?\.metadata(\.tmp)?"
)


_told: set[Path] = set()
"""What could not be deleted, and was told."""


@dataclass(frozen=True)
class Generation:
    """One complete checkpoint."""

    path: Path
    run: str
    number: int


def generations_in(folder: Path) -> list[Generation]:
    """All complete checkpoints in ``folder``, oldest first; none if there is no such folder.

    Raises:
        OSError: it can't be read, or one that is called like a checkpoint.
    """
    return [one for one in _called_so(folder) if is_there(one.path / MANIFEST)]


def _called_so(folder: Path) -> list[Generation]:
    """What is called like a complete checkpoint, oldest first."""
    matches = [(path, _NAME.fullmatch(path.name)) for path in (folder.iterdir() if is_there(folder) else ())]
    found = [Generation(path, match[1], int(match[2])) for path, match in matches if match]
    return sorted(found, key=lambda one: (one.number, one.run))


def is_there(path: Path) -> bool:
    """Whether there is such a file or folder; newer Pythons' ``exists`` says no where nobody may look.

    Raises:
        OSError: the system does not say.
    """
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def check_folder(call: str, folder: Any) -> None:
    """Whether ``folder``, an argument of ``call``, can be a folder, there already or not.

    Raises:
        ValueError: it is no path, or one that the system can't have.
        NotADirectoryError: it is a file, or would lie in one.
    """
    if not isinstance(folder, (str, os.PathLike)) or not isinstance(name := os.fspath(folder), str) or not name:
        got = repr(folder) if isinstance(folder, str | bytes | int | None) else f"a {type(folder).__name__}"
        raise ValueError(f"{call}: folder must be a path, got {got}; '.' is this folder")
    try:
        is_name = b"\0" not in os.fsencode(name)
    except UnicodeEncodeError:
        is_name = False
    if not is_name:
        raise ValueError(f"{call}: folder must be a path, and nothing can be called {name!r}")
    for path in (Path(name), *Path(name).parents):
        if is_there(path) and not path.is_dir():
            raise NotADirectoryError(f"{path} is a file: checkpoints are kept in a folder, give the name of one")


def latest_checkpoint(folder: str | os.PathLike[str]) -> Path | None:
    """The newest checkpoint in ``folder``, or ``folder`` itself if it is one; None if there is none.

    Raises:
        ValueError: the folder holds checkpoints of several runs, so that nobody can know which is meant; or it is no
            path.
        OSError: it can't be read, or is a file.
    """
    check_folder("latest_checkpoint(folder)", folder)
    folder = Path(folder)
    if is_there(folder / MANIFEST):
        return folder
    newest = {one.run: one for one in generations_in(folder)}
    if len(newest) > 1:
        names = ", ".join(one.path.name for one in newest.values())
        raise ValueError(f"{folder} holds checkpoints of {len(newest)} runs: give the path of one of {names}")
    return next((one.path for one in newest.values()), None)


class NewGeneration:
    """A checkpoint that is being written; it appears complete, by :meth:`commit`, or not at all.

    Args:
        folder: where the checkpoints are.
        run: identity of the run.
        number: of this checkpoint, from :func:`prepare`.

    Attributes:
        part: the folder to write into.
        path: what it will be.
    """

    def __init__(self, folder: Path, run: str, number: int) -> None:
        self.folder, self.run = folder, run
        self.path = folder / f"checkpoint-{run}-{number:06}"
        self.part = folder / f".{self.path.name}.part"
        self._lock: IO[bytes] | None = None

    def begin(self) -> None:
        """Make the folder, and lock it as long as it is written.

        Raises:
            OSError: the folder can't be made.
        """
        self.part.mkdir()
        try:
            self._lock = (self.part / WRITER).open("wb")
        except FileNotFoundError:  # another run's save has tidied in between
            self.part.mkdir()
            self._lock = (self.part / WRITER).open("wb")
        with suppress(OSError):  # not every network file system has locks
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def discard(self) -> None:
        """Remove what was written, as far as it can be; the next save removes the rest."""
        with suppress(OSError):
            _remove(self.part, WRITER)
        self._release()

    def commit(self, keep: int) -> None:
        """The rename; then all but the last ``keep`` checkpoints of this run go."""
        sync_folder(self.part)
        self.part.rename(self.path)
        sync_folder(self.folder)
        self._release()
        own: list[Path] = []
        with suppress(OSError):  # the checkpoint is there; the next save tries again
            own = [one.path for one in _called_so(self.folder) if one.run == self.run and not one.path.is_symlink()]
            (self.path / WRITER).unlink()
        for old in list(filter(_is_complete, own))[:-keep]:
            with _told_if_it_stays(old):
                (old / MANIFEST).rename(old / DELETED)  # from here on it is no checkpoint
                _remove(old, DELETED)

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.close()


def prepare(folder: Path, run: str) -> int:
    """Make the folder, remove what broken saves have left in it, and say which number the run's next checkpoint has.

    Raises:
        OSError: the folder can't be made or read, or another process is saving this run there.
    """
    if folder.is_symlink() and not folder.exists():
        raise FileNotFoundError(f"{folder} is a link to {folder.readlink()}, which is not there: make that folder")
    folder.mkdir(parents=True, exist_ok=True)
    tidy(folder, run)
    number = 1
    for path in folder.iterdir():
        match = _NAME.fullmatch(path.name) or _PART.fullmatch(path.name)
        if match and match[1] == run:
            if _PART.fullmatch(path.name) and _is_being_written(path, is_own=True):
                raise OSError(f"{path} is being written by another process: give each run a folder of its own")
            number = max(number, int(match[2]) + 1)
    return number


def tidy(folder: Path, run: str) -> None:
    """Finish deletions that were interrupted, and remove saves whose writer is dead; ``run`` is who asks."""
    for path in list(folder.iterdir()):
        match = _NAME.fullmatch(path.name) or _PART.fullmatch(path.name)
        if match and not path.is_symlink():
            is_own = match[1] == run
            with _told_if_it_stays(path) if is_own else suppress(OSError):
                if _PART.fullmatch(path.name):
                    if not _is_being_written(path, is_own=is_own):
                        _remove(path, WRITER)
                elif is_there(path / MANIFEST):
                    (path / WRITER).unlink(missing_ok=True)
                elif is_there(path / DELETED) or not any(path.iterdir()):
                    _remove(path, DELETED)


@contextmanager
def _told_if_it_stays(path: Path) -> Iterator[None]:
    """Around a deletion, which may fail: a process says so once, and the next save tries again."""
    try:
        yield
    except OSError as error:
        if path not in _told:
            _told.add(path)
            logger.warning("%s can't be deleted and stays: %s", path, error)


def _is_complete(path: Path) -> bool:
    """Whether it is a checkpoint; one that nobody may look into is, so that its deletion fails with a word."""
    try:
        return is_there(path / MANIFEST)
    except OSError:
        return True


def _is_being_written(part: Path, *, is_own: bool) -> bool:
    """Whether a live process holds the lock; where there are no locks, our own run's are dead and others' alive."""
    try:
        with (part / WRITER).open("rb") as lock:  # another user's may be read only
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:  # killed before it was made
        return False
    except BlockingIOError:
        return True
    except OSError:
        return not is_own
    return False


def _remove(path: Path, mark: str) -> None:
    """Remove our files, ``mark`` last, for by it the folder is known; then the folder, if nothing else is in it."""
    for file in list(path.iterdir()):
        if _OURS.fullmatch(file.name) and file.name != mark:
            file.unlink()
    if all(file.name == mark for file in path.iterdir()):
        (path / mark).unlink(missing_ok=True)
        path.rmdir()


def sync_folder(folder: Path) -> None:
    """Ask the system to write a folder's entries to the disk, where it can be asked."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:  # not every system opens folders
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
