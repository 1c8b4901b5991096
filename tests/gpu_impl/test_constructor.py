"""What the constructor refuses: kernels and groups that are none, and parameters that share memory."""

from __future__ import annotations

import copy
import inspect
import re

import numpy as np
import pytest
import torch
from optimizer_support import flat, model, new, pool, train
from torch import distributed as dist
from torch import nn

from gpu_impl import HookedOneBitAdam, OneBitAdam, OneBitLamb, ZeroOneAdam, load_checkpoint, save_checkpoint


@pytest.mark.parametrize("backend", ["foo", "", None, 3, "Auto"])
def test_a_backend_that_there_is_not(backend):
    with pytest.raises(ValueError, match="backend must be one of auto, torch, cpu, triton; got"):
        new(model(), backend=backend)


@pytest.mark.parametrize("group", [3, "gloo", object()])
def test_a_group_that_is_none(group):
    with pytest.raises(TypeError, match=r"process_group must be a torch\.distributed\.ProcessGroup"):
        new(model(), process_group=group)


def of_rank_0():
    group = dist.new_group([0])
    try:
        new(model(), process_group=group)
    except ValueError as error:
        return str(error)
    return "made"


def test_a_process_outside_of_the_group_is_told_at_once():
    inside, outside = pool(2).call(of_rank_0)
    assert inside == "made"
    assert outside.startswith("this process is not in process_group")


FLAT = torch.randn(40)
PLAIN = torch.randn(6, 8)
SHARING = {
    "the whole": (FLAT[:20], FLAT[:20].view(4, 5)),
    "the end of one": (FLAT[:20], FLAT[19:30]),
    "one inside the other": (FLAT, FLAT[7:9]),
    "crossing rows and columns": (PLAIN[2], PLAIN[:, 3]),
    "a transposed view": (PLAIN, PLAIN.t()),
}
APART = {
    "one after another": (FLAT[:20], FLAT[20:]),
    "interleaved columns": (PLAIN[:, :4], PLAIN[:, 4:]),
    "even and odd": (FLAT[::2], FLAT[1::2]),
    "nothing": (FLAT[:0], FLAT),
}


@pytest.mark.parametrize("name", SHARING)
def test_parameters_that_share_memory_are_refused(name):
    """They came apart without a word: torch.optim changes one through the other."""
    params = [nn.Parameter(torch.ones(3)), *map(nn.Parameter, SHARING[name])]
    with pytest.raises(ValueError, match="parameters 1 and 2 share memory but are two"):
        new(params)
    optimizer = new(params[:2])
    with pytest.raises(ValueError, match="parameters 1 and 2 share memory"):
        optimizer.add_param_group({"params": params[2:]})
    assert len(optimizer.param_groups) == 1


@pytest.mark.filterwarnings("ignore:optimizer contains a parameter group with duplicate parameters")
@pytest.mark.parametrize("is_named", [False, True])
def test_one_that_is_given_twice_is_called_so(is_named):
    """As tied weights are, where two modules' parameters are listed one after the other."""
    encoder, decoder = nn.Embedding(6, 4), nn.Linear(4, 6)
    decoder.weight = encoder.weight
    some = [encoder, decoder]
    params = [p for one in some for p in (one.named_parameters(f"{id(one)}") if is_named else one.parameters())]
    with pytest.raises(ValueError, match=r"parameters 0 and 1 are one, given twice, .* as in dict\.fromkeys\(params\)"):
        new(params)
    new(dict.fromkeys(p for one in some for p in one.parameters()))


@pytest.mark.parametrize("name", APART)
def test_slices_of_one_tensor_that_do_not_meet_are_trained(name):
    params = [nn.Parameter(part.clone()) for part in APART[name]]
    sliced = [nn.Parameter(part) for part in APART[name]]
    for some in (params, sliced):
        optimizer = new(some)
        for param in some:
            param.grad = torch.ones_like(param)
        optimizer.step()
    assert all(torch.equal(a, b) for a, b in zip(params, sliced, strict=True))


