"""Feasibility checks of a gibbon's parameters; every error message names the feasible range."""

from __future__ import annotations

import math

from robots.gibbon import parameters as numbers
from robots.gibbon.parameters import GRAVITY, Robot
from sim_core.errors import InvalidRequest
from sim_core.mechanism.beams import Beam
from sim_core.mechanism.quantities import value_of

NEAREST = 0.1  # share of the reach: with a smaller spacing the arms fold flat
WHO = "robot 'gibbon'"


def check_feasible(robot: Robot, spacing: float, torque_limit: float) -> None:
    """Raise InvalidRequest if the spacing is out of reach, or if the torque limit is too small to swing.

    The torque limit must be at least the elbow torque that holds an arm horizontal; of the two arms, the one that needs
    less torque counts. With slightly more torque the robot can raise its free arm to the line and so continue to swing;
    with 20 % less torque no hand reaches the line.
    """
    a, b = robot.arm_a.length, robot.arm_b.length
    if not NEAREST * (a + b) <= spacing < a + b:
        raise InvalidRequest(
            f"{WHO}: spacing is {spacing:g} m; with arms of {a:g} and {b:g} m it must be at least "
            f"{NEAREST * (a + b):.3g} and less than {a + b:.5g} m"
        )
    least = min(torques_to_hold(robot))
    if torque_limit < least:
        raise InvalidRequest(
            f"{WHO}: torque_limit is {torque_limit:g} N m; the elbow needs at least {rounded_up(least)} N m to hold an "
            f"arm of {min(robot.arm_a.mass, robot.arm_b.mass):.3g} kg horizontal"
        )


def rounded_up(value: float) -> str:
    """Text of a positive number, rounded up to three significant digits."""
    size = 10.0 ** (math.floor(math.log10(value)) - 2)
    return f"{math.ceil(value / size - 1e-9) * size:.10g}"


def torques_to_hold(robot: Robot) -> tuple[float, float]:
    """(elbow torque that holds arm a horizontal, elbow torque that holds arm b horizontal), N m.

    The arm is held together with its hand, while the robot hangs by the hand of the other arm.
    """
    a, b = robot.arm_a, robot.arm_b
    arm_a = a.mass * (a.length - a.centre) + robot.hand_a.mass * (a.length - robot.hand_a.centre)
    arm_b = b.mass * b.centre + robot.hand_b.mass * (b.length - robot.hand_b.centre)
    return GRAVITY * arm_a, GRAVITY * arm_b


def check_bars(start_x: float, spacing: float, start: str, bars: int) -> None:
    """Raise InvalidRequest if there is no bar at the start position of a hand."""
    place, last = start_x / spacing, bars - (2 if start == "both" else 1)
    if abs(place - round(place)) > 1e-9 or not 0 <= round(place) <= last:
        raise InvalidRequest(
            f"{WHO}: start_x is {start_x:g} m; with start {start!r} and {bars} bars it must be a multiple of "
            f"{spacing:g} m from 0 to {max(last, 0) * spacing:g} m, so that every hand that holds the line is at a bar"
        )


def tension_to_hold(robot: Robot) -> float:
    """Smallest tension, N, with which the cable sags by at most DEEPEST (1 m) if the robot hangs at mid-span.

    The cable is modelled as a string with its own weight and the robot's weight.
    """
    weight, l = GRAVITY * robot.mass, numbers.CABLE_LENGTH
    return (numbers.CABLE_MASS * GRAVITY * l**2 / 8 + weight * l / 4) / numbers.DEEPEST


def check_cable(robot: Robot, cable: Beam, width: float, start_x: float, spacing: float, start: str) -> None:
    """Raise InvalidRequest for an infeasible tension, damping, number of modes or hand width, or a start beyond the
    cable.
    """
    tension, (lowest, highest) = value_of(cable.tension), numbers.TENSIONS
    if not lowest <= tension <= highest:
        raise InvalidRequest(
            f"{WHO}: tension is {tension:g} N; it must be from {lowest:g} N to {highest:g} N, because the "
            "equations of the cable require small slopes"
        )
    if tension < (needed := tension_to_hold(robot)):
        raise InvalidRequest(
            f"{WHO}: tension is {tension:g} N; a robot of {robot.mass:.3g} kg needs at least {rounded_up(needed)} N, "
            f"with which the cable sags by {numbers.DEEPEST:g} m"
        )
    if not value_of(cable.damping_ratio) < 1.0:
        raise InvalidRequest(
            f"{WHO}: damping_ratio is {value_of(cable.damping_ratio):g}; it must be less than 1, because a cable "
            "with more damping does not vibrate"
        )
    if not width < spacing:
        raise InvalidRequest(
            f"{WHO}: clamp_width is {width:g} m; it must be less than the spacing of the hands, {spacing:g} m"
        )
    most = cable.elements - 1
    if cable.modes > most:
        raise InvalidRequest(f"{WHO}: modes is {cable.modes}; the cable can have 1 to {most} modes")
    last = cable.length - (spacing if start == "both" else 0.0)
    if not 0.0 < start_x < last:
        raise InvalidRequest(
            f"{WHO}: start_x is {start_x:g} m; with start {start!r} it must be above 0 and less than {last:g} m"
        )
