"""Guards of a mechanism: conditions under which constraints are switched on or off while a simulation runs.

A guard names either the constraint modes before and after it fires (`source`, `target`) or the single constraints that
it switches on and off (`engages`, `releases`); a guard that does neither only sets CapturedParameters (`captures`). For
N bodies that land on N floors, guards of single constraints are shorter: they need N guards, while constraint modes
would need 2^N sets of constraints.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from sim_core.mechanism.frozen import Frozen
from sim_core.mechanism.quantities import Number, Positive, Vector3

Y: Vector3 = (0.0, 1.0, 0.0)
ORIGIN: Vector3 = (0.0, 0.0, 0.0)


@dataclass(frozen=True, kw_only=True)
class Crossing(Frozen):
    """A guard that fires when a point's world coordinate along `axis` crosses `level`.

    direction  sense of the crossing: +1 rising, -1 falling, 0 both
    source    constraint mode in which the guard is active
    target    constraint mode after the guard has fired
    engages   instead of `target`: constraints that the guard switches on when it fires
    releases  instead of `target`: constraints that the guard switches off when it fires; a guard without a target is
              active while at least one of its constraints is not yet switched accordingly
    requires  constraints that must hold for the guard to be active
    excludes  constraints that must not hold for the guard to be active
    impact    change of the velocities v when the guard fires: "inelastic" projects v, by impulses, on the constraints
              that hold afterwards; "none" leaves v unchanged
    captures  constraints whose CapturedParameter the guard sets to the value with which the current position satisfies
              the constraint
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
    """Condition: the value of an actuator is more than `above` and at most `upto`; None means no bound.

    The value is the actuator's effort, or, for an actuator without a joint, its command (1 or 0 for a switch).
    """

    actuator: str
    above: float | None = None
    upto: float | None = None


@dataclass(frozen=True, kw_only=True)
class Aim(Frozen):
    """A constraint with a CapturedParameter, and the values that a guard may give to this parameter.

    The permitted values are at + k * spacing for k = 0 ... count - 1.

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
    """Condition: points are near places where constraints can hold them, are slow, and do not approach these places.

    Each Aim in `aims` names a constraint that does not hold, and the values that its CapturedParameter may take. Let g
    be the vector of the values with which the current position satisfies these constraints, and d the difference of g
    and the nearest permitted values. The condition is |d|_2 <= gap, |dg/dt|_2 <= speed and d . dg/dt >= 0.

    gap     largest distance from the permitted values, m
    speed   largest speed, m/s
    margin  for a constraint that holds a point on a beam: least distance, m, of the point from both ends of the beam,
            between which it must be
    """

    aims: tuple[Aim, ...]
    gap: Annotated[Number, Positive("m", remedy="otherwise the guard never fires")]
    speed: Annotated[Number, Positive("m/s", remedy="otherwise the guard never fires")]
    margin: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Sinking(Frozen):
    """Condition: the value that a guard would capture for a constraint does not increase.

    This is the value of the constraint's CapturedParameter with which the current position satisfies the constraint.
    For a constraint that holds a point on a horizontal line, it is the height of the point, which therefore sinks.
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
    """Condition: the constraints at a point of a body push the body along the world direction `axis` with more than
    `force`, N.

    The forces are averages over the time step. They include those of the stabilizer, which are large while a violation
    decays: after a landing that penetrates deeply within a step, the condition can hold although nothing else pushes.
    A smaller step, or a guard that captures the position of the landing, avoids the violation.
    """

    constraints: tuple[str, ...]
    axis: Vector3
    force: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Slipping(Frozen):
    """Condition: the force along the plane that a Rolling exerts is larger than its friction times its load.

    The forces are averages over the time step, and include those of the stabilizer.
    """

    constraint: str


@dataclass(frozen=True, kw_only=True)
class SlipReversed(Frozen):
    """Condition: the slip of a wheel is not along the direction that its Rolling has captured, but against it."""

    constraint: str


@dataclass(frozen=True, kw_only=True)
class SlipTurned(Frozen):
    """Condition: the slip of a wheel is more than 60 degrees, but less than 90, from the direction that its Rolling
    has captured.
    """

    constraint: str


Condition = Commanded | Window | Sinking | Beyond | Pushed | Slipping | SlipReversed | SlipTurned
OfSlip = Slipping | SlipReversed | SlipTurned


@dataclass(frozen=True, kw_only=True)
class Guard(Frozen):
    """A guard that fires at the end of a time step if it is active and all its conditions hold.

    The fields other than `conditions` have the same meaning as those of the class Crossing.
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
