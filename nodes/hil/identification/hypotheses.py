"""Model errors that would explain the measured efforts, by linear least squares on the model's sensitivities.

The measured motion is passed through the model's inverse dynamics. The residual r is the model's effort minus the
measured effort tau:

    r = tau_model(q, v, a) - tau  =  sum over causes of (d r / d cause) * cause

The causes are errors of a mass, a friction, a rotor inertia, the gain of an actuator or the zero of an encoder. Each
is fitted first alone, then together with the causes that are already accepted. The value of a cause is that of the real
robot minus that of the model: +0.05 is a mass 5 % above the model's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import msgspec
import numpy as np

from nodes.hil.alignment.noise import white_noise
from nodes.hil.alignment.streams import Floats, Stream
from nodes.hil.identification.backlash import CROSSINGS_S, best_crossing, missing_efforts, small_backlash
from nodes.hil.identification.causes import Hint, Key, ModelErrorHypotheses, Search
from nodes.hil.identification.model import Efforts, NoModelError, actuated
from nodes.hil.identification.motion import Applied, Band, Motion, following, motion_of, passed, rms
from sim_core.mechanism.quantities import value_of

QUIET = 0.001  # residual, as a fraction of the measured efforts, below which nothing is explained
ROUNDS = 4  # most iterations for encoder offsets, in which the efforts are nonlinear
LINEAR = 1e-3  # rad or m: change of an offset that counts as converged
SMOOTHED = 0.02  # fraction of a joint's largest rate below which the sign of the rate is smoothed
NOISY = 0.2  # white noise of efforts, relative to their RMS, from which on no backlash is searched for
NO_EFFORT = 0.01  # RMS of a joint's efforts over the largest of all joints, below which it has no motor
SEVERAL = 2  # causes, from which on the efforts at their changes of sign are not known well enough for small backlash
FLOOR = 1e-3  # least noise assumed, as a fraction of a joint's efforts


@dataclass(frozen=True)
class Explanation:
    """The model errors found, and the efforts from which they were found.

    The efforts are in N m or N, low-passed at 10 Hz and downsampled.

    time         (n,) s
    effort       (n, k) measured efforts
    residual     (n, k) the model's efforts minus the measured efforts
    unexplained  (n, k) residual that the causes leave unexplained
    """

    hints: ModelErrorHypotheses
    names: tuple[str, ...] = ()
    time: Floats = field(default_factory=lambda: np.zeros(0))
    effort: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    residual: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    unexplained: Floats = field(default_factory=lambda: np.zeros((0, 0)))


def explain(
    efforts: Efforts,
    measured: Stream,
    applied: Applied | None = None,
    *,
    is_timed: bool = False,
    twin: Stream | None = None,
) -> Explanation:
    """Model errors that explain the effort residual, the strongest first.

    The effort residual is the model's efforts minus the measured ones. If no cause could be determined, `hints.why_not`
    of the result says why; otherwise it is "".

    efforts   inverse dynamics of the model
    measured  measured states of the robot
    applied   how to determine the efforts that acted between two samples; None: from the measured states alone
    is_timed  whether the simulation times are inexact, because they were computed from readings of clocks. Errors of
              these times falsify the accelerations. This effect is estimated from the measured velocities and
              positions, and is removed; the causes are then less certain
    twin      states of the model at the stamps of `measured`, simulated with the commands that the robot applied. The
              effort residual of these states is due to the sampling alone, for example to efforts that changed between
              two samples. It is removed from the residual of the robot; the causes are then less certain. None: no such
              states are known
    """
    try:
        motion = _measured(efforts, measured, applied)
        sampled = None if twin is None else _measured(efforts, twin, applied)
    except NoModelError as error:
        return Explanation(ModelErrorHypotheses(why_not=str(error)))
    band = Band(motion)
    if not rms(band(motion.effort)).any():
        return Explanation(ModelErrorHypotheses(why_not="no effort was measured, so there is nothing to explain"))
    timing = None
    if is_timed:
        even = replace(motion, a=motion.a / passed(motion, band)[:, None])
        timing = band(_model_efforts(efforts, motion) - _model_efforts(efforts, even))
        motion = even
    known = _Known(timing)
    if sampled is not None:
        even = replace(sampled, a=sampled.a / passed(sampled, band)[:, None]) if is_timed else sampled
        known = _Known(timing, _model_efforts(efforts, even) - even.effort)
    zeros = np.zeros(len(efforts.names))
    found = _explained(efforts, motion, band, known, zeros)
    for _ in range(ROUNDS):
        zeros_found = {hint.of: hint.value for hint in found.hints.causes if hint.kind == "encoder_zero"}
        before, zeros = zeros, np.array([zeros_found.get(name, 0.0) for name in efforts.names])
        if not zeros_found or np.abs(zeros - before).max() < LINEAR:
            break
        closer = _explained(efforts, motion, band, known, zeros)
        if (closer.hints.explained or 0.0) < (found.hints.explained or 0.0):
            break
        found = closer
    if timing is None and len(found.hints.causes) < SEVERAL:
        small = list(_small_backlash(efforts, motion, band, known, found))
        found = replace(found, hints=msgspec.structs.replace(found.hints, causes=[*found.hints.causes, *small]))
    return found


@dataclass(frozen=True)
class _Known:
    """Parts of the effort residual that do not come from the robot, in N m or N.

    timing    (n, k) effort errors due to inexact simulation times, low-passed; None if the times are exact
    sampling  (n, k) effort residual of the model's own states at the stamps of the measurement; None if unknown
    """

    timing: Floats | None
    sampling: Floats | None = None

    def banded(self, band: Band) -> tuple[Floats | None, Floats | None]:
        """Both parts, low-passed."""
        return self.timing, None if self.sampling is None else band(self.sampling)


def _small_backlash(efforts: Efforts, motion: Motion, band: Band, known: _Known, found: Explanation) -> Iterator[Hint]:
    """Yield hints about backlash that is crossed within a few samples.

    Only actuated joints for which no other hint reports backlash, and whose efforts are not noisy, are examined.
    """
    off = _model_efforts(efforts, motion) - motion.effort
    if known.sampling is not None:
        off = off - known.sampling
    named = {hint.of for hint in found.hints.causes if hint.kind == "backlash"}
    sizes = rms(band(motion.effort))
    for joint in _searched_for_backlash(efforts, motion):
        backlash = None if efforts.names[joint] in named else small_backlash(motion, band, off[:, joint], joint)
        if backlash is not None:
            missing = band(backlash.missing[:, None])[:, 0]
            yield Hint(
                kind="backlash",
                of=efforts.names[joint],
                value=backlash.crossing_s,
                sigma=backlash.sigma_s,
                unit="s",
                share=float(np.sqrt(np.mean(missing * missing))) / max(float(sizes[joint]), 1e-12),
                explains=0.0,
                alone=True,
            )


def _measured(efforts: Efforts, stream: Stream, applied: Applied | None) -> Motion:
    """Motion with the efforts at the joints, from those that the actuators' sensors show."""
    motion = motion_of(stream, efforts.names, applied or Applied())
    return replace(motion, effort=motion.effort * efforts.mechanism.gains(efforts.names))


