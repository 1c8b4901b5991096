"""What SymPy must see of an expression: that it is 0, non-negative, positive, and that it is defined at all.

A quotient, a logarithm, a root and a real power have no value everywhere. SymPy cancels and factors them as if they
had, and Coq gives them one (x/0 = 0, ln x = 0 and x^y = 1 for x <= 0). So whatever a proof by lines uses must be shown
to be defined, by the domains of its symbols or by a hypothesis with < or != (:func:`undefined`), and so must the real
powers and the logarithms of every statement (:func:`undefined_powers`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import product
from typing import Any, cast

import sympy as sp
from sympy.core.function import UndefinedFunction

from theory.coq_printer import FUNCTIONS
from theory.formula import At, relations, sgn
from theory.notation import implied_domain
from theory.theorem import Theorem

FORMS: tuple[Callable[[Any], Any], ...] = (sp.sympify, sp.factor, sp.expand, sp.cancel)
"""In one of these forms SymPy must see the sign of an expression."""
KINDS = (sp.Symbol, sp.Add, sp.Mul, sp.Pow, sp.Sum, sp.Tuple, sp.Indexed, sp.IndexedBase, sp.Abs, sp.Max, sp.Min)
KINDS += (sp.exp, sp.log, sgn, At)
"""Parts of an expression, besides rational numbers, pi, and functions that are variables: these very classes, for a
class derived from one may claim anything."""
RELATIONS = (sp.Eq, sp.Ne, sp.Le, sp.Lt, sp.Ge, sp.Gt)


def is_zero(expression: Any) -> bool:
    """True only if SymPy reduces ``expression`` to the exact 0 (a float residual never counts)."""
    expression = sp.sympify(expression)
    if expression.has(sp.Float):
        return False
    # A common denominator and an expanded numerator settle every rational function quickly, false ones included.
    if sp.expand(sp.fraction(sp.together(expression))[0]) == 0:
        return True
    if expression.is_rational_function() and all(power.exp.is_Integer for power in expression.atoms(sp.Pow)):
        return False
    for reduce in (sp.expand, sp.cancel, sp.simplify):
        expression = sp.sympify(reduce(expression))
        if expression == 0:
            return True
    return False


def parametrised(expression: sp.Expr, theorem: Theorem) -> sp.Expr:
    """``expression`` with each symbol of a bounded domain written through a symbol that may be any positive number.

    (a, b) becomes (a + b o)/(1 + o) with o > 0, [a, b) the same with o >= 0, (a, oo) becomes a + o and (-oo, b) b - o.
    Every value of the domain is reached and no other, so what is non-negative in o is non-negative on the domain. A
    domain that is closed at both ends is reached without its upper end, which :func:`on_domains` looks at as well. No
    theorem has o.
    """
    swaps = {}
    for symbol in expression.atoms(sp.Symbol):
        interval = theorem.domain(symbol)
        low, high = interval.start, interval.end
        if symbol.is_integer or interval == implied_domain(symbol) or not (low.is_finite or high.is_finite):
            continue
        closed = not interval.left_open
        if low is -sp.oo:
            swaps[symbol] = high - sp.Dummy(**{"positive" if interval.right_open else "nonnegative": True})
        elif high is sp.oo:
            odds = sp.Dummy(**{"nonnegative" if closed else "positive": True})
            swaps[symbol] = low + odds
        elif interval.right_open or closed:
            odds = sp.Dummy(**{"nonnegative" if closed else "positive": True})
            swaps[symbol] = (low + high * odds) / (1 + odds)
        else:
            odds = sp.Dummy(nonnegative=True)
            swaps[symbol] = (high + low * odds) / (1 + odds)
    return cast(sp.Expr, expression.xreplace(swaps))


def on_domains(expression: sp.Expr, theorem: Theorem) -> Iterator[sp.Expr]:
    """``expression`` on all of its domains: :func:`parametrised`, and at each upper end that this leaves out."""
    ends = []
    for symbol in sorted(expression.free_symbols, key=str):
        interval = theorem.domain(symbol) if isinstance(symbol, sp.Symbol) and not symbol.is_integer else None
        if interval and interval.is_closed and interval.start.is_finite and interval.end.is_finite:
            ends.append((symbol, interval.end))
    for at_end in product((False, True), repeat=len(ends)):
        there = expression.subs([end for end, is_there in zip(ends, at_end, strict=True) if is_there])
        yield parametrised(cast(sp.Expr, there), theorem)


def is_nonnegative(expression: Any, theorem: Theorem) -> bool:
    """True only if the domains make ``expression`` >= 0 (unknown counts as False)."""
    everywhere = on_domains(sp.sympify(expression), theorem)
    return all(any(form(e).is_nonnegative is True for form in FORMS) for e in everywhere)


def positive(expression: sp.Expr, theorem: Theorem) -> bool:
    """True only if the domains or a strict hypothesis make an expression positive."""
    if expression in _strict_gaps(theorem):  # as it stands, which SymPy need not work out
        return True
    if all(any(form(e).is_positive is True for form in FORMS[:3]) for e in on_domains(expression, theorem)):
        return True
    return _assumed_positive(expression, theorem)


def _assumed_positive(expression: sp.Expr, theorem: Theorem) -> bool:
    return any(is_zero(expression - gap) for gap in _strict_gaps(theorem))


def nonzero(expression: sp.Expr, theorem: Theorem) -> bool:
    """True only if the domains or a hypothesis with < or != keep an expression from 0."""
    if isinstance(expression, sp.Mul) and all(nonzero(cast(sp.Expr, part), theorem) for part in expression.args):
        return True
    if isinstance(expression, sp.Pow) and nonzero(cast(sp.Expr, expression.base), theorem):
        return True
    if any(positive(cast(sp.Expr, sign * expression), theorem) for sign in (1, -1)):
        return True
    apart = [item.formula for item in theorem.hypotheses if isinstance(item.formula, sp.Ne)]
    return any(
        is_zero(cast(sp.Expr, expression) - sign * (formula.lhs - formula.rhs))  # pyright: ignore[reportOperatorIssue]
        for formula in apart
        for sign in (1, -1)
    )


def _strict_gaps(theorem: Theorem) -> Iterator[sp.Expr]:
    for item in theorem.hypotheses:
        if isinstance(item.formula, (sp.StrictLessThan, sp.StrictGreaterThan)):
            yield cast(sp.Expr, item.formula.gts) - cast(sp.Expr, item.formula.lts)


def _powers_and_logs(expression: sp.Basic, fresh: Mapping[Any, Any] | None = None) -> Iterator[Any]:
    """Every power and logarithm as it stands, nothing evaluated around it; an index that a sum binds has a fresh name.

    A hypothesis about one free k says nothing of all k of a sum.
    """
    fresh = fresh or {}
    if isinstance(expression, (sp.Pow, sp.log)):
        parts: list[Any] = [part.xreplace(fresh) for part in expression.args]
        yield expression.func(*parts, evaluate=False)
    if isinstance(expression, sp.Sum):
        for limit in expression.limits:
            for end in limit[1:]:
                yield from _powers_and_logs(end, fresh)
        fresh = {**fresh, **{k: sp.Dummy(k.name, **k.assumptions0) for k in expression.variables}}
        yield from _powers_and_logs(expression.function, fresh)
        return
    for part in expression.args:
        yield from _powers_and_logs(part, fresh)


def _named(expression: sp.Expr) -> str:
    """For a message: bound indices under their own names."""
    return str(expression.xreplace({one: sp.Symbol(one.name) for one in expression.atoms(sp.Dummy)}))


def _instance_of(theorem: Theorem) -> dict[sp.Symbol, sp.Expr]:
    return {symbol: sp.sympify(value) for symbol, value in theorem.instance.items()}


def undefined(expression: sp.Expr, theorem: Theorem) -> Iterator[str]:
    """Divisors that may be 0, roots, real powers and logarithms of what may be negative, indices that may be none."""
    yield from undefined_powers(expression, theorem)
    at = _instance_of(theorem)
    for part in expression.atoms(sp.Indexed):
        for index in (one.xreplace(at) for one in part.indices):
            if not (index.is_integer and index.is_nonnegative):
                yield f"the index {index} of {part} is not known to be a natural number"
    for kind, base in _divisors_and_roots(expression, theorem):
        if kind == "divisor":
            yield f"the divisor {base} is not known to be other than 0"
        else:
            yield f"the base {base} of a root is not known to be non-negative"


def _divisors_and_roots(expression: sp.Basic, theorem: Theorem) -> Iterator[tuple[str, str]]:
    """What may be 0 as "divisor", and what may be negative under a root as "root"."""
    at = _instance_of(theorem)
    for power in dict.fromkeys(_powers_and_logs(expression)):
        if not isinstance(power, sp.Pow) or (at and power.atoms(sp.Dummy)):
            continue  # of a sum at an instance the terms are looked at, one by one
        base, exponent = (cast(sp.Expr, part.xreplace(at)) for part in (power.base, power.exp))
        if exponent.is_nonnegative is not True and not nonzero(base, theorem):
            yield "divisor", _named(base)
        if exponent.is_integer is not True and not (is_nonnegative(base, theorem) or _assumed_positive(base, theorem)):
            yield "root", _named(base)


def by_convention(theorem: Theorem) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Divisors that may be 0, and numbers under a root that may be negative, in a statement, as far as SymPy sees.

    There Coq's convention is part of what is proved: x/0 = 0, and the root of a negative number is 0.
    """
    sides = [side for formula in theorem.formulas for relation in relations(formula) for side in relation.args]
    found = sorted(set(_divisors_and_roots(sp.Tuple(*sides), theorem)))
    divisors = tuple(base for kind, base in found if kind == "divisor")
    return divisors, tuple(base for kind, base in found if kind == "root")


