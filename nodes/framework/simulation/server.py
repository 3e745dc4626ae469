"""The simulation server: owns state and time of one robot or of several with one clock, and executes service calls.

The server is a plain object, as nodes are. Its methods are called by the scheduler (mode lockstep, or a run in one
process) or by the event loop over sockets (modes realtime and fast).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from nodes.framework.hosting.outgoing import EncodedMessage, Out
from nodes.framework.hosting.timing.clock import Durations
from nodes.framework.messages import Event
from nodes.framework.plan.launch_plan import SPEED_MAX, SPEED_MIN, Plan
from nodes.framework.simulation.commands import CommandHandler
from nodes.framework.simulation.monitoring.monitors import RealTimeFactor
from nodes.framework.simulation.restart.snapshots import NEVER, LinksState, next_snapshot
from nodes.framework.simulation.robot import RobotSimulation
from nodes.framework.simulation.services import Services
from nodes.framework.simulation.status import merged_status
from nodes.framework.transport.rejections import RejectionLog
from sim_core.simulation import Simulation
from sim_core.system import System


class SimServer:
    """The simulations of a plan: one per robot, stepped together in the order of the plan.

    Services act on all robots. In a plan whose robots have namespaces, the name of a parameter begins with its
    namespace, as in "left/arm_damping", and the services `snapshot` and `describe` return a table {namespace: result}.

    by_namespace  {namespace: simulation of a robot}
    robots        the simulations of the robots
    refusals    log that counts the rejected commands
    steps_left  number of time steps still to take while paused, requested by the service `step`
    speed       simulated seconds per wall second, in mode realtime

    wall_clock  whether the wall clock paces the server; None: the plan's mode decides
    assembled   the robot of a plan of one robot, if it is already assembled; otherwise None
    """

    name = "sim"

    def __init__(self, plan: Plan, wall_clock: bool | None = None, assembled: System | None = None) -> None:
        self.plan = plan
        self.refusals = RejectionLog(self.name)
        views = plan.views if plan.simulations else [plan]
        self.by_namespace = {v.sim.namespace: RobotSimulation(v, self.refusals, wall_clock, assembled) for v in views}
        self.robots = list(self.by_namespace.values())
        self.simulation: Simulation = self.robots[0].simulation  # keeps the time of all
        self._phase = "paused"  # or "running" or "stopped"
        self._pause_requested = False
        self.steps_left = 0
        self.speed = views[0].sim.speed
        self.step_times = Durations()
        self.pace = RealTimeFactor()
        self._duration_s = views[0].duration_s
        self._last_tick = None if self._duration_s is None else round(self._duration_s / plan.sim.step_s)
        run = {"pause": self.pause, "resume": self.resume, "step": self.take_steps, "speed": self.set_speed}
        self._services = Services(plan, self.by_namespace, run, self.jumped)

    @property
    def out(self) -> Out:
        """Function that the server calls with (topic, encoded message) for each message, as soon as it publishes the
        message."""
        return self.robots[0].messages.out

    @out.setter
    def out(self, out: Out) -> None:
        for robot in self.robots:
            robot.messages.out = out

    @property
    def commands(self) -> dict[str, CommandHandler]:
        """{topic of commands: object that receives them}, for every robot."""
        return {robot.commands.topic: robot.commands for robot in self.robots}

    @property
    def topics(self) -> list[str]:
        """Full names of the topics that the server publishes."""
        return [topic for robot in self.robots for topic in robot.messages.topics.values()]

    @property
    def code_hash(self) -> str:
        """Hash of the robots' equations."""
        return " ".join(robot.messages.description.code_hash for robot in self.robots)

    @property
    def tick(self) -> int:
        """Number of time steps since the start or the last reset."""
        return self.simulation.tick

    @property
    def time(self) -> float:
        """Simulation time, s."""
        return self.simulation.time

    @property
    def runs(self) -> bool:
        """Whether the next time step is due, because the simulation is running or single time steps were requested."""
        return self._phase == "running" or self.steps_left > 0

    @property
    def state(self) -> str:
        """State: "paused", "running", "safe" or "stopped".

        In the state "safe" the simulation runs with actuators in their safe mode, because no commands arrive or after
        an emergency stop. In the state "stopped", the run ended at `duration_s`.
        """
        if self._phase != "running":
            return self._phase
        for robot in self.robots:
            if robot.commands.safe:
                return "safe"
        return "running"

    @property
    def detail(self) -> str:
        """Reason of the present state, as one line for the user; "" for a state that needs no reason.

        The line names the namespaces whose actuators are in their safe mode.
        """
        if self._phase == "stopped":
            return f"duration_s = {self._duration_s:g} is over"
        if self._phase != "running":
            return ""
        safe = {name: robot.commands.detail for name, robot in self.by_namespace.items() if robot.commands.safe}
        return "; ".join(f"{name}: {line}" if name else line for name, line in safe.items())

    @property
    def emergency(self) -> str:
        """Reason of the emergency stop in force; "" if there is no emergency stop."""
        return self.robots[0].commands.emergency

    def start(self, restarts: bool = False) -> None:
        """Publish the descriptions and the initial states.

        restarts  whether the run continues from a snapshot; if so, only the descriptions are published
        """
        for robot in self.robots:
            robot.start(restarts)

    def step(self) -> None:
        """Apply the received commands, advance one time step, and publish the messages that are due."""
        began = time.perf_counter_ns()
        for robot in self.robots:
            robot.step()
        if self.steps_left:
            self.steps_left -= 1
        if self.simulation.tick == self._last_tick:
            self._rest("stopped")
        self.step_times.add(time.perf_counter_ns() - began)

    def publish_state(self) -> None:
        """Publish the present states and poses."""
        for robot in self.robots:
            robot.publish_state()

    def publish_events(self, events: Iterable[Event]) -> None:
        """Publish events with the present simulation time, for every robot."""
        found = list(events)
        for robot in self.robots:
            robot.messages.events(found)

    def forget(self, source: str) -> None:
        """Record that a node left, so that other nodes may command its actuators. May be called from any thread."""
        for robot in self.robots:
            robot.commands.forget(source)

    def restart_pace(self) -> None:
        """Begin anew to measure the real-time factor."""
        self.pace.clear()
        if self.runs:
            self.pace.run(self.time)

    # -- snapshots of a run

    def next_snapshot(self, tick: int) -> int:
        """First tick at or after `tick` at which a snapshot is taken. Runs of several robots take no snapshots."""
        return NEVER if self.plan.simulations else next_snapshot(tick, self.plan.sim.snapshot_s, self.plan.sim.step_s)

    def publish_snapshot(
        self,
        nodes: Mapping[str, bytes],
        waiting: Mapping[str, Sequence[EncodedMessage]],
        links: LinksState | None = None,
    ) -> None:
        """Publish the state of the run.

        nodes    {name: state of the node}
        waiting  {name of a node: messages that the node has not received yet}
        links    state of the simulated communication links; None for a run without them
        """
        self.robots[0].publish_snapshot(nodes, waiting, links)

    def restart(self, state: Mapping[str, Any], stamps: bool, ahead: int) -> None:
        """Continue from `state`, a result of `RobotSimulation.run_state`, without publishing anything.

        Statistics of the actuator loads, timings and counts of exceeded limits begin anew.

        stamps  whether the sequence numbers of messages continue from the numbers in the snapshot; false if subscribers
                have already received messages with higher numbers
        ahead   number of time steps from the snapshot to the first published state. These steps do not count as the
                single steps that users have requested.

        Raises ValueError with a one-line message for an invalid state, and for a run of several robots.
        """
        if self.plan.simulations:
            raise ValueError(
                "a run of several robots takes no snapshots, so it cannot continue from a recording; start a new run"
            )
        steps_left = self.steps_left
        self.robots[0].restart(state, stamps)
        self.jumped()
        self.steps_left = steps_left + ahead if steps_left else 0

    def repeat(self, action: Event) -> None:
        """Repeat an action of a user in the recorded run, see `RobotSimulation.repeat`."""
        self.robots[0].repeat(action)

    def request(self, name: str, args: dict[str, Any]) -> Any:
        """Execute a service call and return the response. Raises ValueError with a one-line message if the call is
        refused."""
        return self._services.request(name, args)

    # -- the run

    def pause(self, last: Any = False) -> None:
        """Stop simulation time.

        last  whether a launch ends; no event is then published
        """
        self._pause_requested = True
        if self._phase == "running" and not last:
            self.publish_events([Event(kind="pause")])
        if self._phase != "stopped":
            self._rest("paused")

    def resume(self, first: Any = False) -> None:
        """Let simulation time run. Raises ValueError with a one-line message after the end of the run.

        first  whether a launch begins; a simulation that a user paused then stays paused
        """
        if first and self._pause_requested:
            return
        self._pause_requested = False
        if self._phase == "stopped":
            raise ValueError(f"resume: the run ended at duration_s, t = {self.time:g} s; call the service reset first")
        if self._phase == "paused":
            self.pace.run(self.time)
            self._phase = "running"
            if not first:
                self.publish_events([Event(kind="resume")])

    def take_steps(self, n: Any = 1) -> None:
        """Let a paused simulation advance by n steps. Raises ValueError with a one-line message for a wrong call."""
        if not isinstance(n, int) or isinstance(n, bool) or n < 1:
            raise ValueError(f"step: the argument 'n' is {n!r}; it must be a whole number of at least 1")
        if self._phase != "paused":
            raise ValueError(f"step: the simulation is {self.state}; call the service pause first")
        if not self.steps_left:
            self.pace.run(self.time)
        self.steps_left += n

    def set_speed(self, x: Any = None) -> None:
        """Set the speed to x simulated seconds per wall second. Raises ValueError with a one-line message for a wrong
        call.
        """
        if isinstance(x, bool) or not isinstance(x, int | float) or not SPEED_MIN <= x <= SPEED_MAX:
            raise ValueError(
                f"speed: the argument 'x' is {x!r}; it must be a number from {SPEED_MIN:g} to {SPEED_MAX:g}"
            )
        if self.plan.sim.mode != "realtime":
            raise ValueError(
                f"speed: the launch runs in mode {self.plan.sim.mode!r}, but the speed can be set in mode 'realtime' "
                'only; set mode = "realtime" in [sim] of the launch file'
            )
        if x != self.speed:
            self.publish_events([Event(kind="speed", old=f"{self.speed:g}", new=f"{x:g}")])
        self.speed = float(x)
        for robot in self.robots:
            robot.commands.set_speed(self.speed)
        self.restart_pace()

    def jumped(self, kind: str = "") -> None:
        """Continue after the states of the robots were replaced.

        kind  kind of the event that is published with the new states, "reset" or "restore"; "" publishes nothing
        """
        if self._phase == "stopped":
            self._phase = "paused"
        self.steps_left = 0
        if kind == "reset":
            self.step_times.clear()
        self.restart_pace()
        for robot in self.robots if kind else ():
            robot.messages.events([Event(kind=kind)])
            robot.publish_state()

    def _rest(self, phase: str) -> None:
        self.pace.rest(self.time)
        self._phase = phase
        self.steps_left = 0

    # -- status

    def status(self) -> dict[str, Any]:
        """Status as plain data, in SI units. In a plan with namespaces, `simulations` has the status of each robot."""
        common = {
            "time": self.time,
            "tick": self.tick,
            "mode": self.plan.sim.mode,
            "state": self.state,
            "speed": self.speed,
            "real_time_factor": self.pace.factor(self.time),
            "processor_share": self.pace.processor_share,
            **self._step_timing(),
            "step_histogram": self.step_times.histogram(),
        }
        each = {name: robot.status() for name, robot in self.by_namespace.items()}
        if not self.plan.simulations:
            return {**common, **each[self.plan.sim.namespace]}
        merged = merged_status(each)
        simulations = {name: {**common, **status, "state": self._state_of(name)} for name, status in each.items()}
        return {**common, **merged, "simulations": simulations}

    def _state_of(self, namespace: str) -> str:
        safe = self._phase == "running" and self.by_namespace[namespace].commands.safe
        return "safe" if safe else self._phase

    def timing(self) -> dict[str, float | None]:
        """Median, 99 % quantile and maximum (s) of the computing time of a time step of all robots together, and of the
        round-trip time from a published state to the command that replies to this state.

        A value is None if nothing was measured. A round-trip quantile is the largest of the robots' quantiles.
        """
        each = [robot.messages.round_trips.quantiles() for robot in self.robots]
        trips = {key: max((t for q in each if (t := q[key]) is not None), default=None) for key in each[0]}
        return {**self._step_timing(), **trips}

    def _step_timing(self) -> dict[str, float | None]:
        return {
            "step_p50_s": self.step_times.quantile_s(0.50),
            "step_p99_s": self.step_times.quantile_s(0.99),
            "step_max_s": self.step_times.largest_s,
        }

    def counters(self) -> dict[str, int]:
        """Numbers of watchdog trips and of accepted commands, summed over all robots."""
        actuations = [robot.actuation for robot in self.robots]
        return {
            "watchdog_trips": sum(each.trips for each in actuations),
            "commands": sum(each.commands for each in actuations),
        }
