"""Forces on bodies and joints of a tree, by virtual work in displacements of single links.

The existing derivations of forces, outputs and guards take symbolic frames and coordinates. Here each link that a force
acts on has six virtual coordinates, a translation and a small rotation in the world's axes, at which all expressions
are evaluated at zero; the velocities of these coordinates are the link's velocity and angular velocity. The generalized
force along the six coordinates is then the force on the link and its moment about the link's origin.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import casadi as ca

from sim_core.derivation.coordinates import absolute, orientations
from sim_core.derivation.forces.applied import AppliedForces, applied_forces
from sim_core.derivation.forces.contacts import contact_forces
from sim_core.derivation.rolled.links import Links
from sim_core.derivation.symbols import Frame, JointMeasure, Motion, column, ground_frame, symbols_for
from sim_core.mechanism.contacts import SphereContact
from sim_core.mechanism.description import GROUND, Joint, JointOutput, Mechanism
from sim_core.mechanism.outputs import SurfaceForceOutput

FRAME = 18  # numbers of a link's frame: position, rotation (column by column), angular velocity, velocity of the origin
VIRTUAL = 6  # virtual coordinates of a link


@dataclass(frozen=True)
class _WorldFrame(Frame):
    """A frame whose angular velocity in the world's axes is known."""

    world: ca.SX = field(default_factory=lambda: ca.SX(3, 1))

    @property
    def w_W(self) -> ca.SX:
        """Angular velocity (3,) of the body in world axes, rad/s."""
        return self.world


def frame_at_place(frame: ca.SX, place: ca.SX, virtual: ca.SX) -> Frame:
    """The frame at a place on a link, which moves with the link's virtual coordinates.

    frame    numbers (FRAME,) of the link's frame
    place    position (3,) on the link, then rotation (9,), column by column
    virtual  translation (3,) and small rotation (3,) of the link
    """
    R_WL = (ca.SX.eye(3) + ca.skew(virtual[3:])) @ ca.reshape(frame[3:12], 3, 3)
    R_WB, w = R_WL @ ca.reshape(place[3:], 3, 3), frame[12:15]
    return _WorldFrame(frame[:3] + virtual[:3] + R_WL @ place[:3], R_WB, R_WB.T @ w, world=w)


class Scene:
    """Symbolic frames of the bodies that forces, outputs and guards name, and the forces on them.

    The forces are those without loops of their own (see parts.py): custom forces, pushes, and the parts of spherical
    and free joints.

    touched   indices of the links that carry these bodies
    frames    symbols (FRAME,) of the frames of the touched links
    symbols   symbols of the mechanism, with the virtual coordinates after the others
    applied   the forces
    force     generalized forces (n + n_states + VIRTUAL * len(touched),), with the rates of first-order states
    power     power of the forces, W
    stored    energy stored in them, J
    """

    def __init__(self, mechanism: Mechanism, links: Links) -> None:
        self.mechanism, self.n, states = mechanism, links.count, mechanism.first_order_states
        self.n_q = self.n + len(states)
        bodies = [body for body in _named(mechanism) if links.places[body].link >= 0]
        self.touched = sorted({links.places[body].link for body in bodies})
        plain = symbols_for(mechanism, self.n_q)
        self.q, self.v = plain.q, plain.v
        self.frames = [ca.SX.sym(f"frame_{link}", FRAME) for link in self.touched]
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
        found = ground_frame()
        for name, place in links.places.items():
            p, R = ca.DM(place.p), ca.DM(place.R)
            if name == GROUND:
                continue
            if place.link < 0:
                found[name] = Frame(ca.SX(p), ca.SX(R), ca.SX(3, 1))
            elif place.link in self.touched:
                k = self.touched.index(place.link)
                virtual = self._virtual[VIRTUAL * k : VIRTUAL * (k + 1)]
                found[name] = frame_at_place(self.frames[k], ca.SX(ca.vertcat(p, ca.vec(R))), virtual)
        return found

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
        return {k: rate for k, rate in rates.items() if k >= bristles}

    def wrenches(self) -> dict[int, ca.SX]:
        """{link: moment about its origin, then force (6,)} of the links with a force."""
        found = {}
        for k, link in enumerate(self.touched):
            begin = self.n_q + VIRTUAL * k
            both = ca.vertcat(self.force[begin + 3 : begin + 6], self.force[begin : begin + 3])
            if not both.is_zero():
                found[link] = both
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
    names, captured = list(mechanism.pushable), set(mechanism.captured_constraints)
    if mechanism.has_body_coordinates:
        used = used_joints(mechanism)
        names += [end for joint in mechanism.joints if joint.name in used for end in (joint.parent, joint.child)]
    for part in (*parts, *(each for each in mechanism.constraints if each.name in captured)):
        owners = [part, *getattr(part, "points", ()), *getattr(part, "conditions", ())]
        names += [getattr(each, key) for each in owners for key in ("body", "other", "body_a", "body_b")
                  if getattr(each, key, "")]  # fmt: skip
    return [name for name in dict.fromkeys(names) if name != GROUND]
