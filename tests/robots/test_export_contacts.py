"""Contacts in exported MJCF files: MuJoCo lets the same pairs touch, and an import gives exactly the same contacts."""

from __future__ import annotations

import dataclasses
import re
import warnings
from pathlib import Path
from typing import Any

import mujoco
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from armswing import build
from robots.export import export
from robots.export.tree import Export
from sim_core.errors import InvalidRequest
from sim_core.mechanism import (
    Body,
    CapturedParameter,
    Joint,
    Mechanism,
    SphereContact,
    Tunable,
    box_contacts,
    capsule_contacts,
)
from sim_core.mobility import with_contact_stiffness
from sim_core.simulation import Simulation
from sim_core.system import assemble
from tests.robots.importing.same import assert_alike, assert_same

pytestmark = pytest.mark.filterwarnings("ignore::sim_core.errors.DescriptionWarning")

SOLID = (0.02, 0.03, 0.04, 0.0, 0.0, 0.0)
# every pair of geoms that the import reads: on planes of the world and of a body that is fixed to it, and on spheres,
# capsules and boxes of bodies that move
KINDS = """<mujoco model="kinds"><option gravity="{gravity}"/>
<default><geom friction="{friction}" solref="{time} {ratio}"/></default><worldbody>
<geom name="floor" type="plane" size="1 1 1" zaxis="{axis}" pos="{at}"/>
<body name="slab" pos="0 0 -1"><geom name="slope" type="plane" size="1 1 1" euler="{turn}"/></body>
<body name="a"><freejoint name="af"/><inertial pos="0 0 0" mass="2" diaginertia="0.1 0.2 0.3"/>
  <geom name="ball" size="{radius}" pos="{at}"/></body>
<body name="b" pos="0 0.1 0.2"><joint name="bx" type="slide"/><joint name="by" type="hinge" axis="0 1 0"/>
  <inertial pos="0 0 0" mass="1" diaginertia="0.1 0.1 0.1"/>
  <geom name="rod" type="capsule" size="{radius} {half}" euler="{turn}" pos="{at}"/>
  <geom name="knob" size="{half}"/></body>
<body name="c"><freejoint name="cf"/><inertial pos="0 0 0" mass="3" diaginertia="0.1 0.1 0.1"/>
  <geom name="crate" type="box" size="{half} {radius} 0.1" euler="{turn}" pos="{at}"/></body>
</worldbody></mujoco>"""
LENGTH = st.floats(0.01, 2.0)
PLACE = st.floats(-1.0, 1.0)


def vectors(part: st.SearchStrategy[float]) -> st.SearchStrategy[str]:
    return st.tuples(part, part, part).map(lambda numbers: " ".join(map(repr, numbers)))


FILES = st.fixed_dictionaries(
    {
        "gravity": st.sampled_from(["0 0 -9.81", "0 0 0", "1 2 -3"]),
        "friction": st.floats(0.0, 2.0),
        "time": st.floats(0.001, 0.1),
        "ratio": st.floats(0.1, 2.0),
        "axis": st.tuples(PLACE, PLACE, st.floats(0.1, 1.0)).map(lambda numbers: " ".join(map(repr, numbers))),
        "at": vectors(PLACE),
        "turn": vectors(st.floats(-180.0, 180.0)),
        "radius": LENGTH,
        "half": LENGTH,
    }
)


def written(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text)
    return str(folder / name)


def pairs_in(model: mujoco.MjModel, data: mujoco.MjData | None = None) -> set[tuple[frozenset[str], str]]:
    """{bodies and names of the kinds of two geoms that touch}: those that the file names, or those that touch now."""
    geoms = [contact.geom for contact in data.contact] if data else zip(model.pair_geom1, model.pair_geom2, strict=True)
    found = set()
    for pair in geoms:
        ends = [model.geom(int(geom)) for geom in pair]
        names = sorted(f"{model.body(int(end.bodyid[0])).name} {int(end.type[0])}" for end in ends)
        found.add((frozenset(names), " ".join(names)))
    return found


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(numbers=FILES)
def test_contacts_that_are_read_written_and_read_again_are_the_same(tmp_path: Path, numbers: dict[str, Any]) -> None:
    first = build(written(tmp_path, "first.xml", KINDS.format(**numbers)))
    text = export(first, "mjcf").text
    again = build(written(tmp_path, "again.xml", text))
    assert len(first.contacts) == 2 * (1 + 2 + 1 + 8) + 4
    assert_same(again, first)
    assert [len(body.shapes) for body in again.bodies] == [len(body.shapes) for body in first.bodies]
    theirs = mujoco.MjModel.from_xml_string(text)
    assert theirs.npair == 12
    assert {pair for _, pair in pairs_in(theirs)} >= {"a 2 b 3", "a 2 c 6", "b 3 slab 0", "c 6 world 0"}


