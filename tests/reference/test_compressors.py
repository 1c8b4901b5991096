"""Compressors: what crosses the wire says what was decoded, chunk by chunk; contraction; the table of constants."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from reference_support import floats, same

from reference.allreduce import block_starts, chunk_slices, compressed_allreduce
from reference.compressors import Identity, PlainSign, RandomK, ScaledSign, TopK, UniformQuantization
from reference.compressors.sparse import largest
from theory.rounding import gamma

COMPRESSORS = [
    ScaledSign("l1"), ScaledSign("l2"), PlainSign(), Identity(), TopK(density=0.1), RandomK(density=0.1),
    *(UniformQuantization(n_bits=k) for k in range(2, 9)),
]  # fmt: skip
every_compressor = pytest.mark.parametrize("compressor", COMPRESSORS, ids=str)


def encode(compressor, u_D, seed=0):
    return compressor.encode(u_D, u_D.size, np.random.default_rng(seed))


@every_compressor
@pytest.mark.parametrize("dim", [1, 7, 8, 9, 65, 4099])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_chunks_of_a_message_decode_to_chunks_of_the_whole(compressor, dim, dtype):
    u_D = floats(np.random.default_rng(dim), dim, dtype=dtype)
    message = encode(compressor, u_D)
    decoded_D = message.decode()
    assert decoded_D.dtype == dtype
    assert decoded_D.shape == (dim,)
    parts = [message.chunk(c) for c in chunk_slices(dim, 3)]
    assert same(np.concatenate([part.decode() for part in parts]), decoded_D)
    edges_J = np.array([0, *(c.stop for c in chunk_slices(dim, 3) if c.start < c.stop)])
    assert message.bytes_between(edges_J).tolist() == [part.nbytes for part in parts if part.dim]
    decoded_D[:] = 0  # what a receiver does with its numbers must not change the message
    assert same(np.concatenate([part.decode() for part in parts]), message.decode())


@every_compressor
def test_encoding_does_not_change_its_input_and_is_deterministic(compressor):
    u_D = floats(np.random.default_rng(0), 100)
    kept_D = u_D.copy()
    assert same(encode(compressor, u_D).decode(), encode(compressor, u_D).decode())
    assert same(u_D, kept_D)


@every_compressor
@pytest.mark.parametrize(("dim", "n_workers"), [(1, 3), (29, 3), (65, 16)])
def test_every_compressor_in_an_all_reduce_with_empty_chunks(compressor, dim, n_workers):
    """L1 for one exchange: what comes out and what is left is what went in, to float64 rounding of a few sums."""
    rng = np.random.default_rng(dim)
    inputs = [floats(rng, n_workers, dim), floats(rng, n_workers, dim), floats(rng, dim)]
    inputs = [array.astype(np.float64) for array in inputs]
    reduced = compressed_allreduce(*inputs, compressor=compressor)
    left_D = reduced.output_D + reduced.worker_errors_ND.mean(axis=0) + reduced.server_error_D
    asked_D = inputs[0].mean(axis=0) + inputs[1].mean(axis=0) + inputs[2]
    sizes = [np.abs(a).max() for a in (*inputs, reduced.output_D, reduced.worker_errors_ND, reduced.server_error_D)]
    assert np.abs(left_D - asked_D).max() <= gamma(4 * n_workers + 8, "float64") * sum(sizes)


@pytest.mark.parametrize("scale_block", [8, 64, 1024])
def test_chunks_of_a_message_with_blocks(scale_block):
    parts = chunk_slices(1000, 3)
    starts_K = np.array([k for part in parts for k in block_starts(part, scale_block)], np.intp)
    message = ScaledSign().encode_blocks(floats(np.random.default_rng(0), 1000), starts_K, np.ones_like(starts_K))
    edges_J = np.array([0, *(part.stop for part in parts)])
    assert message.bytes_between(edges_J).tolist() == [message.chunk(part).nbytes for part in parts]
    assert same(np.concatenate([message.chunk(part).decode() for part in parts]), message.decode())


@pytest.mark.parametrize(
    ("compressor", "nbytes"),
    [
        (ScaledSign(), 125 + 4),
        (PlainSign(), 125),
        (Identity(), 4000),
        (TopK(density=0.01), 10 * 8),
        (RandomK(density=0.015), 15 * 8),
        (UniformQuantization(n_bits=5), 625 + 4),
    ],
    ids=str,
)
def test_bytes(compressor, nbytes):
    assert encode(compressor, floats(np.random.default_rng(0), 1000)).nbytes == nbytes


@pytest.mark.parametrize("density", [0.01, 0.3, 1.0])
def test_top_k_keeps_the_largest_and_contracts(density):
    u_D = floats(np.random.default_rng(1), 1000, dtype=np.float64)
    kept_D = encode(TopK(density=density), u_D).decode()
    k = math.ceil(density * 1000)
    assert np.count_nonzero(kept_D) == k
    assert np.abs(kept_D[kept_D != 0]).min() >= np.abs(u_D[kept_D == 0]).max(initial=0)
    assert ((u_D - kept_D) ** 2).sum() <= (1 - k / 1000) * (u_D**2).sum()


@pytest.mark.parametrize("as_type", [np.float32, np.float64, Fraction])
def test_the_largest_are_those_at_the_end_of_a_stable_order(as_type):
    """With ties, zeros of both signs, infinities and NaN: the larger index, and NaN before all numbers."""
    rng = np.random.default_rng(2)
    for dim in range(1, 40):
        u_D = rng.integers(-2, 3, dim).astype(np.float64)
        if as_type is not Fraction:
            u_D[rng.random(dim) < 0.1] = rng.choice([np.nan, np.inf, -np.inf, -0.0])
        u_D = np.array([as_type(u) for u in u_D.tolist()])
        for count in range(1, dim + 2):
            order_D = np.argsort(np.abs(u_D), kind="stable")
            assert largest(u_D, count).tolist() == sorted(order_D[-count:].tolist())


def test_random_k_depends_on_the_generator_and_keeps_each_coordinate_equally_often():
    u_D, counts_D = np.ones(50), np.zeros(50)
    draws = 2000
    for seed in range(draws):
        counts_D += encode(RandomK(density=0.2), u_D, seed).decode()
    assert counts_D.sum() == draws * 10
    # Each count is binomial(2000, 0.2), variance 320; 6 standard deviations for all 50 at once.
    assert np.abs(counts_D - draws * 0.2).max() <= 6 * math.sqrt(draws * 0.2 * 0.8)


@pytest.mark.parametrize("n_bits", range(2, 9))
def test_uniform_quantization_is_within_half_a_level_and_keeps_zero(n_bits):
    u_D = floats(np.random.default_rng(2), 1000)
    u_D[::7] = 0
    decoded_D = encode(UniformQuantization(n_bits=n_bits), u_D).decode()
    spacing = np.abs(u_D).max() / (2 ** (n_bits - 1) - 1)
    # Half a level, plus the rounding of u/max, of the product with L, of the spacing and of the decoded product.
    slack = 4 * 2.0**-24 * np.abs(u_D).max() / (1 - 4 * 2.0**-24)
    assert np.abs(u_D.astype(np.float64) - decoded_D).max() <= spacing / 2 + slack
    assert not decoded_D[::7].any()
    every_level_D = np.linspace(-1, 1, 2**n_bits - 1)
    assert len(np.unique(encode(UniformQuantization(n_bits=n_bits), every_level_D).decode())) == 2**n_bits - 1
    assert not encode(UniformQuantization(n_bits=n_bits), 0 * u_D).decode().any()


# docs/published.md: error ratio ||u - C(u)||^2 / ||u||^2, (l2, l1), as measured once on 10^5 numbers.
CONSTANTS = {"gaussian": (0.404, 0.363), "laplace": (0.589, 0.502), "sparse": (1.493, 0.936), "one_hot": (1.994, 1.000)}
HALF_NORMAL = (math.sqrt(2 / math.pi), 1.0, 2 * math.sqrt(2 / math.pi), 3.0)
MOMENTS = {"gaussian": HALF_NORMAL, "laplace": (1.0, 2.0, 6.0, 24.0), "sparse": tuple(0.1 * m for m in HALF_NORMAL)}
"""E|u|, E u^2, E|u|^3, E u^4."""


def sample(name, rng, dim):
    u_D = {"laplace": rng.laplace}.get(name, rng.standard_normal)(size=dim)
    if name == "sparse":
        u_D[rng.random(dim) >= 0.1] = 0
    if name == "one_hot":
        u_D[:] = 0
        u_D[0] = 1
    return u_D


def phi_deviation(first, second, third, fourth):
    """Standard deviation of phi times sqrt(d): delta method for phi = a^2/b, a = mean |u|, b = mean u^2."""
    d_a, d_b = 2 * first / second, -(first**2) / second**2
    var_a, var_b, cov = second - first**2, fourth - second**2, third - first * second
    return math.sqrt(d_a**2 * var_a + d_b**2 * var_b + 2 * d_a * d_b * cov)


@pytest.mark.parametrize("name", CONSTANTS)
@pytest.mark.parametrize(("column", "scale"), [(0, "l2"), (1, "l1")])
def test_constants_of_the_scaled_sign(name, column, scale):
    """Recomputed on 10^5 float64 numbers: within 5 standard deviations of the closed form, as the table's value is."""
    dim, printed = 10**5, CONSTANTS[name][column]
    u_D = sample(name, np.random.default_rng(11), dim)
    error_D = u_D - encode(ScaledSign(scale), u_D).decode()
    ratio = (error_D @ error_D) / (u_D @ u_D)
    if name == "one_hot":
        phi, deviation = 1 / dim, 0.0
    else:
        first, second, *_ = MOMENTS[name]
        phi, deviation = first**2 / second, phi_deviation(*MOMENTS[name]) / math.sqrt(dim)

    def closed_form(value):
        return 1 - value if scale == "l1" else 2 * (1 - math.sqrt(value))

    low, high = closed_form(phi + 5 * deviation), closed_form(phi - 5 * deviation)
    own_rounding = 1e-10  # of two float64 sums of 10^5 terms: gamma_{10^5} of float64 is 1.1e-11
    assert low - own_rounding <= ratio <= high + own_rounding
    assert low - 0.0005 <= printed <= high + 0.0005, "the printed value is rounded to three digits"
