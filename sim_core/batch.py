"""Batch evaluation: kernels that compute several copies of one system per call, one per vector lane.

    batch = system.batch(lanes=8)
    batch.inverse_dynamics(q, v, a)                     # rows of any number of systems
    batch.rollout(q0, v0, u, step_s=1e-3, steps=1000)   # RK4, every system from its own start

A batch kernel computes what the scalar kernel of that name computes, with one number per system in place of each
number. Batch kernels are compiled when a Batch is first created, and cached like the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sim_core.errors import InvalidRequest, require_finite
from sim_core.kernels import native
from sim_core.kernels.bound import BoundKernel, pointer_table

if TYPE_CHECKING:
    from sim_core.system import System

LANES = (2, 4, 8)
KERNELS = ("inverse_dynamics", "forward_dynamics", "rates")
Array = np.ndarray


@dataclass(frozen=True)
class Rollout:
    """Result of a rollout: times (k,) in s, q and v (n_systems, k, n_q); the first entry is the start."""

    times: Array
    q: Array
    v: Array


class Batch:
    """The kernels of a system for `lanes` copies at once. Holds no state.

    Constraints act at the acceleration level, without stabilization, as in the first constraint mode.
    """

    def __init__(self, system: System, lanes: int) -> None:
        if lanes not in LANES:
            raise InvalidRequest(f"a batch of {lanes} lanes was asked for; there are {', '.join(map(str, LANES))}")
        if system.mechanism.beams:
            raise InvalidRequest(
                f"{system.mechanism.name!r} has beams; a batch takes only mechanisms of rigid bodies: use a Simulation"
            )
        self.system, self.lanes = system, lanes
        key = f"{system.code_hash}-{lanes}"
        library = native.load(key)
        if library is None:
            from sim_core.derivation.equations import derive_batch
            from sim_core.kernels.emit import module_of

            with native.compiling(f"the kernels of {system.mechanism.name!r} for {lanes} at a time"):
                functions = derive_batch(system.mechanism)
                manifest = {"key": key, "mechanism": system.mechanism.name, "symbols": list(functions)}
                library = native.compile_module(module_of(functions, lanes=lanes), manifest, key)
        self._library = library

    def bind(self, name: str, inputs: list[Array], outputs: list[Array]) -> BoundKernel:
        """A kernel bound to arrays that the caller owns, each (size, lanes): element i of system k at [i, k].

        inverse_dynamics  t, q, v, a, p -> tau
        forward_dynamics  t, q, v, tau, p -> a, lam
        rates             t, q, v, u, p -> a, lam
        """
        for array in [*inputs, *outputs]:
            if array.ndim != 2 or array.shape[1] != self.lanes or not array.flags.c_contiguous:
                raise ValueError(f"an array has shape {array.shape}; this batch takes (size, {self.lanes}), row by row")
        return BoundKernel(self._library.addresses[name], inputs, outputs, self._library)

    def inverse_dynamics(self, q: Any, v: Any, a: Any, p: Any = None) -> Array:
        """tau (n, n_q) for each row of q, v, a (n, n_q); the batch form of `sim_core.inverse_dynamics`."""
        return self._each("inverse_dynamics", q, v, a, p)

    def forward_dynamics(self, q: Any, v: Any, tau: Any, p: Any = None) -> Array:
        """a (n, n_q) for each row of q, v, tau (n, n_q); the batch form of `sim_core.forward_dynamics`."""
        return self._each("forward_dynamics", q, v, tau, p)

    def _each(self, name: str, q: Any, v: Any, third: Any, p: Any) -> Array:
        n_q, lanes = self.system.n_q, self.lanes
        third_name = "a" if name == "inverse_dynamics" else "tau"
        count = len(np.atleast_2d(np.asarray(q, dtype=float)))
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
        self, q0: Any, v0: Any, u: Any = None, *, step_s: float, steps: int, every: int = 1, p: Any = None
    ) -> Rollout:
        """Integrate n systems by RK4 with a fixed step from q0, v0 (n, n_q); returns every `every`-th state.

        u  actuator efforts: None for zero, (n, n_u) constant, or (n, steps, n_u) with one row per step
        p  parameters (n, n_p), by default the mechanism's values
        Efforts are not limited. A system that diverges has non-finite entries from there on and does not affect the
        others. Raises InvalidRequest for sizes that do not fit and for mechanisms with guards, whose events need a
        Simulation.
        """
        from sim_core.integrators.lanes import advance_lanes
        from sim_core.kernels.compiled import is_kept

        system, lanes = self.system, self.lanes
        if system.mechanism.guards:
            raise InvalidRequest(
                f"{system.mechanism.name!r} changes its constraint mode at guards; a rollout keeps one"
            )
        if steps < 0 or every < 1 or not 0 < step_s < np.inf:
            raise InvalidRequest(
                f"steps {steps}, every {every}, step_s {step_s}: these must be >= 0, >= 1 and positive"
            )
        count = len(np.atleast_2d(np.asarray(q0, dtype=float)))
        starts = [self._rows(what, value, count, system.n_q) for what, value in (("q0", q0), ("v0", v0))]
        efforts, parameters = self._efforts(u, count, steps), self._parameters(p, count)
        recorded = np.zeros((2, count, steps // every + 1, system.n_q))
        w = [np.zeros((size, lanes)) for size in (1, system.n_q, system.n_q, system.n_u, parameters.shape[1])]
        a, lam = np.zeros((system.n_q, lanes)), np.zeros((system.constraint_modes[0].n_rows, lanes))
        tables = pointer_table(w), pointer_table([a, lam])
        pointers = np.array([self._library.addresses["rates"], *[table.ctypes.data for table in tables]])
        record = np.zeros((2, steps // every + 1, system.n_q, lanes))
        flat = [array.reshape(-1) for array in (*w[:4], a)]
        if not is_kept(advance_lanes):
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
        times = np.arange(steps // every + 1, dtype=np.float64) * (every * float(step_s))
        return Rollout(times, recorded[0], recorded[1])

    def _rows(self, name: str, value: Any, count: int, size: int) -> Array:
        array = np.atleast_2d(np.asarray(value, dtype=float))
        if array.shape != (count, size):
            raise InvalidRequest(
                f"{name} has shape {array.shape}; {count} of {self.system.mechanism.name!r} take {(count, size)}"
            )
        self._require_finite(name, array)
        return array

    def _require_finite(self, name: str, array: Array) -> None:
        if not np.isfinite(array).all():
            require_finite(self.system.mechanism.name, name, array.ravel().tolist())

    def _parameters(self, p: Any, count: int) -> Array:
        values = np.tile(self.system.default_parameters(), (count, 1)) if p is None else p
        return self._rows("p", values, count, len(self.system.parameter_names))

    def _efforts(self, u: Any, count: int, steps: int) -> Array:
        """Actuator efforts as an array (count, 1 or steps, n_u)."""
        n_u = self.system.n_u
        if u is None:
            return np.zeros((count, 1, n_u))
        array = np.asarray(u, dtype=float)
        if array.ndim < 3:
            return self._rows("u", array, count, n_u)[:, None, :]
        if array.shape != (count, steps, n_u):
            raise InvalidRequest(
                f"u has shape {array.shape}; this rollout takes {(count, steps, n_u)} or {(count, n_u)}"
            )
        self._require_finite("u", array)
        return array


def _lanes_of(rows: Array, begin: int, lanes: int) -> Array:
    """Rows begin .. begin + lanes with the lanes as last axis; the last row is repeated if rows run out."""
    index = np.minimum(np.arange(begin, begin + lanes), len(rows) - 1)
    return np.moveaxis(rows[index], 0, -1)
