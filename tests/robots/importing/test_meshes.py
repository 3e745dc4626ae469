"""Meshes of URDF and MJCF files: formats, places, reduction, cache, and a box with one line where one is not drawn."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from armswing import build
from nodes.framework.messages import Description
from nodes.framework.simulation.description import describe
from robots.export import export
from robots.importing import meshes
from sim_core.errors import InvalidMechanism
from sim_core.mechanism import Body, Joint, Mechanism, Shape
from sim_core.mechanism.inertias import inertia_box
from sim_core.mechanism.validation import validate
from tests.robots.importing.parts import joint, link
from viewer.scene.bodies import Skeleton
from viewer.scene.projection import choose_view, hull

HALF = (0.1, 0.2, 0.3)
CORNERS = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)]) * HALF
# counterclockwise from outside
FACES = np.array(
    [
        *((0, 1, 3), (0, 3, 2), (4, 6, 7), (4, 7, 5), (0, 4, 5), (0, 5, 1)),
        *((2, 3, 7), (2, 7, 6), (0, 2, 6), (0, 6, 4), (1, 5, 7), (1, 7, 3)),
    ]
)
DAE = """<?xml version="1.0"?><COLLADA xmlns="http://www.collada.org/2005/11/COLLADASchema" version="1.4.1">
<asset><unit name="meter" meter="1"/><up_axis>Z_UP</up_axis></asset>
<library_geometries><geometry id="g"><mesh><source id="p"><float_array id="a" count="24">{points}</float_array>
<technique_common><accessor source="#a" count="8" stride="3"><param name="X" type="float"/>
<param name="Y" type="float"/><param name="Z" type="float"/></accessor></technique_common></source>
<vertices id="v"><input semantic="POSITION" source="#p"/></vertices><triangles count="12">
<input semantic="VERTEX" source="#v" offset="0"/><p>{faces}</p></triangles></mesh></geometry>
</library_geometries><library_visual_scenes><visual_scene id="s"><node>
<instance_geometry url="#g"/></node></visual_scene></library_visual_scenes>
<scene><instance_visual_scene url="#s"/></scene></COLLADA>"""

needs_trimesh = pytest.mark.skipif(
    importlib.util.find_spec("trimesh") is None, reason="trimesh is not installed: pip install 'armswing[meshes]'"
)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    meshes.triangles.cache_clear()


def write_mesh(path: Path) -> None:
    """A box with the half edges HALF, in the format of the file's name."""
    if path.suffix == ".stl":
        facets = "".join(
            f"facet normal 0 0 0\nouter loop\n{''.join(f'vertex {x} {y} {z}{chr(10)}' for x, y, z in CORNERS[face])}"
            "endloop\nendfacet\n"
            for face in FACES
        )
        path.write_text(f"solid box\n{facets}endsolid box\n")
    elif path.suffix == ".obj":
        points = "".join(f"v {x} {y} {z}\n" for x, y, z in CORNERS)
        path.write_text(points + "".join(f"f {a} {b} {c}\n" for a, b, c in FACES + 1))
    else:
        points, faces = (" ".join(map(str, each.ravel().tolist())) for each in (CORNERS, FACES))
        path.write_text(DAE.format(points=points, faces=faces))


def with_mesh(write: Callable[..., str], mesh: str, more: str = "") -> str:
    visual = f'<visual><origin xyz="1 2 3"/><geometry><mesh filename="{mesh}" {more}/></geometry></visual></link>'
    return write(link("a"), link("b").replace("</link>", visual), joint("hinge", "a", "b"))


def volume(shape: Shape) -> float:
    """Volume enclosed by a mesh, m3; negative for one that is inside out."""
    points, faces = np.array(shape.points).reshape(-1, 3), np.array(shape.faces).reshape(-1, 3)
    return float(np.linalg.det(points[faces]).sum() / 6.0)


