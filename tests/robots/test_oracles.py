"""Our equations beside engines that share no code with them."""

from __future__ import annotations

import numpy as np
import pytest

from robots.registry import build
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


def test_the_triple_pendulum_moves_as_in_exudyn() -> None:
    """Both in redundant coordinates; Exudyn's generalized-alpha at 0.1 ms, half a second."""
    exu = pytest.importorskip("exudyn")
    item = pytest.importorskip("exudyn.itemInterface")
    length, mass = 0.3, 0.25
    mbs = exu.SystemContainer().AddSystem()
    ground = mbs.AddObject(item.ObjectGround())
    before = mbs.AddMarker(item.MarkerBodyRigid(bodyNumber=ground, localPosition=[0, 0, 0]))
    for k in range(3):
        node = mbs.AddNode(item.NodeRigidBody2D(referenceCoordinates=[length / 2 + k * length, 0.0, 0.0]))
        body = mbs.AddObject(item.ObjectRigidBody2D(mass=mass, inertia=mass * length**2 / 12, nodeNumber=node))
        mbs.AddLoad(
            item.LoadMassProportional(
                markerNumber=mbs.AddMarker(item.MarkerBodyMass(bodyNumber=body)), loadVector=[0, -9.81, 0]
            )
        )
        left, right = (
            mbs.AddMarker(item.MarkerBodyRigid(bodyNumber=body, localPosition=[sign * length / 2, 0, 0]))
            for sign in (-1, 1)
        )
        mbs.AddObject(item.ObjectJointRevolute2D(markerNumbers=[before, left]))
        before = right
    mbs.Assemble()
    settings = exu.SimulationSettings()
    settings.timeIntegration.numberOfSteps, settings.timeIntegration.endTime = 5000, 0.5
    settings.timeIntegration.verboseMode = 0
    settings.solution.file.write = False
    mbs.SolveDynamic(settings)
    tip = mbs.GetMarkerOutput(before, exu.OutputVariableType.Position)
    sim = Simulation(assemble(build("triple_pendulum")), step_s=5e-4)
    sim.advance(0.5)
    outputs = sim.outputs()
    np.testing.assert_allclose([outputs["tip_x"], outputs["tip_y"]], tip[:2], atol=1e-4)
