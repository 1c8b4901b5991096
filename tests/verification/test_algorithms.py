"""0/1 Adam and 1-bit LAMB in the search: arrays and hyper-parameters are watched, correct classes pass, bugs don't."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from search_support import BRIEF

from reference import ZeroOneAdam
from verification.adapters.lamb import ReferenceOneBitLamb, ReferenceOneBitLamb64
from verification.adapters.zero_one import ReferenceZeroOneAdam, ReferenceZeroOneAdam64
from verification.algorithms import ALGORITHMS
from verification.algorithms.base import array_names
from verification.algorithms.one_bit_lamb import draw
from verification.independent.correct import correct_class
from verification.independent.zero_one import EveryThirdStep, ZeroOne
from verification.mutants import lamb, zero_one
from verification.mutants.base_lamb import BaseLamb
from verification.mutants.base_zero_one import BaseZeroOne
from verification.mutants.families import all_bugs
from verification.mutants.score import Mutant, row_of, sample
from verification.mutants.triggers import DEVELOPMENT
from verification.protocol import LambHyper, Traits, ZeroOneHyper
from verification.relation import RELATIONS, one_bit_lamb, relation_of, zero_one_adam
from verification.search.cases import OptimizerCase
from verification.search.causes import Causes, Failing
from verification.search.clauses import CLAUSES, clause_of
from verification.search.driver import Driver
from verification.search.large_cases import lone_norms, lone_ratios
from verification.search.optimizer_cases import exact_case
from verification.search.optimizer_space import FREEZE
from verification.search.plan import PROFILES, Plan
from verification.search.runs import check, follow

LOCAL = ZeroOneHyper(lr=0.05, freeze_step=3, weight_decay=0.1, local_doubling=1, local_limit=4, variance_doubling=1)
LAYERS = LambHyper(lr=0.05, freeze_step=3, weight_decay=0.1, layers=(7, 1, 20, 13))
RUNS = {
    "zero_one": (BaseZeroOne, LOCAL),
    "zero_one, floor and blocks": (BaseZeroOne, replace(LOCAL, variance_floor=0.5, scale_block=16, scale="l1")),
    "zero_one, reference": (ReferenceZeroOneAdam, replace(LOCAL, variance_floor=0.5)),
    "lamb": (BaseLamb, LAYERS),
    "lamb, corrected, floor": (BaseLamb, replace(LAYERS, bias_correction=True, variance_floor=0.5, ratio_change=0.5)),
    "lamb, bfloat16, blocks": (BaseLamb, replace(LAYERS, frozen_dtype="bfloat16", scale_block=8)),
    "lamb, reference": (ReferenceOneBitLamb, LAYERS),
}


def transitions(under_test, hyper, steps=13, dim=41, n=3):
    """The steps of a run, each as a relation."""
    rng = np.random.default_rng(3)
    grads_TND = rng.standard_normal((steps, n, dim)).astype(np.float32) + np.float32(0.5)
    driver = Driver(under_test)
    params_D = rng.standard_normal(dim).astype(np.float32)
    case = OptimizerCase(params_D, grads_TND, n, hyper, ("step",) * steps)
    moves = follow(driver, case, {"snapshots"})
    relation = relation_of(driver.traits)
    return [relation(move.before, move.grads_ND, move.after, hyper, driver.traits) for move in moves]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", RUNS)
def test_every_array_of_a_snapshot_is_watched_in_every_step(name):
    for relation in transitions(*RUNS[name]):
        assert relation.findings() == []
        for array_name in array_names(relation.after):
            for k in (0, 7, 40):
                array = getattr(relation.after, array_name).copy()
                array[..., k] += np.float32(1e-3)
                broken = replace(relation, after=replace(relation.after, **{array_name: array}))
                assert broken.findings(advises=False), (relation.t, array_name, k)


@pytest.mark.parametrize("name", RUNS)
def test_one_worker_that_differs_is_found(name):
    for relation in transitions(*RUNS[name]):
        for array_name in array_names(relation.after):
            if array_name.endswith("_ND"):
                array = getattr(relation.after, array_name).copy()
                array[1, 5] += np.float32(1e-3)
                broken = replace(relation, after=replace(relation.after, **{array_name: array}))
                assert broken.findings(advises=False), array_name


CHANGES = {
    "zero_one": {
        "lr": 0.0501, "beta1": 0.91, "beta2": 0.99, "eps": 1e-3, "weight_decay": 0.0, "variance_floor": 0.9,
        "variance_doubling": None, "local_doubling": 3, "local_limit": 2, "scale": "l1", "scale_block": 8,
        "freeze_step": 4,
    },
    "lamb": {
        "lr": 0.0501, "beta1": 0.91, "beta2": 0.99, "eps": 1e-3, "weight_decay": 0.0, "variance_floor": 0.9,
        "layers": (8, 20, 13), "max_trust": 0.02, "min_trust": 8.0, "trust_decay": 0.5, "ratio_change": 0.01,
        "min_ratio": 3.9, "max_ratio": 0.6, "scale": "l1", "scale_block": 8, "frozen_dtype": "bfloat16",
        "bias_correction": True, "freeze_step": 4,
    },
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_another_hyper_parameter_is_found(name):
    """The same run, said to be one of another value."""
    relations = transitions(*RUNS[name])
    for key, value in CHANGES[name].items():
        others = (replace(one, hyper=replace(one.hyper, **{key: value})) for one in relations)
        assert any(other.findings(advises=False) for other in others), key
    assert set(CHANGES[name]) == set(vars(relations[0].hyper))


def test_a_layers_numbers_are_one_at_all_its_elements():
    (*_, relation) = transitions(*RUNS["lamb"])
    for array_name in ("trust_mean_D", "layer_scale_D", "ratio_D"):
        array = getattr(relation.after, array_name).copy()
        array[10] = np.nextafter(array[10], np.float32(100))
        assert replace(relation, after=replace(relation.after, **{array_name: array})).findings(), array_name


def test_a_scale_below_zero_makes_no_tolerance_below_zero():
    """Of a wrong class that has such scales something is found, and can be told."""
    (*_, last) = transitions(*RUNS["lamb"])
    states = [replace(one, layer_scale_D=-one.layer_scale_D) for one in (last.before, last.after)]
    relation = replace(last, before=states[0], after=states[1])
    assert (relation.round.u_tolerance_ND >= 0).all()
    assert np.all(relation.round.output_tolerance_D >= 0)
    assert relation.findings()


@pytest.mark.parametrize("doubling", [None, 1, 2, 3, 16])
def test_the_policies_are_those_of_the_reference(doubling):
    for local_doubling in (1, 3, 7, 32678):
        for limit in (1, 2, 5, 16):
            about = {"variance_doubling": doubling, "local_doubling": local_doubling, "local_limit": limit}
            ours, theirs = (kind(lr=0.1, freeze_step=60, **about) for kind in (ZeroOneHyper, ZeroOneAdam))
            for t in range(1, 140):
                assert (ours.refreshes(t), ours.meets(t)) == (theirs.refreshes(t), theirs.meets(t)), (about, t)


def test_a_class_with_policies_of_its_own_says_so():
    class Unsaid(ZeroOne):
        def due(self, policy, method):
            own = EveryThirdStep.refresh_policy if method == self.h.refreshes else EveryThirdStep.meeting_policy
            return own(self.h, self.t)

    grads_TND = np.random.default_rng(0).standard_normal((9, 2, 12)).astype(np.float32)
    case = OptimizerCase(np.ones(12, np.float32), grads_TND, 2, ZeroOneHyper(freeze_step=2), ("step",) * 9)
    assert list(check(Driver(EveryThirdStep), case, set())) == []
    assert {"kept_variance", "meeting"} <= {one.clause for one in check(Driver(Unsaid), case, set())}


@pytest.mark.parametrize("slot", ["M", "U"])
def test_what_is_lost_before_a_refresh_and_a_meeting_is_found(slot):
    """v is 0 where the workers' gradients cancel, refreshed in the next step, and the meeting comes after both."""

    class Forgets(EveryThirdStep):
        def walk(self, lr, live):
            super().walk(lr, live)
            setattr(self, slot, np.where(live, getattr(self, slot), 0).astype(self.dtype))

    grads_TND = np.random.default_rng(0).standard_normal((4, 2, 12)).astype(np.float32)
    grads_TND[0, :, 5] = 8, -8
    case = OptimizerCase(np.ones(12, np.float32), grads_TND, 2, ZeroOneHyper(freeze_step=2), ("step",) * 4)
    clause = {"M": "local_momentum", "U": "local_sum"}[slot]
    assert list(check(Driver(EveryThirdStep), case, set())) == []
    assert clause in {one.clause for one in check(Driver(Forgets), case, set())}
    driver = Driver(Forgets)
    plan = Plan.of(driver, "optimizer", BRIEF, 0)
    rows = [item for item in plan.rows if item[0]["workers"] != (1, 1)]
    assert any(one.clause == clause for item in rows for one in check(driver, plan.case(*item), set()))


