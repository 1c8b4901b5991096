"""The step relation: exact where it says so, tight elsewhere, and each clause can fail."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from search_support import transitions

import reference
from verification.mutants.base_collective import BaseCollective
from verification.mutants.base_optimizer import BaseOptimizer
from verification.mutants.conditional import conditional
from verification.mutants.triggers import ALWAYS
from verification.protocol import Hyper, Traits
from verification.relation.collective import collective_round
from verification.relation.compression import CLAUSES
from verification.relation.movement import Known, moved
from verification.relation.step import CLAUSES as STEP_CLAUSES
from verification.relation.transition import same_bits
from verification.search.cases import OptimizerCase
from verification.search.clauses import CLAUSES as TABLE
from verification.search.collective_space import exact_case
from verification.search.driver import Driver
from verification.search.dyadic import exact_round, exact_run
from verification.search.runs import check, follow

L1, L2 = Traits(scale="l1"), Traits(scale="l2")


def gaussian_round(rng, n, dim):
    return tuple(rng.standard_normal(shape).astype(np.float32) for shape in ((n, dim), (n, dim), (dim,)))


@pytest.mark.parametrize("n", [1, 2, 4])
@pytest.mark.parametrize("seed", range(5))
def test_dyadic_rounds_are_exact_in_every_arithmetic(n, seed):
    inputs = exact_round(L1, n, 16, seed).calls[0]
    single = reference.compressed_allreduce(*inputs, scale="l1")
    exact = reference.compressed_allreduce(
        *(np.vectorize(Fraction, otypes=[object])(array.astype(float)) for array in inputs), scale="l1"
    )
    for name in ("output_D", "worker_errors_ND", "server_error_D"):
        np.testing.assert_array_equal(getattr(single, name).astype(object), getattr(exact, name))
    outputs = (single.output_D, single.worker_errors_ND, single.server_error_D)
    assert collective_round(L1, inputs, outputs, exact=True).findings() == []


@pytest.mark.parametrize("name", [0, 1, 2])
@pytest.mark.parametrize("traits", [L1, L2], ids=["l1", "l2"])
def test_an_ulp_breaks_the_exact_relation(traits, name):
    """An l2 scale may be an ulp off, and a worker's error with it: there it takes two."""
    inputs = exact_round(traits, 1, 64, 3).calls[0]
    result = reference.compressed_allreduce(*inputs, scale=traits.scale)
    outputs = [result.output_D.copy(), result.worker_errors_ND.copy(), result.server_error_D.copy()]
    for _ in range(2 if traits is L2 else 1):
        outputs[name][..., 5] = np.nextafter(outputs[name][..., 5], np.float32(100))
    assert collective_round(traits, inputs, tuple(outputs), exact=True).findings()


@pytest.mark.parametrize("relative", [1e-5, -1e-5])
@pytest.mark.parametrize("name", [0, 1, 2])
def test_a_hundred_thousandth_is_found_anywhere(name, relative):
    rng = np.random.default_rng(1)
    inputs = gaussian_round(rng, 3, 40)
    result = reference.compressed_allreduce(*inputs)
    for k in range(40):
        outputs = [result.output_D.copy(), result.worker_errors_ND.copy(), result.server_error_D.copy()]
        outputs[name][..., k] += np.float32(relative * np.abs(result.output_D[k]))
        assert collective_round(L2, inputs, tuple(outputs)).findings()


def test_nan_is_found_by_every_clause_that_reads_it():
    inputs = gaussian_round(np.random.default_rng(2), 2, 9)
    result = reference.compressed_allreduce(*inputs)
    output_D = result.output_D.copy()
    output_D[4] = np.nan
    relation = collective_round(L2, inputs, (output_D, result.worker_errors_ND, result.server_error_D))
    found = {finding.clause for finding in relation.findings()}
    assert {"conservation", "one_bit"} <= found <= set(CLAUSES)


@pytest.mark.parametrize("bias_correction", [False, True])
def test_every_array_of_a_snapshot_is_watched(bias_correction):
    for relation in transitions(dim=12, bias_correction=bias_correction):
        assert relation.findings() == []
        for name in ("params_ND", "momentum_D", "variance_D", "worker_errors_ND", "server_error_D"):
            array = getattr(relation.after, name).copy()
            array[..., 7] += np.float32(1e-3)
            broken = replace(relation, after=replace(relation.after, **{name: array}))
            assert broken.findings(advises=False), (relation.t, name)
        assert replace(relation, after=replace(relation.after, step=0)).findings()


def test_every_clause_of_the_relations_is_in_the_table():
    relation = transitions(dim=12)[-1]
    assert set(CLAUSES) < set(STEP_CLAUSES)
    assert all(callable(getattr(relation.round if name in CLAUSES else relation, name)) for name in STEP_CLAUSES)
    assert {f"optimizer.{name}" for name in STEP_CLAUSES} < {clause.id for clause in TABLE}


