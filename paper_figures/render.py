"""From figures to files: compute what is missing, draw, and write PNG, SVG, caption and table."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from pathlib import Path

import matplotlib
import matplotlib.style
import pandas as pd

from onebit_files import write_atomically
from paper_figures import contributions
from paper_figures.figure import MissingResultsError, PaperFigure, Scale
from reference.experiments import RunConfig, RunStore, sweep

STYLE = Path(__file__).with_name("onebit.mplstyle")
TITLE_WIDTH = 58  # characters of bold type that fit a picture


def all_figures(scale: Scale = Scale.QUICK) -> dict[str, PaperFigure]:
    """Every ``FIGURE`` of the modules of ``paper_figures.figures`` that is drawn at ``scale``, by name."""
    modules, _ = contributions.read("paper_figures.figures", "FIGURE")
    return {module.FIGURE.name: module.FIGURE for module in modules if scale in module.FIGURE.scales}


def with_results(figures: Iterable[PaperFigure], scale: Scale) -> tuple[list[PaperFigure], list[str]]:
    """The figures that can be drawn here, and what each of the others wants: runs on real hardware."""
    here, wanted = [], []
    for figure in figures:
        try:
            if figure.tabulate is not None:
                figure.tabulate(scale)
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


class RememberingStore(RunStore):
    """A store that reads every run once: figures share runs, and the sweep has looked at all of them already."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.seen: dict[str, pd.DataFrame] = {}

    def get(self, config: RunConfig) -> pd.DataFrame | None:
        """As ``RunStore.get``; do not change what it returns."""
        name = f"{config.key()} {config.label} {config.tags}"
        if name not in self.seen:
            table = super().get(config)
            if table is None:
                return None
            self.seen[name] = table
        return self.seen[name]


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
    store = RememberingStore(store.folder)
    compute(figures, scale=scale, store=store, n_jobs=n_jobs, scheduler=scheduler)
    return [save(figure, figure_table(figure, scale, store), folder) for figure in figures]


def save(figure: PaperFigure, table: pd.DataFrame, folder: Path) -> Path:
    """Write ``NAME.svg``, ``.png``, ``.md`` (title, caption and claims) and ``.csv`` (its tidy table) into ``folder``.

    The numbers of the caption are those of the table.

    Nothing is drawn where table, title and caption are those that lie there and the pictures are newer than the code.
    """
    from paper_figures.claims.registry import shown_by  # noqa: PLC0415 - claims import figures

    claims = "; ".join(f"{claim.id}, {claim.title}" for claim in shown_by(figure.name)) or "none"
    figure = figure.filled(table)
    paragraphs = f"# {figure.title}", figure.caption, f"Beside it in the paper: {figure.beside}.", f"Claims: {claims}."
    texts = {
        "md": "\n\n".join(paragraphs) + "\n",
        "csv": table.to_csv(index=False),
    }
    files = {suffix: folder / f"{figure.name}.{suffix}" for suffix in ("svg", "png", *texts)}
    if not up_to_date(files, texts):
        folder.mkdir(parents=True, exist_ok=True)
        files["csv"].unlink(missing_ok=True)  # written last: where it lies, the pictures are whole
        with matplotlib.style.context(STYLE):
            canvas = figure.draw(table)
            canvas.suptitle(
                textwrap.fill(figure.title, TITLE_WIDTH), x=0.01, ha="left", fontsize=11.5, fontweight="bold"
            )
            canvas.draw_without_rendering()
            canvas.set_layout_engine("none")  # the layout is found: not once more for every file
            canvas.savefig(files["svg"], metadata={"Date": None})
            canvas.savefig(files["png"])
        for suffix, text in texts.items():
            write_atomically(files[suffix], text)
    return files["png"]


def up_to_date(files: dict[str, Path], texts: dict[str, str]) -> bool:
    """Whether all ``files`` (by suffix) are there, hold ``texts``, and are newer than the code that draws."""
    if not all(file.is_file() for file in files.values()):
        return False
    code = max(path.stat().st_mtime for path in STYLE.parent.rglob("*") if path.suffix in (".py", ".mplstyle"))
    newer = all(file.stat().st_mtime > code for file in files.values())
    return newer and all(files[suffix].read_text() == text for suffix, text in texts.items())
