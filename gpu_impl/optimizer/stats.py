"""What a running optimizer can tell of itself."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from gpu_impl.optimizer.freeze import freeze_diagnosis
from gpu_impl.optimizer.run import Run


@dataclass(frozen=True)
class Stats:
    """How a run is doing; the numbers of this worker.

    Attributes:
        phase: "warm-up", "frozen" (the variance is, by the last step) or "compressed" (a step was, since then).
        step: applied steps t.
        skipped_steps: steps skipped because a gradient was not finite on some worker [C8].
        frozen_at: T_w, once the variance is frozen.
        freeze_diagnosis: when that will be, or what a rule waits for, in one sentence.
        bytes_sent: bytes that this worker has sent so far.
        bytes_last_step: of these, in the last step.
        worker_error_norm: norm of this worker's pending errors delta_i.
        server_error_norm: norm of the chunks of delta-bar that this worker serves.
        dead_coordinates: coordinates without variance at the freeze, which are never updated [C6]; padding not counted.
        ignored_gradients: how often a non-zero gradient of this worker arrived at one of them, or where v has
            overflowed.
    """

    phase: str
    step: int
    skipped_steps: int
    frozen_at: int | None
    freeze_diagnosis: str
    bytes_sent: int
    bytes_last_step: int
    worker_error_norm: float
    server_error_norm: float
    dead_coordinates: int
    ignored_gradients: int


def stats_of(run: Run) -> Stats:
    """The numbers as they are now. Waits for the device."""
    buckets = [bucket for _, bucket in run.pairs()]
    paused = [kept for bucket in buckets for kept in bucket.paused.values()]
    worker_errors = [bucket.worker_error_D() for bucket in buckets] + [kept["worker_error"] for kept in paused]
    server_errors = [bucket.server_error_C() for bucket in buckets] + [kept["server_error"] for kept in paused]
    return Stats(
        phase=str(run.phase),
        step=run.steps,
        skipped_steps=run.skipped_steps,
        frozen_at=run.frozen_at or None,
        freeze_diagnosis=freeze_diagnosis(run),
        bytes_sent=run.collectives.bytes_sent,
        bytes_last_step=run.collectives.bytes_sent - run.bytes_before,
        worker_error_norm=_norm(worker_errors),
        server_error_norm=_norm(server_errors),
        dead_coordinates=sum(bucket.dead for bucket in buckets if bucket.is_frozen),
        ignored_gradients=sum(int(bucket.worker.ignored) for bucket in buckets),
    )


def _norm(parts: list[Tensor]) -> float:
    return sum(float(part.double().square().sum()) for part in parts) ** 0.5
