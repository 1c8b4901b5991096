"""One row of the kernel benchmark: every kernel of every backend, and the peers, at one D and one N."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass

import torch

from gpu_impl.benchmarks.byte_floor import PUBLISHED, byte_floor
from gpu_impl.benchmarks.contestants import contestants
from gpu_impl.benchmarks.form import Form
from gpu_impl.benchmarks.rungs import RUNGS
from gpu_impl.benchmarks.timing import time_interleaved


@dataclass(frozen=True)
class Row:
    """One measurement, as it stands in the CSV file.

    Attributes:
        dim: D.
        n_workers: N.
        grad_dtype: of the gradient; the parameters and the state are float32.
        kernel: see ``byte_floor.py``; peers stand under the kernel that they are compared with.
        backend: backend or peer.
        seconds: median; ``low`` and ``high`` are the 20 % and 80 % quantiles.
        floor_bytes: bytes an element that must move.
        spent_bytes: the time in bytes an element, at the bandwidth of in-place traffic in the same run, on our memory.
        ratio: spent_bytes / floor_bytes.
        gigabytes_per_second: floor_bytes moved, over the time.
        compress, scale_block, frozen_dtype: the form that ours are timed in; peers have none.
    """

    dim: int
    n_workers: int
    grad_dtype: str
    kernel: str
    backend: str
    seconds: float
    low: float
    high: float
    floor_bytes: float
    spent_bytes: float
    ratio: float
    gigabytes_per_second: float
    compress: str = "momentum"
    scale_block: int | None = None
    frozen_dtype: str = "float32"

    @property
    def form(self) -> Form:
        """As one value."""
        return Form(self.compress, self.scale_block, self.frozen_dtype)

    def as_dict(self) -> dict[str, object]:
        """Columns and values."""
        return asdict(self)


def measure(
    dim: int,
    n_workers: int,
    backends: Sequence[str],
    device: torch.device,
    *,
    grad_dtype: torch.dtype = torch.float32,
    rounds: int = 9,
    peers: bool = True,
    cpu_time: bool = False,
    form: Form = PUBLISHED,
) -> tuple[list[Row], dict[str, str]]:
    """All rows for one D and one N, timed interleaved; and who is missing ("kernel/backend"), with the reason.

    Raises:
        MemoryError: not even our own buffers fit.
    """
    with ExitStack() as stack:
        found = contestants(
            dim, n_workers, backends, device, grad_dtype=grad_dtype, peers=peers, stack=stack, form=form
        )
        samples = time_interleaved(found.calls, device, rounds, cpu_time=cpu_time)

    in_place = byte_floor("scale_in_place", n_workers) * dim / samples["scale_in_place/torch"].median
    rows = []
    for name, sample in samples.items():
        kernel, backend = name.split("/", 1)
        grad_bytes = 4 if backend.startswith("torch.optim") else grad_dtype.itemsize
        own_form = form if backend in RUNGS else PUBLISHED
        floor = byte_floor(kernel, n_workers, grad_bytes=grad_bytes, form=own_form)
        spent = sample.median * in_place / dim
        rows.append(
            Row(
                dim=dim,
                n_workers=n_workers,
                grad_dtype=str(grad_dtype).removeprefix("torch."),
                kernel=kernel,
                backend=backend,
                seconds=sample.median,
                low=sample.low,
                high=sample.high,
                floor_bytes=floor,
                spent_bytes=spent,
                ratio=spent / floor,
                gigabytes_per_second=floor * dim / sample.median / 1e9,
                **own_form.as_dict(),
            )
        )
    return rows, found.missing
