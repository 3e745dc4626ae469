"""CHARMIE's open tree beside pinocchio and MuJoCo, which read the files that we export.

    python tests/benchmarks/engines.py [engines.json]

All in one run, pinned to one core; ours and the peer take turns this short, so that a busy machine meets both alike.
Microseconds per call or step, minimum and median; the ratio is the median over the turns. Before anything is timed,
both must give the same numbers. pinocchio's C++ is measured from a program built here where a compiler, Eigen and the
headers of the `pin` package are at hand. MuJoCo steps smooth dynamics alone, as we do.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from robots.export import export
from robots.registry import build
from sim_core.inverse import forward_dynamics, inverse_dynamics
from sim_core.kernels.compiled import call_kernel, loop
from sim_core.kernels.native import cache_folder, machine_key, pointer_table
from sim_core.simulation import Simulation
from sim_core.system import System, assemble

ROBOT = "charmie"
STATES = 64  # native loops go round these
NATIVE_CALLS, CALLS, STEPS, TURNS = 4096, 2000, 250, 80
STEP_S = 1e-3
SOURCE = Path(__file__).with_name("pinocchio_native.cpp")
BUILD = ["-w", "-O3", "-DNDEBUG", "-march=native", "-std=c++17"]
DEFINITIONS = {  # those that pinocchio's own build files give to whoever uses it
    "BOOST_MPL_LIMIT_LIST_SIZE": "30",
    "BOOST_MPL_LIMIT_VECTOR_SIZE": "30",
    "BOOST_MPL_CFG_NO_PREPROCESSED_HEADERS": "1",
    "BOOST_FUSION_INVOKE_MAX_ARITY": "12",
}

Timed = Callable[[], float]  # one turn: us per call


@dataclasses.dataclass(frozen=True)
class Contest:
    """Ours and the peer's way to the same numbers. `bar`: how many times as fast ours must be."""

    name: str
    peer: str
    ours: Timed
    theirs: Timed
    bar: float | None


class NotMeasuredError(RuntimeError):
    """A peer that is not at hand, and why."""


def each(calls: int, call: Callable[[], Any]) -> float:
    """us per call, from Python."""
    start = time.perf_counter()
    for _ in range(calls):
        call()
    return (time.perf_counter() - start) / calls * 1e6


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
        self._address = (system.addresses | system.configurations[0].addresses)[name]
        self._tables = np.array([table.ctypes.data for table in inputs])
        self._outputs = pointer_table(outputs)
        self._run(STATES)

    def _run(self, calls: int) -> None:
        _go_round(self._address, self._tables, self._outputs.ctypes.data, calls)

    def turn(self) -> float:
        """us per call."""
        start = time.perf_counter()
        self._run(NATIVE_CALLS)
        return (time.perf_counter() - start) / NATIVE_CALLS * 1e6


