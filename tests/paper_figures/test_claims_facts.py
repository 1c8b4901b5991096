"""What claims are decided on: facts are read as they are meant."""

from __future__ import annotations

import pandas as pd
import pytest
from claims_curves import FREEZE, D, N, curves
from claims_support import GOOD, TRUE_LEVELS

from paper_figures.algorithms import ADAM, ONE_BIT
from paper_figures.claims import facts
from paper_figures.claims.claim import EvidenceError
from paper_figures.claims.problems import curves as after_the_freeze
from paper_figures.claims.problems import game, traffic
from theory.profile import TABLE_1


def outcomes(*rows):
    return {"report": {"properties": [{"property": name, "outcome": outcome} for name, outcome in rows]}}


def test_a_property_holds_if_it_holds_in_every_set_up():
    report = outcomes(("a", "fails"), ("b", "holds"), ("a", "holds"), ("c", "skipped"))
    assert facts.broken(report, "report") == (["a"], 2)
    assert facts.broken(report, "report", ["b"]) == ([], 1)


def test_silence_is_no_verdict():
    report = outcomes(("b", "holds"), ("c", "skipped"))
    for missing in ("c", "d"):
        with pytest.raises(EvidenceError, match=f"has not decided {missing}"):
            facts.broken(report, "report", ["b", missing])
    with pytest.raises(EvidenceError, match="has not decided any property"):
        facts.broken(outcomes(("c", "skipped")), "report")
    with pytest.raises(EvidenceError, match="T2 was not re-checked"):
        facts.proved({"proofs": [{"id": "T1", "holds": True, "rank": "symbolic"}]}, "T1", "T2")


def test_one_theorem_that_fails_is_enough():
    proofs = [{"id": "T1", "holds": True, "rank": "symbolic"}, {"id": "T2", "holds": False, "rank": "symbolic"}]
    assert facts.proved({"proofs": proofs}, "T1")
    assert not facts.proved({"proofs": proofs}, "T1", "T2")


def record(device="d", dtype="float32", **seconds):
    backends = {"ours": ("step", "cpu"), "theirs": ("adam", "torch.optim fused"), "other": ("compress", "cpu")}
    backends["norm"] = ("gradient_norm", "cpu")
    backends["huge"] = ("adam", "torch.optim fused, huge pages")
    rows = [
        {
            "kernel": backends[name][0], "backend": backends[name][1], "grad_dtype": dtype, "dim": 8, "n_workers": 2,
            "seconds": value, "low": value, "high": value, "floor_bytes": 28.0,
        }
        for name, value in seconds.items()
    ]  # fmt: skip
    return {"environment": {"device": device}, "rows": rows}


def test_the_fastest_form_of_a_program_counts():
    table = facts.kernel_times([record(ours=3.0, theirs=2.0, huge=1.0, other=9.0), record(theirs=1.5)])
    assert table is not None
    assert dict(zip(table["label"], table["seconds"], strict=True)) == {facts.ONE_BIT_FUSED: 3.0, facts.ADAM_FUSED: 1.0}
    assert facts.kernel_times([record(other=1.0), record(dtype="bfloat16", ours=1.0)]) is None
    assert facts.kernel_times([]) is None
    whole = facts.kernel_times([record(ours=3.0, theirs=2.0), record(norm=0.5)])
    assert whole is not None
    assert dict(zip(whole["label"], whole["seconds"], strict=True))[facts.ONE_BIT_WHOLE] == 3.5
    assert dict(zip(whole["label"], whole["floor_bytes"], strict=True))[facts.ONE_BIT_WHOLE] == 56.0
    assert facts.GRADIENT_NORM not in set(whole["label"])
    assert facts.kernel_times([record(norm=0.5)]) is None
    two = facts.kernel_times([record(ours=3.0), record(device="e", ours=4.0)])
    assert two is not None
    assert len(two) == 2


def test_gather():
    found = {"proofs": [], "mutants": {"mutants": []}}
    reports = [{"package": "other"}, {"package": "deepspeed", "properties": []}]
    everything = facts.gather({"gan": GOOD["gan"]}, found, [record(ours=1.0)], reports)
    assert everything["gan"] is GOOD["gan"]
    assert everything["conformance"] == reports[1]
    assert len(everything["profile"]) == len(TABLE_1)
    assert list(everything["profile"]["step"]) == [row.step for row in TABLE_1]
    assert facts.gather({}, {}, [], [])["conformance"] is None


def test_freeze_step_and_bytes():
    table = curves(TRUE_LEVELS)
    assert facts.freeze_step(table, ONE_BIT.label) == FREEZE
    dense = 8 * (N - 1) / N * D
    assert facts.bytes_per_step(table, ADAM.label) == dense
    assert facts.bytes_per_step(table, ONE_BIT.label) == dense / 32 + 56
    with pytest.raises(EvidenceError, match="never frozen"):
        facts.freeze_step(table, ADAM.label)
    with pytest.raises(EvidenceError, match="1 recorded steps"):
        facts.bytes_per_step(table[table["step"] == 0], ADAM.label)
    assert {sent.dim for sent in traffic(GOOD)} == {D}


def test_curves_are_compared_after_the_freeze_only():
    """What happens in the warm-up is not compression's doing."""
    table = curves(TRUE_LEVELS)
    early = (table["step"] > 0) & (table["step"] <= FREEZE)
    changed = table.assign(**{column: table[column].where(~early, 9.0) for column in ("loss", "excess_loss")})

    def results(version):
        facts_here = GOOD | {"convergence_logistic_regression": version, "gan": version}
        _, of_first = next(after_the_freeze(facts_here, ONE_BIT.label))
        return [runs(ONE_BIT.label).log_S.tolist() for runs in (of_first, game(facts_here))]

    assert results(table) == results(changed)


def test_where():
    table = pd.DataFrame({"a": [1, 1, 2], "b": [0.0, float("nan"), 0.0], "c": [7, 8, 9]})
    assert list(facts.where(table, a=1, b=0.0)["c"]) == [7]
    assert facts.where(table, a=3).empty
