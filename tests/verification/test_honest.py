"""What a search must not be talked out of: state that is not there, arrays that lie, refusals, time, ties, history."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import typer
from test_commands import call

from verification.cli import verify
from verification.independent.collectives import Vectorised
from verification.independent.declared import WorkersAlone
from verification.independent.optimizers import Eager
from verification.loading import load_class
from verification.mutants.base_collective import BaseCollective
from verification.mutants.base_lamb import BaseLamb
from verification.mutants.base_optimizer import BaseOptimizer
from verification.mutants.base_zero_one import BaseZeroOne
from verification.mutants.families import BaseCollectiveL1
from verification.protocol import Traits
from verification.relation.finding import AdapterError
from verification.report import coverage_lines
from verification.search import collective_space, optimizer_cases, optimizer_space
from verification.search.driver import Driver
from verification.search.optimizer_space import EDGES, UNBLOCKED, worker_levels
from verification.search.palettes import PALETTES
from verification.search.plan import PROFILES, Plan, plain_case
from verification.search.runs import check, findings
from verification.search.search import probe, search
from verification.search.verdicts import Coverage


@pytest.fixture
def quick(monkeypatch, brief):
    monkeypatch.setitem(PROFILES, "quick", brief)


def clauses(under_test, case):
    return {one.clause for one in findings(under_test, case)}


def test_a_class_without_a_server_error_keeps_none():
    class HoldsAllBack(WorkersAlone):
        def allreduce(self, *arrays):
            output_D, errors_ND, error_D = super().allreduce(*arrays)
            return 0 * output_D, errors_ND, output_D + error_D

    class Loses(WorkersAlone):
        def allreduce(self, *arrays):
            output_D, errors_ND, error_D = super().allreduce(*arrays)
            return 0 * output_D, errors_ND, error_D

    case = plain_case("collective", Driver(WorkersAlone))
    assert clauses(WorkersAlone, case) == set()
    assert clauses(HoldsAllBack, case) == {"no_server_error"}
    assert clauses(Loses, case) == {"conservation"}
    compresses = type("Compresses", (Eager,), {"has_server_error": False})
    assert "no_server_error" in clauses(compresses, plain_case("optimizer", Driver(compresses)))


class Hostile(np.ndarray):
    def __array_ufunc__(self, *arguments, **options):
        raise RuntimeError("no sums")

    @property
    def dtype(self):
        raise RuntimeError("no dtype")


def test_arrays_are_what_their_memory_holds():
    class Returns(Vectorised):
        def allreduce(self, *arrays):
            output_D, *errors = super().allreduce(*arrays)
            return self.wrapped(output_D), *errors

    class Masked(Returns):
        def wrapped(self, output_D):
            return np.ma.masked_array(output_D + 1, mask=True)

    class WrongBelow(Returns):
        def wrapped(self, output_D):
            return (output_D + 1).view(Hostile)

    class RightBelow(Returns):
        def wrapped(self, output_D):
            return output_D.view(Hostile)

    case = plain_case("collective", Driver(Returns))
    with pytest.raises(AdapterError, match="output_D is a masked array: every element must be there"):
        probe(Driver(Masked))
    assert "conservation" in clauses(WrongBelow, case)
    assert clauses(RightBelow, case) == set()


class RaisesLater:
    step = 0

    def __getattr__(self, name):
        raise RuntimeError("not now")


def test_whatever_is_returned_is_read_with_care():
    class Shows(Eager):
        def snapshot(self):
            return RaisesLater()

    class Saves(Eager):
        def save(self):
            return type("More", (bytes,), {"beside": self})(b"x")

    with pytest.raises(AdapterError, match=r"snapshot raised RuntimeError: not now"):
        probe(Driver(Shows))
    driver = Driver(Saves)
    assert type(driver.save(driver.new())) is bytes


def tied(base):
    """The same, but a tie of the server's is -1."""

    class Tied(base):
        def server_signs(self, w_C):
            return np.where(w_C == 0, -super().server_signs(w_C), super().server_signs(w_C))

    return Tied


