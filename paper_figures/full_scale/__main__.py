"""``torchrun ... -m paper_figures.full_scale``: run an experiment, entrant by entrant, seed by seed."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, NoReturn

import torch
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from torch import distributed as dist

from gpu_impl.examples.tasks import join
from paper_figures.full_scale import checkpoint, results
from paper_figures.full_scale.cifar10 import Cifar10
from paper_figures.full_scale.masked_text import MaskedText
from paper_figures.full_scale.recipes import RECIPES, Recipe
from paper_figures.full_scale.tokens import text_files, write_tokens
from paper_figures.full_scale.train import Run, check, train
from paper_figures.usage import USAGE_ERROR

TIMEOUT = 1800.0
"""Seconds that workers wait for each other: one of them may still read its data."""

TASKS: dict[str, Callable[..., Any]] = {"cifar10": Cifar10, "bert-base": MaskedText, "bert-large": MaskedText}
app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, help="The paper's experiments at full scale.")


def experiment(recipe: Recipe) -> Callable[..., None]:
    """The command that runs ``recipe``."""

    def command(
        data: Annotated[Path, typer.Option(help="Folder of the data.")],
        out: Annotated[Path | None, typer.Option(help="Folder of the results; all workers must see it.")] = None,
        algorithm: Annotated[list[str] | None, typer.Option(help="This one alone; may be repeated.")] = None,
        change: Annotated[
            list[str] | None, typer.Option("--set", metavar="NAME=NUMBER", help="Change the recipe, for a trial.")
        ] = None,
        minutes: Annotated[float, typer.Option(min=0, help="Between two checkpoints.")] = 10.0,
    ) -> None:
        run_all(recipe.changed(change or []), data, out or results.default_folder(), algorithm, minutes)

    command.__doc__ = f"Run {recipe.name}: {', '.join(recipe.lr)}; {recipe.steps:,} steps each."
    return command


for each in RECIPES.values():
    app.command(each.name)(experiment(each))


@app.command()
def tokens(
    text: Annotated[Path, typer.Option(help="Folder of .txt files, UTF-8; an empty line ends a document.")],
    data: Annotated[Path, typer.Option(help="Folder for the tokens.")],
    vocabulary: Annotated[Path | None, typer.Option(help="One piece a line, as BERT's vocab.txt; none: bytes.")] = None,
) -> None:
    """Make tokens of text files, once; one process."""
    files = text_files(text)
    with Progress(console=Console(stderr=True), transient=True) as progress:
        count = write_tokens(progress.track(files, description="text files"), vocabulary, data)
    Console().print(f"wrote {count:,} tokens of {len(files)} files to {data}", highlight=False, soft_wrap=True)


def run_all(recipe: Recipe, data: Path, out: Path, entrants: list[str] | None, minutes: float) -> None:
    """Every entrant with every seed that ``out`` does not hold yet.

    Raises:
        ValueError: unknown entrants, unusable data, settings that don't fit, or other results in ``out``.
    """
    for name in entrants or []:
        if name not in recipe.lr:
            raise ValueError(f"--algorithm must be one of {', '.join(recipe.lr)}; got {name!r}")
    task = TASKS[recipe.name](data, **recipe.shape)
    device = join(TIMEOUT)
    check(recipe, task, dist.get_world_size())
    about = {
        "settings": recipe.settings(),
        "n_workers": dist.get_world_size(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else f"{os.cpu_count()} CPU threads",
        "versions": {name: importlib.metadata.version(name) for name in ("onebit-adam", "torch")},
        "python": platform.python_version(),
    }
    is_first = dist.get_rank() == 0
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
               TextColumn("left"), TimeRemainingColumn())  # fmt: skip
    with Progress(*columns, console=Console(stderr=True), disable=not is_first) as progress:
        for seed in range(recipe.seeds):
            for entrant in entrants or recipe.lr:
                if finished(out, recipe.name, entrant, seed, about):
                    continue
                kept = out / "checkpoints" / f"{recipe.name}-{entrant}-{seed}"
                bar = progress.add_task(f"{recipe.name}, {entrant}, seed {seed}", total=recipe.steps)
                run = Run(
                    recipe=recipe, task=task, entrant=entrant, seed=seed, device=device, folder=kept, minutes=minutes
                )
                rows = train(run, lambda step, bar=bar: progress.update(bar, completed=step))
                if is_first:
                    results.write(out, recipe.name, entrant, seed, about, rows)
                checkpoint.remove(kept)
    dist.destroy_process_group()


def finished(out: Path, name: str, entrant: str, seed: int, about: dict[str, Any]) -> bool:
    """Whether that run is there, the same answer on every worker.

    Raises:
        ValueError: it is there, with other settings.
    """
    kept = results.read(out, name, entrant, seed)
    if kept and any(kept[key] != about[key] for key in ("settings", "n_workers")):
        path = results.file_of(out, name, entrant, seed)
        raise ValueError(f"{path} was run with other settings or workers: give another --out, or delete it")
    dist.barrier()  # nobody writes before all have looked
    return kept is not None


def main() -> None:
    """One line for a wrong call or unusable data, exit status 2."""
    try:
        app(standalone_mode=False)
    except USAGE_ERROR as error:
        complain(error.format_message())
    except (ValueError, OSError) as error:
        complain(str(error))
    except (KeyboardInterrupt, typer.Abort):
        sys.exit(130)


def complain(reason: str) -> NoReturn:
    """One line on standard error, and status 2. Where all workers fail alike the first one is heard, and ends them."""
    if os.environ.get("RANK", "0") != "0":
        time.sleep(3)
    print(f"paper_figures.full_scale: {reason}", file=sys.stderr)  # noqa: T201
    sys.exit(2)


if __name__ == "__main__":
    main()
