"""Equality constraints of an MJCF file (connect, weld, joint and tendon) as constraints of the mechanism.

MuJoCo enforces equality constraints by soft forces, whereas a Mechanism satisfies them exactly.
"""

from __future__ import annotations

from collections.abc import Iterator

import mujoco
import numpy as np

from robots.importing.mjcf.compiled import Compiled, rotation
from robots.importing.mjcf.softness import SOLIMP, SOLREF
from robots.importing.mjcf.tendons import Tendons
from robots.importing.rotations import Array, unit_vector, vector
from robots.importing.xml_reader import Element
from sim_core.mechanism import Coincidence, Constraint, Distance, JointRelation, Perpendicular

KINDS = {int(kind): name.removeprefix("mjEQ_").lower() for name, kind in mujoco.mjtEq.__members__.items()}
IGNORE = "pass ignore=equality to leave out the equality constraints"


class Equalities:
    """Reads the equality constraints of a file; those that cannot be read are added to its errors."""

    def __init__(self, compiled: Compiled, tendons: Tendons) -> None:
        self._of, self._model, self._tendons = compiled, compiled.model, tendons

    def constraints(self) -> tuple[Constraint, ...]:
        """The active constraints of the file; inactive ones (active="false") are left out with a note."""
        found: list[Constraint] = []
        if self._of.is_disabled("equality"):
            return ()
        for index in range(self._model.neq):
            kind = KINDS[int(self._model.eq_type[index])]
            name = self._of.name("equality", index) or f"{kind}{index + 1}"
            element = self._of.element("equality", index)
            element.label = f"{kind} {name!r}"
            if not self._model.eq_active0[index]:
                self._of.notes.add(element, "the equality constraint is not active (active), and is not read")
                continue
            with self._of.errors.collected():
                found += self._read(index, kind, name, element)
                self._note_softness(index, kind, element)
        return tuple(found)

    def _note_softness(self, index: int, kind: str, element: Element) -> None:
        given = [
            name
            for name, values, default in (
                ("solref", self._model.eq_solref, SOLREF),
                ("solimp", self._model.eq_solimp, SOLIMP),
            )
            if not np.array_equal(values[index], default)
        ]
        given += ["torquescale"] if kind == "weld" and self._model.eq_data[index][10] != 1.0 else []
        if given:
            verb = "are" if len(given) > 1 else "is"
            self._of.notes.add(element, f"{' and '.join(given)} {verb} not read: the constraint holds exactly")

    def _read(self, index: int, kind: str, name: str, element: Element) -> Iterator[Constraint]:
        data = self._model.eq_data[index]
        pair = [int(each[index]) for each in (self._model.eq_obj1id, self._model.eq_obj2id)]
        if kind in ("connect", "weld"):
            yield from self._at_points(index, kind, name, pair, data)
        elif kind == "joint":
            sides = [{self._of.joints[joint]: 1.0} for joint in pair if joint >= 0]
            positions = [float(self._model.qpos0[self._model.jnt_qposadr[joint]]) for joint in pair if joint >= 0]
            yield self._relation(name, element, sides, positions, data)
        elif kind == "tendon" and all(self._tendons.is_fixed(tendon) for tendon in pair if tendon >= 0):
            sides = [self._tendons.terms(tendon) for tendon in pair if tendon >= 0]
            lengths = [float(self._model.tendon_length0[tendon]) for tendon in pair if tendon >= 0]
            yield self._relation(name, element, sides, lengths, data)
        elif kind == "tendon" and pair[1] < 0 and (ends := self._tendons.ends(pair[0])) is not None:
            (body_a, a), (body_b, b) = (self._tendons.point(site) for site in ends)
            length = float(self._model.tendon_length0[pair[0]] + data[0])
            yield Distance(name=name, body_a=body_a, point_a=a, body_b=body_b, point_b=b, length=length)
        elif kind == "tendon":
            element.fail(f"a tendon that is neither fixed nor straight cannot be held; {IGNORE}")
        else:
            element.fail(f"<{kind}> of <equality> is not supported; {IGNORE}")

    def _at_points(self, index: int, kind: str, name: str, pair: list[int], data: Array) -> Iterator[Constraint]:
        """Yield the constraints of a <connect> or <weld>, which keeps two points together, or two frames."""
        m = self._model
        if m.eq_objtype[index] == int(mujoco.mjtObj.mjOBJ_SITE):
            bodies = [int(m.site_bodyid[site]) for site in pair]
            points = [m.site_pos[site] for site in pair]
            axes = [rotation(m.site_quat[site]) for site in pair]
        else:
            bodies = pair
            # the numbers of a weld: point of the second body, then the second frame relative to the first
            points = [data[:3], data[3:6]] if kind == "connect" else [data[3:6], data[:3]]
            axes = [rotation(data[6:10]), np.eye(3)] if kind == "weld" else []
        a, b = (self._of.bodies[body] for body in bodies)
        yield Coincidence(name=name, body_a=a, point_a=vector(points[0]), body_b=b, point_b=vector(points[1]))
        for k in range(3 if kind == "weld" else 0):
            along, across = axes[0][:, k], axes[1][:, (k + 1) % 3]
            yield Perpendicular(
                name=f"{name}.{'xyz'[k]}",
                body_a=a,
                axis_a=unit_vector(along),
                body_b=b,
                axis_b=unit_vector(across),
            )

    def _relation(
        self, name: str, element: Element, sides: list[dict[str, float]], at_ref: list[float], data: Array
    ) -> JointRelation:
        """Constraint s1 - s1(ref) = offset + factor (s2 - s2(ref)) between two sums s1 and s2 of joint positions.

        Offset and factor are the first two numbers of the attribute polycoef.

        sides   list of the sums s1 and s2, each as {joint: coefficient}; a list of s1 alone stands for s2 = 0
        at_ref  their values with all joints at `ref`
        """
        offset, factor, *higher = data[:5].tolist()
        if any(higher) and len(sides) > 1:
            element.fail(f"polycoef has powers above 1, which are not supported; {IGNORE}")
        terms, total = dict(sides[0]), offset + at_ref[0]
        if len(sides) > 1:
            total -= factor * at_ref[1]
            for joint, coefficient in sides[1].items():
                terms[joint] = terms.get(joint, 0.0) - factor * coefficient
        kept = {joint: coefficient for joint, coefficient in terms.items() if coefficient != 0.0}
        if not kept:
            element.fail("the coefficients of all joints in this constraint are 0; give at least one that is not 0")
        return JointRelation(name=name, terms=tuple(kept.items()), offset=total)
