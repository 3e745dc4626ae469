"""Tendons, compensation of gravity, inertias of meshes and sensors of MJCF files are those of MuJoCo."""

from __future__ import annotations

import dataclasses
import re
import warnings
from collections.abc import Callable
from pathlib import Path

import mujoco
import numpy as np
import pytest

from armswing import build
from robots.export import export
from sim_core.errors import DescriptionWarning, InvalidRequest
from sim_core.inverse import inverse_dynamics
from sim_core.mechanism import Distance, Mechanism
from sim_core.simulation import Simulation
from sim_core.system import assemble
from tests.robots.importing.test_mjcf_import import qpos_of, worst_miss

Write = Callable[..., str]
RELATIVE = 1e-9
ARM = """
<worldbody>
  <site name="post" pos="0.1 0.3 1.2"/>
  <body name="a" pos="0 0 1"{first}><joint name="j" axis="0 1 0"/>
    <geom type="capsule" size="0.04" fromto="0 0 0 0.4 0 0"/>
    <site name="end" pos="0.4 0.02 0.05"/><site name="middle" pos="0.2 0 0.1"/>
    <body name="b" pos="0.4 0 0" gravcomp="{share}"><joint name="k" axis="0.2 1 0"/><geom size="0.1" pos="0.3 0 0"/>
      <site name="tip" pos="0.3 0 0.1"/></body></body>
  <body name="c" pos="1 1 1"><freejoint name="f"/><geom type="box" size="0.1 0.2 0.3"/><site name="on" pos="0.1 0 0"/>
  </body>
</worldbody>
{after}
"""
SITES = "".join(f'<site site="{name}"/>' for name in ("post", "end", "tip", "on"))
PULLED = '<site site="post"/><site site="end"/><pulley divisor="2"/><site site="post"/><site site="tip"/>'
PULLED += '<pulley divisor="3"/><site site="tip"/><site site="on"/>'
LAW = 'stiffness="30 4 7" springlength="{rest}" damping="2 0.5 0.3"'
TENDONS = {
    "a spring between two points": '<spatial stiffness="30" damping="2"><site site="end"/><site site="on"/></spatial>',
    "a path of many points": f"<spatial {LAW.format(rest='0.8')}>{SITES}</spatial>",
    "a slack path": f"<spatial {LAW.format(rest='0 1.4')}>{SITES}</spatial>",
    "pulleys": f"<spatial {LAW.format(rest='0.3 0.4')}>{PULLED}</spatial>",
    "a sum of joints": f'<fixed {LAW.format(rest="-0.2 0.3")}><joint joint="j" coef="0.7"/><joint joint="k" coef="-2"/>'
    "</fixed>",
}

pytestmark = [
    pytest.mark.filterwarnings("ignore::sim_core.errors.DescriptionWarning"),
    pytest.mark.usefixtures("elsewhere"),
]


def arm(after: str = "", share: float = 0.0, first: str = "") -> str:
    return ARM.format(after=after, share=share, first=first)


@pytest.mark.parametrize("kind", TENDONS)
def test_a_tendon_has_the_force_of_mujoco(kind: str, write_mjcf: Write) -> None:
    assert worst_miss(write_mjcf(arm(f"<tendon>{TENDONS[kind]}</tendon>")), 20) < RELATIVE


@pytest.mark.parametrize(
    "tendon",
    [
        '<fixed frictionloss="1.5"><joint joint="j" coef="0.7"/><joint joint="k" coef="-2"/></fixed>',
        f'<spatial frictionloss="1.5">{SITES}</spatial>',
    ],
    ids=["fixed", "spatial"],
)
def test_the_dry_friction_of_a_tendon_that_slides_is_that_of_mujoco(tendon: str, write_mjcf: Write) -> None:
    path = write_mjcf(arm(f"<tendon>{tendon}</tendon>"))
    with pytest.warns(DescriptionWarning, match="frictionloss is smooth at speeds below .*: a loaded tendon creeps"):
        rubbing = build(path, contacts="ignore")
    systems = [assemble(mechanism) for mechanism in (rubbing, build(path, contacts="ignore", friction="ignore"))]
    model = mujoco.MjModel.from_xml_path(path)
    model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONTACT)
    data, moving, random, slides = mujoco.MjData(model), [*rubbing.joints], np.random.default_rng(6), 0
    for q, v in random.normal(scale=(1.0, 4.0), size=(60, 8, 2)).transpose(0, 2, 1):
        q[-3:], e = 0.0, random.normal(size=4)
        p = e / np.linalg.norm(e)
        data.qpos[:], data.qvel[:] = qpos_of(moving, q, p), v
        mujoco.mj_forward(model, data)
        if abs(data.ten_velocity[0]) < 20.0 * rubbing.forces[0].law.pull.smoothing:  # type: ignore[attr-defined]
            continue
        slides += 1
        of_friction = np.subtract(*[-inverse_dynamics(system, q, v, 0.0 * v, p) for system in systems])
        np.testing.assert_allclose(of_friction, data.qfrc_constraint, atol=1e-8)
    assert slides > 10