@pytest.mark.one_in(2)
@pytest.mark.parametrize("base", [BaseCollective, BaseCollectiveL1], ids=lambda base: base.__name__)
def test_ties_of_a_collective_are_judged_on_every_number_of_workers(base):
    driver = Driver(tied(base))
    plan = Plan.of(driver, "collective", PROFILES["quick"], 3)
    small = [plan.case(*item) for item in plan.rows if item[0]["size"][1] <= 40 and "alone" in item[0]["residual"]]
    judged = {case.n_workers for case in small if "server_bits" in clauses(driver.under_test, case)}
    assert judged >= set(range(1, 9))
    without = [case for case in plan.exact_cases(40) if "server_bits" in clauses(driver.under_test, case)]
    assert {case.n_workers for case in without} == {1, 2, 4, 8, 16, 32, 64, 128}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("base", [BaseOptimizer, BaseZeroOne, BaseLamb], ids=lambda base: base.__name__)
def test_ties_of_an_optimizer_are_judged_on_every_number_of_workers(base):
    wrong = type("Wrong", (base,), {"collective": tied(base.collective)})
    made = [optimizer_cases.exact_case(Traits.of(base), seed) for seed in range(4 * len(optimizer_cases.TIED))]
    cases = [case for case in made if case is not None]
    assert [case for case in cases if clauses(base, case)] == []
    judged = {(case.n_workers, case.hyper.scale) for case in cases if "server_bits" in clauses(wrong, case)}
    assert judged == {(n, scale) for n in optimizer_cases.TIED if n > 1 for scale in ("l1", "l2")}


LATE_TIES = {
    "late": (BaseOptimizer, lambda self: self.t > 9),
    "after a load": (BaseOptimizer, lambda self: self.was_loaded),
    "after a resize": (BaseZeroOne, lambda self: self.was_resized),
    "before T_w": (BaseZeroOne, lambda self: self.t < self.hyper.freeze_step),
    "of two steps": (BaseZeroOne, lambda self: self.steps() == 2),
    "in layers": (BaseLamb, lambda self: len(self.layers) > 1),
    "after a skipped step": (BaseLamb, lambda self: self.was_skipped),
}


@pytest.mark.parametrize("name", LATE_TIES)
def test_ties_are_judged_in_late_and_in_disturbed_runs(name):
    """The server's zero is -1 there alone."""
    base, bites = LATE_TIES[name]

    class Wrong(base):
        was_loaded = was_resized = was_skipped = False

        def step(self, grads_ND):
            self.was_skipped |= not np.isfinite(grads_ND).all()
            super().step(grads_ND)

        def load(self, data, n_workers):
            super().load(data, n_workers)
            self.was_loaded = True

        def resize(self, n_workers):
            super().resize(n_workers)
            self.was_resized = True

        def exchange(self, local_ND, live_D):
            signs = (tied(base.collective) if bites(self) else base.collective)().server_signs
            self.reducer.server_signs = signs
            super().exchange(local_ND, live_D)

    traits = Traits.of(base)
    made = [optimizer_cases.exact_case(traits, seed, can_save=True) for seed in range(PROFILES["quick"].exact)]
    assert any("server_bits" in clauses(Wrong, case) for case in made if case is not None)


def test_without_a_server_error_nothing_rounds_at_the_workers_either():
    traits = Traits(has_server_error=False)
    cases = [collective_space.exact_case(traits, seed) for seed in range(16)]
    assert all(case is not None and case.exact and not case.calls[0][2].any() for case in cases)
    assert [case for case in cases if case and clauses(WorkersAlone, case)] == []


def refusing(where, base=Vectorised):
    class Refuses(base):
        def allreduce(self, buffers_ND, *others):
            if where(buffers_ND):
                raise NotImplementedError("not here")
            return super().allreduce(buffers_ND, *others)

    return Refuses


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("where", "levels"),
    [
        (
            lambda b: 5 <= b.shape[0] <= 8 and 8 <= b.shape[1] <= 40,
            r"workers [5-8] with size 8-40 \(\d+ of \d+ cases\)",
        ),
        (lambda b: 0 < np.abs(b).max() < 1e-38, r"magnitude subnormal \(\d+ of \d+ cases\)"),
        (lambda b: b.shape == (1, 4), r"those without rounding, or very large|workers"),
    ],
)
def test_what_is_refused_does_not_hold_and_is_named_by_its_levels(where, levels, brief):
    result = search(Driver(refusing(where)), profile=replace(brief, arrays=3), only=("collective.conservation",))
    (verdict,) = result.verdicts
    assert verdict.outcome == "not checked"
    assert "refused: not here" in verdict.note
    assert re.search(rf"refused \(not here\): .*({levels})", result.notes[0]), result.notes


