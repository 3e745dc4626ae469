"""Robots from URDF files beside pinocchio, and a robot that stands on eight contact points beside MuJoCo.

    python tests/benchmarks/any_robot.py [--json FILE]

All in one run, pinned to one core, ours and the peer in turns of the same length; microseconds of processor time per
call or step, as in engines.py. Before anything is timed, inverse dynamics of both must agree to 1e-9, and both standing
robots, on a slope of SLOPE, must sink in by the same depth and creep down at the same speed, to 1 %: MuJoCo's contacts
get the stiffness (solref) and the ratio of frictional to normal impedance (impratio) that do this. Last, on all cores,
how soon the kernels of talos are ready, compiled and from the cache. The URDF files are those of the package
example-robot-data.
"""

from __future__ import annotations

import importlib.metadata
import json
import math
import os
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from bars import at_least, at_most, json_file

from robots.registry import build
from sim_core.inverse import inverse_dynamics
from sim_core.mechanism import Actuator, Body, Joint, JointSpring, Mechanism, SphereContact, Y
from sim_core.mechanism.quantities import value_of
from sim_core.simulation import Simulation
from sim_core.system import System, assemble

sys.path.append(str(Path(__file__).resolve().parent))
from engine_peers import NativePinocchio, NotMeasuredError, Pinocchio
from engines import Contest, NativeLoop, measured, random_states, require_agreement

PACKAGE = "example-robot-data"
FILES = {
    "panda": "panda_description/urdf/panda.urdf",
    "ur5": "ur_description/urdf/ur5_robot.urdf",
    "talos": "talos_data/robots/talos_full_v2.urdf",
}
HUMANOIDS = {  # 44 to 101 joints; size.py measures these
    "talos": FILES["talos"],
    "g1": "g1_description/urdf/g1_29dof_with_hand_rev_1_0.urdf",
    "romeo": "romeo_description/urdf/romeo.urdf",
    "tiago": "tiago_description/robots/tiago_dual.urdf",
}
REPAIRS = {"romeo": "massless"}
INVERSE_BAR, STEP_BAR = 6.0, 2.0
STEP_S, SETTLE_STEPS = 5e-4, 4000
LEG, FOOT, TRUNK, MASS = 0.3, (0.06, 0.03), (0.3, 0.2, 0.1), 6.0  # m, m, m, kg
STIFFNESS, DAMPING = 2e4, 100.0  # N/m and N s/m of one contact point
HIP = 60.0  # N m/rad: springs hold the legs
SLOPE = 0.1  # rad: an eighth of the friction coefficient
GRAVITY = (9.81 * math.sin(SLOPE), 0.0, -9.81 * math.cos(SLOPE))
CREEP_STEPS, EQUAL = 1000, 0.01
COLD_BAR_S, WARM_BAR_S, STARTS = 20.0, 0.2, 3
READY = """
import json, os, sys, time, warnings
warnings.simplefilter("ignore")
from robots.registry import build
mechanism = build(sys.argv[1], base="free", contacts="none", repair=sys.argv[2])
began, used = time.perf_counter(), sum(os.times()[:4])
from sim_core.system import assemble
system = assemble(mechanism)
wall, used = time.perf_counter() - began, sum(os.times()[:4]) - used
print(json.dumps({"wall_s": wall, "processor_s": used, "n_q": system.n_q, "from_cache": system.from_cache}))
"""


def path_of(name: str) -> str:
    """The path of a URDF file."""
    wanted = (FILES | HUMANOIDS)[name]
    places = importlib.metadata.files(PACKAGE) or []
    file = next((each for each in places if str(each).endswith(wanted)), None)
    if file is None:
        raise NotMeasuredError(f"{wanted} is not in {PACKAGE}")
    return str(Path(str(file.locate())).resolve())


def ready(name: str, cold_bar_s: float = COLD_BAR_S) -> list[dict[str, Any]]:
    """Wall time of `assemble` for the robot of a file on a free base, with its meshes: with an empty cache, and the
    shortest of several with a full one; each in a process of its own.
    """
    rows = list[dict[str, Any]]()
    with tempfile.TemporaryDirectory() as cache:
        for what, bar, count in (("cold", cold_bar_s, 1), ("warm", WARM_BAR_S, STARTS)):
            runs = []
            for _ in range(count):
                words = [sys.executable, "-P", "-c", READY, path_of(name), REPAIRS.get(name, "")]
                done = subprocess.run(
                    words, env=os.environ | {"XDG_CACHE_HOME": cache}, capture_output=True, text=True, check=True
                )
                runs.append(json.loads(done.stdout))
            best = min(runs, key=lambda run: float(run["wall_s"]))
            label = f"kernels of {name}, {best['n_q']}, {what}"
            rows.append({"name": label, **best, "bar_s": bar, "met": best["wall_s"] <= bar})
    return rows


