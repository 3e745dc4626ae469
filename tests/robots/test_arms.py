"""The three smaller models: CHARMIE's arm with as many bodies as joints."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from robots.arms.chain import MOVING
from robots.arms.welding import welded
from robots.charmie.links import arm_bodies, arm_joints
from robots.charmie.parameters import read_parameters
from robots.registry import build
from sim_core.errors import InvalidMechanism
from sim_core.mechanism import IDENTITY, X, Y, Z
from sim_core.system import assemble


@pytest.mark.parametrize("n", MOVING)
def test_welded_links_move_as_links_on_fixed_joints_do(n: int) -> None:
    arm, p = build(f"arm_{n}dof", limits="none"), read_parameters()
    names = [f"joint_{number}" for number in range(1, 8)]
    joints = [
        joint if number in MOVING[n] else dataclasses.replace(joint, kind="fixed")
        for number, joint in enumerate(arm_joints(p.arm, "", "ground", names), start=1)
    ]
    apart = dataclasses.replace(
        arm, name=f"arm_{n}dof_apart", bodies=arm_bodies(p.arm, ""), joints=tuple(joints), outputs=()
    )
    assert len(arm.bodies) == len(arm.joints) == n
    one, other = assemble(arm), assemble(apart)
    random = np.random.default_rng(n)
    for _ in range(5):
        q, v = random.normal(size=(2, n))
        for ours, theirs in zip(one.terms(0.0, q, v), other.terms(0.0, q, v), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-13)
        p_W, R_W = other.poses(0.0, q, v)
        claw = p_W[5] + R_W[5] @ np.array(p.arm.claw.center)
        assert list(one.outputs(0.0, q, v).values()) == pytest.approx(claw.tolist(), abs=1e-14)


def test_fixed_joints_that_turn_are_not_welded() -> None:
    p = read_parameters()
    joints = arm_joints(p.arm, "", "ground", [f"joint_{number}" for number in range(1, 8)])
    turned = dataclasses.replace(joints[1], kind="fixed", rotation=(Y, (-1.0, 0.0, 0.0), Z))
    assert joints[1].rotation == IDENTITY == (X, Y, Z)
    with pytest.raises(InvalidMechanism, match="'joint_2' rotates or displaces its child"):
        welded(arm_bodies(p.arm, ""), [joints[0], turned, *joints[2:]])