class Pinocchio:
    """pinocchio's model of our URDF."""

    def __init__(self, system: System) -> None:
        try:
            import pinocchio
        except ImportError as error:
            raise NotMeasuredError("pinocchio is not installed") from error
        self.pin = pinocchio
        self.model = pinocchio.buildModelFromXML(export(system.mechanism, "urdf").text)
        self.model.gravity.linear = np.array(system.mechanism.gravity)
        self.data = self.model.createData()
        self.joints = [self.model.joints[self.model.getJointId(name)] for name in system.coordinate_names]

    def state(self, q: np.ndarray, v: np.ndarray, a: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """In their order; joints without limits turn as (cos, sin)."""
        found = np.zeros(self.model.nq), np.zeros(self.model.nv), np.zeros(self.model.nv)
        for index, joint in enumerate(self.joints):
            angle = q[index]
            found[0][joint.idx_q : joint.idx_q + joint.nq] = angle if joint.nq == 1 else (np.cos(angle), np.sin(angle))
            found[1][joint.idx_v], found[2][joint.idx_v] = v[index], a[index]
        return found

    def ours(self, values: np.ndarray) -> np.ndarray:
        """Velocities, accelerations or efforts of theirs in our order."""
        return np.asarray(values)[[joint.idx_v for joint in self.joints]]

    def description(self) -> str:
        """The model as the C++ program reads it."""
        joints = range(1, self.model.njoints)
        lines = [" ".join(map(repr, self.model.gravity.linear.tolist())), str(len(joints))]
        for index in joints:
            joint, place, body = self.model.joints[index], self.model.jointPlacements[index], self.model.inertias[index]
            data = joint.createData()
            joint.calc(data, self.pin.neutral(self.model))
            S = np.asarray(data.S).reshape(6)
            axis = S[3:] if S[3:].any() else S[:3]
            I = body.inertia
            moments = [I[0, 0], I[0, 1], I[1, 1], I[0, 2], I[1, 2], I[2, 2]]
            parts = [place.rotation.ravel(), place.translation, axis, [body.mass], body.lever, moments]
            numbers = [repr(float(number)) for part in parts for number in part]
            lines.append(" ".join([joint.shortname(), str(self.model.parents[index]), *numbers]))
        return "\n".join(lines)


class NativePinocchio:
    """pinocchio from C++: a program that measures when it is asked to."""

    def __init__(self, pinocchio: Pinocchio, rows: np.ndarray) -> None:
        self._peer, self._rows = pinocchio, rows
        self._folder = tempfile.TemporaryDirectory()
        folder = Path(self._folder.name)
        states = [pinocchio.state(*row) for row in rows]
        lines = [" ".join(repr(float(x)) for part in state for x in part) for state in states]
        (folder / "model").write_text(pinocchio.description())
        (folder / "states").write_text("\n".join([str(len(lines)), *lines]))
        program = [str(self._program), str(folder / "model"), str(folder / "states")]
        # it ends with us: its standard input does
        self._process = subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        said = [np.array(self._line().split(), dtype=float) for _ in range(2 * len(rows))]
        self.efforts = np.array([pinocchio.ours(line) for line in said[: len(rows)]])
        self.accelerations = np.array([pinocchio.ours(line) for line in said[len(rows) :]])

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def timed(self, name: str) -> Timed:
        """One turn of "rnea" or "aba"."""

        def turn() -> float:
            assert self._process.stdin is not None
            self._process.stdin.write(f"{name} {NATIVE_CALLS}\n")
            self._process.stdin.flush()
            return float(self._line())

        return turn

    @cached_property
    def _program(self) -> Path:
        """The built program, kept among our caches: pinocchio's templates take a minute or two to compile."""
        compiler = shutil.which(os.environ.get("CXX", "c++")) or shutil.which("g++") or shutil.which("clang++")
        if compiler is None:
            raise NotMeasuredError("pinocchio's C++ not measured: no C++ compiler")
        include = self._headers()
        defined = [f"-D{name}={value}" for name, value in DEFINITIONS.items()]
        words = [*BUILD, *defined, *[word for folder in include for word in ("-isystem", str(folder))]]
        facts = [SOURCE.read_text(), compiler, *words, self._peer.pin.__version__, machine_key()]
        program = cache_folder() / "benchmarks" / hashlib.sha256("|".join(facts).encode()).hexdigest()[:32]
        if not program.exists():
            print("building pinocchio's C++ program, once: a minute or two", flush=True)
            program.parent.mkdir(parents=True, exist_ok=True)
            unfinished = program.with_suffix(".unfinished")
            done = subprocess.run(
                [compiler, *words, str(SOURCE), "-o", str(unfinished)], capture_output=True, text=True, check=False
            )
            if done.returncode != 0:
                first = next((line for line in done.stderr.splitlines() if "error" in line), "no message")
                raise NotMeasuredError(f"pinocchio's C++ not measured: it does not build: {first}")
            unfinished.rename(program)
        return program

    def _headers(self) -> list[Path]:
        """Where pinocchio's and Eigen's headers are; another package's copy of Eigen serves as well."""
        packages = Path(np.__file__).parents[1]
        prefixes = [packages / "cmeel.prefix" / "include", Path("/usr/include"), packages / "casadi" / "include"]
        found = [folder for folder in prefixes if (folder / "pinocchio" / "config.hpp").exists()]
        eigen = [folder / "eigen3" for folder in prefixes if (folder / "eigen3" / "Eigen" / "Core").exists()]
        if not found or not eigen:
            raise NotMeasuredError("pinocchio's C++ not measured: no headers of pinocchio and Eigen")
        return [found[0], eigen[0]]


class MuJoCo:
    """MuJoCo's model of our MJCF at its fastest: no constraints, shapes or motors, fixed bodies made one. RK4."""

    def __init__(self, system: System) -> None:
        try:
            import mujoco
        except ImportError as error:
            raise NotMeasuredError("MuJoCo is not installed") from error
        self.mujoco = mujoco
        bodies = tuple(dataclasses.replace(body, shapes=()) for body in system.mechanism.bodies)
        bare = dataclasses.replace(system.mechanism, bodies=bodies, actuators=())
        spec = mujoco.MjSpec.from_string(export(bare, "mjcf").text)
        spec.compiler.fusestatic = True
        self.model = spec.compile()
        self.model.opt.integrator = mujoco.mjtIntegrator.mjINT_RK4
        self.model.opt.timestep = STEP_S
        self.model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONSTRAINT)
        self.data = mujoco.MjData(self.model)
        joints = [self.model.joint(name) for name in system.coordinate_names]
        self.at_q, self.at_v = [j.qposadr[0] for j in joints], [j.dofadr[0] for j in joints]

    def reset(self, q: np.ndarray, v: np.ndarray) -> None:
        """Start anew from there."""
        self.mujoco.mj_resetData(self.model, self.data)
        self.data.qpos[self.at_q], self.data.qvel[self.at_v] = q, v

    def steps(self, q: np.ndarray, v: np.ndarray) -> Timed:
        """STEPS steps in one call of mj_step: us per step."""

        def turn() -> float:
            self.reset(q, v)
            start = time.perf_counter()
            self.mujoco.mj_step(self.model, self.data, STEPS)
            return (time.perf_counter() - start) / STEPS * 1e6

        return turn


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
    aba = min(variants, key=lambda call: min(each(CALLS, call) for _ in range(5)))
    return [
        Contest(
            "inverse dynamics, from Python",
            "pin.rnea",
            lambda: each(CALLS, inverse),
            lambda: each(CALLS, rnea),
            4.0,
        ),
        Contest(
            "forward dynamics, from Python", "pin.aba", lambda: each(CALLS, forward), lambda: each(CALLS, aba), 4.0
        ),
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
    """RK4 steps of 1 ms of a CHARMIE that falls freely, ours in one `step`, MuJoCo's in one mj_step."""
    sim = Simulation(system, step_s=STEP_S, stepper="rk4", stabilizer="none")
    q, v = sim.state.q.copy(), sim.state.v.copy()
    sim.step(STEPS)
    theirs = peer.steps(q, v)
    theirs()
    require_agreement(f"{STEPS} RK4 steps", sim.state.q, peer.data.qpos[peer.at_q])

    def ours() -> float:
        sim.reset()
        start = time.perf_counter()
        sim.step(STEPS)
        return (time.perf_counter() - start) / STEPS * 1e6

    return [Contest("RK4 step", "mj_step", ours, theirs, 4.0)]


def main(json_path: str | None = None) -> dict[str, Any]:
    """Measure all that is at hand, print the table, write JSON where asked, and give the figures."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    system = assemble(build(ROBOT))
    rows = random_states(system)
    rounds: tuple[Callable[[], list[Contest]], ...] = (
        lambda: from_native(system, NativePinocchio(Pinocchio(system), rows), rows),
        lambda: from_python(system, Pinocchio(system), rows),
        lambda: stepping(system, MuJoCo(system)),
    )
    result: dict[str, Any] = {"robot": ROBOT, "not_measured": [], "contests": []}
    for contests in rounds:
        try:
            result["contests"] += [measured(contest) for contest in contests()]
        except NotMeasuredError as error:
            result["not_measured"].append(str(error))
    print(f"{ROBOT}, us per call or step, minimum / median; how many times as fast as the peer")
    for row in result["contests"]:
        verdict = "" if row["bar"] is None else f"bar {row['bar']:g}: {'met' if row['met'] else 'MISSED'}"
        ours, theirs = (f"{row[who]['min_us']:8.3f} {row[who]['median_us']:8.3f}" for who in ("ours", "theirs"))
        print(f"  {row['name']:30} {ours}   {row['peer']:12} {theirs}   {row['ratio']:6.2f}   {verdict}")
    for line in result["not_measured"]:
        print(f"  {line}")
    if json_path:
        Path(json_path).write_text(json.dumps(result, indent=1))
    return result


def measured(contest: Contest) -> dict[str, Any]:
    """Minimum and median of both over the turns, and the median of the turns' ratios."""
    turns = [(contest.ours(), contest.theirs()) for _ in range(TURNS)]
    ours, theirs = ([turn[side] for turn in turns] for side in (0, 1))
    ratio = statistics.median(b / a for a, b in turns)
    return {
        "name": contest.name,
        "peer": contest.peer,
        "ours": {"min_us": min(ours), "median_us": statistics.median(ours)},
        "theirs": {"min_us": min(theirs), "median_us": statistics.median(theirs)},
        "ratio": ratio,
        "ratio_of_minima": min(theirs) / min(ours),
        "bar": contest.bar,
        "met": None if contest.bar is None else ratio >= contest.bar,
    }


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
