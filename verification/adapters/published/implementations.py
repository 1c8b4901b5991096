"""The implementations in ``docs/conformance``: what is driven, how, and what was found."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from verification.adapters.published import (
    deepspeed_findings,
    deepspeed_lamb_findings,
    deepspeed_zero_one_findings,
    epfml,
    grace,
)
from verification.adapters.published.deepspeed import PRECISIONS, PYTHON, TRANSPORTS
from verification.adapters.published.findings import Finding
from verification.adapters.published.sources import BYTEPS, DIST_EF_SGDM, ERROR_FEEDBACK_SGD, FOLDER, GRACE, POWERSGD

HERE = "verification/adapters/published"


@dataclass(frozen=True)
class Implementation:
    """One page of the report.

    Attributes:
        package, version: name and release or commit; the files are named after them.
        title: the heading.
        about: how it is driven, and what stands in for what is not here.
        again: the commands that bring it in.
        classes: adapter (``FILE.py:Class``) and the settings that it speaks for.
        settings: name and what a finding's check is given.
        findings: what is particular.
    """

    package: str
    version: str
    title: str
    about: str
    again: str
    classes: Mapping[str, tuple[str, ...]]
    settings: Callable[[], Mapping[str, Any]]
    findings: tuple[Finding, ...] = field(default=())

    @property
    def stem(self) -> str:
        return f"{self.package}-{self.version}"


_EACH_PRECISION = {"": "fp32, nccl", "Fp16": "fp16, nccl", "Bf16": "bf16, nccl", "Compressed": "fp32, compressed"}
"""How an adapter's name ends, and the setting that it is of."""


def _deepspeed() -> Implementation:
    settings = {transport: tuple(f"{p}, {transport}" for p in PRECISIONS) for transport in TRANSPORTS}
    classes = {f"{HERE}/deepspeed.py:DeepSpeedCollective": settings["nccl"]}
    classes[f"{HERE}/deepspeed.py:DeepSpeedCompressedCollective"] = settings["compressed"]
    for name, setting in _EACH_PRECISION.items():
        classes[f"{HERE}/deepspeed.py:DeepSpeedOptimizer{name}"] = (setting,)
    return Implementation(
        package="deepspeed",
        version="0.19.6",
        title="DeepSpeed 0.19.6, `OneBitAdam`",
        about=(
            "The last release that had 1-bit Adam, on two and four gloo processes, each with DeepSpeed's own engine "
            "(`deepspeed.initialize`, `backward`, `step`, `save_checkpoint`, `load_checkpoint`). Its authors verified "
            "convergence in fp16 only, and the engine says so; `nccl` is the default transport, `compressed` is for "
            "XPU. In fp16 and bf16 the engine wraps the optimizer in `FP16_Optimizer`, and much of what is wrong in "
            "fp32 is right there.\n\n"
            "What stands in for a GPU: NumPy's `packbits`, `unpackbits`, `split` and `zeros` under the name of CuPy, "
            "so that `runtime/comm/nccl.py` runs as it is; the two loops of the XPU packer; a scale of shape () is "
            "sent as (1,), for gloo wants equal shapes; and the CPU accelerator's answer that it has no fp16 is "
            "overridden. The loss scale is fixed at 1. The search gives the optimizer sizes that it need not pad, no "
            "bias correction, no variance floor, no clipping and, in fp32, a first step on zeros: what these do are "
            "findings of their own. In fp16 and bf16 only gradients are searched that are numbers of that "
            "precision.\n\nThe findings of first step and resume were seen again with a plain training loop of "
            "`torch.nn.Linear`, without our adapter."
        ),
        again=_deepspeed_again("deepspeed"),
        classes=classes,
        settings=deepspeed_findings.settings,
        findings=deepspeed_findings.FINDINGS,
    )


