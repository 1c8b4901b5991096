"""Parameters of all kinds: empty, tied, frozen, narrow, in groups, with values from outside, joining late."""

from __future__ import annotations

import pytest
import torch
from optimizer_support import flat, gradients, model, new, pool, train
from test_one_worker_refuses import error_of
from torch import distributed as dist
from torch import nn

from gpu_impl import OneBitAdam

ALL_STEPS = range(1, 12)


def unusual(dtype):
    """Empty, tied, never used, frozen, transposed and channels_last parameters."""
    generator = torch.Generator().manual_seed(0)
    params = {
        "plain": torch.randn(3, 4, generator=generator),
        "empty": torch.randn(0, 4, generator=generator),
        "unused": torch.randn(5, generator=generator),
        "frozen": torch.randn(2, generator=generator),
        "transposed": torch.randn(4, 3, generator=generator).t(),
        "channels_last": torch.randn(2, 3, 2, 2, generator=generator).to(memory_format=torch.channels_last),
        "embedding": torch.randn(6, 2, generator=generator),
    }
    return {name: nn.Parameter(p.to(dtype), requires_grad=name != "frozen") for name, p in params.items()}


def train_unusual(dtype):
    params = unusual(dtype)
    start = {name: p.detach().clone() for name, p in params.items()}
    strides = {name: p.stride() for name, p in params.items()}
    optimizer = new(params.values(), bucket_elements=20)
    zeros = {name: nn.Parameter(p.detach().clone(), p.requires_grad) for name, p in params.items()}
    second = new(zeros.values(), bucket_elements=20)  # gets zeros where the first gets no gradient
    rank = dist.get_rank()
    for t in ALL_STEPS:
        for k, (name, p) in enumerate(params.items()):
            if name in ("unused", "frozen") or (name == "plain" and t % 3 == rank):
                p.grad = None
                continue
            p.grad = torch.randn(p.shape, generator=torch.Generator().manual_seed(100 * t + 10 * k + rank)).to(dtype)
            if name == "embedding":
                p.grad[3] = 0  # a row that no worker has seen
        for name, p in zeros.items():
            grad = params[name].grad
            p.grad = grad if grad is not None else torch.zeros_like(p) if p.requires_grad else None
        optimizer.step()
        second.step()
        assert all(torch.equal(p, zeros[name]) for name, p in params.items())
    moved = {name: not torch.equal(p, start[name]) for name, p in params.items()}
    kept = all(p.stride() == strides[name] for name, p in params.items())
    row = torch.equal(params["embedding"][3], start["embedding"][3])
    return moved, kept, row, optimizer.stats().dead_coordinates, flat(params.values()).tobytes()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_unusual_parameters(dtype):
    rows = pool(2).call(train_unusual, dtype)
    for moved, kept, row, dead, _ in rows:
        assert {name for name, has in moved.items() if has} == {"plain", "transposed", "channels_last", "embedding"}
        assert kept
        assert row
        assert dead == 5 + 2
    assert rows[0][4] == rows[1][4]


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.encode = nn.Embedding(6, 4)
        self.decode = nn.Linear(4, 6, bias=False)
        self.decode.weight = self.encode.weight

    def forward(self, x):
        return self.decode(self.encode(x))


def train_tied():
    net = Tied()
    optimizer = new(net.parameters())
    for t in ALL_STEPS:
        optimizer.zero_grad()
        net(torch.tensor([t % 6, dist.get_rank()])).square().sum().backward()
        optimizer.step()
    ((_, bucket),) = optimizer.run.pairs()
    return bucket.flat.numel, net.encode.weight is net.decode.weight, bool((net.encode.weight[5] != 0).all())


def test_tied_parameters_are_there_once():
    assert pool(2).call(train_tied) == [(24, True, True)] * 2


