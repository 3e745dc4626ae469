"""Pushes in the scene: the body under the pointer, arrows of the pushes that act, and the force of a drag."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nodes.framework.messages import Event
from nodes.framework.recording.reader import RecordingWriter, read_recording
from tests.viewer.conftest import swinging
from viewer import palette
from viewer.data.signals import Signals, from_recording
from viewer.scene.pushes import SHOWN_S
from viewer.scene.scene import Scene

FORCE, POINT, AT, DURATION = [0.0, 0.0, 3.0], [0.0, 0.0, -0.15], 0.5, 0.1


def pushed(time: float = AT) -> Event:
    new = json.dumps({"force": FORCE, "point": POINT, "duration_s": DURATION})
    return Event(timestamp=time, kind="push", part="rod", new=new)


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    path = tmp_path / "pushed.mcap"
    with RecordingWriter(path, {}) as writer:
        for topic, message in swinging(planar=True, ticks=100):
            writer.write(topic, message, message.timestamp)
            if topic == "swing/state" and message.timestamp == AT:
                writer.write("swing/event", pushed(), AT)
    return path


@pytest.mark.parametrize("live", [True, False], ids=["live", "recorded"])
def test_a_push_is_an_arrow_at_its_point_while_it_acts(live: bool, recording: Path) -> None:
    signals = Signals()
    if live:
        signals.add(list(swinging(planar=True, ticks=100)))
        signals.add([("swing/event", pushed())])
    else:
        signals = from_recording(read_recording(recording))
    scene = Scene("xz")
    scene.survey(signals)

    def arrows(time: float) -> list[Any]:
        frame = scene.frame(signals, time, time, ghosts=False)
        assert frame is not None
        return [each for outlines, _ in frame.over for each in outlines if each.color == palette.PUSH]

    assert arrows(AT - 0.05) == []
    shaft, head = arrows(AT + 0.5 * DURATION)
    p_WB, R_WB = scene._placed
    np.testing.assert_allclose(shaft.corners[0], (p_WB[1] + R_WB[1] @ POINT)[[0, 2]], atol=1e-12)
    assert head.corners[1][1] > shaft.corners[0][1]  # along the world's z, whatever the rod's rotation
    assert arrows(AT + 0.9 * SHOWN_S)  # a short push is seen, too
    assert arrows(AT + 1.1 * SHOWN_S) == []


def test_the_body_under_the_pointer_is_grabbed_at_its_point(recording: Path) -> None:
    signals = from_recording(read_recording(recording))
    scene = Scene("xz")
    scene.survey(signals)
    assert scene.frame(signals, 0.3, 0.3, ghosts=False) is not None
    p_WB, R_WB = scene._placed
    wanted = np.array([0.0, 0.0, -0.2])
    x, _, z = p_WB[1] + R_WB[1] @ wanted
    found = scene.grab(x, z, 1e-3)
    assert found is not None
    assert found[0] == 1
    np.testing.assert_allclose(found[1], wanted, atol=1e-9)
    assert scene.grab(x + 1.0, z, 1e-3) is None


def test_a_drag_with_ctrl_pushes_and_leaves_the_camera(qtbot: Any, recording: Path) -> None:
    driving = pytest.importorskip("tests.viewer.window_driving", exc_type=ImportError)
    point = driving.QtCore.QPoint
    with driving.opened_window(qtbot, recording) as window:
        scene = window.scene
        asked: list[tuple[str, Any, Any]] = []
        scene.pushed, scene.strength = lambda *push: asked.append(push), 8.0
        rod = next(each for each in scene._scene._bodies if each.body == 1 and len(each.corners) == 2)
        middle = driving.QtCore.QPointF(*rod.corners.mean(axis=0))
        start = scene.widget.mapFromScene(scene.box.mapViewToScene(middle))
        dragged: list[tuple[str, float]] = []
        scene.dragged_push = lambda body, newton: dragged.append((body, newton))
        quarter = round(0.25 * scene.box.height())
        driving.drag(scene.widget.viewport(), start, start + point(0, -quarter), modifiers=driving.KEYS.ControlModifier)
        ((body, newton, _),) = asked
        assert body == "rod"
        np.testing.assert_allclose(newton @ scene._view.axes[1], 8.0, rtol=0.02)  # a quarter of the height upwards
        assert [name for name, _ in dragged] == ["rod"] * len(dragged)
        forces = [force for _, force in dragged]
        assert forces == sorted(forces)  # the force follows the drag
        assert forces[-1] == pytest.approx(np.linalg.norm(newton), rel=0.02)
        assert window.history.layout.camera is None
        assert scene._scene.preview is None
        # beside the bodies there is nothing to push
        missed: list[bool] = []
        scene.missed = lambda: missed.append(True)
        driving.drag(scene.widget.viewport(), point(5, 5), point(40, 40), modifiers=driving.KEYS.ControlModifier)
        assert (len(asked), missed) == (1, [True])
