"""Emulation of CHARMIE's low-level board and of the simulated robot behind it, as a function from bytes to bytes.

The emulation uses no serial port and no real time. It replies to each command frame with a stream frame
(robots/charmie/serial_frames.py). The transmission of a frame takes as long as on a serial line.
"""

from __future__ import annotations

import math

import numpy as np

from nodes.framework.plan.launch_plan import SimPlan
from nodes.hil.emulation.imperfections import OwnClock
from nodes.hil.emulation.plant import Plant, PlantPerturbation, mechanism_of, spread
from nodes.hil.emulation.serial_line import Line
from robots.charmie import base
from robots.charmie.parameters import Parameters
from robots.charmie.serial_frames import LEGS, REFUSED, SPEED_STEPS, STOPPED, TORSO, Command, Stream, command_reader

BASE = ("base_x", "base_y", "base_yaw")
LIFT, TILT = "lift", "tilt"


def tilt_of(torso: float, lowest: float) -> float:
    """Angle of the joint "tilt" (rad) at a position of the torso in the board's unit, from 8 to 170.

    lowest  angle (rad) of the joint at torso position 170; the angle at position 8 is 0
    """
    return lowest * (torso - TORSO[0]) / (TORSO[1] - TORSO[0])


def torso_of(tilt: float, lowest: float) -> float:
    """Position of the torso in the board's unit, from 8 to 170, at an angle of the joint "tilt" (rad).

    lowest  angle (rad) of the joint at torso position 170; the angle at position 8 is 0
    """
    return TORSO[0] + (TORSO[1] - TORSO[0]) * tilt / lowest


