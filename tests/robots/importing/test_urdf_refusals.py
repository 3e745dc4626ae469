"""A URDF file that is wrong is refused in one line, which names the line of the file and the element."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from armswing import build
from sim_core.errors import DescriptionWarning, InvalidRequest
from sim_core.mechanism import JointSpring
from tests.robots.importing.parts import joint, link

Write = Callable[..., str]
TWO = (link("a"), link("b"))
HINGE = joint("hinge", "a", "b")


def mimic(leader: str) -> str:
    """A <mimic> of a joint."""
    return f'<mimic joint="{leader}"/>'


ENDS = '<parent link="a"/><child link="b"/>'
SPHERE = '<geometry><sphere radius="1"/></geometry>'
RED = '<material name="red"><color rgba="1 0 0 1"/></material>'
VISUAL = '<visual><geometry><sphere radius="1"/></geometry><material name="steel"/></visual>'


def drawn(shape: str) -> str:
    """A link 'a' with a <visual>."""
    return link("a").replace("</link>", f"<visual>{shape}</visual></link>")


MASS = '<mass value="1.0"/>'
INERTIA = 'ixx="0.02" iyy="0.03" izz="0.025" ixy="0.001" ixz="0" iyz="0"'


def refusal(file: str, **parameters: str) -> str:
    """The refusal after "robot '...': "; it is one line."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(InvalidRequest) as refused:
            build(file, **parameters)
    line = str(refused.value)
    assert "\n" not in line
    assert line.startswith(f"robot {file!r}: ")
    return line.removeprefix(f"robot {file!r}: ")


