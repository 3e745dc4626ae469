"""Maps of the stability measure IS1 over initial states: two components vary over a grid, the others are constant.

IS1 is the largest distance of a motion from an equilibrium, divided by the motion's distance at the start.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from sim_core.analysis.attitudes import component_names
from sim_core.analysis.stability import StateNorm
from sim_core.analysis.starts import completed
from sim_core.batch.peaks import Peaks, layout_of
from sim_core.errors import InvalidRequest, UnknownName
from sim_core.solve import coordinate_scales
from sim_core.system import System

Array = np.ndarray
MOST_WIDE = 4  # coordinates up to which 16 lanes are faster than 8
PART = 65_536  # motions judged at a time


@dataclass(frozen=True)
class StateMap:
    """Stability measure IS1 over a grid of initial states, and the ranges of the motions from these states.

    axes        {component of the state: values (n,)} of the two axes; the first axis is horizontal (one column of the
                map per value), the second vertical (one row per value)
    is1         (rows, columns) IS1: largest distance of a motion from the equilibrium, divided by its distance at the
                start; nan for a motion that diverged
    turns_over  (rows, columns) True if an angle went further than pi from the equilibrium, or if the attitude of a
                spherical or free joint reached an angle of pi from its attitude at the equilibrium
    diverged    number of motions that diverged
    peaks       smallest and largest value of each state in each motion; the motions are in the order of the map, row by
                row
    violation   largest absolute value of the constraint violations Phi at the end of a motion, taken over a sample of
                the motions; 0 without constraints
    """

    axes: Mapping[str, Array]
    is1: Array
    turns_over: Array
    diverged: int
    norm: StateNorm
    seconds: float
    peaks: Peaks
    violation: float


def state_map(
    norm: StateNorm,
    axes: Mapping[str, Array],
    start: Mapping[str, float],
    seconds: float,
    *,
    u: Array | None = None,
    modes: Mapping[str, str] | None = None,
    lanes: int | None = None,
    threads: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> StateMap:
    """Map of the stability measure IS1 over two components of the initial state.

    IS1 of a motion is its largest distance from the equilibrium, divided by its distance at the start.

    norm      norm of the states, which also gives the system, the equilibrium and the step size
    axes      {component of the state: values (n,)} of two components, in rad, m, rad/s or m/s. The components .rx .ry
              .rz of a spherical or free joint form the rotation vector from its attitude at the equilibrium
    start     {component of the state: value} of further components; all others have the values of the mechanism's
              start, or follow from the constraints
    seconds   simulation time of each motion, s
    u         constant efforts (n_u,), by default those at the start, or commands of actuators that `modes` names
    modes     {actuator: "position" or "velocity"} of the actuators whose entry in u is a command of their servo;
              distances are measured from `norm.about` in both modes
    lanes     number of motions per SIMD vector, by default `usual_lanes`; it changes only the computing time
    threads   number of threads that share the motions, by default one per processor
    progress  function that is called with the number of finished motions and the number of all motions
    """
    q, v = grid(norm, axes, start, seconds)
    starts = [actuator.start for actuator in norm.system.mechanism.actuators]
    efforts = np.tile(starts if u is None else u, (len(q), 1))
    steps = math.ceil(seconds / norm.step_s - 1e-9)
    peaks = norm.system.batch(lanes or usual_lanes(norm.system)).peaks(
        q,
        v,
        efforts,
        step_s=seconds / steps,
        steps=steps,
        modes=modes,
        threads=threads,
        progress=progress,
        stabilizer="sampled_fuzzy",
        attitudes=norm.attitudes.quaternions if norm.turning else None,
    )
    return map_of(norm, axes, seconds, q, v, peaks)


def usual_lanes(system: System) -> int:
    """Number of motions per SIMD vector, 8 or 16, with which a map takes the shortest time.

    With 16 motions, each value occupies two vector registers, and the processor overlaps the operations on the two.
    This is faster than 8 motions per vector only for small systems, all of whose values fit in the registers.
    """
    return 16 if system.n_q <= MOST_WIDE else 8


def grid(norm: StateNorm, axes: Mapping[str, Array], start: Mapping[str, float], seconds: float) -> tuple[Array, Array]:
    """n initial states, returned as q and v (n, n_q), one for each point of a map, row by row.

    norm     norm of the states, which also gives the system
    axes     {component of the state: values} of the two components that vary over the map
    start    {component of the state: value} of further components
    seconds  simulation time of each motion, s, which is checked but does not influence the result

    Components that are not given have the values of the mechanism's start, or follow from the constraints. Raises
    InvalidRequest or UnknownName with a one-line message for invalid parameters.
    """
    system, names = norm.system, component_names(norm.system)
    for name in (*axes, *start):
        if name not in names:
            raise UnknownName(f"robot {system.mechanism.name!r}", "state row", name, names)
    if len(axes) != 2:
        raise InvalidRequest(f"the map has {len(axes)} axes; give exactly two")
    if both := [name for name in start if name in axes]:
        raise InvalidRequest(f"{both[0]!r} is given both as an axis of the map and in `start`; remove it from `start`")
    if not 0.0 < seconds < math.inf:
        raise InvalidRequest(f"seconds is {seconds}; it must be a positive number")
    mechanism = system.mechanism
    meshes = np.meshgrid(*axes.values())
    begun = norm.attitudes.offsets(np.array([mechanism.initial_q]), np.array([mechanism.initial_v]))
    states = np.tile(begun, (meshes[0].size, 1))
    for name, value in start.items():
        states[:, names.index(name)] = value
    for name, mesh in zip(axes, meshes, strict=True):
        states[:, names.index(name)] = mesh.ravel()
    given = np.array([names.index(name) for name in (*axes, *start)])
    if system.max_rows:
        states = completed(system, states, given, norm.about)
    return norm.attitudes.states(states)


def map_of(norm: StateNorm, axes: Mapping[str, Array], seconds: float, q: Array, v: Array, peaks: Peaks) -> StateMap:
    """StateMap of n motions that are already computed: the stability measure IS1 at each point of the grid.

    IS1 of a motion is its largest distance from the equilibrium, divided by its distance at the start.

    norm     norm that defines the distance, and the equilibrium
    axes     {component of the state: values} of the two axes of the grid
    seconds  simulation time of each motion
    q, v     initial states (n, n_q) of the motions, as `grid` returns them
    peaks    smallest and largest value of every state during each motion
    """
    is1, over = np.empty(len(q)), np.empty(len(q), dtype=bool)
    for begin in range(0, len(q), PART):  # in parts, to keep the memory small
        part = slice(begin, begin + PART)
        is1[part], over[part] = _judged(norm, peaks, part, q[part], v[part])
    across, up = axes.values()
    shape = len(up), len(across)
    return StateMap(
        dict(axes),
        is1.reshape(shape),
        over.reshape(shape),
        int(np.isnan(is1).sum()),
        norm,
        seconds,
        peaks,
        _violation(norm.system, peaks),
    )


def _judged(norm: StateNorm, peaks: Peaks, part: slice, q: Array, v: Array) -> tuple[Array, Array]:
    """Return (IS1, turns_over), each (k,), of k motions; `StateMap` describes both.

    peaks  smallest and largest value of every state in all motions
    part   slice that selects the k motions out of all motions
    q, v   (k, n_q) initial states of the selected motions
    """
    system = norm.system
    some = replace(peaks, low=peaks.low[part], high=peaks.high[part], q=peaks.q[part], v=peaks.v[part])
    distances = norm.distances(some)
    size = norm.sizes(q, v)
    with np.errstate(invalid="ignore", divide="ignore"):
        is1 = np.where(size > 0.0, distances.max(axis=1) / size, 1.0)
    lengths = [joint.name for joint in system.mechanism.moving_joints if joint.is_length]
    is_angle = coordinate_scales(system.coordinate_names, lengths, math.inf) == 1.0
    middles = dict(zip(system.coordinate_names, norm.about.tolist(), strict=True))
    angles = [name for name, each in zip(system.coordinate_names, is_angle, strict=True) if each and name in peaks.rows]
    far = some.largest(np.array([middles.get(name, 0.0) for name in peaks.rows]))
    over = (far[:, [peaks.rows.index(name) for name in angles]] > math.pi).any(axis=1)
    whole = [axis is None for axis in norm.tilted]  # a tilt is at most pi
    return is1, np.asarray(over | (norm.angles(some)[:, whole] >= math.pi).any(axis=1))


def _violation(system: System, peaks: Peaks, looks: int = 200) -> float:
    if not system.max_rows:
        return 0.0
    finite = np.flatnonzero(np.isfinite(peaks.q).all(axis=1))
    some = finite[:: max(1, len(finite) // looks)]
    quaternions = layout_of(system).quaternions
    p, sizes = system.default_parameters(), []
    for k in some:
        p[quaternions] = peaks.orientations[k].ravel() if quaternions else []
        sizes.append(np.abs(system.residual(0.0, peaks.q[k], peaks.v[k], p)[0]).max(initial=0.0))
    return float(max(sizes, default=0.0))
