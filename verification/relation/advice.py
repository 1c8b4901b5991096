"""What a class may have forgotten to declare of its compression round: tried in place of what it says."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace

from verification.protocol import Scale, Traits


def advice(scale: Scale, traits: Traits, holds: Callable[[Scale, Traits], bool]) -> str:
    """For a message: the fewest declarations with which the round ``holds``; empty if there are none."""
    for other, chunks in unsaid(scale, traits):
        if holds(other, replace(traits, server_chunks=chunks)):
            said = [f"scale = {json.dumps(other)}"] * (other != scale)
            said += [f"server_chunks = {chunks}"] * (chunks != traits.server_chunks)
            verb, what = ("explain", "them, if they are") if len(said) > 1 else ("explains", "it, if it is")
            return f"; {' and '.join(said)} {verb} it: declare {what} meant"
    return ""


def unsaid(scale: Scale, traits: Traits) -> Iterator[tuple[Scale, int | None]]:
    """Other scales and numbers of server chunks, the fewest changes first."""
    other: Scale = "l1" if scale == "l2" else "l2"
    yield other, traits.server_chunks
    if traits.server_chunks is None:
        yield scale, 1
        yield other, 1
