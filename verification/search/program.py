"""A failing case as a program to paste and run: it loads the class from the user's file, and asserts what is broken.

A program that asserts plain claims (``relation/claims.py``) is tried first. Where it takes more than that (inputs that
lie in memory in another way, a run beside another one), the program makes the case, and asserts that nothing is found.
"""

from __future__ import annotations

import builtins
import contextlib
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from verification.raised import of_the_user
from verification.relation.finding import Finding
from verification.search.cases import Case, CollectiveCase, OptimizerCase, OtherRun, kind, workers_after
from verification.search.literals import hyper_text, literal

EVENTS = ("nothing", "snapshots", "used", "save", "reload", "reload used", "roll back", "resize used")
"""What a program can add to a plain run, to show that it ends elsewhere."""

INDENT = "    "


@dataclass(frozen=True)
class Program:
    """A program in parts: what it imports, the class under test by its name, and what is done with it."""

    imports: tuple[str, ...]
    class_name: str
    body: tuple[str, ...]

    def text(self, source: str, *loaded: str) -> str:
        """All of it; ``source`` is the path that the class is loaded from, ``loaded`` are more lines after that."""
        loading = f"{self.class_name} = runpy.run_path({source!r})[{self.class_name!r}]"
        imports = ["import runpy", *(line for line in self.imports if line.startswith("import "))]
        ours = [line for line in self.imports if not line.startswith("import ")]
        return "\n".join([*imports, *([""] if ours else []), *ours, "", loading, *loaded, "", *self.body])

    def raises(self, under_test: type) -> BaseException | None:
        """What it raises with this class in place of the one from the file."""
        code = "\n".join([*self.imports, *self.body])
        try:
            with contextlib.redirect_stdout(io.StringIO()), np.errstate(all="ignore"):
                builtins.exec(compile(code, "<counterexample>", "exec"), {self.class_name: under_test})
        except BaseException as error:
            if of_the_user(error):
                raise
            return error
        return None


def programs(case: Case, findings: Sequence[Finding], class_name: str) -> Iterator[Program]:
    """Programs that should show these findings, the plainest first; the last one shows whatever is found."""
    place, event = findings[0].place, findings[0].event
    here = [one for one in findings if (one.place, one.event) == (place, event)]
    notes = [f"# {one.law}: {one.message}" for one in here]
    if all(one.clause == "raises" for one in here):
        yield _program(case, class_name, [*notes, *_everything(case, class_name)])
    elif all(one.claim for one in here):
        asserts = [line for note, one in zip(notes, here, strict=True) for line in (note, f"assert {one.claim}")]
        if isinstance(case, CollectiveCase):
            if place is not None:
                yield _program(case, class_name, [*_calls(case, class_name, place), *asserts])
        elif place is not None:
            yield _program(case, class_name, [*_transition(case, class_name, place, asserts), *asserts])
        elif event in EVENTS:
            yield _program(case, class_name, [*_twice(case, class_name, event), *asserts])
    yield _program(case, class_name, [*notes, *_found(case, class_name)], findings=True)


def _program(case: Case, class_name: str, body: Sequence[str], *, findings: bool = False) -> Program:
    """The program with the imports that its lines need."""
    text = "\n".join(body)
    imports = [f"import {name}" for name in ("base64", "zlib") if f"{name}." in text]
    imports.append("import numpy as np")
    if isinstance(case, OptimizerCase):
        imports.append(f"from verification.protocol import {type(case.hyper).__name__}")
    if findings:
        names = [type(case).__name__, *["OtherRun"] * ("OtherRun(" in text)]
        imports.append(f"from verification.search.cases import {', '.join(names)}")
        imports.append("from verification.search.runs import findings")
    return Program(tuple(imports), class_name, tuple(body))


def _calls(case: CollectiveCase, class_name: str, place: int) -> list[str]:
    """The calls up to this one; only the last one's outputs are kept."""
    lines = [f"mine = {class_name}()"]
    for at, inputs in enumerate(case.calls[: place + 1]):
        arguments = "".join(f"    {literal(array)},\n" for array in inputs)
        outputs = "output_D, new_worker_errors_ND, new_server_error_D = " if at == place else ""
        lines.append(f"{outputs}mine.allreduce(  # buffers, worker errors, server error\n{arguments})")
    return lines


def _started(case: OptimizerCase, class_name: str, used: str = "") -> list[str]:
    """The start; of a used instance after its other run, where the condition ``used`` holds (empty: always)."""
    lines = [f"hyper = {hyper_text(case.hyper)}", f"mine = {class_name}()"]
    if case.begin == "used" and case.other is not None and case.other.hyper is not None:
        earlier = [f"earlier = {hyper_text(case.other.hyper)}", *_done(case.other, case.other.n_workers, "earlier")]
        lines += [f"if {used}:", *(INDENT + line for line in earlier)] if used else earlier
    return [*lines, f"mine.start({literal(case.params_D)}, {case.n_workers}, hyper)"]


def _done(run: OtherRun, n: int, hyper: str) -> list[str]:
    """Another run on an instance, looked at when it has started and when it ends."""
    steps = [[f"mine.step({literal(grads_ND[:n])})"] for grads_ND in run.grads_TND]
    start = f"mine.start({literal(run.params_D)}, {n}, {hyper})"
    return [start, "mine.snapshot()", *_folded(steps), *["mine.snapshot()"] * bool(steps)]


def _operations(case: OptimizerCase, class_name: str, stop: int) -> list[list[str]]:
    """The lines of each operation of the program, before ``stop``."""
    found, n, taken = [], case.n_workers, 0
    for operation in case.program[:stop]:
        if operation == "step":
            found.append([f"mine.step({literal(case.grads_TND[taken, :n])})"])
            taken += 1
            continue
        n = workers_after(operation, n)
        found.append(_checkpoint(case, class_name, operation, n))
    return found


