"""Replay: feeds a recorded run to one node without sockets, and compares its messages with the recorded ones.

A lockstep recording has every message in the order of the run, so that its schedule can be run again: the node runs at
the same ticks and receives the same messages. In the modes realtime and fast, the order in which the node received
messages was not recorded; the replay uses the order of the file, or another order that explains the recorded replies
(module `stream`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from nodes.framework.hosting.hosted import HostedNode
from nodes.framework.hosting.outgoing import EncodedMessage, Out, topic_of
from nodes.framework.messages import Description, Event, JointCommand, Message, Snapshot
from nodes.framework.messages.codec import AnyMessage, decode, encode
from nodes.framework.messages.topics import resolve
from nodes.framework.plan.key_checks import PlanError, convert, suggestion
from nodes.framework.plan.launch_plan import LinkPlan, NodePlan, Plan, SimPlan
from nodes.framework.plan.node_classes import load_class
from nodes.framework.recording.reader import RecordingError, RecordingFile
from nodes.framework.recording.runs import PUT_BACK
from nodes.framework.recording.schema import DECODE_ERRORS, decode_json, encode_json, schema_name
from nodes.framework.recording.sidecar import folders_of
from nodes.framework.simulation.links import links_of
from nodes.framework.simulation.lockstep import LocalPort, Port, Scheduler
from nodes.framework.simulation.replay.comparison import Line, Outcome, Tolerances, compare, differences
from nodes.framework.simulation.replay.stream import CROSSING_S, Stream
from nodes.framework.simulation.restart.snapshots import NEVER, LinksState
from nodes.node import Node
from robots.files import located_if_there, with_located_corrections

if TYPE_CHECKING:
    from nodes.framework.simulation.commands import CommandHandler

LONGEST_GAP = 10_000_000  # most ticks between two messages
LAST = 64  # number of messages at the end of a recording that may belong to its last tick
SERVER = ("description", "state", "body_poses", "lines", "event")

# -- the recording


def read_lines(path: Path) -> tuple[list[Line], dict[str, str]]:
    """(messages in file order, metadata) of a recording. Those of topics outside the topic table are an `AnyMessage`.

    Raises RecordingError if messages are missing before the end, because each missing message would count as a
    difference. The last instants of a truncated recording are left out, because some of their messages may be missing.
    """
    file = RecordingFile(path)
    lines = []
    for recorded in file:
        message = recorded.message()
        if message is None and recorded.schema == schema_name(AnyMessage):
            message = decode(recorded.topic, msgspec.msgpack.encode(recorded.plain()))
        if message is not None and not isinstance(message, Snapshot):
            lines.append(Line(recorded.topic, message, recorded.time_ns / 1e9))
    file.require_no_hole("replayed")
    if file.cut_off:
        last = max((line.time for line in lines[-LAST:] if "/" in line.topic), default=0.0)
        lines = [line for line in lines if line.time < last - CROSSING_S]
    return lines, file.metadata


def plan_of(metadata: Mapping[str, str], path: Path) -> Plan:
    """The plan with which the recording was made. Raises PlanError for a recording without a readable plan."""
    if "plan" not in metadata:
        raise PlanError(f"{path} contains no plan, which a replay needs; replay a recording that was made in a launch")
    try:
        plain = msgspec.json.decode(metadata["plan"], type=dict[str, Any])
        plain["sim"] = sim = convert(plain.get("sim", {}), SimPlan, f"{path}: plan")
        folders = folders_of(path)
        sim.robot = located_if_there(sim.robot, *folders)
        sim.parameters = with_located_corrections(sim.parameters, *folders)
        plain["nodes"] = [convert(node, NodePlan, f"{path}: plan") for node in plain.get("nodes", [])]
        plain.pop("milestones", None)
        return convert(plain, Plan, f"{path}: plan")
    except msgspec.DecodeError as error:
        raise PlanError(f"{path}: the recorded plan cannot be read: {error}") from None


def node_of(plan: Plan, run: str, name: str | None, params: Mapping[str, Any]) -> NodePlan:
    """Plan of the node to replay: a node of the recorded plan, whose class is replaced by the node class `run`.

    The node is the one called `name` or, if `name` is None, the only node whose class has the same name as the class in
    `run`. The result has the recorded parameters, except those given in `params`. Raises PlanError if there is no such
    node, or if there are several.
    """
    there = [node.name for node in plan.nodes]
    if name is not None:
        chosen = plan.node(name)
    else:
        wanted = run.rpartition(":")[2]
        same = [node for node in plan.nodes if node.run.rpartition(":")[2] == wanted]
        if len(same) != 1:
            if not there:
                raise PlanError(
                    f"the recorded plan has no nodes that {run!r} could replace; give the recording of a run with nodes"
                )
            many = "no node" if not same else f"{len(same)} nodes"
            raise PlanError(
                f"the recorded plan has {many} of the class {wanted!r}; use --as NAME to say which node is replaced"
                f"{suggestion(wanted, there)}"
            )
        chosen = same[0]
    return NodePlan(name=chosen.name, run=run, decimation=chosen.decimation, params={**chosen.params, **params})


# -- the replay


@dataclass(frozen=True)
class ReplayStart:
    """Point of a lockstep recording at which a replay begins, in the recording's last run.

    tick       first tick at which the node runs
    compare_s  time of the first messages that are compared, s
    state      state of the node before it first runs, see `snapshot_of`; b"" for a node that starts without
               recorded state
    waiting    messages that the node receives when it first runs
    links      state of the communication links, with the delayed messages to the node; None for a run without links
    """

    tick: int
    compare_s: float
    state: bytes = b""
    waiting: Sequence[EncodedMessage] = ()
    links: LinksState | None = None


def replay(
    lines: Sequence[Line],
    plan: Plan,
    node_plan: NodePlan,
    tolerances: Tolerances,
    start: ReplayStart | None = None,
) -> Outcome:
    """Feed the recorded run to a node and compare its messages with the recorded ones.

    Raises PlanError if the run cannot be replayed.

    start  point of a lockstep recording at which to begin; None for the beginning
    """
    cls: type[Node] = load_class(node_plan.run, Path.cwd())
    mode = plan.sim.mode
    topics = {resolve(name, plan.sim.robot_name) for name in cls.publishes}
    lines = _typed(lines, {**cls.subscribes, **cls.publishes}, plan.sim.robot_name)
    if not topics:
        raise PlanError(
            f"node {node_plan.name!r} publishes no topic, so there is nothing to compare; replay another node"
        )
    own = {_source(line) for line in lines if line.topic in topics}
    if not own:
        raise PlanError(
            f"the recording has no message on the topics that {cls.__name__} publishes "
            f"({', '.join(sorted(topics))}); replay a node whose messages were recorded"
        )
    if mode != "lockstep" and cls.rate_hz is not None:
        raise PlanError(
            f"{cls.__name__} is called by its own timer (rate_hz = {cls.rate_hz:g}), and a recording in mode {mode!r} "
            "does not contain the times of these calls; record the run in mode 'lockstep' to replay this node"
        )
    outcome = Outcome(node=node_plan.name, run=node_plan.run, mode=mode)
    if len(own) > len({topic for topic, _ in own}):  # other nodes command too: a first run shows which are this node's
        own = {_source(line) for line in _replayed(lines, own, plan, HostedNode(cls(), plan, node_plan, _nobody), None)}
    hosted = HostedNode(cls(), plan, node_plan, _nobody, wall_clock=False)
    if start is not None:
        replayed = _in_lockstep(_from(lines, start.tick, plan), own, plan, hosted, start)
        lines, replayed = ([line for line in each if line.time >= start.compare_s] for each in (lines, replayed))
        lines = _from(lines, start.tick, plan)
    else:
        replayed = _replayed(lines, own, plan, hosted, tolerances, outcome)
    outcome.heard = sum(hosted.subscribes_to(line.topic) and _source(line) not in own for line in lines)
    outcome.refused = hosted.messages.refusals.count
    compare([line for line in lines if _source(line) in own], replayed, outcome, tolerances, strict=mode == "lockstep")
    return outcome


def _typed(lines: Sequence[Line], kinds: Mapping[str, type[Message]], robot: str) -> list[Line]:
    """The lines, with messages of the node's own types where the recording has an `AnyMessage`.

    Messages of other nodes' own types are left out.

    kinds  {topic, as the node declares it: message type}
    """
    known = {resolve(name, robot): kind for name, kind in kinds.items() if name != "*"}
    found = []
    for line in lines:
        if not isinstance(line.message, AnyMessage):
            found.append(line)
        elif (kind := known.get(line.topic)) is not None:
            try:
                found.append(Line(line.topic, decode_json(kind, encode_json(line.message)), line.time))
            except DECODE_ERRORS as error:
                raise PlanError(
                    f"{line.topic}: the message at t = {line.time:.6g} s is no {kind.__name__}: {error}"
                ) from None
    return found


Source = tuple[str, tuple[str, ...]]  # topic and, for commands, their actuators: several nodes may command


def _source(line: Line) -> Source:
    return line.topic, tuple(line.message.name) if isinstance(line.message, JointCommand) else ()


def _replayed(
    lines: Sequence[Line],
    own: set[Source],
    plan: Plan,
    hosted: HostedNode,
    tolerances: Tolerances | None,
    outcome: Outcome | None = None,
) -> list[Line]:
    """Messages that the node publishes in the replay. For a run outside lockstep, also sets `outcome.crossed`.

    lines       recorded messages, in the file's order
    own         (topic, commanded actuators) of the node's own messages, which the node does not receive
    tolerances  permitted differences from the recorded messages. In a run outside lockstep, the order of the received
                messages is chosen such that the node's messages agree within these tolerances. If `tolerances` is None,
                the order is that of the file
    """
    if plan.sim.mode == "lockstep":
        return _in_lockstep(lines, own, plan, hosted)
    commands: dict[int, Line] = {}  # by the seq of the state that they answer
    for line in lines if tolerances is not None else ():
        if _source(line) in own and isinstance(line.message, JointCommand) and line.message.state_seq is not None:
            commands[line.message.state_seq] = line
    known = tolerances or Tolerances()
    stream = Stream(hosted, commands, lambda old, new: not any(differences(old, new, known)))
    stream.feed(line for line in lines if _source(line) not in own and "/" in line.topic)
    if outcome is not None:
        outcome.crossed = stream.crossed
    return stream.published


def _nobody(_topic: str, _payload: bytes) -> None:
    """Discard a message: the initial `out` function of a node, until another function is set."""


@dataclass
class _Tick:
    """Recorded messages of one tick.

    server  messages that the server published before the nodes ran
    others  {name of a port: recorded messages that this port returns when it runs}, for ports that stand in for the
            nodes other than the replayed node
    turns   whether the nodes ran at this tick; false if the run ended or was reset before the nodes ran
    jump    whether the simulation was reset or restored at this tick, so that queued messages are dropped
    """

    tick: int
    turns: bool = False
    jump: bool = False
    server: list[EncodedMessage] = field(default_factory=list)
    others: dict[str, list[EncodedMessage]] = field(default_factory=dict)


class _Recorded:
    """Substitute for the simulation server in the scheduler: each call of `step` publishes the server's recorded
    messages of one tick. It ignores commands, because their effect is in the recording, and takes no snapshots.
    """

    commands: Mapping[str, CommandHandler] = {}

    def __init__(self, step_s: float) -> None:
        self.out: Out = _nobody
        self.tick = 0
        self._step_s = step_s
        self.next: list[EncodedMessage] = []

    @property
    def time(self) -> float:
        """Simulation time, s."""
        return self.tick * self._step_s

    def next_snapshot(self, tick: int) -> int:
        """A tick that is never reached."""
        return NEVER

    def publish_snapshot(
        self, nodes: Mapping[str, bytes], waiting: Mapping[str, Sequence[EncodedMessage]], links: LinksState | None
    ) -> None:
        """Does nothing."""

    def step(self) -> None:
        """Publish the server's messages of this tick."""
        for topic, payload in self.next:
            self.out(topic, payload)


