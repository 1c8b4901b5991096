"""How the files beside this one were made, by the last version that wrote states of format onebit-adam-state-4.

A run of one worker with gradients that are written down here: its state after so many steps, its parameters then, and
its parameters 6 steps later.
"""

from __future__ import annotations

from pathlib import Path

import torch

from gpu_impl import OneBitAdam

RUNS = {"warm-up": (4, {"freeze_step": "auto", "betas": (0.9, 0.8)}), "compressed": (7, {"freeze_step": 3})}


def param_and_optimizer(hyper):
    param = torch.nn.Parameter(torch.arange(12.0).sin())
    return param, OneBitAdam([param], lr=1e-2, backend="torch", **hyper)


def train(param, optimizer, steps):
    for t in steps:
        param.grad = (torch.arange(12.0) * t).cos()
        optimizer.step()


if __name__ == "__main__":
    for name, (at, hyper) in RUNS.items():
        param, optimizer = param_and_optimizer(hyper)
        train(param, optimizer, range(1, at + 1))
        made = {"state": optimizer.state_dict(), "param": param.detach().clone()}
        train(param, optimizer, range(at + 1, at + 7))
        made["later"] = param.detach().clone()
        torch.save(made, Path(__file__).with_name(f"{name}.pt"))
