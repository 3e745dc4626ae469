"""Errors of a channel, fitted to its difference from a reference, and the one that explains the difference."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from nodes.hil.alignment.streams import Floats
from nodes.hil.emulation.imperfections import drag

LEAVES = 0.25  # largest power that an error leaves, relative to the power of the difference that it explains
CLEARLY = 0.5  # largest power that it leaves, relative to the power that the next best error leaves
PLAYS = 24  # sizes of play that are tried at a time
LONGEST_S = 0.5  # largest delay


class Fit(NamedTuple):
    """Values (n,) of a channel with an error of this kind, whose size fits the measured values best."""

    kind: str
    size: float
    values: Floats
    at_s: float = 0.0


def rms(values: Floats) -> float:
    """Root of the mean square."""
    return float(np.sqrt(np.mean(values * values)))


def power_without(noise: float, values: Floats) -> float:
    """Power of the values (n,) less that of their white noise, at least three standard deviations of the latter."""
    return max(
        float(np.mean(values * values)) - noise * noise, 3.0 * noise * noise * math.sqrt(2.0 / len(values)), 1e-24
    )


def clearest(fits: Iterable[Fit], x: Floats, reference: Floats, noise: float) -> Fit | None:
    """The fit that explains the difference of x (n,) from its reference clearly better than every other fit.

    None if there is none.

    noise  standard deviation of the white noise in x
    """
    left = sorted(((power_without(noise, x - fit.values), fit) for fit in fits), key=lambda each: each[0])
    (least, best), (next_best, _) = left[:2]
    explains = least < LEAVES * power_without(noise, x - reference)
    return best if explains and least < CLEARLY * next_best else None


def position_fits(m: Floats, q: Floats, v: Floats, time: Floats) -> Iterator[Fit]:
    """Errors of an encoder, each fitted to its positions.

    m     measured positions (n,)
    q, v  true positions, but for a constant, and true velocities (n,)
    time  (n,) s
    """
    factor, scaled = _line(q, m)
    yield Fit("scale", factor, scaled)
    slope, drift = _line(time - time[0], m - q)
    yield Fit("drift", slope, q + drift)
    delay, late = lag(m - (m - q).mean(), q, v, time)
    yield Fit("late", delay, late + (m - late).mean())
    index, step = _jump(m - q)
    yield Fit("jump", step, q + _line((np.arange(len(m)) >= index).astype(float), m - q)[1], float(time[index]))
    play, shown = _play(m, q)
    yield Fit("play", play, shown)


def _line(x: Floats, y: Floats) -> tuple[float, Floats]:
    """Return (slope, values) of the line through y over x by least squares."""
    centred = x - x.mean()
    power = float(centred @ centred)
    slope = float(centred @ y) / power if power > 0.0 else 0.0
    return slope, y.mean() + slope * centred


def lag(x: Floats, r: Floats, rate: Floats, time: Floats) -> tuple[float, Floats]:
    """Return (delay d (s) with which x (n,) follows r, the values r(t - d)).

    rate  derivative of r with respect to time (n,)
    """
    delay, late = 0.0, r
    for _ in range(4):
        rates = np.interp(time - delay, time, rate)
        power = float(rates @ rates)
        delay = float(
            np.clip(delay - (float((x - late) @ rates) / power if power > 0.0 else 0.0), -LONGEST_S, LONGEST_S)
        )
        late = np.interp(time - delay, time, r)
    return delay, late


def _jump(x: Floats) -> tuple[int, float]:
    """Return (index of the first sample after the jump that fits x (n,) best, its size)."""
    n, sums = len(x), np.cumsum(x)
    before = np.arange(1, n)
    gained = (sums[:-1] - before * sums[-1] / n) ** 2 / (before * (n - before))
    index = int(np.argmax(gained)) + 1
    return index, float(x[index:].mean() - x[:index].mean())


def _play(m: Floats, q: Floats) -> tuple[float, Floats]:
    """Return (play of an encoder that fits its positions m (n,) best, its positions with it).

    q  true positions (n,), but for a constant
    """
    low, high = 0.0, 2.0 * float(np.ptp(m - q))
    play, shown = 0.0, q
    for _ in range(3):
        plays = np.linspace(low, high, PLAYS)
        found = np.empty((len(q), PLAYS))
        found[0] = q[0]
        for k in range(1, len(q)):
            found[k] = drag(found[k - 1], np.full(PLAYS, q[k]), plays)
        found += (m[:, None] - found).mean(axis=0)
        best = int(np.argmin(((m[:, None] - found) ** 2).sum(axis=0)))
        play, shown = float(plays[best]), found[:, best]
        step = float(plays[1]) - float(plays[0])
        low, high = max(play - step, 0.0), play + step
    return play, shown
