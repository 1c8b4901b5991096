"""Gradients and parameters that are passed in are not modified or kept; a snapshot does not change afterwards."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from verification.cases import OptimizerCase
from verification.driver import Driver
from verification.finding import Finding
from verification.property import Property
from verification.protocol import ARRAYS
from verification.step_relation import same_bits
from verification.strategies import gaussian, integers, optimizer_cases


def check(driver: Driver, case: OptimizerCase) -> Iterable[Finding]:
    """Compare arguments before and after each call, then overwrite them; compare old snapshots after later steps."""
    n, dim = case.n_workers, case.dim
    undisturbed = [move.after for move in driver.transitions(case)]
    instance = driver.new()
    params_D = case.params_D.copy()
    driver.start_in_place(instance, params_D, n, case.hyper)
    if not same_bits(params_D, case.params_D):
        yield Finding("purity", "purity", "start modified params_D")
    params_D[:] = 7
    for t, grads_ND in enumerate(case.grads_TND, start=1):
        seen = driver.raw_snapshot(instance, n, dim)
        copies = {name: getattr(seen, name).copy() for name in ARRAYS}
        given_ND = grads_ND.copy()
        driver.step_in_place(instance, given_ND)
        if not same_bits(given_ND, grads_ND):
            yield Finding("purity", "purity", f"step {t} modified grads_ND")
            return
        given_ND[:] = 7
        expected, got = undisturbed[t - 1], driver.snapshot(instance, n, dim)
        for name in ARRAYS:
            if not same_bits(getattr(seen, name), copies[name]):
                yield Finding("purity", "purity", f"{name} of an older snapshot changed in step {t}")
                return
            if not same_bits(getattr(expected, name), getattr(got, name)):
                yield Finding("purity", "purity", f"{name} follows an argument overwritten after the call (step {t})")
                return


PROPERTY = Property(
    id="optimizer.purity",
    law="purity",
    title="Gradients and parameters passed in are not modified or kept; a snapshot does not change later.",
    catches="in-place clipping of the caller's gradient, parameters kept by reference, snapshots that are views",
    cases=partial(optimizer_cases, palettes=(gaussian, integers), compressed=(2,), warm_up=(1, 2)),
    check=check,
    cost=2,
)
