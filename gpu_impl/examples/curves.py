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
    except ImportError as error:
        raise SystemExit("--picture needs matplotlib: pip install 'onebit-adam[experiments]'") from error
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    axes_of = zip(figure.subplots(1, 2, sharey=True), ("step", "bytes"), strict=True)
    for axes, key in axes_of:
        for run in runs:
            name = run["settings"]["algorithm"]
            axes.plot(
                run[key],
                run["loss"],
                color=COLOURS[name],
                lw=1,
                alpha=0.8,
                label=name if run["settings"]["seed"] == 0 else None,
            )
        axes.set(xlabel={"step": "step", "bytes": "bytes sent by a worker"}[key], yscale="log")
        axes.grid(alpha=0.3)
    figure.axes[0].axvline(runs[0]["settings"]["freeze_step"], color="grey", lw=0.8, ls=":")
    figure.axes[0].set_ylabel("loss")
    figure.axes[0].legend()
    figure.axes[1].set_xscale("symlog", linthresh=1e5)
    picture.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(picture, dpi=150)
