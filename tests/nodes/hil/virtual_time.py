"""A robot-in-the-loop run in virtual time: the real nodes, as processes that do not always run.

    verdicts = run(folder, stopped={"hardware": [(0.5, 0.6)]})

Each process handles its messages in order, one after the other, when it runs. Messages and round trips take a tenth of
a millisecond, and a process that is stopped finds them all when it goes on. Equal arguments give equal runs.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from nodes.framework.hosting.hosted import HostedNode
from nodes.framework.hosting.subscriptions import STALE_BACKLOG
from nodes.framework.hosting.timing.clock_asker import EVERY, PATIENCE, PERIOD_S, QUICK
from nodes.framework.messages import JointCommand, Message, PeerClock, RobotState
from nodes.framework.messages import Verdict as LiveVerdict
from nodes.framework.messages.codec import decode, encode
from nodes.framework.messages.stamp import MessageStamper
from nodes.framework.messages.topics import is_sampled
from nodes.framework.plan.files.file import load_plan
from nodes.framework.plan.launch_plan import NodePlan, Plan
from nodes.framework.plan.node_classes import load_class
from nodes.framework.recording.writer import RecordingWriter
from nodes.hil.emulation.plant import Plant, PlantPerturbation
from nodes.hil.report.reading import read_case
from nodes.hil.report.verdict import Compared, Verdict, limits_of
from nodes.node import Context, Node, Outgoing
from nodes.recorder import run_metadata

PLAN = Path(__file__).resolve().parents[3] / "launch/hil_two_computers.toml"
EPOCH_NS = 1_790_000_000 * 10**9
START_S = 1.0  # the first time step of the simulation
HANDLING_S = 4e-5  # time to handle a message
STEPPING_S = 5e-5  # time of a time step of the server
LOCAL_S, LINK_S = 6e-5, 1.2e-4  # least travel times of a message, on one computer and between two

Stops = Mapping[str, Sequence[tuple[float, float]]]  # (start, end) of each stop of a process, s after START_S


class World:
    """Time, and what happens when."""

    def __init__(self, seed: int) -> None:
        self.now = 0.0
        self.random = np.random.default_rng(seed)
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0

    def at(self, time: float, do: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._events, (max(time, self.now), self._count, do))

    def run(self, until: float) -> None:
        while self._events and self._events[0][0] <= until:
            self.now, _, do = heapq.heappop(self._events)
            do()


class Process:
    """A process that handles what came from each sender in turn; `now` is the time that it has reached."""

    host = "desk"

    def __init__(self, world: World, name: str, stops: Stops) -> None:
        self.world, self.name, self.now = world, name, 0.0
        self.stops = sorted((start + START_S, end + START_S) for start, end in stops.get(name, ()))
        self._inbox: dict[str, deque[tuple[float, Any]]] = {}
        self._awake = False

    def post(self, time: float, sender: str, item: Any) -> None:
        self._inbox.setdefault(sender, deque()).append((time, item))
        self.wake(time)

    def wake(self, time: float) -> None:
        if not self._awake:
            self._awake = True
            self.world.at(time + self.world.random.exponential(5e-5), self._turn)

    def goes_on(self, time: float) -> float:
        """The first time from `time` on at which the process is not stopped."""
        for start, end in self.stops:
            if start <= time < end:
                time = end
        return time

    def work(self, duration: float) -> None:
        self.now = self.goes_on(self.now + duration)

    def come(self, sender: str) -> Iterator[Any]:
        """What has come from a sender; of a long backlog only the latest states, as over sockets."""
        queue, items = self._inbox[sender], []
        while queue and queue[0][0] <= self.world.now:
            items.append(queue.popleft()[1])
        if len(items) > STALE_BACKLOG + 1:
            last = {item[0]: index for index, item in enumerate(items)}
            items = [each for index, each in enumerate(items) if index == last[each[0]] or not _is_stale(each[0])]
        yield from items

    def _turn(self) -> None:
        time = self.goes_on(max(self.world.now, self.now))
        if time > self.world.now:
            self.world.at(time, self._turn)
            return
        self._awake, self.now = False, self.world.now
        for sender in list(self._inbox):
            for item in self.come(sender):
                self.handle(item)
                self.work(HANDLING_S)
        self.after()
        if waiting := [queue[0][0] for queue in self._inbox.values() if queue]:
            self.wake(max(min(waiting), self.now))

    def handle(self, item: Any) -> None:
        raise NotImplementedError

    def after(self) -> None:
        """Called once the messages are handled."""


def _is_stale(topic: Any) -> bool:
    return isinstance(topic, str) and is_sampled(topic)


class Network:
    """Carries messages between processes, in the order of their sending."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.processes: dict[str, Process] = {}
        self._last: dict[tuple[str, str], float] = {}

    def arrival(self, sender: Process, receiver: Process, time: float) -> float:
        least = LOCAL_S if sender.host == receiver.host else LINK_S
        way = sender.name, receiver.name
        self._last[way] = max(time + least + self.world.random.exponential(least / 2), self._last.get(way, 0.0))
        return self._last[way]

    def publish(self, sender: Process, topic: str, payload: bytes) -> None:
        for receiver in self.processes.values():
            if receiver is not sender and receiver_wants(receiver, topic):
                receiver.post(self.arrival(sender, receiver, sender.now), sender.name, (topic, payload))


