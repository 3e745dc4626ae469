"""Guards of a description: when the constraint mode changes, which numbers a change captures, how it changes v.

A guard switches constraints on and off. It names either the constraint modes before and after (`source`, `target`) or
the constraints themselves (`engages`, `releases`). N bodies that land on N floors need N guards of the second form, but
2^N constraint modes of the first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sim_core.mechanism.frozen import Frozen
from sim_core.mechanism.quantities import Number, Vector3

Y: Vector3 = (0.0, 1.0, 0.0)
ORIGIN: Vector3 = (0.0, 0.0, 0.0)


@dataclass(frozen=True, kw_only=True)
class Crossing(Frozen):
    """A guard that fires when a point's world coordinate along `axis` crosses `level`.

    direction  sense of the crossing: +1 rising, -1 falling, 0 both
    source    constraint mode in which the guard is active
    target    constraint mode after the guard has fired
    engages   instead of a target: constraints that hold after it; the guard is active while firing would change any
    releases  instead of a target: constraints that no longer hold after it
    requires  constraints that must hold for the guard to be active
    excludes  constraints that must not hold for the guard to be active
    impact    change of the velocities: "inelastic" projects them, by impulses, on the constraints that hold after it;
              "none" leaves them
    captures  constraints whose captured number is set so that the constraint is satisfied where the bodies are
    kind      kind of the event that is published; by default the name of the guard
    part      part of the robot that the event is about
    """

    name: str
    source: str = ""
    target: str = ""
    body: str
    point: Vector3 = ORIGIN
    axis: Vector3 = Y
    level: float = 0.0
    direction: int = 0
    captures: tuple[str, ...] = ()
    impact: Literal["inelastic", "none"] = "inelastic"
    kind: str = ""
    part: str = ""
    engages: tuple[str, ...] = ()
    releases: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    excludes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Commanded(Frozen):
    """Condition: the effort of an actuator (the command of a switch) is more than `above` and at most `upto`."""

    actuator: str
    above: float | None = None
    upto: float | None = None


@dataclass(frozen=True, kw_only=True)
class Aim(Frozen):
    """Permitted values of the captured number of a constraint: at + k spacing, k = 0 ... count - 1.

    at       first value; None permits any value
    spacing  distance between permitted values; 0 for `at` alone
    """

    constraint: str
    at: float | None = 0.0
    spacing: float = 0.0
    count: int = 1


@dataclass(frozen=True, kw_only=True)
class Window(Frozen):
    """Condition: released constraints can close now: they are near a permitted place, slow, and no longer approaching.

    Let g be the values at which the constraints would close (captured numbers), d their distances from the nearest
    aims. Then |d|_2 <= gap, |dg/dt|_2 <= speed and d . dg/dt >= 0; a point on a beam must lie between the beam's
    ends, at least `margin` from each.
    """

    aims: tuple[Aim, ...]
    gap: Number
    speed: Number
    margin: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Sinking(Frozen):
    """Condition: the number that a constraint would capture is not increasing.

    Example: a point that reaches a line from above.
    """

    constraint: str


@dataclass(frozen=True, kw_only=True)
class Beyond(Frozen):
    """Condition: a body-fixed point's world coordinate along `axis` is more than `level`, m."""

    body: str
    axis: Vector3
    level: float
    point: Vector3 = ORIGIN


@dataclass(frozen=True, kw_only=True)
class Pushed(Frozen):
    """Condition: constraints at a point of a body push it along the world direction `axis` with over `force`, N."""

    constraints: tuple[str, ...]
    axis: Vector3
    force: float = 0.0


Condition = Commanded | Window | Sinking | Beyond | Pushed


@dataclass(frozen=True, kw_only=True)
class Guard(Frozen):
    """A guard that fires at the end of a step in which it is active and all its conditions hold.

    Fields other than `conditions` are those of Crossing.
    """

    name: str
    source: str = ""
    target: str = ""
    conditions: tuple[Condition, ...]
    captures: tuple[str, ...] = ()
    impact: Literal["inelastic", "none"] = "none"
    kind: str = ""
    part: str = ""
    engages: tuple[str, ...] = ()
    releases: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    excludes: tuple[str, ...] = ()


SWITCHING_FIELDS = ("engages", "releases", "requires", "excludes")
