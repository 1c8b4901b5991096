"""When the warm-up ends: after a given step, or by one of the two rules C10, which compare norms of v.

    "paper"   sum of ||v_t||_1 >= 0.96 of what it was Delta steps before               all parameters together
    "auto"    |V_t - V_{t-Delta}| <= 0.04 V_{t-Delta}, V_t = ||v_t||_1 / (1 - beta2^t)  every parameter by itself

Delta = round(1/(1-beta2)). docs/algorithm.md says what each is worth.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

RULES = ("auto", "paper")
PUBLISHED_RATIO = 0.96
TOLERANCE = 0.04
"""How far the corrected norm of a parameter may move over a window: what the published ratio lets v fall."""


def window_of(groups: Iterable[Mapping[str, Any]]) -> int:
    """Delta steps: of the largest beta2 of the groups that freeze."""
    betas = [group["betas"][1] for group in groups if not group.get("non_freeze", False)]
    allowed = [beta2 for beta2 in betas if beta2 < 1]  # another one is refused by the next step
    return round(1 / (1 - max(allowed, default=0.0)))


class FreezeRule:
    """Decides after each applied warm-up step.

    Attributes:
        norms: ||v_t||_1 of every parameter of the optimizer (n,) float64, of the last Delta + 1 steps, oldest first.
            0 for one that does not freeze or has not joined; what is not there counts as 0, for v begins at 0.
    """

    def __init__(self, freeze_step: int | str, lr_warmup_steps: int) -> None:
        self.freeze_step, self.lr_warmup_steps = freeze_step, lr_warmup_steps
        self.norms: list[Tensor] = []

    @property
    def needs_norms(self) -> bool:
        """Whether it is a rule that ends the warm-up."""
        return self.freeze_step in RULES

    def note(self, norms_n: Tensor, window: int) -> None:
        """The norms after one more step."""
        more = norms_n.shape[0] - (self.norms[0].shape[0] if self.norms else norms_n.shape[0])
        if more:  # parameters of a group that was added since
            self.norms = [torch.nn.functional.pad(earlier_n, (0, more)) for earlier_n in self.norms]
        self.norms = [*self.norms[-window:], norms_n]

    def is_due(self, t: int, window: int, correction_n: Tensor) -> bool:
        """Whether t, the step just noted, is T_w; ``correction_n`` is (1 - beta2^(t-Delta)) / (1 - beta2^t)."""
        if t < self.lr_warmup_steps or self.is_too_early(window):
            return False
        if self.freeze_step == "paper":
            before, after = self.totals()
            return after >= PUBLISHED_RATIO * before
        return bool((self.changes(correction_n).abs() <= TOLERANCE).all())

    def is_too_early(self, window: int) -> bool:
        """Whether there is nothing to compare with, Delta steps ago."""
        return len(self.norms) <= window or not bool(self.norms[0].any())

    def totals(self) -> tuple[float, float]:
        """The norm of all of v Delta steps ago and now; the sums are exact, so all workers have the same."""
        return math.fsum(self.norms[0].tolist()), math.fsum(self.norms[-1].tolist())

    def changes(self, correction_n: Tensor) -> Tensor:
        """By what share the corrected norm of each parameter has moved (n,); inf where it was 0 and is not."""
        before, after = self.norms[0], self.norms[-1]
        moved = after * correction_n / before - 1
        return torch.where(before > 0, moved, torch.where(after > 0, math.inf, 0.0))

    # --- in a state ---

    def histories(self, n: int, window: int) -> Tensor:
        """The norms of each of ``n`` parameters (n, Delta + 1) float64, as their states have them."""
        table = torch.zeros(n, window + 1, dtype=torch.float64)
        if self.norms:
            kept = torch.stack(self.norms[-window - 1 :], dim=1)
            table[: kept.shape[0], window + 1 - kept.shape[1] :] = kept
        return table

    def restore(self, histories: Sequence[Tensor]) -> None:
        """Continue from the histories of all parameters, in order."""
        longest = max((history.shape[0] for history in histories), default=0)
        table = torch.zeros(longest, len(histories), dtype=torch.float64)
        for number, history in enumerate(histories):
            table[longest - history.shape[0] :, number] = history
        self.norms = list(table)
