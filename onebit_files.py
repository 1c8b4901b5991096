"""What all packages share: files that a crash leaves whole, digests of sources, the processor's name, "1 case", errors.

It imports nothing of the project, and nothing that has to be installed.
"""

from __future__ import annotations

import hashlib
import os
import platform
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A file to write beside ``path``, which takes its place in one rename when the block ends well.

    Readers see the old file or the whole new one, never a part; after an error, or Ctrl-C, the old one. A link keeps
    pointing where it does, and what is no file (a device, a pipe) is written to as it is.

    Raises:
        OSError: ``path`` is a folder, or can't be written.
    """
    if path.is_dir():
        raise OSError(f"{path} is a folder: give the name of a file")
    path = Path(os.path.realpath(path))
    if path.exists() and not path.is_file():
        yield path
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")  # process numbers come again in containers
    try:
        yield part
        with part.open("rb") as file:
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def write_atomically(path: Path, text: str) -> None:
    """Write ``text`` to ``path`` so that it holds either its old content or all of the new one; errors as above."""
    with replacing(path) as part:
        part.write_text(text, encoding="utf-8")


def digest_of(files: Iterable[tuple[str, Path]]) -> str:
    """16 hex digits that change when a file does, or its name; ``files`` are names and paths, in order."""
    digest = hashlib.sha256()
    for name, path in files:
        digest.update(name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def processor_lines() -> list[str]:
    """What Linux says about every core, as "key : value"; nothing elsewhere."""
    try:
        return Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return []


def processor_name() -> str:
    """The processor's name where Linux says it, else what Python knows."""
    names = (line.partition(":")[2].strip() for line in processor_lines() if line.startswith("model name"))
    return next(names, "") or platform.processor() or platform.machine()


def counted(count: int, noun: str) -> str:
    """``1 case``, ``2 cases``."""
    return f"{count} {noun}{'s' * (count != 1)}"


def error_line(error: BaseException) -> str:
    """An error in one line, ``TypeError: its message``; its kind alone where it says nothing."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}".removesuffix(": ")