def _checkpoint(case: OptimizerCase, class_name: str, operation: str, n: int) -> list[str]:
    """The lines of an operation that saves, and mostly loads."""
    lines, event = ["data = mine.save()"], kind(operation)
    if event == "save":
        return lines
    if event == "roll back":
        lines += [f"mine.step(np.ones(({n}, {case.dim}), np.{case.params_D.dtype}))", "mine.snapshot()"]
    elif event.endswith("used") and case.target is not None:
        target = case.target
        lines += [f"mine = {class_name}()", *_done(target, n if event == "reload used" else target.n_workers, "hyper")]
    else:
        lines += [f"mine = {class_name}()", f"mine.start({literal(np.zeros_like(case.params_D))}, {n}, hyper)"]
    return [*lines, f"mine.load(data, {n})"]


def _folded(operations: Sequence[Sequence[str]]) -> list[str]:
    """All lines; equal operations one after another as a loop."""
    lines: list[str] = []
    at = 0
    while at < len(operations):
        times = 1
        while at + times < len(operations) and operations[at + times] == operations[at]:
            times += 1
        if times > 2:
            lines += [f"for _ in range({times}):", *(INDENT + line for line in operations[at])]
        else:
            lines += [line for _ in range(times) for line in operations[at]]
        at += times
    return lines


def _transition(case: OptimizerCase, class_name: str, place: int, asserts: Sequence[str]) -> list[str]:
    """The run up to an operation, and the state before it where a claim speaks of it, and after it."""
    operations = _operations(case, class_name, place + 1)
    before = ["before = mine.snapshot()"] * any("before." in line for line in asserts)
    lines = [*_started(case, class_name), *_folded(operations[:-1]), *before, *operations[-1]]
    return [*lines, "after = mine.snapshot()"]


def _twice(case: OptimizerCase, class_name: str, event: str) -> list[str]:
    """The plain run and the one with this event in it."""
    lines, n = [*_started(replace(case, begin=case.begin if event == "used" else "new"), class_name, "disturbed")], 0
    for operation, its_lines in zip(case.program, _operations(case, class_name, len(case.program)), strict=True):
        n = workers_after(operation, n)
        plain = _checkpoint(case, class_name, operation.removesuffix(" used"), n) if n else []
        if operation == "step" or kind(operation) == "resize":
            lines += its_lines
        elif operation.startswith("resize") and event != "resize used":
            lines += plain
        elif operation.startswith("resize"):
            lines += ["if disturbed:", *(INDENT + line for line in its_lines)]
            lines += ["else:", *(INDENT + line for line in plain)]
        elif kind(operation) == event:
            lines += ["if disturbed:", *(INDENT + line for line in its_lines)]
        if event == "snapshots":
            lines += ["if disturbed:", f"{INDENT}mine.snapshot()"]
    lines.append("return mine.snapshot()")
    other = "False" if event == "nothing" else "True"
    return ["def run(disturbed):", *(INDENT + line for line in lines), "", f"plain, end = run(False), run({other})"]


def _everything(case: Case, class_name: str) -> list[str]:
    """All of a case, as the class is called: somewhere it raises."""
    if isinstance(case, CollectiveCase):
        return _calls(case, class_name, len(case.calls) - 1)
    operations = _operations(case, class_name, len(case.program))
    looks = [[*lines, "mine.snapshot()"] for lines in operations]
    return [*_started(case, class_name), "mine.snapshot()", *_folded(looks)]


def _found(case: Case, class_name: str) -> list[str]:
    """The case as an object, on which nothing may be found."""
    lines = []
    if isinstance(case, CollectiveCase):
        for at, inputs in enumerate(case.calls, start=1):
            lines.append(f"call_{at} = (\n" + "".join(f"    {literal(array)},\n" for array in inputs) + ")")
        calls = "".join(f"call_{at}, " for at in range(1, len(case.calls) + 1)).rstrip()
        settings = {"layout": "contiguous", "factor": 1.0, "exact": False}
        about = [f"({calls})"]
    else:
        lines.append(f"params_D = {literal(case.params_D)}")
        steps = "".join(f"    {literal(grads_ND)},\n" for grads_ND in case.grads_TND)
        lines.append(f"grads_TND = np.stack([\n{steps}])")
        settings = {"unseen": frozenset(), "begin": "new", "layout": "contiguous", "exact": False}
        about = ["params_D", "grads_TND", str(case.n_workers), hyper_text(case.hyper), repr(case.program)]
        for name in ("other", "target"):
            if (run := getattr(case, name)) is not None:
                lines.append(f"{name} = {_other_run(run)}")
                about.append(f"{name}={name}")
    about += [f"{name}={getattr(case, name)!r}" for name, plain in settings.items() if getattr(case, name) != plain]
    lines.append(f"case = {type(case).__name__}({', '.join(about)})")
    return [*lines, f"found = findings({class_name}, case)", "assert not found, found"]


def _other_run(run: OtherRun) -> str:
    """Another run as an expression."""
    grads = f"np.stack([{', '.join(literal(grads_ND) for grads_ND in run.grads_TND)}])"
    if not len(run.grads_TND):
        grads = f"np.zeros({run.grads_TND.shape}, np.{run.grads_TND.dtype})"
    hyper = "None" if run.hyper is None else hyper_text(run.hyper)
    return f"OtherRun({literal(run.params_D)}, {grads}, {run.n_workers}, {hyper})"
