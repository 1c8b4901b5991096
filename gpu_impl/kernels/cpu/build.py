"""Compiles the C kernels with the system's compiler when they are first needed, and keeps the library.

The library is kept per user under ``$XDG_CACHE_HOME/onebit-adam`` (``~/.cache/onebit-adam``), named by a hash of the
sources, the flags, the compiler and the processor: a home directory that different machines share is no problem.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

import torch

from onebit_files import processor_lines

SOURCES = Path(__file__).parent
FLAGS = ("-O3", "-std=gnu11", "-shared", "-fPIC", "-fvisibility=hidden", "-pthread", "-Wno-psabi")
ARITHMETIC = ("-ffp-contract=off", "-fno-fast-math", "-fno-math-errno", "-fno-trapping-math")
"""One rounding an operation: no fused multiply-add. The last two change no result: only errno and exception flags."""
ATTEMPTS = (("-march=native",), ())
"""Tried in this order, for some compilers know no -march=native."""
DTYPE_CODES = {torch.float32: 0, torch.bfloat16: 1, torch.float16: 2}


class BackendUnavailableError(RuntimeError):
    """This backend can't run on this machine; the message says why and what to do."""


@functools.cache
def library() -> ctypes.CDLL:
    """The compiled kernels, from the cache or compiled now (about two seconds).

    Raises:
        BackendUnavailableError: there is no C compiler, or it fails.
    """
    compiler = find_compiler()
    if compiler is None:
        raise BackendUnavailableError(
            "the cpu backend compiles its kernels at first use and found no C compiler: install gcc or clang, set CC, "
            "or use backend='torch'"
        )
    sources = sorted(SOURCES.glob("*.c"))
    text = b"".join(file.read_bytes() for file in [*sources, *sorted(SOURCES.glob("*.h"))])
    version = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False).stdout
    parts = (version, processor(), " ".join(FLAGS + ARITHMETIC), repr(ATTEMPTS))
    key = hashlib.sha256(text + "\0".join(parts).encode()).hexdigest()[:16]
    file = cache_folder() / f"kernels-{key}.so"
    if not file.exists():
        compile_library(compiler, sources, file)
    try:
        return ctypes.CDLL(str(file))
    except OSError as error:
        raise BackendUnavailableError(f"the compiled kernels can't be loaded: {error}; delete {file.name}") from None


def find_compiler() -> str | None:
    """Path of the C compiler: what CC says, cc, gcc or clang; None if there is none."""
    return shutil.which(os.environ.get("CC", "cc")) or shutil.which("gcc") or shutil.which("clang")


def compile_library(compiler: str, sources: list[Path], file: Path) -> None:
    """Compile ``sources`` into ``file``, which appears complete or not at all.

    Raises:
        BackendUnavailableError: the compiler fails with every set of flags.
    """
    message = ""
    with tempfile.TemporaryDirectory(dir=file.parent) as folder:
        made = Path(folder) / file.name
        for attempt in ATTEMPTS:
            command = [compiler, *FLAGS, *ARITHMETIC, *attempt, *map(str, sources), "-o", str(made), "-lm"]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode == 0:
                made.replace(file)
                return
            message = message or next((line for line in done.stderr.splitlines() if "error" in line), done.stderr)
    raise BackendUnavailableError(f"{Path(compiler).name} can't compile the cpu kernels: {message.strip()[:300]}")


def cache_folder() -> Path:
    """Folder of the compiled library: the user's cache, or a private temporary folder where that can't be written."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = base / "onebit-adam"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if os.access(folder, os.W_OK):
            return folder
    except OSError:
        pass
    return Path(tempfile.mkdtemp(prefix="onebit-adam-"))


def processor() -> str:
    """What the machine can execute, as far as it says so."""
    known = sorted({line for line in processor_lines() if line.startswith(("flags", "Features", "model name"))})
    return platform.machine() + platform.processor() + "".join(known)
