"""Checkpoints: exact for as many workers, Delta conserved for others, refused when they don't fit (C11, L9)."""

from __future__ import annotations

import io
import json
import re
import struct

import numpy as np
import pytest
import torch
from optimizer_support import flat, full_state, model, new, pool, total_error, train
from torch import distributed as dist

from gpu_impl import load_checkpoint, resize_state_dicts, save_checkpoint
from gpu_impl.optimizer.state import WORKER
from theory import rounding

HYPER = {"bucket_elements": 60, "weight_decay": 0.01}
END = 12
SPOILED = (3, 7, 10)
"""Steps with a NaN, each the first after one of the points: skipped, and m-bar must survive that."""
POINTS = [2, 6, 7, 9]  # in the warm-up; right after the freeze; after the first compressed step was skipped; later


def spoil(t, grads):
    if t in SPOILED and dist.get_rank() == 0:
        grads[1].fill_(float("nan"))
    return grads


def through(steps, hyper):
    params = model()
    optimizer = new(params, **hyper)
    train(params, optimizer, range(1, steps + 1), change=spoil)
    return flat(params), full_state(optimizer), optimizer.stats()


def save_file(at, hyper):
    """A plain state_dict file in memory."""
    params = model()
    optimizer = new(params, **hyper)
    train(params, optimizer, range(1, at + 1), change=spoil)
    file = io.BytesIO()
    torch.save({"optimizer": optimizer.state_dict(), "model": params.state_dict()}, file)
    return file.getvalue(), full_state(optimizer)


def resume_file(data, at, until, hyper, state=None):
    saved = torch.load(io.BytesIO(data), weights_only=True)
    params = model(seed=1)
    optimizer = new(params, **hyper)
    params.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"] if state is None else state)
    loaded = full_state(optimizer)
    train(params, optimizer, range(at + 1, until + 1), change=spoil)
    return flat(params), full_state(optimizer), loaded


def save_folder(folder, at, hyper, extra=None):
    params = model()
    optimizer = new(params, **hyper)
    train(params, optimizer, range(1, at + 1), change=spoil)
    save_checkpoint(folder, optimizer, params, extra)
    return full_state(optimizer)


def resume_folder(folder, at, until, hyper):
    params = model(seed=1)
    optimizer = new(params, **hyper)
    extra = load_checkpoint(folder, optimizer, params)
    loaded = full_state(optimizer)
    train(params, optimizer, range(at + 1, until + 1), change=spoil)
    return flat(params), full_state(optimizer), loaded, extra, optimizer.stats()


def same_parts(ours, theirs):
    for a, b in zip(ours, theirs, strict=True):
        for name in a:
            assert a[name].tobytes() == b[name].tobytes(), name


AUTOMATIC = {"freeze_step": "paper", "betas": (0.9, 0.8)}
"""The rule looks back 5 steps, over the checkpoint: the norms of v are part of the state."""


@pytest.mark.parametrize(
    ("n", "at", "hyper"),
    [(1, 2, {}), (1, 7, {}), (1, 4, AUTOMATIC), (2, 2, AUTOMATIC), *((3, at, {}) for at in POINTS)],
)
def test_resume_is_exact(n, at, hyper, tmp_path):
    hyper = {**HYPER, **hyper}
    expected = pool(n).call(through, END, hyper)
    saved = pool(n).call(save_file, at, hyper)
    resumed = pool(n).map(resume_file, [(data, at, END, hyper) for data, _ in saved])
    pool(n).call(save_folder, tmp_path, at, hyper, {"epoch": 3})
    from_folder = pool(n).call(resume_folder, tmp_path, at, END, hyper)
    for (params, state, stats), file, folder in zip(expected, resumed, from_folder, strict=True):
        assert stats.phase == "compressed"
        assert params.tobytes() == file[0].tobytes() == folder[0].tobytes()
        same_parts(state, file[1])
        same_parts(state, folder[1])
        assert folder[3] == {"epoch": 3}
        assert stats == folder[4]


