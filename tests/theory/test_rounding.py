"""The tolerances are never violated (exact oracle, every format, adversarial inputs) and none of them is vacuous."""

from __future__ import annotations

from fractions import Fraction
from functools import partial

import numpy as np
import pytest

from theory import rounding

FORMATS = ["float64", "float32", "bfloat16", "float16"]
NARROW = FORMATS[1:]


def samples(dtype: str, count: int, seed: int) -> np.ndarray:
    """Numbers of ``dtype``: Gaussian, all exponents down to subnormals, zeros, powers of two and their neighbours."""
    rng = np.random.default_rng(seed)
    precision, low = rounding.FORMATS[dtype]
    gaussian = rng.standard_normal(count)
    exponents = rng.integers(max(low - precision, -320), 8, count)
    spread = gaussian * 2.0**exponents
    edge = np.ldexp(1 + rng.integers(-2, 3, count) * 2.0**-precision, rng.integers(-6, 6, count))
    kind = rng.integers(0, 8, count)
    mixed = np.select([kind == 0, kind == 1, kind == 2], [spread, edge * rng.choice([-1, 1], count), 0.0], gaussian)
    return rounding.round_to(mixed, dtype)


def stored(value: float, dtype: str) -> float:
    return float(rounding.round_to(value, dtype))


def exactly(function, *arrays):
    """``function`` applied to Fractions, rounded once to float64 at the end."""
    return np.array([float(function(*(Fraction(float(x)) for x in row))) for row in zip(*arrays, strict=True)])


def within(error: np.ndarray, tolerance: np.ndarray, *, reach: float = 0.1) -> None:
    assert np.all(error <= tolerance), (error / np.where(tolerance > 0, tolerance, 1)).max()
    positive = tolerance > 0
    assert (error[positive] / tolerance[positive]).max() >= reach, "vacuous"


@pytest.mark.parametrize("dtype", FORMATS)
def test_round_to_agrees_with_the_hardware(dtype):
    values = np.random.default_rng(0).standard_normal(20_000) * 2.0 ** np.random.default_rng(1).integers(-30, 8, 20_000)
    if dtype == "bfloat16":
        torch = pytest.importorskip("torch")
        single = values.astype(np.float32)
        expected = torch.from_numpy(single).to(torch.bfloat16).double().numpy()
        np.testing.assert_array_equal(rounding.round_to(single.astype(np.float64), dtype), expected)
    else:
        np.testing.assert_array_equal(rounding.round_to(values, dtype), values.astype(dtype).astype(np.float64))


def test_constants():
    for dtype in ("float64", "float32", "float16"):
        info = np.finfo(dtype)
        assert rounding.unit_roundoff(dtype) == info.eps / 2
        assert rounding.smallest_subnormal(dtype) == info.smallest_subnormal
    assert rounding.unit_roundoff("bfloat16") == 2.0**-8
    with pytest.raises(ValueError, match="no bound for"):
        rounding.gamma(2**24, "float32")
    with pytest.raises(ValueError, match="unknown dtype"):
        rounding.unit_roundoff("int8")


@pytest.mark.parametrize("beta1", [0.0, 0.3, 0.5, 0.9, 0.999])
@pytest.mark.parametrize("dtype", NARROW)
def test_momentum_in_every_form(dtype, beta1):
    """A million inputs a format: plain, fused and lerp; float64 oracle plus its own tolerance."""
    m, g, e = (samples(dtype, 100_000, seed) for seed in (1, 2, 3))
    g[::7] = rounding.round_to(-beta1 / (1 - beta1) * m[::7], dtype)  # cancellation
    b, c = stored(beta1, dtype), stored(1 - beta1, dtype)
    nearest = lambda x: rounding.round_to(x, dtype)  # noqa: E731
    plain = nearest(nearest(b * m) + nearest(c * g))
    fused = nearest(nearest(b * m) + c * g)  # c*g is exact in float64
    gap = nearest(g - m)
    lerp = nearest(m + nearest(c * gap)) if beta1 > 0.5 else nearest(g - nearest(stored(1 - c, dtype) * gap))
    oracle = beta1 * m + (1 - beta1) * g + e
    wide = rounding.momentum_tolerance(m, g, e, beta1, "float64")
    for moment, form in ((plain, "product"), (fused, "product"), (lerp, "lerp")):
        computed = nearest(moment + e)
        within(np.abs(computed - oracle), rounding.momentum_tolerance(m, g, e, beta1, dtype, form=form) + wide)
        assert np.all(np.abs(computed - oracle) <= rounding.momentum_tolerance(m, g, e, beta1, dtype) + wide)
        sure = rounding.sign_is_determined(oracle, rounding.momentum_tolerance(m, g, e, beta1, dtype) + wide)
        np.testing.assert_array_equal((computed >= 0)[sure], (oracle >= 0)[sure])
        assert sure.mean() > 0.5


