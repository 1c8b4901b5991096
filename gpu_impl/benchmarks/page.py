"""The table of docs/kernels.md from a result file: ``python -m gpu_impl.benchmarks.page FILE.json``."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from gpu_impl.benchmarks.byte_floor import PUBLISHED
from gpu_impl.benchmarks.measure import Row

ROWS = {
    "`scale_in_place`": ("scale_in_place", "torch"),
    "`copy`": ("copy", "torch"),
    "`compress`": ("compress", "triton"),
    "`server`": ("server", "triton"),
    "`apply`": ("apply", "triton"),
    "**whole compressed step**": ("step", "triton"),
    "the same, `triton-v1`": ("step", "triton-v1"),
    "`adam`, our warm-up step": ("adam", "triton"),
    "`gradient_norm`": ("gradient_norm", "triton"),
    "`walk`, a local step of 0/1 Adam": ("walk", "triton"),
    "`lamb_moments`, LAMB's first pass": ("lamb_moments", "triton"),
    "`lamb_move`, its second": ("lamb_move", "triton"),
    "`lamb_form`, 1-bit LAMB before the exchange": ("lamb_form", "triton"),
    "`lamb_refresh`, after it": ("lamb_refresh", "triton"),
    "torch Adam, fused": ("adam", "torch.optim fused"),
    "torch Adam, foreach": ("adam", "torch.optim foreach"),
    "DeepSpeed 0.19.6 sequence": ("step", "DeepSpeed sequence"),
}
"""What the table shows, by kernel and contestant."""

LOOKED_AT = "the same, after `gradient_norm`, as the optimizer takes a step"
"""The sum of two rows, below that of the kernels alone."""


def kernels_table(rows: list[Row], n_workers: int = 8) -> str:
    """Markdown: the published form at the two largest D, with N = ``n_workers``."""
    published = [row for row in rows if row.n_workers == n_workers and row.form == PUBLISHED]
    dims = sorted({row.dim for row in published})[-2:]
    at = {(row.kernel, row.backend, row.dim): row for row in published}
    head = ["", "floor"] + [cell for dim in dims for cell in (f"D = 2^{dim.bit_length() - 1}: time", "ratio")]
    lines = [line(head), "|---" * len(head) + "|"]
    for name, key in ROWS.items():
        lines.append(timed(name, [[at[(*key, dim)]] for dim in dims]))
        if key == ("step", "triton"):
            norm = ("gradient_norm", "triton")
            lines.append(timed(LOOKED_AT, [[at[(*key, dim)], at[(*norm, dim)]] for dim in dims]))
    return "\n".join(lines)


def timed(name: str, parts: list[list[Row]]) -> str:
    """A line of the table: at each D, what these kernels take together."""
    cells = list[str]()
    for rows in parts:
        seconds, spent = sum(row.seconds for row in rows), sum(row.spent_bytes for row in rows)
        cells += [f"{seconds * 1e3:.3f} ms", f"{spent / sum(row.floor_bytes for row in rows):.2f}"]
    return line([name, f"{sum(row.floor_bytes for row in parts[0]):.2f}", *cells])


def forms_table(rows: list[Row], n_workers: int = 8) -> str:
    """Markdown: the whole step and its kernels in every form, at the largest D."""
    dim = max(row.dim for row in rows)
    ours = [row for row in rows if (row.dim, row.n_workers, row.backend) == (dim, n_workers, "triton")]
    head = ["form", "`compress`", "`server`", "`apply`", "whole step", "floor", "ratio"]
    lines = [line(head), "|---" * len(head) + "|"]
    for form in dict.fromkeys(row.form for row in ours):
        of = {row.kernel: row for row in ours if row.form == form}
        parts = [f"{of[kernel].seconds * 1e3:.3f} ms" for kernel in ("compress", "server", "apply", "step")]
        lines.append(line([str(form), *parts, f"{of['step'].floor_bytes:.2f}", f"{of['step'].ratio:.2f}"]))
    return "\n".join(lines)


def line(cells: list[str]) -> str:
    """A row of a table."""
    return "| " + " | ".join(cells) + " |"


def tables(file: Path) -> tuple[str, str]:
    """Both, from a result file of ``make gpu-check``."""
    rows = [Row(**row) for row in json.loads(file.read_text(encoding="utf-8"))["rows"]]
    return kernels_table(rows), forms_table(rows)


if __name__ == "__main__":
    print("\n\n".join(tables(Path(sys.argv[1]))))  # noqa: T201
