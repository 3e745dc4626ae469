"""hil_compare pairs what comes in any order, counts what it cannot pair, and judges by the launch file's limits."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nodes.framework.messages import Description, Event, JointDescription, Residual, RobotState
from nodes.framework.plan.files.file import load_plan
from nodes.framework.plan.key_checks import PlanError
from nodes.framework.plan.launch_plan import NodePlan, Plan, SimPlan
from nodes.framework.recording.reader import read_recording
from nodes.framework.simulation.compose import compose
from nodes.hil.report.reading import read_case
from nodes.hil_compare import HilCompare
from nodes.node import Context

LATE = '''
import math
from collections import deque
from nodes.node import Node
from nodes.framework.messages import RobotState


class Late(Node):
    """Measures every 4 ms what was 8 ms ago, half a degree too high."""

    subscribes = {"state": RobotState}
    publishes = {"measured_state": RobotState}

    def on_start(self, context):
        self.past = deque(maxlen=9)

    def on_message(self, name, state):
        self.past.append(state)
        if state.seq % 4 == 0 and len(self.past) == 9:
            old = self.past[0]
            position = [value + math.radians(0.5) for value in old.position]
            yield "measured_state", RobotState(name=old.name, position=position, velocity=old.velocity)
'''


def started(**params: Any) -> HilCompare:
    node = HilCompare()
    node.on_start(Context("hil", "arm", 1e-3, HilCompare.Params(**params), np.random.default_rng(0)))
    return node


def state(t: float, *position: float, seq: int = 0, **more: Any) -> RobotState:
    names = ["a", "b"][: len(position)]
    return RobotState(timestamp=t, seq=seq, name=names, position=list(position), velocity=[1.0] * len(names), **more)


def said(node: HilCompare, name: str, message: Any) -> list[Residual]:
    return [residual for _, residual in node.on_message(name, message)]


def test_a_measurement_between_two_predictions_is_set_beside_the_motion_between_them() -> None:
    node = started()
    assert said(node, "state", state(0.0, 0.0, 5.0)) == []
    assert said(node, "measured_state", state(0.04, 0.14, seq=9)) == []  # what comes next is not known yet
    assert node.counters == {"paired": 0, "unpaired": 0, "waiting": 1}
    (residual,) = said(node, "state", state(0.1, 0.1, 5.1))
    assert (residual.name, residual.state_seq, residual.timestamp) == (["a"], 9, 0.04)
    assert residual.position == pytest.approx([0.1])
    assert residual.velocity == pytest.approx([0.0])
    assert residual.effort == []


def test_predictions_lost_on_their_way_move_no_error_of_a_fast_joint() -> None:
    def swinging(t: float, off: float = 0.0) -> RobotState:
        moving = state(t, 1.5 * math.sin(10.0 * t) + off)
        moving.velocity = [15.0 * math.cos(10.0 * t)]
        return moving

    node, bias = started(), math.radians(0.1)
    residuals = []
    for k in range(500):
        residuals += said(node, "measured_state", swinging(k * 1e-3, bias))
        if k % 100 < 20:  # 80 ms are lost of every 100
            residuals += said(node, "state", swinging(k * 1e-3))
    positions = [residual.position[0] for residual in residuals]
    assert len(positions) == 420  # those after the last prediction wait
    assert positions == pytest.approx([bias] * 420, abs=math.radians(0.15))  # by straight lines, 7 degrees
    assert node.verdict.outcome == "passed", node.verdict


def test_what_has_no_partner_is_counted_and_nothing_is_invented_in_a_gap() -> None:
    node = started(gap_ms=50.0)
    said(node, "state", state(1.0, 0.0))
    assert said(node, "measured_state", state(0.5, 0.0)) == []  # before all predictions
    said(node, "state", state(1.2, 0.0))
    assert said(node, "measured_state", state(1.1, 0.0)) == []  # in the gap
    assert len(said(node, "measured_state", state(1.2, 0.0))) == 1  # the instant itself is known
    said(node, "measured_state", state(1.3, 0.0))
    assert node.counters == {"paired": 1, "unpaired": 2, "waiting": 1}
    node.on_reset(0.0)
    assert node.counters == {"paired": 1, "unpaired": 3, "waiting": 0}


def test_a_robot_that_sends_nothing_is_warned_of_once(monkeypatch: pytest.MonkeyPatch) -> None:
    warned: list[str] = []
    monkeypatch.setattr(Context, "warn", lambda _, line: warned.append(line))
    for measured, expected in ((False, 1), (True, 0)):
        node = started()
        warned.clear()
        for k in range(31):
            said(node, "state", state(0.1 * k, 0.0))
            if measured and k == 5:
                said(node, "measured_state", state(0.1 * k, 0.0))
        lines = [line for line in warned if "is the robot on" in line]
        assert len(lines) == expected


def test_a_run_that_ends_before_the_comparison_begins_is_not_called_silent() -> None:
    node = started(settle_s=1.0)
    for k in range(5):
        said(node, "state", state(0.01 * k, 0.0))
        said(node, "measured_state", state(0.01 * k, 0.0))
    assert str(node.verdict).startswith("failed: all 5 compared states are from before 1 s, where the verdict begins")


def test_a_known_delay_is_taken_out() -> None:
    node = started(known_delay_ms=20.0)
    for k in range(11):
        said(node, "state", state(0.01 * k, 0.01 * k))
    (residual,) = said(node, "measured_state", state(0.06, 0.04))
    assert residual.position == pytest.approx([0.0], abs=1e-12)


def test_the_verdict_names_the_first_joint_beyond_its_limit() -> None:
    node = started(rms_deg=1.0, bias_deg=1.0, max_deg=3.0)
    assert (node.verdict.outcome, node.verdict.report) == ("failed", "")
    assert node.verdict.reason.startswith("nothing was measured")
    for k in range(5):
        said(node, "state", state(0.01 * k, 0.0, 0.0))
        said(node, "measured_state", state(0.01 * k, math.radians(0.5), 0.0))
    assert str(node.verdict) == (
        "passed: by positions alone, a comes nearest to its limits, with an RMS of 0.5 deg; "
        "5 states compared, 0 without a partner"
    )
    said(node, "state", state(0.1, 0.0, 0.0))
    said(node, "measured_state", state(0.1, math.radians(0.5), math.radians(4.0)))
    assert str(node.verdict) == (
        "failed: rms of b is 1.63 deg, at most 1 deg and 1 more; 6 states compared, 0 without a partner"
    )


def stop(kind: str, **more: Any) -> Event:
    return Event(kind=kind, node="hardware", key="upper of a", **more)


def test_a_verdict_names_the_guards_that_stopped_the_robot_or_limited_commands() -> None:
    node = started()

    def until(end: int) -> None:
        for k in range(round(100 * node._time) + 1, end + 1):
            said(node, "state", state(0.01 * k, 0.0))
            said(node, "measured_state", state(0.01 * k, 0.0))

    until(10)
    assert "guard" not in str(node.verdict)
    said(node, "event", stop("guard_clamp", part="a", detail="position 3 of a becomes 1 (limit: upper)"))
    until(20)
    assert node.verdict.outcome == "passed"
    limited = "hardware: commands were limited by upper of a of a, first at t = 0.100 s"
    assert node.verdict.reason.endswith(f"; with changes by guards: {limited}")
    said(node, "event", stop("guard_stop", detail="too far: controlled stop"))
    until(50)
    stopped = "hardware stopped the robot at t = 0.200 s for 0.300 s"
    assert str(node.verdict).startswith(
        f"not certain: the commanded motion was not compared to its end: {stopped}, still stopped at the end: too far; "
    )
    saved = node.snapshot()
    said(node, "event", stop("guard_acknowledged"))
    until(80)
    assert node.verdict.outcome == "passed"
    assert node.verdict.reason.endswith(f"; with changes by guards: {stopped}: too far; {limited}")
    node.restore(saved)
    until(60)
    assert "at t = 0.200 s for 0.400 s, still stopped" in node.verdict.reason


def test_a_verdict_names_the_time_in_which_the_robots_states_are_missing() -> None:
    node = started(max_deg=1.0)

    def until(end: int, is_measured: bool, position: float = 0.0) -> None:
        for k in range(round(100 * node._time) + 1, end + 1):
            said(node, "state", state(0.01 * k, 0.0))
            if is_measured:
                said(node, "measured_state", state(0.01 * k, position))

    until(100, True)
    until(190, False)
    until(200, True)
    assert node.verdict.outcome == "passed"  # a pause of 0.9 s is that of a busy computer
    until(349, False)
    pause = "the robot's states are missing from t = 2.000 s to 3.500 s (about 149 states)"
    until(400, True)
    assert str(node.verdict).startswith(f"not certain: {pause}, and that motion was not compared; ")
    saved = node.snapshot()
    until(550, False)  # and the driver does not go on
    assert f"{pause[:-1]}), from t = 4.000 s to 5.500 s (about 149 states), and that motion" in node.verdict.reason
    node.restore(saved)
    until(560, True, math.radians(5.0))
    assert node.verdict.outcome == "failed"  # a limit is exceeded, pause or not
    assert node.verdict.reason.endswith(f"; {pause}")


def test_joints_that_slide_are_judged_in_millimetres() -> None:
    node = started()
    said(node, "description", Description(joints=[JointDescription(name="a", kind="prismatic", unit="m")]))
    said(node, "state", state(0.0, 0.0))
    said(node, "measured_state", state(0.0, 0.0025))
    assert str(node.verdict).startswith("failed: bias of a is 2.5 mm, at most 1 mm and 1 more")


def test_residuals_are_recorded_and_the_delay_and_the_bias_are_found(tmp_path: Path) -> None:
    (tmp_path / "late.py").write_text(LATE)
    loose = {"bias_deg": 5.0, "rms_deg": 20.0, "max_deg": 90.0}
    nodes = [
        NodePlan(name="late", run="late.py:Late"),
        NodePlan(name="compare", run="nodes/hil_compare.py:HilCompare", params=loose),
        NodePlan(name="recorder", run="nodes/recorder.py:Recorder", params={"file": str(tmp_path / "run.mcap")}),
    ]
    sim = SimPlan(robot="rotary_pendulum", mode="lockstep", parameters={"start_deg": 60.0})
    with compose(Plan(name="late", folder=str(tmp_path), duration_s=2.0, sim=sim, nodes=nodes)) as composition:
        composition.run()
        node = composition.nodes["compare"].node
    assert isinstance(node, HilCompare)
    assert node.counters == {"paired": 498, "unpaired": 0, "waiting": 0}
    assert str(node.verdict).startswith("failed: arm is 8.0 ms late, at most 5 ms and 1 more;")
    assert read_case(tmp_path / "run.mcap", None).limits == loose  # the report judges by the launch file too
    recording = read_recording(tmp_path / "run.mcap")
    residual, measured = recording["rotary_pendulum/residual"], recording["rotary_pendulum/measured_state"]
    assert residual["state_seq"].tolist() == measured["seq"].tolist()[: len(residual["state_seq"])]
    states = recording["rotary_pendulum/state"]
    at = {round(t, 6): p for t, p in zip(states["timestamp"].tolist(), states["position"], strict=True)}
    expected = [p - at[round(t, 6)] for t, p in zip(measured["timestamp"].tolist(), measured["position"], strict=True)]
    assert residual["position"] == pytest.approx(np.array(expected)[: len(residual["position"])], abs=1e-12)


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [("rms_deg", -1, "rms_deg is -1.0; it must be a number above 0"), ("rms_dg", 1, "did you mean 'rms_deg'?")],
)
def test_wrong_limits_are_refused_before_anything_starts(key: str, value: float, says: str, tmp_path: Path) -> None:
    file = tmp_path / "plan.toml"
    node = f'[[nodes]]\nname = "compare"\nrun = "nodes/hil_compare.py:HilCompare"\nparams = {{ {key} = {value} }}\n'
    file.write_text(f'[sim]\nrobot = "rotary_pendulum"\n{node}')
    with pytest.raises(PlanError, match=says.replace("?", r"\?")):
        load_plan(file)
