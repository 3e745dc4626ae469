"""The panels of the window: tree of topics, events, statistics, layouts."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nodes.cli.application import run as command_line
from nodes.framework.messages import Event, PlotValues, RobotState
from nodes.framework.recording.reader import RecordingWriter

pytest.importorskip("pyqtgraph", exc_type=ImportError)
from pyqtgraph.Qt import QtCore, QtGui, QtWidgets

from tests.viewer.conftest import swinging
from tests.viewer.window_driving import BUTTONS, KEYS, double_click, drag, opened_window
from viewer.layout import Curve, LayoutError, load_layout
from viewer.source import align, read_source
from viewer.window import files
from viewer.window.files import OverrideDialog
from viewer.window.main import MainWindow
from viewer.window.plots.canvas import MIME
from viewer.window.suffixes import with_suffix


@pytest.fixture
def window(tmp_path: Path, qtbot: Any) -> Iterator[MainWindow]:
    """A window on a recording of 3 s with two events."""
    path = tmp_path / "run.mcap"
    with RecordingWriter(path, {}) as writer:
        for topic, message in swinging(planar=False, ticks=300):
            writer.write(topic, message, message.timestamp)
            if topic == "swing/state" and message.seq in (100, 200):
                event = Event(timestamp=message.timestamp, kind="grip", part="hand", source="open", target="grips")
                writer.write("swing/event", event, message.timestamp)
    with opened_window(qtbot, path) as found:
        yield found


def leaf(window: MainWindow, curve: Curve) -> Any:
    """The row of a field."""
    tree = window.docks.topics.tree
    walk = QtWidgets.QTreeWidgetItemIterator(tree)
    while walk.value() is not None:
        if walk.value().data(0, QtCore.Qt.ItemDataRole.UserRole) == curve:
            return walk.value()
        walk += 1
    raise AssertionError(f"no row for {curve}")


def test_the_tree_has_every_numeric_field_and_the_search_leaves_those_that_match(
    window: MainWindow, qtbot: Any
) -> None:
    topics = window.docks.topics
    fields = {(curve.topic, curve.field) for curve in topics.visible_curves()}
    expected = {f"{kind}.{joint}" for kind in ("position", "velocity", "effort") for joint in ("yaw", "pitch")}
    expected |= {"phi", "phidot", "energy", "outputs.height"}
    assert {field for topic, field in fields if topic == "swing/state"} == expected
    qtbot.keyClick(window, QtCore.Qt.Key.Key_F, KEYS.ControlModifier)
    assert topics.search.hasFocus()
    qtbot.keyClicks(topics.search, "yaw pos")
    assert {(curve.topic, curve.field) for curve in topics.visible_curves()} == {
        ("swing/state", "position.yaw"),
        ("swing/reference", "position.yaw"),
    }
    qtbot.keyClicks(topics.search, " refer")
    count = len(window.plots.specs[0].curves)
    window.plots.remove(0, Curve("swing/reference", "position.yaw"))
    qtbot.keyClick(topics.search, QtCore.Qt.Key.Key_Return)
    assert len(window.plots.specs[0].curves) == count
    assert window.plots.specs[0].curves[-1] == Curve("swing/reference", "position.yaw")


def test_the_search_line_has_the_keyboard_only_when_asked_and_gives_it_back(window: MainWindow, qtbot: Any) -> None:
    search = window.docks.topics.search
    assert not search.hasFocus()
    for _ in range(12):
        qtbot.keyClick(window, QtCore.Qt.Key.Key_Tab)
        assert not search.hasFocus()
    log = window.plots.specs[0].log
    qtbot.keyClick(window, QtCore.Qt.Key.Key_F, KEYS.ControlModifier)
    qtbot.keyClicks(search, "l")
    assert (search.text(), window.plots.specs[0].log) == ("l", log)
    qtbot.keyClick(search, QtCore.Qt.Key.Key_Escape)
    assert not search.hasFocus()
    qtbot.keyClick(window, QtCore.Qt.Key.Key_L)
    assert (search.text(), window.plots.specs[0].log) == ("l", not log)
    qtbot.keyClick(window, QtCore.Qt.Key.Key_F, KEYS.ControlModifier)
    qtbot.keyClick(search, QtCore.Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: not search.hasFocus())


def test_a_double_click_on_a_field_plots_it(window: MainWindow) -> None:
    curve = Curve("swing/state", "outputs.height")
    item = leaf(window, curve)
    item.parent().setExpanded(True)
    tree = window.docks.topics.tree
    tree.scrollToItem(item)
    double_click(tree.viewport(), tree.visualItemRect(item).center())
    assert window.plots.specs[-1].curves == (curve,)


def test_a_field_is_dragged_into_the_plot_under_the_pointer(window: MainWindow) -> None:
    curve = Curve("swing/state", "velocity.yaw")
    data = window.docks.topics.tree.mimeData([leaf(window, curve)])
    assert data.hasFormat(MIME)
    place = 3
    assert curve not in window.plots.specs[place].curves
    at = window.plots.canvas.mapFromScene(window.plots.plots[place].box.sceneBoundingRect().center())
    actions = QtCore.Qt.DropAction.CopyAction
    drop = QtGui.QDropEvent(QtCore.QPointF(at), actions, data, BUTTONS.LeftButton, KEYS.NoModifier)
    window.plots.canvas.dropEvent(drop)
    assert window.plots.specs[place].curves[-1] == curve
    assert window.plots.specs[place].unit == "several units"


def test_a_dragged_interval_gives_the_statistics_of_the_recording(window: MainWindow) -> None:
    box = window.plots.plots[0].box
    spots = [box.mapViewToScene(QtCore.QPointF(time, 0.0)) for time in (0.5, 2.5)]
    start, end = (window.plots.canvas.mapFromScene(spot) for spot in spots)
    drag(window.plots.canvas.viewport(), start, end)
    interval = window.plots.interval
    assert interval is not None
    assert interval == pytest.approx((0.5, 2.5), abs=0.02)
    table = window.docks.statistics.table
    assert window.docks.docks["Selection"].isVisible()
    rows = {table.item(row, 1).text(): [table.item(row, i).text() for i in range(1, 10)] for row in range(2)}
    times = np.arange(300) * 1e-2
    times = times[(times >= interval[0]) & (times <= interval[1])]
    pitch = np.cos(3.0 * times)
    found = rows["pitch"]
    assert [float(text) for text in found[2:8]] == pytest.approx(
        [
            pitch.min(),
            times[pitch.argmin()],
            pitch.max(),
            times[pitch.argmax()],
            pitch.mean(),
            np.sqrt((pitch**2).mean()),
        ],
        abs=1e-4,
    )
    assert (found[1], found[8]) == ("rad", str(len(times)))
    # the plot in which one drags comes first, and each row names its plot
    assert table.item(0, 0).text() == "Position"
    box = window.plots.plots[2].box
    spots = [window.plots.canvas.mapFromScene(box.sceneBoundingRect().center())]
    drag(window.plots.canvas.viewport(), spots[0], spots[0] + QtCore.QPoint(40, 0))
    assert table.item(0, 0).text() == window.plots.plots[2].name != "Position"
    window.plots.set_interval(None)
    assert table.rowCount() == 0


def test_a_panel_opened_by_a_selection_closes_with_it_and_obeys_the_user_meanwhile(window: MainWindow) -> None:
    canvas, box, dock = window.plots.canvas, window.plots.plots[0].box, window.docks.docks["Selection"]
    start, end = (canvas.mapFromScene(box.mapViewToScene(QtCore.QPointF(time, 0.0))) for time in (0.5, 2.5))

    def select() -> None:
        drag(canvas.viewport(), start, end)
        QtWidgets.QApplication.processEvents()

    select()
    assert dock.isVisible()
    window.plots.set_interval(None)
    assert dock.isHidden()
    select()
    dock.hide()
    window.docks.update()
    assert dock.isHidden()  # closed by the user: no update opens it
    dock.show()
    window.docks.docks["Events"].show()
    window.docks.docks["Events"].raise_()
    QtWidgets.QApplication.processEvents()
    window.docks.update()
    assert window.docks.docks["Events"].isVisible()  # raised by the user: no update covers it
    window.plots.set_interval(None)
    dock.show()
    select()
    window.plots.set_interval(None)
    assert not dock.isHidden()  # opened by the user


def test_events_are_listed_marked_and_jumped_to(window: MainWindow, qtbot: Any) -> None:
    table = window.docks.events.table
    assert [table.item(row, 0).text() for row in range(table.rowCount())] == ["1.000", "2.000"]
    assert table.item(0, 2).text() == "hand: open to grips"
    assert [time for time, _ in window.plots.marks] == [1.0, 2.0]
    window.playback.go_to_start()
    qtbot.keyClicks(window, "]")
    assert window.playback.now == 1.0
    qtbot.keyClicks(window, "]")
    assert window.playback.now == 2.0
    qtbot.keyClicks(window, "[")
    assert window.playback.now == 1.0
    window.docks.docks["Events"].show()
    QtWidgets.QApplication.processEvents()
    double_click(table.viewport(), table.visualItemRect(table.item(1, 1)).center())
    assert window.playback.now == 2.0


def test_a_logarithmic_axis_has_decades_and_can_be_undone(window: MainWindow, qtbot: Any) -> None:
    window.plots.make_current(3)
    assert window.plots.specs[3].title == "Energy"
    qtbot.keyClicks(window, "l")
    low, high = window.plots.plots[3].box.viewRange()[1]
    assert low < 0.0 < high  # log10 of the energy, which is about 1 J
    assert high - low < 2.0
    assert window.plots.plots[3].left_axis.logMode
    qtbot.keyClick(window, QtCore.Qt.Key.Key_Z, KEYS.ControlModifier)
    assert not window.plots.plots[3].left_axis.logMode


def test_a_layout_is_saved_and_loaded(window: MainWindow, tmp_path: Path, monkeypatch: Any) -> None:
    path = tmp_path / "mine.layout.json"
    dialogs = QtWidgets.QFileDialog
    monkeypatch.setattr(dialogs, "getSaveFileName", lambda *_: (str(path), ""))
    monkeypatch.setattr(dialogs, "getOpenFileName", lambda *_: (str(path), ""))
    window.scene.look("top")
    window.plots.add(Curve("swing/state", "outputs.height"))
    window.docks.docks["Events"].show()
    camera, specs = window.history.layout.camera, window.plots.specs
    window.files.save_layout_as()
    window.view_automatic()
    window.default_plots()
    window.docks.docks["Events"].hide()
    window.files.open_layout()
    assert (window.history.layout.camera, window.plots.specs) == (camera, specs)
    assert not window.docks.docks["Events"].isHidden()
    assert load_layout(path).camera == camera


def test_a_file_that_is_no_layout_is_refused_in_one_line(window: MainWindow, tmp_path: Path, monkeypatch: Any) -> None:
    path = tmp_path / "bad.json"
    path.write_text('{"camera": 3}')
    with pytest.raises(LayoutError, match="is not a layout of the viewer: Expected"):
        load_layout(path)
    with pytest.raises(LayoutError, match="No such file"):
        load_layout(tmp_path / "missing.json")
    told: list[str] = []
    monkeypatch.setattr(window.files, "warn", told.append)
    monkeypatch.setattr(QtWidgets.QFileDialog, "getOpenFileName", lambda *_: (str(path), ""))
    before = window.history.layout
    window.files.open_layout()
    assert len(told) == 1
    assert window.history.layout == before


def test_overlaid_recordings_start_together_and_their_difference_is_plotted(tmp_path: Path, qtbot: Any) -> None:
    paths = [tmp_path / "a.mcap", tmp_path / "b.mcap"]
    for path, later, more in ((paths[0], 0.0, 0.0), (paths[1], 5.0, 0.25)):
        with RecordingWriter(path, {}) as writer:
            for topic, message in swinging(planar=True, ticks=200):
                message.timestamp += later
                if isinstance(message, RobotState):
                    message.position[1] += more
                writer.write(topic, message, message.timestamp)
    with opened_window(qtbot, *paths) as window:
        plot = window.plots.plots[0]
        assert window.sources[1].offset == -5.0
        assert "a solid, b dashed" in window.plots.caption.text()
        pitch = Curve("swing/state", "position.pitch")
        drawn = [each for each in plot.drawn(window.sources, differs=False) if each.curve == pitch]
        assert [(each.source, bool(each.dash)) for each in drawn] == [(0, False), (1, True)]
        assert drawn[0].color == drawn[1].color
        qtbot.keyClicks(window, "d")
        assert window.plots.differs
        assert "b minus a" in window.plots.caption.text()
        (only,) = (each for each in plot.drawn(window.sources, differs=True) if each.curve == pitch)
        found = plot.values(only, window.sources, True)
        assert found is not None
        assert found[0] == pytest.approx(np.arange(200) * 1e-2)
        assert found[1][:-1] == pytest.approx(np.full(199, 0.25))
        low, high = plot.box.viewRange()[1]
        assert low < 0.0 < 0.25 < high < 0.5
        qtbot.keyClick(window, QtCore.Qt.Key.Key_Z, KEYS.ControlModifier)
        assert not window.plots.differs


def test_a_further_recording_is_overlaid_from_the_menu(
    spatial: Path, planar: Path, tmp_path: Path, qtbot: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    paths = [str(planar), str(tmp_path / "missing.mcap")]
    monkeypatch.setattr(QtWidgets.QFileDialog, "getOpenFileName", lambda *_: (paths.pop(0), ""))
    with opened_window(qtbot, spatial) as window:
        monkeypatch.setattr(window.files, "warn", told.append)
        difference = window.menus.actions["toggle_difference"]
        assert not difference.isEnabled()
        window.menus.actions["files.overlay_recording"].trigger()
        assert [source.label for source in window.sources] == ["spatial", "planar.mcap"]
        assert "spatial solid, planar.mcap dashed" in window.plots.caption.text()
        pitch = Curve("swing/state", "position.pitch")
        drawn = [each for each in window.plots.plots[0].drawn(window.sources, differs=False) if each.curve == pitch]
        assert [each.source for each in drawn] == [0, 1]
        assert difference.isEnabled()
        window.menus.actions["files.overlay_recording"].trigger()
        assert "missing.mcap" in told[0]
        assert len(window.sources) == 2


def test_recordings_that_cannot_be_overlaid_are_refused_in_one_line(
    tmp_path: Path, spatial: Path, capsys: Any, qapp: Any
) -> None:
    other = tmp_path / "cart.mcap"
    with RecordingWriter(other, {}) as writer:
        writer.write("cart/state", RobotState(name=["x"], position=[1.0], velocity=[0.0]), 0.0)
    assert command_line(["view", str(spatial), str(other)]) in (2, 3)  # 3 without a display
    if "DISPLAY" in os.environ or os.environ.get("QT_QPA_PLATFORM"):
        assert "overlay only recordings of the same robot" in capsys.readouterr().err
    assert command_line(["view", str(spatial), str(other), "--png", str(tmp_path / "o.png")]) == 2
    assert "overlay only recordings of the same robot" in capsys.readouterr().err
    assert not (tmp_path / "o.png").exists()


@pytest.mark.parametrize(
    ("plot", "says"),
    [
        ("hold/plot", ""),
        ("swing/hold/plot.values.error", ""),
        ("hold/plt", "no topic 'hold/plt' with numbers; did you mean 'swing/hold/plot'?"),
        ("hold/plot.values.eror", "has no field 'values.eror'; did you mean 'values.error'?"),
    ],
)
def test_a_picture_shows_fields_of_any_topic(plot: str, says: str, tmp_path: Path, capsys: Any, qapp: Any) -> None:
    recording, picture = tmp_path / "run.mcap", tmp_path / "run.png"
    with RecordingWriter(recording, {}) as writer:
        for seq in range(1, 20):
            at = 0.1 * seq
            writer.write("swing/state", RobotState(seq=seq, name=["x"], position=[at], velocity=[1.0]), at)
            writer.write("swing/hold/plot", PlotValues(seq=seq, values={"error": at}, units={"error": "deg"}), at)
    code = command_line(["view", str(recording), "--png", str(picture), "--plot", plot])
    assert (code, picture.exists()) == ((2, False) if says else (0, True))
    assert says in capsys.readouterr().err


def test_overlaid_runs_that_share_times_have_equal_times_and_others_start_together(tmp_path: Path, qtbot: Any) -> None:
    """A run of 6 s, one that continues it at 2 s, and one of another clock."""
    for name, start in (("whole", 0.0), ("continued", 2.0), ("other", 1.7e9)):
        with RecordingWriter(tmp_path / f"{name}.mcap", {}) as writer:
            for tick in range(61 - round(10.0 * min(start, 2.0))):
                state = RobotState(
                    seq=tick + 1, name=["x"], position=[1.0], velocity=[0.0], timestamp=start + 0.1 * tick
                )
                writer.write("arm/state", state, start + 0.1 * tick)
    whole, continued, other = (
        read_source(str(tmp_path / f"{name}.mcap"), (), None)[0] for name in ("whole", "continued", "other")
    )
    assert align([whole, continued])
    assert (whole.offset, continued.offset) == (0.0, 0.0)
    assert not align([whole, continued], "start")
    assert continued.offset == -2.0
    assert not align([whole, other])
    assert other.offset == -1.7e9
    assert align([whole, other], "time")
    window = MainWindow([whole, continued], "both", "")
    qtbot.addWidget(window)
    assert "at equal simulation times" in window.plots.caption.text()
    window.menus.actions["toggle_alignment"].trigger()
    assert continued.offset == -2.0
    assert "from the start of each" in window.plots.caption.text()
    window.history.stack.undo()
    assert continued.offset == 0.0
    window.close()


def test_a_launch_that_cannot_go_on_from_the_recording_is_refused_in_one_line(
    window: MainWindow, qtbot: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setattr(window.files, "warn", told.append)
    window.files.go_on_with("nowhere.toml")
    assert "a launch continues from t = 2.99 s" in window.page.subtitle.text()
    qtbot.waitUntil(lambda: bool(told), timeout=60_000)
    assert "nowhere.toml" in told[0]
    assert window.page.subtitle.text() == window.subtitle


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Arguments of the processes that the window's files would start; none is started."""
    found: list[list[str]] = []

    class Started(QtCore.QObject):
        ended = QtCore.pyqtSignal(int, str)

        def __init__(self, arguments: list[str], parent: Any) -> None:
            super().__init__(parent)
            found.append(arguments)

        def leave(self) -> None:
            pass

    monkeypatch.setattr(files, "ArmswingProcess", Started)
    return found


