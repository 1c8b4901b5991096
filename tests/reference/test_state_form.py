"""A state is refused where an optimizer would take its arrays for something else, and by no other change [C11]."""

import io
import json
import re
from dataclasses import replace

import numpy as np
import pytest
from reference_support import l1_residual, l1_tolerance, same, same_state

from reference import State, load, resize, save
from reference.compressors import TopK
from reference.optimizers import OPTIMIZERS, make
from reference.optimizers.form import REASONS

DIM, N = 37, 3
SHAPES = [(5, 4), (17,)]
NEEDS = {
    "one_bit_lamb": {"shapes": SHAPES},
    "zero_one_adam": {"local_doubling": 2, "local_limit": 4},
    "partial_sgd": {"shapes": SHAPES},
    "sparse_loco": {"sync_every": 2, "kept": 2},
}


def made(name, **hyper):
    needs = dict(NEEDS.get(name, {}))
    if "freeze_step" in OPTIMIZERS[name].__dataclass_fields__:
        needs["freeze_step"] = 4
    return make(name, **{"lr": 1e-2, **needs, **hyper})


def gradients(steps, seed=0):
    return np.random.default_rng([13, seed]).standard_normal((steps, N, DIM)).astype(np.float32)


def after(optimizer, steps, state=None):
    state = optimizer.init(np.linspace(-1, 1, DIM, dtype=np.float32), N) if state is None else state
    for grads_ND in gradients(steps):
        state = optimizer.step(state, grads_ND)
    return state


def goes_on(optimizer, state):
    return optimizer.step(state, gradients(1, seed=1)[0])


def stored(state):
    """The state itself, from a checkpoint, and resized and back."""
    return state, load(save(state)), resize(load(save(resize(state, N + 2))), N)


def refuses(optimizer, state, says):
    for one in stored(state):
        with pytest.raises(ValueError, match=f"^this state was made with {says}.*; (give|go on|change) .*$"):
            goes_on(optimizer, one)


FROZEN = [
    ({}, {"compress": "update"}, "compress='momentum' and this {} has compress='update': "),
    ({"compress": "update"}, {}, "compress='update' and this {} has compress='momentum': "),
    ({}, {"frozen_dtype": "bfloat16"}, "frozen_dtype='float32' and this {} has frozen_dtype='bfloat16': "),
    ({}, {"bias_correction": True}, "bias_correction=False and this {} has bias_correction=True: "),
    ({}, {"eps": 1e-6}, "eps=1e-08 and this {} has eps=1e-06: "),
    ({"bias_correction": True}, {"bias_correction": True, "beta2": 0.9}, "beta2=0.999 and this {} has beta2=0.9: "),
]


@pytest.mark.parametrize(("theirs", "ours", "says"), FROZEN)
def test_after_the_freeze_the_form_is_fixed_and_before_it_is_not(theirs, ours, says):
    for name in ("one_bit_adam", "frozen_adam", "one_bit_lamb"):
        if name == "one_bit_lamb" and "compress" in {**theirs, **ours}:
            continue
        other = made(name, **ours)
        refuses(other, after(made(name, **theirs), 7), re.escape(says.format(type(other).__name__)))
        for state in stored(after(made(name, **theirs), 3)):
            assert goes_on(other, state).frozen_at == 4


@pytest.mark.parametrize(
    "changed",
    [
        {"lr": 1e-3},
        {"beta1": 0.8},
        {"beta2": 0.9},
        {"weight_decay": 0.1},
        {"max_grad_norm": 1.0},
        {"seed": 3},
        {"scale": "l1"},
        {"scale_block": 8},
        {"server_chunks": 1},
        {"compressor": TopK(density=0.5)},
        {"variance_floor": 0.0},
        {"freeze_step": 9},
        {"freeze_step": "auto"},
        {"lr_warmup_steps": 9},
        {"eps": 1e-8},
    ],
    ids=str,
)
def test_what_changes_the_steps_to_come_alone_is_free(changed):
    """Conservation holds across the change [L1]: nothing that the state holds was misread."""
    state, other = after(made("one_bit_adam"), 7), made("one_bit_adam", **changed)
    grads_ND = gradients(1, seed=1)[0] * (0.05 if "max_grad_norm" in changed else 1)
    moved = other.step(state, grads_ND)
    about = state, grads_ND, moved, other.beta1
    assert (l1_residual(*about) <= l1_tolerance(*about)).all()


