"""``onebit doctor``: what this machine has, and what is left out for want of what it has not.

A module of its own at the top, because it must speak where torch is missing, and ``import gpu_impl`` needs torch.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from onebit_files import writable_file, write_atomically

HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")
BROWSERS = ("chromium", "chromium-browser", "google-chrome")

PACKAGES = (
    ("scikit-learn", "experiments", "the digits and breast cancer problems: their figures and tests can't run"),
    ("joblib", "experiments", "runs in parallel, and verification: `onebit figures`, `verify` and `mutants` stop"),
    ("pandas", "experiments", "tables of runs: `onebit figures` stops"),
    ("matplotlib", "experiments", "pictures: `onebit figures`, `--picture` and the examples' curves"),
    ("hypothesis", "verify", "`verification.strategies`, cases for property-based tests of your own"),
    ("distributed", "cluster", "`onebit figures --scheduler` (Dask); runs stay on this machine"),
    ("transformers", "trainers", "`gpu_impl.trainers` for Hugging Face's Trainer, and its tests"),
    ("accelerate", "trainers", "`gpu_impl.trainers` for Accelerate, and its tests"),
    ("lightning", "trainers", "`gpu_impl.trainers` for Lightning, and its tests"),
    ("PEPit", "pep", "an independent check of some worst cases, which `onebit prove` and the tests then skip"),
)
"""Distribution, extra, and what is left out without it."""


@dataclass(frozen=True)
class Finding:
    """One thing that the project can use.

    Attributes:
        name: the thing.
        found: what there is of it, or None.
        without: what is left out where it is missing, and why.
        remedy: how to get it.
    """

    name: str
    found: str | None
    without: str = ""
    remedy: str = ""


def doctor(
    json_file: Annotated[
        Path | None, typer.Option("--json", callback=writable_file, help="Write the findings to this file.")
    ] = None,
) -> None:
    """Say what this machine has, and for what it lacks: what is skipped without it, why, and how to get it."""
    findings = examine()
    console = Console()
    console.print(table_of(findings))
    missing = [finding for finding in findings if finding.found is None]
    for finding in missing:
        console.print(f"[bold]{finding.name}[/]: without it {finding.without}. {finding.remedy}", highlight=False)
    if not missing:
        console.print("Nothing is missing.")
    if json_file:
        write_atomically(json_file, json.dumps([asdict(finding) for finding in findings], indent=1) + "\n")


def examine() -> list[Finding]:
    """Look at everything; changes nothing but the cache of compiled kernels. Takes seconds, most of them torch's."""
    return [
        Finding("Python", f"{platform.python_version()}, {sys.executable}"),
        *machine(),
        *torch_and_devices(),
        *(package(*row) for row in PACKAGES),
        coq(),
        deepspeed(),
        browser(),
        network_lab(),
    ]


def table_of(findings: Sequence[Finding]) -> Table:
    """One line a thing."""
    table = Table("", "thing", "here")
    for finding in findings:
        mark = "[green]yes[/]" if finding.found else "[yellow]no[/]"
        table.add_row(mark, finding.name, finding.found or "")
    return table


def machine() -> list[Finding]:
    """Cores, memory, huge pages."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    found = [Finding("cores", f"{usable} for this process, {os.cpu_count()} in the machine")]
    try:
        memory = f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB"
    except (AttributeError, ValueError):  # not POSIX
        memory = "not known on this system"
    found.append(Finding("memory", memory))
    try:
        text = HUGE_PAGES.read_text(encoding="ascii")
        setting = text[text.index("[") + 1 : text.index("]")]
    except (OSError, ValueError):
        setting = "never"
    return [
        *found,
        Finding(
            "huge pages",
            {"always": "always", "madvise": "on request, and the flat buffers ask"}.get(setting),
            "large flat buffers lie on 4 KiB pages: the CPU kernels are slower, nothing is skipped",
            f"On Linux, as administrator: echo madvise > {HUGE_PAGES}",
        ),
    ]


def torch_and_devices() -> list[Finding]:
    """Torch, the C compiler, CUDA, Triton, gloo and NCCL: what ``gpu_impl`` can use."""
    compiler = Finding(
        "C compiler",
        next((path for name in (os.environ.get("CC", "cc"), "gcc", "clang") if (path := shutil.which(name))), None),
        "there is no backend 'cpu': training on CPUs takes the slow backend 'torch', the tests of the C kernels fail",
        "Install gcc or clang (Debian: apt-get install gcc), or set CC.",
    )
    try:
        import torch  # noqa: PLC0415 - seconds, and an extra
    except (ImportError, OSError) as error:
        return [Finding("torch", None, f"nothing of gpu_impl runs ({error})", install("torch")), compiler]
    return [
        Finding("torch", torch.__version__),
        kernels(compiler),
        cuda(),
        triton(),
        *process_groups(),
    ]


def kernels(compiler: Finding) -> Finding:
    """Whether the C kernels compile and load, which says more than a compiler's name."""
    from gpu_impl.kernels.cpu import build  # noqa: PLC0415 - needs torch

    try:
        build.library()
    except build.BackendUnavailableError as error:
        return Finding(compiler.name, None, f"{compiler.without} ({error})", compiler.remedy)
    return Finding(compiler.name, f"{compiler.found or 'not here now'}; the kernels are compiled and load")


