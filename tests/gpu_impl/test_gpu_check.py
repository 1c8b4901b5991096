"""What ``make gpu-check`` will run on a GPU, as far as it runs without one; and the benchmark's command."""

from __future__ import annotations

import csv
import importlib.metadata
import json
import re
import subprocess
import sys
from dataclasses import replace

import pytest
import torch
import typer
from kernels_support import CUDA, HAS_TRITON, backend_on, backends
from typer.testing import CliRunner

from gpu_impl.benchmarks import command as bench
from gpu_impl.benchmarks import gpu_check, measure
from gpu_impl.benchmarks.byte_floor import PUBLISHED, byte_floor
from gpu_impl.benchmarks.device_checks import Share, all_patterns, far_elements, make_share, repeats
from gpu_impl.benchmarks.form import Form
from gpu_impl.benchmarks.gpu_check import dram_bytes, judge
from gpu_impl.benchmarks.measure import Row
from gpu_impl.benchmarks.page import tables
from gpu_impl.benchmarks.timing import environment
from gpu_impl.kernels.step_scalars import LR, step_scalars
from gpu_impl.kernels.torch_ import TorchBackend


@pytest.mark.skipif(CUDA, reason="says that there is no CUDA device")
def test_without_cuda_it_says_so(capsys):
    assert gpu_check.main([]) == 0
    assert capsys.readouterr().out == "gpu-check: torch sees no CUDA device here, so nothing was checked\n"


@backends
@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")  # signalling NaNs, in the interpreter
def test_patterns(backend, device):
    """Pieces around both zeros, both infinities, and the ends; on a GPU gpu_check runs all 2^32."""
    infinity = 0x7F800000
    for first in (-(2**31), -300, infinity - 300, infinity - 2**31 - 300, 2**31 - 600):
        all_patterns(backend_on(backend, device), torch.device(device), first=first, count=600, piece=512)


@backends
def test_far_elements_and_repeats(backend, device):
    assert far_elements(backend_on(backend, device), torch.device(device), dim=9001) == 9001
    assert repeats(backend_on(backend, device), torch.device(device), dim=3001, n_workers=3) == 3001


class Wrong(TorchBackend):
    """Sends -0.0 as -1, counts a chunk too far, and forgets the weight decay."""

    def _pack(self, values, bits):
        super()._pack(torch.where((values == 0) & torch.signbit(values), -1.0, values), bits)

    def _apply(self, params, preconditioner, exchange, step, *others):
        super()._apply(params, preconditioner, exchange, step_scalars(float(step.values[LR])), *others)


def test_the_checks_can_fail():
    cpu = torch.device("cpu")
    with pytest.raises(AssertionError, match="pack sends a wrong sign for a pattern in"):
        all_patterns(Wrong(), cpu, first=-(2**31), count=64)
    with pytest.raises(AssertionError, match="x is wrong in"):
        far_elements(Wrong(), cpu, dim=999)
    with pytest.raises(AssertionError, match="params differ from the torch backend"):
        repeats(Wrong(), cpu, dim=999, n_workers=2)
    share = make_share(99, 2, cpu)
    other = share.clone()
    other.params[3] += 1
    assert isinstance(other, Share)
    assert share.changed_from(other) == ["params"]


def rows_of(dim, seconds):
    """Rows as the benchmark makes them, with the given time for each contestant."""
    made = []
    for (kernel, backend), time in seconds.items():
        floor = byte_floor(kernel, 8)
        spent = 8 * time / seconds["copy", "torch"]
        speed = floor * dim / time / 1e9
        made.append(
            measure.Row(dim, 8, "float32", kernel, backend, time, time, time, floor, spent, spent / floor, speed)
        )
    return made


