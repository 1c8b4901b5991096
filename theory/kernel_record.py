"""The record of Coq's last full check, which stands in where Coq is not installed.

``theory/theorems/kernel-record.json`` has digests of statements and files, Coq's version and the date, and a digest of
all that: a file that was damaged or edited by hand is told. A digest that is not that of today's file, an axiom that is
not allowed, or an entry of another form is an error, not a pass. The record is a note of whoever ran Coq, and can be
forged like any file: who wants to rely on nobody runs Coq.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from onebit_files import write_atomically
from theory.coq_statement import mismatch, statement_of
from theory.kernel import Checked, axiom_faults, coq_version, digest, file_digest, untrusted
from theory.theorem import Theorem

RECORD = Path(__file__).parent / "theorems" / "kernel-record.json"
OLDEST, NEWEST = (8, 16), (10, 0)
"""Versions of Coq from the oldest that can check the files to one that there isn't yet."""


class DamagedRecord(ValueError):  # noqa: N818  (it says what is wrong with a file)
    """The record is not as it was written."""


def write_record(theorems: Iterable[Theorem], results: Mapping[str, Checked], *, path: Path = RECORD) -> None:
    """Keep what Coq has checked just now; entries of theorems not checked this time stay if they still fit."""
    with _alone(path.parent):
        _write(theorems, results, path)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One process at a time: two that end together keep both their entries."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _write(theorems: Iterable[Theorem], results: Mapping[str, Checked], path: Path) -> None:
    try:
        before = read_record(path)
    except DamagedRecord:
        before = {}
    entries = {
        theorem.id: entry
        for theorem, entry in ((item, before.get(item.id)) for item in theorems)
        if entry and not entry_faults(entry) and _fits(theorem, entry)
    }
    for theorem in theorems:
        result = results.get(theorem.id)
        if result and not result.faults:
            entries[theorem.id] = {
                "statement": digest(" ".join(statement_of(theorem).split())),
                "file": file_digest(theorem),
                "axioms": list(result.axioms),
                "coq": coq_version(),
                "date": date.today().isoformat(),
            }
    write_atomically(path, text_of(entries))


def text_of(entries: Mapping[str, Any]) -> str:
    """The file: every entry, and a digest of them all."""
    ordered = dict(sorted(entries.items()))
    return json.dumps({"digest": digest(json.dumps(ordered)), "entries": ordered}, indent=1) + "\n"


def read_record(path: Path = RECORD) -> dict[str, Any]:
    """The entries of the record by theorem; none where there is no record.

    Raises:
        DamagedRecord: it is not as it was written.
    """
    try:
        text = path.read_text("utf-8")
        entries = json.loads(text)["entries"]
        if text == text_of(entries):
            return entries
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        pass
    raise DamagedRecord(f"{path.name} is damaged or was edited: run `onebit prove --kernel` where Coq is installed")


def _fits(theorem: Theorem, entry: Mapping[str, Any]) -> bool:
    if not theorem.coq_file.exists() or mismatch(theorem):
        return False
    same = entry["statement"] == digest(" ".join(statement_of(theorem).split()))
    return same and entry["file"] == file_digest(theorem)


def faults(theorem: Theorem, record: Mapping[str, Any]) -> tuple[str, ...]:
    """Without Coq: what is wrong with a kernel-checked theorem by its text and the record; () if nothing is."""
    return tuple(_faults(theorem, record))


def _faults(theorem: Theorem, record: Mapping[str, Any]) -> Iterator[str]:
    reason = mismatch(theorem)
    if reason:
        yield reason
    elif words := untrusted(theorem):
        yield words
    elif theorem.id not in record:
        yield "no record that Coq has checked it: run `onebit prove --kernel` where Coq is installed"
    elif wrong := entry_faults(record[theorem.id]):
        yield f"the record of Coq's check {wrong}: run `onebit prove --kernel` where Coq is installed"
    elif not _fits(theorem, record[theorem.id]):
        yield f"{theorem.coq_file.name}, or a file it requires, has changed since Coq read it: `onebit prove --kernel`"


KEYS = {"statement", "file", "axioms", "coq", "date"}


def entry_faults(entry: Any) -> str:
    """What is wrong with an entry of the record by itself; empty if nothing is."""
    if not isinstance(entry, dict) or set(entry) != KEYS:
        return f"must have {', '.join(sorted(KEYS))} and nothing else"
    texts, axioms = [entry[key] for key in sorted(KEYS - {"axioms"})], entry["axioms"]
    if not (all(isinstance(text, str) for text in texts) and isinstance(axioms, list)):
        return "must have a list of axioms, and texts besides"
    if wrong := axiom_faults(map(str, axioms)):
        return f"says that {wrong[0]}"
    version = re.fullmatch(r"(\d+)\.(\d+)(?:\.\d+|\+\w+)*", entry["coq"])
    if not version or not OLDEST <= (int(version[1]), int(version[2])) < NEWEST:
        return f"names Coq {entry['coq']}, which is no version that could have checked it"
    try:
        done = date.fromisoformat(entry["date"])
    except ValueError:
        return f"has the date {entry['date']!r}"
    return f"is of {done}, which is to come" if done > date.today() + timedelta(days=1) else ""
