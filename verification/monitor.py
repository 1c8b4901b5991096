"""A runtime monitor: does a live run still conserve what it compressed away (L1), with equal replicas (L6)?

Every ``every`` steps each worker looks at the same few coordinates before and after its step, and sends one short
vector to whoever judges: ``5 sample + 1`` numbers, whatever the size of the model.

    monitor = Monitor(beta1=0.9, every=100)
    if monitor.due(step):
        seen = monitor.before(step, momentum_D, grad_D, worker_error_D, chunk, server_error_C)
        ...                                                            # the step
        report = monitor.after(seen, params_D, momentum_D, worker_error_D, server_error_C)
        findings = monitor.judge(all_gather(report))                   # (N, ...) on any rank

``chunk`` is the slice of coordinates that this worker serves, ``server_error_C`` its error there. ``judge`` needs no
reference and no second run: L1 is a certificate that is read off the state.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from theory import rounding
from verification.protocol import Array
from verification.relation.finding import Finding
from verification.relation.tolerances import combined, conservation_tolerance, message_tolerance, wide_slack

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Seen:
    """What one worker noted before a step, at the sampled coordinates ``at``."""

    at: NDArray[np.intp]
    u_S: Floats
    u_tolerance_S: Floats
    chunk: slice
    server_error_S: Floats


@dataclass(frozen=True)
class Monitor:
    """Checks L1 on ``sample`` random coordinates and L6 on all parameters, in compressed steps.

    Attributes:
        beta1: as in the optimizer.
        every: steps between two checks.
        sample: coordinates looked at; other ones every time.
        dtype: of the state.
    """

    beta1: float
    every: int = 100
    sample: int = 1024
    dtype: str = "float32"

    def due(self, step: int) -> bool:
        """Whether ``step`` is checked."""
        return step % self.every == 0

    def before(
        self,
        step: int,
        momentum_D: Array,
        grad_D: Array,
        worker_error_D: Array,
        chunk: slice,
        server_error_C: Array,
        preconditioner_D: Array | None = None,
    ) -> Seen:
        """Note the sampled coordinates; the same ones on every worker, for they follow from ``step``.

        In the update form [C12] ``momentum_D`` is y-bar, and ``preconditioner_D`` the P that the optimizer holds: L1
        holds with P g for g, which is known to one rounding, and to what an underflow before it may lose.
        """
        dim = momentum_D.size
        at = np.random.default_rng(step).choice(dim, min(self.sample, dim), replace=dim < self.sample)
        m, g, e = (np.asarray(array[at], np.float64) for array in (momentum_D, grad_D, worker_error_D))
        P = np.ones_like(g) if preconditioner_D is None else np.asarray(preconditioner_D[at], np.float64)
        g = P * g
        tolerance = combined(
            rounding.momentum_tolerance(
                m,
                g,
                e,
                self.beta1,
                dtype,
                grads_tolerance=0.0
                if preconditioner_D is None
                else rounding.gamma(1, dtype) * np.abs(g)
                + rounding.smallest_subnormal(dtype) * (1 + P / (1 - self.beta1)),
            )
            for dtype in (self.dtype, "float64")
        )
        return Seen(at, self.beta1 * m + (1 - self.beta1) * g + e, tolerance, chunk, _owned(at, chunk, server_error_C))

    def after(
        self, seen: Seen, params_D: Array, momentum_D: Array, worker_error_D: Array, server_error_C: Array
    ) -> Floats:
        """The worker's report: messages, their tolerances, server part, and a checksum of its parameters."""
        left_S = np.asarray(worker_error_D[seen.at], np.float64)
        messages_S = seen.u_S - left_S
        tolerances_S = message_tolerance(seen.u_tolerance_S, left_S, self.dtype) + wide_slack(seen.u_S, left_S)
        checksum = float(zlib.crc32(np.ascontiguousarray(params_D).view(np.uint8).data))
        server_S = _owned(seen.at, seen.chunk, server_error_C)
        output_S = np.asarray(momentum_D[seen.at], np.float64)
        return np.concatenate([messages_S, tolerances_S, seen.server_error_S, server_S, output_S, [checksum]])

    def judge(self, reports: Floats) -> list[Finding]:
        """Findings from the reports of all workers (N, 5 S + 1)."""
        reports = np.asarray(reports, np.float64)
        found = []
        if not (reports[:, -1] == reports[0, -1]).all():
            odd = int(np.argmax(reports[:, -1] != reports[0, -1]))
            found.append(Finding("L6", "monitor", f"worker {odd} has other parameters than worker 0"))
        messages, tolerances, old, new, outputs = np.split(reports[:, :-1], 5, axis=1)
        old_S, new_S, output_S = old.sum(axis=0), new.sum(axis=0), outputs[0]
        expected_S = messages.mean(axis=0) + old_S
        bound_S = conservation_tolerance(tolerances, messages, old_S, new_S, self.dtype)
        bound_S += wide_slack(output_S, new_S, np.abs(messages).mean(axis=0), old_S, operations=len(reports) + 4)
        with np.errstate(all="ignore"):
            wrong_S = ~(np.abs(output_S + new_S - expected_S) <= bound_S)
        if wrong_S.any():
            k = int(np.argmax(wrong_S))
            found.append(
                Finding(
                    "L1",
                    "monitor",
                    f"{wrong_S.sum()} of {wrong_S.size} sampled coordinates are not conserved; one is "
                    f"off by {abs(output_S[k] + new_S[k] - expected_S[k]):.3g}, tolerance {bound_S[k]:.3g}",
                )
            )
        return found


def _owned(at: NDArray[np.intp], chunk: slice, values_C: Array) -> Floats:
    """The values of the served chunk at the sampled coordinates, 0 at those of others."""
    values_S = np.zeros(at.size)
    inside = (at >= chunk.start) & (at < chunk.stop)
    values_S[inside] = values_C[at[inside] - chunk.start]
    return values_S


def measure(dim: int = 10**6, n_workers: int = 8, *, sample: int = 1024, repeats: int = 9) -> dict[str, float]:
    """Seconds of a compressed step of the NumPy reference, and of one check, a worker: medians."""
    from reference import OneBitAdam  # noqa: PLC0415 - a measurement, not part of the monitor
    from reference.allreduce import chunk_slices  # noqa: PLC0415

    rng = np.random.default_rng(0)
    optimizer, monitor = OneBitAdam(lr=1e-3, freeze_step=1), Monitor(0.9, every=1, sample=sample)
    state = optimizer.init(rng.standard_normal(dim).astype(np.float32), n_workers)
    grads_ND = rng.standard_normal((n_workers, dim)).astype(np.float32)
    state, chunks = optimizer.step(state, grads_ND), chunk_slices(dim, n_workers)
    steps, checks = [], []
    for t in range(2, 2 + repeats):
        start = perf_counter()
        seen = [
            monitor.before(
                t, state.momentum, grads_ND[i], state.worker_errors[i], chunks[i], state.server_error[chunks[i]]
            )
            for i in range(n_workers)
        ]
        noted = perf_counter()
        state = optimizer.step(state, grads_ND)
        stepped = perf_counter()
        reports = [
            monitor.after(seen[i], state.params, state.momentum, state.worker_errors[i], state.server_error[chunks[i]])
            for i in range(n_workers)
        ]
        assert monitor.judge(np.stack(reports)) == []
        steps.append((stepped - noted) / n_workers)
        checks.append((perf_counter() - stepped + noted - start) / n_workers)
    return {
        "step_seconds": float(np.median(steps)),
        "check_seconds": float(np.median(checks)),
        "bytes": 8 * (5 * sample + 1),
    }
