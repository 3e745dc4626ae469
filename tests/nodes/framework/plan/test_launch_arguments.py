"""Arguments, conditions, groups and included files of launch files; errors name the file, the line and the key."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nodes.cli.application import run
from nodes.framework.plan.files.document import read_document
from nodes.framework.plan.files.file import load_plan
from nodes.framework.plan.files.including import composed
from nodes.framework.plan.files.source import Lines
from nodes.framework.plan.key_checks import PlanError
from nodes.framework.plan.launch_plan import Plan

ROOT = Path(__file__).parents[4]
SIM = '[sim]\nrobot = "rotary_pendulum"\n'
HOLD = f'[[nodes]]\nname = "hold"\nrun = "{ROOT}/launch/examples/my_controller.py:HoldArm"\n'
ARGS = """[args]
damping = { default = 0.0, help = "of the arm's joint, N m s", min = 0.0, max = 1.0 }
mode = { choices = ["fast", "lockstep"] }
angle = { type = "number", default = 3, help = "held angle, degrees" }
tag = { default = "a" }
record = { default = true }
"""
USES = f"""{ARGS}
{SIM}mode = "${{mode}}"

{HOLD}params = {{ damping = "${{damping}}", angle_deg = "${{angle}}" }}

[[groups]]
if = "args.record"

