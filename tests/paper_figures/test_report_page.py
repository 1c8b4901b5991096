"""The report's page: a pure function of its content, complete, valid, readable, and safe from what it quotes."""

from __future__ import annotations

import base64
import dataclasses
import re
from collections import Counter
from io import BytesIO

import made_up_report as made_up
import matplotlib.pyplot as plt
import numpy as np
import pytest
from html_checks import problems, read
from PIL import Image

from paper_figures.report import committed
from paper_figures.report.page import FOLDER, SECTIONS, embedded, render_page
from paper_figures.report.stages import found_false
from paper_figures.report.views import kill_grid

HOSTILE = """<script>alert("x")</script> & 'quoted' "--><b>"""


@pytest.fixture(scope="module")
def content(tmp_path_factory):
    return made_up.content(tmp_path_factory.mktemp("pictures"))


@pytest.fixture(scope="module")
def page(content):
    return render_page(content)


def test_nothing_is_wrong_with_the_page(page):
    assert problems(page) == []


PLANTED = {
    "closes": ("</td>", ""),
    "leads nowhere": ('href="#claims"', 'href="#claimz"'),
    "no alternative text": (' alt="', ' title="'),
    "loaded from elsewhere": ("data:image/png;base64,", "https://example.org/"),
    "there is a script": ("</main>", "<script></script></main>"),
    "have the id": ('id="figures"', 'id="claims"'),
    "headings of the first level": ("<h1>", "<h1></h1><h1>"),
    "follows one of level": ("<h3>", "<h5></h5><h3>"),
    "stands in": ("<td>", "<p><td>"),
    "is not closed": ("</html>", ""),
    "style loads": ("<style>", "<style>@import"),
}


@pytest.mark.parametrize("says", PLANTED)
def test_the_check_finds_planted_faults(page, says):
    good, bad = PLANTED[says]
    assert good in page
    assert any(says in problem for problem in problems(page.replace(good, bad, 1)))


def test_everything_has_its_place(page, content):
    ids = set(read(page).ids)
    assert {f"claim-{claim['id']}" for claim in content.claims} <= ids
    assert {f"figure-{figure.name}" for figure, _ in content.pictures} <= ids
    assert {f"theorem-{row['id']}" for row in content.evidence["proofs"].result} <= ids
    properties = {f"property-{row['id']}" for row in content.evidence["mutants"].result["properties"]}
    assert properties - ids == {"property-optimizer.between"}
    assert set(SECTIONS) <= ids
    for row in content.evidence["mutants"].result["mutants"]:
        assert (row["bug"] in page) == row["differs"]  # what changes nothing is no bug
    for item in content.conformance:
        assert f"{item['package']} {item['version']}" in page


def test_every_results_file_is_shown_with_its_device_versions_and_date(page):
    results = committed.ROOT / "gpu_impl" / "benchmarks" / "results"
    assert {path.stem for path in results.glob("*.csv")} <= {path.stem for path in results.glob("*.json")}
    shown = committed.measurements()
    assert [item["file"] for item in shown] == sorted(path.name for path in results.glob("*.json"))
    for item in shown:
        assert item["file"] in page
        for name in ("device", "torch", "date"):
            assert f"{name} {item['environment'][name]}" in page


