"""Collision shapes of URDF files touch the ground and one another."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from armswing import Simulation, assemble, build
from robots.importing.hulls import farthest, outer
from sim_core.errors import InvalidRequest
from sim_core.mechanism import Mechanism

pytestmark = pytest.mark.filterwarnings("ignore::sim_core.errors.DescriptionWarning")

LINK = """<link name="{name}"><inertial><mass value="{mass}"/><inertia ixx="0.01" iyy="0.01" izz="0.01" ixy="0" ixz="0"
iyz="0"/></inertial>{collisions}</link>"""
SHAPES = {
    "sphere": ('<sphere radius="0.1"/>', 1, 0.1),
    "capsule": ('<capsule radius="0.05" length="0.2"/>', 2, 0.15),
    "box": ('<box size="0.2 0.3 0.4"/>', 8, 0.2),
    "cylinder": ('<cylinder radius="0.1" length="0.2"/>', 16, 0.1),
}


def collision(shape: str, xyz: str = "0 0 0") -> str:
    return f'<collision><origin xyz="{xyz}"/><geometry>{shape}</geometry></collision>'


def robot(folder: Path, *links: str, joints: str = "", **parameters: object) -> Mechanism:
    """The free-floating robot of a file with these links."""
    file = folder / "robot.urdf"
    file.write_text(f"<robot name='robot'>{''.join(links)}{joints}</robot>")
    return build(str(file), **{"base": "free", **parameters})


def block(folder: Path, *shapes: str, **parameters: object) -> Mechanism:
    """A free body of 2 kg with these collision shapes."""
    made = LINK.format(name="block", mass=2.0, collisions="".join(shapes))
    return robot(folder, made, **parameters)


@pytest.mark.parametrize("kind", SHAPES)
def test_a_shape_touches_by_its_lowest_points_and_the_base_starts_on_the_ground(kind: str, tmp_path: Path) -> None:
    text, count, height = SHAPES[kind]
    made = block(tmp_path, collision(text, "0 0 0.3"))
    assert len(made.contacts) == count
    assert made.initial_q[2] == pytest.approx(height - 0.3, abs=1e-12)
    assert not block(tmp_path, collision(text), contacts="none").contacts


def test_points_inside_the_hull_of_a_link_are_left_out(tmp_path: Path) -> None:
    box, inside = collision('<box size="1 1 1"/>'), collision('<box size="0.1 0.1 0.1"/>')
    assert block(tmp_path, box, inside).contacts == block(tmp_path, box).contacts


def test_a_box_at_rest_bears_its_weight_and_a_pulled_box_sticks(tmp_path: Path) -> None:
    made = block(tmp_path, collision('<box size="0.2 0.2 0.2"/>'), mu=0.5)
    slope = np.array([0.3, 0.0, -1.0]) / np.hypot(0.3, 1.0) * 9.81  # below the friction coefficient
    sim = Simulation(assemble(replace(made, gravity=tuple(slope.tolist()))), step_s=1e-3)
    sim.advance(4.0)
    settled = sim.coordinates[:3].copy()
    sim.advance(20.0)
    assert np.abs(sim.coordinates[:3] - settled).max() < 1e-7
    steep = np.array([0.7, 0.0, -1.0])
    slides = Simulation(assemble(replace(made, gravity=tuple((9.81 * steep).tolist()))), step_s=1e-3)
    slides.advance(0.5)
    before = slides.velocities[0]
    slides.advance(0.5)
    assert slides.velocities[0] - before == pytest.approx((0.7 - 0.5) * 9.81 * 0.5, rel=0.01)


def test_spheres_and_capsules_touch_one_another_on_request(tmp_path: Path) -> None:
    ball = collision('<sphere radius="0.05"/>')
    links = [LINK.format(name=name, mass=1.0, collisions=ball) for name in ("hub", "left", "right")]
    joints = "".join(
        f'<joint name="{side}" type="continuous"><parent link="hub"/><child link="{side}"/>'
        f'<origin xyz="{x} 0 0"/><axis xyz="0 0 1"/></joint>'
        for side, x in (("left", 0.3), ("right", -0.3))
    )
    alone = robot(tmp_path, *links, joints=joints)
    both = robot(tmp_path, *links, joints=joints, contacts="all")
    pairs = [(each.body, each.other) for each in both.contacts if each.other != "ground"]
    assert len(alone.contacts) == 3
    assert pairs == [("left", "right")]


def test_start_positions_are_given_by_patterns(tmp_path: Path) -> None:
    links = [LINK.format(name=name, mass=1.0, collisions="") for name in ("hub", "arm")]
    joint = '<joint name="turn" type="revolute"><parent link="hub"/><child link="arm"/><axis xyz="0 0 1"/>'
    joint += '<limit lower="-1" upper="1" effort="1" velocity="1"/></joint>'
    assert robot(tmp_path, *links, joints=joint, start="t*=0.5").initial_q[-1] == 0.5
    for start, message in (
        ("elbow=1", "no joint is named 'elbow'"),
        ("turn=2", "within its limits, -1 to 1"),
        ("turn", "must be JOINT=NUMBER"),
    ):
        with pytest.raises(InvalidRequest, match=message):
            robot(tmp_path, *links, joints=joint, start=start)


def test_too_many_points_of_contact_and_bad_sizes_are_refused_in_one_line(tmp_path: Path) -> None:
    angles = np.linspace(0.0, 1.5, 1250)
    many = [
        f'<collision><origin rpy="{a} {2 * a} 0"/><geometry><box size="1 1 1"/></geometry></collision>' for a in angles
    ]
    with pytest.raises(InvalidRequest, match=r"have \d+ points of contact; at most 1000") as caught:
        block(tmp_path, *many)
    assert "\n" not in str(caught.value)
    with pytest.raises(InvalidRequest, match="radius is -1 m"):
        block(tmp_path, collision('<sphere radius="-1"/>'))


def test_a_hull_has_at_most_the_points_asked_for_and_one_without_volume_is_refused(tmp_path: Path) -> None:
    trimesh = pytest.importorskip("trimesh")
    trimesh.creation.icosphere(subdivisions=3, radius=0.2).export(tmp_path / "ball.stl")
    flat = trimesh.Trimesh([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
    flat.export(tmp_path / "flat.stl")
    mesh = collision('<mesh filename="ball.stl"/>')
    assert len(block(tmp_path, mesh).contacts) == 16
    assert len(block(tmp_path, mesh, hull_points=40).contacts) == 40
    with pytest.raises(InvalidRequest, match=r"flat.stl has no volume"):
        block(tmp_path, collision('<mesh filename="flat.stl"/>'))


def test_farthest_points_are_spread_and_corners_alone_are_outer() -> None:
    cube = np.array([[x, y, z] for x in (0.0, 1.0) for y in (0.0, 1.0) for z in (0.0, 1.0)])
    inner = np.vstack([cube, [[0.5, 0.5, 0.5]]])
    assert outer(inner) == [*range(8)]
    assert {*map(tuple, farthest(inner, 8))} == {*map(tuple, cube)}
