"""The cpu backend: each kernel is one parallel loop in C over blocks of fixed size, vectorised, memory read once.

Each kernel has its launcher beside it: ``compress.c`` and ``compress.py``, and so on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gpu_impl.kernels.backend import Backend
from gpu_impl.kernels.cpu.adam import adam
from gpu_impl.kernels.cpu.apply import apply
from gpu_impl.kernels.cpu.build import library
from gpu_impl.kernels.cpu.compress import compress
from gpu_impl.kernels.cpu.decode import decode
from gpu_impl.kernels.cpu.freeze import freeze
from gpu_impl.kernels.cpu.gradient_norm import gradient_norm
from gpu_impl.kernels.cpu.lamb import lamb_moments, lamb_move
from gpu_impl.kernels.cpu.lamb_compressed import lamb_form, lamb_refresh
from gpu_impl.kernels.cpu.pack import pack, unpack
from gpu_impl.kernels.cpu.server import server
from gpu_impl.kernels.cpu.walk import walk


class CpuBackend(Backend):
    """See the module's docstring.

    Raises:
        BackendUnavailableError: the kernels can't be compiled here.
    """

    name = "cpu"
    reads_pieces = True

    def __init__(self) -> None:
        library()

    _pack, _unpack = staticmethod(pack), staticmethod(unpack)
    _freeze = staticmethod(freeze)
    _gradient_norm: Any = gradient_norm
    _adam: Any = adam
    _compress: Any = compress
    _server: Any = server
    _apply: Any = apply
    _decode: Any = decode
    _walk: Any = walk
    _lamb_moments: Any = lamb_moments
    _lamb_move: Any = lamb_move
    _lamb_form: Any = lamb_form
    _lamb_refresh: Any = lamb_refresh

    def _prepare(self, kernel: str, calls: Sequence[tuple[Any, ...]]) -> Callable[[], None]:
        return getattr(self, f"_{kernel}").prepare(calls)
