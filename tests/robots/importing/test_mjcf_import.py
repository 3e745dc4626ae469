"""An MJCF file gives the mechanism that it describes; MuJoCo computes the same from it."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from pathlib import Path

import mujoco
import numpy as np
import pytest

from armswing import build
from robots.export import export
from sim_core.errors import InvalidRequest
from sim_core.inverse import forward_kinematics, inverse_dynamics, mass_matrix
from sim_core.mechanism import Joint
from sim_core.simulation import Simulation
from sim_core.system import assemble
from tests.robots.importing.same import assert_same
from tests.robots.importing.suite_files import PAGE, choices_for, page, suite_files

CART_ARM = str(Path(__file__).resolve().parents[3] / "launch/examples/cart_arm.xml")
Write = Callable[..., str]
RELATIVE = 1e-9

pytestmark = [
    pytest.mark.filterwarnings("ignore::sim_core.errors.DescriptionWarning"),
    pytest.mark.usefixtures("elsewhere"),
]


def worst_miss(path: str, states: int, **parameters: str) -> float:
    """Largest relative difference from MuJoCo, in random states: mass matrix, bias less passive forces, positions.

    Forces that would accelerate the joints by less than 1e-6 count as zero.
    """
    mechanism = build(path, contacts="ignore", limits="none", **parameters)
    system, model = assemble(mechanism), mujoco.MjModel.from_xml_path(path)
    model.opt.density = model.opt.viscosity = 0.0
    model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONTACT)
    data = mujoco.MjData(model)
    n = system.n_q
    moving = [joint for joint in mechanism.joints if joint.coordinates]
    names = [model.joint(k).name or joint.name for k, joint in zip(range(model.njnt), moving, strict=True)]
    assert names == [joint.name for joint in moving]
    start, p_start = np.array(mechanism.initial_q), np.array(mechanism.orientations)
    keys = {model.key(k).name: model.key(k).qpos for k in range(model.nkey)}
    np.testing.assert_allclose(qpos_of(moving, start, p_start), keys.get("start", model.qpos0), atol=1e-15)
    turning = [name.rpartition(".")[2] in ("rx", "ry", "rz") for name in system.coordinate_names]
    random = np.random.default_rng(5)
    pairs: list[list[tuple[np.ndarray, np.ndarray]]] = [[], [], []]
    for q, v in random.normal(scale=2.0, size=(states, 2, n)):
        q[turning] = 0.0
        e = random.normal(size=(len(mechanism.oriented_joints), 4))
        p = (e / np.linalg.norm(e, axis=1, keepdims=True)).ravel()
        data.qpos[:], data.qvel[:] = qpos_of(moving, q, p), v
        mujoco.mj_forward(model, data)
        M = np.zeros((n, n))
        mujoco.mj_fullM(model, data, M)
        poses = forward_kinematics(system, q, p)
        named = [k for k in range(1, model.nbody) if model.body(k).name in poses]
        pairs[0].append((mass_matrix(system, q, p), M))
        pairs[1].append((inverse_dynamics(system, q, v, 0 * q, p), data.qfrc_bias - data.qfrc_passive))
        places = [poses[model.body(k).name][0] for k in named]
        pairs[2].append((np.array([*places, np.zeros(3)]), np.array([*data.xpos[named], np.zeros(3)])))
    inertia = max(float(np.abs(M).max()) for _, M in pairs[0])
    return max(_miss(pairs[0]), _miss(pairs[1], 1e-6 * inertia), _miss(pairs[2]))


def qpos_of(joints: list[Joint], q: np.ndarray, p: np.ndarray) -> np.ndarray:
    """MuJoCo's qpos: the quaternions p of ball and free joints in place of their rotation coordinates in q."""
    found: list[float] = []
    for joint in joints:
        names = [name for name in joint.coordinates if not name.endswith((".rx", ".ry", ".rz"))]
        found += q[: len(names)].tolist()
        q = q[len(joint.coordinates) :]
        if joint.orientation_names:
            found += p[:4].tolist()
            p = p[4:]
    return np.array(found)


def _miss(pairs: list[tuple[np.ndarray, np.ndarray]], least: float = 0.0) -> float:
    """Largest difference in a state, relative to the largest value in it.

    Values below 1e-6 of those in all states, and below `least`, count as zero.
    """
    largest = max(float(np.abs(theirs).max()) for _, theirs in pairs) or 1.0
    return max(float(np.abs(a - b).max() / max(1e-6 * largest, least, np.abs(b).max())) for a, b in pairs)


