"""Counterexamples in a process of their own: where a fault needs earlier calls in the same process, they say so."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable
from dataclasses import replace
from typing import Literal

from verification.neighbours import folders
from verification.search.program import INDENT, Program

Shown = Literal["fails", "passes", "unknown"]

LOADED = "the class under test is loaded"
"""What a script says before it uses the class: what fails earlier shows nothing."""

ROUNDS = 1000
"""So many times a program is repeated in one process, to see whether it fails then."""

PROCESSES = 3
"""What takes as many rounds in each of so many processes is no chance."""

AFTER_OTHERS = "# only after other calls in the same process: the class keeps something that instances share"

LONGEST = 30.0
"""Seconds that one process is given."""


def alone(program: Program, source: str, *, raises: bool, seconds: float) -> Shown:
    """Whether a program fails in a new process: by its assertion, or by anything where it ``raises``."""
    return _run(program.text(source, f"print({LOADED!r}, flush=True)"), raises=raises, seconds=seconds)[0]


def again(program: Program, source: str, *, raises: bool, seconds: float) -> tuple[Shown, int]:
    """How many rounds of the same calls a program, which passes in a new process, takes there until it fails."""
    start = f"print({LOADED!r})", f"for number in range(1, {ROUNDS + 1}):", f"{INDENT}print(number, flush=True)"
    shown, said = _run(_looped(program, *start).text(source), raises=raises, seconds=seconds)
    return shown, next((int(line) for line in reversed(said.splitlines()) if line.isdigit()), 0)


def honest(program: Program, source: str, *, raises: bool, left: Callable[[], float]) -> str:
    """The text of a program that passes in a new process: in as many rounds as it takes, or with a word that it does.

    Args:
        program: it fails in this process.
        source: the file that the class is loaded from.
        raises: whether the class raises.
        left: the seconds that are left.
    """
    shown, rounds = again(program, source, raises=raises, seconds=left())
    if shown == "fails":
        return repeated(program, AFTER_OTHERS, rounds).text(source)
    note = (
        "# This was found after other calls in the same process, and passes in a new one: the class keeps something\n"
        f"# that instances share, and {ROUNDS} rounds of the same calls don't bring it about."
    )
    return f"{note}\n{program.text(source)}"


def now_and_then(program: Program, source: str, processes: int, *, raises: bool, left: Callable[[], float]) -> str:
    """The text of a program that fails in some rounds: after so many, if they are as many in each new process."""
    match list({again(program, source, raises=raises, seconds=left()) for _ in range(processes)}):
        case [("fails", rounds)]:
            return repeated(program, AFTER_OTHERS, rounds).text(source)
    return repeated(program, "# not each time: the same calls pass, or fail", ROUNDS).text(source)


def repeated(program: Program, note: str, rounds: int) -> Program:
    """The program in so many rounds."""
    return _looped(program, note, f"for _ in range({rounds}):")


def _looped(program: Program, *head: str) -> Program:
    """The program's body inside a loop, whose first lines are ``head``."""
    return replace(program, body=(*head, textwrap.indent("\n".join(program.body), INDENT)))


def _run(script: str, *, raises: bool, seconds: float) -> tuple[Shown, str]:
    """How a script ends in a new process, and what it wrote."""
    if seconds <= 0:
        return "unknown", ""
    path = f"import sys\nsys.path[:] = {sys.path!r}\nfrom verification.neighbours import may_be_imported\n"
    path += f"for folder in {folders()!r}:\n    may_be_imported(folder)\n"
    try:
        ran = subprocess.run(
            [sys.executable, "-"],
            input=path + script,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=min(seconds, LONGEST),
            check=False,
        )
    except (subprocess.TimeoutExpired, OSError):
        return "unknown", ""
    if ran.returncode == 0 or LOADED not in ran.stdout:
        return ("passes" if ran.returncode == 0 else "unknown"), ran.stdout
    last = (ran.stderr.strip().splitlines() or [""])[-1]
    return ("fails" if raises or last.startswith("AssertionError") else "unknown"), ran.stdout