@pytest.mark.parametrize(
    "under_test", [BaseZeroOne, BaseLamb, ReferenceZeroOneAdam64, ReferenceOneBitLamb64], ids=lambda one: one.__name__
)
def test_exact_runs_hold_with_zero_tolerance(under_test):
    found = 0
    for seed in range(12):
        case = exact_case(Driver(under_test).traits, seed)
        if case is not None:
            found += 1
            assert list(check(Driver(under_test), case, set())) == []
    assert found >= 3


@pytest.mark.parametrize("under_test", [BaseZeroOne, BaseLamb], ids=lambda one: one.__name__)
def test_an_exact_run_finds_one_ulp(under_test):
    driver = Driver(under_test)
    case = next(case for seed in range(30) if (case := exact_case(driver.traits, seed)) is not None)
    move = list(follow(driver, case, {"snapshots"}))[1]
    relation = relation_of(driver.traits)(move.before, move.grads_ND, move.after, case.hyper, driver.traits, exact=True)
    assert relation.findings() == []
    for name in ("worker_errors_ND", "server_error_D"):
        array = getattr(move.after, name).copy()
        array[..., 1] += np.float32(2.0**-23)  # an ulp of what is sent
        assert replace(relation, after=replace(move.after, **{name: array})).findings(), name


def test_layers_without_some_elements():
    hyper = LambHyper(layers=(3, 1, 4))
    assert hyper.without(slice(2, 5)).layers == (2, 3)
    assert [(part.start, part.stop) for part in hyper.slices(8)] == [(0, 3), (3, 4), (4, 8)]
    assert LambHyper().without(slice(2, 5)) == LambHyper()
    assert LambHyper().slices(8) == [slice(0, 8)]
    rng = np.random.default_rng(0)
    for level in ALGORITHMS["one_bit_lamb"].levels["layers"]:
        for dim in (1, 2, 9, 40, 1000):
            layers = draw("layers", level, dim, rng)
            assert sum(layers) == dim or (layers == () and (level == "one" or dim < 3 or level == "two"))
            assert min(layers, default=1) >= 1


