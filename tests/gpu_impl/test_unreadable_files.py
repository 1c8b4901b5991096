"""Files that the system does not let us read or delete, such as another user's: said as what it is, on all workers.

The system's refusal is raised by an audit hook at the call that it would refuse, for to root nothing is refused.
"""

from __future__ import annotations

import errno
import logging
import os
import sys
from pathlib import Path

import pytest
from optimizer_support import model, new, pool, train
from torch import distributed as dist

from gpu_impl import load_checkpoint, save_checkpoint
from gpu_impl.checkpoints import generations
from onebit_files import replacing

CHANGES = ("os.remove", "os.rename", "os.rmdir")
REFUSED = {"events": set(), "part": "", "reason": errno.EACCES, "installed": False}


def refuse(part, events, reason=errno.EACCES):
    """From now on this process is refused these events on paths that have ``part`` in them; "" ends that."""
    if not REFUSED["installed"]:
        sys.addaudithook(on_event)
    REFUSED.update(events=set(events), part=part, reason=reason, installed=True)


def on_event(event, arguments):
    if REFUSED["part"] and event in REFUSED["events"] and REFUSED["part"] in str(arguments[0]):
        raise OSError(REFUSED["reason"], os.strerror(REFUSED["reason"]), str(arguments[0]))


def run_of(steps):
    params = model()
    optimizer = new(params, bucket_elements=60)
    train(params, optimizer, range(1, steps + 1), rank=dist.get_rank() if dist.is_initialized() else 0)
    return params, optimizer


# --- reading ---


def load_refused(folder, part, reason, whose):
    """What each worker is told when a file can't be opened by those in ``whose``; and the steps of the optimizer."""
    params, optimizer = run_of(6)
    save_checkpoint(folder, optimizer, params)
    train(params, optimizer, [7])
    if dist.get_rank() in whose:
        refuse(part, {"open"}, reason)
    try:
        load_checkpoint(folder, optimizer, params)
        said = "nothing"
    except (OSError, ValueError) as error:
        said = f"{'OSError' if isinstance(error, OSError) else 'ValueError'} {error}"
    finally:
        refuse("", ())
    return said, optimizer.steps


FILES = ("checkpoint.json", "plain.pt", ".metadata", "__0_0.distcp", "extra-")


@pytest.mark.parametrize("whose", [(0,), (1,), (0, 1)])
@pytest.mark.parametrize("part", FILES)
def test_what_can_not_be_read_is_not_called_damaged_or_missing(part, whose, tmp_path):
    """It was "the checkpoint is incomplete: plain.pt is missing", or "damaged: ... (rank 0: ...)" on rank 1."""
    for reason in (errno.EACCES, errno.EIO):
        rows = pool(2).call(load_refused, tmp_path / str(reason), part, reason, whose)
        for rank, (said, steps) in enumerate(rows):
            start = "OSError " if rank in whose else f"OSError rank {whose[0]}: "
            assert said.startswith(f"{start}[Errno {reason}] {os.strerror(reason)}: '{tmp_path}")
            assert part in said
            assert said.count("\n") == 0
            assert steps == 7


def test_what_is_missing_or_damaged_still_is(tmp_path):
    for part, said in (("plain.pt", "incomplete: .*plain.pt is missing"), ("__0_0.distcp", "can't be read ")):
        params, optimizer = run_of(6)
        save_checkpoint(tmp_path / part, optimizer, params)
        next(tmp_path.glob(f"{part}/*/{part}")).unlink()
        with pytest.raises(ValueError, match=said):
            load_checkpoint(tmp_path / part, optimizer, params)


def test_a_folder_that_nobody_may_look_into_is_no_empty_one(tmp_path, monkeypatch):
    """And Python 3.14's ``exists`` and ``is_file`` say no there: ``stat`` is asked."""
    params, optimizer = run_of(6)
    save_checkpoint(tmp_path, optimizer, params)
    stat = Path.stat

    def refused(path, **keywords):
        if path.name == "checkpoint.json":
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return stat(path, **keywords)

    monkeypatch.setattr(Path, "stat", refused)
    with pytest.raises(PermissionError, match=r"Permission denied: '.*checkpoint\.json'"):
        load_checkpoint(tmp_path, optimizer, params)


# --- deleting ---


def numbers_in(folder):
    return [int(path.name.rpartition("-")[2]) for path in sorted(folder.glob("checkpoint-*"))]


@pytest.fixture
def warnings_told():
    generations._told.clear()
    told = []
    handler = logging.Handler()
    handler.emit = lambda record: told.append(record.getMessage())
    logging.getLogger("onebit").addHandler(handler)
    yield told
    logging.getLogger("onebit").removeHandler(handler)
    refuse("", ())


