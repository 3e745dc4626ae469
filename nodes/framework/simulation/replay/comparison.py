"""Compares the messages of a replayed node with the recorded ones, field by field, with tolerances."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from nodes.framework.messages import Message

NOT_COMPARED = frozenset({"seq", "sent_ns"})  # set by the publisher, not by the node


@dataclass(frozen=True)
class Line:
    """One recorded message: topic, decoded message, and simulation time in s."""

    topic: str
    message: Message
    time: float


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """A field whose values differ; or, if `field` is "", a message that is only in the recording or only in the replay.

    time, seq  time (s) and sequence number of the recorded message or, for a message that is only in the replay, of the
               replayed message
    """

    topic: str
    time: float
    seq: int
    field: str
    recorded: Any
    replayed: Any

    @property
    def text(self) -> str:
        """The difference as one line for the user."""
        where = f"{self.topic} at t = {self.time:.6g} s (seq {self.seq})"
        if not self.field:
            return f"{where}: published {'in the recording' if self.replayed is None else 'in the replay'} only"
        return f"{where}: {self.field} was {self.recorded!r} in the recording, is {self.replayed!r} in the replay"


class Outcome(msgspec.Struct, kw_only=True):
    """Result of a replay.

    compared     number of pairs of messages compared
    differing    number of differing messages: pairs that differ, and messages that are only in the recording or only in
                 the replay
    first        differences in the first differing message, ordered by topic and seq
    worst        {field: largest difference of a number in the field, in the field's unit}
    unanswered   number of replayed messages without a recorded counterpart, in the replay of a run outside lockstep;
                 they do not count as differing, because the recorded node may have missed the messages to which the
                 replayed node replies
    crossed      number of times that the order of reception, deduced from the node's replies, begins or ceases to
                 differ from the file's order
    refused      number of invalid messages that the node published or received
    """

    node: str
    run: str
    mode: str
    heard: int = 0
    compared: int = 0
    differing: int = 0
    first: list[Difference] = []
    worst: dict[str, float] = {}
    unanswered: int = 0
    crossed: int = 0
    refused: int = 0

    @property
    def same(self) -> bool:
        """Whether at least one pair was compared and nothing differs."""
        return self.compared > 0 and self.differing == 0


@dataclass(frozen=True)
class Tolerances:
    """Permitted differences of a recorded number a and a replayed number b: |a - b| <= t max(1, |a|).

    The tolerance t is that of the field in `fields`, otherwise `default`.
    """

    default: float = 0.0
    fields: Mapping[str, float] = field(default_factory=dict)

    def of(self, name: str) -> float:
        """Tolerance of the field `name`.

        For the field "outputs.height", this is the tolerance given for "outputs.height", otherwise the tolerance given
        for "outputs", otherwise the default tolerance.
        """
        plain = re.sub(r"\[.*?\]", "", name)
        return self.fields.get(plain, self.fields.get(plain.partition(".")[0], self.default))


def compare(
    recorded: Sequence[Line], replayed_lines: Sequence[Line], outcome: Outcome, tolerances: Tolerances, strict: bool
) -> None:
    """Pair and compare all messages, and add the differences to `outcome`.

    strict  whether a message that is only in the replay counts as a difference; false if the recorded node may have
            missed messages
    """
    waiting: dict[Any, list[Line]] = {}
    for line in replayed_lines:
        waiting.setdefault(_key(line), []).append(line)
    for line in recorded:
        found = waiting.get(_key(line))
        if not found:
            lacks = Difference(
                topic=line.topic, time=line.time, seq=line.message.seq, field="", recorded=_plain(line), replayed=None
            )
            _differ(outcome, [lacks])
            continue
        outcome.compared += 1
        found_here = list(differences(line, found.pop(0), tolerances, outcome.worst))
        if found_here:
            _differ(outcome, found_here)
    left = [line for lines in waiting.values() for line in lines]
    if not strict:
        outcome.unanswered = len(left)
        return
    for line in sorted(left, key=lambda line: line.time):
        more = Difference(
            topic=line.topic, time=line.time, seq=line.message.seq, field="", recorded=None, replayed=_plain(line)
        )
        _differ(outcome, [more])


def _differ(outcome: Outcome, differences: list[Difference]) -> None:
    outcome.differing += 1
    if not outcome.first or (differences[0].topic, differences[0].seq) < (outcome.first[0].topic, outcome.first[0].seq):
        outcome.first = differences


def _key(line: Line) -> Any:
    """Key by which a recorded and a replayed message are paired.

    The key is (topic, seq of the state that the message replies to). For a message that replies to no state, the
    message's timestamp takes the place of the seq.
    """
    state_seq = getattr(line.message, "state_seq", None)
    return (
        (line.topic, "state_seq", state_seq)
        if state_seq is not None
        else (line.topic, round(line.message.timestamp, 9))
    )


def _plain(line: Line) -> Any:
    return msgspec.to_builtins(line.message)


def differences(
    recorded: Line, replayed: Line, tolerances: Tolerances, worst: dict[str, float] | None = None
) -> Iterator[Difference]:
    """The fields that differ by more than their tolerance; updates `worst`, the largest difference of each field."""
    worst = {} if worst is None else worst
    before, after = _plain(recorded), _plain(replayed)
    for name in before:
        if name in NOT_COMPARED:
            continue
        for place, old, new in _leaves(name, before[name], after.get(name)):
            if _is_number(old) and _is_number(new):
                apart = _apart(old, new)
                plain = re.sub(r"\[.*?\]", "", place)
                worst[plain] = max(worst.get(plain, 0.0), apart)
                if apart <= tolerances.of(place) * max(1.0, abs(old)):
                    continue
            elif old == new:
                continue
            yield Difference(
                topic=recorded.topic,
                time=recorded.time,
                seq=recorded.message.seq,
                field=place,
                recorded=old,
                replayed=new,
            )


def _leaves(name: str, old: Any, new: Any) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (a, b) in enumerate(zip(old, new, strict=True)):
            yield from _leaves(f"{name}[{index}]", a, b)
    elif isinstance(old, dict) and isinstance(new, dict) and old.keys() == new.keys():
        for key in old:
            yield from _leaves(f"{name}.{key}", old[key], new[key])
    else:
        yield name, old, new


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _apart(old: float, new: float) -> float:
    """Absolute difference of two numbers: 0 for equal infinities and for two NaN; infinite if only one is NaN."""
    if old == new or (math.isnan(old) and math.isnan(new)):
        return 0.0
    apart = abs(old - new)
    return math.inf if math.isnan(apart) else apart
