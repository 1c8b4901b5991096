"""What is particular about DeepSpeed 0.19.6's 0/1 Adam, each with the smallest input that shows it.

A check is given ``engine(arrays, **settings)``, as in ``deepspeed_findings.py``: two workers, lr 1, betas (0.5, 0.5),
eps 1 where it says nothing else. ``begun()`` takes the step on zeros that the wrapper of fp16 and bf16 takes anyway.
``zoadam.py`` is deepspeed/runtime/fp16/onebit/zoadam.py. Its own count of steps is one more than t.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from verification.adapters.published import deepspeed_findings
from verification.adapters.published.deepspeed_findings import Setting, hold, sixty_steps
from verification.adapters.published.deepspeed_zero_one import DeepSpeedZeroOneAdam
from verification.adapters.published.findings import finding
from verification.protocol import ZeroOneHyper

settings = partial(deepspeed_findings.settings, optimizer="ZeroOneAdam")


def clauses_hold(engine: Setting, *clauses: str) -> None:
    """Fifty steps after the freeze were judged by these clauses, and none was broken; meetings are 1, 2 or 4 apart."""
    hyper = ZeroOneHyper(freeze_step=10, variance_doubling=3, local_doubling=8, local_limit=4)
    hold(clauses, *sixty_steps(DeepSpeedZeroOneAdam, hyper, *engine.args, first=11))


@finding("L1", "zoadam.py:249-262; nccl.py:69-71 and 112-118; compressed.py:73-76 and 97-106")
def nothing_is_lost_after_the_freeze(engine: Setting) -> None:
    """Fifty steps after the freeze, no padding: at a meeting output and new errors are the mean input and the old."""
    clauses_hold(engine, "worker_one_bit", "conservation")


@finding("C1", "nccl.py:70; compressed.py:74")
def scales_without_padding(engine: Setting) -> None:
    """Fifty steps after the freeze, no padding: workers and servers send the l2 scale."""
    clauses_hold(engine, "worker_scale", "server_scale")


@finding("C2", "nccl.py:75 (sign + 1); compressed.py:50 (signbit)")
def bits_are_the_signs(engine: Setting) -> None:
    """Fifty steps after the freeze, no padding: the bits are the signs wherever rounding can't change them."""
    clauses_hold(engine, "worker_bits", "server_bits")


@finding("L5", "zoadam.py:253-255")
def a_meeting_is_one_bit(engine: Setting) -> None:
    """Fifty steps after the freeze: what is received is one magnitude on each server chunk."""
    clauses_hold(engine, "one_bit")


@finding("F1", "zoadam.py:209-224")
def the_variance_is_frozen(engine: Setting) -> None:
    """Fifty steps after the freeze: no bit of the variance changes."""
    clauses_hold(engine, "kept_variance")


@finding("F2", "zoadam.py:224-225 and 240-246")
def workers_walk_alone(engine: Setting) -> None:
    """Fifty steps after the freeze: between meetings m_i, u_i and x_i follow the worker's own gradient."""
    clauses_hold(engine, "between", "local_momentum", "local_sum", "local_params")


@finding("F3", "zoadam.py:249-264")
def a_meeting_moves_as_published(engine: Setting) -> None:
    """Fifty steps after the freeze: a meeting moves x by P times what is received, and leaves one momentum."""
    clauses_hold(engine, "meeting", "meeting_params")


@finding(
    "L6",
    "zoadam.py:244 and 249: lr times the update is added to x, and what was accumulated of it is taken away again",
    when="in the last bits",
    note=(
        "(x + a) - a is not x in floating point, and a is another one on every worker. Nothing ever makes the "
        "parameters equal again. It grows slowly: in a plain loop in fp32 (torch.nn.Linear of 32 to 8, lr 1e-3) they "
        "are 6e-8 apart at most after 100 steps, 2e-7 after 1,500."
    ),
)
def replicas_are_equal_after_a_meeting(engine: Setting) -> None:
    """Eight steps after the freeze, in each of which the workers meet, parameters are bitwise equal on all."""
    run = engine([np.ones(32)], var_freeze_step=4, lr=0.125).begun()
    for _ in range(12):
        run.step(np.full(32, 1.0), np.full(32, 2.0))
    x, y = (row["params"][0][0] for row in run.seen())
    assert x == y, f"worker 0 has {x:.9g}, worker 1 has {y:.9g}"


