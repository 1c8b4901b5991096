"""Small theorems made up for tests, proved by steps or by Coq."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import sympy as sp

from theory import coq_statement, kernel
from theory.formula import ForAll, array, le, total
from theory.notation import Row, d, k
from theory.theorem import Hypothesis, Line, Theorem

coq = pytest.mark.skipif(not shutil.which("coqc"), reason="Coq is not installed: apt-get install coq libcoq-flocq")
x, y, z = sp.symbols("x y z", positive=True)
u = array("u")
WHERE = (Row(x, "x", "a number"), Row(y, "y", "a number"), Row(z, "z", "a number"), Row(u, "u", "a vector"))


def theorem(conclusion, lines=None, **more):
    chain = None if lines is None else lambda: tuple(lines)
    basic = {"id": "T99", "title": "made up", "words": "made up", "good_for": "tests", "source": "ours", "where": WHERE}
    return Theorem(conclusion=conclusion, chain=chain, **{**basic, **more})


def stated(rows, conclusion, lines, *hypotheses, **more):
    """A theorem about these rows whose hypotheses are h0, h1, ..."""
    given = tuple(Hypothesis(f"h{place}", item, "given") for place, item in enumerate(hypotheses))
    return theorem(conclusion, lines, **{"hypotheses": given, "where": tuple(rows.values()), **more})


SQUARE = theorem(le(2 * x * y, x**2 + y**2), [Line("<=", x**2 + y**2, "a square", slack=((x - y) ** 2,))])


def a_kernel_theorem(folder: Path, proof: str, preamble: str = "", **more) -> Theorem:
    small = Hypothesis("small", ForAll(((k, d),), le(u[k] ** 2, x)), "every square is at most x")
    made = theorem(le(total(u[k] ** 2, k, d), d * x), hypotheses=(small,), folder=folder, **more)
    text = (
        f"From Onebit Require Import Prelude.\n{preamble}\n{coq_statement.statement_of(made)}\nProof.\n{proof}\nQed.\n"
    )
    made.coq_file.write_text(text)
    shutil.copy(Path(kernel.__file__).parent / "theorems" / "Prelude.v", folder)
    return made


GOOD = ("intros live u x live_domain x_domain small. rewrite <- bigsum_const. apply bigsum_le. "
        "intros k below. apply small. exact below.")  # fmt: skip
