"""Checks of a gibbon's planner and controller parameters; errors state the feasible range."""

from __future__ import annotations

import math

from nodes.planning.brachiation.planner_model import limit_of, planner_model_of
from robots.gibbon import parameters as numbers
from robots.gibbon.feasible import NEAREST, rounded_up
from sim_core.flexible.elements import beam_model
from sim_core.mechanism import Mechanism

ALMOST = 0.98  # largest share of the arms' reach for a step, which leaves the elbow bent
RK4_REACH = 2.8  # largest product of step and frequency with bounded Runge-Kutta 4 solutions [HairerWanner1996]


def least_torque(mechanism: Mechanism) -> float:
    """Elbow torque, N m, needed to hold the lighter arm out horizontally."""
    planner_model = planner_model_of(mechanism)
    arms = (
        link.mass * (link.length - link.center) + link.hand_mass * (link.length - link.hand_center)
        for link in planner_model.links
    )
    return planner_model.gravity * min(arms)


def check_limit(mechanism: Mechanism, torque_limit: float, most: float = math.inf) -> None:
    """Raise ValueError for a torque_limit, N m, above `most` or too small to hold the lighter arm out horizontally.

    most  limit of the motor, N m
    """
    least = least_torque(mechanism)
    if torque_limit < least:
        raise ValueError(
            f"torque_limit is {torque_limit:g} N m; the elbow needs {rounded_up(least)} N m at least to hold an arm "
            "out level"
        )
    if torque_limit > most:
        raise ValueError(
            f"torque_limit is {torque_limit:g} N m; it must be in {rounded_up(least)} .. {most:g} N m, from the torque "
            "that holds an arm out level to the limit of the elbow's motor"
        )


def check_hanging(mechanism: Mechanism, stiffness: float, damping: float, period: float) -> None:
    """Raise ValueError for a control law of the trunk that is unstable when torques are held over `period`, s."""
    trunk = planner_model_of(mechanism).trunk
    if trunk is None or not limit_of(mechanism, "trunk"):
        return
    inertia = trunk.inertia + trunk.mass * trunk.center**2
    for name, value, most in (
        ("trunk_stiffness", stiffness, inertia / period**2),
        ("trunk_damping", damping, inertia / period),
    ):
        if value > most:
            raise ValueError(
                f"{name} is {value:g}; it must be below {most:.3g}, or steps of {1e3 * period:g} ms are unstable with "
                f"a trunk of {inertia:.3g} kg m2 about the elbow"
            )


def check_gait(mechanism: Mechanism, step: float, closing: float, rollout_step: float) -> None:
    """Raise ValueError for a step, closing speed or rollout step that is not possible.

    The step must fit arms and bars, the hand must be slow enough to grip, and the rollout must not diverge.

    step          distance between the hands, m
    closing       speed of the hand toward the line, m/s
    rollout_step  time step of the rollouts, s
    """
    arms = sum(link.length for link in planner_model_of(mechanism).links)
    reach = ALMOST * arms
    if not NEAREST * arms <= step < reach:
        raise ValueError(f"step is {step:g} m; the arms reach from {NEAREST * arms:.3g} to {reach:.3g} m")
    check_room(mechanism, step)
    if not mechanism.beams:
        spacing, count = mechanism.parameters["spacing"], max(round(step / mechanism.parameters["spacing"]), 1)
        if abs(step - count * spacing) > 1e-9:
            fits = ", ".join(f"{k * spacing:g}" for k in range(1, max(int(reach / spacing), 1) + 1))
            raise ValueError(f"step is {step:g} m; the bars are {spacing:g} m apart, so a step is one of {fits} m")
    if closing > numbers.CLOSING_SPEED:
        raise ValueError(f"closing is {closing:g} m/s; a gripper catches a hand at up to {numbers.CLOSING_SPEED:g} m/s")
    for beam in mechanism.beams:
        longest = RK4_REACH / float(beam_model(beam).frequencies.max())
        if rollout_step > longest:
            raise ValueError(
                f"rollout_step_ms is {1e3 * rollout_step:g}; with {beam.modes} modes a rollout diverges above "
                f"{1e3 * longest:.3g} ms"
            )


def check_line(model: Mechanism, robot: Mechanism) -> None:
    """Raise ValueError where model and robot have different lines: cable or bars, or other positions of the bars.

    Tension and other properties of a cable that cannot be seen may differ.
    """
    lines = ["a cable" if mechanism.beams else "bars" for mechanism in (model, robot)]
    if lines[0] != lines[1]:
        raise ValueError(
            f"the model swings along {lines[0]}, and the robot along {lines[1]}; both must agree: "
            "set sim.parameters.line, and leave it out here"
        )
    if model.beams:
        return
    for name in ("spacing", "bars"):
        asked, found = model.parameters[name], robot.parameters[name]
        if asked != found:
            raise ValueError(
                f"the model's {name} is {asked:g}, and the robot's {found:g}; both must agree: set "
                f"sim.parameters.{name}, and leave it out here"
            )


def check_room(mechanism: Mechanism, step: float) -> None:
    """Raise ValueError for a line (cable or bars) that is too short for one step."""
    given, end = mechanism.parameters, end_of_line(mechanism)
    front = given["start_x"] + (given["spacing"] if mechanism.start == "both" else 0.0)
    if front + step > end:
        raise ValueError(
            f"the front hand starts at {front:g} m and hands grip up to {end:g} m: no step of {step:g} m fits"
        )


def end_of_line(mechanism: Mechanism) -> float:
    """Position along the line, m, beyond which no hand shall grip."""
    if mechanism.beams:
        beam = mechanism.beams[0]
        return beam.origin[0] + beam.length - 0.5
    given = mechanism.parameters
    return (given["bars"] - 0.5) * given["spacing"]
