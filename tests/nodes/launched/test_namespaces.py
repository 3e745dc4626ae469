"""Two robots with their controllers and one recorder in one launch: namespaces, one clock, remapped topics."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from mcap.reader import make_reader

from nodes.cli.application import run
from nodes.framework.launching.graph import unpublished
from nodes.framework.messages.codec import decode
from nodes.framework.plan.files.file import load_plan
from nodes.framework.plan.key_checks import PlanError
from nodes.framework.simulation.compose import compose

ROOT = Path(__file__).parents[3]
SECONDS = 0.3
RECORDER = '[[nodes]]\nname = "recorder"\nrun = "nodes/recorder.py:Recorder"\nparams = {{ file = "{file}" }}\n'
PENDULUM = f"""duration_s = {SECONDS}
seed = 1

[args]
record = {{ default = true }}
mode = {{ default = "lockstep" }}

[sim]
robot = "rotary_pendulum"
parameters = {{ start_deg = 0.0, torque_limit = 0.05 }}
mode = "${{mode}}"
snapshot_s = 0    # a launch of several robots takes none

[[nodes]]
name = "trajectory"
run = "nodes/trajectory.py:Trajectory"
decimation = 10
params = {{ joints = ["arm"], kind = "sine", amplitude_deg = 45.0, period_s = 1.0, start_s = 0.0 }}

[[nodes]]
name = "controller"
run = "nodes/controllers/swing_up.py:SwingUp"
params = {{ torque_limit = 0.05 }}

[[milestones]]
name = "hanging"
joint = "pendulum"
target_deg = 0.0
tolerance_deg = 180.0
hold_s = 0.1

[[groups]]
if = "args.record"

[[groups.nodes]]
name = "recorder"
run = "nodes/recorder.py:Recorder"
params = {{ file = "left.mcap" }}
"""
GIBBON = f"""duration_s = {SECONDS}
seed = 2

[args]
record = {{ default = true }}
mode = {{ default = "lockstep" }}

[sim]
robot = "gibbon"
parameters = {{ line = "bars" }}
mode = "${{mode}}"
snapshot_s = 0    # a launch of several robots takes none
rate_hz = 250

[[nodes]]
name = "controller"
run = "nodes/controllers/brachiation.py:Brachiation"

[[groups]]
if = "args.record"

[[groups.nodes]]
name = "recorder"
run = "nodes/recorder.py:Recorder"
params = {{ file = "right.mcap" }}
"""
INCLUDE = '[[include]]\nfile = "{file}"\nnamespace = "{namespace}"\nargs = {{ record = {record} }}\n'
BOTH = (
    INCLUDE.format(file="pendulum.toml", namespace="left", record="false")
    + INCLUDE.format(file="gibbon.toml", namespace="right", record="false")
    + RECORDER.format(file="both.mcap")
)
OWN = {"left": "pendulum.toml", "right": "gibbon.toml"}


@pytest.fixture
def two_robots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the launch files of two robots and one that includes both."""
    for name, text in (("pendulum", PENDULUM), ("gibbon", GIBBON), ("both", BOTH)):
        (tmp_path / f"{name}.toml").write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def messages_of(file: Path, namespace: str = "") -> dict[str, list[tuple[int, int, bytes]]]:
    """{topic without the namespace: (time, seq, data) of each message}."""
    within = f"{namespace}/" if namespace else ""
    found: dict[str, list[tuple[int, int, bytes]]] = {}
    with file.open("rb") as opened:
        for _, channel, message in make_reader(opened).iter_messages():
            if channel.topic.startswith(within):
                data = message.data.replace(f'"robot":"{within}'.encode(), b'"robot":"')  # in the description
                row = (message.log_time, message.sequence, data)
                found.setdefault(channel.topic.removeprefix(within), []).append(row)
    return found


def launched(file: str, folder: Path, *options: str) -> dict[str, Any]:
    """The summary of a launch, and under "printed" its output."""
    command = [sys.executable, "-P", "-m", "nodes.cli", "launch", file, "--json", "summary.json", *options]
    with tempfile.TemporaryDirectory(prefix="two-", dir="/tmp") as runtime:  # a short path, as of sockets
        env = os.environ | {"XDG_RUNTIME_DIR": runtime}
        done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    summary: dict[str, Any] = json.loads((folder / "summary.json").read_text())
    return summary | {"printed": done.stdout + done.stderr}


