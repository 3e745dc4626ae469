"""Checks of a log's times and of each channel by itself: no model of the robot is used."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from nodes.hil.alignment.noise import white_noise
from nodes.hil.logs.findings import Floats, LogFinding, LogSamples, seconds

GAP_FACTOR, GAP_S = 10.0, 0.05  # a pause that is longer than both is a gap
UNEVEN = 0.5  # spread of the time steps (1 % to 99 %) over their median, from which on it is named
JUMP = 12.0  # in widths of the usual difference between motion and measured velocity
FEW_STEPS = 4.0  # standard deviation of efforts over their resolution, below which they have too few values
FROZEN_S, FROZEN_SHARE = 1.0, 0.02  # a channel is frozen from this time and share of the log on
SATURATED = 0.02  # share of samples at the largest or smallest value
NOISE = 0.5  # white noise over the standard deviation of a channel
LATE, LAST = 0.02, 0.4  # share of the largest effort, in the last part of the log
OUTSIDE = 1.0  # rad beyond the limits: more than any zero error
TURN = 57.29577951308232  # degrees per radian
SMALL = 0.1  # rad; a joint turns further in a motion for a fit, and less than this if 5.7 rad are taken for degrees
LAG_S = 0.02  # time constant of a filter, from which on it is named
OFFSET = 0.05  # of the largest velocity of all joints: an error of a velocity that does not change
FOLLOWS = 0.5  # share of the variance of the derivative that a velocity explains


def time_findings(samples: LogSamples) -> Iterator[LogFinding]:
    """Repeated and uneven times, gaps, and jumps of positions that no time shows."""
    steps = np.diff(samples.time)
    median = float(np.median(steps[steps > 0.0])) if (steps > 0.0).any() else 0.0
    if repeated := int((steps <= 1e-3 * median).sum()):
        text = f"{repeated} samples repeat the time of the sample before; they are left out"
        yield LogFinding(kind="repeated times", joint="", value=repeated, text=text)
    low, high = np.percentile(steps, [1.0, 99.0])
    if high - low > UNEVEN * median:
        text = f"the time steps are uneven: {seconds(low)} to {seconds(high)} (1 % to 99 %), median {seconds(median)}"
        yield LogFinding(kind="uneven times", joint="", value=float((high - low) / median), text=text)
    for index in np.flatnonzero(steps > max(GAP_FACTOR * median, GAP_S)):
        text = f"no samples from {samples.time[index]:.3f} to {samples.time[index + 1]:.3f} s"
        yield LogFinding(kind="gap", joint="", value=float(steps[index]), text=text)
    yield from _jumps(samples.with_rising_times(), median)


def _jumps(samples: LogSamples, median: float) -> Iterator[LogFinding]:
    """Instants at which several joints are suddenly elsewhere: a part of the log was cut out."""
    steps = np.diff(samples.time)
    moved = np.diff(samples.position, axis=0)
    usual = np.abs(moved).max(axis=1) if len(moved) else np.zeros(0)
    if not len(usual):
        return
    # distance from the motion of the neighbouring steps
    around = 0.5 * (np.roll(moved, 2, axis=0) + np.roll(moved, -2, axis=0))
    off = np.abs(moved - around)
    width = np.maximum(np.nanpercentile(off, 99.0, axis=0), 1e-6 + 1e-3 * np.nanstd(samples.position, axis=0))
    jumps = (off > JUMP * width).sum(axis=1) >= 2
    jumps[:3] = jumps[-3:] = False
    is_gap = steps > max(GAP_FACTOR * median, GAP_S)
    found = np.flatnonzero(jumps & ~np.convolve(is_gap, np.ones(7), mode="same").astype(bool))
    for index in found[np.r_[True, np.diff(found) > 5][: len(found)]]:
        at = float(samples.time[index + 1])
        text = f"positions jump at {at:.3f} s although the times do not: a part of the log was cut out"
        yield LogFinding(kind="cut", joint="", value=at, text=text)


def channel_findings(samples: LogSamples) -> Iterator[LogFinding]:
    """Degrees, dead, frozen, saturated and noisy channels, efforts with few values, and no torque at the end."""
    velocities = [finding for k, name in enumerate(samples.names) for finding in _of_velocity(samples, k, name)]
    yield from _of_time_unit(samples, velocities) or velocities
    for k, name in enumerate(samples.names):
        yield from _of_position(samples, k, name)
        if np.isfinite(samples.effort[:, k]).sum() > 10 and np.nanmax(np.abs(samples.effort[:, k])) > 0.0:
            yield from _of_effort(samples, k, name)
    yield from _exchanged(samples)
    yield from _without_torque(samples)
    yield from _of_range(samples)


def _of_position(samples: LogSamples, k: int, name: str) -> Iterator[LogFinding]:
    q = samples.position[:, k]
    beyond = max(float(np.nanmax(q) - samples.upper[k]), float(samples.lower[k] - np.nanmin(q)))
    if beyond > OUTSIDE and not samples.slides[k] and samples.upper[k] > samples.lower[k]:
        text = f"{name}: positions go {beyond:.3g} rad beyond the joint's limits; degrees, or another joint's?"
        yield LogFinding(kind="degrees", joint=name, value=beyond, text=text)
    for start, end in _constant(samples, q):
        text = f"{name}: the position does not change from {start:.2f} to {end:.2f} s while"
        moved = _moved(samples, k, start, end)
        if moved > 5.0 * _resolution(q) and moved > 0.02 * float(np.nanstd(q)):
            size = f"{moved:.3g} {'m' if samples.slides[k] else 'rad'}"
            line = f"{text} the velocity passes {size}: the encoder is dead"
            yield LogFinding(kind="dead position", joint=name, value=end - start, text=line, refuses=True)
    noise = white_noise(q[np.isfinite(q)])
    if noise > NOISE * float(np.nanstd(q)) and noise > 2.0 * _resolution(q):
        text = f"{name}: white noise of the position is {noise / np.nanstd(q):.0%} of its changes"
        yield LogFinding(kind="noisy position", joint=name, value=noise, text=text)


def _of_velocity(samples: LogSamples, k: int, name: str) -> Iterator[LogFinding]:
    """A velocity that is a filter of the true one, of another unit or sign, or no derivative of the position."""
    q, v = samples.position[:, k], samples.velocity[:, k]
    known = np.isfinite(q) & np.isfinite(v)
    if known.sum() < 100 or np.nanstd(v) == 0.0:
        return
    smooth_q, smooth_v, h = _even(samples.time[known], q[known], v[known])
    rate = np.gradient(smooth_q, h)
    if not len(rate) or not rate.std() > 5.0 * _resolution(q):  # a joint that stands still has neither
        return
    columns = np.stack([smooth_v, np.gradient(smooth_v, h)], axis=1)
    (gain, slope), left = _fit(columns, rate)
    if left > FOLLOWS:
        text = f"{name}: the velocity is no derivative of the position, {left:.0%} of whose rate it does not explain"
        yield LogFinding(kind="no derivative", joint=name, value=left, text=text)
        return
    lag = slope / gain
    size = abs(gain)
    if gain < 0.0:
        text = f"{name}: the velocity has the opposite sign of the position's derivative"
        yield LogFinding(kind="sign of velocity", joint=name, value=gain, text=text, refuses=True)
    if not 0.7 < size < 1.4:
        unit = (
            "; the positions are in deg, or the velocities in rad/s taken for deg/s" if 0.5 < size / TURN < 2.0 else ""
        )
        unit = (
            "; the velocities are in deg/s, or the positions in rad taken for deg" if 0.5 < size * TURN < 2.0 else unit
        )
        text = f"{name}: the position's derivative is {size:.3g} times the velocity{unit}"
        yield LogFinding(kind="unit of velocity", joint=name, value=size, text=text, refuses=bool(unit))
    if lag > LAG_S:
        text = f"{name}: the velocity is a filter of the position's derivative with a time constant of {seconds(lag)}"
        yield LogFinding(kind="filtered velocity", joint=name, value=float(lag), text=text)


def _of_time_unit(samples: LogSamples, velocities: list[LogFinding]) -> list[LogFinding]:
    """One finding in place of those of the velocities, if several are wrong by the same power of a thousand."""
    known = [v[np.isfinite(v)] for v in samples.velocity.T]
    wrong, count = (
        [each for each in velocities if each.kind == "unit of velocity"],
        sum(len(v) > 0 and np.ptp(v) > 0.0 for v in known),
    )
    sizes = np.array([each.value for each in wrong])
    if not wrong or len(wrong) < min(count, 2):
        return []
    factor = 1000.0 ** np.round(np.log10(np.median(sizes)) / 3.0)
    if factor == 1.0 or not (np.abs(np.log2(sizes / factor)) < 1.0).all():
        return []
    text = (
        f"{', '.join(each.joint for each in wrong)}: the position's derivative is {factor:g} times the velocity; the "
        "unit of the times is wrong (`[time] unit`: s, ms, us or ns), or that of these velocities"
    )
    found = LogFinding(kind="unit of time", joint="", value=float(factor), text=text, refuses=len(wrong) >= count)
    return [found, *(each for each in velocities if each not in wrong)]


def _of_effort(samples: LogSamples, k: int, name: str) -> Iterator[LogFinding]:
    e = samples.effort[:, k]
    known = e[np.isfinite(e)]
    std, resolution = float(known.std()), _resolution(e)
    if resolution > 0.0 and std < FEW_STEPS * resolution:
        text = f"{name}: the efforts have too few values: their standard deviation is {std / resolution:.2g} steps"
        yield LogFinding(kind="few values", joint=name, value=std / resolution, text=text, refuses=True)
    longest: tuple[float, float] | None = max(_constant(samples, e), key=lambda span: span[1] - span[0], default=None)
    if longest is not None and _moved(samples, k, *longest) > 0.1 * float(np.nanstd(samples.position[:, k])):
        length = longest[1] - longest[0]
        text = f"{name}: the effort is frozen from {longest[0]:.2f} to {longest[1]:.2f} s while the joint moves"
        yield LogFinding(kind="frozen effort", joint=name, value=length, text=text)
    for edge in (known.max(), known.min()):
        share = float((known == edge).mean())
        if share > SATURATED and abs(edge) > 0.5 * np.abs(known).max() and std >= FEW_STEPS * resolution:
            text = f"{name}: {share:.0%} of the efforts are at {edge:.4g}: the channel is saturated or limited"
            yield LogFinding(kind="saturated effort", joint=name, value=share, text=text)
    noise = white_noise(known)
    if std > 0.0 and noise > NOISE * std and noise > resolution:
        text = f"{name}: white noise of the effort is {noise / std:.0%} of its changes"
        yield LogFinding(kind="noisy effort", joint=name, value=noise, text=text)


def _exchanged(samples: LogSamples) -> Iterator[LogFinding]:
    """Two joints the derivative of whose positions is the velocity of the other."""
    known = np.isfinite(samples.position).all(axis=1) & np.isfinite(samples.velocity).all(axis=1)
    if known.sum() < 100 or len(samples.names) < 2:
        return
    q, v, h = _even(samples.time[known], samples.position[known], samples.velocity[known])
    rates = np.gradient(q, h, axis=0)
    left = np.ones((len(samples.names),) * 2)
    for i in range(len(samples.names)):
        for j in range(len(samples.names)):
            if rates[:, i].std() > 0.0 and v[:, j].std() > 0.0:
                left[i, j] = _fit(np.stack([v[:, j], np.gradient(v[:, j], h)], axis=1), rates[:, i])[1]
    for i, j in _pairs(len(samples.names)):
        if left[i, j] + left[j, i] < 0.5 * (left[i, i] + left[j, j]) and max(left[i, j], left[j, i]) < FOLLOWS:
            both = f"{samples.names[i]}, {samples.names[j]}"
            text = f"{both}: the positions, or the velocities, of these joints are exchanged"
            yield LogFinding(kind="exchanged positions or velocities", joint=both, value=1.0, text=text, refuses=True)


def _without_torque(samples: LogSamples) -> Iterator[LogFinding]:
    """No effort in the last part of the log, in any joint, although there was before."""
    size = np.nanmax(np.abs(samples.effort), axis=1, initial=0.0, where=np.isfinite(samples.effort))
    if not size.max() > 0.0:
        return
    strong = np.flatnonzero(size > LATE * size.max())
    first, last = samples.time[0], samples.time[strong[-1]]
    share = float((samples.time[-1] - last) / max(samples.time[-1] - first, 1e-9))
    if share > 0.5 * LAST:
        text = f"there is no torque in the last {share:.0%} of the log, from {last:.2f} s on"
        yield LogFinding(kind="no torque", joint="", value=share, text=text)


def _of_range(samples: LogSamples) -> Iterator[LogFinding]:
    """A motion of turning joints that is as small as if radians had been taken for degrees."""
    known = samples.position[np.isfinite(samples.position).all(axis=1)]
    widest = float(np.ptp(known, axis=0).max()) if len(known) else 0.0
    if not samples.slides.any() and 0.0 < widest < SMALL:
        text = f"no joint turns by more than {widest:.2g} rad; positions in rad taken for deg, or too small a motion?"
        yield LogFinding(kind="small motion", joint="", value=widest, text=text)


def _pairs(count: int) -> Iterator[tuple[int, int]]:
    yield from ((i, j) for i in range(count) for j in range(i + 1, count))


def _span(samples: LogSamples) -> float:
    return float(samples.time[-1] - samples.time[0])


def _resolution(values: Floats) -> float:
    """Smallest step between two neighbouring values of a channel; 0 if it is constant."""
    steps = np.diff(np.unique(values[np.isfinite(values)]))
    steps = steps[steps > 1e-9 * max(float(np.nanmax(np.abs(values))), 1e-300)]
    return float(np.percentile(steps, 10.0)) if len(steps) else 0.0


def _constant(samples: LogSamples, values: Floats) -> list[tuple[float, float]]:
    """(start, end) in s of each time in which a channel has one value, and which is long."""
    edges = np.flatnonzero(np.r_[True, np.diff(values) != 0.0, True])
    least = max(FROZEN_S, FROZEN_SHARE * _span(samples))
    spans = [(float(samples.time[a]), float(samples.time[b - 1])) for a, b in pairwise(edges.tolist())]
    return [span for span in spans if span[1] - span[0] > least]


def _moved(samples: LogSamples, k: int, start: float, end: float) -> float:
    """Range of the joint's motion from `start` to `end` (s) by position, or by the velocity where that is larger.

    Of the velocity, an offset and white noise count as none.
    """
    inside = (samples.time >= start) & (samples.time <= end)
    q, v, t = samples.position[inside, k], samples.velocity[inside, k], samples.time[inside]
    by_position = float(np.ptp(q[np.isfinite(q)])) if np.isfinite(q).any() else 0.0
    if not np.isfinite(v).all() or len(t) < 2:
        return by_position
    most = OFFSET * float(np.nanmax(np.abs(samples.velocity[:, samples.slides == samples.slides[k]])))
    steps = np.diff(t)
    by_noise = 4.0 * white_noise(v) * float(np.sqrt(np.sum(steps**2)))
    way = np.cumsum((v[1:] - np.clip(np.mean(v), -most, most)) * steps)
    return max(by_position, float(np.ptp(way)) - by_noise)


def _even(time: Floats, *values: Floats) -> tuple[Floats, Floats, float]:
    """Two signals on even times, low-passed at a twentieth of the sampling rate, and the time step (s)."""
    from scipy.signal import butter, sosfiltfilt

    h = float(np.median(np.diff(time)))
    grid = np.arange(time[0], time[-1], h)
    sections = butter(2, 0.1, output="sos")
    found = []
    for each in values:
        columns = each if each.ndim == 2 else each[:, None]
        even = np.stack([np.interp(grid, time, column) for column in columns.T], axis=1)
        found.append(sosfiltfilt(sections, even, axis=0).reshape(len(grid), *each.shape[1:]))
    return found[0], found[1], h


def _fit(columns: Floats, target: Floats) -> tuple[list[float], float]:
    """(coefficients, share of the variance of the target that is left) of a least-squares fit."""
    solution = np.linalg.lstsq(columns, target, rcond=None)[0]
    left = target - columns @ solution
    return solution.tolist(), float((left @ left) / max(float(target @ target), 1e-300))
