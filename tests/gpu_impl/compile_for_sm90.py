"""Compiles the kernels for an H100/H200 (sm_90), which needs no GPU, and prints what is in the PTX as JSON.

A program of its own: Triton decides when it is imported whether it compiles or interprets.
"""

from __future__ import annotations

import json
import re
import sys
from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, make_backend
from triton.runtime.jit import create_function_from_signature

from gpu_impl.benchmarks import triton_v1 as v1
from gpu_impl.kernels.layout import Layout
from gpu_impl.kernels.triton_.adam import adam
from gpu_impl.kernels.triton_.apply import apply
from gpu_impl.kernels.triton_.block_scales import compress_blocks, server_blocks, shape_for
from gpu_impl.kernels.triton_.compress import compress
from gpu_impl.kernels.triton_.elements import LAUNCH, ROWS, TILES, TOGETHER
from gpu_impl.kernels.triton_.finish_scale import finish_scale
from gpu_impl.kernels.triton_.freeze import freeze, variance_sums
from gpu_impl.kernels.triton_.gradient_norm import add_up, square_sums
from gpu_impl.kernels.triton_.lamb import lamb_form, lamb_moments, lamb_move, lamb_refresh
from gpu_impl.kernels.triton_.pack import pack, unpack
from gpu_impl.kernels.triton_.server import server
from gpu_impl.kernels.triton_.walk import walk

FLOATS = ("u", "u_scale", "step", "w", "w_scale", "parameters", "preconditioner", "momentum", "variance", "floor")
TYPES = {
    **dict.fromkeys(
        (*FLOATS, "scale", "rows", "values", "shared_scales", "received_scales", "message_scales", "reply_scales"),
        "*fp32",
    ),
    **dict.fromkeys(("shared", "message", "received", "reply", "ignored_partials"), "*i32"),
    **dict.fromkeys(("partials", "total"), "*fp64"),
    **dict.fromkeys(("counts", "live", "ignored"), "*i64"),
    **dict.fromkeys(("beta", "complement", "beta1", "complement1", "beta2", "complement2"), "fp32"),
    **dict.fromkeys(("eps", "correction", "frozen_correction", "factor"), "fp32"),
    **dict.fromkeys(("chunk8", "row_words", "n_workers", "n_partials", "n_counts", "row_floats", "n_rows", "n"), "i32"),
    **dict.fromkeys(("n_scales", "stride_units"), "i32"),
    **dict.fromkeys(("chunk", "row_bytes", "row_stride", "stride_words", "stride_floats"), "i32"),
    **dict.fromkeys(("met", "walked", "accumulated", "trust", "buffer", "fresh"), "*fp32"),
    "wide_eps": "*fp64",
    "tasks": "*i64",
    "bits": "*u8",
    "dim": "i64",
    "copy": "*bf16",
}
BYTES = dict.fromkeys(("shared", "message", "received", "reply"), "*u8")
TILED = {"ROWS": ROWS, "TILES": TILES}
SUM = {"TOGETHER": TOGETHER, "EXACT": False}
BLOCKS = {"BLOCK": 1024}
LAYERS = {"TILE": 1024, "ALIGNED": True}
FULL = {"FIRST": False, "KEEP": False, "L1": False}
PLAIN = {"preconditioner": None}
"""compress without P, which is the momentum form; the others have it."""
APPLY = {**TILED, "COPY": False, "copy": None, "SCALE_BLOCK": 0, "live_bytes": None}


def blocks(scale_block: int) -> dict[str, int]:
    """The shape of a tile with block scales."""
    return shape_for(Layout(2**20, 1, scale_block))[2]


def units(scale_block: int) -> dict[str, str]:
    """What messages are seen as."""
    kind = "*u8" if shape_for(Layout(2**20, 1, scale_block))[1] == torch.uint8 else "*i32"
    return dict.fromkeys(("shared", "message", "received", "reply"), kind)


