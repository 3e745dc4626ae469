"""The simulation server: owns state and time of one robot, publishes messages, executes commands and service calls.

The server is a plain object, as nodes are. Its methods are called by the scheduler (mode lockstep, or a run in one
process) or by the event loop over sockets (modes realtime and fast).
"""

from __future__ import annotations

import dataclasses
import math
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from nodes.hosting.hosted import EncodedMessage, Out, changes
from nodes.hosting.timing.clock import Durations
from nodes.messages import Event, JointCommand, Message, Polylines, Snapshot
from nodes.messages.codec import WireError, decode, encode
from nodes.messages.protocol import NOTHING_STOPPED, RELEASED
from nodes.messages.stamp import MessageStamper
from nodes.plan.launch_plan import SPEED_MAX, SPEED_MIN, Plan
from nodes.simulation.actuation import Actuation
from nodes.simulation.description import describe
from nodes.simulation.links import rounded_times
from nodes.simulation.monitoring.command_events import CommandEvents
from nodes.simulation.monitoring.monitors import MilestoneWatch, RealTimeFactor, RoundTrips
from nodes.simulation.monitoring.watchdog import fresh_states, too_old
from nodes.simulation.payload import Payloads
from nodes.simulation.pushes import Pushes
from nodes.simulation.restart.snapshots import LinksState, RunState, next_snapshot, waiting_plain
from nodes.simulation.services import SERVICES, known_names
from nodes.transport.rejections import RejectionLog
from sim_core.errors import InvalidRequest, SimulationDiverged, SimulationWarning, StepTooLargeWarning
from sim_core.flexible.lines import BeamLines
from sim_core.integrators.ahead import loop_compiled_ahead
from sim_core.monitoring.modes import StepTooLarge
from sim_core.monitoring.servo_loops import unstable_servos
from sim_core.simulation import Simulation
from sim_core.state import State
from sim_core.system import System, assemble

SPEAKS = ("description", "state", "body_poses", "lines", "event", "snapshot")
DRAWN = 6  # decimals of the points of lines, m
HAND_S = 3.0  # a user's command of actuators ends if it is not renewed for this time, s
MOST_WAITING = 1024  # most commands between two steps


