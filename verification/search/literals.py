"""Arrays and hyper-parameters as Python that gives the same bits, as short as it can be said."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterator
from dataclasses import fields
from itertools import groupby

import numpy as np

from verification.protocol import Array, CommonHyper

LISTED = 512
"""The most numbers that are listed one by one."""

PERIODS = (2, 3, 4, 8)
"""Lengths of patterns that are repeated."""


def literal(array: Array) -> str:
    """``array`` as an expression that gives the same bits."""
    return next(_expressions(array))


def _expressions(array: Array) -> Iterator[str]:
    """Expressions of it, the plainest first."""
    kind, shape = f"np.{array.dtype}", array.size if array.ndim == 1 else array.shape
    flat = array.ravel()
    if not array.any() and not np.signbit(array).any():
        yield f"np.zeros({shape}, {kind})"
    if array.size > 4 and same(array, np.full_like(array, flat[0])):
        yield f"np.full({shape}, {number(flat[0])}, {kind})"
    if array.size <= 16:
        yield f"np.array({nested(array)}, {kind})"
    for period in PERIODS:
        if same(array, np.resize(flat[:period], array.shape)):
            yield f"np.resize(np.array({nested(flat[:period])}, {kind}), {shape})"
    reshape = "" if array.ndim == 1 else f".reshape{shape}"
    runs = list(_runs(flat)) if changes(flat) < LISTED else []
    if any(times > 4 for _, times in runs):
        yield f"np.array({_joined(runs)}, {kind}){reshape}"
    if same(array, seeded(array)):
        yield f"np.random.default_rng(0).integers(-3, 4, {shape}).astype({kind})"
    if array.size <= LISTED:
        yield f"np.array({nested(array)}, {kind})"
    packed = base64.b64encode(zlib.compress(np.ascontiguousarray(array).tobytes(), 9)).decode()
    yield f"np.frombuffer(zlib.decompress(base64.b64decode({packed!r})), {kind}){reshape}"


def changes(flat: Array) -> int:
    """How often a number is followed by another one."""
    bits = flat.view(f"u{flat.dtype.itemsize}")
    return int(np.count_nonzero(bits[1:] != bits[:-1]))


def seeded(array: Array) -> Array:
    """The small integers that an array of this shape may be replaced by, and that are said by their seed."""
    return np.random.default_rng(0).integers(-3, 4, array.shape).astype(array.dtype)


def same(array: Array, other: Array) -> bool:
    """Equal bits."""
    return array.tobytes() == other.tobytes()


def number(value: np.floating) -> str:
    """The shortest text that reads back as the same float32 or float64; an integer where that does."""
    if not np.isfinite(value):
        return f"float('{value}')"
    text = str(value)
    return text.removesuffix(".0") if text != "-0.0" else text


def nested(array: Array) -> str:
    """The numbers in brackets."""
    if array.ndim == 1:
        return "[" + ", ".join(number(value) for value in array) + "]"
    return "[" + ", ".join(nested(row) for row in array) + "]"


def hyper_text(hyper: CommonHyper) -> str:
    """The call that makes it; what is at its default is left out."""
    plain, name = type(hyper)(), type(hyper).__name__
    given = {field.name: getattr(hyper, field.name) for field in fields(hyper)}
    said = [f"{key}={value!r}" for key, value in given.items() if value != getattr(plain, key) or key == "freeze_step"]
    return f"{name}({', '.join(said)})"


def _runs(flat: Array) -> Iterator[tuple[str, int]]:
    """Numbers, each with how many times it comes one after another."""
    for text, run in groupby(map(number, flat)):
        yield text, sum(1 for _ in run)


def _joined(runs: list[tuple[str, int]]) -> str:
    """Runs as a sum of lists: ``[0] * 70 + [1, 2]``."""
    parts: list[str] = []
    for long, group in groupby(runs, key=lambda run: run[1] > 4):
        if long:
            parts += [f"[{text}] * {times}" for text, times in group]
        else:
            parts.append("[" + ", ".join(text for text, times in group for _ in range(times)) + "]")
    return " + ".join(parts)