@pytest.mark.parametrize(("n", "to", "at"), [(2, 4, 9), (1, 3, 6), (2, 1, 9), *((3, 2, at) for at in POINTS)])
def test_resize_conserves_the_total_error(n, to, at, tmp_path):
    files, before = zip(*pool(n).call(save_file, at, HYPER), strict=True)
    saved = [torch.load(io.BytesIO(data), weights_only=True) for data in files]
    states = resize_state_dicts([one["optimizer"] for one in reversed(saved)], to)
    resumed = pool(to).map(resume_file, [(files[0], at, END, HYPER, state) for state in states])
    pool(n).call(save_folder, tmp_path, at, HYPER)
    from_folder = pool(to).call(resume_folder, tmp_path, at, END, HYPER)
    for file, folder in zip(resumed, from_folder, strict=True):  # two ways, one result
        assert file[0].tobytes() == folder[0].tobytes() == resumed[0][0].tobytes()
        same_parts(file[1], folder[1])
    for k in range(len(before[0])):
        old, loaded = [part[k] for part in before], [parts[k] for _, _, parts in resumed]
        assert all(row["momentum"].tobytes() == old[0]["momentum"].tobytes() for row in loaded)
        bound = rounding.average_tolerance(np.stack([row["worker_error"] for row in old]), "float32")
        sums = rounding.gamma(8, "float64") * np.abs(np.stack([row["worker_error"] for row in old + loaded])).sum(
            axis=0
        )
        sums += rounding.gamma(8, "float64") * np.abs(np.concatenate([row["server_error"] for row in old]))
        assert (np.abs(total_error(loaded) - total_error(old)) <= bound + sums).all()
        if at == 9:
            assert np.abs(total_error(old)).max() > 1e-3  # it is not conserved for being zero


def test_resized_twice_without_a_step():
    files, before = zip(*pool(3).call(save_file, 9, HYPER), strict=True)
    states = [torch.load(io.BytesIO(data), weights_only=True)["optimizer"] for data in files]
    there = resize_state_dicts(resize_state_dicts(states, 2), 3)
    resumed = pool(3).map(resume_file, [(files[0], 9, END, HYPER, state) for state in there])
    direct = resize_state_dicts(resize_state_dicts(states, 4), 2)
    pool(2).map(resume_file, [(files[0], 9, END, HYPER, state) for state in direct])
    for k in range(len(before[0])):
        old = total_error([part[k] for part in before])
        now = total_error([parts[k] for _, _, parts in resumed])
        size = np.abs(np.stack([part[k]["worker_error"] for part in before])).mean(axis=0)
        assert (np.abs(now - old) <= 2 * rounding.gamma(5, "float32") * size + 1e-12 * np.abs(old)).all()


def test_a_mean_does_not_overflow_where_its_sum_would():
    files, _ = zip(*pool(2).call(save_file, 9, HYPER), strict=True)
    states = [torch.load(io.BytesIO(data), weights_only=True)["optimizer"] for data in files]
    for rank, own in enumerate(states):
        for state in own["state"].values():
            state[f"{WORKER}{rank}"].fill_(2e38)
    (alone,) = resize_state_dicts(states, 1)
    errors = [state[f"{WORKER}0"] for state in alone["state"].values()]
    assert errors
    assert all(bool((error == torch.tensor(2e38)).all()) for error in errors)


def fingerprint(optimizer):
    """All that a state_dict holds, as text."""
    state = optimizer.state_dict()
    tensors = {
        (number, name): value.numpy().tobytes() if isinstance(value, torch.Tensor) else value
        for number, one in state["state"].items()
        for name, value in one.items()
    }
    return tensors, str(state["param_groups"])


def load_and_say(kind, change, folder=None):
    """What loading a changed state says; nothing may have changed then."""
    params = model()
    hyper = {**HYPER, **(change if kind == "hyper" else {})}
    optimizer = new(params if kind != "other" else params[:4], **hyper)
    train(params if kind != "other" else params[:4], optimizer, [1, 2])
    before = fingerprint(optimizer)
    try:
        if folder is None:
            optimizer.load_state_dict(change)
        else:
            load_checkpoint(folder, optimizer, params)
    except ValueError as error:
        message = str(error)
    else:
        message = "nothing"
    assert fingerprint(optimizer) == before
    return message


