"""The update form, block scales and P in bfloat16: tolerances, clauses, exact runs, and what a class declares."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from search_support import transitions

from verification.adapters.reference import ReferenceCollectiveBlocks, ReferenceOptimizer
from verification.independent.optimizers import BlocksAlone, Published, to_bfloat16
from verification.monitor import Monitor
from verification.mutants.base_optimizer import BaseOptimizer
from verification.protocol import EXTENSIONS, Hyper, PublishedHyper, Traits
from verification.relation.parts import Parts
from verification.relation.preconditioner import Preconditioner, update_step_tolerance
from verification.relation.step import StepRelation
from verification.search.driver import Driver
from verification.search.dyadic import exact_run
from verification.search.optimizer_cases import exact_case
from verification.search.runs import check, follow

RNG = np.random.default_rng(0)
U = 2.0**-24
ONCE = (1.0, 0.0)


def gaussian(*shape):
    return (RNG.standard_normal(shape) * 2.0 ** RNG.integers(-8, 8, shape)).astype(np.float32)


def preconditioner(v, frozen_dtype="float32", frozen_at=None, eps=1e-8):
    return Preconditioner(v.astype(np.float64), eps, 0.999, frozen_at, frozen_dtype, "float32")


def root_of(v):
    """Exactly rounded square roots of float32 numbers, as NumPy's are."""
    return np.sqrt(v)


@pytest.mark.parametrize("frozen_at", [None, 7])
@pytest.mark.parametrize("eps", [1e-8, 1e-3])
def test_products_with_p_stay_within_their_bound_and_reach_a_tenth_of_it(frozen_at, eps):
    v, g = np.square(gaussian(20_000)), gaussian(20_000)
    b2 = np.float32(1.0 if frozen_at is None else 1 - 0.999**frozen_at)
    P = preconditioner(v, frozen_at=frozen_at, eps=eps)
    denominator = root_of(v / b2) + np.float32(eps)
    for product in (g / denominator, g * (np.float32(1) / denominator)):
        off = np.abs(product - P.value_D * g)
        bound = P.product_tolerance(g.astype(np.float64))
        assert (off <= bound).all()
        assert (off / bound).max() > 0.1
    weight = np.float32(0.25)
    for weighted in ((weight * g) / denominator, weight * (g / denominator)):
        bound = 0.25 * P.weighted_product_tolerance(g.astype(np.float64), 0.25, "float32") + U * np.abs(weighted)
        assert (np.abs(weighted - 0.25 * P.value_D * g) <= bound).all()


def test_a_gradient_that_underflows_before_p_is_covered():
    g, v = np.full(1, 1.5e-45, np.float32), np.full(1, 1e-12, np.float32)
    P = preconditioner(v)
    beta = np.float32(0.99)
    first = (np.float32(1) - beta) * g * (np.float32(1) / (root_of(v) + np.float32(1e-8)))
    exact = 0.01 * P.value_D * g.astype(np.float64)
    assert first == 0
    assert exact <= 0.01 * P.weighted_product_tolerance(g.astype(np.float64), 0.01, "float32")


def test_a_rounded_p_is_nearly_always_one_known_number():
    v, m = np.square(gaussian(20_000)) + np.float32(1e-6), gaussian(20_000)
    P = preconditioner(v, "bfloat16")
    held = to_bfloat16(np.float32(1) / (root_of(v) + np.float32(1e-8)))
    known = P.value_D == held
    assert known.mean() > 0.999
    x = gaussian(20_000)
    step = {"lr": 0.5, "weight_decay": 0.1, "correction": ONCE}
    bound = P.step_tolerance(x.astype(np.float64), m.astype(np.float64), **step)
    moved = x - np.float32(0.5) * (held * m + np.float32(0.1) * x)
    off = np.abs(moved - (x.astype(np.float64) - 0.5 * (P.value_D * m + 0.1 * x.astype(np.float64))))
    assert (off <= bound).all()
    assert (off / bound).max() > 0.1
    unrounded = x - np.float32(0.5) * (m / (root_of(v) + np.float32(1e-8)) + np.float32(0.1) * x)
    far = np.abs(unrounded - (x.astype(np.float64) - 0.5 * (P.value_D * m + 0.1 * x.astype(np.float64))))
    assert (far > bound).mean() > 0.9


