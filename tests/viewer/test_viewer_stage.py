"""What is drawn beside the bodies: a cable far longer than its robot, springs, supports, forces, a planned path."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyqtgraph", exc_type=ImportError)

from nodes.framework.messages import (
    BodyDescription,
    BodyPoses,
    Description,
    ForceDescription,
    JointDescription,
    Message,
    Polylines,
    RobotState,
    Shape,
    SpringDescription,
)
from nodes.framework.messages.codec import decode, encode
from nodes.framework.recording.reader import RecordingWriter, read_recording
from tests.viewer.conftest import swinging
from tests.viewer.window_driving import pictured
from viewer import palette
from viewer.data.signals import Signals, from_recording
from viewer.qt import theme
from viewer.scene.bodies import Skeleton
from viewer.scene.overlay import Force, SceneOverlay, around, arrow, lines, zigzag
from viewer.scene.projection import choose_view
from viewer.scene.scene import Scene, floor, view_text

DOWN_Z = np.array([0.0, 0.0, -9.81])
CABLE_M, LINK_M, STRIDE_M = 20.0, 0.6, 0.9


def sag(x: float | np.ndarray, hand: float) -> Any:
    """A cable with a robot at `hand`."""
    kink = np.where(x < hand, x / hand, (CABLE_M - x) / (CABLE_M - hand))
    return -0.1 * 4 * x * (CABLE_M - x) / CABLE_M**2 - 0.1 * kink


def brachiating(seconds: float = 8.0) -> Iterator[tuple[str, Message]]:
    """What a server and a planner say of two links that swing along a cable, hand over hand."""
    links = [
        BodyDescription(
            name=name,
            mass=5.0,
            shapes=[
                Shape(kind="line", points=[0.0, 0.0, 0.0, 0.0, 0.0, -LINK_M]),
                Shape(kind="box", size=[0.05, 0.05, 0.08]),
            ],
        )
        for name in ("front_link", "rear_link")
    ]
    forces = [
        ForceDescription(
            name=f"{hand}_hand",
            body=link,
            outputs=[f"{hand}_x", f"{hand}_z"],
            axes=[1.0, 0.0, 0.0, 0.0, 0.0, 1.0],
        )
        for hand, link in (("front", "front_link"), ("rear", "rear_link"))
    ]
    outputs = ["front_x", "front_z", "rear_x", "rear_z"]
    yield (
        "ape/description",
        Description(
            robot="ape",
            bodies=links,
            joints=[JointDescription(name="elbow")],
            outputs=outputs,
            output_units=["N"] * 4,
            forces=forces,
        ),
    )
    x = np.linspace(0.0, CABLE_M, 101)
    for tick in range(round(60 * seconds)):
        now = tick / 60.0
        swing, phase = divmod(now, 1.0)
        hand = 2.0 + STRIDE_M * swing
        angle = -math.pi * (0.35 - 0.7 * phase)
        p_hand = np.array([hand, 0.0, float(sag(hand, hand))])
        elbow = p_hand + LINK_M * np.array([math.sin(angle), 0.0, -math.cos(angle)])
        free = angle + 1.1 * math.cos(math.pi * phase)
        tip = elbow + LINK_M * np.array([math.sin(free), 0.0, math.cos(free)])
        quaternion = [math.cos(angle / 2), 0.0, -math.sin(angle / 2), 0.0]
        quaternion += [math.cos(free / 2), 0.0, math.sin(free / 2), 0.0]
        pull = 100.0 + 60.0 * math.sin(math.pi * phase)
        state = RobotState(timestamp=now, seq=tick, name=["elbow"], position=[free], velocity=[0.0], energy=1.0)
        state.outputs = dict(zip(outputs, [30.0 * math.sin(angle), pull, 0.0, 0.0], strict=True))
        yield "ape/state", state
        yield "ape/body_poses", BodyPoses(timestamp=now, p=[*p_hand.tolist(), *tip.tolist()], quaternion=quaternion)
        cable = np.stack([x, 0 * x, sag(x, hand)], axis=1)
        yield "ape/lines", Polylines(timestamp=now, name=["cable"], count=[101], points=cable.ravel().tolist())
        if tick % 3 == 0:
            s = np.linspace(0.0, 1.0, 20 + tick % 5)
            path = np.stack([hand - STRIDE_M + 2 * STRIDE_M * s, 0 * s, -1.1 * np.sin(math.pi * s)], axis=1)
            yield (
                "ape/overlay",
                Polylines(timestamp=now, name=["planned path"], count=[len(s)], points=path.ravel().tolist()),
            )


@pytest.fixture
def ape(tmp_path: Path) -> Path:
    path = tmp_path / "ape.mcap"
    with RecordingWriter(path, {}) as writer:
        for topic, message in brachiating():
            writer.write(topic, message, message.timestamp)
    return path


def test_a_short_beam_is_shown_whole_and_of_a_long_cable_what_is_near_the_robot() -> None:
    robot = np.array([[2.0, 0.0, -2.0], [3.0, 0.0, 0.0]])
    beam = np.stack([np.linspace(0.5, 4.5, 50), np.zeros(50), np.zeros(50)], axis=1)
    np.testing.assert_array_equal(around(robot, beam), beam)
    cable = np.stack([np.linspace(0.0, 20.0, 201), np.zeros(201), np.zeros(201)], axis=1)
    near = around(robot, cable)
    assert (near[:, 0].min(), near[:, 0].max()) == pytest.approx((1.6, 3.4), abs=0.11)
    assert len(around(robot, np.zeros((0, 3)))) == 0
    journey = np.array([[4.0, 0.0, -1.6], [16.0, 0.0, 0.0]])
    along = around(journey, cable)
    assert (along[:, 0].min(), along[:, 0].max()) == pytest.approx((3.2, 16.8), abs=0.11)
    assert len(around(journey, cable[20:161])) == 141


def test_a_zigzag_goes_from_end_to_end_and_stays_slim_when_short() -> None:
    for length in (1.0, 0.01):
        corners = zigzag(np.array([[0.0, 0.0], [length, 0.0]]), 0.02)
        np.testing.assert_allclose(corners[[0, -1]], [[0.0, 0.0], [length, 0.0]], atol=1e-15)
        assert np.abs(corners[:, 1]).max() == pytest.approx(min(0.02, 0.2 * length))
        assert (np.diff(corners[:, 0]) > 0.0).all()
    assert len(zigzag(np.zeros((2, 2)), 0.02)) == 2


def test_springs_join_points_of_bodies_and_the_ground() -> None:
    bodies = [BodyDescription(name="block", shapes=[Shape(kind="sphere", size=[0.1])])]
    spring = SpringDescription(name="s", body_b="block", point_a=[0.0, 0.0, 1.0], point_b=[0.1, 0.0, 0.0])
    stage = SceneOverlay(Description(bodies=bodies, springs=[spring]))
    quarter_about_y = np.array([[[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [-1.0, 0.0, 0.0]]])
    (drawn,) = stage.springs(np.array([[2.0, 0.0, 0.0]]), quarter_about_y, choose_view("xz", DOWN_Z), 1.0)
    np.testing.assert_allclose(drawn.corners[[0, -1]], [[0.0, 1.0], [2.0, -0.1]], atol=1e-12)
    assert [key[:2] for key in stage.keys] == [("∿", "spring")]


def test_a_force_is_the_sum_of_its_outputs_and_missing_ones_draw_nothing() -> None:
    forces = [
        ForceDescription(name="hand", body="a", point=[0.0, 0.0, 1.0], outputs=["x", "z"], axes=[1, 0, 0, 0, 0, 1]),
        ForceDescription(name="lost", body="a", outputs=["y"], axes=[0, 1, 0]),
    ]
    stage = SceneOverlay(Description(bodies=[BodyDescription(name="a")], forces=forces))
    (force,) = stage.forces(np.array([[1.0, 0.0, 0.0]]), np.eye(3)[None], {"x": 3.0, "z": 4.0, "y": math.nan})
    np.testing.assert_allclose([force.point, force.newton], [[1.0, 0.0, 1.0], [3.0, 0.0, 4.0]])
    view = choose_view("xz", DOWN_Z)
    shaft, head = arrow(force, view, 0.1, 10.0)
    np.testing.assert_allclose(shaft.corners[0], [1.0, 1.0])
    np.testing.assert_allclose(head.corners[1], [1.3, 1.4])
    assert arrow(Force("hand", force.point, np.zeros(3)), view, 0.1, 10.0) == []


def test_a_live_stream_and_its_recording_draw_the_same_lines(ape: Path) -> None:
    live, recorded = Signals(), from_recording(read_recording(ape))
    live.add(list(brachiating()))
    for time in (0.0, 3.21, 7.9):
        for track in ("lines", "overlay"):
            ours, theirs = (getattr(signals, track).at(time) for signals in (live, recorded))
            assert ours.names == theirs.names
            np.testing.assert_array_equal(ours.lines[0], theirs.lines[0])
    assert recorded.lines.at(3.21).lines[0].shape == (101, 3)
    assert live.overlay.at(-1.0) is None
    live.add([("ape/state", RobotState(timestamp=0.0))])
    assert (live.lines.last, live.overlay.last) == (None, None)


def test_overlays_are_dashed_and_lines_are_not() -> None:
    signals = Signals()
    signals.add(list(brachiating(0.1)))
    view = choose_view("xz", DOWN_Z)
    (cable,), (path,) = lines(signals.lines.last, view), lines(signals.overlay.last, view, overlay=True)
    assert (cable.dashed, path.dashed) == (False, True)
    assert np.ptp(cable.corners[:, 0]) == pytest.approx(CABLE_M)
    assert lines(None, view) == []


def test_a_robot_on_a_long_cable_has_a_wide_picture_with_all_that_is_beside_it(ape: Path, qtbot: Any) -> None:
    with pictured(qtbot, from_recording(read_recording(ape)), ape.with_suffix(".png")) as window:
        signals, picture = window.signals, window.scene
        assert picture.wide
        (left, right), _ = picture.plot.viewRange()
        assert left > -1.5
        assert right < 12.0
        planned = signals.overlay.last
        assert planned is not None
        assert left < planned.lines[0][-1, 0] < right  # where the plan leads to
        picture.show(signals, signals.time, 0.0, ghosts=False)
        behind, ((over, _),) = picture._bodies._around
        assert [len(outlines) for outlines, _ in behind] == [0, 1, 1]
        assert len(over) == 4  # a cross where the plan ends, shaft and head of a force: the rear hand bears nothing
        (number,) = [number for number in picture._numbers if number.isVisible()]
        assert number.toPlainText() == "front hand 106 N"
        named = window.page.legend.text().replace("&nbsp;", " ")
        for name in ("front_link", "cable", "planned path", "end of the planned path", "force on front hand"):
            assert name in named
        spot = number.mapRectToParent(number.boundingRect())
        assert picture.plot.getViewBox().viewRect().contains(spot)  # its label is inside the frame


def test_no_two_curves_share_a_colour() -> None:
    colors = [theme.curve_color(index) for index in range(64)]
    assert len(set(colors)) == 64
    rgb = np.array([[int(color[k : k + 2], 16) for k in (1, 3, 5)] for color in colors[:32]])
    apart = np.linalg.norm(rgb[:, None] - rgb[None], axis=2) + 1e3 * np.eye(32)
    assert apart.min() > 40.0
    dashed = [theme.curve_dash(index) for index in range(32)]
    assert len({str(each) for each in dashed}) == 4  # in pictures; eight hues each


def test_paths_of_the_tips_are_lines_and_not_filled_with_the_colour_of_what_stands_still(
    tmp_path: Path, qtbot: Any
) -> None:
    from pyqtgraph.Qt import QtGui

    signals = Signals()
    for topic, message in brachiating(2.0):
        if isinstance(message, Description):
            block = Shape(kind="box", size=[0.1, 0.1, 0.1], position=[2.4, 0.0, 0.3], color="#00ff00")
            message.ground.append(block)
        signals.add([(topic, message)])
    with pictured(qtbot, signals, tmp_path / "ape.png"):
        pass
    image = QtGui.QImage(str(tmp_path / "ape.png")).convertToFormat(QtGui.QImage.Format.Format_RGB888)
    data = image.constBits()
    data.setsize(image.sizeInBytes())
    rgb = np.frombuffer(bytes(data), dtype=np.uint8).reshape(image.height(), image.bytesPerLine())
    rgb = rgb[:, : 3 * image.width()].reshape(image.height(), image.width(), 3).astype(int)
    green = np.argwhere((rgb[..., 1] > 200) & (rgb[..., 0] < 60) & (rgb[..., 2] < 60))
    legend, scene = green[green[:, 0] < 100], green[green[:, 0] >= 100]
    assert len(legend) > 20  # the mark of what stands still
    assert len(scene) > 50
    assert np.ptp(scene, axis=0).max() <= 2 * np.sqrt(len(scene))  # a block and nothing else


def test_a_plate_below_the_robot_replaces_the_grid_of_the_floor_and_is_dim_on_a_dark_background() -> None:
    signals = Signals()
    plate = Shape(kind="box", size=[9.0, 9.0, 0.1], position=[0.0, 0.0, -2.0], color="#d0d0d0")
    signals.add(list(swinging(planar=False, ticks=50)))
    assert signals.description is not None
    bare = Scene("space")
    cloud = bare.survey(signals)
    assert cloud is not None
    assert bare.view is not None
    assert not bare.is_covered(cloud)
    assert floor(bare.view, DOWN_Z, cloud, False).step > 0.0
    signals.description.ground.append(plate)
    scene = Scene("space")
    cloud = scene.survey(signals)
    assert cloud is not None
    assert scene.view is not None
    assert scene.is_covered(cloud)
    covered = floor(scene.view, DOWN_Z, cloud, True)
    assert (len(covered.grid), covered.step) == (0, 0.0)
    assert "square" not in view_text(scene.view, covered.step)
    shades = []
    for name in palette.THEMES:
        palette.use(name)
        frame = scene.frame(signals, 0.1, 0.1, ghosts=False)
        assert frame is not None
        shades.append(max(outline.shade for outline in frame.behind[0][0]))
    palette.use(palette.DEFAULT)
    assert shades[1] < 0.5 * shades[0]


class Swing(Message, kw_only=True):
    """What a planner of one's own may say: any message with a field `path`."""

    number: int = 0
    path: list[float] = []


