"""States that come from elsewhere: torch's Adam and AdamW, and a checkpoint as DeepSpeed 0.19.6 writes it."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from optimizer_support import flat, gradients, model, new, pool, record, train
from test_optimizer_steps import snapshot

from gpu_impl import warm_start
from verification.protocol import Hyper, Traits
from verification.relation.step import StepRelation


def after_adam(kind, bias_correction):
    """Seven steps of torch's optimizer, then ours beside it in the warm-up; then the freeze."""
    params, twins = model(), model()
    adam = kind(twins, lr=1e-2, weight_decay=0.0)
    mean = lambda t: [(a + b) / 2 for a, b in zip(gradients(params, 0, t), gradients(params, 1, t), strict=True)]  # noqa: E731
    for t in range(1, 8):
        for twin, grad in zip(twins, mean(t), strict=True):
            twin.grad = grad
        adam.step()
    with torch.no_grad():
        for param, twin in zip(params, twins, strict=True):
            param.copy_(twin)
    optimizer = new(params, freeze_step=10, bias_correction=bias_correction)
    warm_start(optimizer, adam.state_dict())
    far = 0.0
    for t in range(8, 14):
        train(params, optimizer, [t])
        for twin, grad in zip(twins, mean(t), strict=True):
            twin.grad = grad
        adam.step()
        if t <= 10:
            apart = [float((p - q).detach().abs().max()) for p, q in zip(params, twins, strict=True)]
            far = max(far, *apart)
    return far, optimizer.stats(), flat(params).tobytes()


@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.AdamW])
def test_adam_goes_on_as_our_warm_up(kind):
    rows = pool(2).call(after_adam, kind, True)
    for far, stats, _ in rows:
        assert far < 1e-5  # a step moves by about lr = 1e-2
        assert (stats.step, stats.frozen_at, stats.phase) == (13, 10, "compressed")
    assert rows[0][2] == rows[1][2]
    assert pool(2).call(after_adam, kind, False)[0][0] > 1e-4, "without the correction the steps are others"


FORMS = (
    {"compress": "update"},
    {"scale_block": 16},
    {"frozen_dtype": "bfloat16"},
    {"compress": "update", "scale_block": 16, "frozen_dtype": "bfloat16"},
)


def in_a_form(form):
    """Seven steps of torch's Adam, and 13 more of ours from its state: over the freeze and into the compression."""
    params, twins = model(), model()
    adam = torch.optim.Adam(twins, lr=1e-2)
    for t in range(1, 8):
        for twin, *grads in zip(twins, gradients(params, 0, t), gradients(params, 1, t), strict=True):
            twin.grad = sum(grads) / 2
        adam.step()
    params.load_state_dict(twins.state_dict())
    optimizer = new(params, freeze_step=10, bias_correction=True, **form)
    warm_start(optimizer, adam.state_dict())
    return *record(params, optimizer, range(8, 21)), optimizer.stats()


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_a_warm_start_goes_on_in_every_form(form):
    """Every step obeys the relation: what the freeze makes of Adam's m and v too."""
    runs = pool(2).call(in_a_form, form)
    hyper = Hyper(lr=1e-2, freeze_step=10, bias_correction=True, variance_floor=1e-3, **form)
    (states, grads, stats), (others, more, _) = runs
    assert (stats.phase, stats.frozen_at, stats.step) == ("compressed", 10, 20)
    befores = [snapshot([mine[0], theirs[0]]) for mine, theirs in zip(states, others, strict=True)]
    assert befores[0].step == 7
    for t, (before, after) in enumerate(pairwise(befores)):
        grads_ND = np.stack([grads[t][0], more[t][0]])
        assert StepRelation(before, grads_ND, after, hyper, Traits()).findings() == []


def stepped(kind, **settings):
    """An optimizer of torch after two steps."""
    params = model()
    other = kind(params, **settings)
    for _ in range(2):
        for param in params:
            param.grad = torch.ones_like(param)
        other.step()
    return other.state_dict()


ADAM = torch.optim.Adam
OTHERS = [
    ("SGD", {"lr": 0.1, "momentum": 0.9}), ("RMSprop", {}), ("Adamax", {}), ("NAdam", {}), ("RAdam", {}),
    ("Adagrad", {}), ("Adadelta", {}), ("Rprop", {}), ("ASGD", {}),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "settings"), OTHERS)
def test_the_state_of_another_optimizer_is_refused(kind, settings):
    with pytest.raises(ValueError, match=r"not the state_dict of torch\.optim\.Adam or AdamW"):
        warm_start(new(model()), stepped(getattr(torch.optim, kind), **settings))


def changed(change):
    state = stepped(ADAM)
    change(state["state"])
    return state


def nan_in_m(states):
    states[1]["exp_avg"][0] = float("nan")


def negative_v(states):
    states[2]["exp_avg_sq"][3] = -1e-9


def missing(states):
    del states[4]


def other_steps(states):
    states[3]["step"] = torch.tensor(7.0)


def half_a_step(states):
    states[0]["step"] = torch.tensor(1.5)


def complex_v(states):
    states[0]["exp_avg_sq"] = states[0]["exp_avg_sq"].to(torch.complex64)


def sparse_m(states):
    states[0]["exp_avg"] = states[0]["exp_avg"].to_sparse()


def endless_steps(states):
    states[0]["step"] = 10**400


def no_variance(states):
    del states[0]["exp_avg_sq"]


DAMAGES = {
    nan_in_m: "exp_avg of parameter 1 is not finite",
    negative_v: "exp_avg_sq of parameter 2 is below 0",
    missing: "nothing for parameter 4: Adam has never had a gradient for it",
    other_steps: "parameter 3 has taken 7 steps and those before it 2",
    half_a_step: r"parameter 0 has taken 1\.5 steps",
    complex_v: "exp_avg_sq of parameter 0 is no tensor of floats",
    sparse_m: "exp_avg of parameter 0 is no tensor of floats",
    endless_steps: "parameter 0 has taken 10{79} steps",
    no_variance: "parameter 0 has no step, exp_avg and exp_avg_sq",
}


@pytest.mark.parametrize("change", DAMAGES, ids=lambda change: change.__name__)
def test_a_state_that_adam_can_not_be_in_is_refused_and_nothing_changes(change):
    optimizer = new(model())
    with pytest.raises(ValueError, match=DAMAGES[change]):
        warm_start(optimizer, changed(change))
    assert optimizer.steps == 0
    assert not any(bool(one["exp_avg"].any()) for one in optimizer.state_dict()["state"].values())


def test_what_is_no_adam_is_refused():
    optimizer = new(model())
    for state, message in (
        ({}, "not the state_dict of an optimizer"),
        (torch.optim.AdamW(model()), r"got an optimizer: pass its state_dict\(\)"),
        (3, "not the state_dict of an optimizer"),
        (stepped(ADAM, amsgrad=True), "made with amsgrad=True"),
        (stepped(ADAM, maximize=True), "made with maximize=True"),
        (torch.optim.AdamW(model()[:2]).state_dict(), "other parameter groups"),
        (torch.optim.AdamW(model()).state_dict(), "nothing for parameter 0"),
    ):
        with pytest.raises(ValueError, match=message):
            warm_start(optimizer, state)
    params = model()
    used = new(params)
    train(params, used, [1], rank=0)
    with pytest.raises(RuntimeError, match="has taken no step yet"):
        warm_start(used, torch.optim.AdamW(params).state_dict())
    with pytest.raises(ValueError, match="takes a OneBitAdam first, got AdamW"):
        warm_start(torch.optim.AdamW(params), stepped(ADAM))
