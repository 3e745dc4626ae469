"""LLVM IR of a kernel that computes the parts of a linear system and then solves the system for many columns.

The columns are the lanes of vectors, and the numbers of the factor are the same in all lanes.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate

import casadi as ca

from sim_core.kernels import emit, sincos
from sim_core.kernels.pairing import Twins
from sim_core.kernels.program import LIFTED_VALUES, program_of


def solving_module(
    symbol: str,
    parts: ca.Function,
    columns: ca.Function,
    widths: list[int],
    twins: Mapping[str, Twins] | None = None,
    linkage: str = "",
) -> str:
    """LLVM IR of a module with a kernel that has the inputs of `parts`.

    The results of the kernel are those of `parts`, without the last two, and the solutions as a matrix, row by row.

    parts    function whose last two results are a factor and right-hand sides, a matrix row by row
    columns  function (factor, right) that returns the solution for one right-hand side
    widths   widths of the vectors of columns, whose sum is the number of columns of the right-hand sides
    """
    texts = [emit.module_of({"parts": parts}, twins, linkage="internal ")]
    program, stride = program_of(columns), sum(widths)
    for width in sorted(set(widths)):
        writer = emit.Kernel(program, f"columns_{width}", [], width, ("factor",), stride)
        adds = [sincos.fused_declaration(width)]
        texts.append("\n".join([*emit.declarations(width), *adds, writer.text("internal ")]))
    n_results = parts.n_out() - sum(name == LIFTED_VALUES for name in parts.name_out())
    factor, right = (parts.numel_out(n_results - k) for k in (2, 1))
    texts.append(_driver(f"{linkage}void @{symbol}", n_results - 2, factor, right, widths))
    return _without_repeats("\n\n".join(texts)) + "\n"


def _driver(head: str, kept: int, factor: int, right: int, widths: list[int]) -> str:
    """LLVM IR of the kernel that calls `parts` and then `columns` for each vector of columns."""
    lines = [
        f"define {head}(ptr noalias readonly %in, ptr noalias readonly %out) nounwind {{",
        f"  %factor = alloca [{max(factor, 1)} x double], align 64",
        f"  %right = alloca [{max(right, 1)} x double], align 64",
        f"  %results = alloca [{kept + 2} x ptr]",
        "  %given = alloca [2 x ptr]",
        "  %solved = alloca ptr",
    ]
    for k in range(kept):
        lines += [f"  %from{k} = getelementptr ptr, ptr %out, i64 {k}", f"  %kept{k} = load ptr, ptr %from{k}"]
        lines += [f"  %to{k} = getelementptr ptr, ptr %results, i64 {k}", f"  store ptr %kept{k}, ptr %to{k}"]
    for k, name in ((kept, "factor"), (kept + 1, "right")):
        lines += [f"  %to{k} = getelementptr ptr, ptr %results, i64 {k}", f"  store ptr %{name}, ptr %to{k}"]
    lines += [f"  %matrixp = getelementptr ptr, ptr %out, i64 {kept}", "  %matrix = load ptr, ptr %matrixp"]
    lines += ["  call void @parts(ptr %in, ptr %results)", "  store ptr %factor, ptr %given"]
    lines += ["  %column = getelementptr ptr, ptr %given, i64 1"]
    for k, (begin, width) in enumerate(zip(accumulate([0, *widths]), widths, strict=False)):
        lines += [f"  %right{k} = getelementptr double, ptr %right, i64 {begin}", f"  store ptr %right{k}, ptr %column"]
        lines += [f"  %x{k} = getelementptr double, ptr %matrix, i64 {begin}", f"  store ptr %x{k}, ptr %solved"]
        lines += [f"  call void @columns_{width}(ptr %given, ptr %solved)"]
    return "\n".join([*lines, "  ret void", "}"])


def _without_repeats(text: str) -> str:
    """The text of a module with each declaration once."""
    declared, kept = set[str](), list[str]()
    for line in text.split("\n"):
        if line.startswith("declare "):
            if line in declared:
                continue
            declared.add(line)
        kept.append(line)
    return "\n".join(kept)
