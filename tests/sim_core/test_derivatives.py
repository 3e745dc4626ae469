"""The compiled derivatives: against CasADi's of the same equations, against pinocchio, and only for who asks."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import casadi as ca
import numpy as np
import pytest

from robots.registry import build, names
from sim_core.derivatives import Derivatives, mapped
from sim_core.errors import InvalidRequest
from sim_core.mechanism import Body, Joint, JointFriction, JointSpring, JointStops, Mechanism, Tunable, X, Y, Z
from sim_core.system import System, assemble

Array = np.ndarray
TABLED = ("gibbon", "lipinski_pendulum")
ROD = {"mass": 1.3, "inertia": (0.03, 0.04, 0.03, 0.001, -0.002, 0.0015), "center_of_mass": (0.1, -0.05, 0.2)}
ASKING = """
import sys
from robots.registry import build
from sim_core.system import assemble

system = assemble(build("four_bar_chain"))
if sys.argv[1] == "derivatives":
    system.derivatives(0.0, system.mechanism.initial_q, [0.0] * system.n_q)
print("casadi" in sys.modules)
"""


def tree(**first: Any) -> Mechanism:
    """Two branches with every kind of joint of one coordinate, with springs, friction, stops, damping and armature."""
    more = {
        "damping": 0.3,
        "armature": 0.05,
        "spring": JointSpring(stiffness=3.0, cubic=0.5, rest=0.1),
        "friction": JointFriction(coulomb=0.2, smoothing_velocity=0.3),
        "lower": -0.2,
        "upper": 0.2,
        "stops": JointStops(stiffness=40.0, dissipation=0.3),
    }
    turned = ((0.36, 0.48, -0.8), (-0.8, 0.6, 0.0), (0.48, 0.64, 0.6))
    joints = (
        Joint(name="first", child="a", axis=Z, **first),
        Joint(name="slide", kind="prismatic", parent="a", child="b", axis=X, rotation=turned, parent_point=(0, 0.1, 0)),
        Joint(name="swing", parent="b", child="c", axis=Y, child_point=(0.05, 0.1, -0.2), **more),
        Joint(name="other", parent="a", child="d", axis=(0.6, 0.0, 0.8), parent_point=(0.2, 0.1, -0.3)),
        Joint(name="last", parent="d", child="e", axis=X, rotation=turned, parent_point=(0, 0, 0.4)),
    )
    bodies = tuple(Body(name=name, **ROD) for name in "abcd")
    free = 6 if first.get("kind") == "free" else 3 if first.get("kind") == "spherical" else 1
    return Mechanism(
        name=f"tree_{first.get('kind', 'revolute')}",
        coordinates="joint",
        bodies=(*bodies, Body(name="e", mass=Tunable("load", 0.7, least=0.1), inertia=(0.01, 0.02, 0.02, 0, 0, 0))),
        joints=joints,
        initial_q=(0.0,) * (free + 4),
        initial_v=(0.0,) * (free + 4),
    )  # fmt: skip


def state_of(system: System, seed: int) -> tuple[Array, Array, Array, Array]:
    """q near the start, and v, u, U."""
    random = np.random.default_rng(seed)
    q = np.array(system.mechanism.initial_q) + random.normal(size=system.n_q, scale=0.3)
    return q, *(random.normal(size=size) for size in (system.n_q, system.n_u, system.max_rows))


def by_casadi(system: System, q: Array, v: Array, u: Array, U: Array) -> dict[str, Array]:
    """Derivatives by algorithmic differentiation of the derived equations, and the system's own solve."""
    functions, p = system.casadi(), system.default_parameters()
    a, lam, factor = system.acceleration(0.0, q, v, u, p, U)
    inputs = dict(zip(functions["dynamics"].name_in(), functions["dynamics"].sx_in(), strict=True))
    M, f, J, gamma = functions["dynamics"].call(list(inputs.values()))
    Phi, Phidot = functions["constraints"].call(list(inputs.values()))
    (outputs,) = functions["outputs"].call(list(inputs.values()))
    position, velocity = functions["joints"].call(list(inputs.values()))
    r1, r2 = M @ ca.DM(a) + J.T @ ca.DM(lam) - f, J @ ca.DM(a) - gamma

    def at(expression: ca.SX, x: str) -> Array:
        function = ca.Function("by", list(inputs.values()), [ca.jacobian(expression, inputs[x])])
        return np.asarray(function(0.0, q, v, u, p).full())

    def solved(r1: Array, r2: Array) -> tuple[Array, Array]:
        columns = [np.concatenate(system.apply(factor, x, y)) for x, y in zip(r1.T, r2.T, strict=True)]
        both = np.array(columns).reshape(-1, system.n_q + system.max_rows).T
        return both[: system.n_q], both[system.n_q :]

    found = {"a": a, "lam": lam}
    for x in "qvu":
        found[f"a_{x}"], found[f"lam_{x}"] = solved(-at(r1, x), -at(r2, x))
        found[f"rate_{x}"] = at(Phidot, x)
        for name, value in (("output", outputs), ("position", position), ("velocity", velocity)):
            found[f"{name} {x}"] = at(value, x)
    found["a_tau"] = solved(np.eye(system.n_q), np.zeros((system.max_rows, system.n_q)))[0]
    found["a_U"] = solved(np.zeros((system.n_q, system.max_rows)), -np.eye(system.max_rows))[0]
    return found | {"Phi_q": at(Phi, "q"), "f_u": -at(r1, "u")}


