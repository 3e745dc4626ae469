"""Driver of CHARMIE's low-level board on a serial port: converts its frames to messages and commands to frames."""

from __future__ import annotations

import importlib.util
import math
import os
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import numpy as np

from nodes.framework.messages import Encoders, JointCommand, Message, RobotState, Verdict
from nodes.framework.plan.launch_plan import Plan
from nodes.hil.emulation.board import tilt_of, torso_of
from nodes.hil.emulation.odometry import JOINTS, BoardClock, Odometry
from nodes.hil.emulation.serial_line import line_time
from nodes.hil.emulation.serial_port import require_realtime, usual_port
from nodes.node import Context, Node, Outgoing
from robots.charmie import base
from robots.charmie.parameters import read_parameters
from robots.charmie.serial_frames import (
    LEGS,
    SPEED_STEPS,
    STOPPED,
    STREAM_BYTES,
    TORSO,
    Command,
    Stream,
    stream_reader,
)

MOST_BYTES = 4096
AGAIN_S = 0.5  # time between two attempts to open the port
MISSED_S = 5.0  # a port that stays closed for longer is reported
ANSWER_S = 0.1  # timeout of the response to a poll
SILENT_S = 0.02  # a pause of this length, 19 bytes at 9600 bits/s, ends a response


class SerialBoardParams(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Serial port, parameter file, and timing of the polls.

    port  device, such as /dev/ttyUSB0; empty: the port of this launch's emulated board
    file  parameter file in the format of robots/charmie/charmie.toml; empty: the parameter file of the plan's robot
    """

    port: str = ""
    baud: int = 9600  # bits/s
    poll_hz: float = 20.0  # Hz; a poll and its response take 40 ms at 9600 bits/s
    timeout_s: float = 0.5  # s of simulation time: older velocity commands count as zero
    file: str = ""

    def __post_init__(self) -> None:
        for name in ("poll_hz", "timeout_s"):
            if not (math.isfinite(value := getattr(self, name)) and value > 0.0):
                raise ValueError(f"{name} is {value}; it must be a number above 0")
        if self.baud < 300:
            raise ValueError(f"baud is {self.baud}; it must be at least 300 bits/s")


class SerialBoard(Node):
    """Polls the board, sends it the commands of base, lift and tilt, and publishes the measured state.

    The node accepts the commands that the robot's model accepts: velocities of base_x, base_y and base_yaw, and
    positions of lift and tilt. `measured_state` has these five joints; base_x, base_y and base_yaw come from wheel
    odometry. The timestamp of `measured_state` is simulation time computed from the board's clock. `applied_command`
    contains the commands as sent to the board, rounded to the board's resolution, and unchanged position commands for
    the joints that the board does not drive. The timestamp of `applied_command` is that of the board's response.
    """

    subscribes = {"state": RobotState, "command": JointCommand}
    publishes = {"measured_state": RobotState, "measured_encoders": Encoders, "applied_command": JointCommand}
    Params = SerialBoardParams
    rate_hz = 200.0

    @classmethod
    def check(cls, params: SerialBoardParams, plan: Plan) -> None:
        if importlib.util.find_spec("serial") is None:
            raise ValueError("the driver needs pyserial; install it with pip install 'armswing[serial]'")
        require_realtime(plan.sim)
        read_parameters(_file(params, plan.sim.parameters))

    def on_start(self, context: Context) -> Outgoing:
        self._context, self._params = context, context.params
        self._robot = read_parameters(_file(self._params, context.robot_parameters))
        self._path = self._params.port or str(usual_port(context.plan))
        self._port: Any = None
        self._reader = stream_reader()
        self._polls = self._opened = self._number = 0
        self._next_poll = self._next_try = self._polled_at = self._away_since = self._received_at = -math.inf
        self._answered = True
        self._stopped = False
        return self.on_reset(0.0)

    def on_reset(self, time: float) -> Outgoing:
        """Restart odometry at the model's base pose, and drop pending commands."""
        self._time, self._published_at = time, -math.inf
        self._place = np.zeros(3)
        self._odometry: Odometry | None = None
        self._clock = BoardClock(line_time(STREAM_BYTES, self._params.baud))
        self._rates, self._driven_at = np.zeros(3), -math.inf  # velocity of the base in the world frame
        self._goals: dict[str, float] = {}  # commanded positions of lift and tilt
        self._remainder = np.zeros(3)  # rounding remainder of the commanded speeds, in steps
        self._others: dict[str, float] = {}  # commanded positions of the joints that the board does not drive
        self._sent: list[JointCommand] = []  # commands of the poll that has no response yet
        self._is_first, self._applied_at = True, 0.0
        return None

    def on_message(self, name: str, message: Message) -> Outgoing:
        if isinstance(message, RobotState):
            self._time = message.timestamp
            if self._odometry is None and set(JOINTS) <= set(message.name):
                self._place = np.array([message.position[message.name.index(joint)] for joint in JOINTS[:3]])
        elif isinstance(message, JointCommand):
            self._process_command(message)
        return None

    def _process_command(self, command: JointCommand) -> None:
        for joint, value in zip(command.name, command.value, strict=False):
            if joint in JOINTS[:3] and command.mode == "velocity":
                self._rates[JOINTS.index(joint)] = value
                self._driven_at = command.timestamp
            elif joint in JOINTS[3:] and command.mode == "position":
                self._goals[joint] = value
            elif command.mode == "position":
                self._others[joint] = value
            elif joint in JOINTS:
                takes = "velocities" if joint in JOINTS[:3] else "positions"
                self._context.warn(
                    f"the board accepts {takes} of {joint}, not {command.mode}; the driver does not send this command"
                )

    def on_tick(self, now: float) -> Iterator[tuple[str, Message]]:
        if self._port is None and not self._open(now):
            return
        try:
            data = self._port.read(MOST_BYTES)
            if data:
                self._received_at = now
            before = self._reader.frames + self._reader.bad
            frames = self._reader.feed(data)
            outgoing = [each for frame in frames for each in self._process_frame(frame)]  # before the next poll is sent
            came = self._reader.frames + self._reader.bad > before
            torn = self._received_at > self._polled_at and now - self._received_at > SILENT_S
            self._answered = self._answered or came or torn or now - self._polled_at > ANSWER_S
            if now >= self._next_poll and self._answered:
                self._next_poll = max(self._next_poll + 1.0 / self._params.poll_hz, now)
                self._polled_at, self._answered = now, False
                command = self._command()
                self._port.write(command.encode())
                self._polls += 1
                self._sent += self._as_commands(command)
        except OSError:
            self._close()
            self._next_try, self._away_since, self._answered = now + AGAIN_S, now, True
            return
        yield from outgoing

    def _open(self, now: float) -> bool:
        from serial import Serial

        if now < self._next_try:
            return False
        self._next_try = now + AGAIN_S
        if self._away_since == -math.inf:
            self._away_since = now
        try:
            self._port = Serial(self._path, self._params.baud, timeout=0, write_timeout=0, exclusive=True)
        except OSError as error:
            if now - self._away_since > MISSED_S:
                why = os.strerror(error.errno) if error.errno else "it is not a serial port"
                self._context.warn(f"the port {self._path} cannot be opened: {why}; the driver tries again repeatedly")
            return False
        if self._opened or now - self._away_since > MISSED_S:
            self._context.info(f"the driver has opened the port {self._path}")
        self._opened += 1
        self._odometry = None  # the board may have been switched off since
        return True

    def _close(self) -> None:
        if self._port is not None:
            self._port.close()
            self._port = None

    def _command(self) -> Command:
        rates = self._rates if self._time - self._driven_at <= self._params.timeout_s else np.zeros(3)
        place = self._place if self._odometry is None else self._odometry.position
        full = self._robot.base
        twist = base.to_base(float(place[2]), rates) / [full.speed_limit, full.speed_limit, full.turn_limit]
        desired = SPEED_STEPS * np.clip(twist, -1.0, 1.0)
        self._remainder = np.where(desired == 0.0, 0.0, self._remainder + desired)
        steps = np.clip(np.round(self._remainder), -SPEED_STEPS, SPEED_STEPS)
        self._remainder -= steps  # the remainder is added to the next commands
        right, forward, turn = (SPEED_STEPS + int(step) for step in steps)
        legs, torso = self._goals.get("lift"), self._goals.get("tilt")
        self._number = (self._number + 1) % 256
        return Command(
            self._number,
            right,
            forward,
            turn,
            None if legs is None else _within(1e3 * legs, LEGS),
            None if torso is None else _within(torso_of(torso, float(self._robot.tilt.lower)), TORSO),
        )

    def _as_commands(self, command: Command) -> list[JointCommand]:
        """Joint commands of the robot's model that are equivalent to the frame sent to the board.

        The timestamp of a command is the time of the poll that sent the frame. For the first command it is 0, the start
        of the run, because the brakes hold every joint until the first command.
        """
        full = self._robot.base
        steps = np.array([command.right, command.forward, command.turn], dtype=float) / SPEED_STEPS - 1.0
        place = self._place if self._odometry is None else self._odometry.position
        rates = base.to_world(float(place[2]), steps * [full.speed_limit, full.speed_limit, full.turn_limit])
        goals = dict(self._others)
        if command.legs is not None:
            goals["lift"] = 1e-3 * command.legs
        if command.torso is not None:
            goals["tilt"] = tilt_of(command.torso, float(self._robot.tilt.lower))
        if not goals or self._time <= 0.0:  # no command yet
            return []
        at = 0.0 if self._is_first else self._time
        self._is_first = False
        return [
            JointCommand(timestamp=at, mode="velocity", name=list(JOINTS[:3]), value=rates.tolist()),
            JointCommand(timestamp=at, mode="position", name=list(goals), value=list(goals.values())),
        ]

    def _applied_commands(self, stamp: float) -> Iterator[tuple[str, Message]]:
        """Yield the commands sent since the previous response of the board, oldest first.

        The newest command gets the timestamp `stamp` of the present response. An older command gets a timestamp that is
        earlier by the time between the sending of the two commands.
        """
        for each in self._sent:
            if each.timestamp > 0.0:
                earlier = self._sent[-1].timestamp - each.timestamp
                self._applied_at = max(self._applied_at, stamp - earlier)
            yield "applied_command", msgspec.structs.replace(each, timestamp=self._applied_at)
        self._sent = []

    def _process_frame(self, frame: Stream) -> Iterator[tuple[str, Message]]:
        is_first = self._odometry is None  # a stop before the port was open is not reported
        if frame.status & STOPPED and not (self._stopped or is_first):
            self._context.warn("the board has stopped the base, because no command reached the board in time")
        self._stopped = bool(frame.status & STOPPED)
        if self._odometry is None:
            self._odometry = Odometry(self._robot, self._place)
        found = self._odometry
        found.add_frame(frame)
        stamp = self._clock.to_local(1e-3 * found.millis, self._time)
        if stamp < 0.0 or self._time <= self._published_at:  # before the run begins, or while it is paused
            return
        self._published_at = self._time
        yield from self._applied_commands(stamp)
        q, v = found.position.tolist(), found.velocity.tolist()
        yield "measured_state", RobotState(timestamp=stamp, name=list(JOINTS), position=q, velocity=v)
        names = [f"wheel_{k}" for k in range(1, len(found.counts) + 1)]
        pulses = self._robot.base.wheels.pulses_per_turn
        yield "measured_encoders", Encoders(timestamp=stamp, name=names, count=found.counts, pulses_per_turn=pulses)

    def on_stop(self) -> Outgoing:
        self._close()
        return None

    @property
    def waits_for(self) -> str:
        """Path of the serial port while it is not open; "" while it is open."""
        return self._path if self._port is None else ""

    @property
    def verdict(self) -> Verdict:
        """Verdict "passed" with counts of polls and frames; "failed" if the port was never open or no frame arrived."""
        if not self._opened:
            return Verdict("failed", f"the port {self._path} was never open")
        lost = 0 if self._odometry is None else self._odometry.lost
        came = f"{self._reader.frames} frames for {self._polls} polls"
        bad = f"{self._reader.torn} torn and {self._reader.wrong} wrong ones skipped, {lost} missing by their numbers"
        if not self._reader.frames:
            return Verdict("failed", f"no frame came through {self._path} for {self._polls} polls, {bad}")
        return Verdict("passed", f"{came}, {bad}")

    @property
    def counters(self) -> Mapping[str, int]:
        """Numbers of polls, of openings of the port, and of received frames and bytes.

        Frames are counted as received, as truncated ("torn"), as invalid for another reason ("wrong") and as missing
        by their numbers ("lost"). Bytes outside of frames are counted as skipped.
        """
        return {
            "polls": self._polls,
            "frames": self._reader.frames,
            "frames_torn": self._reader.torn,
            "frames_wrong": self._reader.wrong,
            "frames_lost": 0 if self._odometry is None else self._odometry.lost,
            "bytes_skipped": self._reader.skipped,
            "ports_opened": self._opened,
        }


def _within(value: float, limits: tuple[float, float]) -> int:
    return round(min(max(value, limits[0]), limits[1]))


def _file(params: SerialBoardParams, given: Mapping[str, float | str]) -> str:
    return params.file or str(given.get("file", ""))
