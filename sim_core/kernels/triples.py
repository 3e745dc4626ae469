"""Writing of a kernel's three-vectors as vectors of three lanes.

The results of a step are columns of three numbers: vectors, and matrices column by column. Operations that compute the
three numbers of a column alike become one vector instruction. Sums such as R v are computed column by column; a cross
product needs its arguments with their lanes rotated.
"""

from __future__ import annotations

from contextlib import suppress

from sim_core.kernels.emit import FLAGS, Kernel
from sim_core.kernels.order import TRIGONOMETRIC
from sim_core.kernels.program import LANEWISE, Program
from sim_core.kernels.sincos import double

Triple = tuple[int, int, int]  # nodes
KIND = "<3 x double>"
DEEPEST = 150  # operations one after the other: the writer calls itself for each
ALWAYS = 10**9  # lines up to which a function is inlined


def text_of(program: Program, symbol: str) -> tuple[str, set[int]]:
    """LLVM IR of an internal function that is always inlined, and the widths of its vectors of angles.

    The function is written with vectors of three lanes, unless it computes angles, is too deep, or its lanes depend on
    each other.
    """
    plain = Kernel(program, symbol, [], 1)
    if not any(node.op in TRIGONOMETRIC for node in program.nodes) and _depth(program) <= DEEPEST:
        with suppress(_CircularError):
            return TripleKernel(program, symbol).text("internal ", ALWAYS), set()
    return plain.text("internal ", ALWAYS), plain.widths


def _depth(program: Program) -> int:
    """Largest number of operations that depend on each other one after the other."""
    depth = [0] * len(program.nodes)
    for index, node in enumerate(program.nodes):
        depth[index] = 1 + max((depth[arg] for arg in node.args), default=0)
    return max(depth, default=0)


class _CircularError(Exception):
    """A lane of a vector depends on another lane of the same vector."""