def test_a_spring_between_two_points_is_written_and_read_again(write_mjcf: Write, tmp_path: Path) -> None:
    tendon = (
        '<spatial name="s" stiffness="30" damping="2" springlength="0.4"><site site="end"/><site site="on"/></spatial>'
    )
    mechanism = build(write_mjcf(arm(f"<tendon>{tendon}</tendon>")), contacts="ignore")
    (tmp_path / "again.xml").write_text(export(mechanism, "mjcf").text)
    assert build(str(tmp_path / "again.xml"), contacts="ignore").springs == mechanism.springs


def test_gravity_is_compensated_as_in_mujoco(write_mjcf: Write) -> None:
    assert worst_miss(write_mjcf(arm(share=0.8, first=' gravcomp="1.5"')), 20) < RELATIVE


@pytest.mark.parametrize(
    "tendon",
    [
        '<fixed name="t" range="-0.1 0.2"><joint joint="j" coef="1"/><joint joint="k" coef="-1"/></fixed>',
        '<spatial name="t" range="0 0.7"><site site="post"/><site site="tip"/></spatial>',
    ],
    ids=["fixed", "spatial"],
)
def test_the_limits_of_a_tendon_stop_it(tendon: str, write_mjcf: Write) -> None:
    file = write_mjcf(arm(f"<tendon>{tendon}</tendon>"))
    limited, free = (build(file, contacts="ignore", limits=limits) for limits in ("compliant", "none"))
    model = mujoco.MjModel.from_xml_path(file)
    upper, far = model.tendon_range[0, 1], []
    for mechanism in (limited, free):
        sim, data, longest = Simulation(assemble(mechanism), step_s=1e-3), mujoco.MjData(model), 0.0
        for _ in range(60):
            sim.advance(0.02)
            data.qpos[:2] = sim.state.q[:2]
            mujoco.mj_forward(model, data)
            longest = max(longest, data.ten_length[0])
        far.append(longest - upper)
    assert far[0] < 0.12
    assert far[1] > 0.25


def test_a_motor_pulls_its_tendon_as_in_mujoco(write_mjcf: Write) -> None:
    motor = '<actuator><motor name="m" tendon="t" gear="3"/></actuator>'
    file = write_mjcf(arm(f'<tendon><spatial name="t">{SITES}</spatial></tendon>{motor}'))
    mechanism, model = build(file, contacts="ignore"), mujoco.MjModel.from_xml_path(file)
    (motor,) = mechanism.actuators
    assert (motor.name, motor.joint, motor.unit) == ("m", "", "N")
    sim = Simulation(assemble(mechanism), step_s=1e-3)
    sim.set_effort({"m": 6.0})
    model.opt.timestep, model.opt.integrator = 1e-3, mujoco.mjtIntegrator.mjINT_RK4
    model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONTACT)
    data = mujoco.MjData(model)
    data.ctrl[0] = 2.0
    mujoco.mj_step(model, data, 200)
    sim.advance(0.2)
    np.testing.assert_allclose(sim.state.v, data.qvel, atol=1e-7)


def test_tendons_without_a_name_have_different_ones(write_mjcf: Write) -> None:
    each = '<fixed {} stiffness="1"><joint joint="j" coef="1"/></fixed>'
    tendons = "".join(each.format(name) for name in ("", 'name="tendon1"', ""))
    mechanism = build(write_mjcf(arm(f"<tendon>{tendons}</tendon>")), contacts="ignore")
    assert [force.name for force in mechanism.forces] == ["tendon2", "tendon1", "tendon3"]


