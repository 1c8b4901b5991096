"""T10b, T10f: step = compute + wire bytes / effective bandwidth + latency rounds, fitted on Table 1 and tested on it.

Per network ONE number is fitted, the time to move the buffer once, on two rows: fewest and most nodes. Every other
row between nodes is predicted. Ethernet behaves as a flat ring over GPUs, InfiniBand as a ring over nodes (the
GPUs of a node first combine over NVLink); which of the two is decided on the fitted rows alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, cast

import sympy as sp

from theory.evaluate import bound
from theory.formula import ForAll, array, eq, le, total
from theory.notation import D, N, Row, count
from theory.profile import BERT_LARGE_PARAMETERS, TABLE_1, ProfileRow
from theory.theorem import Hypothesis, Line, Quoted, Theorem
from theory.witness import instance

MICRO_BATCH = 16
NETWORKS = ("Ethernet", "InfiniBand")
RINGS = ("gpus", "nodes")


@dataclass(frozen=True)
class Fit:
    """A network as the model sees it.

    Attributes:
        network: its name in Table 1.
        over: ``"gpus"`` or ``"nodes"``: what the ring's N counts.
        once: ms to move the fp16 gradient once over the bottleneck.
        micro_step: ms of one forward and backward pass at batch 16.
        other: ms of everything else but the all-reduce.
        fitted: the two rows used.

    """

    network: str
    over: str
    once: float
    micro_step: float
    other: float
    fitted: tuple[ProfileRow, ...]

    @property
    def gigabits(self) -> float:
        """Effective bandwidth in Gbit/s for 336 million fp16 gradients."""
        return BERT_LARGE_PARAMETERS * 16 / (self.once * 1e-3) * 1e-9

    def allreduce(self, row: ProfileRow, bits: float = 16) -> float:
        """ms on the wire for ``row``'s machines at ``bits`` per parameter."""
        return self.once * ring_passes(row, self.over) * bits / 16

    def step(self, row: ProfileRow, bits: float = 16) -> float:
        """ms of a whole step. Rows of batch 1 reuse the compute of batch 16, the only one fitted: their worst error."""
        return self.micro_step * row.accumulation + self.other + self.allreduce(row, bits)


def ring_passes(row: ProfileRow, over: str) -> Fraction:
    """2 (n-1)/n with n GPUs or n nodes."""
    members = row.gpus if over == "gpus" else row.nodes
    return Fraction(2 * (members - 1), members)


def exact(row: ProfileRow) -> ProfileRow:
    """The row with its times as fractions: everything that is computed of it is then exact."""
    names = ("forward", "allreduce", "backward", "other")
    return replace(row, **{name: cast(float, Fraction(str(getattr(row, name)))) for name in names})


def fit(network: str, candidates: tuple[str, ...] = RINGS, table: tuple[ProfileRow, ...] = TABLE_1) -> Fit:
    """Least squares for one number per candidate ring on the two fitted rows; the ring with less residual wins."""
    rows = [row for row in table if row.network == network and row.batch == MICRO_BATCH and row.accumulation == 1]
    between = [row for row in rows if row.nodes > 1]
    ends = (min(between, key=lambda row: row.nodes), max(between, key=lambda row: row.nodes))
    best: tuple[Any, str, Any] | None = None
    for over in candidates:
        passes = [ring_passes(row, over) for row in ends]
        once = sum(x * row.allreduce for x, row in zip(passes, ends, strict=True)) / sum(x * x for x in passes)
        residual = sum((x * once - row.allreduce) ** 2 for x, row in zip(passes, ends, strict=True))
        if best is None or residual < best[0]:
            best = (residual, over, once)
    assert best is not None  # two candidates were tried
    micro = sum(row.forward + row.backward for row in ends) / 2
    return Fit(network, best[1], best[2], micro, sum(row.other for row in ends) / 2, ends)


def predictions(
    network: str, candidates: tuple[str, ...] = RINGS, table: tuple[ProfileRow, ...] = TABLE_1
) -> list[tuple[ProfileRow, float, float]]:
    """(row, relative error of the all-reduce, relative error of the step) of every row that was not fitted.

    Single-node rows have no network between nodes and are left out.
    """
    model = fit(network, candidates, table)
    rows = [row for row in table if row.network == network and row.nodes > 1 and row not in model.fitted]
    return [(row, model.allreduce(row) / row.allreduce - 1, model.step(row) / row.step - 1) for row in rows]


