"""A recorded lockstep run restarts at any time, and gives the same messages from there on."""

from __future__ import annotations

import random
import shlex
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from nodes.cli.application import run as command_line
from nodes.framework.messages import JointCommand
from nodes.framework.plan.files.file import load_plan
from nodes.framework.plan.key_checks import PlanError
from nodes.framework.plan.launch_plan import Plan
from nodes.framework.plan.overrides import _value
from nodes.framework.recording.reader import RecordingError, RecordingFile
from nodes.framework.simulation.compose import compose
from nodes.framework.simulation.restart.finding import read_restart
from nodes.framework.simulation.restart.overrides import override_text, recorded_overrides
from nodes.framework.simulation.restart.snapshots import Restart

LAUNCH = Path(__file__).parents[4] / "launch"
RECORDED = {  # launch file, simulated seconds
    "gibbon": (LAUNCH / "gibbon_bars.toml", 1.6),
    "charmie": (LAUNCH / "charmie_squat.toml", 1.2),
    "pendulum": (LAUNCH / "rotary_pendulum_lockstep.toml", 1.6),
    "hil": (LAUNCH / "hil_robot.toml", 1.2),
    "lipinski": (LAUNCH / "examples" / "lipinski.toml", 1.6),
    "links": (LAUNCH / "rotary_pendulum_lockstep.toml", 1.6),
    "loops": (LAUNCH / "rotary_pendulum_lockstep.toml", 1.2),
}
SETTINGS = {  # messages and turns that take time; kernels with loops over links, and over constraint rows
    "charmie": ["sim.rolled=true"],
    "loops": ["sim.rolled=true", "sim.parameters.coordinates=joint"],
    "links": [
        "swing_up.link.delay_ms=5",
        "swing_up.link.jitter_ms=20",
        "swing_up.link.loss=0.05",
        "swing_up.compute_ms=2.5",
        "trajectory.compute_ms=0.5",
    ],
}
Line = tuple[str, int, bytes]


def plan_of(name: str, file: Path, snapshot_s: float = 0.5) -> Plan:
    settings = [f"recorder.file={file}", "sim.mode=lockstep", f"sim.snapshot_s={snapshot_s}", *SETTINGS.get(name, [])]
    plan = load_plan(RECORDED[name][0], settings)
    return msgspec.structs.replace(plan, duration_s=None)


def record(plan: Plan, seconds: float, begin: Restart | None = None) -> list[Line]:
    """(topic, log time, payload) of every message in the recording of a run."""
    with compose(plan, begin=begin) as run:
        run.run(seconds)
    file = plan.node("recorder").params["file"]
    return [(each.topic, each.time_ns, each.payload) for each in RecordingFile(file)]


def until(lines: list[Line], end_s: float) -> list[Line]:
    """The messages up to a time, s."""
    return [line for line in lines if line[1] <= end_s * 1e9]


def times(seconds: float, count: int, seed: int) -> Iterator[float]:
    source = random.Random(seed)
    return (source.uniform(0.001, seconds) for _ in range(count))


def check(name: str, folder: Path, seconds: float, count: int, snapshot_s: float) -> None:
    plan = plan_of(name, folder / "whole.mcap", snapshot_s)
    whole = record(plan, seconds)
    again = plan_of(name, folder / "again.mcap", snapshot_s)
    for at_s in times(seconds, count, seed=len(name)):
        begin = read_restart(folder / "whole.mcap", at_s, again)
        assert begin.fresh == {}
        lines = record(again, seconds - begin.tick * plan.sim.step_s, begin)
        assert lines[0][0].endswith("/description")
        assert lines[1:] == whole[-len(lines) + 1 :], f"restarted at {at_s} s"
        first = next(line for line in lines if line[0].endswith("/state"))
        assert first[1] == pytest.approx(at_s * 1e9, abs=plan.sim.step_s * 0.51e9 + 1e9 / (plan.sim.rate_hz or 1e9))


@pytest.mark.parametrize("name", RECORDED)
def test_a_run_restarted_at_random_times_gives_the_same_messages_from_there_on(name: str, tmp_path: Path) -> None:
    check(name, tmp_path, RECORDED[name][1], 2, 0.5)


