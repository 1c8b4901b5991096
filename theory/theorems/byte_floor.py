"""T8b, T8c: the memory traffic of one 1-bit Adam step, counted stream by stream, and when compression stops paying.

Between two collectives nothing survives in registers, so each kernel must read what it needs and write what others
need. The floor is that count. Bytes are exact rationals per parameter; N workers share the server's part.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import sympy as sp

from theory.notation import D, N
from theory.theorem import Example, Link, Status, Theorem, WrongVariant

BIT = sp.Rational(1, 8)
ADAM_BYTES = 28
DEEPSPEED_BYTES = 254  # DeepSpeed 0.19.6 OnebitAdam at N = 8, counted by running it: about 54 launches


@dataclass(frozen=True)
class Stream:
    """One array that a kernel reads or writes once.

    Attributes:
        kernel: compress, server or apply.
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
    """Every stream of the lazy form with implicit momentum (T8a), state in fp32."""
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

MEMORY_BEYOND_ADAM = {"bits of u, sent": BIT, "bits of all workers, received": BIT, "bits of m̄": BIT, "w": 4 / N}
"""Bytes per parameter that the lazy form needs beside Adam's two buffers (u and P reuse those)."""


def total(streams: tuple[Stream, ...], kernel: str = "") -> sp.Expr:
    """Bytes per parameter of one kernel, or of all."""
    return sp.Add(*(stream.per_parameter() for stream in streams if kernel in ("", stream.kernel)))


def bytes_per_parameter(n_workers: float, grad_bytes: float = 4) -> float:
    """The floor of a whole step: 20.5 + grad_bytes + 8.125/N bytes per parameter (24.5 + 8.125/N in fp32).

    Args:
        n_workers: N.
        grad_bytes: 4 for fp32 gradients, 2 for bf16.

    """
    return (
        float(
            sum(
                float(stream.bytes) * (n_workers if stream.copies == N else 1) / (n_workers if stream.on_chunk else 1)
                for stream in onebit_streams(0)
            )
        )
        + grad_bytes
    )


def memory_overhead(dim: float, n_workers: float) -> float:
    """Bytes beyond Adam's own buffers: 3 D/8 + 4 D/N (scales and partial norms not counted)."""
    return 3 * dim / 8 + 4 * dim / n_workers


