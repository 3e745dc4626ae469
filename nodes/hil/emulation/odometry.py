"""Joint states of CHARMIE from its board's frames: wheels to base, legs and torso to joints, board clock to local
clock."""

from __future__ import annotations

import math
from collections import deque

import numpy as np

from nodes.hil.alignment.streams import Floats
from nodes.hil.emulation.board import tilt_of
from robots.charmie import base
from robots.charmie.parameters import Parameters
from robots.charmie.serial_frames import Stream

JOINTS = ("base_x", "base_y", "base_yaw", "lift", "tilt")
KEPT = 64  # frames of which the quickest determines the board's clock


def difference(now: int, before: int, bits: int) -> int:
    """now - before of counters that wrap around at 2**bits, in the range -2**(bits - 1) .. 2**(bits - 1) - 1."""
    half = 1 << (bits - 1)
    return (now - before + half) % (2 * half) - half


class Odometry:
    """Joint positions from frames, with the base counted from its position at the first frame.

    position, velocity  (5,) in the order of JOINTS, m and rad; the velocity is the mean since the previous frame
    counts              (4,) encoder counts of the wheels, unwrapped
    millis              board clock in ms, unwrapped
    lost                number of missing frames, by their sequence numbers
    """

    def __init__(self, robot: Parameters, place: Floats) -> None:
        self._wheels, self._lowest = robot.base.wheels, float(robot.tilt.lower)
        self.position, self.velocity = np.zeros(5), np.zeros(5)
        self.position[:3] = place
        self.counts = [0, 0, 0, 0]
        self.millis = self.lost = 0
        self._last: Stream | None = None

    def take(self, frame: Stream) -> None:
        """Update the joints from the next frame."""
        before, last = self.position, self._last
        turned, dt = np.zeros(4), 0.0
        if last is not None:
            pulses = [difference(a, b, 32) for a, b in zip(frame.counts, last.counts, strict=True)]
            self.counts = [a + b for a, b in zip(self.counts, pulses, strict=True)]
            turned = np.array(pulses) * (2.0 * math.pi / self._wheels.pulses_per_turn)
            passed = difference(frame.millis, last.millis, 32)
            self.millis += passed
            dt = 1e-3 * passed
            self.lost += (frame.number - last.number - 1) % 256
        else:
            self.counts, self.millis = list(frame.counts), frame.millis
        place = base.moved(self._wheels, before[:3], turned)
        self.position = np.array([*place, 1e-3 * frame.legs, tilt_of(frame.torso, self._lowest)])
        self.velocity = (self.position - before) / dt if dt > 0.0 else np.zeros(5)
        self._last = frame


class BoardClock:
    """Offset between the board's clock and the local clock, estimated from the frame that took the shortest time."""

    def __init__(self, way_s: float) -> None:
        self._way_s = way_s
        self._apart: deque[float] = deque(maxlen=KEPT)

    def to_local(self, peer: float, heard: float) -> float:
        """Local time, s, of the reading `peer` of the board's clock, s, which arrived at the local time `heard`.

        A frame travels for at least `way_s`.
        """
        self._apart.append(heard - peer)
        return peer + min(self._apart) - self._way_s