@pytest.mark.parametrize("beta1", [0.3, 0.9])
def test_momentum_in_float64_against_fractions(beta1):
    m, g, e = (samples("float64", 4_000, seed) for seed in (4, 5, 6))
    g[::5] = -beta1 / (1 - beta1) * m[::5]
    computed = (beta1 * m + (1 - beta1) * g) + e
    b = Fraction(beta1)
    error = exactly(lambda m, g, e, u: abs(b * m + (1 - b) * g + e - u), m, g, e, computed)
    within(error, rounding.momentum_tolerance(m, g, e, beta1, "float64"))


def test_one_minus_a_rounded_beta_needs_the_subtracted_complement():
    g = np.float32(1.0)
    computed = float((np.float32(1) - np.float32(0.999)) * g)
    error = abs(computed - (1 - 0.999))
    bound = partial(rounding.momentum_tolerance, 0.0, 1.0, 0.0, 0.999, "float32", form="product")
    assert bound() < error <= bound(complement="subtracted")


@pytest.mark.parametrize("kind", ["l1", "l2"])
@pytest.mark.parametrize("dtype", NARROW)
def test_scale_in_several_orders(kind, dtype):
    rng = np.random.default_rng(7)
    for dim in (1, 2, 3, 8, 100, 1000):
        u = rounding.round_to(rng.standard_normal((300, dim)) * 2.0 ** rng.integers(-12, 6, (300, 1)), dtype).astype(
            np.float32
        )
        terms = np.abs(u) if kind == "l1" else u * u
        wide = u.astype(np.float64)
        exact = np.abs(wide).mean(1) if kind == "l1" else np.sqrt((wide * wide).mean(1))
        sequential = np.add.accumulate(terms, axis=1)[:, -1]
        tree = terms
        while tree.shape[1] > 1:
            tree = np.pad(tree, ((0, 0), (0, tree.shape[1] % 2)))
            tree = tree[:, ::2] + tree[:, 1::2]
        for total, depth in ((sequential, dim - 1), (tree[:, 0], rounding.tree_depth(dim, 1)), (sequential, None)):
            mean = total / np.float32(dim)
            by_root = np.sqrt(total) * (np.float32(1) / np.sqrt(np.float32(dim)))
            for scale in [mean] if kind == "l1" else [np.sqrt(mean), by_root]:
                error = np.abs(rounding.round_to(scale, dtype) - exact)
                tolerance = rounding.scale_tolerance(wide, kind, dtype, depth)
                assert np.all(
                    error <= tolerance + rounding.scale_tolerance(wide, kind, "float64", accumulator="float64")
                )
                if dim == 3:
                    assert (error / tolerance).max() >= 0.1


def test_scale_of_tiny_inputs_and_of_none():
    u = np.full((1, 16), 1e-23, dtype=np.float32)
    computed = np.sqrt((u * u).mean(1, dtype=np.float32))
    assert abs(computed - u[0, 0]) <= rounding.scale_tolerance(u, "l2", "float32")
    assert rounding.scale_tolerance(np.zeros((2, 3)), "l2", "float32").tolist() == [0.0, 0.0]
    assert rounding.scale_tolerance(np.zeros((2, 0)), "l1", "float32").tolist() == [0.0, 0.0]
    with pytest.raises(ValueError, match="unknown scale"):
        rounding.scale_tolerance(np.ones(3), "l3", "float32")  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("kind", ["l1", "l2"])