def test_exact_runs_hold_with_zero_tolerance_and_contain_ties():
    ties = 0
    for seed in range(12):
        case = exact_run(Traits(), 1, Hyper(beta1=0.5, freeze_step=1, scale=("l1", "l2")[seed % 2]), seed)
        assert list(check(Driver(BaseOptimizer), case, set())) == []
        last = list(follow(Driver(BaseOptimizer), case, ()))[-1]
        ties += np.count_nonzero(last.after.worker_errors_ND == -np.abs(last.after.momentum_D))
    assert ties > 0


@pytest.mark.parametrize("level", ["collective", "optimizer"])
@pytest.mark.parametrize("name", ["worker_scale", "server_scale"])
def test_a_wrong_scale_alone_is_no_other_crime(name, level):
    """In a run without rounding u - s q and w - S Q round where s or S is another: L1 holds to that, and no further."""

    def scaled(self, *arguments):
        return np.float32(getattr(BaseCollective, name)(self, *arguments) * np.float32(0.7))

    class Other(BaseCollective):
        pass

    class Lossy(Other):
        def worker_error(self, u_D, s, signs_D, i):
            return np.nextafter(super().worker_error(u_D, s, signs_D, i), np.float32(9))

        def server_error(self, w_C, S, Q_C, j):
            return np.nextafter(super().server_error(w_C, S, Q_C, j), np.float32(9)) + np.float32(1e-6)

    setattr(Other, name, scaled)
    for kind, expected in ((Other, {name}), (Lossy, {"conservation"})):
        under_test, found = conditional(kind, ALWAYS, level), set[str]()
        for seed in range(12):
            hyper = Hyper(beta1=0.5, freeze_step=1, scale=("l1", "l2")[seed % 2])
            case = exact_case(L2, seed) if level == "collective" else exact_run(Traits(), 4, hyper, seed)
            found |= {one.clause for one in check(Driver(under_test), case, set())}
        assert found == expected if kind is Other else found > expected


def test_a_step_that_may_overflow_is_not_judged():
    """Received numbers that are too large for P m-bar are a consequence; those below are judged as ever."""
    relation = transitions(dim=12)[-1]
    for size, clauses in ((3e38, set()), (1e25, {"apply"})):
        m_D = np.sign(relation.after.momentum_D) * np.float32(size)
        after = replace(relation.after, momentum_D=m_D, params_ND=relation.after.params_ND * np.float32(np.inf))
        judged = set[str]()
        found = {one.clause for one in replace(relation, after=after).findings(judged)}
        assert found & {"apply"} == judged & {"apply"} == clauses


@pytest.mark.parametrize(("along", "known"), [(3e30, True), (3e38, False)])
def test_a_movement_that_may_overflow_is_not_known(along, known):
    assert np.isfinite(moved(1.0, [Known(along)], Known(1e3), Traits()).tolerance) == known


def test_same_bits_tells_zeros_apart():
    assert not same_bits(np.float32([0.0]), np.float32([-0.0]))
    assert same_bits(np.float32([np.nan]), np.float32([np.nan]))


def laws_of(under_test):
    """The clauses that accuse a class on short runs with a skipped step."""
    grads_TND = np.random.default_rng(0).standard_normal((6, 2, 16)).astype(np.float32)
    grads_TND[4, 1, 3] = np.nan
    case = OptimizerCase(np.ones(16, np.float32), grads_TND, 2, Hyper(freeze_step=2, scale="l2"), ("step",) * 6)
    return {finding.clause for finding in check(Driver(under_test), case, set())}


def test_nan_that_is_not_skipped_is_no_other_crime():
    class Never(BaseOptimizer):
        def must_skip(self, grads_ND):
            return False

    assert laws_of(Never) == {"skip"}


def test_a_finite_step_that_is_left_out_is_no_other_crime():
    class Shy(BaseOptimizer):
        def must_skip(self, grads_ND):
            return super().must_skip(grads_ND) or grads_ND[0, 0] > 0

    assert laws_of(Shy) == {"count"}


def test_a_state_that_is_not_finite_is_seen_where_nobody_looked():
    class Spoils(BaseOptimizer):
        def compressed_step(self, grads_ND):
            super().compressed_step(grads_ND)
            self.E_D = self.E_D * np.float32(np.nan if self.t == 4 else 1)

    grads_TND = np.random.default_rng(0).standard_normal((6, 2, 16)).astype(np.float32)
    hyper, program = Hyper(freeze_step=2, scale="l2"), ("step",) * 6
    for unseen, expected in ((frozenset(), "conservation"), (frozenset({3}), "raises")):
        case = OptimizerCase(np.ones(16, np.float32), grads_TND, 2, hyper, program, unseen)
        assert expected in {finding.clause for finding in check(Driver(Spoils), case, set())}
