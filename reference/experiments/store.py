"""Finished runs on disk: one JSON file each, table and manifest, written so that a crash leaves no half of one."""

from __future__ import annotations

import platform
from collections.abc import Iterable
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pandas as pd

from onebit_files import read_sealed, write_sealed
from reference.experiments.config import RunConfig, source_digest
from reference.experiments.run import COLUMNS, identify


def manifest(config: RunConfig) -> dict[str, Any]:
    """What is needed to repeat a run: its configuration (with the seed), the versions, and the machine."""
    return {
        "config": config.to_dict(),
        "source_digest": source_digest(),
        "versions": {name: version(name) for name in ("onebit-adam", "numpy", "scipy", "pandas", "scikit-learn")},
        "python": platform.python_version(),
        "machine": platform.platform(),
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
    }


class RunStore:
    """A folder of finished runs, keyed by configuration and source (``RunConfig.key``)."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def get(self, config: RunConfig) -> pd.DataFrame | None:
        """The stored table of ``config``, bit for bit, or None if that run has not finished here.

        Nor is it here if its file is damaged, or that of another run.
        """
        stored = read_sealed(self.file(config))
        if stored is None:
            return None
        try:
            table, its_own = pd.DataFrame(stored["table"]), RunConfig(**stored["config"])
        except (ValueError, KeyError):
            return None
        mine = its_own.key() == config.key() and set(COLUMNS) <= set(table)
        return identify(table, config) if mine else None

    def table(self, configs: Iterable[RunConfig]) -> pd.DataFrame:
        """The tables of ``configs``, one below the other; KeyError if one of them has not finished."""
        tables = []
        for config in configs:
            table = self.get(config)
            if table is None:
                raise KeyError(f"{config.key()} is not in {self.folder}")
            tables.append(table)
        return pd.concat(tables, ignore_index=True)

    def put(self, config: RunConfig, table: pd.DataFrame, cpu_seconds: float | None = None) -> None:
        """Store the table of ``config`` with its manifest. JSON keeps every float to the last bit, NaN and inf too.

        ``cpu_seconds``: the processor time that the run took, all of it.
        """
        measured = table.columns[table.columns.get_loc("step") :]  # what stands before says which run it is
        content = {**manifest(config), "cpu_seconds": cpu_seconds}
        content["table"] = {name: table[name].tolist() for name in measured}
        write_sealed(self.file(config), content)

    def cpu_seconds(self, configs: Iterable[RunConfig]) -> float | None:
        """The processor time that these runs took, each counted once; None if one is not here, or was not timed."""
        stored = [read_sealed(file) for file in {self.file(config) for config in configs}]
        seconds = [one["cpu_seconds"] for one in stored if one is not None and one.get("cpu_seconds") is not None]
        return sum(seconds) if len(seconds) == len(stored) else None

    def file(self, config: RunConfig) -> Path:
        """Where ``config`` is kept."""
        return self.folder / f"{config.key()}.json"