@needs_trimesh
@pytest.mark.parametrize("suffix", [".stl", ".obj", ".dae"])
def test_a_mesh_of_every_format_is_drawn_where_the_file_says(
    write: Callable[..., str], tmp_path: Path, suffix: str
) -> None:
    write_mesh(tmp_path / f"box{suffix}")
    (shape,) = build(with_mesh(write, f"box{suffix}", 'scale="2 1 -1"')).body("b").shapes
    assert (shape.kind, shape.position) == ("mesh", (1.0, 2.0, 3.0))
    assert len(shape.faces) == 36
    points = np.array(shape.points).reshape(-1, 3)
    np.testing.assert_allclose(points.max(axis=0), (0.2, 0.2, 0.3), atol=1e-5)
    np.testing.assert_allclose(points.min(axis=0), (-0.2, -0.2, -0.3), atol=1e-5)
    assert volume(shape) == pytest.approx(2.0 * 8.0 * np.prod(HALF), rel=1e-4)  # turned outside by the reflection


@needs_trimesh
def test_a_mesh_is_found_in_a_package_above_the_file_and_on_the_paths_of_ros(
    write: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside, ros, ament = tmp_path / "package" / "meshes", tmp_path / "ros" / "other", tmp_path / "prefix/share/third"
    for folder in (inside, ros, ament):
        folder.mkdir(parents=True)
        write_mesh(folder / "box.stl")
    monkeypatch.setenv("ROS_PACKAGE_PATH", str(tmp_path / "ros"))
    monkeypatch.setenv("AMENT_PREFIX_PATH", str(tmp_path / "prefix"))
    names = ["package://package/meshes/box.stl", "package://other/box.stl", "package://third/box.stl"]
    for name in [*names, f"file://{inside}/box.stl", "package/meshes/box.stl"]:
        assert build(with_mesh(write, name)).body("b").shapes[0].kind == "mesh", name


@needs_trimesh
def test_a_mesh_of_many_triangles_becomes_one_of_few_that_is_closed_and_as_large(tmp_path: Path) -> None:
    import trimesh

    ball = trimesh.creation.icosphere(subdivisions=5, radius=0.1)
    assert len(ball.faces) > 20_000
    ball.export(tmp_path / "ball.stl")
    vertices, faces = meshes.triangles(tmp_path / "ball.stl", 0)
    assert 100 < len(faces) <= meshes.FACES
    assert float(np.linalg.det(vertices[faces]).sum() / 6.0) == pytest.approx(4 / 3 * np.pi * 0.1**3, rel=0.1)
    edges = np.sort(faces[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2), axis=1)
    assert (np.unique(edges, axis=0, return_counts=True)[1] == 2).all()


def test_a_box_in_place_of_a_mesh_is_not_larger_than_a_link_of_its_mass() -> None:
    """1 kg with the inertia of a box of 0.7 m, a placeholder of many files; a box of 1 kg and 0.1 m keeps its size."""
    for edge, drawn in ((0.7, 200.0 ** (-1.0 / 3.0)), (0.1, 0.1)):
        moment = edge**2 / 6.0
        found = inertia_box(1.0, (0.0, 0.0, 0.0), (moment, moment, moment, 0.0, 0.0, 0.0))
        assert found is not None
        np.testing.assert_allclose(found.size, drawn)


@needs_trimesh
def test_thin_parts_of_a_reduced_mesh_are_not_torn(tmp_path: Path) -> None:
    """A plate of 2 mm: its sides are not merged, and its surface stays closed."""
    import trimesh

    plate = trimesh.creation.box((0.3, 0.2, 0.002))
    for _ in range(6):
        plate = plate.subdivide()
    assert len(plate.faces) > 40_000
    plate.export(tmp_path / "plate.stl")
    vertices, faces = meshes.triangles(tmp_path / "plate.stl", 0)
    assert len(faces) <= meshes.FACES
    edges = np.sort(faces[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2), axis=1)
    assert (np.unique(edges, axis=0, return_counts=True)[1] == 2).all()
    np.testing.assert_allclose(np.ptp(vertices, axis=0), plate.extents, rtol=0.02)


@needs_trimesh
def test_a_reduced_mesh_of_many_parts_keeps_the_small_ones(tmp_path: Path) -> None:
    """A tube with a cap of its own at one end, and bolts beside the cap, as meshes of arms have them."""
    import trimesh

    tube = trimesh.creation.cylinder(0.03, 0.4, sections=200).subdivide().subdivide()
    parts = [tube, trimesh.creation.cylinder(0.05, 0.01, sections=60)]
    parts[1].apply_translation((0.0, 0.0, 0.21))
    for angle in np.linspace(0.0, 2.0 * np.pi, 12, endpoint=False):
        bolt = trimesh.creation.cylinder(0.003, 0.01, sections=40)
        bolt.apply_translation((0.04 * np.cos(angle), 0.04 * np.sin(angle), 0.22))
        parts.append(bolt)
    arm = trimesh.util.concatenate(parts)
    arm.export(tmp_path / "arm.stl")
    vertices, faces = meshes.triangles(tmp_path / "arm.stl", 0)
    assert len(faces) <= meshes.FACES < len(arm.faces)
    np.testing.assert_allclose(np.ptp(vertices[np.unique(faces)], axis=0), arm.extents, rtol=0.1)


@needs_trimesh
def test_triangles_are_kept_and_a_changed_file_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "box.stl"
    write_mesh(file)
    first = meshes.triangles(file, 1)
    meshes.triangles.cache_clear()
    reads: list[Path] = []
    monkeypatch.setattr(meshes, "all_triangles", lambda path: reads.append(path) or first)
    again = meshes.triangles(file, 1)
    assert reads == []
    for before, after in zip(first, again, strict=True):
        np.testing.assert_array_equal(before, after)
    file.write_text(file.read_text().replace("0.3", "0.4"))
    meshes.triangles(file, 2)
    assert reads == [file]


def said_by(file: str, **parameters: str) -> tuple[Mechanism, str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        mechanism = build(file, **parameters)
    return mechanism, "\n".join(str(each.message) for each in caught)


def test_a_mesh_that_cannot_be_drawn_is_a_box_and_one_line(
    write: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken.stl").write_bytes(b"no mesh")
    (tmp_path / "box.fbx").write_bytes(b"")
    cases = {
        "none.stl": f"there is no file of its mesh; its path is relative to {re.escape(str(tmp_path))}",
        "package://arm/none.stl": "there is no file of its mesh; the folder 'arm' of its package is searched for in",
        "box.fbx": "its mesh is no file of type .stl, .obj, .dae",
    }
    if importlib.util.find_spec("trimesh") is not None:
        cases["broken.stl"] = r"its mesh broken\.stl cannot be read: \w+: "
    for name, line in cases.items():
        mechanism, said = said_by(with_mesh(write, name))
        assert [shape.kind for shape in mechanism.body("b").shapes] == ["box"]
        assert re.search(rf"line \d+ \(link 'b': <mesh>\): {line}", said), said
    write_mesh(tmp_path / "box.stl")
    monkeypatch.setattr(meshes.importlib.util, "find_spec", lambda name: None)
    mechanism, said = said_by(with_mesh(write, "box.stl"))
    assert [shape.kind for shape in mechanism.body("b").shapes] == ["box"]
    assert "meshes are not drawn: pip install 'armswing[meshes]' installs the libraries that read them" in said
    mechanism, said = said_by(with_mesh(write, "box.stl"), meshes="boxes")
    assert [shape.kind for shape in mechanism.body("b").shapes] == ["box"]
    assert "armswing[meshes]" not in said


@needs_trimesh
def test_the_meshes_of_mjcf_are_drawn(tmp_path: Path) -> None:
    import trimesh

    (tmp_path / "assets").mkdir()
    trimesh.Trimesh(CORNERS, FACES).export(tmp_path / "assets/box.stl")  # MuJoCo reads binary STL files alone
    file = tmp_path / "robot.xml"
    file.write_text(
        """<mujoco><compiler meshdir="assets"/><default><mesh scale="1 1 0.5"/></default>
        <asset><mesh file="box.stl"/></asset><worldbody><body><joint name="hinge"/>
        <inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/>
        <geom type="mesh" mesh="box" pos="1 2 3" contype="0" conaffinity="0"/></body></worldbody></mujoco>"""
    )
    (shape,) = build(str(file)).bodies[0].shapes
    assert shape.kind == "mesh"
    assert shape.position == pytest.approx((1.0, 2.0, 3.0), abs=1e-6)
    assert volume(shape) == pytest.approx(0.5 * 8.0 * np.prod(HALF), rel=1e-4)
    assert build(str(file), meshes="boxes").bodies[0].shapes == ()


MESH = Shape(
    kind="mesh", points=tuple(CORNERS.ravel().tolist()), faces=tuple(FACES.ravel().tolist()), position=(1, 0, 0)
)
BOX = Shape(kind="box", size=(0.2, 0.4, 0.6), position=(1, 0, 0))


def made(shape: Shape) -> Mechanism:
    body = Body(name="body", mass=1.0, inertia=(1, 1, 1, 0, 0, 0), shapes=(shape,))
    hinge = Joint(name="hinge", child="body")
    return Mechanism(name="made", coordinates="joint", bodies=(body,), joints=(hinge,), initial_q=(0,), initial_v=(0,))


@pytest.mark.parametrize("plane", ["space", "xz"])
def test_a_mesh_is_drawn_as_the_box_of_its_form(plane: str) -> None:
    view = choose_view(plane, np.array([0.0, 0.0, -9.81]))
    pose = np.array([0.3, 0.1, 0.2, 0.9, 0.1, 0.3, 0.2])
    drawn = {}
    for shape in (MESH, BOX):
        description: Description = describe(made(shape), 1e-3, (), "")
        drawn[shape.kind] = [each for each in Skeleton(description).outlines(pose, view) if not each.fine]
    assert len(drawn["mesh"]) in (4, 6)  # two triangles for each face that is seen
    corners = [hull(np.concatenate([each.corners for each in outlines])) for outlines in drawn.values()]
    np.testing.assert_allclose(*corners, atol=1e-9)
    if plane == "space":
        assert {round(each.shade, 9) for each in drawn["mesh"]} == {round(each.shade, 9) for each in drawn["box"]}


@pytest.mark.parametrize(
    ("points", "faces", "line"),
    [
        ((0.0,) * 9, (), r"points and faces have 9 and 0 numbers; points must have x, y, z of each point"),
        ((0.0,) * 9, (0, 1, 3), r"faces has indices of points from 0 to 3; they must lie between 0 and 2"),
    ],
)
def test_an_impossible_mesh_is_refused(points: tuple[float, ...], faces: tuple[int, ...], line: str) -> None:
    with pytest.raises(InvalidMechanism, match=line):
        validate(made(Shape(kind="mesh", points=points, faces=faces)))


@pytest.mark.parametrize("language", ["urdf", "mjcf"])
def test_an_export_has_the_box_around_a_mesh_and_says_so(language: str) -> None:
    exports = [export(made(shape), language) for shape in (MESH, BOX)]
    assert any("boxes are written in place of the meshes of 'body'" in note for note in exports[0].notes)
    texts = [re.sub(r"<!--.*?-->\s*", "", each.text) for each in exports]
    numbers = [[float(word) for word in re.findall(r"-?\d+\.?\d*(?:e-?\d+)?", text)] for text in texts]
    assert numbers[0] == pytest.approx(numbers[1], abs=1e-12)


BRIDGES = """
from nodes.framework.bridges.foxglove_scene import scene_of
from nodes.framework.bridges.rerun_file import _drawn
from nodes.framework.simulation.description import describe
from tests.robots.importing.test_meshes import MESH, made

description = describe(made(MESH), 1e-3, (), "")
assert "TriangleListPrimitive" in repr(scene_of(description))
assert type(_drawn(description.bodies[0].shapes[0])).__name__ == "Mesh3D"
"""


def test_the_bridges_draw_meshes() -> None:
    """In a process of its own, as kernels loaded after Rerun may lie too far apart for their relocations."""
    for name in ("foxglove", "rerun"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed")
    subprocess.run([sys.executable, "-c", BRIDGES], cwd=Path(__file__).parents[3], check=True)
