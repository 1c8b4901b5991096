"""Multilayer perceptron on digits."""

from __future__ import annotations

from collections.abc import Sequence

from reference import arguments
from reference.problems import cross_entropy, datasets
from reference.problems.base import Array
from reference.problems.relu_network import ReLUNetwork


class MLP(ReLUNetwork):
    """f(x) = (1/n) sum_k -log softmax(z_k)[y_k], z_k the output of a ReLU network on the pixels of digit k.

    On the n = 1797 scikit-learn digits, pixels / 16, or on those that ``held_out`` leaves: every ``held_out``-th digit
    is kept back (0: none). Three border pixels are 0 in every image, so the 3 x ``hidden_sizes[0]`` weights that leave
    them never get a gradient: they are zero-variance coordinates (C6). Others, behind pixels that are rarely lit or
    units that are rarely active, have a tiny variance at the freeze: this is the experiment of C7, at N = 8, B = 16,
    lr = 1e-3.
    Heterogeneous: shards sorted by digit. No constant is known.
    """

    name = "mlp"

    def __init__(
        self,
        *,
        n_workers: int = 8,
        hidden_sizes: Sequence[int] = (128, 64),
        batch_size: int | None = 16,
        heterogeneous: bool = False,
        held_out: int = 0,
        dtype: str = "float32",
    ) -> None:
        pixels_nd, self.labels_n = datasets.digit_pixels()
        super().__init__(
            widths=(pixels_nd.shape[1], *arguments.integers("hidden_sizes", hidden_sizes), 10),
            labels_n=self.labels_n,
            n_workers=n_workers,
            heterogeneous=heterogeneous,
            batch_size=batch_size,
            held_out=held_out,
            dtype=dtype,
        )
        self.inputs_nd = pixels_nd.astype(self.dtype)

    def output_losses(self, outputs: Array, index: Array) -> Array:
        """-log softmax(z_k)[y_k]."""
        return cross_entropy.losses(outputs, self.labels_n[index])

    def output_gradients(self, outputs: Array, index: Array) -> Array:
        """softmax(z_k) - e_{y_k}."""
        return cross_entropy.gradient(outputs, self.labels_n[index])