def _deepspeed_again(package: str) -> str:
    return (
        "python3 -m venv ds && ds/bin/pip install torch && DS_BUILD_OPS=0 ds/bin/pip install deepspeed==0.19.6\n"
        f"{PYTHON}=ds/bin/python python -m verification.adapters.published.conformance {package}"
    )


def _deepspeed_zero_one_adam() -> Implementation:
    return Implementation(
        package="deepspeed-zero-one-adam",
        version="0.19.6",
        title="DeepSpeed 0.19.6, `ZeroOneAdam`",
        about=(
            "0/1 Adam of the last release that had it, driven as its [OneBitAdam](deepspeed-0.19.6.md) is: two and "
            "four gloo processes (one for two of the findings), DeepSpeed's own engine, the same stand-ins for a GPU. "
            "Its authors verified convergence in fp16 only, and the engine says so. In fp16 and bf16 it is wrapped in "
            "`FP16_Optimizer`.\n\n"
            "After the freeze of the variance it is the published algorithm: each worker walks alone, and sends what "
            "it accumulated with one bit and error feedback on both sides. Fifty steps of four workers are judged by "
            "the step relation there, with meetings 1, 2 and 4 steps apart. Before the freeze it is another one, so "
            "`onebit verify` can't search it: a step that refreshes the variance is Adam's, with nothing compressed, "
            "and in the others the gradient is sent with one bit, not the momentum. The collective is the one that "
            "is searched for OneBitAdam.\n\n"
            "That replicas part in the last bits, and for good after a resume, was seen again with a plain training "
            "loop of `torch.nn.Linear` in fp32 and fp16, without our adapter."
        ),
        again=_deepspeed_again("deepspeed-zero-one-adam"),
        classes={},
        settings=deepspeed_zero_one_findings.settings,
        findings=deepspeed_zero_one_findings.FINDINGS,
    )


def _deepspeed_lamb() -> Implementation:
    classes = {f"{HERE}/deepspeed_lamb.py:DeepSpeedLamb{name}": (setting,) for name, setting in _EACH_PRECISION.items()}
    return Implementation(
        package="deepspeed-one-bit-lamb",
        version="0.19.6",
        title="DeepSpeed 0.19.6, `OneBitLamb`",
        about=(
            "1-bit LAMB of the last release that had it, driven as its [OneBitAdam](deepspeed-0.19.6.md) is: two and "
            "four gloo processes, DeepSpeed's own engine, the same stand-ins for a GPU. Its authors verified "
            "convergence in fp16 only, and the engine says so. In fp16 and bf16 it is wrapped in "
            "`FP16_UnfusedOptimizer`, which keeps a float32 copy of each parameter: a layer is a layer in every "
            "precision, and the momenta of all are one buffer. In fp16 the engine insists on a dynamic loss scale; it "
            "is set to 1 here.\n\n"
            "The search gives it sizes that it need not pad, no bias correction, no variance floor, no weight decay, "
            "no clipping and, in fp32, a first step on zeros. A case is left out where a coordinate has no variance at "
            "the freeze, or a layer no momentum, and in fp32 and bf16 where a gradient is not finite. In fp16 and "
            "bf16 only gradients are searched that are numbers of that precision. What these do are findings of their "
            "own. The scale of a layer, which its first compressed step computes, is computed by the same formula "
            "where the freeze is reported; the next step must have the same. The collective is the one that is "
            "searched for OneBitAdam.\n\n"
            "That replicas part after a resume in fp32, and not in fp16, was seen again with a plain training loop of "
            "`torch.nn.Linear`, without our adapter."
        ),
        again=_deepspeed_again("deepspeed-one-bit-lamb"),
        classes=classes,
        settings=deepspeed_lamb_findings.settings,
        findings=deepspeed_lamb_findings.FINDINGS,
    )


def _again(package: str, *how: str) -> str:
    return "\n".join([f"export {FOLDER}=sources && mkdir -p $" + FOLDER, *how]) + (
        f"\npython -m verification.adapters.published.conformance {package}"
    )


