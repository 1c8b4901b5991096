"""``onebit convert``: a checkpoint made as DeepSpeed 0.19.6 makes it; others are its own, see deepspeed_0_19_6."""

from __future__ import annotations

import pickle
import resource
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import torch
from convert_support import changed, command, deepspeed_checkpoint
from optimizer_support import flat, new, pool
from torch import distributed as dist

from gpu_impl.checkpoints.deepspeed import convert


def go_on(file, dtype):
    """Load what was converted on this worker, and train over the freeze."""
    saved = torch.load(file, weights_only=True)
    net = torch.nn.Sequential(torch.nn.Linear(5, 3), torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 2)).to(dtype)
    net.load_state_dict(saved["model"])
    optimizer = new(net.parameters(), freeze_step=20)
    optimizer.load_state_dict(saved["optimizer"])
    first = [one["exp_avg_sq"].clone() for one in optimizer.state_dict()["state"].values()]
    for t in range(4):
        optimizer.zero_grad()
        x = torch.randn(4, 5, generator=torch.Generator().manual_seed(10 * t + dist.get_rank())).to(dtype)
        net(x).square().mean().backward()
        optimizer.step()
    return first, optimizer.stats(), flat(net.parameters()).tobytes()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("n", [1, 2])
def test_a_deepspeed_checkpoint_goes_on(dtype, n, tmp_path):
    _, state = deepspeed_checkpoint(tmp_path, dtype)
    out = tmp_path / "converted.pt"
    status, said, errors = command(tmp_path, out)
    assert status == 0, errors
    assert "not kept: the errors of all workers, if v was frozen" in said
    rows = pool(n).call(go_on, str(out), dtype)
    for first, stats, _ in rows:
        assert all(torch.equal(a, one["exp_avg_sq"]) for a, one in zip(first, state.values(), strict=True))
        assert (stats.step, stats.frozen_at, stats.phase) == (34, 31, "compressed")
    assert len({params for _, _, params in rows}) == 1


def test_a_file_with_a_flipped_bit_is_refused(tmp_path):
    """torch.load reads a tensor without comparing its checksum."""
    deepspeed_checkpoint(tmp_path, torch.float32)
    file = tmp_path / "global_step30" / "mp_rank_00_model_states.pt"
    whole, out = file.read_bytes(), tmp_path / "converted.pt"
    with zipfile.ZipFile(file) as archive:
        entries = [one for one in archive.infolist() if "/data/" in one.filename]
    assert len(entries) > 20
    for entry in entries:
        lengths = whole[entry.header_offset + 26 : entry.header_offset + 30]
        start = entry.header_offset + 30 + int.from_bytes(lengths[:2], "little") + int.from_bytes(lengths[2:], "little")
        file.write_bytes(whole[:start] + bytes([whole[start] ^ 1]) + whole[start + 1 :])
        status, _, errors = command(tmp_path, out)
        assert (status, out.exists()) == (2, False)
        assert f"is damaged: the checksum of {entry.filename} is not" in errors
    file.write_bytes(whole)
    assert command(tmp_path, out)[0] == 0


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda saved: saved["module"].update({"0.weight": saved["module"]["0.weight"].int()}), "is of torch.int32"),
        (
            lambda saved: saved["module"].update({"0.weight": saved["module"]["0.weight"].cfloat()}),
            "of torch.complex64",
        ),
        (lambda saved: saved["optimizer"]["state"][0].update(exp_avg=torch.ones(3, 5).half()), "keeps in float32"),
        (lambda saved: saved["optimizer"]["state"][0].update(step=True), "has taken True steps"),
    ],
)
def test_what_deepspeed_never_writes_is_refused(change, says, tmp_path):
    status, _, errors = command(changed(tmp_path, change), tmp_path / "converted.pt")
    assert status == 2
    assert says in errors
    assert errors.count("\n") == 1


def test_what_is_no_deepspeed_checkpoint_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"there is no mp_rank_00_model_states\.pt"):
        convert(tmp_path)
    for saved, message in (({"a": 1}, 'has no "module"'), ({"module": {}}, "has no optimizer state")):
        torch.save(saved, tmp_path / "file.pt")
        with pytest.raises(ValueError, match=message):
            convert(tmp_path / "file.pt")
    (tmp_path / "file.pt").write_bytes(b"nothing")
    with pytest.raises(ValueError, match="can't be read"):
        convert(tmp_path / "file.pt")
    line = [sys.executable, "-m", "onebit", "convert", str(tmp_path), str(tmp_path / "out.pt")]
    done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=1800)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1


