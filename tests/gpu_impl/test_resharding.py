"""``save_checkpoint`` on some shards, ``load_checkpoint`` on others, or none: what Adam knows is the same to the bit,
what is owed is conserved [C11, L9], and damage is seen.
"""

from __future__ import annotations

import numpy as np
import pytest
from optimizer_support import new, pool
from test_torch_checkpoints import network, sharded, step, whole
from torch import distributed as dist

from gpu_impl import load_checkpoint, save_checkpoint
from theory import rounding

N_PARAMS = 4
PLAIN = None


def run_on(shape, seed=0, freeze_step=3):
    """A model and its optimizer on a mesh of (replicas, shards), or plain; and the number of this replica."""
    if shape is not PLAIN:
        return sharded(shape, seed, freeze_step)
    net = network(seed)
    return net, new(net.parameters(), freeze_step=freeze_step), dist.get_rank()


def save(folder, shape, at, freeze_step=3):
    net, optimizer, replica = run_on(shape, 0, freeze_step)
    for t in range(1, at + 1):
        step(net, optimizer, replica, t)
    if at > 1:
        net[0].bias.requires_grad_(False)  # off while it is saved
    save_checkpoint(folder, optimizer, net)
    return contents(net, optimizer, replica)


def load(folder, shape, freeze_step):
    net, optimizer, replica = run_on(shape, 3, freeze_step)
    load_checkpoint(folder, optimizer, net)
    found = contents(net, optimizer, replica)
    for t in range(20, 23):
        step(net, optimizer, replica, t)
    return *found, [np.isfinite(value).all() for value in contents(net, optimizer, replica)[1].values()]


def contents(net, optimizer, replica):
    found = whole(net, optimizer)
    return replica, {key: value for key, value in found.items() if key[1] not in ("frozen",)}


def owed(rows, number):
    """Delta of one parameter in float64, and the sum of all magnitudes in it; ``rows`` are those of the replicas."""
    parts = [row[number, f"worker_error_of_{i}"].astype(np.float64) / len(rows) for i, row in rows.items()]
    parts += [row[number, f"server_error_of_{i}"].astype(np.float64) for i, row in rows.items()]
    return sum(parts), sum(map(np.abs, parts))


SHAPES = [
    ((2, 2), (2, 1)),
    ((2, 2), (1, 2)),
    ((2, 2), (1, 4)),
    ((2, 2), (4, 1)),
    ((2, 2), PLAIN, 2),
    ((2, 2), PLAIN, 1),
    ((2, 1), (2, 2)),
    ((1, 4), (2, 2)),
    (PLAIN, (2, 2)),
    (PLAIN, (1, 2)),
]


def n_of(shape, n_plain=2):
    return n_plain if shape is PLAIN else shape[0] * shape[1]


CASES = [(shapes, at, 3) for shapes in SHAPES for at in (2, 6)] + [(SHAPES[k], 2, "auto") for k in (0, 4, 8)]


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("shapes", "at", "freeze_step"), CASES, ids=str)
def test_another_number_of_shards_or_none(shapes, at, freeze_step, tmp_path):
    """It was refused as damaged. With a rule the norms of v are among what is the same."""
    old, new_shape, *plain = shapes
    saved = dict(pool(n_of(old)).call(save, tmp_path, old, at, freeze_step))
    loaded = {}
    for replica, found, finite in pool(n_of(new_shape, *plain)).call(load, tmp_path, new_shape, freeze_step):
        loaded[replica] = found
        assert all(finite)
    for found in loaded.values():
        shared = [key for key in found if "error" not in str(key[1])]
        assert len(shared) >= 4 * N_PARAMS
        assert freeze_step == 3 or all(found[k, "variance_norms"][-at:].all() for k in range(N_PARAMS))
        assert [key for key in shared if found[key].tobytes() != saved[0][key].tobytes()] == []
    for number in range(N_PARAMS):
        (before, size), (after, _) = owed(saved, number), owed(loaded, number)
        assert (np.abs(after - before) <= 2 * rounding.gamma(4, "float32") * size).all()
        assert at < 3 or number == 0 or np.abs(before).max() > 1e-4


def load_and_say(folder, shape):
    net, optimizer, _ = run_on(shape, seed=3)
    try:
        load_checkpoint(folder, optimizer, net)
    except ValueError as error:
        return str(error)
    return "nothing"


def test_damage_is_seen_when_shards_are_cut_anew(tmp_path):
    pool(4).call(save, tmp_path, (2, 2), 6)
    (file,) = tmp_path.glob("checkpoint-*/__1_0.distcp")
    contents = file.read_bytes()
    at = contents.index(b"archive/data/0") + 64
    at += -at % 64  # torch aligns what it stores
    file.write_bytes(contents[:at] + bytes([contents[at] ^ 1]) + contents[at + 1 :])
    for message in pool(2).call(load_and_say, tmp_path, PLAIN):
        assert "the checkpoint is damaged" in message
