"""What training does to OneBitLamb and ZeroOneAdam: layers left out, weights changed, 16 bits, groups, shards."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from family_optimizers import (
    DIM,
    IDS,
    KINDS,
    LAMB,
    LOCAL,
    SHAPES,
    flat,
    made,
    noise,
    rank,
    same_as,
    snapshot,
    start,
    step,
)
from family_optimizers import the_reference as reference_of
from optimizer_support import mesh_of, model, pool
from torch import distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import gpu_impl
import onebit
from gpu_impl import OneBitLamb, ZeroOneAdam, load_checkpoint, save_checkpoint

END = 26


def train(params, optimizer, steps, change=lambda params, t: None):
    grads = noise(2, END)[:, rank()]
    for t in steps:
        for param, grad in zip(params, split(grads[t]), strict=True):
            param.grad = torch.from_numpy(grad.copy()).to(param.dtype)
        change(params, t)
        optimizer.step()


def split(values_D):
    stops = np.cumsum([np.prod(shape) for shape in SHAPES])
    return [part.reshape(shape) for part, shape in zip(np.split(values_D, stops[:-1]), SHAPES, strict=True)]


AWAY = {LAMB[0]: range(14, 18), "ZeroOneAdam": range(18, 23)}
LEFT_OUT = 2


def leaving_out(kind, folder):
    """Nobody has a gradient for one parameter in some steps; saved and resumed while it is away."""
    params, optimizer = made(kind[0], start(), {**kind[1], "weight_decay": 0.1})
    away, kept, values = AWAY[kind[0]], [], []

    def change(params, t):
        if t in away:
            params[LEFT_OUT].grad = None

    list_of = nn.ParameterList(params)
    for t in range(END):
        train(params, optimizer, [t], change)
        values.append(params[LEFT_OUT].detach().clone())
        kept.append(bits(optimizer)[LEFT_OUT])
        if t == away[2]:
            save_checkpoint(folder, optimizer, list_of)
    again, other = made(kind[0], start(6), {**kind[1], "weight_decay": 0.1})
    load_checkpoint(folder, other, nn.ParameterList(again))
    train(again, other, range(away[2] + 1, END), change)
    names = set(kept[0]) - {"step", "frozen"}
    during = [all(kept[t][name] == kept[away[0] - 1][name] for name in names) for t in away]
    still = [torch.equal(values[t], values[away[0] - 1]) for t in away]
    common = optimizer.run.pairs().__next__()[1].common_D()
    ends = [(flat(some).tobytes(), bits(one)) for some, one in ((params, optimizer), (again, other))]
    return during, still, values[-1], values[away[-1]], flat(params), ends, common, optimizer.stats()


def bits(optimizer):
    """The state of each parameter, as bytes."""
    states = optimizer.state_dict()["state"].values()
    return [{name: np.asarray(value).tobytes() for name, value in state.items()} for state in states]


@pytest.mark.parametrize("kind", KINDS, ids=IDS)
def test_a_parameter_without_gradient_is_left_alone(kind, tmp_path):
    """In the middle of an interval too: what it has accumulated by then waits for it."""
    results = pool(2).call(leaving_out, kind, tmp_path)
    for during, still, end, before, ours, (own, resumed), _, stats in results:
        assert all(still)
        assert all(during)
        assert not torch.equal(end, before)
        assert np.isfinite(ours).all()
        assert own == resumed
        assert stats.step == END
    shared = [common if common is not None else torch.from_numpy(ours) for *_, ours, _, common, _ in results]
    assert torch.equal(*shared)


CHANGED = 1
"""A parameter that somebody gives new values."""


def changing(kind, dtype):
    """Between two meetings somebody does, where they last met: the move that follows, and where all meet again.

    And the move of a run in which nobody does.
    """
    moves, ends = [], []
    for value in (None, 0.75):
        params, optimizer = made(kind[0], start(), kind[1], dtype)
        train(params, optimizer, range(20))  # with local steps: those of an interval, the next step meets
        with optimizer.at_last_meeting():
            before = params[CHANGED].detach().float().clone()
            if value is not None:
                with torch.no_grad():
                    before = params[CHANGED].fill_(value).detach().float().clone()
        train(params, optimizer, range(20, 21))
        after = params[CHANGED].detach().float()
        moves.append((after.double() - before.double(), after.abs().double() + before.abs().double()))
        train(params, optimizer, range(21, 25))
        with optimizer.at_last_meeting():
            ends.append(flat(params))
    return moves, ends[1], optimizer.phase


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("kind", KINDS, ids=IDS)
def test_new_values_of_the_model_are_where_it_goes_on_from(kind, dtype):
    """The move does not hang on x (there is no decay): the two are equal but for the rounding of x before and after."""
    (moves, first, phase), (_, second, _) = pool(2).call(changing, kind, dtype)
    (free, size), (changed, other_size) = moves
    unit = torch.finfo(dtype).eps / 2
    assert ((free - changed).abs() <= 2 * unit * (size + other_size)).all()
    assert float(free.abs().max()) > 0
    assert first.tobytes() == second.tobytes()
    assert phase == "compressed"
    assert np.isfinite(first).all()


@pytest.mark.parametrize("kind", KINDS, ids=IDS)
def test_a_group_that_does_not_freeze(kind):
    """It has full gradients in every step, the others don't feel it."""
    params, optimizer = made(kind[0], start(), kind[1])
    more = nn.Parameter(torch.ones(5))
    optimizer.add_param_group({"params": [more], "non_freeze": True})
    alone, other = made(kind[0], start(), kind[1])
    for grad_D in noise(1, END)[:, 0]:
        more.grad = torch.arange(5.0)
        step(params, optimizer, grad_D)
        step(alone, other, grad_D)
    assert float(more.detach()[1:].max()) < 1
    if kind is not LAMB:  # there s is relative to the mean over all layers that freeze, which this one is not
        assert flat(params).tobytes() == flat(alone).tobytes()
    state = optimizer.state_dict()
    twin = type(optimizer)([{"params": params}, {"params": [more], "non_freeze": True}], freeze_step=9)
    twin.load_state_dict(state)