def test_convert_replaces_nothing_unasked_and_its_input_never(tmp_path):
    """`onebit convert X X` put the result in the place of the checkpoint."""
    deepspeed_checkpoint(tmp_path, torch.float32)
    file, link = tmp_path / "global_step30" / "mp_rank_00_model_states.pt", tmp_path / "link.pt"
    link.symlink_to(file)
    (tmp_path / "other.pt").write_text("mine")
    before = file.read_bytes()
    for arguments, message in (
        ((file, file), "is the checkpoint that is to be read"),
        ((file, file, "--force"), "is the checkpoint that is to be read"),
        ((tmp_path, link, "--force"), "is the checkpoint that is to be read"),
        ((tmp_path, file.parent, "--force"), "is a folder: give the name of a file"),
        ((tmp_path, tmp_path / "other.pt"), "exists: give another name, or say --force to replace it"),
        ((tmp_path, tmp_path / "none" / "out.pt"), "there is no folder"),
        ((file, tmp_path / "out.pt", "--json", file), "--json would replace"),
    ):
        status, _, errors = command(*arguments)
        assert (status, errors.count("\n")) == (2, 1), errors
        assert message in errors
        assert (file.read_bytes(), (tmp_path / "other.pt").read_text()) == (before, "mine")
        assert len(list(tmp_path.rglob("*"))) == 5
    assert command(tmp_path, tmp_path / "other.pt", "--force")[0] == 0
    assert list(torch.load(tmp_path / "other.pt", weights_only=True)) == ["model", "optimizer"]


def without(*path):
    def change(saved):
        for name in path[:-1]:
            saved = saved[name]
        del saved[path[-1]]

    return change


DAMAGED = [
    ("optimizer", "param_groups", 0, "eps"), ("optimizer", "param_groups"), ("optimizer", "state"),
    ("optimizer", "state", 1, "step"), ("optimizer", "state", 2, "exp_avg"), ("optimizer", "state", 0, "exp_avg_sq"),
    ("optimizer", "param_groups", 0, "params"), ("module", "0.weight"), ("optimizer", "state", 3),
]  # fmt: skip


@pytest.mark.parametrize("path", DAMAGED, ids=lambda path: "-".join(map(str, path)))
def test_whatever_is_missing_in_a_checkpoint_is_one_sentence(path, tmp_path):
    deepspeed_checkpoint(tmp_path, torch.float32)
    file = tmp_path / "global_step30" / "mp_rank_00_model_states.pt"
    saved = torch.load(file, weights_only=True)
    without(*path)(saved)
    torch.save(saved, file)
    with pytest.raises(ValueError, match=r".+") as caught:
        convert(tmp_path)
    assert "\n" not in str(caught.value)


JUNK = (None, -1, "x", [], {}, 10**400, torch.ones(2) * 1j, torch.zeros(3).to_sparse(), torch.zeros(3, device="meta"))
ALSO = [("optimizer", "param_groups", 0, "betas"), ("module",), ("optimizer",), ("optimizer", "state", 0)]


@pytest.mark.parametrize("path", [*DAMAGED, *ALSO])
def test_whatever_stands_in_the_place_of_something_is_one_sentence(path, tmp_path):
    """Numbers that no float holds, complex, sparse and meta tensors were tracebacks."""
    deepspeed_checkpoint(tmp_path, torch.float32)
    file = tmp_path / "global_step30" / "mp_rank_00_model_states.pt"
    for junk in JUNK:
        saved = place = torch.load(file, weights_only=True)
        for name in path[:-1]:
            place = place[name]
        place[path[-1]] = junk
        torch.save(saved, tmp_path / "file.pt")
        with pytest.raises(ValueError, match=r"\A.+\Z"):  # a dot is no end of a line
            convert(tmp_path / "file.pt")


# --- what is one part, another optimizer's, or empty ---