class _Others:
    """Port that stands in for nodes other than the replayed one and returns their recorded messages."""

    lossless = False
    publishes = True

    def __init__(self, name: str, decimation: int = 1) -> None:
        self.name, self.decimation = name, decimation
        self.state = b""
        self.next: list[EncodedMessage] = []

    def subscribes_to(self, topic: str) -> bool:
        """Always false: the recorded nodes receive no messages."""
        return False

    def turn(self, now: float, incoming: Sequence[EncodedMessage], kind: str = "") -> list[EncodedMessage]:
        """The recorded messages of this tick; `incoming`, the messages to the replayed node, are not used."""
        return self.next

    def restore(self, now: float, state: bytes, latched: Sequence[EncodedMessage], stamps: bool) -> None:
        """Does nothing: the recorded nodes have no state that could be restored."""

    def settle(self) -> list[EncodedMessage]:
        """Returns no messages, as no reply is ever pending."""
        return []


def _from(lines: Sequence[Line], first: int, plan: Plan) -> list[Line]:
    """The robot descriptions, then the recorded messages of the last run from the tick `first` on."""
    latched = [line for line in lines if isinstance(line.message, Description)]
    found: list[Line] = []
    now = 0
    for line in lines:
        tick = round(line.time / plan.sim.step_s)
        if isinstance(line.message, Event) and line.message.kind in PUT_BACK:
            now, found = tick, []
        now = max(now, tick)
        if now >= first and "/" in line.topic and line not in latched:
            found.append(line)
    return latched + found


