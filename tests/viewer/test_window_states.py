"""States in which the window lacks something: each is shown for what it is."""

from __future__ import annotations

import colorsys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nodes.framework.messages import BodyDescription, BodyPoses, Description, RobotState, Status
from nodes.framework.recording.reader import Hole, RecordingWriter, read_recording

pytest.importorskip("pyqtgraph", exc_type=ImportError)
from pyqtgraph.Qt import QtWidgets, sip

from tests.viewer.conftest import KEPT, swinging
from tests.viewer.window_driving import hear, live, opened_window
from viewer import app, palette
from viewer.data import follower
from viewer.data.series import CAPACITY, Table
from viewer.data.signals import from_recording
from viewer.layout import Curve, load_layout
from viewer.qt import theme
from viewer.scene.scene import Scene
from viewer.source import Source, difference, read_source
from viewer.window import film, live_run, session
from viewer.window.docks import topic_tree
from viewer.window.main import MainWindow
from viewer.window.settings import remember_theme, remembered_theme


def record(path: Path, keep: Any) -> Path:
    """A recording of the messages for which `keep(topic, message)` gives one."""
    with RecordingWriter(path, {}) as writer:
        for topic, message in swinging(planar=False, ticks=200):
            if (kept := keep(topic, message)) is not None:
                writer.write(topic, kept, kept.timestamp)
    return path


def without_shapes(_topic: str, message: Any) -> Any:
    if isinstance(message, Description):
        message.bodies = [BodyDescription(name="arm"), BodyDescription(name="rod")]
    return message


def test_a_recording_without_states_has_no_plots_and_no_time(tmp_path: Path, qtbot: Any) -> None:
    path = tmp_path / "empty.mcap"
    with RecordingWriter(path, {}) as writer:
        writer.write("status", Status(node="sim"), 0.0)
    with opened_window(qtbot, path) as window:
        assert window.page.stack.currentWidget() is window.page.empty
        assert window.page.clock.text() == ""
        assert not window.timeline.isEnabled()
        window.playback.step(1)
        window.events.next()
        window.fit_all()


@pytest.mark.parametrize(
    ("keep", "caption"),
    [
        (without_shapes, "the description of swing has no shapes: there is nothing to draw"),
        (lambda _, m: None if isinstance(m, Description) else m, "no description of the robot was received"),
        (lambda _, m: None if isinstance(m, BodyPoses) else m, "no poses of the bodies were received"),
    ],
    ids=["no shapes", "no description", "no poses"],
)
def test_a_robot_that_cannot_be_drawn_has_plots_and_a_reason(
    keep: Any, caption: str, tmp_path: Path, qtbot: Any
) -> None:
    with opened_window(qtbot, record(tmp_path / "run.mcap", keep)) as window:
        assert caption in window.page.caption.text()
        assert window.plots.plots
        window.scene.look("front")
        window.playback.go_to_start()
        assert window.page.splitter.sizes()[0] < window.page.splitter.sizes()[1]


def test_no_curve_crosses_a_hole_and_the_slider_marks_it(tmp_path: Path, qtbot: Any) -> None:
    path = record(tmp_path / "run.mcap", lambda _, m: None if 0.5 < m.timestamp < 1.0 else m)
    recording = read_recording(path)
    recording.holes.append(Hole(start_s=0.5, end_s=1.0, counted=False))
    signals = from_recording(recording)
    window = MainWindow([Source("run", signals)], "run", "")
    KEPT.append(window)
    qtbot.addWidget(window)
    found = signals.store.column("swing/state", "position.yaw")
    assert found is not None
    times, values = found
    inside = (times > 0.5) & (times < 1.0)
    assert inside.sum() == 1
    assert values[inside] != values[inside]  # NaN: the line is interrupted
    assert window.timeline.slider._bands == [pytest.approx((0.5 / 1.99, 1.0 / 1.99))]
    window.close()


