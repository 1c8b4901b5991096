"""What a figure is: the runs it needs, and a pure function from their tidy table to a matplotlib figure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import pandas as pd
from matplotlib.figure import Figure as Canvas

from reference.experiments import RunConfig


class Scale(StrEnum):
    """How much to run: ``quick`` is minutes on two cores, ``full`` narrows the spread with more seeds and steps."""

    QUICK = "quick"
    FULL = "full"


@dataclass(frozen=True)
class PaperFigure:
    """One figure.

    Attributes:
        name: file name, and what ``onebit figures NAME`` asks for.
        title: one line.
        beside: what the paper shows in its place, or "ours".
        caption: what to see, in a few sentences.
        runs: the run configurations at a scale.
        draw: the tidy table of those runs -> a new matplotlib figure; no side effects, no randomness.
    """

    name: str
    title: str
    beside: str
    caption: str
    runs: Callable[[Scale], list[RunConfig]]
    draw: Callable[[pd.DataFrame], Canvas]
