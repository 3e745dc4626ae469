"""Sweeps over the links of a tree: the steps of recursive algorithms, one function per kind of joint.

All vectors are in the world's axes, so that nothing but constants has to be rotated. The steps are those of the
unrolled derivation (recursive.py), which writes them out link by link.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import casadi as ca

from sim_core.derivation.coordinates.articulated import Articulated, Wrench
from sim_core.derivation.coordinates.recursive import LinkMotion, carried_motion, motion_of_ground, wrench_of
from sim_core.derivation.rolled.tree.links import N_INERTIA, Links, turned, unpacked
from sim_core.kernels.rolled import Group, Records, Sweep
from sim_core.mechanism.description import Mechanism

N_ARTICULATED = 27  # numbers of an articulated-body inertia
ANGLES = 8  # angles whose sines and cosines are computed together


@dataclass(frozen=True)
class Slot:
    """A value that a step reads or writes: the record of the link, or of its parent, in an array."""

    array: str
    value: ca.SX
    of_parent: bool = False


Step = tuple[Sequence[Slot], Sequence[Slot]]  # inputs, which are symbols; results


@dataclass(frozen=True)
class Kind:
    """A kind of link, see `Link`: "revolute", "prismatic", "oriented" or "following"."""

    name: str

    def parts(self, axis: ca.SX) -> tuple[ca.SX, ca.SX]:
        """Angular and linear velocity of the link per unit of joint velocity, given its z axis."""
        return (ca.SX(3, 1), axis) if self.name == "prismatic" else (axis, ca.SX(3, 1))


class Tree:
    """Sweeps over the links of a mechanism. Arrays with one record per link have a last record for the ground.

    rate  array with the velocities of the joints; with spherical or free joints it is an intermediate array, which
          holds angular velocities in place of the rates of rotation coordinates
    """

    def __init__(self, mechanism: Mechanism, links: Links) -> None:
        self.mechanism, self.links, self.n = mechanism, links, links.count
        names = [link.kind for link in links.links]
        self.kinds = [Kind(name) for name in dict.fromkeys(names)]
        of_kind = [[kind.name for kind in self.kinds].index(name) for name in names]
        self._members = [[k for k, own in enumerate(of_kind) if own == kind] for kind in range(len(self.kinds))]
        self._runs = _runs(of_kind)
        self.rate = "rate" if links.oriented else "v"

    # -- sweeps -------------------------------------------------------------------------------------------------------

    def sweep(self, name: str, step: Callable[[Kind], Step], backward: bool = False) -> Sweep:
        """Sweep over all links, from the first to the last or backward.

        name  begin of the names of the functions
        step  function that returns the inputs and results of a link of some kind
        """
        groups = []
        for kind, members in zip(self.kinds, self._members, strict=True):
            inputs, results = step(kind)
            groups.append(
                Group(
                    function_of(f"{name}_{kind.name}", inputs, results),
                    [self._records(slot, members) for slot in inputs],
                    [self._records(slot, members) for slot in results],
                    len(members),
                )
            )
        return Sweep(groups, self._runs, backward)

    def _records(self, slot: Slot, members: Sequence[int]) -> Records:
        rows = [self._parents[k] for k in members] if slot.of_parent else members
        return Records(slot.array, slot.value.numel(), rows)

    @cached_property
    def _parents(self) -> list[int]:
        return [self.n if link.parent < 0 else link.parent for link in self.links.links]

    def ground(self, name: str, results: dict[str, ca.SX]) -> Sweep:
        """Sweep that writes the ground's record of some arrays: constants."""
        slots = [Slot(array, value) for array, value in results.items()]
        outputs = [Records(slot.array, slot.value.numel(), [self.n]) for slot in slots]
        return Sweep.of(Group(function_of(name, [], slots), [], outputs, 1))

    def clear(self, array: str, width: int) -> Sweep:
        """Sweep that sets the records of all links and of the ground to zero."""
        function = function_of(f"clear_{width}", [], [Slot(array, ca.SX.zeros(width))])
        return Sweep.of(Group(function, [], [Records(array, width)], self.n + 1))

    def angles(self) -> list[Sweep]:
        """Sweeps that compute the sines and cosines of all coordinates."""
        found, begin = list[Sweep](), 0
        for width in (ANGLES, 1):
            count = (self.n - begin) // width
            if not count:
                continue
            q = ca.SX.sym("q", width)
            function = function_of(
                f"angles_{width}", [Slot("q", q)], [Slot("sine", ca.sin(q)), Slot("cosine", ca.cos(q))]
            )
            rows = range(begin // width, begin // width + count)
            places = [Records(array, width, rows) for array in ("q", "sine", "cosine")]
            found.append(Sweep.of(Group(function, places[:1], places[1:], count)))
            begin += count * width
        return found

    # -- steps --------------------------------------------------------------------------------------------------------

    def pose(self, kind: Kind, R_P: ca.SX) -> tuple[list[Slot], ca.SX, ca.SX]:
        """(inputs, vector r from the parent's origin to the link's, rotation R of the link) in the world's axes."""
        pose = ca.SX.sym("pose", 12)
        turn = R_P @ matrix(pose[3:])
        inputs, r = [Slot("poses", pose)], R_P @ pose[:3]
        if kind.name == "revolute":
            s, c = ca.SX.sym("sine"), ca.SX.sym("cosine")
            R = ca.horzcat(c * turn[:, 0] + s * turn[:, 1], c * turn[:, 1] - s * turn[:, 0], turn[:, 2])
            return [*inputs, Slot("sine", s), Slot("cosine", c)], r, R
        if kind.name == "oriented":
            own = ca.SX.sym("turn", 9)
            return [*inputs, Slot("turn", own)], r, (turn @ matrix(own))[:, [1, 2, 0]]  # its z axis is the child's x
        if kind.name == "following":
            return inputs, r, turn
        q = ca.SX.sym("q")
        return [*inputs, Slot("q", q)], r + turn[:, 2] * q, turn

    def moving(self, kind: Kind, driven: bool, with_inertia: bool) -> Step:
        """Step outward: pose and motion of a link, its inertia and the wrench that its motion needs.

        driven        whether the joints have the accelerations in the array "drive"; otherwise these are zero
        with_inertia  whether the link's inertia is a result
        """
        R_P, before = ca.SX.sym("R", 9), ca.SX.sym("motion", 18)
        rate, a = ca.SX.sym("rate"), ca.SX.sym("a") if driven else ca.SX(0)
        numbers = ca.SX.sym("inertia", N_INERTIA)
        inputs, r, R = self.pose(kind, matrix(R_P))
        axis = R[:, 2]
        motion = carried_motion(motion_from(before), r, ca.SX.eye(3), *kind.parts(axis), rate, a)
        inertia = turned(unpacked(numbers), R)
        n, F = wrench_of(inertia, motion, ca.SX(3, 1), ca.SX(3, 1))
        inputs += [
            Slot("R", R_P, of_parent=True),
            Slot("motion", before, of_parent=True),
            Slot("inertias", numbers),
            Slot(self.rate, rate),
            *([Slot("drive", a)] if driven else []),
        ]
        results = [
            Slot("R", ca.vec(R)),
            Slot("motion", ca.vertcat(motion.w, motion.dw, motion.a, ca.vec(motion.spin))),
            Slot("axis", axis),
            Slot("reach", r),
            Slot("wrench", ca.vertcat(n, F)),
            *([Slot("inertia", entries_of(Articulated.of(inertia)))] if with_inertia else []),
        ]
        return inputs, results

    def ground_motion(self) -> dict[str, ca.SX]:
        """Records of the ground in the arrays that `moving` writes for its children."""
        motion = motion_of_ground(self.mechanism)
        return {
            "R": ca.vec(ca.SX.eye(3)),
            "motion": ca.vertcat(motion.w, motion.dw, motion.a, ca.vec(motion.spin)),
            "wrench": ca.SX.zeros(6),
        }

    def eliminating(self, kind: Kind) -> Step:
        """Step inward: eliminate a joint, and add the link's articulated-body inertia and wrench to its parent's."""
        axis, r, entries, wrench = symbols_of(s=3, r=3, I=N_ARTICULATED, f=6)
        before, wrench_P = ca.SX.sym("I_P", N_ARTICULATED), ca.SX.sym("f_P", 6)
        numbers, effort = ca.SX.sym("numbers", 3), ca.SX.sym("effort")
        own, parts = articulated(entries), kind.parts(axis)
        U = own.times(*parts)
        inverse = 1 / (ca.dot(parts[0], U[0]) + ca.dot(parts[1], U[1]) + numbers[2])
        rest = effort - ca.dot(parts[0], wrench[:3]) - ca.dot(parts[1], wrench[3:])
        V = U[0] + ca.cross(r, U[1]), U[1]
        # the elimination is last: all else does not wait for the division
        total = articulated(before).plus(own.moved(r)).without(V, inverse)
        inputs = [
            Slot("numbers", numbers),
            Slot("effort", effort),
            Slot("axis", axis),
            Slot("reach", r),
            Slot("inertia", entries),
            Slot("wrench", wrench),
            Slot("inertia", before, of_parent=True),
            Slot("wrench", wrench_P, of_parent=True),
        ]
        results = [
            Slot("V", ca.vertcat(*V)),
            Slot("inverse", inverse),
            Slot("rest", rest),
            Slot("inertia", entries_of(total), of_parent=True),
            Slot("wrench", _passed_on(wrench, wrench_P, r, V, rest * inverse), of_parent=True),
        ]
        return inputs, results

    def solving(self, kind: Kind, right: str) -> Step:
        """Step inward with a known factor: what is left of the right-hand side, array `right`, at a joint."""
        axis, r, V, wrench = symbols_of(s=3, r=3, V=6, f=6)
        inverse, wrench_P, r1 = ca.SX.sym("inverse"), ca.SX.sym("f_P", 6), ca.SX.sym("r1")
        parts = kind.parts(axis)
        rest = r1 - ca.dot(parts[0], wrench[:3]) - ca.dot(parts[1], wrench[3:])
        inputs = [
            Slot(right, r1),
            Slot("axis", axis),
            Slot("reach", r),
            Slot("V", V),
            Slot("inverse", inverse),
            Slot("wrench", wrench),
            Slot("wrench", wrench_P, of_parent=True),
        ]
        passed = _passed_on(wrench, wrench_P, r, (V[:3], V[3:]), rest * inverse)
        return inputs, [Slot("rest", rest), Slot("wrench", passed, of_parent=True)]

    def accelerating(self, kind: Kind) -> Step:
        """Step outward: acceleration x of a joint, and the part of the link's acceleration that comes from x."""
        axis, r, V, gained = symbols_of(s=3, r=3, V=6, gain=6)
        inverse, rest = ca.SX.sym("inverse"), ca.SX.sym("rest")
        parts = kind.parts(axis)
        w, v, over = gained[:3], gained[3:], V * inverse
        x = rest * inverse - (ca.dot(over[:3], w) + ca.dot(over[3:], v))
        inputs = [
            Slot("axis", axis),
            Slot("reach", r),
            Slot("V", V),
            Slot("inverse", inverse),
            Slot("rest", rest),
            Slot("gain", gained, of_parent=True),
        ]
        return inputs, [Slot("gain", ca.vertcat(w + parts[0] * x, v + ca.cross(w, r) + parts[1] * x)), Slot("x", x)]

    def loading(self, kind: Kind) -> Step:
        """Step inward: effort that a joint needs for the links' wrenches, and the wrench on the link's parent."""
        axis, r, wrench, wrench_P = symbols_of(s=3, r=3, f=6, f_P=6)
        parts = kind.parts(axis)
        needed = ca.dot(parts[0], wrench[:3]) + ca.dot(parts[1], wrench[3:])
        passed = ca.vertcat(wrench_P[:3] + wrench[:3] + ca.cross(r, wrench[3:]), wrench_P[3:] + wrench[3:])
        inputs = [Slot("axis", axis), Slot("reach", r), Slot("wrench", wrench), Slot("wrench", wrench_P, True)]
        return inputs, [Slot("needed", needed), Slot("wrench", passed, of_parent=True)]


def symbols_of(**sizes: int) -> list[ca.SX]:
    """Columns of symbols with these names and sizes."""
    return [ca.SX.sym(name, size) for name, size in sizes.items()]


def function_of(name: str, inputs: Sequence[Slot], results: Sequence[Slot]) -> ca.Function:
    """CasADi function of a step."""
    names = [f"input_{k}" for k in range(len(inputs))], [f"result_{k}" for k in range(len(results))]
    return ca.Function(name, [i.value for i in inputs], [ca.densify(r.value) for r in results], *names)


def over(name: str, count: int, inputs: Sequence[Slot], results: Sequence[Slot]) -> Sweep:
    """Sweep over `count` elements, each of which has the record of its own number in every array."""
    given, targets = ([Records(slot.array, slot.value.numel()) for slot in slots] for slots in (inputs, results))
    return Sweep.of(Group(function_of(name, inputs, results), given, targets, count))


def _passed_on(wrench: ca.SX, wrench_P: ca.SX, r: ca.SX, V: Wrench, x: ca.SX) -> ca.SX:
    """Wrench (6,) on the parent after a joint is eliminated.

    V  product of the articulated-body inertia with the joint's axis, about the parent's origin
    x  acceleration of the joint if its parent does not accelerate
    """
    n, F = wrench[:3] + ca.cross(r, wrench[3:]), wrench[3:]
    return ca.vertcat(wrench_P[:3] + n + V[0] * x, wrench_P[3:] + F + V[1] * x)


def matrix(columns: ca.SX) -> ca.SX:
    """Matrix (3, 3) from its nine entries, column by column."""
    return ca.reshape(columns, 3, 3)


def motion_from(numbers: ca.SX) -> LinkMotion:
    """Motion of a link from the numbers of its record in the array "motion"."""
    return LinkMotion(numbers[:3], numbers[3:6], numbers[6:9], matrix(numbers[9:]))


def entries_of(inertia: Articulated) -> ca.SX:
    """The numbers of an articulated-body inertia, in the order of `articulated`."""
    return ca.veccat(inertia.A, inertia.B, inertia.C)


def articulated(entries: ca.SX) -> Articulated:
    """Articulated-body inertia from its 27 numbers: the matrices A, B, C, column by column."""
    return Articulated(matrix(entries[:9]), matrix(entries[9:18]), matrix(entries[18:]))


def _runs(of_kind: Sequence[int]) -> list[tuple[int, int, int]]:
    """(kind, first element of the run among those of its kind, length) of each run of consecutive links of a kind."""
    found, counts = list[tuple[int, int, int]](), dict[int, int]()
    for kind in of_kind:
        at = counts.get(kind, 0)
        if found and found[-1][0] == kind:
            found[-1] = kind, found[-1][1], found[-1][2] + 1
        else:
            found.append((kind, at, 1))
        counts[kind] = at + 1
    return found
