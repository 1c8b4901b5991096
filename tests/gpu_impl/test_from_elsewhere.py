"""States that come from elsewhere: torch's Adam and AdamW, and a checkpoint as DeepSpeed 0.19.6 writes it."""

from __future__ import annotations

import io
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from itertools import pairwise

import numpy as np
import pytest
import torch
from optimizer_support import flat, gradients, model, new, pool, record, train
from test_optimizer_steps import snapshot
from torch import distributed as dist

import onebit
from gpu_impl import warm_start
from gpu_impl.checkpoints.deepspeed import convert
from verification.protocol import Hyper, Traits
from verification.relation.step import StepRelation


def after_adam(kind, bias_correction):
    """Seven steps of torch's optimizer, then ours beside it in the warm-up; then the freeze."""
    params, twins = model(), model()
    adam = kind(twins, lr=1e-2, weight_decay=0.0)
    mean = lambda t: [(a + b) / 2 for a, b in zip(gradients(params, 0, t), gradients(params, 1, t), strict=True)]  # noqa: E731
    for t in range(1, 8):
        for twin, grad in zip(twins, mean(t), strict=True):
            twin.grad = grad
        adam.step()
    with torch.no_grad():
        for param, twin in zip(params, twins, strict=True):
            param.copy_(twin)
    optimizer = new(params, freeze_step=10, bias_correction=bias_correction)
    warm_start(optimizer, adam.state_dict())
    far = 0.0
    for t in range(8, 14):
        train(params, optimizer, [t])
        for twin, grad in zip(twins, mean(t), strict=True):
            twin.grad = grad
        adam.step()
        if t <= 10:
            apart = [float((p - q).detach().abs().max()) for p, q in zip(params, twins, strict=True)]
            far = max(far, *apart)
    return far, optimizer.stats(), flat(params).tobytes()


@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.AdamW])
def test_adam_goes_on_as_our_warm_up(kind):
    rows = pool(2).call(after_adam, kind, True)
    for far, stats, _ in rows:
        assert far < 1e-5  # a step moves by about lr = 1e-2
        assert (stats.step, stats.frozen_at, stats.phase) == (13, 10, "compressed")
    assert rows[0][2] == rows[1][2]
    assert pool(2).call(after_adam, kind, False)[0][0] > 1e-4, "without the correction the steps are others"


FORMS = (
    {"compress": "update"},
    {"scale_block": 16},
    {"frozen_dtype": "bfloat16"},
    {"compress": "update", "scale_block": 16, "frozen_dtype": "bfloat16"},
)


def in_a_form(form):
    """Seven steps of torch's Adam, and 13 more of ours from its state: over the freeze and into the compression."""
    params, twins = model(), model()
    adam = torch.optim.Adam(twins, lr=1e-2)
    for t in range(1, 8):
        for twin, *grads in zip(twins, gradients(params, 0, t), gradients(params, 1, t), strict=True):
            twin.grad = sum(grads) / 2
        adam.step()
    params.load_state_dict(twins.state_dict())
    optimizer = new(params, freeze_step=10, bias_correction=True, **form)
    warm_start(optimizer, adam.state_dict())
    return *record(params, optimizer, range(8, 21)), optimizer.stats()


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_a_warm_start_goes_on_in_every_form(form):
    """Every step obeys the relation: what the freeze makes of Adam's m and v too."""
    runs = pool(2).call(in_a_form, form)
    hyper = Hyper(lr=1e-2, freeze_step=10, bias_correction=True, variance_floor=1e-3, **form)
    (states, grads, stats), (others, more, _) = runs
    assert (stats.phase, stats.frozen_at, stats.step) == ("compressed", 10, 20)
    befores = [snapshot([mine[0], theirs[0]]) for mine, theirs in zip(states, others, strict=True)]
    assert befores[0].step == 7
    for t, (before, after) in enumerate(pairwise(befores)):
        grads_ND = np.stack([grads[t][0], more[t][0]])
        assert StepRelation(before, grads_ND, after, hyper, Traits()).findings() == []


def stepped(kind, **settings):
    """An optimizer of torch after two steps."""
    params = model()
    other = kind(params, **settings)
    for _ in range(2):
        for param in params:
            param.grad = torch.ones_like(param)
        other.step()
    return other.state_dict()


ADAM = torch.optim.Adam
OTHERS = [
    ("SGD", {"lr": 0.1, "momentum": 0.9}), ("RMSprop", {}), ("Adamax", {}), ("NAdam", {}), ("RAdam", {}),
    ("Adagrad", {}), ("Adadelta", {}), ("Rprop", {}), ("ASGD", {}),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "settings"), OTHERS)
def test_the_state_of_another_optimizer_is_refused(kind, settings):
    with pytest.raises(ValueError, match=r"not the state_dict of torch\.optim\.Adam or AdamW"):
        warm_start(new(model()), stepped(getattr(torch.optim, kind), **settings))


