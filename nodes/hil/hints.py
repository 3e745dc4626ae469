"""Which change of the model would explain the efforts that were measured: linear least squares on its sensitivities.

The measured motion goes through the model's inverse dynamics. What is left against the measured efforts is

    r = tau_model(q, v, a) - tau  =  sum over causes of (d r / d cause) * cause

and each cause (a mass, a friction, an actuator's gain, an encoder's zero) is fitted, first alone, then beside those
that were already accepted. Causes are of the real robot against the model: +0.05 is a mass 5 % above the model's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import msgspec
import numpy as np

from nodes.hil.model import Efforts, NoModelError, actuated
from nodes.hil.streams import Floats, Stream, at_times, segments

CUTOFF_HZ = 10.0  # residual and regressors are low-passed alike: differentiated positions are noise above
MOST_SAMPLES = 4000
QUIET = 0.001  # share of the measured efforts: a residual below it needs no explanation
MATTERS = 0.1  # share of the power still unexplained that a cause must explain to be named
APART = 10.0  # twice the logarithm of the likelihood ratio from which the motion tells two causes apart
CERTAIN = 5.0  # standard deviations that a cause must be away from none
ENOUGH = 0.02  # share of the residual's power that may stay unexplained before another cause is looked for
MOST_CAUSES = 3
KINDS = {
    "mass": ("relative", "mass of {of}"),
    "gain": ("relative", "gain of the actuator of {of}"),
    "friction": ("N m s/rad", "viscous friction of {of}"),
    "dry_friction": ("N m", "dry friction of {of}"),
    "encoder_zero": ("rad", "zero of the encoder of {of}"),
}


class Hint(msgspec.Struct, frozen=True, kw_only=True):
    """One cause and how much of it there is.

    kind      "mass", "gain" (relative), "friction" (N m s/rad), "dry_friction" (N m) or "encoder_zero" (rad); per m for
              sliding joints
    of        the body or joint
    value     of the real robot less the model's; `sigma` its standard deviation, 20 independent samples a second
    share     rms of the efforts that it makes up / rms of the measured efforts
    explains  share of the residual's power, this cause alone
    alike     other causes that explain it as well: this motion does not tell them apart
    """

    kind: str
    of: str
    value: float
    sigma: float
    unit: str
    share: float
    explains: float
    alike: list[str] = []


class Hints(msgspec.Struct, frozen=True, kw_only=True):
    """What would explain the effort residual.

    residual   rms of the residual / rms of the measured efforts, in the band below 10 Hz
    explained  share of the residual's power that `causes` explain together
    why_not    one line where no hint can be had, else ""
    """

    causes: list[Hint] = []
    residual: float | None = None
    explained: float | None = None
    why_not: str = ""


@dataclass(frozen=True)
class Motion:
    """A measured motion between its stamps: time (n,), q, v, a, effort (n, k), and where stretches are cut."""

    time: Floats
    q: Floats
    v: Floats
    a: Floats
    effort: Floats
    parts: list[slice]
    rate_hz: float

    @property
    def independent(self) -> float:
        """How many samples of the band below the cutoff are independent."""
        return len(self.q) * min(1.0, 2.0 * CUTOFF_HZ / self.rate_hz)


@dataclass(frozen=True)
class Applied:
    """Which efforts acted between two samples of the measurement.

    hold_s   how long an effort is held, s: the step of who commands, at most the measurement's own period. A state's
             effort was held over the time that led to it.
    finer    a stream of the same run that says the efforts more often, as those of a slow measurement are samples of
             what may have changed between them
    delay_s  by which the measurement is late against it
    """

    hold_s: float = math.inf
    finer: Stream | None = None
    delay_s: float = 0.0

    def between(self, stream: Stream) -> Callable[[Floats], Floats]:
        """A function of (n + 1,) stamps of `stream`: mean efforts (n, k) between them. NoModelError without any."""
        finer = self.finer
        knows = finer is not None and set(stream.names) <= set(finer.names) and finer.period_s < 0.7 * stream.period_s
        if finer is not None and finer.effort is not None and knows:
            time, columns = finer.time, [finer.column(name) for name in stream.names]
            effort = finer.effort[:, columns]
            work = np.concatenate([np.zeros((1, effort.shape[1])), np.cumsum(effort[1:] * np.diff(time)[:, None], 0)])

            def mean(stamps: Floats) -> Floats:
                return np.diff(at_times(stamps - self.delay_s, time, work), axis=0) / np.diff(stamps)[:, None]

            return mean
        measured = stream.effort
        if measured is None:
            raise NoModelError("the measurement says no efforts, which the model's are set beside")
        late = min(self.hold_s, stream.period_s) / 2.0
        return lambda stamps: at_times((stamps[1:] + stamps[:-1]) / 2.0 + late, stream.time, measured)


def motion_of(measured: Stream, names: tuple[str, ...], applied: Applied) -> Motion:
    """The motion between each two samples, in the model's order of joints. NoModelError says what is missing."""
    missing = [name for name in names if name not in measured.names]
    if missing:
        raise NoModelError(f"the measurement lacks joint {missing[0]!r}, which the model needs")
    stream = measured.only(names)
    if stream.velocity is None:
        raise NoModelError("the measurement says no velocities, from which accelerations are taken")
    mean_effort = applied.between(stream)
    time, q, v, a, effort, parts, start = [], [], [], [], [], [], 0
    for part in segments(stream.time):
        steps = np.diff(stream.time[part])[:, None]
        if len(steps) < 32:
            continue
        position, velocity = stream.position[part], stream.velocity[part]
        time.append(stream.time[part][:-1] + steps[:, 0] / 2.0)
        q.append((position[1:] + position[:-1]) / 2.0)
        v.append((velocity[1:] + velocity[:-1]) / 2.0)
        a.append(np.diff(velocity, axis=0) / steps)
        effort.append(mean_effort(stream.time[part]))
        parts.append(slice(start, start + len(steps)))
        start += len(steps)
    if not q:
        raise NoModelError("the measurement has no stretch of 33 samples without a gap")
    joined = [np.concatenate(each) for each in (q, v, a, effort)]
    return Motion(np.concatenate(time), joined[0], joined[1], joined[2], joined[3], parts, 1.0 / stream.period_s)


