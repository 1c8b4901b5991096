"""What each contestant of the network lab sends in a step, by the formulas of ``theory``: T10d, T10e and the ring's."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil

from gpu_impl.kernels.layout import ROW_ALIGNMENT
from gpu_impl.netlab.contestants import LAB, LONGEST, POWER_SGD_RANK, SCALE_BLOCK
from gpu_impl.netlab.layers import LAYERS, width_for
from gpu_impl.netlab.point import Point
from theory.theorems.communication_volume import wire_bytes
from theory.theorems.time_model import step_time

TOLERANCE = 0.03
"""Share by which the payload may differ from the formula: the aim that the lab was built for."""


COMPARED_BYTES = 24
"""To each other worker, before a step: the norm of the gradients, and checksums of settings and of what there is."""
PADDING = ROW_ALIGNMENT - 1
"""Bytes of a row at most."""


def formula_bytes(point: Point) -> float:
    """Bytes of a worker and step, mean over the workers, without any framing."""
    return FORMULAS[point.contestant](point.dim, point.n_workers)


def agrees(point: Point) -> bool:
    """Whether what was counted on the links is what the formula says, and the small things that are known beside it.

    These are the framing of gloo's messages and, with our optimizers, what the workers compare before a step, and how
    far a row may be padded: both matter where messages are small.
    """
    formula, others = formula_bytes(point), point.n_workers - 1
    ours = point.contestant == "warm-up" or point.contestant in COMPRESSED
    rows = 2 * others if point.contestant in COMPRESSED else 0
    data = point.payload_bytes - point.framing - ours * others * COMPARED_BYTES
    return are_the_formulas(data, formula, rows * PADDING)


def are_the_formulas(data: float, formula: float, padding: float) -> bool:
    """Whether bytes of ``data`` are those of the formula: up to TOLERANCE, and to the padding of their rows."""
    return (1 - TOLERANCE) * formula <= data <= (1 + TOLERANCE) * formula + padding


def all_reduce_bytes(numbers: int, n_workers: int, bits: float) -> float:
    """Of a ring over ``numbers`` numbers: the time of T10b at one byte a second, without computation."""
    return step_time(0.0, numbers, n_workers, bandwidth=1.0, bits=bits)


def _power_sgd(dim: int, n_workers: int) -> float:
    """Of each square matrix of width w, P and Q of (w, rank); biases as they are (Vogels et al. 2019)."""
    width = width_for(dim)
    return all_reduce_bytes(LAYERS * (2 * POWER_SGD_RANK + 1) * width, n_workers, 32)


def _one_scale_a_chunk(dim: int, n_workers: int) -> float:
    return wire_bytes(dim, n_workers, n_blocks=n_workers)


FORMULAS: dict[str, Callable[[int, int], float]] = {
    "ddp": lambda dim, n_workers: all_reduce_bytes(dim, n_workers, 32),
    "ddp-fp16": lambda dim, n_workers: all_reduce_bytes(dim, n_workers, 16),
    "ddp-bf16": lambda dim, n_workers: all_reduce_bytes(dim, n_workers, 16),
    "powersgd": _power_sgd,
    "warm-up": lambda dim, n_workers: all_reduce_bytes(dim, n_workers, 32),
    "1-bit": _one_scale_a_chunk,
    "1-bit-update": _one_scale_a_chunk,
    "1-bit-blocks": lambda dim, n_workers: wire_bytes(dim, n_workers, n_blocks=ceil(dim / SCALE_BLOCK)),
    "1-bit-hook": _one_scale_a_chunk,
    "1-bit-lamb": _one_scale_a_chunk,
    "0/1": lambda dim, n_workers: _one_scale_a_chunk(dim, n_workers) / LONGEST,
    "diloco": lambda dim, n_workers: all_reduce_bytes(dim, n_workers, 32) / LAB.sync_every,
}
"""By the names of ``gpu_impl.netlab.contestants.CONTESTANTS``."""

COMPRESSED = ("0/1", *(name for name in FORMULAS if name.startswith("1-bit")))