def test_the_arm_of_the_documentation_moves_as_in_mujoco() -> None:
    assert worst_miss(CART_ARM, 100) < RELATIVE


FLOATING = """
<worldbody>
  <body name="trunk" pos="0.1 0.2 0.9" euler="20 30 -40">
    <freejoint name="root"/>
    <geom type="box" size="0.1 0.2 0.05" pos="0.05 0 0.02"/>
    <body name="arm" pos="0.1 0.2 0.3" euler="0 50 10">
      <joint name="shoulder" type="ball" pos="0.02 -0.03 0.05" damping="0.4"/>
      <geom type="capsule" size="0.03" fromto="0 0 0 0.1 0 -0.3"/>
      <body name="hand" pos="0.1 0 -0.3">
        <joint name="wrist" axis="0 1 0" damping="0.3"/>
        <geom type="capsule" size="0.02" fromto="0 0 0 0 0 -0.2"/>
      </body>
    </body>
  </body>
</worldbody>
<keyframe>
  <key name="turned" qpos="1 2 3 0 0 2 0 0.6 0 0 0.8 0.5" qvel="1 2 3 4 5 6 7 8 9 10"/>
</keyframe>
"""


def test_free_and_ball_joints_move_as_in_mujoco(write_mjcf: Write) -> None:
    assert worst_miss(write_mjcf(FLOATING), 100) < RELATIVE


def test_a_keyframe_gives_the_quaternions_of_free_and_ball_joints(write_mjcf: Write) -> None:
    path = write_mjcf(FLOATING)
    mechanism, model = build(path, keyframe="turned"), mujoco.MjModel.from_xml_path(path)
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, 0)
    mujoco.mj_forward(model, data)
    assert mechanism.initial_q == (1.0, 2.0, 3.0, *[0.0] * 6, 0.5)
    assert mechanism.initial_v == (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0)
    poses = forward_kinematics(assemble(mechanism), mechanism.initial_q)
    for body in ("trunk", "arm", "hand"):
        p, R = poses[body]
        np.testing.assert_allclose(p, data.body(body).xpos, atol=1e-14)
        np.testing.assert_allclose(R.ravel(), data.body(body).xmat, atol=1e-14)


@pytest.mark.soak
@pytest.mark.skipif(not suite_files(), reason="dm-control is not installed: pip install --no-deps dm-control")
@pytest.mark.parametrize("name", suite_files())
def test_the_files_of_the_suite_move_as_in_mujoco(name: str) -> None:
    path = suite_files()[name]
    choices = choices_for(path)
    if isinstance(choices, str) or {"tendon", "equality"} & {*choices.get("ignore", "").split()}:
        pytest.skip("this file is refused, or read without its tendons")
    if build(str(path), **choices).coordinate_count > 50:
        pytest.skip("compiling its kernels takes minutes")
    assert worst_miss(str(path), 100, friction="ignore", **choices) < RELATIVE


@pytest.mark.soak
@pytest.mark.skipif(not suite_files(), reason="dm-control is not installed: pip install --no-deps dm-control")
def test_the_page_of_the_documentation_lists_the_files_of_the_suite() -> None:
    assert PAGE.read_text() == page(), "tests/robots/importing/suite_files.py writes it"


