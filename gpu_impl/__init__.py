"""1-bit Adam for training, and its kernels: compress, server and apply in one pass each, at the byte floor.

:class:`OneBitAdam` is a ``torch.optim.Optimizer``, and so are :class:`ZeroOneAdam` and :class:`OneBitLamb`, by the same
kernels; docs/training.md says how to use them. ``get_backend("auto", device)``
gives the fastest kernels for a device; all do the same, to the bit in every elementwise operation.
``kernels/backend.py`` says what they do, ``kernels/torch_.py`` is the one to read.
"""

from gpu_impl.checkpoints.gathered import gather_on_save, gathered_state_dict
from gpu_impl.checkpoints.generations import latest_checkpoint
from gpu_impl.checkpoints.load import load_checkpoint
from gpu_impl.checkpoints.resize import resize_state_dicts
from gpu_impl.checkpoints.save import save_checkpoint
from gpu_impl.checkpoints.warm_start import warm_start
from gpu_impl.kernels.backend import Backend
from gpu_impl.kernels.layout import Layout, scales_of
from gpu_impl.kernels.select import BACKENDS, get_backend
from gpu_impl.kernels.state import Exchange, ServerState, WorkerState
from gpu_impl.kernels.step_scalars import step_scalars
from gpu_impl.optimizer.ddp import leave_gradients_local
from gpu_impl.optimizer.ddp_hook import HookedOneBitAdam
from gpu_impl.optimizer.one_bit_adam import OneBitAdam
from gpu_impl.optimizer.one_bit_lamb import OneBitLamb
from gpu_impl.optimizer.stats import Stats
from gpu_impl.optimizer.zero_one_adam import ZeroOneAdam

__all__ = [
    "BACKENDS",
    "Backend",
    "Exchange",
    "HookedOneBitAdam",
    "Layout",
    "OneBitAdam",
    "OneBitLamb",
    "ServerState",
    "Stats",
    "WorkerState",
    "ZeroOneAdam",
    "gather_on_save",
    "gathered_state_dict",
    "get_backend",
    "latest_checkpoint",
    "leave_gradients_local",
    "load_checkpoint",
    "resize_state_dicts",
    "save_checkpoint",
    "scales_of",
    "step_scalars",
    "warm_start",
]
