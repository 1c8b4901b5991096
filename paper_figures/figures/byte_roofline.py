"""Our kernels against the bytes that they must move: the floor of theorem T8b, and the committed measurements."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure as Canvas

import gpu_impl
from paper_figures.algorithms import BLACK, BLUE, GREY, ORANGE, PURPLE, SKY, VERMILION
from paper_figures.drawing import legend_below, log_y, note, stacked
from paper_figures.figure import MissingResultsError, PaperFigure, Scale
from theory.theorems.byte_floor import ADAM_STREAMS, bytes_per_parameter, streamed

RESULTS = Path(gpu_impl.__file__).parent / "benchmarks" / "results"
N_WORKERS = 8
LOOKS = {
    ("step", "cpu"): ("1-bit step, our C kernels", BLUE, "o"),
    ("step", "triton"): ("1-bit step, our Triton kernels", SKY, "D"),
    ("step", "DeepSpeed sequence"): ("1-bit step, DeepSpeed 0.19.6's operations", VERMILION, "s"),
    ("adam", "torch.optim fused"): ("Adam, torch.optim fused", BLACK, "^"),
    ("adam", "torch.optim foreach"): ("Adam, torch.optim foreach", PURPLE, "v"),
    ("adam", "cpu"): ("Adam, our C kernel", ORANGE, "P"),
}


def tabulate(scale: Scale) -> pd.DataFrame:
    """The rows of every committed results file for whole steps (1-bit and Adam), fp32, N = 8.

    Columns of the files (device, date, dim, kernel, backend, seconds, floor_bytes, spent_bytes, ratio, ...), and
    ``file``, ``theory_bytes``: the count of T8b, the same as the file's ``floor_bytes``. spent_bytes is the time in
    bytes an element, at the copy bandwidth measured in the same run at the same size.

    Raises:
        MissingResultsError: there is no results file.
    """
    files = sorted(RESULTS.glob("*.csv"))
    if not files:
        raise MissingResultsError(f"no benchmark results in {RESULTS}: run `onebit bench kernels`")
    table = pd.concat([pd.read_csv(file).assign(file=file.stem) for file in files], ignore_index=True)
    published = table["scale_block"].isna()  # files of before the forms have no such columns
    published &= (table["compress"].fillna("momentum") == "momentum") & (
        table["frozen_dtype"].fillna("float32") == "float32"
    )
    timed = table["kernel"].isin(["step", "adam"]) & (table["n_workers"] == N_WORKERS)
    steps = table.loc[timed & (table["grad_dtype"] == "float32") & published]
    floors = {"step": bytes_per_parameter(N_WORKERS), "adam": float(streamed(ADAM_STREAMS))}
    return steps.assign(theory_bytes=steps["kernel"].map(floors)).reset_index(drop=True)


def draw(table: pd.DataFrame) -> Canvas:
    """A panel a results file: time of a step, in bytes an element at copy bandwidth, against D."""
    files = list(dict.fromkeys(table["file"]))
    canvas, panels = stacked(*[5.2] * len(files))
    for axes, file in zip(panels, files, strict=True):
        here = table.loc[table["file"] == file]
        for (kernel, backend), (label, color, marker) in LOOKS.items():
            seen = (table["kernel"] == kernel) & (table["backend"] == backend)
            rows = table.loc[seen & (table["file"] == file)].sort_values("dim")
            if seen.to_numpy().any():  # in some panel: the legend below the last one has all
                axes.plot(rows["dim"], rows["spent_bytes"], marker=marker, markersize=5, color=color, label=label)
        for kernel, dashes, word in (("step", "solid", "1-bit step"), ("adam", (0, (4, 2)), "Adam")):
            floor = here.loc[here["kernel"] == kernel, "theory_bytes"].iloc[0]
            axes.axhline(floor, color=GREY, linestyle=dashes, linewidth=1.2, label=f"{word} must move {floor:.4g} B")
        device, dims = here["device"].iloc[0], np.array(sorted(set(here["dim"])))
        axes.set(xscale="log", ylabel="time, in bytes an element", title=f"{device}, {here['date'].iloc[0][:10]}")
        axes.set_xticks(dims, [f"2^{int(np.log2(dim))}" for dim in dims])
        axes.minorticks_off()
        log_y(axes)
    panels[-1].set_xlabel("parameters D")
    legend_below(panels[-1], ncols=1)
    note(canvas, "time × copy bandwidth at the same D, N = 8, fp32")
    return canvas


FIGURE = PaperFigure(
    name="byte_roofline",
    title="Kernels against the bytes that they must move",
    beside="ours",
    caption=(
        "Time of one whole step, as the bytes an element that could be copied meanwhile at the bandwidth measured in "
        "the same run; the device is named above. Grey: what must be moved: at least 25.5 bytes for a compressed step "
        "with eight workers, 28 for Adam, less with compression than without. (The optimizer reads the gradient once "
        "before, 4 bytes more, to see that it is finite, which torch's Adam does not.) For large D our compressed "
        "step costs about what fused Adam costs on the CPU, and less on the GPU; the order of operations of DeepSpeed "
        "0.19.6 costs many times as much. For small D calls and threads dominate, and one kernel of Adam is cheaper "
        "than three. On this CPU large steps lie below the floor: a copy first reads the lines that it overwrites, "
        "which the copied bytes do not count, and these kernels update in place."
    ),
    draw=draw,
    tabulate=tabulate,
)
