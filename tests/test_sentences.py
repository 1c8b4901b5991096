"""Plain English: sentences of README and of the pages are short; the glossary has the ids and terms that they use."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from verification.search.clauses import CLAUSES

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
GENERATED = {"theory.md"}
"""Long by nature: one statement after another, written by a program that has a test of its own."""

MOST_WORDS = 35

ENDS = r"(?<=[.:;?!])[\s*)]+(?=[A-Zα-ωΑ-Ω*`\[(]|\d)|; "
"""Where a sentence ends: at a stop, colon or semicolon before something that can begin one."""


def sentences(text):
    """The sentences of a page, without code, tables, headings and targets of links; an item of a list is its own."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"^( {4}|\||#).*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    text = re.sub(r"`[^`]*`", "Code", text)
    for block in re.split(r"\n\s*\n|\n\s*(?:[-*]|\d+\.) ", text):
        yield from re.split(ENDS, " ".join(block.split()))


def words(sentence):
    return re.findall(r"[^\s]*\w[^\s]*", sentence)


@pytest.mark.parametrize("page", [page for page in PAGES if page.name not in GENERATED], ids=lambda page: page.name)
def test_sentences_are_short(page):
    long = [sentence for sentence in sentences(page.read_text()) if len(words(sentence)) > MOST_WORDS]
    assert not long, "\n\n".join(f"{len(words(sentence))}: {sentence}" for sentence in long)


GLOSSARY = (ROOT / "docs" / "glossary.md").read_text()
TERMS = {
    "lane", "chunk", "row", "pair", "level", "covering array", "residual", "guard", "worker", "scale", "message",
    "round", "bucket", "backend", "adapter", "clause", "finding", "profile", "feature", "triple", "verdict",
    "margin", "seed", "virtual iterate", "dyadic", "live", "trigger", "mutant", "tolerance", "relation", "kernel",
    "unique kill", "crossover", "trust ratio", "digest", "non-inferiority", "Holm", "two-sided", "roofline",
}  # fmt: skip


def test_the_glossary_has_the_terms_and_kinds_of_ids():
    told = {
        name for row in re.findall(r"^\| ([^|]+) \|", GLOSSARY, flags=re.MULTILINE) for name in re.split(r", | \(", row)
    }
    known = {re.sub(r"[ )]*$", "", name) for name in told}
    assert not {term for term in TERMS if not any(name.startswith(term) for name in known)}
    for start in ("C1", "L1", "T1a", "P1", CLAUSES[-3].id.partition(".")[0]):
        assert re.search(rf"^\| `?{start}", GLOSSARY, flags=re.MULTILINE), start


def test_a_long_sentence_is_seen():
    text = "A short one. W" + "ord word " * 18 + "end.\n\n```\n" + "code " * 50 + "\n```\n"
    assert [len(words(sentence)) for sentence in sentences(text) if len(words(sentence)) > MOST_WORDS] == [37]
