"""What a probe is: it sees every step of a run, and adds its own columns to every recorded row."""

from __future__ import annotations

from abc import ABC, abstractmethod

from reference.arithmetic import Array
from reference.optimizers import Optimizer
from reference.problems import Problem
from reference.state import State


class Probe(ABC):
    """Built once a run. A probe reads: nothing that it does changes the run.

    Raises:
        ValueError: it needs something that this problem or optimizer does not have.
    """

    def __init__(self, problem: Problem, optimizer: Optimizer) -> None:
        self.problem, self.optimizer = problem, optimizer

    def observe(self, before: State, grads_ND: Array, after: State) -> None:  # noqa: B027 - a probe may need no steps
        """See one applied step: the states around it and the gradients (N, D) that were taken."""

    @abstractmethod
    def row(self, state: State) -> dict[str, float]:
        """The probe's columns after the steps seen so far; always the same names."""
