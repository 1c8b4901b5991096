"""Made-up facts on which every claim is reproduced, and for each claim facts on which it is not."""

from __future__ import annotations

import numpy as np
import pandas as pd

from paper_figures.algorithms import (
    ADAM,
    DOUBLE_SQUEEZE,
    FROZEN,
    LOCAL,
    MOMENTUM,
    NAIVE,
    NO_FEEDBACK,
    ONE_BIT,
    ONE_BIT_NO_FLOOR,
    SGD,
)  # fmt: skip
from paper_figures.claims.facts import ADAM_FUSED, ONE_BIT_FUSED, ONE_BIT_UNFUSED
from paper_figures.claims.registry import all_claims, claims_table

CLAIMS = {claim.id: claim for claim in all_claims()}
N, D, START, FREEZE, STEPS, SEEDS = 8, 100_000, 10.0, 20, 100, 6
SECONDS = {ONE_BIT_FUSED: 0.8, ADAM_FUSED: 1.0, ONE_BIT_UNFUSED: 99.0}
"""For 10^9 parameters."""
TRUE_LEVELS = {
    **dict.fromkeys((ADAM.label, ONE_BIT.label, ONE_BIT_NO_FLOOR.label, FROZEN.label), 1e-2),
    NO_FEEDBACK.label: 5.0,
    NAIVE.label: 1e-1,
    **dict.fromkeys((SGD.label, DOUBLE_SQUEEZE.label), 5e-2),
    **dict.fromkeys((MOMENTUM.label, LOCAL.label), 4e-2),
}
"""Final losses on which every claim about convergence is true."""


def curves(levels, *, n_workers=N, dim=D, compressed=(ONE_BIT.label, NO_FEEDBACK.label)):
    """Loss falls from START to ``levels[label]`` on a log scale; a common seed effect of 10 %, an own one of 1 %."""
    random = np.random.default_rng(0)
    common_S = 0.1 * random.standard_normal(SEEDS)
    step = np.arange(0, STEPS + 1, 10)
    dense = 8 * (n_workers - 1) / n_workers * dim
    tables = []
    for label, level in levels.items():
        for seed in range(SEEDS):
            end = np.log(level) + common_S[seed] + 0.01 * random.standard_normal()
            log_T = np.log(START) + (end - np.log(START)) * step / STEPS
            rows = pd.DataFrame({"step": step, "loss": np.exp(log_T)})
            rows["excess_loss"] = rows["loss"]
            rows["frozen"] = ((step >= FREEZE) & (label != ADAM.label)).astype(int)
            sent = step * dense
            if label in compressed:
                late = np.maximum(step - FREEZE, 0)
                sent = np.minimum(step, FREEZE) * dense + late * (dense / 32 + 56)
            rows["bytes_per_worker"] = sent
            rows["label"], rows["seed"], rows["n_workers"] = label, seed, n_workers
            tables.append(rows)
    return pd.concat(tables, ignore_index=True)


def good_facts():
    """Facts on which every claim is reproduced in full."""
    properties = {name for claim in CLAIMS.values() for name in claim.properties}
    theorems = {name for claim in CLAIMS.values() for name in claim.theorems}
    return {
        "convergence_logistic_regression": curves(TRUE_LEVELS),
        "convergence_digits_mlp": curves(TRUE_LEVELS),
        "convergence_char_transformer": curves(TRUE_LEVELS),
        "gan": curves(TRUE_LEVELS),
        "proofs": [{"id": name, "holds": True} for name in sorted(theorems)],
        **{
            f"verify-{name}": report(properties)
            for name in ("reference", "reference-collective", "kernels-cpu", "kernels-torch")
        },
        "mutants": {"mutants": [{"mutant": "a", "killed_by": ["collective.purity"], "equivalent": None}]},
        "measurements": measurements(SECONDS),
        "conformance": report(properties),
        "profile": profile(),
        "published": {
            "compressed_speedup": {"BERT-Large": 5.48, "SQuAD": 4.36},
            "warmup_share": {"BERT-Large": 0.15, "SQuAD": 0.15},
        },
    }


def true_facts(claim):
    """``good_facts``, with what only this claim needs to be reproduced in full."""
    return GOOD | {"P22": {"profile": profile(infiniband=2200.0)}}.get(claim.id, {})


