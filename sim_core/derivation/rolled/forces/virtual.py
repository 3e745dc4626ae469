"""Forces on bodies and joints of a tree, by virtual work in displacements of single links.

The existing derivations of forces, outputs and guards take symbolic frames and coordinates. Here each link that a force
acts on has six virtual coordinates, a translation and a small rotation in the world's axes, at which all expressions
are evaluated at zero; the velocities of these coordinates are the link's velocity and angular velocity. The generalized
force along the six coordinates is then the force on the link and its moment about the link's origin.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import casadi as ca
import numpy as np

from sim_core.derivation.coordinates import absolute, orientations
from sim_core.derivation.forces.applied import AppliedForces, applied_forces
from sim_core.derivation.forces.contacts import contact_forces
from sim_core.derivation.rolled.tree.frames import FRAME, frame_at_place
from sim_core.derivation.rolled.tree.links import Links
from sim_core.derivation.rolled.tree.links import Place as LinkPlace
from sim_core.derivation.rolled.tree.segments import CHOSEN, Segments
from sim_core.derivation.rolled.tree.sweeps import Slot
from sim_core.derivation.symbols import Frame, JointMeasure, Motion, column, ground_frame, symbols_for
from sim_core.mechanism.chains import ChainContact, Place
from sim_core.mechanism.contacts import SphereContact
from sim_core.mechanism.description import GROUND, Joint, JointOutput, Mechanism
from sim_core.mechanism.outputs import SurfaceForceOutput
from sim_core.mechanism.rolling import SlipOutput

VIRTUAL = 6  # virtual coordinates of a link


class Scene:
    """Symbolic frames of the bodies that forces, outputs and guards name, and the forces on them.

    The forces are those without loops of their own (see parts.py): custom forces, pushes, and the parts of spherical
    and free joints.

    touched   records of the forces on these bodies (see `Links.records`), and those of chosen segments
    frames    symbols (FRAME,) of the frames of the links of these records
    symbols   symbols of the mechanism, with the virtual coordinates after the others
    applied   the forces
    force     generalized forces (n + n_states + VIRTUAL * len(touched),), with the rates of first-order states
    power     power of the forces, W
    stored    energy stored in them, J
    numbers   slots of the numbers of the nearest segments, and their records
    of_nearest  symbols of these numbers, and of the frames of these segments
    """

    def __init__(self, mechanism: Mechanism, links: Links, segments: Segments) -> None:
        self.mechanism, self.n, states = mechanism, links.count, mechanism.first_order_states
        self.n_q = self.n + len(states)
        records = {links.records[body] for body in _named(mechanism)} - {links.count}
        self._segments, n_chosen = segments, segments.count
        chosen = range(links.count_of_records, links.count_of_records + 2 * n_chosen)
        self.touched = [*sorted(records), *chosen]
        plain = symbols_for(mechanism, self.n_q)
        self.q, self.v = plain.q, plain.v
        self.frames = [ca.SX.sym(f"frame_{link}", FRAME) for link in self.touched]
        self._nearest = [ca.SX.sym("nearest") for _ in range(n_chosen)]
        self.numbers = [(Slot(CHOSEN, k), [n_chosen + g]) for g, k in enumerate(self._nearest)]
        self.of_nearest = [*self._nearest, *(self.frames[-n_chosen:] if n_chosen else [])]
        self._virtual = ca.SX.sym("virtual", VIRTUAL * len(self.touched))
        twists = [ca.vertcat(frame[15:], frame[12:15]) for frame in self.frames]
        inputs = {actuator.name: plain.u[index] for index, actuator in enumerate(mechanism.actuators)}
        q, v = ca.vertcat(plain.q, self._virtual), ca.vertcat(plain.v, *twists)
        own = {state.name: plain.v[self.n + k] for k, state in enumerate(states)}
        self.symbols = replace(plain, q=q, v=v, inputs=inputs, states=own)
        self.motion = Motion(mechanism.coordinate_names, self._body_frames(links), ca.SX(), ca.SX(), lambda a: a)
        moving = mechanism.moving_joints
        measured = self._measured_joints(links)
        self.positions, self.rates = (column([pair[k] for pair in measured]) for k in (0, 1))
        joints = {
            joint.name: JointMeasure(*pair, joint.is_length, False)
            for joint, pair in zip(moving, measured, strict=True)
        }
        self.symbols = replace(self.symbols, joints=joints)
        self.applied = self._applied()

    def _measured_joints(self, links: Links) -> list[tuple[ca.SX, ca.SX]]:
        """(position, velocity) of each joint; in absolute coordinates 0 for joints that nothing reads or drives."""
        mechanism, moving = self.mechanism, self.mechanism.moving_joints
        if not mechanism.has_body_coordinates:
            places = [links.of_joints[joint.name] for joint in moving]
            return [(self.q[place], self.v[place]) for place in places]
        known, used = self.motion.frames, used_joints(mechanism)
        found = []
        for joint in moving:
            if joint.name not in used or not {joint.parent, joint.child} <= {*known}:
                found.append((ca.SX(0), ca.SX(0)))
                continue
            position, _ = absolute.measured_position(mechanism, self.motion, self.symbols, joint)
            found.append((position, absolute.measured_rate(self.motion, self.symbols, joint, position)))
        return found

    def _body_frames(self, links: Links) -> dict[str, Frame]:
        """{body: frame} of the ground, of the bodies on the touched links and of those that are fixed to the ground."""
        found = _SceneFrames(self)
        found.update(ground_frame())
        for name, place in links.places.items():
            p, R = ca.DM(place.p), ca.DM(place.R)
            if name == GROUND:
                continue
            if links.records[name] in self.touched:
                found[name] = self._frame(links.records[name], place)
            elif place.link < 0:
                found[name] = Frame(ca.SX(p), ca.SX(R), ca.SX(3, 1))
        return found

    def _frame(self, record: int, place: LinkPlace) -> Frame:
        """Frame at a place of the link of a touched record, or of a chosen segment."""
        k = self.touched.index(record)
        numbers = ca.SX(ca.DM(np.concatenate([place.p, place.R.T.ravel()])))
        return frame_at_place(self.frames[k], numbers, self._virtual[VIRTUAL * k : VIRTUAL * (k + 1)])

    def held(self, contact: ChainContact) -> Frame:
        """Frame of the segment at a contact's position."""
        return self._frame(self._segments.held(contact), self._segments.place(contact))

    def nearest(self, contact: ChainContact) -> tuple[Frame, ca.SX]:
        """Frame of the segment nearest to a contact's point, and its number."""
        frame = self._frame(self._segments.nearest(contact), self._segments.place(contact))
        return frame, self._nearest[self._segments.index(contact)]

    def _applied(self) -> AppliedForces:
        is_absolute = self.mechanism.has_body_coordinates
        joints = self.mechanism.joints if is_absolute else tuple(map(_without_parts, self.mechanism.joints))
        bare = replace(self.mechanism, contacts=(), joints=joints)
        applied = applied_forces(bare, self.motion, self.symbols, self.positions, self.rates)
        symbols, force, power = self.symbols, ca.SX(self.symbols.v.numel(), 1), ca.SX(0)
        if self.mechanism.oriented_joints:
            force = orientations.damping_forces(self.mechanism, symbols)
            power = ca.dot(force, symbols.v)
        if is_absolute:
            efforts = self._joint_efforts()
            force = force + ca.jacobian(self.rates, symbols.v).T @ efforts
            power = power + ca.dot(efforts, self.rates)
        self.force, self.power = self.real(applied.plus(force)), self.real(applied.power(power))
        self.stored = self.real(sum(applied.stored, ca.SX(0)))
        measured = replace(self.mechanism, contacts=_measured(self.mechanism))
        return replace(applied, contacts=contact_forces(measured, self.motion.frames, symbols))

    def _joint_efforts(self) -> ca.SX:
        """Efforts (n_joints,) of actuators, loads and damping along each joint in absolute coordinates."""
        mechanism, symbols, efforts = self.mechanism, self.symbols, list[ca.SX]()
        for index, joint in enumerate(mechanism.moving_joints):
            driving = [symbols.u[k] for k, each in enumerate(mechanism.actuators) if each.joint == joint.name]
            damping = symbols.number(joint.damping) * self.rates[index]
            efforts.append(ca.SX(symbols.number(joint.load) - damping + sum(driving, ca.SX(0))))
        return column(efforts)

    def real(self, expression: ca.SX) -> ca.SX:
        """An expression with all virtual coordinates zero."""
        return ca.substitute(expression, self._virtual, ca.SX.zeros(self._virtual.numel()))

    def efforts(self) -> dict[int, ca.SX]:
        """{link: force along its coordinate} of the links with such a force."""
        return {k: self.force[k] for k in range(self.n) if not self.force[k].is_zero()}

    def state_rates(self) -> dict[int, ca.SX]:
        """{first-order state: rate} of the states of custom forces."""
        rates = {k: self.force[self.n + k] for k in range(self.n_q - self.n)}
        bristles = sum(bool(joint.bristle) for joint in self.mechanism.moving_joints)
        bristles += sum(len(contact.bristles) for contact in self.mechanism.contacts)
        return {k: rate for k, rate in rates.items() if k >= bristles}

    def wrenches(self) -> dict[int, ca.SX]:
        """{record: moment about the link's origin, then force (6,)} of the records with a force."""
        found = {}
        for k, record in enumerate(self.touched):
            begin = self.n_q + VIRTUAL * k
            both = ca.vertcat(self.force[begin + 3 : begin + 6], self.force[begin : begin + 3])
            if not both.is_zero():
                found[record] = both
        return found


