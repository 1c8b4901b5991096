"""Made-up facts on which every claim is reproduced, and for each claim facts on which it is not."""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd
from claims_curves import SEEDS, STEPS, D, curves, family

from paper_figures.algorithms import (
    ADAM,
    ADAM_CORRECTED,
    DOUBLE_SQUEEZE,
    FROZEN,
    LOCAL,
    MOMENTUM,
    NAIVE,
    NO_FEEDBACK,
    ONE_BIT,
    ONE_BIT_CORRECTED,
    ONE_BIT_NO_FLOOR,
    SGD,
    SHORT,
)  # fmt: skip
from paper_figures.claims.facts import ADAM_FUSED, ONE_BIT_FUSED, ONE_BIT_UNFUSED, ONE_BIT_WHOLE
from paper_figures.claims.problems import FIGURES, PROBLEMS
from paper_figures.claims.registry import all_claims, claims_table
from paper_figures.claims.statements import time_to_loss as claim_36
from paper_figures.family import DILOCO, ONE_BIT_LAMB, SPARSE_LOCO, ZERO_ONE
from paper_figures.figures import freeze_rule, gan, robustness
from verification.adapters.published.pages import LAWS

BY_RULE = tuple(experiment.problem for experiment, _ in freeze_rule.PANELS)
CLAIMS = {claim.id: claim for claim in all_claims()}
SECONDS = {ONE_BIT_FUSED: 0.8, ONE_BIT_WHOLE: 0.85, ADAM_FUSED: 1.0, ONE_BIT_UNFUSED: 99.0}
"""For 10^9 parameters."""
TRUE_LEVELS = {
    **dict.fromkeys((ADAM.label, ONE_BIT.label, ONE_BIT_NO_FLOOR.label, FROZEN.label), 1e-2),
    NO_FEEDBACK.label: 5.0,
    NAIVE.label: 1e-1,
    **dict.fromkeys((SGD.label, DOUBLE_SQUEEZE.label), 5e-2),
    **dict.fromkeys((MOMENTUM.label, LOCAL.label), 4e-2),
}
"""Final losses on which every claim about convergence is true."""


def good_facts():
    """Facts on which every claim is reproduced in full."""
    properties = {name for claim in CLAIMS.values() for name in claim.properties}
    theorems = {name for claim in CLAIMS.values() for name in claim.theorems}
    return {
        "convergence_logistic_regression": curves(TRUE_LEVELS),
        "convergence_digits_mlp": curves(TRUE_LEVELS),
        "convergence_char_transformer": curves(TRUE_LEVELS),
        "convergence_denoising": curves(TRUE_LEVELS),
        "gan": game(),
        "short_warmup": short(1e-2),
        "robustness": forms(),
        **family(),
        "time_to_loss": race(),
        "naive_adam": naive(),
        "variance_stability": variances(0.01),
        "freeze_rule": rule(TRUE_LEVELS),
        "warmup_length": sweep("freeze_step", ONE_BIT.label, {1: 5.0, 30: 1e-2, 100: 1e-2}, {ADAM.label: 1e-2}),
        "scale_and_sparsity": sparsity(),
        "variance_floor": sweep("kappa", ONE_BIT.label, {0.0: 5.0, 1e-3: 1e-2, 1e-2: 1e-2}, {FROZEN.label: 1e-2}),
        "linear_speedup": speedup(-0.6),
        "error_bounds": errors(1e-3),
        "proofs": [{"id": name, "holds": True, "rank": "kernel-checked"} for name in sorted(theorems)],
        **{
            f"verify-{name}": report(properties)
            for name in ("reference", "reference-collective", "kernels-cpu", "kernels-torch", "optimizer")
        },
        "mutants": mutants(found=149),
        "measurements": measurements(SECONDS),
        "conformance": conformance(),
        "profile": profile(),
        "published": {
            "compressed_speedup": {"BERT-Large": 5.48, "SQuAD": 4.36},
            "warmup_share": {"BERT-Large": 0.15, "SQuAD": 0.15},
        },
    }


def race(slow=0.3, fast=0.8):
    """DDP is at Adam's loss after 2 of 3 seconds; 1-bit Adam after so many times as long, on slow and on fast links."""
    tables = []
    for bandwidth, share in ((1e8, slow), (1e9, fast)):
        for seed in range(SEEDS):
            for entrant, label, times in (("ddp", claim_36.ADAM, 1.0), ("1-bit-short", claim_36.ONE_BIT, share)):
                rows = pd.DataFrame({"step": range(4), "loss": [4.0, 2.0, 1.04, 1.0]})
                rows["seconds"] = rows["step"] * times * (1 + 0.01 * seed * (times != 1))
                rows["payload_bytes"] = 1e6 * rows["step"]
                tables.append(rows.assign(entrant=entrant, label=label, seed=seed, bandwidth=bandwidth))
    return pd.concat(tables, ignore_index=True)


