"""The recorder and the player as nodes: everything heard is in the file, and the file is said again in its time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from mcap.reader import make_reader

import nodes.recorder
from nodes.cli.application import run as armswing
from nodes.framework.messages import Description, JointCommand, Message, RobotState, Status
from nodes.framework.messages.codec import AnyMessage
from nodes.framework.plan.files.file import load_plan
from nodes.framework.plan.launch_plan import NodePlan, Plan, SimPlan
from nodes.framework.recording import writer as recording_writer
from nodes.framework.recording.compare import compare
from nodes.framework.recording.csv import export_csv
from nodes.framework.recording.places import before_path, sidecar_path
from nodes.framework.recording.reader import RecordingError, RecordingWarning, RecordingWriter, describe, read_recording
from nodes.framework.simulation.compose import compose
from nodes.framework.simulation.replay.comparison import Tolerances
from nodes.framework.simulation.replay.replay import node_of, plan_of, read_lines, replay
from nodes.node import Context, Node
from nodes.player import Player
from nodes.recorder import Recorder, run_metadata, run_sidecar

LOCKSTEP = Path(__file__).parents[2] / "launch" / "rotary_pendulum_lockstep.toml"
PLAN = Plan(
    name="swing",
    folder="/home/somebody/project",
    domain=12,
    sim=SimPlan(robot="arm", parameters={"mass": 0.2}),
    nodes=[
        NodePlan(name="recorder", run="nodes/recorder.py:Recorder", params={"file": "x.mcap", "flush_s": 0.2}),
        NodePlan(name="mine", run="/home/somebody/mine.py:Mine"),
    ],
)


def context(node: Node, **params: Any) -> Context:
    return Context(
        name="recorder",
        robot="arm",
        step_s=1e-3,
        params=node.Params(**params),
        random=np.random.default_rng(0),
        plan=PLAN,
    )


def started(path: Path, **params: Any) -> tuple[Recorder, Context]:
    recorder = Recorder()
    given = context(recorder, file=str(path), **params)
    recorder.on_start(given)
    return recorder, given


def run_in_lockstep(path: Path, ticks: int = 300) -> None:
    recorder, _ = started(path)
    for tick in range(ticks):
        recorder.on_message("arm/state", RobotState(timestamp=tick * 1e-3, seq=tick, position=[0.1]))
        recorder.on_message("arm/command", JointCommand(timestamp=tick * 1e-3, seq=tick, name=["a"], value=[0.0]))
        if tick % 50 == 0:
            recorder.on_tick(tick * 1e-3)
    recorder.on_stop()


def test_every_topic_is_recorded_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "run.mcap"
    recorder, _ = started(path)
    recorder.on_message("arm/description", Description(robot="arm"))
    recorder.on_message("status", Status(node="sim", state="running"))
    recorder.on_message("arm/state", RobotState(timestamp=0.001, seq=1))
    assert recorder.counters["frames_written"] == 3
    recorder.on_stop()
    recording = read_recording(path)
    assert recording.topics == ["arm/description", "status", "arm/state"]
    assert recording["arm/state"]["log_time"].tolist() == [0.001]


def test_two_lockstep_runs_give_the_same_bytes(tmp_path: Path) -> None:
    run_in_lockstep(tmp_path / "first.mcap")
    run_in_lockstep(tmp_path / "second.mcap")
    assert (tmp_path / "first.mcap").read_bytes() == (tmp_path / "second.mcap").read_bytes()


def test_the_plan_travels_in_the_file_without_paths_and_domain(tmp_path: Path) -> None:
    run_in_lockstep(tmp_path / "run.mcap", ticks=2)
    metadata = read_recording(tmp_path / "run.mcap").metadata
    assert metadata["parameters"] == '{"mass":0.2}'
    assert '"run":"mine.py:Mine"' in metadata["plan"]
    assert '"flush_s":0.2' in metadata["plan"]
    for private in ("somebody", "x.mcap", "domain"):
        assert private not in metadata["plan"]


def test_flushes_come_at_least_as_often_as_asked(tmp_path: Path) -> None:
    path = tmp_path / "run.mcap"
    recorder, _ = started(path, flush_s=0.5)
    times = np.arange(0.0, 3.0, 1.0 / recorder.rate_hz)
    flushed = []
    for tick, now in enumerate(times):
        before = recorder.counters["bytes_written"]
        recorder.on_message("arm/state", RobotState(timestamp=float(now), seq=tick))
        recorder.on_tick(100.0 + float(now))
        if recorder.counters["bytes_written"] > before:
            flushed.append(now)
    assert len(read_recording(path)["arm/state"]["seq"]) > 50
    assert max(np.diff(flushed)) <= 0.5
    recorder.on_stop()


def test_what_another_clock_stamped_is_logged_when_it_was_heard(tmp_path: Path) -> None:
    recorder, _ = started(tmp_path / "run.mcap")
    recorder.on_message("arm/state", RobotState(timestamp=0.25, seq=1))
    recorder.on_message("arm/measured_state", RobotState(timestamp=1.8e9, seq=1, clock="robot"))
    recorder.on_message(
        "arm/applied_command", JointCommand(timestamp=1.8e9, seq=1, name=["a"], value=[0.0], clock="robot")
    )
    recorder.on_stop()
    recording = read_recording(tmp_path / "run.mcap")
    for topic in ("arm/measured_state", "arm/applied_command"):
        assert recording[topic]["log_time"].tolist() == [0.25]
        assert recording[topic]["timestamp"].tolist() == [1.8e9]


def test_a_full_disk_is_reported_and_outlived(tmp_path: Path) -> None:
    recorder, given = started(tmp_path / "run.mcap")
    recorder._writer = RecordingWriter("/dev/full", {}, sidecar=None)
    recorder.on_message("arm/state", RobotState(timestamp=0.0))
    recorder.on_tick(10.0)
    assert recorder.counters["write_failures"] == 1
    assert recorder.counters["frames_dropped"] == 0
    assert recorder.on_request("recording", {})["failure"] == "No space left on device"
    assert any("No space left" in line for _, line in given.log)
    recorder.on_message("arm/state", RobotState(timestamp=0.1))
    assert recorder.counters["frames_written"] == 2


def test_a_message_without_a_possible_time_is_dropped_and_said(tmp_path: Path) -> None:
    recorder, given = started(tmp_path / "run.mcap")
    recorder.on_message("arm/state", RobotState(timestamp=float("nan")))
    assert recorder.counters["frames_dropped"] == 1
    assert "arm/state" in given.log[0][1]
    recorder.on_stop()


def test_a_recorder_started_again_keeps_what_was_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "run.mcap"
    crashed, _ = started(path)
    crashed.on_message("arm/state", RobotState(timestamp=0.0, seq=5))
    crashed.on_tick(0.0)
    again, given = started(path)
    again.on_message("arm/state", RobotState(timestamp=0.1, seq=6))
    assert "run.cut-1.mcap" in given.log[0][1]
    assert read_recording(tmp_path / "run.cut-1.mcap")["arm/state"]["seq"].tolist() == [5]
    assert read_recording(path)["arm/state"]["seq"].tolist() == [6]


def test_a_run_without_a_state_leaves_the_recording_that_was_there(tmp_path: Path) -> None:
    path = tmp_path / "run.mcap"
    run_in_lockstep(path)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    recorder, given = started(path)
    recorder.on_message("arm/description", Description(robot="arm"))
    recorder.on_message("status", Status(node="sim"))
    recorder.on_tick(0.5)
    assert not recorder.on_request("recording", {})["kept"]
    recorder.on_stop()
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before
    assert given.log == [("info", f"no robot state was received, so nothing is recorded; {path} is unchanged")]


def test_a_recorder_killed_at_any_moment_leaves_one_readable_recording_with_its_own_sidecar(tmp_path: Path) -> None:
    path = tmp_path / "run.mcap"
    run_in_lockstep(path, ticks=7)
    old = path.read_bytes(), sidecar_path(path).read_bytes()
    recorder, _ = started(path)  # never stopped: all that the disk has at each line is what a kill would leave
    recorder.on_message("arm/description", Description(robot="arm"))
    recorder.on_tick(0.0)
    assert (path.read_bytes(), sidecar_path(path).read_bytes()) == old
    recorder.on_message("arm/state", RobotState(timestamp=0.0, seq=41))
    found = read_recording(path)
    assert (found.truncated, found["arm/state"]["seq"].tolist()) == (True, [41])
    assert found.description is not None
    assert sidecar_path(path).read_bytes() != old[1]
    kept = before_path(path)
    assert (kept.read_bytes(), sidecar_path(kept).read_bytes()) == old
    names = {file.name for file in (path, kept, sidecar_path(path), sidecar_path(kept))}
    assert {file.name for file in tmp_path.iterdir()} == names


def test_the_recording_before_is_kept_and_those_before_it_are_not(tmp_path: Path) -> None:
    path, kept = tmp_path / "run.mcap", tmp_path / "run.before.mcap"
    written = []
    for ticks in (5, 6, 7):
        run_in_lockstep(path, ticks)
        written.append((path.read_bytes(), sidecar_path(path).read_bytes()))
    assert (kept.read_bytes(), sidecar_path(kept).read_bytes()) == written[1]
    assert (path.read_bytes(), sidecar_path(path).read_bytes()) == written[2]
    assert len(list(tmp_path.iterdir())) == 4
    sidecar_path(path).unlink()  # the file travelled without it
    run_in_lockstep(path, 8)
    assert kept.read_bytes() == written[2][0]
    assert not sidecar_path(kept).exists()


def test_of_a_link_the_recording_before_is_kept_beside_the_file_that_it_names(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    there, link = tmp_path / "disk" / "run.mcap", tmp_path / "run.mcap"
    run_in_lockstep(there, 5)
    old = there.read_bytes()
    link.symlink_to(there)
    run_in_lockstep(link, 6)
    assert link.is_symlink()
    assert before_path(there).read_bytes() == old
    assert len(read_recording(link)["arm/state"]["seq"]) == 6


def test_a_full_disk_at_the_first_state_keeps_the_old_recording_until_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.mcap"
    run_in_lockstep(path, ticks=7)
    old = path.read_bytes()
    recorder, _ = started(path)

    def full(descriptor: int, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(recording_writer.os, "write", full)
        recorder.on_message("arm/state", RobotState(timestamp=0.0, seq=41))
        assert path.read_bytes() == old
    recorder.on_tick(1.0)
    assert read_recording(path)["arm/state"]["seq"].tolist() == [41]


def test_a_link_keeps_pointing_to_the_file_that_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    link = tmp_path / "run.mcap"
    link.symlink_to(tmp_path / "store" / "run.mcap")
    for _ in range(2):
        run_in_lockstep(link, ticks=3)
    assert link.is_symlink()
    assert len(read_recording(tmp_path / "store" / "run.mcap")["arm/state"]["seq"]) == 3


def test_a_recorder_beside_a_launch_says_so_and_keeps_the_plan_it_was_told(tmp_path: Path) -> None:
    path = tmp_path / "run.mcap"
    recorder = Recorder()
    given = context(recorder, file=str(path))
    given.name = "record"
    mine = NodePlan(name="mine", run="/home/somebody/project/launch/mine.py:Mine")
    given.plan = msgspec.structs.replace(PLAN, nodes=[mine])
    recorder.on_start(given)
    recorder.on_message("arm/state", RobotState())
    recorder.on_stop()
    metadata = read_recording(path).metadata
    assert metadata["recorded_by"] == "hand, node 'record' beside the launch"
    (node,) = json.loads(metadata["plan"])["nodes"]
    assert (node["name"], node["run"]) == ("mine", "launch/mine.py:Mine")


def test_nodes_are_named_as_a_launch_file_may_name_them(tmp_path: Path) -> None:
    path = tmp_path / "run.mcap"
    given = context(Recorder(), file=str(path))
    ours = Path(nodes.recorder.__file__)
    runs = [f"{ours}:Recorder", "/elsewhere/x.py:X", "nodes/player.py:Player"]
    named = [NodePlan(name=f"n{index}", run=run) for index, run in enumerate(runs)]
    given.plan = msgspec.structs.replace(PLAN, nodes=named)
    found = [node["run"] for node in json.loads(run_metadata(given)["plan"])["nodes"]]
    assert found == ["nodes/recorder.py:Recorder", "x.py:X", "nodes/player.py:Player"]
    assert run_sidecar(given)["nodes_elsewhere"] == {"n1": "/elsewhere/x.py:X"}


def test_a_folder_that_is_not_there_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="No such file") as caught:
        started(tmp_path / "nowhere" / "run.mcap")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("params", [{"file": ""}, {"file": "a", "flush_s": 0.0}, {"file": "a", "flush_s": np.nan}])
def test_parameters_that_make_no_sense_are_refused(params: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"file|flush_s"):
        Recorder.Params(**params)


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    path = tmp_path / "run.mcap"
    with RecordingWriter(path, {}) as writer:
        writer.write("arm/description", Description(robot="arm"), 0.0)
        writer.write("status", Status(node="sim"), 0.0)
        for tick in range(1, 101):
            message = RobotState(timestamp=1.0 + tick * 1e-2, seq=tick, phi=float("nan"))
            writer.write("arm/state", message, message.timestamp)
    return path


def play(path: Path, until: float, step: float = 1e-3, **params: Any) -> list[tuple[float, str, Message]]:
    """(node time, name, message) of everything said, from a node clock that starts at 50 s."""
    player = Player()
    player.on_start(context(player, file=str(path), **params))
    said = []
    for now in 50.0 + np.arange(0.0, until, step):
        said += [(float(now) - 50.0, name, message) for name, message in player.on_tick(float(now))]
    return said


def test_a_recording_is_said_again_with_its_spacing(recorded: Path) -> None:
    said = play(recorded, until=3.0)
    assert [name for _, name, _ in said] == ["description", *["state"] * 100]
    states = [(when, message) for when, name, message in said if name == "state"]
    for when, message in states:
        assert when == pytest.approx(message.timestamp, abs=2e-3)
        assert isinstance(message, RobotState)
        assert np.isnan(message.phi)


def test_a_command_that_is_said_again_answers_no_state_of_this_run(tmp_path: Path) -> None:
    path = tmp_path / "commands.mcap"
    with RecordingWriter(path, {}) as writer:
        writer.write("arm/command", JointCommand(seq=1, name=["arm"], value=[0.5], state_seq=7), 0.0)
    [(_, name, message)] = play(path, until=0.1)
    assert isinstance(message, JointCommand)
    assert (name, message.value, message.state_seq) == ("command", [0.5], None)


def test_the_speed_is_a_factor_on_the_spacing(recorded: Path) -> None:
    said = play(recorded, until=1.2, speed=2.0)
    assert len(said) == 101
    assert said[-1][0] == pytest.approx(1.0, abs=2e-3)


def test_a_loop_starts_over(recorded: Path) -> None:
    said = play(recorded, until=4.5, step=0.01, loop=True)
    assert [name for _, name, _ in said].count("description") == 3


def test_a_recording_that_was_cut_off_plays_up_to_the_cut(recorded: Path) -> None:
    content = recorded.read_bytes()
    recorded.write_bytes(content[: content.index(b'"seq":80,')])
    said = play(recorded, until=3.0)
    assert 1 < len(said) < 101


def test_the_speed_may_change_while_playing(recorded: Path) -> None:
    player = Player()
    player.on_start(context(player, file=str(recorded)))
    list(player.on_tick(0.0))
    list(player.on_tick(1.0))
    player.on_parameters(Player.Params(file=str(recorded), speed=4.0))
    list(player.on_tick(1.1))
    progress = player.on_request("playback", {})
    assert progress["position_s"] == pytest.approx(1.4)
    assert not progress["done"]
    list(player.on_tick(2.0))
    assert player.on_request("playback", {})["done"]


def test_a_recording_without_robot_messages_is_refused(tmp_path: Path) -> None:
    with RecordingWriter(tmp_path / "run.mcap", {}) as writer:
        writer.write("status", Status(node="sim"), 0.0)
    player = Player()
    with pytest.raises(ValueError, match="contains no message of a robot"):
        player.on_start(context(player, file=str(tmp_path / "run.mcap")))


def test_a_plan_in_one_process_records_the_same_bytes_on_every_run(tmp_path: Path) -> None:
    recordings = []
    for name in ("first", "second"):
        path = tmp_path / f"{name}.mcap"
        plan = load_plan(LOCKSTEP, [f"recorder.file={path}"])
        with compose(plan) as run:
            run.run(0.3)
        recordings.append(path.read_bytes())
    assert recordings[0] == recordings[1]
    recording = read_recording(tmp_path / "first.mcap")
    robot = "rotary_pendulum"
    assert {f"{robot}/{name}" for name in ("description", "state", "command", "reference")} <= set(recording)
    np.testing.assert_array_equal(np.diff(recording[f"{robot}/state"]["seq"]), 1)
    assert recording.description is not None
    assert recording.description.robot == robot


def test_a_folder_that_is_not_there_is_refused_before_the_launch_starts(tmp_path: Path) -> None:
    Recorder.check(msgspec.convert({"file": str(tmp_path / "run.mcap")}, Recorder.Params), PLAN)
    with pytest.raises(ValueError, match=f"there is no folder '{tmp_path}/no'") as refused:
        Recorder.check(msgspec.convert({"file": f"{tmp_path}/no/run.mcap"}, Recorder.Params), PLAN)
    assert "\n" not in str(refused.value)


OWN = """
from armswing import Node, messages

