"""The simulation of one robot: its equations, the commands to its actuators, and the messages about its state."""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from nodes.framework.hosting.outgoing import EncodedMessage, changes
from nodes.framework.messages import Event, Snapshot
from nodes.framework.plan.launch_plan import Plan
from nodes.framework.simulation.actuation import Actuation
from nodes.framework.simulation.commands import CommandHandler
from nodes.framework.simulation.links import rounded_times
from nodes.framework.simulation.monitoring.monitors import MilestoneWatch
from nodes.framework.simulation.publishing import StatePublisher
from nodes.framework.simulation.pushes import Pushes
from nodes.framework.simulation.restart.snapshots import LinksState, RunState, waiting_plain
from nodes.framework.transport.rejections import RejectionLog
from sim_core.errors import InvalidRequest, SimulationDiverged, SimulationWarning, StepTooLargeWarning
from sim_core.integrators.ahead import loop_compiled_ahead
from sim_core.monitoring.modes import StepTooLarge
from sim_core.monitoring.servo_loops import unstable_servos
from sim_core.simulation import Simulation
from sim_core.state import State
from sim_core.system import System, assemble


class RobotSimulation:
    """The simulation of one robot in a simulation server.

    name      name of the robot, the first part of its topics, as in NAME/state
    commands  the commands to its actuators
    messages  publisher of its messages

    The parameter `assembled` is the plan's robot, if the caller has already assembled this robot; otherwise None.
    """

    def __init__(
        self, plan: Plan, refusals: RejectionLog, wall_clock: bool | None = None, assembled: System | None = None
    ) -> None:
        sim = plan.sim
        self.name = sim.robot_name
        with loop_compiled_ahead(sim.stepper):
            system = assembled or assemble(sim.make_mechanism(), sim.compile_limit_s, sim.rolled)
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
        within = f"{sim.namespace}/" if sim.namespace else ""
        planned = {} if sim.mode == "lockstep" else plan.commanders  # in lockstep, other nodes cannot command
        planned = {name: node.removeprefix(within) for name, node in planned.items()}
        self.actuation = Actuation(self.simulation, sim.watchdog_s, sim.safe_mode == "hold", planned)
        stamped = sim.mode != "lockstep" if wall_clock is None else wall_clock
        self.messages = StatePublisher(self.simulation, sim, self.actuation.joints.update, refusals, stamped)
        self.commands = CommandHandler(sim, self.simulation, self.actuation, self.messages, refusals)
        self.milestones = MilestoneWatch(plan.milestones, list(system.joint_names))
        self._pushes = Pushes(self.simulation)
        self._energy_at_start = self.simulation.energy()
        self._energy_drift = 0.0

    def start(self, restarts: bool = False) -> None:
        """Publish the description and the initial state.

        restarts  whether the run continues from a snapshot; if so, only the description is published
        """
        self.messages.publish("description", self.messages.description)
        if not restarts:
            self.publish_state()
            self.messages.notices()

    def step(self) -> None:
        """Apply the received commands, advance one time step, and publish the messages that are due."""
        sim, messages = self.simulation, self.messages
        self.commands.apply()
        if sim.tick >= self._pushes.next_end:
            self._pushes.end_due()
        try:
            sim.step(1)
        except SimulationDiverged as error:
            messages.publish("event", Event(kind="diverged", detail=error.line))
            raise
        self.commands.end_step()
        for change in sim.take_events():
            event = Event(kind=change.kind, energy=float(change.energy), part=change.part)
            event.source, event.target = change.source, change.target
            event.before, event.after = change.before.tolist(), change.after.tolist()
            messages.publish("event", event)
        if sim.notices:
            messages.notices()
        tick = sim.tick
        if tick % messages.poses_every == 0:
            messages.poses()
        if tick % messages.state_every == 0:  # last: controllers can reply while nothing else remains
            self._publish_state()
        elif self.milestones.pending:
            self.milestones.update(sim.time, sim.readings.position)

    def publish_state(self) -> None:
        """Publish the present state and poses."""
        self._publish_state()
        self.messages.poses()

    def _publish_state(self) -> None:
        self.messages.state()
        readings = self.simulation.readings
        drift = abs(readings.sums.item(2) - self._energy_at_start)
        if drift > self._energy_drift:
            self._energy_drift = drift
        if self.milestones.pending:
            self.milestones.update(self.simulation.time, readings.joint_motion[0].item)

    # -- services

    def push(self, **args: Any) -> None:
        """Apply an external force to a body for a given time, and publish an event about the force."""
        self.messages.events([self._pushes.push(**args)])

    def set_parameters(self, values: Mapping[str, float]) -> None:
        """Set tunable parameters, and publish an event about each change."""
        before = self.simulation.parameters
        self.simulation.set_parameters(dict(values))
        self.messages.events(changes("sim", before, self.simulation.parameters))

    def parameter_limits(self) -> dict[str, dict[str, Any]]:
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

    def begin_at(self, q: Any, v: Any) -> None:
        """Set the start of the run to the coordinates q and velocities v (n_q,), before `start`.

        Raises InvalidRequest with a one-line message for values of wrong size or that are not finite.
        """
        self.simulation.begin_at(q, v)
        self._clear(None)

    def reset(self) -> None:
        """Set the robot back to its start."""
        self.simulation.reset()
        self._pushes.restore()
        self._clear(None)
        self.messages.round_trips.times.clear()

    def snapshot(self) -> dict[str, Any]:
        """The whole state as plain data, for `restore`."""
        state = self.simulation.snapshot().to_plain()
        own = {"servos": self.actuation.servos.to_plain(), "pushes": self._pushes.to_plain()}
        return {**state, **own, "robot": self.name}

    def restore(self, state: Any) -> None:
        """Continue from a result of `snapshot`, without publishing anything.

        Raises ValueError with a one-line message for an invalid state. Nothing is then changed.
        """
        if not isinstance(state, dict):
            raise ValueError(
                "restore: the argument 'state' is missing or is not a table; pass a result of the service snapshot"
            )
        if (robot := state.get("robot", self.name)) != self.name:
            raise ValueError(
                f"restore: the snapshot is of robot {robot!r}, but this simulation is of robot {self.name!r}; "
                "pass a snapshot of the same robot"
            )
        self._put(state)
        self._clear(state.get("servos"))
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

    def _clear(self, servos: dict[str, Any] | None) -> None:
        """Discard commands, reached milestones and statistics after a reset, a restore or a restart.

        servos  state of the servos from a snapshot; None after a reset
        """
        self.commands.clear(self.simulation.snapshot().u, servos)  # a restored run continues with its efforts
        self.milestones.clear()
        self._energy_at_start = self.simulation.energy()
        self._energy_drift = 0.0

    # -- recorded runs

    def publish_snapshot(
        self, nodes: Mapping[str, bytes], waiting: Mapping[str, Sequence[EncodedMessage]], links: LinksState | None
    ) -> None:
        """Publish the state of the run, see `SimServer.publish_snapshot`."""
        server = self.run_state()
        topic = self.messages.topics["snapshot"]
        server["stamps"][topic] = self.messages.stamper.last.get(topic, 0) + 1
        tick = self.simulation.tick
        run = RunState(tick=tick, server=server, nodes=dict(nodes), waiting=waiting_plain(waiting), links=links)
        self.messages.publish("snapshot", Snapshot(tick=tick, data=run.encode()))

    def run_state(self) -> dict[str, Any]:
        """State of the robot as plain data, taken after the nodes have run and before the simulation advances."""
        too_large, commands = self.simulation.step_too_large, self.commands.to_plain()
        return {
            "simulation": self.simulation.snapshot().to_plain(),
            "step_too_large": None if too_large is None else dataclasses.asdict(too_large),
            "stamps": self.messages.stamper.last,
            "clock": commands["clock"],
            "energy": [self._energy_at_start, self._energy_drift],
            "actuation": commands["actuation"],
            "pushes": self._pushes.to_plain(),
            "emergency": commands["emergency"],
            "events": commands["events"],
            "milestones": self.milestones.to_plain(),
            "inbox": commands["inbox"],
        }

    def restart(self, state: Mapping[str, Any], stamps: bool) -> None:
        """Continue from `state`, a result of `run_state`, without publishing anything; see `SimServer.restart`."""
        self._put({**state["simulation"], "servos": state["actuation"]["servos"]})
        too_large = state["step_too_large"]
        self.simulation.step_too_large = None if too_large is None else StepTooLarge(**too_large)
        self.simulation.take_notices()
        self._clear(state["actuation"]["servos"])
        topic, messages = self.messages.topics["state"], self.messages
        if stamps:
            messages.stamper.resume(state["stamps"])
        messages.round_trips.seq = messages.stamper.last.get(topic, 0)
        self.commands.from_plain(state, 0 if stamps else state["stamps"].get(topic, 0))
        self._energy_at_start, self._energy_drift = state["energy"]
        self._pushes.restore(state.get("pushes"))
        self.milestones.from_plain(state["milestones"])

    def repeat(self, action: Event) -> None:
        """Repeat an action of a user in the recorded run.

        A recorded pause or resumption does not pause or resume this simulation; it is only published as an event.

        action  event that logged the action; its kind is one of ACTIONS
        """
        if action.kind == "push":
            given = msgspec.json.decode(action.new)
            if not any(given["force"]):
                del given["duration_s"]  # 0: the event logs the end of a push
            self.push(body=action.part, **given)
        elif action.kind == "set":
            self.set_parameters({action.key: msgspec.json.decode(action.new)})
        elif action.kind == "estop":
            self.commands.stop(action.new)
        elif action.kind == "estop_released":
            self.commands.release()
        else:
            self.messages.events([Event(kind=action.kind)])

    # -- status

    def status(self) -> dict[str, Any]:
        """Status of the simulation as plain data, in SI units."""
        simulation, ledger = self.simulation, self.simulation.energy_ledger
        phi, phidot = simulation.peak_violation()
        return {
            "constraint_mode": simulation.constraint_mode if simulation.system.mechanism.changes else None,
            **self.messages.round_trips.quantiles(),
            **self.actuation.status(),
            "peak_phi": phi,
            "peak_phidot": phidot,
            "substeps": simulation.substeps,
            "peak_solve_residual": simulation.peak_solve_residual(),
            "energy": simulation.energy(),
            "energy_drift": self._energy_drift,
            "milestones": dict(self.milestones.reached),
            "granted": sorted(self.commands.granted),
            "safe_since": self.commands.observed.safe_since if self.actuation.safe else None,
            "emergency_stop": self.commands.emergency,
            "step_too_large": too_large.line if (too_large := simulation.step_too_large) else "",
            "energy_departure": ledger.departed,
            "largest_departure": ledger.largest,
        }
