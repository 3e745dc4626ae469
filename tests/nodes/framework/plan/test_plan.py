"""A launch file is checked before anything starts; every error is one line with file, node and key."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Literal

import msgspec
import pytest

from nodes.framework.plan.files.file import load_plan
from nodes.framework.plan.key_checks import PlanError, convert
from nodes.framework.plan.launch_plan import Plan, read_plan, save_plan
from nodes.framework.plan.node_classes import load_class
from robots import registry
from sim_core.integrators.steppers import STEPPERS

NODE = '[[nodes]]\nname = "damp"\nrun = "small_nodes.py:Damp"\n'
TUNED = """
from typing import Literal

import msgspec
from nodes.node import Node
from nodes.framework.messages import JointCommand, JointReference, RobotState


class Params(msgspec.Struct, forbid_unknown_fields=True):
    gain: float = 1.0  # N m s/rad


class Worded(Node):
    class Params(msgspec.Struct, forbid_unknown_fields=True):
        mode: str = "off"
        level: float = 0.0
        kinds: list[Literal["sine", "steps"]] = []


class Tuned(Node):
    Params = Params
    publishes = {"command": JointCommand}


class Part(Node):
    class Params(msgspec.Struct, forbid_unknown_fields=True):
        actuator: str = "arm"

    publishes = {"command": JointCommand}

    @classmethod
    def commands(cls, params, plan):
        return [params.actuator]


class Picky(Node):
    @classmethod
    def check(cls, params, plan):
        if plan.sim.robot == "triple_pendulum":
            raise ValueError("the triple pendulum is none of mine")


class Deaf(Node):
    subscribes = {"sate": RobotState}


class Mute(Node):
    publishes = {"comand": JointCommand}


class Own(Node):
    subscribes = {"gusts": JointCommand}
    publishes = {"comments": JointReference}

    def on_message(self, name, message):
        yield "comments", JointReference()


class Slip(Node):
    subscribes = {"state": RobotState}

    def on_mesage(self, name, message):
        return None


class Empty(Node):
    subscribes = {"state": RobotState}
    publishes = {"command": JointCommand}

    def compute(self):
        return None


class Liar(Node):
    publishes = {"state": JointCommand}


class Listed(Node):
    subscribes = ("state",)


class Quoted(Node):
    publishes = {"command": "JointCommand"}


class Helpless(Node):
    services = ["tare"]


class NotANode:
    pass
