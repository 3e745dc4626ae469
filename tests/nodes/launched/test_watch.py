"""`armswing launch --watch`: an edited controller takes over without a jump, a broken one leaves the old in charge."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from nodes.framework.client import read_recording
from nodes.framework.hosting import trial_import
from nodes.framework.hosting.hosted import HostedNode
from nodes.framework.messages import JointCommand
from nodes.framework.messages.codec import decode
from nodes.framework.plan.files.file import load_plan
from nodes.framework.plan.key_checks import PlanError
from nodes.framework.plan.launch_plan import SimPlan
from nodes.framework.simulation.compose import Composition, compose

LIMIT = 0.05  # N m, of the arm's motor
LARGEST_JUMP = 0.03 * LIMIT
CONTROLLER = """
import msgspec

from armswing import Node, messages

VERSION = 0


class Hold(Node):
    subscribes = {{"state": messages.RobotState}}
    publishes = {{"command": messages.JointCommand, "reference": messages.JointReference}}

    class Params(msgspec.Struct, forbid_unknown_fields=True):
        stiffness: float = 0.01
        damping: float = 0.002

    def on_start(self, context):
        self.context = context

    def on_message(self, name, state):
        params = self.context.params
        effort = {offset} - params.stiffness * state.position[0] - params.damping * state.velocity[0]{more}
        yield "command", messages.JointCommand(name=["arm"], value=[effort], state_seq=state.seq)
        zero = [0.0]
        yield "reference", messages.JointReference(
            name=["arm"], position=[{version}], velocity=zero, acceleration=zero
        )
"""
BROKEN = (" + params.stifness", " + (", " + undefined", " + 1 / 0")
LAUNCH = """
[sim]
watchdog_ms = false    # a loaded computer must not put the arm into its safe mode
robot = "rotary_pendulum"
parameters = {{ start_deg = 0.0, torque_limit = 0.05 }}
mode = "{mode}"
rate_hz = 200

[[nodes]]
name = "hold"
run = "hold.py:Hold"
params = {{ damping = 0.003 }}