class TripleKernel(Kernel):
    """Writer of the LLVM IR text of a kernel for one system whose results are columns of three numbers."""

    def __init__(self, program: Program, symbol: str) -> None:
        super().__init__(program, symbol, [], 1)
        self._at: dict[int, tuple[Triple, int]] = {}  # node: vector and lane in which it is computed
        self._known: dict[Triple, bool] = {}
        self._vectors: dict[Triple, str] = {}
        self._begun = set[Triple]()
        self._inputs = {node.place: k for k, node in enumerate(program.nodes) if node.op == "input"}

    def text(self, linkage: str = "", inlined: int = 0) -> str:
        """LLVM IR of the kernel's definition, see `Kernel.text`."""
        self._pointers()
        results = self.program.results
        columns = [
            ((result, first), (results[result, first], results[result, first + 1], results[result, first + 2]))
            for result, size in enumerate(self.program.result_sizes)
            if size % 3 == 0
            for first in range(0, size, 3)
        ]
        whole = {place: nodes for place, nodes in columns if self._is_vector(nodes) and nodes[0] in self._at}
        inside = {(result, first + k) for result, first in whole for k in range(3)}
        found = [(place, KIND, self._vector(nodes)) for place, nodes in whole.items()]
        found += [(place, "double", self._value(node)) for place, node in results.items() if place not in inside]
        for (result, element), kind, value in found:
            at = self._do(f"getelementptr double, ptr %o{result}, i64 {element}")
            self._lines.append(f"  store {kind} {value}, ptr {at}, align 8")
        how = "nounwind alwaysinline" if inlined else "nounwind"
        head = f"define {linkage}void @{self.symbol}(ptr noalias readonly %in, ptr noalias readonly %out) {how} {{"
        return "\n".join([head, "entry:", *self._lines, "  ret void", "}"])

    def _is_vector(self, nodes: Triple) -> bool:
        """Whether three nodes are computed together, or come from such vectors by a permutation of lanes."""
        if nodes not in self._known:
            self._known[nodes] = False
            self._known[nodes] = self._planned(nodes)
        return self._known[nodes]

    def _planned(self, nodes: Triple) -> bool:
        program = [self.program.nodes[k] for k in nodes]
        first = program[0]
        if nodes[0] == nodes[1] == nodes[2] or all(node.op == "const" for node in program):
            return True
        if all(k in self._at for k in nodes):
            return True
        if any(k in self._at for k in nodes) or any(node.op != first.op for node in program):
            return False
        if first.op == "input":
            return self._planned_inputs(nodes)
        if first.op not in LANEWISE or len({*nodes}) < 3:
            return False
        self._at |= {k: (nodes, lane) for lane, k in enumerate(nodes)}
        arguments = [self._argument(nodes, position) for position in range(len(first.args))]
        found = [self._is_vector(argument) for argument in arguments]  # of all arguments: they are noted as vectors
        if not any(found):
            for k in nodes:
                self._at.pop(k, None)
            return False
        return True

    def _planned_inputs(self, nodes: Triple) -> bool:
        places = [self.program.nodes[k].place for k in nodes]
        argument, begin = places[0][0], places[0][1] // 3 * 3
        if any((place[0], place[1] // 3 * 3) != (argument, begin) for place in places):
            return False
        column = [self._inputs.get((argument, begin + lane)) for lane in range(3)]
        if None in column:
            return False
        a, b, c = (k for k in column if k is not None)
        self._at |= {k: ((a, b, c), lane) for lane, k in enumerate((a, b, c))}
        self._known[a, b, c] = True
        return True

    def _argument(self, nodes: Triple, position: int) -> Triple:
        a, b, c = (self.program.nodes[k].args[position] for k in nodes)
        return a, b, c

    # -- writing ------------------------------------------------------------------------------------------------------

    def _vector(self, nodes: Triple) -> str:
        """IR value of a vector of three nodes."""
        if nodes not in self._vectors:
            if nodes in self._begun:
                raise _CircularError
            self._begun.add(nodes)
            self._vectors[nodes] = self._written(nodes)
        return self._vectors[nodes]

    def _written(self, nodes: Triple) -> str:
        program = [self.program.nodes[k] for k in nodes]
        if all(node.op == "const" for node in program):
            return f"<{', '.join(f'double {double(node.value)}' for node in program)}>"
        if self._at.get(nodes[0], ((), 0))[0] == nodes:
            if program[0].op == "input":
                at = self._do(f"getelementptr double, ptr %i{program[0].place[0]}, i64 {program[0].place[1]}")
                return self._do(f"load {KIND}, ptr {at}, align 8")
            values = [self._vector(self._argument(nodes, position)) for position in range(len(program[0].args))]
            return self._do(f"{program[0].op} {FLAGS} {KIND} {', '.join(values)}")
        if all(k in self._at for k in nodes):
            return self._permuted(nodes)
        if nodes[0] == nodes[1] == nodes[2]:
            one = self._do(f"insertelement {KIND} poison, double {self._value(nodes[0])}, i32 0")
            return self._do(f"shufflevector {KIND} {one}, {KIND} poison, <3 x i32> zeroinitializer")
        made = "poison"
        for lane, k in enumerate(nodes):
            made = self._do(f"insertelement {KIND} {made}, double {self._value(k)}, i32 {lane}")
        return made

    def _permuted(self, nodes: Triple) -> str:
        """IR value of a vector whose lanes are lanes of other vectors."""
        places = [self._at[k] for k in nodes]
        sources = list(dict.fromkeys(source for source, _ in places))
        if len(sources) == 3:
            first = self._do(
                f"shufflevector {KIND} {self._vector(sources[0])}, {KIND} {self._vector(sources[1])}, "
                f"<3 x i32> <i32 {places[0][1]}, i32 {3 + places[1][1]}, i32 poison>"
            )
            mask = f"<i32 0, i32 1, i32 {3 + places[2][1]}>"
            return self._do(f"shufflevector {KIND} {first}, {KIND} {self._vector(sources[2])}, <3 x i32> {mask}")
        second = self._vector(sources[1]) if len(sources) == 2 else "poison"
        lanes = [lane + 3 * sources.index(source) for source, lane in places]
        mask = ", ".join(f"i32 {lane}" for lane in lanes)
        return self._do(f"shufflevector {KIND} {self._vector(sources[0])}, {KIND} {second}, <3 x i32> <{mask}>")

    def _value(self, index: int) -> str:
        if index not in self._values:
            if index in self._at:
                source, lane = self._at[index]
                self._values[index] = self._do(f"extractelement {KIND} {self._vector(source)}, i32 {lane}")
            else:
                self._values[index] = self._single(self.program.nodes[index])
        return self._values[index]
