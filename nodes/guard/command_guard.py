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

from nodes.framework.messages.protocol import NOTHING_STOPPED, RELEASED
from nodes.guard.limits import GuardParams, Vector, envelope_of
from nodes.guard.motor_commands import MODES, NONE, POSITION, VELOCITY, Guarded, MotorCommands
from nodes.guard.setpoints import HOLD_S
from nodes.guard.stopping_distance import violation

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
        self.has_servo = has_servo
        self.interventions: deque[Intervention] = deque(maxlen=256)
        self._index = {name: k for k, name in enumerate(self.envelope.driven)}
        self._refused = {  # {mode: actuators that get no commands in it}
            mode: {each.actuator or joint for joint, each in params.joints.items() if mode not in each.modes}
            for mode in MODES[1:]
        }
        self._motors = MotorCommands(self.envelope, self._has_servo, self._clamped)
        self._seen_at: float | None = None
        self._first_seen_at: float | None = None
        self._lacks = ""  # line about a joint that the latest measured state lacks
        self._unclaimed = False  # whether the first command ends the stop in force
        self._enabled_at, self._released = -np.inf, ""
        self._reported: dict[tuple[str, str], float] = {}
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
        if self._motors.held.any():
            return "held"
        return "passing" if (self._motors.mode != NONE).any() else "watching"

    # -- what arrives

    def add_state(
        self, now: float, joints: Sequence[str], position: Sequence[float], velocity: Sequence[float]
    ) -> None:
        """Store a measured state: positions (rad or m) and velocities (rad/s or m/s) of the named joints."""
        self._motors.commit(now)
        where = {joint: k for k, joint in enumerate(joints)}
        self._lacks = ""
        for k, joint in enumerate(self.envelope.joints):
            at = where.get(joint, -1)
            q, v = (position[at], velocity[at]) if 0 <= at < min(len(position), len(velocity)) else (np.nan, np.nan)
            if np.isfinite(q) and np.isfinite(v):
                self._motors.position[k], self._motors.velocity[k] = q, v
            else:
                self._lacks = self._lacks or f"the measured state has no position and velocity of {joint}"
        if self._first_seen_at is None:
            self._first_seen_at = now
        if self._seen_at is not None and now > self._seen_at:
            self._motors.period = min(now - self._seen_at, HOLD_S)
        self._seen_at = now
        if self._brakes_anew:
            self._brakes_anew = False
            self._motors.begin_braking(now, self.stopped)

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
        if self._unclaimed and known and not self.envelope.outside(self._motors.position):
            self._release("a commander has come: the stop by heartbeat ends")
        if self.stopped:
            return []
        if known and self._seen_at is None:
            line = "a command came before the first measured state: it is not passed on"
            self._report(now, Intervention("guard_rejected", "state", line))
            return []
        if known and (cause := self._switch_cause(now)) is not None:
            return self.stop(now, *cause)
        self._motors.commit(now)
        number = MODES.index(mode)
        for k in known:
            self._motors.set(now, self._index[names[k]], number, values[k])
        free = [k for k in range(len(names)) if names[k] not in self._index]
        passed = [Guarded(mode, [names[k] for k in free], [values[k] for k in free])] if free else []
        self.passed += 1
        return [*passed, *(self._motors.advance(now, [self._index[names[k]] for k in known]) if known else [])]

    def reject_stale(self, now: float, age_s: float) -> None:
        """Report a command that waited for `age_s` while the guard's process did not run."""
        line = f"a command waited for {age_s:.1f} s while the guard did not run: it and others as old are not passed on"
        self._report(now, Intervention("guard_rejected", "backlog", line))

    # -- what is done about it

    def check(self, now: float) -> list[Guarded]:
        """Check motion, timeouts and enabling switch at the time `now` (s), and return commands for the motors.

        Commands are returned during a stop, for joints that are held after it, and for servos whose setpoints are still
        moving to the commanded values. Otherwise the list is empty.
        """
        self._motors.commit(now)
        if not self.stopped and (cause := self._cause(now)):
            return self.stop(now, *cause)
        if not self.stopped and self._is_unclaimed(now):
            sent = self.stop(now, "heartbeat", f"no command for {self.params.heartbeat_ms:g} ms since the first state")
            self._unclaimed = True
            return sent
        if self.stopped:
            return self._motors.brake(now)
        x, v, held = self._motors.setpoints.x, self._motors.setpoints.v, self._motors.held
        turns = (self._motors.mode == VELOCITY) & ((v != 0.0) | (self._motors.goal != 0.0))
        behind = (self._motors.mode == POSITION) & (x != self._motors.goal)
        due = turns | behind | held
        if not due.any():
            return []
        before = self._motors.given.copy()
        sent = self._motors.advance(now, np.flatnonzero(due).tolist(), quietly=True)
        return sent if held.any() or self._motors.pending is None or (self._motors.pending[4] != before).any() else []

    def _cause(self, now: float) -> tuple[str, str] | None:
        """Return (cause, line of text) of a stop that is due at the time `now` (s); None if no stop is due."""
        if self._seen_at is None or self._first_seen_at is None:
            return None
        params, active = self.params, (self._motors.mode != NONE) & ~self._motors.held
        if active.any() and (released := self._switch_cause(now)) is not None:
            return released
        if params.heartbeat_ms:
            silent = active & (now - self._motors.commanded_at > 1e-3 * params.heartbeat_ms)
            if silent.any():
                name = self.envelope.driven[int(silent.argmax())]
                return "heartbeat", f"no command to {name} for {params.heartbeat_ms:g} ms"
        if params.state_ms and now - self._seen_at > 1e-3 * params.state_ms:
            return "state", f"no measured state for {params.state_ms:g} ms"
        if self._lacks:
            return "state", self._lacks
        tracked = active & (self._motors.mode == POSITION)
        tracked &= np.abs(self._motors.position - self._motors.setpoints.x) > self.envelope.tracking_error
        if tracked.any():
            k = int(tracked.argmax())
            error = abs(self._motors.position[k] - self._motors.setpoints.x[k])
            limit = self.envelope.tracking_error[k]
            return "tracking_error", f"{self.envelope.joints[k]} is {error:.4g} off its setpoint, limit {limit:.4g}"
        limit_name, line = violation(
            self.envelope,
            1e-3 * params.delay_ms,
            self._motors.position,
            self._motors.velocity,
            self._motors.is_pushed(now),
            self._motors.mode == NONE,
        )
        return (limit_name, line) if limit_name else None

    def _is_unclaimed(self, now: float) -> bool:
        """Whether no joint was ever commanded within `heartbeat_ms` after the first measured state."""
        if self._first_seen_at is None or not self.params.heartbeat_ms or self._motors.mode.any():
            return False
        return now - self._first_seen_at > 1e-3 * self.params.heartbeat_ms

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
        self._motors.commit(now)
        if self.stopped and not self._unclaimed:
            return self._motors.brake(now)
        self._motors.mode[self._motors.held] = NONE
        self._motors.held[:], self._unclaimed = False, False
        self.stopped = cause
        self.stops += 1
        self.interventions.append(Intervention("guard_stop", cause, f"{line}: controlled stop"))
        if self._seen_at is None:
            self._brakes_anew = True
            return []
        return [*self._motors.begin_braking(now, cause), *self._motors.brake(now)]

    def _has_servo(self, joint: int, actuator: str) -> bool:
        given = self.params.joints[self.envelope.joints[joint]].servo
        return (self.has_servo is None or actuator in self.has_servo) if given is None else given

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
        if self._seen_at is not None and (line := self.envelope.outside(self._motors.position)):
            raise ValueError(
                f"the robot is outside its limits ({line}); first move the robot back inside its limits (a real robot "
                "by hand, a simulated robot with 'armswing sim reset'), or launch again with wider limits"
            )
        self._release(f"the stop by {self.stopped} is acknowledged")
        return RELEASED

    def _release(self, line: str) -> None:
        """End the stop in force: the joints are held until they are commanded. `line` is the text of the event."""
        cause, self.stopped, self._unclaimed = self.stopped, "", False
        self._motors.held[:] = self._motors.mode != NONE
        self._motors.rejoins[:] = True
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
        setpoints = self._motors.setpoints
        return {
            **{name: getattr(*self._place(name)) for name in STATE},
            "setpoints": [setpoints.x, setpoints.v, setpoints.moved_at],
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a result of `snapshot`."""
        for name in STATE:
            setattr(*self._place(name), state[name])
        setpoints = self._motors.setpoints
        setpoints.x, setpoints.v, setpoints.moved_at = state["setpoints"]

    def _place(self, name: str) -> tuple[object, str]:
        """(object, attribute) of an entry of STATE."""
        own = name[1:]
        return (self._motors, own) if own in vars(self._motors) else (self, name)

    # -- reports

    def _clamped(self, now: float, causes: dict[int, str], given: Vector) -> None:
        self.clamps += len(causes)
        for k, cause in causes.items():
            joint, commanded, value = self.envelope.joints[k], float(self._motors.goal[k]), float(given[k])
            line = f"{MODES[self._motors.mode[k]]} {commanded:.4g} of {joint} becomes {value:.4g} (limit: {cause})"
            self._report(now, Intervention("guard_clamp", cause, line, joint, commanded, value))

    def _report(self, now: float, intervention: Intervention) -> None:
        """Report an intervention, at most once in AGAIN_S seconds for the same limit and joint."""
        key = intervention.cause, intervention.joint
        before = self._reported.get(key)
        if before is None or not 0.0 <= now - before < AGAIN_S:
            self._reported[key] = now
            self.interventions.append(intervention)
