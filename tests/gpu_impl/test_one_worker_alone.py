"""What one worker does and the others don't: told on all of them in one sentence, never an abort."""

from __future__ import annotations

import pytest
import torch
from optimizer_support import model, new, pool, train
from torch import distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from gpu_impl import (
    HookedOneBitAdam,
    OneBitAdam,
    gathered_state_dict,
    leave_gradients_local,
    load_checkpoint,
    save_checkpoint,
)
from gpu_impl.harness.worker_pool import WorkerPool


def alone(what, folder):
    """Worker 1 does something alone, and then all take a step."""
    params = model()
    optimizer = new(params)
    train(params, optimizer, range(1, 8))
    save_checkpoint(folder, optimizer, params)
    saved = optimizer.state_dict()
    try:
        if dist.get_rank() == 1:
            if what == "save":
                save_checkpoint(folder, optimizer, params)
            elif what == "load":
                load_checkpoint(folder, optimizer, params)
            elif what == "gather":
                gathered_state_dict(optimizer)
            elif what == "group":
                optimizer.add_param_group({"params": [nn.Parameter(torch.ones(60))] * 1, "non_freeze": True})
            elif what == "many":
                more = [nn.Parameter(torch.ones(1)) for _ in range(60)]
                optimizer.add_param_group({"params": more, "non_freeze": True})
            elif what == "state":
                train(params, optimizer, [])
                optimizer.load_state_dict(saved)
        train(params, optimizer, [8])
    except RuntimeError as error:
        return str(error)
    return "nothing"


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("save", "rank 0 called step() and rank 1 called save_checkpoint(): all workers must call the same"),
        ("load", "rank 0 called step() and rank 1 called load_checkpoint(): all workers must call the same"),
        ("gather", "rank 0 called step() and rank 1 called a gathered state_dict(): all workers must call the same"),
        ("group", "the workers must agree on the number of parameter groups: rank 0 has 1, rank 1 has 2"),
        ("many", "the workers must agree on the number of parameter groups: rank 0 has 1, rank 1 has 2"),
        ("state", "nothing"),
    ],
)
def test_it_is_told_on_all(what, message, tmp_path):
    """It ended in SIGABRT, for gloo got two collectives at once."""
    for said in pool(2).call(alone, what, tmp_path):
        assert message in said


def unfrozen_by_one():
    """Worker 1 turns on a parameter that has never been on."""
    params = model()
    params[3].requires_grad_(False)
    optimizer = new(params)
    said = []
    for t in range(1, 5):
        if (t == 3 and dist.get_rank() == 1) or t == 4:
            params[3].requires_grad_(True)
        try:
            train(params, optimizer, [t], change=lambda _, grads: without(grads, params))
        except RuntimeError as error:
            said.append(str(error))
    return said, optimizer.steps


def without(grads, params):
    return [grad if param.requires_grad else None for grad, param in zip(grads, params, strict=True)]


def test_what_one_worker_unfreezes_alone_is_told_and_can_be_mended():
    for said, steps in pool(2).call(unfrozen_by_one):
        (message,) = said
        assert "requires_grad of parameter 3: rank 0 has False, rank 1 has True" in message
        assert steps == 3


def in_another_order():
    """Biases of equal shape and value, in another order on worker 1."""
    net = nn.ModuleDict({"a": nn.Linear(3, 3), "b": nn.Linear(3, 3)})
    for param in net.parameters():
        nn.init.constant_(param, 0.5)
        param.grad = torch.ones_like(param)
    named = list(net.named_parameters())
    optimizer = new(named if dist.get_rank() == 0 else [named[k] for k in (2, 1, 0, 3)])
    try:
        optimizer.step()
    except RuntimeError as error:
        return str(error)
    return "nothing"


def test_names_in_another_order_on_one_worker_are_told():
    for said in pool(2).call(in_another_order):
        assert "the name of parameter 0: rank 0 has 'a.weight', rank 1 has 'b.weight'" in said


def wrapped_later():
    net = nn.Linear(6, 3)
    nn.init.ones_(net.weight)
    nn.init.ones_(net.bias)
    optimizer = new(net.parameters())
    net(torch.ones(2, 6)).sum().backward()
    optimizer.step()
    ddp = DistributedDataParallel(net)
    ddp(torch.ones(2, 6)).sum().backward()
    try:
        optimizer.step()
    except RuntimeError as error:
        return str(error)
    return "nothing"


def test_a_model_that_is_wrapped_after_the_first_step_is_refused():
    for said in pool(2).call(wrapped_later):
        assert "DistributedDataParallel averages these gradients in full precision" in said


def without_a_group():
    params = model()
    optimizer = new(params)
    train(params, optimizer, range(1, 8))
    dist.destroy_process_group()
    said = []
    for action in (lambda: train(params, optimizer, [8], rank=0), lambda: save_checkpoint("nowhere", optimizer)):
        try:
            action()
        except RuntimeError as error:
            said.append(str(error))
    return said


def test_a_process_group_that_was_destroyed_is_told():
    with WorkerPool(2) as workers:
        for said in workers.call(without_a_group):
            assert len(said) == 2
            for one in said:
                assert "the process group was destroyed: call torch.distributed.init_process_group()" in one
                assert "died" not in one
            assert "of step 8 failed" in said[0]
            assert "of save_checkpoint() without a model failed" in said[1], "step 7 had succeeded"


def hooked_by_one():
    net = nn.Linear(4, 2)
    ddp = DistributedDataParallel(net)
    if dist.get_rank() == 0:
        optimizer = HookedOneBitAdam(net.parameters(), freeze_step=3)
        optimizer.attach(ddp)
    else:
        optimizer = OneBitAdam(leave_gradients_local(ddp).parameters(), freeze_step=3)
    try:
        ddp(torch.ones(3, 4)).sum().backward()
        optimizer.step()
    except RuntimeError as error:
        return str(error)
    return "nothing"


def test_the_hook_on_one_worker_only():
    """It ended in SIGABRT, too."""
    with WorkerPool(2) as workers:  # torch's DDP can't be used after an error in its backward pass
        for said in workers.call(hooked_by_one):
            assert said.startswith("rank 0 called backward() of HookedOneBitAdam and rank 1 called step(): all workers")
