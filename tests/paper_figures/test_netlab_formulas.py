"""The network lab beside the theory: volumes, the fitted model, crossovers; on made-up points."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from gpu_impl.netlab.contestants import CONTESTANTS
from gpu_impl.netlab.point import Point
from gpu_impl.netlab.race import Run
from paper_figures.netlab import document
from paper_figures.netlab.model import OVERHEAD, STOP, fit, measured_crossover, per_byte, predicted_crossover
from paper_figures.netlab.tables import crossover_in_words, crossovers, in_short, model_in_words, models, tables
from paper_figures.netlab.volumes import FORMULAS, agrees, formula_bytes
from theory.tolerance_checks import gamma

FOUND = STOP**0.5
"""How near the fit comes: its squared error stands still to a share of STOP, and is a square of the distance."""
BANDWIDTHS = (1e8, 1e9, 1e10)
HOST, ROUND = 2e-9, 3e-4
SILENT = {"ddp": 0.010, "1-bit": 0.050}
ROUNDS = {"ddp": 12, "1-bit": 9}


def point(name, bandwidth, **changes):
    """A point that obeys the model exactly."""
    blank = Point(
        contestant=name, n_workers=4, dim=1_000_000, batch=8, bandwidth=bandwidth, latency=0.0, step=1.0, low=1.0,
        high=1.0, exchange=0.1, silent=SILENT[name], compute=0.01, cpu=0.01, wire_bytes=0.0, payload_bytes=0.0,
        call_bytes=0.0, framing=4000, rounds=ROUNDS[name], drops=0, n_steps=3, load=1.0,
        trips=2 * ROUNDS[name],
    )  # fmt: skip
    volume = formula_bytes(blank)
    exchange = volume * max(8 / bandwidth * OVERHEAD, HOST) + blank.rounds * ROUND
    made = replace(
        blank,
        step=blank.silent + exchange,
        exchange=exchange,
        payload_bytes=volume + 4000,
        wire_bytes=OVERHEAD * (volume + 4000),
    )
    return replace(made, **changes)


def points():
    return [point(name, bandwidth) for name in ("ddp", "1-bit") for bandwidth in BANDWIDTHS]


def test_each_contestant_has_a_formula():
    assert list(FORMULAS) == list(CONTESTANTS)


def test_the_formulas_are_bits_a_parameter_over_the_ring():
    """And what scales add: 4 bytes for each chunk, or block, each way; and what PowerSGD's factors are."""
    ring = 2 * 3 / 4
    dim, width = 8 * 1118 * 1119, 1118
    exact = {
        "ddp": ring * 4 * dim, "ddp-fp16": ring * 2 * dim, "ddp-bf16": ring * 2 * dim, "warm-up": ring * 4 * dim,
        "1-bit": ring * (dim / 8 + 16), "1-bit-update": ring * (dim / 8 + 16), "1-bit-hook": ring * (dim / 8 + 16),
        "1-bit-blocks": ring * (dim / 8 + 4 * -(-dim // 256)), "powersgd": ring * 4 * 8 * 3 * width,
        "1-bit-lamb": ring * (dim / 8 + 16), "0/1": ring * (dim / 8 + 16) / 16, "diloco": ring * 4 * dim / 50,
    }  # fmt: skip
    assert exact.keys() == FORMULAS.keys()
    for name, value in exact.items():
        assert FORMULAS[name](dim, 4) == pytest.approx(value, rel=gamma(16, "float64")), name


def test_the_bytes_may_differ_by_three_hundredths():
    good = point("1-bit", 1e8)
    assert agrees(good)
    volume, known, padding = formula_bytes(good), good.framing + 3 * 24, 2 * 3 * 15
    for share, more, agree in (
        (0.9701, 0, True),
        (1.0299, padding, True),
        (0.9699, 0, False),
        (1.0301, padding, False),
    ):
        assert agrees(replace(good, payload_bytes=share * volume + known + more)) == agree
    small = replace(good, contestant="0/1", n_workers=3, dim=99_456, payload_bytes=1412.4, framing=324)
    assert agrees(small), "as measured: of 1,037 bytes a step 48 more are what workers compare"
    assert not agrees(replace(small, payload_bytes=1412.4 + 100))


def test_the_model_finds_the_numbers_that_made_the_points():
    model = fit(points())
    assert model is not None
    assert model.host == pytest.approx(HOST, rel=FOUND)
    assert model.round == pytest.approx(ROUND, rel=FOUND)
    assert {(one.contestant, one.bandwidth) for one in model.fitted} == {
        (name, bandwidth) for name in ("ddp", "1-bit") for bandwidth in (1e8, 1e10)
    }
    predicted = [one for one in points() if one not in model.fitted]
    assert len(predicted) == 2
    for one in predicted:
        assert model.error(one) == pytest.approx(0, abs=FOUND)
        assert model.error(replace(one, step=one.step / 2)) == pytest.approx(1, rel=FOUND)
        assert model.exchange_error(replace(one, exchange=2 * one.exchange)) == pytest.approx(-0.5, rel=FOUND)
    told = model_in_words(model, points())
    assert told.endswith("error of the exchange 0 % (median), 0 % (worst), of the step 0 % (median), 0 % (worst)")


def test_added_latency_is_no_part_of_what_is_fitted():
    slower = [
        replace(one, latency=0.01, step=one.step + 0.01 * one.trips, exchange=one.exchange + 0.01 * one.trips)
        for one in points()
    ]
    model = fit(slower)
    assert model is not None
    assert model.round == pytest.approx(ROUND, rel=FOUND)
    assert model.error(slower[1]) == pytest.approx(0, abs=FOUND)


def test_where_nothing_is_left_to_predict_there_is_no_model():
    assert fit([point("ddp", 1e8), point("ddp", 1e9)]) is None
    assert fit([point("ddp", 1e8)]) is None


def test_the_crossover_is_where_both_take_the_same_time():
    model = fit(points())
    assert model is not None
    base, other = points()[:3], points()[3:]
    found = predicted_crossover(model, base, other)
    assert found is not None
    ddp, one_bit = (model.step(point(name, found)) for name in ("ddp", "1-bit"))
    assert ddp == pytest.approx(one_bit, rel=FOUND)
    measured = measured_crossover(base, other)
    assert measured is not None
    assert 1e8 < measured < 1e9 or 1e9 < measured < 1e10  # between the two where the sign changes
    assert 0.5 < found / measured < 2


def test_who_is_always_or_never_faster_has_no_crossover():
    model = fit(points())
    assert model is not None
    base, other = points()[:3], points()[3:]
    cheap = [replace(one, silent=0.001, step=one.step - 0.049) for one in other]
    assert predicted_crossover(model, base, cheap) == float("inf")
    assert measured_crossover(base, cheap) is None
    assert predicted_crossover(model, other, base) is None  # ddp sends more: it never becomes faster on slow links


def test_it_is_told_in_words():
    rows = crossovers(points())
    assert [(row["base"], row["contestant"]) for row in rows] == [("ddp", "1-bit")]
    told = crossover_in_words(rows[0])
    assert told.startswith("N = 4, D = 1,000,000: 1-bit is faster than ddp: measured up to ")
    assert told.count("Gbit") == 2
    for word, seconds in {"always": 1e-4, "never": 9.0}.items():
        changed = [replace(one, step=seconds, silent=seconds) for one in points()[3:]]
        assert f"measured {word}" in crossover_in_words(crossovers([*points()[:3], *changed])[0])
    cheap = [replace(one, silent=0.001, step=one.step - 0.049) for one in points()[3:]]
    assert crossovers([*points()[:3], *cheap])[0]["predicted"] == "at all of these bandwidths"
    one_only = crossovers([point("ddp", 1e8), point("1-bit", 1e8)])[0]
    assert (one_only["measured"], one_only["predicted"]) == ("always", "nothing")
    json.dumps(rows, allow_nan=False)
    assert [table.title for table in tables(points())] == [
        f"{bandwidth}, N = 4, D = 1,000,000" for bandwidth in ("100Mbit", "1Gbit", "10Gbit")
    ]


def test_the_page_shows_the_committed_results():
    page = (Path(__file__).parents[2] / "docs" / "netlab.md").read_text()
    files = re.findall(r"`([\w-]+\.json)`", page)
    assert {*files} == {file.name for file in document.RESULTS.glob("*.json")}
    assert document.tables(document.points_of(document.RESULTS / files[0])) in page
    slowest = [one for one in document.points_of(document.RESULTS / files[0]) if one.bandwidth == 1e8]
    base, compressed = (next(one for one in slowest if one.contestant == name) for name in ("ddp", "1-bit"))
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    for faster in (base.step / compressed.step, base.exchange / compressed.exchange):
        assert f"{faster:.1f} times as fast" in readme
    (latencies,) = (file for file in files if "latency" in file)
    far = document.points_of(document.RESULTS / latencies)
    for name, bandwidth in product({one.contestant for one in far}, {one.bandwidth for one in far}):
        steps = [in_short(1e3 * one.step) for one in far if (one.contestant, one.bandwidth) == (name, bandwidth)]
        assert f"| {CONTESTANTS[name].title} | {' | '.join(steps)} |" in page
    (model,) = models(far)
    worst = max(abs(model.exchange_error(one)) for one in far if one not in model.fitted)
    assert f"at worst by {100 * worst:.0f} %" in page
    runs = json.loads(max((document.RESULTS / "race").glob("*.json")).read_text())["runs"]
    assert document.race_tables([Run(**run) for run in runs]) in page


def test_seconds_are_compared_with_those_of_the_same_seed():
    """An entrant of one seed, in which all were slow: it is three times as fast, whatever the others' median is."""

    def run(entrant, seed, seconds):
        curves = {"step": [0, 20], "seconds": [0.0, seconds], "loss": [3.0, 1.0], "payload_bytes": [0.0, 1e6]}
        about = {"entrant": entrant, "title": entrant, "seed": seed, "lr": 1e-3, "n_workers": 4, "dim": 100}
        return Run(**about, bandwidth=1e8, load=1.0, **curves)

    runs = [run("ddp", 0, 9.0), run("ddp", 1, 3.0), run("ddp", 2, 3.0), run("1-bit", 0, 3.0)]
    assert "| 1-bit | 20 | 3.0 | 3.0 | 1.0 | 1.000 | 1 |" in document.race_tables(runs)


def test_in_the_committed_results_the_bytes_are_those_of_the_formula():
    for file in document.RESULTS.glob("*.json"):
        for one in document.points_of(file):
            assert agrees(one), (file.name, one)
            assert one.drops == 0


def test_what_most_of_a_step_is():
    one = point("1-bit", 1e8)
    assert one.wire == one.step - one.silent
    assert (one.silent, one.compute, one.compression) == (0.05, 0.01, pytest.approx(0.04))
    assert point("ddp", 1e8).dominant == "wire"
    assert one.dominant == "compression"
    assert replace(one, compute=0.05).dominant == "compute"
    assert one.line == 8 * one.wire_bytes / 1e8
    assert per_byte(one) == pytest.approx(8e-8 * 1514 / 1448)
