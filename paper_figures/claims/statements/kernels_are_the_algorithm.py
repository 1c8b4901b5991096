"""P26: the fused kernels compute the same algorithm as the page of NumPy."""

from __future__ import annotations

from paper_figures.claims.claim import Check, Claim, Facts
from paper_figures.claims.facts import broken, proved

REPORTS = {
    "verify-reference": "NumPy reference",
    "verify-reference-collective": "NumPy all-reduce",
    "verify-kernels-cpu": "C kernels",
    "verify-kernels-torch": "torch kernels",
    "verify-optimizer": "distributed optimizer",
}
THEOREMS = ("T8a", "T11b", "T11d", "T11e", "T11h", "T11n")
PROPERTIES = (
    *("optimizer.apply", "optimizer.conservation"),
    *("optimizer.worker_one_bit", "optimizer.worker_bits", "optimizer.worker_scale"),
    *("optimizer.one_bit", "optimizer.server_bits", "optimizer.server_scale"),
)


def measure(facts: Facts) -> list[Check]:
    """Broken properties of each implementation; none is allowed."""
    checks = []
    for report, name in REPORTS.items():
        failing, checked = broken(facts, report)
        checks.append(
            Check(
                setting=name, value=len(failing), unit=f"of {checked} properties broken",
                test="exact: onebit verify, tolerances proved (T11)", bound=0,
                exact=not failing and proved(facts, *THEOREMS), required=True,
            )
        )  # fmt: skip
    return checks


CLAIM = Claim(
    id="P26",
    title="Kernels compute the algorithm",
    statement=(
        "Reference and fused kernels, which store neither errors nor momenta as such, obey every law at every element "
        "of every case, within proved rounding bounds."
    ),
    where="this project",
    published="",
    source="ours",
    conditions="On the CPU. Triton kernels run the same checks in its interpreter, and on a device by make gpu-check.",
    others=("proofs", *REPORTS),
    theorems=THEOREMS,
    laws=("L1", "L4", "L5", "L6", "L8"),
    properties=PROPERTIES,
    pair=None,
    measure=measure,
)
