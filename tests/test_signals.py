"""How commands end at a signal: one line, status 130, also by a second signal, and while modules are loaded."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from onebit_signals import ENDING, stoppable

ROOT = Path(__file__).parents[1]

LOADS = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup the tests themselves inherit that it is ignored
import onebit
class Signalled:
    @staticmethod
    def find_spec(name, *_):
        if name == {module!r}:
            os.kill(os.getpid(), {number})
sys.meta_path.insert(0, Signalled)
sys.argv[1:] = ["netlab", "--workers", "1"]
onebit.main()
"""


@pytest.mark.parametrize("module", ["onebit_command", "torch"])
@pytest.mark.parametrize("number", sorted(ENDING))
def test_a_signal_while_modules_are_loaded_is_one_line(module, number):
    code = LOADS.format(module=module, number=int(number))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False)
    assert (done.returncode, done.stderr) == (130, "onebit: interrupted\n")


SLEEPS = """
import os, signal, sys, time
from onebit_signals import ENDING, leave, stoppable
signal.signal(signal.SIGINT, signal.SIG_IGN)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
status = 0
try:
    with stoppable():
        if {first}:
            os.kill(os.getpid(), {first})
            time.sleep(60)
except KeyboardInterrupt:
    status = 130
import atexit
atexit.register(os.kill, os.getpid(), {second})
leave(status)
"""


@pytest.mark.parametrize("first", [0, *sorted(ENDING)])
@pytest.mark.parametrize("second", sorted(ENDING))
def test_a_signal_while_python_ends_does_not_change_the_status(first, second):
    code = SLEEPS.format(first=int(first), second=int(second))
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False, timeout=1800)
    assert done.returncode == (130 if first else 0)


def twice():
    """One that is ignored, the first that is heard, and two more."""
    with stoppable():
        signal.raise_signal(signal.SIGHUP)
        try:
            signal.raise_signal(signal.SIGTERM)
        finally:
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGTERM)


def test_what_comes_after_the_first_does_nothing_and_nohup_stays():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with pytest.raises(KeyboardInterrupt):
            twice()
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