@finding(
    "F3",
    "zoadam.py:210-222",
    differs="the warm-up is not the published one",
    note=(
        "A step of T_v is Adam's, with nothing compressed. In the others each worker's gradient is sent with one bit "
        "and error feedback, and the momentum is made of what all receive."
    ),
)
def the_warm_up_sends_momenta(engine: Setting) -> None:
    """Before the freeze what the workers agree on in a step is one magnitude."""
    run = engine([np.zeros(16)], var_freeze_step=9).begun()
    gradient = np.arange(1.0, 17.0)
    run.step(gradient, gradient)
    m = run.momentum[0]
    assert np.ptp(np.abs(m)) == 0, f"|momentum| is {m[0]:g} and {m[-1]:g} after a step of T_v"


@finding("L1", "zoadam.py:210-222")
def nothing_is_lost_in_the_warm_up(engine: Setting) -> None:
    """In six steps of the warm-up the gradient that m is made of and new errors are the mean gradient and the old."""
    run = engine([np.zeros(16)], var_freeze_step=99, var_update_scaler=1).begun()
    gradients = np.stack([np.arange(16) / 8, np.ones(16)]).astype(np.float32)
    kept, m = np.zeros(16), np.zeros(16)
    for _ in range(6):
        run.step(*gradients)
        seen = run.seen()
        received, m = (seen[0]["momentum"][0] - m / 2) * 2, seen[0]["momentum"][0]
        server = np.concatenate([row["server_error"][0] for row in seen])
        errors = np.mean([row["worker_error"][0] for row in seen], axis=0) + server
        off = np.abs(gradients.mean(axis=0) + kept - received - errors).max()
        assert off < 1e-5, f"{off:g} is lost"
        kept = errors


@finding("L1", "zoadam.py:310-317")
def errors_of_gradients_are_not_taken_for_others(engine: Setting) -> None:
    """At the freeze, when something else is sent from there on, errors are set to zero."""
    run = engine([np.zeros(16)], var_freeze_step=3, var_update_scaler=1).begun()
    for _ in range(2):
        run.step(np.arange(16.0), np.arange(16.0))
    assert run.worker_error[0].any(), "there is no error before the freeze"
    run.step(np.arange(16.0), np.arange(16.0))
    assert not run.worker_error[0].any(), f"there is an error of {run.worker_error[0].max():g}"


@finding(
    "F1",
    "zoadam.py:228-237 and 298-301",
    when="first step",
    note="In fp16 and bf16 the constructor of the wrapper takes this step, on zeros (fused_optimizer.py:121-133).",
)
def first_gradient_counts(engine: Setting) -> None:
    """The first gradient moves momentum and variance."""
    run = engine([[0.0]], var_freeze_step=9)
    run.step([1.0], [1.0])
    assert run.variance[0][0] == 0.5, f"v is {run.variance[0][0]:g} after a gradient of 1"


@finding("F1", "zoadam.py:303-308")
def the_variance_has_seen_var_freeze_step_gradients(engine: Setting) -> None:
    """After the step on zeros, v freezes after ``var_freeze_step`` gradients, if each of them refreshes it."""
    run = engine([[0.0]], var_freeze_step=2).begun()
    for _ in range(4):
        run.step([1.0], [1.0])
    assert run.variance[0][0] == 0.75, f"v is {run.variance[0][0]:g}"


