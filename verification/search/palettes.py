"""What the numbers of a case look like: palettes that fill an array from a NumPy generator."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Palette = Callable[[np.random.Generator, tuple[int, ...]], Floats]


def integers(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """Small integers, zero among them: many ties."""
    return rng.integers(-3, 4, shape).astype(np.float64)


def gaussian(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """What gradients look like."""
    return rng.standard_normal(shape)


def spread(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """Magnitudes over seven decades."""
    return np.ldexp(rng.standard_normal(shape), rng.integers(-12, 12, shape))


def skewed(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """One sign most of the time: mean and bits far from balanced."""
    return np.abs(rng.standard_normal(shape)) - 0.2


def sparse(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """Mostly zeros of either sign."""
    values = rng.standard_normal(shape)
    values *= rng.random(shape) < 0.25
    return values


def one_idle_worker(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """The first worker's row is zero: it has nothing to say."""
    values = rng.standard_normal(shape)
    values[..., :1, :] = 0.0
    return values


def constant(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """One number, not 0, at all elements of a worker."""
    one = rng.choice([-1.0, 1.0], (*shape[:-1], 1)) * (0.5 + rng.random((*shape[:-1], 1)))
    return np.broadcast_to(one, shape).copy()


def one_spike(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """One element of a worker far above the rest: nearly sqrt(D) times the l2 scale."""
    return _faint_but(rng, shape, rng.integers(shape[-1], size=(*shape[:-1], 1)))


def last_spike(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """The same at the last element: what goes by words and vectors is done once more for what is left at the end."""
    return _faint_but(rng, shape, np.full((*shape[:-1], 1), shape[-1] - 1))


def _faint_but(rng: np.random.Generator, shape: tuple[int, ...], places: NDArray[np.int64]) -> Floats:
    values = rng.standard_normal(shape) * 2.0**-12
    sizes = 0.5 + rng.random(places.shape)  # so that those of a buffer and of its error do not cancel
    np.put_along_axis(values, places, sizes * rng.choice([-1.0, 1.0]), axis=-1)
    return values


def few(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """At most 8 numbers beside zeros, most of them at the end: their sum rounds little, however many elements."""
    values, count = np.zeros(shape), int(rng.integers(1, 9))
    back = np.minimum(rng.integers(1, 9, (*shape[:-1], count)), shape[-1])
    places = np.where(rng.random(back.shape) < 0.75, shape[-1] - back, rng.integers(shape[-1], size=back.shape))
    np.put_along_axis(values, places, rng.standard_normal(places.shape), axis=-1)
    return values


PALETTES: dict[str, Palette] = {
    "gaussian": gaussian,
    "integers": integers,
    "spread": spread,
    "skewed": skewed,
    "sparse": sparse,
    "one idle worker": one_idle_worker,
    "constant": constant,
    "last spike": last_spike,
}


def all_but_signs(rng: np.random.Generator, *arrays_ND: Floats) -> list[Floats]:
    """Each worker is the last one with signs of its own: all scales are equal, whatever the arithmetic."""
    signs_ND = rng.choice([-1.0, 1.0], arrays_ND[0].shape)
    return [signs_ND * array_ND[-1] for array_ND in arrays_ND]


def two_agree(rng: np.random.Generator, *arrays_ND: Floats) -> list[Floats]:
    """Two workers, any, have the same numbers."""
    same = np.arange(len(arrays_ND[0]))
    one, other = rng.permutation(same)[[0, -1]]
    same[one] = other
    return [array_ND[same] for array_ND in arrays_ND]


def all_agree(rng: np.random.Generator, *arrays_ND: Floats) -> list[Floats]:
    """All workers have the same numbers, so that a count of their votes is as large as it gets."""
    return [np.broadcast_to(array_ND[-1], array_ND.shape).copy() for array_ND in arrays_ND]


def all_but_one_agree(rng: np.random.Generator, *arrays_ND: Floats) -> list[Floats]:
    """All workers but one have the same numbers."""
    same = np.full(len(arrays_ND[0]), rng.integers(len(arrays_ND[0])))
    same[rng.integers(len(same))] = rng.integers(len(same))
    return [array_ND[same] for array_ND in arrays_ND]


ALIKE = {"equal scales": all_but_signs, "two workers agree": two_agree, "all workers agree": all_agree}
"""Of buffers and worker errors (N, D), those in which workers are alike."""


def factors(magnitude: str, rng: np.random.Generator, shape: tuple[int, ...], huge: float = 1e30) -> Floats:
    """What the numbers are multiplied by, so that they are of this magnitude; "mixed" is all of them in one array."""
    fixed = {"1": 1.0, "huge": huge, "tiny": 1e-30, "subnormal": 1e-40, "largest": 1.0}
    if magnitude in fixed:
        return np.full(shape, fixed[magnitude])
    return rng.choice([1.0, 1e-40, 1e-30, 1e-20, 1e-8], shape)


LARGEST = 0.53 * float(np.finfo(np.float32).max)
"""Two of these overflow float32 when they are added; in arrays of the magnitude "largest" there are up to two."""

TOP, TOP_SHARE = float(np.finfo(np.float32).max), 0.3
"""The largest float32 itself, which in so many of these arrays stands alone in place of two: it is finite [C8]."""

WARMEST = 0.95 * float(np.sqrt(np.finfo(np.float32).max))
"""The largest gradient of some warm-ups, most others near it: its square is finite, but the sum of v, of which the mean
for the floor is made, may overflow."""

HUGE = {"float32": 1e30, "float64": 1e200}
"""What the numbers of a collective's calls of the magnitude "huge" are multiplied by: squares overflow."""

MAGNITUDES = ("1", "huge", "tiny", "subnormal", "mixed")


def magnitudes(*, flushes: bool) -> tuple[str, ...]:
    """Those that a class can be asked for; a mixed array holds subnormal numbers too."""
    return ("1", "huge", "tiny") if flushes else MAGNITUDES


def absorbing(dim: int, scale: str) -> Floats:
    """One large number, then small ones, none of which float32 can add to it: a long sum stands still."""
    values = np.full(dim, 2.0**-25 if scale == "l1" else 2.0**-12.5)
    values[0] = 1.0
    return values
