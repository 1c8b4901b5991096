"""Numbers that sentences quote: each is a part of the statement, or computed from a part, or says what it is from.

A title, words and what a theorem is good for contain no digits of their own: in the latter two ``{name}`` stands for
an entry of ``numbers``. A numeral in letters ("half", "fourth") must be a number of the statement too, so that neither
goes on saying what the statement once said. Which of its numbers a sentence quotes is for its author to see.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from typing import Any, cast
from unicodedata import numeric

import sympy as sp

from theory.evaluate import evaluate
from theory.formula import ForAll, Formula, Implies, relations
from theory.notation import NOTATION
from theory.theorem import Quoted, Theorem

PLACE = re.compile(r"{(\w+)}")
GLUED = re.compile(
    r"(?<=[^\s(])(?<![^\W\d_]/){\w+}|(?:[-*/^√±×·−–]|\bminus)\s+{\w+}|{\w+}(?![.,]?(?:\s|$)|[;:)])\S+"
    r"|{\w+}\s+(?:squared|cubed|factorial)\b",
    re.IGNORECASE,
)
"""A place that what is beside it makes part of another number: ".{x}", "{x}{y}", "minus {x}", "{x}%", "{x} squared";
not "E/{x}"."""
LETTERS_OF_WORDS = re.compile(r"[\s!-~\u0370-\u03ff\u00a0-\u024f\u2010-\u2027\u2030-\u205e\u2070-\u22ff]*")
"""What sentences consist of: Latin and Greek letters, punctuation, superscripts, operators; nothing invisible."""
NAMES_WITH_DIGITS = re.compile(
    r"\b[TLCP]\d+[a-z]?\b|beta[12]|\b[lL][124]\b|β[12]|\b\d-bit|\b0/1 Adam|\bTable \d+|\b(?:binary|float)\d+|\bd{2,}\b"
    r"|\b[Tt]wo-sided\b|\bxi\b|\bmix\b|\bDoubleSqueeze\b|\bFourier\b|\b[Nn]ilpotent|\b[Pp]ercentile"
    r"|\b[Tt]en(?:[adu]|sor|sion|se\b|ta)\w*"
)
"""Digits and numerals that are names or other words: ids, beta1, the l2 scale, 1-bit, 0/1 Adam, ξ, Fourier, tends."""
UNITS = "one two three four five six seven eight nine"
TEENS = "ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen"
TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
UNITS_TH = "first second third fourth fifth sixth seventh eighth ninth"
TEENS_TH = "tenth eleventh twelfth thirteenth fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth"
LARGE = "thousand million billion trillion quadrillion quintillion sextillion septillion octillion nonillion decillion"
TUPLES = "tripl quadrupl quintupl sextupl septupl octupl nonupl decupl"


def _letters() -> dict[str, frozenset[sp.Expr]]:
    """Beginnings of numerals in letters: what each may mean. "One" and "second" are other words too: none alone."""
    whole = dict(zip(f"{UNITS} {TEENS}".split(), range(1, 20), strict=True))
    whole |= dict(zip(TENS.split(), range(20, 100, 10), strict=True))
    shares = dict(zip(f"{UNITS_TH} {TEENS_TH}".split(), range(1, 20), strict=True))
    shares |= {f"{tens[:-1]}ieth": whole[tens] for tens in TENS.split()}
    for tens in TENS.split():
        whole |= {f"{tens}-{unit}": whole[tens] + whole[unit] for unit in UNITS.split()}
        shares |= {f"{tens}-{unit}": whole[tens] + shares[unit] for unit in UNITS_TH.split()}
    large = {"hundred": 100} | {name: 1000 ** (k + 1) for k, name in enumerate(LARGE.split())}
    whole |= large | dict(zip(TUPLES.split(), range(3, 11), strict=True))
    whole |= {"twice": 2, "doubl": 2, "thrice": 3, "trebl": 3, "cub": 3, "decad": 10, "dozen": 12, "centu": 100}
    whole |= {f"{tens[:-1]}ies": whole[tens] for tens in TENS.split()} | {"millenni": 1000}
    whole |= dict.fromkeys(("zero", "nought", "naught", "nil"), 0)
    shares |= {f"{name}th": value for name, value in large.items()}
    result: dict[str, frozenset[sp.Expr]]
    result = {word: frozenset({sp.Integer(n)}) for word, n in whole.items() if word != "one"}
    result |= {word: frozenset({sp.Integer(n), sp.Rational(1, n)}) for word, n in shares.items() if n > 2}
    result |= dict.fromkeys(("order of magnitude", "orders of magnitude"), frozenset({sp.Integer(10)}))
    below_one = {"half": 2, "halv": 2, "quarter": 4, "percent": 100, "per cent": 100}
    return result | {word: frozenset({sp.Rational(1, n)}) for word, n in below_one.items()}


LETTERS = _letters()
LONGEST_FIRST = sorted(LETTERS, key=len, reverse=True)
NUMERAL = re.compile(rf"\b({'|'.join(LONGEST_FIRST)})\w*", re.IGNORECASE)
"""A word that begins with a numeral is read as that numeral, whatever follows: fivefold, sevenish, hundredweight."""
RUN_TOGETHER = re.compile(rf"\b(?:one|{'|'.join(LONGEST_FIRST)}){{2,}}\b", re.IGNORECASE)
"""Numerals without a space between them."""
SPELLED = re.compile(r"\b[^\W\d_](?:-[^\W\d_])+\b")
"""Single letters joined by hyphens, which are read as a word."""
ROMAN = re.compile(
    r"\b(?=\w{2})m*(?:cm|cd|d?c{0,3})(?:xc|xl|l?x{0,3})(?:ix|iv|v?i{0,3})(?<=\w)\b|\b[ivxlcdm]*([ixc])\1{3}[ivxlcdm]*\b",
    re.IGNORECASE,
)
NAME = re.compile(r"\b[a-z]{2,}(?:_[a-z]{2,})+\b")
"""A word that can only be a hypothesis, or the code name of a symbol."""
OPERATORS = ("/", "*", "^", "-", "+")
NO_HEADING = re.compile(r"[<>|`#\\]|[^\S ]")
LARGEST_DENOMINATOR = 100
"""From here on a fraction is written as a decimal number in a sentence."""
WITHOUT_VALUE = (sp.nan, sp.zoo, sp.oo, -sp.oo, sp.I, sp.E)


def texts(theorem: Theorem) -> dict[str, str]:
    """The sentences whose numbers are computed."""
    return {"title": theorem.title, "words": theorem.words, "good_for": theorem.good_for}


def faults(theorem: Theorem) -> Iterator[str]:
    """Numbers in the sentences of a theorem that nothing computes, and entries of ``numbers`` that are none."""
    known = {abs(part) for part in parts(theorem) if isinstance(part, sp.Rational)}
    known |= {abs(cast(sp.Expr, end)) for row in theorem.variables if row.domain for end in row.domain.args[:2]}
    numbers = {name: Quoted.of(number) for name, number in theorem.numbers.items()}
    known |= {abs(sp.sympify(value)) for quoted in numbers.values() for value in quoted.at.values()}
    if place := PLACE.search(theorem.title):
        yield f"title: a number has no place there: {place[0]}"
    if mark := NO_HEADING.search(theorem.title):
        yield f"title: {mark[0]!r} has no place in a heading, which is one line of plain words"
    if odd := set(PLACE.findall(" ".join(texts(theorem).values()))) ^ set(theorem.numbers):
        yield f"the sentences and `numbers` don't name the same: {', '.join(sorted(odd))}"
    names = {item.name for item in theorem.hypotheses} | {row.code for row in (*NOTATION, *theorem.where)}
    for name, text in texts(theorem).items():
        yield from _of_a_sentence(name, text, known)
        if unknown := set(NAME.findall(PLACE.sub("", text))) - names:
            yield f"{name}: {min(unknown)} is neither one of its hypotheses nor a code name"
    for name, quoted in numbers.items():
        yield from _of_a_number(name, quoted, theorem)


def _of_a_sentence(name: str, text: str, known: set[Any]) -> Iterator[str]:
    """Numbers in a sentence that are none of the ``known`` ones, and what could hide one."""
    if not LETTERS_OF_WORDS.fullmatch(text):
        strange = sorted({letter for letter in text if not LETTERS_OF_WORDS.fullmatch(letter)})
        yield f"{name}: {strange[0]!a} is neither a Latin nor a Greek letter, nor a sign that is read as one"
    if brace := re.search(r"[{}]\S*", PLACE.sub("", text)):
        yield f"{name}: {brace[0]!r} is no place for a number: write {{name}}"
    if glued := GLUED.search(text):
        yield f"{name}: {glued[0]!r} makes another number of what is quoted: let {{name}} stand alone"
    bare = NAMES_WITH_DIGITS.sub("", PLACE.sub("", text))
    bare = SPELLED.sub(lambda found: found[0].replace("-", ""), bare)
    if digits := re.search(r"\S*\d\S*", bare) or RUN_TOGETHER.search(bare) or ROMAN.search(bare):
        yield f"{name}: a number that is not computed: {digits[0]!r}"
    signs = [letter for letter in bare if letter.isnumeric() and not letter.isdecimal()]  # one half, a square, IV
    if odd_signs := [x for x in signs if sp.Rational(Fraction(numeric(x)).limit_denominator(1000)) not in known]:
        yield f"{name}: {odd_signs[0]!r} is no number of the statement"
    for word in NUMERAL.finditer(bare):
        if not LETTERS[word[1].lower()] & known:
            yield f"{name}: {word[0]!r} is no number of the statement"


def _of_a_number(name: str, quoted: Quoted, theorem: Theorem) -> Iterator[str]:
    """Why an entry of ``numbers`` is no part of the statement, or has no value."""
    if not quoted.by and not is_part(sp.sympify(quoted.part), theorem):
        yield f"the number {name}, {quoted.part}, is no part of the statement: `Quoted(..., by=)` says whose it is"
    if strange := [key for key in map(sp.sympify, quoted.at) if not _can_be_set(key, quoted)]:
        yield f"the number {name} is quoted at a value of {strange[0]}, which is no variable or varying part of it"
        return
    values = [sp.sympify(value) for value in quoted.at.values()]
    known = {row.symbol for row in theorem.variables}
    if foreign := sorted({str(symbol) for value in values for symbol in value.free_symbols - known}):
        yield f"the number {name} is quoted at {foreign[0]}, which is no symbol of the theorem"
        return
    outside = [f"{part} = {value}" for part, value in quoted.at.items() if not _is_allowed(part, value, theorem)]
    if outside:
        yield f"the number {name} is quoted outside the domains, at {', '.join(outside)}"
    elif (value := quoted.value).has(*WITHOUT_VALUE):
        yield f"the number {name} has no value: {quoted.part} is {value} there"


def _can_be_set(key: sp.Expr, quoted: Quoted) -> bool:
    """Whether a key of ``at`` is a variable, or a part of what is quoted that has variables."""
    return isinstance(key, sp.Symbol) or bool(key.free_symbols and sp.sympify(quoted.part).has(key))


def _is_allowed(part: Any, value: Any, theorem: Theorem) -> bool:
    """Whether what a part is set to lies in its domain, or at an end of it, as a limit."""
    value = sp.sympify(value)
    if value.free_symbols:
        return True
    if not isinstance(part, sp.Symbol):
        least = sp.S.Zero if part.is_nonnegative else -sp.oo
        return value.is_extended_real is True and bool(least <= value)
    whole = value in (sp.oo, -sp.oo) or part.is_integer is not True or value.is_integer is True
    domain = theorem.domain(part)
    return whole and value.is_extended_real is True and bool(domain.start <= value) and bool(value <= domain.end)


def is_part(expression: sp.Expr, theorem: Theorem) -> bool:
    """Whether a statement has an expression, or it is some factors of a product or some terms of a sum there."""
    if expression in parts(theorem):
        return True
    wholes = (whole for whole in parts(theorem) if isinstance(whole, expression.func))
    return isinstance(expression, (sp.Add, sp.Mul)) and any(set(expression.args) <= set(one.args) for one in wholes)


def parts(theorem: Theorem) -> frozenset[Any]:
    """Every expression in the statement: what sides, limits of quantifiers and narrowed domains consist of."""
    ends = (end for interval in theorem.domains.values() for end in interval.args[:2])
    return frozenset(ends).union(*map(_parts, theorem.formulas))


@cache
def _parts(formula: Formula) -> frozenset[Any]:
    if isinstance(formula, Implies):
        return frozenset().union(*map(_parts, (*formula.given, formula.body)))
    if isinstance(formula, ForAll):
        limits = (part for _, limit in formula.bound() if limit is not None for part in sp.preorder_traversal(limit))
        return _parts(formula.body).union(limits)
    return frozenset(part for one in relations(formula) for part in sp.preorder_traversal(one))


def words_of(theorem: Theorem) -> str:
    """The words with their numbers filled in."""
    return filled(theorem, theorem.words)


def filled(theorem: Theorem, sentence: str) -> str:
    """A sentence of a theorem with its numbers filled in, each computed."""

    def number(found: re.Match[str]) -> str:
        value = Quoted.of(theorem.numbers[found[1]]).value
        text = number_text(value)
        return f"({text})" if _is_open(text, value, sentence[: found.start()], sentence[found.end() :]) else text

    return PLACE.sub(number, sentence)


def computed_by(theorem: Theorem) -> str:
    """What the numbers are that sentences quote and the statement has no part for; empty if there are none."""
    items = [quoted for quoted in map(Quoted.of, theorem.numbers.values()) if quoted.by]
    return "; ".join(f"{number_text(quoted.value)} is {quoted.by}" for quoted in items)


def _is_open(text: str, value: Any, before: str, after: str) -> bool:
    """Whether the words around a formula could be read into it ("within 2 - b E"), so that it needs parentheses.

    A sum always does. So does a fraction with letters where the sentence goes on, and anything composed beside an
    operator.
    """
    expression = sp.sympify(value)
    beside_operator = before.endswith(OPERATORS) or after.startswith(OPERATORS)
    if not expression.free_symbols:
        return beside_operator and ("/" in text or text.startswith("-"))
    if expression.is_Add or text.startswith("-"):
        return True
    if sp.fraction(expression)[1] != 1:
        return beside_operator or not (after == "" or after[0] in ".,:;)")
    return beside_operator and not expression.is_Atom


def number_text(value: Any) -> str:
    """An exact number or expression as it is written in a sentence; to three digits where it has more than that."""
    expression = sp.sympify(value)
    short = expression.is_Rational and expression.q < LARGEST_DENOMINATOR
    if expression.has(sp.Float) or not (short or expression.free_symbols):
        return f"{float(evaluate(expression, {})):.3g}"
    return str(expression)
