"""Load a class from the file that was named, and from nowhere else; read the file of expected failures."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

from verification import neighbours, originals
from verification.raised import of_the_user, said
from verification.search.clauses import CLAUSES


def split(target: str) -> tuple[str, str]:
    """File and class that ``FILE.py:Class`` names.

    Raises:
        ValueError: it is of another form, or there is no such file; the message is one sentence.
    """
    text, colon, name = target.rpartition(":")
    if not colon or not name.isidentifier() or not text.endswith(".py"):
        raise ValueError(f"what to check is given as FILE.py:ClassName, got {target!r}")
    if not Path(text).is_file():
        raise ValueError(f"there is no file {text}")
    return text, name


def load_class(target: str) -> type:
    """The class that ``FILE.py:Class`` names. The file is run, and it may import the modules beside it.

    Raises:
        ValueError: there is no such file or class, or the file raises; the message is one sentence.
    """
    text, name = split(target)
    path = Path(text)
    module_name = f"_onebit_under_test_{path.stem}"
    spec = importlib.util.spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None:
        raise ValueError(f"{text} can't be loaded as Python")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module  # dataclasses look their module up there
    neighbours.may_be_imported(str(path.resolve().parent))
    originals.note()
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        if of_the_user(error):
            raise
        raise ValueError(f"{text} raised {type(error).__name__} when it was loaded: {said(error)}") from None
    found = vars(module).get(name)
    if not isinstance(found, type):
        own = [one for one in vars(module).values() if isinstance(one, type) and one.__module__ == module_name]
        classes = ", ".join(sorted(one.__name__ for one in own)) or "none"
        what = f"{text} has no class {name}" if found is None else f"{name} in {text} is a {type(found).__name__}"
        raise ValueError(f"{what}; the classes there are: {classes}")
    return found


def load_expected_failures(path: Path) -> dict[str, str]:
    """Clause id -> reason, from lines such as ``optimizer.resume  # checkpoints come next year``.

    Raises:
        ValueError: the file can't be read, or a line names no clause, or gives no reason.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"the file of expected failures, {path}, can't be read: {error}") from None
    known, expected = {clause.id for clause in CLAUSES}, {}
    for number, line in enumerate(lines, start=1):
        name, _, reason = line.partition("#")
        if not (name := name.strip()):
            continue
        if name not in known:
            raise ValueError(f"{path}, line {number}: there is no clause {name!r}")
        if not (reason := reason.strip()):
            raise ValueError(f"{path}, line {number}: say why {name} must fail: {name}  # REASON")
        expected[name] = reason
    return expected