[[nodes]]
name = "recorder"
run = "nodes/recorder.py:Recorder"
params = {{ file = "hold.mcap" }}
"""


class Watched:
    """A launch with --watch in a folder of its own."""

    def __init__(self, folder: Path, runtime: str, mode: str) -> None:
        self.file, self.output = folder / "hold.py", folder / "output"
        self.save(0)
        (folder / "hold.toml").write_text(LAUNCH.format(mode=mode))
        with self.output.open("w") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", "nodes.cli", "launch", "hold.toml", "--watch"],
                cwd=folder,
                env=os.environ | {"XDG_RUNTIME_DIR": runtime},
                stdout=output,
                stderr=output,
            )

    def save(self, version: int, more: str = "") -> int:
        """Save a version of the controller; returns the time, ns."""
        text = CONTROLLER.format(version=float(version), more=more, offset=0.02 * (version % 2))
        beside = self.file.with_suffix(".new")
        beside.write_text(text)
        beside.replace(self.file)
        return time.time_ns()

    def until(self, text: str, count: int = 1, timeout_s: float = 120.0) -> None:
        deadline = time.monotonic() + timeout_s
        while self.output.read_text().count(text) < count:
            assert time.monotonic() < deadline, self.output.read_text()
            assert self.process.poll() is None, self.output.read_text()
            time.sleep(0.01)

    def end(self) -> None:
        self.process.send_signal(signal.SIGINT)
        self.process.wait(60.0)


def edit(folder: Path, mode: str, edits: int, broken_every: int) -> tuple[np.ndarray, float]:
    """(time from saving to the first command of each good edit, s; largest change between two commands, N m)."""
    saved: dict[int, int] = {}
    failures = 0
    with tempfile.TemporaryDirectory(prefix="watch-", dir="/tmp") as runtime:
        launch = Watched(folder, runtime, mode)
        try:
            launch.until("sim running")
            for version in range(1, edits + 1):
                if version % broken_every == 0:
                    launch.save(version, BROKEN[failures % len(BROKEN)])
                    failures += 1
                    launch.until("in charge", failures)
                else:
                    loaded = launch.output.read_text().count("loaded hold.py in")
                    saved[version] = launch.save(version)
                    launch.until("loaded hold.py in", loaded + 1)
                time.sleep(0.6)  # so that the new code has faded over before the next edit
        finally:
            launch.end()
        shown = launch.output.read_text()
    recording = read_recording(folder / "hold.mcap")
    references = recording["rotary_pendulum/reference"]
    commands = recording["rotary_pendulum/command"]
    assert failures == shown.count("in charge"), shown
    events = recording["rotary_pendulum/event"]
    reloads = [detail for kind, detail in zip(events["kind"], events["detail"], strict=True) if kind == "reload"]
    assert len(reloads) == edits, reloads
    assert all(each.startswith("hold.py") for each in reloads), reloads
    assert (
        sum("was not loaded; the previous code" in each or "hold.py failed: " in each for each in reloads) == failures
    )
    assert all(each in shown for each in ("AttributeError", "SyntaxError")[:failures]), shown
    first: dict[int, int] = {}
    for position, sent_ns in zip(references["position"], references["sent_ns"], strict=True):
        first.setdefault(int(position[0]), int(sent_ns))
    values = np.array([value[0] for value in commands["value"]])
    steps = np.abs(np.diff(values))
    delays = np.array([1e-9 * (first[version] - at) for version, at in saved.items()])
    return delays, float(steps.max())


def test_an_edited_controller_takes_over_without_a_jump(tmp_path: Path) -> None:
    delays, jump = edit(tmp_path, "realtime", 5, 2)  # one cannot be loaded, one fails later
    assert len(delays) == 3
    assert jump <= LARGEST_JUMP


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_100_edits_of_which_20_are_broken(tmp_path: Path) -> None:
    delays, jump = edit(tmp_path, "realtime", 100, 5)
    print(f"save to first command: p50 {np.median(delays):.3f} s, p95 {np.quantile(delays, 0.95):.3f} s; jump {jump}")
    assert np.quantile(delays, 0.95) <= 0.5
    assert jump <= LARGEST_JUMP


def test_a_file_that_is_saved_again_while_an_edit_takes_over_is_loaded_too(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="watch-", dir="/tmp") as runtime:
        launch = Watched(tmp_path, runtime, "realtime")
        try:
            launch.until("sim running")
            launch.save(1)
            launch.until("loaded hold.py in", 1)
            launch.save(2)  # within the 0.2 s in which the first edit takes over
            launch.until("loaded hold.py in", 2)
        finally:
            launch.end()
    shown = launch.output.read_text()
    assert "not loaded" not in shown, shown
    events = read_recording(tmp_path / "hold.mcap")["rotary_pendulum/event"]
    assert [each for each in events["kind"] if each == "reload"] == ["reload"], events["detail"]


def test_an_import_that_does_not_end_or_ends_its_process_changes_nothing(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="watch-", dir="/tmp") as runtime:
        launch = Watched(tmp_path, runtime, "realtime")
        try:
            launch.until("sim running")
            endings = (
                "import os; os._exit(0)",
                "raise KeyboardInterrupt",
                "import os, signal; os.kill(os.getpid(), 9)",
            )
            for count, text in enumerate(endings, 1):
                launch.file.write_text(text)
                launch.until("in charge", count)
            launch.file.unlink()
            os.mkfifo(launch.file)
            launch.until("no regular file")
            launch.file.unlink()
            importing = tmp_path / "importing"
            launch.file.write_text(f"open({str(importing)!r}, 'w').close()\nwhile True: pass")
            while not importing.exists():
                assert launch.process.poll() is None, launch.output.read_text()
                time.sleep(0.01)
            launch.save(1)  # does not wait for the end of the other import
            launch.until("loaded hold.py in", timeout_s=15.0)
        finally:
            launch.end()
        assert launch.process.returncode == 130
    shown = launch.output.read_text()
    assert "the import of hold.py ends its process, with exit code 0" in shown
    assert "the import of hold.py ends its process, with exit code -9" in shown
    assert "KeyboardInterrupt" in shown


def test_an_import_without_end_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial_import, "IMPORT_S", 2.0)
    file, started = tmp_path / "own.py", tmp_path / "started"
    file.write_text(f"import threading\nopen({str(started)!r}, 'w').close()\nthreading.Event().wait()\n")
    with pytest.raises(TimeoutError, match=r"the import of own\.py did not end within 2 s"):
        trial_import.importable(file, lambda: False)
    monkeypatch.setattr(trial_import, "AGAIN_S", 0.0)
    with pytest.raises(trial_import.Superseded, match="only the last edit is loaded"):
        trial_import.importable(file, started.exists)


@pytest.fixture
def held(tmp_path: Path) -> Iterator[tuple[Path, Composition, HostedNode, list[float]]]:
    """(controller file, run in lockstep, hosted controller, values of its commands), after 1 s."""
    file = tmp_path / "hold.py"
    (tmp_path / "hold.toml").write_text(LAUNCH.format(mode="lockstep"))
    file.write_text(CONTROLLER.format(version=0.0, more="", offset=0.02))
    commands: list[float] = []

    def carry(topic: str, payload: bytes) -> None:
        if topic == "rotary_pendulum/command":
            commands.append(decode(topic, payload, JointCommand).value[0])

    plan = load_plan(tmp_path / "hold.toml", ["recorder.file=/dev/null"])
    plan.nodes.pop()
    with compose(plan, carry) as run:
        run.step(1000)
        yield file, run, run.nodes["hold"], commands


def test_an_edited_controller_takes_over_in_lockstep_with_its_parameters(
    held: tuple[Path, Composition, HostedNode, list[float]],
) -> None:
    file, run, hosted, commands = held
    ended: list[BaseException | None] = []
    hosted.set_parameters({"stiffness": 0.02})
    run.step(5)
    file.write_text(CONTROLLER.format(version=1.0, more="", offset=-0.02).replace("0.002", "0.004"))
    assert hosted.replace_node(hosted.load_anew(file), ended.append) == ""
    run.step(500)
    assert ended == [None]
    assert hosted.parameters.plain() == {"stiffness": 0.02, "damping": 0.003}
    assert max(abs(b - a) for a, b in pairwise(commands[200:])) < LARGEST_JUMP
    assert abs(commands[-1] - commands[200]) > LARGEST_JUMP
    file.write_text(CONTROLLER.format(version=2.0, more=" + 1 / 0", offset=0.02))
    hosted.replace_node(hosted.load_anew(file), ended.append)
    before = hosted.node
    run.step(50)
    assert isinstance(ended[-1], ZeroDivisionError)
    assert hosted.node is before
    file.write_text(CONTROLLER.format(version=3.0, more="", offset=0.0).replace('"reference":', '"other":'))
    with pytest.raises(ValueError, match=r"`publishes` has changed, .* start a new launch"):
        hosted.load_anew(file)


@pytest.mark.parametrize(
    ("before", "after", "error"),
    [
        ("value=[effort]", "value=[0.3], mode='position'", "has mode 'position', the last one .* 'effort'"),
        ("value=[effort]", "value=[effort * float('nan')]", "the command of actuator 'arm' is nan"),
        ("params = self", "exit(3); params = self", "3"),
    ],
    ids=["mode", "not a number", "exit"],
)
def test_commands_that_cannot_take_over_leave_the_old_code_in_charge(
    before: str, after: str, error: str, held: tuple[Path, Composition, HostedNode, list[float]]
) -> None:
    file, run, hosted, commands = held
    old, ended = hosted.node, list[BaseException | None]()
    file.write_text(file.read_text().replace(before, after))
    hosted.replace_node(hosted.load_anew(file), ended.append)
    run.step(100)
    assert hosted.node is old
    assert re.search(error, str(ended[0]))
    assert max(abs(b - a) for a, b in pairwise(commands[100:])) < LARGEST_JUMP


@pytest.mark.parametrize("text", ["", "raise SystemExit(3)\n", "\0"])
def test_a_file_without_a_controller_is_not_loaded(
    text: str, held: tuple[Path, Composition, HostedNode, list[float]]
) -> None:
    file, _, hosted, _ = held
    file.write_text(text)
    with pytest.raises((PlanError, SystemExit, SyntaxError)):
        hosted.load_anew(file)


def test_a_parameter_that_an_edit_takes_out_comes_back_with_the_value_of_the_launch_file(
    held: tuple[Path, Composition, HostedNode, list[float]],
) -> None:
    file, run, hosted, _ = held
    first = file.read_text()
    for text in (first.replace("damping: float = 0.002", "").replace("params.damping", "0.001"), first):
        file.write_text(text)
        hosted.replace_node(hosted.load_anew(file), lambda failure: None)
        run.step(500)
    assert hosted.parameters.plain() == {"stiffness": 0.01, "damping": 0.003}


@pytest.mark.parametrize("mode", ["lockstep", "realtime"])
def test_an_edit_that_no_longer_commands_the_actuator_names_it(mode: str, tmp_path: Path) -> None:
    line = "the edited hold.py no longer commands actuator 'arm'; the last command stays in force"
    with tempfile.TemporaryDirectory(prefix="watch-", dir="/tmp") as runtime:
        launch = Watched(tmp_path, runtime, mode)
        try:
            launch.until("sim running")
            time.sleep(0.3)
            text = launch.file.read_text()
            launch.file.write_text(text.replace('yield "command"', 'if state.position[0] > 1e3: yield "command"'))
            launch.until(f"WARNING hold: {line}")
        finally:
            launch.end()
    events = read_recording(tmp_path / "hold.mcap")["rotary_pendulum/event"]
    reloads = [detail for kind, detail in zip(events["kind"], events["detail"], strict=True) if kind == "reload"]
    assert reloads[0] == line


TWO = """
from armswing import Node, messages


