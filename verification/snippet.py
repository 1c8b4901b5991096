"""A failing case as Python that can be pasted: it builds the class from the user's file and shows the failure."""

from __future__ import annotations

import numpy as np

from verification.cases import Case, CollectiveCase
from verification.protocol import Array


def literal(array: Array) -> str:
    """``array`` as an expression that gives the same bits."""
    name = f"np.{array.dtype}"
    values = array.ravel()
    if array.size > 4 and all(v.tobytes() == values[0].tobytes() for v in values):
        return f"np.full({array.shape}, {_number(values[0])}, {name})"
    if array.size > 4096:
        return f"np.zeros({array.shape}, {name})  # {array.size} numbers, left out here: the JSON report has the seed"
    flat = "[" + ", ".join(_number(v) for v in values) + "]"
    return f"np.array({flat}, {name})" + ("" if array.ndim == 1 else f".reshape{array.shape}")


def _number(value: np.floating) -> str:
    if not np.isfinite(value):
        return f"float('{value}')"
    short = str(value)  # NumPy prints the shortest text that reads back as the same float32 or float64
    return short.removesuffix(".0") if short not in ("0.0", "-0.0") else short[:-1]


def snippet(case: Case, source: str, class_name: str, about: str = "") -> str:
    """Lines to paste; ``source`` is the path that the class was loaded from, ``about`` what to look for."""
    lines = [
        *([f"# {about}"] if about else []),
        "import runpy",
        "import numpy as np",
        "from verification.protocol import Hyper",
        f"impl = runpy.run_path({source!r})[{class_name!r}]()",
    ]
    if isinstance(case, CollectiveCase):
        for inputs in case.rounds:
            names = ("buffers_ND", "worker_errors_ND", "server_error_D")
            lines += [f"{name} = {literal(array)}" for name, array in zip(names, inputs, strict=True)]
            lines.append("print(impl.allreduce(buffers_ND, worker_errors_ND, server_error_D))")
        return "\n".join(lines)
    lines.append(f"impl.start({literal(case.params_D)}, {case.n_workers}, {case.hyper})")
    n, taken = case.n_workers, 0
    for operation in case.operations:
        if operation == "step":
            rows = [i if i < case.n_workers else 0 for i in range(n)]
            lines.append(f"impl.step({literal(case.grads_TND[taken][rows])})")
            taken += 1
        else:
            n = int(operation.split()[1]) if operation.startswith("resize") else n
            lines += [
                "data = impl.save()",
                f"impl = runpy.run_path({source!r})[{class_name!r}]()",
                f"impl.start({literal(np.zeros_like(case.params_D))}, {n}, {case.hyper})",
                f"impl.load(data, {n})",
            ]
        lines.append("print(impl.snapshot())")
    return "\n".join(lines)
