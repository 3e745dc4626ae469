"""RicMonk: two arms and a tail at the elbow with two motors, hanging from a bar by a passive hook.

SOURCES.md lists the sources of the numbers.
"""

from __future__ import annotations

import math
from typing import Annotated

from robots.brachiation.links import GRAVITY, HANGING, SWING, TORQUE_LIMIT, bars, link
from robots.parameters import ParameterInfo, require_not_negative, require_positive
from sim_core.mechanism import Actuator, Joint, Matrix3, Mechanism, PointOutput, Tunable, X

NAME = "ricmonk"
TURNED: Matrix3 = ((-1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, -1.0))


def ricmonk(
    arm_1_deg: Annotated[float, ParameterInfo("angle of the support arm at the start", "deg")] = 0.0,
    tail_deg: Annotated[float, ParameterInfo("angle of the tail to the support arm at the start", "deg")] = 0.0,
    arm_2_deg: Annotated[float, ParameterInfo("angle of the free arm to the tail at the start", "deg")] = 0.0,
    arm_1_damping: Annotated[float, ParameterInfo("damping of the hook on the bar", "N m s")] = 0.0,
    tail_damping: Annotated[float, ParameterInfo("damping of the joint between support arm and tail", "N m s")] = 0.0,
    arm_2_damping: Annotated[float, ParameterInfo("damping of the joint between tail and free arm", "N m s")] = 0.0,
    torque_limit: Annotated[float, ParameterInfo("torque limit of both motors", "N m")] = TORQUE_LIMIT,
) -> Mechanism:
    """RicMonk hanging from one bar: joint "arm_1" (hook on the bar, no motor), joints "tail" and "arm_2" (motors).

    All joints are at 0 while the robot hangs straight. The angle of the tail is relative to the support arm, the angle
    of the free arm to the tail. The hook neither slides nor leaves the bar: the model is that of one swing.
    """
    require_not_negative(NAME, arm_1_damping=arm_1_damping, tail_damping=tail_damping, arm_2_damping=arm_2_damping)
    require_positive(NAME, torque_limit=torque_limit)
    elbow, hook = (0.03655, 0.31400886121263, -0.02), (0.00055, 0.314008861212629, 0.02)
    return Mechanism(
        name=NAME,
        coordinates="joint",
        bodies=(
            link(
                "arm_1",
                0.31253,
                (-0.00077047, 0.16959, -0.022094),
                (0.00099006, 0.00036755, 0.00069232, 6.8261e-06, 1.0342e-10, -4.7577e-06),
                elbow,
                "#0072b2",
            ),
            link(
                "tail",
                2.63096785521702,
                (-0.0056009765606122, 0.182449040804017, 0.00254813231558806),
                (
                    0.00523785541666047,
                    0.00395069160539681,
                    0.00309094774503178,
                    5.87184699597149e-07,
                    -4.07133795898078e-07,
                    -1.24226112383513e-06,
                ),
                (0.0, 0.3, 0.0),
                "#009e73",
            ),
            link(
                "arm_2",
                0.140647941711974,
                (-0.0011371, 0.089177, 0.0),
                (0.0008365, 0.00032416, 0.00056305, -6.8246e-06, 0.0, 0.0),
                hook,
                "#d55e00",
            ),
            link(
                "hook_2",
                0.171894025592926,
                (0.0, 0.035208, -0.027189),
                (0.00015356, 4.3392e-05, 0.00012928, 1.4986e-09, 1.0342e-10, -4.7577e-06),
            ),
        ),
        joints=(
            Joint(
                name="arm_1",
                child="arm_1",
                axis=SWING,
                rotation=HANGING,
                damping=Tunable("arm_1_damping", arm_1_damping, unit="N m s"),
            ),
            Joint(
                name="tail",
                parent="arm_1",
                child="tail",
                axis=X,
                parent_point=elbow,
                rotation=TURNED,
                damping=Tunable("tail_damping", tail_damping, unit="N m s"),
            ),
            Joint(
                name="arm_2",
                parent="tail",
                child="arm_2",
                axis=(-1.0, 0.0, 0.0),
                parent_point=(-0.0365, 0.0, 0.0),
                damping=Tunable("arm_2_damping", arm_2_damping, unit="N m s"),
            ),
            Joint(
                name="hook_2",
                kind="fixed",
                parent="arm_2",
                child="hook_2",
                parent_point=hook,
                rotation=((-1.0, 0.0, 0.0), (0.0, -1.0, 0.0), (0.0, 0.0, 1.0)),
            ),
        ),
        actuators=tuple(
            Actuator(name=name, joint=name, effort_limit=torque_limit, velocity_limit=43.0)
            for name in ("tail", "arm_2")
        ),
        outputs=(PointOutput(name="hook", body="hook_2"),),
        ground=bars(),
        gravity=(0.0, 0.0, -GRAVITY),
        initial_q=tuple(math.radians(angle) for angle in (arm_1_deg, tail_deg, arm_2_deg)),
        initial_v=(0.0, 0.0, 0.0),
        parameters={"torque_limit": torque_limit},
    )