def narrow_and_wide(dtype):
    """The master copies of a narrow model against a float32 model that starts there and gets the same gradients."""
    narrow = model(dtype)
    wide = nn.ParameterList([nn.Parameter(p.detach().float()) for p in narrow])
    first, second = new(narrow, bucket_elements=60), new(wide, bucket_elements=60)
    for t in ALL_STEPS:
        train(narrow, first, [t])
        train(
            wide,
            second,
            [t],
            change=lambda t, grads: [g.to(dtype).float() for g in gradients(wide, dist.get_rank(), t)],
        )
        for (_, a), (_, b) in zip(first.run.pairs(), second.run.pairs(), strict=True):
            assert torch.equal(a.flat.master, b.flat.master)
        for p, q in zip(narrow, wide, strict=True):
            assert torch.equal(p, q.to(dtype))
    return True


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_narrow_parameters_have_a_wide_master(dtype):
    assert pool(2).call(narrow_and_wide, dtype) == [True, True]


def mixed():
    """float32 and bfloat16 parameters in two groups with hyper-parameters of their own."""
    params = [*model(), *model(torch.bfloat16)]
    groups = [
        {"params": params[:2] + params[5:7], "lr": 1e-2, "betas": (0.8, 0.99)},
        {"params": params[2:5] + params[7:], "lr": 1e-4, "weight_decay": 0.1, "eps": 1e-6},
    ]
    optimizer = OneBitAdam(groups, freeze_step=4)
    alone = [p.detach().clone().requires_grad_() for p in groups[1]["params"]]
    second = OneBitAdam(alone, lr=1e-4, weight_decay=0.1, eps=1e-6, freeze_step=4)
    for t in ALL_STEPS:
        for k, p in enumerate(params):
            p.grad = gradients([p], dist.get_rank() + 10 * k, t)[0]
        for p, q in zip(groups[1]["params"], alone, strict=True):
            q.grad = p.grad.clone()
        optimizer.step()
        second.step()
    same = all(torch.equal(p, q) for p, q in zip(groups[1]["params"], alone, strict=True))
    return same, len(list(optimizer.run.pairs())), flat(params).tobytes()


def test_groups_and_dtypes_have_buckets_of_their_own():
    """A group trains as if it were alone."""
    rows = pool(2).call(mixed)
    assert [row[:2] for row in rows] == [(True, 4)] * 2
    assert rows[0][2] == rows[1][2]


def repoint(dtype):
    """New values by load_state_dict, by ``.data``, by ``copy_``: the optimizer goes on from them."""
    params, direct = model(dtype), model(dtype)
    first, second = new(params), new(direct)
    results = []
    for t in range(1, 10):
        values = [p.detach() + 1 for p in direct] if t in (3, 5, 7) else None
        if t == 3:
            params.load_state_dict({str(k): value for k, value in enumerate(values)})
        if t == 5:
            for p, value in zip(params, values, strict=True):
                p.data = value.clone()
        if t == 7:
            with torch.no_grad():
                for p, value in zip(params, values, strict=True):
                    p.copy_(value)
        if values is not None:
            with torch.no_grad():
                for p, value in zip(direct, values, strict=True):
                    p.copy_(value)
        train(params, first, [t], rank=0)
        train(direct, second, [t], rank=0)
        results.append(flat(params).tobytes() == flat(direct).tobytes())
    moved = nn.Parameter(torch.zeros(3))
    optimizer = new([moved])
    moved.grad = torch.ones(3)
    optimizer.step()
    moved.data = moved.data.double()
    try:
        optimizer.step()
    except RuntimeError as error:
        results.append("make a new optimizer" in str(error))
    return results


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_values_from_outside_are_taken_over(dtype):
    assert pool(1).call(repoint, dtype) == [[True] * 10]


