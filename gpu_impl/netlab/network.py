r"""Hosts on a switch: namespaces, each with one link to a bridge in a namespace of its own, limited each way.

    host 0 [eth0] --- [port0]\
    host 1 [eth0] --- [port1]- bridge       no address, no route and no interface outside of these namespaces
    host 2 [eth0] --- [port2]/

A token bucket (``tbf``) at eth0 limits what a host sends, one at its port what it receives. Added latency is between
a port and its eth0: once on the way from any host to any other (``delay_line.py``). Hosts know each other's addresses
from the start and speak IPv4 alone, and the bridges look for no multicast groups, so that nothing but what the workers
send is on the links.

Hosts may be in nodes: those of a node share a bridge, whose one link to the switch is the limited one. Inside a node
links are as fast as the machine.

    host 0 --- [port0]\                    a token bucket at up0 limits what a node sends, all its hosts together,
                       node0 [up0] --- [down0] bridge0      and one at down0 what it receives
    host 1 --- [port1]/
"""

from __future__ import annotations

from pathlib import Path
from typing import Self

from gpu_impl.netlab.counters import HEADERS, Sent, sent_by, total
from gpu_impl.netlab.delay_line import DelayLine
from gpu_impl.netlab.namespaces import Namespaces, end_processes, remove_leftovers
from gpu_impl.netlab.tools import LabError, ip, tc, what_is_missing

MTU = 1500
INTERFACE = "eth0"
SUBNET = "198.18.0.0/24"
"""In the block that RFC 2544 sets aside for measuring networks."""
CONGESTION = "reno"
OFFLOAD = 2**14
"""Bytes that the kernel may hand to a link at once, to be cut into frames. With its own 64 KiB a bucket must hold more
than is fair; with one frame each, the machine is busy with frames."""
BURST_SECONDS = 1e-3
"""Tokens that a bucket holds: what a link may send at once after a pause, in seconds at its rate."""
SMALLEST_BURST = OFFLOAD + 16 * HEADERS
QUEUE_BYTES = 2**24
"""What waits at a limit before frames are dropped: more than TCP sends unanswered, so that none are."""
WITHOUT_BUCKET = "the network lab needs the kernel's token bucket `tbf` (sch_tbf), which is missing here"


