"""Evidence that takes seconds to minutes to find: kept as JSON, under a digest of the code that found it."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import platform
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from onebit_files import digest_of, read_sealed, writable_folder, write_sealed

SOURCES = {".py", ".c", ".h", ".v"}
RECORD = "kernel-record.json"


@dataclass(frozen=True)
class Evidence:
    """One finding with what is needed to repeat it.

    Attributes:
        name: the file it is written to, without ``.json``.
        command: what repeats it on the command line.
        made: when it was found, UTC.
        source_digest: of the packages that found it.
        versions: of Python, the machine and the libraries that had a part in it.
        result: what was found, plain JSON.
    """

    name: str
    command: str
    made: str
    source_digest: str
    versions: dict[str, str]
    result: Any

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=1)


def obtain(
    name: str,
    command: str,
    *,
    packages: Iterable[str],
    libraries: Iterable[str],
    folder: Path,
    find: Callable[[], Any],
) -> Evidence:
    """What ``folder`` holds under ``name``, if the code and the versions are those of now; else what ``find`` finds.

    Args:
        name: names the evidence.
        command: what repeats it.
        packages: of this project, whose source decides the result.
        libraries: distributions whose version may decide it.
        folder: where evidence is kept between calls.
        find: returns plain JSON; called only where nothing fitting is kept.

    Raises:
        OSError: nothing can be kept in ``folder``; told before ``find`` is called.
    """
    digest, versions = source_digest(packages), versions_of(libraries)
    key = hashlib.sha256(json.dumps([command, digest, versions], sort_keys=True).encode()).hexdigest()[:16]
    file = folder / f"{name}-{key}.json"
    if (kept := read_sealed(file)) is not None:
        with suppress(TypeError):  # one that this version does not understand
            return Evidence(**kept)
    writable_folder(folder)  # before minutes of work
    evidence = Evidence(name, command, _now(), digest, versions, find())
    write_sealed(file, asdict(evidence))
    return evidence


def source_digest(packages: Iterable[str]) -> str:
    """A digest of the sources (Python, C, Coq and its record) of these packages."""
    return digest_of(file for package in packages for file in _sources_of(package))


def _sources_of(package: str) -> Iterator[tuple[str, Path]]:
    spec = importlib.util.find_spec(package)
    assert spec is not None
    assert spec.origin is not None
    root = Path(spec.origin).parent
    for path in sorted(path for path in root.rglob("*") if path.suffix in SOURCES or path.name == RECORD):
        yield f"{package}/{path.relative_to(root).as_posix()}", path


def versions_of(libraries: Iterable[str]) -> dict[str, str]:
    """Python, the machine, and each distribution; "not installed" where it isn't."""
    found = {"python": platform.python_version(), "machine": platform.platform()}
    for name in libraries:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%d, %H:%M UTC")
