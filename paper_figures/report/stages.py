"""The stages of a report that this machine computes: proofs, checks of our own implementations, mutants."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from functools import partial
from multiprocessing import active_children, get_context, parent_process
from pathlib import Path
from typing import Any, TypeVar

from joblib import cpu_count
from rich.progress import Progress

import verification
from onebit_signals import stoppable
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
from verification.search.plan import PROFILES, Profile
from verification.search.search import search

T = TypeVar("T")

SAMPLED = {False: 20, True: 60}
"""Mutants that are sampled, of triggers that the search was not made with: in a report, and in one of all."""

MOST_ALIVE = 0.02
"""The share of them that may live; more is said to be false where the 95 % interval of the sample rules it out."""

PAIRS = replace(PROFILES["quick"], exact=60, cheap=0)
"""A quarter of the cases of ``onebit verify``, with every pair of levels: for optimizers, where not all are wanted."""

IMPLEMENTATIONS = {
    "reference": "reference.py:ReferenceOptimizer",
    "reference-collective": "reference.py:ReferenceCollective",
    "kernels-cpu": "kernels.py:Kernels",
    "kernels-torch": "kernels.py:TorchKernels",
    "optimizer": "optimizer.py:Optimizer",
}
"""Ours, each by its adapter in ``verification/adapters``."""

LONG_FIRST = (
    "verify-optimizer",
    "verify-kernels-torch",
    "verify-kernels-cpu",
    "verify-reference",
    "proofs",
    "verify-reference-collective",
)
"""The order in which they are begun."""

ORDER = ("proofs", *(f"verify-{name}" for name in IMPLEMENTATIONS), "mutants")

ADAPTERS = Path(verification.__file__).parent / "adapters"
CHECKING = ("theory", "reference", "verification")
CHECKING_LIBRARIES = ("numpy",)


def gather(
    folder: Path, progress: Progress, *, jobs: int, every: bool = False, wanted: Sequence[str] | None = None
) -> dict[str, Evidence]:
    """The stages, each from ``folder`` if it is kept there, else computed behind a bar of ``progress``.

    Args:
        folder: where evidence is kept between calls; what was finished before an interruption is there.
        progress: draws the bars.
        jobs: processes; -1 is one a core.
        every: all cases of ``onebit verify``, not :data:`PAIRS`, and more mutants.
        wanted: names of the stages that are wanted; None: all.
    """
    finders = {f"verify-{name}": partial(check, name, folder, every=every) for name in IMPLEMENTATIONS}
    finders["proofs"] = partial(proofs, folder)
    calls = {name: finders[name] for name in LONG_FIRST if wanted is None or name in wanted}
    n_processes = cpu_count() if jobs == -1 else jobs
    with stoppable():
        found = side_by_side(calls, n_processes, progress, "proofs, checks of our implementations")
        if wanted is None or "mutants" in wanted:
            found["mutants"] = mutants(folder, progress, jobs, SAMPLED[every])
    return {name: found[name] for name in ORDER if name in found}


def side_by_side(calls: Mapping[str, Callable[[], T]], n_processes: int, progress: Progress, what: str) -> dict[str, T]:
    """The results of ``calls``, made in so many processes, begun in their order; ``what`` stands at their bar.

    The processes are spawned by Python itself: our optimizer's adapter starts workers of its own. In a process of
    joblib's these can't start, for they inherit a start method that only joblib knows. After a failure or Ctrl-C they
    are ended.
    """
    if not calls:
        return {}
    others = set(active_children())
    pool = ProcessPoolExecutor(n_processes, mp_context=get_context("spawn"), initializer=end_with_parent)
    try:
        futures = {pool.submit(call): name for name, call in calls.items()}
        done = progress.track(as_completed(futures), total=len(calls), description=what)
        return {futures[future]: future.result() for future in done}
    except BaseException:
        for process in set(active_children()) - others:
            process.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def end_with_parent() -> None:
    """Let this process end when the one that started it has, and leave Ctrl-C to that one, which ends this."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def check(name: str, folder: Path, *, every: bool) -> Evidence:
    """The check of one of our implementations, from ``folder`` if it is kept there."""
    target, whole = f"verification/adapters/{IMPLEMENTATIONS[name]}", every or name == "reference-collective"
    packages, libraries = (
        (CHECKING, CHECKING_LIBRARIES)
        if name.startswith("reference")
        else ([*CHECKING, "gpu_impl"], [*CHECKING_LIBRARIES, "torch"])
    )
    return obtain(
        f"verify-{name}",
        f"onebit verify {target}" if whole else "onebit report",
        packages=packages,
        libraries=libraries,
        folder=folder,
        find=partial(verify, target, PROFILES["quick"] if whole else PAIRS),
    )


def proofs(folder: Path) -> Evidence:
    """The verdict on every theorem, from ``folder`` if it is kept there."""
    libraries = ["sympy", "numpy", "scipy", "PEPit"]
    return obtain("proofs", "onebit prove", packages=["theory"], libraries=libraries, folder=folder, find=prove)


def prove() -> list[dict[str, object]]:
    """The verdict on every theorem; Coq's part rests on the committed record, as `onebit prove` says."""
    lemmas = by_id(all_theorems())
    return [theorem_as_dict(judge(theorem, lemmas, None), None) for theorem in all_theorems()]


def verify(target: str, profile: Profile) -> dict[str, Any]:
    """Every clause on one of our implementations, however busy the machine is: what is kept must be whole.

    Raises:
        AdapterError: the class cannot be driven at all.
    """
    driver = Driver(load_class(str(ADAPTERS / target.rpartition("/")[2])))
    result = search(driver, profile=profile, minutes=PROFILES["deep"].minutes)
    source, _, class_name = target.rpartition(":")
    rows = [as_dict(verdict, source, class_name) for verdict in result.verdicts]
    return {"target": target, "properties": rows, **coverage_of(result, rows)}


def mutants(folder: Path, progress: Progress, jobs: int, count: int) -> Evidence:
    """A sample of so many mutants, from ``folder`` if it is kept there."""
    return obtain(
        "mutants",
        f"onebit mutants --count {count}",
        packages=CHECKING,
        libraries=CHECKING_LIBRARIES,
        folder=folder,
        find=partial(run_mutants, progress, jobs, count),
    )


def run_mutants(progress: Progress, jobs: int, count: int) -> dict[str, Any]:
    """A sample of conditional mutants; the titles of the clauses with it."""
    found = progress.track(campaign("held-out", count, 0, jobs=jobs), total=count, description="mutants")
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
