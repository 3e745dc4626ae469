"""Closed loops of heavy and light bodies: accelerations beside a solve in extended precision.

The reference takes M, f, J, gamma from the system and solves them with 64-bit mantissas; rows that follow from others
are left out there.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable

import casadi as ca
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robots.registry import build
from sim_core.derivation.equations import derive
from sim_core.errors import ResidualWarning
from sim_core.mechanism import Body, Coincidence, Distance, Joint, Mechanism, Tunable, Vector3
from sim_core.simulation import Simulation
from sim_core.solve import is_ill_conditioned
from sim_core.system import assemble

KINDS = ("planar", "zxz", "euler_parameters", "joint")
DEPENDENT = 1e-9  # of a row in the metric of M^-1: what is left of it beside rows that it follows from


def polygon(random: np.random.Generator, n: int) -> list[np.ndarray]:
    """Corners of a closed loop of n links that no two neighbours of which are nearly in line."""
    angles = 2 * np.pi * (np.arange(n) + random.uniform(-0.25, 0.25, n)) / n
    return [random.uniform(0.6, 1.4) * np.array([np.cos(angle), np.sin(angle)]) for angle in angles]


def rod(random: np.random.Generator, name: str, mass: float, length: float, kind: str, placed: tuple) -> Body:  # type: ignore[type-arg]
    I = mass * (0.1 * length) ** 2 * np.array([*random.uniform(0.8, 1.2, 2), 1.0, *random.uniform(-0.1, 0.1, 3)])
    orientation = "planar" if kind == "joint" else kind
    return Body(name=name, mass=mass, inertia=tuple(I.tolist()), orientation=orientation, placement=placed)  # type: ignore[arg-type]


def coordinates_of(kind: str, x: float, y: float, angle: float) -> tuple[float, ...]:
    if kind == "planar":
        return (x, y, angle)
    if kind == "zxz":
        return (x, y, 0.0, angle - 0.7, 0.9, 0.7)
    return (x, y, 0.0, np.cos(angle / 2), 0.0, 0.0, np.sin(angle / 2))


def closed_loop(seed: int, kind: str, formulation: str, leaf: float, path: float) -> Mechanism:
    """A loop of four to six links on the ground with one or two discs on the links.

    leaf, path  largest mass ratio of a disc to its link, and of a link to another
    zxz and Euler parameters: the loop is in space, so that three of its rows follow from the others; Euler angles keep
    away from their singularity, which puts the axes of the bodies at an angle to those of the joints
    """
    random = np.random.default_rng(seed)
    corners = polygon(random, int(random.integers(4, 7)))
    n = len(corners) - 1  # moving links
    masses = 10.0 * np.exp(-np.log(path) * random.uniform(0.0, 1.0, n))
    masses[random.integers(n)] = 10.0
    masses[random.integers(n)] = 10.0 / path
    bodies: list[Body] = []
    joints: list[Joint] = []
    q: list[float] = []
    lengths = [float(np.linalg.norm(corners[k + 1] - corners[k])) for k in range(n)]
    turns = [float(np.arctan2(*(corners[k + 1] - corners[k])[::-1])) for k in range(n)]
    tilt = spatial_tilt(kind)

    def local(x: float) -> Vector3:
        """A point on a link's line, in the axes of its body."""
        return tuple((tilt.T @ np.array([x, 0.0, 0.0])).tolist())

    def joint(name: str, parent: str, child: str, at: Vector3, from_: Vector3) -> Joint:
        axis = (0.0, 0.0, 1.0) if parent == "ground" else tuple((tilt.T @ np.array([0.0, 0.0, 1.0])).tolist())
        R = tilt if parent == "ground" else np.eye(3)
        return Joint(
            name=name, parent=parent, child=child, parent_point=at, child_point=from_, axis=axis,
            rotation=tuple(map(tuple, R.tolist())),
        )  # fmt: skip

    for k in range(n):
        middle = (corners[k] + corners[k + 1]) / 2
        placed = coordinates_of(kind, *middle.tolist(), turns[k]) if kind != "joint" else ()
        bodies.append(rod(random, f"link{k}", float(masses[k]), lengths[k], kind, ()))
        parent = f"link{k - 1}" if k else "ground"
        at: Vector3 = local(lengths[k - 1] / 2) if k else (*corners[0].tolist(), 0.0)
        joints.append(joint(f"j{k}", parent, f"link{k}", at, local(-lengths[k] / 2)))
        q += placed if kind != "joint" else (turns[k] - (turns[k - 1] if k else 0.0),)
    constraints: tuple[Coincidence, ...] = ()
    last = local(lengths[-1] / 2)
    end: Vector3 = (*corners[-1].tolist(), 0.0)
    if kind == "joint":
        constraints = (Coincidence(name="end", body_a=f"link{n - 1}", point_a=last, body_b="ground", point_b=end),)
    else:
        joints.append(joint("end", "ground", f"link{n - 1}", end, last))
    for k in range(int(random.integers(1, 3))):
        link = int(random.integers(n))
        along, turn = float(random.uniform(-0.4, 0.4)) * lengths[link], float(random.uniform(-2.0, 2.0))
        mass = float(masses[link]) / leaf ** float(random.uniform(0.0, 1.0) if k else 1.0)
        R2 = np.array([np.cos(turns[link]), np.sin(turns[link])])
        x, y = ((corners[link] + corners[link + 1]) / 2 + along * R2).tolist()
        placed = coordinates_of(kind, x, y, turns[link] + turn) if kind != "joint" else ()
        bodies.append(rod(random, f"disc{k}", mass, 0.3, kind, ()))
        joints.append(joint(f"d{k}", f"link{link}", f"disc{k}", local(along), (0.0, 0.0, 0.0)))
        q += placed if kind != "joint" else (turn,)
    return Mechanism(
        name=f"loop_{seed}",
        coordinates="joint" if kind == "joint" else "absolute",
        formulation=formulation,  # type: ignore[arg-type]
        bodies=tuple(bodies),
        joints=tuple(joints),
        constraints=constraints,
        gravity=(0.0, -9.81, 0.0),
        initial_q=tuple(float(x) for x in q),
        initial_v=(0.0,) * len(q),
    )


