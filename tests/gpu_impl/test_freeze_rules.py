"""The rules C10 end the warm-up where the reference's do, on all workers alike."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
import torch
from freeze_support import (
    ARRAYS,
    BETA2,
    DELTA,
    DIM,
    SHAPES,
    STEPS,
    flat,
    gradients,
    params_and_optimizer,
    stopped_at,
    train,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from optimizer_support import ONE_BUCKET, pool
from torch import distributed as dist
from torch import nn

from gpu_impl import HookedOneBitAdam, OneBitAdam
from gpu_impl.optimizer.bucket import PIECE
from gpu_impl.optimizer.freeze import norms_of
from gpu_impl.optimizer.freeze_rule import FreezeRule
from reference import OneBitAdam as Reference
from reference.optimizers import freeze_rule
from reference.state import State
from theory import rounding


def ours(rule, grads_TD, hyper):
    """Parameters, statistics, and norms of v and the diagnosis halfway, on one worker."""
    params, optimizer = params_and_optimizer(rule, **hyper)
    train(params, optimizer, grads_TD[:9])
    norms, early = [one.numpy() for one in optimizer.run.freeze_rule.norms], optimizer.stats()
    train(params, optimizer, grads_TD[9:])
    return flat(params), optimizer.stats(), norms, early


def the_reference(rule, grads_TND, **hyper):
    """The optimizer, its states after 9 steps and at the end."""
    reference = Reference(lr=1e-2, beta2=BETA2, freeze_step=rule, arrays=ARRAYS, **hyper)
    state = reference.init(np.ones(DIM, np.float32), grads_TND.shape[1])
    states = []
    for grads_ND in grads_TND:
        state = reference.step(state, grads_ND)
        states.append(state)
    return reference, states[8], state


KINDS = ("steady", "growing", "falling", "in turn", "one wakes up", "skipped")


@pytest.mark.one_in(3)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rule", ["auto", "paper"])
def test_the_step_is_the_reference_s(rule, kind):
    """And so are parameters, to the bit, and norms, up to the order of a sum."""
    grads_TND = gradients(kind)
    _, early, last = the_reference(rule, grads_TND)
    assert last.frozen_at is not None
    for backend in ("cpu", "torch"):
        rows = [(rule, grads_TND[:, i], {"backend": backend}) for i in range(2)]
        for params_D, stats, norms, _ in pool(2).map(ours, rows):
            assert stats.frozen_at == last.frozen_at
            assert params_D.tobytes() == last.params.tobytes()
            wanted = np.array(early.variance_norms)
            found = np.array(norms) if rule == "auto" else np.sum(norms, axis=1, keepdims=True)
            assert (np.abs(found - wanted) <= 2 * rounding.gamma(DIM, "float64") * wanted).all()
            assert wanted.shape == (early.step, 3 if rule == "auto" else 1)


def test_the_rules_are_two():
    """What each does not see: the published one growth and a hand-over, ours a sum that stands still."""
    fired = {(rule, kind): the_reference(rule, gradients(kind))[2].frozen_at for rule in RULES for kind in KINDS}
    for kind in ("growing", "in turn", "one wakes up"):
        assert fired["paper", kind] == DELTA + 1 < fired["auto", kind]
    assert fired["paper", "falling"] > DELTA + 1, "v has stopped shrinking"


RULES = ("auto", "paper")
NORMS = st.lists(st.sampled_from([0.0, 1.0, 24.0, 25.0, 25.9, 26.0, 26.1]) | st.floats(0, 1e30), min_size=3, max_size=3)


@given(st.lists(NORMS, min_size=1, max_size=6), st.integers(0, 3), st.sampled_from(RULES))
@settings(max_examples=300, deadline=None)
def test_a_decision_is_the_reference_s_for_any_norms(rows, waits, rule):
    """At the limits of 4 % too; beta2 = 3/4, a window of 4 steps."""
    step = len(rows) + waits
    tuples = tuple(tuple(row) if rule == "auto" else (float(np.sum(row)),) for row in rows)[-5:]
    nothing = np.zeros(3, np.float32)
    state = State(nothing, nothing, nothing, nothing[None], nothing, step=step, variance_norms=tuples)
    mine = FreezeRule(rule, 0)
    for row in rows:
        mine.note(torch.tensor(row, dtype=torch.float64), 4)
    correction = (1 - 0.75 ** (step - 4)) / (1 - 0.75**step) if step > 4 else 1.0
    is_due = mine.is_due(step, 4, torch.full((3,), correction, dtype=torch.float64))
    if rule == "auto" or not sum(map(sum, tuples)):
        assert is_due == freeze_rule.holds(rule, state, 0.75)
    else:  # sums of three numbers: here exact, there in order
        before, after = sum(rows[-5:][0]), sum(rows[-1])
        if abs(after - 0.96 * before) > 4 * rounding.gamma(4, "float64") * (after + before):
            assert is_due == freeze_rule.holds(rule, state, 0.75)


@pytest.mark.parametrize("kind", ["in turn", "one wakes up", "steady"])
def test_the_diagnosis_says_what_the_reference_s_says(kind):
    grads_TND = gradients(kind, n=1)[:14]
    hyper = {"lr_warmup_steps": 30}
    reference, early, last = the_reference("auto", grads_TND, **hyper)
    ((_, stats, _, sooner),) = pool(1).map(ours, [("auto", grads_TND[:, 0], hyper)])
    for mine, theirs in ((sooner, early), (stats, last)):
        says = reference.freeze_diagnosis(theirs)
        assert mine.freeze_diagnosis.replace("parameters", "arrays").startswith(says)
    assert "too early" in sooner.freeze_diagnosis
    worst = {
        "in turn": "3 of 3 parameters",
        "one wakes up": "late most, which was 0 then",
        "steady": "lr_warmup_steps=30",
    }
    assert worst[kind] in stats.freeze_diagnosis


def test_the_diagnosis_of_the_others():
    grads_TD = gradients("falling", n=1)[:, 0]
    for rule, steps, says in (
        ("paper", 15, "step 15: v still falls: its norm is 0.[0-9]{2} of what it was 10 steps ago, and 0.96 would end"),
        ("paper", STEPS, "frozen at step [0-9]+$"),
        (1000, 5, "step 5: the warm-up ends after step 1,000$"),
    ):
        params, optimizer = params_and_optimizer(rule)
        train(params, optimizer, grads_TD[:steps])
        assert re.match(says, optimizer.stats().freeze_diagnosis), optimizer.stats().freeze_diagnosis


# --- all workers alike ---


def with_a_norm_of_its_own(rule):
    """On rank 1 the sum of v comes out otherwise, far more so than rounding on another processor."""
    params, optimizer = params_and_optimizer(rule)
    optimizer.take_over()
    if dist.get_rank() == 1:
        for _, bucket in optimizer.run.pairs():
            original = bucket.variance_norms
            bucket.variance_norms = lambda original=original: original() * 1.5 ** (optimizer.steps % 7)
    train(params, optimizer, gradients("steady")[:, dist.get_rank()])
    return flat(params).tobytes(), optimizer.stats().frozen_at


@pytest.mark.parametrize("rule", RULES)
def test_all_workers_decide_as_rank_0_does(rule):
    first, second = pool(2).call(with_a_norm_of_its_own, rule)
    assert first == second
    assert first[1] == DELTA + 1


def unlike_histories():
    params, optimizer = params_and_optimizer("auto")
    train(params, optimizer, gradients("steady")[:5, 0])
    state = optimizer.state_dict()
    if dist.get_rank() == 1:
        state["state"][0]["variance_norms"] *= 2
    optimizer.load_state_dict(state)
    try:
        train(params, optimizer, gradients("steady")[5:6, 0])
    except RuntimeError as error:
        return str(error)
    return "nothing"


def test_norms_that_differ_after_a_load_are_told():
    for said in pool(2).call(unlike_histories):
        assert "the workers must agree on norms of the variance" in said


def told_before_and_after_a_load(rule, n_steps):
    params, optimizer = params_and_optimizer(rule)
    train(params, optimizer, gradients("steady")[:n_steps, 0])
    again = params_and_optimizer(rule)[1]
    again.load_state_dict(optimizer.state_dict())
    return optimizer.stats().freeze_diagnosis, again.stats().freeze_diagnosis


@pytest.mark.parametrize("n_steps", [1, DELTA - 1, DELTA, DELTA + 1])
@pytest.mark.parametrize("rule", RULES)
def test_the_diagnosis_is_the_same_after_a_load(rule, n_steps):
    ((before, after),) = pool(1).call(told_before_and_after_a_load, rule, n_steps)
    assert before == after


def hooked(kind):
    params, optimizer = params_and_optimizer("auto", kind)

    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.params = params

        def forward(self, grad_D):
            parts = zip(params.values(), grad_D.split(list(ARRAYS.values())), strict=True)
            return sum((param.view(-1) * part).sum() for param, part in parts)

    model = network = Network()
    if kind is HookedOneBitAdam:
        model = nn.parallel.DistributedDataParallel(network)
        optimizer.attach(model)
    for grad_D in gradients("growing")[:, dist.get_rank()]:
        optimizer.zero_grad()
        model(torch.from_numpy(grad_D)).backward()
        optimizer.step()
    return flat(params).tobytes(), optimizer.stats().frozen_at


def test_the_hook_freezes_in_the_same_step():
    assert pool(2).call(hooked, HookedOneBitAdam) == pool(2).call(hooked, OneBitAdam)


def bytes_of_a_warm_up_step(freeze_step):
    _, optimizer = stopped_at(3, freeze_step, {}, gradients("steady"))
    return optimizer.stats().bytes_last_step


def test_a_rule_costs_8_bytes_a_parameter_and_step():
    with_rule, without = (pool(2).call(bytes_of_a_warm_up_step, freeze_step) for freeze_step in ("auto", 100))
    assert [a - b for a, b in zip(with_rule, without, strict=True)] == [8 * len(SHAPES)] * 2


# --- which parameters count ---


def beside(frozen_at_most):
    """A group that joins in step 8, one that does not freeze, a coordinate whose v overflows."""
    params, optimizer = params_and_optimizer("auto")
    wild, late = nn.Parameter(torch.ones(8)), nn.Parameter(torch.ones(3, 3))
    optimizer.add_param_group({"params": [("wild", wild)], "non_freeze": True, "betas": (0.9, 0.9999)})
    for t, grad_D in enumerate(gradients("steady")[:, 0], start=1):
        wild.grad = torch.full((8,), 2.0**t)
        if t == 8:
            optimizer.add_param_group({"params": [("latest", late)]})
        late.grad = torch.ones(3, 3)
        grad_D[0] = 1e21 if t == 3 else grad_D[0]
        train(params, optimizer, grad_D[None])
        assert t > frozen_at_most or optimizer.stats().freeze_diagnosis
    return optimizer.stats().frozen_at


def test_late_comers_count_from_when_they_joined_and_non_freeze_groups_never():
    """The late one's corrected norm is constant from its first step, which is step 8."""
    assert pool(1).call(beside, STEPS) == [8 + DELTA]


