"""Translation of kernel programs to LLVM IR text.

The calling convention of every kernel is

    void kernel(const double *const *inputs, double *const *outputs)

with one pointer per argument and per result; arrays are dense, matrices column by column. All inputs are read before
any output is written, so an output may be one of the inputs. A batch kernel of `lanes` systems has the same convention
with `lanes` numbers, one per system, in place of each number.

A fused multiply-add computes a product and a sum in one instruction. In batch kernels, this module chooses which
products and sums are fused. LLVM's choice would depend on the number of lanes, and so would the last digits of the
results.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping

import casadi as ca

from sim_core.kernels import sincos
from sim_core.kernels.lanes import LANES, check_lanes
from sim_core.kernels.machine_code.native import has_fused_multiply_add, symbol_name
from sim_core.kernels.order import TRIGONOMETRIC, Unit, units_of
from sim_core.kernels.pairing import Twins, paired
from sim_core.kernels.program import CALLS, COMPARISON, LANEWISE, Node, Program, program_of
from sim_core.kernels.sincos import double

FLAGS = "contract nsz"  # of kernels for one system
COMPARISONS = set(COMPARISON.values())
TWO_ARGUMENTS = {"atan2", "pow", "llvm.minnum", "llvm.maxnum", "llvm.copysign"}
LARGE = 12_000  # lines above which a kernel outside the step is compiled unoptimized, because LLVM's time grows faster
STEPPED = tuple(
    f"{name}{end}" for name in ("acceleration", "relaxed", "apply", "residual", "parts") for end in ("", "_inner")
)
TOGETHER = 30_000  # instructions of all functions from which on large functions are in modules of their own
SEPARATE = 2_000  # instructions of such a large function
WIDEST = 8  # angles per call of the vector sine and cosine


def module_of(
    functions: dict[str, ca.Function],
    twins: Mapping[str, Twins] | None = None,
    lanes: int = 1,
    linkage: str = "",
    inlined: int = 0,
    fused: bool = False,
) -> str:
    """LLVM IR of a module with one kernel per function, named by `native.symbol_name`.

    twins    {argument: pairs of indices of corresponding elements in branches of equal structure}. With `lanes` = 1,
             the values of a pair may be computed in one vector; otherwise `twins` has no effect
    lanes    number of systems that one call of a kernel evaluates
    linkage  "internal " for kernels that are called within the module only
    inlined  number of lines up to which a kernel is inlined where it is called
    fused    whether sines and cosines are computed with fused multiply-add, by `sincos.fused_definitions`
    """
    writers = []
    for name, function in functions.items():
        program, pairs = program_of(function), list[tuple[int, int]]()
        if twins and lanes == 1:
            program, pairs = paired(program, twins)
        writers.append(Kernel(program, symbol_name(*name.split(".")), pairs, lanes))
    bodies = [writer.text(linkage, inlined) for writer in writers]
    widths = sorted({width for writer in writers for width in writer.widths})
    angles = [
        sincos.fused_definitions(width) if fused else sincos.definitions(width, each_alone=lanes > 1)
        for width in widths
    ]
    multiplied = {*(widths if fused else ()), *((lanes,) if lanes > 1 else ())}
    adds = [sincos.fused_declaration(width) for width in sorted(multiplied)]
    return "\n\n".join([*declarations(lanes), *adds, *angles, *bodies]) + "\n"


def modules_of(
    functions: dict[str, ca.Function], twins: Mapping[str, Twins] | None = None, lanes: int = 1
) -> Iterator[str]:
    """LLVM IR of the modules that together have the kernels of `module_of`.

    There is one module if the functions are small. Otherwise each function of SEPARATE or more instructions has a
    module of its own, so that the modules can be compiled side by side.
    """
    sizes = {name: function.n_instructions() for name, function in functions.items()}
    separate = [name for name in sorted(sizes, key=lambda name: -sizes[name]) if sizes[name] >= SEPARATE]
    if sum(sizes.values()) < TOGETHER:
        separate = []
    if rest := {name: function for name, function in functions.items() if name not in separate}:
        yield module_of(rest, twins, lanes)
    for name in separate:
        yield module_of({name: functions[name]}, twins, lanes)


def declarations(lanes: int) -> list[str]:
    lines = []
    for name in dict.fromkeys(CALLS.values()):
        two = name in TWO_ARGUMENTS
        if not name.startswith("llvm."):
            lines.append(f"declare double @{name}(double{', double' if two else ''}) nounwind willreturn memory(none)")
            continue
        for kind, suffix in {("double", "f64"), (f"<{lanes} x double>", f"v{lanes}f64"), ("<2 x double>", "v2f64")}:
            lines.append(f"declare {kind} @{name}.{suffix}({kind}{f', {kind}' if two else ''})")
    lines = sorted(set(lines))
    reductions = [f"declare i1 @llvm.vector.reduce.or.v{width}i1(<{width} x i1>)" for width in LANES]
    fabs = [f"declare <{width} x double> @llvm.fabs.v{width}f64(<{width} x double>)" for width in LANES]
    return list(dict.fromkeys([*lines, *fabs, *reductions]))


def fused_sum(
    do: Callable[[str], str], kind: str, op: str, factors: tuple[str, str], other: str, *, product_first: bool
) -> str:
    """IR value of a b + c, a b - c or c - a b as one fused multiply-add, where a and b are `factors` and c is `other`.

    do             function that writes an instruction and returns the IR value of its result
    kind           type of the values, such as "<8 x double>"
    op             "fadd" or "fsub"
    product_first  whether the product is the first operand of `op`
    """
    a, b = factors
    if op == "fsub" and product_first:
        other = do(f"fneg {kind} {other}")
    elif op == "fsub":
        a = do(f"fneg {kind} {a}")
    width = kind.split()[0].removeprefix("<")
    return do(f"call {kind} @llvm.fma.v{width}f64({kind} {a}, {kind} {b}, {kind} {other})")


class Kernel:
    """Writer of the LLVM IR text of one kernel.

    In this class, the IR value of a program's node is a string: the name of the IR register that holds the value, such
    as "%n12", or the text of a constant.

    shared   names of arguments that have one number for all lanes
    strided  names of arguments whose elements are `stride` numbers apart, as those of the results are
    stride   by default `lanes`, the number of numbers of an element
    """

    def __init__(
        self,
        program: Program,
        symbol: str,
        pairs: list[tuple[int, int]],
        lanes: int,
        shared: Container[str] = (),
        strided: Container[str] = (),
        stride: int = 0,
    ) -> None:
        check_lanes(lanes)
        self.program, self.symbol, self.lanes = program, symbol, lanes
        self._shared, self._strided, self._stride = shared, strided, stride or lanes
        self.widths: set[int] = set()
        self._pairs = pairs
        self._kind = "double" if lanes == 1 else f"<{lanes} x double>"
        self._suffix = "f64" if lanes == 1 else f"v{lanes}f64"
        self._lines: list[str] = []
        self._count = 0
        self._values: dict[int, str] = {}
        self._packs: dict[tuple[int, int], str] = {}
        self._lane: dict[int, tuple[str, int, int]] = {}
        self._unread = sum(node.op == "input" for node in program.nodes)
        self._flags = f"{FLAGS} " if lanes == 1 else ""
        self._fuses = lanes > 1 and has_fused_multiply_add()
        if self._fuses:
            self._uses = Counter(arg for node in program.nodes for arg in node.args) + Counter(program.results.values())
        self._pending: list[tuple[tuple[int, int], int]] = []

    def text(self, linkage: str = "", inlined: int = 0) -> str:
        """LLVM IR of the kernel's definition.

        linkage  "internal " for a kernel that is called within the module only, otherwise ""
        inlined  number of lines up to which the kernel is inlined where it is called
        """
        self._pointers()
        wanted: dict[int, list[tuple[int, int]]] = {}
        for place, index in self.program.results.items():
            wanted.setdefault(index, []).append(place)
        for unit in units_of(self.program, self._pairs):
            self._make(unit)
            self._pending += [(place, index) for index in unit for place in wanted.get(index, [])]
            if not self._unread:
                self._store()
        self._store()
        quick = len(self._lines) > LARGE and not self.symbol.endswith(STEPPED)
        how = "nounwind noinline optnone" if quick else "nounwind"
        if inlined:
            how = "nounwind alwaysinline" if len(self._lines) < inlined else "nounwind"
        head = f"define {linkage}void @{self.symbol}(ptr noalias readonly %in, ptr noalias readonly %out) {how} {{"
        return "\n".join([head, "entry:", *self._lines, "  ret void", "}"])

    # -- writing ------------------------------------------------------------------------------------------------------

    def _do(self, instruction: str) -> str:
        self._count += 1
        self._lines.append(f"  %n{self._count} = {instruction}")
        return f"%n{self._count}"

    def _constant(self, value: float) -> str:
        return double(value) if self.lanes == 1 else sincos.splat(self.lanes, value)

    def _pointers(self) -> None:
        used = sorted({node.place[0] for node in self.program.nodes if node.op == "input"})
        results = [result for result, size in enumerate(self.program.result_sizes) if size]
        for table, letter, indices in (("in", "i", used), ("out", "o", results)):
            for index in indices:
                self._lines.append(f"  %{letter}{index}p = getelementptr ptr, ptr %{table}, i64 {index}")
                self._lines.append(f"  %{letter}{index} = load ptr, ptr %{letter}{index}p")

    def _store(self) -> None:
        for (result, element), index in self._pending:
            value = self._value(index)
            at = self._place(f"%o{result}", element, self._stride)
            self._lines.append(f"  store {self._kind} {value}, ptr {at}, align 8")
        self._pending = []

    # -- values -------------------------------------------------------------------------------------------------------

    def _value(self, index: int) -> str:
        """IR value of a node as a scalar. If the node was computed in a vector, its value is extracted from there."""
        if index not in self._values:
            vector, lane, width = self._lane[index]
            self._values[index] = self._do(f"extractelement <{width} x double> {vector}, i32 {lane}")
        return self._values[index]

    def _pack(self, a: int, b: int) -> str:
        """IR value of a vector with two lanes: the value of node a and the value of node b."""
        nodes, kind = self.program.nodes, "<2 x double>"
        if (a, b) in self._packs:
            return self._packs[a, b]
        if nodes[a].op == nodes[b].op == "const":
            return f"<double {double(nodes[a].value)}, double {double(nodes[b].value)}>"
        if nodes[a].op == nodes[b].op == "lift":
            made = self._pack(nodes[a].args[0], nodes[b].args[0])
        elif (b, a) in self._packs:
            made = self._do(f"shufflevector {kind} {self._packs[b, a]}, {kind} poison, <2 x i32> <i32 1, i32 0>")
        elif "fneg" in (nodes[a].op, nodes[b].op):
            made = self._signed(a, b)
        elif a in self._lane and b in self._lane:
            made = self._shuffled(self._lane[a], self._lane[b])
        else:
            first = self._do(f"insertelement {kind} poison, double {self._value(a)}, i32 0")
            made = self._do(f"insertelement {kind} {first}, double {self._value(b)}, i32 1")
        self._packs[a, b] = made
        return made

    def _signed(self, a: int, b: int) -> str:
        """IR value of a vector with two lanes: the values of the nodes a and b, of which at least one is a negation.

        The code packs the nodes, with the argument in place of each negation, and then flips the signs of the lanes of
        the negations.
        """
        nodes, signs, bare = self.program.nodes, [], []
        for index in (a, b):
            negative = nodes[index].op == "fneg"
            signs.append(f"i64 {-(2**63) if negative else 0}")
            bare.append(nodes[index].args[0] if negative else index)
        bits = self._do(f"bitcast <2 x double> {self._pack(bare[0], bare[1])} to <2 x i64>")
        turned = self._do(f"xor <2 x i64> {bits}, <{', '.join(signs)}>")
        return self._do(f"bitcast <2 x i64> {turned} to <2 x double>")

    def _shuffled(self, first: tuple[str, int, int], second: tuple[str, int, int]) -> str:
        (u, i, n), (w, j, m) = first, second
        if n != m:
            one = [self._do(f"extractelement <{k} x double> {x}, i32 {at}") for x, at, k in (first, second)]
            made = self._do(f"insertelement <2 x double> poison, double {one[0]}, i32 0")
            return self._do(f"insertelement <2 x double> {made}, double {one[1]}, i32 1")
        j = j if u == w else j + n
        return self._do(f"shufflevector <{n} x double> {u}, <{n} x double> {w}, <2 x i32> <i32 {i}, i32 {j}>")

    # -- units --------------------------------------------------------------------------------------------------------

    def _make(self, unit: Unit) -> None:
        node = self.program.nodes[unit[0]]
        if node.op in TRIGONOMETRIC:
            self._angles(unit)
        elif len(unit) == 2 and (node.op in LANEWISE or node.op.startswith("llvm.")):
            self._pair(unit[0], unit[1])
        else:
            for index in unit:
                self._values[index] = self._single(self.program.nodes[index])

    def _pair(self, a: int, b: int) -> None:
        nodes = self.program.nodes
        op, kind = nodes[a].op, "<2 x double>"
        args = [self._pack(x, y) for x, y in zip(nodes[a].args, nodes[b].args, strict=True)]
        if op.startswith("llvm."):
            made = self._do(f"call {FLAGS} {kind} @{op}.v2f64({', '.join(f'{kind} {arg}' for arg in args)})")
        else:
            made = self._do(f"{op} {FLAGS} {kind} {', '.join(args)}")
        self._packs[a, b] = made
        self._lane[a], self._lane[b] = (made, 0, 2), (made, 1, 2)

    def _single(self, node: Node) -> str:
        if node.op == "const":
            return self._constant(node.value)
        if node.op == "input":
            self._unread -= 1
            name = self.program.input_names[node.place[0]]
            if name in self._shared:
                return self._spread(node)
            stride = self._stride if name in self._strided else self.lanes
            at = self._place(f"%i{node.place[0]}", node.place[1], stride)
            return self._do(f"load {self._kind}, ptr {at}, align 8")
        args = [self._value(arg) for arg in node.args]
        if node.op == "lift":
            return args[0]
        if self._fuses and node.op in ("fadd", "fsub"):
            return self._sum(node, args)
        if node.op in LANEWISE:
            return self._do(f"{node.op} {self._flags}{self._kind} {', '.join(args)}")
        if node.op.startswith("llvm."):
            return self._do(f"call {self._kind} @{node.op}.{self._suffix}({self._typed(args)})")
        if node.op in CALLS.values():
            return self._library(node.op, args)
        return self._choice(node.op, args)

    def _place(self, array: str, element: int, stride: int) -> str:
        """IR value of the address of an element of an array whose elements are `stride` numbers apart."""
        kind, number = (self._kind, element) if stride == self.lanes else ("double", element * stride)
        return self._do(f"getelementptr {kind}, ptr {array}, i64 {number}")

    def _spread(self, node: Node) -> str:
        """IR value of an element of a shared argument, in all lanes."""
        at = self._do(f"getelementptr double, ptr %i{node.place[0]}, i64 {node.place[1]}")
        one = self._do(f"load double, ptr {at}, align 8")
        if self.lanes == 1:
            return one
        first = self._do(f"insertelement {self._kind} poison, double {one}, i32 0")
        mask = f"<{self.lanes} x i32> zeroinitializer"
        return self._do(f"shufflevector {self._kind} {first}, {self._kind} poison, {mask}")

    def _sum(self, node: Node, args: list[str]) -> str:
        """IR value of a sum or difference of two terms.

        If a term is a product that no other node uses, the product and the sum become one fused multiply-add.
        """
        for place in (0, 1):
            index = node.args[place]
            product = self.program.nodes[index]
            if product.op == "fmul" and self._uses[index] == 1:
                a, b = (self._value(factor) for factor in product.args)
                return fused_sum(self._do, self._kind, node.op, (a, b), args[1 - place], product_first=place == 0)
        return self._do(f"{node.op} {self._kind} {', '.join(args)}")

    def _typed(self, args: list[str]) -> str:
        return ", ".join(f"{self._kind} {arg}" for arg in args)

    def _library(self, name: str, args: list[str]) -> str:
        if self.lanes == 1:
            return self._do(f"call double @{name}({self._typed(args)})")
        made = "poison"
        for lane in range(self.lanes):
            ones = [self._do(f"extractelement {self._kind} {arg}, i32 {lane}") for arg in args]
            value = self._do(f"call double @{name}({', '.join(f'double {one}' for one in ones)})")
            made = self._do(f"insertelement {self._kind} {made}, double {value}, i32 {lane}")
        return made

    def _choice(self, op: str, args: list[str]) -> str:
        kind, zero = self._kind, self._constant(0.0)
        flag_kind = "i1" if self.lanes == 1 else f"<{self.lanes} x i1>"
        if op in COMPARISONS:
            flag = self._do(f"fcmp {op} {kind} {args[0]}, {args[1]}")
            return self._do(f"uitofp {flag_kind} {flag} to {kind}")
        if op == "if":
            flag = self._do(f"fcmp une {kind} {args[0]}, {zero}")
            return self._do(f"select {flag_kind} {flag}, {kind} {args[1]}, {kind} {zero}")
        above, below = (self._do(f"fcmp {test} {kind} {args[0]}, {zero}") for test in ("ogt", "olt"))
        signs = [self._do(f"uitofp {flag_kind} {flag} to {kind}") for flag in (above, below)]
        return self._do(f"fsub {kind} {signs[0]}, {signs[1]}")

    # -- angles -------------------------------------------------------------------------------------------------------

    def _angles(self, unit: Unit) -> None:
        """Write the sines and cosines of one group of angles.

        A branch at run time chooses between vector code and, for large angles, the C library.
        """
        nodes = self.program.nodes
        angles = list(dict.fromkeys(nodes[index].args[0] for index in unit))
        twin = dict(self._pairs) | {b: a for a, b in self._pairs}
        angles = [x for a in angles if twin.get(a, a) >= a for x in dict.fromkeys((a, twin.get(a, a))) if x in angles]
        chunks = self._chunks(angles)
        self.widths |= {width for _, width, _ in chunks}
        both = [f"{{<{width} x double>, <{width} x double>}}" for _, width, _ in chunks]
        flags = [self._do(f"call i1 @is_large_{width}(<{width} x double> {vector})") for vector, width, _ in chunks]
        large = flags[0]
        for flag in flags[1:]:
            large = self._do(f"or i1 {large}, {flag}")
        self._count += 1
        label = f"angles{self._count}"
        self._lines.append(f"  br i1 {large}, label %{label}any, label %{label}fast")
        made: list[list[str]] = []
        for end, function in (("any", "sincos_any"), ("fast", "sincos")):
            self._lines.append(f"{label}{end}:")
            calls = [self._do(f"call {kind} @{function}_{width}(<{width} x double> {vector})")
                     for kind, (vector, width, _) in zip(both, chunks, strict=True)]  # fmt: skip
            parts = [self._do(f"extractvalue {kind} {call}, {part}")
                     for kind, call in zip(both, calls, strict=True) for part in (0, 1)]  # fmt: skip
            made.append(parts)
            self._lines.append(f"  br label %{label}")
        self._lines.append(f"{label}:")
        sources = list(zip(*made, strict=True))
        for number, (_, width, members) in enumerate(chunks):
            for part, name in enumerate(TRIGONOMETRIC):
                slow, fast = sources[2 * number + part]
                vector = self._do(f"phi <{width} x double> [{slow}, %{label}any], [{fast}, %{label}fast]")
                self._take_out(unit, name, vector, width, members)

    def _chunks(self, angles: list[int]) -> list[tuple[str, int, list[int]]]:
        """(IR value of a vector, number of lanes, nodes of the angles) of each vector into which the angles are packed.

        In a kernel for several systems, each vector has one angle, with one lane per system.
        """
        if self.lanes > 1:
            return [(self._value(angle), self.lanes, [angle]) for angle in angles]
        chunks = []
        for begin in range(0, len(angles), WIDEST):
            members = angles[begin : begin + WIDEST]
            width = next(width for width in (2, 4, 8) if width >= len(members))
            vector = f"<{', '.join(['double 0.0'] * width)}>"
            for lane, angle in enumerate(members):
                vector = self._do(f"insertelement <{width} x double> {vector}, double {self._value(angle)}, i32 {lane}")
            chunks.append((vector, width, members))
        return chunks

    def _take_out(self, unit: Unit, name: str, vector: str, width: int, members: list[int]) -> None:
        nodes = self.program.nodes
        for index in unit:
            if nodes[index].op == name and nodes[index].args[0] in members:
                if self.lanes > 1:
                    self._values[index] = vector
                else:
                    self._lane[index] = (vector, members.index(nodes[index].args[0]), width)
