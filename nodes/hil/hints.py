"""Which change of the model would explain the efforts that were measured: linear least squares on its sensitivities.

The measured motion goes through the model's inverse dynamics. What is left against the measured efforts is

    r = tau_model(q, v, a) - tau  =  sum over causes of (d r / d cause) * cause

and each cause (a mass, a friction, an actuator's gain, an encoder's zero) is fitted, first alone, then beside those
that were already accepted. Causes are of the real robot against the model: +0.05 is a mass 5 % above the model's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np

from nodes.hil import play
from nodes.hil.model import Efforts, NoModelError, actuated
from nodes.hil.streams import Floats, Stream, at_times, segments
from sim_core.quantities import value_of

CUTOFF_HZ = 10.0  # residual and motion are low-passed: differentiated positions are noise above
KEPT_HZ = 100.0  # of the low-passed samples
QUIET = 0.001  # share of the measured efforts: a residual below it needs no explanation
MATTERS = 0.02  # share of the power still unexplained that a cause must explain to be named
CLEAR = 30.0  # twice the logarithm of the likelihood ratio from which a cause is better than none
FLOOR = 1e-3  # share of a joint's efforts below which nothing counts as noise
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
    "backlash": ("s", "play in the gear of {of}"),
}


class Hint(msgspec.Struct, frozen=True, kw_only=True):
    """One cause and how much of it there is.

    kind      "mass", "gain" (relative), "friction" (N m s/rad), "dry_friction" (N m), "encoder_zero" (rad); per m for
              sliding joints; or "backlash" (s in which the joint is free after each change of sign of its effort)
    of        the body or joint
    value     of the real robot less the model's; `sigma` its standard deviation, 20 independent samples a second
    share     rms of the efforts that it makes up / rms of the measured efforts, in the joint where that is largest
    explains  share of the residual's power, each joint's against its noise, this cause alone
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

    residual   rms of the residual / rms of the measured efforts below 10 Hz, in the joint where that is largest
    explained  share of the residual's power that `causes` explain together, each joint's against its noise
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
    off = efforts.along(motion.q, motion.v, motion.a) - motion.effort
    residual = band(off)
    sizes = _rms(effort)
    if sizes.max() == 0.0:
        return Explanation(Hints(why_not="no effort was measured, so there is nothing to explain"))
    sizes = np.maximum(sizes, 0.01 * sizes.max())  # a joint without an actuator has no efforts of its own
    share = float((_rms(residual) / sizes).max())
    causes: list[Hint] = []
    explained, left = None, residual
    if share >= QUIET:
        weights = 1.0 / np.hypot(band.noise(off), FLOOR * sizes)
        columns = dict(_regressors(efforts, [band(each) for each in (motion.q, motion.v, motion.a)], effort))
        _drop_noisy_gains(columns, residual, effort)
        columns |= _plays(efforts, motion, band, residual)
        search = _Search(residual, columns, weights, motion.independent * residual.shape[1], _possible(efforts))
        causes, explained = search.causes(sizes)
        for cause in causes:
            left = left - cause.value * columns[cause.kind, cause.of]
    found = Hints(causes=causes, residual=share, explained=explained)
    return Explanation(found, efforts.names, band.thinned(motion.time), effort, residual, left)


def _rms(values: Floats) -> Floats:
    """Of each joint."""
    found: Floats = np.sqrt(np.mean(values * values, axis=0))
    return found


class _Band:
    """Low-passes stretch by stretch, forwards and backwards, and thins what is left."""

    def __init__(self, motion: Motion) -> None:
        from scipy import signal

        self._parts = motion.parts
        share = CUTOFF_HZ / (motion.rate_hz / 2.0)
        self._filter = signal.butter(2, share, output="sos") if share < 0.9 else None
        self._every = max(1, int(motion.rate_hz / KEPT_HZ)) if self._filter is not None else 1

    def __call__(self, values: Floats) -> Floats:
        return self.thinned(self._smooth(values))

    def noise(self, values: Floats) -> Floats:
        """RMS (k,) of what is above the band: what is noise there is noise in the band too."""
        return _rms(values - self._smooth(values))

    def _smooth(self, values: Floats) -> Floats:
        from scipy import signal

        if self._filter is None:
            return values
        return np.concatenate([signal.sosfiltfilt(self._filter, values[part], axis=0) for part in self._parts])

    def thinned(self, values: Floats) -> Floats:
        """The samples that are kept."""
        return values[:: self._every]


Key = tuple[str, str]  # kind, body or joint


def _regressors(efforts: Efforts, motion: Sequence[Floats], effort: Floats) -> Iterator[tuple[Key, Floats]]:
    """d r / d cause of every cause (n, k) along the low-passed motion q, v, a."""
    q, v, a = motion
    for body in efforts.bodies:
        yield ("mass", body), -efforts.per_mass(body, q, v, a)
    for joint in actuated(efforts.mechanism, efforts.names):
        yield ("gain", efforts.names[joint]), _alone(effort, joint)
    for joint, name in enumerate(efforts.names):
        yield ("friction", name), -_alone(v, joint)
        scale = max(0.02 * float(np.abs(v[:, joint]).max()), 1e-9)  # rad/s or m/s: below it dry friction fades
        yield ("dry_friction", name), -_alone(np.tanh(v / scale), joint)
        yield ("encoder_zero", name), efforts.per_position(joint, q, v, a)


