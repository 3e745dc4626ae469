"""Grippers: their state (gripping, sliding or open), their marks in the picture and their legend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from nodes.framework.messages import Description
from viewer import palette
from viewer.data.series import Floats
from viewer.scene.bodies import Outline
from viewer.scene.projection import View

OPEN, SLIDES, GRIPS = 0, 1, 2
LEAST_MARK = 0.009  # least radius of an open gripper's ring, as a fraction of the picture's size
KEYS = (("◉", "grips"), ("◈", "slides"), ("○", "open"))


@dataclass(frozen=True)
class Hold:
    """State of a gripper at one instant.

    body   index of the gripper's body
    point  position of the gripper in the world, (3,), m
    state  OPEN, SLIDES or GRIPS
    """

    name: str
    body: int
    point: Floats
    state: int


class GripperMarks:
    """The grippers of one robot: where each gripper is at a pose, and whether it is open, grips or slides.

    A pose consists of the arrays p_WB, R_WB that `Skeleton.place` returns.
    """

    def __init__(self, description: Description) -> None:
        places = {body.name: index for index, body in enumerate(description.bodies)}
        self._grippers = [
            (hold.name, places[hold.body], np.asarray(hold.point, dtype=np.float64), hold.outputs)
            for hold in description.holds
            if hold.body in places and hold.outputs
        ]

    @property
    def keys(self) -> list[tuple[str, str, str]]:
        """Legend entries (mark, name, colour); empty for a robot without grippers."""
        return [(mark, name, palette.INK) for mark, name in KEYS] if self._grippers else []

    def at(self, p_WB: Floats, R_WB: Floats, outputs: Mapping[str, float]) -> list[Hold]:
        """States of the grippers at one pose, without grippers for which outputs are missing."""
        return [
            Hold(name, body, p_WB[body] + R_WB[body] @ point, state_of([outputs[part] for part in parts]))
            for name, body, point, parts in self._grippers
            if all(part in outputs for part in parts)
        ]


def state_of(parts: Sequence[float]) -> int:
    """State of a gripper from the robot's outputs that belong to the gripper.

    The state is GRIPS if all these outputs are above 0.5, SLIDES if only some of them are above 0.5, and OPEN if none
    is.
    """
    acting = sum(part > 0.5 for part in parts)
    return GRIPS if acting == len(parts) else SLIDES if acting else OPEN


def marks(hold: Hold, view: View, color: str, radius: float, size: float) -> list[Outline]:
    """Outlines that mark a gripper's state, to be drawn over the gripper's ball.

    The mark of an open gripper is a hollow ring, of a gripping one a filled disc in a ring, and of a sliding one a
    filled disc in a diamond.

    radius  radius of the ball, m
    size    size of the picture, m
    """
    center = view.project(hold.point[None])[:, :2]
    around = max(radius, LEAST_MARK * size)
    if hold.state == OPEN:
        return [Outline(hold.body, color, center, 0.0, False, around, hollow=True)]
    ball = Outline(hold.body, color, center, 0.0, False, 0.75 * around)
    if hold.state == GRIPS:
        return [Outline(-1, palette.INK, center, 0.0, False, 1.35 * around, hollow=True), ball]
    corners = center + 1.9 * around * np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0], [1.0, 0.0]])
    return [Outline(-1, palette.INK, corners, 0.0, False, width=2.0), ball]
