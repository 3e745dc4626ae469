"""Grippers: what the description says of them, and how the picture tells open, sliding and gripping apart."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("pyqtgraph", exc_type=ImportError)

import robots
from nodes.framework.messages import BodyDescription, Description, GripperDescription, Shape
from nodes.framework.simulation.description import describe, output_names
from viewer.qt import theme
from viewer.scene.bodies import Outline
from viewer.scene.grippers import GRIPS, OPEN, SLIDES, GripperMarks, marks
from viewer.scene.overlay import FORCE_DARKER, SceneOverlay, force_colors, force_named
from viewer.scene.projection import choose_view
from viewer.scene.scene import _unstacked, body_names

PAW = Description(
    bodies=[BodyDescription(name="arm"), BodyDescription(name="paw", shapes=[Shape(kind="sphere", size=[0.02])])],
    holds=[GripperDescription(name="paw", body="paw", point=[0.0, 0.0, 0.1], outputs=["along", "across"])],
)
VIEW = choose_view("xz", np.array([0.0, 0.0, -9.81]))


@pytest.mark.parametrize(
    ("along", "across", "state"), [(1.0, 1.0, GRIPS), (0.0, 1.0, SLIDES), (1.0, 0.0, SLIDES), (0.0, 0.0, OPEN)]
)
def test_a_gripper_grips_with_all_its_parts_slides_with_some_and_is_open_with_none(
    along: float, across: float, state: int
) -> None:
    p_WB = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 2.0]])
    R_WB = np.stack([np.eye(3), np.diag([1.0, -1.0, -1.0])])
    (hold,) = GripperMarks(PAW).at(p_WB, R_WB, {"along": along, "across": across})
    assert (hold.name, hold.body, hold.state) == ("paw", 1, state)
    np.testing.assert_allclose(hold.point, [1.0, 0.0, 1.9])
    drawn = marks(hold, VIEW, "#804020", 0.02, 1.0)
    rings = [outline for outline in drawn if outline.hollow]
    assert [len(drawn), len(rings)] == {OPEN: [1, 1], SLIDES: [2, 0], GRIPS: [2, 1]}[state]


def test_a_gripper_of_which_nothing_is_told_has_no_mark() -> None:
    holds = GripperMarks(PAW)
    assert holds.at(np.zeros((2, 3)), np.stack([np.eye(3)] * 2), {"along": 1.0}) == []
    assert [name for _, name, _ in holds.keys] == ["grips", "slides", "open"]
    assert GripperMarks(Description()).keys == []


@pytest.mark.parametrize("line", ["bars", "cable"])
def test_both_hands_of_the_gibbon_take_hold_along_the_line_and_across_it(line: str) -> None:
    mechanism = robots.build("gibbon", line=line)
    description = describe(mechanism, 1e-3, output_names(mechanism), "")
    assert [(hold.name, hold.body, hold.outputs) for hold in description.holds] == [
        (f"hand_{hand}", f"hand_{hand}", [f"hand_{hand}_grips", f"hand_{hand}_holds"]) for hand in "ab"
    ]
    pendulum = robots.build("rotary_pendulum")
    assert describe(pendulum, 1e-3, output_names(pendulum), "").holds == []


def test_a_hand_has_one_colour_in_picture_and_plots() -> None:
    """Each hand's body, its arrow (darker) and its curves of force and grip."""
    mechanism = robots.build("gibbon")
    description = describe(mechanism, 1e-3, output_names(mechanism), "")
    colors, arrows = dict(body_names(description)), force_colors(description)
    for place, hand in enumerate(("hand_a", "hand_b")):
        assert [force.name for force in description.forces][place] == hand
        assert colors[hand] == theme.curve_color(place)
        assert arrows[hand] == theme.body_color(0, colors[hand]).darker(FORCE_DARKER).name()
    assert len(set(colors.values())) == len(colors)


def test_what_stands_still_is_in_the_legend_and_a_force_is_not_called_one_twice() -> None:
    still = ("●", "stands still", theme.STILL)
    for robot, named in (("gibbon", True), ("arm_2dof", False)):
        mechanism = robots.build(robot)
        keys = SceneOverlay(describe(mechanism, 1e-3, output_names(mechanism), "")).keys
        assert (still in keys) is named
    assert [force_named(name) for name in ("hand_a", "contact_force")] == ["force on hand a", "contact force"]


def test_balls_of_earlier_poses_are_hollow_and_do_not_pile_up() -> None:
    def ball(body: int, x: float) -> Outline:
        return Outline(body, "", np.array([[x, 0.0]]), 0.0, False, radius=0.1)

    rod = Outline(0, "", np.array([[0.0, 0.0], [1.0, 0.0]]), 0.0, False)
    found = _unstacked([rod, ball(1, 0.01), ball(1, 0.3), ball(2, 0.0)], [([ball(1, 0.0)], 0.1)])
    assert [(outline.body, outline.hollow) for outline in found] == [(0, False), (1, True), (2, True)]
    np.testing.assert_array_equal(found[1].corners, [[0.3, 0.0]])
