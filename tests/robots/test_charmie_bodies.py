"""The 40 bodies and 47 joints of the paper: counted, placed and held together."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from robots.charmie import auxiliary
from robots.charmie.geometry import Motion, length_of_lift, length_of_tilt, lift_actuator, tilt_actuator
from robots.charmie.parameters import read_parameters
from robots.charmie.point_clouds import connections, point_clouds
from robots.registry import build
from sim_core.inverse import forward_kinematics
from sim_core.system import assemble

P = read_parameters()
TREE = build("charmie", limits="none")
JOINTS = [joint.name for joint in TREE.moving_joints]


def somewhere(seed: int = 5) -> np.ndarray:
    q = np.random.default_rng(seed).normal(size=len(JOINTS))
    q[JOINTS.index("lift")], q[JOINTS.index("tilt")] = 0.05, -0.4
    return q


def test_bodies_and_joints_are_counted_as_in_the_paper() -> None:
    bodies, joints = point_clouds(P, TREE, somewhere()), connections(TREE)
    assert len(bodies) == 40
    assert Counter(joint.kind for joint in joints) == {"R": 34, "P": 10, "F": 3}
    assert len({joint.name for joint in joints}) == 47
    assert sum(joint.loop for joint in joints) == 7
    spoken = {end for joint in joints for end in (joint.body_a, joint.body_b)}
    assert spoken == {*bodies, "ground"}
    reached = {"ground"}
    for joint in joints:  # without the seven that close loops: a tree over all bodies
        if not joint.loop:
            assert joint.body_a in reached
            reached.add(joint.body_b)
    assert reached == spoken
    assert len(JOINTS) == 21


def test_main_bodies_hang_together_where_the_kernels_put_them() -> None:
    q = somewhere()
    clouds, poses = point_clouds(P, TREE, q), forward_kinematics(assemble(TREE), q)
    for joint in TREE.joints:
        child = clouds[joint.child]
        np.testing.assert_allclose(child.O, poses[joint.child][0], atol=1e-12)
        if joint.parent != "ground":
            assert min(np.linalg.norm(child.A - B) for B in clouds[joint.parent].B) < 1e-12
        if joint.kind == "revolute":
            np.testing.assert_allclose(child.A, child.O, atol=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_auxiliary_bodies_meet_the_bodies_they_are_hinged_to(seed: int) -> None:
    q = somewhere(seed)
    clouds, poses = point_clouds(P, TREE, q), forward_kinematics(assemble(TREE), q)

    def at(body: str, point: object) -> np.ndarray:
        return np.asarray(poses[body][0] + poses[body][1] @ np.array(point))

    for name, base, end in (("4d", "link_3", "link_4"), ("5d", "link_4", "link_5")):
        given = P.lift if name == "4d" else P.tilt
        np.testing.assert_allclose(clouds[f"link_{name}_cylinder"].A, at(base, given.base_point), atol=1e-12)
        np.testing.assert_allclose(clouds[f"link_{name}_rod"].B[-1], at(end, given.body_point), atol=1e-12)
    lower, upper = clouds["link_5s_lower"], clouds["link_5s_upper"]
    np.testing.assert_allclose(lower.A, at("link_4", P.tilt_spring.base_point), atol=1e-12)
    np.testing.assert_allclose(upper.B[-1], at("link_5", P.tilt_spring.body_point), atol=1e-12)
    np.testing.assert_allclose(lower.B[-1], upper.A, atol=1e-12)
    for half, side in auxiliary.HALVES.items():
        bar, slider = clouds[f"link_4s{half}a"], clouds[f"link_4s{half}c"]
        np.testing.assert_allclose(bar.A, at("link_3", auxiliary.mirrored(P.balance.pivot, side)), atol=1e-12)
        np.testing.assert_allclose(bar.B[1], slider.B[0], atol=1e-12)
        np.testing.assert_allclose(clouds[f"link_4s{half}b_lower"].A, bar.B[0], atol=1e-12)
        anchor = at("link_3", auxiliary.mirrored(P.balance.spring_anchor, side))
        np.testing.assert_allclose(clouds[f"link_4s{half}b_upper"].B[-1], anchor, atol=1e-12)
        on_link_4 = poses["link_4"][1].T @ (slider.O - poses["link_4"][0])  # it slides along x on link 4
        np.testing.assert_allclose(on_link_4[1:], [P.balance.pivot[1], P.balance.slide_height], atol=1e-12)


def test_directed_angles_have_the_cosine_of_the_triangles_in_the_paper() -> None:
    """Eq. 21: sides l_s, b_s along the local axis, and a_s opposite of the angle between the two."""
    for name, line in (("4d", lift_actuator(P, Motion(0.07))), ("5d", tilt_actuator(P, Motion(-0.6)))):
        S_i, S_j, along = np.zeros(3), np.array([0.0, line.y.x, line.z.x]), np.array([0.0, 0.0, 0.2])
        l_s, b_s, a_s = (np.linalg.norm(each) for each in (S_j - S_i, along - S_i, along - S_j))
        assert np.cos(line.turn.x) == pytest.approx((l_s**2 + b_s**2 - a_s**2) / (2 * l_s * b_s), abs=1e-14), name
    assert length_of_lift(P, 0.07) == pytest.approx(lift_actuator(P, Motion(0.07)).length.x)
    assert length_of_tilt(P, -0.6) == pytest.approx(tilt_actuator(P, Motion(-0.6)).length.x)


def test_the_second_finger_mirrors_the_driven_one() -> None:
    clouds, poses = point_clouds(P, TREE, somewhere()), forward_kinematics(assemble(TREE), somewhere())
    for branch in "ab":
        p, R = poses[f"link_12{branch}"]
        driven, other = ((clouds[name].shape - p) @ R for name in (f"link_13{branch}", f"finger_{branch}"))
        flipped = driven * [1.0, -1.0, 1.0]
        for corner in flipped:
            assert min(np.linalg.norm(other - corner, axis=1)) < 1e-12
