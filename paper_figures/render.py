"""From figures to files: compute what is missing, draw, and write PNG, SVG, caption and table."""

from __future__ import annotations

import importlib
import pkgutil
import textwrap
from collections.abc import Iterable
from pathlib import Path

import matplotlib
import matplotlib.style
import pandas as pd

from paper_figures import figures as package
from paper_figures.figure import MissingResultsError, PaperFigure, Scale
from reference.experiments import RunStore, sweep
from reference.files import write_atomically

STYLE = Path(__file__).with_name("onebit.mplstyle")
TITLE_WIDTH = 58  # characters of bold type that fit a picture


def all_figures(scale: Scale = Scale.QUICK) -> dict[str, PaperFigure]:
    """Every ``FIGURE`` of the modules of ``paper_figures.figures`` that is drawn at ``scale``, by name."""
    modules = (
        importlib.import_module(f"{package.__name__}.{info.name}") for info in pkgutil.iter_modules(package.__path__)
    )
    return {module.FIGURE.name: module.FIGURE for module in modules if scale in module.FIGURE.scales}


def with_results(figures: Iterable[PaperFigure], scale: Scale) -> tuple[list[PaperFigure], list[str]]:
    """The figures that can be drawn here, and what each of the others wants: runs on real hardware."""
    here, wanted = [], []
    for figure in figures:
        try:
            if figure.scales == (Scale.FULL,):
                figure_table(figure, scale, RunStore(Path()))
            here.append(figure)
        except MissingResultsError as error:
            wanted.append(f"{figure.name}: {error}")
    return here, wanted


def compute(
    figures: Iterable[PaperFigure],
    *,
    scale: Scale,
    store: RunStore,
    n_jobs: int | None = None,
    scheduler: str | None = None,
) -> None:
    """Run what ``figures`` need and ``store`` does not hold yet: one sweep, with a progress bar.

    Raises:
        ValueError: the Dask scheduler cannot be reached.
    """
    configs = [config for figure in figures if figure.runs for config in figure.runs(scale)]
    if configs:
        sweep(configs, store, n_jobs=n_jobs, scheduler=scheduler)


def figure_table(figure: PaperFigure, scale: Scale, store: RunStore) -> pd.DataFrame:
    """The tidy table of ``figure``: what it draws, and what the claims are decided on.

    Raises:
        KeyError: a run has not finished; see ``compute``.
    """
    if figure.runs:
        return store.table(figure.runs(scale))
    assert figure.tabulate is not None  # PaperFigure has checked it
    return figure.tabulate(scale)


def render(
    figures: list[PaperFigure],
    folder: Path,
    *,
    scale: Scale,
    store: RunStore,
    n_jobs: int | None = None,
    scheduler: str | None = None,
) -> list[Path]:
    """Compute what is missing and draw ``figures`` into ``folder``. Returns the PNG files."""
    compute(figures, scale=scale, store=store, n_jobs=n_jobs, scheduler=scheduler)
    return [save(figure, figure_table(figure, scale, store), folder) for figure in figures]


def save(figure: PaperFigure, table: pd.DataFrame, folder: Path) -> Path:
    """Write ``NAME.png``, ``.svg``, ``.csv`` (its tidy table) and ``.md`` (title and caption) into ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    with matplotlib.style.context(STYLE):
        canvas = figure.draw(table)
        canvas.suptitle(textwrap.fill(figure.title, TITLE_WIDTH), x=0.01, ha="left", fontsize=11.5, fontweight="bold")
        for suffix in ("svg", "png"):
            canvas.savefig(folder / f"{figure.name}.{suffix}", metadata={"Date": None} if suffix == "svg" else None)
    write_atomically(folder / f"{figure.name}.csv", table.to_csv(index=False))
    write_atomically(
        folder / f"{figure.name}.md",
        f"# {figure.title}\n\n{figure.caption}\n\nBeside it in the paper: {figure.beside}.\n",
    )
    return folder / f"{figure.name}.png"
