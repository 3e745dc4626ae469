"""Equilibrium of a gibbon that hangs by one hand or both, on bars or on a cable that sags under the robot's weight."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from robots.gibbon.chain import Chain
from robots.gibbon.parameters import GRAVITY, Robot
from sim_core.errors import InvalidRequest
from sim_core.flexible.elements import contact_model
from sim_core.mechanism.beams import Beam

ENOUGH = 50  # iterations, each of which gains more than one digit


@dataclass(frozen=True)
class Start:
    """Equilibrium of a robot that hangs on the line.

    q        coordinates in equilibrium
    anchors  {hand: position along the line, m, at which the hand grips it}; that of a free hand is a start value, which
             the hand's next grip replaces
    """

    q: tuple[float, ...]
    anchors: dict[str, float]


def start_on_bars(robot: Robot, start: str, x: float, step: float) -> Start:
    """Equilibrium of a robot that hangs on bars.

    start  hands that hold a bar: "a" (hand a at x), "b" (hand b at x, with the robot reversed) or "both" (hand a at x,
           hand b at x + step)
    x      position along the line, m
    step   distance between the two hands, m
    """
    rigid, _ = _posture(robot, start, x, step, 0.0, 0.0)
    return Start(rigid, _anchors(start, x, step))


def start_on_cable(robot: Robot, start: str, x: float, step: float, beam: Beam, width: float) -> Start:
    """Equilibrium of a robot that hangs on a cable. The sag under the weights of cable and robot gives the hands'
    heights.

    start  hands that hold the cable: "a" (hand a at x), "b" (hand b at x, with the robot reversed) or "both" (hand a at
           x, hand b at x + step)
    x      position along the cable, m
    step   distance between the two hands, m
    beam   the cable
    width  length of a hand along the cable, m
    """
    model = contact_model(beam, width)
    loads = {"a": x, "b": x + step} if start == "both" else {start: x}
    weight = beam.mass_per_length * GRAVITY
    z_a = z_b = 0.0
    q = np.zeros(model.n)
    for _ in range(ENOUGH):
        rigid, forces = _posture(robot, start, x, step, z_a, z_b)
        load = weight * model.uniform
        for hand, place in loads.items():
            load = load + forces[hand] * model.shape(place)
        q = np.linalg.solve(model.K, load)
        sag = {hand: float(model.shape(place) @ q) for hand, place in loads.items()}
        before = z_a, z_b
        z_a, z_b = -sag.get("a", 0.0), -sag.get("b", 0.0)
        if max(abs(z_a - before[0]), abs(z_b - before[1])) <= 1e-15:
            break
    return Start((*rigid, *q.tolist()), _anchors(start, x, step))


def start_on_segments(robot: Robot, start: str, x: float, step: float, chain: Chain, tension: float) -> Start:
    """Equilibrium of a robot that hangs on a cable of rigid segments.

    start    hands that hold the cable: "a" (hand a at x), "b" (hand b at x, with the robot reversed) or "both" (hand a
             at x, hand b at x + step)
    x, step  position along the cable, and distance between the hands along the cable, m
    tension  force on the cable's end along x, N
    """
    places = {"a": x, "b": x + step} if start == "both" else {start: x}
    pulls = {hand: (0.0, GRAVITY * robot.mass / len(places)) for hand in places}
    for _ in range(ENOUGH):
        pitches = chain.pitches([(places[hand], *pull) for hand, pull in pulls.items()], tension)
        at = {hand: chain.point(pitches, place) for hand, place in places.items()}
        x_a, z_a = at.get("a", at.get("b", (0.0, 0.0)))
        x_b, z_b = at.get("b", (x_a, z_a))
        rigid, forces = _posture(robot, start, x_a, x_b - x_a, z_a if "a" in at else 0.0, z_b)
        H = _carried(robot, rigid[2], rigid[3], z_b - z_a, x_b - x_a)[0] if start == "both" else 0.0
        before, pulls = pulls, {hand: (-H if hand == "a" else H, forces[hand]) for hand in places}
        if np.abs(np.subtract([*pulls.values()], [*before.values()])).max() <= 1e-11:
            break
    return Start((*rigid, *np.diff(pitches, prepend=0.0).tolist()), _anchors(start, x, step))


def _anchors(start: str, x: float, step: float) -> dict[str, float]:
    return {"a": x, "b": x if start == "b" else x + step}


def _posture(
    robot: Robot, start: str, x: float, step: float, z_a: float, z_b: float
) -> tuple[tuple[float, ...], dict[str, float]]:
    """(positions of the joints, {hand: load, N}) of a robot that hangs by one hand or by both.

    The joints are slide and drop (m), pitch and elbow (rad) and, for a robot with three links, trunk (rad).

    start     hands that hold the line: "a" (hand a at x), "b" (hand b at x, with the robot reversed) or "both" (hand a
              at x, hand b at x + step)
    x, step   position along the line, and distance between the two hands, m
    z_a, z_b  heights of the hands, m
    """
    a, b = robot.arm_a.length, robot.arm_b.length
    weight = GRAVITY * robot.mass
    hangs = () if robot.trunk is None else (0.0,)
    if start == "a":
        return (x, -z_a, 0.0, 0.0, *hangs), {"a": weight}
    if start == "b":
        return (x, a + b - z_b, math.pi, 0.0, *[-math.pi for _ in hangs]), {"b": weight}
    if math.hypot(step, z_b - z_a) >= a + b:
        level = math.sqrt(max((a + b) ** 2 - (z_b - z_a) ** 2, 0.0))
        raise InvalidRequest(
            f"robot 'gibbon': spacing is {step:g} m; one hand hangs {abs(z_b - z_a):.2g} m below the other at the "
            f"start, so that the spacing must be less than {level:.4g} m"
        )
    pitch, elbow = angles_between(a, b, step, z_b - z_a)
    _, V_a, V_b = _carried(robot, pitch, elbow, z_b - z_a, step)
    return (x, -z_a, pitch, elbow, *[-pitch for _ in hangs]), {"a": V_a, "b": V_b}


def angles_between(a: float, b: float, dx: float, dz: float) -> tuple[float, float]:
    """(pitch of the first arm, elbow angle), rad, of a robot that hangs by both hands.

    a, b    lengths of the two arms, m
    dx, dz  position of the second hand ahead of and above the first hand, m
    The elbow hangs below the hands.
    """
    reach = math.hypot(dx, dz)
    at_elbow = math.acos(max(-1.0, min(1.0, (a**2 + b**2 - reach**2) / (2 * a * b))))
    at_hand = math.acos(max(-1.0, min(1.0, (a**2 + reach**2 - b**2) / (2 * a * reach))))
    return at_hand - math.pi / 2 - math.atan2(dz, dx), at_elbow - math.pi


def _carried(robot: Robot, pitch: float, elbow: float, dz: float, dx: float) -> tuple[float, float, float]:
    """Forces of the line on the hands of a robot that hangs by both hands without elbow torque, N.

    They are the force on hand a along x, that on hand b being its opposite, and the upward forces on both hands.

    The forces follow from the balance of moments about hand a and about the elbow.

    dz, dx  position of hand b above and ahead of hand a, m
    """

    def at(distance: float, angle: float) -> np.ndarray:
        return distance * np.array([-math.sin(angle), -math.cos(angle)])

    turned = pitch + elbow
    joint = at(robot.arm_a.length, pitch)
    hand_b = np.array([dx, dz])
    arm_a = [(robot.hand_a.mass, at(robot.hand_a.centre, pitch)), (robot.arm_a.mass, at(robot.arm_a.centre, pitch))]
    arm_b = [
        (robot.arm_b.mass, joint + at(robot.arm_b.centre, turned)),
        (robot.hand_b.mass, hand_b - at(robot.hand_b.centre, turned)),
    ]
    if robot.trunk is not None:
        arm_b.append((robot.trunk.mass, joint))
    weight = GRAVITY * sum(mass for mass, _ in (*arm_a, *arm_b))
    # unknowns: the force (H, V_a) on hand a and (-H, V_b) on hand b
    rows = np.array([[0.0, 1.0, 1.0], [-dz, 0.0, -dx], [-joint[1], joint[0], 0.0]])
    about_a = -GRAVITY * sum(mass * r[0] for mass, r in (*arm_a, *arm_b))
    about_elbow = -GRAVITY * sum(mass * (r - joint)[0] for mass, r in arm_a)
    H, V_a, V_b = np.linalg.solve(rows, [weight, about_a, about_elbow])
    return float(H), float(V_a), float(V_b)
