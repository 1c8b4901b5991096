"""T7e, T7j, T7m, T7n met by the reference: how large one-bit steps are for coordinates of very different size.

The theorems are on expectations. On a run the luck of its noise can be subtracted exactly: the proof of T7j holds on
every path if twice the sum of residual times gradient, over pull, d and T, is taken off the mean squared magnitude.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from reference import OneBitAdam, compressed_allreduce
from theory.evaluate import bound
from theory.theorems.one_bit_magnitude import MAGNITUDE_THEOREM, PERSISTENT
from theory.theorems.variance_floor import FLOORED_STEP, UPDATE_STEP, worst_adam_step

BETA1, SPREAD = 0.9, 2.0
ROUNDING = 1e-9  # relative: sums of some 1e6 float64 terms, each within 2^-53


@dataclass
class Run:
    """What a loop of compressed all-reduces showed."""

    square_D: np.ndarray  # mean square of the magnitude of each coordinate, over time
    luck: float  # what the noise of this run adds to it (T7j's proof, pathwise)
    flatness: float  # least mean magnitude over root mean square of what was compressed
    residual_D: np.ndarray  # beta1 momentum plus total error at the end
    mean_scale_D: np.ndarray  # mean over time of |m| of each coordinate
    mean_signal_D: np.ndarray

    @property
    def mean_square(self) -> float:
        """Over the coordinates too."""
        return float(self.square_D.mean())


def loop(signal_TND: Any, scale: str, *, steps: int, n: int, dim: int, servers: int | None = None) -> Run:
    """Momentum and two-sided error feedback of the reference, from no residual, on (N, D) signals."""
    errors_ND, server_D, momentum_D = np.zeros((n, dim)), np.zeros(dim), np.zeros(dim)
    cross, flatness, square_D, scale_D, signal_D = 0.0, 1.0, np.zeros(dim), np.zeros(dim), np.zeros(dim)
    for signal_ND in signal_TND:
        residual_D = BETA1 * momentum_D + errors_ND.mean(axis=0) + server_D
        cross += float(residual_D @ signal_ND.mean(axis=0)) / dim
        buffers_ND = BETA1 * momentum_D + (1 - BETA1) * signal_ND
        if n == 1:
            u_D = (buffers_ND + errors_ND)[0]
            flatness = min(flatness, float(np.abs(u_D).mean() / np.sqrt(np.mean(u_D**2))))
        reduced = compressed_allreduce(buffers_ND, errors_ND, server_D, scale=scale, server_chunks=servers)
        momentum_D, errors_ND, server_D = reduced.output_D, reduced.worker_errors_ND, reduced.server_error_D
        square_D += momentum_D**2 / steps
        scale_D += np.abs(momentum_D)
        signal_D += signal_ND.mean(axis=0)
    pull = 2 * (1.0 if scale == "l1" else flatness) - 1 + BETA1
    residual_D = BETA1 * momentum_D + errors_ND.mean(axis=0) + server_D
    return Run(
        square_D, 2 * cross / (pull * steps), flatness, residual_D, scale_D / steps, signal_D / steps
    )  # fmt: skip


def signs(rng: np.random.Generator, size_D: np.ndarray, n: int, steps: int) -> Any:
    """Fair signs times the sizes: noise whose squares don't vary."""
    for _ in range(steps):
        yield size_D * (2.0 * rng.integers(0, 2, (n, size_D.size)) - 1.0)


def uneven(rng: np.random.Generator, dim: int) -> np.ndarray:
    """Sizes exp(N(0, 4)), of root mean square 1."""
    size_D = np.exp(SPREAD * rng.standard_normal(dim))
    return size_D / np.sqrt(np.mean(size_D**2))


