"""Payloads of states and poses: numbers are written into a message that was encoded once.

Apart from the stamp (timestamp, seq, sent_ns), the encoded message always has the same length: names and keys do not
change, and a number takes a marker byte and eight bytes, most significant first. A server that publishes hundreds of
states per second therefore builds no list and no message object per state. A state of the rotary pendulum takes 0.5 us,
against 4 us for making and encoding the message; a state of CHARMIE takes 0.6 us, against 5 us
(tests/benchmarks/shortcuts.py, the quicker of two runs).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from nodes.framework.messages import BodyPoses, Message, RobotState
from nodes.framework.messages.codec import encode
from sim_core.kernels.bound import BoundKernel
from sim_core.kernels.compiled import Intrinsic, native_function

NUMBER = struct.Struct(">cd")  # number in MessagePack: marker byte and double
MARK = b"\xcb"
FIRST_SIGN = -1.2345678901234567e-300  # placeholder numbers; their bytes occur in no name
SIGNATURE = "void(CPointer(CPointer(float64)), CPointer(CPointer(float64)))"


@Intrinsic
def _store_swapped(typing_context: Any, start: Any, offset: Any, value: Any) -> Any:
    """Store a double `offset` bytes after `start`, most significant byte first."""
    from llvmlite import ir
    from numba import types

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        at, offset, value = arguments
        byte, integer = ir.IntType(8), ir.IntType(64)
        place = builder.gep(builder.bitcast(at, byte.as_pointer()), [offset])
        bits = builder.bswap(builder.bitcast(value, integer))
        builder.store(bits, builder.bitcast(place, integer.as_pointer()), align=1)
        return context.get_dummy_value()

    return types.void(types.CPointer(types.float64), types.int64, types.float64), generate


@native_function(SIGNATURE)
def write_numbers(given, buffer):  # type: ignore[no-untyped-def]
    """Write n numbers as doubles into bytes.

    given   pointers to three arrays: [n], the n byte positions, and the n numbers
    buffer  pointer to the first byte of the message
    """
    for k in range(int(given[0][0])):
        _store_swapped(buffer[0], int(given[1][k]), given[2][k])


class Payload:
    """Encoded form of a message, into which the numbers of an array are written.

    `message` contains the placeholder numbers that `placeholders(buffer)` returns. In the payload, entry k of the array
    `buffer` takes the place of placeholder number k.

    write  kernel that writes the present entries of `buffer` into the payload
    """

    def __init__(self, message: Message, buffer: np.ndarray, topic: str) -> None:
        whole, stamp = encode(message, topic), _stamp(Message())
        begin = whole.index(stamp)
        self._begin, rest = whole[:begin], whole[begin + len(stamp) :]
        room = np.zeros(len(rest) // 8 + 1)
        self._rest = room.view(np.uint8).data[: len(rest)]
        self._rest[:] = rest
        places = [rest.index(NUMBER.pack(MARK, sign)) + len(MARK) for sign in placeholders(buffer)]
        given = [np.array([len(places)], dtype=float), np.array(places, dtype=float), buffer]
        self.write = BoundKernel(write_numbers.address, given, [room])

    def stamped(self, stamp: Message) -> bytes:
        """The payload with the timestamp, seq and sent_ns of the message `stamp`."""
        return b"".join((self._begin, _stamp(stamp), self._rest))


def placeholders(buffer: np.ndarray) -> list[float]:
    """Placeholder numbers, one per entry of `buffer`.

    In an encoded message, placeholder number k marks the place at which entry k of `buffer` is written.
    """
    return [FIRST_SIGN * (1.0 + k / 8192.0) for k in range(len(buffer))]


def state_payload(names: Sequence[str], outputs: Sequence[str], buffer: np.ndarray, topic: str) -> Payload:
    """Payload of a RobotState whose numbers come from `buffer`.

    The buffer contains, in this order: positions, velocities and efforts of the joints; phi and phidot, the 1-norms of
    the constraint violations and of their rates; energy; outputs; the poses (7 numbers each) of the joints in
    `Description.frames`; the twists (6 numbers each) of these joints.
    """
    n, marks = len(names), placeholders(buffer)
    last = 3 * n + 3 + len(outputs)
    twists = last + 7 * ((len(buffer) - last) // 13)
    state = RobotState(
        name=list(names),
        position=marks[:n],
        velocity=marks[n : 2 * n],
        effort=marks[2 * n : 3 * n],
        outputs=dict(zip(outputs, marks[3 * n + 3 : last], strict=True)),
        frames=marks[last:twists],
        twists=marks[twists:],
    )
    state.phi, state.phidot, state.energy = marks[3 * n : 3 * n + 3]
    return Payload(state, buffer, topic)


def poses_payload(placed: np.ndarray, topic: str) -> Payload:
    """Payload of a BodyPoses message whose numbers come from `placed`: positions (3n,), then quaternions (4n,), of n
    bodies.
    """
    marks, last = placeholders(placed), 3 * (len(placed) // 7)
    return Payload(BodyPoses(p=marks[:last], quaternion=marks[last:]), placed, topic)


def _stamp(message: Message) -> bytes:
    """Encoded timestamp, seq and sent_ns: the first three fields of every encoded message."""
    return encode(message)[1:]
