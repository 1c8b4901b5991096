"""Nodes on two tiers of links [C15]: steps and bytes of the hierarchical form, beside those of forms without nodes.

    onebit netlab tiers --quick          # a million parameters; half a minute
    onebit netlab tiers --json FILE      # ten million

As ``onebit netlab`` it needs root and iproute2. Exit status 1: the bytes between nodes are not those of the formula.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from gpu_impl.netlab.bandwidth import bits_per_second, in_words
from gpu_impl.netlab.collective import FRAMING, Collective
from gpu_impl.netlab.tiers import TierPoint, on_two_tiers
from gpu_impl.optimizer.rounds import are_long
from onebit_files import writable_file, write_atomically
from paper_figures.netlab.command import (
    FEWEST_PARAMETERS,
    FILE_WIDTH,
    MOST_WORKERS,
    PARAMETERS,
    QUICK_PARAMETERS,
    machine,
)
from paper_figures.netlab.volumes import COMPARED_BYTES, PADDING, all_reduce_bytes, are_the_formulas
from theory.theorems.communication_volume import wire_bytes

CONTESTANTS = ("ddp", "1-bit", "warm-up-nodes", "1-bit-nodes")
COLUMNS = ("", "step, ms", "compute", "line", "MB a node sends", "formula", "law", "step x")
LEGEND = (
    "line: what a node's frames take on its link; law: how far the bytes are from the formula, without "
    "framing and what the workers compare; x: times faster than ddp"
)


def formula_bytes(point: TierPoint) -> float:
    """Bytes of a step that a node sends to others, without headers and framing, mean over the nodes.

    With nodes they are those of a worker among M of them: T10b's ring, or T10d. Without, the workers of a ring stand in
    the order of their numbers, so one link of it leaves each node; an all-to-all has one message from each worker of a
    node to each worker of another, and so has an all-gather of short messages.
    """
    m, n, dim = point.nodes, point.node_size, point.dim
    everyone = m * n
    if point.contestant == "warm-up-nodes":
        return all_reduce_bytes(dim, m, 32)
    if point.contestant == "1-bit-nodes":
        return wire_bytes(dim, m, n_blocks=m)
    if point.contestant == "ddp":
        return all_reduce_bytes(dim, everyone, 32)
    message = wire_bytes(dim, everyone, n_blocks=everyone) / 2 / (everyone - 1)
    return message * sum(_leaving(point))


def _leaving(point: TierPoint) -> tuple[int, int]:
    """Messages of the all-to-all, and of the all-gather, that leave a node where the workers know of none."""
    everyone, n = point.nodes * point.node_size, point.node_size
    at_once = n * (everyone - n)
    return at_once, everyone - 1 if are_long(point.dim // 8, everyone) else at_once


def framing(point: TierPoint) -> int:
    """Bytes of gloo's own in the messages that leave a node in a step.

    They are those of the all-reduce, or of the all-to-all and the all-gather, and with our optimizers of the table that
    the workers compare before the step. An all-reduce is counted as one; a second bucket has more of them, but is long.
    """
    m, n, dim = point.nodes, point.node_size, point.dim
    if point.contestant == "ddp":
        return Collective("all-reduce", 4 * dim).framing(m * n)
    if point.contestant == "warm-up-nodes":
        return n * (Collective("all-reduce", 4 * dim // n).framing(m) + FRAMING * (m - 1))
    if point.contestant == "1-bit-nodes":
        return FRAMING * n * 3 * (m - 1)
    exchange, gathering = _leaving(point)
    return FRAMING * (exchange + gathering + exchange)  # the table's messages are short


def compared(point: TierPoint) -> int:
    """Bytes of that table that leave a node: what each of its workers has, to each worker of another."""
    outside = (point.nodes - 1) * point.node_size
    return 0 if point.contestant == "ddp" else COMPARED_BYTES * point.node_size * outside


def padding(point: TierPoint) -> int:
    """Bytes at most by which the rows that leave a node are padded; with nodes the parts of a row are equally long."""
    if point.contestant == "1-bit":
        return PADDING * sum(_leaving(point))
    return 2 * (point.nodes - 1) * (PADDING + point.node_size - 1) if point.contestant == "1-bit-nodes" else 0


def data(point: TierPoint) -> float:
    """Bytes of a step that a node sent to others, without framing and without what the workers compare."""
    return point.payload_bytes - framing(point) - compared(point)


def is_right(point: TierPoint) -> bool:
    """Whether these are the bytes of the formula."""
    return are_the_formulas(data(point), formula_bytes(point), padding(point))


def row_of(point: TierPoint, base: TierPoint) -> list[str]:
    """COLUMNS of a point."""
    formula = formula_bytes(point)
    return [
        point.contestant,
        *(f"{1e3 * seconds:,.0f}" for seconds in (point.step, point.compute, point.line)),
        f"{point.payload_bytes / 1e6:,.3f}",
        f"{formula / 1e6:,.3f}",
        f"{100 * (data(point) / formula - 1):+.2f}%",
        f"{base.step / point.step:.1f}",
    ]


def main(
    nodes: Annotated[int, typer.Option(min=2, help="M.")] = 2,
    node_size: Annotated[int, typer.Option(min=2, help="n, workers of a node.")] = 2,
    bandwidth: Annotated[str, typer.Option(help="Of a node's link to the others, each way.")] = "100Mbit",
    parameters: Annotated[int | None, typer.Option(min=FEWEST_PARAMETERS, help="D, about. Default 10 M.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A million parameters, short.")] = False,
    json_file: Annotated[
        Path | None, typer.Option("--json", callback=writable_file, help="Write everything to this file.")
    ] = None,
) -> None:
    """Train on nodes with fast links inside and slow ones between them."""
    try:
        rate = bits_per_second(bandwidth)
    except ValueError as error:
        raise typer.BadParameter(f"--bandwidth: {error}") from None
    if nodes * node_size > MOST_WORKERS:
        raise typer.BadParameter(f"--nodes times --node-size must be at most {MOST_WORKERS}, got {nodes * node_size}")
    size, seconds = parameters or (QUICK_PARAMETERS if quick else PARAMETERS), 0.5 if quick else 3.0
    points = list(on_two_tiers(CONTESTANTS, nodes, node_size, rate, size, batch=8, seconds=seconds))
    title = f"{nodes} nodes of {node_size}, {in_words(rate)} between them, D = {points[0].dim:,}"
    table = Table(*COLUMNS, title=title, caption=LEGEND, box=SIMPLE)
    for point in points:
        table.add_row(*row_of(point, points[0]))
    console = Console()
    (console if console.is_terminal else Console(width=FILE_WIDTH)).print(table)
    if json_file:
        rows = [
            {
                **asdict(point),
                "line": point.line,
                "formula_bytes": formula_bytes(point),
                "framing": framing(point),
                "compared": compared(point),
            }
            for point in points
        ]
        write_atomically(json_file, json.dumps({"environment": machine(), "points": rows}, indent=1))
    if not all(map(is_right, points)):
        raise typer.Exit(1)
