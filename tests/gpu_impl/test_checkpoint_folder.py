"""What a save may do to a folder: nothing of others is touched, and what fails leaves the older checkpoints whole."""

from __future__ import annotations

import logging
import random
import resource
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from optimizer_support import flat, model, new, pool, train
from torch import distributed as dist
from torch import nn

from gpu_impl import latest_checkpoint, load_checkpoint, save_checkpoint

HYPER = {"bucket_elements": 60}


def run_of(steps, seed=0):
    params = model(seed=seed)
    optimizer = new(params, **HYPER)
    train(params, optimizer, range(1, steps + 1))
    return params, optimizer


def checkpoints(folder):
    return sorted(path.name for path in Path(folder).glob("checkpoint-*"))


def leftovers(folder):
    return sorted(path.name for path in Path(folder).glob(".*"))


# --- the folder belongs to the user ---


def save_twice_beside(folder):
    params, optimizer = run_of(6)
    for _ in range(2):
        save_checkpoint(folder, optimizer, params, keep=1)


def test_what_others_put_into_the_folder_stays(tmp_path):
    """`data-train/corpus.txt` was deleted by a save, for the checkpoint's own folders were called `data-...`."""
    for name in ("data-train/corpus.txt", "checkpoint-old/notes.txt", ".checkpoint.part/x", "checkpoint.json.bak"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("mine")
    pool(2).call(save_twice_beside, tmp_path)
    for name in ("data-train/corpus.txt", "checkpoint-old/notes.txt", ".checkpoint.part/x", "checkpoint.json.bak"):
        assert (tmp_path / name).read_text() == "mine"
    assert len(list(tmp_path.glob("checkpoint-*-0*"))) == 1


def save_with(folder, keeps):
    params, optimizer = run_of(2)
    try:
        save_checkpoint(folder, optimizer, params, keep=keeps[dist.get_rank()])
    except RuntimeError as error:
        return str(error)
    return "saved"


def test_workers_agree_on_how_many_checkpoints_stay(tmp_path):
    assert pool(2).call(save_with, tmp_path, (2, 2)) == ["saved"] * 2
    said = "the workers must agree on keep: rank 0 has 1, rank 1 has 2"
    assert pool(2).call(save_with, tmp_path, (1, 2)) == [said] * 2
    assert len(checkpoints(tmp_path)) == 1


def save_where_an_old_one_was_moved(folder, elsewhere):
    params, optimizer = run_of(6)
    for number in range(4):
        save_checkpoint(folder, optimizer, params, keep=1)
        if number == 0 and dist.get_rank() == 0:
            (first,) = Path(folder).glob("checkpoint-*")
            first.rename(Path(elsewhere) / first.name)
            first.symlink_to(Path(elsewhere) / first.name)
        dist.barrier()
    return first if dist.get_rank() == 0 else None


def test_a_checkpoint_that_was_moved_behind_a_link_stays(tmp_path):
    """`keep` followed the link and deleted the files on the other disk."""
    folder, elsewhere = tmp_path / "run", tmp_path / "archive"
    elsewhere.mkdir()
    link = pool(2).call(save_where_an_old_one_was_moved, folder, elsewhere)[0]
    assert link.is_symlink()
    files = {path.name for path in link.iterdir()}
    assert {"checkpoint.json", "plain.pt"} <= files
    assert [path.is_symlink() for path in sorted(folder.glob("checkpoint-*"))] == [True, False]


def wrong_arguments(folder):
    params, optimizer = run_of(6)
    said = []
    for arguments in ((params, optimizer), (optimizer, params.state_dict()), (optimizer, model(seed=1))):
        for call in (save_checkpoint, load_checkpoint):
            try:
                call(folder, *arguments)
            except ValueError as error:
                said.append(str(error))
    for nowhere in ("", None):
        for call in (save_checkpoint, load_checkpoint):
            with pytest.raises(ValueError, match=r"folder must be a path, got .*; '.' is this folder"):
                call(nowhere, optimizer, params)
    save_checkpoint(folder, optimizer, params)
    with pytest.raises(ValueError, match="not the model that it trains"):
        load_checkpoint(folder, optimizer, model(seed=1))
    return said


def test_what_is_no_model_and_no_optimizer_is_refused(tmp_path):
    for said in pool(2).call(wrong_arguments, tmp_path / "run"):
        assert len(said) == 6
        assert said[0] == "save_checkpoint(folder, optimizer, model) takes a OneBitAdam, got ParameterList"
        assert said[1] == "load_checkpoint(folder, optimizer, model) takes a OneBitAdam, got ParameterList"
        assert said[2] == "model must be a torch.nn.Module or None, got OrderedDict: give the model itself"
        assert said[2] == said[3]
        assert "not the model that it trains" in said[4]
        assert "there is no checkpoint in" in said[5]
    assert len(checkpoints(tmp_path / "run")) == 1


def calls_on(folder):
    params = model()
    optimizer = new(params)
    for call in (save_checkpoint, load_checkpoint):
        yield call.__name__, lambda call=call: call(folder, optimizer, params)
    yield "latest_checkpoint", lambda: latest_checkpoint(folder)


@pytest.mark.parametrize("nothing", ["a\0b", Path("a\0b"), "\ud800", b"bytes", 3, ""])
def test_what_can_be_no_path_is_one_sentence(nothing):
    """A null byte was Python's `embedded null byte`."""
    for name, call in calls_on(nothing):
        with pytest.raises(
            ValueError, match=rf"^{name}\(.*\): folder must be a path, (and nothing can be called|got) "
        ):
            call()


@pytest.mark.parametrize("below", ["", "run", "run/1"])
def test_a_file_in_the_place_of_the_folder_is_named(below, tmp_path):
    """Saving said "File exists"; loading below it, that there is no checkpoint."""
    file = tmp_path / "model.pt"
    file.write_text("mine")
    for _, call in calls_on(file / below):
        with pytest.raises(NotADirectoryError, match=f"^{file} is a file: checkpoints are kept in a folder"):
            call()
    assert [path.name for path in tmp_path.iterdir()] == ["model.pt"]
    assert file.read_text() == "mine"


def load_what_is_deleted_meanwhile(folder, before):
    """Rank 1 finds the checkpoint, and the job that saves there deletes it before ``before``."""
    import gpu_impl.checkpoints.reader as module

    params, optimizer = run_of(6)
    save_checkpoint(folder, optimizer, params)
    owner, name = (module, before) if hasattr(module, before) else (module.Reader, before)
    original = getattr(owner, name)

    def deleted_first(*arguments, **keywords):
        for path in Path(folder).glob("checkpoint-*"):
            (path / "checkpoint.json").rename(path / "deleted")
            shutil.rmtree(path)
        return original(*arguments, **keywords)

    logged = []
    handler = logging.Handler()
    handler.emit = logged.append
    logging.getLogger().addHandler(handler)
    if dist.get_rank() == 1:
        setattr(owner, name, deleted_first)
    try:
        load_checkpoint(folder, optimizer, params)
    except (OSError, ValueError) as error:
        return str(error), isinstance(error, FileNotFoundError), len(logged), optimizer.steps
    finally:
        setattr(owner, name, original)
        logging.getLogger().removeHandler(handler)
    return "nothing", False, len(logged), optimizer.steps


@pytest.mark.parametrize("before", ["_read_manifest", "_file", "_read", "extra"])
def test_a_checkpoint_that_is_deleted_while_it_is_read_is_gone_not_damaged(before, tmp_path):
    other, there = pool(2).call(load_what_is_deleted_meanwhile, tmp_path, before)
    assert "is gone: it was deleted while it was read" in there[0]
    assert "try again" in there[0]
    assert there[1:] == (True, 0, 6), "no traces in the log, and nothing has changed"
    assert "is gone" in other[0] or "there is no checkpoint" in other[0], "as rank 0 finds it"
    assert other[2:] == (0, 6)


def two_optimizers(folder):
    """A generator and a discriminator, saved into one folder in turn; then each is loaded by its path."""
    first, second = run_of(6), run_of(8, seed=1)
    paths = []
    for _ in range(3):
        for params, optimizer in (first, second):
            before = set(checkpoints(folder))
            save_checkpoint(folder, optimizer, params, keep=2)
            paths.append((set(checkpoints(folder)) - before).pop())
    try:
        load_checkpoint(folder, second[1], second[0])
    except ValueError as error:
        message = str(error)
    again = run_of(1, seed=4)
    load_checkpoint(folder / paths[-2], again[1], again[0])
    return message, paths, checkpoints(folder), flat(again[0]).tobytes() == flat(first[0]).tobytes()


def test_two_optimizers_in_one_folder_lose_nothing(tmp_path):
    for message, paths, left, same in pool(2).call(two_optimizers, tmp_path):
        assert left == sorted(paths[2:])
        assert "holds checkpoints of 2 runs: give the path of one of" in message
        assert same


def save_five(folder):
    params, optimizer = run_of(5)
    for t in range(6, 11):
        train(params, optimizer, [t])
        save_checkpoint(folder, optimizer, params, t, keep=3)
    again = run_of(1, seed=2)
    newest = load_checkpoint(folder, again[1], again[0])
    oldest = load_checkpoint(sorted(folder.glob("checkpoint-*"))[0], again[1], again[0])
    save_checkpoint(folder, again[1], again[0], "resumed", keep=3)  # the run goes on, so does its count
    return newest, oldest, again[1].steps, checkpoints(folder)


def test_the_last_k_stay_and_an_older_one_can_be_loaded(tmp_path):
    for newest, oldest, steps, left in pool(2).call(save_five, tmp_path):
        assert (newest, oldest, steps) == (10, 8, 8)
        assert [int(name.rsplit("-")[-1]) for name in left] == [4, 5, 6]
    assert latest_checkpoint(tmp_path).name == left[-1]
    with pytest.raises(ValueError, match="keep must be an integer >= 1, got 0"):
        save_checkpoint(tmp_path, None, keep=0)


# --- extra ---

UNREADABLE = [np.float64(0.5), Path("runs"), np.random.default_rng(0), {"weights": np.ones(3)}]


def save_unreadable(folder, number):
    """A good save, then one whose extra can't be loaded again, on one rank."""
    params, optimizer = run_of(6)
    save_checkpoint(folder, optimizer, params, {"t": 6})
    train(params, optimizer, [7])
    try:
        save_checkpoint(folder, optimizer, params, UNREADABLE[number] if dist.get_rank() == 1 else 7)
    except ValueError as error:
        message = str(error)
    again = run_of(1, seed=1)
    return message, load_checkpoint(folder, again[1], again[0]), again[1].steps


@pytest.mark.parametrize("number", range(len(UNREADABLE)))
def test_an_extra_that_can_not_be_read_replaces_nothing(number, tmp_path):
    for message, extra, steps in pool(2).call(save_unreadable, tmp_path, number):
        assert "extra could not be loaded again: give tensors, numbers" in message
        assert (extra, steps) == ({"t": 6}, 6)
    assert len(checkpoints(tmp_path)) == 1
    assert leftovers(tmp_path) == []


class Told(nn.Linear):
    def get_extra_state(self):
        return {"hook": len}

    def set_extra_state(self, state):
        del state


@pytest.mark.parametrize("whose", ["group", "model"])
def test_what_can_not_be_loaded_again_is_named(whose, tmp_path):
    """It was the model's state_dict, without a model too."""
    net = Told(3, 2) if whose == "model" else None
    params = list((net or nn.Linear(3, 2)).parameters())
    note = {"hook": len} if whose == "group" else {}
    optimizer = new([{"params": params[:1]}, {"params": params[1:], **note}])
    name = "'hook' in parameter group 1" if note else "what the model's state_dict holds"
    with pytest.raises(ValueError, match=f"^{name} .*could not be loaded again: give tensors"):
        save_checkpoint(tmp_path, optimizer, net)
    assert checkpoints(tmp_path) == []


def random_states():
    return {"torch": torch.get_rng_state(), "python": random.getstate()}


def save_random_state(folder):
    params, optimizer = run_of(6)
    torch.manual_seed(100 + dist.get_rank())
    save_checkpoint(folder, optimizer, params, {"rank": dist.get_rank(), **random_states()})
    return torch.rand(3).tolist()


def load_random_state(folder):
    params, optimizer = run_of(1)
    extra = load_checkpoint(folder, optimizer, params)
    torch.set_rng_state(extra["torch"])
    return extra["rank"], torch.rand(3).tolist()


def test_every_rank_gets_its_own_extra_back(tmp_path):
    drawn = pool(2).call(save_random_state, tmp_path)
    assert pool(2).call(load_random_state, tmp_path) == list(enumerate(drawn))
    assert pool(3).call(load_random_state, tmp_path) == [*enumerate(drawn), (0, drawn[0])]


# --- failures ---


def save_on_a_full_disk(folder, bytes_left):
    """Rank 0 may write no file longer than ``bytes_left`` in the second save."""
    params, optimizer = run_of(6)
    save_checkpoint(folder, optimizer, params, 6)
    train(params, optimizer, [7])
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    if dist.get_rank() == 0:
        resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_left, limits[1]))
    try:
        save_checkpoint(folder, optimizer, params, 7)
    except OSError as error:
        message = str(error)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    dist.barrier()  # rank 0 tidies up
    left = leftovers(folder)
    again = run_of(1, seed=1)
    extra = load_checkpoint(folder, again[1], again[0])
    save_checkpoint(folder, optimizer, params, 7)
    return message, left, extra, load_checkpoint(folder, again[1], again[0])


