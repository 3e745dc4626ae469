"""`context.plot` in a running node: topic, time stamps, order, and the same bytes in every lockstep run."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zmq

from nodes.framework.hosting.hosted import HostedNode
from nodes.framework.messages import JointCommand, Message, PlotValues, RobotState
from nodes.framework.messages.codec import decode
from nodes.framework.plan.files.file import load_plan
from nodes.framework.plan.launch_plan import NodePlan, Plan, SimPlan
from nodes.framework.recording.reader import read_recording
from nodes.framework.recording.writer import RecordingWriter
from nodes.framework.simulation.compose import compose
from nodes.framework.simulation.replay.comparison import Line
from nodes.framework.transport.bus import Subscriber
from nodes.node import Node, Outgoing

PLOT = "rotary_pendulum/hold/plot"
NODES = """
from nodes.framework.messages import JointCommand, Message, RobotState
from nodes.node import Node


class Hold(Node):
    subscribes = {"state": RobotState}
    publishes = {"command": JointCommand}
    rate_hz = 100.0

    def on_start(self, context):
        self.context = context
        context.plot("started", True)

    def on_message(self, name, state):
        error = 0.3 - state.position[0]
        self.context.plot("error", error)
        self.context.plot("state", [*state.position, *state.velocity])
        yield "command", JointCommand(name=["arm"], value=[0.01 * error], state_seq=state.seq)
        self.context.plot("error", error)  # after the command, of the same call

    def on_tick(self, now):
        self.context.plot("tick", now)


class Watch(Node):
    subscribes = {"*": Message}
    lossless = True

    def on_start(self, context):
        self.context, self.heard = context, 0

    def on_message(self, name, message):
        self.heard += 1
        self.context.plot("heard", self.heard)
