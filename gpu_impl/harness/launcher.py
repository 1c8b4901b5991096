"""``torchrun`` many times, with one start of Python and its libraries: for the tests of programs that it runs.

    with Launcher(["lightning.pytorch"]) as launcher:
        done = launcher.run(Path("train.py"), "--lr", "0.1", n=2, folder=tmp_path)

A process calls ``torch.distributed.run.main``, which is torchrun, with its options ``--run-path --start-method
forkserver``: the workers are copies of a process that has imported torch and the modules that are named, and has run
nothing. What a program imports besides, its variables and its process group are its own.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from selectors import EVENT_READ, DefaultSelector
from typing import Self

import numpy as np
from torch.distributed.elastic.multiprocessing import SignalException
from torch.distributed.run import main as torchrun

ROOT = Path(__file__).parents[2]
LIBRARIES = ("gpu_impl", "torch._dynamo")
"""What every worker finds imported: torch.optim imports the second with the first optimizer."""


class Launcher:
    """A process that runs programs under torchrun, one after the other.

    Args:
        preload: modules that the workers find imported, where they are installed.
        environment: of all programs, added to this process's; a name with None is taken out.
    """

    def __init__(self, preload: Sequence[str] = (), environment: Mapping[str, str | None] | None = None) -> None:
        every = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **(environment or {})}
        self._environment = {name: value for name, value in every.items() if value is not None}
        self._preload = preload
        self._process: subprocess.Popen[str] | None = None

    def _start(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", "gpu_impl.harness.launcher", "serve", *LIBRARIES, *self._preload],
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(
        self,
        script: Path,
        *arguments: str | Path,
        n: int,
        folder: Path,
        options: Sequence[str] = (),
        timeout: float = 1800.0,
    ) -> subprocess.CompletedProcess[str]:
        """The end of ``torchrun --standalone --nproc-per-node n options script arguments``, started in ``folder``.

        ``stdout`` is that of the workers, one after the other; ``stderr`` is torchrun's own and then theirs.

        Raises:
            subprocess.TimeoutExpired: it did not end in ``timeout`` seconds, and was ended.
        """
        if self._process is None:
            self._process = self._start()
        orders, answers = self._process.stdin, self._process.stdout
        assert orders is not None
        assert answers is not None
        with tempfile.TemporaryDirectory(prefix="onebit-logs-") as logs:
            command = ["--standalone", "--monitor-interval", "0.05", "--nproc-per-node", str(n), *options]
            command += ["--redirects", "3", "--log-dir", logs, "--run-path", "--start-method", "forkserver"]
            command += [__file__, "work", str(folder), str(script.resolve()), *map(str, arguments)]
            orders.write(json.dumps({"command": command, "log": f"{logs}/agent.log"}) + "\n")
            orders.flush()
            with DefaultSelector() as selector:
                selector.register(answers, EVENT_READ)
                if not selector.select(timeout):
                    self.close()
                    raise subprocess.TimeoutExpired(command, timeout)
            status = int(answers.readline())
            said = {
                name: "".join(file.read_text() for file in sorted(Path(logs).rglob(f"{name}.log")))
                for name in ("agent", "stdout", "stderr")
            }
        return subprocess.CompletedProcess(command, status, said["stdout"], said["agent"] + said["stderr"])

    def close(self) -> None:
        """End the process, and the program that it may be running; a later :meth:`run` starts another."""
        if self._process is not None:
            self._process.terminate()  # torchrun ends its workers at a SIGTERM
            self._process.communicate()
            self._process = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _serve(preload: list[str]) -> None:
    """Run each program that arrives, until there are no more."""
    multiprocessing.set_forkserver_preload(preload)
    with os.fdopen(os.dup(1), "w") as answers, suppress(SignalException):
        os.dup2(2, 1)  # what torchrun says is no answer
        for line in sys.stdin:
            answers.write(f"{_launch(**json.loads(line))}\n")
            answers.flush()


def _launch(command: list[str], log: str) -> int:
    """torchrun's exit status; what it says is in the file ``log``."""
    kept = os.dup(2)
    with Path(log).open("w") as file:
        os.dup2(file.fileno(), 2)
        try:
            torchrun(command)
            return 0
        except Exception as error:
            sys.stderr.write(f"{error}\n")
            sys.stderr.flush()
            return 1
        finally:
            os.dup2(kept, 2)
            os.close(kept)


def _work(folder: str, script: str, *arguments: str) -> None:
    """A worker's life: the program, as ``python script arguments`` in ``folder``."""
    os.chdir(folder)
    np.random.seed()  # noqa: NPY002 - or all workers would draw the same
    sys.argv = [script, *arguments]
    sys.path.insert(0, str(Path(script).parent))
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as ended:
        if ended.code not in (None, 0):
            raise


if __name__ == "__main__":
    {"serve": lambda *preload: _serve(list(preload)), "work": _work}[sys.argv[1]](*sys.argv[2:])