@pytest.mark.parametrize(
    ("parts", "line"),
    [
        ((link("a"), link("b", mass=-1), HINGE), r"line \d+: link 'b': mass is -1 kg; it must not be negative"),
        (
            (link("a"), link("b").replace('ixx="0.02"', 'ixx="-0.02"'), HINGE),
            r"line \d+: link 'b': inertia has principal moments .*; none may be negative",
        ),
        (
            (link("a"), link("b").replace('value="1.0"', 'value="1,0"'), HINGE),
            r"link 'b': <inertial>: <mass>: value is '1,0'; .* not a finite",
        ),
        (
            (link("a"), link("b").replace('value="1.0"', 'value="nan"'), HINGE),
            r"link 'b': <inertial>: <mass>: value is 'nan'; .* not a finite",
        ),
        ((link("a"), link("b").replace('value="1.0"', 'value="1e999"'), HINGE), r"'1e999' is not a finite number"),
        ((link("a"), link("b").replace('value="1.0"', 'value="1_0"'), HINGE), r"'1_0' is not a finite number"),
        ((link("a"), link("b").replace(MASS, ""), HINGE), r"link 'b': <inertial>: the element <mass> is missing"),
        (
            (link("a"), link("b").replace('iyz="0"', ""), HINGE),
            r"link 'b': <inertial>: <inertia>: attribute 'iyz' is missing; add it, or pass repair=inertia",
        ),
        (
            (link("a"), link("b").replace('"0.1 0 0.05"', '"0.1 0"'), HINGE),
            r"<origin>: xyz is '0.1 0'; .* three numbers",
        ),
        (
            (link("a"), "<link name='b'/>", HINGE),
            r"line 9: link 'b': joint 'hinge' at line 10 moves this link, but .* have no mass",
        ),
        (
            (*TWO, joint("hinge", "a", "b", axis="0 0 0")),
            r"joint 'hinge': <axis>: xyz is 0 0 0; give a vector that is not zero",
        ),
        (
            (*TWO, joint("hinge", "a", "b", kind="hinge")),
            r"joint 'hinge': type is 'hinge'; it must be one of revolute, ",
        ),
        ((*TWO, HINGE.replace('lower="-1"', 'lower="3"')), r"joint 'hinge': <limit>: lower is 3 and upper is 2"),
        ((*TWO, HINGE.replace('effort="5"', 'effort="-5"')), r"<limit>: effort is -5; it must not be negative"),
        (
            (*TWO, re.sub("<limit.*/>", "", HINGE)),
            r"joint 'hinge': a revolute joint must have a <limit>",
        ),
        ((*TWO, HINGE.replace('<child link="b"/>', "")), r"joint 'hinge': the element <child> is missing"),
        ((*TWO, joint("hinge", "a", "bb")), r"joint 'hinge': <child>: there is no link 'bb'; did you mean 'b'\?"),
        ((*TWO, joint("hinge", "a", "a")), r"joint 'hinge': parent and child are both 'a'"),
        ((*TWO, link("b"), HINGE), r"link 'b': another link at line 10 has the same name"),
        (
            (*TWO, link("c"), HINGE, joint("hinge", "b", "c")),
            r"joint 'hinge': another joint at line \d+ has the same name",
        ),
        ((link("a"), link("b"), link("c"), HINGE), r"link 'c': this link and link 'a' at line 3 are both roots"),
        ((*TWO, HINGE, joint("back", "b", "a")), r"joint 'hinge': the joints form a closed loop"),
        (
            (*TWO, link("c"), link("d"), HINGE, joint("one", "c", "d"), joint("two", "d", "c")),
            r"joint 'one': the joints 'one', 'two' form a closed loop that is not connected to the root link 'a'",
        ),
        (
            (*TWO, link("c"), HINGE, joint("two", "a", "c"), joint("three", "b", "c")),
            r"joint 'three': this joint moves link 'c', which joint 'two' at line \d+ moves already",
        ),
        (
            (*TWO, joint("hinge", "a", "b", more='<dynamics friction="-1"/>')),
            r"friction is -1; it must not be negative",
        ),
        ((*TWO, joint("hinge", "a", "b", more='<dynamics damping="-1"/>')), r"damping is -1; it must not be negative"),
        (
            (*TWO, link("c"), HINGE, joint("copy", "b", "c", more='<mimic joint="hinge" multiplier="0"/>')),
            r"joint 'copy': <mimic>: multiplier is 0, which would fix the joint",
        ),
        (
            (
                *TWO,
                link("c"),
                joint("hinge", "a", "b", more=mimic("copy")),
                joint("copy", "b", "c", more=mimic("hinge")),
            ),
            r"'copy' mimics 'hinge' mimics 'copy'; joints must not mimic each other in a circle",
        ),
        (
            (
                *TWO,
                link("c"),
                joint("hinge", "a", "b", "fixed"),
                joint("copy", "b", "c", more='<mimic joint="hinge"/>'),
            ),
            r"joint 'copy': <mimic>: joint 'hinge' cannot mimic or be mimicked",
        ),
        (
            (*TWO, link("c"), HINGE, joint("copy", "b", "c", more='<mimic joint="hing"/>')),
            r"joint 'copy': <mimic>: there is no joint 'hing'; did you mean 'hinge'\?",
        ),
        (
            (*TWO, HINGE.replace(" xyz=", " xzy=", 1)),
            r"joint 'hinge': <origin>: there is no attribute 'xzy'; did you mean 'xyz'\?",
        ),
        (
            (*TWO, link("c"), HINGE, joint("copy", "b", "c", more='<mimic joint="hinge" offset="9"/>')),
            r"joint 'copy': <mimic>: within the limits of 'hinge' this joint is at .*, but its own limits are",
        ),
        ((*TWO, HINGE, HINGE.replace("joint", "joint2", 1)), r"the XML is broken: mismatched tag"),
        (
            (*TWO, HINGE.replace("<axis", "<axes")),
            r"line \d+: <axes>: the tag of this element is unknown in joint 'hinge'; did you mean <axis>\?",
        ),
        (
            (*TWO, joint("hinge", "a", "b", more='<dynamics dampng="1"/>')),
            r"joint 'hinge': <dynamics>: there is no attribute 'dampng'; did you mean 'damping'\?",
        ),
        ((*TWO, joint("hinge", "a", "b", kind="fixed")), r"line 2: <robot>: no joint moves"),
        (("",), r"line 2: <robot>: the file has no <link>"),
        (
            (*TWO, HINGE, '<loop_joint name="l"/>'),
            r"<loop_joint>: a closed loop is not supported in URDF",
        ),
        (('<xacro:include filename="x"/>', *TWO, HINGE), r"this file is a xacro macro file; expand it first"),
    ],
)
def test_a_wrong_file_is_refused_with_line_and_name(write: Write, parts: tuple[str, ...], line: str) -> None:
    assert re.search(line, refusal(write(*parts)))


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"", "line 1: the XML is broken: no element found"),
        (b"<robot name='a'>\n<link name='b'>\n</robot>", "line 3: the XML is broken: mismatched tag"),
        (
            b"<sdf/>",
            "line 1: <sdf>: this is not a model file; its root element must be <robot> for URDF or <mujoco> for MJCF",
        ),
        (b"\xff\xfe\x00garbage", "line 1: the XML is broken: "),
        (
            b'<!DOCTYPE robot [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]>\n<robot name="&b;"/>',
            "line 1: the file has a document type declaration (DOCTYPE), which is not read; remove it",
        ),
        (
            b'<!DOCTYPE robot [<!ENTITY a SYSTEM "file:///etc/hostname">]>\n<robot name="&a;"/>',
            "line 1: the file has a document type declaration (DOCTYPE), which is not read; remove it",
        ),
        (b"<robot>" * 1000, "line 1: <robot>: elements are nested more than 200 levels deep"),
        (b'<?xml version="1.0" encoding="klingon"?><robot/>', "the XML is broken: "),
    ],
)
def test_a_file_that_is_no_urdf_is_refused(tmp_path: Path, content: bytes, line: str) -> None:
    path = tmp_path / "robot.urdf"
    path.write_bytes(content)
    assert refusal(str(path)).startswith(line)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match=r"^robot '.*none.urdf': no such file; tried .*none.urdf$"):
        build(str(tmp_path / "none.urdf"))


