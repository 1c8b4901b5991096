"""Figures: pure functions of made-up tables, complete files, drawn again when anything behind them changes."""

from __future__ import annotations

import os
import re
from dataclasses import replace

import matplotlib.style
import pandas as pd
import pytest
from figures_support import (
    FIGURES,
    TABLES,
    drawn,
    every_figure,
    every_run_figure,
)

from paper_figures.algorithms import ADAM, ADAM_FAMILY, ONE_BIT, SGD_FAMILY
from paper_figures.claims.registry import all_claims
from paper_figures.family import FAMILY, FEWER, UNCLAIMED
from paper_figures.figure import MissingResultsError, PaperFigure, Scale
from paper_figures.figures import byte_roofline, time_to_loss
from paper_figures.netlab import arrivals
from paper_figures.render import figure_table, render, save, with_results
from reference.experiments import RunConfig, RunStore

NAMES = {
    "naive_adam", "variance_stability", "freeze_rule", "convergence_logistic_regression", "convergence_digits_mlp",
    "convergence_char_transformer", "convergence_denoising", "gan", "loss_against_bytes", "warmup_length",
    "scale_and_sparsity", "variance_floor", "linear_speedup", "error_bounds", "volume", "step_time_against_bandwidth",
    "throughput_against_gpus", "byte_roofline", "short_warmup", "robustness", "overview",
    "family_digits", "family_text", "family_patches", "choosing", "time_to_loss", "lab_speedup",
}  # fmt: skip


NOT_CLAIMED = {algorithm.label for algorithm in UNCLAIMED}


def test_no_claim_reads_systems_with_few_seeds():
    read = {label for claim in all_claims() for label in claim.pair or ()}
    assert read & {algorithm.label for algorithm in FAMILY}
    assert not read & NOT_CLAIMED


def test_all_figures_are_there_under_their_names():
    assert set(FIGURES) == NAMES


@every_figure
def test_it_says_what_to_see(figure):
    assert len(figure.caption) > 150
    assert "TODO" not in figure.caption
    assert figure.title
    assert figure.beside


@every_run_figure
def test_runs_are_valid_and_have_enough_seeds(figure):
    for scale in Scale:
        configs = figure.runs(scale)
        for config in {(c.label, c.problem, c.probe): c for c in configs}.values():
            assert isinstance(config, RunConfig)
            config.build_probe(*config.build())
        groups: dict = {}
        for c in configs:
            groups.setdefault((c.problem, c.label, c.n_workers, tuple(c.tags.items())), set()).add(c.seed)
        quick = {"gan": 10, "robustness": 10, "warmup_length": 20}.get(figure.name, 5)
        for (_, label, *_), seeds in groups.items():
            few = label in NOT_CLAIMED and figure.name in ("family_digits", "family_text", "family_patches", "choosing")
            expected = 20 if scale is Scale.FULL else FEWER if few else quick
            assert seeds == set(range(expected)), "every algorithm sees the same seeds, those without a claim the first"
        unique = {c.key(): tuple(c.tags.items()) for c in configs}
        assert len(unique) == len(configs), "two runs of one figure are the same run"


@pytest.mark.one_in(4)
@every_figure
def test_drawing_is_a_pure_function_of_the_table(figure, tmp_path):
    """The same table gives the same bytes, whatever the order of its rows, and stays as it is."""
    table = TABLES[figure.name]
    kept = table.copy()
    save(figure, table, tmp_path / "one")
    pd.testing.assert_frame_equal(table, kept)
    save(figure, table.sample(frac=1, random_state=0) if figure.runs else table, tmp_path / "two")
    for suffix in ("svg", "png", "md"):
        one, two = ((tmp_path / folder / f"{figure.name}.{suffix}").read_bytes() for folder in ("one", "two"))
        assert one == two, "the picture changes without a cause"
    assert {p.suffix for p in (tmp_path / "one").iterdir()} == {".png", ".svg", ".csv", ".md"}
    told = (tmp_path / "one" / f"{figure.name}.md").read_text()
    assert figure.filled(table).caption in told
    assert re.findall(r"\bP\d+(?=, )", told.splitlines()[-1]) == [
        c.id for c in all_claims() if figure.name in c.figures + c.shown_in
    ]


@every_figure
def test_a_picture_has_labels_and_a_legend_and_nothing_leaves_it(figure):
    canvas = drawn(figure, TABLES[figure.name])
    canvas.draw_without_rendering()
    width, height = canvas.canvas.get_width_height()
    assert canvas.legends or any(axes.get_legend() for axes in canvas.axes)
    assert canvas.axes[-1].get_xlabel()
    columns = len({round(axes.get_window_extent().x0) for axes in canvas.axes})
    for axes in canvas.axes:
        assert axes.get_ylabel()
        box = axes.get_window_extent()
        assert box.width > 0.6 * width / columns, "a legend or a label has squeezed the panel"
        for text in [axes.title, axes.xaxis.label, axes.yaxis.label, *axes.texts]:
            found = text.get_window_extent()
            assert found.x0 >= -1, text.get_text()
            assert found.x1 <= width + 1, text.get_text()
        if legend := axes.get_legend():
            found = legend.get_window_extent()
            assert -1 <= found.x0 <= found.x1 <= width + 1, "the legend is wider than the picture"
            assert found.y1 <= box.y0, "the legend lies on the panel"
            if axes.get_xlabel():
                assert found.y1 <= axes.xaxis.label.get_window_extent().y0, "the legend lies on the label"
            assert found.y0 >= -1
    for legend in canvas.legends:
        found = legend.get_window_extent()
        assert -1 <= found.x0 <= found.x1 <= width + 1, "the legend is wider than the picture"
        assert -1 <= found.y0 <= found.y1 <= height + 1, "the legend is taller than the picture"
        assert not any(found.overlaps(axes.get_tightbbox()) for axes in canvas.axes), "the legend lies on a panel"
    assert height > 0


