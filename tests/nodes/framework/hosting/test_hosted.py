"""A node as its host drives it: what the host makes of what the node gives."""

from __future__ import annotations

import pytest

from nodes.framework.hosting.hosted import HostedNode
from nodes.framework.hosting.outgoing import Out
from nodes.framework.messages import Message, RobotState, Verdict
from nodes.framework.messages.codec import decode
from nodes.framework.plan.launch_plan import NodePlan, Plan, SimPlan
from nodes.node import Node, Outgoing


class Judge(Node):
    given: object = None

    @property
    def verdict(self) -> Verdict | None:
        return self.given  # type: ignore[return-value]


class Sensor(Node):
    publishes = {"measured_state": RobotState}
    subscribes = {"state": RobotState}

    def on_message(self, name: str, message: Message) -> Outgoing:
        again = RobotState()
        return [("measured_state", m) for m in (RobotState(), RobotState(timestamp=0.0), again, again)]


def hosted(node: Node, out: Out = lambda topic, payload: None) -> HostedNode:
    plan = Plan(name="judged", folder=".", sim=SimPlan(robot="arm"), nodes=[])
    return HostedNode(node, plan, NodePlan(name="judge", run="judge.py:Judge"), out)


def test_a_message_without_a_timestamp_gets_the_present_one_and_0_s_is_one() -> None:
    stamps: list[float] = []
    node = hosted(Sensor(), lambda topic, payload: stamps.append(decode(topic, payload).timestamp))
    node.receive("arm/state", RobotState(timestamp=2.0))
    node.receive("arm/state", RobotState(timestamp=3.0))
    assert stamps == [2.0, 0.0, 2.0, 2.0, 3.0, 0.0, 3.0, 3.0]


def test_a_verdict_is_a_verdict_or_none() -> None:
    node = Judge()
    assert hosted(node).verdict is None
    node.given = Verdict("not certain", "the clock was stepped", "3 states")
    assert hosted(node).verdict == node.given
    assert str(node.given) == "not certain: the clock was stepped; 3 states"
    node.given = "passed: all is well"
    with pytest.raises(TypeError, match="the verdict of node 'judge' is a str; it must be None or a Verdict"):
        _ = hosted(node).verdict