def spatial_tilt(kind: str) -> np.ndarray:
    """R from a body's axes to those of its link: Euler angles (angle - 0.7, 0.9, 0.7) are no turn about z alone."""
    if kind != "zxz":
        return np.eye(3)
    c, s = np.cos, np.sin

    def about_z(a: float) -> np.ndarray:
        return np.array([[c(a), -s(a), 0], [s(a), c(a), 0], [0, 0, 1]])

    about_x = np.array([[1, 0, 0], [0, c(0.9), -s(0.9)], [0, s(0.9), c(0.9)]])
    return about_z(-0.7) @ about_x @ about_z(0.7)


# -- extended precision -----------------------------------------------------------------------------------------------


def cholesky(A: np.ndarray) -> np.ndarray:
    L = np.zeros_like(A)
    for j in range(len(A)):
        L[j, j] = np.sqrt(A[j, j] - L[j, :j] @ L[j, :j])
        L[j + 1 :, j] = (A[j + 1 :, j] - L[j + 1 :, :j] @ L[j, :j]) / L[j, j]
    return L


def forward(L: np.ndarray, b: np.ndarray) -> np.ndarray:
    x = np.array(b)
    for k in range(len(L)):
        x[k] = (x[k] - L[k, :k] @ x[:k]) / L[k, k]
    return x


def backward(L: np.ndarray, b: np.ndarray) -> np.ndarray:
    """x of L' x = b."""
    x = np.array(b)
    for k in reversed(range(len(L))):
        x[k] = (x[k] - L[k + 1 :, k] @ x[k + 1 :]) / L[k, k]
    return x


