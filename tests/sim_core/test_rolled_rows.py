"""Loops over the constraint rows of a tree give the numbers of straight-line kernels."""

from __future__ import annotations

import dataclasses
import warnings
from functools import partial
from typing import Any

import casadi as ca
import numpy as np
import pytest

from armswing import build
from sim_core import Simulation, forward_dynamics, inverse_dynamics
from sim_core.derivation.equations import derive
from sim_core.derivation.rolled.constraints.elimination import Elimination, _filled, _in_rounds, _least_fill
from sim_core.derivation.rolled.kernels import derive_rolled
from sim_core.derivation.start import checked_rows, violated_at_start
from sim_core.errors import DescriptionWarning, InvalidMechanism
from sim_core.kernels.bound import BoundKernel
from sim_core.kernels.choice import MOST_UNROLLED, choice_text, costly_rows, is_rolled, operations
from sim_core.kernels.machine_code import native
from sim_core.kernels.rolled import RolledKernel, module_of_rolled
from sim_core.mechanism import (
    GROUND,
    Actuator,
    Anchored,
    Coincidence,
    Distance,
    JointOutput,
    JointRelation,
    Mechanism,
    Perpendicular,
    PointOutput,
    PrescribedMotion,
    Rolling,
    Slider,
    SphereContact,
    SpinRelation,
    Spring,
    Touching,
    Tunable,
    X,
    Y,
    Z,
)
from sim_core.mechanism.description import ORIGIN, Body, ConstraintMode, Joint
from sim_core.mechanism.outputs import (
    AccelerometerOutput,
    ContactForceOutput,
    ForceTorqueOutput,
    ReactionOutput,
)
from sim_core.mechanism.rolling import SlipOutput
from sim_core.stabilization.registry import STABILIZERS, stabilizer_named
from sim_core.system import System, assemble
from tests.sim_core.test_rolled import AGREEMENT, differs, lines_run, tree

pytestmark = pytest.mark.filterwarnings(
    "ignore::sim_core.errors.DescriptionWarning", "ignore::sim_core.errors.StartWarning"
)
POINT, OTHER = (0.1, -0.05, 0.02), (0.03, 0.1, -0.04)
ENDS = {"point_a": POINT, "point_b": OTHER}


def constrained() -> Mechanism:
    """A tree with all kinds of constraints, of which some do not always hold."""
    bare = tree(9, 2, ("revolute", "prismatic"), branches=2)
    constraints = (
        Distance(name="rod", body_a="body_7", body_b="body_4", length=0.7, **ENDS),
        Coincidence(name="sliding", body_a="body_8", body_b=GROUND, directions=(Y, Z), **ENDS),
        SpinRelation(name="mesh", terms=(("body_5", X, 0.5), ("body_6", (0.0, 0.6, 0.8), 0.7))),
        Slider(name="slider", body_a="body_2", axis_a=Y, body_b="body_4", **ENDS),
        Perpendicular(name="square", body_a="body_4", axis_a=Y, body_b="body_2", axis_b=Z),
        JointRelation(name="gear", terms=(("joint_1", 1.0), ("joint_3", -0.7)), offset=0.1),
        Anchored(name="held", body="body_4", point=POINT, axis=Z, at=Tunable("height", 0.3)),
    )
    names = [constraint.name for constraint in constraints]
    return dataclasses.replace(
        bare,
        name="constrained",
        constraints=constraints,
        constraint_modes=(
            ConstraintMode(name="most", constraints=tuple(name for name in names if name != "held")),
            ConstraintMode(name="all"),
            ConstraintMode(name="few", constraints=("rod", "mesh")),
        ),
        outputs=(*bare.outputs, ReactionOutput(name="torque", constraint="gear")),
        open_start=True,
    )