@pytest.mark.parametrize(("count", "dim"), [(5, 10), (10, 20), (500, 1000), (1, 2)])
def test_scale_whose_mean_underflows_in_float64(kind, count, dim):
    """The mean rounds to 0 by a division and to eta by a rounded 1/d: both are right."""
    eta = rounding.smallest_subnormal("float64")
    u = np.array([count * eta] + [0.0] * (dim - 1))
    exact = Fraction(float(eta)) * count / dim
    shared = {"kind": kind, "dtype": "float64", "accumulator": "float64"}
    near = rounding.scale_tolerance(u, **shared), rounding.scale_tolerance(0 * u, **shared, u_tolerance=u)
    for computed in (np.abs(u).sum() * (1 / dim), np.abs(u).mean()) if kind == "l1" else (0.0, eta):
        assert abs(Fraction(float(computed)) - exact) <= Fraction(float(min(near)))


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: rounding.momentum_tolerance(1, 1, 1, 0.9, "float32", form="sum"), "unknown form 'sum'"),  # pyright: ignore[reportArgumentType]
        (lambda: rounding.momentum_tolerance(1, 1, 1, 0.9, "float32", complement="cut"), "unknown complement 'cut'"),  # pyright: ignore[reportArgumentType]
        (lambda: rounding.correction_error(0.9, 0), "step must be a whole number, 1 or more, got 0"),
        (lambda: rounding.tree_depth(1000, 0), "block must be a whole number"),
        (lambda: rounding.gamma(-1, "float32"), "k, a number of roundings, must be finite"),
    ],
)
def test_arguments_that_mean_nothing_are_refused(call, says):
    with pytest.raises(ValueError, match=says):
        call()


@pytest.mark.parametrize("kind", ["l1", "l2"])
def test_scale_moves_by_at_most_the_scale_of_the_perturbation(kind):
    rng = np.random.default_rng(8)
    u, wobble = rng.standard_normal((2_000, 5)), 10.0 ** rng.uniform(-8, 0, (2_000, 5))
    moved = u + wobble * rng.uniform(-1, 1, u.shape)
    scale = (lambda x: np.abs(x).mean(1)) if kind == "l1" else (lambda x: np.sqrt((x * x).mean(1)))
    tolerance = rounding.scale_tolerance(u, kind, "float64", accumulator="float64", u_tolerance=wobble)
    within(np.abs(scale(moved) - scale(u)), tolerance)


@pytest.mark.parametrize("dtype", NARROW)
def test_error_is_rounded_once(dtype):
    u, s = samples(dtype, 200_000, 9), np.abs(samples(dtype, 200_000, 10))
    computed = rounding.round_to(np.where(u >= 0, u - s, u + s), dtype)
    exact = np.where(u >= 0, u - s, u + s)
    fine = (
        np.abs(np.log2(np.maximum(np.abs(u), 1e-300)) - np.log2(np.maximum(s, 1e-300))) < 28
    )  # u - s exact in float64
    within(np.abs(computed - exact)[fine], rounding.error_tolerance(u, s, dtype)[fine])
    near = (np.abs(u) <= 2 * s) & (s <= 2 * np.abs(u))
    np.testing.assert_array_equal(computed[near], exact[near])


@pytest.mark.parametrize("dtype", NARROW)
def test_server_mean_before_and_after(dtype):
    rng = np.random.default_rng(11)
    reached = 0.0
    for n in (1, 2, 3, 5, 8, 64):
        scales = np.abs(samples(dtype, n, 12 + n))
        signs = rng.choice([-1.0, 1.0], (n, 5_000))
        server_error = samples(dtype, 5_000, 13)
        weight, total, before = stored(1 / n, dtype), np.zeros(5_000), np.zeros(5_000)
        for scale, sign in zip(scales, signs, strict=True):
            total = rounding.round_to(total + scale * sign, dtype)
            before = rounding.round_to(before + stored(weight * scale, dtype) * sign, dtype)
        exact = (scales[:, None] * signs).sum(0) / n + server_error
        tolerance = rounding.mean_tolerance(scales, server_error, dtype)
        allowed = tolerance + rounding.mean_tolerance(scales, server_error, "float64")
        for mean in (rounding.round_to(weight * total, dtype), rounding.round_to(total / n, dtype), before):
            error = np.abs(rounding.round_to(mean + server_error, dtype) - exact)
            assert np.all(error <= allowed)
            reached = max(reached, (error[tolerance > 0] / tolerance[tolerance > 0]).max())
    assert reached >= 0.1


def test_gradient_average():
    values = samples("float32", 8 * 4_000, 14).reshape(8, 4_000).astype(np.float32)
    computed = values.mean(0, dtype=np.float32)
    exact = exactly(lambda *row: sum(row) / 8, *values)
    within(
        np.abs(computed - exact),
        rounding.average_tolerance(values, "float32") + rounding.average_tolerance(values, "float64"),
    )