def _model_efforts(efforts: Efforts, motion: Motion) -> Floats:
    return efforts.along(motion.q, motion.v, motion.a)


def _explained(efforts: Efforts, motion: Motion, band: Band, known: _Known, zeros: Floats) -> Explanation:
    """Causes of the effort residual, from the model linearized at the encoder offsets `zeros` (k,) in rad or m."""
    effort = band(motion.effort)
    shifted = replace(motion, q=motion.q - zeros)
    model = _model_efforts(efforts, shifted)
    off = model - motion.effort
    for joint in np.flatnonzero(zeros):
        off = off + zeros[joint] * efforts.per_position(int(joint), shifted.q, shifted.v, shifted.a)
    timing, sampling = known.banded(band)
    residual = band(off) if sampling is None else band(off) - sampling
    sizes = _sizes(efforts, shifted, band, effort)
    share = float((rms(residual) / sizes).max())
    causes: list[Hint] = []
    shares: tuple[float | None, ...] = (None, None)
    explained, unexplained = None, residual
    moving = _moving(shifted, band, model)
    moves = following(residual, moving, motion.independent)
    weights = 1.0 / np.hypot(band.noise(off), FLOOR * sizes)
    columns = dict(_regressors(efforts, [band(each) for each in (shifted.q, shifted.v, shifted.a)], effort))
    _drop_noisy_gains(columns, residual, effort)
    columns |= _backlash_columns(efforts, motion, band, residual)
    independent = motion.independent * residual.shape[1]
    sliding = {joint.name for joint in efforts.mechanism.joints if joint.is_length}
    search = Search(residual, columns, weights, independent, _possible(efforts), sliding, (timing, sampling))
    if share >= QUIET:
        (causes, explained), shares = search.causes(sizes), search.shares
        for cause in causes:
            unexplained = unexplained - cause.value * columns[cause.kind, cause.of]
    found = ModelErrorHypotheses(
        causes=causes,
        residual=share,
        explained=explained,
        timing=shares[0],
        sampling=shares[1],
        least=search.least(sizes, 1.0 - (explained or 0.0), QUIET),
        following=float((np.sqrt(moves) / sizes).max()),
        unexplained=float((np.sqrt(following(unexplained, moving, motion.independent)) / sizes).max()),
    )
    return Explanation(found, efforts.names, band.thinned(motion.time), effort, residual, unexplained)


def _sizes(efforts: Efforts, motion: Motion, band: Band, effort: Floats) -> Floats:
    """Sizes (k,) to which shares of each joint's efforts refer, N m or N: RMS of its measured efforts `effort` (n, k).

    For a joint without measured efforts, RMS of the model's larger term, of gravity or of inertia, which cancel there.
    """
    sizes = rms(effort)
    least = NO_EFFORT * sizes.max()
    if (sizes >= least).all():
        return sizes
    rest = np.zeros_like(motion.q)
    gravity = efforts.along(motion.q, rest, rest)
    inertia = efforts.along(motion.q, rest, motion.a) - gravity
    terms = np.maximum(rms(band(gravity)), rms(band(inertia)))
    return np.where(sizes < least, np.maximum(terms, least), sizes)


