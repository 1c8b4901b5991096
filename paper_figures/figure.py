"""What a figure is: where its tidy table comes from, and a pure function from that table to a matplotlib figure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

import pandas as pd
from matplotlib.figure import Figure as Canvas

from reference.experiments import RunConfig


class Scale(StrEnum):
    """How much to run: ``quick`` is minutes on two cores, ``full`` narrows the spread with more seeds and steps."""

    QUICK = "quick"
    FULL = "full"


class MissingResultsError(ValueError):
    """A figure shows runs from real hardware that are not here; one sentence says what makes them, from which data."""


@dataclass(frozen=True)
class PaperFigure:
    """One figure. Its table comes from exactly one of ``runs`` and ``tabulate``.

    Attributes:
        name: file name, and what ``onebit figures NAME`` asks for.
        title: one line.
        beside: what the paper shows in its place, or "ours".
        caption: what to see, in a few sentences. No measurement is typed there: ``{name}`` is one of ``numbers``.
        draw: the tidy table -> a new matplotlib figure; no side effects, no randomness.
        runs: the run configurations at a scale; the table is that of all these runs, and each run is cached.
        tabulate: the table at a scale, for formulae and committed measurements: seconds at most, never cached.
        scales: at which it can be drawn.
        extra: shows what the paper does not have, and takes long: `onebit report` leaves it to `--all`.
        numbers: the tidy table -> what the caption and the pages say of it, in words, by name; pure.

    Raises:
        ValueError: both or neither of ``runs`` and ``tabulate`` are given.
    """

    name: str
    title: str
    beside: str
    caption: str
    draw: Callable[[pd.DataFrame], Canvas]
    runs: Callable[[Scale], list[RunConfig]] | None = None
    tabulate: Callable[[Scale], pd.DataFrame] | None = None
    scales: tuple[Scale, ...] = tuple(Scale)
    extra: bool = False
    numbers: Callable[[pd.DataFrame], Mapping[str, str]] | None = None

    def __post_init__(self) -> None:
        if (self.runs is None) == (self.tabulate is None):
            raise ValueError(f"figure {self.name!r} needs exactly one of runs and tabulate")

    def filled(self, table: pd.DataFrame) -> PaperFigure:
        """This figure with the numbers of ``table`` in its caption.

        Raises:
            ValueError: the caption names a number that there is not.
        """
        return replace(self, caption=filled(self.caption, self.numbers(table))) if self.numbers else self


PLACE = re.compile(r"\{([^{}\n]+)\}")
"""Where a number stands in a caption or on a page: its name in braces."""


def filled(text: str, numbers: Mapping[str, str]) -> str:
    """``text`` with a number for every name in braces.

    Raises:
        ValueError: there is no number of that name.
    """

    def number(place: re.Match[str]) -> str:
        if place[1] not in numbers:
            raise ValueError(f"there is no number {place[1]!r}; there are {', '.join(map(repr, numbers))}")
        return numbers[place[1]]

    return PLACE.sub(number, text)
