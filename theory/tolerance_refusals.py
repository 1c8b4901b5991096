"""Calls of tolerances for which there is no bound: each must be refused (see :mod:`theory.tolerance_checks`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from theory.tolerance_checks import Comparison


def refusals() -> Iterator[Comparison]:
    """Calls for which there is no bound, by what the refusal must say."""
    rows: dict[str, dict[str, Callable[[Any], Any]]] = {
        "unknown dtype": {
            "float8": lambda r: r.unit_roundoff("float8"),
            "a list for a format": lambda r: r.unit_roundoff(["float32"]),
            "the format xx of corrections": lambda r: step_of(r, correction_dtype="xx"),
        },
        "unknown scale": {"the scale l3": lambda r: r.scale_tolerance([1.0], "l3", "float32")},
        "unknown form": {
            "the form sum": lambda r: r.momentum_tolerance(1.0, 1.0, 0.0, 0.9, "float32", form="sum"),
        },
        "unknown complement": {"the complement cut": lambda r: r.coefficient_error(0.9, "float32", "cut")},
        "beta must lie in [0, 1)": {
            f"beta = {value}": lambda r, v=value: r.coefficient_error(v, "float32") for value in (1.0, 1.5, -0.5)
        },
        "beta must be a number": {
            f"beta = {value!r}": lambda r, v=value: r.coefficient_error(v, "float32")
            for value in (False, "0.9", np.array([0.9]), np.nan)
        },
        "beta1 must be a number": {
            "an array for beta1": lambda r: r.momentum_tolerance(1.0, 1.0, 0.0, np.array([0.9]), "float32"),
            "an array for beta1 of a step": lambda r: step_of(r, beta1=np.array([0.9])),
        },
        "beta2 must be a number": {
            "an array for beta2": lambda r: r.variance_tolerance(1.0, 1.0, np.array([0.9]), "float32"),
            "an array for beta2 of a step": lambda r: step_of(r, beta2=np.array([0.9])),
        },
        "k, a number of roundings, must be finite and not negative": {
            "-1 roundings": lambda r: r.gamma(-1, "float32"),
            "infinitely many roundings": lambda r: r.gamma(np.inf, "float32"),
        },
        "k, a number of roundings, must be a number": {"NaN roundings": lambda r: r.gamma(np.nan, "float32")},
        "no bound for": {
            **{f"{k} roundings in bfloat16": lambda r, k=k: r.gamma(k, "bfloat16") for k in (256, 300, 600)},
            **{
                f"{k} additions of squares in bfloat16": lambda r, k=k: r.scale_tolerance(
                    [1.0], "l2", "float32", k, accumulator="bfloat16"
                )
                for k in (127, 140)
            },
        },
        "depth, a number of additions, must be a whole number, 0 or more": {
            "a depth of -1": lambda r: r.scale_tolerance([1.0], "l1", "float32", -1),
            "a depth of 2.5": lambda r: r.scale_tolerance([1.0] * 4, "l1", "float32", 2.5),
            "the mean with a depth of -1": lambda r: r.mean_tolerance([1.0], 0.0, "float32", -1),
        },
        "step must be a whole number, 1 or more": {
            "the step 0": lambda r: r.correction_error(0.9, 0),
            "the step 1.5": lambda r: r.correction_error(0.9, 1.5),
            "the step 0 of Adam": lambda r: step_of(r, step=0),
            "the step 1.5 of Adam": lambda r: step_of(r, step=1.5),
        },
        "step must be a number": {
            "a text for the step": lambda r: step_of(r, step="3"),
            "a step beyond float64": lambda r: r.correction_error(0.9, 10**400),
        },
        "arrays of float64 numbers are asked for": {
            "complex numbers": lambda r: r.scale_tolerance([1j], "l1", "float32"),
            "a number beyond float64": lambda r: r.momentum_tolerance([10**400], [1], [1], 0.9, "float32"),
        },
        "block must be a whole number, 1 or more": {"blocks of no terms": lambda r: r.tree_depth(5, 0)},
        "length must be a whole number, 0 or more": {
            f"{value} terms": lambda r, v=value: r.tree_depth(v, 4) for value in (-1, 2.5)
        },
        **{
            f"{name} must be {kind}": {
                f"{name} = {value}": lambda r, n=name, v=value: update_of(r, **{n: v}) for value in values
            }
            for name in ("lr", "eps", "weight_decay")
            for kind, values in {"finite": (-0.1, np.inf), "a number": (np.nan, np.array([0.1]))}.items()
        },
        "corrections must lie in (0, 1]": {
            f"corrections of {value}": lambda r, v=value: update_of(r, corrections=v)
            for value in ((0.0, 1.0), (1.0, 0.0), (1.5, 1.0), (1.0, 1.5))
        },
        "corrections must be a number": {"a correction of nan": lambda r: update_of(r, corrections=(1.0, np.nan))},
        "corrections must be two numbers": {
            f"corrections of {value}": lambda r, v=value: update_of(r, corrections=v)
            for value in ((1.0,), (1.0, 1.0, 1.0), 1.0)
        },
        "corrections_error must be finite": {
            f"corrections_error of {value}": lambda r, v=value: update_of(r, corrections_error=v)
            for value in ((-0.1, 0.0), (0.0, -0.1), (np.inf, 0.0))
        },
        "corrections_error must be two numbers": {
            f"corrections_error of {value}": lambda r, v=value: update_of(r, corrections_error=v)
            for value in ((0.0,), 0.0)
        },
        "u must be an array": {"a scale of one number": lambda r: r.scale_tolerance(1.0, "l1", "float32")},
        "scales_N must be an array": {"a mean of one number": lambda r: r.mean_tolerance(1.0, 0.0, "float32")},
        "values_ND must be an array": {"an average of one number": lambda r: r.average_tolerance(1.0, "float32")},
        "the length of scales_N must be a whole number, 1 or more": {
            "a mean over no workers": lambda r: r.mean_tolerance([], 0.0, "float32"),
        },
        "the length of values_ND must be a whole number, 1 or more": {
            "an average over no workers": lambda r: r.average_tolerance([], "float32"),
        },
        "signs must be +1 and -1": {
            f"the signs {value}": lambda r, v=value: r.error_tolerance([1.0], 1.0, "float32", signs=v)
            for value in (False, [0.0], [True], [2.0], [0.5])
        },
    }
    for says, calls in rows.items():
        for where, call in calls.items():
            yield Comparison("a tolerance", where, call, None, says=says)


def step_of(r: Any, **other: Any) -> Any:
    """adam_step_tolerance of ones, but for the arguments given."""
    given = {"lr": 0.5, "beta1": 0.5, "beta2": 0.5, "eps": 0.5} | other
    return r.adam_step_tolerance(1.0, 1.0, 1.0, 1.0, **given)


def update_of(r: Any, **other: Any) -> Any:
    """apply_tolerance of ones, but for the arguments given."""
    return r.apply_tolerance(1.0, 1.0, 1.0, **{"lr": 0.5, "eps": 0.5} | other)
