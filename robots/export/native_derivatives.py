"""Export of the derivatives of forward dynamics, as a C99 source or an object file with a header of their own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sim_core.kernels.machine_code.native import object_code
from sim_core.mechanism import Mechanism

if TYPE_CHECKING:
    import casadi as ca

    from sim_core.kernels.c_source import Signature

WIDTHS = (8, 4, 2, 1)  # numbers of columns that an object file solves at a time
HEADER = """/* {name}: derivatives of forward dynamics, beside {name}.h, which has the calling convention.

   a [N_Q]{and_lam}: as of {name}_forward_dynamics, under generalized forces tau [N_Q].
   derivatives [{rows}][3][N_Q]: of a{each_lam}, row by row, by q, by v and by tau; in a tree without loops, those by
   tau are the inverse of the mass matrix. */

#ifndef {N}_DERIVATIVES_H
#define {N}_DERIVATIVES_H

#include "{name}.h"

#ifdef __cplusplus
extern "C" {{
#endif

{prototype};

#ifdef __cplusplus
}}
#endif

#endif
"""
SOURCE = """/* {mechanism}; see {name}_derivatives.h. Compile with: cc -O2 -c {name}_derivatives.c */

#include "{name}_derivatives.h"

#include <math.h>

static {parts}

static {columns}

{prototype}
{{
    double factor[{factor}], column[{size}];
    parts({given}, factor, derivatives);
    for (int k = 0; k < {count}; ++k) {{
        for (int i = 0; i < {size}; ++i) column[i] = derivatives[i * {count} + k];
        solve(factor, column, column);
        for (int i = 0; i < {size}; ++i) derivatives[i * {count} + k] = column[i];
    }}
}}
"""


@dataclass(frozen=True)
class Derivatives:
    """The function NAME_forward_dynamics_derivatives of a robot, with the functions from which it is written.

    parts, columns, twins  see `sim_core.derivation.derivatives.kernels.derive_for_efforts`
    """

    mechanism: Mechanism
    prefix: str
    signature: Signature
    parts: ca.Function
    columns: ca.Function
    twins: dict[str, list[tuple[int, int]]]

    @classmethod
    def of(cls, mechanism: Mechanism, prefix: str, n_rows: int) -> Derivatives:
        """The derivatives of a mechanism with n_rows constraint rows."""
        from sim_core.derivation.derivatives.kernels import derive_for_efforts
        from sim_core.kernels.c_source import Signature

        p, lam = {4: "p"} if mechanism.parameter_names else {}, {1: "lam"} if n_rows else {}
        outputs = {0: "a"} | lam | {2: "derivatives"}
        signature = Signature(f"{prefix}_forward_dynamics_derivatives", {1: "q", 2: "v", 3: "tau"} | p, outputs)
        return cls(mechanism, prefix, signature, *derive_for_efforts(mechanism))

    def header(self) -> str:
        """Text of the C header."""
        has_rows = 1 in self.signature.outputs
        return HEADER.format(
            name=self.prefix,
            N=self.prefix.upper(),
            and_lam=" and lam [N_ROWS]" if has_rows else "",
            each_lam=" and then of lam" if has_rows else "",
            rows="N_Q + N_ROWS" if has_rows else "N_Q",
            prototype=self.signature.prototype(),
        )

    def source(self) -> str:
        """Text of the C99 source."""
        from sim_core.kernels.c_source import Signature, c_function
        from sim_core.kernels.program import program_of

        kept = {index: name for index, name in self.signature.outputs.items() if index < 2}
        parts = Signature("parts", self.signature.inputs, kept | {2: "factor", 3: "right"})
        columns = Signature("solve", {0: "factor", 1: "right"}, {0: "solved"})
        size = self.columns.numel_out(0)
        return SOURCE.format(
            mechanism=self.mechanism.name,
            name=self.prefix,
            parts=c_function(program_of(self.parts), parts),
            columns=c_function(program_of(self.columns), columns),
            prototype=self.signature.prototype(),
            given=", ".join([*self.signature.inputs.values(), *kept.values()]),
            factor=max(1, self.parts.numel_out(2)),
            size=size,
            count=self.parts.numel_out(3) // size,
        )

    def object_file(self, machine: Any) -> bytes:
        """Object file, as bytes, for an LLVM target machine, from the same LLVM IR as the kernels of the simulation."""
        from sim_core.kernels.columns import solving_module

        left, widths = self.parts.numel_out(3) // self.columns.numel_out(0), list[int]()
        for width in WIDTHS:
            widths += [width] * (left // width)
            left %= width
        kernel = solving_module("kernel", self.parts, self.columns, widths, self.twins, linkage="internal ")
        return object_code("\n\n".join([kernel, wrapper("kernel", self.signature)]), machine)


def wrapper(kernel: str, signature: Signature) -> str:
    """LLVM IR of a C function that calls a kernel.

    The function writes pointers to its arguments into the tables that the kernel expects, and then calls the kernel.
    """
    names = [*signature.inputs.values(), *signature.outputs.values()]
    lines = [f"define void @{signature.name}({', '.join(f'ptr %{n}' for n in names)}) nounwind {{"]
    for table, places in (("in", signature.inputs), ("out", signature.outputs)):
        size = max(places) + 1
        lines.append(f"  %{table}table = alloca [{size} x ptr]")
        for place, n in places.items():
            lines.append(f"  %{table}{place} = getelementptr ptr, ptr %{table}table, i64 {place}")
            lines.append(f"  store ptr %{n}, ptr %{table}{place}")
    lines.append(f"  call void @{kernel}(ptr %intable, ptr %outtable)")
    return "\n".join([*lines, "  ret void", "}"])
