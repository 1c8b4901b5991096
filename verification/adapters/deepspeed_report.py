"""Write the conformance report on DeepSpeed 0.19.6: ``python -m verification.adapters.deepspeed_report FOLDER``.

Needs ``$ONEBIT_DEEPSPEED_PYTHON``, see ``deepspeed_adam``. Everything in the report is found by the properties.
"""

from __future__ import annotations

import sys
from pathlib import Path

from reference.files import write_atomically
from verification.adapters.deepspeed_adam import (
    DeepSpeedCollective,
    DeepSpeedOptimizer,
    DeepSpeedOptimizerAfterItsFirstStep,
    Ranks,
)
from verification.driver import Driver
from verification.registry import all_properties
from verification.report import as_dict, to_json, to_markdown
from verification.runner import run_property

SOURCE = "verification/adapters/deepspeed_adam.py"

PARTS = (
    (DeepSpeedCollective, "The compressed all-reduce"),
    (DeepSpeedOptimizer, "The optimizer, as it is"),
    (DeepSpeedOptimizerAfterItsFirstStep, "The optimizer, after a first step that it drops"),
)

INTRODUCTION = """# DeepSpeed 0.19.6: `OnebitAdam`

Found by the properties of `verification`, on the CPU with two and four gloo processes; written by
`python -m verification.adapters.deepspeed_report`. Each failure is the simplest case that was found, as code to paste
(`ONEBIT_DEEPSPEED_PYTHON` names a Python that has `deepspeed==0.19.6`). The wheel's sign packer is compiled for XPU
only; the adapter does the same operations in NumPy (`not signbit(x)`, highest bit first). A `()`-shaped scale is
reshaped to `(1,)`, for gloo insists on equal shapes where NCCL does not. The adapter stands in for the engine in one
thing: it averages gradients over ranks while the optimizer leaves `enable_backward_allreduce` on.

The third part gives the optimizer one step with zero gradients first. It drops its first step, and whatever comes later
would otherwise be hidden behind that.

"""


def main(folder: Path) -> None:
    """Run all properties on all parts and write the Markdown and the JSON report."""
    text, everything = [INTRODUCTION], []
    for n_workers in (2, 4):
        Ranks.of(n_workers).call("padded", *[(1,)] * n_workers)  # wait until they run
    for under_test, title in PARTS:
        driver, rows = Driver(under_test), []
        for prop in all_properties():
            if prop.level in driver.levels:
                verdict = run_property(prop, driver, max_examples=150, seconds=20.0)
                rows.append(
                    {**as_dict(verdict, SOURCE, under_test.__name__), "part": title, "class": under_test.__name__}
                )
        text += [f"## {title}\n\n", to_markdown(rows), "\n"]
        everything += rows
    write_atomically(folder / "deepspeed-0.19.6.md", "".join(text).rstrip() + "\n")
    write_atomically(
        folder / "deepspeed-0.19.6.json", to_json(everything, package="deepspeed", version="0.19.6") + "\n"
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
