"""The window under the mouse and the keyboard: camera, plots, time slider, undo."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

pytest.importorskip("pyqtgraph", exc_type=ImportError)
from pyqtgraph.Qt import QtCore, QtGui, QtWidgets

from tests.viewer.window_driving import BUTTONS, KEYS, double_click, drag, opened_window, wheel
from viewer.layout import Curve, PlotSpec
from viewer.qt.focus import only_when_clicked
from viewer.window.main import MainWindow
from viewer.window.menus.commands import COMMANDS, GESTURES
from viewer.window.menus.shortcuts import shortcuts_html
from viewer.window.plots.plot import DOTS


@pytest.fixture
def window(spatial: Path, qtbot: Any) -> Iterator[MainWindow]:
    """A window on a recording of 3 s."""
    with opened_window(qtbot, spatial) as found:
        qtbot.waitUntil(lambda: found.scene.box.height() > 200.0, timeout=10_000)
        yield found


def scene_of(window: MainWindow) -> tuple[Any, Any]:
    """The scene's viewport and its middle."""
    viewport = window.scene.widget.viewport()
    return viewport, viewport.rect().center()


def plot_spot(window: MainWindow, place: int, x: float, y: float = 0.5) -> tuple[Any, Any]:
    """The plots' viewport, and a pixel in one of them; x and y in 0 .. 1 from its upper left corner."""
    rect = window.plots.plots[place].box.sceneBoundingRect()
    at = QtCore.QPointF(rect.left() + x * rect.width(), rect.top() + y * rect.height())
    return window.plots.canvas.viewport(), window.plots.canvas.mapFromScene(at)


def camera(window: MainWindow) -> Any:
    return window.history.layout.camera


def test_the_left_button_turns_the_camera_and_each_drag_is_undone_on_its_own(window: MainWindow, qtbot: Any) -> None:
    widget, middle = scene_of(window)
    before = window.scene.present_camera()
    drag(widget, middle, middle + QtCore.QPoint(50, 20))
    first = camera(window)
    # five moves of 10 and 4 pixels; the first of them begins the drag
    assert 16.0 <= before.azimuth_deg - first.azimuth_deg <= 20.0 + 1e-9
    assert 6.0 <= first.elevation_deg - before.elevation_deg <= 8.0 + 1e-9
    drag(widget, middle, middle + QtCore.QPoint(50, 20))
    assert camera(window) != first
    qtbot.keyClick(window, QtCore.Qt.Key.Key_Z, KEYS.ControlModifier)
    assert camera(window) == first
    qtbot.keyClick(window, QtCore.Qt.Key.Key_Z, KEYS.ControlModifier)
    assert camera(window) is None
    qtbot.keyClick(window, QtCore.Qt.Key.Key_Y, KEYS.ControlModifier)
    assert camera(window) == first


@pytest.mark.parametrize(
    ("button", "modifiers"), [(BUTTONS.MiddleButton, KEYS.NoModifier), (BUTTONS.LeftButton, KEYS.ShiftModifier)]
)
def test_a_pan_moves_the_scene_with_the_pointer(window: MainWindow, button: Any, modifiers: Any) -> None:
    widget, middle = scene_of(window)
    box = window.scene.box
    shown = box.viewRect().center()
    pixel_x, pixel_y = box.viewPixelSize()
    drag(widget, middle, middle + QtCore.QPoint(50, 25), button, modifiers)
    moved = box.viewRect().center() - shown
    assert moved.x() == pytest.approx(-50.0 * pixel_x, rel=0.25)
    assert moved.y() == pytest.approx(25.0 * pixel_y, rel=0.25)


def test_the_wheel_zooms_at_the_pointer_and_a_double_click_fits(window: MainWindow, qtbot: Any) -> None:
    widget, middle = scene_of(window)
    box = window.scene.box
    at = middle + QtCore.QPoint(60, 40)
    height = box.viewRect().height()
    point = box.mapSceneToView(window.scene.widget.mapToScene(at))
    wheel(widget, at, 240)
    assert box.viewRect().height() == pytest.approx(height / 1.0015**240, rel=1e-6)
    kept = box.mapSceneToView(window.scene.widget.mapToScene(at))
    assert (kept.x(), kept.y()) == pytest.approx((point.x(), point.y()), abs=1e-6)
    double_click(widget, middle)
    assert camera(window) is None
    assert box.viewRect().height() == pytest.approx(height, rel=1e-6)