def test_odd_sizes_and_several_buckets_in_the_warm_up():
    """A layer's norms are its own: padding and how buffers are cut change no bit of LAMB's warm-up [L8]."""
    x_D = flat(model())
    shapes = [tuple(param.shape) for param in model()]
    grads = np.random.default_rng(3).standard_normal((6, x_D.size)).astype(np.float32)
    theirs = reference_of("OneBitLamb", lr=1e-2, freeze_step=9)
    theirs = type(theirs)(**{**vars(theirs), "shapes": shapes})
    state = theirs.init(x_D, 1)
    for grad_D in grads:
        state = theirs.step(state, grad_D[None])
    for elements in (1, 60, 2**62):
        params = list(model())
        optimizer = OneBitLamb(params, lr=1e-2, freeze_step=9, bucket_elements=elements)
        for grad_D in grads:
            at = 0
            for param in params:
                param.grad = torch.from_numpy(grad_D[at : at + param.numel()].reshape(param.shape).copy())
                at += param.numel()
            optimizer.step()
        assert flat(params).tobytes() == state.params.tobytes()


def test_a_layer_without_momentum_at_the_freeze_has_the_scale_1():
    """There DeepSpeed divides by zero."""
    params, optimizer = made(*LAMB[:1], start(), LAMB[1])
    grads = noise(1, END)[:, 0]
    grads[:, :16] = 0
    for grad_D in grads:
        step(params, optimizer, grad_D)
    found = snapshot(params, optimizer)
    assert found["layer_scale"][0] == 1
    assert np.isfinite(flat(params)).all()
    assert (flat(params)[:16] == start()[:16]).all()


def test_a_schedule_that_begins_at_0():
    """Where gamma is 0 a meeting tells nothing of the momenta; nothing is divided by it."""
    params, optimizer = made("ZeroOneAdam", start(), LOCAL[1])
    for t, grad_D in enumerate(noise(1, END)[:, 0]):
        optimizer.param_groups[0]["lr"] = 0.0 if t < 3 else 1e-2
        step(params, optimizer, grad_D)
        assert (flat(params) == start()).all() == (t < 3)
    assert np.isfinite(flat(params)).all()


