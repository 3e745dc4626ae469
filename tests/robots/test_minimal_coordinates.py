"""The benchmark mechanisms beside their one equation of motion, written by hand in the one angle that moves.

2 T = M(angle) rate^2: M from the points' positions by complex-step derivatives, which are exact to rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.integrate import quad, solve_ivp
from scipy.optimize import brentq

from robots.registry import build
from sim_core.integrators.steppers import dopri5_adaptive
from sim_core.simulation import Simulation
from sim_core.system import assemble

G = 9.81
TINY = 1e-100


def slope(function: Callable[[Any], Any], at: float) -> Any:
    """The derivative of a real-analytic function by a complex step."""
    return np.imag(function(at + 1j * TINY)) / TINY


def parallelogram(angle: Any) -> tuple[Any, Any]:
    """M and V: two bars of 1 kg turn about their ends, the coupler goes round with the pins."""
    return 2 * 0.5**2 / 3 + 0.5**2, 2 * G * 0.25 * np.sin(angle) + G * 0.5 * np.sin(angle)


def slider_crank(
    crank: float, rod: float, inertias: tuple[float, float], masses: tuple[float, float]
) -> Callable[[Any], tuple[Any, Any]]:
    """M and V of a crank, a rod and a slider along x; the crank's centre is on its axis."""

    def tilt(angle: Any) -> Any:
        return -np.arcsin(crank * np.sin(angle) / rod) if crank != rod else -angle

    def places(angle: Any) -> Any:
        middle = crank * np.cos(angle) + rod / 2 * np.cos(tilt(angle))
        return np.array([middle, crank / 2 * np.sin(angle), middle + rod / 2 * np.cos(tilt(angle))])

    def terms(angle: Any) -> tuple[Any, Any]:
        c, s = np.cos(angle), np.sin(angle)
        turn = -crank * c / (rod * np.cos(tilt(angle))) if crank != rod else -1.0
        x_rate = -crank * s - rod / 2 * np.sin(tilt(angle)) * turn
        end_rate = -crank * s - rod * np.sin(tilt(angle)) * turn
        M = inertias[0] + inertias[1] * turn**2 + masses[0] * (x_rate**2 + (crank / 2 * c) ** 2)
        return M + masses[1] * end_rate**2, masses[0] * G * places(angle)[1]

    return terms


@pytest.mark.parametrize(
    ("name", "terms", "start", "seconds"),
    [
        ("parallelogram_four_bar", parallelogram, (1.0, 6.0), 10.0),
        ("equal_crank_slider", slider_crank(0.3, 0.3, (0.01, 0.01), (1.0, 1.0)), (0.3, 6.0), 10.0),
        ("crank_slider", slider_crank(0.2, 0.35, (45.0, 3.5), (3.5, 2.5)), (0.0, math.pi / 3), 20.0),
    ],
)
def test_the_crank_turns_as_its_own_equation_says(name: str, terms: Any, start: Any, seconds: float) -> None:
    """M a'' + M' a'^2 / 2 + V' = 0, through every singular position."""

    def change(t: float, state: np.ndarray) -> list[float]:
        angle, rate = state
        bent = slope(lambda x: terms(x)[0] + 0 * x, angle)
        pull = slope(lambda x: terms(x)[1], angle)
        return [rate, -(0.5 * bent * rate**2 + pull) / terms(angle)[0]]

    exact = solve_ivp(change, (0.0, seconds), start, method="DOP853", rtol=1e-12, atol=1e-12).y[:, -1]
    sim = Simulation(assemble(build(name)), step_s=1e-3)
    sim.advance(seconds)
    crank = [values[0] for values in sim.joints()[:2]]
    assert crank == pytest.approx(exact, rel=1e-6)
    assert abs(exact[0]) > math.pi


def test_the_gear_train_turns_as_willis_says() -> None:
    """(w_sun - w_arm) / (w_ring - w_arm) = -T_ring / T_sun; the torque meets one constant inertia."""
    sun_teeth, planet_teeth, distance, torque = 24, 18, 0.042, 0.1
    ring_teeth = sun_teeth + 2 * planet_teeth
    sun = 1 + ring_teeth / sun_teeth  # times the arm's speed, the ring held
    planet = 1 - ring_teeth / planet_teeth
    carried = 2 * (0.02 * distance**2 + 1e-6) + 2 * (0.1 * distance**2 + 8e-5 * planet**2)
    acceleration = torque / (1e-3 + carried + 3e-4 * sun**2)
    sim = Simulation(assemble(build("epicyclic_gear_train")), step_s=1e-3)
    for _ in range(20):
        sim.advance(0.1)
        position, velocity, _ = sim.joints()
        speeds = np.array([sun, 1.0, planet - 1, planet - 1]) * acceleration
        np.testing.assert_allclose(velocity, speeds * sim.time, rtol=1e-6)
        np.testing.assert_allclose(position, speeds * sim.time**2 / 2, rtol=1e-6)


