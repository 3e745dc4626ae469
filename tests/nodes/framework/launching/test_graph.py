"""The graph of a launch: who publishes what to whom, as text and as a picture."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from itertools import pairwise
from pathlib import Path

import pytest

from nodes.cli.application import run
from nodes.framework.launching.graph import Member, connections, members_of, svg, text
from nodes.framework.plan.files.file import load_plan

ROOT = Path(__file__).parents[4]
MEMBERS = [
    Member("sim", ["left/arm/state"], ["left/arm/command"]),
    Member("left/hold", ["left/arm/command"], ["left/arm/state"]),
    Member("left/log", [], ["left/*"]),
    Member("right/log", [], ["right/*"]),
    Member("all", ["own/goal"], ["*"]),
]


def test_a_row_per_topic_names_publishers_and_receivers() -> None:
    found = {each.topic: (each.publishers, each.subscribers) for each in connections(MEMBERS)}
    assert found == {
        "left/arm/state": (("sim",), ("left/hold", "left/log", "all")),
        "left/arm/command": (("left/hold",), ("sim", "left/log", "all")),
        "own/goal": (("all",), ()),
    }
    assert text(MEMBERS).splitlines() == [
        "publishes  topic             message       received by",
        "sim        left/arm/state    RobotState    left/hold, left/log, all",
        "left/hold  left/arm/command  JointCommand  sim, left/log, all",
        "all        own/goal          -             (nobody)",
    ]


def test_the_picture_has_every_node_and_topic_inside_its_frame() -> None:
    tree = ElementTree.fromstring(svg(MEMBERS, "a <title> & more"))
    width, height = float(tree.attrib["width"]), float(tree.attrib["height"])
    texts = [element.text for element in tree.iter() if element.tag.endswith("text")]
    assert {"a <title> & more", "left/hold", "left/log", "all", "own/goal", "JointCommand"} <= set(texts)
    boxes = [element.attrib for element in tree.iter() if element.tag.endswith("rect") and "rx" in element.attrib]
    edges = [(float(b["x"]), float(b["y"]), float(b["width"]), float(b["height"])) for b in boxes]
    assert len(edges) == 2 + 1 + 3 + 4
    for x, y, w, h in edges:
        assert 0 < x < x + w < width
        assert 0 < y < y + h < height
    columns = {x: sorted(y for other, y, *_ in edges if other == x) for x, *_ in edges}
    assert all(b - a >= 30 for ys in columns.values() for a, b in pairwise(ys))


def test_the_graph_of_a_launch_file_is_printed_and_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "graph.svg"
    assert run(["graph", str(ROOT / "launch/rotary_pendulum.toml"), "--svg", str(picture)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.split()[1:3] == ["rotary_pendulum/reference", "JointReference"] for line in lines)
    ElementTree.fromstring(picture.read_text())
    assert run(["graph"]) == 2
    assert run(["graph", "x.toml", "--live"]) == 2
    assert run(["graph", str(ROOT / "launch/rotary_pendulum.toml"), "--svg", "/nowhere/x.svg"]) == 2


def test_only_a_run_of_one_robot_has_snapshots(tmp_path: Path) -> None:
    one = load_plan(ROOT / "launch/rotary_pendulum.toml")
    assert "rotary_pendulum/snapshot" in members_of(one)[0].publishes
    include = '[[include]]\nfile = "{}"\nnamespace = "{}"\n'
    part = tmp_path / "part.toml"
    part.write_text('[sim]\nrobot = "rotary_pendulum"\n')
    (tmp_path / "both.toml").write_text("".join(include.format("part.toml", name) for name in ("left", "right")))
    server = members_of(load_plan(tmp_path / "both.toml"))[0]
    assert "left/rotary_pendulum/state" in server.publishes
    assert not [topic for topic in server.publishes if topic.endswith("/snapshot")]
