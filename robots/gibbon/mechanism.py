"""A robot that swings hand over hand: two arms, an actuated elbow, a gripper at each end, along bars or a cable.

World x runs along the line, z up. Hand a slides along x and drops along -z from the world's origin, `pitch` turns its
arm about y (0: it hangs), `elbow` the other arm against it (0: stretched); hand b is at that arm's end. What a hand
holds is a constraint, so that the hands can take turns.
"""

from __future__ import annotations

import math
from typing import Any, Literal

from robots.gibbon import grips
from robots.gibbon.parameters import BAR_ROBOT, BARS, GRAVITY, Robot
from robots.parameters import require_choice, require_not_negative, require_positive
from sim_core.guards import Capture
from sim_core.mechanism import (
    Actuator,
    Anchored,
    Body,
    Joint,
    Mechanism,
    Number,
    Shape,
    Tunable,
    Vector3,
    X,
    Y,
    Z,
)
from sim_core.quantities import Captured

NAME = "gibbon"
STARTS = ("both", "a", "b")
DOWN: Vector3 = (0.0, 0.0, -1.0)


def gibbon(
    line: Literal["bars"] = "bars",
    start: Literal["both", "a", "b"] = "both",
    spacing: float | None = None,
    bars: int = BARS,
    torque_limit: float | None = None,
    mass_scale: float = 1.0,
    elbow_damping: float = 0.0,
) -> Mechanism:
    """Two arms with an actuated elbow and a gripper at each end, that swings hand over hand along bars.

    The actuators grip_a and grip_b are switches: 1 closes, 0 opens. It starts at rest: hands a and b on the second and
    third bar, or one of them on the second and the robot below it. spacing of the bars, m; torque_limit of the elbow,
    N m; elbow_damping, N m s. Masses and inertias are those of SOURCES.md times mass_scale.
    """
    require_choice(NAME, "line", line, ("bars",))
    require_choice(NAME, "start", start, STARTS)
    require_positive(NAME, mass_scale=mass_scale, bars=bars)
    require_not_negative(NAME, elbow_damping=elbow_damping)
    robot = BAR_ROBOT
    step = robot.step if spacing is None else spacing
    limit = robot.torque_limit if torque_limit is None else torque_limit
    require_positive(NAME, spacing=step, torque_limit=limit)
    origin = step  # the second bar; the first is at 0
    q, anchors = _start_on_bars(robot, start, origin, step)
    rigid = _rigid_parts(robot, mass_scale, limit, elbow_damping, start)
    constraints = {hand: _on_bar(hand, anchors[hand]) for hand in grips.HANDS}
    rows = {hand: [constraint.name for constraint in held] for hand, held in constraints.items()}
    captures = {
        hand: Capture(name=f"anchor_{hand}", body=f"hand_{hand}", axis=X, spacing=step, count=bars)
        for hand in grips.HANDS
    }
    return Mechanism(
        name=NAME,
        coordinates="joint",
        **rigid,
        constraints=tuple(constraint for held in constraints.values() for constraint in held),
        outputs=grips.outputs(rows),
        configurations=grips.configurations(rows),
        start=start,
        guards=grips.guards(rows, captures, depth=robot.arm_a.length),
        gravity=(0.0, 0.0, -GRAVITY),
        initial_q=q,
        initial_v=(0.0,) * len(q),
        reference_q=(origin, 0.0, -0.7, -1.4),
        parameters={
            "spacing": step,
            "bars": bars,
            "torque_limit": limit,
            "mass_scale": mass_scale,
            "elbow_damping": elbow_damping,
        },
    )


def _on_bar(hand: str, anchor: float) -> tuple[Anchored, ...]:
    body = f"hand_{hand}"
    return (
        Anchored(name=f"{body}_x", body=body, point=(0.0, 0.0, 0.0), axis=X, at=Captured(f"anchor_{hand}", anchor)),
        Anchored(name=f"{body}_z", body=body, point=(0.0, 0.0, 0.0), axis=Z, at=0.0),
    )