def test_judge():
    seconds = {
        ("copy", "torch"): 8.0,
        ("compress", "triton"): 13.0,
        ("server", "triton"): 1.2,
        ("apply", "triton"): 13.0,
        ("step", "triton"): 27.2,
        ("adam", "torch.optim fused"): 30.0,
    }
    good, said = judge(rows_of(2**28, seconds), "a GPU")
    assert good
    assert "compress at 94% of in-place bandwidth" in said
    good, said = judge(rows_of(2**28, seconds), "NVIDIA H200")
    assert not good
    assert "ms per 10^9 parameters" in said
    assert not judge(rows_of(2**28, seconds | {("apply", "triton"): 15.0}), "a GPU")[0]
    assert not judge(rows_of(2**28, seconds | {("adam", "torch.optim fused"): 27.0}), "a GPU")[0]


def test_reading_ncu():
    report = """==PROF== Connected
"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"
"0","compress","dram__bytes_read.sum","byte","9"
"7","compress","dram__bytes_read.sum","byte","1,000"
"7","compress","dram__bytes_write.sum","byte","24"
"10","apply","dram__bytes_read.sum","byte","5.5"
a line of the program's own
"""
    assert dram_bytes(report) == {"compress": 1024.0, "apply": 5.5}
    assert dram_bytes("==ERROR== no counters") == {}


def test_attempt():
    def broken():
        raise RuntimeError("out of memory")

    def endless():
        raise subprocess.TimeoutExpired("pytest", 240)

    assert gpu_check.attempt(broken) == (False, "RuntimeError: out of memory")
    assert gpu_check.attempt(endless) == (False, "not done after 240 s")


def answering(monkeypatch, code, stdout, stderr=""):
    """Every program that a check starts says this."""
    monkeypatch.setattr(gpu_check.shutil, "which", lambda tool: f"/usr/bin/{tool}")
    monkeypatch.setattr(
        gpu_check, "run", lambda command, seconds=240: subprocess.CompletedProcess(command, code, stdout, stderr)
    )


def test_a_check_in_its_process(monkeypatch, tmp_path):
    answering(monkeypatch, 0, 'a library says something\n[true, "7 elements"]\n')
    assert gpu_check.in_process("repeatable", tmp_path)() == (True, "7 elements")
    answering(monkeypatch, -11, "", "Segmentation fault\n")
    assert gpu_check.in_process("repeatable", tmp_path)() == (
        False,
        "its process ended with status -11: Segmentation fault",
    )


CLEAN = "========= ERROR SUMMARY: 0 errors"


@pytest.mark.parametrize(
    ("code", "said", "good", "message"),
    [
        (0, CLEAN, True, "memcheck clean, racecheck clean"),
        (9, "========= Invalid __global__ write\n========= ERROR SUMMARY: 1 error", False, "memcheck: .*Invalid"),
        (1, "Traceback\n" + CLEAN, False, "memcheck: Traceback"),
        (1, "========= Error: Device not supported\n" + CLEAN, None, "compute-sanitizer can't watch"),
        (1, "", None, r".*\(it said nothing\)"),
    ],
)
def test_reading_compute_sanitizer(monkeypatch, code, said, good, message):
    answering(monkeypatch, code, said)
    outcome = gpu_check.run_sanitizer()
    assert outcome[0] == good
    assert re.match(message, outcome[1], re.DOTALL)


@pytest.mark.parametrize(("share", "good"), [(1.0, True), (1.029, True), (1.031, False), (0.969, False)])
def test_counters(monkeypatch, share, good):
    """One kernel of the three is off by so much."""
    lines = ['"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"']
    for i, kernel in enumerate(gpu_check.KERNELS):
        moved = byte_floor(kernel, 2) * 2**30 * (share if kernel == "server" else 1)
        lines.append(f'"{i}","{kernel}","dram__bytes_read.sum","byte","{moved:.0f}"')
    answering(monkeypatch, 0, "\n".join(lines))
    assert gpu_check.run_counters()[0] == good
    answering(monkeypatch, 0, "\n".join(lines[:-1]))
    assert gpu_check.run_counters() == (False, "ncu reported no kernel apply")
    answering(monkeypatch, 0, "", "==ERROR== ERR_NVGPUCTRPERM")
    assert gpu_check.run_counters() == (None, "ncu can't read the counters here (==ERROR== ERR_NVGPUCTRPERM)")


