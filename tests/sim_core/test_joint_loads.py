"""Newton-Euler body by body beside the compiled kernels, and beside each subtree's momentum in the world."""

from __future__ import annotations

import numpy as np
import pytest

from robots.registry import build
from sim_core.errors import InvalidMechanism
from sim_core.inverse import forward_kinematics, inverse_dynamics
from sim_core.joint_loads import Acting, efforts, joint_loads, motions, number, postures, reaction
from sim_core.mechanism import Body, Joint, Mechanism, Y, Z
from sim_core.spatial import rotation_about
from sim_core.system import assemble
from tests.sim_core import reference

OBLIQUE = (2 / 3, 1 / 3, 2 / 3)
TURNED = tuple(tuple(row) for row in rotation_about(OBLIQUE, 0.7).tolist())


def cart_and_arm() -> Mechanism:
    """A planar base, a slanted slide with a turned child, a fixed plate, an oblique hinge away from the origin."""
    inertia = (0.06, 0.05, 0.03, 0.01, -0.005, 0.002)
    bodies = tuple(
        Body(name=name, mass=mass, inertia=inertia, center_of_mass=(0.1, -0.03, 0.05))
        for name, mass in (("cart", 4.0), ("slide", 1.0), ("plate", 0.7), ("arm", 1.5))
    )
    turned = {"rotation": TURNED, "child_point": (0.0, 0.02, -0.1)}
    joints = (
        Joint(name="drive", kind="planar", child="cart", axis=Z, child_point=(0.0, 0.1, 0.0)),
        Joint(name="slide", kind="prismatic", parent="cart", child="slide", axis=OBLIQUE, **turned),  # type: ignore[arg-type]
        Joint(name="weld", kind="fixed", parent="slide", child="plate", parent_point=(0.0, 0.3, 0.0), **turned),  # type: ignore[arg-type]
        Joint(name="hinge", parent="plate", child="arm", axis=Y, parent_point=(0.2, 0.0, 0.1), **turned),  # type: ignore[arg-type]
    )
    return Mechanism(
        name="cart_and_arm",
        coordinates="joint",
        bodies=bodies,
        joints=joints,
        initial_q=(0.0,) * 5,
        initial_v=(0.0,) * 5,
    )


TREES = {"cart_and_arm": cart_and_arm} | {
    name: (lambda name=name: build(name, limits="none")) for name in ("arm_2dof", "arm_4dof", "arm_6dof", "charmie")
}


@pytest.mark.parametrize("name", TREES)
def test_postures_and_efforts_are_those_of_the_kernels(name: str) -> None:
    mechanism = TREES[name]()
    system, random = assemble(mechanism), np.random.default_rng(3)
    for _ in range(20):
        q, v, a = random.normal(size=(3, system.n_q))
        at = postures(mechanism, q)
        for body, (p, R) in forward_kinematics(system, q).items():
            np.testing.assert_allclose(at[body].p_WO, p, atol=1e-13)
            np.testing.assert_allclose(at[body].R_WB, R, atol=1e-13)
        moving = motions(mechanism, at, v, a)
        tau = inverse_dynamics(system, q, v, a)
        np.testing.assert_allclose(
            efforts(moving, joint_loads(mechanism, moving)), tau, rtol=0, atol=1e-12 * np.abs(tau).max()
        )


def subtree(mechanism: Mechanism, name: str) -> set[str]:
    found = {name}
    for joint in mechanism.joints:
        if joint.parent in found:
            found.add(joint.child)
    return found


@pytest.mark.parametrize("name", ["cart_and_arm", "charmie"])
def test_every_joint_carries_the_change_of_momentum_of_all_behind_it(name: str) -> None:
    """In the world, with the accelerations of the slow reference, which knows no recursion of forces."""
    mechanism = TREES[name]()
    n = len(mechanism.initial_q)
    q, v, a = np.random.default_rng(4).normal(size=(3, n))
    axes = [reference.frames_along(mechanism, q, e) for e in np.eye(n)]
    along = reference.frames_along(mechanism, q, v)
    forces, moments = {}, {}
    for body in mechanism.bodies:
        here, C, inertia = along[body.name], body.center_of_mass, reference._inertia(body)
        a_C = here.point(C).dd + sum(f[body.name].point(C).d * x for f, x in zip(axes, a, strict=True))
        w = here.angular_velocity()
        dw = here.angular_acceleration() + sum(
            f[body.name].angular_velocity() * x for f, x in zip(axes, a, strict=True)
        )
        forces[body.name] = number(body.mass) * (a_C - np.array(mechanism.gravity))
        moments[body.name] = here.R.x @ (inertia @ dw + np.cross(w, inertia @ w))
    moving = motions(mechanism, postures(mechanism, q), v, a)
    for name, load in joint_loads(mechanism, moving).items():
        at, behind = moving[name].posture, [mechanism.body(each) for each in subtree(mechanism, name)]
        force = sum(forces[body.name] for body in behind)
        arms = {body.name: along[body.name].point(body.center_of_mass).x - at.p_WA for body in behind}
        moment = sum(moments[body.name] + np.cross(arms[body.name], forces[body.name]) for body in behind)
        np.testing.assert_allclose(at.R_WB @ load.force, force, atol=1e-10)
        np.testing.assert_allclose(at.R_WB @ load.torque, moment, atol=1e-10)


def test_what_acts_on_a_body_is_taken_off_its_joint_and_those_before_it() -> None:
    mechanism = build("arm_6dof")
    q = np.array([0.4, -0.3, 0.2, 0.5, -0.1, 0.3])
    moving = motions(mechanism, postures(mechanism, q), np.zeros(6), np.zeros(6))
    forearm = moving["link_10"].posture
    push = Acting(np.array([0.0, 0.0, 0.1]), forearm.R_WB.T @ np.array([0.0, 7.0, 0.0]), np.zeros(3))
    free = joint_loads(mechanism, moving)
    pushed = joint_loads(mechanism, moving, {"link_10": [push]})
    at = forearm.p_WO + forearm.R_WB @ push.point
    for name, load in free.items():
        posture = moving[name].posture
        behind = name in ("link_11", "link_12")
        force = np.zeros(3) if behind else np.array([0.0, 7.0, 0.0])
        np.testing.assert_allclose(posture.R_WB @ (load.force - pushed[name].force), force, atol=1e-12)
        moment = np.cross(at - posture.p_WA, force)
        np.testing.assert_allclose(posture.R_WB @ (load.torque - pushed[name].torque), moment, atol=1e-12)


def test_parts_of_the_tree_are_worked_out_alone_and_absolute_coordinates_are_refused() -> None:
    mechanism = build("charmie")
    n = len(mechanism.initial_q)
    moving = motions(mechanism, postures(mechanism, np.zeros(n)), np.zeros(n), np.zeros(n))
    trunk = [f"link_{number}" for number in range(1, 6)]
    whole = joint_loads(mechanism, moving)
    behind = joint_loads(mechanism, moving, only=[body.name for body in mechanism.bodies if body.name not in trunk])
    assert set(whole) - set(behind) == set(trunk)
    mounts = [reaction(moving[f"link_6{branch}"], behind[f"link_6{branch}"]) for branch in "abc"]
    joined = behind | joint_loads(mechanism, moving, {"link_5": mounts}, only=trunk)
    for name, load in whole.items():
        np.testing.assert_allclose(joined[name].force, load.force, atol=1e-12)
        np.testing.assert_allclose(joined[name].torque, load.torque, atol=1e-12)
    with pytest.raises(InvalidMechanism, match="is not in joint coordinates, which joint loads need"):
        postures(build("triple_pendulum"), np.zeros(9))
