"""The DDP hook and its optimizer are OneBitAdam at another time: the same bits, whatever DDP does with its buckets."""

from __future__ import annotations

import gc
import io
import re
from contextlib import nullcontext

import pytest
import torch
from torch import distributed as dist
from torch import nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

from gpu_impl import OneBitAdam, resize_state_dicts
from gpu_impl.harness.worker_pool import WorkerPool
from gpu_impl.optimizer.ddp_hook import HookedOneBitAdam
from gpu_impl.optimizer.ddp_inbox import Inbox

FREEZE_STEP, STEPS = 3, 9
HYPER = {"lr": 1e-2, "freeze_step": FREEZE_STEP, "weight_decay": 0.1, "bias_correction": True}


class Network(nn.Module):
    """Uneven sizes, a layer that only some batches use, an embedding row that comes late, an empty parameter."""

    def __init__(self, dtype=torch.float32):
        super().__init__()
        torch.manual_seed(0)
        self.rows = nn.Embedding(5, 7)
        self.wide, self.sometimes, self.last = nn.Linear(7, 33), nn.Linear(33, 33), nn.Linear(33, 3)
        self.empty = nn.Parameter(torch.zeros(0))
        self.to(dtype)

    def forward(self, tokens, with_all=True):
        h = functional.relu(self.wide(self.rows(tokens)))
        if with_all:
            h = h + self.sometimes(h)
        return self.last(h) + self.empty.sum()


def backward(model, t, *, nan_steps=(), with_all=True):
    random = torch.Generator().manual_seed(1000 * t + dist.get_rank())
    tokens = torch.randint(4 if t <= FREEZE_STEP else 5, (6,), generator=random)  # row 4 comes when it is dead
    loss = model(tokens, with_all).float().square().mean()
    if t in nan_steps and dist.get_rank() == dist.get_world_size() - 1:
        loss = loss * float("nan")
    loss.backward()


def state_of(optimizer):
    """Everything that a step may change, on this worker."""
    parts = [torch.tensor([float(optimizer.steps), float(optimizer.skipped_steps)])]
    for _, bucket in optimizer.run.pairs():
        parts += [bucket.flat.weights, bucket.flat.master, bucket.momentum, bucket.variance]
        parts += [bucket.worker.u_scale, bucket.worker.ignored, bucket.server.w, bucket.server.w_scale]
        parts += [bucket.exchange.shared, bucket.exchange.live]
    return [part.clone() for part in parts]


def train(kind, dtype, unused, options, ddp_options, nan_steps):
    """The state after every step."""
    network = Network(dtype)
    optimizer = kind(network.parameters(), **HYPER | options)
    model = network
    if kind is HookedOneBitAdam:
        model = DistributedDataParallel(network, **ddp_options)
        optimizer.attach(model)
    states = []
    for t in range(1, STEPS + 1):
        optimizer.zero_grad()
        backward(model, t, nan_steps=nan_steps, with_all=not unused or t % 2 == 0)
        if kind is OneBitAdam:  # what DDP delivers for a parameter that was not used
            for param in network.parameters():
                param.grad = torch.zeros_like(param) if param.grad is None else param.grad
        optimizer.step()
        states.append(state_of(optimizer))
    return states


def equal(left, right):
    """Bitwise, NaN included."""
    return all(
        torch.equal(a.contiguous().view(torch.uint8), b.contiguous().view(torch.uint8))
        for a, b in zip(left, right, strict=True)
    )


SMALL = {"bucket_cap_mb": 0.002}


