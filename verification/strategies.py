"""Hypothesis strategies for cases. What is drawn is small (sizes, a palette, a seed), so that it shrinks in few steps.

Arrays are made from the drawn palette and seed with NumPy; ``shrink.py`` then simplifies the arrays themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from verification.cases import CollectiveCase, OptimizerCase
from verification.protocol import Hyper, Traits

Floats = NDArray[np.float64]
Palette = Callable[[np.random.Generator, tuple[int, ...]], Floats]

WORKERS = (1, 2, 3, 4, 5, 8)
FEW_WORKERS = (1, 2, 3)
FEW_SIZES = (1, 2, 8, 9, 17, 33)
"""For properties about something else than sizes and numbers of workers."""

SIZES = (1, 2, 3, 7, 8, 9, 15, 16, 17, 23, 24, 25, 31, 33, 40, 63, 64, 65, 71, 100, 127, 128, 129, 200, 255, 256, 257)


def integers(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """Small integers, zero among them: many ties."""
    return rng.integers(-3, 4, shape).astype(np.float64)


def gaussian(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """What gradients look like."""
    return rng.standard_normal(shape)


def spread(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """Magnitudes over seven decades."""
    return rng.standard_normal(shape) * 2.0 ** rng.integers(-12, 12, shape)


def skewed(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """One sign most of the time: mean and bits far from balanced."""
    return np.abs(rng.standard_normal(shape)) - 0.2


def sparse(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """Mostly zeros of either sign."""
    zeros = np.where(rng.random(shape) < 0.5, 0.0, -0.0)
    return np.where(rng.random(shape) < 0.25, rng.standard_normal(shape), zeros)


def one_idle_worker(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """The first row is zero: a worker with nothing to say."""
    values = rng.standard_normal(shape)
    values[..., :1, :] = 0.0
    return values


PALETTES: tuple[Palette, ...] = (integers, gaussian, spread, skewed, sparse, one_idle_worker)


def allowed_workers(traits: Traits, workers: Sequence[int] = WORKERS) -> list[int]:
    """Worker counts that the class can be driven with."""
    if traits.workers is None:
        return list(workers)
    return [n for n in workers if n in traits.workers] or [min(traits.workers)]


@st.composite
def shapes(
    draw: st.DrawFn, traits: Traits, workers: Sequence[int] = WORKERS, sizes: Sequence[int] = SIZES
) -> tuple[int, int]:
    """(N, D): D from ``sizes``; where these are SIZES, also just beside a multiple of the chunks' unit N * multiple."""
    n = draw(st.sampled_from(allowed_workers(traits, workers)))
    if sizes is SIZES and draw(st.booleans()):
        unit = n * traits.chunk_multiple
        return n, max(1, unit * draw(st.integers(1, 2)) + draw(st.integers(-1, 1)))
    return n, draw(st.sampled_from(sizes))


@st.composite
def collective_cases(
    draw: st.DrawFn,
    traits: Traits,
    palettes: Sequence[Palette] = PALETTES,
    rounds: int = 1,
    workers: Sequence[int] = WORKERS,
    sizes: Sequence[int] = SIZES,
) -> CollectiveCase:
    """Calls with buffers and pending errors of the given palettes."""
    shape = draw(shapes(traits, workers, sizes))
    calls = []
    for _ in range(rounds):
        palette, pending = draw(st.sampled_from(palettes)), draw(st.booleans())
        rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
        calls.append(round_from(rng, shape, palette, traits, pending=pending))
        shape = shape if draw(st.booleans()) else draw(shapes(traits, workers, sizes))
    return CollectiveCase(tuple(calls))


def round_from(
    rng: np.random.Generator, shape: tuple[int, int], palette: Palette, traits: Traits, *, pending: bool
) -> Any:
    """(buffers, worker errors, server error); without ``pending`` errors, the first compressed step of a run."""
    arrays = [palette(rng, shape), palette(rng, shape) * pending, palette(rng, shape)[-1] * pending]
    if pending and palette is one_idle_worker:
        arrays[1] = gaussian(rng, shape)  # a worker without a gradient may still owe something
    if pending and palette is sparse:  # -0.0 + -0.0 is -0.0, x + -x is +0.0
        arrays[1] = np.where(rng.random(shape) < 0.3, -arrays[0], arrays[1])
    return tuple(array.astype(traits.numpy_dtype) for array in arrays)


@st.composite
def hypers(draw: st.DrawFn, traits: Traits, **fixed: Any) -> Hyper:
    """Hyper-parameters, the plain ones first; ``fixed`` ones are not drawn."""
    choices: dict[str, Sequence[Any]] = {
        "lr": (1e-3, 0.5, 1e-5),
        "beta1": (0.9, 0.5, 0.0, 0.99),
        "beta2": (0.999, 0.5, 0.9),
        "eps": (1e-8, 1e-3, 1.0),
        "weight_decay": (0.0, 0.0, 0.1),
        "freeze_step": (1, 2, 3, 5),
        "scale": ("l2", "l1") if traits.scale is None else (traits.scale,),
        "variance_floor": (0.0,),
        "bias_correction": (False,),
    }
    values = {name: fixed[name] if name in fixed else draw(st.sampled_from(some)) for name, some in choices.items()}
    return Hyper(**values)


@st.composite
def optimizer_cases(
    draw: st.DrawFn,
    traits: Traits,
    palettes: Sequence[Palette] = PALETTES,
    *,
    compressed: Sequence[int] = (3, 1, 6),
    warm_up: Sequence[int] = (1, 2, 3, 5),
    workers: Sequence[int] = WORKERS,
    sizes: Sequence[int] = SIZES,
    live: bool = True,
    **fixed: Any,
) -> OptimizerCase:
    """A run of T_w warm-up steps and some compressed ones; all coordinates ``live`` unless told otherwise."""
    n, dim = draw(shapes(traits, workers, sizes))
    hyper = draw(hypers(traits, **{"freeze_step": draw(st.sampled_from(warm_up)), **fixed}))
    steps = hyper.freeze_step + draw(st.sampled_from(compressed))
    palette, rng = draw(st.sampled_from(palettes)), np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    grads_TND = palette(rng, (steps, n, dim))
    if live:
        first = grads_TND[0]
        first[0] += np.where(np.abs(first.mean(axis=0)) < 0.05, 1.0, 0.0)  # so that v > 0 everywhere
    params_D = gaussian(rng, (dim,))
    return OptimizerCase(params_D.astype(traits.numpy_dtype), grads_TND.astype(traits.numpy_dtype), hyper)
