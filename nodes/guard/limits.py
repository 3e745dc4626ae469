"""The envelope of a guard: limits of each joint, and linear inequalities A q <= b of the joint positions q."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from sim_core.tables import Range

Vector = NDArray[np.float64]
VELOCITY_MARGIN = 0.2  # default margin of a velocity limit, as a share of it
Positive = Annotated[float, Range(1e-9, 1e9)]
NotNegative = Annotated[float, Range(0.0, 1e9)]
Millis = Annotated[float, Range(0.0, 1e7, "ms")]


class JointLimits(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Limits of one joint; a limit that is left out does not apply. Units: rad or m, s, N m or N.

    actuator           actuator of the joint; "" means the actuator with the joint's name
    lower, upper       range of the position
    velocity           largest speed
    acceleration       largest acceleration of the setpoint of a position or velocity servo
    effort             largest effort
    effort_rate        largest rate of change of the effort
    tracking_error     largest distance of the measured position from the setpoint of a position servo
    deceleration       deceleration of a controlled stop; the motor must be able to give this deceleration at any time
    free_acceleration  largest acceleration that the permitted efforts can cause within `delay_ms`; used only while the
                       joint is commanded by efforts. By default it equals `acceleration`; 0 if that is left out, too
    servo              whether a controlled stop commands velocities to the actuator; if false, it commands zero effort.
                       By default, a guard node takes this from the robot's description, and a guard in a driver's
                       process assumes true
    modes              modes of commands that are passed on; commands in other modes are not
    margin             distance by which the joint may be, or come to rest, beyond `lower` and `upper` before the guard
                       stops the robot
    velocity_margin    amount by which the measured speed may exceed `velocity` before the guard stops the robot; by
                       default a fifth of `velocity`
    """

    actuator: str = ""
    lower: float | None = None
    upper: float | None = None
    velocity: Positive | None = None
    acceleration: Positive | None = None
    effort: NotNegative | None = None
    effort_rate: Positive | None = None
    tracking_error: Positive | None = None
    deceleration: Positive = 10.0
    free_acceleration: NotNegative | None = None
    servo: bool | None = None
    modes: tuple[Literal["effort", "velocity", "position"], ...] = ("effort", "velocity", "position")
    margin: NotNegative = 0.02
    velocity_margin: NotNegative | None = None

    @property
    def has_any(self) -> bool:
        """Whether any limit is given."""
        given = self.lower, self.upper, self.velocity, self.acceleration, self.effort, self.effort_rate
        return any(limit is not None for limit in (*given, self.tracking_error))


