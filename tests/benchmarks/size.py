"""Chains, trees and planar linkages of any size, some beside MuJoCo and pinocchio, and how soon they are ready.

    python tests/benchmarks/size.py [chains] [planar] [humanoids] [--json FILE]

All in one run, pinned to one core, ours and the peer in turns; microseconds of processor time per RK4 step of 1 ms,
minimum and median. Before anything is timed, both must give the same numbers: after the compared steps, positions agree
to AGREEMENT of the largest. MuJoCo steps smooth dynamics alone, as we do. Of pinocchio, four calls of aba count as a
step. The chains are in space: their links turn about x, y and z one after the other. The humanoids are those of
example-robot-data: fixed to the ground beside pinocchio's rnea in C++ (or, if that does not build in two minutes of
processor time, beside rnea from Python less an empty call), and on a free base to time their assembly.
"""

from __future__ import annotations

import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from bars import at_least, at_most, json_file_and_parts

from robots.registry import build
from sim_core.inverse import forward_dynamics
from sim_core.mechanism import GROUND, Body, Joint, Mechanism, X, Y, Z
from sim_core.simulation import Simulation
from sim_core.system import System, assemble

sys.path.append(str(Path(__file__).resolve().parent))
from any_robot import HUMANOIDS, from_file
from any_robot import ready as kernels_ready
from engine_peers import NotMeasuredError, Pinocchio, Timed
from engines import measured

CHAINS = {10: 9.0, 20: 6.0, 40: 3.0, 80: 3.0, 320: 3.0, 1000: 3.0}  # links: bar of the times as fast as MuJoCo
TREE, TREE_BAR = 255, 3.0
PINOCCHIO_BAR, MOST_PINOCCHIO = 2.0, 320  # its data holds the cube of the number of links
FLAT_BAR = 1.3  # cost per link of the longest chain over that of 40 links
STEP_S, TURN_US, TURNS = 1e-3, 10_000.0, 15
COMPARED_STEPS, AGREEMENT = 3, 1e-8
SETTLE_STEPS = 65  # past the first checks of the step size
COLD_BAR_S, WARM_BAR_S, MEMORY_BAR = 20.0, 1.0, 1e9
PLANAR, PLANAR_BAR_US, PLANAR_COLD_BAR_S = 1000, 0.25, 20.0  # bodies of a planar chain in absolute coordinates
CABLE_BAR_US = 300.0  # of a millisecond of the gibbon on a cable of 200 segments
HUMANOIDS_COLD_BAR_S = 10.0
GRID, LADDER = 20, 300  # four-bars along a side of a grid; loops of a ladder
READY = """
import json, os, re, sys, time, warnings
warnings.simplefilter("ignore")
sys.path[:0] = [os.path.dirname(sys.argv[1]), os.getcwd()]
import size
mechanism = getattr(size, sys.argv[3])(int(sys.argv[2]))
began = time.perf_counter()
from sim_core.system import assemble
system = assemble(mechanism)
wall = time.perf_counter() - began
# the maximum of getrusage contains that of the parent
memory = 1024 * int(re.search(r"VmHWM:\\s*(\\d+)", open("/proc/self/status").read())[1])
print(json.dumps({"wall_s": wall, "memory": memory, "from_cache": system.from_cache}))
"""