class BoardParams(PlantPerturbation, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Deviations of the robot behind the board from its model, and faults of the board and of its serial line."""

    wheel_radius: float = 0.0  # relative deviation from the model: 0.01 drives 1 % further for equal counts
    baud: int = 9600  # bits/s
    watchdog_ms: float = 500.0  # time without a command after which the base stops
    clock_drift_ppm: float = 0.0  # drift of the board's clock, microseconds gained per second
    torn: float = 0.0  # fraction of the board's frames that lose some bytes
    wrong: float = 0.0  # fraction of the board's frames with a wrong bit

    def __post_init__(self) -> None:
        super().__post_init__()
        if not -1.0 < self.wheel_radius < math.inf:
            raise ValueError(
                f"wheel_radius is {self.wheel_radius}; it is a relative deviation and must be a number above -1"
            )
        if self.baud < 300:
            raise ValueError(f"baud is {self.baud}; it must be at least 300 bits/s")
        if not 0.0 < self.watchdog_ms < math.inf:
            raise ValueError(f"watchdog_ms is {self.watchdog_ms}; it must be a number above 0")
        if not abs(self.clock_drift_ppm) <= 1e5:
            raise ValueError(f"clock_drift_ppm is {self.clock_drift_ppm}; it must be a number from -100000 to 100000")
        for field in ("torn", "wrong"):
            if not 0.0 <= getattr(self, field) <= 1.0:
                raise ValueError(f"{field} is {getattr(self, field)}; it must be a fraction from 0 to 1")


def require_drivable(sim: SimPlan, params: BoardParams) -> None:
    """Raise ValueError with a one-line message for a robot without the actuators of this board, or for unknown names in
    `params`.
    """
    actuators = [actuator.name for actuator in mechanism_of(sim, params).actuators]
    spread("gain", params.gain, actuators, "actuator")
    missing = [name for name in (*BASE, LIFT, TILT) if name not in actuators]
    if missing:
        raise ValueError(
            f"robot {sim.robot!r} lacks the actuator {missing[0]!r}, which the board drives; "
            'set the robot\'s parameter loops = "open"'
        )


class Board:
    """The board, its serial line, and the robot behind it. Times `t` are seconds since power-on and never decrease.

    frames  number of stream frames sent
    stops   number of times that the watchdog stopped the base
    """

    def __init__(self, sim: SimPlan, robot: Parameters, params: BoardParams, random: np.random.Generator) -> None:
        self._params, self._random, self._robot = params, random, robot
        require_drivable(sim, params)
        self._plant = Plant(sim, params)
        names = self._plant.names
        self._lowest = float(robot.tilt.lower)
        self._base = [names.index(name) for name in BASE]
        self._lift, self._tilt = names.index(LIFT), names.index(TILT)
        self._clock = OwnClock(drift=params.clock_drift_ppm * 1e-6)
        self._to_board, self._from_board = Line(params.baud), Line(params.baud)
        self.reader = command_reader()
        self.frames = self.stops = 0
        self._number, self._status, self._bad = 0, 0, 0
        self._commanded_at, self._t = 0.0, 0.0
        self._twist = np.zeros(3)
        self._angles = np.zeros(robot.base.wheels.count)
        actuators = list(self._plant.servos.names)
        start = [float(self._plant.position[names.index(name)]) for name in actuators]
        self._plant.command("position", actuators, start)  # brakes: all joints are held in place

    def receive(self, data: bytes, t: float) -> None:
        """Put bytes on the serial line to the board at time t (s)."""
        self._to_board.send(data, t)

    def transmit(self, t: float) -> bytes:
        """Advance the emulation to time t (s), and return the bytes from the board that arrived since the last call."""
        for at, byte in self._to_board.through(t):
            for command in self.reader.feed(bytes([byte])):
                self._advance(at)
                self._answer(at)  # reports the state before the command, including a watchdog stop
                self._follow(command)
        self._advance(t)
        return bytes(byte for _, byte in self._from_board.through(t))

    def _follow(self, command: Command) -> None:
        self._commanded_at = self._t
        steps = np.array([command.right, command.forward, command.turn], dtype=float) / SPEED_STEPS - 1.0
        full = self._robot.base
        self._twist = steps * [full.speed_limit, full.speed_limit, full.turn_limit]
        if command.legs is not None:
            self._plant.command("position", [LIFT], [1e-3 * command.legs])
        if command.torso is not None:
            self._plant.command("position", [TILT], [tilt_of(command.torso, self._lowest)])

    def _answer(self, t: float) -> None:
        if self.reader.bad > self._bad:
            self._bad, self._status = self.reader.bad, self._status | REFUSED
        position = self._plant.position
        counts = base.counts(self._robot.base.wheels, self._angles)
        wrapped = [(count + 2**31) % 2**32 - 2**31 for count in counts]
        frame = Stream(
            number=self._number,
            millis=int(1e3 * self._clock.elapsed(t)) % 2**32,
            counts=(wrapped[0], wrapped[1], wrapped[2], wrapped[3]),
            legs=min(max(1e3 * float(position[self._lift]), LEGS[0]), LEGS[1]),
            torso=min(max(torso_of(float(position[self._tilt]), self._lowest), TORSO[0]), TORSO[1]),
            status=self._status,
        )
        self._number, self._status = (self._number + 1) % 256, 0
        self.frames += 1
        self._from_board.send(self._damaged(frame.encode()), t)

    def _damaged(self, frame: bytes) -> bytes:
        """The frame after transmission over a faulty line: unchanged, damaged or shortened."""
        torn, wrong = self._random.random(2)
        if torn < self._params.torn:
            first, last = sorted(self._random.integers(0, len(frame) + 1, 2).tolist())
            frame = frame[:first] + frame[max(last, first + 1) :]
        if wrong < self._params.wrong and frame:
            place, bit = int(self._random.integers(len(frame))), int(self._random.integers(8))
            frame = frame[:place] + bytes([frame[place] ^ (1 << bit)]) + frame[place + 1 :]
        return frame

    def _advance(self, t: float) -> None:
        """Simulate the robot up to time t (s)."""
        plant, wheels = self._plant, self._robot.base.wheels
        stretch = 1.0 + self._params.wheel_radius
        self._t = max(self._t, t)
        while plant.tick * plant.step_s < self._t - 1e-9:
            if plant.tick * plant.step_s - self._commanded_at > 1e-3 * self._params.watchdog_ms:
                self.stops += int(self._twist.any())
                self._twist, self._status = np.zeros(3), self._status | STOPPED
            before = plant.position[self._base]
            rates = base.to_world(float(before[2]), self._twist * stretch)
            plant.command("velocity", list(BASE), rates.tolist())
            plant.step()
            self._angles += base.wheel_turns(wheels, before, plant.position[self._base]) / stretch
