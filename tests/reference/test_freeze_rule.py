"""The freeze rules C10: when each fires, what only the two-sided one notices, and what is said where it does not."""

import numpy as np
import pytest

from reference.optimizers import make
from reference.optimizers.freeze_rule import TOLERANCE
from reference.optimizers.one_bit_adam import OneBitAdam

F32 = np.float32
DELTA = 10  # beta2 = 0.9
ARRAYS = {"W": 6, "b": 2}


def run(rule, squares_TD, arrays=None, **more):
    """The optimizer and its state after the first step at which it froze, or after the last one."""
    optimizer = OneBitAdam(lr=1e-3, freeze_step=rule, beta2=0.9, arrays=arrays or {}, **more)
    state = optimizer.init(np.zeros(squares_TD.shape[1], F32), 2)
    for squares_D in squares_TD:
        state = optimizer.step(state, np.tile(np.sqrt(squares_D), (2, 1)).astype(F32))
        if state.frozen_at:
            break
    return optimizer, state


def growing(steps=80):
    """Squared gradients (T, 8) that grow by 20 % a step for 30 steps and stay."""
    return np.repeat(1.2 ** np.minimum(np.arange(steps), 30)[:, None], 8, axis=1)


def test_both_fire_at_their_first_chance_on_constant_gradients():
    """Nothing is left to settle: the corrected norm is the same from step 1 on."""
    for rule in ("auto", "paper"):
        assert run(rule, np.ones((40, 8)))[1].frozen_at == DELTA + 1


def test_growth_passes_the_published_rule_and_not_ours():
    assert run("paper", growing())[1].frozen_at == DELTA + 1
    frozen_at = run("auto", growing())[1].frozen_at
    assert frozen_at is not None
    assert frozen_at > 30 + DELTA


@pytest.mark.parametrize("shift", [0.9, 1.1])
def test_it_fires_on_either_side_within_the_tolerance(shift):
    """Corrected norms, computed here in float64, say at which step; a jump up or down by a tenth delays it."""
    squares_TD = np.ones((80, 8))
    squares_TD[3:] *= shift
    v, norms = 0.0, [np.nan]
    for t, squares_D in enumerate(squares_TD, 1):
        v = 0.9 * v + 0.1 * squares_D.sum()
        norms.append(v / (1 - 0.9**t))
    due = [t for t in range(DELTA + 1, 81) if abs(norms[t] / norms[t - DELTA] - 1) <= TOLERANCE]
    assert run("auto", squares_TD)[1].frozen_at == due[0]
    assert due[0] > DELTA + 1


def test_arrays_that_take_turns_are_told_apart():
    """The sum of v stands still while one array hands over to the other: only by array does anybody see it."""
    share_T = np.linspace(0.9, 0.1, 40)
    squares_TD = np.concatenate([np.tile(share_T[:, None] / 6, 6), np.tile((1 - share_T[:, None]) / 2, 2)], axis=1)
    assert run("auto", squares_TD)[1].frozen_at == DELTA + 1
    optimizer, state = run("auto", squares_TD[: 3 * DELTA], ARRAYS)
    assert state.frozen_at is None
    assert "2 of 2 arrays" in optimizer.freeze_diagnosis(state)


def test_an_array_that_wakes_up_late_has_not_settled():
    squares_TD = np.ones((40, 8))
    squares_TD[:15, 6:] = 0
    assert run("auto", squares_TD, ARRAYS)[1].frozen_at == DELTA + 1, "until then b has no gradient at all"
    squares_TD[5:, 6:] = 1
    optimizer, state = run("auto", squares_TD[:12], ARRAYS)
    assert state.frozen_at is None
    assert "1 of 2 arrays moved by more than 4%, b most, which was 0 then" in optimizer.freeze_diagnosis(state)


@pytest.mark.parametrize("rule", ["auto", "paper"])
def test_a_variance_of_zero_is_not_frozen(rule):
    assert run(rule, np.zeros((40, 8)))[1].frozen_at is None


def test_the_diagnosis_says_where_the_rule_stands():
    falling_TD = np.ones((60, 8))
    falling_TD[:, :6] = 0.9 ** np.arange(60.0)[:, None]
    optimizer, state = run("auto", falling_TD[:5], ARRAYS)
    assert "too early to tell" in optimizer.freeze_diagnosis(state)
    optimizer, state = run("auto", falling_TD, ARRAYS)
    change = state.variance_norms[-1][0] / state.variance_norms[0][0] * (1 - 0.9**50) / (1 - 0.9**60) - 1
    assert f"W most, by {change:+.1%}" in optimizer.freeze_diagnosis(state)
    optimizer, state = run("auto", np.ones((40, 8)))
    assert optimizer.freeze_diagnosis(state) == f"frozen at step {DELTA + 1}"
    optimizer, state = run("auto", np.ones((12, 8)), lr_warmup_steps=30)
    assert "v has settled" in optimizer.freeze_diagnosis(state)


def test_bad_arguments():
    with pytest.raises(ValueError, match="freeze_step must be an integer >= 1, or one of auto, paper, got 'soon'"):
        make("one_bit_adam", lr=1e-3, freeze_step="soon")
    with pytest.raises(ValueError, match=r"arrays\['W'\] must be an integer >= 1, got 0"):
        make("one_bit_adam", lr=1e-3, freeze_step="auto", arrays={"W": 0})
    with pytest.raises(ValueError, match="arrays must hold all 9 parameters, got sizes that add up to 8"):
        make("one_bit_adam", lr=1e-3, freeze_step="auto", arrays=ARRAYS).init(np.zeros(9, F32), 2)
