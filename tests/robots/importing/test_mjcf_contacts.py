"""Contacts of an MJCF file: the pairs of geoms are MuJoCo's, and bodies rest as deep as in MuJoCo."""

from __future__ import annotations

import itertools
import math
import re
import warnings
from collections.abc import Callable
from pathlib import Path

import mujoco
import numpy as np
import pytest

from armswing import build
from robots.export.inverse_weights import inverse_weights
from sim_core.errors import DescriptionWarning, InvalidRequest, StepTooLargeWarning
from sim_core.mechanism import dissipation_for
from sim_core.simulation import Simulation
from sim_core.spatial import rotation_about
from sim_core.system import assemble

pytestmark = pytest.mark.filterwarnings("ignore::sim_core.errors.DescriptionWarning")

# all geoms overlap, so that MuJoCo has a contact for every pair that may touch
PAIRS = """<mujoco>
<default><geom type="sphere" size="0.1"/></default>
<worldbody>
  <geom name="floor" type="plane" size="1 1 1"/><geom name="post"/>
  <body name="a"><freejoint/><geom name="a1"/><geom name="a2" contype="2" conaffinity="4"/>
    <body name="b"><geom name="b1"/>
      <body name="c"><joint axis="1 0 0"/><geom name="c1"/>
        <body name="d"><joint axis="0 1 0"/><geom name="d1"/></body></body></body>
    <body name="e"><joint axis="0 0 1"/><geom name="e1"/></body></body>
  <body name="f"><freejoint/><geom name="f1" contype="4" conaffinity="0"/><geom name="f2"/></body>
  <body name="g"><joint axis="0 1 0"/><geom name="g1" contype="0" conaffinity="0"/><geom name="g2"/></body>
</worldbody>
<contact><exclude body1="f" body2="d"/><exclude body1="world" body2="e"/>
  <pair name="forced" geom1="g1" geom2="a1"/></contact></mujoco>"""


def written(tmp_path: Path, text: str) -> str:
    (tmp_path / "robot.xml").write_text(text)
    return str(tmp_path / "robot.xml")


def test_the_pairs_of_geoms_that_touch_are_those_of_mujoco(tmp_path: Path) -> None:
    file = written(tmp_path, PAIRS)
    model = mujoco.MjModel.from_xml_path(file)
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    theirs = {frozenset(model.geom(int(geom)).name for geom in contact.geom) for contact in data.contact}
    ours = {frozenset(contact.name.replace("forced", "g1.a1").split(".")) for contact in build(file).contacts}
    assert len(theirs) > 20
    assert ours == theirs


@pytest.mark.parametrize(
    ("softness", "cone"),
    [
        ("", "pyramidal"),
        ('solref="0.01 1"', "pyramidal"),
        ('solref="0.03 0.7" solimp="0.8 0.99 0.002 0.3 3"', "pyramidal"),
        ('solref="-30000 -150"', "pyramidal"),
        ('friction="0.3"', "elliptic"),
        ('solref="0.01 1" friction="1.5"', "elliptic"),
        ('condim="1"', "pyramidal"),
    ],
)
def test_a_ball_sinks_in_as_deep_as_in_mujoco(tmp_path: Path, softness: str, cone: str) -> None:
    file = written(
        tmp_path,
        f"""<mujoco><option timestep="0.001" cone="{cone}"/><default><geom {softness}/></default><worldbody>
        <geom type="plane" size="1 1 1"/>
        <body pos="0 0 0.0999"><freejoint/><geom size="0.1" density="500"/></body></worldbody></mujoco>""",
    )
    model = mujoco.MjModel.from_xml_path(file)
    data = mujoco.MjData(model)
    mujoco.mj_step(model, data, 3000)
    sim = Simulation(assemble(build(file)), step_s=1e-3)
    sim.advance(3.0)
    assert 0.1 - sim.state.q[2] == pytest.approx(0.1 - data.qpos[2], rel=0.02)


# a box on its corners, and a figure on the corners of two feet
RESTING = {
    "box": '<body name="b" pos="0 0 0.1"><freejoint/><geom type="box" size="0.2 0.15 0.1"/></body>',
    "figure": """<body name="b" pos="0 0 0.6"><freejoint/><geom type="box" size="0.1 0.15 0.3"/>
      <body name="l" pos="0 0.1 -0.3"><joint axis="0 1 0" stiffness="2000" damping="20"/>
        <geom type="capsule" fromto="0 0 0 0 0 -0.25" size="0.03"/>
        <geom type="box" size="0.1 0.04 0.02" pos="0 0 -0.28"/></body>
      <body name="r" pos="0 -0.1 -0.3"><joint axis="0 1 0" stiffness="2000" damping="20"/>
        <geom type="capsule" fromto="0 0 0 0 0 -0.25" size="0.03"/>
        <geom type="box" size="0.1 0.04 0.02" pos="0 0 -0.28"/></body></body>""",
}