# every geom with inertia, orientations of each kind, classes, refs, several joints of a body, an inertial, a fixed body
EVERYTHING = """
<compiler angle="{angle}" eulerseq="zYx" settotalmass="7"/>
<option gravity="1 -2 -9"/>
<default>
  <geom density="800"/>
  <default class="stiff">
    <joint stiffness="3" damping="0.4" armature="0.05" type="hinge" axis="0.3 1 -0.2"/>
    <default class="loose"><joint stiffness="0"/></default>
  </default>
</default>
<worldbody>
  <body name="trunk" pos="0.1 0.2 0.9" euler="{turns}" childclass="stiff">
    <joint name="along" type="slide" axis="1 0.2 0" ref="0.3" damping="0.1"/>
    <joint name="about" pos="0.1 -0.1 0.2" ref="{ref}" springref="{rest}" range="{range}"/>
    <joint name="across" type="slide" axis="0 1 0.5" class="loose"/>
    <geom type="box" size="0.1 0.2 0.3" pos="0.1 0 0" quat="1 0.2 -0.3 0.5"/>
    <geom type="capsule" fromto="0 0 0 0.3 0.2 0.4" size="0.05"/>
    <body name="arm" pos="0 0.3 0.4" axisangle="1 2 0.5 {ref}">
      <joint name="shoulder" pos="0 0 -0.1"/>
      <geom type="ellipsoid" size="0.1 0.15 0.2" xyaxes="1 1 0 -1 1 0.5"/>
      <geom type="cylinder" size="0.05 0.2" pos="0 0.1 0" zaxis="1 0.5 0.2" mass="0.7"/>
      <geom type="sphere" size="0.1" pos="-0.1 0 0.1"/>
      <body name="plate" pos="0.2 0 0" zaxis="0 1 1">
        <geom type="box" size="0.04 0.06" fromto="0 0 0 0.1 0.3 0"/>
        <body name="hand" pos="0.1 0 0.3">
          <joint name="wrist" class="loose" axis="1 0 0"/>
          <inertial pos="0.02 0.01 0" mass="0.6" fullinertia="0.01 0.012 0.013 0.001 -0.002 0.0005"/>
          <geom type="mesh" mesh="none"/>
        </body>
      </body>
    </body>
  </body>
</worldbody>
"""
DEGREES = {"angle": "degree", "turns": "20 -50 70", "ref": "40", "rest": "-25", "range": "-100 120"}
RADIANS = {"angle": "radian", "turns": "0.3 -1 1.2", "ref": "0.7", "rest": "-0.4", "range": "-2 2.1"}


@pytest.mark.parametrize("unit", [DEGREES, RADIANS], ids=["degrees", "radians"])
def test_geoms_orientations_classes_and_references_are_those_of_mujoco(write_mjcf: Write, unit: dict[str, str]) -> None:
    file = write_mjcf(EVERYTHING.format(**unit).replace('<geom type="mesh" mesh="none"/>', ""))
    assert worst_miss(file, 100) < RELATIVE


@pytest.mark.parametrize("choice", ["true", "auto"])
@pytest.mark.parametrize(
    "geoms", ["", '<geom size="0.1" mass="0"/>', '<geom size="0.1" group="5"/>', '<geom size="0.1"/>']
)
def test_a_body_has_the_inertia_of_mujoco_whatever_its_geoms(write_mjcf: Write, choice: str, geoms: str) -> None:
    inertial = '<inertial pos="0 0 0.1" mass="2" diaginertia="1 1.1 1.2"/>'
    file = write_mjcf(
        f'<compiler inertiafromgeom="{choice}" inertiagrouprange="0 3"/><worldbody><body name="b"><joint name="x"/>'
        f"{inertial}{geoms}</body></worldbody>"
    )
    (ours,), theirs = build(file).bodies, mujoco.MjModel.from_xml_path(file)
    assert ours.mass == pytest.approx(theirs.body_mass[1], rel=1e-12)
    assert ours.center_of_mass == pytest.approx(theirs.body_ipos[1])
    assert sorted(ours.inertia[:3]) == pytest.approx(sorted(theirs.body_inertia[1]), rel=1e-12)  # type: ignore[type-var]


def test_a_file_that_is_read_written_and_read_again_moves_the_same(write_mjcf: Write, tmp_path: Path) -> None:
    first = build(
        write_mjcf(EVERYTHING.format(**DEGREES).replace('<geom type="mesh" mesh="none"/>', "")), contacts="ignore"
    )
    file = tmp_path / "again.xml"
    file.write_text(export(first, "mjcf").text)
    again = build(str(file))
    names = [[each.name for each in part] for made in (first, again) for part in (made.moving_joints, made.bodies)]
    assert names[0] == names[2]
    assert {*names[1]} == {*names[3]}
    ours, theirs = assemble(first), assemble(again)
    for q, v in np.random.default_rng(1).normal(size=(20, 2, ours.n_q)):
        np.testing.assert_allclose(mass_matrix(theirs, q), mass_matrix(ours, q), rtol=0, atol=1e-12)
        expected = inverse_dynamics(ours, q, v, v)
        np.testing.assert_allclose(inverse_dynamics(theirs, q, v, v), expected, rtol=1e-11, atol=1e-11)


