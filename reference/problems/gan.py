"""A generative adversarial network on the principal components of digits."""

from __future__ import annotations

import functools
import math

import numpy as np
from scipy.special import expit

from reference import arguments
from reference.problems import datasets, sampling
from reference.problems.base import Array, Problem
from reference.problems.layout import Layout

N_DIRECTIONS = 64


class GAN(Problem):
    """A game of two players, not a minimisation: x = (generator, discriminator), g = (grad_G L_G, grad_D L_D).

        G(z) = max(z W1 + b1, 0) W2 + b2      D(a) = max(a V1 + c1, 0) V2 + c2      z ~ N(0, I) in R^4
        L_D = mean softplus(-D(a)) + mean softplus(D(G(z)))        L_G = mean softplus(-D(G(z)))

    a is a digit, projected on the first ``components`` principal components and divided by the deviation of the first.
    Both players move at once, by one optimizer over one vector, as compression sees it. Every second digit trains, the
    others are held out.

    So two attributes mean something else than for other problems. ``loss`` is no objective of either player but what
    one wants of the game: the sliced Wasserstein distance of generated to held-out digits, the mean over 64 fixed
    directions of W_1 between the projections, in units of the data. ``gradient`` is the field (grad_G L_G, grad_D L_D)
    over all training digits, with as many fixed latent vectors. No constant is known. Heterogeneous: shards of the
    digits sorted by label.

    Attributes:
        real_distance: the distance of training to held-out digits: what a perfect generator would have, about.

    References: I. Goodfellow et al., Generative adversarial nets, NeurIPS 2014 (with its non-saturating L_G);
    N. Bonneel et al., Sliced and Radon Wasserstein barycenters of measures, JMIV 2015.
    """

    name = "gan"

    def __init__(
        self,
        *,
        n_workers: int = 8,
        components: int = 4,
        hidden: int = 64,
        batch_size: int = 32,
        heterogeneous: bool = False,
        dtype: str = "float32",
    ) -> None:
        components = arguments.integer("components", components)
        hidden = arguments.integer("hidden", hidden)
        if components > 61:
            raise ValueError(f"components must be at most 61, the rank of the digits, got {components!r}")
        self.latent = 4
        self.n_workers = arguments.integer("n_workers", n_workers)
        self.batch_size = arguments.integer("batch_size", batch_size)
        self.dtype = arguments.floating("dtype", dtype)
        self.layout = Layout(
            {
                "W1": (self.latent, hidden), "b1": (hidden,), "W2": (hidden, components), "b2": (components,),
                "V1": (components, hidden), "c1": (hidden,), "V2": (hidden, 1), "c2": (1,),
            }
        )  # fmt: skip
        self.dim = self.layout.dim
        train_nk, self.held_out_nk, labels_n = _projected_digits(components)
        self.train_nk = train_nk.astype(self.dtype)
        self.shards_Nm = sampling.shards(labels_n, self.n_workers, arguments.boolean("heterogeneous", heterogeneous))
        random = sampling.generator(sampling.DATA, 0)
        self.latents_nz = random.standard_normal((len(train_nk), self.latent))
        directions_kK = random.standard_normal((components, N_DIRECTIONS))
        self.directions_kK = directions_kK / np.linalg.norm(directions_kK, axis=0)
        self.real_distance = self.distance(train_nk)

    def initial_params(self, seed: int) -> Array:
        """Weights ~ N(0, 2/inputs), biases 0, (D,)."""
        random = sampling.generator(sampling.START, seed)
        params_D = np.zeros(self.dim, self.dtype)
        for values in self.layout.views(params_D).values():
            if values.ndim == 2:
                values[:] = random.standard_normal(values.shape) * math.sqrt(2 / values.shape[0])
        return params_D

    def distance(self, samples_nk: Array) -> float:
        """Sliced Wasserstein distance of ``samples_nk`` (n, k) to as many held-out digits; NaN or inf if they are."""
        n = min(len(samples_nk), len(self.held_out_nk))
        ours, real = (np.sort(rows[:n] @ self.directions_kK, axis=0) for rows in (samples_nk, self.held_out_nk))
        return float(np.abs(ours - real).mean())

    @np.errstate(over="ignore", invalid="ignore")
    def loss(self, params_D: Array) -> float:
        """Distance of generated to held-out digits, in float64, at fixed latent vectors."""
        params_D = arguments.vector("params_D", params_D, self.dim, np.float64)
        return self.distance(_two_layers(self.layout.views(params_D), "W1 b1 W2 b2", self.latents_nz)[1])

    @np.errstate(over="ignore", invalid="ignore")
    def gradient(self, params_D: Array) -> Array:
        """(grad_G L_G, grad_D L_D) over all training digits and as many fixed latent vectors, (D,)."""
        params_D = arguments.vector("params_D", params_D, self.dim, self.dtype)
        return self.field(params_D, self.train_nk[None], self.latents_nz[None].astype(self.dtype))[0]

    @np.errstate(over="ignore", invalid="ignore")
    def worker_gradients(self, params_D: Array, seed: int, step: int) -> Array:
        """The field on batches of B digits and B latent vectors of each worker's own, (N, D)."""
        params_D = arguments.vector("params_D", params_D, self.dim, self.dtype)
        index_NB = sampling.batches(self.shards_Nm, self.n_workers, self.batch_size, seed, step)
        latents = sampling.generator(sampling.LATENT, seed, step).standard_normal((*index_NB.shape, self.latent))
        return self.field(params_D, self.train_nk[index_NB], latents.astype(self.dtype))

    def field(self, params_D: Array, real_NBk: Array, latents_NBz: Array) -> Array:
        """(grad_G L_G, grad_D L_D) for each worker's batch, (N, D)."""
        N, B, _ = real_NBk.shape
        x = self.layout.views(params_D)
        grads_ND = np.empty((N, self.dim), params_D.dtype)
        grads = self.layout.views(grads_ND)
        hidden, fake_NBk = _two_layers(x, "W1 b1 W2 b2", latents_NBz)

        seen, scores = _two_layers(x, "V1 c1 V2 c2", np.concatenate([real_NBk, fake_NBk], axis=1))
        slopes = expit(scores) / B  # d softplus(D)/dD for the generated, expit - 1 for the real ones
        slopes[:, :B] -= 1 / B
        _back(x, grads, "V1 c1 V2 c2", np.concatenate([real_NBk, fake_NBk], axis=1), seen, slopes)

        of_fake = -expit(-scores[:, B:]) / B  # d softplus(-D)/dD
        of_hidden = (of_fake @ x["V2"].T) * (seen[:, B:] > 0)
        _back(x, grads, "W1 b1 W2 b2", latents_NBz, hidden, of_hidden @ x["V1"].T)
        return grads_ND


