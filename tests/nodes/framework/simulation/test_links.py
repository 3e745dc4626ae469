"""Lockstep with time in it: messages that take time, get lost, and turns that take time."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from armswing import build
from nodes.controllers.riccati import lqr_gain
from nodes.framework.hosting.outgoing import EncodedMessage
from nodes.framework.messages import Event, JointCommand, JointReference, RobotState
from nodes.framework.messages.codec import decode
from nodes.framework.plan.files.file import load_plan
from nodes.framework.plan.key_checks import PlanError
from nodes.framework.plan.launch_plan import LinkPlan, NodePlan, Plan, SimPlan
from nodes.framework.simulation.compose import compose
from nodes.framework.simulation.links import Links, rounded_times
from nodes.node import Node
from sim_core import assemble, forward_dynamics
from sim_core.errors import SimulationWarning

MakePlan = Callable[..., Plan]
Stream = list[EncodedMessage]


class Note(Node):
    """Publishes the seq of each state that it receives."""

    subscribes = {"state": RobotState}
    publishes = {"noted": JointReference}

    def on_message(self, name: str, message: Any) -> Iterator[Any]:
        yield "noted", JointReference(name=["seq"], position=[float(message.seq)])


class Listen(Node):
    """Publishes the seq of each message of `Note` that it receives."""

    subscribes = {"noted": JointReference}
    publishes = {"listened": JointReference}

    def on_message(self, name: str, message: Any) -> Iterator[Any]:
        yield "listened", JointReference(name=["seq"], position=[float(message.seq)])


def with_links(plan: Plan, compute_ms: float = 0.0, **links: LinkPlan) -> Plan:
    """The plan with these links of its nodes; the nodes take `compute_ms`."""
    for node in plan.nodes:
        node.link, node.compute_ms = links.get(node.name, LinkPlan()), compute_ms
    return plan


def plan_of(seconds: float = 0.2, compute_ms: float = 0.0, seed: int = 0, **links: LinkPlan) -> Plan:
    nodes = [NodePlan(name=name, run="-") for name in ("note", "listen")]
    sim = SimPlan(robot="rotary_pendulum", mode="lockstep", parameters={"coordinates": "joint"})
    return with_links(Plan(name="links", sim=sim, nodes=nodes, duration_s=seconds, seed=seed), compute_ms, **links)


def noted(plan: Plan) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """(time in ms, seq) of each state that `note` received, and of each message of it that `listen` received."""
    found: dict[str, list[tuple[int, int]]] = {"noted": [], "listened": []}

    def carry(topic: str, payload: bytes) -> None:
        if (name := topic.rpartition("/")[2]) in found:
            message: Any = decode(topic, payload, JointReference)
            found[name].append((round(message.timestamp * 1e3), round(message.position[0])))

    with compose(plan, carry, nodes={"note": Note, "listen": Listen}) as run:
        run.run()
    return found["noted"], found["listened"]


def test_a_delay_is_that_of_both_links() -> None:
    states, echoes = noted(plan_of(note=LinkPlan(delay_ms=3.0), listen=LinkPlan(delay_ms=2.0)))
    assert states == [(tick, tick - 3 + 1) for tick in range(3, 200)]  # seq 1 is the state at the start
    assert echoes == [(tick, tick - 8 + 1) for tick in range(8, 200)]


def test_jitter_keeps_the_order_and_a_loss_is_a_gap() -> None:
    states, _ = noted(plan_of(2.0, note=LinkPlan(delay_ms=1.0, jitter_ms=20.0, loss=0.05)))
    seqs = [seq for _, seq in states]
    assert seqs == sorted(seqs)
    ages = [tick - (seq - 1) for tick, seq in states]
    assert min(ages) >= 1
    assert 15 < max(ages) <= 22
    lost = 1.0 - len(seqs) / max(seqs)
    assert 0.02 < lost < 0.09


def test_draws_depend_on_the_seed_alone() -> None:
    link = LinkPlan(jitter_ms=20.0, loss=0.05)
    first = noted(plan_of(note=link))
    assert noted(plan_of(note=link)) == first
    assert noted(plan_of(note=link, seed=1)) != first


def test_a_turn_that_takes_time_is_the_only_one_until_its_end() -> None:
    states, echoes = noted(plan_of(0.03, compute_ms=5.0))
    assert sorted({tick for tick, _ in states}) == [0, 5, 10, 15, 20, 25]
    assert echoes[0][0] == 5
    assert [seq for _, seq in states] == list(range(1, 27))  # at decimation 1 it receives all that came meanwhile


def test_descriptions_and_events_are_never_lost() -> None:
    links = Links(plan_of(note=LinkPlan(loss=1.0)))
    topics = {name: f"rotary_pendulum/{name}" for name in ("description", "event", "state", "command")}
    arrived = {name: links.arrival("sim", "note", topic, 0.0) for name, topic in topics.items()}
    assert arrived == {"description": 0.0, "event": 0.0, "state": None, "command": None}


def test_lost_messages_are_counted_for_the_link_that_lost_them() -> None:
    links = Links(plan_of(note=LinkPlan(loss=0.05), listen=LinkPlan(delay_ms=1.0)))
    topics = ["rotary_pendulum/state"] * 2000 + ["rotary_pendulum/event"] * 100
    arrived = [links.arrival("sim", "note", topic, 0.0) for topic in topics]
    links.arrival("sim", "listen", "rotary_pendulum/state", 0.0)  # a link without loss is not listed
    assert links.dropped == {"note": [arrived.count(None), 2000]}
    assert 60 < arrived.count(None) < 140
    before = links.dropped["note"][0]
    replacing = Links(plan_of(note=LinkPlan(loss=1.0)))
    replacing.count_on(links.dropped)
    replacing.arrival("sim", "note", "rotary_pendulum/state", 0.0)
    assert replacing.dropped == {"note": [before + 1, 2001]}


def test_a_recorder_receives_all_messages_at_once() -> None:
    class Record(Listen):
        lossless = True

    plan = plan_of(note=LinkPlan(delay_ms=3.0, loss=0.5))
    found: list[tuple[int, int]] = []
    sent = 0

    def carry(topic: str, payload: bytes) -> None:
        nonlocal sent
        sent += topic.endswith("/noted")
        if topic.endswith("/listened"):
            message: Any = decode(topic, payload, JointReference)
            found.append((round(message.timestamp * 1e3), round(message.position[0])))

    with compose(plan, carry, nodes={"note": Note, "listen": Record}) as run:
        run.run()
    assert [seq for _, seq in found] == list(range(1, sent + 1))
    assert found[0][0] <= 10


def test_a_watchdog_sees_the_commands_that_a_link_loses(make_plan: MakePlan) -> None:
    plan = make_plan("Damp", mode="lockstep", duration_s=0.3, watchdog_ms=20)
    events: list[str] = []

    def carry(topic: str, payload: bytes) -> None:
        if topic.endswith("/event"):
            events.append(decode(topic, payload, Event).kind)

    link = LinkPlan(loss=0.7)
    with compose(with_links(plan, **{plan.nodes[0].name: link}), carry) as run:
        run.run()
        assert run.server.counters()["watchdog_trips"] == events.count("safe") > 0


LAUNCH = """[sim]
robot = "rotary_pendulum"
mode = "{mode}"
parameters = {{ coordinates = "joint" }}