@pytest.mark.soak
@pytest.mark.parametrize("name", RECORDED)
def test_a_whole_run_restarted_at_twenty_random_times_gives_the_same_messages(name: str, tmp_path: Path) -> None:
    check(name, tmp_path, 5.0, 20, 1.0)


def test_a_push_and_a_parameter_between_two_snapshots_are_repeated(tmp_path: Path) -> None:
    def plan_with(file: str) -> Plan:
        plan = a_plan(tmp_path, file=file)
        plan.sim.parameters["pushable"] = "pendulum"
        return plan

    with compose(plan_with("run.mcap")) as run:
        run.request("resume")
        run.step(300)  # after the snapshot of t = 0.249 s
        run.request("push", body="pendulum", force=[0.3, 0.1, 0.0], point=[0.0, 0.0, -0.05], duration_s=0.06)
        run.step(10)
        run.request("push", body="pendulum", force=[0.0, 0.0, 0.0])  # ends it
        run.request("pause")
        run.request("set", pendulum_damping=1e-4)
        run.request("resume")
        run.step(20)
        run.request("push", body="pendulum", force=[0.0, 0.2, 0.0], duration_s=0.1)
        run.run(0.27)
    whole = [(each.topic, each.time_ns, each.payload) for each in RecordingFile(tmp_path / "run.mcap")]
    again = plan_with("again.mcap")
    for at_s, actions, until_s in (  # within each push, between and after them, and after the next snapshot
        (0.302, 1, 0.3095),  # until the next action, which is not repeated
        (0.305, 1, 0.3095),
        (0.311, 5, 0.3295),
        (0.36, 6, 0.6),
        (0.45, 6, 0.6),
        (0.52, 0, 0.6),
    ):
        begin = read_restart(tmp_path / "run.mcap", at_s, again)
        assert len(begin.actions) == actions
        lines, expected = until(record(again, 0.6 - at_s, begin)[1:], until_s), until(whole, until_s)
        assert len(lines) >= 2 * round((until_s - at_s) * 1e3)  # states and commands
        assert lines == expected[-len(lines) :], f"restarted at {at_s} s"


def test_an_emergency_stop_outlasts_a_restart_and_one_after_the_snapshot_is_repeated(tmp_path: Path) -> None:
    with compose(a_plan(tmp_path, file="run.mcap")) as run:
        run.request("resume")
        run.step(300)  # after the snapshot of t = 0.249 s
        run.request("estop", reason="a hand in the cell")
        run.step(300)  # with the snapshot of t = 0.499 s
        run.request("release")
        run.run(0.1)
    whole = [(each.topic, each.time_ns, each.payload) for each in RecordingFile(tmp_path / "run.mcap")]
    again = a_plan(tmp_path, file="again.mcap")
    for at_s, actions, until_s in ((0.302, 1, 0.5995), (0.45, 1, 0.5995), (0.55, 0, 0.5995), (0.65, 1, 0.7)):
        begin = read_restart(tmp_path / "run.mcap", at_s, again)
        assert len(begin.actions) == actions
        lines, expected = until(record(again, 0.7 - at_s, begin)[1:], until_s), until(whole, until_s)
        assert len(lines) >= 2 * round((until_s - at_s) * 1e3)
        assert lines == expected[-len(lines) :], f"restarted at {at_s} s"
    with compose(again, begin=read_restart(tmp_path / "run.mcap", 0.55, again)) as run:
        run.run(0.01)
        assert run.server.refusals.count > 0  # the commands of the stopped controller


def test_a_node_whose_parameter_was_set_after_the_snapshot_starts_fresh(tmp_path: Path) -> None:
    plan = a_plan(tmp_path)
    with compose(plan) as run:
        run.step(300)
        run.nodes["controller"].set_parameters({"torque_limit": 0.02})
        run.run(0.3)
    again = a_plan(tmp_path, file="again.mcap")
    begin = read_restart(tmp_path / "run.mcap", 0.4, again)
    assert begin.fresh == {"controller": "its parameter torque_limit was set at t = 0.299 s, after the snapshot"}
    assert read_restart(tmp_path / "run.mcap", 0.55, again).fresh == {}  # the snapshot of t = 0.499 s has it


# -- what differs