def orthonormal(Y: np.ndarray) -> tuple[np.ndarray, list[int], np.ndarray]:
    """Q, which columns of Y it is made of, and R of these: Y[:, kept] = Q R; the columns that follow are left out."""
    left, kept = list(range(Y.shape[1])), list[int]()
    Q, sizes = np.zeros((len(Y), 0), dtype=Y.dtype), np.sqrt((Y * Y).sum(axis=0))
    rest = Y / np.where(sizes > 0, sizes, 1)
    while left:
        best = max(left, key=lambda k: float(rest[:, k] @ rest[:, k]))
        if float(np.sqrt(rest[:, best] @ rest[:, best])) < DEPENDENT:
            break
        left.remove(best)
        kept.append(best)
        new = rest[:, best]
        for _ in range(2):
            new = new - Q @ (Q.T @ new)
        new = new / np.sqrt(new @ new)
        Q = np.column_stack([Q, new])
        for k in left:
            rest[:, k] -= new * (new @ rest[:, k])
    return Q, kept, Q.T @ Y[:, kept]


class ExtendedPrecision:
    """M a + J' lam = f, J a = gamma in extended precision."""

    def __init__(self, M: np.ndarray, J: np.ndarray) -> None:
        big = np.longdouble
        M, J = np.array(M, dtype=big), np.array(J, dtype=big)
        # Euler parameters: J' J makes M regular and changes no solution, once the targets are met
        if np.linalg.cond(M.astype(float)) > 1e14:
            for row in J:
                reach = np.abs(row) > 0
                if reach.sum() <= 4 and np.linalg.cond(M[np.ix_(reach, reach)].astype(float)) > 1e14:
                    M = M + np.outer(row, row) * np.mean(np.diag(M)[reach])
        self.J, self.L = J, cholesky(M)
        self.Q, self.kept, self.R = orthonormal(forward(self.L, J.T))

    def nearest(self, a: np.ndarray, gamma: np.ndarray) -> np.ndarray:
        """The acceleration (velocity) nearest to a, in the metric of M, with J a = gamma."""
        ahead = np.array(a, dtype=np.longdouble)
        for _ in range(2):
            missing = (np.array(gamma, dtype=np.longdouble) - self.J @ ahead)[self.kept]
            ahead = ahead + backward(self.L, self.Q @ forward(self.R.T, missing))
        return ahead

    def acceleration(self, f: np.ndarray, gamma: np.ndarray) -> np.ndarray:
        return self.nearest(backward(self.L, forward(self.L, np.array(f, dtype=np.longdouble))), gamma)


Kernel = Callable[..., list[np.ndarray]]


def kernels_of(mechanism: Mechanism) -> dict[str, Kernel]:
    """The solving kernels in CasADi's own arithmetic, which takes no time to compile."""
    functions = derive(mechanism).functions

    def evaluated(function: ca.Function) -> Kernel:
        return lambda *inputs: [np.array(result).squeeze(axis=1) if result.shape[1] == 1 else np.array(result)
                                for result in function.call(list(inputs))]  # fmt: skip

    names = ("terms", "acceleration", "apply", "least_norm", "forward_dynamics")
    return {name: evaluated(functions[f"default.{name}"]) for name in names}


