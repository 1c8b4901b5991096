"""A step, a save and a load of one optimizer: one at a time; and what ends in the middle is told."""

from __future__ import annotations

import copy
import pickle
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import distributed as dist
from torch import nn
from torch.distributed.checkpoint import FileSystemReader, state_dict_loader, state_dict_saver

from gpu_impl import OneBitAdam, OneBitLamb, ZeroOneAdam, load_checkpoint, save_checkpoint, warm_start
from gpu_impl.harness.worker_pool import WorkerPool
from gpu_impl.optimizer import state as state_module
from gpu_impl.optimizer.one_at_a_time import LOAD, STEP, OneAtATime
from theory.rounding import gamma


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


def test_what_an_interruption_ended_is_under_way_no_more():
    """Though its traceback is kept, as a program does in ``except``."""
    one = OneAtATime()

    def ended_between_two_lines():
        one.during(STEP).__enter__()
        raise TimeIsOverError

    with pytest.raises(TimeIsOverError) as kept:
        ended_between_two_lines()
    with one.during(LOAD), pytest.raises(RuntimeError, match="a load of this optimizer is under way"), one.during(STEP):
        pass
    del kept


@pytest.mark.parametrize("kind", [OneBitAdam, ZeroOneAdam, OneBitLamb])
def test_the_state_can_be_copied_and_pickled_and_the_inside_can_not(kind):
    model = nn.Linear(64, 64)
    optimizer = kind(model.parameters(), lr=1e-3, freeze_step=2)
    for _ in range(5):
        model(torch.randn(3, 64)).square().mean().backward()
        optimizer.step()
        copied, pickled = copy.deepcopy(optimizer.state), pickle.loads(pickle.dumps(optimizer.state))
    for other in (copied, pickled):
        assert len(other) == 2
        for mine, its in zip(optimizer.state.values(), other.values(), strict=True):
            assert mine.keys() == its.keys()
            assert all(torch.equal(torch.as_tensor(mine[name]), torch.as_tensor(its[name])) for name in mine)
    for copied_by in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="copy the optimizer itself, or its state_dict"):
            copied_by(optimizer.run)
    with pytest.raises(TypeError, match="copy the optimizer itself"):
        copy.deepcopy(vars(optimizer))


def test_what_a_signal_handler_raises_in_a_load_is_raised(tmp_path, monkeypatch):
    """Torch calls the reason of every failure its own; the checkpoint is whole."""
    model = nn.Linear(4, 4)
    optimizer = OneBitAdam(model.parameters(), freeze_step=2)
    save_checkpoint(tmp_path, optimizer, model)
    read = FileSystemReader.read_data

    def interrupted(*arguments):
        read(*arguments)
        raise TimeIsOverError

    for name in ("read_data", "read_metadata"):
        with monkeypatch.context() as patch:
            patch.setattr(FileSystemReader, name, interrupted if name == "read_data" else raising)
            with pytest.raises(TimeIsOverError):
                load_checkpoint(tmp_path, optimizer, model)
    load_checkpoint(tmp_path, optimizer, model)


def raising(*_):
    raise TimeIsOverError


@pytest.mark.parametrize("call", ["save", "load"])
def test_a_signal_with_a_handler_takes_effect_between_two_stages(call, tmp_path, monkeypatch):
    """Of an alarm too: torch would take its exception for a damaged file. It comes again, and is told once."""
    model = nn.Linear(4, 4)
    optimizer = OneBitAdam(model.parameters(), freeze_step=2)
    save_checkpoint(tmp_path, optimizer, model)
    ended, told = [], []
    place = (state_dict_saver, "save") if call == "save" else (FileSystemReader, "read_data")
    function = getattr(*place)

    def alarmed(*arguments, **keywords):
        for _ in range(3):
            signal.raise_signal(signal.SIGALRM)
        result = function(*arguments, **keywords)
        ended.append(True)
        return result

    def handler(*_):
        told.append(len(ended))
        raise TimeIsOverError

    before = signal.signal(signal.SIGALRM, handler)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(*place, alarmed)
            with pytest.raises(TimeIsOverError):
                (save_checkpoint if call == "save" else load_checkpoint)(tmp_path, optimizer, model)
        assert signal.getsignal(signal.SIGALRM) is handler
    finally:
        signal.signal(signal.SIGALRM, before)
    assert len(told) == 1
    assert told[0] == len(ended) > 0
    load_checkpoint(tmp_path, optimizer, model)


def test_a_load_ends_a_block_that_was_interrupted_as_it_was_left():
    model = nn.Linear(4, 4)
    optimizer = ZeroOneAdam(model.parameters(), lr=1e-3, freeze_step=2, local_doubling=1, local_limit=4)
    for _ in range(9):
        model(torch.randn(3, 4)).square().mean().backward()
        optimizer.step()
    saved, weights = optimizer.state_dict(), copy.deepcopy(model.state_dict())
    optimizer._is_home = True  # where a signal leaves it between two lines
    with pytest.raises(RuntimeError, match="or load a checkpoint if it was interrupted"):
        optimizer.step()
    model.load_state_dict(weights)
    optimizer.load_state_dict(saved)
    optimizer.step()