def test_a_straight_tendon_of_constant_length_is_a_distance(write_mjcf: Write) -> None:
    tendon = '<spatial name="rod"><site site="end"/><site site="on"/></spatial>'
    after = f'<tendon>{tendon}</tendon><equality><tendon name="held" tendon1="rod" polycoef="0.1 0 0 0 0"/></equality>'
    file = write_mjcf(arm(after))
    (held,) = build(file, contacts="ignore").constraints
    assert isinstance(held, Distance)
    assert held.length == pytest.approx(mujoco.MjModel.from_xml_path(file).tendon_length0[0] + 0.1)


def test_what_a_tendon_cannot_have_is_refused_at_once_and_left_out_on_request(write_mjcf: Write) -> None:
    wrapped = '<spatial name="w" stiffness="1"><site site="post"/><geom geom="ball"/><site site="on"/></spatial>'
    tendons = f'{wrapped}<fixed name="h" armature="1"><joint joint="j" coef="1"/></fixed>'
    ball = '<worldbody><geom name="ball" size="0.1" pos="0.5 0.5 1"/></worldbody>'
    file = write_mjcf(arm(f"{ball}<tendon>{tendons}</tendon>"))
    with pytest.raises(InvalidRequest, match=r"2 errors: .*tendon 'w': it wraps around geoms .*tendon 'h': it has arm"):
        build(file)
    assert build(file, ignore="tendon", contacts="ignore").forces == ()


MESH = '<mesh name="m" vertex="0 0 0 0.3 0 0 0 0.2 0 0 0 0.4 0.3 0.2 0.1"/>'
MADE = f"""
<asset>{MESH}</asset>
<worldbody>
  <frame pos="0.1 0.2 0.3" euler="10 20 30"><body name="a"><joint name="j" axis="0 1 0"/><geom type="mesh" mesh="m"/>
    <body name="b"><joint name="k"/><geom type="capsule" mesh="m"/></body></body></frame>
  <replicate count="2" offset="1 0 0" euler="0 0 30"><body name="r"><joint name="q" axis="1 0 0" springdamper="0.1 1"/>
    <geom size="0.1" pos="0 0.2 0"/></body></replicate>
  <body name="shell"><freejoint align="true"/>
    <geom type="box" size="0.1 0.2 0.3" pos="0.1 0 0" shellinertia="true"/></body>
</worldbody>
"""


def test_meshes_frames_copies_and_aligned_bodies_are_those_of_mujoco(write_mjcf: Write) -> None:
    assert worst_miss(write_mjcf(MADE), 20) < RELATIVE


def test_a_damping_ratio_becomes_the_damping_that_mujoco_computes(write_mjcf: Write) -> None:
    file = write_mjcf(arm('<actuator><position joint="k" kp="40" dampratio="0.7"/></actuator>'))
    (ours,) = build(file, contacts="ignore").actuators
    assert ours.servo is not None
    assert ours.servo.damping == pytest.approx(-mujoco.MjModel.from_xml_path(file).actuator_biasprm[0, 2])


def test_accelerometers_gyroscopes_and_positions_read_as_in_mujoco(write_mjcf: Write) -> None:
    sensors = "".join(f'<{tag} name="{tag}" {of}/>' for tag, of in {
        "accelerometer": 'site="tip"', "gyro": 'site="tip"', "framepos": 'objtype="site" objname="tip"',
        "framelinvel": 'objtype="body" objname="b"', "jointpos": 'joint="j"', "touch": 'site="tip"',
    }.items())  # fmt: skip
    file = write_mjcf(arm(f"<sensor>{sensors}</sensor>"))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        mechanism = build(file, contacts="ignore")
    said = "\n".join(str(each.message) for each in caught)
    assert "a sensor of the kind touch is not read: the robot lacks this sensor" in said
    assert "jointpos" not in said
    model = mujoco.MjModel.from_xml_path(file)
    model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONTACT)
    data = mujoco.MjData(model)
    data.qvel[:] = np.arange(1.0, 9.0)
    mujoco.mj_forward(model, data)
    sim = Simulation(assemble(dataclasses.replace(mechanism, initial_v=tuple(data.qvel.tolist()))))
    ours = sim.outputs()
    ends = {"accelerometer": "ax ay az", "gyro": "wx wy wz", "framepos": "x y z", "framelinvel": "vx vy vz"}
    for name, axes in ends.items():
        found = [ours[f"{name}_{axis}"] for axis in axes.split()]
        np.testing.assert_allclose(found, data.sensor(name).data, rtol=1e-9, atol=1e-9)


# ---- meshes of strangers' folders