def receiver_wants(receiver: Process, topic: str) -> bool:
    if isinstance(receiver, NodeProcess):
        return receiver.hosted.subscribes_to(topic)
    return topic.endswith("/command") if isinstance(receiver, Server) else isinstance(receiver, Recorded)


class Server(Process):
    """The simulation server: it skips the deadlines that it misses."""

    def __init__(self, network: Network, plan: Plan, stops: Stops) -> None:
        super().__init__(network.world, "sim", stops)
        self._network, self._plan, self._deadline = network, plan, START_S
        self._plant, self._stamper = Plant(plan.sim, PlantPerturbation()), MessageStamper(True, self.clock_ns)
        self._every = round(1.0 / ((plan.sim.rate_hz or 1e3) * plan.sim.step_s))
        self.end = math.inf

    def clock_ns(self) -> int:
        return EPOCH_NS + round(1e9 * self.now)

    def start(self) -> None:
        self.now = self.world.now
        self._publish()
        self.world.at(self._deadline, self._step)

    def handle(self, item: Any) -> None:
        if isinstance(item, RoundTrip):
            item.answer(self)
            return
        command = decode(item[0], item[1], JointCommand)
        self._plant.command(command.mode, command.name, command.value)

    def _step(self) -> None:
        step_s, time = self._plan.sim.step_s, self.goes_on(self.world.now)
        if time > self.world.now:
            self.world.at(time, self._step)
            return
        self.now = self.world.now
        for sender in list(self._inbox):
            for item in self.come(sender):
                self.handle(item)
        self._deadline += step_s * max(math.floor((self.now - self._deadline) / step_s), 0)
        self._plant.step()
        self.work(STEPPING_S)
        if self._plant.tick % self._every == 0:
            self._publish()
        self._deadline += step_s
        if self._plant.tick * step_s < self._plan.duration_s - 1e-9:
            self.world.at(max(self._deadline + self.world.random.exponential(5e-5), self.now), self._step)
        else:
            self.end = self.now

    def _publish(self) -> None:
        plant, topic = self._plant, f"{self._plan.sim.robot_name}/state"
        rows = (plant.position.tolist(), plant.velocity.tolist(), plant.effort.tolist())
        state = RobotState(timestamp=plant.tick * plant.step_s, name=plant.names)
        state.position, state.velocity, state.effort = rows
        self._stamper.stamp(topic, state)
        self._network.publish(self, topic, encode(state))


