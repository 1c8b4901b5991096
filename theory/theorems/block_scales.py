"""T1j, T1k, T1l: a scale of its own for every block [C13] makes the scaled sign contract block by block."""

from __future__ import annotations

from typing import Any

import numpy as np
import sympy as sp

from theory.formula import ForAll, array, eq, le, lt, mean, norm_squared, sgn, total
from theory.notation import Row, corrected, count, j, k
from theory.theorem import Hypothesis, Theorem
from theory.theorems.scaled_sign_contraction import OTHER, other_magnitude
from theory.witness import instance

scale_block = count("scale_block")
n_blocks = count("n_blocks", least=0)
rest = count("rest", least=0)
n, m = count("n", least=0), count("m", least=0)
block_scale = array("block_scale")
element_scale = array("element_scale")

ROWS = (
    Row(scale_block, "B", "elements of a block that share a scale", default=4096),
    Row(n_blocks, "M", "full blocks"),
    Row(rest, "r", "elements of the last, shorter block; may be none"),
    Row(block_scale, "s", "scale of a block", "(n_blocks + 1,)"),
    Row(element_scale, r"\hat{s}", "scale of the block in which an element lies", "(D,)"),
)

length = n_blocks * scale_block + rest
in_block = corrected[j * scale_block + k]
in_rest = corrected[n_blocks * scale_block + k]
square_norm = norm_squared(corrected[n], n, length)
lost = norm_squared(corrected[n] - element_scale[n] * sgn(corrected[n]), n, length)

NONZERO = Hypothesis("nonzero", lt(0, square_norm), "u is not zero")
FULL = Hypothesis(
    "full_blocks",
    ForAll(
        ((j, n_blocks), (k, scale_block)),
        eq(
            element_scale[j * scale_block + k],
            mean(sp.Abs(corrected[j * scale_block + m]), m, scale_block),
        ),
    ),
    "in a full block the scale is the l1 scale of that block",
)
LAST = Hypothesis(
    "last_block",
    ForAll(
        ((k, rest),),
        eq(
            element_scale[n_blocks * scale_block + k],
            mean(sp.Abs(corrected[n_blocks * scale_block + m]), m, rest),
        ),
    ),
    "in the last block the scale is the l1 scale of what is there",
)
SHORT = Hypothesis("shorter", le(rest, scale_block), "the last block is no longer than the others")


def in_blocks(u: np.ndarray, length: int) -> dict[str, Any]:
    """What the theorems speak of, for one vector in blocks of ``length`` and l1 scales."""
    blocks = [u[start : start + length] for start in range(0, u.size, length)]
    full = u.size // length
    inputs: dict[str, Any] = {"corrected": u, "scale_block": length, "n_blocks": full, "rest": u.size - full * length}
    return inputs | {
        "block_scale": [np.abs(block).mean() for block in blocks],
        "element_scale": np.concatenate([np.full(block.size, np.abs(block).mean()) for block in blocks]),
    }


VECTOR = np.round(np.random.default_rng(0).laplace(size=36) * 2**10) / 2**10
_RAGGED = "four blocks of 8 and one of 4"


SUM = Theorem(
    id="T1j",
    title="The error of block scales is the sum of the blocks' errors",
    conclusion=eq(
        lost,
        total(norm_squared(in_block - block_scale[j] * sgn(in_block), k, scale_block), j, n_blocks)
        + norm_squared(in_rest - block_scale[n_blocks] * sgn(in_rest), k, rest),
    ),
    hypotheses=(
        Hypothesis(
            "full_blocks",
            ForAll(((j, n_blocks), (k, scale_block)), eq(element_scale[j * scale_block + k], block_scale[j])),
            "every element of a full block has the scale of its block",
        ),
        Hypothesis(
            "last_block",
            ForAll(((k, rest),), eq(element_scale[n_blocks * scale_block + k], block_scale[n_blocks])),
            "and so has every element of the last block",
        ),
    ),
    words="What a vector with block scales loses is the sum of what its blocks lose, whatever the scales.",
    good_for="Everything that is known of one scale, with d the length of a block, holds for each block.",
    source="ours; the idea of block scales is dist-EF-blockSGDM's (Zheng, Huang, Kwok 2019)",
    example=lambda: instance(SUM, _RAGGED, in_blocks(VECTOR, 8)),
    where=ROWS,
    laws=("C13",),
)

CONTRACTION = Theorem(
    id="T1k",
    title="Contraction of the l1 sign with block scales",
    conclusion=le(lost / square_norm, 1 - 1 / scale_block),
    hypotheses=(NONZERO, FULL, LAST, SHORT),
    words="With one l1 scale for every block the error is at most the share {share} of the squared norm of u, "
    "however long u is.",
    numbers={"share": 1 - 1 / scale_block},
    good_for="The factor in every bound that needs a contraction depends on the block length, not on the model's size.",
    source="dist-EF-blockSGDM (Zheng, Huang, Kwok 2019) for the idea; proof ours",
    example=lambda: instance(
        CONTRACTION, "one coordinate in 4 blocks of 64 is not zero", in_blocks(np.eye(256)[7], 64)
    ),
    where=ROWS,
    laws=("C13", "L10"),
    remarks="One coordinate that is not zero attains it.",
)

NEVER_WORSE = Theorem(
    id="T1l",
    title="With the l1 scale blocks never lose more than one scale",
    conclusion=le(lost, norm_squared(corrected[n] - other_magnitude * sgn(corrected[n]), n, length)),
    hypotheses=(FULL, LAST),
    words="With one l1 scale for every block the error is at most that of any single scale for the whole vector.",
    good_for="Beside one l1 scale for all, blocks cost bytes on the wire and never accuracy of one compression.",
    source="ours",
    example=lambda: instance(NEVER_WORSE, _RAGGED, in_blocks(VECTOR, 8) | {"other_magnitude": np.abs(VECTOR).mean()}),
    where=(*ROWS, OTHER),
    laws=("C13",),
    remarks="It is about one compression: what error feedback makes of it over many steps is another matter. With l2 "
    "blocks may lose more.",
)

THEOREMS = (SUM, CONTRACTION, NEVER_WORSE)
