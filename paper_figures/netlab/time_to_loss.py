"""Time to Adam's loss over slow links: a character transformer, trained by every entrant, against the wall clock.

    onebit netlab race --quick          # three entrants, one seed; a minute
    onebit netlab race --json FILE      # all, five seeds; half an hour
    onebit netlab race --tune           # learning rates, on a seed that no race uses

As ``onebit netlab`` it needs root and iproute2.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import numpy as np
import pandas as pd
import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from gpu_impl.netlab.bandwidth import bits_per_second, in_words
from gpu_impl.netlab.entrants import ENTRANTS, GRID
from gpu_impl.netlab.race import Run, race, tune
from onebit_files import writable_file, write_atomically
from paper_figures.netlab.arrivals import BASE, arrivals, tidy
from paper_figures.netlab.command import FILE_WIDTH, machine

QUICK = (BASE, "1-bit-short", "diloco")
STEPS, QUICK_STEPS = 400, 100
COLUMNS = ("", "steps", "seconds", "times faster", "MB", "last loss over Adam's", "seeds")
LEGEND = (
    "until the held-out loss is at most 5 % above Adam's last one, medians over the seeds; never: more than half of "
    "the seeds don't come there; times faster: than Adam under DDP with the same seed; MB: payload that a worker "
    "sends; last loss over Adam's: geometric mean over the seeds"
)


def tables(runs: list[Run]) -> Iterator[Table]:
    """One for each bandwidth."""
    for bandwidth, here in arrivals(tidy(runs)).groupby("bandwidth"):
        title = f"{in_words(float(str(bandwidth)))}, N = {runs[0].n_workers}, D = {runs[0].dim:,}"
        table = Table(*COLUMNS, title=title, caption=LEGEND, box=SIMPLE)
        for column in table.columns[1:]:
            column.justify = "right"
        for row in rows_of(here):
            table.add_row(*row)
        yield table


def rows_of(here: pd.DataFrame) -> Iterator[list[str]]:
    """COLUMNS for each entrant, of the arrivals at one bandwidth."""
    base = here.loc[here["entrant"] == BASE].set_index("seed")["seconds"]
    for label, rows in here.groupby("label", sort=False):
        faster_S = base.loc[rows["seed"]].to_numpy(float) / rows["seconds"].to_numpy(float)
        costs = (rows[name].to_numpy(float) for name in ("step", "seconds", "payload_bytes"))
        step, seconds, payload = (float(np.median(values)) for values in costs)
        ends = [f"{float(np.exp(np.log(rows['ratio'].to_numpy(float)).mean())):.3f}", str(len(rows))]
        if np.isfinite(step):
            yield [
                str(label),
                f"{step:g}",
                f"{seconds:.1f}",
                f"{np.median(faster_S):.1f}",
                f"{payload / 1e6:.1f}",
                *ends,
            ]
        else:
            yield [str(label), "never", "", "", "", *ends]


def best_rates(runs: list[Run]) -> Table:
    """The last loss of each entrant at each learning rate; the best is marked."""
    table = Table("", *(f"{lr:g}" for lr in GRID), title="last held-out loss by learning rate", box=SIMPLE)
    for name in dict.fromkeys(one.entrant for one in runs):
        losses = [one.loss[-1] for one in runs if one.entrant == name]
        table.add_row(name, *(f"{loss:.4f}" + (" *" if loss == min(losses) else "") for loss in losses))
    return table


def main(
    entrants: Annotated[
        list[str] | None, typer.Option(help=f"One of {', '.join(ENTRANTS)}; repeat for several. Default: all.")
    ] = None,
    bandwidth: Annotated[list[str] | None, typer.Option(help="Of each link, each way; repeat for several.")] = None,
    workers: Annotated[int, typer.Option(min=2, max=64, help="N.")] = 4,
    seeds: Annotated[int | None, typer.Option(min=1, help="Runs of each. Default 5.")] = None,
    steps: Annotated[int | None, typer.Option(min=40, help=f"Of each run. Default {STEPS}.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help=f"{', '.join(QUICK)}; one seed, {QUICK_STEPS} steps.")] = False,
    tuning: Annotated[bool, typer.Option("--tune", help="Try learning rates instead, without limits.")] = False,
    json_file: Annotated[
        Path | None, typer.Option("--json", callback=writable_file, help="Write every run to this file.")
    ] = None,
) -> None:
    """Train a character transformer over slow links by every entrant, and say when each is at Adam's loss."""
    names = entrants or list(QUICK if quick else ENTRANTS)
    for name in names:
        if name not in ENTRANTS:
            raise typer.BadParameter(f"--entrants must be one of {', '.join(ENTRANTS)}; got {name!r}")
    if BASE not in names and not tuning:
        raise typer.BadParameter(f"--entrants must have {BASE}, whose loss is the aim")
    try:
        rates = [bits_per_second(text) for text in bandwidth or ["100Mbit", "1Gbit"]]
    except ValueError as error:
        raise typer.BadParameter(f"--bandwidth: {error}") from None
    n_steps, n_seeds = steps or (QUICK_STEPS if quick else STEPS), seeds or (1 if quick else 5)
    total = len(names) * (len(GRID) if tuning else len(rates) * n_seeds)
    runs, facts = list[Run](), machine()
    with Progress(console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task("", total=total)

        def report(what: str) -> None:
            progress.update(bar, description=what)

        found = (
            tune(names, workers, n_steps, report)
            if tuning
            else race(names, workers, rates, range(n_seeds), n_steps, report)
        )
        with closing(found):  # so that the lab is removed now, whatever ends this
            for one in found:
                runs.append(one)
                progress.advance(bar)
                if json_file:  # so that an interrupted race keeps what it has
                    write_atomically(json_file, json.dumps({"environment": facts, "runs": list(map(asdict, runs))}))
    console = Console()
    console = console if console.is_terminal else Console(width=FILE_WIDTH)
    for table in [best_rates(runs)] if tuning else tables(runs):
        console.print(table)