@pytest.mark.parametrize("weight_decay", [0.0, 0.01])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_apply_in_every_order(dtype, weight_decay):
    count, lr, eps = 100_000, 1e-3, 1e-8
    rng = np.random.default_rng(15)
    x, m = rounding.round_to(samples(dtype, count, 16) * 2.0**-10, dtype), samples(dtype, count, 17)
    v = rounding.round_to(samples("float32", count, 18) ** 2 + rng.choice([0.0, 1e-6], count), dtype)
    r = lambda value: rounding.round_to(value, dtype)  # noqa: E731
    one_lr, one_eps, one_decay = (stored(value, dtype) for value in (lr, eps, weight_decay))
    denominator = r(r(np.sqrt(v)) + one_eps)
    by_reciprocal, by_division = r(r(1 / denominator) * m), r(m / denominator)
    bracket = r(x - r(one_lr * r(by_reciprocal + r(one_decay * x))))
    adamw = r(r(x * stored(1 - lr * weight_decay, dtype)) - r(r(one_lr * m) / denominator))
    twice = r(r(x - r(one_lr * by_division)) - r(r(one_lr * one_decay) * x))
    exact = x - lr * (m / (np.sqrt(v) + eps) + weight_decay * x)
    settings = {"lr": lr, "eps": eps, "weight_decay": weight_decay}
    allowed = rounding.apply_tolerance(x, m, v, **settings, dtype=dtype) + rounding.apply_tolerance(
        x, m, v, **settings, dtype="float64"
    )
    for computed in (bracket, adamw, twice):
        within(np.abs(computed - exact), allowed)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("weight_decay", [0.0, 0.01])
def test_torch_adam_and_numpy_adam_agree_step_by_step(dtype, weight_decay):
    """Two implementations re-synchronised every step: abs(a - b) <= tolerance_a + tolerance_b, bias correction on."""
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(19)
    settings = {"lr": 1e-3, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8}
    x = rng.standard_normal(20_000).astype(dtype)
    parameter = torch.nn.Parameter(torch.from_numpy(x.copy()))
    optimizer = torch.optim.AdamW([parameter], lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=weight_decay)
    m, v = np.zeros_like(x), np.zeros_like(x)
    best = np.zeros(3)
    for step in range(1, 13):
        g = (rng.standard_normal(x.size) * 10.0 ** rng.integers(-6, 1, x.size)).astype(dtype)
        tolerance = rounding.adam_step_tolerance(
            x, m, v, g, **settings, weight_decay=weight_decay, step=step, dtype=dtype
        )
        parameter.grad = torch.from_numpy(g.copy())
        optimizer.step()
        new_m, new_v = 0.9 * m + (1 - 0.9) * g, 0.999 * v + (1 - 0.999) * (g * g)
        root = np.sqrt(new_v) / (1 - 0.999**step) ** 0.5
        new_x = x - 1e-3 * (new_m / (1 - 0.9**step) / (root + 1e-8) + weight_decay * x)
        assert new_x.dtype == np.dtype(dtype)
        state = optimizer.state[parameter]
        theirs = (parameter.detach().numpy(), state["exp_avg"].numpy(), state["exp_avg_sq"].numpy())
        for i, (mine, other, allowed) in enumerate(zip((new_x, new_m, new_v), theirs, tolerance, strict=True)):
            error = np.abs(mine.astype(np.float64) - other)
            assert np.all(error <= 2 * allowed)
            best[i] = max(best[i], (error[allowed > 0] / allowed[allowed > 0]).max())
        x, m, v = (array.copy() for array in theirs)
    if dtype == "float32":
        assert np.all(best >= 0.1), best


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_bias_corrections_by_products_and_by_pow(dtype):
    kind, best = np.dtype(dtype).type, 0.0
    for beta in (0.0, 0.1, 0.5, 0.9, 0.99, 0.999):
        product = kind(1)
        for step in range(1, 301):
            product = product * kind(beta)
            exact = 1 - Fraction(beta) ** step
            allowed = rounding.correction_error(beta, step, dtype)
            for computed in (kind(1) - product, kind(1) - kind(beta) ** kind(step)):
                error = float(abs(Fraction(float(computed)) - exact) / exact)
                assert error <= allowed
                best = max(best, error / allowed)
    assert best >= 0.1, "vacuous"