def with_mesh(file: str, geom: str, inertial: str = "") -> str:
    return f"""<asset><mesh name="m" file="{file}"/></asset><worldbody><body name="b"><joint name="j"/>
<geom size="0.1"/>{inertial}<geom name="g" type="mesh" mesh="m" {geom}/></body></worldbody>"""


SEEN = 'contype="0" conaffinity="0" mass="0"'
INERTIAL = '<inertial pos="0 0 0.1" mass="1" diaginertia="0.1 0.1 0.1"/>'


def made_with(file: str) -> tuple[Mechanism, str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        mechanism = build(file)
    return mechanism, "\n".join(str(each.message) for each in caught)


@pytest.mark.parametrize(("geom", "inertial"), [(SEEN, ""), ("", INERTIAL)], ids=["seen", "with an inertial"])
@pytest.mark.parametrize("name", ["none.stl", "broken.stl"])
def test_a_mesh_that_does_not_change_the_motion_may_be_missing_or_broken(
    name: str, geom: str, inertial: str, write_mjcf: Write, tmp_path: Path
) -> None:
    (tmp_path / "broken.stl").write_text("solid\n")
    mechanism, said = made_with(write_mjcf(with_mesh(name, geom, inertial)))
    assert re.search(rf"line 2 \(mesh 'm'\): .*'{name}'.*: its geoms are neither drawn nor touch", said), said
    assert mechanism.bodies[0].mass > 0.5


def test_a_missing_mesh_that_gives_a_body_its_mass_is_refused(write_mjcf: Write) -> None:
    with pytest.raises(
        InvalidRequest, match=r"geom 'g': there is no file 'none.stl', from which the body has its mass"
    ):
        build(write_mjcf(with_mesh("none.stl", "")))


# ---- files that are made to take time or memory


BODY = '<body name="b"><joint axis="0 1 0"/><geom size="0.1" pos="0.3 0 0"/></body>'
BOMBS = {
    "copies": (f'<worldbody><replicate count="100000000">{BODY}</replicate></worldbody>', "<replicate>: it makes"),
    "copies of copies": (
        "<worldbody>" + '<replicate count="1000">' * 5 + BODY + "</replicate>" * 5 + "</worldbody>",
        "<replicate>: it makes",
    ),
    "cable": (f'<worldbody>{BODY}<composite type="cable" count="1000000 1 1"/></worldbody>', "<composite>: it makes"),
    "cloth": (f'<worldbody>{BODY}<flexcomp name="f" count="1000 1000 9"/></worldbody>', "<flexcomp>: it makes"),
    "numbers": (f'<custom><numeric name="n" size="2000000000"/></custom><worldbody>{BODY}</worldbody>', "<numeric>"),
    "field": (f'<asset><hfield name="h" nrow="99999" ncol="99999"/></asset><worldbody>{BODY}</worldbody>', "<hfield>"),
    "bodies": (f"<worldbody>{'<body/>' * 9000}</worldbody>", "the file has 9000 bodies"),
    "no mesh": (
        f'<asset><mesh name="m" file="/dev/zero"/></asset><worldbody>{BODY}</worldbody>',
        "is no file of at most",
    ),
    "itself": (f'<asset><model name="m" file="robot.xml"/></asset><worldbody>{BODY}</worldbody>', "attaches itself"),
}  # fmt: skip


@pytest.mark.parametrize("kind", BOMBS)
def test_a_file_that_asks_for_much_is_refused_in_one_line(kind: str, write_mjcf: Write) -> None:
    content, line = BOMBS[kind]
    with pytest.raises(InvalidRequest, match=line) as refused:
        build(write_mjcf(content))
    assert "\n" not in str(refused.value)


def test_memory_and_textures_that_a_file_asks_for_are_not_taken(write_mjcf: Write) -> None:
    texture = '<asset><texture name="t" type="2d" builtin="flat" width="100000" height="100000"/></asset>'
    file = write_mjcf(
        f'<size memory="900G" nkey="100000000" nuserdata="1000000000"/>{texture}<worldbody>{BODY}</worldbody>'
    )
    system = assemble(build(file))
    assert np.isfinite(inverse_dynamics(system, np.zeros(1), np.zeros(1), np.zeros(1))).all()


def test_no_file_of_mujoco_is_written(write_mjcf: Write) -> None:
    build(write_mjcf(arm("").replace("<worldbody>", '<compiler settotalmass="3"/><worldbody>')))
    assert not Path("MUJOCO_LOG.TXT").exists()
