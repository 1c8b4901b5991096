"""What all packages share: files that a crash leaves whole, digests of sources, the processor's name, "1 case", errors.

It imports nothing of the project, and nothing that has to be installed.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import secrets
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from pathlib import Path
from typing import Any


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
    if path.exists() and not path.is_file():  # asked before links are followed: /dev/stdout may lead to a nameless pipe
        try:
            yield path
        except OSError as error:
            raise error if error.strerror is None else _unwritable(path, error) from None
        return
    asked, path = path, Path(os.path.realpath(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")  # process numbers come again in containers
    try:
        yield part
        with part.open("rb") as file:
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        if error.filename not in (None, str(part)) or error.strerror is None:  # a full disk names no file
            raise
        raise _unwritable(asked, error) from None
    finally:
        with suppress(OSError):  # where it can't be removed, that is no news beside why
            part.unlink()


def writable_folder(path: Path | None) -> Path | None:
    """``path`` itself, for an option that names a folder to write: refused before any work; nothing is made there.

    Raises:
        OSError: nothing can be written there, or where it would be made.
    """
    if path is not None:
        _try(path, path)
    return path


def writable_file(path: Path | None) -> Path | None:
    """The same for a file. What is no file (a device, a pipe) is taken as it is."""
    if path is not None and path.is_dir():
        raise OSError(f"{path} is a folder: give the name of a file")
    if path is not None and (path.is_file() or not path.exists()):
        _try(Path(os.path.realpath(path)).parent, path)
    return path


def _try(folder: Path, asked: Path) -> None:
    place = next(one for one in (folder, *folder.absolute().parents) if one.exists())
    try:
        with tempfile.TemporaryFile(dir=place):
            return
    except OSError as error:
        raise _unwritable(asked, error) from None


def _unwritable(path: Path, error: OSError) -> OSError:
    return OSError(f"{path} can't be written: {error.strerror}")


def write_atomically(path: Path, text: str) -> None:
    """Write ``text`` to ``path`` so that it holds either its old content or all of the new one; errors as above."""
    with replacing(path) as part:
        part.write_text(text, encoding="utf-8")


def write_sealed(path: Path, content: Mapping[str, Any]) -> None:
    """Write ``content`` as JSON that says by a digest whether it is still what was written; errors as above."""
    plain = json.loads(json.dumps(content))
    write_atomically(path, json.dumps({"sha256": _digest_of_json(plain), **plain}, indent=1))


def read_sealed(path: Path) -> dict[str, Any] | None:
    """What :func:`write_sealed` wrote; None where there is none, or it is cut off, changed, or something else.

    Raises:
        OSError: ``path`` is a folder, or no plain file.
    """
    if path.exists() and not path.is_file():  # a pipe would be waited for, and what is found could not be kept
        raise OSError(f"{path} is not a file: remove it, a result is to be kept there")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    whole = isinstance(content, dict) and content.pop("sha256", None) == _digest_of_json(content)
    return content if whole else None


def _digest_of_json(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


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


def anchor_of(heading: str) -> str:
    """What GitHub makes of a heading, for links to it."""
    kept = "".join(letter for letter in heading.lower() if letter.isalnum() or letter in " -")
    return kept.replace(" ", "-")


def counted(count: int, noun: str) -> str:
    """``1 case``, ``2 cases``."""
    return f"{count} {noun}{'s' * (count != 1)}"


def alike(name: str, known: Iterable[str]) -> str:
    """``did you mean convergence_gan?``, with five names at most; empty where none is like it."""
    like = get_close_matches(name, dict.fromkeys(known), 5)
    return f"did you mean {', '.join(like)}?" if like else ""


def error_line(error: BaseException) -> str:
    """An error in one line, ``TypeError: its message``; its kind alone where it says nothing."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}".removesuffix(": ")
