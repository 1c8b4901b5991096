"""The reports on other implementations: their pages are their data, every failure has a reason, the logic of a cell."""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest

from verification.adapters.published import conformance, deepspeed_lamb, deepspeed_zero_one
from verification.adapters.published.deepspeed import PYTHON, fits
from verification.adapters.published.findings import finding
from verification.adapters.published.implementations import IMPLEMENTATIONS
from verification.adapters.published.pages import LAWS, overview, page, verdict
from verification.adapters.published.sources import FOLDER, GRACE
from verification.protocol import LambHyper, ZeroOneHyper

by_package = pytest.mark.parametrize("implementation", IMPLEMENTATIONS, ids=lambda one: one.package)


def report(implementation):
    return json.loads((conformance.FOLDER / f"{implementation.stem}.json").read_text())


@by_package
def test_a_page_is_what_its_data_say(implementation):
    found = report(implementation)
    assert (conformance.FOLDER / f"{implementation.stem}.md").read_text() == page(found)
    assert found["unexplained"] == conformance.unexplained(found["properties"]) == []


def test_the_overview_is_what_the_data_say():
    expected = overview([report(implementation) for implementation in IMPLEMENTATIONS])
    assert (conformance.FOLDER / "README.md").read_text() == expected


@by_package
def test_every_finding_was_run_as_it_stands_in_every_setting(implementation):
    rows = [row for row in report(implementation)["properties"] if row["class"] == "finding"]
    assert [(row["property"], row["counterexample"], row["source"]) for row in rows] == [
        (one.name, one.code, one.source) for one in implementation.findings for _ in implementation.settings()
    ]
    assert all(row["title"].endswith(".") for row in rows)
    for row in rows:
        assert row["outcome"] == "holds" or row["findings"][0]["message"] or row["note"]


@by_package
def test_every_adapter_was_searched_and_every_law_has_a_column(implementation):
    rows = [row for row in report(implementation)["properties"] if row["class"] != "finding"]
    assert {row["class"] for row in rows} == {target.partition(":")[2] for target in implementation.classes}
    assert all(finding.law in LAWS for finding in implementation.findings)
    assert {setting for settings in implementation.classes.values() for setting in settings} <= set(
        implementation.settings()
    ) or not implementation.findings


DEEPSPEED = {
    ("L3", "fp32, nccl"): "fails",  # the first gradient is lost
    ("L3", "fp16, nccl"): "differs",  # the warm-up is one gradient short, as everywhere
    ("L6", "fp32, nccl"): "fails",  # replicas drift apart after a resume
    ("L6", "fp16, nccl"): "holds",
    ("L6", "bf16, nccl"): "holds",
    ("L9", "fp16, nccl"): "fails",  # errors are set to zero
    ("C2", "fp32, nccl"): "holds",
    ("C2", "fp32, compressed"): "differs",  # -0.0, by hand
    ("C5", "fp16, nccl"): "fails",
    ("C8", "fp16, nccl"): "holds",
    ("C8", "bf16, nccl"): "fails",
    ("C9", "fp32, nccl"): "holds",
}


ZERO_ONE = {
    ("L1", "fp16, nccl"): "holds",
    ("L6", "fp16, nccl"): "fails",  # in the last bits, and after a resume
    ("F1", "fp16, compressed"): "fails",  # v does not stay frozen after a resume
    ("F2", "bf16, nccl"): "fails",  # one worker
    ("F3", "bf16, nccl"): "fails",  # weight decay
    ("C8", "fp16, nccl"): "holds",
    ("C8", "bf16, nccl"): "fails",
}
LAMB = {
    ("L1", "fp32, nccl"): "holds",
    ("L6", "fp32, nccl"): "fails",  # resume
    ("L6", "fp16, nccl"): "holds",
    ("F4", "fp32, nccl"): "differs",  # a trust ratio of 1 is left out of the mean
    ("F5", "bf16, nccl"): "fails",  # a layer without momentum
    ("F6", "fp16, compressed"): "differs",  # weight decay changes r
    ("C8", "bf16, nccl"): "holds",
}
KNOWN = [
    (number, *where, cell) for number, cells in enumerate((DEEPSPEED, ZERO_ONE, LAMB)) for where, cell in cells.items()
]


@pytest.mark.parametrize(("number", "law", "setting", "cell"), KNOWN)
def test_what_is_known_of_deepspeed(number, law, setting, cell):
    assert verdict(report(IMPLEMENTATIONS[number])["properties"], law, setting) == cell


def test_the_meetings_of_deepspeed():
    """The measured steps of T_u (``meetings_are_an_interval_apart``) are those that its adapter declares."""
    hyper = ZeroOneHyper(freeze_step=1, local_doubling=4, local_limit=4)
    declared = [t for t in range(1, 18) if deepspeed_zero_one.meets(hyper, t)]
    rows = report(IMPLEMENTATIONS[1])["properties"]
    seen = {row["findings"][0]["message"] for row in rows if row["property"] == "meetings_are_an_interval_apart"}
    assert [message.partition(", not")[0] for message in seen] == [f"the workers meet in {declared}"]


def test_lamb_is_given_its_layers():
    run = deepspeed_lamb.DeepSpeedLamb()
    run.hyper, run.dim = LambHyper(layers=(1, 3)), 4
    assert [part.tolist() for part in run.parts(np.arange(4))] == [[0], [1, 2, 3]]
    assert deepspeed_lamb.spread([0.5, 2.0], [1, 3]).tolist() == [0.5, 2, 2, 2]


