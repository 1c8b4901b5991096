"""``onebit prove``: re-check theorems, evaluate their bounds, write the table, the appendix and the docs page."""

from __future__ import annotations

import inspect
import json
import os
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from theory.notation import NOTATION
from theory.theorem import Certificate, Theorem

ALIASES = {row.latex.lstrip("\\"): row.code for row in NOTATION if row.code.isidentifier()} | {"beta1": "beta1"}
"""Paper symbol -> code name, so that ``N=64`` and ``n_workers=64`` say the same."""


def parse_assignments(texts: Iterable[str]) -> dict[str, float]:
    """``["N=64", "T=1e5"]`` -> ``{"n_workers": 64.0, "n_steps": 1e5}``.

    Raises:
        ValueError: a text is not NAME=NUMBER, or a name is set twice.

    """
    values: dict[str, float] = {}
    for text in texts:
        name, equals, number = text.partition("=")
        if not (name and equals and number):
            raise ValueError(f"--set takes NAME=NUMBER, got {text!r}")
        code = ALIASES.get(name, name)
        if code in values:
            raise ValueError(f"--set gives {code} twice")
        try:
            values[code] = float(number)
        except ValueError:
            raise ValueError(f"--set {name}: {number!r} is not a number") from None
    return values


def parameters(theorem: Theorem) -> tuple[list[str], list[str]]:
    """The required and the optional parameter names of a theorem's bound."""
    items = inspect.signature(theorem.bound).parameters.values()
    required = [item.name for item in items if item.default is item.empty]
    return required, [item.name for item in items if item.default is not item.empty]


def evaluate_bounds(theorems: Sequence[Theorem], values: dict[str, float]) -> dict[str, float]:
    """Theorem id -> bound, for each theorem whose required parameters are all given.

    Raises:
        ValueError: a name that no selected bound takes, no bound with all its names given, or numbers that a bound
            refuses; the message names what the bounds take.

    """
    takes = {theorem.id: parameters(theorem) for theorem in theorems}
    usage = "; ".join(
        f"{name} takes {' '.join(required + [f'[{item}]' for item in optional]) or 'nothing'}"
        for name, (required, optional) in takes.items()
    )
    known = {item for required, optional in takes.values() for item in required + optional}
    if unknown := sorted(set(values) - known):
        raise ValueError(f"no selected bound takes {', '.join(unknown)}: {usage}")
    results: dict[str, float] = {}
    for theorem in theorems:
        required, optional = takes[theorem.id]
        if required and set(required) <= set(values):
            own = {name: values[name] for name in required + optional if name in values}
            try:
                results[theorem.id] = float(theorem.bound(**own))
            except (ValueError, ZeroDivisionError, OverflowError) as reason:
                raise ValueError(f"{theorem.id}: {reason}") from None
    if not results:
        missing = {name: [item for item in required if item not in values] for name, (required, _) in takes.items()}
        lacks = "; ".join(f"{name} still needs {' '.join(items)}" for name, items in missing.items() if items)
        raise ValueError(f"--set evaluates nothing: {lacks or usage}")
    return results


