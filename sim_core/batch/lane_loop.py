"""LLVM IR of a loop that integrates groups of systems and, if asked to, records the range of each system's state.

The systems of a group are integrated together, one per lane of the vector registers. One function contains the stepper,
the inlined kernel `rates` and the running minima and maxima; no time series is stored. The data are in an array
(groups, rows, lanes), the block: entry [i, j, k] is quantity j of the system in lane k of group i. `Layout` names the
rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import casadi as ca

from sim_core.batch.lane_servos import LaneServo, ServoWriter
from sim_core.batch.layout import ANGLES, SYMBOL, Layout
from sim_core.kernels.emit import fused_sum, module_of
from sim_core.kernels.machine_code.native import has_fused_multiply_add
from sim_core.kernels.sincos import double

STAGES = 4
INLINED = 3_000  # lines up to which a kernel is inlined at each of the four stages
CONSTANT = ("u", "gains", "command", "reference")  # rows that a loop does not change
RARELY = '!0 = !{!"branch_weights", i32 1, i32 100}'


def module(
    functions: dict[str, ca.Function], layout: Layout, n_rows: int, lanes: int, servos: Sequence[LaneServo] = ()
) -> str:
    """LLVM module with the function `void ranges(block, groups, first, count, total, h)`.

    functions  {name: kernel}, as `derive_lanes` returns them. `rates` returns the accelerations a and the multipliers
               lam. With a stabilizer, `correction` returns the stabilization U at the beginning of a step, which is
               constant over the step. With spherical or free joints, `rebase` is evaluated at the end of a step
    n_rows     size of lam
    servos     servos that set the efforts of their actuators at the beginning of a step, for the whole step

    In a call of `ranges`, `groups` is the number of groups in the block. The call takes `count` steps of size h and
    begins at step number `first` of a run of `total` steps. Step number `total` only updates the range and does not
    move the systems, so that a whole run has `count` = total + 1. If the layout is not `ranged`, all `count` steps move
    the systems, and each system has its own step number in the block.
    """
    kernel = module_of(functions, lanes=lanes, linkage="internal ", inlined=INLINED, fused=True)
    return "\n".join([kernel, *_Loop(layout, n_rows, lanes, servos).lines(), RARELY]) + "\n"


class _Loop:
    """Writes the LLVM IR of `ranges`, the function that integrates groups of systems and records the state ranges.

    The results of a system do not depend on the number of lanes.
    """

    def __init__(self, layout: Layout, n_rows: int, lanes: int, servos: Sequence[LaneServo]) -> None:
        self._layout, self._n_rows, self._lanes, self._servos = layout, n_rows, lanes, servos
        self._real, self._flags = f"<{lanes} x double>", f"<{lanes} x i1>"
        self._lines: list[str] = []
        self._count = 0
        self._products: dict[str, tuple[str, str]] = {}  # factors of each product
        self._fuses = has_fused_multiply_add()
        self._waiting: list[tuple[str, str, int]] = []  # (value, name, index) stored at the end of a stage

    def lines(self) -> list[str]:
        """Lines of LLVM IR of the function `ranges`, which integrates all lanes of all groups; see `module`."""
        n, sizes = self._layout.n_q, self._layout.sizes
        rows = self._n_rows
        held = {**sizes, "t": 1, "a": n, "lam": rows, "U": rows, "q0": n, "v0": n, "dq": n, "dv": n}
        for name, size in held.items():
            self._add(f"%{name} = alloca [{max(size, 1)} x {self._real}]")
        given = ("t", "q", "v", "u", "p")
        tables = {"in": given, "out": ("a", "lam")}
        if self._layout.n_gains:
            tables |= {"in": (*given, "U"), "correction_in": (*given, "gains"), "correction_out": ("U",)}
        if self._layout.orientations:
            tables |= {"rebase_in": given, "rebase_out": ("q", "v", "p")}
        for table, names in tables.items():
            self._add(f"%{table} = alloca [{len(names)} x ptr]")
            for index, name in enumerate(names):
                at = self._do(f"getelementptr ptr, ptr %{table}, i64 {index}")
                self._add(f"store ptr %{name}, ptr {at}")
        for name, factor in (("half", 0.5), ("whole", 1.0)):
            scaled = self._do(f"fmul double %h, {double(factor)}")
            self._splat(name, scaled)
        self._splat("sixth", self._do(f"fdiv double %h, {double(6.0)}"))
        self._add("%stop = add i64 %first, %count")
        self._add("br label %groups_head")
        self._group_loop()
        head = "ptr noalias %block, i64 %groups, i64 %first, i64 %count, i64 %total, double %h"
        return [
            f"define void @{SYMBOL}({head}) nounwind {{",
            "entry:",
            *self._lines,
            "}",
        ]

    def _add(self, line: str) -> None:
        self._lines.append(f"  {line}")

    def _label(self, name: str) -> None:
        self._lines.append(f"{name}:")

    def _do(self, instruction: str) -> str:
        self._count += 1
        self._add(f"%m{self._count} = {instruction}")
        return f"%m{self._count}"

    def _op(self, op: str, a: str, b: str) -> str:
        """IR value of the operation `op` on the IR values a and b.

        On a processor with fused multiply-add, a sum or difference of which one term is a product becomes one fused
        multiply-add, for any number of lanes.
        """
        if self._fuses and op in ("fadd", "fsub"):
            for term, other in ((a, b), (b, a)):
                if term in self._products:
                    factors = self._products[term]
                    return fused_sum(self._do, self._real, op, factors, other, product_first=term == a)
        value = self._do(f"{op} {self._real} {a}, {b}")
        if op == "fmul":
            self._products[value] = a, b
        return value

    def _splat(self, name: str, scalar: str) -> None:
        one = self._do(f"insertelement {self._real} poison, double {scalar}, i32 0")
        mask = f"<{self._lanes} x i32> zeroinitializer"
        self._add(f"%{name} = shufflevector {self._real} {one}, {self._real} poison, {mask}")

    def _number(self, value: float) -> str:
        return "<" + ", ".join([f"double {double(value)}"] * self._lanes) + ">"

    def _at(self, name: str, index: int) -> str:
        return self._do(f"getelementptr {self._real}, ptr %{name}, i64 {index}")

    def _load(self, name: str, index: int) -> str:
        return self._do(f"load {self._real}, ptr {self._at(name, index)}")

    def _store(self, value: str, name: str, index: int) -> None:
        self._add(f"store {self._real} {value}, ptr {self._at(name, index)}")

    # -- loops --------------------------------------------------------------------------------------------------------

    def _group_loop(self) -> None:
        self._label("groups_head")
        self._add("%g = phi i64 [0, %entry], [%g_next, %group_end]")
        self._add("%g_left = icmp slt i64 %g, %groups")
        self._add("br i1 %g_left, label %group, label %done")
        self._label("group")
        self._add(f"%offset = mul i64 %g, {self._layout.rows}")
        self._add(f"%base = getelementptr {self._real}, ptr %block, i64 %offset")
        for name, index, row in self._rows():
            at = self._do(f"getelementptr {self._real}, ptr %base, i64 {row}")
            self._store(self._do(f"load {self._real}, ptr {at}, align 8"), name, index)
        self._add("br label %steps_head")
        self._step_loop()
        self._label("group_end")
        for name, index, row in self._rows(changed=True):
            at = self._do(f"getelementptr {self._real}, ptr %base, i64 {row}")
            self._add(f"store {self._real} {self._load(name, index)}, ptr {at}, align 8")
        self._add("%g_next = add i64 %g, 1")
        self._add("br label %groups_head")
        self._label("done")
        self._add("ret void")

    def _rows(self, changed: bool = False) -> Iterator[tuple[str, int, int]]:
        row = 0
        for name, size in self._layout.sizes.items():
            for index in range(size):
                constant = name in CONSTANT or (name == "p" and not self._layout.orientations)
                if not (changed and constant):
                    yield name, index, row
                row += 1

    def _step_loop(self) -> None:
        self._label("steps_head")
        self._add("%step = phi i64 [%first, %group], [%step_next, %stages]")
        self._add("%step_left = icmp slt i64 %step, %stop")
        self._add("br i1 %step_left, label %begin, label %group_end")
        self._label("begin")
        self._servo_efforts()
        if self._layout.ranged:
            self._add("%step_real = sitofp i64 %step to double")
            self._splat("step_number", "%step_real")
        else:
            at = self._at("taken", 0)
            self._add(f"%step_number = load {self._real}, ptr {at}")
        if self._layout.n_gains:
            self._store(self._op("fmul", "%step_number", "%whole"), "t", 0)
            self._add("call void @correction(ptr %correction_in, ptr %correction_out)")
        for stage in range(STAGES):
            # t = (step + (stage + 1) // 2 / 2) h
            now = self._op("fadd", "%step_number", self._number(0.5 * ((stage + 1) // 2)))
            self._store(self._op("fmul", now, "%whole"), "t", 0)
            self._add("call void @rates(ptr %in, ptr %out)")
            if stage == 0 and self._layout.ranged:
                self._range_update()
            elif stage == 0:
                self._add("br label %stages")
                self._label("stages")
            self._stage(stage)
        if not self._layout.ranged:
            self._store(self._op("fadd", "%step_number", self._number(1.0)), "taken", 0)
        if self._layout.orientations:
            self._add("call void @rebase(ptr %rebase_in, ptr %rebase_out)")
        self._add("%step_next = add i64 %step, 1")
        self._add("br label %steps_head")

    def _servo_efforts(self) -> None:
        """Write the code that sets the efforts of actuators with a servo, and moves the servos' targets."""
        writer = ServoWriter(self._op, self._pick, self._number)
        for k, servo in enumerate(self._servos):
            x, v = self._load("q", servo.coordinate), self._load("v", servo.coordinate)
            command, before = self._load("command", k), self._load("target", k)
            target, effort = writer.step(servo, x, v, command, before, "%whole")
            self._store(target, "target", k)
            self._store(effort, "u", servo.actuator)

    def _pick(self, test: str, a: str, b: str) -> str:
        return self._select(self._is(test, a, b), a, b)

    def _stage(self, stage: int) -> None:
        """Write the code of one of the four stages of a classical Runge-Kutta step. [HairerNorsettWanner1993, ch. II.1]

        The step is y+ = y + h/6 (k1 + 2 k2 + 2 k3 + k4), with the derivative k_i at stage i.
        """
        for place, rate, start, total in (("q", "v", "q0", "dq"), ("v", "a", "v0", "dv")):
            rates = [self._load(rate, i) for i in range(self._layout.n_q)]
            for i, k in enumerate(rates):
                if stage == 0:
                    begin = self._load(place, i)
                    self._store(begin, start, i)
                    self._store(k, total, i)
                else:
                    begin = self._load(start, i)
                    weighed = k if stage == STAGES - 1 else self._op("fmul", self._number(2.0), k)
                    summed = self._op("fadd", self._load(total, i), weighed)
                    self._store(summed, total, i)
                ahead = ("%half", "%half", "%whole", "%sixth")[stage]
                slope = summed if stage == STAGES - 1 else k
                self._waiting.append((self._op("fadd", begin, self._op("fmul", ahead, slope)), place, i))
        for value, place, i in self._waiting:  # q is written after v has been read
            self._store(value, place, i)
        self._waiting.clear()

    # -- range --------------------------------------------------------------------------------------------------------

    def _range_update(self) -> None:
        """Write the code that extends the range (smallest and largest value so far) of every state at a step.

        The range gets the state at the step, and the extremum since the previous step. Between the two steps, the state
        is taken as the cubic through the values x0, x1 and the slopes d0, d1 at the steps. It has an extremum if d0 and
        d1 differ in sign. A maximum exceeds the larger of x0 and x1 by 4/27 h |d1 - d0| at most, because
        0 <= s (1 - s)^2 <= 4/27 for s from 0 to 1; the same bound holds for a minimum below the smaller of x0 and x1.
        The extremum is computed only if this bound lies outside the range, which is rare. The last line written is the
        label `stages`, so that code that follows belongs to this basic block.
        """
        reach = self._op("fmul", "%whole", self._number(-4.0 / 27.0))
        outside, values, slopes = [], [], []
        for row, (x, d) in enumerate(self._states()):
            low, high = self._extend(x, row)
            x0, d0 = self._load("before", row), self._load("slope", row)
            turned = self._is("olt", self._do(f"fmul {self._real} {d0}, {d}"), self._number(0.0))
            bend = self._op("fmul", reach, self._op("fsub", d, d0))
            above = self._is("ogt", self._op("fadd", self._pick("ogt", x, x0), bend), high)
            below = self._is("olt", self._op("fadd", self._pick("olt", x, x0), bend), low)
            outside.append(self._both("and", turned, self._both("or", above, below)))
            values.append(x)
            slopes.append(d)
        some = outside[0]
        for flag in outside[1:]:
            some = self._both("or", some, flag)
        any_lane = self._do(f"call i1 @llvm.vector.reduce.or.v{self._lanes}i1({self._flags} {some})")
        self._add(f"br i1 {any_lane}, label %cubic, label %kept, !prof !0")
        self._label("cubic")
        for row, (flag, x, d) in enumerate(zip(outside, values, slopes, strict=True)):
            self._extend(self._select(flag, self._extremum(x, d, row), x), row)
        self._add("br label %kept")
        self._label("kept")
        for row, (x, d) in enumerate(zip(values, slopes, strict=True)):
            self._store(x, "before", row)
            self._store(d, "slope", row)
        self._add("%is_last = icmp eq i64 %step, %total")
        self._add("br i1 %is_last, label %group_end, label %stages")
        self._label("stages")

    def _states(self) -> Iterator[tuple[str, str]]:
        """Yield (value, time derivative) of each entry of the state whose range is recorded."""
        for i in self._layout.positions:
            yield self._load("q", i), self._load("v", i)
        for i in range(self._layout.n_q):
            yield self._load("v", i), self._load("a", i)
        rotations = []
        for index, joint in enumerate(self._layout.orientations):
            w, x, y, z = (self._load("p", joint.quaternion + k) for k in range(4))
            if self._layout.relative:
                w, x, y, z = self._from_reference((w, x, y, z), 4 * index)
            a, b, c = (self._op("fmul", self._number(0.5), self._load("v", joint.rotation + k)) for k in range(3))
            # dQ/dt = Q (0, angular velocity) / 2; at a step, the velocities are the angular velocity
            for value, terms in (
                (w, (("fsub", x, a), ("fsub", y, b), ("fsub", z, c))),
                (x, (("fadd", w, a), ("fadd", y, c), ("fsub", z, b))),
                (y, (("fadd", w, b), ("fadd", z, a), ("fsub", x, c))),
                (z, (("fadd", w, c), ("fadd", x, b), ("fsub", y, a))),
            ):
                rate = self._number(0.0)
                for sign, part, velocity in terms:
                    rate = self._op(sign, rate, self._op("fmul", part, velocity))
                rotations.append((value, rate))
        yield from rotations
        if self._layout.relative:
            for first in range(0, len(rotations), 4):
                yield from self._squared_sines(rotations[first + 1 : first + 4])

    def _squared_sines(self, parts: list[tuple[str, str]]) -> Iterator[tuple[str, str]]:
        """Yield (squared sine, time derivative) of half the angle of a rotation, and of half the tilts of x, y, z.

        The squared sine is x^2 + y^2 + z^2 for the angle, and for the tilt of the axis x it is y^2 + z^2.

        parts  (value, time derivative) of the numbers x, y, z of the quaternion
        """
        for chosen in ANGLES:
            square = change = self._number(0.0)
            for value, rate in (parts[k] for k in chosen):
                square = self._op("fadd", square, self._op("fmul", value, value))
                change = self._op("fadd", change, self._op("fmul", value, rate))
            yield square, self._op("fmul", self._number(2.0), change)

    def _from_reference(self, quaternion: tuple[str, str, str, str], first: int) -> Iterator[str]:
        """Yield w x y z of the product conj(reference) quaternion: the rotation from the reference to the attitude.

        At the angular velocity w, the time derivative of this product r is r (0, w) / 2, as for `quaternion`.

        first  index of the first number of the reference
        """
        w, x, y, z = quaternion
        a, b, c, d = (self._load("reference", first + k) for k in range(4))
        for (factor, other), *terms in (
            ((a, w), ("fadd", b, x), ("fadd", c, y), ("fadd", d, z)),
            ((a, x), ("fsub", b, w), ("fsub", c, z), ("fadd", d, y)),
            ((a, y), ("fsub", c, w), ("fsub", d, x), ("fadd", b, z)),
            ((a, z), ("fsub", d, w), ("fsub", b, y), ("fadd", c, x)),
        ):
            total = self._op("fmul", factor, other)
            for sign, left, right in terms:
                total = self._op(sign, total, self._op("fmul", left, right))
            yield total

    def _extremum(self, x: str, d: str, row: int) -> str:
        """Extremum of the cubic through the values x0, x and slopes d0, d at the start and the end of a step of size h.

        With s from 0 to 1, D0 = h d0 and D1 = h d, the cubic is x0 + s (D0 + s (B + s C)), where
        B = 3 (x - x0) - 2 D0 - D1 and C = D0 + D1 - 2 (x - x0). The extremum within the step is at
        s = D0 / (sign(D0) sqrt(B^2 - 3 C D0) - B).
        """
        x0 = self._load("before", row)
        D0 = self._op("fmul", "%whole", self._load("slope", row))
        D1 = self._op("fmul", "%whole", d)
        change = self._op("fsub", x, x0)
        twice, thrice = (self._op("fmul", self._number(factor), change) for factor in (2.0, 3.0))
        B = self._op("fsub", self._op("fsub", thrice, self._op("fmul", self._number(2.0), D0)), D1)
        C = self._op("fsub", self._op("fadd", D0, D1), twice)
        product = self._op("fmul", self._number(3.0), self._op("fmul", C, D0))
        square = self._op("fsub", self._op("fmul", B, B), product)
        kind, end = self._real, f"v{self._lanes}f64"
        square = self._pick("ogt", square, self._number(0.0))
        root = self._do(f"call {kind} @llvm.sqrt.{end}({kind} {square})")
        signed = self._do(f"call {kind} @llvm.copysign.{end}({kind} {root}, {kind} {D0})")
        s = self._op("fdiv", D0, self._op("fsub", signed, B))
        inner = self._op("fadd", B, self._op("fmul", s, C))
        return self._op("fadd", x0, self._op("fmul", s, self._op("fadd", D0, self._op("fmul", s, inner))))

    def _select(self, flag: str, yes: str, no: str) -> str:
        return self._do(f"select {self._flags} {flag}, {self._real} {yes}, {self._real} {no}")

    def _is(self, test: str, a: str, b: str) -> str:
        return self._do(f"fcmp {test} {self._real} {a}, {b}")

    def _both(self, op: str, a: str, b: str) -> str:
        return self._do(f"{op} {self._flags} {a}, {b}")

    def _extend(self, x: str, row: int) -> tuple[str, str]:
        """Write the code that extends the range of a row by the value x.

        Returns the IR values of the smallest and the largest value of the extended range.
        """
        low, high = (self._pick(test, x, self._load(name, row)) for name, test in (("low", "olt"), ("high", "ogt")))
        self._store(low, "low", row)
        self._store(high, "high", row)
        return low, high
