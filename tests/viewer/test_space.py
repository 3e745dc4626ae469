"""Surfaces of shapes in space against their volumes, and curves that keep their peaks when they are thinned out."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("viser", reason="viser is not installed: pip install 'armswing[web]'")

from nodes.framework.messages import Shape
from viewer.data.series import sampled
from viewer.scene.space import helix, joined, surface
from viewer.web.plots import marked

TURNED = [math.cos(0.3), 0.0, math.sin(0.3), 0.0]


@pytest.mark.parametrize(
    ("shape", "volume", "within"),
    [
        (Shape(kind="box", size=[0.3, 0.2, 0.1], position=[1.0, 2.0, 3.0], quaternion=TURNED), 0.006, 1e-12),
        (Shape(kind="sphere", size=[0.2], position=[1.0, 0.0, 0.0]), 4.0 / 3.0 * math.pi * 0.008, 0.04),
        (Shape(kind="cylinder", size=[0.2, 0.5], quaternion=TURNED), math.pi * 0.04 * 0.5, 0.02),
    ],
)
def test_surfaces_enclose_the_volume_of_their_shape_and_face_outward(
    shape: Shape, volume: float, within: float
) -> None:
    vertices, faces = surface(shape, 0.01)
    a, b, c = (vertices[faces[:, k]] - shape.position for k in range(3))
    assert float(np.einsum("ni,ni->", a, np.cross(b, c))) / 6.0 == pytest.approx(volume, rel=within)


def test_a_mesh_keeps_its_triangles_and_lines_become_bars() -> None:
    corners = [0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0]
    vertices, faces = surface(Shape(kind="mesh", points=corners, faces=[0, 2, 1, 0, 1, 3]), 0.01)
    assert vertices[faces].tolist() == np.reshape(corners, (4, 3))[[[0, 2, 1], [0, 1, 3]]].tolist()
    bar, _ = surface(Shape(kind="line", points=[0.0, 0.0, 0.0, 0.0, 0.0, 2.0, 0.0, 0.0, 2.0]), 0.1)
    assert np.allclose([bar.min(axis=0), bar.max(axis=0)], [[-0.1, -0.1, -0.1], [0.1, 0.1, 2.1]], atol=1e-3)
    assert joined([])[0].shape == (0, 3)


def test_a_spring_begins_and_ends_at_its_ends() -> None:
    ends = np.array([[0.0, 1.0, 0.0], [1.0, 1.0, 0.5]])
    points = helix(ends, 0.05)
    assert points[0].tolist() == ends[0].tolist()
    assert points[-1].tolist() == ends[1].tolist()
    along = (ends[1] - ends[0]) / np.linalg.norm(ends[1] - ends[0])
    assert np.linalg.norm(np.cross(points - ends[0], along), axis=1).max() == pytest.approx(0.05)


@given(st.integers(1, 3000), st.integers(0, 2**32 - 1))
def test_thinned_curves_keep_every_peak_at_its_time(count: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    times = np.cumsum(random.random(count) + 1e-3)
    values = random.normal(size=count)
    x, (kept,) = sampled([(times, values)], float(times[0]), float(times[-1]), 50)
    assert len(x) == len(kept) <= max(100, min(count, 100))
    assert (np.diff(x) >= 0.0).all()
    assert (np.nanmin(kept), np.nanmax(kept)) == (values.min(), values.max())
    width = (times[-1] - times[0]) / 50
    assert abs(x[np.nanargmax(kept)] - times[np.argmax(values)]) <= width


def test_curves_of_other_times_are_drawn_as_the_lines_between_their_values() -> None:
    dense = np.linspace(0.0, 10.0, 5001)
    rare = np.array([2.0, 4.0, 4.0 + 1e-9, 8.0]), np.array([0.0, 2.0, math.nan, 1.0])
    x, (_, line, absent) = sampled([(dense, np.sin(dense)), rare, None], 0.0, 10.0, 100)
    assert np.isnan(absent).all()
    assert np.isnan(line[x < 2.0]).all()
    inside = (x > 2.0) & (x < 3.9)
    assert np.abs(line[inside] - (x[inside] - 2.0)).max() <= 0.05  # half an interval
    assert np.isnan(line[(x > 4.1) & (x < 7.9)]).all()  # a gap stays a gap


def test_the_mark_of_the_present_is_a_line_from_the_lowest_to_the_highest_value() -> None:
    x = np.linspace(0.0, 1.0, 11)
    line = marked(x, [x, -2.0 * x], 0.52)
    assert np.flatnonzero(np.isfinite(line)).tolist() == [5, 6]
    assert line[5:7].tolist() == [-2.0, 1.0]
