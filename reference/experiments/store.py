"""Finished runs on disk: a CSV table and a JSON manifest each, written so that a crash leaves no half of one."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterable
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import pandas as pd

from reference.experiments.config import RunConfig, source_digest
from reference.experiments.run import COLUMNS, identify


def write_atomically(path: Path, text: str) -> None:
    """Write ``text`` to ``path`` in one rename: readers see the old file or the whole new one, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with NamedTemporaryFile("w", dir=path.parent, prefix=".", suffix=".part", delete=False) as part:
        try:
            part.write(text)
            part.flush()
            os.fsync(part.fileno())
        except BaseException:
            os.unlink(part.name)
            raise
    os.replace(part.name, path)


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
        """The stored table of ``config``, bit for bit, or None if that run has not finished here."""
        try:
            # The manifest is written last: where it is, the table is whole.
            json.loads((self.folder / f"{config.key()}.json").read_text())
            table = pd.read_csv(self.folder / f"{config.key()}.csv", float_precision="round_trip")
        except (OSError, ValueError):
            return None
        return identify(table, config) if set(COLUMNS) <= set(table.columns) else None

    def table(self, configs: Iterable[RunConfig]) -> pd.DataFrame:
        """The tables of ``configs``, one below the other; KeyError if one of them has not finished."""
        tables = []
        for config in configs:
            table = self.get(config)
            if table is None:
                raise KeyError(f"{config.key()} is not in {self.folder}")
            tables.append(table)
        return pd.concat(tables, ignore_index=True)

    def put(self, config: RunConfig, table: pd.DataFrame) -> None:
        """Store the table of ``config`` with its manifest."""
        write_atomically(self.folder / f"{config.key()}.csv", table.to_csv(index=False))
        write_atomically(self.folder / f"{config.key()}.json", json.dumps(manifest(config), indent=1))
