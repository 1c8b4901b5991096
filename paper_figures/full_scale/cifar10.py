"""CIFAR-10 from its binary files, with the usual augmentation, for ResNet-18.

``cifar-10-batches-bin`` holds ``data_batch_1.bin`` ... ``data_batch_5.bin`` and ``test_batch.bin``: records of one byte
label and 3072 bytes image, red, green and blue planes of 32 rows. The "python version" holds pickles, which can run
code when they are read; it is refused.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from paper_figures.full_scale.resnet18 import ResNet18
from paper_figures.full_scale.task import Index

FOLDER = "cifar-10-batches-bin"
TRAINING, TEST = tuple(f"data_batch_{k}.bin" for k in range(1, 6)), ("test_batch.bin",)
RECORD, N_CLASSES, PADDING = 1 + 3 * 32 * 32, 10, 4


class Cifar10:
    """The task; see ``task.Task``. Test images are the held-out set.

    Args:
        folder: ``cifar-10-batches-bin``, or the folder that it is in.
        width: of the network, 64 in the paper.

    Raises:
        ValueError: the files are not there, or not CIFAR-10's.
    """

    def __init__(self, folder: Path, width: int = 64) -> None:
        found = next((path for path in (folder / FOLDER, folder) if (path / TRAINING[0]).is_file()), None)
        if found is None:
            raise ValueError(
                f"there is no {FOLDER} in {folder}: unpack cifar-10-binary.tar.gz there, the binary version of "
                "https://www.cs.toronto.edu/~kriz/cifar.html (the python version is pickled and not read)"
            )
        self.width = width
        self.images, self.labels = read(found, TRAINING)
        self.test_images, self.test_labels = read(found, TEST)
        self.n_samples, self.n_held_out = len(self.labels), len(self.test_labels)
        pixels = self.images.reshape(-1, 3, 32 * 32)
        self.mean = torch.tensor(pixels.mean(axis=(0, 2), dtype=np.float64), dtype=torch.float32).view(3, 1, 1)
        self.spread = torch.tensor(pixels.std(axis=(0, 2), dtype=np.float64), dtype=torch.float32).view(3, 1, 1)
        if not self.spread.all():
            raise ValueError(f"the images in {found} are of one colour: not CIFAR-10's")

    def model(self) -> nn.Module:
        return ResNet18(self.width)

    def batch(self, index_B: Index, *, held_out: bool = False) -> tuple[Tensor, Tensor]:
        """Normalised images (B, 3, 32, 32) and labels (B,); for training shifted by up to 4 pixels, and mirrored."""
        source, labels = (self.test_images, self.test_labels) if held_out else (self.images, self.labels)
        images = (torch.from_numpy(source[index_B]).float() - self.mean) / self.spread
        if not held_out:
            images = shifted_and_mirrored(images)
        return images, torch.from_numpy(labels[index_B].astype(np.int64))

    def loss(self, model: nn.Module, inputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        logits = model(inputs)
        return functional.cross_entropy(logits, targets), (logits.argmax(dim=1) == targets).float().mean()


def read(folder: Path, names: tuple[str, ...]) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Images (n, 3, 32, 32) and labels (n,) of the files.

    Raises:
        ValueError: a file is missing, or not of the format.
    """
    records = []
    for name in names:
        path = folder / name
        if not path.is_file():
            raise ValueError(f"{path} is missing: unpack all of cifar-10-binary.tar.gz")
        content = np.fromfile(path, np.uint8)
        if content.size == 0 or content.size % RECORD:
            raise ValueError(f"{path} has {content.size} bytes, no multiple of {RECORD}: it is damaged")
        records.append(content.reshape(-1, RECORD))
    table = np.concatenate(records)
    labels, images = table[:, 0], table[:, 1:].reshape(-1, 3, 32, 32)
    if labels.max() >= N_CLASSES:
        raise ValueError(f"{folder} has a label {labels.max()}, CIFAR-10's are 0 to 9: it is damaged")
    return images, labels


def shifted_and_mirrored(images: Tensor) -> Tensor:
    """Each image (B, 3, 32, 32) shifted by -4 to 4 pixels both ways, zeros moving in, and mirrored half of the time."""
    n = len(images)
    padded = functional.pad(images, [PADDING] * 4)
    row, column = torch.randint(0, 2 * PADDING + 1, (2, n, 1))
    rows = row + torch.arange(32)  # (B, 32)
    columns = column + torch.arange(32)
    columns = torch.where(torch.rand(n, 1) < 0.5, columns.flip(1), columns)
    return padded[torch.arange(n)[:, None, None, None], torch.arange(3)[:, None, None], rows[:, None, :, None],
                  columns[:, None, None, :]]  # fmt: skip
