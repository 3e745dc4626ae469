"""Pushes in the scene: where their forces act, and the body under a point of the picture."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from viewer import palette
from viewer.data.pushes import Push
from viewer.data.series import Floats
from viewer.scene.bodies import Outline
from viewer.scene.overlay import Force

SHOWN_S = 0.3  # s that a short push is shown at least


def acting(pushes: Sequence[Push], time: float) -> list[Push]:
    """The pushes to show at `time`, s.

    For each body, this is the last push that started at or before `time`, if it still acts or started at most SHOWN_S
    ago.
    """
    latest = {push.body: push for push in pushes if push.start <= time + 1e-9}
    shown = [push for push in latest.values() if time <= max(push.end, push.start + SHOWN_S)]
    return [push for push in shown if push.newton.any()]


def force_of(push: Push, bodies: Sequence[str], p_WB: Floats, R_WB: Floats) -> Force | None:
    """The push as a force in the world; None if the robot does not have the pushed body."""
    if push.body not in bodies:
        return None
    place = bodies.index(push.body)
    return Force(f"push on {push.body}", p_WB[place] + R_WB[place] @ push.point, push.newton, palette.PUSH)


def outline_at(outlines: Sequence[Outline], x: float, y: float, near: float) -> Outline | None:
    """The body outline nearest to the point (x, y), m, of the drawing plane.

    If the point lies inside several outlines, the foremost of these is returned. Returns None if no outline is nearer
    to the point than `near`, m.

    outlines  outlines of the bodies, the farthest from the eye first
    """
    found, least = None, near
    for outline in reversed(outlines):
        gap = _gap(outline, np.array([x, y])) if outline.body >= 0 else math.inf
        if gap < least or (gap == 0.0 and found is None):
            found, least = outline, gap
    return found


def _gap(outline: Outline, point: Floats) -> float:
    """Distance of a point (2,) from an outline, m; 0 for a point inside the outline."""
    corners = outline.corners
    if outline.radius > 0.0:
        return max(0.0, float(np.linalg.norm(corners[0] - point)) - outline.radius)
    if outline.closed:
        (x0, y0), (x1, y1) = corners.T, np.roll(corners, -1, axis=0).T
        crossed = (y0 > point[1]) != (y1 > point[1])
        beyond = point[0] < x0 + (point[1] - y0) * (x1 - x0) / np.where(crossed, y1 - y0, 1.0)
        if (crossed & beyond).sum() % 2:
            return 0.0
        corners = np.concatenate([corners, corners[:1]])
    starts, along = corners[:-1], np.diff(corners, axis=0)
    if len(starts) == 0:
        return math.inf
    length = np.maximum((along * along).sum(axis=1), 1e-30)
    share = np.clip(((point - starts) * along).sum(axis=1) / length, 0.0, 1.0)
    return float(np.linalg.norm(starts + share[:, None] * along - point, axis=1).min())
