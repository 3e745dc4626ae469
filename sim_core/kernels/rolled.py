"""Kernels that run loops ("rolled" kernels) over arrays of constants, topology and intermediate results.

A rolled kernel is a sequence of sweeps. A sweep evaluates functions for elements, such as the links of a tree, in
ascending or descending order. All elements of one kind share one function, which is compiled once; the numbers in which
they differ are rows of constant tables. The time and the memory to compile a rolled kernel therefore depend on the
number of kinds, not on the number of elements. The calling convention is that of all kernels (see emit.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import casadi as ca
import numpy as np

from sim_core.kernels import sincos
from sim_core.kernels.emit import declarations
from sim_core.kernels.machine_code.native import symbol_name
from sim_core.kernels.program import program_of
from sim_core.kernels.sincos import double
from sim_core.kernels.triples import text_of

MOST_ON_STACK = 2**18  # bytes of intermediate arrays; more of them are allocated from the heap in each call


@dataclass(frozen=True)
class Records:
    """The records of an array that the elements of a group read or write.

    array   name of the array: of a kernel's argument or result, of a constant table, or of an intermediate array
    width   numbers in a record
    rows    index of the record of each element; None if element k has record k
    stride  number of records by which these move on from one repetition to the next (see Repeat)
    step    numbers between the begins of two records that follow each other, by default `width`; with a step of 1 the
            rows are the first numbers of records of any widths
    moving  records of one number each, which is found while the kernel runs and added to the index
    """

    array: str
    width: int
    rows: Sequence[int] | None = None
    stride: int = 0
    step: int = 0
    moving: Records | None = None


@dataclass(frozen=True)
class Group:
    """Elements of one kind, in ascending order.

    function   CasADi function of one element, with dense results. It reads all inputs before it writes a result, so
               that an input and a result may be the same record
    inputs     records of the function's inputs
    outputs    records of the function's results
    """

    function: ca.Function
    inputs: Sequence[Records]
    outputs: Sequence[Records]
    count: int


@dataclass(frozen=True)
class Sweep:
    """Evaluation of all elements of some groups.

    runs      (index of a group, first element of the run, number of elements) of each run of elements of one group
    backward  whether the runs, and the elements of each run, are evaluated from the last to the first
    """

    groups: Sequence[Group]
    runs: Sequence[tuple[int, int, int]]
    backward: bool = False

    @staticmethod
    def of(group: Group, backward: bool = False) -> Sweep:
        """Sweep of a single group."""
        return Sweep([group], [(0, 0, group.count)], backward)


@dataclass(frozen=True)
class Repeat:
    """Repetition of some sweeps, whose records may move on from one repetition to the next (`Records.stride`)."""

    sweeps: Sequence[Sweep]
    count: int


@dataclass
class RolledKernel:
    """A kernel as a sequence of sweeps.

    inputs, outputs  names of the kernel's arguments and results, in order
    arrays           {intermediate array: number of its entries}
    views            {array: (array of which it is a part, first entry)}
    """

    name: str
    inputs: Sequence[str]
    outputs: Sequence[str]
    arrays: Mapping[str, int]
    sweeps: Sequence[Sweep | Repeat]
    views: Mapping[str, tuple[str, int]] = field(default_factory=dict)


def module_of_rolled(kernels: Iterable[RolledKernel], tables: Mapping[str, np.ndarray]) -> str:
    """LLVM IR of a module with rolled kernels.

    tables  {name: (rows, width) numbers} of the constant tables, which all kernels share
    """
    writer = _Writer(tables)
    bodies = [writer.kernel(kernel) for kernel in kernels]
    angles = [sincos.definitions(width) for width in sorted(writer.widths)]
    heap = ["declare noalias ptr @malloc(i64) nounwind", "declare void @free(ptr) nounwind"]
    return (
        "\n\n".join([*declarations(1), *heap, *angles, *writer.functions.values(), *writer.constants, *bodies]) + "\n"
    )


class _Writer:
    """Writer of a module; equal functions and tables are written once."""

    def __init__(self, tables: Mapping[str, np.ndarray]) -> None:
        self.functions: dict[str, str] = {}
        self._names: dict[str, str] = {}
        self.constants: list[str] = []
        self.widths: set[int] = set()
        self._tables = tables
        self._used: dict[str, str] = {}
        self._rows: dict[tuple[int, ...], str] = {}
        self._pointers: dict[str, None] = {}

    def kernel(self, kernel: RolledKernel) -> str:
        lines: list[str] = []
        bases: dict[str, str] = {}
        for table, names in (("in", kernel.inputs), ("out", kernel.outputs)):
            for k, name in enumerate(names):
                lines.append(f"  %{table}{k}p = getelementptr ptr, ptr %{table}, i64 {k}")
                lines.append(f"  %{table}{k} = load ptr, ptr %{table}{k}p")
                bases[name] = f"%{table}{k}"
        total = sum(kernel.arrays.values())
        on_heap = 8 * total > MOST_ON_STACK
        held = f"call noalias ptr @malloc(i64 {8 * total})" if on_heap else f"alloca [{total} x double], align 64"
        lines += [f"  %arrays = {held}"] if total else []
        first = 0
        for k, (name, size) in enumerate(kernel.arrays.items()):
            lines.append(f"  %array{k} = getelementptr double, ptr %arrays, i64 {first}")
            bases[name] = f"%array{k}"
            first += size
        for k, (name, (whole, first)) in enumerate(kernel.views.items()):
            lines.append(f"  %view{k} = getelementptr double, ptr {bases[whole]}, i64 {first}")
            bases[name] = f"%view{k}"
        self._pointers = {}
        allocas, body = self._parts(kernel.sweeps, "s", "end", bases, "")
        # a constant is addressed through a pointer: its address may need more than 32 bits
        lines += [f"  %{name} = load volatile ptr, ptr @{name}" for name in self._pointers]
        head = f"define void @{symbol_name(*kernel.name.split('.'))}"
        # the address of a jump table may need more than 32 bits, too
        head += '(ptr noalias readonly %in, ptr noalias readonly %out) nounwind "no-jump-tables"="true" {'
        begin = ["entry:", *lines, *allocas, "  br label %s0" if kernel.sweeps else "  br label %end"]
        end = ["end:", *(["  call void @free(ptr %arrays)"] if on_heap else []), "  ret void", "}"]
        return "\n".join([head, *begin, *body, *end])

    def _parts(
        self, sweeps: Sequence[Sweep | Repeat], prefix: str, following: str, bases: Mapping[str, str], outer: str
    ) -> tuple[list[str], list[str]]:
        """(allocations, code) of sweeps; the code begins with the label `prefix`0 and branches to `following`.

        outer  IR value of the number of the repetition; "" outside a Repeat
        """
        allocas, code = list[str](), list[str]()
        for number, sweep in enumerate(sweeps):
            label, after = f"{prefix}{number}", f"{prefix}{number + 1}" if number + 1 < len(sweeps) else following
            if isinstance(sweep, Sweep):
                own, lines = self._sweep(sweep, label, after, bases, outer)
            else:
                own, inside = self._parts(sweep.sweeps, f"{label}r", f"{label}again", bases, f"%{label}outer")
                lines = [
                    f"{label}:",
                    f"  br label %{label}repeat",
                    f"{label}repeat:",
                    f"  %{label}outer = phi i64 [0, %{label}], [%{label}following, %{label}again]",
                    f"  br label %{label}r0",
                    *inside,
                    f"{label}again:",
                    f"  %{label}following = add i64 %{label}outer, 1",
                    f"  %{label}left = icmp ult i64 %{label}following, {sweep.count}",
                    f"  br i1 %{label}left, label %{label}repeat, label %{after}",
                ]
            allocas += own
            code += lines
        return allocas, code

    def _sweep(
        self, sweep: Sweep, label: str, following: str, bases: Mapping[str, str], outer: str
    ) -> tuple[list[str], list[str]]:
        """(allocations, code) of a sweep; the code begins with `label` and ends with a branch to `following`."""
        if len(sweep.runs) == 1:
            kind, begin, count = sweep.runs[0]
            span = (str(begin), str(begin + count))
            return self._loop(sweep.groups[kind], label, following, bases, span, sweep.backward, outer)
        runs = [number for run in (reversed(sweep.runs) if sweep.backward else sweep.runs)
                for number in (run[0], run[1], run[1] + run[2])]  # fmt: skip
        table = self._index_table(runs)
        code = [
            f"{label}:",
            f"  br label %{label}run",
            f"{label}run:",
            f"  %{label}r = phi i64 [0, %{label}], [%{label}rnext, %{label}ran]",
            f"  %{label}at = mul i64 %{label}r, 3",
        ]
        for k, name in enumerate(("kind", "begin", "end")):
            code += [
                f"  %{label}{name}i = add i64 %{label}at, {k}",
                f"  %{label}{name}p = getelementptr i32, ptr {table}, i64 %{label}{name}i",
                f"  %{label}{name}n = load i32, ptr %{label}{name}p",
                f"  %{label}{name} = sext i32 %{label}{name}n to i64",
            ]
        cases = " ".join(f"i64 {k}, label %{label}g{k}" for k in range(len(sweep.groups)))
        code.append(f"  switch i64 %{label}kind, label %{label}ran [ {cases} ]")
        allocas = []
        for k, group in enumerate(sweep.groups):
            span = (f"%{label}begin", f"%{label}end")
            own, loop = self._loop(group, f"{label}g{k}", f"{label}ran", bases, span, sweep.backward, outer)
            allocas += own
            code += loop
        code += [
            f"{label}ran:",
            f"  %{label}rnext = add i64 %{label}r, 1",
            f"  %{label}rmore = icmp ult i64 %{label}rnext, {len(sweep.runs)}",
            f"  br i1 %{label}rmore, label %{label}run, label %{following}",
        ]
        return allocas, code

    def _loop(
        self,
        group: Group,
        label: str,
        following: str,
        bases: Mapping[str, str],
        span: tuple[str, str],
        backward: bool,
        outer: str,
    ) -> tuple[list[str], list[str]]:
        """(allocations, code) of the loop over the elements from span[0] to before span[1]."""
        n_in, n_out = len(group.inputs), len(group.outputs)
        allocas = [f"  %{label}in = alloca [{max(n_in, 1)} x ptr]", f"  %{label}out = alloca [{max(n_out, 1)} x ptr]"]
        code = [
            f"{label}:",
            f"  %{label}some = icmp ult i64 {span[0]}, {span[1]}",
            f"  br i1 %{label}some, label %{label}loop, label %{following}",
            f"{label}loop:",
            f"  %{label}k = phi i64 [{span[0]}, %{label}], [%{label}next, %{label}loop]",
        ]
        element = f"%{label}k"
        if backward:
            code += [
                f"  %{label}sum = add i64 {span[0]}, {span[1]}",
                f"  %{label}last = sub i64 %{label}sum, 1",
                f"  %{label}e = sub i64 %{label}last, %{label}k",
            ]
            element = f"%{label}e"
        indices: dict[tuple[int, ...], str] = {}
        for side, all_records in (("in", group.inputs), ("out", group.outputs)):
            for k, records in enumerate(all_records):
                index = self._index(records, element, f"{label}{side}{k}", indices, code)
                base = bases.get(records.array) or self._table(records.array)
                name = f"%{label}{side}{k}"
                if records.moving is not None:
                    index = self._moved(index, records.moving, element, f"{label}{side}{k}", bases, indices, code)
                if records.stride:
                    code += [
                        f"  {name}m = mul i64 {outer}, {records.stride}",
                        f"  {name}s = add i64 {index}, {name}m",
                    ]
                    index = f"{name}s"
                code += [
                    f"  {name}o = mul i64 {index}, {records.step or records.width}",
                    f"  {name}a = getelementptr double, ptr {base}, i64 {name}o",
                    f"  {name}p = getelementptr ptr, ptr %{label}{side}, i64 {k}",
                    f"  store ptr {name}a, ptr {name}p",
                ]
        code += [
            f"  call void @{self._function(group.function)}(ptr %{label}in, ptr %{label}out)",
            f"  %{label}next = add i64 %{label}k, 1",
            f"  %{label}more = icmp ult i64 %{label}next, {span[1]}",
            f"  br i1 %{label}more, label %{label}loop, label %{following}",
        ]
        return allocas, code

    def _index(
        self, records: Records, element: str, name: str, known: dict[tuple[int, ...], str], code: list[str]
    ) -> str:
        """IR value of the index of an element's record."""
        if records.rows is None:
            return element
        rows = tuple(records.rows)
        if rows in known:
            return known[rows]
        if rows == tuple(range(rows[0], rows[0] + len(rows))):
            code.append(f"  %{name}i = add i64 {element}, {rows[0]}")
        else:
            code += [
                f"  %{name}q = getelementptr i32, ptr {self._index_table(rows)}, i64 {element}",
                f"  %{name}n = load i32, ptr %{name}q",
                f"  %{name}i = sext i32 %{name}n to i64",
            ]
        known[rows] = f"%{name}i"
        return known[rows]

    def _moved(
        self,
        index: str,
        moving: Records,
        element: str,
        name: str,
        bases: Mapping[str, str],
        known: dict[tuple[int, ...], str],
        code: list[str],
    ) -> str:
        """IR value of an index to which the number of an element's record is added."""
        place = self._index(moving, element, f"{name}y", known, code)
        base = bases.get(moving.array) or self._table(moving.array)
        code += [
            f"  %{name}za = getelementptr double, ptr {base}, i64 {place}",
            f"  %{name}zd = load double, ptr %{name}za",
            f"  %{name}zi = fptosi double %{name}zd to i64",
            f"  %{name}zs = add i64 {index}, %{name}zi",
        ]
        return f"%{name}zs"

    def _index_table(self, rows: Sequence[int]) -> str:
        key = tuple(rows)
        if key not in self._rows:
            self._rows[key] = name = f"rows{len(self._rows)}"
            self._constant(name, "i32", [str(row) for row in key])
        return self._pointer(self._rows[key])

    def _table(self, table: str) -> str:
        if table not in self._used:
            self._used[table] = name = f"numbers{len(self._used)}"
            self._constant(name, "double", [double(x) for x in self._tables[table].ravel().tolist()])
        return self._pointer(self._used[table])

    def _constant(self, name: str, kind: str, values: Sequence[str]) -> None:
        numbers = ", ".join(f"{kind} {value}" for value in values)
        self.constants.append(f"@{name}_values = private constant [{len(values)} x {kind}] [{numbers}], align 64")
        self.constants.append(f"@{name} = private global ptr @{name}_values")

    def _pointer(self, name: str) -> str:
        """IR value of the address of a constant array."""
        self._pointers[name] = None
        return f"%{name}"

    def _function(self, function: ca.Function) -> str:
        """Name of the IR function of a step; equal functions are written once."""
        text, widths = text_of(program_of(function), "NAME")
        if text not in self._names:
            self._names[text] = name = f"step_{len(self._names)}_{function.name()}"
            self.functions[name] = text.replace("@NAME(", f"@{name}(", 1)
            self.widths |= widths
        return self._names[text]
