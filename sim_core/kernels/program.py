"""Program: a CasADi function as a simplified graph of operations, from which kernels are written.

Equal operations become one node. CasADi turns x * (1 / y) into x / y, and a division costs as much as ten products;
therefore several divisions by the same number become one reciprocal and products. Some subexpressions are hidden from
CasADi's simplification: the function gets them as symbols in its argument `lifted` and computes their values in its
result `lifted_values`. A program puts value k in the place of symbol k.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

import casadi as ca

LIFTED, LIFTED_VALUES = "lifted", "lifted_values"
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
    ca.OP_ATAN2: "atan2",
    ca.OP_POW: "pow",
    ca.OP_CONSTPOW: "pow",
    ca.OP_SQRT: "llvm.sqrt",
    ca.OP_FABS: "llvm.fabs",
    ca.OP_FLOOR: "llvm.floor",
    ca.OP_FMIN: "llvm.minnum",
    ca.OP_FMAX: "llvm.maxnum",
    ca.OP_COPYSIGN: "llvm.copysign",
}
OTHERS = {ca.OP_NEG: "fneg", ca.OP_SIGN: "sign", ca.OP_IF_ELSE_ZERO: "if"}
NAMES = BINARY | COMPARISON | CALLS | OTHERS
COMMUTATIVE = {"fadd", "fmul", "llvm.minnum", "llvm.maxnum", "oeq", "une"}
# operations that apply one instruction to all lanes of a vector
LANEWISE = {*BINARY.values(), "fneg"}


class Node(NamedTuple):
    """One value in a program: an operation `op` on the nodes with the indices `args`.

    The operations `input` and `const` have no arguments; `lift` returns its argument unchanged.

    value   for `const`: the number
    place   for `input`: (index of the function's argument, index of the element). For `lift`: (index of the element of
            the argument `lifted`,)
    """

    op: str
    args: tuple[int, ...] = ()
    value: float = 0.0
    place: tuple[int, ...] = ()


@dataclass
class Program:
    """A kernel as an expression graph.

    nodes    the nodes of the graph; each node is listed after the nodes that are its arguments
    results  {(index of a result, index of an element): index of the node that computes this element}
    """

    name: str
    input_names: tuple[str, ...]
    result_sizes: tuple[int, ...]
    nodes: list[Node] = field(default_factory=list)
    results: dict[tuple[int, int], int] = field(default_factory=dict)


class Builder:
    """Collects the nodes of a program without duplicates."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self._known: dict[object, int] = {}

    def add(self, node: Node) -> int:
        """Index of a node equal to the given one; the node is added if there is none."""
        op, args = node.op, node.args
        key: object = (op, node.value.hex()) if op == "const" else (op, args, node.place)
        if op in COMMUTATIVE and args[0] > args[1]:
            key = (op, args[::-1], node.place)
        index = self._known.setdefault(key, len(self.nodes))
        if index == len(self.nodes):
            self.nodes.append(node)
        return index

    def const(self, value: float) -> int:
        """Index of the node of a constant; the node is added if it does not exist."""
        return self.add(Node("const", value=float(value)))

    def of(self, op: str, *args: int) -> int:
        """Index of the node of the operation `op` on the nodes `args`; the node is added if it does not exist."""
        return self.add(Node(op, args))