def on_wheels() -> Mechanism:
    """A tree with wheels, prescribed motions, and load cells behind which these and other forces act."""
    bare = tree(11, 3, ("revolute", "prismatic", "fixed", "revolute", "fixed"), branches=2)
    wheel: dict[str, Any] = {"axis": Y, "radius": 0.2, "center": POINT}
    constraints = (
        Touching(name="ball", body="body_8", radius=0.1, center=OTHER),
        Rolling(name="mecanum", body="body_9", other_point=OTHER, rollers=0.7, **wheel),
        Rolling(name="rolls", body="body_6", other="body_3", normal=X, **wheel),
        PrescribedMotion(name="turned", joint="joint_10", motion=lambda t: 0.2 + ca.sin(3.0 * t + 0.4)),
        PrescribedMotion(name="pulled", body="body_5", point=POINT, axis=(0.0, 0.6, 0.8), input="winch"),
    )
    foot = {"radius": 0.7, "stiffness": 40.0, "friction": 0.4, "slip_velocity": 0.5}
    return dataclasses.replace(
        bare,
        name="on_wheels",
        constraints=constraints,
        actuators=(*bare.actuators, Actuator(name="winch")),
        springs=(
            Spring(name="across", body_a="body_2", body_b="body_9", stiffness=20.0, rest_length=0.1, **ENDS),
            Spring(name="inside", body_a="body_1", body_b="body_4", stiffness=20.0, rest_length=0.1, **ENDS),
        ),
        contacts=(SphereContact(name="foot", body="body_10", **foot),),
        pushable=("body_2", "body_9"),
        outputs=(
            *bare.outputs,
            *(ForceTorqueOutput(name=f"load {k}", joint=f"joint_{k}", point=POINT) for k in (1, 2, 4, 9)),
            AccelerometerOutput(name="accelerometer", body="body_9", point=POINT),
            ReactionOutput(name="torque", constraint="turned"),
            ContactForceOutput(name="pressed", contact="ball"),
            *(SlipOutput(name=name, constraint=name) for name in ("mecanum", "rolls")),
        ),
        open_start=True,
    )


def with_balls() -> Mechanism:
    """A tree with spherical joints and constraints."""
    bare = tree(2, 6, ("spherical", "revolute"))
    rod = Distance(name="rod", body_a="body_1", body_b=GROUND, length=0.7, **ENDS)
    mesh = SpinRelation(name="mesh", terms=(("body_0", X, 0.5), ("body_1", (0.0, 0.6, 0.8), 0.7)))
    return dataclasses.replace(bare, name="balls", constraints=(mesh, rod), open_start=True)


def planar() -> Mechanism:
    """Planar bodies in absolute coordinates, with forces, a slider and a joint that does not always hold."""
    center = (0.1, -0.05, 0.0)
    bodies = tuple(
        Body(name=f"bar_{k}", mass=1.0 + k, inertia=(0.0, 0.0, 0.2, 0.0, 0.0, 0.0), center_of_mass=at)
        for k, at in enumerate((center, ORIGIN, center))
    )
    joints = (
        Joint(name="pin", parent=GROUND, child="bar_0", child_point=(-0.5, 0.0, 0.0), damping=0.2, load=0.3),
        Joint(name="elbow", parent="bar_0", child="bar_1", parent_point=(0.5, 0.0, 0.0), child_point=center),
        Joint(name="rail", kind="prismatic", parent=GROUND, child="bar_2", axis=X, parent_point=(0.0, 1.0, 0.0)),
    )
    ends = {"point_a": (0.1, 0.2, 0.0), "point_b": (0.3, -0.1, 0.0)}
    return Mechanism(
        name="planar",
        coordinates="absolute",
        bodies=bodies,
        joints=joints,
        constraints=(
            Distance(name="rod", body_a="bar_1", body_b="bar_2", length=1.3, **ends),
            Rolling(
                name="rolls", body="bar_1", center=center, radius=0.2, axis=Z, other="bar_2", normal=Y, rollers=0.0
            ),
        ),
        constraint_modes=(ConstraintMode(), ConstraintMode(name="cut", constraints=("pin", "rail", "rod"))),
        springs=(Spring(name="spring", body_a="bar_0", body_b="bar_2", stiffness=20.0, rest_length=0.5, **ends),),
        actuators=(Actuator(name="motor", joint="elbow"), Actuator(name="drive", joint="rail")),
        outputs=(JointOutput(name="angle", joint="elbow"), PointOutput(name="tip", body="bar_2")),
        gravity=(0.0, -9.81, 0.0),
        initial_q=(0.5, 0.0, 0.0, 0.9, 0.1, 0.2, 0.3, 1.0, 0.0),
        initial_v=(0.0,) * 9,
        open_start=True,
    )


