"""Accelerometers, gyroscopes and force-torque sensors: MuJoCo, both coordinate families, closed forms, refusals."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import casadi as ca
import numpy as np
import pytest

from robots.registry import build
from sim_core.errors import InvalidMechanism, UnknownName
from sim_core.inverse import inverse_dynamics
from sim_core.mechanism import (
    AccelerometerOutput,
    Actuator,
    Body,
    Coincidence,
    CustomForce,
    Distance,
    ForceTorqueOutput,
    GyroscopeOutput,
    Joint,
    JointSpring,
    Mechanism,
    SphereContact,
    Spring,
    X,
    Y,
    Z,
)
from sim_core.mechanism.custom_forces import ForcePoint
from sim_core.mechanism.quantities import push_names
from sim_core.simulation import Simulation
from sim_core.system import assemble

QUATERNION, PLACE = (0.5, 0.5, -0.5, 0.5), (0.02, -0.03, 0.05)
SITE = 'pos="0.02 -0.03 0.05" quat="0.5 0.5 -0.5 0.5"'
MODEL = f"""<mujoco model="walker"><compiler angle="radian"/><option gravity="0.5 -1 -9"/><worldbody>
<body name="trunk" pos="0 0 1"><freejoint name="base"/>
<inertial pos="0.01 0.02 0.03" mass="3" diaginertia=".03 .04 .05"/>
<site name="trunk" {SITE}/>
<body name="thigh" pos="0.1 0 -0.1"><joint name="hip" axis="0 1 0" damping="0.2" armature="0.01"/>
<inertial pos="0 0 -0.1" mass="1" diaginertia=".01 .01 .002"/><site name="thigh" {SITE}/>
<body name="shank" pos="0 0 -0.2" quat="0.9 0.1 0.3 0.2"><joint name="knee" type="slide" axis="0 0 1" stiffness="30"/>
<inertial pos="0 0.01 -0.1" mass="0.7" diaginertia=".01 .01 .002"/><site name="shank" {SITE}/></body></body>
<body name="tail" pos="-0.1 0 0"><joint name="root" type="ball" damping="0.1"/>
<inertial pos="-0.1 0 0" mass="0.4" diaginertia=".001 .002 .002"/><site name="tail" {SITE}/></body>
</body></worldbody><actuator><motor name="hip" joint="hip"/><motor name="knee" joint="knee"/></actuator>
<sensor>
%s
</sensor></mujoco>"""
KINDS = {"accelerometer": "a", "gyro": "w", "force": "f", "torque": "t"}
JOINTS = {"trunk": "base", "thigh": "hip", "shank": "knee", "tail": "root"}


def test_sensors_of_a_floating_robot_read_what_those_of_mujoco_read(tmp_path: Path) -> None:
    mujoco = pytest.importorskip("mujoco", reason="mujoco is an oracle of the tests")
    text = MODEL % "\n".join(f'<{kind} name="{kind}_{site}" site="{site}"/>' for kind in KINDS for site in JOINTS)
    (file := tmp_path / "walker.xml").write_text(text)
    mechanism = build(str(file))
    outputs: list[Any] = []
    for body, joint in JOINTS.items():
        outputs += [
            AccelerometerOutput(name=body, body=body, point=PLACE, quaternion=QUATERNION),
            GyroscopeOutput(name=body, body=body, quaternion=QUATERNION),
            ForceTorqueOutput(name=body, joint=joint, point=PLACE, quaternion=QUATERNION),
        ]
    system = assemble(dataclasses.replace(mechanism, outputs=tuple(outputs)))
    model = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(model)
    rng = np.random.default_rng(4)
    for _ in range(20):
        quaternions = rng.normal(size=(2, 4))
        quaternions /= np.linalg.norm(quaternions, axis=1)[:, None]
        q, v, u = rng.normal(size=system.n_q), rng.normal(size=system.n_q), rng.normal(size=2)
        q[3:6] = q[8:11] = 0.0  # rotations within the step
        data.qpos[:] = [*q[:3], *quaternions[0], *q[6:8], *quaternions[1]]
        data.qvel[:], data.ctrl[:] = v, u
        mujoco.mj_forward(model, data)
        found = system.outputs(0.0, q, v, quaternions.ravel(), u)
        for kind, letter in KINDS.items():
            for body in JOINTS:
                theirs = data.sensor(f"{kind}_{body}").data
                ours = [found[f"{body}_{letter}{axis}"] for axis in "xyz"]
                np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-8, err_msg=f"{kind} {body}")


def arm(**changes: Any) -> Mechanism:
    """Two links in the x, z plane with an effort at the shoulder, and all three sensors at the elbow."""
    moments = (0.01, 0.02, 0.03, 0, 0, 0)
    bodies = tuple(
        Body(name=name, mass=mass, inertia=moments, center_of_mass=(0.2, 0.0, 0.0), orientation="euler_parameters")
        for name, mass in (("upper", 2.0), ("lower", 1.0))
    )
    whole = Mechanism(
        name="arm",
        coordinates="joint",
        bodies=bodies,
        joints=(
            Joint(name="shoulder", child="upper", axis=Y, damping=0.3),
            Joint(name="elbow", parent="upper", child="lower", axis=Y, parent_point=(0.4, 0.0, 0.0), damping=0.1),
        ),
        actuators=(Actuator(name="shoulder", joint="shoulder"), Actuator(name="elbow", joint="elbow")),
        outputs=(
            AccelerometerOutput(name="lower", body="lower", point=(0.4, 0.0, 0.0)),
            GyroscopeOutput(name="lower", body="lower"),
            ForceTorqueOutput(name="elbow", joint="elbow"),
            ForceTorqueOutput(name="shoulder", joint="shoulder"),
        ),
        initial_q=(0.0, 0.0),
        initial_v=(0.0, 0.0),
    )
    return dataclasses.replace(whole, **changes)


def test_the_torque_about_a_joint_is_the_effort_of_the_actuator_less_damping() -> None:
    spring = Spring(
        name="coil", body_a="ground", point_a=(0.1, 0.0, 0.5), body_b="lower", point_b=(0.3, 0.0, 0.0),
        stiffness=50.0, rest_length=0.2, damping=2.0,
    )  # fmt: skip
    push = CustomForce(
        name="push",
        law=lambda force: {"tip": ca.vertcat(3.0, 0.0, 2.0 * force.position["elbow"])},
        points=(ForcePoint(name="tip", body="lower", point=(0.4, 0.0, 0.0)),),
    )
    touch = SphereContact(
        name="touch", body="lower", center=(0.4, 0.0, 0.0), radius=0.3, stiffness=200.0, dissipation=0.2, friction=0.5
    )
    rod = Distance(
        name="rod", body_a="ground", point_a=(0.5, 0.0, -0.5), body_b="lower", point_b=(0.4, 0.0, 0.0), length=0.3
    )
    mechanism = arm(springs=(spring,), forces=(push,), contacts=(touch,), constraints=(rod,), open_start=True)
    system = assemble(mechanism)
    rng = np.random.default_rng(2)
    for _ in range(5):
        q, v, u = rng.normal(size=(3, 2))
        found = system.outputs(0.0, q, v, u=u)
        assert found["elbow_ty"] == pytest.approx(u[1] - 0.1 * v[1], abs=1e-9)
        assert found["shoulder_ty"] == pytest.approx(u[0] - 0.3 * v[0], abs=1e-9)


@pytest.mark.parametrize("pushed", ["upper", "lower"])
@pytest.mark.parametrize("rolled", [False, True])
def test_a_push_passes_through_the_joints_that_carry_the_body(pushed: str, rolled: bool) -> None:
    """The torque about the axis is the effort less damping; the joints of an arm that is held take the push."""
    system = assemble(arm(pushable=("upper", "lower")), rolled=rolled)
    force, point = np.array([0.7, -1.1, 2.0]), np.array([0.1, 0.02, -0.05])
    p = system.default_parameters()
    p[[system.parameter_names.index(name) for name in push_names(pushed)]] = [*force, *point]
    rng = np.random.default_rng(3)
    q, v, u = rng.normal(size=(3, 2))
    found = system.outputs(0.0, q, v, u=u, p=p)
    assert found["elbow_ty"] == pytest.approx(u[1] - 0.1 * v[1], abs=1e-12)
    assert found["shoulder_ty"] == pytest.approx(u[0] - 0.3 * v[0], abs=1e-12)
    still = np.zeros(2)
    with_push, without = (
        system.outputs(0.0, q, still, u=inverse_dynamics(system, q, still, still, each), p=each)
        for each in (p, system.default_parameters())
    )
    turned = dict(zip(("upper", "lower"), system.poses(0.0, q, still)[1], strict=True))
    for joint, body in (("shoulder", "upper"), ("elbow", "lower")):
        change = np.array([with_push[f"{joint}_f{axis}"] - without[f"{joint}_f{axis}"] for axis in "xyz"])
        carried = -force if joint == "shoulder" or pushed == "lower" else np.zeros(3)
        np.testing.assert_allclose(turned[body] @ change, carried, atol=1e-12)


def test_absolute_coordinates_give_the_same_readings() -> None:
    both = [arm(), arm(coordinates="absolute")]
    q, v = np.array([0.3, -0.7]), np.array([1.1, 0.4])
    joint = assemble(both[0])
    places, turns = joint.poses(0.0, q, v)
    still = np.array([joint.poses(0.0, q + 1e-6 * v, v)[k] - joint.poses(0.0, q - 1e-6 * v, v)[k] for k in (0,)])[0]
    linear, quaternions = still / 2e-6, [[np.cos(a / 2), 0.0, np.sin(a / 2), 0.0] for a in (q[0], q.sum())]
    rates = [
        0.5 * w * np.array([-np.sin(a / 2), 0.0, np.cos(a / 2), 0.0]) for a, w in ((q[0], v[0]), (q.sum(), v.sum()))
    ]
    start = np.concatenate([np.concatenate([p, e]) for p, e in zip(places, quaternions, strict=True)])
    moving = np.concatenate([np.concatenate([p, e]) for p, e in zip(linear, rates, strict=True)])
    assert turns[1][0, 2] == pytest.approx(np.sin(q.sum()))
    absolute = assemble(dataclasses.replace(both[1], initial_q=tuple(start), initial_v=tuple(moving)))
    u = np.array([0.5, -0.2])
    ours, theirs = joint.outputs(0.0, q, v, u=u), absolute.outputs(0.0, start, moving, u=u)
    assert theirs == pytest.approx(ours, abs=1e-6)


def test_a_scale_reads_the_weight_that_rests_on_it_and_a_closed_loop_shares_it() -> None:
    ball = Body(name="ball", mass=0.5, inertia=(1e-3, 1e-3, 1e-3, 0, 0, 0))
    pan = Body(name="pan", mass=2.0, inertia=(1e-2, 1e-2, 1e-2, 0, 0, 0))
    scale = Mechanism(
        name="scale",
        coordinates="joint",
        bodies=(pan, ball),
        joints=(
            Joint(name="load_cell", kind="fixed", child="pan"),
            Joint(name="drop", kind="prismatic", child="ball", axis=Z, parent_point=(0.1, 0.0, 0.0), damping=20.0),
        ),
        contacts=(SphereContact(name="rest", body="ball", radius=0.02, other="pan", stiffness=1e5),),
        outputs=(ForceTorqueOutput(name="cell", joint="load_cell"), AccelerometerOutput(name="ball", body="ball")),
        initial_q=(0.02,),
        initial_v=(0.0,),
    )
    sim = Simulation(assemble(scale), step_s=1e-3)
    sim.advance(5.0)
    read = sim.outputs()
    state = sim.state.q, sim.state.v
    assert assemble(scale, rolled=True).outputs(0.0, *state) == pytest.approx(read, rel=1e-12, abs=1e-12)
    assert read["cell_fz"] == pytest.approx(2.5 * 9.81, rel=1e-6)
    assert read["cell_ty"] == pytest.approx(-0.1 * 0.5 * 9.81, rel=1e-6)
    assert read["ball_az"] == pytest.approx(9.81, rel=1e-6)
    beam = Mechanism(
        name="beam",
        coordinates="joint",
        bodies=(Body(name="beam", mass=3.0, inertia=(0.1, 0.1, 0.1, 0, 0, 0), center_of_mass=(0.5, 0.0, 0.0)),),
        joints=(Joint(name="hinge", child="beam", axis=Y, spring=JointSpring(stiffness=5.0)),),
        constraints=(
            Coincidence(
                name="end", body_a="beam", point_a=(1.5, 0, 0), body_b="ground", point_b=(1.5, 0, 0), directions=(Z,)
            ),
        ),
        outputs=(ForceTorqueOutput(name="hinge", joint="hinge"),),
        initial_q=(0.0,),
        initial_v=(0.0,),
    )
    read = assemble(beam).outputs(0.0, [0.0], [0.0])
    assert read["hinge_fz"] == pytest.approx(3.0 * 9.81 * (1.0 - 0.5 / 1.5))
    assert [read[f"hinge_{axis}"] for axis in ("fx", "fy", "tx", "ty", "tz")] == pytest.approx([0.0] * 5, abs=1e-12)


def test_a_simulation_publishes_readings_at_the_present_effort_with_their_units() -> None:
    from nodes.framework.simulation.description import output_units

    sim = Simulation(assemble(arm(gravity=(0.0, 0.0, 0.0))), step_s=1e-3)
    sim.set_effort([2.0, 0.5])
    sim.advance(0.1)
    read = sim.outputs()
    assert read["shoulder_ty"] == pytest.approx(2.0 - 0.3 * sim.state.v[0], abs=1e-9)
    assert read["lower_wy"] == pytest.approx(sum(sim.state.v))
    units = dict(zip(read, output_units(sim.system.mechanism, [*read]), strict=True))
    assert (units["lower_ax"], units["lower_wy"], units["elbow_fx"], units["elbow_ty"]) == ("m/s2", "rad/s", "N", "N m")


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "joint": ({"outputs": (ForceTorqueOutput(name="wrist", joint="wrist"),)}, "has no joint 'wrist'"),
    "body": ({"outputs": (GyroscopeOutput(name="hand", body="hand"),)}, "has no body 'hand'"),
    "axes": (
        {"outputs": (GyroscopeOutput(name="tilt", body="lower", quaternion=(1, 1, 0, 0)),)},
        "its norm must be 1",
    ),
    "loop": (
        {
            "coordinates": "absolute",
            "joints": (*arm().joints, Joint(name="tip", child="lower", axis=X, damping=0.1)),
            "initial_q": (0.0,) * 14,
            "initial_v": (0.0,) * 14,
        },
        "the load that it carries also passes through joint 'tip', which is not passive",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_sensor_that_cannot_be_computed_is_refused_in_one_line(case: str) -> None:
    change, said = REFUSED[case]
    with pytest.raises((InvalidMechanism, UnknownName), match=said) as refused:
        assemble(arm(**change))
    assert "\n" not in str(refused.value)
