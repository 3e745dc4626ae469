"""The line along which a gibbon swings: bars at equal distances, or a cable under tension."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from robots.gibbon import parameters as numbers
from robots.gibbon.chain import Chain
from robots.gibbon.feasible import check_bars, check_cable
from robots.gibbon.grips import HANDS
from robots.gibbon.parameters import Robot
from robots.gibbon.start import Start, start_on_bars, start_on_cable, start_on_segments
from sim_core.mechanism import Anchored, Constraint, Shape, Tunable, Vector3, X, Z
from sim_core.mechanism.beams import Beam
from sim_core.mechanism.constraints import BeamContact, ChainContact
from sim_core.mechanism.guards import Aim
from sim_core.mechanism.quantities import CapturedParameter, value_of

DOWN: Vector3 = (0.0, 0.0, -1.0)
HERE: Vector3 = (0.0, 0.0, 0.0)
ALONG_Y = (math.sqrt(0.5), math.sqrt(0.5), 0.0, 0.0)  # turns z into -y


@dataclass(frozen=True)
class LineSetup:
    """The parts of a gibbon's mechanism that depend on the line: cable or bars.

    constraints  {hand: constraints that hold the hand on the line}
    aims         {hand: (Aim along the line, Aim across the line)}; an Aim names one of these constraints and the
                 positions at which it can hold the hand
    beams        the cable as a beam; empty for bars
    start        initial state of the robot on the line
    sag          largest permitted sag of the line below its ends, m; 0 for bars
    shapes       shapes of the bars, for drawings
    length       length along which hands slide; 0 if they cannot
    parts        bodies, joints and forces of the line, as keyword arguments of Mechanism
    held         constraints that always hold
    """

    constraints: dict[str, tuple[Constraint, ...]]
    aims: dict[str, tuple[Aim, Aim]]
    beams: tuple[Beam, ...]
    start: Start
    sag: float
    shapes: tuple[Shape, ...] = ()
    length: float = 0.0
    parts: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    held: tuple[Constraint, ...] = ()


def cable(tension: float, modes: int, damping_ratio: float, least: float = 0.0) -> Beam:
    """The cable as a beam along x from x = 0, with both ends at height 0. Its tension and damping ratio are tunable.

    least  lower limit of the tension, N, below which the cable would sag too much under the robot
    """
    lowest, highest = numbers.TENSIONS
    return Beam(
        name="cable",
        length=numbers.CABLE_LENGTH,
        elements=numbers.CABLE_ELEMENTS,
        mass_per_length=numbers.CABLE_MASS,
        bending_stiffness=numbers.CABLE_BENDING,
        tension=Tunable("tension", tension, max(lowest, least), highest, "N"),
        supports="simple",
        modes=modes,
        damping_ratio=Tunable("cable_damping", damping_ratio, 0.0, numbers.MOST_DAMPED, "1"),
        direction=DOWN,
    )


def on_bars(robot: Robot, start: Literal["both", "a", "b"], x: float, spacing: float, count: int) -> LineSetup:
    """The parts of a gibbon's mechanism that depend on what it hangs from, here a row of bars.

    start    hands that hold a bar at the start: "a" (hand a at x), "b" (hand b at x, with the robot reversed) or "both"
             (hand a at x, hand b at x + spacing)
    x        position along the line at which the robot hangs at the start, m
    spacing  distance between bars, m
    count    number of bars; the first is at x = 0
    """
    check_bars(x, spacing, start, count)
    begin = start_on_bars(robot, start, x, spacing)
    constraints: dict[str, tuple[Constraint, ...]] = {}
    aims: dict[str, tuple[Aim, Aim]] = {}
    for hand in HANDS:
        body = f"hand_{hand}"
        height = Anchored(
            name=f"{body}_z", body=body, point=HERE, axis=Z, at=CapturedParameter(f"anchor_{hand}_z", 0.0)
        )
        constraints[hand] = (_stays(hand, begin), height)
        aims[hand] = (
            Aim(constraint=f"{body}_x", at=0.0, spacing=spacing, count=count),
            Aim(constraint=f"{body}_z", at=0.0),
        )
    return LineSetup(constraints, aims, (), begin, 0.0, tuple(_bar(spacing * place) for place in range(count)))


def _bar(x: float) -> Shape:
    """The shape of a bar at x, m, perpendicular to the robot's plane."""
    return Shape(kind="cylinder", size=(0.01, 0.3), position=(x, 0.0, 0.0), quaternion=ALONG_Y)