def linked(n: int, branches: int = 1) -> Mechanism:
    """A chain of n links in space; with several branches, a tree in which each link has so many children."""
    random = np.random.default_rng(0)
    names = [f"link_{k}" for k in range(n)]
    bodies = tuple(
        Body(
            name=name,
            mass=1.0 + 0.1 * random.random(),
            inertia=(*(0.01 + 0.005 * random.random(3)), 5e-4, -3e-4, 2e-4),
            center_of_mass=(0.1, 0.01, -0.02),
        )
        for name in names
    )
    joints = tuple(
        Joint(
            name=f"joint_{k}",
            parent=names[(k - 1) // branches] if k else GROUND,
            child=name,
            parent_point=(0.2, 0.0, 0.0) if k else (0.0, 0.0, 0.0),
            axis=(X, Y, Z)[k % 3],
            damping=0.1,
        )
        for k, name in enumerate(names)
    )
    q, v = 0.1 * random.normal(size=(2, n))
    name = f"chain_{n}" if branches == 1 else f"tree_{n}"
    start, rates = (tuple(each.tolist()) for each in (q, v))
    return Mechanism(name=name, coordinates="joint", bodies=bodies, joints=joints, initial_q=start, initial_v=rates)


def pinned(name: str, bars: list[tuple[tuple[float, float], tuple[float, float]]]) -> Mechanism:
    """Bars in the plane in absolute coordinates, pinned to each other where they meet; one hangs on the ground."""
    bodies, joints, q = list[Body](), list[Joint](), list[float]()
    meeting: dict[tuple[float, float], tuple[str, tuple[float, float, float]]] = {}
    for k, (begin, end) in enumerate(bars):
        (x0, y0), (x1, y1) = begin, end
        length = math.hypot(x1 - x0, y1 - y0)
        bodies.append(Body(name=f"bar_{k}", mass=1.0, inertia=(0.0, 0.0, length**2 / 12, 0.0, 0.0, 0.0)))
        q += [(x0 + x1) / 2, (y0 + y1) / 2, math.atan2(y1 - y0, x1 - x0)]
        for at, along in ((begin, -length / 2), (end, length / 2)):
            point = (along, 0.0, 0.0)
            default = (GROUND, (*at, 0.0)) if not joints else (f"bar_{k}", point)
            parent, parent_point = meeting.setdefault(at, default)
            if parent != f"bar_{k}":
                joint: dict[str, Any] = {"parent_point": parent_point, "child_point": point}
                joints.append(Joint(name=f"pin_{len(joints)}", parent=parent, child=f"bar_{k}", **joint))
    still = (0.0,) * len(q)
    down = (0.0, -9.81, 0.0)
    parts: dict[str, Any] = {
        "bodies": tuple(bodies),
        "joints": tuple(joints),
        "initial_q": tuple(q),
        "initial_v": still,
    }
    return Mechanism(name=name, coordinates="absolute", gravity=down, **parts)


def planar_chain(n: int) -> Mechanism:
    """A chain of n bars."""
    return pinned(f"planar_chain_{n}", [((float(k), 0.0), (k + 1.0, 0.0)) for k in range(n)])


def grid(n: int) -> Mechanism:
    """A grid of n x n four-bars that hangs on a corner."""
    across = [((float(i), float(-j)), (i + 1.0, float(-j))) for j in range(n + 1) for i in range(n)]
    down = [((float(i), float(-j)), (float(i), -j - 1.0)) for j in range(n) for i in range(n + 1)]
    return pinned(f"grid_{n}", across + down)


def ladder(n: int) -> Mechanism:
    """A ladder of n four-bars in a row that hangs on its first bar."""
    return pinned(f"ladder_{n}", [bar for k in range(n + 1) for bar in _rungs(float(k), k < n)])


def _rungs(x: float, has_rails: bool) -> list[tuple[tuple[float, float], tuple[float, float]]]:
    rails = [((x, y), (x + 1.0, y)) for y in (0.0, -1.0)] if has_rails else []
    return [((x, 0.0), (x, -1.0)), *rails]


def planar_row(mechanism: Mechanism) -> dict[str, Any]:
    """Microseconds per body and step of a mechanism in absolute coordinates, minimum over the turns."""
    ours, sim = our_steps(assemble(mechanism))
    ours(SETTLE_STEPS)
    n = len(mechanism.bodies)
    least = min(ours(20) for _ in range(TURNS)) / n
    return {"name": mechanism.name, "bodies": n, "us": least, "residual": sim.solve_residual()}


def cable_us() -> float:
    """Microseconds of a step of 1 ms of the gibbon on a cable of segments, stabilized, minimum over the turns."""
    sim = Simulation(assemble(build("gibbon", line="segments")), step_s=STEP_S)
    sim.step(SETTLE_STEPS)
    least = math.inf
    for _ in range(TURNS):
        begin = time.thread_time_ns()
        sim.step(20)
        least = min(least, (time.thread_time_ns() - begin) / 20 * 1e-3)
    return least


def mujoco_steps(mechanism: Mechanism) -> tuple[Timed, Callable[[], np.ndarray]]:
    """Turns of mj_step, and a function that returns MuJoCo's joint positions in our order.

    The model is made without a file, whose elements must not nest so deep.
    """
    try:
        import mujoco
    except ImportError as error:
        raise NotMeasuredError("MuJoCo is not installed") from error
    spec = mujoco.MjSpec()
    made = {GROUND: spec.worldbody}
    for body, joint in zip(mechanism.bodies, mechanism.joints, strict=True):
        made[body.name] = placed = made[joint.parent].add_body(
            name=body.name,
            pos=joint.parent_point,
            mass=body.mass,
            ipos=body.center_of_mass,
            fullinertia=body.inertia,
            explicitinertial=True,
        )
        placed.add_joint(name=joint.name, axis=joint.axis, damping=[joint.damping, 0.0, 0.0])
    model = spec.compile()
    model.opt.integrator, model.opt.timestep = mujoco.mjtIntegrator.mjINT_RK4, STEP_S
    model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONSTRAINT)
    data = mujoco.MjData(model)
    places = [int(model.joint(joint.name).qposadr[0]) for joint in mechanism.joints]

    def turn(steps: int) -> float:
        mujoco.mj_resetData(model, data)
        data.qpos[places], data.qvel[places] = mechanism.initial_q, mechanism.initial_v
        begin = time.thread_time_ns()
        mujoco.mj_step(model, data, steps)
        return (time.thread_time_ns() - begin) / steps * 1e-3

    return turn, lambda: np.array(data.qpos[places])


