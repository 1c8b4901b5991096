"""The compression round as a relation: is this output right for these inputs, whatever the rounding?

Neither bits nor worker scales are reported, but both can be read off the new errors: u_hat - delta' is s q to one
rounding, so its magnitude must be one constant s over the whole buffer, and its sign is the bit that was sent. Server
bits and scales are the output itself [L5]. With block scales [C13] all of this holds for every block. Two correct
implementations may differ in a bit only where exact arithmetic is within rounding of zero; conservation (L1) holds for
either choice and is checked at every element.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theory import rounding
from verification.protocol import Array, Scale, Traits
from verification.relation.advice import advice, narrow
from verification.relation.claims import near, number
from verification.relation.finding import Finding, NotJudged, explained, judge
from verification.relation.parts import Parts
from verification.relation.tolerances import (
    combined,
    conservation_tolerance,
    exact_scale_of,
    message_tolerance,
    scale_of,
    sum_tolerance,
    wide_slack,
)

Floats = NDArray[np.float64]

CLAUSES = (
    "worker_one_bit",
    "worker_bits",
    "worker_scale",
    "conservation",
    "one_bit",
    "server_bits",
    "server_scale",
    "no_server_error",
    "dead",
)


@dataclass(frozen=True)
class CompressionRound:
    """One round: what went in, exactly, and what came out.

    Attributes:
        u_ND: exact u_hat = input + worker error, in float64 (N, D).
        u_tolerance_ND: how far a correct u may be from it.
        server_error_D: delta-bar before.
        output_D, worker_errors_ND, server_error_after_D: what the implementation returned, in units of u.
        live_D: mask of live coordinates [C6].
        scale: "l2" or "l1" [C1].
        scale_block: elements of a block that share a scale [C13]; None: one scale a worker, one a chunk.
        traits: dtype and chunks of the implementation.
        exact: the inputs are dyadic, so that no operation of a worker rounds, and none at all where N is a power of
            two: the tolerances are zero.
        names: what a claim calls the output, the worker errors and the server error after the round.
        factor_D: what the output that a claim names is times this; a number, or one an element (D,).
        output_tolerance_D: how far what was received may be from ``output_D``, where it is not reported itself.
    """

    u_ND: Floats
    u_tolerance_ND: Floats
    server_error_D: Array
    output_D: Array
    worker_errors_ND: Array
    server_error_after_D: Array
    live_D: NDArray[np.bool_]
    scale: Scale
    traits: Traits
    scale_block: int | None = None
    exact: bool = False
    names: tuple[str, str, str] = ("output_D", "new_worker_errors_ND", "new_server_error_D")
    factor_D: Any = 1.0
    output_tolerance_D: Any = 0.0

    @cached_property
    def worker_parts(self) -> Parts:
        """What shares a scale at a worker: the whole buffer, or a block of a chunk."""
        if self.scale_block is None:
            return Parts.of([slice(0, self.live_D.size)], self.live_D)
        return self.server_parts

    @cached_property
    def server_parts(self) -> Parts:
        """What shares a scale at the servers: a chunk, or a block of it."""
        return Parts.of([block for _, block in self._blocks], self.live_D)

    @cached_property
    def _blocks(self) -> list[tuple[int, slice]]:
        """The blocks of all chunks, each with the number of its chunk."""
        chunks = self.traits.chunks(self.live_D.size, len(self.u_ND))
        return [(j, block) for j, chunk in enumerate(chunks) for block in self.traits.blocks(chunk, self.scale_block)]

    @cached_property
    def messages_ND(self) -> Floats:
        """u_hat - delta': s q, to within :attr:`message_tolerance_ND`."""
        return self.u_ND - self.worker_errors_ND

    @cached_property
    def message_tolerance_ND(self) -> Floats:
        """How far u_hat - delta' may be from s q; on dyadic inputs 0, unless s is another scale than the right one.

        An l2 scale may be: a root may round, and so may what comes before it.
        """
        u_tolerance_ND = np.zeros_like(self.u_ND) if self.exact else self.u_tolerance_ND
        slack_ND = wide_slack(self.u_ND, self.worker_errors_ND)
        slack_ND += self.traits.lost(2) * self.u_ND.any(axis=1, keepdims=True)  # of zeros alone nothing is lost
        slack_ND += message_tolerance(u_tolerance_ND, self.worker_errors_ND, self.traits.dtype)
        if not self.exact:
            return slack_ND
        if self.scale == "l2":
            return np.where(self.worker_parts.spread(self._right_NK), 0.0, slack_ND)
        (low_NK, high_NK), (right_NK, _) = self._intervals_NK(slack_ND), self._worker_scales
        other_NK = (low_NK <= high_NK) & ((right_NK < low_NK) | (right_NK > high_NK))
        return np.where(self.worker_parts.spread(other_NK), slack_ND, 0.0)

    @cached_property
    def scale_intervals_NK(self) -> tuple[Floats, Floats]:
        """The scales s_i that are consistent with every live element of a part: [low, high], empty if low > high."""
        return self._intervals_NK(self.message_tolerance_ND)

    def _intervals_NK(self, slack_ND: Floats) -> tuple[Floats, Floats]:
        """The same with these tolerances; a scale is a number of the wire's format, and so are the ends."""
        sizes_ND = np.abs(self.messages_ND)
        low_NK = np.maximum(self.worker_parts.reduce(np.maximum, sizes_ND - slack_ND), 0.0)
        high_NK = self.worker_parts.reduce(np.minimum, sizes_ND + slack_ND)
        if self.traits.dtype == "float32":
            low_32, high_32 = low_NK.astype(np.float32), high_NK.astype(np.float32)
            low_NK = np.where(low_32 < low_NK, np.nextafter(low_32, np.float32(np.inf)), low_32).astype(np.float64)
            high_NK = np.where(high_32 > high_NK, np.nextafter(high_32, np.float32(-np.inf)), high_32).astype(
                np.float64
            )
        return low_NK, high_NK

    @cached_property
    def one_bit_workers(self) -> bool:
        low_NK, high_NK = self.scale_intervals_NK
        return bool(np.all(low_NK <= high_NK))

    @cached_property
    def bit_known_ND(self) -> NDArray[np.bool_]:
        """Where the new error tells which bit was sent."""
        return np.abs(self.messages_ND) > self.message_tolerance_ND

    @cached_property
    def server_input(self) -> tuple[Floats, Floats]:
        """Exact w = mean_i s_i q_i + delta-bar for the bits and scales that were sent, and its tolerance; (D,) each."""
        low_ND, high_ND = (self.worker_parts.spread(ends_NK) for ends_NK in self.scale_intervals_NK)
        middle_ND, wobble_ND = (low_ND + high_ND) / 2, (high_ND - low_ND) / 2
        q_ND = np.where(self.bit_known_ND, np.sign(self.messages_ND), 0.0)
        w_D = (middle_ND * q_ND).mean(axis=0) + self.server_error_D
        if self.exact_at_server:
            return w_D, np.zeros_like(w_D)
        tolerance_D: Floats = combined(
            rounding.mean_tolerance(middle_ND, self.server_error_D, dtype, scale_tolerances_N=wobble_ND)
            for dtype in (self.traits.dtype, "float64")
        )
        unknown_D = np.where(self.bit_known_ND, 0.0, high_ND).mean(axis=0)
        some_D = high_ND.any(axis=0) | (self.server_error_D != 0)
        return w_D, tolerance_D + unknown_D + self.traits.lost(2 * len(q_ND) + 4) * some_D

    def findings(self, judged: set[str] | None = None, *, advises: bool = True) -> list[Finding]:
        """What does not hold; ``judged`` collects the clauses that had something to say."""
        found = judge(self, CLAUSES, set() if judged is None else judged)

        def holds(scale: Scale, traits: Traits) -> bool:
            tolerance_ND = self.u_tolerance_ND + (traits.lost(3) - self.traits.lost(3)) * (self.u_ND != 0)  # of a sum
            other = replace(self, scale=scale, traits=traits, u_tolerance_ND=tolerance_ND)
            return not judge(other, CLAUSES, set())

        told = advice(self.scale, self.traits, holds, self.u_ND.shape) if found and advises else ()
        outputs = (self.output_D, self.worker_errors_ND, self.server_error_after_D)
        return list(explained(found, dict(zip(self.names, outputs, strict=True)), told))

    def worker_one_bit(self) -> Iterator[Finding]:
        """Each worker sends one magnitude a part: abs(u - delta') is the same at all its live elements."""
        self._need(self.live_D.any())
        low_NK, high_NK = self.scale_intervals_NK
        for i, k in np.argwhere(~(low_NK <= high_NK))[:1]:
            sizes, slack = np.abs(self.messages_ND[i]), self.message_tolerance_ND[i]
            part = self.worker_parts.slices[k]
            live = part.start + np.flatnonzero(self.live_D[part])
            most, least = live[np.argmax((sizes - slack)[live])], live[np.argmin((sizes + slack)[live])]
            yield Finding(
                "L1",
                "worker_one_bit",
                f"worker {i} did not send one {self.traits.dtype} magnitude{self._within(part)}: |u - new error| "
                f"is {sizes[most]:.9g} at element {most}"
                + (f" and {sizes[least]:.9g} at element {least}" if least != most else ""),
                near(f"abs({self._sent(i, most)}) - abs({self._sent(i, least)})", 0, slack[most] + slack[least]),
            )

    def worker_bits(self) -> Iterator[Finding]:
        """The bit is (u >= 0) wherever rounding can't change that [C2]."""
        for i, k in np.argwhere(self._wrong_bits_ND)[:1]:
            sent, right, other = ("+", "-", "<=") if self.messages_ND[i, k] >= 0 else ("-", "+", ">=")
            message = f"worker {i} sent the sign {sent}, must be {right}, for element {k}: u = {self.u_ND[i, k]:.9g}"
            yield Finding("C2", "worker_bits", message, f"{self._sent(i, k)} {other} 0")

    def worker_scale(self) -> Iterator[Finding]:
        """s_i is the l2 or l1 scale of u_i over live coordinates [C1], of each block where blocks have one [C13]."""
        self._need(self.live_D.any())
        (low_NK, high_NK), (exact_NK, tolerance_NK) = self.scale_intervals_NK, self._worker_scales
        for i, k in np.argwhere(self._wrong_scales_NK)[:1]:
            yield Finding(
                "C1",
                "worker_scale",
                f"worker {i} sent the scale {(low_NK[i, k] + high_NK[i, k]) / 2:.9g}; the {self.scale} "
                f"scale of its u{self._within(self.worker_parts.slices[k])} is {exact_NK[i, k]:.9g}, "
                f"tolerance {tolerance_NK[i, k]:.2g}{narrow(self.traits, low_NK[i, k], high_NK[i, k], exact_NK[i, k])}",
                self._scale_claim(i, self.worker_parts.slices[k], exact_NK[i, k], tolerance_NK[i, k]),
            )

    def conservation(self) -> Iterator[Finding]:
        """L1, at every element: output + all new errors = mean input + all old errors. Needs no reference."""
        arrived_D = self.output_D.astype(np.float64) + self.server_error_after_D
        expected_D = self.messages_ND.mean(axis=0) + self.server_error_D
        if self.exact_at_server:  # w - S Q needs no rounding for the right S, and may for the one that was sent
            tolerance_D = sum_tolerance(expected_D, -self.output_D, expected_D - self.output_D, self.traits.dtype)
            tolerance_D += np.where(tolerance_D > 0, wide_slack(expected_D, self.output_D, operations=2), 0.0)
        else:
            tolerance_D = conservation_tolerance(
                self.message_tolerance_ND,
                self.messages_ND,
                self.server_error_D,
                self.server_error_after_D,
                self.traits.dtype,
            ) + wide_slack(
                self.output_D,
                self.server_error_after_D,
                np.abs(self.messages_ND).mean(axis=0),
                self.server_error_D,
                operations=len(self.u_ND) + 4,
            )
            tolerance_D += self.traits.lost(2 * len(self.u_ND) + 6) + self.output_tolerance_D
        wrong_D = ~(np.abs(arrived_D - expected_D) <= tolerance_D) & self.live_D
        for k in np.flatnonzero(wrong_D)[:1]:
            yield Finding(
                "L1",
                "conservation",
                f"element {k}: output + new errors - (mean input + old errors) = "
                f"{arrived_D[k] - expected_D[k]:.9g}, tolerance {tolerance_D[k]:.2g}",
                self._conservation_claim(k, tolerance_D[k]),
            )

    def no_server_error(self) -> Iterator[Finding]:
        """Where the server compresses nothing it keeps no error: then L1 says what the output must be."""
        self._need(not self.traits.has_server_error)
        for k in np.flatnonzero(self.server_error_after_D)[:1]:
            message = f"has_server_error = False is declared, but the server error at element {k} is "
            claim = f"not {self.names[2]}.any()"
            yield Finding("L1", "no_server_error", f"{message}{self.server_error_after_D[k]:.9g}", claim)

    def one_bit(self) -> Iterator[Finding]:
        """abs(output) is one constant on the live part of a chunk, or of a block of it [L5].

        Where the factor is another one than at the part's first element, to within the tolerances of both; where it is
        the same as one element before, exactly.
        """
        self._need(self.traits.has_server_error and self.live_D.any())
        parts, sizes_D = self.server_parts, np.abs(self.output_D)
        factor_D, slack_D = (
            np.broadcast_to(array, sizes_D.shape) for array in (self.factor_D, self.output_tolerance_D)
        )
        firsts_L = np.repeat(parts.live_L[parts.starts_K], parts.lengths_K)
        lasts_L = np.maximum(np.r_[parts.live_L[:1], parts.live_L[:-1]], firsts_L)
        for others_L in (firsts_L, lasts_L):
            same_L = factor_D[parts.live_L] == factor_D[others_L]
            slack_L = np.where(same_L, 0.0, slack_D[parts.live_L] + slack_D[others_L])
            wrong_L = ~(np.abs(sizes_D[parts.live_L] - sizes_D[others_L]) <= slack_L)
            for at in np.flatnonzero(wrong_L)[:1]:
                k, first, slack = int(parts.live_L[at]), int(others_L[at]), slack_L[at]
                part = int(np.searchsorted(parts.starts_K, at, side="right")) - 1
                claim = f"abs({self.names[0]}[{k}]) == abs({self.names[0]}[{first}])"
                if slack:
                    claim = near(f"abs({self._received(k)}) - abs({self._received(first)})", 0, slack)
                yield Finding(
                    "L5",
                    "one_bit",
                    f"{self._named(part)} is not one magnitude: |output| is {sizes_D[first]:.9g} at element {first}"
                    + (f" and {sizes_D[k]:.9g} at element {k}" if k != first else ""),
                    claim,
                )
                return

    def server_bits(self) -> Iterator[Finding]:
        """The server's bit is (w >= 0) wherever rounding can't change that [C2]."""
        self._need(self.traits.has_server_error and self.live_D.any() and self.one_bit_workers)
        w_D, tolerance_D = self.server_input
        determined_D = rounding.sign_is_determined(w_D, tolerance_D)
        wrong_D = determined_D & self.live_D & (self.output_D != 0) & ((self.output_D > 0) != (w_D >= 0))
        for k in np.flatnonzero(wrong_D)[:1]:
            sent, right, other = ("+", "-", "<") if self.output_D[k] > 0 else ("-", "+", ">")
            message = f"the server sent the sign {sent}, must be {right}, for element {k}: w = {w_D[k]:.9g}"
            yield Finding("C2", "server_bits", message, f"{self.names[0]}[{k}] {other} 0")

    def server_scale(self) -> Iterator[Finding]:
        """S_j is the scale of w over the live part of chunk j, or of a block of it [C1, C3, C13]."""
        self._need(self.traits.has_server_error and self.live_D.any() and self.one_bit_workers)
        parts, (w_D, w_tolerance_D) = self.server_parts, self.server_input
        firsts_K = parts.live_L[parts.starts_K]
        sent_K = np.abs(self.output_D[firsts_K])
        exact_K, tolerance_K = self._scales_of(parts, w_D, w_tolerance_D, exact=self.exact_at_server)
        tolerance_K = tolerance_K + np.broadcast_to(self.output_tolerance_D, w_D.shape)[firsts_K]
        for k in np.flatnonzero(~(np.abs(sent_K - exact_K) <= tolerance_K))[:1]:
            yield Finding(
                "C1",
                "server_scale",
                f"{self._named(k)} has the scale {sent_K[k]:.9g}; the {self.scale} scale of its w is "
                f"{exact_K[k]:.9g}, tolerance {tolerance_K[k]:.2g}"
                f"{narrow(self.traits, sent_K[k], sent_K[k], exact_K[k])}",
                near(f"abs({self._received(int(firsts_K[k]))})", exact_K[k], tolerance_K[k]),
            )

    def dead(self) -> Iterator[Finding]:
        """A zero-variance coordinate has no momentum and no errors [C6]."""
        self._need(not self.live_D.all())
        for name, array in zip(
            self.names, (self.output_D, self.worker_errors_ND, self.server_error_after_D), strict=True
        ):
            if np.any(array[..., ~self.live_D] != 0):
                k = np.flatnonzero(np.atleast_2d(array != 0).any(axis=0) & ~self.live_D)[0]
                message = f"element {k} has zero variance since the freeze, but {name} is not 0 there"
                yield Finding("C6", "dead", message, f"not {name}[..., {k}].any()")
                return

    def _sent(self, i: int, k: int) -> str:
        """What worker i sent for element k, u less its new error, in a claim."""
        error = f"{self.names[1]}.item({i}, {k})"
        return f"{number(self.u_ND[i, k], self.u_tolerance_ND[i, k] / 64)} - {error}"

    def _received(self, k: int) -> str:
        """What everyone received for element k, in a claim."""
        factor = float(np.broadcast_to(self.factor_D, self.output_D.shape)[k])
        return f"{self.names[0]}.item({k})" if factor == 1 else f"{number(factor)} * {self.names[0]}.item({k})"

    def _scale_claim(self, i: int, part: slice, exact: Any, tolerance: Any) -> str:
        """The message at the element of a part that tells most of the scale."""
        live = part.start + np.flatnonzero(self.live_D[part])
        k = live[np.argmin(self.message_tolerance_ND[i, live])]
        return near(f"abs({self._sent(i, k)})", exact, tolerance + self.message_tolerance_ND[i, k])

    def _conservation_claim(self, k: int, tolerance: Any) -> str:
        """Output and new errors at element k are the mean input and the old errors."""
        _, errors, error = self.names
        mean = f"{errors}.item(0, {k})" if len(self.u_ND) == 1 else f"{errors}[:, {k}].mean(dtype=float)"
        total = self.u_ND[:, k].mean() + self.server_error_D[k]
        return near(f"{self._received(k)} + {error}.item({k}) + {mean}", total, tolerance)

    @cached_property
    def _wrong_bits_ND(self) -> NDArray[np.bool_]:
        """Where a worker's bit is not (u >= 0) though rounding cannot change it."""
        determined_ND = rounding.sign_is_determined(self.u_ND, 0.0 if self.exact else self.u_tolerance_ND)
        return determined_ND & self.bit_known_ND & ((self.messages_ND >= 0) != (self.u_ND >= 0)) & self.live_D

    @cached_property
    def exact_at_server(self) -> bool:
        """Nothing rounds at the server either: N is a power of two, and it was made for the right messages."""
        exact = self.exact and not len(self.u_ND) & (len(self.u_ND) - 1)
        return exact and bool(self._right_NK.all()) and not self._wrong_bits_ND.any()

    @cached_property
    def _right_NK(self) -> NDArray[np.bool_]:
        """Where a worker sent its exact scale, to the last bit."""
        off_ND = np.abs(np.abs(self.messages_ND) - self.worker_parts.spread(self._worker_scales[0]))
        return self.worker_parts.reduce(np.maximum, off_ND) == 0

    @cached_property
    def _worker_scales(self) -> tuple[Floats, Floats]:
        """The exact scales of the workers, and their tolerances; (N, K) each."""
        return self._scales_of(self.worker_parts, self.u_ND, self.u_tolerance_ND, exact=self.exact)

    @cached_property
    def _wrong_scales_NK(self) -> NDArray[np.bool_]:
        """Where a worker sent one magnitude, and another one than its scale."""
        (low_NK, high_NK), (exact_NK, tolerance_NK) = self.scale_intervals_NK, self._worker_scales
        gap_NK = np.maximum(low_NK - (exact_NK + tolerance_NK), (exact_NK - tolerance_NK) - high_NK)
        return (low_NK <= high_NK) & (gap_NK > 0)

    def _need(self, premise: object) -> None:
        if not premise:
            raise NotJudged

    def _within(self, part: slice) -> str:
        """Which block, for a message; nothing where there are none."""
        return "" if self.scale_block is None else f" in the block of elements {part.start} to {part.stop - 1}"

    def _named(self, k: int) -> str:
        """Part ``k`` of the servers, for a message."""
        j, block = self._blocks[self.server_parts.numbers_K[k]]
        return f"chunk {j}{self._within(block)}"

    def _scales_of(self, parts: Parts, u_XD: Floats, tolerance_XD: Floats, *, exact: bool) -> tuple[Floats, Floats]:
        """Exact scales of the parts (..., K), and their tolerances."""
        exact_XK, tolerance_XK = (np.zeros((*u_XD.shape[:-1], len(parts.slices))) for _ in range(2))
        for which, elements_KL in parts.by_length():
            u, tolerance = u_XD[..., elements_KL], tolerance_XD[..., elements_KL]
            if exact:
                exact_XK[..., which], tolerance_XK[..., which] = exact_scale_of(u, self.scale, self.traits)
            else:
                exact_XK[..., which], tolerance_XK[..., which] = scale_of(u, tolerance, self.scale, self.traits)
        return exact_XK, tolerance_XK
