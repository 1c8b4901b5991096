"""The time of a training step against the network's bandwidth: the model of theorem T10b and the published rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure as Canvas

from paper_figures.algorithms import BLACK, BLUE, GREEN, ORANGE
from paper_figures.drawing import legend_below, log_x, log_y, mark, note, stacked
from paper_figures.figure import PaperFigure, Scale
from theory.profile import BERT_LARGE_PARAMETERS, TABLE_1
from theory.theorems.time_model import NETWORKS, fit, ring_passes, step_time

LARGEST = {
    network: max(
        (row for row in TABLE_1 if row.network == network and row.batch == 16 and row.accumulation == 1),
        key=lambda row: row.gpus,
    )
    for network in NETWORKS
}


def tabulate(scale: Scale) -> pd.DataFrame:
    """Columns network, kind ("model" or "published"), bits, gigabits (effective, Gbit/s), milliseconds.

    The compute is that of Table 1's largest machine at batch 16, so both its networks are there; the model varies the
    bandwidth, the published rows are at the bandwidth that T10f fits. Nothing was measured on such machines here.
    """
    rows = []
    for network, row in LARGEST.items():
        model = fit(network)
        ring = row.gpus if model.over == "gpus" else row.nodes
        gigabits_B = [*np.geomspace(0.5, 400, 60), model.gigabits]
        for bits in (16, 1):
            for gigabits in gigabits_B:
                seconds = step_time(row.compute / 1e3, int(BERT_LARGE_PARAMETERS), ring, gigabits * 1e9 / 8, bits)
                rows.append((network, "model", bits, gigabits, 1e3 * seconds))
        rows.append((network, "published", 16, model.gigabits, row.step))
        assert ring_passes(row, model.over) == 2 * (ring - 1) / ring
    return pd.DataFrame(rows, columns=["network", "kind", "bits", "gigabits", "milliseconds"])


def numbers(table: pd.DataFrame) -> dict[str, str]:
    """The effective bandwidth of each network, what one bit gains there, and the most that it gains."""
    found, gains = {}, []
    for network, here in table.groupby("network"):
        model = here.loc[here["kind"] == "model"].pivot_table(index="gigabits", columns="bits", values="milliseconds")
        gain = model[16] / model[1]
        effective = float(here.loc[here["kind"] == "published", "gigabits"].iloc[0])
        found |= {f"{network}, Gbit/s": f"{effective:.2g}", str(network): f"{gain.loc[effective]:.2g}"}
        gains.append(float(gain.max()))
    return found | {"most": f"{max(gains):.2g}"}


def draw(table: pd.DataFrame) -> Canvas:
    """Step time, fp16 and one bit, and their ratio."""
    canvas, (times, gain) = stacked(3.6, 2.8)
    looks = {"Ethernet": (BLACK, ORANGE, "o"), "InfiniBand": (BLUE, GREEN, "s")}
    for network, (dense, small, marker) in looks.items():
        model = table.loc[(table["network"] == network) & (table["kind"] == "model")].sort_values("gigabits")
        curve = {bits: model.loc[model["bits"] == bits] for bits in (16, 1)}
        times.plot(curve[16]["gigabits"], curve[16]["milliseconds"], color=dense, label=f"{network}, fp16")
        times.plot(
            curve[1]["gigabits"],
            curve[1]["milliseconds"],
            color=small,
            linestyle=(0, (4, 2)),
            label=f"{network}, 1 bit",
        )
        published = table.loc[(table["network"] == network) & (table["kind"] == "published")]
        times.plot(
            published["gigabits"], published["milliseconds"], marker, markersize=8, color=dense,
            markeredgecolor="white", label=f"{network}, published",
        )  # fmt: skip
        ratio = curve[16]["milliseconds"].to_numpy() / curve[1]["milliseconds"].to_numpy()
        gain.plot(curve[16]["gigabits"], ratio, color=dense, label=network)
        mark(gain, float(published["gigabits"].iloc[0]), f"{network}, {published['gigabits'].iloc[0]:.1f}")
    for axes in (times, gain):
        log_x(axes)
    times.set(ylabel="ms a step", title="64 V100, BERT-Large, batch 16 a GPU")
    gain.set(xlabel="effective bandwidth (Gbit/s)", ylabel="fp16 : 1 bit", title="Gain of one bit, at most")
    log_y(times)
    log_y(gain)
    legend_below(times, ncols=2)
    note(canvas, "lines: model T10b; one bit costs no arithmetic here")
    return canvas


FIGURE = PaperFigure(
    name="step_time_against_bandwidth",
    title="Step time against bandwidth: the model of Table 1",
    beside="Tang et al. 2021, table 1 and the throughput figures",
    caption=(
        "The model of theorem T10b, computation plus bytes over bandwidth, with the computation of the paper's "
        "largest machine at batch 16 on each network. The two published rows lie on it, by construction nearly: they "
        "are two of the four rows that it was fitted on. One bit gains up to {most} times where the network is slow, "
        "{Ethernet} times at the effective {Ethernet, Gbit/s} Gbit/s of the Ethernet, {InfiniBand} times at the "
        "{InfiniBand, Gbit/s} Gbit/s of the InfiniBand, and next to nothing beyond 400 Gbit/s. These are upper "
        "bounds: packing and unpacking is free in the model. Nothing here was measured by us."
    ),
    draw=draw,
    numbers=numbers,
    tabulate=tabulate,
)