[[groups.nodes]]
name = "recorder"
run = "nodes/recorder.py:Recorder"
params = {{ file = "run_${{tag}}_${{damping}}.mcap" }}
"""


@pytest.fixture
def launch_file(tmp_path: Path) -> Path:
    return tmp_path / "launch.toml"


def plan_of(file: Path, text: str, *arguments: str, **values: Any) -> Plan:
    file.write_text(text)
    return load_plan(file, arguments=values or arguments)


def refused(file: Path, text: str, *arguments: str, **values: Any) -> str:
    """The line by which a launch file is refused, without its folder."""
    with pytest.raises(PlanError) as error:
        plan_of(file, text, *arguments, **values)
    line = str(error.value)
    assert "\n" not in line
    return line.replace(f"{file.parent}/", "")


def test_an_argument_has_its_type_as_a_whole_value_and_is_text_inside_of_one(launch_file: Path) -> None:
    plan = plan_of(launch_file, USES, "mode=lockstep", "damping=1e-4", "tag=7")
    assert plan.sim.mode == "lockstep"
    assert plan.node("hold").params == {"damping": 1e-4, "angle_deg": 3.0}
    assert isinstance(plan.node("hold").params["angle_deg"], float)
    assert plan.node("recorder").params == {"file": "run_7_0.0001.mcap"}
    assert plan == plan_of(launch_file, USES, mode="lockstep", damping=1e-4, tag="7")


def test_a_doubled_dollar_is_no_argument(launch_file: Path) -> None:
    plan = plan_of(launch_file, USES.replace("run_${tag}", "$${tag}_${ tag }"), "mode=fast")
    assert plan.node("recorder").params["file"] == "${tag}_a_0.0.mcap"


WRONG = {
    "dampng=1": "launch.toml: unknown argument 'dampng'; did you mean 'damping'?",
    "damping=hello": "launch.toml: argument 'damping': 'hello' is not allowed; give a number in 0 .. 1",
    "damping=nan": "launch.toml: argument 'damping': nan is not allowed; give a number in 0 .. 1",
    "damping=true": "launch.toml: argument 'damping': true is not allowed; give a number in 0 .. 1",
    "damping=1.5": "launch.toml: argument 'damping': 1.5 is not allowed; give a number in 0 .. 1",
    "mode=fest": "launch.toml: argument 'mode': 'fest' is not allowed; give one of fast, lockstep; "
    "did you mean 'fast'?",
    "record=1": "launch.toml: argument 'record': 1 is not allowed; give true or false",
    "angle": "launch.toml: argument 'angle' has no value; write angle=VALUE, where VALUE is a number",
    "angl": "launch.toml: 'angl' is no argument; write name=value; the arguments are damping, mode, angle, "
    "tag, record; did you mean 'angle'?",
    "mode=fast": "launch.toml: argument 'mode' is given twice, as fast and as fast; give it once",
}


@pytest.mark.parametrize(("given", "line"), WRONG.items(), ids=WRONG)
def test_a_wrong_argument_is_refused_in_one_line(given: str, line: str, launch_file: Path) -> None:
    assert refused(launch_file, USES, *(["mode=fast"] if given != "mode=fest" else []), given) == line


def test_an_argument_without_effect_is_warned_of_once_with_its_file_and_line(launch_file: Path) -> None:
    launch_file.write_text(USES.replace("${tag}", "$(tag)"))
    (launch_file.parent / "two.toml").write_text(
        "".join(
            f"[[include]]\nfile = 'launch.toml'\nnamespace = '{side}'\nargs = {{ mode = 'fast', record = false }}\n"
            for side in ("a", "b")
        )
    )
    for file, arguments in ((launch_file, ["mode=fast"]), (launch_file.parent / "two.toml", [])):
        warnings: list[str] = []
        load_plan(file, arguments=arguments, warnings=warnings)
        (line,) = [each for each in warnings if "argument" in each]
        assert line.endswith(
            "launch.toml:5: argument 'tag' has no effect; use it in the file as \"${tag}\", or as args.tag in a "
            "condition"
        )


def test_every_argument_of_a_shipped_launch_file_has_an_effect() -> None:
    for file in (ROOT / "launch").rglob("*.toml"):
        warnings: list[str] = []
        load_plan(file, warnings=warnings)
        assert not [each for each in warnings if "has no effect" in each]


@pytest.mark.parametrize(
    ("limits", "wanted"),
    [("min = 1", "at least 1"), ("max = 3", "at most 3"), ("min = 1, max = 3", "1 .. 3")],
)
def test_limits_are_told_as_they_are_given(limits: str, wanted: str, launch_file: Path) -> None:
    text = USES.replace("tag = {", f"n = {{ default = 9, {limits} }}\ntag = {{")
    line = refused(launch_file, text, "mode=fast", "n=0" if "min" in limits else "n=4")
    assert wanted in line


def test_a_missing_argument_is_named_with_its_line_and_values(launch_file: Path) -> None:
    line = refused(launch_file, USES)
    assert line == "launch.toml:3: argument 'mode' is missing; give mode=VALUE, where VALUE is one of fast, lockstep"


FAULTS = {
    '"${damping}"': (
        '"${dampng}"',
        "launch.toml:15: node 'hold'",
        "key 'damping': '${dampng}' uses argument 'dampng', which does not exist; did you mean 'damping'?",
    ),
    'default = "a"': ("default = {}", "launch.toml:5: [args]: argument 'tag'", "key 'default'"),
    "min = 0.0": ("mim = 0.0", "launch.toml:2: [args]: argument 'damping'", "unknown key 'mim'; did you mean 'min'?"),
    "max = 1.0": (
        "max = -1.0",
        "launch.toml:2: [args]: argument 'damping'",
        "key 'min' is 0 and max is -1; min must not be above max",
    ),
    "tag = {": ("5tag = {", "launch.toml:5: [args]: argument '5tag'", "use letters, digits and _, with a letter first"),
    '{ default = "a" }': ('"a"', "launch.toml:5: [args]: argument 'tag'", "write tag = { default = 'a' }"),
    '"args.record"': (
        '"args.recrd"',
        "launch.toml:18: group 'number 1'",
        "key 'if': 'args.recrd': there is no argument 'recrd'; did you mean 'record'?",
    ),
    'if = "args.record"': (
        'fi = "args.record"',
        "launch.toml:18: group 'number 1'",
        "unknown key 'fi'; the keys are if, nodes, milestones, include",
    ),
    "recorder.py": ("recoder.py", "launch.toml:22: node 'recorder'", "run = "),
    '"recorder"': (
        '"hold"',
        "launch.toml:21: node 'hold'",
        "'hold' is already used in launch.toml:12; give the node another name",
    ),
    "angle_deg =": (
        "angle_dg =",
        "launch.toml:15: node 'hold': params",
        "unknown key 'angle_dg'; did you mean 'angle_deg'?",
    ),
    "{ file = ": ("{ flush_s = -1.0, file = ", "launch.toml:23: node 'recorder': params", "flush_s"),
    '"${mode}"': ('"${tag}"', "launch.toml:10: [sim]", "key 'mode' is 'a'; choose one of fast, lockstep, realtime"),
}


@pytest.mark.parametrize("right", FAULTS)
def test_every_key_is_checked_with_its_file_and_line(right: str, launch_file: Path) -> None:
    wrong, place, what = FAULTS[right]
    assert right in USES
    line = refused(launch_file, USES.replace(right, wrong), "mode=fast")
    assert line.startswith(f"{place}: ")
    assert what in line


def test_a_value_of_the_command_line_has_no_line_of_the_file(launch_file: Path) -> None:
    launch_file.write_text(USES)
    with pytest.raises(PlanError, match=r"launch\.toml: \[sim\]: key 'step_ms'"):
        load_plan(launch_file, ["sim.step_ms=-1"], arguments=["mode=fast"])
    with pytest.raises(PlanError, match=r"'seed'; it is a key outside of the tables: write seed=3$"):
        load_plan(launch_file, ["sim.seed=3"], arguments=["mode=fast"])
    with pytest.raises(PlanError, match=r"'damping' is an argument, written damping=1 after the file, without --set"):
        load_plan(launch_file, ["damping=1"], arguments=["mode=fast"])
    with pytest.raises(PlanError, match=r"node 'recorder' is switched off by the 'if' at .*launch\.toml:17"):
        load_plan(launch_file, ["recorder.file=x"], arguments=["mode=fast", "record=false"])


CONDITIONS = {
    "args.record": True,
    "not args.record": False,
    "args.tag == 'a' and args.damping == 0": True,
    "args.tag != 'a' or (args.record == true)": True,
    "not (args.record and args.damping == -1.5)": True,
}


@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_condition_switches_a_group(condition: str, launch_file: Path) -> None:
    plan = plan_of(launch_file, USES.replace('"args.record"', f'"{condition}"'), "mode=fast")
    assert ("recorder" in [node.name for node in plan.nodes]) is CONDITIONS[condition]


NO_CONDITIONS = {
    "args.record and args.mode == 'fats'": (
        "args.mode is never 'fats'; its choices are 'fast', 'lockstep'; did you mean 'fast'?"
    ),
    "args.record or not 'lockstp' != args.mode": "did you mean 'lockstep'?",
    "record": "'record' is an argument; write args.record",
    "args.tag": "args.tag is 'a', neither true nor false; compare it, as in args.tag == 'a'",
    "args.tag == 1": "compares 'a' with 1, which are never equal",
    "__import__('os')": "is not allowed; write a condition with args.NAME, not, and, or, ==, !=",
    "args.tag.upper() == 'A'": "is not allowed",
    "args.record and args.tag": "args.tag is 'a', neither true nor false",
    "args.record or args.nothing": "no argument 'nothing'",
    "args.record and": "invalid syntax",
    "1 < args.damping < 2": "is not allowed",
    "(" * 400: "",
    "args.record" + " and args.record" * 50: "at most 500",
}


@pytest.mark.parametrize("condition", NO_CONDITIONS, ids=lambda text: text[:30])
def test_anything_else_is_no_condition(condition: str, launch_file: Path) -> None:
    line = refused(launch_file, USES.replace('"args.record"', f'"{condition}"'), "mode=fast")
    assert line.startswith("launch.toml:18: group 'number 1': key 'if': ")
    assert NO_CONDITIONS[condition] in line


def test_nodes_take_their_turns_in_the_order_of_the_file(launch_file: Path) -> None:
    group = '[[groups]]\n[[groups.nodes]]\nname = "{}"\nrun = "nodes/player.py:Player"\n'
    text = SIM + group.format("a") + HOLD + group.format("b") + HOLD.replace('"hold"', '"c"')
    launch_file.write_text(text)
    assert [entry.table["name"] for entry in composed(read_document(launch_file)).nodes] == ["a", "hold", "b", "c"]


def test_an_included_file_gets_arguments_and_stands_in_its_place(launch_file: Path) -> None:
    (launch_file.parent / "part.toml").write_text(f"{ARGS}\n{HOLD}params = {{ damping = '${{damping}}' }}\n")
    text = f"""{SIM}
