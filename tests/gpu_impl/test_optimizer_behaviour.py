"""Steps that are skipped, workers that disagree or die, arguments that are refused, one worker alone."""

from __future__ import annotations

import io
import itertools
import logging
import math
import os
import signal
import warnings
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from optimizer_support import SHAPES, flat, full_state, gradients, model, new, pool, train
from torch import distributed as dist
from torch import nn

from gpu_impl import OneBitAdam, OneBitLamb, ZeroOneAdam
from gpu_impl.harness.worker_pool import WorkerDiedError, WorkerPool
from gpu_impl.optimizer import run as run_module

ALL_STEPS = range(1, 12)


# --- steps that are skipped ---


def skip(value, max_grad_norm):
    """Whether a step with ``value`` in one gradient of the last rank left all as it was, in each phase."""
    params = model()
    optimizer = new(params, bucket_elements=60, max_grad_norm=max_grad_norm)
    same = []
    for t in range(1, 9):
        train(params, optimizer, [t])
        before = [{name: array.tobytes() for name, array in part.items()} for part in full_state(optimizer)]

        def spoil(_, grads):
            if dist.get_rank() == dist.get_world_size() - 1:
                grads[-1].view(-1)[3] = value
            return grads

        train(params, optimizer, [t], change=spoil)
        after = [{name: array.tobytes() for name, array in part.items()} for part in full_state(optimizer)]
        same.append(before == after and optimizer.steps == t and optimizer.skipped_steps == t)
    return same, optimizer.phase


@pytest.mark.parametrize(("value", "clip"), [(float("nan"), None), (float("inf"), 1.0), (-float("inf"), None)])
def test_not_finite_on_one_rank_skips_on_all(value, clip):
    for same, phase in pool(3).call(skip, value, clip):
        assert same == [True] * 8
        assert phase == "compressed"


# --- workers that disagree, or die ---


def disagree(what):
    rank = dist.get_rank()
    params = model(seed=rank if what == "values" else 0)
    if what == "shape" and rank == 2:
        params[1] = nn.Parameter(torch.ones(2))
    for param in params[: {"frozen": 1, "all frozen": len(params)}.get(what, 0) * (rank == 1)]:
        param.requires_grad_(requires_grad=False)
    optimizer = new(
        params, lr=0.01 if what == "lr" and rank == 2 else 0.001, freeze_step=4 if rank or what != "T_w" else 5
    )
    for t in range(1, 10):
        if what == "schedule" and rank == 1 and t == 8:
            optimizer.param_groups[0]["lr"] = 0.5
        try:
            train(params, optimizer, [t])
        except RuntimeError as error:
            return str(error), t
    return "nothing", 0


@pytest.mark.parametrize(
    ("what", "message", "step"),
    [
        ("lr", "the workers must agree on lr: rank 0 has 0.001, rank 2 has 0.01", 1),
        ("T_w", "freeze_step: rank 0 has 5, rank 1 has 4", 1),
        ("shape", "the shape of parameter 1: rank 0 has (1,), rank 2 has (2,)", 1),
        ("frozen", "requires_grad of parameter 0: rank 0 has True, rank 1 has False", 1),
        ("all frozen", "requires_grad of parameter 0: rank 0 has True, rank 1 has False", 1),
        ("values", "torch.distributed.broadcast(p.data, src=0)", 1),
        ("schedule", "lr: rank 0 has 0.001, rank 1 has 0.5", 8),
        ("nothing", "nothing", 0),
    ],
)
def test_workers_that_disagree_are_told(what, message, step):
    for said, at in pool(3).call(disagree, what):
        assert message in said
        assert at == step


FAMILY = {"OneBitAdam": OneBitAdam, "OneBitLamb": OneBitLamb, "ZeroOneAdam": ZeroOneAdam}


def step_with(kinds):
    params = model()
    try:
        train(params, FAMILY[kinds[dist.get_rank()]](params, freeze_step=5), [1])
    except RuntimeError as error:
        return str(error)
    return "nothing"


@pytest.mark.parametrize("kinds", [*itertools.permutations(FAMILY, 2)], ids=" and ".join)
def test_workers_with_different_optimizers_are_told_which(kinds):
    """A setting that only one of them has was named."""
    says = f"the workers must agree on the optimizer: rank 0 has '{kinds[0]}', rank 1 has '{kinds[1]}'"
    assert pool(2).call(step_with, kinds) == [says, says]


def die_on_the_way(at):
    params = model()
    optimizer = new(params, bucket_elements=60)
    train(params, optimizer, range(1, at))
    if dist.get_rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        train(params, optimizer, [at])
    except RuntimeError as error:
        message = str(error)
    try:
        optimizer.step()
    except RuntimeError as error:
        return message, str(error)
    finally:
        dist.destroy_process_group()  # as a process that ends does: whoever waits for this one is told
    return message, "nothing"


