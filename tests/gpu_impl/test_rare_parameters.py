"""Parameters of shapes and strides that are rare, and groups without any: trained, saved and loaded."""

from __future__ import annotations

import pytest
import torch
from family_optimizers import KINDS
from optimizer_support import model, new, pool, train
from test_one_worker_refuses import error_of

import gpu_impl
from gpu_impl import gathered_state_dict, load_checkpoint, resize_state_dicts, save_checkpoint


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("empty", ["first", "last", "all"])
def test_an_empty_group_is_trained(n, empty, tmp_path):
    for said, moved in pool(n).call(with_empty_groups, empty, tmp_path):
        assert said == ("", "")
        assert moved == (empty != "all")


def with_empty_groups(empty, folder):
    params = model()
    full = [] if empty == "all" else [{"params": list(params)}]
    groups = [*full, {"params": []}] if empty == "last" else [{"params": []}, *full]
    optimizer = new(groups, freeze_step=2)
    before = torch.cat([param.detach().reshape(-1) for param in params])

    def go():
        train(params, optimizer, range(1, 6))
        optimizer.load_state_dict(optimizer.state_dict())
        save_checkpoint(folder, optimizer)
        load_checkpoint(folder, optimizer)
        train(params, optimizer, [6])

    return error_of(go), bool((torch.cat([param.detach().reshape(-1) for param in params]) != before).all())


def strange_strides(folder):
    """NumPy gives an empty array a stride of 0, and expand() one of a single element; both are trained and saved."""
    shapes = [torch.zeros(4).expand(0, 4), torch.tensor(0.5).expand(1), torch.tensor(0.5).expand(1, 1), torch.ones(3)]
    shapes.append(torch.empty_strided((0,), (0,)))
    params = torch.nn.ParameterList([torch.nn.Parameter(values) for values in shapes])
    optimizer = new(params, freeze_step=2)

    def go():
        train(params, optimizer, range(1, 5))
        save_checkpoint(folder, optimizer, params)
        load_checkpoint(folder, optimizer, params)
        train(params, optimizer, [5])

    return error_of(go)


@pytest.mark.parametrize("n", [1, 2])
def test_a_parameter_whose_stride_is_0(n, tmp_path):
    assert pool(n).call(strange_strides, tmp_path) == [("", "")] * n


@pytest.mark.parametrize("backend", ["cpu", "torch"])
@pytest.mark.parametrize("block", [2**40, 2**62, 2**63 - 8])
def test_a_block_larger_than_a_chunk_is_the_chunk(block, backend):
    """Beyond what memory, or a number of the C kernels, can hold."""
    ends = []
    for size in (block, 128):  # all elements are one chunk of 120
        params = model()
        train(params, new(params, freeze_step=2, scale_block=size, backend=backend), range(1, 6), rank=0)
        ends.append(torch.cat([param.detach().reshape(-1) for param in params]))
    assert torch.equal(*ends)


ALGORITHMS = [*KINDS, ("OneBitAdam", {"freeze_step": 9})]


def with_a_scalar(kind):
    """A model with a parameter of no dimension, such as CLIP's logit_scale, and one with a single element."""
    params = torch.nn.ParameterList([torch.nn.Parameter(torch.ones(shape)) for shape in ((3, 8), (), (1, 1))])
    name, hyper = kind
    return params, getattr(gpu_impl, name)(params, lr=1e-3, **hyper)


def save_scalar(kind, folder):
    params, optimizer = with_a_scalar(kind)
    train(params, optimizer, range(1, 16))
    save_checkpoint(folder, optimizer, params)
    return optimizer.state_dict(), gathered_state_dict(optimizer)


def load_scalar(kind, state, folder):
    """From a state, or from a folder; what this worker then owes of each parameter, and that it goes on."""
    params, optimizer = with_a_scalar(kind)
    optimizer.load_state_dict(state) if state else load_checkpoint(folder, optimizer, params)
    rank = torch.distributed.get_rank()
    owed = [one[f"worker_error_of_{rank}"] for one in optimizer.state_dict()["state"].values()]
    train(params, optimizer, [16])
    return owed


@pytest.mark.parametrize("kind", ALGORITHMS, ids=lambda kind: kind[0])
def test_a_parameter_without_dimensions_on_another_number_of_workers(kind, tmp_path):
    """The mean of its errors had a dimension, so the state was refused."""
    (first, gathered), (second, _) = pool(2).call(save_scalar, kind, tmp_path)
    pairs = zip(first["state"].values(), second["state"].values(), strict=True)
    mean = [(one["worker_error_of_0"] + other["worker_error_of_1"]) / 2 for one, other in pairs]
    assert [one.shape for one in mean] == [(3, 8), (), (1, 1)]
    for n in (1, 3):
        resized = resize_state_dicts([first, second], n)
        ways = [[(kind, s, None) for s in resized], [(kind, gathered, None)] * n, [(kind, None, tmp_path)] * n]
        for way in ways:
            for owed in pool(n).map(load_scalar, way):
                assert all(torch.equal(a, b) for a, b in zip(owed, mean, strict=True))