@dataclass(frozen=True)
class Explanation:
    """The hints, and the curves they stand on: below 10 Hz and thinned, N m or N.

    time      (n,) s
    effort    (n, k) measured; `residual` the model's less that; `left` of it when the causes are taken out
    """

    hints: Hints
    names: tuple[str, ...] = ()
    time: Floats = field(default_factory=lambda: np.zeros(0))
    effort: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    residual: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    left: Floats = field(default_factory=lambda: np.zeros((0, 0)))


def explain(efforts: Efforts, measured: Stream, applied: Applied | None = None) -> Explanation:
    """The causes that explain the effort residual, the strongest first; `hints.why_not` where none can be had."""
    try:
        motion = motion_of(measured, efforts.names, applied or Applied())
    except NoModelError as error:
        return Explanation(Hints(why_not=str(error)))
    band = _Band(motion)
    effort = band(motion.effort)
    residual = band(efforts.along(motion.q, motion.v, motion.a)) - effort
    size = _rms(effort)
    if size == 0.0:
        return Explanation(Hints(why_not="no effort was measured, so there is nothing to explain"))
    share = _rms(residual) / size
    causes: list[Hint] = []
    explained, left = None, residual
    if share >= QUIET:
        columns = {key: band(values).ravel() for key, values in _regressors(efforts, motion)}
        search = _Search(residual.ravel(), columns, motion.independent * residual.shape[1])
        causes, explained = search.causes(size * math.sqrt(residual.size))
        for cause in causes:
            left = left - cause.value * columns[cause.kind, cause.of].reshape(residual.shape)
    found = Hints(causes=causes, residual=share, explained=explained)
    return Explanation(found, efforts.names, band.thinned(motion.time), effort, residual, left)


def _rms(values: Floats) -> float:
    return float(np.sqrt(np.mean(values * values)))


