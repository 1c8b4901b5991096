"""1-bit Adam for training: a ``torch.optim.Optimizer`` whose workers exchange their gradients themselves.

Tang et al. 2021 (arXiv 2102.02888), with the conventions of docs/algorithm.md. docs/training.md says how to use it.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.distributed.algorithms.join import Join

from gpu_impl.optimizer.agreement import tell_failure
from gpu_impl.optimizer.base import OneBitOptimizer
from gpu_impl.optimizer.steps import gather, take_step


class OneBitAdam(OneBitOptimizer):
    """Adam that sends one bit a coordinate once its variance is frozen.

    It averages gradients over the workers itself: use it on a bare model, without ``DistributedDataParallel``, or with
    one prepared by :func:`gpu_impl.leave_gradients_local`. All workers call :meth:`step` equally often.

    Arguments, attributes and errors as in :class:`gpu_impl.optimizer.base.OneBitOptimizer`.
    """

    _step_supports_amp_scaling = True  # GradScaler then always calls step(), so that no worker misses a collective

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
        run = self.run
        run.check_whole()
        try:
            self._prepare()
            missing = gather(run)
        except (RuntimeError, TypeError, ValueError) as error:
            tell_failure(run, error)
            raise
        unscale, found_inf = self._loss_scale()
        run.bytes_before = run.collectives.bytes_sent
        run.collectives.where = f" of step {run.calls + 1}"
        decision = self._numbers.decide(run, missing, unscale, found_inf, asks=not self._agreed)
        self._agreed = True
        if unscale is None and found_inf is None:
            self._clipping.check(decision.norms)
        run.calls += 1
        with run:
            take_step(run, decision, unscale)
        for parcel in run.parcels:
            parcel.gradients.let_go()
