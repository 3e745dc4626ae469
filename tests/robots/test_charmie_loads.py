"""CHARMIE's closed loops: the division of loads, beside virtual work, a Lagrange solution and equilibrium."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest

from robots.charmie import closed, geometry
from robots.charmie.auxiliary import balance_points, spring_5s
from robots.charmie.loads import CharmieLoads, charmie_loads
from robots.charmie.mechanism import with_loops
from robots.charmie.parameters import DEFAULT_FILE, Parameters, read_parameters
from robots.registry import build
from sim_core.errors import InvalidRequest
from sim_core.inverse import inverse_dynamics
from sim_core.joint_loads import joint_loads, motions, postures
from sim_core.mechanism import Mechanism
from sim_core.system import System, assemble
from tests.sim_core import reference

P = read_parameters()
TREE = build("charmie", limits="none")
NAMES = tuple(joint.name for joint in TREE.moving_joints)
LIFT, TILT = NAMES.index("lift"), NAMES.index("tilt")
Numbers = tuple[np.ndarray, np.ndarray, np.ndarray]


@pytest.fixture(scope="module")
def tree() -> System:
    return assemble(TREE)


@pytest.fixture(scope="module")
def looped() -> System:
    return assemble(build("charmie", loops="closed", limits="none"))


def states(count: int = 5) -> list[Numbers]:
    random = np.random.default_rng(8)
    found = []
    for _ in range(count):
        q, v, a = random.normal(size=(3, len(NAMES)))
        q[LIFT], q[TILT] = random.uniform(0.005, 0.135), random.uniform(-1.1, -0.05)
        v[LIFT], a[LIFT] = 0.2 * v[LIFT], 0.5 * a[LIFT]
        found.append((q, v, a))
    return found


def light(share: float) -> tuple[Parameters, Mechanism]:
    """CHARMIE with its loops closed by bodies of a share of their mass."""
    parts = {name: share * value for name, value in msgspec.to_builtins(P.auxiliary).items() if name != "width"}
    p = msgspec.structs.replace(P, auxiliary=msgspec.structs.replace(P.auxiliary, **parts))
    return p, with_loops(TREE, p)


def rods_and_multipliers(mechanism: Mechanism, wanted: np.ndarray, J: np.ndarray) -> np.ndarray:
    """u and lam of wanted + J' lam = B u, as many as there are coordinates: solved, not divided."""
    joints = [joint.name for joint in mechanism.moving_joints]
    B = np.zeros((len(joints), len(mechanism.actuators)))
    for column, actuator in enumerate(mechanism.actuators):
        B[joints.index(actuator.joint), column] = 1.0
    whole = np.hstack([B, -J.T])
    assert whole.shape == (29, 29)
    return np.asarray(np.linalg.solve(whole, wanted))


def test_actuator_forces_are_those_of_lagrange_with_massless_loops() -> None:
    """The slow reference's M, f, J of the closed mechanism: bodies, springs and closures, no line shared."""
    p, mechanism = light(1e-9)
    joints = tuple(joint.name for joint in mechanism.moving_joints)
    rods = [[actuator.name for actuator in mechanism.actuators].index(f"{name}_rod") for name in ("lift", "tilt")]
    for q, v, a in states(3):
        Q, V, A = closed.closed_motion(p, joints, q, v, a)
        M, f, J, gamma, phi = reference.terms(mechanism, Q, V)
        assert np.abs(phi).max() <= 1e-12
        assert np.abs(J @ V).max() <= 1e-12
        assert np.abs(J @ A - gamma).max() <= 1e-10
        found = rods_and_multipliers(mechanism, M @ A - f, J)[rods]
        ours = charmie_loads(P, TREE, q, v, a).actuators
        np.testing.assert_allclose([ours["lift"], ours["tilt"]], found, rtol=1e-6, atol=1e-5)


