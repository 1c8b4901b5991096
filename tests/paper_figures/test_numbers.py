"""Numbers in captions and on pages are computed: from the table that is drawn, or from the last record."""

from __future__ import annotations

import re
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from claims_curves import curves
from figures_support import FIGURES, RUN, TABLES, every_figure

from paper_figures import pages
from paper_figures.algorithms import ADAM, NO_FEEDBACK, ONE_BIT
from paper_figures.family import FAMILY
from paper_figures.figure import PLACE, filled
from paper_figures.figures import freeze_rule
from paper_figures.numbers import TOO_FEW, against, beside, listed, percent, share_of
from paper_figures.recorded import recorded

ROOT = Path(__file__).parents[2]

WORD = "two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|fifteen|sixteen|twenty|thirty|forty|fifty|hundreds?"
TYPED = re.compile(
    r"\d ?%|\d \([^()]* to [^()]*\)|\d(?: times|fold|x\b)"
    rf"|\b(?:{WORD}|\d+) of (?:the )?(?:{WORD}|\d+)\b|\b(?:{WORD})(?: times|fold)|\bseeds? of (?:{WORD})\b"
    rf"|\bfactor of (?:about )?(?:{WORD}|\d)"
    r"|\b(?:half as|a (?:third|quarter|fifth|sixth|seventh|eighth|tenth)) (?!of the run)"
)
"""What looks like a measurement: a percentage, a ratio, an interval, a count of seeds."""
SETTINGS = {
    "at most 5 %", "the margin of 5 %", "within 5 %", "warm-up of 15 %", "T_w of 10 % to 15 %", "3 % of the run",
    "within 4 %", "'up to 5x'",
    "95 % interval", "two of the four rows", "3.3 times is lower", "times longer for good, 5.8 times at T_w = 30",
    "1.6 % dense", "a warm-up of 30 steps", "at most 5 % is", "a fifteenth", "5 % above Adam's last",
}  # fmt: skip
"""What is chosen, published or derived, and looks like one."""


def typed(text):
    """What looks like a measurement and is typed in a template."""
    for setting in SETTINGS:
        text = text.replace(setting, "")
    return TYPED.findall(PLACE.sub("", text))


@every_figure
def test_no_measurement_is_typed_in_a_caption(figure):
    assert not typed(figure.caption)


def test_no_measurement_is_typed_on_a_page():
    assert not typed(pages.TEMPLATE.read_text())
    assert not typed(pages.CAPTION)


@pytest.mark.parametrize(
    "planted",
    [
        "ends at 0.94 times Adam's distance", "(0.80 to 1.11), so 0.9 (0.80 to 1.11)", "on three of five seeds",
        "with 69 % of its steps", "ends forty times above", "it grows fourfold", "two seeds of ten diverge",
        "behind by a factor of eight", "ends a quarter below Adam", "and ends half as high again",
    ],
)  # fmt: skip
def test_what_is_typed_is_seen(planted):
    assert typed(f"On the digits it {planted}, which is so.")


@every_figure
def test_every_number_of_a_caption_is_one_of_the_figure(figure):
    table = TABLES[figure.name]
    told = figure.filled(table).caption
    assert not PLACE.search(told)
    assert told == figure.filled(table.sample(frac=1, random_state=0) if figure.runs else table).caption


def test_a_name_that_there_is_not_is_refused():
    with pytest.raises(ValueError, match="there is no number 'nobody'; there are 'a'"):
        filled("It ends {nobody}.", {"a": "1"})
    figure = replace(FIGURES["freeze_rule"], caption="It ends {nobody}.")
    with pytest.raises(ValueError, match="no number 'nobody'"):
        figure.filled(TABLES["freeze_rule"])


def test_the_caption_of_the_freeze_rule_follows_its_table():
    """Four of the five seeds freeze on the digits, and end where the table says."""
    table = TABLES["freeze_rule"].assign(frozen=1.0)
    own = table["label"] == freeze_rule.TWO_SIDED.label
    digits = table["problem"] == "mlp"
    table.loc[own & digits & (table["seed"] == 0), "frozen"] = 0.0
    table.loc[own & digits & (table["seed"] == 1), "loss"] *= 3
    told = FIGURES["freeze_rule"].filled(table).caption
    assert "On the digits 4 of 5 seeds freeze, and end at 1, 1, 1 and 3 times Adam's loss" in told


def test_numbers_by_hand():
    assert beside(np.log([1.02, 1.02, 1.02, 1.02, 1.0201]), "Adam") == "2.0 % above Adam"
    assert beside(np.log([0.8, 0.8, 0.8, 0.8, 0.8001]), "Adam") == "20 % below Adam"
    assert beside(np.log([3.0, 3.0, 3.0, 3.0, 3.001]), "Adam") == "3 times as high as Adam"
    assert beside(np.log([0.9, 1.1, 0.9, 1.1, 1.0]), "Adam").startswith("where 5 seeds do not tell it from Adam (−")
    assert (percent(0.0), percent(0.069), percent(0.0999), percent(1.0)) == ("0 %", "6.9 %", "10 %", "100 %")
    assert (listed([3, 1, 2]), listed([1]), listed([])) == ("1, 2 and 3", "1", "")
    assert share_of(np.array([True, False])) == "1 of 2"
    table = curves({ADAM.label: 1e-2, ONE_BIT.label: 2e-2})
    found = against(table, (ONE_BIT,), ADAM, "loss")
    assert found["1-bit Adam, diverge"] == "0 of 6"
    assert float(found["1-bit Adam, times"]) == pytest.approx(2, rel=0.05)
    few = table.loc[table["seed"] < 4]
    few = pd.concat([few, table.loc[table["label"] == ADAM.label]])
    assert set(against(few, (ONE_BIT, NO_FEEDBACK), ADAM, "loss").values()) == {TOO_FEW}


def test_the_pages_are_those_of_the_record():
    assert (ROOT / "docs/choosing.md").read_text() == pages.choosing(recorded()), "python -m paper_figures.pages"
    text = (ROOT / "README.md").read_text()
    assert len(pages.PARAGRAPH.findall(text)) == 1
    assert text == pages.readme(text, recorded()), "python -m paper_figures.pages"


def test_another_record_makes_other_pages():
    """So a number that was typed by hand, or is older than the record, is seen."""
    record, text = deepcopy(recorded()), (ROOT / "README.md").read_text()
    record["numbers"]["overview"]["character transformer: 1-bit Adam"] = "0.6 % above Adam"
    assert "0.6 % above Adam" in pages.readme(text, record) != text
    record["checks"]["P31"] = [[a, b, "0.99 (0.98 to 1) of the gap", d, e] for a, b, _, d, e in record["checks"]["P31"]]
    assert "0.99 (0.98 to 1) of the gap" in pages.choosing(record) != pages.choosing(recorded())
    label = next(iter(record["family_table"]))
    record["family_table"][label] = ["| a wrong line |", "in 1999"]
    page = pages.choosing(record)
    assert "\n| a wrong line |\n" in page
    assert f"in 1999: {label}." in page


def test_the_table_of_all_systems_has_all_of_them():
    assert list(recorded()["family_table"]) == [algorithm.label for algorithm in FAMILY]
    for label, (row, _) in recorded()["family_table"].items():
        assert row.startswith(f"| {label} | ")


def test_the_record_has_the_numbers_of_figures_that_there_are():
    assert set(recorded()["numbers"]) <= {name for name, figure in RUN.items() if figure.numbers}
    for name, numbers in recorded()["numbers"].items():
        assert set(numbers) == set(FIGURES[name].numbers(TABLES[name])), f"{name}: python -m paper_figures.recorded"
