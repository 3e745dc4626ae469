"""Encoding and decoding of the serial frames of CHARMIE's low-level board; docs/serial_board.md defines the layout.

Lengths of the legs are transmitted in tenths of a millimetre. Lengths of the torso are transmitted in tenths of the
unit of the torso's actuator; see SOURCES.md. Speeds are 0 .. 200, with 100 for standstill.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

HEAD = b"##"
COMMAND_HEAD = b">>"
_STREAM = struct.Struct("<2sBI4iHHB")
_COMMAND = struct.Struct("<2sBBBBBB")
STREAM_BYTES = _STREAM.size + 1  # 29
COMMAND_BYTES = _COMMAND.size + 1  # 9
POLYNOMIAL = 0x07

LEGS = (0.0, 140.0)  # mm
TORSO = (8.0, 170.0)  # units of the torso's actuator
SPEED_STEPS = 100  # steps from standstill to full speed
KEEP = 255  # value of legs or torso in a command: keep the last target
STOPPED, REFUSED = 1, 2  # status bits of a stream frame
KNOWN_STATUS = STOPPED | REFUSED


def _table() -> list[int]:
    found = []
    for byte in range(256):
        for _ in range(8):
            byte = ((byte << 1) ^ POLYNOMIAL if byte & 0x80 else byte << 1) & 0xFF
        found.append(byte)
    return found


_TABLE = _table()


def checksum(data: bytes) -> int:
    """CRC-8 of the bytes, with polynomial x^8 + x^2 + x + 1 and initial value 0.

    It detects every error burst of up to 8 bits.
    """
    crc = 0
    for byte in data:
        crc = _TABLE[crc ^ byte]
    return crc


@dataclass(frozen=True)
class Stream:
    """A stream frame: the board's measurements, sent in reply to a command.

    number  frame number, 0 .. 255, wrapping around
    millis  time since the board was switched on (ms), modulo 2**32
    counts  encoder pulses of the four wheels, signed 32 bits, wrapping around
    legs    length of the legs (mm), 0 .. 140
    torso   length of the torso in units of its actuator, 8 .. 170; SOURCES.md has what is known about this unit
    status  events since the previous frame, as the sum of 1 if the board stopped because no command arrived in time,
            and 2 if the board refused a command
    """

    number: int
    millis: int
    counts: tuple[int, int, int, int]
    legs: float
    torso: float
    status: int = 0

    def encode(self) -> bytes:
        """The stream frame encoded as 29 bytes."""
        legs, torso = round(10.0 * self.legs), round(10.0 * self.torso)
        body = _STREAM.pack(HEAD, self.number, self.millis, *self.counts, legs, torso, self.status)
        return body + bytes([checksum(body[2:])])


@dataclass(frozen=True)
class Command:
    """A command frame; the board replies to each command with a stream frame.

    number   frame number, 0 .. 255, wrapping around
    right    speed along x, 0 .. 200: 100 is standstill, 200 is full speed
    forward  speed along y, 0 .. 200
    turn     yaw rate to the left, 0 .. 200
    legs     target of the legs, a whole number in mm; None keeps the last target
    torso    target of the torso, a whole number in the torso's unit; None keeps the last target
    """

    number: int
    right: int = SPEED_STEPS
    forward: int = SPEED_STEPS
    turn: int = SPEED_STEPS
    legs: int | None = None
    torso: int | None = None

    def encode(self) -> bytes:
        """The command frame encoded as 9 bytes."""
        legs, torso = (KEEP if value is None else value for value in (self.legs, self.torso))
        body = _COMMAND.pack(COMMAND_HEAD, self.number, self.right, self.forward, self.turn, legs, torso)
        return body + bytes([checksum(body[2:])])


def _stream(frame: bytes) -> Stream | None:
    _, number, millis, a, b, c, d, legs, torso, status = _STREAM.unpack(frame[:-1])
    legs, torso = legs / 10.0, torso / 10.0
    fits = LEGS[0] <= legs <= LEGS[1] and TORSO[0] <= torso <= TORSO[1] and not status & ~KNOWN_STATUS
    return Stream(number, millis, (a, b, c, d), legs, torso, status) if fits else None


def _command(frame: bytes) -> Command | None:
    _, number, right, forward, turn, legs, torso = _COMMAND.unpack(frame[:-1])
    fits = max(right, forward, turn) <= 2 * SPEED_STEPS
    fits = fits and (legs == KEEP or LEGS[0] <= legs <= LEGS[1])
    fits = fits and (torso == KEEP or TORSO[0] <= torso <= TORSO[1])
    if not fits:
        return None
    return Command(number, right, forward, turn, None if legs == KEEP else legs, None if torso == KEEP else torso)


F = TypeVar("F", Stream, Command)


class FrameReader(Generic[F]):
    """Finds frames in a byte stream that arrives in pieces of any size.

    After an invalid frame, the search continues at the second byte of this frame, so that a valid frame that begins
    inside the invalid frame is found.

    frames   number of valid frames
    torn     number of truncated frames: the first bytes of another frame appear inside such a frame
    wrong    number of other invalid frames: wrong checksum or values out of range
    skipped  number of bytes outside of frames
    """

    def __init__(self, head: bytes, size: int, parse: Callable[[bytes], F | None]) -> None:
        self.frames = self.torn = self.wrong = self.skipped = 0
        self._head, self._size = head, size
        self._parse: Callable[[bytes], F | None] = parse
        self._buffer = bytearray()

    @property
    def bad(self) -> int:
        """Number of invalid frames so far: `torn` plus `wrong`."""
        return self.torn + self.wrong

    @property
    def waiting(self) -> int:
        """Number of buffered bytes, which may be the beginning of a frame."""
        return len(self._buffer)

    def feed(self, data: bytes) -> list[F]:
        """Add received bytes to the buffer. Returns the frames that are now complete, in order."""
        buffer, size = self._buffer, self._size
        buffer += data
        found: list[F] = []
        while True:
            start = buffer.find(self._head)
            if start < 0:
                start = len(buffer) - int(buffer.endswith(self._head[:1]))
            self._skip(start)
            if len(buffer) < size:
                return found
            right = checksum(bytes(buffer[2 : size - 1])) == buffer[size - 1]
            frame = self._parse(bytes(buffer[:size])) if right else None
            if frame is None:
                if self._ends_early():
                    self.torn += 1
                else:
                    self.wrong += 1
                self._skip(1)
            else:
                self.frames += 1
                found.append(frame)
                del buffer[:size]

    def _ends_early(self) -> bool:
        """Whether the first bytes of another frame appear inside the frame at the start of the buffer."""
        size, first = self._size, self._head[:1]
        return self._head in self._buffer[1 : size + 1] or (len(self._buffer) == size and self._buffer.endswith(first))

    def _skip(self, count: int) -> None:
        self.skipped += count
        del self._buffer[:count]


def stream_reader() -> FrameReader[Stream]:
    """A FrameReader of stream frames, which the board sends."""
    return FrameReader(HEAD, STREAM_BYTES, _stream)


def command_reader() -> FrameReader[Command]:
    """A FrameReader of command frames, which the board receives."""
    return FrameReader(COMMAND_HEAD, COMMAND_BYTES, _command)
