"""The cpu backend: fused kernels in C on all cores, compiled at first use."""

from gpu_impl.cpu_backend.backend import CpuBackend
from gpu_impl.cpu_backend.build import BackendUnavailableError

__all__ = ["BackendUnavailableError", "CpuBackend"]
