"""Scene of a robot in the drawing plane, for any renderer: view, poses, paths of the tips, forces, lines and legend."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from nodes.framework.messages import Description
from viewer import palette
from viewer.data.pushes import Push
from viewer.data.series import Drawn, Floats, Series, row_at
from viewer.data.signals import Signals
from viewer.data.store import FORCE
from viewer.scene.bodies import Outline, Skeleton, evenly_along
from viewer.scene.grippers import GripperMarks, marks
from viewer.scene.overlay import LONGEST_ARROW, STANDS, Force, SceneOverlay, around, arrow, ends, lines, words
from viewer.scene.projection import PoseBounds, View, choose_view
from viewer.scene.pushes import acting, force_of, outline_at

GHOSTS = 9
LINE_GHOSTS = 4  # earlier poses that show the polylines too
OLDEST, LATEST = 0.14, 0.32  # opacity of the first and the last earlier pose
FAINT_LINES = 0.5  # opacity of polylines at an earlier pose, relative to its bodies'
MEASURED_OPACITY = 0.3
STALE_S = 0.5  # s: poses of the measured robot that are older are not drawn
STACKED = 0.5  # a ghost's ball closer than this many radii to one drawn already is left out
SURVEYED = 400  # poses used to choose the view and its limits
SURVEYED_LINES = 60
FEW, KEPT_SURVEYS = 8, 60  # poses of a survey that looks at the latest only, and such surveys that are kept
BODY = "●"  # mark of a body in a legend
MOST_NAMED = 12  # most bodies that a legend names; a larger number is only counted
WIDE = 1.8  # ratio of width to height above which the picture spans the whole width
SHARES = (0.38, 0.54)  # least and largest share of the window that the picture takes
TRACE_POINTS = 3000
TRACE_PIECES = 24  # pieces of a tip's path, each with its own opacity
GHOST_LINE = 2.5  # width in pixels of polylines at an earlier pose
TRIAD_AT = np.array([0.2, -0.5])  # position of the axes' origin, in floor squares from the bodies' lower left corner
MARGIN = 0.04  # margin around the picture, as a fraction of the larger of width and height

Layer = tuple[list[Outline], float]
Key = tuple[str, str, str]


@dataclass(frozen=True)
class Label:
    """Text beyond the tip of an arrow.

    start, tip  start and tip of the arrow (2,) in the drawing plane, m
    """

    text: str
    color: str
    start: Floats
    tip: Floats


@dataclass(frozen=True)
class Frame:
    """One instant in the drawing plane; the attributes are listed in the order of drawing.

    behind  outlines behind the bodies, in layers with one opacity each
    paths   (points (n, 2), colour, opacity) of each path of tips
    bodies  outlines of the bodies, in layers; the last layer is the current pose
    over    outlines over the bodies, in layers
    labels  names and magnitudes of forces
    """

    behind: list[Layer]
    paths: list[tuple[Floats, str, float]]
    bodies: list[Layer]
    over: list[Layer]
    labels: list[Label]


@dataclass(frozen=True)
class Floor:
    """Floor grid and world axes below the bodies of an oblique view, in the drawing plane.

    grid   grid segments (k, 2, 2)
    triad  (3, 3, 2): for each world axis its start, its end and the position of its letter
    step   side of a grid square, m
    """

    grid: Floats
    triad: Floats
    step: float


class Scene:
    """Scene of one recording or live feed.

    plane           requested viewing plane: auto, xy, xz, yz or space
    view            view that `survey` chose; None before the first survey
    trace_pieces    number of pieces into which the path of a tip is divided; older pieces are drawn fainter
    shows_measured  whether the robot in its measured pose is drawn over the model
    preview         (push, scale of its arrow in m/N) while the user draws the push with the mouse, otherwise None
    latest_only     whether `survey` examines only a few of the poses since the previous call, and combines the result
                    with the results of previous calls
    camera          view that the user selected; None to use the view that `survey` chooses
    wide            whether the motion is much wider than high, so that the picture should span the width of the window
    share           fraction of the window that the picture should fill: of the height if `wide`, otherwise of the width
    size            size of the picture, m
    """

    def __init__(self, plane: str = "auto") -> None:
        self.view: View | None = None
        self._automatic: View | None = None  # the view without a camera
        self.camera: View | None = None
        self.skeleton: Skeleton | None = None
        self.wide = False
        self.share = SHARES[0]
        self.size = 1.0
        self.trace_pieces = TRACE_PIECES
        self.latest_only = False
        self.shows_measured = True
        self.preview: tuple[Push, float] | None = None
        self._bodies: list[Outline] = []
        self._placed = np.zeros((0, 3)), np.zeros((0, 3, 3))
        self._surveyed_to = -math.inf
        self._extremes: deque[Floats] = deque(maxlen=KEPT_SURVEYS)
        self._plane = plane
        self._bounds: PoseBounds | None = None
        self.stage = SceneOverlay(Description())
        self.gripper_marks = GripperMarks(Description())
        self.outputs: set[str] = set()  # that the forces and the grippers need
        self._largest_force = 0.0
        self._tips = TipPaths()

    def survey(self, signals: Signals) -> Floats | None:
        """Choose the view and the size of the picture for all poses so far, up to the start of a divergence.

        Returns the points (k, 3) that the picture must contain; None if there is nothing to draw.
        """
        if signals.description is None or signals.poses is None:
            return None
        skeleton, poses = self.set_description(signals.description), signals.poses
        rows, most = poses.values[poses.times <= signals.sane_until], SURVEYED
        if self.latest_only:
            first = int(np.searchsorted(poses.times, self._surveyed_to)) if self._extremes else 0
            rows, most = rows[min(first, max(0, len(rows) - 1)) :], FEW
            self._surveyed_to = float(poses.times[-1]) if len(poses.times) else -math.inf
        picked = rows[np.unique(np.linspace(0, len(rows) - 1, most).astype(int))] if len(rows) else rows
        spots = skeleton.spots(picked[np.isfinite(picked).all(axis=1)])
        if spots.size == 0 or self._bounds is None:
            return None
        self._bounds.add(spots)
        plane = self._bounds.plane(skeleton.gravity) if self._plane == "auto" else self._plane
        if self._automatic is None or self._automatic.name != plane:  # it keeps its side while the robot turns
            self._automatic = choose_view(plane, skeleton.gravity, skeleton.front(picked))
        self.view = self.camera or self._automatic
        cloud = skeleton.reach(spots)
        if self.latest_only:
            self._extremes.append(extremes(cloud))
            cloud = np.concatenate(list(self._extremes))
        drawn = signals.lines.cloud(signals.sane_until, SURVEYED_LINES)
        beside = around(cloud, np.concatenate([drawn, self.stage.ground_spots()]))
        planned = signals.overlay.at(signals.sane_until)
        self._largest_force = 0.0
        led = np.concatenate([np.zeros((0, 3)), *(planned.lines if planned is not None else ())])
        cloud = np.concatenate([cloud, beside, around(cloud, led)])
        for name in signals.labels(FORCE):
            if (force := signals.column(FORCE, name)) is not None:
                sane = force[1][(force[0] <= signals.sane_until) & np.isfinite(force[1])]
                self._largest_force = max(self._largest_force, float(sane.max(initial=0.0)))
        width, height = np.ptp(self.view.project(cloud)[:, :2], axis=0).tolist()
        self.size = max(min(max(width, height), 2.0 * min(width, height)), 1e-9)
        self.wide = self.wide or bool(width > WIDE * height)
        aspect = width / max(height, 1e-9)
        self.share = min(max(1.8 / aspect if self.wide else 0.5 * aspect, SHARES[0]), SHARES[1])
        return cloud

    def is_covered(self, cloud: Floats) -> bool:
        """Whether the ground shapes reach as far as the points `cloud` (k, 3), m, in both horizontal directions."""
        spots = self.stage.ground_spots()
        if self.skeleton is None or not len(spots):
            return False
        level = np.arange(3) != vertical_axis(self.skeleton.gravity)
        reach = (spots.min(axis=0) <= cloud.min(axis=0) + 1e-9) & (spots.max(axis=0) >= cloud.max(axis=0) - 1e-9)
        return bool(reach[level].all())

    def set_description(self, description: Description) -> Skeleton:
        """Skeleton of the described robot. The description of another robot resets the scene."""
        if self.skeleton is None or not self.skeleton.is_of(description):
            self.skeleton = Skeleton(description)
            self.stage, self.gripper_marks = SceneOverlay(description), GripperMarks(description)
            self.outputs = {name for force in description.forces for name in force.outputs}
            self.outputs |= {name for hold in description.holds for name in hold.outputs}
            self._bounds = self.skeleton.bounds()
            self.view, self._automatic, self.wide = None, None, False
            self._extremes.clear()
        return self.skeleton

    def frame(self, signals: Signals, time: float, since: float, ghosts: bool) -> Frame | None:
        """The scene at `time`, s: pose of the bodies, paths of the tips since `since`, grippers and forces.

        ghosts  whether to add faint poses of the bodies between the times `since` and `time`
        """
        skeleton, view, poses = self.skeleton, self.view, signals.poses
        present = None if poses is None else row_at(poses.times, time)
        if skeleton is None or view is None or poses is None or present is None:
            return None
        first = min(row_at(poses.times, since) or 0, present)
        rows, times = poses.values[first : present + 1], poses.times[first : present + 1]
        stride = max(1, len(rows) // TRACE_POINTS)
        paths = view.project(self._tips.at(skeleton, poses, times[::stride], rows[::stride]))[..., :2]
        layers: list[Layer] = []
        behind: list[Layer] = [(self.stage.ground(view), 1.0)]
        if ghosts:
            chosen = evenly_along(paths.reshape(len(paths), -1), GHOSTS + 1)[:-1]
            lined = set(np.linspace(0, len(chosen) - 1, LINE_GHOSTS).round().astype(int).tolist())
            for place, mark in enumerate(chosen):
                opacity = OLDEST + (LATEST - OLDEST) * place / max(1, len(chosen) - 1)
                layers.append(
                    (_unstacked(list(skeleton.outlines(rows[mark * stride], view, hulls=True)), layers), opacity)
                )
                if place in lined:
                    past = lines(signals.lines.at(float(times[mark * stride])), view)
                    behind.append(([line._replace(width=GHOST_LINE) for line in past], FAINT_LINES * opacity))
        behind.append((lines(signals.lines.at(time, first=True), view), 1.0))
        planned = signals.overlay.at(time)
        behind.append((lines(planned, view, overlay=True), 1.0))
        p_WB, R_WB = self._placed = skeleton.place(rows[-1])
        bodies = self._bodies = list(skeleton.outlines(rows[-1], view))
        over = ends(planned, view, self.size)
        labels: list[Label] = []
        if len(p_WB):
            bodies = bodies + self.stage.springs(p_WB, R_WB, view, self.size)
            bodies.sort(key=lambda outline: round(outline.depth, 6))  # a stable sort: equal depths keep their order
            outputs = signals.outputs_at(time, self.outputs)
            over = [*self._grippers(p_WB, R_WB, outputs, view), *over]
            for force, scale, text in self.forces(signals, time, p_WB, R_WB, outputs):
                if parts := arrow(force, view, scale, self.size):
                    over += parts
                    labels.append(Label(text, force.color, parts[0].corners[0], parts[-1].corners[1]))
        layers.append((bodies, 1.0))
        measured = self._measured(signals, time, view)
        in_front: list[Layer] = [(measured, MEASURED_OPACITY)] if measured else []
        middles = [(start + end) / 2.0 for start, end in signals.holes]
        breaks = np.unique(np.searchsorted(times[::stride], middles)).tolist()
        return Frame(behind, self._fading(paths, breaks), layers, [*in_front, (over, 1.0)], labels)

    def forces(
        self, signals: Signals, time: float, p_WB: Floats, R_WB: Floats, outputs: dict[str, float]
    ) -> Iterator[tuple[Force, float, str]]:
        """Yield (force, scale of its arrow in m/N, text at its tip) of forces, then of pushes and of a drawn push."""

        def scale(largest: float) -> float:
            return LONGEST_ARROW * self.size / largest if largest > 0.0 else 0.0

        for force in self.stage.forces(p_WB, R_WB, outputs):
            newton = float(np.linalg.norm(force.newton))
            yield force, scale(self._largest_force), f"{words(force.name)} {newton:.0f} N"
        of_pushes = scale(max((float(np.linalg.norm(push.newton)) for push in signals.pushes), default=0.0))
        shown = [(push, of_pushes) for push in acting(signals.pushes, time)]
        shown += [self.preview] if self.preview is not None else []
        names = [] if signals.description is None else [body.name for body in signals.description.bodies]
        for push, each in shown:
            if (pushing := force_of(push, names, p_WB, R_WB)) is not None:
                yield pushing, each, f"{float(np.linalg.norm(pushing.newton)):.3g} N"

    def grab(self, x: float, y: float, near: float) -> tuple[int, Floats] | None:
        """(index of the foremost body at the point (x, y), m, of the drawing plane, this point in the body's frame, m).

        Returns None if no body is at this point.

        near  distance (m) within which a body that does not cover the point is accepted
        """
        outline = outline_at(self._bodies, x, y, near)
        if outline is None or self.view is None or outline.body >= len(self._placed[0]):
            return None
        p_WP = np.array([x, y, outline.depth]) @ self.view.axes
        p_WB, R_WB = self._placed
        return outline.body, (p_WP - p_WB[outline.body]) @ R_WB[outline.body]

    def _measured(self, signals: Signals, time: float, view: View) -> list[Outline]:
        """Outlines of the robot in its measured pose at `time`, s, in one colour; empty without a measurement."""
        poses = signals.measured
        place = None if poses is None or not self.shows_measured else row_at(poses.times, time)
        if poses is None or place is None or self.skeleton is None:
            return []
        if poses.values.shape[1] != 7 * self.skeleton.bodies or not abs(time - poses.times[place]) <= STALE_S:
            return []
        outlines = self.skeleton.outlines(poses.values[place], view)
        return [outline._replace(color=palette.MEASURED) for outline in outlines]

    def _grippers(self, p_WB: Floats, R_WB: Floats, outputs: dict[str, float], view: View) -> list[Outline]:
        """Outlines of marks that show the states of the grippers, drawn over the grippers' balls."""
        found: list[Outline] = []
        if self.skeleton is not None:
            for hold in self.gripper_marks.at(p_WB, R_WB, outputs):
                color, radius = self.skeleton.colors[hold.body], self.skeleton.radius(hold.body)
                found += marks(hold, view, color, radius, self.size)
        return found

    def keys(self, signals: Signals, is_inside: Callable[[Floats], bool]) -> list[Key]:
        """Legend entries (mark, name, colour) of bodies, lines, springs, forces and grippers.

        is_inside  function that tells whether any of the points (k, 2) in the drawing plane lies within the picture
        """
        if signals.description is None:
            return []
        self.set_description(signals.description)
        found = [(BODY, name, color) for name, color in body_names(signals.description)]
        for drawn, mark, color in (
            (signals.lines.last, "━", palette.LINE),
            (signals.overlay.last, "╍", palette.OVERLAY),
        ):
            found += [(mark, name.replace("_", " "), color) for name in _names(drawn)]
        found += [
            ("✕", f"end of the {name.replace('_', ' ')}", palette.OVERLAY) for name in _names(signals.overlay.last)
        ]
        if self.shows_measured and signals.measured is not None:
            found.append(("◐", "measured robot", palette.MEASURED))
        beside = [key for key in self.stage.keys if key[1] != STANDS or self._shows_ground(is_inside)]
        return found + beside + self.gripper_marks.keys

    def _shows_ground(self, is_inside: Callable[[Floats], bool]) -> bool:
        """Whether any ground shape lies within the picture; the ends of a long cable usually do not."""
        spots = self.stage.ground_spots()
        return self.view is not None and len(spots) > 0 and is_inside(self.view.project(spots)[:, :2])

    def _fading(self, paths: Floats, breaks: Sequence[int]) -> list[tuple[Floats, str, float]]:
        """(points (k, 2), colour, opacity) of the pieces of the tips' paths, with lower opacity for older pieces.

        An array of points has all pieces of the same colour and age, separated by NaN. Paths that are short compared
        with the longest path are left out.

        paths   positions of the tips in the drawing plane (n, bodies, 2), m
        breaks  indices of positions that are not joined to the position before, because messages between them are
                missing
        """
        if len(paths) < 2 or self.skeleton is None:
            return []
        span = np.where(self.skeleton.visible, np.nan_to_num(np.ptp(paths, axis=0)).max(axis=1), 0.0)
        paths = np.insert(paths, breaks, np.nan, axis=0)
        edges = np.linspace(0, len(paths) - 1, self.trace_pieces + 1).astype(int).tolist()
        colored: dict[str, list[int]] = {}
        for body in np.flatnonzero(span > 0.05 * max(float(span.max()), 1e-9)).tolist():
            colored.setdefault(palette.solid_color(body, self.skeleton.colors[body]), []).append(body)
        pieces = []
        for place, (start, end) in enumerate(pairwise(edges)):
            opacity = 0.25 + 0.45 * (place / (self.trace_pieces - 1)) ** 1.5
            for color, bodies in colored.items() if end > start else ():
                lines = np.full((len(bodies), end - start + 2, 2), np.nan)
                lines[:, :-1] = paths[start : end + 1, bodies].swapaxes(0, 1)
                pieces.append((lines.reshape(-1, 2)[:-1], color, opacity))
        return pieces


class TipPaths:
    """Positions of the tips of all bodies, the points whose paths are drawn, at the poses of the last drawn frame.

    For the next frame, only the positions at new poses are computed: positions at a time of the last frame are used
    again if the frame is of the same series.
    """

    def __init__(self) -> None:
        self._of: tuple[Skeleton, Series] | None = None
        self._times = np.zeros(0)
        self._tips = np.zeros((0, 0, 3))

    def at(self, skeleton: Skeleton, poses: Series, times: Floats, rows: Floats) -> Floats:
        """Positions of the tips (n, n_bodies, 3), m.

        poses  series that contains the rows
        times  times at which the positions are wanted (n,), s
        rows   poses at these times (n, 7 n_bodies): position and quaternion of each body
        """
        kept = self._tips[:0]
        if self._of is not None and self._of[0] is skeleton and self._of[1] is poses and len(times):
            first = int(np.searchsorted(self._times, times[0]))
            common = min(len(self._times) - first, len(times))
            if np.array_equal(self._times[first : first + common], times[:common]):
                kept = self._tips[first : first + common]
        if len(kept) == 0:
            self._tips = skeleton.tips(rows)
        else:
            self._tips = np.concatenate([kept, skeleton.tips(rows[len(kept) :])])
        self._of, self._times = (skeleton, poses), times.copy()
        return self._tips


def _unstacked(outlines: list[Outline], layers: Sequence[Layer]) -> list[Outline]:
    """The outlines of an earlier pose, changed so that their balls are drawn hollow and do not pile up.

    A ball is left out if it overlaps a ball of the same body that is already drawn in one of the `layers`.
    """
    drawn = [outline for earlier, _ in layers for outline in earlier if outline.radius > 0.0]
    found = []
    for outline in outlines:
        if outline.radius > 0.0:
            near = STACKED * outline.radius
            if any(o.body == outline.body and np.linalg.norm(o.corners - outline.corners) < near for o in drawn):
                continue
            outline = outline._replace(hollow=True)
        found.append(outline)
    return found


def shortened(keys: Sequence[Key]) -> list[Key]:
    """Legend entries to draw: one with the number of bodies in place of more than MOST_NAMED bodies."""
    bodies = [key for key in keys if key[0] == BODY]
    if len(bodies) <= MOST_NAMED:
        return list(keys)
    return [(BODY, f"{len(bodies)} bodies", palette.MUTED), *(key for key in keys if key[0] != BODY)]


def body_names(description: Description) -> Sequence[tuple[str, str]]:
    """(name, colour) of each body that has a shape, for a legend."""
    colors = Skeleton(description).colors
    return [
        (body.name, palette.solid_color(index, colors[index]))
        for index, body in enumerate(description.bodies)
        if body.shapes
    ]


def _names(drawn: Drawn | None) -> Sequence[str]:
    return drawn.names if drawn is not None else ()


def vertical_axis(gravity: Floats) -> int:
    """Index 0, 1 or 2 of the axis x, y or z that is closest to the direction of gravity; 2 without gravity."""
    return int(np.argmax(np.abs(gravity))) if np.any(gravity) else 2


def floor(view: View, gravity: Floats, cloud: Floats, is_covered: bool) -> Floor:
    """Floor grid below the points `cloud` (k, 3), m, and the world axes, drawn at the lower left of the points.

    is_covered  whether a ground shape lies below all points: then there is no grid
    """
    vertical = vertical_axis(gravity)
    below = float(np.sign(gravity[vertical]) or -1.0)
    size = float(np.ptp(cloud, axis=0).max())
    step = nice_step(size / 8.0)
    height = below * (float((below * cloud[:, vertical]).max()) + 0.01 * size)
    grid = view.project(floor_lines(cloud, vertical, height, step))[..., :2]
    origin = view.project(cloud)[:, :2].min(axis=0) + TRIAD_AT * step
    along = view.project(np.eye(3) * step)[:, None, :2]
    if is_covered:
        grid, step = grid[:0], 0.0
    return Floor(grid, origin + along * np.array([0.0, 1.0, 1.3])[:, None], step)


def extremes(points: Floats) -> Floats:
    """The points of a cloud (k, 3) that are farthest in at least one of 26 directions."""
    steps = (-1.0, 0.0, 1.0)
    directions = np.array([[x, y, z] for x in steps for y in steps for z in steps if (x, y, z) != (0.0, 0.0, 0.0)])
    return points[np.unique(np.argmax(directions @ points.T, axis=1))]


def limits(points: Floats) -> tuple[float, float, float, float]:
    """(left, bottom, width, height) of a picture that contains the points (k, 2) with a margin."""
    (left, bottom), (right, top) = points.min(axis=0), points.max(axis=0)
    margin = MARGIN * max(right - left, top - bottom, 1e-6)
    return left - margin, bottom - margin, right - left + 2 * margin, top - bottom + 2 * margin


def view_text(view: View, step: float) -> str:
    """Sentence that names the view; `step` is the side of a floor square, m, and 0 for a floor without squares."""
    if view.planar:
        right, up = plane_letters(view)
        return f"seen face on, in the plane {right}{up}"
    return "seen from above and aside" + (f"; one square of the ground is {step:g} m" if step > 0.0 else "")


def plane_letters(view: View) -> tuple[str, str]:
    """Names "x", "y" or "z" of the coordinates that point right and up in a planar view."""
    right, up = ("xyz"[int(np.argmax(np.abs(axis)))] for axis in view.axes[:2])
    return right, up


def floor_lines(cloud: Floats, vertical: int, height: float, step: float) -> Floats:
    """Grid lines (k, 2, 3) of a floor under `cloud` at coordinate `height` along the axis `vertical`."""
    a, b = (axis for axis in range(3) if axis != vertical)
    low = {axis: math.floor(float(cloud[:, axis].min()) / step) for axis in (a, b)}
    high = {axis: math.ceil(float(cloud[:, axis].max()) / step) for axis in (a, b)}
    lines = []
    for along, across in ((a, b), (b, a)):
        for place in range(low[across], high[across] + 1):
            ends = np.zeros((2, 3))
            ends[:, vertical], ends[:, across] = height, place * step
            ends[:, along] = low[along] * step, high[along] * step
            lines.append(ends)
    return np.stack(lines)


def nice_step(length: float) -> float:
    """Largest number of the form 1, 2 or 5 times a power of ten that is at most `length`.

    Returns 1 for a length that is not positive.
    """
    if not (math.isfinite(length) and length > 0.0):
        return 1.0
    power = 10.0 ** math.floor(math.log10(length))
    return float(power * max(step for step in (1.0, 2.0, 5.0) if step * power <= length * (1.0 + 1e-9)))
