"""What ``onebit netlab`` prints: a table for each kind of link, the model's errors, the crossovers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from statistics import median

from rich.box import SIMPLE
from rich.table import Column, Table

from gpu_impl.netlab.bandwidth import in_words
from gpu_impl.netlab.point import Point
from paper_figures.netlab.model import Model, fit, measured_crossover, predicted_crossover
from paper_figures.netlab.volumes import formula_bytes

BASES = ("ddp", "ddp-fp16")
"""Whom the others are compared with."""
COLUMNS = (
    "samples/s", "step", "compute", "compression", "wire", "most", "exchange", "line", "MB", "law", "step x",
    "exchange x",
)  # fmt: skip
LEGEND = (
    "exchange: the collectives alone; line: what the frames take at the link's rate; law: how far the bytes are from "
    "the formula; x: times faster than ddp"
)


def tables(points: Sequence[Point]) -> Iterable[Table]:
    """One for each N, D, latency and bandwidth."""
    for (n_workers, dim, latency, bandwidth), group in _grouped(points, "n_workers", "dim", "latency", "bandwidth"):
        delay = f", {latency * 1e3:g} ms" if latency else ""
        yield _table(group, f"{in_words(bandwidth)}{delay}, N = {n_workers}, D = {dim:,}")


def _table(points: Sequence[Point], title: str) -> Table:
    table = Table(Column("", no_wrap=True), *COLUMNS, title=title, caption=f"times in ms; {LEGEND}", box=SIMPLE)
    for column in table.columns[1:]:
        column.justify = "right"
    for point in points:
        table.add_row(point.contestant, *cells(point, points))
    return table


def cells(point: Point, points: Sequence[Point]) -> list[str]:
    """A row of a table: COLUMNS of a point, among the points of the same link."""
    times = (point.step, point.compute, point.compression, point.wire)
    base = next((other for other in points if other.contestant == BASES[0]), None)
    return [
        in_short(point.samples_per_second),
        *(in_short(1e3 * time) for time in times),
        point.dominant,
        in_short(1e3 * point.exchange),
        in_short(1e3 * point.line),
        f"{point.payload_bytes / 1e6:,.3f}",
        f"{100 * (point.payload_bytes / formula_bytes(point) - 1):+.2f}%",
        "" if base is None else in_short(base.step / point.step),
        "" if base is None else in_short(base.exchange / point.exchange),
    ]


def in_short(value: float) -> str:
    """Three digits, or all of a large one."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}"


def models(points: Sequence[Point]) -> list[Model]:
    """The fitted model for each N where there is enough to fit and something left to predict."""
    return [model for _, group in _grouped(points, "n_workers") if (model := fit(group)) is not None]


def model_in_words(model: Model, points: Sequence[Point]) -> str:
    """The fitted numbers, and how far off the points are that they were not fitted to."""
    others = tested(model, points)
    exchange, step = (
        f"{100 * median(errors):.0f} % (median), {100 * max(errors):.0f} % (worst)"
        for errors in (
            [abs(model.exchange_error(point)) for point in others],
            [abs(model.error(point)) for point in others],
        )
    )
    return (
        f"time model (T10b), N = {model.n_workers}: fitted on {len(model.fitted)} points: {1e9 * model.host:.2f} ns a "
        f"byte on this machine, {1e3 * model.round:.2f} ms a round; {len(others)} other points predicted: error of the "
        f"exchange {exchange}, of the step {step}"
    )


def as_row(model: Model, points: Sequence[Point]) -> dict[str, object]:
    """The same for a file, with the error of every point that was predicted."""
    errors = [
        {
            "contestant": point.contestant,
            "dim": point.dim,
            "bandwidth": point.bandwidth,
            "exchange": model.exchange_error(point),
            "step": model.error(point),
        }
        for point in tested(model, points)
    ]
    return {
        "n_workers": model.n_workers,
        "host_seconds_per_byte": model.host,
        "seconds_per_round": model.round,
        "fitted": [[point.contestant, point.dim, point.bandwidth] for point in model.fitted],
        "predicted": errors,
    }


def tested(model: Model, points: Sequence[Point]) -> list[Point]:
    """The points of the model's N that it was not fitted to."""
    return [point for point in points if point.n_workers == model.n_workers and point not in model.fitted]


ALWAYS, NEVER, ABOVE = "always", "never", "at the higher bandwidths only"
BEYOND, UNKNOWN = "at all of these bandwidths", "nothing"


def crossovers(points: Sequence[Point]) -> list[dict[str, object]]:
    """Up to which bandwidth each 1-bit contestant is faster than each base: bit/s, or one of the words above."""
    known = {model.n_workers: model for model in models(points)}
    rows: list[dict[str, object]] = []
    for (n_workers, dim, latency), group in _grouped(points, "n_workers", "dim", "latency"):
        runs = {name: sorted(run, key=lambda point: point.bandwidth) for (name,), run in _grouped(group, "contestant")}
        for base in (name for name in BASES if name in runs):
            for name in (name for name in runs if name.startswith("1-bit")):
                pair = runs[base], runs[name]
                rows.append({
                    "n_workers": n_workers, "dim": dim, "latency": latency, "base": base, "contestant": name,
                    "measured": _measured(*pair), "predicted": _predicted(known, *pair),
                })  # fmt: skip
    return rows


def _measured(base: Sequence[Point], other: Sequence[Point]) -> float | str:
    found = measured_crossover(base, other)
    if found is not None:
        return found
    faster = [two.step < one.step for one, two in zip(base, other, strict=True)]
    return ALWAYS if all(faster) else ABOVE if faster[-1] else NEVER


def _predicted(known: Mapping[int, Model], base: Sequence[Point], other: Sequence[Point]) -> float | str:
    model = known.get(base[0].n_workers)
    if model is None:
        return UNKNOWN
    found = predicted_crossover(model, base, other)
    return NEVER if found is None else BEYOND if found > base[-1].bandwidth else found


def crossover_in_words(row: Mapping[str, object]) -> str:
    """One of them."""
    measured, predicted = (
        f"up to {in_words(float(f'{value:.2g}'))}" if isinstance(value, float) else value
        for value in (row["measured"], row["predicted"])
    )
    where = f"N = {row['n_workers']}, D = {row['dim']:,}"
    where += f", {1e3 * latency:g} ms" if isinstance(latency := row["latency"], float) and latency else ""
    told = "" if predicted == UNKNOWN else f", predicted {predicted}"
    return f"{where}: {row['contestant']} is faster than {row['base']}: measured {measured}{told}"


def _grouped(points: Sequence[Point], *names: str) -> list[tuple[tuple, list[Point]]]:
    """The points by the values of these fields, in the order in which they first occur."""

    def key(point: Point) -> tuple:
        return tuple(getattr(point, name) for name in names)

    order = {value: place for place, value in enumerate(dict.fromkeys(map(key, points)))}
    ordered = sorted(points, key=lambda point: order[key(point)])
    return [(value, list(group)) for value, group in groupby(ordered, key)]