class Squeezer:
    """Andrews' squeezer as a function of beta alone: every joint is where two circles meet. [GonzalezEtAl2006] A03"""

    masses = (0.04325, 0.00365, 0.02373, 0.00706, 0.07050, 0.00706, 0.05498)
    inertias = (2.194e-6, 4.410e-7, 5.255e-6, 5.667e-7, 1.169e-5, 5.667e-7, 1.912e-5)
    A, B, C = np.array([-0.06934, -0.00227]), np.array([-0.03635, 0.03273]), np.array([0.014, 0.072])
    start = -0.0617138900142764496

    @staticmethod
    def meet(P: Any, p: float, Q: Any, q: float) -> Any:
        """The point at distance p from P and q from Q, to the left of the way from P to Q."""
        way = Q - P
        apart = np.sqrt(way @ way)
        along = (p**2 - q**2 + apart**2) / (2 * apart)
        return P + (along * way + np.sqrt(p**2 - along**2) * np.array([-way[1], way[0]])) / apart

    def points(self, beta: Any) -> list[tuple[Any, Any, tuple[float, float]]]:
        """For every body two of its points, and its centre seen from the first, along and left of the way."""
        F = 0.007 * np.array([np.cos(beta), np.sin(beta)])
        E = self.meet(F, 0.028, self.B, 0.035)
        H, G = self.meet(self.A, 0.04, E, 0.02), self.meet(E, 0.02, self.A, 0.04)
        return [
            (0 * F, F, (0.00092, 0.0)),
            (F, E, (0.0115, 0.0)),
            (self.B, E, (0.01874, 0.01043)),
            (H, E, (0.02 - 0.01421, 0.0)),
            (self.A, H, (0.02308, 0.00916)),
            (G, E, (0.02 - 0.01421, 0.0)),
            (self.A, G, (0.01228, -0.00449)),
        ]

    def inertia(self, beta: float) -> float:
        """M of 2 T = M beta'^2."""
        total = 0.0
        for body in range(7):
            P, Q, (along, left) = self.points(beta + 1j * TINY)[body]
            way = (Q - P) / np.sqrt((Q - P) @ (Q - P))
            center = P + along * way + left * np.array([-way[1], way[0]])
            speed, turn = center.imag / TINY, way.imag / TINY
            total += self.masses[body] * speed @ speed + self.inertias[body] * turn @ turn
        return total

    def potential(self, beta: float) -> float:
        P, E, _ = self.points(beta)[2]
        way = (E - P) / 0.035
        D = P + 0.018 * way + 0.02 * np.array([-way[1], way[0]])
        return 0.5 * 4530.0 * (math.dist(D, self.C) - 0.07785) ** 2

    def time_at(self, beta: float) -> float:
        """When beta is reached, by quadrature of the energy equation; with beta = start + s^2 it starts at rest.

        The first nanoradian goes without the spring: at its dead point it does not pull, and differences would drown.
        """

        def pace(s: float) -> float:
            now = self.start + s * s
            energy = 0.033 * s * s
            if s > 3e-5:
                energy += self.potential(self.start) - self.potential(now)
            return 2 * s * math.sqrt(self.inertia(now) / (2 * energy))

        return float(quad(pace, 0.0, math.sqrt(beta - self.start), epsabs=1e-13, epsrel=1e-12, limit=400)[0])


def test_the_squeezer_turns_as_its_energy_says() -> None:
    """beta at 30 ms from one quadrature in one coordinate, to nine digits of the published and of ours."""
    squeezer = Squeezer()
    beta = brentq(lambda x: squeezer.time_at(x) - 0.03, 15.7, 15.9, xtol=1e-12)
    assert beta == pytest.approx(15.81077119629904, rel=1e-9)
    sim = Simulation(
        assemble(build("andrews_squeezer")), step_s=1e-3, stepper=dopri5_adaptive(1e-12, 1e-14), stabilizer="projection"
    )
    sim.advance(0.03)
    assert sim.outputs()["beta"] == pytest.approx(beta, rel=1e-9)
