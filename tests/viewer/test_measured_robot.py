"""The measured robot over the model: from messages and recordings, translucent, and switched off by a command."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nodes.framework.messages import BodyPoses, Message
from nodes.framework.recording.reader import RecordingWriter, read_recording
from tests.viewer.conftest import Said, swinging
from viewer import palette
from viewer.data.signals import Signals, from_recording
from viewer.scene.bodies import Outline
from viewer.scene.scene import MEASURED_OPACITY, STALE_S, Scene

SHIFT = 0.1  # m along x, of the measured robot


def with_measured(ticks: int = 100, until: float = 9.0) -> list[Said]:
    """A swinging rod, and the measured rod, shifted along x, up to the time `until`, s."""
    found: list[tuple[str, Message]] = []
    for topic, message in swinging(planar=False, ticks=ticks):
        found.append((topic, message))
        if isinstance(message, BodyPoses) and message.timestamp <= until:
            p = (np.reshape(message.p, (-1, 3)) + np.array([SHIFT, 0.0, 0.0])).ravel().tolist()
            measured = BodyPoses(timestamp=message.timestamp, seq=message.seq, p=p, quaternion=message.quaternion)
            found.append(("swing/measured_body_poses", measured))
    return found


def recorded(path: Path, said: list[Said]) -> Path:
    with RecordingWriter(path, {}) as writer:
        for topic, message in said:
            writer.write(topic, message, message.timestamp)
    return path


def measured_outlines(scene: Scene, signals: Signals, time: float) -> list[Outline]:
    frame = scene.frame(signals, time, time, ghosts=False)
    assert frame is not None
    *measured, (_, opacity) = frame.over
    assert opacity == 1.0
    assert [each for _, each in measured] == [MEASURED_OPACITY] * len(measured)
    return measured[0][0] if measured else []


@pytest.mark.parametrize("live", [True, False], ids=["live", "recorded"])
def test_the_measured_robot_is_drawn_where_it_was_measured(live: bool, tmp_path: Path) -> None:
    said = with_measured()
    signals = Signals()
    if live:
        signals.add(said)
    else:
        signals = from_recording(read_recording(recorded(tmp_path / "hil.mcap", said)))
    scene = Scene("xz")
    scene.survey(signals)
    assert scene.frame(signals, 0.5, 9.0, ghosts=True) is not None  # paths from a time later than the picture's
    frame = scene.frame(signals, 0.5, 0.5, ghosts=False)
    assert frame is not None
    model = {id(each): each for each in frame.bodies[-1][0]}.values()
    ghosts = measured_outlines(scene, signals, 0.5)
    assert len(ghosts) == len(model)
    assert {each.color for each in ghosts} == {palette.MEASURED}
    own = np.concatenate([each.corners for each in model])
    shifted = own + np.array([SHIFT, 0.0])
    np.testing.assert_allclose(np.concatenate([each.corners for each in ghosts]), shifted, atol=1e-12)
    assert ("◐", "measured robot", palette.MEASURED) in scene.keys(signals, lambda _: True)


def test_a_robot_that_is_measured_no_longer_is_not_drawn() -> None:
    signals = Signals()
    signals.add(list(with_measured(ticks=200, until=1.0)))
    scene = Scene("xz")
    scene.survey(signals)
    assert measured_outlines(scene, signals, 1.0 + 0.9 * STALE_S)
    assert measured_outlines(scene, signals, 1.0 + 1.1 * STALE_S) == []


def test_the_command_switches_the_measured_robot_off_and_undo_brings_it_back(qtbot: Any, tmp_path: Path) -> None:
    driving = pytest.importorskip("tests.viewer.window_driving", exc_type=ImportError)
    with driving.opened_window(qtbot, recorded(tmp_path / "hil.mcap", with_measured())) as window:
        assert "measured" in window.page.legend.text()
        before = window.scene.widget.grab().toImage()
        window.menus.actions["toggle_measured"].trigger()
        assert "measured" not in window.page.legend.text()
        driving.QtWidgets.QApplication.processEvents()
        assert window.scene.widget.grab().toImage() != before
        window.history.stack.undo()
        assert "measured" in window.page.legend.text()
