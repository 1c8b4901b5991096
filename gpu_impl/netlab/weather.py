"""Bad weather for a network: packet loss, delay spikes, links that go down and come up, drawn from a seed.

The kernel drops frames at random only where it has ``netem``, and many have not. So loss is what it is on real
networks: a queue that is too short for those who meet in it. A delay spike is a link that slows down until its queue
holds seconds; and a link that is down carries nothing at all.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from dataclasses import dataclass
from typing import Self

from gpu_impl.netlab.counters import total
from gpu_impl.netlab.network import QUEUE_BYTES, Network
from gpu_impl.netlab.tools import LabError

CLEAR, LOSS, DELAY, DOWN = "clear", "loss", "delay", "down"
SECONDS = {CLEAR: (2.0, 6.0), LOSS: (5.0, 15.0), DELAY: (1.0, 4.0), DOWN: (1.0, 12.0)}
"""How long a spell lasts: from, to."""
SHORT_QUEUE = 2**15
"""Bytes: two of the pieces that the kernel hands over at once, and a third is lost."""
SLOWER = 50
"""Times, in a delay spike."""


@dataclass(frozen=True)
class Spell:
    """One kind of weather, for a while.

    Attributes:
        kind: CLEAR, LOSS, DELAY or DOWN.
        seconds: how long.
        host: whose link is down.
    """

    kind: str
    seconds: float
    host: int


def forecast(random_: random.Random, n_hosts: int, before: str) -> Spell:
    """The next spell: clear after each bad one."""
    kind = random_.choice((LOSS, DELAY, DOWN)) if before == CLEAR else CLEAR
    return Spell(kind, random_.uniform(*SECONDS[kind]), random_.randrange(n_hosts))


class Weather:
    """Changes the links of ``network`` until the block ends, then clears them.

    Args:
        network: its links.
        bandwidth: bit/s of each, in clear weather.
        seed: of the weather.

    Attributes:
        spells: how many of each kind there were so far.
        dropped: frames that queues have dropped so far; those that meet a link that is down are not counted.
        failure: why the weather stopped changing, if it did.
    """

    def __init__(self, network: Network, bandwidth: float, seed: int) -> None:
        self._network, self._bandwidth, self._random = network, bandwidth, random.Random(seed)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._change, name="weather", daemon=True)
        self.spells: Counter[str] = Counter()
        self.dropped = 0
        self.failure = ""

    def _change(self) -> None:
        spell = Spell(DOWN, 0.0, 0)
        try:
            while not self._over.is_set():
                spell = forecast(self._random, len(self._network.hosts), spell.kind)
                self.spells[spell.kind] += 1
                self._begin(spell)
                self._over.wait(spell.seconds)
                self._end(spell)
        except LabError as error:
            self.failure = str(error)

    def _begin(self, spell: Spell) -> None:
        if spell.kind == DOWN:
            self._network.cut(spell.host)
        else:
            slower = SLOWER if spell.kind == DELAY else 1
            self._network.limit(self._bandwidth / slower, queue=SHORT_QUEUE if spell.kind == LOSS else QUEUE_BYTES)

    def _end(self, spell: Spell) -> None:
        self.dropped += self._network.drops() + total(self._network.sent()).drops
        if spell.kind == DOWN:
            self._network.join(spell.host)
        self._network.limit(self._bandwidth)

    def __enter__(self) -> Self:
        self._network.limit(self._bandwidth)
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._over.set()
        self._thread.join()
