"""LLVM IR of a kernel that computes a factor and right-hand sides, and then solves the system for each of them.

The right-hand sides are the columns of a matrix in the memory of the last result, where the solutions replace them. In
a kernel for one system, the columns are the lanes of vectors, and the numbers of the factor are the same in all lanes.
In a kernel for several systems, the systems are the lanes, and the columns are solved one after the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate

import casadi as ca

from sim_core.kernels import emit, sincos
from sim_core.kernels.pairing import Twins
from sim_core.kernels.program import LIFTED_VALUES, program_of


def solving_module(
    symbol: str,
    parts: ca.Function,
    columns: ca.Function,
    widths: Sequence[int],
    twins: Mapping[str, Twins] | None = None,
    lanes: int = 1,
    linkage: str = "",
) -> str:
    """LLVM IR of a module with a kernel that has the inputs of `parts`.

    The results of the kernel are those of `parts` without the factor. The last one is the matrix of the solutions.

    parts    function whose last two results are a factor and right-hand sides, a matrix row by row
    columns  function (factor, right) that returns the solution for one right-hand side
    widths   numbers of columns that are solved at a time, whose sum is the number of columns of the right-hand sides
    lanes    number of systems
    linkage  "internal " for a kernel that is called within the module only
    """
    texts = [emit.module_of({"parts": parts}, twins, lanes, linkage="internal ")]
    program, n_columns = program_of(columns), sum(widths)
    if lanes > 1:
        widths = [1] * n_columns
        writers = [emit.Kernel(program, "columns_1", [], lanes, (), ("right",), n_columns * lanes)]
    else:
        writers = [emit.Kernel(program, f"columns_{width}", [], width, ("factor",), ("right",), n_columns)
                   for width in sorted(set(widths))]  # fmt: skip
    for writer in writers:
        adds = [sincos.fused_declaration(writer.lanes)] if writer.lanes > 1 else []
        texts.append("\n".join([*emit.declarations(writer.lanes), *adds, writer.text("internal ")]))
    n_results = parts.n_out() - sum(name == LIFTED_VALUES for name in parts.name_out())
    texts.append(_driver(f"{linkage}void @{symbol}", n_results, parts.numel_out(n_results - 2) * lanes, widths, lanes))
    return _without_repeats("\n\n".join(texts)) + "\n"


def _driver(head: str, n_results: int, factor: int, widths: Sequence[int], lanes: int) -> str:
    """LLVM IR of the kernel that calls `parts` and then the function `columns` of each width, or of each column.

    n_results  number of results of `parts`
    factor     size of the factor of all lanes
    """
    matrix = n_results - 2  # its place among the results of the kernel
    lines = [
        f"define {head}(ptr noalias readonly %in, ptr noalias readonly %out) nounwind {{",
        "start:",
        f"  %factor = alloca [{max(factor, 1)} x double], align 64",
        f"  %results = alloca [{n_results} x ptr]",
        "  %given = alloca [2 x ptr]",
        "  %solved = alloca ptr",
    ]
    for k, to in [(k, k) for k in range(matrix)] + [(matrix, matrix + 1)]:
        lines += [f"  %from{k} = getelementptr ptr, ptr %out, i64 {k}", f"  %result{k} = load ptr, ptr %from{k}"]
        lines += [f"  %to{k} = getelementptr ptr, ptr %results, i64 {to}", f"  store ptr %result{k}, ptr %to{k}"]
    lines += [f"  %place = getelementptr ptr, ptr %results, i64 {matrix}", "  store ptr %factor, ptr %place"]
    lines += ["  call void @parts(ptr %in, ptr %results)", "  store ptr %factor, ptr %given"]
    lines += ["  %column = getelementptr ptr, ptr %given, i64 1"]
    if lanes > 1:
        return "\n".join([*lines, *_loop(f"%result{matrix}", len(widths), lanes), "  ret void", "}"])
    for k, (begin, width) in enumerate(zip(accumulate([0, *widths]), widths, strict=False)):
        lines += [
            f"  %x{k} = getelementptr double, ptr %result{matrix}, i64 {begin}",
            f"  store ptr %x{k}, ptr %column",
        ]
        lines += [f"  store ptr %x{k}, ptr %solved", f"  call void @columns_{width}(ptr %given, ptr %solved)"]
    return "\n".join([*lines, "  ret void", "}"])


def _loop(matrix: str, count: int, lanes: int) -> list[str]:
    return [
        "  br label %each",
        "each:",
        "  %k = phi i64 [0, %start], [%next, %each]",
        f"  %begin = mul i64 %k, {lanes}",
        f"  %x = getelementptr double, ptr {matrix}, i64 %begin",
        "  store ptr %x, ptr %column",
        "  store ptr %x, ptr %solved",
        "  call void @columns_1(ptr %given, ptr %solved)",
        "  %next = add i64 %k, 1",
        f"  %left = icmp slt i64 %next, {count}",
        "  br i1 %left, label %each, label %done",
        "done:",
    ]


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
