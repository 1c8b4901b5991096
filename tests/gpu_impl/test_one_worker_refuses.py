"""What only one worker does is told on all: another order of two optimizers, a step that it refuses, a model."""

from __future__ import annotations

import copy
import re
import time

import pytest
from optimizer_support import model, new, pool, train
from torch import distributed as dist

from gpu_impl import load_checkpoint, save_checkpoint


def error_of(action):
    try:
        action()
    except (RuntimeError, TypeError, ValueError) as error:
        return type(error).__name__, str(error)
    return "", ""


def step_two(swapped_at, steps=4):
    """Two optimizers alike, stepped in another order by the last rank in one step."""
    pairs = [(params := model(), new(params, freeze_step=2)) for _ in range(2)]
    copied = copy.deepcopy(pairs[1][1]) if dist.get_rank() == 0 else None  # a copy is none of them
    told = []
    for t in range(1, steps + 1):
        is_other = t == swapped_at and dist.get_rank() == dist.get_world_size() - 1
        for params, optimizer in reversed(pairs) if is_other else pairs:
            told.append(error_of(lambda params=params, optimizer=optimizer, t=t: train(params, optimizer, [t])))
            if told[-1][0]:
                return told[-1]
    return copied is None or copied.run.number == 0


@pytest.mark.parametrize("swapped_at", [1, 2, 4])
def test_two_optimizers_in_another_order(swapped_at):
    for kind, sentence in pool(2).call(step_two, swapped_at):
        assert kind == "WorkersDisagreeError"
        assert re.search("which of a process's optimizers this is: .* in the same order$", sentence)


def test_two_optimizers_in_one_order():
    assert pool(2).call(step_two, 0) == [True, True]


def refuse(how, at):
    """A step that the last rank can't take: what each rank is told, after how many seconds."""
    params = model()
    optimizer = new(params, freeze_step=2)
    train(params, optimizer, range(1, at))
    is_last = dist.get_rank() == dist.get_world_size() - 1
    if how == "lr" and is_last:
        optimizer.param_groups[0]["lr"] = float("nan")

    def change(_, grads):
        return [grads[0].to_sparse(), *grads[1:]] if how == "sparse" and is_last else grads

    start = time.monotonic()
    said = error_of(lambda: train(params, optimizer, [at], change=change))
    return said, time.monotonic() - start, optimizer.steps


@pytest.mark.parametrize(
    ("how", "kind", "sentence"),
    [
        ("lr", "ValueError", "lr must be a finite number >= 0, got nan"),
        ("sparse", "TypeError", "a gradient has layout torch.sparse_coo"),
    ],
)
@pytest.mark.parametrize("at", [1, 2, 3, 5])
def test_a_step_that_one_worker_refuses(how, kind, sentence, at):
    *others, last = pool(3).call(refuse, how, at)
    assert last[0][0] == kind
    assert last[0][1].startswith(sentence)
    for said, seconds, steps in others:
        assert said[0] == "WorkersDisagreeError"
        assert said[1].startswith(f"rank 2 could not take the step: {sentence}")
        assert seconds < 1800 / 3  # a third of what a collective waits here for a rank
        assert steps == at - 1


def with_a_model_on_rank_0(folder):
    params = model()
    optimizer = new(params, freeze_step=2)
    given = params if dist.get_rank() == 0 else None
    save = error_of(lambda: save_checkpoint(folder, optimizer, given))
    save_checkpoint(folder, optimizer, params)
    return save, error_of(lambda: load_checkpoint(folder, optimizer, given))


def test_a_model_that_only_one_worker_gives(tmp_path):
    rule = "all workers must call the same, in the same order"
    sentences = [
        f"rank 0 called {call} and rank 1 called {call} without a model: {rule}"
        for call in ("save_checkpoint()", "load_checkpoint()")
    ]
    expected = tuple(("WorkersDisagreeError", sentence) for sentence in sentences)
    assert pool(2).call(with_a_model_on_rank_0, tmp_path) == [expected, expected]
    assert len(list(tmp_path.iterdir())) == 1


def assign(everywhere, at):
    """A state of ones assigned to the first parameter before a step, by the last rank or by all."""
    params = model()
    optimizer = new(params, freeze_step=2)
    train(params, optimizer, range(1, at))
    if everywhere or dist.get_rank() == dist.get_world_size() - 1:
        state = optimizer.state[params[0]]
        optimizer.state[params[0]] = {**state, "exp_avg": state["exp_avg"] + 1}
    return error_of(lambda: train(params, optimizer, [at]))


@pytest.mark.parametrize("at", [2, 5])
def test_a_state_that_one_worker_assigns(at):
    for kind, sentence in pool(2).call(assign, False, at):
        assert kind == "WorkersDisagreeError"
        assert "the workers must agree on variance and momentum" in sentence
    assert pool(2).call(assign, True, at) == [("", "")] * 2
