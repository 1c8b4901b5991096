"""Inputs times 2^k give outputs times 2^k, bitwise; times -1 they give outputs times -1 where no sign is in doubt."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import numpy as np

from theory import rounding
from verification.cases import CollectiveCase
from verification.compression_relation import collective_round
from verification.driver import Driver
from verification.finding import Finding
from verification.property import Property
from verification.step_relation import same_bits
from verification.strategies import FEW_WORKERS, collective_cases, gaussian, integers, one_idle_worker, skewed

FACTORS = (2.0, 0.25, 2.0**20, 2.0**-20)


def check(driver: Driver, case: CollectiveCase) -> Iterable[Finding]:
    """Powers of two, within the range where float32 squares are normal; and -1."""
    inputs = case.rounds[0]
    outputs = driver.allreduce(driver.new(), inputs)
    relation = collective_round(driver.traits, inputs, outputs)
    w_D, tolerance_D = relation.server_input
    no_ties = bool(
        (relation.u_ND != 0).all() and rounding.sign_is_determined(w_D, tolerance_D).all() and (w_D != 0).all()
    )
    for factor in (*FACTORS, *((-1.0,) if no_ties else ())):
        scaled = driver.allreduce(driver.new(), tuple(array * array.dtype.type(factor) for array in inputs))  # pyright: ignore[reportArgumentType]
        for name, got, base in zip(("output", "worker errors", "server error"), scaled, outputs, strict=True):
            # adding 0 turns -0 into +0: a zero error has no sign worth comparing
            if not same_bits(got + base.dtype.type(0), base * base.dtype.type(factor) + base.dtype.type(0)):
                k = int(
                    np.argmax(
                        (got != base * base.dtype.type(factor)).any(axis=0) if got.ndim == 2 else got != base * factor
                    )
                )
                yield Finding(
                    "L7",
                    "scaling",
                    f"inputs times {factor:g}: the {name} is not {factor:g} times as large (element {k})",
                )
                return


PROPERTY = Property(
    id="collective.scaling",
    law="L7",
    title="Inputs times 2^k give outputs times 2^k, bitwise; and times -1 where no sign is in doubt.",
    catches="scales through logarithms or tables, fixed-point sums, rounding that depends on the magnitude",
    cases=partial(collective_cases, palettes=(gaussian, skewed, integers, one_idle_worker), workers=FEW_WORKERS),
    check=check,
    cost=2,
)
