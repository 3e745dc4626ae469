"""Motion profiles of one joint, as pure functions of time: t in seconds -> value, rate, acceleration.

Times increase strictly. A profile is at rest at its first value before the first time, and at its last value after the
last time.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import pairwise

Point = tuple[float, float, float]  # value, rate, acceleration
Curve = Callable[[float], Point]


def sine(amplitude: float, period: float, t: float) -> Point:
    """(value, rate, acceleration) of amplitude * sin(2 pi t / period) from t = 0 on; at rest at 0 before."""
    if t < 0.0:
        return 0.0, 0.0, 0.0
    w = 2.0 * math.pi / period
    s, c = math.sin(w * t), math.cos(w * t)
    return amplitude * s, amplitude * w * c, -amplitude * w * w * s


def steps(times: Sequence[float], values: Sequence[float], t: float) -> Point:
    """(value, 0, 0) of a step function, which jumps to the value of each waypoint at the waypoint's time.

    Before the first waypoint, the function has the first value.
    """
    return values[max(0, bisect_right(times, t) - 1)], 0.0, 0.0


def minimum_jerk(times: Sequence[float], values: Sequence[float], t: float) -> Point:
    """Minimum-jerk moves between waypoints, at rest in each waypoint: (value, rate, acceleration) at the time t.

    After the fraction s of its duration, a move has covered the fraction 10 s^3 - 15 s^4 + 6 s^5 of its distance.

    times, values  time (s) and value of each waypoint
    """
    if t <= times[0] or len(times) == 1:
        return values[0], 0.0, 0.0
    if t >= times[-1]:
        return values[-1], 0.0, 0.0
    k = bisect_right(times, t)
    span, way = times[k] - times[k - 1], values[k] - values[k - 1]
    s = (t - times[k - 1]) / span
    share = s**3 * (10.0 + s * (-15.0 + 6.0 * s))
    rate = 30.0 * s**2 * (1.0 - s) ** 2 / span
    acceleration = 60.0 * s * (1.0 - s) * (1.0 - 2.0 * s) / span**2
    return values[k - 1] + way * share, way * rate, way * acceleration


def quintic(times: Sequence[float], points: Sequence[Point]) -> Curve:
    """Curve with the given value, rate and acceleration at each waypoint, and a polynomial of degree 5 between
    waypoints.
    """
    pieces = [
        _quintic_piece(span, start, end)
        for span, start, end in zip(_spans(times), points, points[1:], strict=False)  # one span less than points
    ]

    def curve(t: float) -> Point:
        if t < times[0] or not pieces:
            return points[0][0], 0.0, 0.0
        if t > times[-1]:
            return points[-1][0], 0.0, 0.0
        k = min(bisect_right(times, t), len(pieces))
        c0, c1, c2, c3, c4, c5 = pieces[k - 1]
        s = t - times[k - 1]
        value = c0 + s * (c1 + s * (c2 + s * (c3 + s * (c4 + s * c5))))
        rate = c1 + s * (2 * c2 + s * (3 * c3 + s * (4 * c4 + s * 5 * c5)))
        return value, rate, 2 * c2 + s * (6 * c3 + s * (12 * c4 + s * 20 * c5))

    return curve


def _quintic_piece(span: float, start: Point, end: Point) -> tuple[float, ...]:
    """Coefficients, lowest power first, of the polynomial of degree 5 in the time since the start.

    The polynomial has the given value, rate and acceleration at both ends.

    span  duration from the start to the end, s
    """
    (x0, v0, a0), (x1, v1, a1), T = start, end, span
    # differences at the end from extrapolating the start's value, rate and acceleration
    x = (x1 - x0 - v0 * T - a0 * T * T / 2) / T**3
    v = (v1 - v0 - a0 * T) / T**2
    a = (a1 - a0) / T
    return x0, v0, a0 / 2, 10 * x - 4 * v + a / 2, (-15 * x + 7 * v - a) / T, (6 * x - 3 * v + a / 2) / T**2


def trapezoidal(times: Sequence[float], values: Sequence[float], acceleration: float, velocity: float) -> Curve:
    """Curve of moves between waypoints with a trapezoidal velocity profile, at rest in each waypoint.

    The cruise velocity of a move is the lowest with which the move ends at the time of its second waypoint. Raises
    ValueError with a one-line message for the first move that is too fast for the limits.

    acceleration  acceleration of the ramps of the profile, and the limit of the joint, per s^2
    velocity      largest permitted velocity, per s
    """
    cruises = []
    for k, (span, start, end) in enumerate(zip(_spans(times), values, values[1:], strict=False), start=2):
        needed = least_time(end - start, acceleration, velocity)
        if needed > span * (1.0 + 1e-9):
            raise ValueError(f"the move to waypoint {k} lasts {span:g} s; the limits require at least {needed:.4g} s")
        cruises.append(math.copysign(_cruise(abs(end - start), span, acceleration), end - start))

    def curve(t: float) -> Point:
        if t <= times[0] or not cruises:
            return values[0], 0.0, 0.0
        if t >= times[-1]:
            return values[-1], 0.0, 0.0
        k = bisect_right(times, t)
        v = cruises[k - 1]
        after, before = t - times[k - 1], times[k] - t
        a = math.copysign(acceleration, v)
        if after < (ramp := v / a):
            return values[k - 1] + a * after**2 / 2, a * after, a
        if before < ramp:
            return values[k] - a * before**2 / 2, a * before, -a
        return values[k - 1] + v * (after - ramp / 2), v, 0.0

    return curve


def least_time(way: float, acceleration: float, velocity: float) -> float:
    """Shortest time (s) of a move from rest to rest with limited acceleration and velocity; `velocity` may be infinite.

    way  distance of the move
    """
    way = abs(way)
    if way * acceleration <= velocity**2:
        return 2.0 * math.sqrt(way / acceleration)
    return way / velocity + velocity / acceleration


def _cruise(way: float, span: float, acceleration: float) -> float:
    """Cruise velocity (per s) of a move with a trapezoidal velocity profile.

    The velocity is the smaller root v of v (T - v / a) = way, with the distance `way`, the duration T = `span` and the
    acceleration a.
    """
    reach = acceleration * span
    return 2.0 * acceleration * way / (reach + math.sqrt(max(reach**2 - 4.0 * acceleration * way, 0.0)))


def acceleration_segments(segments: Sequence[tuple[float, float]], t: float) -> Point:
    """(value, rate, acceleration) at the time t of a motion with piecewise constant acceleration.

    The motion starts at rest at the value 0, and the joint stops at the end of the last segment. The validation motion
    of [GoncalvesEtAl2024, sec. 6] has two segments of equal duration with the accelerations -a and +a.

    segments  (duration in s, acceleration) of each segment
    """
    value = rate = 0.0
    if t < 0.0:
        return 0.0, 0.0, 0.0
    for duration, acceleration in segments:
        s = min(t, duration)
        value += rate * s + acceleration * s * s / 2
        rate += acceleration * s
        if t < duration:
            return value, rate, acceleration
        t -= duration
    return value, 0.0, 0.0


def _spans(times: Sequence[float]) -> list[float]:
    return [after - before for before, after in pairwise(times)]