@pytest.mark.usefixtures("no_hurry")
@pytest.mark.parametrize("at", [3, 9])
def test_a_dead_worker_is_one_sentence_for_the_others(at):
    with WorkerPool(3) as workers:
        outcomes = workers.outcomes(die_on_the_way, [(at,)] * 3)
    assert isinstance(outcomes[1], WorkerDiedError)
    for message, again in (outcomes[0], outcomes[2]):
        assert f"of step {at} failed, so another worker has probably died" in message
        assert "\n" not in message
        assert again != "nothing"


# --- arguments ---


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"lr": -1.0}, "lr must be a finite number >= 0, got -1.0"),
        ({"lr": np.float32(0.1)}, r"got np.float32\(0.1\): write .item\(\) behind it"),
        ({"lr": 10**400}, "lr must be a number that float32 can hold, got 1000"),
        ({"betas": (0.9, 10**400)}, "beta2 must be a number that float32 can hold, got 1000"),
        ({"lr": 1e39}, "lr must be a number that float32 can hold, got 1e"),
        ({"eps": 1e-60}, "eps must be a number that float32 can hold, got 1e-60"),
        ({"lr": "fast"}, "lr must be a finite number >= 0, got 'fast'"),
        ({"lr": torch.ones(2)}, r"lr must be a number or a tensor of one element, got shape \(2,\)"),
        ({"betas": (0.9, 1.0)}, r"beta2 must lie in \[0, 1\), got 1.0"),
        ({"betas": 0.9}, "betas must be two numbers, got 0.9"),
        ({"eps": 0.0}, "eps must be a finite number > 0, got 0.0"),
        ({"weight_decay": float("nan")}, "weight_decay must be a finite number >= 0, got nan"),
        ({"freeze_step": 0}, 'freeze_step must be an integer >= 1, "auto" or "paper", got 0'),
        ({"freeze_step": "soon"}, 'freeze_step must be an integer >= 1, "auto" or "paper", got \'soon\''),
        ({"scale": "max"}, "scale must be 'l1' or 'l2', got 'max'"),
        ({"variance_floor": -1}, "variance_floor must be a finite number >= 0, got -1"),
        ({"bias_correction": 1}, "bias_correction must be True or False, got 1"),
        ({"max_grad_norm": 0.0}, "max_grad_norm must be a finite number > 0, got 0.0"),
        ({"bucket_elements": 0}, "bucket_elements must be an integer >= 1, got 0"),
        ({"lr_warmup_steps": 1.5}, "lr_warmup_steps must be an integer >= 0, got 1.5"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        new([nn.Parameter(torch.ones(3))], **arguments)


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        (torch.ones(3, dtype=torch.complex64), "complex parameters can't be compressed to signs"),
        (torch.ones(3, dtype=torch.float64), "must be float32, bfloat16 or float16, got torch.float64"),
    ],
)
def test_bad_parameters(tensor, message):
    with pytest.raises(TypeError, match=message):
        new([nn.Parameter(tensor)])


def test_sparse_gradients_are_refused():
    embedding = nn.Embedding(5, 2, sparse=True)
    optimizer = new(embedding.parameters())
    embedding(torch.tensor([1, 2])).sum().backward()
    with pytest.raises(TypeError, match="use sparse=False"):
        optimizer.step()


def test_one_worker_without_a_process_group(caplog):
    params = model()
    optimizer = new(params)
    with caplog.at_level(logging.INFO, logger="onebit"), warnings.catch_warnings():
        warnings.simplefilter("error")
        train(params, optimizer, ALL_STEPS, rank=0)
    assert optimizer.stats().phase == "compressed"
    assert optimizer.stats().bytes_sent == 0
    assert "variance frozen after step 5; 0 of 115 coordinates have zero variance" in caplog.text
    assert sum(math.prod(shape) for shape in SHAPES) == 115


# --- the first step ---


def interrupted_first_step(params, optimizer):
    """A first step that ends when some of the parameters have been laid out."""

    def parcel(*arguments):
        whole(*arguments)
        raise KeyboardInterrupt

    whole, run_module.Parcel = run_module.Parcel, parcel
    try:
        with pytest.raises(KeyboardInterrupt):
            train(params, optimizer, [1])
    finally:
        run_module.Parcel = whole


