"""The window as it is drawn: pictures with content, empty states, the slider, playing, and what it refuses."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nodes.cli.application import run as command_line
from nodes.framework.messages import Description, JointDescription, RobotState, Status
from nodes.framework.recording.reader import RecordingWriter, read_recording
from tests.viewer.conftest import swinging
from viewer import app, availability
from viewer.data import live
from viewer.data.signals import Signals, from_recording

pytest.importorskip("pyqtgraph", exc_type=ImportError)  # also where Qt's system libraries are missing
from pyqtgraph.Qt import QtGui

from tests.viewer.window_driving import pictured
from viewer.panels import choose_fields
from viewer.qt import theme
from viewer.qt.titles import compose, table
from viewer.window.plots.plot import REFERENCE_DASH


def pixels(path: Path) -> np.ndarray[Any, Any]:
    """(height, width, 3) of a picture, red green blue."""
    image = QtGui.QImage(str(path)).convertToFormat(QtGui.QImage.Format.Format_RGB888)
    data = image.constBits()
    data.setsize(image.sizeInBytes())
    rows = np.frombuffer(bytes(data), dtype=np.uint8).reshape(image.height(), image.bytesPerLine())
    return rows[:, : 3 * image.width()].reshape(image.height(), image.width(), 3)


def count_like(picture: np.ndarray[Any, Any], color: str, within: int = 40) -> int:
    """Pixels close to a colour."""
    wanted = QtGui.QColor(color)
    rgb = np.array([wanted.red(), wanted.green(), wanted.blue()])
    return int((np.abs(picture.astype(int) - rgb).max(axis=2) <= within).sum())


def signals_of(path: Path) -> Signals:
    return from_recording(read_recording(path))


@pytest.mark.parametrize("kind", ["spatial", "planar"])
def test_a_picture_shows_curves_bodies_and_text(kind: str, request: Any, qtbot: Any, tmp_path: Path) -> None:
    target = tmp_path / "out.png"
    with pictured(qtbot, signals_of(request.getfixturevalue(kind)), target) as window:
        caption = window.page.caption.text()
    picture = pixels(target)
    assert picture.shape == (1000, 1600, 3)
    left, right = picture[:, :600], picture[:, 900:]
    assert count_like(left, "#a02c5d") > 300  # the rod in the colour its shape asks for
    assert count_like(left, theme.BODIES[0]) > 300
    assert count_like(right, theme.CURVES[0]) > 1500
    assert count_like(right, theme.CURVES[1]) > 500
    assert count_like(picture[:60, :400], theme.INK, within=60) > 200  # the title
    assert (picture == 255).all(axis=2).mean() > 0.6  # and the paper stays white
    assert ("in the plane xz" if kind == "planar" else "from above and aside") in caption
    assert "faint poses are earlier ones" in caption


def test_the_same_recording_gives_the_same_picture(spatial: Path, qtbot: Any, tmp_path: Path) -> None:
    for name in ("a.png", "b.png"):
        with pictured(qtbot, signals_of(spatial), tmp_path / name):
            pass
    np.testing.assert_array_equal(pixels(tmp_path / "a.png"), pixels(tmp_path / "b.png"))


def test_a_picture_has_earlier_poses_dashed_references_and_logarithmic_violations(
    spatial: Path, qtbot: Any, tmp_path: Path
) -> None:
    with pictured(qtbot, signals_of(spatial), tmp_path / "out.png") as window:
        assert len(window.scene._bodies._layers) > 8
        plots = {plot.name: plot for plot in window.plots.plots}
        position, effort, phi = plots["Position"], plots["Effort"], plots["Violation |Φ|"]
        drawn = {(each.curve.topic, each.curve.field): each.dash for each in position.drawn(window.sources, False)}
        assert drawn == {
            ("swing/state", "position.yaw"): (),
            ("swing/state", "position.pitch"): (),
            ("swing/reference", "position.yaw"): REFERENCE_DASH,
        }
        assert [each.curve.field for each in effort.drawn(window.sources, False)] == ["effort.yaw"]
        low, high = phi.span
        assert -9.3 < low < -8.9
        assert -7.1 < high < -6.7
        assert phi.left_axis.logTickStrings([-9.0, -10.0], 1.0, 1.0) == ["10⁻⁹", "10⁻¹⁰"]
        assert np.isfinite(plots["Violation |dΦ/dt|"].span).all()
        assert not plots["Energy"].spec.log


def test_the_numbers_of_a_picture_s_axes_keep_their_distance(tmp_path: Path, qtbot: Any) -> None:
    file = tmp_path / "short.mcap"
    with RecordingWriter(file, {}) as writer:
        for topic, message in swinging(planar=False, ticks=21):
            writer.write(topic, message, message.timestamp)
    with pictured(qtbot, signals_of(file), tmp_path / "short.png") as window:
        heights = [plot.box.height() for plot in window.plots.plots]
        assert max(heights) - min(heights) < 2.0
        for plot in window.plots.plots:
            (start, end), (low, high) = plot.box.viewRange()
            spots = plot.bottom.tickValues(start, end, plot.box.width())[0][1]
            assert plot.box.width() * (spots[1] - spots[0]) / (end - start) >= 40.0  # the width of "0.15", with a gap
            if not plot.spec.log:
                spots = plot.left_axis.tickValues(low, high, plot.box.height())[0][1]
                assert plot.box.height() * (spots[1] - spots[0]) / (high - low) >= 13.0  # the height of a digit


def test_a_long_legend_names_all_that_fit_or_the_table_below_does() -> None:
    curves = [(f"joint_{index}", "#000000", "━━") for index in range(21)]
    text, lines, whole = compose("Position", "rad", curves, dashed=True, remark="", width=420.0)
    assert (lines, whole) == (1, False)
    assert "21 curves, named below" in text
    assert "reference" in text
    text, lines, whole = compose("Position", "rad", curves, dashed=True, remark="", width=350.0)
    assert (lines, whole) == (2, False)  # one line would run into the plot beside it
    assert compose("Energy", "J", [], dashed=False, remark="", width=400.0)[1:] == (1, True)
    text, lines, whole = compose("Position", "rad", curves[:7], dashed=True, remark="", width=400.0)
    assert (lines, text.count("joint_"), whole) == (3, 7, True)
    below = table(curves, 400.0)
    assert (below.count("joint_"), below.count("<tr>")) == (21, 6)
    assert table([], 400.0) == ""
    many = table([(f"joint_{index}", "#000000", "━━") for index in range(200)], 400.0)
    assert many.count("joint_") == 60
    assert "and 140 more" in many


def test_what_a_title_cannot_name_is_named_once_below_the_plots(qtbot: Any, tmp_path: Path) -> None:
    names = [f"joint_{index}" for index in range(40)]
    signals = Signals()
    signals.add([("it/description", Description(robot="it", joints=[JointDescription(name=name) for name in names]))])
    for tick in range(3):
        values = [float(tick)] * 40
        signals.add([("it/state", RobotState(timestamp=0.1 * tick, name=names, position=values, velocity=values))])
    with pictured(qtbot, signals, tmp_path / "out.png") as window:
        text = window.plots.key.text()
        assert [text.count(f">{name}<") for name in names] == [1] * 40
        drawn = window.plots.plots[0].drawn(window.sources, False)
        assert len({(each.color, each.dash) for each in drawn}) == 40
        assert len({each.dash for each in drawn}) == 4  # eight hues each
        for each in drawn:
            assert f"color:{each.color}" in text


def test_bodies_without_a_description_are_said_to_be_unknown(
    said_in_space: list[Any], qtbot: Any, tmp_path: Path
) -> None:
    signals = Signals()
    signals.add(said_in_space[1:40])
    with pictured(qtbot, signals, tmp_path / "out.png") as window:
        assert "no description of the robot was received" in window.page.caption.text()
        assert not window.scene.plot.getAxis("left").isVisible()


def test_a_stream_with_nan_and_without_poses_is_drawn(tmp_path: Path, qtbot: Any) -> None:
    path = tmp_path / "run.mcap"
    with RecordingWriter(path, {}) as writer:
        for tick in range(50):
            value = float("nan") if 20 < tick < 30 else float(tick)
            message = RobotState(timestamp=tick * 0.1, name=["a"], position=[value], energy=float("inf"))
            writer.write("arm/state", message, message.timestamp)
    with pictured(qtbot, signals_of(path), tmp_path / "out.png"):
        assert count_like(pixels(tmp_path / "out.png"), theme.CURVES[0]) > 100


def test_a_recording_without_a_state_says_what_it_holds(tmp_path: Path, capsys: Any, qapp: Any) -> None:
    path = tmp_path / "run.mcap"
    with RecordingWriter(path, {}) as writer:
        writer.write("status", Status(node="sim"), 0.0)
    assert app.run(str(path), str(tmp_path / "out.png")) == 1
    assert "holds no state of a robot; its topics: status" in capsys.readouterr().err


def test_run_writes_a_picture_of_a_recording_that_was_cut_off(spatial: Path, tmp_path: Path, qapp: Any) -> None:
    spatial.write_bytes(spatial.read_bytes()[:200_000])
    assert app.run(str(spatial), str(tmp_path / "out.png"), fields=["position", "outputs"]) == 0
    assert pixels(tmp_path / "out.png").shape == (1000, 1600, 3)


def test_the_command_line_says_which_picture_it_wrote(
    spatial: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command_line(["view", str(spatial), "--png", str(tmp_path / "out.png")]) == 0
    assert capsys.readouterr().out == f"wrote {tmp_path / 'out.png'}\n"
    assert (tmp_path / "out.png").is_file()


def test_a_live_domain_that_says_nothing_gives_an_empty_picture(
    tmp_path: Path, monkeypatch: Any, capsys: Any, qapp: Any
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr(live, "FIRST_STATE_S", 0.2)
    assert app.run(None, str(tmp_path / "out.png"), domain=200) == 1
    assert "no launch is live on domain 200: start one with 'armswing launch FILE'" in capsys.readouterr().err
    assert (tmp_path / "out.png").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["missing.mcap", "--png", "o.png"], "missing.mcap"),
        (["{file}", "--png", "o.png", "--plot", "torque"], "no field 'torque'"),
        (["{file}", "--png", "o.png", "--plot", "height"], "did you mean 'outputs.height'?"),
        (["{file}", "--png", "o.png", "--plane", "zz"], "plane 'zz' is unknown"),
    ],
)
def test_bad_input_ends_with_one_line_and_exit_code_2(
    arguments: list[str], said: str, spatial: Path, capsys: Any, qapp: Any
) -> None:
    assert app.main([part.format(file=spatial) for part in arguments]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_the_command_line_chooses_fields_and_plane(spatial: Path, tmp_path: Path, capsys: Any, qapp: Any) -> None:
    target = tmp_path / "out.png"
    line = ["view", str(spatial), "--png", str(target)]
    assert command_line([*line, "--plot", "torque"]) == 2
    assert command_line([*line, "--plane", "zz"]) == 2
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 2
    assert "no field 'torque' to plot; use one of position, " in said[0]
    assert "plane 'zz' is unknown; choose one of auto, xy" in said[1]
    assert not target.exists()
    assert command_line([*line, "--plot", "outputs", "--plot", "phi", "--plane", "xz"]) == 0
    left = pixels(target)[:, :600]
    assert count_like(left, "#a02c5d") > 300


def test_missing_libraries_are_named_with_the_line_that_installs_them(
    monkeypatch: Any, capsys: Any, spatial: Path, tmp_path: Path
) -> None:
    monkeypatch.setattr(availability, "BASE_LIBRARIES", ("libno-such-thing.so.7",))
    monkeypatch.setenv("DISPLAY", ":7")
    assert app.main([str(spatial)]) == 3
    error = capsys.readouterr().err
    assert "libno-such-thing.so.7" in error
    assert "apt-get install -y libgl1" in error
    assert error.count("\n") == 1


def test_a_window_without_a_display_is_refused(monkeypatch: Any) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(availability.ViewerUnavailable, match="--png"):
        availability.require_qt(window=True)


def test_fields_are_chosen_by_name() -> None:
    assert [field.name for field in choose_fields([])] == ["position", "velocity", "effort", "energy", "phi", "phidot"]
    assert [field.name for field in choose_fields(["outputs", "phi"])] == ["outputs", "phi"]


def test_the_program_draws_without_a_display_and_says_nothing(spatial: Path, tmp_path: Path) -> None:
    environment = {key: value for key, value in os.environ.items() if key not in ("DISPLAY", "QT_QPA_PLATFORM")}
    environment.pop("XDG_RUNTIME_DIR", None)
    target = tmp_path / "out.png"
    command = [sys.executable, "-P", "-m", "viewer", str(spatial), "--png", str(target)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert target.stat().st_size > 20_000
