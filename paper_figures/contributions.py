"""Figures and claims are found in the files of a folder: a new one is one new file, listed nowhere."""

from __future__ import annotations

import importlib
from functools import cache
from types import ModuleType

from onebit_modules import each_module

CAN_T_BE_USED = 3
"""Exit status where a file could not be used: what is in it was not drawn, or not decided."""


@cache
def read(package: str, name: str) -> tuple[tuple[ModuleType, ...], tuple[str, ...]]:
    """The modules of ``package`` that define ``name``, and one sentence for each file that can't be used."""

    def take(module: ModuleType) -> ModuleType:
        if not hasattr(module, name):
            raise AttributeError(f"it defines no {name}")
        return module

    found, failed = each_module(importlib.import_module(package), take)
    return found, tuple(map(str, failed))


def broken() -> tuple[str, ...]:
    """One sentence for each file of a figure or a claim that can't be used."""
    return read("paper_figures.figures", "FIGURE")[1] + read("paper_figures.claims.statements", "CLAIM")[1]
