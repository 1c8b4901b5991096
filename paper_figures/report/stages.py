"""The stages of a report that this machine computes: proofs, checks of our own implementations, mutants."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from multiprocessing import get_context, parent_process
from pathlib import Path
from typing import Any

from joblib import cpu_count
from rich.progress import Progress

import verification
from paper_figures.report.evidence import Evidence, obtain
from theory.json_rows import as_dict as theorem_as_dict
from theory.registry import all_theorems
from theory.theorem import by_id
from theory.verdict import judge
from verification.loading import load_class
from verification.mutants.score import Score, campaign, share_interval
from verification.report import as_dict, coverage_of
from verification.search.clauses import CLAUSES
from verification.search.driver import Driver
from verification.search.search import search

SAMPLED = 60
"""Mutants that are sampled, of triggers that the search was not made with."""

MOST_ALIVE = 0.02
"""The share of them that may live; more is said to be false where the 95 % interval of the sample rules it out."""

IMPLEMENTATIONS = {
    "reference": "reference.py:ReferenceOptimizer",
    "reference-collective": "reference.py:ReferenceCollective",
    "kernels-cpu": "kernels.py:Kernels",
    "kernels-torch": "kernels.py:TorchKernels",
    "optimizer": "optimizer.py:Optimizer",
}
"""Ours, each by its adapter in ``verification/adapters``."""

ADAPTERS = Path(verification.__file__).parent / "adapters"
CHECKING = ("theory", "reference", "verification")
CHECKING_LIBRARIES = ("numpy",)


def gather(folder: Path, progress: Progress, *, jobs: int, wanted: Sequence[str] | None = None) -> dict[str, Evidence]:
    """The stages, each from ``folder`` if it is kept there, else computed behind a bar of ``progress``.

    Args:
        folder: where evidence is kept between calls; what was finished before an interruption is there.
        progress: draws the bars.
        jobs: processes for the checks and the mutants; -1 is one a core.
        wanted: names of those that are wanted; None: all.
    """
    evidence: dict[str, Evidence] = {}

    def stage(name: str, command: str, packages: Sequence[str], libraries: Sequence[str], find: Callable[[], Any]):
        if wanted is not None and name not in wanted:
            return
        evidence[name] = obtain(name, command, packages=packages, libraries=libraries, folder=folder, find=find)

    stage("proofs", "onebit prove", ["theory"], ["sympy", "numpy", "scipy", "PEPit"], lambda: prove(progress))
    names = [name for name in IMPLEMENTATIONS if wanted is None or f"verify-{name}" in wanted]
    if names:
        checks = check_all(names, folder, cpu_count() if jobs == -1 else jobs)
        for item in progress.track(checks, total=len(names), description="checks of our implementations"):
            evidence[item.name] = item
    order = ("proofs", *(f"verify-{name}" for name in names))
    evidence = {name: evidence[name] for name in order if name in evidence}
    stage("mutants", "onebit mutants", CHECKING, CHECKING_LIBRARIES, lambda: run_mutants(progress, jobs))
    return evidence


def check_all(names: Sequence[str], folder: Path, jobs: int) -> Iterator[Evidence]:
    """The checks of these implementations of ours, side by side in ``jobs`` processes, the long ones first.

    The processes are spawned by Python itself: our optimizer's adapter starts workers of its own. In a process of
    joblib's these can't start, for they inherit a start method that only joblib knows.
    """
    long_first = sorted(names, key=lambda name: (name.startswith("reference"), name != "optimizer"))
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=end_with_parent) as pool:
        try:
            for done in as_completed([pool.submit(check, name, folder) for name in long_first]):
                yield done.result()
        finally:  # after a failure or Ctrl-C nothing new begins
            pool.shutdown(wait=False, cancel_futures=True)


def end_with_parent() -> None:
    """Let this process end when the one that started it has: a killed report must not go on computing."""
    parent = parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def check(name: str, folder: Path) -> Evidence:
    """The check of one of our implementations, from ``folder`` if it is kept there."""
    target = f"verification/adapters/{IMPLEMENTATIONS[name]}"
    packages, libraries = (
        (CHECKING, CHECKING_LIBRARIES)
        if name.startswith("reference")
        else ([*CHECKING, "gpu_impl"], [*CHECKING_LIBRARIES, "torch"])
    )
    return obtain(
        f"verify-{name}",
        f"onebit verify {target}",
        packages=packages,
        libraries=libraries,
        folder=folder,
        find=partial(verify, target),
    )


def prove(progress: Progress) -> list[dict[str, object]]:
    """The verdict on every theorem; Coq's part rests on the committed record, as `onebit prove` says."""
    lemmas = by_id(all_theorems())
    theorems = progress.track(all_theorems(), description="proofs")
    return [theorem_as_dict(judge(theorem, lemmas, None), None) for theorem in theorems]


def verify(target: str) -> dict[str, Any]:
    """Every clause on one of our implementations.

    Raises:
        AdapterError: the class cannot be driven at all.
    """
    driver = Driver(load_class(str(ADAPTERS / target.rpartition("/")[2])))
    result = search(driver)
    source, _, class_name = target.rpartition(":")
    rows = [as_dict(verdict, source, class_name) for verdict in result.verdicts]
    return {"target": target, "properties": rows, **coverage_of(result, rows)}


def run_mutants(progress: Progress, jobs: int) -> dict[str, Any]:
    """A sample of conditional mutants; the titles of the clauses with it."""
    found = progress.track(campaign("held-out", SAMPLED, 0, jobs=jobs), total=SAMPLED, description="mutants")
    score = Score(tuple(sorted(found, key=lambda row: row.mutant)))
    clauses = [{"id": clause.id, "law": clause.law, "title": clause.title} for clause in CLAUSES]
    return {**score.as_dict(), "sentence": score.text(), "properties": clauses}


def found_false(evidence: dict[str, Evidence]) -> list[str]:
    """What must not be: a theorem that fails, an implementation of ours that breaks a law, a mutant that lives."""
    lines = [f"{row['id']} fails: {'; '.join(row['faults'])}" for row in evidence["proofs"].result if not row["holds"]]
    for name, item in evidence.items():
        if name.startswith("verify-"):
            lines += [
                f"{item.result['target']}: {row['property']} {row['outcome']}: {said(row)}"
                for row in item.result["properties"]
                if row["outcome"] != "holds"
            ]
    sampled = [row for row in evidence["mutants"].result["mutants"] if row["differs"]]
    alive = [row for row in sampled if not row["killed_by"]]
    if share_interval(len(sampled) - len(alive), len(sampled))[1] < 1 - MOST_ALIVE:
        one = alive[0]
        lines.append(f"{len(alive)} of {len(sampled)} mutants live, such as {one['mutant']}: {one['bug']}")
    return lines


def said(row: dict[str, Any]) -> str:
    """What was found, or why it was not checked."""
    return row["findings"][0]["message"] if row["findings"] else row["note"]
