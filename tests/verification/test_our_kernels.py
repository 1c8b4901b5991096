"""The kernels of ``gpu_impl`` under the whole harness, as anybody's would be."""

from __future__ import annotations

from dataclasses import replace

import pytest
from search_support import few

from verification.adapters.kernels import Kernels, TorchKernels
from verification.search.driver import Driver
from verification.search.search import search


@pytest.mark.long
@pytest.mark.parametrize(
    "kernels",
    [few(Kernels, (1, 2, 3)), *(pytest.param(one, marks=pytest.mark.soak) for one in (Kernels, TorchKernels))],
)
def test_kernels(kernels, brief):
    """Plain torch takes twice the time; tests/gpu_impl/test_kernels.py has the same tests for both."""
    result = search(Driver(kernels), profile=brief)
    assert [verdict for verdict in result.verdicts if verdict.outcome != "holds"] == []


@pytest.mark.soak
def test_a_kernel_with_a_bug_is_found(brief):
    """The adapter itself hides nothing: the floor doubled behind its back does not fit the v that it reports."""

    class DoubledFloor(Kernels):
        def start(self, params_D, n_workers, hyper):
            super().start(params_D, n_workers, hyper)
            floor = 2 * self.run.hyper.variance_floor
            object.__setattr__(self.run.hyper, "variance_floor", floor)

    result = search(Driver(DoubledFloor), profile=replace(brief, exact=0, simplifying=20), only=("optimizer.apply",))
    assert result.verdicts[0].outcome == "fails"
