"""What the hands of a gibbon do: they grip, let go and fall, as configurations and guards of a mechanism."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from robots.gibbon.parameters import CLOSING_SPEED, REACH
from sim_core.guards import Aim, Beyond, Commanded, Guard, Window
from sim_core.mechanism import Actuator, Configuration, PointOutput, Tunable, Vector3
from sim_core.outputs import ForceOutput, HoldingOutput, Output, VelocityOutput

HANDS = ("a", "b")
DOWN: Vector3 = (0.0, 0.0, -1.0)
# which hands hold the line, by configuration
HOLDING = {"both": ("a", "b"), "a": ("a",), "b": ("b",), "none": (), "fallen": ()}
Rows = Mapping[str, Sequence[str]]


def grippers(start: str) -> tuple[Actuator, ...]:
    """The switches grip_a and grip_b: 1 closes. The hands that hold the line at the start are closed."""
    return tuple(
        Actuator(name=f"grip_{hand}", start=float(hand in HOLDING[start]), effort_limit=1.0, unit="1") for hand in HANDS
    )


def configurations(rows: Rows) -> tuple[Configuration, ...]:
    """Both hands, hand a, hand b, none, and fallen: out of reach of the line for good. rows: a hand's constraints."""
    return tuple(
        Configuration(name=name, constraints=tuple(row for hand in hands for row in rows[hand]))
        for name, hands in HOLDING.items()
    )


def outputs(rows: Rows) -> tuple[Output, ...]:
    """Of hand a: hand_a_x, _z (m), hand_a_vx, _vz (m/s), hand_a_force_x, _z (N, what the line exerts), hand_a_grips."""
    found: list[Output] = []
    for hand in HANDS:
        name = f"hand_{hand}"
        found += [
            PointOutput(name=name, body=name, axes="xz"),
            VelocityOutput(name=name, body=name, axes="xz"),
            ForceOutput(name=f"{name}_force", constraints=tuple(rows[hand]), axes="xz"),
            HoldingOutput(name=f"{name}_grips", constraint=rows[hand][0]),
        ]
    return tuple(found)


def guards(aims: Mapping[str, tuple[Aim, ...]], depth: float) -> tuple[Guard, ...]:
    """Every change of configuration: grip, release, and fall when both hands are `depth` m below the line.

    A hand is held where it closes; aims: where that should be.
    """
    found = []
    for source, hands in HOLDING.items():
        if source == "fallen":
            continue
        for hand in HANDS:
            if hand in hands:
                found.append(_release(hand, source, _named(set(hands) - {hand})))
            else:
                found.append(_grip(hand, source, _named({*hands, hand}), aims[hand]))
    below = tuple(Beyond(body=f"hand_{hand}", axis=DOWN, level=depth) for hand in HANDS)
    found.append(Guard(name="fall", source="none", target="fallen", conditions=below, kind="fall"))
    return tuple(found)


def _named(hands: set[str]) -> str:
    return next(name for name, holding in HOLDING.items() if set(holding) == hands)


def _grip(hand: str, source: str, target: str, aims: tuple[Aim, ...]) -> Guard:
    window = Window(aims=aims, gap=Tunable("reach", REACH), speed=Tunable("closing_speed", CLOSING_SPEED))
    return Guard(
        name=f"grip_{hand}.{source}",
        source=source,
        target=target,
        conditions=(Commanded(actuator=f"grip_{hand}"), window),
        captures=tuple(aim.constraint for aim in aims),
        impact="inelastic",
        kind="grip",
        part=f"hand_{hand}",
    )


def _release(hand: str, source: str, target: str) -> Guard:
    return Guard(
        name=f"release_{hand}.{source}",
        source=source,
        target=target,
        conditions=(Commanded(actuator=f"grip_{hand}", on=False),),
        kind="release",
        part=f"hand_{hand}",
    )
