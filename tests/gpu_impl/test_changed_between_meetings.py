"""ZeroOneAdam's parameters changed while the workers are parted: where they last met, and refused anywhere else."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from family_optimizers import DIM, LOCAL, flat, made, noise, rank, same_as, snapshot, start, step
from family_optimizers import the_reference as reference_of
from optimizer_support import pool
from test_one_worker_refuses import error_of
from torch import nn

from gpu_impl import load_checkpoint, save_checkpoint

END, WALKING = 34, 26
"""The steps of a run; and the first of three after which the workers have parted."""

SLOT = 2
"""The parameter that is changed alone, or pauses."""


def begun(dtype=torch.float32, n=2):
    params, optimizer = made(LOCAL[0], start(), {**LOCAL[1], "weight_decay": 0.1}, dtype)
    return params, optimizer, noise(n, END)[:, rank()]


def limit(t):
    """Of step t: x is clipped anew between two meetings too."""
    return float(np.float32(0.97**t))


def clip(params, t):
    with torch.no_grad():
        for param in params:
            param.clamp_(-limit(t), limit(t))


def clipping_at_meetings(writes):
    """Weight clipping after each step, as the reference is told to do it: snapshots after every one, and bytes sent."""
    params, optimizer, grads = begun()
    optimizer.take_over()
    found, points = [snapshot(params, optimizer)], []
    for t, grad_D in enumerate(grads):
        step(params, optimizer, grad_D)
        if writes:
            with optimizer.at_last_meeting():
                clip(params, t)
        found.append(snapshot(params, optimizer))
        points.append(flat(params))
    return found, points, optimizer.stats().bytes_sent


def test_what_is_written_where_they_met_is_x_from_then_on():
    """Bit for bit as in the reference; each worker's walk stays as it is, and nothing more is sent."""
    (ours, other), (unwritten, _) = pool(2).call(clipping_at_meetings, True), pool(2).call(clipping_at_meetings, False)
    optimizer = reference_of(LOCAL[0], lr=1e-2, weight_decay=0.1, **LOCAL[1])
    state, grads, n_parted = optimizer.init(start(), 2), noise(2, END), 0
    for t in range(END):
        state = optimizer.step(state, grads[t])
        state = replace(state, params=np.clip(state.params, np.float32(-limit(t)), np.float32(limit(t))))
        same_as(state, LOCAL[0], [ours[0][t + 1], other[0][t + 1]], f"after step {t + 1}")
        local_ND = optimizer.local_params(state)
        if local_ND is not None:
            assert all(np.array_equal(local_ND[k], one[1][t]) for k, one in enumerate((ours, other)))
            n_parted += 1
    assert n_parted > END / 4
    assert ours[2] == unwritten[2]


def refused(way, at, folder, dtype):
    """What each worker is told where somebody has changed the model between two steps, and whether undoing it helps."""
    params, optimizer, grads = begun(dtype)
    for grad_D in grads[:at]:
        step(params, optimizer, grad_D)
    before = [param.detach().clone() for param in params]
    with torch.no_grad():
        if way == "clamp":
            clip(params, at)
        elif way == "add" or (way == "one rank" and rank() == 1):
            params[SLOT].add_(1)
        elif way == "data":
            params[SLOT].data.add_(1)
        elif way == "new memory":
            params[SLOT].data = params[SLOT] + 1
    told = [error_of(lambda: save_checkpoint(folder, optimizer, nn.ParameterList(params)))]
    if way != "nothing":
        told.append(error_of(lambda: step(params, optimizer, grads[at])))
    with torch.no_grad():
        for param, values in zip(params, before, strict=True):
            param.copy_(values)
    for grad_D in grads[at:]:
        step(params, optimizer, grad_D)
    return told, flat(params).tobytes()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("way", ["clamp", "add", "one rank", "data", "new memory"])