def pinocchio_steps(system: System) -> Timed:
    """Turns of four calls of aba, from Python, in the faster of its two conventions."""
    peer = Pinocchio(system)
    random = np.random.default_rng(1)
    q, v, tau = 0.3 * random.normal(size=(3, system.n_q))
    state, pin = peer.state(q, v, tau), peer.pin
    ours = forward_dynamics(system, q, v, tau)
    undamped = forward_dynamics(system, q, v, tau + 0.1 * v)  # pinocchio's model has no damping
    theirs = peer.ours(pin.aba(peer.model, peer.data, *state))
    if not np.abs(undamped - theirs).max() < AGREEMENT * np.abs(ours).max():
        raise RuntimeError(f"{system.mechanism.name}: the accelerations of aba differ; nothing to time")

    def calls(way: Any) -> Timed:
        def turn(steps: int) -> float:
            begin = time.thread_time_ns()
            for _ in range(4 * steps):
                pin.aba(peer.model, peer.data, *state, way)
            return (time.thread_time_ns() - begin) / steps * 1e-3

        return turn

    ways = [calls(way) for way in (pin.Convention.LOCAL, pin.Convention.WORLD)]
    return min(ways, key=lambda turn: min(turn(5) for _ in range(5)))


def our_steps(system: System) -> tuple[Timed, Simulation]:
    """Turns of RK4 steps, each from where the last one ended, and the simulation. Early steps have the most checks."""
    sim = Simulation(system, step_s=STEP_S, stabilizer="none")

    def turn(steps: int) -> float:
        begin = time.thread_time_ns()
        sim.step(steps)
        return (time.thread_time_ns() - begin) / steps * 1e-3

    return turn, sim


