"""T11e: one parameter update, and one full Adam step, in floating point."""

from __future__ import annotations

import numpy as np
import sympy as sp

from theory.notation import beta2, eps, lr, params, roundoff, weight_decay
from theory.rounding import adam_step_tolerance, apply_tolerance
from theory.symbolic import Rounder, inequality
from theory.theorem import Example, Link, Status, Theorem, WrongVariant

m, root, v = sp.symbols("m r v", positive=True)  # r = sqrt(v), taken as known
g = sp.Symbol("g", real=True)


def _denominator(fl: Rounder) -> sp.Expr:
    return fl("add eps", fl("sqrt", root) + fl("coef eps", eps))


def _bracket_form(fl: Rounder) -> sp.Expr:
    """x - lr (P m + lambda x), P the stored reciprocal: the order of the frozen stage."""
    update = fl("mul P", fl("reciprocal", 1 / _denominator(fl)) * m)
    decayed = fl("add decay", update + fl("mul decay", fl("coef decay", weight_decay) * params))
    return fl("sub", params - fl("mul lr", fl("coef lr", lr) * decayed))


def _decay_first_form(fl: Rounder) -> sp.Expr:
    """x (1 - lr lambda) - (lr/denominator) m: torch.optim.AdamW's order."""
    shrunk = fl("mul decay", params * fl("coef decay", 1 - lr * weight_decay))
    return fl("sub", shrunk - fl("mul lr", fl("coef lr", lr) * fl("divide", m / _denominator(fl))))


def proof() -> tuple[Link, ...]:
    """The factors of every term in both orders, the denominator's relative error, and the root of v'."""
    bracket, first, moment = Rounder(), Rounder(), Rounder()
    in_bracket, decay_first = _bracket_form(bracket), _decay_first_form(first)

    def stored_denominator(fl: Rounder) -> sp.Expr:
        return root * fl.factors(("sqrt", "add eps")) + eps * fl.factors(("coef eps", "add eps"))

    claimed_bracket = (
        params * bracket.factors(("sub",))
        - lr * m * bracket.factors(("coef lr", "mul lr", "reciprocal", "mul P", "add decay", "sub"))
        / stored_denominator(bracket)
        - lr * weight_decay * params
        * bracket.factors(("coef lr", "coef decay", "mul decay", "add decay", "mul lr", "sub"))
    )  # fmt: skip
    claimed_first = (
        params * (1 - lr * weight_decay) * first.factors(("coef decay", "mul decay", "sub"))
        - lr * m * first.factors(("coef lr", "mul lr", "divide", "sub")) / stored_denominator(first)
    )  # fmt: skip
    moved = moment("add", moment("mul v", moment("coef v", beta2) * v)
                   + moment("mul g", moment("square", g * g) * moment("coef g", 1 - beta2)))  # fmt: skip
    claimed_v = beta2 * v * moment.factors(("coef v", "mul v", "add")) + (1 - beta2) * g**2 * moment.factors(
        ("square", "coef g", "mul g", "add")
    )
    missing, left, e, part = sp.symbols("mu l e p", positive=True)
    true = missing + left  # the denominator, larger than its error
    return (
        Link("x - lr (P m + lambda x): each term's roundings", in_bracket, claimed_bracket),
        Link("x (1 - lr lambda) - lr m/denominator: each term's roundings", decay_first, claimed_first),
        Link("v' = beta2 v + (1-beta2) g^2: each term's roundings", moved, claimed_v),
        Link(
            "denominator off by mu: 1/(D - mu) - 1/D = (mu/D) / (D - mu)",
            1 / (true - missing) - 1 / true,
            missing / true / (true - missing),
        ),
        inequality("the other side is smaller", 1 / true - 1 / (true + missing), 1 / (true - missing) - 1 / true),
        inequality("sqrt(v + e) <= sqrt(v) + e/sqrt(v)", root**2 + e, (root + e / root) ** 2),
        inequality("sqrt(v - e) >= sqrt(v) - e/sqrt(v), v = e + p", part**2 / (e + part), part),
    )


def bound(
    *,
    params: float = 1.0,
    momentum: float = 1.0,
    variance: float = 1.0,
    lr: float = 1e-3,
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    dtype: str = "float32",
) -> float:
    """``theory.rounding.apply_tolerance`` at one coordinate."""
    return float(apply_tolerance(params, momentum, variance, lr=lr, eps=eps, weight_decay=weight_decay, dtype=dtype))


