"""Kinematics of the linear actuators (actuator length to joint position and back) and of the balancing bars.

[GoncalvesEtAl2024, eqs. 5 to 14 and 22 to 25]

All motions are planar, in the plane x = 0 of the body that carries the actuator. Lengths are in m, angles in rad. The
position of the lift is the height of link 4's origin O4 above link 3's point B3, the negative of the paper's d4. A
forward tilt is negative.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from robots.charmie.parameters import Parameters
from sim_core.errors import InvalidRequest


class Motion(NamedTuple):
    """Position of a joint (rad or m) or length of an actuator (m), with its first and second time derivatives."""

    x: float
    v: float = 0.0
    a: float = 0.0


class PlanarMotion(NamedTuple):
    """Vector from an actuator's base to its end in the yz plane, with its rate and acceleration.

    The components are along the axes of the body that carries the base.
    """

    y: Motion
    z: Motion

    @property
    def length(self) -> Motion:
        """Length of the vector (m), as a Motion with rate and acceleration."""
        (y, dy, ddy), (z, dz, ddz) = self.y, self.z
        length = math.hypot(y, z)
        rate = (y * dy + z * dz) / length
        return Motion(length, rate, (dy * dy + dz * dz + y * ddy + z * ddz - rate * rate) / length)

    @property
    def turn(self) -> Motion:
        """Angle of the vector about x, measured from the z axis (rad), as a Motion with rate and acceleration."""
        (y, dy, ddy), (z, dz, ddz) = self.y, self.z
        square = y * y + z * z
        rate = (y * dz - dy * z) / square
        grown = 2 * (y * dy + z * dz)
        return Motion(math.atan2(-y, z), rate, (y * ddz - ddy * z - rate * grown) / square)


def lift_of_length(p: Parameters, length: float) -> float:
    """Joint position of the lift (m) for a length of actuator 4d (m). [GoncalvesEtAl2024, eq. 6]

    The position is the negative of the paper's d4.
    """
    return lift_motion(p, Motion(length)).x


def length_of_lift(p: Parameters, position: float) -> float:
    """Length of actuator 4d (m) for a joint position of the lift (m)."""
    return lift_actuator(p, Motion(position)).length.x


def tilt_of_length(p: Parameters, length: float) -> float:
    """Joint position of the tilt (rad) for a length of actuator 5d (m). [GoncalvesEtAl2024, eqs. 7 to 14]"""
    return tilt_motion(p, Motion(length)).x


def length_of_tilt(p: Parameters, position: float) -> float:
    """Length of actuator 5d (m) for a joint position of the tilt (rad)."""
    return tilt_actuator(p, Motion(position)).length.x


def lift_actuator(p: Parameters, lift: Motion) -> PlanarMotion:
    """Vector along actuator 4d from its base D3 to its end E4, in link 3's axes, for a motion of the lift."""
    across = p.lift.body_point[1] - p.lift.base_point[1]
    up = p.base.lift_joint[2] + lift.x + p.lift.body_point[2] - p.lift.base_point[2]
    return PlanarMotion(Motion(across), Motion(up, lift.v, lift.a))


def tilt_actuator(p: Parameters, tilt: Motion) -> PlanarMotion:
    """Vector along actuator 5d from its base F4 to its end G5, in link 4's axes, for a motion of the tilt."""
    B, F, G = p.lower_body.tilt_joint, p.tilt.base_point, p.tilt.body_point
    c, s = math.cos(tilt.x), math.sin(tilt.x)
    gy, gz = c * G[1] - s * G[2], s * G[1] + c * G[2]
    square = tilt.v * tilt.v
    y = Motion(B[1] + gy - F[1], -gz * tilt.v, -gz * tilt.a - gy * square)
    z = Motion(B[2] + gz - F[2], gy * tilt.v, gy * tilt.a - gz * square)
    return PlanarMotion(y, z)


