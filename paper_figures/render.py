"""From figures to files: sweep the runs that are missing, draw, and write PNG, SVG, caption and table."""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path

import matplotlib
import matplotlib.style
import pandas as pd

import paper_figures
from paper_figures.figure import PaperFigure, Scale
from reference.experiments import RunStore, sweep
from reference.files import write_atomically

STYLE = Path(__file__).with_name("onebit.mplstyle")


def all_figures() -> dict[str, PaperFigure]:
    """Every module of this package that has a ``FIGURE``, by name."""
    modules = (
        importlib.import_module(f"paper_figures.{info.name}") for info in pkgutil.iter_modules(paper_figures.__path__)
    )
    figures = [module.FIGURE for module in modules if hasattr(module, "FIGURE")]
    return {figure.name: figure for figure in sorted(figures, key=lambda figure: figure.name)}


def render(
    figures: list[PaperFigure],
    folder: Path,
    *,
    scale: Scale,
    store: RunStore,
    n_jobs: int | None = None,
    scheduler: str | None = None,
) -> list[Path]:
    """Draw ``figures`` into ``folder``; the runs of all of them are one sweep. Returns the PNG files."""
    sweep((config for figure in figures for config in figure.runs(scale)), store, n_jobs=n_jobs, scheduler=scheduler)
    return [save(figure, store.table(figure.runs(scale)), folder) for figure in figures]


def save(figure: PaperFigure, table: pd.DataFrame, folder: Path) -> Path:
    """Write ``NAME.png``, ``.svg``, ``.csv`` (its tidy table) and ``.md`` (title and caption) into ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    with matplotlib.style.context(STYLE):
        canvas = figure.draw(table)
        canvas.suptitle(figure.title, x=0.01, ha="left", fontsize=11.5, fontweight="bold")
        for suffix in ("svg", "png"):
            canvas.savefig(folder / f"{figure.name}.{suffix}", metadata={"Date": None} if suffix == "svg" else None)
    write_atomically(folder / f"{figure.name}.csv", table.to_csv(index=False))
    write_atomically(
        folder / f"{figure.name}.md",
        f"# {figure.title}\n\n{figure.caption}\n\nBeside it in the paper: {figure.beside}.\n",
    )
    return folder / f"{figure.name}.png"
