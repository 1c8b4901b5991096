"""``onebit netlab`` and what it has beside the sweep: nodes on two tiers of links, the race and the soak."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec

import typer

from gpu_impl.netlab.lab import GAVE_UP
from onebit_signals import INTERRUPTED
from paper_figures.netlab import soak, tiers, time_to_loss
from paper_figures.netlab.command import netlab, stop

P = ParamSpec("P")


def told(main: Callable[P, None]) -> Callable[P, None]:
    """The same, but one line says that a worker or the lab gave up (status 3), or that it was interrupted (130)."""

    @functools.wraps(main)
    def command(*arguments: P.args, **options: P.kwargs) -> None:
        try:
            main(*arguments, **options)
        except GAVE_UP as error:
            stop(str(error), 3)
        except KeyboardInterrupt:
            stop("interrupted; the lab is removed", INTERRUPTED)

    return command


app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    callback=netlab,
    invoke_without_command=True,
)
app.command("tiers")(told(tiers.main))
app.command("race")(told(time_to_loss.main))
app.command("soak")(told(soak.main))
