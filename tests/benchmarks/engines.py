"""CHARMIE's open tree beside pinocchio and MuJoCo, which read the files that we export.

    python tests/benchmarks/engines.py [--json FILE]

All in one run, pinned to one core; ours and the peer take turns of the same length, so that a busy machine meets both
alike. Microseconds of processor time per call or step, minimum and median. How many times as fast is told by the
minima and by the median turn, and a bar is met when both say so. Before anything is timed, both must give the same
numbers. pinocchio's C++ is measured from a program built here where a compiler, Eigen and the headers of the `pin`
package are at hand. MuJoCo steps smooth dynamics alone, as we do.
"""

from __future__ import annotations

import dataclasses
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from bars import at_least, json_file

from robots.registry import build
from sim_core.inverse import forward_dynamics, inverse_dynamics
from sim_core.kernels.bound import pointer_table
from sim_core.kernels.compiled import call_kernel, loop
from sim_core.simulation import Simulation
from sim_core.state import State
from sim_core.system import System, assemble

sys.path.append(str(Path(__file__).resolve().parent))
from engine_peers import MuJoCo, NativePinocchio, NotMeasuredError, Pinocchio, Timed

ROBOT = "charmie"
STATES = 64  # native loops go round these
TURN_US, TURNS = 3000.0, 100
STEP_S, COMPARED_STEPS = 1e-3, 250
LATER_STEPS = 1200  # the step size is checked at tick 1024 and then at 4096
SYSTEMS, SYSTEM_STEPS = 16, 200  # of one rollout


@dataclasses.dataclass(frozen=True)
class Contest:
    """Ours and the peer's way to the same numbers. `bar`: how many times as fast ours must be."""

    name: str
    peer: str
    ours: Timed
    theirs: Timed
    bar: float | None


