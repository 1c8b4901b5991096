"""When a bug bites: a feature of the run. A pair of triggers bites where both do.

Each trigger is of one half: ``development``, with which the search was made, or ``held-out``, which nobody looked at
meanwhile. ``recipe`` names levels of the case space under which it can bite: there a mutant must show that it is none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np

from verification.protocol import Array


@dataclass(frozen=True)
class Trigger:
    """When a bug bites.

    Attributes:
        name: in words.
        bites: whether it does now, given what is known of the run (``conditional.py`` says what that is).
        recipe: feature -> levels under which it can.
        mask: the elements at which the bug acts, given D and what is known; None: at all of them.
        levels: the levels of the protocol that have such a feature.
    """

    name: str
    bites: Callable[[SimpleNamespace], bool]
    recipe: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    mask: Callable[[SimpleNamespace], Array] | None = None
    levels: tuple[str, ...] = ("optimizer",)


BOTH = ("optimizer", "collective")
SAVED = ("reload", "reload used", "resize", "resize twice")
DEAD = ("some", "some with a later gradient")
SMALL = ((8, 40), (41, 256))
LOCAL = {"local_doubling": (1, 3), "local_limit": (2, 5, 16), "compressed": ((5, 12), (60, 70))}


def of_size(dim: int) -> tuple[tuple[int, int], ...]:
    """One level of D, of one size."""
    return ((dim, dim),)


def elements(name: str, least: int, size: tuple[int, int], mask: Callable[[SimpleNamespace], Array]) -> Trigger:
    """A trigger at some elements of D >= ``least``; a witness has a D of this ``size``."""
    return Trigger(name, lambda now: now.dim >= least, {"size": (size,)}, mask, BOTH)


ALWAYS = Trigger("always", lambda now: True, levels=BOTH)
"""No condition at all."""

DEVELOPMENT: tuple[Trigger, ...] = (
    ALWAYS,
    Trigger("with bias correction", lambda now: now.hyper.bias_correction, {"bias_correction": (True,)}),
    Trigger("with weight decay", lambda now: now.hyper.weight_decay > 0, {"weight_decay": (0.1,)}),
    Trigger("with a floor", lambda now: now.hyper.variance_floor > 0, {"variance_floor": (1e-3, 0.5)}),
    Trigger("with the l1 scale", lambda now: now.hyper.scale == "l1", {"scale": ("l1",)}),
    Trigger("with zero-variance coordinates", lambda now: now.dead.any(), {"dead": DEAD}),
    Trigger("after a load", lambda now: now.loads > 0, {"checkpoint": SAVED}),
    Trigger("after a resize", lambda now: now.resizes > 0, {"checkpoint": ("resize", "resize twice")}),
    Trigger("after a skipped step", lambda now: now.skips > 0, {"skips": ("in the warm-up", "compressed")}),
    Trigger("on 3 workers", lambda now: now.n == 3, {"workers": ((3, 3),)}, levels=BOTH),
    Trigger("on 5 workers", lambda now: now.n == 5, {"workers": ((5, 5),)}, levels=BOTH),
    Trigger("on 8 workers and more", lambda now: now.n >= 8, {"workers": ((8, 8), (9, 16))}, levels=BOTH),
    Trigger("from step 10 on", lambda now: now.t >= 10, {"compressed": ((10, 12), (60, 70))}),
    Trigger("from step 40 on", lambda now: now.t >= 40, {"compressed": ((60, 70),)}),
    Trigger("D > 64", lambda now: now.dim > 64, {"size": ((65, 256), (257, 1024))}, levels=BOTH),
    Trigger("D > 1024", lambda now: now.dim > 1024, {"size": ((1025, 4095),)}, levels=BOTH),
    Trigger("D = 7 mod 8", lambda now: now.dim % 8 == 7, {"size": (*of_size(23), *of_size(7))}, levels=BOTH),
    Trigger("D = 1 mod 8", lambda now: now.dim % 8 == 1, {"size": (*of_size(9), *of_size(33))}, levels=BOTH),
    Trigger("beta1 = 0", lambda now: now.hyper.beta1 == 0, {"beta1": (0.0,)}),
    Trigger("warm-ups of 6 steps and more", lambda now: now.hyper.freeze_step >= 6, {"freeze": ((6, 9), (17, 40))}),
    Trigger("on a used instance", lambda now: now.starts > 1, {"begin": ("used",)}),
    Trigger("at the third call", lambda now: now.calls == 3, {"calls": ((4, 4),)}, levels=("collective",)),
    Trigger("in the update form", lambda now: now.hyper.compress == "update", {"compress": ("update",)}),
    Trigger(
        "with block scales",
        lambda now: now.hyper.scale_block is not None,
        {"scale_block": ((8, 8), (16, 56), (1024, 1024))},
    ),
    Trigger("with P in bfloat16", lambda now: now.hyper.frozen_dtype == "bfloat16", {"frozen_dtype": ("bfloat16",)}),
    elements("from element 100 on", 101, (257, 1024), lambda now: np.arange(now.dim) >= 100),
    elements("at the last element", 1, (8, 40), lambda now: np.arange(now.dim) == now.dim - 1),
    Trigger("at zero-variance coordinates", lambda now: now.dead.any(), {"dead": DEAD}, lambda now: now.dead),
    Trigger(
        "with one zero-variance coordinate or two of many",
        lambda now: now.dim > 256 and np.count_nonzero(now.dead) in (1, 2),
        {"dead": DEAD, "size": ((257, 1024),)},
    ),
    Trigger("with eps = 0", lambda now: now.hyper.eps == 0, {"eps": (0.0,)}),
    Trigger("started again on other workers", lambda now: now.other_n, {"begin": ("used",)}),
    Trigger("where v is tiny", lambda now: now.tiny.any(), {"dead": ("nearly",)}, lambda now: now.tiny),
    Trigger("where a round is longer than a step", lambda now: now.round > 1, LOCAL),
    Trigger(
        "from the second long round on",
        lambda now: now.round > 1 and now.t > now.hyper.freeze_step + 6,
        {**LOCAL, "compressed": ((60, 70),)},
    ),
    Trigger("with several layers", lambda now: len(now.hyper.layers) > 1, {"layers": ("several", "many")}),
    Trigger("on misaligned inputs", lambda now: now.misaligned, {"layout": ("misaligned", "padded")}, levels=BOTH),
)

HELD_OUT: tuple[Trigger, ...] = (
    Trigger("on 4 workers", lambda now: now.n == 4, {"workers": ((4, 4),)}, levels=BOTH),
    Trigger("on 6 workers", lambda now: now.n == 6, {"workers": ((6, 6),)}, levels=BOTH),
    Trigger("on 7 workers", lambda now: now.n == 7, {"workers": ((7, 7),)}, levels=BOTH),
    Trigger("on 12 workers", lambda now: now.n == 12, {"workers": ((12, 12),)}, levels=BOTH),
    Trigger("on 16 workers", lambda now: now.n == 16, {"workers": ((16, 16),)}, levels=BOTH),
    Trigger(
        "on an odd number of workers",
        lambda now: now.n > 1 and now.n % 2 == 1,
        {"workers": ((3, 3), (5, 5), (7, 7))},
        levels=BOTH,
    ),
    Trigger("from step 60 on", lambda now: now.t >= 60, {"compressed": ((65, 70),)}),
    Trigger("at step 25 alone", lambda now: now.t == 25, {"compressed": ((60, 70),)}),
    Trigger("at every seventh step", lambda now: now.t % 7 == 0, {"compressed": ((5, 12), (60, 70))}),
    Trigger("in the first compressed step", lambda now: now.t == now.hyper.freeze_step + 1),
    Trigger(
        "from the tenth compressed step on",
        lambda now: now.t >= now.hyper.freeze_step + 10,
        {"compressed": ((12, 12), (60, 70))},
    ),
    Trigger("at the tenth call", lambda now: now.calls == 10, {"calls": ((11, 13),)}, levels=("collective",)),
    Trigger("from the fifth call on", lambda now: now.calls >= 5, {"calls": ((11, 13),)}, levels=("collective",)),
    Trigger("257 <= D <= 1023", lambda now: 257 <= now.dim <= 1023, {"size": ((257, 1023),)}, levels=BOTH),
    Trigger("D > 4096", lambda now: now.dim > 4096, {"size": ((4097, 6000),)}, levels=BOTH),
    Trigger("D = 3 mod 8", lambda now: now.dim % 8 == 3, {"size": (*of_size(11), *of_size(35))}, levels=BOTH),
    Trigger("whole bytes", lambda now: now.dim % 8 == 0, {"size": (*of_size(16), *of_size(64))}, levels=BOTH),
    Trigger(
        "D not a multiple of N",
        lambda now: now.dim % now.n != 0,
        {"size": SMALL, "workers": ((3, 3), (5, 5), (7, 7))},
        levels=BOTH,
    ),
    Trigger(
        "an empty last chunk",
        lambda now: (now.n - 1) * 8 * -(-now.dim // (8 * now.n)) >= now.dim,
        {"size": of_size(9), "workers": ((3, 3), (5, 5), (8, 8))},
        levels=BOTH,
    ),
    Trigger("warm-ups longer than 16 steps", lambda now: now.hyper.freeze_step > 16, {"freeze": ((17, 40),)}),
    Trigger(
        "loaded in the warm-up",
        lambda now: now.early_loads > 0,
        {"checkpoint": SAVED, "when": ("in the warm-up",), "freeze": ((2, 9),)},
    ),
    Trigger("loaded into a used instance", lambda now: now.used_loads > 0, {"checkpoint": ("reload used",)}),
    Trigger("after a second resize", lambda now: now.resizes > 1, {"checkpoint": ("resize twice",)}),
    Trigger("after save()", lambda now: now.saves > 0, {"checkpoint": ("save", *SAVED)}),
    Trigger("after two skipped steps", lambda now: now.skips > 1, {"skips": ("compressed",)}),
    Trigger("with a large epsilon", lambda now: now.hyper.eps >= 1e-3, {"eps": (1e-3,)}),
    Trigger("with a large lr", lambda now: now.hyper.lr > 0.1, {"lr": (0.5,)}),
    Trigger("beta2 = 0.5", lambda now: now.hyper.beta2 == 0.5, {"beta2": (0.5,)}),
    Trigger("beta1 = 0.99", lambda now: now.hyper.beta1 == 0.99, {"beta1": (0.99,)}),
    Trigger("without bias correction", lambda now: not now.hyper.bias_correction, {"bias_correction": (False,)}),
    Trigger(
        "with a huge number",
        lambda now: now.largest > 1e20,
        {"magnitude": ("huge",), "compressed": ((2, 4),)},
        levels=BOTH,
    ),
    Trigger(
        "with tiny numbers alone",
        lambda now: 0 < now.largest < 1e-20,
        {"magnitude": ("tiny", "subnormal")},
        levels=BOTH,
    ),
    Trigger("after a step that nobody looked at", lambda now: now.unseen > 0, {"snapshots": ("some steps",)}),
    Trigger("with blocks of 8", lambda now: now.hyper.scale_block == 8, {"scale_block": ((8, 8),)}),
    Trigger(
        "with blocks that do not fit the chunks",
        lambda now: (
            (now.hyper.scale_block or 1) < now.dim and -(-now.dim // (8 * now.n)) * 8 % (now.hyper.scale_block or 1)
        ),
        {"scale_block": ((40, 40),), "size": ((257, 1024),)},
    ),
    Trigger(
        "in the update form without bias correction",
        lambda now: now.hyper.compress == "update" and not now.hyper.bias_correction,
        {"compress": ("update",), "bias_correction": (False,)},
    ),
    Trigger(
        "in the momentum form with P in bfloat16",
        lambda now: (now.hyper.compress, now.hyper.frozen_dtype) == ("momentum", "bfloat16"),
        {"compress": ("momentum",), "frozen_dtype": ("bfloat16",)},
    ),
    Trigger("on more than 16 workers", lambda now: now.n > 16, {"workers": ((17, 32), (33, 64))}, levels=BOTH),
    Trigger("with beta2 = 0", lambda now: now.hyper.beta2 == 0, {"beta2": (0.0,)}),
    Trigger("from the third load on", lambda now: now.loads > 2, {"checkpoint": ("reload often",)}),
    Trigger("on inputs with strides", lambda now: now.strided, {"layout": ("interleaved", "reversed")}, levels=BOTH),
    Trigger("in rounds of three steps and more", lambda now: now.round >= 3, {**LOCAL, "local_limit": (5, 16)}),
    Trigger("where T_v doubles", lambda now: now.hyper.variance_doubling in (1, 2), {"variance_doubling": (1, 2)}),
    Trigger("with two layers", lambda now: len(now.hyper.layers) == 2, {"layers": ("two",)}),
    Trigger(
        "in the second layer",
        lambda now: len(now.hyper.layers) > 1,
        {"layers": ("two", "several")},
        lambda now: np.repeat(np.arange(len(now.hyper.layers)), now.hyper.layers) == 1,
    ),
    elements("from element 4096 on", 4097, (4097, 5000), lambda now: np.arange(now.dim) >= 4096),
    elements("at the first element", 1, (8, 40), lambda now: np.arange(now.dim) == 0),
    elements("at the middle element", 1, (8, 40), lambda now: np.arange(now.dim) == now.dim // 2),
    elements("at every 32nd element", 33, (41, 256), lambda now: np.arange(now.dim) % 32 == 31),
)

SPLITS = {"development": DEVELOPMENT, "held-out": HELD_OUT}


def both(one: Trigger, other: Trigger) -> Trigger | None:
    """The trigger that bites where both do; None where the two ask for different levels of one feature."""
    recipe = dict(one.recipe)
    for name, wanted in other.recipe.items():
        common = tuple(level for level in wanted if level in recipe.get(name, wanted))
        if not common:
            return None
        recipe[name] = common
    masks = [trigger.mask for trigger in (one, other) if trigger.mask is not None]
    mask = (lambda now: np.logical_and.reduce([each(now) for each in masks])) if masks else None
    levels = tuple(level for level in one.levels if level in other.levels)
    return Trigger(
        f"{one.name}, and {other.name}", lambda now: one.bites(now) and other.bites(now), recipe, mask, levels
    )
