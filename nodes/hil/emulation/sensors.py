"""What a robot's own sensors make of its state: encoders, noise, a sample rate, lost samples, delay, a clock."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence

import numpy as np

from nodes.hil.alignment.streams import Floats
from nodes.hil.emulation.imperfections import OwnClock, drag, quantize
from nodes.hil.emulation.plant import PlantPerturbation, require_least, spread
from nodes.messages import RobotState

NOISES = ("position_noise", "velocity_noise", "effort_noise")


class Sensing(PlantPerturbation, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """And how the robot is measured; by default perfectly, at every step."""

    encoder_step: dict[str, float] = {}  # by joint, rad or m: an encoder shows whole steps
    encoder_zero: dict[str, float] = {}  # by joint, rad or m that it shows too much
    encoder_play: dict[str, float] = {}  # by joint, rad or m: what drags the encoder has this play
    encoder_dead: dict[str, float] = {}  # by joint, s of simulation time from which on it stays where it is
    position_noise: dict[str, float] = {}  # by joint, rad or m, standard deviation
    velocity_noise: dict[str, float] = {}  # by joint, rad/s or m/s
    effort_noise: dict[str, float] = {}  # by joint, N m or N
    sample_hz: float = 0.0  # Hz of its own clock; 0: every step
    loss: float = 0.0  # share of the samples that is lost, at random
    delay_ms: float = 0.0  # a sample shows what was so long before its stamp
    clock_offset_s: float = 0.0  # s that its clock is ahead of simulation time at the start
    clock_drift_ppm: float = 0.0  # microseconds that it gains in a second
    clock_step_s: float = 0.0  # s by which it is put forward ...
    clock_step_at_s: float = 0.0  # ... at this simulation time

    def __post_init__(self) -> None:
        super().__post_init__()
        for field in ("encoder_step", "encoder_play", "encoder_dead", *NOISES):
            require_least(field, getattr(self, field), 0.0)
        require_least("encoder_zero", self.encoder_zero, -math.inf)
        for field in ("sample_hz", "delay_ms", "clock_step_at_s"):
            if not 0.0 <= getattr(self, field) < math.inf:
                raise ValueError(f"{field} is {getattr(self, field)}; it must be a number of at least 0")
        if not 0.0 <= self.loss < 1.0:
            raise ValueError(f"loss is {self.loss}; it must be a share, 0 or more and below 1")
        for field in ("clock_offset_s", "clock_step_s"):
            if not abs(getattr(self, field)) < math.inf:
                raise ValueError(f"{field} is {getattr(self, field)}; it must be finite")
        if not abs(self.clock_drift_ppm) <= 1e5:
            raise ValueError(f"clock_drift_ppm is {self.clock_drift_ppm}; it must be in -100000 .. 100000")

    @property
    def clock(self) -> OwnClock:
        """The clock that stamps the samples."""
        return OwnClock(self.clock_offset_s, self.clock_drift_ppm * 1e-6, self.clock_step_s, self.clock_step_at_s)


class Sensors:
    """Turns each step's joints into what is said of them, if anything.

    samples, lost  how many were taken, and how many of them nobody gets
    """

    def __init__(self, sensing: Sensing, names: Sequence[str], step_s: float, random: np.random.Generator) -> None:
        def each(field: str, default: float = 0.0) -> Floats:
            return spread(field, getattr(sensing, field), names, "joint", default)

        self._sensing, self._names, self._random = sensing, list(names), random
        self._clock = sensing.clock
        self._half_step_s = step_s / 2.0
        self._step, self._zero, self._play = each("encoder_step"), each("encoder_zero"), each("encoder_play")
        self._dead_from = each("encoder_dead", math.inf)
        self._noise = [each(field) for field in NOISES]
        self._past: deque[list[Floats]] = deque(maxlen=round(sensing.delay_ms * 1e-3 / step_s) + 1)
        self.samples = self.lost = 0
        self.restart()

    def restart(self) -> None:
        """Forget what was."""
        self._past.clear()
        self._sampled = -math.inf
        self._shaft: Floats | None = None  # where what the encoders sit on is
        self._shown: Floats | None = None

    def stamp(self, t: float) -> float:
        """What the clock shows at simulation time t."""
        return self._clock.at(t)

    def see(self, t: float, position: Floats, velocity: Floats, effort: Floats) -> RobotState | None:
        """The sample of this step, at simulation time t; None where none is due or it is lost."""
        self._past.append(self._read(t, position, velocity, effort))
        if self._sensing.sample_hz > 0.0:
            period = math.floor((self._clock.elapsed(t) + self._half_step_s) * self._sensing.sample_hz)
            if period == self._sampled:
                return None
            self._sampled = period
        self.samples += 1
        if self._sensing.loss > 0.0 and self._random.random() < self._sensing.loss:
            self.lost += 1
            return None
        q, v, u = (values.tolist() for values in self._past[0])
        return RobotState(timestamp=self.stamp(t), name=self._names, position=q, velocity=v, effort=u)

    def _read(self, t: float, position: Floats, velocity: Floats, effort: Floats) -> list[Floats]:
        """What encoders, tachometers and current sensors show."""
        self._shaft = position if self._shaft is None else drag(self._shaft, position, self._play)
        said = [self._shaft + self._zero, velocity, effort]
        for index, sigma in enumerate(self._noise):
            if sigma.any():
                said[index] = said[index] + sigma * self._random.standard_normal(len(sigma))
        said[0] = quantize(said[0], self._step)
        dead = t >= self._dead_from
        if dead.any() and self._shown is not None:
            said[0] = np.where(dead, self._shown, said[0])
            said[1] = np.where(dead, 0.0, said[1])
        self._shown = said[0]
        return said
