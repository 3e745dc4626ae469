"""Spherical and free joints in rolled kernels: from rotation coordinates to angular velocities, and back.

The three rotational links of such a joint move at the components of the child's angular velocity, w = B v. Their
accelerations are B a + b (see `QuasiVelocities` in orientations.py). B and b of each joint are computed first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import casadi as ca
import numpy as np

from sim_core.derivation.coordinates import orientations
from sim_core.derivation.rolled.tree.links import Links
from sim_core.derivation.rolled.tree.sweeps import Slot, function_of, matrix
from sim_core.derivation.symbols import symbols_for
from sim_core.kernels.rolled import Group, Records, Sweep
from sim_core.mechanism.description import Joint, Mechanism


class Rotations:
    """Sweeps over the spherical and free joints of a tree; no sweeps if there are none.

    fixed  (number of these joints, 9) rotation of each joint at its unit quaternion, column by column
    """

    def __init__(self, mechanism: Mechanism, links: Links) -> None:
        self._mechanism, self._firsts, self._n = mechanism, links.oriented, links.count
        joints = [links.links[first].joint for first in self._firsts]
        self.fixed = np.array([np.array(joint.rotation, dtype=float).T.ravel() for joint in joints]).reshape(-1, 9)
        names = mechanism.parameter_names
        self._quaternions = [names.index(joint.orientation_names[0]) for joint in joints]
        self._joints = joints

    def posture(self) -> list[Sweep]:
        """Rotation "turn" and angular velocity "rate" of each joint, its matrix "B" and the bias "bias" (b)."""
        if not self._joints:
            return []
        q, v, fixed, quaternion = (ca.SX.sym(name, size) for name, size in (("q", 3), ("v", 3), ("R", 9), ("e", 4)))
        R = matrix(fixed) @ _rotation(self._joints[0], self._mechanism, q, quaternion)
        B = orientations.angular_velocity_per_rate(q)
        w = B @ v
        bias = ca.jtimes(w, q, v) - _sequence(w)
        return [
            self._sweep(
                "turning",
                {"q": q, "v": v, "p": quaternion},
                {"fixed": fixed},
                {"rate": w, "bias": bias},
                {"B": ca.vec(B)},
                {"turn": ca.vec(R)},
            )
        ]

    def velocities(self, array: str) -> list[Sweep]:
        """Replace the velocities v in an array by w = B v."""
        return self._changed("velocities", array, lambda B, x, b: B @ x)

    def accelerations_of_links(self, array: str) -> list[Sweep]:
        """Replace the accelerations a in an array by those of the links, B a + b."""
        return self._changed("driving", array, lambda B, x, b: B @ x + b, with_bias=True)

    def acceleration_of_coordinates(self, array: str, with_bias: bool) -> list[Sweep]:
        """Replace the accelerations x of the links in an array by those of the coordinates, B^-1 (x - b)."""
        name = "coordinates_biased" if with_bias else "coordinates"
        return self._changed(name, array, lambda B, x, b: _inverse(B) @ (x - b), with_bias)

    def effort_along_rotations(self, array: str) -> list[Sweep]:
        """Replace the generalized forces along the coordinates in an array by moments about the links' axes."""
        return self._changed("moments", array, lambda B, x, b: _inverse(B).T @ x)

    def effort_along_coordinates(self, array: str) -> list[Sweep]:
        """Replace the moments about the links' axes in an array by generalized forces along the coordinates."""
        return self._changed("along", array, lambda B, x, b: B.T @ x)

    def armatures(self, array: str, sign: float = 1.0) -> list[Sweep]:
        """Add to an array, or subtract, what the armatures need because the links' accelerations lack a term.

        QuasiVelocities in orientations.py explains the term.
        """
        if not self._joints:
            return []
        w, x, numbers = ca.SX.sym("w", 3), ca.SX.sym("x", 3), ca.SX.sym("numbers", 3)
        more = {"numbers": numbers}
        name, total = f"armed_{sign > 0:d}", x + sign * numbers[2] * _sequence(w)
        return [self._sweep(name, {"rate": w, array: x}, {}, {array: total}, {}, {}, more)]

    def _changed(
        self, name: str, array: str, change: Callable[[ca.SX, ca.SX, ca.SX], ca.SX], with_bias: bool = False
    ) -> list[Sweep]:
        if not self._joints:
            return []
        B, x = ca.SX.sym("B", 9), ca.SX.sym("x", 3)
        b = ca.SX.sym("b", 3) if with_bias else ca.SX.zeros(3)
        inputs = {array: x} | ({"bias": b} if with_bias else {})
        return [self._sweep(name, inputs, {"B": B}, {array: change(matrix(B), x, b)}, {}, {})]

    def _sweep(
        self,
        name: str,
        triples: dict[str, ca.SX],
        records: dict[str, ca.SX],
        changed: dict[str, ca.SX],
        stored: dict[str, ca.SX],
        of_first: dict[str, ca.SX],
        more: dict[str, ca.SX] | None = None,
    ) -> Sweep:
        """Sweep over the joints.

        triples, changed   entries of arrays with one number per coordinate (or parameter): inputs, results
        records, stored    records of arrays with one record per joint: inputs, results
        of_first, more     records of the joint's first rotational link: results, inputs
        """
        inputs, places = self._entries(triples)
        results, targets = self._entries(changed)
        for found, where, slots, rows in (
            (records, places, inputs, None),
            (more or {}, places, inputs, self._firsts),
            (stored, targets, results, None),
            (of_first, targets, results, self._firsts),
        ):
            slots += [Slot(array, value) for array, value in found.items()]
            where += [Records(array, value.numel(), rows) for array, value in found.items()]
        return Sweep.of(Group(function_of(f"rotations_{name}", inputs, results), places, targets, len(self._joints)))

    def _entries(self, values: dict[str, ca.SX]) -> tuple[list[Slot], list[Records]]:
        slots, places = list[Slot](), list[Records]()
        for array, value in values.items():
            firsts: Sequence[int] = self._quaternions if array == "p" else self._firsts
            for k, entry in enumerate(ca.vertsplit(value)):
                slots.append(Slot(array, entry))
                places.append(Records(array, 1, [first + k for first in firsts]))
        return slots, places


def _rotation(joint: Joint, mechanism: Mechanism, q: ca.SX, quaternion: ca.SX) -> ca.SX:
    symbols = replace(symbols_for(mechanism, 3), q=q, p=quaternion, parameter_names=joint.orientation_names)
    return orientations.rotation_of(joint, symbols, 0)


def _sequence(w: ca.SX) -> ca.SX:
    """Term that a sequence of rotations about x, y, z adds to the angular acceleration (see QuasiVelocities)."""
    x, y, z = ca.vertsplit(w)
    return ca.vertcat(y * z, -x * z, x * y)


def _inverse(B: ca.SX) -> ca.SX:
    """Inverse of B, which is a rotation times a number."""
    return B.T / ca.dot(B[:, 0], B[:, 0])