def each(call: Callable[[], Any], counts: int = 1) -> Timed:
    """Turns of a call from Python that counts as so many."""

    def turn(calls: int) -> float:
        times = max(1, calls // counts)
        start = time.thread_time_ns()
        for _ in range(times):
            call()
        return (time.thread_time_ns() - start) / (times * counts) * 1e-3

    return turn


@loop
def _go_round(address: int, tables: np.ndarray, outputs: int, calls: int) -> None:
    for index in range(calls):
        call_kernel(address, tables[index % len(tables)], outputs)


class NativeLoop:
    """A kernel of ours called from a native loop; rows (STATES, 3, n_q) are its q, v and a or tau."""

    def __init__(self, system: System, name: str, rows: np.ndarray) -> None:
        t, p = np.zeros(1), system.default_parameters()
        outputs = [np.zeros(system.n_q), np.zeros(1)]
        inputs = [pointer_table([t, *arguments, p]) for arguments in rows]
        self._keep = rows, t, p, outputs, inputs
        self._address = system.addresses[name]
        self._tables = np.array([table.ctypes.data for table in inputs])
        self._outputs = pointer_table(outputs)
        self._run(STATES)

    def _run(self, calls: int) -> None:
        _go_round(self._address, self._tables, self._outputs.ctypes.data, calls)

    def turn(self, calls: int) -> float:
        """us per call."""
        start = time.thread_time_ns()
        self._run(calls)
        return (time.thread_time_ns() - start) / calls * 1e-3


def random_states(system: System) -> np.ndarray:
    """(STATES, 3, n_q): positions, velocities, and accelerations or efforts."""
    return (
        np.random.default_rng(7).normal(scale=(1.0, 1.0, 5.0), size=(STATES, system.n_q, 3)).transpose(0, 2, 1).copy()
    )


def require_agreement(what: str, ours: np.ndarray, theirs: np.ndarray) -> None:
    """Raise when the two do not compute the same, to 1e-9 of the largest entry."""
    miss = np.abs(ours - theirs).max() / np.abs(theirs).max()
    if not miss < 1e-9:
        raise RuntimeError(f"{what}: ours and the peer's differ by {miss:.1e} of the largest entry; nothing to time")


def from_python(system: System, peer: Pinocchio, rows: np.ndarray) -> list[Contest]:
    """Our bound calls beside rnea and aba with their Data reused, on the arrays of one state."""
    q, v, a = rows[0].copy()
    out, state = np.zeros(system.n_q), peer.state(q, v, a)
    pin, model, data = peer.pin, peer.model, peer.data
    require_agreement("inverse dynamics", inverse_dynamics(system, q, v, a), peer.ours(pin.rnea(model, data, *state)))
    require_agreement("forward dynamics", forward_dynamics(system, q, v, a), peer.ours(pin.aba(model, data, *state)))
    inverse, forward = system.bind_inverse_dynamics(q, v, a, out), system.bind_forward_dynamics(q, v, a, out)
    rnea = partial(pin.rnea, model, data, *state)
    variants = [partial(pin.aba, model, data, *state, way) for way in (pin.Convention.LOCAL, pin.Convention.WORLD)]
    aba = min(variants, key=lambda call: min(each(call)(1000) for _ in range(9)))
    return [
        Contest("inverse dynamics, from Python", "pin.rnea", each(inverse), each(rnea), 4.0),
        Contest("forward dynamics, from Python", "pin.aba", each(forward), each(aba), 4.0),
    ]


def from_native(system: System, peer: NativePinocchio, rows: np.ndarray) -> list[Contest]:
    """Our kernels in a native loop beside pinocchio's C++, both going round the same states."""
    require_agreement("rnea in C++", np.array([inverse_dynamics(system, *row) for row in rows]), peer.efforts)
    require_agreement("aba in C++", np.array([forward_dynamics(system, *row) for row in rows]), peer.accelerations)
    inverse, forward = (NativeLoop(system, name, rows) for name in ("inverse_dynamics", "forward_dynamics"))
    return [
        Contest("inverse dynamics, kernel", "rnea in C++", inverse.turn, peer.timed("rnea"), 8.0),
        Contest("forward dynamics, kernel", "aba in C++", forward.turn, peer.timed("aba"), None),
    ]


def stepping(system: System, peer: MuJoCo) -> list[Contest]:
    """RK4 steps of 1 ms of a CHARMIE that falls freely, ours in one `step`, MuJoCo's in one mj_step.

    The second contest begins later in the run, where no check of the step size falls due: at first these are frequent.
    """
    sim = Simulation(system, step_s=STEP_S, stepper="rk4", stabilizer="none")
    start = sim.snapshot()
    sim.step(COMPARED_STEPS)
    theirs = peer.stepped(start.q, start.v)
    theirs(COMPARED_STEPS)
    require_agreement(f"{COMPARED_STEPS} RK4 steps", sim.state.q, peer.data.qpos[peer.at_q])
    sim.step(LATER_STEPS - COMPARED_STEPS)
    later = sim.snapshot()

    def ours(begin: State, steps: int) -> float:
        sim.restore(begin)
        started = time.thread_time_ns()
        sim.step(steps)
        return (time.thread_time_ns() - started) / steps * 1e-3

    return [
        Contest("RK4 step", "mj_step", partial(ours, start), theirs, 4.0),
        Contest("RK4 step, later in a run", "mj_step", partial(ours, later), peer.stepped(later.q, later.v), 6.0),
    ]


def rolling(system: System, peer: MuJoCo) -> list[Contest]:
    """RK4 steps of many CHARMIEs at once, every state kept: a vector's lanes are systems. Per step of one of them."""
    random, start = np.random.default_rng(11), np.array(system.mechanism.initial_q)
    q = start + 0.1 * random.normal(size=(SYSTEMS, system.n_q))
    v = 0.1 * random.normal(size=(SYSTEMS, system.n_q))
    theirs, ends = peer.rolled_out(q, v, SYSTEM_STEPS)
    contests = []
    for lanes in (4, 8):
        batch = system.batch(lanes)
        roll = partial(batch.rollout, q, v, step_s=STEP_S, steps=SYSTEM_STEPS)
        require_agreement(f"rollout in {lanes} lanes", roll().q[:, -1], ends)
        contests.append(
            Contest(f"RK4 step of a batch, {lanes} lanes", "rollout", each(roll, SYSTEMS * SYSTEM_STEPS), theirs, 10.0)
        )
    return contests


def main(json_path: str | None = None) -> dict[str, Any]:
    """Measure all that is at hand, print the table, write JSON where asked, and give the figures."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    system = assemble(build(ROBOT, limits="none"))  # the engines' functions know no stops
    rows = random_states(system)
    rounds: tuple[Callable[[], list[Contest]], ...] = (
        lambda: from_native(system, NativePinocchio(Pinocchio(system), rows), rows),
        lambda: from_python(system, Pinocchio(system), rows),
        lambda: stepping(system, MuJoCo(system, STEP_S)),
        lambda: rolling(system, MuJoCo(system, STEP_S)),
    )
    result: dict[str, Any] = {"robot": ROBOT, "not_measured": [], "contests": []}
    for contests in rounds:
        try:
            result["contests"] += [measured(contest) for contest in contests()]
        except NotMeasuredError as error:
            result["not_measured"] += [str(error)] * (str(error) not in result["not_measured"])
    print(f"{ROBOT}, us per call or step, minimum / median; how many times as fast by the minima / by the median turn")
    for row in result["contests"]:
        verdict = "" if row["bar"] is None else f"bar {row['bar']:g}: {'met' if row['met'] else 'MISSED'}"
        ours, theirs = (f"{row[who]['min_us']:7.3f} {row[who]['median_us']:7.3f}" for who in ("ours", "theirs"))
        ratios = f"{row['ratio_of_minima']:6.2f} {row['ratio']:6.2f}"
        print(f"  {row['name']:30} {ours}   {row['peer']:12} {theirs}   {ratios}   {verdict}")
    for line in result["not_measured"]:
        print(f"  {line}")
    judged = [row for row in result["contests"] if row["bar"] is not None]
    result["bars"] = [at_least(row["name"], min(row["ratio"], row["ratio_of_minima"]), row["bar"]) for row in judged]
    if json_path:
        Path(json_path).write_text(json.dumps(result, indent=1))
    return result


def measured(contest: Contest) -> dict[str, Any]:
    """Minimum and median of both over the turns, and the median of the turns' ratios."""
    ways = (contest.ours, contest.theirs)
    calls = [max(1, round(TURN_US / min(way(200) for _ in range(3)))) for way in ways]
    turns = [[way(count) for way, count in zip(ways, calls, strict=True)] for _ in range(TURNS)]
    ours, theirs = zip(*turns, strict=True)
    ratios = min(theirs) / min(ours), statistics.median(b / a for a, b in turns)
    return {
        "name": contest.name,
        "peer": contest.peer,
        "ours": {"min_us": min(ours), "median_us": statistics.median(ours)},
        "theirs": {"min_us": min(theirs), "median_us": statistics.median(theirs)},
        "ratio_of_minima": ratios[0],
        "ratio": ratios[1],
        "bar": contest.bar,
        "met": None if contest.bar is None else min(ratios) >= contest.bar,
    }


if __name__ == "__main__":
    main(json_file(__doc__))
