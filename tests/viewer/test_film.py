"""Films of recordings: the times of their frames, what is in the file, and refusals in one line."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nodes.cli.application import run
from viewer.film import Film

pytest.importorskip("pyqtgraph", exc_type=ImportError)
pytest.importorskip("imageio_ffmpeg")
import imageio_ffmpeg
from pyqtgraph.Qt import QtWidgets

from tests.viewer.window_driving import opened_window
from viewer.window.film import FilmError, schedule, write_film


def frames_of(path: Path) -> tuple[dict[str, Any], np.ndarray[Any, Any]]:
    """Properties of a film, and its frames (n, height, width, 3)."""
    reader = imageio_ffmpeg.read_frames(str(path))
    about = next(reader)
    width, height = about["size"]
    return about, np.stack([np.frombuffer(frame, np.uint8).reshape(height, width, 3) for frame in reader])


@pytest.mark.parametrize(("kind", "size"), [("mp4", (642, 480)), ("gif", (641, 481))])
def test_a_film_shows_the_recording_from_one_time_to_another(
    kind: str, size: tuple[int, int], spatial: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], qapp: Any
) -> None:
    target = tmp_path / f"swing.{kind}"
    options = ["--from", "0.5", "--to", "1.5", "--speed", "2", "--fps", "10", "--size", f"{size[0]}x{size[1]}"]
    assert run(["view", str(spatial), f"--{kind}", str(target), *options]) == 0
    assert f"wrote {target}" in capsys.readouterr().out
    about, frames = frames_of(target)
    assert len(frames) == 6
    assert about["size"] == size
    assert about["fps"] == pytest.approx(10.0)
    assert (frames[0] > 200).mean() > 0.5  # dark on white
    for earlier, later in pairwise(frames):
        assert (np.abs(earlier.astype(int) - later) > 60).any()
    assert sorted(path.name for path in tmp_path.iterdir() if "swing" in path.name) == [target.name]


def test_a_film_that_is_stopped_leaves_no_file(spatial: Path, tmp_path: Path, qtbot: Any) -> None:
    done: list[int] = []
    film = Film(str(tmp_path / "swing.mp4"), size=(320, 240))
    with opened_window(qtbot, spatial) as window:
        assert not write_film(window, film, lambda number, _of: done.append(number), lambda: len(done) == 2)
    assert done == [1, 2]
    assert [path for path in tmp_path.iterdir() if "swing" in path.name] == []


def test_frames_are_equally_far_apart_and_reach_the_end() -> None:
    found = schedule(Film("a.mp4", speed=0.5, fps=20.0), (1.0, 3.0))
    assert (found.start, found.step, found.count) == (1.0, 0.025, 81)
    assert schedule(Film("a.mp4"), (0.0, 0.0)).count == 1
    for film, reason in (
        (Film("a.mp4", start=0.5), "--from 0.5 is not in the recording; choose a time from 1 to 3 s"),
        (Film("a.mp4", end=4.0), "--to 4 is not in the recording"),
        (Film("a.mp4", start=2.0, end=2.0), "--to 2 must be after --from 2"),
        (Film("a.mp4", speed=0.001, fps=120.0), "240001 frames, more than 200000"),
    ):
        with pytest.raises(FilmError, match=reason):
            schedule(film, (1.0, 3.0))


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--speed", "2"], "--speed is an option of a film; name the film's file with --mp4 or --gif"),
        (["--mp4", "a.gif"], "the file name must end in .mp4; write 'a.mp4'"),
        (["--mp4", "a.mp4", "--gif", "a.gif"], "pass only one of them"),
        (["--mp4", "nowhere/a.mp4"], "there is no folder"),
        (["--gif", "a.gif", "--fps", "60"], "--fps 60: the rate must lie between 1 and 50 for .gif"),
        (["--mp4", "a.mp4", "--size", "big"], "--size 'big': write width and height in pixels, such as 1280x720"),
        (["--mp4", "a.mp4", "--size", "641x480"], "an MP4 film requires even numbers for width and height"),
        (["--mp4", "a.mp4", "--size", "10x10"], "the size must lie between 320x240 and 7680x4320"),
        (["--mp4", "a.mp4", "--speed", "0"], "--speed 0: the speed must lie between"),
        (["--mp4", "a.mp4", "--from", "nan"], "--from nan: the time must be a finite number of seconds"),
    ],
)
def test_a_film_that_cannot_be_is_refused_in_one_line(
    options: list[str], reason: str, spatial: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["view", str(spatial), *options]) == 2
    said = capsys.readouterr().err
    assert reason in said
    assert said.count("\n") == 1


def test_a_film_of_a_live_run_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["view", "--mp4", "a.mp4"]) == 2
    assert "--mp4 makes a film of a recording; name the recording's file" in capsys.readouterr().err


def test_the_window_writes_a_film_of_the_selected_interval_as_it_is_shown(
    spatial: Path, tmp_path: Path, qtbot: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "shown.gif"  # the suffix follows from the kind that is chosen in the dialog
    chosen = str(target.with_suffix("")), "Animated pictures (*.gif)"
    monkeypatch.setattr(QtWidgets.QFileDialog, "getSaveFileName", lambda *_: chosen)
    with opened_window(qtbot, spatial) as window:
        window.scene.look("top")
        window.plots.set_interval((1.0, 1.4))
        window.timeline.factor_box.setCurrentText("2 x")
        window.menus.actions["files.save_film"].trigger()
        assert f"writing the film {target} (t = 1 .. 1.4 s at 2 times the speed)" in window.page.subtitle.text()
        qtbot.waitUntil(lambda: window.files.film is None, timeout=100_000)
        assert window.page.subtitle.text() == f"wrote the film {target}"
        _, frames = frames_of(target)
        assert len(frames) == 4
        # the camera is that of the window: from above, the swing about the vertical axis is a turn of the picture
        plain = tmp_path / "plain.gif"
        options = ["--from", "1", "--to", "1.4", "--speed", "2", "--size", "960x540"]
        assert run(["view", str(spatial), "--gif", str(plain), *options]) == 0
        assert (np.abs(frames_of(plain)[1][0].astype(int) - frames[0]) > 60).mean() > 1e-3


def test_a_film_that_cannot_be_written_from_the_window_is_refused_in_one_line(
    spatial: Path, tmp_path: Path, qtbot: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    with opened_window(qtbot, spatial) as window:
        monkeypatch.setattr(window.files, "warn", told.append)
        window.files.save_film_to("film.avi")
        window.files.save_film_to(str(tmp_path / "nowhere/film.mp4"))
        qtbot.waitUntil(lambda: len(told) == 2, timeout=60_000)
        assert window.page.subtitle.text() == window.subtitle
    assert told[0] == "'film.avi': the name of a film must end in .mp4 or .gif"
    assert "there is no folder" in told[1]


def test_a_file_that_is_no_layout_is_refused_for_films_and_pictures(
    spatial: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], qapp: Any
) -> None:
    bad = tmp_path / "bad.json"
    bad.write_text("{}x")
    assert run(["view", str(spatial), "--mp4", str(tmp_path / "a.mp4"), "--layout", str(bad)]) == 2
    assert "is not a layout of the viewer" in capsys.readouterr().err
    assert run(["view", str(spatial), "--png", str(tmp_path / "a.png"), "--layout", str(bad)]) == 2
    assert "is not a layout of the viewer" in capsys.readouterr().err
