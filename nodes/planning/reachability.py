"""Checks a trajectory against the robot's limits: joint positions and actuator velocities."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

from nodes.planning.profiles import Curve
from nodes.planning.via_points import UNITS, ViaPoints

SAMPLES, MOST_SAMPLES = 32, 500_000  # points checked between two via points, and on the whole curve
MEANT = "(set beyond_limits = true if this is intended)"
SLACK = 1e-6  # tolerance for rounding: rad or m, rad/s or m/s


def check_reach(via: ViaPoints, curves: Sequence[Curve], joints: Iterable[Any], robot: str) -> None:
    """Raise ValueError with a one-line message for the first position on the curves that is beyond a joint's limits.

    The check covers the via points and samples of the curves between the via points.

    joints  joints of a mechanism or of a description; a limit `lower` or `upper` that is None is not checked
    """
    limits = {joint.name: (joint.lower, joint.upper) for joint in joints}
    for k, row in enumerate(via.positions if via.places else ()):
        for i, value in enumerate(row):
            if _is_beyond(value, limits.get(via.joints[i], (None, None))):
                raise ValueError(_beyond(via, i, value, limits[via.joints[i]], via.places[k], robot))
    limited = [
        (i, curve) for i, curve in enumerate(curves) if limits.get(via.joints[i], OPEN) not in (OPEN, (None, None))
    ]
    for start, end in pairwise(via.span if limited else ()):
        for t in _samples(via, start, end):
            for i, curve in limited:
                if _is_beyond(value := curve(t)[0], limits.get(via.joints[i], (None, None))):
                    where = f"{via.whole}: at {t:.3g} s"
                    raise ValueError(_beyond(via, i, value, limits[via.joints[i]], where, robot))


def too_fast(via: ViaPoints, curves: Sequence[Curve], joints: Iterable[Any], actuators: Iterable[Any]) -> str:
    """One-line message about the segment that exceeds the velocity_limit of an actuator by the largest factor.

    Segments are the parts of the curves between two consecutive times of `via.span`. Returns "" if no segment exceeds a
    limit.
    """
    units = {joint.name: joint.unit for joint in joints}
    limits = {a.joint: a.velocity_limit for a in actuators if a.joint and a.velocity_limit}
    worst, line = 1.0, ""
    for start, end in pairwise(via.span):
        for name, curve in zip(via.joints, curves, strict=True):
            if name not in limits:
                continue
            rate = max(abs(curve(t)[1]) for t in _samples(via, start, end))
            if rate > limits[name] + SLACK and rate / limits[name] > worst:
                worst, unit = rate / limits[name], f"{units[name]}/s"
                demand = f"segment {start:g} to {end:g} s asks {name} for {rate:.3g} {unit}"
                line = f"{via.whole}: {demand}; its limit is {limits[name]:.3g} {unit} {MEANT}"
    return line


def undriven(via: ViaPoints, actuators: Iterable[Any], robot: str) -> str:
    """One-line message about the first joint of the via points that has no actuator.

    Returns "" if all these joints have an actuator, or if the robot has no actuators at all.
    """
    driven = [actuator.joint for actuator in actuators if actuator.joint]
    passive = [name for name in via.joints if name not in driven]
    if not driven or not passive:
        return ""
    return f"{via.named or 'joints'}: no actuator of {robot!r} drives {passive[0]!r}; they drive {', '.join(driven)}"


def _samples(via: ViaPoints, start: float, end: float) -> Iterator[float]:
    count = max(2, min(SAMPLES, MOST_SAMPLES // len(via.span)))
    return (start + (end - start) * k / count for k in range(count + 1))


def _is_beyond(value: float, limits: tuple[float | None, float | None]) -> bool:
    lower, upper = limits
    return (lower is not None and value < lower - SLACK) or (upper is not None and value > upper + SLACK)


def _beyond(
    via: ViaPoints, i: int, value: float, limits: tuple[float | None, float | None], where: str, robot: str
) -> str:
    unit = via.units[i]
    value, lower, upper = (
        v / UNITS[unit] for v in (value, *(d if v is None else v for v, d in zip(limits, OPEN, strict=True)))
    )
    what = (
        f"{where}: {via.joints[i]} is {value:.4g} {unit}; its limits in {robot!r} are {lower:.4g} to {upper:.4g} {unit}"
    )
    return f"{what} {MEANT}"


OPEN = -math.inf, math.inf