[[nodes]]
name = "hold"
run = "{run}"
link = {{ delay_ms = 5.0, {more} }}
"""


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    def written(mode: str = "lockstep", more: str = "loss = 0.05") -> Path:
        run = Path(__file__).parents[4] / "launch/examples/my_controller.py"
        (tmp_path / "timed.toml").write_text(LAUNCH.format(mode=mode, more=more, run=f"{run}:HoldArm"))
        return tmp_path / "timed.toml"

    return written


def test_a_launch_file_has_links(write: Callable[..., Path]) -> None:
    plan = load_plan(write(), ["hold.link.delay_ms=20", "hold.compute_ms=2"])
    assert plan.nodes[0].link == LinkPlan(delay_ms=20.0, loss=0.05)
    assert plan.nodes[0].compute_ms == 2.0


@pytest.mark.parametrize(
    ("given", "line"),
    [
        (
            {"mode": "realtime"},
            r"toml:\d+: node .hold.: key .link. works in mode .lockstep. only",
        ),
        ({"more": "loss = 1.5"}, r"key 'link.loss'"),
        ({"more": "delay = 3"}, r"delay"),
    ],
)
def test_a_wrong_link_is_refused(write: Callable[..., Path], given: dict[str, str], line: str) -> None:
    with pytest.raises(PlanError, match=line) as refusal:
        load_plan(write(**given))
    assert "\n" not in str(refusal.value)


class BalanceParams(msgspec.Struct, forbid_unknown_fields=True):
    gain: list[float] = []


class Balance(Node):
    """State feedback that balances the pendulum upright."""

    subscribes = {"state": RobotState}
    publishes = {"command": JointCommand}
    Params = BalanceParams

    def on_start(self, context: Any) -> None:
        self.context = context

    def on_message(self, name: str, message: Any) -> Iterator[Any]:
        away = [*message.position, *message.velocity]
        away[1] -= math.pi
        effort = -float(np.dot(self.context.params.gain, away))
        yield "command", JointCommand(name=["arm"], value=[effort], state_seq=message.seq)


def linearized(robot: str, parameters: dict[str, Any], q: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    """A and B of dx/dt = A x + B u at rest at q, with x = (q, v) and u the effort of the first joint."""
    system = assemble(build(robot, **parameters))
    n, step = len(q), 1e-5
    at, rest, none = np.array(q), np.zeros(len(q)), np.zeros(len(q))

    def acceleration(dq: np.ndarray, tau: np.ndarray) -> np.ndarray:
        return forward_dynamics(system, at + dq, rest, tau)

    A, B = np.zeros((2 * n, 2 * n)), np.zeros((2 * n, 1))
    A[:n, n:] = np.eye(n)
    for i, unit in enumerate(np.eye(n)):
        A[n:, i] = (acceleration(step * unit, none) - acceleration(-step * unit, none)) / (2 * step)
    B[n:, 0] = acceleration(none, np.eye(n)[0]) - acceleration(none, none)
    return A, B


def settles(gain: np.ndarray, delay_ms: float) -> bool:
    """Whether the pendulum comes back to its upright position with this delay of each message."""
    parameters: dict[str, Any] = {"coordinates": "joint", "start_deg": 180.1}
    sim = SimPlan(robot="rotary_pendulum", mode="lockstep", step_ms=0.5, parameters=parameters)
    node = NodePlan(name="balance", run="-", params={"gain": gain.tolist()}, link=LinkPlan(delay_ms=delay_ms))
    with compose(Plan(name="balance", sim=sim, nodes=[node]), nodes={"balance": Balance}) as run:
        largest = []
        for _ in range(16):
            peak = 0.0
            for _ in range(25):
                run.step(20)
                peak = max(peak, abs(run.server.simulation.joints()[0][1] - math.pi))
            largest.append(peak)
        return largest[-1] < largest[7]


def test_stability_ends_at_the_delay_margin_of_the_linear_loop() -> None:
    import control  # takes seconds, and every worker imports this file

    A, B = linearized("rotary_pendulum", {"coordinates": "joint"}, (0.0, math.pi))
    gain = lqr_gain(A, B, np.diag([1.0, 1.0, 0.05, 0.05]), np.array([[2e3]]))
    loop = control.ss(A, B, gain, 0.0)
    _, margins, _, _, crossings, _ = control.stability_margins(loop, returnall=True)
    held = 0.25e-3  # s: commands are held over a step
    margin_ms = 1e3 * (min(np.radians(np.mod(margins, 360.0)) / crossings) - held)
    assert 5.0 < margin_ms < 100.0
    assert settles(gain[0], 0.95 * margin_ms / 2)  # a delay of half of it on each way
    assert not settles(gain[0], 1.05 * margin_ms / 2)


@pytest.mark.parametrize(
    ("rate_hz", "delay_ms", "lines"),
    [
        (300.0, 0.0, ["rate_hz = 300: the state is published every 3 time steps of 1 ms, at 333.3 Hz"]),
        (5000.0, 0.0, ["rate_hz = 5000: the state is published at every time step of 1 ms, at 1000 Hz"]),
        (250.0, 0.4, ["link of node 'note': delay_ms = 0.4: .* next time step of 1 ms, so that each way takes 1 ms"]),
        (None, 3.0, []),
    ],
)
def test_a_rate_or_delay_that_is_no_whole_number_of_steps_is_named_with_what_holds(
    rate_hz: float | None, delay_ms: float, lines: list[str]
) -> None:
    plan = plan_of(0.01, note=LinkPlan(delay_ms=delay_ms))
    plan.sim.rate_hz = rate_hz
    found = list(rounded_times(plan))
    plan.sim.poses_hz = 300.0
    (poses,) = set(rounded_times(plan)) - set(found)
    assert poses == "poses_hz = 300: the body poses are published every 3 time steps of 1 ms, at 333.3 Hz"
    plan.sim.poses_hz = 60.0
    assert len(found) == len(lines)
    assert all(re.fullmatch(line, told) for line, told in zip(lines, found, strict=True))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        noted(plan)
    assert [str(each.message) for each in caught if issubclass(each.category, SimulationWarning)] == found