def undefined_powers(expression: sp.Expr, theorem: Theorem) -> Iterator[str]:
    """Logarithms of what may not be positive, and powers other than whole ones and square roots of it.

    Coq's ``Rpower`` and ``ln`` say of such numbers what nobody means.
    """
    for power in _powers_and_logs(expression):
        if isinstance(power, sp.log):
            if not positive(cast(sp.Expr, power.args[0]), theorem):
                yield f"the argument of {_named(power)} is not known to be positive"
            continue
        base, exponent = cast(sp.Expr, power.base), cast(sp.Expr, power.exp)
        root = abs(exponent) == sp.Rational(1, 2)
        if exponent.is_integer is not True and not root and not positive(base, theorem):
            what = f"the base {_named(base)} of the power {_named(power)}"
            yield f"{what} is not known to be positive: give it a domain, or a hypothesis"


def unknown_kinds(expression: sp.Basic, words: Collection[str] = ()) -> Iterator[str]:
    """Parts whose meaning the project doesn't define; ``words`` are functions of Coq files that may occur."""
    for part in sp.preorder_traversal(expression):
        kind = type(part)
        known = kind in (*KINDS, *RELATIONS) or type(kind) is UndefinedFunction or part is sp.pi or part.is_Rational
        if part.is_Float:
            yield f"{part} is a float: write it as an exact number"
        elif not known and not (FUNCTIONS.get(kind, "") == kind.__name__ and kind.__name__ in words):
            yield f"{kind.__name__} has no meaning here: {part}"