def test_neither_paths_nor_differences_nor_rates_are_made_up_in_a_hole(tmp_path: Path, qtbot: Any) -> None:
    path = record(tmp_path / "run.mcap", lambda _, m: None if 0.5 < m.timestamp < 1.0 else m)
    recording = read_recording(path, warn=False)
    recording.holes.append(Hole(start_s=0.5, end_s=1.0, counted=False))
    broken = Source("broken", from_recording(recording))
    whole = read_source(str(record(tmp_path / "whole.mcap", lambda _, m: m)), (), None)[0]
    window = MainWindow([whole, broken], "run", "")
    KEPT.append(window)
    qtbot.addWidget(window)
    curve = Curve("swing/state", "position.pitch")
    first, other = whole.column(curve), broken.column(curve)
    assert first is not None
    assert other is not None
    times, values = difference(first, other)
    inside = (times > 0.505) & (times < 0.995)
    assert np.isnan(values[inside]).all()
    np.testing.assert_array_equal(values[(times < 0.495) | (times > 1.005)], 0.0)

    def longest(source: Source) -> float:
        """Length of the longest piece of the paths of the tips between two poses, m."""
        scene = Scene("xz")
        scene.survey(source.signals)
        frame = scene.frame(source.signals, 1.5, 0.0, ghosts=False)
        assert frame is not None
        assert frame.paths
        return max(float(np.nanmax(np.hypot(*np.diff(points, axis=0).T))) for points, _, _ in frame.paths)

    assert longest(broken) == pytest.approx(longest(whole), rel=1e-6)

    def texts(source: Source) -> dict[str, str]:
        window.docks.topics.show_source(source)
        return {item.text(0): item.text(1) for item in window.docks.topics._topic_items()}

    assert texts(broken)["state"] == texts(whole)["state"] == "100 Hz"
    window.close()


def test_a_recorded_topic_that_ended_before_the_run_has_the_time_of_its_last_message(
    tmp_path: Path, qtbot: Any
) -> None:
    stops = record(
        tmp_path / "stops.mcap",
        lambda topic, m: None if topic.endswith("reference") and m.timestamp > 1.0 else m,
    )
    once = record(
        tmp_path / "once.mcap",
        lambda topic, m: None if topic.endswith("reference") and m.timestamp > 0.0 else m,
    )
    for path, text in ((stops, "until 1.000 s"), (once, "once")):
        with opened_window(qtbot, path) as window:
            found = {item.text(0): item.text(1) for item in window.docks.topics._topic_items()}
            assert (found["reference"], found["state"], found["body_poses"]) == (text, "100 Hz", "100 Hz")


@pytest.mark.parametrize("off_s", [-4e-10, 0.0, 4e-10])
def test_a_hole_is_found_whose_ends_are_rounded_to_nanoseconds(off_s: float, spatial: Path) -> None:
    recording = read_recording(spatial)
    recording.holes.append(Hole(start_s=1.5 + off_s, end_s=1.51 - off_s, counted=False))
    ((start, end),) = from_recording(recording).holes
    assert (start, end) == pytest.approx((1.5, 1.51))


def test_after_the_last_state_the_window_is_drawn_whole_once(
    said_in_space: list[Any], qtbot: Any, monkeypatch: Any
) -> None:
    now = [0.0]
    monkeypatch.setattr(live_run.time, "monotonic", lambda: now[0])
    window, feed = live(qtbot)
    with qtbot.waitExposed(window):
        window.show()
    hear(window, feed, *said_in_space[:7])  # the first states, in a frame before the plots have their sizes
    hear(window, feed, *said_in_space[7:])
    fitted: list[str] = []
    survey = window.survey
    monkeypatch.setattr(window, "survey", lambda: (fitted.append("scene"), survey()))
    for plot in window.plots.plots:
        redraw = plot.curves.redraw
        monkeypatch.setattr(
            plot.curves,
            "redraw",
            lambda *args, name=plot.name, redraw=redraw, **named: (fitted.append(name), redraw(*args, **named)),
        )
    status = ("status", Status(node="sim", state="paused"))
    hear(window, feed)  # a frame without messages in a run that continues
    assert fitted == []
    now[0] += live_run.SETTLED_S + 0.01
    hear(window, feed, status)
    in_view = [plot.name for plot in window.plots.plots if plot.name in fitted]
    assert fitted[0] == "scene"
    assert in_view
    assert not window.scene.outgrown
    fitted.clear()
    for _ in range(3):
        now[0] += 1.0
        hear(window, feed)
    assert fitted == []
    window.close()


def test_a_server_that_goes_is_reported_and_the_next_one_is_shown(
    said_in_space: list[Any], qtbot: Any, monkeypatch: Any
) -> None:
    window, feed = live(qtbot)
    hear(window, feed)
    assert window.page.empty.text() == "waiting ..."
    hear(window, feed, *said_in_space[:100], ("status", Status(node="sim", state="running")))
    assert window.page.subtitle.text() == "live: sim running"
    monkeypatch.setattr(follower, "SILENT_S", -1.0)
    hear(window, feed)
    assert "the launch has ended; waiting for the next" in window.page.subtitle.text()
    assert window.page.clock.text() != ""  # what was shown stays
    state = RobotState(timestamp=0.5, name=["x"], position=[1.0], velocity=[0.0])
    hear(window, feed, ("cart/state", state))
    assert (window.page.title.text(), window.page.clock.text()) == ("cart", "t = 0.50 s")
    assert Curve("cart/state", "position.x") in window.plots.specs[0].curves
    window.close()