@pytest.mark.parametrize(
    ("shape", "strides"), [((5,), (0,)), ((4, 4), (2, 1)), ((3, 3), (2, 4)), ((2, 3, 4), (1, 0, 2)), ((3, 4), (3, 3))]
)
def test_a_parameter_that_overlaps_itself_is_refused(shape, strides):
    """An expanded one was; one that as_strided() had made came apart without a word."""
    with pytest.raises(ValueError, match="parameter 0 is expanded, or overlaps itself"):
        new([nn.Parameter(torch.zeros(99).as_strided(shape, strides))])


@pytest.mark.parametrize(
    ("shape", "strides"), [((5, 1), (1, 0)), ((3, 2), (2, 3)), ((2, 3), (7, 2)), ((2, 1, 3), (3, 2, 1))]
)
def test_one_that_only_lies_oddly_is_not(shape, strides):
    new([nn.Parameter(torch.zeros(99).as_strided(shape, strides))]).take_over()


OF_THE_RUN = {
    "freeze_step": 3,
    "scale": "l1",
    "max_grad_norm": 1.0,
    "variance_floor": 0.0,
    "bias_correction": True,
    "lr_warmup_steps": 5,
    "bucket_elements": 100,
    "compress": "update",
    "scale_block": 64,
    "frozen_dtype": "bfloat16",
    "backend": "cpu",
    "process_group": None,
    "node_group": None,
}


@pytest.mark.parametrize("name", OF_THE_RUN)
def test_what_holds_for_the_run_is_refused_in_a_group(name):
    """It was taken and had no effect."""
    params = list(model())
    group = {"params": params[:1], name: OF_THE_RUN[name]}
    says = re.escape(f"give it to the optimizer, as in OneBitAdam(groups, {name}={OF_THE_RUN[name]!r})")
    with pytest.raises(ValueError, match=f"{name} holds for all parameter groups.*{says}"):
        new([{"params": params[1:]}, group])
    optimizer = new(params[1:])
    with pytest.raises(ValueError, match=says):
        optimizer.add_param_group(group)
    assert len(optimizer.param_groups) == 1
    new([{"params": params, "initial_lr": 0.1, "name": "all"}])  # of schedulers and users
    assert set(inspect.signature(OneBitAdam).parameters) - set(group_names()) - {"params", "more"} == set(OF_THE_RUN)


@pytest.mark.parametrize("name", [*OF_THE_RUN, "maximize", "amsgrad"])
@pytest.mark.parametrize("steps", [0, 1, 7])
def test_and_so_is_what_is_written_into_a_group_later(name, steps):
    """It was taken and had no effect, and went into the state."""
    params = model()
    optimizer = new([{"params": list(params)[:1]}, {"params": list(params)[1:]}])
    train(params, optimizer, range(steps), 0)
    before = [param.detach().clone() for param in params]
    optimizer.param_groups[1][name] = OF_THE_RUN.get(name, True)
    for action in (lambda: train(params, optimizer, [8], 0), optimizer.state_dict):
        with pytest.raises(ValueError, match=rf"{name}.* out of (parameter )?group 1"):
            action()
    assert all(map(torch.equal, params, before))
    del optimizer.param_groups[1][name]
    optimizer.param_groups[1].update(initial_lr=0.1, momentum=0.9, mine="a note", amsgrad=False, foreach=None)
    train(params, optimizer, [8], 0)


@pytest.mark.parametrize("kind", ["taken over", "loaded"])
@pytest.mark.parametrize("was", [False, True])
def test_which_groups_stay_with_adam_is_settled_by_the_first_step(was, kind):
    params = model()
    optimizer = new([{"params": list(params)[:1]}, {"params": list(params)[1:]}])
    optimizer.param_groups[1]["non_freeze"] = was  # not settled yet
    if kind == "loaded":
        optimizer.load_state_dict(optimizer.state_dict())
    train(params, optimizer, range(7), 0)
    optimizer.param_groups[1]["non_freeze"] = not was
    for action in (lambda: train(params, optimizer, [8], 0), optimizer.state_dict):
        with pytest.raises(ValueError, match=f"non_freeze of group 1 was {was} .* and is now {not was}"):
            action()


def group_names():
    return [name for name in new(model()).param_groups[0] if name not in ("params", "onebit")]


