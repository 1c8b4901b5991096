"""What a step sends, counted on a group that sends nothing, and by gloo's rules."""

from __future__ import annotations

import math

import pytest
import torch
from torch import distributed as dist

from gpu_impl.netlab.collective import FRAMING, Collective
from gpu_impl.netlab.contestants import CONTESTANTS, LAB, PREPARATION
from gpu_impl.netlab.layers import LAYERS, Layers, width_for
from gpu_impl.netlab.silent_group import NAME, SilentGroup
from gpu_impl.optimizer.collectives import Collectives


@pytest.mark.parametrize("n_parameters", [8, 1_000_000, 10_000_000])
def test_the_model_has_about_as_many_parameters_as_asked(n_parameters):
    width = width_for(n_parameters)
    assert abs(LAYERS * width * (width + 1) - n_parameters) <= LAYERS * (width + 1)
    assert Layers(8).n_parameters == LAYERS * 2


def test_a_collective_sends_each_part_but_its_own():
    assert Collective("all-reduce", 4000).data(4) == 2 * 3 * 1000
    assert Collective("all-gather", 4000).data(4) == 3 * 1000
    assert Collective("all-to-all", 4000).data(4) == 3 * 1000
    kinds = ("all-reduce", "all-gather", "all-to-all")
    assert [Collective(kind, 4000).rounds(4) for kind in kinds] == [6, 1, 1]
    assert [Collective(kind, 4000).trips(4) for kind in kinds] == [12, 2, 2]
    assert [Collective(kind, 2**20).rounds(4) for kind in kinds] == [6, 3, 3]
    assert [Collective(kind, 2**20).trips(4) for kind in kinds] == [12, 4, 4]


def test_a_large_all_reduce_is_cut_into_messages_of_a_mebibyte():
    small, large = Collective("all-reduce", 4000), Collective("all-reduce", 40 * 2**20)
    assert (small.messages(4), large.messages(4)) == (6 * 2, 6 * 10)
    assert large.framing(4) == 60 * FRAMING


@pytest.fixture
def silent():
    """A silent group of four in this process."""
    store = dist.HashStore()
    dist.init_process_group(NAME, store=store, rank=1, world_size=4)
    group = dist.group.WORLD
    assert isinstance(group, SilentGroup)
    yield group
    dist.destroy_process_group()


@pytest.mark.parametrize("kind", ["all-reduce", "all-gather", "all-to-all"])
def test_a_prepared_collective_is_the_one_that_was_written_down(silent, kind):
    Collective(kind, 48).prepared()()
    assert silent.calls == [Collective(kind, 48)]


@pytest.mark.parametrize("name", CONTESTANTS)
def test_each_contestant_trains_on_the_silent_group(silent, name):
    """And what it sends in a step is what its kind of compression sends, to a tenth."""
    torch.manual_seed(0)
    model = Layers(200_000)
    one = CONTESTANTS[name]
    training = one.build(model, silent, LAB)
    before = [param.detach().clone() for param in model.parameters()]
    for _ in range(math.ceil(PREPARATION / one.period) + 1):
        silent.calls.clear()
        for _ in range(one.period):
            training.step(*model.samples(2, rank=0))
    assert all(torch.isfinite(param).all() for param in model.parameters())
    assert not any(torch.equal(old, new) for old, new in zip(before, model.parameters(), strict=True))
    sent = sum(call.data(4) for call in silent.calls) / one.period
    if name == "powersgd":
        assert 0 < sent < 0.1 * 1.5 * 4 * model.n_parameters
    else:
        assert sent == pytest.approx(1.5 * one.bits / 8 * model.n_parameters, rel=0.1)


def test_what_the_silent_group_gives_is_what_equal_workers_would_get(silent):
    row, rows, gathered = torch.arange(3.0), torch.arange(12.0).view(4, 3), torch.zeros(4, 3)
    Collectives().all_gather(gathered, row).wait()
    assert gathered.tolist() == [row.tolist()] * 4
    swapped = torch.zeros(4, 3)
    dist.all_to_all_single(swapped, rows)
    assert swapped.tolist() == rows.tolist()
    parts = [torch.zeros(3) for _ in range(4)]
    dist.all_gather(parts, row)
    assert [part.tolist() for part in parts] == [row.tolist()] * 4
    dist.all_reduce(row)
    assert row.tolist() == [0.0, 1.0, 2.0]
    assert [call.kind for call in silent.calls] == ["all-gather", "all-to-all", "all-gather", "all-reduce"]
    assert [call.size for call in silent.calls] == [48, 48, 48, 12]
