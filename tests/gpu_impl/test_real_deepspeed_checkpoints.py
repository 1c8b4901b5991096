"""Checkpoints that DeepSpeed 0.19.6 itself has written: converted, they go on; deepspeed_0_19_6/make.py made them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from deepspeed_0_19_6.make import FREEZE_STEP, batch, network
from optimizer_support import ONE_BUCKET, flat, new, pool, record
from test_optimizer_steps import findings_of
from torch import distributed as dist

from gpu_impl.checkpoints.deepspeed import convert
from verification.protocol import Hyper

FILES = Path(__file__).parent / "deepspeed_0_19_6"
PARAMETERS = {k: np.array(v, np.float32) for k, v in json.loads((FILES / "fp32-parameters.json").read_text()).items()}
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
UNIT = 2.0**-24


def resumed(name, **hyper):
    saved = convert(FILES / f"{name}.pt")
    net = network().to(DTYPES[name[:4]])
    net.load_state_dict(saved["model"])
    optimizer = new(net.parameters(), **hyper)
    optimizer.load_state_dict(saved["optimizer"])
    return net, optimizer


def two_more_steps(freeze_step=100):
    """Of the warm-up, on the batches that DeepSpeed saw: the parameters of each, and the v after the last."""
    net, optimizer = resumed("fp32-step4", freeze_step=freeze_step, variance_floor=0.0)
    found = [flat(net.parameters())]
    for t in (5, 6):
        x, y = batch(t, dist.get_rank())
        optimizer.zero_grad()
        (net(x) - y).square().mean().backward()
        optimizer.step()
        found.append(flat(net.parameters()))
    v = torch.cat([one["exp_avg_sq"].flatten() for one in optimizer.state_dict()["state"].values()])
    return found, v.numpy(), optimizer.stats().frozen_at


def test_the_warm_up_goes_on_as_deepspeed_itself_went_on():
    """Step by step the same parameters, up to rounding.

    A step rounds a gradient some tens of times (products, sums over 4 rows and 2 workers, 3 layers of depth), m, v, the
    root, the quotient and the sum 10 times; each rounding is at most ``UNIT`` of a number that is at most as large as
    what it is part of. 100 roundings of the larger of parameter and update in each of two steps bound the difference.
    """
    for found, *_ in pool(2).call(two_more_steps):
        assert found[0].tobytes() == PARAMETERS["step4"].tobytes()
        for ours, theirs, before in zip(found[1:], (PARAMETERS["step5"], PARAMETERS["step6"]), found, strict=False):
            moved = np.abs(theirs - before).max()
            assert np.abs(ours - theirs).max() <= 200 * UNIT * max(np.abs(theirs).max(), moved)
            assert moved > 1000 * 200 * UNIT * np.abs(theirs).max(), "so a step that is not taken would be seen"


def test_the_freeze_step_of_a_converted_run_is_deepspeeds():
    """It freezes the v that DeepSpeed froze, with the number that DeepSpeed was given (docs/migration.md).

    The gradients of the two steps differ by the 200 roundings of the test above, so their squares by twice that and a
    rounding each; the rest of v was loaded.
    """
    saved = torch.load(FILES / "fp32-step9.pt", weights_only=True)["optimizer"]["state"]
    theirs = np.concatenate([one["exp_avg_sq"].numpy().ravel() for one in saved.values()])
    for _, ours, frozen_at in pool(2).call(two_more_steps, FREEZE_STEP):
        assert frozen_at == FREEZE_STEP
        assert np.abs(ours - theirs).max() <= 500 * UNIT * theirs.max()
    for _, ours, frozen_at in pool(2).call(two_more_steps, FREEZE_STEP - 1):
        assert frozen_at == FREEZE_STEP - 1
        assert np.abs(ours - theirs).max() > 1000 * 500 * UNIT * theirs.max(), "one less would be seen"


def go_on(name):
    net, optimizer = resumed(name, freeze_step=6, bucket_elements=ONE_BUCKET, lr=1e-2)
    return *record(list(net.parameters()), optimizer, range(10, 30)), optimizer.stats()


@pytest.mark.parametrize("name", ["fp32-step4", "fp32-step9"])
def test_every_later_step_obeys_the_relation(name):
    """Through the freeze and in the compression, from m, v and parameters that DeepSpeed has saved."""
    runs = pool(2).call(go_on, name)
    steps = int(name[-1])
    freeze = max(6, steps + 1)
    for states, _, stats in runs:
        assert (stats.phase, stats.frozen_at, stats.step) == ("compressed", freeze, steps + 20)
        if name == "fp32-step9":
            assert states[0][0]["params"][:15].tobytes() == PARAMETERS["step9"][:15].tobytes()
    assert findings_of(runs, Hyper(lr=1e-2, freeze_step=freeze, variance_floor=1e-3)) == []


@pytest.mark.parametrize("name", ["fp32-step9", "bf16-step9", "fp16-step9"])
def test_what_was_saved_is_what_is_loaded(name):
    """m, v and the float32 weights, parameter by parameter; the wrapper for 16 bits has counted a step more."""
    raw = torch.load(FILES / f"{name}.pt", weights_only=True)["optimizer"]
    net, optimizer = resumed(name)
    own = optimizer.state_dict()["state"]
    assert optimizer.steps == (9 if name.startswith("fp32") else 10)
    inner = raw.get("optimizer_state_dict", raw)["state"]
    for key in ("exp_avg", "exp_avg_sq"):
        theirs = torch.cat([one[key].flatten() for one in inner.values()])
        assert torch.equal(torch.cat([one[key].flatten() for one in own.values()]), theirs)
        assert theirs.abs().max() > 0
    if "fp32_groups_flat" in raw:
        assert torch.equal(torch.cat([one["master"].flatten() for one in own.values()]), raw["fp32_groups_flat"][0])
    else:
        assert flat(net.parameters()).tobytes() == PARAMETERS["step9"].tobytes()


def test_stats_say_when_a_loaded_state_freezes():
    """Nine steps were taken, and freeze_step=5 is over: it freezes at the next step, and says so before."""
    _, optimizer = resumed("fp32-step9", freeze_step=5)
    told = optimizer.stats()
    assert told.freeze_diagnosis == (
        "step 9: what was loaded is not frozen; freeze_step=5 is over, so the next step ends the warm-up"
    )
    for group in optimizer.param_groups:
        for param in group["params"]:
            param.grad = torch.ones_like(param)
    optimizer.step()
    assert optimizer.stats().freeze_diagnosis == "frozen at step 10"
    _, later = resumed("fp32-step9", freeze_step=10)
    assert later.stats().freeze_diagnosis == "step 9: the warm-up ends after step 10"


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (("optimizer", "state", 3, "exp_avg_sq"), torch.zeros(0), r"the optimizer's state 3 is not of 2\.bias"),
        (("optimizer", "state", 3, "exp_avg"), torch.zeros(1, 2), r"the optimizer's state 3 is not of 2\.bias"),
        (("module", "2.bias"), torch.tensor([1.0, torch.nan]), r"2\.bias of the model is not finite"),
        (("module", "2.bias"), torch.tensor([1.0, -torch.inf]), r"2\.bias of the model is not finite"),
    ],
)
def test_what_no_run_could_go_on_with_is_refused(place, value, message, tmp_path):
    """These were written without a word: of exp_avg alone the shape was looked at, of the weights no value."""
    saved = part = torch.load(FILES / "fp32-step9.pt", weights_only=True)
    for name in place[:-1]:
        part = part[name]
    part[place[-1]] = value
    torch.save(saved, tmp_path / "file.pt")
    with pytest.raises(ValueError, match=message):
        convert(tmp_path / "file.pt")
