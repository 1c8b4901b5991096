"""``onebit verify`` and ``onebit mutants``: check somebody's class, and show what the check finds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from onebit_files import counted, writable_file, write_atomically
from onebit_signals import INTERRUPTED, stoppable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from verification.isolated import Outcome
    from verification.search.causes import Cause
    from verification.search.verdicts import Result, Verdict

NOT_CHECKED = 3
"""Exit status: nothing was found false, but something that is needed was not checked."""


def complete_clause(incomplete: str) -> list[str]:
    """For the shell: clauses that begin so."""
    from verification.search.clauses import CLAUSES  # noqa: PLC0415

    return [clause.id for clause in CLAUSES if clause.id.startswith(incomplete)]


def complete_fault(incomplete: str) -> list[str]:
    """For the shell: faults and families that begin so."""
    from verification.mutants.families import all_bugs  # noqa: PLC0415

    names = dict.fromkeys(part for bug in all_bugs() for part in (bug.family, bug.id.partition(".")[2]))
    return [name for name in names if name.startswith(incomplete)]


def verify(
    target: Annotated[
        str, typer.Argument(metavar="FILE.py:Class", help="The class to check: verification/protocol.py.")
    ],
    profile: Annotated[
        str, typer.Option(metavar="quick|ci|deep", help="quick: at most 20 minutes; ci: at most 2 hours; deep: a day.")
    ] = "quick",
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--clause",
            autocompletion=complete_clause,
            help="Judge this clause alone; the cases are the same, so it takes nearly as long. Repeat it.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Other random cases for every seed.")] = 0,
    minutes: Annotated[
        float | None, typer.Option(min=0, help="Stop after so long; what is left is not checked.")
    ] = None,
    jobs: Annotated[
        int,
        typer.Option("--jobs", "-j", min=1, max=64, help="Processes that share the cases; each loads the class."),
    ] = 1,
    expected_failures: Annotated[Path | None, typer.Option(help="Lines CLAUSE  # REASON: these must fail.")] = None,
    json_file: Annotated[
        Path | None,
        typer.Option("--json", callback=writable_file, help="Write verdicts and counterexamples to this file."),
    ] = None,
    junit_file: Annotated[
        Path | None, typer.Option("--junit", callback=writable_file, help="Write a JUnit report to this file.")
    ] = None,
) -> None:
    """Check an implementation of 1-bit Adam against every law; print the smallest input that breaks one.

    Exit status 0: it holds. 1: something was found, or an expected failure holds. 2: the class can't be driven, or
    its process ended before the first case.
    3: nothing was found, but something was not checked: refused, cut by the time, or never judged, or the class ended
    its own process, or it has no such clause as was expected to fail. 130: stopped by Ctrl-C, SIGTERM or a closed
    terminal; what was found until then is printed and written.
    """
    from rich.console import Console  # noqa: PLC0415 - light --help
    from rich.progress import Progress  # noqa: PLC0415

    from verification.isolated import search_isolated  # noqa: PLC0415
    from verification.loading import load_expected_failures  # noqa: PLC0415
    from verification.search.plan import PROFILES  # noqa: PLC0415

    if profile not in PROFILES:
        raise typer.BadParameter(f"--profile must be one of {', '.join(PROFILES)}, got {profile!r}")
    if json_file and junit_file and json_file.resolve() == junit_file.resolve():
        raise typer.BadParameter("--json and --junit name the same file")
    console = Console(emoji=False)
    with stoppable() as finish:
        try:
            expected = load_expected_failures(expected_failures) if expected_failures else {}
            expected = {name: reason for name, reason in expected.items() if not only or name in only}
            with Progress(console=console, transient=True) as bars:
                bar = bars.add_task(f"{target}, {profile}", total=None)
                outcome = search_isolated(
                    target,
                    PROFILES[profile],
                    name=profile,
                    seed=seed,
                    only=only or (),
                    minutes=minutes,
                    jobs=jobs,
                    progress=lambda done, total: bars.update(bar, completed=done, total=total),
                    tell=lambda sentence: bars.console.print(sentence, highlight=False, soft_wrap=True),
                )
                finish()
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None
        _report(console, outcome, target, expected, {"profile": profile, "seed": seed}, json_file, junit_file)


def _report(
    console: Any,
    outcome: Outcome,
    target: str,
    expected: dict[str, str],
    about: dict[str, Any],
    json_file: Path | None,
    junit_file: Path | None,
) -> None:
    """Write and print what came of a search, and end with its exit status."""
    from verification.report import as_dict, coverage_of, to_json, to_junit, unexpected  # noqa: PLC0415 - light --help

    result = outcome.result
    source, _, class_name = target.rpartition(":")
    source = str(Path(source).resolve())  # a counterexample can be run from anywhere
    rows = [as_dict(verdict, source, class_name, expected.get(verdict.clause.id)) for verdict in result.verdicts]
    if json_file:
        write_atomically(json_file, to_json(rows, target=target, **about, **coverage_of(result, rows)))
    if junit_file:
        write_atomically(junit_file, to_junit(rows, target))
    for verdict in result.verdicts:
        _print_verdict(console, verdict, expected)
    failed, mended = unexpected(rows)
    unchecked = set(expected) - {row["property"] for row in rows if row["outcome"] != "not checked"}
    _print_causes(console, failed, result.causes)
    for row in mended:
        console.print(f"{row['property']} was expected to fail and holds: take it out of --expected-failures")
    for name in sorted(unchecked):
        console.print(f"{name} was expected to fail and was not checked", highlight=False, soft_wrap=True)
    _print_coverage(console, outcome.name, result, len(failed))
    if outcome.stopped:
        raise typer.Exit(INTERRUPTED)
    if failed or mended:
        raise typer.Exit(1)
    if unchecked or result.of("not checked") or not outcome.whole:
        raise typer.Exit(NOT_CHECKED)


SHOWN = 3
"""So many causes are printed; ``--json`` writes all."""


def _print_causes(console: Any, failed: list[dict[str, Any]], causes: Sequence[Cause]) -> None:
    """Each cause once: the clauses that fail for it, its program, and what was found of those that it doesn't show."""
    from verification.report import causes_of, shortened  # noqa: PLC0415 - light --help

    named = [one["clauses"] for one in causes_of(causes, failed)]
    rows = {row["property"]: row for row in failed}
    of_causes = [[rows[name] for name in clauses if name in rows] for clauses in named]
    found, total = [one for one in enumerate(of_causes, start=1) if one[1]], len(named)
    for number, (clauses, unexpected) in enumerate(zip(named, of_causes, strict=True), start=1):
        if not unexpected:
            about = f"\n[bold]cause {number} of {total}:[/bold] {', '.join(clauses)}, as expected"
            console.print(about, highlight=False, soft_wrap=True)
    for number, (first, *others) in found[:SHOWN]:
        names = ", ".join(row["property"] for row in (first, *others))
        about = f"\n[bold]cause {number} of {total}:[/bold] {names}"
        console.print(about, highlight=False, soft_wrap=True)
        shown = shortened(first["counterexample"])
        console.print(shown, highlight=False, soft_wrap=True, markup=False, style="cyan")
        for row in others:
            if (message := row["findings"][0]["message"]) not in shown:
                text = f"# the smallest case of {row['property']} ({row['law']}): {message}"
                console.print(text, highlight=False, soft_wrap=True, markup=False)
    if len(found) > SHOWN:
        console.print(f"\n# and {counted(len(found) - SHOWN, 'more cause')}: --json FILE, or --clause NAME")


