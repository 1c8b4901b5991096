"""The record of minutes and verdicts: where its numbers come from, and that the pages show it."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from paper_figures import recorded as module
from paper_figures.claims.claim import Check, Verdict
from paper_figures.claims.cli import decided
from paper_figures.claims.registry import all_claims
from paper_figures.cli import figures
from paper_figures.figure import Scale
from paper_figures.recorded import decided_again, minutes_of, numbers_of, outcomes, recorded, renewed
from paper_figures.render import all_figures
from reference.experiments import RunConfig, RunStore, run

ROOT = Path(__file__).parents[2]


def config(seed, steps=3, label=None):
    return RunConfig(problem="quadratic", optimizer="adam", hyper={"lr": 1e-3}, steps=steps, seed=seed, label=label)


CHECK = Check(
    setting="digits", value=1.5, low=1.25, high=1.75, unit="times", test="at most 5%", bound=1.05, p_value=1.0,
    p_contrary=0.0, required=True,
)  # fmt: skip
ROW = {**asdict(CHECK), "role": CHECK.role, "outcome": "fails", "holds": False}
CLAIMS_FOUND = [
    {"id": "P2", "verdict": "reproduced", "checks": []},
    {"id": "P3", "verdict": "not reproduced", "checks": [ROW]},
]


@pytest.fixture
def store(tmp_path):
    kept = RunStore(tmp_path / "runs")
    for one, seconds in ((config(1), 60.0), (config(2), 180.0), (config(1, steps=4), 30.0)):
        kept.put(one, run(one), seconds)
    return kept


def test_minutes_are_those_of_the_runs_and_of_missing_seeds_the_mean(store):
    assert minutes_of([config(1), config(2), config(2, label="again")], store) == pytest.approx(4)
    assert minutes_of([config(1), config(2), config(3), config(1, steps=4)], store) == pytest.approx(6.5)
    assert minutes_of([config(1), config(1, steps=5)], store) is None, "a kind of run that nobody timed"


def test_the_record_has_what_the_committed_files_say_now():
    """Claims that rest on files alone: new measurements without a new record would leave the pages old."""
    files = {"profile", "published", "measurements", "conformance"}
    chosen = [claim for claim in all_claims() if not claim.figures and set(claim.others) <= files]
    chosen += [claim for claim in all_claims() if claim.figures == ("time_to_loss",)]
    assert {"P25", "P27", "P29", "P36"} <= {claim.id for claim in chosen}
    found, kept = outcomes(decided(chosen, Scale.QUICK, 1)), recorded()
    for claim in chosen:
        assert kept["verdicts"][claim.id] == found["verdicts"][claim.id]
        assert kept["checks"][claim.id] == [list(row) for row in found["checks"][claim.id]]


def test_what_is_new_is_recorded_and_the_rest_stays(tmp_path, store, monkeypatch):
    old = {
        "timed": "then",
        "minutes": {"gan": 2.0, "no figure any more": 1.0},
        "decided": "then",
        "verdicts": {"P1": "x"},
        "checks": {"P1": [["a", "required", "1", "2", "holds"]]},
        "again": {"P1": "later"},
        "numbers": {"gan": {"a": "1"}},
        "family_table": {"LAMB": ["| LAMB |", "then"]},
        "measured": "then",
    }
    assert renewed(old, store, tmp_path, "now") == old | {"minutes": {"gan": 2.0}}
    (tmp_path / "claims.json").write_text(json.dumps(CLAIMS_FOUND))
    monkeypatch.setattr(module, "minutes_of", lambda configs, store: 1.23)
    new = renewed(old, store, tmp_path, "now")
    assert (new["decided"], new["verdicts"]) == ("now", {"P2": "reproduced", "P3": "not reproduced"})
    assert new["again"] == {}
    assert new["checks"] == {
        "P2": [],
        "P3": [("digits", "required", "1.5 (1.25 to 1.75) times", "at most 5%; 1.05", "fails")],
    }
    assert new["timed"].startswith("now, ")
    assert set(new["minutes"]) == {name for name, figure in all_figures().items() if figure.runs}
    assert set(new["minutes"].values()) == {1.2}


def test_one_claim_is_decided_again(tmp_path, store):
    old = {"verdicts": {"P1": "x", "P3": "y"}, "checks": {"P1": [["a"]], "P3": []}, "decided": "then", "again": {}}
    new = decided_again(old, CLAIMS_FOUND[1:], "now")
    assert new["verdicts"] == {"P1": "x", "P3": "not reproduced"}
    assert (new["checks"]["P1"], new["checks"]["P3"][0][0]) == ([["a"]], "digits")
    assert (new["decided"], new["again"]) == ("then", {"P3": "now"})


def test_numbers_are_those_of_figures_whose_runs_are_all_there(tmp_path, monkeypatch):
    store, wanted = RunStore(tmp_path), [config(1), config(2)]
    known = replace(all_figures()["gan"], runs=lambda scale: wanted, numbers=lambda table: {"rows": str(len(table))})
    monkeypatch.setattr("paper_figures.render.all_figures", lambda scale: {"gan": known})
    store.put(wanted[0], run(wanted[0]), 1.0)
    assert numbers_of({}, store, "now") == {"numbers": {}, "family_table": {}, "measured": ""}
    store.put(wanted[1], run(wanted[1]), 1.0)
    found = numbers_of({"numbers": {"volume": {"a": "1"}}}, store, "now")
    assert found["numbers"] == {"gan": {"rows": str(2 * len(run(wanted[0])))}, "volume": {"a": "1"}}
    assert found["measured"] == "now"


def test_the_record_is_of_figures_and_claims_that_there_are():
    assert set(recorded()["minutes"]) <= {name for name, figure in all_figures().items() if figure.runs}
    assert set(recorded()["verdicts"]) <= {claim.id for claim in all_claims()}
    assert set(recorded()["verdicts"].values()) <= set(Verdict)
    assert set(recorded()["checks"]) == set(recorded()["verdicts"])


def test_a_reader_can_derive_every_verdict_from_the_page():
    for name, rows in recorded()["checks"].items():
        if rows:
            assert derived(rows) == recorded()["verdicts"][name], name


def derived(rows):
    """The four rules of docs/claims.md, on the columns role and outcome of a claim's table."""
    found = {(role, outcome.partition(",")[0]) for _, role, _, _, outcome in rows}
    plain = {outcome for role, outcome in found if role in ("required", "a setting")}
    if found & {("required", "fails"), ("exact guard", "fails")} or ("holds" not in plain and "fails" in plain):
        return Verdict.NOT_REPRODUCED
    if "holds" not in plain or ("required", "not decided") in found:
        return Verdict.NOT_DECIDED
    return Verdict.REPRODUCED if {outcome for _, outcome in found} == {"holds"} else Verdict.CONDITIONS