def test_a_topic_that_stops_is_marked_in_the_tree(said_in_space: list[Any], qtbot: Any, monkeypatch: Any) -> None:
    window, feed = live(qtbot)
    hear(window, feed, *said_in_space[:100])
    topics = window.docks.topics
    topics.show_source(window.sources[0])
    texts = {item.text(0): item.text(1) for item in topics._topic_items()}
    assert texts.keys() == {"state", "reference", "body_poses"}
    assert not any("silent" in text for text in texts.values())
    monkeypatch.setattr(topic_tree, "SILENT_S", -1.0)
    topics.show_source(window.sources[0])
    assert all(item.text(1).startswith("silent for") for item in topics._topic_items())
    window.close()


def test_the_topics_of_a_paused_simulation_are_paused_and_one_that_stopped_before_is_silent(
    said_in_space: list[Any], qtbot: Any, monkeypatch: Any
) -> None:
    window, feed = live(qtbot)
    monkeypatch.setattr(window.docks, "calls", None)  # no service of a launch is called
    clock = [1000.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])

    def texts() -> dict[str, str]:
        window.docks.update()
        found = {item.text(0): item.text(1) for item in window.docks.topics._topic_items()}
        assert "paused" not in found.pop("status/sim")
        return found

    def status(state: str) -> tuple[str, Status]:
        return "status", Status(node="sim", state=state)

    stopped = [(topic, message) for topic, message in said_in_space[:100] if topic.endswith("/reference")]
    others = [(topic, message) for topic, message in said_in_space[:100] if not topic.endswith("/reference")]
    hear(window, feed, *stopped, status("running"))
    texts()
    clock[0] += 10.0
    hear(window, feed, *others, status("running"))
    texts()
    clock[0] += 0.1
    hear(window, feed, status("paused"))
    assert texts() == {"state": "paused", "body_poses": "paused", "reference": "silent for 10 s"}
    clock[0] += 60.0
    hear(window, feed, status("paused"))
    assert texts() == {"state": "paused", "body_poses": "paused", "reference": "silent for 70 s"}
    hear(window, feed, status("running"))
    assert texts()["state"] == "silent for 60 s"
    monkeypatch.undo()
    window.close()


def test_a_reset_starts_the_plots_anew(said_in_space: list[Any], qtbot: Any) -> None:
    window, feed = live(qtbot)
    hear(window, feed, *said_in_space)
    assert window.sources[0].span[1] == pytest.approx(2.99)
    hear(window, feed, *said_in_space[1:61])
    assert window.sources[0].span[1] == pytest.approx(0.19)
    found = window.sources[0].column(Curve("swing/state", "position.yaw"))
    assert found is not None
    assert found[0][-1] == pytest.approx(0.19)
    assert len(found[0]) == 20
    window.close()


def test_colours_change_to_dark_and_back(spatial: Path, qtbot: Any) -> None:
    def brightness(window: MainWindow) -> float:
        image = window.grab().toImage()
        samples = [image.pixelColor(x, y) for x in range(4, image.width(), 40) for y in range(4, image.height(), 40)]
        return float(np.median([color.lightnessF() for color in samples]))

    with opened_window(qtbot, spatial) as window:
        assert brightness(window) > 0.9
        try:
            window.toggle_theme()
            assert brightness(window) < 0.2
            assert window.scene.plot.getAxis("left").textPen().color().name() == palette.THEMES["dark"]["MUTED"]
        finally:
            window.toggle_theme()
        assert brightness(window) > 0.9


