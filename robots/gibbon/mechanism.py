"""A robot that swings hand over hand: two arms, an actuated elbow, a gripper at each end, along a cable or bars.

World x runs along the line, z up. Hand a slides along x and drops along -z from the world's origin, `pitch` turns its
arm about y (0: it hangs), `elbow` the other arm against it (0: stretched); hand b is at that arm's end. What a hand
holds is a constraint, so that the hands can take turns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from robots.gibbon import grips
from robots.gibbon import parameters as numbers
from robots.gibbon.parameters import BAR_ROBOT, CABLE_ROBOT, GRAVITY, Link, Robot
from robots.gibbon.start import Start, start_on_bars, start_on_cable
from robots.parameters import require_choice, require_not_negative, require_positive
from sim_core.flexible.description import Beam, BeamContact
from sim_core.guards import Aim
from sim_core.mechanism import (
    Actuator,
    Anchored,
    Body,
    Constraint,
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
LINES, STARTS = ("cable", "bars"), ("both", "a", "b")
DOWN: Vector3 = (0.0, 0.0, -1.0)
HERE: Vector3 = (0.0, 0.0, 0.0)


def gibbon(
    line: Literal["cable", "bars"] = "cable",
    start: Literal["both", "a", "b"] = "both",
    spacing: float | None = None,
    start_x: float | None = None,
    torque_limit: float | None = None,
    mass_scale: float = 1.0,
    elbow_damping: float = 0.0,
    tension: float = 5e3,
    modes: int = 30,
    damping_ratio: float = 0.01,
    clamp_width: float = numbers.CLAMP_WIDTH,
    bars: int = numbers.BARS,
) -> Mechanism:
    """Two arms with an actuated elbow and a gripper at each end, that swings hand over hand along a cable or bars.

    The actuators grip_a and grip_b are switches: 1 closes, 0 opens. It starts at rest: hand a at start_x and hand b a
    spacing on, or one of them at start_x with the robot below it. spacing of the bars, or of the hands on the cable, m;
    torque_limit of the elbow, N m; elbow_damping, N m s; tension of the cable, N; clamp_width of a hand along it, m.
    Masses and inertias of the arms are those of SOURCES.md times mass_scale.
    """
    require_choice(NAME, "line", line, LINES)
    require_choice(NAME, "start", start, STARTS)
    require_positive(NAME, mass_scale=mass_scale, bars=bars, tension=tension, modes=modes)
    require_not_negative(NAME, elbow_damping=elbow_damping, damping_ratio=damping_ratio, clamp_width=clamp_width)
    robot = CABLE_ROBOT if line == "cable" else BAR_ROBOT
    step = robot.step if spacing is None else spacing
    limit = robot.torque_limit if torque_limit is None else torque_limit
    require_positive(NAME, spacing=step, torque_limit=limit)
    robot = robot.scaled(mass_scale)
    chosen: dict[str, float] = {
        "spacing": step,
        "torque_limit": limit,
        "mass_scale": mass_scale,
        "elbow_damping": elbow_damping,
    }
    if line == "bars":
        place = step if start_x is None else start_x
        held = _bars(robot, start, place, step, bars)
        chosen |= {"start_x": place, "bars": bars}
    else:
        place = numbers.CABLE_START if start_x is None else start_x
        held = _cable(robot, start, place, step, cable(tension, modes, damping_ratio), clamp_width)
        chosen |= {
            "start_x": place,
            "tension": tension,
            "modes": modes,
            "damping_ratio": damping_ratio,
            "clamp_width": clamp_width,
        }
    rows = {hand: [constraint.name for constraint in held.constraints[hand]] for hand in grips.HANDS}
    return Mechanism(
        name=NAME,
        coordinates="joint",
        **_rigid_parts(robot, elbow_damping),
        actuators=(Actuator(name="elbow", joint="elbow", effort_limit=limit), *grips.grippers(start)),
        constraints=tuple(constraint for hand in grips.HANDS for constraint in held.constraints[hand]),
        beams=held.beams,
        outputs=grips.outputs(rows),
        configurations=grips.configurations(rows),
        start=start,
        guards=grips.guards(held.aims, depth=held.sag + robot.arm_a.length),
        gravity=(0.0, 0.0, -GRAVITY),
        initial_q=held.start.q,
        initial_v=(0.0,) * len(held.start.q),
        reference_q=(
            5.0,
            0.0,
            -0.7,
            -1.4,
            *[0.0] * (len(held.start.q) - 4),
        ),  # anywhere: one set of kernels for all starts
        parameters=chosen,
    )


@dataclass(frozen=True)
class _Line:
    """A line: each hand's constraints and where they should hold it, beams, the start, and how deep it may hang, m."""

    constraints: dict[str, tuple[Constraint, ...]]
    aims: dict[str, tuple[Aim, ...]]
    beams: tuple[Beam, ...]
    start: Start
    sag: float


