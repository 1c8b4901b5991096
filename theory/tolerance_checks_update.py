"""The tolerances of Adam's step are what T11e, T11l and T11m give (see :mod:`theory.tolerance_checks`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from theory.evaluate import bound, evaluate
from theory.theorems.rounding_update import RATE, smallest
from theory.tolerance_checks import (
    FORMATS,
    Comparison,
    compose,
    correction_error,
    gamma,
    grid,
    moment_bounds,
    outward,
    scalar_error,
    second_bound,
    theorem,
)


def root_off(second: Any, relative: float, slip: Any, taking: float) -> Any:
    """T11m; nothing where v is exactly 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        value = bound(theorem("T11m"), second=second, second_error=relative, second_slip=slip, root_error=taking)
    return np.where((second == 0) & (slip == 0), 0.0, value)


def families(lr: float, decay: float, dtype: str, extra: int) -> list[dict[str, float]]:
    """The families of usual orders, by the inputs of T11e that tell them apart; ``extra`` steps of m."""
    names = ("keep", "stored_shrink", "decay_error", "point_steps", "moment_steps", "decay_steps", "point_spill",
             "decay_spill")  # fmt: skip
    if not decay:
        return [dict(zip(names, (1, 0, 0, 1, 3 + extra, 0, 0, 0), strict=True))]
    u, eta, shrink = 2.0 ** -FORMATS[dtype]["precision"], 2.0 ** -FORMATS[dtype]["least"], lr * decay
    of_lr = scalar_error(lr, dtype)
    both = compose(of_lr, scalar_error(decay, dtype))
    product = compose(both, gamma(1, dtype))
    off = u * abs(1 - shrink) + 4 * 2.0**-53 * (1 + shrink) + eta
    inside = compose(of_lr, gamma(3, dtype), lr)
    rows = (
        (1, shrink * (1 + both), shrink * both, 1, 4 + extra, 4, 0, 1 + inside),
        (1, shrink * (1 + product) + eta, shrink * product + eta, 2, 4 + extra, 2, 0, 1 + gamma(1, dtype)),
        (abs(1 - shrink) + off, 0, off, 2, 3 + extra, 0, 1 + gamma(1, dtype), 0),
    )
    return [dict(zip(names, row, strict=True)) for row in rows]


def update(
    x: Any,
    m: Any,
    v: Any,
    dtype: str,
    *,
    lr: float,
    eps: float,
    decay: float = 0.0,
    tau: Any = 0.0,
    slack: Any = 0.0,
    corrections: tuple[float, float] = (1.0, 1.0),
    errors: tuple[float, float] = (0.0, 0.0),
    divisions: int = 1,
    roots: int = 1,
) -> Any:
    """The largest of T11e's bounds for the usual orders, the error of lr P by T11l and that of the root by T11m."""
    form, eta = FORMATS[dtype], 2.0 ** -FORMATS[dtype]["least"]
    corrected = corrections != (1.0, 1.0) or errors != (0.0, 0.0)
    (b1, b2), of_lr, of_eps = corrections, scalar_error(lr, dtype), scalar_error(eps, dtype)
    second, slip = np.broadcast_arrays(v / b2, slack / b2)
    relative, taking, of_step = 0.0, gamma(roots, dtype), of_lr
    if corrected:
        relative = compose(errors[1] / (1 - errors[1]), gamma(1 + divisions, dtype))
        taking = gamma(roots + 1 + divisions, dtype)
        of_step = compose(of_lr, errors[0] / (1 - errors[0]), gamma(1 + divisions, dtype))
        slip = slip * (1 + relative) + eta * (second + slip > 0)
    step, root, quotient = lr / b1, np.sqrt(second), gamma(divisions, dtype)
    later = (1 + lr) / b1
    parts = {
        "precision": form["precision"], "learning_rate": step, "step_error": of_step, "root_exact": root, "offset": eps,
        "offset_error": of_eps,
        "root_tolerance": root_off(second, relative, slip, taking), "quotient_error": quotient,
    }  # fmt: skip
    size = 1 / evaluate(smallest, {row.symbol: parts[row.code] for row in RATE.variables if row.code in parts})
    of_rate = bound(theorem("T11l"), **parts, quotient_slip=eta * (later + corrected * size) * (1 + of_step))
    spill = (1 + compose(of_step, quotient, gamma(6, dtype))) * later * (1 + size)
    bounds = [
        bound(theorem("T11e"), **form, **family, point=x, moment=m, moment_tolerance=tau, rate=step / (root + eps),
              rate_error=of_rate, moment_spill=spill)
        for family in families(lr, decay, dtype, int(corrected))
    ]  # fmt: skip
    return np.maximum.reduce(bounds)


