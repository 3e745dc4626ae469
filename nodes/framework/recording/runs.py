"""Splits a recording into runs: a reset, a restore or a restart of the simulation server begins another run."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from nodes.framework.messages.topics import lookup
from nodes.framework.recording.schema import DECODE_ERRORS

STATE, EVENT = "state", "event"
PUT_BACK = ("reset", "restore")
SLACK_NS = 500_000_000  # longest time by which another node's message may be ahead of the latest state


class Run(msgspec.Struct, kw_only=True):
    """One run of a recording, with the simulation times of its first and last state, s.

    number  counts from 1 in the order of the file
    began   event that began the run: "" for the first, "reset", "restore", "server restarted" or "time went back"
    """

    number: int
    start_s: float
    end_s: float
    states: int = 0
    began: str = ""

    @property
    def length_s(self) -> float:
        """Simulated seconds from the run's first state to its last."""
        return self.end_s - self.start_s

    def text(self) -> str:
        """The run as text, such as "run 2: 0.0 .. 3.0 s (reset)"."""
        why = f" ({self.began})" if self.began else ""
        return f"run {self.number}: {self.start_s:.1f} .. {self.end_s:.1f} s{why}"


class RunCutter:
    """Finds the run of each message, given the messages in file order.

    A new run begins at a reset or restore event of the first robot in the file, or where the time of this robot's
    states goes back. A message that follows this point in the file, but whose time belongs to the end of the earlier
    run, is assigned to the earlier run.

    runs  the runs found so far
    """

    def __init__(self) -> None:
        self.runs: list[Run] = []
        self._robot: str | None = None
        self._now = 0
        self._payload = b""  # payload of the latest state
        self._open = False  # whether the latest run began with an event and has no state yet
        self._topics: dict[str, tuple[str, str, bool]] = {}  # {topic: (robot, last part of its name, is latched)}

    def place(self, topic: str, time_ns: int, payload: bytes) -> int | None:
        """Index of the run that a message belongs to; None for latched messages, which belong to all runs."""
        if topic not in self._topics:
            robot, _, leaf = topic.rpartition("/")
            row = lookup(topic)
            self._topics[topic] = robot, leaf, bool(row is not None and row.latched and robot)
        robot, leaf, is_latched = self._topics[topic]
        if is_latched:
            return None
        if leaf == STATE and robot and self._robot in (None, robot):
            self._robot = robot
            self._add_message(time_ns, payload)
        elif leaf == EVENT and self._robot == robot and (kind := _put_back(payload)):
            self._begin(kind, time_ns)
            self._open = True
        last = len(self.runs) - 1
        if last > 0 and time_ns > self._now + SLACK_NS and time_ns <= self._end_ns(last - 1) + SLACK_NS:
            return last - 1
        return max(last, 0)

    def _add_message(self, time_ns: int, payload: bytes) -> None:
        if not self.runs:
            self._begin("", time_ns)
        elif time_ns < self._now and not self._open:
            is_new = seq_of(payload) <= seq_of(self._payload)
            self._begin("server restarted" if is_new else "time went back", time_ns)
        run = self.runs[-1]
        if run.states == 0:
            run.start_s = time_ns / 1e9
        self._open = False
        self._now, self._payload = time_ns, payload
        run.end_s = time_ns / 1e9
        run.states += 1

    def _begin(self, why: str, time_ns: int) -> None:
        self._now = time_ns
        self.runs.append(Run(number=len(self.runs) + 1, start_s=time_ns / 1e9, end_s=time_ns / 1e9, began=why))

    def _end_ns(self, index: int) -> int:
        return round(self.runs[index].end_s * 1e9)


def picked(runs: Sequence[Run], number: int | None) -> int | None:
    """Index in `runs` of the run with this `number`.

    number  number of the run, from 1; -1 for the last run; None for all runs, for which the result is None

    Raises ValueError, with a message that lists the existing runs, if there is no run with this number.
    """
    if number is None:
        return None
    count = max(len(runs), 1)
    if number == -1:
        return count - 1
    if not 1 <= number <= count:
        there = "the recording has one run" if count == 1 else f"its runs are 1 .. {count}"
        raise ValueError(f"there is no run {number}; {there}")
    return number - 1


def _put_back(payload: bytes) -> str:
    """Kind of an event after which simulation time goes back, "reset" or "restore"; "" for other events."""
    try:
        kind = msgspec.json.decode(payload, type=_Kind).kind
    except DECODE_ERRORS:
        return ""
    return kind if kind in PUT_BACK else ""


def seq_of(payload: bytes) -> int:
    """Sequence number `seq` of a recorded message; 0 if the message has none."""
    try:
        return msgspec.json.decode(payload, type=_Seq).seq
    except DECODE_ERRORS:
        return 0


class _Seq(msgspec.Struct):
    seq: int = 0


class _Kind(msgspec.Struct):
    kind: str = ""
