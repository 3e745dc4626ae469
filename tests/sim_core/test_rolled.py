"""Kernels that are loops over links give the numbers of straight-line kernels."""

from __future__ import annotations

import dataclasses
import sys
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import casadi as ca
import numpy as np
import pytest

from armswing import build
from robots.export.native import export_files
from sim_core import Simulation, forward_dynamics, inverse_dynamics
from sim_core.derivation.rolled.kernels import derive_rolled
from sim_core.derivation.start import checked_rows, violated_at_start
from sim_core.errors import InvalidRequest, StepTooLargeWarning
from sim_core.kernels import rolled as rolled_kernels
from sim_core.kernels.choice import is_rolled
from sim_core.kernels.effort import CompilationTooLarge
from sim_core.kernels.machine_code import native
from sim_core.kernels.program import program_of
from sim_core.kernels.rolled import module_of_rolled
from sim_core.kernels.triples import text_of
from sim_core.mechanism import (
    GROUND,
    Actuator,
    Body,
    CustomForce,
    Joint,
    JointFriction,
    JointOutput,
    JointSpring,
    JointStops,
    Mechanism,
    PointOutput,
    SphereContact,
    Spring,
    Tunable,
    X,
    Y,
    Z,
)
from sim_core.mechanism.custom_forces import ForcePoint, LawInputs
from sim_core.mechanism.description import ORIGIN, Crossing
from sim_core.mechanism.outputs import (
    AccelerometerOutput,
    ForceTorqueOutput,
    GyroscopeOutput,
    SurfaceForceOutput,
    VelocityOutput,
)
from sim_core.system import System, assemble
from tests.robots.importing.robot_files import CHOICES, needs_files, robot_files

pytestmark = pytest.mark.filterwarnings("ignore::sim_core.errors.DescriptionWarning")  # damping of planar joints
AGREEMENT = 1e-12


