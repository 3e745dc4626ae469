"""Translation of kernel programs to C99, one statement per value, for computers that have neither LLVM nor Python."""

from __future__ import annotations

from dataclasses import dataclass

from sim_core.kernels.program import COMPARISON, Node, Program

OPERATORS = {"fadd": "+", "fsub": "-", "fmul": "*", "fdiv": "/"}
TESTS = dict(zip(COMPARISON.values(), ("<", "<=", "==", "!="), strict=True))
RENAMED = {
    "llvm.sqrt": "sqrt",
    "llvm.fabs": "fabs",
    "llvm.minnum": "fmin",
    "llvm.maxnum": "fmax",
    "llvm.copysign": "copysign",
    "llvm.floor": "floor",
}


@dataclass(frozen=True)
class Signature:
    """Signature of a C function that evaluates a kernel.

    `inputs` and `outputs` are {index of the kernel's argument or result: name of the C parameter}. Arguments and
    results that are not listed have no C parameter.
    """

    name: str
    inputs: dict[int, str]
    outputs: dict[int, str]

    def prototype(self) -> str:
        """The C declaration of the function, without the final semicolon."""
        inputs = [f"const double *{name}" for name in self.inputs.values()]
        outputs = [f"double *{name}" for name in self.outputs.values()]
        return f"void {self.name}({', '.join([*inputs, *outputs])})"


def c_function(program: Program, signature: Signature) -> str:
    """C definition of a function that evaluates a program.

    All inputs are read before any output is written, so that inputs and outputs may share memory.
    """
    nodes = program.nodes
    values: dict[int, str] = {}
    loads, lines = [], []
    for index, node in enumerate(nodes):
        if node.op == "const":
            values[index] = number(node.value)
        elif node.op == "lift":
            values[index] = values[node.args[0]]
        elif node.op == "input":
            argument, element = node.place
            values[index] = f"{signature.inputs[argument]}_{element}"
            loads.append(f"    const double {values[index]} = {signature.inputs[argument]}[{element}];")
        else:
            values[index] = f"n{index}"
            lines.append(f"    const double n{index} = {_expression(node, [values[arg] for arg in node.args])};")
    stores = [
        f"    {signature.outputs[result]}[{element}] = {values[index]};"
        for (result, element), index in sorted(program.results.items())
        if result in signature.outputs
    ]
    read = {node.place[0] for node in nodes if node.op == "input"}
    unread = [f"    (void){name};" for argument, name in signature.inputs.items() if argument not in read]
    return "\n".join([signature.prototype(), "{", *unread, *loads, *lines, *stores, "}"])


def number(value: float) -> str:
    """C literal of a double that has exactly this value."""
    text = repr(value)
    return f"({text})" if value < 0 else text


def _expression(node: Node, args: list[str]) -> str:
    if node.op in OPERATORS:
        return f"{args[0]} {OPERATORS[node.op]} {args[1]}"
    if node.op == "fneg":
        return f"-{args[0]}"
    if node.op in TESTS:
        return f"(double)({args[0]} {TESTS[node.op]} {args[1]})"
    if node.op == "sign":
        return f"(double)(({args[0]} > 0.0) - ({args[0]} < 0.0))"
    if node.op == "if":
        return f"{args[0]} != 0.0 ? {args[1]} : 0.0"
    return f"{RENAMED.get(node.op, node.op)}({', '.join(args)})"