def cuda() -> Finding:
    """CUDA devices that torch sees."""
    import torch  # noqa: PLC0415

    names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    reason = "this torch is built without CUDA" if torch.version.cuda is None else "torch sees no CUDA device"
    return Finding(
        "CUDA",
        ", ".join(names) or None,
        f"`make gpu-check` and the GPU benchmark do nothing, Triton is only interpreted, NCCL is not used: {reason}",
        "It needs an NVIDIA GPU with its driver, and a torch built for CUDA.",
    )


def triton() -> Finding:
    """Triton, on a device or interpreted."""
    import torch  # noqa: PLC0415

    number = version_of("triton")
    how = "on the GPU" if torch.cuda.is_available() else "interpreted, in tests only, for there is no CUDA device"
    return Finding(
        "Triton",
        f"{number}, {how}" if number else None,
        "backends 'triton' and 'triton-v1' don't exist and their tests are skipped",
        "On Linux: pip install triton; a torch built for CUDA brings it.",
    )


def process_groups() -> list[Finding]:
    """The libraries that carry messages between processes."""
    from torch import distributed  # noqa: PLC0415

    has = distributed.is_available()
    return [
        Finding(
            "gloo",
            "in this torch" if has and distributed.is_gloo_available() else None,
            "training on several CPU processes, its tests and its examples can't run",
            "It needs a torch built with gloo; the wheels on the package index are.",
        ),
        Finding(
            "NCCL",
            "in this torch" if has and distributed.is_nccl_available() else None,
            "training on several GPUs can't run",
            "It needs Linux and a torch built for CUDA.",
        ),
    ]


def version_of(distribution: str) -> str | None:
    """Installed version of a package, without importing it."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def package(distribution: str, extra: str, without: str) -> Finding:
    """A Python package that an extra of this one brings."""
    return Finding(distribution, version_of(distribution), f"these are missing: {without}", install(extra))


def install(extra: str) -> str:
    """The command that brings an extra."""
    return f"pip install 'onebit-adam[{extra}]'"


def deepspeed() -> Finding:
    """The last DeepSpeed that had 1-bit Adam, in a Python of its own."""
    python = os.environ.get("ONEBIT_DEEPSPEED_PYTHON", sys.executable)
    code = "from importlib.metadata import version; print(version('deepspeed'))"
    try:
        done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False, timeout=60)
        number = done.stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        number = ""
    return Finding(
        "DeepSpeed 0.19.6",
        f"in {python}" if number == "0.19.6" else None,
        f"docs/conformance can't be made anew; nothing else needs it ({python} has {number or 'none'})",
        "In a virtual environment of its own: pip install deepspeed==0.19.6; then set ONEBIT_DEEPSPEED_PYTHON to it.",
    )


def coq() -> Finding:
    """The proof assistant that checks the kernel-checked theorems, and the libraries that their proofs use."""
    from theory.kernel import coq_version  # noqa: PLC0415 - imports SymPy, and this module is imported for --help

    number = coq_version()
    return Finding(
        "Coq",
        f"{number}" if number else None,
        "`onebit prove --kernel` stops; `onebit prove` goes by the committed record of the last check",
        "Debian: apt-get install coq libcoq-flocq libcoq-coquelicot libcoq-interval libcoq-mathcomp.",
    )


def network_lab() -> Finding:
    """What ``onebit netlab`` needs for its slow links."""
    absent = [tool for tool in ("ip", "tc") if shutil.which(tool) is None]
    lacks = [*(["root"] if not hasattr(os, "geteuid") or os.geteuid() else []), *absent]
    return Finding(
        "root and iproute2",
        None if lacks else "both",
        f"`onebit netlab` stops, and its tests are skipped: there is no {' and no '.join(lacks)}",
        "On Linux, as administrator (in a container with NET_ADMIN); Debian: apt-get install iproute2.",
    )


def browser() -> Finding:
    """A browser without a window, which the test of the HTML report drives."""
    return Finding(
        "Chromium",
        next((path for name in BROWSERS if (path := shutil.which(name))), None),
        "the test that opens the HTML report in a browser is skipped",
        "Debian: apt-get install chromium.",
    )