def _print_coverage(console: Any, name: str, result: Result, failed: int) -> None:
    from verification.report import coverage_lines  # noqa: PLC0415

    console.print()
    for coverage in result.coverage:
        console.print("\n".join(coverage_lines(coverage)), highlight=False, soft_wrap=True)
    for reason, names in result.left_out.items():
        console.print(f"left out, because {reason}: {', '.join(names)}", highlight=False, soft_wrap=True)
    for note in result.notes:
        console.print(f"[yellow]{note}[/yellow]", highlight=False, soft_wrap=True)
    unchecked, total = len(result.of("not checked")), len(result.verdicts)
    verdict = f"{failed} of {total} clauses fail" if failed else f"{len(result.of('holds'))} of {total} clauses hold"
    verdict += f", {expected} fail as expected" if (expected := len(result.of("fails")) - failed) else ""
    verdict += f", {unchecked} not checked" if unchecked else ""
    took = f"{result.seconds:.1f} s" + (f", {result.cpu_seconds:.1f} s of processor time" if result.cpu_seconds else "")
    console.print(f"{name}: {verdict}; {counted(result.cases, 'case')} in {took}", highlight=False, soft_wrap=True)


def _print_verdict(console: Any, verdict: Verdict, expected: dict[str, str]) -> None:
    marks = {"holds": "[green]holds[/green]      ", "fails": "[red]fails[/red]      "}
    mark = marks.get(verdict.outcome, "[yellow]not checked[/yellow]")
    if verdict.outcome == "fails" and verdict.clause.id in expected:
        mark = "[yellow]as expected[/yellow]"
    text = verdict.note or counted(verdict.cases, "case")
    console.print(f"{mark} {verdict.clause.id:<26} {verdict.clause.law:<11} {text}", highlight=False, soft_wrap=True)