PARTS = [
    {"mp_world_size": 2},
    {"checkpoint_parallel_dimensions": {"pp_degree": 1, "tp_degree": 2}},
    {"checkpoint_parallel_dimensions": {"pp_degree": 2, "tp_degree": 1}, "module": None},
]


@pytest.mark.parametrize("facts", PARTS, ids=str)
def test_one_part_of_a_model_is_not_taken_for_the_whole(facts, tmp_path):
    file = changed(tmp_path, lambda saved: saved.update(facts))
    for source in (tmp_path, file.parent, file):
        with pytest.raises(ValueError, match="is one part of a model that lay on several processes"):
            convert(source)


def test_a_second_part_beside_it_says_so_too(tmp_path):
    file = changed(tmp_path, lambda saved: saved.update(mp_world_size=1))
    convert(tmp_path)
    file.with_name("mp_rank_01_model_states.pt").write_bytes(file.read_bytes())
    for source in (tmp_path, file, file.with_name("mp_rank_01_model_states.pt")):
        with pytest.raises(ValueError, match=r"mp_rank_0[01]_model_states\.pt is one part of a model"):
            convert(source)
    alone = tmp_path / "alone.pt"
    alone.write_bytes(file.read_bytes())
    convert(alone)


def states_in(saved):
    return (saved["optimizer"].get("optimizer_state_dict") or saved["optimizer"])["state"].values()


def of_plain_adam(saved):
    for state in states_in(saved):
        for name in [name for name in state if name not in ("step", "exp_avg", "exp_avg_sq")]:
            del state[name]


