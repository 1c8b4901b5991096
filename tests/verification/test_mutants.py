"""Conditional mutants: they bite where they should and nowhere else, and a sample of them is found."""

from __future__ import annotations

import ast
import inspect
import math
import textwrap
from dataclasses import replace

import numpy as np
import pytest

from verification.independent.false_alarms import alarms_of, correct_classes, qualified
from verification.mutants import error_feedback, events, masks, scale, skips, update
from verification.mutants.base_lamb import BaseLamb
from verification.mutants.base_optimizer import BaseOptimizer
from verification.mutants.base_zero_one import BaseZeroOne
from verification.mutants.conditional import conditional
from verification.mutants.families import ONLY_ALWAYS, all_bugs
from verification.mutants.score import Mutant, population, row_of, sample, share_interval, triggers, witnessed
from verification.mutants.triggers import ALWAYS, DEVELOPMENT, HELD_OUT, both
from verification.protocol import Hyper
from verification.search.cases import OptimizerCase
from verification.search.collective_space import large_cases
from verification.search.driver import Driver
from verification.search.plan import PROFILES, Plan
from verification.search.runs import check

TRIGGER = {trigger.name: trigger for trigger in (*DEVELOPMENT, *HELD_OUT)}


def end(under_test, n=2, dim=24, steps=6, **hyper):
    rng, run = np.random.default_rng(0), under_test()
    run.start(rng.standard_normal(dim).astype(np.float32), n, Hyper(freeze_step=2, **hyper))
    for _ in range(steps):
        run.step(rng.standard_normal((n, dim)).astype(np.float32))
    return run.snapshot()


@pytest.mark.parametrize("bug", [update.CoupledWeightDecay, error_feedback.NoServerFeedback])
def test_it_bites_on_three_workers_alone(bug):
    mutant = conditional(bug, TRIGGER["on 3 workers"], "optimizer")
    for n in (2, 3, 4):
        one, other = (end(each, n, weight_decay=0.1) for each in (BaseOptimizer, mutant))
        assert (one.params_ND.tobytes() == other.params_ND.tobytes()) == (n != 3)


def test_it_bites_at_the_last_element_alone():
    mutant = conditional(update.EpsilonInsideTheRoot, TRIGGER["at the last element"], "optimizer")
    one, other = end(BaseOptimizer, steps=2, eps=1e-3), end(mutant, steps=2, eps=1e-3)
    assert np.array_equal(one.params_ND[:, :-1], other.params_ND[:, :-1])
    assert not np.array_equal(one.params_ND, other.params_ND)


def of_self(cls):
    """Method -> the nodes of its source that are attributes of ``self``."""
    body = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0].body
    return {
        one.name: [
            node for node in ast.walk(one) if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "self"
        ]
        for one in body
        if isinstance(one, ast.FunctionDef)
    }


def without_a_default(bug):
    """Attributes that its ``start`` sets, its other methods use, and neither its class nor a base of it knows."""
    methods = of_self(bug)
    begun = {node.attr for node in methods.pop("start", []) if isinstance(node.ctx, ast.Store)}
    used = {node.attr for nodes in methods.values() for node in nodes}
    bases = [nodes for base in bug.__mro__[1:-1] for nodes in of_self(base).values()]
    known = {node.attr for nodes in bases for node in nodes if isinstance(node.ctx, ast.Store)}
    return {name for name in (begun & used) - known if not hasattr(bug, name)}


class SkippedUnknown(skips.SecondSkipInARow):
    """A fault that is broken: under a trigger that is not met at the start it raises, which is no kill."""

    def start(self, params_D, n_workers, hyper):
        self.last = False
        super().start(params_D, n_workers, hyper)

    def on_skip(self):
        self.last = not self.last


def test_no_fault_needs_its_start():
    """Its trigger may not be met there; a fault that then raises would be found for nothing."""
    assert without_a_default(SkippedUnknown) == {"last"}
    for bug in all_bugs():
        assert not without_a_default(bug.under_test), bug.id