MECHANISMS = {
    "planar": planar(),
    "four_bar_chain": build("four_bar_chain", loops=3),
    "constrained": constrained(),
    "balls": with_balls(),
    "on wheels": on_wheels(),
    "charmie": build("charmie", loops="closed"),
    "gibbon": build("gibbon", line="bars"),
}


def four_bars(loops: int) -> Mechanism:
    """Four-bars side by side in joint coordinates, each with two rockers and a coupler."""
    bar: dict[str, Any] = {"mass": 1.0, "inertia": (0.1, 0.1, 0.1, 0.0, 0.0, 0.0), "center_of_mass": (0.5, 0.0, 0.0)}
    bodies, joints, constraints = list[Body](), list[Joint](), list[Coincidence]()
    for k in range(loops):
        names = [f"{name}_{k}" for name in ("left", "coupler", "right")]
        bodies += [Body(name=name, **bar) for name in names]
        foot, tip = (2.0 * k, 0.0, 0.0), (1.0, 0.0, 0.0)
        joints += [
            Joint(name=f"a_{k}", parent=GROUND, child=names[0], parent_point=foot, axis=Z),
            Joint(name=f"b_{k}", parent=names[0], child=names[1], parent_point=tip, axis=Z),
            Joint(name=f"c_{k}", parent=GROUND, child=names[2], parent_point=(2.0 * k + 1.0, 0.0, 0.0), axis=Z),
        ]
        ends = {"body_a": names[1], "point_a": tip, "body_b": names[2], "point_b": tip}
        constraints.append(Coincidence(name=f"loop_{k}", **ends))
    return Mechanism(
        name=f"four_bars_{loops}",
        coordinates="joint",
        bodies=tuple(bodies),
        joints=tuple(joints),
        constraints=tuple(constraints),
        gravity=(0.0, -9.81, 0.0),
        initial_q=(1.2, -1.2, 1.2) * loops,
        initial_v=(0.1, -0.1, 0.1) * loops,
    )


def results(system: System) -> dict[str, object]:
    random = np.random.default_rng(7)
    q, v, tau = 0.8 * random.normal(size=(3, system.n_q))
    u, p = random.normal(size=system.n_u), system.default_parameters()
    p[[k for k, name in enumerate(system.parameter_names) if ".push." in name]] = 0.7
    U, r2, lam = random.normal(size=(3, system.max_rows))
    M, f, J, gamma = system.terms(0.0, q, v, u, p)
    a, multipliers, factor = system.acceleration(0.0, q, v, u, p, U)
    x, y = system.apply(factor, tau, r2)
    Phi, Phidot = system.residual(0.0, q, v, p)
    inputs, mechanism = [np.zeros(1), q, v, u, p], system.mechanism
    captured, guards = np.zeros(len(mechanism.captured_constraints)), np.zeros(len(mechanism.guards))
    system.bind("captures", inputs, [captured])()
    system.bind("guards", [*inputs, lam], [guards])()
    power = np.zeros(1)
    system.bind("power", inputs, [power])()
    wrong = a + 0.1 * random.normal(size=system.n_q) * np.abs(a).max()
    return {
        "M": M, "f": f, "J": J, "gamma": gamma, "a": a, "lam": multipliers, "M a + J' lam": M @ a + J.T @ multipliers,
        "x": x, "y": y, "Phi": Phi, "Phidot": Phidot, "captured": captured, "guards": guards, "power": power,
        "forward dynamics": forward_dynamics(system, q, v, tau, p=p),
        "inverse dynamics": inverse_dynamics(system, q, v, tau, p),
        "energy": system.energy(0.0, q, v, p), "outputs": list(system.outputs(0.0, q, v, p, u).values()),
        "joints": system.joints(0.0, q, v, p), "poses": system.poses(0.0, q, v, p)[0],
        "least norm": system.least_norm(0.0, q, v, r2, p),
        "residual of a wrong solution": system.solve_residual(0.0, q, v, wrong, p, U),
    }  # fmt: skip