@pytest.mark.parametrize(
    ("n", "dtype", "unused", "options", "ddp_options", "nan_steps"),
    [
        (1, torch.float32, False, {}, {}, ()),
        (2, torch.float32, False, {"bucket_elements": 300, "backend": "torch"}, SMALL, (2, 4, 7)),
        (3, torch.float32, False, {"bucket_elements": 300}, SMALL | {"gradient_as_bucket_view": True}, (4,)),
        (3, torch.float32, True, {"scale": "l1"}, SMALL | {"find_unused_parameters": True}, ()),
        (2, torch.bfloat16, False, {"bucket_elements": 300}, SMALL, (8,)),
        (2, torch.float32, False, {"freeze_step": "paper", "betas": (0.9, 0.5)}, SMALL, (4,)),
    ],
)
def test_every_step_is_that_of_one_bit_adam_to_the_bit(n, dtype, unused, options, ddp_options, nan_steps):
    pool = WorkerPool.of(n)
    hooked = pool.call(train, HookedOneBitAdam, dtype, unused, options, ddp_options, nan_steps)
    plain = pool.call(train, OneBitAdam, dtype, unused, options, ddp_options, nan_steps)
    for mine, theirs in zip(hooked, plain, strict=True):
        for t, (left, right) in enumerate(zip(mine, theirs, strict=True), start=1):
            assert equal(left, right), f"step {t}"
    assert plain[0][-1][0][1] == len(nan_steps)


def resumed(stop, then, ddp_options):
    """The last state, when a run stops after step ``stop`` and continues in new objects from its state_dict."""
    network = Network()
    optimizer = HookedOneBitAdam(network.parameters(), **HYPER)
    model = DistributedDataParallel(network, **ddp_options)
    optimizer.attach(model)
    for t in range(1, STEPS + 1):
        optimizer.zero_grad()
        backward(model, t)
        optimizer.step()
        if t == stop:
            saved = optimizer.state_dict(), {k: v.clone() for k, v in network.state_dict().items()}
            file = io.BytesIO()
            torch.save(saved, file)
            file.seek(0)
            own, values = torch.load(file, weights_only=True)
            network = Network()
            network.load_state_dict(values)
            optimizer = then(network.parameters(), **HYPER)
            optimizer.load_state_dict(own)
            model = network
            if then is HookedOneBitAdam:
                model = DistributedDataParallel(network, **ddp_options)
                optimizer.attach(model)
    return state_of(optimizer)


@pytest.mark.parametrize("then", [HookedOneBitAdam, OneBitAdam])
@pytest.mark.parametrize("stop", [1, FREEZE_STEP, FREEZE_STEP + 1, FREEZE_STEP + 3])
def test_a_resumed_run_continues_to_the_same_bits(stop, then):
    """DDP rebuilds its buckets after its first backward pass: here in the warm-up, at the freeze and after it."""
    options = SMALL | {"gradient_as_bucket_view": True}
    pool = WorkerPool.of(2)
    straight = pool.call(train, HookedOneBitAdam, torch.float32, False, {}, options, ())
    for states, last in zip(straight, pool.call(resumed, stop, then, options), strict=True):
        assert equal(states[-1], last)


def stop_at(stop):
    network = Network()
    optimizer = OneBitAdam(network.parameters(), **HYPER)
    for t in range(1, stop + 1):
        optimizer.zero_grad()
        backward(network, t)
        optimizer.step()
    return optimizer.state_dict(), network.state_dict()


def go_on(kind, own, values, start):
    """From a resized state; the first step is skipped."""
    network = Network()
    network.load_state_dict(values)
    optimizer = kind(network.parameters(), **HYPER)
    optimizer.load_state_dict(own)
    model = network
    if kind is HookedOneBitAdam:
        model = DistributedDataParallel(network, **SMALL)
        optimizer.attach(model)
    for t in range(start, start + 3):
        optimizer.zero_grad()
        backward(model, t, nan_steps=(start,))
        optimizer.step()
    return state_of(optimizer)


def test_after_a_change_of_the_number_of_workers_too():
    stop = FREEZE_STEP + 2
    saved = WorkerPool.of(2).call(stop_at, stop)
    own = resize_state_dicts([state for state, _ in saved], 3)
    rows = [(state, saved[0][1], stop + 1) for state in own]
    pool = WorkerPool.of(3)
    hooked, plain = (pool.map(go_on, [(kind, *row) for row in rows]) for kind in (HookedOneBitAdam, OneBitAdam))
    assert all(map(equal, hooked, plain))


