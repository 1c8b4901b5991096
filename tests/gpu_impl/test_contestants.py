"""Who takes part in the benchmark, on whose memory, and what is said of those who can't."""

from __future__ import annotations

import inspect
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
import torch
import typer
from typer.testing import CliRunner

from gpu_impl.benchmarks import command as bench
from gpu_impl.benchmarks import contestants
from gpu_impl.benchmarks.deepspeed_package import NOT_INSTALLED, PYTHON, DeepSpeedPackage, deepspeed_python
from gpu_impl.benchmarks.form import Form
from gpu_impl.benchmarks.timing import time_interleaved
from gpu_impl.kernels.flat_buffer import HUGE_PAGE, gives_huge_pages
from gpu_impl.kernels.select import get_backend
from gpu_impl.kernels.torch_ import TorchBackend

CPU = torch.device("cpu")
LARGE = HUGE_PAGE  # elements: 4 huge pages of float32


@pytest.fixture
def stack(monkeypatch):
    monkeypatch.delenv(PYTHON, raising=False)
    with ExitStack() as opened:
        yield opened


def make(stack, dim=1024, n_workers=2, backends=("cpu", "torch"), peers=True, **more):
    options = {"grad_dtype": torch.float32, "peers": peers, "stack": stack, **more}
    return contestants.contestants(dim, n_workers, backends, CPU, **options)


@pytest.mark.skipif(not gives_huge_pages(CPU), reason="no huge pages here: all share one kind of memory")
def test_whose_memory(stack, monkeypatch):
    """Ours on huge pages; the peers' from torch; fused Adam on both."""
    adams, flat = [], []
    flat_buffer, torch_adam = contestants.flat_buffer, contestants.torch_adam

    def seen_buffer(*arguments, **options):
        flat.append(flat_buffer(*arguments, **options))
        return flat[-1]

    def seen_adam(buffers, *, fused):
        adams.append((fused, buffers))
        return torch_adam(buffers, fused=fused)

    monkeypatch.setattr(contestants, "flat_buffer", seen_buffer)
    monkeypatch.setattr(contestants, "torch_adam", seen_adam)
    found = make(stack, LARGE)
    places = {made.data_ptr() for made in flat}
    on_flat = [(fused, {value.data_ptr() in places for value in vars(buffers).values()}) for fused, buffers in adams]
    assert on_flat == [(True, {True}), (True, {False}), (False, {False})]
    assert [name for name in found.calls if name.startswith("adam/torch.optim")] == [
        "adam/torch.optim fused, huge pages",
        "adam/torch.optim fused",
        "adam/torch.optim foreach",
    ]
    assert all(place % HUGE_PAGE == 0 for place in sorted(places)[-3:])


def test_who_is_left_out(stack):
    found = make(stack, dim=1000)
    assert found.missing["step/DeepSpeed sequence"] == "left out: D must be a multiple of 16"
    assert found.missing["step/DeepSpeed package"].startswith(f"not installed: set {PYTHON} to a Python that has")
    found = make(stack, grad_dtype=torch.bfloat16)
    assert found.missing["step/DeepSpeed"] == "left out: float32 gradients only"
    assert "adam/torch.optim fused" in found.calls
    assert not [name for name in make(stack, peers=False).calls if "torch.optim" in name or "DeepSpeed" in name]


@pytest.mark.parametrize(
    ("gigabytes", "expected"), [(21, set()), (40, {"cpu"}), (74, {"cpu", "peers"}), (122, {"cpu", "peers", "torch"})]
)
def test_memory_decides(stack, monkeypatch, gigabytes, expected):
    """With 10^9 parameters, none of which is made: our buffers are 25 GB, the peers' 16, torch's temporaries 46."""
    monkeypatch.setattr(contestants, "free_memory", lambda device: gigabytes * 1e9)
    monkeypatch.setattr(contestants, "make_buffers", lambda *_: small)
    monkeypatch.setattr(contestants, "flat_buffer", lambda n, *_, **__: torch.zeros(8))
    monkeypatch.setattr(contestants, "kernel_calls", lambda *_: dict.fromkeys(contestants.KERNELS, print))
    small = contestants.Buffers(*(torch.ones(1024) for _ in range(4)))
    monkeypatch.setattr(contestants, "DeepSpeedSequence", lambda buffers, n: None)
    if not expected:
        with pytest.raises(MemoryError, match=r"left out: would make 25.0 GB, and 21.0 GB are free"):
            make(stack, dim=10**9)
        return
    found = make(stack, dim=10**9)
    assert ("compress/cpu" in found.calls) == ("cpu" in expected)
    assert ("adam/torch.optim foreach" in found.calls) == ("peers" in expected)
    assert ("compress/torch" in found.calls) == ("torch" in expected)
    assert ("step/torch" in found.missing) == ("torch" not in expected)


class Noting:
    """Kernels that note with which P, how many scales and how many counts they are called."""

    def __init__(self, name):
        self.backend, self.seen = get_backend(name, CPU), {}

    def __getattr__(self, name):
        call = getattr(self.backend, name)

        def noted(*arguments, **keywords):
            given = dict(zip(inspect.signature(call).parameters, arguments, strict=False)) | keywords
            self.seen[name] = given
            return call(*arguments, **keywords)

        return noted if name in ("compress", "apply", "server") else call


