"""``freeze_diagnosis`` says in every state what the optimizer for torch says, word for word but "arrays"."""

import numpy as np
import pytest
import torch

from gpu_impl import OneBitAdam as ForTorch
from reference import load, save
from reference.optimizers.one_bit_adam import OneBitAdam

ARRAYS = {"W": 6, "b": 2}
DIM, STEPS = 8, 26


def gradients(kind):
    """(T, D); the window is 10 steps."""
    grads_TD, t_T = np.ones((STEPS, DIM)), np.arange(STEPS)
    if kind == "zero":
        grads_TD[:] = 0
    if kind == "late":
        grads_TD[:5] = 0
    if kind == "one wakes up":
        grads_TD[:5, 6:] = 0
    if kind == "falling":
        grads_TD *= 0.7 ** t_T[:, None]
    if kind == "growing":
        grads_TD *= 1.3 ** t_T[:, None]
    if kind == "skipped":
        grads_TD[3, 0] = np.nan
    return grads_TD.astype(np.float32)


KINDS = ("steady", "zero", "late", "one wakes up", "falling", "growing", "skipped")
RULES = (1, 13, 1000, "auto", "paper")


def both(rule, *, lr_warmup_steps=0):
    """The optimizer for torch with its parameters, and the reference."""
    params = {name: torch.nn.Parameter(torch.ones(size)) for name, size in ARRAYS.items()}
    hyper = {"lr": 1e-3, "freeze_step": rule, "lr_warmup_steps": lr_warmup_steps}
    for_torch = ForTorch(list(params.items()), betas=(0.9, 0.9), **hyper)
    return params, for_torch, OneBitAdam(beta2=0.9, arrays=ARRAYS, **hyper)


def said_by(for_torch):
    return for_torch.stats().freeze_diagnosis.replace("parameters", "arrays")


def run(rule, grads_TD, **hyper):
    """Both optimizers after these gradients, the state of the reference, and what it said at the start and later on."""
    params, for_torch, reference = both(rule, **hyper)
    state = reference.init(np.ones(DIM, np.float32), 1)
    said = [reference.freeze_diagnosis(state)]
    assert said[0] == said_by(for_torch)
    for grad_D in grads_TD:
        for param, part in zip(params.values(), np.split(grad_D, [6]), strict=True):
            param.grad = torch.from_numpy(part.copy())
        for_torch.step()
        state = reference.step(state, grad_D[None])
        said.append(reference.freeze_diagnosis(state))
        assert said[-1] == said_by(for_torch)
    return for_torch, reference, state, said


@pytest.mark.one_in(3)
@pytest.mark.parametrize("lr_warmup_steps", [0, 20])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rule", RULES)
def test_it_is_torch_s_before_every_step_and_after_the_last(rule, kind, lr_warmup_steps):
    run(rule, gradients(kind), lr_warmup_steps=lr_warmup_steps)


def test_every_sentence_is_among_them():
    """So that the comparison above compares something."""
    said = set()
    for rule, kind in ((13, "zero"), ("auto", "one wakes up"), ("paper", "falling")):
        said.update(run(rule, gradients(kind))[-1])
    said.update(run("auto", gradients("steady"), lr_warmup_steps=20)[-1])
    for sentence in (
        "step 7: the warm-up ends after step 13",
        "frozen at step 13",
        "step 10: too early to tell, norms are compared over 10 steps",
        "step 12: v has settled; lr_warmup_steps=20 is not over",
    ):
        assert sentence in said
    for part in ("1 of 2 arrays moved by more than 4%, b most, which was 0 then;", "v still falls: its norm is 0."):
        assert any(part in sentence for sentence in said), part


@pytest.mark.parametrize("rule", ["auto", "paper"])
def test_while_there_was_no_gradient_nothing_has_settled(rule):
    """It said so, for from zero to zero is no change."""
    assert run(rule, gradients("zero"))[-1][-1] == f"step {STEPS}: too early to tell, v was 0 10 steps ago"


def test_what_was_loaded_past_its_freeze_step():
    for_torch, _, state, _ = run(1000, gradients("steady")[:12])
    _, sooner, reference = both(5)
    sooner.load_state_dict(for_torch.state_dict())
    said = reference.freeze_diagnosis(load(save(state)))
    assert said == said_by(sooner)
    assert said == "step 12: what was loaded is not frozen; freeze_step=5 is over, so the next step ends the warm-up"


def test_what_was_loaded_past_its_warm_up_of_the_learning_rate():
    for_torch, _, state, _ = run("auto", gradients("steady")[:12], lr_warmup_steps=20)
    _, sooner, reference = both("auto", lr_warmup_steps=5)
    sooner.load_state_dict(for_torch.state_dict())
    says = "step 12: v has settled; lr_warmup_steps=5 is over, so the next step may end the warm-up"
    assert reference.freeze_diagnosis(state) == said_by(sooner) == says
