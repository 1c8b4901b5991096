"""Nodes in the network lab: the limit is on the link between them, and what crosses it is the formula's."""

from __future__ import annotations

import json
import time
from dataclasses import fields, replace
from pathlib import Path

import pytest
import torch
from netlab_support import needs_lab
from torch import distributed as dist

import onebit_command
from gpu_impl.netlab.contestants import IN_NODES
from gpu_impl.netlab.lab import lab
from gpu_impl.netlab.network import Network
from gpu_impl.netlab.tiers import TierPoint
from gpu_impl.netlab.worker import ready
from paper_figures.netlab import tiers
from paper_figures.netlab.document import RESULTS
from paper_figures.netlab.volumes import TOLERANCE

pytestmark = pytest.mark.xdist_group("netlab")


@needs_lab
def test_what_crosses_between_nodes_is_the_formulas(tmp_path):
    """Each contestant; no step is shorter than its frames take on the limited link."""
    file = tmp_path / "tiers.json"
    call = ["netlab", "tiers", "--quick", "--parameters", "400000", "--bandwidth", "200Mbit", "--json", str(file)]
    assert onebit_command.run(call) == 0
    found = json.loads(file.read_text())
    points = {row["contestant"]: row for row in found["points"]}
    assert set(IN_NODES) < set(points) == set(tiers.CONTESTANTS)
    assert found["environment"]["torch"]
    for row in points.values():
        assert row["payload_bytes"] - row["framing"] - row["compared"] == pytest.approx(
            row["formula_bytes"], rel=TOLERANCE
        )
        assert row["step"] > 0.9 * row["line"], "a bucket that is full lets a millisecond pass at once"
    assert points["1-bit-nodes"]["payload_bytes"] < points["1-bit"]["payload_bytes"] / 1.5
    assert points["ddp"]["step"] > points["warm-up-nodes"]["line"] > 10 * points["1-bit-nodes"]["line"]


@needs_lab
def test_inside_a_node_nothing_is_limited():
    with Network(4, node_size=2) as network:
        network.limit(1e8)
        assert network._outgoing == [(network.switch, "up0"), (network.switch, "up1")]
        time.sleep(2.0)  # a bridge that looks for multicast groups tells so within two seconds
        assert [one.bytes for one in network.sent()] == [0, 0]
    with lab(4, node_size=2) as (network, pool):
        network.limit(1e8)
        pool.call(ready)
        before = network.sent()
        pool.call(inside_a_node, 2**20)
        assert sum(one.bytes for one in network.sent()) - sum(one.bytes for one in before) < 2**16


def inside_a_node(n_bytes):
    """An all-reduce among the two workers of each node, after the groups have been made."""
    groups = [dist.new_group(ranks) for ranks in ([0, 1], [2, 3])]
    dist.all_reduce(torch.ones(n_bytes // 4), group=groups[dist.get_rank() // 2])


def test_the_page_shows_the_committed_points():
    (file,) = (RESULTS / "nodes").glob("*.json")
    page = (Path(__file__).parents[2] / "docs" / "netlab.md").read_text(encoding="utf-8")
    assert f"nodes/{file.name}" in page
    names = [field.name for field in fields(TierPoint)]
    points = [TierPoint(**{name: row[name] for name in names}) for row in json.loads(file.read_text())["points"]]
    for point in points:
        assert tiers.data(point) == pytest.approx(tiers.formula_bytes(point), rel=TOLERANCE)
        name, *cells = tiers.row_of(point, points[0])
        assert f"| `{name}` | {' | '.join(cells)} |" in page


@pytest.mark.parametrize("name", tiers.CONTESTANTS)
@pytest.mark.parametrize(("nodes", "node_size", "dim"), [(2, 2, 10**7), (8, 8, 10**5), (32, 2, 10**5)])
def test_only_what_is_known_beside_the_data_is_taken_off(name, nodes, node_size, dim):
    """Where messages are small that is more than three hundredths, and with many workers far more."""
    point = TierPoint(name, nodes, node_size, dim, 8, 1e8, 1, 1, 1, 1, 3, 0)
    formula, known = tiers.formula_bytes(point), tiers.framing(point) + tiers.compared(point)
    for bytes_of_data, is_right in (
        (formula, True),
        (formula + tiers.padding(point), True),
        (0.969 * formula, False),
        (1.031 * formula + tiers.padding(point), False),
    ):
        sent = replace(point, payload_bytes=known + bytes_of_data)
        assert tiers.is_right(sent) == is_right
    if dim == 10**5:
        assert known > TOLERANCE * formula


@pytest.mark.parametrize(("nodes", "node_size"), [(2, 2), (3, 2), (2, 4)])
@pytest.mark.parametrize("dim", [10**6, 10**7])
def test_the_formulas_of_forms_without_nodes_count_links_that_cross(nodes, node_size, dim):
    """Counted pair by pair; and with nodes of one worker all are those of a worker."""
    n = nodes * node_size

    def point(name, size=node_size):
        return TierPoint(name, n // size, size, dim, 8, 1e8, 1, 1, 1, 1, 3, 0)

    message = (dim / 8 + 4 * n) / n
    pairs = [(a, b) for a in range(n) for b in range(n) if a // node_size != b // node_size]
    ring = [a for a in range(n) if a // node_size != (a + 1) % n // node_size]
    gathering = (n - 1) * len(ring) if dim == 10**7 else len(pairs)  # short messages go to all at once
    crossing = message * (len(pairs) + gathering) / nodes
    assert tiers.formula_bytes(point("1-bit")) == pytest.approx(crossing)
    assert tiers.formula_bytes(point("ddp")) == pytest.approx(2 * (n - 1) / n * 4 * dim * len(ring) / nodes)
    assert tiers.formula_bytes(point("1-bit", 1)) == pytest.approx(tiers.formula_bytes(point("1-bit-nodes", 1)))
    assert tiers.formula_bytes(point("ddp", 1)) == pytest.approx(tiers.formula_bytes(point("warm-up-nodes", 1)))
