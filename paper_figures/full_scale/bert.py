"""BERT's encoder with its head for masked tokens (Devlin et al. 2019), from torch's layers."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

INITIAL_SPREAD = 0.02
DROPOUT = 0.1


class Bert(nn.Module):
    """Post-norm transformer encoder; the output layer shares the token embedding.

    Args:
        vocabulary: number of tokens.
        length: longest sequence.
        width: 768 for BERT-Base, 1024 for BERT-Large.
        layers: 12 or 24.
        heads: 12 or 16.
    """

    def __init__(self, vocabulary: int, length: int, *, width: int, layers: int, heads: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(length, width)
        self.norm, self.dropout = nn.LayerNorm(width, eps=1e-12), nn.Dropout(DROPOUT)
        layer = nn.TransformerEncoderLayer(
            width, heads, 4 * width, DROPOUT, "gelu", layer_norm_eps=1e-12, batch_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.transform, self.head_norm = nn.Linear(width, width), nn.LayerNorm(width, eps=1e-12)
        self.bias = nn.Parameter(torch.zeros(vocabulary))
        self.apply(_initialise)
        for block in self.encoder.layers:
            nn.init.normal_(block.self_attn.in_proj_weight, std=INITIAL_SPREAD)  # pyright: ignore

    def forward(self, tokens: Tensor, predicted: Tensor) -> Tensor:
        """Tokens (B, L) and where to predict (B, L), bool -> logits (number of those, vocabulary)."""
        place = torch.arange(tokens.shape[1], device=tokens.device)
        h = self.encoder(self.dropout(self.norm(self.tokens(tokens) + self.positions(place))))
        h = self.head_norm(functional.gelu(self.transform(h[predicted])))
        return functional.linear(h, self.tokens.weight, self.bias)


def _initialise(module: nn.Module) -> None:
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=INITIAL_SPREAD)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)