@finding(
    "F1",
    "zoadam.py:210 and 269-274",
    differs="which steps are in T_v is a choice; both have as many between two doublings",
    note="v is refreshed where DeepSpeed's own count is a multiple of the interval, not an interval after the last.",
)
def refreshes_are_an_interval_apart(engine: Setting) -> None:
    """With the default kappa of 16 the steps of T_v are 1 apart, then 2, then 4."""
    run = engine([[0.0]], var_freeze_step=60).begun()
    seen, v = [], 0.0
    for t in range(1, 61):
        run.step([float(t)], [float(t)])
        seen += [t] if run.variance[0][0] != v else []
        v = run.variance[0][0]
    expected = [t for t in range(1, 61) if ZeroOneHyper(freeze_step=60).refreshes(t)]
    assert seen == expected, f"the last refreshes are in {seen[-5:]}, not in {expected[-5:]}"


@finding(
    "F3",
    "zoadam.py:247 and 286-290",
    differs="which steps are in T_u is a choice; the intervals are those of the paper",
    note="The workers meet where DeepSpeed's own count is a multiple of the interval, not an interval after the last.",
)
def meetings_are_an_interval_apart(engine: Setting) -> None:
    """After the freeze the steps of T_u are 1 apart, then 2, then 4."""
    run = engine([[0.0]], var_freeze_step=1, local_step_scaler=4, local_step_clipper=4).begun()
    seen = []
    for t in range(1, 18):
        run.step([1.0], [1.0])
        seen += [] if run.state[0]["momentum_accumulator"].any() else [t]
    published = ZeroOneHyper(freeze_step=1, local_doubling=4, local_limit=4)
    expected = [t for t in range(1, 18) if published.meets(t)]
    assert seen == expected, f"the workers meet in {seen}, not in {expected}"


@finding(
    "F2",
    "zoadam.py:214-222 (if self.size > 1)",
    when="one worker",
    note=(
        "In the warm-up a step outside of T_v drops its gradient and moves by the old momentum. With the defaults, "
        "var_update_scaler 16 and var_freeze_step 100,000, some 200 of the first 100,000 gradients count."
    ),
)
def one_worker_updates_its_momentum_in_the_warm_up(engine: Setting) -> None:
    """On one worker every gradient of the warm-up moves the momentum."""
    run = engine([[0.0]], n_workers=1, var_freeze_step=99, var_update_scaler=1).begun()
    idle = []
    for t in range(1, 17):
        before = run.momentum[0][0]
        run.step([float(t)])
        idle += [t] if run.momentum[0][0] == before else []
    assert not idle, f"{len(idle)} of 16 gradients are dropped: {idle}"


@finding("F2", "zoadam.py:224 and 251-260")
def one_worker_updates_its_momentum_after_the_freeze(engine: Setting) -> None:
    """On one worker every gradient after the freeze moves the momentum."""
    run = engine([[0.0]], n_workers=1, var_freeze_step=1).begun()
    run.step([1.0])
    run.step([3.0])
    assert np.isclose(run.momentum[0][0], 1.75), f"the momentum is {run.momentum[0][0]:g}, not 1.75"


@finding(
    "F3",
    "zoadam.py:241-246, 250 and 260: the decay is accumulated with the momentum, and the new momentum made of both",
    when="weight decay",
    note=(
        "The paper says nothing of weight decay, so this is judged by the optimizer's own warm-up, in which "
        "weight_decay is what it is called. From the freeze on each meeting puts lambda x (sqrt(v) + eps) into the "
        "momentum, which is used again in the next step. The decay is then 1 / (1 - beta1) times that: 10 times with "
        "beta1 0.9."
    ),
)
def weight_decay_is_what_it_is_called(engine: Setting) -> None:
    """After the freeze a step without gradient and momentum shrinks x by lr times weight_decay."""
    run = engine([np.ones(32)], var_freeze_step=2, lr=2.0**-6, weight_decay=0.5).begun()
    for gradient in [1.0, -0.5] + [0.0] * 11:  # the momentum is 0 at the freeze
        run.step(np.full(32, gradient), np.full(32, gradient))
    x = run.params[0][0]
    run.step(np.zeros(32), np.zeros(32))
    times = (x - run.params[0][0]) / (x * 2.0**-7)
    assert times < 1.1, f"the last of 12 steps decays by {times:.2f} times that"


