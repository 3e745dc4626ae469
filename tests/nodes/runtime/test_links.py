"""What a listener hears that fell behind: all of it, or the latest where the latest says all."""

from __future__ import annotations

from typing import Any

import pytest
import zmq

from nodes.runtime.links import Heard, Links
from nodes.wire.messages import JointCommand, Message, RobotState


class Backlog:
    """A feed on which messages wait."""

    source = "sim"

    def __init__(self, messages: list[tuple[str, Message]]) -> None:
        self.socket = self
        self.lost = 0
        self._waiting = iter(messages)

    def receive(self) -> tuple[str, Message, bytes] | None:
        heard = next(self._waiting, None)
        return None if heard is None else (*heard, b"")

    def close(self) -> None: ...


def waiting(states: int) -> list[tuple[str, Message]]:
    """States, and among them a command each hundred."""
    messages: list[tuple[str, Message]] = []
    for seq in range(1, states + 1):
        messages.append(("arm/state", RobotState(seq=seq)))
        if seq % 100 == 0:
            messages.append(("arm/command", JointCommand(seq=seq // 100)))
    return messages


@pytest.mark.parametrize(
    ("states", "keeps_all", "heard_states", "stale"),
    [
        (60, False, list(range(1, 61)), 0),  # not far behind
        (5000, False, [1, 5000], 4998),  # the first is given at once: the usual case is one
        (5000, True, list(range(1, 5001)), 0),
    ],
)
def test_who_fell_far_behind_hears_the_latest_state_and_counts_the_rest(
    states: int, keeps_all: bool, heard_states: list[int], stale: int
) -> None:
    links = Links(zmq.Context.instance(), "damp", {}, keeps_all)
    feed: Any = Backlog(waiting(states))
    links.subscriber.feeds["sim"] = feed
    heard: list[Heard] = []
    before = -1
    while len(heard) > before:  # it polls as awake while messages wait
        before = len(heard)
        links.drain({feed}, heard.append)
    assert [message.seq for _, _, message, _ in heard if isinstance(message, RobotState)] == heard_states
    commands = [message.seq for _, _, message, _ in heard if isinstance(message, JointCommand)]
    assert commands == list(range(1, states // 100 + 1))  # each says something of its own
    assert (links.stale, links.lost) == (stale, stale)