def run_all(folder: Path, runs: int) -> None:
    for file in OWN.values():
        launched(file, folder)
    first = b""
    for _ in range(runs):
        summary = launched("both.toml", folder)
        data = (folder / "both.mcap").read_bytes()
        assert data == (first or data)
        first = data
    assert summary["milestones"]["left/hanging"] is not None
    assert summary["nodes"].keys() == {"sim", "left/trajectory", "left/controller", "right/controller", "recorder"}
    for namespace in OWN:
        own = messages_of(folder / f"{namespace}.mcap")
        assert own
        assert own == messages_of(folder / "both.mcap", namespace)


def test_two_robots_in_lockstep_give_the_same_bytes_and_each_those_of_its_own_launch(two_robots: Path) -> None:
    run_all(two_robots, 2)


@contextmanager
def busy_processor() -> Iterator[None]:
    """Context in which two processes keep each core busy."""
    burn = [sys.executable, "-c", "while True: pass"]
    burners = [subprocess.Popen(burn) for _ in range(2 * (os.cpu_count() or 1))]
    try:
        yield
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_two_robots_give_the_same_bytes_in_20_runs_under_load(two_robots: Path) -> None:
    with busy_processor():
        run_all(two_robots, 20)


def test_two_robots_run_in_real_time(two_robots: Path) -> None:
    text = BOTH.replace("record = false", 'record = false, mode = "realtime"')
    (two_robots / "both.toml").write_text(text)
    launched("both.toml", two_robots)
    found = messages_of(two_robots / "both.mcap")
    assert {"left/rotary_pendulum/command", "right/gibbon/command", "right/gibbon/state"} <= set(found)


def carried(file: str, **arguments: Any) -> list[tuple[str, bytes]]:
    found: list[tuple[str, bytes]] = []
    with compose(load_plan(file, arguments=arguments), lambda topic, payload: found.append((topic, payload))) as run:
        run.run()
    return found


def test_services_act_on_all_robots_and_name_their_namespace(two_robots: Path) -> None:
    with compose(load_plan("both.toml")) as run:
        run.step(10)
        snapshot = run.request("snapshot")
        assert snapshot.keys() == {"left", "right"}
        parameters = run.request("get_parameters")
        assert {name.partition("/")[0] for name in parameters} <= {"left", "right"}
        run.step(10)
        run.request("restore", state=snapshot)
        assert run.server.tick == 10
        assert {robot.simulation.tick for robot in run.server.robots} == {10}
        with pytest.raises(ValueError, match="for each namespace; pass a table with the keys left, right"):
            run.request("restore", state=snapshot["left"])
        with pytest.raises(ValueError, match="no parameter 'nothing'"):
            run.request("set", nothing=1.0)
        status = run.server.status()
        assert status["simulations"].keys() == {"left", "right"}
        assert "left/arm" in status["loads"]


def test_a_remapped_topic_has_another_name(two_robots: Path) -> None:
    file = two_robots / "pendulum.toml"
    more = 'run = "nodes/controllers/swing_up.py:SwingUp"\nremap = { reference = "/goal/reference" }\n'
    file.write_text(
        PENDULUM.replace('run = "nodes/controllers/swing_up.py:SwingUp"\n', more).replace(
            "decimation = 10", 'decimation = 10\nremap = { reference = "/goal/reference" }'
        )
    )
    topics = {topic: decode(topic, payload) for topic, payload in carried("pendulum.toml", record=False)}
    assert "goal/reference" in topics
    assert "rotary_pendulum/reference" not in topics
    assert topics["rotary_pendulum/command"].value


