"""The rules C10 end the warm-up where the reference's do, on all workers alike, and over a checkpoint."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
import torch
import torch.distributed.checkpoint as dcp
from hypothesis import given, settings
from hypothesis import strategies as st
from optimizer_support import ONE_BUCKET, pool
from state_format_4.make import RUNS, param_and_optimizer
from state_format_4.make import __file__ as made_by
from state_format_4.make import train as train_as_made
from torch import distributed as dist
from torch import nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

from gpu_impl import HookedOneBitAdam, OneBitAdam, load_checkpoint, resize_state_dicts, save_checkpoint
from gpu_impl.optimizer.bucket import PIECE
from gpu_impl.optimizer.freeze import norms_of
from gpu_impl.optimizer.freeze_rule import FreezeRule
from reference import OneBitAdam as Reference
from reference.optimizers import freeze_rule
from reference.state import State
from theory import rounding

BETA2, DELTA = 0.9, 10
SHAPES = {"W": (5, 8), "b": (16,), "late": (8,)}
"""Multiples of 8 elements: no padding, so that one bucket is the reference's flat array."""

ARRAYS = {name: int(np.prod(shape)) for name, shape in SHAPES.items()}
DIM = sum(ARRAYS.values())
STEPS = 90
TOGETHER = {"bucket_elements": ONE_BUCKET, "lr": 1e-2}


def gradients(kind, n=2):
    """(T, n, D), of mean 1 unless ``kind`` says otherwise."""
    rng = np.random.default_rng(3)
    grads_TND = 1 + 0.05 * rng.standard_normal((STEPS, n, DIM))
    t_T = np.arange(STEPS)[:, None, None]
    if kind == "growing":
        grads_TND *= 1.1 ** np.minimum(t_T, 20)
    if kind == "falling":
        grads_TND[0] *= 12  # v begins far above where it will stay
    if kind == "in turn":  # the sum of v stands still while one array hands over to the other
        share_T = np.sqrt(np.linspace(0.9, 0.1, 25).tolist() + [0.1] * (STEPS - 25))
        grads_TND[:, :, :40] *= share_T[:, None, None]
        grads_TND[:, :, 40:] *= np.sqrt((1 - share_T**2) * 40 / 24)[:, None, None]
    if kind == "one wakes up":
        grads_TND[:5, :, 56:] = 0
    if kind == "skipped":
        grads_TND[4, 0, 0] = np.nan
    return grads_TND.astype(np.float32)


def params_and_optimizer(rule, kind=OneBitAdam, **hyper):
    params = nn.ParameterDict({name: nn.Parameter(torch.ones(shape)) for name, shape in SHAPES.items()})
    return params, kind(params.named_parameters(), freeze_step=rule, betas=(0.9, BETA2), **{**TOGETHER, **hyper})


def train(params, optimizer, grads_TD, first=0):
    for grad_D in grads_TD[first:]:
        at = 0
        for param in params.values():
            param.grad = torch.from_numpy(grad_D[at : at + param.numel()].copy()).view(param.shape)
            at += param.numel()
        optimizer.step()


def flat(params):
    return torch.cat([param.detach().reshape(-1) for param in params.values()]).numpy().copy()


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
    worst = {"in turn": "3 of 3 parameters", "one wakes up": "late most, by +inf%", "steady": "lr_warmup_steps=30"}
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


# --- in a state ---


def stopped_at(at, rule, hyper, grads_TND):
    params, optimizer = params_and_optimizer(rule, **hyper)
    train(params, optimizer, grads_TND[:at, dist.get_rank()])
    return params, optimizer


def resumed(at, rule, kind, way, folder, grads_TND):
    """Saved after step ``at``, and trained on beside a run that was resumed from it in new objects."""
    params, optimizer = stopped_at(at, rule, {}, grads_TND)
    fresh, again = params_and_optimizer(rule)
    if way == "state_dict":
        again.load_state_dict(optimizer.state_dict())
        fresh.load_state_dict(params.state_dict())
    elif way == "folder":
        save_checkpoint(folder, optimizer, params)
        load_checkpoint(folder, again, fresh)
    else:
        options = StateDictOptions(flatten_optimizer_state_dict=way == "flat dcp")
        weights, state = get_state_dict(params, optimizer, options=options)
        dcp.save({"model": weights, "optimizer": state}, checkpoint_id=folder)
        weights, state = get_state_dict(fresh, again, options=options)
        dcp.load({"model": weights, "optimizer": state}, checkpoint_id=folder)
        set_state_dict(fresh, again, model_state_dict=weights, optim_state_dict=state, options=options)
    ends = []
    for some, one in ((params, optimizer), (fresh, again)):
        train(some, one, grads_TND[:, dist.get_rank()], first=at)
        ends.append((flat(some).tobytes(), one.stats()))
    return ends


@pytest.mark.parametrize("way", ["state_dict", "folder", "dcp", "flat dcp"])
@pytest.mark.parametrize("at", [0, 7, 50, 70])
def test_a_resumed_run_freezes_where_it_would_have(way, at, tmp_path):
    """Before there are norms, while they are compared, and after the freeze, where the state still has the key."""
    for straight, again in pool(2).call(resumed, at, "auto", "growing", way, tmp_path, gradients("growing")):
        assert straight == again
        assert 50 < straight[1].frozen_at <= 50 + DELTA, "so that norms from before step 50 decide"


