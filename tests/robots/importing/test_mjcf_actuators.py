"""Actuators of MJCF files: efforts, servos, limits, armature and damping are those of MuJoCo."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable

import mujoco
import numpy as np
import pytest

from armswing import build
from sim_core.errors import InvalidRequest
from sim_core.inverse import inverse_dynamics, mass_matrix
from sim_core.mechanism import Mechanism
from sim_core.system import assemble

Write = Callable[..., str]
ARM = """
<option {option}/>
<default>{default}</default>
<worldbody><body name="b"><joint name="hinge" axis="0 1 0" armature="0.1" damping="0.2" {joint}/>
<geom size="0.1" pos="0.2 0 0"/>
<body name="c"><joint name="slide" type="slide"/><geom size="0.1"/></body></body></worldbody>
<tendon><fixed name="t"><joint joint="hinge" coef="2"/><joint joint="slide" coef="-0.5"/></fixed></tendon>
<actuator>{actuator}</actuator>
"""
pytestmark = pytest.mark.usefixtures("elsewhere")


def content(actuator: str, joint: str = "", default: str = "", option: str = "") -> str:
    return ARM.format(actuator=actuator, joint=joint, default=default, option=option)


def read(file: str) -> tuple[Mechanism, str]:
    """The mechanism of a file, and the warnings about it."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        mechanism = build(file, contacts="ignore")
    return mechanism, "\n".join(str(each.message) for each in caught)


@pytest.mark.parametrize(
    ("actuator", "default"),
    [
        ('<position joint="hinge" kp="50" kv="3"/>', ""),
        ('<position joint="hinge" kp="50" kv="3" gear="4"/>', ""),
        ('<general joint="hinge" gainprm="50" biastype="affine" biasprm="0 -50 -3"/>', ""),
        ('<general joint="hinge" gear="-2"/>', '<general gainprm="50" biastype="affine" biasprm="0 -50 -3"/>'),
        ('<general joint="hinge" gear="3" gainprm="7"/>', ""),
        ('<motor joint="hinge" gear="3"/>', ""),
        ('<motor joint="hinge"/>', '<position kp="50"/>'),
    ],
)
def test_an_actuator_has_the_effort_of_mujoco(write_mjcf: Write, actuator: str, default: str) -> None:
    file = write_mjcf(content(actuator, default=default))
    (ours,) = read(file)[0].actuators
    model = mujoco.MjModel.from_xml_path(file)
    data, random = mujoco.MjData(model), np.random.default_rng(1)
    gear = model.actuator_gear[0, 0]
    for q, v, u in random.normal(size=(10, 3)):
        data.qpos[0], data.qvel[0], data.ctrl[0] = q, v, u
        mujoco.mj_forward(model, data)
        if ours.servo is None:
            effort = u * gear * model.actuator_gainprm[0, 0]  # the command, as the warning says
        else:
            effort = ours.servo.stiffness * (u / gear - q) - ours.servo.damping * v
        assert data.qfrc_actuator[0] == pytest.approx(effort, rel=1e-12)


@pytest.mark.parametrize("kind", ["motor", "position", "velocity", "general", "damper"])
def test_armature_and_damping_of_an_actuator_are_at_its_joint(write_mjcf: Write, kind: str) -> None:
    limits = 'ctrlrange="0 1"' if kind == "damper" else ""
    file = write_mjcf(content(f'<{kind} joint="hinge" armature="0.3" damping="0.7" gear="-3" {limits}/>'))
    mechanism, model = read(file)[0], mujoco.MjModel.from_xml_path(file)
    data = mujoco.MjData(model)
    data.qvel[0] = 2.0
    mujoco.mj_forward(model, data)
    M = np.zeros((2, 2))
    mujoco.mj_fullM(model, data, M)
    system, q, v = assemble(mechanism), np.zeros(2), np.array([2.0, 0.0])
    np.testing.assert_allclose(mass_matrix(system, q), M, rtol=1e-12)
    np.testing.assert_allclose(inverse_dynamics(system, q, v, 0 * q), data.qfrc_bias - data.qfrc_passive, atol=1e-12)


@pytest.mark.parametrize(
    ("actuator", "joint", "limit"),
    [
        ('<motor joint="hinge" ctrlrange="-2 2" gear="3"/>', "", 6.0),
        ('<motor joint="hinge" ctrlrange="-2 2" gear="3" forcerange="-1 1"/>', "", 3.0),
        ('<motor joint="hinge" ctrlrange="-2 2" ctrllimited="false"/>', "", None),
        ('<motor joint="hinge"/>', 'actuatorfrcrange="-5 5"', 5.0),
        ('<position joint="hinge" forcerange="-9 9"/>', 'actuatorfrcrange="-5 5"', 5.0),
        ('<motor joint="hinge" ctrlrange="-2 2"/>', 'actuatorfrcrange="-5 5"', 2.0),
        ('<motor joint="hinge"/>', 'actuatorfrcrange="-5 5" actuatorfrclimited="false"', None),
        ('<general joint="hinge" gear="2" gainprm="5" ctrlrange="-1 1"/>', "", 10.0),
    ],
)
def test_limits_of_efforts_are_at_the_joint(write_mjcf: Write, actuator: str, joint: str, limit: float | None) -> None:
    (ours,) = read(write_mjcf(content(actuator, joint)))[0].actuators
    assert ours.effort_limit == limit