def naive(square=0.9, spread=1.1):
    """The last row of naive Adam, its variance taken apart, and of Adam, where there is nothing to take apart."""
    tables = []
    for label, v, part, percentiles in ((NAIVE.label, 1.0, square, spread), (ADAM.label, 0.1, 0.0, 300.0)):
        rows = pd.DataFrame({"seed": range(SEEDS), "step": STEPS, "label": label})
        noise_S = 1 + 0.01 * np.arange(SEEDS)
        rows["variance_l1"] = v * noise_S
        rows["square_variance"] = part * v
        rows["exact_variance_l1"] = (1 - part) * v
        rows["spread"], rows["exact_spread"] = percentiles * noise_S, 300.0
        tables.append(rows)
    return pd.concat(tables, ignore_index=True)


def variances(speed, early=3.0, restless=1.0):
    """||v|| of Adam moves by ``speed`` a window of 100 steps at the end, ``early`` times as fast at the beginning."""
    tables = []
    for problem in ("char_transformer", "mlp"):
        for seed in range(SEEDS):
            step = np.arange(0, 3001, 50)
            speed_T = speed * np.where(step < 1500, early, 1.0) * (1 + 0.01 * seed)
            rows = pd.DataFrame({"step": step, "variance_l1": np.exp(-np.cumsum(speed_T) / 2)})
            rows.loc[0, "variance_l1"] = 0.0
            rows["variance_l1[W]"] = rows["variance_l1"]
            rows["variance_l1[b]"] = rows["variance_l1"] ** restless
            tables.append(rows.assign(problem=problem, seed=seed, label=ADAM.label))
    return pd.concat(tables, ignore_index=True)


def mutants(found, missed=0):
    """A sample of faults, so many of which the check finds, and misses."""
    killed_by = [["collective.purity"]] * found + [[]] * missed
    return {"mutants": [{"mutant": str(k), "killed_by": by, "differs": True} for k, by in enumerate(killed_by)]}


def rule(levels, since=200, two_sided=1e-2, late=()):
    """The rules on every problem; they wait until step ``since``, or on the problems of ``late`` for ever."""
    kept = {label: levels[label] for label in (ADAM.label, ONE_BIT.label, NO_FEEDBACK.label)}
    kept |= dict.fromkeys([one.label for one in freeze_rule.RULES[1:]], two_sided)
    table = curves(kept, every=10, steps=1000)
    table["variance_l1"] = 1 + 10 * np.exp(-table["step"] / 100)
    table["frozen"] = ((table["step"] >= since) & (table["label"] != ADAM.label)).astype(int)
    tables = [table.assign(problem=problem, beta2=freeze_rule.OWN) for problem in BY_RULE]
    for one in tables:
        if one["problem"].iloc[0] in late:
            one["frozen"] = 0
    return pd.concat(tables, ignore_index=True)


def sweep(column, label, levels, others):
    """``label`` at several values of ``column``, value -> final loss; the others have no value there."""
    swept = [curves({label: level}).assign(**{column: value}) for value, level in levels.items()]
    return pd.concat([*swept, curves(others).assign(**{column: np.nan})], ignore_index=True)


def sparsity(l2=1e-2, l1=5e-2, dense_l2=None, contraction_l2=1.2):
    """Two densities; l2 in its place, l1 behind, contraction below 1 for l1 alone."""
    tables = []
    for batch_size in (1, 64):
        here = l2 if batch_size == 1 or dense_l2 is None else dense_l2
        levels = {"1-bit Adam, l2 scale": here, "1-bit Adam, l1 scale": l1, FROZEN.label: 1e-2, NO_FEEDBACK.label: 5.0}
        table = curves(levels).assign(batch_size=batch_size, density=batch_size / 64)
        contraction = table["label"].map({"1-bit Adam, l2 scale": contraction_l2, "1-bit Adam, l1 scale": 0.9})
        tables.append(table.assign(contraction_max=contraction.fillna(0.0)))
    return pd.concat(tables, ignore_index=True)


