"""What is particular about DeepSpeed 0.19.6's 1-bit LAMB, each with the smallest input that shows it.

A check is given ``engine(arrays, **settings)``, as in ``deepspeed_findings.py``: two workers, lr 1, betas (0.5, 0.5),
eps 1 where it says nothing else. ``begun()`` takes the step on zeros that the wrapper of fp16 and bf16 takes anyway.
``lamb.py`` is deepspeed/runtime/fp16/onebit/lamb.py, ``unfused_optimizer.py`` is in deepspeed/runtime/fp16.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from verification.adapters.published import deepspeed_findings
from verification.adapters.published.deepspeed_findings import Setting, hold, sixty_steps
from verification.adapters.published.deepspeed_lamb import DeepSpeedLamb
from verification.adapters.published.findings import finding
from verification.protocol import LambHyper

settings = partial(deepspeed_findings.settings, optimizer="OneBitLamb")


def clauses_hold(engine: Setting, *clauses: str) -> None:
    """Sixty steps with layers of 32 and 64 numbers were judged by these clauses, and none was broken."""
    hold(clauses, *sixty_steps(DeepSpeedLamb, LambHyper(freeze_step=10, layers=(32, 64)), *engine.args))


@finding("L1", "lamb.py:294-316; nccl.py:69-71 and 112-118; compressed.py:73-76 and 97-106")
def nothing_is_lost(engine: Setting) -> None:
    """Sixty steps with no padding: at every element output and new errors are the mean input and the old errors."""
    clauses_hold(engine, "worker_one_bit", "conservation")


@finding("C1", "nccl.py:70; compressed.py:74")
def scales_without_padding(engine: Setting) -> None:
    """Sixty steps with no padding: workers and servers send the l2 scale."""
    clauses_hold(engine, "worker_scale", "server_scale")


@finding("C2", "nccl.py:75 (sign + 1); compressed.py:50 (signbit)")
def bits_are_the_signs(engine: Setting) -> None:
    """Sixty steps with no padding: workers and servers send the bit u >= 0 wherever rounding can't change it."""
    clauses_hold(engine, "worker_bits", "server_bits")


@finding("L3", "lamb.py:230-233")
def moments_are_those_of_adam(engine: Setting) -> None:
    """Ten steps of warm-up after the step on zeros: momentum and variance are Adam's, uncorrected."""
    clauses_hold(engine, "adam_momentum", "adam_variance")


@finding("L4", "lamb.py:256-262")
def the_variance_is_frozen(engine: Setting) -> None:
    """Fifty steps after the freeze: no bit of the variance changes."""
    clauses_hold(engine, "frozen")


@finding("L5", "lamb.py:264-284 and 327")
def the_scaled_momentum_is_one_bit(engine: Setting) -> None:
    """Fifty steps after the freeze: s m is one magnitude on each server chunk of the whole model."""
    clauses_hold(engine, "one_bit")


@finding("L6", "lamb.py:318-370")
def replicas_agree(engine: Setting) -> None:
    """Sixty steps without an interruption: parameters are bitwise equal on all workers."""
    clauses_hold(engine, "replicas")


@finding("F4", "lamb.py:238-255 and 366-370")
def x_moves_by_the_trust_ratio(engine: Setting) -> None:
    """Sixty steps: x moves by lr c in the warm-up, and by lr c-bar r after the freeze; c-bar is the mean of c."""
    clauses_hold(engine, "lamb_params", "trust_mean", "lamb_apply")


@finding("F5", "lamb.py:179-190")
def layers_get_one_size(engine: Setting) -> None:
    """At the freeze each layer gets the mean RMS of the layers' momenta over its own, for good."""
    clauses_hold(engine, "layer_scale")


@finding("F6", "lamb.py:234-235, 341-342 and 353-366")
def r_follows_the_fresh_variance(engine: Setting) -> None:
    """Fifty steps after the freeze, no weight decay: v' and r are those of the paper."""
    clauses_hold(engine, "fresh_variance", "variance_ratio")


