"""Guards of a mechanism: conditions under which constraints are switched on or off while a simulation runs.

A guard names either the constraint modes before and after (`source`, `target`) or the constraints that it switches
(`engages`, `releases`). With N bodies that land on N floors, single constraints need N guards, constraint modes 2^N
sets.
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
    engages   instead of a target: constraints that firing switches on
    releases  instead of a target: constraints that firing switches off; a guard without a target is active while firing
              would switch at least one constraint
    requires  constraints that must hold for the guard to be active
    excludes  constraints that must not hold for the guard to be active
    impact    change of the velocities v when the guard fires: "inelastic" projects v, by impulses, on the constraints
              that hold afterwards; "none" leaves v unchanged
    captures  constraints whose CapturedParameter is set such that the current position satisfies the constraint
    kind      kind of the published event; by default the name of the guard
    part      part of the robot that the event concerns
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
    """Condition: the effort of an actuator, or the command of a switch, is more than `above` and at most `upto`."""

    actuator: str
    above: float | None = None
    upto: float | None = None


@dataclass(frozen=True, kw_only=True)
class Aim(Frozen):
    """Values that a constraint's CapturedParameter may take: at + k spacing, k = 0 ... count - 1.

    at       first permitted value, m; None permits every value
    spacing  distance between permitted values, m
    count    number of permitted values
    """

    constraint: str
    at: float | None = 0.0
    spacing: float = 0.0
    count: int = 1


@dataclass(frozen=True, kw_only=True)
class Window(Frozen):
    """Condition: released constraints can be engaged: near a permitted value, slow, and no longer approaching it.

    Let g be the values that the constraints would capture now, and d the differences between g and the nearest values
    permitted by `aims`. The condition is |d|_2 <= gap, |dg/dt|_2 <= speed and d . dg/dt >= 0. A point on a beam must
    also lie between the beam's ends, at least `margin`, m, from each.
    """

    aims: tuple[Aim, ...]
    gap: Number
    speed: Number
    margin: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Sinking(Frozen):
    """Condition: the value that a constraint would capture now is constant or decreasing.

    Example: a point that reaches a horizontal line from above.
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
    """Condition: constraints at a point push its body along the world direction `axis` with more than `force`, N."""

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
