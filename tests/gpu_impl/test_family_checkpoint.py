"""Checkpoints of OneBitLamb and ZeroOneAdam: exact for as many workers, means for others, refused across algorithms."""

from __future__ import annotations

import copy
import io

import numpy as np
import pytest
import torch
from family_optimizers import (
    DIM,
    EVERY_STEP,
    IDS,
    KINDS,
    LAMB,
    LOCAL,
    flat,
    layers,
    made,
    noise,
    rank,
    snapshot,
    start,
    step,
)
from optimizer_support import ONE_BUCKET, pool
from torch import nn
from torch.distributed import checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

from gpu_impl import OneBitAdam, gathered_state_dict, load_checkpoint, resize_state_dicts, save_checkpoint
from theory import rounding

END = 26
POINTS = [3, 9, 15, 20, 22]
"""In the warm-up; right after the freeze; later. With local steps: met, walking since a step, and since two."""
HYPER = {"bucket_elements": 50, "weight_decay": 0.01}
"""Several buckets."""


def gradients(steps, me):
    return noise(4, END)[list(steps), me]


def train(params, optimizer, steps, me=None):
    for grad_D in gradients(steps, rank() if me is None else me):
        step(params, optimizer, grad_D)


def begun(kind, dtype, seed=5, **more):
    name, hyper = kind
    params, optimizer = made(name, start(seed), {**hyper, **HYPER, **more}, dtype)
    return nn.ParameterList(params), optimizer


def through(kind, dtype):
    model, optimizer = begun(kind, dtype)
    train(model, optimizer, range(END))
    return flat(model), state_bytes(optimizer), optimizer.stats()


def state_bytes(optimizer):
    state = optimizer.state_dict()["state"]
    return {(n, k): v.numpy().tobytes() for n, one in state.items() for k, v in one.items() if torch.is_tensor(v)}


def save_file(kind, at, dtype):
    model, optimizer = begun(kind, dtype)
    train(model, optimizer, range(at))
    file = io.BytesIO()
    torch.save({"optimizer": optimizer.state_dict(), "model": model.state_dict()}, file)
    return file.getvalue()


def resume_file(data, kind, at, dtype, state=None):
    saved = torch.load(io.BytesIO(data), weights_only=True)
    model, optimizer = begun(kind, dtype, seed=6)
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"] if state is None else state)
    loaded = optimizer.state_dict()
    train(model, optimizer, range(at, END))
    return flat(model), state_bytes(optimizer), optimizer.stats(), loaded


def save_folder(folder, kind, at, dtype):
    model, optimizer = begun(kind, dtype)
    train(model, optimizer, range(at))
    before = flat(model)
    save_checkpoint(folder, optimizer, model)
    assert before.tobytes() == flat(model).tobytes()


def resume_folder(folder, kind, at, dtype):
    model, optimizer = begun(kind, dtype, seed=6)
    load_checkpoint(folder, optimizer, model)
    train(model, optimizer, range(at, END))
    return flat(model), state_bytes(optimizer), optimizer.stats()


