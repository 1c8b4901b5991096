"""The pages whose numbers are those of the last record: docs/choosing.md, and the caption of README's picture.

``python -m paper_figures.pages`` writes both anew, from ``choosing.md.in``, ``CAPTION`` and ``recorded.json``. A number
stands there as a name in braces: ``{gan: blocks of 32}`` is what the figure calls so (``PaperFigure.numbers``),
``{P31: GAN on digits, blocks of 32}`` what was measured in this check of the claim, ``{P31: verdict}`` its verdict.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import typer

from onebit_files import write_atomically
from paper_figures.algorithms import ADAM, ADAM_CORRECTED, TUNED
from paper_figures.claims.claim import number
from paper_figures.family_table import head
from paper_figures.figure import filled
from paper_figures.recorded import recorded

ROOT = Path(__file__).parents[1]
TEMPLATE = Path(__file__).with_name("choosing.md.in")

WIDTH = 120

MEASURED = re.compile(r"\S+(?: \([^()]* to [^()]*\))?")
"""What was measured, with its interval, in front of its unit."""

CAPTION = """*Eight workers, every algorithm at the best step size of one grid, the uncompressed warm-up of 15 %
counted. 1-bit Adam ends {overview: character transformer: 1-bit Adam} on the held-out loss of the transformer. On that
of the autoencoder it ends {overview: denoising autoencoder: 1-bit Adam}. It sends
{overview: character transformer: 1-bit Adam, fewer} times fewer bytes. (That is Adam as in the paper, without bias
correction. On the autoencoder that Adam itself ends {short_warmup: denoising autoencoder: Adam, uncorrected}, and
1-bit Adam {short_warmup: denoising autoencoder: 1-bit Adam} with it; on the transformer
{short_warmup: character transformer: 1-bit Adam} with it: [which to choose](docs/choosing.md).)
Most of what 1-bit Adam sends is its warm-up. Two-sided error-compensated SGD has none: it sends
{overview: character transformer: SGD: two-sided EF-SGD, bytes} of the bytes. It ends
{overview: character transformer: SGD: two-sided EF-SGD} on the transformer, and
{overview: denoising autoencoder: SGD: two-sided EF-SGD} on the autoencoder.*
"""
"""The paragraph under README's picture."""

PARAGRAPH = re.compile(r"^\*Eight workers, .*?\*\n(?=\n)", flags=re.MULTILINE | re.DOTALL)


def numbers(record: Mapping[str, Any]) -> dict[str, str]:
    """All numbers of a record, by the names that pages use."""
    found = {f"{figure}: {name}": value for figure, some in record["numbers"].items() for name, value in some.items()}
    for claim, rows in record["checks"].items():
        found |= {f"{claim}: {setting}": MEASURED.match(measured)[0] for setting, _, measured, *_ in rows}  # type: ignore[index]
    found |= {f"{claim}: verdict": verdict for claim, verdict in record["verdicts"].items()}
    found |= {f"tuned: {name}": number(lr[ADAM_CORRECTED.label] / lr[ADAM.label]) for name, lr in TUNED.items()
              if ADAM_CORRECTED.label in lr}  # fmt: skip
    return found | {"family table": "\n".join(family_table(record)), "measured": record["measured"]}


def family_table(record: Mapping[str, Any]) -> Iterator[str]:
    """The table of all systems, and below it which rows are older than the other numbers."""
    yield head()
    older: dict[str, list[str]] = {}
    for label, (row, measured) in record["family_table"].items():
        yield row
        if measured != record["measured"]:
            older.setdefault(measured, []).append(label)
    if older:
        rows = [f"{measured}: {'; '.join(labels)}" for measured, labels in older.items()]
        yield f"\nRows that were not measured with the rest of this page. {'. '.join(rows)}."


def wrapped(text: str) -> str:
    """Paragraphs in lines of equal length; tables, headings, lists and pictures as they are."""
    fill = partial(textwrap.fill, width=WIDTH, break_long_words=False, break_on_hyphens=False)
    blocks = text.removesuffix("\n").split("\n\n")
    return "\n\n".join(block if block.startswith(("|", "#", "- ", "!")) else fill(block) for block in blocks) + "\n"


def choosing(record: Mapping[str, Any]) -> str:
    """docs/choosing.md."""
    return wrapped(filled(TEMPLATE.read_text(encoding="utf-8"), numbers(record)))


def readme(text: str, record: Mapping[str, Any]) -> str:
    """README with the numbers of the record in the caption of its picture."""
    caption = wrapped(filled(CAPTION, numbers(record)))
    return PARAGRAPH.sub(lambda _: caption, text)


def write(record: Mapping[str, Any]) -> None:
    """Write both pages."""
    write_atomically(ROOT / "docs" / "choosing.md", choosing(record))
    page = ROOT / "README.md"
    write_atomically(page, readme(page.read_text(encoding="utf-8"), record))


def main() -> None:
    """Write docs/choosing.md and the caption of README's picture anew, from what was recorded last."""
    write(recorded())


if __name__ == "__main__":
    typer.run(main)
