"""Derives the brachiation planner's model from the mechanism of a gibbon robot and its cable or bars."""

from __future__ import annotations

from nodes.planning.brachiation.swing_model import Link, PlannerModel
from sim_core.mechanism import Mechanism
from sim_core.mechanism.constraints import BeamContact
from sim_core.mechanism.quantities import value_of


def planner_model_of(mechanism: Mechanism, stiffness: float = 0.0, damping: float = 0.0) -> PlannerModel:
    """The planner's model of a gibbon robot, derived from the robot's mechanism.

    stiffness  stiffness (N m/rad) of the PD law by which the trunk's motor keeps the trunk vertical
    damping    damping (N m s/rad) of this PD law

    Without a motor for the trunk, neither number has an effect.
    """
    contacts = [constraint for constraint in mechanism.constraints if isinstance(constraint, BeamContact)]
    a_length, b_length = (-mechanism.joint(name).parent_point[2] for name in ("elbow", "wrist_b"))
    return PlannerModel(
        links=(_link(mechanism, "a", a_length, -1.0), _link(mechanism, "b", b_length, 1.0)),
        elbow_damping=value_of(mechanism.joint("elbow").damping),
        gravity=-mechanism.gravity[2],
        cable=mechanism.beams[0] if mechanism.beams else None,
        grip_width=contacts[0].width if contacts else 0.0,
        trunk=_trunk(mechanism),
        hanging=(stiffness, damping, limit_of(mechanism, "trunk")),
    )


def limit_of(mechanism: Mechanism, joint: str) -> float:
    """Effort limit (N m) of a joint's motor; 0 if the joint has no motor or its motor has no limit."""
    limits = [actuator.effort_limit for actuator in mechanism.actuators if actuator.joint == joint]
    return limits[0] or 0.0 if limits else 0.0


def _trunk(mechanism: Mechanism) -> Link | None:
    if not any(body.name == "trunk" for body in mechanism.bodies):
        return None
    trunk = mechanism.body("trunk")
    length = -min(z for shape in trunk.shapes for z in shape.points[2::3])
    return Link(
        length=length, mass=value_of(trunk.mass), center=-trunk.center_of_mass[2], inertia=value_of(trunk.inertia[0])
    )


def _link(mechanism: Mechanism, name: str, length: float, to_elbow: float) -> Link:
    """A `Link` with the data of an arm and its hand.

    length    distance from hand to elbow, m
    to_elbow  sign of the direction from the hand to the elbow along the arm's z axis
    """
    arm, hand = mechanism.body(f"arm_{name}"), mechanism.body(f"hand_{name}")
    center = to_elbow * arm.center_of_mass[2]
    return Link(
        length=length,
        mass=value_of(arm.mass),
        center=center if name == "a" else length + center,
        inertia=value_of(arm.inertia[0]),
        hand_mass=value_of(hand.mass),
        hand_center=to_elbow * hand.center_of_mass[2],
        hand_inertia=value_of(hand.inertia[0]),
    )
