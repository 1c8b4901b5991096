"""Figures: pure functions of their tables, complete files, and what is drawn is what the table says."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from paper_figures.algorithms import LINE_UP
from paper_figures.figure import Scale
from paper_figures.render import all_figures, render, save
from reference.experiments import COLUMNS, RunConfig, RunStore
from theory.rounding import gamma

FIGURES = all_figures()
every_figure = pytest.mark.parametrize("figure", FIGURES.values(), ids=FIGURES)


def table_for(figure, decay=0.02, diverging=None):
    """A made-up table of the figure's own runs: loss 10 exp(-decay t) (1 + seed/10)."""
    tables = []
    for config in figure.runs(Scale.QUICK):
        step = np.arange(0, config.steps + 1, config.record_every)
        rows = pd.DataFrame(dict.fromkeys(COLUMNS, 0.0), index=range(len(step)))
        rows["step"] = step
        rows["loss"] = rows["excess_loss"] = 10 * np.exp(-decay * step / 10) * (1 + config.seed / 10)
        rows["bytes_per_worker"] = 100.0 * step
        if config.label == diverging and config.seed == 1:
            rows.loc[step > 500, ["loss", "excess_loss"]] = np.nan
        rows["label"], rows["seed"] = config.label, config.seed
        tables.append(rows)
    return pd.concat(tables, ignore_index=True)


@every_figure
def test_runs_are_valid_and_have_five_seeds(figure):
    for scale in Scale:
        configs = figure.runs(scale)
        for config in {c.label: c for c in configs}.values():
            assert isinstance(config, RunConfig)
            config.build()
        seeds = {label: {c.seed for c in configs if c.label == label} for label in {c.label for c in configs}}
        assert all(len(s) >= 5 for s in seeds.values())
        assert len({frozenset(s) for s in seeds.values()}) == 1, "every algorithm sees the same seeds"


@every_figure
def test_drawing_is_a_pure_function_of_the_table(figure):
    table = table_for(figure)
    kept = table.copy()
    first, second = figure.draw(table), figure.draw(table)
    pd.testing.assert_frame_equal(table, kept)
    for a, b in zip(first.axes, second.axes, strict=True):
        for line_a, line_b in zip(a.lines, b.lines, strict=True):
            assert np.array_equal(line_a.get_xydata(), line_b.get_xydata(), equal_nan=True)


@every_figure
def test_lines_are_means_and_bands_are_ranges(figure):
    canvas = figure.draw(table_for(figure))
    by_step = canvas.axes[0]
    lines = {line.get_label(): line for line in by_step.lines}
    assert {a.label for a in LINE_UP} <= set(lines)
    y = lines["Adam"].get_ydata()
    assert abs(y[0] - 12) <= 12 * gamma(8, "float64"), "mean over seeds 0 ... 4 of 10 (1 + seed/10): 8 roundings"
    band = by_step.collections[0].get_paths()[0].vertices
    assert band[:, 1].max() == pytest.approx(14, rel=gamma(2, "float64"))
    for axes in canvas.axes:
        assert axes.get_xlabel()
    assert by_step.get_ylabel()
    assert by_step.get_yscale() == "log"


@every_figure
def test_a_diverging_run_is_said_and_cut(figure):
    canvas = figure.draw(table_for(figure, diverging="1-bit Adam"))
    line = next(x for x in canvas.axes[0].lines if str(x.get_label()).startswith("1-bit Adam:"))
    assert line.get_label() == "1-bit Adam: diverges in 1 of 5"
    assert line.get_xdata().max() <= 500


@every_figure
def test_it_says_what_to_see(figure):
    assert len(figure.caption) > 150
    assert "TODO" not in figure.caption
    assert figure.title
    assert figure.beside


def test_files(tmp_path):
    figure = next(iter(FIGURES.values()))
    table = table_for(figure)
    png = save(figure, table, tmp_path)
    assert png.read_bytes()[:4] == b"\x89PNG"
    assert {p.suffix for p in tmp_path.iterdir()} == {".png", ".svg", ".csv", ".md"}
    first = (tmp_path / f"{figure.name}.svg").read_bytes()
    save(figure, table, tmp_path)
    assert (tmp_path / f"{figure.name}.svg").read_bytes() == first, "a picture that changes without a cause"
    assert figure.caption in (tmp_path / f"{figure.name}.md").read_text()


def test_render_runs_what_is_missing(tmp_path):
    """The whole way from configurations to a picture, on a small stand-in for the figure's runs."""
    figure = FIGURES["convergence_logistic_regression"]
    small = [c for c in figure.runs(Scale.QUICK) if c.seed < 2]
    for config in small:
        object.__setattr__(config, "steps", 210)
    object.__setattr__(tiny := type(figure)(**figure.__dict__), "runs", lambda _: small)
    files = render([tiny], tmp_path / "out", scale=Scale.QUICK, store=RunStore(tmp_path / "runs"), n_jobs=1)
    assert files == [tmp_path / "out" / "convergence_logistic_regression.png"]
    assert files[0].stat().st_size > 20_000
    assert len(list((tmp_path / "runs").glob("*.json"))) == len(small)
