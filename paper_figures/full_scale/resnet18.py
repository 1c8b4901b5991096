"""ResNet-18 in its form for images of 32 x 32 pixels (He et al. 2016): 3 x 3 stem, no pooling before the stages."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional


class Block(nn.Module):
    """Two 3 x 3 convolutions and a shortcut, which is a 1 x 1 convolution where the shape changes."""

    def __init__(self, n_in: int, n_out: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(n_in, n_out, 3, stride, padding=1, bias=False)
        self.second = nn.Conv2d(n_out, n_out, 3, 1, padding=1, bias=False)
        self.first_norm, self.second_norm = nn.BatchNorm2d(n_out), nn.BatchNorm2d(n_out)
        same = n_in == n_out and stride == 1
        self.shortcut = nn.Identity() if same else nn.Sequential(
            nn.Conv2d(n_in, n_out, 1, stride, bias=False), nn.BatchNorm2d(n_out)
        )  # fmt: skip

    def forward(self, h: Tensor) -> Tensor:
        """(B, n_in, H, W) -> (B, n_out, H/stride, W/stride)."""
        new = functional.relu(self.first_norm(self.first(h)))
        return functional.relu(self.second_norm(self.second(new)) + self.shortcut(h))


class ResNet18(nn.Module):
    """Four stages of two blocks; ``width`` channels in the first, twice as many in each further one.

    Args:
        width: 64 in the paper: 11,173,962 parameters.
        n_classes: logits.
    """

    def __init__(self, width: int = 64, n_classes: int = 10) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(width)
        stages, n_in = [], width
        for stage in range(4):
            n_out = width << stage
            stages += [Block(n_in, n_out, 1 if stage == 0 else 2), Block(n_out, n_out, 1)]
            n_in = n_out
        self.stages = nn.Sequential(*stages)
        self.head = nn.Linear(n_in, n_classes)

    def forward(self, images: Tensor) -> Tensor:
        """(B, 3, 32, 32) -> logits (B, n_classes)."""
        h = self.stages(functional.relu(self.norm(self.stem(images))))
        return self.head(h.mean(dim=(2, 3)))
