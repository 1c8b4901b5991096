"""What to implement to have your code checked: ``CollectiveUnderTest``, ``OptimizerUnderTest``, or both.

All N workers are driven from one process; an adapter to processes or devices does its own talking. Arrays are NumPy
float32, or float64 where the class says ``dtype = "float64"``. A collective in ten lines:

    import numpy as np

    class NoCompression:
        scale = "l2"

        def allreduce(self, buffers_ND, worker_errors_ND, server_error_D):
            u_ND = buffers_ND + worker_errors_ND
            output_D = u_ND.mean(axis=0) + server_error_D
            return output_D, np.zeros_like(u_ND), np.zeros_like(server_error_D)

``onebit verify`` finds that this one conserves everything (L1) and compresses nothing (L5).

An optimizer is 1-bit Adam unless it says ``algorithm = "zero_one_adam"`` or ``"one_bit_lamb"``: then it is given a
``ZeroOneHyper`` or ``LambHyper``, and shows a ``ZeroOneSnapshot`` or ``LambSnapshot``.

Optional class attributes, with their defaults:

    algorithm = "one_bit_adam"   # or "zero_one_adam", "one_bit_lamb"
    dtype = "float32"            # or "float64"
    scale = None                 # "l2" or "l1"; None: an optimizer obeys Hyper.scale, a collective uses "l2"
    scale_block = None           # of a collective: elements of a block that share a scale [C13]; None: one a message
    chunk_multiple = 8           # the chunk length is a multiple of this [C3]
    server_chunks = None         # number of server chunks; None: one a worker
    complement = "rounded"       # "subtracted": 1 - beta is formed from the float32 beta (theory.rounding)
    correction = "float64"       # "float32": 1 - beta^t is formed in float32, as compiled JAX code does
    workers = None               # the numbers of workers that can be driven, such as (2, 4); None: any
    sizes = None                 # the D that it takes, such as (64, 128) or range(8, 4097, 8); None: any
    layouts = None               # of the inputs in memory: ("contiguous", "read-only"); None: any NumPy array
    takes = {}                   # hyper-parameters that it fixes: {"bias_correction": True, "eps": (1e-8, 1e-3)}
    extensions = ()              # what it has beyond the published algorithm, such as ("compress", "scale_block")
    compresses = True            # False: the warm-up alone; v is never frozen, and no step after T_w is asked for
    has_server_error = True      # False: the server sends its average uncompressed, and returns errors of 0
    flushes_subnormals = False   # True: its hardware takes subnormal numbers for 0, in operands and in results
    refresh_policy = None        # of 0/1 Adam: its own T_v, (hyper, t) -> bool; None: hyper.refreshes(t)
    meeting_policy = None        # of 0/1 Adam: its own T_u, (hyper, t) -> bool; None: hyper.meets(t)

What a class declares it is then checked within, fully. Where it refuses a case (NotImplementedError) that it does not
declare away, no clause that has to do with such cases is said to hold: they are not checked, and the report names the
levels of what was refused. A class without extensions is given a ``PublishedHyper``, in which they are not fields (or a
``PublishedZeroOneHyper``, ``PublishedLambHyper``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import islice, product
from numbers import Integral
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np

from verification.algorithms import ALGORITHMS, ONE_BIT_ADAM
from verification.algorithms.base import Algorithm, Array, CommonHyper, Scale
from verification.algorithms.one_bit_adam import Hyper, PublishedHyper, Snapshot
from verification.algorithms.one_bit_lamb import LambHyper, LambSnapshot, PublishedLambHyper
from verification.algorithms.zero_one_adam import PublishedZeroOneHyper, ZeroOneHyper, ZeroOneSnapshot
from verification.raised import of_the_user, said

__all__ = [
    "EXTENSIONS",
    "LAYOUTS",
    "Array",
    "CollectiveUnderTest",
    "CommonHyper",
    "Hyper",
    "LambHyper",
    "LambSnapshot",
    "OptimizerUnderTest",
    "PublishedHyper",
    "PublishedLambHyper",
    "PublishedZeroOneHyper",
    "Scale",
    "Snapshot",
    "Traits",
    "ZeroOneHyper",
    "ZeroOneSnapshot",
    "attribute",
    "levels",
]

EXTENSIONS = ONE_BIT_ADAM.extensions
"""The hyper-parameters that the published 1-bit Adam does not have."""


@runtime_checkable
class CollectiveUnderTest(Protocol):
    """A compressed all-reduce. Optional: ``bytes_per_worker()``, what each worker sent in the last call (N,)."""

    def allreduce(self, buffers_ND: Array, worker_errors_ND: Array, server_error_D: Array) -> tuple[Array, ...]:
        """From buffers and errors to (output_D, new worker_errors_ND, new server_error_D)."""
        ...


@runtime_checkable
class OptimizerUnderTest(Protocol):
    """An optimizer. Optional: ``save() -> bytes``, and ``load(data, n_workers)`` on a started instance, new or used."""

    def start(self, params_D: Array, n_workers: int, hyper: Any) -> None:
        """Begin a run at ``params_D`` (D,) with zero momentum, variance and errors."""
        ...

    def step(self, grads_ND: Array) -> None:
        """One step from one gradient a worker (N, D)."""
        ...

    def snapshot(self) -> Any:
        """Copies of the state."""
        ...


@dataclass(frozen=True)
class Traits:
    """What a class says of itself by class attributes (see the module's docstring)."""

    algorithm: str = "one_bit_adam"
    dtype: str = "float32"
    scale: Scale | None = None
    scale_block: int | None = None
    chunk_multiple: int = 8
    server_chunks: int | None = None
    complement: Literal["rounded", "subtracted"] = "rounded"
    correction: Literal["float64", "float32"] = "float64"
    workers: tuple[int, ...] | None = None
    sizes: tuple[int, ...] | range | None = None
    layouts: tuple[str, ...] | None = None
    takes: tuple[tuple[str, tuple[Any, ...]], ...] = ()
    extensions: tuple[str, ...] = ()
    compresses: bool = True
    has_server_error: bool = True
    flushes_subnormals: bool = False
    refresh_policy: Callable[[Any, int], bool] | None = None
    meeting_policy: Callable[[Any, int], bool] | None = None

    @classmethod
    def of(cls, under_test: type) -> Traits:
        """Read the attributes.

        Raises:
            ValueError: one of them has a value that is not allowed; the message is one sentence.
        """
        values = {name: attribute(under_test, name, default) for name, default in vars(cls()).items()}
        for name, choices in CHOICES.items():
            if not any(values[name] is choice or values[name] == choice for choice in choices):
                value = values[name]
                is_method = callable(value) and not isinstance(value, type)
                got = "a method: give it another name" if is_method else repr(value)
                raise ValueError(f"{under_test.__name__}.{name} must be one of {choices}, got {got}")
        for name in ("chunk_multiple", "server_chunks", "scale_block"):
            values[name] = _integer(values[name])
            count = values[name]
            if not (count is None and name != "chunk_multiple") and (not isinstance(count, int) or count < 1):
                raise ValueError(f"{under_test.__name__}.{name} must be an integer >= 1, got {count!r}")
        block = values["scale_block"]
        if block is not None and block % 8:
            raise ValueError(f"{under_test.__name__}.scale_block must be None or a multiple of 8, got {block!r}")
        algorithm = ALGORITHMS[values["algorithm"]]
        values["extensions"] = _extensions(under_test.__name__, values["extensions"], algorithm)
        for name, most in (("workers", MOST_WORKERS), ("sizes", LARGEST_SIZE)):
            values[name] = _counts(f"{under_test.__name__}.{name}", values[name], most)
        if values["layouts"] is not None:
            values["layouts"] = _layouts(under_test.__name__, values["layouts"])
        values["takes"] = _takes(under_test.__name__, values["takes"] or {}, algorithm)
        undeclared = set(algorithm.extensions) - set(values["extensions"])
        for name in sorted({name for name, _ in values["takes"]} & undeclared):
            raise ValueError(f"{under_test.__name__}.takes has {name}, so extensions must have it too")
        traits = cls(**values)
        for name in ("refresh_policy", "meeting_policy"):
            if values[name] is None:
                continue
            if algorithm.name != "zero_one_adam":
                raise ValueError(f"{under_test.__name__}.{name} is for 0/1 Adam, and {algorithm.title} has none")
            _policy(f"{under_test.__name__}.{name}", values[name], traits.hyper())
        return traits

    @property
    def checked_as(self) -> Algorithm:
        """The algorithm that the class says it is."""
        return ALGORITHMS[self.algorithm]

    def taken(self, name: str) -> tuple[Any, ...] | None:
        """The values of one hyper-parameter that the class declares to take; None: it declares nothing."""
        if name == "scale" and self.scale is not None:
            return (self.scale,)
        if name in self.checked_as.extensions and name not in self.extensions:
            return (getattr(self.checked_as.published(), name),)
        return dict(self.takes).get(name)

    def takes_size(self, least: int, most: int | None = None) -> bool:
        """Whether the class takes D = ``least``, or with ``most`` some D from the one to the other."""
        if self.sizes is None:
            return True
        return least in self.sizes if most is None else any(least <= size <= most for size in self.sizes)

    def policies(self, hyper: CommonHyper) -> tuple[Callable[[int], bool], Callable[[int], bool]]:
        """Whether a step refreshes v, and whether the workers meet in it: the class's own policies, or ``hyper``'s."""
        refreshes, meets = (
            default if own is None else partial(own, hyper)
            for own, default in ((self.refresh_policy, hyper.refreshes), (self.meeting_policy, hyper.meets))
        )
        return refreshes, meets

    def hyper(self, **values: Any) -> CommonHyper:
        """Hyper-parameters as the class is given them: without extensions, if it has none."""
        if self.extensions:
            return self.checked_as.hyper(**values)
        extensions = self.checked_as.extensions
        return self.checked_as.published(**{name: one for name, one in values.items() if name not in extensions})

    @property
    def numpy_dtype(self) -> np.dtype[Any]:
        """``dtype`` as NumPy's object."""
        return np.dtype(self.dtype)

    def lost(self, operations: int) -> float:
        """What so many operations may lose beyond their roundings: 2^-126 each where subnormals are flushed, else 0."""
        return operations * float(np.finfo(self.numpy_dtype).tiny) if self.flushes_subnormals else 0.0

    def chunks(self, dim: int, n_workers: int) -> list[slice]:
        """The server chunks [C3]: equal lengths, a multiple of ``chunk_multiple``; trailing ones may be empty."""
        n_chunks = n_workers if self.server_chunks is None else self.server_chunks
        c = self.chunk_multiple * -(-dim // (self.chunk_multiple * n_chunks))
        return [slice(min(j * c, dim), min((j + 1) * c, dim)) for j in range(n_chunks)]

    @staticmethod
    def blocks(chunk: slice, scale_block: int | None) -> list[slice]:
        """The blocks [C13] of a chunk, counted from its start; the chunk itself where there are none."""
        b = scale_block or max(1, chunk.stop - chunk.start)
        return [slice(start, min(start + b, chunk.stop)) for start in range(chunk.start, chunk.stop, b)]


def attribute(under_test: type, name: str, default: Any = None) -> Any:
    """A class attribute; ``default`` where there is none.

    Raises:
        ValueError: the class, which may have any metaclass, raises something else; one sentence.
    """
    try:
        return getattr(under_test, name, default)
    except BaseException as error:
        if of_the_user(error):
            raise
        text = f"{under_test.__name__}.{name} raised {type(error).__name__}: {said(error)}"
        raise ValueError(text) from None


CHOICES: dict[str, tuple[Any, ...]] = {
    "algorithm": tuple(ALGORITHMS),
    "dtype": ("float32", "float64"),
    "scale": (None, "l1", "l2"),
    "complement": ("rounded", "subtracted"),
    "correction": ("float64", "float32"),
    "compresses": (True, False),
    "has_server_error": (True, False),
    "flushes_subnormals": (True, False),
}


MOST_WORKERS, LARGEST_SIZE = 1024, 2**20
"""The largest N and D that are tried, whatever a class takes beyond them."""


def _integer(value: Any) -> Any:
    """An integer of NumPy's as one of Python's; anything else stays."""
    return int(value) if isinstance(value, Integral) and not isinstance(value, bool) else value


def _counts(what: str, values: Any, most: int) -> Any:
    """``values`` up to ``most`` as a tuple of integers >= 1, or a range; None stays."""
    if values is None:
        return None
    example = f"{what} must be integers >= 1 in a tuple, such as (2, 4)"
    if isinstance(values, range) and len(values) and values.step > 0 and values.start >= 1:
        found = range(values.start, min(values.stop, most + 1), values.step)
    elif isinstance(values, tuple | list | set | range | np.ndarray) and len(values):
        counts = [_integer(n) for n in values]
        if not all(type(n) is int and n >= 1 for n in counts):
            raise ValueError(f"{example}, got {values!r}")
        found = tuple(sorted(n for n in counts if n <= most))
    else:
        raise ValueError(f"{example}, got {values!r}")
    if not found:
        raise ValueError(f"{what} must have one of at most {most}, got {values!r}: a check can't try larger ones")
    return found


LAYOUTS = ("contiguous", "transposed", "padded", "interleaved", "reversed", "misaligned", "read-only")
"""How an array that a class is given may lie in memory; ``verification/search/layouts.py`` makes them."""


def _layouts(name: str, declared: Any) -> tuple[str, ...]:
    """The layouts that are declared, in the order of ``LAYOUTS``."""
    if not isinstance(declared, tuple | list) or "contiguous" not in declared or not set(declared) <= set(LAYOUTS):
        raise ValueError(
            f"{name}.layouts must be contiguous and some of {', '.join(LAYOUTS[1:])} in a tuple, got {declared!r}"
        )
    return tuple(layout for layout in LAYOUTS if layout in declared)


def _extensions(name: str, declared: Any, algorithm: Algorithm) -> tuple[str, ...]:
    """The extensions that are declared."""
    known = algorithm.extensions
    if not isinstance(declared, tuple | list) or not set(declared) <= set(known):
        raise ValueError(f"{name}.extensions must be some of {', '.join(known)} in a tuple, got {declared!r}")
    return tuple(declared)


def _policy(name: str, declared: Any, hyper: CommonHyper) -> None:
    """Raise ValueError, in one sentence, where a policy can't be asked about step 1."""
    try:
        answer = declared(hyper, 1)
    except BaseException as error:
        if of_the_user(error):
            raise
        answer = f"{type(error).__name__}: {said(error)}"
    if not isinstance(answer, bool | np.bool_):
        text = f"{name} must be a static method of (hyper, t) that returns True or False; for t = 1 it gave {answer!r}"
        raise ValueError(text)


MOST_COMBINATIONS = 1000
"""So many combinations of the values that a class takes are given to the reference, which says if they are possible."""

LONGEST_WARM_UP = 1000
"""The largest freeze_step that a class may fix: a run of the check has to come to its freeze, in hundreds of cases."""


def _takes(name: str, declared: Any, algorithm: Algorithm) -> tuple[tuple[str, tuple[Any, ...]], ...]:
    """Hyper-parameters with the values that are declared, in a tuple."""
    known = algorithm.known
    if not isinstance(declared, dict) or not set(declared) <= set(known):
        raise ValueError(f"{name}.takes must map names of {', '.join(known)} to values, got {declared!r}")
    takes = {key: tuple(value) if isinstance(value, tuple | list) else (value,) for key, value in declared.items()}
    for key, values in takes.items():
        kinds = [kind for kind in (str, tuple) if isinstance(known[key], kind)]
        if not values or any([kind for kind in (str, tuple) if isinstance(value, kind)] != kinds for value in values):
            choices = "; one that is a tuple stands in a list" if kinds == [tuple] else ""
            raise ValueError(
                f"{name}.takes: {key} must have values like {known[key]!r}, got {declared[key]!r}{choices}"
            )
    takes = {key: tuple(_integer(value) for value in values) for key, values in takes.items()}
    for steps in takes.get("freeze_step", ()):
        if not isinstance(steps, int) or not 1 <= steps <= LONGEST_WARM_UP:
            text = f"{name}.takes: a freeze_step must be an integer from 1 to {LONGEST_WARM_UP}, got {steps!r}"
            raise ValueError(f"{text}; a check can't run longer warm-ups")
    for values in islice(product(*takes.values()), MOST_COMBINATIONS):
        try:
            algorithm.reference(algorithm.hyper(**dict(zip(takes, values, strict=True))))
        except (ValueError, TypeError) as error:
            raise ValueError(f"{name}.takes: no run can have this: {error}") from None
    return tuple(sorted(takes.items()))


def levels(under_test: type) -> tuple[str, ...]:
    """Which of the two protocols the class has the methods of: "collective", "optimizer".

    Raises:
        ValueError: neither, or an optimizer with a method missing; the message says which.
    """
    found = ["collective"] if callable(attribute(under_test, "allreduce")) else []
    has = {name: callable(attribute(under_test, name)) for name in ("start", "step", "snapshot")}
    if all(has.values()):
        found.append("optimizer")
    elif any(has.values()):
        missing = ", ".join(f"{name}()" for name, there in has.items() if not there)
        raise ValueError(f"{under_test.__name__} is an optimizer without {missing}: it needs start, step and snapshot")
    if not found:
        raise ValueError(
            f"{under_test.__name__} has neither allreduce() nor start(), step() and snapshot(): "
            "see verification/protocol.py for the ten lines it needs"
        )
    return tuple(found)
