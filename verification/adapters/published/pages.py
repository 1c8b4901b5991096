"""The pages of ``docs/conformance``, from plain data: one a package, and the table of all."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

LAWS = {
    "L1": "conservation", "L3": "Adam in the warm-up", "L4": "frozen variance", "L5": "one bit", "L6": "replicas",
    "L7": "equivariance", "L9": "exact resume, determinism", "C1": "scale", "C2": "sign", "C3": "unit of compression",
    "C5": "bias correction", "C6": "zero-variance coordinates", "C8": "NaN", "C9": "clipping",
    "F1": "0/1 Adam: variance in T_v", "F2": "0/1 Adam: between two meetings", "F3": "0/1 Adam: at a meeting",
    "F4": "1-bit LAMB: trust ratio", "F5": "1-bit LAMB: scale of a layer", "F6": "1-bit LAMB: r",
}  # fmt: skip
"""Columns of the tables, with what they mean (docs/algorithm.md, docs/family.md)."""

PREMISE = "worker_one_bit"
"""A clause that only says that a message can be read at all: where a finding explains it, that finding's law counts."""

Row = dict[str, Any]


def laws_of(row: Row) -> list[str]:
    """The laws that a row speaks of."""
    return [law.strip() for law in row["law"].split(",")]


def explanation(rows: Iterable[Row], row: Row, setting: str) -> Row | None:
    """The finding that explains why a clause fails in a setting."""
    return next(
        (
            one
            for one in rows
            if one["class"] == "finding" and row["property"] in one["explains"] and one["settings"] == [setting]
            if one["outcome"] in {"fails", "differs"}
        ),
        None,
    )


def verdict(rows: list[Row], law: str, setting: str) -> str:
    """One cell: fails before differs before holds; "(n)": n cases and no fault, fewer than the search wants.

    A clause that fails because of a choice differs, too.
    """
    seen, cases = set(), 0
    for row in rows:
        if setting not in row["settings"] or law not in laws_of(row):
            continue
        if row["class"] == "finding" or row["outcome"] == "holds":
            seen.add(row["outcome"])
        elif row["outcome"] == "fails":
            because = explanation(rows, row, setting)
            if because is None or not row["property"].endswith(PREMISE):
                seen.add(because["outcome"] if because else "fails")
        else:
            cases = max(cases, row["cases"])
    words = [outcome for outcome in ("fails", "differs", "holds") if outcome in seen]
    return words[0] if words else f"({cases})" if cases else "–"


def conditions(rows: list[Row], law: str, setting: str) -> str:
    """When a law fails, in a few words, where all findings say so."""
    whens = [
        row["when"]
        for row in rows
        if row["class"] == "finding" and row["outcome"] == "fails" and row["law"] == law and setting in row["settings"]
    ]
    return "; ".join(dict.fromkeys(whens)).replace("|", "\\|") if all(whens) else ""


def settings_of(report: Row) -> list[str]:
    """All settings, in the order of the report."""
    return list(dict.fromkeys(name for row in report["properties"] for name in row["settings"]))


def of_family(report: Row) -> bool:
    """Whether an implementation is judged by laws of 0/1 Adam or 1-bit LAMB, too."""
    return any(law.startswith("F") for row in report["properties"] for law in laws_of(row))


def table(reports: list[Row], *, with_title: bool) -> list[str]:
    """Settings × laws; those of the family only where some implementation of these is judged by them."""
    own = any(map(of_family, reports))
    laws = [law for law in LAWS if own or not law.startswith("F")]
    lines = ["| | " + " | ".join(laws) + " |", "|---" * (len(laws) + 1) + "|"]
    for report in reports:
        for name in settings_of(report):
            cells = [verdict(report["properties"], law, name) for law in laws]
            words = [
                f"**{cell}** {conditions(report['properties'], law, name)}".rstrip() if cell == "fails" else cell
                for law, cell in zip(laws, cells, strict=True)
            ]
            first = f"[{report['package']}]({report['package']}-{report['version']}.md): {name}" if with_title else name
            lines.append("| " + " | ".join([first, *words]) + " |")
    return lines


