"""Gauss-Newton iterations of optimal control, against IPOPT on the same problem and against Riccati's equation."""

from __future__ import annotations

import dataclasses

import casadi as ca
import numpy as np
import pytest

from robots.registry import build
from sim_core.analysis.optimal_control import SLACK_COST, SLACK_CURVATURE, Costs, Limits, OptimalControl
from sim_core.derivation.derivatives.functions import derive_functions
from sim_core.errors import InvalidRequest
from sim_core.mechanism import Mechanism
from sim_core.system import assemble

FREE = np.full(4, np.inf)


def arm() -> Mechanism:
    mechanism = build("arm_4dof", limits="none")
    return dataclasses.replace(mechanism, initial_q=(0.2, 0.5, 0.1, 0.8))


def step_function(mechanism: Mechanism, step_s: float) -> ca.Function:
    """x, u -> a step of the classical Runge-Kutta method, from the symbolic equations."""
    n, n_u = len(mechanism.initial_q), len(mechanism.actuators)
    x, u = ca.SX.sym("x", 2 * n), ca.SX.sym("u", n_u)
    dynamics, p = derive_functions(mechanism)["dynamics"], assemble(mechanism).default_parameters()

    def rate(x: ca.SX) -> ca.SX:
        M, f, _, _ = dynamics(0.0, x[:n], x[n:], u, p)
        return ca.vertcat(x[n:], ca.solve(M, f))

    k1 = rate(x)
    k2 = rate(x + step_s / 2 * k1)
    k3 = rate(x + step_s / 2 * k2)
    k4 = rate(x + step_s * k3)
    return ca.Function("step", [x, u], [x + step_s / 6 * (k1 + 2 * k2 + 2 * k3 + k4)])


