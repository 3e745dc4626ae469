"""What a planner believes of a gibbon and its line, taken from a description of them with parameters of its own."""

from __future__ import annotations

from robots.gibbon.swing_model import Beliefs, Link
from sim_core.mechanism import Mechanism
from sim_core.quantities import value_of


def beliefs_of(mechanism: Mechanism) -> Beliefs:
    """The beliefs that a gibbon's description stands for."""
    links = []
    for name, hand, end in (("arm_a", "pitch", "elbow"), ("arm_b", "wrist_b", "")):
        body = mechanism.body(name)
        joint = mechanism.joint(end or hand)
        length = -joint.parent_point[2]
        center = -body.center_of_mass[2]
        links.append(
            Link(
                length=length,
                mass=value_of(body.mass),
                center=center if end else length - center,
                inertia=value_of(body.inertia[0]),
            )
        )
    return Beliefs(
        links=(links[0], links[1]),
        hand_mass=value_of(mechanism.body("hand_a").mass),
        elbow_damping=value_of(mechanism.joint("elbow").damping),
        gravity=-mechanism.gravity[2],
        cable=mechanism.beams[0] if mechanism.beams else None,
    )
