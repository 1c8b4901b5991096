"""When each entrant of the race is at Adam's loss: from the runs of ``gpu_impl.netlab.race``, as tidy tables."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pandas as pd

import gpu_impl
from gpu_impl.netlab.race import Run
from paper_figures.claims.claim import MAIN_MARGIN
from paper_figures.figure import MissingResultsError

RESULTS = Path(gpu_impl.__file__).parent / "netlab" / "results" / "race"
BASE = "ddp"
"""Whose last loss is the aim: DDP with Adam, float32 on the wire."""


def tidy(runs: Iterable[Run]) -> pd.DataFrame:
    """A row for each look of each run: ``entrant``, ``label``, ``seed``, ``bandwidth``, ``step``, ``seconds``, ...."""
    frames = [pd.DataFrame(asdict(run)) for run in runs]
    return pd.concat(frames, ignore_index=True).rename(columns={"title": "label"})


def committed() -> pd.DataFrame:
    """The runs of all files that ``--json`` has written into ``RESULTS``, with ``file`` and the machine's ``device``.

    Raises:
        MissingResultsError: there is none.
    """
    files = sorted(RESULTS.glob("*.json"))
    if not files:
        raise MissingResultsError(
            f"there is no race in {RESULTS}; as root, in half an hour, `onebit netlab race "
            f"--json {RESULTS / 'MACHINE-DATE.json'}` makes one"
        )
    records = [(file.stem, json.loads(file.read_text(encoding="utf-8"))) for file in files]
    return pd.concat(
        [
            tidy(Run(**row) for row in record["runs"]).assign(file=stem, device=record["environment"]["device"])
            for stem, record in records
        ],
        ignore_index=True,
    )


def arrivals(table: pd.DataFrame) -> pd.DataFrame:
    """A row for each bandwidth, entrant and seed: where it first is within 5 % of Adam's last loss, by its own seed.

    Columns ``step``, ``seconds``, ``payload_bytes``: until then, inf if it never is; ``ratio``: last loss over Adam's.
    """
    rows = []
    for _, here in table.groupby(["bandwidth", "seed"]):
        adam = here.loc[here["entrant"] == BASE].sort_values("step")
        if adam.empty:
            continue
        aim = float(adam["loss"].iloc[-1])
        for _, run in here.groupby("entrant", sort=False):
            ordered = run.sort_values("step")
            there = ordered.loc[ordered["loss"] <= (1 + MAIN_MARGIN) * aim]
            cost = {
                name: float(there[name].iloc[0]) if len(there) else np.inf
                for name in ("step", "seconds", "payload_bytes")
            }
            which = {name: run[name].iloc[0] for name in ("bandwidth", "entrant", "label", "seed")}
            rows.append(which | cost | {"ratio": float(ordered["loss"].iloc[-1]) / aim})
    return pd.DataFrame(rows)
