"""A correct class with the traits that another class declares: what it does not pass is outside the specification."""

from __future__ import annotations

from functools import cache

from verification.independent.collectives import Vectorised
from verification.independent.lamb import Lamb
from verification.independent.optimizers import Eager
from verification.independent.zero_one import ZeroOne
from verification.protocol import Traits

CORRECT = {"one_bit_adam": Eager, "zero_one_adam": ZeroOne, "one_bit_lamb": Lamb}
"""Algorithm -> a correct optimizer that takes any dtype and chunks."""


@cache
def correct_class(level: str, traits: Traits) -> type | None:
    """A collective or an optimizer with these traits; None where there is none."""
    if not traits.has_server_error or not traits.compresses:
        return None
    attributes = {
        "dtype": traits.dtype,
        "chunk_multiple": traits.chunk_multiple,
        "server_chunks": traits.server_chunks,
        "takes": dict(traits.takes),
        "extensions": traits.extensions,
    }
    if level == "collective":
        about = {"scale": traits.scale or "l2", "scale_block": traits.scale_block}
        return type("Correct", (Vectorised,), {**attributes, **about})
    arithmetic = type("Arithmetic", (Vectorised,), {"dtype": traits.dtype})
    policies = {name: getattr(traits, name) for name in ("refresh_policy", "meeting_policy")}
    about = {**attributes, **policies, "collective": arithmetic, "scale": traits.scale}
    return type("Correct", (CORRECT[traits.algorithm],), about)