def measured_ratio(*, size: float, lr: float = 1e-3, count: int = 40_000, seed: int = 0) -> np.ndarray:
    """error/tolerance of a float32 update of parameters of magnitude ``size``; float64 oracle."""
    rng = np.random.default_rng(seed)
    x = (rng.standard_normal(count) * size).astype(np.float32)
    moment = rng.standard_normal(count).astype(np.float32)
    variance = (rng.standard_normal(count) ** 2).astype(np.float32)
    one = np.float32
    computed = x - one(lr) * (moment / (np.sqrt(variance) + one(1e-8)))
    wide = [array.astype(np.float64) for array in (x, moment, variance)]
    oracle = wide[0] - lr * (wide[1] / (np.sqrt(wide[2]) + 1e-8))
    tolerance = apply_tolerance(*wide, lr=lr, eps=1e-8) + apply_tolerance(*wide, lr=lr, eps=1e-8, dtype="float64")
    return np.abs(computed - oracle) / tolerance


def example() -> Example:
    """Parameters of size 1, where the final subtraction's rounding dominates."""
    return Example("worst of 40,000 float32 updates, lr = 1e-3", float(measured_ratio(size=1.0).max()), 1.0)


def _adam_error(claimed_momentum_error: bool) -> bool:
    """Large gradients: leaving the momentum's own error out of the parameters' tolerance is exceeded."""
    rng = np.random.default_rng(3)
    count = 20_000
    m, g = rng.standard_normal(count).astype(np.float32), np.empty(count, np.float32)
    g[:] = -9 * m * (1 + 1e-3 * rng.standard_normal(count))  # m' almost cancels, so its relative error is large
    v, x = np.full(count, 1e-4, np.float32), np.zeros(count, np.float32)
    one = np.float32
    new_m, new_v = one(0.9) * m + one(1 - 0.9) * g, one(0.999) * v + one(1 - 0.999) * (g * g)
    computed = x - one(1e-3) * (new_m / (np.sqrt(new_v) + one(1e-8)))
    wide = [array.astype(np.float64) for array in (x, m, v, g)]
    exact_m, exact_v = 0.9 * wide[1] + (1 - 0.9) * wide[3], 0.999 * wide[2] + (1 - 0.999) * wide[3] ** 2
    error = np.abs(computed - (wide[0] - 1e-3 * exact_m / (np.sqrt(exact_v) + 1e-8)))
    if claimed_momentum_error:
        full = adam_step_tolerance(*wide, lr=1e-3, beta1=0.9, beta2=0.999, eps=1e-8).params
        return bool((error <= full).all())
    alone = apply_tolerance(wide[0], exact_m, exact_v, lr=1e-3, eps=1e-8)
    return bool((error > alone).any())


def _wrong_denominator() -> bool:
    fl = Rounder()
    computed = _denominator(fl)
    return not Link("wrong", computed, root * fl.factors(("sqrt",)) + eps * fl.factors(("coef eps", "add eps"))).holds()


def _reciprocal_symmetric() -> bool:
    missing, left = sp.symbols("mu l", positive=True)
    true = missing + left
    return not inequality("wrong", 1 / (true - missing) - 1 / true, missing / true**2).holds()


_update = params - lr * (m / (sp.sqrt(v) + eps) + weight_decay * params)
_chain = 7 * roundoff / (1 - 7 * roundoff)

THEOREM = Theorem(
    id="T11e",
    title="Parameter update and Adam step in floating point",
    words="fl(x') differs from x' = x - lr (m/(sqrt v + eps) + lambda x) by at most gamma_1 abs(x) (final "
    "subtraction) plus the chain of coefficients, products and divisions of the update, plus the denominator's "
    "relative error, plus lr P times the error of m; for a whole Adam step the errors of m' and sqrt(v') enter there.",
    statement=(
        sp.Le(
            sp.Abs(sp.Symbol(r"\mathrm{fl}(x')") - _update.subs(weight_decay, 0)),
            roundoff / (1 - roundoff) * sp.Abs(params) + _chain * lr * sp.Abs(m) / (sp.sqrt(v) + eps),
        ),
    ),
    hypotheses=(
        "round to nearest with gradual underflow, no overflow; v >= 0 and sqrt(v) + eps > 0",
        "division and square root correctly rounded, or their error stated in units of u",
        "scalars (bias corrections, lr/b1, 1 - lr lambda) formed in float64 and rounded once",
    ),
    source="ours",
    status=Status.PROVED,
    proof=proof,
    bound=bound,
    example=example,
    numeric_checks={
        "with the momentum's error included, 20,000 cancelling steps are covered": lambda: _adam_error(True)
    },
    wrong_variants=(
        WrongVariant("the momentum's own error left out", lambda: _adam_error(False)),
        WrongVariant("sqrt(v) is free of the addition's rounding", _wrong_denominator),
        WrongVariant("an eighth of the constant", lambda: bool((measured_ratio(size=1.0) > 1 / 8).any())),
        WrongVariant("dividing by D - mu costs only mu/D^2", _reciprocal_symmetric),
    ),
    laws=("L3", "C5"),
    remarks="Implementations that form the bias corrections on tensors in float32 (capturable) commit more roundings "
    "than are counted here. The statement shows the case without decay and bias correction; theory.rounding has all.",
)
