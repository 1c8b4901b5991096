"""Softmax and cross-entropy over the last axis, shared by softmax regression, the MLP and the transformer."""

from __future__ import annotations

import numpy as np

from reference.problems.base import Array


def softmax(logits: Array) -> Array:
    """p_k = exp(z_k) / sum_j exp(z_j); the maximum is subtracted first, so no finite z overflows."""
    p = logits - logits.max(axis=-1, keepdims=True)
    np.exp(p, out=p)
    p /= p.sum(axis=-1, keepdims=True)
    return p


def losses(logits: Array, labels: Array) -> Array:
    """-log p_label = log sum_j exp(z_j) - z_label, shape of ``labels``; logits (..., K), labels (...) in 0..K-1."""
    shifted = logits - logits.max(axis=-1, keepdims=True)
    chosen = np.take_along_axis(shifted, labels[..., None], axis=-1)[..., 0]
    return np.log(np.exp(shifted).sum(axis=-1)) - chosen


def gradient(logits: Array, labels: Array) -> Array:
    """d(-log p_label)/dz = p - onehot(label), shape of ``logits``."""
    p = softmax(logits)
    chosen = labels[..., None]
    np.put_along_axis(p, chosen, np.take_along_axis(p, chosen, axis=-1) - 1, axis=-1)
    return p
