"""Whether the class under test has replaced what it is judged with: functions of Python, NumPy and this project.

The class and its judge run in one process. A class that sets ``numpy.flatnonzero`` to something else would deceive the
judge too. So what is found changed after a case is told, and put back.
"""

from __future__ import annotations

import sys
from types import CodeType, FunctionType
from typing import Any

JUDGE = ("protocol", "relation", "search", "originals", "isolated")
OURS = ("onebit_files", "theory", *(f"verification.{name}" for name in JUDGE))
WATCHED = ("builtins", "math", "numpy", *OURS)
"""The modules and packages whose functions are watched. In this project's, methods are too."""

_known: dict[str, tuple[Any, dict[str, tuple[Any, CodeType | None]]]] = {}
"""Full name of a module or class -> itself; and of each function there what it was, and its code."""

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
    _known[name] = place, {key: (value, _code(value)) for key, value in found.items()}
    return list(found.values())


def _code(value: Any) -> CodeType | None:
    return value.__code__ if isinstance(value, FunctionType) else None


def put_back() -> list[str]:
    """The full names of what has changed since it was noted; it is as before when this returns."""
    changed = []
    for name, (place, known) in _known.items():
        here = vars(place)
        for key, (value, code) in known.items():
            if here.get(key) is not value:
                setattr(place, key, value)
                changed.append(f"{name}.{key}")
            if code is not None and value.__code__ is not code:
                value.__code__ = code
                changed.append(f"{name}.{key}")
    return changed
