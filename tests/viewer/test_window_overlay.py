"""Recordings that are opened from the menu of a running window: in a window of their own, or over the run shown."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyqtgraph", exc_type=ImportError)
from pyqtgraph.Qt import QtWidgets

from tests.viewer.window_driving import KEYS, hear, live, opened_window
from viewer.layout import Curve
from viewer.window.plots.curves import Line

PITCH = Curve("swing/state", "position.pitch")


def choose(monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    """Let the next dialogs for a file return `path`."""
    monkeypatch.setattr(QtWidgets.QFileDialog, "getOpenFileName", lambda *_: (str(path), ""))


def test_a_live_run_and_a_recording_are_compared_at_equal_times(
    said_in_space: list[Any], planar: Path, qtbot: Any, monkeypatch: Any
) -> None:
    window, feed = live(qtbot)
    hear(window, feed, said_in_space[0], *said_in_space[91:])  # a window that opens at t = 0.3 s
    assert window.sources[0].span[0] == pytest.approx(0.3)
    choose(monkeypatch, planar)
    window.menus.actions["files.overlay_recording"].trigger()
    assert window.sources[1].offset == 0.0
    assert "planar.mcap dashed, at equal simulation times" in window.plots.caption.text()
    hear(window, feed, ("status", said_in_space[1][1]))
    assert "planar.mcap" in window.page.subtitle.text()
    (plot,) = [each for each in window.plots.plots if PITCH in each.spec.curves]
    lines: list[Line] = []
    plot.curves.redraw = lambda _frame, found, **_: lines.extend(found)  # type: ignore[method-assign]
    plot.invalidate()
    window.refresh()
    live_lines = [line for line in lines if not line.dash]
    assert len(live_lines) == len(lines) / 2  # the recorded ones are told apart by dashes
    lines.clear()
    window.menus.actions["toggle_difference"].trigger()
    hear(window, feed, said_in_space[-3])
    drawn = plot.drawn(window.sources, True)
    place = [each.curve for each in drawn].index(PITCH)
    found = plot.values(drawn[place], window.sources, True)
    assert found is not None
    np.testing.assert_allclose(found[1], 0.0, atol=1e-9)  # both pitch as cos 3 t
    assert len(lines) >= len(drawn)
    window.close()


def test_what_cannot_be_overlaid_on_a_live_run_is_refused_in_one_line(
    said_in_space: list[Any], planar: Path, qtbot: Any, monkeypatch: Any
) -> None:
    window, feed = live(qtbot)
    said: list[str] = []
    monkeypatch.setattr(window.files, "warn", said.append)
    window.files.overlay(str(planar))
    hear(window, feed, *((topic.replace("swing", "other"), message) for topic, message in said_in_space[:60]))
    window.files.overlay(str(planar))
    assert said == [
        f"no robot is live to compare {planar} with; open it with File, Open recording ...",
        f"{planar} is a recording of robot 'swing', and the live run of robot 'other'; overlay only recordings of the "
        "same robot",
    ]
    assert len(window.sources) == 1
    window.close()


def test_the_overlay_stays_when_the_next_launch_begins(said_in_space: list[Any], planar: Path, qtbot: Any) -> None:
    window, feed = live(qtbot)
    hear(window, feed, *said_in_space)
    window.files.overlay(str(planar))
    hear(window, feed, *said_in_space[1:61])
    assert [source.label for source in window.sources] == ["live", "planar.mcap"]
    assert window.time_shown(window.history.layout)[0] == pytest.approx(0.0)
    window.close()


@pytest.mark.parametrize("is_live", [False, True])
def test_a_recording_opens_in_a_window_of_its_own(
    is_live: bool, spatial: Path, planar: Path, qtbot: Any, monkeypatch: Any
) -> None:
    choose(monkeypatch, planar)
    if is_live:
        window, _ = live(qtbot)
        window.show()
    else:
        with opened_window(qtbot, spatial) as window:
            pass
    window.menus.actions["files.open_recording"].trigger()
    (process,) = window.files.opened
    arguments = process._process.args
    assert isinstance(arguments, list)
    assert arguments[-4:] == ["view", str(planar), "--theme", "light"]
    window.close()
    assert process.is_running  # the other window stays open
    process._process.send_signal(signal.SIGINT)
    process._process.wait(timeout=60.0)


def test_a_file_that_is_no_recording_is_refused_in_one_line(
    spatial: Path, tmp_path: Path, qtbot: Any, monkeypatch: Any
) -> None:
    path = tmp_path / "notes.mcap"
    path.write_text("no recording")
    with opened_window(qtbot, spatial) as window:
        said: list[str] = []
        monkeypatch.setattr(window.files, "warn", said.append)
        choose(monkeypatch, path)
        qtbot.keyClick(window, "o", KEYS.ControlModifier)
        qtbot.waitUntil(lambda: bool(said), timeout=60_000)
        assert len(said) == 1
        assert str(path) in said[0]
        assert "\n" not in said[0]
        assert window.files.opened == []