def test_actuators_limits_and_keyframes_are_those_of_the_file() -> None:
    arm = build(CART_ARM, keyframe="hanging")
    assert [(each.name, each.joint, each.effort_limit, each.unit) for each in arm.actuators] == [
        ("slide", "slide", 40.0, "N"),
        ("shoulder", "shoulder", 8.0, "N m"),
    ]
    assert arm.initial_q == (0.0, 3.0, 0.2)
    assert arm.joint("elbow").upper == pytest.approx(np.radians(150))
    assert build(CART_ARM).initial_q == (0.0, 0.0, 0.0)
    with pytest.raises(InvalidRequest, match=r"the model has no keyframe 'standing'; its keyframes are hanging"):
        build(CART_ARM, keyframe="standing")


MIMIC = """<robot name="gripper">
<link name="world"/>
<link name="finger">
  <inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>
<link name="thumb">
  <inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>
<joint name="lead" type="revolute"><parent link="world"/><child link="finger"/><axis xyz="0 1 0"/>
  <limit lower="0.3" upper="1" effort="1" velocity="1"/></joint>
<joint name="wrist" type="revolute"><parent link="world"/><child link="thumb"/><axis xyz="0 1 0"/>
  <limit lower="-1" upper="1" effort="1" velocity="1"/><mimic joint="lead" multiplier="1" offset="0.1"/></joint>
</robot>
"""


def test_an_export_starts_as_the_robot_that_was_exported(tmp_path: Path) -> None:
    urdf, mjcf = tmp_path / "gripper.urdf", tmp_path / "gripper.xml"
    urdf.write_text(MIMIC)
    first = build(str(urdf))
    assert first.initial_q == (0.3, 0.4)
    mjcf.write_text(export(first, "mjcf").text)
    again = build(str(mjcf))
    assert (again.initial_q, again.initial_v) == (first.initial_q, first.initial_v)
    Simulation(assemble(again))  # refuses a start that violates a constraint


def test_a_robot_starts_at_the_keyframe_start_unless_another_one_is_named(write_mjcf: Write) -> None:
    keys = '<keyframe><key name="{name}" qpos="0.5" qvel="2"/><key name="other" qpos="0.7"/></keyframe>'
    file = write_mjcf(made(after=keys.format(name="start")))
    assert (build(file).initial_q, build(file).initial_v) == ((0.5,), (2.0,))
    assert build(file, keyframe="other").initial_q == (0.7,)
    assert build(write_mjcf(made(after=keys.format(name="begin")))).initial_q == (0.0,)


def test_a_start_that_violates_a_constraint_is_refused_with_the_key_of_a_launch_file(write_mjcf: Write) -> None:
    second = '<body name="c"><joint name="wrist"/><geom size="0.1"/></body>'
    relation = '<equality><joint name="off" joint1="hinge" joint2="wrist" polycoef="0.4 1 0 0 0"/></equality>'
    mechanism = build(write_mjcf(made(more=second, after=relation)), contacts="ignore")
    with pytest.raises(InvalidRequest, match=r"violates 'off' .* assemble_start = true in \[sim\]"):
        Simulation(assemble(mechanism))


def test_an_equality_of_one_joint_locks_it(write_mjcf: Write, tmp_path: Path) -> None:
    lock = '<equality><joint name="lock" joint1="hinge" polycoef="0.3 0 0 0 0"/></equality>'
    second = '<body name="c" pos="0 0 1"><joint name="wrist" axis="0 1 0"/><geom pos="0.3 0 0" size="0.1"/></body>'
    keys = '<keyframe><key name="start" qpos="0.3 0.2"/></keyframe>'
    joint = '<joint name="hinge" axis="0 1 0"/>'
    mechanism = build(write_mjcf(made(joint=joint, more=second, after=lock + keys)), contacts="ignore")
    sim = Simulation(assemble(mechanism), step_s=1e-3)
    sim.advance(1.0)
    assert sim.state.q[0] == pytest.approx(0.3, abs=1e-9)
    assert abs(sim.state.q[1] - 0.2) > 0.1
    (tmp_path / "again.xml").write_text(export(mechanism, "mjcf").text)
    assert_same(build(str(tmp_path / "again.xml")), mechanism)


