"""Our equations beside engines that share no code with them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from robots.registry import build
from sim_core.identification.regressor import Regressor
from sim_core.identification.rigid_tree import rigid_tree
from sim_core.mechanism import Mechanism, Tunable
from sim_core.simulation import Simulation
from sim_core.system import assemble


def pinocchio_model(mechanism: Mechanism):  # type: ignore[no-untyped-def]
    """A tree of revolute joints in pinocchio: joint frames sit at the joint's point, with the child's axes."""
    pin = pytest.importorskip("pinocchio", exc_type=ImportError)  # its wheel needs the system's libgomp.so.1
    model = pin.Model()
    model.gravity.linear = np.array(mechanism.gravity)
    index = {"ground": (0, np.zeros(3))}
    for joint in mechanism.joints:
        body, (parent, parent_shift) = mechanism.body(joint.child), index[joint.parent]
        R, axis = np.array(joint.rotation), np.array(joint.rotation).T @ np.array(joint.axis)
        placement = pin.SE3(R, np.array(joint.parent_point) - parent_shift)
        number = model.addJoint(parent, pin.JointModelRevoluteUnaligned(axis), placement, joint.name)
        xx, yy, zz, xy, xz, yz = (x.value if isinstance(x, Tunable) else x for x in body.inertia)
        center = np.array(body.center_of_mass) - np.array(joint.child_point)
        tensor = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
        mass = body.mass.value if isinstance(body.mass, Tunable) else body.mass
        model.appendBodyToJoint(number, pin.Inertia(mass, center, tensor), pin.SE3.Identity())
        index[joint.child] = (number, np.array(joint.child_point))
    return pin, model


@pytest.mark.parametrize("name", ["triple_pendulum", "rotary_pendulum"])
def test_joint_coordinates_agree_with_pinocchio(name: str) -> None:
    mechanism = build(name, coordinates="joint")
    pin, model = pinocchio_model(mechanism)
    system, data = assemble(mechanism), model.createData()
    random = np.random.default_rng(1)
    for _ in range(200):
        q, v, a = (random.normal(size=system.n_q) for _ in range(3))
        M, f, _, _ = system.terms(0.0, q, v)
        full = pin.crba(model, data, q)
        full = np.triu(full) + np.triu(full, 1).T
        scale = np.abs(full).max()
        np.testing.assert_allclose(M, full, atol=1e-12 * scale)
        tau = pin.rnea(model, data, q, v, a)
        np.testing.assert_allclose(M @ a - f, tau, atol=1e-11 * max(np.abs(tau).max(), scale))
        np.testing.assert_allclose(
            system.acceleration(0.0, q, v)[0], pin.aba(model, data, q, v, np.zeros(system.n_q)), rtol=1e-9, atol=1e-9
        )


def test_a_regressor_agrees_with_pinocchio() -> None:
    arm = build("arm_6dof")
    mechanism = rigid_tree(arm, [joint.name for joint in arm.moving_joints])
    pin, model = pinocchio_model(mechanism)
    regressor, data = Regressor(mechanism), model.createData()
    order = [0, 1, 2, 3, 4, 6, 9, 5, 7, 8]  # pinocchio has Ixx, Ixy, Iyy, Ixz, Iyz, Izz
    q, v, a = np.random.default_rng(3).normal(size=(3, 5, 6))
    for Y, *state in zip(regressor(q, v, a), q, v, a, strict=True):
        theirs = pin.computeJointTorqueRegressor(model, data, *state).reshape(6, 6, 10)[:, :, order].reshape(6, 60)
        np.testing.assert_allclose(Y, theirs, atol=1e-11 * np.abs(theirs).max())


MJCF = """
<mujoco>
  <compiler angle="radian"/>
  <option gravity="0 -9.81 0" timestep="0.0005" integrator="RK4"><flag contact="disable"/></option>
  <worldbody>
    <body name="a"><joint axis="0 0 1"/><inertial pos="0.15 0 0" mass="0.25" diaginertia="{J} {J} {J}"/>
      <body name="b" pos="0.3 0 0"><joint axis="0 0 1"/><inertial pos="0.15 0 0" mass="0.25" diaginertia="{J} {J} {J}"/>
        <body name="c" pos="0.3 0 0"><joint axis="0 0 1"/>
          <inertial pos="0.15 0 0" mass="0.25" diaginertia="{J} {J} {J}"/>
        </body></body></body>
  </worldbody>
