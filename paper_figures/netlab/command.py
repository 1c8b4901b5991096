"""``onebit netlab``: train over links of a chosen bandwidth, on one machine, and compare with the formulas."""

from __future__ import annotations

import csv
import io
import json
import os
import platform
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from gpu_impl.benchmarks.contestants import free_memory
from gpu_impl.benchmarks.timing import environment
from gpu_impl.netlab.bandwidth import bits_per_second
from gpu_impl.netlab.contestants import CONTESTANTS
from gpu_impl.netlab.lab import GAVE_UP
from gpu_impl.netlab.layers import LAYERS, width_for
from gpu_impl.netlab.network import CONGESTION
from gpu_impl.netlab.plan import Plan
from gpu_impl.netlab.point import Point
from gpu_impl.netlab.sweep import sweep
from onebit_files import counted, writable_file, write_atomically
from onebit_signals import INTERRUPTED
from paper_figures.netlab.tables import as_row, crossover_in_words, crossovers, model_in_words, models, tables
from paper_figures.netlab.volumes import TOLERANCE, agrees, formula_bytes

BANDWIDTHS = ["100Mbit", "300Mbit", "1Gbit", "3Gbit", "10Gbit"]
QUICK_BANDWIDTHS = ["100Mbit", "300Mbit", "1Gbit"]
PARAMETERS, QUICK_PARAMETERS = 10_000_000, 1_000_000
FEWEST_PARAMETERS = 100_000
"""Below, what is padded and compared in every step is more than the formula's tolerance."""
MOST_WORKERS = 64
WORKER_BYTES, NUMBER_BYTES = 4e8, 100
"""Memory of a worker at its start, and for each parameter; at ten million parameters it had 1.25 GB.

And at most that for each number that a sample has in a layer.
"""
FILE_WIDTH = 160


def netlab(
    context: typer.Context,
    workers: Annotated[list[int] | None, typer.Option(help="N; repeat for several. Default 4.")] = None,
    bandwidth: Annotated[
        list[str] | None, typer.Option(help="Of each link, each way, such as 100Mbit; repeat for several.")
    ] = None,
    latency: Annotated[list[float] | None, typer.Option(help="Added, ms one way; repeat for several.")] = None,
    parameters: Annotated[list[int] | None, typer.Option(help="D, about; repeat for several. Default 10 M.")] = None,
    contestants: Annotated[
        list[str] | None, typer.Option(help=f"One of {', '.join(CONTESTANTS)}; repeat for several. Default: all.")
    ] = None,
    batch: Annotated[int, typer.Option(min=1, help="Samples of a worker and step.")] = 8,
    seconds: Annotated[
        float, typer.Option(min=0.1, max=3600, help="Of timed steps at each point; three steps at least.")
    ] = 2.0,
    congestion: Annotated[
        str, typer.Option(help="How TCP finds its rate: reno, or another that this kernel has.")
    ] = CONGESTION,
    quick: Annotated[bool, typer.Option("--quick", help="A million parameters, three bandwidths, short.")] = False,
    json_file: Annotated[
        Path | None, typer.Option("--json", callback=writable_file, help="Write everything to this file.")
    ] = None,
    csv_file: Annotated[
        Path | None, typer.Option("--csv", callback=writable_file, help="Write the points to this file.")
    ] = None,
) -> None:
    """Train over slow links: every contestant's step in compute, compression and wire, beside the formulas.

    Makes network namespaces with limited links between them, so it needs root and iproute2; all of it is removed at
    the end. The commands below measure other things in the same lab.
    """
    if context.invoked_subcommand:
        if any("DEFAULT" not in str(context.get_parameter_source(name)) for name in context.params):
            raise typer.BadParameter(f"options go behind the command: onebit netlab {context.invoked_subcommand} ...")
        return
    plan = Plan(
        workers=workers or [4],
        parameters=parameters or [QUICK_PARAMETERS if quick else PARAMETERS],
        bandwidths=sorted(_bandwidths(bandwidth or (QUICK_BANDWIDTHS if quick else BANDWIDTHS))),
        latencies=[one / 1e3 for one in latency or [0.0]],
        contestants=contestants or list(CONTESTANTS),
        batch=batch,
        seconds=0.5 if quick else seconds,
        congestion=congestion,
    )
    _check(plan)
    if json_file and csv_file and json_file.resolve() == csv_file.resolve():
        raise typer.BadParameter(f"--json and --csv are the same file, {json_file}")
    points, console = list[Point](), Console()
    if not console.is_terminal:
        console = Console(width=FILE_WIDTH)
    facts, unwritten = machine() | {"congestion_control": congestion}, list[OSError]()

    def keep(findings: dict[str, object]) -> None:
        """What there is so far, in the files; a file that can't be written does not cost the rest."""
        try:
            _write(points, facts, findings, json_file, csv_file)
        except OSError as error:
            if not unwritten:
                typer.echo(f"onebit netlab: {error}; what is measured is printed at the end", err=True)
            unwritten.append(error)

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TextColumn("left"))
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=plan.total())

        def report(what: str, done: float) -> None:
            progress.update(task, advance=done, description=what or None)

        try:
            with closing(sweep(plan, report)) as found:  # so that the lab is removed now, whatever ends this
                for point in found:
                    points.append(point)
                    keep({})  # so that an interrupted run has it
        except GAVE_UP as error:
            progress.stop()
            stop(str(error), 3)
        except KeyboardInterrupt:
            progress.stop()
            stop(f"interrupted after {counted(len(points), 'point')}; the lab is removed", INTERRUPTED)
    fitted, crossed = models(points), crossovers(points)
    keep({"models": [as_row(one, points) for one in fitted], "crossovers": crossed})
    for table in tables(points):
        console.print(table)
    for line in [*(model_in_words(one, points) for one in fitted), *map(crossover_in_words, crossed)]:
        console.print(line, highlight=False)
    wrong = [point for point in points if not agrees(point)]
    console.print(
        f"bytes on the wire: {len(points) - len(wrong)} of {len(points)} points within {100 * TOLERANCE:g} % of the "
        "formula, without headers, gloo's framing and what the workers compare",
        highlight=False,
    )
    if wrong:
        raise typer.Exit(1)
    if unwritten:
        raise unwritten[-1]


