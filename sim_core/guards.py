"""What a description says about changes of configuration: when they happen, what they capture, what they do to v."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sim_core.quantities import Number, Vector3

X: Vector3 = (1.0, 0.0, 0.0)
Y: Vector3 = (0.0, 1.0, 0.0)
ORIGIN: Vector3 = (0.0, 0.0, 0.0)


@dataclass(frozen=True, kw_only=True)
class Crossing:
    """A guard: a point's world coordinate along `axis` crosses `level` (direction +1 rising, -1 falling, 0 both).

    It is watched in configuration `source` and leads to `target`; `impact` says what happens to the velocities:
    "inelastic" projects them on the target's constraints by impulses, "none" leaves them.
    """

    name: str
    source: str
    target: str
    body: str
    point: Vector3 = ORIGIN
    axis: Vector3 = Y
    level: float = 0.0
    direction: int = 0
    impact: Literal["inelastic", "none"] = "inelastic"


@dataclass(frozen=True, kw_only=True)
class Commanded:
    """A switch is on, its command above 1/2; or off."""

    actuator: str
    on: bool = True


@dataclass(frozen=True, kw_only=True)
class Window:
    """Constraints that do not hold yet are nearly met, and as nearly as they get.

    |Phi|_2 <= gap and |Phidot|_2 <= speed, with what the guard captures put in, and |Phi|_2 does not shrink; a point on
    a beam is between its ends.
    """

    constraints: tuple[str, ...]
    gap: Number
    speed: Number


@dataclass(frozen=True, kw_only=True)
class Beyond:
    """A body-fixed point's world coordinate along `axis` is more than `level`, m."""

    body: str
    axis: Vector3
    level: float
    point: Vector3 = ORIGIN


@dataclass(frozen=True, kw_only=True)
class Pushed:
    """Constraints at a point of a body push it along the world direction `axis` with more than `force`, N."""

    constraints: tuple[str, ...]
    axis: Vector3
    force: float = 0.0


Condition = Commanded | Window | Beyond | Pushed


@dataclass(frozen=True, kw_only=True)
class Capture:
    """The number `name` becomes a point's world coordinate along `axis`, or the nearest of origin + k spacing to it.

    spacing  m, 0 for none; k is 0 ... count - 1
    """

    name: str
    body: str
    point: Vector3 = ORIGIN
    axis: Vector3 = X
    origin: float = 0.0
    spacing: float = 0.0
    count: int = 1


@dataclass(frozen=True, kw_only=True)
class Guard:
    """A change of configuration that happens at the end of the first step in `source` where all conditions hold.

    kind  of event that it is, and `part` the part of the robot that it is about
    """

    name: str
    source: str
    target: str
    conditions: tuple[Condition, ...]
    captures: tuple[Capture, ...] = ()
    impact: Literal["inelastic", "none"] = "none"
    kind: str = ""
    part: str = ""
