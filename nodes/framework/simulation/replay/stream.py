"""Replay of a run that was not in lockstep: messages in the file's order, except for messages that may have crossed.

Messages cross if the recorder and the node receive them in different orders, for example a reference and a state. For
each state that the node replied to, the replay tries different orders of the messages close to this state, and uses the
first order that reproduces the recorded reply. If no order reproduces the reply, the replay uses the file's order.
"""

from __future__ import annotations

import bisect
import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from nodes.framework.hosting.hosted import HostedNode
from nodes.framework.messages import RobotState
from nodes.framework.messages.codec import decode
from nodes.framework.simulation.replay.comparison import Line
from nodes.node import Node

CROSSING_S = 0.05  # messages closer than this in simulation time may have crossed


class Stream:
    """Passes recorded messages to a node; `published` collects the messages that the node publishes.

    answers  {seq of a state: the recorded command in reply to the state}
    agree    function that takes a recorded and a replayed message and returns whether the two agree
    crossed  number of times that the order of reception, deduced from the node's replies, begins or ceases to differ
             from the file's order
    """

    def __init__(self, hosted: HostedNode, answers: Mapping[int, Line], agree: Callable[[Line, Line], bool]) -> None:
        self.published: list[Line] = []
        self.crossed = 0
        self._hosted = hosted
        self._answers = answers
        self._agree = agree
        self._kinds: dict[str, Any] = dict(hosted.messages.publishes.values())
        hosted.messages.out = self._add_output
        hosted.start()

    def feed(self, lines: Iterable[Line]) -> None:
        """Pass all messages that the node subscribes to, in order."""
        received = [line for line in lines if self._hosted.subscribes_to(line.topic)]
        states = [i for i, line in enumerate(received) if type(line.message) is RobotState]
        others = [i for i, line in enumerate(received) if type(line.message) is not RobotState]
        rest = [received[i] for i in others]
        passed = shift = 0
        for i in states:
            in_file = bisect.bisect_left(others, i)
            choices = self._choices(rest, received[i], passed, max(passed, in_file)) if rest else [in_file]
            choice = self._try(received[i], rest, passed, choices)
            self.crossed += choice - in_file != shift
            passed, shift = choice, choice - in_file
        self._pass(rest[passed:])

    def _choices(self, rest: Sequence[Line], state: Line, passed: int, in_file: int) -> list[int]:
        """Possible values of n, where n is how many messages of `rest` the node received before it received the state.

        Several values are possible, because the recorder and the node may have received messages close to the state in
        different orders. The values are sorted by their distance from `in_file`, the value of n by the file's order.

        rest    all messages except robot states, in the file's order
        passed  number of messages of `rest` that the node has received already
        """
        first, last = in_file, in_file
        while first > passed and rest[first - 1].time > state.time - CROSSING_S:
            first -= 1
        while last < len(rest) and rest[last].time < state.time + CROSSING_S:
            last += 1
        return sorted(range(first, last + 1), key=lambda n: abs(n - in_file))

    def _try(self, state: Line, rest: Sequence[Line], passed: int, choices: Sequence[int]) -> int:
        """Pass messages of `rest` and then the state to the node, such that the node gives the recorded reply.

        The numbers in `choices` are tried in order. With the number n, the node receives the first n messages of `rest`
        (except the first `passed` messages, which it has received already), and then the state. If no number
        reproduces the reply, the first number is used. Returns the number that was used.
        """
        answer = self._answers.get(state.message.seq)
        if answer is None or len(choices) == 1:
            self._pass([*rest[passed : choices[0]], state])
            return choices[0]
        hosted, published = self._hosted, len(self.published)
        before, time = hosted.node, hosted.messages.time
        for choice in [*choices, choices[0]]:  # the last entry: no order agrees
            hosted.node, hosted.messages.time = _copied(before, hosted), time
            del self.published[published:]
            self._pass([*rest[passed:choice], state])
            if any(self._agree(answer, line) for line in self.published[published:] if line.topic == answer.topic):
                return choice
        return choices[0]

    def _pass(self, lines: Iterable[Line]) -> None:
        for line in lines:
            self._hosted.receive(line.topic, line.message)

    def _add_output(self, topic: str, payload: bytes) -> None:
        if topic == self._hosted.messages.plot_topic:
            return
        message = decode(topic, payload, self._kinds[topic])
        self.published.append(Line(topic, message, message.timestamp))


def _copied(node: Node, hosted: HostedNode) -> Node:
    """A copy of the node with its own copy of the state; only the plan in the context is shared."""
    plan = hosted.context.plan
    return copy.deepcopy(node, {id(plan): plan})
