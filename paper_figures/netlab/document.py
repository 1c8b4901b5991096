"""The tables of docs/netlab.md, from a committed result: ``python -m paper_figures.netlab.document FILE``."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Annotated

import typer

import gpu_impl
from gpu_impl.netlab.bandwidth import in_words
from gpu_impl.netlab.contestants import CONTESTANTS
from gpu_impl.netlab.point import Point
from gpu_impl.netlab.race import Run
from paper_figures.netlab.arrivals import arrivals, tidy
from paper_figures.netlab.tables import COLUMNS, cells, in_short, model_in_words, models
from paper_figures.netlab.time_to_loss import COLUMNS as RACE_COLUMNS
from paper_figures.netlab.time_to_loss import rows_of

RESULTS = Path(gpu_impl.__file__).parent / "netlab" / "results"


def points_of(file: Path) -> list[Point]:
    """The points of a file that ``onebit netlab --json`` has written."""
    names = {field.name for field in fields(Point)}
    rows = json.loads(file.read_text(encoding="utf-8"))["points"]
    return [Point(**{name: value for name, value in row.items() if name in names}) for row in rows]


def tables(points: Sequence[Point]) -> str:
    """The lowest bandwidth in full, the step at all of them, and the model's errors, as markdown."""
    lowest = min(point.bandwidth for point in points)
    slow = [point for point in points if point.bandwidth == lowest]
    lines = [f"| {in_words(lowest)}, ms | {' | '.join(COLUMNS)} |", "|---" * (len(COLUMNS) + 1) + "|"]
    lines += [f"| {CONTESTANTS[point.contestant].title} | {' | '.join(cells(point, slow))} |" for point in slow]
    bandwidths = sorted({point.bandwidth for point in points})
    lines += ["", f"| step, ms | {' | '.join(map(in_words, bandwidths))} |", "|---" * (len(bandwidths) + 1) + "|"]
    for name in dict.fromkeys(point.contestant for point in points):
        steps = {point.bandwidth: point.step for point in points if point.contestant == name}
        row = [in_short(1e3 * steps[bandwidth]) for bandwidth in bandwidths]
        lines.append(f"| {CONTESTANTS[name].title} | {' | '.join(row)} |")
    return "\n".join([*lines, "", *(model_in_words(model, points) for model in models(points))]) + "\n"


def race_tables(runs: Sequence[Run]) -> str:
    """When each entrant is at Adam's loss, a table for each bandwidth, as markdown."""
    found = []
    for bandwidth, here in arrivals(tidy(runs)).groupby("bandwidth"):
        head = [in_words(float(str(bandwidth))), *RACE_COLUMNS[1:]]
        lines = [head, ["---"] * len(head), *rows_of(here)]
        found.append("".join(f"| {' | '.join(line)} |\n" for line in lines))
    return "\n".join(found)


def main(
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="Of gpu_impl/netlab/results, or your own.")],
) -> None:
    """Print the tables of docs/netlab.md from a file that onebit netlab or the race has written with --json."""
    found = json.loads(file.read_text(encoding="utf-8"))
    if "runs" in found:
        sys.stdout.write(race_tables([Run(**run) for run in found["runs"]]))
        return
    if any("latency" not in row for row in found.get("points", [{}])):
        raise typer.BadParameter(f"{file} is of another command than onebit netlab and its race")
    points = points_of(file)
    for latency in (latencies := sorted({point.latency for point in points})):
        title = f"{1e3 * latency:g} ms added\n\n" if len(latencies) > 1 else ""
        sys.stdout.write(title + tables([point for point in points if point.latency == latency]))


if __name__ == "__main__":
    typer.run(main)
