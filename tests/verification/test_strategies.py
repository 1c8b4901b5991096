"""Hypothesis strategies over the cases of the search: correct classes hold, a bug is found and its case is small."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, find, given, settings

from verification.adapters.reference import ReferenceCollective, ReferenceOptimizer
from verification.strategies import cases, findings

ROOT = Path(__file__).parents[2]
FEW = settings(max_examples=25, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck))
MANY = settings(FEW, max_examples=500)


@pytest.mark.parametrize("under_test", [ReferenceCollective, ReferenceOptimizer])
def test_a_correct_class_holds(under_test):
    @FEW
    @given(cases(under_test, largest=40))
    def the_laws(case):
        assert findings(under_test, case) == []

    the_laws()


SMALLEST = """
from hypothesis import HealthCheck, find, settings
from verification.mutants.signs import ZeroIsMinus
from verification.strategies import cases, findings

many = settings(
    max_examples=500, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
case = find(cases(ZeroIsMinus, "collective", largest=40), lambda case: bool(findings(ZeroIsMinus, case)), settings=many)
print({one.clause for one in findings(ZeroIsMinus, case)} >= {"worker_bits"})
print([buffers_ND.shape for buffers_ND, *_ in case.calls])
"""


def test_a_bug_is_found_and_its_case_is_small():
    """In a process of its own: Hypothesis also draws numbers that stand in modules, so it matters which are loaded."""
    done = subprocess.run([sys.executable, "-c", SMALLEST], cwd=ROOT, capture_output=True, text=True, check=True)
    # of one element the zero would have the scale 0, and its sign could not be seen
    assert done.stdout.split("\n") == ["True", "[(1, 2)]", ""]


def test_the_adapter_and_the_test_of_the_page_run(monkeypatch, tmp_path):
    page = (ROOT / "docs" / "verification.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    code = [block for block in blocks if "class OnDevice" in block or "def test_the_laws" in block]
    assert len(code) == 2
    (tmp_path / "page_of_the_docs.py").write_text("\n".join(code))
    monkeypatch.syspath_prepend(str(tmp_path))
    page_module = importlib.import_module("page_of_the_docs")
    FEW(page_module.test_the_laws)()

    class Strict(page_module.OnDevice):
        def allreduce(self, *arrays):
            output_D, errors_ND, error_D = super().allreduce(*arrays)
            return output_D, errors_ND * 0.5, error_D

    assert find(cases(Strict, largest=64), lambda case: bool(findings(Strict, case)), settings=MANY)