def test_a_p_beside_a_midpoint_may_be_rounded_to_either_side():
    """1/(1 + 2^-7 ...) so that P is 1 - 2^-9 to a few roundings: both neighbours are within the bound."""
    middle = 1 - Fraction(1, 2**9)
    v = np.float64(1 / middle) ** 2 * np.ones(1)
    P = Preconditioner(v, 0.0, 0.999, None, "bfloat16", "float32")
    for end in (1.0, 1 - 2.0**-8):
        assert abs(end - P.value_D[0]) <= P.product_tolerance(np.ones(1))[0]


def test_the_step_of_the_update_form():
    x, y = gaussian(50_000), gaussian(50_000)
    step = {"lr": 0.3, "weight_decay": 0.1, "correction": (0.7, 2.0**-52)}
    bound = update_step_tolerance(x.astype(np.float64), y.astype(np.float64), dtype="float32", **step)
    exact = x.astype(np.float64) - 0.3 * (y.astype(np.float64) / 0.7 + 0.1 * x.astype(np.float64))
    off = np.abs(x - np.float32(0.3) * (y / np.float32(0.7) + np.float32(0.1) * x) - exact)
    assert (off <= bound).all()
    assert (off / bound).max() > 0.1


def test_parts_hold_the_live_elements_of_blocks():
    live_D = np.ones(50, bool)
    live_D[16:24] = live_D[3] = False
    chunks = Traits().chunks(50, 2)
    slices = [block for chunk in chunks for block in Traits.blocks(chunk, 16)]
    assert [(part.start, part.stop) for part in slices] == [(0, 16), (16, 32), (32, 48), (48, 50)]
    assert [(part.start, part.stop) for part in Traits.blocks(chunks[0], None)] == [(0, 32)]
    parts = Parts.of(slices, live_D)
    assert parts.lengths_K.tolist() == [15, 8, 16, 2]
    values_D = np.arange(50.0)
    assert parts.reduce(np.maximum, values_D).tolist() == [15, 31, 47, 49]
    assert parts.spread(np.array([1, 2, 3, 4]))[[0, 3, 16, 24, 49]].tolist() == [1, 0, 0, 2, 4]
    assert sum(elements.size for _, elements in parts.by_length()) == live_D.sum()
    whole = Parts.of(slices[:2], np.arange(32) >= 16)
    assert whole.numbers_K.tolist() == [1]


FAMILY = [
    {"compress": "update"},
    {"scale_block": 8},
    {"frozen_dtype": "bfloat16"},
    {"compress": "update", "scale_block": 16, "frozen_dtype": "bfloat16", "bias_correction": True},
]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("changes", FAMILY, ids=str)
@pytest.mark.parametrize("under_test", [BaseOptimizer, ReferenceOptimizer])
def test_every_array_of_a_snapshot_is_watched(under_test, changes):
    for relation in transitions(under_test, **changes):
        assert relation.findings() == []
        for name in ("params_ND", "momentum_D", "variance_D", "worker_errors_ND", "server_error_D"):
            for k in (0, 7, 40):
                array = getattr(relation.after, name).copy()
                array[..., k] += np.float32(1e-3)
                broken = replace(relation, after=replace(relation.after, **{name: array}))
                assert broken.findings(advises=False), (relation.t, name, k)


@pytest.mark.parametrize("changes", FAMILY, ids=str)
def test_a_step_in_another_form_is_found(changes):
    for relation in transitions(**changes)[2:]:
        for name in set(changes) - {"bias_correction"}:
            plain = replace(relation, hyper=replace(relation.hyper, **{name: getattr(PublishedHyper(), name)}))
            assert plain.findings(advises=False), name