PLAN = """
duration_s = 0.6
[sim]
robot = "rotary_pendulum"
parameters = {{ start_deg = 170.0, torque_limit = 0.05 }}
mode = "lockstep"
snapshot_s = 0.25
[[nodes]]
name = "controller"
run = "{run}"
{more}
[[nodes]]
name = "recorder"
run = "nodes/recorder.py:Recorder"
params = {{ file = "{file}" }}
"""
SWING_UP = "nodes/controllers/swing_up.py:SwingUp"
OWN = """
from armswing import Node, messages

class Own(Node):
    subscribes = {{"state": messages.RobotState}}
    publishes = {{"command": messages.JointCommand}}
    {state}

    def on_start(self, context):
        self.count, self.gain = 0, {gain}

    def on_message(self, name, state):
        self.count += 1
        yield "command", messages.JointCommand(name=["arm"], value=[self.gain * self.count], state_seq=state.seq)
"""


def a_plan(folder: Path, run: str = SWING_UP, more: str = "", file: str = "run.mcap") -> Plan:
    (folder / "plan.toml").write_text(PLAN.format(run=run, more=more, file=folder / file))
    return load_plan(folder / "plan.toml", [])


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording of the swing-up, in a folder with its launch file."""
    folder = tmp_path_factory.mktemp("recorded")
    record(a_plan(folder), 0.6)
    return folder / "run.mcap"


def commands(file: Path) -> list[tuple[float, float]]:
    found = (each.message() for each in RecordingFile(file) if each.topic.endswith("/command"))
    return [(each.timestamp, each.value[0]) for each in found if isinstance(each, JointCommand)]


def test_a_node_with_other_parameters_starts_fresh_at_that_time_and_takes_over_smoothly(
    recorded: Path, tmp_path: Path
) -> None:
    plan = a_plan(tmp_path, more="params = { torque_limit = 0.02 }")
    begin = read_restart(recorded, 0.4, plan)
    assert begin.fresh == {"controller": "its parameter torque_limit changed from the default to 0.02"}
    lines = record(plan, 0.2, begin)
    whole = [(each.topic, each.time_ns, each.payload) for each in RecordingFile(recorded)]
    assert lines[1] in whole  # the state at 0.4 s: until then the recorded commands hold
    assert lines[1][:2] == ("rotary_pendulum/state", 400_000_000)
    before = [value for time, value in commands(recorded) if time < 0.3995][-1]
    after = commands(tmp_path / "run.mcap")
    assert after[0][1] == pytest.approx(before, rel=1e-12)
    assert max(abs(b - a) for (_, a), (_, b) in pairwise(after[:100])) < 2e-3  # N m, in steps of 1 ms


def test_a_node_whose_file_changed_starts_fresh(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN.format(state='state_attributes = ("count",)', gain=1e-6))
    plan = a_plan(tmp_path, "own.py:Own")
    whole = record(plan, 0.6)
    again = a_plan(tmp_path, "own.py:Own", file="again.mcap")
    begin = read_restart(tmp_path / "run.mcap", 0.3, again)
    assert begin.fresh == {}
    lines = record(again, 0.3, begin)
    assert lines[1:] == whole[-len(lines) + 1 :]
    (tmp_path / "other.py").write_text(OWN.format(state='state_attributes = ("count",)', gain=2e-6))
    begin = read_restart(tmp_path / "run.mcap", 0.3, a_plan(tmp_path, "other.py:Own", file="again.mcap"))
    assert begin.fresh == {"controller": "its code changed"}
    record(a_plan(tmp_path, "other.py:Own", file="again.mcap"), 0.3, begin)
    assert commands(tmp_path / "again.mcap")[0] == (0.3, 2e-6)  # its first: counted anew


def test_a_node_that_does_not_say_what_its_state_is_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN.format(state="", gain=1e-6))
    plan = a_plan(tmp_path, "own.py:Own")
    record(plan, 0.3)
    with pytest.raises(PlanError, match=r"state of node 'controller' is not recorded; .*stateless = True") as error:
        read_restart(tmp_path / "run.mcap", 0.2, plan)
    assert "\n" not in str(error.value)


def test_a_node_that_declares_no_state_restarts_without_one(tmp_path: Path) -> None:
    code = OWN.format(state="stateless = True", gain=1e-6).replace("self.count += 1", "self.count = state.seq")
    (tmp_path / "own.py").write_text(code)
    whole = record(a_plan(tmp_path, "own.py:Own"), 0.4)
    again = a_plan(tmp_path, "own.py:Own", file="again.mcap")
    lines = record(again, 0.1, read_restart(tmp_path / "run.mcap", 0.3, again))
    assert lines[1:] == whole[-len(lines) + 1 :]


def test_random_numbers_and_parameters_set_during_the_run_continue(tmp_path: Path) -> None:
    code = OWN.format(state='state_attributes = ("count",)', gain="context.random.normal()")
    code = code.replace("self.count += 1", "self.count = self.context.random.normal() * self.context.params.scale")
    code = code.replace(
        "    def on_start(self, context):\n", "    def on_start(self, context):\n        self.context = context\n"
    )
    code = code.replace(
        "class Own(Node):\n", "class Own(Node):\n    class Params(msgspec.Struct):\n        scale: float = 1e-3\n\n"
    )
    (tmp_path / "own.py").write_text("import msgspec\n" + code.replace("self.gain * self.count", "self.count"))
    plan = a_plan(tmp_path, "own.py:Own")
    with compose(plan) as run:
        run.step(100)
        run.nodes["controller"].set_parameters({"scale": 2e-3})
        run.run(0.5)
    again = a_plan(tmp_path, "own.py:Own", file="again.mcap")
    record(again, 0.3, read_restart(tmp_path / "run.mcap", 0.3, again))
    first = commands(tmp_path / "again.mcap")
    assert len({value for _, value in first}) == len(first)
    assert first == commands(tmp_path / "run.mcap")[-len(first) :]


def test_a_plan_without_a_recorded_node_uses_its_messages_until_then(recorded: Path, tmp_path: Path) -> None:
    plan = a_plan(tmp_path)
    plan.nodes = [node for node in plan.nodes if node.name != "controller"]
    begin = read_restart(recorded, 0.4, plan)
    lines = record(plan, 0.1, begin)
    whole = [(each.topic, each.time_ns, each.payload) for each in RecordingFile(recorded)]
    assert lines[1] in whole


# -- what is refused


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        (["sim.step_ms=2"], "[sim] step_ms is 1.0 in the recording and 2.0 in the plan"),
        (["sim.parameters.start_deg=10"], "[sim] parameters is"),
        (["controller.link.delay_ms=3"], "link of node 'controller' is {"),
        (["another robot"], "is a recording of robot 'rotary_pendulum', but the plan has robot 'lipinski_pendulum'"),
    ],
)
def test_another_plan_of_the_simulation_is_refused_with_the_first_difference(
    changes: list[str], line: str, recorded: Path
) -> None:
    other = changes == ["another robot"]
    plan = plan_of("lipinski", recorded) if other else load_plan(recorded.parent / "plan.toml", changes)
    with pytest.raises(PlanError) as error:
        read_restart(recorded, 0.3, plan)
    assert line in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("at", ["0", "0.61", "-1", "nan", "inf", "1e300"])
def test_a_time_outside_the_recording_is_one_line_and_exit_code_2(
    at: str, recorded: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command_line(["launch", str(recorded.parent / "plan.toml"), "--from", str(recorded), "--at", at]) == 2
    told = capsys.readouterr().err.strip()
    assert "\n" not in told
    assert "choose a time in t = 0.001 .. 0.6 s" in told


def damaged(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes(byte ^ 0x55 for byte in data[middle : middle + 60_000]) + data[middle + 60_000 :]


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (damaged, "the recording cannot be restarted"),
        (lambda data: data[:3000], "has no snapshots"),
        (lambda data: b"", "is empty"),
        (lambda data: data.replace(b'"data":"eJ', b'"data":"eK'), "cannot be"),
    ],
    ids=["damaged", "cut", "empty", "damaged snapshots"],
)
def test_a_damaged_recording_is_one_line_and_exit_code_2(
    change: Callable[[bytes], bytes], line: str, recorded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "bad.mcap"
    file.write_bytes(change(recorded.read_bytes()))
    assert command_line(["launch", str(recorded.parent / "plan.toml"), "--from", str(file), "--at", "0.5"]) == 2
    told = capsys.readouterr().err.strip()
    assert "\n" not in told
    assert line in told


def test_a_recording_without_snapshots_is_refused(tmp_path: Path) -> None:
    plan = a_plan(tmp_path)
    plan.sim.snapshot_s = 0.0
    record(plan, 0.1)
    with pytest.raises(RecordingError, match="has no snapshots to restart from"):
        read_restart(tmp_path / "run.mcap", 0.05, plan)


def test_a_robot_with_other_equations_is_refused(recorded: Path, tmp_path: Path) -> None:
    begin = read_restart(recorded, 0.4, a_plan(tmp_path))
    begin.code_hash = "another"
    with pytest.raises(ValueError, match="robot with other equations"):
        compose(a_plan(tmp_path), begin=begin)


def test_a_replay_begins_at_a_time_with_the_recorded_state(recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["replay", str(recorded), "--node", SWING_UP, "--as", "controller", "--from", "0.4"]
    assert command_line(command) == 0
    assert "200 messages compared, none differs" in capsys.readouterr().out
    assert command_line([*command, "--param", "torque_limit=0.01"]) == 1
    assert "starts fresh: its parameter torque_limit changed" in capsys.readouterr().err


def test_a_replay_of_a_run_with_links_begins_at_a_time_with_the_messages_on_their_way(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = "link = { delay_ms = 5.0, jitter_ms = 20.0, loss = 0.05 }\ncompute_ms = 2.5"
    record(a_plan(tmp_path, more=more), 0.6)
    command = ["replay", str(tmp_path / "run.mcap"), "--node", SWING_UP, "--as", "controller", "--from", "0.4"]
    assert command_line(command) == 0
    assert "none differs" in capsys.readouterr().out


def test_the_overrides_of_the_recorded_plan_make_its_launch_file_one_that_continues_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, launch_file = tmp_path / "run.mcap", LAUNCH / "rotary_pendulum.toml"
    settings = ["sim.mode=lockstep", "sim.watchdog_ms=40", "trajectory.amplitude_deg=60", "swing_up.link.delay_ms=2"]
    recorded = load_plan(launch_file, [*settings, "sim.parameters.start_deg=10", "seed=3", f"recorder.file={file}"])
    record(recorded, 2.5)
    capsys.readouterr()
    assert command_line(["launch", str(launch_file), "--from", str(file), "--differences"]) == 0
    shown = shlex.split(capsys.readouterr().out)
    assert set(shown[::2]) == {"--set"}
    wanted = {"seed=3", "sim.mode=lockstep", "sim.watchdog_ms=40.0", "sim.parameters.start_deg=10"}
    assert wanted | {"trajectory.amplitude_deg=60", "swing_up.link.delay_ms=2.0"} == {
        each.replace("start_deg=10.0", "start_deg=10") for each in shown[1::2]
    }
    again = load_plan(launch_file, [*shown[1::2], f"recorder.file={tmp_path / 'again.mcap'}"])
    assert read_restart(file, 2.2, again).fresh == {}
    assert recorded_overrides(recorded, again) == [override_text("recorder.file", str(file))]
    with pytest.raises(PlanError, match=r"\[sim\] parameters is .* use the recorded value, which .* --differences"):
        read_restart(file, 2.2, load_plan(launch_file))


def test_a_key_that_only_the_launch_file_sets_is_named(tmp_path: Path) -> None:
    launch_file = LAUNCH / "rotary_pendulum.toml"
    recorded = load_plan(launch_file)
    recorded.sim.watchdog_ms = None
    with pytest.raises(PlanError, match=r"sim.watchdog_ms is .* in the launch file and not set in the recording; take"):
        recorded_overrides(recorded, load_plan(launch_file, ["sim.watchdog_ms=50"]))


@pytest.mark.parametrize("value", ["lockstep", "1", "true", "a b", 'quote " and \\', 1e-9, 3, True, [1.0, 2.5], ["a"]])
def test_an_override_is_read_as_the_value_that_it_was_written_for(value: object) -> None:
    target, _, text = override_text("trajectory.kind", value).partition("=")
    assert target == "trajectory.kind"
    assert _value(target, text) == value
