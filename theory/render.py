"""Theorem objects as a Markdown page (docs/theory.md) and as a LaTeX appendix: pure functions from objects to text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import sympy as sp
from sympy.printing.latex import LatexPrinter

from onebit_files import anchor_of
from theory.arithmetic import BITS
from theory.definedness import by_convention
from theory.domains import domain_text
from theory.evaluate import bound, inputs
from theory.formula import ForAll, Formula, Implies
from theory.limit import SECONDS
from theory.notation import NOTATION, Row
from theory.text import text_of
from theory.theorem import Line, Rank, Theorem
from theory.verdict import known_inputs
from theory.witness import LONGEST
from theory.wording import computed_by, filled, words_of

UNICODE_TO_LATEX = {
    "α": r"\alpha", "β": r"\beta", "γ": r"\gamma", "δ": r"\delta", "ε": r"\varepsilon", "κ": r"\kappa",
    "λ": r"\lambda", "μ": r"\mu", "ρ": r"\rho", "σ": r"\sigma", "φ": r"\varphi", "ω": r"\omega", "η": r"\eta",
    "τ": r"\tau", "υ": r"\upsilon", "π": r"\pi", "θ": r"\theta", "ξ": r"\xi", "Δ": r"\Delta", "Σ": r"\Sigma",
    "Φ": r"\Phi", "Ω": r"\Omega", "∇": r"\nabla", "‖": r"\|", "≤": r"\le", "≥": r"\ge", "≠": r"\ne", "≈": r"\approx",
    "√": r"\surd", "×": r"\times", "·": r"\cdot", "±": r"\pm", "∞": r"\infty", "∈": r"\in", "→": r"\to",
    "−": "-", "²": "^2", "³": "^3", "⁻": "^{-}", "¹": "^1", "½": r"\tfrac12", "ḡ": r"\bar g", "m̄": r"\bar m",
    "δ̄": r"\bar\delta", "∑": r"\sum", "∏": r"\prod", "ψ": r"\psi", "χ": r"\chi", "ζ": r"\zeta", "ν": r"\nu",
    "…": r"\dots", "⟨": r"\langle", "⟩": r"\rangle", "≡": r"\equiv", "∂": r"\partial", "û": r"\hat u", "₁": "_1",
    "₂": "_2", "⌈": r"\lceil", "⌉": r"\rceil", "⇒": r"\Rightarrow", "¼": r"\tfrac14",
}  # fmt: skip
TEXT_TO_LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "–": "--", "—": "---", "“": "``", "”": "''", "’": "'",
}  # fmt: skip


class _Printer(LatexPrinter):
    """SymPy's LaTeX with the notation table's spelling of symbols, arrays and functions."""

    def __init__(self, names: Mapping[str, str]) -> None:
        super().__init__()
        self.names = names

    def _print_Symbol(self, expr: Any, style: str = "plain") -> str:
        return self.names.get(expr.name) or super()._print_Symbol(expr, style)

    def _print_Function(self, expr: Any, exp: Any = None) -> str:
        name = type(expr).__name__
        if name not in self.names:
            return super()._print_Function(expr, exp)
        text = rf"{self.names[name]}\left({', '.join(map(self._print, expr.args))}\right)"
        return f"{{{text}}}^{{{exp}}}" if exp is not None else text


def latex_names(theorem: Theorem | None = None) -> dict[str, str]:
    """Code name -> LaTeX."""
    return {row.code: row.latex for row in (*NOTATION, *(theorem.where if theorem else ()))}


def latex(formula: Formula | sp.Basic, names: Mapping[str, str]) -> str:
    """A formula or expression in LaTeX."""
    if isinstance(formula, ForAll):
        variables = ", ".join(
            latex(variable, names) + (f" < {latex(limit, names)}" if limit is not None else "")
            for variable, limit in formula.bound()
        )
        return rf"\forall {variables}:\ {latex(formula.body, names)}"
    if isinstance(formula, Implies):
        given = r" \wedge ".join(latex(item, names) for item in formula.given)
        return rf"{given} \Rightarrow {latex(formula.body, names)}"
    return str(_Printer(names).doprint(formula))


def escape_latex(text: str) -> str:
    """Plain text made safe for LaTeX; the Unicode letters of formulas become math."""
    pieces: list[str] = []
    index = 0
    while index < len(text):
        pair, single = text[index : index + 2], text[index]
        if pair in UNICODE_TO_LATEX:
            pieces.append(rf"\ensuremath{{{UNICODE_TO_LATEX[pair]}}}")
            index += 2
            continue
        if single in UNICODE_TO_LATEX:
            pieces.append(rf"\ensuremath{{{UNICODE_TO_LATEX[single]}}}")
        elif single in TEXT_TO_LATEX:
            pieces.append(TEXT_TO_LATEX[single])
        else:
            pieces.append(single if single.isascii() else "?")
        index += 1
    return "".join(pieces)


LONGEST_FORMULA = 1000
"""Characters of LaTeX beyond which a formula scaled to one line could no longer be read."""


def sharpness(theorem: Theorem) -> str:
    """The example, with its numbers to three digits; empty if there is none."""
    if theorem.example is None:
        return ""
    example = theorem.example()
    value = float(bound(theorem, **known_inputs(theorem, example)))
    ratio = f" (ratio {example.attained / value:.3g})" if value else ""
    return f"{example.description.rstrip('.')}: {example.attained:.3g} against {value:.3g}{ratio}."


def rank_text(theorem: Theorem) -> str:
    """How it is established, in a few words."""
    rank = theorem.rank
    if rank is Rank.KERNEL:
        return f"kernel-checked: Coq proves it in `theory/theorems/{theorem.id}.v`"
    if rank is Rank.SYMBOLIC:
        return "symbolic: each line below is checked by SymPy"
    if rank is Rank.INSTANCE:
        values = ", ".join(f"{symbol} = {count}" for symbol, count in theorem.instance.items())
        return f"instance: each line below is checked by SymPy, for {values} only"
    return "numerical: not proved; the checks below agree"


def _markdown_theorem(theorem: Theorem) -> list[str]:
    names = latex_names(theorem)
    lines = [f"## {theorem.id}. {theorem.title}", "", _prose(words_of(theorem)), ""]
    lines += ["$$", latex(theorem.conclusion, names), "$$", "", "```text", text_of(theorem.conclusion), "```", ""]
    lines += [
        f"*What it is good for.* {_prose(filled(theorem, theorem.good_for))}",
        "",
        f"*Rank.* {rank_text(theorem)}.",
        "",
    ]
    lines += [*_hypotheses(theorem), *_inputs(theorem)]
    if theorem.chain is not None and theorem.rank is not Rank.KERNEL:
        lines += ["**Proof.** From the left side:", ""]
        lines += [f"{number}. {_prose(line.why)}" for number, line in enumerate(theorem.chain(), 1)] + [""]
    if theorem.numeric_checks:
        lines += ["**Checked by numbers.**", "", *(f"- {_prose(name)}" for name in theorem.numeric_checks), ""]
    if sharp := sharpness(theorem):
        lines += [f"**How sharp.** {_prose(sharp)}", ""]
    if computed := computed_by(theorem):
        lines += [f"**Numbers.** {_prose(computed)}.", ""]
    if theorem.remarks:
        lines += [f"**Remarks.** {_prose(theorem.remarks)}", ""]
    lines += _conventions(theorem)
    laws = f" Laws and conventions: {', '.join(theorem.laws)}." if theorem.laws else ""
    lines += [f"*Source: {_prose(theorem.source)}.{laws}*", ""]
    return lines


def _conventions(theorem: Theorem) -> list[str]:
    """Where the statement rests on what Coq takes a quotient or a root to be."""
    divisors, roots = (" and ".join(f"`{text}`" for text in texts) for texts in by_convention(theorem))
    lines = []
    if divisors:
        lines.append(f"Where {divisors} is 0, Coq takes a quotient by it to be 0; SymPy does not see that it never is.")
    if roots:
        lines.append(f"Where {roots} is negative, Coq takes its root to be 0; SymPy does not see that it never is.")
    return [f"**Read with care.** {' '.join(lines)}", ""] if divisors or roots else []


def _hypotheses(theorem: Theorem) -> list[str]:
    lines = ["**For all**", ""]
    lines += [f"- ${row.latex}$ `{row.code}`, {_prose(row.meaning)}{_domain(row)}" for row in theorem.variables]
    lines += [""]
    if theorem.hypotheses:
        lines += ["**Hypotheses.**", ""]
        for item in theorem.hypotheses:
            lines += [f"- *{item.name}*: {_prose(item.words)}", "", "  ```text", f"  {text_of(item.formula)}", "  ```"]
        lines += [""]
    return lines


def _inputs(theorem: Theorem) -> list[str]:
    """The names that ``--set`` takes, each with its default."""
    items = inputs(theorem)
    if not items:
        return []
    codes = {item.row.code for item in items}
    texts = []
    for item in items:
        code, symbol = item.row.code, item.row.written
        name = f"`{code}`" + (f" or `{symbol}`" if re.fullmatch(r"\w+", symbol) and symbol not in codes else "")
        texts.append(f"{name} ({default_text(item.default)})")
    note = " An array, unless it is given, is that of the example." if any("an array" in text for text in texts) else ""
    note += f" What contradicts {' or '.join(item.id for item in theorem.implied)} is refused." * bool(theorem.implied)
    return [f"**To evaluate.** `onebit prove {theorem.id} --set NAME=NUMBER` takes, each with its default:", "",
            f"{', '.join(texts)}.{note}", ""]  # fmt: skip


def default_text(value: Any) -> str:
    """The default of an input, in a few characters."""
    if value is None:
        return "no default"
    return "an array" if np.ndim(value) else f"{float(value):.6g}"


def _domain(row: Row) -> str:
    text = domain_text(row)
    return "" if text in ("numbers", "(-oo, oo)") else f", in {text}" if text[0] in "([" else f": {text}"


def markdown(theorems: Iterable[Theorem]) -> str:
    """The whole of docs/theory.md."""
    theorems = tuple(theorems)
    lines = [
        "# Theory of 1-bit Adam",
        "",
        "Generated by `onebit prove --docs docs/theory.md` from the objects in `theory/theorems`: edit those.",
        "",
        "A theorem is a list of hypotheses and one relation. The lines in a `text` box are the statement itself: they",
        "parse back to the object that is proved. Ids such as L1 and C7 are laws and conventions of the algorithm's",
        "specification ([algorithm.md](algorithm.md)). Indices count from 0; a sequence in time has the step as its",
        "first index. Tests and pages name a theorem by its id, so none is renumbered: a letter that is missing",
        "between others (T6i) has no theorem. The *rank* says how a theorem is established:",
        "",
        "- **kernel-checked**: Coq has checked a proof for every N, d and T. The statement in the Coq file is printed",
        "  from the Python object. `onebit prove --kernel` repeats the check and prints the axioms used. Without it,",
        "  the committed record of the last check stands in: a note of whoever ran Coq. Division and root are defined",
        "  everywhere in Coq (x/0 = 0, the root of a negative number is 0): where a statement may rest on that, it",
        "  says so under *Read with care*. The base of a real power and the argument of a logarithm must be positive",
        "  by the domains or by a hypothesis with `<`; any other statement is refused. A Coq file may use a short list",
        "  of commands and no other (`theory/coq_grammar.py`), and the definitions of the words that statements use",
        "  are pinned (`theory/vocabulary.py`).",
        "- **symbolic**: a chain of lines from the left side to the right. Each is an identity or an inequality whose",
        "  residual SymPy reduces to exactly 0; slack must be non-negative by the domains of the symbols, and every",
        "  divisor, root, real power and logarithm in anything that a line uses must be shown to be defined.",
        "- **instance**: the same, for the values named only.",
        "- **numerical**: not proved; numeric checks agree. `onebit prove` says *not checked* of it.",
        "",
        "A theorem whose hypotheses nobody can meet would hold of nothing: its example must meet them. That is",
        "computed in intervals, which neither underflow nor overflow, and where these can't tell exactly, if all is",
        "rational; what can't be evaluated, or what the example's arrays don't reach, is not met. A float of an",
        "example is the number that it is (0.1 is no tenth; `Fraction(1, 10)` is). The check of a theorem may take",
        f"{SECONDS} s of a processor, Coq's part aside; what took longer was not checked.",
        "",
        "Numbers in titles, words and what a theorem is good for are computed from its statement, or listed under",
        "*Numbers* with what they are computed from; a numeral in letters is one of the statement's.",
        "",
        "What no machine checks: that the title, the words (and which numbers they quote), those of hypotheses, the",
        "remarks, the source, the laws named, the meanings, units and LaTeX of symbols, the names of checks, and what",
        "an example is said to be and attains are those of the statement; and that a default is a usual value.",
        "(A symbol's LaTeX holds no arithmetic, and no two symbols of a theorem share one.)",
        "The text box is what is proved: there `At(f(x), k)` is entry k of f(x), and `point[]` any vector.",
        "An example meets every hypothesis exactly: nothing is rounded. But where a hypothesis speaks of more than an",
        "example can hold, it is tried in part only, and could be one that nobody can meet. A",
        f"hypothesis about all steps is tried at {LONGEST} at most, as far as the arrays go, and one about all numbers",
        "or vectors at a sample, whose sizes are those of the example and of both sides of the hypothesis. Files of",
        "theorems are Python, which can change SymPy or end the program (`os._exit`): run those of people whom you",
        "trust with your machine.",
        "",
        "`onebit prove --mutants` changes every theorem in one place after another and shows that each false change is",
        "rejected. `onebit prove 6 --set N=64 T=1e5` evaluates right-hand sides. What is not given takes",
        'its default, or that of the theorem\'s example, where its hypotheses rule the default out ("To evaluate" says',
        "which). So numbers of two theorems can be compared only if all inputs are given. One that can't be evaluated",
        "so is told, and the others are.",
        "Each theorem lists the names that `--set` takes, with these defaults, under *To evaluate*: the code name,",
        "and the symbol of the formula, whose Greek letters may be spelled out (`gamma`, `epsilon`).",
        "A number means what is typed: 0.999 is 999/1000. An array is typed 1,2,3, and one of several axes",
        "'[[1,2],[3,4]]', in quotes for the shell. What is printed is rounded once, of whatever size it is.",
        f"Where two numbers agree in {BITS[-1]} bits and there is more than rational operations, there is no value:",
        "the command says so.",
        "Numbers that contradict an inequality of the theorem (T large enough, a small step), or what follows from its",
        "hypotheses (p_min at most p_max), are refused. Such consequences are found along chains of inequalities, and",
        "proved where they are of another kind (T1p, T1q, T6m): other inputs that no run has may still give a number.",
        "",
        "## Notation",
        "",
        "| symbol | code name | shape | meaning | domain | default |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| ${row.latex}$ | `{row.code}` | {row.shape} | {_cell(row.meaning)} | {_cell(domain_text(row))} | "
        f"{'' if row.default is None else f'{row.default:g}'} |"
        for row in NOTATION
    ]
    lines += ["", "## Contents", "", "| id | theorem | rank | laws |", "|---|---|---|---|"]
    for item in theorems:
        link = f"[{item.id}](#{anchor_of(f'{item.id}. {item.title}')})"
        lines.append(f"| {link} | {item.title} | {item.rank} | {', '.join(item.laws)} |")
    lines += [""]
    for theorem in theorems:
        lines += _markdown_theorem(theorem)
    return "\n".join(lines).rstrip() + "\n"


def _prose(text: str) -> str:
    """Plain text in which Markdown must see neither emphasis nor a tag (x* and <g, x> are formulas)."""
    return text.replace("*", r"\*").replace("<", r"\<")


def _cell(text: str) -> str:
    """A vertical bar would end a table cell."""
    return text.replace("|", r"\|")


LATEX_HEAD = r"""\documentclass[11pt]{article}
\usepackage[T1]{fontenc}
\usepackage[utf8]{inputenc}
\usepackage{amsmath,amssymb,graphicx,longtable}
\usepackage[margin=2.5cm]{geometry}
\title{Appendix: statements and proof outlines for 1-bit Adam}
\author{generated by \texttt{onebit prove --latex}}
\date{}
% A formula in full size where it fits the line, else scaled down to the line.
\newsavebox{\formulabox}
\newcommand{\formula}[1]{\sbox{\formulabox}{$\displaystyle #1$}%
  \[\ifdim\wd\formulabox>\linewidth\resizebox{\linewidth}{!}{\usebox{\formulabox}}\else\usebox{\formulabox}\fi\]}
\begin{document}
\maketitle
"""


def _line_formula(line: Line, names: Mapping[str, str]) -> str:
    relation = {"=": "=", "<=": r"\le", ">=": r"\ge"}[line.relation]
    text = f"{relation} {latex(sp.sympify(line.to), names)}"
    if len(text) > LONGEST_FORMULA:
        return r"\emph{an expression too long to print; see the code.}"
    return rf"\formula{{{text}}}"


def _latex_theorem(theorem: Theorem) -> list[str]:
    names = latex_names(theorem)
    lines = [rf"\section*{{{theorem.id}. {escape_latex(theorem.title)}}}", escape_latex(words_of(theorem)), ""]
    lines += [rf"\formula{{{latex(theorem.conclusion, names)}}}", r"\paragraph{Hypotheses.}"]
    for item in theorem.hypotheses:
        lines += [escape_latex(item.words + ":"), rf"\formula{{{latex(item.formula, names)}}}"]
    lines += [escape_latex(f"{row.meaning}: {row.code}{_domain(row)}.") for row in theorem.variables]
    lines += [rf"\paragraph{{Rank.}} {escape_latex(rank_text(theorem).replace('`', ''))}."]
    if theorem.chain is not None and theorem.rank is not Rank.KERNEL:
        lines += [r"\paragraph{Proof.}", r"\begin{enumerate}"]
        for line in theorem.chain():
            lines += [rf"\item {escape_latex(line.why)}:", _line_formula(line, names)]
        lines += [r"\end{enumerate}"]
    if sharp := sharpness(theorem):
        lines += [rf"\paragraph{{Sharpness.}} {escape_latex(sharp)}"]
    if computed := computed_by(theorem):
        lines += [rf"\paragraph{{Numbers.}} {escape_latex(computed)}."]
    if theorem.remarks:
        lines += [rf"\paragraph{{Remarks.}} {escape_latex(theorem.remarks)}"]
    lines += [rf"\paragraph{{Source.}} {escape_latex(theorem.source)}.", ""]
    return lines


def latex_appendix(theorems: Iterable[Theorem]) -> str:
    """A complete LaTeX document: notation, then statement, hypotheses and proof lines of every theorem."""
    lines = [LATEX_HEAD, r"\section*{Notation}", r"\begin{longtable}{lllp{8cm}}"]
    lines += [
        " & ".join(
            [f"${row.latex}$", rf"\texttt{{{escape_latex(row.code)}}}", *map(escape_latex, (row.shape, row.meaning))]
        )
        + r" \\"
        for row in NOTATION
    ]
    lines += [r"\end{longtable}"]
    for theorem in theorems:
        lines += _latex_theorem(theorem)
    return "\n".join([*lines, r"\end{document}", ""])