def test_no_results_file_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr(byte_roofline, "RESULTS", tmp_path)
    with pytest.raises(MissingResultsError, match=r"no benchmark results in .*: run `onebit bench kernels`"):
        byte_roofline.tabulate(Scale.QUICK)
    monkeypatch.setattr(arrivals, "RESULTS", tmp_path)
    with pytest.raises(MissingResultsError, match=f"there is no race in {tmp_path}; as root, in half an hour"):
        time_to_loss.tabulate(Scale.QUICK)
    here, wanted = with_results(FIGURES.values(), Scale.QUICK)
    assert {figure.name for figure in FIGURES.values()} - {figure.name for figure in here} == {
        "byte_roofline", "time_to_loss"
    }  # fmt: skip
    assert [line.partition(":")[0] for line in wanted] == ["byte_roofline", "time_to_loss"]


def test_a_figure_has_one_source_of_its_table():
    args = ("x", "t", "b", "c", lambda table: None)
    with pytest.raises(ValueError, match="figure 'x' needs exactly one of runs and tabulate"):
        PaperFigure(*args)
    with pytest.raises(ValueError, match="figure 'x' needs exactly one of runs and tabulate"):
        PaperFigure(*args, runs=lambda scale: [], tabulate=lambda scale: pd.DataFrame())


def test_colours_and_dashes_tell_lines_of_one_picture_apart():
    for group in (ADAM_FAMILY, (ADAM, ONE_BIT, *SGD_FAMILY)):
        assert len({a.color for a in group}) == len(group)
        in_grey = [(a.linestyle, round(luminance(a.color), 1)) for a in group]
        assert len(set(in_grey)) == len(group), "two lines look the same in black and white"


def luminance(color):
    red, green, blue = (int(color[k : k + 2], 16) / 255 for k in (1, 3, 5))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_a_picture_is_drawn_again_when_anything_behind_it_changes_and_only_then(tmp_path):
    figure, drawings = PaperFigure(**constant()), []
    counted = replace(figure, draw=lambda table: drawings.append(1) or figure.draw(table))
    table = figure.tabulate(Scale.QUICK)

    def times(shown, data):
        before = len(drawings)
        save(shown, data, tmp_path)
        return len(drawings) - before

    assert times(counted, table) == 1
    assert times(counted, table) == 0
    assert times(counted, table * 2) == 1
    assert times(replace(counted, caption="another"), table * 2) == 1
    for suffix in ("svg", "png", "md", "csv"):
        (tmp_path / f"constant.{suffix}").unlink()
        assert times(counted, table) == 1
    os.utime(tmp_path / "constant.png", (0, 0))
    assert times(counted, table) == 1, "older than the code"


def test_render_runs_what_is_missing_and_nothing_twice(tmp_path):
    """The whole way from configurations to a picture, on a small stand-in for the figure's runs."""
    figure = FIGURES["convergence_logistic_regression"]
    small = [replace(c, steps=210) for c in figure.runs(Scale.QUICK) if c.seed < 2]
    tiny, store = replace(figure, runs=lambda _: small), RunStore(tmp_path / "runs")
    with pytest.raises(KeyError, match="is not in"):
        figure_table(tiny, Scale.QUICK, store)
    files = render([tiny, FIGURES["volume"].__class__(**constant())], tmp_path / "out", scale=Scale.QUICK, store=store)
    assert [file.name for file in files] == ["convergence_logistic_regression.png", "constant.png"]
    assert files[0].read_bytes()[:4] == b"\x89PNG"
    stored = {p: p.stat().st_mtime_ns for p in (tmp_path / "runs").glob("*.json")}
    assert len(stored) == len(small)
    render([tiny], tmp_path / "out", scale=Scale.QUICK, store=store)
    assert {p: p.stat().st_mtime_ns for p in (tmp_path / "runs").glob("*.json")} == stored
    table = figure_table(tiny, Scale.QUICK, store)
    assert re.search("bytes_per_worker", (tmp_path / "out" / "convergence_logistic_regression.csv").read_text())
    assert len(table) == len(pd.read_csv(tmp_path / "out" / "convergence_logistic_regression.csv"))


def constant():
    def draw(table):
        canvas = matplotlib.figure.Figure()
        canvas.subplots().plot(table["x"], table["x"])
        return canvas

    table = pd.DataFrame({"x": [1.0, 2.0]})
    return {"name": "constant", "title": "t", "beside": "b", "caption": "c", "draw": draw, "tabulate": lambda s: table}
