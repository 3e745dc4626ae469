"""A robot that has its commands late is set beside a model that has them as late; its own delays are still found."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

from nodes.framework.messages import Event, JointCommand, RobotState
from nodes.framework.messages import Verdict as LiveVerdict
from nodes.framework.plan.files.file import load_plan
from nodes.framework.plan.launch_plan import Plan, SimPlan
from nodes.framework.simulation.compose import compose
from nodes.hil.prediction.predicting import LivePrediction
from nodes.hil.report.reading import read_case
from nodes.hil.report.verdict import Compared, Verdict, limits_of
from nodes.hil_compare import HilCompare

ROOT = Path(__file__).resolve().parents[3]
LATE = '''
"""A robot far away: each command reaches it up to 30 ms after the model."""

from nodes.hardware import Hardware
from nodes.framework.messages import JointCommand


class Far(Hardware):
    def on_start(self, context):
        self.held, self.dice = [], context.random
        return super().on_start(context)

    def on_message(self, name, message):
        if isinstance(message, JointCommand):
            self.held.append((message.timestamp + self.dice.uniform(0.0, 0.03), message))
            return
        yield from super().on_message(name, message)
        for due in [each for each in self.held if each[0] <= message.timestamp]:
            self.held.remove(due)
            yield from super().on_message("command", due[1])
'''


def far(folder: Path, *settings: str) -> Plan:
    """launch/hil_robot.toml with that robot, without noise."""
    (folder / "far.py").write_text(LATE)
    quiet = ("hardware.encoder_step={}", "hardware.velocity_noise={}", "hardware.effort_noise={}")
    plan = load_plan(ROOT / "launch/hil_robot.toml", [*quiet, "sim.step_ms=2", "trajectory.decimation=5", *settings])
    plan.duration_s = 2.2
    plan.folder = str(folder)
    for node in plan.nodes:
        if node.name == "hardware":
            node.run = "far.py:Far"
    return plan


def ran(plan: Plan) -> LiveVerdict:
    """Runs it; the verdict of hil_compare."""
    with compose(plan) as composition:
        composition.run()
        node = composition.nodes["compare"].node
    assert isinstance(node, HilCompare)
    return node.verdict


def reported(predicted: str | None = None) -> Verdict:
    case = read_case(Path("hil_robot.mcap"), None, None, predicted)
    return Compared(case, limits_of(case, {})).verdict


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_commands_that_come_late_are_no_error_of_the_robot(tmp_path: Path) -> None:
    live = ran(far(tmp_path))
    assert live.outcome == "passed"
    assert "; commands at the times the robot received them, " in live.detail
    report = reported()
    assert (report.passed, report.findings) == (True, [])
    assert max(joint.max for joint in report.joints) < 1e-9
    assert (
        "by the model with the commands at the times the robot received them, 1" in report.predicted.notes[-1]
    )  # 15 ms or so
    recorded = reported("arm_4dof/state")
    assert not recorded.passed  # beside the model that had them at once the robot seems to lag
    assert recorded.predicted.driven == ""
    assert max(joint.max for joint in recorded.joints) > math.radians(0.5)


def test_a_delay_of_the_robots_own_is_found_behind_commands_that_come_late(tmp_path: Path) -> None:
    live = ran(far(tmp_path, "hardware.command_delay_ms=12"))
    assert live.outcome == "failed"
    (finding,) = reported().findings
    assert (finding.kind, finding.of) == ("delay", "")
    assert finding.value == pytest.approx(0.012, abs=2e-4)


LOSSY = '''
"""A recorder that a network does not reach for a while."""

from nodes.recorder import Recorder


class Lossy(Recorder):
    def on_message(self, name, message):
        if not (name.endswith("applied_command") and 1.0 < message.timestamp < 1.4):
            return super().on_message(name, message)
'''


def test_commands_that_were_lost_on_their_way_to_the_recording_leave_a_verdict_open(tmp_path: Path) -> None:
    (tmp_path / "lossy.py").write_text(LOSSY)
    plan = far(tmp_path)
    for node in plan.nodes:
        if node.name == "recorder":
            node.run = "lossy.py:Lossy"
    assert ran(plan).outcome == "passed"  # all of them came to the comparison
    report = reported()
    assert max(joint.max for joint in report.joints) > math.radians(1.0)  # 0.4 s of the motion were not commanded
    assert report.outcome == "not certain"
    assert re.fullmatch(
        r"\d+ of the commands that the robot applied were lost on their way to the recorder", report.reason
    )
    assert report.reason in report.predicted.notes


def test_what_a_robot_took_is_what_its_model_would_do_with_it_step_by_step(tmp_path: Path) -> None:
    plan = far(tmp_path)
    plan.duration_s = 0.6
    ran(plan)
    case = read_case(Path("hil_robot.mcap"), None)
    stream = case.predicted.stream
    assert stream.period_s == pytest.approx(2e-3)
    assert case.measured.stream.effort is not None
    assert stream.effort is not None
    rows = [round(t / 2e-3) for t in case.measured.stream.time]
    assert stream.effort[rows] == pytest.approx(case.measured.stream.effort, abs=1e-9)


SIM = SimPlan(robot="arm_2dof", mode="lockstep")


def prediction(first_s: float = 0.0) -> LivePrediction:
    made = LivePrediction(SIM, gap_s=0.1, delay_s=0.0)
    list(made.predict(state(first_s)))
    return made


def state(time: float, position: float = 0.0, seq: int = 0) -> RobotState:
    values = [position, position]
    names = ["joint_2", "joint_4"]
    return RobotState(timestamp=time, seq=seq, name=names, position=values, velocity=[0.0, 0.0])


def taken(time: float, seq: int = 1, state_seq: int | None = None) -> JointCommand:
    return JointCommand(timestamp=time, seq=seq, name=["joint_2"], value=[1.0], state_seq=state_seq)


def residual(made: LivePrediction, time: float, position: float) -> float:
    """Of the first joint, for a robot that was measured there at that time."""
    list(made.add_message(state(time, position)))
    ((found, _),) = made.predict(state(time, 7.0))
    return found.position[0]


def test_until_the_robot_says_what_it_took_the_running_model_is_what_it_is_set_beside() -> None:
    assert residual(prediction(), 0.5, 7.25) == 0.25
    made = prediction()
    list(made.add_message(taken(0.001)))
    assert abs(residual(made, 0.5, 0.0)) < 6.0  # our own model, which is not at 7
    assert made.retraces


@pytest.mark.parametrize(
    ("event", "why"),
    [
        (Event(kind="set", node="sim", key="damping"), "parameter damping of the model was changed"),
        (Event(kind="restore"), "the model was set to another state"),
    ],
)
def test_a_model_that_was_changed_on_the_way_is_not_driven_anew(event: Event, why: str) -> None:
    made = prediction()
    list(made.add_message(taken(0.001)))
    list(made.predict(state(0.01)))
    made.process_event(event)
    assert (made.retraces, made.lost) == (False, why)
    assert residual(made, 0.5, 7.25) == 0.25


def test_who_joins_a_run_on_the_way_does_not_know_the_models_start() -> None:
    made = prediction(3.0)
    list(made.add_message(taken(3.0)))
    assert (made.retraces, made.lost) == (False, "the first state received is of t = 3 s, not of the start")


def test_a_reset_begins_anew_and_what_was_lost_on_the_way_is_counted() -> None:
    made = prediction()
    list(made.add_message(taken(0.001)))
    list(made.predict(state(0.1)))
    list(made.add_message(taken(0.05, seq=5)))
    assert made.commands_lost == 3
    made.forget(0.0)
    list(made.predict(state(0.0)))
    assert made.lost == ""
    assert residual(made, 0.002, 0.0) == pytest.approx(0.0, abs=1e-3)


def test_how_old_the_states_are_that_commands_answer_is_told() -> None:
    made = prediction()
    list(made.predict(state(0.1, seq=1)))
    list(made.predict(state(0.2, seq=2)))
    for at, state_seq in ((0.11, 1), (0.13, 1), (0.2, 2), (0.2, 99), (0.2, None)):
        list(made.add_message(taken(at, state_seq=state_seq)))
    assert made.ages.count == 3
    assert (made.ages.mean, made.ages.largest) == pytest.approx((0.04 / 3, 0.03))
    assert (
        made.ages.text
        == "commands at the times the robot received them, 13.3 ms after the states they respond to, 30 ms at most"
    )


def test_what_is_but_rounding_is_no_age() -> None:
    made = prediction()
    list(made.predict(state(0.1, seq=1)))
    list(made.predict(state(0.2, seq=2)))
    list(made.add_message(taken(0.1 + 1e-9, state_seq=1)))
    assert (
        made.ages.text
        == "commands at the times the robot received them, 0 ms after the states they respond to, 0 ms at most"
    )


def test_a_recording_of_a_model_that_was_changed_is_compared_as_it_was(tmp_path: Path) -> None:
    plan = far(tmp_path)
    plan.duration_s = 0.5
    with compose(plan) as composition:
        composition.step(100)
        composition.request("restore", state=composition.request("snapshot"))
        composition.run()
    report = reported()
    assert report.predicted.driven == ""
    (note,) = [each for each in report.predicted.notes if "applied_command" in each]
    assert note.endswith("count as a lag of the robot: the model was set to another state during the run")
