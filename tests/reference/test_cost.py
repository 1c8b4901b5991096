"""Cost of the reference that does not depend on the clock: memory beyond the state, and the default floor's origin."""

from __future__ import annotations

import pytest

from reference.bench import measure_reference
from reference.optimizers.one_bit_adam import DEFAULT_VARIANCE_FLOOR
from theory.theorems.communication_volume import wire_bytes
from theory.theorems.variance_floor import variance_floor
from theory.tolerance_checks import gamma


@pytest.mark.parametrize("scale", ["l1", "l2"])
@pytest.mark.parametrize("n_workers", [4, 8])
def test_a_step_needs_less_than_one_temporary_of_all_workers(n_workers, scale):
    """The N momenta turn into the new errors in place; two N x D arrays beyond the state would be the limit."""
    cost = measure_reference(n_workers, dim=200_000, scale=scale, repeats=1)
    assert 0 < cost.temporaries < 1


@pytest.mark.parametrize(("n_workers", "dim"), [(8, 64_000), (64, 4096), (100, 801), (3, 17)])
def test_what_a_step_sends_is_t10d(n_workers, dim):
    """A bit for each element and a scale for each chunk that is not empty; bits are sent as whole bytes."""
    cost = measure_reference(n_workers, dim, repeats=1)
    formula, rounding = wire_bytes(8 * -(-dim // 8), n_workers, cost.chunks), gamma(8, "float64")
    assert cost.wire_bytes == pytest.approx(formula, rel=rounding)
    assert cost.scales == pytest.approx(2 * (n_workers - 1) / n_workers * cost.chunks, rel=rounding)


def test_a_worker_costs_the_same_whatever_the_number_of_workers():
    """At most twice the processor time a worker and element: N^2 small calls would take ten times as long here."""
    few, many = (measure_reference(n_workers, dim=20_000, repeats=5) for n_workers in (8, 512))
    assert many.nanoseconds <= 2 * few.nanoseconds


def test_the_default_variance_floor_is_the_one_that_theory_derives():
    """T7l at beta = (0.9, 0.999): compressed steps no larger than Adam's own worst step, for noise and the l1 scale."""
    assert float(f"{variance_floor(0.9, 0.999):.0e}") == DEFAULT_VARIANCE_FLOOR