def compared(name: str, peer: str, ours: Timed, theirs: Timed, bar: float, links: int) -> dict[str, Any]:
    """Minimum and median of both over the turns, which have equal lengths in time."""
    steps = [max(2, round(TURN_US / min(way(3) for _ in range(3)))) for way in (ours, theirs)]
    turns = np.array([[way(count) for way, count in zip((ours, theirs), steps, strict=True)] for _ in range(TURNS)])
    (our_least, their_least), median = turns.min(axis=0), statistics.median((turns[:, 1] / turns[:, 0]).tolist())
    return {
        **{"name": name, "peer": peer, "links": links, "ours_us": float(our_least), "theirs_us": float(their_least)},
        **{"ratio": min(float(their_least / our_least), median), "bar": bar},
    }


def raced(mechanism: Mechanism, bar: float) -> tuple[list[dict[str, Any]], list[str]]:
    """Rows of one mechanism beside its peers, and why a peer was not measured."""
    system, n = assemble(mechanism), len(mechanism.joints)
    ours, sim = our_steps(system)
    theirs, positions = mujoco_steps(mechanism)
    ours(COMPARED_STEPS)
    theirs(COMPARED_STEPS)
    if not np.abs(sim.state.q - positions()).max() < AGREEMENT * np.abs(sim.state.q).max():
        raise RuntimeError(f"{mechanism.name}: MuJoCo's positions differ; nothing to time")
    ours(SETTLE_STEPS)
    how = "loops" if system.is_rolled else "straight"
    rows, lines = [compared(f"{mechanism.name}, {how}", "mj_step", ours, theirs, bar, n)], list[str]()
    if n <= MOST_PINOCCHIO:
        try:
            four = pinocchio_steps(system)
            rows.append(compared(f"{mechanism.name}, {how}", "four pin.aba", ours, four, PINOCCHIO_BAR, n))
        except NotMeasuredError as error:
            lines.append(str(error))
    return rows, lines


def ready(n: int, made: str = "linked") -> dict[str, Any]:
    """Wall time, s, and memory, bytes, of `assemble` for a mechanism of this file, in own processes, cold and warm."""
    with tempfile.TemporaryDirectory() as cache:
        words = [sys.executable, "-P", "-c", READY, __file__, str(n), made]
        environment = os.environ | {"XDG_CACHE_HOME": cache}
        runs = [
            json.loads(subprocess.run(words, env=environment, capture_output=True, text=True, check=True).stdout)
            for _ in range(3)
        ]
    warm = min(run["wall_s"] for run in runs[1:])
    return {"links": n, "cold_s": runs[0]["wall_s"], "warm_s": warm, "memory": max(run["memory"] for run in runs)}


