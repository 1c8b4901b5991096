"""Named arrays inside one flat parameter vector."""

from __future__ import annotations

import math

from reference.problems.base import Array


class Layout:
    """Where each named array lies in the last axis of a (..., D) buffer, in the order of ``shapes``.

    Attributes:
        shapes: name -> shape.
        dim: D, the sum of the sizes.
    """

    def __init__(self, shapes: dict[str, tuple[int, ...]]) -> None:
        self.shapes = shapes
        self.dim = sum(math.prod(shape) for shape in shapes.values())

    def views(self, buffer: Array) -> dict[str, Array]:
        """Views (..., *shape) into ``buffer`` (..., D): writing to one writes to the buffer."""
        result, start = {}, 0
        for name, shape in self.shapes.items():
            stop = start + math.prod(shape)
            result[name] = buffer[..., start:stop].reshape(*buffer.shape[:-1], *shape)
            start = stop
        return result