@pytest.mark.soak
def test_refused_cases_outside_a_domain_leave_its_clause_alone(brief):
    class NoResize(Eager):
        def load(self, data, n_workers):
            if n_workers != self.n:
                raise NotImplementedError("as many workers alone")
            super().load(data, n_workers)

    result = search(Driver(NoResize), profile=brief, only=("optimizer.save", "optimizer.resize"))
    assert {verdict.clause.name: verdict.outcome for verdict in result.verdicts}["resize"] == "not checked"


def test_what_the_time_cut_off_does_not_hold(brief, monkeypatch):
    now = 0.0

    class Slow(Vectorised):
        workers = 1, 2

        def allreduce(self, *arrays):
            nonlocal now
            now += 1.0
            return super().allreduce(*arrays)

    clock = SimpleNamespace(monotonic=lambda: now, process_time=lambda: now)
    monkeypatch.setattr("verification.search.search.time", clock)
    monkeypatch.setattr("verification.search.driver.time", clock)
    said = []
    brief = replace(brief, arrays=3)  # so many that every clause is judged enough
    whole = search(Driver(Slow), profile=brief, minutes=10**6)
    assert {verdict.outcome for verdict in whole.verdicts} == {"holds"}
    cut = search(Driver(Slow), profile=brief, minutes=0.97 * now / 60, tell=said.append)
    assert {verdict.outcome for verdict in cut.verdicts} == {"not checked"}
    assert {verdict.note.split(",")[0] for verdict in cut.verdicts} == {"the time was over"}
    assert "a full such a check takes about" in cut.notes[0]
    assert not said
    search(Driver(Slow), profile=brief, minutes=3, tell=said.append)
    assert len(said) == 1
    assert "say --minutes" in said[0]


@pytest.mark.parametrize("base", [BaseOptimizer, BaseCollective], ids=lambda base: base.__name__)
def test_sizes_beside_multiples_of_the_chunks_occur_on_every_number_of_workers(base):
    driver = Driver(base)
    plan = Plan.of(driver, driver.levels[0], replace(PROFILES["quick"], cheap=0), 5)
    seen = set()
    for row, seed in plan.rows:
        if row.get("scale_block") is None and row["edge"] != "any":
            rng = np.random.default_rng(seed)
            n = optimizer_space.workers(row["workers"], driver.traits, rng)
            dim = optimizer_space.dims(row, n, driver.traits, rng)
            assert (dim - EDGES[row["edge"]]) % (8 if row["size"] == (8, 40) else 8 * n) == 0
            assert row["size"][1] > 256 or plan.case(row, seed).dim == dim
            seen.add((n, row["edge"]))
    assert seen >= {(n, edge) for n in range(1, 9) for edge in EDGES if edge != "any"}
    assert set(UNBLOCKED) <= set(optimizer_space.optimizer_space(driver.traits, can_save=True).features)


def test_rounds_that_change_nothing_occur_at_every_size_and_number_of_workers():
    plan = Plan.of(Driver(BaseCollective), "collective", PROFILES["quick"], 5)
    still = [(row, seed) for row, seed in plan.rows if row["residual"] == "nothing"]
    seen = {(row["workers"], row["size"]) for row, _ in still if row["workers"][1] <= 16}
    sizes = [size for size in plan.space.features["size"] if size[1] <= 16384]
    assert seen >= {(workers, size) for workers in worker_levels(plan.driver.traits)[:11] for size in sizes}
    assert not any(array.any() for one in still[:20] for call in plan.case(*one).calls for array in call)


@pytest.mark.soak
def test_one_number_everywhere_is_a_palette(brief):
    class HalvesConstants(BaseCollective):
        def worker_message(self, *arguments):
            sent_D = super().worker_message(*arguments)
            return sent_D / 2 if sent_D.size > 8 and len({*self.u_D.tolist()}) == 1 else sent_D

        def allreduce(self, buffers_ND, worker_errors_ND, *others):
            self.u_D = (buffers_ND + worker_errors_ND)[-1]
            return super().allreduce(buffers_ND, worker_errors_ND, *others)

    assert "constant" in PALETTES
    result = search(Driver(HalvesConstants), profile=brief, only=("collective.conservation",))
    assert result.verdicts[0].outcome == "fails"


