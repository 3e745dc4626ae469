"""Bumpless transfer: a controller that starts in the middle of a run begins with the actuators' present efforts.

The commands then fade to the efforts that the controller computes.
"""

from __future__ import annotations

import numpy as np

from nodes.controllers.tracking import Vector
from nodes.framework.messages import Event, RobotState
from nodes.node import Context

FADE_S = 0.2  # duration of the fade in simulation time
BEGINNING_S = 0.1  # a controller present within this time of a run's start does not fade


class TakeOver:
    """Fades from the present commands of the actuators to the commands that the controller computes.

    A controller takes over when it is started in the middle of a run, or after its actuators went to their safe mode
    because the controller was silent. Its first command at time t0 is then the present command c0. With the computed
    command w(t), the controller sends

        c(t) = w(t) + (c0 - w(t0)) max(0, 1 - (t - t0) / fade_s)

    Two commands that are dt apart therefore differ by the change of w plus at most |c0 - w(t0)| dt / fade_s. After a
    safe mode shorter than fade_s, the fade lasts only as long as the safe mode did. Otherwise a controller whose
    commands are often slightly late would send the braking effort of the safe mode with most of its commands.

    fade_s  duration of the fade, in seconds of simulation time
    """

    def __init__(self, context: Context, fade_s: float = FADE_S) -> None:
        self._watchdog_s = None if context.plan is None else context.plan.sim.watchdog_s
        self._name, self._fade_s = context.name, fade_s
        self._state_at: float | None = None  # time of the latest state, s; None before the first
        self._due, self._learnt = False, False
        self._safe_from = -np.inf  # start of the safe mode, s; -inf for none
        self._since, self._fades_in, self._off = -np.inf, fade_s, np.zeros(0)

    def restart(self, time: float) -> None:
        """Begin a run without a fade, at the simulation time `time` (s)."""
        self._state_at, self._due, self._since, self._safe_from = time, False, -np.inf, -np.inf

    def process_event(self, event: Event) -> None:
        """Process an event: record the time at which the actuators went to their safe mode."""
        if event.kind == "safe" and event.node == self._name:
            self._due, self._safe_from = True, event.timestamp

    def learn(self, new: bool = False) -> None:
        """Record that a reference arrived, and start a fade if the targets of the joints may jump.

        The targets may jump with the first reference after a take-over, and with every later `new` reference.

        new  whether a joint of the reference had no reference before
        """
        self._due |= self._since > -np.inf and (new or not self._learnt)
        self._learnt = True

    def add_state(self, state: RobotState) -> bool:
        """Record a state. Returns whether the reply to this state starts a fade."""
        now, before = state.timestamp, self._state_at
        if before is None:
            self._due |= now > BEGINNING_S
        elif self._watchdog_s is not None and now - before > self._watchdog_s:
            self._due, self._safe_from = True, before + self._watchdog_s
        self._state_at = now
        return self._due

    def done(self) -> None:
        """Cancel the pending fade. Controllers that make the transition smooth themselves call this method."""
        self._due = False

    def __call__(self, now: float, given: Vector, computed: Vector) -> Vector:
        """Return the command to send at simulation time `now` (s), which fades from `given` to `computed`.

        given     present command of the actuators
        computed  command that the controller computes
        """
        if self._due:
            if now - self._since > self._fade_s:
                self._learnt = False
            self._due, self._since, self._off = False, now, given - computed
            self._fades_in, self._safe_from = min(self._fade_s, now - self._safe_from), -np.inf
        gone = now - self._since
        return computed + (1.0 - gone / self._fades_in) * self._off if gone < self._fades_in else computed
