"""Experiments: run configurations, one run, a sweep of many, and the store of finished ones."""

from reference.experiments.config import RunConfig
from reference.experiments.run import COLUMNS, run
from reference.experiments.store import RunStore
from reference.experiments.sweep import sweep

__all__ = ["COLUMNS", "RunConfig", "RunStore", "run", "sweep"]