class KeepOut(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """An inequality that excludes combinations of joint positions: sum of coefficient times position <= `most`.

    name    name of the inequality, for events
    joints  {joint: coefficient}
    most    largest permitted sum
    """

    name: str
    joints: dict[str, float]
    most: float


class GuardParams(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Limits of a guard: limits of each joint, of joint combinations, and of the age of commands.

    joints             {joint: its limits}
    keep_out           inequalities; each limits a weighted sum of joint positions
    max_age_ms         largest age of the state from which a command was computed; 0 accepts any age
    heartbeat_ms       largest time without a command to an actuator; a longer time causes a controlled stop. With 0,
                       there is no limit
    state_ms           largest time without a measured state; a longer time causes a controlled stop. With 0, there is
                       no limit
    delay_ms           time from a measurement until the command that was computed from it takes effect
    enable_timeout_ms  largest time without a message `enable` with pressed = true; a longer time causes a controlled
                       stop. 0 if no enabling switch is needed
    enable_file        file whose text is 1 while the enabling switch is pressed, such as the value of a GPIO line; ""
                       if there is none
    """

    joints: dict[str, JointLimits] = {}
    keep_out: list[KeepOut] = []
    max_age_ms: Millis = 0.0
    heartbeat_ms: Millis = 0.0
    state_ms: Millis = 0.0
    delay_ms: Millis = 5.0
    enable_timeout_ms: Millis = 0.0
    enable_file: str = ""

    @property
    def longest_wait_ms(self) -> float:
        """Longest time for which a command may wait while the guard's process does not run, ms; 0: any time."""
        return min(filter(None, (self.max_age_ms, self.heartbeat_ms)), default=0.0)

    def __post_init__(self) -> None:
        if not self.joints:
            raise ValueError(
                "key 'joints' is missing; give limits of joints, as in joints.elbow = { lower = -1.5, upper = 1.5, "
                "velocity = 2.0 }"
            )
        for name, limits in self.joints.items():
            if not limits.has_any:
                raise ValueError(
                    f"key 'joints.{name}' has no limit; give at least one of lower, upper, velocity, acceleration, "
                    "effort, effort_rate, tracking_error"
                )
            lower, upper = limits.lower, limits.upper
            if lower is not None and upper is not None and not lower < upper:
                raise ValueError(
                    f"key 'joints.{name}': lower is {lower:g} and upper is {upper:g}; lower must be below upper"
                )
        for number, row in enumerate(self.keep_out):
            key = f"key 'keep_out[{number}].joints'"
            if not any(row.joints.values()):
                raise ValueError(f"{key}: at least one joint needs a coefficient other than 0")
            for joint in row.joints:
                if joint not in self.joints:
                    raise ValueError(
                        f"{key}: {joint!r} has no limits in 'joints'; name joints of {', '.join(self.joints)}"
                    )
            if (least := self._least(row)) > row.most:
                raise ValueError(
                    f"key 'keep_out[{number}].most' is {row.most:g}, but within lower and upper of the joints the sum "
                    f"is at least {least:g}, so that no position is permitted; raise most"
                )
            if row.name in [other.name for other in self.keep_out[:number]]:
                raise ValueError(f"key 'keep_out[{number}].name': {row.name!r} is used twice; use two names")

    def _least(self, row: KeepOut) -> float:
        """Smallest sum of an inequality over the positions within `lower` and `upper` of its joints."""
        total = 0.0
        for joint, coefficient in row.joints.items():
            end = self.joints[joint].lower if coefficient > 0.0 else self.joints[joint].upper
            if coefficient:
                total += -math.inf if end is None else coefficient * end
        return total


@dataclass(frozen=True)
class Envelope:
    """The limits of n joints as arrays; a limit that does not apply is infinite.

    A, b    inequalities A q <= b with shapes (r, n) and (r,): first the upper limits, then the lower limits, then
            `keep_out`
    slack   amounts (r,) by which A q may exceed b; they follow from the margins of the joints
    sign    (r,) -1 for the lower limits, whose inequality is -q <= -lower; 1 for the other inequalities
    names   names of the inequalities, for events
    driven  names of the joints' actuators
    """

    joints: tuple[str, ...]
    driven: tuple[str, ...]
    velocity: Vector
    acceleration: Vector
    effort: Vector
    effort_rate: Vector
    tracking_error: Vector
    deceleration: Vector
    free_acceleration: Vector
    margin: Vector
    velocity_margin: Vector
    lower: Vector
    upper: Vector
    A: Vector
    b: Vector
    slack: Vector
    sign: Vector
    names: tuple[str, ...]

    def farthest(self, low: Vector, high: Vector) -> Vector:
        """Largest left sides A q (r,) of the inequalities A q <= b, over the box low <= q <= high with corners (n,)."""
        return np.asarray(np.maximum(self.A * low, self.A * high).sum(axis=1))

    def outside(self, position: Vector) -> str:
        """Line of text about the inequality that the positions (n,) violate most.

        Returns "" if they violate no inequality by more than its slack.
        """
        excess = self.A @ position - self.b - self.slack
        if not (excess > 0.0).any():
            return ""
        row = int(excess.argmax())
        now, limit = self.value_text(row, float(self.A[row] @ position)), self.value_text(row, self.b[row])
        return f"{self.names[row]}: {now}, {'at least' if self.sign[row] < 0.0 else 'at most'} {limit}"

    def value_text(self, row: int, value: float) -> str:
        """Text of the left or right side `value` of inequality number `row` in A q <= b.

        For a lower limit, whose inequality is -q <= -lower, the text has the sign of q.
        """
        return f"{self.sign[row] * value + 0.0:.4g}"  # + 0.0 turns -0.0 into 0


def envelope_of(params: GuardParams) -> Envelope:
    """The limits of a guard as arrays."""
    joints, limits = tuple(params.joints), list(params.joints.values())
    n = len(joints)
    lower = -_array([None if each.lower is None else -each.lower for each in limits])
    upper = _array([each.upper for each in limits])
    velocity = _array([each.velocity for each in limits])
    margin = np.array([each.margin for each in limits])
    ends = [
        *((np.eye(n)[k], upper[k], f"upper of {joints[k]}", 1.0) for k in range(n) if np.isfinite(upper[k])),
        *((-np.eye(n)[k], -lower[k], f"lower of {joints[k]}", -1.0) for k in range(n) if np.isfinite(lower[k])),
    ]
    ends += [
        (np.array([row.joints.get(joint, 0.0) for joint in joints]), row.most, f"keep_out {row.name}", 1.0)
        for row in params.keep_out
    ]
    A = np.array([end[0] for end in ends]).reshape(len(ends), n)
    return Envelope(
        joints=joints,
        driven=tuple(each.actuator or joint for joint, each in params.joints.items()),
        velocity=velocity,
        acceleration=_array([each.acceleration for each in limits]),
        effort=_array([each.effort for each in limits]),
        effort_rate=_array([each.effort_rate for each in limits]),
        tracking_error=_array([each.tracking_error for each in limits]),
        deceleration=np.array([each.deceleration for each in limits]),
        free_acceleration=np.array(
            [each.acceleration or 0.0 if each.free_acceleration is None else each.free_acceleration for each in limits]
        ),
        margin=margin,
        velocity_margin=_array(
            [
                None if each.velocity is None else _first(each.velocity_margin, VELOCITY_MARGIN * each.velocity)
                for each in limits
            ]
        ),
        lower=lower,
        upper=upper,
        A=A,
        b=np.array([end[1] for end in ends]),
        slack=np.abs(A) @ margin,
        sign=np.array([end[3] for end in ends]),
        names=tuple(end[2] for end in ends),
    )


def _first(value: float | None, default: float) -> float:
    return default if value is None else value


def _array(values: Sequence[float | None]) -> Vector:
    return np.array([math.inf if value is None else value for value in values], dtype=float)


def missing_joint(params: GuardParams, actuators: Mapping[str, str]) -> str:
    """Line of text about the first joint of the guard that the robot does not drive; "" if the robot drives all these
    joints.

    actuators  {actuator: joint that it drives} of the robot
    """
    for joint, limits in params.joints.items():
        name = limits.actuator or joint
        if actuators.get(name) != joint:
            known = ", ".join(sorted(actuators)) or "none"
            return f"key 'joints.{joint}': the robot has no actuator {name!r} on this joint; its actuators are {known}"
    return ""
