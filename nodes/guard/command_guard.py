"""The guard: a function from commands and measured states to the commands that are safe to give to the motors.

The guard has no clock, socket or message of its own. Its caller, which is the guard node or the driver's process,
passes the time in seconds, always of the same clock. Commands within the limits pass unchanged. Commands outside the
limits are clamped, or the guard stops the robot and keeps it stopped until the stop is acknowledged.

The states of the guard, and the events that end them:

state      motors get                       transitions
waiting    nothing, as no state was         first measured state -> watching; stop -> stopped
           measured
watching   nothing, as no joint was         command -> passing; limit, missing state or stop -> stopped;
           commanded                        no command for heartbeat_ms -> unclaimed
unclaimed  a controlled stop, then a hold   command or acknowledgement inside the limits -> held; stop -> stopped
passing    the commands within the limits   limit, missing command, missing state, switch or stop -> stopped
stopped    a controlled stop, then a hold   acknowledgement inside the limits -> held
held       a hold                           command -> passing; limit, missing state or stop -> stopped

A joint is held until it is commanded itself; a command that ends the state unclaimed is passed on at once. A reset of
the simulation time leads to waiting, from where a stop in force goes on at the first measured state. An acknowledgement
before this state leads to waiting.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nodes.guard.limits import GuardParams, Vector, envelope_of
from nodes.guard.setpoints import HOLD_S, Setpoints
from nodes.guard.stopping_distance import violation
from nodes.messages.protocol import NOTHING_STOPPED, RELEASED

NONE, EFFORT, VELOCITY, POSITION = range(4)
MODES = ("", "effort", "velocity", "position")
FIRST_PERIOD_S = 1e-3  # until two states have come
REJOIN_SHARE = (
    0.5  # largest distance of a setpoint from the measured position after a stop, as a share of tracking_error
)
PUSH_S = 0.25  # time after a command of an effort during which a servo may still give this effort, s
AGAIN_S = 1.0  # time between two reports of one limit of one joint, s
STATE = (
    "_mode", "_goal", "_rate", "_given", "_commanded_at", "_position", "_velocity", "_seen_at", "_period",
    "_enabled_at", "_released", "_pending", "_reported", "_rejoins", "_held", "_pushed_at", "_effort",
    "_first_seen_at", "_lacks", "_unclaimed", "stopped", "clamps", "stops",
)  # fmt: skip


class Intervention(NamedTuple):
    """An intervention of the guard.

    kind       "guard_clamp", "guard_stop", "guard_rejected" or "guard_acknowledged"
    cause      name of the limit that caused it, such as "velocity" or "heartbeat"
    joint      joint concerned; "" if the intervention concerns no single joint
    commanded  commanded value; None if the intervention concerns no single value
    given      value that the motors get instead of `commanded`
    line       one line of text for the user
    """

    kind: str
    cause: str
    line: str
    joint: str = ""
    commanded: float | None = None
    given: float | None = None


class Guarded(NamedTuple):
    """A command for the motors: mode, actuators, and one value for each."""

    mode: str
    names: list[str]
    values: list[float]


class CommandGuard:
    """Guard of one robot: clamps commands to the limits, and stops the robot if a limit cannot be kept.

    has_servo      actuators that accept velocities and positions; None if all actuators accept them. A stop commands
                   zero effort to the other actuators
    interventions  interventions not yet reported; the caller removes them
    stopped        cause of a stop that is not yet acknowledged; "" if there is no such stop
    clamps, stops  number of clamped values, and number of stops
    passed         number of received commands that were passed on, changed or not
    """

    def __init__(self, params: GuardParams, has_servo: Collection[str] | None = None) -> None:
        self.params, self.envelope = params, envelope_of(params)
        n = len(self.envelope.joints)
        self.has_servo = has_servo
        self.interventions: deque[Intervention] = deque(maxlen=256)
        self._index = {name: k for k, name in enumerate(self.envelope.driven)}
        self._refused = {  # {mode: actuators that get no commands in it}
            mode: {each.actuator or joint for joint, each in params.joints.items() if mode not in each.modes}
            for mode in MODES[1:]
        }
        self._setpoints = Setpoints(self.envelope)
        self._mode = np.zeros(n, dtype=int)
        self._goal, self._rate, self._given, self._position, self._velocity, self._effort = np.zeros((6, n))
        self._commanded_at = np.zeros(n)
        self._seen_at: float | None = None
        self._first_seen_at: float | None = None
        self._lacks = ""  # line about a joint that the latest measured state lacks
        self._pushed_at = np.full(n, -np.inf)  # times of the latest commands of efforts
        self._held = np.zeros(n, dtype=bool)  # whether the joint is held since a stop was acknowledged
        self._unclaimed = False  # whether the first command ends the stop in force
        self._enabled_at, self._released = -np.inf, ""
        self._period = FIRST_PERIOD_S
        self._pending: tuple[float, Vector, Vector, Vector, Vector] | None = None
        self._reported: dict[tuple[str, str], float] = {}
        self._rejoins = np.zeros(n, dtype=bool)  # whether the setpoint has not reached the commands since a stop
        self.stopped = ""
        self.clamps = self.stops = self.passed = 0
        self._brakes_anew = False  # whether a stop in force begins to brake at the next measured state

    @property
    def indices(self) -> dict[str, int]:
        """Return {actuator: index of its joint}."""
        return self._index

    @property
    def state(self) -> str:
        """State of the guard, see the table of this module."""
        if self.stopped:
            return "unclaimed" if self._unclaimed else "stopped"
        if self._seen_at is None:
            return "waiting"
        if self._held.any():
            return "held"
        return "passing" if (self._mode != NONE).any() else "watching"

    # -- what arrives

    def add_state(
        self, now: float, joints: Sequence[str], position: Sequence[float], velocity: Sequence[float]
    ) -> None:
        """Store a measured state: positions (rad or m) and velocities (rad/s or m/s) of the named joints."""
        self._commit(now)
        where = {joint: k for k, joint in enumerate(joints)}
        self._lacks = ""
        for k, joint in enumerate(self.envelope.joints):
            at = where.get(joint, -1)
            q, v = (position[at], velocity[at]) if 0 <= at < min(len(position), len(velocity)) else (np.nan, np.nan)
            if np.isfinite(q) and np.isfinite(v):
                self._position[k], self._velocity[k] = q, v
            else:
                self._lacks = self._lacks or f"the measured state has no position and velocity of {joint}"
        if self._first_seen_at is None:
            self._first_seen_at = now
        if self._seen_at is not None and now > self._seen_at:
            self._period = min(now - self._seen_at, HOLD_S)
        self._seen_at = now
        if self._brakes_anew:
            self._brakes_anew = False
            self._begin_braking(now, self.stopped)

    def enable(self, now: float, pressed: bool) -> None:
        """Process a message of the enabling switch.

        pressed  whether the message says that the switch is pressed
        """
        self._enabled_at = now if pressed else -np.inf

    def switch(self, released: str) -> None:
        """Set the state of the enabling switch of the file `enable_file`.

        released  line of text for a released switch; "" while the switch is pressed
        """
        self._released = released

    def process_command(
        self, now: float, mode: str, names: Sequence[str], values: Sequence[float], age_s: float
    ) -> list[Guarded]:
        """Return the commands to give to the motors in place of a received command.

        mode    "effort", "velocity" or "position"
        names   names of the commanded actuators
        values  commanded value of each of them
        age_s   age of the state from which the received command was computed (s)
        """
        limit_s = 1e-3 * self.params.max_age_ms
        if limit_s and age_s > limit_s:
            line = f"a command is {1e3 * age_s:.0f} ms old, limit {self.params.max_age_ms:g} ms: it is not passed on"
            self._report(now, Intervention("guard_rejected", "max_age", line))
            return []
        if len(names) != len(values) or not np.isfinite(values).all() or mode not in MODES[1:]:
            line = (
                f"a command in mode {mode} with {len(names)} names and {len(values)} values is invalid: not passed on"
            )
            self._report(now, Intervention("guard_rejected", "value", line))
            return []
        known = [k for k, name in enumerate(names) if name in self._index]
        if refused := [names[k] for k in known if names[k] in self._refused[mode]]:
            line = f"a command in mode {mode} for {refused[0]} is not passed on: key 'modes' does not permit it"
            self._report(now, Intervention("guard_rejected", "modes", line))
            return []
        if self._unclaimed and known and not self.envelope.outside(self._position):
            self._release("a commander has come: the stop by heartbeat ends")
        if self.stopped:
            return []
        if known and self._seen_at is None:
            line = "a command came before the first measured state: it is not passed on"
            self._report(now, Intervention("guard_rejected", "state", line))
            return []
        if known and (cause := self._switch_cause(now)) is not None:
            return self.stop(now, *cause)
        self._commit(now)
        number = MODES.index(mode)
        for k in known:
            self._set(now, self._index[names[k]], number, values[k])
        free = [k for k in range(len(names)) if names[k] not in self._index]
        passed = [Guarded(mode, [names[k] for k in free], [values[k] for k in free])] if free else []
        self.passed += 1
        return [*passed, *(self._advance(now, [self._index[names[k]] for k in known]) if known else [])]

    def reject_stale(self, now: float, age_s: float) -> None:
        """Report a command that waited for `age_s` while the guard's process did not run."""
        line = f"a command waited for {age_s:.1f} s while the guard did not run: it and others as old are not passed on"
        self._report(now, Intervention("guard_rejected", "backlog", line))

    def _set(self, now: float, joint: int, mode: int, value: float) -> None:
        braked = self._held[joint] and self._mode[joint] in (VELOCITY, POSITION)
        before = NONE if self._held[joint] else self._mode[joint]
        self._held[joint] = False
        if mode == EFFORT:
            self._pushed_at[joint] = now
        if mode != before:
            self._mode[joint] = mode
            if mode == EFFORT:
                self._given[joint] = 0.0
            elif before not in (VELOCITY, POSITION):
                limit = self.envelope.velocity[joint]
                # a joint that still brakes swings about its setpoint: its measured velocity would begin the brake anew
                v = float(self._setpoints.v[joint] if braked else np.clip(self._velocity[joint], -limit, limit))
                self._setpoints.begin(joint, now, float(self._position[joint]), v)
        elapsed = now - self._commanded_at[joint]
        moves = mode == POSITION == before and 0.0 < elapsed <= HOLD_S
        if elapsed > 0.0 or mode != before:
            self._rate[joint] = (value - self._goal[joint]) / elapsed if moves else 0.0
        self._goal[joint], self._commanded_at[joint] = value, now

    # -- what is done about it

    def check(self, now: float) -> list[Guarded]:
        """Check motion, timeouts and enabling switch at the time `now` (s), and return commands for the motors.

        Commands are returned during a stop, for joints that are held after it, and for servos whose setpoints are still
        moving to the commanded values. Otherwise the list is empty.
        """
        self._commit(now)
        if not self.stopped and (cause := self._cause(now)):
            return self.stop(now, *cause)
        if not self.stopped and self._is_unclaimed(now):
            sent = self.stop(now, "heartbeat", f"no command for {self.params.heartbeat_ms:g} ms since the first state")
            self._unclaimed = True
            return sent
        if self.stopped:
            return self._brake(now)
        x, v, held = self._setpoints.x, self._setpoints.v, self._held
        turns = (self._mode == VELOCITY) & ((v != 0.0) | (self._goal != 0.0))
        behind = (self._mode == POSITION) & (x != self._goal)
        due = turns | behind | held
        if not due.any():
            return []
        before = self._given.copy()
        sent = self._advance(now, np.flatnonzero(due).tolist(), quietly=True)
        return sent if held.any() or self._pending is None or (self._pending[4] != before).any() else []

    def _cause(self, now: float) -> tuple[str, str] | None:
        """Return (cause, line of text) of a stop that is due at the time `now` (s); None if no stop is due."""
        if self._seen_at is None or self._first_seen_at is None:
            return None
        params, active = self.params, (self._mode != NONE) & ~self._held
        if active.any() and (released := self._switch_cause(now)) is not None:
            return released
        if params.heartbeat_ms:
            silent = active & (now - self._commanded_at > 1e-3 * params.heartbeat_ms)
            if silent.any():
                name = self.envelope.driven[int(silent.argmax())]
                return "heartbeat", f"no command to {name} for {params.heartbeat_ms:g} ms"
        if params.state_ms and now - self._seen_at > 1e-3 * params.state_ms:
            return "state", f"no measured state for {params.state_ms:g} ms"
        if self._lacks:
            return "state", self._lacks
        tracked = active & (self._mode == POSITION)
        tracked &= np.abs(self._position - self._setpoints.x) > self.envelope.tracking_error
        if tracked.any():
            k = int(tracked.argmax())
            error = abs(self._position[k] - self._setpoints.x[k])
            limit = self.envelope.tracking_error[k]
            return "tracking_error", f"{self.envelope.joints[k]} is {error:.4g} off its setpoint, limit {limit:.4g}"
        limit_name, line = violation(
            self.envelope,
            1e-3 * params.delay_ms,
            self._position,
            self._velocity,
            self._is_pushed(now),
            self._mode == NONE,
        )
        return (limit_name, line) if limit_name else None

    def _is_unclaimed(self, now: float) -> bool:
        """Whether no joint was ever commanded within `heartbeat_ms` after the first measured state."""
        if self._first_seen_at is None or not self.params.heartbeat_ms or self._mode.any():
            return False
        return now - self._first_seen_at > 1e-3 * self.params.heartbeat_ms

    def _is_pushed(self, now: float) -> NDArray[np.bool_]:
        """Whether efforts move a joint, (n,): commanded ones, or those that a servo has taken over from a command."""
        return np.asarray((self._mode == EFFORT) | (now - self._pushed_at <= PUSH_S))

    def _switch_cause(self, now: float) -> tuple[str, str] | None:
        """Return (cause, line of text) of a stop by the enabling switch at the time `now` (s).

        Returns None while the switch is pressed, and without a switch.
        """
        longest_ms = self.params.enable_timeout_ms
        if self._released:
            return "enable_file", self._released
        if longest_ms and now - self._enabled_at > 1e-3 * longest_ms:
            return "enable", f"the enabling switch was not pressed for {longest_ms:g} ms"
        return None

    def stop(self, now: float, cause: str, line: str) -> list[Guarded]:
        """Begin a controlled stop, which lasts until it is acknowledged. Returns the first commands of the stop.

        Before the first measured state the list is empty, and the guard begins to brake when this state arrives.

        cause  name of the exceeded limit, such as "velocity" or "heartbeat"
        line   one line of text about the cause
        """
        self._commit(now)
        if self.stopped and not self._unclaimed:
            return self._brake(now)
        self._mode[self._held] = NONE
        self._held[:], self._unclaimed = False, False
        self.stopped = cause
        self.stops += 1
        self.interventions.append(Intervention("guard_stop", cause, f"{line}: controlled stop"))
        if self._seen_at is None:
            self._brakes_anew = True
            return []
        return [*self._begin_braking(now, cause), *self._brake(now)]

    def _begin_braking(self, now: float, cause: str) -> list[Guarded]:
        """Prepare the servos' setpoints for a controlled stop: they start at the measured positions and velocities.

        Returns zero-effort commands for the actuators whose latest command of an effort acts in the direction of the
        motion: a servo begins with the effort that acts before.
        """
        released, pushed = [], self._is_pushed(now)
        for k, name in enumerate(self.envelope.driven):
            if not self._has_servo(k, name):
                self._mode[k], self._given[k] = EFFORT, 0.0
            elif pushed[k] or self._mode[k] == NONE:
                if self._effort[k] * self._velocity[k] > 0.0:
                    released.append(name)
                self._effort[k], self._pushed_at[k], self._mode[k] = 0.0, -np.inf, VELOCITY
                self._setpoints.begin(k, now, float(self._position[k]), float(self._velocity[k]))
            elif self._mode[k] == POSITION and cause == "tracking_error":
                self._setpoints.begin(k, now, float(self._position[k]), float(self._velocity[k]))
        self._setpoints.moved_at[:] = now
        return [Guarded("effort", released, [0.0] * len(released))] if released else []

    def _has_servo(self, joint: int, actuator: str) -> bool:
        given = self.params.joints[self.envelope.joints[joint]].servo
        return (self.has_servo is None or actuator in self.has_servo) if given is None else given

    def _brake(self, now: float) -> list[Guarded]:
        x, v, moved_at = self._setpoints.braked(now)
        given = self._servo_values(x, v)
        self._pending = now, x, v, moved_at, given
        return self._commands(given, np.flatnonzero(self._mode != NONE).tolist())

    def _servo_values(self, x: Vector, v: Vector) -> Vector:
        """Values for the motors at setpoints with the positions x and velocities v; 0 for joints without a servo."""
        return np.where(self._mode == POSITION, x, np.where(self._mode == VELOCITY, v, 0.0))

    def acknowledge(self, now: float) -> str:
        """End the stop. Returns "released", or a text that says that nothing was stopped.

        The commanded positions may have changed during the stop. Each setpoint therefore begins at the measured
        position and moves to the commanded position within all limits. Until the setpoint arrives there, its distance
        from the measured position is at most half of `tracking_error`, so that a robot that follows slowly is not
        stopped again.

        Raises ValueError with a one-line message while the robot is outside its limits.
        """
        if not self.stopped:
            return NOTHING_STOPPED
        if self._seen_at is not None and (line := self.envelope.outside(self._position)):
            raise ValueError(
                f"the robot is outside its limits ({line}); first move the robot back inside its limits (a real robot "
                "by hand, a simulated robot with 'armswing sim reset'), or launch again with wider limits"
            )
        self._release(f"the stop by {self.stopped} is acknowledged")
        return RELEASED

    def _release(self, line: str) -> None:
        """End the stop in force: the joints are held until they are commanded. `line` is the text of the event."""
        cause, self.stopped, self._unclaimed = self.stopped, "", False
        self._held[:] = self._mode != NONE
        self._rejoins[:] = True
        self._brakes_anew = False
        self.interventions.append(Intervention("guard_acknowledged", cause, line))

    def reset(self) -> None:
        """Reset the guard, after simulation time was set back.

        A stop remains in force, and holds the robot from the next measured state on.
        """
        kept = self.stopped, self.clamps, self.stops
        self.restore(CommandGuard(self.params, self.has_servo).snapshot())
        self.stopped, self.clamps, self.stops = kept
        self._brakes_anew = bool(self.stopped)

    def snapshot(self) -> dict[str, Any]:
        """State of the guard as plain data and arrays, for `restore`."""
        setpoints = self._setpoints
        return {
            **{name: getattr(self, name) for name in STATE},
            "setpoints": [setpoints.x, setpoints.v, setpoints.moved_at],
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a result of `snapshot`."""
        for name in STATE:
            setattr(self, name, state[name])
        self._setpoints.x, self._setpoints.v, self._setpoints.moved_at = state["setpoints"]

    # -- setpoints and efforts

    def _commit(self, now: float) -> None:
        """Adopt the latest computed setpoints and commands, if they were computed for a time before `now` (s).

        Those that were computed for the time `now` itself are not adopted. A second computation for this time therefore
        starts from the same values and gives the same result.
        """
        if self._pending is not None and now > self._pending[0]:
            setpoints = self._setpoints
            setpoints.x, setpoints.v, setpoints.moved_at, self._given = self._pending[1:]
            self._pending = None
            reached = setpoints.x == np.clip(self._goal, self.envelope.lower, self.envelope.upper)
            self._rejoins &= ~((self._mode == POSITION) & ~self._held & reached)

    def _advance(self, now: float, joints: Sequence[int], quietly: bool = False) -> list[Guarded]:
        """Return commands within the limits at the time `now` (s) for the given joints.

        Joints for which commands were already computed for the same time are included.

        joints   indices of the joints
        quietly  whether servo values that are clamped to the limits are neither counted nor reported
        """
        limits, setpoints = self.envelope, self._setpoints
        chosen = np.zeros(len(limits.joints), dtype=bool)
        chosen[list(joints)] = True
        if self._pending is None:
            x, v, moved_at, given = setpoints.x, setpoints.v, setpoints.moved_at, self._given.copy()
        else:
            _, x, v, moved_at, given = self._pending
            chosen |= moved_at == now
        rests = chosen & self._held
        servo = chosen & (self._mode >= VELOCITY) & ~rests
        if servo.any():
            rate = np.where(now - self._commanded_at <= HOLD_S, self._rate, 0.0)
            by_position = self._mode == POSITION
            lead = np.where(self._rejoins & by_position, REJOIN_SHARE * limits.tracking_error, np.inf)
            within = self._position - lead, self._position + lead
            x, v, moved_at, causes = setpoints.towards(now, self._period, self._goal, rate, by_position, servo, within)
            value = np.where(self._mode == POSITION, x, v)
            given = np.where(servo, value, given)
            if not quietly:
                self._clamped(now, causes, given)
        if rests.any():
            braked = setpoints.braked(now)
            x, v, moved_at = (np.where(rests, *pair) for pair in zip(braked, (x, v, moved_at), strict=True))
            given = np.where(rests, self._servo_values(x, v), given)
        pushed = chosen & (self._mode == EFFORT) & ~rests
        if pushed.any():
            given, moved_at = self._efforts(now, pushed, given), np.where(pushed, now, moved_at)
        self._pending = now, x, v, moved_at, given
        return self._commands(given, np.flatnonzero(chosen).tolist())

    def _efforts(self, now: float, pushed: NDArray[np.bool_], given: Vector) -> Vector:
        limits = self.envelope
        step = limits.effort_rate * np.clip(now - self._setpoints.moved_at, 1e-9, HOLD_S)
        low, high = np.maximum(self._given - step, -limits.effort), np.minimum(self._given + step, limits.effort)
        value = np.where(pushed, np.clip(self._goal, np.minimum(low, limits.effort), np.maximum(high, low)), given)
        causes = {
            k: "effort" if abs(self._goal[k]) > limits.effort[k] else "effort_rate"
            for k in np.flatnonzero(pushed & (value != self._goal)).tolist()
        }
        self._clamped(now, causes, value)
        self._effort = np.where(pushed, value, self._effort)
        return value

    def _clamped(self, now: float, causes: dict[int, str], given: Vector) -> None:
        self.clamps += len(causes)
        for k, cause in causes.items():
            joint, commanded, value = self.envelope.joints[k], float(self._goal[k]), float(given[k])
            line = f"{MODES[self._mode[k]]} {commanded:.4g} of {joint} becomes {value:.4g} (limit: {cause})"
            self._report(now, Intervention("guard_clamp", cause, line, joint, commanded, value))

    def _commands(self, given: Vector, joints: Sequence[int]) -> list[Guarded]:
        """Return the values of these joints as commands, one command for each mode.

        given   (n,) values of all joints
        joints  indices of the joints to command
        """
        found = []
        for number in (EFFORT, VELOCITY, POSITION):
            chosen = [k for k in joints if self._mode[k] == number]
            if chosen:
                names = [self.envelope.driven[k] for k in chosen]
                found.append(Guarded(MODES[number], names, [float(given[k]) for k in chosen]))
        return found

    def _report(self, now: float, intervention: Intervention) -> None:
        """Report an intervention, at most once in AGAIN_S seconds for the same limit and joint."""
        key = intervention.cause, intervention.joint
        before = self._reported.get(key)
        if before is None or not 0.0 <= now - before < AGAIN_S:
            self._reported[key] = now
            self.interventions.append(intervention)