@pytest.mark.parametrize(("module", "name"), [(zero_one_adam, "zero_one_adam"), (one_bit_lamb, "one_bit_lamb")])
def test_every_clause_of_a_relation_is_in_the_table(module, name):
    table = {clause.name for clause in CLAUSES if clause.level == "optimizer" and (not clause.of or name in clause.of)}
    assert set(module.CLAUSES) <= table
    own = {clause.name for clause in CLAUSES if clause.of == (name,)}
    assert own <= set(module.CLAUSES)
    assert set(RELATIONS) == set(ALGORITHMS)


BUGS = [bug for bug in all_bugs() if bug.family in ("zero_one", "lamb")]


def test_each_has_a_dozen_bugs_and_more():
    assert sum(bug.family == "zero_one" for bug in BUGS) >= 12
    assert sum(bug.family == "lamb" for bug in BUGS) >= 12
    assert {bug.algorithm for bug in BUGS} == {"zero_one_adam", "one_bit_lamb"}


@pytest.mark.one_in(20)
@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.id)
def test_every_bug_is_found(bug):
    assert row_of(Mutant(bug, DEVELOPMENT[0], "optimizer")).killed_by


@pytest.mark.one_in(2)
@pytest.mark.parametrize("algorithm", ["zero_one_adam", "one_bit_lamb"])
def test_conditional_bugs_are_found(algorithm):
    chosen = sample("development", 4, 2, algorithm=algorithm)
    assert {one.bug.algorithm for one in chosen} == {algorithm}
    for row in map(row_of, chosen):
        assert row.killed_by or not row.differs, row.mutant