@pytest.mark.parametrize("name", [name for name, kind in OPTIMIZERS.items() if not kind.freezes])
def test_a_frozen_variance_is_for_those_that_know_of_one(name):
    """In old files too, which say nothing of their form."""
    state, other = after(made("one_bit_adam"), 7), made(name)
    for one in (state, replace(state, form={})):
        with pytest.raises(ValueError, match=r"^this (state has a variance that was frozen at step 4|is no state of) "):
            goes_on(other, one)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_errors_are_not_lost_in_silence(name):
    """Whoever leaves errors says so: one that has none, or others, refuses what it left."""
    optimizer = made(name)
    state = after(optimizer, 6)
    assert goes_on(optimizer, state).step == 7
    if not (state.worker_errors.any() or state.server_error.any()):
        assert name not in ("local_sgd", "double_squeeze", "naive_adam", "one_bit_adam", "sparse_loco", "dct")
        return
    for other in ("adam", "momentum_sgd", "naive_adam", "double_squeeze", "local_sgd"):
        if optimizer.errors_are == made(other).errors_are != "no errors":
            continue
        with pytest.raises(ValueError, match=r"^this (state (has|was made with)|is no state of) "):
            goes_on(made(other), state)


@pytest.mark.parametrize(
    ("name", "other", "says"),
    [
        ("local_sgd", "double_squeeze", "steps since the last meeting and this DoubleSqueeze has errors of momenta: "),
        ("double_squeeze", "momentum_sgd", "errors of momenta and this MomentumSGD has no errors: "),
        ("double_squeeze", "one_bit_adam", "errors of momenta and this OneBitAdam has no errors: "),
        ("naive_adam", "adam", "errors of gradients and this Adam has no errors: "),
        ("sketched_sgd", "sign_sgd", "errors of momenta and this SignSGD has no errors: "),
    ],
)
def test_errors_of_something_else(name, other, says):
    hyper = {"sync_every": 50} if name == "local_sgd" else {}
    state = after(made(name, **hyper), 3)
    refuses(made(other), state, says)
    nothing = {"worker_errors": state.worker_errors * 0, "server_error": state.server_error * 0}
    assert goes_on(made(other), replace(state, **nothing)).step == 4


def test_sparse_loco_s_errors_are_not_dropped_by_local_adam():
    state = after(made("sparse_loco"), 4)
    refuses(made("local_adam"), state, "errors of walks and this LocalAdam has no errors: ")


def test_cames_momentum_is_one_of_updates():
    """Adam's m would be taken for an update, or the update divided by the root of v again; zeros are either."""
    adam, came = made("adam"), made("came")
    refuses(came, after(adam, 3), "a momentum of gradients and this CAME has a momentum of updates: ")
    refuses(adam, after(came, 3), "a momentum of updates and this Adam has a momentum of gradients: ")
    assert goes_on(came, after(adam, 0)).step == 1


@pytest.mark.parametrize("name", ["one_bit_lamb", "came"])
def test_layers_of_the_same_number_in_another_order(name):
    """Of 1-bit LAMB a slot has a number for each layer, CAME's are named by theirs: the shapes of the slots agree."""
    one, other = ([(5,), (5, 4), (12,)], [(12,), (5, 4), (5,)])
    state = after(made(name, shapes=one), 6)
    refuses(made(name, shapes=other), state, "shapes=")
    assert goes_on(made(name, shapes=tuple(one)), load(save(state))).step == 7
    if name == "one_bit_lamb":  # a layer is its place, whatever its axes
        assert goes_on(made(name, shapes=[(5,), (20,), (3, 4)]), state).step == 7