def test_a_change_elsewhere_is_refused_on_all_workers(way, dtype, tmp_path):
    """Each worker made its own point the new base: the replicas came apart for good. What is put back has not been."""
    results = pool(2).call(refused, way, WALKING, tmp_path, dtype)
    unchanged = pool(2).call(refused, "nothing", WALKING, tmp_path, dtype)
    for number, (told, _) in enumerate(results):
        for kind, words in told:
            assert "was changed while the workers are parted, each at a point of its own: undo it" in words
            if way == "one rank" and number == 0:
                assert words.startswith("rank 1")
            else:
                assert kind == "RuntimeError"
    assert [told for told, _ in unchanged] == [[("", "")]] * 2
    assert [end for _, end in results] == pool(2).call(straight_on, dtype)


def straight_on(dtype):
    params, optimizer, grads = begun(dtype)
    for grad_D in grads:
        step(params, optimizer, grad_D)
    return flat(params).tobytes()


def write_apart(at):
    """One worker writes something else than the other; then the next step."""
    params, optimizer, grads = begun()
    for grad_D in grads[:at]:
        step(params, optimizer, grad_D)
    with optimizer.at_last_meeting(), torch.no_grad():
        params[SLOT].add_(rank())
        inside = error_of(lambda: step(params, optimizer, grads[at]))
    return inside, error_of(lambda: step(params, optimizer, grads[at]))


def test_what_they_write_there_must_be_the_same_and_no_step_is_taken_there():
    for inside, (kind, words) in pool(2).call(write_apart, WALKING):
        assert inside[1].startswith("step() was called inside at_last_meeting()")
        assert kind == "WorkersDisagreeError"
        assert words.startswith("the workers must agree on the values of the parameters")


def nested(at, folder):
    """Written, saved and looked at inside; one parameter pauses meanwhile. The ends with and without a resume."""
    params, optimizer, grads = begun()
    ends = []

    def go_on(params, optimizer, steps):
        for t in steps:
            for k, (param, values) in enumerate(zip(params, np.split(grads[t], cuts()), strict=True)):
                param.grad = torch.from_numpy(values.reshape(param.shape).copy())
                if k == SLOT and WALKING <= t <= at:
                    param.grad = None
            optimizer.step()

    go_on(params, optimizer, range(at))
    with optimizer.at_last_meeting():
        clip(params, at)
        written = flat(params)
        save_checkpoint(folder, optimizer, nn.ParameterList(params))
        kept = flat(params)
        state = optimizer.state_dict()
    walked = [state["state"][k][f"walked_of_{rank()}"].flatten() for k in range(len(params))]
    apart, expected = flat(params), written - torch.cat(walked).numpy()
    with optimizer.at_last_meeting():
        again = flat(params)
        for param in params:
            param.data.add_(1)
            param.data.copy_(torch.zeros_like(param))
        for param, values in zip(params, np.split(written, cuts()), strict=True):
            param.data.copy_(torch.from_numpy(values.reshape(param.shape).copy()))
    for load in ("none", "folder", "state"):
        if load != "none":
            params, optimizer, _ = begun()
        if load == "folder":
            load_checkpoint(folder, optimizer, nn.ParameterList(params))
        elif load == "state":
            optimizer.load_state_dict(copy.deepcopy(state))
        go_on(params, optimizer, range(at, END))
        ends.append(flat(params).tobytes())
    return written, kept, again, apart, expected, ends


def cuts():
    params, _ = made(LOCAL[0], start(), LOCAL[1])
    return np.cumsum([param.numel() for param in params])[:-1]


@pytest.mark.parametrize("at", [WALKING, WALKING + 1, WALKING + 2])
def test_a_save_inside_and_a_parameter_that_pauses(at, tmp_path):
    results = pool(2).call(nested, at, tmp_path)
    for written, kept, again, apart, expected, ends in results:
        assert written.size == DIM
        assert written.tobytes() == kept.tobytes() == again.tobytes() == results[0][0].tobytes()
        assert written.tobytes() != apart.tobytes() == expected.tobytes()
        assert len(set(ends)) == 1
