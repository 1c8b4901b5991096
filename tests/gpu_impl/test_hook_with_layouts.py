"""Parameters that do not lie row by row in memory, under the hook: DDP and the optimizer must mean the same element."""

from __future__ import annotations

import pytest
import torch
from torch import distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from gpu_impl import OneBitAdam
from gpu_impl.harness.worker_pool import WorkerPool
from gpu_impl.optimizer.ddp_hook import HookedOneBitAdam

FREEZE_STEP, STEPS = 2, 5


def of_layout(how):
    """A parameter whose shape differs from how it lies."""
    values = torch.arange(1.0, 61.0)
    return {
        "transposed": lambda: values[:15].reshape(5, 3).t(),
        "channels last": lambda: values[:48].reshape(2, 3, 4, 2).to(memory_format=torch.channels_last),
        "permuted": lambda: values.reshape(3, 4, 5).permute(2, 0, 1),
        "with gaps": lambda: values.reshape(6, 10)[:, ::2],
        "transposed with gaps": values.reshape(6, 10)[:, ::2].t,
        "a column": lambda: values.reshape(12, 5)[:, 3:4],
    }[how]()


class Layouts(nn.Module):
    """Parameters of several layouts, between others that lie row by row."""

    def __init__(self, layouts):
        super().__init__()
        self.odd = nn.ParameterList(
            nn.Parameter(made) for how in layouts for made in (torch.randn(9), of_layout(how), torch.randn(4, 4))
        )

    def forward(self, inputs):
        return sum(((p * inputs[: p.numel()].view(p.shape) - 1) ** 2).sum() for p in self.odd)


def train(kind, layouts, options, ddp_options, changed=()):
    """The parameters after every step; ``changed`` get their layout after DDP was made."""
    torch.manual_seed(0)
    network = Layouts(layouts)
    optimizer = kind(network.parameters(), lr=1e-2, freeze_step=FREEZE_STEP, **options)
    model = network
    if kind is HookedOneBitAdam:
        model = DistributedDataParallel(network, **ddp_options)
        for param in network.odd:
            if param.dim() == 4 and changed:
                param.data = param.data.to(memory_format=changed)
        optimizer.attach(model)
    random, states = torch.Generator().manual_seed(1 + dist.get_rank()), []
    try:
        for _ in range(STEPS):
            optimizer.zero_grad()
            model(torch.randn(60, generator=random)).backward()
            optimizer.step()
            states.append([param.detach().clone() for param in network.parameters()])
    except RuntimeError as error:
        return str(error)
    return states


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("backend", ["cpu", "torch"])
@pytest.mark.parametrize(
    ("layouts", "ddp_options"),
    [
        *(([how], {}) for how in ("transposed", "channels last", "permuted", "transposed with gaps", "a column")),
        (["with gaps", "channels last", "transposed", "permuted"], {"bucket_cap_mb": 0.0003}),
        (["channels last", "transposed with gaps"], {"gradient_as_bucket_view": True}),
    ],
)
def test_every_step_is_that_of_one_bit_adam_to_the_bit(layouts, ddp_options, backend, n):
    pool, options = WorkerPool.of(n), {"backend": backend, "bucket_elements": 100}
    hooked, plain = (pool.call(train, kind, layouts, options, ddp_options) for kind in (HookedOneBitAdam, OneBitAdam))
    for mine, theirs in zip(hooked, plain, strict=True):
        assert not isinstance(mine, str), mine
        for t, (left, right) in enumerate(zip(mine, theirs, strict=True), start=1):
            assert all(map(torch.equal, left, right)), f"step {t}"


def test_a_layout_that_changes_after_ddp_was_made_is_refused():
    said = WorkerPool.of(2).call(train, HookedOneBitAdam, ["channels last"], {}, {}, torch.contiguous_format)
    assert all("the memory format of a parameter" in one for one in said), said