</mujoco>
"""


def test_the_triple_pendulum_moves_as_in_mujoco() -> None:
    """Redundant coordinates and sampled fuzzy stabilization here, joint coordinates there, one second."""
    mujoco = pytest.importorskip("mujoco")
    model = mujoco.MjModel.from_xml_string(MJCF.replace("{J}", str(0.25 * 0.3**2 / 12)))
    data = mujoco.MjData(model)
    sim = Simulation(assemble(build("triple_pendulum")), step_s=5e-4)
    for _ in range(10):
        for _ in range(200):
            mujoco.mj_step(model, data)
        sim.advance(0.1)
        np.testing.assert_allclose(sim.joints()[0], data.qpos, atol=2e-6)


def positions_in_exudyn(mechanism: Mechanism, seconds: float, steps: int) -> np.ndarray:
    """x, y, angle (n, 3) of the bodies at the end: Exudyn's redundant coordinates and generalized-alpha.

    Bodies in the plane whose frames are their centres of mass, revolute joints, springs; a load from the ground only.
    """
    exu = pytest.importorskip("exudyn", exc_type=ImportError)  # its wheel needs the system's libGL.so.1
    item = pytest.importorskip("exudyn.itemInterface")
    mbs = exu.SystemContainer().AddSystem()
    ends = {"ground": mbs.AddObject(item.ObjectGround())}
    nodes = []
    starts = np.array(mechanism.initial_q).reshape(-1, 3), np.array(mechanism.initial_v).reshape(-1, 3)
    for body, q, v in zip(mechanism.bodies, *starts, strict=True):
        node = item.NodeRigidBody2D(referenceCoordinates=q.tolist(), initialVelocities=v.tolist())
        nodes.append(mbs.AddNode(node))
        rigid = item.ObjectRigidBody2D(mass=body.mass, inertia=body.inertia[2], nodeNumber=nodes[-1])
        ends[body.name] = mbs.AddObject(rigid)
        center = mbs.AddMarker(item.MarkerBodyMass(bodyNumber=ends[body.name]))
        mbs.AddLoad(item.LoadMassProportional(markerNumber=center, loadVector=list(mechanism.gravity)))

    def marker(body: str, point: tuple[float, float, float]) -> Any:
        return mbs.AddMarker(item.MarkerBodyRigid(bodyNumber=ends[body], localPosition=list(point)))

    for joint in mechanism.joints:
        pair = [marker(joint.parent, joint.parent_point), marker(joint.child, joint.child_point)]
        mbs.AddObject(item.ObjectJointRevolute2D(markerNumbers=pair))
        if joint.load:
            mbs.AddLoad(item.LoadTorqueVector(markerNumber=pair[1], loadVector=[0, 0, joint.load]))
    for spring in mechanism.springs:
        pair = [marker(spring.body_a, spring.point_a), marker(spring.body_b, spring.point_b)]
        numbers = {"stiffness": spring.stiffness, "damping": spring.damping, "referenceLength": spring.rest_length}
        mbs.AddObject(item.ObjectConnectorSpringDamper(markerNumbers=pair, **numbers))
    mbs.Assemble()
    settings = exu.SimulationSettings()
    settings.timeIntegration.numberOfSteps, settings.timeIntegration.endTime = steps, seconds
    settings.timeIntegration.verboseMode = 0
    settings.solution.file.write = False
    mbs.SolveDynamic(settings)
    moved = [mbs.GetNodeOutput(node, exu.OutputVariableType.Coordinates) for node in nodes]
    return starts[0] + np.array(moved)


@pytest.mark.parametrize(
    ("name", "seconds", "exudyn_steps", "step_s", "allowed"),
    [("triple_pendulum", 0.5, 5000, 5e-4, 1e-5), ("andrews_squeezer", 0.03, 30000, 1e-5, 1e-5)],
)
def test_planar_mechanisms_move_as_in_exudyn(
    name: str, seconds: float, exudyn_steps: int, step_s: float, allowed: float
) -> None:
    mechanism = build(name)
    theirs = positions_in_exudyn(mechanism, seconds, exudyn_steps)
    sim = Simulation(assemble(mechanism), step_s=step_s)
    sim.advance(seconds)
    np.testing.assert_allclose(sim.state.q.reshape(-1, 3), theirs, atol=allowed)
    assert np.abs(theirs[:, 2] - np.array(mechanism.initial_q).reshape(-1, 3)[:, 2]).max() > 1.0