IMPLEMENTATIONS = (
    _deepspeed(),
    _deepspeed_zero_one_adam(),
    _deepspeed_lamb(),
    Implementation(
        package="grace",
        version=GRACE.commit[:7],
        title="GRACE: 1-bit SGD and EF-signSGD",
        about=(
            "`OneBitCompressor` with `ResidualMemory`, and `EFSignSGDCompressor` with its memory, in both PyTorch "
            "packages of the repository, `grace_dl.torch` (Horovod) and `grace_dl.dist` (torch.distributed), on one, "
            "two and four gloo processes. Horovod's all-gather is replaced by gloo's. A worker's message goes to all "
            "workers, so there is no server and no server error. EF-signSGD is searched at lr 1, its sum divided by N."
        ),
        again=_again("grace", GRACE.how),
        classes={
            f"{HERE}/grace.py:GraceOneBit": ("grace_dl.torch, 1-bit SGD",),
            f"{HERE}/grace.py:GraceDistOneBit": ("grace_dl.dist, 1-bit SGD",),
            f"{HERE}/grace.py:GraceEFSignSGD": ("grace_dl.torch, EF-signSGD",),
            f"{HERE}/grace.py:GraceDistEFSignSGD": ("grace_dl.dist, EF-signSGD",),
        },
        settings=grace.settings,
        findings=grace.FINDINGS,
    ),
    Implementation(
        package="byteps",
        version=BYTEPS.commit[:7],
        title="BytePS: onebit with error feedback at workers and servers",
        about=(
            "The C++ compressor `onebit` with scaling inside `vanilla_ef`, compiled with BytePS' own sources as for "
            "its server (no CUDA, no NCCL); messages are carried by the adapter in place of ps-lite. The server adds "
            "up and a worker divides by N, so N is a power of two. Its buffers are aligned to 128 bytes by BytePS "
            "itself, and here. A worker's decompression in place is another branch of the same function; it was "
            "read, not run."
        ),
        again=_again("byteps", BYTEPS.how),
        classes={f"{HERE}/byteps.py:BytePSOneBit": ("onebit",)},
        settings=dict,
    ),
    Implementation(
        package="epfml",
        version=f"{ERROR_FEEDBACK_SGD.commit[:7]}-{POWERSGD.commit[:7]}",
        title="epfml: the scaled sign",
        about=(
            "`ErrorFeedbackSGD` of epfml/error-feedback-SGD (one worker, at lr 1 from parameters 0) and "
            "`SignAndNormReducer` of epfml/powersgd with the memory of its train.py (one, two and four gloo "
            "processes). The extension `bit2byte` that packs the signs on a GPU is replaced by its shifts and masks "
            "in torch. Neither has a server error."
        ),
        again=_again("epfml", ERROR_FEEDBACK_SGD.how, POWERSGD.how),
        classes={
            f"{HERE}/epfml.py:ErrorFeedbackSGD": ("error-feedback-SGD",),
            f"{HERE}/epfml.py:SignAndNorm": ("powersgd, SignAndNormReducer",),
        },
        settings=epfml.settings,
        findings=epfml.FINDINGS,
    ),
    Implementation(
        package="dist-ef-sgdm",
        version=DIST_EF_SGDM.commit[:7],
        title="dist-EF-blockSGDM",
        about=(
            "The authors' PyTorch optimizer `SGD_distribute` (imagenet/Signum_SGD.py), on two and four gloo "
            "processes, each a node, the server on rank 0, at lr 1 without momentum. The whole buffer is one bucket "
            "(50 MB there). `Tensor.cuda` returns the tensor, and `bit2byte` is replaced by its shifts and masks in "
            "torch."
        ),
        again=_again("dist-ef-sgdm", DIST_EF_SGDM.how),
        classes={f"{HERE}/dist_ef_sgdm.py:DistEFSGDM": ("SGD_distribute",)},
        settings=dict,
    ),
)
