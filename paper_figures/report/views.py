"""What the tables of the page show: evidence, regrouped; no numbers are made here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from pathlib import PurePath
from typing import Any

from paper_figures.report.evidence import Evidence

SHADES = 4
KERNEL_COLUMNS = ("kernel", "backend", "seconds", "floor_bytes", "spent_bytes", "ratio", "gigabytes_per_second")


@dataclass(frozen=True)
class Cell:
    """One property on one implementation."""

    property: str
    outcome: str
    cases: int
    note: str


@dataclass(frozen=True)
class Check:
    """One implementation: its name, its evidence, a cell for each property, and what failed."""

    name: str
    evidence: Evidence
    rows: list[Cell]
    failed: list[dict[str, Any]]


@dataclass(frozen=True)
class CheckRow:
    """One property: a cell for each implementation, None where it is of the other level."""

    id: str
    law: str
    title: str
    cells: list[Cell | None]


def checks(evidence: dict[str, Evidence]) -> tuple[list[Check], list[CheckRow]]:
    """The checks of our implementations, and their properties as rows of one table."""
    found, about = [], {}
    for name, item in evidence.items():
        if not name.startswith("verify-"):
            continue
        rows = item.result["properties"]
        about |= {row["property"]: row for row in rows}
        cells = [Cell(row["property"], row["outcome"], row["cases"], row["note"]) for row in rows]
        failed = [row for row in rows if row["outcome"] == "fails"]
        found.append(Check(item.result["target"].rpartition(":")[2], item, cells, failed))
    by_property = [{cell.property: cell for cell in check.rows} for check in found]
    table = [
        CheckRow(name, row["law"], row["title"], [cells.get(name) for cells in by_property])
        for name, row in sorted(about.items())
    ]
    return found, table


def kills(matrix: dict[str, Any]) -> dict[str, Any]:
    """The mutants: for each level clauses x families with counts, and the bugs of each family."""
    mutants = [row for row in matrix["mutants"] if row["differs"]]
    return {
        "sentence": matrix["sentence"] + ".",
        "levels": [kill_grid(matrix, level) for level in sorted({row["level"] for row in mutants})],
        "families": {family: list(rows) for family, rows in _grouped(mutants, "family")},
    }


def kill_grid(matrix: dict[str, Any], level: str) -> dict[str, Any]:
    """One level: how many bugs of each family each clause finds first."""
    mutants = [row for row in matrix["mutants"] if row["level"] == level and row["differs"]]
    families = dict(sorted(Counter(row["family"] for row in mutants).items()))
    rows = []
    for prop in (item["id"] for item in matrix["properties"] if item["id"].startswith(f"{level}.")):
        found = Counter(row["family"] for row in mutants if prop in row["killed_by"])
        cells = [
            {"count": found[family], "shade": -(-SHADES * found[family] // size)} for family, size in families.items()
        ]
        rows.append({"id": prop, "cells": cells, "total": found.total()})
    return {"name": level, "families": families, "size": len(mutants), "rows": rows}


def conformance(report: dict[str, Any]) -> dict[str, Any]:
    """A report on another implementation, its parts in the order of the file."""
    parts = []
    for name, rows in groupby(report["properties"], key=lambda row: row["part"]):
        listed = list(rows)
        outcomes = Counter(row["outcome"] for row in listed)
        parts.append(
            {
                "name": name,
                "class_name": listed[0]["class"],
                "failed": outcomes["fails"],
                "checked": outcomes["fails"] + outcomes["holds"],
                "rows": listed,
            }
        )
    return {"package": report["package"], "version": report["version"], "parts": parts}


def measurement(item: dict[str, Any]) -> dict[str, Any]:
    """A result file: its device and versions, the kernels at the largest D in the open, all rows behind a click."""
    facts, rows = item.get("environment", {}), item.get("rows", [])
    tables = []
    if rows and all(name in rows[0] for name in (*KERNEL_COLUMNS, "dim", "n_workers")):
        dim = max(row["dim"] for row in rows)
        largest = [row for row in rows if row["dim"] == dim]
        n_workers = 8 if any(row["n_workers"] == 8 for row in largest) else largest[0]["n_workers"]
        shown = [row for row in largest if row["n_workers"] == n_workers]
        tables.append(_table(f"D = {dim:,}, N = {n_workers}; times in seconds", shown, KERNEL_COLUMNS, is_open=True))
    if rows:
        tables.append(_table(f"all {len(rows)} rows", rows, tuple(rows[0]), is_open=False))
    date = str(facts.get("date", ""))[:10]
    return {
        "file": item["file"],
        "stem": PurePath(item["file"]).stem,
        "title": ", ".join(filter(None, (str(facts.get("device", item["file"])), date))),
        "facts": ", ".join(f"{name} {value}" for name, value in facts.items() if value not in {"", None}),
        "checks": item.get("checks", {}),
        "tables": tables,
    }


def _table(name: str, rows: list[dict[str, Any]], columns: tuple[str, ...], *, is_open: bool) -> dict[str, Any]:
    cells = [[row.get(column, "") for column in columns] for row in rows]
    return {"name": name, "columns": columns, "rows": cells, "open": is_open}


def _grouped(rows: Iterable[dict[str, Any]], key: str) -> Iterable[tuple[str, Iterable[dict[str, Any]]]]:
    return groupby(sorted(rows, key=lambda row: row[key]), key=lambda row: row[key])
