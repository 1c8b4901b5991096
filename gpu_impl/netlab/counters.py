"""What a link has carried, as the kernel counts it at the link's token bucket, and what of that was payload.

Every frame that a worker's collectives send is Ethernet, IPv4 and TCP with the timestamp option, and then bytes that
gloo wrote. So payload = bytes - 66 frames, however many acknowledgements there are that carry none: those are frames
with 0 bytes. The kernel may hand several frames over as one (segmentation offload); a queue counts them one by one,
each with its headers, where the counters of the interface itself do not.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from gpu_impl.netlab.tools import call

ETHERNET, IPV4, TCP, TIMESTAMPS = 14, 20, 20, 12
HEADERS = ETHERNET + IPV4 + TCP + TIMESTAMPS
"""Bytes of a frame that are not payload. The preamble, the checksum and the gap behind a frame are counted nowhere."""


@dataclass(frozen=True)
class Sent:
    """What one link carried one way.

    Attributes:
        bytes: of whole frames.
        frames: how many.
        drops: frames that a full queue dropped.
    """

    bytes: int = 0
    frames: int = 0
    drops: int = 0

    def __sub__(self, other: Sent) -> Sent:
        return Sent(self.bytes - other.bytes, self.frames - other.frames, self.drops - other.drops)

    def __add__(self, other: Sent) -> Sent:
        return Sent(self.bytes + other.bytes, self.frames + other.frames, self.drops + other.drops)

    @property
    def payload(self) -> int:
        """Bytes that gloo wrote."""
        return self.bytes - HEADERS * self.frames


def sent_by(namespace: str, interface: str) -> Sent:
    """What has passed the limit of an interface since it was set.

    Raises:
        LabError: there is no such interface.
    """
    queues = json.loads(call(["tc", "-netns", namespace, "-json", "-statistics", "qdisc", "show", "dev", interface]))
    root = next((queue for queue in queues if queue.get("root")), None)
    return Sent() if root is None else Sent(root["bytes"], root["packets"], root["drops"])


def total(parts: Iterable[Sent]) -> Sent:
    """The sum."""
    return sum(parts, Sent())
