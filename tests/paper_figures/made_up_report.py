"""Content for a report that costs nothing to make: our own claims and figures, made-up verdicts, small pictures."""

from __future__ import annotations

from pathlib import Path

from PIL import Image

from paper_figures.claims.registry import about, all_claims
from paper_figures.figure import PaperFigure
from paper_figures.report import committed
from paper_figures.report.evidence import Evidence
from paper_figures.report.page import Content
from theory.registry import all_theorems
from verification.search.clauses import CLAUSES

VERDICTS = ("reproduced", "reproduced with conditions", "not reproduced", "not decided")
FIGURES = ("loss_against_bytes", "convergence_char_transformer", "convergence_digits_mlp", "byte_roofline")


def evidence(name, result):
    return Evidence(name, f"onebit {name}", "2026-11-21, 09:00 UTC", "0123456789abcdef", {"python": "3.11"}, result)


def proofs():
    return [
        {
            "id": theorem.id, "title": theorem.title, "words": theorem.words, "rank": str(theorem.rank),
            "laws": list(theorem.laws), "holds": True, "faults": [], "skipped": [], "evidence": "",
        }
        for theorem in all_theorems()
    ]  # fmt: skip


def check_of(name, level):
    rows = [
        {
            "property": prop.id, "law": prop.law, "title": prop.title, "outcome": "holds", "note": "", "cases": 40,
            "findings": [], "counterexample": None,
        }
        for prop in CLAUSES
        if prop.level == level and prop.name != "between"  # a clause of 0/1 Adam, which no adapter of a report is
    ]  # fmt: skip
    return {"target": f"verification/adapters/{name.lower()}.py:{name}", "properties": rows}


def mutants():
    """Every property finds three bugs: two of its own in each of two families, and one that all find."""
    rows, properties = [], CLAUSES
    for level in ("collective", "optimizer"):
        of_level = [prop.id for prop in properties if prop.level == level]
        rows.append(mutant("signs.Everybody", level, dict.fromkeys(of_level, "seen")))
        for index, name in enumerate(of_level):
            rows.append(mutant(f"signs.Sign{index}", level, {name: "seen"}))
            rows.append(mutant(f"error_feedback.Error{index}", level, {name: "seen"}))
    rows.append(mutant("scale.Harmless", "collective", {}, differs=False))
    about_properties = [{"id": prop.id, "law": prop.law, "title": prop.title} for prop in properties]
    killed = sum(row["differs"] for row in rows)
    return {"sentence": f"{killed} of {killed} mutants", "mutants": rows, "properties": about_properties}


def mutant(name, level, killed_by, differs=True):
    return {
        "mutant": name, "family": name.partition(".")[0], "level": level, "bug": f"what {name} does",
        "differs": differs, "killed_by": killed_by,
    }  # fmt: skip


def claims():
    return [
        {
            **about(claim), "verdict": VERDICTS[index % len(VERDICTS)], "why": "Holds: digits MLP: 1.02 (0.9 to 1.1).",
            "checks": [check(index)] if index % len(VERDICTS) != 3 else [],
            "deciding": 0 if index % len(VERDICTS) != 3 else None,
        }
        for index, claim in enumerate(all_claims())
    ]  # fmt: skip


def check(index):
    statistical = index % 2 == 0
    return {
        "setting": "digits MLP", "value": 1.02 + index, "unit": "times Adam's final loss", "test": "paired t",
        "low": 0.9 if statistical else None, "high": 1.1 if statistical else None, "n_seeds": 5, "bound": 1.2,
        "p_value": 0.001 if statistical else None, "adjusted_p": 0.02 if statistical else None,
        "exact": None if statistical else True, "required": True, "role": "required", "holds": True, "outcome": "holds",
        "measurably_worse": False,
    }  # fmt: skip


def figure(name):
    return PaperFigure(
        name,
        f"What {name} shows",
        "Tang et al. 2021, figure 4",
        "A line falls. Another does not.",
        draw=lambda table: None,
        tabulate=lambda scale: None,
    )


def content(folder: Path, **changes) -> Content:
    """The whole content, its pictures in ``folder``; ``changes`` replace parts of it."""
    files = []
    for name in FIGURES:
        files.append(folder / f"{name}.png")
        Image.new("RGB", (1536, 800), "white").save(files[-1])
    found = {
        "proofs": evidence("proofs", proofs()),
        "verify-collective": evidence("verify-collective", check_of("Collective", "collective")),
        "verify-optimizer": evidence("verify-optimizer", check_of("Optimizer", "optimizer")),
        "mutants": evidence("mutants", mutants()),
    }
    parts = {
        "evidence": found,
        "claims": claims(),
        "pictures": [(figure(name), file) for name, file in zip(FIGURES, files, strict=True)],
        "conformance": committed.conformance(),
        "false_alarms": committed.false_alarms(),
        "measurements": committed.measurements(),
        "environment": {"python": "3.11", "processor": "one"},
        "scale": "quick",
        "left_figures": ("robustness",),
        "left_claims": [("P31", "The forms with a floor", "not reproduced")],
        "written": "2026-11-21, 10:00 UTC",
    }
    return Content(**(parts | changes))