@pytest.mark.soak
def test_a_wrong_epsilon_is_not_explained_by_the_complement(brief):
    class OtherEpsilon(Eager):
        def start(self, params_D, n_workers, hyper):
            super().start(params_D, n_workers, replace(hyper, eps=hyper.eps * (1 + 1e-5)))

    result = search(Driver(OtherEpsilon), profile=brief)
    failed = result.of("fails")
    assert failed
    assert not any("explains" in verdict.findings[0].message for verdict in failed)


HISTORY = """
from verification.independent.collectives import Vectorised
CALLS = 0
class Counts(Vectorised):
    def allreduce(self, *arrays):
        global CALLS
        CALLS += 1
        output_D, errors_ND, error_D = super().allreduce(*arrays)
        return output_D, errors_ND, error_D + ({condition})
class Interrupts(Vectorised):
    workers = 1, 2
    def allreduce(self, *arrays):
        global CALLS
        CALLS += 1
        if CALLS > 60:
            raise KeyboardInterrupt
        output_D, errors_ND, error_D = super().allreduce(*arrays)
        return output_D, errors_ND, error_D + 1
"""


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("condition", "says"),
    [("CALLS % 64 == 0", "# only after other calls"), ("CALLS == 77777 or (CALLS > 90 and len(output_D) > 8)", "")],
)
def test_a_program_that_needs_earlier_calls_says_so(condition, says, tmp_path, quick):
    path, out = tmp_path / "counts.py", tmp_path / "out.json"
    path.write_text(HISTORY.format(condition=condition))
    assert call(verify, f"{path}:Counts", json=out, clause="collective.conservation") == 1
    [row] = json.loads(out.read_text())["properties"]
    assert says in row["counterexample"]
    assert "only after" in row["counterexample"] or "found after other calls" in row["counterexample"]
    program = row["counterexample"]
    script = subprocess.run([sys.executable, "-"], input=program, text=True, capture_output=True, check=False)
    assert ("AssertionError" in script.stderr) == ("only after" in row["counterexample"])


def test_an_interrupt_of_the_class_is_a_finding_beside_the_others(tmp_path, quick):
    path, out = tmp_path / "counts.py", tmp_path / "out.json"
    path.write_text(HISTORY.format(condition="0"))
    assert call(verify, f"{path}:Interrupts", json=out) == 1
    rows = {row["property"]: row for row in json.loads(out.read_text())["properties"]}
    assert rows["collective.conservation"]["outcome"] == "fails"
    assert "raised KeyboardInterrupt" in rows["collective.raises"]["findings"][0]["message"]


def test_a_long_message_is_cut(brief):
    class Long(Vectorised):
        def allreduce(self, *arrays):
            raise KeyError("x" * 5000)

    with pytest.raises(AdapterError) as caught:
        probe(Driver(Long))
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    ("declared", "expected"),
    [
        ({"sizes": np.arange(64, 128, 32)}, (64, 96)),
        ({"sizes": range(64, 10**12, 64)}, range(64, 2**20 + 1, 64)),
        ({"workers": (np.int64(4), 2)}, (2, 4)),
        ({"chunk_multiple": np.int32(16)}, 16),
        ({"sizes": (10**9,)}, "sizes must have one of at most 1048576"),
        ({"workers": (2.5,)}, "workers must be integers"),
    ],
)
def test_counts_may_be_any_integers(declared, expected):
    ((name, _),) = declared.items()
    if isinstance(expected, str):
        with pytest.raises(ValueError, match=expected):
            Traits.of(type("Declares", (Vectorised,), declared))
    else:
        assert getattr(Traits.of(type("Declares", (Vectorised,), declared)), name) == expected


