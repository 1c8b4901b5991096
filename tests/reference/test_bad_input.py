"""Bad input: one clear error that names the argument and the value, and nothing changed."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import MISSING, fields, replace
from fractions import Fraction

import numpy as np
import pytest
from reference_support import floats, fractions, same_state

from reference import OPTIMIZERS, Adam, OneBitAdam, compressed_allreduce, load, resize, save
from reference.compressors import RandomK, ScaledSign, TopK, UniformQuantization
from reference.experiments import RunConfig
from reference.optimizers import make

GOOD = {"lr": 1e-3, "freeze_step": 5}


@pytest.mark.parametrize(
    ("argument", "value", "says"),
    [
        ("lr", 0, "lr must be a finite number > 0, got 0"),
        ("lr", -1e-3, "lr must be a finite number > 0, got -0.001"),
        ("lr", float("nan"), "lr must be a finite number > 0, got nan"),
        ("lr", "fast", "lr must be a finite number > 0, got 'fast'"),
        ("beta1", 1.0, r"beta1 must lie in \[0, 1\), got 1.0"),
        ("beta1", -0.1, "beta1 must be a finite number >= 0, got -0.1"),
        ("beta2", 1.5, r"beta2 must lie in \[0, 1\), got 1.5"),
        ("eps", -1e-8, "eps must be a finite number >= 0, got -1e-08"),
        ("weight_decay", -1, "weight_decay must be a finite number >= 0, got -1"),
        ("max_grad_norm", 0, "max_grad_norm must be a finite number > 0, got 0"),
        ("variance_floor", -1, "variance_floor must be a finite number >= 0, got -1"),
        ("freeze_step", 0, "freeze_step must be an integer >= 1, got 0"),
        ("freeze_step", -3, "freeze_step must be an integer >= 1, got -3"),
        ("freeze_step", 2.5, "freeze_step must be an integer >= 1, got 2.5"),
        ("freeze_step", "soon", "freeze_step must be an integer >= 1, or one of auto, paper, got 'soon'"),
        ("scale", "l3", "scale must be one of l1, l2, got 'l3'"),
        ("scale", 2, "scale must be one of l1, l2, got 2"),
        ("freeze_step", 2**70, rf"freeze_step must be an integer >= 1 and < 2\^63, got {2**70}"),
        ("seed", np.array(3), r"seed must be an integer >= 0, got array\(3\)"),
        ("eps", 10**400, "eps must be a finite number >= 0, got 1000"),
        ("arrays", [16], r"arrays must give each array's size by its name, got \[16\]"),
        ("lr_warmup_steps", -1, "lr_warmup_steps must be an integer >= 0, got -1"),
        ("compressor", 3, "compressor must be None or one of reference.compressors, got 3"),
        ("seed", -1, "seed must be an integer >= 0, got -1"),
        ("momentum", 0.9, "one_bit_adam takes no argument 'momentum'; it takes lr, .*beta1"),
    ],
)
def test_hyper_parameters(argument, value, says):
    with pytest.raises(ValueError, match=f"^{says}"):
        make("one_bit_adam", **(GOOD | {argument: value}))


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer_checks_its_learning_rate(name):
    hyper = {"freeze_step": 1} if "freeze_step" in OPTIMIZERS[name].__dataclass_fields__ else {}
    with pytest.raises(ValueError, match=r"^lr must be"):
        make(name, lr=0.0, **hyper)
    with pytest.raises(ValueError, match=f"^{name} needs the argument 'lr'"):
        make(name, **hyper)


@pytest.mark.parametrize("name", [n for n, cls in OPTIMIZERS.items() if "scale" in cls.__dataclass_fields__])
def test_every_optimizer_checks_its_scale(name):
    hyper = {"freeze_step": 1} if "freeze_step" in OPTIMIZERS[name].__dataclass_fields__ else {}
    with pytest.raises(ValueError, match=r"^scale must be one of l1, l2, got 'linf'"):
        make(name, lr=1.0, scale="linf", **hyper)


def test_unknown_optimizer():
    with pytest.raises(ValueError, match=r"^optimizer must be one of sgd, .*one_bit_adam.*, got 'adamw'"):
        make("adamw", lr=1.0)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer(name):
    """Anything but True and False for a switch is refused, and a list of parameters."""
    kind = OPTIMIZERS[name]
    needed = {
        field.name: GOOD.get(field.name, 4)
        for field in fields(kind)
        if field.default is field.default_factory is MISSING
    }
    for field in fields(kind):
        if isinstance(field.default, bool):
            with pytest.raises(ValueError, match=f"^{field.name} must be true or false, got 'x'"):
                kind(**needed, **{field.name: "x"})
    with pytest.raises(TypeError, match=r"^params_D must be a NumPy array, got list"):
        kind(**needed).init([1.0, 2.0], 2)


def test_more_chunks_than_workers():
    """Refused before the first step; with a state of others in the first of the warm-up, not when it is compressed."""
    optimizer, params_D = OneBitAdam(**GOOD, server_chunks=3), np.zeros(4, np.float32)
    for call in (
        lambda: optimizer.init(params_D, 2),
        lambda: optimizer.step(OneBitAdam(**GOOD).init(params_D, 2), np.zeros((2, 4), np.float32)),
    ):
        with pytest.raises(ValueError, match=r"^server_chunks must be at most the number of workers, 2, got 3"):
            call()


@pytest.mark.parametrize(
    ("params", "n_workers", "error", "says"),
    [
        (np.zeros(0, np.float32), 2, ValueError, r"params_D must not be empty, got shape \(0,\)"),
        (np.zeros((2, 2), np.float32), 2, ValueError, r"params_D must have shape \(any\), got \(2, 2\)"),
        (np.zeros(3, np.int64), 2, TypeError, "params_D must hold float32, float64 or fractions.Fraction, got .*int64"),
        (np.zeros(3, np.float16), 2, TypeError, "params_D must hold .* got dtype float16"),
        (np.array([1, 2], dtype=object), 2, TypeError, "params_D must hold .* got dtype object"),
        ([1.0, 2.0], 2, TypeError, "params_D must be a NumPy array, got list"),
        (np.zeros(3, np.float32), 0, ValueError, "n_workers must be an integer >= 1, got 0"),
        (np.ma.zeros(3, np.float32), 2, TypeError, "params_D must be a NumPy array without a mask"),
        (np.zeros(3, np.float32), True, ValueError, "n_workers must be an integer >= 1, got True"),
    ],
)
def test_init(params, n_workers, error, says):
    with pytest.raises(error, match=f"^{says}"):
        Adam(lr=1.0).init(params, n_workers)


def test_a_state_is_needed_and_workers_are_counted_in_64_bits():
    optimizer = Adam(lr=1.0)
    with pytest.raises(TypeError, match=r"^state must be a State, such as init returns, got NoneType"):
        optimizer.step(None, np.zeros((2, 5)))
    with pytest.raises(ValueError, match=r"^n_workers must be an integer >= 1 and < 2\^63, got 1000"):
        resize(optimizer.init(np.zeros(5), 2), 10**30)


@pytest.mark.parametrize(
    ("grads", "error", "says"),
    [
        (np.zeros((2, 4), np.float32), ValueError, r"grads_ND must have shape \(2, 5\), got \(2, 4\)"),
        (np.zeros((3, 5), np.float32), ValueError, r"grads_ND must have shape \(2, 5\), got \(3, 5\)"),
        (np.zeros(5, np.float32), ValueError, r"grads_ND must have shape \(2, 5\), got \(5,\)"),
        (np.zeros((2, 5)), TypeError, "grads_ND must have the dtype of the parameters, float32, got float64"),
        (None, TypeError, "grads_ND must be a NumPy array, got NoneType"),
        (np.ma.zeros((2, 5), np.float32), TypeError, "grads_ND must be a NumPy array without a mask"),
    ],
)
@pytest.mark.parametrize("frozen", [False, True])
def test_gradients_and_the_state_is_unchanged(grads, error, says, frozen):
    optimizer = OneBitAdam(lr=1e-3, freeze_step=1 if frozen else 9)
    rng = np.random.default_rng(0)
    state = optimizer.step(optimizer.init(floats(rng, 5), 2), floats(rng, 2, 5))
    kept = load(save(state))
    with pytest.raises(error, match=f"^{says}"):
        optimizer.step(state, grads)
    assert same_state(state, kept)


@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        ({"buffers_ND": np.zeros((0, 5))}, ValueError, r"buffers_ND must not be empty, got shape \(0, 5\)"),
        ({"buffers_ND": np.zeros((2, 0))}, ValueError, r"buffers_ND must not be empty, got shape \(2, 0\)"),
        ({"worker_errors_ND": np.zeros((2, 4))}, ValueError, r"worker_errors_ND must have shape \(2, 5\)"),
        ({"server_error_D": np.zeros(5, np.float32)}, TypeError, "server_error_D must have the dtype of the .*float64"),
        ({"scale": "l0"}, ValueError, "scale must be one of l1, l2, got 'l0'"),
        ({"server_chunks": 0}, ValueError, "server_chunks must be an integer >= 1, got 0"),
        ({"server_chunks": 3}, ValueError, "server_chunks must be at most the number of workers, 2, got 3"),
        ({"live_D": np.ones(4, bool)}, ValueError, r"live_D must be a boolean mask of shape \(5,\)"),
        ({"live_D": np.ones(5)}, ValueError, r"live_D must be a boolean mask of shape \(5,\), got float64"),
    ],
)
def test_allreduce(change, error, says):
    good = {"buffers_ND": np.ones((2, 5)), "worker_errors_ND": np.zeros((2, 5)), "server_error_D": np.zeros(5)}
    with pytest.raises(error, match=f"^{says}"):
        compressed_allreduce(**(good | change))


def test_fractions_need_the_l1_scale_and_rational_roots():
    rng = np.random.default_rng(0)
    u_ND = fractions(rng, 2, 5)
    with pytest.raises(ValueError, match=r"scale='l2' takes a square root; arrays of Fractions need scale='l1'"):
        compressed_allreduce(u_ND, u_ND, u_ND[0], scale="l2")
    adam = Adam(lr=Fraction(1), beta2=Fraction(1, 2), bias_correction=False)
    with pytest.raises(ValueError, match="has no rational square root"):
        adam.step(adam.init(u_ND[0], 2), u_ND)


@pytest.mark.parametrize(
    ("make_one", "says"),
    [
        (lambda: ScaledSign("l7"), "scale must be one of l1, l2, got 'l7'"),
        (lambda: TopK(density=0), "density must be a finite number > 0, got 0"),
        (lambda: RandomK(density=1.5), r"density must lie in \(0, 1\], got 1.5"),
        (lambda: UniformQuantization(n_bits=1), "n_bits must be an integer >= 2, got 1"),
        (lambda: UniformQuantization(n_bits=9), "n_bits must lie in 2 ... 8, got 9"),
    ],
)
def test_compressors(make_one, says):
    with pytest.raises(ValueError, match=f"^{says}"):
        make_one()


def test_quantisation_refuses_fractions():
    u_ND = fractions(np.random.default_rng(0), 2, 5)
    with pytest.raises(TypeError, match="uniform quantisation rounds"):
        compressed_allreduce(u_ND, u_ND, u_ND[0], compressor=UniformQuantization())


def test_checkpoints():
    optimizer = OneBitAdam(**GOOD)
    state = optimizer.init(np.ones(5, np.float32), 2)
    data = save(state)
    for damaged in (b"", b"nonsense", data[: len(data) // 2], data[:-30]):
        with pytest.raises(ValueError, match="not a readable checkpoint"):
            load(damaged)
    for position in range(0, len(data), 97):
        flipped = bytearray(data)
        flipped[position] ^= 0xFF
        try:
            loaded = load(bytes(flipped))
        except ValueError:
            continue
        assert same_state(loaded, state), "a flipped byte must be refused or harmless"
    with pytest.raises(TypeError, match="a state of Fractions cannot be saved"):
        save(optimizer.init(fractions(np.random.default_rng(0), 5), 2))
    with pytest.raises(ValueError, match="n_workers must be an integer >= 1, got 0"):
        resize(state, 0)


def test_foreign_archives_are_refused():
    import io

    buffer = io.BytesIO()
    np.savez(buffer, weights=np.ones(3))
    with pytest.raises(ValueError, match="not a checkpoint of this package"):
        load(buffer.getvalue())


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"problem": "cifar"}, r"problem must be one of quadratic, .*, got 'cifar'"),
        ({"problem_args": {"size": 3}}, "quadratic takes no argument 'size'; it takes "),
        ({"optimizer": "lion"}, r"optimizer must be one of .*, got 'lion'"),
        ({"hyper": {}}, "adam needs the argument 'lr'"),
        ({"hyper": {"lr": -1}}, "lr must be a finite number > 0, got -1"),
        ({"n_workers": 0}, "n_workers must be an integer >= 1, got 0"),
        ({"steps": 0}, "steps must be an integer >= 1, got 0"),
        ({"record_every": 0}, "record_every must be an integer >= 1, got 0"),
        ({"seed": -1}, "seed must be an integer >= 0, got -1"),
    ],
)
def test_run_configurations(change, says):
    good = {"problem": "quadratic", "optimizer": "adam", "hyper": {"lr": 1e-2}}
    with pytest.raises(ValueError, match=f"^{says}"):
        RunConfig(**(good | change)).build()


def test_state_arrays_cannot_be_changed_by_accident():
    x_D = np.ones(5, np.float32)
    state = Adam(lr=1.0).init(x_D, 2)
    x_D[0] = 7
    assert state.params[0] == 1
    with pytest.raises(ValueError, match="read-only"):
        state.params[0] = 3
    ours = np.zeros(5, np.float32)
    replace(state, params=ours)
    ours[0] = 1  # the caller's own array stays writable


def test_a_state_of_another_algorithm():
    """It lacked a slot, had one that nobody would look at, or had layers of another shape."""
    grads_ND = np.ones((2, 3), np.float32)
    adam, local = make("adam", lr=0.1), make("zero_one_adam", lr=0.1, freeze_step=1)
    state = adam.init(grads_ND[0], 2)
    with pytest.raises(
        ValueError, match=r"^this is no state of ZeroOneAdam: its slots are none, must be accumulated_ND"
    ):
        local.step(state, grads_ND)
    parted = local.step(local.init(grads_ND[0], 2), grads_ND)
    with pytest.raises(
        ValueError, match=r"^this is no state of Adam: its slots are .*walked_ND \(2, 3\), must be none$"
    ):
        adam.step(parted, grads_ND)
    one, other = (make("one_bit_lamb", lr=0.1, freeze_step=1, shapes=shapes) for shapes in ([(3,)], [(1,), (2,)]))
    with pytest.raises(ValueError, match=r"trust_mean_L \(1,\), must be .*trust_mean_L \(2,\)$"):
        other.step(one.init(grads_ND[0], 2), grads_ND)
    assert make("one_bit_adam", lr=0.1, freeze_step=1).step(adam.step(state, grads_ND), grads_ND).step == 2


@pytest.mark.parametrize("added", [b"x", b"\0" * 30, b"PK\x05\x06" + b"\0" * 5])
def test_bytes_before_or_behind_a_checkpoint(added):
    data = save(make("adam", lr=0.1).init(np.ones(3, np.float32), 2))
    for whole in (data + added, added + data, data + data):
        with pytest.raises(ValueError, match="damaged or truncated"):
            load(whole)
    assert load(bytearray(data)).n_workers == 2


def test_a_checkpoint_whose_directory_was_damaged():
    """One bit of a name in the ZIP directory: the array was left out, and the next step was a KeyError."""
    optimizer = make("zero_one_adam", lr=0.1, freeze_step=1)
    data = save(optimizer.init(np.ones(3, np.float32), 2))
    for name in (b"walked_ND", b"params", b"format"):
        at = data.rindex(name)
        for changed in (bytes([data[at] ^ 1]), bytes([data[at] ^ 64])):
            with pytest.raises(ValueError, match=r"^this (is not a|checkpoint is damaged)"):
                load(data[:at] + changed + data[at + 1 :])
    for at in range(data.index(b"PK\x01\x02"), len(data)):
        flipped = data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1 :]
        with suppress(ValueError):  # nothing else may be raised
            assert optimizer.step(load(flipped), np.ones((2, 3), np.float32)).step == 1


@pytest.mark.parametrize("gamma", [float("nan"), float("inf"), -1.0])
def test_what_a_schedule_returns(gamma):
    grads_ND = np.ones((2, 3), np.float32)
    optimizer = make("adam", lr=lambda t: gamma)
    with pytest.raises(ValueError, match=r"^lr\(1\) must be a finite number >= 0, got"):
        optimizer.step(optimizer.init(grads_ND[0], 2), grads_ND)


def test_an_error_of_a_schedule_is_left_as_it_is():
    grads_ND = np.ones((2, 3), np.float32)
    optimizer = make("adam", lr={2: 0.1}.__getitem__)
    with pytest.raises(KeyError, match=r"^1$"):
        optimizer.step(optimizer.init(grads_ND[0], 2), grads_ND)
