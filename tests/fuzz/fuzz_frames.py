"""Real frames as a launch sends them, and seeded mutations of them."""

from __future__ import annotations

import os
import random
import struct
from typing import Any

import msgspec

from nodes.framework.messages import Message
from nodes.framework.messages import structs as messages
from nodes.framework.messages.codec import encode
from nodes.framework.transport.registry import NodeEntry

ROBOT = "rotary_pendulum"

Frames = list[bytes]


class Mutator:
    """Seeded changes of frames: bits, bytes, lengths, extreme numbers, parts of others, more or fewer frames."""

    NUMBERS = (
        *(b"\xcb" + struct.pack(">d", x) for x in (float("nan"), float("inf"), -1.0, 1e308, 5e-324, 9e9)),
        *(b"\xcf" + struct.pack(">Q", x) for x in (0, 2**53, 2**63, 2**64 - 1)),
        b"\xd3" + struct.pack(">q", -(2**63)),
        *(
            b"\xdd\xff\xff\xff\xff",
            b"\xdf\xff\xff\xff\xff",
            b"\xdb\xff\xff\xff\xff",
            b"\xc0",
            b"\xc1",
            b"\x90",
            b"\x80",
        ),
    )

    def __init__(self, seed: int) -> None:
        self._dice = random.Random(seed)

    def mutate(self, real: list[Frames]) -> Frames:
        """One of these messages with one to four changes."""
        dice = self._dice
        frames = list(dice.choice(real))
        for _ in range(dice.choice((1, 1, 1, 2, 4))):
            index = dice.randrange(len(frames))
            frames[index] = dice.choice(self._changes)(self, frames[index], dice.choice(dice.choice(real)))
        if dice.random() < 0.05:
            frames.insert(dice.randrange(len(frames) + 1), dice.randbytes(dice.randrange(4)))
        elif dice.random() < 0.05 and len(frames) > 1:
            frames.pop(dice.randrange(len(frames)))
        return frames

    def _flip(self, frame: bytes, _: bytes) -> bytes:
        at = self._place(frame)
        return frame[:at] + bytes([(frame[at] if frame else 0) ^ (1 << self._dice.randrange(8))]) + frame[at + 1 :]

    def _insert(self, frame: bytes, _: bytes) -> bytes:
        at = self._place(frame)
        return frame[:at] + self._dice.randbytes(self._dice.randrange(1, 9)) + frame[at:]

    def _delete(self, frame: bytes, _: bytes) -> bytes:
        at = self._place(frame)
        return frame[:at] + frame[at + self._dice.randrange(1, 9) :]

    def _cut(self, frame: bytes, _: bytes) -> bytes:
        return frame[: self._place(frame)]

    def _number(self, frame: bytes, _: bytes) -> bytes:
        at = self._place(frame)
        number = self._dice.choice(self.NUMBERS)
        return frame[:at] + number + frame[at + self._dice.choice((0, 1, len(number))) :]

    def _splice(self, frame: bytes, other: bytes) -> bytes:
        return frame[: self._place(frame)] + other[self._place(other) :]

    def _nest(self, frame: bytes, _: bytes) -> bytes:
        at = self._place(frame)
        return frame[:at] + self._dice.choice((b"\x91", b"\x81\xa1k")) * self._dice.choice((3, 200, 5000)) + frame[at:]

    def _again(self, frame: bytes, _: bytes) -> bytes:
        return frame * self._dice.randrange(2, 4)

    def _place(self, frame: bytes) -> int:
        return self._dice.randrange(len(frame)) if frame else 0

    _changes = (_flip, _flip, _flip, _insert, _delete, _cut, _number, _number, _splice, _nest, _again)


def stream() -> list[tuple[str, Message]]:
    """A message of every topic, as a launch says them."""
    m = messages
    joints = {"name": ["arm", "pendulum"], "position": [0.1, 3.1], "velocity": [0.2, -0.3], "effort": [0.01, 0.0]}
    description = m.Description(
        robot=ROBOT,
        joints=[m.JointDescription(name="arm", lower=-2.0, upper=2.0), m.JointDescription(name="pendulum")],
        actuators=[m.ActuatorDescription(name="arm", joint="arm", effort_limit=0.05)],
        bodies=[m.BodyDescription(name="arm", mass=0.1, shapes=[m.Shape(kind="box", size=[0.1, 0.1, 0.2])])],
        parameters={"torque_limit": 0.05},
        outputs=["tip"],
        step_s=1e-3,
    )
    said: dict[str, Message] = {
        "description": description,
        "state": m.RobotState(**joints, phi=1e-12, energy=0.02, outputs={"tip": 0.1}),
        "body_poses": m.BodyPoses(p=[0.0] * 6, quaternion=[1.0, 0.0, 0.0, 0.0] * 2),
        "command": m.JointCommand(name=["arm"], value=[0.02], state_seq=7),
        "reference": m.JointReference(name=["arm"], position=[0.5], velocity=[0.1], acceleration=[0.0]),
        "event": m.Event(kind="set", node="swing_up", key="gain", old="1", new="2"),
        "cmd_vel": m.Twist(linear=[0.0, 0.2, 0.0]),
        "enable": m.Enable(pressed=True),
        "encoders": m.Encoders(name=["wheel"], count=[1234], pulses_per_turn=2250),
        "measured_state": m.RobotState(**joints),
        "residual": m.Residual(name=["arm"], position=[0.001], state_seq=7),
    }
    status = m.Status(node="sim", state="running", counters={"lost": 0}, timing={"step_p50_s": 1e-4})
    rows = [(f"{ROBOT}/{name}", message) for name, message in said.items()] + [("status", status)]
    for seq, (_, message) in enumerate(rows, 1):
        message.seq, message.timestamp, message.sent_ns = seq, 1.25, 1_700_000_000_000_000_000
    return rows


def stream_frames() -> list[Frames]:
    """The same as [topic, payload]."""
    return [[topic.encode(), encode(message, topic)] for topic, message in stream()]


def calls() -> list[Frames]:
    """Calls as the command line and the nodes make them, the registry's among them."""
    entry = NodeEntry(name="damp", pid=os.getpid(), endpoints={"data": "ipc:///tmp/a", "service": "ipc:///tmp/b"})
    made: list[tuple[str, dict[str, Any]]] = [
        ("status", {}),
        ("speed", {"x": 2.0}),
        ("set_parameters", {"gain": 1.0, "names": ["a", "b"]}),
        ("register", msgspec.to_builtins(entry)),
        ("ready", {"name": "damp"}),
        ("nodes", {}),
        ("unregister", {"name": "damp"}),
    ]
    whole = [msgspec.msgpack.encode({"id": i, "call": name, "args": args}) for i, (name, args) in enumerate(made)]
    return [[payload] for payload in whole] + [[b"", payload] for payload in whole]


def turns() -> list[Frames]:
    """Requests for lockstep turns."""
    heard = [(topic, encode(message, topic)) for topic, message in stream()]
    return [[msgspec.msgpack.encode((seq, 0.001 * seq, heard[:seq]))] for seq in range(len(heard))]
