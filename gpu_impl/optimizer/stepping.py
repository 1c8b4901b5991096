"""Optimizers that do all in ``step()``: the gradients are looked at, and what the workers do with them is told.

What is done then is the algorithm's own.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable

import torch
from torch import Tensor
from torch.distributed.algorithms.join import Join

from gpu_impl.optimizer.agreement import tell_failure
from gpu_impl.optimizer.base import OneBitOptimizer, left_by_the_compiler
from gpu_impl.optimizer.numbers import Decision
from gpu_impl.optimizer.one_at_a_time import STEP
from gpu_impl.optimizer.steps import gather


class SteppingOptimizer(OneBitOptimizer):
    """Averages gradients over the workers itself, in ``step()``: for a bare model, without DistributedDataParallel.

    Or for one prepared by :func:`gpu_impl.leave_gradients_local`. All workers call :meth:`step` equally often.
    """

    _step_supports_amp_scaling = True  # GradScaler then always calls step(), so that no worker misses a collective

    @left_by_the_compiler
    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Average the gradients over the workers and update the parameters. All workers must call it.

        A parameter that no worker has a gradient for is left alone, with its momentum and its errors. Where only some
        have one, the others' count as 0.

        Args:
            closure: computes the gradients anew and returns the loss.

        Raises:
            WorkersDisagreeError: settings, shapes or parameters differ between workers.
            CollectiveFailedError: another worker died; restart from a checkpoint.
            RuntimeError: there is no process group though ``WORLD_SIZE`` is above 1, gradients were clipped before, or
                an earlier step ended in the middle.
            ValueError: lr, betas, eps or weight decay has a value that is not allowed; nothing has been changed.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        Join.notify_join_context(self)
        self.take_part()
        return loss

    def take_part(self) -> None:
        with self.run.one_at_a_time.during(STEP):
            self.run.check_whole()
            self._take_part()

    def _take_part(self) -> None:
        run = self.run
        try:
            self._prepare()
            missing = gather(run)
            unscale, found_inf = self._loss_scale()
        except (RuntimeError, TypeError, ValueError) as error:
            tell_failure(run, error)
            raise
        run.bytes_before = run.collectives.bytes_sent
        run.collectives.where = f" of step {run.calls + 1}"
        decision = self._numbers.decide(run, missing, unscale, found_inf, asks=not self._agreed)
        self._agreed = True
        if unscale is None and found_inf is None:
            self._clipping.check(decision.norms)
        run.calls += 1
        with run:
            self.take_step(decision, unscale)
        for parcel in run.parcels:
            parcel.gradients.let_go()

    @abstractmethod
    def take_step(self, decision: Decision, unscale: Tensor | None) -> None:
        """Move the parameters by gradients that have been gathered, and count the step; or skip it [C8].

        Args:
            decision: what all workers do.
            unscale: 1/scale of this worker's gradients; None: they are not scaled.
        """
