"""A step, a save and a load of one optimizer: what begins in the middle of another one is refused."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn

from gpu_impl import OneBitAdam, OneBitLamb, ZeroOneAdam, load_checkpoint, save_checkpoint


@pytest.mark.parametrize("kind", [OneBitAdam, ZeroOneAdam, OneBitLamb])
def test_nothing_is_read_or_loaded_while_a_step_is_under_way(kind, tmp_path, monkeypatch):
    """As a signal handler or another thread would; the step itself goes on."""
    model = nn.Linear(8, 8)
    optimizer = kind(model.parameters(), lr=1e-3, freeze_step=2)
    saved, told, take_step = optimizer.state_dict(), [], optimizer.take_step
    calls = [
        optimizer.state_dict,
        lambda: save_checkpoint(tmp_path / "new", optimizer, model),
        lambda: optimizer.load_state_dict(saved),
        optimizer.step,
    ]

    def interrupted(*arguments):
        for moment in (lambda: take_step(*arguments), lambda: None):
            for call in calls:
                with pytest.raises(RuntimeError) as caught:
                    call()
                told.append(str(caught.value))
            moment()

    monkeypatch.setattr(optimizer, "take_step", interrupted)
    for t in range(1, 5):
        model.weight.grad, model.bias.grad = torch.full((8, 8), float(t)), torch.ones(8)
        optimizer.step()
    assert len(told) == 4 * 2 * len(calls)
    assert all(one.startswith("a step of this optimizer is under way") for one in told)
    assert not (tmp_path / "new").exists()
    assert optimizer.stats().step == 4


@pytest.mark.parametrize("kind", [OneBitAdam, ZeroOneAdam, OneBitLamb])
def test_nothing_begins_while_a_save_or_a_load_is_under_way(kind, tmp_path):
    """Not below a signal handler, in this thread, nor in another one; and what was saved is whole."""
    model, told = nn.Linear(8, 8), []
    optimizer = kind(model.parameters(), lr=1e-3, freeze_step=2)

    def train(steps):
        for t in range(1, steps + 1):
            model.weight.grad, model.bias.grad = torch.full((8, 8), float(t)), torch.ones(8)
            optimizer.step()

    train(5)
    saved = optimizer.state_dict()
    calls = [
        optimizer.step,
        lambda: optimizer.load_state_dict(saved),
        lambda: save_checkpoint(tmp_path / "new", optimizer, model),
        lambda: load_checkpoint(tmp_path, optimizer, model),
        lambda: optimizer.add_param_group({"params": [nn.Parameter(torch.ones(1))], "non_freeze": True}),
    ]

    def one(call):
        with pytest.raises(RuntimeError) as caught:
            call()
        told.append(str(caught.value).partition(" of this optimizer is under way")[0])

    def interrupt(*_):
        for call in calls:
            one(call)
            with ThreadPoolExecutor() as other:
                other.submit(one, call).result()

    kept = {name: value.clone() for name, value in model.state_dict().items()}
    handle = model.register_state_dict_post_hook(interrupt)
    save_checkpoint(tmp_path, optimizer, model)
    handle.remove()
    assert told == ["a save"] * 2 * len(calls)
    told.clear()
    handle = optimizer.register_state_dict_post_hook(interrupt)
    optimizer.state_dict()
    handle.remove()
    assert told == ["a read of the state"] * 2 * len(calls)
    told.clear()
    train(3)
    calls.append(optimizer.state_dict)
    handle = model.register_load_state_dict_post_hook(interrupt)
    load_checkpoint(tmp_path, optimizer, model)
    handle.remove()
    assert told == ["a load"] * 2 * len(calls)
    assert all(torch.equal(value, kept[name]) for name, value in model.state_dict().items())
    assert optimizer.stats().step == 5
    assert not (tmp_path / "new").exists()
