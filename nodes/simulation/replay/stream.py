"""Replay of a run that was not in lockstep: messages in the file's order, but for those that crossed on their way.

The recorder hears a reference and a state in one order, the controller may have heard them in the other. Around each
state that the node answered, the order is taken in which it says what was recorded; where none does, the file's.
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

CROSSING_S = 0.05  # messages this close in simulation time may have crossed


class Stream:
    """Tells a node what was recorded; `said` is what it answered.

    answers  {seq of a state: the command that was recorded in answer}
    agree    whether a replayed line is the recorded one
    crossed  states before which another number of messages was heard than in the file
    """

    def __init__(self, hosted: HostedNode, answers: Mapping[int, Line], agree: Callable[[Line, Line], bool]) -> None:
        self.said: list[Line] = []
        self.crossed = 0
        self._hosted = hosted
        self._answers = answers
        self._agree = agree
        self._kinds: dict[str, Any] = dict(hosted.publishes.values())
        hosted.out = self._take
        hosted.start()

    def tell(self, lines: Iterable[Line]) -> None:
        """Everything the node listens to, in order."""
        heard = [line for line in lines if self._hosted.wants(line.topic)]
        states = [i for i, line in enumerate(heard) if type(line.message) is RobotState]
        others = [i for i, line in enumerate(heard) if type(line.message) is not RobotState]
        rest = [heard[i] for i in others]
        told = shift = 0
        for i in states:
            usual = bisect.bisect_left(others, i)
            choices = self._choices(rest, heard[i], told, max(told, usual)) if rest else [usual]
            choice = self._try(heard[i], rest, told, choices)
            self.crossed += choice - usual != shift
            told, shift = choice, choice - usual
        self._hear(rest[told:])

    def _choices(self, rest: Sequence[Line], state: Line, told: int, usual: int) -> list[int]:
        """How many of the others may have been heard before this state, the file's number first."""
        first, last = usual, usual
        while first > told and rest[first - 1].time > state.time - CROSSING_S:
            first -= 1
        while last < len(rest) and rest[last].time < state.time + CROSSING_S:
            last += 1
        return sorted(range(first, last + 1), key=lambda n: abs(n - usual))

    def _try(self, state: Line, rest: Sequence[Line], told: int, choices: Sequence[int]) -> int:
        """Tell the state after as many of the others as agree with the recorded answer; that number."""
        answer = self._answers.get(state.message.seq)
        if answer is None or len(choices) == 1:
            self._hear([*rest[told : choices[0]], state])
            return choices[0]
        hosted, said = self._hosted, len(self.said)
        before, time = hosted.node, hosted.time
        for choice in [*choices, choices[0]]:  # the last: none agrees
            hosted.node, hosted.time = _copied(before, hosted), time
            del self.said[said:]
            self._hear([*rest[told:choice], state])
            if any(self._agree(answer, line) for line in self.said[said:] if line.topic == answer.topic):
                return choice
        return choices[0]

    def _hear(self, lines: Iterable[Line]) -> None:
        for line in lines:
            self._hosted.hear(line.topic, line.message)

    def _take(self, topic: str, payload: bytes) -> None:
        message = decode(topic, payload, self._kinds[topic])
        self.said.append(Line(topic, message, message.timestamp))


def _copied(node: Node, hosted: HostedNode) -> Node:
    """A copy of the node with a state of its own; the plan that its context holds is shared."""
    plan = hosted.context.plan
    return copy.deepcopy(node, {id(plan): plan})
