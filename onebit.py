"""The front door: ``from onebit import OneBitAdam, verify, prove``, and the command ``onebit``.

Everything is loaded when it is asked for: the optimizer needs torch, ``prove`` SymPy.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpu_impl import OneBitAdam, OneBitLamb, ZeroOneAdam
    from verification.search.verdicts import Result

OPTIMIZERS = ("OneBitAdam", "OneBitLamb", "ZeroOneAdam")
__all__ = ["OneBitAdam", "OneBitLamb", "ZeroOneAdam", "prove", "verify"]

PACKAGES = ("reference", "theory", "gpu_impl", "verification", "paper_figures")


def prove(*ids: str) -> dict[str, bool]:
    """Check theorems; Coq's part goes by the committed record (``onebit prove --kernel`` asks Coq itself).

    Args:
        ids: such as "T6" or "6a"; none for all.

    Returns:
        Whether each holds, by id.

    Raises:
        ValueError: there is no theorem of that name.
    """
    from theory import all_theorems, select
    from theory.theorem import by_id
    from theory.verdict import judge

    lemmas = by_id(all_theorems())
    return {theorem.id: judge(theorem, lemmas, None).holds for theorem in select(ids)}


def verify(implementation: type, *, profile: str = "quick", seed: int = 0, minutes: float | None = None) -> Result:
    """Check a class against every law of its level; ``verification/protocol.py`` says what it implements.

    Args:
        implementation: a class without arguments.
        profile: "quick", "ci" or "deep".
        seed: other random cases for every seed.
        minutes: when the search is cut off; None is the profile's.

    Returns:
        A verdict for each clause, with the smallest counterexample where it fails, and what the verdicts rest on.

    Raises:
        AdapterError: the class can't be driven.
        ValueError: there is no such profile.
    """
    from verification.search.driver import Driver
    from verification.search.plan import PROFILES
    from verification.search.search import search

    if profile not in PROFILES:
        raise ValueError(f"profile must be one of {', '.join(PROFILES)}, got {profile!r}")
    return search(Driver(implementation), profile=profile, seed=seed, minutes=minutes)


def __getattr__(name: str) -> Any:
    """An optimizer, when it is first asked for."""
    if name in OPTIMIZERS:
        import gpu_impl

        return getattr(gpu_impl, name)
    raise AttributeError(f"module 'onebit' has no {name!r}; there are {', '.join(__all__)}")


def shadowed() -> str:
    """What to say if another package of the name of one of ours is found first, or ""."""
    here = Path(__file__).resolve().parent
    for name in PACKAGES:
        spec = find_spec(name)
        found = None if spec is None or spec.origin is None else Path(spec.origin).resolve().parent
        if found is not None and found.parent != here:
            return f"{found} hides this project's package {name!r}: call onebit from another folder, or rename that one"
    return ""


def main() -> None:
    """Run the command line."""
    if reason := shadowed():
        print(f"onebit: {reason}", file=sys.stderr)  # noqa: T201
        sys.exit(2)
    from onebit_signals import leave, loading

    with loading():
        from onebit_command import run
    leave(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