def updates() -> Iterator[Comparison]:
    """apply_tolerance, with and without decay, bias corrections, errors of m and v, and other hardware."""
    x, m, v = (
        axis.astype(np.float32)
        for axis in grid((1.0, -3e-42, 0.0, 7.5), (0.0, -0.75, 1e-3, 3e-42, 40.0), (1.0, 1e-9, 3e-40, 0.0))
    )
    settings: tuple[dict[str, Any], ...] = (
        {"lr": 1e-3, "eps": 1e-8},
        {"lr": 10.0, "eps": 1e-4, "weight_decay": 0.01},
        {"lr": 10.0, "eps": 0.1, "weight_decay": 0.5},
        {"lr": 1e-3, "eps": 1e-2, "weight_decay": 0.7, "corrections": (0.3, 0.2), "corrections_error": (1e-9, 3e-9)},
        {"lr": 0.5, "eps": 1e-3, "corrections": (0.3, 0.2), "division_roundings": 4, "sqrt_roundings": 3},
        {"lr": 8e-8, "eps": 1e-2, "corrections": (0.3, 0.2)},
        {"lr": 0.5, "eps": 1e-3, "corrections": (1.0, 0.2), "corrections_error": (1e-3, 2e-3)},
        {"lr": 0.5, "eps": 1e-3, "corrections": (0.2, 1.0)},
        {"lr": 0.5, "eps": 1e-3, "corrections": [1.0, 1.0], "corrections_error": [0.0, 0.0]},
        {"lr": 0.5, "eps": 1e-3, "corrections_error": (1e-3, 0.0)},
        {"lr": 0.5, "eps": 1e-3, "corrections_error": (0.0, 2e-3)},
        {"lr": 0.5, "eps": 1e-3, "weight_decay": 0.2, "division_roundings": 4, "sqrt_roundings": 2,
         "momentum_tolerance": -1e-3, "variance_tolerance": -1e-3},
        {"lr": 1e-3, "eps": 1e-2, "corrections": (0.3, 0.2), "variance_tolerance": 1e-12, "momentum_tolerance": 1e-6},
    )  # fmt: skip
    short = {"weight_decay": "decay", "corrections_error": "errors", "division_roundings": "divisions",
             "sqrt_roundings": "roots", "momentum_tolerance": "tau", "variance_tolerance": "slack"}  # fmt: skip
    for dtype in FORMATS:
        for given in settings:
            if dtype == "float16" and given["eps"] == 1e-8:
                continue  # stored as 0: its relative error is 1, and nothing is known
            own: dict[str, Any] = {short.get(name, name): tuple(value) if isinstance(value, list) else value
                   for name, value in given.items()}  # fmt: skip
            own |= {name: abs(own[name]) for name in ("tau", "slack") if name in own}
            yield Comparison("apply_tolerance", f"in {dtype} with {given}",
                             lambda r, t=dtype, g=given: r.apply_tolerance(x, m, v, dtype=t, **g),
                             update(x.astype(float), m.astype(float), v.astype(float), dtype, **own))  # fmt: skip
    one = update(np.float64(1.0), np.float64(1.0), np.float64(1.0), "float32", lr=0.5, eps=0.5)
    yield Comparison("apply_tolerance", "by default", lambda r: r.apply_tolerance(1.0, 1.0, 1.0, lr=0.5, eps=0.5), one)
    some = v > 0
    yield Comparison("apply_tolerance", "without eps",
                     lambda r: r.apply_tolerance(x[some], m[some], v[some], lr=1e-3, eps=0.0),
                     update(x[some].astype(float), m[some].astype(float), v[some].astype(float), "float32",
                            lr=1e-3, eps=0.0))  # fmt: skip
    for lr, decay, extra in ((0.5, 0.0, 0), (10.0, 0.01, 0), (10.0, 0.5, 1), (0.1, 0.25, 0), (8e-8, 0.25, 0)):
        yield Comparison("orders_of", f"lr = {lr}, decay = {decay}",
                         lambda r, a=lr, b=decay, c=bool(extra): r.orders_of(a, b, "float16", corrected=c),
                         [list(row.values()) for row in families(lr, decay, "float16", extra)], False)  # fmt: skip
    yield Comparison("apply_tolerance", "where the stored eps is 0, and v",
                     lambda r: r.apply_tolerance(1.0, 1.0, 0.0, lr=0.5, eps=1e-8, dtype="float16"), np.inf)  # fmt: skip
    for moment in (0.0, 1.0):
        yield Comparison("apply_tolerance", f"without eps, v known to within more than itself, m = {moment}",
                         lambda r, m=moment: r.apply_tolerance(1.0, m, 1e-12, lr=0.5, eps=0.0,
                                                               variance_tolerance=1e-6), np.inf)  # fmt: skip
    yield Comparison("divided_by", "errors", lambda r: [r.divided_by(error) for error in (0.0, 0.25, 1.0, 1.5)],
                     [0.0, 1 / 3, np.inf, np.inf], False)  # fmt: skip
    yield Comparison("apply_tolerance", "where v and eps are 0",
                     lambda r: r.apply_tolerance([1.0, 0.0], [1.0, 0.0], 0.0, lr=0.5, eps=0.0),
                     [np.inf, np.inf])  # fmt: skip
    v0 = np.zeros(2)
    vague = update(np.zeros(2), np.array([1e-8, 1e-7]), v0, "float32", lr=1e-3, eps=1e-8, slack=1e-12)
    yield Comparison("apply_tolerance", "where v is known to within more than eps squared",
                     lambda r: r.apply_tolerance([0.0, 0.0], [1e-8, 1e-7], v0, lr=1e-3, eps=1e-8,
                                                 variance_tolerance=1e-12), vague)  # fmt: skip


