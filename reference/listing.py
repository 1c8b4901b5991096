"""``onebit list``: the optimizers of the reference, where they are from, and what they put on the wire."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from onebit_files import writable_file, write_atomically
from reference.optimizers import OPTIMIZERS, SOURCES, make


@dataclass(frozen=True)
class Entry:
    """One optimizer with its default settings, on random gradients: counted, not computed from a formula.

    Attributes:
        name: key of ``OPTIMIZERS``.
        source: paper.
        bytes_per_step: bytes that a worker sends in a step, the mean over workers and steps.
        rounds_per_step: exchanges in a step, in each of which all workers wait; the mean over steps.
        share_of_dense: bytes over those of an uncompressed all-reduce in every step.
    """

    name: str
    source: str
    bytes_per_step: float
    rounds_per_step: float
    share_of_dense: float


def count(name: str, n_workers: int, dim: int, steps: int) -> Entry:
    """Run the optimizer called ``name`` for ``steps`` steps, of which a warm-up gets an eighth, and count."""
    settings = {"freeze_step": max(1, steps // 8)} if "freeze_step" in settings_of(name) else {}
    optimizer, rng = make(name, lr=1e-3, **settings), np.random.default_rng(0)
    state = optimizer.init(rng.standard_normal(dim).astype(np.float32), n_workers)
    for _ in range(steps):
        state = optimizer.step(state, rng.standard_normal((n_workers, dim)).astype(np.float32))
    a_step = state.bytes_on_wire / n_workers / steps
    dense = 2 * (n_workers - 1) * 4 * dim / n_workers
    return Entry(name, SOURCES[name], a_step, state.rounds / steps, a_step / dense)


def settings_of(name: str) -> set[str]:
    """Names of the settings that the optimizer takes."""
    return {field.name for field in fields(OPTIMIZERS[name])}


def list_optimizers(
    workers: Annotated[int, typer.Option(min=2, help="N, simulated workers.")] = 8,
    dim: Annotated[int, typer.Option(min=1, help="D, parameters.")] = 4096,
    steps: Annotated[int, typer.Option(min=1, help="Steps to count over.")] = 200,
    json_file: Annotated[
        Path | None, typer.Option("--json", callback=writable_file, help="Write the list to this file.")
    ] = None,
) -> None:
    """Say which optimizers the reference has, where they are from, and the bytes and rounds they take."""
    console = Console()
    if unnamed := ", ".join(sorted(OPTIMIZERS.keys() - SOURCES.keys())):
        raise typer.BadParameter(f"{unnamed} has no entry in SOURCES of reference/optimizers/__init__.py")
    entries = [count(name, workers, dim, steps) for name in OPTIMIZERS]
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("optimizer", no_wrap=True)
    table.add_column("source, arXiv")
    for heading in ("bytes", "dense", "rounds"):
        table.add_column(heading, justify="right", no_wrap=True)
    for e in entries:
        table.add_row(
            e.name, e.source, f"{e.bytes_per_step:,.0f}", f"{e.share_of_dense:.1%}", f"{e.rounds_per_step:.2f}"
        )
    console.print(f"counted over {steps} steps with default settings, N = {workers}, D = {dim:,}, random gradients")
    console.print(table)
    console.print(
        "bytes of a worker and rounds, a step; dense: share of an uncompressed all-reduce; warm-up: an eighth",
        style="dim",
    )
    if json_file:
        write_atomically(json_file, json.dumps([asdict(e) for e in entries], indent=1) + "\n")