@finding(
    "L3",
    "lamb.py:219-220, 256-262 and 374-378",
    when="first step",
    note="In fp16 and bf16 the constructor of the wrapper takes this step, on zeros (unfused_optimizer.py:407-420).",
)
def first_gradient_counts(engine: Setting) -> None:
    """The first gradient moves the momentum."""
    run = engine([[1.0]], freeze_step=9)
    run.step([1.0], [1.0])
    assert run.momentum[0][0] == 0.5, f"the momentum is {run.momentum[0][0]:g} after a gradient of 1"


@finding(
    "L3",
    "lamb.py:228, 234 and 380-383; unfused_optimizer.py:407-420",
    differs="one step of a warm-up of thousands",
    note="The step that only makes buffers is counted, so v has seen freeze_step - 1 gradients.",
)
def warm_up_has_freeze_step_gradients(engine: Setting) -> None:
    """The variance freezes after ``freeze_step`` gradients."""
    run = engine([[1.0]], freeze_step=2).begun()
    for _ in range(3):
        run.step([1.0], [1.0])
    assert run.variance[0][0] == 0.75, f"v is {run.variance[0][0]:g}: of one gradient, not of two"


@finding("C5", "lamb.py:196 and 320 (read, never used)", note="Its default is on. The paper has none either.")
def bias_correction_is_done(engine: Setting) -> None:
    """``bias_correction`` changes the first steps, as in Adam."""
    runs = [engine([[1.0, 1.0]], freeze_step=9, lr=0.125, bias_correction=on).begun() for on in (True, False)]
    for run in runs:
        run.step([1.0, 2.0], [1.0, 2.0])
    on, off = (run.params[0][0] for run in runs)
    assert on != off, f"x is {on:g} with it and without it"


@finding(
    "F4",
    "lamb.py:250 (if lamb_coeff != 1.0)",
    differs="a layer of norm 0 has no ratio; only a ratio of exactly 1 is left out besides",
    explains=("optimizer.trust_mean",),
)
def a_ratio_of_one_counts(engine: Setting) -> None:
    """A layer whose weights are 0 has the trust ratio 1, and its running mean is 0.1 after one step."""
    run = engine([[0.0]], freeze_step=9).begun()
    run.step([1.0], [1.0])
    mean = run.state[0]["lamb_coeff_freeze"]
    assert np.isclose(mean, 0.1), f"it is {mean:g}"


@finding(
    "F6",
    "lamb.py:355-357",
    differs="only with weight decay: r is moved towards 1 by how little of the step the momentum is; the paper has r",
)
def weight_decay_leaves_r(engine: Setting) -> None:
    """With weight decay r is the largest ratio of v to v', too."""
    run = engine([np.ones(16)], freeze_step=2, lr=0.125, weight_decay=0.5, factor_threshold=0.9).begun()
    for gradient in (1.0, 3.0):
        run.step(np.full(16, gradient), np.full(16, gradient))
    state = run.state[0]
    r = float(np.max((np.sqrt(state["exp_avg_sq"]) + 1) / (np.sqrt(state["exp_avg_sq_fresh"]) + 1)))
    assert np.isclose(state["last_factor"], r), f"r is {state['last_factor']:g}, not {r:g}"


@finding(
    "F5",
    "lamb.py:184-190 (a division by the layer's own RMS)",
    when="a layer without gradient",
    note="The training ends with an exception in the first step after the freeze. One layer that the loss doesn't use "
    "is enough. In fp16 and bf16 too, for the wrapper fills a missing gradient with zeros.",
)
def a_layer_without_momentum_is_left_alone(engine: Setting) -> None:
    """A layer whose gradient is always zero lets the others go on after the freeze."""
    run = engine([[1.0], [1.0]], freeze_step=2).begun()
    run.step([[1.0], [0.0]], [[1.0], [0.0]])
    try:
        run.step([[1.0], [0.0]], [[1.0], [0.0]])
    except RuntimeError as error:
        raise AssertionError(str(error)) from None


