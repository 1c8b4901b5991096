"""Verdicts as plain data, JSON and JUnit XML."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any
from xml.etree import ElementTree

from onebit_files import counted
from verification.search.causes import Cause
from verification.search.program import programs
from verification.search.verdicts import Coverage, Result, Verdict, level_text


def as_dict(verdict: Verdict, source: str, class_name: str, expected: str | None = None) -> dict[str, Any]:
    """Plain data of one verdict, its counterexample as a snippet."""
    clause, program = verdict.clause, verdict.program
    if verdict.case is not None and not program:  # the search was stopped before it was shown by one that was tried
        *_, last = programs(verdict.case, verdict.findings, class_name)
        program = last.text(source)
    return {
        "property": clause.id,
        "law": clause.law,
        "title": clause.title,
        "outcome": verdict.outcome,
        "expected_failure": expected,
        "note": verdict.note,
        "cases": verdict.cases,
        "pairs": list(verdict.pairs),
        "findings": [{"law": one.law, "clause": one.clause, "message": one.message} for one in verdict.findings],
        "counterexample": program or None,
        "cause": verdict.cause or None,
    }


MOST = 20_000
"""Characters of a program that are printed, and in a line of it a fiftieth of that; ``--json`` has all."""


def shortened(program: str) -> str:
    """The program, where it is not too long to be read; else what there is to see of it, and a line that says so."""
    if len(program) <= MOST:
        return program
    lines = [line if len(line) <= MOST // 50 else _without_its_middle(line) for line in program.splitlines()]
    while len(lines) > 2 and sum(map(len, lines)) > MOST:
        lines = lines[: len(lines) // 2]
    return "\n".join([*lines, f"# cut, for it has {len(program):,} characters: --json FILE writes the whole program"])


def _without_its_middle(line: str) -> str:
    half = MOST // 100
    return f"{line[:half]} ... {len(line) - 2 * half:,} more ... {line[-half:]}"


def causes_of(causes: Sequence[Cause], failed: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The causes as plain data; a clause that fails and has none is a cause of its own, as in a stopped search."""
    known = {name for cause in causes for name in cause.clauses}
    alone = [row for row in failed if row["property"] not in known]
    return [
        *({"clauses": cause.clauses, "counterexample": cause.program} for cause in causes),
        *({"clauses": [row["property"]], "counterexample": row["counterexample"]} for row in alone),
    ]


def coverage_of(result: Result, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What the verdicts of a search rest on, as plain data; ``rows`` are its verdicts."""
    about = {"cases": result.cases, "seconds": round(result.seconds, 1), "cpu_seconds": round(result.cpu_seconds, 1)}
    return {
        **about,
        "causes": causes_of(result.causes, [row for row in rows if row["outcome"] == "fails"]),
        "coverage": [asdict(one) for one in result.coverage],
        "left_out": result.left_out,
        "notes": result.notes,
    }


NAMED = 8
"""So many pairs that are left out for one reason are named; ``--json`` has all."""


def coverage_lines(coverage: Coverage) -> list[str]:
    """The same for a reader: what was covered, and what was not and why."""
    done, planned = coverage.pairs
    share = "100 %" if done == planned else f"{100 * done / max(1, planned):.1f} %"
    rows = f"{coverage.rows[0]} of {counted(coverage.rows[1], 'case')} of the covering arrays"
    title = f", {coverage.title}" if coverage.title else ""
    lines = [f"{coverage.level}{title}: {share} of the pairs of feature levels ({done} of {planned}), {rows}"]
    levels = (f"{name} {', '.join(level_text(value) for value in values)}" for name, values in coverage.levels.items())
    lines.append(f"  levels: {'; '.join(levels)}")
    if coverage.rows[0] == coverage.rows[1]:
        lines += [f"  every triple of {', '.join(names)}" for names in coverage.triples]
    for reason, pairs in coverage.excluded.items():
        named = f" ({', '.join(pairs)})" if len(pairs) <= NAMED else ""
        lines.append(f"  {counted(len(pairs), 'pair')} {'is' if len(pairs) == 1 else 'are'} left out: {reason}{named}")
    if coverage.untied:
        lines.append(f"  exact ties: none with {', '.join(coverage.untied)}, for something rounds there")
    if coverage.undeclared:
        lines.append(f"  {', '.join(coverage.undeclared)}: as published alone, for extensions does not have them")
    return lines


def to_json(rows: Sequence[dict[str, Any]], **about: Any) -> str:
    """What was checked, and one object a clause."""
    return json.dumps({**about, "properties": list(rows)}, indent=1)


def unexpected(rows: Sequence[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The rows of clauses that fail and should hold, and of those that hold and should fail."""
    failed = [row for row in rows if row["outcome"] == "fails" and row["expected_failure"] is None]
    return failed, [row for row in rows if row["outcome"] == "holds" and row["expected_failure"] is not None]


def to_junit(rows: Sequence[dict[str, Any]], name: str) -> str:
    """One test case a clause, for CI servers: not checked is an error, and what should fail and holds a failure."""
    failed, mended = unexpected(rows)
    unchecked = [row for row in rows if row["outcome"] == "not checked"]
    expected = [row for row in rows if row["outcome"] == "fails" and row not in failed]
    counts = {"tests": rows, "failures": failed + mended, "errors": unchecked, "skipped": expected}
    suite = ElementTree.Element("testsuite", {"name": name, **{key: str(len(some)) for key, some in counts.items()}})
    for row in rows:
        case = ElementTree.SubElement(suite, "testcase", classname=name, name=row["property"])
        if row in failed:
            found = row["findings"][0]["message"]
            text = f"{row['title']}\n{found}\n\n{shortened(row['counterexample'] or '')}"
            ElementTree.SubElement(case, "failure", message=found).text = text
        elif row in mended:
            ElementTree.SubElement(case, "failure", message="was expected to fail and holds")
        elif row in unchecked:
            ElementTree.SubElement(case, "error", message=f"not checked: {row['note']}")
        elif row in expected:
            ElementTree.SubElement(case, "skipped", message=f"expected failure: {row['expected_failure']}")
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True)
