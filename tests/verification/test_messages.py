"""What a finding says: the sign that must be sent, where NaN stands, what was not declared; and numbers near 1."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from search_support import few

from onebit_files import counted
from verification.adapters.reference import ReferenceCollective, ReferenceCollectiveL1, ReferenceOptimizer
from verification.independent.collectives import Float64, Vectorised
from verification.independent.optimizers import Eager
from verification.loading import load_class
from verification.mutants import scale, signs
from verification.mutants.base_optimizer import BaseOptimizer
from verification.protocol import Hyper, Traits
from verification.report import MOST, coverage_lines, shortened
from verification.search.cases import CollectiveCase, OptimizerCase
from verification.search.causes import LARGE, Causes, Failing
from verification.search.clauses import CLAUSES
from verification.search.collective_space import large_cases
from verification.search.driver import Driver
from verification.search.plan import Plan, Profile
from verification.search.program import programs
from verification.search.runs import check, findings
from verification.search.search import search
from verification.search.simplify import simplest
from verification.search.verdicts import Coverage, by_levels, level_text

ROOT = Path(__file__).parents[2]
README, PAGE = ROOT / "README.md", ROOT / "docs" / "verification.md"


def floats(*numbers):
    return np.array(numbers, np.float32)


def call(buffers_ND):
    return CollectiveCase(((buffers_ND, np.zeros_like(buffers_ND), np.zeros_like(buffers_ND[0])),))


def messages(under_test, case):
    found = findings(under_test, case)
    return {one.clause: "; ".join([one.message, *(hint.text for hint in one.hints)]) for one in found}


def run_of(grads_TND, params_D, **hyper):
    steps = ("step",) * len(grads_TND)
    return OptimizerCase(params_D, grads_TND, grads_TND.shape[1], Hyper(**hyper), steps)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("page", [README, PAGE], ids=lambda page: page.name)
def test_the_pages_show_what_is_printed(page, tmp_path):
    """The class that stands there, checked by the command that stands there; "..." stands for lines in between."""
    text = page.read_text()
    code = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)[0]
    name = re.findall(r"^    onebit verify (\S+)$", text, flags=re.MULTILINE)[0]
    (shown,) = (block for block in re.findall(r"(?:    .*\n|\n(?=    ))+", text) if "cause " in block)
    if page is README:
        assert "Make `u >= 0` a `u > 0`" in text
        code = code.replace("u >= 0", "u > 0")
    (tmp_path / name.partition(":")[0]).write_text(code)
    command = [sys.executable, "-m", "onebit", "verify", name]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=tmp_path, check=False, timeout=1800,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    printed = done.stdout.replace(str(tmp_path), "/home/me")
    for piece in textwrap.dedent(shown).strip().split("\n...\n"):
        assert f"\n{piece}\n" in printed


def test_a_wrong_sign_is_told_with_the_right_one():
    told = messages(signs.ZeroIsMinus, call(floats([0, 1])))
    assert told["worker_bits"] == "worker 0 sent the sign -, must be +, for element 0: u = 0"
    told = messages(signs.ServerZeroIsMinus, replace(call(floats([1, 1], [-1, 1])), exact=True))
    assert "the server sent the sign -, must be +, for element 0: w = 0" in told["server_bits"]


class Silent(ReferenceCollectiveL1):
    scale = "l1"

    def allreduce(self, *arrays):
        return super().allreduce(*arrays)


class SaysNothing:
    """l1, and chunks a worker has: the scale was forgotten."""

    def allreduce(self, *arrays):
        return Silent().allreduce(*arrays)


class OneServer:
    """The literal Algorithm 1 with the l1 scale, which declares neither."""

    zero_is_plus = True

    def allreduce(self, buffers_ND, worker_errors_ND, server_error_D):
        def compress(u):
            s = np.abs(u).mean(axis=-1, keepdims=True)
            sent = np.where(u >= 0 if self.zero_is_plus else u > 0, s, -s)
            return sent, u - sent

        sent_ND, errors_ND = compress(buffers_ND + worker_errors_ND)
        output_D, error_D = compress(sent_ND.mean(axis=0) + server_error_D)
        return output_D, errors_ND, error_D


class OneServerL2(OneServer):
    scale = "l2"


def test_what_was_not_declared_is_named():
    two = call(np.resize(floats(1, 2, 3, 5, 8), (2, 16)))
    assert all('; scale = "l1" explains it: declare it' in text for text in messages(SaysNothing, two).values())
    two = call(np.resize(floats(1, -2, 3, 5, -8, -1, 4), (2, 16)))
    both = '; scale = "l1" and server_chunks = 1 explain it: declare them'
    told = messages(OneServer, two)
    assert told
    assert all(both in text for text in told.values())
    assert findings(type("Declared", (OneServer,), {"scale": "l1", "server_chunks": 1}), two) == []


class Words(Vectorised):
    """Chunks of whole words."""

    def __init__(self):
        self.chunk_multiple = 32


class Flushes(Vectorised):
    """Subnormal numbers are 0."""

    def allreduce(self, *arrays):
        def flushed(array):
            return np.where(np.abs(array) < np.finfo(np.float32).tiny, np.float32(0), array)

        return tuple(flushed(array) for array in super().allreduce(*map(flushed, arrays)))


def test_a_float64_class_that_sends_float32_scales_is_told_so():
    class Narrow(Float64):
        def scale_of(self, u):
            return np.float32(super().scale_of(u))

    u_ND = np.array([[0.1, 0.6]])
    told = messages(Narrow, CollectiveCase(((u_ND, 0 * u_ND, u_ND[0]),)))
    assert {"worker_scale", "server_scale"} <= set(told)
    for name in ("worker_scale", "server_scale"):
        assert told[name].endswith('a class with dtype = "float64" is checked with float64 scales')


class LeastScale(Vectorised):
    """No scale is below 1e-30."""

    def scale_of(self, u):
        return np.maximum(super().scale_of(u), np.float32(1e-30))


@pytest.mark.one_in(6)
@pytest.mark.parametrize(
    ("under_test", "hint"),
    [
        (few(LeastScale), ""),
        (Words, "; chunk_multiple = 32 explains it: declare it, if it is meant"),
        (Flushes, "; flushes_subnormals = True explains it: declare it, if it is meant"),
        (scale.GuardedScale, ""),
        (signs.ZeroIsMinus, ""),
        (signs.ServerZeroIsMinus, ""),
    ],
)
def test_a_declaration_is_named_if_all_findings_vanish_with_it(under_test, hint, brief):
    failed = search(Driver(under_test), profile=brief).of("fails")
    assert failed
    for verdict in failed:
        text = verdict.findings[0].message
        assert text.endswith(hint) if hint else "explain" not in text


def test_a_fault_that_no_declaration_explains_gets_no_advice():
    class Doubled(ReferenceCollective):
        def allreduce(self, *arrays):
            output_D, errors_ND, error_D = super().allreduce(*arrays)
            return output_D, 2 * errors_ND, error_D

    told = messages(Doubled, call(np.resize(floats(1, 2, 3, 5, 8), (2, 16))))
    assert told
    assert not any("explain" in text for text in told.values())


def test_an_optimizer_that_knows_one_scale_is_told_so():
    class AlwaysL1(ReferenceOptimizer):
        def start(self, params_D, n_workers, hyper):
            super().start(params_D, n_workers, replace(hyper, scale="l1"))

    case = run_of(np.resize(floats(1, 2, 3, 5, 8), (3, 2, 16)), np.zeros(16, np.float32), freeze_step=1)
    told = messages(AlwaysL1, case)
    assert told
    assert all('scale = "l1" explains it' in text for text in told.values())
    assert findings(AlwaysL1, replace(case, hyper=Hyper(freeze_step=1, scale="l1"))) == []


class Overflows(OneServerL2):
    """Squares that overflow."""

    server_chunks = 1

    def allreduce(self, buffers_ND, worker_errors_ND, server_error_D):
        def compress(u):
            with np.errstate(all="ignore"):
                s = np.sqrt((u * u).mean(axis=-1, keepdims=True))
                sent = np.where(u >= 0, s, -s)
                return sent, u - sent

        sent_ND, errors_ND = compress(buffers_ND + worker_errors_ND)
        output_D, error_D = compress(sent_ND.mean(axis=0) + server_error_D)
        return output_D, errors_ND, error_D


def test_nan_and_inf_are_told_by_array_and_element_and_asserted():
    case = call(floats([1, 1e30]))
    told = messages(Overflows, case)
    assert "worker_one_bit" in told
    where = "output_D[0] is inf, new_worker_errors_ND[0, 0] is -inf, new_server_error_D[0] is nan"
    for text in told.values():
        assert where in text
    first, *_ = programs(case, findings(Overflows, case), "Overflows")
    assert "assert np.isfinite(output_D).all()" in first.text("x.py")
    assert isinstance(first.raises(Overflows), AssertionError)
    assert first.raises(type("Right", (ReferenceCollective,), {"server_chunks": 1})) is None


def test_a_state_that_starts_from_nan_says_which_number():
    class Poisoned(Eager):
        def snapshot(self):
            seen = super().snapshot()
            if seen.step == 1:
                seen.momentum_D[1] = np.nan
            return seen

    case = run_of(np.ones((3, 1, 2), np.float32), np.zeros(2, np.float32), freeze_step=2)
    texts = [one.message for one in check(Driver(Poisoned), case, set())]
    assert any("after.momentum_D[1] is nan" in text for text in texts)
    assert not any("NaN or Inf" in text for text in texts)


def close_to_equal(array):
    sizes = np.abs(array[array != 0])
    return sizes.size > 1 and 1.2 < sizes.max() / sizes.min() < 1.6


@pytest.mark.parametrize("magnitude", [1e-38, 1e-30, 1e20, 3.0])
def test_a_ratio_is_shown_by_numbers_near_one(magnitude):
    case = call(floats([1.07, 1.49]) * np.float32(magnitude))
    small = simplest(case, lambda one: close_to_equal(one.calls[0][0]), Traits())
    sizes = np.abs(small.calls[0][0])
    assert ((sizes >= 0.1) & (sizes < 10)).all()
    run = run_of(case.calls[0][0][None], floats(0, 0), freeze_step=1)
    small = simplest(run, lambda one: close_to_equal(one.grads_TND), Traits())
    assert ((np.abs(small.grads_TND) >= 0.1) & (np.abs(small.grads_TND) < 10)).all()


def test_a_fault_of_large_numbers_is_shown_by_the_smallest_that_show_it():
    small = simplest(call(floats([1.234e28, 1])), lambda one: bool(findings(Overflows, one)), Traits(scale="l2"))
    largest = np.abs(small.calls[0][0]).max()
    assert np.sqrt(np.finfo(np.float32).max) < largest < 1e20


def test_one_is_no_plural():
    assert [counted(n, "case") for n in (0, 1, 2)] == ["0 cases", "1 case", "2 cases"]
    lines = "\n".join(
        coverage_lines(Coverage("collective", (1, 1), (1, 1), {"a": ("x 1 with y",), "b": tuple("z" * 9)}))
    )
    assert "  1 pair is left out: a (x 1 with y)\n  9 pairs are left out: b" in lines
    assert "1 of 1 case of the covering arrays" in lines


@pytest.mark.parametrize("base", [BaseOptimizer, ReferenceCollective])
def test_levels_are_told_apart(base):
    """A line lists them with commas, and a table may: no level holds a comma, a semicolon or a bar."""
    driver = Driver(base)
    for level in driver.levels:
        space = Plan.of(driver, level, Profile(0, 1, 0, triples=False, minutes=1, simplifying=0), 0).space
        names = [str(value) for values in space.features.values() for value in values if isinstance(value, str)]
        assert not [name for name in names if re.search("[,;|]", name)]


def test_the_optimizer_of_the_page_holds_and_a_bug_in_it_is_found(tmp_path, monkeypatch):
    """In processes of its own, as the page says; then with the server's error forgotten."""
    blocks = re.findall(r"```python\n# (\w+\.py)\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    assert [name for name, _ in blocks] == ["my_optimizer.py", "check_it.py"]
    monkeypatch.setattr(sys, "path", list(sys.path))
    for kind, change in (("right", ""), ("wrong", ' + state["server_error"]')):
        for name, code in blocks:
            assert change in code or name == "check_it.py"
            text = (code.replace(change, "") if change else code).replace("my_optimizer", f"{kind}_optimizer")
            (tmp_path / name.replace("my", kind).replace("check", kind)).write_text(text)
        driver = Driver(load_class(f"{tmp_path / f'{kind}_it.py'}:Adapter"))
        plan = Plan.of(driver, "optimizer", Profile(0, 1, 0, triples=False, minutes=1, simplifying=0), 0)
        rng = np.random.default_rng(0)
        rows = (plan.space.random_row(rng) for _ in range(10**4))
        small = (row for row in rows if row["size"] == (8, 40) and row["magnitude"] == "1")
        cases = [plan.case(row, number) for number, row in enumerate(islice(small, 5))]
        found = {one.clause: one.message for case in cases for one in check(driver, case, set())}
        assert ("conservation" in found) is bool(change), found
        assert bool(found) is bool(change), found


def test_a_level_is_printed_whatever_a_class_declares():
    """Declared layers () ended the report of a whole search with an IndexError."""
    assert [level_text(level) for level in ((3, 3), (3, 8), (), (8,), (1, 2, 3), 1e-3, "l1")] == [
        "3", "3-8", "()", "(8,)", "(1, 2, 3)", "0.001", "l1",
    ]  # fmt: skip


def test_levels_that_say_why_cases_were_refused_come_first_and_together():
    """`sizes several` was named, of which most were refused, and no level of workers, of which some all were."""
    rows = [{"workers": (n, n), "sizes": sizes} for n in (1, 2, 5, 6, 7, 8, 12) for sizes in ("one", "several")]
    refused = [row for row in rows if row["workers"][0] > 4]
    others = [row for row in rows if row not in refused]
    assert by_levels(refused, others) == "workers 5, 6, 7, 8, 12 (10 of 10 cases)"
    refused += [row for row in others if row["sizes"] == "one"]
    told = by_levels(refused, others[1::2])
    assert told == "sizes one (7 of 7 cases), workers 5, 6, 7, 8, 12 (10 of 10 cases)"


def test_a_long_program_is_cut_where_it_is_printed():
    """And says where the whole of it is; one that can be read stays as it is."""
    lines = ["import numpy as np", f"x = np.array({list(range(20_000))})", "assert not found, found"]
    cut = shortened("\n".join(lines))
    assert len(cut) < 1000
    assert cut.splitlines()[0] == lines[0]
    assert "more ..." in cut.splitlines()[1]
    assert cut.endswith(
        f"# cut, for it has {len(chr(10).join(lines)):,} characters: --json FILE writes the whole program"
    )
    assert len(shortened("\n".join(["x = 1"] * 10_000))) < MOST + 200
    assert shortened("x = 1\n" * 3000) == "x = 1\n" * 3000


def test_of_large_cases_few_smaller_ones_are_tried():
    """Each counts for as much as it takes."""
    tried = []

    class NoLast(scale.EndLeftOut):
        def allreduce(self, buffers_ND, worker_errors_ND, server_error_D, live_D=None):
            tried.append(2 * buffers_ND.size + server_error_D.size)
            return super().allreduce(buffers_ND, worker_errors_ND, server_error_D, live_D)

    ends = [one for make in large_cases(Driver(NoLast).traits, 0) if 16384 < (one := make()).dim <= 131072]
    case = next(one for one in ends if findings(NoLast, one))
    found = tuple(findings(NoLast, case))
    (clause,) = [one for one in CLAUSES if one.id == f"collective.{found[0].clause}"]
    calls = len(tried)
    findings(NoLast, case)
    calls, tried[:] = len(tried) - calls, []
    Causes(Driver(NoLast), 400).smaller(Failing(clause, case, found))
    assert sum(tried) < 1.5 * calls * 400 * LARGE
    assert min(tried) < max(tried) / 2
