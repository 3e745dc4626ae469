"""Delay, jitter and loss of messages to and from each node, measured from the recording of a run in real time.

Delay and jitter follow from the round trips to the node's clock (topic `clock`): four time stamps give the durations of
request and reply. The loss follows from gaps in the sequence numbers of messages to and from the node. Delay, jitter
and loss of a node are called its link (key `link` of the node in a launch file).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from nodes.framework.hosting.outgoing import topic_of
from nodes.framework.messages import PeerClock, Status
from nodes.framework.messages.topics import lookup
from nodes.framework.plan.key_checks import PlanError
from nodes.framework.plan.launch_plan import LOCAL, LinkPlan, NodePlan, Plan
from nodes.framework.plan.node_classes import load_class
from nodes.framework.recording.reader import RecordingError, RecordingFile
from nodes.framework.recording.schema import schema_name
from nodes.hil.clocks.recorded import CLOCK_TOPIC
from nodes.node import Node

Floats = NDArray[np.float64]

SERVER = "sim"
FEWEST = 20  # smallest number of round trips from which a link is measured
FEWEST_OF_A_CLOCK = 5  # smallest number of round trips used between two jumps of the clock
OUTLIER = 6.0  # multiple of the median distance from the line; points farther away are left out
LOW, HIGH = 0.05, 0.95  # quantiles that determine delay and jitter
GRID = 501  # number of points at which distribution functions are computed
WIDEST = 100.0  # largest jitter as a multiple of the spread of the measured times


class Recorded:
    """The data of a recording from which the links of its nodes are measured.

    server        host of the simulation server
    hosts         {node: its host}
    round_trips   {(asker, peer): (stamps, steps)}, time stamps of the round trips and number of clock jumps before each
                  round trip, see `ways_of`
    gaps          {topic: [number of messages recorded, number of messages missing between them]}
    counters      {node: its counters in its latest status}
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        file = RecordingFile(path)
        rows: defaultdict[tuple[str, str], list[PeerClock]] = defaultdict(list)
        self.gaps: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])
        self.counters: dict[str, dict[str, int]] = {}
        latest: dict[str, int] = {}
        for each in file:
            if each.topic == CLOCK_TOPIC and isinstance(reading := each.message(), PeerClock):
                rows[reading.asker, reading.peer].append(reading)
            elif each.schema == schema_name(Status) and isinstance(status := each.message(), Status):
                self.counters[status.node] = status.counters
            elif (row := lookup(each.topic)) is None or not row.latched:
                seq, last = each.seq, latest.get(each.topic)
                if last is None or seq != last:
                    found = self.gaps[each.topic]
                    found[0] += 1
                    found[1] += max(seq - last - 1, 0) if last is not None else 0
                    latest[each.topic] = seq
        file.require_no_hole("measured")
        plan = _plan_in(file)
        sim = plan.get("sim", {})
        if sim.get("mode") != "realtime":
            raise PlanError(
                f"{path} was recorded in mode {sim.get('mode')!r}, in which the network delays no messages; give "
                "the recording of a run in mode 'realtime'"
            )
        self.server = str(sim.get("host", LOCAL))
        self.hosts = {str(node.get("name")): str(node.get("host", LOCAL)) for node in plan.get("nodes", [])}
        self.round_trips = {
            pair: (
                np.array([(r.asked_ns, r.received_ns, r.answered_ns, r.heard_ns) for r in readings], dtype=np.int64),
                np.array([r.steps for r in readings], dtype=np.int64),
            )
            for pair, readings in rows.items()
        }

    def is_remote(self, node: str) -> bool:
        """Whether the node ran on another computer than the server."""
        return self.hosts.get(node, self.server) != self.server

    def times(self, node: str) -> Floats:
        """Transit times (s) of the messages between a node and the computer of the server, in both directions."""
        found = [
            ways_of(*readings)
            for (asker, peer), readings in self.round_trips.items()
            if (peer == node and not self.is_remote(asker)) or (asker == node and peer == SERVER)
        ]
        return np.concatenate(found) if found else np.empty(0)