def changed(change):
    state = stepped(ADAM)
    change(state["state"])
    return state


def nan_in_m(states):
    states[1]["exp_avg"][0] = float("nan")


def negative_v(states):
    states[2]["exp_avg_sq"][3] = -1e-9


def missing(states):
    del states[4]


def other_steps(states):
    states[3]["step"] = torch.tensor(7.0)


def half_a_step(states):
    states[0]["step"] = torch.tensor(1.5)


def no_variance(states):
    del states[0]["exp_avg_sq"]


DAMAGES = {
    nan_in_m: "exp_avg of parameter 1 is not finite",
    negative_v: "exp_avg_sq of parameter 2 is below 0",
    missing: "nothing for parameter 4: Adam has never had a gradient for it",
    other_steps: "parameter 3 has taken 7 steps and those before it 2",
    half_a_step: r"parameter 0 has taken 1\.5 steps",
    no_variance: "parameter 0 has no step, exp_avg and exp_avg_sq",
}


@pytest.mark.parametrize("change", DAMAGES, ids=lambda change: change.__name__)
def test_a_state_that_adam_can_not_be_in_is_refused_and_nothing_changes(change):
    optimizer = new(model())
    with pytest.raises(ValueError, match=DAMAGES[change]):
        warm_start(optimizer, changed(change))
    assert optimizer.steps == 0
    assert not any(bool(one["exp_avg"].any()) for one in optimizer.state_dict()["state"].values())


def test_what_is_no_adam_is_refused():
    optimizer = new(model())
    for state, message in (
        ({}, "not the state_dict of an optimizer"),
        (torch.optim.AdamW(model()), r"got an optimizer: pass its state_dict\(\)"),
        (3, "not the state_dict of an optimizer"),
        (stepped(ADAM, amsgrad=True), "made with amsgrad=True"),
        (stepped(ADAM, maximize=True), "made with maximize=True"),
        (torch.optim.AdamW(model()[:2]).state_dict(), "other parameter groups"),
        (torch.optim.AdamW(model()).state_dict(), "nothing for parameter 0"),
    ):
        with pytest.raises(ValueError, match=message):
            warm_start(optimizer, state)
    params = model()
    used = new(params)
    train(params, used, [1], rank=0)
    with pytest.raises(RuntimeError, match="has taken no step yet"):
        warm_start(used, torch.optim.AdamW(params).state_dict())
    with pytest.raises(ValueError, match="takes a OneBitAdam first, got AdamW"):
        warm_start(torch.optim.AdamW(params), stepped(ADAM))


# --- DeepSpeed ---


def deepspeed_checkpoint(folder, dtype):
    """As engine.py, onebit/adam.py and fused_optimizer.py of 0.19.6 write it, in the compression stage."""
    net = torch.nn.Sequential(torch.nn.Linear(5, 3), torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 2))
    generator = torch.Generator().manual_seed(1)
    state, names = {}, []
    for k, param in enumerate(net.parameters()):
        m, v = (torch.rand(param.shape, generator=generator) for _ in range(2))
        errors = {"worker_error": torch.ones(8), "server_error": torch.ones(4), "tensor_size": 1}
        state[k] = {"step": 30, "exp_avg": m, "exp_avg_sq": v, **errors}
        names.append(k)
    group = {
        "lr": 1e-3,
        "betas": (0.9, 0.999),
        "eps": 1e-8,
        "weight_decay": 0.01,
        "bias_correction": True,
        "params": names,
    }
    optimizer = {"state": state, "param_groups": [group]}
    if dtype != torch.float32:
        cat = lambda key: torch.cat([one[key].flatten() for one in state.values()])  # noqa: E731
        master = torch.cat([p.detach().flatten() for p in net.parameters()])
        inner = {"state": {0: {"step": 30, "exp_avg": cat("exp_avg"), "exp_avg_sq": cat("exp_avg_sq")}}}
        inner["param_groups"] = [{**group, "params": [0]}]
        optimizer = {"optimizer_state_dict": inner, "fp32_groups_flat": [master], "clip_grad": 1.0}
        net = net.to(dtype)
    buffers = [name for name, _ in net.named_buffers()]
    (folder / "global_step30").mkdir()
    (folder / "latest").write_text("global_step30")
    saved = {"module": net.state_dict(), "buffer_names": buffers, "optimizer": optimizer, "ds_version": "0.19.6"}
    torch.save(saved, folder / "global_step30" / "mp_rank_00_model_states.pt")
    return net, state


