"""Derivatives of forward dynamics beside pinocchio's, of one step beside MuJoCo's, and eight systems beside one.

    python tests/benchmarks/derivatives.py [--json FILE]

All in one run, pinned to one core, ours and the peer in turns of the same length, as in engines.py. A call gives the
accelerations and their derivatives by positions, velocities and efforts; the last are the inverse of the mass matrix.
The robots have no stops and no damping. Before anything is timed, both must agree to 1e-10 of the largest entry. Last,
the processor time of the compilation of CHARMIE's derivatives, beyond that of the other kernels.
"""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from bars import at_least, at_most, json_file

from robots.export import export
from robots.registry import build, names
from sim_core.analysis.discretization import bound_step_derivatives
from sim_core.derivatives import DerivativeKernels
from sim_core.kernels.bound import pointer_table
from sim_core.mechanism import Mechanism
from sim_core.system import System, assemble

sys.path.append(str(Path(__file__).resolve().parent))
from any_robot import path_of
from engine_peers import NativePinocchio, NotMeasuredError, Pinocchio
from engines import STATES, Contest, _go_round, each, measured, random_states

KERNEL_BARS = {"charmie": 3.3, "panda": 5.0, "arm_6dof": 8.0}
LANES, BATCH_BARS = 8, {"panda": 2.5, "arm_6dof": 2.5}
AGREEMENT = 1e-10
STEPPED, STEP_S, STEP_BAR = ("arm_6dof", "charmie"), 1e-3, 15.0
FD_SIZE, FD_AGREEMENT = 1e-6, 1e-6  # step of MuJoCo's differences, whose error is larger than ours
COMPILE_BAR_S = 6.0
COMPILED = """
import os, sys
from robots.registry import build
from sim_core.system import assemble

def used():
    return sum(os.times()[:4])

system = assemble(build(sys.argv[1]))
before = used()
system.derivatives(0.0, system.mechanism.initial_q, [0.0] * system.n_q)
print(used() - before)
"""


def robot(name: str) -> Mechanism:
    """A robot without stops, friction and damping."""
    if name in names():
        return build(name, limits="none")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mechanism = build(path_of(name), friction="ignore", mimic="free", limits="none", meshes="boxes")
    joints = tuple(dataclasses.replace(joint, damping=0.0) for joint in mechanism.joints)
    return dataclasses.replace(mechanism, joints=joints)