def complete_at_each_start():
    """How many of the optimizer's buckets have all their gradients, when the exchange of each begins."""
    seen, begin = [], Inbox.begin

    def watched(inbox, run):
        seen.append(sum(one.is_complete for one in optimizer._inboxes))
        begin(inbox, run)

    Inbox.begin = watched
    network = Network()
    optimizer = HookedOneBitAdam(network.parameters(), **HYPER, bucket_elements=300)
    model = DistributedDataParallel(network, **SMALL)
    optimizer.attach(model)
    for t in range(1, FREEZE_STEP + 2):
        seen.clear()
        optimizer.zero_grad()
        backward(model, t)
        optimizer.step()
    Inbox.begin = begin
    return seen


def test_an_exchange_begins_while_other_gradients_are_still_to_come():
    for seen in WorkerPool.of(2).call(complete_at_each_start):
        assert seen == list(range(1, len(seen) + 1))
        assert len(seen) > 2


def accumulated():
    """Gradients of two backward passes, of which only the second exchanges; and m-bar of each parameter."""
    states = []
    for kind in (HookedOneBitAdam, OneBitAdam):
        network = Network()
        optimizer = kind(network.parameters(), **HYPER)
        model = DistributedDataParallel(network, **SMALL)
        if kind is HookedOneBitAdam:
            optimizer.attach(model)
        else:
            model = network
        scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.7)
        for t in range(1, STEPS + 1):
            optimizer.zero_grad()
            with model.no_sync() if kind is HookedOneBitAdam else nullcontext():
                backward(model, 2 * t)
            backward(model, 2 * t + 1)
            grads = {name: param.grad.clone() for name, param in network.named_parameters()}
            optimizer.step()
            scheduler.step()
        states.append(state_of(optimizer))
        if kind is HookedOneBitAdam:
            (bucket,) = (bucket for _, bucket in optimizer.run.pairs())
            momentum = bucket.momentum_D()
            slots = {id(param): slot for param, slot in zip(bucket.flat.params, bucket.flat.slots, strict=True)}
            is_momentum = [
                torch.equal(grads[name].flatten(), momentum[slots[id(param)]])
                for name, param in network.named_parameters()
                if param.numel()
            ]
    return equal(*states), is_momentum


def test_accumulation_in_no_sync_and_p_grad_is_the_shared_momentum():
    for is_equal, is_momentum in WorkerPool.of(2).call(accumulated):
        assert is_equal
        assert is_momentum == [True] * len(is_momentum)


def misused(how, t_wrong):
    """What is said in step ``t_wrong``, after good ones."""
    network = Network()
    optimizer = HookedOneBitAdam(network.parameters(), **HYPER)
    model = DistributedDataParallel(network, **SMALL)
    optimizer.attach(model)
    for t in range(1, t_wrong):
        optimizer.zero_grad()
        backward(model, t)
        optimizer.step()
    optimizer.zero_grad()

    def misuse():
        if how != "no backward":
            backward(model, t_wrong)
        if how == "clipped":
            nn.utils.clip_grad_norm_(network.parameters(), 1e-3)
        if how == "scaled":
            optimizer.grad_scale, optimizer.found_inf = torch.tensor(8.0), torch.tensor(0.0)
        if how == "saved":
            optimizer.state_dict()
        if how == "two backward passes":
            backward(model, t_wrong + 1)
        optimizer.step((lambda: None) if how == "closure" else None)

    with pytest.raises(RuntimeError) as caught:
        misuse()
    return str(caught.value)


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("clipped", "a gradient was changed between backward"),
        ("scaled", "GradScaler can't be used with the hook"),
        ("saved", "backward\\(\\) has exchanged what step\\(\\) must apply"),
        ("two backward passes", "put all but the last into no_sync.*make a new one and a new optimizer"),
        ("no backward", "step\\(\\) without gradients: call the DistributedDataParallel module that is attached"),
        ("closure", "a closure can't be used with the hook, .*use OneBitAdam, with Lightning too"),
    ],
)
@pytest.mark.parametrize("t_wrong", [2, FREEZE_STEP + 2])
def test_misuse_is_refused_in_a_sentence(how, says, t_wrong):
    for message in WorkerPool.of(2).call(misused, how, t_wrong):
        assert re.search(says, message)
        assert "\n" not in message


