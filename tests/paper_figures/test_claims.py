"""Claims: every verdict can come out either way, and comes out right on made-up facts."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path

import pandas as pd
import pytest
from claims_support import (
    CLAIMS,
    GOOD,
    bad_facts,
    decide_one,
    exchange,
    fatal_facts,
    mutants,
    partly_bad_facts,
    true_facts,
)  # fmt: skip

from paper_figures.claims.claim import Check, Claim, Verdict
from paper_figures.claims.cli import rests_on
from paper_figures.claims.document import to_markdown
from paper_figures.claims.facts import ONE_BIT_UNFUSED, ONE_BIT_WHOLE
from paper_figures.claims.registry import claims_table
from paper_figures.render import all_figures
from theory.registry import all_theorems
from verification.search.clauses import CLAUSES as CHECKED

ROOT = Path(__file__).parents[2]
every_claim = pytest.mark.parametrize("claim", CLAIMS.values(), ids=CLAIMS)


@every_claim
def test_reproduced_where_it_is_true(claim):
    record = decide_one(claim, true_facts(claim))
    assert record["verdict"] == Verdict.REPRODUCED, record["why"]


@every_claim
def test_not_reproduced_where_it_is_false(claim):
    false = bad_facts()
    assert claim.id in false, f"{claim.id} needs facts on which it is false: bad_facts in claims_support.py"
    record = decide_one(claim, GOOD | false[claim.id])
    assert record["verdict"] == Verdict.NOT_REPRODUCED, record["why"]


@pytest.mark.parametrize(
    ("verdict", "name", "change", "settings"),
    [(Verdict.CONDITIONS, *case) for case in partly_bad_facts()]
    + [(Verdict.NOT_REPRODUCED, *case) for case in fatal_facts()],
)
def test_the_settings_that_fail_are_the_ones_that_are_false(verdict, name, change, settings):
    record = decide_one(CLAIMS[name], GOOD | change)
    assert [check["setting"] for check in record["checks"] if not check["holds"]] == settings
    assert record["verdict"] == verdict


@pytest.mark.parametrize("claim", [c for c in CLAIMS.values() if c.pair], ids=lambda c: c.id)
def test_exchanged_labels_overturn_the_verdict(claim):
    record = decide_one(claim, exchange(GOOD, *claim.pair, claim.pair_column))
    assert record["verdict"] == Verdict.NOT_REPRODUCED, record["why"]


@pytest.mark.parametrize("claim", [c for c in CLAIMS.values() if not c.pair], ids=lambda c: c.id)
def test_a_claim_without_a_pair_compares_no_algorithms(claim):
    """If exchanging some two labels changes its verdict it does compare them, and has to declare the pair."""
    tables = [fact for name in claim.needs if isinstance(fact := GOOD[name], pd.DataFrame) and "label" in fact]
    labels = {label for table in tables for label in table["label"]}
    for first, second in itertools.combinations(sorted(labels), 2):
        assert decide_one(claim, exchange(GOOD, first, second))["verdict"] == Verdict.REPRODUCED


@pytest.mark.parametrize("claim", [c for c in CLAIMS.values() if "proofs" in c.others], ids=lambda c: c.id)
def test_a_claim_falls_with_its_theorems(claim):
    proofs = [row | {"holds": False} for row in GOOD["proofs"]]
    assert decide_one(claim, GOOD | {"proofs": proofs})["verdict"] == Verdict.NOT_REPRODUCED


@pytest.mark.parametrize("claim", [c for c in CLAIMS.values() if "verify-reference" in c.others], ids=lambda c: c.id)
def test_every_report_of_a_check_counts(claim):
    for name in claim.others:
        if name.startswith("verify"):
            failing = [row | {"outcome": "fails"} for row in GOOD[name]["properties"]]
            record = decide_one(claim, GOOD | {name: {"properties": failing}})
            assert record["verdict"] == Verdict.NOT_REPRODUCED


@every_claim
def test_missing_facts_decide_nothing(claim):
    assert claim.needs
    for name in claim.needs:
        record = decide_one(claim, {key: fact for key, fact in GOOD.items() if key != name})
        assert record["verdict"] == Verdict.NOT_DECIDED
        assert name in record["why"]
        assert decide_one(claim, GOOD | {name: None})["verdict"] == Verdict.NOT_DECIDED


@every_claim
def test_facts_that_are_not_read_change_nothing(claim):
    """What it declares is all that it reads."""
    assert decide_one(claim, {name: true_facts(claim)[name] for name in claim.needs})["verdict"] == Verdict.REPRODUCED


@every_claim
def test_too_few_seeds_decide_nothing(claim):
    tables = {name: GOOD[name] for name in claim.needs if isinstance(GOOD[name], pd.DataFrame) and "seed" in GOOD[name]}
    few = {name: table[table["seed"] < 4] for name, table in tables.items()}
    record = decide_one(claim, GOOD | few)
    if any(check["n_seeds"] for check in decide_one(claim, GOOD)["checks"]) and few:
        assert record["verdict"] == Verdict.NOT_DECIDED


@every_claim
def test_measuring_is_pure(claim):
    kept = {name: fact.copy() if isinstance(fact, pd.DataFrame) else json.dumps(fact) for name, fact in GOOD.items()}
    first, second = decide_one(claim, GOOD), decide_one(claim, GOOD)
    assert first == second
    for name, fact in GOOD.items():
        if isinstance(fact, pd.DataFrame):
            pd.testing.assert_frame_equal(fact, kept[name])
        else:
            assert json.dumps(fact) == kept[name]


@every_claim
def test_references_exist(claim):
    assert set(claim.theorems) <= {theorem.id for theorem in all_theorems()}
    assert set(claim.properties) <= {clause.id for clause in CHECKED}
    assert set(claim.figures + claim.shown_in) <= set(all_figures())
    laws = set(re.findall(r"^\| (L\d+) \|", (ROOT / "docs/algorithm.md").read_text(), flags=re.MULTILINE))
    laws |= set(re.findall(r"^- \*\*(C\d+),", (ROOT / "docs/algorithm.md").read_text(), flags=re.MULTILINE))
    assert set(claim.laws) <= laws


class Watched(dict):
    """Facts that remember which of them were read."""

    def __init__(self, facts):
        super().__init__(facts)
        self.read = set()

    def __getitem__(self, name):
        self.read.add(name)
        return super().__getitem__(name)


@every_claim
def test_page_and_command_name_what_is_read_and_nothing_else(claim):
    """The figures and other facts of docs/claims.md, of ``onebit claims ID``, and those that ``measure`` reads."""
    facts = Watched(true_facts(claim))
    claim.measure(facts)
    (bullets,) = re.findall(rf"^## {claim.id}\..*?(?=^## |\Z)", to_markdown([claim]), flags=re.MULTILINE | re.DOTALL)
    told = rests_on([claim])
    for name, known in (("figures", set(all_figures())), ("other facts", set(GOOD) - set(all_figures()))):
        line = re.search(rf"^- {name}: (.*)$", bullets, flags=re.MULTILINE)
        assert set(re.findall(r"`([^`]+)`", line[1]) if line else ()) == facts.read & known
    read, _, too = told.partition("; beside it, and deciding nothing: ")
    assert set(re.findall(r"[\w-]+", read)) & set(GOOD) == facts.read
    assert set(re.findall(r"\w+", too)) & set(all_figures()) == set(claim.shown_in)


def test_ids_are_unique_and_without_a_gap():
    assert [claim.id for claim in CLAIMS.values()] == [f"P{k}" for k in range(1, len(CLAIMS) + 1)]
    assert len(CLAIMS) >= 20


def test_what_is_published_names_its_claim():
    """docs/published.md and the registry agree on the ids: each that is seen or recalled stands there."""
    named = set(re.findall(r"\bP\d+\b", (ROOT / "docs/published.md").read_text()))
    assert named <= set(CLAIMS)
    assert {claim.id for claim in CLAIMS.values() if claim.source != "ours"} <= named


def test_records_are_json():
    records = claims_table(GOOD)
    assert json.loads(json.dumps(records, allow_nan=False)) == records
    assert [record["id"] for record in records] == list(CLAIMS)


def test_correction_is_within_a_claim():
    """A p-value that would do alone does not among twenty of its kind; another claim's checks have no say."""

    def weak(number, n_checks=1, p_value=0.01, p_contrary=0.99):
        check = Check(setting="s", value=1.0, unit="u", test="t", p_value=p_value, p_contrary=p_contrary)
        return Claim(
            id=f"P{number}", title="", statement="", where="", published="", source="ours", conditions="",
            pair=None, measure=lambda facts: [check] * n_checks,
        )  # fmt: skip

    assert {record["verdict"] for record in claims_table({}, [weak(k) for k in range(20)])} == {Verdict.REPRODUCED}
    assert claims_table({}, [weak(1, 20)])[0]["verdict"] == Verdict.NOT_DECIDED
    assert claims_table({}, [weak(1, 1, 0.99, 0.01)])[0]["verdict"] == Verdict.NOT_REPRODUCED
    assert claims_table({}, [weak(1, 20, 0.99, 0.01)])[0]["verdict"] == Verdict.NOT_DECIDED
    exact = Check(setting="s", value=1.0, unit="u", test="t", exact=True)
    assert exact.p_value is None
    with pytest.raises(ValueError, match="either exact, or both"):
        Check(setting="s", value=1.0, unit="u", test="t")


