"""What a Coq file of ours may say: a short list of commands, so that nothing can change what a statement means.

Coq has many commands that assume something (``Axiom``), change a meaning (``Notation``, ``Coercion``, ``Module``), or
switch a check off. A list of the bad ones is never complete. So this is a list of the good ones, and every other
command is refused, inside of proofs too. Names that another file could hide are dealt with in :mod:`theory.vocabulary`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

LIBRARIES = ("Coq", "Flocq", "Coquelicot", "Interval", "mathcomp")
REQUIRE = re.compile(
    rf"From (Onebit|{'|'.join(LIBRARIES)}) Require (?:Import |Export )?((?:[A-Za-z]\w*(?:\.\w+)*\s*)+)"
)
PROVED = ("Lemma", "Theorem")
DEFINED = ("Definition", "Fixpoint", "Inductive", "Record")
LOCAL = ("Variable", "Variables", "Hypothesis", "Hypotheses", "Let")
SHORT_NAME = r"Notation [A-Za-z]\w*(?: [a-z]\w*)* := [^\"]*"
ABBREVIATION = re.compile(SHORT_NAME)
OUTSIDE = {"Notation": "write Local Notation", "Let": "write Definition"}
"""What to write where a command that belongs into a section has none; the others would be axioms."""
NO_ABBREVIATION = "`{}`: a notation may be the short name of a term, `Notation name := term`, and nothing else"
OTHERS = re.compile(rf"Open Scope R_scope|Local {SHORT_NAME}|Ltac [a-z]\w*(?: \w+)* := [^\"]*")
PROOF_START = re.compile(r"Proof(?: using [\w ]+)?")
PROOF_ENDS = ("Qed", "Defined")
BULLETS = re.compile(r"(?:[-+*]+|[{}]|(?:\d+|\[\w+\]|all|!)\s*:(?:\s*\{)?)\s*")


def sentences(text: str) -> Iterator[str]:
    """The sentences of a Coq file without comments, their full stops, and white space beyond one blank.

    Coq's own rules: comments nest, strings count in comments too, a full stop before white space ends a sentence.

    Raises:
        ValueError: a comment or a string has no end, or the file ends within a sentence.
    """
    kept, depth, place = "", 0, 0
    while place < len(text):
        letter, pair = text[place], text[place : place + 2]
        if letter == '"':
            end = text.find('"', place + 1)
            if end < 0:
                raise ValueError("a string has no end")
            kept += "" if depth else text[place : end + 1]
            place = end + 1
        elif pair == "(*":
            depth, place, kept = depth + 1, place + 2, kept + ("" if depth else " ")
        elif pair == "*)" and depth:
            depth, place = depth - 1, place + 2
        else:
            place += 1
            kept += "" if depth else letter
            if not depth and letter == "." and (place == len(text) or text[place].isspace()):
                yield " ".join(kept[:-1].split())
                kept = ""
    if depth or kept.strip():
        raise ValueError("a comment has no end" if depth else "the last sentence has no full stop")


def requirements(text: str) -> Iterator[str]:
    """Names of the files of ours that a file requires, in order."""
    for sentence in sentences(text):
        found = REQUIRE.fullmatch(sentence)
        if found and found[1] == "Onebit":
            yield from found[2].split()


def faults(path: Path) -> Iterator[str]:
    """One sentence for everything in a Coq file that is not on the list."""
    try:
        text = path.read_text("utf-8")
        for reason in _Reader(path).read(text):
            yield f"{path.name}: {reason}"
    except (OSError, ValueError) as reason:
        yield f"{path.name} can't be read: {' '.join(str(reason).split())}"


class _Reader:
    """Goes through the sentences of one file."""

    def __init__(self, path: Path) -> None:
        self.path, self.sections, self.proof = path, list[str](), ""

    def read(self, text: str) -> Iterator[str]:
        if not text.isascii():
            yield "it has a character that is not ASCII"
        for sentence in sentences(text):
            if self.proof:
                yield from self._in_proof(sentence)
            else:
                yield from self._command(sentence)
        if self.proof:
            yield "the last proof has no end"
        if self.sections:
            yield f"the section {self.sections[-1]} has no end"

    def _in_proof(self, sentence: str) -> Iterator[str]:
        if self.proof == "stated":
            self.proof = "open"
            if not PROOF_START.fullmatch(sentence):
                yield f"`Proof.` must follow a statement, not `{sentence[:40]}`"
            return
        if sentence in PROOF_ENDS:
            self.proof = ""
            return
        while found := BULLETS.match(sentence):
            sentence = sentence[found.end() :]
        if not re.match(r"[a-z(\[]", sentence) and sentence:
            yield f"no command may stand in a proof: `{sentence[:40]}`"

    def _command(self, sentence: str) -> Iterator[str]:
        word, _, rest = sentence.partition(" ")
        if word in PROVED:
            self.proof = "stated"
            if len(re.findall(r"\bwith\b", rest)) > len(re.findall(r"\bmatch\b", rest)):
                yield f"`{sentence[:40]}` states more than one thing"
        elif word in DEFINED:
            if ":=" not in rest:
                yield f"`{sentence[:40]}` has no body"
        elif word == "Section":
            self.sections.append(rest)
        elif word == "End" and self.sections and rest == self.sections[-1]:
            self.sections.pop()
        elif word in (*LOCAL, "Notation"):
            yield from self._local(sentence)
        elif word == "From":
            yield from self._requirement(sentence)
        elif sentence.startswith("Local Notation ") and not OTHERS.fullmatch(sentence):
            yield NO_ABBREVIATION.format(sentence[:40])
        elif not OTHERS.fullmatch(sentence):
            yield f"the command `{sentence[:40]}` is not on the list of what a file may say"

    def _local(self, sentence: str) -> Iterator[str]:
        word, _, rest = sentence.partition(" ")
        if word == "Notation" and not ABBREVIATION.fullmatch(sentence):
            yield NO_ABBREVIATION.format(sentence[:40])
        elif not self.sections:
            yield f"`{sentence[:40]}` stands outside of a section: {OUTSIDE.get(word, 'there it is an axiom')}"
        if word == "Let" and ":=" not in rest:
            yield f"`{sentence[:40]}` has no body"

    def _requirement(self, sentence: str) -> Iterator[str]:
        found = REQUIRE.fullmatch(sentence)
        if not found:
            yield f"`{sentence[:40]}`: write From LIBRARY Require Import NAMES; libraries: Onebit {' '.join(LIBRARIES)}"
        elif found[1] == "Onebit":
            for name in found[2].split():
                if not self.path.with_name(f"{name}.v").is_file():
                    yield f"it requires {name}, and there is no {name}.v beside it"


def definitions(path: Path) -> str:
    """Digest of what gives the words of a file their meaning: all its commands up to the last definition.

    Of lemmas the name only, which could hide another one; Coq checks the rest of them.
    """
    commands, proof, last = list[str](), False, 0
    for sentence in sentences(path.read_text("utf-8")):
        word = sentence.partition(" ")[0]
        if proof:
            proof = sentence not in PROOF_ENDS
            continue
        proof = word in PROVED
        commands.append(" ".join(re.findall(r"[\w']+", sentence)[:2]) if proof else sentence)
        last = len(commands) if word in DEFINED else last
    return hashlib.sha256("\0".join(commands[:last]).encode()).hexdigest()