def interrupted_as_they_meet(call, folder):
    """Ctrl-C on one worker in the first exchange: it waits for the end of it, and is told to all."""
    model = nn.Linear(4, 4)
    optimizer = OneBitAdam(model.parameters(), freeze_step=2)
    save_checkpoint(folder, optimizer, model)
    meet = optimizer.meet

    def interrupted(occasion):
        signal.raise_signal(signal.SIGINT)
        meet(occasion)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a pool's workers leave Ctrl-C to their parent
    if dist.get_rank() == 0:
        optimizer.meet = interrupted
    with pytest.raises((KeyboardInterrupt, RuntimeError)) as caught:
        {"save": save_checkpoint, "load": load_checkpoint}[call](folder, optimizer, model)
    if dist.get_rank() == 0:
        optimizer.meet = meet
    signal.signal(signal.SIGINT, before)
    load_checkpoint(folder, optimizer, model)
    return type(caught.value).__name__, str(caught.value)


@pytest.mark.parametrize("call", ["save", "load"])
def test_ctrl_c_in_the_first_exchange_is_told_to_all(call, tmp_path):
    first, second = WorkerPool.of(2).call(interrupted_as_they_meet, call, tmp_path)
    assert first[0] == "KeyboardInterrupt"
    assert second == ("RuntimeError", "rank 0: was interrupted (KeyboardInterrupt)")


ROUNDINGS = 8
"""Of a step and of what is read off it: v + floor, root, + eps, 1/, times m, times lr, x less that, and m itself."""


def test_a_parameter_that_pauses_changes_the_floor_of_no_other():
    """In one buffer: P of the small one is what it is when the large one takes part."""
    moved, slack = [], []
    for pauses in (False, True):
        large, small = nn.Parameter(torch.zeros(64)), nn.Parameter(torch.zeros(64))
        optimizer = ZeroOneAdam([large, small], lr=1e-3, freeze_step=5, local_limit=1)
        random = torch.Generator().manual_seed(0)
        for t in range(1, 10):
            gradients = torch.randn(64, generator=random), 1e-4 * torch.randn(64, generator=random)
            large.grad, small.grad = gradients if not (pauses and t >= 6) else (None, gradients[1])
            before = small.detach().clone()
            optimizer.step()
        momentum, step = optimizer.state[small]["exp_avg"].abs(), (small.detach() - before).abs()
        moved.append(step / momentum)
        slack.append(gamma(ROUNDINGS, "float32") * (before.abs() + step) / momentum)
    assert bool(((moved[0] - moved[1]).abs() <= slack[0] + slack[1]).all())


def with_ratio(saved, value):
    changed = copy.deepcopy(saved)
    for state in changed["state"].values():
        state["last_ratio"] = value.clone()
    return changed


@pytest.mark.parametrize(
    ("name", "value"),
    [("last_ratio", -1.0), ("last_ratio", 0.0), ("last_ratio", 1e30), ("trust_mean", -1.0), ("trust_mean", 1e30),
     ("layer_scale", 0.0), ("layer_scale", -2.0)],
)  # fmt: skip
def test_numbers_that_no_run_of_lamb_has_are_refused(name, value):
    model = nn.Linear(8, 8)
    optimizer = OneBitLamb(model.parameters(), lr=1e-3, freeze_step=2)
    for _ in range(6):
        model(torch.randn(3, 8)).square().mean().backward()
        optimizer.step()
    saved = optimizer.state_dict()
    optimizer.load_state_dict(saved)
    most = torch.tensor(1.1, dtype=torch.float32).double()  # the largest as float32 holds it, which is above 1.1
    narrow = OneBitLamb(model.parameters(), lr=1e-3, freeze_step=2, max_ratio=1.1, min_ratio=0.1)
    torch.set_default_dtype(torch.float64)
    try:
        narrow.load_state_dict(with_ratio(saved, most))
    finally:
        torch.set_default_dtype(torch.float32)
    saved["state"][0][name] = torch.tensor(value, dtype=torch.float64)
    with pytest.raises(ValueError, match=f"{name} of parameter 0 is"):
        optimizer.load_state_dict(saved)


@pytest.mark.parametrize("spoil", [
    lambda saved: saved["state"].__setitem__(0, None),
    lambda saved: saved["param_groups"][0].__setitem__("params", [[0], 1]),
    lambda saved: saved["state"][0].__setitem__("ignored_of_0", torch.tensor(1j)),
    lambda saved: saved["state"][0].__setitem__("frozen", [1]),
    lambda saved: saved["param_groups"][0].__setitem__("onebit", 3),
])  # fmt: skip
@pytest.mark.parametrize("kind", [OneBitAdam, ZeroOneAdam, OneBitLamb])
def test_a_state_with_something_of_another_kind_is_refused_in_a_sentence(kind, spoil):
    model = nn.Linear(8, 8)
    optimizer = kind(model.parameters(), lr=1e-3, freeze_step=2)
    model(torch.randn(3, 8)).square().mean().backward()
    optimizer.step()
    saved = optimizer.state_dict()
    spoil(saved)
    with pytest.raises(ValueError, match="state"):
        optimizer.load_state_dict(saved)
    optimizer.step()