class DerivativeLoop:
    """The kernel of derivatives called from a native loop that goes round states; rows (n, 3, n_q) are q, v and tau."""

    def __init__(self, system: System, kernels: DerivativeKernels, rows: np.ndarray) -> None:
        lanes, n_q, n_r = kernels.lanes, system.n_q, system.max_rows
        joints = [system.coordinate_names.index(actuator.joint) for actuator in system.mechanism.actuators]
        t, p = np.zeros((1, lanes)), np.tile(system.default_parameters()[:, None], lanes)
        states = rows.reshape(-1, lanes, 3, n_q).transpose(0, 2, 3, 1)
        inputs = [[np.ascontiguousarray(x) for x in (q, v, tau[joints])] for q, v, tau in states]
        U, self.results = np.zeros((n_r, lanes)), [np.zeros((size, lanes)) for size in (n_q, n_r)]
        self.results.append(np.zeros(((n_q + n_r) * kernels.n_columns, lanes)))
        tables = [pointer_table([t, *arrays, p, U]) for arrays in inputs]
        self._keep = t, p, U, inputs, tables, kernels
        self._address, self._lanes = kernels.addresses["derivatives"], lanes
        self._tables, self._outputs = np.array([table.ctypes.data for table in tables]), pointer_table(self.results)
        self.shape = lanes, n_q + n_r, kernels.n_columns
        self._run(len(self._tables))

    def _run(self, calls: int) -> None:
        _go_round(self._address, self._tables, self._outputs.ctypes.data, calls)

    def turn(self, calls: int) -> float:
        """us per call and system."""
        times = max(1, calls // self._lanes)
        start = time.thread_time_ns()
        self._run(times)
        return (time.thread_time_ns() - start) / (times * self._lanes) * 1e-3

    def of_last(self) -> np.ndarray:
        """(lanes, 3, n_q, n_q): of the accelerations by q, v and tau, of the states of the last call."""
        n = len(self.results[0])
        solved = self.results[2].T.reshape(self.shape)[:, :n, : 3 * n]
        return solved.reshape(self.shape[0], n, 3, n).transpose(0, 2, 1, 3)


def require_agreement(what: str, ours: np.ndarray, theirs: np.ndarray) -> None:
    """Raise RuntimeError if a matrix of both differs by more than AGREEMENT of its largest entry."""
    miss = (np.abs(ours - theirs).max(axis=(-1, -2)) / np.abs(theirs).max(axis=(-1, -2))).max()
    if not miss < AGREEMENT:
        raise RuntimeError(f"{what}: ours and the peer's differ by {miss:.1e} of the largest entry; nothing to time")


def contests_of(name: str) -> list[Contest]:
    """The kernel for one system beside pinocchio's C++, and that for LANES systems beside that for one."""
    system = assemble(robot(name))
    rows, driven = random_states(system), {actuator.joint for actuator in system.mechanism.actuators}
    rows[:, 2, [name not in driven for name in system.coordinate_names]] = 0.0
    peer = NativePinocchio(Pinocchio(system), rows)
    alone = DerivativeLoop(system, system.derivative_kernels, rows)
    require_agreement(f"derivatives of {name}", alone.of_last(), peer.derivatives[-1:])
    what = f"derivatives of {name}, {system.n_q}"
    contests = [Contest(what, "ABA derivatives in C++", alone.turn, peer.timed("derivatives"), KERNEL_BARS[name])]
    if name in BATCH_BARS:
        together = DerivativeLoop(system, system.batch(LANES).derivative_kernels, rows)
        require_agreement(f"{LANES} x derivatives of {name}", together.of_last(), peer.derivatives[-LANES:])
        what = f"derivatives of {name}, {LANES} at once"
        contests.append(Contest(what, "one at a time", together.turn, alone.turn, BATCH_BARS[name]))
    return contests


class TransitionFD:
    """MuJoCo's derivatives of an Euler step by centred differences, of a model without constraints and shapes."""

    def __init__(self, system: System) -> None:
        try:
            import mujoco
        except ImportError as error:
            raise NotMeasuredError("MuJoCo is not installed") from error
        bodies = tuple(dataclasses.replace(body, shapes=()) for body in system.mechanism.bodies)
        text = export(dataclasses.replace(system.mechanism, bodies=bodies), "mjcf").text
        spec = mujoco.MjSpec.from_string(text)
        spec.compiler.fusestatic = True
        self.model = spec.compile()
        self.model.opt.integrator, self.model.opt.timestep = mujoco.mjtIntegrator.mjINT_EULER, STEP_S
        self.model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONSTRAINT)
        self.data, n = mujoco.MjData(self.model), self.model.nv
        self.A, self.B = np.zeros((2 * n, 2 * n)), np.zeros((2 * n, self.model.nu))
        self.places = [self.model.joint(name).dofadr[0] for name in system.coordinate_names]
        self.motors = [self.model.actuator(actuator.name).id for actuator in system.mechanism.actuators]
        self.call = partial(mujoco.mjd_transitionFD, self.model, self.data, FD_SIZE, True, self.A, self.B, None, None)

    def at(self, q: np.ndarray, v: np.ndarray, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(A, B) in our order, at this state, which the calls keep."""
        self.data.qpos[self.places], self.data.qvel[self.places], self.data.ctrl[self.motors] = q, v, u
        self.call()
        both = [*self.places, *(len(q) + place for place in self.places)]
        return self.A[np.ix_(both, both)], self.B[np.ix_(both, self.motors)]


def step_contest(name: str) -> Contest:
    """A and B of a semi-implicit step, which is MuJoCo's Euler step."""
    system = assemble(robot(name))
    peer, ours = TransitionFD(system), bound_step_derivatives(system, STEP_S, "semi_implicit", "none")
    random = np.random.default_rng(5)
    q, v, u = random.normal(size=system.n_q), random.normal(size=system.n_q), random.normal(size=system.n_u)
    ours.start[:], ours.u[:] = np.concatenate([q, v]), u
    ours()
    for what, found, expected in zip("AB", (ours.by_x, ours.by_u), peer.at(q, v, u), strict=True):
        miss = np.abs(found - expected).max() / np.abs(expected).max()
        if not miss < FD_AGREEMENT:
            raise RuntimeError(f"{what} of {name}: ours and MuJoCo's differ by {miss:.1e} of the largest entry")
    return Contest(f"A, B of a step of {name}, {system.n_q}", "mjd_transitionFD", each(ours), each(peer.call), STEP_BAR)


def compiled(name: str) -> float:
    """Processor time, s, of the compilation of a robot's derivatives, with an empty cache."""
    with tempfile.TemporaryDirectory() as cache:
        words = [sys.executable, "-P", "-c", COMPILED, name]
        done = subprocess.run(
            words, env=os.environ | {"XDG_CACHE_HOME": cache}, capture_output=True, text=True, check=True
        )
        return float(done.stdout)


def main(json_path: str | None = None) -> dict[str, Any]:
    """Measure all that is at hand, print the table, write JSON where asked, and give the figures."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    result: dict[str, Any] = {"states": STATES, "not_measured": [], "contests": []}
    rounds = [(contests_of, name) for name in KERNEL_BARS]
    rounds += [(lambda name: [step_contest(name)], name) for name in STEPPED]
    for contests, name in rounds:
        try:
            result["contests"] += [measured(contest) for contest in contests(name)]
        except NotMeasuredError as error:
            result["not_measured"] += [str(error)] * (str(error) not in result["not_measured"])
    result["compile_s"] = compiled("charmie")
    os.sched_setaffinity(0, cores)
    print("us per call and system, minimum / median; how many times as fast by the minima / by the median turn")
    for row in result["contests"]:
        ours, theirs = (f"{row[who]['min_us']:7.3f} {row[who]['median_us']:7.3f}" for who in ("ours", "theirs"))
        ratios = f"{row['ratio_of_minima']:6.2f} {row['ratio']:6.2f}"
        verdict = f"bar {row['bar']:g}: {'met' if row['met'] else 'MISSED'}"
        print(f"  {row['name']:34} {ours}   {row['peer']:22} {theirs}   {ratios}   {verdict}")
    print(f"  compilation of charmie's derivatives: {result['compile_s']:.2f} s, bar {COMPILE_BAR_S:g} s")
    for line in result["not_measured"]:
        print(f"  {line}")
    result["bars"] = [
        *(at_least(row["name"], min(row["ratio"], row["ratio_of_minima"]), row["bar"]) for row in result["contests"]),
        at_most("compilation of charmie's derivatives, s", result["compile_s"], COMPILE_BAR_S),
    ]
    if json_path:
        Path(json_path).write_text(json.dumps(result, indent=1))
    return result


if __name__ == "__main__":
    main(json_file(__doc__))
