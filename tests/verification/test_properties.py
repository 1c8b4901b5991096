"""Every property holds on correct implementations, and every property fails on a bug that is there for it."""

from __future__ import annotations

import pytest

from verification.driver import Driver
from verification.mutants.base_collective import BaseCollective
from verification.mutants.base_optimizer import BaseOptimizer
from verification.mutants.families import all_mutants
from verification.mutants.kill_matrix import EXAMPLES, row_of
from verification.registry import all_properties
from verification.runner import run_property
from verification.strangers.false_alarms import alarms_of, all_strangers, qualified

BASE = {"collective": BaseCollective, "optimizer": BaseOptimizer}

ONLY_BY = {
    "collective.conservation": "error_feedback.FifthServerForgets",
    "collective.determinism": "signs.AlternatingOrder",
    "collective.exact_dyadic": "signs.ServerZeroIsMinus",
    "collective.extreme_magnitudes": "scale.SquaresInFloat32",
    "collective.large_buffers": "scale.LongFloat32Sum",
    "collective.memory_layout": "memory.WideLoads",
    "collective.one_bit": "chunks.FifthServerHalvesItsLast",
    "collective.purity": "memory.OutputKept",
    "collective.repeated_calls": "memory.FirstSizeKept",
    "collective.scaling": "scale.ThroughLogarithms",
    "collective.server_bits": "signs.FifthServerSaysPlus",
    "collective.server_scale": "scale.FifthServerCountsPadding",
    "collective.wire_bytes": "memory.ByteASign",
    "collective.worker_bits": "signs.ZeroIsMinusAtDMod8Is7",
    "collective.worker_one_bit": "scale.FifthWorkerSendsTwoScales",
    "collective.worker_scale": "scale.LastElementAtDMod8Is7",
    "optimizer.apply": "update.OneElementIn100",
    "optimizer.bias_correction": "update.BiasMovesAfterTheFreeze",
    "optimizer.conservation": "error_feedback.OptimizerFifthServerForgets",
    "optimizer.dead_coordinates": "masks.AllDeadIsAllLive",
    "optimizer.determinism": "memory.ErrorsOnTheClass",
    "optimizer.exact_dyadic": "signs.OptimizerTieIsMinus",
    "optimizer.extreme_gradients": "signs.OptimizerSubnormalIsZero",
    "optimizer.frozen_variance": "freeze.VarianceMovesFromElement100",
    "optimizer.long_run": "momentum.ResetEvery50Steps",
    "optimizer.non_finite": "masks.OnlyNaN",
    "optimizer.programs": "checkpoints.SkipThenSave",
    "optimizer.purity": "memory.SnapshotIsAView",
    "optimizer.replicas": "update.FifthReplicaDrifts",
    "optimizer.resize": "checkpoints.OldChunksAfterResize",
    "optimizer.resume": "checkpoints.FifthErrorNotSaved",
    "optimizer.server_message": "chunks.OptimizerChunksFrom5",
    "optimizer.variance_floor": "masks.FloorInTheWarmUp",
    "optimizer.warm_up": "freeze.FifthGradientNotInTheMean",
    "optimizer.worker_message": "scale.OptimizerScaleFrom5",
}
"""A mutant that nothing else finds, for every property: without the property it would live."""


@pytest.mark.parametrize("prop", all_properties(), ids=lambda prop: prop.id)
def test_holds_on_a_correct_implementation_and_says_what_it_is(prop):
    verdict = run_property(prop, Driver(BASE[prop.level]), max_examples=15, seed=1)
    assert verdict.outcome == "holds", verdict.findings
    assert prop.law
    assert prop.title.endswith(".")
    assert prop.catches


@pytest.mark.parametrize("prop", all_properties(), ids=lambda prop: prop.id)
def test_finds_the_mutant_that_no_other_property_finds(prop):
    """That no other one does is what ``onebit mutants`` checks: it ends with 1 if a property is redundant."""
    assert row_of(ONLY_BY[prop.id], [prop.id]).killed


def test_mutants_are_many_and_explained():
    mutants = all_mutants()
    assert len(mutants) >= 80
    assert len({mutant.id for mutant in mutants}) == len(mutants)
    assert all(mutant.bug.endswith((".", ")")) or mutant.bug for mutant in mutants)
    assert not [mutant.id for mutant in mutants if mutant.equivalent]
    assert EXAMPLES >= 20


@pytest.mark.parametrize("mutant", all_mutants()[::16], ids=lambda mutant: mutant.id)
def test_a_sample_of_mutants_is_killed(mutant):
    assert row_of(mutant.id, [prop.id for prop in all_properties()]).killed


@pytest.mark.parametrize("stranger", all_strangers(), ids=qualified)
def test_no_false_alarm(stranger):
    for prop in all_properties():
        if prop.level in Driver(stranger).levels and prop.cost < 10:
            alarms, _ = alarms_of(qualified(stranger), prop.id, seeds=4, start=7)
            assert alarms == []