def test_one_fault_is_sampled_first_without_a_condition():
    """By its class, or all of a family; a fault that is never tried under a condition too."""
    chosen = sample("held-out", 5, 0, ["ZeroIsMinus"])
    assert [mutant.id for mutant in chosen[:2]] == [
        f"{x}: signs.ZeroIsMinus, always" for x in ("optimizer", "collective")
    ]
    assert {mutant.bug.id for mutant in chosen} == {"signs.ZeroIsMinus"}
    assert len({mutant.trigger.name for mutant in chosen}) > 2
    alone = sample("held-out", 10, 0, ["signs.TiesAtRandom"])
    assert [mutant.trigger.name for mutant in alone] == ["always"] * len(alone)
    assert alone
    family = {mutant.bug for mutant in sample("development", 10**6, 0, ["signs"])}
    assert family == {bug for bug in all_bugs() if bug.family == "signs"}
    with pytest.raises(ValueError, match=r"no fault or family 'ZeroIsMinos'; did you mean ZeroIsMinus, "):
        sample("held-out", 5, 0, ["ZeroIsMinos"])


def test_pairs_bite_where_both_do():
    pair = both(TRIGGER["on 3 workers"], TRIGGER["with weight decay"])
    assert pair is not None
    mutant = conditional(update.EpsilonInsideTheRoot, pair, "optimizer")
    for n, decay in ((3, 0.1), (3, 0.0), (2, 0.1)):
        same = (
            end(mutant, n, weight_decay=decay).params_ND.tobytes()
            == end(BaseOptimizer, n, weight_decay=decay).params_ND.tobytes()
        )
        assert same == ((n, decay) != (3, 0.1))
    assert both(TRIGGER["on 3 workers"], TRIGGER["on 5 workers"]) is None


def test_bugs_and_triggers_are_many_and_explained():
    bugs = {bug.id for bug in all_bugs()}
    assert len(bugs) > 150
    assert set(ONLY_ALWAYS) <= bugs
    assert not {trigger.name for trigger in DEVELOPMENT} & {trigger.name for trigger in HELD_OUT}
    assert all(len(population(split)) > 10_000 for split in ("development", "held-out"))
    assert [mutant.id for mutant in sample("held-out", 30, 5)] == [mutant.id for mutant in sample("held-out", 30, 5)]


@pytest.mark.one_in(10)
@pytest.mark.parametrize(
    "trigger",
    [t for split in ("development", "held-out") for t in triggers(split)[:40] if ", and " not in t.name],
    ids=lambda t: t.name,
)
def test_every_trigger_bites_somewhere(trigger):
    """Whatever bites is seen in the state: x is moved twice as far, or the output of the collective is negated."""

    def negated(base):
        class Negated(base):
            """x is moved the other way."""

            def denominator(self, v_D, correction):
                return -super().denominator(v_D, correction)

        return Negated

    class Minus(error_feedback.BaseCollective):
        """u is negated."""

        def worker_input(self, buffer_D, error_D):
            return -super().worker_input(buffer_D, error_D)

    from verification.mutants.families import Bug

    bugs = [Bug("test", "test", "", negated(base)) for base in (BaseOptimizer, BaseZeroOne, BaseLamb)]
    knowing = next(bug for bug in bugs if bug.knows(trigger))  # a policy is one algorithm's alone, and so is a layer
    for level, bug in (("optimizer", knowing), ("collective", Bug("test", "test", "", Minus))):
        if level in trigger.levels and trigger.name != "at zero-variance coordinates":
            assert witnessed(Mutant(bug, trigger, level))


@pytest.mark.one_in(4)
@pytest.mark.parametrize("bug", [bug for bug in all_bugs() if bug.family == "events"], ids=lambda bug: bug.id)
def test_what_used_to_live_is_found(bug):
    level = "optimizer" if issubclass(bug.under_test, BaseOptimizer) else "collective"
    if bug.under_test is events.SequentialSums:  # found by one of the large cases, which come last
        driver = Driver(bug.under_test)
        assert any(next(check(driver, make(), set()), None) for make in large_cases(driver.traits))
    else:
        assert row_of(Mutant(bug, TRIGGER["always"], level)).killed_by


