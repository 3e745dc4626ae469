"""What a brachiating robot believes of itself and of its line: two links under a gripping hand, as a mechanism.

The hand that grips is the first, whichever it is on the robot. The elbow is at +(pi - 2 beta) when both hands grip the
line and the first is in front, at -(pi - 2 beta) when the second is, with sin beta = d / (2 l) for links of length l
and a step d. World x runs along the line, z up. [Lipinski2023] has the cable as a beam; the robot is ours.

There are two mechanisms, for one hand that grips and for both. The rows of the second hand are how far it is above
the line, and how far along it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

from sim_core.flexible.description import Beam, BeamContact
from sim_core.mechanism import (
    GROUND,
    ORIGIN,
    Actuator,
    Body,
    Coincidence,
    Constraint,
    Joint,
    Mechanism,
    X,
    Y,
)
from sim_core.system import System, assemble

SWING, BOTH = range(2)
SLIDE, DROP, PITCH, ELBOW = range(4)
N_RIGID = 4
DOWN = (0.0, 0.0, -1.0)


@dataclass(frozen=True, kw_only=True)
class Link:
    """A link from a hand to the elbow: length m, mass kg, centre of mass m from its hand, inertia about it kg m2.

    The hand at its end has a mass of its own, hand_center m from the grip towards the elbow.
    """

    length: float
    mass: float
    center: float
    inertia: float
    hand_mass: float = 0.0
    hand_center: float = 0.0
    hand_inertia: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Beliefs:
    """What the planner believes. `links` are those of hand a and hand b; `cable` None means rigid bars at z = 0.

    grip_width  m along the cable that a hand takes hold of
    """

    links: tuple[Link, Link]
    elbow_damping: float = 0.0
    gravity: float = 9.81
    cable: Beam | None = None
    grip_width: float = 0.0

    def seen_from(self, hand: str) -> Beliefs:
        """The same with the links in the order in which they hang under that hand, "a" or "b"."""
        return self if hand == "a" else replace(self, links=self.links[::-1])


@cache
def swing_system(beliefs: Beliefs, hands: int) -> System:
    """The compiled mechanism of `swing_mechanism`, one per beliefs and number of hands."""
    return assemble(swing_mechanism(beliefs, hands))


def swing_mechanism(beliefs: Beliefs, hands: int) -> Mechanism:
    """Coordinates slide, drop (m, down), pitch, elbow (rad), then the cable's modes; 1 or 2 hands grip."""
    upper, lower = beliefs.links
    tip, elbow = (0.0, 0.0, -lower.length), (0.0, 0.0, -upper.length)

    def on(name: str, body: str, point: tuple[float, float, float]) -> Constraint:
        if beliefs.cable is not None:
            return BeamContact(name=name, beam=beliefs.cable.name, body=body, point=point, width=beliefs.grip_width)
        return Coincidence(name=name, body_a=GROUND, point_a=ORIGIN, body_b=body, point_b=point, directions=(DOWN,))

    def along(name: str, body: str, point: tuple[float, float, float]) -> Constraint:
        return Coincidence(name=name, body_a=body, point_a=point, body_b=GROUND, point_b=ORIGIN, directions=(X,))

    held = (
        on("grip", "hand", ORIGIN),
        along("stay", "hand", ORIGIN),
        on("gap", "lower", tip),
        along("way", "lower", tip),
    )
    return Mechanism(
        name=f"gibbon_swing_{hands}",
        coordinates="joint",
        bodies=(
            Body(name="trolley", mass=0.0, inertia=_across(0.0)),
            Body(name="hand", mass=0.0, inertia=_across(0.0)),
            _body("upper", upper.mass, upper.inertia, -upper.center),
            _body("lower", lower.mass, lower.inertia, lower.center - lower.length),
            _body("palm", upper.hand_mass, upper.hand_inertia, -upper.hand_center),
            _body("tip", lower.hand_mass, lower.hand_inertia, lower.hand_center),
        ),
        joints=(
            Joint(name="slide", kind="prismatic", child="trolley", axis=X),
            Joint(name="drop", kind="prismatic", parent="trolley", child="hand", axis=DOWN),
            Joint(name="pitch", parent="hand", child="upper", axis=Y),
            Joint(
                name="elbow", parent="upper", child="lower", axis=Y, parent_point=elbow, damping=beliefs.elbow_damping
            ),
            Joint(name="palm", kind="fixed", parent="upper", child="palm"),
            Joint(name="wrist", kind="fixed", parent="lower", child="tip", parent_point=tip),
        ),
        constraints=held[: 2 * hands],
        beams=() if beliefs.cable is None else (beliefs.cable,),
        actuators=(Actuator(name="elbow", joint="elbow"),),
        gravity=(0.0, 0.0, -beliefs.gravity),
        initial_q=(0.0,) * _size(beliefs),
        initial_v=(0.0,) * _size(beliefs),
    )


def _size(beliefs: Beliefs) -> int:
    return N_RIGID + (0 if beliefs.cable is None else beliefs.cable.n_coordinates)


def _body(name: str, mass: float, inertia: float, z: float) -> Body:
    return Body(name=name, mass=mass, inertia=_across(inertia), center_of_mass=(0.0, 0.0, z))


def _across(inertia: float) -> tuple[float, float, float, float, float, float]:
    """The inertia of a rod along z."""
    return (inertia, inertia, 0.0, 0.0, 0.0, 0.0)
