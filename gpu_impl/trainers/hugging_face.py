"""Hugging Face's Trainer: a callback that leaves gradients local and saves every worker's errors.

    optimizer = OneBitAdam(model.parameters(), lr=1e-4, freeze_step=1000, max_grad_norm=1.0)
    arguments = TrainingArguments(..., max_grad_norm=0)  # the optimizer clips, all workers by one factor
    trainer = Trainer(model, arguments, optimizers=(optimizer, None), callbacks=[OneBitAdamCallback()])
    trainer.train(resume_from_checkpoint=...)

The Trainer wraps the model into DistributedDataParallel, which would average gradients in full precision, and rank 0
writes ``optimizer.pt`` alone. The callback sees to both. Before a save it gathers the states of all workers, so that
the Trainer's own file is whole before the Trainer deletes an older checkpoint. Where a save could not be foreseen (a
callback behind this one asked for it) the file is written anew after it: until then the checkpoint before is the last
good one, so keep two (``save_total_limit=2``).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch.utils.hooks import RemovableHandle
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer_utils import SaveStrategy

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

    def __init__(self) -> None:
        self._gathered: dict[str, Any] | None = None
        self._gathered_at = 0  # steps asked for until then
        self._hook: RemovableHandle | None = None

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
        optimizer = _ours(kwargs["optimizer"])
        leave_all_gradients_local(optimizer)
        self._end()
        self._hook = optimizer.register_state_dict_post_hook(self._known)

    def _known(self, optimizer: Any, own: dict[str, Any]) -> dict[str, Any]:
        """The gathered state, if no step was taken since."""
        return own if self._gathered is None or self._gathered_at != optimizer.run.calls else self._gathered

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Gather the states where the Trainer is going to save."""
        if control.should_save and not args.save_only_model:
            self._gather(kwargs["optimizer"])

    on_epoch_end = on_step_end

    def on_evaluate(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """The same where what was evaluated decides about it."""
        if args.save_strategy == SaveStrategy.BEST and not args.save_only_model:
            self._gather(kwargs["optimizer"])

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Put every worker's errors into the optimizer's file, if they are not there yet."""
        optimizer = _ours(kwargs["optimizer"])
        is_whole = self._gathered is not None and self._gathered_at == optimizer.run.calls
        if not (is_whole or args.save_only_model):
            saved = self._gather(optimizer)
            if args.should_save:
                assert args.output_dir is not None
                file = Path(args.output_dir) / f"checkpoint-{state.global_step}" / OPTIMIZER_FILE
                tensors = [value for one in saved["state"].values() for value in one.values() if torch.is_tensor(value)]
                with replacing(file) as part, told_if_full(file.parent, tensors):
                    torch.save(saved, part)
        self._gathered = None

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Let the optimizer go."""
        self._end()

    def _gather(self, optimizer: Any) -> dict[str, Any]:
        inner = _ours(optimizer)
        self._gathered = None
        self._gathered = gathered_state_dict(inner)
        self._gathered_at = inner.run.calls
        return self._gathered

    def _end(self) -> None:
        if self._hook is not None:
            self._hook.remove()
        self._gathered, self._hook = None, None


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