def test_the_chosen_colours_are_undone_saved_with_the_layout_and_used_by_the_next_window(
    spatial: Path, tmp_path: Path, qtbot: Any, monkeypatch: Any
) -> None:
    file = tmp_path / "dark.layout.json"
    monkeypatch.setattr(QtWidgets.QFileDialog, "getSaveFileName", lambda *_: (str(file), ""))
    monkeypatch.setattr(QtWidgets.QFileDialog, "getOpenFileName", lambda *_: (str(file), ""))
    assert remembered_theme() == "light"
    try:
        with opened_window(qtbot, spatial) as window:
            window.toggle_theme()
            window.files.save_layout_as()
            assert (palette.theme, load_layout(file).theme, remembered_theme()) == ("dark", "dark", "dark")
            window.history.stack.undo()
            assert palette.theme == "light"
            window.files.open_layout()
            assert palette.theme == "dark"
            window.toggle_theme()
            assert (palette.theme, remembered_theme()) == ("light", "light")
    finally:
        theme.use("light")
    (tmp_path / "config/armswing/viewer.ini").write_text("[General]\ntheme=blue\n")
    assert remembered_theme() == "light"  # a theme of another version is no error


@pytest.mark.parametrize(("given", "remembered", "used"), [(None, "dark", "dark"), ("light", "dark", "light")])
def test_a_window_opens_with_the_colours_chosen_last_and_a_picture_does_not(
    given: str | None, remembered: str, used: str, spatial: Path, tmp_path: Path, qapp: Any, monkeypatch: Any
) -> None:
    shown: list[str] = []

    def run(_application: Any, window: Any, _interrupted: Any) -> int:
        shown.append(palette.theme)
        window.close()
        return 0

    monkeypatch.setattr(session, "_run", run)
    monkeypatch.setattr(app, "require_qt", lambda window: None)
    remember_theme(remembered)
    try:
        assert app.run(str(spatial), colors=given) == 0
        assert shown == [used]
        assert app.run(str(spatial), str(tmp_path / "still.png")) == 0
        assert palette.theme == "light"
    finally:
        theme.use("light")


def test_windows_are_destroyed_when_they_are_closed_and_not_later_by_the_garbage_collection(
    spatial: Path, tmp_path: Path, qapp: Any, monkeypatch: Any
) -> None:
    windows: list[Any] = []
    write = film.write_picture
    monkeypatch.setattr(film, "write_picture", lambda window, path: (windows.append(window), write(window, path))[1])
    monkeypatch.setattr(session, "_run", lambda _application, window, _interrupted: windows.append(window) or 0)
    monkeypatch.setattr(app, "require_qt", lambda window: None)
    bad = tmp_path / "bad.layout.json"
    bad.write_text("{")
    assert app.run(str(spatial), colors="light") == 0
    assert app.run(str(spatial), str(tmp_path / "still.png")) == 0
    assert app.run(str(spatial), str(tmp_path / "no folder/still.png")) == 1
    assert [sip.isdeleted(window) for window in windows] == [True, True, True]
    closed: list[bool] = []
    monkeypatch.setattr(MainWindow, "closeEvent", lambda window, event: closed.append(True))
    with pytest.raises(ValueError, match="is not a layout of the viewer"):
        app.run(str(spatial), colors="light", layout=str(bad))
    assert closed == [True]


def test_curves_and_bodies_are_lightened_on_a_dark_ground_only() -> None:
    names = [palette.curve_color(index) for index in range(40)]
    try:
        palette.use("dark")
        dark = [palette.curve_color(index) for index in range(40)]
        assert len(set(dark)) == 40
        lightness = [colorsys.rgb_to_hls(*(int(c[k : k + 2], 16) / 255 for k in (1, 3, 5)))[1] for c in dark]
        assert min(lightness) > 0.5
        assert palette.visible("#ffffff") == "#ffffff"
    finally:
        palette.use("light")
    assert [palette.curve_color(index) for index in range(40)] == names
    with pytest.raises(ValueError, match="theme 'blue' is unknown; choose one of light, dark"):
        palette.use("blue")


def test_a_live_run_has_a_bounded_number_of_rows_and_the_span_of_its_plots(
    said_in_space: list[Any], qtbot: Any
) -> None:
    table, made = Table(["a"]), 0
    for count in (1, 700, 5 * CAPACITY // 4, 333, *[977] * 60):
        table.extend(np.arange(made, made + count) * 1e-3, np.arange(made, made + count)[:, None])
        made += count
        assert min(made, CAPACITY) <= len(table.times) <= 1.25 * CAPACITY
        assert table._data.shape[1] <= 1.25 * CAPACITY
        np.testing.assert_array_equal(table.column("a"), np.arange(made - len(table.times), made))
    assert table.total == made
    window, feed = live(qtbot)
    hear(window, feed, *said_in_space)
    source = window.sources[0]
    column = source.signals.column("position", "pitch")
    assert column is not None
    assert source.span == pytest.approx((column[0][0], column[0][-1]))
    window.close()
