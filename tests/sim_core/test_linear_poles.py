"""Poles of linear models against those of models that are written out here and evaluated with 50 digits."""

from __future__ import annotations

from typing import Any

import pytest

from robots.benchmarks import squeezer
from robots.registry import build
from sim_core.analysis.linearization import LinearSystem, closed, linearize
from sim_core.mechanism import Mechanism
from sim_core.mechanism.quantities import value_of
from sim_core.simulation import Simulation
from sim_core.system import assemble

mp, sympy = (pytest.importorskip(name) for name in ("mpmath", "sympy"))

RELATIVE = 1e-9  # of the largest pole
DIGITS = 50
DAMPING = {"arm_damping": 1e-4, "pendulum_damping": 2e-5}  # N m s


def assert_same_poles(model: LinearSystem, A: Any) -> None:
    """Compare the poles of a model with the eigenvalues of a matrix of mpmath."""
    exact = [complex(value) for value in mp.eig(A, left=False, right=False)]
    found = [pole.value for pole in model.poles()]
    assert len(found) == len(exact)
    for value in exact:
        nearest = min(found, key=lambda pole: abs(pole - value))
        assert abs(nearest - value) < RELATIVE * max(map(abs, exact))
        found.remove(nearest)


# -- rotary pendulum --------------------------------------------------------------------------------------------------


def rotary_matrix(mechanism: Mechanism, at: tuple[float, ...]) -> Any:
    """System matrix (4, 4) of the rotary pendulum by its Lagrangian.

    at  (4,) angles of arm and pendulum, and their rates
    """
    arm, pendulum = (mechanism.body(name) for name in ("arm", "pendulum"))
    (m_a, m), (d, c) = (arm.mass, pendulum.mass), (arm.center_of_mass[2], -pendulum.center_of_mass[1])
    I_a, I, reach = arm.inertia[1], pendulum.inertia, mechanism.joint("pendulum").parent_point[2]
    g, m_a, m, d, c, I_a, reach = (sympy.Rational(value_of(x)) for x in (9.81, m_a, m, d, c, I_a, reach))
    q, v = sympy.Matrix(sympy.symbols("theta alpha")), sympy.Matrix(sympy.symbols("theta_rate alpha_rate"))
    (_, alpha), (w_a, w) = q, v
    sine, cosine = sympy.sin(alpha), sympy.cos(alpha)
    speed = sympy.Matrix([c * cosine * w + reach * w_a, c * sine * w, -c * sine * w_a])  # of the pendulum's mass
    spin = (w_a * sine, w_a * cosine, w)  # of the pendulum, in its axes
    T = (I_a + m_a * d**2) * w_a**2 / 2 + m * speed.dot(speed) / 2
    T += sum(sympy.Rational(value_of(moment)) * rate**2 for moment, rate in zip(I[:3], spin, strict=True)) / 2
    V, D = -m * g * c * cosine, sympy.diag(*map(sympy.Rational, DAMPING.values()))
    p = sympy.Matrix([T.diff(rate) for rate in v])
    forces = sympy.Matrix([(T - V).diff(angle) for angle in q]) - p.jacobian(q) * v - D * v
    x = sympy.Matrix([*q, *v])
    ahead = sympy.Matrix([*v, *p.jacobian(v).LUsolve(forces)])
    values = {symbol: sympy.Rational(float(value)) for symbol, value in zip(x, at, strict=True)}
    return mp.matrix(ahead.jacobian(x).subs(values).evalf(DIGITS).tolist())


@pytest.mark.parametrize("coordinates", ["absolute", "joint"])
@pytest.mark.parametrize("start_deg", [0.0, 180.0, 170.0])
def test_the_poles_of_the_rotary_pendulum_are_those_of_its_lagrangian(coordinates: str, start_deg: float) -> None:
    """At rest hanging and upright, and 0.3 s after the release at 170 degrees."""
    mechanism = build("rotary_pendulum", coordinates=coordinates, start_deg=start_deg, **DAMPING)
    sim = Simulation(assemble(mechanism))
    sim.step(300 if start_deg == 170.0 else 0)
    model = linearize(sim.system, sim.snapshot())
    positions, velocities, *_ = sim.joints()
    with mp.workdps(DIGITS):
        assert_same_poles(model, rotary_matrix(mechanism, (*positions, *velocities)))


# -- Andrews' squeezer ------------------------------------------------------------------------------------------------

BODIES = {  # {body: the angles of which its angle is the sum, and the body's path from the ground}
    "K1": (("beta",), ()),
    "K2": (("beta", "Theta"), (("K1", "F"),)),
    "K3": (("gamma",), (squeezer.B,)),
    "K4": (("delta", "Phi"), (squeezer.A, ("K5", "H"))),
    "K5": (("delta",), (squeezer.A,)),
    "K6": (("epsilon", "Omega"), (squeezer.A, ("K7", "G"))),
    "K7": (("epsilon",), (squeezer.A,)),
}


