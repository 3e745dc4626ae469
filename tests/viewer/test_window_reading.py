"""A long recording is read in the background, while the window shows what was read so far, and tells so."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nodes.framework.messages import Event
from nodes.framework.recording.reader import RecordingWarning, RecordingWriter, read_recording

pytest.importorskip("pyqtgraph", exc_type=ImportError)
from pyqtgraph.Qt import QtCore, QtWidgets

from tests.viewer.conftest import KEPT, swinging
from viewer import source
from viewer.data import reading as background
from viewer.qt import theme
from viewer.request import Request
from viewer.window import session
from viewer.window.main import MainWindow

TICKS = 600


@pytest.fixture
def long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A recording of which only the first tenth is read before the window opens."""
    path = tmp_path / "long.mcap"
    with RecordingWriter(path, {}, chunk_s=0.1) as writer:
        for topic, message in swinging(planar=False, ticks=TICKS):
            writer.write(topic, message, message.timestamp)
    monkeypatch.setattr(source, "FIRST_BYTES", path.stat().st_size // 10)
    for module in (background, source):
        monkeypatch.setattr(module, "PIECE_BYTES", path.stat().st_size // 20)
    return path


@contextmanager
def opened(qtbot: Any, path: Path, run: int | None = None) -> Iterator[MainWindow]:
    """The window as `armswing view FILE` opens it, without a timer: frames come when a test asks for them."""
    theme.configure()
    window = session.main_window(Request(str(path), run_number=run))
    window._timer.stop()
    KEPT.append(window)
    qtbot.addWidget(window)
    with qtbot.waitExposed(window):
        window.show()
    window.resize(1200, 800)
    QtWidgets.QApplication.processEvents()
    yield window
    window.close()


def read_on(qtbot: Any, window: MainWindow) -> None:
    """Frames until the recording is read."""

    def is_read() -> bool:
        window._on_frame()
        return window.reading is None

    qtbot.waitUntil(is_read, timeout=60_000)


def test_the_first_picture_is_a_part_that_says_so_and_the_last_one_is_whole(long: Path, qtbot: Any) -> None:
    with opened(qtbot, long) as window:
        assert window.reading is not None
        assert 0 < window.signals.states < 0.3 * TICKS
        share = re.match(r"still being read, (\d+) %: long\.mcap: ", window.page.subtitle.text())
        assert share is not None
        assert int(share[1]) >= 9  # 9.99 %, or as far as the process that reads on has come
        assert window.windowTitle() == f"armswing - reading long.mcap, {share[1]} %"
        unread = window.sources[0].unread
        assert unread is not None
        assert unread[0] == window.playback.span[1] == window.playback.now
        assert unread[1] == pytest.approx(0.01 * TICKS, rel=0.3)  # estimated
        assert window.timeline.slider._unread == pytest.approx((unread[0] / unread[1], 1.0))
        assert all(
            plot.curves._frame is not None and plot.curves._frame.unread == unread for plot in window.plots.plots
        )

        read_on(qtbot, window)
        assert window.signals.states == TICKS
        assert window.windowTitle() == "armswing"
        assert window.page.subtitle.text() == f"long.mcap: {TICKS} states in 5.99 s"
        assert window.sources[0].unread is None
        assert window.timeline.slider._unread is None
        assert all(plot.curves._frame is not None and plot.curves._frame.unread is None for plot in window.plots.plots)
        assert window.playback.now == pytest.approx(0.01 * (TICKS - 1))  # at the end, as a recording opens

        expected, _, _ = source.read_source(str(long), (), None)
        assert list(window.sources[0].store.topics) == list(expected.store.topics)
        for topic in expected.store.topics:
            for field in expected.store.fields(topic):
                found = window.sources[0].store.column(topic, field)
                whole = expected.store.column(topic, field)
                assert found is not None
                assert whole is not None
                np.testing.assert_array_equal(found, whole)


def test_the_slider_works_on_what_is_read_and_keeps_its_time_while_more_comes(long: Path, qtbot: Any) -> None:
    with opened(qtbot, long) as window:
        read_to = window.playback.span[1]
        slider = window.timeline.slider
        for place, expected in ((0.99, read_to), (0.02, 0.02 * window.playback.whole_span[1])):
            qtbot.mouseClick(
                slider, QtCore.Qt.MouseButton.LeftButton, pos=QtCore.QPoint(slider.x_of(place), slider.height() // 2)
            )
            assert window.playback.now == pytest.approx(expected, abs=0.02)
        chosen = window.playback.now
        read_on(qtbot, window)
        assert window.playback.now == chosen
        assert window.timeline.time_box.value() == pytest.approx(chosen, abs=1e-3)


def test_playing_waits_at_the_end_of_what_is_read(long: Path, qtbot: Any) -> None:
    with opened(qtbot, long) as window:
        window.timeline.factor_box.setCurrentIndex(window.timeline.factor_box.count() - 1)
        window.playback.play_or_pause()
        read_to = window.playback.span[1]
        qtbot.waitUntil(lambda: (window.playback.advance(), window.playback.now == read_to)[1], timeout=10_000)
        window.playback.advance()
        assert window.playback.playing
        read_on(qtbot, window)
        qtbot.waitUntil(lambda: (window._on_frame(), not window.playback.playing)[1], timeout=20_000)
        assert window.playback.now == pytest.approx(0.01 * (TICKS - 1))


def test_a_hole_in_the_part_that_is_read_later_is_named_before_and_marked_after_the_reading(
    long: Path, qtbot: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = bytearray(long.read_bytes())
    start = 7 * len(content) // 10
    content[start : start + 3000] = bytes(byte ^ 0x55 for byte in content[start : start + 3000])
    long.write_bytes(content)
    (hole,) = read_recording(long, warn=False).holes
    with opened(qtbot, long) as window:
        assert window.signals.holes == []
        assert "missing" not in window.page.subtitle.text()
        shown = []
        show = window.growth.grow
        monkeypatch.setattr(
            window.growth, "grow", lambda part: (shown.append((part.source.share, part.subtitle)), show(part))[1]
        )
        with pytest.warns(RecordingWarning, match="messages are missing"):
            read_on(qtbot, window)
        assert shown[-1][0] == 1.0
        assert all(f"messages missing in {hole.span}" in subtitle for _, subtitle in shown)
        assert f"messages missing in {hole.span}" in window.page.subtitle.text()
        assert window.signals.holes == [pytest.approx((hole.start_s, hole.end_s), abs=0.011)]
        assert len(window.timeline.slider._bands) == 1
        found = window.sources[0].store.column("swing/state", "position.yaw")
        assert found is not None
        assert np.isnan(found[1]).sum() == 1  # the line is interrupted


def test_the_last_run_is_shown_as_soon_as_it_is_found(long: Path, qtbot: Any) -> None:
    with RecordingWriter(long, {}, chunk_s=0.1) as writer:
        for run in range(2):
            if run:
                writer.write("swing/event", Event(kind="reset", node="sim"), 0.0)
            for topic, message in swinging(planar=False, ticks=TICKS // (run + 1)):
                writer.write(topic, message, message.timestamp)
    with opened(qtbot, long) as window:
        assert window.sources[0].run == 1
        read_on(qtbot, window)
        assert window.sources[0].run == 2
        assert window.signals.states == TICKS // 2
        assert "run 2 of 2 (reset)" in window.page.subtitle.text()


def test_a_run_that_is_not_in_the_file_is_named_after_the_reading(long: Path, qtbot: Any) -> None:
    with opened(qtbot, long, run=3) as window:
        assert window.page.stack.currentWidget() is window.page.empty
        assert "read yet" in window.page.empty.text()
        read_on(qtbot, window)
        assert "there is no run 3; the recording has one run" in window.page.empty.text()


def test_a_reading_process_that_ends_early_is_named_and_the_rest_stays_unread(
    long: Path, qtbot: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with opened(qtbot, long) as window:
        read_on(qtbot, window)
        assert "the process that reads it ended with exit code 1" in window.page.subtitle.text()
        assert window.sources[0].unread is not None
        assert window.signals.states > 0


def test_a_window_that_is_closed_ends_the_process_that_reads(long: Path, qtbot: Any) -> None:
    with opened(qtbot, long) as window:
        reading = window.reading
        assert reading is not None
    assert reading._process.poll() is not None
    assert not reading._thread.is_alive()


def test_films_and_overlays_are_of_whole_recordings(long: Path, qtbot: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for others, whole in (((str(long),), False), ((), True)):
        window = session.main_window(Request(str(long), others=others), whole)
        KEPT.append(window)
        qtbot.addWidget(window)
        assert window.reading is None
        assert window.signals.states == TICKS
        window.close()
    with opened(qtbot, long) as window:
        warned: list[str] = []
        monkeypatch.setattr(window.files, "warn", warned.append)
        window.files.save_film_to(str(long.with_suffix(".mp4")))
        assert warned == ["long.mcap is still being read; save the film when it has been read"]
        assert window.files.film is None


def test_a_selection_beyond_what_is_read_says_up_to_where(long: Path, qtbot: Any) -> None:
    with opened(qtbot, long) as window:
        window.plots.set_interval((0.1, 5.0))
        window.docks.docks["Selection"].show()
        window.docks.show_statistics()
        assert f"read so far up to t = {window.playback.span[1]:.4f} s" in window.docks.statistics.caption.text()
        read_on(qtbot, window)
        window.docks.update()
        assert "read so far" not in window.docks.statistics.caption.text()


def test_a_short_recording_is_read_before_the_window_opens(spatial: Path, qtbot: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with opened(qtbot, spatial) as window:
            assert window.reading is None
            assert window.sources[0].unread is None
            assert window.page.subtitle.text() == "spatial.mcap: 300 states in 2.99 s"


def test_a_field_that_the_recording_lacks_is_refused_before_a_window_opens(
    long: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[Any] = []
    start = background.BackgroundReading.__init__
    monkeypatch.setattr(
        background.BackgroundReading, "__init__", lambda self, *given: (started.append(self), start(self, *given))[1]
    )
    with pytest.raises(ValueError, match="has no curve 'heigth'"):
        source.open_source(str(long), ("outputs.heigth",), None)
    assert [reading._process.poll() is not None for reading in started] == [True]