def lift_motion(p: Parameters, length: Motion) -> Motion:
    """Motion of the lift for a motion of the length of actuator 4d, by [GoncalvesEtAl2024, eq. 6] and its derivatives.

    Raises InvalidRequest if the length is too short.
    """
    across = p.lift.body_point[1] - p.lift.base_point[1]
    if length.x <= abs(across):
        raise InvalidRequest(
            f"robot 'charmie': the lift actuator's length is {length.x} m; it must be above {abs(across):.4g} m, the "
            "offset of its ends in y"
        )
    up = math.sqrt(length.x**2 - across**2)
    position = p.lift.base_point[2] + up - p.lift.body_point[2] - p.base.lift_joint[2]
    rate = length.x * length.v / up
    return Motion(position, rate, (length.v**2 + length.x * length.a - rate * rate) / up)


def tilt_motion(p: Parameters, length: Motion) -> Motion:
    """Motion of the tilt for a motion of the length of actuator 5d.

    The actuator has its base at the point F4 of link 4 and its end at the point G5 of link 5. Link 5 is hinged at the
    point B4 of link 4. G5 is an intersection of two circles about F4 and B4: the one in front of the line from F4 to
    B4, where the actuator is mounted. Raises InvalidRequest for a length at which the triangle F4, B4, G5 does not
    close or is flat.
    """
    B, F, G = p.lower_body.tilt_joint, p.tilt.base_point, p.tilt.body_point
    r = math.hypot(G[1], G[2])
    e = math.hypot(B[1] - F[1], B[2] - F[2])  # eq. 10
    at = (length.x**2 - r**2 + e**2) / (2 * e)  # eq. 11
    if at**2 >= length.x**2:
        raise InvalidRequest(
            f"robot 'charmie': the tilt actuator's length is {length.x} m; it must be between {abs(e - r):.4f} and "
            f"{e + r:.4f} m"
        )
    h = math.sqrt(length.x**2 - at**2)  # eq. 12
    y = F[1] + (at * (B[1] - F[1]) + h * (B[2] - F[2])) / e  # eq. 13
    z = F[2] + (at * (B[2] - F[2]) - h * (B[1] - F[1])) / e  # eq. 14, its second sign derived
    # eqs. 7 to 9: the angle of B4 G5 now, minus that in link 5's own axes; eq. 9 defines the alpha of eq. 7
    position = math.atan2(z - B[2], y - B[1]) - math.atan2(G[2], G[1])
    # l' = g tilt', l'' = g tilt'' + g' tilt', with g = dl/dtilt
    unit = tilt_actuator(p, Motion(position, 1.0)).length
    rate = length.v / unit.v
    return Motion(position, rate, (length.a - unit.a * rate * rate) / unit.v)


def balance_motion(p: Parameters, lift: Motion) -> tuple[Motion, Motion]:
    """Motions of the bar and the slider of the balancing mechanism, for a motion of the lift.

    [GoncalvesEtAl2024, eqs. 22 to 25]

    Returns (elevation of the bar above the horizontal in rad, distance of the slider from the middle in m). Both are
    the same for the two halves of the mechanism. The printed eq. 25 is a tautology; here the slider has the x
    coordinate of the bar's end. Raises InvalidRequest for a position of the lift that the bar does not reach.
    """
    b = p.balance.bar_length
    rise = p.base.lift_joint[2] + lift.x + p.balance.slide_height - p.balance.slider_length - p.balance.pivot[2]
    if abs(rise) >= b:
        raise InvalidRequest(
            f"robot 'charmie': balance.bar_length is {b} m; it must exceed the rise of the bar's end, {rise:.4g} m"
        )
    angle = math.asin(rise / b)
    s, c = rise / b, math.cos(angle)
    rate = lift.v / (b * c)
    change = (lift.a / b + s * rate * rate) / c
    slider = Motion(b * c - p.balance.pivot[0], -b * s * rate, -b * (s * change + c * rate * rate))
    return Motion(angle, rate, change), slider