def speedup(power, size=1e-6):
    """Mean squared gradient norms of ``size`` that go like N^power at the longest horizon."""
    random = np.random.default_rng(2)
    rows = [
        (n, horizon, seed, horizon + 20, size * n ** (power * horizon / 1000) * (1 + 0.01 * random.standard_normal()))
        for n in (1, 4, 16, 64)
        for horizon in (100, 1000)
        for seed in range(SEEDS)
    ]
    table = pd.DataFrame(rows, columns=["n_workers", "horizon", "seed", "step", "mean_grad_norm_sq_p"])
    return table.assign(label=ONE_BIT.label, lr=1e-4, p_max=1.0, start_gap=1.0, start_momentum=1.0, total_error_max=1.0)


def errors(size):
    """Error norms of ``size`` with gradients of norm 1 and a contraction of 1/2."""
    table = pd.DataFrame({"step": [10, 20], "grad_norm_max": 1.0, "heterogeneity_max": 0.1, "contraction_max": 0.5})
    table = table.assign(**{f"{name}_error_norm": size for name in ("worker", "server", "total")})
    copies = [
        table.assign(problem=problem, seed=seed, label=ONE_BIT.label)
        for problem in ("quadratic", "mlp")
        for seed in range(SEEDS)
    ]
    return pd.concat(copies, ignore_index=True)


def true_facts(claim):
    """``good_facts``, with what only this claim needs to be reproduced in full."""
    own = {
        "P35": {"freeze_rule": rule(TRUE_LEVELS | {ONE_BIT.label: 5.0})},
        "P22": {"profile": profile(infiniband=2200.0)},
        "P31": {"gan": game(one_bit=1.5e-2)},
    }
    return GOOD | own.get(claim.id, {})


def short(level, *, fewer=20):
    """A short warm-up that ends at ``level`` for a ``fewer``-th of Adam's bytes, on every problem."""
    table = curves(
        dict.fromkeys((ADAM_CORRECTED.label, ONE_BIT.label, ONE_BIT_CORRECTED.label), 1e-2)
        | {SHORT.label: level, NO_FEEDBACK.label: 5.0},
        compressed=(),
    )
    table.loc[table["label"] == SHORT.label, "bytes_per_worker"] /= fewer
    return pd.concat([table.assign(problem=problem) for problem in PROBLEMS], ignore_index=True)


def forms(level=1e-2, dense=1e-2):
    """Every form at ``level`` in every setting, but the published one, which diverges."""
    levels = dict.fromkeys([form.label for form in robustness.FORMS], level)
    levels |= {ADAM.label: 1e-2, robustness.DENSE.label: dense, robustness.PUBLISHED.label: 50.0}
    return pd.concat([curves(levels).assign(setting=name) for name in robustness.SETTINGS], ignore_index=True)


def game(one_bit=1e-2, other=1e-2):
    """The game: 32 bits at 1e-2, one bit as published at ``one_bit``, its other forms at ``other``."""
    levels = TRUE_LEVELS | {ONE_BIT.label: one_bit}
    return curves(levels | dict.fromkeys((gan.BLOCKS.label, gan.UPDATE.label), other))


def report(properties, failing=()):
    """``onebit verify --json``."""
    rows = [{"property": name, "outcome": "fails" if name in failing else "holds"} for name in sorted(properties)]
    return {"properties": rows}


def conformance(*wrong):
    """The report on DeepSpeed: every law holds, but for L6 in the precisions ``wrong``."""
    rows = [
        {"property": law, "law": law, "class": "finding", "settings": [f"{precision}, nccl"],
         "outcome": "fails" if law == "L6" and precision in wrong else "holds"}
        for law in LAWS for precision in ("fp16", "bf16", "fp32")
    ]  # fmt: skip
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


def exchange(facts, first, second, column="label"):
    """The facts with two labels, or two values of another column, exchanged in every table."""
    swap = {first: second, second: first}
    return {
        name: fact.assign(**{column: fact[column].replace(swap)})
        if isinstance(fact, pd.DataFrame) and column in fact.columns
        else fact
        for name, fact in facts.items()
    }