def ways_of(stamps: NDArray[np.int64], steps: NDArray[np.int64]) -> Floats:
    """Transit times (s) of all requests and of all replies in round trips to one clock.

    The clock's offset and drift are not known. Between two jumps of the clock they are chosen such that requests and
    replies take equally long on average.

    stamps  (n, 4) times in ns: request sent, request received, reply sent, reply received
    steps   (n,) number of jumps of the clock before each round trip
    """
    asked, received, answered, heard = (1e-9 * (stamps - stamps[0, 0])).T
    there, back = received - asked, heard - answered
    found = []
    for number in np.unique(steps):
        here = steps == number
        if here.sum() >= FEWEST_OF_A_CLOCK:
            offset = line_through(asked[here], 0.5 * (there[here] - back[here]))
            found += [there[here] - offset, back[here] + offset]
    return np.concatenate(found) if found else np.empty(0)


def line_through(x: Floats, y: Floats) -> Floats:
    """Straight line fitted to the points (x, y) by least squares without outliers: its values (n,) at the n given x.

    A point is an outlier if its distance from the line exceeds OUTLIER times the median distance. The result also has
    values at the x of outliers.
    """
    kept = np.ones(len(x), dtype=bool)
    for _ in range(4):
        slope, value = np.polyfit(x[kept] - x[0], y[kept], 1)
        line = value + slope * (x - x[0])
        away = np.abs(y - line)
        kept = away <= OUTLIER * np.median(away) + 1e-9
    return np.asarray(line)


def ordered_quantiles(period: float) -> tuple[float, float]:
    """Quantiles LOW and HIGH of the transit times of messages that arrive in the order in which they were sent.

    Messages are sent at intervals of `period`. The transit time of a message is a random number, drawn uniformly from
    0 .. 1, and is longer if the message would otherwise overtake an earlier message. If F is the distribution function
    of the random numbers, the distribution function of the transit times x is the product of F(x + i period) over
    i = 0, 1, ...
    """
    x = np.linspace(0.0, 1.0, GRID)
    product = x.copy()
    for i in range(1, int(np.ceil(1.0 / period)) + 1):
        product *= np.minimum(x + i * period, 1.0)
    low, high = np.interp([LOW, HIGH], product, x)
    return float(low), float(high)


def fitted(times: Floats, period_s: float) -> tuple[float, float]:
    """(delay, jitter) in s of a simulated communication link on which messages have the measured transit times.

    times     measured transit times of messages, s
    period_s  time between two messages on the link, s; messages arrive in the order in which they were sent
    """
    low, high = np.quantile(times, [LOW, HIGH])
    spread = float(high - low)
    if spread <= 0.0:
        return max(float(low), 0.0), 0.0
    narrow, wide = spread, WIDEST * spread
    for _ in range(40):
        jitter = 0.5 * (narrow + wide)
        first, last = ordered_quantiles(period_s / jitter)
        narrow, wide = (jitter, wide) if jitter * (last - first) < spread else (narrow, jitter)
    first, _ = ordered_quantiles(period_s / wide)
    return max(float(low) - wide * first, 0.0), wide