def crossover_bandwidth(
    n_workers: float,
    memory_bandwidth: float,
    optimizer_bytes: float,
    wire_bytes: float = 2.0,
    extra_seconds_per_parameter: float = 0.0,
) -> float:
    """Network bandwidth (bytes/s) above which compressing costs more than it saves; inf when it never does.

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
    cost = (optimizer_bytes - ADAM_BYTES) / memory_bandwidth + extra_seconds_per_parameter
    saved_bytes = 2 * (n_workers - 1) / n_workers * (wire_bytes - 1 / 8)
    return saved_bytes / cost if cost > 0 else math.inf


def proof_floor(grad_bytes: int = 4, drop: str = "", full_server: bool = False) -> tuple[Link, ...]:
    """T8b: the counts add up to the table of the specification; keywords exist to be set wrong by tests."""
    streams = tuple(stream for stream in onebit_streams(grad_bytes) if stream.array != drop)
    if full_server:
        streams = tuple(Stream(s.kernel, s.array, s.access, s.bytes, False, s.copies) for s in streams)
    saved = total(ADAM_STREAMS) - total(streams)
    return (
        Link("compress: 12.25 bytes per parameter", total(streams, "compress"), sp.Rational(49, 4)),
        Link("server, on D/N elements: 0.125 + 8.125/N", total(streams, "server"), BIT + sp.Rational(65, 8) / N),
        Link("apply: 12.125", total(streams, "apply"), sp.Rational(97, 8)),
        Link("whole step: 24.5 + 8.125/N", total(streams), sp.Rational(49, 2) + sp.Rational(65, 8) / N),
        Link("fused Adam: 28", total(ADAM_STREAMS), sp.Integer(ADAM_BYTES)),
        Link(
            "less than Adam by 3.5 - 8.125/N: from three workers on", saved, sp.Rational(7, 2) - sp.Rational(65, 8) / N
        ),
        Link("bf16 gradient: compress is 10.25", total(onebit_streams(2), "compress"), sp.Rational(41, 4)),
        Link(
            "memory beyond Adam's: 3 D/8 + 4 D/N",
            D * sp.Add(*MEMORY_BEYOND_ADAM.values()),
            D * sp.Rational(3, 8) + 4 * D / N,
        ),
    )


def proof_crossover(wire: int = 2, passes: int = 2) -> tuple[Link, ...]:
    """T8c: the time saved changes sign exactly at the crossover, and falls with the bandwidth."""
    net, mem = sp.symbols("B_net B_mem", positive=True)
    extra = sp.Symbol("b_e", positive=True)  # optimizer bytes above Adam's
    step = sp.Symbol("h", nonnegative=True)
    share = 2 * (N - 1) / N
    gain = share * (wire - BIT) / net - extra / mem
    crossing = mem * passes * (N - 1) / N * (wire - BIT) / extra
    faster = gain.subs(net, net + step)
    n_more = sp.Symbol("n", nonnegative=True)  # N = 2 + n
    return (
        Link(
            "reduce-scatter and all-gather send 2 (N-1)/N of the buffer, in bits or in halves alike",
            share * D * wire - share * D * BIT,
            share * D * (wire - BIT),
        ),
        Link("at the crossover the time saved is zero", gain.subs(net, crossing), sp.S.Zero),
        Link(
            "a faster network saves less, so above the crossover compression costs time",
            faster.subs(N, 2 + n_more),
            gain.subs(N, 2 + n_more),
            slack=(2 * (1 + n_more) / (2 + n_more) * (wire - BIT) * step / (net * (net + step)),),
        ),
    )


def crossover_gbit(n_workers: float, memory_gb: float, optimizer_bytes: float) -> float:
    """:func:`crossover_bandwidth` in Gbit/s against fp16, for memory in GB/s."""
    return crossover_bandwidth(n_workers, memory_gb * 1e9, optimizer_bytes) * 8e-9


def example_crossover() -> Example:
    """Seconds per parameter spent and saved on a network one percent slower than the crossover."""
    memory, network = 900e9, 0.99 * crossover_bandwidth(8, 900e9, DEEPSPEED_BYTES)
    spent, saved = (DEEPSPEED_BYTES - ADAM_BYTES) / memory, 2 * 7 / 8 * (2 - 1 / 8) / network
    return Example("unfused, N = 8, 1 % below the crossover: seconds spent against seconds saved", spent, saved)


THEOREM_FLOOR = Theorem(
    id="T8b",
    title="Byte floor of one step",
    words=(
        "With state in fp32 a compressed step must move 24.5 + 8.125/N bytes per parameter through memory on each"
        " worker (22.5 + 8.125/N with bf16 gradients), less than fused Adam's 28 from three workers on; beyond Adam's"
        " memory it needs 3D/8 + 4D/N bytes."
    ),
    statement=(
        sp.Eq(sp.Symbol("b_onebit"), sp.Rational(49, 2) + sp.Rational(65, 8) / N, evaluate=False),
        sp.Eq(sp.Symbol("b_Adam"), sp.Integer(28), evaluate=False),
        sp.Eq(sp.Symbol("M_extra"), D * sp.Rational(3, 8) + 4 * D / N, evaluate=False),
    ),
    hypotheses=(
        "u, w, P and x live in memory as fp32 between kernels, messages as bits; each array is moved once per kernel",
        "a collective separates compress, server and apply, so nothing stays in registers or cache between them",
        "scales, partial norms and the collectives' own traffic are not counted (O(N) and O(D/block) words)",
    ),
    source="ours, by counting",
    status=Status.PROVED,
    proof=proof_floor,
    bound=bytes_per_parameter,
    example=lambda: Example(
        "N = 8: one-bit step against fused Adam, bytes per parameter", bytes_per_parameter(8), float(ADAM_BYTES)
    ),
    wrong_variants=(
        WrongVariant(
            "a compress pass that need not read its own error back",
            lambda: not all(link.holds() for link in proof_floor(drop="u of the last step")),
        ),
        WrongVariant(
            "a server that works on all D elements",
            lambda: not all(link.holds() for link in proof_floor(full_server=True)),
        ),
        WrongVariant(
            "bf16 gradients at the fp32 count", lambda: not all(link.holds() for link in proof_floor(grad_bytes=2))
        ),
        WrongVariant("cheaper than Adam for two workers as well", lambda: bytes_per_parameter(2) > ADAM_BYTES),
    ),
    remarks=(
        "It is a floor of this state layout, not of the algorithm: P in bf16 would save 2 bytes. N = 2 costs 28.5625,"
        " slightly above Adam."
    ),
)
THEOREM_CROSSOVER = Theorem(
    id="T8c",
    title="Crossover bandwidth",
    words=(
        "Against a 2-byte wire, compression pays as long as the network is slower than B_mem·2(N-1)/N·(2-1/8)/(b-28),"
        " b being the compressed optimizer's bytes per parameter. At the floor b < 28 for N ≥ 3, and no network is too"
        " fast on this account; unfused (b = 254) there is a limit."
    ),
    statement=(
        sp.Eq(
            sp.Symbol("B_net^*"),
            sp.Symbol("B_mem") * 2 * (N - 1) / N * sp.Rational(15, 8) / (sp.Symbol("b") - 28),
            evaluate=False,
        ),
    ),
    hypotheses=(
        "memory-bound optimizer kernels, bandwidth-bound collectives, no overlap with the backward pass",
        "the baseline is fused Adam after an fp16 all-reduce; its own memory traffic in the collective is not counted",
        "launches and latency enter only through extra_seconds_per_parameter",
    ),
    source="ours; 254 bytes counted on DeepSpeed 0.19.6 (run)",
    status=Status.PROVED,
    proof=proof_crossover,
    bound=crossover_bandwidth,
    example=example_crossover,
    numeric_checks={
        "at the floor no crossover exists for N = 3 ... 1024": lambda: all(
            math.isinf(crossover_gbit(n, 900, bytes_per_parameter(n))) for n in range(3, 1025)
        ),
    },
    wrong_variants=(
        WrongVariant("one pass over the wire instead of two", lambda: not proof_crossover(passes=1)[1].holds()),
        WrongVariant(
            "the unfused step never pays beyond 10 Gbit/s (it does, up to about 100)",
            lambda: crossover_gbit(8, 900, DEEPSPEED_BYTES) > 10,
        ),
        WrongVariant(
            "the crossover is the same for fp32 and fp16 wires",
            lambda: crossover_bandwidth(8, 9e11, 254, 4) != crossover_bandwidth(8, 9e11, 254, 2),
        ),
    ),
    remarks="Crossovers of the unfused step at N = 8 against fp16: "
    + ", ".join(
        f"{crossover_gbit(8, memory, DEEPSPEED_BYTES):.0f} Gbit/s at {memory} GB/s"
        for memory in (900, 2000, 3350, 4800)
    )
    + ". This answers the objection that compression's own cost eats the gain: unfused it does on fast networks.",
)
THEOREMS = (THEOREM_FLOOR, THEOREM_CROSSOVER)