def test_a_launch_that_goes_on_runs_beyond_the_recorded_end_and_names_its_recording(
    window: MainWindow, started: list[list[str]]
) -> None:
    window.sources[0].duration_s = 3.0
    window.files.go_on_with("run.toml")
    assert started[0][-5:] == ["--at", "2.990000", "--view", "--duration", "12.99"]
    assert window.files.launch is not None
    window.files.launch.ended.emit(0, "  file written      again.mcap (1 MB)")
    wanted = "the run that went on from t = 2.99 s has ended: file written again.mcap (1 MB)"
    assert window.page.subtitle.text() == wanted


def test_a_launch_goes_on_from_the_same_recording_again_after_one_that_moved_it(
    window: MainWindow, started: list[list[str]]
) -> None:
    recording = Path(window.sources[0].path)
    window.files.go_on_with("run.toml")
    moved = recording.rename(recording.with_name(f"{recording.stem}.before.mcap"))  # as a recorder does
    recording.write_bytes(b"of the launch")
    window.files.go_on_with("run.toml")
    from_files = [arguments[arguments.index("--from") + 1] for arguments in started]
    assert from_files == [str(recording), str(moved)]


@pytest.mark.parametrize("accepted", [True, False])
def test_going_on_shows_the_recorded_values_and_takes_those_that_stay_chosen(
    accepted: bool, window: MainWindow, started: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(dialog: OverrideDialog) -> Any:
        assert "run.toml does not have" in dialog.text.text()
        assert dialog.chosen == ["sim.mode=lockstep", "left.title=a b"]
        dialog.list.item(1).setCheckState(QtCore.Qt.CheckState.Unchecked)
        return QtWidgets.QDialog.DialogCode.Accepted if accepted else QtWidgets.QDialog.DialogCode.Rejected

    monkeypatch.setattr(OverrideDialog, "exec_", answer)
    monkeypatch.setattr(QtWidgets.QFileDialog, "getOpenFileName", lambda *_: ("run.toml", ""))
    window.files.go_on()
    path = window.sources[0].path
    assert started == [["launch", "run.toml", "--from", path, "--differences"]]
    assert window.files.comparison is not None
    window.files.comparison.ended.emit(0, "--set sim.mode=lockstep --set 'left.title=a b'")
    assert [each[:4] for each in started[1:]] == [["launch", "run.toml", "--set", "sim.mode=lockstep"]] * accepted
    assert all("left.title=a b" not in each for each in started)


def test_a_selection_ends_where_the_recording_does(window: MainWindow) -> None:
    rect = window.plots.plots[0].box.sceneBoundingRect()
    viewport = window.plots.canvas.viewport()
    left, right = (
        window.plots.canvas.mapFromScene(QtCore.QPointF(rect.left() + share * rect.width(), rect.center().y()))
        for share in (0.002, 0.998)
    )
    drag(viewport, left, right)
    assert window.plots.interval == window.sources[0].span


def test_a_recording_without_events_says_so(window: MainWindow) -> None:
    window.docks.update()
    assert window.docks.events.empty.text() == "no events were recorded"


def test_a_saved_layout_is_reported_and_only_layouts_are_offered(
    window: MainWindow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, kinds = str(tmp_path / "mine.layout.json"), list[str]()
    monkeypatch.setattr(QtWidgets.QFileDialog, "getSaveFileName", lambda *_: (path, ""))
    monkeypatch.setattr(QtWidgets.QFileDialog, "getOpenFileName", lambda *given: (kinds.append(given[-1]), ("", ""))[1])
    window.files.save_layout_as()
    assert window.page.subtitle.text() == f"saved the layout {path}"
    window.files.open_layout()
    assert kinds[0].split(";;")[0] == "Layouts (*.layout.json)"  # and not the sidecars of recordings


def test_a_suffix_is_appended_unless_it_is_there_or_would_replace_a_file(tmp_path: Path) -> None:
    run = str(tmp_path / "run")
    assert [with_suffix(path, ".mcap") for path in (run, f"{run}.mcap", "")] == [f"{run}.mcap", f"{run}.mcap", ""]
    Path(f"{run}.mcap").write_bytes(b"")
    assert with_suffix(run, ".mcap") == run


def test_a_layout_gets_the_suffix_by_which_it_is_found_again(
    window: MainWindow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(QtWidgets.QFileDialog, "getSaveFileName", lambda *_: (str(tmp_path / "mine"), ""))
    window.files.save_layout_as()
    saved = (tmp_path / "mine.layout.json").read_bytes()
    window.scene.look("top")
    window.files.save_layout_as()  # the dialog did not ask whether to replace mine.layout.json
    assert (tmp_path / "mine.layout.json").read_bytes() == saved
    assert load_layout(tmp_path / "mine").camera != load_layout(tmp_path / "mine.layout.json").camera


def test_the_dialog_of_a_film_has_its_interval_speed_and_size(
    window: MainWindow, monkeypatch: pytest.MonkeyPatch
) -> None:
    titles: list[str] = []
    monkeypatch.setattr(QtWidgets.QFileDialog, "getSaveFileName", lambda *given: (titles.append(given[1]), ("", ""))[1])
    window.files.save_film()
    window.plots.set_interval((0.5, 1.25))
    window.timeline.change_factor(1)
    window.files.save_film()
    whole, part = titles
    assert whole == "Save film: t = 0 .. 2.99 s at 1 times the speed, 1280x720"
    assert part == f"Save film: t = 0.5 .. 1.25 s at {window.timeline.factor:g} times the speed, 1280x720"
