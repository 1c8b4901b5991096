"""Change every tolerance function in one place after another: each change must be rejected by a comparison.

The functions of ``theory.rounding`` are read as source text. A mutant is the text with one node of its syntax tree
changed: a number, a sign, an operator, an exponent, a comparison, a name, a term or a factor left out, a function
called. It is rejected if a comparison of :mod:`theory.tolerance_checks` finds another number than the theorem's, larger
or smaller, or if the changed text fails. Tolerances are numbers of theorems, so a larger one is as wrong as a smaller.
"""

from __future__ import annotations

import ast
import copy
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from theory import tolerance_checks, tolerance_checks_update, tolerance_refusals
from theory.rounding import arguments, formats, messages, updates
from theory.tolerance_checks import Comparison

FILES = tuple(Path(str(module.__file__)) for module in (arguments, formats, messages, updates))
OPERATORS: dict[type, tuple[type, ...]] = {
    ast.Add: (ast.Sub,),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.Div,),
    ast.Div: (ast.Mult,),
    ast.Pow: (ast.Mult,),
    ast.FloorDiv: (ast.Mult,),
    ast.Mod: (ast.FloorDiv,),
    ast.BitOr: (ast.BitAnd,),
    ast.BitAnd: (ast.BitOr,),
}
COMPARISONS: dict[type, tuple[type, ...]] = {
    ast.Gt: (ast.GtE, ast.Lt),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Lt: (ast.LtE, ast.Gt),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
CALLS = {
    "maximum": "minimum", "minimum": "maximum", "max": "min", "min": "max", "ceil": "floor", "rint": "trunc",
    "momentum_tolerance": "variance_tolerance", "gamma": "unit_roundoff",
}  # fmt: skip
"""Functions, and what is called instead."""


@dataclass(frozen=True)
class Change:
    """One changed function of ``theory.rounding``: which, on which line, what kind of change, and what became what."""

    function: str
    file: str
    line: int
    kind: str
    text: str
    build: Callable[[], ast.stmt]
    number: int
    place: int
    conversion: bool

    def tree(self) -> ast.Module:
        """The file with the changed function."""
        body = list(sources()[self.place].body)
        body[self.number] = self.build()
        return ast.fix_missing_locations(ast.Module(body, []))

    def __str__(self) -> str:
        return f"{self.file}:{self.line}, {self.function}: {self.text}"


@cache
def sources() -> tuple[ast.Module, ...]:
    """The syntax trees of the tolerance functions."""
    return tuple(ast.parse(path.read_text("utf-8")) for path in FILES)


def functions(place: int = -1, changed: ast.Module | None = None) -> SimpleNamespace:
    """All functions in one namespace, the file ``place`` replaced by a changed one."""
    space: dict[str, Any] = {"__name__": "theory.rounding.changed"}
    for number, tree in enumerate(sources()):
        code = changed if number == place and changed is not None else tree
        body = [node for node in code.body if not _is_own_import(node)]
        exec(compile(ast.Module(body, []), "changed tolerances", "exec"), space)
    return SimpleNamespace(**space)


def _is_own_import(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and (node.module or "").startswith("theory.")


@cache
def comparisons() -> tuple[Comparison, ...]:
    """Every comparison with its expected value, computed once."""
    one, other, refusals = tolerance_checks, tolerance_checks_update, tolerance_refusals.refusals
    makers = (
        refusals,
        one.helpers,
        one.momentum,
        one.messages,
        one.scales,
        one.second_moment,
        other.updates,
        other.steps,
    )
    return tuple(comparison for make in makers for comparison in make())


def rejection(change: Change) -> str | None:
    """Why a changed function is not accepted; None if every comparison agrees."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            changed = functions(change.place, change.tree())
            return first_fault(changed, change.function)
    except Exception as error:  # a change that does not even run is rejected
        return f"it fails: {type(error).__name__}: {error}"


CONVERSIONS = {"Fraction", "float", "int", "asarray"}
"""They change the type of a number and not its value."""


def equivalent(change: Change) -> str | None:
    """Why a change that every comparison accepts is none, by rule; None if no rule says so."""
    if change.conversion:
        return "a conversion of type is left out, which leaves every number as it is"
    return None


def first_fault(changed: Any, function: str = "") -> str | None:
    """The first comparison that finds something else, those of ``function`` itself before the others."""
    ordered = sorted(comparisons(), key=lambda item: item.function != function)
    return next((fault for item in ordered if (fault := item.fault(changed))), None)


def changes() -> Iterator[Change]:
    """Every changed function, one change at a time."""
    for place, tree in enumerate(sources()):
        for number, node in enumerate(tree.body):
            if not isinstance(node, (ast.FunctionDef, ast.Assign, ast.AnnAssign)):
                continue
            name = getattr(node, "name", "constants")
            converted = _converted(node)
            for line, kind, text, build in _changed(node):
                conversion = text.endswith("without dtype") or any(
                    text.startswith((f"{word}(", f"np.{word}(", f"{word} without")) for word in CONVERSIONS
                )
                conversion = conversion or text in converted
                yield Change(name, FILES[place].name, line, kind, text, build, number, place, conversion)


def _changed(root: ast.stmt) -> Iterator[tuple[int, str, str, Callable[[], ast.stmt]]]:
    """Line, kind and text of every change of ``root``, and what makes it."""
    names = _numbers_in(root)
    for index, node in enumerate(_visited(root)):
        for kind, text, other in _replacements(node, names):
            yield getattr(node, "lineno", 0), kind, text, partial(_with, root, index, other)


def _with(root: ast.stmt, index: int, other: ast.AST) -> ast.stmt:
    """``root`` with its node number ``index`` replaced."""
    changed = copy.deepcopy(root)
    return _Replace(list(_visited(changed))[index], other).visit(changed)


class _Replace(ast.NodeTransformer):
    """Puts ``other`` where ``target`` stands."""

    def __init__(self, target: ast.AST, other: ast.AST) -> None:
        self.target, self.other = target, other

    def visit(self, node: ast.AST) -> Any:
        return ast.copy_location(self.other, node) if node is self.target else super().visit(node)


def _visited(root: ast.AST) -> Iterator[ast.AST]:
    """Nodes that compute: no annotations, no docstrings, no texts of errors."""
    if isinstance(root, ast.Raise):
        return
    yield root
    for field, value in ast.iter_fields(root):
        if field in ("annotation", "returns", "decorator_list"):
            continue
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, ast.AST):
                yield from _visited(item)


def _converted(root: ast.stmt) -> set[str]:
    """Changes of a name to the one that it was converted from: after ``x = float(y)``, "x -> y"."""
    return {
        f"{node.targets[0].id} -> {node.value.args[0].id}"
        for node in ast.walk(root)
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.Call)
        and ast.unparse(node.value.func).removeprefix("np.") in CONVERSIONS
        and isinstance(node.value.args[0], ast.Name)
    }


def _numbers_in(root: ast.stmt) -> tuple[str, ...]:
    """Names of the parameters and variables of a function, in the order in which they appear."""
    found = [node.arg for node in ast.walk(root) if isinstance(node, ast.arg)]
    found += [node.id for node in ast.walk(root) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    return tuple(dict.fromkeys(found))


Replacements = Iterator[tuple[str, str, Any]]


def _replacements(node: ast.AST, names: Sequence[str]) -> Replacements:
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in names:
        other = names[(names.index(node.id) + 1) % len(names)]
        if other != node.id:
            yield "symbol", f"{node.id} -> {other}", ast.Name(other, ast.Load())
    for kind, change in CHANGES.items():
        if isinstance(node, kind):
            yield from change(node)


def _changed_constant(node: ast.Constant) -> Replacements:
    value = node.value
    if isinstance(value, bool):
        yield "flag", f"{value} -> {not value}", ast.Constant(not value)
    elif isinstance(value, (int, float)):
        for other in dict.fromkeys((value + 1, value - 1, -value, 2 * value)):
            if other != value:
                yield "sign" if other == -value else "number", f"{value} -> {other}", ast.Constant(other)


def _changed_sign(node: ast.UnaryOp) -> Replacements:
    yield "sign", f"{ast.unparse(node)} -> {ast.unparse(node.operand)}", node.operand


def _changed_comparison(node: ast.Compare) -> Replacements:
    for operator in COMPARISONS[type(node.ops[0])]:
        changed = ast.Compare(node.left, [operator()], node.comparators)
        yield "relation", f"{ast.unparse(node)} -> {ast.unparse(changed)}", changed


def _changed_choice(node: ast.IfExp) -> Replacements:
    for branch in (node.body, node.orelse):
        yield "branch", f"{ast.unparse(node)} -> {ast.unparse(branch)}", branch


def _changed_test(node: ast.If) -> Replacements:
    for value in (True, False):
        yield (
            "branch",
            f"if {ast.unparse(node.test)} -> if {value}",
            ast.If(ast.Constant(value), node.body, node.orelse),
        )


def _changed_logic(node: ast.BoolOp) -> Replacements:
    for value in node.values:
        yield "branch", f"{ast.unparse(node)} -> {ast.unparse(value)}", value


def _changed_operation(node: ast.BinOp) -> Replacements:
    for operator in OPERATORS[type(node.op)]:
        changed = ast.BinOp(node.left, operator(), node.right)
        kind = (
            "exponent"
            if isinstance(node.op, ast.Pow)
            else "sign"
            if isinstance(node.op, (ast.Add, ast.Sub))
            else "operator"
        )
        yield kind, f"{ast.unparse(node)} -> {ast.unparse(changed)}", changed
    kind = {ast.Add: "term", ast.Sub: "term", ast.Pow: "exponent"}.get(type(node.op), "factor")
    for kept in (node.left, node.right):
        yield kind, f"{ast.unparse(node)} -> {ast.unparse(kept)}", kept


def _changed_call(node: ast.Call) -> Replacements:
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    text = ast.unparse(node)
    if name in CALLS:
        other = copy.deepcopy(node)
        setattr(other.func, "attr" if isinstance(node.func, ast.Attribute) else "id", CALLS[name])
        yield "function", f"{text} -> {ast.unparse(other)}", other
    if node.args and not isinstance(node.args[0], ast.Starred):
        yield "function", f"{text} -> {ast.unparse(node.args[0])}", node.args[0]
    if len(node.args) > 1:
        for place in range(len(node.args)):
            other = ast.Call(node.func, node.args[:place] + node.args[place + 1 :], node.keywords)
            yield "term", f"{text} -> {ast.unparse(other)}", other
    for place, item in enumerate(node.keywords):
        other = ast.Call(node.func, node.args, node.keywords[:place] + node.keywords[place + 1 :])
        yield "term", f"{name} without {item.arg or 'the shared settings'}", other


CHANGES: dict[type, Any] = {
    ast.Constant: _changed_constant,
    ast.UnaryOp: _changed_sign,
    ast.Compare: _changed_comparison,
    ast.IfExp: _changed_choice,
    ast.If: _changed_test,
    ast.BoolOp: _changed_logic,
    ast.BinOp: _changed_operation,
    ast.Call: _changed_call,
}