CASES = [(kind, n, at, torch.float32) for kind in (LAMB, EVERY_STEP) for n, at in [(1, 15), (2, 9), (3, 3), (3, 15)]]
CASES += [(LOCAL, n, at, torch.float32) for n, at in [(1, 22), *((3, at) for at in POINTS)]]
CASES += [(LAMB, 2, 15, torch.bfloat16), (LOCAL, 2, 22, torch.bfloat16)]


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("kind", "n", "at", "dtype"), CASES)
def test_resume_is_exact(kind, n, at, dtype, tmp_path):
    expected = pool(n).call(through, kind, dtype)
    files = pool(n).call(save_file, kind, at, dtype)
    resumed = pool(n).map(resume_file, [(data, kind, at, dtype) for data in files])
    pool(n).call(save_folder, tmp_path, kind, at, dtype)
    from_folder = pool(n).call(resume_folder, tmp_path, kind, at, dtype)
    for (params, state, stats), file, folder in zip(expected, resumed, from_folder, strict=True):
        assert params.tobytes() == file[0].tobytes() == folder[0].tobytes()
        assert state == file[1] == folder[1]
        assert stats == file[2] == folder[2]


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("n", "to"), [(3, 2), (2, 3), (2, 1)])
@pytest.mark.parametrize("kind", KINDS, ids=IDS)
def test_another_number_of_workers(kind, n, to, tmp_path):
    """Each worker's own has the mean of all, so what is owed, and where the workers are on average, are conserved."""
    at = 22
    files = pool(n).call(save_file, kind, at, torch.float32)
    saved = [torch.load(io.BytesIO(data), weights_only=True)["optimizer"] for data in files]
    states = resize_state_dicts(list(reversed(saved)), to)
    resumed = pool(to).map(resume_file, [(files[0], kind, at, torch.float32, state) for state in states])
    pool(n).call(save_folder, tmp_path, kind, at, torch.float32)
    from_folder = pool(to).call(resume_folder, tmp_path, kind, at, torch.float32)
    for file, folder in zip(resumed, from_folder, strict=True):  # two ways, one result
        assert file[0].tobytes() == folder[0].tobytes()
        assert file[1] == folder[1]
    own = {name.rpartition("_of_")[0] for name in saved[0]["state"][0] if "_of_" in name} - {"ignored", "server_error"}
    assert own == ({"worker_error"} if kind is LAMB else {"worker_error", "momentum", "accumulated", "walked"})
    for number in range(4):
        for name in own:
            old = np.stack([saved[k]["state"][number][f"{name}_of_{k}"].numpy() for k in range(n)])
            new = np.stack([resumed[k][3]["state"][number][f"{name}_of_{k}"].numpy() for k in range(to)])
            bound = rounding.average_tolerance(old, "float32") + rounding.gamma(8, "float64") * np.abs(old).sum(axis=0)
            assert (np.abs(new.astype(np.float64) - old.astype(np.float64).mean(axis=0)) <= bound).all()
            if kind is LOCAL or name == "worker_error":
                assert np.abs(old).max() > 1e-5


def gathered(kind, at):
    model, optimizer = begun(kind, torch.float32)
    train(model, optimizer, range(at))
    state, first = gathered_state_dict(optimizer), flat(model)
    train(model, optimizer, range(at, END))
    return state, first, flat(model)


def resume_gathered(state, params_D, kind, at):
    model, optimizer = begun(kind, torch.float32, seed=6)
    with torch.no_grad():
        for param, part in zip(model, layers(params_D), strict=True):
            param.copy_(torch.from_numpy(part.copy()))
    optimizer.load_state_dict(state)
    train(model, optimizer, range(at, END))
    return flat(model)


@pytest.mark.parametrize("kind", KINDS, ids=IDS)
def test_one_file_with_the_state_of_all(kind):
    """With the model of rank 0, as trainers save it: between two meetings the state says where each worker stands."""
    found = pool(2).call(gathered, kind, 22)
    resumed = pool(2).map(resume_gathered, [(found[0][0], found[0][1], kind, 22)] * 2)
    for (_, _, expected), params in zip(found, resumed, strict=True):
        assert expected.tobytes() == params.tobytes()


def by_torch(kind, folder):
    model, optimizer = begun(kind, torch.float32)
    train(model, optimizer, range(22))
    weights, state = get_state_dict(model, optimizer)
    dcp.save({"model": weights, "optimizer": state}, checkpoint_id=folder)
    train(model, optimizer, range(22, END))
    again, other = begun(kind, torch.float32, seed=6)
    weights, state = get_state_dict(again, other)
    dcp.load({"model": weights, "optimizer": state}, checkpoint_id=folder)
    set_state_dict(again, other, model_state_dict=weights, optim_state_dict=state)
    train(again, other, range(22, END))
    return flat(model).tobytes() == flat(again).tobytes() and state_bytes(optimizer) == state_bytes(other)


