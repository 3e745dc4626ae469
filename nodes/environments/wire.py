"""The system of an environment that is a live launch: its simulation, or a robot behind its driver."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from nodes.environments.task import Motion, Task
from nodes.framework.client import Client
from nodes.framework.transport.service import ServiceClient, ServiceTimeout
from sim_core.errors import InvalidRequest
from sim_core.mechanism.description import Mechanism

LATE_S = 0.05  # longest wait, beyond the time of an action, for the state after it, s
FRESH_S = 2.0  # longest wait for a state after the start procedure, s
POLL_S = 5e-4
LOCKSTEP_S = 10.0  # longest wait for the steps of a launch in lockstep, s
PORT = "port"  # name of the ActionPort node in the launch
Array = np.ndarray
Procedure = Callable[[Client], Any]


class Wire:
    """One system: the robot of a live launch with a node `nodes/action_port.py:ActionPort`.

    In lockstep the launch must be paused; each action then takes its time steps. In other modes an action takes its
    time, and the state after it must arrive at most LATE_S later; otherwise the system is late, and the node sends no
    further command, so that the actuators go into their safe mode.

    procedure  function of the client that brings the robot to the start of an episode; None: resets are refused
    domain     domain of the launch, as of Client
    """

    def __init__(self, task: Task, mechanism: Mechanism, procedure: Procedure | None, domain: int | None) -> None:
        for name in ("ranges", "links", "noise"):
            if getattr(task, name):
                raise InvalidRequest(f"backend='wire' has no {name}; the launch or the robot has its own")
        self.task, self._procedure = task, procedure
        self._coordinates = [name for joint in mechanism.moving_joints for name in joint.coordinates]
        self._actuators = [actuator.name for actuator in mechanism.actuators]
        self._client = Client(domain)
        self._port = self._services(PORT)
        self._sim = self._services("sim")
        self._is_lockstep = self._sim.call("status", {}).get("mode") == "lockstep"
        self._step_ms = 1e3 * task.steps * task.step_s
        self._started_at = 0.0
        rows = len(self._coordinates)
        self._motion = Motion(np.zeros((rows, 1)), np.zeros((rows, 1)), np.zeros(1))
        self.late = np.zeros(1, dtype=bool)

    def _services(self, node: str) -> ServiceClient:
        return ServiceClient(self._client.node(node).endpoints["service"])

    def motion(self) -> Motion:
        """The latest state."""
        return self._motion

    def reset(self, index: Array, q: Array, v: Array, tuned: dict[str, Array]) -> None:
        """Call the start procedure, and observe the state afterwards. Never moves a robot without the procedure."""
        if self._procedure is None:
            raise InvalidRequest(
                "a reset over the wire would have to move the robot; give procedure=function of a Client that brings "
                "it to its start"
            )
        self._port.call("halt", {})
        self._procedure(self._client)
        self.late[:] = False
        if self._is_lockstep:
            self._take(self._of_simulation())
        else:
            self._take(self._newer(self._time_now(), FRESH_S, "after the start procedure"))
        self._started_at = float(self._motion.time[0])
        self._motion = Motion(self._motion.q, self._motion.v, np.zeros(1))

    def _time_now(self) -> float:
        seen = self._port.call("observe", {})
        return -np.inf if seen is None else float(seen["time"])

    def step(self, inputs: Array | None, steps: int) -> None:
        """Act with the inputs (1, n_u) for the time of `steps` steps."""
        assert inputs is not None
        action = {"mode": self._mode(), "name": self._actuators, "value": inputs[0].tolist()}
        try:
            if self._is_lockstep:
                self._port.call("act", {**action, "life_ms": self._step_ms + 1e3 * LATE_S})
                self._sim.call("step", {"n": steps}, LOCKSTEP_S)
                self._take(self._of_simulation())
                return
            now = self._port.call("act", {**action, "life_ms": self._step_ms + 1e3 * LATE_S}, LATE_S)
            due = float(now["time"]) + 1e-3 * self._step_ms
            self._take(self._newer(due - 1e-9, 1e-3 * self._step_ms + LATE_S, "after an action"))
        except (ServiceTimeout, TimeoutError):
            self.late[:] = True
            self._halt()

    def _halt(self) -> None:
        """End the present action; where the node cannot be reached, the action ends by itself."""
        try:
            self._port.call("halt", {}, LATE_S)
        except ServiceTimeout:
            return

    def _mode(self) -> str:
        modes = {self.task.modes.get(name, "effort") for name in self._actuators}
        if len(modes) != 1:
            raise InvalidRequest("backend='wire' needs one mode for all actuators")
        return modes.pop()

    def _newer(self, after: float, wait_s: float, what: str) -> dict[str, Any]:
        """The first state later than `after`. Raises TimeoutError if none arrives within wait_s seconds."""
        deadline = time.monotonic() + wait_s
        while True:
            seen: dict[str, Any] | None = self._port.call("observe", {}, wait_s)
            if seen is not None and float(seen["time"]) >= after and np.isfinite(seen["position"]).all():
                return seen
            if time.monotonic() > deadline:
                raise TimeoutError(f"no state {what} within {wait_s:g} s")
            time.sleep(POLL_S)

    def _of_simulation(self) -> dict[str, Any]:
        """The state of a paused simulation."""
        state = self._sim.call("snapshot", {}, LOCKSTEP_S)
        return {
            "time": state["tick"] * self.task.step_s,
            "name": self._coordinates,
            "position": state["q"],
            "velocity": state["v"],
        }

    def _take(self, seen: dict[str, Any]) -> None:
        places = [list(seen["name"]).index(name) for name in self._coordinates]
        q, v = (np.array([[seen[row][place]] for place in places], dtype=float) for row in ("position", "velocity"))
        self._motion = Motion(q, v, np.array([float(seen["time"]) - self._started_at]))
