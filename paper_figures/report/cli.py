"""``onebit report``: find out whatever is missing, then make the page."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from onebit_files import writable_folder


def report(
    out: Annotated[
        Path, typer.Option(callback=writable_folder, help="Folder for the page, and for the JSON beside it.")
    ] = Path("report"),
    scale: Annotated[
        str, typer.Option(metavar="quick|full", help="Of the figures. quick: minutes on two cores; full: more seeds.")
    ] = "quick",
    every: Annotated[
        bool,
        typer.Option("--all", help="Also the long figures that are ours, their claims, and all cases of the checks."),
    ] = False,
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes; default: one a core.")] = None,
) -> None:
    """Prove, check, run mutants, run experiments, draw, decide the claims, and put it all on one page.

    Without --all it leaves out the figures of other systems and of robustness, with the claims that rest on them, and
    checks our implementations with a quarter of the cases of `onebit verify`, which hold every pair of features once.

    What was found before and is not older than the code is taken from the cache, .cache/runs (or $ONEBIT_CACHE), so
    an interrupted call goes on where it stopped. Exit status 1: a theorem fails, an implementation of ours breaks a
    law, or a mutant lives. A claim of the paper that is not reproduced is a finding and no failure: status 0.
    Exit status 3: a file of a figure or a claim can't be used, and is left out.
    """
    from rich.console import Console  # noqa: PLC0415 - light --help
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415

    from onebit_files import write_atomically  # noqa: PLC0415
    from paper_figures.claims import facts  # noqa: PLC0415
    from paper_figures.claims.registry import all_claims, claims_table, resting_on  # noqa: PLC0415
    from paper_figures.cli import tell_broken  # noqa: PLC0415
    from paper_figures.figure import Scale  # noqa: PLC0415
    from paper_figures.recorded import recorded  # noqa: PLC0415
    from paper_figures.render import all_figures, figure_table, render, with_results  # noqa: PLC0415
    from paper_figures.report import committed, stages  # noqa: PLC0415
    from paper_figures.report.page import Content, render_page  # noqa: PLC0415
    from reference.experiments.sweep import default_store  # noqa: PLC0415
    from verification.relation.finding import AdapterError  # noqa: PLC0415

    if scale not in list(Scale):
        raise typer.BadParameter(f"--scale must be quick or full, got {scale!r}")
    console, store = Console(), default_store()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    try:
        known = all_figures(Scale(scale)).values()
        figures, wanted = with_results([one for one in known if every or not one.extra], Scale(scale))
        left = () if every else tuple(one.name for one in known if one.extra)
        for line in wanted:
            console.print(f"left out {line}", highlight=False, soft_wrap=True)
        with Progress(*columns, console=Console(stderr=True)) as progress:
            evidence = stages.gather(store.folder / "evidence", progress, jobs=jobs or -1, every=every)
        files = render(figures, out / "figures", scale=Scale(scale), store=store, n_jobs=jobs)
        measurements, conformance = committed.measurements(), committed.conformance()
        tables = {figure.name: figure_table(figure, Scale(scale), store) for figure in figures}
        found = {name: item.result for name, item in evidence.items()}
        left_claims = resting_on(left)
        chosen = [claim for claim in all_claims() if claim not in left_claims]
        claims = claims_table(facts.gather(tables, found, measurements, conformance), chosen)
        page = render_page(
            Content(
                evidence=evidence,
                claims=claims,
                pictures=[(one.filled(tables[one.name]), file) for one, file in zip(figures, files, strict=True)],
                conformance=conformance,
                false_alarms=committed.false_alarms(),
                measurements=measurements,
                environment=committed.environment(),
                scale=scale,
                left_figures=left,
                left_claims=[
                    (claim.id, claim.title, recorded()["verdicts"].get(claim.id, "")) for claim in left_claims
                ],
                written=datetime.now(UTC).strftime("%Y-%m-%d, %H:%M UTC"),
            )
        )
    except (ValueError, OSError, AdapterError) as error:
        raise typer.BadParameter(str(error)) from None
    for item in evidence.values():
        write_atomically(out / f"{item.name}.json", item.to_json())
    write_atomically(out / "claims.json", json.dumps(claims, indent=1))
    write_atomically(out / "index.html", page)

    falsehoods = stages.found_false(evidence)
    for line in falsehoods:
        console.print(line, style="red", markup=False, highlight=False, soft_wrap=True)
    for verdict, count in Counter(claim["verdict"] for claim in claims).most_common():
        console.print(f"{count:3} claims {verdict}", highlight=False)
    if left_claims:
        ids = ", ".join(claim.id for claim in left_claims)
        console.print(f"{len(left_claims):3} claims left to --all: {ids}", highlight=False)
    console.print(f"the report is {out / 'index.html'}", highlight=False, soft_wrap=True)
    if falsehoods:
        raise typer.Exit(1)
    tell_broken(console)
