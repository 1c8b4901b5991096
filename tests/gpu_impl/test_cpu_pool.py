"""The thread pool of the cpu backend: thread counts, simultaneous callers and a fork give the same bits."""

from __future__ import annotations

import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch.utils.data import DataLoader

from gpu_impl import OneBitAdam, get_backend
from gpu_impl.benchmarks.device_checks import make_share

CPU = torch.device("cpu")
DIM = 16 * 16384 + 3


@pytest.fixture
def expected():
    share = make_share(DIM, 3, CPU)
    share.run(get_backend("torch"))
    return share


def run(threads=2):
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        share = make_share(DIM, 3, CPU)
        share.run(get_backend("cpu"))
    finally:
        torch.set_num_threads(before)
    return share


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_threads(threads, expected):
    for _ in range(5):
        assert not run(threads).changed_from(run(1)), "the number of threads changes the result"
        assert not set(run(threads).changed_from(expected)) - {"message", "reply", "u_scale", "w_scale", "w"}


def test_callers_at_the_same_time(expected):
    with ThreadPoolExecutor(4) as pool:
        shares = list(pool.map(lambda _: run(), range(12)))
    for share in shares:
        assert torch.equal(share.u, expected.u)
        assert torch.equal(share.params, expected.params)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_fork(expected):
    """As a data loader does it. Only the kernels run in the child: torch's own operations may hang there."""
    kernels, parent, child = get_backend("cpu"), make_share(DIM, 3, CPU), make_share(DIM, 3, CPU)
    parent.run(kernels)  # the helpers exist
    child.u.share_memory_()
    pid = os.fork()
    if pid == 0:
        kernels.compress(child.grad, child.worker, child.exchange, child.step, beta1=0.9)
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    assert status == 0
    assert torch.equal(child.u, expected.u)


def ends(pid, seconds=1800):
    """Whether a child ends well; it is killed if it does not end."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return status == 0
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return False


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_fork_in_the_middle_of_a_kernel():
    """The child inherits locks and counts of helpers that it does not have."""
    kernels, share, busy = get_backend("cpu"), make_share(DIM, 3, CPU), make_share(DIM, 3, CPU)
    before, over = torch.get_num_threads(), threading.Event()
    torch.set_num_threads(2)

    def work():
        while not over.is_set():
            kernels.compress(busy.grad, busy.worker, busy.exchange, busy.step, beta1=0.9)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        for _ in range(30):
            pid = os.fork()
            if pid == 0:
                kernels.compress(share.grad, share.worker, share.exchange, share.step, beta1=0.9)
                os._exit(0)
            assert ends(pid)
    finally:
        over.set()
        thread.join()
        torch.set_num_threads(before)


def numbers(item):
    """A sample, after steps of an optimizer of the data worker's own."""
    param = torch.nn.Parameter(torch.ones(4 * 16384))
    optimizer = OneBitAdam([param], freeze_step=2)
    for _ in range(4):
        param.grad = torch.full_like(param, 1.0 + item)
        optimizer.step()
    return torch.tensor([float(item), float(param.detach().isfinite().all())])


class Items(torch.utils.data.Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, item):
        return numbers(item)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_data_loaders_fork_after_the_optimizer_was_used():
    """Each worker has one thread, as torch sets it; with more its own operations hang there, without any of ours."""
    param = torch.nn.Parameter(torch.ones(DIM))
    optimizer, seen = OneBitAdam([param], freeze_step=2), []
    for _ in range(3):
        loader = DataLoader(Items(), batch_size=4, num_workers=2, multiprocessing_context="fork", timeout=1800)
        for batch in loader:
            param.grad = torch.ones_like(param)
            optimizer.step()
            seen += batch.tolist()
    assert seen == 3 * [[float(item), 1.0] for item in range(8)]
    assert optimizer.stats().phase == "compressed"