@pytest.mark.parametrize(
    ("under_test", "clause", "largest"),
    [(zero_one.DecayOfOneStep, "meeting_params", 1), (zero_one.KeepsItsMomentum, "meeting", 1),
     (lamb.OneScale, "layer_scale", 2), (lamb.FreshFromZero, "fresh_variance", 1)],
    ids=lambda one: getattr(one, "__name__", one),
)  # fmt: skip
def test_counterexamples_are_small_programs_that_a_correct_class_passes(under_test, clause, largest, brief):
    driver = Driver(under_test)
    plan, name = Plan.of(driver, "optimizer", brief, 0), f"optimizer.{clause}"
    found = ((case, one) for item in plan.rows for case in [plan.case(*item)] for one in check(driver, case, set()))
    case, finding = next((case, one) for case, one in found if one.clause == clause)
    causes = Causes(driver, 400)
    causes.explain([Failing(clause_of(name), case, (finding,))])
    (cause,) = causes.found
    assert cause.case.dim <= largest
    assert f"from verification.protocol import {type(cause.case.hyper).__name__}" in cause.program
    with pytest.raises(AssertionError):
        exec(compile(cause.program, "program", "exec"), {})
    correct = correct_class("optimizer", driver.traits)
    body = "\n".join(line for line in cause.program.splitlines() if "runpy" not in line)
    exec(compile(body, "program", "exec"), {under_test.__name__: correct})


@pytest.mark.parametrize("algorithm", ALGORITHMS.values(), ids=lambda one: one.name)
def test_no_hyper_parameter_is_held_at_one_value(algorithm):
    """A class that has the one value in it, and does not read what it is given, would hold."""
    levels = {name: len(some) for name, some in algorithm.levels.items()} | {"freeze_step": len(FREEZE)}
    assert set(levels) == set(algorithm.known)
    assert min(levels.values()) > 1


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("declared", "searched"), [
    ({"max_trust": (10.0, 50.0), "trust_decay": [0.25, 0.9]}, {"max_trust": (10.0, 50.0), "trust_decay": (0.9, 0.25)}),
    ({"scale_block": (None, 64)}, {"scale_block": (None, 64)}),
    ({"max_ratio": 1.2}, {"max_ratio": (1.2,)}),
])  # fmt: skip
def test_every_value_that_a_class_declares_is_searched(declared, searched):
    """Those that are no levels of ours too; and no range of a row is empty."""
    under_test = type("Declares", (ReferenceOneBitLamb,), {"takes": declared})
    plan = Plan.of(Driver(under_test), "optimizer", PROFILES["quick"], 0)
    rows = [row for row, _ in plan.rows]
    for name, values in searched.items():
        assert plan.space.features[name] == values
        assert {row[name] for row in rows} == set(values)
    assert all(row["min_ratio"] <= row["max_ratio"] and row["min_trust"] <= row["max_trust"] for row in rows)