def mutants(
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            autocompletion=complete_fault,
            help="Faults of this class or family alone, each without a condition as well. Repeat it.",
        ),
    ] = None,
    count: Annotated[
        int | None, typer.Option(min=1, help="How many are sampled; default: 200, with --only 5 a fault.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Another sample; with --false-alarms other cases.")] = 0,
    split: Annotated[
        str, typer.Option(metavar="held-out|development", help="Triggers: held-out, or those of the development.")
    ] = "held-out",
    profile: Annotated[str, typer.Option(metavar="quick|ci|deep", help="The search that must find them.")] = "quick",
    full: Annotated[
        bool, typer.Option("--full", help="Print a line for every mutant, as --only does, not only those that live.")
    ] = False,
    false_alarms: Annotated[
        int | None, typer.Option(min=1, metavar="SEEDS", help="Instead, run correct classes with so many seeds.")
    ] = None,
    algorithm: Annotated[
        str | None, typer.Option(metavar="one_bit_adam|zero_one_adam|one_bit_lamb", help="Faults in this one alone.")
    ] = None,
    jobs: Annotated[int, typer.Option(help="Processes; -1: one a core.")] = -1,
    json_file: Annotated[
        Path | None, typer.Option("--json", callback=writable_file, help="Write the rows and the score to this file.")
    ] = None,
) -> None:
    """Inject faults into a correct implementation, each under a condition, and show which of them the search finds.

    A mutant is one of some 300 faults under one of some thousand triggers. A sample is searched, and the score has its
    95 % interval. With --false-alarms, correct implementations are searched instead: nothing may be found there.

    A new fault is tried by its class: onebit mutants --only ErrorWithoutItsScale. All of a file: --only signs --full.

    Exit status 0: all were found. 1: one lives, or a correct class was accused. 3: a file of mutants can't be used.
    130: stopped by Ctrl-C, SIGTERM or a closed terminal; the score of those that were done is printed and written.
    """
    _check_options(split, profile, algorithm, jobs, faults=bool(only), correct=false_alarms is not None)
    from rich.console import Console  # noqa: PLC0415 - light --help
    from rich.progress import track  # noqa: PLC0415

    from verification.mutants.families import collected  # noqa: PLC0415
    from verification.mutants.score import Score, campaign, population, sample_size  # noqa: PLC0415

    if false_alarms is not None:
        _correct_classes(false_alarms, seed, jobs, json_file)
        return
    console, rows, stopped, names = Console(emoji=False), [], False, tuple(only or ())
    try:
        count = sample_size(split, count, seed, names, algorithm)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    found = campaign(split, count, seed, names, algorithm, profile=profile, jobs=jobs)
    try:
        with stoppable():
            for row in track(found, "mutants", count, console=console, transient=True):
                rows.append(row)
                if full or names or row.lives:
                    mark = ", ".join(row.killed_by) or ("[red]lives[/red]" if row.lives else "never differs")
                    console.print(f"{mark}  {row.mutant}: {row.bug}", highlight=False, soft_wrap=True)
    except KeyboardInterrupt:
        stopped = True
        console.print(f"stopped after {len(rows)} of {count} mutants; the score is of these")
    score = Score(tuple(sorted(rows, key=lambda row: row.mutant)))
    of = f"{split} triggers, {' '.join(names) or f'{len(population(split))} mutants'}"
    console.print(f"{of}, seed {seed}, {profile}: {score.text()}", highlight=False, soft_wrap=True)
    if json_file:
        about = {
            "split": split,
            "algorithm": algorithm,
            "seed": seed,
            "profile": profile,
            "population": len(population(split)),
            "only": names,
        }
        write_atomically(json_file, json.dumps({**about, **score.as_dict()}, indent=1))
    if stopped or score.alive:
        raise typer.Exit(INTERRUPTED if stopped else 1)
    if broken := collected()[1]:
        for sentence in broken:
            typer.echo(f"onebit mutants: {sentence}", err=True)
        raise typer.Exit(3)