class Squeezer:
    """Andrews' squeezer in its seven angles, with the accelerations of the crank as a function of its motion."""

    def __init__(self, torque: float) -> None:
        self.q = sympy.Matrix(sympy.symbols([*squeezer.START]))
        self.v = sympy.Matrix(sympy.symbols([f"{name}_rate" for name in squeezer.START]))
        angles = dict(zip(squeezer.START, self.q, strict=True))
        of = {body: sum(angles[name] for name in names) for body, (names, _) in BODIES.items()}

        def turned(body: str, point: str) -> Any:
            x, y = map(sympy.Rational, squeezer.POINTS[body][point])
            c, s = sympy.cos(of[body]), sympy.sin(of[body])
            return sympy.Matrix([c * x - s * y, s * x + c * y])

        def place(body: str, point: str) -> Any:
            found = turned(body, point)
            for step in BODIES[body][1]:
                found += turned(*step) if isinstance(step[0], str) else sympy.Matrix([sympy.Rational(x) for x in step])
            return found

        T = sympy.Integer(0)
        for body, mass, inertia in zip(BODIES, squeezer.MASSES, squeezer.INERTIAS, strict=True):
            speed = place(body, "center").jacobian(self.q) * self.v
            spin = (sympy.Matrix([of[body]]).jacobian(self.q) * self.v)[0]
            T += (sympy.Rational(mass) * speed.dot(speed) + sympy.Rational(inertia) * spin**2) / 2
        along = place("K3", "D") - sympy.Matrix([sympy.Rational(x) for x in squeezer.C])
        stretch = sympy.sqrt(along.dot(along)) - sympy.Rational(squeezer.REST_LENGTH)
        V = sympy.Rational(squeezer.STIFFNESS) * stretch**2 / 2 - sympy.Rational(torque) * angles["beta"]
        p = sympy.Matrix([T.diff(rate) for rate in self.v])
        forces = sympy.Matrix([(T - V).diff(angle) for angle in self.q]) - p.jacobian(self.q) * self.v
        gaps = sympy.Matrix.vstack(*(place(body, "E") - place("K3", "E") for body in ("K2", "K4", "K6")))
        J = gaps.jacobian(self.q)
        gamma = -(J * self.v).jacobian(self.q) * self.v
        self._gaps, self._J = (sympy.lambdify([[*self.q]], each, "mpmath") for each in (gaps, J))
        both = [[*self.q], [*self.v]]
        self._M, self._f, self._gamma = (
            sympy.lambdify(both, each, "mpmath") for each in (p.jacobian(self.v), forces, gamma)
        )

    def closed(self, beta: Any) -> list[Any]:
        """The seven angles at the crank's angle, by Newton's method from the start."""
        q = mp.matrix([beta, *map(mp.mpf, [*squeezer.START.values()][1:])])
        for _ in range(12):
            q[1:7] = q[1:7, 0] - mp.lu_solve(self._J([*q])[:, 1:], self._gaps([*q]))
        assert mp.norm(self._gaps([*q])) < mp.mpf(10) ** (5 - DIGITS)
        return [*q]

    def acceleration(self, beta: Any, rate: Any) -> Any:
        """Acceleration of the crank, rad/s^2."""
        q = self.closed(beta)
        J = self._J(q)
        v = [rate, *mp.lu_solve(J[:, 1:], -J[:, 0] * rate)]
        K, right = mp.zeros(13), mp.zeros(13, 1)
        K[:7, :7], K[7:, :7], K[:7, 7:] = self._M(q, v), J, J.T
        right[:7, 0], right[7:, 0] = self._f(q, v), self._gamma(q, v)
        return mp.lu_solve(K, right)[0]

    def matrix(self, beta: float, rate: float) -> Any:
        """System matrix (2, 2) for the crank's angle and rate."""
        at = mp.mpf(beta), mp.mpf(rate)
        return mp.matrix([[0, 1], [mp.diff(self.acceleration, at, (1, 0)), mp.diff(self.acceleration, at, (0, 1))]])


def test_the_poles_of_the_squeezer_are_those_of_its_seven_angles() -> None:
    """At rest at the start, and with the crank turned by 0.3 rad and moving."""
    system, exact = assemble(build("andrews_squeezer")), Squeezer(0.033)
    for q, rate in ((closed(system), 0.0), (closed(system, {"K1.theta": 0.3}), 50.0)):
        along = linearize(system, q)
        assert along.states == ("K1.theta", "K1.theta.velocity")
        model = linearize(system, (q, along.basis[system.n_q :, 1] * rate))
        with mp.workdps(DIGITS):
            assert_same_poles(model, exact.matrix(q[2], rate))
