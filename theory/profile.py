"""Table 1 of the 1-bit Adam paper as data: one BERT-Large (sequence 128) training step, in milliseconds, on V100s."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ProfileRow:
    """One row; times in ms.

    Attributes:
        network: ``"Ethernet"`` (40 GbE, 4 GPUs a node, 4.1 Gbit/s effective) or ``"InfiniBand"`` (8 GPUs a node).
        nodes: machines.
        gpus: workers N.
        batch: samples per GPU and micro-step.
        accumulation: micro-steps per optimizer step.
        forward: all forward passes of the step.
        allreduce: the gradient all-reduce, fp16.
        backward: all backward passes of the step.
        other: optimizer and the rest.

    """

    network: str
    nodes: int
    gpus: int
    batch: int
    accumulation: int
    forward: float
    allreduce: float
    backward: float
    other: float

    @property
    def compute(self) -> float:
        """Everything but the all-reduce, ms."""
        return self.forward + self.backward + self.other

    @property
    def step(self) -> float:
        """The whole step, ms."""
        return self.compute + self.allreduce


TABLE_1: tuple[ProfileRow, ...] = (
    ProfileRow("Ethernet", 16, 64, 1, 1, 36.65, 2205.86, 33.63, 74.96),
    ProfileRow("Ethernet", 16, 64, 16, 1, 35.71, 2275.43, 60.81, 75.59),
    ProfileRow("Ethernet", 16, 64, 16, 4, 137.80, 2259.36, 243.72, 74.92),
    ProfileRow("Ethernet", 8, 32, 16, 1, 37.91, 2173.35, 60.71, 75.63),
    ProfileRow("Ethernet", 4, 16, 16, 1, 36.94, 2133.24, 62.82, 76.85),
    ProfileRow("Ethernet", 2, 8, 16, 1, 34.95, 1897.21, 61.23, 75.26),
    ProfileRow("Ethernet", 1, 4, 16, 1, 35.99, 239.76, 59.95, 74.21),
    ProfileRow("InfiniBand", 8, 64, 1, 1, 25.36, 316.18, 23.25, 58.49),
    ProfileRow("InfiniBand", 8, 64, 16, 1, 32.81, 336.40, 59.99, 57.79),
    ProfileRow("InfiniBand", 8, 64, 16, 4, 131.04, 339.52, 237.92, 56.91),
    ProfileRow("InfiniBand", 4, 32, 16, 1, 33.45, 297.28, 56.81, 57.98),
    ProfileRow("InfiniBand", 2, 16, 16, 1, 32.86, 183.74, 56.49, 58.60),
    ProfileRow("InfiniBand", 1, 8, 16, 1, 32.74, 28.18, 59.73, 57.29),
)
"""arXiv 2102.02888, table 1 (seen)."""

BERT_LARGE_PARAMETERS = 336e6
"""About 336 million (BERT-Large, uncased); only the fitted bandwidth in Gbit/s depends on it, no prediction does."""

RECALLED_COMPRESSED_SPEEDUP = {"BERT-Large": 5.48, "SQuAD": 6.17}
"""Largest speed-up inside the compression stage: recalled from the paper, not checked."""

WARMUP_SHARE = {"BERT-Large": 0.15, "SQuAD": 400 / 1848}
"""Warm-up steps over total steps; SQuAD's total (1,848) is recalled."""
