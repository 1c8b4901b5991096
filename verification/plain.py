"""The plainest input of each level: to see whether a class can be driven at all."""

from __future__ import annotations

import numpy as np

from verification.cases import Case, CollectiveCase, OptimizerCase
from verification.protocol import Hyper, Traits
from verification.strategies import allowed_workers


def plain_case(level: str, traits: Traits) -> Case:
    """Two workers if there can be two, sixteen Gaussian elements; for an optimizer two steps, one compressed."""
    rng, dtype = np.random.default_rng(0), traits.numpy_dtype
    n, dim = allowed_workers(traits, (2,))[0], 16
    if level == "collective":
        shapes = ((n, dim), (n, dim), (dim,))
        inputs = tuple(rng.standard_normal(shape).astype(dtype) for shape in shapes)
        return CollectiveCase((inputs,))  # pyright: ignore[reportArgumentType]
    grads_TND = rng.standard_normal((2, n, dim)).astype(dtype)
    return OptimizerCase(np.ones(dim, dtype), grads_TND, Hyper(freeze_step=1, scale=traits.scale or "l2"))
