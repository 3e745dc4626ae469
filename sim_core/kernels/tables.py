"""Kernels with table lookups: a wrapper function looks up the table rows and passes them to the kernel as inputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import casadi as ca
import numpy as np

from sim_core.kernels.emit import module_of, modules_of
from sim_core.kernels.machine_code.native import symbol_name
from sim_core.kernels.pairing import Twins
from sim_core.kernels.program import LIFTED
from sim_core.kernels.sincos import double


def table_ir(symbol: str, table: np.ndarray) -> str:
    """LLVM IR of a constant table, row by row, with a row of NaN appended, and of a pointer to the table."""
    beyond = np.full((1, table.shape[1]), np.nan)
    numbers = [f"double {double(x)}" for x in np.vstack([table, beyond]).ravel().tolist()]
    values = f"@{symbol}_values = private constant [{len(numbers)} x double] [{', '.join(numbers)}], align 64"
    return f"{values}\n@{symbol} = private global ptr @{symbol}_values"


def wrapper_ir(symbol: str, inner: str, n_inputs: int, lookups: Sequence[tuple[str, str, tuple[int, int]]]) -> str:
    """LLVM IR of a function `symbol`(in, out), which calls `inner` with n_inputs inputs and one table row per lookup.

    lookups  (symbol of the index kernel, symbol of the table, shape of the table) of each lookup. The index kernel
             computes a number from the same n_inputs inputs; this number is rounded down to the index of the row
    An index outside the table selects the appended row of NaN. With the table of a beam's shape, a point that leaves
    the beam thus gives NaN instead of an extrapolated value.
    """
    count = n_inputs + len(lookups)
    lines = [
        f"define void @{symbol}(ptr noalias readonly %in, ptr noalias readonly %out) {{",
        f"  %all = alloca [{count} x ptr]",
        "  %place = alloca double",
        "  %places = alloca ptr",
        "  store ptr %place, ptr %places",
    ]
    for k in range(n_inputs):
        lines += [
            f"  %from{k} = getelementptr ptr, ptr %in, i64 {k}",
            f"  %value{k} = load ptr, ptr %from{k}",
            f"  %to{k} = getelementptr ptr, ptr %all, i64 {k}",
            f"  store ptr %value{k}, ptr %to{k}",
        ]
    for k, (place, table, (rows, width)) in enumerate(lookups):
        lines += [
            f"  call void @{place}(ptr %in, ptr %places)",
            f"  %x{k} = load double, ptr %place",
            f"  %low{k} = call double @llvm.maxnum.f64(double %x{k}, double 0.0)",
            f"  %held{k} = call double @llvm.minnum.f64(double %low{k}, double {double(rows - 1.0)})",
            f"  %row{k} = fptosi double %held{k} to i64",
            f"  %after{k} = fcmp oge double %x{k}, 0.0",
            f"  %before{k} = fcmp ole double %x{k}, {double(rows)}",
            f"  %inside{k} = and i1 %after{k}, %before{k}",
            f"  %taken{k} = select i1 %inside{k}, i64 %row{k}, i64 {rows}",
            f"  %offset{k} = mul i64 %taken{k}, {width}",
            f"  %table{k} = load volatile ptr, ptr @{table}",
            f"  %found{k} = getelementptr double, ptr %table{k}, i64 %offset{k}",
            f"  %slot{k} = getelementptr ptr, ptr %all, i64 {n_inputs + k}",
            f"  store ptr %found{k}, ptr %slot{k}",
        ]
    return "\n".join([*lines, f"  call void @{inner}(ptr %all, ptr %out)", "  ret void", "}"])


def module_with_tables(
    functions: dict[str, ca.Function],
    twins: Mapping[str, Twins],
    uses: dict[str, tuple[str, ...]],
    tables: dict[str, tuple[ca.Function, np.ndarray]],
) -> str:
    """LLVM IR of a module with one kernel per function. Some kernels take rows of lookup tables as their last inputs.

    functions  {kernel: CasADi function}
    twins      {argument: pairs of indices of corresponding elements in branches of equal structure}
    uses       {kernel that takes table rows: names of the tables, in the order of these inputs}
    tables     {table: (function that computes the row index from the other inputs of the kernels, array of the table)}
    """
    number = {name: index for index, name in enumerate(tables)}
    plain = {f"{name}.inner" if name in uses else name: function for name, function in functions.items()}
    places = {f"place.{number[name]}": place for name, (place, _) in tables.items()}
    parts = [module_of(plain | places, twins)]
    parts += [table_ir(f"table_{number[name]}", table) for name, (_, table) in tables.items()]
    for name, lookups in uses.items():
        symbol = symbol_name(*name.split("."))
        rows = [(f"place_{number[x]}", f"table_{number[x]}", tables[x][1].shape) for x in lookups]
        looked_up = {LIFTED, *[f"row_{x}" for x in lookups]}
        own = [x for x in functions[name].name_in() if x not in looked_up]
        parts.append(wrapper_ir(symbol, f"{symbol}_inner", len(own), rows))
    return "\n\n".join(parts) + "\n"


def modules_with_tables(
    functions: dict[str, ca.Function],
    twins: Mapping[str, Twins],
    uses: dict[str, tuple[str, ...]],
    tables: dict[str, tuple[ca.Function, np.ndarray]],
) -> Iterator[str]:
    """LLVM IR of the modules that together have the kernels of `module_with_tables`.

    With tables there is one module; otherwise they are those of `emit.modules_of`.
    """
    if tables:
        yield module_with_tables(functions, twins, uses, tables)
    else:
        yield from modules_of(functions, twins)
