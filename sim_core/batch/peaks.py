"""Ranges of the states of many systems over a run: the implementation of `Batch.peaks` with several threads.

Each thread fills an array `block` with groups * lanes systems at a time, where a lane is an element of a SIMD vector,
and calls the compiled loop without the GIL. Each call takes about CALL_S seconds, so that an interrupt is noticed
soon. The results do not depend on the number of threads, the block size or the number of calls.
"""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from sim_core.batch.lane_servos import LaneServo
from sim_core.batch.layout import ANGLES, SYMBOL, Layout, Orientation
from sim_core.compiled_system import CompiledSystem
from sim_core.errors import InvalidRequest
from sim_core.kernels.machine_code import native
from sim_core.spatial import conjugate, quaternion_product

Array = np.ndarray
CALL_S = 0.02  # duration of one call of the compiled loop
BLOCK_S = 0.003  # least duration of a block, beside which the time to fill it is short
GAINS = 3  # Kp, Kd, Ku of the sampled fuzzy law
MOST_GROUPS = 256  # groups per block


@dataclass(frozen=True)
class Peaks:
    """Ranges of the states of n systems over a run.

    rows          names of the states: coordinates, then velocities as `NAME.velocity`, then the orientations of
                  spherical and free joints as quaternions `NAME.qw` to `NAME.qz`; the coordinates `NAME.rx` to
                  `NAME.rz` of these joints are left out. With reference attitudes, the quaternions describe the
                  rotations from a reference attitude to the orientation, and squared sines of half an angle follow:
                  `NAME.sin2` for the angle of the rotation, and `NAME.sin2_x`, `NAME.sin2_y`, `NAME.sin2_z` for the
                  angles by which the rotation tilts the axes x, y, z
    low, high     (n, rows) smallest and largest value of each state, including extrema between the steps; nan for a
                  system that diverged
    q, v          (n, n_q) state at the end of the run
    orientations  (n, m, 4) quaternions w x y z of the m spherical and free joints at the end of the run
    step_s, steps, stepper, stabilizer  step (s), number of steps, and names of the integration method and stabilizer
    lanes, cpu    number of systems per SIMD vector, and type of the processor; on another type of processor the last
                  digits may differ
    """

    rows: tuple[str, ...]
    low: Array
    high: Array
    q: Array
    v: Array
    step_s: float
    steps: int
    stepper: str
    stabilizer: str
    lanes: int
    cpu: str
    orientations: Array = field(default_factory=lambda: np.zeros((0, 0, 4)))

    def largest(self, about: Array | None = None) -> Array:
        """Largest |x - about| (n, number of states) of each state x during the run of each of n systems.

        about  (number of states,) reference value of each state, by default zero
        """
        center = np.zeros(len(self.rows)) if about is None else np.asarray(about, dtype=float)
        distances: Array = np.maximum(np.abs(self.high - center), np.abs(self.low - center))
        return distances


def state_rows(system: CompiledSystem, relative: bool = False) -> tuple[str, ...]:
    """Names of the states of a system: coordinates, velocities, and the numbers of quaternions, as in `Peaks.rows`.

    relative  whether there are reference attitudes
    """
    layout, names = layout_of(system), system.coordinate_names
    positions = [names[index] for index in layout.positions]
    quaternions = [system.parameter_names[index] for index in layout.quaternions]
    joints = [joint.name for joint in system.mechanism.oriented_joints] if relative else []
    sines = [f"{joint}.sin2{ending}" for joint in joints for ending in ("", "_x", "_y", "_z")]
    return (*positions, *[f"{name}.velocity" for name in names], *quaternions, *sines)


def state_reader(system: CompiledSystem, attitudes: Array | None = None) -> Callable[[Array, Array, Array], Array]:
    """Function of q, v and p that returns the values (number of states,) of the states that `state_rows` names.

    In q, the rotation coordinates of spherical and free joints must be 0.

    attitudes  reference attitudes (m, 4), as for `Batch.peaks`
    """
    layout, sums = layout_of(system), np.array([[k in chosen for k in range(3)] for chosen in ANGLES], dtype=float)
    back = None if attitudes is None else np.array([conjugate(each) for each in attitudes.tolist()]).T

    def read(q: Array, v: Array, p: Array) -> Array:
        if not layout.orientations:
            return np.concatenate([q, v])
        quaternions, sines = p[layout.quaternions].reshape(-1, 4).T, np.zeros((0, 0))
        if back is not None:
            quaternions = quaternion_product(back, quaternions)
            sines = (sums @ quaternions[1:] ** 2).T
        return np.concatenate([q[layout.positions], v, quaternions.T.ravel(), sines.ravel()])

    return read