def test_norms_of_other_arrays():
    arrays = {"W": 20, "b": 17}
    auto, paper = made("one_bit_adam", freeze_step="auto"), made("one_bit_adam", freeze_step="paper")
    by_array = made("one_bit_adam", freeze_step="auto", arrays=arrays)
    state = after(by_array, 3)
    for other in (auto, paper, made("one_bit_adam", freeze_step="auto", arrays={"b": 17, "W": 20})):
        refuses(other, state, r"arrays=\(20, 17\) and this OneBitAdam has arrays=")
        with pytest.raises(ValueError, match=r"^this state was made with arrays=\(20, 17\) and this"):
            other.freeze_diagnosis(state)
        assert len(goes_on(other, replace(state, variance_norms=())).variance_norms) == 1
    assert len(goes_on(paper, after(auto, 3)).variance_norms) == 4
    for other in (made("adam"), made("one_bit_adam", freeze_step=50)):
        paused = goes_on(other, state)
        assert paused.variance_norms == (), "a history with a gap would be compared over another window"
        assert len(goes_on(by_array, paused).variance_norms) == 1


def test_what_zero_one_adam_has_accumulated_is_divided_by_the_rates_that_it_was_made_with():
    optimizer = made("zero_one_adam")
    between, met = after(optimizer, 9), after(optimizer, 8)
    assert not optimizer.meets(9)
    assert optimizer.meets(8)
    for changed in ({"lr": 1e-3}, {"lr": lambda t: 1e-2 / t}, {"local_limit": 1}, {"freeze_step": 20}):
        refuses(made("zero_one_adam", **changed), between, r"rate=0\.01 and this ZeroOneAdam has rate=")
        assert goes_on(made("zero_one_adam", **changed), met).step == 9
    refuses(made("zero_one_adam", local_doubling=1, local_limit=8), met, r"rate=0\.0 and this ZeroOneAdam has rate=")
    for free in ({"variance_floor": 0.0}, {"scale": "l1"}, {"eps": 1e-6}, {"lr": lambda t: 1e-2}):
        assert goes_on(made("zero_one_adam", **free), between).step == 10


def test_a_state_made_by_hand_or_from_an_older_file_is_asked_for_nothing():
    """An older file is one without a form, of the format before."""
    state = after(made("one_bit_adam"), 7)
    ours = State(**{name: getattr(state, name) for name in state.__dataclass_fields__ if name != "form"})
    assert ours.form == {}
    with np.load(io.BytesIO(save(state))) as file:
        entries = {name: file[name] for name in file.files if name != "form"}
    buffer = io.BytesIO()
    np.savez(buffer, **{**entries, "format": np.array("onebit-reference-state-3")})
    assert same_state(load(buffer.getvalue()), ours)
    other = made("one_bit_adam", compress="update")
    assert goes_on(other, ours).form["compress"] == "update"
    assert same(goes_on(made("one_bit_adam"), ours).params, goes_on(made("one_bit_adam"), state).params)


@pytest.mark.parametrize("form", ["", "[]", "{", "3"])
def test_a_damaged_form(form):
    state = after(made("one_bit_adam"), 7)
    with np.load(io.BytesIO(save(state))) as file:
        entries = {name: file[name] for name in file.files}
    assert json.loads(str(entries["form"]))["compress"] == "momentum"
    buffer = io.BytesIO()
    np.savez(buffer, **{**entries, "form": np.array(form)})
    with pytest.raises(ValueError, match=r"^this checkpoint is damaged: its form is "):
        load(buffer.getvalue())


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_entry_has_its_reason(name):
    optimizer = made(name)
    for steps in (0, 3, 7):
        state = after(optimizer, steps)
        assert state.form.keys() == optimizer.form(state).keys() <= REASONS.keys()
        assert load(save(state)).form == state.form