ADAMS_OWN = {
    "maximize": True,
    "amsgrad": True,
    "fused": True,
    "foreach": True,
    "capturable": True,
    "differentiable": True,
    "decoupled_weight_decay": False,
}


@pytest.mark.parametrize("kind", [OneBitAdam, OneBitLamb, ZeroOneAdam])
def test_what_only_adam_can_do_is_refused(kind):
    """It was taken and had no effect; groups of an AdamW that asks for none of it are fine."""
    params = list(model())
    for name, value in ADAMS_OWN.items():
        with pytest.raises(
            ValueError, match=f"{kind.__name__} has no {name}: take {name}={value} out of parameter group"
        ):
            kind([{"params": params, name: value}], freeze_step=3)
    adam = torch.optim.AdamW(params)
    kind(adam.param_groups, freeze_step=3)
    asked = set(adam.param_groups[0]) | set(torch.optim.Adam(params).param_groups[0])
    assert asked - set(ADAMS_OWN) - {"params", "onebit"} == {"lr", "betas", "eps", "weight_decay"}


@pytest.mark.parametrize("kind", [OneBitAdam, OneBitLamb, ZeroOneAdam, HookedOneBitAdam])
@pytest.mark.parametrize("name", ADAMS_OWN)
def test_an_argument_of_adam_is_answered_with_what_to_do(kind, name):
    """Python's words were `OneBitAdamArguments.__init__() got an unexpected keyword argument 'fused'`."""
    for value in (True, False):
        with pytest.raises(TypeError, match=rf"^{kind.__name__} has no {name}; leave it out: [^.;]+$"):
            kind(model(), freeze_step=3, **{name: value})
    with pytest.raises(TypeError, match=f"^{kind.__name__} has no learning_rate: it is no argument$"):
        kind(model(), freeze_step=3, learning_rate=1e-3)


def test_a_missing_freeze_step_is_told_under_the_name_that_was_called():
    with pytest.raises(TypeError, match=r"^OneBitAdam\.__init__\(\) missing .*'freeze_step'$"):
        OneBitAdam(model())  # pyright: ignore[reportCallIssue]


class Fused(OneBitAdam):
    def __init__(self, params, *, fused=False):
        super().__init__(params, freeze_step=3)
        self.fused = fused


def test_a_subclass_may_have_such_an_argument():
    assert Fused(model(), fused=True).fused


NO_RATES = {
    "two": (torch.tensor([1e-3, 1e-2]), r"a number or a tensor of one element, got shape \(2,\) on cpu"),
    "none": (torch.tensor([]), r"a number or a tensor of one element, got shape \(0,\) on cpu"),
    "on meta": (torch.empty((), device="meta"), r"a number or a tensor of one element, got shape \(\) on meta"),
    "truth": (torch.tensor(True), "a finite number >= 0, got True"),
    "complex": (torch.tensor(1 + 1j), r"a finite number >= 0, got \(1\+1j\)"),
    "negative": (torch.tensor(-1.0), "a finite number >= 0, got -1.0"),
}


@pytest.mark.parametrize("name", NO_RATES)
@pytest.mark.parametrize("kind", [OneBitAdam, OneBitLamb, ZeroOneAdam, HookedOneBitAdam])
def test_a_tensor_that_is_no_learning_rate(kind, name):
    lr, says = NO_RATES[name]
    with pytest.raises(ValueError, match=f"^lr must be {says}$"):
        kind(model(), lr=lr, freeze_step=3)


@pytest.mark.parametrize("name", NO_RATES)
def test_nor_is_it_one_later(name):
    """Two values were torch's `only one element tensors can be converted to Python scalars`."""
    lr, says = NO_RATES[name]
    params = model()
    optimizer = new(params, lr=torch.tensor([1e-3]))
    train(params, optimizer, [1], rank=0)
    before = flat(params)
    optimizer.param_groups[0]["lr"] = lr
    with pytest.raises(ValueError, match=f"^lr must be {says}$"):
        train(params, optimizer, [2], rank=0)
    assert (flat(params) == before).all()
    optimizer.param_groups[0]["lr"] = torch.tensor(1e-3)
    train(params, optimizer, [2], rank=0)