BODY = '<body name="b">{joint}<geom size="0.1"/>{more}</body>'
HINGE = '<joint name="hinge"/>'


def made(joint: str = HINGE, more: str = "", before: str = "", after: str = "") -> str:
    """Content of a file with one body."""
    return f"{before}<worldbody>{BODY.format(joint=joint, more=more)}</worldbody>{after}"


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (made(joint='<joint name="x" damping="-1"/>'), r"line 2: joint 'x': damping is -1; it must not be negative"),
        (
            made(joint='<joint name="x" damping="1 2"/>'),
            r"joint 'x': damping with more than one number is not supported; give one number",
        ),
        (
            made(joint='<joint name="x" stiffness="1 2"/>'),
            r"joint 'x': stiffness with a second number, of the square, is not supported; set it to 0",
        ),
        (
            made(joint='<joint name="x" stiffness="1" springyield="0.1"/>'),
            r"joint 'x': springyield is not supported; remove it",
        ),
        (made(joint=""), r"line 1: <mujoco>: no body has a joint"),
        (
            made(more='<body name="c"><joint name="x"/><geom size="1" mass="0"/></body>'),
            r"body 'c': joint 'x' moves this body, but the body and all bodies on it have no mass",
        ),
        (
            made(more='<inertial pos="0 0 0" mass="1" diaginertia="1 1 3"/>'),
            r"line 2: body 'b': inertia has principal moments \(1, 1, 3\) kg m2; the largest must not exceed",
        ),
        (
            made(more='<inertial pos="0 0 0" mass="1" diaginertia="1 1 -1"/>'),
            r"body 'b': inertia has principal moments .*; none may be negative",
        ),
        (
            made(
                more='<body name="c"><joint name="wrist"/><geom size="1"/></body>',
                after='<equality><joint joint1="hinge" joint2="wrist" polycoef="0 1 2"/></equality>',
            ),
            r"joint 'joint1': polycoef has powers above 1, which are not supported; pass ignore=equality",
        ),
        (
            made(after='<tendon><fixed name="t" armature="3"><joint joint="hinge" coef="1"/></fixed></tendon>'),
            r"tendon 't': it has armature, which is not supported; pass ignore=tendon to leave out",
        ),
        (
            made(
                before='<option density="1.2"/>',
                after='<tendon><fixed name="t" armature="3"><joint joint="hinge" coef="1"/></fixed></tendon>',
            ),
            r"2 errors: \(1\) line 2: <option>: density is not 0, and forces of a fluid are not supported; pass ignore="
            r"fluid to leave out .* \(2\) line 2: tendon 't': it has armature",
        ),
        (
            '<worldbody><flexcomp name="cloth" type="grid" count="3 3 1" spacing="1 1 1" radius="0.1"/></worldbody>',
            r"flex 'cloth': soft bodies are not supported; remove it",
        ),
        (made(before='<include file="none.xml"/>'), r"<include>: there is no file 'none.xml'; tried .*/none.xml"),
        # what MuJoCo refuses, in its words
        (made(joint='<joint name="x" dampin="1"/>'), r"line 2: <joint>: .*unrecognized attribute: 'dampin'"),
        (made(joint='<joint name="x" damping="a"/>'), r"line 2: <joint>: bad format in attribute 'damping'"),
        (made(joint='<joint name="x" class="no"/>'), r"line 2: <joint>: unknown default class name 'no'"),
        (made(joint='<joint name="x" axis="0 0 0"/>'), r"line 2: 'x': axis too small in joint"),
        (made(more='<geom name="g" type="box" size="1 1"/>'), r"line 2: 'g': size 2 must be positive in geom"),
        (made(after='<actuator><motor name="m" joint="hing"/></actuator>'), r"line 2: 'm': .*'hing'"),
    ],
)
def test_a_wrong_or_unsupported_file_is_refused_with_line_and_name(write_mjcf: Write, content: str, line: str) -> None:
    file = write_mjcf(content)
    with pytest.raises(InvalidRequest) as refused:
        build(file)
    said = str(refused.value)
    assert said.startswith(f"robot {file!r}: ")
    assert "\n" not in said
    assert re.search(line, said), said


