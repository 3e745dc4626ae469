"""Planted errors are found and named in real simulated recordings, and nothing is named where nothing is wrong."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nodes.cli.application import run as armswing
from nodes.framework.messages import RobotState, Status, Verdict
from nodes.framework.plan.files.file import load_plan
from nodes.framework.plan.launch_plan import NodePlan, Plan, SimPlan
from nodes.framework.recording.reader import RecordingWriter, read_recording
from nodes.framework.simulation.compose import compose
from nodes.hil.alignment.comparison import compare
from nodes.hil.alignment.streams import Stream
from nodes.hil.identification.causes import Hint, ModelErrorHypotheses
from nodes.hil.identification.diagnosis import diagnose
from nodes.hil.report.limits import Limits
from nodes.hil.report.reading import COMPARER
from nodes.hil.report.run_notes import run_notes
from nodes.hil_compare import HilCompare
from robots import registry
from sim_core.mechanism import Mechanism

ROOT = Path(__file__).resolve().parents[3]
HEAVY = "link_10"
SENSORS = '''
"""A robot's sensors, with faults: each publishes for a robot of its own."""

import math
from collections import deque

from nodes.node import Node
from nodes.framework.messages import RobotState

FAULTS = ("biased", "late", "dead", "coarse", "paused", "ended")


class Sensors(Node):
    subscribes = {"state": RobotState}
    publishes = {"measured_state": RobotState} | {f"/{fault}/measured_state": RobotState for fault in FAULTS}

    def on_start(self, context):
        self.past = deque(maxlen=13)
        self.random = context.random

    def on_message(self, name, state):
        self.past.append(state)
        yield "measured_state", self.said(state)
        yield "/biased/measured_state", self.said(state, zero=math.radians(0.5))
        if len(self.past) == 13:  # what was 12 ms ago
            yield "/late/measured_state", self.said(self.past[0])
        frozen = {} if state.timestamp < 1.0 else {"elbow": 0.25}
        yield "/dead/measured_state", self.said(state, **frozen)
        if not 1.2 < state.timestamp < 2.7:
            yield "/paused/measured_state", self.said(state)
        if state.timestamp < 2.5:
            yield "/ended/measured_state", self.said(state)
        if state.seq % 10 == 1 and not 1.2 < state.timestamp < 1.5 and self.random.random() > 0.05:
            yield "/coarse/measured_state", self.coarse(state)

    def said(self, state, zero=0.0, elbow=None):
        shoulder, turned = state.position
        position = [shoulder, turned + zero if elbow is None else elbow]
        return RobotState(name=state.name, position=position, velocity=state.velocity, effort=state.effort)

    def coarse(self, state):
        step = math.tau / 2**14
        position = [step * round(value / step) for value in state.position]
        velocity = [value + self.random.normal(0.0, 1e-3) for value in state.velocity]
        return RobotState(name=state.name, position=position, velocity=velocity, effort=state.effort)