def test_counts_in_the_code_are_those_of_the_proofs():
    """With coefficients that are exact in the format, what is left is gamma_k with the k that T11 proves."""
    dtype, eta = "float16", rounding.smallest_subnormal("float16")
    g = lambda k: rounding.gamma(k, dtype)  # noqa: E731
    product = partial(rounding.momentum_tolerance, beta1=0.5, dtype=dtype, form="product")
    expected = {
        "u, momentum": (product(1.0, 0.0, 0.0), g(3) / 2 + eta),
        "u, gradient": (product(0.0, 1.0, 0.0), g(3) / 2 + eta),
        "u, error": (product(0.0, 0.0, 1.0), g(2)),
        "new error": (rounding.error_tolerance(1.0, 0.25, dtype), rounding.unit_roundoff(dtype) * 0.75),
        "server": (rounding.mean_tolerance([1.0] * 4, 1.0, dtype, 2), g(5) + g(2) + 4 * eta * (1 + g(5))),
        "params": (rounding.apply_tolerance(1.0, 0.0, 1.0, lr=0.5, eps=0.5, dtype=dtype), g(1)),
        "v": (rounding.variance_tolerance(1.0, 0.0, 0.5, dtype), g(2) / 2 + eta * (1 + g(3))),
    }
    for name, (value, count) in expected.items():
        assert float(value) == pytest.approx(count, rel=1e-9), name


SINGLE = np.float32


def test_lerp_from_the_momentum_at_a_small_beta():
    """m + (1-beta1)(g - m) rounds at the size of m, however little of m is left in the result."""
    m, g, beta1 = SINGLE(1.1113202571868896), SINGLE(7.74875559272914e-07), 0.1
    computed = m + SINGLE(1 - beta1) * (g - m)
    b = Fraction(beta1)
    [error] = exactly(lambda m, g, u: abs(b * m + (1 - b) * g - u), [m], [g], [computed])
    assert error > 1.3e-7
    assert rounding.momentum_tolerance(m, g, 0.0, beta1, "float32", form="product") < error
    for form in ("lerp", "any"):
        assert error <= rounding.momentum_tolerance(m, g, 0.0, beta1, "float32", form=form)


def test_the_error_may_be_added_to_the_gradient_first():
    """beta1 m + ((1-beta1) g + delta): each addition of something small rounds delta = 1 once."""
    beta1, delta = 0.9, SINGLE(1.0)
    m, g = SINGLE(0.51 * 2.0**-23 / beta1), SINGLE(0.51 * 2.0**-23 / (1 - beta1))
    computed = SINGLE(beta1) * m + (SINGLE(1 - beta1) * g + delta)
    b = Fraction(beta1)
    [error] = exactly(lambda m, g, u: abs(b * m + (1 - b) * g + 1 - u), [m], [g], [computed])
    assert 1.9 * rounding.gamma(1, "float32") < error <= rounding.momentum_tolerance(m, g, delta, beta1, "float32")


def test_a_server_mean_that_starts_at_the_server_error():
    """The server error is then rounded N times: with N = 64 the error is 60 times what one rounding of it allows."""
    n, total = 64, SINGLE(1.0)
    scale = SINGLE(0.51 * n * 2.0**-23)  # a sixty-fourth of it is rounded up to one unit in the last place
    for _ in range(n):
        total = total + SINGLE(1 / n) * scale
    error = float(total) - (1.0 + float(scale))
    bound = rounding.mean_tolerance(np.full(n, scale), 1.0, "float32")
    assert 60 * rounding.gamma(1, "float32") < error <= bound < 1.1 * error


def test_weight_decay_that_underflows_is_multiplied_by_the_learning_rate():
    """lr (lambda x): what lambda x loses to underflow comes back lr times as large."""
    lr, weight_decay, eta = 10.0, 0.01, rounding.smallest_subnormal("float32")
    x = np.arange(1, 400, dtype=np.float64) * eta
    single = x.astype(SINGLE)
    computed = single - SINGLE(lr) * (SINGLE(weight_decay) * single)
    error = np.abs(computed - (x - lr * (weight_decay * x)))
    bound = rounding.apply_tolerance(x, 0.0, 1.0, lr=lr, eps=1e-8, weight_decay=weight_decay)
    assert (error <= bound).all()
    assert error.max() > 4 * eta, "three eta would not do"


