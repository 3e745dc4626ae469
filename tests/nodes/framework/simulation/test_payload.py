"""The payload of a state or of poses is, byte for byte, what the codec makes of the message."""

from __future__ import annotations

from functools import partial

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodes.framework.messages import BodyPoses, Message, RobotState
from nodes.framework.messages.codec import WireError, decode, encode
from nodes.framework.simulation.payload import poses_payload, state_payload

TOPIC = "arm/state"


@settings(deadline=None)  # the first one compiles
@given(st.data())
@pytest.mark.parametrize(("joints", "outputs", "frames"), [(0, 0, 0), (1, 0, 0), (4, 3, 2), (21, 1, 1), (40, 20, 0)])
def test_a_payload_has_the_bytes_of_the_encoded_message(
    joints: int, outputs: int, frames: int, data: st.DataObject
) -> None:
    names, said = [f"joint_{k}é" for k in range(joints)], [f"out_{k}" for k in range(outputs)]
    last = 3 * joints + 3 + outputs
    buffer = np.zeros(last + 13 * frames)
    payload = state_payload(names, said, buffer, TOPIC)
    for _ in range(2):  # nothing of the one before stays
        buffer[:] = data.draw(st.lists(st.floats(), min_size=len(buffer), max_size=len(buffer)))
        numbers = buffer.tolist()
        stamp = Message(
            timestamp=data.draw(st.floats(0.0, 1e9)),
            seq=data.draw(st.integers(0, 2**53)),
            sent_ns=data.draw(st.integers(0, 2**63 - 1)),
        )
        phi, phidot, energy = numbers[3 * joints : 3 * joints + 3]
        state = RobotState(
            timestamp=stamp.timestamp,
            seq=stamp.seq,
            sent_ns=stamp.sent_ns,
            name=names,
            position=numbers[:joints],
            velocity=numbers[joints : 2 * joints],
            effort=numbers[2 * joints : 3 * joints],
            phi=phi,
            phidot=phidot,
            energy=energy,
            outputs=dict(zip(said, numbers[3 * joints + 3 : last], strict=True)),
            frames=numbers[last : last + 7 * frames],
            twists=numbers[last + 7 * frames :],
        )
        payload.write()
        said_now = payload.stamped(stamp)
        assert said_now == msgspec.msgpack.encode(state)
        if np.isfinite(buffer[: 3 * joints]).all() and np.isfinite(buffer[last:]).all():
            assert said_now == encode(state, TOPIC)
        else:  # who receives it refuses it, as the codec does here
            for refuses in (partial(encode, state, TOPIC), partial(decode, TOPIC, said_now)):
                with pytest.raises(WireError, match="is not finite"):
                    refuses()


@pytest.mark.parametrize("bodies", [0, 1, 23])
def test_poses_have_the_bytes_of_the_encoded_message(bodies: int) -> None:
    placed = np.zeros(7 * bodies)
    payload = poses_payload(placed, "arm/body_poses")
    placed[:] = np.random.default_rng(1).normal(size=len(placed))
    payload.write()
    p, quaternion = placed[: 3 * bodies].tolist(), placed[3 * bodies :].tolist()
    stamp = Message(timestamp=0.25, seq=300, sent_ns=1_700_000_000_000_000_000)
    poses = BodyPoses(timestamp=0.25, seq=300, sent_ns=stamp.sent_ns, p=p, quaternion=quaternion)
    assert payload.stamped(stamp) == encode(poses, "arm/body_poses")