def told(file: str, **parameters: str) -> list[str]:
    """The warnings about a file, without "robot '...': "."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        build(file, **parameters)
    assert all(issubclass(each.category, DescriptionWarning) for each in caught)
    return [str(each.message).removeprefix(f"robot {file!r}: ") for each in caught]


@pytest.mark.parametrize(
    ("parts", "line"),
    [
        ((*TWO, HINGE, "\n<gazebo/>\n<gazebo/>"), r"lines \d+, \d+: <gazebo> is not read"),
        (
            (*TWO, joint("hinge", "a", "b", axis="0 0 2")),
            r"'hinge': <axis>\): the axis has length 2, and is read as a dir",
        ),
        ((*TWO, re.sub("<axis.*/>", "", HINGE)), r"'hinge'\): it has no <axis>, and turns about or slides along x"),
        ((*TWO, HINGE.replace('effort="5"', 'effort="0"')), r"the effort limit is 0: the joint has no actuator"),
        ((*TWO, HINGE.replace('velocity="3"', 'velocity="0"')), r"the velocity limit is 0 and is not read"),
        (
            (*TWO, HINGE.replace('velocity="3"', 'velocity="3" speed="3"')),
            r"attribute 'speed' of <limit> is not read",
        ),
        ((*TWO, HINGE.replace("<axis", "<color/><axis")), r"<color> in <joint> is not read"),
        (
            (drawn('<geometry><cylinder radius="1" lenght="2"/></geometry>'), link("b"), HINGE),
            r"'a': <visual>\): the shape is not drawn: attribute 'length' is missing; 'lenght' is given",
        ),
        (
            (drawn('<geometry><box size="0 0 0"/></geometry>'), link("b"), HINGE),
            r"the shape is not drawn: the size is 0 0 0 m; all its numbers must be above 0",
        ),
        (
            (drawn(f"{SPHERE}{RED}{RED}"), link("b"), HINGE),
            r"the shape has several materials, and the colour of the first",
        ),
        (
            (drawn(f"{SPHERE}{RED.replace('0 1', 'zero')}"), link("b"), HINGE),
            r"the colour is not read: rgba is '1 0 zero'; it must be four numbers",
        ),
        ((*TWO, HINGE.replace("<child ", '<child pose="1" ')), r"attribute 'pose' of <child> is not read"),
        (
            (link("a"), link("b").replace("<link ", '<link mass="3" '), HINGE),
            r"'b'\): attribute 'mass' of <link> is not",
        ),
        (
            (link("a"), link("b").replace("<inertia ", '<inertia unit="g" '), HINGE),
            r"attribute 'unit' of <inertia> is not",
        ),
        (
            (*TWO, joint("hinge", "a", "b", "continuous")),
            r"line \d+ \(joint 'hinge': <limit>\): lower and upper of a continuous joint are not read",
        ),
        (
            (*TWO, f'<joint name="floor" type="planar">{ENDS}<axis xyz="0 0 1"/><limit upper="1"/></joint>'),
            r"line \d+ \(joint 'floor': <limit>\): lower and upper of a planar joint are not read",
        ),
        (
            (link("a"), link("b").replace("0.03", "0.3"), HINGE),
            r"\(link 'b'\): inertia has principal moments \(.*\) kg m2; the largest never exceeds the sum",
        ),
        (
            (link("a"), link("b").replace('"1.0"', '"0"'), HINGE, link("c"), joint("two", "b", "c")),
            r"\(link 'b'\): mass is 0 and inertia has principal moments",
        ),
        (
            (*TWO, f'<joint name="floor" type="planar">{ENDS}<axis xyz="0 0 1"/><dynamics friction="0.001"/></joint>'),
            r"friction of a planar joint acts on the rotation alone, not on x and y",
        ),
        ((*TWO, HINGE.replace(' effort="5"', "")), r"it has no effort: the joint's effort has no limit"),
        ((*TWO, re.sub(r'lower="[^"]*" upper="[^"]*"', 'lower="-90" upper="90"', HINGE)), r"URDF has angles in rad"),
        (
            (link("a"), link("b").replace('xyz="0.1 0 0.05"', 'rpy="0 0 90"'), HINGE),
            r"rpy has an angle of 90 rad, more than a turn",
        ),
        (
            (link("a").replace("</link>", f"{VISUAL}</link>"), link("b"), HINGE),
            r"no material 'steel' has a <color>: the shape has the colour of its body",
        ),
        (
            (*TWO, joint("hinge", "a", "b", more='<safety_controller k_velocity="1"/>')),
            r"<safety_controller> is not read: its soft limits are a controller's",
        ),
    ],
)
def test_what_does_not_change_the_motion_is_a_warning_with_its_line(
    write: Write, parts: tuple[str, ...], line: str
) -> None:
    [said] = told(write(*parts))
    assert re.search(line, said), said


def test_a_mesh_with_a_wrong_scale_is_a_box_in_drawings(write: Write) -> None:
    file = write(drawn('<geometry><mesh filename="x.stl" scale="1 1 1 1"/></geometry>'), link("b"), HINGE)
    assert "scale is '1 1 1 1'; it must be three numbers" in told(file)[0]
    assert [shape.kind for shape in build(file).body("a").shapes] == ["box"]


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ((*TWO, HINGE.replace("<axis", '<friction value="1"/><axis')), "<friction>"),
        ((*TWO, HINGE.replace("<joint ", '<joint damping="3" ')), "attribute 'damping' of <joint>"),
        ((*TWO, HINGE, '<force_element name="f"><torsional_spring stiffness="1"/></force_element>'), "<force_element>"),
        ((*TWO, HINGE, '<cable name="rope" max_length="1"/>'), "<cable>"),
        (
            (*TWO, joint("hinge", "a", "b", more="<dynamics><damping>1</damping></dynamics>")),
            "as an attribute: damping=",
        ),
        (
            (*TWO, joint("hinge", "a", "b", more='<dynamics/><joint_properties damping="1"/>')),
            "the joint has <dynamics>",
        ),
    ],
)
def test_what_changes_the_motion_is_read_or_refused(write: Write, parts: tuple[str, ...], words: str) -> None:
    assert words in refusal(write(*parts))


def test_damping_friction_and_springs_of_older_and_newer_files_are_read(write: Write) -> None:
    old = write(
        *TWO, joint("hinge", "a", "b", more='<joint_properties damping="0.7" friction="0.1"/>'), name="old.urdf"
    )
    more = '<dynamics spring_stiffness="20" spring_reference="0.5"/>'
    new = write(*TWO, joint("hinge", "a", "b", more=more), name="new.urdf")
    assert build(old).joint("hinge").damping == 0.7
    assert build(old).joint("hinge").friction.coulomb == 0.1  # type: ignore[union-attr]
    assert build(new).joint("hinge").spring == JointSpring(stiffness=20.0, rest=0.5)


def test_all_errors_of_a_file_are_named_at_once(write: Write) -> None:
    hinge = HINGE.replace('effort="5"', 'effort="-5"').replace('axis xyz="0 0 1"', 'axis xyz="0 0 0"')
    slide = joint("slide", "b", "d", kind="slide", axis="0 0 q")
    line = refusal(write(link("a"), link("b", mass=-1), link("c"), hinge, slide, joint("two", "b", "c")))
    assert line.startswith("6 errors: (1) line ")
    for words in (
        "'q' is not a finite number",
        "there is no link 'd'",
        "mass is -1",
        "xyz is 0 0 0",
        "effort is -5",
        "slide'",
    ):
        assert words in line


def test_a_value_that_is_not_used_is_not_checked(write: Write) -> None:
    crossed = HINGE.replace('lower="-1"', 'lower="3"')
    assert "pass limits=none" in refusal(write(*TWO, crossed))
    assert build(write(*TWO, crossed), limits="none").joint("hinge").lower is None
    unlimited = re.sub("<limit.*/>", "", HINGE)
    assert build(write(*TWO, unlimited), limits="none").joint("hinge").upper is None
    far = joint("copy", "b", "c", more='<mimic joint="hinge" offset="9"/>')
    assert "pass limits=none" in refusal(write(*TWO, link("c"), HINGE, far))
    assert build(write(*TWO, link("c"), HINGE, far), limits="none").constraints
    nobody = joint("copy", "b", "c", more='<mimic joint="nobody"/>')
    assert "pass mimic=free" in refusal(write(*TWO, link("c"), HINGE, nobody))
    assert not build(write(*TWO, link("c"), HINGE, nobody), mimic="free").constraints


def test_an_element_that_is_given_twice_with_the_same_content_is_read_once(write: Write) -> None:
    axis = '<axis xyz="0 0 1"/>'
    assert build(write(*TWO, HINGE.replace(axis, axis + axis))) == build(write(*TWO, HINGE))
    assert "has another <axis> at line" in refusal(write(*TWO, HINGE.replace(axis, axis + '<axis xyz="0 1 0"/>')))


def test_a_joint_on_the_undeclared_link_world_is_read(write: Write) -> None:
    """Drake's convention."""
    declared = build(write('<link name="world"/>', link("b"), HINGE.replace('"a"', '"world"')))
    file = write(link("b"), HINGE.replace('"a"', '"world"'))
    assert build(file) == declared
    assert "the link 'world' is not declared; it is read as the world" in " ".join(told(file))