def test_takes_and_extensions_are_those_of_the_algorithm():
    class Wrong:
        algorithm = "zero_one_adam"
        extensions = ("compress",)

    with pytest.raises(ValueError, match="extensions must be some of scale_block in a tuple"):
        Traits.of(Wrong)
    Wrong.extensions, Wrong.takes = (), {"bias_correction": True}
    with pytest.raises(ValueError, match="takes must map names of lr"):
        Traits.of(Wrong)
    Wrong.takes = {"local_limit": 1}
    assert Traits.of(Wrong).taken("local_limit") == (1,)
    Wrong.algorithm = "adagrad"
    with pytest.raises(ValueError, match="algorithm must be one of"):
        Traits.of(Wrong)


class RatioOfEverySecond(BaseLamb):
    """r looks at every second element of a layer of 32,768 or more, from ``first`` on."""

    first = 0

    def next_ratio(self, live_D):
        live_D = live_D.copy()
        for layer in self.hyper.slices(live_D.size):
            if layer.stop - layer.start >= 2**15:
                live_D[layer.start + 1 - self.first : layer.stop : 2] = False
        return super().next_ratio(live_D)


class RatioOfTheOthers(RatioOfEverySecond):
    first = 1


@pytest.mark.parametrize("layers", [None, [()]])
@pytest.mark.parametrize("wrong", [RatioOfEverySecond, RatioOfTheOthers])
def test_one_element_decides_the_ratio_of_a_large_layer(wrong, layers):
    takes = {} if layers is None else {"takes": {"layers": layers}}
    found = []
    for under_test in (wrong, BaseLamb):
        driver = Driver(type(under_test.__name__, (under_test,), takes))
        (case,) = lone_ratios(driver.traits)
        found.append({finding.clause for finding in check(driver, case, set())})
    if layers is None or wrong is RatioOfEverySecond:  # the one layer has its element at its end, an odd place
        assert "variance_ratio" in found[0]
    assert not found[1]


class NormWithoutTail(BaseLamb):
    """One norm of a layer of 4,096 or more misses what is left over of groups of eight; ``of`` says which norm."""

    of = "x"

    def norm(self, values):
        return super().norm(values[: len(values) // 8 * 8] if len(values) >= 2**12 else values)

    def trust_ratio(self, weights, update):
        x = self.norm(weights) if self.of == "x" else super().norm(weights)
        u = self.norm(update) if self.of == "u" else super().norm(update)
        return np.clip(x / u if x > 0 and u > 0 else 1.0, self.hyper.min_trust, self.hyper.max_trust)

    def layer_rms(self, momentum):
        return (self.norm(momentum) if self.of == "m" else super().norm(momentum)) / momentum.size**0.5


@pytest.mark.parametrize(("of", "clause"), [("x", "trust_mean"), ("u", "trust_mean"), ("m", "layer_scale")])
@pytest.mark.parametrize("layers", [None, [()]])
def test_one_element_decides_the_norms_of_a_large_layer(of, clause, layers):
    takes = {} if layers is None else {"takes": {"layers": layers}}
    for under_test, clauses in ((NormWithoutTail, {clause}), (BaseLamb, set())):
        driver = Driver(type(under_test.__name__, (under_test,), {"of": of, **takes}))
        found = [{finding.clause for finding in check(driver, case, set())} for case in lone_norms(driver.traits)]
        if (of, layers) != ("m", [()]):  # one layer has the scale 1 whatever its norm
            assert clauses <= found[0]
        assert clauses or not any(found)


def test_only_lamb_has_ratios_and_norms():
    traits = Driver(ReferenceZeroOneAdam).traits
    assert lone_ratios(traits) == lone_norms(traits) == []