REFUSED = {
    "a topic of no robot": (
        BOTH + '[[nodes]]\nname = "x"\nrun = "nodes/controllers/swing_up.py:SwingUp"\n',
        r"both\.toml:13: node 'x': publishes: 'command' is a topic of a robot, and no robot is simulated in"
        r" this node's namespace; set the key `namespace` of the node to one of left, right, or remap 'command' to a"
        r' full name such as "/left/rotary_pendulum/command"',
    ),
    "two commanders": (
        BOTH + '[[nodes]]\nname = "x"\nnamespace = "left"\nrun = "nodes/controllers/swing_up.py:SwingUp"\n',
        r"both\.toml:13: node 'x': the node's classmethod commands\(\) names no .* those of node 'left/controller'",
    ),
    "two nodes of one name": (
        BOTH + '[[nodes]]\nname = "controller"\nnamespace = "left"\nrun = "nodes/player.py:Player"\n',
        r"both\.toml:14: node 'controller': key 'name': 'left/controller' is already used in .*pendulum\.toml:20",
    ),
    "one namespace twice": (
        BOTH.replace('"right"', '"left"'),
        r"both\.toml:7: include 'gibbon\.toml': key 'namespace': 'left' has two tables \[sim\], in pendulum\.toml:8"
        r" and gibbon\.toml:8",
    ),
    "no name": (BOTH.replace('"right"', '"5"'), r"key 'namespace': '5' is no valid name"),
    "two clocks": (
        BOTH.replace("record = false", 'record = false, mode = "fast"', 1),
        r"gibbon\.toml:11: \[sim\]: key 'mode' is 'lockstep', and left/sim has 'fast'; give all simulations"
        r" of a launch the same value",
    ),
    "one file for two recorders": (
        BOTH.replace("record = false", "record = true", 1).replace("both.mcap", "left.mcap"),
        r"both\.toml:12: node 'recorder': params: key 'file': 'left.mcap' is also written by node 'left/recorder'",
    ),
    "a remapped topic that is not there": (
        BOTH + '[[nodes]]\nname = "p"\nrun = "nodes/recorder.py:Recorder"\nremap = { stat = "x" }\n'
        'params = { file = "p.mcap" }\n',
        r"both\.toml:16: node 'p': remap: key 'stat': the node has no topic 'stat'",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_composed_is_refused_in_one_line(case: str, two_robots: Path) -> None:
    text, line = REFUSED[case]
    (two_robots / "both.toml").write_text(text)
    with pytest.raises(PlanError, match=line):
        load_plan("both.toml")


def test_simulations_that_end_at_different_times_need_a_duration(two_robots: Path) -> None:
    (two_robots / "gibbon.toml").write_text(GIBBON.replace(f"duration_s = {SECONDS}", "duration_s = 9"))
    with pytest.raises(PlanError, match=r"pendulum\.toml:1 has 0.3 s, gibbon\.toml:1 has 9 s; write one duration_s"):
        load_plan("both.toml")
    (two_robots / "both.toml").write_text(f"duration_s = 0.5\n{BOTH}")
    assert {view.duration_s for view in load_plan("both.toml").views} == {0.5}


def test_a_duration_of_the_command_line_comes_before_those_of_the_files(two_robots: Path) -> None:
    (two_robots / "gibbon.toml").write_text(GIBBON.replace(f"duration_s = {SECONDS}", "duration_s = 9"))
    for file in (BOTH, f"duration_s = 0.5\n{BOTH}"):
        (two_robots / "both.toml").write_text(file)
        plan = load_plan("both.toml", duration_s=0.1)
        assert {plan.duration_s, *(view.duration_s for view in plan.views)} == {0.1}
    with pytest.raises(PlanError, match=r"^--duration: 1e-05 s is less than one time step"):
        load_plan("both.toml", duration_s=1e-5)


@pytest.mark.parametrize("mode", ["lockstep", "fast", "realtime"])
def test_several_simulations_end_at_the_duration_of_the_command_line(mode: str, two_robots: Path) -> None:
    text = BOTH.replace("record = false", f'record = false, mode = "{mode}"')
    (two_robots / "both.toml").write_text(f"duration_s = 30.0\n{text}")
    summary = launched("both.toml", two_robots, "--duration", "0.2")
    assert summary["time"] == pytest.approx(0.2, abs=1e-9)


PUSHES = """
from nodes.framework.messages import JointCommand, Residual, RobotState
from nodes.node import Node


class Push(Node):
    subscribes = {"state": RobotState}
    publishes = {"command": JointCommand, "residual": Residual}

    @classmethod
    def commands(cls, params, plan):
        return []

    def on_message(self, name, message):
        pass
"""


@pytest.mark.parametrize(
    ("remap", "meant"),
    [
        ('command = "/lfet/rotary_pendulum/command"', "; did you mean '/left/rotary_pendulum/command'?"),
        ('command = "/left/rotary_pendulum/comand"', "; did you mean '/left/rotary_pendulum/command'?"),
        ('residual = "/left/rotary_pendulm/residual"', "; did you mean '/left/rotary_pendulum/residual'?"),
        ('command = "/somewhere/else"', ""),
        ('command = "/right/gibbon/command"', None),
        ('residual = "/left/rotary_pendulum/residual"', None),  # for clients and recorders
    ],
)
def test_a_publication_that_no_node_receives_is_warned_of(remap: str, meant: str | None, two_robots: Path) -> None:
    (two_robots / "push.py").write_text(PUSHES)
    node = f'\n[[nodes]]\nname = "push"\nrun = "push.py:Push"\nnamespace = "left"\nremap = {{ {remap} }}\n'
    both = BOTH[: BOTH.index("[[nodes]]")]  # without the recorder, which receives every topic
    (two_robots / "both.toml").write_text(both + node)
    warnings: list[str] = []
    load_plan("both.toml", warnings=warnings)
    key, _, topic = remap.replace('"', "'").partition(" = ")
    line = f"both.toml:{(both + node).splitlines().index(f'remap = {{ {remap} }}') + 1}: node 'push': remap: "
    line += f"key {key!r}: no node of this launch subscribes to {topic}{meant}"
    assert warnings == ([] if meant is None else [line])


@pytest.mark.parametrize("recorder", [False, True])
def test_raw_commands_without_a_guard_are_warned_of_also_where_a_recorder_receives_them(
    recorder: bool, tmp_path: Path
) -> None:
    text = (ROOT / "launch/examples/guarded_arm.toml").read_text()
    (tmp_path / "guarded.toml").write_text(text)
    warnings: list[str] = []
    load_plan(tmp_path / "guarded.toml", warnings=warnings)
    assert warnings == []
    begin, end = text.index('[[nodes]]\nname = "guard"'), text.index('[[nodes]]\nname = "recorder"')
    (tmp_path / "bare.toml").write_text(text[:begin] + (text[end:] if recorder else ""))
    load_plan(tmp_path / "bare.toml", warnings=warnings)
    (line,) = warnings
    assert line.endswith(
        "node 'controller': remap: key 'command': no node of this launch executes the commands 'raw_command'; "
        "add a guard, or remove the key"
    )


def test_a_launch_shows_the_publication_that_no_node_receives(two_robots: Path) -> None:
    (two_robots / "push.py").write_text(PUSHES)
    node = '[[nodes]]\nname = "push"\nrun = "push.py:Push"\nnamespace = "left"\n'
    (two_robots / "both.toml").write_text(f'{BOTH}{node}remap = {{ command = "/lfet/arm/command" }}\n')
    printed = launched("both.toml", two_robots)["printed"]
    assert "key 'command': no node of this launch subscribes to '/lfet/arm/command'; did you mean" in printed


def test_a_subscription_that_nobody_publishes_is_warned_of(two_robots: Path) -> None:
    node = '[[nodes]]\nname = "watch"\nrun = "watch.py:Watch"\nremap = {{ state = "/{}/rotary_pendulum/state" }}\n'
    (two_robots / "watch.py").write_text(
        "from nodes.framework.messages import RobotState\nfrom nodes.node import Node\n\n\nclass Watch(Node):\n"
        '    subscribes = {"state": RobotState}\n\n    def on_message(self, name, message):\n        pass\n'
    )
    (two_robots / "both.toml").write_text(BOTH + node.format("left"))
    planless = (
        "node 'right/controller' subscribes to '/right/gibbon/swing_plan', which no node of this launch publishes"
    )
    assert unpublished(load_plan("both.toml")) == [planless]
    (two_robots / "both.toml").write_text(BOTH + node.format("lfet"))
    line = (
        "node 'watch' subscribes to '/lfet/rotary_pendulum/state', which no node of this launch publishes; "
        "did you mean '/left/rotary_pendulum/state'?"
    )
    assert unpublished(load_plan("both.toml")) == [planless, line]
    assert line in launched("both.toml", two_robots)["printed"]


@pytest.mark.parametrize("file", sorted((ROOT / "launch").glob("**/*.toml")), ids=lambda file: file.stem)
def test_the_launch_files_of_the_project_have_a_publisher_for_each_subscription(file: Path) -> None:
    assert unpublished(load_plan(file)) == []


def test_info_names_the_robots_of_all_namespaces(two_robots: Path, capsys: pytest.CaptureFixture[str]) -> None:
    launched("both.toml", two_robots)
    assert run(["info", "both.mcap"]) == 0
    assert "robot: left/rotary_pendulum, right/gibbon" in capsys.readouterr().out.splitlines()


def test_values_of_a_namespace_are_set_with_its_name(two_robots: Path) -> None:
    plan = load_plan("both.toml", ["left/controller.torque_limit=0.04", "right/sim.rate_hz=500", "sim.step_ms=2"])
    assert plan.node("left/controller").params["torque_limit"] == 0.04
    assert plan.view("left").node("controller").params["torque_limit"] == 0.04
    assert plan.view("right").sim.rate_hz == 500
    assert [view.sim.step_ms for view in plan.views] == [2, 2]
    with pytest.raises(PlanError, match=r"no node 'left/contoller'; did you mean 'left/controller'"):
        load_plan("both.toml", ["left/contoller.torque_limit=0.04"])