def layout_of(
    system: CompiledSystem, stabilized: bool = False, servos: int = 0, relative: bool = False, ranged: bool = True
) -> Layout:
    """Layout of the array in which a compiled loop keeps the data of many copies of a system.

    stabilized  whether the loop has the default stabilizer
    servos      number of servos
    relative    whether the quaternions whose ranges are recorded are those of rotations from reference attitudes
    ranged      whether the loop records the range of each state
    """
    orientations = tuple(
        Orientation(
            system.coordinate_names.index(joint.coordinates[-3]),
            system.parameter_names.index(joint.orientation_names[0]),
        )
        for joint in system.mechanism.oriented_joints
    )
    n_gains = GAINS if stabilized else 0
    return Layout(system.n_q, system.n_u, len(system.parameter_names), n_gains, servos, orientations, relative, ranged)


@dataclass(frozen=True)
class RangeLoop:
    """Compiled loop that integrates `lanes` copies of a system at a time and records the range of each state."""

    layout: Layout
    lanes: int
    library: native.Library

    @classmethod
    def of(
        cls,
        system: CompiledSystem,
        lanes: int,
        stabilized: bool,
        servos: Sequence[LaneServo] = (),
        relative: bool = False,
        ranged: bool = True,
    ) -> RangeLoop:
        """Compile the loop, or load it from the cache.

        The loop has the default stabilizer if `stabilized`, and the given servos. If `relative`, the quaternions whose
        ranges it records are those of rotations from reference attitudes. It records ranges only if `ranged`.
        """
        layout = layout_of(system, stabilized, len(servos), relative, ranged)
        key = f"{system.code_hash}-{lanes}-{'ranges' if ranged else 'states'}{'-stabilized' if stabilized else ''}"
        if servos:
            key += f"-servos-{native.short_hash(*map(repr, servos))}"
        if relative:
            key += "-relative"
        library = native.load_shared(key)
        if library is None:
            # a loop from the cache needs no casadi
            from sim_core.batch.lane_loop import module
            from sim_core.derivation.equations import derive_lanes

            with native.compiling(f"the loop of {system.mechanism.name!r} for {lanes} at a time"):
                functions = derive_lanes(system.mechanism, stabilized)
                ir = module(functions, layout, system.constraint_modes[0].n_rows, lanes, servos)
                manifest = {"key": key, "mechanism": system.mechanism.name, "symbols": [SYMBOL]}
                library = native.compile_module(ir, manifest, key)
        return cls(layout, lanes, library)

    @property
    def function(self) -> Callable[..., None]:
        """The loop as a function that releases the GIL while it runs."""
        integer = ctypes.c_int64
        kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, integer, integer, integer, integer, ctypes.c_double)
        call: Callable[..., None] = kind(self.library.addresses[SYMBOL])
        return call