@finding("F3", "zoadam.py:240-244")
def weight_decay_before_the_freeze_is_what_it_is_called(engine: Setting) -> None:
    """In the warm-up a step without gradient and momentum shrinks x by lr times weight_decay."""
    run = engine([np.ones(32)], var_freeze_step=99, lr=2.0**-6, weight_decay=0.5).begun()
    for gradient in [1.0, -0.5] + [0.0] * 11:
        run.step(np.full(32, gradient), np.full(32, gradient))
    x = run.params[0][0]
    run.step(np.zeros(32), np.zeros(32))
    times = (x - run.params[0][0]) / (x * 2.0**-7)
    assert np.isclose(times, 1.0, rtol=1e-3), f"the last of 12 steps decays by {times:.2f} times that"


@finding(
    "F3",
    "zoadam.py:260 (a division by the sum of learning rates)",
    differs="the published algorithm divides by the same sum; our reference lets each worker keep its momentum there",
    note=(
        "DeepSpeed's WarmupDecayLR ends at 0, its default warmup_min_lr, and stays there. The momentum of the first "
        "such step is infinite or NaN, and the second step moves by 0 times that."
    ),
)
def a_learning_rate_of_zero_moves_nothing(engine: Setting) -> None:
    """After the freeze two steps with a learning rate of 0 leave finite parameters."""
    run = engine([[0.0]], var_freeze_step=1).begun()
    run.step([1.0], [1.0])
    run.step([1.0], [1.0])
    run.option("lr", 0.0)
    run.step([1.0], [1.0])
    run.step([1.0], [1.0])
    assert np.isfinite(run.params[0][0]), f"x is {run.params[0][0]:g}"


@finding("C5", "zoadam.py:158 (read, never used)", note="Its default is on. The published algorithm has none either.")
def bias_correction_is_done(engine: Setting) -> None:
    """``bias_correction`` changes the first steps, as in Adam."""
    runs = [engine([[0.0]], var_freeze_step=9, bias_correction=on).begun() for on in (True, False)]
    for run in runs:
        run.step([1.0], [1.0])
    on, off = (run.params[0][0] for run in runs)
    assert on != off, f"x is {on:g} with it and without it"


@finding(
    "C1",
    "zoadam.py:185-195; nccl.py:65-70; compressed.py:70-74",
    when="padding",
    note=(
        "As in OneBitAdam: the scale is too small by √(d/d_pad). d_pad is the next multiple of N·lcm(N, 8): in fp32 of "
        "each tensor, so it matters for small ones; in fp16 and bf16 of the whole parameter group, where it is nothing."
    ),
)
def padding_is_not_in_the_scale(engine: Setting) -> None:
    """One number is its own scale, and leaves no error."""
    run = engine([[0.0]], var_freeze_step=1).begun()
    for gradient in (0.0, 1.0):
        run.step([gradient], [gradient])
    assert run.worker_error[0][0] == 0.0, f"|u| is 0.5, the error is {abs(run.worker_error[0][0]):g}"


@finding(
    "C6",
    "zoadam.py:250-261",
    when="without a mask",
    note="As in OneBitAdam, whose comment says that the user has to provide exp_avg_mask; here there is no comment.",
)
def a_coordinate_without_gradient_stays(engine: Setting) -> None:
    """A coordinate whose gradient is always zero does not move."""
    run = engine([[0.0, 0.0]], var_freeze_step=1, eps=2.0**-10).begun()
    for _ in range(2):
        run.step([1.0, 0.0], [1.0, 0.0])
    assert run.params[0][1] == 0.0, f"it is at {run.params[0][1]:g} after two steps"


@finding("C6", "zoadam.py:256-259", note="What the user writes for a coordinate without gradient works.")
def a_masked_coordinate_stays(engine: Setting) -> None:
    """With ``exp_avg_mask`` a coordinate whose gradient is always zero does not move."""
    run = engine([[0.0, 0.0]], var_freeze_step=1, eps=2.0**-10).begun()
    run.mask([1.0, 0.0])
    for _ in range(2):
        run.step([1.0, 0.0], [1.0, 0.0])
    assert run.params[0][1] == 0.0, f"it is at {run.params[0][1]:g} after two steps"