def cable(tension: float, modes: int, damping_ratio: float) -> Beam:
    """The cable from x = 0 on, at height 0 at its ends; tension and damping ratio can be tuned as a simulation runs."""
    return Beam(
        name="cable",
        length=numbers.CABLE_LENGTH,
        elements=numbers.CABLE_ELEMENTS,
        mass_per_length=numbers.CABLE_MASS,
        bending_stiffness=numbers.CABLE_BENDING,
        tension=Tunable("tension", tension),
        supports="simple",
        modes=modes,
        damping_ratio=Tunable("cable_damping", damping_ratio),
        direction=DOWN,
    )


def _bars(robot: Robot, start: str, x: float, step: float, count: int) -> _Line:
    begin = start_on_bars(robot, start, x, step)
    constraints: dict[str, tuple[Constraint, ...]] = {}
    aims: dict[str, tuple[Aim, ...]] = {}
    for hand in grips.HANDS:
        body = f"hand_{hand}"
        height = Anchored(name=f"{body}_z", body=body, point=HERE, axis=Z, at=Captured(f"anchor_{hand}_z", 0.0))
        constraints[hand] = (_stays(body, begin.anchors[hand]), height)
        aims[hand] = (
            Aim(constraint=f"{body}_x", at=0.0, spacing=step, count=count),
            Aim(constraint=f"{body}_z", at=0.0),
        )
    return _Line(constraints, aims, (), begin, 0.0)


def _cable(robot: Robot, start: str, x: float, step: float, beam: Beam, width: float) -> _Line:
    begin = start_on_cable(robot, start, x, step, beam, width)
    constraints: dict[str, tuple[Constraint, ...]] = {}
    aims: dict[str, tuple[Aim, ...]] = {}
    for hand in grips.HANDS:
        body = f"hand_{hand}"
        offset = Captured(f"anchor_{hand}_z", 0.0)
        contact = BeamContact(name=f"{body}_z", beam=beam.name, body=body, width=width, offset=offset)
        constraints[hand] = (_stays(body, begin.anchors[hand]), contact)
        aims[hand] = (Aim(constraint=f"{body}_x", at=None), Aim(constraint=f"{body}_z", at=0.0))
    return _Line(constraints, aims, (beam,), begin, numbers.DEEPEST)


def _stays(body: str, anchor: float) -> Anchored:
    return Anchored(name=f"{body}_x", body=body, point=HERE, axis=X, at=Captured(f"anchor_{body[-1]}_x", anchor))


def _rigid_parts(robot: Robot, elbow_damping: float) -> dict[str, Any]:
    a, b = robot.arm_a, robot.arm_b
    claw = (Shape(kind="sphere", size=(0.02,)),)
    bodies = (
        Body(name="trolley", mass=0.0, inertia=_across(0.0), shapes=claw),
        _hand("hand_a", robot.hand_a, -robot.hand_a.centre),
        _arm("arm_a", a),
        _arm("arm_b", b),
        _hand("hand_b", robot.hand_b, robot.hand_b.centre),
    )
    elbow, end = (0.0, 0.0, -a.length), (0.0, 0.0, -b.length)
    damping = Tunable("elbow_damping", elbow_damping)
    joints = (
        Joint(name="slide", kind="prismatic", child="trolley", axis=X),
        Joint(name="drop", kind="prismatic", parent="trolley", child="hand_a", axis=DOWN),
        Joint(name="pitch", parent="hand_a", child="arm_a", axis=Y),
        Joint(name="elbow", parent="arm_a", child="arm_b", axis=Y, parent_point=elbow, damping=damping),
        Joint(name="wrist_b", kind="fixed", parent="arm_b", child="hand_b", parent_point=end),
    )
    return {"bodies": bodies, "joints": joints}


def _arm(name: str, link: Link) -> Body:
    return Body(
        name=name,
        mass=Tunable(f"{name}_mass", link.mass),
        inertia=_across(Tunable(f"{name}_inertia", link.inertia)),
        center_of_mass=(0.0, 0.0, -link.centre),
        shapes=(Shape(kind="line", points=(0.0, 0.0, 0.0, 0.0, 0.0, -link.length)),),
    )


def _hand(name: str, link: Link, centre: float) -> Body:
    shapes = (Shape(kind="sphere", size=(0.025,)),)
    return Body(
        name=name, mass=link.mass, inertia=_across(link.inertia), center_of_mass=(0.0, 0.0, centre), shapes=shapes
    )


def _across(moment: Number) -> tuple[Number, Number, float, float, float, float]:
    """The inertia of a rod along z."""
    return (moment, moment, 0.0, 0.0, 0.0, 0.0)
