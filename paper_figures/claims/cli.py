"""``onebit claims``: decide some claims, from runs that are computed here or taken from the cache."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from onebit_files import alike, writable_file

if TYPE_CHECKING:
    from paper_figures.claims.claim import Claim


def complete_claim(incomplete: str) -> list[str]:
    """For the shell: ids that begin so."""
    from paper_figures.claims.registry import all_claims  # noqa: PLC0415

    return [claim.id for claim in all_claims() if claim.id.startswith(incomplete.upper())]


def claims(
    ids: Annotated[
        list[str] | None, typer.Argument(autocompletion=complete_claim, help="Such as P7; none lists all.")
    ] = None,
    scale: Annotated[str, typer.Option(metavar="quick|full", help="Of the figures that they rest on.")] = "quick",
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes; default: one a core.")] = None,
    json_file: Annotated[
        Path | None,
        typer.Option("--json", callback=writable_file, help="Write verdicts and checks, or the list, to this file."),
    ] = None,
) -> None:
    """Decide claims: compute what they rest on, and print each check and the verdict that follows.

    Without an id it lists the claims with the verdicts that were recorded last, and computes nothing. What was computed
    before is taken from the cache, as `onebit report` does, and kept there. A claim that is not reproduced is a finding
    and no failure: exit status 0. Exit status 3: a claim was not decided.
    """
    from rich.console import Console  # noqa: PLC0415 - light --help

    from onebit_files import write_atomically  # noqa: PLC0415
    from paper_figures.claims.registry import all_claims  # noqa: PLC0415
    from paper_figures.figure import Scale  # noqa: PLC0415
    from paper_figures.recorded import recorded  # noqa: PLC0415

    if scale not in list(Scale):
        raise typer.BadParameter(f"--scale must be quick or full, got {scale!r}")
    known, console = {claim.id: claim for claim in all_claims()}, Console()
    for one in ids or []:
        if one.upper() not in known:
            several = f"there are {', '.join(known)}"
            raise typer.BadParameter(f"there is no claim {one!r}; {alike(one.upper(), known) or several}")
    if not ids:
        listed = [
            {"id": one.id, "verdict": recorded()["verdicts"].get(one.id, "not decided yet"), "title": one.title}
            for one in known.values()
        ]
        for row in listed:
            console.print("{id:<4} {verdict:<26} {title}".format(**row), highlight=False, soft_wrap=True)
        if json_file:
            write_atomically(json_file, json.dumps(listed, indent=1))
        return
    chosen = [known[one.upper()] for one in dict.fromkeys(ids)]
    console.print(rests_on(chosen), highlight=False, soft_wrap=True)
    try:
        records = decided(chosen, Scale(scale), jobs)
    except (ValueError, OSError) as error:
        raise typer.BadParameter(str(error)) from None
    for record in records:
        tell(console, record)
    if json_file:
        write_atomically(json_file, json.dumps(records, indent=1))
    if any(record["verdict"] == "not decided" for record in records):
        raise typer.Exit(3)


def rests_on(chosen: list[Claim]) -> str:
    """What has to be computed, unless it is in the cache, and how long it takes."""
    from paper_figures.recorded import recorded  # noqa: PLC0415

    figures = list(dict.fromkeys(name for claim in chosen for name in claim.figures))
    others = list(dict.fromkeys(name for claim in chosen for name in claim.others))
    minutes = sum(recorded()["minutes"].get(name, 0.0) for name in figures)
    what = f"figures {', '.join(figures)}" if figures else "no figure"
    timed = f"about {minutes:.0f} minutes of processor time on {recorded()['timed']}"
    takes = timed if minutes >= 1 else "seconds"
    beside = f", and on {', '.join(others)}" if others else ""
    shown = list(dict.fromkeys(name for claim in chosen for name in claim.shown_in if name not in figures))
    too = f"; beside it, and deciding nothing: {', '.join(shown)}" if shown else ""
    return f"rests on {what} ({takes}, less what is in the cache){beside}{too}"


def decided(chosen: list[Claim], scale: Any, jobs: int | None) -> list[dict[str, Any]]:
    """The records of these claims, from the figures and the other facts that they rest on alone.

    Raises:
        MissingResultsError: a measurement is missing that a figure shows.
    """
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import Progress  # noqa: PLC0415

    from paper_figures.claims import facts  # noqa: PLC0415
    from paper_figures.claims.registry import claims_table  # noqa: PLC0415
    from paper_figures.render import all_figures, compute, figure_table  # noqa: PLC0415
    from paper_figures.report import committed, stages  # noqa: PLC0415
    from reference.experiments.sweep import default_store  # noqa: PLC0415

    store, known = default_store(), all_figures(scale)
    figures = [
        known[name] for name in dict.fromkeys(name for claim in chosen for name in claim.figures) if name in known
    ]
    others = [name for claim in chosen for name in claim.others]
    with Progress(console=Console(stderr=True)) as progress:
        evidence = stages.gather(store.folder / "evidence", progress, jobs=jobs or -1, every=True, wanted=others)
    compute(figures, scale=scale, store=store, n_jobs=jobs)
    tables = {figure.name: figure_table(figure, scale, store) for figure in figures}
    found = {name: item.result for name, item in evidence.items()}
    return claims_table(facts.gather(tables, found, committed.measurements(), committed.conformance()), chosen)


def tell(console: Any, record: dict[str, Any]) -> None:
    """One claim on screen: its verdict, why, and its checks as docs/claims.md has them."""
    from paper_figures.recorded import check_row  # noqa: PLC0415

    lines = [f"{record['id']}. {record['title']}: {record['verdict']}", record["statement"], record["why"]]
    lines += ["  " + "; ".join(cell for cell in check_row(check) if cell) for check in record["checks"]]
    console.print("\n".join(line for line in lines if line), highlight=False, markup=False, soft_wrap=True)
