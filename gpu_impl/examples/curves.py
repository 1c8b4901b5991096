"""Curves of the training example."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

COLOURS = {"Adam": "#0072b2", "1-bit Adam": "#d55e00"}


def draw(picture: Path, runs: Sequence[dict[str, Any]]) -> None:
    """Loss against steps and against bytes, a thin line a seed.

    Raises:
        SystemExit: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415 - an extra
        from matplotlib.ticker import LogLocator  # noqa: PLC0415
    except ImportError as error:
        raise SystemExit("--picture needs matplotlib: pip install 'onebit-adam[experiments]'") from error
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    panels = zip(figure.subplots(1, 2, sharey=True), ("step", "bytes"), ("step", "MB sent by a worker"), strict=True)
    for axes, key, label in panels:
        for run in runs:
            name, is_first = run["settings"]["algorithm"], run["settings"]["seed"] == runs[0]["settings"]["seed"]
            x = [value / 1e6 for value in run[key]] if key == "bytes" else run[key]
            axes.plot(x, run["loss"], color=COLOURS[name], lw=1, alpha=0.7, label=name if is_first else None)
        axes.set(xlabel=label, yscale="log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 3, 5)))
        axes.yaxis.set_major_formatter("{x:g}")
        axes.minorticks_off()
        axes.grid(alpha=0.3)
    steps, last = figure.axes
    steps.axvline(runs[0]["settings"]["freeze_step"], color="grey", lw=0.8, ls=":", label="variance frozen")
    steps.set_ylabel("loss")
    last.set_xlim(left=0)
    steps.legend()
    picture.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(picture, dpi=150)