def stop(reason: str, status: int) -> None:
    """Say in one line why, and end."""
    typer.echo(f"onebit netlab: {reason.splitlines()[0]}", err=True)
    raise typer.Exit(status)


def _bandwidths(texts: list[str]) -> list[float]:
    try:
        return [bits_per_second(text) for text in texts]
    except ValueError as error:
        raise typer.BadParameter(f"--bandwidth: {error}") from None


def _check(plan: Plan) -> None:
    """Look at what typer does not.

    Raises:
        BadParameter: one sentence about the first wrong value.
    """
    for n_workers in plan.workers:
        if not 2 <= n_workers <= MOST_WORKERS:
            raise typer.BadParameter(f"--workers must lie in 2..{MOST_WORKERS}, got {n_workers}")
    for n_parameters in plan.parameters:
        if n_parameters < FEWEST_PARAMETERS:
            raise typer.BadParameter(f"--parameters must be at least {FEWEST_PARAMETERS}, got {n_parameters}")
    numbers = max(plan.parameters) + plan.batch * LAYERS * width_for(max(plan.parameters))
    needed = max(plan.workers) * (WORKER_BYTES + NUMBER_BYTES * numbers)
    free = free_memory(torch.device("cpu"))
    if needed > free:
        raise typer.BadParameter(f"this needs {needed / 1e9:.1f} GB of memory and {free / 1e9:.1f} GB are free")
    for latency in plan.latencies:
        if not 0 <= latency <= 1:
            raise typer.BadParameter(f"--latency must lie in 0..1000 ms, got {1e3 * latency:g}")
    if not plan.congestion.isalnum():
        raise typer.BadParameter(f"--congestion must be a name such as reno, got {plan.congestion!r}")
    for name in plan.contestants:
        if name not in CONTESTANTS:
            raise typer.BadParameter(f"--contestants must be one of {', '.join(CONTESTANTS)}; got {name!r}")


def machine() -> dict[str, str]:
    """What the figures depend on besides the links."""
    return {
        **environment(torch.device("cpu")),
        "threads": "1 a worker",
        "cores": str(len(os.sched_getaffinity(0))) if hasattr(os, "sched_getaffinity") else str(os.cpu_count()),
        "kernel": f"{platform.system()} {platform.release()}",
    }


def _write(
    points: list[Point],
    facts: dict[str, str],
    findings: dict[str, object],
    json_file: Path | None,
    csv_file: Path | None,
) -> None:
    rows = [
        {
            **asdict(point),
            "wire": point.wire,
            "compression": point.compression,
            "samples_per_second": point.samples_per_second,
            "formula_bytes": formula_bytes(point),
        }
        for point in points
    ]
    if csv_file:
        text = io.StringIO()
        writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        write_atomically(csv_file, text.getvalue())
    if json_file:
        record = {"environment": facts, "points": rows, **findings}
        write_atomically(json_file, json.dumps(record, indent=1) + "\n")
