"""Whether the parts of a theorem are of the kinds that its fields declare: everything else may then rely on them.

The annotations of the classes are the one list of what a field takes. What a formula consists of is for
:func:`theory.form.shape` to say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from numbers import Real
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from sympy import Basic
from sympy.core.relational import Relational

NAMES = {str: "a text that is not blank", float: "a number", Mapping: "a mapping (a dict)", type(None): "None"}
NAMES |= {Callable: "a function to be called"}


@cache
def hints(kind: type) -> Mapping[str, Any]:
    """The declared kind of every field of a class."""
    return get_type_hints(kind, include_extras=True)


def faults(item: Any, path: str = "") -> Iterator[str]:
    """One sentence for every part of one of our objects, or of what it consists of, that is of another kind."""
    for field in fields(item):
        value = getattr(item, field.name)
        if field.default is MISSING or type(value) is not type(field.default) or value != field.default:
            yield from wrong(value, hints(type(item))[field.name], path + field.name)


def wrong(value: Any, hint: Any, path: str) -> Iterator[str]:
    """The same for one value, which is named ``path``."""
    options = [option for one in _options(hint) for option in _options(one)]
    bare = [get_origin(option) or option for option in options]
    if type(value) in bare and is_dataclass(value):
        yield from faults(value, f"{path}.")
    elif Any in options or Relational in options:
        return
    elif tuple in bare and type(value) is tuple:
        yield from _items(value, [get_args(option) for option in options if get_origin(option) is tuple], path)
    elif Mapping in bare and isinstance(value, Mapping):
        [(of_key, of_value)] = [get_args(option) for option in options if get_origin(option) is Mapping]
        for key, one in value.items():
            yield from wrong(key, of_key, f"a key of {path}")
            yield from wrong(one, of_value, f"{path}[{key!r}]")
    elif not any(_fits(value, option) for option in options):
        yield f"`{path}` must be {' or '.join(map(_named, options))}, not {_shown(value)}"


def _items(value: tuple[Any, ...], forms: list[tuple[Any, ...]], path: str) -> Iterator[str]:
    """The parts of a tuple: all of one kind, or one kind for each place."""
    [form] = forms
    if form[-1] is not ... and len(value) != len(form):
        yield f"`{path}` must be a pair, not {len(value)} things"
        return
    for place, one in enumerate(value):
        yield from wrong(one, form[0] if form[-1] is ... else form[place], f"{path}[{place}]")


def _shown(value: Any) -> str:
    short = isinstance(value, (str, int, float, complex, Basic)) or value is None
    return f"{value!r:.40}" if short else _one(type(value))


def _one(kind: type) -> str:
    return f"{'an' if kind.__name__[0] in 'AEIO' else 'a'} {kind.__name__} object"


def _options(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def _fits(value: Any, option: Any) -> bool:
    if get_origin(option) is Annotated:
        return not isinstance(value, bool) and isinstance(value, get_args(option)[2:])
    kind = get_origin(option) or option
    if kind is str:
        return isinstance(value, str) and bool(value.strip())
    if kind is float:
        return isinstance(value, Real) and not isinstance(value, bool)
    if kind is Callable:
        return callable(value)
    return kind is not tuple and not is_dataclass(kind) and isinstance(value, kind)


def _named(option: Any) -> str:
    kind, parts = get_origin(option) or option, get_args(option)
    if kind is Annotated:
        return parts[1]
    if kind is tuple and parts[-1] is ...:
        return f"a tuple (one part: with a comma behind it), each part {' or '.join(map(_named, _options(parts[0])))}"
    if kind is tuple:
        return "a pair"
    return NAMES.get(kind) or _one(kind)
