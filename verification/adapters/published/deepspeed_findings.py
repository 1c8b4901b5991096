"""What is particular about DeepSpeed 0.19.6's 1-bit Adam, each with the smallest input that shows it.

A check is given ``engine(arrays, **settings)``, an :class:`Engine` of one precision and transport. Two workers, lr 1,
betas (0.5, 0.5), eps 1 where it says nothing else. ``adam.py`` is deepspeed/runtime/fp16/onebit/adam.py, ``nccl.py``
and ``compressed.py`` are in deepspeed/runtime/comm, ``fused_optimizer.py`` in deepspeed/runtime/fp16.
"""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import numpy as np

from verification.adapters.published.deepspeed import (
    PRECISIONS,
    TRANSPORTS,
    DeepSpeedCollective,
    DeepSpeedCompressedCollective,
    DeepSpeedOptimizer,
    Engine,
)
from verification.adapters.published.findings import finding
from verification.protocol import CommonHyper, Hyper, Traits
from verification.relation import relation_of

Setting = partial[Engine]


def transport_of(engine: Setting) -> DeepSpeedCollective:
    """The collective alone, of the transport that ``engine`` uses."""
    return DeepSpeedCompressedCollective() if engine.args[1] == "compressed" else DeepSpeedCollective()


@finding(
    "L3",
    "adam.py:170-182 and 241-245",
    when="first step",
    note="In fp16 and bf16 the constructor of the wrapper takes this step, on zeros (fused_optimizer.py:121-133).",
)
def first_gradient_counts(engine: Setting) -> None:
    """The first gradient moves the momentum."""
    run = engine([[0.0]], freeze_step=9)
    run.step([1.0], [1.0])
    assert run.momentum[0][0] == 0.5, f"the momentum is {run.momentum[0][0]:g} after a gradient of 1"


@finding(
    "L3",
    "adam.py:189 and 248; fused_optimizer.py:121-133",
    differs="one step of a warm-up of thousands",
    note="The step that only makes buffers is counted, so v has seen freeze_step - 1 gradients.",
)
def warm_up_has_freeze_step_gradients(engine: Setting) -> None:
    """The variance freezes after ``freeze_step`` gradients."""
    run = engine([[0.0]], freeze_step=2)
    for _ in range(4):
        run.step([1.0], [1.0])
    assert run.variance[0][0] == 0.75, f"v is {run.variance[0][0]:g}: of one gradient, not of two"


@finding("C5", "adam.py:150 (read, never used)", note="Its default is on. The published algorithm has none either.")
def bias_correction_is_done(engine: Setting) -> None:
    """``bias_correction`` changes the first steps, as in Adam."""
    runs = [engine([[0.0]], freeze_step=9, bias_correction=on) for on in (True, False)]
    for run in runs:
        run.step([1.0], [1.0])
        run.step([1.0], [1.0])
    on, off = (run.params[0][0] for run in runs)
    assert on != off, f"x is {on:g} with it and without it"


@finding(
    "C1",
    "adam.py:171-180; nccl.py:65-70; compressed.py:70-74",
    when="padding",
    note=(
        "The norm of the padded buffer is divided by the root of its padded length, so the scale is too small by "
        "√(d/d_pad). Error feedback returns what that takes away. d_pad is the next multiple of N·lcm(N, 8): in fp32 "
        "of each tensor, so it matters for small ones; in fp16 and bf16 of the whole parameter group, where it is "
        "nothing."
    ),
)
def padding_is_not_in_the_scale(engine: Setting) -> None:
    """One number is its own scale, and leaves no error."""
    run = engine([[0.0]], freeze_step=2)
    for gradient in (0.0, 0.0, 1.0):
        run.step([gradient], [gradient])
    assert run.worker_error[0][0] == 0.0, f"u is 0.5, the error is {run.worker_error[0][0]:g}"


@finding(
    "C1",
    "nccl.py:70; compressed.py:74 (norm of float32 numbers)",
    when="|u| > 1e19",
    note="From |u| of 1.8e19 on. Such a momentum means a training that has failed already.",
)
def scale_of_large_numbers_is_finite(engine: Setting) -> None:
    """Sixteen numbers of 5e29 have the scale 5e29."""
    if engine.args[0] == "fp16":
        raise NotImplementedError("no gradient of fp16 is that large")
    run = engine([np.zeros(16)], freeze_step=2)
    for gradient in (0.0, 0.0, 1e30):
        run.step(np.full(16, gradient), np.full(16, gradient))
    assert np.isfinite(run.momentum[0]).all(), f"the momentum is {run.momentum[0][0]:g}"


