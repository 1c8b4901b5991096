"""The scale from the partial sums: one program, in a fixed order, so that it repeats bitwise without atomics."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from gpu_impl.kernels.state import F32
from gpu_impl.kernels.step_scalars import StepScalars
from gpu_impl.kernels.triton_.elements import GRADIENT_FACTOR, LAYOUT
from gpu_impl.kernels.triton_.launch import launch

BLOCK, WARPS = 4096, 8


@triton.jit(do_not_specialize=LAYOUT)
def finish_scale(
    partials,
    ignored_partials,
    n_partials,
    live,
    n_counts,
    scale,
    rows,
    row_floats,
    stride_floats,
    n_rows,
    ignored,
    step,
    L1: tl.constexpr,
    COUNT_IGNORED: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """scale <- sqrt(sum/d) or sum/d, also into the last float of every row of the message; 0 if nothing is live."""
    factor = tl.load(step + GRADIENT_FACTOR)
    if factor != factor:  # noqa: PLR0124 - NaN: the step is skipped [C8]
        return
    lane = tl.arange(0, BLOCK)
    sums = tl.zeros([BLOCK], tl.float64)
    counts = tl.zeros([BLOCK], tl.int64)
    for i in range(0, n_partials, BLOCK):
        sums += tl.load(partials + i + lane, mask=i + lane < n_partials, other=0.0)
        if COUNT_IGNORED:
            counts += tl.load(ignored_partials + i + lane, mask=i + lane < n_partials, other=0)
    alive = tl.zeros([BLOCK], tl.int64)
    for i in range(0, n_counts, BLOCK):
        alive += tl.load(live + i + lane, mask=i + lane < n_counts, other=0)
    mean = tl.sum(sums, axis=0) / tl.maximum(tl.sum(alive, axis=0), 1).to(tl.float64)
    if not L1:
        mean = tl.sqrt(mean)
    result = mean.to(tl.float32)
    tl.store(scale, result)
    for i in range(0, n_rows, BLOCK):
        row = i + lane
        tl.store(rows + row.to(tl.int64) * stride_floats + row_floats - 1, result, mask=row < n_rows)
    if COUNT_IGNORED:
        tl.store(ignored, tl.load(ignored) + tl.sum(counts, axis=0))


def launch_finish_scale(
    partials: Tensor,
    counts: Tensor | None,
    live: Tensor,
    scale: Tensor,
    rows: Tensor,
    row_stride: int,
    ignored: Tensor | None,
    step: StepScalars,
    l1: bool,
) -> None:
    """The second half of compress (``counts`` and ``ignored`` given) and of server; ``rows`` is (n, row_bytes)."""
    launch(
        finish_scale,
        (1,),
        partials,
        counts,
        partials.shape[0],
        live,
        live.shape[0],
        scale,
        rows.view(F32),
        rows.shape[1] // 4,
        row_stride // 4,
        rows.shape[0],
        ignored,
        step.values,
        L1=l1,
        COUNT_IGNORED=counts is not None,
        BLOCK=BLOCK,
        num_warps=WARPS,
    )
