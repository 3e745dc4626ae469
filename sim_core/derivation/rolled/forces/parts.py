"""Springs, dry friction and stops of joints, sphere contacts and springs between points, as loops over their kinds.

All parts of one structure (see templates.py) share one function. Spherical and free joints are not among them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import casadi as ca
import numpy as np

from sim_core import spatial
from sim_core.derivation.forces.contacts import contact_forces
from sim_core.derivation.forces.joint_parts import efforts_of
from sim_core.derivation.forces.springs import spring_energy, spring_forces, spring_power
from sim_core.derivation.rolled.forces.templates import by_structure, numbers_of, template_of
from sim_core.derivation.rolled.forces.virtual import VIRTUAL
from sim_core.derivation.rolled.tree.frames import FRAME, frame_at_place
from sim_core.derivation.rolled.tree.links import Links
from sim_core.derivation.rolled.tree.sweeps import Slot, function_of
from sim_core.derivation.symbols import Frames, Symbols, symbols_for
from sim_core.kernels.rolled import Group, Records, Sweep
from sim_core.mechanism.contacts import SphereContact
from sim_core.mechanism.description import Joint, Mechanism, Spring
from sim_core.mechanism.joints import IDENTITY_QUATERNION, ORIGIN, Z

AddTable = Callable[[str, Sequence[ca.SX]], None]
PLACE = 12  # numbers of a place on a link: position, rotation (column by column)


@dataclass(frozen=True)
class _Kind:
    """Parts of one structure: the values of one part, and where each part reads and writes.

    inputs   slots and records of the arguments, the same for all values
    changed  slots and records of what the forces of a part add to: the array's record before, and the added value
    stated   slots and records of the rates of first-order states
    power    rate at which a part changes the total energy, `stored` included, W
    stored   stored energy, J
    """

    name: str
    count: int
    inputs: list[tuple[Slot, Records]]
    changed: list[tuple[str, ca.SX, Records]]
    stated: list[tuple[Slot, Records]]
    power: ca.SX
    stored: ca.SX
    needs_frames: bool = False

    def forces(self) -> Sweep | None:
        """Sweep that adds the forces of all parts; None without any force."""
        if not self.changed and not self.stated:
            return None
        inputs, results = list(self.inputs), list(self.stated)
        for array, added, records in self.changed:
            before = ca.SX.sym("before", added.numel())
            inputs.append((Slot(array, before), records))
            results.append((Slot(array, before + added), records))
        return self._sweep("forces", inputs, results)

    def total(self, array: str, value: ca.SX) -> Sweep:
        """Sweep that adds the values of all parts to the only record of an array."""
        before, records = ca.SX.sym("before", value.numel()), Records(array, value.numel(), [0] * self.count)
        return self._sweep(
            array, [*self.inputs, (Slot(array, before), records)], [(Slot(array, before + value), records)]
        )

    def _sweep(self, what: str, inputs: list[tuple[Slot, Records]], results: list[tuple[Slot, Records]]) -> Sweep:
        function = function_of(f"{what}_{self.name}", [slot for slot, _ in inputs], [slot for slot, _ in results])
        return Sweep.of(Group(function, [where for _, where in inputs], [where for _, where in results], self.count))


class Parts:
    """Sweeps over the joint parts, contacts and springs of a mechanism.

    frames  function that returns sweeps which compute the frames of the links
    """

    def __init__(
        self,
        mechanism: Mechanism,
        links: Links,
        symbols: Symbols,
        add_table: AddTable,
        frames: Callable[[], list[Sweep]],
    ) -> None:
        self._mechanism, self._links, self._symbols, self._add_table = mechanism, links, symbols, add_table
        self._frames = frames
        of_joints = [] if mechanism.has_body_coordinates else self._joint_kinds()  # in absolute coordinates: the scene
        self._kinds = [*of_joints, *self._pair_kinds("contacts"), *self._pair_kinds("springs")]

    @property
    def do_work(self) -> bool:
        """Whether a part can change the total energy."""
        return any(not kind.power.is_zero() for kind in self._kinds)

    @property
    def need_frames(self) -> bool:
        """Whether the forces depend on the frames of the links."""
        return any(kind.needs_frames for kind in self._kinds)

    def forces(self) -> list[Sweep]:
        """Sweeps that add efforts to "effort", subtract wrenches from "wrench", and set the entries of "rates".

        The frames of the links must be known if `need_frames`.
        """
        return [sweep for kind in self._kinds if (sweep := kind.forces()) is not None]

    def power(self) -> list[Sweep]:
        """Sweeps that add the power of all parts to "power"."""
        return self._totals("power", [(kind, kind.power) for kind in self._kinds])

    def energy(self) -> list[Sweep]:
        """Sweeps that add the stored energy of all parts to "energy"; the frames of the links must be known."""
        values = [(kind, ca.vertcat(0, kind.stored)) for kind in self._kinds]
        return self._totals("energy", values, with_frames=False)

    def _totals(self, array: str, values: Sequence[tuple[_Kind, ca.SX]], with_frames: bool = True) -> list[Sweep]:
        found = [(kind, value) for kind, value in values if not value.is_zero()]
        frames = self._frames() if with_frames and any(kind.needs_frames for kind, _ in found) else []
        return [*frames, *(kind.total(array, value) for kind, value in found)]

    # -- along joints -------------------------------------------------------------------------------------------------

    def _joint_kinds(self) -> list[_Kind]:
        joints = [joint for joint in self._mechanism.moving_joints if joint.spring or joint.friction or joint.stops]
        bare = [_parts_alone(joint) for joint in joints]
        return [self._joint_kind(f"joints_{k}", [joints[i] for i in members], [bare[i] for i in members])
                for k, members in enumerate(by_structure(bare))]  # fmt: skip

    def _joint_kind(self, name: str, joints: Sequence[Joint], bare: Sequence[Joint]) -> _Kind:
        q, v, z = ca.SX.sym("q"), ca.SX.sym("v"), ca.SX.sym("z")
        template = template_of(bare[0], replace(symbols_for(self._mechanism, 1), states={bare[0].bristle: z}))
        parts = [part for _, part in efforts_of(
            replace(self._mechanism, joints=(template.part,)), template.symbols, q, v)]  # fmt: skip
        of_joints = self._links.of_joints
        places = [of_joints[joint.name] for joint in joints]
        inputs = [(Slot("q", q), Records("q", 1, places)), (Slot("v", v), Records("v", 1, places))]
        stated = list[tuple[Slot, Records]]()
        if bare[0].bristle:
            names = [state.name for state in self._mechanism.first_order_states]
            rows = [names.index(joint.bristle) for joint in joints]
            inputs.append((Slot("v", z), Records("v", 1, [self._links.count + row for row in rows])))
            rate = next(rate for part in parts for rate in part.rates.values())
            stated.append((Slot("rates", rate), Records("rates", 1, rows)))
        inputs += self._table(name, template.numbers, [numbers_of(part, self._symbols) for part in bare])
        effort, power, stored = (sum((getattr(part, what) for part in parts), ca.SX(0))
                                 for what in ("effort", "power", "stored"))  # fmt: skip
        return _Kind(
            name, len(joints), inputs, [("effort", effort, Records("effort", 1, places))], stated, power, stored
        )

    # -- between bodies -----------------------------------------------------------------------------------------------

    def _pair_kinds(self, what: str) -> list[_Kind]:
        parts = list(getattr(self._mechanism, what))
        bare = [_between_frames(part) for part in parts]
        found = []
        for k, members in enumerate(by_structure(bare)):
            ends = [self._ends(parts[i]) for i in members]
            # the wrenches of a part between two bodies with one record cancel each other
            inside = [records[0] == records[1] for records, _ in ends]
            for is_inside in dict.fromkeys(inside):
                own = [place for place, each in enumerate(inside) if each == is_inside]
                found.append(
                    self._pair_kind(
                        f"{what}_{k}" + "_inside" * is_inside,
                        [bare[members[place]] for place in own],
                        [ends[place] for place in own],
                        is_inside,
                        [getattr(parts[members[place]], "bristles", ()) for place in own],
                    )
                )
        return found

    def _pair_kind(
        self,
        name: str,
        bare: Sequence[SphereContact | Spring],
        ends: Sequence[tuple[list[int], list[np.ndarray]]],
        is_inside: bool,
        bristles: Sequence[tuple[str, ...]],
    ) -> _Kind:
        virtual = ca.SX.sym("virtual", 2 * VIRTUAL)
        frames = [ca.SX.sym(f"frame_{k}", FRAME) for k in range(2)]
        places = [ca.SX.sym(f"place_{k}", PLACE) for k in range(2)]
        twists = ca.vertcat(*[part for frame in frames for part in (frame[15:], frame[12:15])])
        z = {name: ca.SX.sym(name) for name in getattr(bare[0], "bristles", ())}
        template = template_of(bare[0], replace(symbols_for(self._mechanism, 0), q=virtual, v=twists, states=z))
        found = {
            side: frame_at_place(frame, place, virtual[VIRTUAL * k : VIRTUAL * (k + 1)])
            for k, (side, frame, place) in enumerate(zip("ab", frames, places, strict=True))
        }
        values = _pair_values(self._mechanism, template.part, found, template.symbols)
        force, power, stored, *rates = (ca.substitute(value, virtual, ca.SX.zeros(virtual.numel())) for value in values)
        inputs, changed = list[tuple[Slot, Records]](), list[tuple[str, ca.SX, Records]]()
        stated = list[tuple[Slot, Records]]()
        names = [state.name for state in self._mechanism.first_order_states]
        for symbol, rate, own in zip(z.values(), rates, zip(*bristles, strict=True), strict=True):
            rows = [names.index(name) for name in own]
            inputs.append((Slot("v", symbol), Records("v", 1, [self._links.count + row for row in rows])))
            stated.append((Slot("rates", rate), Records("rates", 1, rows)))
        for k in range(2):
            records = [own[k] for own, _ in ends]
            links = [self._links.frame_of(record) for record in records]
            inputs.append((Slot("frame", frames[k]), Records("frame", FRAME, links)))
            inputs += self._table(f"{name}_places_{k}", places[k], [ca.SX(ca.DM(poses[k])) for _, poses in ends])
            F, moment = force[VIRTUAL * k : VIRTUAL * k + 3], force[VIRTUAL * k + 3 : VIRTUAL * (k + 1)]
            changed.append(("wrench", -ca.vertcat(moment, F), Records("wrench", 6, records)))
        inputs += self._table(name, template.numbers, [numbers_of(part, self._symbols) for part in bare])
        return _Kind(name, len(bare), inputs, [] if is_inside else changed, stated, power, stored, needs_frames=True)

    def _ends(self, part: SphereContact | Spring) -> tuple[list[int], list[np.ndarray]]:
        """Records of the forces on both ends (see `Links.records`), and the places of the ends on their links."""
        if isinstance(part, SphereContact):
            ends = [(part.body, part.center, np.eye(3)), (part.other, part.other_point, _surface_axes(part))]
        else:
            ends = [(part.body_a, part.point_a, np.eye(3)), (part.body_b, part.point_b, np.eye(3))]
        records, poses = list[int](), list[np.ndarray]()
        for body, point, R in ends:
            place = self._links.places[body]
            records.append(self._links.records[body])
            poses.append(np.concatenate([place.p + place.R @ np.array(point), (place.R @ R).T.ravel()]))
        return records, poses

    def _table(self, name: str, symbol: ca.SX, rows: Sequence[ca.SX]) -> list[tuple[Slot, Records]]:
        """Slot and records of a table with one row per part; none for rows without numbers."""
        if not symbol.numel():
            return []
        self._add_table(name, rows)
        return [(Slot(name, symbol), Records(name, symbol.numel()))]


def _parts_alone(joint: Joint) -> Joint:
    """A joint with the parts of `joint` and nothing else in which two joints may differ."""
    limits = {"lower": joint.lower, "upper": joint.upper} if joint.stops else {}
    return Joint(
        name="joint",
        child="",
        spring=joint.spring,
        friction=joint.friction,
        stops=joint.stops,
        **limits,  # type: ignore[arg-type]
    )


def _between_frames(part: SphereContact | Spring) -> SphereContact | Spring:
    """A contact or spring between the origins of the frames "a" and "b", with the normal of its surface along z."""
    if isinstance(part, Spring):
        return replace(part, name="part", body_a="a", point_a=ORIGIN, body_b="b", point_b=ORIGIN)
    surface = {"normal": Z, "other_quaternion": IDENTITY_QUATERNION}
    return replace(part, name="part", body="a", center=ORIGIN, other="b", other_point=ORIGIN, **surface)  # type: ignore[arg-type]


def _surface_axes(contact: SphereContact) -> np.ndarray:
    """Rotation (3, 3) from the axes of a contact's surface to those of its body."""
    if contact.other_half_sizes is not None:
        return np.array(spatial.rotation_from_quaternion(np.array(contact.other_quaternion, dtype=float)), dtype=float)
    if contact.other_radius is None:
        return np.column_stack([*spatial.perpendicular_axes(contact.normal), contact.normal])
    return np.eye(3)


def _pair_values(
    mechanism: Mechanism, part: SphereContact | Spring, frames: Frames, symbols: Symbols
) -> tuple[ca.SX, ...]:
    """Generalized force along the virtual coordinates, power, stored energy and rates of states of a contact or
    spring.
    """
    if isinstance(part, SphereContact):
        contact = contact_forces(replace(mechanism, contacts=(part,)), frames, symbols)[part.name]
        return contact.generalized, ca.SX(contact.power), ca.SX(contact.stored), *contact.rates.values()
    alone = replace(mechanism, springs=(part,))
    force, power, stored = (value(alone, frames, symbols) for value in (spring_forces, spring_power, spring_energy))
    return force, ca.SX(power), ca.SX(stored)
