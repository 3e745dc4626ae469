"""Stability margins of a measured loop gain, and the frequencies that they need beside the given ones.

Between two measured frequencies the loop gain is L = K G with the response G of a model, and with K interpolated. The
model supplies the resonances between the frequencies; without a model G is 1.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray
NARROW = 1.002  # ratio of the two frequencies between which a crossing is interpolated
CLOSE = 1.03  # ratio of two frequencies between which no further one is measured without a crossing
GAIN_CHANGE = 2.0  # largest factor between neighbours by which |K| changes
PHASE_CHANGE = math.radians(60.0)  # largest change of the phase of K between neighbours
DENSITY = 1.001  # ratio of the frequencies at which the interpolated loop gain is searched for crossings
REACH = 3.0  # |L| or 1 / |L| that separates two crossings of 1
FARTHEST = 100.0  # |L| or 1 / |L| up to which a crossing of the negative real axis is searched
SMALL = 0.05  # |L| at two neighbours below which no crossing of 1 is searched by the change of K


class Margins(NamedTuple):
    """Stability margins of a closed loop, over all crossings in the measured range; None without such a crossing.

    gain         factor by which the loop gain may grow: the smallest 1 / |L| above 1 where L is real and negative
    gain_hz      frequency of this crossing, Hz
    lower_gain   factor to which the loop gain may fall: the largest such 1 / |L| below 1
    lower_gain_hz  frequency of this crossing, Hz
    phase_deg    smallest change of the phase of L that makes it -180 degrees where |L| = 1
    phase_hz     frequency of this crossing, Hz
    delay_s      smallest additional delay that makes the phase of L -180 degrees where |L| = 1, s
    delay_hz     frequency of this crossing, Hz
    """

    gain: float | None = None
    gain_hz: float | None = None
    lower_gain: float | None = None
    lower_gain_hz: float | None = None
    phase_deg: float | None = None
    phase_hz: float | None = None
    delay_s: float | None = None
    delay_hz: float | None = None


Measured = dict[float, complex]  # {frequency: loop gain}
Measure = Callable[[float], float | None]  # measures near a frequency; the frequency, or None if it is unresolved
Crosses = Callable[[Any, Any], Any]


def margins_of(measured: Measured) -> Margins:
    """Margins at the crossings between neighbouring frequencies."""
    gains, phases = [], []
    for low, high in _crossings(measured, _crosses_real_axis):
        a, b = measured[low], measured[high]
        share = a.imag / (a.imag - b.imag)
        gains.append((1.0 / abs(a.real + share * (b.real - a.real)), low * (high / low) ** share))
    for low, high in _crossings(measured, _crosses_one):
        a, b = np.log(measured[low]), np.log(measured[high])
        share = a.real / (a.real - b.real)
        turn = (b.imag - a.imag + math.pi) % (2.0 * math.pi) - math.pi
        phases.append((float(np.angle(-np.exp(1j * (a.imag + share * turn)))), low * (high / low) ** share))
    upper = min((each for each in gains if each[0] > 1.0), default=(None, None))
    lower = max((each for each in gains if each[0] < 1.0), default=(None, None))
    phase = min(((abs(math.degrees(angle)), f) for angle, f in phases), default=(None, None))
    delay = min((((angle % (2.0 * math.pi)) / (2.0 * math.pi * f), f) for angle, f in phases), default=(None, None))
    return Margins(*(None if x is None else float(x) for x in (*upper, *lower, *phase, *delay)))


def resolve_crossings(measured: Measured, measure: Measure, model: Callable[[Array], Array] | None) -> list[str]:
    """Measure further frequencies, until all crossings are resolved; one line for each part of the range that is not.

    measured  loop gains, to which `measure` adds
    model     function of frequencies (n,) that returns responses (n,) with the resonances of the loop gain
    """
    lowest, highest = min(measured), max(measured)
    grid = np.geomspace(lowest, highest, 2 + math.ceil(math.log(highest / lowest) / math.log(DENSITY)))
    G = np.ones(len(grid)) if model is None else model(grid)
    if model is None or not (np.isfinite(G) & (G != 0.0)).all():
        model, G = np.ones_like, np.ones(len(grid))
    unresolved: set[tuple[float, float]] = set()
    while wanted := [each for each in _wanted(measured, model, grid, G) if each[:2] not in unresolved]:
        for low, high, middle in wanted:
            at = measure(middle)
            if at is None or not low < at < high:
                unresolved.add((low, high))
    for crosses in (_crosses_one, _crosses_real_axis):
        for low, high in list(_crossings(measured, crosses)):
            if not _refine(measured, measure, crosses, low, high):
                unresolved.add((low, high))
    notes = [f"between {low:.4g} and {high:.4g} Hz" for low, high in sorted(unresolved | {*_steep(measured, model)})]
    notes = [f"{place} the loop gain is not resolved; margins there may be missing or inexact" for place in notes]
    if abs(measured[highest]) > 1.0:
        notes.append(f"|L| is above 1 at {highest:.4g} Hz; margins above this frequency are missing")
    return notes


def _wanted(
    measured: Measured, model: Callable[[Array], Array], grid: Array, G: Array
) -> list[tuple[float, float, float]]:
    """(low, high, frequency to measure) of neighbours between which L has several crossings or K changes much."""
    steep = [(low, high, math.sqrt(low * high)) for low, high in _steep(measured, model) if high / low > CLOSE]
    if steep:
        return steep
    at, K = _quotients(measured, model)
    logarithm = np.log(np.abs(K)) + 1j * np.unwrap(np.angle(K))
    L = np.exp(np.interp(np.log(grid), np.log(at), logarithm)) * G
    far = np.minimum(np.abs(np.log(np.abs(L))), math.log(REACH)), np.abs(np.sin(np.angle(L)))
    found = []
    for crosses, distance in zip((_crosses_one, _crosses_real_axis), far, strict=True):
        places = np.flatnonzero(crosses(L[:-1], L[1:]) & (np.abs(np.log(np.abs(L[:-1]))) < math.log(FARTHEST)))
        for a, b in itertools.pairwise(places):
            middle = a + 1 + int(np.argmax(distance[a + 1 : b + 1]))
            k = int(np.searchsorted(at, grid[middle]))
            if at[k - 1] <= grid[a] and grid[b + 1] <= at[k] and at[k] / at[k - 1] > NARROW:
                found.append((float(at[k - 1]), float(at[k]), float(grid[middle])))
    return found


def _steep(measured: Measured, model: Callable[[Array], Array]) -> Iterator[tuple[float, float]]:
    """Yield neighbours between which K changes much, unless L is small at both."""
    at, K = _quotients(measured, model)
    L = np.array([abs(measured[f]) for f in at.tolist()])
    change = (
        np.abs(np.log(K[1:] / K[:-1]).real) > math.log(GAIN_CHANGE),
        np.abs(np.angle(K[1:] / K[:-1])) > PHASE_CHANGE,
    )
    for k in np.flatnonzero(
        (change[0] | change[1]) & (np.maximum(L[1:], L[:-1]) > SMALL) & (at[1:] / at[:-1] > NARROW)
    ):
        yield float(at[k]), float(at[k + 1])


def _quotients(measured: Measured, model: Callable[[Array], Array]) -> tuple[Array, Array]:
    """(frequencies (n,), K = L / G (n,))."""
    at = np.array(sorted(measured))
    L = np.array([measured[f] for f in at.tolist()])
    return at, np.where(L == 0.0, np.finfo(float).tiny, L) / model(at)


def _crosses_one(a: Any, b: Any) -> Any:
    """Whether |L| crosses 1 between two neighbouring frequencies."""
    return (np.abs(a) > 1.0) != (np.abs(b) > 1.0)


def _crosses_real_axis(a: Any, b: Any) -> Any:
    """Whether L crosses the negative real axis between two neighbouring frequencies, on the shorter way."""
    return ((np.imag(a) > 0.0) != (np.imag(b) > 0.0)) & (np.abs(np.angle(-a) - np.angle(-b)) < math.pi)


def _crossings(measured: Measured, crosses: Crosses) -> Iterator[tuple[float, float]]:
    """Yield neighbouring frequencies between which the loop gain has a crossing."""
    for low, high in itertools.pairwise(sorted(measured)):
        if crosses(measured[low], measured[high]):
            yield low, high


def _refine(measured: Measured, measure: Measure, crosses: Crosses, low: float, high: float) -> bool:
    """Whether the interval of a crossing became NARROW by measurements that halve it."""
    while high / low > NARROW:
        middle = measure(math.sqrt(low * high))
        if middle is None or not low < middle < high:
            return False
        low, high = (low, middle) if crosses(measured[low], measured[middle]) else (middle, high)
    return True
