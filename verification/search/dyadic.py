"""Inputs on which every float32 operation of a compression round is exact; tolerances are zero, but for an l2 scale.

l1: small integers, the largest of a worker a power of two, by which one may divide; D and the chunk lengths are powers
of two, so sums and means stay dyadic with few bits. l2: a quarter of the elements are +-2a and the rest 0, so the mean
square is a^2; D and the chunk lengths are powers of four, so the root of their number is exact as well, and a is a
power of two, so that reciprocals are exact too. In both, many elements are exactly zero, at the workers and at the
server: where ordinary checks must allow either sign, here only +1 is right [C2].
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from verification.protocol import Array, CommonHyper, Traits
from verification.relation.tolerances import is_power_of_two
from verification.search.cases import Call, CollectiveCase, OptimizerCase

LONGEST = 1024
"""The largest D of a seed's case without rounding."""


def exact_sizes(traits: Traits, n: int, scale: str) -> list[int]:
    """The D above 2 for which D and the lengths of all chunks are powers of two, or of four for l2."""
    base, found = (4 if scale == "l2" else 2), []
    for dim in (base**k for k in range(1, 11)):
        lengths = {part.stop - part.start for part in traits.chunks(dim, n)} - {0}
        powers = all(length & (length - 1) == 0 and (base == 2 or length.bit_length() % 2) for length in lengths)
        if 2 < dim <= LONGEST and powers and traits.takes_size(dim):
            found.append(dim)
    return found


def _shuffled_signs(rng: np.random.Generator, size: int) -> Array:
    return rng.choice([-1.0, 1.0], size)


def exact_round(traits: Traits, n: int, dim: int, seed: int) -> CollectiveCase | None:
    """An exact call on N = ``n`` workers and D = ``dim`` elements, with ties at the server.

    None where the class cuts its chunks at lengths that can't be powers of two (or of four, for l2).
    """
    kind = traits.scale or "l2"
    if traits.scale_block is not None or n & (n - 1):
        return None  # the numbers below are made for one scale a message
    lengths = {part.stop - part.start for part in traits.chunks(dim, n)} - {0}
    powers = all(abs(math.log(length, 4 if kind == "l2" else 2) % 1) < 1e-9 for length in (dim, *lengths))
    if not powers or len(lengths) > 1 or not traits.takes_size(dim):
        return None
    rng = np.random.default_rng(seed)
    for _ in range(10):
        arrays = _l1_round(rng, n, dim) if kind == "l1" else _l2_round(rng, n, dim, *lengths)
        buffers_ND, errors_ND, error_D = (array.astype(traits.numpy_dtype) for array in arrays)
        call = (buffers_ND, errors_ND, error_D * traits.has_server_error)
        if rounds_nowhere(traits, call):
            return CollectiveCase((call,), exact=True)
    return None