def of_zero_one_adam(saved):
    for state in states_in(saved):
        state.update(var_interval=1, lrs=0.0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("change", [of_plain_adam, of_zero_one_adam])
def test_the_checkpoint_of_another_optimizer_is_refused(change, dtype, tmp_path):
    """Plain Adam corrects the bias, which OneBitAdam there does not: it went on with other steps."""
    changed(tmp_path, change, dtype)
    with pytest.raises(ValueError, match=r"of another optimizer than DeepSpeed's OneBitAdam: its state has .*exp_avg"):
        convert(tmp_path)


def test_an_empty_file_is_called_empty(tmp_path):
    (tmp_path / "file.pt").write_bytes(b"")
    status, _, errors = command(tmp_path / "file.pt", tmp_path / "out.pt")
    assert status == 2
    assert errors == (
        f"onebit: Invalid value: {tmp_path / 'file.pt'} is empty: was the disk full, or the job killed, when it was "
        "saved?\n"
    )


def on_two_disks(file):
    """The place in the end of a zip file that counts disks, as a damaged file may have it."""
    at = file.rindex(b"PK\6\7") + 16
    return file[:at] + b"\2" + file[at + 1 :]


@pytest.mark.parametrize("damage", [lambda file: file[:-1], lambda file: file[:-1000], on_two_disks])
def test_a_file_that_is_cut_off_is_called_so(damage, tmp_path):
    """It was half a sentence of torch's, and the advice to trust the file."""
    torch.save({"module": {"weight": torch.ones(1000)}}, tmp_path / "file.pt")
    (tmp_path / "file.pt").write_bytes(damage((tmp_path / "file.pt").read_bytes()))
    status, _, errors = command(tmp_path / "file.pt", tmp_path / "out.pt")
    assert status == 2
    assert errors == (
        f"onebit: Invalid value: {tmp_path / 'file.pt'} has no end: was the disk full, or the job killed, when it was "
        "saved or copied?\n"
    )


NO_FILES = [b"junk", b"hello world", b"(dp0\n", b"\x80\x04K", bytes(range(256)), pickle.dumps({"module": {}})]


@pytest.mark.parametrize("content", NO_FILES)
def test_what_is_no_file_of_torch_says_so(content, tmp_path):
    """It was half a sentence of torch's, and the advice to trust the file."""
    (tmp_path / "file.pt").write_bytes(content)
    for trust in ([], ["--trust"]):
        status, _, errors = command(tmp_path / "file.pt", tmp_path / "out.pt", *trust)
        says = "can't be read: it is no file that torch.save wrote, or damaged\n"
        assert (status, errors) == (2, f"onebit: Invalid value: {tmp_path / 'file.pt'} {says}")


@pytest.mark.parametrize("is_zip", [True, False])
def test_what_holds_more_than_plain_values_needs_trust(is_zip, tmp_path):
    torch.save({"module": Path()}, tmp_path / "file.pt", _use_new_zipfile_serialization=is_zip)
    status, _, errors = command(tmp_path / "file.pt", tmp_path / "out.pt")
    says = "can't be read: it holds more than tensors and plain values; if you trust who made it, say --trust\n"
    assert (status, errors) == (2, f"onebit: Invalid value: {tmp_path / 'file.pt'} {says}")
    _, _, errors = command(tmp_path / "file.pt", tmp_path / "out.pt", "--trust")
    assert 'has no "module"' in errors


def test_a_setting_that_is_no_number_is_refused_and_another_version_is_told(tmp_path):
    def no_number(saved):
        saved["optimizer"]["param_groups"][0]["lr"] = float("nan")
        saved["ds_version"] = "0.9.0"

    file = changed(tmp_path, no_number)
    status, _, errors = command(file, tmp_path / "out.pt")
    assert (status, "lr must be" in errors) == (2, True)
    saved = torch.load(file, weights_only=True)
    saved["optimizer"]["param_groups"][0]["lr"] = 1e-3
    torch.save(saved, file)
    status, output, errors = command(file, tmp_path / "out.pt")
    assert (status, errors) == (0, "")
    assert output.startswith(f"note: DeepSpeed 0.9.0 wrote {file}: only checkpoints of 0.19.6 were tested\n")


def test_a_file_that_can_not_be_written_is_one_sentence_and_the_old_one_stays(tmp_path):
    """torch.save says "unexpected pos" then."""
    file = changed(tmp_path, lambda saved: None)
    out = tmp_path / "out.pt"
    assert command(file, out)[0] == 0
    before, limits = out.read_bytes(), resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        status, _, errors = command(file, out, "--force")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert (status, errors.count("\n")) == (2, 1)
    assert f"the disk of {tmp_path} is full, or this user may not write so much" in errors
    assert out.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["global_step30", "latest", "out.pt"]


def test_a_step_more_of_one_parameter_is_kept(tmp_path):
    """DeepSpeed counts gradients, each parameter its own: the largest count is the run's, m and v go on as they are."""

    def unequal(saved):
        saved["optimizer"]["state"][2]["step"] = 25

    changed(tmp_path, unequal)
    saved = convert(tmp_path)
    assert saved["optimizer"]["param_groups"][0]["onebit"]["steps"] == 30
    assert [float(one["step"]) for one in saved["optimizer"]["state"].values()] == [30, 30, 25, 30, 30, 30]
    torch.save(saved, tmp_path / "converted.pt")
    for _, stats, _ in pool(2).call(go_on, str(tmp_path / "converted.pt"), torch.float32):
        assert (stats.step, stats.frozen_at, stats.dead_coordinates) == (34, 31, 0)


# --- tied weights, and parameters without gradient ---


class Odd(torch.nn.Module):
    """``tied`` is ``first`` once more; ``ice`` and a bias need no gradient."""

    def __init__(self):
        super().__init__()
        self.first, self.ice = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)
        self.tied, self.last = torch.nn.Linear(3, 3, bias=False), torch.nn.Linear(3, 2)
        self.tied.weight = self.first.weight
        self.ice.requires_grad_(False)
        self.last.bias.requires_grad_(False)

    def forward(self, x):
        return self.last(self.tied(self.ice(torch.tanh(self.first(x)))))


FROZEN = ("--frozen", "ice", "--frozen", "last.bias")
TRAINED = ("first.weight", "first.bias", "last.weight")


