"""Modules beside the checked file: it may import them, but none takes the place of a module found elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType


class Neighbours:
    """Looks in one folder, for top-level modules that no other finder has found.

    The folder isn't put on ``sys.path``: an installed package may be found by a finder that comes after ``sys.path``
    (an editable install), and a file ``reference.py`` would then be imported in place of the package ``reference``.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Of a top-level module in the folder, or None."""
        return PathFinder.find_spec(name, [self.folder], target) if path is None else None


def may_be_imported(folder: str) -> None:
    """Let the modules of a folder be imported, after all others."""
    if folder not in folders():
        sys.meta_path.append(Neighbours(folder))


def folders() -> list[str]:
    """The folders whose modules may be imported so."""
    return [finder.folder for finder in sys.meta_path if isinstance(finder, Neighbours)]
