"""Samples a second against the number of GPUs: the model of theorem T10b, with the published rows of Table 1."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure as Canvas

from paper_figures.algorithms import BLUE, GREY, ORANGE
from paper_figures.drawing import legend_below, log_y, note, stacked
from paper_figures.figure import PaperFigure, Scale
from theory.profile import TABLE_1
from theory.theorems.time_model import MICRO_BATCH, NETWORKS, fit


def tabulate(scale: Scale) -> pd.DataFrame:
    """Columns network, kind, bits, gpus, fitted, samples_per_second; batch 16 a GPU, no accumulation.

    kind "published" is Table 1 (fp16), "model" T10b at the same machines, for 16 bits and for 1. ``fitted`` says
    whether a published row was one of the two that the model was fitted on. Single-node rows have no network between
    nodes.
    """
    columns = ["network", "kind", "bits", "gpus", "fitted", "samples_per_second"]
    rows = []
    for network in NETWORKS:
        model = fit(network)
        for row in TABLE_1:
            if row.network != network or row.nodes == 1 or (row.batch, row.accumulation) != (MICRO_BATCH, 1):
                continue
            samples, fitted = 1e3 * row.gpus * row.batch, row in model.fitted
            rows.append((network, "published", 16, row.gpus, fitted, samples / row.step))
            rows += [(network, "model", bits, row.gpus, fitted, samples / model.step(row, bits)) for bits in (16, 1)]
    return pd.DataFrame(rows, columns=columns).sort_values(columns[:4], ignore_index=True)


def numbers(table: pd.DataFrame) -> dict[str, str]:
    """At the most GPUs of each network: what one bit gains over the model's fp16, and over the published row."""
    found = {}
    for network, here in table.groupby("network"):
        last = here.loc[here["gpus"] == here["gpus"].max()].set_index(["kind", "bits"])["samples_per_second"]
        found[str(network)] = f"{last['model', 1] / last['model', 16]:.2g}"
        found[f"{network}, published"] = f"{last['model', 1] / last['published', 16]:.2g}"
    return found


def draw(table: pd.DataFrame) -> Canvas:
    """A panel a network."""
    canvas, panels = stacked(3.2, 3.2)
    for axes, network in zip(panels, NETWORKS, strict=True):
        here = table.loc[table["network"] == network]
        for bits, color, dashes in ((1, BLUE, "solid"), (16, ORANGE, (0, (5, 2)))):
            model = here.loc[(here["kind"] == "model") & (here["bits"] == bits)]
            name = "1 bit, model (compression stage)" if bits == 1 else "fp16, model"
            axes.plot(model["gpus"], model["samples_per_second"], color=color, linestyle=dashes, label=name)
        published = here.loc[here["kind"] == "published"]
        for fitted, marker, word in ((True, "o", "fitted"), (False, "s", "predicted")):
            rows = published.loc[published["fitted"] == fitted]
            axes.plot(
                rows["gpus"], rows["samples_per_second"], marker, color=GREY, markersize=8, markeredgecolor="white",
                label=f"fp16, published ({word})",
            )  # fmt: skip
        axes.set(xscale="log", ylabel="samples a second", title=network)
        axes.set_xticks(sorted(set(here["gpus"])), [str(gpus) for gpus in sorted(set(here["gpus"]))])
        axes.minorticks_off()
        log_y(axes)
    panels[-1].set_xlabel("GPUs (V100)")
    legend_below(panels[-1])
    note(canvas, "BERT-Large, sequence 128, batch 16 a GPU")
    return canvas


FIGURE = PaperFigure(
    name="throughput_against_gpus",
    title="Throughput against GPUs: Table 1 and its model",
    beside="Tang et al. 2021, table 1 and the throughput figures",
    caption=(
        "Samples a second on BERT-Large. Grey: Table 1 of the paper, from which two rows a network fix the model of "
        "theorem T10b (circles) and the others are predicted (squares): the dashed line passes through them. Blue: "
        "the same model with one bit a number on the wire, an upper bound for the compression stage alone: at 64 GPUs "
        "{Ethernet} times the model's fp16 over Ethernet ({Ethernet, published} times the published row) and "
        "{InfiniBand} times over InfiniBand. The paper's end-to-end 3.3 times is lower because warm-up steps are not "
        "compressed. Nothing here was measured by us."
    ),
    draw=draw,
    numbers=numbers,
    tabulate=tabulate,
)