@pytest.mark.parametrize("bytes_left", [0, 100, 3000])
def test_a_full_disk_leaves_nothing_behind_and_the_old_checkpoint_whole(bytes_left, tmp_path):
    for message, left, before, after in pool(2).call(save_on_a_full_disk, tmp_path, bytes_left):
        assert "File too large" in message
        assert left == []
        assert (before, after) == (6, 7)


def save_and_be_interrupted(folder):
    """A second save that dies before its manifest, as by a kill: the first must still be there."""
    import gpu_impl.checkpoints.save as module

    params, optimizer = run_of(6)
    save_checkpoint(folder, optimizer, params, {"step": 6}, keep=1)
    train(params, optimizer, range(7, 9))
    write, discard = module.write_manifest, module.NewGeneration.discard
    module.write_manifest, module.NewGeneration.discard = lambda *args: 1 / 0, lambda new: None
    try:
        save_checkpoint(folder, optimizer, params, {"step": 8}, keep=1)
    except (ZeroDivisionError, RuntimeError) as error:
        message = str(error)
    finally:
        module.write_manifest, module.NewGeneration.discard = write, discard
    left = leftovers(folder)
    again = run_of(1, seed=2)
    extra = load_checkpoint(folder, again[1], again[0])
    save_checkpoint(folder, optimizer, params, {"step": 8}, keep=1)
    return message, extra, again[1].steps, len(left), leftovers(folder), len(checkpoints(folder))


def test_an_interrupted_save_leaves_the_one_before(tmp_path):
    first, second = pool(2).call(save_and_be_interrupted, tmp_path)
    assert first[1:] == second[1:] == ({"step": 6}, 6, 1, [], 1)
    assert second[0].startswith("rank 0: ")


def save_diverged(folder, whose):
    params, optimizer = run_of(6)
    save_checkpoint(folder, optimizer, params, 6)
    train(params, optimizer, [7])
    if dist.get_rank() == 1:
        with torch.no_grad():
            params[0][0, 0] += 1e-3
    try:
        save_checkpoint(folder, optimizer, params if whose == "model" else None, 7)
    except RuntimeError as error:
        return str(error), checkpoints(folder)
    return "nothing", checkpoints(folder)


@pytest.mark.parametrize("whose", ["model", "optimizer"])
def test_diverged_replicas_are_not_saved_without_a_word(whose, tmp_path):
    for message, left in pool(2).call(save_diverged, tmp_path, whose):
        assert "parameter 0 on rank 1 differs from that of a lower rank [L6]: nothing was saved" in message
        assert len(left) == 1