def go_on(file, dtype):
    """Load what was converted on this worker, and train over the freeze."""
    saved = torch.load(file, weights_only=True)
    net = torch.nn.Sequential(torch.nn.Linear(5, 3), torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 2)).to(dtype)
    net.load_state_dict(saved["model"])
    optimizer = new(net.parameters(), freeze_step=20)
    optimizer.load_state_dict(saved["optimizer"])
    first = [one["exp_avg_sq"].clone() for one in optimizer.state_dict()["state"].values()]
    for t in range(4):
        optimizer.zero_grad()
        x = torch.randn(4, 5, generator=torch.Generator().manual_seed(10 * t + dist.get_rank())).to(dtype)
        net(x).square().mean().backward()
        optimizer.step()
    return first, optimizer.stats(), flat(net.parameters()).tobytes()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("n", [1, 2])
def test_a_deepspeed_checkpoint_goes_on(dtype, n, tmp_path):
    _, state = deepspeed_checkpoint(tmp_path, dtype)
    out = tmp_path / "converted.pt"
    status, said, errors = command(tmp_path, out)
    assert status == 0, errors
    assert "lost: if it was frozen, the errors of all workers" in said
    rows = pool(n).call(go_on, str(out), dtype)
    for first, stats, _ in rows:
        assert all(torch.equal(a, one["exp_avg_sq"]) for a, one in zip(first, state.values(), strict=True))
        assert (stats.step, stats.frozen_at, stats.phase) == (34, 31, "compressed")
    assert len({params for _, _, params in rows}) == 1


def command(*arguments):
    """The exit status of ``onebit convert`` in this process, and what it wrote to stdout and stderr."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr(sys, "argv", ["onebit", "convert", *map(str, arguments)])
        try:
            onebit.main()
            status = 0
        except SystemExit as ended:
            status = ended.code or 0
    return status, out.getvalue(), err.getvalue()


def test_what_is_no_deepspeed_checkpoint_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"there is no mp_rank_00_model_states\.pt"):
        convert(tmp_path)
    for saved, message in (({"a": 1}, 'has no "module"'), ({"module": {}}, "has no optimizer state")):
        torch.save(saved, tmp_path / "file.pt")
        with pytest.raises(ValueError, match=message):
            convert(tmp_path / "file.pt")
    (tmp_path / "file.pt").write_bytes(b"nothing")
    with pytest.raises(ValueError, match="can't be read"):
        convert(tmp_path / "file.pt")
    line = [sys.executable, "-m", "onebit", "convert", str(tmp_path), str(tmp_path / "out.pt")]
    done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1


def test_convert_replaces_nothing_unasked_and_its_input_never(tmp_path):
    """`onebit convert X X` put the result in the place of the checkpoint."""
    deepspeed_checkpoint(tmp_path, torch.float32)
    file, link = tmp_path / "global_step30" / "mp_rank_00_model_states.pt", tmp_path / "link.pt"
    link.symlink_to(file)
    (tmp_path / "other.pt").write_text("mine")
    before = file.read_bytes()
    for arguments, message in (
        ((file, file), "is the checkpoint that is to be read"),
        ((file, file, "--force"), "is the checkpoint that is to be read"),
        ((tmp_path, link, "--force"), "is the checkpoint that is to be read"),
        ((tmp_path, file.parent, "--force"), "is a folder: give the name of a file"),
        ((tmp_path, tmp_path / "other.pt"), "exists: give another name, or say --force to replace it"),
        ((tmp_path, tmp_path / "none" / "out.pt"), "there is no folder"),
        ((file, tmp_path / "out.pt", "--json", file), "--json would replace"),
    ):
        status, _, errors = command(*arguments)
        assert (status, errors.count("\n")) == (2, 1), errors
        assert message in errors
        assert (file.read_bytes(), (tmp_path / "other.pt").read_text()) == (before, "mine")
        assert len(list(tmp_path.rglob("*"))) == 5
    assert command(tmp_path, tmp_path / "other.pt", "--force")[0] == 0
    assert list(torch.load(tmp_path / "other.pt", weights_only=True)) == ["model", "optimizer"]


def without(*path):
    def change(saved):
        for name in path[:-1]:
            saved = saved[name]
        del saved[path[-1]]

    return change


DAMAGED = [
    ("optimizer", "param_groups", 0, "eps"), ("optimizer", "param_groups"), ("optimizer", "state"),
    ("optimizer", "state", 1, "step"), ("optimizer", "state", 2, "exp_avg"), ("optimizer", "state", 0, "exp_avg_sq"),
    ("optimizer", "param_groups", 0, "params"), ("module", "0.weight"), ("optimizer", "state", 3),
]  # fmt: skip


@pytest.mark.parametrize("path", DAMAGED, ids=lambda path: "-".join(map(str, path)))
def test_whatever_is_missing_in_a_checkpoint_is_one_sentence(path, tmp_path):
    deepspeed_checkpoint(tmp_path, torch.float32)
    file = tmp_path / "global_step30" / "mp_rank_00_model_states.pt"
    saved = torch.load(file, weights_only=True)
    without(*path)(saved)
    torch.save(saved, file)
    with pytest.raises(ValueError, match=r".+") as caught:
        convert(tmp_path)
    assert "\n" not in str(caught.value)
