"""The page: a pure function from what was found to one HTML file that needs nothing else."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from PIL import Image

from paper_figures.claims.claim import Verdict, asked_for, measured, number
from paper_figures.figure import PaperFigure
from paper_figures.report import views
from paper_figures.report.evidence import Evidence
from paper_figures.report.stages import found_false

FOLDER = Path(__file__).parent
KEY = ("loss_against_bytes", "convergence_char_transformer", "variance_floor")
"""The figures that a reader sees first: traffic, convergence, robustness."""

KEY_WIDTH = 880
"""Width in pixels of their small form."""

SECTIONS = {
    "claims": "Claims",
    "figures": "Figures",
    "proofs": "Proofs",
    "checks": "Our implementations, checked",
    "mutants": "Mutants",
    "conformance": "Conformance of others",
    "kernels": "Kernels, measured",
    "repeat": "Environment, and how to repeat",
}


@dataclass(frozen=True, kw_only=True)
class Content:
    """All that the page shows.

    Attributes:
        evidence: by stage (``stages.gather``).
        claims: records of ``claims_table``.
        pictures: figures, each with its PNG file.
        conformance: reports on other implementations.
        false_alarms: the search among correct implementations; None if its file is not here.
        measurements: result files of the kernel benchmark.
        environment: machine and versions.
        scale: of the figures.
        left_figures: those that were left out, by name.
        left_claims: those that rest on them: id, title and the verdict that was recorded last, if there is one.
        written: when the page was made, as it is to be printed.
    """

    evidence: dict[str, Evidence]
    claims: Sequence[dict[str, Any]]
    pictures: Sequence[tuple[PaperFigure, Path]]
    conformance: Sequence[dict[str, Any]]
    false_alarms: dict[str, Any] | None
    measurements: Sequence[dict[str, Any]]
    environment: dict[str, str]
    scale: str
    left_figures: Sequence[str]
    left_claims: Sequence[tuple[str, str, str]]
    written: str


def render_page(content: Content) -> str:
    """The page as HTML. The same content gives the same page.

    Raises:
        OSError: a picture can't be read.
    """
    jinja = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    jinja.filters |= {"number": number, "p_value": p_value, "cell": cell}
    checks, check_rows = views.checks(content.evidence)
    falsehoods = found_false(content.evidence)
    pictures = [picture(figure, file, content.claims) for figure, file in content.pictures]
    return jinja.get_template("page.html.jinja").render(
        css=(FOLDER / "page.css").read_text(),
        sections=SECTIONS,
        anchors=anchors(content),
        summary=summary(content, falsehoods),
        falsehoods=falsehoods,
        evidence=content.evidence,
        claims=content.claims,
        tiles=tiles(content.claims),
        slug=slug,
        measured=measured,
        asked_for=asked_for,
        pictures=pictures,
        key=[shown for name in KEY for shown in pictures if shown["name"] == name],
        checks=checks,
        check_rows=check_rows,
        alarms=content.false_alarms,
        kills=views.kills(content.evidence["mutants"].result),
        conformance=[views.conformance(item) for item in content.conformance],
        measurements=[views.measurement(item) for item in content.measurements],
        environment=content.environment,
        scale=content.scale,
        left_figures=content.left_figures,
        left_claims=content.left_claims,
        written=content.written,
    )


def summary(content: Content, falsehoods: Sequence[str]) -> str:
    """The verdict in one paragraph of counts."""
    verdicts = Counter(claim["verdict"] for claim in content.claims)
    in_words = ", ".join(f"{verdicts[verdict]} {verdict}" for verdict in Verdict if verdicts[verdict])
    theorems = content.evidence["proofs"].result
    ranks = Counter(row["rank"] for row in theorems if row["holds"])
    held = ", ".join(f"{count} {rank}" for rank, count in ranks.most_common())
    checks, rows = views.checks(content.evidence)
    cells = [row.outcome for check in checks for row in check.rows]
    undecided = f", {unchecked} not checked" if (unchecked := cells.count("not checked")) else ""
    kills = content.evidence["mutants"].result["mutants"]
    counted = [row for row in kills if row["differs"]]
    found = sum(bool(row["killed_by"]) for row in counted)
    left = f" {len(content.left_claims)} more are left to onebit report --all." if content.left_claims else ""
    return (
        f"{len(content.claims)} claims: {in_words}.{left} "
        f"{sum(ranks.values())} of {len(theorems)} theorems hold ({held}). {len(rows)} properties were tried on "
        f"{len(checks)} implementations of ours: {cells.count('holds')} of {len(cells)} checks hold{undecided}. "
        f"{found} of {len(counted)} mutants were found. "
        + ("What must hold and does not, or was not checked:" if falsehoods else "Nothing failed that must not.")
    )


def anchors(content: Content) -> set[str]:
    """The ids that other parts of the page may link to."""
    return (
        {f"claim-{claim['id']}" for claim in content.claims}
        | {f"figure-{figure.name}" for figure, _ in content.pictures}
        | {f"theorem-{row['id']}" for row in content.evidence["proofs"].result}
        | {f"property-{row.id}" for row in views.checks(content.evidence)[1]}
    )


def picture(figure: PaperFigure, file: Path, claims: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """A figure with its PNG in base64, its size in pixels of the page, and the claims that its table decides."""
    with Image.open(file) as image:
        width, height = image.size
    return {
        "name": figure.name,
        "title": figure.title,
        "caption": figure.caption,
        "beside": figure.beside,
        "alt": f"{figure.title}. {figure.caption.partition('. ')[0].rstrip('.')}.",
        "base64": embedded(file, 256),
        "small": embedded(file, 64, KEY_WIDTH) if figure.name in KEY else "",
        "width": width,
        "height": height,
        "claims": [claim["id"] for claim in claims if figure.name in claim["figures"]],
    }


def embedded(file: Path, colors: int, most: int | None = None) -> str:
    """The picture in base64 with so many colours, a third of its bytes, and ``most`` pixels high and wide."""
    into = BytesIO()
    with Image.open(file) as image:
        plain = image.convert("RGB")
        if most:
            plain.thumbnail((most, most))
        plain.quantize(colors, dither=Image.Dither.NONE).save(into, "PNG", optimize=True)
    return base64.b64encode(into.getvalue()).decode()


def tiles(claims: Sequence[dict[str, Any]]) -> list[tuple[str, str, int]]:
    """Each verdict: its slug, its words, and how many claims have it."""
    counts = Counter(claim["verdict"] for claim in claims)
    return [(slug(verdict), str(verdict), counts[verdict]) for verdict in Verdict]


def slug(verdict: str) -> str:
    """A verdict as the name of a class: ``reproduced with conditions`` is ``reproduced-with-conditions``."""
    return str(verdict).replace(" ", "-")


def p_value(value: float | None) -> str:
    """Two digits; a dash for an exact check."""
    if value is None:
        return "–"
    return f"{value:.2g}" if value >= 1e-4 else "< 0.0001"


def cell(value: object) -> str:
    """A cell of a table of measurements: numbers to four digits, whole ones in full."""
    if isinstance(value, float) and not value.is_integer():
        return f"{value:.4g}"
    return f"{value:,.0f}" if isinstance(value, int | float) and not isinstance(value, bool) else str(value)