class NodeProcess(Process):
    """A node as its runner calls it."""

    def __init__(self, network: Network, plan: Plan, node_plan: NodePlan, node: Node, stops: Stops) -> None:
        super().__init__(network.world, node_plan.name, stops)
        self.host, self._network, self._started = node_plan.host or "desk", network, False
        self._is_due = False
        out = lambda topic, payload: network.publish(self, topic, payload)  # noqa: E731
        self.hosted = HostedNode(node, plan, node_plan, out, True, plan, self.clock_ns)
        self.trips: RoundTrips | None = None

    def clock_ns(self) -> int:
        now_ns = EPOCH_NS + round(1e9 * self.now)
        return self.hosted.node.clock_ns(now_ns) if self._started else now_ns

    def start(self) -> None:
        self._started = True
        self.hosted.start()
        if self.hosted.node.rate_hz is not None:
            self._expire(1.0 / self.hosted.node.rate_hz)

    def _expire(self, period_s: float) -> None:
        self._is_due = True
        self.wake(self.world.now)
        self.world.at(self.world.now + period_s, lambda: self._expire(period_s))

    def handle(self, item: Any) -> None:
        if isinstance(item, RoundTrip):
            if item.peer == self.name and not item.received_ns:
                item.answer(self)
            elif (reading := item.reading(self)) is not None:
                self.hosted.receive_clock(reading)
            return
        topic, payload = item
        self.hosted.receive(topic, decode(topic, payload, self.hosted.subscriptions[topic][1]))

    def after(self) -> None:
        if self._is_due:
            self._is_due = False
            own = self.hosted.context.clock
            self.hosted.tick(1e-9 * self.clock_ns() if own else self.now)
        if self.trips is not None:
            self.trips.ask()


@dataclass
class RoundTrip:
    """A request for the clock of `peer`, and its reply."""

    trips: RoundTrips
    peer: str
    number: int
    asked: float
    received_ns: int = 0
    answered_ns: int = 0

    def answer(self, process: Server | NodeProcess) -> None:
        asker, network = self.trips.owner, self.trips.network
        self.received_ns, self.answered_ns = process.clock_ns(), process.clock_ns()
        asker.post(network.arrival(process, asker, process.now), f"{self.peer} replies", self)

    def reading(self, asker: NodeProcess) -> PeerClock | None:
        """The round trip as the asker measured it; None if it was given up."""
        asked_ns, heard_ns = (EPOCH_NS + round(1e9 * each) for each in (self.asked, asker.now))
        way_s = 1e-9 * ((heard_ns - asked_ns) - (self.answered_ns - self.received_ns))
        if not self.trips.end(self) or way_s < 0.0:
            return None
        return PeerClock(
            asker=asker.name,
            peer=self.peer,
            asked_ns=asked_ns,
            received_ns=self.received_ns,
            answered_ns=self.answered_ns,
            heard_ns=heard_ns,
            round_trip_s=way_s,
        )


class RoundTrips:
    """The round trips of the comparison to other clocks, as `ClockAsker` makes them."""

    def __init__(self, network: Network, owner: NodeProcess, peers: Sequence[str]) -> None:
        self.network, self.owner, self._is_due = network, owner, False
        self._waits, self._made, self._number = (dict.fromkeys(peers, 0) for _ in range(3))
        owner.trips = self

    def start(self) -> None:
        self._is_due = True
        self.owner.wake(self.network.world.now)
        self.network.world.at(self.network.world.now + PERIOD_S, self.start)

    def ask(self) -> None:
        if not self._is_due:
            return
        self._is_due = False
        for peer in self._waits:
            self._waits[peer] -= 1
            if self._waits[peer] > 0:
                continue
            self._waits[peer] = PATIENCE
            self._number[peer] += 1
            process = self.network.processes[peer]
            trip = RoundTrip(self, peer, self._number[peer], self.owner.now)
            process.post(self.network.arrival(self.owner, process, self.owner.now), "clock requests", trip)

    def end(self, trip: RoundTrip) -> bool:
        if trip.number != self._number[trip.peer]:
            return False
        self._made[trip.peer] += 1
        self._waits[trip.peer] = 1 if self._made[trip.peer] < QUICK else EVERY
        return True


class Recorded(Process):
    """The recorder, which keeps all messages."""

    def __init__(self, world: World, stops: Stops) -> None:
        super().__init__(world, "recorder", stops)
        self.rows: list[tuple[str, Message]] = []

    def handle(self, item: Any) -> None:
        self.rows.append((item[0], decode(*item)))

    def write(self, path: Path, context: Context) -> None:
        writer, time = RecordingWriter(path, run_metadata(context), sidecar=None), 0.0
        for topic, message in self.rows:
            has_own_clock = bool(getattr(message, "clock", ""))
            if isinstance(message, RobotState) and not has_own_clock:
                time = message.timestamp
            writer.write(topic, message, time if has_own_clock else message.timestamp)
        writer.close()


