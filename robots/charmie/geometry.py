"""The two joints that linear actuators move: actuator length to joint position and back. [GoncalvesEtAl2024, sec. 4.1]

Both are planar, in x = 0 of the body that carries the actuator. Lengths m, angles rad.
"""

from __future__ import annotations

import math

from robots.charmie.parameters import Parameters
from sim_core.errors import InvalidRequest


def lift_of_length(p: Parameters, length: float) -> float:
    """Joint position of the lift (height of O4 above B3) at a length of actuator 4d; eq. 6 gives d4, its negative."""
    across = p.lift.body_point[1] - p.lift.base_point[1]
    if length < abs(across):
        raise InvalidRequest(f"robot 'charmie': lift actuator of {length} m is shorter than its offset {across} m")
    return p.lift.base_point[2] + math.sqrt(length**2 - across**2) - p.lift.body_point[2] - p.base.lift_joint[2]


def length_of_lift(p: Parameters, position: float) -> float:
    """Length of actuator 4d at a joint position of the lift."""
    up = p.base.lift_joint[2] + position + p.lift.body_point[2] - p.lift.base_point[2]
    return math.hypot(up, p.lift.body_point[1] - p.lift.base_point[1])


def tilt_of_length(p: Parameters, length: float) -> float:
    """Joint position of the tilt at a length of actuator 5d: G5 on the circles about F4 and B4.

    Of the two intersections the one in front of the line from F4 to B4, where the actuator is mounted.
    """
    B, F, G = p.lower_body.tilt_joint, p.tilt.base_point, p.tilt.body_point
    r = math.hypot(G[1], G[2])
    e = math.hypot(B[1] - F[1], B[2] - F[2])  # eq. 10
    at = (length**2 - r**2 + e**2) / (2 * e)  # eq. 11
    if at**2 > length**2:
        raise InvalidRequest(
            f"robot 'charmie': tilt actuator of {length} m does not close its triangle; it takes "
            f"{abs(e - r):.4f} to {e + r:.4f} m"
        )
    h = math.sqrt(length**2 - at**2)  # eq. 12
    y = F[1] + (at * (B[1] - F[1]) + h * (B[2] - F[2])) / e  # eq. 13
    z = F[2] + (at * (B[2] - F[2]) - h * (B[1] - F[1])) / e  # eq. 14, its second sign derived
    # eqs. 7 to 9: the angle of B4 G5 now, less the same in link 5's own axes
    return math.atan2(z - B[2], y - B[1]) - math.atan2(G[2], G[1])


def length_of_tilt(p: Parameters, position: float) -> float:
    """Length of actuator 5d at a joint position of the tilt."""
    B, F, G = p.lower_body.tilt_joint, p.tilt.base_point, p.tilt.body_point
    c, s = math.cos(position), math.sin(position)
    return math.hypot(B[1] + c * G[1] - s * G[2] - F[1], B[2] + s * G[1] + c * G[2] - F[2])
