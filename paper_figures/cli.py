"""``onebit figures``: draw the paper's figures from runs that are computed here, or taken from the cache."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from onebit_files import alike, writable_file, writable_folder
from paper_figures import contributions

if TYPE_CHECKING:
    from paper_figures.figure import PaperFigure


def complete_figure(incomplete: str) -> list[str]:
    """For the shell: names that begin so."""
    from paper_figures.render import all_figures  # noqa: PLC0415

    return [name for name in all_figures() if name.startswith(incomplete)]


def figures(
    names: Annotated[
        list[str] | None, typer.Argument(autocompletion=complete_figure, help="Figures to draw; none means all.")
    ] = None,
    show_list: Annotated[
        bool, typer.Option("--list", help="List the figures, the claims they show, their minutes; stop.")
    ] = False,
    scale: Annotated[
        str,
        typer.Option(
            metavar="quick|full",
            help="quick: minutes on two cores; full: 20 seeds, and what was trained on GPUs before.",
        ),
    ] = "quick",
    out: Annotated[
        Path, typer.Option(callback=writable_folder, help="Folder for the pictures, tables and captions.")
    ] = Path("report/figures"),
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes; default: one a core.")] = None,
    scheduler: Annotated[str | None, typer.Option(help="Address of a Dask scheduler to run on instead.")] = None,
    json_file: Annotated[
        Path | None,
        typer.Option("--json", callback=writable_file, help="Write what was drawn, or is listed, to this file."),
    ] = None,
) -> None:
    """Draw figures: loss against steps and bytes, and more; each caption says what its lines and bands are.

    Finished runs are kept in .cache/runs (or $ONEBIT_CACHE), so an interrupted call goes on where it stopped.
    Exit status 3: all was drawn but for a file that can't be used.
    """
    from onebit_files import write_atomically  # noqa: PLC0415
    from paper_figures.claims.document import minutes_text  # noqa: PLC0415
    from paper_figures.figure import Scale  # noqa: PLC0415 - matplotlib and pandas are slow to import
    from paper_figures.render import all_figures, render, with_results  # noqa: PLC0415
    from reference.experiments.sweep import default_store  # noqa: PLC0415

    if scale not in list(Scale):
        raise typer.BadParameter(f"--scale must be quick or full, got {scale!r}")
    known, console = all_figures(Scale(scale)), Console()
    several = f"there are {', '.join(known)}"
    for name in names or []:
        if name not in known:
            missing = f"there is no figure {name!r} at --scale {scale}; {alike(name, known) or several}"
            raise typer.BadParameter(". ".join((missing, *contributions.broken())))
    asked = [known[name] for name in names or known]
    if show_list:
        rows = listed(asked)
        if json_file:
            write_atomically(json_file, json.dumps(rows, indent=1, ensure_ascii=False))
        width = max(len(figure.name) for figure in asked)
        console.print(f"{'name':<{width}}  minutes  claims; what it shows, and beside what", style="bold")
        for figure, row in zip(asked, rows, strict=True):
            shows = f"    {figure.title}; beside: {figure.beside}"
            line = f"{figure.name:<{width}}  {minutes_text(figure):<7}  {' '.join(row['claims'])}".rstrip()
            console.print(f"{line}\n{shows}", highlight=False, markup=False, soft_wrap=True)
        console.print(
            "minutes: of processor time at --scale quick, for the figure alone; full has 20 seeds in place of 5 or 10, "
            "and takes two to four times as long; docs/claims.md has the claims",
            soft_wrap=True,
        )
        if scale == Scale.FULL:
            trained = (
                "on GPUs: python -m paper_figures.full_scale --help says how to train what they show, on which data"
            )
            console.print(trained, soft_wrap=True)
        tell_broken(console)
        return
    try:
        chosen, wanted = with_results(asked, Scale(scale))
        if names and wanted:
            raise ValueError(wanted[0])
        for line in wanted:
            console.print(f"left out {line}", highlight=False, soft_wrap=True)
        files = render(chosen, out, scale=Scale(scale), store=default_store(), n_jobs=jobs, scheduler=scheduler)
    except (ValueError, OSError) as error:
        raise typer.BadParameter(str(error)) from None
    for file in files:
        console.print(f"drew {file}", highlight=False, soft_wrap=True)
    if json_file:
        drawn = {figure.name: str(file) for figure, file in zip(chosen, files, strict=True)}
        write_atomically(json_file, json.dumps(drawn, indent=1))
    tell_broken(console)


def listed(figures: Iterable[PaperFigure]) -> list[dict[str, Any]]:
    """What each figure shows, the claims that rest on it, and its minutes (None: not measured), as plain data."""
    from paper_figures.claims.registry import shown_by  # noqa: PLC0415
    from paper_figures.recorded import recorded  # noqa: PLC0415

    return [
        {
            "name": figure.name,
            "title": figure.title,
            "beside": figure.beside,
            "claims": [claim.id for claim in shown_by(figure.name)],
            "minutes": recorded()["minutes"].get(figure.name) if figure.runs else 0,
        }
        for figure in figures
    ]


def tell_broken(console: Console) -> None:
    """Say which files of figures or claims can't be used; if there is one, end with that status."""
    for line in contributions.broken():
        console.print(line, style="red", markup=False, highlight=False, soft_wrap=True)
    if contributions.broken():
        raise typer.Exit(contributions.CAN_T_BE_USED)
