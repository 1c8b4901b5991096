"""``make gpu-check``: all that is to be shown on a CUDA machine, with result files.

Called as ``python -m gpu_impl.benchmarks.gpu_check``.

Without a CUDA device it says so in one line and exits 0: nothing was checked. With one it runs the checks below, prints
a line for each, writes ``gpu_impl/benchmarks/results/<device>-<date>.json`` and ``.csv``, and exits 1 if one failed. A
check that can't run here, or that had no time to finish, is "not checked": neither good nor failed. With names of
checks it runs these alone, and keeps what the files of the same day say of the others; each outcome has its time.

Each check has a process of its own and a time limit, and the files are written after each: a kernel that crashes takes
no other result along, nor does an interruption.
"""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter

import torch

from gpu_impl.benchmarks.byte_floor import PUBLISHED, byte_floor
from gpu_impl.benchmarks.command import csv_of
from gpu_impl.benchmarks.device_checks import all_patterns, far_elements, graph, make_share, repeats
from gpu_impl.benchmarks.form import Form
from gpu_impl.benchmarks.measure import Row, measure
from gpu_impl.benchmarks.rungs import rung
from gpu_impl.benchmarks.timing import environment
from onebit_files import write_atomically

ROOT = Path(__file__).parents[2]
RESULTS = Path(__file__).parent / "results"
KERNELS = ("compress", "server", "apply")
DEVICE_TESTS = (
    "test_kernels",
    "test_block_scales",
    "test_frozen_dtype",
    "test_family_kernels",
    "test_lazy_is_eager",
    "test_inputs",
    "test_gpu_check",
    "test_triton_compiles",
)
SECONDS = 300
"""Most that a check may take, for each process that it starts."""
JOBS = min(12, os.cpu_count() or 1)
"""Processes that share the device, where a check can use several: most of its time goes into compiling."""
VERIFIED = {
    "verification/adapters/kernels.py:TritonKernels": JOBS,
    "verification/adapters/optimizer.py:CudaOptimizer": 1,  # which starts up to ten processes of its own
}
VERIFY_MINUTES = 4

BANDWIDTH_SHARE = 0.85
"""Of the measured bandwidth of in-place traffic, for each kernel on its counted bytes."""
STEP_SECONDS_PER_ELEMENT_H200 = 6.9e-12
DRAM_TOLERANCE = 0.03
FORMS = (Form("update"), Form("update", None, "bfloat16"), Form("momentum", 128), Form("update", 128, "bfloat16"))
"""Timed beside the published one."""

Outcome = tuple[bool | None, str]
"""Whether it is good, None if it was not checked; and what was seen."""