def _plays(efforts: Efforts, motion: Motion, band: _Band, residual: Floats) -> dict[Key, Floats]:
    """d r / d time to cross the play, of each joint with an actuator whose residual looks like play."""
    found: dict[Key, Floats] = {}
    short = play.missing(motion.effort, motion.time, motion.parts)
    banded = np.stack([band(each) for each in short])
    for joint in actuated(efforts.mechanism, efforts.names):
        best = play.best_crossing(banded[:, :, joint], residual[:, joint])
        if best is not None:
            found["backlash", efforts.names[joint]] = _alone(banded[best], joint) / play.CROSSINGS_S[best]
    return found


def _possible(efforts: Efforts) -> Callable[[Key, float], bool]:
    """Whether a robot can be so: no mass and no friction of it is negative."""
    damping = {joint.name: float(value_of(joint.damping)) for joint in efforts.mechanism.moving_joints}

    def possible(key: Key, value: float) -> bool:
        kind, of = key
        least = {"mass": -1.0, "gain": -1.0, "friction": -damping.get(of, 0.0), "dry_friction": 0.0, "backlash": 0.0}
        return value >= least.get(kind, -math.inf)

    return possible


def _drop_noisy_gains(columns: dict[Key, Floats], residual: Floats, effort: Floats) -> None:
    """Take out gains that only the noise of the measured effort makes up.

    Noise is in the effort and, turned round, in the residual: it looks like a gain below 1. Against the model's own
    efforts it does not, so a gain must come out alike against both.
    """
    for key, column in list(columns.items()):
        if key[0] != "gain":
            continue
        joint = int(np.argmax((column * column).sum(axis=0)))
        r, e = residual[:, joint], effort[:, joint]
        model = r + e
        if not (e @ e > 0.0 and model @ model > 0.0):
            continue
        against_effort, share = float(r @ e / (e @ e)), float(r @ model / (model @ model))
        against_model = share / (1.0 - share) if share < 1.0 else math.inf
        if abs(against_effort - against_model) > 0.5 * max(abs(against_effort), abs(against_model)):
            del columns[key]


def _alone(values: Floats, joint: int) -> Floats:
    found = np.zeros_like(values)
    found[:, joint] = values[:, joint]
    return found


class _Search:
    """Forward selection of causes.

    residual     (n, k) what is to be explained
    columns      {cause: (n, k)}
    weights      (k,) one over the noise of each joint's efforts
    independent  how many of the n k samples count as independent
    possible     whether a cause can have this value; one that cannot is none
    """

    def __init__(
        self,
        residual: Floats,
        columns: dict[Key, Floats],
        weights: Floats,
        independent: float,
        possible: Callable[[Key, float], bool],
    ) -> None:
        self._possible = possible
        self._residual = (residual * weights).ravel()
        self._power = float(self._residual @ self._residual)
        self._plain = columns
        weighted = {key: (each * weights).ravel() for key, each in columns.items()}
        self._columns = {key: each for key, each in weighted.items() if float(each @ each) > 1e-24 * self._power}
        self._independent = max(independent, 2.0)

    def causes(self, sizes: Floats) -> tuple[list[Hint], float]:
        """The causes, and the share of the residual's power they explain together; `sizes` (k,) of the efforts."""
        chosen: list[Key] = []
        alike: dict[Key, list[str]] = {}
        left = 1.0  # share of the power
        while len(chosen) < MOST_CAUSES and left > ENOUGH:
            tried = [[*chosen, key] for key in self._columns if key not in chosen]
            rest = {keys[-1]: self._left(keys) for keys in tried if self._can_be(keys)}
            best = min(rest, key=lambda key: rest[key], default=None)
            if best is None or left - rest[best] < MATTERS * left or self._evidence(left, rest[best]) < CLEAR:
                break
            near = [key for key in rest if key != best and self._evidence(rest[key], rest[best]) < APART]
            alike[best] = [KINDS[kind][1].format(of=of) for kind, of in near]
            chosen.append(best)
            left = rest[best]
        found = self._fitted(chosen, alike, sizes) if chosen else []
        return [hint for hint in found if abs(hint.value) > CERTAIN * hint.sigma], 1.0 - left

    def _evidence(self, worse: float, better: float) -> float:
        """Twice the logarithm of the likelihood ratio of two fits that leave these shares of the power."""
        return self._independent * math.log(max(worse, 1e-300) / max(better, 1e-300))

    def _fit(self, keys: list[Key]) -> tuple[Floats, Floats]:
        """Values of these causes, and what they leave of the residual."""
        A = np.stack([self._columns[key] for key in keys], axis=1)
        sizes = np.sqrt((A * A).sum(axis=0))
        values, *_ = np.linalg.lstsq(A / sizes, self._residual, rcond=None)
        return values / sizes, self._residual - A @ (values / sizes)

    def _can_be(self, keys: list[Key]) -> bool:
        return all(self._possible(key, value) for key, value in zip(keys, self._fit(keys)[0].tolist(), strict=True))

    def _left(self, keys: list[Key]) -> float:
        """Share of the power that these causes leave unexplained."""
        left = self._fit(keys)[1]
        return float(left @ left) / self._power

    def _fitted(self, keys: list[Key], alike: dict[Key, list[str]], sizes: Floats) -> list[Hint]:
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
                share=float((abs(value) * _rms(self._plain[kind, of]) / sizes).max()),
                explains=1.0 - self._left([(kind, of)]),
                alike=alike[kind, of],
            )
            for (kind, of), value, sigma in zip(keys, values, sigmas, strict=True)
        ]