@cache
def bad_facts():
    """Claim id -> what has to change in ``good_facts`` for the claim to be false."""
    slow = dict.fromkeys(TRUE_LEVELS, 1.0) | {ADAM.label: 1e-2, NO_FEEDBACK.label: 5.0}

    def everywhere(levels, **settings):
        table = curves(levels, **settings)
        return dict.fromkeys(FIGURES, table)

    properties = {name for claim in CLAIMS.values() for name in claim.properties}
    broken = report(properties, failing={"optimizer.conservation", "collective.conservation"})
    small, uncompressed = everywhere(slow, dim=31), everywhere(slow, compressed=())
    even = measurements(SECONDS | {ONE_BIT_FUSED: 1.1, ONE_BIT_WHOLE: 1.2})
    return {
        "P1": everywhere(slow) | {"gan": curves(slow)},
        "P2": everywhere(TRUE_LEVELS | {ONE_BIT.label: 1.0}),
        "P3": everywhere(TRUE_LEVELS | {NAIVE.label: 1e-3}),
        "P4": {"naive_adam": naive(square=0.1)},
        "P5": {"variance_stability": variances(0.5, early=0.5)},
        "P6": {"freeze_rule": rule(slow)},
        "P7": everywhere(slow),
        "P8": everywhere(TRUE_LEVELS | {NO_FEEDBACK.label: 1e-3}),
        "P9": everywhere(TRUE_LEVELS | {MOMENTUM.label: 1e-3}),
        "P10": {"gan": curves(slow)},
        "P11": uncompressed,
        "P12": small,
        "P13": small,
        "P14": {"warmup_length": sweep("freeze_step", ONE_BIT.label, {1: 5.0, 30: 5.0, 100: 5.0}, {ADAM.label: 1e-2})},
        "P15": {"scale_and_sparsity": sparsity(l1=1e-3)},
        "P16": {"scale_and_sparsity": sparsity(l2=5.0)},
        "P17": {"variance_floor": sweep("kappa", ONE_BIT.label, {0.0: 5e-3, 1e-3: 1e-2}, {FROZEN.label: 1e-2})},
        "P18": {"linear_speedup": speedup(0.0)},
        "P19": {"error_bounds": errors(1e3)},
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
        "P27": {"measurements": measurements(SECONDS | {ONE_BIT_WHOLE: 99.0})},
        "P28": {"mutants": mutants(found=140, missed=9)},
        "P29": {"conformance": conformance("fp16", "bf16", "fp32")},
        "P30": {"short_warmup": short(1.0)},
        "P31": {"robustness": forms(50.0)},
        "P32": family({ZERO_ONE.label: 1.0}),
        "P33": family({ONE_BIT_LAMB.label: 1.0}),
        "P34": family({DILOCO.label: 1.0, SPARSE_LOCO.label: 1.0}),
        "P35": {"freeze_rule": rule(TRUE_LEVELS, two_sided=5.0, late=BY_RULE)},
        "P36": {"time_to_loss": race(slow=2.0, fast=2.0)},
    }


def on(problem, levels, **settings):
    """A convergence figure's table with other final losses."""
    return {f"convergence_{problem}": curves(TRUE_LEVELS | levels, **settings)}