def with_recorded_links(plan: Plan, classes: Mapping[str, type[Node]] | None = None) -> tuple[Plan, list[str]]:
    """(the plan with the links that are measured from the recording `timing_from`, one line of text about each node).

    A link is the delay, jitter and loss of messages to and from a node. A node whose link is set in the plan keeps this
    link. A link on which messages take less than a time step is left out, because lockstep delivers messages only at
    time steps. Raises PlanError with a one-line message if a link cannot be measured.

    classes  {name: class} of node classes that are in no file
    """
    if not plan.timing_from:
        return plan, []
    loaded = {each.name: (classes or {}).get(each.name) or load_class(each.run, plan.folder) for each in plan.nodes}
    wanted = [each for each in plan.nodes if each.link == LinkPlan() and not loaded[each.name].lossless]
    if not wanted:
        raise PlanError(
            "timing_from has no effect, because every node is lossless or has a key 'link'; remove timing_from, or a "
            "node's key 'link'"
        )
    path = Path(plan.timing_from)
    try:
        recorded = Recorded(path)
    except RecordingError as error:
        raise PlanError(f"timing_from: {error}") from None
    times = {each.name: recorded.times(each.name) for each in wanted}
    if not any(len(found) for found in times.values()):
        raise PlanError(
            f"timing_from: {path} has no round trips to a node of this plan (topic 'clock'); record them with a "
            "node that runs nodes/clock_watch.py:ClockWatch on the server's computer"
        )
    links, lines = {}, []
    for node in wanted:
        found = times[node.name]
        if len(found) < 2 * FEWEST:
            if recorded.is_remote(node.name):
                raise PlanError(
                    f"timing_from: {path} has {len(found) // 2} round trips to node {node.name!r} on host "
                    f"{recorded.hosts[node.name]!r}; record at least {FEWEST} round trips, which "
                    "the node nodes/clock_watch.py:ClockWatch measures when it runs on the server's computer"
                )
            there = "ran on the server's computer" if node.name in recorded.hosts else "is not in the recording"
            lines.append(
                f"{node.name}: no link, because the node {there}, and only {len(found) // 2} round trips were recorded"
            )
            continue
        links[node.name], line = _link(node, plan, recorded, found, _topics(plan, node, loaded))
        lines.append(line)
    nodes = [msgspec.structs.replace(each, link=links.get(each.name, each.link)) for each in plan.nodes]
    views = {
        namespace: msgspec.structs.replace(
            view,
            nodes=[
                msgspec.structs.replace(each, link=links.get(f"{namespace}/{each.name}", each.link))
                for each in view.nodes
            ],
        )
        for namespace, view in plan.simulations.items()
    }
    return msgspec.structs.replace(plan, nodes=nodes, simulations=views, timing_from=""), lines


def _link(node: NodePlan, plan: Plan, recorded: Recorded, times: Floats, topics: list[str]) -> tuple[LinkPlan, str]:
    """(communication link of a node, one line of text about this link), from the transit times (s) of its messages.

    topics  topics that only this node publishes
    """
    sim = plan.view(node.namespace).sim
    every = 1 if sim.rate_hz is None else max(round(1.0 / (sim.rate_hz * sim.step_s)), 1)
    delay_s, jitter_s = fitted(times, every * sim.step_s)
    counters = recorded.counters.get(node.name, {})
    lost = counters.get("lost", 0) + sum(recorded.gaps[topic][1] for topic in topics)
    arrived = counters.get("received", 0) + sum(recorded.gaps[topic][0] for topic in topics)
    loss = lost / (lost + arrived) if lost else 0.0
    middle, slow = 1e3 * np.quantile(times, [0.5, 0.99])
    measured = f"median {middle:.3g} ms, p99 {slow:.3g} ms one way, {len(times) // 2} round trips"
    if delay_s + jitter_s < sim.step_s:
        delay_s = jitter_s = 0.0
        if not lost:
            return LinkPlan(), f"{node.name}: no link, because its messages take less than a time step ({measured})"
    link = LinkPlan(delay_ms=round(1e3 * delay_s, 3), jitter_ms=round(1e3 * jitter_s, 3), loss=round(loss, 6))
    text = f"delay {link.delay_ms:g} ms, jitter {link.jitter_ms:g} ms, loss {100.0 * link.loss:.3g} %"
    return link, f"{node.name}: {text} ({measured}, {lost} of {lost + arrived} messages lost)"


def _topics(plan: Plan, node: NodePlan, classes: Mapping[str, type[Node]]) -> list[str]:
    """Topics that only this node of the plan publishes. The topic `event` is left out, because events are never lost.

    A sequence number missing on such a topic means that this node's communication link lost a message.
    """
    publishers: defaultdict[str, set[str]] = defaultdict(set)
    for each in plan.nodes:
        robot = plan.robot_of(each.namespace)
        for name in classes[each.name].publishes:
            publishers[topic_of(name, each.remap, robot)].add(each.name)
    return [topic for topic, names in publishers.items() if names == {node.name} and not topic.endswith("/event")]


def _plan_in(file: RecordingFile) -> dict[str, Any]:
    """The plan with which a recording was made. Raises PlanError if the recording contains no plan."""
    try:
        plan = msgspec.json.decode(file.metadata["plan"], type=dict[str, Any])
    except (KeyError, msgspec.DecodeError):
        raise PlanError(f"timing_from: {file.path} holds no plan; give a recording that a launch made") from None
    return plan
