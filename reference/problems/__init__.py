"""Problems to optimise: convex and nonconvex, each with per-worker stochastic gradients.

A new problem is one file here, one entry in ``PROBLEMS`` and one in the list of the tests.
"""

from __future__ import annotations

import inspect
from typing import Any

from reference.problems.base import Problem
from reference.problems.char_transformer import CharTransformer
from reference.problems.logistic_regression import LogisticRegression
from reference.problems.matrix_factorization import MatrixFactorization
from reference.problems.mlp import MLP
from reference.problems.phase_retrieval import PhaseRetrieval
from reference.problems.quadratic import Quadratic
from reference.problems.rosenbrock import Rosenbrock
from reference.problems.softmax_regression import SoftmaxRegression

PROBLEMS: dict[str, type[Problem]] = {
    problem.name: problem
    for problem in (
        Quadratic,
        LogisticRegression,
        SoftmaxRegression,
        Rosenbrock,
        MatrixFactorization,
        PhaseRetrieval,
        MLP,
        CharTransformer,
    )
}


def make(name: str, **kwargs: Any) -> Problem:
    """The problem called ``name``; ValueError with the choices if there is none, or if it takes no such argument."""
    if name not in PROBLEMS:
        raise ValueError(f"problem must be one of {', '.join(PROBLEMS)}, got {name!r}")
    choices = list(inspect.signature(PROBLEMS[name]).parameters)
    for argument in kwargs:
        if argument not in choices:
            raise ValueError(f"{name} takes no argument {argument!r}; it takes {', '.join(choices)}")
    return PROBLEMS[name](**kwargs)


__all__ = ["PROBLEMS", "Problem", "make"]