@pytest.mark.parametrize("name", MECHANISMS)
def test_rolled_and_unrolled_rows_give_the_same_numbers(name: str) -> None:
    rolled, unrolled = (assemble(MECHANISMS[name], rolled=way) for way in (True, False))
    assert (rolled.is_rolled, unrolled.is_rolled) == (True, False)
    assert rolled.constraint_modes == tuple(
        dataclasses.replace(mode, factor_size=rolled.max_factor) for mode in unrolled.constraint_modes
    )
    assert rolled.lengths == unrolled.lengths
    assert bool(rolled.pivot_rows) == bool(unrolled.pivot_rows)
    assert rolled.max_rows > 0
    expected = results(unrolled)
    for what, value in results(rolled).items():
        assert differs(value, expected[what]) < AGREEMENT, what


@pytest.mark.parametrize("stabilizer", STABILIZERS)
@pytest.mark.parametrize("name", ["charmie", "gibbon", "four_bar_chain"])
def test_a_simulation_takes_the_same_steps_with_rolled_rows(name: str, stabilizer: str) -> None:
    found = []
    for way in (True, False):
        simulation = Simulation(assemble(MECHANISMS[name], rolled=way), stabilizer=stabilizer_named(stabilizer))
        if simulation.system.n_u:
            simulation.set_effort(3.0 * np.sin(np.arange(1.0, simulation.system.n_u + 1.0)))
        simulation.advance(0.05)
        assert np.abs(simulation.state.v).max() > 0.1
        found.append((simulation.state.q, simulation.state.v, simulation.multipliers(), simulation.energy()))
    for ours, expected in zip(*found, strict=True):
        assert differs(ours, expected) < 20 * AGREEMENT


def test_a_rolled_simulation_with_rows_continues_from_a_snapshot_with_the_same_bytes() -> None:
    system = assemble(MECHANISMS["charmie"], rolled=True)
    whole, first, second = (Simulation(system) for _ in range(3))
    whole.advance(0.02)
    first.advance(0.01)
    second.restore(first.state)
    second.advance(0.01)
    for name in ("q", "v"):
        assert getattr(second.state, name).tobytes() == getattr(whole.state, name).tobytes()


def test_the_lanes_of_a_batch_follow_rolled_simulations_with_rows() -> None:
    mechanism = four_bars(1)
    system = assemble(mechanism, rolled=True)
    speeds = np.array([[0.1], [-0.7], [1.3]]) * np.array(mechanism.initial_v)
    places = np.tile(mechanism.initial_q, (3, 1))
    batch = system.batch(lanes=2).rollout(places, speeds, step_s=1e-3, steps=20, stabilizer="sampled_fuzzy")
    for row in range(3):
        simulation = Simulation(system, step_s=1e-3, stepper="rk4", stabilizer="sampled_fuzzy")
        simulation.reset(places[row], speeds[row])
        simulation.step(20)
        assert differs(batch.q[row, -1], simulation.state.q) < 20 * AGREEMENT
        assert differs(batch.v[row, -1], simulation.state.v) < 20 * AGREEMENT


def test_the_gear_train_in_joint_coordinates_is_rolled_and_moves_as_that_with_euler_parameters() -> None:
    absolute = build("epicyclic_gear_train")
    joint = dataclasses.replace(
        absolute,
        coordinates="joint",
        initial_q=(0.0,) * 4,
        initial_v=(0.0,) * 4,
    )
    rolled, unrolled = (assemble(joint, rolled=way) for way in (True, False))
    expected = results(unrolled)
    for what, value in results(rolled).items():
        assert differs(value, expected[what]) < AGREEMENT, what
    ours, theirs = (Simulation(system) for system in (rolled, assemble(absolute)))
    for simulation in (ours, theirs):
        simulation.advance(0.1)
    assert differs(list(ours.outputs().values()), list(theirs.outputs().values())) < 1e-9


