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
    """Elbow torque (N m) needed to hold the lighter arm out horizontally."""
    planner_model = planner_model_of(mechanism)
    arms = (
        link.mass * (link.length - link.center) + link.hand_mass * (link.length - link.hand_center)
        for link in planner_model.links
    )
    return planner_model.gravity * min(arms)


def check_limit(mechanism: Mechanism, torque_limit: float, most: float = math.inf) -> None:
    """Raise ValueError for a torque limit that is above `most` or too small to hold the lighter arm out horizontally.

    torque_limit  limit of the elbow's torque, N m
    most          limit of the motor, N m
    """
    least = least_torque(mechanism)
    if torque_limit < least:
        raise ValueError(
            f"torque_limit is {torque_limit:g} N m; it must be at least {rounded_up(least)} N m, to hold an arm "
            "out horizontally"
        )
    if torque_limit > most:
        raise ValueError(
            f"torque_limit is {torque_limit:g} N m; it must be in {rounded_up(least)} .. {most:g} N m, from the torque "
            "that holds an arm out horizontally to the limit of the elbow's motor"
        )


def check_hanging(mechanism: Mechanism, stiffness: float, damping: float, period: float) -> None:
    """Raise ValueError if the PD law that keeps the trunk vertical is unstable at the sampling period `period` (s).

    Does nothing for a robot without a trunk or without a motor for the trunk.

    stiffness  stiffness of the PD law, N m/rad
    damping    damping of the PD law, N m s/rad
    """
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
                f"{name} is {value:g}; it must be below {most:.3g}, because control with a time step of "
                f"{1e3 * period:g} ms is unstable otherwise (inertia of the trunk about the elbow: {inertia:.3g} kg m2)"
            )


def check_gait(mechanism: Mechanism, step: float, closing: float, rollout_step: float) -> None:
    """Raise ValueError for parameters of the gait that are not possible.

    step          distance between the two grips of a swing, m. It must be within the reach of the arms and short enough
                  for the line. For bars, it must be a multiple of the distance between the bars
    closing       speed of the hand toward the cable or bars, m/s. It must be low enough to grip
    rollout_step  time step of the rollouts (simulated swings), s. For a cable, it must be so short that no rollout
                  diverges; for bars, it is not checked
    """
    arms = sum(link.length for link in planner_model_of(mechanism).links)
    reach = ALMOST * arms
    if not NEAREST * arms <= step < reach:
        raise ValueError(
            f"step is {step:g} m; it must be in {NEAREST * arms:.3g} .. {reach:.3g} m, within the reach of the arms"
        )
    check_room(mechanism, step)
    if not mechanism.beams:
        spacing, count = mechanism.parameters["spacing"], max(round(step / mechanism.parameters["spacing"]), 1)
        if abs(step - count * spacing) > 1e-9:
            fits = ", ".join(f"{k * spacing:g}" for k in range(1, max(int(reach / spacing), 1) + 1))
            raise ValueError(
                f"step is {step:g} m; the bars are {spacing:g} m apart, so that step must be one of {fits} m"
            )
    if closing > numbers.CLOSING_SPEED:
        raise ValueError(
            f"closing is {closing:g} m/s; it must be at most {numbers.CLOSING_SPEED:g} m/s, because a gripper cannot "
            "grip at a higher speed"
        )
    for beam in mechanism.beams:
        longest = RK4_REACH / float(beam_model(beam).frequencies.max())
        if rollout_step > longest:
            raise ValueError(
                f"rollout_step_ms is {1e3 * rollout_step:g}; it must be at most {1e3 * longest:.3g}, because a "
                f"rollout with {beam.modes} modes diverges at longer time steps"
            )


def check_line(model: Mechanism, robot: Mechanism) -> None:
    """Raise ValueError if the planner's model swings along another line than the robot.

    A line is a cable or a row of bars. Number and spacing of the bars must be equal; the properties of a cable, such as
    its tension, may differ.
    """
    lines = ["bars" if "bars" in mechanism.parameters else "a cable" for mechanism in (model, robot)]
    if lines[0] != lines[1]:
        raise ValueError(
            f"the planner's model swings along {lines[0]}, and the robot along {lines[1]}; remove the parameter `line` "
            "of the planner's node, which then uses sim.parameters.line"
        )
    if model.beams:
        return
    for name in ("spacing", "bars"):
        planned, found = model.parameters[name], robot.parameters[name]
        if planned != found:
            raise ValueError(
                f"{name} is {planned:g} in the planner's model, but {found:g} in the robot; set sim.parameters.{name} "
                "for both, and remove the parameter from the node's own parameters"
            )


def check_room(mechanism: Mechanism, step: float) -> None:
    """Raise ValueError for a line (cable or bars) that is too short for one swing over the distance `step` (m)."""
    given, end = mechanism.parameters, end_of_line(mechanism)
    front = given["start_x"] + (given["spacing"] if mechanism.start == "both" else 0.0)
    if front + step > end:
        raise ValueError(
            f"the front hand starts at {front:g} m and hands grip up to {end:g} m, so that a swing over "
            f"step = {step:g} m does not fit; reduce step"
        )


def end_of_line(mechanism: Mechanism) -> float:
    """Position along the cable or the row of bars (m) beyond which no hand shall grip."""
    if mechanism.beams:
        beam = mechanism.beams[0]
        return beam.origin[0] + beam.length - 0.5
    given = mechanism.parameters
    return (given["bars"] - 0.5) * given["spacing"]
