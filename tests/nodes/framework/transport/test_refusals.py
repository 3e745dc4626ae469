"""What is refused again and again is counted each time and said ever more seldom."""

from __future__ import annotations

import pytest

from nodes.framework.transport import rejections as refusals
from nodes.framework.transport.rejections import RejectionLog


class Clock:
    """Stands in for the module `time`."""

    now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(refusals, "time", made)
    return made


def told_at(
    clock: Clock, refused: RejectionLog, seconds: int, caplog: pytest.LogCaptureFixture, reason: str
) -> list[int]:
    """When, in whole seconds from now, a warning came of a refusal each second."""
    times = []
    for second in range(seconds):
        before = len(caplog.records)
        refused.refuse("10.0.0.2", reason)
        if len(caplog.records) > before:
            times.append(second)
        clock.now += 1.0
    return times


def test_warnings_come_at_growing_intervals_where_asked_for(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    steady, growing = RejectionLog("it"), RejectionLog("it", "%s: turned %d away from %s: %s", 40.0)
    assert told_at(clock, steady, 20, caplog, "no") == [0, 5, 10, 15]
    assert told_at(clock, growing, 130, caplog, "no") == [0, 5, 15, 35, 75, 115]
    assert growing.count == 130
    assert caplog.records[-1].getMessage() == "it: turned 40 away from '10.0.0.2': no"


def test_another_reason_or_a_rest_begins_anew(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    growing = RejectionLog("it", longest_s=40.0)
    told_at(clock, growing, 40, caplog, "no")  # the next one would be due in 35 s
    assert told_at(clock, growing, 20, caplog, "other") == [0, 10]
    clock.now += 200.0
    assert told_at(clock, growing, 10, caplog, "other") == [0, 5]


def test_topic_and_reason_are_shown_on_one_line_whatever_a_sender_wrote(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    refused = RejectionLog("it")
    refused.refuse("a\nb", "field 'x\n2026-01-01 ERROR sim: failed': \x1b[2J\u202e\ud800é")
    shown = "'a\\nb': field 'x\\n2026-01-01 ERROR sim: failed': \\x1b[2J\\u202e\\ud800é"
    assert caplog.records[-1].getMessage() == f"it: dropped 1 on topic {shown}"
    assert refused.last == shown
    refused.refuse("long", 300 * "\n")
    assert refused.last == "'long': " + 200 * "\\n"
