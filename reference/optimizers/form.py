"""What the arrays of a state stand for, and whether an optimizer would read them so.

Two optimizers may keep arrays of the same names and shapes that do not mean the same: a momentum or an update [C12],
errors of momenta, of gradients or of walks, layers in another order. The optimizer that makes a state writes down in
``State.form`` what its arrays depend on, under the name of the hyper-parameter where there is one; who steps from it
compares. What only changes the steps to come is not there: step sizes, decays, scales, chunks, blocks and compressors,
for the law L1 holds with any of them; a floor, which is in the frozen v already; a schedule.
"""

from __future__ import annotations

from typing import Any

from reference.state import State

_KEEP = "give the same to this optimizer"
_ONLY_A_WARM_UP = f"{_KEEP}, for only a warm-up can change it"

REASONS = {
    "compress": f"from the freeze on its momentum and errors are in units of what is compressed; {_ONLY_A_WARM_UP}",
    "frozen_dtype": f"P is what it was rounded to at the freeze; {_ONLY_A_WARM_UP}",
    "bias_correction": f"P is what it was at the freeze; {_ONLY_A_WARM_UP}",
    "eps": f"P is what it was at the freeze; {_ONLY_A_WARM_UP}",
    "beta2": f"P is what it was at the freeze, and 1 - beta2^T_w is in it; {_ONLY_A_WARM_UP}",
    "shapes": f"what it holds of a layer would be another's; {_KEEP}",
    "arrays": f"its norms of v are those of its arrays; {_KEEP}, or call dataclasses.replace(state, variance_norms=())",
    "rate": "it is the sum of lr since the last meeting, by which the next one divides; change lr or the schedule of "
    "meetings after a step in which the workers meet by both",
    "momentum": "it would be read in other units; go on with the optimizer that made it, or set the momentum to zero",
    "errors": "they would be lost, or read in other units; go on with the optimizer that made them or set them to zero",
}
"""For every entry of a form: why it can't be another one, and what to do."""

PHRASES = ("momentum", "errors")
"""Entries that say in words what an array is, and say nothing where it is all zero."""


def check_form(state: State, form: dict[str, Any], name: str, *, freezes: bool) -> None:
    """Whether the arrays of ``state`` are what an optimizer with this ``form`` and ``name`` takes them for.

    A state that says nothing of an entry, as one made by hand, is not asked for it.

    Raises:
        ValueError: they are not; one sentence says what differs and what to do.
    """
    if state.frozen_at is not None and not freezes:
        raise ValueError(
            f"this state has a variance that was frozen at step {state.frozen_at:,} and this {name} freezes none; go "
            "on with the optimizer that froze it, or from a state of its warm-up"
        )
    for entry, mine in form.items():
        theirs = state.form.get(entry, mine)
        if theirs != mine and not (entry in PHRASES and _is_zero(state, entry)):
            made_with, has = (one if entry in PHRASES else f"{entry}={_short(one)}" for one in (theirs, mine))
            raise ValueError(f"this state was made with {made_with} and this {name} has {has}: {REASONS[entry]}")


def _is_zero(state: State, entry: str) -> bool:
    arrays = (state.momentum,) if entry == "momentum" else (state.worker_errors, state.server_error)
    return not any((array != 0).any() for array in arrays)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