def test_laws_of_the_family_have_columns_where_they_are_judged():
    tables = overview([report(implementation) for implementation in IMPLEMENTATIONS]).split("| | ")[1:]
    assert ["F1" in one.splitlines()[0] for one in tables] == [False, True]
    assert "[deepspeed](" in tables[0]
    assert "[deepspeed-one-bit-lamb](" in tables[1]


@pytest.mark.parametrize("package", ["byteps", "dist-ef-sgdm"])
def test_what_holds_is_said_to_hold(package):
    rows = report(next(one for one in IMPLEMENTATIONS if one.package == package))["properties"]
    name = rows[0]["settings"][0]
    assert {verdict(rows, law, name) for law in ("L1", "L5", "C1", "C2", "L7", "L9")} == {"holds"}


@finding("L1", "a.py:1", differs="a choice")
def it_differs(setting):
    """One is two."""
    assert setting == 2, f"it is {setting}"


@finding("L1", "a.py:1")
def it_fails(setting):
    """One is two,
    or so it is said.
    """
    if setting == 3:
        raise NotImplementedError("three")
    assert setting == 2, f"it is {setting}"


def test_a_finding_says_what_it_saw():
    assert it_fails.run(2) == ("holds", "")
    assert it_fails.run(1) == ("fails", "it is 1")
    assert it_differs.run(1) == ("differs", "it is 1")
    assert it_fails.run(3) == ("does not arise", "three")
    assert it_differs.code == 'assert setting == 2, f"it is {setting}"'
    assert it_fails.code.startswith("if setting == 3:")


def row(outcome, *, clause="collective.one_bit", law="L5", kind="Adapter", explains=(), cases=5):
    return {
        "property": clause, "law": law, "outcome": outcome, "class": kind, "settings": ["here"], "part": "here",
        "findings": [{"law": law, "message": "seen"}], "explains": list(explains), "cases": cases,
    }  # fmt: skip


def test_a_cell():
    assert verdict([row("holds"), row("fails")], "L5", "here") == "fails"
    assert verdict([row("holds")], "L5", "there") == "–"
    assert verdict([row("not checked")], "L5", "here") == "(5)"
    assert verdict([row("not checked", cases=0)], "L5", "here") == "–"
    choice = row("differs", clause="found", law="C2", kind="finding", explains=["collective.one_bit"])
    assert verdict([row("fails"), choice], "L5", "here") == "differs"
    assert conformance.unexplained([row("fails"), choice]) == []
    holds_here = choice | {"outcome": "holds"}
    assert len(conformance.unexplained([row("fails"), holds_here])) == 1
    assert verdict([row("fails"), holds_here], "L5", "here") == "fails"


def test_a_missing_checkout_is_one_sentence(monkeypatch, tmp_path):
    monkeypatch.setenv(FOLDER, str(tmp_path))
    with pytest.raises(FileNotFoundError, match=f"git clone https://github.com/sands-lab/grace .* {GRACE.commit}"):
        GRACE.folder()
    monkeypatch.delenv(FOLDER)
    with pytest.raises(FileNotFoundError, match=f"set {FOLDER} to a folder"):
        GRACE.folder()


def test_numbers_of_half_precision():
    def one(value, precision):
        return fits(np.array([[value]], np.float32), precision)

    assert one(1 + 2.0**-10, "fp16")
    assert not one(1 + 2.0**-11, "fp16")
    assert not one(1e6, "fp16")
    assert one(1 + 2.0**-7, "bf16")
    assert not one(1 + 2.0**-8, "bf16")
    assert one(2.0**100, "bf16")
    assert one(0.1, "fp32")
    assert fits(np.array([np.nan, np.inf], np.float32), "fp16")


def test_signs_are_packed_as_the_extension_packs_them():
    """-1 is the bit 1; 0 and 1 are the bit 0, and come back as 1."""
    torch = pytest.importorskip("torch")
    folder = Path(conformance.__file__).parent / "rank"
    sys.path.insert(0, str(folder))
    try:
        bit2byte = importlib.import_module("bit2byte_on_cpu")
    finally:
        sys.path.remove(str(folder))
    signs = torch.randint(-1, 2, (32, 5), generator=torch.Generator().manual_seed(0), dtype=torch.int32)
    packed = bit2byte.packing(signs)
    assert packed.shape == (5,)
    by_hand = [sum(int(s < 0) << (31 - i) for i, s in enumerate(column)) for column in signs.T.tolist()]
    assert [int(number) % 2**32 for number in packed] == by_hand
    back = -(bit2byte.unpacking(packed, torch.ones(32, 5, dtype=torch.int32)) - 1)
    assert torch.equal(back, torch.where(signs < 0, -1, 1).int())


@pytest.mark.skipif(PYTHON not in os.environ, reason=f"needs {PYTHON}")
@pytest.mark.parametrize("implementation", IMPLEMENTATIONS[:3], ids=lambda one: one.package)
def test_deepspeed_itself(implementation):
    """Where it is installed: the first finding is what the report says."""
    rows = report(implementation)["properties"]
    recorded = {(row["property"], row["part"]): row["outcome"] for row in rows if row["class"] == "finding"}
    first = implementation.findings[0]
    for name, setting in implementation.settings().items():
        assert first.run(setting)[0] == recorded[first.name, name]
