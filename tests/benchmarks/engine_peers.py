"""The engines that `engines.py` sets ours beside: pinocchio from Python and from C++, MuJoCo. They read our files."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import resource
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from functools import cached_property, partial
from pathlib import Path

import numpy as np

from robots.export import export
from sim_core.kernels.machine_code.native import cache_folder, machine_key
from sim_core.system import System

SOURCE = Path(__file__).with_name("pinocchio_native.cpp")
BUILD = ["-w", "-O3", "-DNDEBUG", "-march=native", "-std=c++17"]
DEFINITIONS = {  # those that pinocchio's own build files give to whoever uses it
    "BOOST_MPL_LIMIT_LIST_SIZE": "30",
    "BOOST_MPL_LIMIT_VECTOR_SIZE": "30",
    "BOOST_MPL_CFG_NO_PREPROCESSED_HEADERS": "1",
    "BOOST_FUSION_INVOKE_MAX_ARITY": "12",
}

MOST_BUILD_S = 120  # processor time, s
Timed = Callable[[int], float]  # one turn of so many calls: microseconds of this thread's processor time per call


class NotMeasuredError(RuntimeError):
    """A peer that is not at hand, and why."""


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

    def efforts(self, q: np.ndarray, v: np.ndarray, a: np.ndarray) -> np.ndarray:
        """Inverse dynamics in our order."""
        return self.ours(self.pin.rnea(self.model, self.data, *self.state(q, v, a)))

    def timed_rnea(self, rows: np.ndarray) -> Timed:
        """Turns of rnea from Python, less as many calls with a model without joints."""
        empty, nothing = self.pin.Model(), np.zeros(0)
        ways = (
            [partial(self.pin.rnea, empty, empty.createData(), nothing, nothing, nothing)],
            [partial(self.pin.rnea, self.model, self.data, *self.state(*row)) for row in rows],
        )

        def turn(calls: int) -> float:
            begins = [time.thread_time_ns()]
            for way in ways:
                for k in range(calls):
                    way[k % len(way)]()
                begins.append(time.thread_time_ns())
            return (begins[2] - 2 * begins[1] + begins[0]) / calls * 1e-3

        return turn

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

    _failure = ""  # of this process's only attempt to build it

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
        n_v = pinocchio.model.nv
        matrices = np.array([self._line().split() for _ in range(3 * n_v * len(rows))], dtype=float)
        order = [joint.idx_v for joint in pinocchio.joints]
        # (number of states, 3, n_v, n_v): of the accelerations by positions, velocities and efforts
        self.derivatives = matrices.reshape(len(rows), 3, n_v, n_v)[:, :, order][:, :, :, order]

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def timed(self, name: str) -> Timed:
        """Turns of "rnea", "aba" or "derivatives"."""

        def turn(calls: int) -> float:
            assert self._process.stdin is not None
            self._process.stdin.write(f"{name} {calls}\n")
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
            if self._failure:
                raise NotMeasuredError(self._failure)
            print("building pinocchio's C++ program, once: a minute or two", flush=True)
            program.parent.mkdir(parents=True, exist_ok=True)
            unfinished = program.with_suffix(".unfinished")
            done = subprocess.run(
                [compiler, *words, str(SOURCE), "-o", str(unfinished)],
                capture_output=True,
                text=True,
                check=False,
                preexec_fn=partial(resource.setrlimit, resource.RLIMIT_CPU, (MOST_BUILD_S, MOST_BUILD_S)),
            )
            if done.returncode != 0:
                first = next((line for line in done.stderr.splitlines() if "error" in line), "no message")
                NativePinocchio._failure = (
                    f"pinocchio's C++ not measured: it does not build in {MOST_BUILD_S} s of processor time: {first}"
                )
                raise NotMeasuredError(self._failure)
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

    def __init__(self, system: System, step_s: float) -> None:
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
        self.model.opt.timestep = step_s
        self.model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONSTRAINT)
        self.data = mujoco.MjData(self.model)
        joints = [self.model.joint(name) for name in system.coordinate_names]
        self.at_q, self.at_v = [j.qposadr[0] for j in joints], [j.dofadr[0] for j in joints]

    def reset(self, q: np.ndarray, v: np.ndarray) -> None:
        """Start anew from there."""
        self.mujoco.mj_resetData(self.model, self.data)
        self.data.qpos[self.at_q], self.data.qvel[self.at_v] = q, v

    def stepped(self, q: np.ndarray, v: np.ndarray) -> Timed:
        """All steps in one call of mj_step."""

        def turn(steps: int) -> float:
            self.reset(q, v)
            start = time.thread_time_ns()
            self.mujoco.mj_step(self.model, self.data, steps)
            return (time.thread_time_ns() - start) / steps * 1e-3

        return turn

    def rolled_out(self, q: np.ndarray, v: np.ndarray, steps: int) -> tuple[Timed, np.ndarray]:
        """mujoco.rollout from q, v (n, n_q) in this thread, per step of one system; and where it ends, q (n, n_q).

        Every state is kept, on arrays made before.
        """
        from mujoco import rollout

        kind = self.mujoco.mjtState.mjSTATE_FULLPHYSICS  # time, positions, velocities
        starts = np.zeros((len(q), self.mujoco.mj_stateSize(self.model, kind)))
        for start, q_start, v_start in zip(starts, q, v, strict=True):
            self.reset(q_start, v_start)
            self.mujoco.mj_getState(self.model, self.data, start, kind)
        states = np.zeros((len(q), steps, starts.shape[1]))
        runner, together = rollout.Rollout(nthread=0), len(q) * steps

        def turn(calls: int) -> float:
            times = max(1, calls // together)
            begin = time.thread_time_ns()
            for _ in range(times):
                runner.rollout(self.model, self.data, starts, nstep=steps, state=states)
            return (time.thread_time_ns() - begin) / (times * together) * 1e-3

        turn(1)
        return turn, states[:, -1, 1:][:, self.at_q].copy()
