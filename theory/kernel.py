"""Coq checks the theorems that it proves: the files of ours, the statement, the axioms, the hypotheses used.

:func:`check` first reads every file of ours that the proof needs: it may say what :mod:`theory.coq_grammar` lists and
nothing else, and the definitions that statements speak of must be the pinned ones (:mod:`theory.vocabulary`). Then a
fresh Coq, which has imported nothing of ours, compares the printed statement (:mod:`theory.coq_statement`), each word
by its full name, with the type of the proved theorem: a file that redefines a word is found out. It prints the axioms
that the proof rests on, and where each comes from; only the classical axioms of Coq's real numbers are allowed. It
reads the proof term, in which every hypothesis must occur.

Where Coq is not installed, a record stands in (:mod:`theory.kernel_record`).
"""

from __future__ import annotations

import hashlib
import re
import resource
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from subprocess import PIPE
from threading import Thread

from theory import coq_grammar, vocabulary
from theory.coq_statement import mismatch, statement_of
from theory.theorem import ID_PATTERN, Theorem

ALLOWED_AXIOMS: Mapping[str, str] = {
    "ClassicalDedekindReals.sig_forall_dec": "Coq.Reals.ClassicalDedekindReals.sig_forall_dec",
    "ClassicalDedekindReals.sig_not_dec": "Coq.Reals.ClassicalDedekindReals.sig_not_dec",
    "FunctionalExtensionality.functional_extensionality_dep": (
        "Coq.Logic.FunctionalExtensionality.functional_extensionality_dep"
    ),
    "Classical_Prop.classic": "Coq.Logic.Classical_Prop.classic",
}
"""On these Coq's standard real numbers rest (`classic` comes in with Flocq and Coquelicot): as Coq prints them, and in
full, for another file could have the short name."""
SECONDS = 240
"""The longest that one Coq file may take, of a processor's time."""
BUSY = 10
"""How many times as long it may take on a busy machine."""
RUNNING: set[subprocess.Popen[str]] = set()
"""Every Coq that runs now."""


class CoqFailed(Exception):  # noqa: N818  (it reports what Coq said)
    """Coq refused something, or took too long; the message is its own, shortened."""


def untrusted(theorem: Theorem) -> str | None:
    """Why the theorem's Coq files can't be trusted, whatever Coq says of them; None if they can."""
    for path in sources(theorem.coq_file):
        if reason := next(coq_grammar.faults(path), None):
            return reason
    required = {path.stem for path in sources(theorem.coq_file)}
    for name in vocabulary.files(theorem.coq_imports):
        if name not in required:
            return f"{theorem.coq_file.name} doesn't require {name}, whose words the statement may use"
    for name in sorted(borrowed(theorem.coq_file) ^ set(theorem.needs)):
        if name in theorem.needs:
            return f"`needs` names {name}, and {theorem.coq_file.name} doesn't require its file"
        return f"{theorem.coq_file.name} requires the file of {name}, which `needs` doesn't name"
    return next(vocabulary.faults(theorem.coq_imports, theorem.folder), None)


def sources(path: Path) -> tuple[Path, ...]:
    """A Coq file and every file of ours that it requires, itself last."""
    seen: dict[Path, None] = {}
    begun = set[Path]()

    def visit(file: Path) -> None:
        begun.add(file)
        for name in _required(file):
            other = file.with_name(f"{name}.v")
            if other not in begun and other.is_file():
                visit(other)
        seen[file] = None

    visit(path)
    return tuple(seen)


def borrowed(path: Path) -> set[str]:
    """Ids of the theorems whose files a Coq file requires, itself or by way of files of lemmas."""
    found, files = set[str](), [path]
    for file in files:  # which grow meanwhile
        names = _required(file)
        found |= set(filter(ID_PATTERN.fullmatch, names))
        files += [other for name in names if name not in found if (other := path.with_name(f"{name}.v")) not in files]
    return found


def _required(file: Path) -> tuple[str, ...]:
    try:
        return tuple(coq_grammar.requirements(file.read_text("utf-8")))
    except (OSError, ValueError):
        return ()  # coq_grammar.faults says what is wrong with it


def digest(*texts: str) -> str:
    """Hexadecimal SHA-256 of texts."""
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()


def file_digest(theorem: Theorem) -> str:
    """Of the theorem's file and all that it requires."""
    return digest(*(path.read_text("utf-8") for path in sources(theorem.coq_file)))