def first_step_interrupted():
    """What a second step and a save say after a first step that was interrupted."""
    goes_on = model()
    optimizer = new(goes_on, freeze_step=3)
    interrupted_first_step(goes_on, optimizer)
    said = []
    for call in (lambda: train(goes_on, optimizer, [1]), optimizer.state_dict):
        try:
            call()
        except RuntimeError as error:
            said.append(str(error))
    return said


def test_a_first_step_that_was_interrupted_is_told_by_all_that_follow():
    """Parameters without a buffer never moved again, without a word."""
    for said in pool(2).call(first_step_interrupted):
        assert len(said) == 2
        assert all("stopped in the middle of a step or a load (KeyboardInterrupt)" in line for line in said)


def loaded_after_an_interrupted_first_step(steps):
    params = model()
    other = new(params, freeze_step=3)
    train(params, other, range(1, steps + 1))
    state, values = other.state_dict(), flat(params)
    goes_on = model(seed=1)
    optimizer = new(goes_on, freeze_step=3)
    interrupted_first_step(goes_on, optimizer)
    with torch.no_grad():
        for param, value in zip(goes_on, params, strict=True):
            param.copy_(value)
    optimizer.load_state_dict(state)
    assert flat(goes_on).tobytes() == values.tobytes()
    for some, their in ((params, other), (goes_on, optimizer)):
        train(some, their, range(steps + 1, steps + 4))
    return flat(params), flat(goes_on)


@pytest.mark.parametrize("steps", [2, 5])
def test_a_checkpoint_makes_it_whole_again(steps):
    for whole, goes_on in pool(2).call(loaded_after_an_interrupted_first_step, steps):
        assert whole.tobytes() == goes_on.tobytes()


@contextmanager
def making(dtype):
    """Within, torch makes tensors of this type."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def with_default_dtype(dtype):
    """Training, saving and loading; gradients and parameters are made as always."""
    hyper = {"freeze_step": 3, "variance_floor": 1e-3, "bias_correction": True}
    params, later = model(), model()
    with making(dtype):
        optimizer, resumed = new(params, **hyper), new(later, **hyper)
    for t in range(1, 10):
        if t == 7:
            with torch.no_grad():
                for param, value in zip(later, params, strict=True):
                    param.copy_(value)
            with making(dtype):
                resumed.load_state_dict(optimizer.state_dict())
            params, optimizer = later, resumed
        for param, grad in zip(params, gradients(params, dist.get_rank(), t), strict=True):
            param.grad = grad
        with making(dtype):
            optimizer.step()
    return flat(later)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_the_default_dtype_changes_nothing(dtype):
    usual = pool(2).call(with_default_dtype, torch.float32)
    for params_D, other_D in zip(usual, pool(2).call(with_default_dtype, dtype), strict=True):
        assert params_D.tobytes() == other_D.tobytes()


def test_a_number_of_float16_is_refused_where_it_equals_the_float_before():
    model = nn.Linear(4, 4)
    optimizer = OneBitAdam(model.parameters(), lr=1e-3, freeze_step=2)
    for name, wrong in [("lr", np.float16(1e-3)), ("betas", (np.float16(0.9), 0.999))]:
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
        right = optimizer.param_groups[0][name]
        assert wrong == right
        optimizer.param_groups[0][name] = wrong
        with pytest.raises(ValueError, match=r"np.float16.*: write .item"):
            optimizer.step()
        optimizer.param_groups[0][name] = right


def test_numbers_of_numpy_anywhere_in_a_group_are_saved_as_python_s():
    model = nn.Linear(4, 4)
    optimizer = OneBitAdam(model.parameters(), freeze_step=2)
    optimizer.param_groups[0]["betas"] = (np.float64(0.9), np.float64(0.99))
    optimizer.param_groups[0]["note"] = {"seen": [np.int64(3), (np.float32(0.5),)]}
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    file = io.BytesIO()
    torch.save(optimizer.state_dict(), file)
    file.seek(0)
    group = torch.load(file, weights_only=True)["param_groups"][0]
    assert (group["betas"], group["note"]) == ((0.9, 0.99), {"seen": [3, (0.5,)]})


def test_numbers_of_numpy_in_a_group_are_saved_as_python_s():
    model = nn.Linear(4, 4)
    optimizer = OneBitAdam(model.parameters(), freeze_step=2)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda t: np.cos(t / 60))
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.ones(2, 4)).square().mean().backward()
        optimizer.step()
        scheduler.step()
    assert isinstance(optimizer.param_groups[0]["lr"], np.float64)
    file = io.BytesIO()
    torch.save(optimizer.state_dict(), file)
    file.seek(0)
    (group,) = torch.load(file, weights_only=True)["param_groups"]
    assert (type(group["lr"]), group["lr"]) == (float, optimizer.param_groups[0]["lr"])