class SimServer:
    """The simulation of one robot.

    state       "paused", "running", "safe" (running with the actuators in their safe mode, because no commands arrive
                or after an emergency stop) or "stopped" (at the end, `duration_s`)
    steps_left  number of time steps still to take while paused, requested by the service `step`
    speed       simulated seconds per wall second, in mode realtime
    emergency   reason of the emergency stop in force; "" if there is no emergency stop. During an emergency stop, the
                server refuses commands

    The parameter `assembled` is the plan's robot, if the caller has already assembled this robot; otherwise None.
    """

    name = "sim"
    publishes = SPEAKS

    def __init__(self, plan: Plan, wall_clock: bool | None = None, assembled: System | None = None) -> None:
        sim = plan.sim
        self.plan = plan
        self.robot = sim.robot_name
        self._within = f"{sim.namespace}/" if sim.namespace else ""  # prefix of the nodes' names; messages leave it out
        self.out: Out = _nobody
        with loop_compiled_ahead(sim.stepper):
            system = assemble(sim.make_mechanism(), sim.compile_limit_s) if assembled is None else assembled
            self.simulation = Simulation(
                system,
                step_s=sim.step_s,
                stepper=sim.make_stepper(),
                stabilizer=sim.make_stabilizer(),
                assemble_start=sim.assemble_start,
            )
        if unstable := unstable_servos(system, sim.step_s, self.simulation.state.q):
            warnings.warn(unstable, StepTooLargeWarning, stacklevel=2)
        for line in rounded_times(plan):
            warnings.warn(line, SimulationWarning, stacklevel=2)
        self.simulation.warm_up()
        outputs = list(self.simulation.outputs())
        self.description = describe(system.mechanism, sim.step_s, outputs, system.code_hash, self.robot)
        self._beams = BeamLines(system.mechanism, system.coordinate_names)
        self._realtime = sim.mode == "realtime"
        self._stamper = MessageStamper(sim.mode != "lockstep" if wall_clock is None else wall_clock)
        self._topics = {name: f"{self.robot}/{name}" for name in SPEAKS}
        self._state_every = 1 if sim.rate_hz is None else max(round(1.0 / (sim.rate_hz * sim.step_s)), 1)
        self._poses_every = max(round(1.0 / (sim.poses_hz * sim.step_s)), 1)
        self._last_tick = None if plan.duration_s is None else round(plan.duration_s / sim.step_s)
        self._step_s, self._watchdog_s = sim.step_s, sim.watchdog_s
        planned = {} if sim.mode == "lockstep" else plan.commanders  # in lockstep, other nodes cannot command
        planned = {name: node.removeprefix(self._within) for name, node in planned.items()}
        self.actuation = Actuation(self.simulation, self._watchdog_s, sim.safe_mode == "hold", planned)
        self._granted: list[str] = []  # nodes outside of the plan that may publish commands
        self._pushes = Pushes(self.simulation)
        self._payloads = Payloads(self.simulation, self.actuation.joints.update, self._topics, self._stamper)
        self._fresh = fresh_states(self._watchdog_s if self._realtime else None, self._state_every * self._step_s)
        self._inbox: deque[tuple[str, JointCommand]] = deque(maxlen=MOST_WAITING)
        self._command_events = CommandEvents(sim.watchdog_s, sim.safe_mode, self.actuation.cut)
        # clock of the watchdog: simulated seconds, or wall seconds where speed is above 1
        self._clock, self._clock_step = 0.0, self._step_s / (max(sim.speed, 1.0) if self._realtime else 1.0)

        self.state = "paused"
        self._pause_requested = False
        self._hand_until = 0.0  # by time.monotonic(): a user's commands end here, unless they are renewed
        self.emergency = ""
        self.steps_left = 0
        self.speed = sim.speed
        self.refusals = RejectionLog(self.name)
        self.step_times = Durations()
        self.round_trips = RoundTrips()
        self._restored_seq = 0  # of the latest state of a restored run with other numbers, which its nodes may answer
        self.milestones = MilestoneWatch(plan.milestones, list(system.joint_names))
        self.pace = RealTimeFactor()
        self._services: dict[str, Callable[..., Any]] = {
            "pause": self._pause,
            "resume": self._resume,
            "step": self._take_steps,
            "speed": self._set_speed,
            "push": self._push,
            "hand_command": self._hand_command,
            "give_back": self._give_back,
            "take_over": self._take_over,
            "reset": self._reset,
            "estop": self._emergency_stop,
            "release": self._release,
            "snapshot": self._snapshot,
            "restore": self._restore,
            "describe": lambda: msgspec.to_builtins(self.description),
            "get_parameters": lambda: self.simulation.parameters,
            "describe_parameters": self._parameter_limits,
        }
        self._energy_at_start = self.simulation.energy()
        self._energy_drift = 0.0
        self._measured: tuple[Any, Any] | None = None

    @property
    def parts(self) -> list[SimServer]:
        """List whose only entry is this server, as the counterpart of `SeveralServers.parts`."""
        return [self]

    @property
    def tick(self) -> int:
        """Number of time steps since the start or the last reset."""
        return self.simulation.tick

    @property
    def time(self) -> float:
        """Simulation time, s."""
        return self.simulation.time

    @property
    def code_hash(self) -> str:
        """Hash of the robot's equations."""
        return self.description.code_hash

    @property
    def runs(self) -> bool:
        """Whether the next time step is due, because the simulation is running or single time steps were requested."""
        return self.state in ("running", "safe") or self.steps_left > 0

    @property
    def detail(self) -> str:
        """Reason of the present state, as one line for the user; "" for a state that needs no reason."""
        if self.state == "safe" and self.emergency:
            return f"{self.emergency}: safe mode {self.plan.sim.safe_mode}, until 'armswing estop --release'"
        if self.state == "safe":
            return f"no command for {1e3 * (self.plan.sim.watchdog_s or 0.0):g} ms: {self.plan.sim.safe_mode}"
        return f"duration_s = {self.plan.duration_s:g} is over" if self.state == "stopped" else ""

    def start(self, restarts: bool = False) -> None:
        """Publish the description and the initial state.

        restarts  whether the run continues from a snapshot; if so, only the description is published
        """
        self._publish("description", self.description)
        if restarts:
            return
        self.publish_state()
        self._publish_notices()

    def begin_at(self, q: Any, v: Any) -> None:
        """Set the start of the run to the coordinates q and velocities v (n_q,), before `start`.

        Raises InvalidRequest with a one-line message for values of wrong size or that are not finite.
        """
        self.simulation.begin_at(q, v)
        self._clear(None)

    def publish_state(self) -> None:
        """Publish the present state and poses."""
        self._publish_state()
        self._publish_poses()

    def step(self) -> None:
        """Apply the received commands, advance one time step, and publish the messages that are due."""
        began = time.perf_counter_ns()
        sim = self.simulation
        self._actuate()
        if sim.tick >= self._pushes.next_end:
            self._pushes.end_due()
        try:
            sim.step(1)
        except SimulationDiverged as error:
            self._publish("event", Event(kind="diverged", detail=error.line))
            raise
        self._measured = None
        self._clock += self._clock_step
        for change in sim.take_events():
            event = Event(kind=change.kind, energy=float(change.energy), part=change.part)
            event.source, event.target = change.source, change.target
            event.before, event.after = change.before.tolist(), change.after.tolist()
            self._publish("event", event)
        if sim.notices:
            self._publish_notices()
        tick = sim.tick
        if tick % self._poses_every == 0:
            self._publish_poses()
        if tick % self._state_every == 0:  # last: controllers can reply while nothing else remains
            self._publish_state()
        elif self.milestones.pending:
            self.milestones.update(sim.time, sim.readings.position)
        if self.steps_left:
            self.steps_left -= 1
        if tick == self._last_tick:
            self._rest("stopped")
        self.step_times.add(time.perf_counter_ns() - began)

    def restart_pace(self) -> None:
        """Begin anew to measure the real-time factor."""
        self.pace.clear()
        if self.runs:
            self.pace.run(self.time)

    # -- snapshots

    def next_snapshot(self, tick: int) -> int:
        """First tick at or after `tick` at which a snapshot is taken."""
        return next_snapshot(tick, self.plan.sim.snapshot_s, self._step_s)

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
        server = self.run_state()
        server["stamps"][self._topics["snapshot"]] = self._stamper.last.get(self._topics["snapshot"], 0) + 1
        run = RunState(tick=self.tick, server=server, nodes=dict(nodes), waiting=waiting_plain(waiting), links=links)
        self._publish("snapshot", Snapshot(tick=self.tick, data=run.encode()))

    def run_state(self) -> dict[str, Any]:
        """State of the server as plain data, taken after the nodes have run and before the simulation advances."""
        too_large = self.simulation.step_too_large
        return {
            "simulation": self.simulation.snapshot().to_plain(),
            "step_too_large": None if too_large is None else dataclasses.asdict(too_large),
            "stamps": self._stamper.last,
            "clock": self._clock,
            "energy": [self._energy_at_start, self._energy_drift],
            "actuation": self.actuation.to_plain(),
            "pushes": self._pushes.to_plain(),
            "emergency": self.emergency,
            "events": self._command_events.to_plain(),
            "milestones": self.milestones.to_plain(),
            "inbox": [(source, encode(command)) for source, command in self._inbox],
        }

    def restart(self, state: Mapping[str, Any], stamps: bool, ahead: int) -> None:
        """Continue from `state`, a result of `run_state`, without publishing anything.

        Statistics of the actuator loads, timings and counts of exceeded limits begin anew.

        stamps  whether the sequence numbers of messages continue from the numbers in the snapshot; false if subscribers
                have already received messages with higher numbers
        ahead   number of time steps from the snapshot to the first published state. These steps do not count as the
                single steps that users have requested.

        Raises ValueError with a one-line message for an invalid state.
        """
        steps_left = self.steps_left
        self._put({**state["simulation"], "servos": state["actuation"]["servos"]})
        too_large = state["step_too_large"]
        self.simulation.step_too_large = None if too_large is None else StepTooLarge(**too_large)
        self.simulation.take_notices()
        self._clear(state["actuation"]["servos"])
        self.steps_left = steps_left + ahead if steps_left else 0
        if stamps:
            self._stamper.resume(state["stamps"])
        self.round_trips.seq = self._stamper.last.get(self._topics["state"], 0)
        self._restored_seq = 0 if stamps else state["stamps"].get(self._topics["state"], 0)
        self._clock = state["clock"]
        self._energy_at_start, self._energy_drift = state["energy"]
        self.actuation.from_plain(state["actuation"])
        self._pushes.restore(state.get("pushes"))
        self.emergency = state.get("emergency", "")
        self._command_events.from_plain(state["events"])
        self.milestones.from_plain(state["milestones"])
        topic = f"{self.robot}/command"
        self._inbox.extend((source, decode(topic, payload, JointCommand)) for source, payload in state["inbox"])
        if self.state == "running" and (self.actuation.safe or self.emergency):
            self.state = "safe"

    def repeat(self, action: Event) -> None:
        """Repeat an action of a user in the recorded run.

        A recorded pause or resumption does not pause or resume this simulation; it is only published as an event.

        action  event that logged the action; its kind is one of ACTIONS
        """
        if action.kind == "push":
            given = msgspec.json.decode(action.new)
            if not any(given["force"]):
                del given["duration_s"]  # 0: the event logs the end of a push
            self._push(body=action.part, **given)
        elif action.kind == "set":
            self._set({action.key: msgspec.json.decode(action.new)})
        elif action.kind == "estop":
            self._emergency_stop(action.new)
        elif action.kind == "estop_released":
            self._release()
        else:
            self.publish_events([Event(kind=action.kind)])

    # -- commands

    def command(self, source: str, command: JointCommand, timed: bool = True) -> None:
        """Receive a command from a node. The command takes effect in the next time step.

        timed  whether to measure the round-trip time of the command; false for a command that a simulated link delayed
        """
        if timed and command.state_seq is not None:
            self.round_trips.answered(command.state_seq)
        self._inbox.append((source.removeprefix(self._within), command))

    def forget(self, source: str) -> None:
        """Record that a node left, so that other nodes may command its actuators. May be called from any thread."""
        source = source.removeprefix(self._within)
        self.actuation.forget(source)
        if source in self._granted:
            self._granted.remove(source)
        self._command_events.gone.append(source)

    def refuse(self, topic: str, reason: str) -> None:
        """Count and report an invalid command message."""
        self.refusals.refuse(topic, reason)

    def _actuate(self) -> None:
        """Apply the received commands, check the watchdogs, and set the efforts of this time step."""
        actuation, events, joints, inbox = self.actuation, self._command_events, self._joints, self._inbox
        while inbox:
            source, command = inbox.popleft()
            state_seq, objection = command.state_seq, self.emergency
            if state_seq and self.round_trips.seq - state_seq > self._fresh:
                objection = self._too_old(state_seq)
            elif state_seq and state_seq > max(self.round_trips.seq, self._restored_seq):
                newest = self.round_trips.seq
                objection = (
                    f"replies to state {state_seq}, and the newest state is {newest}; give the seq of a received state"
                )
            if reason := actuation.accept(source, command, joints, self._clock, objection):
                self.refuse(f"{self.robot}/command", reason)
                self.publish_events(events.refused(source, reason, self.time))
            else:
                events.accepted(source)
        if actuation.by_hand and time.monotonic() > self._hand_until:
            self._give_back()
        if events.gone or events.cut:
            self.publish_events(events.departures(self.time))
        # no watchdog can trip earlier; most steps skip this
        if self._watchdog_s is not None and self._clock - actuation.commanded_at > self._watchdog_s:
            for source in actuation.watch(joints, self._clock):
                self.publish_events([events.silent(source, self.time)])
        if self.state in ("running", "safe"):
            self.state = "safe" if actuation.safe or self.emergency else "running"
        actuation.drive(joints)

    def _joints(self) -> tuple[Any, Any]:
        """(positions, velocities) of the joints at the present tick. They are computed at the first call in a tick."""
        if self._measured is None:
            self._measured = self.simulation.readings.motion()
        return self._measured

    def _too_old(self, state_seq: int) -> str:
        """Reason to refuse a command because it replies to a state that is too old; "" to accept the command.

        state_seq  sequence number of the state to which the command replies
        """
        age_s = (self.round_trips.seq - state_seq) * self._state_every * self._step_s
        return too_old(age_s, math.inf if self._watchdog_s is None else self._watchdog_s, self.speed)

    # -- services

    def request(self, name: str, args: dict[str, Any]) -> Any:
        """Execute a service call and return the response. Raises ValueError with a one-line message if the call is
        refused."""
        if name not in SERVICES:
            raise ValueError(f"the simulation has no service {name!r}; its services are {', '.join(SERVICES)}")
        if name in ("set", "set_parameters"):
            return self._set(args)
        takes = {
            "pause": ["last"],
            "resume": ["first"],
            "step": ["n"],
            "speed": ["x"],
            "restore": ["state"],
            "estop": ["reason"],
            "hand_command": ["mode", "name", "value"],
            "take_over": ["node", "topic"],
            "push": ["body", "force", "point", "duration_s"],
        }.get(name, [])
        known_names(args, takes, name)
        return self._services[name](**args)

    def _pause(self, last: Any = False) -> None:
        self._pause_requested = True
        if self.state in ("running", "safe") and not last:
            self._publish("event", Event(kind="pause"))
        if self.state != "stopped":
            self._rest("paused")

    def _resume(self, first: Any = False) -> None:
        if first and self._pause_requested:
            return
        self._pause_requested = False
        if self.state == "stopped":
            raise ValueError(f"resume: the run ended at duration_s, t = {self.time:g} s; call the service reset first")
        if self.state == "paused":
            self.pace.run(self.time)
            self.state = "running"
            if not first:
                self._publish("event", Event(kind="resume"))

    def _take_steps(self, n: Any = 1) -> None:
        if not isinstance(n, int) or isinstance(n, bool) or n < 1:
            raise ValueError(f"step: the argument 'n' is {n!r}; it must be a whole number of at least 1")
        if self.state != "paused":
            raise ValueError(f"step: the simulation is {self.state}; call the service pause first")
        if not self.steps_left:
            self.pace.run(self.time)
        self.steps_left += n

    def _set_speed(self, x: Any = None) -> None:
        if isinstance(x, bool) or not isinstance(x, int | float) or not SPEED_MIN <= x <= SPEED_MAX:
            raise ValueError(
                f"speed: the argument 'x' is {x!r}; it must be a number from {SPEED_MIN:g} to {SPEED_MAX:g}"
            )
        if not self._realtime:
            raise ValueError(
                f"speed: the launch runs in mode {self.plan.sim.mode!r}, but the speed can be set in mode 'realtime' "
                'only; set mode = "realtime" in [sim] of the launch file'
            )
        if x != self.speed:
            self._publish("event", Event(kind="speed", old=f"{self.speed:g}", new=f"{x:g}"))
        self.speed = float(x)
        self._clock_step = self._step_s / max(self.speed, 1.0)
        self.restart_pace()

    def _push(self, **args: Any) -> None:
        """Apply an external force to a body for a given time, and publish an event about the force."""
        self.publish_events([self._pushes.push(**args)])

    def _hand_command(self, mode: Any = "effort", name: Any = None, value: Any = None) -> list[str]:
        """Command actuators as a user, in place of the nodes, from the next time step on.

        Returns the names of all actuators that a user commands. Nodes' commands to these actuators have no effect
        until the service `give_back` is called, or until HAND_S seconds have passed since the last call of
        `hand_command`.
        """
        if not self._realtime:
            raise ValueError(
                f"hand_command: the launch runs in mode {self.plan.sim.mode!r}, but a user can command actuators in "
                "mode 'realtime' only; set mode = \"realtime\" in [sim] of the launch file"
            )
        if self.emergency:
            raise ValueError(
                f"hand_command: the actuators are stopped ({self.emergency}); release the emergency stop first "
                "with the service 'release'"
            )
        try:
            command = msgspec.convert({"mode": mode, "name": name or [], "value": value or []}, JointCommand)
        except msgspec.ValidationError as error:
            raise ValueError(f"hand_command: {error}; pass mode, name = [actuators] and value = [numbers]") from None
        if len(command.name) != len(command.value) or not all(map(math.isfinite, command.value)):
            raise ValueError(
                f"hand_command: the argument 'value' is {command.value}; pass a list with one finite number for each "
                f"entry of the argument 'name', whose length is {len(command.name)}"
            )
        self._hand_until = time.monotonic() + HAND_S
        if command.name and (added := self.actuation.command_by_hand(command, self._joints, self._clock)):
            self.publish_events([Event(kind="hand", detail=f"a user now commands {', '.join(added)}")])
        return sorted(self.actuation.by_hand)

    def _give_back(self) -> None:
        """End the user's commands to actuators, so that nodes can command these actuators again."""
        if names := self.actuation.give_back(self._joints):
            self.publish_events([Event(kind="hand_back", detail=f"the user no longer commands {', '.join(names)}")])

    def _take_over(self, node: Any = None, topic: Any = None) -> list[str]:
        """Allow a node outside of the plan to publish commands; return the actuators that it may command now."""
        commands = f"{self.robot}/command"
        if not isinstance(node, str) or not node or topic != commands:
            raise ValueError(
                f"take_over: the arguments 'node' and 'topic' are {node!r} and {topic!r}; pass the name of the node "
                f"and the topic {commands!r}"
            )
        if self.plan.sim.mode == "lockstep":
            raise ValueError(
                "in lockstep the simulation accepts commands only from nodes of its launch file; add the node there"
            )
        source = node.removeprefix(self._within)
        try:
            free = self.actuation.free_actuators(source)
        except ValueError as error:
            self.refuse(commands, str(error))
            raise
        if source not in self._granted:
            self._granted.append(source)
            line = f"node {source!r} may now command {', '.join(free)}"
            self._publish("event", Event(kind="take_over", node=source, detail=line))
        return free

    def _emergency_stop(self, reason: Any = "") -> str:
        """Put all actuators into their safe mode now, and refuse commands until the service `release` is called."""
        if not self.emergency:
            self.emergency = str(reason)[:200] or "emergency stop"
            self._give_back()
            self.actuation.make_safe(self._joints)
            self._command_events.safe_since = self.time
            if self.state == "running":
                self.state = "safe"
            line = f"{self.emergency}: {self.plan.sim.safe_mode}"
            self._publish("event", Event(kind="estop", new=self.emergency, detail=line))
        return f"safe mode {self.plan.sim.safe_mode}"

    def _release(self) -> str:
        """End the emergency stop, so that commands are accepted again.

        Returns a text that states whether there was an emergency stop.
        """
        if not self.emergency:
            return NOTHING_STOPPED
        self.emergency = ""
        self._publish("event", Event(kind="estop_released"))
        return RELEASED

    def _reset(self) -> None:
        self.simulation.reset()
        self._pushes.restore()
        self._after_jump("reset")
        self.step_times.clear()
        self.round_trips.times.clear()

    def _snapshot(self) -> dict[str, Any]:
        state = self.simulation.snapshot().to_plain()
        own = {"servos": self.actuation.servos.to_plain(), "pushes": self._pushes.to_plain()}
        return {**state, **own, "robot": self.robot}

    def _restore(self, state: Any = None) -> None:
        if not isinstance(state, dict):
            raise ValueError(
                "restore: the argument 'state' is missing or is not a table; pass a result of the service snapshot"
            )
        if (robot := state.get("robot", self.robot)) != self.robot:
            raise ValueError(
                f"restore: the snapshot is of robot {robot!r}, but this simulation is of robot {self.robot!r}; "
                "pass a snapshot of the same robot"
            )
        self._put(state)
        self._after_jump("restore", servos=state.get("servos"))
        self._pushes.restore(state.get("pushes"))

    def _put(self, state: dict[str, Any]) -> None:
        """Set the simulation and the servos to the state of a snapshot.

        Raises ValueError with a one-line message for an invalid state. The simulation and the servos are then
        unchanged.
        """
        servos = self.actuation.servos
        before = servos.to_plain()
        try:
            if "servos" in state:
                servos.from_plain(state["servos"])
            self.simulation.restore(State.from_plain(state))
        except (InvalidRequest, TypeError, ValueError, OverflowError) as error:
            servos.from_plain(before)
            raise ValueError(f"restore: {error}") from None

    def _set(self, args: dict[str, Any]) -> dict[str, float]:
        for key, value in args.items():
            if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
                raise ValueError(f"set: the parameter {key} is {value!r}; it must be a finite number")
        before = self.simulation.parameters
        self.simulation.set_parameters(args)
        self.publish_events(changes(self.name, before, self.simulation.parameters))
        return self.simulation.parameters

    def _after_jump(self, kind: str, servos: dict[str, Any] | None = None) -> None:
        """Discard commands and statistics after a reset or a restore. Then publish an event and the new state.

        kind    kind of the event, "reset" or "restore"
        servos  state of the servos from a snapshot; None after a reset
        """
        self._clear(servos)
        self._publish("event", Event(kind=kind))
        self.publish_state()

    def _clear(self, servos: dict[str, Any] | None) -> None:
        """Discard commands, reached milestones and statistics after a reset, a restore or a restart.

        servos  state of the servos from a snapshot; None after a reset
        """
        if self.state == "stopped":
            self.state = "paused"
        self.steps_left = 0
        self._measured = None
        self._inbox.clear()
        self.actuation.discard_commands(
            self.simulation.snapshot().u, servos
        )  # a restored run continues with its efforts
        self._command_events.clear()
        if self.state == "safe":
            self.state = "running"
        self.milestones.clear()
        self.restart_pace()
        self._energy_at_start = self.simulation.energy()
        self._energy_drift = 0.0

    def _parameter_limits(self) -> dict[str, dict[str, Any]]:
        """{tunable parameter: table with its `unit` and its inclusive limits `low` and `high`}.

        The limit `low` or `high` is None for a parameter without this limit.
        """
        return {
            each.name: {
                "unit": each.unit,
                "low": each.least if math.isfinite(each.least) else None,
                "high": each.most if math.isfinite(each.most) else None,
            }
            for each in self.simulation.system.mechanism.tunables
        }

    def _rest(self, state: str) -> None:
        self.pace.rest(self.time)
        self.state = state
        self.steps_left = 0

    # -- published messages

    def status(self) -> dict[str, Any]:
        """Status of the simulation as plain data, in SI units."""
        phi, phidot = self.simulation.peak_violation()
        return {
            "time": self.time,
            "tick": self.tick,
            "mode": self.plan.sim.mode,
            "state": self.state,
            "constraint_mode": self.simulation.constraint_mode if self.simulation.system.mechanism.changes else None,
            "speed": self.speed,
            "real_time_factor": self.pace.factor(self.time),
            "processor_share": self.pace.processor_share,
            **self.timing(),
            "step_histogram": self.step_times.histogram(),
            **self.actuation.status(),
            "peak_phi": phi,
            "peak_phidot": phidot,
            "substeps": self.simulation.substeps,
            "peak_solve_residual": self.simulation.peak_solve_residual(),
            "energy": self.simulation.energy(),
            "energy_drift": self._energy_drift,
            "milestones": dict(self.milestones.reached),
            "granted": sorted(self._granted),
            "safe_since": self._command_events.safe_since if self.actuation.safe else None,
            "emergency_stop": self.emergency,
            "step_too_large": too_large.line if (too_large := self.simulation.step_too_large) else "",
            "energy_departure": self.simulation.energy_ledger.departed,
            "largest_departure": self.simulation.energy_ledger.largest,
        }

    def timing(self) -> dict[str, float | None]:
        """Median, 99 % quantile and maximum (s) of the computing time of a time step, and of the round-trip time from a
        published state to the command that replies to this state. A value is None if nothing was measured."""
        return {
            "step_p50_s": self.step_times.quantile_s(0.50),
            "step_p99_s": self.step_times.quantile_s(0.99),
            "step_max_s": self.step_times.largest_s,
            "round_trip_p50_s": self.round_trips.times.quantile_s(0.50),
            "round_trip_p99_s": self.round_trips.times.quantile_s(0.99),
            "round_trip_max_s": self.round_trips.times.largest_s,
        }

    def counters(self) -> dict[str, int]:
        """Numbers of watchdog trips and of accepted commands."""
        return {"watchdog_trips": self.actuation.trips, "commands": self.actuation.commands}

    def _publish(self, name: str, message: Message) -> None:
        message.timestamp = self.simulation.time
        topic = self._topics[name]
        self._stamper.stamp(topic, message)
        try:
            self.out(topic, encode(message, topic))
        except WireError as error:
            self._stamper.take_back(topic)
            self.refuse(topic, error.reason)

    def _publish_notices(self) -> None:
        """Publish warnings about the run as events, for example a warning that the time step is too large."""
        self.publish_events(Event(kind=notice.kind, detail=notice.line) for notice in self.simulation.take_notices())

    def publish_events(self, events: Iterable[Event]) -> None:
        """Publish events with the present simulation time."""
        for event in events:
            self._publish("event", event)

    def _publish_state(self) -> None:
        seq, payload = self._payloads.state()
        self.round_trips.sent(seq)
        self.out(self._topics["state"], payload)
        readings = self.simulation.readings
        drift = abs(readings.sums.item(2) - self._energy_at_start)
        if drift > self._energy_drift:
            self._energy_drift = drift
        if self.milestones.pending:
            self.milestones.update(self.simulation.time, readings.joint_motion[0].item)

    def _publish_poses(self) -> None:
        self.out(self._topics["body_poses"], self._payloads.poses())
        if self._beams.names:
            points = self._beams.points(self.simulation.coordinates).round(DRAWN).ravel().tolist()
            self._publish("lines", Polylines(name=self._beams.names, count=self._beams.counts, points=points))


def _nobody(_topic: str, _payload: bytes) -> None:
    """Discard a message; `SimServer.out` is this function until the caller of the server sets another one."""
