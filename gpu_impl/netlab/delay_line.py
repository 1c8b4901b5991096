"""Added latency: a program that holds back what one interface of a pair sends before the other one delivers it.

The kernel's own way, ``netem``, is missing on many machines, and a lab that measures with one of two ways has not been
tested with the other. ``delay_line.c`` says what the program does. It takes the place of a veth pair.
"""

from __future__ import annotations

import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from gpu_impl.kernels.cpu.build import find_compiler
from gpu_impl.netlab.tools import LabError, call

SOURCE = Path(__file__).with_suffix(".c")
READY = "ready\n"
PATIENCE = 5.0
"""Seconds that it gets to end."""
End = tuple[str, str]
"""A namespace, and the name of an interface in it."""


class DelayLine:
    """Pairs of interfaces: what the second one of a pair sends reaches the first one later; the other way, at once.

    Args:
        pairs: the ends, which are made.
        lost: called, in a thread, if the program ends before :meth:`close`.

    Attributes:
        is_lost: whether it did.

    Raises:
        LabError: there is no C compiler, or the kernel has no TAP devices.
    """

    def __init__(self, pairs: Iterable[tuple[End, End]], lost: Callable[[], None] = lambda: None) -> None:
        compiler = find_compiler()
        if compiler is None:
            raise LabError("added latency needs a C compiler (cc, gcc or clang), and there is none: use --latency 0")
        names = [name for pair in pairs for end in pair for name in end]
        with tempfile.TemporaryDirectory(prefix="onebit-delay-") as folder:
            program = str(Path(folder) / "delay_line")
            call([compiler, "-O2", "-std=gnu11", str(SOURCE), "-o", program])
            # a session of its own: Ctrl-C is for the program that owns it, whose end it sees on its standard input
            try:
                self._process = subprocess.Popen(
                    [program, *names], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
                )
            except OSError as error:
                raise LabError(f"added latency can't be had here: {error}; use --latency 0") from None
            self._closing, self._lost, self.is_lost = threading.Event(), lost, False
            try:
                self._answer()
                threading.Thread(target=self._watch, name="delay line", daemon=True).start()
            except BaseException:
                self.close()
                raise

    def _watch(self) -> None:
        self._process.wait()
        if not self._closing.is_set():
            self.is_lost = True
            self._lost()

    def set(self, seconds: float) -> None:
        """The latency of every frame that is sent from now on."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # told by the answer
            self._process.stdin.write(f"{round(seconds * 1e9)}\n")
            self._process.stdin.flush()
        self._answer()

    def _answer(self) -> None:
        assert self._process.stdout is not None
        said = self._process.stdout.readline()
        if said != READY:
            raise LabError(f"added latency can't be had here: {said.strip() or 'its program ended'}; use --latency 0")

    def close(self) -> None:
        """End it; its interfaces go with it. Safe to call twice."""
        self._closing.set()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with suppress(BrokenPipeError):
                pipe.close()
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