def _check_options(split: str, profile: str, algorithm: str | None, jobs: int, *, faults: bool, correct: bool) -> None:
    """Refuse options of ``onebit mutants`` that are none."""
    from verification.algorithms import ALGORITHMS  # noqa: PLC0415
    from verification.mutants.triggers import SPLITS  # noqa: PLC0415
    from verification.search.plan import PROFILES  # noqa: PLC0415

    if jobs == 0 or jobs < -1:
        raise typer.BadParameter(f"--jobs must be -1 or at least 1, got {jobs}")
    if faults and correct:
        raise typer.BadParameter("--only chooses faults, and --false-alarms runs correct classes: give one of them")
    asked = (("--split", split, SPLITS), ("--profile", profile, PROFILES), ("--algorithm", algorithm, ALGORITHMS))
    for option, value, choices in asked:
        if value is not None and value not in choices:
            raise typer.BadParameter(f"{option} must be one of {', '.join(choices)}, got {value!r}")


def _correct_classes(seeds: int, start: int, jobs: int, json_file: Path | None) -> None:
    from dataclasses import asdict  # noqa: PLC0415

    from rich.console import Console  # noqa: PLC0415
    from rich.progress import track  # noqa: PLC0415

    from verification.independent.false_alarms import campaign, correct_classes, number_of_parts  # noqa: PLC0415

    console, alarms, cases, parts, stopped = Console(emoji=False), [], 0, 0, False
    results = campaign(seeds, jobs=jobs, start=start)
    try:
        with stoppable():
            bar = track(results, "correct classes", number_of_parts(seeds), console=console, transient=True)
            for found, tried in bar:
                alarms += found
                cases += tried
                parts += 1
                for alarm in found:
                    text = f"{alarm.under_test} {alarm.clause}, seed {alarm.seed}: {alarm.message}"
                    console.print(f"[red]false alarm[/red] {text}", soft_wrap=True)
    except KeyboardInterrupt:
        stopped = True
        console.print(f"stopped after {parts} of {number_of_parts(seeds)} parts")
    classes = len(correct_classes())
    each = "so far" if stopped else f"{counted(seeds, 'seed')} each"
    console.print(
        f"{counted(len(alarms), 'false alarm')} in {counted(cases, 'case')} of {classes} correct classes, {each}"
    )
    if json_file:
        command = f"onebit mutants --false-alarms {seeds} --seed {start}"
        about = {"command": command, "seeds": seeds, "correct_classes": classes, "cases": cases, "whole": not stopped}
        write_atomically(json_file, json.dumps({**about, "alarms": [asdict(alarm) for alarm in alarms]}, indent=1))
    if stopped:
        raise typer.Exit(INTERRUPTED)
    if alarms:
        raise typer.Exit(1)