class Board(Process):
    """Motor controllers of a robot whose motion goes on in real time, also while they do not run."""

    host = "robot"

    def __init__(self, world: World, plan: Plan, differences: PlantPerturbation, stops: Stops) -> None:
        super().__init__(world, "board", stops)
        self._plant = Plant(plan.sim, differences)

    def handle(self, item: Any) -> None:
        while self._plant.tick * self._plant.step_s < self.now - START_S - 1e-9:
            self._plant.step()
        plant = self._plant
        if isinstance(item[1], JointCommand):
            plant.command(item[1].mode, item[1].name, item[1].value)
        else:
            rows = {"position": plant.position, "velocity": plant.velocity, "effort": plant.effort}
            item[1].append((self.now + LOCAL_S, {key: row.tolist() for key, row in rows.items()}))


class Driver(Node):
    """A driver like launch/examples/my_driver.py, which polls a Board."""

    subscribes = {"command": JointCommand}
    publishes = {"measured_state": RobotState, "applied_command": JointCommand}
    rate_hz = 500.0
    has_own_clock = True
    board: Board
    process: NodeProcess

    def on_start(self, context: Context) -> Outgoing:
        self._clock, self._names = context.clock, Plant(context.sim, PlantPerturbation()).names
        self._waiting: list[JointCommand] = []
        self._answers: deque[tuple[float, dict[str, list[float]]]] = deque()
        return None

    def on_message(self, name: str, message: Message) -> Outgoing:
        assert isinstance(message, JointCommand)
        self._waiting.append(message)
        return None

    def on_tick(self, now: float) -> Iterator[tuple[str, Message]]:
        time = self.process.now
        for command in self._waiting:
            self.board.post(time + LOCAL_S, "driver", ("command", command))
            yield "applied_command", msgspec.structs.replace(command, timestamp=now, clock=self._clock)
        self._waiting = []
        self.board.post(time + LOCAL_S, "driver", ("ask", self._answers))
        while self._answers and self._answers[0][0] <= time:
            rows = self._answers.popleft()[1]
            yield "measured_state", RobotState(timestamp=now, clock=self._clock, name=self._names, **rows)


@dataclass(frozen=True)
class Verdicts:
    """The verdict at the end of the run, and that of the report on its recording."""

    live: LiveVerdict
    report: Verdict


def run(
    folder: Path,
    *settings: str,
    stopped: Stops | None = None,
    seed: int = 0,
    duration_s: float = 3.2,
    has_driver: bool = False,
) -> Verdicts:
    """A run of launch/hil_two_computers.toml.

    settings    changes of the launch file, such as "hardware.mass.link_10=0.05"
    stopped     stops of the processes: of "sim", of a node, and of "board", the motor controllers behind a driver
    has_driver  whether the robot moves in real time behind a Driver; if not, nodes/hardware.py emulates it
    """
    plan = load_plan(PLAN, [*settings, f"seed={seed + 1}"])
    plan.duration_s = duration_s
    world, stops = World(seed), stopped or {}
    network = Network(world)
    processes = network.processes
    server = processes["sim"] = Server(network, plan, stops)
    recorded = processes["recorder"] = Recorded(world, stops)
    for node_plan in plan.nodes:
        if node_plan.name == "recorder":
            continue
        node = load_class(node_plan.run, plan.folder)()
        if node_plan.name == "hardware" and has_driver:
            differences = {key: node_plan.params[key] for key in ("mass", "friction") if key in node_plan.params}
            node, node_plan = Driver(), msgspec.structs.replace(node_plan, params={})
            node.board = Board(world, plan, msgspec.convert(differences, PlantPerturbation), stops)
        made = processes[node_plan.name] = NodeProcess(network, plan, node_plan, node, stops)
        if isinstance(node, Driver):
            node.process = made
    nodes = {name: each for name, each in processes.items() if isinstance(each, NodeProcess)}
    for each in nodes.values():
        each.start()
    world.at(0.3, RoundTrips(network, nodes["compare"], ["sim", "hardware"]).start)
    world.at(START_S - 0.5, server.start)
    while server.end == math.inf:
        world.run(world.now + 0.25)
    world.run(max([server.end, *(end for each in processes.values() for _, end in each.stops)]) + 0.1)
    live, path = nodes["compare"].hosted.verdict, folder / "run.mcap"
    assert live is not None
    with suppress(FileNotFoundError):
        path.unlink()
    recorded.write(path, nodes["compare"].hosted.context)
    case = read_case(path, None)
    return Verdicts(live, Compared(case, limits_of(case, {})).verdict)