class _Band:
    """Low-passes stretch by stretch, forwards and backwards, and thins what is left."""

    def __init__(self, motion: Motion) -> None:
        from scipy import signal

        self._parts = motion.parts
        share = CUTOFF_HZ / (motion.rate_hz / 2.0)
        self._filter = signal.butter(2, share, output="sos") if share < 0.9 else None
        self._every = max(1, len(motion.q) // MOST_SAMPLES)

    def __call__(self, values: Floats) -> Floats:
        from scipy import signal

        if self._filter is not None:
            parts = [signal.sosfiltfilt(self._filter, values[part], axis=0) for part in self._parts]
            values = np.concatenate(parts)
        return self.thinned(values)

    def thinned(self, values: Floats) -> Floats:
        """The samples that are kept."""
        return values[:: self._every]


Key = tuple[str, str]  # kind, body or joint


def _regressors(efforts: Efforts, motion: Motion) -> Iterator[tuple[Key, Floats]]:
    """d r / d cause of every cause (n, k)."""
    q, v, a = motion.q, motion.v, motion.a
    for body in efforts.bodies:
        yield ("mass", body), -efforts.per_mass(body, q, v, a)
    for joint in actuated(efforts.mechanism, efforts.names):
        yield ("gain", efforts.names[joint]), _alone(motion.effort, joint)
    for joint, name in enumerate(efforts.names):
        yield ("friction", name), -_alone(v, joint)
        scale = max(0.02 * float(np.abs(v[:, joint]).max()), 1e-9)  # rad/s or m/s: below it dry friction fades
        yield ("dry_friction", name), -_alone(np.tanh(v / scale), joint)
        yield ("encoder_zero", name), efforts.per_position(joint, q, v, a)


def _alone(values: Floats, joint: int) -> Floats:
    found = np.zeros_like(values)
    found[:, joint] = values[:, joint]
    return found


class _Search:
    """Forward selection of causes.

    residual     (m,) what is to be explained
    columns      {cause: (m,)}
    independent  how many of the m samples count as independent
    """

    def __init__(self, residual: Floats, columns: dict[Key, Floats], independent: float) -> None:
        self._residual = residual
        self._power = float(residual @ residual)
        self._columns = {key: each for key, each in columns.items() if float(each @ each) > 1e-24 * self._power}
        self._independent = max(independent, 2.0)

    def causes(self, size: float) -> tuple[list[Hint], float]:
        """The causes, and the share of the residual's power they explain together; `size` is the efforts' norm."""
        chosen: list[Key] = []
        alike: dict[Key, list[str]] = {}
        left = 1.0  # share of the power
        while len(chosen) < MOST_CAUSES and left > ENOUGH:
            rest = {key: self._left([*chosen, key]) for key in self._columns if key not in chosen}
            best = min(rest, key=lambda key: rest[key], default=None)
            if best is None or left - rest[best] < max(MATTERS * left, ENOUGH):
                break
            near = [key for key in rest if key != best and not self._tells_apart(rest[key], rest[best])]
            alike[best] = [KINDS[kind][1].format(of=of) for kind, of in near]
            chosen.append(best)
            left = rest[best]
        found = self._fitted(chosen, alike, size) if chosen else []
        return [hint for hint in found if abs(hint.value) > CERTAIN * hint.sigma], 1.0 - left

    def _tells_apart(self, worse: float, best: float) -> bool:
        return self._independent * math.log(max(worse, 1e-300) / max(best, 1e-300)) > APART

    def _left(self, keys: list[Key]) -> float:
        """Share of the power that these causes leave unexplained."""
        A = np.stack([self._columns[key] for key in keys], axis=1)
        A = A / np.sqrt((A * A).sum(axis=0))
        values, *_ = np.linalg.lstsq(A, self._residual, rcond=None)
        left = self._residual - A @ values
        return float(left @ left) / self._power

    def _fitted(self, keys: list[Key], alike: dict[Key, list[str]], size: float) -> list[Hint]:
        A = np.stack([self._columns[key] for key in keys], axis=1)
        values, *_ = np.linalg.lstsq(A, self._residual, rcond=None)
        left = self._residual - A @ values
        spread = float(left @ left) / self._independent
        sigmas = np.sqrt(np.maximum(np.diag(np.linalg.pinv(A.T @ A)) * spread, 0.0))
        return [
            Hint(
                kind=kind,
                of=of,
                value=float(value),
                sigma=float(sigma),
                unit=KINDS[kind][0],
                share=float(abs(value) * np.linalg.norm(self._columns[kind, of]) / size),
                explains=1.0 - self._left([(kind, of)]),
                alike=alike[kind, of],
            )
            for (kind, of), value, sigma in zip(keys, values, sigmas, strict=True)
        ]