"""
TOML = """
duration_s = 0.05
{domain}
[sim]
robot = "rotary_pendulum"
mode = "lockstep"
[[nodes]]
name = "hold"
run = "plotting_nodes.py:Hold"
[[nodes]]
name = "watch"
run = "plotting_nodes.py:Watch"
"""
Stream = list[tuple[str, bytes]]


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    (tmp_path / "plotting_nodes.py").write_text(NODES)
    (tmp_path / "plot.toml").write_text(TOML.format(domain="domain = 7"))
    return load_plan(tmp_path / "plot.toml")


def composed(plan: Plan) -> Stream:
    stream: Stream = []
    with compose(plan, lambda topic, payload: stream.append((topic, payload))) as run:
        run.run()
    return stream


def plots(stream: Stream, topic: str = PLOT) -> list[PlotValues]:
    found = [decode(name, payload) for name, payload in stream if name == topic]
    assert all(isinstance(message, PlotValues) for message in found)
    return found  # type: ignore[return-value]


def test_the_values_of_one_call_are_one_message_with_the_time_of_the_step(plan: Plan) -> None:
    stream = composed(plan)
    found = plots(stream)
    states = {m.timestamp: m for t, p in stream if isinstance(m := decode(t, p), RobotState)}
    assert found[0].values == {"started": 1.0}
    assert [message.seq for message in found] == list(range(1, len(found) + 1))
    assert {message.sent_ns for message in found} == {0}
    of_state = [message for message in found if "error" in message.values]
    assert [message.timestamp for message in of_state] == sorted(states)[:-1]  # the last state has no turn after it
    for message in of_state:
        state = states[message.timestamp]
        assert message.values == {"error": 0.3 - state.position[0], "state": [*state.position, *state.velocity]}
    of_tick = [message for message in found if "tick" in message.values]
    assert [message.timestamp for message in of_tick] == [message.values["tick"] for message in of_tick]
    assert len(of_tick) == 5


def test_two_runs_plot_the_same_bytes_and_a_nodes_messages_stay_as_they_were(plan: Plan) -> None:
    first = composed(plan)
    assert first == composed(plan)
    quiet = {topic: [p for t, p in first if t == topic] for topic, _ in first}
    commands = quiet["rotary_pendulum/command"]
    assert len(commands) == 50
    assert [decode("rotary_pendulum/command", payload, JointCommand).seq for payload in commands] == list(range(1, 51))


def test_over_sockets_the_values_have_the_same_bytes_as_in_one_process(
    plan: Plan, run: Any, until: Callable[..., Any]
) -> None:
    watched = "rotary_pendulum/watch/plot"
    began = run(plan)
    listener = Subscriber(zmq.Context.instance(), [PLOT, watched], "outsider")
    for entry in began.client.nodes():
        listener.connect(entry.name, entry.endpoints["data"])
    heard: Stream = []

    def listen() -> bool:
        for feed in listener.connections.values():
            while (item := feed.receive()) is not None:
                heard.append((item[0], item[2]))
        return listener.ready

    here = composed(plan)
    until(listen)
    began.call("sim", "resume", first=True)
    for topic in (PLOT, watched):
        until(lambda topic=topic: listen() and len(plots(heard, topic)) == len(plots(here, topic)), 30.0)
        assert [p for t, p in heard if t == topic] == [p for t, p in here if t == topic]
        until(
            lambda topic=topic: [e.name for e in began.client.nodes() if topic in e.publishes] == [topic.split("/")[1]]
        )
    assert listener.lost == 0
    began.close()
    listener.close()


def test_values_of_a_node_that_publishes_nothing_are_carried_to_the_last(plan: Plan) -> None:
    stream = composed(plan)
    heard = [message.values["heard"] for message in plots(stream, "rotary_pendulum/watch/plot")]
    assert heard == list(range(1, len(heard) + 1))
    assert len(heard) == len([topic for topic, _ in stream if topic != "rotary_pendulum/watch/plot"])


def test_a_recording_has_a_column_for_each_name(plan: Plan, tmp_path: Path) -> None:
    with RecordingWriter(tmp_path / "run.mcap", {}) as writer:
        for topic, payload in composed(plan):
            message = decode(topic, payload)
            writer.write(topic, message, message.timestamp)
    columns = read_recording(tmp_path / "run.mcap")[PLOT]
    assert {"values.error", "values.state", "values.tick", "values.started"} <= set(columns)
    rows = columns["values.error"] == columns["values.error"]  # NaN where a message has no such name
    assert rows.sum() == 50
    position = read_recording(tmp_path / "run.mcap")["rotary_pendulum/state"]["position"]
    assert list(columns["values.error"][rows]) == list(0.3 - position[:50, 0])


class Shapes(Node):
    subscribes = {"state": RobotState}

    def on_start(self, context: Any) -> None:
        self.context = context

    def on_message(self, name: str, message: Message) -> Outgoing:
        self.context.plot("error", 1.0)
        self.context.plot("error", [1.0, 2.0])
        return None

    def on_request(self, name: str, args: dict[str, Any]) -> Any:
        self.context.plot("asked", 1.0)
        return "well"


class Deaf(Shapes):
    subscribes = {}


def hosted(node: Node, out: Stream) -> HostedNode:
    plan = Plan(name="p", folder=".", sim=SimPlan(robot="arm"), nodes=[])
    host = HostedNode(node, plan, NodePlan(name="my_controller", run="n.py:N"), lambda *item: out.append(item))
    host.start()
    return host


def test_a_second_shape_is_one_line_with_the_nodes_name_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    out: Stream = []
    host = hosted(Shapes(), out)
    with caplog.at_level(logging.WARNING):
        host.receive("arm/state", RobotState(timestamp=0.5))
    assert [message.values for message in plots(out, "arm/my_controller/plot")] == [{"error": 1.0}]
    assert host.messages.refusals.count == 1
    assert caplog.messages == [
        "my_controller: dropped 1 on topic 'arm/my_controller/plot': 'error' is a vector of 2 numbers, and was a "
        "single number before; give it another name"
    ]


def test_a_request_may_plot_and_the_topic_is_announced_once() -> None:
    out: Stream = []
    host = hosted(Shapes(), out)
    announced: list[str] = []
    host.messages.announce = announced.append
    host.receive("arm/state", RobotState(timestamp=0.5))
    assert host.request("any", {}) == "well"
    last = plots(out, "arm/my_controller/plot")[-1]
    assert (last.values, last.timestamp) == ({"asked": 1.0}, 0.5)
    assert announced == ["arm/my_controller/plot"]


def test_a_node_that_does_not_know_the_time_is_told_so() -> None:
    host = hosted(Deaf(), [])
    host.request("any", {})
    host.request("any", {})
    assert host.take_log() == [
        (
            "warning",
            "the node plots all values at t = 0 s, because it does not know simulation time; subscribe to 'state'",
        )
    ]


def test_a_replay_compares_messages_and_not_what_is_plotted(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from nodes.framework.simulation.replay.comparison import Tolerances
    from nodes.framework.simulation.replay.replay import replay

    monkeypatch.chdir(tmp_path)
    lines = [Line(t, m := decode(t, p), m.timestamp) for t, p in composed(plan)]
    outcome = replay(lines, plan, plan.node("hold"), Tolerances())
    assert outcome.refused == 0
    assert (outcome.compared, outcome.differing) == (50, 0)
