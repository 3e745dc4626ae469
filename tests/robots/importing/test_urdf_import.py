"""A URDF file gives the mechanism that it describes; pinocchio computes the same from it."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from armswing import build
from robots import files, registry
from robots.export import export
from robots.importing.rotations import rotation_rpy
from sim_core.errors import DescriptionWarning, InvalidMechanism
from sim_core.inverse import forward_kinematics, inverse_dynamics
from sim_core.simulation import Simulation
from sim_core.system import assemble
from tests.robots.importing.parts import joint, link, worst_miss

ROOT = Path(__file__).resolve().parents[3]
BENCH_ARM = str(ROOT / "launch/examples/bench_arm.urdf")
Write = Callable[..., str]
RELATIVE = 1e-9


def test_the_arm_of_the_documentation_moves_as_in_pinocchio() -> None:
    assert worst_miss(BENCH_ARM, 100) < RELATIVE


def test_turned_inertias_prismatic_and_massless_links_move_as_in_pinocchio(write: Write) -> None:
    turned = link("c").replace('<origin xyz="0.1 0 0.05"/>', '<origin xyz="0.1 0 0.05" rpy="0.4 1.2 -2"/>')
    file = write(
        "<link name='world'/>",
        link("a"),
        "<link name='b'/>",
        turned,
        link("d"),
        joint("slide", "world", "a", "prismatic", axis="0.6 0 0.8", more='<dynamics damping="0.7"/>'),
        joint("first", "a", "b", axis="0 1 0"),
        joint("plate", "b", "c", "fixed"),
        joint("second", "c", "d", "continuous", axis="-1 2 0.5"),
    )
    assert worst_miss(file, 100) < RELATIVE


@pytest.mark.parametrize("base", ["fixed", "free"])
def test_a_tree_with_a_floating_joint_moves_as_in_pinocchio(base: str, write: Write) -> None:
    file = write(
        link("a"),
        link("b"),
        link("c"),
        link("d"),
        joint("first", "a", "b", axis="0 1 0", more='<dynamics damping="0.7"/>'),
        joint("loose", "b", "c", "floating"),
        joint("second", "c", "d", "continuous", axis="-1 2 0.5"),
    )
    assert worst_miss(file, 100, base=base) < RELATIVE


def test_the_free_root_link_of_a_file_falls() -> None:
    simulation = Simulation(assemble(build(BENCH_ARM, base="free")))
    simulation.advance(0.5)
    assert simulation.system.mechanism.joints[0].name == "ground_to_world"
    assert simulation.coordinates[2] == pytest.approx(-0.5 * 9.81 * 0.25, abs=1e-9)


def test_a_free_root_link_needs_a_mass_and_a_name_of_its_own(write: Write) -> None:
    with pytest.raises(InvalidMechanism, match="no link has a mass"):
        build(write("<link name='a'/>"), base="free")
    with pytest.raises(
        InvalidMechanism, match="line 2: link 'ground': base is 'free', but the root link is the ground"
    ):
        build(write("<link name='ground'/>", link("b"), joint("hinge", "ground", "b")), base="free")


def test_bodies_joints_and_actuators_have_the_names_and_numbers_of_the_file() -> None:
    arm = build(BENCH_ARM)
    assert arm.name == "bench_arm"
    assert [body.name for body in arm.bodies] == ["world", "column", "shoulder", "upper_arm", "forearm", "tool"]
    assert [each.name for each in arm.moving_joints] == ["turn", "lift", "elbow"]
    lift = arm.joint("lift")
    assert (lift.kind, lift.parent, lift.child, lift.axis) == ("revolute", "shoulder", "upper_arm", (0.0, -1.0, 0.0))
    assert (lift.lower, lift.upper, lift.damping) == (-0.5, 2.2, 0.3)
    assert (arm.joint("turn").lower, arm.joint("turn").upper) == (None, None)
    assert [(a.joint, a.effort_limit, a.velocity_limit) for a in arm.actuators] == [
        ("turn", 20.0, 3.0),
        ("lift", 30.0, 3.0),
        ("elbow", 15.0, 4.0),
    ]
    assert arm.body("forearm").shapes[0].color == "#d9731a"
    p, _ = forward_kinematics(assemble(arm), [0.0, math.pi / 2, 0.0])["tool"]
    np.testing.assert_allclose(p, (0.0, 0.0, 0.4 + 0.35 + 0.33), atol=1e-15)


def test_a_start_outside_the_limits_is_moved_to_the_nearest(write: Write) -> None:
    file = write(link("a"), link("b"), joint("hinge", "a", "b").replace('lower="-1"', 'lower="0.5"'))
    assert build(file).initial_q == (0.5,)


def test_the_friction_of_a_file_is_coulombs_and_smooth_near_rest(write: Write) -> None:
    file = write(link("a"), link("b"), joint("hinge", "a", "b", more='<dynamics friction="0.02" damping="0.1"/>'))
    system = assemble(build(file, friction="regularized"))
    for speed in (-2.0, 1e-3, 5.0):
        effort = inverse_dynamics(system, [0.4], [speed], [0.0]) - inverse_dynamics(system, [0.4], [0.0], [0.0])
        assert effort == pytest.approx(0.1 * speed + 0.02 * math.tanh(speed / 1e-3), rel=1e-12)


def test_a_joint_that_mimics_another_follows_it(write: Write) -> None:
    copy = joint("copy", "b", "c", more='<mimic joint="hinge" multiplier="-0.5" offset="0.2"/>')
    arm = build(write(link("a"), link("b"), link("c"), joint("hinge", "a", "b"), copy))
    assert arm.initial_q == (0.0, 0.2)
    assert [actuator.name for actuator in arm.actuators] == ["hinge"]
    sim = Simulation(assemble(arm), step_s=1e-3)
    sim.advance(2.0)
    hinge, other = sim.state.q
    assert abs(hinge) > 0.05
    assert other == pytest.approx(0.2 - 0.5 * hinge, abs=1e-9)


def test_a_body_that_would_have_the_worlds_name_is_renamed_with_a_word(write: Write) -> None:
    file = write(link("world"), link("ground"), joint("hinge", "world", "ground"))
    with pytest.warns(match=r"line 10 \(link 'ground'\): the body is named 'ground_link'"):
        assert build(file).joint("hinge").child == "ground_link"


def test_the_topics_have_the_files_name() -> None:
    assert files.robot_name("robots/my-arm v2.urdf") == "my_arm_v2"
    assert files.robot_name("7dof.URDF") == "robot_7dof"
    assert [each.name for each in registry.parameters(BENCH_ARM)] == [
        "friction",
        "mimic",
        "base",
        "limits",
        "meshes",
        "repair",
        "servos",
        "contacts",
        "mu",
        "hull_points",
        "start",
    ]


def test_right_angles_give_exact_zeros() -> None:
    R = rotation_rpy((math.pi / 2, -math.pi, 3 * math.pi / 2))
    assert set(np.abs(R).ravel()) == {0.0, 1.0}
    np.testing.assert_allclose(rotation_rpy((1.5708, 0.0, 0.0))[1, 1], math.cos(1.5708), rtol=1e-15)


def test_the_damping_and_friction_of_a_floating_joint_are_read(write: Write) -> None:
    def file(dynamics: str) -> str:
        return write(link("a"), link("b"), joint("loose", "a", "b", "floating", more=f"<dynamics {dynamics}/>"))

    with (
        pytest.warns(DescriptionWarning, match="<limit> of a floating joint is not read"),
        pytest.warns(DescriptionWarning, match="damping of a floating joint is read in N s/m for its translation and"),
    ):
        assert build(file('damping="0.3"')).joint("loose").damping == 0.3
    with pytest.warns(DescriptionWarning, match="friction of a floating joint has no bristles: a loaded joint creeps"):
        mechanism = build(file('damping="0.3" friction="0.2"'))
    assert mechanism.joint("loose").friction.coulomb == 0.2  # type: ignore[union-attr]
    assert 'friction="0.2"' in export(mechanism, "urdf").text
    assert build(file('damping="0.3" friction="0.2"'), friction="ignore").joint("loose").friction is None


@pytest.mark.parametrize(
    ("kind", "rpy", "axis", "line"),
    [
        ("planar", "0 0 0", "0 0 1", ""),
        ("planar", "0 0 0.5", "0 0 1", "x and y of this planar joint lie along (1, 0, 0) and (0, 1, 0) of the parent"),
        ("planar", "0.3 0 0", "0 0 1", "x and y of this planar joint lie along"),
        ("planar", "0 0 0", "1 2 3", "x and y of this planar joint lie along"),
        ("floating", "0 0 0", "1 0 0", ""),
        (
            "floating",
            "0 0 0.5",
            "1 0 0",
            "x, y and z of this floating joint lie along (1, 0, 0), (0, 1, 0) and (0, 0, 1)",
        ),
    ],
)
def test_a_planar_or_floating_joint_says_where_its_directions_are_not_those_of_its_frame(
    kind: str, rpy: str, axis: str, line: str, tmp_path: Path
) -> None:
    file, inertia = tmp_path / "sled.urdf", '<inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/>'
    file.write_text(
        f'<robot name="a"><link name="base"/><link name="sled"><inertial><mass value="1"/>{inertia}</inertial></link>'
        f'<joint name="floor" type="{kind}"><origin rpy="{rpy}"/><axis xyz="{axis}"/><parent link="base"/>'
        '<child link="sled"/></joint></robot>'
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        build(str(file))
    said = [str(each.message) for each in caught if "lie along" in str(each.message)]
    assert [line in each for each in said] == [True] * bool(line)
