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

import numpy as np

from nodes.hil import play
from nodes.hil.causes import Hint, Hints, Key, Search
from nodes.hil.model import Efforts, NoModelError, actuated
from nodes.hil.motion import Applied, Band, Motion, motion_of, rms
from nodes.hil.streams import Floats, Stream
from sim_core.quantities import value_of

QUIET = 0.001  # share of the measured efforts: a residual below it needs no explanation
FLOOR = 1e-3  # share of a joint's efforts below which nothing counts as noise


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
    band = Band(motion)
    effort = band(motion.effort)
    off = efforts.along(motion.q, motion.v, motion.a) - motion.effort
    residual = band(off)
    sizes = rms(effort)
    if sizes.max() == 0.0:
        return Explanation(Hints(why_not="no effort was measured, so there is nothing to explain"))
    sizes = np.maximum(sizes, 0.01 * sizes.max())  # a joint without an actuator has no efforts of its own
    share = float((rms(residual) / sizes).max())
    causes: list[Hint] = []
    explained, left = None, residual
    if share >= QUIET:
        weights = 1.0 / np.hypot(band.noise(off), FLOOR * sizes)
        columns = dict(_regressors(efforts, [band(each) for each in (motion.q, motion.v, motion.a)], effort))
        _drop_noisy_gains(columns, residual, effort)
        columns |= _plays(efforts, motion, band, residual)
        search = Search(residual, columns, weights, motion.independent * residual.shape[1], _possible(efforts))
        causes, explained = search.causes(sizes)
        for cause in causes:
            left = left - cause.value * columns[cause.kind, cause.of]
    found = Hints(causes=causes, residual=share, explained=explained)
    return Explanation(found, efforts.names, band.thinned(motion.time), effort, residual, left)


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


def _plays(efforts: Efforts, motion: Motion, band: Band, residual: Floats) -> dict[Key, Floats]:
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
