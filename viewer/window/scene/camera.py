"""Camera of the 3-D scene: its axes, presets, and the results of turning, moving and zooming it."""

from __future__ import annotations

import math

import msgspec
import numpy as np

from viewer.data.series import Floats
from viewer.layout import Camera
from viewer.scene.projection import View

DEG_PER_PIXEL = 0.4
PRESETS = {  # azimuth and elevation, deg
    "front": (-90.0, 0.0),
    "side": (0.0, 0.0),
    "top": (-90.0, 90.0),
    "isometric": (-45.0, math.degrees(math.asin(1.0 / math.sqrt(3.0)))),
}
SMALLEST_M, LARGEST_M = 1e-6, 1e6  # of the picture's height


def basis(gravity: Floats) -> Floats:
    """The directions ahead, left and up of the scene, as the rows of a (3, 3) matrix in world axes.

    Up is opposite to gravity; without gravity, up is the z axis.
    """
    length = float(np.linalg.norm(gravity))
    up = -gravity / length if length > 0.0 else np.array([0.0, 0.0, 1.0])
    ahead = np.eye(3)[int(np.argmin(np.abs(up)))]
    ahead = ahead - (ahead @ up) * up
    ahead /= np.linalg.norm(ahead)
    return np.stack([ahead, np.cross(up, ahead), up])


def view_of(camera: Camera, gravity: Floats) -> View:
    """The view of a camera.

    The view is planar if the camera looks along a coordinate axis and the other two coordinate axes point right and up
    in the picture.
    """
    ahead, left, up = basis(gravity)
    azimuth, elevation = math.radians(camera.azimuth_deg), math.radians(camera.elevation_deg)
    outward = math.cos(azimuth) * ahead + math.sin(azimuth) * left
    eye = math.cos(elevation) * outward + math.sin(elevation) * up
    right = np.cross(up, outward)
    axes = np.stack([right, np.cross(eye, right), eye])
    nearest = np.round(axes)
    if np.abs(axes - nearest).max() < 1e-9:
        axes = nearest
        if axes[0].sum() > 0.0 and axes[1].sum() > 0.0:
            return View("".join("xyz"[int(np.argmax(row))] for row in axes[:2]), axes)
    return View("space", axes)


def camera_of(view: View, gravity: Floats, target: Floats, height: float) -> Camera:
    """Camera that looks in the direction of a view. The vertical is always upright in its picture, even if the view is
    rolled."""
    ahead, left, up = basis(gravity)
    right, _, eye = view.axes
    elevation = math.degrees(math.asin(max(-1.0, min(1.0, float(eye @ up)))))
    outward = np.cross(right, up) if abs(elevation) > 89.0 else eye - (eye @ up) * up
    azimuth = math.degrees(math.atan2(float(outward @ left), float(outward @ ahead)))
    return Camera(azimuth, elevation, _three(target), height)


def orbited(camera: Camera, dx: float, dy: float) -> Camera:
    """The camera after a drag that turns it about its target.

    dx, dy  drag to the right and down, pixels
    """
    azimuth = (camera.azimuth_deg - DEG_PER_PIXEL * dx + 180.0) % 360.0 - 180.0
    elevation = max(-90.0, min(90.0, camera.elevation_deg + DEG_PER_PIXEL * dy))
    return msgspec.structs.replace(camera, azimuth_deg=azimuth, elevation_deg=elevation)


def panned(camera: Camera, view: View, dx: float, dy: float) -> Camera:
    """The camera after a drag that moves the scene with the pointer.

    dx, dy  drag to the right and up in the picture, m
    """
    target = np.asarray(camera.target) - dx * view.axes[0] - dy * view.axes[1]
    return msgspec.structs.replace(camera, target=_three(target))


def zoomed(camera: Camera, view: View, factor: float, x: float, y: float) -> Camera:
    """The camera after zooming at a point of the picture, which stays in place.

    factor  new height of the picture as a multiple of the present height
    x, y    position of the point from the middle of the picture, m
    """
    height = max(SMALLEST_M, min(LARGEST_M, camera.height * factor))
    kept = 1.0 - height / camera.height
    target = np.asarray(camera.target) + kept * (x * view.axes[0] + y * view.axes[1])
    return msgspec.structs.replace(camera, target=_three(target), height=height)


def turned(camera: Camera, preset: str) -> Camera:
    """The camera turned to the direction of a preset, one of PRESETS."""
    azimuth, elevation = PRESETS[preset]
    return msgspec.structs.replace(camera, azimuth_deg=azimuth, elevation_deg=elevation)


def _three(point: Floats) -> tuple[float, float, float]:
    x, y, z = (float(part) for part in point)
    return x, y, z