def test_loops_that_cost_less_in_absolute_coordinates_are_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    side_by_side = four_bars(1)
    operations = derive_rolled(side_by_side).facts["row_operations"]
    assert costly_rows(side_by_side, operations) == []
    assert costly_rows(build("four_bar_chain"), 10**9) == []
    monkeypatch.setattr("sim_core.kernels.choice.MOST_OF_ROWS", 0.0)
    said = partial(
        pytest.warns, DescriptionWarning, match=rf'about {operations:,} operations .* coordinates="absolute"'
    )
    with said():
        assemble(side_by_side, rolled=True)
    with said():
        assemble(side_by_side, rolled=True)  # from the cache
    monkeypatch.setattr(native, "load_shared", lambda key: None)
    monkeypatch.setattr(native, "compile_module", lambda *_: pytest.fail("compiled before the warning"))
    with warnings.catch_warnings():
        warnings.simplefilter("error", DescriptionWarning)
        with pytest.raises(DescriptionWarning):
            assemble(side_by_side, rolled=True)


def test_a_hand_of_a_rolled_gibbon_lets_go_and_grips_again_at_the_same_time() -> None:
    found = []
    for way in (True, False):
        simulation = Simulation(assemble(MECHANISMS["gibbon"], rolled=way))
        for effort, seconds in (((0.0, 1.0, 0.0), 0.05), ((5.0, 1.0, 1.0), 0.6)):
            simulation.set_effort(effort)
            simulation.advance(seconds)
        events = simulation.take_events()
        found.append((events, simulation.state.q))
    assert [(each.kind, each.time) for each in found[0][0]] == [(each.kind, each.time) for each in found[1][0]]
    assert [each.kind for each in found[0][0]] == ["release", "grip"]
    assert differs(found[0][1], found[1][1]) < 100 * AGREEMENT


def test_the_start_of_a_rolled_mechanism_with_rows_is_checked() -> None:
    planes = dataclasses.replace(constrained(), constraint_modes=(ConstraintMode(),))
    rolled, unrolled = (checked_rows_way(planes, way) for way in (True, False))
    assert rolled == unrolled