'''


def plan(file: Path, *nodes: NodePlan) -> Plan:
    """The arm of two joints follows waypoints for 4 s."""
    joints = ["joint_2", "joint_4"]
    waypoints = [[0.1, 0, 0], [1.0, 40, -50], [2.0, 10, 60], [3.0, -30, 30], [3.9, 20, -20]]
    moves = {"joints": joints, "kind": "minimum_jerk", "waypoints": waypoints}
    gains = {"joints": joints, "stiffness": [400.0, 200.0], "damping": [40.0, 15.0]}
    return Plan(
        name="arm",
        folder=str(file.parent),
        duration_s=4.0,
        sim=SimPlan(robot="arm_2dof", mode="lockstep"),
        nodes=[
            NodePlan(name="trajectory", run="nodes/trajectory.py:Trajectory", decimation=10, params=moves),
            NodePlan(name="pd", run="nodes/controllers/pd.py:JointPD", params=gains),
            *nodes,
            NodePlan(name="recorder", run="nodes/recorder.py:Recorder", params={"file": str(file)}),
        ],
    )


def heavier() -> Mechanism:
    """The arm with one link 5 % heavier."""
    mechanism = registry.chain.arm_2dof()
    link = mechanism.body(HEAVY)
    heavy = dataclasses.replace(link, mass=1.05 * link.mass, inertia=tuple(1.05 * each for each in link.inertia))
    return dataclasses.replace(mechanism, bodies=tuple(heavy if body is link else body for body in mechanism.bodies))


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with model.mcap (the model under its controller, and its sensors) and heavy.mcap (the other arm)."""
    folder = tmp_path_factory.mktemp("recordings")
    (folder / "sensors.py").write_text(SENSORS)
    with compose(plan(folder / "model.mcap", NodePlan(name="sensors", run="sensors.py:Sensors"))) as composition:
        composition.run()
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(registry.BUILTIN, "arm_2dof", heavier)
        with compose(plan(folder / "heavy.mcap")) as composition:
            composition.run()
    return folder


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def report(capsys: pytest.CaptureFixture[str], *arguments: Any) -> tuple[int, dict[str, Any]]:
    code = armswing(["hil", "report", "--json", *map(str, arguments)])
    return code, json.loads(capsys.readouterr().out)


def named(verdict: dict[str, Any]) -> list[tuple[str, str]]:
    return [(finding["kind"], finding["of"]) for finding in verdict["findings"]]


def test_a_mass_of_5_percent_too_much_is_named(recordings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, verdict = report(capsys, recordings / "heavy.mcap", recordings / "model.mcap")
    assert (code, named(verdict)) == (1, [("mass", HEAVY)])
    assert Path("heavy_report/index.html").is_file()  # a folder for each recording
    assert verdict["findings"][0]["value"] == pytest.approx(0.05, abs=1e-4)


def test_a_delay_of_12_ms_is_named(recordings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, verdict = report(capsys, recordings / "model.mcap", "--measured", "late/measured_state")
    assert (code, named(verdict)) == (1, [("delay", "")])
    assert verdict["findings"][0]["value"] == pytest.approx(0.012, abs=1e-6)
    assert max(joint["max"] for joint in verdict["joints"]) < 1e-5  # with the delay taken out nothing is left
    assert armswing(["hil", "report", str(recordings / "model.mcap"), "--measured", "late/measured_state"]) == 1
    lines = capsys.readouterr().out.splitlines()
    for joint in ("joint_2", "joint_4"):  # each delay beyond its limit, in the words of the live comparison
        assert f"beyond limits: {joint} is 12.0 ms late, at most 5 ms" in lines


def test_a_bias_of_half_a_degree_is_named(recordings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, verdict = report(capsys, recordings / "model.mcap", "--measured", "biased/measured_state")
    assert (code, named(verdict)) == (1, [("bias", "joint_4")])
    assert math.degrees(verdict["findings"][0]["value"]) == pytest.approx(0.5, abs=1e-6)
    assert [cause["kind"] for cause in verdict["hints"]["causes"]] == ["encoder_zero"]


def test_a_dead_encoder_is_named(recordings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, verdict = report(capsys, recordings / "model.mcap", "--measured", "dead/measured_state")
    assert (code, named(verdict)) == (1, [("dead_encoder", "joint_4")])
    (stretch,) = verdict["joints"][1]["dead"]
    assert (stretch["start_s"], stretch["end_s"]) == pytest.approx((1.0, 4.0), abs=2e-3)
    assert verdict["joints"][0]["dead"] == []
    assert ": it reads 14.3 deg from t = " in verdict["findings"][0]["text"].replace("is dead", "")
    assert not verdict["exceeded"]


def test_nothing_is_wrong_where_nothing_is(recordings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, verdict = report(capsys, recordings / "model.mcap")
    assert (code, verdict["passed"], verdict["findings"], verdict["exceeded"]) == (0, True, [], [])
    assert verdict["delay_s"] == 0.0
    assert [joint["max"] for joint in verdict["joints"]] == [0.0, 0.0]


def test_coarse_encoders_lost_samples_and_a_gap_are_no_error(
    recordings: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, verdict = report(capsys, recordings / "model.mcap", "--measured", "coarse/measured_state")
    assert (code, named(verdict)) == (0, [])
    (gap,) = verdict["measured"]["gaps"]
    assert gap["start_s"] <= 1.2 + 1e-9
    assert gap["end_s"] >= 1.5 - 1e-9
    assert max(joint["max"] for joint in verdict["joints"]) <= math.tau / 2**15 * 1.01  # half a step of the encoder


@pytest.mark.parametrize(("driver", "since", "until"), [("paused", "1.200", "2.700"), ("ended", "2.499", "4.000")])
def test_a_driver_that_stood_still_is_named_and_nothing_is_certain(
    driver: str, since: str, until: str, recordings: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, verdict = report(capsys, recordings / "model.mcap", "--measured", f"{driver}/measured_state")
    assert (code, verdict["outcome"], named(verdict)) == (3, "not certain", [])
    missing = rf"the robot's states are missing from t = {since} s to {until} s \(about (1499|1500) states\)"
    assert re.fullmatch(f"{missing}, and that motion was not compared", verdict["reason"])


def test_the_report_tells_how_the_run_went(tmp_path: Path) -> None:
    said = [
        Status(timestamp=1.0, node="sim", counters={"skipped": 3, "lost": 0}),
        Status(timestamp=1.0, node="compare", counters={"lost": 849, "unpaired": 45}, verdict=Verdict("passed", "a")),
        Status(timestamp=1.0, node="board", counters={"lost": 0, "frames": 9}, verdict=Verdict("passed", "9 frames")),
    ]
    with RecordingWriter(tmp_path / "run.mcap", {}) as writer:
        for k in range(11):
            writer.write("arm/state", RobotState(timestamp=0.1 * k, sent_ns=10**9 + 200_000_000 * k), 0.1 * k)
        for status in said:
            writer.write("status", status, 1.0)
    plan = {
        "duration_s": 6.0,
        "sim": {"mode": "realtime"},
        "nodes": [{"name": "compare", "run": "nodes/hil_compare.py:HilCompare"}],
    }
    (cut_off, *notes) = list(run_notes(read_recording(tmp_path / "run.mcap"), "arm/state", plan, COMPARER))
    assert cut_off == "the recording ends at t = 1 s of the 6 s of its launch file"
    assert notes[0].endswith("real-time factor 0.500, the deadlines of 3 steps were skipped")
    assert notes[1] == "messages were lost on the way to compare 849"
    assert notes[2] == "verdict of compare at the end of the recording: passed: a"
    assert "so that the counts differ" in notes[3]
    assert notes[4:] == ["verdict of board at the end of the recording: passed: 9 frames"]


def test_a_limit_of_the_command_line_holds(recordings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    late = (recordings / "model.mcap", "--measured", "late/measured_state")
    code, verdict = report(capsys, *late, "--limit", "delay_ms=15")
    assert code == 0
    assert [(finding["kind"], finding["failed"]) for finding in verdict["findings"]] == [("delay", False)]


def test_the_page_shows_each_joint_and_names_the_fault(recordings: Path, tmp_path: Path) -> None:
    assert armswing(["hil", "report", str(recordings / "heavy.mcap"), str(recordings / "model.mcap"), "-o", "out"]) == 1
    page = (tmp_path / "out/index.html").read_text()
    assert f"mass of {HEAVY} is +5.00% against the model" in page
    assert "<b>1</b> finding, <b>1</b> of them beyond its limit" in " ".join(page.split())
    for file in ("joint_01.png", "joint_02.png"):
        assert f"plots/{file}" in page
        assert (tmp_path / "out/plots" / file).read_bytes().startswith(b"\x89PNG")
    assert json.loads((tmp_path / "out/verdict.json").read_text())["passed"] is False


BAD = {
    "no.mcap": "no recording 'no.mcap'",
    "hil_robto.mcap": "no recording 'hil_robto.mcap'; did you mean 'hil_robot.mcap'?",
    "MODEL --measured arm_2dof/state": "would be compared with itself",
    "MODEL --measured arm_2dof/stat": "has no topic 'arm_2dof/stat'",
    "MODEL --measured arm_2dof/command": "has no joint states",
    "HEAVY": "nothing was measured, so give a second recording to compare with",
    "MODEL --limit rms=1": "no such limit; limits are bias_deg",
    "MODEL --limit rms=0.3": "did you mean 'rms_deg' or 'rms_mm'?",
    "MODEL --limit rms_deg": "for example --limit rms_deg=0.3",
    "MODEL --limit rms_deg=0.3deg": "expected a number in the unit at the end of the name, as in --limit rms_deg=0.3",
    "MODEL --limit rms_deg=-1": "rms_deg is -1.0; it must be a number above 0",
    "MODEL --output taken": "holds 'mine.txt', which no report wrote",
    "MODEL --output no/folder": "there is no folder",
}


@pytest.mark.parametrize("arguments", list(BAD))
def test_bad_input_is_one_line(
    arguments: str, recordings: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "hil_robot.mcap").touch()
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "mine.txt").touch()
    files = {"MODEL": str(recordings / "model.mcap"), "HEAVY": str(recordings / "heavy.mcap")}
    assert armswing(["hil", "report", *(files.get(word, word) for word in arguments.split())]) == 2
    error = capsys.readouterr().err
    assert BAD[arguments] in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("difference", "kind", "value"),
    [
        ("gain.joint_2=0.05", "gain", 0.05),
        ("friction.joint_2=1.0", "friction", 1.0),
        ("dry_friction.joint_2=1.0", "dry_friction", 1.0),
    ],
)
def test_of_mass_friction_and_gain_the_one_that_a_robot_has_is_named_alone(
    difference: str, kind: str, value: float, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = ["sim.step_ms=2", "trajectory.decimation=5", "hardware.sample_hz=250", f"hardware.{difference}"]
    hil = load_plan(ROOT / "launch/hil_robot.toml", settings)
    hil.duration_s = 2.6
    with compose(hil) as composition:
        composition.run()
    code, verdict = report(capsys, "hil_robot.mcap")
    assert (code, named(verdict)) == (1, [(kind, "joint_2")])
    assert verdict["findings"][0]["value"] == pytest.approx(value, rel=0.05)


def test_the_report_names_the_limits_that_the_launch_names_in_the_same_words(
    capsys: pytest.CaptureFixture[str],
) -> None:
    hil = load_plan(ROOT / "launch/hil_robot.toml", ["hardware.friction.joint_1=2.0"])
    hil.duration_s = 3.0
    with compose(hil) as composition:
        composition.run()
        compare = composition.nodes["compare"].node
        assert isinstance(compare, HilCompare)
        live = [text for joint, sums in compare._sums.items() for text, _ in compare._beyond(joint, sums)]
    assert armswing(["hil", "report", "hil_robot.mcap"]) == 1
    printed = capsys.readouterr().out.splitlines()
    assert live[0].startswith("bias of joint_1 is -0.2")
    assert [f"beyond limits: {text}" for text in live[:-1]] == [line for line in printed if " of joint_1 is " in line][
        1:
    ]
    (late,) = [line.partition(": ")[2] for line in printed if " ms late, " in line]
    for text in (late, live[-1]):  # the two determine a delay by different methods
        assert re.fullmatch(r"joint_1 is 3[12]\.\d ms late, at most 3 ms", text)
    page = Path("hil_robot_report/index.html").read_text()
    assert re.search(r"<b>3[12]\.\d+</b>", page)


def test_backlash_is_named_and_is_no_negative_friction(capsys: pytest.CaptureFixture[str]) -> None:
    hil = load_plan(ROOT / "launch/hil_robot.toml", ["hardware.backlash.joint_3=0.1", "hardware.backlash.joint_2=0.1"])
    hil.duration_s = 4.0
    with compose(hil) as composition:
        composition.run()
    code, verdict = report(capsys, "hil_robot.mcap")
    assert (code, sorted(named(verdict))) == (1, [("backlash", "joint_2"), ("backlash", "joint_3")])
    for finding in verdict["findings"]:  # 0.1 rad at take_up_rate, 1 rad/s
        assert finding["value"] == pytest.approx(0.1, rel=0.2)
        assert finding["limit"] == "3 % of its efforts"


def test_efforts_that_no_cause_explains_name_none() -> None:
    friction = Hint(
        kind="friction", of="b", value=0.5, sigma=0.01, unit="N m s/rad", share=0.1, explains=0.2, alike=["mass of c"]
    )
    same = Stream(np.arange(0.0, 2.0, 0.01), ("b",), np.sin(np.arange(0.0, 2.0, 0.01))[:, None])
    found = diagnose(
        compare(same, same), ModelErrorHypotheses(causes=[friction], following=0.3, unexplained=0.2), Limits()
    )
    (finding,) = found.findings
    assert (finding.kind, finding.failed, finding.limit) == ("efforts", True, "3 %")
    assert "; no combination of known causes explains it (best: viscous friction of b, 20%); several" in finding.text


@pytest.mark.parametrize(("play", "failed"), [(0.05, True), (0.0, False)])
def test_play_in_a_gear_is_named_by_how_long_the_joint_is_free(
    play: float, failed: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = [
        "sim.step_ms=2",
        "trajectory.decimation=5",
        "hardware.sample_hz=250",
        f"hardware.backlash.joint_2={play}",
    ]
    hil = load_plan(ROOT / "launch/hil_robot.toml", settings)
    with compose(hil) as composition:
        composition.run()
    code, verdict = report(capsys, "hil_robot.mcap")
    assert (code, named(verdict)) == ((1, [("backlash", "joint_2")]) if failed else (0, []))
    if failed:  # at 1 rad/s it takes 50 ms to cross all of it
        assert 0.035 < verdict["findings"][0]["value"] < 0.055
        assert "play in the gear of joint_2: the joint is free for " in verdict["findings"][0]["text"]
