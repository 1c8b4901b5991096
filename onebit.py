"""The command ``onebit``: one front door to the proofs, the figures and the benchmarks."""

from __future__ import annotations

import sys
from typing import Any

import typer

import reference.bench
from paper_figures.cli import figures
from theory.cli import prove

USAGE_ERROR: Any = next(base for base in typer.BadParameter.__mro__ if base.__name__ == "ClickException")
"""What typer raises for a wrong call; newer typers carry click inside them, so it can't be imported from there."""

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="The reference toolkit for [bold]1-bit Adam[/bold]: communication-efficient distributed Adam.\n\n"
    "Exit status: 0 it holds, 1 something was found false, 2 the call was wrong (one line says why).",
)
app.command()(prove)
app.command()(figures)
bench = typer.Typer(help="Measure speed on this machine, beside the bytes that must move.")
bench.command("reference")(reference.bench.reference)
app.add_typer(bench, name="bench")


def main() -> None:
    """Run the command line: one line on standard error for a wrong call, nothing lost on Ctrl-C."""
    try:
        status = app(sys.argv[1:] or ["--help"], standalone_mode=False)
    except USAGE_ERROR as error:
        print(f"onebit: {error.format_message()}", file=sys.stderr)  # noqa: T201
        status = 2
    except OSError as error:  # a file that can't be read or written, a full disk: the message names it
        print(f"onebit: {error}", file=sys.stderr)  # noqa: T201
        status = 2
    except (typer.Abort, KeyboardInterrupt):
        print("onebit: interrupted; finished runs are kept, the same call goes on from there", file=sys.stderr)  # noqa: T201
        status = 130
    sys.exit(status)


if __name__ == "__main__":
    main()