def run_tests() -> Outcome:
    """The kernel tests; on this machine they compile the Triton kernels and run them on the device."""
    folder = ROOT / "tests" / "gpu_impl"
    if not folder.is_dir():
        return False, "tests/gpu_impl is not here: run from a checkout"
    files = [str(folder / f"{name}.py") for name in DEVICE_TESTS]
    # warnings are errors with our versions of everything; this machine has its own
    side_by_side = ["-n", str(JOBS)] if find_spec("xdist") else []
    done = run([sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-W", "default", *side_by_side, *files])
    lines = [line for line in done.stdout.splitlines() if line.strip()]
    failed = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
    if failed:
        of_tests = Counter(re.sub(r".*::|[\[ ].*", "", line.removeprefix("FAILED ")) for line in failed)
        told = ", ".join(f"{count} of {name}" for name, count in of_tests.items())
        return False, f"{told}; first {failed[0]}"
    return done.returncode == 0, lines[-1] if lines else done.stderr[-300:]


def verify(target: str, jobs: int) -> Callable[[], Outcome]:
    """A check of ``onebit verify`` in so many minutes: the search that everybody's kernel goes through."""

    def outcome() -> Outcome:
        command = [sys.executable, "-m", "onebit", "verify", target, "--jobs", str(jobs)]
        done = run([*command, "--minutes", str(VERIFY_MINUTES)], VERIFY_MINUTES * 60 + 60)
        good = {0: True, 3: None}.get(done.returncode, False)
        return good, last_line(done.stdout + done.stderr if good is False else done.stdout)

    return outcome


def run_sanitizer() -> Outcome:
    """compute-sanitizer over one small step of each Triton backend: bad accesses, races in shared memory."""
    tool = shutil.which("compute-sanitizer")
    if tool is None:
        return None, "compute-sanitizer is not installed here"
    said = []
    for check in ("memcheck", "racecheck"):
        command = [tool, "--tool", check, "--report-api-errors", "no", "--error-exitcode", "9"]
        done = run([*command, sys.executable, "-m", "gpu_impl.benchmarks.gpu_check", "--one-step", "100003", "8"])
        text = done.stdout + done.stderr
        if "Device not supported" in text or "SUMMARY" not in text:
            return None, f"compute-sanitizer can't watch this device ({last_line(text)})"
        if done.returncode != 0:
            return False, f"{check}: {text[-500:]}"
        said.append(f"{check} clean")
    return True, ", ".join(said)


def run_counters(dim: int = 2**30, n_workers: int = 2) -> Outcome:
    """DRAM bytes by the hardware counters against the counted ones, for the tuned kernels.

    What is still in the L2 cache at a kernel's end (60 MB) was not counted, so even ``server`` must move gigabytes.
    """
    tool = shutil.which("ncu")
    if tool is None:
        return None, "ncu is not installed here"
    metrics = "dram__bytes_read.sum,dram__bytes_write.sum"
    command = [tool, "--csv", "--print-units", "base", "--clock-control", "none", "--metrics", metrics]
    command += ["--kernel-name", f"regex:^({'|'.join(KERNELS)})$"]
    done = run(
        [*command, sys.executable, "-m", "gpu_impl.benchmarks.gpu_check", "--one-step", str(dim), str(n_workers)]
    )
    moved = dram_bytes(done.stdout)
    if done.returncode != 0 or not moved:
        return None, f"ncu can't read the counters here ({last_line(done.stdout + done.stderr)})"
    said, good = [], True
    for kernel in KERNELS:
        if kernel not in moved:
            return False, f"ncu reported no kernel {kernel}"
        ratio = moved[kernel] / dim / byte_floor(kernel, n_workers)
        good = good and abs(ratio - 1) <= DRAM_TOLERANCE
        said.append(f"{kernel} {ratio:.3f} of the counted bytes")
    return good, ", ".join(said)


def dram_bytes(report: str) -> dict[str, float]:
    """Bytes read and written by the last launch of each kernel, from ncu's CSV."""
    lines = report.splitlines()
    head = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
    launches: dict[tuple[str, str], float] = {}
    if head is not None:
        for record in csv.DictReader(lines[head:]):
            if not record.get("Metric Value"):  # a line that the program itself printed
                continue
            key = (record["Kernel Name"], record["ID"])
            launches[key] = launches.get(key, 0.0) + float(record["Metric Value"].replace(",", ""))
    return {name: value for (name, _), value in sorted(launches.items(), key=lambda item: int(item[0][1]))}


def judge(rows: Sequence[Row], device_name: str) -> Outcome:
    """The performance targets at the largest D, N = 8, of the tuned Triton kernels."""
    largest = max(row.dim for row in rows)
    published = [row for row in rows if row.dim == largest and row.n_workers == 8 and row.form == PUBLISHED]
    at = {(row.kernel, row.backend): row for row in published}
    step, fused = at["step", "triton"], at["adam", "torch.optim fused"]
    said, good = list[str](), True
    for kernel in KERNELS:
        share = 1 / at[kernel, "triton"].ratio
        good = good and share >= BANDWIDTH_SHARE
        said.append(f"{kernel} at {share:.0%} of in-place bandwidth")
    good = good and step.seconds < fused.seconds
    said.append(f"step {step.seconds * 1e3:.3f} ms against {fused.seconds * 1e3:.3f} ms of torch's fused Adam")
    if "H200" in device_name:
        per_element = step.seconds / largest
        good = good and per_element <= STEP_SECONDS_PER_ELEMENT_H200
        said.append(f"{per_element * 1e12:.2f} ms per 10^9 parameters")
    return good, ", ".join(said)


def one_step(dim: int, n_workers: int) -> None:
    """One step of each Triton backend: what sanitizer and profiler watch."""
    device = torch.device("cuda")
    for name in ("triton-v1", "triton"):
        make_share(dim, n_workers, device).run(rung(name, device))
    torch.cuda.synchronize()


def run(command: Sequence[str], seconds: float = SECONDS) -> subprocess.CompletedProcess[str]:
    """Run from the root of the checkout.

    Raises:
        subprocess.TimeoutExpired: it was ended after so many seconds.
    """
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=seconds)


def last_line(text: str) -> str:
    """What a program said last, for a sentence."""
    return (text.strip().splitlines() or ["it said nothing"])[-1][-300:]


def attempt(check: Callable[[], Outcome]) -> Outcome:
    """The outcome; an exception is a failed check, so that the others still run."""
    try:
        return check()
    except subprocess.TimeoutExpired as error:
        return False, f"not done after {error.timeout:.0f} s"
    except Exception as error:
        return False, f"{type(error).__name__}: {error}"


def on_device(check: Callable[..., int], *backends: str) -> Callable[[Path], Outcome]:
    """A check of ``device_checks`` on every backend named."""

    def outcome(_: Path) -> Outcome:
        device = torch.device("cuda")
        counts = [check(rung(name, device), device) for name in backends]
        return True, f"{counts[0]:,} elements, {', '.join(backends)}"

    return outcome


def benchmark(file: Path) -> Outcome:
    """Measure, and write the rows to ``file`` as JSON after each size."""
    device, rows = torch.device("cuda"), list[Row]()
    for exponent in (20, 24, 26, 28):
        for n_workers in (2, 8, 64) if exponent == 28 else (8,):
            rows += measure(2**exponent, n_workers, ["triton", "triton-v1", "torch"], device)[0]
            write_atomically(file, json.dumps([row.as_dict() for row in rows]))
    for form in FORMS:
        rows += measure(2**28, 8, ["triton"], device, peers=False, form=form)[0]
        write_atomically(file, json.dumps([row.as_dict() for row in rows]))
    return judge(rows, torch.cuda.get_device_name(device))


ON_DEVICE: dict[str, Callable[[Path], Outcome]] = {
    "all float32 patterns": on_device(all_patterns, "triton", "triton-v1"),
    "repeatable": on_device(repeats, "triton", "triton-v1"),
    "CUDA graph": on_device(graph, "triton", "triton-v1", "torch"),
    "beyond 2^31 elements": on_device(far_elements, "triton", "triton-v1"),
    "benchmark": benchmark,
}
"""Run as ``--check NAME FILE``: a crash on the device makes every later call of its process fail."""


WORDS = {True: "ok         ", False: "FAILED     ", None: "not checked"}


def in_process(name: str, file: Path) -> Callable[[], Outcome]:
    """The check of that name; its last line of output is its outcome."""

    def outcome() -> Outcome:
        done = run([sys.executable, "-m", "gpu_impl.benchmarks.gpu_check", "--check", name, str(file)])
        try:
            good, said = json.loads(done.stdout.strip().splitlines()[-1])
        except (IndexError, ValueError):
            return False, f"its process ended with status {done.returncode}: {last_line(done.stdout + done.stderr)}"
        return good, said

    return outcome


def main(arguments: Sequence[str]) -> int:
    """The exit status."""
    if not torch.cuda.is_available():
        print("gpu-check: torch sees no CUDA device here, so nothing was checked")  # noqa: T201
        return 0
    if arguments[:1] == ["--one-step"]:
        one_step(*map(int, arguments[1:]))
        return 0
    if arguments[:1] == ["--check"]:
        name, file = arguments[1:]
        print(json.dumps(attempt(lambda: ON_DEVICE[name](Path(file)))))  # noqa: T201
        return 0
    return check_all(environment(torch.device("cuda")), arguments)


def check_all(facts: dict[str, str], names: Sequence[str] = ()) -> int:
    """Run every check, or those named, and write the results after each; 1 if one failed, 2 for an unknown name."""
    stem = re.sub(r"[^A-Za-z0-9]+", "-", facts["device"]).strip("-") + "-" + facts["date"][:10]
    written = RESULTS / f"{stem}.json"
    before = json.loads(written.read_text(encoding="utf-8")) if names and written.exists() else {}
    outcomes: dict[str, dict[str, object]] = before.get("checks", {})
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rows.json"
        file.write_text(json.dumps(before.get("rows", [])), encoding="utf-8")
        checks = {name: in_process(name, file) for name in ON_DEVICE}
        checks |= {"DRAM bytes": run_counters, "compute-sanitizer": run_sanitizer, "tests": run_tests}
        checks |= {f"onebit verify {one[0]}": verify(*one) for one in VERIFIED.items()}
        if unknown := [name for name in names if name not in checks]:
            print(f"there is no check {unknown[0]!r}; there are {', '.join(checks)}")  # noqa: T201
            return 2
        for name in names or checks:
            start, at = perf_counter(), datetime.now(UTC).isoformat(timespec="seconds")
            good, said = attempt(checks[name])
            outcomes[name] = {"good": good, "said": said, "seconds": round(perf_counter() - start, 1), "at": at}
            print(f"{WORDS[good]} {name}: {said}", flush=True)  # noqa: T201
            rows = [Row(**row) for row in json.loads(file.read_text(encoding="utf-8"))]
            record = {"environment": facts, "checks": outcomes, "rows": [row.as_dict() for row in rows]}
            write_atomically(written, json.dumps(record, indent=1))
            if rows:
                write_atomically(written.with_suffix(".csv"), csv_of(rows, facts))
    how = [outcome["good"] for outcome in outcomes.values()]
    counts = f"{how.count(True)} of {len(how)} checks good, {how.count(False)} failed, {how.count(None)} not checked"
    print(f"{counts}; wrote {written}")  # noqa: T201
    return 1 if False in how else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
