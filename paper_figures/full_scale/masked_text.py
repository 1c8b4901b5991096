"""Masked-language pre-training: predict the tokens that were hidden (Devlin et al. 2019), without sentence pairs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from paper_figures.full_scale.bert import Bert
from paper_figures.full_scale.task import Index
from paper_figures.full_scale.tokens import read_tokens

SHARE, IS_MASK, IS_RANDOM = 0.15, 0.8, 0.1
"""Of the text tokens this share is predicted; of these 80 % show the mask, 10 % another token, the rest themselves."""
HELD_OUT = 0.005
NOT_PREDICTED = -100


class MaskedText:
    """The task; see ``task.Task``. The end of the stream is held out.

    Args:
        folder: of ``tokens.bin`` and ``tokens.json``.
        length: L, of a sequence with the tokens that begin and end it.
        width, layers, heads: of the model.

    Raises:
        ValueError: there are no tokens, or too few.
    """

    def __init__(self, folder: Path, *, length: int = 128, width: int, layers: int, heads: int) -> None:
        self.stream, self.length = read_tokens(folder), length
        n_sequences = len(self.stream.tokens) // (length - 2)
        self.n_held_out = max(1, round(HELD_OUT * n_sequences))
        self.n_samples = n_sequences - self.n_held_out
        if self.n_samples < 1:
            raise ValueError(f"{folder} has {len(self.stream.tokens)} tokens, two sequences of {length - 2} are needed")
        self.shape = {"width": width, "layers": layers, "heads": heads}

    def model(self) -> nn.Module:
        return Bert(self.stream.vocabulary, self.length, **self.shape)

    def batch(self, index_B: Index, *, held_out: bool = False) -> tuple[Tensor, Tensor]:
        """Tokens (B, L), some of them hidden, and targets (B, L), -100 where nothing is to be predicted.

        A held-out sequence hides the same tokens whenever it is asked for.
        """
        inner = self.length - 2
        start_B = (index_B + (self.n_samples if held_out else 0)) * inner
        text = torch.from_numpy(self.stream.tokens[start_B[:, None] + np.arange(inner)].astype(np.int64))
        random = torch.Generator().manual_seed(int(index_B[0])) if held_out else torch.default_generator
        inputs, targets = self.hide(text, random)
        ends = torch.tensor([self.stream.classify, self.stream.separate]).expand(len(text), 2)
        nothing = torch.full_like(ends, NOT_PREDICTED)
        return tuple(torch.cat([e[:, :1], part, e[:, 1:]], dim=1) for part, e in ((inputs, ends), (targets, nothing)))  # pyright: ignore[reportReturnType]

    def hide(self, text: Tensor, random: torch.Generator) -> tuple[Tensor, Tensor]:
        """Inputs and targets (B, L - 2) of text; special tokens stay as they are."""
        chosen = (torch.rand(text.shape, generator=random) < SHARE) & (text >= self.stream.n_special)
        how = torch.rand(text.shape, generator=random)
        other = torch.randint(self.stream.n_special, self.stream.vocabulary, text.shape, generator=random)
        inputs = torch.where(chosen & (how < IS_MASK), self.stream.mask, text)
        inputs = torch.where(chosen & (how >= IS_MASK) & (how < IS_MASK + IS_RANDOM), other, inputs)
        return inputs, torch.where(chosen, text, NOT_PREDICTED)

    def loss(self, model: nn.Module, inputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        predicted = targets != NOT_PREDICTED
        logits = model(inputs, predicted).float()
        wanted = targets[predicted]
        n = max(1, len(wanted))  # a batch may hide nothing; its loss is 0
        loss = functional.cross_entropy(logits, wanted, reduction="sum") / n
        return loss, (logits.argmax(dim=-1) == wanted).float().sum() / n