def test_presets_look_along_the_axes_and_keep_the_robot_in_the_picture(window: MainWindow, qtbot: Any) -> None:
    axes = {"1": ([1, 0, 0], [0, 0, 1]), "2": ([0, 1, 0], [0, 0, 1]), "3": ([1, 0, 0], [0, 1, 0])}
    for key, (right, up) in axes.items():
        qtbot.keyClicks(window, key)
        assert window.scene._view.axes[:2].tolist() == [right, up]
        assert not window.scene.outgrown
    qtbot.keyClicks(window, "4")
    assert window.scene._view.axes[2] == pytest.approx(np.array([1.0, -1.0, 1.0]) / np.sqrt(3.0))
    qtbot.keyClicks(window, "0")
    assert camera(window) is None


def test_a_following_camera_keeps_the_body_in_the_middle(window: MainWindow, qtbot: Any) -> None:
    window.scene.follow_next()
    window.scene.follow_next()
    assert camera(window).follow == "rod"
    for now in (0.5, 2.0):
        window.playback.seek(now)
        middle = window.scene.box.viewRect().center()
        origin = window.scene._view.project(np.array([0.2 * np.cos(np.sin(now)), 0.2 * np.sin(np.sin(now)), 0.0]))
        assert (middle.x(), middle.y()) == pytest.approx(tuple(origin[:2]), abs=2e-3)
    assert "follows rod" in window.page.caption.text()


def test_zoom_pan_and_fit_of_the_plots_can_be_undone(window: MainWindow, qtbot: Any) -> None:
    widget, at = plot_spot(window, 0, 0.5)
    whole = window.time_shown(window.history.layout)
    wheel(widget, at, 480)
    zoomed = window.time_shown(window.history.layout)
    assert zoomed[1] - zoomed[0] == pytest.approx((whole[1] - whole[0]) / 1.0012**480)
    assert {tuple(plot.box.viewRange()[0]) for plot in window.plots.plots} == {zoomed}  # linked
    drag(widget, at, at + QtCore.QPoint(40, 20), BUTTONS.MiddleButton)
    moved = window.time_shown(window.history.layout)
    assert moved[0] < zoomed[0]
    assert window.plots.specs[0].span is not None
    assert window.plots.specs[1].span is None
    double_click(widget, at)
    assert window.time_shown(window.history.layout) == whole
    for shown in (moved, zoomed, whole):
        qtbot.keyClick(window, QtCore.Qt.Key.Key_Z, KEYS.ControlModifier)
        assert window.time_shown(window.history.layout) == shown
    assert not window.menus.actions["history.stack.undo"].isEnabled()


def test_ctrl_and_wheel_zoom_the_value_axis_of_one_plot(window: MainWindow) -> None:
    widget, at = plot_spot(window, 1, 0.5)
    low, high = window.plots.plots[1].span
    wheel(widget, at, 240, KEYS.ControlModifier)
    now_low, now_high = window.plots.plots[1].box.viewRange()[1]
    assert now_high - now_low == pytest.approx((high - low) / 1.0012**240)
    assert window.history.layout.time is None


