"""Kill a worker at random moments of a training, and compare the end with that of an undisturbed run, bit by bit.

    python -m gpu_impl.harness.survive --trials 20

Each trial is a run of ``gpu_impl.examples.restartable`` under ``torchrun --max-restarts 1``, in which one worker gets a
SIGKILL: before the first step, in the warm-up, around the freeze, in the compression stage, or while a checkpoint is
saved. Rank, step and delay are drawn from the seed. Exit status 1 if a run ended elsewhere than the undisturbed one.
"""

from __future__ import annotations

import json
import random
import subprocess
import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import Progress

from gpu_impl.examples.restartable import EVERY, FREEZE_STEP, STEPS
from gpu_impl.harness import doomed
from gpu_impl.harness.launcher import Launcher
from onebit_files import write_atomically

MOMENTS = ("compression", "save", "warm-up", "save", "freeze", "start")


def main(
    trials: Annotated[int, typer.Option(min=1)] = 20,
    workers: Annotated[int, typer.Option(min=1)] = 2,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write every trial to this file.")] = None,
) -> None:
    """Kill and compare."""
    rng, outcomes = random.Random(seed), []
    environment = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}  # see restartable.py
    with (
        Progress() as progress,
        tempfile.TemporaryDirectory() as folder,
        Launcher(environment=environment) as launcher,
    ):
        bar = progress.add_task("trials", total=trials)
        undisturbed = run(launcher, Path(folder) / "undisturbed", workers, "")
        for trial in range(trials):
            moment = MOMENTS[trial % len(MOMENTS)]
            order = draw(rng, moment, workers)
            end = run(launcher, Path(folder) / str(trial), workers, order)
            same = is_same(end, undisturbed)
            outcomes.append({"moment": moment, "kill": order, "killed": end.get("starts") == 2, "same": same, **end})
            progress.print(f"{moment:12} {order:20} {'same bits' if same else 'DIFFERS: ' + str(end)}")
            progress.advance(bar)
        if json_file:
            write_atomically(json_file, json.dumps({"undisturbed": undisturbed, "trials": outcomes}, indent=1))
    killed, same = (sum(outcome[key] for outcome in outcomes) for key in ("killed", "same"))
    typer.echo(
        f"{trials} trials: {killed} in which a worker was killed and all restarted, {same} ended in the same bits"
    )
    raise typer.Exit(0 if killed == same == trials else 1)


def is_same(end: dict[str, Any], undisturbed: dict[str, Any]) -> bool:
    """Whether a run ended in the parameters and the optimizer's states of the undisturbed one."""
    return all(end.get(key) == undisturbed[key] for key in ("params", "states"))


def draw(rng: random.Random, moment: str, workers: int) -> str:
    """An order for ``--kill``; the delays reach beyond one step and one save where this was tried."""
    step = {
        "start": 0,
        "warm-up": rng.randint(1, FREEZE_STEP - 1),
        "freeze": rng.randint(FREEZE_STEP, FREEZE_STEP + 1),
        "compression": rng.randint(FREEZE_STEP + 2, STEPS - 2 * EVERY),
        "save": EVERY * rng.randint(1, STEPS // EVERY - 2),
    }[moment]
    where, longest = (f"save-{step}", 0.1) if moment == "save" else (str(step), 0.02)
    return f"{rng.randrange(workers)}:{where}:{rng.uniform(0, longest):.4f}"


def run(launcher: Launcher, folder: Path, workers: int, order: str) -> dict[str, Any]:
    """Checksums of the final state of one run, and how often it was started; or why there are none."""
    folder.mkdir()
    arguments = ["--checkpoint", folder / "checkpoint", "--result", folder / "result.json"]
    arguments += ["--kill", order] if order else []
    program = Path(doomed.__file__)
    try:
        done = launcher.run(program, *arguments, n=workers, folder=folder, options=["--max-restarts", "1"])
    except subprocess.TimeoutExpired as error:
        return {"error": f"no end within {error.timeout:.0f} s"}
    if done.returncode != 0:
        return {"error": done.stderr[-2000:]}
    return json.loads((folder / "result.json").read_text(encoding="utf-8"))


if __name__ == "__main__":
    typer.run(main)
