"""The one notation table: symbol, code name, shape, meaning and SymPy symbol of everything the project talks about.

Theorems, docs and code take their names from here, so a formula and the line that computes it can be laid side by side.

Positivity. ``beta1`` is a positive symbol, but SymPy cannot see ``beta1 < 1``, which most inequalities need. Proofs
that need it substitute :data:`ODDS`, i.e. ``beta1 = b1/(1+b1)`` and ``beta2 = b2/(1+b2)`` with ``b1, b2 > 0``: then
``1 - beta1 = 1/(1+b1)`` is visibly positive, and every value in (0, 1) is reached. ``b1 = beta1/(1-beta1)`` is also the
factor of the momentum in the virtual iterate (L2), so the parametrisation reads naturally. In the same way a
contraction factor in (0, 1) is ``q = a/(1+a)`` with ``a > 0``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import sympy as sp

N = sp.Symbol("N", integer=True, positive=True)
D = sp.Symbol("D", integer=True, positive=True)
d = sp.Symbol("d", integer=True, positive=True)
t = sp.Symbol("t", integer=True, positive=True)
T = sp.Symbol("T", integer=True, positive=True)
freeze_step = sp.Symbol("T_w", integer=True, positive=True)

params = sp.Symbol("x", real=True)
grads = sp.Symbol("g_i", real=True)
mean_grad = sp.Symbol(r"\bar{g}", real=True)
momentum = sp.Symbol(r"\bar{m}", real=True)
variance = sp.Symbol("v", nonnegative=True)
worker_errors = sp.Symbol(r"\delta_i", real=True)
server_error = sp.Symbol(r"\bar{\delta}", real=True)
total_error = sp.Symbol("Delta", real=True)
corrected = sp.Symbol("u", real=True)
server_input = sp.Symbol("w", real=True)
scale = sp.Symbol("s", nonnegative=True)
server_scale = sp.Symbol("S_j", nonnegative=True)
virtual_iterate = sp.Symbol("y", real=True)
preconditioner = sp.Symbol("P", positive=True)

beta1 = sp.Symbol("beta_1", positive=True)
beta2 = sp.Symbol("beta_2", positive=True)
lr = sp.Symbol("gamma", positive=True)
eps = sp.Symbol("varepsilon", positive=True)
weight_decay = sp.Symbol("lambda", nonnegative=True)
variance_floor = sp.Symbol("kappa", nonnegative=True)

alignment = sp.Symbol("phi", positive=True)
contraction = sp.Symbol("q", positive=True)
smoothness = sp.Symbol("L", positive=True)
noise = sp.Symbol("sigma", nonnegative=True)
roundoff = sp.Symbol("upsilon", positive=True)

beta1_odds = sp.Symbol("b_1", positive=True)
beta2_odds = sp.Symbol("b_2", positive=True)
contraction_odds = sp.Symbol("a", positive=True)

ODDS: dict[sp.Symbol, sp.Expr] = {
    beta1: beta1_odds / (1 + beta1_odds),
    beta2: beta2_odds / (1 + beta2_odds),
    contraction: contraction_odds / (1 + contraction_odds),
}
"""Substitution that makes ``0 < beta1, beta2, q < 1`` visible to SymPy: ``expression.subs(ODDS)``."""


def in_odds(expression: sp.Expr) -> sp.Expr:
    """``expression`` with beta1, beta2 and q written through positive odds, so that 1 - beta1 etc. is positive."""
    return cast(sp.Expr, expression.xreplace(ODDS))


@dataclass(frozen=True)
class Row:
    """One line of the table.

    Attributes:
        latex: the symbol in LaTeX (no dollar signs).
        code: the name in code, or the names.
        shape: the array's axes, empty for a scalar.
        meaning: what it is, in a few words.
        symbol: the SymPy symbol (for an array: its generic coordinate), or None where proofs never name it.

    """

    latex: str
    code: str
    shape: str
    meaning: str
    symbol: sp.Symbol | None = None


NOTATION: tuple[Row, ...] = (
    Row("N", "n_workers", "", "workers", N),
    Row("D", "dim", "", "parameters", D),
    Row("d", "live", "", "live coordinates of the vector that is compressed", d),
    Row("t", "step", "", "step, counted from 1", t),
    Row("T", "n_steps", "", "number of steps", T),
    Row("x", "params", "(D,)", "parameters, identical on all workers", params),
    Row("g_i", "grads", "(N, D)", "gradient of worker i", grads),
    Row(r"\bar{g}", "mean_grad", "(D,)", "mean of the worker gradients", mean_grad),
    Row(r"\bar{m}", "momentum", "(D,)", "shared momentum; after T_w the decoded server message", momentum),
    Row("v", "variance", "(D,)", "second moment, frozen after step T_w", variance),
    Row(r"\delta_i", "worker_errors", "(N, D)", "compression error of worker i", worker_errors),
    Row(r"\bar{\delta}", "server_error", "(D,)", "server compression error, chunk j on worker j", server_error),
    Row(
        r"\Delta",
        "total_error",
        "(D,)",
        "mean of the worker errors plus server error: all that is pending",
        total_error,
    ),
    Row("u_i", "corrected", "(N, D)", "what worker i compresses: momentum plus its error", corrected),
    Row("w", "server_input", "(D,)", "what the server compresses: mean message plus its error", server_input),
    Row("s_i", "scale", "(N,)", "scale that worker i sends", scale),
    Row("S_j", "server_scale", "(n_chunks,)", "scale of server chunk j", server_scale),
    Row(r"\beta_1", "beta1", "", "momentum constant, in (0, 1)", beta1),
    Row(r"\beta_2", "beta2", "", "second-moment constant, in (0, 1)", beta2),
    Row(r"\gamma", "lr", "", "learning rate", lr),
    Row(r"\varepsilon", "eps", "", "added to the root of the variance", eps),
    Row(r"\lambda", "weight_decay", "", "decoupled weight decay", weight_decay),
    Row(r"\kappa", "variance_floor", "", "floor of v at the freeze, in units of the mean live v", variance_floor),
    Row("T_w", "freeze_step", "", "last warm-up step", freeze_step),
    Row("P", "preconditioner", "(D,)", r"1/(sqrt(v) + eps), eps outside the root", preconditioner),
    Row("y", "virtual_iterate", "(D,)", "parameters with every pending update applied (L2)", virtual_iterate),
    Row(r"\varphi", "alignment", "", "||u||_1^2 / (d ||u||_2^2), in [1/d, 1]", alignment),
    Row("q", "contraction", "", "compressor's factor: ||u - C(u)||^2 <= q^2 ||u||^2", contraction),
    Row("L", "smoothness", "", "Lipschitz constant of the gradient", smoothness),
    Row(r"\sigma", "noise", "", "root of the gradient variance bound", noise),
    Row(r"\upsilon", "unit_roundoff", "", "unit roundoff of a floating-point format", roundoff),
    Row("b_1", "beta1_odds", "", "beta1/(1 - beta1)", beta1_odds),
    Row("b_2", "beta2_odds", "", "beta2/(1 - beta2)", beta2_odds),
    Row("a", "contraction_odds", "", "q/(1 - q)", contraction_odds),
)