@pytest.mark.parametrize(("friction", "cone"), [(1.0, "pyramidal"), (0.8, "elliptic")])
@pytest.mark.parametrize("resting", RESTING)
def test_a_body_on_several_contacts_rests_about_as_deep_as_in_mujoco(
    tmp_path: Path, resting: str, friction: float, cone: str
) -> None:
    file = written(
        tmp_path,
        f"""<mujoco><option timestep="0.001" cone="{cone}"/><default><geom friction="{friction}"/></default><worldbody>
        <geom type="plane" size="1 1 1"/>{RESTING[resting]}</worldbody></mujoco>""",
    )
    model = mujoco.MjModel.from_xml_path(file)
    data = mujoco.MjData(model)
    height = model.qpos0[2]
    mujoco.mj_step(model, data, 2000)
    sim = Simulation(assemble(build(file)), step_s=2.5e-4)
    sim.advance(2.0)
    assert height - sim.state.q[2] == pytest.approx(height - data.qpos[2], rel=0.2)


def test_masses_at_contacts_are_those_of_mujoco(tmp_path: Path) -> None:
    file = written(tmp_path, PAIRS)
    weights = mujoco.MjModel.from_xml_path(file).body_invweight0[:, 0]
    mechanism = build(file)
    ours = inverse_weights(mechanism, np.zeros(len(mechanism.initial_q)))
    np.testing.assert_allclose([ours[body] for body in ("ground", *"abcdefg")], weights, rtol=1e-9, atol=1e-12)


def test_a_contact_of_bodies_without_mass_is_refused_in_one_line(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        """<mujoco><worldbody><geom name="floor" type="plane" size="1 1 1"/><body pos="0 0 0.1">
        <joint axis="0 1 0" armature="1"/><inertial pos="0 0 0" mass="0" diaginertia="0 0 0"/>
        <geom name="ball" size="0.1"/></body></worldbody></mujoco>""",
    )
    with pytest.raises(InvalidRequest, match=r"contact 'ball.floor': stiffness is 0; it must be above 0"):
        assemble(build(file))


# spheres, a capsule and a box on the floor, and a ball on the box
HEAP = """<mujoco><option timestep="0.001"/><worldbody><geom type="plane" size="1 1 1"/>
<body name="ball" pos="-0.5 0 0.05"><freejoint/><geom size="0.05"/></body>
<body name="rod" pos="0 0.5 0.03"><freejoint/><geom type="capsule" size="0.03 0.1" euler="0 90 0"/></body>
<body name="crate" pos="0.5 0 0.06"><freejoint/><geom type="box" size="0.1 0.08 0.06"/></body>
<body name="load" pos="0.5 0 0.16"><freejoint/><geom size="0.04" mass="0.2"/></body>
</worldbody></mujoco>"""


def test_bodies_come_to_rest_where_they_do_in_mujoco(tmp_path: Path) -> None:
    file = written(tmp_path, HEAP)
    model = mujoco.MjModel.from_xml_path(file)
    data = mujoco.MjData(model)
    mujoco.mj_step(model, data, 1000)
    mechanism = build(file)
    assert len(mechanism.contacts) == 1 + 2 + 8 + 1 + 5  # on the floor, and pairs with a sphere
    with warnings.catch_warnings():
        warnings.simplefilter("error", StepTooLargeWarning)
        sim = Simulation(assemble(mechanism), step_s=1e-3)
    sim.advance(1.0)
    heights = np.array([sim.frames()[joint.name][0][2] for joint in mechanism.joints])
    theirs = np.array([data.body(name).xpos[2] for name in ("ball", "rod", "crate", "load")])
    np.testing.assert_allclose(heights, theirs, atol=1e-3)
    assert np.abs(sim.state.v).max() < 0.02


def test_friction_and_damping_are_those_of_the_file(tmp_path: Path) -> None:
    geoms = {
        "plain": "",
        "rough": 'friction="1.5"',
        "slick": 'condim="1" priority="1"',
        "ruled": 'friction="0.3" priority="2" solref="0.02 0.5"',
    }
    bodies = "".join(
        f'<body pos="{k} 0 0.1"><freejoint/><geom name="{name}" size="0.1" {given}/></body>'
        for k, (name, given) in enumerate(geoms.items())
    )
    file = written(
        tmp_path,
        f'<mujoco><worldbody><geom name="floor" type="plane" size="1 1 1" friction="0.6"/>{bodies}</worldbody>'
        '<contact><pair geom1="plain" geom2="rough" friction="0.2 0.2"/></contact></mujoco>',
    )
    contacts = {contact.name: contact for contact in build(file).contacts}
    found = {name: contacts[f"{name}.floor"].friction for name in geoms}
    assert found == {"plain": 1.0, "rough": 1.5, "slick": 0.0, "ruled": 0.3}
    assert contacts["plain.rough"].friction == 0.2
    assert contacts["plain.floor"].dissipation == dissipation_for(0.1, 1.0)
    half = np.exp(-np.pi * 0.5 / np.sqrt(0.75))
    assert contacts["ruled.floor"].dissipation == pytest.approx(dissipation_for(half, 1.0), rel=1e-12)


