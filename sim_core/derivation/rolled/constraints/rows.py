"""Constraint rows as functions of the frames of the links on which they act, derived once per kind of constraint.

The rows of a constraint are evaluated with symbols in place of its numbers, such as points and axes, and of the frames
of its links. Constraints of equal structure then have equal expressions. Rates and accelerations follow from the motion
of the links as a function of a short time s, and the Jacobian by virtual work (see virtual.py).
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import casadi as ca
import numpy as np

from sim_core.derivation.rolled.tree.frames import FRAME
from sim_core.derivation.rolled.tree.links import Links, Place
from sim_core.derivation.rolled.tree.segments import Segments
from sim_core.derivation.symbols import Frames, JointMeasure
from sim_core.mechanism.chains import ChainContact
from sim_core.mechanism.constraints import Constraint
from sim_core.mechanism.custom_forces import motion_key
from sim_core.mechanism.description import Mechanism
from sim_core.mechanism.quantities import CapturedParameter, Tunable, holding

ATTACHED = ("axis_a", "axis_b", "center", "other_point", "normal")  # fields of body-fixed points and axes
STRUCTURE = ("rollers",)  # fields whose numbers belong to the structure
BIAS = 6  # numbers of the acceleration of a link whose joints do not accelerate: angular acceleration, of the origin
PULL = 7  # numbers of a row of the Jacobian at a link: moment about its origin, force, and effort of its joint


@dataclass(frozen=True)
class RowKind:
    """Expressions of the rows of constraints of equal structure, which hold or do not hold as `flag` says.

    t, flag     time; 1 if the constraint holds, otherwise 0
    constants   numbers of a constraint
    frames      (FRAME,) of each link
    biases      (BIAS,) of each link
    places      positions and velocities (2,) of joints
    parameters  entries of p; inputs: entries of u
    Phi         violations; a column without entries if nonholonomic
    Phidot      rates of the violations, or values of nonholonomic rows
    gamma       right-hand sides for joints without acceleration
    pulls       Jacobian at each link, then at each joint: one column (PULL * n,), row by row
    """

    t: ca.SX
    flag: ca.SX
    constants: ca.SX
    frames: list[ca.SX]
    biases: list[ca.SX]
    places: list[ca.SX]
    parameters: list[ca.SX]
    inputs: list[ca.SX]
    Phi: ca.SX
    Phidot: ca.SX
    gamma: ca.SX
    pulls: list[ca.SX]

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.Phidot.numel())


@dataclass(frozen=True)
class Block:
    """The rows of one constraint.

    key         value that is equal for constraints of one kind
    constants   numbers of this constraint
    links       links on which it acts; joints: links whose joint positions it relates
    records     record of the forces on each of `links` (see `Links.records`)
    parameters  indices of the entries of p that it contains; inputs: of u
    flag        index of the entry of p that is 1 while it holds; -1 if it always holds
    lengths     whether its rows are lengths
    kept        indices of the rows that some coordinate moves
    """

    constraint: Constraint
    key: Hashable
    kind: RowKind
    constants: np.ndarray
    links: tuple[int, ...]
    records: tuple[int, ...]
    joints: tuple[int, ...]
    parameters: tuple[int, ...]
    inputs: tuple[int, ...]
    flag: int
    lengths: bool

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.kind.n_rows

    @property
    def ends(self) -> tuple[int, ...]:
        """All links at which the Jacobian of the rows begins."""
        return (*self.links, *self.joints)


class RowKinds:
    """The rows of the constraints of a mechanism; equal kinds are derived once."""

    def __init__(self, mechanism: Mechanism, links: Links) -> None:
        self._mechanism, self._links, self._segments = mechanism, links, Segments(mechanism, links)
        self._kinds: dict[Hashable, RowKind] = {}
        self._names = {name: index for index, name in enumerate(mechanism.parameter_names)}

    def block(self, constraint: Constraint, kept: Sequence[int] | None = None) -> Block:
        """The rows of a constraint.

        kept  indices of the rows to keep, by default all
        """
        flag = self._names.get(holding(constraint.name), -1)
        own = _Recorder(self._mechanism, self._links, self._segments, self._names)
        rows = own.rows_of(constraint)
        structure = _structure(constraint, own)
        kept = tuple(range(rows.numel()) if kept is None else kept)
        key = (structure, flag >= 0, kept)
        if key not in self._kinds:
            self._kinds[key] = own.kind(constraint, rows[list(kept)] if kept else ca.SX(0, 1), flag >= 0)
        return Block(
            constraint,
            key,
            self._kinds[key],
            np.concatenate([*own.values, [0.0]]),
            tuple(own.links),
            tuple(own.records),
            tuple(own.joints),
            tuple(own.parameters),
            tuple(own.inputs_used),
            flag,
            own.are_lengths(constraint),
        )


class _Recorder:
    """Symbols of the frames, joints and numbers that the rows of a constraint ask for, and what they stand for."""

    def __init__(self, mechanism: Mechanism, links: Links, segments: Segments, names: dict[str, int]) -> None:
        self._mechanism, self._placed, self._segments, self._names = mechanism, links, segments, names
        self._of_joints = links.of_joints
        self._s, self.t = ca.SX.sym("s"), ca.SX.sym("t")
        self.values: list[np.ndarray] = []
        self._constants: list[ca.SX] = []
        self.links: list[int] = []
        self.records: list[int] = []
        self.joints: list[int] = []
        self.parameters: list[int] = []
        self.inputs_used: list[int] = []
        self._parameters: list[ca.SX] = []
        self._inputs: list[ca.SX] = []
        self._places: list[ca.SX] = []
        self._bodies: list[_Moving] = []

    # -- what a constraint asks for (see Symbols and Frame) -----------------------------------------------------------

    def __getitem__(self, body: str) -> _Attached:
        place, record = self._placed.places[body], self._placed.records[body]
        return _Attached(self, place, self._moving(place.link, record) if place.link >= 0 else None)

    def held(self, contact: ChainContact) -> tuple[ca.SX, ca.SX]:
        """Position and rotation of the segment at a contact's position."""
        place, held = self._segments.place(contact), self._segments.held(contact)
        moving = self._moving(held, held)
        p, R = self.constant(place.p), ca.reshape(self.constant(place.R.T.ravel()), 3, 3)
        return moving.p + moving.R @ p, moving.R @ R

    def nearest(self, contact: ChainContact) -> tuple[ca.SX, ca.SX, ca.SX]:
        """No row asks for the nearest segment."""
        raise NotImplementedError

    def number(self, value: Any) -> Any:
        """Symbol of a number."""
        if isinstance(value, Tunable | CapturedParameter):
            self.parameters.append(self._names[value.name])
            self._parameters.append(ca.SX.sym("p"))
            return self._parameters[-1]
        return value if isinstance(value, ca.SX) else self.constant(value)

    def constant(self, value: Any) -> ca.SX:
        """Symbols of constant numbers."""
        numbers = np.atleast_1d(np.asarray(value, dtype=float)).ravel()
        self.values.append(numbers)
        self._constants.append(ca.SX.sym("c", len(numbers)))
        return self._constants[-1]

    @property
    def q(self) -> ca.SX:
        """Coordinates: a small displacement of each link, and the positions of the joints."""
        places = [place[0] + self._s * place[1] for place in self._places]
        return ca.vertcat(*[body.virtual for body in self._bodies], *places, ca.SX(0, 1))

    @property
    def _positions(self) -> ca.SX:
        """Symbols of the coordinates at s = 0."""
        return ca.vertcat(*[body.virtual for body in self._bodies], *[place[0] for place in self._places], ca.SX(0, 1))

    @property
    def v(self) -> ca.SX:
        """Velocities along the coordinates `q`, as functions of the time s."""
        twists = [ca.vertcat(body.v + self._s * body.bias[3:], body.w_now) for body in self._bodies]
        return ca.vertcat(*twists, *[place[1] for place in self._places], ca.SX(0, 1))

    @property
    def _rates(self) -> ca.SX:
        """Symbols of the velocities at s = 0."""
        twists = [ca.vertcat(body.v, body.w) for body in self._bodies]
        return ca.vertcat(*twists, *[place[1] for place in self._places], ca.SX(0, 1))

    def measure(self, name: str) -> JointMeasure:
        """Position and velocity of a joint as functions of the time s."""
        link, joint = self._of_joints[name], self._mechanism.joint(name)
        if link not in self.joints:
            self.joints.append(link)
            self._places.append(ca.SX.sym("place", 2))
        place = self._places[self.joints.index(link)]
        return JointMeasure(place[0] + self._s * place[1], place[1], joint.is_length, False)

    def input(self, name: str) -> ca.SX:
        """Symbol of an actuator's command."""
        self.inputs_used.append(self._mechanism.actuator_names[name])
        self._inputs.append(ca.SX.sym("u"))
        return self._inputs[-1]

    def _moving(self, link: int, record: int) -> _Moving:
        if record not in self.records:
            self.links.append(link)
            self.records.append(record)
            self._bodies.append(_Moving(self._s))
        return self._bodies[self.records.index(record)]

    # -- rows ---------------------------------------------------------------------------------------------------------

    def rows_of(self, constraint: Constraint) -> ca.SX:
        """Rows of a constraint, as functions of the symbols and of the time s."""
        copied = copy.copy(constraint)
        for field in dataclasses.fields(constraint):
            value = getattr(constraint, field.name)
            is_number = isinstance(value, float | int) and not isinstance(value, bool)
            if is_number and field.name not in STRUCTURE:
                object.__setattr__(copied, field.name, self.constant(value))
            if field.name == "terms":
                object.__setattr__(copied, "terms", tuple((*term[:-1], self.constant(term[-1])) for term in value))
        return ca.densify(ca.SX(copied.rows(cast(Frames, self), _Asked(self))))

    def are_lengths(self, constraint: Constraint) -> bool:
        """Whether the rows of a constraint are lengths."""
        return constraint.rows_are_lengths(_Asked(self))

    def kind(self, constraint: Constraint, rows: ca.SX, is_switched: bool) -> RowKind:
        """The expressions of the rows, which are functions of the time s."""
        s, flag = self._s, ca.SX.sym("flag")
        rows = ca.substitute(rows, self.t, self.t + s) * (flag if is_switched else 1)
        rate = ca.jacobian(rows, s)
        at = self._rates if constraint.is_nonholonomic else self._positions
        J = ca.densify(self._now(ca.jacobian(rows, at)))
        pulls, n = list[ca.SX](), rows.numel()
        for k in range(len(self.links)):
            part = J[:, 6 * k : 6 * k + 6]
            pulls.append(ca.vec(ca.horzcat(part[:, 3:], part[:, :3], ca.SX.zeros(n, 1)).T))
        for k in range(len(self.joints)):
            column = J[:, 6 * len(self.links) + k]
            pulls.append(ca.vec(ca.horzcat(ca.SX.zeros(n, 6), column).T))
        if constraint.is_nonholonomic:
            Phi, Phidot, gamma = ca.SX(0, 1), self._now(rows), -self._now(rate)
        else:
            Phi, Phidot, gamma = self._now(rows), self._now(rate), -self._now(ca.jacobian(rate, s))
        constants = ca.vertcat(*self._constants, ca.SX.sym("c"))
        frames = [body.frame for body in self._bodies]
        biases = [body.bias for body in self._bodies]
        own = self._places, self._parameters, self._inputs
        return RowKind(self.t, flag, constants, frames, biases, *own, Phi, Phidot, gamma, pulls)

    def _now(self, expression: ca.SX) -> ca.SX:
        """An expression at s = 0 and without displacements."""
        old = ca.vertcat(self._s, *[body.virtual for body in self._bodies])
        return ca.densify(ca.substitute(expression, old, ca.SX.zeros(old.numel())))


