"""1-bit Adam: Algorithm 1 of Tang et al. 2021 (arXiv 2102.02888).

Warm-up, t <= T_w: Adam on g-bar. After step T_w the variance v is frozen. Compression, t > T_w:

    worker i   m_i = beta1 m-bar + (1 - beta1) g_i      u_i = m_i + delta_i
               s_i = scale(u_i)    q_i = sign(u_i)      delta_i <- u_i - s_i q_i        sends D bits and one scale
    chunk j    w = (1/N) sum_i s_i q_i + delta-bar      S_j = scale(w)   Q_j = sign(w)   delta-bar <- w - S_j Q_j
    everyone   m-bar <- S_j Q_j on chunk j              x <- x - gamma (P m-bar + lambda x)    P = 1 / (sqrt(v) + eps)

In the update form [C12] P stands before the compressor instead, and all of the loop is in units of the update:
y-bar = P m-bar from the freeze on,

    worker i   u_i = beta1 y-bar + (1 - beta1) P g_i + delta_i         everyone   x <- x - gamma (y-bar + lambda x)

Where this departs from the paper, by a named parameter: zero-variance coordinates are masked [C6], small variances are
raised to a floor at the freeze [C7], non-finite gradients are skipped [C8], bias correction can be switched on [C5];
the update form [C12], block scales [C13], P in bfloat16 [C14] and nodes [C15] are off by default.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from reference import arguments
from reference.arithmetic import Array, round_to_bfloat16, sum_of_magnitudes
from reference.optimizers import freeze_rule
from reference.optimizers.adam import Adam, preconditioner
from reference.optimizers.base import mean_in_nodes
from reference.optimizers.compressed import CompressedOptimizer
from reference.state import State, live_in

DEFAULT_VARIANCE_FLOOR = 1e-3
"""kappa [C7]: the power of ten at which the bound on compressed steps is Adam's own worst step, for noisy gradients,
beta = (0.9, 0.999) and the l1 scale [theorems T7e, T7l]; for l2 experiments support it.
Smaller ones down to 1e-6 often survive, 0 often does not: docs/algorithm.md."""

COMPRESS = ("momentum", "update")
FROZEN_DTYPES = ("float32", "bfloat16")


@dataclass(frozen=True, kw_only=True)
class OneBitAdam(CompressedOptimizer, Adam):
    """Adam that sends one bit a coordinate once its variance is frozen.

    Attributes:
        freeze_step: T_w >= 1, the last warm-up step; or a rule C10, "paper" or "auto" (see ``freeze_rule``).
        variance_floor: kappa >= 0; at the freeze v <- max(v, kappa * mean of live v) on live coordinates [C7].
            0 is the published algorithm.
        bias_correction: off as published. On: the frozen denominator keeps its correction 1 - beta2^T_w, and m-bar is
            divided by 1 - beta1^t in the update, never in the state [C5].
        lr_warmup_steps: no rule freezes before this step [C10].
        arrays: name -> size of the arrays of parameters, in their order, each of which "auto" wants settled; none: all
            of v counts as one.
        compress: "momentum" as published, or "update": P m in place of m. From the freeze on ``State.momentum`` then
            holds y-bar = P m-bar, and the errors are in its units [C12].
        frozen_dtype: "bfloat16" rounds P once, at the freeze; "float32" leaves it as it is [C14].
        node_size: n, workers of a node: neighbours, who average their gradients in full precision. Then each node is
            one of the M = N/n workers above: a state has M rows of errors, and counts bytes between nodes [C15].
    """

    freezes: ClassVar[bool] = True

    freeze_step: int | str
    variance_floor: float = DEFAULT_VARIANCE_FLOOR
    bias_correction: bool = False
    lr_warmup_steps: int = 0
    arrays: Mapping[str, int] = field(default_factory=dict)
    compress: str = "momentum"
    frozen_dtype: str = "float32"
    node_size: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        arguments.integer("lr_warmup_steps", self.lr_warmup_steps, 0)
        arguments.choice("compress", self.compress, COMPRESS)
        arguments.choice("frozen_dtype", self.frozen_dtype, FROZEN_DTYPES)
        arguments.integer("node_size", self.node_size)
        if not isinstance(self.arrays, Mapping):
            raise ValueError(f"arrays must give each array's size by its name, got {self.arrays!r}")
        for name, size in self.arrays.items():
            arguments.integer(f"arrays[{name!r}]", size)
        if isinstance(self.freeze_step, str):
            arguments.choice("freeze_step", self.freeze_step, freeze_rule.RULES, "an integer >= 1, or ")
        else:
            arguments.integer("freeze_step", self.freeze_step)

    def init(self, params_D: Array, n_workers: int) -> State:
        arguments.integer("n_workers", n_workers)
        if n_workers % self.node_size:
            raise ValueError(f"n_workers must be a multiple of node_size={self.node_size}, got {n_workers}")
        state = super().init(params_D, n_workers // self.node_size)
        if self.arrays and (total := sum(self.arrays.values())) != params_D.size:
            raise ValueError(f"arrays must hold all {params_D.size} parameters, got sizes that add up to {total}")
        return state

    def n_gradients(self, state: State) -> int:
        return state.n_workers * self.node_size

    def form(self, state: State) -> dict[str, Any]:
        """After the freeze the units are those of what is compressed [C12], and P stays as it is [L4, C5, C14]."""
        form = super().form(state)
        if isinstance(self.freeze_step, str) and state.variance_norms:
            form["arrays"] = tuple(map(int, self.watched.values())) or (state.params.size,)
        if state.frozen_at is None:
            return form
        made_with = {
            "compress": self.compress,
            "frozen_dtype": self.frozen_dtype,
            "bias_correction": bool(self.bias_correction),
            "eps": float(self.eps),
        }
        if self.bias_correction:
            made_with["beta2"] = float(self.beta2)
        if self.compress == "update":
            return {**made_with, "momentum": "a momentum of updates", "errors": "errors of updates"}
        return {**made_with, **form, "errors": "errors of momenta"}

    def update(self, state: State, grads_ND: Array) -> State:
        grads_MD = mean_in_nodes(grads_ND, self.node_size)
        if state.frozen_at is not None:
            return self.compressed_step(state, grads_MD, frozen_at=state.frozen_at)
        state_after = super().update(state, grads_MD)
        return self.freeze_if_due(state_after, t=state.step + 1)

    def freeze_if_due(self, state: State, t: int) -> State:
        """Freeze the variance if t, the step just done, is T_w: raise it to the floor [C7], find the dead [C6].

        In the update form the momentum turns into the update here, y-bar = P m-bar [C12].
        """
        if isinstance(self.freeze_step, str):
            norms = (*state.variance_norms, freeze_rule.norms_of(state.variance, self.watched))
            state = replace(state, variance_norms=norms[-(freeze_rule.window_length(self.beta2) + 1) :])
            due = t >= self.lr_warmup_steps and freeze_rule.holds(self.freeze_step, replace(state, step=t), self.beta2)
        else:
            due = t >= self.freeze_step
        if not due:
            return state
        live_D = live_in(state.variance)
        mean_live = sum_of_magnitudes(np.where(live_D, state.variance, 0)) / max(1, int(live_D.sum()))
        variance_D = np.maximum(state.variance, self.variance_floor * mean_live) * (state.variance > 0)
        momentum_D = state.momentum * live_D
        if self.compress == "update":
            momentum_D = self.frozen_preconditioner(variance_D, t) * momentum_D
        return replace(state, frozen_at=t, variance=variance_D, momentum=momentum_D, variance_norms=())

    def frozen_preconditioner(self, variance_D: Array, frozen_at: int) -> Array:
        """P (D,) of the compression stage: a function of the frozen v alone, so the same in every step [L4, C14]."""
        frozen_D = preconditioner(variance_D, self.eps, self.correction(self.beta2, frozen_at))
        return round_to_bfloat16(frozen_D) if self.frozen_dtype == "bfloat16" else frozen_D

    def compressed_step(self, state: State, grads_ND: Array, frozen_at: int) -> State:
        """One step of the compression stage, t > T_w = ``frozen_at``."""
        t, live_D, in_updates = state.step + 1, state.live, self.compress == "update"
        inputs_ND = self.frozen_preconditioner(state.variance, frozen_at) * grads_ND if in_updates else grads_ND
        momentum_ND = (1 - self.beta1) * inputs_ND
        momentum_ND += self.beta1 * state.momentum
        reduced = self.exchange(state, momentum_ND)

        update_D = reduced.output_D / self.correction(self.beta1, t)
        if not in_updates:
            update_D = self.frozen_preconditioner(state.variance, frozen_at) * update_D
        params_D = self.apply(state, update_D)
        ignored = 0
        if live_D is not None:
            dead_D = state.variance == 0
            params_D[dead_D] = state.params[dead_D]  # a zero-variance coordinate gets no weight decay either
            ignored = int(np.count_nonzero((grads_ND[:, ~live_D] != 0).any(axis=0)))
        return self.remember(
            state,
            reduced,
            params=params_D,
            momentum=reduced.output_D,
            ignored_gradients=state.ignored_gradients + ignored,
        )

    def freeze_diagnosis(self, state: State) -> str:
        """Whether v is frozen, and if not, when it will be, or what a rule waits for, in one sentence.

        Raises:
            ValueError: ``state`` is one that :meth:`step` refuses.
        """
        self._check_state(state)
        return freeze_rule.diagnosis(state, self.freeze_step, self.beta2, self.watched, self.lr_warmup_steps)

    @property
    def watched(self) -> Mapping[str, int]:
        """The arrays whose norms the rule compares: the published one looks at all of v alone."""
        return self.arrays if self.freeze_step == "auto" else {}
