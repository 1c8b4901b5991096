"""Multilayer perceptron on digits."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from reference import arguments
from reference.problems import cross_entropy, datasets, sampling
from reference.problems.base import Array
from reference.problems.finite_sum import FiniteSum
from reference.problems.layout import Layout


class MLP(FiniteSum):
    """f(x) = (1/n) sum_k -log softmax(z_k)[y_k], z_k the output of a ReLU network; x = (W1, b1, W2, b2, ...).

    On the n = 1797 scikit-learn digits:

        h_0 = pixels / 16 (n, 64),  z_l = h_{l-1} W_l + b_l,  h_l = max(z_l, 0),  z = z_L (n, 10)
        dz_L = softmax(z) - e_y,  dW_l = h_{l-1}^T dz_l,  db_l = sum dz_l,  dz_{l-1} = (dz_l W_l^T) [h_{l-1} > 0]

    Three border pixels are 0 in every image, so the 3 x ``hidden_sizes[0]`` weights that leave them never get a
    gradient: they are dead coordinates (C6). Others, behind pixels that are rarely lit or units that are rarely active,
    have a tiny variance at the freeze: this is the experiment of C7, at N = 8, B = 16, lr = 1e-3. Heterogeneous: shards
    sorted by digit. No constant is known; f is not differentiable where some z_l is 0, and [0 > 0] = 0 is used there.
    """

    name = "mlp"

    def __init__(
        self,
        *,
        n_workers: int = 8,
        hidden_sizes: Sequence[int] = (128, 64),
        batch_size: int | None = 16,
        heterogeneous: bool = False,
        dtype: str = "float32",
    ) -> None:
        pixels_nd, self.labels_n = datasets.digit_pixels()
        widths = (pixels_nd.shape[1], *arguments.integers("hidden_sizes", hidden_sizes), 10)
        self.n_layers = len(widths) - 1
        shapes: dict[str, tuple[int, ...]] = {}
        for layer, (inputs, outputs) in enumerate(itertools.pairwise(widths), start=1):
            shapes |= {f"W{layer}": (inputs, outputs), f"b{layer}": (outputs,)}
        self.layout = Layout(shapes)
        super().__init__(
            dim=self.layout.dim,
            labels_n=self.labels_n,
            n_workers=n_workers,
            heterogeneous=heterogeneous,
            batch_size=batch_size,
            dtype=dtype,
        )
        self.pixels_nd = pixels_nd.astype(self.dtype)

    def initial_params(self, seed: int) -> Array:
        """W_l ~ N(0, 2/inputs), b_l = 0, (D,) (He et al., ICCV 2015)."""
        random = sampling.generator(sampling.START, seed)
        params_D = np.zeros(self.dim, self.dtype)
        for values in self.layout.views(params_D).values():
            if values.ndim == 2:
                values[:] = random.standard_normal(values.shape) * math.sqrt(2 / values.shape[0])
        return params_D

    def _forward(self, params_D: Array, index: Array) -> list[Array]:
        """[h_0, h_1, ..., h_{L-1}, z], each (*index.shape, width)."""
        x = self.layout.views(params_D)
        outputs = [self.pixels_nd[index]]
        for layer in range(1, self.n_layers + 1):
            z = outputs[-1] @ x[f"W{layer}"] + x[f"b{layer}"]
            outputs.append(np.maximum(z, 0) if layer < self.n_layers else z)
        return outputs

    def sample_losses(self, params_D: Array, index_n: Array) -> Array:
        """-log softmax(z_k)[y_k], (n,)."""
        return cross_entropy.losses(self._forward(params_D, index_n)[-1], self.labels_n[index_n])

    def batch_gradients(self, params_D: Array, index_NB: Array) -> Array:
        """Back-propagation through all layers, one batched product a layer for all workers, (N, D)."""
        N, B = index_NB.shape
        x = self.layout.views(params_D)
        *hidden, logits_NBK = self._forward(params_D, index_NB)
        grads_ND = np.empty((N, self.dim), params_D.dtype)
        grads = self.layout.views(grads_ND)
        delta = cross_entropy.gradient(logits_NBK, self.labels_n[index_NB]) / B
        for layer in range(self.n_layers, 0, -1):
            h = hidden[layer - 1]
            np.matmul(h.swapaxes(1, 2), delta, out=grads[f"W{layer}"])
            np.sum(delta, axis=1, out=grads[f"b{layer}"])
            if layer > 1:
                delta = (delta @ x[f"W{layer}"].T) * (h > 0)
        return grads_ND
