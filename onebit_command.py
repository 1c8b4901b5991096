"""The command ``onebit``: the proofs, the checks, the figures and the benchmarks. ``onebit.main`` starts it."""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer

import reference.bench
import reference.listing
from onebit_doctor import doctor
from onebit_files import counted, writable_file, write_atomically
from onebit_signals import INTERRUPTED, loading, stoppable
from paper_figures.claims.cli import claims
from paper_figures.cli import figures
from paper_figures.report.cli import report
from paper_figures.usage import USAGE_ERROR
from theory.cli import prove
from verification.cli import mutants, verify

HELP: Any = {"help_option_names": ["-h", "--help"]}

app = typer.Typer(
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings=HELP,
    help="The reference toolkit for [bold]1-bit Adam[/bold]: communication-efficient distributed Adam.\n\n"
    "Exit status: 0 it holds, 1 something was found false, 2 the call was wrong (one line says why), "
    "3 something that is needed was not checked, 130 interrupted, 141 nobody reads what it prints.",
)


def show_version(asked: bool) -> None:
    """What ``--version`` prints."""
    if asked:
        typer.echo(f"onebit-adam {version('onebit-adam')}")
        raise typer.Exit


@app.callback()
def about(
    show: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=show_version, help="Print the version.")
    ] = False,
) -> None:
    """Options of ``onebit`` itself."""


app.command()(prove)
app.command()(verify)
app.command()(mutants)
app.command()(figures)
app.command()(claims)
app.command()(report)
app.command()(doctor)
app.command("list")(reference.listing.list_optimizers)
bench = typer.Typer(help="Measure speed on this machine, beside the bytes that must move.")
bench.command("reference")(reference.bench.reference)
app.add_typer(bench, name="bench")


LATE: Any = {
    "add_help_option": False,
    "context_settings": {"ignore_unknown_options": True, "allow_extra_args": True},
}
"""For commands whose module imports torch, which takes seconds and is an extra: their options are read there."""


def hand_on(context: typer.Context, command: Callable[..., None]) -> None:
    """Run a command that was imported late on the arguments that were left to it."""
    inner = typer.Typer(add_completion=False, pretty_exceptions_enable=False, context_settings=HELP)
    inner.command()(command)
    run_app(context, inner)


def run_app(context: typer.Context, inner: typer.Typer) -> None:
    """The same with a command that has others below it."""
    if status := inner(context.args, prog_name=context.command_path, standalone_mode=False):
        raise typer.Exit(status)


@bench.command("kernels", **LATE)
def kernels(context: typer.Context) -> None:
    """Time every kernel and its peers, beside the bytes that must move and the bandwidth of the same run."""
    with loading():
        import gpu_impl.benchmarks.command

    hand_on(context, gpu_impl.benchmarks.command.kernels)


@bench.command("training", **LATE)
def training(context: typer.Context) -> None:
    """Time whole iterations of training beside DDP with fused AdamW, on several processes."""
    with loading():
        import gpu_impl.benchmarks.training

    hand_on(context, gpu_impl.benchmarks.training.training)


@app.command(**LATE)
def netlab(context: typer.Context) -> None:
    """Train over slow links between network namespaces, and time every contestant beside the formulas; race, soak."""
    with loading():
        import paper_figures.netlab.cli

    with stoppable():
        run_app(context, paper_figures.netlab.cli.app)


@app.command()
def convert(
    source: Annotated[Path, typer.Argument(help="Checkpoint folder of DeepSpeed 0.19.6, or its model_states file.")],
    out: Annotated[
        Path, typer.Argument(callback=writable_file, help="File to write: torch.load gives 'model' and 'optimizer'.")
    ],
    trust: Annotated[
        bool,
        typer.Option("--trust", help="Load any Python object. Such a file can run code: only for those you trust."),
    ] = False,
    frozen: Annotated[
        list[str] | None, typer.Option(help="A parameter or module that was not trained; repeat for several.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace OUT if it exists.")] = False,
    json_file: Annotated[
        Path | None, typer.Option("--json", callback=writable_file, help="Write what was done and lost to this file.")
    ] = None,
) -> None:
    """Turn a checkpoint of DeepSpeed's OneBitAdam into one of ours, and say what is lost."""
    with loading():
        from gpu_impl.checkpoints import deepspeed  # imports torch, which takes seconds and is an extra

    if json_file and json_file.resolve() in (source.resolve(), out.resolve()):
        raise typer.BadParameter(f"--json would replace {json_file}")
    try:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            made = deepspeed.convert_file(source, out, trust=trust, force=force, frozen=frozen or ())
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    for warning in told:
        typer.echo(f"note: {warning.message}")
    steps = made["optimizer"]["param_groups"][0]["onebit"]["steps"]
    typer.echo(f"{out}: {counted(len(made['optimizer']['state']), 'parameter')} after {counted(steps, 'step')}")
    for lost in deepspeed.LOST:
        typer.echo(f"not kept: {lost}")
    if json_file:
        found = {"file": str(out), "steps": steps, "lost": deepspeed.LOST}
        write_atomically(json_file, json.dumps(found, indent=1) + "\n")


CLOSED_PIPE = 141
"""Exit status of a program whose output nobody reads any more, as shells say it of one that SIGPIPE has ended."""


def run(arguments: list[str]) -> int:
    """The exit status: one line on standard error for a wrong call, nothing lost on Ctrl-C."""
    try:
        return app(arguments or ["--help"], prog_name="onebit", standalone_mode=False) or 0
    except USAGE_ERROR as error:
        return complain(error.format_message())
    except ModuleNotFoundError as error:
        return complain(f"this needs the package {error.name!r}: pip install 'onebit-adam[all]'")
    except (BrokenPipeError, SystemExit) as error:  # rich raises the latter, with 1
        if isinstance(error, SystemExit) and error.code != 1:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return CLOSED_PIPE
    except OSError as error:  # a file that can't be read or written, a full disk: the message names it
        return complain(str(error))
    except (typer.Abort, KeyboardInterrupt):
        complain("interrupted; finished runs are kept, the same call goes on from there")
        return INTERRUPTED


def complain(reason: str) -> int:
    """One line on standard error; the exit status of a wrong call."""
    print(f"onebit: {reason}", file=sys.stderr)  # noqa: T201
    return 2