@finding("C8", "zoadam.py:160-169 (no check); fused_optimizer.py:259-278 (fp16 only: use_grad_scaling)")
def nan_in_the_warm_up_is_skipped(engine: Setting) -> None:
    """A NaN on one worker leaves the parameters of all as they are."""
    run = engine([[0.0]], var_freeze_step=9).begun()
    run.step([np.nan], [1.0])
    assert all(np.isfinite(row["params"][0]).all() for row in run.seen()), "the parameters are NaN"


@finding("C8", "zoadam.py:224 (no check); deepspeed/runtime/utils.py:332-333 (fp16: all ranks hear of it)")
def nan_after_the_freeze_is_skipped(engine: Setting) -> None:
    """A NaN on one worker, whose gradients the others do not see, leaves the parameters of all as they are."""
    run = engine([[0.0]], var_freeze_step=1).begun()
    run.step([1.0], [1.0])
    before = [row["params"][0][0] for row in run.seen()]
    run.step([np.nan], [1.0])
    after = [row["params"][0][0] for row in run.seen()]
    assert before == after, f"x was {before[0]:g}, is {', '.join(f'{x:g}' for x in after)}"


@finding(
    "L6",
    "zoadam.py:336-354: var_freeze_key is set, which nothing reads; freeze_key, which step() reads, stays False",
    when="resume",
    note=(
        "The gradients are not averaged any more (enable_backward_allreduce is off), but the next step refreshes v "
        "with them, and moves by them. So v and x are another on each worker from there on."
    ),
)
def replicas_agree_after_a_resume_after_the_freeze(engine: Setting) -> None:
    """Two steps after a checkpoint from after the freeze is loaded, parameters are equal on all workers to 0.1 %."""
    run = engine([[0.0]], var_freeze_step=2).begun()
    for _ in range(3):
        run.step([1.0], [1.0])
    again = run.resumed()
    for _ in range(2):
        again.step([1.0], [2.0])
    x, y = (row["params"][0][0] for row in again.seen())
    assert np.isclose(x, y, rtol=1e-3), f"worker 0 has {x:g}, worker 1 has {y:g}"


@finding("F1", "zoadam.py:178-183, 209-211 and 336-354", when="resume")
def the_variance_stays_frozen_after_a_resume(engine: Setting) -> None:
    """Two steps after a checkpoint from after the freeze is loaded, v is as it was."""
    run = engine([[0.0]], var_freeze_step=2).begun()
    for _ in range(3):
        run.step([1.0], [1.0])
    again, v = run.resumed(), run.variance[0][0]
    for _ in range(2):
        again.step([1.0], [2.0])
    after = [row["variance"][0][0] for row in again.seen()]
    assert after == [v, v], f"v was {v:g}, is {after[0]:g} on worker 0 and {after[1]:g} on worker 1"


@finding(
    "L6",
    "zoadam.py:338-348 (the flag is set by the old interval), against 178-183 (the interval is 1 again)",
    when="resume",
    note="Where the next step would not have been one of T_v: then v is refreshed with gradients of the worker alone.",
)
def variances_agree_after_a_resume_in_the_warm_up(engine: Setting) -> None:
    """Two steps after a checkpoint of the warm-up is loaded, v is the same on all workers."""
    run = engine([[0.0]], var_freeze_step=99, var_update_scaler=1).begun()
    for _ in range(3):
        run.step([1.0], [1.0])
    again = run.resumed()
    for _ in range(2):
        again.step([1.0], [2.0])
    v, w = (row["variance"][0][0] for row in again.seen())
    assert v == w, f"v is {v:g} on worker 0, {w:g} on worker 1"


@finding(
    "L9",
    "zoadam.py:178-196 and 356-363",
    when="policy reset",
    note="The intervals of T_v and T_u are in the checkpoint, but start from 1 again.",
)
def intervals_survive_a_resume(engine: Setting) -> None:
    """A step after a resume in the warm-up, the interval of T_v is that of the run."""
    run = engine([[0.0]], var_freeze_step=99, var_update_scaler=1).begun()
    for _ in range(4):
        run.step([1.0], [1.0])
    again = run.resumed()
    for one in (run, again):
        one.step([1.0], [1.0])
    here, there = (one.state[0]["var_interval"] for one in (run, again))
    assert here == there, f"it is {here} without the interruption, {there} after it"


