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

LATE_S = 0.05  # longest wait for the state after an action, and for the action after a state, s
FRESH_S = 2.0  # longest wait for a state after the start procedure, s
POLL_S = 5e-4
ROUNDING_S = 1e-6  # of times, s: those of a robot's clock have 3e-7 s
LOCKSTEP_S = 10.0  # longest wait for the steps of a launch in lockstep, s
PORT = "port"  # name of the ActionPort node in the launch
Array = np.ndarray
Procedure = Callable[[Client], Any]


class Wire:
    """One system: the robot of a live launch with a node `nodes/action_port.py:ActionPort`.

    In lockstep the launch must be paused; each action then takes its time steps. In other modes an action takes its
    time, and the state after it must arrive at most LATE_S later, and the next action at most LATE_S after that state.
    Otherwise the system is late, and the node sends no further command, so that the actuators go into their safe mode.
    An action that a link delivers later still has no effect, because its life counts from the state that it answers.

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
        self._check(mechanism)
        self._started_at = self._seen_at = 0.0  # times of the robot: start of the episode, and latest state, s
        self._has_acted = False  # in this episode
        rows = len(self._coordinates)
        self._motion = Motion(np.zeros((rows, 1)), np.zeros((rows, 1)), np.zeros(1))
        self.late = np.zeros(1, dtype=bool)

    def _check(self, mechanism: Mechanism) -> None:
        """Raise InvalidRequest if the robot of the launch is not that of the task, or its time step another."""
        described = self._sim.call("describe", {})
        for kind, wanted in (("joints", mechanism.moving_joints), ("actuators", mechanism.actuators)):
            names, found = [each.name for each in wanted], [each["name"] for each in described.get(kind, [])]
            if found != names:
                raise InvalidRequest(f"the robot of the launch has the {kind} {found}; the task's has {names}")
        if self._is_lockstep and described["step_s"] != self.task.step_s:
            theirs, ours = 1e3 * described["step_s"], 1e3 * self.task.step_s
            raise InvalidRequest(f"the launch has time steps of {theirs:g} ms; the task has {ours:g} ms")

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
        self.late[:], self._has_acted = False, False
        if self._is_lockstep:
            self._take(self._of_simulation())
        else:
            self._take(self._newer(self._time_now(FRESH_S), FRESH_S, "after the start procedure"))
        self._started_at = self._seen_at
        self._motion = Motion(self._motion.q, self._motion.v, np.zeros(1))

    def _time_now(self, wait_s: float) -> float:
        seen = self._port.call("observe", {}, wait_s)
        return -np.inf if seen is None else float(seen["time"])

    def step(self, inputs: Array | None, steps: int) -> None:
        """Act with the inputs (1, n_u) for the time of `steps` steps."""
        assert inputs is not None
        action = {"mode": self._mode(), "name": self._actuators, "value": inputs[0].tolist()}
        action["life_ms"] = self._step_ms + 1e3 * LATE_S
        try:
            if self._is_lockstep:
                self._port.call("act", action)
                self._sim.call("step", {"n": steps}, LOCKSTEP_S)
                self._take(self._of_simulation())
                return
            since = self._seen_at if self._has_acted else self._time_now(LATE_S)  # the robot waits for the first action
            if since == -np.inf:
                raise TimeoutError("no state has come since the robot was reset")
            self._has_acted = True
            reply = self._port.call("act", {**action, "since": since}, LATE_S)
            now = float(reply["time"])
            if not reply["is_active"] or now - since > LATE_S:
                raise TimeoutError("the action came too late after its state")
            self._take(self._newer(now + 1e-3 * self._step_ms, 1e-3 * self._step_ms + LATE_S, "after an action"))
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
            if seen is not None and float(seen["time"]) >= after - ROUNDING_S and np.isfinite(seen["position"]).all():
                return seen
            if time.monotonic() > deadline:
                raise TimeoutError(f"no state {what} within {wait_s:g} s")
            time.sleep(POLL_S)

    def _of_simulation(self) -> dict[str, Any]:
        """The state of a paused simulation."""
        state = self._sim.call("snapshot", {}, LOCKSTEP_S)
        if len(state["q"]) != len(self._coordinates):
            raise InvalidRequest(
                f"the launch simulates {len(state['q'])} coordinates, the task {len(self._coordinates)}; give [sim] of "
                'the launch the task\'s parameters, such as coordinates = "joint"'
            )
        return {
            "time": state["tick"] * self.task.step_s,
            "name": self._coordinates,
            "position": state["q"],
            "velocity": state["v"],
        }

    def _take(self, seen: dict[str, Any]) -> None:
        places = [list(seen["name"]).index(name) for name in self._coordinates]
        q, v = (np.array([[seen[row][place]] for place in places], dtype=float) for row in ("position", "velocity"))
        self._seen_at = float(seen["time"])
        self._motion = Motion(q, v, np.array([self._seen_at - self._started_at]))
