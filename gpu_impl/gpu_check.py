"""``make gpu-check``: all that is to be shown on a CUDA machine, with result files (``python -m gpu_impl.gpu_check``).

Without a CUDA device it says so in one line and exits 0: nothing was checked. With one it runs the checks below, prints
a line for each, writes ``gpu_impl/benchmarks/results/<device>-<date>.json`` and ``.csv``, and exits 1 if one failed.
"""

from __future__ import annotations

import csv
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter

import torch

from gpu_impl.bench import csv_of, write
from gpu_impl.byte_floor import byte_floor
from gpu_impl.device_checks import all_patterns, far_elements, graph, make_share, repeats
from gpu_impl.measure import Row, measure
from gpu_impl.select import get_backend
from gpu_impl.timing import environment

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "benchmarks" / "results"
KERNELS = ("compress", "server", "apply")

BANDWIDTH_SHARE = 0.85
"""Of the measured copy bandwidth, for each kernel on its counted bytes."""
STEP_SECONDS_PER_ELEMENT_H200 = 6.9e-12
DRAM_TOLERANCE = 0.03

Outcome = tuple[bool, str]


def run_tests() -> Outcome:
    """The kernel tests; on this machine they compile the Triton kernels and run them on the device."""
    folder = ROOT / "tests" / "gpu_impl"
    if not folder.is_dir():
        return False, "tests/gpu_impl is not here: run from a checkout"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [line for line in done.stdout.splitlines() if line.strip()]
    failed = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
    return done.returncode == 0, "; ".join(failed[:5]) or (lines[-1] if lines else done.stderr[-300:])


def run_sanitizer() -> Outcome:
    """compute-sanitizer over one small step of each backend: bad accesses, races, uninitialised reads."""
    tool = shutil.which("compute-sanitizer")
    if tool is None:
        return True, "not run: compute-sanitizer is not installed here"
    said = []
    for check in ("memcheck", "racecheck"):
        command = [
            tool,
            "--tool",
            check,
            "--error-exitcode",
            "9",
            sys.executable,
            "-m",
            "gpu_impl.gpu_check",
            "--one-step",
        ]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            return False, f"{check}: {(done.stdout + done.stderr)[-500:]}"
        said.append(f"{check} clean")
    return True, ", ".join(said)


def run_counters(dim: int = 2**28) -> Outcome:
    """DRAM bytes by the hardware counters against the counted ones, for the tuned kernels."""
    tool = shutil.which("ncu")
    if tool is None:
        return True, "not run: ncu is not installed here"
    metrics = "dram__bytes_read.sum,dram__bytes_write.sum"
    command = [tool, "--csv", "--print-units", "base", "--clock-control", "none", "--metrics", metrics]
    command += [sys.executable, "-m", "gpu_impl.gpu_check", "--one-step", str(dim)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return True, f"not run: ncu can't read the counters here ({(done.stdout + done.stderr).strip()[-200:]})"
    moved = dram_bytes(done.stdout)
    said, good = [], True
    for kernel in KERNELS:
        if kernel not in moved:
            return False, f"ncu reported no kernel {kernel}"
        ratio = moved[kernel] / dim / byte_floor(kernel, 8)
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
    at = {(row.kernel, row.backend): row for row in rows if row.dim == largest and row.n_workers == 8}
    step, fused = at["step", "triton"], at["adam", "torch.optim fused"]
    said, good = [], True
    for kernel in KERNELS:
        share = 1 / at[kernel, "triton"].ratio
        good = good and share >= BANDWIDTH_SHARE
        said.append(f"{kernel} at {share:.0%} of copy bandwidth")
    good = good and step.seconds < fused.seconds
    said.append(f"step {step.seconds * 1e3:.3f} ms against {fused.seconds * 1e3:.3f} ms of torch's fused Adam")
    if "H200" in device_name:
        per_element = step.seconds / largest
        good = good and per_element <= STEP_SECONDS_PER_ELEMENT_H200
        said.append(f"{per_element * 1e12:.2f} ms per 10^9 parameters")
    return good, ", ".join(said)


def one_step(dim: int) -> None:
    """Compile, then one step of each Triton backend: what sanitizer and profiler watch. The tuned one is last."""
    device = torch.device("cuda")
    for name in ("triton-v1", "triton"):
        make_share(dim, 8, device).run(get_backend(name, device))
    torch.cuda.synchronize()


def attempt(check: Callable[[], Outcome]) -> Outcome:
    """The outcome; an exception is a failed check, so that the others still run."""
    try:
        return check()
    except Exception as error:
        return False, f"{type(error).__name__}: {error}"


def device_outcome(check: Callable[..., int], *backends: str) -> Callable[[], Outcome]:
    """A check of ``device_checks`` on every backend named."""

    def run() -> Outcome:
        device = torch.device("cuda")
        counts = [check(get_backend(name, device), device) for name in backends]
        torch.cuda.empty_cache()
        return True, f"{counts[0]:,} elements, {', '.join(backends)}"

    return run


def main(arguments: Sequence[str]) -> int:
    """The exit status."""
    if not torch.cuda.is_available():
        print("gpu-check: torch sees no CUDA device here, so nothing was checked")  # noqa: T201
        return 0
    if arguments[:1] == ["--one-step"]:
        one_step(int(arguments[1]) if len(arguments) > 1 else 100003)
        return 0
    device = torch.device("cuda")
    facts, rows = environment(device), list[Row]()

    def benchmark() -> Outcome:
        for exponent in (20, 24, 26, 28):
            for n_workers in (2, 8, 64) if exponent == 28 else (8,):
                rows.extend(measure(2**exponent, n_workers, ["triton", "triton-v1", "torch"], device)[0])
        return judge(rows, facts["device"])

    checks: dict[str, Callable[[], Outcome]] = {
        "tests": run_tests,
        "all float32 patterns": device_outcome(all_patterns, "triton"),
        "beyond 2^31 elements": device_outcome(far_elements, "triton", "triton-v1"),
        "repeatable": device_outcome(repeats, "triton", "triton-v1"),
        "CUDA graph": device_outcome(graph, "triton", "triton-v1", "torch"),
        "compute-sanitizer": run_sanitizer,
        "DRAM bytes": run_counters,
        "benchmark": benchmark,
    }
    outcomes = {}
    for name, check in checks.items():
        start = perf_counter()
        good, said = attempt(check)
        outcomes[name] = {"good": good, "said": said, "seconds": round(perf_counter() - start, 1)}
        print(f"{'ok    ' if good else 'FAILED'} {name}: {said}", flush=True)  # noqa: T201

    stem = re.sub(r"[^A-Za-z0-9]+", "-", facts["device"]).strip("-") + "-" + facts["date"][:10]
    record = {"environment": facts, "checks": outcomes, "rows": [row.as_dict() for row in rows]}
    write(RESULTS / f"{stem}.json", json.dumps(record, indent=1))
    if rows:
        write(RESULTS / f"{stem}.csv", csv_of(rows, facts))
    print(f"wrote {RESULTS / stem}.json")  # noqa: T201
    return 0 if all(outcome["good"] for outcome in outcomes.values()) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