class _Moving:
    """Symbolic motion of a link as a function of a time s and of a small displacement."""

    def __init__(self, s: ca.SX) -> None:
        self.frame, self.bias = ca.SX.sym("frame", FRAME), ca.SX.sym("bias", BIAS)
        self.virtual = ca.SX.sym("virtual", 6)
        p, R, self.w, self.v = (
            self.frame[:3],
            ca.reshape(self.frame[3:12], 3, 3),
            self.frame[12:15],
            self.frame[15:],
        )
        dw, a = self.bias[:3], self.bias[3:]
        spin = ca.skew(self.w)
        turn = ca.SX.eye(3) + s * spin + s * s / 2 * (ca.skew(dw) + spin @ spin)
        self.R = (ca.SX.eye(3) + ca.skew(self.virtual[3:])) @ turn @ R
        self.p = p + s * self.v + s * s / 2 * a + self.virtual[:3]
        self.w_now = self.w + s * dw


class _Attached:
    """Frame of a body on a link, or on the ground; its constant points and axes are symbols."""

    e = None

    def __init__(self, recorder: _Recorder, place: Place, moving: _Moving | None) -> None:
        self._recorder, self._place, self._moving = recorder, place, moving

    @property
    def p(self) -> ca.SX:
        """World position (3,) of the body's origin."""
        return self.point((0.0, 0.0, 0.0))

    def point(self, point: Sequence[float]) -> ca.SX:
        """World position (3,) of a body-fixed point."""
        here = self._recorder.constant(self._place.p + self._place.R @ np.array(point))
        return here if self._moving is None else self._moving.p + self._moving.R @ here

    def axis(self, axis: Sequence[float]) -> ca.SX:
        """World components (3,) of a body-fixed axis."""
        here = self._recorder.constant(self._place.R @ np.array(axis))
        return here if self._moving is None else self._moving.R @ here

    @property
    def w(self) -> ca.SX:
        """Angular velocity (3,) in the body's axes."""
        if self._moving is None:
            return ca.SX.zeros(3)
        turn = ca.reshape(self._recorder.constant(self._place.R.T.ravel()), 3, 3)
        return (self._moving.R @ turn).T @ self._moving.w_now

    @property
    def w_W(self) -> ca.SX:
        """Angular velocity (3,) in the world's axes."""
        return ca.SX.zeros(3) if self._moving is None else self._moving.w_now