@pytest.mark.parametrize("dim", [8, 256, 1024])
@pytest.mark.parametrize("spread", [0.0, SPREAD])
def test_the_l1_magnitude_obeys_t7j_whatever_the_sizes(spread, dim):
    rng, steps = np.random.default_rng(0), 2000
    size_D = uneven(rng, dim) if spread else np.ones(dim)
    run = loop(signs(rng, size_D, 1, steps), "l1", steps=steps, n=1, dim=dim)
    largest = bound(MAGNITUDE_THEOREM, beta1=BETA1, n_steps=steps, strength=1.0, drift=0.0, start=0.0) ** 2
    assert run.mean_square - run.luck <= largest * (1 + ROUNDING)
    assert run.mean_square - run.luck + np.mean(run.residual_D**2) / (0.1 * 1.9 * steps) == pytest.approx(largest)
    assert run.mean_square > 0.25 * largest


@pytest.mark.parametrize("dim", [256, 1024])
def test_the_l2_magnitude_obeys_t7j_with_the_flatness_that_the_run_reports(dim):
    rng, steps = np.random.default_rng(0), 400
    run = loop(signs(rng, np.ones(dim), 1, steps), "l2", steps=steps, n=1, dim=dim)
    assert run.flatness > 0.6
    inputs = {"beta1": BETA1, "n_steps": steps, "flatness": run.flatness, "strength": 1.0}
    assert run.mean_square - run.luck <= bound(MAGNITUDE_THEOREM, **inputs) ** 2 * (1 + ROUNDING)


@pytest.mark.parametrize(("scale", "update"), [("l2", False), ("l2", True), ("l1", False), ("l1", True)])
def test_what_t7e_once_said_of_l2_is_false_where_sizes_differ(scale, update):
    """Independent noise of mean zero, sizes exp(N(0, 4)): l2 on momenta exceeds the noise value many times over."""
    rng, dim, steps = np.random.default_rng(1), 1024, 3000
    size_D = np.ones(dim) if update else uneven(rng, dim)
    magnitude = np.sqrt(loop(signs(rng, size_D, 1, steps), scale, steps=steps, n=1, dim=dim).mean_square)
    once_claimed = np.sqrt((1 - BETA1) / (1 + BETA1))
    if scale == "l2" and not update:
        assert magnitude > 3 * once_claimed
    else:
        assert 0.5 * once_claimed < magnitude < 1.25 * once_claimed


def test_two_sided_l1_stays_below_the_bound_of_one_side():
    """Measured, not proved: eight workers, a chunk each; M is that of the mean gradient."""
    rng, steps, n = np.random.default_rng(0), 1000, 8
    size_D = uneven(rng, 512)
    run = loop(signs(rng, size_D, n, steps), "l1", steps=steps, n=n, dim=512)
    assert run.mean_square <= bound(MAGNITUDE_THEOREM, beta1=BETA1, n_steps=steps, strength=1 / np.sqrt(n)) ** 2