def test_only_classes_of_the_file_are_offered(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text("from verification.protocol import Snapshot\nclass Mine:\n    pass\ndef A():\n    pass\n")
    with pytest.raises(ValueError, match=r"A in .*mine\.py is a function; the classes there are: Mine$"):
        load_class(f"{path}:A")


def test_a_clause_that_is_left_out_says_why(tmp_path, quick):
    path = tmp_path / "mine.py"
    path.write_text("from verification.independent.optimizers import Eager\nclass Forgets(Eager):\n    save = None\n")
    with pytest.raises(typer.BadParameter, match=r"has no clause optimizer\.resume: Forgets has no save\(\)"):
        call(verify, f"{path}:Forgets", clause="optimizer.resume")


class WithinSizes(Vectorised):
    """Chunks of 32, of at most 120 elements; where D is a multiple of 32 N one chunk is longer, and one is empty."""

    chunk_multiple, sizes = 32, range(1, 121)

    def allreduce(self, buffers_ND, worker_errors_ND, server_error_D):
        n, dim = buffers_ND.shape
        self.server_chunks = n - (n > 1 and dim % (32 * n) == 0)
        outputs = super().allreduce(buffers_ND, worker_errors_ND, server_error_D)
        del self.server_chunks
        return outputs


def test_declared_sizes_lie_beside_multiples_too():
    """A size that a class declares is drawn for each of its places beside a multiple of the chunks, as others are."""
    driver = Driver(WithinSizes)
    space = Plan.of(driver, "collective", PROFILES["quick"], 0).space
    assert space.features["edge"] == tuple(EDGES)
    on = {**{name: levels[0] for name, levels in space.features.items()}, "size": (41, 256), "edge": "on"}
    for n in (2, 3):
        sizes = {optimizer_space.dims(on, n, driver.traits, np.random.default_rng(seed)) for seed in range(20)}
        assert sizes == {32 * n}
    plan = Plan.of(driver, "collective", PROFILES["quick"], 0)
    cases = (plan.case(*one) for one in plan.rows if one[0]["edge"] == "on")
    assert any(finding.clause == "server_scale" for case in cases for finding in check(driver, case, set()))


@pytest.mark.parametrize(
    ("sizes", "edges"), [((64, 128), ("any", "on")), ((9, 65), ("any", "1 over")), ((5,), ("any",))]
)
def test_no_row_asks_for_a_place_that_no_declared_size_has(sizes, edges):
    declared = type("Declared", (Vectorised,), {"sizes": sizes})
    plan = Plan.of(Driver(declared), "collective", PROFILES["quick"], 0)
    assert plan.space.features["edge"] == edges
    for row, seed in plan.rows:
        dims = [inputs[0].shape[1] for inputs in plan.case(row, seed).calls]
        assert set(dims) <= set(sizes)
        low, high = row["size"]
        assert low <= dims[-1] <= high


class LastErrorLost(BaseOptimizer):
    """The error of the last element is lost where a run goes on with other workers, and its byte is not full."""

    sizes = range(1, 121)

    def resize(self, n_workers):
        super().resize(n_workers)
        if self.hyper.compress == "update" and self.E_D.size % 8:
            self.E_D[-1] = 0


@pytest.mark.parametrize("seed", range(2))
def test_what_a_checkpoint_loses_is_found_whatever_came_before(seed):
    plan = Plan.of(Driver(LastErrorLost), "optimizer", PROFILES["quick"], seed)
    wanted = {"compress": "update", "end": "resize"}
    cases = [plan.case(*one) for one in plan.rows if wanted.items() <= one[0].items()]
    assert all(case.program[-1].startswith("resize ") for case in cases)
    assert any(one.clause == "resize" for case in cases for one in check(plan.driver, case, set()))


@pytest.mark.parametrize(
    ("declared", "untied"),
    [
        ({}, ()),
        ({"takes": {"beta2": 0.999}}, ("compress update",)),
        ({"takes": {"eps": (1e-8, 0.5)}}, ()),
        ({"takes": {"beta1": 0.9}}, ("any level",)),
        ({"compresses": False}, ()),
    ],
)
def test_what_no_exact_tie_has_is_named(declared, untied):
    driver = Driver(type("Declared", (BaseOptimizer,), declared))
    assert Plan.of(driver, "optimizer", replace(PROFILES["quick"], arrays=0, cheap=0), 0).untied() == untied
    told = coverage_lines(Coverage("optimizer", (1, 1), (1, 1), {}, untied=untied))
    assert any(line.startswith("  exact ties: none with ") for line in told) == bool(untied)
