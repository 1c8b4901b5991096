"""What was measured last and is kept here: verdicts, minutes, and the numbers that pages have from figures.

``python -m paper_figures.recorded [FOLDER]`` renews all of it, from the report in FOLDER (default: report) and from the
runs in the cache, and writes the pages: docs/claims.md, docs/choosing.md and the caption of README's picture. What has
no runs in the cache stays as it was. ``--claims FILE`` renews the claims of FILE alone, which `onebit claims --json`
has written, beside what is in the cache.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import typer

from onebit_files import processor_name, write_atomically
from paper_figures.claims.claim import asked_for, measured
from reference.experiments import RunConfig, RunStore

FILE, REPORT = Path(__file__).with_name("recorded.json"), Path("report")


@cache
def recorded() -> dict[str, Any]:
    """The record: ``minutes`` by figure, ``timed`` when and where; by claim ``verdicts``, ``decided`` when, and
    ``checks``, a row of ``check_row`` each; ``again``: when a claim was decided later than that, by itself;
    ``numbers`` of figures, ``measured`` when and where; ``family_table``: of each system its row, and when measured.
    """
    return json.loads(FILE.read_text())


def minutes_of(configs: Iterable[RunConfig], store: RunStore) -> float | None:
    """The processor time of runs, in minutes, from those that are in ``store``; None if a kind of run is not there.

    Runs that differ in their seed alone are of one kind: those that are missing count as the mean of the others.
    """
    kinds: defaultdict[str, dict[str, RunConfig]] = defaultdict(dict)
    for config in configs:
        kinds[str({**config.to_dict(), "seed": None, "label": None, "tags": None})][config.key()] = config
    total = 0.0
    for kind in kinds.values():
        timed = [seconds for config in kind.values() if (seconds := store.cpu_seconds([config])) is not None]
        if not timed:
            return None
        total += sum(timed) / len(timed) * len(kind)
    return total / 60


def renewed(old: dict[str, Any], store: RunStore, report: Path, today: str) -> dict[str, Any]:
    """The record with what is new in the cache and in the report."""
    from paper_figures.figure import Scale  # noqa: PLC0415 - the command line reads the record, and must start quickly
    from paper_figures.render import all_figures  # noqa: PLC0415

    figures = all_figures(Scale.QUICK).values()
    minutes = {figure.name: minutes_of(figure.runs(Scale.QUICK), store) for figure in figures if figure.runs}
    found = {name: round(value, 1) for name, value in minutes.items() if value is not None}
    new = {"timed": f"{today}, {processor_name()}" if found else old.get("timed", "")}
    kept = {name: value for name, value in old.get("minutes", {}).items() if name in minutes}
    new["minutes"] = dict(sorted((kept | found).items()))
    new |= numbers_of(old, store, f"{today}, {processor_name()}")
    new |= {"decided": old.get("decided", ""), "verdicts": old.get("verdicts", {}), "checks": old.get("checks", {})}
    new["again"] = old.get("again", {})
    if (page := report / "claims.json").is_file():
        claims = json.loads(page.read_text())
        new |= {"decided": today, "again": {}} | outcomes(claims)
    return new


def outcomes(claims: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """``verdicts`` and ``checks`` of these claims."""
    verdicts = {claim["id"]: claim["verdict"] for claim in claims}
    return {"verdicts": verdicts, "checks": {claim["id"]: list(map(check_row, claim["checks"])) for claim in claims}}


def numbers_of(old: dict[str, Any], store: RunStore, measured: str) -> dict[str, Any]:
    """``numbers`` of the figures whose runs are all in ``store``, the rows of such systems, and ``measured``."""
    from paper_figures.family_table import ADAM_CORRECTED, FAMILY, row, runs  # noqa: PLC0415 - as above
    from paper_figures.figure import Scale  # noqa: PLC0415
    from paper_figures.render import all_figures  # noqa: PLC0415

    numbers, rows, fresh = dict(old.get("numbers", {})), {}, False
    for figure in all_figures(Scale.QUICK).values():
        if figure.runs and figure.numbers and there(figure.runs(Scale.QUICK), store):
            numbers[figure.name], fresh = dict(figure.numbers(store.table(figure.runs(Scale.QUICK)))), True
    for one in FAMILY:
        beside = runs([ADAM_CORRECTED] + [one] * (one is not ADAM_CORRECTED))
        if there(beside, store):
            rows[one.label] = [row(store.table(beside), one), measured]
        elif one.label in old.get("family_table", {}):
            rows[one.label] = old["family_table"][one.label]
    when = measured if fresh else old.get("measured", "")
    return {"numbers": dict(sorted(numbers.items())), "family_table": rows, "measured": when}


def there(configs: Iterable[RunConfig], store: RunStore) -> bool:
    """Whether all these runs are in ``store``."""
    return all(store.file(config).is_file() for config in configs)


def decided_again(old: dict[str, Any], claims: list[dict[str, Any]], today: str) -> dict[str, Any]:
    """The record with the verdicts and checks of some claims, which were decided by themselves."""
    new = {name: old[name] | found for name, found in outcomes(claims).items()}
    return old | new | {"again": old.get("again", {}) | dict.fromkeys((claim["id"] for claim in claims), today)}


def check_row(check: dict[str, Any]) -> tuple[str, str, str, str, str]:
    """A check in words: its setting, its role, what was measured, what was asked for, and the outcome."""
    outcome = check["outcome"] + (", measurably worse" if check["measurably_worse"] and check["holds"] else "")
    found = measured(*(check[name] for name in ("value", "low", "high", "unit")))
    return check["setting"], check["role"], found, asked_for(check), outcome


def main(
    report: Annotated[Path, typer.Argument(help="The folder that onebit report has written.")] = REPORT,
    some: Annotated[
        Path | None, typer.Option("--claims", help="Renew these claims alone: a file of onebit claims --json.")
    ] = None,
) -> None:
    """Renew the record and the pages that show it, from the report and from the runs in the cache."""
    from paper_figures import pages  # noqa: PLC0415
    from paper_figures.claims.document import to_markdown  # noqa: PLC0415
    from paper_figures.claims.registry import all_claims  # noqa: PLC0415
    from reference.experiments.sweep import default_store  # noqa: PLC0415

    today = datetime.now(UTC).strftime("%Y-%m-%d")
    if some:
        if not some.is_file():
            raise typer.BadParameter(f"there is no {some}: onebit claims P7 --json {some} writes it")
        numbers = numbers_of(recorded(), default_store(), f"{today}, {processor_name()}")
        new = decided_again(recorded() | numbers, json.loads(some.read_text()), today)
    elif (report / "claims.json").is_file():
        decided = {claim["id"] for claim in json.loads((report / "claims.json").read_text())}
        if left := [claim.id for claim in all_claims() if claim.id not in decided]:
            raise typer.BadParameter(f"{report} has no verdict on {', '.join(left)}: run onebit report --all")
        new = renewed(recorded(), default_store(), report, today)
    else:
        raise typer.BadParameter(f"there is no {report / 'claims.json'} to take verdicts from: run onebit report --all")
    write_atomically(FILE, json.dumps(new, indent=1, ensure_ascii=False) + "\n")
    recorded.cache_clear()
    write_atomically(FILE.parents[1] / "docs" / "claims.md", to_markdown(all_claims()))
    pages.write(recorded())


if __name__ == "__main__":
    typer.run(main)
