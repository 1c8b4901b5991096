"""The Triton backend. Under TRITON_INTERPRET=1 its kernels run on the CPU, for tests; launchers are beside kernels."""

from __future__ import annotations

from gpu_impl.kernels.backend import Backend
from gpu_impl.kernels.torch_ import TorchBackend
from gpu_impl.kernels.triton_.adam import launch_adam
from gpu_impl.kernels.triton_.apply import launch_apply
from gpu_impl.kernels.triton_.compress import launch_compress
from gpu_impl.kernels.triton_.freeze import launch_freeze
from gpu_impl.kernels.triton_.gradient_norm import launch_gradient_norm
from gpu_impl.kernels.triton_.lamb import (
    launch_lamb_form,
    launch_lamb_moments,
    launch_lamb_move,
    launch_lamb_refresh,
)
from gpu_impl.kernels.triton_.pack import launch_pack, launch_unpack
from gpu_impl.kernels.triton_.server import launch_server
from gpu_impl.kernels.triton_.walk import launch_walk


class TritonBackend(Backend):
    """The tuned kernels."""

    name = "triton"

    _pack, _unpack = staticmethod(launch_pack), staticmethod(launch_unpack)
    _gradient_norm = staticmethod(launch_gradient_norm)
    _adam = staticmethod(launch_adam)
    _freeze = staticmethod(launch_freeze)
    _compress = staticmethod(launch_compress)
    _server = staticmethod(launch_server)
    _apply = staticmethod(launch_apply)
    _decode = staticmethod(TorchBackend._decode)
    _walk = staticmethod(launch_walk)
    _lamb_moments, _lamb_move = staticmethod(launch_lamb_moments), staticmethod(launch_lamb_move)
    _lamb_form, _lamb_refresh = staticmethod(launch_lamb_form), staticmethod(launch_lamb_refresh)
