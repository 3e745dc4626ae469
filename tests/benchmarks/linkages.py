"""Large planar linkages in absolute coordinates beside Exudyn, at equal error.

    python tests/benchmarks/linkages.py [grid] [ladder] [--json FILE]

A grid of four-bars and a ladder of loops. How large a step each engine may take is measured on a small linkage of the
same kind, whose motion is known from an integration of its index-reduced equations by DOP853 with a tolerance of 1e-12:
the largest step whose positions are within EQUAL at the end. The cost is then that of a simulated second of the large
linkage with this step, without start, both pinned to one core, in turns. Exudyn has its generalized-alpha method with
modified Newton steps and a sparse solver, ours RK4 and the default stabilizer.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from bars import at_least, json_file_and_parts

from sim_core.mechanism import GROUND, Mechanism
from sim_core.simulation import Simulation
from sim_core.system import assemble

sys.path.append(str(Path(__file__).resolve().parent))
from engine_peers import NotMeasuredError
from size import GRID, LADDER, grid, ladder

BAR, EQUAL, SECONDS = 3.0, 1e-6, 0.4  # times as fast; m; s of the small motion
STEPS_MS = (8.0, 4.0, 2.0, 1.0, 0.5, 0.25, 0.125, 0.0625)
STEPS, TURNS = 40, 3  # steps in a turn
SMALL = {"grid": (grid, 2, GRID), "ladder": (ladder, 4, LADDER)}


def reference(mechanism: Mechanism, seconds: float) -> np.ndarray:
    """Positions (n, 2) of the bars after some time: M a + J' lam = f, J a = gamma, each pin with two rows."""
    from scipy.integrate import solve_ivp

    names = {body.name: k for k, body in enumerate(mechanism.bodies)}
    masses = np.ravel([(body.mass, body.mass, body.inertia[2]) for body in mechanism.bodies]).astype(float)
    n, n_rows = len(masses), 2 * len(mechanism.joints)
    f = masses * np.tile([0.0, -9.81, 0.0], len(names))
    ends = [
        (2 * row, 3 * names[body], sign, along)
        for row, joint in enumerate(mechanism.joints)
        for body, sign, (along, _, _) in (
            (joint.child, 1.0, joint.child_point),
            (joint.parent, -1.0, joint.parent_point),
        )
        if body != GROUND
    ]

    def rates(_: float, state: np.ndarray) -> np.ndarray:
        q, v = state[:n], state[n:]
        J, gamma = np.zeros((n_rows, n)), np.zeros(n_rows)
        for row, at, sign, along in ends:
            c, s, w = np.cos(q[at + 2]), np.sin(q[at + 2]), v[at + 2]
            J[row, at] = J[row + 1, at + 1] = sign
            J[row : row + 2, at + 2] = sign * along * np.array([-s, c])
            gamma[row : row + 2] += sign * along * w * w * np.array([c, s])
        weighted = J / masses
        lam = np.linalg.lstsq(weighted @ J.T, weighted @ f - gamma, rcond=None)[0]
        return np.concatenate([v, (f - J.T @ lam) / masses])

    start = np.concatenate([mechanism.initial_q, mechanism.initial_v])
    found = solve_ivp(rates, (0.0, seconds), start, "DOP853", rtol=1e-12, atol=1e-12)
    return np.asarray(found.y[:n, -1].reshape(-1, 3)[:, :2])


class Exudyn:
    """Motion of planar bars in Exudyn."""

    def __init__(self, mechanism: Mechanism) -> None:
        try:
            self._exu, items = (importlib.import_module(name) for name in ("exudyn", "exudyn.itemInterface"))
        except ImportError as error:
            raise NotMeasuredError("Exudyn is not installed") from error
        self._container = self._exu.SystemContainer()
        self._system = system = self._container.AddSystem()
        objects, self._nodes = {GROUND: system.AddObject(items.ObjectGround())}, list[Any]()
        for body, q in zip(mechanism.bodies, np.reshape(mechanism.initial_q, (-1, 3)).tolist(), strict=True):
            node = system.AddNode(items.NodeRigidBody2D(referenceCoordinates=q))
            part = {"mass": body.mass, "inertia": body.inertia[2]}
            objects[body.name] = number = system.AddObject(items.ObjectRigidBody2D(**part, nodeNumber=node))
            marker = system.AddMarker(items.MarkerBodyMass(bodyNumber=number))
            system.AddLoad(items.LoadMassProportional(markerNumber=marker, loadVector=list(mechanism.gravity)))
            self._nodes.append(node)
        for joint in mechanism.joints:
            ends = ((joint.parent, joint.parent_point), (joint.child, joint.child_point))
            markers = [
                system.AddMarker(items.MarkerBodyRigid(bodyNumber=objects[name], localPosition=list(point)))
                for name, point in ends
            ]
            system.AddObject(items.ObjectJointRevolute2D(markerNumbers=markers))
        system.Assemble()

    def run(self, step_s: float, steps: int) -> float:
        """Milliseconds of processor time of a motion from the start."""
        settings = self._exu.SimulationSettings()
        settings.timeIntegration.numberOfSteps, settings.timeIntegration.endTime = steps, steps * step_s
        settings.timeIntegration.newton.useModifiedNewton = True
        settings.solution.file.write = False
        settings.linearSolver.solverType = self._exu.LinearSolverType.EigenSparse
        begin = time.thread_time_ns()
        self._system.SolveDynamic(settings)
        return (time.thread_time_ns() - begin) * 1e-6

    @property
    def positions(self) -> np.ndarray:
        """Positions (n, 2) of the bars at the end of the last motion."""
        kind = self._exu.OutputVariableType.Position
        return np.array([self._system.GetNodeOutput(node, kind)[:2] for node in self._nodes])


