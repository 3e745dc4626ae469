"""How a controller takes actuators over in the middle of a run: it begins with what they do, and fades over."""

from __future__ import annotations

import msgspec
import numpy as np

from nodes.controllers.tracking import Vector
from nodes.messages import Event, RobotState
from nodes.node import Context
from nodes.plan.launch_plan import SimPlan

FADE_S = 0.2  # of simulation time
BEGINNING_S = 0.1  # of a run: a controller that is there from then on begins as it likes


class TakeOver:
    """Fades from what actuators do to what a controller wants of them.

    A controller takes over when it was started in the middle of a run, or when its actuators were made safe because it
    was silent. Its first command then is what they do already, c0. With the command w(t) that it wants, it says

        c(t) = w(t) + (c0 - w(t0)) max(0, 1 - (t - t0) / fade_s)

    so two commands a time dt apart differ by what it wants to change, and by |c0 - w(t0)| dt / fade_s at most. After
    actuators were safe for less than fade_s it fades over that time alone: who is late often and shortly would else
    add what the safe mode does, which brakes, to most of what it commands.
    """

    def __init__(self, context: Context, fade_s: float = FADE_S) -> None:
        sim = context.plan.get("sim")
        self._watchdog_s = msgspec.convert({"robot": context.robot, **sim}, SimPlan).watchdog_s if sim else None
        self._name, self._fade_s = context.name, fade_s
        self._heard_at: float | None = None  # the latest state; None before the first
        self._due, self._learnt = False, False
        self._safe_from = -np.inf  # when the actuators were made safe, s; long ago is as good as unknown
        self._since, self._fades_in, self._off = -np.inf, fade_s, np.zeros(0)

    def restart(self, time: float) -> None:
        """Time was put to `time`, seconds: whoever is there then begins with the run."""
        self._heard_at, self._due, self._since, self._safe_from = time, False, -np.inf, -np.inf

    def hear(self, event: Event) -> None:
        """Note when the actuators were made safe."""
        if event.kind == "safe" and event.node == self._name:
            self._due, self._safe_from = True, event.timestamp

    def learn(self, new: bool = False) -> None:
        """A reference came: the first since it took over, or a `new` one, may be far from what was known then."""
        self._due |= self._since > -np.inf and (new or not self._learnt)
        self._learnt = True

    def see(self, state: RobotState) -> bool:
        """Note a state, and whether the answer to it takes over."""
        now, before = state.timestamp, self._heard_at
        if before is None:
            self._due |= now > BEGINNING_S
        elif self._watchdog_s is not None and now - before > self._watchdog_s:
            self._due, self._safe_from = True, before + self._watchdog_s
        self._heard_at = now
        return self._due

    def done(self) -> None:
        """The answer took over by itself."""
        self._due = False

    def __call__(self, now: float, given: Vector, wanted: Vector) -> Vector:
        """What to command at simulation time `now`, s: `given` is what the actuators do, `wanted` what they shall."""
        if self._due:
            if now - self._since > self._fade_s:
                self._learnt = False
            self._due, self._since, self._off = False, now, given - wanted
            self._fades_in, self._safe_from = min(self._fade_s, now - self._safe_from), -np.inf
        gone = now - self._since
        return wanted + (1.0 - gone / self._fades_in) * self._off if gone < self._fades_in else wanted
