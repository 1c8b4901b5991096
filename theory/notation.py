"""The one notation table: symbol, LaTeX, shape, meaning, domain and unit of everything the project talks about.

Theorems, docs, the command line and the Coq files take their names from here: a symbol's name *is* its code name, so a
formula and the line that computes it can be laid side by side. A theorem declares what it needs beyond this table in
its own rows (:attr:`theory.theorem.Theorem.where`).

Domains are hypotheses: they are printed with every theorem that uses the symbol, the command line refuses numbers
outside them, and the proof checker may use them and nothing else. Assumptions of the SymPy symbols must follow from
the domain; :meth:`Row.__post_init__` refuses a row where they don't.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any, cast

import sympy as sp
from sympy.printing.pretty.pretty_symbology import greek_unicode

from theory import kinds
from theory.formula import array

UNIT = sp.Interval.open(0, 1)
REALS = sp.Interval(-sp.oo, sp.oo)
POSITIVE = sp.Interval.open(0, sp.oo)
NONNEGATIVE = sp.Interval(0, sp.oo)


def count(name: str, *, least: int = 1) -> sp.Symbol:
    """A natural number >= ``least`` (0 or 1)."""
    return sp.Symbol(name, integer=True, positive=True) if least else sp.Symbol(name, integer=True, nonnegative=True)


N = count("n_workers")
D = count("dim")
d = count("live")
t = count("step", least=0)
T = count("n_steps")
freeze_step = count("freeze_step")
i = count("i", least=0)
j = count("j", least=0)
k = count("k", least=0)

params = array("params")
grads = array("grads")
momentum = array("momentum")
variance = array("variance")
worker_errors = array("worker_errors")
server_error = array("server_error")
total_error = array("total_error")
corrected = array("corrected")
server_input = array("server_input")
messages = array("messages")
scale = array("scale")
server_scale = array("server_scale")
virtual_iterate = array("virtual_iterate")
preconditioner = array("preconditioner")

beta1 = sp.Symbol("beta1", positive=True)
beta2 = sp.Symbol("beta2", positive=True)
lr = sp.Symbol("lr", positive=True)
eps = sp.Symbol("eps", positive=True)
weight_decay = sp.Symbol("weight_decay", nonnegative=True)
variance_floor = sp.Symbol("variance_floor", nonnegative=True)
contraction = sp.Symbol("contraction", positive=True)
smoothness = sp.Symbol("smoothness", positive=True)
noise = sp.Symbol("noise", nonnegative=True)
roundoff = sp.Symbol("unit_roundoff", positive=True)
gradient_bound = sp.Symbol("gradient_bound", nonnegative=True)
error_bound = sp.Symbol("error_bound", nonnegative=True)
p_max = sp.Symbol("p_max", positive=True)
p_min = sp.Symbol("p_min", positive=True)


def implied_domain(symbol: sp.Symbol) -> sp.Interval:
    """The interval that the assumptions of a real symbol stand for."""
    return cast(sp.Interval, POSITIVE if symbol.is_positive else NONNEGATIVE if symbol.is_nonnegative else REALS)


GREEK = (
    "alpha|beta|gamma|delta|varepsilon|zeta|eta|theta|kappa|lambda|mu|nu|xi|pi|rho|sigma|tau|upsilon|varphi|phi|chi|psi"
    "|omega|ell|Gamma|Delta|Theta|Lambda|Xi|Pi|Sigma|Upsilon|Phi|Psi|Omega"
)
LETTER = rf"(?:[A-Za-z]|\\(?:{GREEK})(?![A-Za-z]))"
ACCENTED = rf"\\(?:hat|bar|tilde|overline|mathcal|mathbb|nabla)(?:\{{(?:{LETTER}|1)\}}| {LETTER}|(?=\\){LETTER})"
BELOW = rf"_(?:{LETTER}|\d|\{{(?:\\mathrm\{{[A-Za-z]+\}}|\\max|\\min|[A-Za-z0-9]+)\}})"
MOMENT = rf"E(?:{LETTER}\^\d|\|{LETTER}\|)|\\\|{LETTER}\\\|_\\infty"
SYMBOL = re.compile(rf"(?:{ACCENTED}|{LETTER}|\\operatorname\{{[A-Za-z]+\}})(?:{BELOW})?(?:'|\^\*)?|{MOMENT}")
"""One symbol in LaTeX: a letter, an accented one or a word, what stands below it, a prime or a star; or a moment, or a
largest entry. Whatever else there is (a product, a fraction, a power) could show the reader another statement."""
FUNCTION_TYPE = re.compile(r"(?:(?:nat|R|\((?:nat -> )+R\)) -> )+R")
ORDERS = ("tree", "evaluation")
"""Coq types of orders of evaluation (Rounding.v, Updates.v), which Python writes as an array."""


LATEX_MARKS = str.maketrans("", "", "\\{}")
"""What is left out of a symbol in plain text."""
UNICODE: Any = greek_unicode  # its type is not that of its stubs


def is_interval(domain: Any) -> bool:
    """Whether a domain is one interval whose ends are exact numbers, or infinite."""
    return isinstance(domain, sp.Interval) and all(
        end.is_infinite or (end.is_real and not end.free_symbols and not end.has(sp.Float)) for end in domain.args[:2]
    )


def code_of(symbol: Any) -> str:
    """The code name of a symbol, an array or a function: its name."""
    return str(getattr(symbol, "name", None) or getattr(symbol, "__name__", None) or symbol)


@dataclass(frozen=True)
class Row:
    """One line of the table.

    Attributes:
        symbol: the SymPy symbol, array (``IndexedBase``) or function class.
        latex: how it is written (no dollar signs).
        meaning: what it is, in a few words.
        shape: the array's axes, empty for a scalar; a sequence in time has a leading axis besides.
        domain: of a real scalar; the interval of its assumptions if not given.
        unit: "steps", "bytes", "" for a pure number.
        default: what the command line takes where no number is given.
        coq: the Coq type of a function; arrays and scalars have theirs by their use.

    """

    symbol: Annotated[Any, "a symbol, an array or a function", sp.Symbol, sp.IndexedBase, sp.FunctionClass]
    latex: str
    meaning: str
    shape: str = ""
    domain: sp.Interval | None = None
    unit: str = ""
    default: float | None = None
    coq: str = ""

    def __post_init__(self) -> None:
        if isinstance(self.latex, str) and not SYMBOL.fullmatch(self.latex):
            raise ValueError(f"{self.code}: its LaTeX {self.latex!r} must be one symbol, without arithmetic")
        if self.domain is not None and not is_interval(self.domain):
            raise ValueError(
                f"{self.code}: the domain must be one interval with numbers or oo as ends, not {self.domain}"
            )
        if reason := next(kinds.faults(self, f"Row({self.code})."), ""):
            raise TypeError(reason)
        self._check_assumptions()
        self._check_coq_type()
        if not isinstance(self.symbol, sp.Symbol) or self.symbol.is_integer:
            if self.domain is not None:
                kind = "a count" if isinstance(self.symbol, sp.Symbol) else "what is no scalar"
                raise ValueError(f"{self.code}: {kind} has no domain; say in a hypothesis what is asked of it")
            return
        if self.domain is not None and not self.domain.is_subset(implied_domain(self.symbol)):
            raise ValueError(f"{self.code}: the assumptions of the symbol don't follow from its domain {self.domain}")
        if isinstance(self.default, (int, float)) and sp.Rational(self.default) not in self.interval:
            raise ValueError(f"{self.code}: the default {self.default} is outside of the domain {self.interval}")

    @property
    def written(self) -> str:
        """Its symbol in plain text, as sentences have it: ``γ``, ``E_Δ``."""
        in_letters = lambda found: UNICODE.get(found[1].removeprefix("var"), found[0])  # noqa: E731
        letters = re.sub(r"\\([A-Za-z]+)", in_letters, self._plain)
        return letters.translate(LATEX_MARKS)

    @property
    def _plain(self) -> str:
        """Its LaTeX without upright letters' commands: ``t_{dense}``."""
        return re.sub(r"\\(?:mathrm|operatorname)", "", self.latex)

    @property
    def looks(self) -> str:
        """Its LaTeX without what can't be seen: ``w_1`` and ``w_{1}`` look alike."""
        return re.sub(r"[{}\s]|(?<=\\)var", "", self._plain)

    @property
    def named(self) -> str:
        """Its code name with the symbol of the formulas beside it: ``error_bound (E_Δ)``."""
        return self.code if self.written == self.code else f"{self.code} ({self.written})"

    @property
    def spellings(self) -> set[str]:
        """What its symbol may be typed as: ``E_Δ``, ``EΔ``, ``E_Delta``, ``EDelta``; ``varphi`` and ``phi``."""
        whole = {self.written, self._plain.translate(LATEX_MARKS)}
        whole.add(self._plain.replace("\\var", "").translate(LATEX_MARKS))
        return whole | {name.replace("_", "") for name in whole}

    def _check_coq_type(self) -> None:
        """Refuse a Coq type that could say more than that it is a function of numbers and arrays."""
        if isinstance(self.symbol, sp.Symbol):
            fits = not self.coq
        elif isinstance(self.symbol, sp.IndexedBase):
            fits = self.coq in ("", *ORDERS)
        else:
            fits = FUNCTION_TYPE.fullmatch(self.coq) is not None
        if not fits:
            raise ValueError(f"{self.code}: only a function has a Coq type, from nat, R and arrays to R: {self.coq!r}")

    def _check_assumptions(self) -> None:
        """Refuse a symbol that assumes more than its domain says: a proof could use it, and no reader would see it."""
        plain: tuple[Any, ...] = ()
        if isinstance(self.symbol, sp.IndexedBase):
            plain = (array(self.code), sp.IndexedBase(self.code))
        elif isinstance(self.symbol, sp.Symbol):
            kinds = ({"real": True}, {"positive": True}, {"nonnegative": True})
            plain = (*(sp.Symbol(self.code, **kind) for kind in kinds), count(self.code), count(self.code, least=0))
        elif getattr(self.symbol, "_kwargs", {}) not in (
            {},
            getattr(sp.Function(self.code, real=True), "_kwargs", None),
        ):
            raise ValueError(f"{self.code}: a function may be assumed real, and nothing else")
        if plain and all(self.symbol.assumptions0 != item.assumptions0 for item in plain):
            raise ValueError(f"{self.code}: the symbol assumes more than that it is real, positive or a natural number")

    @property
    def code(self) -> str:
        """The name in code, in Coq and on the command line."""
        return code_of(self.symbol)

    @property
    def interval(self) -> sp.Interval:
        """The domain of a real scalar."""
        return cast(sp.Interval, self.domain or implied_domain(self.symbol))

    @property
    def is_count(self) -> bool:
        """Whether it is a natural number."""
        return isinstance(self.symbol, sp.Symbol) and bool(self.symbol.is_integer)


