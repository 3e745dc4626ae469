"""Emulated sensors of a robot: encoders, noise, sampling rate, lost samples, delay, and the sensors' own clock."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np

from nodes.framework.messages import RobotState
from nodes.hil.alignment.streams import Floats
from nodes.hil.emulation.imperfections import OwnClock, drag, quantize
from nodes.hil.emulation.plant import PlantPerturbation, require_least, spread

STATE = ("_past", "_sampled", "_shaft", "_shown", "samples", "lost")  # attributes
NOISES = ("position_noise", "velocity_noise", "effort_noise")


class Sensing(PlantPerturbation, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Parameters of an emulated robot and its sensors: the deviations of PlantPerturbation, and errors of the
    measurement.

    By default the sensors measure exactly, at every time step.
    """

    encoder_step: dict[str, float] = {}  # by joint, resolution of the encoder, rad or m
    encoder_zero: dict[str, float] = {}  # by joint, offset of the encoder's reading, rad or m
    encoder_play: dict[str, float] = {}  # by joint, backlash between joint and encoder, rad or m
    encoder_dead: dict[str, float] = {}  # by joint, simulation time, s, from which on the encoder's reading is constant
    position_noise: dict[str, float] = {}  # by joint, standard deviation, rad or m
    velocity_noise: dict[str, float] = {}  # by joint, standard deviation, rad/s or m/s
    effort_noise: dict[str, float] = {}  # by joint, standard deviation, N m or N
    sample_hz: float = 0.0  # sampling rate by the sensors' clock, Hz; 0: every step
    loss: float = 0.0  # fraction of the samples that are lost, at random
    delay_ms: float = 0.0  # ms by which the data of a sample are older than its stamp
    clock_offset_s: float = 0.0  # sensors' clock minus simulation time at the start, s
    clock_drift_ppm: float = 0.0  # drift of the sensors' clock, microseconds gained per second
    clock_step_s: float = 0.0  # jump of the sensors' clock at the time `clock_step_at_s`, s
    clock_step_at_s: float = 0.0  # simulation time at which the sensors' clock jumps, s

    def __post_init__(self) -> None:
        super().__post_init__()
        for field in ("encoder_step", "encoder_play", "encoder_dead", *NOISES):
            require_least(field, getattr(self, field), 0.0)
        require_least("encoder_zero", self.encoder_zero, -math.inf)
        for field in ("sample_hz", "delay_ms", "clock_step_at_s"):
            if not 0.0 <= getattr(self, field) < math.inf:
                raise ValueError(f"{field} is {getattr(self, field)}; it must be a number of at least 0")
        if not 0.0 <= self.loss < 1.0:
            raise ValueError(f"loss is {self.loss}; it must be a fraction of at least 0 and below 1")
        for field in ("clock_offset_s", "clock_step_s"):
            if not abs(getattr(self, field)) < math.inf:
                raise ValueError(f"{field} is {getattr(self, field)}; it must be a finite number")
        if not abs(self.clock_drift_ppm) <= 1e5:
            raise ValueError(f"clock_drift_ppm is {self.clock_drift_ppm}; it must be a number from -100000 to 100000")

    @property
    def clock(self) -> OwnClock:
        """Clock that stamps the samples."""
        return OwnClock(self.clock_offset_s, self.clock_drift_ppm * 1e-6, self.clock_step_s, self.clock_step_at_s)


class Sensors:
    """Converts the joint states after each time step to a sample, if a sample is due.

    samples  number of samples taken, including lost samples
    lost     number of samples that were lost
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
        """Discard all readings so far."""
        self._past.clear()
        self._sampled = -math.inf
        self._shaft: Floats | None = None  # positions of the shafts that carry the encoders
        self._shown: Floats | None = None

    def snapshot(self) -> dict[str, Any]:
        """Readings and counts so far, for `restore`; without the state of the random generator."""
        return {name: getattr(self, name) for name in STATE}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a result of `snapshot`."""
        vars(self).update(state)

    def stamp(self, t: float) -> float:
        """Reading of the sensors' clock at simulation time t (s)."""
        return self._clock.at(t)

    def sample(self, t: float, position: Floats, velocity: Floats, effort: Floats) -> RobotState | None:
        """The sample of the joint states at simulation time t (s); None if no sample is due or the sample is lost."""
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
        """Return (positions, velocities, efforts) as encoders, tachometers and current sensors show them, (n,) each."""
        self._shaft = position if self._shaft is None else drag(self._shaft, position, self._play)
        readings = [self._shaft + self._zero, velocity, effort]
        for index, sigma in enumerate(self._noise):
            if sigma.any():
                readings[index] = readings[index] + sigma * self._random.standard_normal(len(sigma))
        readings[0] = quantize(readings[0], self._step)
        dead = t >= self._dead_from
        if dead.any() and self._shown is not None:
            readings[0] = np.where(dead, self._shown, readings[0])
            readings[1] = np.where(dead, 0.0, readings[1])
        self._shown = readings[0]
        return readings