def join_late():
    """A group added in the warm-up trains as one alone that begins then; after the freeze none may join."""
    params, late = model(), [nn.Parameter(torch.ones(9))]
    optimizer = new(params[:3], freeze_step=6)
    train(params[:3], optimizer, [1, 2, 3])
    optimizer.add_param_group({"params": late, "lr": 1e-3})
    alone = [nn.Parameter(torch.ones(9))]
    second = OneBitAdam(alone, lr=1e-3, freeze_step=3)
    for t in range(4, 12):
        for p in [*params[:3], *late, *alone]:
            p.grad = gradients([p], dist.get_rank(), t)[0]
        optimizer.step()
        second.step()
    try:
        optimizer.add_param_group({"params": [nn.Parameter(torch.ones(2))]})
    except RuntimeError as error:
        message = str(error)
    return torch.equal(late[0], alone[0]), message, len(optimizer.param_groups)


def test_groups_join_during_the_warm_up_only():
    for same, message, groups in pool(2).call(join_late):
        assert same
        assert groups == 2
        assert "can't join after the freeze (step 6)" in message


def replaced(how):
    """What is said in the step after a model got new objects for its parameters."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 4), nn.Linear(4, 2))
    optimizer = new(net.parameters())
    for t in range(1, 4):
        optimizer.zero_grad()
        net(torch.ones(6) * t).sum().backward()
        optimizer.step()
        if t == 2 and how == "assigned":
            net.load_state_dict({name: value.clone() for name, value in net.state_dict().items()}, assign=True)
        if t == 2 and how == "one by hand":
            net[1].bias = nn.Parameter(torch.ones(2))
        if t == 2 and how == "and back":
            kept, net[1].bias = net[1].bias, nn.Parameter(torch.ones(2))
            net[1].bias = kept
        if t == 2 and how == "and given":
            net[1].bias = nn.Parameter(torch.ones(2))
            optimizer.add_param_group({"params": [net[1].bias]})
        if t == 2 and how == "tied":
            net[1].bias = nn.Parameter(torch.ones(2), requires_grad=False)


@pytest.mark.parametrize(("how", "what"), [("assigned", "weight"), ("one by hand", "bias")])
def test_a_parameter_that_was_replaced_by_a_new_object_is_told(how, what):
    """The optimizer went on with the old ones, and the model was never trained again."""
    with pytest.raises(RuntimeError, match=f"{what} of a Linear is another object than the parameter that this"):
        replaced(how)


@pytest.mark.parametrize("how", ["nothing", "and back", "and given", "tied"])
def test_what_leaves_nothing_untrained_is_not_refused(how):
    replaced(how)


CHANGES = {
    "appended": lambda groups: groups[0]["params"].append(nn.Parameter(torch.ones(3))),
    "taken out": lambda groups: groups[0]["params"].pop(),
    "another": lambda groups: groups[0]["params"].__setitem__(1, nn.Parameter(torch.ones(1))),
    "another group": lambda groups: groups.__setitem__(0, dict(groups[0])),
    "a group taken out": lambda groups: groups.pop(),
}


def changed_by_hand(how):
    """What is said where one worker's groups are changed past ``add_param_group``, and once that is undone."""
    params = model()
    optimizer = new([{"params": list(params)[:2]}, {"params": list(params)[2:]}], freeze_step=2)
    train(params, optimizer, [1])
    state, groups = optimizer.state_dict(), optimizer.param_groups
    kept = list(groups), [list(group["params"]) for group in groups]
    if dist.get_rank() == 0:
        CHANGES[how](groups)
    told = [error_of(lambda: train(params, optimizer, [2]))]
    if dist.get_rank() == 0:
        told += [error_of(optimizer.state_dict), error_of(lambda: optimizer.load_state_dict(state))]
    groups[:] = kept[0]
    for group, some in zip(groups, kept[1], strict=True):
        group["params"][:] = some
    return told, error_of(lambda: train(params, optimizer, [2, 3]))


