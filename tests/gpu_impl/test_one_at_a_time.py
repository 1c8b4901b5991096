"""A step, a save and a load of one optimizer: one at a time; and what ends in the middle is told."""

from __future__ import annotations

import copy
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn
from torch.distributed.checkpoint import state_dict_loader, state_dict_saver

from gpu_impl import OneBitAdam, OneBitLamb, ZeroOneAdam, load_checkpoint, save_checkpoint, warm_start
from gpu_impl.optimizer import state as state_module


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


class TimeIsOverError(Exception):
    """As a user's signal handler raises it."""


@pytest.mark.parametrize("how", ["load_state_dict", "load_checkpoint", "one state", "warm_start", "the model"])
@pytest.mark.parametrize("kind", [OneBitAdam, ZeroOneAdam, OneBitLamb])
def test_a_load_that_ends_in_the_middle_is_told_until_the_next(kind, how, tmp_path, monkeypatch):
    """Nothing is saved or stepped from what it left; a whole load goes on."""
    if how == "warm_start" and kind is not OneBitAdam:
        pytest.skip("it is for OneBitAdam")
    model = nn.Linear(8, 8)
    optimizer = kind(model.parameters(), lr=1e-3, freeze_step=2)

    def step(optimizer):
        model.weight.grad, model.bias.grad = torch.randn(8, 8), torch.ones(8)
        optimizer.step()

    adam = torch.optim.Adam(model.parameters())
    step(adam)
    if how != "warm_start":
        for _ in range(5):
            step(optimizer)
    saved, one = copy.deepcopy(optimizer.state_dict()), copy.deepcopy(optimizer.state[model.weight])
    save_checkpoint(tmp_path, optimizer, model, keep=1)
    loads = {
        "load_state_dict": lambda: optimizer.load_state_dict(saved),
        "load_checkpoint": lambda: load_checkpoint(tmp_path, optimizer, model),
        "the model": lambda: load_checkpoint(tmp_path, optimizer, model),
        "one state": lambda: optimizer.state.__setitem__(model.weight, one),
        "warm_start": lambda: warm_start(optimizer, adam.state_dict()),
    }

    def interrupted(*_):
        raise TimeIsOverError

    with monkeypatch.context() as patch:
        if how == "the model":
            patch.setattr(model, "load_state_dict", interrupted)
        else:
            patch.setattr(state_module, "_load_bucket", interrupted)
        with pytest.raises(TimeIsOverError):
            loads[how]()
    for call in (optimizer.state_dict, optimizer.step, lambda: save_checkpoint(tmp_path, optimizer, model, keep=1)):
        with pytest.raises(
            RuntimeError, match=r"in the middle of a step or a load \(TimeIsOverError\): load a checkpoint"
        ):
            call()
    load_checkpoint(tmp_path, optimizer, model)
    again = optimizer.state_dict()
    for number, expected in saved["state"].items():
        assert all(torch.equal(torch.as_tensor(again["state"][number][name]), torch.as_tensor(value))
                   for name, value in expected.items())  # fmt: skip
    step(optimizer)


@pytest.mark.parametrize("load", ["load_state_dict", "load_checkpoint"])
def test_what_is_registered_for_after_a_load_may_read_the_state(load, tmp_path):
    model, seen = nn.Linear(4, 4), []
    optimizer = OneBitAdam(model.parameters(), freeze_step=2)
    optimizer.register_load_state_dict_post_hook(lambda one: seen.append(one.state_dict()))
    save_checkpoint(tmp_path, optimizer, model)
    if load == "load_state_dict":
        optimizer.load_state_dict(optimizer.state_dict())
    else:
        load_checkpoint(tmp_path, optimizer, model)
    assert len(seen) == 1


def test_a_want_of_memory_is_not_told_as_damage(tmp_path, monkeypatch):
    model = nn.Linear(4, 4)
    optimizer = OneBitAdam(model.parameters(), freeze_step=2)
    save_checkpoint(tmp_path, optimizer, model)

    def no_memory(*_, **__):
        raise RuntimeError("[enforce fail at alloc_cpu.cpp:127] . DefaultCPUAllocator: can't allocate memory")

    for place in ((torch, "empty_like"), (state_dict_loader, "load")):
        with monkeypatch.context() as patch:
            patch.setattr(*place, no_memory)
            with pytest.raises(RuntimeError, match=r"not enough memory to read .* nothing says that the checkpoint is"):
                load_checkpoint(tmp_path, optimizer, model)
    load_checkpoint(tmp_path, optimizer, model)


def test_what_a_signal_handler_raises_in_a_save_is_raised(tmp_path, monkeypatch):
    """Torch ends the file all the same, and says that it is too short."""
    model = nn.Linear(4, 4)
    optimizer = OneBitAdam(model.parameters(), freeze_step=2)
    save_checkpoint(tmp_path, optimizer, model)

    def interrupted(*_, **__):
        try:
            raise TimeIsOverError
        finally:
            raise RuntimeError("[enforce fail at inline_container.cc:672] . unexpected pos 251 vs 221")

    with monkeypatch.context() as patch:
        patch.setattr(state_dict_saver, "save", interrupted)
        with pytest.raises(TimeIsOverError):
            save_checkpoint(tmp_path, optimizer, model)
    load_checkpoint(tmp_path, optimizer, model)
