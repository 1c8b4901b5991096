"""Many runs: in parallel, with a progress bar, each stored as soon as it is finished, none computed twice."""

from __future__ import annotations

import os
import signal
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import process_time
from typing import Any

import joblib
import pandas as pd
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from onebit_files import writable_folder
from onebit_signals import handled_by
from reference.experiments.config import RunConfig
from reference.experiments.run import run
from reference.experiments.store import RunStore

DASK_TIMEOUT = "10s"

Finished = tuple[RunConfig, pd.DataFrame, float]
"""A run, its table, and the processor time that it took, in seconds."""


def sweep(
    configs: Iterable[RunConfig],
    store: RunStore,
    *,
    n_jobs: int | None = None,
    scheduler: str | None = None,
    console: Console | None = None,
) -> pd.DataFrame:
    """Run all ``configs`` that the store does not hold yet, and return the tables of all, one below the other.

    Ctrl-C and SIGTERM stop it: runs that have finished are kept, the others leave nothing behind.

    Args:
        configs: the runs; equal ones are computed once.
        store: where finished runs are kept. An interrupted sweep goes on from there.
        n_jobs: processes on this machine; None means one a core.
        scheduler: address of a Dask scheduler ("tcp://host:8786"): the runs go to its workers instead, which need
            this package installed. The tables come back here, so no shared disk is needed.
        console: where the progress bar is drawn; None means standard error.

    Raises:
        ValueError: a configuration is not valid (found before anything runs), or the scheduler cannot be reached.
        OSError: nothing can be written into the store's folder.
    """
    configs = list(configs)
    unique = {config.key(): config for config in configs}
    for config in unique.values():
        config.build_probe(*config.build())
    missing = [config for config in unique.values() if store.get(config) is None]
    if missing:
        writable_folder(store.folder)
    missing.sort(key=lambda config: -config.steps)  # long runs first: the last minutes then use all cores
    with _stops_on_sigterm(), _progress(console) as progress:
        bar = progress.add_task("runs", total=len(unique), completed=len(unique) - len(missing))
        for config, table, cpu_seconds in _compute(missing, n_jobs or os.cpu_count() or 1, scheduler):
            store.put(config, table, cpu_seconds)
            progress.advance(bar)
    return store.table(configs)


def _compute(configs: list[RunConfig], n_jobs: int, scheduler: str | None) -> Iterator[Finished]:
    """Yield finished runs in the order in which they finish."""
    if not configs:
        return
    with _backend(scheduler):
        yield from unordered((joblib.delayed(_timed)(config) for config in configs), -1 if scheduler else n_jobs)


def unordered(calls: Iterable[Any], n_jobs: int) -> Iterator[Any]:
    """The results of joblib's delayed ``calls`` in the order in which they are finished."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "A worker stopped while")  # joblib replaces a process that has grown
        yield from joblib.Parallel(n_jobs=n_jobs, return_as="generator_unordered")(calls)


def _timed(config: RunConfig) -> Finished:
    began = process_time()
    return config, run(config), process_time() - began


@contextmanager
def _stops_on_sigterm() -> Iterator[None]:
    """Make SIGTERM end the program in order, with status 143: workers are ended, half-written files removed.

    Where SIGINT is ignored (``nohup``, a background job of a shell script), it is the only way to stop a sweep.
    Whoever has a handler of their own keeps it.
    """

    def stop(number: int, _frame: object) -> None:
        raise SystemExit(128 + number)

    with handled_by(stop, {signal.SIGTERM} if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL else ()):
        yield


@contextmanager
def _backend(scheduler: str | None) -> Iterator[None]:
    """joblib's own processes, or its Dask backend connected to ``scheduler``."""
    if scheduler is None:
        yield
        return
    try:
        from distributed import Client  # noqa: PLC0415 - an optional extra
    except ImportError:
        raise ValueError("a scheduler needs Dask: pip install 'onebit-adam[cluster]'") from None
    try:
        client = Client(scheduler, timeout=DASK_TIMEOUT)
    except (OSError, ValueError) as error:
        raise ValueError(f"no Dask scheduler answers at {scheduler!r}: {error}") from None
    with client, joblib.parallel_config(backend="dask"):
        yield


def _progress(console: Console | None) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=console or Console(stderr=True),
    )


def default_store() -> RunStore:
    """``$ONEBIT_CACHE`` if it is set, else ``.cache/runs`` in the current folder."""
    return RunStore(Path(os.environ.get("ONEBIT_CACHE", ".cache/runs")))