def test_an_xml_declaration_after_white_space_or_a_comment_is_read(tmp_path: Path) -> None:
    text = f'<robot name="made">{link("a")}{link("b")}{HINGE}\n</robot>'
    for start in ("", "\n", "<!-- made -->\n", "\ufeff"):
        file = tmp_path / "robot.urdf"
        file.write_text(f'{start}<?xml version="1.0"?>\n{text}')
        assert len(build(str(file)).moving_joints) == 1


def test_a_parameter_leaves_out_what_is_refused_without_it(write: Write) -> None:
    more = '<dynamics friction="0.1" damping="0.2"/><mimic joint="hinge"/>'
    file = write(*TWO, link("c"), HINGE, joint("copy", "b", "c", more=more))
    friction, mimic = sorted(told(file, friction="ignore", mimic="free"))[::-1][:2][::-1]
    assert "Coulomb friction is left out" in friction + mimic
    assert "mimics no other" in friction + mimic
    made = build(file, friction="ignore", mimic="free")
    assert made.joint("copy").damping == 0.2
    assert [actuator.name for actuator in made.actuators] == ["hinge"]
    with pytest.raises(InvalidRequest, match=r"friction is 'keep'; it must be one of bristles, regularized, ignore"):
        build(file, friction="keep")


def test_misspelt_links_and_joints_are_named_beside_others_of_their_kind(write: Write) -> None:
    line = refusal(write(*TWO, HINGE, '<lnik name="c"/><jont name="d"/><sensors/>'))
    assert "<lnik>: the tag of this element is unknown in <robot>; did you mean <link>?" in line
    assert "<jont>: the tag of this element is unknown in <robot>; did you mean <joint>?" in line
    assert "sensors" not in line
