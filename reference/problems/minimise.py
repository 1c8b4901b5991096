"""The minimiser of a smooth strongly convex f in float64, to the rounding of its gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import optimize
from scipy.sparse import linalg

from reference.problems.base import Array


def minimiser(loss: Callable[[Array], float], gradient: Callable[[Array], Array], start_D: Array) -> Array:
    """x* (D,), by L-BFGS and then Newton steps.

    L-BFGS compares values of f, so it stalls at a distance of about sqrt(eps); the Newton steps solve H p = -grad f by
    conjugate gradients, see gradients only, and end at the rounding of grad f. H p is a central difference: its error
    slows the last steps down a little but does not move the fixed point grad f = 0.
    """
    found = optimize.minimize(loss, start_D, jac=gradient, method="L-BFGS-B", options={"maxiter": 5000, "ftol": 0.0})
    x_D = np.asarray(found.x, np.float64)
    for _ in range(4):

        def curvature(p_D: Array, x_D: Array = x_D) -> Array:
            h = 1e-5 / max(float(np.linalg.norm(p_D)), 1e-300)
            return (gradient(x_D + h * p_D) - gradient(x_D - h * p_D)) / (2 * h)

        hessian: Any = linalg.LinearOperator(shape=(x_D.size, x_D.size), matvec=curvature, dtype=np.float64)  # pyright: ignore[reportCallIssue]
        x_D = x_D - linalg.cg(hessian, gradient(x_D), rtol=1e-6, maxiter=2000)[0]
    return x_D