@pytest.mark.parametrize("name", ["betas", "eps", "weight_decay"])
@pytest.mark.parametrize("several", [torch.ones(9, 9), np.ones(3), (torch.ones(2), 0.9)], ids=["tensor", "array", "in"])
def test_several_numbers_in_the_place_of_one(name, several):
    """It was `Boolean value of Tensor with more than one value is ambiguous`."""
    params = model()
    optimizer = new(params)
    train(params, optimizer, [1], rank=0)
    kept, optimizer.param_groups[0][name] = optimizer.param_groups[0][name], several
    for _ in range(2):
        with pytest.raises(ValueError, match=r"\A(beta1|betas|eps|weight_decay) must be .+\Z"):  # in one line
            train(params, optimizer, [2], rank=0)
    optimizer.param_groups[0][name] = kept
    train(params, optimizer, [2], rank=0)


def shared(params):
    return torch.nn.ParameterList([*params[:4], torch.nn.Parameter(params[4].detach().clone().share_memory_())])


def test_a_parameter_in_shared_memory():
    """The first step moved it away, and other processes saw it no more."""
    refused = "a parameter lies in shared memory"
    with pytest.raises(ValueError, match=refused):
        new(shared(model()))
    for n_steps in (0, 2):
        params = model()
        optimizer = new(params)
        train(params, optimizer, range(1, n_steps + 1), rank=0)
        state, before = optimizer.state_dict(), flat(params)
        params[4].share_memory_()
        for _ in range(2):
            with pytest.raises(ValueError, match=refused):
                train(params, optimizer, [n_steps + 1], rank=0)
        with pytest.raises(ValueError, match=refused):
            optimizer.load_state_dict(state)
        assert params[4].is_shared()
        assert (flat(params) == before).all()
        params[4].data = params[4].data.clone()
        train(params, optimizer, [n_steps + 1], rank=0)
    params = shared(model())
    params[4].requires_grad_(False)  # stays where it is
    train(params, new(params), [1, 2], rank=0, change=lambda _, grads: [*grads[:4], None])
    assert params[4].is_shared()
    params = copy.deepcopy(shared(model()))  # what the message advises
    train(params, new(params), [1, 2], rank=0)


def test_parameters_that_can_not_be_trained():
    with torch.inference_mode():
        params = model()
    with pytest.raises(TypeError, match=r"made under torch\.inference_mode"):
        new(params)


def test_a_setting_that_is_gone():
    params = model()
    optimizer = new(params)
    state = optimizer.state_dict()
    for _ in range(2):
        kept = optimizer.param_groups[0].pop("weight_decay")
        with pytest.raises(ValueError, match="a parameter group has no weight_decay any more"):
            train(params, optimizer, [1], rank=0)
        optimizer.param_groups[0]["weight_decay"] = kept
        train(params, optimizer, [1], rank=0)
    del state["param_groups"][0]["eps"]
    with pytest.raises(ValueError, match="the state is damaged: group 0 has no eps"):
        optimizer.load_state_dict(state)


def test_the_hook_takes_a_ddp_module_only():
    net = nn.Linear(2, 2)
    with pytest.raises(TypeError, match="attach takes a DistributedDataParallel module, got Linear"):
        HookedOneBitAdam(net.parameters(), freeze_step=3).attach(net)


class Wrapped(nn.Module):
    """As DistributedDataParallel and torch.compile name the parameters of what they wrap."""

    def __init__(self, name, net):
        super().__init__()
        self.add_module(name, net)


@pytest.mark.parametrize("name", ["module", "_orig_mod"])
def test_a_model_that_was_wrapped_is_told(name, tmp_path):
    """The names of three parameters said nothing about the cause."""
    net = nn.Linear(2, 2)
    optimizer = new(net.parameters())
    wrapped = Wrapped(name, net)
    for saved, loaded, where in ((net, wrapped, "the model"), (wrapped, net, "the checkpoint")):
        save_checkpoint(tmp_path / where, optimizer, saved)
        with pytest.raises(ValueError, match=f"the names in {where} have '{name}.' and the others have not"):
            load_checkpoint(tmp_path / where, optimizer, loaded)
