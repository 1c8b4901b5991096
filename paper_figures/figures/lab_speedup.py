"""How much faster a step is, against how much of it was communication: the network lab beside the paper's cluster."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure as Canvas

from gpu_impl.netlab.contestants import CONTESTANTS
from paper_figures.algorithms import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, VERMILION
from paper_figures.drawing import legend_below, log_x, log_y, note, stacked
from paper_figures.figure import PaperFigure, Scale
from paper_figures.netlab.document import RESULTS, points_of
from paper_figures.netlab.tables import BASES
from theory.profile import RECALLED_COMPRESSED_SPEEDUP, TABLE_1

LOOKS = {
    "ddp-fp16": (GREY, "s"),
    "powersgd": (PURPLE, "v"),
    "1-bit": (BLUE, "o"),
    "1-bit-update": (SKY, "D"),
    "1-bit-hook": (ORANGE, "^"),
    "1-bit-lamb": (GREEN, "P"),
    "0/1": (VERMILION, "X"),
    "diloco": (BLACK, "*"),
}
"""Those of the lab that are drawn."""


def tabulate(scale: Scale) -> pd.DataFrame:
    """Columns kind ("lab", "table 1" or "published"), label, share, speedup, bits; share: exchange over the rest.

    The lab: the newest committed sweep of bandwidths alone, at N = 4; ``bits`` is what a step without compression sends
    for a number. Table 1's rows are what T10b says of one bit in place of fp16, with everything else as published; the
    two published numbers are the largest of the compression stage, at the share of Table 1's slowest row.
    """
    file = sorted(
        file
        for file in RESULTS.glob("*.json")
        if {(point.n_workers, point.latency) for point in points_of(file)} == {(4, 0)}
    )[-1]
    points, rows = points_of(file), []
    bases = {point.bandwidth: point for point in points if point.contestant == BASES[0]}
    for point in points:
        if point.contestant in LOOKS:
            base, label = bases[point.bandwidth], CONTESTANTS[point.contestant].title
            rows.append(("lab", label, base.exchange / base.silent, base.step / point.step, 32))
    for row in TABLE_1:
        faster = row.step / (row.compute + row.allreduce / 16)
        rows.append(("table 1", row.network, row.allreduce / row.compute, faster, 16))
    slowest = max(row.allreduce / row.compute for row in TABLE_1 if row.batch > 1 and row.accumulation == 1)
    rows += [("published", name, slowest, speedup, 16) for name, speedup in RECALLED_COMPRESSED_SPEEDUP.items()]
    return pd.DataFrame(rows, columns=["kind", "label", "share", "speedup", "bits"]).assign(file=file.stem)


def draw(table: pd.DataFrame) -> Canvas:
    """Points of the lab and of the paper, and the two curves of the model."""
    canvas, (axes,) = stacked(5.4)
    shares = np.geomspace(table["share"].min() / 1.5, table["share"].max() * 1.5, 200)
    for bits, dashes in ((32, "solid"), (16, (0, (4, 2)))):
        axes.plot(shares, (1 + shares) / (1 + shares / bits), color=GREY, linestyle=dashes,
                  label=f"model T10b: 1 bit for {bits}")  # fmt: skip
    for name, (color, marker) in LOOKS.items():
        title = CONTESTANTS[name].title
        rows = table.loc[(table["kind"] == "lab") & (table["label"] == title)]
        if not rows.empty:
            axes.plot(rows["share"], rows["speedup"], marker, color=color, markersize=6, label=title)
    model = table.loc[table["kind"] == "table 1"]
    axes.plot(model["share"], model["speedup"], "+", color=BLACK, label="Table 1's rows, predicted")
    published = table.loc[table["kind"] == "published"]
    axes.plot(published["share"], published["speedup"], "1", color=BLACK, markersize=12, label="published: 5.48, 6.17")
    axes.axhline(1, color=GREY, linewidth=0.8, linestyle=":")
    axes.set(xlabel="exchange without compression / the rest of a step", ylabel="times faster than without compression")
    log_x(axes)
    log_y(axes)
    legend_below(axes)
    note(canvas, f"lab: {table['file'].iloc[0]}, N = 4, fp32 uncompressed; paper: fp16")
    return canvas


FIGURE = PaperFigure(
    name="lab_speedup",
    title="How much faster a step is, by how much of it was communication",
    beside="Tang et al. 2021, table 1 and the speed-up of the compression stage",
    caption=(
        "Times faster than without compression, against how long the exchange without compression takes beside the "
        "rest of a step. Colours: the network lab, the newest committed sweep of bandwidths alone, from "
        "10 Gbit/s (left) to 100 Mbit/s. "
        "Crosses: Table 1's rows with one bit in place of 16, as T10b predicts; below them the two "
        "largest published speed-ups of the compression stage, at its slowest row. Lines: "
        "what one bit gains at most. On slow links 1-bit Adam comes near the line."
    ),
    draw=draw,
    tabulate=tabulate,
)