class Temperature(messages.Message, kw_only=True):
    name: list[str] = []
    kelvin: list[float] = []
    by: dict[str, float] = {}

class Estimate(Node):
    subscribes = {"state": messages.RobotState}
    publishes = {"temperature": Temperature, "/room": Temperature}

    def on_message(self, name, state):
        yield "temperature", Temperature(name=["arm"], kelvin=[state.timestamp, float("nan")], by={"a": 1.0})
        yield "/room", Temperature(kelvin=[float(state.seq)])

class Twice(Node):
    subscribes = {"temperature": Temperature}
    publishes = {"twice": Temperature}

    def on_message(self, name, temperature):
        yield "twice", Temperature(kelvin=[2.0 * value for value in temperature.kelvin])
"""
OWN_PLAN = """
duration_s = 0.1
[sim]
robot = "rotary_pendulum"
mode = "lockstep"
[[nodes]]
name = "estimate"
run = "own.py:Estimate"
[[nodes]]
name = "twice"
run = "own.py:Twice"
[[nodes]]
name = "recorder"
run = "nodes/recorder.py:Recorder"
params = { file = "own.mcap" }
"""


def test_topics_of_ones_own_are_recorded_with_every_field(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN)
    (tmp_path / "own.toml").write_text(OWN_PLAN)
    contents = []
    for _ in range(2):
        with compose(load_plan(tmp_path / "own.toml", [f"recorder.file={tmp_path / 'own.mcap'}"])) as composition:
            composition.run(0.1)
        contents.append((tmp_path / "own.mcap").read_bytes())
    assert contents[0] == contents[1]
    recording = read_recording(tmp_path / "own.mcap")
    own = recording["rotary_pendulum/temperature"]
    assert own["seq"].tolist() == list(range(1, 101))
    np.testing.assert_array_equal(own["kelvin"][:, 0], own["timestamp"])
    assert np.isnan(own["kelvin"][:, 1]).all()
    assert (set(own["by.a"]), set(own["name"][:, 0])) == ({1.0}, {"arm"})
    assert recording["room"]["kelvin"][:, 0].tolist() == recording["rotary_pendulum/state"]["seq"][:100].tolist()
    with (tmp_path / "own.mcap").open("rb") as file:
        summary = make_reader(file).get_summary()
    assert summary is not None
    schemas = {channel.topic: summary.schemas[channel.schema_id] for channel in summary.channels.values()}
    properties = json.loads(schemas["rotary_pendulum/temperature"].data)["properties"]
    assert properties["kelvin"] == {"type": "array", "items": {"type": "number"}}

    lines, metadata = read_lines(tmp_path / "own.mcap")
    plan = plan_of(metadata, tmp_path / "own.mcap")
    outcome = replay(lines, plan, node_of(plan, f"{tmp_path / 'own.py'}:Twice", None, {}), Tolerances())
    assert (outcome.heard, outcome.compared, outcome.differing) == (100, 100, 0)


def test_a_message_that_json_cannot_express_is_a_hole_and_fails_the_verdict(tmp_path: Path) -> None:
    recorder, _ = started(tmp_path / "run.mcap")
    for seq in range(1, 4):
        recorder.on_message("arm/state", RobotState(timestamp=seq * 1e-3, seq=seq))
        content = {"odd": msgspec.msgpack.Ext(5, b"x")} if seq == 2 else {"odd": seq}
        recorder.on_message("arm/own", AnyMessage(timestamp=seq * 1e-3, seq=seq, content=content))
    recorder.on_stop()
    assert recorder.verdict is not None
    assert "arm/own: a message cannot be recorded as JSON" in recorder.verdict.reason
    with pytest.warns(RecordingWarning, match=r"0.001 .. 0.003 s \(not written\): 1 message is missing, arm/own 1"):
        assert read_recording(tmp_path / "run.mcap")["arm/own"]["odd"].tolist() == [1, 3]


def test_messages_lost_on_the_way_are_holes_of_their_own_kind_for_every_reader(tmp_path: Path) -> None:
    path = tmp_path / "run.mcap"
    recorder, _ = started(path)
    for seq in range(300):
        if seq == 200:
            recorder.on_lost("arm/state", 100)
            recorder.on_lost("arm/own", 7)
        time_s = seq * 1e-3 + (0.1 if seq >= 200 else 0.0)
        recorder.on_message("arm/state", RobotState(timestamp=time_s, seq=seq))
        recorder.on_message("arm/own", AnyMessage(timestamp=time_s, seq=seq, content={"odd": seq}))
        if seq % 50 == 0:
            recorder.on_tick(time_s)
    recorder.on_lost("arm/event", 3)  # no message of the topic has arrived
    recorder.on_stop()
    assert recorder.verdict is not None
    assert "lacks t = 0.199 .. 0.399 s (110 of 710 messages): messages did not reach the recorder" in (
        recorder.verdict.reason
    )
    with pytest.warns(RecordingWarning) as warned:
        recording = read_recording(path)
    state_and_own = "t = 0.199 .. 0.300 s (lost): 107 messages are missing, arm/state 100, arm/own 7"
    event = "the beginning .. the end (lost): 3 messages are missing, arm/event 3"
    assert str(warned[0].message) == f"{path}: {state_and_own}; {event}"
    rates = {row["topic"]: row["rate_hz"] for row in describe(path)["topics"]}
    assert rates["arm/state"] == pytest.approx(1000.0)
    export_csv(recording, tmp_path / "csv")
    rows = (tmp_path / "csv" / "holes.csv").read_text().splitlines()
    assert rows[1] == "0.199,0.3,lost,arm/state,100"
    with pytest.raises(RecordingError, match=r"\(lost\): .* cannot be compared"):
        compare(path, path)


def test_a_recorder_does_not_replace_a_file_that_is_no_recording(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = tmp_path / "swing.toml"
    plan.write_text(OWN_PLAN)
    with pytest.raises(ValueError, match=r"swing.toml', which exists and is no recording"):
        Recorder.check(Recorder.Params(file=str(plan)), PLAN)
    recorder = Recorder()
    with pytest.raises(ValueError, match="the file is no recording, and is kept"):
        recorder.on_start(context(recorder, file=str(plan)))
    recorder, _ = started(tmp_path / "late.mcap")
    (tmp_path / "late.mcap").write_text(OWN_PLAN)  # made by somebody while the recorder waits for the first state
    recorder.on_message("arm/state", RobotState(timestamp=0.0, seq=1))
    recorder.on_stop()
    assert recorder.verdict is not None
    assert "the file is no recording, and is kept" in recorder.verdict.reason
    assert [plan.read_text(), (tmp_path / "late.mcap").read_text()] == 2 * [OWN_PLAN]
    assert armswing(["record", "--force", "-o", str(plan)]) == 2
    assert "is no recording, and is not replaced" in capsys.readouterr().err
