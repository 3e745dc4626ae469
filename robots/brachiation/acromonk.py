"""AcroMonk: two links with one motor at the elbow, hanging from a bar by a passive hook.

SOURCES.md lists the sources of the numbers.
"""

from __future__ import annotations

import math
from typing import Annotated

from robots.brachiation.links import GRAVITY, HANGING, SWING, TORQUE_LIMIT, bars, link
from robots.parameters import ParameterInfo, require_not_negative, require_positive
from sim_core.mechanism import Actuator, Joint, Mechanism, PointOutput, Tunable, X

NAME = "acromonk"


def acromonk(
    shoulder_deg: Annotated[float, ParameterInfo("angle of the support arm at the start", "deg")] = 0.0,
    elbow_deg: Annotated[float, ParameterInfo("angle of the elbow at the start", "deg")] = 0.0,
    shoulder_damping: Annotated[float, ParameterInfo("damping of the hook on the bar", "N m s")] = 0.0,
    elbow_damping: Annotated[float, ParameterInfo("damping of the elbow", "N m s")] = 0.0,
    torque_limit: Annotated[float, ParameterInfo("torque limit of the elbow's motor", "N m")] = TORQUE_LIMIT,
) -> Mechanism:
    """AcroMonk hanging from one bar: joint "shoulder" (hook on the bar, no motor) and joint "elbow" (motor).

    Both joints are at 0 while the robot hangs straight. The elbow's angle is relative to the support arm. The hook
    neither slides nor leaves the bar: the model is that of one swing.
    """
    require_not_negative(NAME, shoulder_damping=shoulder_damping, elbow_damping=elbow_damping)
    require_positive(NAME, torque_limit=torque_limit)
    elbow, hook = (0.0221, 0.31401, -0.02), (-0.0221, 0.31401, -0.02)
    return Mechanism(
        name=NAME,
        coordinates="joint",
        bodies=(
            link(
                "arm_1",
                1.0419,
                (-0.0074828, 0.23347, -0.020697),
                (0.0017085, 0.00071761, 0.0011807, -1.1165e-05, -5.9438e-12, -4.3578e-06),
                elbow,
                "#0072b2",
            ),
            link(
                "arm_2",
                0.49759,
                (0.00039594, 0.091773, 3.1856e-05),
                (0.00099182, 0.0003858, 0.00063822, -2.7785e-06, -1.7253e-10, -2.3071e-08),
                hook,
                "#d55e00",
            ),
            link(
                "hook_2",
                0.1009,
                (0.0236, -0.035143, 0.027199),
                (0.00014182, 3.885e-05, 0.00011814, -1.0624e-11, 5.6845e-12, -4.3578e-06),
            ),
            link(
                "imu",
                0.032575,
                (0.0071635, -0.0014434, 0.00087298),
                (1.2236e-05, 8.4139e-06, 2.0142e-05, -3.9023e-07, -5.1339e-07, 3.5873e-07),
            ),
        ),
        joints=(
            Joint(
                name="shoulder",
                child="arm_1",
                axis=SWING,
                rotation=HANGING,
                damping=Tunable("shoulder_damping", shoulder_damping, unit="N m s"),
            ),
            Joint(
                name="elbow",
                parent="arm_1",
                child="arm_2",
                axis=X,
                parent_point=elbow,
                damping=Tunable("elbow_damping", elbow_damping, unit="N m s"),
            ),
            Joint(name="hook_2", kind="fixed", parent="arm_2", child="hook_2", parent_point=hook),
            Joint(
                name="imu",
                kind="fixed",
                parent="arm_2",
                child="imu",
                parent_point=(0.00959, 0.15306, 0.0015645),
                rotation=((0.0, 0.0, 1.0), (0.0, 1.0, 0.0), (-1.0, 0.0, 0.0)),
            ),
        ),
        actuators=(Actuator(name="elbow", joint="elbow", effort_limit=torque_limit, velocity_limit=43.0),),
        outputs=(PointOutput(name="hook", body="hook_2"),),
        ground=bars(),
        gravity=(0.0, 0.0, -GRAVITY),
        initial_q=(math.radians(shoulder_deg), math.radians(elbow_deg)),
        initial_v=(0.0, 0.0),
        parameters={"torque_limit": torque_limit},
    )