def test_messages_name_the_block():
    relation = transitions(scale_block=8)[-1]
    errors_ND = relation.after.worker_errors_ND.copy()
    errors_ND[1, 8:16] *= np.float32(1.001)
    (found, *_) = replace(relation, after=replace(relation.after, worker_errors_ND=errors_ND)).findings()
    assert "worker 1 did not send one float32 magnitude in the block of elements 8 to 15" in found.message
    momentum_D = relation.after.momentum_D.copy()
    momentum_D[24:32] *= np.float32(1.001)
    found = replace(relation, after=replace(relation.after, momentum_D=momentum_D)).findings()
    assert any("chunk 1 in the block of elements 24 to 31 has the scale" in one.message for one in found)


def test_exact_runs_of_the_family_hold_with_zero_tolerance():
    """With P a power of two and blocks of whole chunks, no operation of a round rounds in the update form either."""
    seen = set()
    for seed in range(60):
        case = exact_case(Traits(extensions=EXTENSIONS), seed)
        if case is not None:
            for under_test in (BaseOptimizer, ReferenceOptimizer):
                assert list(check(Driver(under_test), case, set())) == []
            seen.add((case.hyper.compress, case.hyper.scale_block is not None, case.hyper.frozen_dtype))
    assert len(seen) == 8
    assert exact_run(Traits(), 1, Hyper(compress="update", beta1=0.5, freeze_step=1), 0) is None


def test_an_exact_run_finds_one_ulp_in_the_update_form():
    dyadic = {"beta1": 0.5, "beta2": 0.75, "eps": 0.0, "freeze_step": 1}
    hyper = Hyper(compress="update", scale="l1", scale_block=8, **dyadic)
    case = exact_run(Traits(), 1, hyper, 3)
    move = list(follow(Driver(BaseOptimizer), case, {"snapshots"}))[1]
    relation = StepRelation(move.before, move.grads_ND, move.after, hyper, Traits(), exact=True)
    assert relation.findings() == []
    for name in ("momentum_D", "worker_errors_ND", "server_error_D"):
        array = getattr(move.after, name).copy()
        array[..., 5] += np.maximum(np.spacing(np.abs(array[..., 5])), np.float32(2.0**-24))
        assert replace(relation, after=replace(move.after, **{name: array})).findings(), name


def test_a_class_without_extensions_never_hears_of_them():
    driver = Driver(Published)
    for seed in range(3):
        case = exact_case(driver.traits, seed)
        if case is not None:
            assert type(case.hyper) is PublishedHyper
            assert not set(EXTENSIONS) & set(vars(case.hyper))
            assert list(check(driver, case, set())) == []


def test_extensions_are_declared_in_words_that_are_checked():
    assert Traits.of(BlocksAlone).taken("scale_block") == (64,)
    assert Traits.of(BlocksAlone).taken("compress") == ("momentum",)
    assert Traits.of(ReferenceCollectiveBlocks).scale_block == 40
    for attributes, message in (
        ({"extensions": ("blocks",)}, "Mine.extensions must be some of compress, scale_block, frozen_dtype in a tuple"),
        ({"takes": {"compress": "update"}}, "Mine.takes has compress, so extensions must have it too"),
        ({"scale_block": 12}, "Mine.scale_block must be None or a multiple of 8, got 12"),
    ):
        with pytest.raises(ValueError, match=message):
            Traits.of(type("Mine", (), attributes))


@pytest.mark.parametrize("frozen_dtype", ["float32", "bfloat16"])
def test_the_monitor_reads_l1_off_the_update_form(frozen_dtype):
    relation = transitions(compress="update", frozen_dtype=frozen_dtype)[-1]
    before, after, monitor = relation.before, relation.after, Monitor(0.9, every=1)
    P_D = relation.preconditioner.value_D
    chunks = Traits().chunks(41, 2)

    def reports(preconditioner_D):
        found = []
        for i, chunk in enumerate(chunks):
            state = (before.momentum_D, relation.grads_ND[i], before.worker_errors_ND[i])
            seen = monitor.before(5, *state, chunk, before.server_error_D[chunk], preconditioner_D)
            ends = (after.params_ND[i], after.momentum_D, after.worker_errors_ND[i], after.server_error_D[chunk])
            found.append(monitor.after(seen, *ends))
        return monitor.judge(np.stack(found))

    assert reports(P_D.astype(np.float32)) == []
    assert "not conserved" in reports(None)[0].message