@pytest.mark.soak
def test_a_guard_on_small_scales_is_found_late_and_on_seven_workers():
    trigger = both(TRIGGER["on 7 workers"], TRIGGER["at step 25 alone"])
    assert trigger is not None
    plan = Plan.of(Driver(BaseOptimizer), "optimizer", PROFILES["quick"], 0)
    driver = Driver(conditional(scale.GuardedScale, trigger, "optimizer"))
    late = [item for item in plan.rows if item[0]["workers"] == (7, 7) and item[0]["compressed"][1] > 25]
    found = {finding.clause for item in late for finding in check(driver, plan.case(*item), set())}
    assert "worker_scale" in found


@pytest.mark.soak
@pytest.mark.parametrize("index", range(6))
def test_a_sample_is_found(index):
    row = row_of(sample("development", 6, 3)[index])
    assert row.killed_by or not row.differs


def test_triggers_that_no_case_combines_make_no_mutant():
    """N > 16 is left out beside D > 4096 as too long."""
    trigger = both(TRIGGER["D > 4096"], TRIGGER["on more than 16 workers"])
    assert trigger is not None
    assert not witnessed(Mutant(next(iter(all_bugs())), trigger, "optimizer"))


def test_the_interval_is_exact():
    """So wide that the share at each end has 2.5 % beyond what was counted."""
    low, high = share_interval(98, 100)
    assert sum(math.comb(100, k) * low**k * (1 - low) ** (100 - k) for k in (98, 99, 100)) == pytest.approx(0.025)
    assert sum(math.comb(100, k) * high**k * (1 - high) ** (100 - k) for k in range(99)) == pytest.approx(0.025)
    assert share_interval(0, 0) == (0.0, 1.0)


@pytest.mark.one_in(8)
@pytest.mark.parametrize("under_test", correct_classes(), ids=qualified)
def test_no_false_alarm(under_test):
    alarms, cases = alarms_of(qualified(under_test), 7, 1)
    assert alarms == []
    assert cases >= 2


@pytest.mark.soak
def test_no_false_alarm_over_many_seeds():
    for under_test in correct_classes():
        assert alarms_of(qualified(under_test), 1000, 100)[0] == []


@pytest.mark.soak
def test_a_large_sample_is_found():
    rows = [row_of(mutant) for mutant in sample("held-out", 150, 11)]
    counted = [row for row in rows if row.differs]
    assert sum(bool(row.killed_by) for row in counted) >= 0.98 * len(counted)


LOOSER = ({"flushes_subnormals": True}, {"correction": "float32"}, {"complement": "subtracted"})
"""Declarations that make tolerances larger."""


@pytest.mark.one_in(250)
@pytest.mark.parametrize("declared", LOOSER, ids=str)
@pytest.mark.parametrize(
    ("bug", "level"),
    [(b, one) for b in all_bugs() for one in ALWAYS.levels if b.suits(one)],
    ids=lambda one: getattr(one, "id", one),
)
def test_no_declaration_hides_a_fault(bug, level, declared):
    """A fault is found in a class, too, that declares what is not so: the tolerance that comes with it is small."""
    looser = type(bug.under_test.__name__, (bug.under_test,), declared)
    assert row_of(Mutant(replace(bug, under_test=looser), ALWAYS, level)).killed_by


@pytest.mark.parametrize("bug", [masks.FloorOverDead, masks.FloorRaisesDead], ids=lambda bug: bug.__name__)
def test_a_wrong_floor_is_found_where_subnormals_are_flushed(bug):
    class Flushing(bug):
        flushes_subnormals = True

    grads_ND = np.array([[1, 0, 2]], np.float32)
    for hyper in (Hyper(freeze_step=1, variance_floor=0.5), Hyper(freeze_step=1, variance_floor=0.5, scale="l1")):
        case = OptimizerCase(np.zeros(3, np.float32), np.stack([grads_ND] * 2), 1, hyper, ("step", "step"))
        assert [one.clause for one in check(Driver(Flushing), case, set())][:1] == ["floor"]
        assert not list(check(Driver(type("Right", (BaseOptimizer,), {"flushes_subnormals": True})), case, set()))