def steps() -> Iterator[Comparison]:
    """adam_step_tolerance: the tolerances of both moments enter that of the update."""
    x, m, v, g = grid((1.0, -3e-42), (0.5, -1e-3), (1.0, 1e-7), (0.25, -2e-3, 0.0))
    for dtype in FORMATS:
        for step, beta1, beta2, complement, decay, tau, formed_in in (
            (None, 0.9, 0.99, "rounded", 0.0, 0.0, "float64"),
            (3, 0.1, 0.999, "subtracted", 0.01, 1e-4, "float64"),
            (3, 0.9, 0.999, "rounded", 0.0, 0.0, "float32"),
        ):
            given: dict[str, Any] = {"lr": 0.5, "eps": 1e-2, "weight_decay": decay, "step": step, "dtype": dtype,
                                     "complement": complement, "grads_tolerance": tau, "beta1": beta1, "beta2": beta2,
                                     "correction_dtype": formed_in,
                                     "division_roundings": 2, "sqrt_roundings": 3}  # fmt: skip
            kinds = ((dtype, complement, tau), ("float64", "rounded", 0.0))
            of_m = [outward(moment_bounds(m, g, 0.0, beta1, *kind)["any"]) for kind in kinds]
            of_v = [outward(second_bound(v, g, beta2, *kind)) for kind in kinds]
            corrections, errors = (1.0, 1.0), (0.0, 0.0)
            if step is not None:
                corrections = (1 - beta1**step, 1 - beta2**step)
                errors = (correction_error(beta1, step, formed_in), correction_error(beta2, step, formed_in))
            expected = update(
                x, beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g * g, dtype, lr=0.5, eps=1e-2, decay=decay,
                tau=of_m[0] + of_m[1], slack=of_v[0] + of_v[1], corrections=corrections, errors=errors, divisions=2,
                roots=3,
            )  # fmt: skip
            yield Comparison(
                "adam_step_tolerance", f"in {dtype}, step {step}, corrections in {formed_in}",
                lambda r, k=given: np.stack(r.adam_step_tolerance(x, m, v, g, **k)),
                np.stack([outward(expected), of_m[0], of_v[0]]), False,
            )  # fmt: skip
    plain = {"lr": 0.5, "beta1": 0.5, "beta2": 0.5, "eps": 0.5}
    one = np.float64(1.0)
    of_m = [outward(moment_bounds(one, one, 0.0, 0.5, name, "rounded", 0.0)["any"]) for name in ("float32", "float64")]
    of_v = [outward(second_bound(one, one, 0.5, name, "rounded", 0.0)) for name in ("float32", "float64")]
    expected = update(one, one, one, "float32", lr=0.5, eps=0.5, tau=sum(of_m), slack=sum(of_v))
    yield Comparison("adam_step_tolerance", "by default",
                     lambda r: np.stack(r.adam_step_tolerance(1.0, 1.0, 1.0, 1.0, **plain)),
                     np.stack([outward(expected), of_m[0], of_v[0]]), False)  # fmt: skip
