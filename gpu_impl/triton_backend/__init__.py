"""The Triton backend: the tuned kernels and their first rung."""

from gpu_impl.triton_backend.backend import TritonBackend, TritonV1Backend

__all__ = ["TritonBackend", "TritonV1Backend"]