def test_readme_has_the_recorded_verdicts():
    said = re.search(r"Of (\d+) claims, (\d+) are reproduced, (\d+) with conditions, (\d+) are not, and (\d+)",
                     (ROOT / "README.md").read_text())  # fmt: skip
    counts = [int(number) for number in said.groups()]
    assert counts[0] == len(all_claims()) == sum(counts[1:])
    if found := list(recorded()["verdicts"].values()):
        kinds = (Verdict.REPRODUCED, Verdict.CONDITIONS, Verdict.NOT_REPRODUCED, Verdict.NOT_DECIDED)
        assert counts == [len(found), *map(found.count, kinds)]


def test_the_list_has_claims_and_minutes(tmp_path, capsys):
    figures(names=None, show_list=True, json_file=tmp_path / "list.json")
    told = capsys.readouterr().out
    rows = {row["name"]: row for row in json.loads((tmp_path / "list.json").read_text())}
    assert set(rows) == set(all_figures())
    for name, row in rows.items():
        assert row["claims"] == [claim.id for claim in all_claims() if name in claim.figures + claim.shown_in]
        assert re.search(rf"^{name} .*{' '.join(row['claims'])}$", told, flags=re.MULTILINE)
    assert all(row["minutes"] == recorded()["minutes"].get(name, row["minutes"] and None) for name, row in rows.items()
               if all_figures()[name].runs)  # fmt: skip