def largest_step(error: Callable[[float], float]) -> tuple[float, float]:
    """Largest step, s, whose error is within EQUAL, and its error."""
    for step_ms in STEPS_MS:
        if (found := error(1e-3 * step_ms)) <= EQUAL:
            return 1e-3 * step_ms, found
    raise RuntimeError(f"no step gives positions within {EQUAL:g} m; nothing to time")


def raced(kind: str) -> dict[str, Any]:
    """Steps of equal error, and the costs of a simulated second of the large linkage, ms."""
    make, few, many = SMALL[kind]
    small, large = make(few), make(many)
    exact, system = reference(small, SECONDS), assemble(small)

    def our_error(step_s: float) -> float:
        sim = Simulation(system, step_s=step_s)
        sim.step(round(SECONDS / step_s))
        return float(np.abs(sim.state.q.reshape(-1, 3)[:, :2] - exact).max())

    def their_error(step_s: float) -> float:
        peer = Exudyn(small)
        peer.run(step_s, round(SECONDS / step_s))
        return float(np.abs(peer.positions - exact).max())

    (ours, our_miss), (theirs, their_miss) = largest_step(our_error), largest_step(their_error)
    sim = Simulation(assemble(large), step_s=ours)
    sim.step(1)
    costs = list[tuple[float, float]]()
    for _ in range(TURNS):
        begin = time.thread_time_ns()
        sim.step(STEPS)
        mine = (time.thread_time_ns() - begin) / STEPS * 1e-6 / ours
        peer = Exudyn(large)  # the difference of two motions has no start
        costs.append((mine, (peer.run(theirs, 2 * STEPS) - peer.run(theirs, STEPS)) / STEPS / theirs))
    our_ms, their_ms = np.min(costs, axis=0).tolist()
    return {
        **{"name": f"{large.name}, {len(large.bodies)} bodies", "ours_ms": our_ms, "theirs_ms": their_ms},
        **{"our_step_ms": 1e3 * ours, "their_step_ms": 1e3 * theirs, "our_error": our_miss, "their_error": their_miss},
        **{"ratio": their_ms / our_ms, "bar": BAR},
    }


def main(json_path: str | None = None, kinds: Sequence[str] = tuple(SMALL)) -> dict[str, Any]:
    """Measure linkages of some kinds, print the table, write JSON where asked, and give the figures."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    result: dict[str, Any] = {"rows": [], "not_measured": []}
    try:
        result["rows"] = [raced(kind) for kind in kinds]
    except NotMeasuredError as error:
        result["not_measured"].append(str(error))
        print(f"  {error}")
    os.sched_setaffinity(0, cores)
    print(f"ms of processor time per simulated second, with steps whose error is within {EQUAL:g} m on a small one")
    for row in result["rows"]:
        steps = f"steps {row['our_step_ms']:g} and {row['their_step_ms']:g} ms"
        errors = f"errors {row['our_error']:.1e} and {row['their_error']:.1e} m"
        print(f"  {row['name']:24} {row['ours_ms']:9.1f} Exudyn {row['theirs_ms']:9.1f} {row['ratio']:6.2f} "
              f"  {steps}, {errors}   bar {BAR:g}")  # fmt: skip
    result["bars"] = [at_least(f"{row['name']} against Exudyn", row["ratio"], BAR) for row in result["rows"]]
    if json_path:
        Path(json_path).write_text(json.dumps(result, indent=1))
    return result


if __name__ == "__main__":
    main(*json_file_and_parts(__doc__, SMALL))