@finding(
    "C2",
    "compressed.py:50 with csrc/xpu/packbits/packing.cpp:19 (signbit), against compressed.py:76 (sign + 1)",
    note=(
        "Seen only when the collective is called by hand with -0.0 in the buffer and in the error. In training it "
        "can't arise: an error is u - s or u + s, which is +0.0 where it is zero, and -0.0 + 0.0 is +0.0."
    ),
    differs="only a call by hand can show it",
    explains=tuple(f"collective.{c}" for c in ("conservation", "server_bits", "server_scale", "worker_bits")),
)
def minus_zero_is_sent_as_it_is_accounted(engine: Setting) -> None:
    """The bit that is sent for -0.0 is the one that the error assumes."""
    zeros, u = np.zeros(16, np.float32), np.ones(16, np.float32)
    u[0], zeros[0] = -0.0, -0.0
    out, errors, _ = transport_of(engine).allreduce(np.stack([u, u]), np.stack([zeros, zeros]), np.abs(zeros))
    message = u[0] - errors[0, 0]
    assert np.sign(out[0]) == np.sign(message), f"the error accounts for {message:g}, the workers decode {out[0]:g}"


@finding(
    "C6",
    "adam.py:215-225 and 228",
    when="without a mask",
    note=(
        "Its comment says so, and that the user has to provide exp_avg_mask for such parameters. At eps 1e-8 a step "
        "of lr becomes one of lr·scale/eps."
    ),
)
def a_coordinate_without_gradient_stays(engine: Setting) -> None:
    """A coordinate whose gradient is always zero does not move."""
    run = engine([[0.0, 0.0]], freeze_step=2, eps=2.0**-10)
    for _ in range(3):
        run.step([1.0, 0.0], [1.0, 0.0])
    assert run.params[0][1] == 0.0, f"it is at {run.params[0][1]:g} after three steps"


@finding("C6", "adam.py:222-225", note="What the user writes for a coordinate without gradient works.")
def a_masked_coordinate_stays(engine: Setting) -> None:
    """With ``exp_avg_mask`` a coordinate whose gradient is always zero does not move."""
    run = engine([[0.0, 0.0]], freeze_step=2, eps=2.0**-10)
    run.mask([1.0, 0.0])
    for _ in range(3):
        run.step([1.0, 0.0], [1.0, 0.0])
    assert run.params[0][1] == 0.0, f"it is at {run.params[0][1]:g} after three steps"


@finding(
    "C8",
    "adam.py:151-160 (no check); fused_optimizer.py:259-278 (fp16 only: use_grad_scaling)",
    note="In fp16 the loss scaler skips the step, as it has to.",
)
def nan_in_the_warm_up_is_skipped(engine: Setting) -> None:
    """A NaN on one worker leaves the parameters of all as they are."""
    run = engine([[0.0]], freeze_step=9)
    run.step([0.0], [0.0])
    run.step([np.nan], [1.0])
    assert all(np.isfinite(row["params"][0]).all() for row in run.seen()), "the parameters are NaN"


@finding(
    "C8",
    "adam.py:207 (no check); deepspeed/runtime/utils.py:332-333 (fp16: all ranks hear of it)",
    note="In fp16 one worker's NaN skips the step on every worker, in the compression stage too.",
)
def nan_in_the_compression_stage_is_skipped(engine: Setting) -> None:
    """A NaN on one worker, whose gradients the others do not see, leaves the parameters of all as they are."""
    run = engine([[0.0]], freeze_step=2)
    for _ in range(3):
        run.step([1.0], [1.0])
    before = run.params[0].copy()
    run.step([np.nan], [1.0])
    after = [row["params"][0] for row in run.seen()]
    assert all(np.array_equal(before, x) for x in after), (
        f"x was {before[0]:g}, is {', '.join(f'{x[0]:g}' for x in after)}"
    )