NOTATION: tuple[Row, ...] = (
    Row(N, "N", "workers", default=8),
    Row(D, "D", "parameters", default=1_000_000),
    Row(d, "d", "live coordinates of the vector that is compressed", default=1024),
    Row(t, "t", "step, counted from 1 (0 is the start)", unit="steps", default=1),
    Row(T, "T", "number of steps", unit="steps", default=1000),
    Row(i, "i", "worker, counted from 0"),
    Row(j, "j", "chunk or block, counted from 0"),
    Row(k, "k", "coordinate, counted from 0"),
    Row(freeze_step, "T_w", "last warm-up step", unit="steps", default=100),
    Row(params, "x", "parameters, identical on all workers", "(D,)"),
    Row(grads, "g", "gradients of the workers", "(N, D)"),
    Row(momentum, r"\bar{m}", "shared momentum; after T_w the decoded server message", "(D,)"),
    Row(variance, "v", "second moment, frozen after step T_w", "(D,)"),
    Row(worker_errors, r"\delta", "compression errors of the workers", "(N, D)"),
    Row(server_error, r"\bar{\delta}", "server compression error, chunk j on worker j", "(D,)"),
    Row(total_error, r"\Delta", "mean of the worker errors plus server error", "(D,)"),
    Row(corrected, "u", "what a worker compresses: momentum plus its error", "(N, D)"),
    Row(server_input, "w", "what the server compresses: mean message plus its error", "(D,)"),
    Row(messages, "c", "decoded messages of the workers", "(N, D)"),
    Row(scale, "s", "scale that a worker sends", "(N,)"),
    Row(server_scale, "S", "scale of a server chunk", "(n_chunks,)"),
    Row(virtual_iterate, "y", "parameters with the residual applied (L2)", "(D,)"),
    Row(preconditioner, "P", "1/(sqrt(v) + eps), eps outside the root", "(D,)"),
    Row(beta1, r"\beta_1", "momentum constant", domain=UNIT, default=0.9),
    Row(beta2, r"\beta_2", "second-moment constant", domain=UNIT, default=0.999),
    Row(lr, r"\gamma", "learning rate", default=1e-3),
    Row(eps, r"\varepsilon", "added to the root of the variance", default=1e-8),
    Row(weight_decay, r"\lambda", "decoupled weight decay", default=0.0),
    Row(variance_floor, r"\kappa", "floor of v at the freeze, in units of the mean live v", default=1e-3),
    Row(contraction, "q", "compressor's factor: ||u - C(u)|| <= q ||u||", domain=UNIT, default=0.6),
    Row(smoothness, "L", "Lipschitz constant of the gradient", default=1.0),
    Row(noise, r"\sigma", "root of the bound on a worker's gradient variance", default=1.0),
    Row(gradient_bound, "G", "bound on the norm of the gradients", default=1.0),
    Row(error_bound, r"E_\Delta", "bound on the norm of the total error", default=1.0),
    Row(p_max, r"p_{\max}", "largest entry of the preconditioner", default=1.0),
    Row(p_min, r"p_{\min}", "smallest entry of the preconditioner", default=1.0),
    Row(roundoff, r"\upsilon", "unit roundoff of a floating-point format", domain=UNIT, default=2.0**-24),
)

ALIASES = {name: row.code for row in NOTATION for name in row.spellings}
"""Paper symbol -> code name, so that ``N=64`` and ``n_workers=64`` say the same."""
