"""Folders in which a new file is listed nowhere: theorems, figures, claims, mutants.

It imports nothing of the project, and nothing that has to be installed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import TypeVar

from onebit_files import error_line

T = TypeVar("T")


@dataclass(frozen=True)
class Broken:
    """A file that can't be used, and why; as text one sentence."""

    file: str
    reason: str

    def __str__(self) -> str:
        return f"{self.file} can't be used: {self.reason}"


def file_of(module: str) -> str:
    """``theory/theorems/conservation.py`` for ``theory.theorems.conservation``."""
    return f"{module.replace('.', '/')}.py"


def each_module(
    package: ModuleType, use: Callable[[ModuleType], T], without: Collection[str] = ()
) -> tuple[tuple[T, ...], tuple[Broken, ...]]:
    """What ``use`` makes of every module of ``package``, and the files with which that, or the import, failed.

    An unfinished file must not hide the others, nor end a command that has nothing to do with it.

    Args:
        package: whose modules are meant.
        use: called with each; what it raises is said of the file.
        without: short names of modules that are left out.
    """
    found: list[T] = []
    broken: list[Broken] = []
    for info in iter_modules(package.__path__):
        if info.name in without:
            continue
        name = f"{package.__name__}.{info.name}"
        try:
            found.append(use(import_module(name)))
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            broken.append(Broken(file_of(name), error_line(error)))
    return tuple(found), tuple(broken)
