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

from sim_core.arguments import as_array, as_number, as_whole
from sim_core.batch.lane_servos import LaneServo, lane_servos
from sim_core.batch.peaks import Peaks, RangeLoop, Work, cpu_name, followed, layout_of, state_rows, usable_threads
from sim_core.compiled_system import CompiledSystem
from sim_core.derivatives import DerivativeKernels, Derivatives, mapped
from sim_core.errors import InvalidRequest, require_finite
from sim_core.integrators.lanes import advance_lanes
from sim_core.integrators.steppers import stepper_named
from sim_core.kernels.bound import BoundKernel, pointer_table
from sim_core.kernels.compiled import is_cached
from sim_core.kernels.machine_code import native
from sim_core.mechanism.checks.directions import ROUNDED
from sim_core.mechanism.constraints import PrescribedMotion
from sim_core.mechanism.validation import check_bounds
from sim_core.spatial import angular_velocity_of_step, quaternion_of_step, quaternion_product
from sim_core.stabilization.stabilizers import SampledFuzzy

MOST_STEPS = 2**53  # largest number of steps that a float64 holds exactly
LANES = (2, 4, 8, 16, 32)
STABILIZERS = ("none", "sampled_fuzzy")
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
        if lanes not in LANES:
            raise InvalidRequest(f"lanes is {lanes}; it must be one of {', '.join(map(str, LANES))}")
        if system.mechanism.beams:
            raise InvalidRequest(
                f"{system.mechanism.name!r} has beams, which a batch does not support; use a Simulation"
            )
        self.system, self.lanes, self._owner = system, lanes, f"robot {system.mechanism.name!r}"
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
        self._library = library
        self._loops: dict[tuple[bool, tuple[LaneServo, ...], bool], RangeLoop] = {}  # by stabilizer, servos, references

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
            name: np.zeros((count, size)) if value is None else self._rows(name, value, count, size)
            for name, (value, size) in sizes.items()
        }
        inputs = [np.zeros((count, 1)), rows["q"], rows["v"], rows["u"], self._parameters(p, count), rows["U"]]
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
        rows = [self._rows(what, value, count, n_q) for what, value in (("q", q), ("v", v), (third_name, third))]
        rows.append(self._parameters(p, count))
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
        system, lanes = self.system, self.lanes
        count = self._checked_run(q0, step_s, steps, every)
        _require_memory(system.n_q, count, steps // every + 1)
        starts = [self._rows(what, value, count, system.n_q) for what, value in (("q0", q0), ("v0", v0))]
        servos = self._servos(modes)
        efforts, parameters = self._efforts(u, count, steps, servos), self._parameters(p, count)
        starts[0], starts[1], parameters = self._rebased(starts[0], starts[1], parameters)
        times = np.arange(steps // every + 1, dtype=np.float64) * (every * float(step_s))
        gains = self._gains(stabilizer, float(step_s))
        if gains.size or servos or system.mechanism.oriented_joints:
            rows = {"q": starts[0], "v": starts[1], "u": efforts[:, 0], "p": parameters}
            rows["gains"] = np.tile(gains, (count, 1))
            rows |= _servo_rows(servos, rows)
            work = Work(self._loop_for(gains.size > 0, servos), rows, steps, float(step_s))
            motions = followed(work, efforts, every, [servo.actuator for servo in servos])
            return Rollout(times, *motions, lanes, cpu_name())
        recorded = np.zeros((2, count, steps // every + 1, system.n_q))
        w = [np.zeros((size, lanes)) for size in (1, system.n_q, system.n_q, system.n_u, parameters.shape[1])]
        a, lam = np.zeros((system.n_q, lanes)), np.zeros((system.constraint_modes[0].n_rows, lanes))
        tables = pointer_table(w), pointer_table([a, lam])
        pointers = np.array([self._library.addresses["rates"], *[table.ctypes.data for table in tables]])
        record = np.zeros((2, steps // every + 1, system.n_q, lanes))
        flat = [array.reshape(-1) for array in (*w[:4], a)]
        if not is_cached(advance_lanes):
            with native.compiling("the loop of rollouts"):
                advance_lanes(
                    pointers, *flat, np.zeros((1, w[3].size)), float(step_s), 0, 1, np.zeros((2, 1, w[1].size))
                )
        for begin in range(0, count, lanes):
            w[1][:], w[2][:] = (_lanes_of(start, begin, lanes) for start in starts)
            w[4][:] = _lanes_of(parameters, begin, lanes)
            held = np.ascontiguousarray(_lanes_of(efforts, begin, lanes)).reshape(efforts.shape[1], -1)
            kept = record.reshape(2, len(record[0]), -1)
            advance_lanes(pointers, *flat, held, float(step_s), steps, every, kept)
            recorded[:, begin : begin + lanes] = np.moveaxis(record, 3, 1)[:, : count - begin]
        return Rollout(times, recorded[0], recorded[1], np.zeros((count, len(times), 0, 4)), lanes, cpu_name())

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
        count = self._checked_run(q0, step_s, steps, 1)
        rows = {what[0]: self._rows(what, value, count, system.n_q) for what, value in (("q0", q0), ("v0", v0))}
        servos = self._servos(modes)
        rows["u"] = self._efforts(u, count, -1, servos)[:, 0]
        rows["q"], rows["v"], rows["p"] = self._rebased(rows["q"], rows["v"], self._parameters(p, count))
        rows["gains"] = np.tile(self._gains(stabilizer, float(step_s)), (count, 1))
        rows |= _servo_rows(servos, rows)
        if attitudes is not None:
            rows["reference"] = np.tile(self._references(attitudes), (count, 1))
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

    def _references(self, attitudes: Any) -> Array:
        """Reference attitudes (4 m,): the normalized quaternions `attitudes` (m, 4), one after the other."""
        m = len(self.system.mechanism.oriented_joints)
        array = as_array(self._owner, "attitudes", attitudes)
        norms = np.linalg.norm(array, axis=-1) if array.shape == (m, 4) else np.zeros(1)
        if not (np.abs(norms - 1.0) <= ROUNDED).all():
            raise InvalidRequest(
                f"the argument 'attitudes' of {self._owner} must be {m} quaternions of norm 1, one per spherical and "
                f"free joint; its shape is {array.shape}"
            )
        return np.asarray((array / norms[:, None]).ravel())

    def _servos(self, modes: Mapping[str, str] | None) -> tuple[LaneServo, ...]:
        return lane_servos(self.system.mechanism, modes or {}, self.system.coordinate_names)

    def _gains(self, stabilizer: str, step_s: float) -> Array:
        """Array [Kp, Kd, Ku] of the gains of the stabilizer for the step size `step_s`, s.

        The array is empty if the stabilizer is "none" or the mechanism has no constraints.
        """
        if stabilizer not in STABILIZERS:
            raise InvalidRequest(f"a batch has no stabilizer {stabilizer!r}; choose {' or '.join(STABILIZERS)}")
        if stabilizer == "none" or not self.system.max_rows:
            return np.zeros(0)
        length = self.system.mechanism.characteristic_length
        eps, rho, hold, slope = SampledFuzzy().gains(step_s, stepper_named("rk4"), length)[:4]
        k1 = (1.0 - rho) ** 2
        k2 = 2.0 * (1.0 - rho) - hold * k1
        return np.asarray([1.0 / eps, k2 / k1 * step_s / eps, k1 * eps / (slope * step_s**2)])

    def _checked_run(self, q0: Any, step_s: float, steps: int, every: int) -> int:
        """Number of systems in a run. Raises InvalidRequest for invalid arguments and for unsupported mechanisms."""
        if self.system.mechanism.guards:
            raise InvalidRequest(
                f"{self.system.mechanism.name!r} has guards, which a batch does not check; use a Simulation"
            )
        driven = [c.name for c in self.system.mechanism.constraints if isinstance(c, PrescribedMotion) and c.input]
        if driven:
            raise InvalidRequest(
                f"an input prescribes the velocity of {', '.join(map(repr, driven))} of "
                f"{self.system.mechanism.name!r}, which a batch does not follow; use a Simulation"
            )
        step_s = as_number(self._owner, "step_s", step_s)
        steps, every = as_whole(self._owner, "steps", steps), as_whole(self._owner, "every", every)
        for name, value, valid, wanted in (
            ("steps", steps, 0 <= steps <= MOST_STEPS, f"from 0 to {MOST_STEPS}"),
            ("every", every, every >= 1, "at least 1"),
            ("step_s", step_s, 0 < step_s < np.inf, "above 0 and finite"),
        ):
            if not valid:
                raise InvalidRequest(f"the argument {name!r} is {value}; it must be {wanted}")
        return len(np.atleast_2d(as_array(self._owner, "q0", q0)))

    def _rebased(self, q: Array, v: Array, p: Array) -> tuple[Array, Array, Array]:
        """Start states q, v (n, n_q) and parameters p (n, n_p) with the rotations moved from q into the quaternions.

        Raises InvalidRequest for a quaternion in p whose norm is not 1.
        """
        joints = self.system.mechanism.oriented_joints
        if not joints:
            return q, v, p
        layout, q, v, p = layout_of(self.system), q.copy(), v.copy(), p.copy()
        for joint, places in zip(joints, layout.orientations, strict=True):
            turning = slice(places.rotation, places.rotation + 3)
            quaternion = slice(places.quaternion, places.quaternion + 4)
            norms = np.linalg.norm(p[:, quaternion], axis=1)
            if (wrong := np.abs(norms - 1.0) > ROUNDED).any():
                raise InvalidRequest(
                    f"p: the quaternion of joint {joint.name!r} of {self.system.mechanism.name!r} has the norm "
                    f"{norms[wrong][0]:g}; it must be 1"
                )
            p[:, quaternion] /= norms[:, None]
            rows = np.flatnonzero(q[:, turning].any(axis=1))
            s, rates = q[rows, turning].T, v[rows, turning].T
            p[rows, quaternion] = quaternion_product(p[rows, quaternion].T, quaternion_of_step(s)).T
            v[rows, turning] = angular_velocity_of_step(s, rates).T
            q[rows, turning] = 0.0
        return q, v, p

    def _rows(self, name: str, value: Any, count: int, size: int) -> Array:
        array = np.atleast_2d(as_array(self._owner, name, value))
        if array.shape != (count, size):
            raise InvalidRequest(
                f"{name} has shape {array.shape}; for {count} systems of {self.system.mechanism.name!r} it must be "
                f"{(count, size)}"
            )
        self._require_finite(name, array)
        return array

    def _require_finite(self, name: str, array: Array) -> None:
        if not np.isfinite(array).all():
            require_finite(self.system.mechanism.name, name, array.ravel().tolist())

    def _parameters(self, p: Any, count: int) -> Array:
        if p is None:
            return np.tile(self.system.default_parameters(), (count, 1))
        values = self._rows("p", p, count, len(self.system.parameter_names))
        for tunable, column in zip(self.system.mechanism.tunables, values.T, strict=False):
            for value in (column.min(initial=tunable.value), column.max(initial=tunable.value)):
                check_bounds(f"robot {self.system.mechanism.name!r}", tunable, float(value))
        return values

    def _efforts(self, u: Any, count: int, steps: int, servos: tuple[LaneServo, ...] = ()) -> Array:
        """Actuator efforts and servo commands of `count` systems, clipped to their limits.

        The shape of the result is (count, 1, n_u) for constant inputs, otherwise (count, steps, n_u).

        u       inputs: None for zero, (count, n_u) constant ones, or (count, steps, n_u) with one row per time step
        steps   number of steps; negative if only constant inputs are permitted
        servos  servos whose columns of u are commands instead of efforts
        """
        n_u = self.system.n_u
        array = np.zeros((count, n_u)) if u is None else as_array(self._owner, "u", u)
        limits = [a.effort_limit for a in self.system.mechanism.actuators]
        most = np.array([np.inf if limit is None else limit for limit in limits])
        least = -most
        for servo in servos:
            least[servo.actuator], most[servo.actuator] = servo.commands
        if array.ndim < 3:
            return np.asarray(np.clip(self._rows("u", array, count, n_u), least, most)[:, None, :])
        if steps < 0:
            raise InvalidRequest(f"u has shape {array.shape}; give constant efforts, of shape {(count, n_u)}")
        if array.shape != (count, steps, n_u):
            raise InvalidRequest(
                f"u has shape {array.shape}; for this rollout it must be {(count, steps, n_u)} or {(count, n_u)}"
            )
        self._require_finite("u", array)
        return np.asarray(np.clip(array, least, most))


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
