"""P as a correct implementation may hold it in the compression stage, and what it may make of it [C12, C14].

Nothing here needs a theorem of its own. T11e (with T11l and T11m for P) bounds Adam's step
x - lr (m/b1/(sqrt(v/b2) + eps) + weight_decay x) in every usual order of its operations. With x = 0 and lr = 1 the step
is P m with its sign changed, so T11e bounds a product with P; with m = 1 it bounds P itself. Rounding to nearest is
monotone, so a P that lies in an interval before it is rounded lies between the rounded ends after; and T11e takes any P
as 1/sqrt(1/P^2).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theory import rounding
from verification.relation.tolerances import combined

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Preconditioner:
    """P = 1/(sqrt(v/b2) + eps) of the frozen v (D,), in the implementation's ``dtype``.

    Attributes:
        variance_D: v, positive.
        eps: added to the root.
        beta2, frozen_at: b2 = 1 - beta2^frozen_at; frozen_at None: no bias correction, b2 = 1.
        frozen_dtype: "bfloat16": P is rounded to it, once [C14].
        dtype: the arithmetic of the implementation.
        correction: in which it forms b2.
        variance_tolerance_D: how far the v that it takes may be from this one, as where it is raised to a floor [C7].
    """

    variance_D: Floats
    eps: float
    beta2: float
    frozen_at: int | None
    frozen_dtype: str
    dtype: str
    correction: str = "float64"
    variance_tolerance_D: Any = 0.0

    @cached_property
    def _plain(self) -> tuple[Floats, dict[str, Any]]:
        """P before it is rounded, and the denominator as T11e takes it."""
        correction = 1.0 if self.frozen_at is None else 1 - self.beta2**self.frozen_at
        error = (
            0.0 if self.frozen_at is None else rounding.correction_error(self.beta2, self.frozen_at, self.correction)
        )
        about = {"variance": self.variance_D, "eps": self.eps, "b2": correction, "b2_error": error}
        about["wobble"] = self.variance_tolerance_D
        with np.errstate(divide="ignore"):
            return 1 / (np.sqrt(self.variance_D / correction) + self.eps), about

    @cached_property
    def _rounded(self) -> tuple[Floats, dict[str, Any]]:
        """The same after the rounding to bfloat16: the middle of what P may be, nearly always one number."""
        exact_D, about = self._plain
        slack_D = self._step(about, 0.0, np.ones_like(exact_D), lr=1.0)
        low_D, high_D = (
            rounding.round_to(end_D, "bfloat16") for end_D in (np.maximum(exact_D - slack_D, 0), exact_D + slack_D)
        )
        middle_D = (low_D + high_D) / 2
        with np.errstate(divide="ignore", invalid="ignore"):
            square_D = middle_D**-2.0
            wobble_D = np.maximum(low_D**-2.0 - square_D, square_D - high_D**-2.0)
            wobble_D += rounding.gamma(4, "float64") * square_D  # of forming it here
        return middle_D, {"variance": square_D, "eps": 0.0, "b2": 1.0, "b2_error": 0.0, "wobble": wobble_D}

    @property
    def _held(self) -> tuple[Floats, dict[str, Any]]:
        return self._rounded if self.frozen_dtype == "bfloat16" else self._plain

    @property
    def value_D(self) -> Floats:
        """P (D,)."""
        return self._held[0]

    def _step(self, about: dict[str, Any], x: Any, m: Any, *, lr: float, dtypes: Any = None, **step: Any) -> Floats:
        """T11e with this denominator, in the implementation's arithmetic and in our own float64."""
        b1, b1_error = step.pop("correction", (1.0, 0.0))
        step |= {"corrections": (b1, about["b2"]), "corrections_error": (b1_error, about["b2_error"])}
        rest = {"eps": about["eps"], "variance_tolerance": about["wobble"]}
        return combined(
            rounding.apply_tolerance(x, m, about["variance"], lr=lr, dtype=dtype, **rest, **step)
            for dtype in dtypes or (self.dtype, "float64")
        )

    def step_tolerance(
        self, x: Floats, m: Floats, *, lr: float, weight_decay: float, correction: tuple[float, float]
    ) -> Floats:
        """Bound on x - lr (P m/b1 + weight_decay x) (D,); ``correction`` is b1 and its relative error."""
        return self._step(self._held[1], x, m, lr=lr, weight_decay=weight_decay, correction=correction)

    def product_tolerance(self, values: Floats, dtypes: tuple[str, ...] | None = None, **known: Any) -> Floats:
        """Bound on P times ``values`` (..., D); ``momentum_tolerance`` = how far the implementation's are from them."""
        return self._step(self._held[1], 0.0, values, lr=1.0, dtypes=dtypes, **known)

    def weighted_product_tolerance(self, values: Floats, weight: float, dtype: str) -> Floats:
        """The same for P times ``values`` that is then given a ``weight``, or times ``values`` that have theirs.

        Proof. Relative roundings don't depend on the order, and T11b counts that of the weight. But weight * value may
        underflow by eta before P multiplies it, which is eta P/weight beside P times the value.
        """
        underflow = rounding.smallest_subnormal(dtype) / weight * self.value_D * (values != 0)
        return self.product_tolerance(values, (dtype,)) + underflow


def update_step_tolerance(
    x: Floats, update: Floats, *, lr: float, weight_decay: float, correction: tuple[float, float], dtype: str
) -> Floats:
    """Bound on x - lr (y/b1 + weight_decay x), the step of the update form: T11e with P = 1."""
    return combined(
        rounding.apply_tolerance(
            x,
            update,
            np.ones_like(x),
            lr=lr,
            eps=0.0,
            weight_decay=weight_decay,
            dtype=kind,
            corrections=(correction[0], 1.0),
            corrections_error=(correction[1], 0.0),
        )
        for kind in (dtype, "float64")
    )