def used_joints(mechanism: Mechanism) -> set[str]:
    """Joints of a mechanism in absolute coordinates whose positions or velocities something reads, or that drive."""
    driven = {actuator.joint for actuator in mechanism.actuators}
    read = {output.joint for output in mechanism.outputs if isinstance(output, JointOutput)}
    parts = ("damping", "load", "spring", "friction", "stops")
    return {
        joint.name
        for joint in mechanism.moving_joints
        if joint.name in driven | read or any(getattr(joint, part) for part in parts) or mechanism.forces
    }


class _SceneFrames(dict[str, Frame]):
    """Frames of bodies, and of the chosen segments of a scene (see `sim_core.mechanism.chains.SegmentFrames`)."""

    def __init__(self, scene: Scene) -> None:
        super().__init__()
        self._scene = scene

    def held(self, contact: ChainContact) -> tuple[ca.SX, ca.SX]:
        """Position and rotation of the segment at a contact's position."""
        frame = self._scene.held(contact)
        return frame.p, frame.R

    def nearest(self, contact: ChainContact) -> Place:
        """Position and rotation of the segment nearest to a contact's point, and its number."""
        frame, k = self._scene.nearest(contact)
        return frame.p, frame.R, k


def _without_parts(joint: Joint) -> Joint:
    """A joint without the spring, friction and stops that have loops of their own."""
    return joint if joint.is_oriented else replace(joint, spring=None, friction=None, stops=None)


def _measured(mechanism: Mechanism) -> tuple[SphereContact, ...]:
    """The contacts whose force is an output."""
    names = {output.contact for output in mechanism.outputs if isinstance(output, SurfaceForceOutput)}
    return tuple(contact for contact in mechanism.contacts if contact.name in names)


def _named(mechanism: Mechanism) -> Iterable[str]:
    """Names of the bodies whose frames forces, outputs or guards need."""
    parts = (*_measured(mechanism), *mechanism.outputs, *mechanism.guards, *mechanism.forces)
    names, read = list(mechanism.pushable), set(mechanism.captured_constraints)
    read |= {output.constraint for output in mechanism.outputs if isinstance(output, SlipOutput)}
    if mechanism.has_body_coordinates:
        used = used_joints(mechanism)
        names += [end for joint in mechanism.joints if joint.name in used for end in (joint.parent, joint.child)]
    for part in (*parts, *(each for each in mechanism.constraints if each.name in read)):
        owners = [part, *getattr(part, "points", ()), *getattr(part, "conditions", ())]
        names += [getattr(each, key) for each in owners for key in ("body", "other", "body_a", "body_b")
                  if getattr(each, key, "")]  # fmt: skip
    return [name for name in dict.fromkeys(names) if name != GROUND]
