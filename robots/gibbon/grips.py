"""The gibbon's hands: constraint modes and guards of a mechanism for gripping, sliding, releasing and falling.

A constraint mode is a set of constraints that are active together. A guard is a condition; when it is met, the
simulation changes to another constraint mode.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from robots.gibbon.parameters import CLOSING_SPEED, REACH
from sim_core.mechanism import Actuator, ConstraintMode, PointOutput, Tunable, Vector3, X, Z
from sim_core.mechanism.guards import Aim, Beyond, Commanded, Condition, Guard, Pushed, Sinking, Window
from sim_core.mechanism.outputs import ForceArrow, ForceOutput, HoldingOutput, Output, VelocityOutput

HANDS = ("a", "b")
DOWN: Vector3 = (0.0, 0.0, -1.0)
BACK: Vector3 = (-1.0, 0.0, 0.0)
GRIPS, SLIDES, FREE = "grips", "slides", "free"
CLOSED, LOOSE = 0.5, 0.25  # a command above CLOSED closes a gripper; above LOOSE it slides along a cable
MARGIN = 0.1  # m from the end of a cable, within which hands cannot grip; at half of it a sliding hand lets go

# {constraint mode: (state of hand a, state of hand b)}
GRIPPING = {"both": (GRIPS, GRIPS), "a": (GRIPS, FREE), "b": (FREE, GRIPS), "none": (FREE, FREE)}
SLIDING = {
    "a_slides": (SLIDES, FREE),
    "b_slides": (FREE, SLIDES),
    "a_and_b_slides": (GRIPS, SLIDES),
    "b_and_a_slides": (SLIDES, GRIPS),
    "both_slide": (SLIDES, SLIDES),
}


@dataclass(frozen=True)
class Line:
    """Properties of the line (cable or bars) that determine the constraint modes and guards of the hands.

    aims    {hand: (Aim along the line, Aim across the line)}; an Aim names a constraint, such as hand_a_x, and the
            positions at which this constraint can hold the hand
    length  length of a cable, m, along which hands may slide; 0 for bars
    depth   depth below the line, m; the robot counts as fallen once both hands are deeper
    hook    whether hands can only pull downwards on the line
    held    names of constraints that hold in every constraint mode
    """

    aims: Mapping[str, tuple[Aim, Aim]]
    length: float
    depth: float
    hook: bool
    held: tuple[str, ...] = ()

    @property
    def states(self) -> dict[str, tuple[str, str]]:
        """{name of a constraint mode: (state of hand a, state of hand b)}, without the mode "fallen"."""
        return {**GRIPPING, **(SLIDING if self.length else {})}


def grippers(start: str) -> tuple[Actuator, ...]:
    """The actuators grip_a and grip_b, which drive no joint. A command of 1 closes the hand.

    A hand that holds the line at the start is closed at the start.
    """
    closed = {hand: state == GRIPS for hand, state in zip(HANDS, GRIPPING[start], strict=True)}
    return tuple(Actuator(name=f"grip_{hand}", start=float(closed[hand]), effort_limit=1.0, unit="1") for hand in HANDS)


def constraint_modes(line: Line) -> tuple[ConstraintMode, ...]:
    """Constraint modes of the hands: one for each combination of hand states, and the mode "fallen".

    The robot never leaves the mode "fallen".
    """
    found = []
    for name, states in {**line.states, "fallen": (FREE, FREE)}.items():
        holding = list(line.held)
        for hand, state in zip(HANDS, states, strict=True):
            holding += {GRIPS: [f"hand_{hand}_x", f"hand_{hand}_z"], SLIDES: [f"hand_{hand}_z"], FREE: []}[state]
        found.append(ConstraintMode(name=name, constraints=tuple(holding)))
    return tuple(found)


def outputs() -> tuple[Output, ...]:
    """Outputs of both hands.

    For hand a these are its position hand_a_x and hand_a_z (m), its velocity hand_a_vx and hand_a_vz (m/s), the force
    of the line on the hand, hand_a_force_x and hand_a_force_z (N), hand_a_grips (1 while the hand is fixed along the
    line, otherwise 0), and hand_a_holds (1 while the hand grips or slides along the line, otherwise 0).
    """
    found: list[Output] = []
    for name in (f"hand_{hand}" for hand in HANDS):
        found += [
            PointOutput(name=name, body=name, axes="xz"),
            VelocityOutput(name=name, body=name, axes="xz"),
            ForceOutput(name=f"{name}_force", constraints=(f"{name}_x", f"{name}_z"), axes="xz"),
            HoldingOutput(name=f"{name}_grips", constraint=f"{name}_x"),
            HoldingOutput(name=f"{name}_holds", constraint=f"{name}_z"),
        ]
    return tuple(found)


def arrows() -> tuple[ForceArrow, ...]:
    """Force arrows of both hands, for drawings."""
    return tuple(
        ForceArrow(name=body, body=body, outputs=(f"{body}_force_x", f"{body}_force_z"), axes=(X, Z))
        for body in (f"hand_{hand}" for hand in HANDS)
    )


def guards(line: Line) -> tuple[Guard, ...]:
    """Guards for all changes of the constraint mode: grip, slide, release, fall.

    A hand that grips is fixed to the line at its present position.
    """
    names = {states: name for name, states in line.states.items()}
    found = []
    for source, states in line.states.items():
        for place, hand in enumerate(HANDS):
            for index, (to, conditions, captures) in enumerate(_changes(line, hand, states[place])):
                after = (to, states[1]) if place == 0 else (states[0], to)
                found.append(
                    Guard(
                        name=f"hand_{hand}.{source}.{index}",
                        source=source,
                        target=names[after],
                        conditions=conditions,
                        captures=captures,
                        impact="inelastic" if captures else "none",
                        kind={GRIPS: "grip", SLIDES: "slide", FREE: "release"}[to],
                        part=f"hand_{hand}",
                    )
                )
    below = tuple(Beyond(body=f"hand_{hand}", axis=DOWN, level=line.depth) for hand in HANDS)
    found.append(Guard(name="fall", source="none", target="fallen", conditions=below, kind="fall"))
    return tuple(found)


def _changes(line: Line, hand: str, state: str) -> list[tuple[str, tuple[Condition, ...], tuple[str, ...]]]:
    """All changes of state that are possible for a hand: list of (next state, conditions, captured constraints).

    The captured constraints become active and hold the hand at its present position; () for a change that only makes
    constraints inactive.

    hand   "a" or "b"
    state  present state of the hand
    """
    grip, body = f"grip_{hand}", f"hand_{hand}"
    along, across = line.aims[hand]
    rows = along.constraint, across.constraint
    closed, opened = Commanded(actuator=grip, above=CLOSED), LOOSE if line.length else CLOSED
    loose = Commanded(actuator=grip, above=LOOSE, upto=CLOSED)
    lets_go: list[tuple[str, tuple[Condition, ...], tuple[str, ...]]]
    lets_go = [(FREE, (Commanded(actuator=grip, upto=opened),), ())]
    if state == FREE:
        sinks = (Sinking(constraint=across.constraint),) if line.hook else ()
        catches = [(GRIPS, (closed, _window(along, across), *sinks), rows)]
        return [*catches, *([(SLIDES, (loose, _window(across), *sinks), rows[1:])] if line.length else [])]
    if line.hook:
        lets_go.append((FREE, (Pushed(constraints=rows, axis=DOWN),), ()))
    if state == GRIPS:
        return [*lets_go, *([(SLIDES, (loose,), ())] if line.length else [])]
    ends = [
        (FREE, (Beyond(body=body, axis=axis, level=level),), ())
        for axis, level in ((BACK, -MARGIN / 2), (X, line.length - MARGIN / 2))
    ]
    return [(GRIPS, (closed, _window(along)), rows[:1]), *lets_go, *ends]


def _window(*aims: Aim) -> Window:
    gap, speed = Tunable("reach", REACH, unit="m"), Tunable("closing_speed", CLOSING_SPEED, unit="m/s")
    return Window(aims=aims, gap=gap, speed=speed, margin=MARGIN)
