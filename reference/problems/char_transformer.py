"""Character transformer language model on the source text of the Python standard library."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.special import expit

from reference import arguments
from reference.problems import cross_entropy, datasets, sampling
from reference.problems.base import Array
from reference.problems.finite_sum import FiniteSum
from reference.problems.layout import Layout

NORM_EPS = 1e-5


class CharTransformer(FiniteSum):
    """f(x) = mean over n windows of the mean over T positions of -log p(next character | characters so far).

    The text is ``datasets.standard_library()``, 96 symbols, with Python's manual before it if ``manual``. A sample is a
    window of T + 1 characters; the ``n_windows`` windows are spread evenly over the text and do not overlap. Every
    ``held_out``-th window is kept back (0: none). Decoder-only, pre-norm, d = ``d_model``, T = ``context``:

        h = E[c_t] + P_t                                                    (T, d)
        h <- h + attention(norm(h)) O,   q, k, v = norm(h) A                 A (d, 3d), O (d, d), H heads of size d/H
        h <- h + silu(norm(h) F) G       silu(z) = z s(z)                   F (d, 4d), G (4d, d)
        logits = norm(h) W                                                  W (d, 96)
        norm(h) = g h / sqrt(mean(h^2) + 1e-5)                              a gain g (d,) for each norm
        attention(.) = softmax(q k^T / sqrt(d/H), only past and present) v

    Characters that are in the alphabet and not in the windows leave rows of E without any gradient: zero-variance
    coordinates (C6). Heterogeneous: each worker owns a contiguous stretch of the text, so other modules. No constant is
    known.

    References: A. Vaswani et al., Attention is all you need, NeurIPS 2017; B. Zhang, R. Sennrich, Root mean square
    layer normalization, NeurIPS 2019.
    """

    name = "char_transformer"

    def __init__(
        self,
        *,
        n_workers: int = 8,
        d_model: int = 32,
        n_layers: int = 1,
        n_heads: int = 4,
        context: int = 32,
        n_windows: int = 512,
        batch_size: int | None = 4,
        heterogeneous: bool = False,
        manual: bool = False,
        held_out: int = 0,
        measured: int | None = None,
        dtype: str = "float32",
    ) -> None:
        d = arguments.integer("d_model", d_model)
        self.n_layers = arguments.integer("n_layers", n_layers)
        self.n_heads = arguments.integer("n_heads", n_heads)
        self.context = arguments.integer("context", context)
        n_windows = arguments.integer("n_windows", n_windows)
        if d % self.n_heads:
            raise ValueError(f"n_heads must divide d_model = {d}, got {n_heads!r}")
        self.head_size = d // self.n_heads
        tokens = datasets.standard_library(manual=arguments.boolean("manual", manual))
        stride, room = (len(tokens) - 1) // n_windows, (len(tokens) - 1) // self.context
        if stride < self.context:
            raise ValueError(f"n_windows must be at most {room} for context = {context}, got {n_windows!r}")
        self.windows_nT = tokens[stride * np.arange(n_windows)[:, None] + np.arange(self.context + 1)]
        self.n_symbols = len(datasets.ALPHABET)
        shapes: dict[str, tuple[int, ...]] = {"E": (self.n_symbols, d), "P": (self.context, d)}
        for k in range(self.n_layers):
            shapes |= {f"g{k}": (d,), f"A{k}": (d, 3 * d), f"O{k}": (d, d)}
            shapes |= {f"f{k}": (d,), f"F{k}": (d, 4 * d), f"G{k}": (4 * d, d)}
        self.layout = Layout(shapes | {"w": (d,), "W": (d, self.n_symbols)})
        super().__init__(
            dim=self.layout.dim,
            labels_n=np.arange(n_windows),
            n_workers=n_workers,
            heterogeneous=heterogeneous,
            batch_size=batch_size,
            dtype=dtype,
            held_out=held_out,
            measured=measured,
        )
        self.mask_TT = np.triu(np.full((self.context, self.context), -np.inf, self.dtype), 1)

    def initial_params(self, seed: int) -> Array:
        """Gains 1, embeddings N(0, 0.01), other matrices N(0, 1/inputs), (D,)."""
        random = sampling.generator(sampling.START, seed)
        params_D = np.ones(self.dim, self.dtype)
        for name, values in self.layout.views(params_D).items():
            if values.ndim == 2:
                deviation = 0.1 if name in ("E", "P") else 1 / math.sqrt(values.shape[0])
                values[:] = deviation * random.standard_normal(values.shape)
        return params_D

    def sample_losses(self, params_D: Array, index_n: Array) -> Array:
        """Mean over the T positions of each window of -log p(next character), (n,)."""
        windows = self.windows_nT[index_n]
        logits = self._forward(self.layout.views(params_D), windows[:, :-1], [])
        return cross_entropy.losses(logits, windows[:, 1:].ravel()).reshape(windows.shape[0], -1).mean(axis=-1)

    def batch_gradients(self, params_D: Array, index_NB: Array) -> Array:
        """Back-propagation, one batched product a weight matrix for all workers, (N, D)."""
        N, B = index_NB.shape
        x = self.layout.views(params_D)
        windows = self.windows_nT[index_NB.ravel()]
        tape: list[tuple[Array, ...]] = []
        logits = self._forward(x, windows[:, :-1], tape)
        delta = cross_entropy.gradient(logits, windows[:, 1:].ravel()) / (B * self.context)
        grads_ND = np.empty((N, self.dim), params_D.dtype)
        self._backward(x, windows[:, :-1], tape, delta, self.layout.views(grads_ND))
        return grads_ND

    def _forward(self, x: dict[str, Array], tokens_MT: Array, tape: list[tuple[Array, ...]]) -> Array:
        """Logits (M T, 96) of M windows; appends to ``tape`` what the backward pass needs, one entry a norm.

        All windows of all workers are rows (M T, .) of one product; only attention looks at the windows one by one.
        """
        h = (x["E"][tokens_MT] + x["P"]).reshape(-1, x["P"].shape[1])
        for k in range(self.n_layers):
            normed, scale = _norm(h)
            q, key, v = self._split_heads((normed * x[f"g{k}"]) @ x[f"A{k}"], parts=3)
            attention = cross_entropy.softmax(q @ key.swapaxes(-1, -2) / math.sqrt(q.shape[-1]) + self.mask_TT)
            mixed = self._join_heads(attention @ v)
            tape.append((normed, scale, q, key, v, attention, mixed))
            h = h + mixed @ x[f"O{k}"]
            normed, scale = _norm(h)
            z = (normed * x[f"f{k}"]) @ x[f"F{k}"]
            gate = expit(z)
            tape.append((normed, scale, z, gate))
            h = h + (z * gate) @ x[f"G{k}"]
        tape.append(_norm(h))
        return (tape[-1][0] * x["w"]) @ x["W"]

    def _backward(
        self,
        x: dict[str, Array],
        tokens_MT: Array,
        tape: list[tuple[Array, ...]],
        dlogits: Array,
        grads: dict[str, Array],
    ) -> None:
        """Fill ``grads`` from dlogits (M T, 96); dh is d(loss)/dh at the place the pass has come back to."""
        dh = _norm_linear_back(x, grads, ("w", "W"), tape.pop(), dlogits)
        for k in reversed(range(self.n_layers)):
            *norm, z, gate = tape.pop()
            _product(z * gate, dh, grads[f"G{k}"])
            dz = (dh @ x[f"G{k}"].T) * (gate + z * gate * (1 - gate))
            dh = dh + _norm_linear_back(x, grads, (f"f{k}", f"F{k}"), norm, dz)

            *norm, q, key, v, attention, mixed = tape.pop()
            _product(mixed, dh, grads[f"O{k}"])
            (dmixed,) = self._split_heads(dh @ x[f"O{k}"].T, parts=1)
            dattention = dmixed @ v.swapaxes(-1, -2)
            dscores = attention * (dattention - (attention * dattention).sum(axis=-1, keepdims=True))
            dscores /= math.sqrt(q.shape[-1])
            parts = (dscores @ key, dscores.swapaxes(-1, -2) @ q, attention.swapaxes(-1, -2) @ dmixed)
            dqkv = np.concatenate([self._join_heads(part) for part in parts], axis=-1)
            dh = dh + _norm_linear_back(x, grads, (f"g{k}", f"A{k}"), norm, dqkv)
        N, T, d = grads["P"].shape
        np.sum(dh.reshape(N, -1, T, d), axis=1, out=grads["P"])
        onehot = (tokens_MT.reshape(-1, 1) == np.arange(self.n_symbols)).astype(dh.dtype)
        _product(onehot, dh, grads["E"])

    def _split_heads(self, joined: Array, parts: int) -> Array:
        """(M T, parts d) -> (parts, M, H, T, d/H)."""
        return joined.reshape(-1, self.context, parts, self.n_heads, self.head_size).transpose(2, 0, 3, 1, 4)

    def _join_heads(self, heads: Array) -> Array:
        """(M, H, T, d/H) -> (M T, d)."""
        return heads.swapaxes(1, 2).reshape(-1, self.n_heads * self.head_size)


def _norm(h: Array) -> tuple[Array, Array]:
    """h / sqrt(mean(h^2) + eps) over the last axis, and the factor 1/sqrt(...)."""
    scale = 1 / np.sqrt((h * h).mean(axis=-1, keepdims=True) + NORM_EPS)
    return h * scale, scale


def _product(left: Array, right: Array, out: Array) -> None:
    """Weight gradients left_i^T right_i, where worker i owns the i-th part of the rows: (R, a), (R, b) -> (N, a, b)."""
    N, a, b = out.shape
    np.matmul(left.reshape(N, -1, a).swapaxes(1, 2), right.reshape(N, -1, b), out=out)


def _norm_linear_back(
    x: dict[str, Array], grads: dict[str, Array], names: tuple[str, str], norm: Sequence[Array], dout: Array
) -> Array:
    """Backward of out = (gain * norm(h)) @ weight, ``names`` of gain and weight: fills both gradients, returns dh.

    With n = h s, s = (mean(h^2) + eps)^(-1/2): dh = s (dn - n mean(n dn)).
    """
    gain, weight = names
    normed, scale = norm
    _product(normed * x[gain], dout, grads[weight])
    dscaled = dout @ x[weight].T
    N, d = grads[gain].shape
    np.sum((dscaled * normed).reshape(N, -1, d), axis=1, out=grads[gain])
    dnormed = dscaled * x[gain]
    return scale * (dnormed - normed * (normed * dnormed).mean(axis=-1, keepdims=True))