def test_the_path_of_any_message_is_laid_over_the_picture_live_and_recorded(tmp_path: Path) -> None:
    plan = Swing(timestamp=0.05, path=[1.0, 0.0, -1.0, 2.0, 0.0, -1.5])
    said = [*brachiating(0.1), ("ape/swing_plan", plan), ("other/swing_plan", Swing(timestamp=0.06, path=[0.0] * 6))]
    said = [item for item in said if not item[0].endswith("overlay")]
    live, received, path = Signals(), Signals(), tmp_path / "plan.mcap"
    with RecordingWriter(path, {}) as writer:
        for topic, message in said:
            live.add([(topic, message)])
            received.add([(topic, decode(topic, encode(message)))])
            writer.write(topic, message, message.timestamp)
    for signals in (live, received, from_recording(read_recording(path))):
        drawn = signals.overlay.last
        assert drawn is not None
        assert drawn.names == ("swing_plan",)
        np.testing.assert_array_equal(drawn.lines[0], [[1.0, 0.0, -1.0], [2.0, 0.0, -1.5]])


def test_the_automatic_view_stays_on_its_side_while_the_robot_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    signals, scene = Signals(), Scene("space")
    signals.add(list(swinging(planar=False, ticks=50)))
    fronts = iter([np.array([1.0, 0.0, 0.0]), np.array([-1.0, 0.0, 0.0])])
    chosen = [choose_view("space", np.array([0.0, 0.0, -9.81]), front).axes for front in fronts]
    assert not np.allclose(*chosen)  # another robot would be seen from the other side
    views = []
    for front in ([1.0, 0.0, 0.0], [-1.0, 0.0, 0.0]):
        monkeypatch.setattr(Skeleton, "front", lambda *_, front=front: np.array(front))
        scene.survey(signals)
        assert scene.view is not None
        views.append(scene.view.axes)
    np.testing.assert_array_equal(*views)
