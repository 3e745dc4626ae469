"""States of many systems that stay in the layout of vector lanes between calls.

    states = LaneStates(system, 64, step_s=1e-3)
    states.step(u, steps=10)                    # RK4, all systems
    states.reset(mask, q=q, v=v)                # only the systems of the mask
    states.q, states.v, states.outputs()

A call of `step` costs a few microseconds besides the compiled loop, because nothing is converted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from sim_core.arguments import as_array, as_number, as_whole
from sim_core.batch import state_loop
from sim_core.batch.lane_servos import LaneServo
from sim_core.batch.layout import SYMBOL
from sim_core.batch.peaks import RangeLoop
from sim_core.batch.requests import Requests
from sim_core.compiled_system import CompiledSystem
from sim_core.errors import InvalidRequest, UnknownName
from sim_core.kernels.bound import BoundKernel
from sim_core.kernels.machine_code import native

MOST_THREADS = 1024
OUTPUT_INPUTS = ("q", "v", "u", "p")  # after the time
STEPS_TOGETHER = 100_000  # steps of a group in one call of `follow`, after which a program can be interrupted
Array = np.ndarray


class LaneStates:
    """Coordinates, velocities, parameters, actuator inputs and servo targets of n copies of a system.

    system      a System
    n           number of copies
    step_s      step size, s
    lanes       number of copies per vector: 2, 4, 8, 16 or 32
    stabilizer  "none", or "sampled_fuzzy", the default of a Simulation, for mechanisms with constraints
    modes       {actuator: "velocity" or "position"}: actuators whose inputs are commands to their servos, in rad/s,
                m/s, rad or m, instead of efforts. The servos keep their targets between calls
    threads     number of threads that share the copies in `step`; they do not hold the GIL

    The result of a copy depends on no other copy, nor on the numbers of lanes and threads. A copy that diverges has
    non-finite values until its next `reset`. Raises InvalidRequest for mechanisms with beams, with guards, or with
    velocities that an input prescribes; these require a Simulation.
    """

    def __init__(
        self,
        system: CompiledSystem,
        n: int,
        *,
        step_s: float,
        lanes: int = 8,
        stabilizer: str = "none",
        modes: Mapping[str, str] | None = None,
        threads: int = 1,
    ) -> None:
        self._requests = requests = Requests(system, lanes)
        requests.check_mechanism()
        for name, value, least in (("n", n, 1), ("threads", threads, 1)):
            if as_whole("LaneStates", name, value) < least:
                raise InvalidRequest(f"the argument {name!r} of LaneStates is {value}; it must be {least} or more")
        self.step_s = as_number("LaneStates", "step_s", step_s)
        if not 0.0 < self.step_s < np.inf:
            raise InvalidRequest(f"the argument 'step_s' is {step_s}; it must be above 0 and finite")
        self.system, self.n, self.lanes = system, int(n), lanes
        self.servos: tuple[LaneServo, ...] = requests.servos(modes)
        gains = requests.gains(stabilizer, self.step_s)
        self._loop = RangeLoop.of(system, lanes, gains.size > 0, self.servos, ranged=False)
        self._call = self._loop.function
        layout = self._loop.layout
        groups = -(-self.n // lanes)
        self._block = np.zeros((groups, layout.rows, lanes))
        self._views = {name: self._block[:, layout.place(name)] for name in layout.sizes}
        self._started = self._block[:, layout.place("taken").start : layout.place("p").stop]
        self._told = self._block[:, layout.place("u").start : layout.place("command").stop]
        self._views["gains"][:] = gains[:, None]
        self._clip = requests.input_limits(self.servos)
        commanded = [servo.actuator for servo in self.servos]
        self._columns: Any = [*range(system.n_u), *commanded] if commanded else slice(None)  # of inputs, for `_told`
        self._inputs = np.zeros((groups * lanes, system.n_u))  # those of lanes beyond n stay 0
        self._shares = self._divided(min(int(threads), groups, MOST_THREADS))
        self._pool = ThreadPoolExecutor(len(self._shares)) if len(self._shares) > 1 else None
        self.reset()

    # -- states -------------------------------------------------------------------------------------------------------

    @property
    def q(self) -> Array:
        """Coordinates (n, n_q), a copy. Rotation coordinates of spherical and free joints are 0."""
        return self._read("q")

    @property
    def v(self) -> Array:
        """Velocities (n, n_q), a copy."""
        return self._read("v")

    @property
    def p(self) -> Array:
        """Parameters (n, n_p), a copy, with the current quaternions of spherical and free joints."""
        return self._read("p")

    @property
    def u(self) -> Array:
        """Actuator efforts (n, n_u) of the latest time step, a copy."""
        return self._read("u")

    @property
    def targets(self) -> Array:
        """Targets (n, number of servos) of the servos, a copy."""
        return self._read("target")

    @property
    def time(self) -> Array:
        """Simulation time (n,) since the latest reset of each system, s."""
        return self._read("taken")[:, 0] * self.step_s

    @property
    def orientations(self) -> Array:
        """Quaternions w x y z (n, m, 4) of the m spherical and free joints."""
        quaternions = self._loop.layout.quaternions
        return self.p[:, quaternions].reshape(self.n, len(quaternions) // 4, 4)

    @property
    def finite(self) -> Array:
        """Mask (n,) of the systems that have not diverged."""
        sums: Array = (self._views["q"].sum(axis=1) + self._views["v"].sum(axis=1)).ravel()[: self.n]
        finite: Array = np.isfinite(sums)
        return finite

    def columns(self, name: str) -> Array:
        """Rows `name` ("q", "v", "p", "u", "target" or "taken") of all systems in lane layout: (size, n), a copy."""
        view = self._views[name]
        columns: Array = view.transpose(1, 0, 2).copy().reshape(view.shape[1], len(view) * self.lanes)[:, : self.n]
        return columns

    def motion(self) -> tuple[Array, Array, Array]:
        """(q, v, time) in lane layout: coordinates and velocities (n_q, n), and times (n,), s; copies."""
        rows, n_q = self._block[:, : 1 + 2 * self.system.n_q], self.system.n_q
        values = rows.transpose(1, 0, 2).copy().reshape(1 + 2 * n_q, len(rows) * self.lanes)[:, : self.n]
        return values[1 : 1 + n_q], values[1 + n_q :], values[0] * self.step_s

    def reset(self, mask: Any = None, *, q: Any = None, v: Any = None, p: Any = None) -> None:
        """Set systems to a start state, at the time 0, with inputs 0 and servo targets that continue the state.

        mask  (n,) of bool: systems that are reset, by default all; or their indices
        q, v  start coordinates and velocities, by default those of the description: (n_q,), or (k, n_q) for the k
              systems that are reset
        p     parameters (n_p,) or (k, n_p), by default those of the description; with quaternions at the start
        """
        index = self._index(mask)
        if not len(index):
            return
        requests, count = self._requests, len(index)
        starts = [
            requests.rows(name, _tiled(self._starts[name] if given is None else given, count), count, self.system.n_q)
            for name, given in (("q", q), ("v", v))
        ]
        p = None if p is None else _tiled(p, count)
        q0, v0, p0 = requests.rebased(starts[0], starts[1], requests.parameters(p, count))
        targets = np.zeros((count, len(self.servos)))
        for k, servo in enumerate(self.servos):
            targets[:, k] = servo.first_target(q0, v0)
        self._write(self._started, index, np.concatenate([np.zeros((count, 1)), q0, v0, p0], axis=1))
        self._write(self._views["target"], index, targets)
        self._write(self._told, index, np.zeros((count, self._told.shape[1])))

    def set_parameters(self, values: Mapping[str, Any], mask: Any = None) -> None:
        """Set tunable parameters of systems, {name: number, or one number for each system of the mask}.

        Raises InvalidRequest for an unknown name and for a value outside the parameter's bounds.
        """
        index, names = self._index(mask), list(self.system.tunable_names)
        p = self._gather("p", index)
        for name, given in values.items():
            if name not in names:
                raise UnknownName(f"robot {self.system.mechanism.name!r}", "tunable", name, names or ["none"])
            p[:, names.index(name)] = as_array("LaneStates", name, given)
        self._write(self._views["p"], index, self._requests.parameters(p, len(index)))

    def set_constraint_mode(self, name: str, mask: Any = None) -> None:
        """Make the constraints of the named constraint mode the active ones of systems."""
        first = len(self.system.parameter_names) - len(self.system.mechanism.switched)
        flags = self.system.default_parameters(self.system.constraint_mode_index(name))[first:]
        index = self._index(mask)
        p = self._gather("p", index)
        p[:, first:] = flags
        self._write(self._views["p"], index, p)

    # -- steps and outputs --------------------------------------------------------------------------------------------

    def step(self, u: Any = None, steps: int = 1) -> None:
        """Advance all systems by `steps` time steps of size `step_s` under constant inputs.

        u  actuator efforts or servo commands (n, n_u), clipped to their limits; None: the inputs stay
        """
        if u is not None:
            self.set_inputs(u)
        if self._pool is None:
            self._advance(self._shares[0], steps)
        else:
            list(self._pool.map(lambda share: self._advance(share, steps), self._shares))

    def follow(self, inputs: Array, every: int, steps: int) -> tuple[Array, Array, Array]:
        """Take `steps` time steps; returns q, v (n, k, n_q) and quaternions (n, k, m, 4) of k states.

        inputs  (n, 1, n_u) constant inputs, or (n, steps, n_u) inputs of each time step, within their limits
        every   number of time steps between two states; the first state is the present one
        """
        n_q, layout, groups = self.system.n_q, self._loop.layout, len(self._block)
        padded = np.zeros((groups * self.lanes, *inputs.shape[1:]))
        padded[: self.n] = inputs
        rows = padded.reshape(groups, self.lanes, *inputs.shape[1:]).transpose(2, 0, 3, 1)
        given = np.ascontiguousarray(rows[:, :, self._columns])
        self._told[:] = given[0]
        quaternions, begin = layout.quaternions, layout.place("q").start
        size = (layout.place("p").stop if quaternions else layout.place("v").stop) - begin
        states = np.empty((steps // every + 1, groups, size, self.lanes))
        row = self._block.strides[1]
        kept = begin * row, size * row
        changes = len(given) > 1
        told = layout.place("u").start * row, given.shape[2] * row * changes
        call, loop = state_loop.follow(), self._loop.library.addresses[SYMBOL]
        block = loop, self._block, groups, self._block.strides[0], self.step_s
        together = every * max(1, STEPS_TOGETHER // (every * groups))
        for first in range(0, max(steps, 1), together):
            count = int(min(together, steps - first))
            call(*block, count, int(every), states[first // every :], *kept, given[first * changes :], *told)
        found = states.transpose(1, 3, 0, 2).reshape(groups * self.lanes, len(states), -1)[: self.n]
        turned = found[..., [2 * n_q + index for index in quaternions]]
        orientations = turned.reshape(self.n, len(states), len(quaternions) // 4, 4)
        return found[..., :n_q], found[..., n_q : 2 * n_q], orientations

    def set_inputs(self, u: Any) -> None:
        """Set the actuator efforts or servo commands (n, n_u), clipped to their limits."""
        values = np.asarray(u, dtype=float)
        if values.shape != (self.n, self.system.n_u) or not np.isfinite(values).all():
            self._requests.rows("u", u, self.n, self.system.n_u)  # raises
        least, most = self._clip
        np.minimum(np.maximum(values, least), most, out=self._inputs[: self.n])
        rows = self._inputs.reshape(len(self._block), self.lanes, -1).transpose(0, 2, 1)
        self._told[:] = rows[:, self._columns]

    def outputs(self) -> Array:
        """Outputs and sensor readings (n, number of outputs) at the current states, as `system.output_names` names
        them.

        The efforts are those of the latest time step. The kernel is compiled or loaded at the first call.
        """
        times, values = self._output_arrays
        times[:, 0] = self._views["taken"][:, 0] * self.step_s
        for call in self._output_calls:
            call()
        return _rowwise(values)[: self.n]

    @cached_property
    def _output_arrays(self) -> tuple[Array, Array]:
        groups = len(self._block)
        times = np.zeros((groups, 1, self.lanes))
        return times, np.zeros((groups, len(self.system.output_names), self.lanes))

    @cached_property
    def _output_calls(self) -> list[Callable[[], None]]:
        library = _output_kernel(self.system, self.lanes)
        times, values = self._output_arrays
        return [
            BoundKernel(
                library.addresses["outputs"],
                [times[k], *[self._views[name][k] for name in OUTPUT_INPUTS]],
                [values[k]],
                library,
            )
            for k in range(len(self._block))
        ]

    # -- block --------------------------------------------------------------------------------------------------------

    def _advance(self, share: tuple[int, int], steps: int) -> None:
        address, count = share
        self._call(address, count, 0, steps, steps, self.step_s)

    @cached_property
    def _starts(self) -> dict[str, Array]:
        """Coordinates "q" and velocities "v" (n_q,) at the start of the description."""
        mechanism = self.system.mechanism
        pairs = {"q": mechanism.initial_q, "v": mechanism.initial_v}
        return {name: self.system.with_states(name, np.asarray(values, dtype=float)) for name, values in pairs.items()}

    def _divided(self, shares: int) -> list[tuple[int, int]]:
        """(address of the first group, number of groups) of each thread's share of the block."""
        bounds = [len(self._block) * k // shares for k in range(shares + 1)]
        first, size = self._block.ctypes.data, self._block.strides[0]
        return [(first + begin * size, end - begin) for begin, end in pairwise(bounds)]

    def _index(self, mask: Any) -> Array:
        """Indices of the systems that a mask of bool (n,) or a sequence of indices selects; None: all."""
        if mask is None:
            return np.arange(self.n)
        array = np.asarray(mask)
        if array.dtype == bool:
            if array.shape != (self.n,):
                raise InvalidRequest(f"the mask has shape {array.shape}; it must be {(self.n,)}")
            return np.flatnonzero(array)
        if array.ndim != 1 or array.dtype.kind not in "iu" or ((array < 0) | (array >= self.n)).any():
            raise InvalidRequest(f"the mask must be {self.n} booleans, or indices from 0 to {self.n - 1}")
        return array

    def _read(self, name: str) -> Array:
        return _rowwise(self._views[name])[: self.n]

    def _gather(self, name: str, index: Array) -> Array:
        group, lane = np.divmod(index, self.lanes)
        return np.asarray(self._views[name][group, :, lane])

    def _write(self, view: Array, index: Array, rows: Array) -> None:
        group, lane = np.divmod(index, self.lanes)
        view[group, :, lane] = rows
        if (
            index[-1] == self.n - 1 and self.n % self.lanes
        ):  # lanes beyond n repeat the last system, so that they do not diverge on their own
            view[-1, :, self.n % self.lanes :] = rows[-1][:, None]


def _tiled(given: Any, count: int) -> Any:
    values = np.asarray(given, dtype=float)
    return np.tile(values, (count, 1)) if values.ndim == 1 else values


def _rowwise(view: Array) -> Array:
    """Array (groups * lanes, rows) of a part (groups, rows, lanes) of a block, a copy."""
    return view.transpose(0, 2, 1).copy().reshape(view.shape[0] * view.shape[2], view.shape[1])


def _output_kernel(system: CompiledSystem, lanes: int) -> native.Library:
    """Kernel of the outputs of `lanes` systems, compiled or loaded from the cache."""
    key = f"{system.code_hash}-{lanes}-outputs"
    library = native.load_shared(key)
    if library is None:
        # a kernel from the cache needs no casadi
        from sim_core.derivation.equations import derive
        from sim_core.kernels.emit import modules_of
        from sim_core.kernels.machine_code.side_by_side import objects_of

        with native.compiling(f"the outputs of {system.mechanism.name!r} for {lanes} at a time"):
            functions = {"outputs": derive(system.mechanism).functions["outputs"]}
            manifest = {"key": key, "mechanism": system.mechanism.name, "symbols": list(functions)}
            library = native.keep(objects_of(modules_of(functions, lanes=lanes)), manifest, key)
    return library