[args]
d = {{ default = 0.25 }}
[[include]]
file = "part.toml"
args = {{ damping = "${{d}}", mode = "fast" }}

[[nodes]]
name = "recorder"
run = "nodes/recorder.py:Recorder"
params = {{ file = "x.mcap" }}
"""
    plan = plan_of(launch_file, text, "d=0.5")
    assert [node.name for node in plan.nodes] == ["hold", "recorder"]
    assert plan.node("hold").params == {"damping": 0.5}


def test_an_error_in_an_included_file_names_that_file_and_its_line(launch_file: Path) -> None:
    part = launch_file.parent / "part.toml"
    include = '[[include]]\nfile = "part.toml"\n'
    part.write_text(HOLD + "params = { dampng = 1.0 }\n")
    assert refused(launch_file, SIM + include).startswith("part.toml:4: node 'hold': params: unknown key 'dampng'; did")
    part.write_text(HOLD)
    line = refused(launch_file, SIM + HOLD + include)
    assert line.startswith("part.toml:2: node 'hold': key 'name': 'hold' is already used in launch.toml:3; give")
    line = refused(launch_file, SIM + include + "args = { tag = 'x' }")
    assert (
        line == "launch.toml:5: include 'part.toml': unknown argument 'tag' of part.toml; the file has no table [args]"
    )
    part.write_text(SIM)
    line = refused(launch_file, SIM + include)
    assert line == (
        "launch.toml:3: include 'part.toml': [sim] is in launch.toml:1 and in part.toml:1; remove one of these tables,"
        " or give the include a namespace"
    )
    part.write_text("seed = 1\n")
    (launch_file.parent / "other.toml").write_text("seed = 2\n")
    line = refused(launch_file, SIM + include + include.replace("part", "other"))
    assert line == (
        "launch.toml:5: include 'other.toml': key 'seed': part.toml:1 has 1, other.toml:1 2;"
        " set seed in launch.toml to override both"
    )
    assert plan_of(launch_file, "seed = 3\n" + SIM + include).seed == 3
    line = refused(launch_file, SIM + '[[include]]\nfile = "prt.toml"\n')
    assert (
        line
        == "launch.toml:4: include 'prt.toml': key 'file': 'prt.toml': no such launch file; did you mean 'part.toml'?"
    )


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("mode = 'fast'", "unknown key 'mode'; 'mode' is a key of [sim]; write it there"),
        ("links = { hold = { delay_ms = 2 } }", "unknown key 'links'; 'link' is a key of [[nodes]]; write it there"),
        ("duration = 2", "unknown key 'duration'; did you mean 'duration_s'?"),
    ],
)
def test_a_key_above_all_tables_that_belongs_into_one_is_told_which(line: str, told: str, launch_file: Path) -> None:
    assert refused(launch_file, f"{line}\n{SIM}") == f"launch.toml:1: {told}"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (SIM + "duration_s = 2\n", "unknown key 'duration_s'; 'duration_s' belongs above all tables; write it there"),
        (
            SIM + '[[nodes]]\nname = "hold"\nrun = "x.py:X"\nstep_ms = 2\n',
            "unknown key 'step_ms'; 'step_ms' is a key of [sim]; write it there",
        ),
        (SIM + "restart = true\n", "unknown key 'restart'; 'restart' is a key of [[nodes]]; write it there"),
    ],
)
def test_a_key_in_the_wrong_table_is_told_where_it_belongs(text: str, told: str, launch_file: Path) -> None:
    assert refused(launch_file, text).endswith(told)


def test_a_file_that_includes_itself_is_refused(launch_file: Path) -> None:
    line = refused(launch_file, SIM + '[[include]]\nfile = "launch.toml"\n')
    assert line.startswith("launch.toml:4: include 'launch.toml': key 'file': launch.toml includes launch.toml; a file")
    (launch_file.parent / "part.toml").write_text('[[include]]\nfile = "launch.toml"\n')
    line = refused(launch_file, SIM + '[[include]]\nfile = "part.toml"\n')
    assert line == (
        "part.toml:2: include 'launch.toml': key 'file': launch.toml includes part.toml includes launch.toml;"
        " a file cannot include itself"
    )


def test_the_command_line_lists_and_refuses_arguments(launch_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    launch_file.write_text(USES)
    assert run(["launch", str(launch_file), "--args"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "argument  type     default   allowed          what it is",
        "damping   number   0.0       0 .. 1           of the arm's joint, N m s",
        "mode      text     required  fast | lockstep",
        "angle     number   3.0       -                held angle, degrees",
        "tag       text     'a'       -",
        "record    boolean  true      -",
    ]
    assert run(["launch", str(launch_file), "mode=fast", "dampng=1"]) == 2
    assert capsys.readouterr().err == f"armswing: {launch_file}: unknown argument 'dampng'; did you mean 'damping'?\n"


TEXTS = [*sorted((ROOT / "launch").rglob("*.toml")), ROOT / "pyproject.toml"]


def paths(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in pairs:
        if isinstance(key, str) and not isinstance(item, dict | list):
            yield (*path, key)
        yield from paths(item, (*path, key))


@pytest.mark.parametrize("file", TEXTS, ids=lambda file: file.stem)
def test_the_line_of_every_key_has_the_key(file: Path) -> None:
    text = file.read_text()
    lines, rows = Lines(text), text.splitlines()
    for path in paths(tomllib.loads(text)):
        found = lines.of(path)
        assert found is not None
        assert str(path[-1]) in rows[found - 1]


def test_lines_are_found_among_brackets_comments_and_long_texts() -> None:
    text = (
        '# [[no]] = "\n"a=b" = """\nx = 1\n[t]\n"""\n[x . "y]"] # ] = \'\nk = [ # [\n  { a = 1 },\n]\n'
        "[[n]]\n[n.p]\nq.r = '''#'''\n[[n]]\nname = 2\n[n.p]\nq = 3"
    )
    lines = Lines(text)
    assert lines.of(("a=b",)) == 2
    assert lines.of(("x", "y]")) == 6
    assert lines.of(("x", "y]", "k", 0, "a")) == 7
    assert lines.of(("n", 0, "p", "q", "r")) == 12
    assert lines.of(("n", 1)) == 13
    assert lines.of(("n", 1, "p", "q")) == 16
    assert lines.of(("n", 1, "p", "missing")) == 15
    assert lines.of(("nothing",)) is None


def test_a_driver_takes_the_place_of_the_emulated_robot_on_one_and_on_two_computers() -> None:
    driver = f"{ROOT}/launch/examples/my_driver.py:Driver"
    for name in ("hil_robot.toml", "hil_two_computers.toml"):
        emulated, real = (load_plan(ROOT / "launch" / name, arguments={"driver": each}) for each in ("", driver))
        assert [node.name for node in real.nodes] == [node.name for node in emulated.nodes]
        assert emulated.node("hardware").run.endswith("nodes/hardware.py:Hardware")
        assert (real.node("hardware").run, real.node("hardware").params) == (driver, {})
        assert real.node("hardware").host == emulated.node("hardware").host


def test_a_trunk_is_an_argument_of_the_launch_that_the_trunks_own_launch_file_includes() -> None:
    launch = ROOT / "launch"
    own = load_plan(launch / "gibbon_trunk.toml", arguments={"trunk": "passive"})
    included = load_plan(
        launch / "gibbon_cable.toml",
        arguments={"links": 3, "trunk": "passive", "rate_hz": 500.0, "recording": "gibbon_trunk.mcap"},
    )
    assert own.sim.parameters["trunk"] == "passive"
    assert (own.sim, own.nodes, own.duration_s) == (included.sim, included.nodes, included.duration_s)


USED = 'params = {{ angle_deg = "{}" }}\n'
OF_A = "2: [args]: argument 'a'"
IN_ARGS = "but values of arguments are not replaced in the table [args]; write the value itself"
NO_NAME = "has a '${' without a name and its '}'; write ${name}, or '$${' for the text '${'"
NO_DEFAULT = "it must be true or false, a finite number, text or a list"


@pytest.mark.parametrize(
    ("argument", "use", "told"),
    [
        ('a = { default = "${b}" }\nb = { default = 1.0 }', "${a}", f"{OF_A}: key 'default' has '${{b}}', {IN_ARGS}"),
        ('a = { choices = ["x", "${b"] }', "${a}", f"{OF_A}: key 'choices' has '${{', {IN_ARGS}"),
        ("a = { default = ['${a}'] }", "${a}", f"{OF_A}: key 'default' has '${{a}}', {IN_ARGS}"),
        (
            "a = { type = 'number', min = 3, max = 2 }",
            "${a}",
            f"{OF_A}: key 'min' is 3 and max is 2; min must not be above",
        ),
        ("a = { default = inf }", "${a}", f"{OF_A}: key 'default' is inf; {NO_DEFAULT}"),
        ("a = { default = { x = 1 } }", "${a}", f"{OF_A}: key 'default' is a table; {NO_DEFAULT}"),
        (
            "not = { default = 1.0 }",
            "${not}",
            "2: [args]: argument 'not': the name is not allowed, as conditions use it",
        ),
        ("a = { default = 1.0 }", "${a", f"8: node 'hold': key 'angle_deg': '${{a' {NO_NAME}"),
        ("a = { default = 1.0 }", "${${a}}", f"8: node 'hold': key 'angle_deg': '${{${{a}}}}' {NO_NAME}"),
        ("a = { default = 1.0 }", "${a${a}}", f"8: node 'hold': key 'angle_deg': '${{a${{a}}}}' {NO_NAME}"),
    ],
)
def test_an_argument_that_has_no_value_is_refused_where_it_is_written(
    argument: str, use: str, told: str, launch_file: Path
) -> None:
    text = f"[args]\n{argument}\n{SIM}{HOLD}{USED.format(use)}"
    assert refused(launch_file, text).startswith(f"launch.toml:{told}")


def test_a_doubled_dollar_needs_no_closing_brace(launch_file: Path) -> None:
    plan = plan_of(launch_file, USES.replace("run_${tag}", "$${tag_${tag}"), "mode=fast")
    assert plan.node("recorder").params["file"] == "${tag_a_0.0.mcap"


@pytest.mark.parametrize(
    ("include", "told"),
    [
        ('file = "."', "key 'file': '.': this is a folder; give a launch file, such as launch.toml"),
        ('file = "/"', "key 'file': '/': this is a folder; give a launch file"),
        ('file = ""', "key 'file' is empty; give a launch file"),
        ('file = "lunch.toml"', "key 'file': 'lunch.toml': no such launch file"),  # not the including file
        ('file = "part.toml"', "argument 'a' is missing; add args = { a = VALUE }, where VALUE is a number"),
        (
            f'file = "part.toml"\nargs = {{ a = 1 }}\nnamespace = "{"n" * 70}"',
            f"key 'namespace': '{'n' * 20}' ... has 70 characters; with a node's name behind it, at most 64",
        ),
        ('file = "part.toml"\nargs = { a = 1 }\nnamespace = "/left"', "key 'namespace': '/left' is no valid name; use"),
        (
            'file = "part.toml"\nargs = { a = 1 }\nnamespace = "l\u00e4nks"',
            "key 'namespace': 'l\u00e4nks' is no valid name; use",
        ),
    ],
)
def test_an_include_that_is_no_launch_file_is_named_with_the_including_file(
    include: str, told: str, launch_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(launch_file.parent)
    (launch_file.parent / "part.toml").write_text('[args]\na = { type = "number" }\n' + SIM + HOLD)
    launch_file.write_text(f"[[include]]\n{include}\n")
    with pytest.raises(PlanError) as error:
        load_plan("launch.toml")
    assert str(error.value).startswith("launch.toml:")
    assert told in str(error.value)


def test_three_files_that_include_each_other_are_named_in_their_order(launch_file: Path) -> None:
    for name, other in (("second", "third"), ("third", "launch")):
        (launch_file.parent / f"{name}.toml").write_text(f'[[include]]\nfile = "{other}.toml"\n')
    line = refused(launch_file, SIM + '[[include]]\nfile = "second.toml"\n')
    assert line == (
        "third.toml:2: include 'launch.toml': key 'file': launch.toml includes second.toml includes third.toml "
        "includes launch.toml; a file cannot include itself"
    )


def test_a_group_that_is_switched_off_is_checked_for_its_arguments(launch_file: Path) -> None:
    group = '[[groups]]\nif = "args.on"\n[[groups.nodes]]\n{}\nname = "x"\nrun = "x.py:X"\n'
    text = f"[args]\non = {{ default = false }}\n{SIM}"
    assert plan_of(launch_file, text + group.format('if = "args.on"')).nodes == []
    line = refused(launch_file, text + group.format('if = "args.onn"'))
    assert line == "launch.toml:8: node 'x': key 'if': 'args.onn': there is no argument 'onn'; did you mean 'on'?"
    line = refused(launch_file, text + group.format('params = { gain = "${onn}" }'))
    assert line.startswith(
        "launch.toml:8: node 'x': key 'gain': '${onn}' uses argument 'onn', which does not exist; did"
    )


def test_one_topic_of_two_types_is_refused(launch_file: Path) -> None:
    line = refused(launch_file, SIM + HOLD + 'remap = { command = "both", state = "both" }\n')
    assert line == (
        "launch.toml:3: node 'hold': the node subscribes to topic '/rotary_pendulum/both' with messages of type RobotS"
        "tate, and it publishes it with JointCommand; use two topics"
    )
    other = HOLD.replace('"hold"', '"other"') + 'remap = { command = "mine" }\n'
    line = refused(launch_file, SIM + HOLD + 'remap = { state = "mine" }\n' + other)
    assert line.startswith(
        "launch.toml:7: node 'other': the node publishes topic '/rotary_pendulum/mine' with messages of type J"
    )
    assert line.endswith("and node 'hold' subscribes to it with RobotState; use two topics")


@pytest.mark.parametrize(
    ("mode", "why"), [("fast", "lockstep runs as fast as it can, too"), ("realtime", "of the real network")]
)
@pytest.mark.parametrize("key", ["link = { delay_ms = 2 }", "compute_ms = 2"])
def test_emulated_times_are_refused_outside_of_lockstep_with_the_mode_to_use(
    key: str, mode: str, why: str, launch_file: Path
) -> None:
    line = refused(launch_file, f'{SIM}mode = "{mode}"\n{HOLD}{key}\n')
    assert line.startswith(
        f"launch.toml:7: node 'hold': key '{key.split()[0]}' works in mode \"lockstep\" only, as mode \"{mode}\""
    )
    assert why in line
    assert line.endswith('set mode = "lockstep", or remove the key')
