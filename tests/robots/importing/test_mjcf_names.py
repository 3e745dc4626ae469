"""Misspelt elements and attributes of an MJCF file are refused or reported; MuJoCo's schema tells the names."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from pathlib import Path

import mujoco
import pytest

from robots import build
from robots.importing.mjcf.schema import ATTRIBUTES, CHILDREN, WORDS
from sim_core.errors import InvalidRequest

ROBOT = """<mujoco model="made">
{before}
<worldbody>
<body name="b"><joint name="hinge" {joint}/><geom name="ball" size="0.1" {geom}/>{more}</body>
</worldbody>
{after}
</mujoco>
"""
BLANK = {"before": "", "joint": "", "geom": "", "more": "", "after": ""}


def written(folder: Path, **parts: str) -> str:
    path = folder / "robot.xml"
    path.write_text(ROBOT.format(**{**BLANK, **parts}))
    return str(path)


@pytest.mark.parametrize(
    ("parts", "line"),
    [
        ({"joint": "dampin='2'"}, "line 4: joint 'hinge': there is no attribute 'dampin'; did you mean 'damping'?"),
        ({"joint": "frictionlos='2'"}, "line 4: joint 'hinge': .* 'frictionlos'; did you mean 'frictionloss'?"),
        ({"joint": "stifness='2'"}, "line 4: joint 'hinge': .* 'stifness'; did you mean 'stiffness'?"),
        ({"joint": "damping='1' dampin='2'"}, "line 4: joint 'hinge': .* 'dampin'; did you mean 'damping'?"),
        ({"geom": "frction='1'"}, "line 4: geom 'ball': .* 'frction'; did you mean 'friction'?"),
        ({"before": "<option gravty='0 0 0'/>"}, "line 2: <option>: .* 'gravty'; did you mean 'gravity'?"),
        ({"before": "<option><flag gravty='disable'/></option>"}, "<flag>: .* 'gravty'; did you mean 'gravity'?"),
        ({"before": "<compiler angel='radian'/>"}, "<compiler>: .* 'angel'; did you mean 'angle'?"),
        (
            {"before": "<default><joint dampin='2'/></default>"},
            "line 2: <joint>: .* 'dampin'; did you mean 'damping'?",
        ),
        (
            {"before": "<default><default class='c'><geom frction='2'/></default></default>"},
            "line 2: <geom>: .* 'frction'; did you mean 'friction'?",
        ),
        ({"before": "<default><jiont/></default>"}, "<jiont>: the tag .* in <default>; did you mean <joint>?"),
        ({"more": "<body><jiont/></body>"}, "line 4: <jiont>: the tag .* in <body>; did you mean <joint>?"),
        ({"more": "<body quaternio='1 0 0 0' poss='1 0 0'/>"}, "<body>: .* 'poss'; did you mean 'pos'?"),
        ({"after": "<actuators/>"}, "line 6: <actuators>: the tag .* in <mujoco>; did you mean <actuator>?"),
        ({"after": "<actuator><moter joint='hinge'/></actuator>"}, "<moter>: .* did you mean <motor>?"),
        (
            {"after": "<actuator><motor name='m' joint='hinge' ctrlrnge='-1 1'/></actuator>"},
            "line 6: motor 'm': .* 'ctrlrnge'; did you mean 'ctrlrange'?",
        ),
        ({"after": "<keyframe><key qpo='1'/></keyframe>"}, "<key>: .* 'qpo'; did you mean 'qpos'?"),
        ({"after": "<contact><exclud/></contact>"}, "<exclud>: .* did you mean <exclude>?"),
        (
            {"after": "<equality><joint joint1='hinge' polycoeff='1 0'/></equality>"},
            "<joint>: .* 'polycoeff'; did you mean 'polycoef'?",
        ),
    ],
)
def test_a_misspelt_name_is_refused_with_its_line_and_the_name_that_was_meant(
    tmp_path: Path, parts: dict[str, str], line: str
) -> None:
    file = written(tmp_path, **parts)
    with pytest.raises(InvalidRequest) as refused:
        build(file)
    said = str(refused.value)
    assert said.startswith(f"robot {file!r}: ")
    assert "\n" not in said
    assert re.search(line.replace("?", r"\?"), said), said


@pytest.mark.parametrize(
    ("parts", "line"),
    [
        ({"joint": "colour='red'"}, r"line 4: attribute 'colour' of <joint> is unknown, and is not read"),
        ({"before": "<default><wheel/></default>"}, r"line 2: <wheel> in <default> is unknown, and is not read"),
    ],
)
def test_an_unknown_name_that_resembles_no_other_is_reported(tmp_path: Path, parts: dict[str, str], line: str) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        build(written(tmp_path, **parts))
    assert any(re.search(line, str(each.message)) for each in caught), [str(each.message) for each in caught]


def test_names_of_mujoco_that_the_import_does_not_read_are_accepted_without_a_word(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        joint="margin='0.1' group='2' user='1' solreflimit='0.02 1'",
        geom="priority='1' user='3'",
        before="<option apirate='100' mpr_iterations='50'/>",
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        build(file, contacts="ignore")
    assert not [each for each in caught if "unknown" in str(each.message)]


def schema() -> Iterator[tuple[str, str, set[str]]]:
    """(parent tag, tag, attributes) of every element in MuJoCo's schema."""
    path: list[str] = []
    found: list[tuple[str, str, set[str]]] = []
    for line in mujoco.mj_printSchema(False, False).splitlines():
        head = re.match(r"( {0,15})(\S+) \(.\)\s*(.*)", line)
        if head is None:
            found[-1][2].update(line.split())
            continue
        tag = head[2].removeprefix("(world)")
        path = [*path[: len(head[1]) // 3], tag]
        parent = "body" if tag == "body" else path[-2] if len(path) > 1 else ""
        found.append((parent, tag, {*head[3].split()}))
    yield from found


def test_the_table_of_names_has_those_of_mujoco() -> None:
    elements = [*schema()]
    assert len(elements) > 100
    compared = 0
    for parent, tag, attributes in elements:
        assert parent not in CHILDREN or tag in CHILDREN[parent].split(), (parent, tag)
        if (parent, tag) in ATTRIBUTES:
            compared += 1
            assert attributes <= {*ATTRIBUTES[parent, tag].split()}, (parent, tag)
    assert compared == len(ATTRIBUTES)


# {attribute: an element that has it}
OWNERS = {
    "active": '<equality><joint joint1="hinge" {}/></equality>',
    "actearly": '<actuator><general joint="hinge" {}/></actuator>',
    "actlimited": '<actuator><general joint="hinge" actrange="0 1" dyntype="integrator" {}/></actuator>',
    "actuatorfrclimited": '<default><joint actuatorfrcrange="-1 1" {}/></default>',
    "actuatorgravcomp": "<default><joint {}/></default>",
    "align": '<worldbody><body><freejoint {}/><geom size="1"/></body></worldbody>',
    "biastype": '<actuator><general joint="hinge" {}/></actuator>',
    "condim": "<default><geom {}/></default>",
    "ctrllimited": '<actuator><motor joint="hinge" ctrlrange="-1 1" {}/></actuator>',
    "fluidshape": "<default><geom {}/></default>",
    "forcelimited": '<actuator><motor joint="hinge" forcerange="-1 1" {}/></actuator>',
    "limited": '<default><joint range="0 1" {}/></default>',
    "mocap": '<worldbody><body {}><geom size="1"/></body></worldbody>',
    "shellinertia": "<default><geom {}/></default>",
    **dict.fromkeys(("cone", "integrator", "jacobian", "solver"), "<option {}/>"),
}


@pytest.mark.parametrize("attribute", WORDS)
def test_the_values_of_an_attribute_are_those_that_mujoco_takes(attribute: str, tmp_path: Path) -> None:
    owner, taken = OWNERS.get(attribute, "<compiler {}/>"), WORDS[attribute].split()
    for value in (*taken, "yes", "True", "off", "2"):
        path = written(tmp_path, after=owner.format(f'{attribute}="{value}"'))
        if value in taken:
            assert mujoco_says(path, attribute) == ""
            continue
        assert mujoco_says(path, attribute)
        with pytest.raises(InvalidRequest, match=f"{attribute} is '{value}'; it must be one of"):
            build(path)


def mujoco_says(path: str, attribute: str) -> str:
    """What MuJoCo has against a file because of the value of an attribute."""
    try:
        mujoco.MjModel.from_xml_path(path)
    except ValueError as error:
        return str(error) if re.search(f"keyword|{attribute}", str(error)) else ""
    return ""


@pytest.mark.parametrize(
    ("value", "is_taken"), [("disable", True), ("enable", True), ("off", False), ("disable ", False)]
)
def test_a_flag_is_enabled_or_disabled(value: str, is_taken: bool, tmp_path: Path) -> None:
    path = written(tmp_path, before=f'<option><flag gravity="{value}"/></option>')
    if is_taken:
        assert build(path).gravity == ((0.0, 0.0, 0.0) if value == "disable" else (0.0, 0.0, -9.81))
        return
    with pytest.raises(ValueError, match=f"invalid keyword: '{value}'"):
        mujoco.MjModel.from_xml_path(path)
    with pytest.raises(InvalidRequest, match=f"<flag>: gravity is '{value}'; it must be one of disable, enable"):
        build(path)