@finding("L9", "zoadam.py:356-361", when="errors reset", note="As in OneBitAdam, which gives its reasons.")
def errors_survive_a_resume(engine: Setting) -> None:
    """A step of T_v after a resume in the warm-up, errors are those of the run."""
    run = engine([np.zeros(16)], var_freeze_step=99, var_update_scaler=1).begun()
    for _ in range(2):
        run.step(np.arange(16.0), np.arange(16.0))
    again = run.resumed()
    for one in (run, again):
        one.step(np.arange(16.0), np.arange(16.0))
    here, there = (np.abs(one.worker_error[0]).max() for one in (run, again))
    assert here == there, f"the largest is {here:g} without the interruption, {there:g} after it"


@finding(
    "L9",
    "zoadam.py:362-363",
    when="between meetings",
    note="The checkpoint has x of worker 0, with the steps that it took alone, and those of all others are lost.",
)
def steps_alone_survive_a_resume(engine: Setting) -> None:
    """Between two meetings every worker is after a resume where it was before."""
    run = engine([[0.0]], var_freeze_step=1, local_step_scaler=1).begun()
    for t in range(5):
        run.step([1.0], [1.0 if t < 4 else 3.0])
    again = run.resumed()
    x, y = (one.seen()[1]["params"][0][0] for one in (run, again))
    assert x == y, f"worker 1 was at {x:g}, is at {y:g}"


@finding(
    "F1",
    "zoadam.py:161-162, 206-210 and 275-284",
    when="untouched parameters",
    note=(
        "A parameter without gradient doesn't count the step, so its T_v is another from there on, while the flag "
        "that averages gradients is set for the last parameter. In fp16 and bf16 a group is one tensor, and it can't "
        "happen."
    ),
)
def a_batch_need_not_touch_every_parameter(engine: Setting) -> None:
    """After one step of the warm-up that touches no worker's first parameter, its v is the same on all workers."""
    run = engine([[0.0], [0.0]], var_freeze_step=99, var_update_scaler=1).begun()
    for t in range(1, 7):
        first = [None if t == 2 else [scale] for scale in (1.0, 2.0)]
        run.step([first[0], [1.0]], [first[1], [2.0]])
    v, w = (row["variance"][0][0] for row in run.seen())
    assert v == w, f"v is {v:g} on worker 0, {w:g} on worker 1"


FINDINGS = (
    nothing_is_lost_after_the_freeze,
    scales_without_padding,
    bits_are_the_signs,
    a_meeting_is_one_bit,
    the_variance_is_frozen,
    workers_walk_alone,
    a_meeting_moves_as_published,
    replicas_are_equal_after_a_meeting,
    the_warm_up_sends_momenta,
    nothing_is_lost_in_the_warm_up,
    errors_of_gradients_are_not_taken_for_others,
    first_gradient_counts,
    the_variance_has_seen_var_freeze_step_gradients,
    refreshes_are_an_interval_apart,
    meetings_are_an_interval_apart,
    one_worker_updates_its_momentum_in_the_warm_up,
    one_worker_updates_its_momentum_after_the_freeze,
    weight_decay_before_the_freeze_is_what_it_is_called,
    weight_decay_is_what_it_is_called,
    a_learning_rate_of_zero_moves_nothing,
    bias_correction_is_done,
    padding_is_not_in_the_scale,
    a_coordinate_without_gradient_stays,
    a_masked_coordinate_stays,
    nan_in_the_warm_up_is_skipped,
    nan_after_the_freeze_is_skipped,
    replicas_agree_after_a_resume_after_the_freeze,
    the_variance_stays_frozen_after_a_resume,
    variances_agree_after_a_resume_in_the_warm_up,
    intervals_survive_a_resume,
    errors_survive_a_resume,
    steps_alone_survive_a_resume,
    a_batch_need_not_touch_every_parameter,
)
