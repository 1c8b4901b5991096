"""T10g: up to how many workers a compressed step is no slower, in the time model.

T10b has the time of a step without compression. A compressed one sends as many messages, each a bit for every element
of a chunk and some bytes that don't shrink with the chunk: its scale, and what a message costs in headers. Before them
the workers compare what they are about to do, which is one more round to each of the others.
"""

from __future__ import annotations

from typing import Any

import sympy as sp

from theory.evaluate import bound
from theory.formula import eq, le
from theory.notation import D, Row, count
from theory.theorem import Hypothesis, Line, Theorem, Use
from theory.theorems.time_model import bandwidth, bits, compute, latency
from theory.witness import instance

peers = count("peers")
N = peers + 1
message_overhead = sp.Symbol("message_overhead", positive=True)
compression = sp.Symbol("compression", nonnegative=True)
dense_seconds, compressed_seconds = (sp.Symbol(f"{name}_seconds", real=True) for name in ("dense", "compressed"))

DENSE = compute + 2 * peers / N * D * bits / 8 / bandwidth + 2 * peers * latency
COMPRESSED = (
    compute + compression + 2 * peers * (D / (8 * N) + message_overhead) / bandwidth + 3 * peers * latency
)  # fmt: skip
MOST = (bits - 1) * D / (4 * (2 * message_overhead + bandwidth * latency))
PER_SECOND = N * bandwidth / (peers * (2 * message_overhead + bandwidth * latency))


def most_workers(dim: float, bandwidth: float, latency: float = 0.0, overhead: float = 4.0, bits: float = 32) -> float:
    """N of T10g: with more workers the compressed step is the slower one.

    Args:
        dim: D.
        bandwidth: bytes/s.
        latency: seconds per round.
        overhead: bytes of a message beside its signs.
        bits: of a parameter on the wire without compression.

    """
    numbers = {"dim": dim, "bandwidth": bandwidth, "latency": latency, "message_overhead": overhead, "bits": bits}
    return float(bound(THEOREM, **numbers))


def eight_workers() -> dict[str, Any]:
    """The largest N for its bandwidth and latency, in numbers that binary64 adds exactly."""
    rate = 2.0**20
    wire = 2 * 7 / 8 * 32000 * 32 / 8 / rate + 2 * 7 * 30704 / rate
    return {
        "peers": 7, "dim": 32000, "bits": 32.0, "bandwidth": rate, "latency": 30704 / rate, "compute": 0.5,
        "message_overhead": 148.0, "compression": 0.0, "dense_seconds": 0.5 + wire, "compressed_seconds": 0.5 + wire,
    }  # fmt: skip


THEOREM = Theorem(
    id="T10g",
    title="Number of workers up to which compression pays",
    conclusion=le(N, MOST),
    hypotheses=(
        Hypothesis("dense", eq(dense_seconds, DENSE), "a step without compression takes the time of the ring (T10b)"),
        Hypothesis(
            "compressed",
            eq(compressed_seconds, COMPRESSED),
            "a compressed step compresses, sends a message to each of the others on the way there and on the way "
            "back, and takes one more round to each of them",
        ),
        Hypothesis("pays", le(compressed_seconds, dense_seconds), "the compressed step is no slower"),
    ),
    where=(
        Row(peers, "n", "workers beside one of them", default=7),
        Row(compute, "c", "computation of a step", unit="s", default=0.15),
        Row(bandwidth, "B", "effective bandwidth of the slowest link", unit="bytes/s", default=12.5e6),
        Row(bits, "b", "bits of a parameter on the wire without compression, on average", default=32),
        Row(latency, r"\ell", "latency of a round", unit="s", default=0.0),
        Row(message_overhead, "h", "bytes of a message beside its signs: scale and headers", unit="bytes", default=4),
        Row(compression, r"\tau_c", "time to compress", unit="s", default=0.0),
        Row(dense_seconds, r"t_{\mathrm{dense}}", "time of a step without compression", unit="s", default=1.0),
        Row(compressed_seconds, r"t_{\mathrm{bit}}", "time of a compressed step", unit="s", default=1.0),
    ),
    chain=lambda: (
        Line(
            "<=",
            MOST,
            "both times put in, and solved for the number of workers",
            uses=(
                Use("dense", times=PER_SECOND),
                Use("compressed", times=-PER_SECOND),
                Use("pays", times=PER_SECOND),
            ),
            slack=(PER_SECOND * compression,),
        ),
    ),
    words="Where a compressed step is no slower than one without compression, there are at most as many workers as "
    "saved bits of a vector over {factor} times the bytes that a round costs whatever its size: those beside the "
    "signs, there and back, and those that the link carries in a latency.",
    numbers={"factor": sp.Integer(4)},
    good_for="Where more workers stop paying, from the size of the model, the bandwidth and the latency.",
    source="ours",
    example=lambda: instance(THEOREM, "eight workers, where both steps take the same time", eight_workers()),
    remarks="One scale a chunk, so the number of scales grows with the workers while the signs of a message shrink. "
    "Without latency, and with nothing but scales, the limit is about the number of parameters. The model is that of "
    "T10b: rounds one after another, no overlap with the backward pass.",
)