def test_the_apply_bound_is_finite_where_the_uncertainty_of_v_exceeds_eps():
    """v = 0, known only to within 1e-12, whose root is a hundred times eps: the denominator is still at least eps."""
    rng = np.random.default_rng(0)
    eps, lr, wobble = 1e-8, 1e-3, 1e-6
    m = rng.uniform(-1e-7, 1e-7, 10_000).astype(np.float32)
    bound = rounding.apply_tolerance(
        np.zeros_like(m), m, np.zeros_like(m), lr=lr, eps=eps, variance_tolerance=wobble**2, dtype="float32"
    )
    assert np.isfinite(bound).all()
    exact = -lr * m.astype(np.float64) / eps
    for root in (0.0, 1e-9, wobble):  # any root that the tolerance allows
        computed = -np.float32(lr) * (m / (np.float32(root) + np.float32(eps)))
        assert (np.abs(computed - exact) <= bound).all()
    assert (np.abs(-lr * m / (wobble + eps) - exact)[m != 0] >= bound[m != 0] / 200).all(), "and it is not vacuous"


@pytest.mark.parametrize("beta", [1e-310, 1e-308, 1e-320, 5e-324])
@pytest.mark.parametrize("value", [4.494232837155791e307, 3.6688568688310483e307, 1.7976931348623157e308])
def test_a_tiny_beta_times_a_huge_moment_is_bounded(beta, value):
    """In float64 a relative error times such a beta is 0: the moment comes first."""
    computed = Fraction(float(np.float64(beta) * np.float64(value) + np.float64(1 - beta) * 0.0))
    error = abs(computed - Fraction(beta) * Fraction(value))
    bounds = [rounding.variance_tolerance(value, 0.0, beta, "float64")]
    bounds += [rounding.momentum_tolerance(value, 0.0, 0.0, beta, "float64", form=form) for form in ("product", "any")]
    assert all(error <= Fraction(float(bound)) for bound in bounds)


def test_where_the_corrected_variance_is_beyond_float64_nothing_is_promised():
    given = {"lr": 1e-3, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "step": 2, "dtype": "float64"}
    bound = rounding.adam_step_tolerance(1.5e-308, 0.0, 2.25e307, 1.0, **given)
    assert bound.params == np.inf
    assert np.isfinite(bound.variance)


def test_a_tolerance_that_float64_can_not_hold_is_infinite():
    assert rounding.momentum_tolerance(1.7e308, -1.7e308, 0.0, 0.9, "float64") == np.inf
    assert np.isfinite(rounding.momentum_tolerance(1.7e308, -1.7e308, 0.0, 0.9, "float64", form="product"))
    assert rounding.mean_tolerance(np.full((4, 1), 1.7e308), 0.0, "float64") == np.inf
    assert rounding.variance_tolerance(1.0, 1e160, 1 - 2.0**-53, "float64") == np.inf


@pytest.mark.parametrize(("eps", "dtype"), [(0.0, "float32"), (0.0, "float64"), (1e-8, "float16")])
def test_nothing_is_promised_where_the_denominator_may_be_0(eps, dtype):
    """Not even of a coordinate without gradient: 0/0 is NaN."""
    assert rounding.apply_tolerance(1.0, 0.0, 0.0, lr=1e-3, eps=eps, dtype=dtype) == np.inf


def test_the_error_of_a_coefficient_is_rounded_up():
    beta = 5e-324
    assert Fraction(rounding.formats.coefficient_error(beta, "float64")[1]) >= Fraction(beta) / (1 - Fraction(beta))


@pytest.mark.parametrize(("corrections", "stored"), [((1.0, 1.0), (0.9, 1.0)), ((0.5, 0.5), (0.375, 0.5))])
def test_the_error_of_a_correction_is_that_of_a_divisor(corrections, stored):
    """Also of corrections that are 1: by b (1 - r) is divided, so 1/(1 - r) - 1 counts."""
    errors = tuple(abs(own - right) / right for own, right in zip(stored, corrections, strict=True))
    given = {"lr": 1.0, "eps": 0.0, "dtype": "float64", "corrections": corrections, "corrections_error": errors}
    bound = rounding.apply_tolerance(0.0, 1.0, 1.0, **given)
    exact, moved = ((1 / b1) / np.sqrt(1 / b2) for b1, b2 in (corrections, stored))
    assert abs(moved - exact) <= bound < 1.1 * abs(moved - exact)
