"""The mutants, collected from the family modules: a new mutant is one new class, listed nowhere."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from verification import mutants
from verification.mutants.base_collective import BaseCollective
from verification.mutants.base_optimizer import BaseOptimizer

NOT_FAMILIES = {"base_collective", "base_optimizer", "families", "kill_matrix"}


@dataclass(frozen=True)
class Mutant:
    """A planted bug: ``bug`` is the class's docstring, ``equivalent`` a proof that it is no bug (then it must live)."""

    id: str
    family: str
    bug: str
    under_test: type
    equivalent: str = ""

    @property
    def level(self) -> str:
        """Which properties can see it."""
        return "optimizer" if issubclass(self.under_test, BaseOptimizer) else "collective"


@cache
def all_mutants() -> tuple[Mutant, ...]:
    """Every public subclass of the two base implementations that a family module defines.

    Raises:
        ValueError: a mutant has no docstring.
    """
    found: list[Mutant] = []
    for info in iter_modules(mutants.__path__):
        if info.name in NOT_FAMILIES:
            continue
        module = import_module(f"{mutants.__name__}.{info.name}")
        for name, item in vars(module).items():
            public = inspect.isclass(item) and item.__module__ == module.__name__ and not name.startswith("_")
            if not public or not issubclass(item, BaseCollective | BaseOptimizer):
                continue
            if "__doc__" not in vars(item) or not item.__doc__:
                raise ValueError(
                    f"the mutant {module.__name__}.{name} needs a docstring that says what is wrong with it"
                )
            bug = " ".join(item.__doc__.split())
            found.append(Mutant(f"{info.name}.{name}", info.name, bug, item, vars(item).get("EQUIVALENT", "")))
    return tuple(found)
