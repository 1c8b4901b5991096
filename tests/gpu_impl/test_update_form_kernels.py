"""compress="update" [C12] on the kernels and in the optimizer: the relation, checkpoints, what is refused."""

from __future__ import annotations

import io

import numpy as np
import pytest
import torch
from optimizer_support import ONE_BUCKET, flat, full_state, model, new, pool, record, train
from test_optimizer_steps import change, snapshot

from gpu_impl import Exchange, Layout, get_backend, step_scalars
from gpu_impl.kernels.cpu.backend import CpuBackend
from gpu_impl.kernels.marks import is_marked, live_bits_of
from verification.adapters.kernels import Kernels, TorchKernels
from verification.adapters.optimizer import Optimizer
from verification.protocol import Hyper, Traits
from verification.relation.step import StepRelation
from verification.search.driver import Driver
from verification.search.plan import Plan, Profile
from verification.search.runs import check

UPDATE = {"compress": "update", "weight_decay": 0.01, "bias_correction": True, "variance_floor": 1e-3}


def findings(under_test, cases, *, exact=True, **levels):
    """What is found in small random cases with these levels, of the update form unless they say otherwise, and in some
    without rounding.
    """
    levels = {"compress": "update", **levels}
    driver = Driver(under_test)
    plan = Plan.of(driver, "optimizer", Profile(0, 1, 0, triples=False, minutes=1, simplifying=0), 0)
    rng, chosen = np.random.default_rng(1), []
    while len(chosen) < cases:
        row = {**plan.space.random_row(rng), **levels}
        if plan.space.allows(row) and row["size"][1] < 300 and row["compressed"][1] < 20:
            chosen.append(plan.case(row, len(chosen)))
    chosen += [case for case in plan.exact_cases(12) if exact and case.hyper.compress == levels["compress"]]
    return [one for case in chosen for one in check(driver, case, set())]


@pytest.mark.parametrize("kernels", [Kernels, TorchKernels])
def test_the_kernels_hold(kernels):
    assert findings(kernels, 8) == []
    assert findings(kernels, 4, dead="some with a later gradient") == []


@pytest.mark.parametrize("checkpoint", ["none", "reload", "reload used", "resize"])
def test_the_optimizer_holds(checkpoint):
    assert findings(Optimizer, 3, checkpoint=checkpoint) == []


class Wrong(CpuBackend):
    """Forgets P in the gradient, or applies it once more."""

    def __init__(self, bug):
        super().__init__()
        self.bug = bug

    def compress(self, *arguments, preconditioner=None, **options):
        self.preconditioner = preconditioner
        super().compress(*arguments, preconditioner=None if self.bug == "forgets" else preconditioner, **options)

    def apply(self, params, preconditioner, *arguments, **options):
        if self.bug == "twice" and preconditioner is None:
            preconditioner, options = self.preconditioner, {}
        super().apply(params, preconditioner, *arguments, **options)


@pytest.mark.parametrize(("bug", "clause"), [("twice", "apply"), ("forgets", "conservation")])
def test_a_bug_in_the_kernels_is_found(bug, clause, monkeypatch):
    monkeypatch.setattr("verification.adapters.kernels.get_backend", lambda *_: Wrong(bug))
    assert clause in {one.clause for one in findings(Kernels, 4, dead="none", snapshots="every step", workers=(2, 2))}


def recorded(hyper):
    params = model()
    return record(params, new(params, freeze_step=12, **hyper), range(1, 61), change)


@pytest.mark.parametrize("bucket_elements", [ONE_BUCKET, 60])
def test_steps_of_real_processes_obey_the_relation(bucket_elements):
    runs = pool(2).call(recorded, {**UPDATE, "bucket_elements": bucket_elements})
    hyper = Hyper(lr=1e-2, freeze_step=12, **UPDATE)
    for k in range(len(runs[0][0][0])):
        before = snapshot([states[0][k] for states, _ in runs])
        for t in range(60):
            grads_ND = np.stack([grads[t][k] for _, grads in runs])
            if not all(np.isfinite(grad_D).all() for _, grads in runs for grad_D in grads[t]):
                grads_ND[0, 0] = np.nan  # in another bucket, perhaps: the step is skipped for all
            after = snapshot([states[t + 1][k] for states, _ in runs])
            assert StepRelation(before, grads_ND, after, hyper, Traits()).findings() == []
            before = after