class _Asked:
    """The symbols that the rows of a constraint take."""

    def __init__(self, recorder: _Recorder) -> None:
        self._recorder = recorder
        self.number, self.t = recorder.number, recorder.t
        self.joints, self.inputs = _Measured(recorder), _Commanded(recorder)

    @property
    def q(self) -> ca.SX:
        return self._recorder.q

    @property
    def v(self) -> ca.SX:
        return self._recorder.v


class _Measured:
    def __init__(self, recorder: _Recorder) -> None:
        self._recorder = recorder

    def __getitem__(self, name: str) -> JointMeasure:
        return self._recorder.measure(name)


class _Commanded:
    def __init__(self, recorder: _Recorder) -> None:
        self._recorder = recorder

    def __getitem__(self, name: str) -> ca.SX:
        return self._recorder.input(name)


def _structure(constraint: Constraint, recorder: _Recorder) -> Hashable:
    """Value that is equal for constraints whose rows are equal but for their numbers."""
    records, found = recorder._placed.records, list[Hashable]()
    for field in dataclasses.fields(constraint):
        value = getattr(constraint, field.name)
        if field.name == "name" or field.name.startswith("point") or field.name in ATTACHED:
            continue
        if field.name == "input":
            found.append(bool(value))
        elif field.name == "terms":
            found.append(tuple((_end(term[0], recorder, records), *term[1:-1]) for term in value))
        elif isinstance(value, str):
            found.append(_end(value, recorder, records))
        elif isinstance(value, Tunable | CapturedParameter):
            found.append("parameter")
        elif callable(value):
            found.append(motion_key(value))
        elif not isinstance(value, float | int) or field.name in STRUCTURE:
            found.append(value)
    return (type(constraint).__name__, *found)


def _end(name: str, recorder: _Recorder, records: dict[str, int]) -> Hashable:
    if name in records:
        record = records[name]
        return "link", recorder.records.index(record) if record in recorder.records else -1
    of_joints = recorder._of_joints
    return ("joint", recorder.joints.index(of_joints[name])) if name in of_joints else name