def test_actuator_forces_are_those_of_virtual_work(tree: System) -> None:
    """F dl/dq = tau + dV/dq, with lengths and stored energy by finite differences."""

    def stored(lift: float, tilt: float) -> float:
        ends = [(balance_points(P, half, lift), P.balance.spring) for half in "lr"]
        lengths = [(np.linalg.norm(at["anchor"] - at["B4slb"]), spring) for at, spring in ends]
        base, body = spring_5s(P, tilt)
        lengths.append((np.linalg.norm(body - base), P.tilt_spring))
        stretched = [(length, length - spring.free_length, spring) for length, spring in lengths]
        return float(sum(s.pretension * length + s.stiffness * more**2 / 2 for length, more, s in stretched))

    h = 1e-6
    for q, v, a in states():
        tau, ours, lift, tilt = inverse_dynamics(tree, q, v, a), charmie_loads(P, TREE, q, v, a), q[LIFT], q[TILT]
        rise = (geometry.length_of_lift(P, lift + h) - geometry.length_of_lift(P, lift - h)) / (2 * h)
        lean = (geometry.length_of_tilt(P, tilt + h) - geometry.length_of_tilt(P, tilt - h)) / (2 * h)
        by_lift = (stored(lift + h, tilt) - stored(lift - h, tilt)) / (2 * h)
        by_tilt = (stored(lift, tilt + h) - stored(lift, tilt - h)) / (2 * h)
        assert ours.actuators["lift"] * rise == pytest.approx(tau[LIFT] + by_lift, rel=1e-6, abs=1e-5)
        assert ours.actuators["tilt"] * lean == pytest.approx(tau[TILT] + by_tilt, rel=1e-6, abs=1e-5)


def test_loads_outside_of_the_loops_and_the_floor_are_those_of_the_open_tree() -> None:
    for q, v, a in states():
        ours = charmie_loads(P, TREE, q, v, a)
        moving = motions(TREE, postures(TREE, q), v, a)
        for name, load in joint_loads(TREE, moving).items():
            if name not in ("link_4", "link_5"):
                np.testing.assert_allclose(ours.joints[name].force, load.force, atol=1e-9)
                np.testing.assert_allclose(ours.joints[name].torque, load.torque, atol=1e-9)


def in_world(ours: CharmieLoads, link: str, at: dict) -> list[Numbers]:  # type: ignore[type-arg]
    """Point, force and torque in the world of all that auxiliary bodies exert on a link."""
    posture = at[link]
    acting = getattr(ours, f"on_{link}").values()
    R = posture.R_WB
    return [(posture.p_WO + R @ one.point, R @ one.force, R @ one.torque) for one in acting]


def test_massless_bodies_are_in_equilibrium_whichever_links_they_push() -> None:
    """Each actuator, each spring, each half of the balancing mechanism."""
    for q, v, a in states():
        ours, at = charmie_loads(P, TREE, q, v, a), postures(TREE, q)
        every = {
            link: dict(zip(getattr(ours, f"on_{link}"), in_world(ours, link, at), strict=True))
            for link in ("link_3", "link_4", "link_5")
        }
        for ends in (
            [("link_3", "link_4d_cylinder"), ("link_4", "link_4d_rod")],
            [("link_4", "link_5d_cylinder"), ("link_5", "link_5d_rod")],
            [("link_4", "link_5s_lower"), ("link_5", "link_5s_upper")],
            [("link_3", "link_4sla"), ("link_3", "link_4slb_upper"), ("link_4", "link_4slc")],
            [("link_3", "link_4sra"), ("link_3", "link_4srb_upper"), ("link_4", "link_4src")],
        ):
            wrenches = [every[link][name] for link, name in ends]
            scale = max(np.abs(force).max() for _, force, _ in wrenches)
            np.testing.assert_allclose(sum(force for _, force, _ in wrenches), np.zeros(3), atol=1e-12 * scale)
            moment = sum(torque + np.cross(point, force) for point, force, torque in wrenches)
            np.testing.assert_allclose(moment, np.zeros(3), atol=1e-11 * scale)
        assert sum(len(found) for found in every.values()) == 12


def test_what_equilibrium_leaves_open_is_divided_as_the_paper_says() -> None:
    for q, v, a in states():
        ours = charmie_loads(P, TREE, q, v, a)
        five, drive = ours.joints["link_5"], ours.on_link_5["link_5d_rod"]
        assert drive.force[0] == pytest.approx(five.force[0], abs=1e-9)  # halves of the force along x ...
        np.testing.assert_allclose(drive.torque, five.torque, atol=1e-12)  # ... and of the torques about y and z
        assert drive.torque[0] == 0.0  # hinges along x
        four = ours.joints["link_4"]
        assert four.force[2] == pytest.approx(0.0, abs=1e-9)  # the guide slides along z
        assert four.torque[2] == 0.0
        assert ours.on_link_4["link_4d_rod"].force[0] == 0.0
        left, right = (ours.on_link_4[f"link_4s{half}c"] for half in "lr")
        np.testing.assert_allclose(left.torque, right.torque)
        np.testing.assert_allclose(left.torque[:2], 0.0)
        np.testing.assert_allclose(left.force, right.force, atol=1e-9)  # mirrored halves under one lift
        np.testing.assert_allclose(left.force[:2], 0.0)
        pushed = np.linalg.norm(drive.force[1:])
        assert abs(ours.actuators["tilt"]) == pytest.approx(pushed, rel=1e-12)