def test_a_file_with_contacts_gives_the_same_mechanism_after_its_export(tmp_path: Path) -> None:
    numbers = {"gravity": "0 0 -9.81", "friction": 0.7, "time": 0.02, "ratio": 0.4, "axis": "0.1 0.2 1"}
    numbers |= {"at": "0.1 -0.2 0.3", "turn": "0 0 90", "radius": 0.1, "half": 0.3}
    first = build(written(tmp_path, "first.xml", KINDS.format(**numbers)))
    once = export(first, "mjcf")
    again = build(written(tmp_path, "again.xml", once.text))
    assert_same(again, first)


# geoms of every kind that overlap
HEAP = """<mujoco model="heap"><worldbody>
<geom name="floor" type="plane" size="1 1 1"/><geom name="post" size="0.2"/>
<body name="a"><freejoint/><geom size="0.1"/></body>
<body name="b"><freejoint/><geom type="capsule" size="0.1 0.2"/>
  <body name="b2"><joint/><geom size="0.1"/></body></body>
<body name="c" euler="30 40 50"><freejoint/><geom type="box" size="0.1 0.2 0.3"/></body>
<body name="d"><freejoint/><geom size="0.12"/></body>
</worldbody><contact><exclude body1="a" body2="d"/></contact></mujoco>"""
UNREAD = {"b 3 c 6"}  # a capsule with a box


def test_the_pairs_that_touch_in_mujoco_are_those_of_the_file_that_was_imported(tmp_path: Path) -> None:
    touching = []
    exported = export(build(written(tmp_path, "heap.xml", HEAP)), "mjcf").text
    for text in (HEAP, exported):
        model = mujoco.MjModel.from_xml_string(text)
        data = mujoco.MjData(model)
        mujoco.mj_forward(model, data)
        touching.append({pair for _, pair in pairs_in(model, data)})
    assert touching[1] == touching[0] - UNREAD
    assert len(touching[1]) > 10


def lying(*contacts: SphereContact, **changes: Any) -> Mechanism:
    """Two free bodies at the height 0.1 m with given contacts."""
    bodies = tuple(Body(name=name, mass=2.0, inertia=SOLID) for name in ("one", "two"))
    joints = tuple(Joint(name=f"{name}.free", kind="free", child=name) for name in ("one", "two"))
    start = {"initial_q": (0.0, 0.0, 0.1, 0.0, 0.0, 0.0, 1.0, 0.0, 0.1, 0.0, 0.0, 0.0), "initial_v": (0.0,) * 12}
    whole = Mechanism(
        name="lying", coordinates="joint", bodies=bodies, joints=joints, gravity=(0.0, 0.0, -9.81), contacts=contacts,
        **start,  # type: ignore[arg-type]
    )  # fmt: skip
    return dataclasses.replace(whole, **changes)


