"""Checkpoints made as DeepSpeed 0.19.6 makes them, and ``onebit convert`` called on them."""

from __future__ import annotations

import io
import sys
from contextlib import redirect_stderr, redirect_stdout

import pytest
import torch

import onebit


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
        inner["state"][0]["tensor_size"] = master.numel()
        inner["param_groups"] = [{**group, "params": [0]}]
        optimizer = {"optimizer_state_dict": inner, "fp32_groups_flat": [master], "clip_grad": 1.0}
        net = net.to(dtype)
    buffers = [name for name, _ in net.named_buffers()]
    (folder / "global_step30").mkdir()
    (folder / "latest").write_text("global_step30")
    saved = {"module": net.state_dict(), "buffer_names": buffers, "optimizer": optimizer, "ds_version": "0.19.6"}
    torch.save(saved, folder / "global_step30" / "mp_rank_00_model_states.pt")
    return net, state


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


def changed(folder, change, dtype=torch.float32):
    """The checkpoint with ``change(saved)`` made to it."""
    deepspeed_checkpoint(folder, dtype)
    file = folder / "global_step30" / "mp_rank_00_model_states.pt"
    saved = torch.load(file, weights_only=True)
    change(saved)
    torch.save(saved, file)
    return file