def _start_on_bars(robot: Robot, start: str, origin: float, step: float) -> tuple[tuple[float, ...], dict[str, float]]:
    """Coordinates and the hands' anchors at the start."""
    a, b = robot.arm_a.length, robot.arm_b.length
    if start == "a":
        return (origin, 0.0, 0.0, 0.0), {"a": origin, "b": origin + step}
    if start == "b":  # upside down: hand b holds, hand a hangs below
        return (origin, a + b, math.pi, 0.0), {"a": origin, "b": origin}
    pitch, elbow = angles_between(a, b, step, 0.0)
    return (origin, 0.0, pitch, elbow), {"a": origin, "b": origin + step}


def angles_between(a: float, b: float, dx: float, dz: float) -> tuple[float, float]:
    """pitch and elbow where hand b is dx ahead of hand a and dz above it, elbow below; arms a and b m long."""
    reach = math.hypot(dx, dz)
    at_elbow = math.acos(max(-1.0, min(1.0, (a**2 + b**2 - reach**2) / (2 * a * b))))
    at_hand = math.acos(max(-1.0, min(1.0, (a**2 + reach**2 - b**2) / (2 * a * reach))))
    # the arm hangs below the line between the hands, towards hand b
    towards = math.atan2(dz, dx)
    pitch = -(math.pi / 2 + towards - at_hand)
    return pitch, -(math.pi - at_elbow)


def _across(moment: Number) -> tuple[Number, Number, float, float, float, float]:
    """The inertia of a rod along z."""
    return (moment, moment, 0.0, 0.0, 0.0, 0.0)


def _rigid_parts(
    robot: Robot, mass_scale: float, torque_limit: float, elbow_damping: float, start: str
) -> dict[str, Any]:
    a, b = robot.arm_a.scaled(mass_scale), robot.arm_b.scaled(mass_scale)

    def line_shape(length: float) -> tuple[Shape, ...]:
        return (Shape(kind="line", points=(0.0, 0.0, 0.0, 0.0, 0.0, -length)),)

    claw = (Shape(kind="sphere", size=(0.02,)),)
    bodies = (
        Body(name="trolley", mass=0.0, inertia=(0.0,) * 6),
        Body(name="hand_a", mass=robot.hand_mass, inertia=(0.0,) * 6, shapes=claw),
        Body(
            name="arm_a",
            mass=Tunable("arm_a_mass", a.mass),
            inertia=_across(Tunable("arm_a_inertia", a.inertia)),
            center_of_mass=(0.0, 0.0, -a.centre),
            shapes=line_shape(a.length),
        ),
        Body(
            name="arm_b",
            mass=Tunable("arm_b_mass", b.mass),
            inertia=_across(Tunable("arm_b_inertia", b.inertia)),
            center_of_mass=(0.0, 0.0, b.centre - b.length),
            shapes=line_shape(b.length),
        ),
        Body(name="hand_b", mass=robot.hand_mass, inertia=(0.0,) * 6, shapes=claw),
    )
    elbow, end = (0.0, 0.0, -a.length), (0.0, 0.0, -b.length)
    joints = (
        Joint(name="slide", kind="prismatic", child="trolley", axis=X),
        Joint(name="drop", kind="prismatic", parent="trolley", child="hand_a", axis=DOWN),
        Joint(name="pitch", parent="hand_a", child="arm_a", axis=Y),
        Joint(
            name="elbow",
            parent="arm_a",
            child="arm_b",
            axis=Y,
            parent_point=elbow,
            damping=Tunable("elbow_damping", elbow_damping),
        ),
        Joint(name="wrist_b", kind="fixed", parent="arm_b", child="hand_b", parent_point=end),
    )
    actuators = (
        Actuator(name="elbow", joint="elbow", effort_limit=torque_limit),
        *grips.grippers(start),
    )
    return {"bodies": bodies, "joints": joints, "actuators": actuators}
