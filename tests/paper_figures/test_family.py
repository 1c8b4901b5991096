"""The family's figures and table: who is first where, what is drawn, what a row says."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from figures_support import TABLES, drawn, lines_of, made_up

from paper_figures.algorithms import ADAM_CORRECTED, DIGITS, ONE_BIT
from paper_figures.claims.claim import MAIN_MARGIN
from paper_figures.family import FAMILY, KINDS, NEW
from paper_figures.family_table import lines, runs
from paper_figures.figures import choosing, family_text
from reference.experiments.run import kept_numbers
from reference.optimizers import OPTIMIZERS, make

DIM = 1000


def test_the_first_changes_where_both_take_the_same_time():
    """10 gradients, 10 D floats and 10 rounds, against 20, none and 1."""
    labels, best = choosing.fastest({"often": (10, 40 * DIM, 10), "rarely": (20, 0, 1)}, DIM)
    assert labels == ["often", "rarely"]
    wait, send = np.meshgrid(choosing.WAIT, choosing.SEND, indexing="ij")
    np.testing.assert_array_equal(best, 10 * send + 9 * wait > 10)


def test_what_is_spent_is_counted_up_to_the_target_on_most_seeds():
    table = TABLES["choosing"]
    here = table.loc[table["problem"] == DIGITS.problem].copy()
    found = choosing.spent(here, "loss")
    assert list(found) == [algorithm.label for algorithm in FAMILY]
    adam = here.loc[(here["label"] == ADAM_CORRECTED.label) & (here["seed"] == 0)]
    reached = adam.loc[adam["loss"] <= (1 + MAIN_MARGIN) * adam["loss"].iloc[-1]].iloc[0]
    assert found[ADAM_CORRECTED.label] == (reached["step"], reached["bytes_per_worker"], reached["rounds"])
    is_one_bit = here["label"] == ONE_BIT.label
    here.loc[is_one_bit & (here["seed"] < 2), "loss"] = 9.0
    assert choosing.spent(here, "loss")[ONE_BIT.label] == found[ONE_BIT.label], "3 of 5 seeds are there"
    here.loc[is_one_bit & (here["seed"] < 3), "loss"] = 9.0
    assert ONE_BIT.label not in choosing.spent(here, "loss")


def test_every_system_has_a_line_and_none_is_left_out():
    panels = drawn(family_text.FIGURE, TABLES["family_text"]).axes
    for panel in panels:
        assert set(lines_of(panel)) == {algorithm.label for algorithm in FAMILY}
    assert {algorithm.optimizer for algorithm in NEW} <= set(OPTIMIZERS)
    assert len(FAMILY) == len({a.label for a in FAMILY}) == sum(len(members) for _, members in KINDS.values())


def test_a_row_of_the_table_says_what_was_measured():
    table = pd.concat([made_up(config) for config in runs()], ignore_index=True)
    assert {len(set(rows["seed"])) for _, rows in table.groupby("label")} == {5}
    table.loc[table["label"] == ONE_BIT.label, ["loss", "held_out_loss"]] *= 2
    row = next(line for line in lines(table) if line.startswith("| 1-bit Adam |"))
    assert row == "| 1-bit Adam | one bit a number | 0.25 | 0.0005 | 0.5 | " + " | ".join(["2 (2 to 2)"] * 3) + " |"


@pytest.mark.parametrize(
    ("name", "kept"), [("sgd", 0.0), ("adam", 2.0), ("one_bit_adam", 3 + 1 / 4), ("local_sgd", 1.0)]
)
def test_what_a_worker_keeps_is_counted(name, kept):
    """Momentum, v, the worker's errors and its share of the server's; or where it stands between two meetings."""
    settings = {"freeze_step": 1} if name == "one_bit_adam" else {}
    optimizer, random = make(name, lr=0.1, **settings), np.random.default_rng(0)
    state = optimizer.init(np.zeros(64, np.float32), 4)
    for _ in range(3):
        state = optimizer.step(state, random.standard_normal((4, 64)).astype(np.float32))
    assert sum(kept_numbers(state).values()) / 64 == kept
