"""torchrun for the tests of all folders: what is dear to start is started once."""

from __future__ import annotations

import os
from collections import Counter

import pytest
from joblib import cpu_count


def pytest_xdist_auto_num_workers():
    """Three processes for two cores: a quarter of the time tests wait for processes of their own."""
    return max(1, cpu_count() * 3 // 2)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Of a test that is marked ``one_in(n)`` each n-th case runs in ``make test``, the others in ``make soak``.

    Those that are marked ``long`` begin first, so that nothing waits for one of them at the end.
    """
    cases = Counter()
    for item in items:
        if (mark := item.get_closest_marker("one_in")) is not None:
            name = item.nodeid.partition("[")[0]
            if cases[name] % mark.args[0]:
                item.add_marker(pytest.mark.soak)
            cases[name] += 1
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


@pytest.fixture(scope="session")
def launcher():
    """torchrun whose workers have ``gpu_impl`` imported, and nothing that a program might forget to import."""
    from gpu_impl.harness.launcher import Launcher

    with Launcher([], plain()) as one:
        yield one


@pytest.fixture(scope="session")
def trainers_launcher():
    """torchrun whose workers have the trainers' libraries imported."""
    from gpu_impl.harness.launcher import Launcher

    preload = ["gpu_impl.trainers.hugging_face", "gpu_impl.trainers.accelerate", "gpu_impl.trainers.lightning"]
    preload += ["transformers", "lightning.pytorch", "torch.distributed.checkpoint", "torch.distributed.fsdp"]
    with Launcher(preload, plain()) as one:
        yield one


def plain():
    """What a program's environment has beside this process's: nothing of Accelerate, of Triton's interpreter."""
    accelerate = {name: None for name in os.environ if name.startswith("ACCELERATE")}
    return accelerate | {"HF_HUB_OFFLINE": "1", "TRITON_INTERPRET": "0"}
