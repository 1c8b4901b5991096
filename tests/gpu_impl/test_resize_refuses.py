"""What can't be resized is one sentence: what is no list of states, and states of two ranks that don't fit."""

from __future__ import annotations

import pytest
import torch
from optimizer_support import model, new, pool, train

from gpu_impl import gathered_state_dict, resize_state_dicts


def states_of_two():
    params = model()
    optimizer = new(params)
    train(params, optimizer, range(1, 8))
    return optimizer.state_dict(), gathered_state_dict(optimizer)


def saved():
    return [own for own, _ in pool(2).call(states_of_two)]


ARGUMENTS = [
    (None, 2, "state_dicts must be a list of the state_dict of every rank, got NoneType"),
    ([], 2, "state_dicts must be a list of the state_dict of every rank, got an empty one"),
    ({}, 2, "state_dicts must be a list of the state_dict of every rank, got dict"),
    ("ab", 2, "state_dicts must be a list of the state_dict of every rank, got str"),
    (iter([{}]), 2, "state_dicts must be a list of the state_dict of every rank, got list_iterator"),
    ([None], 2, "state_dicts must be a list of state_dicts: number 0 is NoneType"),
    ([{}], 2, "this is not the state_dict of an optimizer: it has no list of param_groups"),
    ([{}], 0, "n_workers must be an integer >= 1, got 0"),
    ([{}], True, "n_workers must be an integer >= 1, got True"),
    ([{}], 2.0, r"n_workers must be an integer >= 1, got 2\.0"),
]


@pytest.mark.parametrize(("states", "n_workers", "says"), ARGUMENTS)
def test_what_is_no_list_of_states(states, n_workers, says):
    """It was whatever Python said: `'NoneType' object is not iterable`, `'str' object has no attribute 'get'`."""
    with pytest.raises(ValueError, match=f"^{says}$"):
        resize_state_dicts(states, n_workers)


DAMAGE = [
    (lambda one: one.update(state=None), "it does not say of which worker it is"),
    (lambda one: one.update(state={0: None}), "it does not say of which worker it is"),
    (lambda one: one.update(state={0: {3: 4}}), "it does not say of which worker it is"),
    (lambda one: one.update(state={0: {"worker_error_of_x": 4}}), "it does not say of which worker it is"),
    (lambda one: one["state"].pop(2), "the states of ranks 0 and 1 are of other parameters"),
    (lambda one: one["state"].update({2: 7}), "what rank 1 has of parameter 2 is no state"),
    (lambda one: one["state"][2].update({3: 4}), "what rank 1 has of parameter 2 is no state"),
    (lambda one: one["state"][2].pop("server_error_of_1"), "server_error_of_1 of parameter 2 on rank 1 is not there"),
    (lambda one: one["state"][2].pop("exp_avg"), "exp_avg of parameter 2 on rank 1 is not there"),
    (
        lambda one: one["state"][2].update(worker_error_of_1=torch.zeros(3)),
        r"worker_error_of_1 of parameter 2 on rank 1 is of shape \(3,\)",
    ),
    (lambda one: one["state"][2].update(ignored_of_1="x"), "ignored_of_1 of parameter 2 is 'x'"),
    (lambda one: facts_of(one).update(format="zero-one-adam-state-1"), "they differ in format"),
]


def facts_of(state):
    return state["param_groups"][0]["onebit"]


@pytest.mark.parametrize(("spoil", "says"), DAMAGE)
def test_a_state_that_is_damaged_or_of_another_run(spoil, says):
    states = saved()
    spoil(states[1])
    for n_workers in (1, 2, 3):  # with 2 it was handed back as it was
        with pytest.raises(ValueError, match=says):
            resize_state_dicts(states, n_workers)


def test_a_gathered_state_that_lacks_a_part():
    """Loaded by one worker it was a KeyError; what the other has is merged first."""
    for name in ("server_error_of_1", "ignored_of_1", "exp_avg"):
        (_, state), _ = pool(2).call(states_of_two)
        del state["state"][2][name]
        with pytest.raises(ValueError, match=f"the state is damaged: {name} of parameter 2"):
            new(model()).load_state_dict(state)
