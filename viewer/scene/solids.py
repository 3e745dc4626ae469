"""Visible faces of all boxes, cylinders and meshes of a robot at one pose, computed together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from viewer.data.series import Floats
from viewer.scene.projection import hull

ROUND = 48  # corners of the polygon that replaces a circle
LIGHT = np.array([-0.36, 0.77, 0.52])  # direction to the light in view axes: from the left, above, and the eye's side
DIMMEST = 0.62
# the corners of each face of a box along its edge, (6, 4), as places in the order of a box's points
BOX_FACES = np.array([[k for k in range(8) if (k >> axis) & 1 == end] for axis in range(3) for end in (0, 1)])[
    :, [0, 1, 3, 2]
]

Faces = list[tuple[Floats, float]]  # corners (k, 2), m, and brightness of each


class Solids:
    """The boxes, cylinders and meshes among the parts of a robot, each kind with its points in one array.

    kinds   kind of each part
    starts  index of the first point of each part
    meshes  {part: (k, 3) indices of the part's points for the corners of each triangle}
    """

    def __init__(
        self, kinds: Sequence[str], starts: Sequence[int], meshes: Mapping[int, NDArray[np.intp]] | None = None
    ) -> None:
        self._boxes = [part for part, kind in enumerate(kinds) if kind == "box"]
        self._cylinders = [part for part, kind in enumerate(kinds) if kind == "cylinder"]
        first = np.asarray([starts[part] for part in self._boxes], dtype=np.intp)
        self._corners = first[:, None, None] + BOX_FACES
        first = np.asarray([starts[part] for part in self._cylinders], dtype=np.intp)
        self._rings = first[:, None, None] + np.arange(2 * ROUND).reshape(2, ROUND)
        self._meshes = list(meshes or {})
        corners = [starts[part] + faces for part, faces in (meshes or {}).items()]
        self._triangles = np.concatenate(corners) if corners else np.zeros((0, 3), dtype=np.intp)
        self._mesh_of = np.repeat(self._meshes, [len(each) for each in corners])

    def faces(self, flat: Floats, only_meshes: bool = False) -> dict[int, Faces]:
        """{part: faces turned toward the eye, from back to front}. `flat`: all points (n, 3) in view axes."""
        found: dict[int, Faces] = {}
        if self._boxes and not only_meshes:
            self._add_boxes(flat[self._corners], found)
        if self._cylinders and not only_meshes:
            self._add_cylinders(flat[self._rings], found)
        if self._meshes:
            self._add_meshes(flat[self._triangles], found)
        return found

    def _add_meshes(self, triangles: Floats, found: dict[int, Faces]) -> None:
        """Add the triangles of meshes that are turned toward the eye to `found`. `triangles`: corners (n, 3, 3)."""
        normals = np.cross(triangles[:, 1] - triangles[:, 0], triangles[:, 2] - triangles[:, 0])
        shades = brightness(normals)
        for part in self._meshes:
            found[part] = []
        seen = np.flatnonzero(normals[:, 2] > 0.0)
        for place in seen[np.argsort(triangles[seen, :, 2].mean(axis=1), kind="stable")].tolist():
            found[int(self._mesh_of[place])].append((triangles[place, :, :2], float(shades[place])))

    def _add_boxes(self, faces: Floats, found: dict[int, Faces]) -> None:
        """Add the visible faces of boxes to `found`.

        faces  corners of all faces of the boxes (boxes, 6, 4, 3)
        """
        middles = faces.mean(axis=2)
        normals = middles - middles.mean(axis=1, keepdims=True)
        shades = brightness(normals).tolist()
        for part in self._boxes:
            found[part] = []
        for box, face in np.argwhere(normals[..., 2] > 0.0).tolist():
            found[self._boxes[box]].append((faces[box, face, :, :2], shades[box][face]))

    def _add_cylinders(self, rings: Floats, found: dict[int, Faces]) -> None:
        """Add the side and the visible end of cylinders to `found`.

        rings  points on both end circles of the cylinders (cylinders, 2, ROUND, 3)
        """
        middles = rings.mean(axis=2)
        ends = middles - middles.mean(axis=1, keepdims=True)
        near = np.where(ends[:, 1, 2] > 0.0, 1, 0)
        every = np.arange(len(near))
        normals = ends[every, near]
        axes = normals / np.maximum(np.linalg.norm(normals, axis=1), 1e-12)[:, None]
        beside = np.array([0.0, 0.0, 1.0]) - axes[:, 2:] * axes
        side_shades, end_shades = brightness(beside).tolist(), brightness(normals).tolist()
        sides = silhouettes(rings[:, 0, :, :2], rings[:, 1, :, :2])
        for place, part in enumerate(self._cylinders):
            if normals[place, 2] > 0.0:
                end = rings[place, near[place], :, :2]
                found[part] = [(sides[place], side_shades[place]), (end, end_shades[place])]
            else:  # seen exactly from the side
                found[part] = [(hull(rings[place, :, :, :2].reshape(-1, 2)), 1.0)]


def silhouettes(rings: Floats, others: Floats) -> list[Floats]:
    """Silhouettes of cylinders: convex hulls (k, 2) of the two end polygons of each cylinder, m.

    rings, others  corners of the two end polygons (cylinders, n, 2), m; each is convex and a translated copy of the
                   other
    """
    steps = others[:, 0] - rings[:, 0]
    following, before = np.roll(rings, -1, axis=1), np.roll(rings, 1, axis=1)
    area = np.sum(rings[..., 0] * following[..., 1] - following[..., 0] * rings[..., 1], axis=1)
    sense = np.where(area < 0.0, -1.0, 1.0)
    along = following - before  # the outward normal is to its right where the corners turn to the left
    ahead = sense[:, None] * (along[..., 1] * steps[:, :1] - along[..., 0] * steps[:, 1:]) > 0.0
    earlier = np.roll(ahead, 1, axis=1)
    # each corner on the side of the corner before, then on its own side; where the two agree, once
    corners = np.where(np.stack([earlier, ahead], axis=2)[..., None], others[:, :, None], rings[:, :, None])
    kept = np.stack([ahead != earlier, np.ones_like(ahead)], axis=2)
    return [found[keep] for found, keep in zip(corners, kept, strict=True)]


def brightness(normals: Floats) -> Floats:
    """Brightness of faces, at most 1 for a face turned to the light.

    normals  normal vectors of the faces (..., 3) in view axes, of any length
    """
    length = np.maximum(np.linalg.norm(normals, axis=-1), 1e-12)
    return np.asarray(DIMMEST + (1.0 - DIMMEST) * np.maximum(normals @ LIGHT / length, 0.0))