@pytest.mark.parametrize("compress", ["momentum", "update"])
@pytest.mark.parametrize("scale_block", [None, 64])
@pytest.mark.parametrize("frozen_dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", ["cpu", "torch"])
def test_the_kernels_are_timed_on_what_a_form_has(stack, monkeypatch, name, compress, scale_block, frozen_dtype):
    noting = Noting(name)
    monkeypatch.setattr(contestants, "rung", lambda *_: noting)
    found = make(stack, 1000, 3, [name], peers=False, form=Form(compress, scale_block, frozen_dtype))
    found.calls[f"step/{name}"]()
    read_by, not_by = ("compress", "apply") if compress == "update" else ("apply", "compress")
    assert noting.seen[read_by]["preconditioner"].dtype == Form(frozen_dtype=frozen_dtype).dtype
    assert noting.seen[not_by]["preconditioner"] is None
    exchange = noting.seen["compress"]["exchange"]
    assert exchange.layout.scale_block == scale_block
    assert int(exchange.live.sum()) == 1000
    n_scales = (1, 1) if scale_block is None else (3 * 6, 6)  # chunks of 336 elements
    assert (
        noting.seen["compress"]["worker"].u_scale.numel(),
        noting.seen["server"]["server"].w_scale.numel(),
    ) == n_scales


def test_kernels_without_a_form_are_missing(stack, monkeypatch):
    class Old(TorchBackend):
        name, extensions = "old", ("compress",)

    monkeypatch.setattr(contestants, "rung", lambda *_: Old())
    found = make(stack, backends=["old"], peers=False, form=Form(scale_block=8))
    assert found.missing["step/old"].startswith("left out: the old backend has no scale_block=8")
    assert "step/old" in make(stack, backends=["old"], peers=False, form=Form("update")).calls


def test_kept_adds_up_and_temporaries_do_not(monkeypatch):
    monkeypatch.setattr(contestants, "MEMORY", {"a": (10, 50), "b": (10, 40), "c": (10, 0), "d": (1, 90)})
    found = contestants.Contestants(dim=1, free=80)
    assert [found.fits(what, what) for what in "abdc"] == [True, True, False, True]
    assert found.missing == {"d": "left out: would make 0.0 GB, and 0.0 GB are free"}
    assert not found.fits("a")


def test_bench_says_that_nothing_fits(monkeypatch):
    monkeypatch.setattr(contestants, "free_memory", lambda device: 1000.0)
    app = typer.Typer()
    app.command()(bench.kernels)
    done = CliRunner().invoke(app, ["--device", "cpu", "--log2-dim", "12"], standalone_mode=False)
    assert "D = 4,096, N = 8 left out: would make" in done.output
    assert "none of these sizes fits" in done.exception.format_message()


FAKE = """#!{python} -S
import sys
assert sys.argv[1:3] == ["-W", "ignore"], sys.argv
assert sys.argv[4:] == ["1024", "8", "{threads}"], sys.argv
{begin}
for line in sys.stdin:
    print(0.25 * int(line), flush=True)
"""


def fake_python(tmp_path, monkeypatch, begin):
    """A Python that has DeepSpeed, as far as the benchmark can see."""
    file = tmp_path / "python"
    file.write_text(FAKE.format(python=sys.executable, threads=torch.get_num_threads(), begin=begin))
    file.chmod(0o755)
    monkeypatch.setenv(PYTHON, str(file))


def test_the_package_keeps_its_own_time(stack, tmp_path, monkeypatch):
    fake_python(tmp_path, monkeypatch, 'print("0.19.6", flush=True)')
    found = make(stack, n_workers=8)
    call = found.calls["step/DeepSpeed 0.19.6 package"]
    sample = time_interleaved({"it": call}, CPU, 3)["it"]
    assert (sample.low, sample.median, sample.high) == (0.25, 0.25, 0.25)
    stack.close()
    assert call.process.returncode is not None, "the process lives on"


def test_a_package_that_does_not_work_says_why(stack, tmp_path, monkeypatch):
    fake_python(tmp_path, monkeypatch, "import nothing_of_this_name")
    assert make(stack, n_workers=8).missing["step/DeepSpeed package"] == (
        "ModuleNotFoundError: No module named 'nothing_of_this_name'"
    )
    monkeypatch.setenv(PYTHON, str(tmp_path / "absent"))
    assert str(tmp_path / "absent") in make(stack).missing["step/DeepSpeed package"]


@pytest.mark.skipif(deepspeed_python() is None, reason=NOT_INSTALLED)
def test_the_real_package():
    package = DeepSpeedPackage(str(deepspeed_python()), 64 * 8, 8)
    try:
        assert package.version.startswith("0.")
        assert package.seconds(2) > 0
    finally:
        package.close()


def test_free_memory():
    """Between a megabyte and what the machine has."""
    if not Path("/proc/meminfo").exists():
        pytest.skip("the system doesn't say")
    total = float(Path("/proc/meminfo").read_text().split("MemTotal:")[1].split()[0]) * 1024
    assert 2**20 < contestants.free_memory(CPU) < total
