"""1-bit Adam for training: a ``torch.optim.Optimizer`` whose workers exchange their gradients themselves.

Tang et al. 2021 (arXiv 2102.02888), with the conventions of docs/algorithm.md. docs/training.md says how to use it.
"""

from __future__ import annotations

from typing import Never

from torch import Tensor
from torch import distributed as dist
from torch.optim.optimizer import ParamsT

from gpu_impl.optimizer.base import OneBitOptimizer
from gpu_impl.optimizer.numbers import Decision
from gpu_impl.optimizer.settings import DEFAULT_BUCKET_ELEMENTS, DEFAULT_VARIANCE_FLOOR, Settings, refuse_more
from gpu_impl.optimizer.stepping import SteppingOptimizer
from gpu_impl.optimizer.steps import take_step


class OneBitAdamArguments(OneBitOptimizer):
    """Adam that sends one bit a coordinate once its variance is frozen: its arguments.

    Args:
        params: parameters, named parameters or parameter groups, float32, bfloat16 or float16. A group may have
            ``non_freeze=True``: it stays with Adam and full gradients.
        lr: gamma >= 0; a schedule may change ``group["lr"]``, on all workers alike.
        betas: (beta1, beta2), each in [0, 1).
        eps: > 0, added to the root of the variance.
        weight_decay: lambda >= 0, decoupled as in AdamW.
        freeze_step: T_w >= 1, the last warm-up step; or a rule C10, "auto" (every parameter's v has settled) or
            "paper" (as published).
        scale: "l2" or "l1" [C1].
        variance_floor: kappa >= 0 [C7].
        bias_correction: off as published [C5].
        max_grad_norm: clip all workers by one factor, from the root mean square of their norms [C9].
        process_group: the workers that average; None is the default group, or one worker without a group.
        node_group: the workers of this node, joined by fast links: they average gradients in full precision, and the
            nodes exchange one bit a number [C15]. Then ``process_group`` is the workers that have this worker's place
            in all nodes. None: each worker is a node.
        backend: kernels: "auto", "cpu", "triton" or "torch".
        lr_warmup_steps: no rule freezes before this step.
        compress: "momentum" as published, or "update": P m in place of m [C12]. Then m-bar and the errors of the
            state are in units of the update from the freeze on.
        scale_block: B, a multiple of 8: every B elements of a chunk share a scale, at workers and servers [C13]. None:
            one scale a worker and one a chunk, as published.
        frozen_dtype: "bfloat16" rounds P once, at the freeze, and keeps it so: two bytes a parameter less to read
            and to hold [C14]. "float32" as published.
        bucket_elements: elements of a flat buffer. Each has its own scale and chunks; 2**62 makes one of a whole model.

    Attributes:
        run: what it knows.

    Raises:
        ValueError, TypeError: an argument is not of this kind; the message names it.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        *,
        freeze_step: int | str,
        scale: str = "l2",
        variance_floor: float = DEFAULT_VARIANCE_FLOOR,
        bias_correction: bool = False,
        max_grad_norm: float | None = None,
        process_group: dist.ProcessGroup | None = None,
        node_group: dist.ProcessGroup | None = None,
        backend: str = "auto",
        lr_warmup_steps: int = 0,
        bucket_elements: int = DEFAULT_BUCKET_ELEMENTS,
        compress: str = "momentum",
        scale_block: int | None = None,
        frozen_dtype: str = "float32",
        **more: Never,
    ) -> None:
        refuse_more(self, more)
        settings = Settings(
            freeze_step,
            scale,
            variance_floor,
            bias_correction,
            max_grad_norm,
            lr_warmup_steps,
            bucket_elements,
            compress,
            scale_block,
            frozen_dtype,
        )
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, defaults, settings, backend, process_group, node_group)


OneBitAdamArguments.__init__.__qualname__ = "OneBitAdam.__init__"  # what Python says of a missing freeze_step


class OneBitAdam(OneBitAdamArguments, SteppingOptimizer):
    """Adam that sends one bit a coordinate once its variance is frozen.

    It averages gradients over the workers itself: use it on a bare model, without ``DistributedDataParallel``, or with
    one prepared by :func:`gpu_impl.leave_gradients_local`. All workers call :meth:`step` equally often.

    Arguments, attributes and errors as in :class:`gpu_impl.optimizer.one_bit_adam.OneBitAdamArguments`.
    """

    def take_step(self, decision: Decision, unscale: Tensor | None) -> None:
        take_step(self.run, decision, unscale)