def report(properties, failing=()):
    """``onebit verify --json``."""
    rows = [{"property": name, "outcome": "fails" if name in failing else "holds"} for name in sorted(properties)]
    return {"properties": rows}


def measurements(seconds_per_gigaparameter, workers=(4, 8, 64)):
    """Kernel times on one device, within 1 %, at four sizes."""
    random = np.random.default_rng(1)
    rows = []
    for dim in (2**20, 2**22, 2**24, 2**26):
        for n_workers in workers:
            for label, seconds in seconds_per_gigaparameter.items():
                median = seconds * dim / 1e9 * (1 + 0.01 * random.standard_normal())
                bytes_moved = 28.0 if label == ADAM_FUSED else 24.5 + 8.125 / n_workers
                rows.append((dim, n_workers, label, median, 0.99 * median, 1.01 * median, bytes_moved))
    columns = ["dim", "n_workers", "label", "seconds", "low", "high", "floor_bytes"]
    return pd.DataFrame(rows, columns=columns).assign(device="made up")


def profile(ethernet=2200.0, infiniband=450.0):
    """Two rows in the form of table 1, with these all-reduces in ms: 94 % and 75 % of the step."""
    rows = [
        ("Ethernet", 16, 64, 16, 1, 35.0, ethernet, 60.0, 45.0),
        ("InfiniBand", 8, 64, 16, 1, 30.0, infiniband, 60.0, 60.0),
    ]
    names = ["network", "nodes", "gpus", "batch", "accumulation", "forward", "allreduce", "backward", "other"]
    table = pd.DataFrame(rows, columns=names)
    return table.assign(step=table[["forward", "allreduce", "backward", "other"]].sum(axis=1))


def decide_one(claim, facts):
    """The record of one claim."""
    (record,) = claims_table(facts, [claim])
    return record


def exchange_labels(facts, first, second):
    """The facts with two labels exchanged in every table."""
    swap = {first: second, second: first}
    return {
        name: fact.assign(label=fact["label"].replace(swap))
        if isinstance(fact, pd.DataFrame) and "label" in fact.columns
        else fact
        for name, fact in facts.items()
    }


def bad_facts():
    """Claim id -> what has to change in ``good_facts`` for the claim to be false."""
    slow = dict.fromkeys(TRUE_LEVELS, 1.0) | {ADAM.label: 1e-2, NO_FEEDBACK.label: 5.0}

    def everywhere(levels, **settings):
        table = curves(levels, **settings)
        return dict.fromkeys(
            ("convergence_logistic_regression", "convergence_digits_mlp", "convergence_char_transformer"), table
        )

    properties = {name for claim in CLAIMS.values() for name in claim.properties}
    broken = report(properties, failing={"optimizer.conservation", "collective.conservation"})
    small, uncompressed = everywhere(slow, dim=31), everywhere(slow, compressed=())
    even = measurements(SECONDS | {ONE_BIT_FUSED: 1.0})
    return {
        "P1": everywhere(slow),
        "P2": everywhere(TRUE_LEVELS | {NO_FEEDBACK.label: 1e-2}),
        "P3": everywhere(TRUE_LEVELS | {NAIVE.label: 1e-3}),
        "P7": everywhere(slow),
        "P8": everywhere(TRUE_LEVELS | {NO_FEEDBACK.label: 1e-3}),
        "P9": everywhere(TRUE_LEVELS | {MOMENTUM.label: 1e-3}),
        "P10": {"gan": curves(slow)},
        "P11": uncompressed,
        "P12": small,
        "P13": small,
        "P20": {"profile": profile(100.0, 100.0)},
        "P21": {
            "published": {
                "compressed_speedup": {"BERT-Large": 4.0, "SQuAD": 4.0},
                "warmup_share": {"BERT-Large": 0.15, "SQuAD": 0.22},
            }
        },
        "P22": {"profile": profile(100.0, 100.0)},
        "P23": everywhere(TRUE_LEVELS | {DOUBLE_SQUEEZE.label: 1.0}),
        "P24": {"measurements": measurements(SECONDS, workers=(1, 2))},
        "P25": {"measurements": even},
        "P26": {"verify-kernels-cpu": broken},
        "P27": {"measurements": measurements(SECONDS | {ONE_BIT_FUSED: 99.0})},
        "P28": {"mutants": {"mutants": [{"mutant": "a", "killed_by": [], "equivalent": None}]}},
        "P29": {"conformance": broken},
    }


GOOD = good_facts()