def overflowing(kind):
    params, optimizer = made(kind[0], start(), kind[1])
    train(params, optimizer, range(END), lambda params, t: params[0].grad.fill_(np.inf) if t in (4, 12, 21) else None)
    return flat(params), optimizer.stats()


@pytest.mark.parametrize("kind", KINDS, ids=IDS)
def test_a_step_that_is_skipped_moves_nothing(kind):
    for params_D, stats in pool(2).call(overflowing, kind):
        assert np.isfinite(params_D).all()
        assert (stats.step, stats.skipped_steps) == (END - 3, 3)


def scaled(kind):
    """By a GradScaler, which is undone exactly where the scale is a power of two."""
    found = []
    for scale in (1.0, 1024.0):
        params, optimizer = made(kind[0], start(), kind[1])
        scaler = torch.amp.GradScaler("cpu", init_scale=scale, growth_interval=10**6)
        for grad_D in noise(2, END)[:, rank()]:
            optimizer.zero_grad()
            loss = sum((p * torch.from_numpy(g.copy())).sum() for p, g in zip(params, split(grad_D), strict=True))
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        found.append(flat(params))
    return found


@pytest.mark.parametrize("kind", KINDS, ids=IDS)
def test_grad_scaler(kind):
    for one, other in pool(2).call(scaled, kind):
        assert one.tobytes() == other.tobytes()


def sharded(kind, folder):
    """A run on 2 x 2 processes; and the same warm-up on plain tensors."""
    mesh = mesh_of()
    hyper = {"lr": 1e-2, "bucket_elements": 40, "process_group": mesh["replicate"].get_group(), **kind[1]}

    def network():
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(5, 13), nn.Tanh(), nn.Linear(13, 7), nn.Tanh(), nn.Linear(7, 1))

    def losses(net, optimizer, steps):
        for t in steps:
            optimizer.zero_grad()
            random = torch.Generator().manual_seed(1000 * t + dist.get_rank())
            net(torch.randn(4, 5, generator=random)).square().mean().backward()
            optimizer.step()
        return [param.to_local().detach().clone() for param in net.parameters()]

    nets = [network() for _ in range(2)]
    optimizers = []
    for net in nets:
        fully_shard(net, mesh=mesh["shard"])
        optimizers.append(getattr(gpu_impl, kind[0])(net.parameters(), **hyper))
    losses(nets[0], optimizers[0], range(15))
    save_checkpoint(folder, optimizers[0], nets[0])
    expected = losses(nets[0], optimizers[0], range(15, 20))
    load_checkpoint(folder, optimizers[1], nets[1])
    resumed = losses(nets[1], optimizers[1], range(15, 20))
    with optimizers[0].at_last_meeting():
        together = [param.to_local().detach().clone() for param in nets[0].parameters()]
    numbers = [
        [float(state[name]) for name in optimizers[0].run.names.numbers if name in state]
        for state in optimizers[0].state_dict()["state"].values()
    ]
    return all(map(torch.equal, expected, resumed)), together, numbers, optimizers[0].phase


@pytest.mark.parametrize("kind", KINDS[::2], ids=IDS[::2])
def test_shards(kind, tmp_path):
    """Replicas of a shard are equal, and all shards of a layer have its trust ratio, scale and range."""
    results = pool(4).call(sharded, kind, tmp_path)
    for is_exact, _, numbers, phase in results:
        assert is_exact
        assert phase == "compressed"
        assert numbers == results[0][2]
    for first, second in ((0, 2), (1, 3)):
        assert all(map(torch.equal, results[first][1], results[second][1]))


