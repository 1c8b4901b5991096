"""The same run gives the same bits, also while another run goes on beside it."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from verification.cases import OptimizerCase
from verification.driver import Driver
from verification.finding import Finding
from verification.property import Property
from verification.resume_relation import same_state
from verification.strategies import gaussian, integers, optimizer_cases


def check(driver: Driver, case: OptimizerCase) -> Iterable[Finding]:
    """Run alone; then again, interleaved with a run along the negated gradients."""
    alone = [move.after for move in driver.transitions(case)]
    again = driver.start(case.params_D, case.n_workers, case.hyper)
    beside = driver.start(-case.params_D, case.n_workers, case.hyper)
    for grads_ND, expected in zip(case.grads_TND, alone, strict=True):
        driver.step(beside, -grads_ND)
        driver.step(again, grads_ND)
        got = driver.snapshot(again, case.n_workers, case.dim)
        for finding in same_state(expected, got, f"step {expected.step} of the same run, beside another one"):
            yield Finding("L9", "determinism", finding.message)
            return


PROPERTY = Property(
    id="optimizer.determinism",
    law="L9",
    title="The same run gives the same bits, also while another run goes on beside it.",
    catches="state kept on the class or the module, generators that are not seeded",
    cases=partial(optimizer_cases, palettes=(gaussian, integers), compressed=(2, 4), warm_up=(1, 2)),
    check=check,
    cost=2,
)
