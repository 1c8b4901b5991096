"""Verdicts: nothing holds unless it was checked, whatever the class says, fixes, or how slow it is."""

from __future__ import annotations

import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from verification.independent.declared import Float32Corrections, PowersOfTwo, WarmUpAlone, WorkersAlone
from verification.independent.optimizers import Eager
from verification.relation.finding import AdapterError
from verification.search.clauses import CLAUSES
from verification.search.driver import Driver
from verification.search.pace import whole_time
from verification.search.search import probe, search


def outcomes(under_test, profile, **options):
    result = search(Driver(under_test), profile=profile, **options)
    return {verdict.clause.id: verdict.outcome for verdict in result.verdicts}, result


class NothingAtAll(Eager):
    def start(self, params_D, n_workers, hyper):
        raise NotImplementedError("next year")


class CorrectsAndForgets(Eager):
    """Always corrects its bias, and drops every error."""

    workers = 1, 3
    takes = {"bias_correction": True}  # noqa: RUF012

    def start(self, params_D, n_workers, hyper):
        if not hyper.bias_correction:
            raise NotImplementedError("it always corrects")
        super().start(params_D, n_workers, hyper)

    def exchange(self, inputs_ND, live, new_e, new_E):
        super().exchange(inputs_ND, live, new_e, new_E)
        new_e[:], new_E[:] = 0, 0


class Undeclared(CorrectsAndForgets):
    takes = {}  # noqa: RUF012


def test_a_class_that_refuses_everything_is_not_checked(brief):
    found, result = outcomes(NothingAtAll, brief)
    assert set(found.values()) == {"not checked"}
    assert result.coverage[0].pairs[0] == 0
    assert "refused (next year): all of them; declare" in result.notes[0]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("under_test", [CorrectsAndForgets, Undeclared])
def test_a_class_that_always_corrects_is_still_checked(under_test, brief):
    found, result = outcomes(under_test, replace(brief, largest=64, simplifying=0))
    assert found["optimizer.worker_one_bit"] == "fails"
    assert found["optimizer.adam_params"] == ("holds" if under_test is CorrectsAndForgets else "not checked")
    assert bool(result.notes) == (under_test is Undeclared)


def test_a_slow_class_is_told_how_long_a_check_takes(brief, monkeypatch):
    now = 1000.0

    class Slow(Eager):
        def step(self, grads_ND):
            nonlocal now
            now += 0.1
            super().step(grads_ND)

    clock = SimpleNamespace(monotonic=lambda: now, process_time=lambda: now)
    monkeypatch.setattr("verification.search.search.time", clock)
    monkeypatch.setattr("verification.search.driver.time", clock)
    found, result = outcomes(Slow, brief, minutes=1)
    assert "holds" not in found.values()
    assert 60 < result.seconds <= 60.5
    said = re.fullmatch(
        r".* at (\S+) s a call of Slow .* a full .* takes about (\d+) minutes?; say --minutes (\d+)", result.notes[0]
    )
    assert said
    assert "too few to say" in outcomes(Slow, brief, minutes=0.03)[1].notes[0]
    each, whole, limit = (float(number) for number in said.groups())
    assert 0.02 < each < 0.1  # a call is a step, or one that takes no time
    assert 1 < whole < limit <= 1.5 * whole + 2


@pytest.mark.one_in(3)
@pytest.mark.parametrize("under_test", [PowersOfTwo, WarmUpAlone, WorkersAlone])
def test_declared_limits_are_checked_fully_within(under_test, brief):
    found, result = outcomes(under_test, replace(brief, arrays=2))
    assert set(found.values()) == {"holds"}, [verdict for verdict in result.verdicts if verdict.outcome != "holds"]
    assert result.coverage[0].pairs[0] == result.coverage[0].pairs[1]
    assert not result.notes
    if under_test is WarmUpAlone:
        assert "optimizer.conservation" not in found
        assert "WarmUpAlone declares compresses = False" in result.left_out


@pytest.mark.soak
def test_only_the_clauses_asked_for(brief):
    found, result = outcomes(Eager, brief, only=("optimizer.frozen",))
    assert found == {"optimizer.frozen": "holds"}
    assert result.verdicts[0].cases >= 8


@pytest.mark.soak
def test_a_class_that_raises_now_and_then_fails_there(brief):
    class Odd(Eager):
        def step(self, grads_ND):
            if self.n == 7:
                raise SystemExit(3)
            super().step(grads_ND)

    found, result = outcomes(Odd, brief)
    assert found["optimizer.raises"] == "fails"
    assert (
        next(v for v in result.verdicts if v.outcome == "fails").findings[0].message == "Odd.step raised SystemExit: 3"
    )


def test_an_exception_that_fails_to_say_its_message_is_a_finding():
    class MuteError(Exception):
        def __str__(self):
            raise RuntimeError("no message")

    class Raises(Eager):
        def step(self, grads_ND):
            raise MuteError

    with pytest.raises(AdapterError, match=r"Raises\.step raised MuteError: \(its message can't be read\)"):
        probe(Driver(Raises))


def test_the_whole_time_is_so_much_a_call_and_so_much_an_element():
    costs_RK = np.random.default_rng(0).integers(10, 1000, (50, 2)).astype(float)
    seconds_R = costs_RK @ [0.5, 0.01]
    done_RK = np.column_stack([costs_RK, seconds_R])
    assert whole_time(done_RK[:10], costs_RK) == pytest.approx(seconds_R.sum())
    falling_RK = np.column_stack([costs_RK, costs_RK[:, 0] / costs_RK[:, 1]])
    assert whole_time(falling_RK, costs_RK) > 0
    a_call = seconds_R[:10].sum() / costs_RK[:10, 0].sum()  # rows a thousand times as long are not told from these
    assert whole_time(done_RK[:10], costs_RK * [1, 1000]) == pytest.approx(a_call * costs_RK[:, 0].sum())


def test_a_plain_input_must_pass(brief):
    class Exits(Eager):
        def step(self, grads_ND):
            raise SystemExit(3)

    with pytest.raises(AdapterError, match=r"Exits\.step raised SystemExit: 3") as caught:
        search(Driver(Exits), profile=brief)
    assert "\n" not in str(caught.value)


@pytest.mark.soak
def test_the_message_names_the_declaration_that_explains_it(brief):
    class FromTheRounded(Eager):
        def square(self, g):
            beta = np.float32(self.h.beta2)
            return beta * self.v + (np.float32(1) - beta) * g * g

    _, result = outcomes(FromTheRounded, brief)
    messages = [verdict.findings[0].message for verdict in result.of("fails")]
    assert messages
    assert all('complement = "subtracted" explains it' in message for message in messages)


@pytest.mark.soak
def test_float32_corrections_are_declared(brief):
    class NotSaid(Float32Corrections):
        correction = "float64"

    class OneStepLate(Float32Corrections):
        def corrections(self, second):
            return 1 - np.float32(self.h.beta1) ** max(1, self.t - 1), super().corrections(second)[1]

    messages = [verdict.findings[0].message for verdict in outcomes(NotSaid, brief)[1].of("fails")]
    assert messages
    assert all('correction = "float32" explains it' in message for message in messages)
    assert outcomes(OneStepLate, brief)[0]["optimizer.apply"] == "fails"


def test_clauses_say_what_they_are():
    assert len({clause.id for clause in CLAUSES}) == len(CLAUSES)
    for clause in CLAUSES:
        assert clause.level in ("collective", "optimizer")
        assert clause.law
        assert clause.title.endswith(".")
        assert clause.catches