def test_arguments():
    param = nn.Parameter(torch.ones(3))
    for make, more, sentence in (
        (ZeroOneAdam, {"freeze_step": "auto"}, "freeze_step must be an integer >= 1, got 'auto'"),
        (ZeroOneAdam, {"freeze_step": 3, "local_limit": 0}, "local_limit must be an integer >= 1, got 0"),
        (ZeroOneAdam, {"freeze_step": 3, "variance_doubling": 0}, "variance_doubling must be an integer >= 1 or None"),
        (OneBitLamb, {"freeze_step": 3, "trust_decay": 1.0}, "trust_decay must be below 1, got 1.0"),
        (OneBitLamb, {"freeze_step": 3, "min_trust": 2.0, "max_trust": 1.0}, "max_trust must be at least min_trust"),
    ):
        with pytest.raises(ValueError, match=sentence):
            make([param], **more)
    with pytest.raises(ValueError, match=r"local_limit holds for all parameter groups: .*ZeroOneAdam\(groups, local"):
        ZeroOneAdam([{"params": [param], "local_limit": 3}], freeze_step=3)


def test_adams_state_is_not_enough():
    param = nn.Parameter(torch.ones(3))
    adam = torch.optim.Adam([param])
    for make in (OneBitLamb, ZeroOneAdam):
        with pytest.raises(ValueError, match=f"warm_start is for OneBitAdam, and this is a {make.__name__}"):
            gpu_impl.warm_start(make([param], freeze_step=3), adam.state_dict())


def test_the_front_door():
    assert (onebit.OneBitLamb, onebit.ZeroOneAdam) == (OneBitLamb, ZeroOneAdam)


def test_the_policies_are_the_references():
    reference = reference_of(
        "ZeroOneAdam", lr=1e-2, freeze_step=50, variance_doubling=3, local_doubling=5, local_limit=8
    )
    settings = ZeroOneAdam(
        [nn.Parameter(torch.ones(3))], freeze_step=50, variance_doubling=3, local_doubling=5, local_limit=8
    ).run.settings
    for t in range(1, 400):
        assert settings.refreshes(t) == reference.refreshes(t)
        assert settings.meets(t) == reference.meets(t)


def test_no_compression_would_be_lamb():
    """Before the freeze it is LAMB: the reference without a compressor, on the same gradients."""
    grads = noise(1, 8)
    lamb = reference_of("OneBitLamb", lr=1e-2, freeze_step=9)
    state = lamb.init(start(), 1)
    params, optimizer = made("OneBitLamb", start(), LAMB[1])
    for grads_ND in grads:
        state = lamb.step(state, grads_ND)
        step(params, optimizer, grads_ND[0])
    same_as(state, "OneBitLamb", [snapshot(params, optimizer)])
    assert flat(params).size == DIM


# --- torch.compile ---


def train_compiled(kind, way):
    """Seven steps, across the freeze or the first meetings; the parameters."""
    torch.manual_seed(0)
    net = nn.Linear(8, 4)
    optimizer = getattr(gpu_impl, kind[0])(net.parameters(), lr=1e-2, **kind[1])
    if kind[0] == "HookedOneBitAdam":
        net = DistributedDataParallel(net)
        optimizer.attach(net)
    step = torch.compile(optimizer.step, backend="eager") if way == "step" else optimizer.step

    def train(x):
        optimizer.zero_grad()
        net(x).square().sum().backward()
        step()

    train = torch.compile(train, backend="eager") if way == "all" else train
    for t in range(7):
        train(torch.ones(2, 8) * (dist.get_rank() + t))
    return np.concatenate([param.detach().numpy().ravel() for param in net.parameters()])


HOOKED = ("HookedOneBitAdam", {"freeze_step": 3})


@pytest.mark.parametrize(
    "kind", [("OneBitAdam", {"freeze_step": 3}), HOOKED, LAMB, LOCAL], ids=["1-bit", "hooked", "lamb", "0/1"]
)
def test_a_compiled_step_is_the_step(kind):
    """torch's compiler went into the step and failed at the process group with an internal error."""
    plain, *compiled = (pool(2).call(train_compiled, kind, way) for way in ("", "step", "all"))
    for found in compiled:
        np.testing.assert_array_equal(found, plain)