def on_cable(
    robot: Robot, start: Literal["both", "a", "b"], x: float, spacing: float, beam: Beam, width: float
) -> LineSetup:
    """The parts of a gibbon's mechanism that depend on what it hangs from, here a cable.

    start    hands that hold the cable at the start: "a" (hand a at x), "b" (hand b at x, with the robot reversed) or
             "both" (hand a at x, hand b at x + spacing)
    x        position along the cable at which the robot hangs at the start, m
    spacing  distance between the hands at the start, if both hold the cable, m
    beam     the cable
    width    length of a hand along the cable, m
    """
    check_cable(robot, beam, width, x, spacing, start)
    begin = start_on_cable(robot, start, x, spacing, beam, width)
    constraints: dict[str, tuple[Constraint, ...]] = {}
    aims: dict[str, tuple[Aim, Aim]] = {}
    for hand in HANDS:
        body, offset = f"hand_{hand}", CapturedParameter(f"anchor_{hand}_z", 0.0)
        contact = BeamContact(name=f"{body}_z", beam=beam.name, body=body, width=width, offset=offset)
        constraints[hand] = (_stays(hand, begin), contact)
        aims[hand] = (Aim(constraint=f"{body}_x", at=None), Aim(constraint=f"{body}_z", at=0.0))
    return LineSetup(constraints, aims, (beam,), begin, numbers.DEEPEST, length=beam.length)


def on_segments(
    robot: Robot, start: Literal["both", "a", "b"], x: float, spacing: float, beam: Beam, count: int
) -> LineSetup:
    """The parts of a gibbon's mechanism that depend on what it hangs from, here a cable of rigid segments.

    start    hands that hold the cable at the start: "a" (hand a at x), "b" (hand b at x, with the robot reversed) or
             "both" (hand a at x, hand b at x + spacing)
    x        position along the cable at which the robot hangs at the start, m
    spacing  distance between the hands along the cable at the start, if both hold the cable, m
    beam     the cable as a beam, whose numbers the segments have
    count    number of segments
    """
    check_cable(robot, beam, 0.0, x, spacing, start)
    tension = beam.tension
    assert isinstance(tension, Tunable)
    chain = Chain(count, beam.length, beam.mass_per_length, beam.bending_stiffness, value_of(beam.damping_ratio))
    begin = start_on_segments(robot, start, x, spacing, chain, tension.value)
    constraints: dict[str, tuple[Constraint, ...]] = {}
    aims: dict[str, tuple[Aim, Aim]] = {}
    for hand in HANDS:
        body = f"hand_{hand}"
        position = CapturedParameter(f"anchor_{hand}_x", begin.anchors[hand])
        offset = CapturedParameter(f"anchor_{hand}_z", 0.0)
        grip: dict[str, Any] = {"body": body, "segments": chain.names, "length": chain.segment, "position": position}
        constraints[hand] = (
            ChainContact(name=f"{body}_x", coordinate="along", at=position, **grip),
            ChainContact(name=f"{body}_z", coordinate="across", at=offset, **grip),
        )
        aims[hand] = (Aim(constraint=f"{body}_x", at=None), Aim(constraint=f"{body}_z", at=0.0))
    return LineSetup(constraints, aims, (), begin, numbers.DEEPEST, parts=chain.parts(tension), held=(chain.support(),))


def _stays(hand: str, begin: Start) -> Anchored:
    anchor = CapturedParameter(f"anchor_{hand}_x", begin.anchors[hand])
    return Anchored(name=f"hand_{hand}_x", body=f"hand_{hand}", point=HERE, axis=X, at=anchor)