CASES = [
    (compress, {"grad": "*fp32"}, {**TILED, **FULL, **PLAIN}),
    (compress, {"grad": "*fp32"}, {**TILED, **FULL, **PLAIN, "KEEP": True}),
    (compress, {"grad": "*bf16"}, {**TILED, **FULL, **PLAIN}),
    (compress, {"grad": "*fp16"}, {**TILED, **PLAIN, "FIRST": True, "KEEP": False, "L1": True}),
    (compress, {"grad": "*fp32"}, {**TILED, **FULL}),
    (compress_blocks, {"grad": "*fp32", **units(64)}, {**blocks(64), **FULL, **PLAIN}),
    (compress_blocks, {"grad": "*bf16", **units(4096)}, {**blocks(4096), **FULL, "KEEP": False}),
    (compress_blocks, {"grad": "*fp32", **units(40)}, {**blocks(40), **FULL, **PLAIN, "KEEP": True}),
    (server_blocks, units(64), {**blocks(64), **SUM, "L1": False}),
    (server_blocks, units(40), {**blocks(40), **SUM, "L1": True}),
    (server, {}, {**TILED, **SUM, "L1": False}),
    (server, {}, {**TILED, **SUM, "EXACT": True, "L1": False}),
    (apply, {}, APPLY),
    (apply, {}, {**TILED, "COPY": True, "SCALE_BLOCK": 0, "live_bytes": None}),
    (apply, {"parameters": "*bf16"}, APPLY),
    (apply, {}, {**APPLY, "SCALE_BLOCK": 64}),
    (apply, {}, {**APPLY, "SCALE_BLOCK": 40}),
    (apply, {}, {**APPLY, **PLAIN}),
    (apply, {"live_bytes": "*u8"}, {**TILED, **PLAIN, "COPY": False, "copy": None, "SCALE_BLOCK": 0}),
    (adam, {"grad": "*fp32"}, {**BLOCKS, "COPY": False, "copy": None}),
    (walk, {"grad": "*fp32", "counts": "*i32"}, {**BLOCKS, "COPY": False, "copy": None}),
    (walk, {"grad": "*bf16", "counts": "*i32"}, {**BLOCKS, "COPY": True}),
    (lamb_moments, {"grad": "*fp32"}, {**LAYERS, "COPY": False, "copy": None}),
    (lamb_move, {}, {**LAYERS, "COPY": False, "FROZEN": False, "copy": None}),
    (lamb_move, {}, {**LAYERS, "COPY": False, "FROZEN": True, "copy": None}),
    (lamb_form, {"grad": "*fp32", "counts": "*i32", "scale": "*fp32"}, LAYERS),
    (lamb_refresh, {"scale": "*fp32"}, LAYERS),
    (lamb_refresh, {"scale": "*fp32"}, {**LAYERS, "ALIGNED": False}),
    (finish_scale, {}, {**BLOCKS, "L1": False, "COUNT_IGNORED": True}),
    (finish_scale, {}, {**BLOCKS, "L1": True, "COUNT_IGNORED": False, "ignored": None, "ignored_partials": None}),
    (variance_sums, {}, BLOCKS),
    (freeze, {}, {**BLOCKS, "UPDATE": False}),
    (freeze, {}, {**BLOCKS, "UPDATE": True}),
    (square_sums, {"grad": "*fp16"}, BLOCKS),
    (add_up, {}, BLOCKS),
    (pack, {}, {"BLOCK": 256}),
    (unpack, {}, {"BLOCK": 256}),
    (v1.compress_v1, {"grad": "*fp32", **BYTES}, {**BLOCKS, **FULL}),
    (v1.server_v1, BYTES, {**BLOCKS, "L1": False}),
    (v1.apply_v1, BYTES, {**BLOCKS, "COPY": False, "copy": None}),
]
WHOLE = ("grad", "preconditioner", "u", "w", "parameters", "momentum", "variance", "fresh", "buffer")
WIDE = (compress, server, apply, adam, lamb_moments, lamb_move, lamb_form, lamb_refresh)
"""Kernels that read 16 bytes at a time, and the buffers that they read so."""
TARGET = GPUTarget("cuda", 90, 32)
DTYPES = {
    "*fp64": torch.float64,
    "*fp32": torch.float32,
    "*fp16": torch.float16,
    "*bf16": torch.bfloat16,
    "*i64": torch.int64,
    "*i32": torch.int32,
    "*u8": torch.uint8,
}
PATTERNS = {
    "wide_loads": r"ld\.global\S*\.v4",
    "fused": r"fma\.rn\.(f32|f64)",
    "inexact": r"div\.full|div\.approx|sqrt\.approx|rcp\.approx|\.ftz",
    "atomics": r"\batom\.|\bred\.",
    "local_memory": r"\.local",
}


def misread(kernel: Any, types: dict[str, str]) -> int:
    """Arguments that Triton's launcher, which has variables of its own, takes for another type than was given."""
    binder = create_function_from_signature(kernel.signature, kernel.params, make_backend(TARGET))
    tensors = {name: torch.zeros(16, dtype=DTYPES[kind]) for name, kind in types.items() if kind in DTYPES}
    numbers = {"i32": 3, "i64": 2**40, "fp32": 0.5}
    given = {name: tensors[name] if name in tensors else numbers.get(kind) for name, kind in types.items()}
    try:
        _, found, _ = binder(**given)
    except TypeError:
        return len(types)
    read = dict(zip(types, (kind for kind, _ in found), strict=True))
    return sum(read[name] != kind for name, kind in types.items() if kind != "constexpr")


def main() -> None:
    """Print one record a case."""
    records = []
    for kernel, changes, constants in CASES:
        types = TYPES | changes
        signature = {name: "constexpr" if name in constants else types[name] for name in kernel.arg_names}
        places = {name: (i,) for i, name in enumerate(kernel.arg_names)}
        source = ASTSource(
            fn=kernel,
            signature=signature,
            constexprs={places[name]: value for name, value in constants.items()},
            attrs={places[name]: [["tt.divisibility", 16]] for name in signature if signature[name].startswith("*")},
        )
        ptx = triton.compile(source, target=TARGET, options=LAUNCH).asm["ptx"]
        found = {name: len(re.findall(pattern, ptx)) for name, pattern in PATTERNS.items()}
        is_wide = kernel in WIDE and constants.get("ALIGNED", True)
        streams = sum(signature.get(name) == "*fp32" for name in WHOLE) if is_wide else 0
        records.append({"kernel": kernel.__name__, "streams": streams, "misread": misread(kernel, signature), **found})
    json.dump(records, sys.stdout)


if __name__ == "__main__":
    main()