EQUALITIES = """
<compiler angle="radian"/>
<worldbody>
  <body name="a" pos="0.1 0 1" euler="0.1 0.2 0.3"><joint name="a" axis="0 1 0.3"/><geom size="0.1"/>
    <body name="b" pos="0.3 0 0"><joint name="b" axis="0 1 0" ref="0.4"/><geom size="0.1" pos="0.1 0 0"/>
      <body name="c" pos="0.3 0 0" quat="0.8 0.6 0 0"><joint name="c" axis="1 0 0.2"/><geom size="0.1" pos="0.1 0 0.1"/>
      </body></body></body>
  <body name="d" pos="0.5 0.5 0.5" quat="0.6 0 0 0.8"><freejoint/><geom size="0.1" pos="0.05 0 0"/></body>
  <body name="e" pos="0.9 0.5 0.5"><joint name="e" type="slide" axis="0 0 1" ref="0.1"/><geom size="0.1"/></body>
</worldbody>
<tendon><fixed name="t"><joint joint="a" coef="0.5"/><joint joint="b" coef="-0.3"/></fixed>
  <fixed name="u"><joint joint="e" coef="2"/></fixed></tendon>
<equality>
  <connect name="ball" body1="c" body2="d" anchor="0.1 0.2 0.3"/>
  <weld name="glue" body1="e" body2="d"/>
  <joint name="follow" joint1="a" joint2="b" polycoef="0 -0.7 0 0 0"/>
  <tendon name="cable" tendon1="t" tendon2="u" polycoef="0 1.5 0 0 0"/>
  <connect name="off" body1="e" anchor="0 0 0" active="false"/>
</equality>"""


def test_equality_constraints_allow_the_velocities_that_those_of_mujoco_allow(write_mjcf: Write) -> None:
    file = write_mjcf(EQUALITIES)
    mechanism = build(file)
    system, model = assemble(mechanism), mujoco.MjModel.from_xml_path(file)
    model.opt.jacobian = mujoco.mjtJacobian.mjJAC_DENSE
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    q, v = np.array(mechanism.initial_q), np.zeros(system.n_q)
    residual, _ = system.residual(0.0, q, v)
    assert np.abs(residual).max() < 1e-12
    names = [*system.constraint_modes[0].row_names]
    J = system.terms(0.0, q, v)[2]
    theirs = data.efc_J.reshape(-1, model.nv)[: data.ne]
    assert (len(J), len(theirs)) == (11, 11)
    for rows in (J, theirs):
        assert np.linalg.matrix_rank(rows, tol=1e-9) == np.linalg.matrix_rank(np.vstack([J, theirs]), tol=1e-9)
    ours = J[names.index("follow")], J[names.index("cable")]
    for row, equality in zip(ours, ("follow", "cable"), strict=True):
        other = theirs[data.efc_id[: data.ne] == model.equality(equality).id][0]
        np.testing.assert_allclose(row, other, atol=1e-12)


def test_what_is_left_out_is_said_with_its_line(write_mjcf: Write) -> None:
    after = '<equality><weld body1="b"/></equality><actuator><velocity name="g" joint="hinge"/></actuator>'
    file = write_mjcf(made(joint='<joint name="hinge" frictionloss="0.1" range="-10 10"/>', after=after))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        mechanism = build(file, ignore="equality", friction="ignore", contacts="ignore")
    said = "\n".join(str(each.message) for each in caught)
    assert mechanism.joint("hinge").friction is None
    for line in (
        r"line 2 \(<equality>\): equality constraints are left out, as ignore=equality asks",
        r"line 2 \(joint 'hinge'\): frictionloss is left out, as friction=ignore asks",
        r"line 2 \(actuator 'g'\): an actuator whose gain .* is not read: the robot lacks this actuator",
        r"line 1: contacts are left out, as contacts=ignore asks: geoms do not touch one another",
    ):
        assert re.search(line, said), line
    with pytest.raises(InvalidRequest, match=r"ignore contains 'gravity'; it may contain tendon, equality, fluid"):
        build(file, ignore="gravity")


def test_a_warning_about_an_included_file_names_the_file_and_its_line(write_mjcf: Write, tmp_path: Path) -> None:
    (tmp_path / "settings.xml").write_text('<mujoco>\n<option timestep="0.001"/></mujoco>')
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        build(write_mjcf(made(before='<include file="settings.xml"/>')))
    (said,) = [str(each.message) for each in caught]
    assert re.search(r"line 2 of settings.xml: timestep is not read", said), said
