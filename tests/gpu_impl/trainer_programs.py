"""Programs of users of trainers, run by torchrun: each trains, saves, may kill itself, and prints a digest at the end.

torchrun --nproc-per-node 2 trainer_programs.py NAME FOLDER KILL_AT
"""

from __future__ import annotations

import os
import signal
import sys
import warnings
import zlib
from pathlib import Path

import torch
from torch import distributed as dist
from torch import nn

from gpu_impl import OneBitAdam

warnings.simplefilter("ignore")
torch.set_num_threads(1)
STEPS, EVERY, FREEZE_STEP = 12, 3, 4
HYPER = {"lr": 1e-2, "freeze_step": FREEZE_STEP, "weight_decay": 0.01, "max_grad_norm": 1.0}
FOLDER, KILL_AT = Path(sys.argv[2]), int(sys.argv[3])


def die(step, rank=1):
    """A rank ends at this step, if it was asked to; rank 0 in the save of a step whose negative number was given."""
    if step == KILL_AT and int(os.environ["RANK"]) == rank:
        os.kill(os.getpid(), signal.SIGKILL)


def data():
    generator = torch.Generator().manual_seed(3)
    return torch.randn(96, 6, generator=generator), torch.randn(96, 2, generator=generator)


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 2))


def finish(model, optimizer):
    """All of this worker's state in one number, of all workers on one line."""
    inner = getattr(optimizer, "optimizer", optimizer)
    parts = [p.detach() for p in model.parameters()]
    for one in OneBitAdam.state_dict(inner)["state"].values():
        rank = dist.get_rank()
        own = ("exp_avg", "exp_avg_sq", f"worker_error_of_{rank}", f"server_error_of_{rank}")
        parts += [one[name] for name in own]
    digest = zlib.crc32(b"".join(part.contiguous().numpy().tobytes() for part in parts))
    digests = [None] * dist.get_world_size()
    dist.all_gather_object(digests, (digest, inner.steps, str(inner.phase)))
    if dist.get_rank() == 0:
        sys.stdout.write(f"END {digests}\n")
        sys.stdout.flush()


def hugging_face():
    from transformers import PretrainedConfig, PreTrainedModel, Trainer, TrainerCallback, TrainingArguments
    from transformers.trainer_utils import get_last_checkpoint

    from gpu_impl.trainers.hugging_face import OneBitAdamCallback

    class Tiny(PreTrainedModel):
        config_class = PretrainedConfig

        def __init__(self, config):
            super().__init__(config)
            self.net = network()
            self.post_init()

        def _init_weights(self, module):
            pass

        def forward(self, x=None, labels=None):
            out = self.net(x)
            return {"loss": (out - labels).square().mean(), "logits": out}

    class Killer(TrainerCallback):
        def on_step_end(self, args, state, control, **kwargs):
            die(state.global_step)

        def on_save(self, args, state, control, **kwargs):
            die(-state.global_step, rank=0)

    class Asker(TrainerCallback):
        def on_step_end(self, args, state, control, **kwargs):
            control.should_save |= state.global_step == 5

    model = Tiny(PretrainedConfig())
    optimizer = OneBitAdam(model.parameters(), **HYPER)
    arguments = TrainingArguments(
        str(FOLDER), max_steps=STEPS, save_steps=EVERY, save_total_limit=1, per_device_train_batch_size=4,
        max_grad_norm=0, use_cpu=True,
        report_to=[], disable_tqdm=True, logging_strategy="no", seed=1, lr_scheduler_type="constant",
        ddp_find_unused_parameters=False, dataloader_pin_memory=False,
    )  # fmt: skip
    x, y = data()
    rows = [{"x": a, "labels": b} for a, b in zip(x, y, strict=True)]
    trainer = Trainer(
        model,
        arguments,
        train_dataset=rows,
        optimizers=(optimizer, None),
        callbacks=[Killer(), OneBitAdamCallback(), Asker()],
    )
    trainer.train(resume_from_checkpoint=get_last_checkpoint(str(FOLDER)) if FOLDER.exists() else None)
    finish(model, optimizer)


