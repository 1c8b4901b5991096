"""Made-up curves of the figures: their levels, bytes and rounds are given."""

from __future__ import annotations

import numpy as np
import pandas as pd

from paper_figures.algorithms import ADAM, NO_FEEDBACK, ONE_BIT, SHORT
from paper_figures.claims.problems import FAMILY
from paper_figures.family import DILOCO, LAMB, ONE_BIT_LAMB, SPARSE_LOCO, ZERO_ONE

N, D, START, FREEZE, STEPS, SEEDS = 8, 100_000, 10.0, 20, 100, 6
SAVES = {
    LAMB.label: (1, 1),
    ONE_BIT.label: (5, 1),
    ONE_BIT_LAMB.label: (5, 1),
    ZERO_ONE.label: (50, 2.5),
    SHORT.label: (16, 1),
    DILOCO.label: (50, 50),
    SPARSE_LOCO.label: (1000, 50),
}
"""How many times fewer bytes and rounds each of the family takes than Adam, where the claims are true."""


def curves(levels, *, n_workers=N, dim=D, compressed=(ONE_BIT.label, NO_FEEDBACK.label), steps=STEPS, every=10):
    """Loss falls from START to ``levels[label]`` on a log scale; a common seed effect of 10 %, an own one of 1 %."""
    random = np.random.default_rng(0)
    common_S = 0.1 * random.standard_normal(SEEDS)
    step = np.arange(0, steps + 1, every)
    dense = 8 * (n_workers - 1) / n_workers * dim
    tables = []
    for label, level in levels.items():
        for seed in range(SEEDS):
            end = np.log(level) + common_S[seed] + 0.01 * random.standard_normal()
            log_T = np.log(START) + (end - np.log(START)) * step / steps
            rows = pd.DataFrame({"step": step, "loss": np.exp(log_T)})
            rows["excess_loss"] = rows["held_out_loss"] = rows["loss"]
            rows["frozen"] = ((step >= FREEZE) & (label != ADAM.label)).astype(int)
            sent = step * dense
            if label in compressed:
                late = np.maximum(step - FREEZE, 0)
                sent = np.minimum(step, FREEZE) * dense + late * (dense / 32 + 56)
            rows["bytes_per_worker"], rows["rounds"] = sent, 1.0 * step
            rows["label"], rows["seed"], rows["n_workers"] = label, seed, n_workers
            tables.append(rows)
    return pd.concat(tables, ignore_index=True)


def family(levels=()):
    """The tables of the family's figures: all at one level but for ``levels``."""
    table = curves(dict.fromkeys(SAVES, 1e-2) | dict(levels), compressed=())
    for label, fewer in SAVES.items():
        table.loc[table["label"] == label, ["bytes_per_worker", "rounds"]] /= np.array(fewer)
    return dict.fromkeys(FAMILY, table)
