"""T6m: no function is more convex than it is smooth; T6e takes no such constants."""

from __future__ import annotations

import numpy as np

from theory import descent as ds
from theory.descent import pl_constant
from theory.formula import ForAll, array, le, total
from theory.notation import D, Row, k, smoothness
from theory.theorem import Hypothesis, Theorem
from theory.witness import instance

minimiser = array("minimiser")
point = ds.point
CURVATURE_ROWS = (
    Row(pl_constant, r"\mu", "constant of strong convexity", default=0.1),
    Row(minimiser, "x^*", "the minimiser of f", "(D,)"),
)
CONVEX = (
    Hypothesis(
        "strongly_convex",
        ForAll(
            (point,),
            le(
                ds.objective(point) - ds.lowest + pl_constant / 2 * ds.squares(point[k] - minimiser[k]),
                total(ds.slope(point) * (point[k] - minimiser[k]), k, D),
            ),
        ),
        "f is strongly convex, as seen from its minimiser",
    ),
    Hypothesis(
        "gradient_small",
        ForAll(
            (point,),
            le(ds.squares(ds.slope(point)), 2 * smoothness * (ds.objective(point) - ds.lowest)),
        ),
        "f is L-smooth: the squared gradient is at most 2 L times the gap",
    ),
)

THEOREM = Theorem(
    id="T6m",
    title="Strong convexity is at most smoothness",
    conclusion=le(pl_constant, smoothness),
    hypotheses=CONVEX,
    words="If a function of at least one parameter is strongly convex and smooth, the constant of strong convexity is "
    "at most that of smoothness.",
    good_for="T6e refuses constants that no function has.",
    source="ours; well known",
    where=(*ds.SPACE_ROWS, *CURVATURE_ROWS),
    example=lambda: instance(
        THEOREM,
        "the squared distance from a point",
        {
            "dim": 2, "minimiser": [1.0, -2.0], "lowest": 0.0, "smoothness": 2.0, "pl_constant": 2.0,
            "objective": lambda x: float(((np.asarray(x)[:2] - [1.0, -2.0]) ** 2).sum()),
            "gradient": lambda x: 2 * (np.asarray(x)[:2] - [1.0, -2.0]),
        },
    ),
)  # fmt: skip
