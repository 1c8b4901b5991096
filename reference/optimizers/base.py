"""What an optimizer is here: hyper-parameters, and a pure function from a state and N gradients to the next state."""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np

from reference import arguments
from reference.allreduce import dense_allreduce_bytes
from reference.arithmetic import Array, as_scalar, is_finite, sum_of_squares, zeros
from reference.compressors.base import Compressor
from reference.optimizers.form import check_form
from reference.state import State

Schedule = Callable[[int], float]


def _shapes(state: State) -> list[tuple[str, tuple[int, ...]]]:
    """The names of the slots in order, each with its shape."""
    return [(name, state.slots[name].shape) for name in sorted(state.slots)]


def mean_over_workers(grads_ND: Array) -> Array:
    """g-bar (D,), summed in the order of the workers."""
    return grads_ND.sum(axis=0) / len(grads_ND)


def mean_in_nodes(grads_ND: Array, node_size: int) -> Array:
    """Mean of each node's workers (M, D), ``node_size`` neighbours in order, N = M ``node_size`` [C15]."""
    if node_size == 1:
        return grads_ND
    return grads_ND.reshape(-1, node_size, grads_ND.shape[1]).sum(axis=1) / node_size


@dataclass(frozen=True, kw_only=True)
class Optimizer(ABC):
    """Hyper-parameters that all optimizers share, and the frame of a step.

    Attributes:
        lr: gamma > 0, or a schedule: a function from the step t (counted from 1) to gamma_t.
        weight_decay: lambda >= 0, decoupled: x <- x - gamma (update + lambda x).
        max_grad_norm: clip all workers by one factor, from the root mean square of their norms [C9]; None: no clipping.
        seed: for compressors that draw; step t uses the generator keyed by (seed, t), so that resume is exact.
        momentum_is, errors_are: what ``State.momentum`` and the errors are, in words; another optimizer's are refused.
        freezes: whether the algorithm knows of a state whose variance is frozen.
    """

    momentum_is: ClassVar[str] = "a momentum of gradients"
    errors_are: ClassVar[str] = "no errors"
    freezes: ClassVar[bool] = False

    lr: float | Schedule
    weight_decay: float = 0.0
    max_grad_norm: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if not callable(self.lr):
            arguments.number("lr", self.lr, strict=True)
        arguments.number("weight_decay", self.weight_decay)
        if self.max_grad_norm is not None:
            arguments.number("max_grad_norm", self.max_grad_norm, strict=True)
        arguments.integer("seed", self.seed, 0)
        if not isinstance(compressor := getattr(self, "compressor", None), Compressor | None):
            raise ValueError(f"compressor must be None or one of reference.compressors, got {compressor!r}")
        for name in ("beta1", "beta2"):
            if hasattr(self, name):
                arguments.decay(name, getattr(self, name))
        for name in ("eps", "variance_floor"):
            if hasattr(self, name):
                arguments.number(name, getattr(self, name))
        for field in dataclasses.fields(self):
            if field.type == "bool":
                arguments.boolean(field.name, getattr(self, field.name))

    def init(self, params_D: Array, n_workers: int) -> State:
        """The state before step 1: zero momentum, variance and errors. ``params_D`` (D,) is copied.

        Raises:
            TypeError, ValueError: ``params_D`` is no (D,) array of a supported dtype, or ``n_workers`` < 1.
        """
        arguments.array("params_D", params_D, (None,))
        arguments.integer("n_workers", n_workers)

        dim, dtype = params_D.size, params_D.dtype
        state = State(
            params=params_D.copy(),
            momentum=zeros(dim, dtype),
            variance=zeros(dim, dtype),
            worker_errors=zeros((n_workers, dim), dtype),
            server_error=zeros(dim, dtype),
        )
        return replace(state, form=self.form(state))

    def step(self, state: State, grads_ND: Array) -> State:
        """One step: check, skip if a gradient is not finite [C8], clip [C9], update.

        Args:
            state: the state before; not modified.
            grads_ND: one gradient a worker (N, D), of the dtype of the parameters; not modified.

        Returns:
            The state after. After a skipped step it is the same but for ``skipped_steps``.

        Raises:
            TypeError, ValueError: ``grads_ND`` has the wrong shape or dtype, or ``state`` has other slots than those of
                this optimizer, or arrays that mean something else [C11]. Those without slots take each other's where
                they mean the same: Adam's m and v are a start for 1-bit Adam.
        """
        if not isinstance(state, State):
            raise TypeError(f"state must be a State, such as init returns, got {type(state).__name__}")
        dtype = state.params.dtype
        arguments.array("grads_ND", grads_ND, (self.n_gradients(state), state.params.size), dtype)
        self._check_state(state)
        if not is_finite(grads_ND):
            return replace(state, skipped_steps=state.skipped_steps + 1)
        if self.max_grad_norm is not None:
            grads_ND = clip(grads_ND, self.max_grad_norm)
        after = self.in_arithmetic_of(dtype).update(state, grads_ND)
        is_newer = after.variance_norms is not state.variance_norms  # a history with a gap is of no use [C10]
        after = replace(after, step=state.step + 1, variance_norms=after.variance_norms if is_newer else ())
        mine = self.form(after)
        return after if mine == after.form else replace(after, form=mine)

    def form(self, state: State) -> dict[str, Any]:
        """What the arrays of ``state``, one of this optimizer, depend on: the entries of ``State.form``."""
        del state
        return {"momentum": self.momentum_is, "errors": self.errors_are}

    def _check_state(self, state: State) -> None:
        self._check_slots(state)
        check_form(state, self.form(state), type(self).__name__, freezes=self.freezes)

    def _check_slots(self, state: State) -> None:
        if type(self).init is Optimizer.init and not state.slots:
            return
        needed, held = _shapes(self.init(state.params, self.n_gradients(state))), _shapes(state)
        if held != needed:
            texts = (", ".join(f"{name} {shape}" for name, shape in one) or "none" for one in (held, needed))
            raise ValueError("this is no state of {}: its slots are {}, must be {}".format(type(self).__name__, *texts))

    @abstractmethod
    def update(self, state: State, grads_ND: Array) -> State:
        """The algorithm: everything of the next state but ``step``. Called with finite, clipped gradients (N, D)."""

    def n_gradients(self, state: State) -> int:
        """Gradients of a step: one a worker, unless the workers of a node have one row of the state together [C15]."""
        return state.n_workers

    def local_params(self, state: State) -> Array | None:
        """Where each worker takes its next gradient (N, D); None, as a rule: all of them at ``state.params``."""
        return None

    def in_arithmetic_of(self, dtype: np.dtype[Any]) -> Self:
        """Hyper-parameters as exact Fractions if the arrays hold Fractions, else as floats."""
        changes = {}
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, float | Fraction) and (number := as_scalar(value, dtype)) is not value:
                changes[field.name] = number
        return replace(self, **changes) if changes else self

    def learning_rate(self, t: int, dtype: np.dtype[Any]) -> Any:
        """gamma_t in the arithmetic of ``dtype``."""
        if not callable(self.lr):
            return as_scalar(self.lr, dtype)
        arguments.number(f"lr({t})", gamma := self.lr(t))
        return as_scalar(gamma, dtype)

    def apply(self, state: State, direction_D: Array) -> Array:
        """x - gamma_t (direction + lambda x), (D,)."""
        gamma = self.learning_rate(state.step + 1, state.params.dtype)
        return state.params - gamma * (direction_D + self.weight_decay * state.params)

    def rng(self, state: State) -> np.random.Generator:
        """The generator of this step."""
        return np.random.default_rng([self.seed, state.step + 1])


def clip(grads_ND: Array, max_grad_norm: float) -> Array:
    """Scale all gradients by one factor min(1, c / norm), norm^2 = mean_i ||g_i||^2, which every worker can know [C9].

    By Jensen ||g-bar|| <= norm, so the average is clipped at least as hard as asked; local norms would differ between
    workers and bias the average.
    """
    norm = math.sqrt(sum_of_squares(grads_ND) / len(grads_ND))
    return grads_ND if norm <= max_grad_norm else grads_ND * as_scalar(max_grad_norm / norm, grads_ND.dtype)


def sent(state: State, nbytes: int, rounds: int = 1, **changes: Any) -> State:
    """The state after all workers together have sent ``nbytes`` in ``rounds`` more exchanges, with these changes."""
    return replace(state, bytes_on_wire=state.bytes_on_wire + nbytes, rounds=state.rounds + rounds, **changes)


def dense_round(state: State, dim: int | None = None) -> State:
    """The state after one uncompressed all-reduce of ``dim`` numbers; None: of as many as there are parameters."""
    return sent(state, dense_allreduce_bytes(state.params.size if dim is None else dim, state.n_workers))
