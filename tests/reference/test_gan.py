"""The GAN is a game: each player's part of the field is the derivative of its own loss; ``loss`` is a distance."""

from __future__ import annotations

import json

import numpy as np
import pytest

from reference.problems import make, sampling
from theory.rounding import gamma

SMALL = {"components": 3, "hidden": 5, "batch_size": 6, "n_workers": 4, "dtype": "float64"}


def build(**more):
    return make("gan", **(SMALL | more))


def point(problem, seed=0):
    x = problem.initial_params(seed)
    return x + 0.1 * np.random.default_rng(seed).standard_normal(x.shape).astype(x.dtype)


def player_losses(problem, x_D, real, latents):
    """(L_G, L_D), written down once more, without the problem's helpers."""
    p = problem.layout.views(x_D)
    fake = np.maximum(latents @ p["W1"] + p["b1"], 0) @ p["W2"] + p["b2"]
    of_real, of_fake = (np.maximum(a @ p["V1"] + p["c1"], 0) @ p["V2"] + p["c2"] for a in (real, fake))
    softplus = lambda z: np.logaddexp(0, z).mean()  # noqa: E731
    return softplus(-of_fake), softplus(-of_real) + softplus(of_fake)


def test_each_players_part_is_the_derivative_of_its_own_loss():
    """Central differences of step h and h/2: the finer one is off by a third of their difference, plus rounding."""
    problem = build()
    random = np.random.default_rng(3)
    for seed in range(4):
        x, latents = point(problem, seed), random.standard_normal((6, problem.latent))
        real = problem.train_nk[random.integers(len(problem.train_nk), size=6)]
        (field,) = problem.field(x, real[None], latents[None])
        starts_at = problem.dim - sum(problem.layout.views(x)[name].size for name in ("V1", "c1", "V2", "c2"))
        for player, part in ((0, slice(0, starts_at)), (1, slice(starts_at, None))):
            d = np.zeros(problem.dim)
            d[part] = random.standard_normal(d[part].shape)
            d /= np.linalg.norm(d)
            h = 1e-6
            coarse, fine = (
                (player_losses(problem, x + s * d, real, latents)[player]
                 - player_losses(problem, x - s * d, real, latents)[player]) / (2 * s)
                for s in (h, h / 2)
            )  # fmt: skip
            rounding = gamma(problem.dim + 20, "float64") * 4 / h
            assert abs(fine - field @ d) <= abs(coarse - fine) + rounding
            assert rounding <= 1e-3 * np.linalg.norm(field[part])


def test_workers_average_their_own_batches():
    """One worker with the batches of all four has the mean of their fields, to the rounding of a sum of 24."""
    problem = build()
    x = point(problem)
    index = sampling.batches(problem.shards_Nm, 4, 6, 5, 9)
    latents = sampling.generator(sampling.LATENT, 5, 9).standard_normal((4, 6, problem.latent))
    grads = problem.worker_gradients(x, 5, 9)
    whole = problem.field(x, problem.train_nk[index].reshape(1, 24, -1), latents.reshape(1, 24, -1))[0]
    assert np.abs(grads.mean(axis=0) - whole).max() <= gamma(24 + problem.dim, "float64") * np.abs(grads).max()
    assert len({tuple(row) for row in grads}) == 4


def test_the_distance_by_hand():
    """One component: every direction is +1 or -1, and W_1 is the mean gap of the sorted samples."""
    problem = build(components=1)
    real = problem.held_out_nk[:, 0]
    assert problem.distance(problem.held_out_nk) == 0
    assert problem.distance(problem.held_out_nk[::-1]) == 0, "a set has no order"
    shifted = problem.distance(problem.held_out_nk + 0.25)
    assert abs(shifted - 0.25) <= gamma(len(real) + 4, "float64") * (0.25 + np.abs(real).max())
    assert 0 < problem.real_distance < 0.1
    samples = np.zeros_like(problem.held_out_nk)
    assert problem.distance(samples) == pytest.approx(np.abs(real).mean(), rel=gamma(len(real) + 4, "float64"))


def test_half_of_the_digits_is_held_out_and_the_scale_is_that_of_the_first_component():
    problem = build()
    assert (len(problem.train_nk), len(problem.held_out_nk)) == (899, 898)
    assert problem.train_nk[:, 0].std() == pytest.approx(1, rel=gamma(2000, "float64"))
    assert not {tuple(row) for row in problem.train_nk} & {tuple(row) for row in problem.held_out_nk}


def test_draws_are_keyed_by_seed_and_step_alone():
    problem = build()
    x = point(problem)
    first = problem.worker_gradients(x, 5, 9)
    for seed, step in ((5, 10), (6, 9), (9, 5)):
        assert not np.array_equal(problem.worker_gradients(x, seed, step), first)
    assert np.array_equal(build().worker_gradients(x, 5, 9), first)
    assert np.array_equal(problem.initial_params(3), build().initial_params(3))
    assert problem.loss(x) == build().loss(x)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_dtypes_and_divergence(dtype):
    problem = build(dtype=dtype, heterogeneous=True)
    x = problem.initial_params(1)
    for array in (x, problem.gradient(x), problem.worker_gradients(x, 0, 1)):
        assert array.dtype == dtype
        assert array.shape[-1:] == (problem.dim,)
    assert isinstance(problem.loss(x), float)
    for value in (np.nan, np.inf, 1e30):
        gone = np.full(problem.dim, value, dtype)
        assert isinstance(problem.loss(gone), float)
        assert problem.worker_gradients(gone, 0, 0).shape == (4, problem.dim)


@pytest.mark.parametrize(
    ("argument", "value", "says"),
    [
        ("components", 0, "components must be an integer >= 1, got 0"),
        ("components", 62, "components must be at most 61, the rank of the digits, got 62"),
        ("hidden", 1.5, "hidden must be an integer >= 1, got 1.5"),
        ("batch_size", None, "batch_size must be an integer >= 1, got None"),
        ("heterogeneous", "yes", "heterogeneous must be true or false, got 'yes'"),
        ("dtype", "float16", "dtype must be one of float32, float64, got 'float16'"),
    ],
)
def test_bad_arguments(argument, value, says):
    with pytest.raises(ValueError, match=f"^{says}"):
        make("gan", **json.loads(json.dumps({argument: value})))


def test_training_brings_the_generator_nearer():
    """The field points the right way: Adam more than halves the distance (measured: to a fifth)."""
    from reference.experiments import RunConfig, run

    hyper = {"lr": 3e-4, "beta1": 0.5, "bias_correction": False}
    table = run(RunConfig(problem="gan", optimizer="adam", hyper=hyper, steps=2000, record_every=2000))
    assert table["loss"].iloc[-1] < table["loss"].iloc[0] / 2
