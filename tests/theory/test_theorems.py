"""Every theorem object: its certificate holds, its example comes near the bound, its wrong variants are rejected."""

from __future__ import annotations

import importlib
import pkgutil

import pytest

import theory.theorems
from theory.theorem import Theorem


def collected() -> list[Theorem]:
    found: list[Theorem] = []
    for module in pkgutil.iter_modules(theory.theorems.__path__):
        if module.name.startswith("_"):
            continue
        loaded = importlib.import_module(f"theory.theorems.{module.name}")
        found += getattr(loaded, "THEOREMS", ()) or [loaded.THEOREM]
    return sorted(found, key=lambda theorem: theorem.id)


THEOREMS = collected()
each = pytest.mark.parametrize("theorem", THEOREMS, ids=[theorem.id for theorem in THEOREMS])


def test_ids_are_unique():
    assert len({theorem.id for theorem in THEOREMS}) == len(THEOREMS)


@each
def test_certificate_holds(theorem):
    certificate = theorem.certificate()
    assert certificate.holds, certificate.failed
    assert certificate.links >= 1 or theorem.numeric_checks


@each
def test_example_comes_near_the_bound(theorem):
    example = theorem.example()
    assert 0.1 <= example.ratio <= 1 + 1e-12, example  # attained values are evaluated in float64


@each
def test_wrong_variants_are_rejected(theorem):
    assert len(theorem.wrong_variants) >= 3
    survivors = [variant.description for variant in theorem.wrong_variants if not variant.rejected()]
    assert not survivors
