"""Windows with more plots than there is room for: the area scrolls, and the plots in view are readable."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

pytest.importorskip("pyqtgraph", exc_type=ImportError)
from pyqtgraph.Qt import QtCore, QtWidgets

from tests.viewer.window_driving import hear, live, opened_window, wheel
from viewer.layout import Curve, Layout, PlotSpec
from viewer.window.main import MainWindow
from viewer.window.plots.grid import FLATTEST, SCROLLED
from viewer.window.plots.plot import Plot

FIELDS = ("position.yaw", "position.pitch", "velocity.yaw", "velocity.pitch", "energy", "effort.yaw")


def show_plots(window: MainWindow, qtbot: Any, count: int) -> None:
    """Show `count` plots in a window of 1280 x 720 pixels."""
    specs = tuple(PlotSpec((Curve("swing/state", FIELDS[place % len(FIELDS)]),)) for place in range(count))
    window.history.change(msgspec.structs.replace(window.history.layout, plots=specs), "plots")
    window.resize(1280, 720)
    qtbot.waitUntil(lambda: window.width() == 1280)
    for _ in range(5):
        QtWidgets.QApplication.processEvents()


def is_in_view(window: MainWindow, plot: Plot) -> bool:
    """Whether a plot is in view, from its top to its bottom."""
    rect, view = plot.item.sceneBoundingRect(), window.plots.area.in_view
    return bool(rect.top() >= view.top() and rect.bottom() <= view.top() + view.height())


def test_many_plots_scroll_and_are_as_high_as_is_readable(spatial: Path, qtbot: Any) -> None:
    with opened_window(qtbot, spatial) as window:
        bar = window.plots.area.verticalScrollBar()
        show_plots(window, qtbot, 18)
        assert bar.maximum() > 0
        assert min(plot.box.height() for plot in window.plots.plots) >= 0.8 * SCROLLED
        assert all(plot.bottom.isVisible() for plot in window.plots.plots)  # the numbers of time are in view, too
        show_plots(window, qtbot, 3)
        assert bar.maximum() == 0
        assert min(plot.box.height() for plot in window.plots.plots) >= FLATTEST
        assert [plot.bottom.isVisible() for plot in window.plots.plots].count(True) == window.plots._columns


def test_plots_that_are_scrolled_into_view_show_the_present_time_and_data(spatial: Path, qtbot: Any) -> None:
    with opened_window(qtbot, spatial) as window:
        show_plots(window, qtbot, 18)
        last = window.plots.plots[-1]
        assert not is_in_view(window, last)
        window.history.change(msgspec.structs.replace(window.history.layout, time=(1.0, 2.0)), "part of the time")
        window.playback.seek(1.25)
        before = last.curves._frame
        window.plots.area.verticalScrollBar().setValue(window.plots.area.verticalScrollBar().maximum())
        qtbot.waitUntil(lambda: last.curves._frame is not before)
        assert is_in_view(window, last)
        assert last.curves._frame is not None
        assert last.curves._frame.x == (1.0, 2.0)
        assert last.now_line.value() == 1.25


def test_a_live_plot_that_was_out_of_view_has_all_its_curve(said_in_space: list[Any], qtbot: Any) -> None:
    window, feed = live(qtbot)
    with qtbot.waitExposed(window):
        window.show()
    window._timer.stop()
    hear(window, feed, *said_in_space[:60])
    show_plots(window, qtbot, 18)
    last = window.plots.plots[-1]
    window.refresh()
    hear(window, feed, *said_in_space[60:])
    window.plots.area.verticalScrollBar().setValue(window.plots.area.verticalScrollBar().maximum())
    window.plots._redraw()
    curve = last.spec.curves[0]
    assert last._drawn_rows[0, curve] == window.sources[0].store.total(curve.topic, curve.field)
    window.close()


def test_the_wheel_beside_the_plots_scrolls_and_over_a_plot_zooms(spatial: Path, qtbot: Any) -> None:
    with opened_window(qtbot, spatial) as window:
        show_plots(window, qtbot, 18)
        plots, bar = window.plots, window.plots.area.verticalScrollBar()
        title = plots.plots[0].title.sceneBoundingRect()
        at = plots.canvas.mapFromScene(QtCore.QPointF(title.right() - 4.0, title.center().y()))
        wheel(plots.canvas.viewport(), at, -120)
        assert bar.value() > 0
        assert window.history.layout.time is None
        value = bar.value()
        box = plots.plots[4].box.sceneBoundingRect()
        wheel(plots.canvas.viewport(), plots.canvas.mapFromScene(box.center()), 120)
        assert bar.value() == value
        assert window.history.layout.time is not None


def test_a_new_plot_is_scrolled_into_view(spatial: Path, qtbot: Any) -> None:
    with opened_window(qtbot, spatial) as window:
        show_plots(window, qtbot, 18)
        assert window.plots.area.verticalScrollBar().value() == 0
        window.plots.add_plot()
        qtbot.waitUntil(lambda: is_in_view(window, window.plots.plots[-1]))


def test_the_values_at_the_pointer_stay_in_view(spatial: Path, qtbot: Any) -> None:
    with opened_window(qtbot, spatial) as window:
        show_plots(window, qtbot, 18)
        plots = window.plots
        bar = plots.area.verticalScrollBar()
        bar.setValue(bar.maximum() // 2)
        QtWidgets.QApplication.processEvents()
        for place, plot in enumerate(plots.plots):
            if is_in_view(window, plot):
                plots.hover(QtCore.QPointF(1.0, plot.span[0]), place)
                assert plots.readout.isVisible()
                assert plots.area.in_view.contains(plots.readout.geometry())


def test_a_film_has_all_plots(spatial: Path, qtbot: Any) -> None:
    with opened_window(qtbot, spatial) as window:
        show_plots(window, qtbot, 18)
        window.plots.show_all()
        for _ in range(3):
            QtWidgets.QApplication.processEvents()
        assert all(is_in_view(window, plot) for plot in window.plots.plots)
        assert Layout().plots is None
