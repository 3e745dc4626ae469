"""Holes: missing messages of a recording, with their time span and number."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

DAMAGED, CUT_OFF, NOT_WRITTEN, LOST = "damaged", "cut off", "not written", "lost"
UNREADABLE = "unreadable"
MOST_TOPICS = 4  # most topics named in one line
MOST_HOLES = 5  # most holes described in one line


class Hole(msgspec.Struct, kw_only=True):
    """Messages missing at one position of a recording.

    start_s   log time of the message before the hole, simulation seconds; None at the beginning of the file
    end_s     log time of the message after the hole, simulation seconds; None at the end of the file
    messages  {topic: number of missing messages}
    counted   false if the total number of missing messages is unknown, so that `messages` may be too low
    cause     "damaged": the file's bytes were changed; "cut off": the writer was killed or its disk was full;
              "not written": the recorder had to drop messages; "lost": the messages did not reach the recorder;
              "unreadable": messages of another program that are no JSON object or have an impossible time
    reason    why the first of the messages cannot be read; "" for other causes
    """

    start_s: float | None
    end_s: float | None
    messages: dict[str, int] = {}
    counted: bool = True
    cause: str = DAMAGED
    reason: str = ""

    @property
    def span(self) -> str:
        """The time span as text, such as "t = 1.000 .. 1.500 s"."""
        start = "the beginning" if self.start_s is None else f"t = {self.start_s:.3f}"
        end = "the end" if self.end_s is None else f"{self.end_s:.3f} s"
        return f"{start}{' s' if self.end_s is None and self.start_s is not None else ''} .. {end}"

    @property
    def length_s(self) -> float | None:
        """Duration from the message before the hole (missing messages) to the message after it, s.

        None if there is no message before or no message after, or if simulation time was set back in the hole.
        """
        if self.start_s is None or self.end_s is None or self.end_s < self.start_s:
            return None
        return self.end_s - self.start_s

    def text(self) -> str:
        """A line such as "t = 1.000 .. 1.500 s (damaged): 550 messages are missing, arm/state 500, arm/command 50"."""
        if not self.counted:
            if self.cause == CUT_OFF:
                return f"{self.span} (cut off): the file was not closed, the number of later messages is unknown"
            what = "an unknown number of messages is missing"
            return f"{self.span} ({self.cause}): {what}"
        why = f" ({self.reason})" if self.reason else ""
        return f"{self.span} ({self.cause}): {missing_text(self.messages)}{why}"

    def covers(self, topic: str) -> bool:
        """Whether messages of this topic may be missing in the hole."""
        return not self.counted or topic in self.messages


def missing_text(messages: Mapping[str, int]) -> str:
    """Text such as "550 messages are missing, arm/state 500, arm/command 50"."""
    total = sum(messages.values())
    ranked = sorted(messages.items(), key=lambda row: -row[1])
    named = ", ".join(f"{topic} {count}" for topic, count in ranked[:MOST_TOPICS])
    more = f" and {len(ranked) - MOST_TOPICS} more topics" if len(ranked) > MOST_TOPICS else ""
    verb = "message is" if total == 1 else "messages are"
    return f"{total} {verb} missing, {named}{more}"


def damage_text(path: object, holes: Sequence[Hole], damage: Sequence[str], metadata_damaged: bool) -> str:
    """One line about missing messages and damage in a recording; "" for an intact recording.

    path              path of the recording
    damage            short descriptions of damage that removed no message
    metadata_damaged  whether the run's metadata are damaged
    """
    lines = [*(f"{hole.text()}" for hole in holes[:MOST_HOLES])]
    if len(holes) > MOST_HOLES:
        lines.append(f"and {len(holes) - MOST_HOLES} more holes")
    if metadata_damaged:
        lines.append("the plan and parameters in the file are damaged and are ignored")
    if damage:
        lines.append(f"damage that removed no message: {', '.join(damage)}")
    return f"{path}: {'; '.join(lines)}" if lines else ""


def inner(holes: Iterable[Hole]) -> list[Hole]:
    """The holes (missing messages) that intact messages follow: all holes except a truncated end of the file."""
    return [hole for hole in holes if hole.cause != CUT_OFF]