def _two_layers(x: dict[str, Array], names: str, inputs: Array) -> tuple[Array, Array]:
    """(hidden layer, output) of max(inputs W + b, 0) V + c."""
    W, b, V, c = (x[name] for name in names.split())
    hidden = np.maximum(inputs @ W + b, 0)
    return hidden, hidden @ V + c


def _back(
    x: dict[str, Array], grads: dict[str, Array], names: str, inputs: Array, hidden: Array, slopes: Array
) -> None:
    """Fill the gradients of one player's four arrays from the slopes of its output (N, B, outputs)."""
    W, b, V, c = names.split()
    np.matmul(hidden.swapaxes(1, 2), slopes, out=grads[V])
    np.sum(slopes, axis=1, out=grads[c])
    of_hidden = (slopes @ x[V].T) * (hidden > 0)
    np.matmul(inputs.swapaxes(1, 2), of_hidden, out=grads[W])
    np.sum(of_hidden, axis=1, out=grads[b])


@functools.cache
def _projected_digits(components: int) -> tuple[Array, Array, Array]:
    """Training digits (n, k), held-out digits (n', k) and training labels, in float64."""
    pixels_nd, labels_n = datasets.digit_pixels()
    train, held_out = pixels_nd[::2].astype(np.float64), pixels_nd[1::2].astype(np.float64)
    mean = train.mean(axis=0)
    axes = np.linalg.svd(train - mean, full_matrices=False)[2][:components].T
    scale = ((train - mean) @ axes[:, 0]).std()
    return (train - mean) @ axes / scale, (held_out - mean) @ axes / scale, labels_n[::2]
