"""The numbers that the workers compare before each step: the gradient's norm, the settings, which gradients there are.

One small all-gather; a second one where not all workers have gradients for the same parameters. From it all workers
decide alike whether the step is skipped [C8], by which factor gradients are clipped [C9], and which parameters no
worker has a gradient for.
"""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from gpu_impl.optimizer.agreement import STEP, agree, facts_of, same_occasion
from gpu_impl.optimizer.collectives import ASKS
from gpu_impl.optimizer.run import PARAMS, Run
from gpu_impl.optimizer.settings import check_values

BITS = 52
"""Bits that a float64 holds as an integer, with one to spare."""

BEFORE, VALUES = 2, ("lr", "betas", "eps", "weight_decay")
"""In the list that is compared: two counts of parameters, and then of each group what a schedule may change."""


@dataclass
class Decision:
    """What all workers do in this step.

    Attributes:
        factor: what every worker multiplies its unscaled gradient with: NaN skips the step, < 1 clips. A float where
            the host knows it, else a float64 tensor () on the device.
        absent: numbers of the parameters that no worker has a gradient for.
        norms: of the workers' gradients, where the host knows them.
    """

    factor: Tensor | float
    absent: frozenset[int]
    norms: list[float] = field(default_factory=list)

    @property
    def is_applied(self) -> bool:
        """Whether the step is taken. Waits for the device if the host does not know."""
        return math.isfinite(self.factor)


class Numbers:
    """Asks and compares; remembers what was checked in earlier steps."""

    def __init__(self) -> None:
        self._values: list[Any] = []
        self._checksum = 0

    def check_values(self, run: Run) -> None:
        """Look at what a schedule may change, where it has.

        Raises:
            ValueError: a value is not allowed; nothing has been written.
        """
        values = _values_of(run)
        if _are_same(values, self._values):
            return
        for group in run.groups:
            check_values(group)
        self._values = values
        run.values_changed += 1
        # a tensor is on a GPU: nobody waits for it
        told = [run.number, *(0.0 if isinstance(value, Tensor) else as_python(value) for value in values)]
        self._checksum = zlib.crc32(repr(told).encode())

    def first_change(self, run: Run) -> str:
        """What has changed since :meth:`check_values`, as "lr of group 0"; "" if nothing has."""
        values = _values_of(run)
        if _are_same(values, self._values):
            return ""
        if values[:BEFORE] != self._values[:BEFORE]:
            return "the set of parameters"
        k = next(k for k in range(BEFORE, len(values)) if not _are_same(values[k : k + 1], self._values[k : k + 1]))
        k -= BEFORE
        return f"{VALUES[k % len(VALUES)]} of group {k // len(VALUES)}"

    def decide(
        self, run: Run, missing: set[int], unscale: Tensor | None, found_inf: Tensor | None, *, asks: bool = False
    ) -> Decision:
        """Exchange the numbers; ``missing`` are the parameters without gradient on this worker.

        Args:
            run: the run.
            missing: see above.
            unscale: 1/scale of this worker's gradients.
            found_inf: whether they overflowed.
            asks: compare everything first, for this worker has just begun, loaded a state or got a new group.

        Raises:
            WorkersDisagreeError: a learning rate or another setting differs between the workers.
        """
        if run.device.type == "cpu" or not run.is_settled or missing or asks:
            return self._on_host(run, missing, unscale, found_inf, asks)
        return self._on_device(run, unscale, found_inf)

    def _on_host(
        self, run: Run, missing: set[int], unscale: Tensor | None, found_inf: Tensor | None, asks: bool
    ) -> Decision:
        square = sum(parcel.square() for parcel in run.parcels)
        if unscale is not None:
            square *= float(unscale) ** 2
        if found_inf is not None and float(found_inf) > 0:
            square = math.nan
        if run.shards:
            square = float(over_shards(run, torch.tensor([square], dtype=torch.float64, device=run.device)))
        if run.collectives.n_workers == 1:
            return Decision(_factor(run, [square]), frozenset(missing), [math.sqrt(square)] if square >= 0 else [])
        own = [square, ASKS if asks else float(self._checksum ^ run.written), float(_checksum_of(missing))]
        rows = run.collectives.table(torch.tensor(own, dtype=torch.float64, device=run.device)).tolist()
        if any(row[1] == ASKS or row[1] != rows[0][1] for row in rows):
            same_occasion(run.collectives, STEP)
            agree(run.collectives, facts_of(run))
        absent, squares = frozenset(missing), [row[0] for row in rows]
        if any(row[2] != rows[0][2] for row in rows):
            own_masks = torch.tensor(_masks(run, missing), dtype=torch.float64, device=run.device)
            masks = run.collectives.table(own_masks).tolist()
            absent = frozenset(number for number in missing if not any(_has(row, number) for row in masks))
        return Decision(_factor(run, squares), absent, [math.sqrt(one) if one >= 0 else math.nan for one in squares])

    def _on_device(self, run: Run, unscale: Tensor | None, found_inf: Tensor | None) -> Decision:
        square = torch.zeros(1, dtype=torch.float64, device=run.device)
        for parcel in run.parcels:
            square += parcel.norm.to(run.device)
        if unscale is not None:
            square *= unscale * unscale
        if found_inf is not None:
            square += torch.where(found_inf > 0, float("nan"), 0.0)
        square = over_shards(run, square)
        others = torch.tensor([float(self._checksum), float(_checksum_of(set()))], dtype=torch.float64)
        table = run.collectives.table(torch.cat([square, others.to(run.device, non_blocking=True)]))
        squares, settings = table[:, 0], table[:, 1]
        run.settings_differ = run.settings_differ | (settings != settings[0]).any()  # told when the state is saved
        factor = torch.ones_like(squares[0])
        limit = run.settings.max_grad_norm
        if limit is not None:
            norm = squares.mean().sqrt()
            factor = torch.where(norm > limit, limit / norm, factor)
        return Decision(torch.where(torch.isfinite(squares).all(), factor, float("nan")), frozenset())


