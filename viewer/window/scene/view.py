"""The 3-D scene with its mouse gestures: orbit, pan, zoom, presets, fit, and a camera that follows a body."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
from pyqtgraph.Qt import QtCore

from viewer.data.pushes import Push
from viewer.data.series import Floats, row_at
from viewer.data.signals import Signals
from viewer.layout import Camera
from viewer.qt.picture import EDGE, FAST_EDGE, BodyPicture
from viewer.scene.projection import View
from viewer.scene.scene import TRACE_PIECES as STILL_TRACE_PIECES
from viewer.window.mouse import GestureBox
from viewer.window.scene.camera import camera_of, orbited, panned, turned, view_of, zoomed

TRACE_PIECES = 6
GRAB_PIXELS = 10.0  # distance at which a line, or a small ball, counts as hit
QUARTER = 0.25  # share of the picture's height across which a drag has the force `strength`
WHEEL_STEP, DRAG_STEP = 1.0015, 1.01  # zoom per unit of wheel angle, and per pixel


class SceneView(BodyPicture):
    """Picture of the bodies with a camera that the mouse moves.

    select_camera  function that is called with the camera that the user selected (None for the automatic camera) and
                   the name of the change
    ended          function that is called at the end of a drag
    pushed         function that is called with (name of the body, force, point) when the user pushed a body with a
                   drag; None if bodies cannot be pushed
    redraw         function that is called when the arrow of a push changed
    dragged_push   function that is called during the drag of a push with (name of the body, force in N)
    missed         function that is called at the end of a drag that should push a body but did not start on one
    strength       force, N, of a push whose drag spans a quarter of the picture's height
    """

    def __init__(
        self, plane: str, select_camera: Callable[[Camera | None, str], None], ended: Callable[[], None]
    ) -> None:
        self.pushed: Callable[[str, Floats, Floats], None] | None = None
        self.redraw: Callable[[], None] = _nothing
        self.missed: Callable[[], None] = _nothing
        self.dragged_push: Callable[[str, float], None] = lambda _body, _newton: None
        self.strength = 1.0
        self._grabbed: tuple[str, Floats] | None = None
        self.box = GestureBox("scene")
        super().__init__(plane, self.box)
        self.camera: Camera | None = None
        self._scene.trace_pieces = TRACE_PIECES
        self._bodies.edge = FAST_EDGE
        self._select_camera, self._ended = select_camera, ended
        self._cloud: Floats | None = None
        self._target = np.zeros(3)
        self._origins: dict[str, Floats] = {}
        self._names: list[str] = []
        self.box.dragged.connect(self._on_drag)
        self.box.wheeled.connect(self._on_wheel)
        self.box.released.connect(self._on_release)
        self.box.doubled.connect(lambda: select_camera(None, "fit of the scene"))
        self.box.sigResized.connect(lambda _: self._place())

    def set_smooth(self) -> None:
        """Draw from now on with antialiasing and more pieces of paths, as for a still picture. This takes longer."""
        self._bodies.edge = EDGE
        self._scene.trace_pieces = STILL_TRACE_PIECES

    def set_live(self) -> None:
        """Make `survey` examine only poses since its previous call, because examining all poses would take longer than
        a frame.
        """
        self._scene.latest_only = True

    @property
    def _gravity(self) -> Floats:
        skeleton = self._scene.skeleton
        return np.array([0.0, 0.0, -9.81]) if skeleton is None else skeleton.gravity

    @property
    def _view(self) -> View:
        return self._scene.view or view_of(Camera(-52.0, 22.0, (0.0, 0.0, 0.0), 1.0), self._gravity)

    def survey(self, signals: Signals) -> None:
        """Examine all poses so far, up to the start of a divergence.

        The automatic camera is fitted to the motion. A camera that the user has selected does not change.
        """
        cloud = self._scene.survey(signals)
        if cloud is not None:
            self._cloud = cloud
        self._draw_ground()

    def set_camera(self, camera: Camera | None, signals: Signals) -> None:
        """Use another camera; None selects the automatic one."""
        if camera == self.camera:
            return
        was_manual, self.camera = self.camera is not None, camera
        self._scene.camera = None if camera is None else view_of(camera, self._gravity)
        if camera is None:
            if was_manual:
                self.survey(signals)
            return
        self._scene.view = self._scene.camera
        self._draw_ground()
        self._place()

    def show(self, signals: Signals, time: float, since: float, ghosts: bool) -> None:
        """Draw the pose at `time`, s, and the paths of the tips since the time `since`, s.

        A camera that follows a body is moved first.

        ghosts  whether to add faint poses of the bodies between the times `since` and `time`
        """
        self._note_origins(signals, time)
        if self.camera is not None and self.camera.follow:
            self._place()
        super().show(signals, time, since, ghosts)

    def present_camera(self) -> Camera:
        """The camera of the present view; for an automatic view, a camera that gives the same picture."""
        if self.camera is not None:
            return self.camera
        view, rect = self._view, self.box.viewRect()
        middle = rect.center()
        depth = 0.0 if self._cloud is None else float(np.median(view.project(self._cloud)[:, 2]))
        target = np.array([middle.x(), middle.y(), depth]) @ view.axes
        return camera_of(view, self._gravity, target, float(rect.height()) or 1.0)

    def look(self, preset: str) -> None:
        """View the whole robot from the direction of a preset, one of PRESETS."""
        camera = turned(msgspec.structs.replace(self.present_camera(), follow=""), preset)
        self._select_camera(self.fitted(camera), f"{preset} view")

    def fitted(self, camera: Camera) -> Camera:
        """The camera with the same direction, moved so that the picture contains the whole motion."""
        if self._cloud is None:
            return camera
        view = view_of(camera, self._gravity)
        flat = view.project(self._cloud)
        low, high = flat.min(axis=0), flat.max(axis=0)
        width, height = (high - low)[:2].tolist()
        aspect = self.box.width() / max(self.box.height(), 1.0)
        needed = 1.12 * max(height, width / max(aspect, 1e-3), 1e-6)
        x, y, z = ((0.5 * (low + high)) @ view.axes).tolist()
        return Camera(camera.azimuth_deg, camera.elevation_deg, (x, y, z), needed)

    def follow_next(self) -> None:
        """Let the camera follow the next body, in the order of the description."""
        names = list(self._origins)
        if not names:
            return
        camera = self.present_camera()
        place = (names.index(camera.follow) + 1) % len(names) if camera.follow in names else 0
        camera = msgspec.structs.replace(camera, follow=names[place], target=(0.0, 0.0, 0.0))
        self._select_camera(camera, f"camera on {names[place]}")

    def unfollow(self) -> None:
        """Let the camera follow no body, and stay where it is."""
        if self.camera is not None and self.camera.follow:
            x, y, z = self._aim().tolist()
            self._select_camera(msgspec.structs.replace(self.camera, follow="", target=(x, y, z)), "camera on no body")

    def _on_drag(self, name: str, start: Any, now: Any, step: Any) -> None:
        camera = self.present_camera()
        if name == "push":
            self._draw_push(start, now)
        elif name == "orbit":
            self._select_camera(orbited(camera, step.x(), step.y()), "turn of the camera")
        elif name == "pan":
            pixel_x, pixel_y = self.box.viewPixelSize()
            moved = panned(camera, self._view, step.x() * pixel_x, -step.y() * pixel_y)
            self._select_camera(moved, "move of the camera")
        elif name == "zoom":
            self._select_camera(zoomed(camera, self._view, DRAG_STEP ** step.y(), 0.0, 0.0), "zoom of the camera")

    def _draw_push(self, start: Any, now: Any) -> None:
        """Draw the arrow of a push from the grabbed point to the pointer."""
        if self.pushed is None or not self._names:
            return
        if self._grabbed is None:
            found = self._scene.grab(start.x(), start.y(), GRAB_PIXELS * self.box.viewPixelSize()[1])
            if found is None:
                return
            self._grabbed = self._names[found[0]], found[1]
        body, p_BP = self._grabbed
        length = QUARTER * float(self.box.viewRect().height())
        drag = (now.x() - start.x()) * self._view.axes[0] + (now.y() - start.y()) * self._view.axes[1]
        newton = self.strength * drag / length
        self._scene.preview = Push(0.0, 0.0, body, newton, p_BP), length / self.strength
        self.dragged_push(body, float(np.linalg.norm(newton)))
        self.redraw()

    def _on_release(self, name: str) -> None:
        """At the end of the drag of a push, request the push."""
        if name != "push":
            self._ended()
            return
        preview, self._grabbed, self._scene.preview = self._scene.preview, None, None
        if self.pushed is None or not self._names:
            return
        if preview is None:
            self.missed()
            return
        self.redraw()
        push = preview[0]
        if push.newton.any():
            self.pushed(push.body, push.newton, push.point)

    def _on_wheel(self, angle: float, at: Any, _is_ctrl: bool) -> None:
        middle = self.box.viewRect().center()
        factor = WHEEL_STEP**-angle
        camera = zoomed(self.present_camera(), self._view, factor, at.x() - middle.x(), at.y() - middle.y())
        self._select_camera(camera, "zoom of the camera")

    def _draw_ground(self) -> None:
        if self._cloud is None or self._scene.view is None:
            return
        fit = self.camera is None
        self.caption = self._surroundings.draw(
            self._scene.view, self._gravity, self._cloud, self._scene.is_covered(self._cloud), fit
        )

    def _note_origins(self, signals: Signals, time: float) -> None:
        poses, description = signals.poses, signals.description
        place = None if poses is None else row_at(poses.times, time)
        if poses is None or description is None or place is None:
            return
        p = poses.values[place][: 3 * len(description.bodies)].reshape(-1, 3)
        named = zip(description.bodies, p, strict=False)
        self._names = [body.name for body in description.bodies]
        self._origins = {body.name: origin for body, origin in named if body.shapes}

    def _aim(self) -> Floats:
        camera = self.camera
        if camera is None:
            return np.zeros(3)
        return np.asarray(camera.target) + self._origins.get(camera.follow, np.zeros(3))

    def _place(self) -> None:
        """Set the limits of the plot so that the picture shows what the camera sees."""
        camera = self.camera
        if camera is None or self._scene.camera is None:
            return
        x, y = self._scene.camera.project(self._aim())[:2].tolist()
        width = camera.height * self.box.width() / max(self.box.height(), 1.0)
        rect = QtCore.QRectF(x - 0.5 * width, y - 0.5 * camera.height, width, camera.height)
        self.plot.setRange(rect, padding=0.0)


def _nothing() -> None:
    """Placeholder for `redraw` before the view has a window."""