@dataclass(frozen=True)
class Checked:
    """What Coq said of one theorem; ``faults`` is empty where it is proved."""

    theorem_id: str
    faults: tuple[str, ...]
    axioms: tuple[str, ...] = ()


@cache
def coq_version() -> str | None:
    """Version of the Coq that is installed, None if there is none."""
    if not shutil.which("coqc"):
        return None
    found = re.search(
        r"version (\S+)", subprocess.run(["coqc", "--version"], capture_output=True, text=True, check=False).stdout
    )
    return found[1] if found else None


def run_coq(file: Path) -> str:
    """Compile a file; what it printed.

    Raises:
        CoqFailed: Coq refused it.
    """
    command = ["coqc", "-q", "-w", "none", "-R", ".", "Onebit", file.name]
    with subprocess.Popen(command, cwd=file.parent, stdout=PIPE, stderr=PIPE, text=True) as coq:
        RUNNING.add(coq)
        if hasattr(resource, "prlimit"):  # so that a busy machine refuses no proof
            with suppress(ProcessLookupError):
                resource.prlimit(coq.pid, resource.RLIMIT_CPU, (SECONDS, SECONDS))
        try:
            printed, errors = coq.communicate(timeout=BUSY * SECONDS)
        except subprocess.TimeoutExpired:
            coq.kill()
            raise CoqFailed(f"{file.name}: Coq took longer than {BUSY * SECONDS} s") from None
        finally:
            RUNNING.discard(coq)
    if coq.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
        raise CoqFailed(f"{file.name}: Coq was ended; it may take {SECONDS} s of a processor")
    if coq.returncode:
        raise CoqFailed(" ".join(errors.split())[:600])
    return printed


@contextmanager
def workers(jobs: int) -> Iterator[ThreadPoolExecutor]:
    """Threads for Coq. After an error, or Ctrl-C, nothing more is begun and every Coq that runs is ended at once."""
    pool = ThreadPoolExecutor(jobs)
    try:
        yield pool
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        ended = Thread(target=pool.shutdown)
        ended.start()
        while ended.is_alive():  # a thread may have been about to begin another
            for coq in tuple(RUNNING):
                coq.kill()
            ended.join(0.05)
        raise
    finally:
        pool.shutdown()


def fresh_check(theorem: Theorem, *, printed: str | None = None) -> str:
    """A Coq file that compares the printed statement with the proved theorem and prints what the proof rests on."""
    stated = printed if printed is not None else statement_of(theorem, "Definition")
    stated = stated.replace(f"Definition {theorem.id} :", "Definition stated :", 1).rstrip(".")
    proved = f"Onebit.{theorem.id}.{theorem.id}"
    return (
        "From Coq Require Import Reals.\n"
        f"From Onebit Require {' '.join(vocabulary.files(theorem.coq_imports))} {theorem.id}.\nOpen Scope R_scope.\n"
        f"{vocabulary.aliases(theorem.coq_imports)}{stated}\n  := {proved}.\n"
        f"{''.join(f'Locate {name}.' + chr(10) for name in ALLOWED_AXIOMS)}"
        f"Print Assumptions {proved}.\nSet Printing Depth 1000000.\nPrint {proved}.\n"
    )


def check(theorem: Theorem, folder: Path) -> Checked:
    """Let Coq check one theorem whose requirements are compiled in ``folder``."""
    reason = mismatch(theorem) or untrusted(theorem)
    if reason:
        return Checked(theorem.id, (reason,))
    file = folder / f"check_{theorem.id}.v"
    file.write_text(fresh_check(theorem), "utf-8")
    try:
        output = run_coq(file)
    except CoqFailed as refused:
        return Checked(theorem.id, (str(refused),))
    axioms, other, term = _read(output, theorem.id)
    found = [*axiom_faults(axioms), *_ambiguous(output, axioms)]
    found += [f"Coq says: {line}" for line in other]
    found += [
        f"the proof does not use the hypothesis {item.name!r} (or introduces it by another name)"
        for item in theorem.hypotheses
        if len(re.findall(rf"(?<![\w'.]){item.name}(?![\w'])", term)) < 2
    ]
    return Checked(theorem.id, tuple(found), axioms)


def axiom_faults(axioms: Iterable[str]) -> list[str]:
    """One sentence for every axiom that is none of the classical real numbers'."""
    return [f"it rests on the axiom {name}" for name in axioms if name not in ALLOWED_AXIOMS]