def _values_of(run: Run) -> list[Any]:
    """Copies: betas may be a list that a schedule writes to, and lr a tensor."""
    values: list[Any] = [run.n_taken, sum(map(len, map(PARAMS, run.groups)))]
    for group in run.groups:
        try:
            lr, betas, eps, weight_decay = map(group.__getitem__, VALUES)
        except KeyError as error:
            raise ValueError(f"a parameter group has no {error.args[0]} any more: put it back") from None
        is_here = isinstance(lr, Tensor) and lr.device.type == "cpu" and lr.numel() == 1
        values.append(lr.item() if is_here else lr)
        values += [tuple(betas) if isinstance(betas, list) else betas, eps, weight_decay]
    return values


def as_python(value: Any) -> Any:
    """Numbers of NumPy, which a schedule may have put there, as Python's, in lists and dicts too.

    Others can't be loaded safely, and one of float16 equals a float that it is not.
    """
    if type(value) is dict:
        return {name: as_python(one) for name, one in value.items()}
    if type(value) in (list, tuple):
        return type(value)(map(as_python, value))
    return value.item() if type(value).__module__ == "numpy" and getattr(value, "shape", None) == () else value


def _are_same(values: list[Any], before: list[Any]) -> bool:
    try:
        return values == before and _kinds_of(values) == _kinds_of(before)
    except (RuntimeError, ValueError):  # a tensor or an array of several numbers, where one should be
        return False


def _kinds_of(values: list[Any]) -> list[Any]:
    return [_kinds_of(list(value)) if isinstance(value, tuple) else type(value) for value in values]


def _factor(run: Run, squares: list[float]) -> float:
    if not all(map(math.isfinite, squares)):
        return math.nan
    limit = run.settings.max_grad_norm
    if limit is None:
        return 1.0
    norm = math.sqrt(sum(squares) / len(squares))
    return limit / norm if norm > limit else 1.0


def over_shards(run: Run, values: Tensor) -> Tensor:
    """The sum over the ranks that hold the other shards of a model."""
    for shards in run.shards:
        values = sum(shards.table(values), torch.zeros_like(values))  # in order: the same bits on every processor
    return values


def _checksum_of(missing: set[int]) -> int:
    return zlib.crc32(repr(sorted(missing)).encode())


def _masks(run: Run, missing: set[int]) -> list[float]:
    """One bit a parameter of the optimizer, 1 where this worker has a gradient or nobody ever will."""
    total = sum(len(group["params"]) for group in run.groups)
    masks = [2**BITS - 1] * -(-total // BITS)
    for number in missing:
        masks[number // BITS] &= ~(1 << number % BITS)
    return list(map(float, masks))


def _has(masks: list[float], number: int) -> bool:
    return bool(int(masks[number // BITS]) >> number % BITS & 1)
