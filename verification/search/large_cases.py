"""Cases of an optimizer that no row of its space holds: D from 131073 on, pairs of levels that are too long for a row,
long sums that stand still, and a norm or a maximum of many that one element decides.
"""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import Any

import numpy as np

from verification.protocol import Traits
from verification.search.cases import Maker, OptimizerCase, anew
from verification.search.optimizer_cases import optimizer_case
from verification.search.optimizer_space import (
    LARGE,
    allowed_workers,
    an_edge,
    corner_rows,
    hyper_levels,
    large_rows,
    optimizer_space,
)
from verification.search.palettes import absorbing


def each_level(traits: Traits, *, can_save: bool, seed: int) -> list[Maker]:
    """Few cases of ``LARGE`` size that hold every level of every other feature that is not too long with it.

    The last ones, two for each form, have the first level of each, several workers and long blocks: extremes of the
    others may hide an error. In one of the two the last element is far above the others.
    """
    if not traits.compresses or not traits.takes_size(*LARGE):
        return []
    space = optimizer_space(traits, can_save=can_save)
    rows = list(large_rows(space, seed))
    plain = {name: levels[0] for name, levels in space.features.items()} | {"size": (LARGE[0], 2 * LARGE[0])}
    several = [level for level in space.features["workers"] if level[0] > 1]
    plain["workers"] = (several or space.features["workers"])[0]
    if "scale_block" in plain:
        plain["scale_block"] = space.features["scale_block"][-1]
    forms = space.features.get("compress", (None,))
    for form, gradients in product(forms, (plain["gradients"], "last spike")):
        row = plain | {"gradients": gradients} | ({} if form is None else {"compress": form})
        if gradients == "last spike" and len(space.features["edge"]) > 1:
            row |= {"size": (16385, 131072), "edge": an_edge(space, seed)}
            if None in space.features.get("scale_block", ()):
                row["scale_block"] = None  # one scale for all
        if not space.exclusion({**row, "size": LARGE}):
            rows.append((row, np.random.default_rng([seed, len(rows)])))
    return [partial(anew, optimizer_case, row, traits, rng) for row, rng in rows]


def corners(traits: Traits, *, can_save: bool, seed: int) -> list[Maker]:
    """Cases of the pairs of levels that are too long for any row: short in all else."""
    if not traits.compresses:
        return []
    rows = corner_rows(optimizer_space(traits, can_save=can_save), seed)
    return [partial(anew, optimizer_case, row, traits, rng) for row, rng in rows]


def long_sums(traits: Traits) -> list[OptimizerCase]:
    """Cases that no row holds: a long sum that stands still."""
    if not traits.compresses or not traits.takes_size(2**18):
        return []
    found = []
    levels, draw, rng = traits.checked_as.levels, traits.checked_as.draw, np.random.default_rng(0)
    hyper = {name: draw(name, level, 2**18, rng) for name, level in _plain(traits).items()}
    freeze = (traits.taken("freeze_step") or (1,))[0]
    dtype, n, steps = traits.numpy_dtype, allowed_workers(traits)[0], freeze + 1
    for scale in hyper_levels("scale", levels["scale"], traits):
        grads_TND = np.broadcast_to(absorbing(2**18, scale).astype(dtype), (steps, n, 2**18))
        case_hyper = traits.hyper(**{**hyper, "scale": scale, "freeze_step": freeze})
        found.append(OptimizerCase(np.zeros(2**18, dtype), grads_TND, n, case_hyper, ("step",) * steps))
    return found


def _plain(traits: Traits) -> dict[str, Any]:
    """The first level of each hyper-parameter, or the first that the class takes: one scale a message, if it can."""
    return {name: hyper_levels(name, values, traits)[0] for name, values in traits.checked_as.levels.items()}


LONE = 3.0
"""So many times larger than the others is the gradient of the element that decides."""


def lone_ratios(traits: Traits) -> list[OptimizerCase]:
    """Of 1-bit LAMB: large layers, in each of which one element has the largest ratio of v to v'.

    Drawn gradients put the ratio of many elements at its limits. Here all of them but one are alike, so v' stays v; of
    that one v falls. It stands at the begin of its layer, at the end of three, at an even and at an odd place.
    """
    if "max_ratio" not in traits.checked_as.levels:
        return []
    length, free = 2**15 + 8, traits.taken("layers") is None
    sizes = tuple(length + k for k in range(6)) if free else ()
    dim = sum(sizes) or length
    if not traits.takes_size(dim):
        return []
    begins = np.cumsum(sizes) - sizes
    lone = [0, *(begins[2:5] - 1), begins[4] + 12_346, begins[5] + 12_345] if free else [length - 1]
    rng, dtype, n = np.random.default_rng(0), traits.numpy_dtype, allowed_workers(traits)[0]
    freeze = (traits.taken("freeze_step") or (1,))[0]
    row_D = rng.choice([-1.0, 1.0], dim)
    row_D[lone] *= LONE
    grads_TND = np.broadcast_to(row_D.astype(dtype), (freeze + 3, n, dim))
    plain = _plain(traits)
    if (taken := traits.taken("beta2")) is None or 0.5 in taken:
        plain["beta2"] = 0.5
    hyper = traits.hyper(**{**plain, "layers": sizes, "freeze_step": freeze})
    params_D = rng.standard_normal(dim).astype(dtype)
    return [OptimizerCase(params_D, grads_TND, n, hyper, ("step",) * (freeze + 3))]


def lone_norms(traits: Traits) -> list[OptimizerCase]:
    """Of 1-bit LAMB: large layers of each remainder of 8, in which one element decides the norms of x, of u and of m.

    In drawn layers so large, one element more or less is lost in the rounding of a norm. It stands at the end of each
    layer, then at the begin, then at an odd place. By weight decay x is part of u.
    """
    if "max_trust" not in traits.checked_as.levels:
        return []
    free = traits.taken("layers") is None
    sizes = tuple(2**12 + k for k in range(8)) if free else ()
    dim = sum(sizes) or 2**12 + 1
    if not traits.takes_size(dim):
        return []
    ends = np.cumsum(sizes or (dim,))
    begins = np.r_[0, ends[:-1]]
    rng, dtype, n = np.random.default_rng(0), traits.numpy_dtype, allowed_workers(traits)[0]
    freeze = (traits.taken("freeze_step") or (3,))[0]
    plain = _plain(traits) | {"weight_decay": (traits.taken("weight_decay") or (0.1,))[-1]}
    hyper = traits.hyper(**{**plain, "layers": sizes, "freeze_step": freeze})
    found = []
    for lone in (ends - 1, begins, begins + 2_345):
        params_D, grads_TND = rng.standard_normal(dim), rng.standard_normal((freeze + 2, n, dim))
        params_D[lone], grads_TND[:, :, lone] = 2.0**9, 2.0**6  # the others' norms are some 2^6
        arrays = (params_D.astype(dtype), grads_TND.astype(dtype))
        found.append(OptimizerCase(*arrays, n, hyper, ("step",) * (freeze + 2)))
    return found