def search(report: Row) -> list[str]:
    """What ``onebit verify`` said: one paragraph a class."""
    lines = []
    for name in dict.fromkeys(row["class"] for row in report["properties"] if row["class"] != "finding"):
        rows = [row for row in report["properties"] if row["class"] == name]
        lines.append(f"- `{name}` ({rows[0]['part']}), {max(row['cases'] for row in rows):,} cases.")
        for outcome in dict.fromkeys(row["outcome"] for row in rows):
            listed = ", ".join(f"`{row['property']}`" for row in rows if row["outcome"] == outcome)
            notes = dict.fromkeys(row["note"].partition("; ")[2] for row in rows if row["outcome"] == outcome)
            why = "; ".join(note for note in notes if note) if outcome == "not checked" else ""
            lines.append(f"  {outcome.capitalize()}{f' ({why})' if why else ''}: {listed}.")
    return lines


def finding(rows: list[Row]) -> list[str]:
    """One finding in all settings."""
    first = rows[0]
    lines = [f"### {first['law']}: {first['title']}", ""]
    for outcome, word in (
        ("fails", "Fails"),
        ("differs", "Differs"),
        ("holds", "Holds"),
        ("skipped", "Does not arise"),
    ):
        names = [row for row in rows if row["outcome"] == outcome]
        if names:
            where = "everywhere" if len(names) == len(rows) else "; ".join(row["part"] for row in names)
            seen = list(dict.fromkeys(item["message"] for row in names for item in row["findings"]))
            lines.append(f"- **{word}** {where}" + (f": {'; '.join(seen)}" if seen else ""))
    lines.append(f"- Source: {first['source']}")
    if first["differs"]:
        lines.append(f"- A choice: {first['differs']}")
    notes = [row["note"] for row in rows if row["note"] and row["outcome"] != "skipped"]
    lines += [f"- {notes[0]}"] if notes else []
    return [*lines, "", "```python", first["counterexample"].rstrip(), "```", ""]


def page(report: Row) -> str:
    """The page of one package."""
    found = [row for row in report["properties"] if row["class"] == "finding"]
    lines = [
        f"# {report['title']}", "", report["about"], "", "To run it again:", "", "```sh", report["again"], "```", "",
        "## Laws", "", *table([report], with_title=False), "",
        "What the letters mean is in the [overview](README.md). A dash: not checked. (n): nothing found in n cases, "
        "fewer than a verdict takes.", "",
    ]  # fmt: skip
    if searched := search(report):
        lines += ["## The search", "", *searched, ""]
    if report["unexplained"]:
        lines += ["Not explained by a finding yet:", "", *(f"- {line}" for line in report["unexplained"]), ""]
    if found:
        lines += ["## Findings", "", "Each is run in every setting; the code asserts the law.", ""]
        for name in dict.fromkeys(row["property"] for row in found):
            lines += finding([row for row in found if row["property"] == name])
    else:
        lines += ["No law was found broken.", ""]
    return "\n".join(lines).rstrip() + "\n"


def overview(reports: list[Row]) -> str:
    """``docs/conformance/README.md``."""
    lines = [
        "# Other implementations", "",
        "What other people's public code does with the laws of [docs/algorithm.md](../algorithm.md): their sources, "
        "brought in for the run and driven by `verification/adapters/published`. Where one **holds**, a search of "
        "`onebit verify` found nothing against it, or the input made for it did what it should. **Fails** names a "
        "page with the smallest input, the line of the source, and the settings. **Differs** is a choice, with its "
        "reason. A dash: not checked, or the question does not arise; (n): nothing was found in n cases, which are "
        "fewer than a verdict takes.", "",
        *table([report for report in reports if not of_family(report)], with_title=True), "",
        "Of 0/1 Adam and 1-bit LAMB, with the laws of [docs/family.md](../family.md):", "",
        *table([report for report in reports if of_family(report)], with_title=True), "",
        "| law | |", "|---|---|", *(f"| {law} | {name} |" for law, name in LAWS.items()), "",
        "Written by `python -m verification.adapters.published.conformance`; each page says what it needs.", "",
    ]  # fmt: skip
    return "\n".join(lines)
