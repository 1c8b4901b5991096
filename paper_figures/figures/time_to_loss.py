"""Loss against the wall clock over slow links: the committed race of the network lab."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure as Canvas

from gpu_impl.netlab.bandwidth import in_words
from paper_figures.algorithms import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, VERMILION
from paper_figures.claims.claim import MAIN_MARGIN, number
from paper_figures.drawing import by_seed, legend_below, log_x, log_y, note, stacked
from paper_figures.figure import PaperFigure, Scale
from paper_figures.netlab.arrivals import BASE, arrivals, committed

DASHED, DOTTED = (0, (5, 2)), (0, (1, 1))
LOOKS: dict[str, tuple[str, Any]] = {
    "ddp": (BLACK, "solid"),
    "ddp-fp16": (GREY, DASHED),
    "ddp-bf16": (GREY, DOTTED),
    "powersgd": (PURPLE, DASHED),
    "1-bit": (BLUE, DASHED),
    "1-bit-short": (BLUE, "solid"),
    "1-bit-update-short": (SKY, "solid"),
    "1-bit-hook-short": (SKY, DOTTED),
    "1-bit-lamb": (GREEN, "solid"),
    "0/1": (ORANGE, "solid"),
    "diloco": (VERMILION, DASHED),
}
"""By entrant: its colour and its dashes."""


def tabulate(scale: Scale) -> pd.DataFrame:
    """A row for each look at the loss in each run of the committed races; columns of ``arrivals.committed``."""
    return committed()


def numbers(table: pd.DataFrame) -> dict[str, str]:
    """Mean seconds until Adam's loss, and how many times sooner than Adam under DDP; of the seeds that have a partner.

    By entrant and bandwidth; "never" for one that does not come there.
    """
    found = {}
    for bandwidth, here in arrivals(table).groupby("bandwidth"):
        wide = here.pivot_table(index="seed", columns="entrant", values="seconds", dropna=False)
        for entrant in wide:
            both_SE = wide[[BASE, str(entrant)]].dropna().to_numpy(float)
            name, there = f"{entrant}, {in_words(float(str(bandwidth)))}", np.isfinite(both_SE).all()
            found[name] = number(float(both_SE[:, 1].mean()))
            found[f"{name}, sooner"] = (
                f"{np.exp(np.log(both_SE[:, 0] / both_SE[:, 1]).mean()):.2g}" if there else "never"
            )
    return found


def draw(table: pd.DataFrame) -> Canvas:
    """A panel a bandwidth: held-out loss against seconds, and the line that counts as Adam's loss."""
    bandwidths = sorted(set(table["bandwidth"]))
    n_labels = len(set(table["label"]))
    canvas, panels = stacked(*[3.6] * (len(bandwidths) - 1), 3.6 + 0.19 * n_labels / 2)
    for axes, bandwidth in zip(panels, bandwidths, strict=True):
        here = table.loc[table["bandwidth"] == bandwidth]
        adam_S = by_seed(here.loc[here["entrant"] == BASE], "loss")[1][-1]
        axes.axhline((1 + MAIN_MARGIN) * np.exp(np.log(adam_S).mean()), color=GREY, linewidth=1.0, linestyle=":")
        for label, rows in here.groupby("label", sort=False):
            color, dashes = LOOKS[rows["entrant"].iloc[0]]
            seconds_T = by_seed(rows, "seconds")[1].mean(axis=1)
            loss_T = np.exp(np.log(by_seed(rows, "loss")[1]).mean(axis=1))
            look: dict[str, Any] = {"color": color, "linestyle": dashes, "linewidth": 1.4}
            axes.plot(seconds_T[1:], loss_T[1:], label=str(label), **look)
        axes.set(ylabel="held-out loss", title=f"links of {in_words(bandwidth)}")
        log_x(axes)
        log_y(axes)
    panels[-1].set_xlabel("seconds of training")
    legend_below(panels[-1])
    n_workers, dim = (int(table[name].to_numpy()[0]) for name in ("n_workers", "dim"))
    counts = [len(set(rows["seed"])) for _, rows in table.groupby("label")]
    seeds = f"{max(counts)} seeds ({min(counts)} of some)" if min(counts) < max(counts) else f"{max(counts)} seeds"
    note(canvas, f"{seeds}, geometric means; N = {n_workers}, D = {dim:,}; dots: Adam + 5 %")
    return canvas


FIGURE = PaperFigure(
    name="time_to_loss",
    title="Time to Adam's loss over slow links",
    beside="ours; the paper has throughput, up to 3.3 times that of Adam (BERT-Large)",
    caption=(
        "A character transformer on four workers over links of one speed, held-out loss against the wall clock, "
        "committed measurement on two processor cores. At 100 Mbit/s 1-bit Adam with a warm-up of 30 steps is within "
        "5 % of Adam's last loss {1-bit-short, 100Mbit, sooner} times sooner than Adam under DDP (in {1-bit-short, "
        "100Mbit} s against {ddp, 100Mbit} s), with the usual warm-up {1-bit, 100Mbit, sooner} times, fp16 {ddp-fp16, "
        "100Mbit, sooner} times. At 1 Gbit/s computation weighs more, and it is {1-bit-short, 1Gbit, sooner} times. "
        "PowerSGD of rank 1 and DiLoCo do not come there in 400 steps. Seconds are means over the seeds, times are "
        "geometric means of the ratios of each seed; docs/netlab.md has the medians of both."
    ),
    draw=draw,
    numbers=numbers,
    tabulate=tabulate,
)
