"""A node as its host drives it: what the host makes of what the node gives."""

from __future__ import annotations

import pytest

from nodes.hosting.hosted import HostedNode
from nodes.messages import Verdict
from nodes.node import Node
from nodes.plan.launch_plan import NodePlan, Plan, SimPlan


class Judge(Node):
    given: object = None

    @property
    def verdict(self) -> Verdict | None:
        return self.given  # type: ignore[return-value]


def hosted(node: Node) -> HostedNode:
    plan = Plan(name="judged", folder=".", sim=SimPlan(robot="arm"), nodes=[])
    return HostedNode(node, plan, NodePlan(name="judge", run="judge.py:Judge"), lambda topic, payload: None)


def test_a_verdict_is_a_verdict_or_none() -> None:
    node = Judge()
    assert hosted(node).verdict is None
    node.given = Verdict("not certain", "the clock was stepped", "3 states")
    assert hosted(node).verdict == node.given
    assert str(node.given) == "not certain: the clock was stepped; 3 states"
    node.given = "passed: all is well"
    with pytest.raises(TypeError, match="the verdict of node 'judge' is a str; it is None or a Verdict"):
        _ = hosted(node).verdict