def strings(value, path=()):
    """Where in nested plain data the strings are."""
    if isinstance(value, str):
        yield path
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from strings(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from strings(item, (*path, index))


def replaced(value, text):
    """``value`` with every string but ids and words that the page looks up replaced by ``text``."""
    kept = {"id", "property", "outcome", "verdict", "mutant", "level", "family", "figures", "theorems", "laws",
            "properties", "part", "file", "target", "killed_by", "source_digest", "name"}  # fmt: skip
    if isinstance(value, str):
        return text
    if isinstance(value, dict):
        return {key: item if key in kept and not isinstance(item, dict) and key != "properties"
                else replaced(item, text) if key != "killed_by" else item
                for key, item in value.items()}  # fmt: skip
    return [replaced(item, text) for item in value] if isinstance(value, list) else value


def test_what_it_quotes_cannot_break_it(content):
    figures = [
        (dataclasses.replace(figure, title=HOSTILE, caption=HOSTILE, beside=HOSTILE), file)
        for figure, file in content.pictures
    ]
    found = {
        name: dataclasses.replace(item, command=HOSTILE, result=replaced(item.result, HOSTILE))
        for name, item in content.evidence.items()
    }
    claims = [
        {**claim, **dict.fromkeys(("title", "statement", "where", "published", "why", "conditions"), HOSTILE)}
        for claim in content.claims
    ]
    page = render_page(
        dataclasses.replace(
            content,
            evidence=found,
            pictures=figures,
            claims=claims,
            conformance=replaced(list(content.conformance), HOSTILE),
            measurements=replaced(list(content.measurements), HOSTILE),
            environment={HOSTILE: HOSTILE},
            written=HOSTILE,
        )
    )
    assert problems(page) == []
    assert "".join(read(page).text).count(HOSTILE) > 500, "and nothing of it is lost"


def test_the_same_content_gives_the_same_page(content, page):
    assert render_page(content) == page
    later = render_page(dataclasses.replace(content, written="2031-01-01, 00:00 UTC"))
    changed = [line for line, other in zip(page.splitlines(), later.splitlines(), strict=True) if line != other]
    assert len(changed) == 1
    assert "Page written on" in changed[0]


def verdict(page):
    return re.search(r'<p class="(verdict.*?)" id="verdict">(.*?)</p>', page).groups()


def test_the_summary_counts(content, page):
    look, text = verdict(page)
    assert look == "verdict"
    counts = Counter(claim["verdict"] for claim in content.claims)
    for name, count in counts.items():
        assert f"{count} {name}" in text
    theorems = len(made_up.proofs())
    properties = sum(len(item.result["properties"]) for name, item in content.evidence.items() if "verify" in name)
    assert f"{theorems} of {theorems} theorems hold" in text
    assert f"{properties} of {properties} checks hold" in text
    killed = sum(row["differs"] for row in made_up.mutants()["mutants"])
    assert f"{killed} of {killed} mutants" in text, "the one that is proved to be none is not counted"
    assert "Nothing failed that must not" in text


def fail_a_theorem(evidence):
    evidence["proofs"].result[0] |= {"holds": False, "faults": ["the second line"]}


def break_a_law(evidence):
    evidence["verify-optimizer"].result["properties"][2] |= {
        "outcome": "fails", "findings": [{"message": "element 7 moved"}], "counterexample": "x = 1",
    }  # fmt: skip


def leave_a_law_unchecked(evidence):
    evidence["verify-optimizer"].result["properties"][2] |= {"outcome": "not checked", "note": "the time was over"}


def test_what_was_not_checked_is_no_dash(tmp_path):
    content = made_up.content(tmp_path)
    leave_a_law_unchecked(content.evidence)
    page = render_page(content)
    assert '<td class="nowrap" title="the time was over">not checked</td>' in page
    assert " checks hold, 1 not checked. " in verdict(page)[1]


def let_bugs_live(evidence):
    for row in evidence["mutants"].result["mutants"][::3]:
        row["killed_by"] = {}


@pytest.mark.parametrize("plant", [fail_a_theorem, break_a_law, leave_a_law_unchecked, let_bugs_live])
def test_what_is_false_stands_at_the_top(tmp_path, plant):
    content = made_up.content(tmp_path)
    assert found_false(content.evidence) == []
    plant(content.evidence)
    lines = found_false(content.evidence)
    page = render_page(content)
    assert problems(page) == []
    look, text = verdict(page)
    assert look == "verdict false"
    assert "What must hold and does not, or was not checked" in text
    assert lines
    assert all(f'<li class="bad">{line}</li>' in page for line in lines)


def test_a_card_shows_the_check_that_decides(content):
    checks = [
        made_up.check(0) | {"setting": "the first", "value": 1.0},
        made_up.check(0) | {"setting": "the second", "value": 7.25, "outcome": "fails", "holds": False},
    ]
    claim = {**content.claims[0], "checks": checks, "deciding": 1, "verdict": "not reproduced"}
    page = render_page(dataclasses.replace(content, claims=[claim]))
    card = re.search(r'<dl class="deciding">(.*?)</dl>', page, flags=re.DOTALL)[1]
    assert "the second" in card
    assert "7.25 (0.9 to 1.1)" in card
    assert "the first" not in card


@pytest.mark.parametrize(("outcome", "says"), [("not decided", "– not decided"), ("fails", "✗ fails")])
def test_a_test_that_shows_nothing_has_not_failed(content, outcome, says):
    check = content.claims[0]["checks"][0] | {"outcome": outcome, "holds": False}
    claim = {**content.claims[0], "checks": [check]}
    assert f"{says}</span></td>" in render_page(dataclasses.replace(content, claims=[claim]))


def test_a_claim_that_is_not_reproduced_is_no_falsehood(content):
    assert any(claim["verdict"] == "not reproduced" for claim in content.claims)
    assert found_false(content.evidence) == []


@pytest.mark.parametrize("level", ["collective", "optimizer"])
def test_the_kill_grid_counts_bugs(level):
    matrix = made_up.mutants()
    grid = kill_grid(matrix, level)
    mutants = [row for row in matrix["mutants"] if row["level"] == level and row["differs"]]
    assert grid["size"] == len(mutants) == sum(grid["families"].values())
    for row in grid["rows"]:
        found = [m["family"] for m in mutants if row["id"] in m["killed_by"]]
        assert [cell["count"] for cell in row["cells"]] == [found.count(family) for family in grid["families"]]
        assert row["total"] == 3
        for cell, size in zip(row["cells"], grid["families"].values(), strict=True):
            assert (cell["shade"] == 0) == (cell["count"] == 0)
            assert cell["shade"] - 1 < 4 * cell["count"] / size <= cell["shade"]


def luminance(color):
    """Relative luminance, WCAG 2.2."""
    channels = (int(color[i : i + 2], 16) / 255 for i in (1, 3, 5))
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def blend(over, under, share):
    parts = [share * a + (1 - share) * int(under[i : i + 2], 16) for a, i in zip(over, (1, 3, 5), strict=True)]
    return "#" + "".join(f"{round(part):02x}" for part in parts)


@pytest.mark.parametrize("scheme", ["light", "dark", "print"])
def test_text_has_the_contrast_that_wcag_asks_for(scheme):
    """At least 4.5 to 1 (WCAG 2.2, success criterion 1.4.3)."""
    css = (FOLDER / "page.css").read_text()
    blocks = re.findall(r":root \{(.*?)\}", css, flags=re.DOTALL)
    colors = {}
    for block in {"light": blocks[:1], "dark": blocks[:2], "print": [blocks[0], blocks[2]]}[scheme]:
        colors |= dict(re.findall(r"--([a-z]+): ([^;]+);", block))
    strongest = max(float(x) for x in re.findall(r"rgba\(var\(--shade\), ([0-9.]+)\)", css))
    shade = blend([int(x) for x in colors["shade"].split(",")], colors["page"], strongest)
    pairs = [(colors[text], colors[under]) for text in ("text", "quiet", "link", "good", "partly", "bad")
             for under in ("page", "box")] + [(colors["text"], shade)]  # fmt: skip
    for text, under in pairs:
        light, dark = sorted((luminance(text), luminance(under)), reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 4.5, f"{text} on {under}"


def test_a_picture_travels_with_half_of_its_bytes_and_looks_the_same(tmp_path):
    """A page of all figures stays below 6 MB."""
    file, (canvas, axes) = tmp_path / "lines.png", plt.subplots(dpi=160)
    for k in range(8):
        axes.fill_between(np.arange(9), np.sin(np.arange(9) + k) - 0.2, np.sin(np.arange(9) + k), alpha=0.3)
    canvas.savefig(file)
    plt.close(canvas)
    travels = base64.b64decode(embedded(file, 256))
    assert len(travels) < file.stat().st_size / 2
    with Image.open(file) as before, Image.open(BytesIO(travels)) as after:
        difference = np.abs(np.asarray(before.convert("RGB"), float) - np.asarray(after.convert("RGB"), float))
    assert difference.max() < 32, "of 255: no line or band changes its colour"