def saved_state(n=1, at=9):
    return [
        torch.load(io.BytesIO(data), weights_only=True)["optimizer"] for data, _ in pool(n).call(save_file, at, HYPER)
    ]


def damaged(change):
    (state,) = saved_state()
    DAMAGE[change][0](state)
    return state


def facts_of(state):
    return state["param_groups"][0]["onebit"]


def relaid(state, change):
    rows = json.loads(facts_of(state)["layout"])
    change(rows)
    facts_of(state)["layout"] = json.dumps(rows)


DAMAGE = [
    (lambda state: facts_of(state).pop("frozen_at"), "damaged: frozen_at is None"),
    (lambda state: facts_of(state).update(format="other"), "no state of gpu_impl's optimizers"),
    (lambda state: facts_of(state).update(steps="many"), "damaged: steps is 'many'"),
    (lambda state: facts_of(state).update(phase="thawed"), "damaged: phase is 'thawed'"),
    (lambda state: state["state"].pop(3), "has nothing for parameter 3"),
    (lambda state: state["state"][1].pop("exp_avg_sq"), "damaged: parameter 1 has no exp_avg_sq"),
    (lambda state: state["state"][1].pop("frozen"), "damaged: parameter 1 has no step, or does not say"),
    (
        lambda state: state["state"][1].update(exp_avg=torch.zeros(2)),
        r"exp_avg of parameter 1 is torch.float32 \(2,\) in",
    ),
    (lambda state: state["state"][1].update(frozen=torch.zeros(3)), "damaged: frozen of parameter 1 is 'tensor"),
    (lambda state: state["state"][1].update(ignored_of_0="x"), "damaged: ignored_of_0 of parameter 1 is 'x'"),
    (lambda state: facts_of(state).update(bucket_elements=-1), "damaged: bucket_elements is -1"),
    (lambda state: facts_of(state).update(n_shards=0), "damaged: n_shards is 0"),
    (lambda state: facts_of(state).update(steps=-1), "damaged: steps is -1"),
    (lambda state: facts_of(state).update(n_workers=-1), "damaged: n_workers is -1"),
    (lambda state: facts_of(state).update(frozen_at=99), "damaged: frozen_at is 99 after 7 steps, phase 'compressed'"),
    (lambda state: facts_of(state).update(frozen_at=0), "damaged: frozen_at is 0"),
    (lambda state: facts_of(state).update(phase="warm-up"), "damaged: frozen_at is 5"),
    (lambda state: facts_of(state).update(skipped_steps=True), "damaged: skipped_steps is True"),
    (lambda state: state["state"][1].update(variance_norms=torch.tensor([-1.0])), "variance_norms of parameter 1 has"),
    (lambda state: state["state"][1].update(variance_norms=torch.tensor([torch.inf])), "variance_norms of parameter 1"),
    (lambda state: state["state"][1].update(variance_norms=torch.tensor(1.0)), "variance_norms of parameter 1 has"),
    (lambda state: state["state"][1].update(variance_norms="[]"), "variance_norms of parameter 1 are no tensor"),
    (lambda state: relaid(state, lambda rows: rows.pop()), "layout has no place for parameter"),
    (lambda state: relaid(state, lambda rows: rows.append([0, 0, 1, 1e-8, 1.0, [0]])), "names a parameter twice"),
    (lambda state: relaid(state, lambda rows: rows[0].pop()), "damaged: its layout has"),
    (lambda state: relaid(state, lambda rows: rows[0][-1].append(7)), "damaged: its layout has"),
    (lambda state: facts_of(state).update(layout="[["), "damaged: layout is '"),
    (lambda state: facts_of(state).pop("errors_of_0"), "the state lacks the errors of rank 0: every"),
    (lambda state: state["state"][1].pop("server_error_of_0"), "damaged: parameter 1 has no server_error_of_0"),
    (lambda state: state["state"][1]["exp_avg"].fill_(float("nan")), "exp_avg of parameter 1 has values that no run"),
    (lambda state: state["state"][1]["exp_avg_sq"].fill_(-1), "exp_avg_sq of parameter 1 has values that no run"),
    (lambda state: state["state"][1]["exp_avg_sq"].fill_(float("nan")), "exp_avg_sq of parameter 1 has values"),
    (lambda state: state["state"][1]["worker_error_of_0"].fill_(float("inf")), "worker_error_of_0 of parameter 1 has"),
    (lambda state: state["state"][1]["ignored_of_0"].fill_(-1), "ignored_of_0 of parameter 1 has values"),
    (lambda state: state["state"][1]["step"].fill_(8), "parameter 1 has taken 8 steps of 7"),
    (lambda state: state["state"][1]["step"].fill_(2.5), "parameter 1 has taken 2.5 steps of 7"),
    (lambda state: state["param_groups"][0].update(lr=-1), "can't be used: lr must be a finite number"),
]