def assert_equal(found: Derivatives, expected: dict[str, Array]) -> None:
    """Equal to 1e-10 of the largest entry, of the matrix and of the same matrix in another row or column."""
    ours = found._asdict() | {f"{name} {x}": value for (name, x), value in found.by.items()}
    for name, value in expected.items():
        assert ours[name].shape == value.shape, name
        assert np.abs(ours[name] - value).max(initial=0.0) <= 1e-10 * max(1.0, np.abs(value).max(initial=0.0)), name


@pytest.mark.parametrize("robot", [*(name for name in names() if name not in TABLED), "charmie loops=closed"])
def test_the_derivatives_of_a_robot_are_those_of_its_equations_by_casadi(robot: str) -> None:
    name, *given = robot.split()
    system = assemble(build(name, **dict(pair.split("=") for pair in given)))
    for seed in range(3):
        state = state_of(system, seed)
        q, v, u, U = state
        assert_equal(system.derivatives(0.0, q, v, u, None, U), by_casadi(system, *state))


@pytest.mark.parametrize("first", [{}, {"kind": "spherical"}, {"kind": "free"}], ids=str)
def test_the_derivatives_of_a_tree_with_every_part_are_those_of_its_equations_by_casadi(first: dict[str, Any]) -> None:
    system = assemble(tree(**first))
    for seed in range(5):
        q, v, u, U = state_of(system, seed)
        assert_equal(system.derivatives(0.0, q, v, u, None, U), by_casadi(system, q, v, u, U))


