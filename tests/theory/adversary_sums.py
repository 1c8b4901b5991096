"""Forms of evaluation of means and scales, sums in every order: for the search of :mod:`adversary`."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from adversary import Arrays, Form, fma

from theory import rounding


def in_sequence(terms: Any, first: Any = None) -> Any:
    """Left to right, from ``first`` on."""
    if first is not None:
        terms = np.concatenate([first[:, None], terms], axis=1)
    return np.add.accumulate(terms, axis=1)[:, -1]


def in_pairs(terms: Any) -> Any:
    """By a balanced tree."""
    while terms.shape[1] > 1:
        if terms.shape[1] % 2:
            terms = np.concatenate([terms, np.zeros_like(terms[:, :1])], axis=1)
        terms = terms[:, ::2] + terms[:, 1::2]
    return terms[:, 0]


def ladders(n: int, unit: float, *, pairs: bool = False, scale: float = 1.0) -> list[Any]:
    """One large number and small ones of about half its last bit: each addition rounds the same way."""
    rows: list[Any] = []
    for share in (0.51, 0.501, 1.02, 1.49, 0.49):
        row = np.zeros(n)
        row[:] = share * 2 * unit
        if pairs:
            row[:] = 0
            row[[2**j for j in range(n.bit_length()) if 2**j < n]] = share * 2 * unit
        row[0] = 1.0
        rows.append(row * scale)
    return rows


def mean_forms(n: int) -> list[Form]:
    """(1/N) sum of messages + server error."""

    def run(x: Arrays, order: str) -> Any:
        s, e = x["s"], x["e"]
        kind = s.dtype.type
        w = kind(1 / n)
        if order == "fused, from the error on":
            total = e
            for worker in range(n):
                total = fma(s[:, worker], w, total)
            return total
        return {
            "sum, divide, add the error": lambda: in_sequence(s) / kind(n) + e,
            "sum, times 1/N, add the error": lambda: in_sequence(s) * w + e,
            "pairs, divide, add the error": lambda: in_pairs(s) / kind(n) + e,
            "divided first, from the error on": lambda: in_sequence(s * w, e),
            "divided first, error last": lambda: in_sequence(s * w) + e,
        }[order]()

    def starts(dtype: str, order: str) -> list[Arrays]:
        unit = rounding.unit_roundoff(dtype)
        if "from the error" in order:
            return [{"s": np.full(n, share * 2 * unit * n), "e": 1.0} for share in (0.51, 0.501, 1.49, 0.49)]
        rows = [*ladders(n, unit), *ladders(n, unit, pairs=True)]
        return [{"s": row, "e": e} for row in rows for e in (0.0, -1 / n, -1.0, 1.0)]

    orders = ("sum, divide, add the error", "sum, times 1/N, add the error", "pairs, divide, add the error",
              "divided first, from the error on", "divided first, error last", "fused, from the error on")  # fmt: skip
    return [
        Form("mean_tolerance", f"{order}, N = {n}", {"s": n, "e": 0}, partial(run, order=order),
             lambda x: x["s"].sum(axis=1) / n + x["e"],
             partial(_mean_allowed, depth=(n - 1).bit_length() + 1 if "pairs" in order else None),
             partial(starts, order=order), dtypes=("float32", "float16") if n <= 64 else ("float32",))
        for order in orders if n <= 64 or "fused" not in order
    ]  # fmt: skip


def _mean_allowed(x: Arrays, dtype: str, depth: int | None) -> Any:
    return rounding.mean_tolerance(x["s"].T, x["e"], dtype, depth)


def average_forms(n: int) -> list[Form]:
    """Mean of gradients."""
    return [
        Form("average_tolerance", f"{name}, N = {n}", {"g": n}, run, lambda x: x["g"].sum(axis=1) / n,
             lambda x, dtype, depth=depth: rounding.average_tolerance(x["g"].T, dtype, depth),
             lambda dtype: [{"g": row} for row in
                            (*ladders(n, rounding.unit_roundoff(dtype)),
                             *ladders(n, rounding.unit_roundoff(dtype), pairs=True))])
        for name, run, depth in (
            ("sum, divide", lambda x: in_sequence(x["g"]) / x["g"].dtype.type(n), None),
            ("sum, times 1/N", lambda x: in_sequence(x["g"]) * x["g"].dtype.type(1 / n), None),
            ("divided first", lambda x: in_sequence(x["g"] * x["g"].dtype.type(1 / n)), None),
            ("pairs, divide", lambda x: in_pairs(x["g"]) / x["g"].dtype.type(n), max(n - 1, 1).bit_length()),
        )
    ]  # fmt: skip


def scale_forms(dim: int) -> list[Form]:
    """l1 and l2 scale of dim numbers."""

    def total(terms: Any, shape: str, u: Any) -> Any:
        if shape == "fused":
            result = np.zeros_like(u[:, 0])
            for place in range(dim):
                result = fma(u[:, place], u[:, place], result)
            return result
        return in_sequence(terms) if shape == "sequence" else in_pairs(terms)

    def l1(x: Arrays, shape: str, end: str) -> Any:
        u, kind = x["u"], x["u"].dtype.type
        if end == "each divided":
            return total(np.abs(u) / kind(dim), shape, u)
        s = total(np.abs(u), shape, u)
        return s / kind(dim) if end == "divided" else s * kind(1 / dim)

    def l2(x: Arrays, shape: str, end: str) -> Any:
        u, kind = x["u"], x["u"].dtype.type
        s = total(u * u, shape, u)
        if end == "root of mean":
            return np.sqrt(s / kind(dim))
        root = np.sqrt(s)
        return root / np.sqrt(kind(dim)) if end == "over root" else root * (kind(1) / np.sqrt(kind(dim)))

    def truth(x: Arrays, kind: str) -> Any:
        u = np.abs(x["u"])
        return u.sum(axis=1) / dim if kind == "l1" else np.sqrt((u * u).sum(axis=1) / dim)

    def allowed(x: Arrays, dtype: str, kind: Any, depth: int | None) -> Any:
        return rounding.scale_tolerance(x["u"], kind, dtype, depth, accumulator=dtype)

    def starts(dtype: str, kind: str, *, pairs: bool) -> list[Arrays]:
        rows = ladders(dim, rounding.unit_roundoff(dtype), pairs=pairs)
        return [{"u": row if kind == "l1" else np.sqrt(row)} for row in rows]

    found = []
    for shape in ("sequence", "pairs", "fused"):
        depth = rounding.tree_depth(dim, 1) if shape == "pairs" else None
        for kind, run, ends in (
            ("l1", l1, ("divided", "times 1/d", "each divided")),
            ("l2", l2, ("root of mean", "over root", "times 1/root")),
        ):
            if shape == "fused" and (kind == "l1" or dim > 64):
                continue
            found += [
                Form("scale_tolerance", f"{kind}, {shape}, {end}, d = {dim}", {"u": dim},
                     partial(run, shape=shape, end=end), partial(truth, kind=kind),
                     partial(allowed, kind=kind, depth=depth), partial(starts, kind=kind, pairs=shape == "pairs"))
                for end in ends
            ]  # fmt: skip
    return found