def _moving(motion: Motion, band: Band, model: Floats) -> Floats:
    """Quantities (k, n, m) of each joint that an effort residual may follow, low-passed.

    They are the joint's position, velocity, direction of motion and acceleration, a constant, and the efforts `model`
    (n, k) of the model at all joints with their rates.
    """
    smooth = band.smooth(model)
    rates = np.concatenate([np.gradient(smooth[part], motion.time[part], axis=0) for part in motion.parts])
    q, v, a = (band(each) for each in (motion.q, motion.v, motion.a))
    signs = np.tanh(v / np.maximum(SMOOTHED * np.abs(v).max(axis=0), 1e-9))
    shared = [np.ones((len(q), 1)), band.thinned(smooth), band.thinned(rates)]
    own = [np.stack(each, axis=1) for each in zip(q.T, v.T, signs.T, a.T, strict=True)]
    return np.stack([np.concatenate([each, *shared], axis=1) for each in own])


def _regressors(efforts: Efforts, motion: Sequence[Floats], effort: Floats) -> Iterator[tuple[Key, Floats]]:
    """Yield (cause, derivative (n, k) of the effort residual with respect to the cause) of every cause.

    A cause is a possible model error, such as an error of a body's mass or of a joint's friction.

    motion  low-passed positions q, velocities v and accelerations a, (n, k) each
    effort  low-passed measured efforts (n, k)
    """
    q, v, a = motion
    for body in efforts.bodies:
        yield ("mass", body), -efforts.per_mass(body, q, v, a)
    for joint in actuated(efforts.mechanism, efforts.names):
        yield ("gain", efforts.names[joint]), _alone(effort, joint)
    for joint, name in enumerate(efforts.names):
        yield ("friction", name), -_alone(v, joint)
        # rad/s or m/s, rate below which dry friction is smoothed
        scale = max(SMOOTHED * float(np.abs(v[:, joint]).max()), 1e-9)
        yield ("dry_friction", name), -_alone(np.tanh(v / scale), joint)
        yield ("armature", name), -_alone(a, joint)
        yield ("encoder_zero", name), efforts.per_position(joint, q, v, a)


def _searched_for_backlash(efforts: Efforts, motion: Motion) -> list[int]:
    """Indices of the actuated joints whose efforts change their sign with the motion, not with their noise."""
    sizes = rms(motion.effort)
    every_other = motion.effort[::2]  # successive means share samples, so that their noise is not white
    return [
        joint
        for joint in actuated(efforts.mechanism, efforts.names)
        if white_noise(every_other[:, joint]) <= NOISY * sizes[joint]
    ]


def _backlash_columns(efforts: Efforts, motion: Motion, band: Band, residual: Floats) -> dict[Key, Floats]:
    """Return {cause: derivative (n, k) of the effort residual with respect to the crossing time of a joint's backlash}.

    There is one entry for each actuated joint whose effort residual resembles the effect of backlash.
    """
    found: dict[Key, Floats] = {}
    missing = missing_efforts(motion.effort, motion.time, motion.parts)
    banded = np.stack([band(each) for each in missing])
    for joint in _searched_for_backlash(efforts, motion):
        best = best_crossing(banded[:, :, joint], residual[:, joint])
        if best is not None:
            found["backlash", efforts.names[joint]] = _alone(banded[best], joint) / CROSSINGS_S[best]
    return found


def _possible(efforts: Efforts) -> Callable[[Key, float], bool]:
    """Function (cause, value) that tells whether a model error can have this value.

    A value is impossible if it would give the real robot a negative mass, gain, friction, rotor inertia or backlash.
    """
    joints = efforts.mechanism.moving_joints
    damping, armature = (
        {joint.name: float(value_of(getattr(joint, field))) for joint in joints} for field in ("damping", "armature")
    )
    coulomb = {joint.name: float(value_of(joint.friction.coulomb)) for joint in joints if joint.friction is not None}

    def possible(key: Key, value: float) -> bool:
        kind, of = key
        least = {"mass": -1.0, "gain": -1.0, "backlash": 0.0}
        least |= {"friction": -damping.get(of, 0.0), "dry_friction": -coulomb.get(of, 0.0)}
        least |= {"armature": -armature.get(of, 0.0)}
        return value >= least.get(kind, -math.inf)

    return possible


def _drop_noisy_gains(columns: dict[Key, Floats], residual: Floats, effort: Floats) -> None:
    """Remove from `columns` the gains that appear only because of noise in the measured effort.

    Noise of the measured effort also occurs in the residual, with opposite sign, and there resembles the effect of a
    gain below 1. The model's efforts are free of this noise. A gain is therefore kept only if fits to the measured
    efforts and to the model's efforts give similar values.
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
