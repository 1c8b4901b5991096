"""The documentation builds as a site without a warning; a broken link does not pass."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from verification.search.clauses import CLAUSES

ROOT = Path(__file__).parents[1]
SOURCES = ("mkdocs.yml", "README.md", "CONTRIBUTING.md", "docs", "onebit.py", "reference", "theory", "gpu_impl",
           "verification", "paper_figures")  # fmt: skip


def build(root, out):
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(out)],
        capture_output=True, text=True, check=False, cwd=root, timeout=1800,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
    )  # fmt: skip


def test_the_site_builds(tmp_path):
    done = build(ROOT, tmp_path / "site")
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "site" / "api" / "gpu_impl.html").read_text()
    assert "freeze_step" in page
    assert ":class:<code>" not in page


@pytest.mark.parametrize(
    ("page", "line"),
    [
        ("docs/kernels.md", "[a page](nowhere.md)"),
        ("docs/kernels.md", "[a place](algorithm.md#nowhere)"),
        ("README.md", "[a page](docs/nowhere.md)"),
    ],
)
def test_a_broken_link_is_found(tmp_path, page, line):
    root = tmp_path / "root"
    root.mkdir()
    for name in SOURCES:
        (root / name).symlink_to(ROOT / name)
    for name in ("docs", "README.md"):
        (root / name).unlink()
    shutil.copytree(ROOT / "docs", root / "docs", ignore=shutil.ignore_patterns("api", "theory.md"))
    shutil.copy(ROOT / "README.md", root / "README.md")
    shorter = (
        (root / "mkdocs.yml").read_text().partition("  - Reference:")[0].replace("  - The theorems: theory.md\n", "")
    )
    (root / "mkdocs.yml").unlink()
    (root / "mkdocs.yml").write_text(shorter)
    (root / page).write_text((root / page).read_text() + f"\n{line}\n")
    done = build(root, tmp_path / "site")
    assert done.returncode != 0
    assert "nowhere" in done.stderr


def test_the_page_lists_every_clause_of_a_report():
    page = (ROOT / "docs" / "verification.md").read_text()
    table = page.partition("## The clauses\n")[2].partition("\n## ")[0]
    listed = [line for line in table.splitlines() if line.startswith("| `")]
    assert listed == [f"| `{clause.id}` | {clause.law} | {clause.title} |" for clause in CLAUSES]