def test_norms_of_parameters_of_any_size():
    """Large ones are summed in pieces, and what has overflowed is left out."""
    sizes = (3, PIECE - 1, PIECE, PIECE + 1, 2 * PIECE, 2 * PIECE + 9, 1)
    params = [nn.Parameter(torch.ones(size)) for size in sizes]
    optimizer = OneBitAdam(params, freeze_step="auto", bucket_elements=ONE_BUCKET)
    for param in params:
        param.grad = torch.rand(param.shape, generator=torch.Generator().manual_seed(param.numel()))
    params[4].grad[-1] = 1e21
    optimizer.step()
    for param, norm in zip(params, norms_of(optimizer.run).tolist(), strict=True):
        v = optimizer.state[param]["exp_avg_sq"].double()
        exact = math.fsum(v[torch.isfinite(v)].tolist())
        assert abs(norm - exact) <= rounding.gamma(param.numel(), "float64") * exact
        assert bool(torch.isfinite(v).all()) == (param is not params[4])


# --- steps without a gradient before the first one ---


def late_start(rule, grads_TD, n_empty):
    params, optimizer = params_and_optimizer(rule)
    for _ in range(n_empty):
        optimizer.step()
    early = optimizer.stats().freeze_diagnosis
    train(params, optimizer, grads_TD)
    return early, optimizer.stats().frozen_at, flat(params).tobytes()