"""


@pytest.fixture
def write(tmp_path: Path, node_file: Path) -> Path:
    (tmp_path / "tuned.py").write_text(TUNED)
    return tmp_path


def plan_of(folder: Path, text: str, *overrides: str, sim: str = 'robot = "rotary_pendulum"') -> Plan:
    file = folder / "plan.toml"
    file.write_text(f"{text}\n" if "[sim]" in text else f"[sim]\n{sim}\n{text}\n")
    return load_plan(file, overrides)


def test_a_plan_survives_being_saved(write: Path) -> None:
    milestone = '[[milestones]]\nname = "up"\njoint = "pendulum"\ntarget_deg = 180\n'
    plan = plan_of(write, NODE + milestone)
    save_plan(plan, write / "plan.json")
    assert read_plan(write / "plan.json") == plan
    assert plan.name == "plan"
    assert plan.sim.step_s == 1e-3
    assert plan.node("damp").run == "small_nodes.py:Damp"
    assert load_class(plan.node("damp").run, plan.folder).__name__ == "Damp"


ROTARY = 'robot = "rotary_pendulum"\n'
PART_NODE = '[[nodes]]\nname = "part"\nrun = "tuned.py:Part"\n'
TUNED_NODE = '[[nodes]]\nname = "tuned"\nrun = "tuned.py:Tuned"\n'


def test_overrides_reach_sim_nodes_params_and_the_plan(write: Path) -> None:
    overrides = ["sim.mode=fast", "sim.step_ms=2", "tuned.gain=3.5", "tuned.decimation=4", "seed=9", "duration_s=1.5"]
    plan = plan_of(write, TUNED_NODE, *overrides)
    assert (plan.sim.mode, plan.sim.step_ms, plan.seed, plan.duration_s) == ("fast", 2.0, 9, 1.5)
    assert (plan.node("tuned").params, plan.node("tuned").decimation) == ({"gain": 3.5}, 4)


def test_nan_is_a_word_where_a_word_is_asked_for(write: Path) -> None:
    node = '[[nodes]]\nname = "wobble"\nrun = "tuned.py:Worded"\n'
    plan = plan_of(write, node, "wobble.mode=nan")
    save_plan(plan, write / "plan.json")
    assert read_plan(write / "plan.json").node("wobble").params == {"mode": "nan"}
    with pytest.raises(PlanError, match="key 'level' is nan; it must be a finite number"):
        plan_of(write, node, "wobble.level=nan")
    with pytest.raises(PlanError, match=r"key 'kinds\[0\]' is 'sin'; choose one of sine, steps"):
        plan_of(write, node, 'wobble.kinds=["sin"]')


@pytest.mark.parametrize("stepper", STEPPERS)
def test_every_stepper_may_be_asked_for(stepper: str, write: Path) -> None:
    assert plan_of(write, NODE, f"sim.stepper={stepper}").sim.stepper == stepper


UP = '[[milestones]]\nname = "up"\njoint = "pendulum"\ntarget_deg = 180\n'
DOWN = '[[milestones]]\nname = "down"\njoint = "pendulum"\ntarget_deg = 0\n'


@pytest.mark.parametrize(
    ("text", "sim", "says"),
    [
        ("", 'robot = "rotary_pendulm"', ["[sim]", "'robot'", "did you mean 'rotary_pendulum'"]),
        ("", 'robot = "rotary_pendulum"\nstep_mss = 1', ["[sim]", "'step_mss'", "did you mean 'step_ms'"]),
        ("", 'robot = "rotary_pendulum"\nmode = "slow"', ["[sim]", "'mode'", "slow"]),
        (
            "",
            'robot = "rotary_pendulum"\nmode = "realtme"',
            ["'mode'", "is 'realtme'; choose one of fast, lockstep, realtime; did"],
        ),
        ("", 'robot = "rotary_pendulum"\nspeed = nan', ["[sim]", "'speed'", "is nan; it must be a finite number"]),
        (
            "",
            'robot = "rotary_pendulum"\nparameters = { start_deg = inf }',
            ["'parameters.start_deg' is inf; it must be a finite number"],
        ),
        (
            TUNED_NODE + "params = { gain = -inf }",
            None,
            ["node 'tuned'", "'gain'", "-inf; it must be a finite number"],
        ),
        ("", 'robot = "rotary_pendulum"\nstep_ms = 0', ["[sim]", "'step_ms'", "above zero"]),
        ("", 'robot = "rotary_pendulum"\nstepper = "rk5"', ["[sim]", "'stepper'", "did you mean 'rk4'"]),
        ("", 'robot = "rotary_pendulum"\nstabilizer = "fuzy"', ["[sim]", "'stabilizer'", "sampled_fuzzy"]),
        ("", ROTARY + '[sim.stabilizer]\nname = "baumgart"', ["[sim.stabilizer]", "no stabilizer", "mean 'baumgarte'"]),
        ("", ROTARY + '[sim.stabilizer]\nname = "pid"\nkp = 1', ["[sim.stabilizer]", "unknown key 'kp'", "Kd, Ki, Kp"]),
        ("", ROTARY + '[sim.stabilizer]\nname = "pid"\nKp = "1"', ["[sim.stabilizer]", "Kp is '1'", "a number"]),
        (
            "",
            ROTARY + '[sim.stabilizer]\nname = "pid"\nKp = -1',
            ["[sim.stabilizer]", "Kp is -1.0", "zero or positive"],
        ),
        ("", ROTARY + "[sim.stabilizer]\nalpha = 1", ["[sim.stabilizer]", "key 'name' is missing", "sampled_fuzzy"]),
        ("", ROTARY + '[sim.stepper]\nname = "rk4"\nrtol = 1e-3', ["[sim.stepper]", "unknown key 'rtol'"]),
        ("", ROTARY + '[sim.stepper]\nname = "radau5"\ntolerance = 0', ["[sim.stepper]", "tolerance is 0"]),
        (
            "",
            'robot = "crank_slider"\nparameters = { start = "prnted" }',
            ["'parameters.start'", "start is 'prnted'", "printed"],
        ),
        ("", 'robot = "rotary_pendulum"\nspeed = 1e308', ["[sim]", "'speed'", "is 1e+308, not in 0.001 .. 1000"]),
        ("", 'robot = "rotary_pendulum"\nspeed = "quick"', ["[sim]", "'speed'"]),
        ("", 'robot = "rotary_pendulum"\nparameters = { masss = 1.0 }', ["[sim]", "'parameters'", "masss"]),
        (NODE + "decimaton = 2", None, ["node 'damp'", "'decimaton'", "did you mean 'decimation'"]),
        (NODE + "every = 2", None, ["node 'damp'", "'every'", "renamed to 'decimation'"]),
        (NODE + "decimation = 0", None, ["node 'damp'", "'decimation'", "at least 1"]),
        (NODE + 'host = "far.away"', None, ["node 'damp'", "'host'", "'far.away'", "add a table [hosts]"]),
        ("[hosts]\nfar = '10.0.0.2'", ROTARY, ["[sim]", "'localhost' is not in [hosts]", "hosts are far"]),
        ("[hosts]\nfar = 'robot.local'", ROTARY + "host = 'far'", ["[hosts]", "'far'", "no numeric address"]),
        ("[hosts]\nlocalhost = '10.0.0.2'", ROTARY, ["[hosts]", "'localhost'", "must not be localhost"]),
        (NODE + NODE, None, ["node 'damp'", "'name'", "already used"]),
        (NODE.replace('"damp"', '"sim"'), None, ["node 'sim'", "'name'", "already used"]),
        (NODE.replace('"damp"', '"a/b"'), None, ["node 'a/b'", "'name'", "letters"]),
        (NODE.replace("small_nodes", "no_nodes"), None, ["node 'damp'", "no such file", "no_nodes.py"]),
        (NODE.replace(":Damp", ":Dmap"), None, ["node 'damp'", "'Dmap'", "did you mean 'Damp'"]),
        (NODE.replace(":Damp", ""), None, ["node 'damp'", "path/to/file.py:ClassName"]),
        (TUNED_NODE.replace(":Tuned", ":NotANode"), None, ["node 'tuned'", "no subclass of Node"]),
        (TUNED_NODE.replace(":Tuned", ":Liar"), None, ["node 'tuned'", "'state'", "RobotState"]),
        (TUNED_NODE.replace(":Tuned", ":Slip"), None, ["'tuned'", "'on_mesage', which is never", "mean 'on_message'?"]),
        (
            TUNED_NODE.replace(":Tuned", ":Empty"),
            None,
            ["'tuned'", "Empty subscribes to 'state', but has no 'on_message'"],
        ),
        (TUNED_NODE.replace(":Tuned", ":Listed"), None, ["'tuned'", "Listed.subscribes is ('state',); write {topic: "]),
        (TUNED_NODE.replace(":Tuned", ":Quoted"), None, ["'tuned'", "entry 'command': 'JointCommand'; write topic: "]),
        (TUNED_NODE.replace(":Tuned", ":Helpless"), None, ["'tuned'", "Helpless.services is ['tare']; write {name: "]),
        (TUNED_NODE.replace(":Tuned", ":Deaf"), None, ["node 'tuned'", "'sate'", "did you mean 'state'"]),
        (TUNED_NODE.replace(":Tuned", ":Mute"), None, ["node 'tuned'", "'comand'", "did you mean 'command'"]),
        (TUNED_NODE + "params = { gian = 2.0 }", None, ["node 'tuned'", "'gian'", "did you mean 'gain'"]),
        (TUNED_NODE + 'params = { gain = "big" }', None, ["node 'tuned'", "'gain'"]),
        (NODE + TUNED_NODE, None, ["node 'tuned'", "'damp'", "remove one"]),
        (NODE + PART_NODE, None, ["node 'part'", "'damp'", "remove one"]),
        (PART_NODE + NODE, None, ["node 'damp'", "'part'", "commands() names no actuators"]),
        (PART_NODE + PART_NODE.replace('"part"', '"other"'), None, ["node 'other'", "'part'", "remove one"]),
        (
            NODE + PART_NODE + 'params = { actuator = "tilt" }',
            'robot = "charmie"',
            ["node 'part'", "'tilt'", "unless its classmethod commands() names fewer; remove one of the two"],
        ),
        (PART_NODE + 'params = { actuator = "amr" }', None, ["node 'part'", "'amr'", "did you mean 'arm'"]),
        ('[[milestones]]\nname = "up"\njoint = "pendulm"\ntarget_deg = 180', None, ["'up'", "did you mean 'pendulum'"]),
        (UP + 'after = "dwn"\n' + DOWN, None, ["milestone 'up'", "'after'", "did you mean 'down'"]),
        (UP + 'after = "down"\n' + DOWN + 'after = "up"', None, ["in a circle, 'up' after 'down' after 'up'"]),
        (UP + UP, None, ["milestone 'up'", "already used"]),
        (UP, 'robot = "crank_slider"', ["milestone 'up'", "no joint 'pendulum'"]),
        (UP.replace("pendulum", "lift"), 'robot = "charmie"', ["'lift' has positions in m; choose a joint with"]),
        ("[[node]]", None, ["'node'", "did you mean 'nodes'"]),
        ("nodes = 3", None, ["plan.toml"]),
        ("[sim]\nmode = 'fast'", None, ["[sim]", "robot"]),
        ("[sim", None, ["not valid TOML"]),
        ("duration_s = -1\n[sim]\nrobot = 'rotary_pendulum'", None, ["'duration_s'", "above zero"]),
        ("domain = 900\n[sim]\nrobot = 'rotary_pendulum'", None, ["'domain'", "900"]),
    ],
)
def test_a_mistake_is_named_in_one_line(text: str, sim: str | None, says: list[str], write: Path) -> None:
    with pytest.raises(PlanError) as error:
        plan_of(write, text, sim=sim or 'robot = "rotary_pendulum"')
    line = str(error.value)
    assert "\n" not in line
    for part in ["plan.toml", *says]:
        assert part in line, line


def test_what_only_the_node_knows_is_checked_too(write: Path) -> None:
    node = "[[nodes]]\nname = 'picky'\nrun = 'tuned.py:Picky'\n"
    with pytest.raises(PlanError, match=r"node 'picky': params: the triple pendulum is none of mine$"):
        plan_of(write, node, sim='robot = "triple_pendulum"')
    assert plan_of(write, node).nodes


def test_nodes_may_command_actuators_of_their_own(write: Path, arm: str) -> None:
    part = PART_NODE + 'params = { actuator = "elbow_motor" }\n'
    other = part.replace("elbow", "shoulder").replace('"part"', '"other"')
    assert len(plan_of(write, part + other, sim=f'robot = "{arm}"').nodes) == 2
    with pytest.raises(PlanError, match="two nodes, 'part' and 'other', command actuator 'elbow_motor'; remove"):
        plan_of(write, part + part.replace('"part"', '"other"'), sim=f'robot = "{arm}"')


def test_a_parameter_file_is_found_where_a_run_is(write: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from robots.charmie.parameters import DEFAULT_FILE

    beside = write / "launch" / "mine"
    elsewhere = write / "elsewhere"
    for folder in (beside, elsewhere):
        folder.mkdir(parents=True)
    monkeypatch.chdir(elsewhere)
    text = '[sim]\nrobot = "charmie"\nparameters = { file = "mine.toml" }\n'
    (beside / "plan.toml").write_text(text)
    with pytest.raises(PlanError) as refused:
        load_plan(beside / "plan.toml")
    for place in (write, elsewhere, beside):
        assert str(place / "mine.toml") in str(refused.value)
    for place, found in ((beside, f"{beside}/mine.toml"), (elsewhere, "mine.toml"), (write, f"{write}/mine.toml")):
        (place / "mine.toml").write_text(DEFAULT_FILE.read_text())
        assert load_plan(beside / "plan.toml").sim.parameters == {"file": found}


def test_topics_of_ones_own_are_welcome(write: Path) -> None:
    assert plan_of(write, TUNED_NODE.replace(":Tuned", ":Own")).nodes


@pytest.mark.parametrize(
    ("override", "says"),
    [
        ("noise", "node.key=value"),
        ("dmp.decimation=2", "did you mean 'damp'"),
        ("damp.evry=2", "evry"),
        ("sim.=2", "write"),
        ("damping=3", "write node.key=value; 'damping' alone is no key; nodes are sim, damp"),
        ("sim.start_deg=5", "sim.parameters.start_deg=value"),
        ("sim.parameter.tension=4", r"did you mean sim\.parameters\.tension=4\?"),
        ("sim.step_m=5", "did you mean 'step_ms'"),
    ],
)
def test_a_mistaken_override_is_named(override: str, says: str, write: Path) -> None:
    with pytest.raises(PlanError, match=says):
        plan_of(write, NODE, override)


def test_a_field_whose_default_is_infinite_may_be_so() -> None:
    class Params(msgspec.Struct):
        limit: float = float("inf")
        points: list[float] = []
        kind: Literal["sine", "steps"] | None = None

    assert convert({"limit": float("-inf")}, Params, "here").limit == float("-inf")
    with pytest.raises(PlanError, match=r"here: key 'points.* is .*; it must be .*finite"):
        convert({"points": [1.0, float("nan")]}, Params, "here")
    with pytest.raises(PlanError, match="here: key 'kind' is 'sin'; choose one of sine, steps; did you mean 'sine'"):
        convert({"kind": "sin"}, Params, "here")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=r"nowhere\.toml: no such launch file"):
        load_plan(tmp_path / "nowhere.toml")


def test_a_node_that_cannot_be_imported_says_why(write: Path) -> None:
    (write / "tuned.py").write_text("import nothing_of_this_name")
    with pytest.raises(PlanError, match=r"tuned\.py failed, line 1: ModuleNotFoundError.*nothing_of_this_name"):
        plan_of(write, TUNED_NODE.replace("tuned.py", "./tuned.py"))


def test_a_launch_folder_makes_its_parent_the_root(write: Path) -> None:
    launch = write / "launch" / "examples"
    launch.mkdir(parents=True)
    (launch / "plan.toml").write_text('[sim]\nrobot = "rotary_pendulum"\n' + NODE)
    assert load_plan(launch / "plan.toml").folder == str(write)


def test_an_installed_node_is_the_module_everybody_imports() -> None:
    from nodes.controllers.swing_up import SwingUp

    assert load_class("nodes/controllers/swing_up.py:SwingUp") is SwingUp


def test_a_users_own_nodes_folder_never_shadows_ours(tmp_path: Path) -> None:
    (tmp_path / "nodes").mkdir()
    (tmp_path / "nodes" / "__init__.py").write_text("raise RuntimeError('shadowed')")
    (tmp_path / "nodes" / "neighbour.py").write_text("WORD = 'mine'")
    (tmp_path / "nodes" / "own.py").write_text(
        "from neighbour import WORD\nfrom nodes.node import Node\n\nclass Own(Node):\n    word = WORD\n"
    )
    code = "from nodes.framework.plan.node_classes import load_class\nprint(load_class('nodes/own.py:Own', '.').word)"
    done = subprocess.run([sys.executable, "-P", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "mine", done.stderr


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("class Own(Node)\n    pass\n", ", line 2: SyntaxError: expected ':'"),
        ("\nimport numpyy\n", ", line 3: ModuleNotFoundError: No module named 'numpyy'"),
        ("import faulty\n", ", in {folder}/faulty.py, line 1: NameError: name 'undefined' is not defined"),
        ("import json\njson.loads('{')\n", ", line 3: JSONDecodeError: Expecting property name"),
    ],
)
def test_a_file_that_cannot_be_imported_is_told_with_its_line(
    text: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    file = tmp_path / "own.py"
    file.write_text(f"from nodes.node import Node\n{text}")
    (tmp_path / "faulty.py").write_text("undefined\n")
    with pytest.raises(PlanError) as refused:
        load_class(f"{file}:Own")
    assert f"importing {file} failed{says.format(folder=tmp_path)}" in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("opened", ["plan.toml", "own.py", "program", "robot.py"])
def test_a_file_that_every_user_can_write_is_refused(opened: str, write: Path) -> None:
    (write / "own.py").write_text("raise RuntimeError\n")
    (write / "robot.py").write_text("raise RuntimeError\n")
    (write / "program").write_text("#!/bin/false\n")
    (write / "program").chmod(0o755)
    robot = "robot.py:arm" if opened == "robot.py" else "rotary_pendulum"
    run = "program" if opened == "program" else "own.py:Own"
    plan = write / "plan.toml"
    plan.write_text(f'[sim]\nrobot = "{robot}"\n[[nodes]]\nname = "own"\nrun = "{run}"\n')
    (write / opened).chmod(0o777)
    with pytest.raises(PlanError) as refused:
        load_plan(plan)
    file = write / opened
    assert f"{file} is open to other users (mode 0777); close it with 'chmod o-w {file}'" in str(refused.value)
    assert "RuntimeError" not in str(refused.value)


def test_modules_in_a_folder_of_all_users_are_not_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "own.py").write_text("import beside_a_node\n")
    (tmp_path / "beside_a_node.py").write_text("raise RuntimeError\n")
    tmp_path.chmod(0o1777)
    with pytest.raises(PlanError, match=rf"every user can make files in {tmp_path}, so modules there are not imported"):
        load_class(f"{tmp_path}/own.py:Own")


def test_importing_the_runtime_brings_no_compiler() -> None:
    code = (
        "import sys, nodes.framework.hosting.runner, nodes.framework.plan.launch_plan\n"
        "import nodes.framework.transport.bus, nodes.framework.launching.process\n"
        "print([name for name in ('numba', 'casadi', 'scipy', 'llvmlite') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_robot_of_a_launch_is_built_once_although_many_nodes_ask_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    build, built = registry._build, []
    monkeypatch.setattr(registry, "_build", lambda name, given: built.append(name) or build(name, given))
    plan = load_plan(Path(__file__).parents[4] / "launch" / "charmie_pick.toml")
    assert len(plan.nodes) > 3
    assert built == ["charmie"]