LOCATED = re.compile(r"^\s*(?:Constant|Notation|Inductive|Constructor|Module) ([\w.']+)", re.M)


def _ambiguous(output: str, axioms: Iterable[str]) -> list[str]:
    """Axioms whose short name doesn't mean the library's alone."""
    places = LOCATED.findall(output.partition("\nAxioms:")[0])
    return [
        f"the axiom {name} is {', '.join(found) or 'not found'}, not {ALLOWED_AXIOMS[name]} alone"
        for name in axioms
        if name in ALLOWED_AXIOMS
        if (found := [place for place in places if f".{place}".endswith(f".{name}")]) != [ALLOWED_AXIOMS[name]]
    ]


def _read(output: str, name: str) -> tuple[tuple[str, ...], tuple[str, ...], str]:
    """Axioms, whatever else the proof assumes, and the text of the proof term, from what Coq printed."""
    assumptions, _, rest = output.partition(f"\n{name}.{name} =")
    if not rest:
        assumptions, _, rest = output.partition(f"\n{name} =")
    term = rest.rpartition("\n     : ")[0] or rest
    listed = re.sub(r"^(Axioms:|Closed under the global context|No object of .*)$", "", assumptions, flags=re.M)
    listed = re.sub(r"^(?:Constant|Notation|Inductive|Constructor|Module) [\w.']+(?: .*)?$", "", listed, flags=re.M)
    axioms = tuple(re.findall(r"^([\w.']+)\s*:(?!=)", listed, re.M))
    other = [line for line in listed.splitlines() if line.strip() and not line[0].isspace()]
    return axioms, tuple(line for line in other if re.split(r"[\s:]", line)[0] not in axioms), term


def compiled(file: Path, folder: Path) -> None:
    """Compile a file into ``folder`` unless the very text was compiled there before, and what came of it is untouched.

    Raises:
        CoqFailed: Coq refused it.
    """
    if reason := next(coq_grammar.faults(file), None):
        raise CoqFailed(reason)
    target, stamp = folder / file.name, folder / f"{file.stem}.digest"
    now = digest(*(path.read_text("utf-8") for path in sources(file)))
    result = target.with_suffix(".vo")
    if stamp.exists() and result.exists() and stamp.read_text() == digest(now, _digest_of(result)):
        return
    stamp.unlink(missing_ok=True)
    shutil.copyfile(file, target)
    run_coq(target)
    stamp.write_text(digest(now, _digest_of(result)))


def _digest_of(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def check_all(
    theorems: Sequence[Theorem], folder: Path, *, jobs: int = 2, report: Callable[[Checked], None] = lambda result: None
) -> dict[str, Checked]:
    """Compile and check every theorem that has a Coq file, ``jobs`` at a time; ``report`` hears of each."""
    folder.mkdir(parents=True, exist_ok=True)
    owner = {theorem.coq_file: theorem for theorem in theorems}
    files = list(dict.fromkeys(path for theorem in theorems for path in sources(theorem.coq_file)))
    waiting = {path: set(sources(path)[:-1]) & set(files) for path in files}
    results: dict[str, Checked] = {}
    broken: dict[Path, str] = {}

    def work(path: Path) -> tuple[Path, Checked | None, str]:
        try:
            compiled(path, folder)
        except CoqFailed as refused:
            return path, None, str(refused)
        return path, check(owner[path], folder) if path in owner else None, ""

    running: set[Future[tuple[Path, Checked | None, str]]] = set()
    with workers(jobs) as pool:
        while waiting or running:
            for path in [path for path, needs in waiting.items() if not needs]:
                del waiting[path]
                running.add(pool.submit(work, path))
            if not running:  # the rest waits for itself
                break
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                path, checked, refused = future.result()
                because = next((broken[need] for need in sources(path)[:-1] if need in broken), refused)
                if because:
                    broken[path] = because
                    checked = Checked(owner[path].id, (broken[path],)) if path in owner else None
                for needs in waiting.values():
                    needs.discard(path)
                if checked:
                    results[checked.theorem_id] = checked
                    report(checked)
    for path in waiting.keys() & owner.keys():
        results[owner[path].id] = Checked(owner[path].id, (f"{path.name} requires itself, by way of other files",))
        report(results[owner[path].id])
    return results
