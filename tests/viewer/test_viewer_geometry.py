"""What is drawn where: projections, outlines, signals and their thinning, without a window."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nodes.framework.messages import BodyDescription, BodyPoses, Description, Polylines, RobotState, Shape
from nodes.framework.recording.reader import read_recording
from viewer.data.series import Table, decimated, row_at
from viewer.data.signals import Signals, from_recording
from viewer.scene.bodies import Skeleton, evenly_along
from viewer.scene.projection import PoseBounds, check_plane, choose_view, hull, rotation

DOWN_Z = np.array([0.0, 0.0, -9.81])


@pytest.mark.parametrize("plane", ["xy", "xz", "yz", "space"])
@pytest.mark.parametrize("gravity", [[0, 0, -9.81], [0, -9.81, 0], [9.81, 0, 0], [0, 0, 0]])
def test_axes_of_every_view_are_orthonormal_right_handed_and_up_is_against_gravity(
    plane: str, gravity: list[float]
) -> None:
    view = choose_view(plane, np.array(gravity, dtype=float))
    np.testing.assert_allclose(view.axes @ view.axes.T, np.eye(3), atol=1e-15)
    assert np.linalg.det(view.axes) == pytest.approx(1.0)
    assert view.axes[1] @ np.array(gravity) <= 1e-12


def test_motion_in_a_plane_is_seen_face_on_even_when_bodies_are_offset_and_thick() -> None:
    angles = np.linspace(0.0, 3.0, 50)
    first = np.stack([np.cos(angles), np.sin(angles), np.full(50, 0.2)], axis=1)
    second = np.stack([np.cos(angles), np.sin(2 * angles), np.full(50, -0.2)], axis=1)
    thick = np.array([0.0, 0.0, 0.15])  # in z
    seen = PoseBounds(np.array([0, 0, 1, 1]), np.array([True, True]))
    seen.add(np.stack([first, first + thick, second, second + thick], axis=1))
    assert seen.plane(np.array([0.0, -9.81, 0.0])) == "xy"
    lines = PoseBounds(np.array([0, 0, 1, 1]), np.array([False, False]))
    lines.add(np.stack([first, first + thick, second, second + thick], axis=1))
    assert lines.plane(np.array([0.0, -9.81, 0.0])) == "space"
    np.testing.assert_array_equal(choose_view("xy", np.array([0.0, -9.81, 0.0])).axes, np.eye(3))


def test_an_unknown_plane_is_named_with_those_there_are() -> None:
    with pytest.raises(ValueError, match="'zx' is unknown; choose one of xy"):
        choose_view("zx", DOWN_Z)
    with pytest.raises(ValueError, match="'zx' is unknown; choose one of auto, xy"):
        check_plane("zx")


def test_quaternions_turn_as_the_wire_says() -> None:
    quarter_about_z = np.array([math.sqrt(0.5), 0.0, 0.0, math.sqrt(0.5)])
    np.testing.assert_allclose(rotation(quarter_about_z) @ [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], atol=1e-15)
    np.testing.assert_array_equal(rotation(np.zeros(4)), np.eye(3))


def test_the_hull_of_a_cube_seen_from_a_corner_is_a_hexagon() -> None:
    cube = np.array([[x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1)], dtype=float)
    view = choose_view("space", DOWN_Z)
    corners = hull(view.project(cube)[:, :2])
    assert len(corners) == 6
    assert {tuple(corner) for corner in corners} <= {tuple(point) for point in view.project(cube)[:, :2]}


def test_outlines_are_placed_by_poses_and_sorted_by_depth() -> None:
    shapes = [Shape(kind="line", points=[0, 0, 0, 0, 0, -1]), Shape(kind="sphere", size=[0.1], position=[0, 0, -1])]
    behind = BodyDescription(name="behind", shapes=[Shape(kind="box", size=[1, 1, 1])])
    skeleton = Skeleton(Description(bodies=[BodyDescription(name="rod", shapes=shapes), behind]))
    view = choose_view("xz", DOWN_Z)
    toward_eye = view.axes[2]
    half_about_y = [0.0, 0.0, 1.0, 0.0]
    row = np.array([2.0, 0.0, 3.0, *(-5.0 * toward_eye), *half_about_y, 1.0, 0.0, 0.0, 0.0])
    outlines = list(skeleton.outlines(row, view))
    assert [outline.body for outline in outlines] == [1, 0, 0]
    line = next(outline for outline in outlines if outline.body == 0 and outline.radius == 0.0)
    np.testing.assert_allclose(line.corners, [[2.0, 3.0], [2.0, 4.0]], atol=1e-12)
    np.testing.assert_allclose(skeleton.tips(row[None])[0, 0], [2.0, 0.0, 4.0], atol=1e-12)


def test_a_spoke_on_the_face_toward_the_eye_turns_with_its_wheel_and_lines_lie_over_it() -> None:
    shapes = [Shape(kind="line", points=[0, 0, 0, 1, 0, 0]), Shape(kind="cylinder", size=[0.5, 0.1])]
    skeleton = Skeleton(Description(bodies=[BodyDescription(name="wheel", shapes=shapes)]))
    quarter_about_z = [math.sqrt(0.5), 0.0, 0.0, math.sqrt(0.5)]
    outlines = list(skeleton.outlines(np.array([0.0, 0.0, 0.0, *quarter_about_z]), choose_view("xy", DOWN_Z)))
    assert [(outline.closed, outline.fine) for outline in outlines] == [
        (False, True),  # on the far face, hidden
        (True, False),
        (False, False),
        (False, True),
    ]
    up_on_paper = np.sort(np.linalg.norm(outlines[-1].corners, axis=1))
    np.testing.assert_allclose(up_on_paper, [0.0, 0.5], atol=1e-12)
    turned = abs(outlines[-1].corners[1] @ outlines[2].corners[1])
    assert turned == pytest.approx(0.5)  # the spoke lies along the line that was drawn along x


@pytest.mark.parametrize(("kind", "size", "faces"), [("box", [1.0, 1.0, 1.0], 3), ("cylinder", [0.5, 1.0], 2)])
def test_in_space_a_solid_shows_its_faces_toward_the_eye_the_top_one_brightest(
    kind: str, size: list[float], faces: int
) -> None:
    skeleton = Skeleton(Description(bodies=[BodyDescription(name="solid", shapes=[Shape(kind=kind, size=size)])]))
    row = np.array([0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0])
    seen = [outline for outline in skeleton.outlines(row, choose_view("space", DOWN_Z)) if outline.closed]
    assert len(seen) == faces
    shades = [outline.shade for outline in seen]
    assert len(set(shades)) == faces
    assert all(0.5 < shade <= 1.0 for shade in shades)
    brightest = seen[int(np.argmax(shades))]
    assert brightest.corners[:, 1].mean() == max(outline.corners[:, 1].mean() for outline in seen)
    spokes = [outline for outline in skeleton.outlines(row, choose_view("space", DOWN_Z)) if outline.fine]
    assert len(spokes) == (1 if kind == "cylinder" else 0)
    (flat,) = [outline for outline in skeleton.outlines(row, choose_view("xz", DOWN_Z)) if outline.closed]
    assert flat.shade == 1.0


def test_poses_of_another_robot_draw_nothing() -> None:
    skeleton = Skeleton(Description(bodies=[BodyDescription(name="a", shapes=[Shape(kind="sphere", size=[1.0])])]))
    view = choose_view("xz", DOWN_Z)
    assert list(skeleton.outlines(np.zeros(14), view)) == []


def test_a_mesh_is_the_outline_of_its_hull_in_an_earlier_pose() -> None:
    corners = [0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0]
    mesh = Shape(kind="mesh", points=corners, faces=[0, 2, 1, 0, 1, 3, 0, 3, 2, 1, 2, 3])
    body = BodyDescription(name="rock", mass=1.0, shapes=[mesh])
    skeleton = Skeleton(Description(robot="rock", bodies=[body], gravity=[0.0, 0.0, -9.81]))
    row, view = np.array([0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0]), choose_view("xy", DOWN_Z)
    (hull_of_it,) = skeleton.outlines(row, view, hulls=True)
    assert sorted(hull_of_it.corners.round(12).tolist()) == [[0.0, 0.0], [0.0, 1.0], [1.0, 0.0]]
    assert all(not outline.edged for outline in skeleton.outlines(row, view))


def test_ghosts_are_spread_along_the_path_not_over_time() -> None:
    path = np.concatenate([np.linspace(0.0, 1.0, 11), np.full(500, 1.0)])[:, None]
    assert evenly_along(path, 6) == [0, 2, 4, 6, 8, 10]
    assert evenly_along(np.ones((5, 2)), 6) == [4]


def test_a_table_keeps_the_latest_rows_in_order() -> None:
    table = Table(["a"], capacity=2000)
    for tick in range(5000):
        table.extend([float(tick)], [[10.0 * tick]])
    assert 2000 <= len(table.times) <= 2500
    assert table.times.tolist() == [float(tick) for tick in range(5000 - len(table.times), 5000)]
    np.testing.assert_array_equal(table.values[:, 0], 10.0 * table.times)


def test_thinning_keeps_every_extreme_and_the_order() -> None:
    times = np.arange(100_000.0)
    values = np.zeros(100_000)
    values[[12_345, 70_001]] = 5.0, -7.0
    x, y = decimated(times, values, 1000)
    assert len(x) <= 1100
    assert np.all(np.diff(x) >= 0.0)
    assert (y.max(), y.min()) == (5.0, -7.0)
    assert x[np.argmax(y)] == 12_345


def test_the_row_at_a_time_is_the_last_one_before_it() -> None:
    times = np.array([1.0, 2.0, 3.0])
    assert [row_at(times, time) for time in (0.0, 1.0, 2.9, 3.0, 9.0)] == [0, 0, 1, 2, 2]
    assert row_at(times[:0], 1.0) is None


def test_a_live_stream_and_its_recording_give_the_same_signals(said_in_space: list[Any], spatial: Path) -> None:
    live = Signals()
    live.add(said_in_space)
    whole = from_recording(read_recording(spatial))
    assert live.robot == whole.robot == "swing"
    assert set(live.store.topics) >= {"swing/state", "swing/reference"}
    for topic in ("swing/state", "swing/reference"):
        assert set(live.store.fields(topic)) == set(whole.store.fields(topic))
        for field in live.store.fields(topic):
            np.testing.assert_array_equal(live.store.column(topic, field), whole.store.column(topic, field))
    assert live.poses is not None
    assert whole.poses is not None
    np.testing.assert_array_equal(live.poses.values, whole.poses.values)


def test_other_robots_are_passed_over_and_a_reset_starts_anew() -> None:
    signals = Signals()
    signals.add([("arm/state", RobotState(timestamp=5.0, name=["a"], position=[1.0]))])
    signals.add([("other/state", RobotState(timestamp=6.0, name=["a"], position=[2.0]))])
    assert signals.times.tolist() == [5.0]
    signals.add([("arm/state", RobotState(timestamp=0.0, name=["a"], position=[3.0]))])
    assert signals.times.tolist() == [0.0]


def test_poses_and_lines_that_arrive_before_the_first_state_after_a_reset_stay_and_older_ones_go() -> None:
    signals = Signals()

    def publish(time: float, *topics: str) -> None:
        messages = {
            "state": RobotState(timestamp=time, name=["a"], position=[time]),
            "body_poses": BodyPoses(timestamp=time, p=[time, 0.0, 0.0], quaternion=[1.0, 0.0, 0.0, 0.0]),
            "lines": Polylines(timestamp=time, name=["cable"], count=[1], points=[time, 0.0, 0.0]),
        }
        for topic in topics:
            signals.add([(f"arm/{topic}", messages[topic])])

    for time in (0.0, 4.0, 5.0):
        publish(time, "body_poses", "lines", "state")
    publish(1.0, "body_poses", "lines")
    assert signals.poses is not None
    assert signals.poses.times.tolist() == [1.0]  # in increasing order, although no state has told of the reset yet
    publish(1.0, "state")
    publish(2.0, "state", "body_poses", "lines")
    assert signals.poses.times.tolist() == [1.0, 2.0]
    assert signals.lines.at(1.5) == signals.lines.at(1.0)
    assert signals.lines.at(0.5) is None
    publish(0.5, "state")
    assert signals.poses is None
    assert signals.lines.last is None


def test_the_eye_stands_on_the_side_to_which_the_robot_reaches() -> None:
    usual = choose_view("space", DOWN_Z)
    eye = usual.axes[2] * np.array([1.0, 1.0, 0.0])
    np.testing.assert_array_equal(choose_view("space", DOWN_Z, front=0.05 * -eye).axes, usual.axes)
    other = choose_view("space", DOWN_Z, front=-eye).axes
    np.testing.assert_allclose(other[2], usual.axes[2] * np.array([-1.0, -1.0, 1.0]), atol=1e-12)
    np.testing.assert_allclose(other @ other.T, np.eye(3), atol=1e-12)


def test_a_robots_front_is_where_its_moving_ends_are() -> None:
    link = Shape(kind="line", points=[0.0, 0.0, 0.0, 0.0, 1.0, 0.0])
    bodies = [BodyDescription(name="base", mass=9.0), BodyDescription(name="arm", mass=1.0, shapes=[link])]
    skeleton = Skeleton(Description(robot="it", bodies=bodies))
    turned = [[0.0] * 6 + [1.0, 0.0, 0.0, 0.0, math.cos(angle), 0.0, 0.0, math.sin(angle)] for angle in (-0.1, 0.1)]
    np.testing.assert_allclose(skeleton.front(np.array(turned)), [0.0, math.cos(0.2), 0.0], atol=1e-12)
    assert not skeleton.front(np.array(turned[:1])).any()  # of one pose nobody knows what moves