def checked_rows_way(mechanism: Mechanism, rolled: bool) -> tuple[list[str], str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sim_core.derivation.start.is_rolled", lambda _: rolled)
        return checked_rows(mechanism), violated_at_start(mechanism)


def test_rows_that_no_coordinate_moves_are_left_out_or_refused() -> None:
    loops = four_bars(1)
    idle = Perpendicular(name="flat", body_a="left_0", axis_a=X, body_b=GROUND, axis_b=Z)
    system = assemble(dataclasses.replace(loops, constraints=(*loops.constraints, idle)), rolled=True)
    assert system.constraint_modes[0].row_names == ("loop_0", "loop_0")
    contradiction = dataclasses.replace(loops, constraints=(dataclasses.replace(idle, axis_a=Z),))
    with pytest.raises(InvalidMechanism, match="constraint 'flat' cannot hold: one of its rows is 1 wherever"):
        assemble(contradiction, rolled=True)


def test_a_commanded_velocity_of_a_rolled_crank_jumps_and_its_work_is_counted() -> None:
    loops = four_bars(1)
    driven = PrescribedMotion(name="driven", joint="a_0", input="speed")
    crank = dataclasses.replace(
        loops, constraints=(*loops.constraints, driven), actuators=(Actuator(name="speed", start=0.1),)
    )
    simulation = Simulation(assemble(crank, rolled=True))
    simulation.advance(0.5)
    assert abs(simulation.energy_ledger.work) > 0.1
    assert simulation.energy_ledger.largest < 1e-9
    simulation.set_effort([-2.0])
    simulation.advance(0.2)
    assert simulation.state.v[0] == pytest.approx(-2.0, abs=1e-9)


def test_the_derivation_of_rolled_rows_grows_with_the_number_of_loops_and_no_faster() -> None:
    def work(loops: int) -> None:
        derivation = derive_rolled(four_bars(loops))
        module_of_rolled(derivation.kernels, derivation.tables)

    few, many, most = (lines_run(partial(work, loops)) for loops in (2, 4, 10))
    assert (most - many) / 6 <= 1.1 * (many - few) / 2


def test_a_chain_of_blocks_is_eliminated_from_both_ends_and_a_grid_without_more_fill() -> None:
    chain = [{k for k in (i - 1, i + 1) if 0 <= k < 6} for i in range(6)]
    assert _in_rounds(chain, range(6)) == [0, 5, 1, 4, 2, 3]
    n = 12
    grid = [{j for j in range(n * n) if abs(j // n - i // n) + abs(j % n - i % n) == 1} for i in range(n * n)]
    orders = [least := _least_fill(grid), _in_rounds(grid, least)]
    fills = [_filled(grid, order, {block: k for k, block in enumerate(order)}) for order in orders]
    pairs = [{frozenset((i, j)) for i, below in zip(order, fill, strict=True) for j in below}
             for order, fill in zip(orders, fills, strict=True)]  # fmt: skip
    assert pairs[0] == pairs[1]


@pytest.mark.parametrize("most_fused", [0, 3])
def test_a_factor_of_blocks_solves_a_sparse_system(most_fused: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sim_core.derivation.rolled.constraints.elimination.MOST_FUSED", most_fused)
    random, sizes = np.random.default_rng(3), [1, 2, 3, 2, 1, 3, 2, 2, 1, 3]
    pairs = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0), (6, 2), (7, 5), (8, 9), (9, 3), (1, 9), (6, 7)]
    firsts = np.concatenate([[0], np.cumsum(sizes)])
    A = np.zeros((firsts[-1], firsts[-1]))
    made = Elimination(sizes, pairs, "S", "pivots")
    S, pivots, x = np.zeros(made.size), np.zeros(len(A)), random.normal(size=len(A))
    for i, j in [(i, i) for i in range(len(sizes))] + pairs:
        block = random.normal(size=(sizes[i], sizes[j]))
        block = 20.0 * np.eye(sizes[i]) + block + block.T if i == j else block
        rows, columns = (slice(firsts[k], firsts[k + 1]) for k in (i, j))
        A[rows, columns], A[columns, rows] = block, block.T
        at, turned = made.entry(i, j)
        S[at.first : at.first + at.width] = (block.T if turned else block).ravel(order="F")
    expected = np.linalg.solve(A, x)
    kernel = RolledKernel("solve", ("p",), ("S", "pivots", "x"), {}, [*made.factorization, *made.solve("x")])
    library = native.linked(module_of_rolled([kernel], {}), ["solve"])
    BoundKernel(library.addresses["solve"], [np.zeros(1)], [S, pivots, x], library)()
    assert differs(x, expected) < AGREEMENT
    assert np.linalg.slogdet(A)[1] == pytest.approx(-np.log(pivots).sum(), rel=1e-12)
    assert sorted(made.rows) == list(range(len(A)))


def test_a_robot_whose_joints_follow_others_is_rolled_when_straight_line_code_compiles_too_long() -> None:
    free = tree(80, branches=2)
    followers = tuple(
        JointRelation(name=f"follower_{k}", terms=((f"joint_{k}", 1.0), (f"joint_{k + 1}", -1.0)))
        for k in range(40, 78)
    )
    related = dataclasses.replace(free, constraints=followers)
    few = dataclasses.replace(free, constraints=followers[:2])
    assert [is_rolled(each) for each in (free, few, related)] == [False, False, True]
    assert operations(few)[0] < MOST_UNROLLED < operations(related)[0] < 0.47 * operations(related)[1]
    text = choice_text(related)
    assert text.startswith("loops over links")
    assert text.endswith("more than the 30,000 that compile in some ten seconds")
    assert "ten seconds" not in choice_text(few)


def test_the_estimated_operations_of_joint_relations_are_those_of_the_kernels() -> None:
    free = tree(24, branches=2)
    followers = tuple(
        JointRelation(name=f"follower_{k}", terms=((f"joint_{k}", 1.0), (f"joint_{k + 1}", -1.0)))
        for k in range(11, 23)
    )
    related = dataclasses.replace(free, constraints=followers, open_start=True)
    sizes = [derive(each).functions["default.acceleration"].n_instructions() for each in (free, related)]
    estimates = [operations(each)[0] for each in (free, related)]
    assert estimates[1] - estimates[0] == pytest.approx(sizes[1] - sizes[0], rel=0.5)
