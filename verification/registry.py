"""All properties, collected from the modules of :mod:`verification.properties`: a new one is one new file."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from verification import properties
from verification.property import Property


@cache
def all_properties() -> tuple[Property, ...]:
    """Every ``PROPERTY`` of the modules in ``verification.properties``; collectives first, then by name.

    Raises:
        ValueError: two properties have one id, or one is not named after its file.
    """
    found: dict[str, Property] = {}
    for info in iter_modules(properties.__path__):
        item: Property = import_module(f"{properties.__name__}.{info.name}").PROPERTY
        if item.id.replace(".", "_") != info.name:
            raise ValueError(f"the property {item.id} must be in a file of that name, not in {info.name}.py")
        if item.id in found:
            raise ValueError(f"two properties have the id {item.id}")
        found[item.id] = item
    return tuple(found.values())