def write_atomically(path: Path, text: str) -> None:
    """Write ``text`` so that ``path`` holds either its old content or all of the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        umask = os.umask(0)
        os.umask(umask)
        Path(name).chmod(0o666 & ~umask)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


@dataclass(frozen=True)
class Outcome:
    """One row of the result: a theorem, its certificate and, if asked for, the value of its bound."""

    theorem: Theorem
    certificate: Certificate
    bound: float | None = None

    @property
    def verdict(self) -> str:
        """``holds``, ``holds, n skipped`` or ``FAILS``."""
        if not self.certificate.holds:
            return "FAILS"
        return f"holds, {len(self.certificate.skipped)} skipped" if self.certificate.skipped else "holds"

    def as_dict(self) -> dict[str, object]:
        """Plain data for ``--json``."""
        return {
            "id": self.theorem.id,
            "title": self.theorem.title,
            "words": self.theorem.words,
            "hypotheses": list(self.theorem.hypotheses),
            "status": str(self.theorem.status),
            "source": self.theorem.source,
            "laws": list(self.theorem.laws),
            "holds": self.certificate.holds,
            "failed": list(self.certificate.failed),
            "skipped": list(self.certificate.skipped),
            "links": self.certificate.links,
            "seconds": round(self.certificate.seconds, 3),
            "bound": self.bound,
        }


def certify(theorems: Sequence[Theorem], values: dict[str, float], console: Console) -> list[Outcome]:
    """Re-check ``theorems`` behind a progress bar and evaluate the bounds that ``values`` suffice for."""
    bounds = evaluate_bounds(theorems, values) if values else {}
    outcomes: list[Outcome] = []
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("proving", total=len(theorems))
        for theorem in theorems:
            progress.update(task, description=f"proving {theorem.id}")
            outcomes.append(Outcome(theorem, theorem.certificate(), bounds.get(theorem.id)))
            progress.advance(task)
    return outcomes


def result_table(outcomes: Sequence[Outcome]) -> Table:
    """The table that ``onebit prove`` prints."""
    with_bounds = any(outcome.bound is not None for outcome in outcomes)
    table = Table("id", "theorem", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("status", max_width=11)  # "certified numerically" in two lines leaves room for the title
    for name in ("links", "verdict", "seconds", *(["bound"] if with_bounds else [])):
        table.add_column(name, justify="left" if name == "verdict" else "right")
    for outcome in outcomes:
        certificate = outcome.certificate
        colour = "green" if certificate.holds else "bold red"
        row = [
            outcome.theorem.id,
            outcome.theorem.title,
            str(outcome.theorem.status),
            str(certificate.links),
            f"[{colour}]{outcome.verdict}[/]",
            f"{certificate.seconds:.2f}",
        ]
        if with_bounds:
            row.append("" if outcome.bound is None else f"{outcome.bound:.6g}")
        table.add_row(*row)
    return table


def prove(
    ids: Annotated[list[str] | None, typer.Argument(help="theorem ids (6, T6, T6a); all when none is given")] = None,
    assignments: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=NUMBER...", help="evaluate bounds, e.g. --set N=64 T=1e5")
    ] = None,
    json_path: Annotated[Path | None, typer.Option("--json", help="write the results as JSON")] = None,
    latex_path: Annotated[Path | None, typer.Option("--latex", help="write a typeset appendix")] = None,
    docs_path: Annotated[
        Path | None, typer.Option("--docs", help="write the page docs/theory.md, all theorems")
    ] = None,
) -> None:
    """Re-check the theorems' certificates; exit 1 if one fails, 2 if the call was wrong."""
    from theory.registry import select  # noqa: PLC0415  (importing every theorem takes a second that --help can save)
    from theory.render import latex_appendix, markdown  # noqa: PLC0415

    console = Console(stderr=False)
    names = ids or []
    # `--set N=64 T=1e5` reaches us as one option value and one argument: an argument with "=" is an assignment.
    settings = [*(assignments or []), *(name for name in names if "=" in name)]
    try:
        if settings and not assignments:
            raise ValueError(f"{settings[0]!r} is not a theorem id; to evaluate a bound write --set {settings[0]}")
        theorems = select(name for name in names if "=" not in name)
        outcomes = certify(theorems, parse_assignments(settings), console)
        if json_path:
            write_atomically(json_path, json.dumps([outcome.as_dict() for outcome in outcomes], indent=2) + "\n")
        if latex_path:
            write_atomically(latex_path, latex_appendix(theorems))
        if docs_path:
            write_atomically(docs_path, markdown(select()))  # the page is always the whole one
    except (ValueError, OSError) as reason:
        typer.echo(f"onebit prove: {reason}", err=True)
        raise typer.Exit(2) from None
    console.print(result_table(outcomes))
    for outcome in outcomes:
        for name in outcome.certificate.failed:
            console.print(f"{outcome.theorem.id} fails: {name}", style="bold red", markup=False)
        for name in outcome.certificate.skipped:
            console.print(f"{outcome.theorem.id} skipped: {name}", style="yellow", markup=False)
    if not all(outcome.certificate.holds for outcome in outcomes):
        raise typer.Exit(1)
