"""Commands for the motors of one robot, within its limits: setpoints of the servos, and efforts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nodes.guard.limits import Envelope, Vector
from nodes.guard.setpoints import HOLD_S, Setpoints

NONE, EFFORT, VELOCITY, POSITION = range(4)
MODES = ("", "effort", "velocity", "position")
FIRST_PERIOD_S = 1e-3  # until two states have come
REJOIN_SHARE = (
    0.5  # largest distance of a setpoint from the measured position after a stop, as a share of tracking_error
)
PUSH_S = 0.25  # time after a command of an effort during which a servo may still give this effort, s


class Guarded(NamedTuple):
    """A command for the motors: mode, actuators, and one value for each."""

    mode: str
    names: list[str]
    values: list[float]


class MotorCommands:
    """The commands that the joints of one robot received, and those that its motors get.

    mode          mode of the latest command of each joint, a number of MODES
    goal, rate    commanded value of each joint, and its rate for positions
    given         values that the motors got last
    commanded_at  times of the latest commands, s
    position, velocity  measured positions and velocities
    effort        efforts that the motors got last
    pushed_at     times of the latest commands of efforts, s
    held          whether the joint is held since a stop was acknowledged
    rejoins       whether the setpoint has not reached the commands since a stop
    period        time between two measured states, s
    pending       (time, setpoints, values) computed for a time that is not over; None if there are none
    setpoints     setpoints of the servos

    has_servo  function of the index and the actuator of a joint: whether it accepts velocities and positions
    clamped    function that is called with time, {joint: limit} and values of the joints when commands are clamped
    """

    def __init__(
        self,
        envelope: Envelope,
        has_servo: Callable[[int, str], bool],
        clamped: Callable[[float, dict[int, str], Vector], None],
    ) -> None:
        n = len(envelope.joints)
        self.envelope, self._has_servo, self._clamped = envelope, has_servo, clamped
        self.setpoints = Setpoints(envelope)
        self.mode = np.zeros(n, dtype=int)
        self.goal, self.rate, self.given, self.position, self.velocity, self.effort = np.zeros((6, n))
        self.commanded_at = np.zeros(n)
        self.pushed_at = np.full(n, -np.inf)
        self.held = np.zeros(n, dtype=bool)
        self.rejoins = np.zeros(n, dtype=bool)
        self.period = FIRST_PERIOD_S
        self.pending: tuple[float, Vector, Vector, Vector, Vector] | None = None

    def set(self, now: float, joint: int, mode: int, value: float) -> None:
        """Store a command for one joint.

        joint  index of the joint
        mode   EFFORT, VELOCITY or POSITION
        """
        braked = self.held[joint] and self.mode[joint] in (VELOCITY, POSITION)
        before = NONE if self.held[joint] else self.mode[joint]
        self.held[joint] = False
        if mode == EFFORT:
            self.pushed_at[joint] = now
        if mode != before:
            self.mode[joint] = mode
            if mode == EFFORT:
                self.given[joint] = 0.0
            elif before not in (VELOCITY, POSITION):
                limit = self.envelope.velocity[joint]
                # a joint that still brakes swings about its setpoint: its measured velocity would begin the brake anew
                v = float(self.setpoints.v[joint] if braked else np.clip(self.velocity[joint], -limit, limit))
                self.setpoints.begin(joint, now, float(self.position[joint]), v)
        elapsed = now - self.commanded_at[joint]
        moves = mode == POSITION == before and 0.0 < elapsed <= HOLD_S
        if elapsed > 0.0 or mode != before:
            self.rate[joint] = (value - self.goal[joint]) / elapsed if moves else 0.0
        self.goal[joint], self.commanded_at[joint] = value, now

    def begin_braking(self, now: float, cause: str) -> list[Guarded]:
        """Prepare the servos' setpoints for a controlled stop: they start at the measured positions and velocities.

        Returns zero-effort commands for the actuators whose latest command of an effort acts in the direction of the
        motion: a servo begins with the effort that acts before.
        """
        released, pushed = [], self.is_pushed(now)
        for k, name in enumerate(self.envelope.driven):
            if not self._has_servo(k, name):
                self.mode[k], self.given[k] = EFFORT, 0.0
            elif pushed[k] or self.mode[k] == NONE:
                if self.effort[k] * self.velocity[k] > 0.0:
                    released.append(name)
                self.effort[k], self.pushed_at[k], self.mode[k] = 0.0, -np.inf, VELOCITY
                self.setpoints.begin(k, now, float(self.position[k]), float(self.velocity[k]))
            elif self.mode[k] == POSITION and cause == "tracking_error":
                self.setpoints.begin(k, now, float(self.position[k]), float(self.velocity[k]))
        self.setpoints.moved_at[:] = now
        return [Guarded("effort", released, [0.0] * len(released))] if released else []

    def brake(self, now: float) -> list[Guarded]:
        """Return the commands of a controlled stop at the time `now` (s)."""
        x, v, moved_at = self.setpoints.braked(now)
        given = self._servo_values(x, v)
        self.pending = now, x, v, moved_at, given
        return self._commands(given, np.flatnonzero(self.mode != NONE).tolist())

    def _servo_values(self, x: Vector, v: Vector) -> Vector:
        """Values for the motors at setpoints with the positions x and velocities v; 0 for joints without a servo."""
        return np.where(self.mode == POSITION, x, np.where(self.mode == VELOCITY, v, 0.0))

    def is_pushed(self, now: float) -> NDArray[np.bool_]:
        """Whether efforts move a joint, (n,): commanded ones, or those that a servo has taken over from a command."""
        return np.asarray((self.mode == EFFORT) | (now - self.pushed_at <= PUSH_S))

    def commit(self, now: float) -> None:
        """Adopt the latest computed setpoints and commands, if they were computed for a time before `now` (s).

        Those that were computed for the time `now` itself are not adopted. A second computation for this time therefore
        starts from the same values and gives the same result.
        """
        if self.pending is not None and now > self.pending[0]:
            setpoints = self.setpoints
            setpoints.x, setpoints.v, setpoints.moved_at, self.given = self.pending[1:]
            self.pending = None
            reached = setpoints.x == np.clip(self.goal, self.envelope.lower, self.envelope.upper)
            self.rejoins &= ~((self.mode == POSITION) & ~self.held & reached)

    def advance(self, now: float, joints: Sequence[int], quietly: bool = False) -> list[Guarded]:
        """Return commands within the limits at the time `now` (s) for the given joints.

        Joints for which commands were already computed for the same time are included.

        joints   indices of the joints
        quietly  whether servo values that are clamped to the limits are neither counted nor reported
        """
        limits, setpoints = self.envelope, self.setpoints
        chosen = np.zeros(len(limits.joints), dtype=bool)
        chosen[list(joints)] = True
        if self.pending is None:
            x, v, moved_at, given = setpoints.x, setpoints.v, setpoints.moved_at, self.given.copy()
        else:
            _, x, v, moved_at, given = self.pending
            chosen |= moved_at == now
        rests = chosen & self.held
        servo = chosen & (self.mode >= VELOCITY) & ~rests
        if servo.any():
            rate = np.where(now - self.commanded_at <= HOLD_S, self.rate, 0.0)
            by_position = self.mode == POSITION
            lead = np.where(self.rejoins & by_position, REJOIN_SHARE * limits.tracking_error, np.inf)
            within = self.position - lead, self.position + lead
            x, v, moved_at, causes = setpoints.towards(now, self.period, self.goal, rate, by_position, servo, within)
            value = np.where(self.mode == POSITION, x, v)
            given = np.where(servo, value, given)
            if not quietly:
                self._clamped(now, causes, given)
        if rests.any():
            braked = setpoints.braked(now)
            x, v, moved_at = (np.where(rests, *pair) for pair in zip(braked, (x, v, moved_at), strict=True))
            given = np.where(rests, self._servo_values(x, v), given)
        pushed = chosen & (self.mode == EFFORT) & ~rests
        if pushed.any():
            given, moved_at = self._efforts(now, pushed, given), np.where(pushed, now, moved_at)
        self.pending = now, x, v, moved_at, given
        return self._commands(given, np.flatnonzero(chosen).tolist())

    def _efforts(self, now: float, pushed: NDArray[np.bool_], given: Vector) -> Vector:
        limits = self.envelope
        step = limits.effort_rate * np.clip(now - self.setpoints.moved_at, 1e-9, HOLD_S)
        low, high = np.maximum(self.given - step, -limits.effort), np.minimum(self.given + step, limits.effort)
        value = np.where(pushed, np.clip(self.goal, np.minimum(low, limits.effort), np.maximum(high, low)), given)
        causes = {
            k: "effort" if abs(self.goal[k]) > limits.effort[k] else "effort_rate"
            for k in np.flatnonzero(pushed & (value != self.goal)).tolist()
        }
        self._clamped(now, causes, value)
        self.effort = np.where(pushed, value, self.effort)
        return value

    def _commands(self, given: Vector, joints: Sequence[int]) -> list[Guarded]:
        """Return the values of these joints as commands, one command for each mode.

        given   (n,) values of all joints
        joints  indices of the joints to command
        """
        found = []
        for number in (EFFORT, VELOCITY, POSITION):
            chosen = [k for k in joints if self.mode[k] == number]
            if chosen:
                names = [self.envelope.driven[k] for k in chosen]
                found.append(Guarded(MODES[number], names, [float(given[k]) for k in chosen]))
        return found
