"""Joint states of CHARMIE, computed from the frames of its board.

The motion of the base is computed from the wheel encoders, the positions of the joints `lift` and `tilt` from the legs
and the torso, and the local time from the board's clock.
"""

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
    """Change from `before` to `now` of counters that wrap around at 2**bits.

    The result is in the range -2**(bits - 1) .. 2**(bits - 1) - 1.
    """
    half = 1 << (bits - 1)
    return (now - before + half) % (2 * half) - half


class Odometry:
    """Joint positions and velocities from the board's frames. The base starts at a given position at the first frame.

    position  (5,) in the order of JOINTS, m and rad
    velocity  (5,) in the order of JOINTS, m/s and rad/s, mean since the previous frame
    counts    (4,) encoder counts of the wheels, unwrapped
    millis    reading of the board's clock, ms, unwrapped
    lost      number of missing frames, from gaps in the sequence numbers
    """

    def __init__(self, robot: Parameters, place: Floats) -> None:
        self._wheels, self._lowest = robot.base.wheels, float(robot.tilt.lower)
        self.position, self.velocity = np.zeros(5), np.zeros(5)
        self.position[:3] = place
        self.counts = [0, 0, 0, 0]
        self.millis = self.lost = 0
        self._last: Stream | None = None

    def add_frame(self, frame: Stream) -> None:
        """Update the positions and velocities from the next frame."""
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
        place = base.pose_after(self._wheels, before[:3], turned)
        self.position = np.array([*place, 1e-3 * frame.legs, tilt_of(frame.torso, self._lowest)])
        self.velocity = (self.position - before) / dt if dt > 0.0 else np.zeros(5)
        self._last = frame


class BoardClock:
    """Offset between the board's clock and the local clock, from the recent frame with the shortest travel time."""

    def __init__(self, way_s: float) -> None:
        self._way_s = way_s
        self._apart: deque[float] = deque(maxlen=KEPT)

    def to_local(self, peer: float, arrived: float) -> float:
        """Local time (s) at which the board's clock showed the time `peer` (s).

        The travel time of the quickest recent frame is assumed to be `way_s`, the argument of the constructor.

        arrived  local time (s) at which the frame with the reading `peer` arrived
        """
        self._apart.append(arrived - peer)
        return peer + min(self._apart) - self._way_s
