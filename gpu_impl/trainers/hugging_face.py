"""Hugging Face's Trainer: a callback that leaves gradients local and saves every worker's errors.

    optimizer = OneBitAdam(model.parameters(), lr=1e-4, freeze_step=1000, max_grad_norm=1.0)
    arguments = TrainingArguments(..., max_grad_norm=0)  # the optimizer clips, all workers by one factor
    trainer = Trainer(model, arguments, optimizers=(optimizer, None), callbacks=[OneBitAdamCallback()])
    trainer.train(resume_from_checkpoint=...)

The Trainer wraps the model into DistributedDataParallel, which would average gradients in full precision, and writes
rank 0's ``optimizer.pt``. The callback sees to both. A checkpoint is complete when the callback has written that file
anew; if a process is killed in between, loading it is refused with a sentence, and the one before is the last good one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from gpu_impl.checkpoints.full_disk import told_if_full
from gpu_impl.checkpoints.gathered import gathered_state_dict
from gpu_impl.optimizer.ddp import leave_all_gradients_local
from gpu_impl.optimizer.stepping import SteppingOptimizer
from gpu_impl.trainers.processes import check_processes
from onebit_files import replacing

OPTIMIZER_FILE = "optimizer.pt"
"""The Trainer's."""


class OneBitAdamCallback(TrainerCallback):
    """See the module's docstring."""

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Leave the gradients local.

        Raises:
            ValueError: the Trainer would clip the gradients of each worker by its own norm.
            RuntimeError: it counts other processes than there are, so that they would train on the same rows.
        """
        check_processes("the Trainer", args.world_size, "add use_cpu=True to TrainingArguments")
        if args.max_grad_norm:
            raise ValueError(
                f"TrainingArguments has max_grad_norm={args.max_grad_norm}: each worker would clip its own gradient; "
                "set it to 0, and give max_grad_norm to OneBitAdam"
            )
        leave_all_gradients_local(_ours(kwargs["optimizer"]))

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Put every worker's errors into the optimizer's file."""
        saved = gathered_state_dict(_ours(kwargs["optimizer"]))
        if args.should_save:
            assert args.output_dir is not None
            file = Path(args.output_dir) / f"checkpoint-{state.global_step}" / OPTIMIZER_FILE
            tensors = [value for one in saved["state"].values() for value in one.values() if torch.is_tensor(value)]
            with replacing(file) as part, told_if_full(file.parent, tensors):
                torch.save(saved, part)


def _ours(optimizer: Any) -> SteppingOptimizer:
    """The optimizer inside Accelerate's wrapper.

    Raises:
        TypeError: the Trainer has another one, or one for DDP's hook, which the Trainer can't attach.
    """
    inner = getattr(optimizer, "optimizer", optimizer)
    if not isinstance(inner, SteppingOptimizer):
        raise TypeError(
            f"OneBitAdamCallback is for OneBitAdam, got {type(inner).__name__}: pass one by "
            "optimizers=(optimizer, None)"
        )
    return inner
