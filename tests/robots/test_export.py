"""What is in an exported file, what is refused, and what is said to be missing."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree

import mujoco
import numpy as np
import pytest

from robots.export import FORMATS, export
from robots.export.renaming import with_body_renamed
from robots.registry import build
from sim_core.errors import InvalidRequest, UnknownName
from sim_core.mechanism import (
    GROUND,
    Actuator,
    Body,
    Coincidence,
    Distance,
    Joint,
    Mechanism,
    Perpendicular,
    Servo,
    Shape,
    Slider,
    Spring,
    Tunable,
    X,
    Y,
    Z,
)
from sim_core.spatial import rotation_from_quaternion
from sim_core.system import assemble

BOTH = pytest.mark.parametrize("form", FORMATS)
LIMITS = "MJCF cannot express velocity limits; left out are those of the joints 'shoulder' (3.5 rad/s)"  # of arm()
START = "URDF has no start; left out is that of this robot: shoulder = 0.1, elbow = 0.2, shoulder moves, elbow moves"
SOLID = (0.02, 0.03, 0.04, 0.0, 0.0, 0.0)


def arm(**changes: Any) -> Mechanism:
    """An upper arm on a limited joint, a forearm on a free one."""
    whole = Mechanism(
        name="arm",
        coordinates="joint",
        bodies=(
            Body(name="upper", mass=2.0, inertia=SOLID, center_of_mass=(0.1, 0.0, 0.0)),
            Body(name="fore", mass=1.0, inertia=SOLID, center_of_mass=(0.1, 0.0, 0.0)),
        ),
        joints=(
            Joint(name="shoulder", child="upper", damping=0.25, lower=-1.0, upper=2.0),
            Joint(name="elbow", parent="upper", child="fore", parent_point=(0.3, 0.0, 0.0), axis=Y),
        ),
        actuators=(
            Actuator(name="motor", joint="shoulder", effort_limit=12.5, velocity_limit=3.5),
            Actuator(name="free", joint="elbow"),
        ),
        initial_q=(0.1, 0.2),
        initial_v=(0.3, 0.4),
    )
    return dataclasses.replace(whole, **changes)


def with_bodies(*bodies: Body) -> Mechanism:
    return arm(bodies=bodies)


def parsed(mechanism: Mechanism, form: str, **options: bool) -> ElementTree.Element:
    return ElementTree.fromstring(export(mechanism, form, **options).text)


def found(root: ElementTree.Element, path: str) -> ElementTree.Element:
    element = root.find(path)
    assert element is not None, path
    return element


def test_velocity_limits_are_reported_where_a_format_lacks_them() -> None:
    motor, free = arm().actuators
    assert export(arm(), "mjcf").notes == (LIMITS,)
    assert LIMITS in export(arm(), "mjcf").text
    assert export(arm(), "urdf").notes == (START,)
    still = arm(initial_q=(0.0, 0.0), initial_v=(0.0, 0.0))
    assert export(still, "urdf").notes == ()
    unlimited = arm(actuators=(dataclasses.replace(motor, velocity_limit=None), free))
    assert export(unlimited, "mjcf").notes == ()


@BOTH
def test_servos_are_reported_as_left_out(form: str) -> None:
    motor, free = arm().actuators
    held = dataclasses.replace(motor, velocity_limit=None, servo=Servo(stiffness=40.0, damping=2.0))
    note = export(arm(actuators=(held, free)), form).notes[-1]
    assert note.endswith("left out are the servos of 'motor' (stiffness 40, damping 2)")


@BOTH
def test_every_number_reads_back_as_the_same_double(form: str) -> None:
    mass, length = 0.1 + 0.2, 1.0 / 3.0
    body = Body(name="fore", mass=Tunable("load", mass), inertia=SOLID, center_of_mass=(length, 0.0, 0.0))
    root = parsed(with_bodies(arm().bodies[0], body), form)
    inertial = found(root, ".//*[@name='fore']/inertial")
    written = {**inertial.attrib, **{key: text for part in inertial for key, text in part.attrib.items()}}
    assert mass in {float(written.get(key, "nan")) for key in ("mass", "value")}
    assert length in {float(written.get(key, "nan").split()[0]) for key in ("pos", "xyz")}


def test_urdf_has_limits_efforts_and_damping() -> None:
    root = parsed(arm(), "urdf")
    shoulder, elbow = (found(root, f"joint[@name='{name}']") for name in ("shoulder", "elbow"))
    limit, free = found(shoulder, "limit").attrib, found(elbow, "limit").attrib
    assert (shoulder.get("type"), elbow.get("type")) == ("revolute", "continuous")
    assert [float(limit[key]) for key in ("lower", "upper", "effort", "velocity")] == [-1.0, 2.0, 12.5, 3.5]
    assert {key: float(text) for key, text in free.items()} == {"effort": 1e30, "velocity": 1e30}
    assert found(shoulder, "dynamics").get("damping") == "0.25"
    assert elbow.find("dynamics") is None


def test_mjcf_has_limits_motors_damping_and_the_start() -> None:
    mujoco = pytest.importorskip("mujoco")
    model = mujoco.MjModel.from_xml_string(export(arm(), "mjcf").text)
    assert model.joint("shoulder").range.tolist() == [-1.0, 2.0]
    assert model.jnt_limited.tolist() == [1, 0]
    assert model.dof_damping.tolist() == [0.25, 0.0]
    assert model.actuator("motor").ctrlrange.tolist() == [-12.5, 12.5]
    assert model.actuator_ctrllimited.tolist() == [1, 0]
    assert (model.key("start").qpos.tolist(), model.key("start").qvel.tolist()) == ([0.1, 0.2], [0.3, 0.4])
    assert model.opt.gravity.tolist() == [0.0, 0.0, -9.81]


SHAPES = (
    Shape(kind="line", points=(0.0, 0.0, 0.0, 0.3, 0.0, 0.0, 0.3, 0.4, 0.0), color="#102030"),
    Shape(kind="box", size=(0.1, 0.2, 0.3), position=(0.0, 0.0, 0.5)),
    Shape(kind="sphere", size=(0.07,)),
    Shape(kind="cylinder", size=(0.05, 0.4), quaternion=(0.0, 1.0, 0.0, 0.0)),
)


def test_shapes_become_visuals() -> None:
    mujoco = pytest.importorskip("mujoco")
    drawn = with_bodies(dataclasses.replace(arm().bodies[0], shapes=SHAPES), arm().bodies[1])
    pieces = [visual[1][0] for visual in parsed(drawn, "urdf").findall("link[@name='upper']/visual")]
    assert [piece.tag for piece in pieces] == ["cylinder", "cylinder", "box", "sphere", "cylinder"]
    assert [piece.get("length") for piece in pieces] == ["0.3", "0.4", None, None, "0.4"]
    assert pieces[2].get("size") == "0.1 0.2 0.3"
    model = mujoco.MjModel.from_xml_string(export(drawn, "mjcf").text)
    kinds = [mujoco.mjtGeom(kind).name.removeprefix("mjGEOM_").lower() for kind in model.geom_type]
    assert kinds == ["capsule", "capsule", "box", "sphere", "cylinder"]
    assert model.geom_size[:2, 1].tolist() == pytest.approx([0.15, 0.2])  # half lengths
    assert model.geom_size[2].tolist() == [0.05, 0.1, 0.15]
    assert model.geom_size[4, :2].tolist() == [0.05, 0.2]
    assert not model.geom_contype.any()
    assert model.body_mass.tolist() == [0.0, 2.0, 1.0]


def test_shapes_are_where_they_are_here(random_tree: Callable[[int], Mechanism], engine: Any) -> None:
    """On a body whose joint is not at its origin; thin lines by their middle and direction."""
    tree, random = random_tree(3), np.random.default_rng(5)
    quaternions = random.normal(size=(len(SHAPES), 4))
    quaternions /= np.linalg.norm(quaternions, axis=1, keepdims=True)
    shapes = tuple(
        dataclasses.replace(shape, position=tuple(random.normal(size=3)), quaternion=tuple(quaternion))
        for shape, quaternion in zip(SHAPES, quaternions.tolist(), strict=True)
    )
    bodies = (*tree.bodies[:-1], dataclasses.replace(tree.bodies[-1], shapes=shapes))
    assert any(tree.joints[-1].child_point)
    assert tree.joints[-1].kind == "revolute"
    system = assemble(dataclasses.replace(tree, bodies=bodies))
    q = random.normal(size=system.n_q)
    p, R = (part[-1] for part in system.poses(0.0, q, 0 * q))
    found = engine(system).shapes(q)
    for index, (position, rotation) in enumerate(found):
        shape = shapes[max(index - 1, 0)]  # the line has two pieces
        R_shape = R @ rotation_from_quaternion(np.array(shape.quaternion))
        start = p + R @ np.array(shape.position)
        if shape.kind == "line":
            ends = np.array(shape.points).reshape(-1, 3)[index : index + 2]
            np.testing.assert_allclose(position, start + R_shape @ ends.mean(axis=0), atol=1e-12)
            along = R_shape @ (ends[1] - ends[0]) / np.linalg.norm(ends[1] - ends[0])
            assert abs(rotation[:, 2] @ along) == pytest.approx(1.0, abs=1e-12)
        else:
            np.testing.assert_allclose(position, start, atol=1e-12)
            np.testing.assert_allclose(rotation, R_shape, atol=1e-12)
    assert len(found) == len(SHAPES) + 1


def test_the_start_is_in_mujocos_order(random_tree: Callable[[int], Mechanism]) -> None:
    mujoco = pytest.importorskip("mujoco")
    system = assemble(random_tree(2))
    model = mujoco.MjModel.from_xml_string(export(system.mechanism, "mjcf").text)
    at = [model.joint(name).qposadr[0] for name in system.coordinate_names]
    assert at != sorted(at)
    assert model.key("start").qpos[at].tolist() == list(system.mechanism.initial_q)
    assert model.key("start").qvel[at].tolist() == list(system.mechanism.initial_v)


@pytest.mark.parametrize("pretension", [0.0, 6.0, 40.0], ids=["none", "less than k l0", "more than k l0"])
def test_springs_pull_in_mujoco_and_are_named_as_missing_in_urdf(pretension: float) -> None:
    mujoco = pytest.importorskip("mujoco")
    pull = Spring(
        name="pull",
        body_a="ground",
        point_a=(0.2, 0.3, 0.5),
        body_b="fore",
        point_b=(0.2, 0.1, 0.0),
        stiffness=90.0,
        rest_length=0.1,
        damping=3.0,
        pretension=pretension,
    )
    loaded = dataclasses.replace(arm().joints[1], load=1.5)
    sprung = arm(springs=(pull,), joints=(arm().joints[0], loaded))
    system, model = assemble(sprung), mujoco.MjModel.from_xml_string(export(sprung, "mjcf").text)
    model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_LIMIT)
    data = mujoco.MjData(model)
    for q, v in np.random.default_rng(3).normal(scale=0.5, size=(50, 2, 2)):
        data.qpos, data.qvel = q, v
        mujoco.mj_forward(model, data)
        np.testing.assert_allclose(system.acceleration(0.0, q, v)[0], data.qacc, rtol=1e-9)
    assert [note.partition(";")[2] for note in export(sprung, "urdf").notes] == [
        " left out are those of the joints 'elbow'",
        " left out are 'pull'",
        START.partition(";")[2],
    ]


MEETING = Coincidence(name="closed", body_a="ground", point_a=(0.3, 0.0, -0.3), body_b="fore", point_b=(0.3, 0.0, 0.0))
ROD = Distance(
    name="rod", body_a="ground", point_a=(0.3, 0.0, -0.5), body_b="fore", point_b=(0.3, 0.0, 0.0), length=0.4
)


def test_points_that_meet_become_a_connection_in_mjcf() -> None:
    mujoco = pytest.importorskip("mujoco")
    written = export(arm(constraints=(MEETING,)), "mjcf")
    assert written.notes == ("MuJoCo closes loops by soft constraints; small gaps may open at 'closed'", LIMITS)
    model = mujoco.MjModel.from_xml_string(written.text)
    data = mujoco.MjData(model)
    data.qpos[:] = 0.4, 0.7
    mujoco.mj_kinematics(model, data)
    gap = data.site("closed.a").xpos - data.site("closed.b").xpos
    mujoco.mj_forward(model, data)
    np.testing.assert_allclose(np.linalg.norm(data.efc_pos[:3]), np.linalg.norm(gap), rtol=1e-12)
    assert model.eq("closed").type == mujoco.mjtEq.mjEQ_CONNECT


def test_a_distance_becomes_a_line_whose_length_is_held(random_tree: Callable[[int], Mechanism]) -> None:
    mujoco = pytest.importorskip("mujoco")
    tree = random_tree(3)
    ends = {"body_a": tree.bodies[0].name, "body_b": tree.bodies[-1].name}
    rod = Distance(name="rod", point_a=(0.1, 0.2, -0.3), point_b=(0.3, 0.1, 0.2), length=0.7, **ends)
    looped = dataclasses.replace(tree, constraints=(rod,))
    system, model = assemble(looped), mujoco.MjModel.from_xml_string(export(looped, "mjcf").text)
    model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_LIMIT)
    data = mujoco.MjData(model)
    at = [model.joint(name).qposadr[0] for name in system.coordinate_names]
    for q in np.random.default_rng(6).normal(size=(20, system.n_q)):
        data.qpos[at] = q
        mujoco.mj_forward(model, data)
        (miss,) = system.residual(0.0, q, 0 * q)[0]  # (|r|^2 - length^2) / (2 length)
        assert data.efc_pos[0] == pytest.approx(np.sqrt(2 * rod.length * miss + rod.length**2) - rod.length, abs=1e-12)


SLIDERS = tuple(
    Slider(
        name=f"end_{letter}",
        body_a="ground",
        point_a=(0.3, 0.0, 0.0),
        axis_a=axis,
        body_b="fore",
        point_b=(0.2, 0.0, 0.0),
    )
    for letter, axis in (("x", X), ("z", Z))
)


def test_two_rows_are_a_connection_where_the_loop_is_planar_and_only_there() -> None:
    """Shoulder and elbow about y move in y = 0; with the shoulder about z they do not."""
    upright = dataclasses.replace(arm().joints[0], axis=Y)
    planar = parsed(arm(joints=(upright, arm().joints[1]), constraints=SLIDERS), "mjcf")
    assert [element.get("name") for element in planar.findall("equality/connect")] == ["end"]
    with pytest.raises(
        InvalidRequest, match=r"MJCF cannot express the constraints 'end_x' \(Slider\), 'end_z' \(Slider\)"
    ):
        export(arm(constraints=SLIDERS), "mjcf")


TURN = Perpendicular(name="square", body_a="ground", axis_a=Z, body_b="fore", axis_b=Y)
SLIDE = Coincidence(
    name="plane", body_a="ground", point_a=(0.0, 0.0, 0.0), body_b="fore", point_b=(0.3, 0.0, 0.0), directions=(Y,)
)


@pytest.mark.parametrize(("form", "constraint"), [("urdf", MEETING), ("urdf", ROD), ("mjcf", TURN), ("mjcf", SLIDE)])
def test_a_loop_is_refused_unless_the_open_tree_is_asked_for(form: str, constraint: Any) -> None:
    looped = arm(constraints=(constraint,))
    with pytest.raises(
        InvalidRequest, match=rf"cannot express the constraints '{constraint.name}' .*; pass --open-tree"
    ):
        export(looped, form)
    opened = export(looped, form, open_tree=True)
    assert opened.notes == (
        f"the tree is open: left out are the constraints '{constraint.name}' ({type(constraint).__name__})",
        LIMITS if form == "mjcf" else START,
    )
    assert opened.notes[0] in opened.text


def test_a_loop_that_the_format_can_express_stays_closed_in_an_open_tree() -> None:
    looped = arm(constraints=(ROD, TURN))
    opened = export(looped, "mjcf", open_tree=True)
    assert opened.notes[0] == "left out are the constraints 'square' (Perpendicular)"
    assert "small gaps may open at 'rod'" in opened.notes[1]
    assert ElementTree.fromstring(opened.text).find(".//spatial[@name='rod']") is not None


@BOTH
def test_absolute_coordinates_are_refused(form: str) -> None:
    with pytest.raises(InvalidRequest, match="'triple_pendulum' is in absolute coordinates"):
        export(build("triple_pendulum"), form)


def test_an_unknown_format_is_refused_with_those_there_are() -> None:
    with pytest.raises(UnknownName, match="robot export has no format 'sdf'; its formats are urdf, mjcf"):
        export(arm(), "sdf")


def test_an_inertia_that_no_body_has_is_refused_or_named() -> None:
    flat = with_bodies(arm().bodies[0], Body(name="fore", mass=1.0, inertia=(0.1, 0.1, 0.3, 0.0, 0.0, 0.0)))
    line = "body 'fore' has the principal moments of inertia 0.1, 0.1, 0.3 kg m2; none may exceed the sum of"
    with pytest.raises(InvalidRequest, match=line):
        export(flat, "mjcf")
    _, note = export(flat, "urdf").notes
    assert note.startswith(line)
    assert found(parsed(flat, "urdf"), "link[@name='fore']/inertial/inertia").get("izz") == "0.3"


def test_products_of_inertia_that_make_a_moment_negative_are_refused() -> None:
    wrong = with_bodies(arm().bodies[0], Body(name="fore", mass=1.0, inertia=(0.1, 0.1, 0.1, 0.2, 0.0, 0.0)))
    with pytest.raises(InvalidRequest, match=r"'fore' has .* kg m2; none may be negative"):
        export(wrong, "mjcf")


def test_a_thin_plate_is_a_body_whatever_its_rounding() -> None:
    mujoco = pytest.importorskip("mujoco")
    moments = (0.5, 0.5, 1.0000000000000002)
    plate = with_bodies(arm().bodies[0], Body(name="fore", mass=1.0, inertia=(*moments, 0.0, 0.0, 0.0)))
    written = export(plate, "mjcf")
    assert written.notes == (
        LIMITS,
        "body 'fore': the largest moment of inertia is lowered by the fraction 2.2e-16, a rounding error",
    )
    model = mujoco.MjModel.from_xml_string(written.text)
    np.testing.assert_allclose(model.body("fore").inertia, moments, rtol=1e-15)


@pytest.mark.parametrize(("mass", "inertia"), [(0.0, SOLID), (1.0, (0.1, 0.1, 0.0, 0.0, 0.0, 0.0)), (1.0, (0.0,) * 6)])
def test_a_body_that_mujoco_would_refuse_is_refused_in_one_line(mass: float, inertia: Any) -> None:
    with pytest.raises(
        InvalidRequest, match="each must be at least 1e-15, because MuJoCo refuses lighter moving bodies"
    ):
        export(with_bodies(arm().bodies[0], Body(name="fore", mass=mass, inertia=inertia)), "mjcf")


def test_products_of_inertia_under_mujocos_own_threshold_are_kept(engine: Any) -> None:
    small = Body(name="fore", mass=1.0, inertia=(1e-5, 2e-5, 1.5e-5, 1e-12, -1e-12, 5e-13))
    system = assemble(with_bodies(arm().bodies[0], small))
    q = np.array([0.3, 0.4])
    np.testing.assert_allclose(engine(system).mass_matrix(q), system.terms(0.0, q, 0 * q)[0], rtol=1e-13, atol=1e-17)


GHOST = Body(name="ghost", mass=0.0, inertia=(0.0,) * 6, shapes=SHAPES[:1])
SPIRIT = Body(name="spirit", mass=0.0, inertia=(0.0,) * 6)


def carried(random_tree: Callable[[int], Mechanism], behind: int) -> Mechanism:
    """Two turning bodies without mass, one on the other, and `behind` bodies on the second."""
    tree = random_tree(5)
    first, second, *_ = tree.joints
    joints = [
        dataclasses.replace(first, name="slide", kind="prismatic", child="ghost"),
        dataclasses.replace(second, name="turn", kind="revolute", parent="ghost", child="spirit"),
    ]
    joints += [
        dataclasses.replace(
            tree.joints[2], name=f"end_{k}", kind="revolute", parent="spirit", child=tree.bodies[k].name
        )
        for k in range(behind)
    ]
    n = len(joints)
    bodies = (GHOST, SPIRIT, *tree.bodies[:behind])
    start = (0.0,) * n
    return dataclasses.replace(
        tree, bodies=bodies, joints=tuple(joints), actuators=(), initial_q=start, initial_v=start
    )


def test_massless_bodies_are_merged_with_the_body_behind_them(
    random_tree: Callable[[int], Mechanism], engine: Any
) -> None:
    mechanism = carried(random_tree, 1)
    system = assemble(mechanism)
    theirs = engine(system)
    shared = getattr(theirs, "shared", [0, 1, 2])
    for q in np.random.default_rng(4).normal(scale=2.0, size=(100, 3)):
        np.testing.assert_allclose(theirs.mass_matrix(q), system.terms(0.0, q, 0 * q)[0], rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(theirs.poses(q)[0], system.poses(0.0, q, 0 * q)[0][shared], atol=1e-13)
    assert export(mechanism, "mjcf").notes == (
        "MuJoCo refuses moving bodies without mass; body 'ghost' is merged with body 'body_0', and its shapes are left "
        "out",
        "MuJoCo refuses moving bodies without mass; body 'spirit' is merged with body 'body_0'",
    )


@pytest.mark.parametrize("behind", [0, 2])
def test_a_massless_body_without_exactly_one_behind_it_is_refused(
    random_tree: Callable[[int], Mechanism], behind: int
) -> None:
    with pytest.raises(InvalidRequest, match=r"'spirit' moves, has no mass and carries (nothing|'body_0', 'body_1');"):
        export(carried(random_tree, behind), "mjcf")


@BOTH
def test_two_parts_of_one_name_are_refused(form: str) -> None:
    drive = Joint(name="drive", kind="planar", child="upper")
    joints = (drive, dataclasses.replace(arm().joints[1], name="drive.x"))
    twice = arm(joints=joints, actuators=(), initial_q=(0.0,) * 4, initial_v=(0.0,) * 4)
    with pytest.raises(InvalidRequest, match=r"two joints of the file would be named 'drive\.x'"):
        export(twice, form)


def test_a_note_with_two_hyphens_stays_a_comment() -> None:
    looped = arm(constraints=(dataclasses.replace(ROD, name="rod--9"),))
    written = export(looped, "urdf", open_tree=True)
    assert "'rod- -9' (Distance)" in written.text
    assert ElementTree.fromstring(written.text).get("name") == "arm"


def test_a_body_that_is_named_world_has_another_name_in_mjcf() -> None:
    """Its joints and constraints follow; URDF keeps the name."""
    base = arm()
    world, other = (with_body_renamed(base, base.bodies[0].name, name) for name in ("world", "world_body"))
    written = export(world, "mjcf")
    assert "body 'world' is named 'world_body', as 'world' is the name of MuJoCo's world" in written.notes
    assert [line for line in written.text.splitlines() if "is named" not in line] == export(
        other, "mjcf"
    ).text.splitlines()
    mujoco.MjModel.from_xml_string(written.text)
    assert '<link name="world">' in export(world, "urdf").text


def test_a_chain_deeper_than_mujoco_reads_is_refused_and_the_deepest_that_it_reads_is_written() -> None:
    with pytest.raises(InvalidRequest, match=r"follows 496 other bodies, .* reads at most 496 nested bodies, .* URDF"):
        export(chain(497), "mjcf")
    assert mujoco.MjModel.from_xml_string(export(chain(496), "mjcf").text).nv == 496


def chain(count: int) -> Mechanism:
    """A chain of equal bodies."""
    bodies = tuple(Body(name=f"body_{k}", mass=1.0, inertia=(1e-2, 1e-2, 1e-2, 0.0, 0.0, 0.0)) for k in range(count))
    joints = tuple(
        Joint(name=f"joint_{k}", parent=f"body_{k - 1}" if k else GROUND, child=body.name, parent_point=(0.1, 0.0, 0.0))
        for k, body in enumerate(bodies)
    )
    start = (0.0,) * count
    return Mechanism(name="chain", coordinates="joint", bodies=bodies, joints=joints, initial_q=start, initial_v=start)