def from_file(name: str) -> tuple[System, Contest]:
    """The system of a URDF file, and its inverse dynamics from a native loop beside rnea in C++.

    If the C++ program does not build, rnea of pinocchio's Python package stands in, which is not compiled for this
    processor; the time of a call with an empty model is subtracted.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        choices = {"friction": "ignore", "mimic": "free", "limits": "none", "meshes": "boxes"}
        mechanism = build(path_of(name), **choices, repair=REPAIRS.get(name, ""))
    system = assemble(mechanism)
    rows = random_states(system)
    pinocchio = Pinocchio(system)
    undamped = [inverse_dynamics(system, q, v, a) - _damping(mechanism) * v for q, v, a in rows]
    require_agreement(
        f"inverse dynamics of {name}", np.array(undamped), np.array([pinocchio.efforts(*row) for row in rows])
    )
    try:
        peer, theirs = "rnea in C++", NativePinocchio(pinocchio, rows).timed("rnea")
    except NotMeasuredError as error:
        print(f"  {error}")
        peer, theirs = "pin.rnea less an empty call", pinocchio.timed_rnea(rows)
    ours = NativeLoop(system, "inverse_dynamics", rows)
    what = f"inverse dynamics of {name}, {system.n_q}{', loops' * system.is_rolled}"
    return system, Contest(what, peer, ours.turn, theirs, INVERSE_BAR)


def _damping(mechanism: Mechanism) -> np.ndarray:
    return np.array([value_of(joint.damping) for joint in mechanism.moving_joints])


def standing_robot() -> Mechanism:
    """A trunk on a free joint and two legs on sprung hips, each with a foot of four contact points."""
    x, y, z = TRUNK
    trunk = Body(
        name="trunk",
        mass=MASS,
        inertia=(MASS * (y * y + z * z) / 12, MASS * (x * x + z * z) / 12, MASS * (x * x + y * y) / 12, 0, 0, 0),
    )
    bodies, joints, contacts = [trunk], [Joint(name="base", kind="free", child="trunk")], []
    for side, sign in (("left", 1), ("right", -1)):
        bodies.append(Body(name=side, mass=1.0, inertia=(8e-3, 8e-3, 1e-3, 0, 0, 0), center_of_mass=(0, 0, -LEG / 2)))
        joints.append(
            Joint(
                name=f"{side}_hip",
                parent="trunk",
                child=side,
                parent_point=(0, sign * y / 2, -z / 2),
                axis=Y,
                damping=2.0,
                spring=JointSpring(stiffness=HIP),
            )
        )
        for k, (along, across) in enumerate(((1, 1), (1, -1), (-1, 1), (-1, -1))):
            corner = (along * FOOT[0], across * FOOT[1], -LEG)
            # 3/2 c k x x' is the damping of a point at the depth x that bears an eighth of the weight
            share = (MASS + 2.0) * 9.81 / 8
            contacts.append(
                SphereContact(
                    name=f"{side}_{k}",
                    body=side,
                    center=corner,
                    stiffness=STIFFNESS,
                    exponent=1.0,
                    dissipation=DAMPING / (1.5 * share),
                    friction=0.8,
                    slip_velocity=0.02,
                )
            )
    return Mechanism(
        name="standing",
        coordinates="joint",
        bodies=tuple(bodies),
        joints=tuple(joints),
        contacts=tuple(contacts),
        actuators=tuple(Actuator(name=joint.name, joint=joint.name) for joint in joints[1:]),
        gravity=GRAVITY,
        initial_q=(0, 0, LEG + z / 2, 0, 0, 0, 0, 0),
        initial_v=(0,) * 8,
    )


def standing_in_mujoco(stiffness: float, impratio: float) -> str:
    """The same robot as MJCF: spheres of 0.1 mm radius at the corners, elliptic cones, critically damped contacts.

    stiffness  of its contacts, 1/s^2
    impratio   ratio of frictional to normal impedance of its contacts
    """
    mechanism = standing_robot()
    _, y, z = TRUNK

    def inertial(body: Body) -> str:
        moments, center = " ".join(map(str, body.inertia[:3])), " ".join(map(str, body.center_of_mass))
        return f'<inertial pos="{center}" mass="{body.mass}" diaginertia="{moments}"/>'

    legs = ""
    for body, sign in zip(mechanism.bodies[1:], (1, -1), strict=True):
        corners = "".join(
            f'<geom type="sphere" size="1e-4" pos="{c.center[0]} {c.center[1]} {c.center[2] + 1e-4}"/>'
            for c in mechanism.contacts
            if c.body == body.name
        )
        legs += (
            f'<body name="{body.name}" pos="0 {sign * y / 2} {-z / 2}"><joint name="{body.name}_hip" axis="0 1 0" '
            f'stiffness="{HIP}" damping="2"/>{inertial(body)}{corners}</body>'
        )
    return f"""<mujoco><option integrator="RK4" timestep="{STEP_S}" cone="elliptic" impratio="{impratio}"
