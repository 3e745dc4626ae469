"""CasADi function -> LLVM IR text.

The calling convention of every kernel is

    void kernel(const double *const *inputs, double *const *outputs)

with one pointer per argument and per result, dense columns (matrices column by column). All inputs are read before any
output is written, so an output may be one of the inputs.
"""

from __future__ import annotations

import struct

import casadi as ca

from sim_core.kernels.native import symbol_name

FLAGS = "contract nsz"
BINARY = {ca.OP_ADD: "fadd", ca.OP_SUB: "fsub", ca.OP_MUL: "fmul", ca.OP_DIV: "fdiv"}
COMPARISON = {ca.OP_LT: "olt", ca.OP_LE: "ole", ca.OP_EQ: "oeq", ca.OP_NE: "une"}
CALLS = {
    ca.OP_SIN: "sin",
    ca.OP_COS: "cos",
    ca.OP_TAN: "tan",
    ca.OP_ASIN: "asin",
    ca.OP_ACOS: "acos",
    ca.OP_ATAN: "atan",
    ca.OP_TANH: "tanh",
    ca.OP_EXP: "exp",
    ca.OP_LOG: "log",
}
CALLS_OF_TWO = {ca.OP_ATAN2: "atan2", ca.OP_POW: "pow", ca.OP_CONSTPOW: "pow"}
INTRINSICS = {ca.OP_SQRT: "llvm.sqrt.f64", ca.OP_FABS: "llvm.fabs.f64"}
INTRINSICS_OF_TWO = {
    ca.OP_FMIN: "llvm.minnum.f64",
    ca.OP_FMAX: "llvm.maxnum.f64",
    ca.OP_COPYSIGN: "llvm.copysign.f64",
}


def module_of(functions: dict[str, ca.Function]) -> str:
    """One LLVM module with a kernel per function; named by native.symbol_name."""
    bodies = [_kernel(symbol_name(*name.split(".")), function) for name, function in functions.items()]
    one = [*CALLS.values(), *INTRINSICS.values()]
    two = [*dict.fromkeys(CALLS_OF_TWO.values()), *INTRINSICS_OF_TWO.values()]
    declarations = [f"declare double @{name}(double) #0" for name in one]
    declarations += [f"declare double @{name}(double, double) #0" for name in two]
    return "\n\n".join([*declarations, *bodies, "attributes #0 = { nounwind willreturn memory(none) }"]) + "\n"


def _double(value: float) -> str:
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


def _kernel(symbol: str, function: ca.Function) -> str:
    lines, values = _loads(function)
    work: dict[int, str] = {}
    stores: list[tuple[int, int, str]] = []
    for k in range(function.n_instructions()):
        operation, outputs, inputs = (
            function.instruction_id(k),
            function.instruction_output(k),
            function.instruction_input(k),
        )
        if operation == ca.OP_OUTPUT:
            stores.append((outputs[0], outputs[1], work[inputs[0]]))
        elif operation == ca.OP_INPUT:
            work[outputs[0]] = values[inputs[0], inputs[1]]
        elif operation == ca.OP_CONST:
            work[outputs[0]] = _double(function.instruction_constant(k))
        else:
            name = f"%v{k}"
            lines += _instruction(operation, name, [work[index] for index in inputs])
            work[outputs[0]] = name
    lines += _stores(function, stores)
    return "\n".join(
        [
            f"define void @{symbol}(ptr noalias readonly %in, ptr noalias readonly %out) {{",
            *lines,
            "  ret void",
            "}",
        ]
    )


def _loads(function: ca.Function) -> tuple[list[str], dict[tuple[int, int], str]]:
    lines: list[str] = []
    values: dict[tuple[int, int], str] = {}
    used = {
        tuple(function.instruction_input(k))
        for k in range(function.n_instructions())
        if function.instruction_id(k) == ca.OP_INPUT
    }
    for argument in sorted({argument for argument, _ in used}):
        lines += [
            f"  %a{argument} = getelementptr ptr, ptr %in, i64 {argument}",
            f"  %i{argument} = load ptr, ptr %a{argument}",
        ]
    for argument, element in sorted(used):
        name = f"%x{argument}_{element}"
        lines += [
            f"  {name}p = getelementptr double, ptr %i{argument}, i64 {element}",
            f"  {name} = load double, ptr {name}p",
        ]
        values[argument, element] = name
    return lines, values


def _stores(function: ca.Function, stores: list[tuple[int, int, str]]) -> list[str]:
    lines: list[str] = []
    written = {(result, element): value for result, element, value in stores}
    for result in range(function.n_out()):
        sparsity = function.sparsity_out(result)
        if not sparsity.is_dense():
            raise ValueError(f"result {result} of {function.name()} is sparse; densify it")
        if not sparsity.numel():
            continue
        lines += [
            f"  %b{result} = getelementptr ptr, ptr %out, i64 {result}",
            f"  %o{result} = load ptr, ptr %b{result}",
        ]
        for element in range(sparsity.numel()):
            value = written.get((result, element), _double(0.0))
            name = f"%y{result}_{element}"
            lines += [
                f"  {name} = getelementptr double, ptr %o{result}, i64 {element}",
                f"  store double {value}, ptr {name}",
            ]
    return lines


def _instruction(operation: int, name: str, inputs: list[str]) -> list[str]:
    a = inputs[0]
    if operation in BINARY:
        return [f"  {name} = {BINARY[operation]} {FLAGS} double {a}, {inputs[1]}"]
    if operation in CALLS or operation in INTRINSICS:
        callee = CALLS.get(operation) or INTRINSICS[operation]
        return [f"  {name} = call double @{callee}(double {a})"]
    if operation in CALLS_OF_TWO or operation in INTRINSICS_OF_TWO:
        callee = CALLS_OF_TWO.get(operation) or INTRINSICS_OF_TWO[operation]
        return [f"  {name} = call double @{callee}(double {a}, double {inputs[1]})"]
    if operation in COMPARISON:
        flag = f"{name}c"
        return [
            f"  {flag} = fcmp {COMPARISON[operation]} double {a}, {inputs[1]}",
            f"  {name} = uitofp i1 {flag} to double",
        ]
    return _short_form(operation, name, inputs)


def _short_form(operation: int, name: str, inputs: list[str]) -> list[str]:
    a, zero, one = inputs[0], _double(0.0), _double(1.0)
    simple = {
        ca.OP_NEG: f"fneg {FLAGS} double {a}",
        ca.OP_SQ: f"fmul {FLAGS} double {a}, {a}",
        ca.OP_TWICE: f"fadd {FLAGS} double {a}, {a}",
        ca.OP_INV: f"fdiv {FLAGS} double {one}, {a}",
        ca.OP_ASSIGN: f"fadd {FLAGS} double {a}, {_double(-0.0)}",
    }
    if operation in simple:
        return [f"  {name} = {simple[operation]}"]
    if operation == ca.OP_IF_ELSE_ZERO:
        flag = f"{name}c"
        return [
            f"  {flag} = fcmp une double {a}, {zero}",
            f"  {name} = select i1 {flag}, double {inputs[1]}, double {zero}",
        ]
    if operation == ca.OP_SIGN:
        return [
            f"  {name}p = fcmp ogt double {a}, {zero}",
            f"  {name}n = fcmp olt double {a}, {zero}",
            f"  {name}x = uitofp i1 {name}p to double",
            f"  {name}y = uitofp i1 {name}n to double",
            f"  {name} = fsub double {name}x, {name}y",
        ]
    raise ValueError(f"no LLVM form is written for CasADi operation {operation}; add it to sim_core.kernels.emit")
