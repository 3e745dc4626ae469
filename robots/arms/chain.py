"""Arms on a fixed base: CHARMIE's arm with two, four or six moving joints. [GoncalvesEtAl2024, sec. 6]

Links without a moving joint between them are merged into one body, so that there are as many bodies as joints. Masses,
lengths and limits are those of `robots/charmie/charmie.toml`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Annotated, Literal

from robots.arms.welding import plus, welded
from robots.charmie.links import actuator, arm_bodies, arm_joints
from robots.charmie.parameters import numbers_of, read_parameters
from robots.parameters import ParameterInfo, require_choice
from robots.stops import with_stops
from sim_core.mechanism import Joint, Mechanism, PointOutput

Limits = Annotated[
    Literal["compliant", "none"],
    ParameterInfo("stops at the joint limits: compliant ones, or none"),
]
File = Annotated[str, ParameterInfo("a parameter file", none="robots/charmie/charmie.toml")]

# {degrees of freedom: numbers of the moving joints}: shoulder and elbow; also rotation about the links; also the wrist
MOVING = {2: (2, 4), 4: (1, 2, 3, 4), 6: (1, 2, 3, 4, 5, 6)}


def _arm(n: int, file: str, limits: str) -> Mechanism:
    require_choice(f"arm_{n}dof", "limits", limits, ("compliant", "none"))
    p = read_parameters(file)
    names = [f"joint_{number}" for number in range(1, 8)]
    joints: Sequence[Joint] = [
        joint if number in MOVING[n] else dataclasses.replace(joint, name=f"rigid_{number}", kind="fixed")
        for number, joint in enumerate(arm_joints(p.arm, "", "ground", names), start=1)
    ]
    bodies, joints, places = welded(arm_bodies(p.arm, ""), joints)
    moving = [joint.name for joint in joints]
    hand, at = places["link_12"]
    arm = Mechanism(
        name=f"arm_{n}dof",
        coordinates="joint",
        bodies=bodies,
        joints=joints,
        actuators=tuple(
            actuator(name, link.effort_limit, p.arm.velocity_limit, link.servo)
            for name in moving
            for link in [p.arm.links[int(name[-1]) - 1]]
        ),
        outputs=(PointOutput(name="claw", body=hand, point=plus(at, p.arm.claw.center)),),
        gravity=(0.0, 0.0, -p.gravity),
        initial_q=(0.0,) * n,
        initial_v=(0.0,) * n,
        parameters=numbers_of(p, "gravity", "arm"),
    )
    return with_stops(arm) if limits == "compliant" else arm


def arm_2dof(file: File = "", limits: Limits = "compliant") -> Mechanism:
    """CHARMIE's arm upright on the ground; joints 2 (shoulder) and 4 (elbow) move, both about x.

    file    parameter file like robots/charmie/charmie.toml; "" means that file itself
    limits  "compliant": compliant stops at the joint limits, see robots.stops; "none": the joints have no stops
    """
    return _arm(2, file, limits)


def arm_4dof(file: File = "", limits: Limits = "compliant") -> Mechanism:
    """CHARMIE's arm upright on the ground, with joints 1 to 4 moving.

    file    parameter file like robots/charmie/charmie.toml; "" means that file itself
    limits  "compliant": compliant stops at the joint limits, see robots.stops; "none": the joints have no stops
    """
    return _arm(4, file, limits)


def arm_6dof(file: File = "", limits: Limits = "compliant") -> Mechanism:
    """CHARMIE's arm upright on the ground, with joints 1 to 6 moving.

    file    parameter file like robots/charmie/charmie.toml; "" means that file itself
    limits  "compliant": compliant stops at the joint limits, see robots.stops; "none": the joints have no stops
    """
    return _arm(6, file, limits)
