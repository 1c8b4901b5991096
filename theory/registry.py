"""All theorems, collected from the modules of :mod:`theory.theorems`: a new theorem is one new file, listed nowhere."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from string import ascii_lowercase
from types import ModuleType

from onebit_modules import Broken, each_module, file_of
from theory import kinds, theorems
from theory.theorem import ID_PATTERN, Theorem


def sort_key(theorem_id: str) -> tuple[int, str]:
    """``"T6b"`` -> ``(6, "b")``: T10 comes after T9."""
    match = ID_PATTERN.fullmatch(theorem_id)
    if match is None:
        raise ValueError(f"theorem id {theorem_id!r} is not of the form T<number> or T<number><letter>")
    return int(match[1]), match[2]


def names(theorem_id: str) -> tuple[str, str]:
    """``"T6b"`` -> ``("T6b", "T6")``: its own name, and the one that it shares with T6a, T6c ..."""
    return theorem_id, theorem_id.rstrip(ascii_lowercase)


class NotRead(ValueError):  # noqa: N818  (it says what is missing)
    """A theorem that is asked for is not there, and may stand in a file that can't be used."""


def _check_kinds(theorem: Theorem) -> None:
    """Refuse what is no theorem, or has a part of another kind: a class derived from ours may claim anything."""
    if reason := next(kinds.wrong(theorem, Theorem, str(getattr(theorem, "id", "THEOREM"))), ""):
        raise TypeError(reason)


@cache
def collect() -> tuple[tuple[Theorem, ...], tuple[Broken, ...]]:
    """Every ``THEOREM`` and ``THEOREMS`` of the files in ``theory/theorems``, by number, and the files that failed."""
    found: dict[str, Theorem] = {}
    twice: set[str] = set()
    held: dict[str, dict[str, str]] = {}

    def take(module: ModuleType) -> None:
        exported: tuple[Theorem, ...] = getattr(module, "THEOREMS", ())
        if hasattr(module, "THEOREM"):
            exported = (module.THEOREM, *exported)
        name = file_of(module.__name__)
        held[name] = {key: value.id for key, value in vars(module).items() if isinstance(value, Theorem)}
        for theorem in exported:
            _check_kinds(theorem)
            sort_key(theorem.id)
            if theorem.id in twice or found.pop(theorem.id, None) is not None:
                twice.add(theorem.id)
                raise ValueError(f"two theorems have the id {theorem.id}, and neither counts; rename one")
            found[theorem.id] = theorem

    broken = list(each_module(theorems, take)[1])
    for name, names in held.items():
        forgotten = [key for key, theorem_id in names.items() if theorem_id not in found and theorem_id not in twice]
        if forgotten and all(item.file != name for item in broken):
            broken.append(Broken(name, f"{', '.join(forgotten)} is in neither THEOREM nor THEOREMS"))
    return tuple(found[name] for name in sorted(found, key=sort_key)), tuple(broken)


def all_theorems() -> tuple[Theorem, ...]:
    """Every theorem whose file can be read, by number."""
    return collect()[0]


def select(ids: Iterable[str] = ()) -> tuple[Theorem, ...]:
    """The theorems that ``ids`` name, by number; all of them when ``ids`` is empty.

    ``"6"`` and ``"T6"`` mean T6 and T6a, T6b ...; ``"6a"``, ``"T6a"`` and ``"t6A"`` mean that one alone.

    Raises:
        ValueError: an id names no theorem; the message lists the choices.

    """
    everything = all_theorems()
    wanted: set[str] = set()
    for name in ids:
        full = "T" + name.strip().lower().removeprefix("t")
        hits = {theorem.id for theorem in everything if full in names(theorem.id)}
        if not hits:
            if files := collect()[1]:
                raise NotRead("; ".join((*map(str, files), f"no other file has {name!r}")))
            raise ValueError(f"no theorem {name!r}; choose from {' '.join(theorem.id for theorem in everything)}")
        wanted |= hits
    return tuple(theorem for theorem in everything if not wanted or theorem.id in wanted)