@pytest.mark.parametrize(
    ("parts", "line"),
    [
        (
            {"actuator": '<motor joint="hinge" ctrlrange="-1 4"/>'},
            r"line \d+ \(actuator 'hinge'\): ctrlrange is not symmetric; the larger of its bounds limits efforts",
        ),
        (
            {"actuator": '<motor joint="hinge"/>', "joint": 'actuatorfrcrange="-1 2"'},
            r"line \d+ \(joint 'hinge'\): actuatorfrcrange is not symmetric",
        ),
        (
            {
                "actuator": '<motor name="m" joint="hinge"/><motor name="n" joint="hinge"/>',
                "joint": 'actuatorfrcrange="-1 1"',
            },
            r"joint 'hinge'\).*: actuatorfrcrange limits each of the 2 actuators of the joint, not their sum",
        ),
        ({"actuator": '<position joint="hinge" gear="2"/>'}, r"position commands are those of the joint: .* by gear"),
        (
            {"actuator": '<position joint="hinge" ctrlrange="-1 1"/>', "joint": 'range="-90 90"'},
            r"the range of its control \(ctrlrange, inheritrange\) is not read: position commands are limited by",
        ),
        (
            {"actuator": '<position joint="hinge" ctrlrange="-0.5 0.5"/>'},
            r"the range of its control \(ctrlrange, inheritrange\) is not read: position commands are limited by",
        ),
        (
            {"actuator": '<position joint="hinge" timeconst="0.1"/>'},
            r"timeconst \(dynprm\) is not read: commands act without delay",
        ),
        (
            {"actuator": '<general joint="hinge" biastype="affine" biasprm="1 0 0"/>'},
            r"an actuator whose gain .* are not those of a motor or servo is not read",
        ),
        (
            {"actuator": '<velocity joint="hinge"/>'},
            r"an actuator whose gain .* is not read: the robot lacks this actuator",
        ),
        (
            {"actuator": '<motor joint="hinge" group="3"/>', "option": 'actuatorgroupdisable="2 3"'},
            r"the actuator is disabled in <option>, and is not read",
        ),
    ],
)
def test_what_differs_from_mujoco_is_named(write_mjcf: Write, parts: dict[str, str], line: str) -> None:
    said = read(write_mjcf(content(**parts)))[1]
    assert re.search(line, said), said


@pytest.mark.parametrize(
    "actuator",
    [
        '<position joint="hinge" inheritrange="1"/>',
        '<position joint="hinge" ctrlrange="-1.5707963267948966 1.5707963267949"/>',
    ],
)
def test_a_control_range_that_is_the_joints_needs_no_remark(write_mjcf: Write, actuator: str) -> None:
    said = read(write_mjcf(content(actuator, joint='range="-90 90"')))[1]
    assert "(actuator 'hinge')" not in said


@pytest.mark.parametrize(
    ("parts", "line"),
    [
        (
            {"actuator": '<motor tendon="t" armature="1"/>'},
            r"armature and damping are supported only of an actuator that drives a hinge or slide joint",
        ),
        ({"actuator": '<motor joint="hinge" damping="1 2"/>'}, r"actuator 'hinge': .* only damping with one number"),
    ],
)
def test_what_would_change_the_motion_is_refused(write_mjcf: Write, parts: dict[str, str], line: str) -> None:
    with pytest.raises(InvalidRequest, match=line):
        read(write_mjcf(content(**parts)))


FLAGS = """
<option><flag {flag}="disable"/></option>
<worldbody><geom name="floor" type="plane" size="1 1 1"/>
<body name="b" pos="0 0 1"><joint name="hinge" axis="0 1 0" frictionloss="0.3" range="-20 20"/><geom size="0.1"/></body>
<body name="c"><joint name="slide" type="slide"/><joint name="ball" type="ball" range="0 50"/><geom size="0.1"/></body>
</worldbody>
<equality><joint joint1="slide" joint2="hinge"/></equality>
<actuator><motor joint="hinge"/></actuator>
"""


@pytest.mark.parametrize("flag", ["contact", "equality", "limit", "frictionloss", "constraint", "actuation", "gravity"])
def test_a_disabled_flag_switches_off_what_it_does_in_mujoco(write_mjcf: Write, flag: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mechanism = build(write_mjcf(FLAGS.format(flag=flag)))
    hinge, ball = mechanism.joint("hinge"), mechanism.joint("ball")
    has = {
        "contact": bool(mechanism.contacts),
        "equality": bool(mechanism.constraints),
        "limit": hinge.upper is not None and hinge.stops is not None and ball.upper is not None,
        "frictionloss": hinge.friction is not None,
        "actuation": bool(mechanism.actuators),
        "gravity": any(mechanism.gravity),
    }
    off = {"contact", "equality", "limit", "frictionloss"} if flag == "constraint" else {flag}
    assert has == {part: part not in off for part in has}


@pytest.mark.parametrize("moments", ['diaginertia="1 1 5"', 'fullinertia="1 1 5 0 0 0"'])
def test_inertias_are_balanced_as_in_mujoco(write_mjcf: Write, moments: str) -> None:
    file = write_mjcf(
        '<compiler balanceinertia="true"/><worldbody><body name="b"><joint name="x"/>'
        f'<inertial pos="0 0 0" mass="1" {moments}/></body></worldbody>'
    )
    theirs = mujoco.MjModel.from_xml_path(file).body_inertia[1]
    assert build(file).bodies[0].inertia == pytest.approx((*theirs, 0.0, 0.0, 0.0))
