"""``onebit prove``: check theorems, let Coq check them, mutate them, evaluate their bounds, write the docs page."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich import box
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from onebit_files import counted, writable_file, write_atomically
from theory.assignments import evaluated, parse_assignments, typed_names
from theory.digits import Rounded, plain
from theory.theorem import Rank, Theorem, by_id
from theory.verdict import Verdict, judge

COQ_CACHE = Path(".cache/kernel")
NO_BOUND = "–"

SHOWN = 4
"""Numbers of an array that are printed, at either end."""


class NotChecked(Exception):  # noqa: N818  (it reports an absence, not an error)
    """Nothing was checked, for want of Coq or of mutants; the message says what to do."""


def input_text(value: Any) -> str:
    """An input as it is shown: a number as it was typed, an array by its first and last numbers."""
    if isinstance(value, (list, tuple, np.ndarray)):
        items = [input_text(item) for item in (value if len(value) <= 2 * SHOWN else [*value[:SHOWN], *value[-SHOWN:]])]
        return f"[{', '.join([*items[:SHOWN], *(['...'] if len(value) > len(items) else []), *items[SHOWN:]])}]"
    return plain(value) if isinstance(value, (int, float, Fraction, np.number)) else str(value)


def bounded(theorem: Theorem) -> str:
    """What is bounded, with its unit, where that is one quantity with a unit."""
    row = next((row for row in theorem.variables if row.symbol == theorem.conclusion.lhs and row.unit), None)
    return f"; it bounds {row.code}, in {row.unit}" if row else ""


def judged(
    theorems: Sequence[Theorem], lemmas: dict[str, Theorem], console: Console, *, ask_coq: bool
) -> list[Verdict]:
    """Check ``theorems`` behind a progress bar; with ``ask_coq`` Coq checks its part now, and the record is renewed.

    Raises:
        NotChecked: Coq is asked for and not installed.
    """
    from theory import kernel, kernel_record  # noqa: PLC0415

    checked = None
    with Progress(console=console, transient=True) as progress:
        if ask_coq:
            if kernel.coq_version() is None:
                raise NotChecked("--kernel needs Coq 8.16 or newer; on Debian: apt-get install coq libcoq-flocq "
                                 "libcoq-coquelicot libcoq-interval libcoq-mathcomp")  # fmt: skip
            own = [theorem for theorem in theorems if theorem.rank is Rank.KERNEL]
            task = progress.add_task("Coq", total=len(own))
            checked = kernel.check_all(own, COQ_CACHE, report=lambda result: progress.advance(task))
            kernel_record.write_record(list(lemmas.values()), checked)
        task = progress.add_task("proving", total=len(theorems))
        verdicts = []
        for theorem in theorems:
            progress.update(task, description=f"proving {theorem.id}")
            verdicts.append(judge(theorem, lemmas, checked))
            progress.advance(task)
    return verdicts


def result_table(verdicts: Sequence[Verdict], values: dict[str, tuple[Rounded, dict[str, Any]]]) -> Table:
    """The table that ``onebit prove`` prints."""
    table = Table("id", "theorem", "rank", "verdict", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for name in ("seconds", *(["bound"] if values else [])):
        table.add_column(name, justify="right")
    for verdict in verdicts:
        theorem = verdict.theorem
        rank = str(verdict.rank)
        if theorem.instance:
            rank += " (" + ", ".join(f"{key} = {count}" for key, count in theorem.instance.items()) + ")"
        row = [
            theorem.id,
            theorem.title,
            rank,
            f"[{'green' if verdict.holds else 'bold red' if verdict.faults else 'bold yellow'}]{verdict}[/]",
            f"{verdict.seconds:.2f}",
        ]
        if values:
            row.append(str(values[theorem.id][0]) if theorem.id in values else NO_BOUND)
        table.add_row(*row)
    return table


def mutate(theorems: Sequence[Theorem], console: Console, share: float, seed: int, *, whole: bool) -> Any:
    """Run the mutants behind a progress bar, then a sample of them through Coq where it is installed.

    With ``whole`` the tolerances are changed as well: they belong to no theorem alone.
    """
    from theory import kernel, mutants  # noqa: PLC0415

    names = [*([mutants.TOLERANCES] if whole else []), *(theorem.id for theorem in theorems)]
    jobs = max(1, min(os.cpu_count() or 1, len(names), round(10 * share * len(names))))
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("mutants", total=len(names) + (mutants.PARTS - 1) * whole)
        score = mutants.run(names, share=share, seed=seed, jobs=jobs, report=lambda name: progress.advance(task))
        own = [theorem for theorem in theorems if theorem.rank is Rank.KERNEL]
        if kernel.coq_version() and own:
            progress.update(task, description="a sample through Coq")
            mutants.coq_sample(own, COQ_CACHE, count=max(1, round(share * len(own))), seed=seed, jobs=2, score=score)
    if not score.total:
        raise NotChecked(f"--share {share} leaves no mutant of the theorems that are asked for: give a larger one")
    rejected = sum(score.rejected.values())
    console.print(f"{rejected} of {score.total - len(score.true)} false mutants rejected "
                  f"({', '.join(f'{kind} {count}' for kind, count in score.rejected.most_common())})")  # fmt: skip
    if score.true:
        verb = "is" if len(score.true) == 1 else "are"
        console.print(f"{counted(len(score.true), 'mutant')} {verb} true as well (listed with --json)")
    if score.coq_rejected or score.coq_true:
        refused = counted(score.coq_rejected, "changed statement")
        console.print(
            f"sample through Coq: it refused {refused}; {len(score.coq_true)} more are true by the same proof"
        )
    for name in score.survived:
        console.print(f"survived: {name}", style="bold red", markup=False)
    return score


def complete_theorem(incomplete: str) -> list[str]:
    """For the shell: ids that begin so, as they are typed (T6a or 6a)."""
    from theory.registry import all_theorems  # noqa: PLC0415

    ids = [theorem.id for theorem in all_theorems()]
    return [name for name in (*ids, *(name[1:] for name in ids if incomplete)) if name.startswith(incomplete)]


def prove(
    ids: Annotated[
        list[str] | None,
        typer.Argument(autocompletion=complete_theorem, help="theorem ids (6, T6, T6a); all when none is given"),
    ] = None,
    assignments: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=NUMBER...", help="evaluate bounds, e.g. --set N=64 T=1e5")
    ] = None,
    ask_coq: Annotated[
        bool, typer.Option("--kernel", help="let Coq check its proofs now, and renew the record")
    ] = False,
    with_mutants: Annotated[
        bool, typer.Option("--mutants", help="change every theorem in one place after another; each must be rejected")
    ] = False,
    share: Annotated[
        float | None, typer.Option(help="with --mutants: a random share of them; all when not given")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="with --mutants: seed of the sample; 0 when not given")] = None,
    json_path: Annotated[
        Path | None, typer.Option("--json", callback=writable_file, help="write the results as JSON (makes folders)")
    ] = None,
    latex_path: Annotated[
        Path | None, typer.Option("--latex", callback=writable_file, help="write a typeset appendix (makes folders)")
    ] = None,
    docs_path: Annotated[
        Path | None, typer.Option("--docs", callback=writable_file, help="write the page docs/theory.md, all theorems")
    ] = None,
) -> None:
    """Check the theorems.

    Exit status 0: they hold. 1: one fails. 2: the call was wrong, or no bound has a value at the numbers of --set (one
    that has none beside others is named, no more). 3: one was not checked, or its file can't be read.
    """
    from theory.json_rows import as_dict  # noqa: PLC0415
    from theory.registry import NotRead, collect, select  # noqa: PLC0415  (reading every theorem takes a second)
    from theory.render import latex_appendix, markdown  # noqa: PLC0415

    console = Console(stderr=False)
    names = ids or []
    # `--set N=64 T=1e5` reaches us as one option value and one argument: an argument with "=" is an assignment.
    settings = [*(assignments or []), *(name for name in names if "=" in name)]
    broken = collect()[1]
    try:
        if settings and not assignments:
            raise ValueError(f"{settings[0]!r} is not a theorem id; to evaluate a bound write --set {settings[0]}")
        check_sample(share, seed, with_mutants=with_mutants)
        if with_mutants and (settings or ask_coq or latex_path or docs_path):
            raise ValueError("--mutants goes with --share, --seed and --json alone: give the rest in another call")
        theorems, lemmas = select(name for name in names if "=" not in name), by_id(select())
        values = evaluated(theorems, parse_assignments(settings, typed_names(theorems))) if settings else {}
        if with_mutants:
            score = mutate(
                theorems, console, 1.0 if share is None else share, seed or 0, whole=all("=" in name for name in names)
            )
            if json_path:
                write_atomically(json_path, json.dumps(score.as_dict(), indent=2) + "\n")
            raise typer.Exit(1 if score.survived else 0)
        verdicts = judged(theorems, lemmas, console, ask_coq=ask_coq)
        if json_path:
            rows = [as_dict(verdict, values.get(verdict.theorem.id)) for verdict in verdicts]
            write_atomically(json_path, json.dumps(rows, indent=2) + "\n")
        if latex_path:
            check_that_they_hold("--latex", verdicts)
            write_atomically(latex_path, latex_appendix(theorems))
        if docs_path:
            known = {verdict.theorem.id for verdict in verdicts}
            rest = [theorem for theorem in select() if theorem.id not in known]
            check_that_they_hold("--docs", (*verdicts, *judged(rest, lemmas, console, ask_coq=False)))
            write_atomically(docs_path, markdown(select()))  # the page is always the whole one
    except (NotChecked, NotRead) as reason:
        typer.echo(f"onebit prove: {reason}", err=True)
        raise typer.Exit(3) from None
    except (ValueError, OSError) as reason:
        typer.echo(f"onebit prove: {reason}", err=True)
        raise typer.Exit(2) from None
    console.print(result_table(verdicts, values))
    report_details(console, verdicts, values, ask_coq=ask_coq)
    for item in broken:
        console.print(str(item), style="bold red", markup=False, soft_wrap=True)
    if any(verdict.faults for verdict in verdicts):
        raise typer.Exit(1)
    if broken or not all(verdict.holds for verdict in verdicts):
        raise typer.Exit(3)


def check_that_they_hold(option: str, verdicts: Iterable[Verdict]) -> None:
    """Refuse to typeset what does not hold.

    Raises:
        ValueError: a theorem doesn't; the message says why.
    """
    for verdict in verdicts:
        if not verdict.holds:
            reason = (*verdict.faults, *verdict.unchecked)[0]
            raise ValueError(f"{option} writes theorems that hold, and {verdict.theorem.id} does not: {reason}")


def check_sample(share: float | None, seed: int | None, *, with_mutants: bool) -> None:
    """Refuse options of the mutants without mutants, and a share that is none.

    Raises:
        ValueError: the call was wrong.
    """
    if not with_mutants and (share is not None or seed is not None):
        raise ValueError("--share and --seed choose mutants: give --mutants too")
    if share is not None and not 0 < share <= 1:
        raise ValueError(f"--share is a number in (0, 1], got {share}")


def report_details(
    console: Console, verdicts: Sequence[Verdict], values: dict[str, tuple[Rounded, dict[str, Any]]], *, ask_coq: bool
) -> None:
    """What the table has no room for: faults, skipped checks, evidence, axioms, the inputs of the bounds."""
    for verdict in verdicts:
        for fault in verdict.faults:
            console.print(f"{verdict.theorem.id} fails: {fault}", style="bold red", markup=False)
        for reason in verdict.unchecked:
            console.print(f"{verdict.theorem.id} is not checked: {reason}", style="bold yellow", markup=False)
        for name in verdict.skipped:
            console.print(f"{verdict.theorem.id} skipped: {name}", style="yellow", markup=False)
    if values and len(values) < len(verdicts):
        console.print(f"{NO_BOUND}: its bound takes nothing that was set, or was not evaluated", markup=False)
    for verdict in verdicts:
        if (name := verdict.theorem.id) in values:
            inputs_text = ", ".join(f"{key} = {input_text(value)}" for key, value in values[name][1].items())
            console.print(f"{name} at {inputs_text}{bounded(verdict.theorem)}", markup=False)
    evidence = sorted({verdict.evidence for verdict in verdicts if verdict.evidence})
    if evidence:
        count = sum(verdict.rank is Rank.KERNEL and verdict.holds for verdict in verdicts)
        console.print(f"{count} kernel-checked ({'; '.join(evidence)})", markup=False)
    if ask_coq and any(verdict.rank is Rank.KERNEL and verdict.holds for verdict in verdicts):
        axioms = sorted({name for verdict in verdicts if verdict.holds for name in verdict.axioms})
        console.print(f"axioms used: {', '.join(axioms) or 'none'}", markup=False)