def accelerate():
    from accelerate import Accelerator
    from torch.utils.data import DataLoader, TensorDataset

    from gpu_impl.trainers.accelerate import prepare

    accelerator = Accelerator(cpu=True)
    model = network()
    optimizer = OneBitAdam(model.parameters(), **HYPER)
    loader = DataLoader(TensorDataset(*data()), batch_size=4)
    wrapped, prepared, loader = prepare(accelerator, model, optimizer, loader)
    first = 0
    saves = sorted(FOLDER.glob("step-*"), key=lambda path: int(path.name[5:]))
    if saves:
        accelerator.load_state(str(saves[-1]))
        first = int(saves[-1].name[5:])
    batches = list(loader)
    for step in range(first + 1, STEPS + 1):
        x, y = batches[step % len(batches)]
        prepared.zero_grad()
        accelerator.backward((wrapped(x) - y).square().mean())
        prepared.step()
        if step % EVERY == 0:
            accelerator.save_state(str(FOLDER / f"step-{step}"))
        die(step)
    finish(model, prepared)


def lightning():
    import lightning.pytorch as pl
    from lightning.pytorch.callbacks import Callback, ModelCheckpoint
    from torch.utils.data import DataLoader, TensorDataset

    from gpu_impl.trainers.lightning import OneBitStrategy

    class Tiny(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = network()

        def training_step(self, *_):
            """By the step, for Lightning begins an epoch's data anew when it resumes in the middle of one."""
            x, y = data()
            rows = torch.arange(4) + 4 * ((2 * self.trainer.global_step + self.trainer.global_rank) % 24)
            return (self.net(x[rows]) - y[rows]).square().mean()

        def configure_optimizers(self):
            return OneBitAdam(self.parameters(), **HYPER)

    class Killer(Callback):
        def on_train_batch_end(self, trainer, *_):
            die(trainer.global_step)

    saver = ModelCheckpoint(FOLDER, filename="{step}", every_n_train_steps=EVERY, save_top_k=-1)
    trainer = pl.Trainer(
        strategy=OneBitStrategy(process_group_backend="gloo"), accelerator="cpu", devices=2, max_steps=STEPS,
        callbacks=[saver, Killer()], logger=False, enable_progress_bar=False, enable_model_summary=False,
        use_distributed_sampler=True,
    )  # fmt: skip
    module = Tiny()
    saves = sorted(FOLDER.glob("*.ckpt"), key=lambda path: int(path.stem.removeprefix("step=")))
    loader = DataLoader(TensorDataset(*data()), batch_size=4)
    trainer.fit(module, loader, ckpt_path=saves[-1] if saves else None)
    finish(module, trainer.optimizers[0])


def fsdp2():
    """Plain FSDP2 with torch.distributed.checkpoint, as torchtitan does it: one shard, two replicas."""
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict, set_state_dict
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (2, 1), mesh_dim_names=("replicate", "shard"))
    model = network()
    fully_shard(model, mesh=mesh["shard"])
    optimizer = OneBitAdam(model.parameters(), **HYPER, process_group=mesh["replicate"].get_group())
    options, first = StateDictOptions(flatten_optimizer_state_dict=True), 0
    saves = sorted((path.parent for path in FOLDER.glob("step-*/.metadata")), key=lambda path: int(path.name[5:]))
    if saves:
        weights, state = get_state_dict(model, optimizer, options=options)
        dcp.load({"model": weights, "optimizer": state}, checkpoint_id=saves[-1])
        set_state_dict(model, optimizer, model_state_dict=weights, optim_state_dict=state, options=options)
        first = int(saves[-1].name[5:])
    x, y = data()
    for step in range(first + 1, STEPS + 1):
        rows = torch.arange(4) + 4 * ((2 * step + dist.get_rank()) % 24)
        optimizer.zero_grad()
        (model(x[rows]) - y[rows]).square().mean().backward()
        optimizer.step()
        if step % EVERY == 0:
            weights, state = get_state_dict(model, optimizer, options=options)
            dcp.save({"model": weights, "optimizer": state}, checkpoint_id=FOLDER / f"step-{step}")
        die(step)
    shards = [p.to_local() for p in model.parameters()]
    state = {
        k: {n: v.to_local() if hasattr(v, "to_local") else v for n, v in one.items()}
        for k, one in optimizer.state_dict()["state"].items()
    }
    OneBitAdam.state_dict = lambda _: {"state": state}
    finish(type("Shards", (), {"parameters": lambda self: shards})(), optimizer)


if __name__ == "__main__":
    {"hugging_face": hugging_face, "accelerate": accelerate, "lightning": lightning, "fsdp2": fsdp2}[sys.argv[1]]()
