"""Inputs on which every float32 operation of a compression round is exact, so that every tolerance is zero.

l1: small integers; D and the chunk lengths are powers of two, so sums and means stay dyadic with few bits. l2: a
quarter of the elements are +-2a and the rest 0, so the mean square is a^2; D and the chunk lengths are powers of four,
so the root of their number is exact as well. In both, many elements are exactly zero, at the workers and at the
server: where ordinary checks must allow either sign, here only +1 is right [C2].
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from verification.protocol import Array, CommonHyper, Traits
from verification.search.cases import Call, CollectiveCase, OptimizerCase


def _shuffled_signs(rng: np.random.Generator, size: int) -> Array:
    return rng.choice([-1.0, 1.0], size)


def exact_round(traits: Traits, n: int, chunk: int, seed: int) -> CollectiveCase | None:
    """An exact call with N = ``n`` and chunks of ``chunk`` elements.

    None where the class cuts its chunks at lengths that can't be powers of two (or of four, for l2).
    """
    kind = traits.scale or "l2"
    n_chunks = traits.server_chunks or n
    dim = n_chunks * chunk
    base = 4 if kind == "l2" else 2
    lengths = {part.stop - part.start for part in traits.chunks(dim, n)}
    wrong_size = not traits.has_server_error or (traits.sizes is not None and dim not in traits.sizes)
    if traits.scale_block is not None:
        return None  # the numbers below are made for one scale a message
    powers = all(abs(math.log(length, base) % 1) < 1e-9 for length in (dim, *lengths) if length)
    if wrong_size or not powers or n & (n - 1):
        return None
    rng = np.random.default_rng(seed)
    inputs = _l1_round(rng, n, dim) if kind == "l1" else _l2_round(rng, n, dim, chunk)
    return CollectiveCase((tuple(array.astype(traits.numpy_dtype) for array in inputs),), exact=True)  # pyright: ignore[reportArgumentType]


def _l1_round(rng: np.random.Generator, n: int, dim: int) -> tuple[Array, Array, Array]:
    if dim <= 256:
        return tuple(rng.integers(-4, 5, shape).astype(float) for shape in ((n, dim), (n, dim), (dim,)))  # pyright: ignore[reportReturnType]
    # Many elements: half 1 and half 3 in magnitude give the scale 2; only the server's scale is no integer.
    magnitudes_ND = np.stack([rng.permutation(np.repeat([1.0, 3.0], dim // 2)) for _ in range(n)])
    buffers_ND = magnitudes_ND * rng.choice([-1.0, 1.0], (n, dim))
    errors_ND = rng.integers(-2, 3, (n, dim)).astype(float)
    return buffers_ND - errors_ND, errors_ND, rng.integers(-2, 3, dim).astype(float)


def _l2_round(rng: np.random.Generator, n: int, dim: int, chunk: int) -> tuple[Array, Array, Array]:
    scale_N = 2.0 ** rng.integers(-2, 3, n)
    signs_D = _shuffled_signs(rng, dim)

    def quarter(length: int) -> Array:
        return rng.permutation(np.arange(length) < length // 4)

    if dim > 1024:  # every element counts, so that one that is left out shows
        u_ND = scale_N[:, None] * signs_D
        errors_ND = rng.integers(-2, 3, (n, dim)).astype(float)
        return u_ND - errors_ND, errors_ND, scale_N.mean() * signs_D * rng.integers(0, 3)
    picked_D = quarter(dim)
    u_ND = np.where(picked_D, 2 * scale_N[:, None] * signs_D, 0.0)
    errors_ND = rng.integers(-2, 3, (n, dim)).astype(float)
    sent_D = scale_N.mean() * np.where(picked_D, signs_D, 1.0)
    at_server_D = np.concatenate([quarter(chunk) for _ in range(dim // chunk)])
    return u_ND - errors_ND, errors_ND, np.where(at_server_D, sent_D, -sent_D)  # so w is 2 sent, or exactly 0


def rounds_nowhere(traits: Traits, inputs: Call) -> bool:
    """Whether a correct round on these inputs rounds nowhere in the class's dtype, whatever its order of summation.

    Each number is a multiple of a unit, and no sum of magnitudes reaches 2^24 units (2^53 in float64); means, roots and
    the errors that are left are numbers of the dtype.
    """
    if traits.scale_block is not None:
        return False
    kind, n, dim = traits.numpy_dtype, inputs[0].shape[0], inputs[0].shape[1]
    buffers_ND, errors_ND, error_D = (array.astype(np.float64) for array in inputs)
    u_ND = buffers_ND + errors_ND
    if not _fits(buffers_ND, errors_ND, kind):
        return False
    sent_ND = _exactly_sent(u_ND, traits.scale or "l2", kind)
    if sent_ND is None or not _fits(u_ND, sent_ND, kind):
        return False
    total_D = sent_ND.sum(axis=0)
    if not _fits(sent_ND.T, np.zeros((dim, 1)), kind, axis=1) or not _fits(total_D / n, error_D, kind):
        return False
    w_D = total_D / n + error_D
    for chunk in traits.chunks(dim, n):
        if chunk.stop > chunk.start:
            answer_C = _exactly_sent(w_D[None, chunk], traits.scale or "l2", kind)
            if answer_C is None or not _fits(w_D[chunk], answer_C[0], kind):
                return False
    return True


def _fits(one: Array, other: Array, kind: np.dtype[Any], axis: int | None = None) -> bool:
    """Whether the sums and differences of both (or all sums along ``axis``) are numbers of the dtype."""
    unit = _unit(np.concatenate([np.ravel(one), np.ravel(other)]))
    sizes = np.abs(one).sum(axis=axis) if axis is not None else np.abs(one) + np.abs(other)
    return bool(sizes.max(initial=0.0) < unit * 2.0 ** (np.finfo(kind).nmant + 1))


def _unit(values: Array) -> float:
    """The largest power of two of which all are multiples."""
    mantissas, exponents = np.frexp(values[values != 0])
    if not mantissas.size:
        return 1.0
    whole = (mantissas * 2.0**53).astype(np.int64)
    zeros = np.log2((whole & -whole).astype(np.float64))
    return float(2.0 ** (exponents - 53 + zeros).min())


def _exactly_sent(u_XD: Array, scale: str, kind: np.dtype[Any]) -> Array | None:
    """Scale times sign of each row, where nothing rounds on the way to it; else None."""
    terms_XD = np.abs(u_XD) if scale == "l1" else u_XD**2
    total_X = terms_XD.sum(axis=-1)
    mean_X = total_X / u_XD.shape[-1]
    scale_X = mean_X if scale == "l1" else np.sqrt(mean_X)
    power = 1 if scale == "l1" else 2
    exact = _fits(terms_XD, np.zeros(1), kind, axis=-1) and np.array_equal(mean_X * u_XD.shape[-1], total_X)
    exact = exact and np.array_equal(scale_X**power, mean_X)
    for numbers in (mean_X, scale_X):
        exact = exact and np.array_equal(numbers.astype(kind).astype(np.float64), numbers)
    return scale_X[..., None] * np.where(u_XD >= 0, 1.0, -1.0) if exact else None


def exact_run(traits: Traits, n: int, hyper: CommonHyper, seed: int) -> OptimizerCase | None:
    """A run with one warm-up step and exact compression rounds, with beta1 = 1/2 and the scale of ``hyper``.

    Two rounds for l1 on at most 16 elements, else one. After the warm-up m-bar = g/2 is 2 everywhere, so
    u = 1 + g_i/2 takes any value that one likes (0/1 Adam sends gamma times that). In the update form all of this times
    P, so that has to be a power of two, and so does a block.

    None as in :func:`exact_round`, and where P or the blocks are of another kind.
    """
    rng = np.random.default_rng(seed)
    base, n_chunks = (4 if hyper.scale == "l2" else 2), traits.server_chunks or n
    chunk = base ** math.ceil(math.log(traits.chunk_multiple, base))
    dim = n_chunks * chunk
    lengths = {part.stop - part.start for part in traits.chunks(dim, n)}
    wrong_size = dim > 256 or (traits.sizes is not None and dim not in traits.sizes)
    if lengths != {chunk} or n & (n - 1) or (hyper.scale == "l2" and n == 2) or wrong_size:
        return None
    v = (1 - hyper.beta2) * 16 / (1 - hyper.beta2 if hyper.bias_correction else 1)
    if hyper.compress == "update" and math.log2(math.sqrt(v) + hyper.eps) % 1:
        return None
    block = min(hyper.scale_block or chunk, chunk)
    if chunk % block or block & (block - 1) or (hyper.scale == "l2" and block < chunk):
        return None
    steps = 2 if hyper.scale == "l1" and dim <= 16 else 1
    if hyper.scale == "l1":  # the same magnitudes on all workers, shuffled: equal scales, so that messages cancel
        magnitudes_D = rng.integers(0, 4, dim).astype(float)
        u_ND = np.stack([rng.permutation(magnitudes_D) * _shuffled_signs(rng, dim) for _ in range(n)])
    elif n == 1:  # a quarter of the elements is +-2, the rest 0
        picked_D = np.tile(rng.permutation(np.arange(chunk) < chunk // 4), n_chunks)
        u_ND = np.where(picked_D, 2.0 * _shuffled_signs(rng, dim), 0.0)[None]
    else:  # all are +-1; the workers agree on a quarter of the elements and cancel on the rest
        agree_D = np.tile(rng.permutation(np.arange(chunk) < chunk // 4), n_chunks)
        halves_N1 = np.where(np.arange(n) % 2 == 0, 1.0, -1.0)[:, None]
        u_ND = _shuffled_signs(rng, dim) * np.where(agree_D, 1.0, halves_N1)
    u_TND = np.concatenate([u_ND[None]] * steps)
    warm_up_ND = np.full((1, n, dim), 4.0)
    grads_TND = np.concatenate([warm_up_ND, 2 * (u_TND / hyper.sent_unit - 1)])
    if steps == 2:
        grads_TND[2] = 2 * rng.integers(-3, 4, (n, dim))
    dtype = traits.numpy_dtype
    program = ("step",) * (steps + 1)
    return OptimizerCase(np.zeros(dim, dtype), grads_TND.astype(dtype), n, hyper, program, exact=True)
