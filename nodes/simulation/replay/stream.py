"""Replay of a run that was not in lockstep: messages in the file's order, except for those that may have crossed.

The recorder may have received a reference and a state in another order than the controller did. Around each state that
the node replied to, the replay uses the order that reproduces the recorded reply; where none does, the file's order.
"""

from __future__ import annotations

import bisect
import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from nodes.hosting.hosted import HostedNode
from nodes.messages import RobotState
from nodes.messages.codec import decode
from nodes.node import Node
from nodes.simulation.replay.comparison import Line

CROSSING_S = 0.05  # messages closer than this in simulation time may have crossed


class Stream:
    """Passes recorded messages to a node; `published` collects the messages that the node publishes.

    answers  {seq of a state: the recorded command in reply to that state}
    agree    function of a recorded and a replayed line: whether they agree
    crossed  number of states at which the order of messages differs from the file's
    """

    def __init__(self, hosted: HostedNode, answers: Mapping[int, Line], agree: Callable[[Line, Line], bool]) -> None:
        self.published: list[Line] = []
        self.crossed = 0
        self._hosted = hosted
        self._answers = answers
        self._agree = agree
        self._kinds: dict[str, Any] = dict(hosted.publishes.values())
        hosted.out = self._take
        hosted.start()

    def feed(self, lines: Iterable[Line]) -> None:
        """Pass all messages that the node subscribes to, in order."""
        heard = [line for line in lines if self._hosted.wants(line.topic)]
        states = [i for i, line in enumerate(heard) if type(line.message) is RobotState]
        others = [i for i, line in enumerate(heard) if type(line.message) is not RobotState]
        rest = [heard[i] for i in others]
        passed = shift = 0
        for i in states:
            in_file = bisect.bisect_left(others, i)
            choices = self._choices(rest, heard[i], passed, max(passed, in_file)) if rest else [in_file]
            choice = self._try(heard[i], rest, passed, choices)
            self.crossed += choice - in_file != shift
            passed, shift = choice, choice - in_file
        self._pass(rest[passed:])

    def _choices(self, rest: Sequence[Line], state: Line, passed: int, in_file: int) -> list[int]:
        """Numbers of other messages that the node may have received before this state, with the number by file order
        first."""
        first, last = in_file, in_file
        while first > passed and rest[first - 1].time > state.time - CROSSING_S:
            first -= 1
        while last < len(rest) and rest[last].time < state.time + CROSSING_S:
            last += 1
        return sorted(range(first, last + 1), key=lambda n: abs(n - in_file))

    def _try(self, state: Line, rest: Sequence[Line], passed: int, choices: Sequence[int]) -> int:
        """Pass the state to the node, after as many other messages as are needed to reproduce the recorded reply.

        Returns the number of these messages.
        """
        answer = self._answers.get(state.message.seq)
        if answer is None or len(choices) == 1:
            self._pass([*rest[passed : choices[0]], state])
            return choices[0]
        hosted, published = self._hosted, len(self.published)
        before, time = hosted.node, hosted.time
        for choice in [*choices, choices[0]]:  # the last entry: no order agrees
            hosted.node, hosted.time = _copied(before, hosted), time
            del self.published[published:]
            self._pass([*rest[passed:choice], state])
            if any(self._agree(answer, line) for line in self.published[published:] if line.topic == answer.topic):
                return choice
        return choices[0]

    def _pass(self, lines: Iterable[Line]) -> None:
        for line in lines:
            self._hosted.receive(line.topic, line.message)

    def _take(self, topic: str, payload: bytes) -> None:
        if topic == self._hosted.plot_topic:
            return
        message = decode(topic, payload, self._kinds[topic])
        self.published.append(Line(topic, message, message.timestamp))


def _copied(node: Node, hosted: HostedNode) -> Node:
    """A copy of the node with its own copy of the state; only the plan in the context is shared."""
    plan = hosted.context.plan
    return copy.deepcopy(node, {id(plan): plan})