OWN = {
    "hertz": (SphereContact(name="foot", body="one", radius=0.1, dissipation=0.3, friction=0.4),),
    "tunable": (
        SphereContact(name="foot", body="one", radius=0.1, stiffness=3e5, friction=0.1, slip_velocity=0.003),
        SphereContact(name="toe", body="one", radius=0.05, center=(0.1, 0.0, 0.0), stiffness=2e4, exponent=2.0),
    ),
    "capsule": capsule_contacts("rod", half_axis=(0.1, 0.2, 1e-3), radius=0.1, body="one", normal=(0.0, 0.6, 0.8)),
    "box": box_contacts("crate", half_sizes=(0.1, 0.2, 0.3), center=(0.01, 0.02, 0.03), body="two", friction=0.2),
    "rounded box": box_contacts("crate", half_sizes=(0.1, 0.2, 0.3), radius=0.02, body="two"),
    "no box": tuple(
        dataclasses.replace(each, radius=0.01, friction=0.1 * k)
        for k, each in enumerate(box_contacts("crate", half_sizes=(0.1, 0.2, 0.3), body="two"))
    ),
    "on a box": (
        SphereContact(
            name="x", body="one", radius=0.1, other="two", other_half_sizes=(0.1, 0.2, 0.3),
            other_quaternion=(0.5, -0.5, 0.5, 0.5),
        ),
    ),
    "named alike": (
        *capsule_contacts("rod", half_axis=(0.1, 0.0, 0.0), radius=0.1, body="one"),
        SphereContact(name="rod", body="two", radius=0.1, other="one", other_radius=0.2),
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", OWN)
def test_contacts_of_ones_own_robot_come_back_from_the_file(tmp_path: Path, kind: str) -> None:
    robot = lying(*OWN[kind])
    text = export(robot, "mjcf").text
    again, expected = build(written(tmp_path, "robot.xml", text)), with_contact_stiffness(robot)
    assert_alike("contacts", again.contacts, expected.contacts)
    mujoco.MjModel.from_xml_string(text)


def test_a_tunable_of_a_contact_is_written_with_its_value(tmp_path: Path) -> None:
    tunable = SphereContact(
        name="foot", body="one", radius=0.1, stiffness=CapturedParameter(name="k", value=3e4),
        friction=Tunable(name="mu", value=0.3),
    )  # fmt: skip
    (foot,) = build(written(tmp_path, "robot.xml", export(lying(tunable), "mjcf").text)).contacts
    assert (foot.stiffness, foot.friction) == (3e4, 0.3)


@pytest.mark.parametrize("exponent", [1.0, 1.5])
@pytest.mark.parametrize("stiffness", [2e3, 3e4])
def test_a_ball_rests_as_deep_in_mujoco_as_here(exponent: float, stiffness: float) -> None:
    foot = SphereContact(
        name="foot", body="one", radius=0.1, stiffness=stiffness, exponent=exponent, dissipation=1.0, friction=0.5
    )
    robot = lying(foot)
    model = mujoco.MjModel.from_xml_string(export(robot, "mjcf").text)
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, 0)
    mujoco.mj_step(model, data, round(20.0 / model.opt.timestep))
    sim = Simulation(assemble(robot), step_s=1e-3)
    sim.advance(4.0)
    assert 0.1 - sim.state.q[2] == pytest.approx(0.1 - data.qpos[2], rel=0.03)


POINT = SphereContact(name="tip", body="one")
TILTING = SphereContact(name="tray", body="one", radius=0.1, other="two")


@pytest.mark.parametrize("contact", [POINT, TILTING])
def test_contacts_that_mujoco_has_not_are_named_and_the_open_tree_leaves_only_these_out(
    tmp_path: Path, contact: SphereContact
) -> None:
    foot = OWN["hertz"][0]
    robot = lying(foot, contact)
    with pytest.raises(
        InvalidRequest, match=rf"MJCF cannot express the contacts '{contact.name}' \(SphereContact\); pass --open-tree"
    ):
        export(robot, "mjcf")
    opened = export(robot, "mjcf", open_tree=True)
    assert opened.notes[0] == f"left out are the contacts '{contact.name}' (SphereContact)"
    assert build(written(tmp_path, "robot.xml", opened.text)).contacts == with_contact_stiffness(lying(foot)).contacts


def foot_file() -> Export:
    return export(lying(OWN["hertz"][0]), "mjcf")


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (
            (' data="3650000.0 1.5', ' data="1.5'),
            r"numeric 'armswing.contact.foot': data has 3 numbers; it must have 4",
        ),
        ((" 1.5 ", " 3.0 "), r"contact 'foot': exponent is 3.0; it must be 1, 1.5 or 2"),
    ],
)
def test_numbers_that_do_not_fit_a_contact_are_refused_in_one_line(
    tmp_path: Path, change: tuple[str, str], line: str
) -> None:
    text = foot_file().text
    assert change[0] in text
    with pytest.raises(InvalidRequest) as caught:
        assemble(build(written(tmp_path, "robot.xml", text.replace(*change))))
    assert re.search(line, str(caught.value)), caught.value
    assert "\n" not in str(caught.value)


def test_numbers_without_a_pair_are_named_and_a_pair_without_numbers_is_read_as_any_other(tmp_path: Path) -> None:
    text = foot_file().text.replace('pair name="foot"', 'pair name="hand"')
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        (contact,) = build(written(tmp_path, "robot.xml", text)).contacts
    assert contact.name == "hand"
    assert contact.exponent == 1.0
    said = "\n".join(str(each.message) for each in caught)
    assert "numeric 'armswing.contact.foot'): the contact is not read, because no <pair> has its name" in said


def test_the_time_step_for_mujoco_resolves_stiff_contacts() -> None:
    stiff = dataclasses.replace(OWN["hertz"][0], stiffness=1e8, exponent=1.0)
    model = mujoco.MjModel.from_xml_string(export(lying(stiff), "mjcf").text)
    assert model.opt.timestep < 2e-4
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, 0)
    data.qpos[2] += 0.001
    mujoco.mj_step(model, data, round(0.5 / model.opt.timestep))
    assert data.qpos[2] == pytest.approx(0.1, abs=1e-3)
    slack = dataclasses.replace(stiff, stiffness=2e3, dissipation=1.0)
    assert mujoco.MjModel.from_xml_string(export(lying(slack), "mjcf").text).opt.timestep == 2e-3