def _in_lockstep(
    lines: Sequence[Line], own: set[Source], plan: Plan, hosted: HostedNode, start: ReplayStart | None = None
) -> list[Line]:
    server, mine, links = _Recorded(plan.sim.step_s), LocalPort(hosted), links_of(plan)
    if links is None:
        later = _later(lines, own, plan.sim.robot_name)
        others = [_Others("before"), _Others("after")]
        ports: list[Port] = [others[0], mine, others[1]]
    else:
        publishers = _publishers(plan, hosted)
        others = [_Others(node.name, node.decimation) for node in plan.nodes if node.name != hosted.name]
        order = [node.name for node in plan.nodes]
        ports = sorted([*others, mine], key=lambda port: order.index(port.name))

    def port_of(line: Line) -> str:
        if links is None:
            return "after" if _source(line) in later else "before"
        return publishers.get(line.topic, "")

    scheduler = Scheduler(server, ports, links=links)
    kinds = dict(hosted.messages.publishes.values())
    replayed: list[Line] = []
    pass_on = hosted.messages.out

    def take(topic: str, payload: bytes) -> None:
        if topic != hosted.messages.plot_topic:
            message = decode(topic, payload, kinds[topic])
            replayed.append(Line(topic, message, message.timestamp))
        pass_on(topic, payload)

    hosted.messages.out = take
    hosted.start()
    first = 0
    if start is not None:
        first, latched = start.tick, [line for line in lines if isinstance(line.message, Description)]
        lines = lines[len(latched) :]
        encoded = [(line.topic, encode(line.message, line.topic)) for line in latched]
        if start.state:
            mine.restore(0.0, start.state, encoded, stamps=True)
            replayed.clear()
        scheduler.give(hosted.name, start.waiting if start.state else encoded)
        if start.links is not None:
            scheduler.put_on_the_way(start.links)
    for now in _ticks(lines, own, plan, port_of, first):
        if now.jump:
            scheduler.forget()
        server.tick, server.next = now.tick, now.server
        server.step()
        if now.turns:
            server.next = []
            for other in others:
                other.next = now.others.get(other.name, [])
            scheduler.step()
    return replayed