def test_pairs_and_properties_that_are_not_read_are_named_with_their_line(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        """<mujoco><worldbody><geom name="floor" type="plane" size="1 1 1"/>
        <body pos="0 0 1"><freejoint/><geom name="drum" type="cylinder" size="0.1 0.1"/></body>
        <body pos="0 1 1"><freejoint/><geom name="rod" type="capsule" size="0.1 0.1" condim="6" margin="0.01"/></body>
        </worldbody></mujoco>""",
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        contacts = build(file).contacts
    said = "\n".join(str(each.message) for each in caught)
    assert [contact.name for contact in contacts] == ["rod.floor_0", "rod.floor_1"]
    for line in (
        r"line 2 \(geom 'drum'\): contacts of a cylinder with a plane are not read: the two do not touch",
        r"line 3 \(geom 'rod'\): contacts of a capsule with a cylinder are not read",
        r"line 3 \(geom 'rod'\): condim is above 3: torsional and rolling friction are not read",
        r"line 3 \(geom 'rod'\): margin is not read",
    ):
        assert re.search(line, said), said


@pytest.mark.parametrize(
    ("contact", "line"),
    [
        ('<exclude body1="a" body2="trunk"/>', r"body 'a' not found in bodypair 0"),
        (
            '<pair geom1="ball" geom2="floo"/>',
            r"geom 'floo' not found in collision 0",
        ),
        ('<flex geom1="ball"/>', r"<flex>: .*unrecognized element"),
    ],
)
def test_a_wrong_contact_is_refused_with_line_and_name(tmp_path: Path, contact: str, line: str) -> None:
    file = written(
        tmp_path,
        f"""<mujoco><worldbody><geom name="floor" type="plane" size="1 1 1"/>
        <body name="trunk"><freejoint/><geom name="ball" size="0.1"/></body></worldbody>
        <contact>{contact}</contact></mujoco>""",
    )
    with pytest.raises(InvalidRequest, match=rf"line 3: .*{line}"):
        build(file)


def test_a_disabled_contact_flag_means_none_and_ignore_leaves_them_out(tmp_path: Path) -> None:
    text = HEAP.replace("<worldbody>", '<option><flag contact="disable"/></option><worldbody>', 1)
    assert build(written(tmp_path, text)).contacts == ()
    assert build(written(tmp_path, HEAP), contacts="ignore").contacts == ()


def test_contacts_with_the_ground_alone_leave_out_those_between_moving_bodies(tmp_path: Path) -> None:
    with pytest.warns(match=r"line 1: contacts between moving bodies are left out, as contacts=ground asks"):
        contacts = build(written(tmp_path, HEAP), contacts="ground").contacts
    assert len(contacts) == 1 + 2 + 8 + 1
    assert {contact.other for contact in contacts} == {"ground"}


def test_what_is_not_read_is_named_of_each_geom_on_a_line(write_mjcf: Callable[..., str]) -> None:
    ball = '<body pos="0 0 1"><freejoint/><geom name="ball" size="0.1" margin="0.01"/></body>'
    file = write_mjcf(f'<worldbody><geom name="floor" type="plane" size="1 1 1"/>{ball}</worldbody>')
    with pytest.warns(DescriptionWarning, match="margin is not read: geoms touch where their surfaces meet"):
        build(file)


CRATE = """<mujoco><asset><mesh name="crate" vertex="{}"/></asset><worldbody>
<geom name="floor" type="plane" size="1 1 1"/>
<body pos="0 0 1"><freejoint/><geom name="crate" type="mesh" mesh="crate" pos="0.1 0 0" euler="0 0 30"/></body>
</worldbody></mujoco>"""


@pytest.mark.parametrize("meshes", ["drawn", "boxes"])
def test_a_mesh_touches_planes_with_the_corners_of_its_hull(tmp_path: Path, meshes: str) -> None:
    corners = np.array([*itertools.product((0.3, -0.3), (0.2, -0.2), (0.1, -0.1))])
    inside = [[0.0, 0.0, 0.05], [0.1, 0.1, 0.0]]
    file = written(tmp_path, CRATE.format(" ".join(f"{x:g}" for x in [*corners.ravel(), *np.ravel(inside)])))
    robot = build(file, meshes=meshes)
    turned = corners @ rotation_about((0.0, 0.0, 1.0), math.radians(30.0)).T + [0.1, 0.0, 0.0]
    found = np.array([contact.center for contact in robot.contacts])
    np.testing.assert_allclose(found[np.lexsort(found.round(6).T)], turned[np.lexsort(turned.round(6).T)], atol=1e-7)
    assert {contact.radius for contact in robot.contacts} == {0.0}


def test_the_hull_of_a_mesh_has_a_bounded_number_of_points_which_is_said(tmp_path: Path) -> None:
    points = np.random.default_rng(1).normal(size=(200, 3))
    points /= np.linalg.norm(points, axis=1)[:, None]
    file = written(tmp_path, CRATE.format(" ".join(f"{x:g}" for x in points.ravel())))
    with pytest.warns(DescriptionWarning, match=r"touches with 16 of its corners; hull_points=N takes N"):
        assert len(build(file).contacts) == 16
    assert len(build(file, hull_points=300).contacts) == 200
