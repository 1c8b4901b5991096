"""Whether the class under test has replaced what it is judged with: functions of Python, NumPy and this project.

The class and its judge run in one process. A class that sets ``numpy.flatnonzero`` to something else would deceive the
judge too. So what is found changed after a case is told, and put back.
"""

from __future__ import annotations

import sys
from builtins import all as every
from builtins import map as each
from dataclasses import dataclass
from operator import attrgetter, is_
from types import CodeType, FunctionType
from typing import Any

JUDGE = ("protocol", "relation", "search", "originals", "isolated")
OURS = ("onebit_files", "theory", *(f"verification.{name}" for name in JUDGE))
WATCHED = ("builtins", "math", "numpy", *OURS)
"""The modules and packages whose functions are watched. In this project's, methods are too."""

# every() and each() are names of our own: a class under test may have replaced all() and map()
_code = attrgetter("__code__")


@dataclass(frozen=True)
class _Known:
    """A module or class, and what could be called in it when it was noted: by name, and the code of functions."""

    place: Any
    values: dict[str, Any]
    codes: dict[FunctionType, CodeType]

    def is_same(self) -> bool:
        """Whether nothing of it has changed: asked of thousands of names after every case."""
        here = vars(self.place)
        return every(each(is_, each(here.get, self.values), self.values.values())) and every(
            each(is_, each(_code, self.codes), self.codes.values())
        )


_known: dict[str, _Known] = {}
"""By the full name of the module or class."""

_noted: set[str] = set()
"""The modules in which all functions are known."""


def note() -> None:
    """Note the functions of all modules that were loaded since the last time."""
    for name, module in sorted(sys.modules.items()):
        if name not in _noted and _is_in(name, WATCHED):
            _noted.add(name)
            for one in _note(module, name):
                if isinstance(one, type) and one.__module__ == name and _is_in(name, OURS):
                    _note(one, f"{name}.{one.__qualname__}")


def _is_in(name: str, packages: tuple[str, ...]) -> bool:
    return any(name == one or name.startswith(f"{one}.") for one in packages)


def _note(place: Any, name: str) -> list[Any]:
    """Note what can be called in a module or class, and its properties."""
    found = {key: value for key, value in vars(place).items() if callable(value) or isinstance(value, property)}
    functions = {value: value.__code__ for value in found.values() if isinstance(value, FunctionType)}
    _known[name] = _Known(place, found, functions)
    return list(found.values())


def put_back() -> list[str]:
    """The full names of what has changed since it was noted; it is as before when this returns."""
    changed = []
    for name, known in _known.items():
        if known.is_same():
            continue
        here = vars(known.place)
        for key, value in known.values.items():
            if here.get(key) is not value:
                setattr(known.place, key, value)
                changed.append(f"{name}.{key}")
            if isinstance(value, FunctionType) and value.__code__ is not known.codes[value]:
                value.__code__ = known.codes[value]
                changed.append(f"{name}.{key}")
    return changed