def test_a_click_on_the_slider_goes_there(window: MainWindow, qtbot: Any) -> None:
    slider = window.timeline.slider
    for place in (0.25, 0.8):
        qtbot.mouseClick(slider, BUTTONS.LeftButton, pos=QtCore.QPoint(slider.x_of(place), slider.height() // 2))
        start, end = window.sources[0].span
        assert window.playback.now == pytest.approx(start + place * (end - start), abs=(end - start) / slider.width())
        assert window.plots.plots[0].now_line.value() == window.playback.now


def test_a_click_in_a_plot_goes_there(window: MainWindow, qtbot: Any) -> None:
    widget, at = plot_spot(window, 2, 0.5)
    qtbot.mouseClick(widget, BUTTONS.LeftButton, pos=at)
    qtbot.waitUntil(lambda: window.playback.now < 2.9, timeout=5_000)
    assert window.playback.now == pytest.approx(1.495, abs=0.02)
    assert window.plots.current == 2


def test_keys_step_through_the_frames_and_play(window: MainWindow, qtbot: Any) -> None:
    def press(key: Any, modifiers: Any = KEYS.NoModifier) -> float:
        qtbot.keyClick(window, key, modifiers)
        return window.playback.now

    keys = QtCore.Qt.Key
    assert press(keys.Key_Home) == 0.0
    assert press(keys.Key_Right) == pytest.approx(0.01)
    assert press(keys.Key_Right, KEYS.ShiftModifier) == pytest.approx(0.11)
    assert press(keys.Key_Left) == pytest.approx(0.10)
    assert press(keys.Key_End) == pytest.approx(2.99)
    for _ in range(3):
        qtbot.keyClicks(window, "+")
    assert window.timeline.factor == 10.0
    window._timer.start(10)
    press(keys.Key_Space)  # at the end: from the start
    assert window.timeline.play.text() == "Pause"
    qtbot.waitUntil(lambda: window.timeline.play.text() == "Play", timeout=10_000)
    assert window.playback.now == pytest.approx(2.99)


def test_the_cursor_shows_the_values_of_the_recording(window: MainWindow) -> None:
    widget, at = plot_spot(window, 0, 0.5)
    event = QtGui.QMouseEvent(
        QtCore.QEvent.Type.MouseMove, QtCore.QPointF(at), BUTTONS.NoButton, BUTTONS.NoButton, KEYS.NoModifier
    )
    QtWidgets.QApplication.sendEvent(widget, event)
    now = window.plots.plots[0].hover_line.value()
    assert all(plot.hover_line.isVisible() and plot.hover_line.value() == now for plot in window.plots.plots)
    text = window.plots.readout.text()
    assert f"{now:.4f} s" in text
    sample = int(now / 1e-2 + 1e-9) * 1e-2
    assert f"{np.sin(sample):.5g}" in text  # yaw
    assert f"{np.cos(3.0 * sample):.5g}" in text  # pitch
    others = [readout for readout in window.plots.other_readouts if not readout.isHidden()]
    assert len(others) == len(window.plots.plots) - 1
    rates = [f"{np.cos(sample):.5g}", f"{-3.0 * np.sin(3.0 * sample):.5g}"]
    assert any(all(rate in readout.text() for rate in rates) for readout in others)


def test_curves_are_added_and_removed(window: MainWindow, qtbot: Any) -> None:
    curve = Curve("swing/state", "outputs.height")
    count = len(window.plots.specs)
    window.plots.add(curve)
    assert window.plots.specs[count].curves == (curve,)  # of another unit than position: a plot of its own
    window.plots.add(Curve("swing/state", "position.yaw"), 1)
    assert [each.field for each in window.plots.specs[1].curves] == ["velocity.yaw", "velocity.pitch", "position.yaw"]
    window.plots.remove(1, Curve("swing/state", "velocity.pitch"))
    assert [each.field for each in window.plots.specs[1].curves] == ["velocity.yaw", "position.yaw"]
    for _ in range(3):
        qtbot.keyClick(window, QtCore.Qt.Key.Key_Z, KEYS.ControlModifier)
    assert window.history.layout.plots is None
    assert len(window.plots.specs) == count


def test_the_window_is_no_larger_than_the_screen(window: MainWindow) -> None:
    window._fit_screen()
    room = window.screen().availableGeometry()
    assert window.width() <= room.width()
    assert window.height() <= room.height()
    assert window.minimumSizeHint().width() <= 800
    assert window.minimumSizeHint().height() <= 600


def test_every_command_is_in_a_menu_and_on_the_page_of_shortcuts(window: MainWindow, qtbot: Any) -> None:
    qtbot.keyClick(window, QtCore.Qt.Key.Key_F1)
    page = window.shortcut_page.page.toPlainText()
    assert window.shortcut_page.isVisible()
    for command in COMMANDS:
        if command.when == "live":
            assert command.key not in window.menus.actions
            continue
        action = window.menus.actions[command.key]
        assert action in window.menus.menus[command.menu].actions()
        assert command.text in page
        assert not command.keys or command.keys[0] in page
        assert [key.toString() for key in action.shortcuts()] == list(command.keys)
    for other in ("live", "recording"):  # no key has two meanings
        keys = [key for command in COMMANDS if command.when != other for key in command.keys]
        assert len(keys) == len(set(keys))
    for row in GESTURES:
        assert row.text.partition(": ")[2] in page
    assert "Play or pause" not in shortcuts_html(live=True)
    window.shortcut_page.close()


def test_a_time_that_is_typed_is_shown_and_the_field_gives_the_keyboard_back(window: MainWindow, qtbot: Any) -> None:
    field = window.timeline.time_box
    field.setFocus()
    field.selectAll()
    qtbot.keyClicks(field, "1.25")
    qtbot.keyClick(field, QtCore.Qt.Key.Key_Return)
    assert window.playback.now == pytest.approx(1.25)
    qtbot.waitUntil(lambda: not field.hasFocus())
    qtbot.keyClick(window, QtCore.Qt.Key.Key_Home)
    assert field.value() == 0.0


def test_a_wheel_that_scrolls_past_a_field_does_not_change_its_value(qtbot: Any) -> None:
    field = QtWidgets.QSpinBox()
    qtbot.addWidget(field)
    only_when_clicked(field)
    field.setValue(5)
    field.show()
    field.clearFocus()
    wheel(field, QtCore.QPoint(3, 3), 120)
    assert field.value() == 5
    QtWidgets.QApplication.setActiveWindow(field)
    field.setFocus()
    wheel(field, QtCore.QPoint(3, 3), 120)
    assert field.value() == 6


@pytest.mark.parametrize("height", [580, 900])
def test_the_numbers_of_a_value_axis_do_not_overlap_in_flat_plots(height: int, window: MainWindow, qtbot: Any) -> None:
    window.resize(700, height)
    for _ in range(3):
        QtWidgets.QApplication.processEvents()
        window.refresh()
    for plot in window.plots.plots:
        if plot.spec.log or plot.spec.words:
            continue
        width, (start, end) = plot.box.width(), plot.box.viewRange()[0]
        numbers = plot.bottom.tickValues(start, end, width)[0][1]
        assert width * (numbers[1] - numbers[0]) / (end - start) >= 25.0  # the width of three digits
        low, high = plot.span
        pixels = plot.box.height()
        if pixels < 40.0:
            continue  # too flat for two numbers
        numbers = plot.left_axis.tickValues(low, high, pixels)[0][1]
        assert len(numbers) >= 2
        assert pixels * (numbers[1] - numbers[0]) / (high - low) >= 11.0  # the height of a digit


@pytest.mark.parametrize("count", [2, 3, 5, 7])
def test_plots_of_a_column_have_equal_edges_and_the_lowest_one_has_the_time_axis(
    count: int, window: MainWindow, qtbot: Any
) -> None:
    plots = window.plots
    specs = tuple(PlotSpec((Curve("swing/state", "position.yaw"),), unit="rad") for _ in range(count))
    window.history.change(msgspec.structs.replace(window.history.layout, plots=specs), "plots")
    plots._build(2)
    plots.canvas.ci.layout.activate()
    edges = [plot.box.sceneBoundingRect() for plot in plots.plots]
    for place, plot in enumerate(plots.plots):
        above = edges[place % 2]
        assert (edges[place].left(), edges[place].right()) == pytest.approx((above.left(), above.right()), abs=1.0)
        assert plot.bottom.isVisible() == (place + 2 >= count)
    assert edges[0].width() == pytest.approx(edges[1].width(), abs=2.0)


def test_the_mark_of_a_recorded_reference_is_dotted(window: MainWindow) -> None:
    window.plots.lay_out_titles()
    (title,) = [plot.title.text for plot in window.plots.plots if "reference" in plot.title.text]
    assert title.count(DOTS) == 1
    assert "╍╍" not in title  # the mark of a second recording