def test_results_are_kept_from_one_check_to_the_next(monkeypatch, tmp_path, capsys):
    """One check fails, one crashes, and the next is interrupted: what was found before is in the files."""
    row = rows_of(2**20, {("copy", "torch"): 1.0})[0]

    def fake(name, file):
        def outcome():
            if name == "benchmark":
                file.write_text(json.dumps([row.as_dict()]))
                return False, "too slow"
            if name == "CUDA graph":
                raise RuntimeError("illegal address")
            return True, "fine"

        return outcome

    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr(gpu_check, "RESULTS", tmp_path)
    monkeypatch.setattr(gpu_check, "in_process", fake)
    monkeypatch.setattr(gpu_check, "run_counters", interrupted)
    facts = environment(torch.device("cpu")) | {"device": "A GPU (80 GB)", "date": "2030-01-02T03:04:05"}
    with pytest.raises(KeyboardInterrupt):
        gpu_check.check_all(facts)
    record = json.loads((tmp_path / "A-GPU-80-GB-2030-01-02.json").read_text())
    assert {name: said["good"] for name, said in record["checks"].items()} == {
        "all float32 patterns": True,
        "repeatable": True,
        "CUDA graph": False,
        "beyond 2^31 elements": True,
        "benchmark": False,
    }
    assert record["rows"] == [row.as_dict()]
    assert (tmp_path / "A-GPU-80-GB-2030-01-02.csv").read_text().count("\n") == 2
    for check in ("run_counters", "run_tests"):
        monkeypatch.setattr(gpu_check, check, lambda: (True, "fine"))
    monkeypatch.setattr(gpu_check, "run_sanitizer", lambda: (None, "no such tool"))
    monkeypatch.setattr(gpu_check, "verify", lambda target, jobs: lambda: (True, "fine"))
    assert gpu_check.check_all(facts) == 1
    said = capsys.readouterr().out
    assert "FAILED      CUDA graph: RuntimeError: illegal address" in said
    assert "not checked compute-sanitizer: no such tool" in said
    monkeypatch.setattr(gpu_check, "in_process", lambda name, file: lambda: (True, "fine"))
    assert gpu_check.check_all(facts) == 0
    assert "9 of 10 checks good, 0 failed, 1 not checked" in capsys.readouterr().out
    monkeypatch.setattr(gpu_check, "run_sanitizer", lambda: (True, "clean"))
    assert gpu_check.check_all(facts, ["compute-sanitizer"]) == 0
    assert capsys.readouterr().out.startswith("ok          compute-sanitizer: clean\n10 of 10 checks good")
    assert gpu_check.check_all(facts, ["speed"]) == 2
    assert "there is no check 'speed'; there are all float32 patterns, " in capsys.readouterr().out


@pytest.mark.parametrize(("code", "good"), [(0, True), (3, None), (1, False), (2, False), (-9, False)])
def test_what_verify_says_is_told(monkeypatch, code, good):
    """A search that was cut is not checked; one that found something, or that ended otherwise, is failed."""
    answering(monkeypatch, code, "a clause\nMine: 26 of 26 clauses hold\n", "a warning\n")
    said = "a warning" if good is False else "Mine: 26 of 26 clauses hold"
    assert gpu_check.verify("mine.py:Mine", 2)() == (good, said)


def test_the_targets_are_those_of_the_published_form():
    """Rows of another form stand in the files, and are not judged by it."""
    seconds = {("copy", "torch"): 8.0, ("compress", "triton"): 13.0, ("server", "triton"): 1.2}
    seconds |= {("apply", "triton"): 13.0, ("step", "triton"): 27.2, ("adam", "torch.optim fused"): 30.0}
    rows = rows_of(2**28, seconds)
    slow = [replace(row, compress="update", seconds=99.0, ratio=9.0) for row in rows if row.backend == "triton"]
    assert judge(rows + slow, "a GPU") == judge(rows, "a GPU")