@pytest.mark.parametrize("number", range(len(DAMAGE)))
def test_a_damaged_state_is_refused(number):
    (said,) = pool(1).call(load_and_say, "state", damaged(number))
    assert re.search(DAMAGE[number][1], said)


def test_a_foreign_state_is_refused():
    one, three = saved_state(), saved_state(3)
    adam = torch.optim.Adam(model())
    said = [
        pool(1).call(load_and_say, "state", three[1])[0],
        pool(1).call(load_and_say, "other", one[0])[0],
        pool(1).call(load_and_say, "state", adam.state_dict())[0],
        pool(1).call(load_and_say, "state", {})[0],
        pool(3).map(load_and_say, [("state", three[(rank + 1) % 3]) for rank in range(3)])[0],
    ]
    wanted = [
        "of 3 workers and there are 1 now: resize it",
        "the state has groups of [5] parameters, this optimizer has groups of [4]",
        "no state of gpu_impl's optimizers",
        "no list of param_groups",
        "lacks the errors of rank 0, it is of rank 1: every worker must save and load its own",
    ]
    for message, part in zip(said, wanted, strict=True):
        assert part in message


def test_resizing_needs_every_rank_once():
    states = saved_state(3)
    with pytest.raises(ValueError, match=r"states of all ranks are needed, got those of ranks \[0, 2\]"):
        resize_state_dicts([states[0], states[2]], 2)
    with pytest.raises(ValueError, match="they differ in steps"):
        resize_state_dicts([*states[:2], saved_state(3, at=11)[2]], 2)
    with pytest.raises(ValueError, match="n_workers must be an integer >= 1"):
        resize_state_dicts(states, 0)


def only(folder):
    """The one checkpoint in a folder."""
    (path,) = folder.glob("checkpoint-*")
    return path


@pytest.mark.parametrize("file", ["checkpoint.json", "plain.pt", ".metadata", "__0_0.distcp", "extra-1.pt"])
@pytest.mark.parametrize("how", ["truncated", "flipped", "missing"])
def test_a_damaged_checkpoint_is_refused_by_all(file, how, tmp_path):
    pool(2).call(save_folder, tmp_path, 9, HYPER)
    path = only(tmp_path) / file
    contents = path.read_bytes()
    if how == "missing":
        path.unlink()
    elif how == "truncated":
        path.write_bytes(contents[: len(contents) // 2])
    else:
        at = len(contents) // 2
        if file.endswith("distcp"):  # a byte of a tensor, for most of the file is padding
            name = contents.index(b"archive/data/0")
            at = name + sum(struct.unpack("<HH", contents[name - 4 : name]))
        path.write_bytes(contents[:at] + bytes([contents[at] ^ 1]) + contents[at + 1 :])
    said = pool(2).call(load_and_say, "state", None, tmp_path)
    assert all(message != "nothing" for message in said), said
    assert all("checkpoint" in message for message in said), said


def test_other_checkpoints_are_refused(tmp_path):
    assert "there is no checkpoint in" in pool(2).call(load_and_say, "state", None, tmp_path)[0]
    pool(2).call(save_folder, tmp_path, 9, HYPER)
    said = pool(2).call(load_and_say, "hyper", {"bias_correction": True}, tmp_path)
    wanted = "made with bias_correction=False and this optimizer with bias_correction=True"
    assert all(wanted in message for message in said), said
    (only(tmp_path) / "checkpoint.json").write_text(json.dumps({"format": "other"}))
    assert "not one of our checkpoints" in pool(2).call(load_and_say, "state", None, tmp_path)[0]
