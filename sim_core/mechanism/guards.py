"""What a description says about changes of constraint mode: when they happen, what they capture, what they do to v.

A guard switches constraints on and off. It says so in one of two ways: by the names of the constraint modes before and
after (`source`, `target`), or by the constraints themselves (`engages`, `releases`). With the second N bodies that land
on N floors need N guards, with the first 2^N constraint modes.
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
    """A guard: a point's world coordinate along `axis` crosses `level` (direction +1 rising, -1 falling, 0 both).

    source    constraint mode in which it is watched, and `target` the one after it
    engages   constraints that hold after it, and `releases` those that do not, in the place of a target; it is watched
              while it would change any of them
    requires  constraints that must hold for it to be watched, and `excludes` those that must not
    impact    what happens to the velocities: "inelastic" projects them on the constraints that hold after it by
              impulses, "none" leaves them
    captures  constraints with a captured number, which becomes what meets them as they are
    kind      of event that it is, by default the name, and `part` the part of the robot that it is about
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
    """The effort of an actuator, of a switch its command, is above one number and not above another."""

    actuator: str
    above: float | None = None
    upto: float | None = None


@dataclass(frozen=True, kw_only=True)
class Aim(Frozen):
    """What the captured number of a constraint should be: at + k spacing, k = 0 ... count - 1; anything for at None.

    spacing  0 for `at` alone
    """

    constraint: str
    at: float | None = 0.0
    spacing: float = 0.0
    count: int = 1


@dataclass(frozen=True, kw_only=True)
class Window(Frozen):
    """Constraints that do not hold yet could be captured now: close to their aims, slow, and no longer nearing them.

    With g what each would capture and d its distance from the nearest aim: |d|_2 <= gap, |dg/dt|_2 <= speed and
    d . dg/dt >= 0; and a point on a beam is between the beam's ends, `margin` from them.
    """

    aims: tuple[Aim, ...]
    gap: Number
    speed: Number
    margin: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Sinking(Frozen):
    """What a constraint would capture does not grow: a point that comes onto a line from above."""

    constraint: str


@dataclass(frozen=True, kw_only=True)
class Beyond(Frozen):
    """A body-fixed point's world coordinate along `axis` is more than `level`, m."""

    body: str
    axis: Vector3
    level: float
    point: Vector3 = ORIGIN


@dataclass(frozen=True, kw_only=True)
class Pushed(Frozen):
    """Constraints at a point of a body push it along the world direction `axis` with more than `force`, N."""

    constraints: tuple[str, ...]
    axis: Vector3
    force: float = 0.0


Condition = Commanded | Window | Sinking | Beyond | Pushed


@dataclass(frozen=True, kw_only=True)
class Guard(Frozen):
    """A change of constraint mode at the end of a step in which it is watched and all conditions hold; see Crossing."""

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
