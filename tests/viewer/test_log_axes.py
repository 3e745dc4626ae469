"""Logarithmic axes: their labels, and values that have no logarithm."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodes.framework.messages import Description, JointDescription, RobotState
from nodes.framework.recording.reader import RecordingWriter

pytest.importorskip("pyqtgraph", exc_type=ImportError)
from pyqtgraph.Qt import QtWidgets

from tests.viewer.window_driving import hear, live, opened_window
from viewer.layout import SMALLEST, Curve, PlotSpec
from viewer.qt.axes import LABEL_PIXELS, PowerAxis
from viewer.window.main import MainWindow
from viewer.window.plots.plot import MAGNITUDE, NEGATIVE, Plot

YAW = Curve("swing/state", "position.yaw")


@pytest.fixture
def axis(qapp: Any) -> PowerAxis:
    return PowerAxis("left")


def labels(axis: PowerAxis, low: float, high: float, size: float = 200.0) -> list[str]:
    """Labels of an axis between two decimal exponents, from the lowest."""
    spacing, places = axis.tickValues(low, high, size)[0]
    return axis.logTickStrings(places, 1.0, spacing)


@pytest.mark.parametrize(
    ("low", "high", "wanted"),
    [
        (-9.2, -8.2, ["10⁻⁹", "2·10⁻⁹", "5·10⁻⁹"]),
        (-0.1, 1.2, ["10⁰", "2·10⁰", "5·10⁰", "10¹"]),
        (math.log10(2.1), math.log10(4.2), ["3·10⁰", "4·10⁰"]),
        (math.log10(3.1e-4), math.log10(3.5e-4), ["3.2·10⁻⁴", "3.4·10⁻⁴"]),
        (-9.4, -6.6, ["10⁻⁹", "10⁻⁸", "10⁻⁷"]),
        (-16.0, -2.0, ["10⁻¹⁶", "10⁻¹³", "10⁻¹⁰", "10⁻⁷", "10⁻⁴"]),
    ],
)
def test_parts_of_a_decade_have_labels_where_less_than_two_decades_are_in_view(
    low: float, high: float, wanted: list[str], axis: PowerAxis
) -> None:
    assert labels(axis, low, high) == wanted


@given(low=st.floats(-17.0, 8.0), decades=st.floats(1e-3, 1.99), size=st.floats(64.0, 800.0))
def test_an_axis_of_less_than_two_decades_has_two_labels_or_more_which_differ(
    low: float, decades: float, size: float
) -> None:
    axis = PowerAxis.__new__(PowerAxis)  # no item of Qt is drawn
    spacing, places = PowerAxis.tickValues(axis, low, low + decades, size)[0]
    found = PowerAxis.logTickStrings(axis, places, 1.0, spacing)
    assert len(found) >= 2
    assert len(set(found)) == len(found)
    gaps = [after - before for before, after in itertools.pairwise(places)]
    assert min(gaps) * size / decades >= min(LABEL_PIXELS, size / 8.0)
    assert all(low - 1e-9 <= place <= low + decades + 1e-9 for place in places)


def recorded(path: Path, values: list[float]) -> Path:
    with RecordingWriter(path, {}) as writer:
        writer.write("swing/description", Description(robot="swing", joints=[JointDescription(name="yaw")]), 0.0)
        for seq, value in enumerate(values):
            now = 0.01 * seq
            state = RobotState(timestamp=now, seq=seq + 1, name=["yaw"], position=[value], velocity=[0.0])
            writer.write("swing/state", state, now)
    return path


def log_plot(window: MainWindow) -> Plot:
    """The plot of the yaw angle, on a logarithmic axis."""
    layout = msgspec.structs.replace(window.history.layout, plots=(PlotSpec((YAW,), "Yaw", "rad", log=True),))
    window.history.change(layout, "plots")
    window.refresh()
    return window.plots.plots[0]


def drawn(plot: Plot, window: MainWindow) -> list[float]:
    """Decimal exponents that a plot draws of its first curve."""
    lines: list[Any] = []
    redraw = plot.curves.redraw
    plot.curves.redraw = lambda frame, found, **how: (lines.extend(found), redraw(frame, found, **how))[1]  # type: ignore[method-assign]
    plot.invalidate()
    window.refresh()
    plot.curves.redraw = redraw  # type: ignore[method-assign]
    return [float(value) for value in lines[0].y]


def test_a_difference_on_a_logarithmic_axis_is_drawn_as_its_magnitude_and_says_so(tmp_path: Path, qtbot: Any) -> None:
    files = recorded(tmp_path / "a.mcap", [1.0, 1.0, 1.0]), recorded(tmp_path / "b.mcap", [1.1, 0.99, 1.0])
    with opened_window(qtbot, *files) as window:
        plot = log_plot(window)
        window.toggle_difference()
        assert drawn(plot, window) == pytest.approx([-1.0, -2.0, math.log10(SMALLEST)])
        assert MAGNITUDE in plot.title.text
        (order,) = plot.drawn(window.sources, True)
        found = plot.values(order, window.sources, True)
        assert found is not None
        np.testing.assert_allclose(found[1], [0.1, -0.01, 0.0], atol=1e-12)  # the values keep their signs
        window.toggle_difference()
        assert MAGNITUDE not in plot.title.text
        window.toggle_difference()
        window.plots.toggle_log(0)
        assert MAGNITUDE not in window.plots.plots[0].title.text
        assert "difference to the first" in window.plots.plots[0].title.text


def test_negative_values_are_not_drawn_on_a_logarithmic_axis_and_the_title_says_so(tmp_path: Path, qtbot: Any) -> None:
    with opened_window(qtbot, recorded(tmp_path / "a.mcap", [10.0, -10.0, 0.0, 100.0])) as window:
        plot = log_plot(window)
        values = drawn(plot, window)
        assert values[0] == 1.0
        assert math.isnan(values[1])
        assert values[2:] == pytest.approx([math.log10(SMALLEST), 2.0])
        assert NEGATIVE in plot.title.text
        window.history.change(msgspec.structs.replace(window.history.layout, time=(0.025, 0.03)), "later")
        assert NEGATIVE not in plot.title.text  # none of them is in view
        window.plots.toggle_log(0)
        assert NEGATIVE not in window.plots.plots[0].title.text


def test_names_that_make_way_for_what_a_title_says_are_below_the_plots(spatial: Path, qtbot: Any) -> None:
    with opened_window(qtbot, spatial) as window:
        pitch, height = Curve("swing/state", "position.pitch"), Curve("swing/state", "outputs.height")
        curves = (YAW, pitch, height, Curve("swing/reference", "position.yaw"))
        layout = msgspec.structs.replace(window.history.layout, plots=(PlotSpec(curves, "Angles", "rad"),))
        window.history.change(layout, "plots")
        made_way = 0
        for width in range(700, 1500, 50):
            window.resize(width, 700)
            for _ in range(4):
                QtWidgets.QApplication.processEvents()
            for _ in range(2):
                window.plots.toggle_log(0)
                QtWidgets.QApplication.processEvents()
                title = window.plots.plots[0].title.text
                assert ("curves" in title) == window.plots.names.isVisible()
                made_way += NEGATIVE in title and "curves" in title
        assert made_way > 0


def test_a_live_value_that_becomes_negative_is_told_of(qtbot: Any) -> None:
    window, feed = live(qtbot)

    def state(seq: int, value: float) -> tuple[str, RobotState]:
        now = 0.01 * seq
        return "swing/state", RobotState(timestamp=now, seq=seq + 1, name=["yaw"], position=[value], velocity=[0.0])

    hear(window, feed, *(state(seq, 10.0 + seq) for seq in range(10)))
    plot = log_plot(window)
    assert NEGATIVE not in plot.title.text
    hear(window, feed, state(10, -1.0))
    assert NEGATIVE in plot.title.text
    _, high = plot.span
    hear(window, feed, state(11, 1e4))  # the axis still follows the values that are drawn
    assert plot.span[1] > max(high, 4.0)
    assert plot.span[0] <= 1.0
    window.close()
