"""T10a, T10c, T10d, T10e: how much 1-bit Adam sends, with one scale a chunk or one a block, and what that is worth.

T10d counts the messages of one step, T10e bounds them for blocks of B elements (C13), T10a adds up a run with its
warm-up, and T10c is Amdahl's law for the published 3.3x and 2.9x.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, cast

import sympy as sp
from sympy.core.relational import Relational

from theory.evaluate import bound
from theory.formula import ForAll, array, eq, le, mean, total
from theory.notation import D, N, Row, count, freeze_step, i, j
from theory.profile import RECALLED_COMPRESSED_SPEEDUP, WARMUP_SHARE
from theory.theorem import Hypothesis, Quoted, Theorem
from theory.witness import instance

s = count("s", least=0)
compressed_steps = count("compressed_steps", least=0)
share = sp.Symbol("warmup_share", nonnegative=True)
reduction = sp.Symbol("reduction", positive=True)
dense = sp.Symbol("dense", positive=True)
speedup = sp.Symbol("speedup", positive=True)
sent, seconds = array("sent"), array("seconds")
message, length, blocks = array("message"), array("length"), array("blocks")
n_blocks = count("n_blocks", least=0)
block = count("block")

CLOSED_UNIT = cast(sp.Interval, sp.Interval(0, 1))
STEP = Row(s, "s", "step", unit="steps")
COMPRESSED = Row(compressed_steps, r"T_c", "steps of the compression stage", unit="steps", default=900)
SHARE = Row(share, "w", "warm-up steps over all steps", domain=CLOSED_UNIT, default=WARMUP_SHARE["BERT-Large"])


def volume_ratio(warmup_share: float, dense_bits: float = 16) -> float:
    """Volume of Adam over that of 1-bit Adam (T10a).

    Args:
        warmup_share: w, warm-up steps over all steps, in [0, 1].
        dense_bits: bits per parameter without compression, 16 or 32.

    Raises:
        ValueError: w outside [0, 1].

    """
    return float(bound(VOLUME, warmup_share=warmup_share, reduction=dense_bits))


def end_to_end_speedup(warmup_share: float, compressed_speedup: float) -> float:
    """Speed-up of the whole run (T10c) when the compression stage alone runs that many times faster.

    Raises:
        ValueError: w outside [0, 1], or a speed-up that is not positive.

    """
    return float(bound(SPEEDUP, warmup_share=warmup_share, speedup=compressed_speedup))


def wire_bytes(dim: int, n_workers: int, n_blocks: int = 0) -> float:
    """Bytes that a worker sends in a compressed step (T10d), mean over workers; scales counted for ``n_blocks``."""
    return float(bound(MESSAGES, dim=dim, n_workers=n_workers, n_blocks=n_blocks))


def rate(factor: sp.Symbol) -> sp.Expr:
    """How much less a run costs whose compression stage costs ``factor`` times less."""
    return 1 / (share + (1 - share) / factor)


def averaged(cost: sp.IndexedBase, factor: sp.Symbol, what: str) -> tuple[Relational, tuple[Hypothesis, ...]]:
    """Cost of a run without compression over that with it: the relation and its hypotheses."""
    steps = freeze_step + compressed_steps
    relation = eq(steps * dense / total(cost[s], s, steps), rate(factor))
    return relation, (
        Hypothesis("warm_up", ForAll(((s, freeze_step),), eq(cost[s], dense)), f"a warm-up step has Adam's {what}"),
        Hypothesis(
            "compression",
            ForAll(((s, compressed_steps),), eq(cost[freeze_step + s], dense / factor)),
            f"a step of the compression stage has its {what} divided by the factor",
        ),
        Hypothesis("share_of_steps", eq(share * steps, freeze_step), "w is the warm-up's share of the steps"),
    )


def two_stages(name: str, factor_name: str, factor: Fraction, dense: int = 2) -> dict[str, Any]:
    """A run of a thousand steps, 150 of them warm-up: what each step costs."""
    costs = [dense] * 150 + [dense / factor] * 850
    numbers = {"freeze_step": 150, "compressed_steps": 850, "warmup_share": Fraction(3, 20), "dense": dense}
    return numbers | {name: costs, factor_name: factor}


def exchanged(n_workers: int, chunk: int, block: int) -> dict[str, Any]:
    """Bytes of one exchange, message by message, with a scale for every block."""
    blocks_of_chunk = math.ceil(chunk / block)
    message_N = [chunk / 8 + 4 * blocks_of_chunk] * n_workers
    sent_N = [2 * (n_workers - 1) * a_message for a_message in message_N]
    arrays = {"message": message_N, "sent": sent_N, "length": [chunk] * n_workers}
    numbers = {"n_workers": n_workers, "dim": n_workers * chunk, "n_blocks": n_workers * blocks_of_chunk}
    return arrays | numbers | {"blocks": [blocks_of_chunk] * n_workers, "block": block}


VOLUME_RELATION, VOLUME_HYPOTHESES = averaged(sent, reduction, "bytes")
TIME_RELATION, TIME_HYPOTHESES = averaged(seconds, speedup, "time")
AT_BERT = {share: WARMUP_SHARE["BERT-Large"], reduction: 16}

VOLUME = Theorem(
    id="T10a",
    title="Communication volume of a run",
    conclusion=VOLUME_RELATION,
    hypotheses=VOLUME_HYPOTHESES,
    where=(
        STEP,
        COMPRESSED,
        SHARE,
        Row(dense, "b", "bytes of a step without compression", unit="bytes", default=1.0),
        Row(sent, "B", "bytes of a step", "(n_steps,)"),
        Row(reduction, r"\rho", "bits of a number on the wire without compression, for one with it", default=16),
    ),
    words="A run with a warm-up sends {published} times less than Adam in sixteen bits at the warm-up's share of the "
    "published BERT-Large run with one bit a number, and at most {cap} times less however small the messages are.",
    numbers={
        "published": Quoted(rate(reduction), AT_BERT),
        "cap": Quoted(rate(reduction), {**AT_BERT, reduction: sp.oo}),
    },
    good_for="The saving of a run, from the length of its warm-up.",
    source="volume formula: arXiv 2102.02888; proof: ours",
    example=lambda: instance(
        VOLUME, "bytes of 1,000 steps, 150 of them warm-up", two_stages("sent", "reduction", Fraction(16))
    ),
    remarks="The published 'up to 5x' is the warm-up's doing. That a compressed step sends one bit for each number, "
    "and what scales add, is T10d's.",
)

SPEEDUP = Theorem(
    id="T10c",
    title="End-to-end speed-up",
    conclusion=TIME_RELATION,
    hypotheses=TIME_HYPOTHESES,
    where=(
        STEP,
        COMPRESSED,
        SHARE,
        Row(dense, r"\tau", "time of a step without compression", unit="s", default=1.0),
        Row(seconds, r"\tau_s", "time of a step", "(n_steps,)"),
        Row(
            speedup, r"\sigma_c", "speed-up inside the compression stage",
            default=RECALLED_COMPRESSED_SPEEDUP["BERT-Large"],
        ),
    ),
    words="Amdahl's law with the warm-up as the serial part: the recalled maxima of the compression stage give {bert} "
    "for BERT-Large pre-training and {squad} for SQuAD, which round to the abstract's figures.",
    numbers={
        name: Quoted(rate(speedup), {share: WARMUP_SHARE[task], speedup: RECALLED_COMPRESSED_SPEEDUP[task]})
        for name, task in (("bert", "BERT-Large"), ("squad", "SQuAD"))
    },
    good_for="What a speed-up inside the compression stage is worth for the whole run.",
    source="ours; compared with arXiv 2102.02888 (abstract; compression-stage maxima recalled)",
    example=lambda: instance(
        SPEEDUP, "1,000 steps, 150 of them warm-up", two_stages("seconds", "speedup", Fraction(548, 100))
    ),
    remarks="Every step without compression takes the same time, and there are as many steps with compression as "
    "without. A consistency check of recalled numbers, not a measurement.",
)  # fmt: skip

SENT = Hypothesis(
    "sent_by_worker",
    ForAll(((i, N),), eq(sent[i], total(message[j], j, N) - message[i] + (N - 1) * message[i])),
    "worker i sends every chunk but its own to that chunk's server, then its own answer to all others",
)
PAYLOAD = Hypothesis(
    "payload",
    ForAll(((j, N),), eq(message[j], length[j] / 8 + 4 * blocks[j])),
    "a message has a bit for every element of its chunk and four bytes for every block",
)
ALL_ELEMENTS = Hypothesis("all_elements", eq(total(length[j], j, N), D), "the chunks are the whole vector")
MESSAGE_ROWS = (
    Row(sent, "b", "bytes that a worker sends", "(N,)"),
    Row(message, "m", "bytes of a chunk's message", "(N,)"),
    Row(length, r"\ell", "elements of a chunk, a multiple of eight", "(N,)"),
    Row(blocks, "n_j", "blocks of a chunk, each with a scale of its own", "(N,)"),
)

BLOCK = Row(block, "B", "elements of a block (C13)", default=64)

MESSAGES = Theorem(
    id="T10d",
    title="Bytes of a compressed step",
    conclusion=eq(mean(sent[i], i, N), 2 * (N - 1) / N * (D / 8 + 4 * n_blocks)),
    hypotheses=(
        SENT,
        PAYLOAD,
        ALL_ELEMENTS,
        Hypothesis("all_blocks", eq(total(blocks[j], j, N), n_blocks), "blocks of all chunks"),
    ),
    where=(
        *MESSAGE_ROWS,
        Row(n_blocks, "n_B", "blocks of all chunks: N as published (set it too), ceil(D/B) with scales that fit them",
            default=8),
    ),
    words="A worker sends, on average over workers, a bit for every number and a scale for every block, there and "
    "back, but for the part that stays at home.",
    numbers={},
    good_for="The wire volume of a step, with one scale a chunk or one a block.",
    source="ours; the exchange is that of arXiv 2102.02888, figure 3",
    example=lambda: instance(MESSAGES, "eight workers, chunks of 1,000 bits, blocks of 64", exchanged(8, 1000, 64)),
    laws=("C3", "C13"),
    remarks="All-to-all of the chunks, then an all-gather of the answers. Whole bytes: chunks whose length is no "
    "multiple of eight (only the last can be) add less than a byte each.",
)  # fmt: skip

BLOCKS = Theorem(
    id="T10e",
    title="Bytes of a compressed step with block scales, for any chunks",
    conclusion=le(mean(sent[i], i, N), 2 * (N - 1) / N * (D / 8 + 4 * D / block + 4 * N)),
    hypotheses=(
        SENT,
        PAYLOAD,
        ALL_ELEMENTS,
        Hypothesis(
            "rounded_up",
            ForAll(((j, N),), le(blocks[j], length[j] / block + 1)),
            "a chunk has no more blocks than its length over B, rounded up",
        ),
    ),
    where=(*MESSAGE_ROWS, BLOCK),
    words="With blocks of {elements} elements the scales add at most {share} byte to every byte of signs, and one "
    "scale for every worker.",
    numbers={
        "elements": Quoted(block, {block: BLOCK.default}),
        "share": Quoted(4 * D / block, {D: 8, block: BLOCK.default}),  # eight signs are a byte
    },
    good_for="What a finer scale costs on the wire at most.",
    source="ours; block scales: Zheng, Huang, Kwok, NeurIPS 2019 (1905.10936)",
    example=lambda: instance(BLOCKS, "eight workers, chunks of 1,000 bits, blocks of 64", exchanged(8, 1000, 64)),
    laws=("C13",),
    remarks="The specification's D/8 + 4 ceil(D/B) each way is T10d with whole blocks in every chunk. Whole bytes: "
    "chunks whose length is no multiple of eight (only the last can be) add less than a byte each to what is sent, as "
    "in T10d.",
)
THEOREMS = (VOLUME, SPEEDUP, MESSAGES, BLOCKS)