@finding(
    "F5",
    "lamb.py:198-200 (left out before its momentum is scaled), against 318-327 (all are divided by their scale)",
    when="untouched parameters",
    note="In fp16 and bf16 the wrapper fills a missing gradient with zeros (unfused_optimizer.py:216-220).",
)
def a_missing_gradient_is_a_gradient_of_zero(engine: Setting) -> None:
    """After the freeze a layer that a batch does not touch on any worker has a step without gradient."""
    runs = [engine([np.ones(16), np.ones(16)], freeze_step=2).begun() for _ in range(2)]
    for run, missing in zip(runs, (np.zeros(16), None), strict=True):
        for first in (np.ones(16), np.ones(16), missing):
            run.step([first, np.full(16, 8.0)], [first, np.full(16, 8.0)])
    m, other = (run.momentum[0][0] for run in runs)
    assert np.isclose(m, other), f"its momentum is {m:g} after a gradient of 0, {other:g} after none"


@finding(
    "C1",
    "lamb.py:265-284; nccl.py:70; compressed.py:74",
    when="padding",
    note=(
        "The norm of the padded buffer is divided by the root of its padded length. In every precision the buffer is "
        "the whole model, and at most N·lcm(N, 8) - 1 numbers are added to it, so for a real model it is nothing."
    ),
)
def padding_is_not_in_the_scale(engine: Setting) -> None:
    """One number is its own scale, and leaves no error."""
    run = engine([[1.0]], freeze_step=2).begun()
    for _ in range(2):
        run.step([1.0], [1.0])
    assert run.worker_error[0][0] == 0.0, f"u is 0.75, the error is {run.worker_error[0][0]:g}"


@finding(
    "C6",
    "lamb.py:328-335 and 343-344",
    when="without a mask",
    note="Its comment says so, and that the user has to provide exp_avg_mask for such parameters.",
)
def a_coordinate_without_gradient_stays(engine: Setting) -> None:
    """A coordinate whose gradient is always zero does not move."""
    run = engine([[1.0, 1.0]], freeze_step=2, eps=2.0**-10).begun()
    for _ in range(2):
        run.step([1.0, 0.0], [1.0, 0.0])
    assert run.params[0][1] == 1.0, f"it was at 1, and is at {run.params[0][1]:g} after two steps"


@finding("C6", "lamb.py:336-339", note="What the user writes for a coordinate without gradient works.")
def a_masked_coordinate_stays(engine: Setting) -> None:
    """With ``exp_avg_mask`` a coordinate whose gradient is always zero does not move."""
    run = engine([[1.0, 1.0]], freeze_step=2, eps=2.0**-10).begun()
    run.mask([1.0, 0.0])
    for _ in range(2):
        run.step([1.0, 0.0], [1.0, 0.0])
    assert run.params[0][1] == 1.0, f"it was at 1, and is at {run.params[0][1]:g} after two steps"


@finding(
    "C8",
    "lamb.py:198-204 (no check); unfused_optimizer.py:197-205",
    note="The wrapper skips the step, in bf16 too: not so that of OneBitAdam and 0/1 Adam.",
)
def nan_in_the_warm_up_is_skipped(engine: Setting) -> None:
    """A NaN on one worker leaves the parameters of all as they are."""
    run = engine([[1.0]], freeze_step=9).begun()
    run.step([np.nan], [1.0])
    assert all(np.isfinite(row["params"][0]).all() for row in run.seen()), "the parameters are NaN"


@finding("C8", "lamb.py:256-262 (no check); unfused_optimizer.py:197-205 (all ranks hear of it: utils.py:332-333)")
def nan_in_the_compression_stage_is_skipped(engine: Setting) -> None:
    """A NaN on one worker, whose gradients the others do not see, leaves the parameters of all as they are."""
    run = engine([[1.0]], freeze_step=2).begun()
    run.step([1.0], [1.0])
    run.step([1.0], [1.0])
    before = [row["params"][0][0] for row in run.seen()]
    run.step([np.nan], [1.0])
    after = [row["params"][0][0] for row in run.seen()]
    assert before == after, f"x was {before[0]:g}, is {', '.join(f'{x:g}' for x in after)}"


