"""How a launcher reaches its C function: the arguments of a call are one record, and are converted once."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from gpu_impl.kernels.cpu.build import DTYPE_CODES, library
from gpu_impl.kernels.pieces import Gradient, Pieces

BLOCK = 16384
"""Elements of a partial sum, as in vector.h."""

FEW = 64
"""As in vector.h."""

KINDS = {
    "p": ctypes.c_void_p,
    "i": ctypes.c_int,
    "l": ctypes.c_int64,
    "f": ctypes.c_float,
    "d": ctypes.c_double,
}


ONE_PIECE = ctypes.c_int64 * 3
"""A row of the table of :class:`Pieces`."""


@functools.cache
def kernel(name: str, signature: str) -> Callable[..., None]:
    """The C function; ``signature`` has one letter an argument, p(ointer), i(nt), l(ong), f(loat), d(ouble)."""
    function: Any = getattr(library(), name)
    function.argtypes = [KINDS[letter] for letter in signature]
    function.restype = None
    return function


class Keep(list[Any]):
    """What must live as long as a call can be made: tensors whose addresses were taken."""

    def scratch(self, n: int, size: int = 8) -> int | None:
        """Memory for n partial sums of that many bytes, or None if they fit on the C side's stack."""
        if n <= FEW:
            return None
        self.append(torch.empty(n * size, dtype=torch.uint8))
        return self[-1].data_ptr()

    def pieces(self, grad: Gradient) -> tuple[int, int, int]:
        """Address of the pieces of a gradient, how many there are, and where this one begins."""
        if isinstance(grad, Pieces):
            self.append(grad)
            return grad.table.data_ptr(), grad.table.shape[0], grad.base
        whole = ONE_PIECE(0, grad.shape[0], address(grad))
        self.append(whole)
        return ctypes.addressof(whole), 1, 0


class Launcher:
    """One kernel: ``void name(const arguments *, int64_t n, int threads)`` in C makes n calls.

    Args:
        name: of the C function.
        fields: of its record of arguments, letters as in :func:`kernel`.
        convert: the record, from the arguments of the backend's method and something to keep tensors alive with.
    """

    def __init__(self, name: str, fields: str, convert: Callable[..., tuple[Any, ...]]) -> None:
        self.name, self.signature, self.convert = name, fields, convert
        members = [(f"field{k}", KINDS[letter]) for k, letter in enumerate(fields)]
        self.record: Any = type(name, (ctypes.Structure,), {"_fields_": members})

    @functools.cached_property
    def function(self) -> Callable[..., None]:
        """The C function.

        Raises:
            TypeError: its record has another size than ours, so that it would read the second call at a wrong place.
        """
        function, size = kernel(self.name, "pli"), ctypes.c_int64.in_dll(library(), f"{self.name}_record").value
        if size != ctypes.sizeof(self.record):
            raise TypeError(f"the record of {self.name} has {ctypes.sizeof(self.record)} bytes here and {size} in C")
        return function

    def prepare(self, calls: Sequence[tuple[Any, ...]]) -> Callable[[], None]:
        """A function that makes these calls, as often as one likes.

        Raises:
            TypeError: ``convert`` does not give a value for each field; ctypes would leave the others 0.
        """
        function, keep, n = self.function, Keep(calls), len(calls)
        rows = [self.convert(keep, *call) for call in calls]
        for row in rows:
            if len(row) != len(self.signature):
                raise TypeError(f"the record of {self.name} has {len(self.signature)} fields, got {len(row)}")
        table = (self.record * n)(*rows)

        def run(keep: Keep = keep) -> None:
            function(table, n, torch.get_num_threads())

        return run

    def __call__(self, *call: Any) -> None:
        """One call."""
        self.prepare([call])()


def address(tensor: Tensor) -> int:
    """Where a tensor lies.

    Raises:
        ValueError: not in the memory of the CPU.
    """
    if tensor.device.type != "cpu":
        raise ValueError(f"the cpu backend takes tensors on the CPU, got one on {tensor.device}")
    return tensor.data_ptr()


def blocks(dim: int) -> int:
    """Partial sums of a buffer."""
    return -(-dim // BLOCK)


def copy_arguments(params_copy: Tensor | None) -> tuple[int | None, int]:
    """Address and dtype code of the copy; the code of float32 says that there is none."""
    return (None, DTYPE_CODES[torch.float32]) if params_copy is None else (address(params_copy), code_of(params_copy))


def preconditioner_arguments(preconditioner: Tensor | None) -> tuple[int | None, int]:
    """Address and dtype code of P, or of none."""
    return (None, 0) if preconditioner is None else (address(preconditioner), code_of(preconditioner))


def code_of(tensor: Gradient) -> int:
    """The dtype as the kernels know it."""
    return DTYPE_CODES[tensor.dtype]


def threads(dim: int) -> int:
    """torch's number of threads, but no thread for less than two blocks."""
    return 1 if dim < 4 * BLOCK else max(1, min(torch.get_num_threads(), dim // (2 * BLOCK)))