def tree(n: int, seed: int = 0, kinds: tuple[str, ...] = ("revolute",), branches: int = 1, **more: object) -> Mechanism:
    """A tree of n bodies in space with random numbers; `branches` is the number of children of a body, 1 for a chain.

    kinds  kinds of the joints, which take turns
    """
    random = np.random.default_rng(seed)
    bodies, joints = list[Body](), list[Joint]()
    for k in range(n):
        moments = 0.01 * (1.0 + 0.2 * random.random(3))
        products = 1e-3 * random.normal(size=3)
        center = 0.1 * random.normal(size=3)
        bodies.append(
            Body(
                name=f"body_{k}",
                mass=1.0 + random.random(),
                inertia=(*moments, *products),
                center_of_mass=tuple(center.tolist()),
            )
        )
        axis = random.normal(size=3)
        axis /= np.linalg.norm(axis)
        kind, parent = kinds[k % len(kinds)], (k - 1) // branches
        points = 0.2 * random.normal(size=(2, 3))
        joints.append(
            Joint(
                name=f"joint_{k}",
                kind=kind,
                parent=f"body_{parent}" if k else GROUND,
                child=f"body_{k}",
                parent_point=tuple(points[0].tolist()),
                child_point=tuple(points[1].tolist()),
                axis=(X, Y, Z, tuple(axis.tolist()))[k % 4],
                rotation=((0.0, -1.0, 0.0), (1.0, 0.0, 0.0), (0.0, 0.0, 1.0)),
                **_parts(kind, k),
            )
        )
    moving = [joint.name for joint in joints if not (joint.is_fixed or joint.is_oriented)]
    names = [name for joint in joints for name in joint.coordinates]
    q, v = 0.3 * random.normal(size=(2, len(names)))
    q[[name.endswith((".rx", ".ry", ".rz")) for name in names]] = 0.0
    return Mechanism(
        name=f"tree_{n}",
        coordinates="joint",
        bodies=tuple(bodies),
        joints=tuple(joints),
        actuators=(Actuator(name="first", joint=moving[0]), Actuator(name="last", joint=moving[-1])),
        outputs=(JointOutput(name="middle", joint=moving[len(moving) // 2]),),
        initial_q=tuple(q.tolist()),
        initial_v=tuple(v.tolist()),
        **more,
    )


def _parts(kind: str, k: int) -> dict[str, Any]:
    if kind == "fixed":
        return {}
    if kind in ("spherical", "free"):
        return {"damping": 0.2, "armature": 0.01 * (k % 2), "quaternion": (0.5, 0.5, -0.5, 0.5)}
    return {"damping": 0.1, "load": 0.3 * (k % 3), "armature": 0.01 * (k % 2)}


def with_everything() -> Mechanism:
    """A tree with all kinds of joints and of forces, and with tunables."""
    bare = tree(9, 5, ("free", "revolute", "spherical", "prismatic", "planar", "fixed", "revolute"), branches=2)
    point = (0.05, -0.02, 0.03)
    parts: dict[str, dict[str, Any]] = {
        "joint_1": {
            "spring": JointSpring(stiffness=Tunable("k1", 3.0), cubic=0.5, rest=0.1, preload=0.2),
            "friction": JointFriction(coulomb=0.3, static=0.4, stribeck_velocity=0.5, smoothing_velocity=0.5),
            "stops": JointStops(stiffness=50.0, dissipation=0.2),
            "lower": -0.3,
            "upper": 0.2,
            "damping": Tunable("d1", 0.2),
        },
        "joint_2": {
            "spring": JointSpring(stiffness=2.0),
            "friction": JointFriction(coulomb=0.1, smoothing_velocity=0.5),
        },
        "joint_3": {"stops": JointStops(stiffness=80.0), "lower": -0.1, "armature": Tunable("rotor", 0.3)},
    }
    joints = [dataclasses.replace(joint, **parts.get(joint.name, {})) for joint in bare.joints]
    bodies = list(bare.bodies)
    bodies[4] = dataclasses.replace(bodies[4], mass=Tunable("mass", 1.7))
    ends = {"body_a": "body_1", "point_a": point, "body_b": "body_6", "point_b": ORIGIN}
    return dataclasses.replace(
        bare,
        name="everything",
        bodies=tuple(bodies),
        joints=tuple(joints),
        springs=(
            Spring(name="line", **ends, stiffness=Tunable("line_k", 20.0), rest_length=0.1, damping=0.5),
            Spring(name="anchor", **(ends | {"body_a": GROUND}), stiffness=5.0),
        ),
        contacts=(
            SphereContact(
                name="floor",
                body="body_7",
                center=point,
                radius=0.2,
                other_point=(0.0, 0.0, 0.5),
                stiffness=40.0,
                friction=0.5,
                slip_velocity=0.5,
            ),
            SphereContact(name="balls", body="body_8", other="body_3", radius=3.0, other_radius=3.0, stiffness=9.0),
        ),
        forces=(CustomForce(name="wind", points=(ForcePoint(name="sail", body="body_2", point=point),), law=wind),),
        pushable=("body_3",),
        outputs=(
            *bare.outputs,
            PointOutput(name="tip", body="body_8", point=point),
            VelocityOutput(name="tip", body="body_8", point=point),
            GyroscopeOutput(name="gyro", body="body_6"),
            AccelerometerOutput(name="accelerometer", body="body_7", point=point, quaternion=(0.5, 0.5, -0.5, 0.5)),
            AccelerometerOutput(name="fixed", body="body_5"),
            ForceTorqueOutput(name="load", joint="joint_2", point=point, quaternion=(0.5, 0.5, -0.5, 0.5)),
            ForceTorqueOutput(name="tip load", joint="joint_7"),
            SurfaceForceOutput(name="pressed", contact="floor"),
        ),
        guards=(
            Crossing(name="high", body="body_5", point=point, axis=Z, level=0.1, source="default", target="default"),
        ),
    )


def with_bristles_and_surfaces() -> Mechanism:
    """A tree with dry friction that sticks, a custom force with a state, and contacts with all kinds of surfaces."""
    moving = ("revolute", "spherical", "prismatic", "revolute")
    bare = tree(9, 8, (*moving, *moving, "fixed"), branches=2)
    bristle = {"coulomb": 0.4, "bristle_stiffness": 30.0, "bristle_damping": 0.5}
    parts: dict[str, dict[str, Any]] = {
        "joint_0": {"friction": JointFriction(**bristle)},
        "joint_2": {"friction": JointFriction(**bristle, static=0.6, elastic_share=0.5)},
        "joint_3": {
            "friction": JointFriction(**bristle | {"coulomb": Tunable("grip", 0.3)}),
            "spring": JointSpring(stiffness=2.0),
        },
        "joint_4": {"friction": JointFriction(**bristle, elastic_share=0.3)},
    }
    near = {"stiffness": 60.0, "radius": 0.8, "dissipation": 0.4, "friction": 0.3, "slip_velocity": 0.4}
    tilted, turned = (0.36, 0.48, 0.8), (0.5, 0.5, -0.5, 0.5)
    surfaces: dict[str, dict[str, Any]] = {
        "slope": {"normal": tilted},
        "slope of a body": {"other": "body_2", "normal": tilted, "friction": Tunable("mu", 0.2), "exponent": 2.0},
        "capsule": {"other": "body_1", "other_radius": 0.7, "other_half_axis": (0.0, 0.3, 0.1)},
        "box": {"other": "body_4", "other_half_sizes": (0.4, 0.3, 0.2), "other_quaternion": turned, "exponent": 1.0},
        "box on the ground": {"other_half_sizes": (0.4, 0.3, 0.2), "other_quaternion": turned},
        "the same link": {"other": "body_8", "other_radius": 1.0, "other_point": (0.1, 0.2, 0.3)},
    }
    contacts = tuple(
        SphereContact(
            name=name,
            body="body_3" if name == "the same link" else "body_6",
            center=(0.02 * k, 0.1, -0.05),
            **near | more,
        )
        for k, (name, more) in enumerate(surfaces.items())
    )
    lagged = CustomForce(
        name="lagged",
        points=(ForcePoint(name="tip", body="body_7", point=(0.1, 0.0, 0.0)),),
        law=lag,
        states=(("x", 0.2), ("y", -0.1)),
    )
    return dataclasses.replace(
        bare,
        name="bristles",
        joints=tuple(dataclasses.replace(joint, **parts.get(joint.name, {})) for joint in bare.joints),
        contacts=contacts,
        springs=(Spring(name="inside", body_a="body_3", point_a=X, body_b="body_8", point_b=Y, stiffness=3.0),),
        forces=(lagged,),
        outputs=(*bare.outputs, SurfaceForceOutput(name="pressed", contact="box")),
    )


def lag(inputs: LawInputs) -> dict[str, Any]:
    """A force that follows the velocity of a point with a delay."""
    x, y = inputs.state["x"], inputs.state["y"]
    speed = inputs.point_velocity["tip"]
    return {"tip": ca.vertcat(-x, 0.0, -y), "x": 3.0 * (speed[0] - x), "y": 2.0 * (speed[2] - y)}


def wind(inputs: LawInputs) -> dict[str, Any]:
    """A force on a point against its velocity relative to the air."""
    return {"sail": -0.3 * (inputs.point_velocity["sail"] - np.array([1.0, 0.0, 0.5]))}


MECHANISMS = {
    "chain": tree(12),
    "tree": tree(15, 2, ("revolute", "prismatic"), branches=2),
    "tree with fixed bodies": tree(14, 3, ("fixed", "revolute", "fixed", "prismatic", "revolute"), branches=3),
    "one link": tree(1, 4),
    "everything": with_everything(),
    "bristles and surfaces": with_bristles_and_surfaces(),
    "rotary pendulum": build("rotary_pendulum", coordinates="joint"),
}


def differs(a: object, b: object) -> float:
    """Largest difference of two results, as a share of the largest entry of the second."""
    found, expected = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    assert found.shape == expected.shape
    return float(np.abs(found - expected).max(initial=0.0) / max(np.abs(expected).max(initial=0.0), 1e-300))


def results(system: System) -> dict[str, object]:
    random = np.random.default_rng(7)
    q, v, tau = 0.8 * random.normal(size=(3, system.n_q))
    u, p = random.normal(size=system.n_u), system.default_parameters()
    p[[k for k, name in enumerate(system.parameter_names) if ".push." in name]] = 0.7
    M, f, J, gamma = system.terms(0.0, q, v, u, p)
    a, lam, factor = system.acceleration(0.0, q, v, u, p)
    positions, rotations = system.poses(0.0, q, v, p)
    power, guards = np.zeros(1), np.zeros(len(system.mechanism.guards))
    inputs = [np.zeros(1), q, v, u, p]
    system.bind("power", inputs, [power])()
    system.bind("guards", [*inputs, np.zeros(0)], [guards])()
    rebased, frames = (
        [q.copy(), v.copy(), p.copy()],
        [np.zeros(size * len(system.mechanism.posed_joints)) for size in (7, 6)],
    )
    if "rebase" in system.addresses:
        system.bind("rebase", [np.zeros(1), rebased[0], rebased[1], u, rebased[2]], rebased)()
    if "frames" in system.addresses:
        system.bind("frames", inputs, frames)()
    return {
        "M": M, "f": f, "J": J, "gamma": gamma, "a": a, "lam": lam,
        "M a": M @ a,
        "apply": system.apply(factor, tau, np.zeros(0))[0],
        "forward dynamics": forward_dynamics(system, q, v, tau, p=p),
        "inverse dynamics": inverse_dynamics(system, q, v, tau, p),
        "energy": system.energy(0.0, q, v, p), "power": power, "guards": guards,
        "rebased q": rebased[0], "rebased v": rebased[1], "rebased p": rebased[2],
        "joint poses": frames[0], "joint twists": frames[1],
        "positions": positions, "rotations": rotations,
        "joints": system.joints(0.0, q, v, p), "outputs": list(system.outputs(0.0, q, v, p, u).values()),
        "residual": system.solve_residual(0.0, q, v, a), "least norm": system.least_norm(0.0, q, v, np.zeros(0)),
    }  # fmt: skip


@pytest.mark.parametrize("name", MECHANISMS)
def test_rolled_and_unrolled_kernels_give_the_same_numbers(name: str) -> None:
    rolled, unrolled = (assemble(MECHANISMS[name], rolled=way) for way in (True, False))
    assert (rolled.is_rolled, unrolled.is_rolled) == (True, False)
    expected = results(unrolled)
    for what, value in results(rolled).items():
        assert differs(value, expected[what]) < AGREEMENT, what


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_simulation_takes_the_same_steps_with_rolled_kernels(name: str) -> None:
    rolled, unrolled = (Simulation(assemble(MECHANISMS[name], rolled=way)) for way in (True, False))
    for simulation in (rolled, unrolled):
        simulation.advance(0.05)
    assert differs(rolled.state.q, unrolled.state.q) < AGREEMENT
    assert differs(rolled.state.v, unrolled.state.v) < AGREEMENT
    assert differs(rolled.energy(), unrolled.energy()) < AGREEMENT
    assert rolled.energy_ledger.work == pytest.approx(unrolled.energy_ledger.work, rel=AGREEMENT)


@needs_files
@pytest.mark.soak
def test_rolled_and_unrolled_kernels_of_talos_give_the_same_numbers() -> None:
    file = next(path for name, path in robot_files().items() if "talos_full_v2.urdf" in name)
    mechanism = build(str(file), **CHOICES)
    rolled, unrolled = (assemble(mechanism, rolled=way) for way in (True, False))
    expected = results(unrolled)
    for what, value in results(rolled).items():
        assert differs(value, expected[what]) < AGREEMENT, what


def test_a_rolled_simulation_continues_from_a_snapshot_with_the_same_bytes() -> None:
    system = assemble(MECHANISMS["tree"], rolled=True)
    whole, halves = Simulation(system), Simulation(system)
    whole.advance(0.04)
    halves.advance(0.02)
    state = halves.state
    restored = Simulation(assemble(MECHANISMS["tree"], rolled=True))
    restored.restore(state)
    restored.advance(0.02)
    assert restored.state.q.tobytes() == whole.state.q.tobytes()
    assert restored.state.v.tobytes() == whole.state.v.tobytes()


def test_the_lanes_of_a_batch_follow_rolled_simulations() -> None:
    mechanism = MECHANISMS["tree"]
    system = assemble(mechanism, rolled=True)
    random = np.random.default_rng(3)
    q, v = (np.array(start) + 0.1 * random.normal(size=(3, system.n_q))
            for start in (mechanism.initial_q, mechanism.initial_v))  # fmt: skip
    u = random.normal(size=(3, system.n_u))
    batch = system.batch(lanes=2).rollout(q, v, u, step_s=1e-3, steps=20)
    for row in range(3):
        simulation = Simulation(system, step_s=1e-3, stepper="rk4", stabilizer="none")
        simulation.reset(q[row], v[row])
        simulation.set_effort(u[row])
        simulation.step(20)
        assert differs(batch.q[row, -1], simulation.state.q) < AGREEMENT
        assert differs(batch.v[row, -1], simulation.state.v) < AGREEMENT


def test_the_derivatives_of_a_rolled_system_are_those_of_an_unrolled_one() -> None:
    rolled, unrolled = (assemble(MECHANISMS["tree"], rolled=way) for way in (True, False))
    random = np.random.default_rng(5)
    q, v = random.normal(size=(2, rolled.n_q))
    ours, theirs = (system.derivatives(0.0, q, v) for system in (rolled, unrolled))
    assert differs(ours.a_q, theirs.a_q) < AGREEMENT
    assert differs(ours.a_v, theirs.a_v) < AGREEMENT


def test_a_rolled_system_is_loaded_from_the_cache() -> None:
    mechanism = MECHANISMS["chain"]
    first = assemble(mechanism, rolled=True)
    second = assemble(mechanism, rolled=True)
    assert second.code_hash == first.code_hash != assemble(mechanism, rolled=False).code_hash


REFUSED = {
    "bodies in space in absolute coordinates": build("epicyclic_gear_train"),
    "absolute angles": build("double_pendulum", coordinates="absolute_angle"),
    "beams": build("gibbon"),
}


@pytest.mark.parametrize("part", REFUSED)
def test_what_cannot_be_rolled_is_refused_by_name(part: str) -> None:
    with pytest.raises(InvalidRequest, match=rf"cannot be rolled, because it has .*{part}.*; .* rolled=False, or "):
        assemble(REFUSED[part], rolled=True)


def test_by_default_long_chains_are_rolled_and_short_or_branched_trees_are_not() -> None:
    assert [n for n in (5, 10, 15, 30, 60) if is_rolled(tree(n))] == [30, 60]
    assert [n for n in (15, 60, 255) if is_rolled(tree(n, branches=2))] == [255]
    assert not is_rolled(tree(60), forced=False)
    assert is_rolled(tree(1000, branches=1))


def test_straight_line_derivatives_of_a_long_chain_are_refused_before_their_derivation() -> None:
    system = assemble(tree(400))
    assert system.is_rolled
    advice: dict[str, Callable[[], Any]] = {
        r"loops over the links \(rolled = true\) compile in seconds": lambda: assemble(tree(400), rolled=False),
        "to compile all the same, give compile_limit_s": lambda: system.derivatives(0.0, np.zeros(400), np.zeros(400)),
        "these are the limits of all CasADi functions; use numbers": system.casadi,
        "these are the limits of C and object files": lambda: export_files(system.mechanism, "c"),
        "these are the limits of every Batch; simulate such systems one by one": system.batch,
    }
    for text, request in advice.items():
        with pytest.raises(CompilationTooLarge, match=text):
            request()


def test_a_size_whose_mass_matrix_does_not_fit_memory_is_refused_before_it_is_derived(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(native, "sole_compiler", lambda _: pytest.fail("derived before the refusal"))
    with pytest.raises(InvalidRequest, match=r"its 9,000 coordinates would take about 2\.6 GB .* the limit is 2 GB"):
        assemble(tree(9000))


def test_arrays_on_the_heap_give_the_numbers_of_arrays_on_the_stack(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    expected = results(assemble(MECHANISMS["tree"], rolled=True))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(rolled_kernels, "MOST_ON_STACK", 0)
    for what, value in results(assemble(MECHANISMS["tree"], rolled=True)).items():
        assert np.array_equal(np.asarray(value), np.asarray(expected[what])), what


def test_results_that_depend_on_each_other_or_are_deep_are_written_without_vectors() -> None:
    a, b = ca.SX.sym("a", 3), ca.SX.sym("b", 3)
    sums = [a[0] + b[0]]
    for k in (1, 2):
        sums.append(sums[-1] + b[k])
    deep = a
    for _ in range(400):
        deep = ca.sqrt(deep * deep + b)
    found = [text_of(program_of(ca.Function("step", [a, b], [result])), "step")[0]
             for result in (a + b, ca.vertcat(*sums), deep)]  # fmt: skip
    assert ["<3 x double>" in text for text in found] == [True, False, False]


def test_the_start_of_a_long_chain_is_checked_without_its_equations_written_out() -> None:
    chain = tree(1000)
    found = list[object]()
    assert lines_run(lambda: found.extend([checked_rows(chain), violated_at_start(chain)])) < 400 * 1000
    assert found == [[], ""]


def lines_run(work: Callable[[], Any]) -> int:
    """Number of lines of Python that a function runs, with every round of a loop."""
    count = 0

    def trace(_frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize("counts", [(40, 80, 320), pytest.param((40, 160, 1280), marks=pytest.mark.soak)])
def test_derivation_emission_and_checks_of_rolled_kernels_grow_with_the_number_of_links_and_no_faster(
    counts: tuple[int, int, int],
) -> None:
    def work(mechanism: Mechanism) -> None:
        assert is_rolled(mechanism)  # the checks of shorter chains write their equations out
        derivation = derive_rolled(mechanism)
        module_of_rolled(derivation.kernels, derivation.tables)
        assert checked_rows(mechanism) == []
        assert violated_at_start(mechanism) == ""

    few, many, most = (lines_run(partial(work, tree(n))) for n in counts)
    assert (most - many) / (counts[2] - counts[1]) <= 1.1 * (many - few) / (counts[1] - counts[0])


def test_the_fastest_mode_of_a_long_chain_is_found_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    chain = tree(220)
    stiff = dataclasses.replace(chain.joints[100], spring=JointSpring(stiffness=3e5))
    joints = (*chain.joints[:100], stiff, *chain.joints[101:])
    with pytest.warns(StepTooLargeWarning, match="spring of joint 'joint_100'"):
        simulation = Simulation(assemble(dataclasses.replace(chain, joints=joints)))
    modes = simulation._checks._fastest
    dense = np.linalg.eigvals(modes._linearized()[1])
    dense = dense[dense.imag >= 0.0]
    x = np.random.default_rng(0).normal(size=220)
    assert differs(modes._fast_modes.inertial(x), modes._M @ x) < 1e-10
    assert abs(modes._unresolved()[0][0] - dense[np.argmax(np.abs(dense))]) < 1e-3 * np.abs(dense).max()
    looked_at: list[float] = []  # a cause is looked for in so few earlier states that the run is not held up
    monkeypatch.setattr(modes, "_check", lambda _: looked_at.append(float(modes._w.t[0])))
    modes.check_past(np.arange(32.0)[:, None] * np.ones(1 + 2 * 220), departed=True)
    assert looked_at == [31.0]
    with warnings.catch_warnings():
        warnings.simplefilter("error", StepTooLargeWarning)
        Simulation(assemble(chain))
