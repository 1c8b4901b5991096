"""0/1 Adam in one flat buffer: the parts of a step, in the names of ``zero_one_adam.py``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import torch
from torch import Tensor

from gpu_impl.kernels.arithmetic import preconditioner_of
from gpu_impl.kernels.flat_buffer import flat_buffer
from gpu_impl.kernels.marks import floor_of, is_marked, live_in
from gpu_impl.kernels.pieces import Gradient
from gpu_impl.kernels.state import F32, F64
from gpu_impl.kernels.torch_ import decode
from gpu_impl.optimizer.bucket import Group
from gpu_impl.optimizer.buffer_bucket import BufferBucket
from gpu_impl.optimizer.names import ZERO_ONE_ADAM, Names

PIECE = 2**16
"""Elements that a processor works on at once."""


class ZeroOneBucket(BufferBucket):
    """0/1 Adam in one flat buffer; ``buffer`` is u_i. One that does not freeze is plain Adam.

    Attributes:
        own: m_i (D,).
        met, walked: x and x - x_i (D,), while the workers have parted.
        is_parted: whether they have.
        is_home: whether the model holds x all the same, for a while.
        is_loaded: whether the workers had parted in a state that was loaded, and no step has been taken since.
        is_written: whether somebody has written to the model while it held x, and no step has been taken since.
        last_rate: Gamma of the last meeting for each parameter (n,) float64; 0 of one that was not there.
        floor: kappa times the mean of live v (1,) float32, parameters that pause included.
        loaded: u-bar / Gamma of the last meeting (D,), if no message says it: after a load, while a parameter pauses.
    """

    names: ClassVar[Names] = ZERO_ONE_ADAM

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        device, n = self.momentum.device, len(self.flat.params)
        self.last_rate = torch.zeros(n, dtype=F64, device=device)
        self.met, self.walked, self.own = flat_buffer(0), flat_buffer(0), flat_buffer(0)
        self.is_parted = self.is_home = self.is_loaded = self.is_written = False
        self.loaded: Tensor | None = None
        self.floor, self._has_floor = torch.zeros(1, dtype=F32, device=device), False
        if self.freezes:
            self.own = flat_buffer(self.flat.dim, F32, device)
            self.begin_exchange()

    # --- a step ---

    def refresh(self, group: Group, mean: Tensor) -> None:
        """V <- beta2 v + (1-beta2) g-bar^2 with the average (D,); what is live may change by that."""
        beta2 = group["betas"][1]
        self.variance.copy_(beta2 * self.variance + (1 - beta2) * (mean * mean))
        self._has_floor = False
        live = live_in(self.variance)
        if not torch.equal(live, ~is_marked(self.momentum)):
            self.mark(live)

    def accumulate(self, group: Group, grad: Tensor) -> None:
        """M_i and u_i along this worker's gradient (D,), before a meeting: 0 where nothing is sent."""
        beta1, gamma = group["betas"][0], float(group["lr"])
        for momentum, own, buffer, g in self._pieces(self.momentum, self.own, self.buffer, grad):
            dead = is_marked(momentum)
            self.worker.ignored.add_((dead & (g != 0)).sum())  # [C6]
            own.copy_(beta1 * own + (1 - beta1) * g)
            buffer.copy_(torch.where(dead, 0.0, buffer + gamma * own))

    def part(self, variance_floor: float) -> None:
        """The workers part, if they have not, by a step in which nobody is met."""
        self.find_floor(variance_floor)
        if not self.is_parted:
            if not self.met.shape[0]:
                self.met, self.walked = (flat_buffer(self.flat.dim, F32, self.own.device) for _ in range(2))
            self.met.copy_(self.x())
            self.walked.zero_()
            self.is_parted = True

    def walk_call(self, group: Group, grad: Gradient) -> dict[str, Any]:
        """Arguments of such a step, along this worker's gradient."""
        return {
            "params": self.flat.master,
            "met": self.met,
            "walked": self.walked,
            "momentum": self.own,
            "accumulated": self.buffer,
            "variance": self.variance,
            "grad": grad,
            "step": self.scalars,
            "ignored": self.worker.ignored,
            "floor": self.floor,
            "beta1": group["betas"][0],
            "eps": group["eps"],
            "params_copy": self.flat.params_copy,
        }

    def meet(self, group: Group, variance_floor: float, rate: Tensor) -> None:
        """U-bar is there: m_i, x_i and x follow from it, and from Gamma (n,)."""
        self.find_floor(variance_floor)
        x, total, eps, decay = self.x_met(), self.spread(rate), group["eps"], group["weight_decay"]
        moved = torch.empty_like(x)
        rows = self._pieces(self.momentum, self.buffer, self.variance, self.own, x, total, moved)
        for momentum, u, v, m, x_met, gamma, target in rows:
            dead = is_marked(momentum)
            u.masked_fill_(dead, 0.0)
            p = torch.where(live_in(v), preconditioner_of(torch.maximum(v, self.floor), 1.0, eps), 0.0)  # [C6, C7]
            target.copy_(torch.where(dead, x_met, x_met - (p * u + gamma * (decay * x_met))))
            m.copy_(torch.where(gamma > 0, u / gamma, m))
        self.flat.put(moved)
        self.buffer.zero_()
        self.last_rate = rate.clone()
        self.last_rate[list(self.paused)] = 0.0
        if self.paused:
            assert self.loaded is not None
            self.loaded = torch.where(self.spread(self.last_rate) > 0, self.own, self.loaded)
        else:
            self.loaded = None
        self.is_parted = self.is_parted and bool(self.paused)  # a parameter that pauses stays where it is
        if self.is_parted:
            self.met.copy_(moved)
            self.walked.zero_()

    def _pieces(self, *rows: Tensor) -> Iterator[tuple[Tensor, ...]]:
        """Of rows (D,) the same part of each after another: what a processor computes of one stays in its cache."""
        length = PIECE if rows[0].is_cpu else max(1, rows[0].shape[0])
        return zip(*(row.split(length) for row in rows), strict=True)

    def find_floor(self, variance_floor: float) -> None:
        """``floor`` for v as it is."""
        if not self._has_floor:
            self.floor.copy_(floor_of(self.whole_variance(), variance_floor))
            self._has_floor = True

    def whole_variance(self) -> Tensor:
        """v (D,), also of parameters that pause: a step without them leaves P of the others as it is."""
        if not self.paused:
            return self.variance
        whole = self.variance.clone()
        for k, kept in self.paused.items():
            whole[self.flat.slots[k]] = kept["exp_avg_sq"]
        return whole

    def freeze(self, group: Group, variance_floor: float, variance_correction: float, *, loaded: bool = False) -> None:
        self.frozen_with, self.is_frozen = (group["eps"], variance_correction), True

    # --- where the workers are ---

    def refuse_changed(self) -> None:
        """Look whether the model still holds x_i: that is this worker's own, and so is what a change makes of it.

        After a load nobody looks until a step is taken: there the state says where this worker stands. All values are
        compared: torch counts a tensor's changes (``_version``), but not those by way of ``.data``.

        Raises:
            RuntimeError: it does not, while the workers are parted.
        """
        if not self.is_parted or self.is_home or self.is_loaded:
            return
        self.flat.adopt()
        changed = None if self._holds_its_own() else self._other_than(self.met - self.walked)
        if changed is not None:
            k = next(k for k, slot in enumerate(self.flat.slots) if bool(changed[slot].any()))
            raise RuntimeError(
                f"a parameter of shape {tuple(self.flat.params[k].shape)} was changed while the workers are parted, "
                "each at a point of its own: undo it, or load a checkpoint, and change parameters inside `with "
                "optimizer.at_last_meeting():`, where all workers hold the same"
            )

    def _holds_its_own(self) -> bool:
        """Whether the model holds x_i."""
        pieces = self._pieces(self.flat.weights, self.met, self.walked)
        return all(torch.equal((x - walked).to(held.dtype), held) for held, x, walked in pieces)

    def _other_than(self, values: Tensor) -> Tensor | None:
        """Where (D,) the model holds something else than ``values`` (D,) float32; None: nowhere."""
        expected, found = values.to(self.flat.weights.dtype), self.flat.weights
        if torch.equal(expected, found):
            return None
        other = (expected != found) & ~(expected.isnan() & found.isnan())
        return other if bool(other.any()) else None

    def return_to_loaded(self) -> bool:
        """Before the first step after a load: let the model hold x_i of the state; whether it held anything else."""
        if not self.is_loaded or self.is_home:
            return False
        held = self.flat.weights.clone()
        self.flat.put(self.met - self.walked)
        return not torch.equal(held, self.flat.weights)

    def go_home(self) -> None:
        """Let the model hold x, for a while."""
        common = self.common_D()
        if common is not None:
            self.flat.put(common)
            self.is_home = True

    def take_written(self) -> None:
        """What has been written to the model while it holds x is x from now on; x_i moves by as much."""
        if not self.is_home:
            return
        self.flat.adopt()
        common = self.common_D()
        assert common is not None
        changed = self._other_than(common)
        if changed is None:
            return
        new = torch.where(changed, self.flat.weights.float(), common)
        self.met.copy_(torch.where(changed, new, self.met))
        for k, kept in self.paused.items():
            if "master" in kept:
                slot = self.flat.slots[k]
                kept["master"] = new[slot].clone()
                self.met[slot] = torch.where(changed[slot], new[slot] - kept["walked"], self.met[slot])
        self.flat.put(new)
        self.is_written = True

    def go_back(self) -> None:
        """Let the model hold x_i again."""
        if self.is_home:
            self.flat.put(self.met - self.walked)
            self.is_home = False

    def x_met(self) -> Tensor:
        """The x of the last meeting (D,); of a parameter that pauses, where it stands."""
        return self.met if self.is_parted else self.x()

    def common_D(self) -> Tensor | None:
        if not self.is_parted:
            return None
        common = self.met.clone()
        for k, kept in self.paused.items():
            if "master" in kept:
                common[self.flat.slots[k]] = kept["master"]
        return common

    def pause(self, absent: set[int]) -> None:
        if absent != set(self.paused):
            leaving = absent - set(self.paused)
            self.loaded = self.momentum_D()
            super().pause(absent)
            for slot in (self.flat.slots[k] for k in leaving if self.is_parted):
                self.met[slot] = self.flat.weights[slot].float()

    # --- what it knows ---

    def momentum_D(self) -> Tensor:
        if not self.freezes:
            return self.momentum + 0.0
        if self.loaded is not None:
            return self.loaded.clone()
        total, sent = self.spread(self.last_rate), decode(self.exchange.shared, self.layout)
        return torch.where(is_marked(self.momentum) | (total == 0), 0.0, sent / total)

    def parts_of(self, k: int) -> dict[str, tuple[Tensor, float]]:
        slot = self.flat.slots[k]
        own = {"momentum": (self.own[slot], 0.0), "accumulated": (self.buffer[slot], 0.0)}
        if self.is_parted:
            own |= {"walked": (self.walked[slot], 0.0), "master": (self.met[slot], 0.0)}
        return {**super().parts_of(k), **own}

    def flats(self) -> dict[str, Tensor]:
        self.return_to_loaded()
        self.take_written()
        nothing = torch.zeros_like(self.variance)
        more = {"momentum": self.own, "accumulated": self.buffer} if self.freezes else {}
        more |= {"walked": self.walked, "master": self.met} if self.is_parted else {"master": self.x()}
        found = {name: more.get(name, nothing).clone() for name in ("momentum", "accumulated", "walked", "master")}
        return {**super().flats(), **found}

    def load(
        self, found: dict[str, Tensor], *, is_frozen: bool, is_first: bool, frozen_with: tuple[float, float]
    ) -> None:
        del is_first
        self.paused, self.is_frozen, self.frozen_with = {}, is_frozen, frozen_with
        self.is_home = self.is_parted = self.is_written = False
        self.variance.copy_(found["exp_avg_sq"])
        if self.flat.is_narrow:
            self.flat.master.copy_(found["master"])
        if not self.freezes:
            self.momentum.copy_(found["exp_avg"])
            return
        self._has_floor, self.loaded = False, found["exp_avg"]
        self.set_errors(found, live_in(self.variance))
        self.own.copy_(found["momentum"])
        self.buffer.copy_(found["accumulated"])
        self.is_parted = bool(found["walked"].any())
        if self.is_parted:
            self.met, self.walked = found["master"], found["walked"]
            self.flat.put(self.met - self.walked)
        self.is_loaded = self.is_parted