@pytest.mark.parametrize("events", [CHANGES, ("os.remove",), ("os.rmdir",)], ids=str)
def test_one_that_can_not_be_deleted_is_told_once_and_the_others_go(events, tmp_path, warnings_told):
    """`keep` was off from then on: the first failure ended the deletion of all."""
    params, optimizer = run_of(6)
    for number in range(1, 8):
        save_checkpoint(tmp_path, optimizer, params, number, keep=2)
        if number == 1:
            refuse("000001", events)
    assert numbers_in(tmp_path) == [1, 6, 7]
    (told,) = warnings_told
    assert "-000001 can't be deleted and stays: [Errno 13] Permission denied" in told
    assert load_checkpoint(tmp_path, optimizer, params) == 7
    refuse("", ())
    save_checkpoint(tmp_path, optimizer, params, 8, keep=2)
    assert numbers_in(tmp_path) == [7, 8], "it goes as soon as it can"


# --- what another user's save has left ---


def leftover(folder, name, *, as_file):
    """What another user's killed save has left of this run's next checkpoint."""
    part = folder / f".{name}.part"
    if as_file:
        part.write_bytes(b"")
    else:
        part.mkdir()
        (part / "writer").write_bytes(b"")
    return part


@pytest.mark.parametrize("as_file", [True, False])
def test_a_leftover_of_another_user_does_not_block_the_run(as_file, tmp_path, warnings_told):
    params, optimizer = run_of(6)
    save_checkpoint(tmp_path, optimizer, params, 1)
    (first,) = tmp_path.glob("checkpoint-*")
    part = leftover(tmp_path, f"{first.name[:-1]}2", as_file=as_file)
    refuse(part.name, CHANGES)
    for number in (2, 3, 4):
        save_checkpoint(tmp_path, optimizer, params, number)
    assert numbers_in(tmp_path) == [4, 5], "number 2 is left out"
    assert part.exists()
    assert len(warnings_told) == 1
    assert f"{part} can't be deleted and stays" in warnings_told[0]
    assert load_checkpoint(tmp_path, optimizer, params) == 4


def test_one_that_is_being_written_is_not_taken_for_a_leftover(tmp_path):
    """Two processes that go on as one run: the second is told, though the first one's lock may only be read."""
    params, optimizer = run_of(6)
    save_checkpoint(tmp_path, optimizer, params, 1)
    other = generations.NewGeneration(tmp_path, optimizer.run.identity, 2)
    other.begin()
    (other.part / "writer").chmod(0o444)
    with pytest.raises(OSError, match="is being written by another process: give each run a folder of its own"):
        save_checkpoint(tmp_path, optimizer, params, 2)
    other.discard()
    save_checkpoint(tmp_path, optimizer, params, 2)
    assert numbers_in(tmp_path) == [1, 2]


def list_refused(folder, whose):
    params, optimizer = run_of(6)
    save_checkpoint(folder, optimizer, params)
    if dist.get_rank() == whose:
        refuse(str(folder), {"os.listdir", "os.scandir"})
    try:
        save_checkpoint(folder, optimizer, params)
    except OSError as error:
        return str(error)
    finally:
        refuse("", ())
    return "nothing"


@pytest.mark.parametrize("whose", [0, 1])
def test_a_folder_that_one_worker_can_not_list_ends_the_save_on_all(whose, tmp_path):
    """The other workers waited in a collective for the one that had failed beside it."""
    rows = pool(2).call(list_refused, tmp_path, whose)
    assert all("Permission denied" in row for row in rows)
    assert rows[1 - whose] == f"rank {whose}: {rows[whose]}"


def test_a_part_of_a_file_that_another_process_has_left_is_not_in_the_way(tmp_path):
    """In containers process numbers come again, so its name was that of another user's."""
    target = tmp_path / "out.json"
    old = tmp_path / f".out.json.{os.getpid()}.part"
    old.write_text("another's")
    refuse(old.name, {"open", *CHANGES})
    try:
        with replacing(target) as part:
            part.write_text("mine")
    finally:
        refuse("", ())
    assert (target.read_text(), old.read_text()) == ("mine", "another's")


def save_refused(folder):
    try:
        save_checkpoint(folder, new(model(), freeze_step=2), None, 1)
    except OSError as error:
        return str(error)
    return "nothing"


def test_a_link_to_nowhere_is_said_to_be_one(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "gone")
    (message,) = pool(1).call(save_refused, tmp_path / "link")
    assert message.endswith("link is a link to " + str(tmp_path / "gone") + ", which is not there: make that folder")
