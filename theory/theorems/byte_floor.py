"""T8b, T8c, T8h: the memory traffic that a 1-bit Adam step cannot do without, and when compression stops paying.

T8b is a lower bound in a stated model. Between two collectives nothing survives in registers, so the step is three
kernels (compress, server, apply), each a function of the memory cells that it reads. A cell whose content the result
depends on must be read; a cell that holds another value afterwards must be written. Cells are the arrays of the lazy
form (T8a): state in words of four bytes, messages in bits. Scales and partial norms are not counted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import sympy as sp
from sympy.core.relational import Relational

from theory.evaluate import bound
from theory.formula import ForAll, Implies, array, eq, le, lt, mean, sgn, total
from theory.notation import D, N, Row, beta1, count, i, k, lr, scale
from theory.theorem import Hypothesis, Quoted, Theorem
from theory.witness import instance

BIT = sp.Rational(1, 8)
ADAM_BYTES = 28
DEEPSPEED_BYTES = 254  # DeepSpeed 0.19.6 OnebitAdam at N = 8, counted by running it: about 54 launches


@dataclass(frozen=True)
class Stream:
    """One array that a kernel reads or writes once.

    Attributes:
        kernel: compress, server, apply or adam.
        array: what is moved, in the notation table's letters.
        access: ``"R"`` or ``"W"``.
        bytes: bytes per element of that kernel's own range.
        on_chunk: the kernel runs on D/N elements (the server), not on D.
        copies: how many such arrays (the server reads one set of bits from each worker).

    """

    kernel: str
    array: str
    access: str
    bytes: sp.Expr
    on_chunk: bool = False
    copies: sp.Expr = sp.S.One

    def per_parameter(self) -> sp.Expr:
        """Bytes per parameter of the whole model, on one worker."""
        return self.bytes * self.copies / (N if self.on_chunk else 1)


def onebit_streams(grad_bytes: int = 4) -> tuple[Stream, ...]:
    """Every stream of the lazy form with implicit momentum (T8a), state in fp32: this step attains T8b."""
    word = sp.Integer(4)
    return (
        Stream("compress", "g", "R", sp.Integer(grad_bytes)),
        Stream("compress", "u of the last step", "R", word),
        Stream("compress", "bits of m̄", "R", BIT),
        Stream("compress", "u", "W", word),
        Stream("compress", "bits of u", "W", BIT),
        Stream("server", "bits of all workers", "R", BIT, on_chunk=True, copies=N),
        Stream("server", "w of the last step", "R", word, on_chunk=True),
        Stream("server", "w", "W", word, on_chunk=True),
        Stream("server", "bits of w", "W", BIT, on_chunk=True),
        Stream("apply", "bits of m̄", "R", BIT),
        Stream("apply", "P", "R", word),
        Stream("apply", "x", "R", word),
        Stream("apply", "x", "W", word),
    )


ADAM_STREAMS = (
    *(Stream("adam", name, "R", sp.Integer(4)) for name in ("g", "x", "m", "v")),
    *(Stream("adam", name, "W", sp.Integer(4)) for name in ("x", "m", "v")),
)


def streamed(streams: tuple[Stream, ...], kernel: str = "") -> sp.Expr:
    """Bytes per parameter of one kernel, or of all."""
    return sp.Add(*(stream.per_parameter() for stream in streams if kernel in ("", stream.kernel)))


def bytes_per_parameter(n_workers: int, grad_bytes: float = 4) -> float:
    """The floor of a whole step (T8b), in bytes per parameter."""
    return float(bound(BYTE_FLOOR, n_workers=n_workers, grad_bytes=grad_bytes, dim=1))


chunk = count("chunk")
stream = count("stream", least=0)
transfers, received = array("transfers"), array("received")
grad_bytes = sp.Symbol("grad_bytes", positive=True)
p_bytes = sp.Symbol("preconditioner_bytes", positive=True)
(GRAD, RESIDUAL, MOMENTUM_BIT, RESIDUAL_OUT, MESSAGE, INPUT, INPUT_OUT, ANSWER, ANSWER_BIT, P_READ, PARAMS,
 PARAMS_OUT) = range(12)  # fmt: skip
g, u, b, w, p, x = sp.symbols("g u b w p x", real=True)
g2, u2, b2, w2, p2, x2, old = sp.symbols("g2 u2 b2 w2 p2 x2 old", real=True)
bits, bits2 = array("bits"), array("bits2")
worker_scale = sp.Symbol("worker_scale", positive=True)
answer_scale = sp.Symbol("answer_scale", positive=True)


def moved(number: int) -> sp.Expr:
    """How often cell k of a stream is read or written."""
    return transfers[number, k]


def agree(number: int, content: sp.Expr, other: sp.Expr) -> Relational:
    """The two contents are equal wherever the stream is read."""
    return eq(moved(number) * (content - other), 0)


def kept(number: int, after: Any, before: sp.Expr) -> Implies:
    """A cell that is not written holds afterwards what it held before."""
    return Implies((lt(moved(number), 1),), eq(after, before))


def residual(g: sp.Expr, u: sp.Expr, b: sp.Expr) -> sp.Expr:
    """What compress has to leave in u: the lazy form of the momentum plus its error."""
    return beta1 * answer_scale * sgn(b) + (1 - beta1) * g + u - worker_scale * sgn(u)


def server(bits: sp.IndexedBase, w: sp.Expr) -> sp.Expr:
    """What the server has to leave in w: the mean message plus its error."""
    return mean(scale[i] * sgn(bits[i]), i, N) + w - answer_scale * sgn(w)


def moved_params(b: sp.Expr, p: sp.Expr, x: sp.Expr) -> sp.Expr:
    """What apply has to leave in x."""
    return x - lr * p * answer_scale * sgn(b)


MODEL = (
    Hypothesis(
        "whole",
        ForAll((stream, k), Implies((lt(transfers[stream, k], 1),), eq(transfers[stream, k], 0))),
        "a cell is moved not at all, or at least once",
    ),
    Hypothesis(
        "whole_bits",
        ForAll((i, k), Implies((lt(received[i, k], 1),), eq(received[i, k], 0))),
        "the same of the bits that the server has received",
    ),
    Hypothesis("chunks", eq(D, N * chunk), "every server has a chunk of the same length"),
    Hypothesis("worker_scales", ForAll(((i, N),), lt(0, scale[i])), "no scale of a worker is zero"),
)
COMPRESS = (
    Hypothesis(
        "compress_reads",
        ForAll(
            ((k, D), g, g2, u, u2, b, b2),
            Implies(
                (agree(GRAD, g, g2), agree(RESIDUAL, u, u2), agree(MOMENTUM_BIT, b, b2)),
                eq(residual(g, u, b), residual(g2, u2, b2)),
            ),
        ),
        "compress knows of g, u and the momentum's bit only what it reads in this kernel",
    ),
    Hypothesis(
        "compress_writes",
        ForAll(((k, D), g, u, b), kept(RESIDUAL_OUT, residual(g, u, b), u)),
        "compress leaves its result in u",
    ),
    Hypothesis(
        "compress_sends",
        ForAll(((k, D), g, u, b, old), kept(MESSAGE, sgn(residual(g, u, b)), old)),
        "and its sign where the collective fetches it",
    ),
)
SERVER = (
    Hypothesis(
        "server_reads",
        ForAll(
            ((k, chunk), bits, bits2, w, w2),
            Implies(
                (ForAll(((i, N),), eq(received[i, k] * (bits[i] - bits2[i]), 0)), agree(INPUT, w, w2)),
                eq(server(bits, w), server(bits2, w2)),
            ),
        ),
        "the server knows of the workers' bits and of w only what it reads in this kernel",
    ),
    Hypothesis(
        "server_writes",
        ForAll(((k, chunk), bits, w), kept(INPUT_OUT, server(bits, w), w)),
        "the server leaves its result in w",
    ),
    Hypothesis(
        "server_sends",
        ForAll(((k, chunk), bits, w, old), kept(ANSWER, sgn(server(bits, w)), old)),
        "and its sign where the collective fetches it",
    ),
)
APPLY = (
    Hypothesis(
        "apply_reads",
        ForAll(
            ((k, D), b, b2, p, p2, x, x2),
            Implies(
                (agree(ANSWER_BIT, b, b2), agree(P_READ, p, p2), agree(PARAMS, x, x2)),
                eq(moved_params(b, p, x), moved_params(b2, p2, x2)),
            ),
        ),
        "apply knows of the answer's bit, P and x only what it reads in this kernel",
    ),
    Hypothesis(
        "apply_writes",
        ForAll(((k, D), b, p, x), kept(PARAMS_OUT, moved_params(b, p, x), x)),
        "apply leaves its result in x",
    ),
)
TRAFFIC = (
    total(
        grad_bytes * moved(GRAD)
        + 4 * moved(RESIDUAL)
        + BIT * moved(MOMENTUM_BIT)
        + 4 * moved(RESIDUAL_OUT)
        + BIT * moved(MESSAGE),
        k,
        D,
    )
    + total(total(BIT * received[i, k], i, N) + 4 * moved(INPUT) + 4 * moved(INPUT_OUT) + BIT * moved(ANSWER), k, chunk)
    + total(BIT * moved(ANSWER_BIT) + p_bytes * moved(P_READ) + 4 * moved(PARAMS) + 4 * moved(PARAMS_OUT), k, D)
)
FLOOR = D * (grad_bytes + p_bytes + sp.Rational(33, 2) + sp.Rational(65, 8) / N)


def each_once(n_workers: int, chunk: int) -> dict[str, Any]:
    """The traffic of our kernels: each of their streams once."""
    streams = {
        "n_workers": n_workers,
        "dim": n_workers * chunk,
        "chunk": chunk,
        "transfers": np.ones((12, n_workers * chunk)),
        "received": np.ones((n_workers, chunk)),
    }
    numbers = {"beta1": 0.9, "lr": 1e-3, "worker_scale": 1.0, "answer_scale": 1.0, "scale": np.ones(n_workers)}
    return streams | numbers | {"grad_bytes": 4.0, "preconditioner_bytes": 4.0}


BYTE_FLOOR = Theorem(
    id="T8b",
    title="Byte floor of one step",
    conclusion=cast(Relational, sp.Ge(TRAFFIC, FLOOR, evaluate=False)),
    hypotheses=(*MODEL, *COMPRESS, *SERVER, *APPLY),
    where=(
        Row(chunk, "c", "elements of a server's chunk"),
        Row(transfers, "r", "how often a cell is read or written, for each stream", "(12, D)"),
        Row(received, "r'", "how often the server reads a worker's bit", "(N, chunk)"),
        Row(stream, r"\ell", "number of a stream"),
        Row(grad_bytes, "b_g", "bytes of a gradient", unit="bytes", default=4),
        Row(p_bytes, "b_P", "bytes of an entry of P", unit="bytes", default=4),
        Row(worker_scale, r"s_{\mathrm{w}}", "scale of the worker", default=1.0),
        Row(answer_scale, "S", "scale of the server", default=1.0),
    ),
    words="In a model where kernels keep nothing between two collectives, all chunks are equal (N divides D) and no "
    "worker's scale is zero, every program that computes the lazy form with its state in words of four bytes moves "
    "at least {step} bytes per parameter through the memory of each worker ({half} with gradients in two bytes). "
    "Fused Adam moves {adam}, counted: the floor lies below that from three workers on.",
    numbers={
        "step": Quoted(FLOOR, {grad_bytes: 4, p_bytes: 4, D: 1}),
        "half": Quoted(FLOOR, {grad_bytes: 2, p_bytes: 4, D: 1}),
        "adam": Quoted(
            streamed(ADAM_STREAMS), by="the reads and writes of a fused Adam step, counted stream by stream"
        ),
    },
    good_for="No kernels of this model move less: the time of a step is compared with this, not with a guess.",
    source="ours",
    example=lambda: instance(BYTE_FLOOR, "every cell moved once, two workers, two elements", each_once(2, 1)),
    remarks="It is a floor of this state layout in this model, not of the algorithm. Which cells are read may not "
    "depend on what is in them. What the collectives move themselves, scales and partial norms are not counted, and a "
    "chunk that a cache keeps from one kernel to the next would be moved less. That fused Adam moves no less than its "
    "count is not proved. In the update form P is read by compress instead of apply, and the sum is the same.",
)

memory_speed = sp.Symbol("memory_bandwidth", positive=True)
network = sp.Symbol("network_bandwidth", positive=True)
optimizer_bytes = sp.Symbol("optimizer_bytes", positive=True)
wire = sp.Symbol("wire_bytes", positive=True)
extra = sp.Symbol("extra_seconds", nonnegative=True)
PASSES = 2 * (N - 1) / N
PLAIN = ADAM_BYTES / memory_speed + PASSES * wire / network
COMPRESSED = optimizer_bytes / memory_speed + extra + PASSES * BIT / network
COST = (optimizer_bytes - ADAM_BYTES) / memory_speed + extra
CROSSOVER = PASSES * (wire - BIT) / COST
CROSSING = (
    Row(memory_speed, r"B_{\mathrm{mem}}", "memory bandwidth", unit="bytes/s", default=900e9),
    Row(network, r"B_{\mathrm{net}}", "bandwidth of the network", unit="bytes/s", default=5e9),
    Row(
        optimizer_bytes, "b", "bytes per parameter that the compressed optimizer moves through memory", unit="bytes",
        default=DEEPSPEED_BYTES,
    ),
    Row(wire, "b_w", "bytes per parameter on the wire without compression", unit="bytes", default=2),
    Row(extra, "e", "further seconds per parameter of the compressed step, such as launches", unit="s", default=0.0),
)  # fmt: skip


def crossover_bandwidth(
    n_workers: int,
    memory_bandwidth: float,
    optimizer_bytes: float,
    wire_bytes: float = 2.0,
    extra_seconds_per_parameter: float = 0.0,
) -> float:
    """Network bandwidth (bytes/s) above which compressing costs more than it saves (T8c); inf when it never does.

    Args:
        n_workers: N > 1.
        memory_bandwidth: device memory, bytes/s.
        optimizer_bytes: memory traffic per parameter of the compressed step, e.g. :func:`bytes_per_parameter`.
        wire_bytes: bytes per parameter on the wire without compression (2: fp16, 4: fp32).
        extra_seconds_per_parameter: any further cost, e.g. launch and latency seconds divided by D.

    Raises:
        ValueError: fewer than two workers, where there is no wire.

    """
    if n_workers < 2:
        raise ValueError("one worker has no network to save on; n_workers must be at least 2")
    if (optimizer_bytes - ADAM_BYTES) / memory_bandwidth + extra_seconds_per_parameter <= 0:
        return math.inf
    return float(
        bound(
            CROSSOVER_THEOREM, n_workers=n_workers, memory_bandwidth=memory_bandwidth,
            optimizer_bytes=optimizer_bytes, wire_bytes=wire_bytes, extra_seconds=extra_seconds_per_parameter,
        )
    )  # fmt: skip


def near_crossover() -> dict[str, Any]:
    """The step counted on DeepSpeed at N = 8 on a network one percent slower than its crossover."""
    numbers = {"n_workers": 8, "memory_bandwidth": 900e9, "optimizer_bytes": float(DEEPSPEED_BYTES), "wire_bytes": 2.0}
    speed = 0.99 * crossover_bandwidth(8, 900e9, DEEPSPEED_BYTES)
    return numbers | {"extra_seconds": 0.0, "network_bandwidth": speed}


COSTS = Hypothesis("costs", lt(0, COST), "compressing costs more memory time than fused Adam")
PAYS = le(COMPRESSED, PLAIN)
BELOW = le(network, CROSSOVER)
CROSSOVER_THEOREM = Theorem(
    id="T8c",
    title="Crossover bandwidth",
    conclusion=BELOW,
    hypotheses=(
        COSTS,
        Hypothesis("pays", PAYS, "the compressed step takes no longer"),
    ),
    where=CROSSING,
    words="Where a compressed step costs more than fused Adam, in memory time and further seconds, it pays only on "
    "networks no faster than the crossover: what it saves on the wire over what it costs. The unfused step of "
    "{unfused} bytes per parameter has such a limit.",
    numbers={"unfused": Quoted(DEEPSPEED_BYTES, by="a count on DeepSpeed 0.19.6 with eight workers")},
    good_for="Answers when the cost of compressing eats its gain, in this model.",
    source="ours; bytes of the unfused step counted on DeepSpeed 0.19.6 (run)",
    example=lambda: instance(CROSSOVER_THEOREM, "the unfused step one percent below its crossover", near_crossover()),
    remarks="Kernels are bound by memory, collectives by bandwidth, and nothing overlaps with the backward pass. The "
    "baseline is fused Adam after an all-reduce; its own memory traffic in the collective is not counted. A step "
    "that costs no more than fused Adam does not meet the hypothesis, so nothing is said of it here; that it takes "
    "no longer on any network is seen from the formula of the two times.",
)
PAYING = Theorem(
    id="T8h",
    title="Compression pays below the crossover",
    conclusion=PAYS,
    hypotheses=(
        COSTS,
        Hypothesis("slow_network", BELOW, "the network is no faster than the crossover"),
    ),
    where=CROSSING,
    words="Where a compressed step costs more than fused Adam, but the network is no faster than the crossover of "
    "T8c, it takes no longer than fused Adam with its dense all-reduce.",
    good_for="With T8c: in this model the crossover is exact, in both directions.",
    source="ours",
    example=lambda: instance(PAYING, "the unfused step one percent below its crossover", near_crossover()),
    remarks="The model is that of T8c.",
)
THEOREMS = (BYTE_FLOOR, CROSSOVER_THEOREM, PAYING)