@finding(
    "C9",
    "fused_optimizer.py:318-337 and 367-374 (each worker's own norm); fp32: deepspeed/runtime/utils.py:421-427 (the "
    "mean)",
    differs="the paper does not say how to clip once gradients are not averaged",
    note=(
        "In fp32 the factor is of the mean of the workers' norms, in fp16 and bf16 each worker has a factor of its "
        "own. gradient_clipping is 1.0 unless the configuration says otherwise (deepspeed/runtime/constants.py:261)."
    ),
)
def clipping_has_one_factor(engine: Setting) -> None:
    """After the freeze gradients of 3 and 1 are still 3 to 1 when they are clipped."""
    run = engine([np.zeros(16)], freeze_step=2, config={"gradient_clipping": 1.0})
    run.step(np.zeros(16), np.zeros(16))
    run.step(np.zeros(16), np.zeros(16))
    one_hot = np.eye(1, 16)[0]
    run.step(3 * one_hot, one_hot)
    scales = [float(np.abs(row["worker_error"][0][1])) for row in run.seen()]
    assert scales[0] > 2 * scales[1], f"the scales that the workers send are {scales[0]:g} and {scales[1]:g}"


@finding(
    "L6",
    "adam.py:170-182, 245, 284-290: the first step after the load is the one that makes buffers, the next are a "
    "warm-up while enable_backward_allreduce is off",
    when="resume",
    note="In fp16 and bf16 the wrapper's constructor has taken that step before the load.",
)
def replicas_agree_after_a_resume_in_the_compression_stage(engine: Setting) -> None:
    """Two steps after a checkpoint of the compression stage is loaded, all workers have the same parameters."""
    run = engine([[0.0]], freeze_step=2)
    for _ in range(3):
        run.step([1.0], [1.0])
    again = run.resumed()
    again.step([1.0], [2.0])
    again.step([1.0], [2.0])
    x, y = (row["params"][0][0] for row in again.seen())
    assert x == y, f"worker 0 has {x:g}, worker 1 has {y:g}"


@finding(
    "L9",
    "adam.py:291-308, with the reasons",
    when="errors reset",
    note=(
        "Deliberate: rank 0's are the only errors in the checkpoint, so all are set to zero. Its authors found no "
        "harm in BERT pre-training when it is done seldom."
    ),
)
def errors_survive_a_resume(engine: Setting) -> None:
    """The first step after a resume in the compression stage uses the errors from before it."""
    run = engine([np.zeros(16)], freeze_step=2)
    gradient = np.arange(16.0)
    for _ in range(3):
        run.step(gradient, gradient)
    again = run.resumed()
    for one in (run, again):
        one.step(gradient, gradient)
    assert np.array_equal(run.momentum[0], again.momentum[0]), (
        f"|momentum| is {abs(run.momentum[0][0]):g} without the interruption, {abs(again.momentum[0][0]):g} after it"
    )


@finding(
    "L9",
    "adam.py:170-182, 206-214, 241-245",
    when="warm-up",
    note="The momentum is compressed once, and its error thrown away.",
)
def a_resume_in_the_warm_up_is_exact(engine: Setting) -> None:
    """The first step after a resume in the warm-up is the step that the run would have taken."""
    run = engine([np.zeros(16)], freeze_step=9)
    gradient = np.arange(16.0)
    run.step(gradient, gradient)
    run.step(gradient, gradient)
    again = run.resumed()
    for one in (run, again):
        one.step(gradient, gradient)
    m, resumed = run.momentum[0], again.momentum[0]
    assert np.array_equal(m, resumed), f"the momentum of element 1 is {m[1]:g} without, {resumed[1]:g} with the resume"


@finding(
    "L9",
    "adam.py:236-239 (outside of the loop over parameters)",
    when="old errors",
    note="All parameters of a group but the last keep their error buffers, with what the resume put there.",
)
def errors_are_zero_at_the_freeze(engine: Setting) -> None:
    """After a resume in the warm-up, compression begins without errors."""
    run = engine([np.zeros(16), np.zeros(16)], freeze_step=9)
    gradient = [np.arange(16.0), np.arange(16.0)]
    run.step(gradient, gradient)
    run.step(gradient, gradient)
    again = run.resumed()
    again.step(gradient, gradient)
    error = again.worker_error[0]
    assert not error.any(), f"the first parameter has an error of {np.abs(error).max():g}"


@finding(
    "C3",
    "adam.py:152-214 (parameter by parameter); fused_optimizer.py:86-103 (one flat tensor a group)",
    differs="the unit of compression is the implementation's choice; the paper's is the whole model",
)
def the_whole_model_is_one_buffer(engine: Setting) -> None:
    """Two parameters, one server chunk: one magnitude."""
    run = engine([[0.0], [0.0]], freeze_step=2)
    for scale in (0.0, 0.0, 1.0):
        run.step([[scale], [3 * scale]], [[scale], [3 * scale]])
    sizes = np.abs(np.concatenate(run.momentum))
    assert sizes[0] == sizes[1], f"|momentum| is {sizes[0]:g} and {sizes[1]:g}"