@pytest.mark.parametrize("how", CHANGES)
def test_groups_that_are_changed_by_hand(how):
    """A parameter that was appended stayed as it was, one that was taken out was still trained, without a word."""
    (first, went_on), (second, so_did_the_other) = pool(2).call(changed_by_hand, how)
    for kind, sentence in first:
        assert kind == "ValueError"
        assert "add_param_group" in sentence
    assert [kind for kind, _ in second] == ["WorkersDisagreeError"]
    assert went_on == so_did_the_other == ("", "")


def test_groups_that_are_changed_by_hand_before_the_first_step():
    params, extra = model(), nn.Parameter(torch.ones(3))
    optimizer = new(params)
    optimizer.param_groups[0]["params"].append(extra)
    extra.grad = torch.ones(3)
    train(params, optimizer, [1], rank=0)
    assert bool((extra != 1).all())


def other_memory(form, only):
    """The same values on both workers; the memory of one lies in another order, on rank 1 ``only`` or on both."""
    values = torch.randn(4, 3, 3, 1, generator=torch.Generator().manual_seed(0))
    transposed = values.transpose(0, 2).contiguous().transpose(0, 2)
    other = transposed if form == "transposed" else values.to(memory_format=torch.channels_last)
    param = nn.Parameter(other if dist.get_rank() == 1 or not only else values)
    optimizer = new([param], freeze_step=2)
    told = []
    for t in range(1, 5):
        param.grad = torch.randn(param.shape, generator=torch.Generator().manual_seed(10 * t + dist.get_rank()))
        told.append(error_of(optimizer.step))
    return told, param.detach().contiguous().numpy().tobytes()


@pytest.mark.parametrize("form", ["channels_last", "transposed"])
def test_a_memory_format_on_one_worker_alone_is_an_error_on_all(form):
    """Elements lie in a buffer as in memory: two formats would average the gradients of different coordinates."""
    for (kind, sentence), *_ in (told for told, _ in pool(2).call(other_memory, form, True)):
        assert kind == "WorkersDisagreeError"
        assert sentence.startswith(
            "the workers must agree on the memory format of parameter 0: rank 0 has 'dimensions 0, "
        )
    (told, one), (_, other) = pool(2).call(other_memory, form, False)
    assert told == [("", "")] * 4
    assert one == other


def exchanged(make, dtype, how):
    """What somebody keeps of the parameters' memory, before and after the steps that follow, and where those end."""
    params = model(dtype)
    optimizer = make(params)
    train(params, optimizer, range(1, 5), rank=0)
    if how == "with an average":
        kept = [param.detach() / 2 for param in params]
        for k, param in enumerate(params):
            param.data, kept[k] = kept[k], param.data
    elif how == "one by one":  # each time the rest stays where it is
        kept = []
        for param in params:
            kept.append(param.data)
            param.data = param.data.clone()
            train(params, optimizer, [5], rank=0)
    else:  # in one buffer each takes the other's place
        first, last = nn.Parameter(torch.ones(8)), nn.Parameter(torch.full((8,), 2.0))
        params, kept = nn.ParameterList([first, last]), []
        optimizer = make(params)
        train(params, optimizer, range(1, 5), rank=0)
        first.data, last.data = last.data, first.data
    before = flat(kept).copy() if kept else None
    train(params, optimizer, range(6, 9), rank=0)
    return before, flat(kept) if kept else None, flat(params)


@pytest.mark.parametrize("how", ["with an average", "one by one", "with each other"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("freeze_step", [3, 100])
def test_memory_that_somebody_keeps_is_not_written_to(freeze_step, dtype, how):
    """Weights exchanged with their average, by exchanging tensors: the next step wrote into the ones that were kept."""

    def plain(params):
        return new(params, freeze_step=freeze_step)

    def copied(params):
        optimizer = plain(params)
        step = optimizer.step

        def from_copies():
            for param in params:
                param.data = param.data.clone()
            step()

        optimizer.step = from_copies
        return optimizer

    before, after, end = exchanged(plain, dtype, how)
    assert before is None or before.tobytes() == after.tobytes()
    assert end.tobytes() == exchanged(copied, dtype, how)[2].tobytes()
