"""The kernels of ``gpu_impl`` under the whole harness, as anybody's would be."""

from __future__ import annotations

from verification.adapters.kernels import Kernels, TorchKernels
from verification.driver import Driver
from verification.pytest_plugin import parametrize_with_properties
from verification.registry import all_properties
from verification.runner import run_all


@parametrize_with_properties(Kernels)
def test_cpu_kernels(check_property):
    check_property()


@parametrize_with_properties(TorchKernels)
def test_torch_kernels(check_property):
    check_property()


def test_a_kernel_with_a_bug_is_found():
    """The adapter itself hides nothing: the floor doubled behind its back does not fit the v that it reports."""

    class DoubledFloor(Kernels):
        def start(self, params_D, n_workers, hyper):
            super().start(params_D, n_workers, hyper)
            floor = 2 * self.run.hyper.variance_floor
            object.__setattr__(self.run.hyper, "variance_floor", floor)

    properties = [prop for prop in all_properties() if prop.id == "optimizer.variance_floor"]
    (verdict,) = run_all(Driver(DoubledFloor), properties, profile="quick", seed=0)
    assert verdict.outcome == "fails"