def moving(mechanism: Mechanism, kernels: dict[str, Kernel], seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The start and random velocities that keep the rows."""
    q = np.array(mechanism.initial_q)
    v = np.random.default_rng(seed).normal(size=q.size)
    M, _, J, _ = kernels["terms"](0.0, q, v, [], [])
    return q, ExtendedPrecision(M, J).nearest(v, np.zeros(len(J))).astype(float)


def errors(mechanism: Mechanism, seed: int) -> tuple[float, float]:
    """Relative residual of J a = gamma and relative error of a, at the start with random velocities."""
    kernels = kernels_of(mechanism)
    q, v = moving(mechanism, kernels, seed)
    M, f, J, gamma = kernels["terms"](0.0, q, v, [], [])
    a = kernels["acceleration"](0.0, q, v, [], [], np.zeros(len(J)))[0]
    exact = ExtendedPrecision(M, J).acceleration(f, gamma)
    scale = float(np.max(np.abs(J) @ np.abs(a) + np.abs(gamma)))
    residual = float(np.abs(J.astype(np.longdouble) @ a.astype(np.longdouble) - gamma).max()) / scale
    return residual, float(np.abs(a - exact).max() / np.abs(exact).max())


loops = st.tuples(
    st.sampled_from(KINDS),
    st.sampled_from(("schur", "augmented")),
    st.floats(0.0, 8.0),
    st.floats(0.0, 6.0),
    st.integers(0, 10**6),
)


def check_loop(kind: str, formulation: str, leaf: float, path: float, seed: int) -> None:
    residual, error = errors(closed_loop(seed, kind, formulation, 10.0**leaf, 10.0**path), seed)
    assert residual <= 1e-9
    assert error <= 1e-8


@pytest.mark.parametrize("formulation", ["schur", "augmented"])
@pytest.mark.parametrize("kind", KINDS)
def test_light_bodies_in_closed_loops_change_no_digit_of_heavy_ones(kind: str, formulation: str) -> None:
    check_loop(kind, formulation, 8.0, 6.0, 1)


@pytest.mark.parametrize("formulation", ["schur", "augmented"])
@pytest.mark.parametrize(
    ("kind", "seed"), [("planar", 107), ("planar", 121), ("planar", 186), ("zxz", 105), ("euler_parameters", 107)]
)
def test_light_links_between_heavy_ones(kind: str, formulation: str, seed: int) -> None:
    """One or two eigenvalues of S are 1e-7 to 2e-8 of its diagonal there."""
    check_loop(kind, formulation, 0.0, 6.0, seed)


@settings(max_examples=8, deadline=None, derandomize=True)
@given(loops)
def test_random_closed_loops_in_extended_precision(loop: tuple[str, str, float, float, int]) -> None:
    check_loop(*loop)


@pytest.mark.soak
@settings(max_examples=400, deadline=None, derandomize=True)
@given(loops)
def test_many_random_closed_loops_in_extended_precision(loop: tuple[str, str, float, float, int]) -> None:
    check_loop(*loop)


@pytest.mark.soak
@pytest.mark.parametrize("leaf", [0.0, 8.0])
@pytest.mark.parametrize("formulation", ["schur", "augmented"])
@pytest.mark.parametrize("kind", KINDS)
def test_many_closed_loops_of_the_largest_mass_ratios(kind: str, formulation: str, leaf: float) -> None:
    for seed in range(100, 125):
        check_loop(kind, formulation, leaf, 6.0, seed)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("formulation", ["schur", "augmented"])
def test_a_stored_factor_meets_its_targets(kind: str, formulation: str) -> None:
    """Impacts and projections: J x = r2 in the factor that the acceleration leaves, to 1e-9 of its terms."""
    mechanism = closed_loop(1, kind, formulation, 1e8, 1e4)
    kernels = kernels_of(mechanism)
    q, v = moving(mechanism, kernels, 1)
    J = kernels["terms"](0.0, q, v, [], [])[2]
    w = np.random.default_rng(1).normal(size=q.size)
    factor = kernels["acceleration"](0.0, q, v, [], [], np.zeros(len(J)))[2]
    for found in (
        kernels["apply"](factor, np.zeros(q.size), J @ w)[0],
        kernels["least_norm"](0.0, q, v, [], [], J @ w)[0],
    ):
        scale = float((np.abs(J) @ (np.abs(found) + np.abs(w))).max())
        np.testing.assert_allclose(J @ found, J @ w, rtol=0, atol=1e-9 * scale)


@pytest.mark.parametrize(("kind", "path", "ill"), [("planar", 1.0, False), ("planar", 1e6, True), ("zxz", 1.0, False)])
def test_the_refinement_on_the_residual_is_for_light_links_between_heavy_ones(
    kind: str, path: float, ill: bool
) -> None:
    """Rows that follow from others, as in the spatial loop, make no mechanism ill-conditioned."""
    mechanism = closed_loop(107, kind, "schur", 1.0, path)
    M, _, J, _ = kernels_of(mechanism)["terms"](
        0.0, np.array(mechanism.initial_q), [0.0] * len(mechanism.initial_q), [], []
    )
    assert is_ill_conditioned(M, J) is ill


def tunable_loop(mass: float, least: float) -> Mechanism:
    """The loop of equal links above with the mass of one link tunable."""
    plain = closed_loop(107, "planar", "schur", 1.0, 1.0)
    first, *others = plain.bodies
    tunable = dataclasses.replace(first, mass=Tunable("m", mass, least, 100.0, "kg"))
    return dataclasses.replace(plain, bodies=(tunable, *others))


def test_the_equations_depend_on_bounds_of_tunables_and_not_on_their_values() -> None:
    def acceleration(mechanism: Mechanism) -> str:
        return str(derive(mechanism).functions["default.acceleration"].serialize())

    heavy = acceleration(tunable_loop(10.0, 1.0))
    assert acceleration(tunable_loop(1.0, 1.0)) == heavy
    assert acceleration(tunable_loop(10.0, 1e-7)) != heavy


@pytest.mark.parametrize("mass", [1e-6, 1e-3, 10.0])
def test_a_tunable_mass_that_may_become_small_is_solved_as_one(mass: float) -> None:
    mechanism = tunable_loop(mass, 1e-7)
    kernels = kernels_of(mechanism)
    q, p = np.array(mechanism.initial_q), [mass]
    v = np.zeros(len(q))
    M, f, J, gamma = kernels["terms"](0.0, q, v, [], p)
    a = kernels["acceleration"](0.0, q, v, [], p, np.zeros(len(J)))[0]
    exact = ExtendedPrecision(M, J).acceleration(f, gamma)
    assert float(np.abs(a - exact).max() / np.abs(exact).max()) <= 1e-8


def test_a_simulation_knows_its_residual() -> None:
    sim = Simulation(assemble(build("parallelogram_four_bar")))
    with warnings.catch_warnings():
        warnings.simplefilter("error", ResidualWarning)
        sim.advance(0.1)
    assert 0.0 < sim.peak_solve_residual() <= 1e-12
    assert 0.0 <= sim.solve_residual() <= 1e-12
    sim.reset()
    assert sim.peak_solve_residual() == 0.0


def test_rows_that_contradict_each_other_are_said() -> None:
    """A rod of two lengths: none of both can be kept."""
    plain = build("simple_pendulum")
    rod = plain.constraints[0]
    assert isinstance(rod, Distance)
    other = dataclasses.replace(rod, name="other", length=1.01 * rod.length)
    wrong = dataclasses.replace(plain, constraints=(rod, other), open_start=True, initial_v=(0.0, 1.0))
    sim = Simulation(assemble(wrong))
    with pytest.warns(ResidualWarning, match="accelerations miss J a = gamma"):
        sim.advance(0.01)
    assert sim.peak_solve_residual() > 1e-6


@pytest.mark.parametrize("robot", ["gibbon", "four_bar_chain", "epicyclic_gear_train"])
def test_rows_that_do_not_hold_have_no_residual(robot: str) -> None:
    """The hands of a gibbon let go and grip: what the stabilizer asked of a row before is no residual after."""
    sim = Simulation(assemble(build(robot)), step_s=1e-3)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ResidualWarning)
        sim.step(300)
    assert sim.peak_solve_residual() < 1e-9