def worst_error(
    network: str, candidates: tuple[str, ...] = RINGS, table: tuple[ProfileRow, ...] = TABLE_1
) -> tuple[float, float]:
    """Largest absolute relative errors (all-reduce, step) over the predicted rows."""
    rows = predictions(network, candidates, table)
    return max(abs(row[1]) for row in rows), max(abs(row[2]) for row in rows)


def compressed_speedup(network: str, row: ProfileRow) -> float:
    """Step over compressed step when the wire carries 1 bit and nothing else is added: an upper bound of the gain."""
    model = fit(network)
    return row.step / (row.compute + model.allreduce(row, bits=1))


def step_time(
    compute: float, dim: int, n_workers: int, bandwidth: float, bits: float = 16, latency: float = 0.0
) -> float:
    """Seconds of a step (T10b).

    Args:
        compute: seconds of everything that is not communication.
        dim: D.
        n_workers: N on the ring.
        bandwidth: bytes/s.
        bits: bits per parameter on the wire.
        latency: seconds per round of the ring.

    """
    return float(
        bound(MODEL, compute=compute, dim=dim, n_workers=n_workers, bandwidth=bandwidth, bits=bits, latency=latency)
    )


r = count("r", least=0)
peers = count("peers", least=0)
compute = sp.Symbol("compute", nonnegative=True)
bandwidth = sp.Symbol("bandwidth", positive=True)
bits = sp.Symbol("bits", positive=True)
latency = sp.Symbol("latency", nonnegative=True)
seconds = sp.Symbol("seconds", nonnegative=True)
wire_round = array("wire_round")


def rounds_of_ring(n_workers: int) -> dict[str, Any]:
    """A step of a million parameters, its rounds added up."""
    numbers = {
        "n_workers": n_workers,
        "peers": n_workers - 1,
        "dim": 10**6,
        "compute": Fraction(3, 20),
        "bandwidth": 5e9,
    }
    latency = Fraction(1, 10**5)
    rounds = [Fraction(10**6, n_workers) * 16 / 8 / (5 * 10**9) + latency] * (2 * (n_workers - 1))
    return numbers | {
        "bits": 16.0,
        "latency": latency,
        "wire_round": rounds,
        "seconds": numbers["compute"] + sum(rounds),
    }


SECONDS = compute + 2 * (N - 1) / N * D * bits / 8 / bandwidth + 2 * (N - 1) * latency
MODEL = Theorem(
    id="T10b",
    title="Time of a step with a ring all-reduce",
    conclusion=eq(seconds, SECONDS),
    hypotheses=(
        Hypothesis("others", eq(N, peers + 1), "the workers beside one of them"),
        Hypothesis(
            "rounds",
            ForAll(((r, 2 * peers),), eq(wire_round[r], D / N * bits / 8 / bandwidth + latency)),
            "a round of the ring sends a part of the buffer, one for each worker, and waits once",
        ),
        Hypothesis(
            "no_overlap",
            eq(seconds, compute + total(wire_round[r], r, 2 * peers)),
            "computation, then the rounds of reduce-scatter and all-gather, one after another",
        ),
    ),
    where=(
        Row(r, "r", "round of the ring"),
        Row(peers, "n", "workers beside one of them", default=7),
        Row(compute, "c", "computation of a step", unit="s", default=0.15),
        Row(bandwidth, "B", "effective bandwidth of the slowest link", unit="bytes/s", default=5e9),
        Row(bits, "b", "bits of a parameter on the wire, on average", default=16),
        Row(latency, r"\ell", "latency of a round", unit="s", default=0.0),
        Row(wire_round, r"\tau", "time of a round", "(2 (N-1),)"),
        Row(seconds, r"t_{\mathrm{step}}", "time of a step", unit="s", default=1.0),
    ),
    words="A step takes its computation, the buffer sent nearly twice over the slowest link, and the latency of all "
    "rounds. Sending one bit in place of sixteen divides the wire time by {gain} and leaves the rest.",
    numbers={
        "gain": Quoted(
            sp.cancel((SECONDS - SECONDS.subs(bits, 0)) / (SECONDS.subs(bits, 1) - SECONDS.subs(bits, 0))),
            {bits: 16},
            by="the time on the wire with that many bits over that with one",
        )
    },
    good_for="Turns the bytes of a step into seconds, in this model.",
    source="ours",
    example=lambda: instance(MODEL, "eight workers, round after round", rounds_of_ring(8)),
    remarks="A bandwidth-bound ring, and no overlap with the backward pass. How well it fits Table 1 is T10f's.",
)