def state_at(at, grads_TND):
    _, optimizer = stopped_at(at, "auto", {}, grads_TND)
    return optimizer.state_dict()


def from_state(state, at, grads_TND):
    params, optimizer = params_and_optimizer("auto")
    optimizer.load_state_dict(state)
    kept = [row.tolist() for row in optimizer.run.freeze_rule.norms]
    train(params, optimizer, grads_TND[:, dist.get_rank()], first=at)
    return kept, optimizer.stats().frozen_at


def test_another_number_of_workers_goes_on_with_the_norms():
    """In the warm-up nothing is owed, and the mean of equal gradients is the same for any number of workers."""
    grads_TND = np.repeat(gradients("growing", n=1), 3, axis=1)
    states = pool(2).call(state_at, 50, grads_TND)
    wanted = states[0]["state"][0]["variance_norms"].tolist()
    three = resize_state_dicts(states, 3)
    rows = pool(3).map(from_state, [(state, 50, grads_TND) for state in three])
    ((kept, frozen_at),) = pool(1).call(from_state, resize_state_dicts(states, 1)[0], 50, grads_TND)
    assert [row[0] for row in kept] == wanted
    assert rows == [(kept, frozen_at)] * 3
    assert 50 < frozen_at <= 50 + DELTA


def keys_of(rule, at):
    _, optimizer = stopped_at(at, rule, {}, gradients("growing", n=1))
    return {name: tuple(value.shape) for name, value in optimizer.state_dict()["state"][0].items() if name != "frozen"}


def test_only_a_rule_has_norms_in_the_state_and_in_every_phase():
    for at in (0, 7, 70):
        ((with_rule, without),) = [(pool(1).call(keys_of, "auto", at)[0], pool(1).call(keys_of, 5, at)[0])]
        assert set(with_rule) - set(without) == {"variance_norms"}
        assert with_rule["variance_norms"] == (DELTA + 1,)


def sharded_norms():
    """Of a model that is sharded over two ranks, on two replicas; and of the full tensors."""
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(7, 3), nn.Linear(3, 1))
    for layer in net:
        fully_shard(layer, mesh=mesh["shard"])
    fully_shard(net, mesh=mesh["shard"])
    group = mesh["replicate"].get_group()
    optimizer = OneBitAdam(net.parameters(), freeze_step="auto", betas=(0.9, BETA2), lr=1e-3, process_group=group)
    for t in range(1, 30):
        optimizer.zero_grad()
        net(torch.full((2, 7), 1.0 + t % 2)).square().mean().backward()
        optimizer.step()
        if t == 4:
            states = optimizer.state_dict()["state"]
            whole = [states[k]["exp_avg_sq"].full_tensor().double().sum().item() for k in range(4)]
            found = norms_of(optimizer.run).tolist()
            assert not any(isinstance(states[k]["variance_norms"], DTensor) for k in range(4))
    return found, whole, optimizer.stats().frozen_at


def test_norms_of_a_sharded_model_are_those_of_whole_parameters():
    rows = pool(4).call(sharded_norms)
    for found, whole, frozen_at in rows:
        assert (np.abs(np.subtract(found, whole)) <= 2 * rounding.gamma(21, "float64") * np.array(whole)).all()
        assert min(whole) > 0
        assert (found, frozen_at) == (rows[0][0], rows[0][2])


# --- states of format 4, which had one norm for all of v ---


def of_format_4(name, **hyper):
    saved = torch.load(made_by.replace("make.py", f"{name}.pt"), weights_only=True)
    param, optimizer = param_and_optimizer({**RUNS[name][1], **hyper})
    optimizer.load_state_dict(saved["state"])
    with torch.no_grad():
        param.copy_(saved["param"])
    train_as_made(param, optimizer, range(RUNS[name][0] + 1, RUNS[name][0] + 7))
    return param, optimizer, saved


def test_a_state_of_format_4_goes_on_to_the_bit():
    param, optimizer, saved = of_format_4("compressed")
    assert saved["state"]["param_groups"][0]["onebit"]["format"] == "onebit-adam-state-4"
    assert torch.equal(param, saved["later"])
    assert optimizer.state_dict()["param_groups"][0]["onebit"]["format"] == "onebit-adam-state-5"


def test_a_rule_begins_to_compare_anew_after_a_state_of_format_4():
    """The window is 5 steps: the published rule, which was "auto" then, would have fired in step 6."""
    _, optimizer, saved = of_format_4("warm-up", freeze_step="paper")
    assert len(saved["state"]["param_groups"][0]["onebit"]["variance_norms"]) > 2
    assert optimizer.steps == 10
    assert optimizer.stats().frozen_at in (None, 10)
    assert torch.equal(of_format_4("warm-up", freeze_step=100)[1].state_dict()["state"][0]["step"], torch.tensor(10.0))
