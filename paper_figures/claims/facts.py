"""What claims are decided on: one mapping from names to tables and plain data, put together here.

| name | what |
|---|---|
| a figure's name | its tidy table |
| ``proofs`` | ``onebit prove --json`` |
| ``verify-reference``, ``verify-kernels-cpu`` ... | ``onebit verify --json`` of our implementations |
| ``mutants`` | ``onebit mutants --json`` |
| ``measurements`` | times of kernels, one row a device, D, N and program |
| ``conformance`` | the report on DeepSpeed's implementation, as ``onebit verify --json`` |
| ``profile`` | table 1 of the paper |
| ``published`` | what else is published and enters a computation |
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd

from paper_figures.claims.claim import EvidenceError, Facts
from theory.profile import RECALLED_COMPRESSED_SPEEDUP, TABLE_1, WARMUP_SHARE
from theory.theorem import Rank

ONE_BIT_FUSED = "1-bit Adam, fused kernels"
ONE_BIT_WHOLE = f"{ONE_BIT_FUSED}, the gradient's norm first"
"""As the optimizer takes a step: it must know that every gradient is finite before it overwrites anything [C8]."""
ONE_BIT_STEPS = {ONE_BIT_FUSED: "", ONE_BIT_WHOLE: ", the gradient's norm first"}
"""Both, with what is said of each behind a setting."""
ONE_BIT_UNFUSED = "1-bit Adam, one operation after another"
ADAM_FUSED = "Adam, torch's fused kernel"
GRADIENT_NORM = "norm of the gradient"
PROGRAMS = {
    ("step", "cpu"): ONE_BIT_FUSED,
    ("step", "triton"): ONE_BIT_FUSED,
    ("step", "DeepSpeed sequence"): ONE_BIT_UNFUSED,
    ("step", "DeepSpeed package"): ONE_BIT_UNFUSED,
    ("gradient_norm", "cpu"): GRADIENT_NORM,
    ("gradient_norm", "triton"): GRADIENT_NORM,
    ("adam", "torch.optim fused"): ADAM_FUSED,
    ("adam", "torch.optim fused, huge pages"): ADAM_FUSED,
}
"""Kernel and backend of a results file -> the program that it stands for; the others play no part in a claim."""


def gather(
    tables: Mapping[str, pd.DataFrame],
    found: Mapping[str, Any],
    measurements: Iterable[Mapping[str, Any]],
    conformance: Iterable[Mapping[str, Any]],
) -> Facts:
    """All facts.

    Args:
        tables: by figure.
        found: results of the stages ``proofs``, ``verify-...`` and ``mutants``, as plain JSON.
        measurements: contents of the files in ``gpu_impl/benchmarks/results``.
        conformance: contents of ``docs/conformance/PACKAGE-VERSION.json``.
    """
    deepspeed = [report for report in conformance if report["package"] == "deepspeed"]
    return {
        **tables,
        **found,
        "measurements": kernel_times(measurements),
        "conformance": deepspeed[-1] if deepspeed else None,
        "profile": pd.DataFrame([{**asdict(row), "step": row.step} for row in TABLE_1]),
        "published": {"compressed_speedup": RECALLED_COMPRESSED_SPEEDUP, "warmup_share": WARMUP_SHARE},
    }


def kernel_times(measurements: Iterable[Mapping[str, Any]]) -> pd.DataFrame | None:
    """device, dim, n_workers, label (the program), seconds, low, high, floor_bytes; None if nothing was measured.

    Of the published form. Where a program was timed on several kinds of memory, or again on a later day, the fastest
    counts. ``ONE_BIT_WHOLE`` is the sum of two that were timed by themselves.
    """
    rows = [
        {
            "device": record["environment"]["device"],
            "label": PROGRAMS[row["kernel"], row["backend"]],
            **{name: row[name] for name in ("dim", "n_workers", "seconds", "low", "high", "floor_bytes")},
        }
        for record in measurements
        for row in record["rows"]
        if (row["kernel"], row["backend"]) in PROGRAMS and row["grad_dtype"] == "float32" and is_published(row)
    ]
    if not rows:
        return None
    table = pd.DataFrame(rows).sort_values("seconds", kind="stable")
    table = table.drop_duplicates(["device", "dim", "n_workers", "label"]).sort_index(ignore_index=True)
    step, norm = (
        table.loc[table["label"] == label].set_index(["device", "dim", "n_workers"]).drop(columns="label")
        for label in (ONE_BIT_FUSED, GRADIENT_NORM)
    )
    whole = (step + norm).dropna().reset_index().assign(label=ONE_BIT_WHOLE)
    found = table.loc[table["label"] != GRADIENT_NORM]
    return pd.concat([found, whole], ignore_index=True) if len(found) else None


def is_published(row: Mapping[str, Any]) -> bool:
    """Whether a row of kernel times is of the published form; rows of before there were others don't say so."""
    form = row.get("compress", "momentum"), row.get("scale_block"), row.get("frozen_dtype", "float32")
    return form == ("momentum", None, "float32")


def proved(facts: Facts, *ids: str) -> bool:
    """Whether all these theorems hold and are proved (a numerical rank is no proof).

    Raises:
        EvidenceError: one of them was not re-checked.
    """
    holds = {row["id"]: row["holds"] and row["rank"] != Rank.NUMERICAL for row in facts["proofs"]}
    if missing := [name for name in ids if name not in holds]:
        raise EvidenceError(f"{', '.join(missing)} was not re-checked")
    return all(holds[name] for name in ids)


def broken(facts: Facts, report: str, properties: Iterable[str] | None = None) -> tuple[list[str], int]:
    """Properties that fail in one report of ``onebit verify``, and how many were checked there.

    Raises:
        EvidenceError: one of ``properties`` (None: of any) was not checked, so that its silence would mean nothing.
    """
    checked: dict[str, bool] = {}  # a property that was checked in several set-ups holds if it holds in all
    for row in facts[report]["properties"]:
        if row["outcome"] in ("holds", "fails"):
            checked[row["property"]] = checked.get(row["property"], True) and row["outcome"] == "holds"
    wanted = list(checked) if properties is None else list(properties)
    missing = [name for name in wanted if name not in checked]
    if missing or not wanted:
        raise EvidenceError(f"{report} has not decided {', '.join(missing) or 'any property'}")
    return [name for name in wanted if not checked[name]], len(wanted)


def where(table: Any, **tags: Any) -> Any:
    """The rows in which every column of ``tags`` has that value."""
    rows = np.ones(len(table), bool)
    for column, value in tags.items():
        rows &= np.asarray(table[column] == value)
    return table.loc[rows]


def freeze_step(table: pd.DataFrame, label: str) -> int:
    """The first recorded step at which the variance of ``label`` is frozen, in all seeds.

    Raises:
        EvidenceError: it never is.
    """
    rows = table.loc[(table["label"] == label) & (table["frozen"] == 1)]
    if rows.empty:
        raise EvidenceError(f"{label!r} is never frozen")
    return int(rows.groupby("seed")["step"].min().max())


def bytes_per_step(table: pd.DataFrame, label: str) -> float:
    """What a worker sends in one step, at the end of the run.

    Raises:
        EvidenceError: fewer than two recorded steps.
    """
    sent = table.loc[table["label"] == label].groupby("step")["bytes_per_worker"].mean()
    if len(sent) < 2:
        raise EvidenceError(f"{label!r} has {len(sent)} recorded steps, two are needed")
    return float((sent.iloc[-1] - sent.iloc[-2]) / (sent.index[-1] - sent.index[-2]))
