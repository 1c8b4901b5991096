"""What a class may have forgotten to declare: tried in place of what it says, where something is found."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from verification.protocol import Scale, Traits


@dataclass(frozen=True)
class Hint:
    """A declaration with which nothing is found in a step; whether it explains all that fails, the search tries.

    Attributes:
        text: what to declare, for a message.
        declares: attribute and value of each declaration.
    """

    text: str
    declares: tuple[tuple[str, Any], ...]

    def of(self, traits: Traits) -> Traits:
        """The traits of the class if it declared this."""
        return replace(traits, **dict(self.declares))


def arithmetic(name: str, value: str, what: str) -> Hint:
    """Of a way to compute."""
    return Hint(f'{name} = "{value}" explains it: declare that {what}', ((name, value),))


def advice(scale: Scale, traits: Traits, holds: Callable[[Scale, Traits], bool]) -> tuple[Hint, ...]:
    """The fewest declarations of the compression with which the round ``holds``; () if there are none."""
    for other, chunks in unsaid(scale, traits):
        if holds(other, replace(traits, server_chunks=chunks)):
            declares = [("scale", other)] * (other != scale)
            declares += [("server_chunks", chunks)] * (chunks != traits.server_chunks)
            said = " and ".join(f"{name} = {json.dumps(value)}" for name, value in declares)
            verb, what = ("explain", "them, if they are") if len(declares) > 1 else ("explains", "it, if it is")
            return (Hint(f"{said} {verb} it: declare {what} meant", tuple(declares)),)
    return ()


def unsaid(scale: Scale, traits: Traits) -> Iterator[tuple[Scale, int | None]]:
    """Other scales and numbers of server chunks, the fewest changes first."""
    other: Scale = "l1" if scale == "l2" else "l2"
    yield other, traits.server_chunks
    if traits.server_chunks is None:
        yield scale, 1
        yield other, 1
