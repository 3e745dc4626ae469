"""Pictures without Qt: drawn by matplotlib where Qt's system libraries are missing, of the same scene and plots."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib import colors, image

from nodes.cli.application import run as command_line
from nodes.framework.messages import Description, RobotState
from nodes.framework.recording.reader import RecordingWriter, read_recording
from viewer import app, availability, palette
from viewer.data.signals import from_recording

WITHOUT_QT = """
import sys
for name in ("PyQt5", "PyQt6", "pyqtgraph"):
    sys.modules[name] = None  # what a machine says that lacks Qt's libraries
from viewer import app, availability
availability.BASE_LIBRARIES = ("libno-such-thing.so.7",)
sys.exit(app.main(sys.argv[1:]))
"""


@pytest.fixture
def no_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(availability, "BASE_LIBRARIES", ("libno-such-thing.so.7",))


def pixels(path: Path) -> np.ndarray[Any, Any]:
    """(height, width, 3) of a picture, red green blue in 0 .. 255."""
    return np.round(255.0 * image.imread(path)[..., :3]).astype(int)


def count_like(picture: np.ndarray[Any, Any], color: str, within: int = 40) -> int:
    """Pixels close to a colour."""
    rgb = np.round(255.0 * np.array(colors.to_rgb(color)))
    return int((np.abs(picture - rgb).max(axis=2) <= within).sum())


@pytest.mark.parametrize("kind", ["spatial", "planar"])
def test_a_picture_without_qt_shows_curves_bodies_and_text(
    kind: str, request: Any, no_libraries: None, capsys: Any, tmp_path: Path
) -> None:
    target = tmp_path / "out.png"
    assert app.main([str(request.getfixturevalue(kind)), "--png", str(target)]) == 0
    error = capsys.readouterr().err
    assert (
        "is drawn by matplotlib, without Qt: the viewer lacks libno-such-thing.so.7; install them with apt-get "
        "install -y libgl1" in error
    )
    assert error.count("\n") == 1
    picture = pixels(target)
    assert picture.shape == (1000, 1600, 3)
    left, right = picture[:, :600], picture[:, 900:]
    assert count_like(left, "#a02c5d") > 300  # the rod in the colour its shape asks for
    assert count_like(left, palette.BODIES[0]) > 300
    assert count_like(right, palette.CURVES[0]) > 1500
    assert count_like(right, palette.CURVES[1]) > 500
    assert count_like(picture[:60, :400], palette.INK, within=60) > 200  # the title
    assert (picture == 255).all(axis=2).mean() > 0.6


def test_a_picture_is_drawn_where_qt_cannot_be_imported(spatial: Path, tmp_path: Path) -> None:
    target = tmp_path / "out.png"
    command = [sys.executable, "-P", "-c", WITHOUT_QT, str(spatial), "--png", str(target), "--plot", "outputs", "phi"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "")
    assert target.stat().st_size > 20_000


def test_the_same_recording_gives_the_same_picture_without_qt(
    spatial: Path, no_libraries: None, tmp_path: Path
) -> None:
    for name in ("a.png", "b.png"):
        assert app.run(str(spatial), str(tmp_path / name)) == 0
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_what_qt_refuses_is_refused_without_it(spatial: Path, no_libraries: None, capsys: Any, tmp_path: Path) -> None:
    line = ["view", str(spatial), "--png", str(tmp_path / "out.png")]
    assert command_line([*line, "--plot", "torque"]) == 2
    assert command_line([*line, "--plane", "zz"]) == 2
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 2
    assert "no field 'torque' to plot; use one of position, " in said[0]
    assert "plane 'zz' is unknown; choose one of auto, xy" in said[1]
    assert not (tmp_path / "out.png").exists()


def test_a_recording_without_states_is_a_picture_that_says_so(no_libraries: None, capsys: Any, tmp_path: Path) -> None:
    with RecordingWriter(tmp_path / "none.mcap", {}):
        pass
    assert app.main([str(tmp_path / "none.mcap"), "--png", str(tmp_path / "out.png")]) == 1
    assert "shows no motion: none.mcap holds no state of a robot" in capsys.readouterr().err
    assert (tmp_path / "out.png").is_file()


def test_without_both_the_error_names_what_installs_either(
    monkeypatch: pytest.MonkeyPatch, no_libraries: None, spatial: Path, capsys: Any, tmp_path: Path
) -> None:
    found = app.importlib.util.find_spec
    monkeypatch.setattr(
        app.importlib.util, "find_spec", lambda name, *rest: None if name == "matplotlib" else found(name, *rest)
    )
    assert app.main([str(spatial), "--png", str(tmp_path / "out.png")]) == 3
    error = capsys.readouterr().err
    assert "apt-get install -y libgl1" in error
    assert "pip install matplotlib" in error
    assert error.count("\n") == 1


def test_colours_without_qt_are_those_of_qt() -> None:
    gui = pytest.importorskip("pyqtgraph.Qt", exc_type=ImportError).QtGui
    for index in range(64):
        color = gui.QColor(palette.solid_color(index, palette.curve_color(index)))
        assert palette.darker(color.name(), 135) == color.darker(135).name()
    assert palette.solid_color(0, "#abc") == gui.QColor("#abc").name()
    for name, color in palette.NAMED.items():
        assert gui.QColor(name).name() == color


def test_a_recorded_free_joint_is_plotted(tmp_path: Path) -> None:
    file, picture = tmp_path / "body.mcap", tmp_path / "body.png"
    with RecordingWriter(file, {"robot": "body"}) as writer:
        writer.write("body/description", Description(robot="body", frames=["base"]), 0.0)
        for tick in range(5):
            frame = [0.0, 0.0, 0.1 * tick, 1.0, 0.0, 0.0, 0.0]
            writer.write("body/state", RobotState(timestamp=0.1 * tick, frames=frame), 0.1 * tick)
    signals = from_recording(read_recording(file))
    place = signals.column("place", "base z")
    assert place is not None
    assert place[1][-1] == 0.4
    assert signals.labels("orientation") == ["base qw", "base qx", "base qy", "base qz"]
    assert app.run(str(file), str(picture), fields=["place", "orientation"]) == 0
    assert count_like(pixels(picture), palette.curve_color(2)) > 100  # z, in its plot
