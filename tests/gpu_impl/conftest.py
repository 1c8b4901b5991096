"""Triton runs under its interpreter where there is no CUDA device; that must be said before Triton is imported."""

import os

import pytest
import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"


@pytest.fixture
def no_hurry(monkeypatch):
    """The workers get a minute to answer once one has failed: on a busy machine they need more than a moment."""
    monkeypatch.setattr("gpu_impl.harness.worker_pool.GRACE", 60.0)


START = torch.Generator().manual_seed(0).get_state()


@pytest.fixture(autouse=True)
def patient_pools(monkeypatch):
    """A call, and a collective's wait for a rank, may take half an hour, as torch.distributed's own do.

    On a busy machine a test with a hundred checkpoints takes longer than the minute that they have otherwise.
    """
    from gpu_impl.harness.worker_pool import WorkerPool

    monkeypatch.setitem(WorkerPool.__init__.__kwdefaults__, "timeout", 1800.0)


@pytest.fixture(autouse=True)
def the_same_numbers(monkeypatch):
    """The workers that tests share draw the same random numbers, whatever was drawn in tests before."""
    from gpu_impl.harness.worker_pool import WorkerPool

    of = WorkerPool.of

    def seeded(n_workers):
        pool = of(n_workers)
        pool.call(torch.set_rng_state, START)
        return pool

    monkeypatch.setattr(WorkerPool, "of", seeded)