def chains(result: dict[str, Any]) -> None:
    """Measure and print chains and a tree, and how soon the longest chain is ready."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    rows = list[dict[str, Any]]()
    print("us per RK4 step, minima; ns per link; how many times as fast")
    for mechanism, bar in [*((linked(n), bar) for n, bar in CHAINS.items()), (linked(TREE, 2), TREE_BAR)]:
        try:
            found, lines = raced(mechanism, bar)
        except NotMeasuredError as error:
            found, lines = [], [str(error)]
        result["not_measured"] += lines
        rows += found
        for row in found:
            each = f"{row['ours_us']:10.2f} {1e3 * row['ours_us'] / row['links']:6.0f} {row['theirs_us']:11.2f}"
            print(f"  {row['name']:22} {each}  {row['peer']:13} {row['ratio']:7.2f}   bar {row['bar']:g}", flush=True)
    os.sched_setaffinity(0, cores)
    result["rows"], result["ready"] = rows, (last := ready(max(CHAINS)))
    print(f"  {last['links']} links are ready in {last['cold_s']:.2f} s, from the cache in {last['warm_s']:.2f} s, "
          f"with {last['memory'] / 1e6:.0f} MB")  # fmt: skip
    per_link = {row["links"]: row["ours_us"] / row["links"] for row in rows if row["name"].startswith("chain")}
    flat = per_link[max(CHAINS)] / per_link[40]
    print(f"  cost per link at {max(CHAINS)} over that at 40 links: {flat:.2f}   bar {FLAT_BAR:g}")
    result["bars"] += [
        *(at_least(f"{row['name']} against {row['peer']}", row["ratio"], row["bar"]) for row in rows),
        at_most("cost per link", flat, FLAT_BAR),
        at_most("cold", last["cold_s"], COLD_BAR_S),
        at_most("warm", last["warm_s"], WARM_BAR_S),
        at_most("memory", last["memory"], MEMORY_BAR),
    ]


def planar(result: dict[str, Any]) -> None:
    """Measure and print bodies in absolute coordinates, and the gibbon on segments of cable."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    result["planar"] = rows = [planar_row(each) for each in (planar_chain(PLANAR), grid(GRID), ladder(LADDER))]
    result["cable_us"] = cable_us()
    os.sched_setaffinity(0, cores)
    result["planar_ready"] = found = ready(PLANAR, "planar_chain")
    for row in rows:
        print(
            f"  {row['name']:22} {row['us']:.3f} us per body and step in absolute coordinates, {row['bodies']} bodies"
        )
    print(f"  {PLANAR} bodies in absolute coordinates are ready in {found['cold_s']:.2f} s")
    print(f"  a step of 1 ms of the gibbon on 200 segments of cable: {result['cable_us']:.0f} us")
    result["bars"] += [
        at_most("gibbon on segments, us per step of 1 ms", result["cable_us"], CABLE_BAR_US),
        at_most("planar chain, us per body and step", rows[0]["us"], PLANAR_BAR_US),
        at_most("planar chain, cold", found["cold_s"], PLANAR_COLD_BAR_S),
    ]


def humanoids(result: dict[str, Any]) -> None:
    """Measure and print inverse dynamics of humanoids beside pinocchio, and how soon their kernels are ready."""
    cores, contests, starts = os.sched_getaffinity(0), list[dict[str, Any]](), list[dict[str, Any]]()
    for name in HUMANOIDS:
        os.sched_setaffinity(0, {min(cores)})
        try:
            keeps_the_code, contest = from_file(name)
            contests.append(row := measured(contest))
            del keeps_the_code
            times = f"{row['ours']['min_us']:7.3f} {row['theirs']['min_us']:7.3f} us"
            print(f"  {row['name']:34} {times}  {row['peer']} {row['ratio']:6.2f}   bar {row['bar']:g}", flush=True)
        except NotMeasuredError as error:
            result["not_measured"].append(str(error))
        os.sched_setaffinity(0, cores)  # two processes compile large kernels
        try:
            for row in kernels_ready(name, HUMANOIDS_COLD_BAR_S):
                starts.append(row)
                print(
                    f"  {row['name']:34} {row['wall_s']:7.3f} s, {row['processor_s']:.3f} s of processor time   "
                    f"bar {row['bar_s']:g} s",
                    flush=True,
                )
        except NotMeasuredError as error:
            result["not_measured"].append(str(error))
    result["humanoids"] = contests + starts
    result["bars"] += [
        *(at_least(row["name"], min(row["ratio"], row["ratio_of_minima"]), row["bar"]) for row in contests),
        *(at_most(row["name"], row["wall_s"], row["bar_s"]) for row in starts),
    ]


PARTS = {"chains": chains, "planar": planar, "humanoids": humanoids}


def main(json_path: str | None = None, parts: Sequence[str] = tuple(PARTS)) -> dict[str, Any]:
    """Measure some parts, print the table, write JSON where asked, and give the figures."""
    result: dict[str, Any] = {"not_measured": [], "bars": []}
    for part in parts:
        PARTS[part](result)
    for line in dict.fromkeys(result["not_measured"]):
        print(f"  {line}")
    if json_path:
        Path(json_path).write_text(json.dumps(result, indent=1))
    return result


if __name__ == "__main__":
    main(*json_file_and_parts(__doc__, PARTS))