def table_matches(network: str, allreduce: float, step: float, *, batch: int | None = None) -> bool:
    """Whether the worst predicted row errs by at most the given fractions, and by at least nine tenths of each.

    ``batch`` keeps the rows of one batch size only.
    """
    rows = [row for row in predictions(network) if batch in (None, row[0].batch)]
    worst_allreduce, worst_step = max(abs(row[1]) for row in rows), max(abs(row[2]) for row in rows)
    return bool(0.9 * allreduce <= worst_allreduce <= allreduce and 0.9 * step <= worst_step <= step)


def summary() -> str:
    """The fit of each network and the errors of the rows that were not fitted, in words."""
    parts: list[str] = []
    for network in NETWORKS:
        model, (reduce_error, step_error) = fit(network), worst_error(network)
        rows = ", ".join(
            f"{row.nodes} nodes batch {row.batch}x{row.accumulation} {100 * first:+.1f} % / {100 * second:+.1f} %"
            for row, first, second in predictions(network)
        )
        largest = max(
            (row for row in TABLE_1 if row.network == network and row.batch == MICRO_BATCH and row.accumulation == 1),
            key=lambda row: row.nodes,
        )
        parts.append(
            f"{network}: ring over {model.over}, {model.gigabits:.1f} Gbit/s effective, errors of all-reduce / step: "
            f"{rows} (worst {100 * reduce_error:.1f} % / {100 * step_error:.1f} %); at most "
            f"{compressed_speedup(network, largest):.1f}x in the compression stage at 64 GPUs, batch 16"
        )
    return ". ".join(parts) + "."


FITTED_TO = (
    ("Ethernet", 0.021, 0.016, None),
    ("InfiniBand", 0.053, 0.139, None),
    ("InfiniBand", 0.041, 0.025, MICRO_BATCH),
)
EXACT_TABLE = tuple(map(exact, TABLE_1))
WORST = {network: sp.Rational(worst_error(network, table=EXACT_TABLE)[1]) for network in NETWORKS}
LIMIT = sp.Rational(139, 1000)
ERRORS = "the largest error of a step time of the model on the rows"

FIT = Theorem(
    id="T10f",
    title="The time model on the rows of Table 1 that it was not fitted to",
    conclusion=le(max(WORST.values()), LIMIT),
    chain=lambda: (Line("<=", LIMIT, "in exact fractions", slack=(LIMIT - max(WORST.values()),)),),
    words="One fitted number for each network predicts the step time of every row between nodes of the published "
    "profile that was not fitted, to the share {ethernet} on Ethernet and {infiniband} on InfiniBand; without the row "
    "of the smallest batch, whose computation the model does not know, to {without} on InfiniBand.",
    numbers={
        "ethernet": Quoted(WORST["Ethernet"], by=ERRORS),
        "infiniband": WORST["InfiniBand"],
        "without": Quoted(
            max(abs(row[2]) for row in predictions("InfiniBand") if row[0].batch == MICRO_BATCH),
            by=ERRORS + ", one batch size only",
        ),
    },
    good_for="The model's upper bounds on what compression gains start from numbers that somebody measured.",
    source="data: arXiv 2102.02888, table 1 (seen)",
    numeric_checks={
        **{
            f"{network}{f', batch {batch}' if batch else ''}: the worst predicted row errs by {100 * allreduce:g} % "
            f"(all-reduce) and {100 * step:g} % (step), to a tenth of that": (
                lambda case=(network, allreduce, step), batch=batch: table_matches(*case, batch=batch)
            )
            for network, allreduce, step, batch in FITTED_TO
        },
        "the other ring errs by more than 10 % of the all-reduce on either network": (
            lambda: worst_error("Ethernet", ("nodes",))[0] > 0.1 and worst_error("InfiniBand", ("gpus",))[0] > 0.1
        ),
    },
    remarks="The left side of the statement is the worst error over both networks, computed from the table in "
    "fractions: a statement on published rows, not on networks. Ethernet behaves as a flat ring over GPUs, InfiniBand "
    "as a ring over nodes, chosen on the fitted rows. Latency is zero: two rows can't tell it from bandwidth. Rows "
    "within one node are left out. " + summary(),
)  # fmt: skip
THEOREMS = (MODEL, FIT)