@pytest.mark.parametrize("kind", KINDS, ids=IDS)
def test_by_torch_distributed_checkpoint(kind, tmp_path):
    assert all(pool(2).call(by_torch, kind, str(tmp_path)))


@pytest.mark.parametrize("kind", KINDS, ids=IDS)
def test_a_copy_goes_on_alike(kind):
    model, optimizer = begun(kind, torch.float32)
    train(model, optimizer, range(22), 0)
    twin_model, twin = copy.deepcopy((model, optimizer))
    twin.param_groups[0]["params"] = list(twin_model)
    train(model, optimizer, range(22, END), 0)
    train(twin_model, twin, range(22, END), 0)
    assert flat(model).tobytes() == flat(twin_model).tobytes()


def test_a_state_of_another_algorithm_is_refused(tmp_path):
    kinds = [*KINDS[:2], ("OneBitAdam", {"freeze_step": 9})]
    for kind in kinds:
        model, optimizer = begun(kind, torch.float32)
        train(model, optimizer, range(3), 0)
        save_checkpoint(tmp_path / kind[0], optimizer, model)
        for other in kinds:
            if other is kind:
                continue
            theirs, refusing = begun(other, torch.float32)
            sentence = f"the state is one of {kind[0]} and this is a {other[0]}"
            with pytest.raises(ValueError, match=sentence):
                refusing.load_state_dict(optimizer.state_dict())
            with pytest.raises(ValueError, match=sentence):
                load_checkpoint(tmp_path / kind[0], refusing, theirs)


def test_a_damaged_state_is_refused():
    for kind, name in ((LAMB, "trust_mean"), (LAMB, "fresh_variance"), (LOCAL, "walked_of_0"), (LOCAL, "master")):
        model, optimizer = begun(kind, torch.float32)
        train(model, optimizer, range(22), 0)
        for change in ("gone", "nan"):
            state = optimizer.state_dict()
            if change == "gone":
                del state["state"][2][name]
            elif name != "master":  # a model's values are its own affair
                state["state"][2][name].fill_(float("nan"))
            else:
                continue
            before = state_bytes(optimizer)
            with pytest.raises(ValueError, match=f"the state is damaged: .*{name}|{name} of parameter 2"):
                optimizer.load_state_dict(state)
            assert state_bytes(optimizer) == before


def save_torn(kind):
    """A run that is saved in the middle of an interval, on two workers that stand apart."""
    model, optimizer = begun(kind, torch.float32)
    train(model, optimizer, range(22))
    with optimizer.at_last_meeting():
        together = flat(model)
        state = optimizer.state_dict()
    apart = flat(model)
    return together, apart, np.concatenate([state["state"][k]["master"].numpy().ravel() for k in range(4)])


def test_where_the_workers_last_met():
    (first, x_0, master), (second, x_1, _) = pool(2).call(save_torn, LOCAL)
    assert first.tobytes() == second.tobytes() == master.tobytes()
    assert x_0.tobytes() != x_1.tobytes()
    assert x_0.size == DIM


def test_adams_states_keep_their_names():
    """A state of this name is what users have on their disks."""
    model = nn.ParameterList([nn.Parameter(torch.ones(8))])
    optimizer = OneBitAdam(model, freeze_step=3, bucket_elements=ONE_BUCKET)
    assert set(optimizer.state_dict()["state"][0]) == {
        "step", "exp_avg", "exp_avg_sq", "worker_error_of_0", "server_error_of_0", "ignored_of_0", "frozen",
    }  # fmt: skip


def snapshot_names(kind):
    params, optimizer = made(kind[0], start(), kind[1])
    optimizer.take_over()
    return set(snapshot(params, optimizer))