@pytest.mark.parametrize("name", ["arm_2dof", "arm_6dof", "charmie"])
def test_the_derivatives_of_a_tree_are_those_of_pinocchio(name: str) -> None:
    pin = pytest.importorskip("pinocchio")
    from robots.export import export

    mechanism = build(name)
    system = assemble(mechanism)
    ranges = np.array([(joint.lower, joint.upper) for joint in mechanism.moving_joints], dtype=float)  # None is nan
    model = pin.buildModelFromXML(export(mechanism, "urdf").text)
    model.gravity.linear = np.array(mechanism.gravity)
    data = model.createData()
    joints = [model.joints[model.getJointId(each)] for each in system.coordinate_names]
    places = [joint.idx_v for joint in joints]
    random = np.random.default_rng(3)
    for _ in range(100):
        q, v, tau = random.normal(size=(3, system.n_q))
        q = np.fmin(np.fmax(q, ranges[:, 0]), ranges[:, 1])  # the stops act beyond
        theirs = pin.neutral(model)
        for joint, angle in zip(joints, q, strict=True):
            theirs[joint.idx_q : joint.idx_q + joint.nq] = angle if joint.nq == 1 else (np.cos(angle), np.sin(angle))
        turned = np.zeros((2, model.nv))
        turned[:, places] = v, tau
        pin.computeABADerivatives(model, data, theirs, *turned)
        u = np.array([tau[system.coordinate_names.index(actuator.joint)] for actuator in mechanism.actuators])
        expected = {"a": data.ddq[places], "a_tau": data.Minv[np.ix_(places, places)]}
        expected |= {"a_q": data.ddq_dq[np.ix_(places, places)], "a_v": data.ddq_dv[np.ix_(places, places)]}
        assert_equal(system.derivatives(0.0, q, v, u), expected)


@pytest.mark.parametrize("name", TABLED)
def test_a_robot_with_tables_has_no_derivatives(name: str) -> None:
    system = assemble(build(name))
    with pytest.raises(InvalidRequest, match="come from a table, which has no derivative"):
        system.derivatives(0.0, system.mechanism.initial_q, np.zeros(system.n_q))


@pytest.mark.parametrize("name", ["arm_6dof", "charmie", "four_bar_chain", "crank_slider", "rotary_pendulum"])
def test_the_derivatives_of_a_batch_are_those_of_each_of_its_systems(name: str) -> None:
    system = assemble(build(name))
    states = [state_of(system, seed) for seed in range(11)]  # more than a vector has lanes, and not a multiple
    q, v, u, U = map(np.array, zip(*states, strict=True))
    together = system.batch(8).derivatives(q, v, u, None, U)
    for k, (q_k, v_k, u_k, U_k) in enumerate(states):
        alone = system.derivatives(0.0, q_k, v_k, u_k, None, U_k)
        one = alone._asdict() | {f"{name} {x}": value for (name, x), value in alone.by.items()}
        del one["by"]
        assert_equal(mapped(lambda x, k=k: x[k], together), one)  # type: ignore[misc]


def test_the_derivatives_of_a_stop_that_is_not_touched_are_those_without_stop() -> None:
    bare, stopped = (assemble(build("arm_2dof", limits=limits)) for limits in ("none", "compliant"))
    q, v, u, U = state_of(bare, 1)
    q = np.clip(q, *np.array([(joint.lower, joint.upper) for joint in stopped.mechanism.joints]).T * 0.9)
    with_stops, without = stopped.derivatives(0.0, q, v, u, None, U), bare.derivatives(0.0, q, v, u, None, U)
    assert with_stops.a_q == pytest.approx(without.a_q, rel=1e-13)


def test_derivatives_are_compiled_only_for_who_asks_and_then_loaded_without_casadi(tmp_path: Path) -> None:
    def asked(*words: str) -> tuple[str, list[str]]:
        run = [sys.executable, "-P", "-c", ASKING, *words]
        env = os.environ | {"XDG_CACHE_HOME": str(tmp_path)}
        done = subprocess.run(run, env=env, capture_output=True, text=True, check=True, timeout=300)
        return done.stdout.strip(), [path.name for path in tmp_path.rglob("*-derivatives.o")]

    assert asked("nothing") == ("True", [])
    imported, files = asked("derivatives")
    assert (imported, len(files)) == ("True", 1)
    assert asked("derivatives") == ("False", files)


def test_a_state_with_another_size_is_refused_in_one_line() -> None:
    system = assemble(dataclasses.replace(build("arm_2dof")))
    with pytest.raises(ValueError, match="q has 3 entries; 'arm_2dof' takes 2"):
        system.derivatives(0.0, [0.0] * 3, [0.0] * 2)
