"""Bandwidths as they are written: a number and its unit."""

from __future__ import annotations

UNITS = {"Gbit": 1e9, "Mbit": 1e6, "kbit": 1e3}
LEAST, MOST = 1e4, 1e12
"""bit/s that are taken for a bandwidth."""


def bits_per_second(text: str) -> float:
    """A bandwidth as it is written, such as "100Mbit" or "2.5Gbit".

    Raises:
        ValueError: it is not written so, or does not lie in LEAST..MOST.
    """
    unit = next((unit for unit in UNITS if text.endswith(unit)), "")
    try:
        value = float(text.removesuffix(unit)) * UNITS[unit]
    except (KeyError, ValueError):
        value = 0.0
    if not LEAST <= value <= MOST:
        ends = f"from {in_words(LEAST)} to {in_words(MOST)}"
        raise ValueError(
            f"a bandwidth is a number and one of {', '.join(UNITS)}, {ends}, such as 100Mbit; got {text!r}"
        )
    return value


def in_words(bandwidth: float) -> str:
    """The same, as it is written."""
    unit = next((unit for unit, size in UNITS.items() if bandwidth >= size), "kbit")
    return f"{bandwidth / UNITS[unit]:g}{unit}"
