"""``onebit bench kernels``: time of every kernel beside its byte floor and beside its peers, in one run."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.console import Console
from rich.table import Column, Table

from gpu_impl.benchmarks.form import CompressOption, Form, FrozenDtypeOption, ScaleBlockOption
from gpu_impl.benchmarks.measure import Row, measure
from gpu_impl.benchmarks.roofline import draw_roofline
from gpu_impl.benchmarks.rungs import RUNGS
from gpu_impl.benchmarks.timing import environment
from onebit_files import writable_file, write_atomically

GRAD_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
DEFAULT_LOG2_DIMS = {"cpu": [16, 20, 24], "cuda": [20, 24, 26, 28]}
CSV_ENVIRONMENT = ("date", "device", "torch", "triton")


def kernels(
    device: Annotated[str, typer.Option(metavar="auto|cpu|cuda", help="auto: cuda where there is one.")] = "auto",
    log2_dim: Annotated[list[int] | None, typer.Option(help="D = 2^this, 10 to 28; repeat for several.")] = None,
    workers: Annotated[list[int] | None, typer.Option(help="N; repeat for several. Default 8.")] = None,
    backend: Annotated[list[str] | None, typer.Option(help="Backend; repeat for several. Default: all here.")] = None,
    grad: Annotated[str, typer.Option(metavar="float32|bfloat16|float16", help="Gradient dtype.")] = "float32",
    rounds: Annotated[int, typer.Option(min=1, help="Timed rounds; the median counts.")] = 9,
    compress: CompressOption = "momentum",
    scale_block: ScaleBlockOption = None,
    frozen_dtype: FrozenDtypeOption = "float32",
    peers: Annotated[bool, typer.Option(help="Time torch's Adam and DeepSpeed beside.")] = True,
    cpu_time: Annotated[
        bool, typer.Option("--cpu-time", help="Count CPU time, on one thread: for a machine that others use too.")
    ] = False,
    json_file: Annotated[
        Path | None, typer.Option("--json", callback=writable_file, help="Write everything to this file.")
    ] = None,
    csv_file: Annotated[
        Path | None, typer.Option("--csv", callback=writable_file, help="Write the rows to this file.")
    ] = None,
    picture: Annotated[
        Path | None, typer.Option(callback=writable_file, help="Draw the roofline to this file (.png, .svg, .pdf).")
    ] = None,
) -> None:
    """Time each kernel and the whole step against the byte floor, at the in-place bandwidth of this run."""
    where = _device(device)
    dims = [2**k for k in log2_dim or DEFAULT_LOG2_DIMS[where.type]]
    if not all(2**10 <= dim <= 2**28 for dim in dims):
        raise typer.BadParameter(f"--log2-dim must lie in 10..28, got {log2_dim}")
    n_list = workers or [8]
    if min(n_list) < 1:
        raise typer.BadParameter(f"--workers must be at least 1, got {min(n_list)}")
    if grad not in GRAD_DTYPES:
        raise typer.BadParameter(f"--grad must be one of {', '.join(GRAD_DTYPES)}; got {grad!r}")
    names, form = _backends(backend, where), Form.from_options(compress, scale_block, frozen_dtype)
    if cpu_time:
        torch.set_num_threads(1)

    console, facts, rows, missing = Console(), environment(where), list[Row](), list[dict[str, object]]()
    console.print(f"{facts['device']}, {facts['threads']} CPU threads, torch {facts['torch']}", highlight=False)
    for dim, n in product(dims, n_list):
        try:
            with console.status(f"D = {dim:,}, N = {n}"):
                options = {"grad_dtype": GRAD_DTYPES[grad], "rounds": rounds, "peers": peers, "cpu_time": cpu_time}
                new, absent = measure(dim, n, names, where, form=form, **options)
        except MemoryError as error:
            console.print(f"D = {dim:,}, N = {n} {error}", highlight=False)
            continue
        console.print(table_of(new, form))
        for name, reason in absent.items():
            console.print(f"{name.replace('/', ', ')}: {reason}", highlight=False)
        rows += new
        missing += [{"dim": dim, "n_workers": n, "row": name, "reason": why} for name, why in absent.items()]
        if json_file:  # after each, so that an interrupted run keeps what it has
            record = {"environment": facts, "rows": [row.as_dict() for row in rows], "missing": missing}
            write_atomically(json_file, json.dumps(record, indent=1))
        if csv_file:
            write_atomically(csv_file, csv_of(rows, facts))
    if not rows:
        raise typer.BadParameter("--log2-dim: none of these sizes fits into the free memory")
    if picture:
        try:
            draw_roofline(rows, picture, f"{facts['device']}, {facts['date'][:10]}")
        except (ImportError, ValueError) as error:
            raise typer.BadParameter(f"--picture: {error}") from None


def table_of(rows: Sequence[Row], form: Form) -> Table:
    """One D and one N on screen."""
    base = next(row for row in rows if row.kernel == "scale_in_place")
    title = f"D = {base.dim:,}, N = {base.n_workers}; {form}; in place {base.gigabytes_per_second:.1f} GB/s"
    columns = ("backend", "time", "floor B/element", "spent B/element", "ratio")
    table = Table(Column("kernel", min_width=14), *columns, title=title)
    for row in rows:
        table.add_row(
            row.kernel,
            row.backend,
            f"{row.seconds * 1e3:.3f} ms",
            f"{row.floor_bytes:.2f}",
            f"{row.spent_bytes:.1f}",
            f"{row.ratio:.2f}",
        )
    return table


def csv_of(rows: Sequence[Row], facts: dict[str, str]) -> str:
    """Tidy table: one measurement a line, with date, device and versions in each."""
    text = io.StringIO()
    records = [{**{key: facts[key] for key in CSV_ENVIRONMENT}, **row.as_dict()} for row in rows]
    writer = csv.DictWriter(text, fieldnames=list(records[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return text.getvalue()


def _device(name: str) -> torch.device:
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name not in DEFAULT_LOG2_DIMS:
        raise typer.BadParameter(f"--device must be cpu, cuda or auto, got {name!r}")
    if name == "cuda" and not torch.cuda.is_available():
        raise typer.BadParameter("--device cuda: torch sees no CUDA device here")
    return torch.device(name)


def _backends(names: list[str] | None, device: torch.device) -> list[str]:
    fitting = {"cpu": ["cpu", "torch"], "cuda": ["triton", "triton-v1", "torch"]}[device.type]
    if find_spec("triton") is None:
        fitting = [name for name in fitting if not name.startswith("triton")]
    for name in names or []:
        if name not in RUNGS:
            raise typer.BadParameter(f"--backend must be one of {', '.join(RUNGS)}; got {name!r}")
        if name not in fitting:
            raise typer.BadParameter(f"--backend {name} can't be timed on {device.type}; here run {', '.join(fitting)}")
    return names or fitting