def _publishers(plan: Plan, hosted: HostedNode) -> dict[str, str]:
    """{topic: name of the node that publishes it}, for the topics that the replayed node receives.

    The publisher of each message must be known, because losses and delays are drawn per pair of nodes. Raises PlanError
    if several nodes publish one of these topics. Raises PlanError also if a recorder has the key `link`: its recording
    has lost messages, or has them later than the replayed node received them.
    """
    found: dict[str, str] = {}
    for node in plan.nodes:
        cls = load_class(node.run, plan.folder or Path.cwd())
        if cls.lossless and node.link != LinkPlan():
            raise PlanError(
                f"recorder {node.name!r} had a link, which delays or loses messages; "
                "record again without a link for this node"
            )
        if node.name == hosted.name:
            continue
        for name in cls.publishes:
            topic = topic_of(name, remap=node.remap, robot=plan.sim.robot_name)
            if hosted.subscribes_to(topic) and found.setdefault(topic, node.name) != node.name:
                raise PlanError(
                    f"both {found[topic]!r} and {node.name!r} publish {topic}, and the recording does not say which of "
                    "them published a message; to replay a run with communication links, let one node publish it"
                )
    return found


def _ticks(
    lines: Sequence[Line], own: set[Source], plan: Plan, port_of: Callable[[Line], str], first: int = 0
) -> Iterator[_Tick]:
    """Yield the recorded run tick by tick, from the tick `first` on.

    own      (topic, commanded actuators) of the replayed node's own messages, which are left out
    port_of  function that returns the name of the port that publishes a given message in the replay
    """
    served = {f"{plan.sim.robot_name}/{name}" for name in SERVER}
    step_s = plan.sim.step_s
    now = _Tick(first)
    for line in lines:
        if "/" not in line.topic:  # topics without a robot, such as status, are not scheduled
            continue
        from_server = line.topic in served
        tick = round(line.time / step_s)
        jump = isinstance(line.message, Event) and line.message.kind in PUT_BACK
        jump = jump or (from_server and tick < now.tick)  # the server was restarted
        if jump:
            yield now
            now = _Tick(tick, jump=True)
        elif tick > now.tick:
            if tick - now.tick > LONGEST_GAP:
                raise RecordingError(
                    f"the recording has no message from t = {now.tick * step_s:g} to {tick * step_s:g} s; it does not "
                    "contain a whole lockstep run, and cannot be replayed"
                )
            now.turns = True
            yield now
            yield from (_Tick(between, turns=True) for between in range(now.tick + 1, tick))
            now = _Tick(tick)
        if not from_server:
            now.turns = True
        if _source(line) not in own:
            part = now.server if from_server else now.others.setdefault(port_of(line), [])
            part.append((line.topic, encode(line.message, line.topic)))
    now.turns = any(_source(line) in own and round(line.time / step_s) == now.tick for line in lines[-LAST:])
    yield now


def _later(lines: Sequence[Line], own: set[Source], robot: str) -> set[Source]:
    """(topic, commanded actuators) of the messages of nodes that run after the replayed node in a tick.

    The order of the recorded messages within the ticks shows which nodes run after the replayed node.

    own  (topic, commanded actuators) of the replayed node's own messages
    """
    later: set[Source] = set()
    we_spoke = False
    for line in lines:
        if line.topic in (f"{robot}/{name}" for name in SERVER):
            we_spoke = False
        elif _source(line) in own:
            we_spoke = True
        elif we_spoke and "/" in line.topic:
            later.add(_source(line))
    return later
