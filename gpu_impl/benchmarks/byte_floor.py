"""The bytes that each kernel must move an element of D, counted. Times are compared with these.

They count every array read and written once. The partial norms (8 bytes a block of 16,384 elements) and the scales are
left out where they are below a thousandth of a byte an element; scales of blocks [C13] are counted.
"""

from __future__ import annotations

from gpu_impl.benchmarks.form import Form

BITS = 1 / 8
STATE = 4  # float32
SCALE = 4
PUBLISHED = Form()


def byte_floor(
    kernel: str,
    n_workers: int,
    *,
    grad_bytes: int = 4,
    param_bytes: int = 4,
    form: Form = PUBLISHED,
) -> float:
    """Bytes an element of D of one worker's share of a kernel.

    Args:
        kernel: copy, scale_in_place, compress, server, apply, step, adam, gradient_norm, walk, lamb_moments,
            lamb_move, lamb_form or lamb_refresh. "step" is compress, server and apply; server works on D/N elements.
        n_workers: N.
        grad_bytes: 2 or 4.
        param_bytes: 2 or 4.
        form: of the algorithm.

    Raises:
        ValueError: unknown kernel.
    """
    scale = SCALE / form.scale_block if form.scale_block else 0.0  # of one message, an element
    compress = grad_bytes + 2 * STATE + 2 * BITS + 4 * scale  # R g, u, s, m-bar bits, S; W u, s, bits and s
    server = BITS + scale + (2 * STATE + BITS + 3 * scale) / n_workers  # on D/N: R N bits and s, w, S; W w, S, bits, S
    apply = BITS + scale + 2 * param_bytes  # R m-bar bits, S, x; W x
    if form.in_updates:
        compress += form.dtype.itemsize  # R P
    else:
        apply += form.dtype.itemsize
    floors = {
        "copy": 2 * STATE,
        "scale_in_place": 2 * STATE,
        "compress": compress,
        "server": server,
        "apply": apply,
        "step": compress + server + apply,
        "adam": grad_bytes + 2 * param_bytes + 4 * STATE,  # R g, x, m, v; W x, m, v
        "gradient_norm": float(grad_bytes),
        "walk": grad_bytes + 9 * STATE,  # R g, m, u, v, x, x - x_i; W m, u, x_i, x - x_i
        "lamb_moments": grad_bytes + param_bytes + 4 * STATE,  # R g, m, v, x; W m, v
        "lamb_move": 2 * param_bytes + 2 * STATE,  # R m, v, x; W x
        "lamb_form": grad_bytes + 3 * STATE,  # R g, m-bar, u; W buffer
        "lamb_refresh": 7 * STATE,  # R buffer, u, m-bar, v', v; W m-bar, v'
    }
    if kernel not in floors:
        raise ValueError(f"kernel must be one of {', '.join(floors)}; got {kernel!r}")
    return float(floors[kernel])
