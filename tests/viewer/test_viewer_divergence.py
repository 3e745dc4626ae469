"""A run that diverged is drawn to the scale of its motion, with a line where it ended."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from nodes.framework.messages import Event, RobotState
from nodes.framework.recording.reader import RecordingWriter, read_recording
from viewer.data.signals import Signals, from_recording

pytest.importorskip("pyqtgraph", exc_type=ImportError)  # also where Qt's system libraries are missing

from tests.viewer.window_driving import pictured
from viewer.recorded import read_signals

ENDS = 200


def said(diverges: bool) -> Any:
    """Swings of 1 rad for 2 s; one that diverges goes to 1e90 in its last three states."""
    for tick in range(ENDS + 1):
        size = 10.0 ** (30 * (tick - ENDS + 3)) if diverges and tick > ENDS - 3 else 1.0
        now = tick / 100
        position, velocity = size * math.sin(9.0 * now), 9.0 * size * math.cos(9.0 * now)
        yield (
            "arm/state",
            RobotState(
                timestamp=now, seq=tick, name=["elbow"], position=[position], velocity=[velocity], energy=size * size
            ),
        )
    if diverges:
        yield "arm/event", Event(kind="diverged", timestamp=ENDS / 100)


def record(path: Path, diverges: bool) -> Path:
    with RecordingWriter(path, {}, sidecar=None) as writer:
        for topic, message in said(diverges):
            writer.write(topic, message, message.timestamp)
    return path


@pytest.mark.parametrize("diverges", [True, False])
def test_the_last_states_before_a_divergence_set_no_limits(diverges: bool, tmp_path: Path, qtbot: Any) -> None:
    fields = ("position", "energy")
    signals, subtitle, _ = read_signals(str(record(tmp_path / "run.mcap", diverges)), fields, None)
    assert ("diverged at t = 2.000 s" in subtitle) is diverges
    with pictured(qtbot, signals, tmp_path / "out.png", fields) as window:
        position, energy = (plot.span for plot in window.plots.plots)
        assert -1.3 < position[0] < -0.9
        assert 0.9 < position[1] < 1.3
        assert energy[1] < 1.3
        for plot in window.plots.plots:
            assert plot.divergence.isVisible() is diverges
        if diverges:
            assert window.plots.plots[0].divergence.value() == 2.0


def test_live_and_recorded_a_divergence_is_the_same_and_a_reset_ends_it(tmp_path: Path) -> None:
    recorded = from_recording(read_recording(record(tmp_path / "run.mcap", True)))
    live = Signals()
    live.add(list(said(True)))
    assert (live.diverged_at, live.sane_until) == (recorded.diverged_at, recorded.sane_until)
    assert live.sane_until == pytest.approx((ENDS - 3) / 100)
    live.add([("arm/state", RobotState(timestamp=0.0, name=["elbow"], position=[0.0], velocity=[0.0]))])
    assert (live.diverged_at, live.sane_until) == (None, math.inf)
