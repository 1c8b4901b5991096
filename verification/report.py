"""Verdicts as JSON, JUnit XML and Markdown; all written in one rename."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any
from xml.etree import ElementTree

from verification.runner import Verdict
from verification.snippet import snippet


def as_dict(verdict: Verdict, source: str, class_name: str, expected: str | None = None) -> dict[str, Any]:
    """Plain data of one verdict, its counterexample as a snippet."""
    prop = verdict.prop
    about = f"{verdict.findings[0].law}: {verdict.findings[0].message}" if verdict.findings else ""
    return {
        "property": prop.id,
        "law": prop.law,
        "title": prop.title,
        "outcome": verdict.outcome,
        "expected_failure": expected,
        "note": verdict.note,
        "cases": verdict.tried,
        "seconds": round(verdict.seconds, 3),
        "findings": [asdict(finding) for finding in verdict.findings],
        "counterexample": snippet(verdict.case, source, class_name, about) if verdict.case is not None else None,
    }


def to_json(rows: Sequence[dict[str, Any]], **about: Any) -> str:
    """What was checked, and one object a property."""
    return json.dumps({**about, "properties": list(rows)}, indent=1)


def to_junit(rows: Sequence[dict[str, Any]], name: str) -> str:
    """One test case a property, for CI servers."""
    failed = [row for row in rows if row["outcome"] == "fails" and row["expected_failure"] is None]
    skipped = [row for row in rows if row["outcome"] == "skipped" or (row["outcome"] == "fails" and row not in failed)]
    suite = ElementTree.Element(
        "testsuite",
        name=name,
        tests=str(len(rows)),
        failures=str(len(failed)),
        skipped=str(len(skipped)),
        time=f"{sum(row['seconds'] for row in rows):.3f}",
    )
    for row in rows:
        case = ElementTree.SubElement(suite, "testcase", classname=name, name=row["property"], time=str(row["seconds"]))
        if row in failed:
            found = row["findings"][0]["message"]
            ElementTree.SubElement(
                case, "failure", message=found
            ).text = f"{row['title']}\n{found}\n\n{row['counterexample']}"
        elif row in skipped:
            ElementTree.SubElement(
                case, "skipped", message=row["note"] or f"expected failure: {row['expected_failure']}"
            )
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True)


def to_markdown(rows: Sequence[dict[str, Any]]) -> str:
    """A table of verdicts, then each failure with its counterexample."""
    lines = ["| property | law | verdict | found |", "|---|---|---|---|"]
    for row in rows:
        found = row["findings"][0]["message"].replace("|", "\\|") if row["findings"] else row["note"]
        lines.append(f"| `{row['property']}` | {row['law']} | {row['outcome']} | {found} |")
    for row in rows:
        if row["outcome"] == "fails":
            lines += ["", f"### `{row['property']}`", "", row["title"], ""]
            lines += [
                f"- {finding['law']}, {finding['clause']}: {finding['message']}" for finding in row["findings"][:3]
            ]
            lines += ["", "```python", row["counterexample"], "```"]
    return "\n".join(lines) + "\n"
