"""Names that are longer than there is room for, names that tell curves apart, and buttons on a dark ground."""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from nodes.framework.messages import JointDescription, RobotState
from nodes.framework.recording.reader import RecordingWriter

pytest.importorskip("pyqtgraph", exc_type=ImportError)
from pyqtgraph.Qt import QtWidgets

from nodes.framework.messages import Description
from tests.viewer.window_driving import opened_window
from viewer.curves import colour_key, curve_names
from viewer.layout import Curve, PlotSpec
from viewer.qt import theme
from viewer.qt.titles import ELLIPSIS, LETTER_WIDTH, SHORTEST, compose, shortened, table
from viewer.window.docks.docks import BUTTONS

LONG = "upper_arm_of_the_left_manipulator_on_the_mobile_base_in_cell_4"


def letters(text: str) -> list[str]:
    """Lines of a rich text without its tags."""
    lines = [re.sub(r"<[^>]*>", "", row).replace("&nbsp;", " ") for row in text.split("<br>")]
    return [html.unescape(line) for line in lines]


def test_a_text_that_is_too_long_loses_its_middle() -> None:
    assert shortened("elbow", 20) == "elbow"
    short = shortened(LONG, 20)
    assert len(short) == 20
    first, last = short.split(ELLIPSIS)
    assert LONG.startswith(first)
    assert LONG.endswith(last)
    assert len(last) > len(first) > 0
    assert len(shortened(LONG, 0)) == SHORTEST


@pytest.mark.parametrize("width", [160.0, 300.0])
def test_no_name_is_wider_than_its_plot(width: float) -> None:
    curves = [(f"{LONG}_{number}", "#000000", "-") for number in range(2)]
    text, lines, _ = compose(LONG, "rad", curves, dashed=False, remark="", width=width)
    rows = letters(text)
    assert len(rows) == lines
    assert max(len(row) for row in rows) * LETTER_WIDTH <= width
    below = table(curves, width)
    names = re.findall(r"<span style='color:[^']*'>([^<-]*)</span></td>", below)
    assert len(set(names)) == 2
    assert max(len(name) for name in names) * LETTER_WIDTH <= width


def test_the_whole_name_is_shown_while_the_pointer_rests_on_a_shortened_one(tmp_path: Path, qtbot: Any) -> None:
    file = tmp_path / "long.mcap"
    names = [f"{LONG}_{number}" for number in range(6)]
    with RecordingWriter(file, {}) as writer:
        writer.write("arm/description", Description(robot="arm", joints=[JointDescription(name=n) for n in names]), 0.0)
        for seq in range(20):
            state = RobotState(timestamp=0.1 * seq, seq=seq + 1, name=names, position=[float(seq)] * 6)
            writer.write("arm/state", state, state.timestamp)
    with opened_window(qtbot, file) as window:
        window.resize(900, 700)
        curves = tuple(Curve("arm/state", f"position.{name}") for name in names)
        specs = (PlotSpec(curves[:2], "Few", "rad"), PlotSpec(curves, "Many", "rad"))
        window.history.change(msgspec.structs.replace(window.history.layout, plots=specs), "plots")
        for _ in range(5):
            QtWidgets.QApplication.processEvents()
        few, _ = window.plots.plots
        assert ELLIPSIS in few.title.text
        assert few.title._item.toolTip().split("\n") == ["Few", *names[:2]]
        assert ELLIPSIS in window.plots.key.text()
        assert set(names) <= set(window.plots.key.toolTip().split("\n"))
        window.plots.set_specs((PlotSpec((Curve("arm/state", "energy"),), "Energy", "J"),))
        assert window.plots.plots[0].title._item.toolTip() == ""


def test_references_of_one_style_have_one_entry_below_the_plots() -> None:
    states = [(f"joint_{number}", f"#00000{number}", "━━") for number in range(3)]
    references = [(f"{name} (reference)", "#111111", "┉┉") for name, *_ in states]
    below = table([*states, *references], 400.0)
    assert [below.count(f">{name}<") for name in ("joint_0", "references", "joint_0 (reference)")] == [1, 1, 0]
    assert table(references[:1], 400.0).count(">joint_0 (reference)<") == 1


def test_a_film_leaves_out_names_that_do_not_fit_below_the_plots(tmp_path: Path, qtbot: Any) -> None:
    file, names = tmp_path / "many.mcap", [f"joint_number_{number}" for number in range(60)]
    with RecordingWriter(file, {}) as writer:
        writer.write("arm/description", Description(robot="arm", joints=[JointDescription(name=n) for n in names]), 0.0)
        for seq in range(20):
            state = RobotState(timestamp=0.1 * seq, seq=seq + 1, name=names, position=[float(seq)] * len(names))
            writer.write("arm/state", state, state.timestamp)
    with opened_window(qtbot, file) as window:
        window.resize(900, 700)
        specs = (PlotSpec(tuple(Curve("arm/state", f"position.{name}") for name in names), "Position", "rad"),)
        window.history.change(msgspec.structs.replace(window.history.layout, plots=specs), "plots")
        for _ in range(5):
            QtWidgets.QApplication.processEvents()
        assert not window.plots.names.isHidden()
        height = window.plots.plots[0].box.height()
        window.plots.show_all()
        for _ in range(3):
            QtWidgets.QApplication.processEvents()
        assert window.plots.names.isHidden()
        assert letters(window.plots.plots[0].title.text)[-1].endswith("60 curves")
        assert window.plots.plots[0].box.height() > height + 50.0


def test_the_same_joint_of_two_robots_has_two_names_and_two_colours() -> None:
    curves = [Curve(f"{side}/arm/state", "position.elbow") for side in ("left", "right")]
    assert curve_names(curves) == ["left/arm state elbow", "right/arm state elbow"]
    assert len({colour_key(curve) for curve in curves}) == 2
    followed = Curve("left/arm/reference", "position.elbow")
    assert colour_key(followed) == colour_key(curves[0])
    assert curve_names([curves[0], followed]) == ["elbow", "elbow (reference)"]


def test_the_buttons_of_the_panels_stand_out_from_a_light_and_a_dark_ground(spatial: Path, qtbot: Any) -> None:
    def contrast(window: Any) -> float:
        """Smallest difference of lightness between a button's icon and the ground beside it."""
        found = []
        for dock in window.docks.docks.values():
            for button in dock.findChildren(QtWidgets.QAbstractButton):
                if button.objectName() in BUTTONS and button.isVisible():
                    image = button.grab().toImage()
                    places = [(x, y) for x in range(image.width()) for y in range(image.height())]
                    shades = [image.pixelColor(x, y).lightnessF() for x, y in places]
                    ground = sorted(shades)[len(shades) // 2]
                    found.append(max(abs(shade - ground) for shade in shades))
        return min(found)

    with opened_window(qtbot, spatial) as window:
        try:
            assert contrast(window) > 0.5
            window.toggle_theme()
            QtWidgets.QApplication.processEvents()
            assert contrast(window) > 0.5
            window.docks.docks["Topics"].setFloating(True)
            window.docks.docks["Topics"].setFloating(False)
            QtWidgets.QApplication.processEvents()
            assert contrast(window) > 0.5
        finally:
            theme.use("light")