def test_the_balancing_springs_carry_part_of_the_weight() -> None:
    """At rest, upright: the weight above the lift is divided among actuator and springs."""
    q = np.array(TREE.initial_q)
    ours = charmie_loads(P, TREE, q, np.zeros(21), np.zeros(21))
    riding = sum(float(body.mass) for body in TREE.bodies if body.name not in ("link_1", "link_2", "link_3"))  # type: ignore[arg-type]
    carried = ours.on_link_4["link_4slc"].force[2] + ours.on_link_4["link_4src"].force[2]
    lifted = ours.on_link_4["link_4d_rod"].force[2]
    assert carried + lifted == pytest.approx(riding * P.gravity, rel=1e-12)
    assert carried > 0.5 * riding * P.gravity
    whole = riding + float(TREE.body("link_3").mass)  # type: ignore[arg-type]
    np.testing.assert_allclose(ours.floor.force, [0.0, 0.0, whole * P.gravity], atol=1e-9)


def test_the_loops_hold_along_the_motion_of_the_tree(looped: System) -> None:
    for q, v, a in states():
        Q, V, A = closed.closed_motion(P, looped.joint_names, q, v, a)
        phi, phidot = looped.residual(0.0, Q, V)
        assert np.abs(phi).max() <= 1e-13
        assert np.abs(phidot).max() <= 1e-13
        _, _, J, gamma = looped.terms(0.0, Q, V)
        assert np.abs(J @ A - gamma).max() <= 1e-11


def test_one_variable_of_the_file_changes_kinematics_and_dynamics_alike(tmp_path: Path) -> None:
    """A longer upper arm: the claw reaches farther, its mass hangs farther out, in the arms and in CHARMIE."""
    text = DEFAULT_FILE.read_text()
    assert text.count("length = 0.135") == 2
    file = tmp_path / "mine.toml"
    file.write_text(text.replace("length = 0.135", "length = 0.235", 1))
    for name, output in (("arm_6dof", "claw_z"), ("charmie", "left_claw_x")):
        ours, theirs = (assemble(build(name, **given)) for given in ({}, {"file": str(file)}))
        q = np.zeros(ours.n_q)
        reach = [system.outputs(0.0, q, q)[output] for system in (ours, theirs)]
        assert abs(reach[1]) == pytest.approx(abs(reach[0]) + 0.1, abs=1e-12)
        swing = np.full(ours.n_q, 0.3)
        efforts = [inverse_dynamics(system, swing, swing, swing) for system in (ours, theirs)]
        joint = ours.joint_names.index("joint_2" if name == "arm_6dof" else "left_arm_2")
        assert abs(efforts[1][joint]) > 1.05 * abs(efforts[0][joint])
        inertias = [system.terms(0.0, swing, swing)[0][joint, joint] for system in (ours, theirs)]
        assert inertias[1] > 1.1 * inertias[0]


def test_a_file_that_cannot_be_used_is_refused_with_its_key(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    for old, new, says in (
        ("mass = 20.0", "mass = -20.0", r"mine\.toml: base\.mass is -20\.0; it must be a number above 0"),
        ("floor_gap", "flor_gap", r"base: unknown key 'flor_gap'; did you mean 'floor_gap'"),
        ("bar_length = 0.16", "bar_length = 0.02", r"balance\.bar_length is 0\.02 m"),
    ):
        file.write_text(DEFAULT_FILE.read_text().replace(old, new, 1))
        with pytest.raises(InvalidRequest, match=says):
            build("charmie", loops="closed", file=str(file))
    with pytest.raises(InvalidRequest, match=r"none\.toml cannot be read"):
        build("charmie", file=str(tmp_path / "none.toml"))