def by_ipopt(control: OptimalControl, mechanism: Mechanism, start: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """x and u of the same problem by IPOPT, from the present guess."""
    n, costs, limits, N = control.n, control.costs, control.limits, control.horizon
    step, opti = step_function(mechanism, control.step_s), ca.Opti()
    x, u = opti.variable(2 * n, N + 1), opti.variable(control.n_u, N)
    p, claw = assemble(mechanism).default_parameters(), derive_functions(mechanism)["outputs"]
    opti.subject_to(x[:, 0] == start)
    total = ca.MX(0.0)
    for k in range(N):
        opti.subject_to(x[:, k + 1] == step(x[:, k], u[:, k]))
        for i in range(control.n_u):
            if np.isfinite(limits.effort[i]):
                opti.subject_to(opti.bounded(-limits.effort[i], u[i, k], limits.effort[i]))
        q, v = x[:n, k + 1], x[n:, k + 1]
        for i in range(n):
            if np.isfinite(limits.upper[i]):
                opti.subject_to(opti.bounded(limits.lower[i], q[i], limits.upper[i]))
            if np.isfinite(limits.velocity[i]):
                opti.subject_to(opti.bounded(-limits.velocity[i], v[i], limits.velocity[i]))
        factor = costs.terminal if k == N - 1 else 1.0
        cost = ca.dot(costs.position, (q - control.position[k]) ** 2)
        cost += ca.dot(costs.velocity, (v - control.velocity[k]) ** 2)
        if costs.point:
            place = claw(0.0, q, v, np.zeros(control.n_u), p)
            cost += costs.point * ca.sumsqr(place - control.place[k])
            if len(limits.spheres):
                slack = opti.variable()
                opti.subject_to(slack >= 0.0)
                total += SLACK_COST * slack + 0.5 * SLACK_CURVATURE * slack**2
                for sphere in limits.spheres:
                    opti.subject_to(ca.norm_2(place - sphere[:3]) + slack >= sphere[3])
        total += 0.5 * factor * cost + 0.5 * ca.dot(costs.effort, (u[:, k] - control.effort[k]) ** 2)
    opti.minimize(total)
    opti.set_initial(x, control.x.T)
    opti.set_initial(u, control.u.T)
    opti.solver("ipopt", {"print_time": False}, {"print_level": 0, "tol": 1e-10, "sb": "yes"})
    solution = opti.solve()
    found_u = np.asarray(solution.value(u)).reshape(control.n_u, N)
    return np.asarray(solution.value(x)).T, found_u.T


def converged(control: OptimalControl, start: np.ndarray, most: int = 200) -> None:
    for _ in range(most):
        assert control.iterate(start)
        if control.change < 1e-8:
            return
    pytest.fail(f"no convergence: the latest change is {control.change:.3g}")


def test_a_pendulum_at_its_torque_limit_has_the_efforts_that_ipopt_finds() -> None:
    mechanism = build("rotary_pendulum", coordinates="joint", start_deg=160.0)
    costs = Costs(np.array([0.5, 1.0]), np.array([0.01, 0.01]), np.array([50.0]), terminal=100.0)
    control = OptimalControl(
        assemble(mechanism), 20, 0.02, costs, Limits(np.array([0.04]), -FREE[:2], FREE[:2], FREE[:2])
    )
    control.position[:] = 0.0, np.pi
    start = np.array([*mechanism.initial_q, 0.0, 0.0])
    control.roll_out(start)
    converged(control, start)
    x, u = by_ipopt(control, mechanism, start)
    assert np.abs(u).max() == pytest.approx(0.04, abs=1e-6)
    assert control.u == pytest.approx(u, abs=1e-6)
    assert control.x == pytest.approx(x, abs=1e-4)


def test_an_arm_around_a_sphere_and_at_a_joint_limit_moves_as_ipopt_finds() -> None:
    mechanism = arm()
    system = assemble(mechanism)
    start = np.array([*mechanism.initial_q, *np.zeros(4)])
    claw = np.array(list(system.outputs(0.0, start[:4], start[4:]).values()))
    goal_q = np.array([-0.9, 0.6, 0.0, 0.9])
    goal = np.array(list(system.outputs(0.0, goal_q, start[4:]).values()))
    spheres = np.array([[*(0.5 * (claw + goal) + [0.0, 0.0, 0.02]), 0.12]])
    upper = np.array([6.28, 0.55, 3.92, 2.6])
    limits = Limits(
        np.array([50.0, 50.0, 32.0, 32.0]), -np.array([6.28, 2.05, 3.92, 2.6]), upper, np.full(4, 0.8), spheres
    )
    costs = Costs(np.full(4, 0.1), np.full(4, 1.0), np.full(4, 1e-3), point=1000.0, terminal=10.0)
    control = OptimalControl(system, 10, 0.05, costs, limits, "claw")
    control.place[:] = claw + np.linspace(0.1, 1.0, 10)[:, None] * (goal - claw)
    control.position[:] = start[:4]
    _, f, _, _ = system.terms(0.0, start[:4], start[4:], np.zeros(4))
    control.effort[:] = control.u[:] = -f
    control.roll_out(start)
    converged(control, start)
    x, u = by_ipopt(control, mechanism, start)
    places = np.array([list(system.outputs(0.0, row[:4], row[4:]).values()) for row in control.x])
    distances = np.linalg.norm(places - spheres[0, :3], axis=1)
    assert distances.min() == pytest.approx(0.12, abs=1e-5)
    assert control.x[:, 1].max() <= 0.55 + 1e-6
    assert np.abs(control.x[:, 4:]).max() == pytest.approx(0.8, abs=1e-6)
    assert control.x == pytest.approx(x, abs=1e-4)
    assert control.u == pytest.approx(u, abs=1e-4 * 50.0)


def test_a_robot_with_loops_is_refused_in_one_line() -> None:
    system = assemble(build("four_bar_chain"))
    costs = Costs(np.ones(system.n_q), np.ones(system.n_q), np.ones(system.n_u))
    with pytest.raises(InvalidRequest, match="has constraints"):
        OptimalControl(system, 5, 0.01, costs, Limits(np.ones(system.n_u), -FREE, FREE, FREE))
