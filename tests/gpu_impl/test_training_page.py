"""The code of docs/training.md runs, as one program on four processes."""

from __future__ import annotations

import os
import re
from pathlib import Path

from optimizer_support import pool

PAGE = Path(__file__).parents[2] / "docs" / "training.md"


def run(code, folder):
    os.chdir(folder)
    names = {}
    exec(code, names)
    return names["optimizer"].stats().phase, names["extra"], names["sharded_optimizer"].steps


def test_the_code_of_the_page_runs(tmp_path):
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    assert len(blocks) >= 6
    code = "\n".join(blocks).replace("print(", "str(")
    assert pool(4).call(run, code, str(tmp_path)) == [("compressed", {"step": 40}, 1)] * 4