def test_whole_registry_survives_its_own_correction():
    """All at once, all that is true is still found; two need facts of their own, see ``true_facts``."""
    verdicts = {record["id"]: record["verdict"] for record in claims_table(GOOD)}
    assert {name for name, verdict in verdicts.items() if verdict != Verdict.REPRODUCED} == {"P22", "P31", "P35"}


def test_the_page_is_what_the_registry_says():
    page = to_markdown(CLAIMS.values())
    assert (ROOT / "docs/claims.md").read_text() == page, "python -m paper_figures.claims.document > docs/claims.md"
    headings = set(re.findall(r"^## (P\d+)\.", page, flags=re.MULTILINE))
    assert headings == set(CLAIMS)


def test_a_bug_that_is_none_is_excused():
    harmless = {"mutants": [*mutants(149)["mutants"], {"mutant": "a", "killed_by": [], "differs": False}]}
    assert decide_one(CLAIMS["P28"], GOOD | {"mutants": harmless})["verdict"] == Verdict.REPRODUCED


@pytest.mark.parametrize(
    ("found", "missed", "verdict"),
    [
        (46, 0, Verdict.NOT_DECIDED),
        (148, 0, Verdict.NOT_DECIDED),
        (149, 0, Verdict.REPRODUCED),
        (200, 4, Verdict.NOT_DECIDED),
        (600, 4, Verdict.REPRODUCED),
        (140, 9, Verdict.NOT_REPRODUCED),
    ],
)
def test_a_sample_decides_by_its_size_too(found, missed, verdict):
    """P28: 0 of 46 leaves room for a share far above 2 %; 149 are the fewest that can decide it."""
    (check,) = (record := decide_one(CLAIMS["P28"], GOOD | {"mutants": mutants(found, missed)}))["checks"]
    assert record["verdict"] == verdict
    assert check["low"] <= check["value"] <= check["high"]
    assert "149" in CLAIMS["P28"].statement + CLAIMS["P28"].conditions


def test_times_are_taken_from_the_side_that_hurts():
    def times(program, **changes):
        table = GOOD["measurements"].copy()
        for quantile, factor in changes.items():
            table.loc[table["label"] == program, quantile] *= factor
        return decide_one(CLAIMS["P27"], GOOD | {"measurements": table})["verdict"]

    assert times(ONE_BIT_WHOLE, low=0.0) == Verdict.REPRODUCED
    assert times(ONE_BIT_WHOLE, high=1000.0) == Verdict.NOT_REPRODUCED
    assert times(ONE_BIT_UNFUSED, high=1000.0) == Verdict.REPRODUCED
    assert times(ONE_BIT_UNFUSED, low=0.0) == Verdict.CONDITIONS