def _l1_round(rng: np.random.Generator, n: int, dim: int) -> tuple[Array, Array, Array]:
    """All workers have one scale, so messages cancel; some others are cancelled by the server error."""
    if dim > 256:  # half 0 and half 4 in magnitude give the scale 2; only the server's scale is no integer
        magnitudes_ND = np.stack([rng.permutation(np.repeat([0.0, 4.0], dim // 2)) for _ in range(n)])
    else:
        magnitudes_D = rng.choice([0.0, 1.0, 2.0, 4.0], dim)
        magnitudes_ND = np.stack([rng.permutation(magnitudes_D) for _ in range(n)])
    u_ND, errors_ND = magnitudes_ND * rng.choice([-1.0, 1.0], (n, dim)), rng.integers(-2, 3, (n, dim)).astype(float)
    mean_D = np.where(u_ND >= 0, 1.0, -1.0).mean(axis=0) * magnitudes_ND[0].mean()
    error_D = np.where(rng.random(dim) < 0.25, -mean_D, rng.integers(-2, 3, dim))
    return u_ND - errors_ND, errors_ND, error_D


def _l2_round(rng: np.random.Generator, n: int, dim: int, chunk: int) -> tuple[Array, Array, Array]:
    """Messages that cancel on three quarters of the elements, or that the server error cancels there."""
    signs_D = _shuffled_signs(rng, dim)
    errors_ND = rng.integers(-2, 3, (n, dim)).astype(float)

    def quarters() -> Array:
        return np.concatenate([rng.permutation(np.arange(chunk) < chunk // 4) for _ in range(dim // chunk)])

    if n > 1 and rng.random() < 0.5:
        u_ND = 2.0 ** rng.integers(-2, 3) * signs_D * np.where(quarters(), 1.0, _halves(n))
        return u_ND - errors_ND, errors_ND, np.zeros(dim)
    # the mean of the scales is a power of two as well
    scale_N = 2.0 ** rng.integers(-2, 3) * (rng.permutation(np.tile([0.5, 0.5, 1, 2], n // 4)) if n > 2 else np.ones(n))
    if dim > LONGEST:  # every element counts, so that one that is left out shows
        u_ND = scale_N[:, None] * signs_D
        return u_ND - errors_ND, errors_ND, scale_N.mean() * signs_D * rng.choice([0.0, 1.0, 3.0])
    picked_D = rng.permutation(np.arange(dim) < dim // 4)
    u_ND = np.where(picked_D, 2 * scale_N[:, None] * signs_D, 0.0)
    sent_D = scale_N.mean() * np.where(picked_D, signs_D, 1.0)
    return u_ND - errors_ND, errors_ND, np.where(quarters(), sent_D, -sent_D)  # so w is 2 sent, or exactly 0


def _halves(n: int) -> Array:
    """Factors (N, 1): every second worker says the opposite."""
    return np.where(np.arange(n) % 2 == 0, 1.0, -1.0)[:, None]


def rounds_nowhere(traits: Traits, inputs: Call) -> bool:
    """Whether a correct round on these inputs rounds nowhere in the class's dtype, whatever its order of summation.

    Each number is a multiple of a unit, and no sum of magnitudes reaches 2^24 units (2^53 in float64); means, roots and
    the errors that are left are numbers of the dtype. Divisors are powers of two, and l2 scales too, so it does not
    matter whether one divides by them or multiplies by the reciprocal.
    """
    if traits.scale_block is not None or inputs[0].shape[0] & (inputs[0].shape[0] - 1):
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
    divisor = u_XD.shape[-1] if scale == "l1" else math.sqrt(u_XD.shape[-1])
    if math.log2(divisor) % 1:
        return None
    terms_XD = np.abs(u_XD) if scale == "l1" else u_XD**2
    total_X = terms_XD.sum(axis=-1)
    mean_X = total_X / u_XD.shape[-1]
    scale_X = mean_X if scale == "l1" else np.sqrt(mean_X)
    power = 1 if scale == "l1" else 2
    exact = _fits(terms_XD, np.zeros(1), kind, axis=-1) and np.array_equal(mean_X * u_XD.shape[-1], total_X)
    exact = exact and np.array_equal(scale_X**power, mean_X)
    if scale == "l2":
        exact = exact and bool(is_power_of_two(scale_X).all())
    for numbers in (mean_X, scale_X):
        exact = exact and np.array_equal(numbers.astype(kind).astype(np.float64), numbers)
    return scale_X[..., None] * np.where(u_XD >= 0, 1.0, -1.0) if exact else None


def exact_run(traits: Traits, n: int, hyper: CommonHyper, seed: int, before: int = 0) -> OptimizerCase | None:
    """A run with exact compression rounds, with beta1 = 1/2 and the scale of ``hyper``: two for l1 on few elements and
    workers, else one; ``before`` exchanges, or steps of Adam, come first.

    These leave m-bar = 2 everywhere and no errors, so that u = 1 + g_i/2 takes any value that one likes. 0/1 Adam sends
    gamma times the sum of a worker's momenta since they last met: the last gradient before it makes that what one
    likes. In the update form all of this times P, so that has to be a power of two, and so does a block.

    None as in :func:`exact_round`, and where P, the blocks or the meetings are of another kind.
    """
    dims = [dim for dim in exact_sizes(traits, n, hyper.scale) if dim <= 256]
    if not dims:
        return None
    rng = np.random.default_rng(seed)
    dim = int(rng.choice(dims))
    rounds = 2 if hyper.scale == "l1" and dim <= 16 and n <= 4 else 1
    walks = _walks(traits, hyper, before + rounds)
    chunk, block = _chunk_and_block(traits, n, dim, hyper)
    if walks is None or _rounded_update(hyper) or not _rounds_are_exact(traits, n, dim, hyper):
        return None
    quarter_D = np.tile(rng.permutation(np.arange(chunk) < max(1, chunk // 4)), dim // chunk)
    # all scales are equal, and the workers agree on a quarter of the elements: on the rest their messages cancel
    u_ND = _shuffled_signs(rng, dim) * np.where(quarter_D, 1.0, _halves(n))
    if hyper.scale == "l1":
        magnitudes_KB = rng.choice([1.0, 2.0, 4.0], (dim // block, block))
        u_ND *= np.stack([rng.permuted(magnitudes_KB, axis=1).ravel() for _ in range(n)])
    elif n == 1:  # a quarter of the elements is +-2, the rest 0
        u_ND = np.where(quarter_D, 2 * u_ND, 0.0)
    quiet, walk = 1 + sum(walks[:before]), walks[before]
    grads_TND = np.full((1 + sum(walks), n, dim), 2.0)
    grads_TND[0] = 4
    grads_TND[quiet:] = 2 * rng.integers(-3, 4, grads_TND[quiet:].shape)
    m_ND, sum_ND = np.full((n, dim), 2.0), np.zeros((n, dim))
    for grads_ND in grads_TND[quiet : quiet + walk - 1]:
        m_ND = (m_ND + grads_ND) / 2
        sum_ND += m_ND
    grads_TND[quiet + walk - 1] = 2 * (u_ND / hyper.sent_unit - sum_ND) - m_ND
    return _run(traits, hyper, grads_TND, rng)


def tied_run(traits: Traits, n: int, hyper: CommonHyper, seed: int, before: int = 0) -> OptimizerCase | None:
    """A run with ties at the server on an N >= 3 that is no power of two, so that a mean may round; with beta1 = 0.

    First there is a gradient, and then none for ``before`` exchanges, or steps of Adam. In the next round three workers
    say +-N, +-2N and +-3N, so that |w| is 0, 2, 4 or 6 and its scale 4 in each eight elements. Workers keep no error,
    and the server none where |w| = 4. In the last one there is no gradient: w is the server's error, whatever the
    arithmetic, and 0 is a tie. Where a meeting of 0/1 Adam closes several steps, it is the sum of a worker's gradients
    that is said.

    None where there is no such number of elements or blocks, or the meetings are of another kind.
    """
    dim, walks = 16, _walks(traits, hyper, before + 2)
    chunk, block = _chunk_and_block(traits, n, dim, hyper)
    if n < 3 or walks is None or chunk % 8 or block % 8 or _rounded_update(hyper) or not traits.takes_size(dim):
        return None
    rng = np.random.default_rng(seed)
    sizes = (6, 4, 2, 4) * 2 if hyper.scale == "l1" else (6, 6, 6, 2, 0, 0, 0, 4)
    signs = {6: (1, 1, 1), 4: (-1, 1, 1), 2: (1, -1, 1), 0: (1, 1, -1)}
    said_3D = np.array([signs[size] for part in range(2) for size in rng.permutation(sizes)], float).T
    u_ND = np.zeros((n, dim))
    which = rng.choice(n, 3, replace=False)
    u_ND[which] = n * np.array([[1.0], [2.0], [3.0]]) * said_3D * _shuffled_signs(rng, dim)
    quiet, last = 1 + sum(walks[:before]), sum(walks[: before + 1])
    grads_TND = np.zeros((1 + sum(walks), n, dim))
    # the mean of equal gradients may round, and P with it; the N here divide this exactly
    grads_TND[0, which[0]] = 4 * n
    grads_TND[quiet:last] = rng.integers(-3, 4, grads_TND[quiet:last].shape)
    grads_TND[last] = u_ND - grads_TND[quiet:last].sum(axis=0)
    return _run(traits, hyper, grads_TND, rng)


def _run(traits: Traits, hyper: CommonHyper, grads_TND: Array, rng: np.random.Generator) -> OptimizerCase:
    steps, n, dim = grads_TND.shape
    grads_TND, params_D = grads_TND.astype(traits.numpy_dtype), np.zeros(dim, traits.numpy_dtype)
    return OptimizerCase(params_D, grads_TND, n, _with_layers(hyper, dim, traits, rng), ("step",) * steps, exact=True)


def _with_layers(hyper: CommonHyper, dim: int, traits: Traits, rng: np.random.Generator) -> CommonHyper:
    """``hyper``, where it has layers with some whose sizes are powers of four: the RMS of m-bar in each is exact."""
    if not hasattr(hyper, "layers") or traits.taken("layers") is not None or dim % 4 or rng.random() < 0.3:
        return hyper
    sizes = [4] * (dim // 4)
    for _ in range(int(rng.integers(4))):
        at = int(rng.integers(len(sizes)))
        together = sizes[at : at + 4]
        if len(together) == 4 and len(set(together)) == 1 and rng.random() < 0.5:
            sizes[at : at + 4] = [4 * sizes[at]]
        elif sizes[at] > 1:
            sizes[at : at + 1] = [sizes[at] // 4] * 4
    return replace(hyper, layers=tuple(sizes))


def _walks(traits: Traits, hyper: CommonHyper, count: int) -> list[int] | None:
    """How many steps the ``count`` exchanges close that follow the first step: 1, 2 or 4 each.

    None where there are others, and where v may be 0 after them.
    """
    refreshes, meets = traits.policies(hyper)
    found, t, last = [], 1, 1
    while len(found) < count and t - last < 5:
        t += 1
        if meets(t):
            found.append(t - last)
            last = t
    gone = hyper.beta2 == 0 and any(map(refreshes, range(2, t + 1)))
    begun = meets(1) and refreshes(1)
    return found if begun and not gone and len(found) == count and set(found) <= {1, 2, 4} else None


def disturbed(
    case: OptimizerCase, counts: Sequence[int], traits: Traits, rng: np.random.Generator, *, can_save: bool
) -> OptimizerCase:
    """A run without rounding; now and then with a load, a skip, or a resize from another of ``counts`` before ties."""
    n, uniform = case.n_workers, (case.grads_TND == case.grads_TND[:, :1, :1]).all(axis=(1, 2))
    if can_save and uniform[0] and rng.random() < 0.4:
        at = int(rng.integers(1, (len(uniform) if uniform.all() else int(np.argmin(uniform))) + 1))
        others = [other for other in rng.permutation(counts).tolist() if other != n]
        exact = (other for other in others if _rounds_are_exact(traits, other, case.dim, case.hyper))
        if (other := next(exact, None)) is not None:
            case = _resized(case, other, at)
    program, grads_TND = list(case.program), case.grads_TND
    if can_save and rng.random() < 0.4:
        program.insert(int(rng.integers(1, len(program))), "reload")
    if rng.random() < 0.3:
        at = int(rng.integers(1, len(grads_TND)))
        spoiled_ND = grads_TND[at - 1].copy()
        spoiled_ND[0, rng.integers(case.dim)] = np.nan
        grads_TND, program = np.insert(grads_TND, at, spoiled_ND, axis=0), [*program, "step"]
    return replace(case, program=tuple(program), grads_TND=grads_TND)


def _resized(case: OptimizerCase, n: int, at: int) -> OptimizerCase:
    """The case begun on ``n`` workers, and resized at step ``at``; until then all have the same gradient."""
    grads_TND = np.repeat(case.grads_TND[:, :1], max(n, case.n_workers), axis=1)
    grads_TND[:, : case.n_workers] = case.grads_TND
    program = [*case.program]
    program.insert(at, f"resize {case.n_workers}")
    return replace(case, n_workers=n, grads_TND=grads_TND, program=tuple(program))


def _rounds_are_exact(traits: Traits, n: int, dim: int, hyper: CommonHyper) -> bool:
    """Whether N and the lengths of chunks and blocks are such powers that nothing rounds."""
    chunk, block = _chunk_and_block(traits, n, dim, hyper)
    powers = n & (n - 1) == 0 and block & (block - 1) == 0 and dim in exact_sizes(traits, n, hyper.scale)
    return powers and chunk % block == 0 and (hyper.scale == "l1" or block == chunk)


def _chunk_and_block(traits: Traits, n: int, dim: int, hyper: CommonHyper) -> tuple[int, int]:
    """Elements of the first chunk, and of its first block."""
    chunk = traits.chunks(dim, n)[0].stop
    return chunk, min(hyper.scale_block or chunk, chunk)


def _rounded_update(hyper: CommonHyper) -> bool:
    """Whether P is multiplied by what is sent and is no power of two, after a warm-up step on gradients of 4."""
    if hyper.compress == "update" and hyper.freeze_step > 1:
        return True
    v = (1 - hyper.beta2) * 16 / (1 - hyper.beta2 if hyper.bias_correction else 1)
    return hyper.compress == "update" and math.log2(math.sqrt(v) + hyper.eps) % 1 != 0
