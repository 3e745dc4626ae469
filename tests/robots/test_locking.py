"""Locked joints: the robot moves as one whose joints are held there."""

from __future__ import annotations

import numpy as np
import pytest

from armswing import assemble, build, forward_kinematics, inverse_dynamics
from robots.locking import with_locked_joints
from sim_core.errors import InvalidRequest, UnknownName
from sim_core.mechanism import Body, Joint, Mechanism


def test_poses_and_efforts_of_a_robot_with_locked_joints_are_those_of_the_robot_held_there() -> None:
    free, locked = assemble(build("arm_4dof")), assemble(build("arm_4dof", locked="joint_2=0.4, joint_4"))
    assert locked.joint_names == ("joint_1", "joint_3")
    q, v, a = np.array([0.3, 0.4, -0.7, 0.0]), np.array([0.5, 0.0, -0.2, 0.0]), np.array([1.0, 0.0, 2.0, 0.0])
    moving = [0, 2]
    efforts = inverse_dynamics(locked, q[moving], v[moving], a[moving])
    np.testing.assert_allclose(efforts, inverse_dynamics(free, q, v, a)[moving], rtol=1e-12)
    there, here = forward_kinematics(free, q), forward_kinematics(locked, q[moving])
    for body, (p, R) in there.items():
        np.testing.assert_allclose(here[body][0], p, atol=1e-12)
        np.testing.assert_allclose(here[body][1], R, atol=1e-12)


def test_a_sliding_joint_is_locked_at_its_distance() -> None:
    slide = Joint(name="slide", kind="prismatic", child="cart", axis=(0.6, 0.0, 0.8))
    swing = Joint(name="swing", parent="cart", child="rod", axis=(0.0, 1.0, 0.0))
    bodies = tuple(Body(name=name, mass=1.0, inertia=(0.1, 0.1, 0.1, 0.0, 0.0, 0.0)) for name in ("cart", "rod"))
    start = {"initial_q": (0.5, 0.1), "initial_v": (0.0, 0.0)}
    cart = Mechanism(name="cart", coordinates="joint", bodies=bodies, joints=(slide, swing), **start)
    locked = assemble(with_locked_joints(cart, {"slide": 2.0}))
    assert locked.joint_names == ("swing",)
    assert locked.mechanism.initial_q == (0.1,)
    np.testing.assert_allclose(forward_kinematics(locked, np.array([0.1]))["rod"][0], [1.2, 0.0, 1.6], atol=1e-12)


def test_an_unknown_joint_and_a_text_without_numbers_are_refused_in_one_line() -> None:
    with pytest.raises(UnknownName, match="joint_9"):
        build("arm_4dof", locked="joint_9")
    with pytest.raises(InvalidRequest, match="joint=position"):
        build("arm_4dof", locked="joint_1=half")
    with pytest.raises(InvalidRequest, match="joint coordinates"):
        build("rotary_pendulum", locked="arm")