class Two(Node):
    subscribes = {"state": messages.RobotState}
    publishes = {"command": messages.JointCommand}

    def on_message(self, name, state):
        yield "command", messages.JointCommand(name=["joint_2"], value=[0.1], state_seq=state.seq)
        yield "command", messages.JointCommand(name=["joint_4"], value=[0.2], state_seq=state.seq)
"""
BOTH = "the actuators 'joint_2', 'joint_4'"
TWO_LAUNCH = """
[sim]
robot = "arm_2dof"
mode = "lockstep"
{more}
[[nodes]]
name = "two"
run = "two.py:Two"
"""


@pytest.mark.parametrize(
    ("before", "after", "watchdog_ms", "warning"),
    [
        ("0.2", "0.3", 50, ""),
        ("joint_4", "joint_2", 50, "actuator 'joint_4'; the last command stays in force"),
        ('["joint_4"], value=[0.2]', "[], value=[]", 50, "actuator 'joint_4'; the last command stays in force"),
        ("    yield", "    if 0: yield", 50, f"{BOTH}; the last command stays in force until the watchdog acts"),
        ("    yield", "    if 0: yield", 0, f"{BOTH}; the last command stays in force"),
    ],
)
def test_each_actuator_that_an_edit_leaves_is_named_before_the_watchdog_acts(
    before: str, after: str, watchdog_ms: int, warning: str, tmp_path: Path
) -> None:
    file, plan = tmp_path / "two.py", tmp_path / "two.toml"
    file.write_text(TWO)
    plan.write_text(TWO_LAUNCH.format(more=f"watchdog_ms = {watchdog_ms}"))
    with compose(load_plan(plan)) as run:
        run.step(100)
        hosted = run.nodes["two"]
        file.write_text(TWO.replace(before, after))
        hosted.replace_node(hosted.load_anew(file), lambda failure: None)
        run.step(40)
        lines = [f"the edited two.py no longer commands {warning}"] if warning else []
        assert [text for _, text in hosted.context.log] == lines
        run.step(300)
        assert [text for _, text in hosted.context.log] == lines  # once


@pytest.mark.parametrize(
    ("name", "meant"), [("joint_44", "; did you mean 'joint_4'?"), ("shovel", "; known are joint_2, joint_4")]
)
def test_an_edit_that_commands_an_unknown_actuator_names_it_and_the_previous_code_stays_in_charge(
    name: str, meant: str, tmp_path: Path
) -> None:
    file, plan = tmp_path / "two.py", tmp_path / "two.toml"
    file.write_text(TWO)
    plan.write_text(TWO_LAUNCH.format(more=""))
    failures: list[BaseException | None] = []
    with compose(load_plan(plan)) as run:
        run.step(100)
        hosted = run.nodes["two"]
        old = hosted.node
        file.write_text(TWO.replace("joint_4", name))
        hosted.replace_node(hosted.load_anew(file), failures.append)
        run.step(100)
        assert hosted.node is old
        assert hosted.context.log == []
    line = f"the node commands actuator {name!r}, which the robot 'arm_2dof' does not have{meant}"
    assert [str(failure) for failure in failures] == [line]


def test_an_edit_is_loaded_where_the_model_of_the_robot_cannot_be_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, plan = tmp_path / "two.py", tmp_path / "two.toml"
    file.write_text(TWO)
    plan.write_text(TWO_LAUNCH.format(more=""))
    with compose(load_plan(plan)) as run:
        run.step(100)

        def missing(self: object) -> None:
            raise ImportError("no casadi on this computer")

        monkeypatch.setattr(SimPlan, "make_mechanism", missing)
        loaded = run.nodes["two"].load_anew(file)
    assert loaded.actuators == []
