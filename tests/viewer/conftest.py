"""What the viewer tests share: a display that needs no screen, and recordings of robots that move."""

from __future__ import annotations

import gc
import math
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

if "DISPLAY" not in os.environ:
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from nodes.framework.messages import (
    ActuatorDescription,
    BodyDescription,
    BodyPoses,
    Description,
    JointDescription,
    JointReference,
    Message,
    RobotState,
    Shape,
)
from nodes.framework.recording.reader import RecordingWriter

Said = tuple[str, Message]


KEPT: list[object] = []  # windows of the present test


@pytest.fixture(autouse=True)
def windows_until_the_end_of_the_test() -> Iterator[None]:
    """Windows are collected as garbage after the test, not while Qt draws them."""
    gc.freeze()  # the collection looks at objects of this test alone: those of all tests before take it half a second
    yield
    KEPT.clear()
    gc.collect()


@pytest.fixture(autouse=True)
def settings_of_the_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder for the window's settings, so that tests neither read nor write those of the user."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


try:
    import PyQt5.QtWidgets  # noqa: F401
except ImportError as error:
    NO_QT = f"could not import 'PyQt5': {error}"

    @pytest.fixture
    def qtbot() -> None:
        """In the place of pytest-qt's, which cannot be loaded without Qt."""
        pytest.skip(NO_QT)


def swinging(planar: bool, ticks: int) -> Iterator[Said]:
    """What a server says of a rod on an arm: swinging in the plane xz, or carried round the vertical too."""
    bodies = [
        BodyDescription(name="arm", shapes=[Shape(kind="box", size=[0.2, 0.02, 0.02], position=[0.1, 0.0, 0.0])]),
        BodyDescription(
            name="rod",
            shapes=[
                Shape(kind="line", points=[0.0, 0.0, 0.0, 0.0, 0.0, -0.3], color="#a02c5d"),
                Shape(kind="sphere", size=[0.02], position=[0.0, 0.0, -0.3], color="#a02c5d"),
                Shape(kind="cylinder", size=[0.01, 0.05]),
            ],
        ),
    ]
    yield (
        "swing/description",
        Description(
            robot="swing",
            bodies=bodies,
            joints=[JointDescription(name="yaw"), JointDescription(name="pitch")],
            actuators=[ActuatorDescription(name="yaw", joint="yaw")],
        ),
    )
    for tick in range(ticks):
        now = tick * 1e-2
        yaw, pitch = 0.0 if planar else math.sin(now), math.cos(3.0 * now)
        state = RobotState(
            timestamp=now,
            seq=tick,
            name=["yaw", "pitch"],
            position=[yaw, pitch],
            velocity=[math.cos(now), -3.0 * math.sin(3.0 * now)],
            effort=[0.01 * math.sin(now), 0.0],
            phi=1e-57 if tick == 0 else 10.0 ** (-9.0 + 2.0 * math.sin(now)),
            phidot=0.0 if tick == 0 else 10.0 ** (-6.0 + math.sin(now)),
            energy=1.0 + 1e-3 * math.sin(now),
            outputs={"height": -0.3 * math.cos(pitch)},
        )
        yield "swing/state", state
        yield "swing/reference", JointReference(timestamp=now, name=["yaw"], position=[0.5 * yaw])
        turn = [math.cos(yaw / 2), 0.0, 0.0, math.sin(yaw / 2)]
        c, s, cy, sy = math.cos(pitch / 2), math.sin(pitch / 2), turn[0], turn[3]
        rod = [cy * c, -sy * s, cy * s, sy * c]  # yaw about z, then pitch about y
        p = [0.0, 0.0, 0.0, 0.2 * math.cos(yaw), 0.2 * math.sin(yaw), 0.0]
        yield "swing/body_poses", BodyPoses(timestamp=now, seq=tick, p=p, quaternion=turn + rod)


@pytest.fixture
def said_in_space() -> list[Said]:
    return list(swinging(planar=False, ticks=300))


def _record(path: Path, planar: bool) -> Path:
    with RecordingWriter(path, {}) as writer:
        for topic, message in swinging(planar, ticks=300):
            writer.write(topic, message, message.timestamp)
    return path


@pytest.fixture
def spatial(tmp_path: Path) -> Path:
    return _record(tmp_path / "spatial.mcap", planar=False)


@pytest.fixture
def planar(tmp_path: Path) -> Path:
    return _record(tmp_path / "planar.mcap", planar=True)
