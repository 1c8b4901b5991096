"""The programs of docs/training.md, docs/migration.md and the README run as they stand, under torchrun."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

pytestmark = pytest.mark.xdist_group("torchrun")
ROOT = Path(__file__).parents[2]
BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "training.md").read_text(), flags=re.DOTALL)
PROGRAMS = [block for block in BLOCKS if block.startswith("# program: ")]
PAGE = "\n".join(block for block in BLOCKS if not block.startswith("# program: "))
README = [
    block
    for block in re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    if "OneBitAdam(model.parameters()" in block
]


WATCH = """
import torch as _torch
from torch import distributed as _dist
from gpu_impl.optimizer.one_bit_adam import OneBitAdam as _Adam

_take_part = _Adam.take_part

def _watched(optimizer):
    grads = [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
    total = float(sum(getattr(grad, "_local_tensor", grad).double().abs().sum() for grad in grads))
    totals = optimizer.collectives.objects(total)
    if len(totals) > 1 and total and len(set(totals)) == 1:
        print("ALL WORKERS HAVE THE SAME GRADIENT")
    _take_part(optimizer)

_Adam.take_part = _watched
"""
"""Before a program: its workers must train on different data."""


def write(code, folder, after=""):
    """The program as it stands in the page, watched."""
    (folder / "train.py").write_text(code)
    watched = "exec(compile(open('train.py').read(), 'train.py', 'exec'))\n"
    (folder / "watched.py").write_text(WATCH + watched + after)
    return folder / "watched.py"


@pytest.fixture
def torchrun(launcher, tmp_path):
    """Runs a program by N processes: nothing is set that the page does not say."""
    return lambda code, n, after="": launcher.run(write(code, tmp_path, after), n=n, folder=tmp_path)


def check(done, n):
    assert done.returncode == 0, done.stderr[-3000:]
    found = re.findall(r"phase='(.*?)', step=(\d+)", done.stdout)
    assert len(found) >= n, done.stdout
    assert {phase for phase, _ in found} == {"compressed"}


def check_own_data(done):
    assert "SAME GRADIENT" not in done.stdout


def test_the_code_of_the_page_runs_as_one_program(torchrun):
    assert len(BLOCKS) - len(PROGRAMS) >= 9
    done = torchrun(PAGE, 4)
    check(done, 4)
    check_own_data(done)


@pytest.mark.parametrize("number", range(len(PROGRAMS)), ids=[block.splitlines()[0][11:] for block in PROGRAMS])
def test_the_programs_for_trainers_run(number, torchrun):
    n = 4 if "devices=4" in PROGRAMS[number] else 2
    done = torchrun(PROGRAMS[number], n)
    check(done, n)
    check_own_data(done)


NOT_TOLD = [
    ("Hugging Face", ", use_cpu=not has_gpu", "add use_cpu=True to TrainingArguments"),
    ("Accelerate", "cpu=not torch.cuda.is_available()", "write Accelerator(cpu=True)"),
]


@pytest.mark.skipif(torch.cuda.is_available(), reason="on a GPU the trainer counts the processes itself")
@pytest.mark.parametrize("begins", [True, False], ids=["with a group", "without"])
@pytest.mark.parametrize(("name", "line", "advice"), NOT_TOLD, ids=["Hugging Face", "Accelerate"])
def test_a_trainer_that_counts_other_processes_is_told_so(name, line, advice, begins, torchrun):
    """The trainer saw one process, so that all trained on the same rows, in one group and without a word."""
    (code,) = [block for block in PROGRAMS if block.startswith(f"# program: {name}")]
    assert line in code
    group = "import torch.distributed as dist\ndist.init_process_group('gloo')\n" if begins else ""
    done = torchrun(group + code.replace(line, ""), 2)
    assert done.returncode == 1
    assert re.search(r"counts 1 process(, | and )torchrun has started 2", done.stderr), done.stderr[-2000:]
    assert advice in done.stderr


def test_the_program_of_the_readme_runs_and_its_workers_train_together(tmp_path):
    """It had no process group, so that each process trained alone. By the command torchrun, in new processes."""
    (code,) = README
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
         "--redirects", "1", "--log-dir", "logs", write(code, tmp_path)],
        capture_output=True, text=True, check=False, timeout=1800, cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "TRITON_INTERPRET": "0"},
    )  # fmt: skip
    done.stdout = "".join(file.read_text() for file in sorted(tmp_path.rglob("stdout.log")))  # no lines are mixed
    check(done, 1)
    check_own_data(done)
    assert "bytes_sent=0" not in done.stdout


@pytest.mark.parametrize("freeze_step", [22999, 1])
def test_the_program_of_the_migration_page_runs(freeze_step, torchrun):
    """With a short warm-up it compresses; its own is longer than the steps that a page can show."""
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "migration.md").read_text(), flags=re.DOTALL)
    assert "freeze_step=22999" in code
    code = code.replace("freeze_step=22999", f"freeze_step={freeze_step}")
    done = torchrun(code, 2, "print('STEPS', optimizer.steps, optimizer.stats().frozen_at)\n")
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.count(f"STEPS 3 {1 if freeze_step == 1 else None}") == 2
    check_own_data(done)


def test_no_page_has_marks_of_an_unfinished_merge():
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        assert not re.search(r"^(<{7} |={7}$|>{7} )", page.read_text(), flags=re.MULTILINE), page.name
