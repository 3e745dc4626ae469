"""Predictive control: the time of a plan, the pendulum's swing-up, and an arm around a sphere.

    python tests/benchmarks/predictive.py [--json FILE]

plans     processor time of one whole real-time iteration, p50 and p99 of CALLS that follow the motion, for both launch
          files
swing-up  time from the first torque until the pendulum is within 10 degrees of upright and stays
arm       in lockstep with the p99 measured before as `solve_ms`: largest distance from the via points at their times,
          and smallest distance of the hand from the sphere
optimum   largest difference of the arm's plan, iterated until it changes no more, from the solution of IPOPT for the
          same problem, in rad, rad/s and N m; at the start, and AHEAD_S before the hand is nearest to the sphere
"""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from bars import at_least, at_most, json_file, reported

from nodes.cli.commands.setup.doctor import processor_times_ms, rehearsals
from nodes.controllers.horizon import HorizonReference
from nodes.controllers.nmpc import Nmpc, NmpcParams, Problem
from nodes.controllers.tracking import Targets
from nodes.framework.messages import JointCommand, RobotState
from nodes.framework.plan.files.file import load_plan
from nodes.node import Context
from robots.registry import build, with_joint_coordinates
from sim_core.simulation import Simulation
from sim_core.system import assemble

LAUNCH = Path(__file__).resolve().parents[2] / "launch"
REPEATS = 3  # of the measurement of a time; the best counts
PLAN_BARS_MS = {"rotary_pendulum": 2.0, "arm_4dof": 4.0}
VIA_M = 0.01  # distance at which a via point is passed
STEP_S = 1e-3
AHEAD_S, CONVERGED, MOST = 0.4, 1e-9, 1000
OPTIMUM = 1e-4  # largest difference from the solution of IPOPT
by_ipopt = runpy.run_path(str(LAUNCH.parent / "tests/sim_core/test_optimal_control.py"))["by_ipopt"]


def main(json_path: str | None = None) -> dict[str, Any]:
    """Print the figures and return them."""
    figures: dict[str, Any] = {}
    bars = []
    for name, bar in PLAN_BARS_MS.items():
        times = [(processor_times_ms(work)) for _ in range(int(REPEATS)) for _, _, work in rehearsals(file_of(name))]
        p50, p99 = min(times, key=lambda pair: pair[1])
        figures[name] = {"p50_ms": p50, "p99_ms": p99}
        bars.append(at_most(f"{name}: processor time of a plan, p99, ms", p99, bar))
    rows, _ = motion("rotary_pendulum", figures["rotary_pendulum"]["p99_ms"], 2.0)
    away = np.abs(np.mod(rows[:, 2], 2.0 * np.pi) - np.pi) > np.radians(10.0)
    stands = float(rows[np.flatnonzero(away)[-1] + 1, 0]) if not away[-1] else np.inf
    bars.append(at_most("rotary_pendulum: from the first torque to standing, s", stands, 1.0))
    rows, params = motion("arm_4dof", figures["arm_4dof"]["p99_ms"], 6.0)
    places = rows[:, -3:]
    misses = [np.linalg.norm(places[round(at / STEP_S)] - via) for at, *via in params.point_waypoints[1:]]
    (sphere,) = params.spheres
    bars.append(at_most("arm_4dof: distance from the via points, m", float(max(misses)), VIA_M))
    distances = np.linalg.norm(places - sphere[:3], axis=1)
    bars.append(at_least("arm_4dof: distance from the sphere's centre, m", float(distances.min()), sphere[3]))
    near = max(0, int(distances.argmin()) - round(AHEAD_S / STEP_S))
    figures["optimum"] = [from_ipopt("arm_4dof", params, rows[k]) for k in (0, near)]
    bars.append(at_most("arm_4dof: largest difference of a plan from IPOPT", max(figures["optimum"]), OPTIMUM))
    for name in PLAN_BARS_MS:
        print(f"{name:<20} a plan takes {figures[name]['p50_ms']:.2f} ms, p99 {figures[name]['p99_ms']:.2f} ms")
    return reported(figures, bars, json_path)


def file_of(robot: str) -> str:
    """Launch file of a robot's predictive controller."""
    return str(LAUNCH / f"{robot}_nmpc.toml")


def from_ipopt(robot: str, params: NmpcParams, row: np.ndarray) -> float:
    """Largest difference of a plan from the solution of IPOPT, at the time and state (t, q, v, ...)."""
    problem = Problem(params, load_plan(file_of(robot)).sim.parameters, robot)
    control, n = problem.build(), len(problem.model.names)
    targets, reference, start = Targets(problem.model.names), HorizonReference(problem, control), row[1 : 1 + 2 * n]
    targets.hold(start[:n])
    reference.rest_at(start)
    reference.update(row[0], targets)
    for _ in range(int(MOST)):
        control.iterate(start)
        if control.change < CONVERGED:
            break
    x, u = by_ipopt(control, problem.model.mechanism, start)
    return float(max(np.abs(control.x - x).max(), np.abs(control.u - u).max()))


def motion(robot: str, solve_ms: float, seconds: float) -> tuple[np.ndarray, NmpcParams]:
    """Rows (t, positions, velocities, outputs) of a robot under the controller of its launch file, and its parameters.

    The simulation is exact, and solutions take `solve_ms` of simulation time.
    """
    plan = load_plan(file_of(robot))
    (given,) = [node.params for node in plan.nodes if node.name == "nmpc"]
    params = msgspec.convert({**given, "solve_ms": solve_ms}, NmpcParams)
    node, random = Nmpc(), np.random.default_rng(plan.seed)
    node.on_start(Context("nmpc", robot, STEP_S, params, random, plan=plan))
    system = assemble(build(robot, **with_joint_coordinates(robot, plan.sim.parameters)))
    sim, names, rows = Simulation(system, step_s=STEP_S), list(system.joint_names), []
    for k in range(round(seconds / STEP_S) + 1):
        q, v = sim.coordinates.tolist(), sim.velocities.tolist()
        rows.append([k * STEP_S, *q, *v, *system.outputs(0.0, q, v).values()])
        state = RobotState(name=names, position=q, velocity=v, effort=[0.0] * len(q), timestamp=k * STEP_S)
        ((_, command),) = node.on_message("state", state) or []
        assert isinstance(command, JointCommand)
        sim.set_effort(command.value)
        sim.step()
    return np.array(rows), params


if __name__ == "__main__":
    main(json_file(__doc__))
