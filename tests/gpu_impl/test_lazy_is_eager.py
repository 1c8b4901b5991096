"""The lazy form by the kernels is the algorithm of docs/algorithm.md: bitwise, 300 steps, the freeze included."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from kernels_support import CUDA, HAS_TRITON, PAIRS, backend_on, backends, same

from gpu_impl.harness.simulation import Hyperparameters, Simulation
from reference import OneBitAdam


def gradients(seed, n_workers, dim, dead):
    rng = np.random.default_rng(seed)
    pull_D = rng.standard_normal(dim).astype(np.float32)
    while True:
        grads_ND = (pull_D + 3 * rng.standard_normal((n_workers, dim))).astype(np.float32)
        grads_ND[:, dead] = 0
        yield grads_ND


def compare(simulation, state):
    same(simulation.params, state.params)
    for kept, expected in (
        (simulation.momentum_D(), state.momentum),
        (simulation.worker_errors_ND(), state.worker_errors),
        (simulation.server_error_D(), state.server_error),
    ):
        # the sign of a zero is not kept: -0.0 marks dead coordinates
        same(kept.cpu().numpy() + np.float32(0), expected + np.float32(0))


def run(backend, device, dim, n_workers, steps, **hyper):
    dead = np.arange(dim) % 13 == 5
    optimizer = OneBitAdam(**hyper)
    rng = np.random.default_rng(0)
    x_D = rng.standard_normal(dim).astype(np.float32)
    state = optimizer.init(x_D, n_workers)
    simulation = Simulation(
        backend_on(backend, device), torch.from_numpy(x_D.copy()).to(device), n_workers, Hyperparameters(**hyper)
    )
    source = gradients(1, n_workers, dim, dead)
    for t in range(steps):
        grads_ND = next(source)
        if t == 7:
            grads_ND[-1, 0] = np.inf  # the step is skipped
        if t > hyper["freeze_step"]:
            grads_ND[0, dead] = t % 2  # arrives at dead coordinates: not applied
        state = optimizer.step(state, grads_ND)
        simulation.step([torch.from_numpy(g_D).to(device) for g_D in grads_ND])
        if t < 20 or t % 10 == 0 or t == steps - 1:
            compare(simulation, state)
    assert simulation.skipped_steps == state.skipped_steps == 1
    assert simulation.steps == state.step == steps - 1
    assert int(simulation.ignored[0]) == state.ignored_gradients > 0
    assert all(int(count) == 0 for count in simulation.ignored[1:])


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("backend", "device"), [pair for pair in PAIRS if pair in (("torch", "cpu"), ("cpu", "cpu"))])
@pytest.mark.parametrize("n_workers", [1, 2, 3, 8])
@pytest.mark.parametrize("scale", ["l1", "l2"])
def test_300_steps(backend, device, n_workers, scale):
    run(backend, device, 333, n_workers, 300, lr=1e-2, freeze_step=10, scale=scale)


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("backend", "device"), [pair for pair in PAIRS if pair in (("torch", "cpu"), ("cpu", "cpu"))])
@pytest.mark.parametrize("n_workers", [1, 2, 3, 8])
@pytest.mark.parametrize("scale", ["l1", "l2"])
def test_300_steps_in_the_update_form(backend, device, n_workers, scale):
    """With bias correction on two workers and decay on three; every 13th coordinate is dead."""
    hyper = {"bias_correction": n_workers == 2, "weight_decay": 0.1 * (n_workers == 3), "compress": "update"}
    run(backend, device, 333, n_workers, 300, lr=1e-2, freeze_step=10, scale=scale, **hyper)


@backends
@pytest.mark.parametrize("n_workers", [1, 3])
def test_bias_correction_and_decay(backend, device, n_workers):
    """Few steps, every option on; the interpreter is slow."""
    hyper = {"lr": 1e-2, "freeze_step": 9, "bias_correction": True, "weight_decay": 0.1, "variance_floor": 0.0}
    run(backend, device, 70, n_workers, 20, **hyper)


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("backend", "n_workers", "steps"), [("triton-v1", 2, 40), ("triton", 2, 40), ("triton", 1, 300)]
)
@pytest.mark.skipif(not HAS_TRITON, reason="Triton is not installed")
def test_many_steps_triton(backend, n_workers, steps):
    """300 steps on a GPU. The interpreter takes 40 ms a step and worker: 300 with one of them."""
    if CUDA:
        run(backend, "cuda", 40, n_workers, 300, lr=1e-2, freeze_step=10, scale="l2")
    else:
        run(backend, "cpu", 40, n_workers, steps, lr=1e-2, freeze_step=steps // 4, scale="l2")