gravity="{" ".join(map(str, GRAVITY))}"/>
<default><geom friction="0.8" solref="-{stiffness} -{2.0 * stiffness**0.5}" solimp="0.9 0.9 0.001"/></default>
<worldbody><geom name="floor" type="plane" size="2 2 1"/>
<body name="trunk" pos="0 0 {LEG + z / 2}"><freejoint/>{inertial(mechanism.bodies[0])}{legs}</body>
</worldbody><contact><exclude body1="left" body2="right"/></contact></mujoco>"""


def standing() -> tuple[Contest, dict[str, float]]:
    """A step of the standing robot beside mj_step, both RK4, and the equal penetrations, m, and slips, m/s, of both."""
    try:
        import mujoco
    except ImportError as error:
        raise NotMeasuredError("MuJoCo is not installed") from error
    sim = Simulation(assemble(standing_robot()), step_s=STEP_S, stepper="rk4", stabilizer="none")
    height = LEG + TRUNK[2] / 2
    sim.step(SETTLE_STEPS)
    depth, begin = height - float(sim.state.q[2]), float(sim.state.q[0])
    sim.step(CREEP_STEPS)
    slip = (float(sim.state.q[0]) - begin) / (CREEP_STEPS * STEP_S)
    stiffness, impratio = 1e3, 1.0
    for _ in range(6):  # in MuJoCo, the penetration goes with 1 / stiffness, and the slip with 1 / impratio
        model = mujoco.MjModel.from_xml_string(standing_in_mujoco(stiffness, impratio))
        data = mujoco.MjData(model)
        mujoco.mj_step(model, data, SETTLE_STEPS)
        depth_of_mujoco, begin = height - float(data.qpos[2]), float(data.qpos[0])
        mujoco.mj_step(model, data, CREEP_STEPS)
        slip_of_mujoco = (float(data.qpos[0]) - begin) / (CREEP_STEPS * STEP_S)
        stiffness, impratio = stiffness * depth_of_mujoco / depth, impratio * slip_of_mujoco / slip
    facts = {
        "depth_m": depth,
        "depth_of_mujoco_m": depth_of_mujoco,
        "slip_m_s": slip,
        "slip_of_mujoco_m_s": slip_of_mujoco,
    }
    if data.ncon != 8 or abs(depth_of_mujoco / depth - 1.0) > EQUAL or abs(slip_of_mujoco / slip - 1.0) > EQUAL:
        raise RuntimeError(f"standing: penetration and slip are not equal, with {data.ncon} contacts: {facts}")
    q, v = data.qpos.copy(), data.qvel.copy()

    def ours(steps: int) -> float:
        begin = time.thread_time_ns()
        sim.step(steps)
        return (time.thread_time_ns() - begin) / steps * 1e-3

    def peer(steps: int) -> float:
        data.qpos[:], data.qvel[:] = q, v
        begin = time.thread_time_ns()
        mujoco.mj_step(model, data, steps)
        return (time.thread_time_ns() - begin) / steps * 1e-3

    return Contest("RK4 step, standing on 8 points", "mj_step", ours, peer, STEP_BAR), facts


def main(json_path: str | None = None) -> dict[str, Any]:
    """Measure all that is at hand, print the table, write JSON where asked, and give the figures."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    result: dict[str, Any] = {
        "not_measured": [],
        "contests": [],
        "standing": {},
        "ready": [],
        "load": os.getloadavg()[0],
    }
    for name in FILES:
        try:
            keeps_the_code, contest = from_file(name)
            result["contests"].append(measured(contest))
            del keeps_the_code
        except NotMeasuredError as error:
            result["not_measured"].append(str(error))
    try:
        contest, result["standing"] = standing()
        result["contests"].append(measured(contest))
    except NotMeasuredError as error:
        result["not_measured"].append(str(error))
    os.sched_setaffinity(0, cores)  # two processes compile large kernels
    try:
        result["ready"] = ready("talos")
    except NotMeasuredError as error:
        result["not_measured"].append(str(error))
    print("us per call or step, minimum / median; how many times as fast by the minima / by the median turn")
    for row in result["contests"]:
        ours, theirs = (f"{row[who]['min_us']:7.3f} {row[who]['median_us']:7.3f}" for who in ("ours", "theirs"))
        ratios = f"{row['ratio_of_minima']:6.2f} {row['ratio']:6.2f}"
        verdict = f"bar {row['bar']:g}: {'met' if row['met'] else 'MISSED'}"
        print(f"  {row['name']:34} {ours}   {row['peer']:12} {theirs}   {ratios}   {verdict}")
    for name, value in result["standing"].items():
        print(f"  {name:34} {value:.3g}")
    for row in result["ready"]:
        print(
            f"  {row['name']:34} {row['wall_s']:7.3f} s   bar {row['bar_s']:g} s: {'met' if row['met'] else 'MISSED'}"
        )
    for line in result["not_measured"]:
        print(f"  {line}")
    result["bars"] = [
        *(at_least(row["name"], min(row["ratio"], row["ratio_of_minima"]), row["bar"]) for row in result["contests"]),
        *(at_most(row["name"], row["wall_s"], row["bar_s"]) for row in result["ready"]),
    ]
    if json_path:
        Path(json_path).write_text(json.dumps(result, indent=1))
    return result


if __name__ == "__main__":
    main(json_file(__doc__))
