"""The command line without a live launch: help, one line for bad input, files it writes."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from nodes.cli.application import application, run
from nodes.cli.commands import MODULES, SUMMARIES
from nodes.cli.commands.running import parameters
from nodes.cli.publishing import parse_message
from nodes.cli.terminal import InputError
from nodes.framework.messages.topics import known_topics
from nodes.framework.plan.files.file import load_plan
from nodes.framework.plan.key_checks import PlanError
from nodes.framework.plan.key_reference import ABOUT, ABOUT_PARAMETERS, NOT_IN_A_FILE, TABLES
from nodes.framework.recording.reader import RecordingWriter
from robots.registry import build
from sim_core.integrators.steppers import ADJUSTABLE, STEPPERS
from sim_core.stabilization.registry import stabilizers_by_name
from sim_core.tables import defaults_of

ROOT = Path(__file__).resolve().parents[3]
SHADOWING = "raise ImportError('a folder of the user stands before ours')"


@pytest.fixture(autouse=True)
def own_domain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("ARMSWING_DOMAIN", raising=False)
    monkeypatch.chdir(tmp_path)


def commands(groups: bool = False, names: tuple[str, ...] = tuple(MODULES)) -> Iterator[str]:
    """Every command line that ends in a command: "launch", "sim step", ...; with `groups`, also "", "sim", ..."""

    def walk(group: object, path: tuple[str, ...]) -> Iterator[str]:
        if groups:
            yield " ".join(path)
        for name, command in getattr(group, "commands", {}).items():
            if hasattr(command, "commands"):
                yield from walk(command, (*path, name))
            else:
                yield " ".join((*path, name))

    yield from walk(typer.main.get_command(application(names)), ())


@pytest.mark.parametrize("command", list(commands(groups=True)))
def test_every_command_and_group_has_help_with_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*command.split(), "--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    example = f"Example: armswing {command}"
    assert example in text
    for word in text.partition(example)[2].split():
        if ".py" in word or word.startswith("launch/"):
            assert (ROOT / word.partition(":")[0]).is_file()


def test_the_commands_are_those_of_the_design() -> None:
    assert set(commands()) == {
        *(
            "launch",
            "graph",
            "run",
            "record",
            "import",
            "play",
            "info",
            "export",
            "view",
            "doctor",
            "new controller",
            "bridge plotjuggler",
            "bridge foxglove",
            "bridge ros2",
            "robot equations",
        ),
        *(
            "reproduce",
            "sweep",
            "bode",
            "compare",
            "message list",
            "message show",
            "hil report",
            "hil fit",
            "hil excite",
            "hil check",
            "hil processor",
            "replay",
        ),
        *(
            "robot list",
            "robot show",
            "robot guard",
            "robot linearize",
            "robot modes",
            "robot export",
            "robot import",
            "robot map",
            "node list",
            "node info",
        ),
        *("param list", "param get", "param set"),
        *("topic list", "topic echo", "topic hz", "topic bw", "topic delay", "topic pub"),
        *("keys new", "keys list", "keys allow", "keys revoke"),
        *("sim status", "sim pause", "sim resume", "sim step", "sim reset", "sim speed", "sim push"),
        *("sim snapshot", "sim restore", "estop"),
    }


def test_a_push_prints_body_force_point_and_duration(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        "nodes.cli.commands.running.simulation._call", lambda *_, **__: {"state": "running", "time": 1.0, "tick": 1000}
    )
    assert run(["sim", "push", "link_8", "0", "900", "0"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "pushed link_8 with (0, 900, 0) N at its center of mass, for 0.1 s",
        "running at t = 1.000 s, step 1000",
    ]


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys\nfrom nodes.cli.application import run\nrun(['--help'])\n"
        "heavy = {'numpy', 'zmq', 'numba', 'casadi', 'scipy', 'mcap', 'robots', 'msgspec', 'matplotlib', 'jinja2'}\n"
        "heavy &= set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


BAD_INPUT = {
    "launch nothing.toml": (2, "nothing.toml: no such launch file"),
    "launch nothing.toml --duration -1": (2, "--duration -1: expected a positive number of seconds"),
    "launch nothing.toml --json no/folder.json": (2, "there is no folder"),
    "sim push pendulum 0.2 0 0 --seconds 0.2": (2, "there is no option --seconds"),
    "sim push pendulum -0.2 0 -1e-3 --durtion=1": (
        2,
        "no option --durtion; did you mean '--duration'?; see 'armswing sim",
    ),
    "sim speed -x": (2, "there is no option -x"),
    f"launch {ROOT}/launch/charmie_pick.toml --set sim.parameters.arm.links.10.mass=1.2": (
        2,
        "robot 'charmie' has no parameter 'arm.links.10.mass'",
    ),
    "robot show rotary_pendulm": (2, "did you mean 'rotary_pendulum'?"),
    "robot show rotary_pendulum --param mass": (2, "expected key=value"),
    "robot export rotary_pendulm --format urdf": (2, "did you mean 'rotary_pendulum'?"),
    "robot export rotary_pendulum --format urdf --param coordinates=absolute": (
        2,
        "absolute coordinates; a tree can be exported only from joint",
    ),
    "robot export rotary_pendulum --format mjcf --param coordinates=absolute": (2, "try --param coordinates=joint"),
    "robot export rotary_pendulum --format sdf": (2, "no format 'sdf'; its formats are urdf, mjcf, c, object"),
    "robot export rotary_pendulum --format urdf -o no/folder.urdf": (2, "there is no folder"),
    "robot export charmie --format c": (2, "name a folder for them with --output"),
    "robot export arm_2dof --format object --target risc -o out": (2, "its targets are x86_64, aarch64"),
    "sim step none": (2, "see 'armswing sim step --help'"),
    "sim spee 2": (2, "No such command 'spee'"),
    "sim speed -- -1": (2, "expected a positive number"),
    "sim speed -1": (2, "speed -1: expected a positive number"),
    "sim speed 1 --jsn": (2, "--jsn"),
    "sim step -1": (2, "Invalid value for 'count'"),
    "param set my_controller angle_deg -45": (1, "no launch is live in domain 0"),
    "sim status": (1, "no launch is live in domain 0"),
    "sim status --domain 7": (1, "no launch is live in domain 7"),
    "sim restore nothing.state": (2, "no such file 'nothing.state'"),
    "node list": (1, "no launch is live in domain 0"),
    "param set base timeout_s": (2, "the value is missing; write `param set base timeout_s VALUE`"),
    "param set base timeout_s=1": (2, "'timeout_s=1' has an equals sign; write `param set base timeout_s 1`"),
    "param get base.timeout_s": (2, "write `param get base timeout_s`, with a space between node and parameter"),
    "param set swing_up gain 2": (1, "no launch is live in domain 0"),
    "topic echo x/state --domain 1000": (2, "domain 1000 is not in 0 .. 232"),
    "topic pub nonsense {}": (2, "no topic 'nonsense'; topics are <robot>/description"),
    "topic pub x/comand {}": (2, "did you mean 'x/command'?"),
    'topic pub x/command {"mode":"torque"}': (2, "mode is 'torque'; choose one of effort, position, velocity"),
    "topic pub x/command {": (2, "give JSON"),
    'topic pub x/cmd_vel {"linear":0.2}': (2, 'for example, {"linear": [0.5, 0.5, 0.5], "angular": [0.5, 0.5, 0.5]}'),
    'topic pub x/cmd_vel {"linear":[0.2]}': (
        2,
        "linear has 1 number; it must have 3; a valid message is, for example, {",
    ),
    'topic pub x/command {"nam":[]}': (2, "JointCommand has no field 'nam'"),
    "run nowhere.py:Node": (2, "no such file"),
    "run nodes/recorder.py:Record": (2, "did you mean 'Recorder'?"),
    "param set my_controller angle_deg=40": (2, "has an equals sign; write `param set my_controller angle_deg 40`"),
    "robot show charmie --param balance.spring.stiffness=100": (2, "of its file: change it in a copy, file=COPY"),
    "robot show gibbon --param mass=5": (2, "did you mean 'mass_scale'?"),
    "hil report nothing.mcap": (2, "no recording 'nothing.mcap'"),
    "replay nothing.mcap --node nodes/recorder.py:Recorder": (2, "no recording 'nothing.mcap'"),
    "info nothing.mcap": (2, "no recording 'nothing.mcap'"),
    "play nothing.mcap": (2, "no recording 'nothing.mcap'"),
    "export nothing.mcap --csv out": (2, "no recording 'nothing.mcap'"),
    "message show JointComand": (2, "did you mean 'JointCommand'?"),
    "compare nothing.mcap nothing.mcap": (2, "no recording 'nothing.mcap'"),
    "record -o no/folder.mcap": (2, "there is no folder"),
    "reproduce nad": (
        2,
        "no study of 'nad'; papers are charmie, gibbon, lipinski, man, nada, schiehlen; did you mean 'nada'?",
    ),
    "reproduce nada --output no/folder": (2, "there is no folder"),
    "reproduce nada --workers 0": (2, "see 'armswing reproduce --help'"),
    "view nothing.mcap": (2, "no recording 'nothing.mcap'"),
    "view --png picture.jpg": (2, "pictures are PNG; name the file 'picture.png'"),
    "view --png picture.png": (1, "no launch is live in domain 0"),
    "keys allow robot 1234": (2, "'1234' is no public key; give the 64 hexadecimal digits"),
    "keys allow 5obot " + 64 * "0": (2, "'5obot' is no name of a key"),
    "keys revoke nobody_at_all": (2, "the allow-list has no key 'nobody_at_all'; its keys are "),
    "new controller Swing-Up": (2, "is no name for a node"),
}


@pytest.mark.parametrize("group", ["", "robot", "param", "new"])
def test_a_group_without_a_command_shows_its_help_and_names_its_commands(
    group: str, capsys: pytest.CaptureFixture[str]
) -> None:
    there = [line.split()[-1] for line in commands() if line.startswith(f"{group} ")] if group else ["launch", "robot"]
    assert run(group.split()) == 2
    captured = capsys.readouterr()
    assert "Usage: armswing" in captured.out
    assert captured.err.count("\n") == 1
    assert captured.err.startswith(f"armswing: name a command: {', '.join(there[:1])}")
    assert all(name in captured.err for name in there)
    assert f"see '{f'armswing {group}'.strip()} --help'" in captured.err


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("hil_controller.toml --host desk", "runs the server; launch there without --host"),
        (
            "hil_controller.toml --host elsewhere",
            "is not in [hosts]; give one of the hosts robot, desk (the server's host: launch there without --host)",
        ),
        ("hil_controller.toml --host robbot", "did you mean 'robot'?"),
        ("hil_controller.toml --set hosts.desc=10.0.0.1", "[hosts] has no 'desc'; did you mean 'desk'?"),
        ("rotary_pendulum.toml --host robot", "has no table [hosts]"),
        ("hil_controller.toml --host robot --view", "--view works only in the launch on the server's host"),
        ("hil_controller.toml --host robot --at 0", "--at works only in the launch on the server's host"),
        ("hil_controller.toml --host robot", "no key in"),
        ("hil_controller.toml", "make one with 'armswing keys new'"),
        ("hil_controller.toml --set hosts.robot=here", "'here' is no numeric address"),
    ],
)
def test_a_launch_that_spans_computers_says_what_it_lacks(
    line: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["launch", *f"{ROOT / 'launch'}/{line}".split()]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("armswing: ")
    assert captured.err.count("\n") == 1
    assert text in captured.err


@pytest.mark.parametrize("line", list(BAD_INPUT))
def test_bad_input_is_one_line_and_an_exit_code(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    exit_code, text = BAD_INPUT[line]
    assert run(line.split()) == exit_code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("armswing: ")
    assert captured.err.count("\n") == 1
    assert text in captured.err


@pytest.mark.parametrize("line", ["hil report", "info", "play", "compare run.mcap", "view", "export --csv x"])
def test_a_recording_that_is_not_there_is_named_with_the_one_that_was_meant(
    line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("run.mcap", "hil_robot.mcap"):
        (tmp_path / name).touch()
    assert run([*line.split(), "hil_robto.mcap"]) == 2
    assert "no recording 'hil_robto.mcap'; did you mean 'hil_robot.mcap'?" in capsys.readouterr().err
    assert run([*line.split(), str(tmp_path)]) == 2
    assert "is a folder" in capsys.readouterr().err


def test_what_is_no_launch_file_is_said_to_be_what_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    RecordingWriter(tmp_path / "run.mcap", {}, sidecar=None)
    (tmp_path / "noise.toml").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "robot.toml").write_text((ROOT / "robots/charmie/charmie.toml").read_text())
    for file, says in (
        ("run.mcap", "run.mcap: this is a recording, not a launch file; show it with 'armswing view run.mcap'"),
        ("noise.toml", "this is no launch file, because it is not text"),
        (
            "robot.toml",
            "it has no table [sim]; to use it as a robot's parameter file, write parameters =",
        ),
    ):
        assert run(["launch", file]) == 2
        error = capsys.readouterr().err
        assert says in error
        assert error.count("\n") == 1


@pytest.mark.parametrize("topic", [name.replace("<", "").replace(">", "") for name in known_topics()])
def test_the_example_in_a_refusal_is_a_message_of_its_topic(topic: str) -> None:
    with pytest.raises(InputError) as refused:
        parse_message(topic, "[]")
    example = str(refused.value).partition("JSON such as ")[2]
    said = parse_message(topic, example)
    assert {name: getattr(said, name) for name in json.loads(example)} == json.loads(example) != {}


def test_a_file_that_is_no_recording_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "notes.txt").write_text("no\n")
    for command in ("info notes.txt", "play notes.txt", "export notes.txt --csv out"):
        assert run(command.split()) == 2
        assert capsys.readouterr().err == "armswing: notes.txt is not an MCAP file; expected a recording (.mcap)\n"


def test_a_recording_that_was_cut_before_its_first_message_is_said_to_be_empty(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    RecordingWriter(tmp_path / "killed.mcap", {}, sidecar=None)
    assert run(["info", "killed.mcap"]) == 0
    captured = capsys.readouterr()
    assert "0.000 s (t = 0.000 .. 0.000 s), 0 messages" in captured.out
    assert captured.err.splitlines() == [
        "the file has no messages: it was cut off before the first one",
        "hole: the beginning .. the end (cut off): the file was not closed, the number of later messages is unknown",
    ]


def test_info_tells_the_plan_in_a_line_and_one_for_each_node(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = [{"name": "damper", "run": "pd.py:Damper", "params": {"gain": 2.0}}, {"name": "log", "run": "log.py:Log"}]
    sim = {"robot": "rotary_pendulum", "mode": "fast", "step_ms": 1.0}
    for file, plan in (("new.mcap", {"name": "demo", "sim": sim, "nodes": nodes}), ("other.mcap", {"title": "demo"})):
        RecordingWriter(tmp_path / file, {"plan": json.dumps(plan)}, sidecar=None)
        assert run(["info", file]) == 0
    shown = capsys.readouterr().out.splitlines()
    at = shown.index("plan: demo, rotary_pendulum fast, steps of 1 ms (all: --json)")
    assert shown[at + 1 : at + 3] == ["  damper  pd.py:Damper  gain = 2.0", "  log  log.py:Log"]
    assert shown[-1] == 'plan: {"title": "demo"}'


@pytest.mark.parametrize(("node", "says"), [("sim", "no tunables: no number"), ("damper", "no parameters")])
def test_a_node_without_parameters_says_so(
    node: str, says: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(parameters, "_parameters", lambda domain, name: {})
    assert run(["param", "list", node]) == 0
    assert says in capsys.readouterr().out


def test_every_key_of_a_launch_file_is_listed_with_its_default_and_what_it_is(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for table, kind in TABLES.items():
        fields = {name for name in kind.__struct_encode_fields__ if name not in NOT_IN_A_FILE.get(table, ())}
        assert fields == set(ABOUT[table])
    assert run(["launch", "--keys"]) == 0
    lines = [re.split(r" {2,}", line.strip()) for line in capsys.readouterr().out.splitlines()]
    assert ["mode", "realtime | fast | lockstep", '"realtime"'] in [line[:3] for line in lines]
    assert [
        "tolerance_deg",
        "number, 1e-06 .. 360 degrees",
        "10.0",
        "largest distance from the target, degrees",
    ] in lines
    assert ["robot", "text", "required"] in [line[:3] for line in lines]
    for key, methods in (("stepper", STEPPERS), ("stabilizer", stabilizers_by_name())):
        (row,) = [line for line in lines if line[:2] == [key, "text or table"]]
        assert row[3].partition(": ")[2].split(", ") == list(methods)
    makers = ADJUSTABLE | stabilizers_by_name()
    asked = {(name, key) for name, maker in makers.items() for key in defaults_of(maker)}
    assert asked == {(line[0], line[1]) for line in lines if line[0] in makers}
    assert {key for _, key in asked} == set(ABOUT_PARAMETERS)


def test_a_message_is_shown_field_by_field(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["message", "list"]) == 0
    listed = capsys.readouterr().out
    assert re.search(
        r"^JointCommand +<robot>/command, <robot>/raw_command, <robot>/applied_command +A command to actuators",
        listed,
        re.MULTILINE,
    )
    assert run(["message", "show", "JointCommand"]) == 0
    shown = capsys.readouterr().out
    for line in (
        r"mode +effort \| velocity \| position +\"effort\"",
        r"value +list of number +\[\]",
        r"state_seq +whole number",
    ):
        assert re.search(f"^{line}", shown, re.MULTILINE), shown
    assert "timestamp  time (s)" in shown
    assert run(["message", "show", "RobotState", "--json"]) == 0
    assert "RobotState" in json.loads(capsys.readouterr().out)["$defs"]


def test_a_new_controller_of_one_joint_leaves_the_others_to_their_servos(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["new", "controller", "one", "--robot", "charmie", "--joint", "left_arm_4"]) == 0
    plan = load_plan(tmp_path / "one.toml")
    (rest,) = [node for node in plan.nodes if node.name == "rest"]
    assert sorted([*rest.params["joints"], "left_arm_4"]) == sorted(a.name for a in build("charmie").actuators)
    assert run(["new", "controller", "two", "--robot", "charmie", "--joint", "left_arm_9"]) == 2
    assert "did you mean 'left_arm_" in capsys.readouterr().err
    assert run(["new", "controller", "two", "--robot", "charmy"]) == 2
    assert "did you mean 'charmie'?" in capsys.readouterr().err
    assert run(["new", "controller", "two", "--robot", "triple_pendulum"]) == 2
    assert "no actuator" in capsys.readouterr().err


def test_a_launch_file_is_looked_for_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "launch").mkdir()
    (tmp_path / "launch" / "squat.toml").write_text("")
    for name in ("squat", "launch/squat", "squat.toml"):
        with pytest.raises(PlanError, match=r"^launch/squat.toml: the table \[sim\] is missing"):
            load_plan(name)
    with pytest.raises(PlanError, match=r"no such launch file; did you mean 'launch/squat.toml'\?"):
        load_plan("squad")
    with pytest.raises(PlanError, match=r"no such launch file$"):
        load_plan("walk")


@pytest.mark.parametrize("start", [["armswing"], [sys.executable, "-P", "-m", "nodes.cli"]])
def test_a_folder_named_nodes_in_the_working_directory_is_not_ours(start: list[str], tmp_path: Path) -> None:
    for package in ("nodes", "robots", "sim_core"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text(SHADOWING)
    if start == ["armswing"]:
        start = [str(Path(sys.executable).with_name("armswing"))]
    done = subprocess.run([*start, "robot", "list"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "rotary_pendulum" in done.stdout


def test_what_takes_seconds_is_said_on_a_terminal_and_nowhere_else(tmp_path: Path) -> None:
    command = [sys.executable, "-P", "-m", "nodes.cli", "robot", "export", "arm_2dof", "--format", "c"]
    command += ["--output", str(tmp_path / "c")]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120"}
    ours, theirs = pty.openpty()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs, env=environment)
    os.close(theirs)
    shown = b""
    with contextlib.suppress(OSError):  # how the end of a pseudo-terminal is told
        while part := os.read(ours, 4096):
            shown += part
    os.close(ours)
    assert b"deriving the equations of 'arm_2dof' and writing its kernels" in shown
    said, _ = process.communicate(timeout=20.0)
    assert process.returncode == 0
    assert b"deriving" not in said
    quiet = subprocess.run(command, capture_output=True, env=environment, check=True)
    assert quiet.stderr == b""


def test_a_recording_is_no_snapshot(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "run.mcap"
    file.write_bytes(b"\x89MCAP0\r\n")
    assert run(["sim", "restore", str(file)]) == 2
    assert "is a recording: give a time in it with --at" in capsys.readouterr().err


@pytest.mark.parametrize("name", MODULES)
def test_a_command_is_the_same_without_the_others(name: str) -> None:
    alone, together = (
        {command.partition(" ")[0] for command in commands(names=names)} for names in ((name,), tuple(MODULES))
    )
    assert alone == {each for each in MODULES if MODULES[each] == MODULES[name]} <= together


@pytest.mark.parametrize("name", MODULES)
def test_the_list_of_commands_has_the_first_paragraph_of_each(name: str) -> None:
    command = typer.main.get_command(application((name,))).commands[name]  # type: ignore[attr-defined]
    assert " ".join(command.help.split("\n\n")[0].split()) == SUMMARIES[name]


def test_a_command_line_imports_the_modules_of_its_own_command_alone() -> None:
    code = "import sys; from nodes.cli.application import run; run(['keys', '--help']); print(*sys.modules, sep='\\n')"
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    imported = [each for each in done.stdout.splitlines() if each.startswith("nodes.cli.commands.")]
    assert imported == ["nodes.cli.commands.setup", "nodes.cli.commands.setup.keys"]
