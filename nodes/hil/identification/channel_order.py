"""Channels whose joints are exchanged, whose sign is wrong, or that are in another unit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from nodes.hil.alignment.streams import Floats, Stream, aligned, at_times
from nodes.hil.identification.channel_errors import FIELDS, UNITS, ChannelError, SingleError, grouped

LAGS_S = tuple(0.02 * k for k in range(-10, 11))  # common delays at which the channels are compared
EARLIER = 0.5  # misfit at a delay, relative to that without, below which the delay is used
MOVES = 1e-3  # least RMS of a quantity that is compared, relative to that of the joint where it is largest
SAME = 0.25  # largest power that an error leaves, relative to the power of the difference and to that of the quantity
UNIT = 2.5  # least factor, either way, between two units
ROUNDED = 0.1  # largest relative difference from a known unit
PROPORTIONAL = 0.9  # least squared correlation of a channel in another unit with its prediction
FEWEST = 16  # samples


def straightened(measured: Stream, predicted: Stream) -> tuple[list[ChannelError], Stream]:
    """Return (errors of order, sign and unit of the channels, the measurement without them).

    Each channel is compared with the same quantity of the model, for all joints and both signs. A common delay of the
    measurement may be up to 0.2 s.
    """
    names = [name for name in predicted.names if name in measured.names]
    pairs = aligned(measured.only(names), predicted.only(names)) if names else None
    if pairs is None or len(pairs[0].time) < FEWEST:
        return [], measured
    shown, model = pairs
    lag, found, corrected = _common_lag(shown, model), list[SingleError](), measured
    columns = [measured.column(name) for name in names]
    for field in FIELDS:
        X, R, values = (getattr(each, field) for each in (shown, model, measured))
        if X is None or R is None:
            continue
        R = at_times(model.time - lag, model.time, R)
        if field == "position":  # an encoder's zero is another error
            X, R = X - X.mean(axis=0), R - R.mean(axis=0)
        sources, factors = _sources(field, X, R)
        found += _errors(field, sources, factors)
        true = values.copy()
        for shown_by, (source, factor) in enumerate(zip(sources, factors, strict=True)):
            true[:, columns[source]] = values[:, columns[shown_by]] / factor
        corrected = replace(corrected, **{field: true})
    return grouped(found, names), corrected if found else measured


def _common_lag(shown: Stream, model: Stream) -> float:
    """Delay (s) at which the positions fit best, in any order and with any signs."""
    X = shown.position - shown.position.mean(axis=0)

    def misfit(lag: float) -> float:
        R = at_times(model.time - lag, model.time, model.position)
        return float(np.minimum(*_costs(X, R - R.mean(axis=0))).min(axis=1).sum())

    misfits = {lag: misfit(lag) for lag in LAGS_S}
    best = min(misfits, key=lambda lag: misfits[lag])
    return best if misfits[best] < EARLIER * misfits[0.0] else 0.0


def _costs(X: Floats, R: Floats) -> tuple[Floats, Floats]:
    """Return (powers (k, k) of X_i - R_j, powers of X_i + R_j), relative to the power of R_j, for all pairs i, j."""
    power = np.maximum((R * R).mean(axis=0), 1e-18)
    both, cross = (X * X).mean(axis=0)[:, None] + power, 2.0 * (X.T @ R) / len(X)
    return np.maximum(both - cross, 0.0) / power, np.maximum(both + cross, 0.0) / power


def _sources(field: str, X: Floats, R: Floats) -> tuple[list[int], list[float]]:
    """Return (joint whose quantity R each channel of X has, factor of each channel: its sign, or that of its unit)."""
    count = X.shape[1]
    sources, factors = list(range(count)), [1.0] * count
    size = np.sqrt((R * R).mean(axis=0))
    moves = size > max(MOVES * float(size.max()), 1e-9)
    plain, negative = _costs(X, R)
    best = np.where(moves, np.minimum(plain, negative), np.inf)
    for i in np.flatnonzero(moves).tolist():
        j = int(np.argmin(best[i]))
        if best[i, j] < SAME * min(plain[i, i], 1.0):
            sources[i], factors[i] = j, 1.0 if plain[i, j] <= negative[i, j] else -1.0
        elif plain[i, i] > SAME:
            factors[i] = _unit(field, X[:, i], R[:, i])
    if sorted(sources) != list(range(count)):  # channels that have one joint's values twice are not exchanged
        for i in range(count):
            if sources[i] != i:
                sources[i], factors[i] = i, 1.0
    return sources, factors


def _unit(field: str, x: Floats, r: Floats) -> float:
    """Factor of a channel x = factor r in another unit; 1 if it is in the same unit, or if it is another quantity."""
    cross, power, own = float(x @ r), float(r @ r), float(x @ x)
    if own <= 0.0 or cross * cross < PROPORTIONAL * power * own:
        return 1.0
    factor = cross / power
    for unit in UNITS[field]:
        if abs(factor / unit - 1.0) < ROUNDED:
            return unit
    return 1.0 if 1.0 / UNIT < abs(factor) < UNIT else factor


def _errors(field: str, sources: Sequence[int], factors: Sequence[float]) -> Iterator[SingleError]:
    for joint, (source, factor) in enumerate(zip(sources, factors, strict=True)):
        if source != joint:
            yield SingleError("swapped", field, joint, of=source)
        if factor == -1.0:
            yield SingleError("sign", field, source)
        elif factor != 1.0:
            yield SingleError("scale", field, joint, factor, abs(factor - 1.0))