class Network:
    """``n_hosts`` hosts; they are gone after :meth:`close`, and at the next start if this process is killed.

    Args:
        n_hosts: N, 1 to 254.
        congestion: how TCP finds its rate: "reno", which all kernels have, or what this one has besides.
        node_size: hosts of a node, which divides N; 1: there are no nodes.
        delayed: whether latency may be added.

    Attributes:
        hosts: names of their namespaces.

    Raises:
        LabError: it can't be built here; the message says what is missing.
    """

    def __init__(
        self, n_hosts: int, congestion: str = CONGESTION, node_size: int = 1, *, delayed: bool = False
    ) -> None:
        if reason := what_is_missing():
            raise LabError(reason)
        remove_leftovers()
        self._namespaces = Namespaces(["switch", *(f"host{k}" for k in range(n_hosts))])
        self.switch, *self.hosts = self._namespaces.names
        self._limited, self._delay_line = False, None
        self._nodes = range(n_hosts // node_size if node_size > 1 else 0)
        self._outgoing = [(host, INTERFACE) for host in self.hosts]
        self._incoming = [(self.switch, f"port{k}") for k in range(n_hosts)]
        if self._nodes:
            self._outgoing = [(self.switch, f"up{j}") for j in self._nodes]
            self._incoming = [(self.switch, f"down{j}") for j in self._nodes]
        try:
            if delayed:
                self._delay_line = DelayLine(zip(self._outgoing, self._incoming, strict=True), self._end_workers)
            self._link(congestion, node_size)
        except BaseException:
            self.close()
            raise

    def _link(self, congestion: str, node_size: int) -> None:
        everyone = range(len(self.hosts))
        lines = ["link add bridge0 type bridge mcast_snooping 0", *_up("bridge0")]
        for j in self._nodes:
            lines += [f"link add node{j} type bridge mcast_snooping 0", *_up(f"node{j}")]
            if not self._delay_line:
                lines.append(f"link add up{j} type veth peer name down{j}")
            lines += [*_up(f"up{j}", f"node{j}"), *_up(f"down{j}", "bridge0")]
        for k, host in enumerate(self.hosts):
            if self._nodes or not self._delay_line:
                lines.append(f"link add port{k} type veth peer name {INTERFACE} netns {host}")
            bridge = f"node{k // node_size}" if self._nodes else "bridge0"
            lines += _up(f"port{k}", bridge)
        ip(self.switch, *lines)
        for k, host in enumerate(self.hosts):
            ip(
                host,
                "link set lo up",
                f"link set {INTERFACE} address {_hardware(k)}",
                *_up(INTERFACE),
                f"address add {_address(k)}/24 dev {INTERFACE} noprefixroute",
                *(f"neighbour add {_address(j)} lladdr {_hardware(j)} dev {INTERFACE}" for j in everyone if j != k),
            )
            try:
                ip(host, f"route add {SUBNET} dev {INTERFACE} congctl {congestion}")
            except LabError:
                known = Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text(encoding="utf-8").split()
                raise LabError(f"--congestion {congestion}: this kernel has {', '.join(known)}") from None

    def check(self) -> None:
        """Whether the links still carry what they should.

        Raises:
            LabError: the program that adds latency was ended by somebody.
        """
        if self._delay_line and self._delay_line.is_lost:
            raise LabError("the program that adds latency was ended from outside, and the workers with it")

    def limit(self, bandwidth: float | None, latency: float = 0.0, queue: int = QUEUE_BYTES) -> None:
        """Set all links, both ways; of nodes, those between them.

        Args:
            bandwidth: bit/s of Ethernet frames; None takes the limit away.
            latency: seconds that a frame takes longer from any host, or node, to any other.
            queue: bytes that may wait at a limit; what comes beyond is dropped.

        Raises:
            LabError: the kernel lacks what it takes.
            ValueError: there is latency on a network that is not ``delayed``.
        """
        if self._delay_line:
            self._delay_line.set(latency)
        elif latency:
            raise ValueError("latency can be added to a network that was made with delayed=True")
        for namespace, interface in (*self._outgoing, *self._incoming):
            lines = [f"qdisc del dev {interface} root"] if self._limited else []
            if bandwidth is not None:
                burst = max(SMALLEST_BURST, round(bandwidth / 8 * BURST_SECONDS))
                bucket = f"tbf rate {round(bandwidth)}bit burst {burst} limit {queue}"
                lines.append(f"qdisc add dev {interface} root handle 1: {bucket}")
            try:
                tc(namespace, *lines)
            except LabError as error:
                if "unknown" not in str(error).lower():
                    raise
                raise LabError(WITHOUT_BUCKET) from None
        self._limited = bandwidth is not None

    def _end_workers(self) -> None:
        """There are no links any more, so nobody should wait for what comes over them."""
        for host in self.hosts:
            end_processes(host)

    def cut(self, host: int) -> None:
        """Unplug that host: nothing reaches it or leaves it until :meth:`join`. Its routes and connections stay."""
        ip(self.switch, f"link set port{host} down")

    def join(self, host: int) -> None:
        """Plug it in again."""
        ip(self.switch, f"link set port{host} up")

    def sent(self) -> list[Sent]:
        """What each host, or node, has sent since the limits were set."""
        return [sent_by(*end) for end in self._outgoing]

    def drops(self) -> int:
        """Frames that queues have dropped on the way to hosts since the limits were set; ``sent`` has the others."""
        return total(sent_by(*end) for end in self._incoming).drops

    def close(self) -> None:
        """Remove every namespace, and with it links, limits and processes. Safe to call twice."""
        try:
            if self._delay_line:
                self._delay_line.close()
        finally:
            self._namespaces.remove()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _up(interface: str, bridge: str = "") -> list[str]:
    """Switch it on, at a bridge or not, without an address of IPv6, for it would ask whether others have that."""
    place = f" master {bridge}" if bridge else ""
    return [
        f"link set {interface} mtu {MTU} gso_max_size {OFFLOAD}{place} addrgenmode none",
        f"link set {interface} up",
    ]


def _address(k: int) -> str:
    return SUBNET.replace(".0/24", f".{k + 1}")


def _hardware(k: int) -> str:
    return f"02:00:00:00:00:{k + 1:02x}"