def after_two_backward_passes():
    """Torch's DDP can't go on after an error in its backward pass; what is advised can."""
    finals = []

    def attached(network):
        optimizer = HookedOneBitAdam(network.parameters(), **HYPER)
        model = DistributedDataParallel(network, **SMALL)
        optimizer.attach(model)
        return model, optimizer

    for wrong in (False, True):
        model, optimizer = attached(Network())
        for t in range(1, STEPS + 1):
            optimizer.zero_grad()
            if wrong and t == FREEZE_STEP + 2:
                saved = optimizer.state_dict()
                backward(model, t)
                with pytest.raises(RuntimeError, match="make a new one and a new optimizer, attach it and load"):
                    backward(model, t)
                model, optimizer = attached(model.module)
                optimizer.load_state_dict(saved)
                optimizer.zero_grad()
            backward(model, t)
            optimizer.step()
        finals.append(state_of(optimizer))
    return equal(*finals)


def test_what_is_advised_after_two_backward_passes_works():
    assert WorkerPool.of(2).call(after_two_backward_passes) == [True, True]


def after_an_error_inside_backward():
    """Of the model's own code, when some buckets were exchanged: all but a new DDP and optimizer is refused."""
    network = Network()
    optimizer = HookedOneBitAdam(network.parameters(), **HYPER)
    model = DistributedDataParallel(network, **SMALL)
    optimizer.attach(model)
    backward(model, 1)
    optimizer.step()
    saved, told = optimizer.state_dict(), []
    refused = [
        optimizer.state_dict,
        optimizer.step,
        lambda: optimizer.load_state_dict(saved),
        lambda: optimizer.add_param_group({"params": [nn.Parameter(torch.ones(1))], "non_freeze": True}),
        lambda: optimizer.attach(DistributedDataParallel(Network())),
    ]

    def ask(*_):
        if not optimizer._futures:
            return
        for call in refused[:-1]:
            with pytest.raises(RuntimeError) as caught:
                call()
            told.append(str(caught.value))
        raise KeyError("of the model")

    for param in network.parameters():
        param.register_hook(ask)
    optimizer.zero_grad()
    with pytest.raises(KeyError, match="of the model"):
        backward(model, 2)
    for call in refused:
        with pytest.raises(RuntimeError) as caught:
            call()
        told.append(str(caught.value))
    return told


def test_after_an_error_inside_backward_a_new_ddp_and_optimizer_are_asked_for():
    for told in WorkerPool.of(2).call(after_an_error_inside_backward):
        assert len(told) == 9
        for message in told:
            assert "backward() is under way, or" in message
            assert message.endswith("make a new one and a new optimizer, attach it and load a checkpoint")


def without_a_gradient():
    """A parameter took no part in the loss, and nobody told DDP that this may be; or lr is refused in backward()."""
    told = []
    for wrong in ("unused", "one bucket", "lr"):
        network = Network()
        optimizer = HookedOneBitAdam(network.parameters(), **HYPER)
        model = DistributedDataParallel(network, **(SMALL if wrong == "unused" else {}))
        optimizer.attach(model)
        if wrong == "lr":
            optimizer.param_groups[0]["lr"] = float("nan")

        def step(model=model, optimizer=optimizer, with_all=wrong == "lr"):
            backward(model, 1, with_all=with_all)
            optimizer.step()

        with pytest.raises(RuntimeError) as caught:
            step()
        told.append(str(caught.value))
    return told