@pytest.mark.parametrize(("scale", "servers", "floors"), [
    ("l1", 1, (0.8e-3, 1.2e-3)), ("l1", 8, (1.5e-3, 2.4e-3)), ("l2", 1, (3e-3, 4e-3)), ("l2", 8, (5e-3, 6.5e-3)),
])  # fmt: skip
def test_a_server_for_each_worker_needs_a_larger_floor(scale, servers, floors):
    """Measured, not proved: eight workers, all large gradients in the first chunk, where some coordinates are small."""
    rng, steps, n, dim = np.random.default_rng(0), 1000, 8, 512
    size_D = np.where(np.arange(dim) < dim // 8, 1.0, 1e-4)
    size_D[5::16] = 1e-7
    signals = (size_D * rng.standard_normal((n, dim)) for _ in range(steps))
    run = loop(signals, scale, steps=steps, n=n, dim=dim, servers=servers)
    mean_variance = np.mean(size_D**2) / n  # of the mean gradient
    least = run.square_D[5::16].max() / mean_variance / worst_adam_step(BETA1, 0.999) ** 2
    assert floors[0] < least < floors[1]


@pytest.mark.parametrize("scale", ["l1", "l2"])
def test_steps_under_the_floor_obey_t7e(scale):
    """The optimizer itself: coordinates at the floor move most, by the bound for the run's own flatness and start."""
    rng, dim, steps, kappa, lr = np.random.default_rng(2), 256, 1500, 1e-2, 1e-3
    size_D = uneven(rng, dim) if scale == "l1" else np.where(np.arange(dim) < 5, 1e-6, 1.0)
    optimizer = OneBitAdam(
        lr=lr, beta1=BETA1, beta2=0.99, freeze_step=1000, scale=scale, variance_floor=kappa, eps=1e-12
    )
    state = optimizer.init(np.zeros(dim), 1)
    warm_up = signs(rng, size_D, 1, 1000)
    for signal_ND in warm_up:
        state = optimizer.step(state, signal_ND)
    floor = state.variance.min()
    assert np.sum(state.variance == floor) >= 5
    start = float(np.sqrt(np.mean((BETA1 * state.momentum) ** 2)))
    moves_D, cross, flatness = np.zeros(dim), 0.0, 1.0
    for signal_ND in signs(rng, size_D, 1, steps):
        residual_D = BETA1 * state.momentum + state.total_error
        cross += float(np.mean(residual_D * signal_ND[0]))
        u_D = residual_D + (1 - BETA1) * signal_ND[0]
        flatness = min(flatness, float(np.abs(u_D).mean() / np.sqrt(np.mean(u_D**2))))
        before, state = state, optimizer.step(state, signal_ND)
        moves_D += (state.params - before.params) ** 2 / steps
    inputs = {"beta1": BETA1, "n_steps": steps, "strength": float(np.sqrt(np.mean(size_D**2))), "start": start}
    inputs["flatness"] = 1.0 if scale == "l1" else flatness
    luck = 2 * cross / ((2 * inputs["flatness"] - 1 + BETA1) * steps) * lr**2 / floor
    most = bound(FLOORED_STEP, lr=lr, variance_floor=kappa, mean_variance=floor / kappa, **inputs)
    assert (moves_D - luck <= most**2 * (1 + ROUNDING)).all()
    assert moves_D.max() > 0.25 * most**2
    assert moves_D.argmax() in np.flatnonzero(state.variance == floor)


@pytest.mark.parametrize("misjudged", [1.0, 1e-4])
def test_the_update_form_obeys_t7m_without_a_floor(misjudged):
    """P g is compressed. Where v was frozen too small for a coordinate, its share of the mean grows, and the bound."""
    rng, dim, steps = np.random.default_rng(3), 512, 2000
    size_D = uneven(rng, dim)
    variance_D = size_D**2
    variance_D[:4] *= misjudged
    preconditioner_D = 1 / (np.sqrt(variance_D) + 1e-12)
    updates = (preconditioner_D * signal_ND for signal_ND in signs(rng, size_D, 1, steps))
    run = loop(updates, "l1", steps=steps, n=1, dim=dim)
    inputs = {"lr": 1.0, "beta1": BETA1, "n_steps": steps, "variance_floor": 0.0, "live": dim}
    most = bound(UPDATE_STEP, second=list(size_D**2), variance=list(variance_D), **inputs) ** 2
    assert run.mean_square - run.luck <= most * (1 + ROUNDING)
    assert run.mean_square > (0.25 if misjudged == 1.0 else 0.01) * most
    assert np.sqrt(most) < worst_adam_step(0.9, 0.999)


@pytest.mark.parametrize("scale", ["l1", "l2"])
def test_the_magnitude_reaches_a_persistent_gradient(scale):
    """T7n with four workers and two-sided compression: one coordinate pulls steadily, its chunk's magnitude follows."""
    rng, dim, steps, n = np.random.default_rng(4), 256, 3000, 4
    drift_D = np.zeros(dim)
    drift_D[7] = 1.0
    signals = (drift_D + signal_ND for signal_ND in signs(rng, np.full(dim, 0.1), n, steps))
    run = loop(signals, scale, steps=steps, n=n, dim=dim)
    for k in (7, 8, 200):
        inputs = {"mean_gradient": run.mean_signal_D[k], "at_start": 0.0, "at_end": run.residual_D[k]}
        assert run.mean_scale_D[k] >= bound(PERSISTENT, beta1=BETA1, n_steps=steps, **inputs) - ROUNDING
    strength = np.sqrt(1 / dim + 0.1**2)  # root mean square of the gradients
    assert run.mean_scale_D[8] > 4 * strength  # in the same chunk
