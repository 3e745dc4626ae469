"""Controllers that take over in the middle of a run begin with the efforts that there are: no jump beyond a bound."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

from nodes.controllers.computed_torque import ComputedTorque
from nodes.controllers.gravity_pd import GravityPD
from nodes.controllers.pd import JointPD
from nodes.controllers.position import JointPosition
from nodes.controllers.swing_up import SwingUp
from nodes.controllers.take_over import FADE_S, TakeOver
from nodes.framework.messages import Event, JointCommand, JointReference, Message, RobotState
from nodes.framework.messages.codec import decode
from nodes.framework.plan.launch_plan import Plan, SimPlan
from nodes.framework.simulation.server import SimServer
from nodes.node import Context, Node

JOINTS = ["joint_2", "joint_4"]
STEP_S, WATCHDOG_S = 1e-3, 0.1
SILENT = (0.6, 0.8)  # s: the controller says nothing; the watchdog acts 0.1 s after its beginning
END_S = 0.85
ARM = SimPlan(robot="arm_2dof", mode="lockstep", watchdog_ms=1e3 * WATCHDOG_S)
HELD = SimPlan(robot="arm_2dof", mode="lockstep", watchdog_ms=1e3 * WATCHDOG_S, safe_mode="hold")
PENDULUM = SimPlan(
    robot="rotary_pendulum",
    mode="lockstep",
    watchdog_ms=1e3 * WATCHDOG_S,
    parameters={"start_deg": 150.0, "torque_limit": 0.05},
)
GAINS = {"joints": JOINTS, "stiffness": [400.0, 200.0], "damping": [40.0, 15.0], "effort_limit": [50.0, 32.0]}
CASES: dict[str, tuple[type[Node], dict[str, Any], SimPlan]] = {
    "pd": (JointPD, GAINS, ARM),
    "gravity_pd": (GravityPD, GAINS, ARM),
    "computed_torque": (ComputedTorque, {"joints": JOINTS}, ARM),
    "computed_torque_held": (ComputedTorque, {"joints": JOINTS}, HELD),
    "position": (JointPosition, {"joints": JOINTS}, ARM),
    "position_held": (JointPosition, {"joints": JOINTS}, HELD),
    "swing_up": (SwingUp, {}, PENDULUM),
}


class Bench:
    """A simulation and one controller of it, with everything that is said passed by hand."""

    def __init__(self, kind: type[Node], params: dict[str, Any], sim: SimPlan) -> None:
        self.kind, self.params, self.plan = kind, params, Plan(name="bench", folder="/", sim=sim)
        self.server = SimServer(self.plan, wall_clock=False)
        self.server.out = self._heard
        self.said: list[tuple[str, Message]] = []
        self.efforts: list[np.ndarray] = []
        self.node = self.started()

    def started(self) -> Node:
        """A controller that was started now."""
        node = self.kind()
        params = msgspec.convert(self.params, self.kind.Params)
        context = Context("bench", self.plan.sim.robot, STEP_S, params, np.random.default_rng(0), plan=self.plan)
        node.on_start(context)
        node.on_message("description", self.server.robots[0].messages.description)
        return node

    def _heard(self, topic: str, payload: bytes) -> None:
        leaf = topic.rpartition("/")[2]
        kinds: dict[str, type[Message]] = {"state": RobotState, "event": Event}
        if leaf in kinds:
            self.said.append((leaf, decode(topic, payload, kinds[leaf])))

    def run(self, until: float, subscribes: bool = True) -> None:
        """Step on; a controller that does not listen hears nothing and says nothing."""
        while self.server.time < until - 1e-9:
            self.server.step()
            for leaf, message in self.said:
                if isinstance(message, RobotState):
                    self.efforts.append(np.array(message.effort))
                if subscribes:
                    self._tell(leaf, message)
            self.said.clear()

    def _tell(self, leaf: str, message: Message) -> None:
        if isinstance(message, RobotState) and round(message.timestamp * 1e3) % 10 == 0:
            self.node.on_message("reference", self._reference(message.timestamp))
        for _, command in self.node.on_message(leaf, message) or ():
            if isinstance(command, JointCommand):
                self.server.robots[0].commands.receive("bench", command, timed=False)

    def _reference(self, now: float) -> JointReference:
        names = ["arm"] if self.plan.sim.robot == "rotary_pendulum" else JOINTS
        swing = [0.5 * np.sin(2.0 * now), 0.4 * np.sin(3.0 * now)][: len(names)]
        rates = [np.cos(2.0 * now), 1.2 * np.cos(3.0 * now)][: len(names)]
        return JointReference(
            timestamp=now, name=names, position=swing, velocity=rates, acceleration=[0.0] * len(names)
        )


def jump(bench: Bench) -> float:
    """Largest change of effort in a step in the first 10 ms of the take-over, N m; a reference comes meanwhile."""
    back = round(SILENT[1] / STEP_S)
    return float(np.abs(np.diff(np.array(bench.efforts), axis=0))[back - 3 : back + 12].max())


def taken_over(name: str, restarted: bool) -> Bench:
    """A run in which the controller fell silent and came back, in a new process or the same."""
    bench = Bench(*CASES[name])
    bench.server.start()
    bench.server.request("resume", {})
    bench.run(SILENT[0])
    bench.run(SILENT[1], subscribes=False)
    assert bench.server.state == "safe"
    if restarted:
        bench.node = bench.started()
    bench.run(END_S)
    assert bench.server.state == "running"
    return bench


LARGEST = {"arm_2dof": 1.5, "rotary_pendulum": 1.5e-3}  # N m in a step at the take-over: 3 % of the actuators' limits


@pytest.mark.parametrize("restarted", [True, False], ids=["restarted", "cut off"])
@pytest.mark.parametrize("name", list(CASES))
def test_a_controller_that_takes_over_does_not_step_in_effort(name: str, restarted: bool) -> None:
    bench = taken_over(name, restarted)
    assert jump(bench) < LARGEST[bench.plan.sim.robot]


@pytest.mark.parametrize("name", ["pd", "gravity_pd", "computed_torque", "swing_up"])
def test_without_the_fade_it_would_step_by_thirty_times_as_much(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TakeOver, "add_state", lambda self, state: False)
    bench = taken_over(name, restarted=True)
    assert jump(bench) > 25.0 * LARGEST[bench.plan.sim.robot]


def context(**sim: Any) -> Context:
    plan = Plan(name="taken_over", sim=SimPlan(robot="arm_2dof", **sim)) if sim else None
    return Context("pd", "arm_2dof", STEP_S, None, np.random.default_rng(0), plan=plan)


def answer(over: TakeOver, now: float, wanted: float, given: float = 0.0) -> float:
    """What is commanded in answer to a state."""
    over.add_state(RobotState(timestamp=now))
    return float(over(now, np.array([given]), np.array([wanted]))[0])


def test_who_is_there_at_the_beginning_or_after_a_reset_begins_as_it_likes() -> None:
    over = TakeOver(context())
    assert answer(over, 0.0, 5.0) == 5.0
    assert answer(over, 3.0, 6.0) == 6.0  # without a watchdog nobody else acted meanwhile
    over.restart(2.0)
    assert answer(over, 2.0, 7.0) == 7.0


def test_the_difference_fades_evenly() -> None:
    over = TakeOver(context())
    assert answer(over, 1.0, 10.0, given=2.0) == 2.0
    assert answer(over, 1.0 + FADE_S / 4, 10.0, given=9.0) == pytest.approx(4.0)
    assert answer(over, 1.0 + FADE_S / 2, 20.0) == pytest.approx(16.0)
    assert answer(over, 1.0 + FADE_S, 20.0) == 20.0


def test_a_silence_that_the_watchdog_noticed_is_one_of_ours() -> None:
    over = TakeOver(context(mode="realtime", watchdog_ms=50.0))
    assert answer(over, 0.0, 1.0) == 1.0
    assert answer(over, 0.04, 1.0) == 1.0
    assert answer(over, 0.1, 1.0, given=0.25) == 0.25
    over = TakeOver(context(mode="realtime"))
    assert answer(over, 0.0, 1.0) == 1.0
    over.process_event(Event(kind="safe", node="another"))
    assert answer(over, 0.01, 1.0) == 1.0
    over.process_event(Event(kind="safe", node="pd"))
    assert answer(over, 0.02, 1.0) == 0.0


def test_after_a_short_silence_it_fades_no_longer_than_that_lasted() -> None:
    over = TakeOver(context(mode="realtime", watchdog_ms=50.0))
    assert answer(over, 1.99, 10.0, given=10.0) == 10.0
    over.process_event(Event(timestamp=2.0, kind="safe", node="pd"))
    assert answer(over, 2.02, 10.0, given=2.0) == 2.0
    assert answer(over, 2.03, 10.0) == pytest.approx(6.0)
    assert answer(over, 2.04, 10.0) == 10.0
    assert answer(over, 2.12, 10.0, given=2.0) == 2.0  # unheard for 80 ms, safe for the last 30 of them
    assert answer(over, 2.135, 10.0) == pytest.approx(6.0)
    over.process_event(Event(timestamp=3.0, kind="safe", node="pd"))
    assert answer(over, 3.5, 10.0, given=2.0) == 2.0
    assert answer(over, 3.5 + FADE_S / 5, 10.0) == pytest.approx(3.6)


def test_made_safe_at_the_very_step_that_it_answers_it_goes_on() -> None:
    over = TakeOver(context(mode="realtime"))
    assert answer(over, 0.0, 1.0) == 1.0
    over.process_event(Event(timestamp=0.02, kind="safe", node="pd"))
    assert answer(over, 0.02, 1.0) == 1.0


def test_the_first_reference_after_it_begins_anew_and_later_ones_do_not() -> None:
    over = TakeOver(context())
    over.learn()
    assert answer(over, 1.0, 10.0, given=2.0) == 2.0
    over.learn()
    assert answer(over, 1.01, 50.0, given=2.1) == pytest.approx(2.1)
    over.learn()
    assert answer(over, 1.02, 50.0) > 2.1
    over.learn(new=True)
    assert answer(over, 1.03, 90.0, given=3.0) == pytest.approx(3.0)
