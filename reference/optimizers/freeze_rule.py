"""When the warm-up ends by itself [C10]: the published rule, and ours.

Both compare norms of v with those of Delta = round(1/(1-beta2)) steps before.

    "paper"   ||v_t||_1 >= 0.96 ||v_{t-Delta}||_1                  all of v, as it is in the state (theorems T7c, T7k)
    "auto"    |V_t - V_{t-Delta}| <= 0.04 V_{t-Delta}              for every array, V_t = ||v_t||_1 / (1 - beta2^t)

The published rule is one-sided and sees v grow from zero, so from a cold start it mostly holds at its first chance.
Ours certifies, array by array, that the weighted mean of the squared gradients of the window, summed over the array,
is within 0.04 beta2^Delta / (1 - beta2^Delta) V_{t-Delta}, about 2.3 %, of the V_t that is frozen (theorem T7i). It
says nothing of single coordinates, and nothing of what comes after the freeze (T7a).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from reference.arithmetic import Array, sum_of_magnitudes
from reference.state import State, live_in

RULES = ("auto", "paper")
PUBLISHED_RATIO = 0.96
TOLERANCE = 0.04
"""How far the corrected norm of an array may move over a window: what the published ratio lets v fall."""


def window_length(beta2: float) -> int:
    """Delta = round(1 / (1 - beta2)) steps."""
    return round(1 / (1 - beta2))


def norms_of(variance_D: Array, arrays: Mapping[str, int]) -> tuple[float, ...]:
    """||v||_1 of every array, in their order; what has overflowed is left out. No arrays: of all of v."""
    finite_D = np.where(live_in(variance_D), variance_D, 0)
    ends = np.cumsum(list(arrays.values()) or [variance_D.size])
    return tuple(float(sum_of_magnitudes(part)) for part in np.split(finite_D, ends[:-1]))


def holds(rule: str, state: State, beta2: float) -> bool:
    """Whether ``rule`` ends the warm-up after step ``state.step``; never before step Delta + 1, nor with v = 0."""
    if is_too_early(state, beta2):
        return False
    if rule == "paper":
        return sum(state.variance_norms[-1]) >= PUBLISHED_RATIO * sum(state.variance_norms[0])
    return all(abs(change) <= TOLERANCE for change in changes(state, beta2))


def is_too_early(state: State, beta2: float) -> bool:
    """Whether there is nothing to compare with, Delta steps ago."""
    return len(state.variance_norms) <= window_length(beta2) or not sum(state.variance_norms[0])


def changes(state: State, beta2: float) -> list[float]:
    """By what share the corrected norm of each array has moved over the window; inf where it was 0 and is not."""
    window = window_length(beta2)
    correction = (1 - beta2 ** (state.step - window)) / (1 - beta2**state.step)
    pairs = zip(state.variance_norms[0], state.variance_norms[-1], strict=True)
    return [after * correction / before - 1 if before else (np.inf if after else 0.0) for before, after in pairs]


def diagnosis(
    state: State, freeze_step: int | str, beta2: float, arrays: Mapping[str, int], lr_warmup_steps: int
) -> str:
    """One sentence: whether the variance is frozen, and if not, when it will be, or what a rule waits for.

    ``gpu_impl`` says the same in the same words, of parameters in place of arrays.
    """
    step = f"step {state.step:,}"
    if state.frozen_at is not None:
        return f"frozen at step {state.frozen_at:,}"
    if not isinstance(freeze_step, str):
        if freeze_step <= state.step:
            told = f"freeze_step={freeze_step:,} is over, so the next step ends the warm-up"
            return f"{step}: what was loaded is not frozen; {told}"
        return f"{step}: the warm-up ends after step {freeze_step:,}"
    return f"{step}: {_what_it_waits_for(state, freeze_step, beta2, arrays, lr_warmup_steps)}"


def _what_it_waits_for(state: State, rule: str, beta2: float, arrays: Mapping[str, int], lr_warmup_steps: int) -> str:
    """Why the rule has not ended the warm-up."""
    window = window_length(beta2)
    if is_too_early(state, beta2):
        was_zero = len(state.variance_norms) > window
        why = f"v was 0 {window:,} steps ago" if was_zero else f"norms are compared over {window:,} steps"
        return f"too early to tell, {why}"
    if holds(rule, state, beta2):
        if state.step < lr_warmup_steps:
            return f"v has settled; lr_warmup_steps={lr_warmup_steps:,} is not over"
        return f"v has settled; lr_warmup_steps={lr_warmup_steps:,} is over, so the next step may end the warm-up"
    advice = "a smaller beta2 has a shorter window, an integer as freeze_step needs no rule"
    if rule == "paper":
        share = sum(state.variance_norms[-1]) / sum(state.variance_norms[0])
        return (
            f"v still falls: its norm is {share:.2f} of what it was {window:,} steps ago, and {PUBLISHED_RATIO} would "
            f"end the warm-up; {advice}"
        )
    moved = dict(zip(arrays or {"v": 0}, changes(state, beta2), strict=True))
    restless = {name: change for name, change in moved.items() if abs(change) > TOLERANCE}
    worst = max(restless, key=lambda name: abs(restless[name]))
    how_far = f"by {restless[worst]:+.1%}" if np.isfinite(restless[worst]) else "which was 0 then"
    return (
        f"v has not settled: over the last {window:,} steps {len(restless)} of {len(moved)} arrays moved by more than "
        f"{TOLERANCE:.0%}, {worst} most, {how_far}; {advice}"
    )
