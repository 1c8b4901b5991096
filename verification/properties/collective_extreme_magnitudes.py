"""The round is right for huge, tiny and subnormal numbers, and for all of them in one buffer."""

from __future__ import annotations

from functools import partial

import numpy as np

from verification.compression_relation import CLAUSES
from verification.property import Property, collective_clauses
from verification.strategies import FEW_SIZES, FEW_WORKERS, Floats, collective_cases, gaussian


def times(factor: float, rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """Gaussian numbers times ``factor``."""
    return factor * gaussian(rng, shape)


def mixed(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """Magnitudes from float32's smallest subnormal to 1e30, side by side."""
    return rng.choice([-1.0, 1.0], shape) * 10.0 ** rng.uniform(-44, 30, shape)


def half_subnormal(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """Ordinary numbers, and subnormal ones whose sign still counts."""
    return gaussian(rng, shape) * np.where(rng.random(shape) < 0.5, 1.0, 1e-40)


PALETTES = (half_subnormal, partial(times, 1e30), partial(times, 1e-40), partial(times, 1e-30), mixed)

PROPERTY = Property(
    id="collective.extreme_magnitudes",
    law="C1, C2, L1",
    title="The round is right for huge, tiny and subnormal numbers, and for all of them in one buffer.",
    catches="squares that overflow, subnormal numbers taken for zero, guards such as max(scale, 1e-12)",
    cases=partial(collective_cases, palettes=PALETTES, workers=FEW_WORKERS, sizes=FEW_SIZES),
    check=collective_clauses(*CLAUSES),
)
