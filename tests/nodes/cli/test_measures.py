"""What `topic delay` makes of stamps by the clock of another host."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

import pytest

from nodes.cli.measures import Delay, RemoteClock
from nodes.framework.messages import RobotState
from nodes.framework.transport.service import ServiceTimeout

MS = 1_000_000


class Clocks:
    """Our clock and that of another host, which is so far ahead; both stand still but on the way."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, ahead_s: float) -> None:
        self.now_ns = 10**18
        self.ahead_ns = round(1e9 * ahead_s)
        monkeypatch.setattr(time, "time_ns", lambda: self.now_ns)

    def trip(self, there_ms: int, back_ms: int) -> Callable[[], dict[str, int]]:
        def ask() -> dict[str, int]:
            self.now_ns += there_ms * MS
            answer = self.now_ns + self.ahead_ns
            self.now_ns += back_ms * MS
            return {"received_ns": answer, "answered_ns": answer}

        return ask


@pytest.mark.parametrize(("ahead_s", "way"), [(7.0, "7 s ahead"), (-0.5, "(500|499) ms behind")])
def test_the_clock_of_the_senders_host_is_taken_out(ahead_s: float, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    clocks = Clocks(monkeypatch, ahead_s)
    far = RemoteClock("robot")
    for there_ms, back_ms in ((40, 2), (1, 1), (9, 1)):
        far.measure(clocks.trip(there_ms, back_ms))
    assert far.offset_s == pytest.approx(ahead_s, abs=1e-3)  # the quickest is off by no more
    assert 0.1e-3 < far.uncertainty_s < 1e-3
    delay = Delay(far)
    for late_ms in (4, 5, 6):
        delay.add(RobotState(sent_ns=clocks.now_ns + clocks.ahead_ns - late_ms * MS))
    assert delay.figures()["p50_s"] == pytest.approx(5e-3, abs=1e-3)
    assert re.search(
        f"3 messages; corrected for the clock of host 'robot', which is {way}, known to [0-9]+ us", delay.text()
    )


def test_a_clock_that_gains_is_followed_for_as_long_as_one_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    clocks, far = Clocks(monkeypatch, 0.0), RemoteClock("robot")
    delay = Delay(far)
    for number in range(1200):  # ten minutes: it gains 60 ms
        clocks.now_ns += 500 * MS
        clocks.ahead_ns += 50_000  # 100 ppm
        far.measure(clocks.trip(1 + number % 3, 1 + number % 2))
        delay.add(RobotState(sent_ns=clocks.now_ns + clocks.ahead_ns - 5 * MS))
    assert far.offset_s == pytest.approx(0.06, abs=1e-3)
    found = delay.figures()
    assert (found["p50_s"], found["max_s"]) == pytest.approx((5e-3, 5e-3), abs=1e-3)


def test_a_clock_that_nobody_tells_is_said_to_be_in_the_figures() -> None:
    def silent() -> Any:
        raise ServiceTimeout("no reply")

    far = RemoteClock("robot")
    far.measure(silent)
    delay = Delay(far)
    delay.add(RobotState(sent_ns=time.time_ns()))
    assert delay.figures()["clock"] == {"host": "robot", "offset_s": None, "uncertainty_s": None}
    assert "the clock of host 'robot' is not known, so that these figures include its offset" in delay.text()


def test_on_one_host_there_is_no_other_clock() -> None:
    delay = Delay()
    delay.add(RobotState(sent_ns=time.time_ns()))
    assert delay.figures()["clock"] is None
    assert "clock" not in delay.text()
