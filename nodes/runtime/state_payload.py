"""The payload of a RobotState, its numbers written into bytes that were encoded once.

All but the stamp has the same length every time: names and keys stay, a number is a mark and eight bytes, the most
significant first. So a server that says a state hundreds of times a second makes no list and no message for it.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from nodes.wire.codec import encode
from nodes.wire.messages import Message, RobotState
from sim_core.kernels.bound import BoundKernel
from sim_core.kernels.compiled import native_function

NUMBER = struct.Struct(">cd")  # of MessagePack: a mark, and a double
MARK = b"\xcb"
FIRST_SIGN = -1.2345678901234567e-300  # no name has the bytes of these numbers
SIGNATURE = types.void(*2 * [types.CPointer(types.CPointer(types.float64))])


@intrinsic  # type: ignore[untyped-decorator]
def _store_swapped(typing_context: Any, start: Any, offset: Any, value: Any) -> Any:
    """A double so many bytes after `start`, its most significant byte first."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        at, offset, value = arguments
        byte, integer = ir.IntType(8), ir.IntType(64)
        place = builder.gep(builder.bitcast(at, byte.as_pointer()), [offset])
        bits = builder.bswap(builder.bitcast(value, integer))
        builder.store(bits, builder.bitcast(place, integer.as_pointer()), align=1)
        return context.get_dummy_value()

    return types.void(types.CPointer(types.float64), types.int64, types.float64), generate


@native_function(SIGNATURE)
def write_numbers(given, told):  # type: ignore[no-untyped-def]
    """Numbers into bytes: given [n], where each goes, numbers; told: the bytes."""
    for k in range(int(given[0][0])):
        _store_swapped(told[0], int(given[1][k]), given[2][k])


class StatePayload:
    """Encodes what `told` has: position, velocity, effort of each name, phi, phidot, energy, outputs, in this order.

    write  kernel that takes over the numbers of `told`; `stamped` puts a stamp before them
    """

    def __init__(self, names: Sequence[str], outputs: Sequence[str], told: np.ndarray, topic: str) -> None:
        n = len(names)
        signs = [FIRST_SIGN * (1.0 + k / 8192.0) for k in range(len(told))]
        state = RobotState(
            name=list(names),
            position=signs[:n],
            velocity=signs[n : 2 * n],
            effort=signs[2 * n : 3 * n],
            outputs=dict(zip(outputs, signs[3 * n + 3 :], strict=True)),
        )
        state.phi, state.phidot, state.energy = signs[3 * n : 3 * n + 3]
        whole, stamp = encode(state, topic), _stamp(Message())
        begin = whole.index(stamp)
        self._begin, rest = whole[:begin], whole[begin + len(stamp) :]
        room = np.zeros(len(rest) // 8 + 1)
        self._rest = room.view(np.uint8).data[: len(rest)]
        self._rest[:] = rest
        places = [rest.index(NUMBER.pack(MARK, sign)) + len(MARK) for sign in signs]
        given = [np.array([len(places)], dtype=float), np.array(places, dtype=float), told]
        self.write = BoundKernel(write_numbers.address, given, [room])

    def stamped(self, stamp: Message) -> bytes:
        """The payload with the timestamp, seq and sent_ns of this message."""
        return b"".join((self._begin, _stamp(stamp), self._rest))


def _stamp(message: Message) -> bytes:
    """What every message begins with, after the count of its fields."""
    return encode(message)[1:]