def after_a_refused_rate():
    """Nothing was exchanged, so a new DDP may be attached to the same optimizer; what was refused is over then."""
    network = Network()
    optimizer = HookedOneBitAdam(network.parameters(), **HYPER)
    model = DistributedDataParallel(network, find_unused_parameters=True)
    optimizer.attach(model)
    optimizer.param_groups[0]["lr"] = float("nan")
    with pytest.raises(RuntimeError, match="lr must be a finite number"):
        backward(model, 1)
    with pytest.raises(RuntimeError, match="was refused, so there is nothing to apply"):
        optimizer.step()
    del model
    gc.collect()  # its reducer listens to the parameters' gradients
    optimizer.param_groups[0]["lr"] = HYPER["lr"]
    optimizer.attach(model := DistributedDataParallel(network, find_unused_parameters=True))
    optimizer.zero_grad()
    backward(model, 1)
    optimizer.step()
    return optimizer.steps


def test_a_refused_backward_pass_is_over_with_the_next_that_is_not():
    assert WorkerPool.of(2).call(after_a_refused_rate) == [1, 1]


def test_a_gradient_that_did_not_come_and_a_wrong_rate_are_told_with_what_to_do():
    for unused, one_bucket, rate in WorkerPool.of(2).call(without_a_gradient):
        assert "find_unused_parameters=True" in unused
        assert "find_unused_parameters=True" in one_bucket
        assert "lr must be a finite number >= 0, got nan" in rate
        assert rate.endswith("make a new one and a new optimizer, attach it and load a checkpoint")


def wrong_attachments():
    network = Network()
    with pytest.raises(ValueError, match="max_grad_norm: the hook"):
        HookedOneBitAdam(network.parameters(), freeze_step=2, max_grad_norm=1.0)
    model = DistributedDataParallel(network)
    some = HookedOneBitAdam(list(network.parameters())[1:], freeze_step=2)
    with pytest.raises(ValueError, match="1 of DDP's are missing, 0 are not DDP's"):
        some.attach(model)
    all_of_them = HookedOneBitAdam(network.parameters(), freeze_step=2)
    DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(network, ["wide.bias"])
    with pytest.raises(ValueError, match="0 of DDP's are missing, 1 are not DDP's"):
        all_of_them.attach(DistributedDataParallel(network))
    reduced = [param for name, param in network.named_parameters() if name != "wide.bias"]
    without = DistributedDataParallel(network)
    HookedOneBitAdam(reduced, freeze_step=2).attach(without)
    with pytest.raises(ValueError, match="has been attached, or prepared"):
        HookedOneBitAdam(reduced, freeze_step=2).attach(without)
    other = HookedOneBitAdam(network.parameters(), freeze_step=2, process_group=dist.new_group([0]))
    with pytest.raises(ValueError, match="process_group must be"):
        other.attach(model)


def test_wrong_attachments_are_refused():
    WorkerPool.of(1).call(wrong_attachments)


def after_a_group_was_added():
    """What is advised works, and a step before attach() says what is missing."""
    network, new = nn.Linear(16, 4), nn.Linear(4, 2)
    optimizer = HookedOneBitAdam(network.parameters(), **HYPER)
    with pytest.raises(RuntimeError, match=r"step\(\) before attach\(\): call optimizer.attach\(ddp\)"):
        optimizer.step()

    def train(model, count=FREEZE_STEP + 2):
        for _ in range(count):
            optimizer.zero_grad()
            model(torch.ones(2, 16)).square().mean().backward()
            optimizer.step()

    model = DistributedDataParallel(network)
    optimizer.attach(model)
    train(model)
    optimizer.add_param_group({"params": new.parameters(), "non_freeze": True})
    with pytest.raises(RuntimeError, match=r"2 are missing, such as one of shape \(2, 4\).*attach a new one"):
        train(model, 1)
    del model
    model = DistributedDataParallel(nn.Sequential(network, new))
    optimizer.attach(model)
    before = new.weight.detach().clone()
    train(model)
    return not torch.equal(before, new.weight)


def test_what_is_advised_after_a_group_was_added_works():
    assert WorkerPool.of(2).call(after_a_group_was_added) == [True, True]