def saved_with(hyper, step):
    params = model()
    optimizer = new(params, **hyper)
    train(params, optimizer, range(1, step + 1))
    file = io.BytesIO()
    torch.save({"optimizer": optimizer.state_dict(), "model": params.state_dict()}, file)
    train(params, optimizer, range(step + 1, 13))
    return file.getvalue(), flat(params), full_state(optimizer)


def resumed(data, step, hyper):
    saved = torch.load(io.BytesIO(data), weights_only=True)
    params = model(seed=1)
    optimizer = new(params, **hyper)
    params.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    train(params, optimizer, range(step + 1, 13))
    return flat(params), full_state(optimizer)


def resumed_on_each(files, step, hyper):
    from torch import distributed as dist

    return resumed(files[dist.get_rank()], step, hyper)


@pytest.mark.parametrize("step", [2, 5, 6, 9])
def test_resume_is_exact(step):
    """In the warm-up, right after the freeze, after the first compressed step, and later."""
    runs = pool(2).call(saved_with, UPDATE, step)
    again = pool(2).call(resumed_on_each, [run[0] for run in runs], step, UPDATE)
    for (_, params, states), (params_again, states_again) in zip(runs, again, strict=True):
        assert params.tobytes() == params_again.tobytes()
        for part, other in zip(states, states_again, strict=True):
            assert all(part[name].tobytes() == other[name].tobytes() for name in part)


def loaded_into_the_other_form(step):
    data, *_ = saved_with(UPDATE, step)
    try:
        return resumed(data, step, {**UPDATE, "compress": "momentum"})[0]
    except ValueError as error:
        return str(error)


def test_a_state_of_the_other_form_is_refused_after_the_warm_up():
    ((refused,), (taken,)) = (pool(1).call(loaded_into_the_other_form, step) for step in (7, 3))
    assert "made with compress='update' and this optimizer with 'momentum'" in refused
    assert np.isfinite(taken).all()


def test_what_is_refused():
    with pytest.raises(ValueError, match="compress must be 'momentum' or 'update', got 'gradient'"):
        new(model(), compress="gradient")
    pytest.importorskip("triton")
    from gpu_impl.benchmarks.triton_v1 import TritonV1Backend

    with pytest.raises(ValueError, match="the triton-v1 backend has no compress='update': use another backend"):
        TritonV1Backend().check_extensions(compress="update")


@pytest.mark.parametrize("backend", ["torch", "cpu"])
@pytest.mark.parametrize("dim", [1, 8, 37, 40_001])
def test_apply_reads_no_p_and_moves_live_coordinates_alone(backend, dim):
    rng, kernels = np.random.default_rng(dim), get_backend(backend, torch.device("cpu"))
    P = torch.tensor(rng.random(dim).astype(np.float32))
    assert live_bits_of(P + 1) is None
    P[rng.random(dim) < 0.3] = -0.0
    exchange = Exchange.alone(Layout(dim, 2))
    exchange.shared[:, -4:].view(torch.float32).fill_(0.5)
    before = torch.tensor(rng.standard_normal(dim).astype(np.float32))
    for live_bits, dead in ((live_bits_of(P), is_marked(P)), (None, torch.zeros(dim, dtype=torch.bool))):
        x = before.clone()
        kernels.apply(x, None, exchange, step_scalars(0.1, 0.01), live_bits=live_bits)
        moved = before - torch.tensor(0.1) * (-0.5 + torch.tensor(0.01) * before)  # all bits are 0: -S
        assert torch.equal(x, torch.where(dead, before, moved))
    with pytest.raises(ValueError, match="live_bits are for the update form"):
        kernels.apply(before, P, exchange, step_scalars(0.1), live_bits=torch.zeros(-(-dim // 8), dtype=torch.uint8))