@dataclass
class Work:
    """Initial states, inputs and results of n systems whose state ranges several threads compute together.

    rows      {name: array (n, size)} of the initial values and inputs, with the names q, v, u, p, gains, target and
              command; and "reference", the reference attitudes, if ranges of rotations away from them are computed
    progress  function that is called with the number of finished systems and the number of all systems
    """

    loop: RangeLoop
    rows: dict[str, Array]
    steps: int
    step_s: float
    progress: Callable[[int, int], None] | None = None

    def __post_init__(self) -> None:
        self.count, layout = len(self.rows["q"]), self.loop.layout
        ranged = self.count, layout.sizes["low"]
        self.low, self.high = np.empty(ranged), np.empty(ranged)
        self.q, self.v = np.empty((self.count, layout.n_q)), np.empty((self.count, layout.n_q))
        self.p = np.empty((self.count, layout.n_p))
        self._next, self._done, self._lock = 0, 0, threading.Lock()
        self._stop, self._error = threading.Event(), list[BaseException]()

    def carry_out(self, threads: int) -> None:
        """Integrate all systems on the given number of threads.

        After a KeyboardInterrupt, the threads end within about CALL_S seconds.
        """
        crew = [threading.Thread(target=self._guarded, daemon=True) for _ in range(threads)]
        try:
            for one in crew:
                one.start()
            for one in crew:
                while one.is_alive():
                    one.join(CALL_S)
                    if self.progress is not None:
                        self.progress(self._done, self.count)
        finally:
            self._stop.set()
            for one in crew:
                if one.ident is not None:  # an interrupt may come before it is started
                    one.join()
        if self._error:
            raise self._error[0]

    def _guarded(self) -> None:
        try:
            self._work()
        except BaseException as error:  # raised again by carry_out
            self._error.append(error)
            self._stop.set()

    def _work(self) -> None:
        layout, lanes, function = self.loop.layout, self.loop.lanes, self.loop.function
        groups, each_s = 1, 0.0
        block = np.zeros((MOST_GROUPS, layout.rows, lanes))
        while not self._stop.is_set():
            with self._lock:
                begin = self._next
                self._next += groups * lanes
            if begin >= self.count:
                return
            here = min(groups, -(-(self.count - begin) // lanes))
            self.fill(block[:here], begin)
            first, total = 0, self.steps
            while first <= total and not self._stop.is_set():
                count = total + 1 - first if each_s == 0.0 else max(1, int(CALL_S / (here * each_s)))
                count = min(count, total + 1 - first, 64 if each_s == 0.0 else total + 1)
                began = time.perf_counter()
                function(block.ctypes.data, here, first, count, total, self.step_s)
                each_s = max(time.perf_counter() - began, 1e-9) / (here * count)
                first += count
            if first <= total:
                return
            self._take(block[:here], begin)
            group_s = each_s * (total + 1)
            share = -(-self.count // lanes) // 16 + 1  # every thread gets several blocks
            groups = max(1, min(MOST_GROUPS, max(share, int(BLOCK_S / group_s)), int(CALL_S / group_s)))

    def fill(self, block: Array, begin: int) -> None:
        """Fill `block` with the initial states and inputs of consecutive systems, from the system with index `begin`
        on.

        If fewer systems are left than `block` has room for, the remaining lanes get copies of the last system.

        block  (groups, rows, lanes) array that is filled; each pair of group and lane contains one system
        """
        (groups, _, lanes), relative = block.shape, self.loop.layout.relative
        index = np.minimum(np.arange(begin, begin + groups * lanes), self.count - 1)
        for name in ("q", "v", "u", "p", "gains", "target", "command", *(("reference",) if relative else ())):
            rows = self.rows[name][index].reshape(groups, lanes, -1)
            block[:, self.loop.layout.place(name)] = rows.transpose(0, 2, 1)
        block[:, self.loop.layout.place("low")] = np.inf
        block[:, self.loop.layout.place("high")] = -np.inf
        for name in ("before", "slope"):
            block[:, self.loop.layout.place(name)] = 0.0

    def _take(self, block: Array, begin: int) -> None:
        layout = self.loop.layout
        end = min(begin + block.shape[0] * block.shape[2], self.count)
        for name in ("q", "v", "low", "high", *(("p",) if layout.quaternions else ())):
            rows = block[:, layout.place(name)].transpose(0, 2, 1)
            getattr(self, name)[begin:end] = rows.reshape(-1, rows.shape[2])[: end - begin]
        lost = ~(np.isfinite(self.q[begin:end]).all(axis=1) & np.isfinite(self.v[begin:end]).all(axis=1))
        self.low[begin:end][lost] = np.nan
        self.high[begin:end][lost] = np.nan
        with self._lock:
            self._done += end - begin


def usable_threads(threads: int | None) -> int:
    """Number of threads: `threads`, or by default the number of processors that this process may use."""
    if threads is None:
        return len(os.sched_getaffinity(0))
    if threads < 1:
        raise InvalidRequest(f"threads is {threads}; it must be 1 or more")
    return threads


def cpu_name() -> str:
    """Type of this computer's processor, as LLVM names it."""
    import llvmlite.binding as llvm  # only where machine code is made or loaded

    return str(llvm.get_host_cpu_name())
