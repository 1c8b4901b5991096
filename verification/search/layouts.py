"""How the arrays that a class is given lie in memory [L8]."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from verification.protocol import Array

LAYOUTS: dict[str, Callable[[Array], Array]] = {}
"""Name -> a copy with the same numbers in another place of memory."""


def layout(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """Enter a layout under its name."""
    LAYOUTS[function.__name__.strip("_").replace("_", "-")] = function
    return function


@layout
def contiguous(array: Array) -> Array:
    """As NumPy makes arrays."""
    return array.copy(order="C")


@layout
def transposed(array: Array) -> Array:
    """Column by column."""
    return np.array(array, order="F")


@layout
def padded(array: Array) -> Array:
    """Inside a larger array of NaN, one element off its start."""
    outer = np.full((*array.shape[:-1], array.shape[-1] + 3), np.nan, array.dtype)
    outer[..., 1:-2] = array
    return outer[..., 1:-2]


@layout
def interleaved(array: Array) -> Array:
    """Every second element of an array of NaN."""
    outer = np.full((*array.shape[:-1], 2 * array.shape[-1]), np.nan, array.dtype)
    outer[..., ::2] = array
    return outer[..., ::2]


@layout
def reversed_(array: Array) -> Array:
    """From the last element to the first."""
    return array[..., ::-1].copy(order="C")[..., ::-1]


@layout
def misaligned(array: Array) -> Array:
    """Contiguous, but on no multiple of 16 bytes: one element off."""
    outer = np.empty(array.size + 5, array.dtype)
    first = next(k for k in range(5) if (outer.ctypes.data + k * array.itemsize) % 16)
    inner = outer[first : first + array.size].reshape(array.shape)
    inner[...] = array
    return inner


@layout
def read_only(array: Array) -> Array:
    """An array that must not be written."""
    inner = array.copy(order="C")
    inner.flags.writeable = False
    return inner


MIXED = "mixed"
"""The layout in which each array lies in another way than the one before it."""


def placed(layout: str, array: Array, number: int) -> Array:
    """A copy of an array in this layout; ``number`` counts the arrays of a run, on which a mixed one depends."""
    if layout == MIXED:
        layout = tuple(LAYOUTS)[number % len(LAYOUTS)]
    return LAYOUTS[layout](array)


def overwrite(array: Array, values: Array | float) -> Array:
    """The array, which a layout has made, with other numbers in the same memory."""
    writeable = array.flags.writeable
    array.flags.writeable = True
    array[...] = values
    array.flags.writeable = writeable
    return array


SPOILT = 7.0
"""What stands in an array that the class has no more business with."""


def spoil(array: Array) -> None:
    """Overwrite an array that a layout has made, after the call that it was made for."""
    overwrite(array, SPOILT)


def spoil_returned(array: Array) -> bool:
    """Overwrite an array that a class has returned, which is the caller's, where it may be written; whether it was."""
    if array.flags.writeable:
        array[...] = SPOILT
    return array.flags.writeable


def is_spoilt(array: Array) -> bool:
    """Whether nobody has written into it since."""
    return bool((array == SPOILT).all())
