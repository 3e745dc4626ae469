"""Schiehlen's stability measures IS1_T and IS2_T: how far motions move from an equilibrium, relative to their starts.

IS1_T of a motion is its largest distance from the equilibrium within the time T, divided by its distance at the start.
IS2_T is the largest IS1_T of all motions that start at a given distance.

    at = equilibrium(system, near=[0.0, 0.0])
    measure(system, [[0.5, -0.5, 0.5, 0.5]], seconds=100.0, about=at, time_unit_s=1.0).is1
    worst(system, 0.5, seconds=100.0, about=at, time_unit_s=1.0)

The distance of a state is the largest deviation of a component from the equilibrium, in units: 1 rad for angles,
`length_unit_m` for lengths, and these units per `time_unit_s` for velocities. [Schiehlen1993, eqs. 36 to 47]

The attitude of a spherical or free joint has one deviation, at most pi: the angle of the rotation from the attitude at
the equilibrium. This angle is the distance on the group of rotations, and does not depend on the choice of axes. A
start gives this rotation as a rotation vector, axis times angle, in the components NAME.rx, NAME.ry and NAME.rz. If the
norm has only two of these components, the deviation is the tilt of the axis of the third one, and rotations about this
axis do not count. This suits a pendulum on a ball joint, which may turn about its rod. The components NAME.rx.velocity
to NAME.rz.velocity are the angular velocity in the child's axes. The paper has no such joints; with one coordinate per
joint the distance is that of the paper.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from sim_core.analysis.attitudes import Attitudes, component_names, largest_angles, tilt_angles
from sim_core.analysis.equilibria import equilibrium
from sim_core.analysis.held import HeldInputs
from sim_core.analysis.small_motions import frequencies, is_unstable, poles
from sim_core.analysis.starts import completed
from sim_core.batch.peaks import Peaks
from sim_core.errors import InvalidRequest, UnknownName
from sim_core.solve import coordinate_scales
from sim_core.system import System

__all__ = [
    "Measures",
    "StateNorm",
    "Worst",
    "equilibrium",
    "frequencies",
    "is_unstable",
    "measure",
    "poles",
    "worst",
]
Array = np.ndarray
Progress = Callable[[int, int], None]
STEPS_PER_UNIT = 40  # steps per 1 / (largest frequency), by default
NONZERO = 1e-5  # a frequency below this share of the largest one counts as zero: double poles at 0 have such errors
REFINED = 12  # starts around which `worst` refines
SHRINK = 0.6


@dataclass(frozen=True)
class StateNorm:
    """Norm of the states of a system: the largest deviation from an equilibrium of any component in `rows`.

    A component is a coordinate or a velocity. Its deviation is divided by its unit, see `units`. The components .rx .ry
    .rz of a spherical or free joint have one deviation: the angle from the attitude at the equilibrium, or with two of
    them in `rows`, the tilt of the third axis.

    rows           names of the components that the norm takes into account; `component_names` lists all names
    about          coordinates of the equilibrium (n_q,)
    time_unit_s    unit of time for velocities, s
    length_unit_m  unit of lengths, m; the unit of angles is 1 rad
    step_s         step size of the integration, s
    """

    system: System
    rows: tuple[str, ...]
    about: Array
    time_unit_s: float
    length_unit_m: float
    step_s: float

    @classmethod
    def of(
        cls,
        system: System,
        about: Any = None,
        rows: Sequence[str] | None = None,
        time_unit_s: float | None = None,
        length_unit_m: float | None = None,
        step_s: float | None = None,
        u: Any = None,
    ) -> StateNorm:
        """A StateNorm of a system, with default values for the arguments that are None.

        about          coordinates (n_q,) of the equilibrium, by default of the one nearest to the mechanism's start
        rows           names of the components that the norm takes into account, by default all
        time_unit_s    unit of time, s, by default 1 / (lowest nonzero frequency at the equilibrium)
        length_unit_m  unit of lengths, m, by default the mechanism's characteristic length
        step_s         step size, s, by default 1 / (40 times the highest frequency at the equilibrium)
        u              actuator efforts with which the equilibrium and its frequencies are computed: (n_u,), or a
                       function of q and v that returns them; by default the efforts at the start
        """
        mechanism = system.mechanism
        at = equilibrium(system, mechanism.initial_q, u) if about is None else np.array(about, dtype=float)
        if at.shape != (system.n_q,):
            raise InvalidRequest(
                f"argument 'about' has shape {at.shape}; for {mechanism.name!r} its shape must be ({system.n_q},)"
            )
        names = component_names(system)
        chosen = names if rows is None else tuple(rows)
        for name in chosen:
            if name not in names:
                raise UnknownName(f"robot {mechanism.name!r}", "state row", name, names)
        if len(set(chosen)) < len(chosen) or not chosen:
            raise InvalidRequest(f"argument 'rows' is {list(chosen)}; give at least one name, and no name twice")
        for joint in mechanism.oriented_joints:
            turning = [name for name in joint.coordinates[-3:] if name in chosen]
            if len(turning) == 1:
                raise InvalidRequest(
                    f"argument 'rows' has {turning[0]!r} alone, which is no measure of an attitude; give all three of "
                    f"{', '.join(joint.coordinates[-3:])} for the angle of joint {joint.name!r}, or two of them for "
                    "the tilt of the third axis"
                )
        for what, value in (("time_unit_s", time_unit_s), ("length_unit_m", length_unit_m), ("step_s", step_s)):
            if value is not None and not 0.0 < value < math.inf:
                raise InvalidRequest(f"{what} is {value}; it must be a positive number")
        if time_unit_s is None or step_s is None:
            found = frequencies(system, at, u)
            nonzero = found[found > NONZERO * max(1.0, found.max(initial=0.0))]
            if not len(nonzero):
                raise InvalidRequest(
                    f"{mechanism.name!r} has no nonzero frequency at its equilibrium; give time_unit_s and step_s"
                )
            time_unit_s = 1.0 / float(nonzero[0]) if time_unit_s is None else time_unit_s
            step_s = 1.0 / (STEPS_PER_UNIT * float(nonzero[-1])) if step_s is None else step_s
        length = mechanism.characteristic_length if length_unit_m is None else length_unit_m
        return cls(system, chosen, at, float(time_unit_s), float(length), float(step_s))

    @cached_property
    def units(self) -> Array:
        """Units (len(rows),) of the components in `rows`.

        The unit of an angle is 1 rad, that of a length is `length_unit_m`. The unit of a velocity is the unit of its
        coordinate divided by `time_unit_s`.
        """
        prismatic = [joint.name for joint in self.system.mechanism.moving_joints if joint.is_length]
        of_q = coordinate_scales(self.system.coordinate_names, prismatic, self.length_unit_m)
        return np.asarray(np.concatenate([of_q, of_q / self.time_unit_s])[self.places])

    @cached_property
    def places(self) -> Array:
        """Indices (len(rows),), in the state (q, v), of the components that `rows` names."""
        names = component_names(self.system)
        return np.array([names.index(name) for name in self.rows])

    @cached_property
    def attitudes(self) -> Attitudes:
        """Attitudes of the spherical and free joints at the equilibrium."""
        return Attitudes(self.system, self.about)

    @cached_property
    def center(self) -> Array:
        """The equilibrium as a state (2 n_q,) in offsets, see `analysis.attitudes`; its velocities and rotation vectors
        are 0.
        """
        q = self.about.copy()
        for turning in self.attitudes.rotations:
            q[turning] = 0.0
        return np.concatenate([q, np.zeros(self.system.n_q)])

    @cached_property
    def turning(self) -> tuple[Array, ...]:
        """For each spherical and free joint, the indices in `rows` of its components .rx .ry .rz that `rows` names."""
        rotations = self.attitudes.rotations
        return tuple(np.flatnonzero((self.places >= at.start) & (self.places < at.stop)) for at in rotations)

    @cached_property
    def tilted(self) -> tuple[int | None, ...]:
        """For each spherical and free joint, the axis 0, 1 or 2 (x, y, z) whose tilt is the joint's deviation.

        None for a joint whose deviation is the whole angle of rotation, not a tilt.
        """
        found: list[int | None] = []
        for turning, at in zip(self.turning, self.attitudes.rotations, strict=True):
            left = {0, 1, 2} - {int(place) - at.start for place in self.places[turning]}
            found.append(left.pop() if len(left) == 1 else None)
        return tuple(found)

    def __str__(self) -> str:
        """The units of distances, such as "distances in 1 rad, and 1 rad per 1.30656 s (time_unit_s)"."""
        n = self.system.n_q
        prismatic = [joint.name for joint in self.system.mechanism.moving_joints if joint.is_length]
        is_length = np.isinf(coordinate_scales(self.system.coordinate_names, prismatic, math.inf))
        kinds = [("1 rad", False), (f"{self.length_unit_m:.6g} m", True)]
        chosen = [(bool(is_length[place % n]), place >= n) for place in self.places.tolist()]
        found = [unit for unit, length in kinds if (length, False) in chosen]
        per = f"per {self.time_unit_s:.6g} s (time_unit_s)"
        found += [f"{unit} {per}" for unit, length in kinds if (length, True) in chosen]
        return f"distances in {', '.join(found[:-1])}{' and ' if found[1:] else ''}{found[-1]}"

    def states(self, offsets: Any) -> tuple[Array, Array]:
        """n initial states, returned as q and v (n, n_q), at given offsets from the equilibrium.

        offsets  (n, len(rows)) offset of each component in `rows`, in the units `units`
        Components that are not in `rows` have their equilibrium values, or follow from the constraints. The offsets of
        the components .rx .ry .rz of a spherical or free joint form the rotation vector from its attitude at the
        equilibrium.
        """
        given = np.atleast_2d(np.asarray(offsets, dtype=float))
        if given.ndim != 2 or given.shape[1] != len(self.rows) or not np.isfinite(given).all():
            raise InvalidRequest(
                f"the array of starts has shape {given.shape}; it must have one row of {len(self.rows)} finite numbers "
                "per start"
            )
        states = np.tile(self.center, (len(given), 1))
        states[:, self.places] += given * self.units
        if self.system.max_rows:
            states = completed(self.system, states, self.places, self.about)
        return self.attitudes.states(states)

    def rounded(self, offsets: Array) -> Array:
        """Offsets (n, len(rows)) with shortened rotation vectors, for starts at a given distance from the equilibrium.

        The rotation vector of each spherical and free joint is scaled to the length of its largest component. The
        distance of a start is then the largest absolute value of its offsets, as for mechanisms without such joints.
        """
        found = offsets.copy()
        for turning in self.turning:
            part = found[:, turning]
            length = np.linalg.norm(part, axis=1)
            part *= (np.abs(part).max(axis=1, initial=0.0) / np.where(length > 0.0, length, 1.0))[:, None]
            found[:, turning] = part
        return found

    def sizes(self, q: Array, v: Array) -> Array:
        """Distances (n,) of states q, v (n, n_q) from the equilibrium."""
        offsets = self.attitudes.offsets(q, v) - self.center
        deviations = np.abs(offsets[:, self.places] / self.units)
        for turning, at, axis in zip(self.turning, self.attitudes.rotations, self.tilted, strict=True):
            vector = offsets[:, at].T
            angle = np.linalg.norm(vector, axis=0) if axis is None else tilt_angles(vector, axis)
            deviations[:, turning] = angle[:, None]
        return np.asarray(deviations.max(axis=1))

    def distances(self, peaks: Peaks) -> Array:
        """Largest deviation (n, len(rows)) of each component in `rows` from the equilibrium, during each of n motions.

        The deviations are in the units `units`; those of a motion that diverged are nan.

        peaks  smallest and largest value of every state during each motion, with the quaternions relative to those of
               the equilibrium
        """
        names = component_names(self.system)
        middle = dict(zip(names, self.center.tolist(), strict=True))
        largest = peaks.largest(np.array([middle.get(name, 0.0) for name in peaks.rows]))
        places = {name: place for place, name in enumerate(peaks.rows)}
        found = largest[:, [places.get(name, 0) for name in self.rows]]
        angles = self.angles(peaks)
        for k, (joint, axis) in enumerate(zip(self.system.mechanism.oriented_joints, self.tilted, strict=True)):
            if axis is not None:
                squared_sine = peaks.high[:, places[f"{joint.name}.sin2_{'xyz'[axis]}"]]
                angles[:, k] = 2.0 * np.arcsin(np.sqrt(np.minimum(squared_sine, 1.0)))
            found[:, self.turning[k]] = angles[:, k, None]
        return np.asarray(found / self.units)

    def angles(self, peaks: Peaks) -> Array:
        """Largest angles (n, m), rad, by which m spherical and free joints depart from the equilibrium in n motions.

        The angles of a motion that diverged are nan.

        peaks  as for `distances`
        """
        joints = self.system.mechanism.oriented_joints
        cosines = [peaks.rows.index(joint.orientation_names[0]) for joint in joints]
        sines = [peaks.rows.index(f"{joint.name}.sin2") for joint in joints]
        return largest_angles(peaks.low[:, cosines], peaks.high[:, cosines], peaks.high[:, sines])


@dataclass(frozen=True)
class Measures:
    """Stability measure IS1_T of the motions from n starts.

    is1        (n,) IS1_T: largest distance from the equilibrium within the time T, divided by the distance at the
               start, at least 1; 1 for a start at the equilibrium; nan for a motion that diverged
    distances  (n, number of components) largest deviation of each component of the norm from the equilibrium, in the
               units of the norm
    peaks      smallest and largest value of every state during each motion
    [Schiehlen1993, eq. 46]
    """

    is1: Array
    distances: Array
    norm: StateNorm
    seconds: float
    peaks: Peaks

    def __str__(self) -> str:
        lost = int(np.isnan(self.is1).sum())
        largest = "" if lost == len(self.is1) else f", at most {np.nanmax(self.is1):.6g}"
        diverged = f"; {lost} diverged" if lost else ""
        return f"IS1_T of {len(self.is1)} motions of {self.seconds:g} s{largest}{diverged}; {self.norm}"


def measure(
    system: System,
    starts: Any,
    *,
    seconds: float,
    about: Any = None,
    rows: Sequence[str] | None = None,
    time_unit_s: float | None = None,
    length_unit_m: float | None = None,
    step_s: float | None = None,
    u: Any = None,
    modes: Mapping[str, str] | None = None,
    lanes: int = 8,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Measures:
    """Stability measure IS1_T of the motions from n starts.

    IS1_T is the largest distance of a motion from an equilibrium within the time T, divided by its distance at the
    start.

    starts    (n, len(rows)) offsets from the equilibrium, in the units of `StateNorm`
    seconds   the time T, s
    about     equilibrium (n_q,), by default the equilibrium nearest to the mechanism's start
    rows      names of the components of the state in `starts` and in the norm, by default all
    step_s    step size of RK4, s; it is reduced so that `seconds` is a whole number of time steps
    u         actuator efforts (n_u,), by default those at the start, or positions of actuators that `modes` names
    modes     {actuator: "position"} of the actuators whose servo holds a position
    lanes     number of motions per SIMD vector
    threads   number of threads, by default one per processor
    progress  function that is called with the number of finished motions and the number of all motions

    `StateNorm.of` describes time_unit_s and length_unit_m. These units change the result, whose `str` names them.
    """
    held = HeldInputs.of(system, u, modes)
    norm = StateNorm.of(system, about, rows, time_unit_s, length_unit_m, step_s, held.efforts)
    return _measured(norm, starts, seconds, held, lanes, threads, progress)


def _measured(
    norm: StateNorm,
    starts: Any,
    seconds: float,
    held: HeldInputs,
    lanes: int,
    threads: int | None,
    progress: Progress | None,
) -> Measures:
    if not 0.0 < seconds < math.inf:
        raise InvalidRequest(f"seconds is {seconds}; it must be a positive number")
    q, v = norm.states(starts)
    steps = math.ceil(seconds / norm.step_s - 1e-9)
    batch = norm.system.batch(lanes)
    peaks = batch.peaks(
        q,
        v,
        np.tile(held.u, (len(q), 1)),
        step_s=seconds / steps,
        steps=steps,
        modes=held.modes,
        threads=threads,
        progress=progress,
        stabilizer="sampled_fuzzy",
        attitudes=norm.attitudes.quaternions if norm.turning else None,
    )
    distances = norm.distances(peaks)
    begun = np.abs(np.atleast_2d(np.asarray(starts, dtype=float))).max(axis=1)
    if any(len(each) for each in norm.turning):
        begun = norm.sizes(q, v)
    with np.errstate(invalid="ignore", divide="ignore"):
        is1 = np.where(begun > 0.0, distances.max(axis=1) / begun, 1.0)
    return Measures(is1, distances, norm, seconds, peaks)


@dataclass(frozen=True)
class Worst:
    """Result of a search for the initial state from which the motion goes furthest away from an equilibrium.

    All initial states of the search have the same distance from the equilibrium. The stability measure IS1_T of a
    motion is its largest distance from the equilibrium within the time T, divided by the initial distance. IS2_T is the
    largest IS1_T of all motions with this initial distance.

    value      largest IS1_T that the search found, a lower bound of IS2_T; inf if a motion diverged
    start      initial state of the motion with the largest IS1_T: offset of each row of `norm` from the equilibrium,
               in the units of that row
    distances  largest deviation of each row of `norm` from the equilibrium in this motion, in the units of that row
    runs       number of motions computed
    """

    value: float
    start: Array
    distances: Array
    runs: int
    norm: StateNorm
    seconds: float

    def __str__(self) -> str:
        start = ", ".join(f"{name} {x:.6g}" for name, x in zip(self.norm.rows, self.start, strict=True))
        motions = f"({self.runs} motions of {self.seconds:g} s)"
        return f"IS2_T is at least {self.value:.6g}, from {start} {motions}; {self.norm}"


def worst(
    system: System,
    radius: float,
    *,
    seconds: float,
    about: Any = None,
    rows: Sequence[str] | None = None,
    time_unit_s: float | None = None,
    length_unit_m: float | None = None,
    step_s: float | None = None,
    u: Any = None,
    modes: Mapping[str, str] | None = None,
    runs: int = 7000,
    seed: int = 0,
    lanes: int = 8,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Worst:
    """Search for the motion with the largest stability measure IS1_T, among all that start at the distance `radius`
    from an equilibrium.

    IS1_T is the largest distance of a motion from the equilibrium within the time T = `seconds`, divided by `radius`.
    The largest value found is a lower bound of the stability measure IS2_T, the largest IS1_T of all these motions. The
    starts at the distance `radius` form the surface of a cube; rotation vectors on it are shortened to the length of
    their largest component. About half of the motions start on a grid over the surface, corners included, the others
    near the worst starts found so far. [Schiehlen1993, eq. 47]

    radius  distance of the starts from the equilibrium, in the units of `StateNorm`
    runs    largest number of motions to compute
    seed    seed of the random starts; equal seeds give equal results

    The function `measure` describes the other parameters.
    """
    if not 0.0 < radius < math.inf:
        raise InvalidRequest(f"radius is {radius}; it must be a positive number")
    held = HeldInputs.of(system, u, modes)
    norm = StateNorm.of(system, about, rows, time_unit_s, length_unit_m, step_s, held.efforts)
    if norm.turning and radius > math.pi and any(len(each) for each in norm.turning):
        raise InvalidRequest(f"radius is {radius}; the attitude of a joint is at most pi away from another one")
    grid = _surface(len(norm.rows), runs // 2)
    if len(grid) > runs:
        raise InvalidRequest(
            f"runs is {runs}; it must be at least {len(grid)}, because one motion starts at each corner of a cube in "
            f"{len(norm.rows)} dimensions"
        )
    random = np.random.default_rng(seed)
    points, values, distances = np.empty((0, len(norm.rows))), np.empty(0), np.empty((0, len(norm.rows)))
    reach, batch = 2.0 / max(_per_edge(len(norm.rows), runs // 2) - 1, 1), grid
    while len(batch):
        found = _measured(norm, radius * norm.rounded(batch), seconds, held, lanes, threads, None)
        points = np.concatenate([points, batch])
        values = np.concatenate([values, np.where(np.isnan(found.is1), np.inf, found.is1)])
        distances = np.concatenate([distances, found.distances])
        if progress is not None:
            progress(len(points), runs)
        size = min(max(16 * REFINED, (runs - len(grid)) // 12), runs - len(points))
        batch = _around(points[_best(points, values, reach)], reach, size, random)
        reach *= SHRINK
    top = int(np.argmax(values))
    return Worst(
        float(values[top]), radius * norm.rounded(points[[top]])[0], distances[top], len(points), norm, seconds
    )


def _per_edge(n: int, most: int) -> int:
    """Largest number of grid points per edge of a cube with which the surface of the cube has at most `most` grid
    points.

    The result is at least 2.

    n  number of dimensions of the cube
    """
    edge = 2
    while edge < 4096 and (edge + 1) ** n - max(edge - 1, 0) ** n <= most:
        edge += 1
    return edge


def _surface(n: int, most: int) -> Array:
    """Points (k, n) of a regular grid on the surface of the cube [-1, 1]^n."""
    edge = _per_edge(n, most)
    ends, line = (0, edge - 1), range(edge)
    found = []
    for face in range(n):  # a point belongs to the first of its coordinates that is at an end
        inner = range(1, edge - 1)
        found += list(itertools.product(*[inner] * face, ends, *[line] * (n - face - 1)))
    return -1.0 + 2.0 * np.array(found, dtype=float) / (edge - 1)


def _best(points: Array, values: Array, apart: float) -> list[int]:
    """Indices of at most REFINED points with large values, in descending order of value.

    A point is left out if it is within `apart` / 2 of a point with a larger value.
    """
    chosen: list[int] = []
    for index in np.argsort(-values, kind="stable")[:400]:
        if all(np.abs(points[index] - points[other]).max() > 0.5 * apart for other in chosen):
            chosen.append(int(index))
        if len(chosen) == REFINED:
            break
    return chosen


def _around(centers: Array, reach: float, size: int, random: np.random.Generator) -> Array:
    """Random points (size, n) on the surface of the cube [-1, 1]^n, each within `reach` of one of the points `centers`.

    The first entries of `centers` get more points than the last ones.
    """
    share = np.minimum((random.random(size) ** 2 * len(centers)).astype(int), len(centers) - 1)
    center = centers[share]
    moved = np.clip(center + reach * random.uniform(-1.0, 1.0, center.shape), -1.0, 1.0)
    keep = random.random(center.shape) < 0.3  # single coordinates stay, so that edges and corners are searched too
    moved[keep] = center[keep]
    face = np.abs(center).argmax(axis=1)
    at = np.arange(len(moved))
    moved[at, face] = np.sign(center[at, face])
    return np.asarray(moved)
