"""What a class may have forgotten to declare: tried in place of what it says, where something is found."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from verification.protocol import Scale, Traits

Declares = tuple[tuple[str, Any], ...]
"""Attribute and value of each declaration."""


@dataclass(frozen=True)
class Hint:
    """A declaration with which nothing is found in a step; whether it explains all that fails, the search tries.

    Attributes:
        text: what to declare, for a message.
        declares: attribute and value of each declaration.
    """

    text: str
    declares: Declares

    def of(self, traits: Traits) -> Traits:
        """The traits of the class if it declared this."""
        return replace(traits, **dict(self.declares))


Hints = tuple[Hint, ...]

MULTIPLES = (1, 16, 32, 64, 128, 256, 512, 1024)
"""Lengths of chunks that are not the specification's: single elements, words and blocks of threads."""


def arithmetic(name: str, value: str, what: str) -> Hint:
    """Of a way to compute."""
    return Hint(f'{name} = "{value}" explains it: declare that {what}', ((name, value),))


def narrow(traits: Traits, low: Any, high: Any, exact: Any) -> str:
    """What to tell of a scale in [low, high] that a float64 class has rounded to float32, where it must be exact."""
    if traits.dtype == "float32" or not low <= float(np.float32(exact)) <= high:
        return ""
    return ': it is rounded to float32, and a class with dtype = "float64" is checked with float64 scales'


def advice(scale: Scale, traits: Traits, holds: Callable[[Scale, Traits], bool], shape: tuple[int, ...]) -> Hints:
    """The fewest declarations with which a round of ``shape`` (N, D) ``holds``; of multiples, all that explain it."""

    def explains(declares: Declares) -> bool:
        values = dict(declares)
        return holds(values.pop("scale", scale), replace(traits, **values))

    first = next(filter(explains, unsaid(scale, traits)), None)
    found = [first] if first else filter(explains, other_multiples(traits, shape))
    return tuple(Hint(_text(declares), declares) for declares in found)


def _text(declares: Declares) -> str:
    said = " and ".join(f"{name} = {json.dumps(one) if isinstance(one, str) else one}" for name, one in declares)
    verb, what = ("explain", "them, if they are") if len(declares) > 1 else ("explains", "it, if it is")
    return f"{said} {verb} it: declare {what} meant"


def unsaid(scale: Scale, traits: Traits) -> Iterator[Declares]:
    """Hardware that takes subnormal numbers for 0, which allows least; other scales, one server, and both."""
    other, one = ("scale", "l1" if scale == "l2" else "l2"), ("server_chunks", 1)
    if not traits.flushes_subnormals:
        yield (("flushes_subnormals", True),)
    yield (other,)
    if traits.server_chunks is None:
        yield (one,)
        yield other, one


def other_multiples(traits: Traits, shape: tuple[int, ...]) -> Iterator[Declares]:
    """Each multiple that makes other chunks of D elements on N workers."""
    n, dim = shape
    for multiple in MULTIPLES:
        if replace(traits, chunk_multiple=multiple).chunks(dim, n) != traits.chunks(dim, n):
            yield (("chunk_multiple", multiple),)
