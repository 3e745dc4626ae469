"""Mechanism of the brachiation planner's model: two links below a gripping hand, on a line of rigid bars or a cable.

A trunk may hang on the elbow, either passive or kept vertical by a motor between the trunk and arm a.

The first hand of the mechanism is the gripping hand, which may be hand a or hand b of the robot. World x runs along the
line, z up. While both hands grip, the elbow angle is pi - 2 beta if the first hand is in front and -(pi - 2 beta) if
the second hand is in front. Here sin beta = d / (2 l), for links of length l and a distance d between the hands. The
model of the cable as a beam is that of [Lipinski2023]; the model of the robot is not from this paper.

There are three mechanisms. In SWING the first hand grips. In BOTH both hands grip; two further constraint rows are the
second hand's height above the line and its position along the line. In DRIVEN the first hand grips, and the elbow
acceleration is prescribed by the last constraint row, whose multiplier is minus the elbow torque needed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

from sim_core.mechanism import (
    GROUND,
    ORIGIN,
    Actuator,
    Body,
    Coincidence,
    Constraint,
    Joint,
    Mechanism,
    SpinRelation,
    X,
    Y,
)
from sim_core.mechanism.beams import Beam
from sim_core.mechanism.constraints import BeamContact
from sim_core.system import System, assemble

SWING, BOTH, DRIVEN = range(3)
SLIDE, DROP, PITCH, ELBOW, TRUNK = range(5)
DOWN = (0.0, 0.0, -1.0)


@dataclass(frozen=True, kw_only=True)
class Link:
    """A link from a hand to the elbow.

    length        distance from hand to elbow, m
    mass          mass of the link without hand, kg
    center        distance of the centre of mass from the hand, m
    inertia       moment of inertia about the centre of mass, kg m2
    hand_mass     mass of the hand, kg
    hand_center   distance of the hand's centre of mass from the grip toward the elbow, m
    hand_inertia  moment of inertia of the hand about its centre of mass, kg m2
    """

    length: float
    mass: float
    center: float
    inertia: float
    hand_mass: float = 0.0
    hand_center: float = 0.0
    hand_inertia: float = 0.0


@dataclass(frozen=True, kw_only=True)
class PlannerModel:
    """The planner's model of the robot, and of the cable or bars that the robot swings on.

    links          the links of hand a and hand b
    elbow_damping  damping of the elbow, N m s/rad
    gravity        gravitational acceleration, m/s^2
    cable          the cable as a beam; None for rigid bars at z = 0
    grip_width     length of cable that a hand grips, m
    trunk          link that hangs on the elbow and rotates relative to arm a, with `center` measured from the elbow;
                   None for a robot without a trunk
    trunk_on       link of the mechanism to which the trunk's joint connects the trunk, "upper" or "lower"
    hanging        stiffness (N m/rad), damping (N m s/rad) and torque limit (N m) of the PD law that keeps the trunk
                   vertical
    """

    links: tuple[Link, Link]
    elbow_damping: float = 0.0
    gravity: float = 9.81
    cable: Beam | None = None
    grip_width: float = 0.0
    trunk: Link | None = None
    trunk_on: Literal["upper", "lower"] = "upper"
    hanging: tuple[float, float, float] = (0.0, 0.0, 0.0)

    def ordered_from(self, hand: str) -> PlannerModel:
        """The model with its links ordered from the gripping hand, "a" or "b"."""
        if hand == "a":
            return self
        return replace(self, links=self.links[::-1], trunk_on="upper" if self.trunk is None else "lower")

    @property
    def mass(self) -> float:
        """Mass of the robot, kg."""
        arms = sum(link.mass + link.hand_mass for link in self.links)
        return arms + (0.0 if self.trunk is None else self.trunk.mass)

    @property
    def n_rigid(self) -> int:
        """Number of coordinates before those of the cable: slide, drop, pitch, elbow, and trunk if there is one."""
        return 4 if self.trunk is None else 5


@cache
def swing_system(planner_model: PlannerModel, kind: int) -> System:
    """The compiled `swing_mechanism`, cached per model and kind."""
    return assemble(swing_mechanism(planner_model, kind))


def swing_mechanism(planner_model: PlannerModel, kind: int) -> Mechanism:
    """The mechanism for a swing.

    Its coordinates are slide, drop (m, down), pitch, elbow, trunk (rad), and then the modal coordinates of the cable.

    kind  SWING: one hand grips; BOTH: both hands grip; DRIVEN: like SWING, with an additional constraint row that
          prescribes the elbow's acceleration
    """
    bodies, joints = _parts(planner_model)
    motors = ("elbow",) if planner_model.trunk is None else ("elbow", "trunk")
    size = planner_model.n_rigid + (0 if planner_model.cable is None else planner_model.cable.n_coordinates)
    held = _grips(planner_model)[: 4 if kind == BOTH else 2]
    bend = SpinRelation(name="bend", terms=(("lower", Y, 1.0), ("upper", Y, -1.0)))
    return Mechanism(
        name=f"gibbon_swing_{kind}",
        coordinates="joint",
        bodies=bodies,
        joints=joints,
        constraints=(*held, bend) if kind == DRIVEN else held,
        beams=() if planner_model.cable is None else (planner_model.cable,),
        actuators=tuple(Actuator(name=name, joint=name) for name in motors),
        gravity=(0.0, 0.0, -planner_model.gravity),
        initial_q=(0.0,) * size,
        initial_v=(0.0,) * size,
    )


def _grips(planner_model: PlannerModel) -> tuple[Constraint, ...]:
    """Four constraints: two on the gripping hand, then two on the other hand.

    The two constraints of a hand keep the hand at the height of the line and at its position along the line. The
    mechanism in which both hands grip has all four constraints; a mechanism for a swing has only the first two.
    """
    tip = (0.0, 0.0, -planner_model.links[1].length)

    def on(name: str, body: str, point: tuple[float, float, float]) -> Constraint:
        if planner_model.cable is not None:
            return BeamContact(
                name=name, beam=planner_model.cable.name, body=body, point=point, width=planner_model.grip_width
            )
        return Coincidence(name=name, body_a=GROUND, point_a=ORIGIN, body_b=body, point_b=point, directions=(DOWN,))

    def along(name: str, body: str, point: tuple[float, float, float]) -> Constraint:
        return Coincidence(name=name, body_a=body, point_a=point, body_b=GROUND, point_b=ORIGIN, directions=(X,))

    return (
        on("grip", "hand", ORIGIN),
        along("stay", "hand", ORIGIN),
        on("gap", "lower", tip),
        along("way", "lower", tip),
    )


def _parts(planner_model: PlannerModel) -> tuple[tuple[Body, ...], tuple[Joint, ...]]:
    upper, lower = planner_model.links
    tip, elbow = (0.0, 0.0, -lower.length), (0.0, 0.0, -upper.length)
    bodies = [
        Body(name="trolley", mass=0.0, inertia=_across(0.0)),
        Body(name="hand", mass=0.0, inertia=_across(0.0)),
        _body("upper", upper.mass, upper.inertia, -upper.center),
        _body("lower", lower.mass, lower.inertia, lower.center - lower.length),
        _body("palm", upper.hand_mass, upper.hand_inertia, -upper.hand_center),
        _body("tip", lower.hand_mass, lower.hand_inertia, lower.hand_center),
    ]
    damping = planner_model.elbow_damping
    joints = [
        Joint(name="slide", kind="prismatic", child="trolley", axis=X),
        Joint(name="drop", kind="prismatic", parent="trolley", child="hand", axis=DOWN),
        Joint(name="pitch", parent="hand", child="upper", axis=Y),
        Joint(name="elbow", parent="upper", child="lower", axis=Y, parent_point=elbow, damping=damping),
        Joint(name="palm", kind="fixed", parent="upper", child="palm"),
        Joint(name="wrist", kind="fixed", parent="lower", child="tip", parent_point=tip),
    ]
    if planner_model.trunk is not None:
        at = elbow if planner_model.trunk_on == "upper" else ORIGIN
        bodies.append(
            _body("trunk", planner_model.trunk.mass, planner_model.trunk.inertia, -planner_model.trunk.center)
        )
        joints.insert(
            4,
            Joint(name="trunk", parent=planner_model.trunk_on, child="trunk", axis=Y, parent_point=at, damping=damping),
        )
    return tuple(bodies), tuple(joints)


def _body(name: str, mass: float, inertia: float, z: float) -> Body:
    return Body(name=name, mass=mass, inertia=_across(inertia), center_of_mass=(0.0, 0.0, z))


def _across(inertia: float) -> tuple[float, float, float, float, float, float]:
    """Inertia (xx, yy, zz, xy, xz, yz) of a thin rod along z: `inertia` about x and y, zero about z."""
    return (inertia, inertia, 0.0, 0.0, 0.0, 0.0)