def partly_bad_facts():
    """(claim id, what changes in ``good_facts``, the settings that then must not hold, and no others)."""

    def kappas(levels):
        return {"variance_floor": sweep("kappa", ONE_BIT.label, levels, {FROZEN.label: 1e-2})}

    def warmups(levels):
        return {"warmup_length": sweep("freeze_step", ONE_BIT.label, levels, {ADAM.label: 1e-2})}

    one_more = profile()
    one_more.loc[len(one_more)] = ["InfiniBand", 1, 8, 16, 1, 30.0, 10.0, 60.0, 60.0, 160.0]
    slow_at_first = GOOD["measurements"].copy()
    slow_at_first.loc[(slow_at_first["label"] == ONE_BIT_FUSED) & (slow_at_first["dim"] < 2**24), "seconds"] *= 2
    shares = GOOD["published"] | {"warmup_share": {"BERT-Large": 0.15, "SQuAD": 0.2165}}
    return [
        ("P1", on("digits_mlp", {ONE_BIT_NO_FLOOR.label: 5.0}), ["digits MLP, one bit, κ = 0"]),
        ("P29", {"conformance": conformance("fp32")}, ["fp32, the compressed step", "fp32, all laws"]),
        ("P1", on("logistic_regression", {FROZEN.label: 1.0}), ["logistic regression, 32 bits"]),
        ("P1", {"gan": curves(TRUE_LEVELS | {FROZEN.label: 1.0})}, ["GAN on digits, 32 bits"]),
        ("P2", on("digits_mlp", {ONE_BIT.label: 1.0}), ["digits MLP"]),
        ("P2", on("digits_mlp", {ONE_BIT.label: 1e-4}), ["digits MLP"]),
        ("P2", {"gan": curves(TRUE_LEVELS | {ONE_BIT.label: 1.0})}, ["GAN on digits"]),
        ("P2", {"scale_and_sparsity": sparsity(dense_l2=1.0)}, ["matrix factorisation, nearly exact gradients"]),
        ("P3", on("logistic_regression", {NAIVE.label: 1e-3}), ["logistic regression"]),
        ("P4", {"naive_adam": naive(spread=400.0)}, [
            "spread of √v over coordinates against that of the average of g²"]),
        ("P5", {"variance_stability": variances(0.01, restless=9.0)}, [
            "character transformer, the array that moves most", "digits MLP, the array that moves most"]),
        ("P35", {"freeze_rule": rule(TRUE_LEVELS | {ONE_BIT.label: 5.0}, late=("mlp",))}, [
            "digits MLP, in the first half"]),
        ("P7", on("digits_mlp", {ONE_BIT.label: 1.0}), ["digits MLP"]),
        ("P7", on("digits_mlp", {NO_FEEDBACK.label: 1e-2}), ["digits MLP", "digits MLP, feedback removed"]),
        ("P8", on("digits_mlp", {NO_FEEDBACK.label: 1e-3}), ["digits MLP"]),
        ("P9", on("digits_mlp", {SGD.label: 1e-3}), ["digits MLP"]),
        ("P11", on("digits_mlp", {}, compressed=()), [f"digits MLP, D = {D:,}"]),
        ("P12", on("digits_mlp", {}, dim=31), ["digits MLP, D = 31"]),
        ("P13", {"published": shares}, ["SQuAD, warm-up 21.6%"]),
        ("P14", warmups({1: 5.0, 30: 5.0, 100: 1e-2}), ["T_w = 30 (0.3 of the steps)"]),
        ("P15", {"scale_and_sparsity": sparsity(dense_l2=1.0)}, ["100.0% non-zeros"]),
        ("P17", kappas({0.0: 5.0, 1e-3: 1e-2, 1e-2: 5.0}), ["κ = 0.01"]),
        ("P18", {"linear_speedup": speedup(-0.4)}, ["T = 1000, N = 1 to 64, all of σ/√(NT)"]),
        ("P20", {"profile": one_more}, ["InfiniBand, 1 node, batch 16 x 1"]),
        ("P23", on("digits_mlp", {DOUBLE_SQUEEZE.label: 1.0}), ["digits MLP"]),
        ("P24", {"measurements": measurements(SECONDS, workers=(2, 8))}, ["N = 2", "N = 2, the gradient's norm first"]),
        ("P25", {"measurements": measurements(SECONDS | {ONE_BIT_WHOLE: 1.1})}, [
            "made up, D < 2^24, the gradient's norm first", "made up, D >= 2^24, the gradient's norm first"]),
        ("P25", {"measurements": slow_at_first}, ["made up, D < 2^24"]),
        ("P36", {"time_to_loss": race(fast=2.0)}, ["links of 1Gbit"]),
    ]  # fmt: skip


def fatal_facts():
    """The same, where what fails must hold: the claim is not reproduced."""
    return [
        ("P1", on("denoising", {FROZEN.label: 1.0}), ["denoising autoencoder, 32 bits"]),
        ("P2", on("char_transformer", {ONE_BIT.label: 1.2e-2}), ["character transformer"]),
        ("P31", {"gan": game(one_bit=50.0)}, ["GAN on digits, 1-bit Adam"]),
        ("P6", {"freeze_rule": rule(TRUE_LEVELS, since=60)}, [
            "digits MLP, β2 = 0.98", "character transformer, β2 = 0.98", "logistic regression, β2 = 0.98"]),
        ("P7", on("denoising", {ONE_BIT.label: 2e-2}), ["denoising autoencoder"]),
        ("P14", {"warmup_length": sweep("freeze_step", ONE_BIT.label, {1: 5e-3, 100: 1e-2}, {ADAM.label: 1e-2})}, [
            "T_w = 1 against 100"]),
        ("P15", {"scale_and_sparsity": sparsity(contraction_l2=0.9)}, ["l2 scale"]),
        ("P16", {"scale_and_sparsity": sparsity(l2=1.0, dense_l2=1e-2)}, ["1.6% non-zeros"]),
        ("P17", {"variance_floor": sweep("kappa", ONE_BIT.label, {0.0: 1e-3, 1e-3: 1e-2}, {FROZEN.label: 1e-2})}, [
            "κ = 0, as published"]),
        ("P36", {"time_to_loss": race(slow=2.0)}, ["links of 100Mbit"]),
        ("P18", {"linear_speedup": speedup(-0.6, size=1e6)}, ["every N and T"]),
    ]  # fmt: skip


GOOD = good_facts()