def program_of(function: ca.Function) -> Program:
    """The program of a CasADi function with dense results. Raises ValueError for an unsupported operation."""
    builder, work = Builder(), dict[int, int]()
    inputs, outputs = function.name_in(), function.name_out()
    results: dict[tuple[int, int], int] = {}
    lifted: dict[int, int] = {}
    for k in range(function.n_instructions()):
        operation, to, of = (
            function.instruction_id(k),
            function.instruction_output(k),
            function.instruction_input(k),
        )
        if operation == ca.OP_OUTPUT:
            if outputs[to[0]] == LIFTED_VALUES:
                lifted[to[1]] = work[of[0]]
            else:
                results[to[0], to[1]] = work[of[0]]
        elif operation == ca.OP_INPUT:
            is_lifted = inputs[of[0]] == LIFTED
            work[to[0]] = builder.add(Node("lift", place=(of[1],)) if is_lifted else Node("input", place=tuple(of)))
        elif operation == ca.OP_CONST:
            work[to[0]] = builder.const(function.instruction_constant(k))
        else:
            work[to[0]] = _operation(builder, operation, [work[index] for index in of])
    sizes = []
    for result, name in enumerate(outputs):
        sparsity = function.sparsity_out(result)
        if name == LIFTED_VALUES:
            continue
        if not sparsity.is_dense():
            raise ValueError(f"result {result} of {function.name()} is sparse; densify it")
        sizes.append(sparsity.numel())
        for element in range(sparsity.numel()):
            if (result, element) not in results:
                results[result, element] = builder.const(0.0)
    nodes = [Node("lift", (lifted[node.place[0]],), place=node.place) if node.op == "lift" else node
             for node in builder.nodes]  # fmt: skip
    whole = Program(function.name(), tuple(inputs), tuple(sizes), nodes, results)
    return _with_shared_reciprocals(rebuilt(whole))


def _operation(builder: Builder, operation: int, args: list[int]) -> int:
    if operation == ca.OP_SQ:
        return builder.of("fmul", args[0], args[0])
    if operation == ca.OP_TWICE:
        return builder.of("fadd", args[0], args[0])
    if operation == ca.OP_INV:
        return builder.of("fdiv", builder.const(1.0), args[0])
    if operation == ca.OP_NOT:
        return builder.of("oeq", args[0], builder.const(0.0))
    if operation == ca.OP_ASSIGN:
        return args[0]
    if operation not in NAMES:
        raise ValueError(f"CasADi operation {operation} is not supported in kernels; add it to sim_core.kernels")
    return builder.of(NAMES[operation], *args)


def rebuilt(program: Program) -> Program:
    """The program without the nodes that no result needs; other nodes are in the order in which results need them.

    No two nodes of the program may be equal.
    """
    nodes, kept, new = program.nodes, list[Node](), [-1] * len(program.nodes)
    for root in program.results.values():
        stack, waiting_for = [root], set[int]()
        while stack:
            top = stack[-1]
            if new[top] >= 0:
                stack.pop()
                continue
            op, args, value, place = nodes[top]
            missing = [arg for arg in args if new[arg] < 0]
            if not missing:
                stack.pop()
                waiting_for.discard(top)
                new[top] = len(kept)
                kept.append(Node(op, tuple([new[arg] for arg in args]), value, place))
                continue
            if top in waiting_for and not waiting_for.isdisjoint(missing):
                raise ValueError(
                    f"intermediate value {top} of the kernel depends on itself; its expressions must not be circular"
                )
            waiting_for.add(top)
            stack += reversed(missing)
    results = {place: new[old] for place, old in program.results.items()}
    return Program(program.name, program.input_names, program.result_sizes, kept, results)


def _with_shared_reciprocals(program: Program) -> Program:
    divisors = Counter(node.args[1] for node in program.nodes if node.op == "fdiv")
    if all(count == 1 for count in divisors.values()):
        return program
    builder, new = Builder(), dict[int, int]()
    for old, node in enumerate(program.nodes):
        args = tuple(new[arg] for arg in node.args)
        if node.op == "fdiv" and divisors[node.args[1]] > 1:
            reciprocal = builder.of("fdiv", builder.const(1.0), args[1])
            is_one = program.nodes[node.args[0]] == Node("const", value=1.0)
            new[old] = reciprocal if is_one else builder.of("fmul", args[0], reciprocal)
        else:
            new[old] = builder.add(Node(node.op, args, node.value, node.place))
    results = {place: new[old] for place, old in program.results.items()}
    return Program(program.name, program.input_names, program.result_sizes, builder.nodes, results)
