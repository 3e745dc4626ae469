"""Batch evaluation: kernels that evaluate several copies of a system per call, one copy per vector lane.

    batch = system.batch(lanes=8)
    batch.inverse_dynamics(q, v, a)                     # one system per row of q, v, a
    batch.rollout(q0, v0, u, step_s=1e-3, steps=1000)   # RK4, every system from its own start
    batch.peaks(q0, v0, u, step_s=1e-3, steps=1000)     # the same motions, but only their ranges are kept

A batch kernel computes the same as the scalar kernel of the same name, but for all copies at once: each number in the
inputs and outputs becomes a row with one number per copy. Batch kernels are compiled when a Batch is first created, and
cached like scalar kernels.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from sim_core.arguments import as_array
from sim_core.batch.lane_servos import LaneServo
from sim_core.batch.lane_states import LaneStates
from sim_core.batch.peaks import Peaks, RangeLoop, Work, cpu_name, state_rows, usable_threads
from sim_core.batch.requests import Requests
from sim_core.compiled_system import CompiledSystem
from sim_core.derivatives import DerivativeKernels, Derivatives, mapped
from sim_core.errors import InvalidRequest
from sim_core.kernels.bound import BoundKernel
from sim_core.kernels.machine_code import native

TOGETHER = 1024  # systems of a rollout that are integrated together, so that their data stay in the cache
KERNELS = ("inverse_dynamics", "forward_dynamics", "rates")
Array = np.ndarray


@dataclass(frozen=True)
class Rollout:
    """Result of a rollout: k times (k,) in s, and the states q, v (n_systems, k, n_q) at these times.

    The first of the k states is the start.

    orientations  quaternions w x y z (n_systems, k, m, 4) of the m spherical and free joints, whose rotation
                  coordinates in q are 0
    lanes, cpu    number of systems per SIMD vector, and type of the processor; on another type of processor the last
                  digits may differ
    """

    times: Array
    q: Array
    v: Array
    orientations: Array
    lanes: int
    cpu: str


class Batch:
    """The kernels of a system that evaluate `lanes` copies at once. A Batch has no state.

    If the mechanism has several constraint modes (sets of active constraints), the first one is used. The constraints
    are imposed on accelerations only; to limit their drift, choose a stabilizer.
    """

    def __init__(self, system: CompiledSystem, lanes: int) -> None:
        self._requests = Requests(system, lanes)
        self.system, self.lanes, self._owner = system, lanes, f"robot {system.mechanism.name!r}"
        self._loops: dict[tuple[bool, tuple[LaneServo, ...], bool], RangeLoop] = {}  # by stabilizer, servos, references

    @cached_property
    def _library(self) -> native.Library:
        """The kernels of the dynamics, compiled or loaded from the cache at the first use."""
        system, lanes = self.system, self.lanes
        key = f"{system.code_hash}-{lanes}"
        library = native.load_shared(key)
        if library is None:
            # a batch from the cache needs no casadi
            from sim_core.derivation.equations import derive_batch
            from sim_core.kernels.emit import modules_of
            from sim_core.kernels.machine_code.side_by_side import objects_of

            with native.compiling(f"the kernels of {system.mechanism.name!r} for {lanes} at a time"):
                functions = derive_batch(system.mechanism)
                manifest = {"key": key, "mechanism": system.mechanism.name, "symbols": list(functions)}
                library = native.keep(objects_of(modules_of(functions, lanes=lanes)), manifest, key)
        return library

    def bind(self, name: str, inputs: list[Array], outputs: list[Array]) -> BoundKernel:
        """A kernel bound to arrays of the caller, each of shape (size, lanes): element i of copy k is at [i, k].

        The kernels and their inputs and outputs are:

        inverse_dynamics  t, q, v, a, p -> tau
        forward_dynamics  t, q, v, tau, p -> a, lam
        rates             t, q, v, u, p -> a, lam

        tau are generalized forces, u actuator efforts, p parameters and lam constraint multipliers.
        """
        for number, array in enumerate([*inputs, *outputs], start=1):
            if array.ndim != 2 or array.shape[1] != self.lanes or not array.flags.c_contiguous:
                order = "C" if array.flags.c_contiguous else "not C"
                raise ValueError(
                    f"kernel {name!r}: array {number} has shape {array.shape} and is {order}-contiguous; it must be "
                    f"C-contiguous with shape (size, {self.lanes})"
                )
        return BoundKernel(self._library.addresses[name], inputs, outputs, self._library)

    def inverse_dynamics(self, q: Any, v: Any, a: Any, p: Any = None) -> Array:
        """Generalized forces tau (n, n_q) of n systems that move with the accelerations a.

        q, v, a  coordinates, velocities and accelerations (n, n_q), one row per system
        p        parameters (n, n_p), by default the mechanism's default values
        `sim_core.inverse_dynamics` defines tau for one system.
        """
        return self._each("inverse_dynamics", q, v, a, p)

    def forward_dynamics(self, q: Any, v: Any, tau: Any, p: Any = None) -> Array:
        """Accelerations (n, n_q) of n systems under the generalized forces tau.

        q, v, tau  coordinates, velocities and generalized forces (n, n_q), one row per system
        p          parameters (n, n_p), by default the mechanism's default values
        `sim_core.forward_dynamics` defines the accelerations for one system.
        """
        return self._each("forward_dynamics", q, v, tau, p)

    def derivatives(self, q: Any, v: Any, u: Any = None, p: Any = None, U: Any = None) -> Derivatives:
        """Exact derivatives of the accelerations and multipliers of n systems, as of `System.derivatives`.

        q, v  coordinates and velocities (n, n_q), one row per system
        u     actuator efforts (n, n_u), by default zero
        p     parameters (n, n_p), by default the mechanism's default values
        U     stabilization (n, n_r), by default zero
        """
        system, count = self.system, len(np.atleast_2d(as_array(self._owner, "q", q)))
        sizes = {"q": (q, system.n_q), "v": (v, system.n_q), "u": (u, system.n_u), "U": (U, system.max_rows)}
        rows = {
            name: np.zeros((count, size)) if value is None else self._requests.rows(name, value, count, size)
            for name, (value, size) in sizes.items()
        }
        inputs = [np.zeros((count, 1)), rows["q"], rows["v"], rows["u"], self._requests.parameters(p, count), rows["U"]]
        found = [
            self.derivative_kernels.at([np.ascontiguousarray(_lanes_of(each, begin, self.lanes)) for each in inputs])
            for begin in range(0, count, self.lanes)
        ]
        return mapped(lambda *parts: np.concatenate(parts)[:count], *found)

    @cached_property
    def derivative_kernels(self) -> DerivativeKernels:
        """The kernels of the derivatives of `lanes` systems, compiled or loaded at the first use."""
        return DerivativeKernels(self.system, self.lanes, self.system.compile_limit_s)

    def _each(self, name: str, q: Any, v: Any, third: Any, p: Any) -> Array:
        n_q, lanes = self.system.n_q, self.lanes
        third_name = "a" if name == "inverse_dynamics" else "tau"
        count = len(np.atleast_2d(as_array(self._owner, "q", q)))
        rows = [
            self._requests.rows(what, value, count, n_q) for what, value in (("q", q), ("v", v), (third_name, third))
        ]
        rows.append(self._requests.parameters(p, count))
        inputs = [np.zeros((1, lanes)), *[np.zeros((array.shape[1], lanes)) for array in rows]]
        out = [np.zeros((n_q, lanes)), np.zeros((self.system.constraint_modes[0].n_rows, lanes))]
        call = self.bind(name, inputs, out[:1] if name == "inverse_dynamics" else out)
        result = np.zeros((count, n_q))
        for begin in range(0, count, lanes):
            for array, into in zip(rows, inputs[1:], strict=True):
                into[:] = _lanes_of(array, begin, lanes)
            call()
            result[begin : begin + lanes] = out[0].T[: count - begin]
        return result

    def rollout(
        self,
        q0: Any,
        v0: Any,
        u: Any = None,
        *,
        step_s: float,
        steps: int,
        every: int = 1,
        p: Any = None,
        stabilizer: str = "none",
        modes: Mapping[str, str] | None = None,
    ) -> Rollout:
        """Integrate n systems by RK4 with a fixed step size from the states q0, v0 (n, n_q).

        step_s      step size, s
        steps       number of time steps
        every       number of time steps from one state in the result to the next
        u           actuator efforts: None for zero, (n, n_u) for constant efforts, or (n, steps, n_u) for one row per
                    time step; clipped to the actuators' limits, as in a Simulation
        p           parameters (n, n_p), by default the mechanism's default values; they contain the quaternions of
                    spherical and free joints at the start
        stabilizer  "none", or "sampled_fuzzy", the default of a Simulation, for mechanisms with constraints
        modes       {actuator: "velocity" or "position"}. In this case the actuator's column of u contains commands to
                    the actuator's servo, in rad/s, m/s, rad or m, instead of efforts. The servos work as in `Servos`,
                    from the first time step on
        A system that diverges has non-finite values from then on, and does not affect the other systems. The result
        does not depend on the number of lanes.

        Raises InvalidRequest for arrays of the wrong shape, for quaternions of a norm other than 1, and for mechanisms
        with guards, whose events require a Simulation.
        """
        requests, n_q = self._requests, self.system.n_q
        count = requests.checked_run(q0, step_s, steps, every)
        _require_memory(n_q, count, steps // every + 1)
        starts = [requests.rows(what, value, count, n_q) for what, value in (("q0", q0), ("v0", v0))]
        efforts = requests.efforts(u, count, steps, requests.servos(modes))
        times = np.arange(steps // every + 1, dtype=np.float64) * (every * float(step_s))
        q, v = np.empty((2, count, len(times), n_q))
        turned = np.empty((count, len(times), len(self.system.mechanism.oriented_joints), 4))
        parameters = requests.parameters(p, count)
        kind: dict[str, Any] = {"step_s": step_s, "lanes": self.lanes, "stabilizer": stabilizer, "modes": modes}
        for begin in range(0, count, TOGETHER):
            part = slice(begin, min(begin + TOGETHER, count))
            states = LaneStates(self.system, part.stop - begin, **kind)
            states.reset(q=starts[0][part], v=starts[1][part], p=parameters[part])
            q[part], v[part], turned[part] = states.follow(efforts[part], every, steps)
        return Rollout(times, q, v, turned, self.lanes, cpu_name())

    def peaks(
        self,
        q0: Any,
        v0: Any,
        u: Any = None,
        *,
        step_s: float,
        steps: int,
        p: Any = None,
        stabilizer: str = "none",
        modes: Mapping[str, str] | None = None,
        attitudes: Any = None,
        threads: int | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> Peaks:
        """Smallest and largest value of every state during the motions of n systems from the states q0, v0 (n, n_q).

        The motions are those of `rollout`, up to rounding, but are not stored. Extrema within a time step are those of
        the cubic through the values and slopes at both ends of the step. The result of a system depends neither on the
        number of lanes or threads nor on the other systems.

        step_s      step size, s
        steps       number of time steps
        p           parameters (n, n_p), by default the mechanism's default values
        u           actuator efforts: None for zero, or (n, n_u) for constant efforts, clipped to the actuators' limits
        stabilizer  "none", or "sampled_fuzzy", the default of a Simulation, for mechanisms with constraints
        modes       {actuator: "velocity" or "position"}: as for `rollout`. The cubic of a velocity then uses, as the
                    slope at the end of a step, the acceleration under the effort of the next step
        attitudes   reference attitudes of the m spherical and free joints: quaternions w x y z (m, 4), or None. With
                    reference attitudes, the ranges are those of the quaternions of the rotations from a reference
                    attitude to the joint's orientation: w is the cosine of half the angle. `Peaks` lists further ranges
        threads     number of threads that share the systems, by default one per processor; they do not hold the GIL
        progress    function that is called about every 20 ms with the number of finished systems and the number of all
                    systems
        Raises InvalidRequest for arrays of the wrong shape, for quaternions whose norm is not 1, and for mechanisms
        with guards.
        """
        system = self.system
        count = self._requests.checked_run(q0, step_s, steps, 1)
        rows = {
            what[0]: self._requests.rows(what, value, count, system.n_q) for what, value in (("q0", q0), ("v0", v0))
        }
        servos = self._requests.servos(modes)
        rows["u"] = self._requests.efforts(u, count, -1, servos)[:, 0]
        rows["q"], rows["v"], rows["p"] = self._requests.rebased(
            rows["q"], rows["v"], self._requests.parameters(p, count)
        )
        rows["gains"] = np.tile(self._requests.gains(stabilizer, float(step_s)), (count, 1))
        rows |= _servo_rows(servos, rows)
        if attitudes is not None:
            rows["reference"] = np.tile(self._requests.references(attitudes), (count, 1))
        loop = self._loop_for(rows["gains"].shape[1] > 0, servos, "reference" in rows)
        work = Work(loop, rows, steps, float(step_s), progress)
        work.carry_out(usable_threads(threads))
        quaternions = work.p[:, work.loop.layout.quaternions]
        orientations = quaternions.reshape(count, quaternions.shape[1] // 4, 4)
        how = float(step_s), steps, "rk4", stabilizer, self.lanes, cpu_name()
        return Peaks(state_rows(system, attitudes is not None), work.low, work.high, work.q, work.v, *how, orientations)

    def _loop_for(self, stabilized: bool, servos: tuple[LaneServo, ...] = (), relative: bool = False) -> RangeLoop:
        kind = stabilized, servos, relative
        if kind not in self._loops:
            self._loops[kind] = RangeLoop.of(self.system, self.lanes, *kind)
        return self._loops[kind]


def _servo_rows(servos: tuple[LaneServo, ...], rows: Mapping[str, Array]) -> dict[str, Array]:
    """Data of servos in n systems: {"target": initial targets, "command": commands}, each of shape (n, number of
    servos).

    rows  {"q", "v", "u": array (n, size)} of coordinates, velocities and actuator inputs; the commands are columns of u
    """
    target = np.zeros((len(rows["q"]), len(servos)))
    for k, servo in enumerate(servos):
        target[:, k] = servo.first_target(rows["q"], rows["v"])
    return {"target": target, "command": rows["u"][:, [servo.actuator for servo in servos]]}


def _lanes_of(rows: Array, begin: int, lanes: int) -> Array:
    """Consecutive rows of an array from index `begin` on, one per lane; the lanes are the last axis of the result.

    If fewer rows are left than there are lanes, the remaining lanes repeat the last row.
    """
    index = np.minimum(np.arange(begin, begin + lanes), len(rows) - 1)
    return np.moveaxis(rows[index], 0, -1)


def _require_memory(n_q: int, count: int, states: int) -> None:
    """Raise InvalidRequest if the states of a rollout do not fit into the memory of the computer."""
    size = 2 * 8 * count * states * n_q
    if size > (most := os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")):
        raise InvalidRequest(
            f"a rollout of {count} systems with {states} states each needs {size / 1e9:.3g} GB, and the computer "
            f"has {most / 1e9:.3g} GB; use a larger `every`, or `peaks`, which keeps no states"
        )
