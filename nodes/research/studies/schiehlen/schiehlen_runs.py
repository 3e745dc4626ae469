"""Computations of the study of stability measures: curves, maps and boundaries of both pendulums.

The stability measure IS1 of a motion is its largest distance from the equilibrium, divided by the distance of its
initial state from the equilibrium. IS2 is the largest IS1 of all motions whose initial states have the same distance r
from the equilibrium. T is the duration of the motions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from nodes.research.studies.framework.study import Part
from robots.registry import build
from sim_core.analysis.stability import measure, worst
from sim_core.system import System, assemble

Array = np.ndarray
T = 100.0  # duration of the paper's motions, without unit as all its equations
CRITICAL = 1.47817026643  # r*: root of r^2 = 2 (1 + cos r)
EXAMPLE = (0.5, -0.5, 0.5, 0.5)  # start of figures 5 and 6
RATE = 0.5  # rates of both arms in figure 9
STEP = 0.05  # time step for maps and for the search of figure 7; 0.025 gives maps the same tumbling fraction
FINE = 0.01
APART = 1e-6  # distance of the two starts of figure 8, rad
DARK, LIGHT = (2.0, 2.0, RATE, RATE), EXAMPLE  # a start in a dark region of figure 9, and one in the middle


@dataclass(frozen=True)
class Spans:
    """Extent of a study.

    single_cells, double_cells  number of initial states per axis in the map of IS1, for each of the two pendulums
    radii                       number of points of each curve of IS2 over the initial distance r from the equilibrium
    runs                        number of motions in each search for the initial state with the largest IS1
    boundary                    number of motions in each of two searches, one just below and one just above the initial
                                distance `least_radius`, from which on tumbling is possible
    checked                     number of initial states whose motions a second integrator computes again
    """

    single_cells: int
    double_cells: int
    radii: int
    runs: int
    boundary: int
    checked: int


SPANS = {
    "full": Spans(300, 600, 30, 7000, 13_000, 3000),
    "quick": Spans(100, 160, 10, 1500, 13_000, 300),
    "tiny": Spans(12, 16, 3, 60, 100, 4),
}


@dataclass(frozen=True)
class Runs:
    """Computations of the study.

    spans  numbers of motions and of grid points in the computations
    """

    spans: Spans

    @property
    def parts(self) -> tuple[Part, ...]:
        """All computations of the study. The computations of the maps use all processors."""
        spans = self.spans
        made: dict[str, Callable[[], Any]] = {
            "single curve": partial(single_curve, spans),
            "single map": partial(single_map, spans),
            "portrait": portrait,
            "example": example,
            "double curve": partial(double_curve, spans),
            "boundary": partial(boundary, spans),
            "sensitivity": sensitivity,
            "map": partial(double_map, spans),
            "check": partial(check, spans),
        }
        return tuple(Part(name, make, alone=False) for name, make in made.items())


def single() -> System:
    """Model of the single pendulum. [Schiehlen1993, eq. 51]"""
    return assemble(build("single_pendulum"))


def double() -> System:
    """Model of the double pendulum. [Schiehlen1993, eq. 57]"""
    return assemble(build("double_pendulum"))


def is2_of_single(r: float) -> float:
    """Stability measure IS2 of the single pendulum at the initial distance r; inf for r above CRITICAL.

    IS1 is a motion's largest distance from the equilibrium, divided by its initial distance; IS2 is the largest IS1 of
    all motions that start at the distance r. [Schiehlen1993, eqs. 54, 55]
    """
    return math.acos(math.cos(r) - r**2 / 2) / r if r <= CRITICAL else math.inf


def is1_of_single(starts: Array) -> Array:
    """Stability measure IS1 (n,) of the single pendulum for each initial state (n, 2).

    IS1 is the largest distance of a motion from the equilibrium, divided by its initial distance. It is inf for initial
    states from which the pendulum tumbles. [Schiehlen1993, eqs. 52, 53]
    """
    angle, rate = starts.T
    bounded = rate**2 <= 2 * (1 + np.cos(angle))
    turn = np.arccos(np.clip(np.cos(angle) - rate**2 / 2, -1.0, 1.0))
    far = np.maximum(np.sqrt(rate**2 + 2 * (1 - np.cos(angle))), turn)
    return np.asarray(np.where(bounded, far / np.abs(starts).max(axis=1), np.inf))


def boundary_energy(r: float) -> float:
    """Largest energy of a double pendulum at distance r from the equilibrium, minus the energy needed to tumble (J).

    Tumbling needs at least the energy of the state at rest in which the upper arm hangs and the lower arm is upright.
    With masses of 1 kg, lengths of 1 m and gravity of 1 m/s^2, the result is 2.5 r^2 - 3 cos(r) + 1. If the result is
    negative, no motion that starts at the distance r can tumble.
    """
    return 2.5 * r**2 - 3 * math.cos(r) + 1


def least_radius() -> float:
    """Root of `boundary_energy`: the distance from the equilibrium below which no double pendulum can tumble."""
    low, high = 0.5, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if boundary_energy(middle) < 0 else (low, middle)
    return low


def tumbles(distances: Array) -> Array:
    """Whether each of n motions tumbles, shape (n,). A motion tumbles if the absolute value of an angle exceeds pi.

    distances  (n, 2 k) for a pendulum with k angles: the first k columns have the largest absolute value of each angle,
               the other k columns the largest absolute value of each angular rate
    """
    return np.asarray((distances[:, : distances.shape[1] // 2] > math.pi).any(axis=1))


def single_curve(spans: Spans) -> dict[str, Any]:
    """Stability measure IS2 of the single pendulum over the initial distance r from the equilibrium.

    IS1 is a motion's largest distance from the equilibrium, divided by its initial distance; IS2 is the largest IS1 of
    all motions that start at the distance r. The result also has the distance r above which a motion tumbles, found by
    bisection.
    """
    system, radii = single(), np.linspace(0.05, 1.6, spans.radii)

    def found(r: float) -> tuple[float, bool]:
        top = worst(system, r, seconds=T, time_unit_s=1.0, step_s=2 * FINE, runs=max(40, spans.runs // 10))
        return top.value, bool(top.distances[0] > math.pi)

    low, high = 1.4, 1.6
    while high - low > 5e-5:
        middle = (low + high) / 2
        low, high = (low, middle) if found(middle)[1] else (middle, high)
    values = [found(float(r)) for r in radii]
    return {
        "r": radii.tolist(),
        "is2": [value for value, _ in values],
        "tumbles": [over for _, over in values],
        "critical": (low + high) / 2,
    }


def cells(reach: float, count: int) -> Array:
    """Centres of `count` equal cells between -reach and reach."""
    return np.asarray(-reach + 2 * reach * (np.arange(count) + 0.5) / count)


def single_map(spans: Spans) -> dict[str, Any]:
    """Map of the stability measure IS1 of the single pendulum over initial angle and rate, both in -2 .. 2.

    IS1 is the largest distance of a motion from the equilibrium, divided by its initial distance. All initial states in
    one row of the map have the same rate. The result also has the largest difference between the map and the closed
    form [Schiehlen1993, eq. 52].
    """
    axis = cells(2.0, spans.single_cells)
    starts = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    found = measure(single(), starts, seconds=T, time_unit_s=1.0, step_s=2 * FINE)
    theory, over = is1_of_single(starts), found.distances[:, 0] > math.pi
    clear = np.abs(starts[:, 1] ** 2 - 2 * (1 + np.cos(starts[:, 0]))) > 1e-3  # beside the separatrix T is too short
    bounded = clear & np.isfinite(theory)
    return {
        "axis": axis,
        "is1": found.is1.reshape(len(axis), -1),
        "tumbles": over.reshape(len(axis), -1),
        "difference": float(np.abs(found.is1[bounded] - theory[bounded]).max()),
        "missed": int((over[clear] != np.isinf(theory[clear])).sum()),
        "compared": int(clear.sum()),
    }


def portrait() -> dict[str, Any]:
    """Motions of the single pendulum in the phase plane: angle and rate, (motions, samples) each."""
    starts = [(0.0, rate) for rate in (0.5, 1.0, 1.5, 1.9)] + [
        (-side * (math.pi + 0.5), side * r) for side in (1, -1) for r in (0.9, 1.6)
    ]
    q0, v0 = np.array(starts).T[:, :, None]
    rolled = single().batch(8).rollout(q0, v0, step_s=0.02, steps=600)
    return {"angle": rolled.q[:, :, 0], "rate": rolled.v[:, :, 0]}


def example() -> dict[str, Any]:
    """Motion of the paper's figure 5, and its stability measure IS1 against the duration T (figure 6).

    IS1 is the largest distance of the motion from the equilibrium within T, divided by its initial distance. The result
    also has the values of IS1 that a second integrator gives for some durations.
    """
    system, steps = double(), round(T / FINE)
    q0, v0 = np.array([EXAMPLE[:2]]), np.array([EXAMPLE[2:]])
    rolled = system.batch(8).rollout(q0, v0, step_s=FINE, steps=steps)
    states = np.abs(np.hstack([rolled.q[0], rolled.v[0]])).max(axis=1)
    marks = (1.0, 5.0, 20.0, 50.0, 100.0)
    ours = [float(measure(system, [EXAMPLE], seconds=mark, time_unit_s=1.0).is1[0]) for mark in marks]
    return {
        "t": rolled.times,
        "rate": rolled.v[0, :, 1],
        "is1": np.maximum.accumulate(states) / 0.5,
        "marks": marks,
        "ours": ours,
        "other": [float(other_peaks(np.array([EXAMPLE]), mark, 0.002)[0].max() / 0.5) for mark in marks],
    }


def double_curve(spans: Spans) -> dict[str, Any]:
    """Stability measure IS2 of the double pendulum over the initial distance r from the equilibrium.

    IS1 is a motion's largest distance from the equilibrium, divided by its initial distance; IS2 is the largest IS1 of
    all motions that start at the distance r. The result also says for each r whether the motion with the largest IS1
    tumbles.
    """
    system, radii = double(), np.linspace(0.04, 0.8, spans.radii)
    found = [worst(system, float(r), seconds=T, time_unit_s=1.0, step_s=STEP, runs=spans.runs) for r in radii]
    return {
        "r": radii.tolist(),
        "is2": [top.value for top in found],
        "tumbles": [bool(tumbles(top.distances[None])[0]) for top in found],
    }


def boundary(spans: Spans) -> dict[str, Any]:
    """The motion of the double pendulum that goes furthest from the equilibrium, for each of two initial distances.

    One initial distance from the equilibrium is just below `least_radius`, the other just above. For each of the two
    motions, the result has the factor by which the distance to a neighbouring motion grows.
    """
    system, result = double(), {}
    for name, r in (("below", 0.7126), ("above", 0.713)):
        top = worst(system, r, seconds=T, time_unit_s=1.0, step_s=STEP, runs=spans.boundary)
        over = bool(tumbles(top.distances[None])[0])
        _, gap = separation(tuple(float(x) for x in top.start))
        result[name] = {"r": r, "is2": top.value, "tumbles": over, "runs": top.runs, "gap": gap.max() / APART}
    return {**result, "seconds": T, "least": least_radius()}


def separation(start: tuple[float, ...]) -> tuple[Array, Array]:
    """(times, distance between two motions of the double pendulum at these times), (n,) each.

    The distance is the largest absolute difference of an angle or a rate. The initial states differ by APART in the
    first angle.

    start  initial state of the first motion
    """
    starts = np.array([start, start])
    starts[1, 0] += APART
    rolled = double().batch(8).rollout(starts[:, :2], starts[:, 2:], step_s=FINE, steps=round(T / FINE))
    states = np.concatenate([rolled.q, rolled.v], axis=2)
    return rolled.times, np.abs(states[1] - states[0]).max(axis=1)


def sensitivity() -> dict[str, Any]:
    """Distance between neighbouring motions over time, for two initial states of figure 9.

    The motion from the first initial state, which is in a dark region of the figure, tumbles. The motion from the
    second, which is in the middle of the figure, does not tumble.
    """
    (t, dark), (_, light) = separation(DARK), separation(LIGHT)
    return {"t": t, "dark": dark, "light": light}


def double_map(spans: Spans) -> dict[str, Any]:
    """Map of the stability measure IS1 of the double pendulum over both initial angles, in -pi .. pi rad.

    IS1 is the largest distance of a motion from the equilibrium, divided by its initial distance. All initial states in
    one row of the map have the same angle of the lower arm. Both initial rates are RATE. The result also says which
    motions tumble.
    """
    from scipy.ndimage import label

    axis = cells(math.pi, spans.double_cells)
    upper, lower = (mesh.ravel() for mesh in np.meshgrid(axis, axis))
    rates = np.full((2, upper.size), RATE)
    found = measure(double(), np.stack([upper, lower, *rates], axis=1), seconds=T, time_unit_s=1.0, step_s=STEP)
    over = tumbles(found.distances).reshape(len(axis), -1)
    regions, _ = label(~over)
    sizes = np.bincount(regions.ravel())[1:]
    outside = np.abs(axis) > 2.0
    return {
        "axis": axis,
        "is1": found.is1.reshape(len(axis), -1),
        "tumbles": over,
        "share": float(over.mean()),
        "middle": float(sizes.max() / max(1, (~over).sum())) if sizes.size else 0.0,
        "sides": float(over[:, outside].mean()),
        "center": float(over[np.ix_(np.abs(axis) < 0.5, np.abs(axis) < 0.5)].mean()),
        "lanes": found.peaks.lanes,
        "cpu": found.peaks.cpu,
    }


def other_peaks(starts: Array, seconds: float, apart: float = 0.02) -> Array:
    """Largest absolute value of each angle and rate, (n, 4), in motions of the double pendulum by scipy's DOP853.

    The equations are a corrected eq. 57 of the paper, independent of this project's kernels.

    apart  interval between samples. The true peak may exceed the largest sample by up to apart**2 / 8 times the second
           derivative.
    """
    from scipy.integrate import solve_ivp

    def rates(_: float, y: Array) -> Array:
        a, b, da, db = y.reshape(4, -1)
        c, s = np.cos(a - b), np.sin(a - b)
        f = -2 * np.sin(a) - s * db**2, -np.sin(b) + s * da**2
        det = 2 - c * c
        return np.concatenate([da, db, (f[0] - c * f[1]) / det, (2 * f[1] - c * f[0]) / det])

    peak = np.abs(starts)
    y, times = starts.T.ravel(), np.arange(round(seconds / apart) + 1) * apart
    each = round(1.0 / apart)
    for begin in range(0, len(times) - 1, each):  # in sections, to keep the memory small
        part = times[begin : begin + each + 1]
        motion = solve_ivp(rates, (part[0], part[-1]), y, "DOP853", part, rtol=1e-9, atol=1e-10).y
        y = motion[:, -1]
        peak = np.maximum(peak, np.abs(motion).max(axis=1).reshape(4, -1).T)
    return np.asarray(peak)


def check(spans: Spans) -> dict[str, Any]:
    """Fraction of the motions that tumble, for random initial states in the square of figure 9.

    The fraction is computed twice, by another integrator and by this project's kernels, to check the kernels.
    """
    angles = np.random.default_rng(9).uniform(-math.pi, math.pi, (spans.checked, 2))
    starts = np.hstack([angles, np.full_like(angles, RATE)])
    other = tumbles(other_peaks(starts, T))
    ours = tumbles(measure(double(), starts, seconds=T, time_unit_s=1.0, step_s=STEP).distances)
    share = float(other.mean())
    error = math.sqrt(max(share * (1 - share), 1e-9) / spans.checked)
    return {"share": share, "error": error, "ours": float(ours.mean()), "cells": spans.checked}
