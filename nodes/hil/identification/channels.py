"""Errors of single channels of a measurement: a scale, a delay, an offset, a drift, a jump, play before an encoder, and
channels that are dead.

Positions are compared with the integrated velocities, and each channel with the same quantity of the model. An error is
reported only if it explains the difference clearly better than every other error tried. Its effect is removed from the
measurement before the next channel is examined.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from nodes.hil.alignment.noise import white_noise
from nodes.hil.alignment.streams import Floats, Stream, aligned, at_times, segments
from nodes.hil.emulation.imperfections import drag
from nodes.hil.identification.channel_errors import ChannelError, Kind, SingleError, grouped
from nodes.hil.identification.channel_fits import Fit, clearest, lag, position_fits, power_without, rms

FEWEST = 32  # samples without a gap
RESTS = 1e-3  # rad/s or m/s, RMS: rate below which a joint is at rest
FLAT = 0.01  # standard deviation of a dead channel, relative to that of its prediction
LOUD = 3.0  # least size of a difference that is examined, in standard deviations of its noise
LEAST = 2e-3  # least size of such a difference, relative to the quantity
FOLLOWS = 20.0  # doubled log likelihood ratio from which on positions follow the efforts
SMOOTHED = 11  # samples of the moving mean with which positions and efforts are compared


def single_errors(
    measured: Stream,
    predicted: Stream,
    delay_s: float,
    stiffness: Mapping[str, float],
    dead: Collection[str] = (),
    time_sigma_s: float = 0.0,
) -> tuple[list[ChannelError], Stream]:
    """Return (errors of single channels, the measurement without them).

    measured      measurement without errors of order, sign and unit
    delay_s       common delay of the measurement (s)
    stiffness     {joint: stiffness of its servo in N m/rad or N/m}
    dead          joints with a dead encoder, which are left out
    time_sigma_s  standard deviation of the times of the samples (s)
    """
    names = [name for name in predicted.names if name in measured.names and name not in dead]
    found, stream = list[SingleError](), measured
    of_efforts = partial(_of_efforts, [stiffness.get(name, 0.0) for name in names])
    for step in (_dead, _of_positions, _of_encoders, of_efforts):
        pairs = _longest(stream, predicted, names, delay_s)
        if pairs is None:
            break
        scaled = {each.joint for each in found if each.channel == "encoder" and each.kind != "late"}
        for error in step(*pairs, time_sigma_s):
            if error.channel == "effort" and error.joint in scaled:  # the robot itself may move otherwise
                continue
            found.append(error)
            stream = _corrected(stream, error, names[error.joint], predicted, delay_s)
    return grouped(found, names), stream


def _longest(measured: Stream, predicted: Stream, names: Sequence[str], delay_s: float) -> tuple[Stream, Stream] | None:
    """Longest part of the measurement without a gap, and the prediction at its stamps; None if it is short."""
    pairs = aligned(measured.only(names), predicted.only(names), delay_s) if names else None
    if pairs is None:
        return None
    part = max(segments(pairs[0].time), key=lambda each: each.stop - each.start)
    first, last = pairs[0].time[part][[0, -1]].tolist()
    shown, model = (each.within(first - 1e-9, last) for each in pairs)
    return None if shown is None or model is None or len(shown.time) < FEWEST else (shown, model)


def _dead(shown: Stream, model: Stream, _: float) -> Iterator[SingleError]:
    for field in ("velocity", "effort"):
        X, R = getattr(shown, field), getattr(model, field)
        if X is None or R is None:
            continue
        spread = R.std(axis=0)
        is_dead = (X.std(axis=0) < FLAT * spread) & (spread > max(RESTS * float(spread.max()), 1e-9))
        for joint in np.flatnonzero(is_dead).tolist():
            yield SingleError("dead", field, joint)


def _of_positions(shown: Stream, model: Stream, time_sigma_s: float) -> Iterator[SingleError]:
    """Errors of positions or velocities by which they contradict each other."""
    if shown.velocity is None or model.velocity is None:
        return
    time = shown.time
    for joint in range(shown.position.shape[1]):
        m, w = shown.position[:, joint], shown.velocity[:, joint]
        p, v = model.position[:, joint], model.velocity[:, joint]
        if rms(v) < RESTS:
            continue
        q = p + _integral(w - v, time)  # so that errors of the integration are small also for rates that oscillate
        q += (m - q).mean()
        noise_m, noise_w = white_noise(m - p), white_noise(w - v)
        walk = noise_w * math.sqrt(shown.period_s * (time[-1] - time[0]))
        if rms(m - q) < max(LOUD * math.hypot(noise_m, walk, time_sigma_s * rms(v)), LEAST * float(m.std())):
            continue
        fit = clearest(position_fits(m, q, w, time), m, q, noise_m)
        if fit is not None:
            yield _of_position_or_velocity(fit, joint, (m, q, p, noise_m), (w, v, noise_w), time)


def _of_position_or_velocity(
    fit: Fit,
    joint: int,
    position: tuple[Floats, Floats, Floats, float],
    velocity: tuple[Floats, Floats, float],
    time: Floats,
) -> SingleError:
    """The error of the channel whose correction brings it nearer to its prediction.

    position  measured positions, integrated velocities, predicted positions (n,), noise
    velocity  measured and predicted velocities (n,), noise
    """
    (m, q, p, noise_m), (w, v, noise_w) = position, velocity
    size, relative = fit.size, rms(fit.values - q) / max(float(p.std()), 1e-12)
    true = {"scale": size * w, "drift": w + size, "late": np.interp(time - size, time, w)}.get(fit.kind)
    if true is not None:
        before, after = m - p, m - (fit.values - q) - p
        by_position = power_without(noise_m, after - after.mean()) / power_without(noise_m, before - before.mean())
        if power_without(noise_w, true - v) / power_without(noise_w, w - v) < by_position:
            kind: Kind = "offset" if fit.kind == "drift" else _kind(fit)
            value = 1.0 / size if kind == "scale" else -size
            return SingleError(kind, "velocity", joint, value, rms(true - w) / max(rms(v), 1e-12))
    return SingleError(_kind(fit), "position", joint, size, relative, at_s=fit.at_s)


def _of_encoders(shown: Stream, model: Stream, time_sigma_s: float) -> Iterator[SingleError]:
    """Errors of encoders whose velocities agree with their positions: scale, delay, and play before them."""
    for joint in range(shown.position.shape[1]):
        m, p = shown.position[:, joint], model.position[:, joint]
        v = np.gradient(p, shown.time)
        off, noise = m - p - (m - p).mean(), white_noise(m - p)
        if rms(v) < RESTS or rms(off) < max(LOUD * math.hypot(noise, time_sigma_s * rms(v)), LEAST * float(p.std())):
            continue
        fits = [*position_fits(m, p, v, shown.time), *_compliance(shown, model, joint)]
        fit = clearest(fits, m, p + (m - p).mean(), noise)
        if fit is None or fit.kind not in ("scale", "play", "late"):
            continue
        if fit.kind == "late" or not _efforts_follow(shown, model, joint):
            yield SingleError(_kind(fit), "encoder", joint, fit.size, rms(off) / max(float(p.std()), 1e-12))


def _compliance(shown: Stream, model: Stream, joint: int) -> Iterator[Fit]:
    """Positions that differ from the predicted ones as the efforts do, which is so if the robot itself differs."""
    if shown.effort is not None and model.effort is not None:
        m, p = shown.position[:, joint], model.position[:, joint]
        A = np.stack([np.ones(len(p)), _smooth(shown.effort[:, joint] - model.effort[:, joint])], axis=1)
        yield Fit("compliance", 0.0, p + A @ np.linalg.lstsq(A, m - p, rcond=None)[0])


def _of_efforts(stiffness: Sequence[float], shown: Stream, model: Stream, time_sigma_s: float) -> Iterator[SingleError]:
    """Errors of efforts with which the robot nevertheless moves as predicted.

    A joint is left out if its positions are too inexact to show that the robot itself differs.

    stiffness  of the joints' servos (N m/rad or N/m)
    """
    if shown.effort is None or model.effort is None or model.velocity is None:
        return
    time = shown.time
    for joint in range(shown.effort.shape[1]):
        e, f = shown.effort[:, joint], model.effort[:, joint]
        off, noise = e - f, white_noise(e - f)
        if rms(f) == 0.0 or e.std() < FLAT * f.std():
            continue
        if power_without(noise, off) < max(4.0 * power_without(noise, 0.0 * off), (LEAST * rms(f)) ** 2):
            continue
        factor, offset = float(e @ f / (f @ f)), float(off.mean())
        delay, late = lag(e, f, np.gradient(_smooth(f), time), time)
        fits = [Fit("scale", factor, factor * f), Fit("offset", offset, f + offset), Fit("late", delay, late)]
        fit = clearest(fits, e, f, noise)
        apart = shown.position[:, joint] - model.position[:, joint]
        unsure = math.hypot(white_noise(apart), time_sigma_s * rms(model.velocity[:, joint]))
        is_known = LOUD * unsure * stiffness[joint] / math.sqrt(SMOOTHED) < rms(off)
        if fit is not None and is_known and not _follows(apart, off):
            yield SingleError(_kind(fit), "effort", joint, fit.size, rms(fit.values - f) / rms(f))


def _efforts_follow(shown: Stream, model: Stream, joint: int) -> bool:
    """Whether the efforts of a joint differ from the predicted ones as its positions do."""
    if shown.effort is None or model.effort is None:
        return False
    off = shown.effort[:, joint] - model.effort[:, joint]
    return _follows(shown.position[:, joint] - model.position[:, joint], off)


def _follows(position: Floats, effort: Floats) -> bool:
    """Whether differences of positions (n,) follow those of efforts: the robot itself differs, not its channels."""
    x, r = (_smooth(each - each.mean())[::SMOOTHED] for each in (position, effort))
    power = float(x @ x) * float(r @ r)
    share = float(x @ r) ** 2 / power if power > 0.0 else 0.0
    return -len(x) * math.log(max(1.0 - share, 1e-12)) > FOLLOWS


def _kind(fit: Fit) -> Kind:
    return fit.kind  # type: ignore[return-value]


def _smooth(values: Floats) -> Floats:
    padded = np.pad(values, SMOOTHED // 2, mode="edge")
    found: Floats = np.convolve(padded, np.ones(SMOOTHED) / SMOOTHED, "valid")
    return found


def _integral(rate: Floats, time: Floats) -> Floats:
    """Integral (n,) of a rate over time, by trapezoids."""
    return np.concatenate([[0.0], np.cumsum((rate[1:] + rate[:-1]) / 2.0 * np.diff(time))])


def _corrected(stream: Stream, error: SingleError, name: str, predicted: Stream, delay_s: float) -> Stream:
    """The stream without an error of the joint `name`. A dead effort stays."""
    column, time = stream.column(name), stream.time
    fields = ("position", "velocity") if error.channel == "encoder" else (error.channel,)
    found = {field: getattr(stream, field).copy() for field in fields if getattr(stream, field) is not None}
    if error.kind == "play":
        offs = _play_errors(stream, error, name, predicted, delay_s)
        for field in found:
            found[field][:, column] -= offs if field == "position" else np.gradient(offs, time)
        return replace(stream, **found)
    for field, values in found.items():
        x = values[:, column]
        if error.kind == "dead" and field == "velocity":
            x = np.gradient(stream.position[:, column], time)
        elif error.kind == "scale":
            x = x / error.value
        elif error.kind == "late":
            x = np.interp(time + error.value, time, x)
        elif error.kind == "offset":
            x = x - error.value
        elif error.kind == "drift":
            x = x - error.value * (time - time[0])
        elif error.kind == "jump":
            x = x - error.value * (time >= error.at_s)
        values[:, column] = x
    return replace(stream, **found)


def _play_errors(stream: Stream, error: SingleError, name: str, predicted: Stream, delay_s: float) -> Floats:
    """Readings (n,) of an encoder with play less the positions of its joint, by the predicted motion."""
    column = predicted.column(name)
    q = at_times(stream.time - delay_s, predicted.time, predicted.position[:, [column]])[:, 0]
    shown = q.copy()
    for k in range(1, len(q)):
        shown[k] = drag(shown[k - 1], q[k], np.array(error.value))
    return shown - q