@cache
def sixty_steps(
    driven: type[DeepSpeedOptimizer], hyper: CommonHyper, precision: str, transport: str, first: int = 1
) -> tuple[set[str], dict[str, str]]:
    """Clauses of the relation that the steps from ``first`` on were judged by, and what each broken one says first.

    Four workers, 96 numbers, 10 steps of warm-up. Gradients are multiples of 1/8 up to 2: with their mean, numbers of
    every precision, so that all are held to the tolerances of float32.
    """
    code = type("Driven", (driven,), {"precision": precision, "transport": transport})
    random, traits = np.random.default_rng(0), Traits.of(code)
    run, judged, broken = code(), set(), {}
    run.start(random.standard_normal(96).astype(np.float32), 4, hyper)
    before = run.snapshot()
    for t in range(1, 61):
        grads_ND = (random.integers(-16, 17, (4, 96)) / 8).astype(np.float32)
        run.step(grads_ND)
        after = run.snapshot()
        if t >= first:
            for found in relation_of(traits)(before, grads_ND, after, hyper, traits).findings(judged):
                broken.setdefault(found.clause, found.message)
        before = after
    return judged, broken


def hold(clauses: tuple[str, ...], judged: set[str], broken: dict[str, str]) -> None:
    """The steps were judged by these clauses, and none was broken."""
    assert set(clauses) <= judged, f"not judged: {', '.join(set(clauses) - judged)}"
    for clause in clauses:
        assert clause not in broken, broken[clause]


def clauses_hold(engine: Setting, *clauses: str) -> None:
    """Sixty steps were judged by these clauses, and none was broken."""
    hyper = Hyper(freeze_step=10, weight_decay=0.125)
    hold(clauses, *sixty_steps(DeepSpeedOptimizer, hyper, *engine.args))


@finding("L1", "nccl.py:69-71 and 112-118; compressed.py:73-76 and 97-106")
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


@finding("L3", "adam.py:191-196 and 230-234")
def the_warm_up_is_adam(engine: Setting) -> None:
    """Ten steps of warm-up after the step on zeros: momentum, variance and parameters are Adam's, uncorrected."""
    clauses_hold(engine, "adam_momentum", "adam_variance", "adam_params")


@finding("L4", "adam.py:198-214")
def the_variance_is_frozen(engine: Setting) -> None:
    """Fifty steps after the freeze: no bit of the variance changes."""
    clauses_hold(engine, "frozen")


@finding("L5", "nccl.py:161-164; compressed.py:132-134")
def the_momentum_is_one_bit(engine: Setting) -> None:
    """Fifty steps after the freeze: the momentum is one magnitude on each server chunk."""
    clauses_hold(engine, "one_bit")


@finding("L6", "nccl.py:150-151; compressed.py:125-126")
def replicas_agree(engine: Setting) -> None:
    """Sixty steps without an interruption: parameters are bitwise equal on all workers."""
    clauses_hold(engine, "replicas")


FINDINGS = (
    nothing_is_lost,
    scales_without_padding,
    bits_are_the_signs,
    the_warm_up_is_adam,
    the_variance_is_frozen,
    the_momentum_is_one_bit,
    replicas_agree,
    first_gradient_counts,
    warm_up_has_freeze_step_gradients,
    bias_correction_is_done,
    padding_is_not_in_the_scale,
    scale_of_large_numbers_is_finite,
    minus_zero_is_sent_as_it_is_accounted,
    a_coordinate_without_gradient_stays,
    a_masked_coordinate_stays,
    nan_in_the_warm_up_is_skipped,
    nan_in_the_compression_stage_is_skipped,
    clipping_has_one_factor,
    replicas_agree_after_a_resume_in_the_compression_stage,
    errors_survive_a_resume,
    a_resume_in_the_warm_up_is_exact,
    errors_are_zero_at_the_freeze,
    the_whole_model_is_one_buffer,
)


def settings(**params: Any) -> dict[str, Any]:
    """Every precision over every transport; ``params`` are of every engine."""
    return {f"{p}, {t}": partial(Engine, p, t, **params) for p in PRECISIONS for t in TRANSPORTS}
