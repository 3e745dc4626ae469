"""Elements drawn besides the moving bodies: ground shapes, springs, polylines from messages, and forces as arrows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from nodes.framework.messages import BodyDescription, Description, Shape
from viewer import palette
from viewer.data.series import Drawn, Floats
from viewer.scene.bodies import Outline, Skeleton
from viewer.scene.projection import View

AT_REST = np.array([0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0])
COILS = 7
COIL_WIDTH = 0.011  # as a fraction of the picture's size
SLIMMEST = 0.2  # largest coil width as a fraction of the spring's length
# Ground shapes and lines are shown whole while the picture stays below WHOLE times the extent of the motion; beyond it
# only what lies within BESIDE times that extent is shown. A motion more than JOURNEY times longer than high has limits
# of its own, the margin relative to its height.
WHOLE, BESIDE = 2.0, 0.2
JOURNEY, WHOLE_JOURNEY, BESIDE_JOURNEY = 2.2, 1.3, 0.5
LONGEST_ARROW = 0.2  # as a fraction of the picture's size
SMALLEST_ARROW = 0.005  # fraction of the largest force below which no arrow is drawn
LEAST_ARROW = SMALLEST_ARROW * LONGEST_ARROW  # the length of such an arrow, as a fraction of the picture's size
LINE_WIDTH, OVERLAY_WIDTH = 4.5, 2.0
CROSS = 0.009  # half the width of the mark at the end of an overlay line, as a fraction of the picture's size
FORCE_DARKER = 135  # percent
STANDS = "stands still"


@dataclass(frozen=True)
class Force:
    """A force on a body.

    point   point of application (3,), m, in the world
    newton  components (3,), N, in world axes
    """

    name: str
    point: Floats
    newton: Floats
    color: str = palette.FORCE


@dataclass(frozen=True)
class _End:
    """A point fixed to the body with index `body`, or to the ground if `body` is -1."""

    body: int
    point: Floats

    def of(self, p_WB: Floats, R_WB: Floats) -> Floats:
        return self.point if self.body < 0 else p_WB[self.body] + R_WB[self.body] @ self.point


class SceneOverlay:
    """Elements drawn besides the bodies of one robot: ground shapes, springs, polylines and forces.

    Poses are arrays p_WB, R_WB as `Skeleton.place` returns them.
    """

    def __init__(self, description: Description) -> None:
        colored = [shape if shape.color else _in_gray(shape) for shape in description.ground]
        still = Description(bodies=[BodyDescription(name="ground", shapes=colored)])
        self._ground, self._stands = Skeleton(still), bool(description.ground)
        self._ground_color = palette.solid_color(0, colored[0].color) if colored else palette.STILL
        places = {body.name: index for index, body in enumerate(description.bodies)}

        def end(body: str, point: Sequence[float]) -> _End:
            return _End(places.get(body, -1), np.asarray(point, dtype=np.float64))

        self._springs = [(end(s.body_a, s.point_a), end(s.body_b, s.point_b)) for s in description.springs]
        self._forces = [
            (force.name, end(force.body, force.point), force.outputs, np.asarray(force.axes).reshape(-1, 3))
            for force in description.forces
        ]
        self.colors = force_colors(description)

    @property
    def keys(self) -> list[tuple[str, str, str]]:
        """Legend entries (mark, name, colour) of ground shapes, springs and forces."""
        springs = [("∿", "springs" if len(self._springs) > 1 else "spring", palette.SPRING)] if self._springs else []
        still = (
            [("●", STANDS, palette.darker(self._ground_color, 100.0 / palette.still_shade()))] if self._stands else []
        )
        return still + springs + [("➔", force_named(name), self.colors[name]) for name, *_ in self._forces]

    def ground(self, view: View) -> list[Outline]:
        outlines = self._ground.outlines(AT_REST, view)
        return [outline._replace(shade=outline.shade * palette.still_shade()) for outline in outlines]

    def ground_spots(self) -> Floats:
        """Points of the ground shapes, (k, 3) m."""
        return self._ground.spots(AT_REST[None])[0]

    def springs(self, p_WB: Floats, R_WB: Floats, view: View, size: float) -> list[Outline]:
        """Springs as zigzag outlines.

        size  size of the picture, m
        """
        found = []
        for points in self.spring_ends(p_WB, R_WB):
            ends = view.project(points)
            corners = zigzag(ends[:, :2], COIL_WIDTH * size)
            found.append(Outline(-1, palette.SPRING, corners, float(ends[:, 2].mean()), False, width=1.6))
        return found

    @property
    def spring_places(self) -> list[tuple[int, Floats, int, Floats]]:
        """(body, point (3,), m, in its frame, body, point) of each spring; the body is -1 for the ground."""
        return [(a.body, a.point, b.body, b.point) for a, b in self._springs]

    def spring_ends(self, p_WB: Floats, R_WB: Floats) -> list[Floats]:
        """Ends (2, 3), m, of each spring."""
        return [np.stack([a.of(p_WB, R_WB), b.of(p_WB, R_WB)]) for a, b in self._springs]

    def forces(self, p_WB: Floats, R_WB: Floats, outputs: Mapping[str, float]) -> list[Force]:
        """The forces for which all outputs are present and finite."""
        found = []
        for name, end, parts, axes in self._forces:
            values = np.array([outputs.get(part, np.nan) for part in parts])
            if len(values) and len(values) == len(axes) and np.isfinite(values).all():
                found.append(Force(name, end.of(p_WB, R_WB), values @ axes, self.colors[name]))
        return found


def lines(drawn: Drawn | None, view: View, overlay: bool = False) -> list[Outline]:
    """Outlines of the polylines of one message.

    overlay  whether the message is from the topic `overlay`; its polylines are drawn dashed
    """
    found = []
    for points in drawn.lines if drawn is not None else ():
        if len(points) > 1:
            flat = view.project(points)
            color, width = (palette.OVERLAY, OVERLAY_WIDTH) if overlay else (palette.LINE, LINE_WIDTH)
            depth = float(flat[:, 2].mean())
            found.append(Outline(-1, color, flat[:, :2], depth, False, width=width, dashed=overlay))
    return found


def ends(drawn: Drawn | None, view: View, size: float) -> list[Outline]:
    """Outlines of a cross at the last point of each polyline of an overlay.

    For a planned path, for example, the cross marks the point at which the path ends.

    size  size of the picture, m
    """
    found = []
    for points in drawn.lines if drawn is not None else ():
        if len(points) > 1:
            end, arm = view.project(points[-1:])[0, :2], CROSS * size
            for side in (-1.0, 1.0):
                corners = end + arm * np.array([[-1.0, -side], [1.0, side]])
                found.append(Outline(-1, palette.OVERLAY, corners, 0.0, False, width=2.5))
    return found


def arrow(force: Force, view: View, scale: float, size: float) -> list[Outline]:
    """Outlines of a force's arrow, its shaft and its head; empty for a very small force.

    scale  length of the arrow per force, m/N
    size   size of the picture, m
    """
    start, tip = view.project(np.stack([force.point, force.point + scale * force.newton]))
    along = (tip - start)[:2]
    length = float(np.linalg.norm(along))
    if length < LEAST_ARROW * size:
        return []
    along = along / length
    head = min(0.03 * size, 0.6 * length)
    neck, aside = tip[:2] - head * along, 0.35 * head * np.array([-along[1], along[0]])
    shaft = Outline(-1, force.color, np.stack([start[:2], neck]), 0.0, False, width=3.0)
    return [shaft, Outline(-1, force.color, np.stack([neck + aside, tip[:2], neck - aside]), 0.0, True)]


def zigzag(ends: Floats, width: float) -> Floats:
    """Corners (k, 2) of the zigzag line of a spring, m. The line is straight at both ends.

    ends   (2, 2), the two ends of the spring, m
    width  width of the coils, m
    """
    start, end = ends
    along = end - start
    length = float(np.linalg.norm(along))
    if length <= 0.0:
        return ends
    aside = np.array([-along[1], along[0]]) / length * min(width, SLIMMEST * length)
    places = np.linspace(0.15, 0.85, 2 * COILS + 1)
    swings = np.array([0.0, *[1.0 if k % 2 else -1.0 for k in range(1, 2 * COILS)], 0.0])
    coils = start + places[:, None] * along + swings[:, None] * aside
    return np.concatenate([start[None], coils, end[None]])


def around(bodies: Floats, beside: Floats) -> Floats:
    """The points of `beside` (k, 3) that a picture of the bodies must contain.

    These are all points of `beside` or, if the points of `beside` extend much farther than the points of `bodies`, only
    the points near the bodies.
    """
    if len(beside) == 0 or len(bodies) == 0:
        return np.zeros((0, 3))
    low, high = bodies.min(axis=0), bodies.max(axis=0)
    _, height, size = sorted((high - low).tolist())
    journey = size > JOURNEY * height
    if float(np.ptp(np.concatenate([bodies, beside]), axis=0).max()) <= (WHOLE_JOURNEY if journey else WHOLE) * size:
        return beside
    margin = BESIDE_JOURNEY * height if journey else BESIDE * size
    return beside[((beside >= low - margin) & (beside <= high + margin)).all(axis=1)]


def force_colors(description: Description) -> dict[str, str]:
    """{name of a force: its colour}.

    The colour is red if all forces act on the same body. Otherwise, it is a darker shade of the colour of the body on
    which the force acts.
    """
    if len({force.body for force in description.forces}) < 2:
        return {force.name: palette.FORCE for force in description.forces}
    bodies = {body.name: (index, body) for index, body in enumerate(description.bodies)}
    found = {}
    for force in description.forces:
        index, body = bodies.get(force.body, (0, None))
        wanted = next((shape.color for shape in body.shapes if shape.color), "") if body is not None else ""
        found[force.name] = palette.darker(palette.solid_color(index, wanted), FORCE_DARKER)
    return found


def force_named(name: str) -> str:
    """Name of a force in a legend: "force on NAME", or NAME alone if it ends in "force"."""
    return words(name) if name.endswith("force") else f"force on {words(name)}"


def words(name: str) -> str:
    """A name with spaces in place of underscores."""
    return name.replace("_", " ")


def _in_gray(shape: Shape) -> Shape:
    return msgspec.structs.replace(shape, color=palette.STILL)