def odd_checkpoint(folder, dtype, given):
    """``given``: whether DeepSpeed's optimizer was given the frozen parameters too; in 16 bits it drops them."""
    torch.manual_seed(4)
    net = Odd()
    for param in net.parameters():
        torch.nn.init.normal_(param)
    masters = {name: param.detach().clone() for name, param in net.named_parameters()}
    net = net.to(dtype)
    states = {
        name: {"step": 7, "exp_avg": value + 1, "exp_avg_sq": value.square() + 1, "tensor_size": value.numel()}
        for name, value in masters.items()
        if name in TRAINED
    }
    keys = [name for name in masters if given or name in TRAINED]
    group = {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.0, "params": list(range(len(keys)))}
    optimizer = {"state": {keys.index(name): one for name, one in states.items()}, "param_groups": [group]}
    if dtype != torch.float32:
        cat = lambda key: torch.cat([one[key].flatten() for one in states.values()])  # noqa: E731
        inner = {"step": 7, "exp_avg": cat("exp_avg"), "exp_avg_sq": cat("exp_avg_sq"), "tensor_size": 18}
        inner = {"state": {0: inner}, "param_groups": [{**group, "params": [0]}]}
        flat_D = torch.cat([masters[name].flatten() for name in TRAINED])
        optimizer = {"optimizer_state_dict": inner, "fp32_groups_flat": [flat_D]}
    torch.save({"module": net.state_dict(), "buffer_names": [], "optimizer": optimizer}, folder / "odd.pt")
    return states


def go_on_oddly(file, dtype):
    saved = torch.load(file, weights_only=True)
    net = Odd().to(dtype)
    net.load_state_dict(saved["model"])
    before = {name: param.detach().clone() for name, param in net.named_parameters()}
    optimizer = new([param for param in net.parameters() if param.requires_grad], freeze_step=8)
    optimizer.load_state_dict(saved["optimizer"])
    taken = [{key: one[key] for key in ("exp_avg", "exp_avg_sq")} for one in optimizer.state_dict()["state"].values()]
    for t in range(4):
        optimizer.zero_grad()
        x = torch.randn(4, 3, generator=torch.Generator().manual_seed(10 * t + dist.get_rank())).to(dtype)
        net(x).square().mean().backward()
        optimizer.step()
    moved = [name for name, param in net.named_parameters() if not torch.equal(param, before[name])]
    return taken, moved, optimizer.stats().phase, flat(net.parameters()).tobytes()


@pytest.mark.parametrize(("dtype", "given"), [(torch.float32, True), (torch.float32, False), (torch.bfloat16, False)])
def test_tied_and_frozen_parameters_are_taken(dtype, given, tmp_path):
    """They were refused, though both are legal there."""
    states = odd_checkpoint(tmp_path, dtype, given)
    status, said, errors = command(tmp_path / "odd.pt", tmp_path / "converted.pt", *FROZEN)
    assert status == 0, errors
    assert "3 parameters after 7 steps" in said
    rows = pool(2).call(go_on_oddly, str(tmp_path / "converted.pt"), dtype)
    for taken, moved, phase, _ in rows:
        assert [{key: one[key].tolist() for key in one} for one in taken] == [
            {key: one[key].tolist() for key in ("exp_avg", "exp_avg_sq")} for one in states.values()
        ]
        assert (moved, phase) == (list(TRAINED), "compressed")
    assert rows[0][3] == rows[1][3]


WRONG = [
    ((), {True: "no state of ice.weight, so it never had a gradient: if some need no gradient, name them"}),
    (
        (),
        {
            False: "the optimizer has 3 parameters, the model has 6: if some need no gradient, name them",
            "16": "has 18 ",
        },
    ),
    (("ice",), {True: "no state of last.bias", False: "has 3 parameters, the model has 4", "16": "has 18 numbers"}),
    (("ice", "last"), {True: "last.weight has a state of Adam", False: "has 3 parameters", "16": "has 18 numbers"}),
    (("ice", "bias"), dict.fromkeys((True, False, "16"), "the model has no parameter or module bias")),
    (("ic", "last.bias"), dict.fromkeys((True, False, "16"), "the model has no parameter or module ic;")),
    (("first.weight", "ice.bias", "last.bias"), {"16": "the float32 weights that should be those of first.bias are"}),
]


@pytest.mark.parametrize(("frozen", "messages"), WRONG, ids=str)
def test_where_others_need_no_gradient_than_was_said_it_is_refused(frozen, messages, tmp_path):
    """In 16 bits the float32 weights show it, which round to the model's."""
    for given, message in messages.items():
        odd_checkpoint(tmp_path, *((torch.bfloat16, False) if given == "16" else (torch.float32, given)))
        with pytest.raises(ValueError, match=message):
            convert(tmp_path / "odd.pt", frozen=frozen)