def test_the_page_has_the_numbers_of_the_file():
    text = (gpu_check.ROOT / "docs" / "kernels.md").read_text(encoding="utf-8")
    for table in tables(gpu_check.RESULTS / "NVIDIA-H200-2026-11-27.json"):
        assert table in text


def test_the_pages_tell_the_step_beside_fused_adam_as_the_file_does():
    rows = json.loads((gpu_check.RESULTS / "NVIDIA-H200-2026-11-27.json").read_text(encoding="utf-8"))["rows"]
    rows = [Row(**row) for row in rows if row["n_workers"] == 8]
    seconds = {(row.dim, row.kernel, row.backend): row.seconds for row in rows if row.form == PUBLISHED}
    adam, step, norm = ("adam", "torch.optim fused"), ("step", "triton"), ("gradient_norm", "triton")
    share = {log: seconds[2**log, *step] / seconds[2**log, *adam] for log in (24, 26, 28)}
    whole = {log: share[log] + seconds[2**log, *norm] / seconds[2**log, *adam] for log in share}
    readme, kernels, changes = (
        " ".join((gpu_check.ROOT / name).read_text(encoding="utf-8").split())
        for name in ("README.md", "docs/kernels.md", "CHANGELOG.md")
    )
    said = f"takes {share[26]:.2f} of the time of torch's fused Adam for 2^26 parameters and {share[28]:.2f} for 2^28"
    assert f"{said}; for 2^24 it takes {share[24]:.1f} times as long" in readme
    assert f"with that it takes {whole[26]:.2f}, {whole[28]:.2f} and {whole[24]:.1f}" in readme
    assert f"{whole[28]:.2f} with the optimizer's look at the gradient" in changes
    assert f"With it a step takes {whole[28]:.2f} of Adam's time" in kernels
    assert f"takes {share[28]:.2f} of the time of torch's fused Adam" in changes
    billion = seconds[2**28, "step", "triton"] / 2**28 * 1e12
    assert f"takes {share[28]:.2f} of the time of torch's fused Adam: {billion:.2f} ms for 10^9 parameters" in kernels


def test_the_tests_for_the_device_exist():
    assert all((gpu_check.ROOT / "tests" / "gpu_impl" / f"{name}.py").is_file() for name in gpu_check.DEVICE_TESTS)


def test_byte_floor():
    assert byte_floor("step", 8) == 24.5 + 8.125 / 8
    assert byte_floor("adam", 8) == 28
    assert byte_floor("walk", 8) == 40
    assert byte_floor("lamb_moments", 8) + byte_floor("lamb_move", 8) == 40
    assert byte_floor("lamb_form", 8, grad_bytes=2) == 14
    assert byte_floor("lamb_refresh", 8) == 28
    assert byte_floor("compress", 8, grad_bytes=2) == 10.25
    with pytest.raises(ValueError, match="kernel must be one of"):
        byte_floor("gossip", 8)


def test_byte_floor_is_that_of_the_theorem():
    """Theorem T8b counts the same streams."""
    from theory.evaluate import bound
    from theory.notation import N
    from theory.theorems.byte_floor import BYTE_FLOOR, onebit_streams, streamed

    for n_workers in (1, 2, 8, 64):
        for grad_bytes in (2, 4):
            streams = onebit_streams(grad_bytes)
            for kernel in ("compress", "server", "apply"):
                counted = streamed(streams, kernel).subs(N, n_workers)
                assert byte_floor(kernel, n_workers, grad_bytes=grad_bytes) == float(counted)
            for form, p_bytes in ((Form(), 4), (Form("update"), 4), (Form("update", None, "bfloat16"), 2)):
                floor = bound(
                    BYTE_FLOOR, n_workers=n_workers, grad_bytes=grad_bytes, preconditioner_bytes=p_bytes, dim=1
                )
                assert byte_floor("step", n_workers, grad_bytes=grad_bytes, form=form) == float(floor)


