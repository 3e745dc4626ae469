"""What a replayed node said beside what was recorded: field by field, with tolerances."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from nodes.messages import Message

NOT_COMPARED = frozenset({"seq", "sent_ns"})  # the publisher's count and clock, not the node's word


@dataclass(frozen=True)
class Line:
    """One recorded message: its topic, decoded, and its time in s."""

    topic: str
    message: Message
    time: float


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """One field that came out otherwise, or a message that one of the two lacks (`field` is "" then).

    time, seq  of the recorded message, or of the replayed one where none was recorded
    """

    topic: str
    time: float
    seq: int
    field: str
    recorded: Any
    replayed: Any

    @property
    def text(self) -> str:
        """One line for a person."""
        where = f"{self.topic} at t = {self.time:.6g} s (seq {self.seq})"
        if not self.field:
            return f"{where}: {'not said in the replay' if self.replayed is None else 'said in the replay only'}"
        return f"{where}: {self.field} was {self.recorded!r}, is {self.replayed!r}"


class Outcome(msgspec.Struct, kw_only=True):
    """What a replay came to.

    compared     messages that were set side by side
    differing    messages that differ, or that one of the two lacks
    first        the first of them, field by field
    worst        {field: the largest difference of a number in it, in the field's unit}
    unanswered   messages of the replay that a run in real time did not say, no difference: it may have missed some
    crossed      times that the node must have heard messages in another order than the recorder
    refused      messages of the node that are none, or that it was told and are none
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
        """Whether something was compared and nothing differs."""
        return self.compared > 0 and self.differing == 0


@dataclass(frozen=True)
class Tolerances:
    """How far numbers may be apart: |a - b| <= t max(1, |b|), `t` of the field's name or `default`."""

    default: float = 0.0
    fields: Mapping[str, float] = field(default_factory=dict)

    def of(self, name: str) -> float:
        """The tolerance of a field; "outputs.height" asks "outputs.height", then "outputs"."""
        plain = re.sub(r"\[.*?\]", "", name)
        return self.fields.get(plain, self.fields.get(plain.partition(".")[0], self.default))


def compare(
    recorded: Sequence[Line], said: Sequence[Line], outcome: Outcome, tolerances: Tolerances, strict: bool
) -> None:
    """Pair and compare all messages, and note in the outcome what differs.

    strict  what is said in the replay alone differs; otherwise a node may have missed messages, and it does not
    """
    waiting: dict[Any, list[Line]] = {}
    for line in said:
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
    """What pairs two messages: the state that a command answers, the time of all else."""
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
    """The fields beyond their tolerance; `worst` takes note of the largest difference of each."""
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
    """How far two numbers are apart; those that are both not numbers, or equal infinities, are not."""
    if old == new or (math.isnan(old) and math.isnan(new)):
        return 0.0
    apart = abs(old - new)
    return math.inf if math.isnan(apart) else apart