@pytest.mark.parametrize("n_empty", [1, DELTA + 5])
@pytest.mark.parametrize("rule", RULES)
def test_empty_steps_before_the_first_gradient_count_as_gradients_of_zero(rule, n_empty):
    """The rules wait: there is no norm of v to compare with before Delta steps have passed since the first gradient."""
    grads_TND = gradients("steady", n=1)
    silence = np.zeros((n_empty, 1, DIM), np.float32)
    _, _, last = the_reference(rule, np.concatenate([silence, grads_TND]))
    ((early, frozen_at, params_D),) = pool(1).call(late_start, rule, grads_TND[:, 0], n_empty)
    assert "too early to tell" in early
    assert n_empty + DELTA < frozen_at == last.frozen_at
    assert params_D == last.params.tobytes()


@pytest.mark.parametrize(("n_empty", "level"), [(2, "INFO"), (3, "WARNING")])
def test_a_freeze_before_any_gradient_is_a_warning(n_empty, level, caplog):
    """An integer does not wait for gradients: all coordinates are dead then, and the run would never move."""
    caplog.set_level("INFO", "onebit")
    late_start(3, gradients("steady", n=1)[:1, 0], n_empty)
    (record,) = [one for one in caplog.records if one.name == "onebit"]
    dead = DIM if level == "WARNING" else 0
    assert (record.levelname, record.getMessage()) == (
        level,
        f"variance frozen after step 3; {dead} of {DIM} coordinates have zero variance",
    )