app = typer.Typer()
app.command()(bench.kernels)


def test_bench_writes_its_files(tmp_path):
    pytest.importorskip("matplotlib")
    files = {name: tmp_path / f"out.{name}" for name in ("json", "csv", "png")}
    arguments = ["--device", "cpu", "--log2-dim", "12", "--workers", "2", "--workers", "3", "--rounds", "1"]
    arguments += ["--json", str(files["json"]), "--csv", str(files["csv"]), "--picture", str(files["png"])]
    done = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert done.exit_code == 0
    record = json.loads(files["json"].read_text())
    assert record["environment"]["torch"] == importlib.metadata.version("torch")
    with files["csv"].open() as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == len(record["rows"])
    backends = {row["backend"] for row in rows}
    assert {"cpu", "torch", "torch.optim fused", "torch.optim foreach", "DeepSpeed sequence"} <= backends
    assert all(float(row["seconds"]) > 0 for row in rows)
    assert files["png"].read_bytes().startswith(b"\x89PNG")


def test_bench_times_another_form_against_its_own_floor(tmp_path):
    """Ours; the peers compute what they always do."""
    arguments = ["--device", "cpu", "--log2-dim", "12", "--workers", "2", "--rounds", "1"]
    arguments += ["--compress", "update", "--scale-block", "64", "--frozen-dtype", "bfloat16"]
    done = CliRunner().invoke(app, [*arguments, "--json", str(tmp_path / "out.json")], catch_exceptions=False)
    assert done.exit_code == 0
    assert "update form, blocks of 64, P in bfloat16" in " ".join(done.output.split())
    rows = {(row["kernel"], row["backend"]): row for row in json.loads((tmp_path / "out.json").read_text())["rows"]}
    floors = {"compress": 14.25 + 16 / 64, "apply": 8.125 + 4 / 64}
    floors["server"] = 0.125 + 4 / 64 + (8.125 + 12 / 64) / 2
    floors["step"] = sum(floors.values())
    for backend in ("cpu", "torch"):
        for kernel, floor in floors.items():
            row = rows[kernel, backend]
            assert row["floor_bytes"] == pytest.approx(floor, rel=2**-50)
            assert row["ratio"] == row["spent_bytes"] / row["floor_bytes"]
            assert (row["compress"], row["scale_block"], row["frozen_dtype"]) == ("update", 64, "bfloat16")
    peer = rows["step", "DeepSpeed sequence"]
    assert (peer["floor_bytes"], peer["compress"]) == (24.5 + 8.125 / 2, "momentum")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--device", "tpu"], "--device must be cpu, cuda or auto"),
        (["--log2-dim", "9"], "--log2-dim must lie in 10..28"),
        (["--workers", "0"], "--workers must be at least 1"),
        (["--grad", "int8"], "--grad must be one of float32"),
        (["--compress", "gradient"], "--compress must be 'momentum' or 'update', got 'gradient'"),
        (["--scale-block", "12"], "--scale-block must be None or a positive multiple of 8, got 12"),
        (["--frozen-dtype", "float16"], "--frozen-dtype must be 'float32' or 'bfloat16', got 'float16'"),
        (["--device", "cpu", "--backend", "cupy"], "--backend must be one of torch, cpu"),
        (["--device", "cpu", "--backend", "triton"], "can't be timed on cpu"),
    ],
)
def test_bench_refuses(arguments, message):
    done = CliRunner().invoke(app, arguments, standalone_mode=False)
    assert isinstance(done.exception, Exception)
    assert message in done.exception.format_message()


@pytest.mark.skipif(not HAS_TRITON, reason="about Triton")
def test_import_does_not_load_triton_or_compile():
    """``import gpu_impl`` is for machines without a compiler and without Triton, too."""
    code = "import sys, gpu_impl; assert not {m for m in sys.modules if m.split('.')[0] == 'triton'}"
    subprocess.run([sys.executable, "-c", code], check=True)