@finding(
    "L6",
    "lamb.py:219-220, 306-308, 374-378 and 426-434: the first step after the load is the one that makes buffers, the "
    "next is one of the warm-up while enable_backward_allreduce is off",
    when="resume",
    note="In fp16 and bf16 the wrapper's constructor has taken that step before the load.",
)
def replicas_agree_after_a_resume_in_the_compression_stage(engine: Setting) -> None:
    """Two steps after a checkpoint of the compression stage is loaded, all workers have the same parameters."""
    run = engine([[1.0]], freeze_step=2, lr=0.125).begun()
    for _ in range(2):
        run.step([1.0], [1.0])
    again = run.resumed()
    again.step([1.0], [-2.0])
    again.step([1.0], [-2.0])
    x, y = (row["params"][0][0] for row in again.seen())
    assert x == y, f"worker 0 has {x:g}, worker 1 has {y:g}"


@finding(
    "L9",
    "lamb.py:435-448, with the reasons",
    when="errors reset",
    note=(
        "Deliberate: rank 0's are the only errors in the checkpoint, so all are set to zero. Its authors found no "
        "harm in BERT pre-training when it is done seldom."
    ),
)
def errors_survive_a_resume(engine: Setting) -> None:
    """The first step after a resume in the compression stage uses the errors from before it."""
    run = engine([np.ones(16)], freeze_step=2).begun()
    for _ in range(2):
        run.step(np.arange(16.0), np.arange(16.0))
    again = run.resumed()
    for one in (run, again):
        one.step(np.arange(16.0), np.arange(16.0))
    m, other = (np.abs(one.momentum[0][0]) for one in (run, again))
    assert m == other, f"|momentum| is {m:g} without the interruption, {other:g} after it"


@finding("L9", "lamb.py:219-220, 256-262, 306-308 and 374-378", when="warm-up")
def a_resume_in_the_warm_up_keeps_the_momentum(engine: Setting) -> None:
    """The first step after a resume in the warm-up is the step that the run would have taken."""
    run = engine([np.ones(16)], freeze_step=9).begun()
    run.step(np.arange(16.0), np.arange(16.0))
    again = run.resumed()
    for one in (run, again):
        one.step(np.arange(16.0), np.arange(16.0))
    m, x, other, y = run.momentum[0], run.params[0], again.momentum[0], again.params[0]
    same = np.array_equal(m, other) and np.array_equal(x, y)
    assert same, f"the momentum of element 1 is {m[1]:g} without, {other[1]:g} with the resume"


@finding(
    "L9",
    "lamb.py:420-423",
    when="c-bar reset",
    note=(
        "It is in the checkpoint and set to 0. With k steps from there to the freeze, all steps of the compression "
        "stage are 1 - 0.9^k times as long as they should be."
    ),
)
def the_mean_trust_ratio_survives_a_resume(engine: Setting) -> None:
    """A step after a resume in the warm-up, the running mean of the trust ratio is that of the run."""
    run = engine([np.ones(16)], freeze_step=9, lr=0.125).begun()
    for _ in range(3):
        run.step(np.ones(16), np.ones(16))
    again = run.resumed()
    for one in (run, again):
        one.step(np.ones(16), np.ones(16))
    mean, other = (one.state[0]["lamb_coeff_freeze"] for one in (run, again))
    assert np.isclose(mean, other), f"it is {mean:.3g} without the interruption, {other:.3g} after it"


FINDINGS = (
    nothing_is_lost,
    scales_without_padding,
    bits_are_the_signs,
    moments_are_those_of_adam,
    the_variance_is_frozen,
    the_scaled_momentum_is_one_bit,
    replicas_agree,
    x_moves_by_the_trust_ratio,
    layers_get_one_size,
    r_follows_the_fresh_variance,
    first_gradient_counts,
    warm_up_has_freeze_step_gradients,
    bias_correction_is_done,
    a_ratio_of_one_counts,
    weight_decay_leaves_r,
    a_layer_without_momentum_is_left_alone,
    a_missing_gradient_is_a_gradient_of_zero,
    padding_is_not_in_the_scale,
    a_coordinate_without_gradient_stays,
    a_masked_coordinate_stays,
    nan_in_the_warm_up_is_skipped,
    nan_in_the_compression_stage_is_skipped,
    replicas_agree_after_a_resume_in_the_compression_stage,
    errors_survive_a_resume,
    a_resume_in_the_warm_up_keeps_the_momentum,
    the_mean_trust_ratio_survives_a_resume,
)
