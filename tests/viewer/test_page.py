"""The page of a recording: its numbers are those of the recording, and a browser draws it without any server."""

from __future__ import annotations

import base64
import gzip
import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest

from nodes.cli.application import run as command_line
from nodes.framework.messages import (
    BodyDescription,
    BodyPoses,
    Description,
    ForceDescription,
    Polylines,
    RobotState,
    Shape,
    SpringDescription,
)
from nodes.framework.recording.reader import RecordingWriter, read_recording
from tests.viewer.browser import chromium
from viewer.scene.projection import rotation


def contents(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray[Any, Any]]]:
    """(what the page says of the recording, its arrays)."""
    found = re.search(r'id="data">([^<]*)<', path.read_text())
    assert found is not None
    blob = gzip.decompress(base64.b64decode(found[1]))
    length = int.from_bytes(blob[:4], "little")
    data = json.loads(blob[4 : 4 + length])
    start = 4 + length + -length % 4
    kinds = {"f": "<f4", "i": "<i4"}
    arrays = {
        name: np.frombuffer(blob, kinds[kind], count, start + offset)
        for name, (kind, offset, count) in data["layout"].items()
    }
    return data, arrays


def written(recording: Path, *options: str) -> Path:
    path = recording.with_suffix(".html")
    assert command_line(["view", str(recording), "--html", str(path), *options]) == 0
    return path


@pytest.fixture
def pulled(tmp_path: Path) -> Path:
    """A recording of a block on a spring with a force, a beam and a planned path."""
    block = BodyDescription(name="block", mass=1.0, shapes=[Shape(kind="box", size=[0.2, 0.2, 0.2], color="#a02c5d")])
    path = tmp_path / "pulled.mcap"
    with RecordingWriter(path, {}) as writer:
        description = Description(
            robot="pull",
            bodies=[block],
            outputs=["pull"],
            springs=[SpringDescription(name="spring", body_b="block")],
            forces=[ForceDescription(name="pull", body="block", outputs=["pull"], axes=[0.0, 0.0, 1.0])],
        )
        writer.write("pull/description", description, 0.0)
        for tick in range(61):
            now = tick / 60.0
            state = RobotState(timestamp=now, seq=tick, outputs={"pull": 10.0 * now}, energy=now)
            writer.write("pull/state", state, now)
            poses = BodyPoses(timestamp=now, seq=tick, p=[0.5 * now, 0.0, 0.5], quaternion=[1.0, 0.0, 0.0, 0.0])
            writer.write("pull/body_poses", poses, now)
            line = Polylines(timestamp=now, name=["beam"], count=[2], points=[0.0, 0.0, 0.0, 0.0, 0.0, now])
            writer.write("pull/lines", line, now)
    return path


def test_the_page_has_the_recorded_poses_and_curves(spatial: Path) -> None:
    data, arrays = contents(written(spatial))
    recording = read_recording(spatial)
    poses, state = recording["swing/body_poses"], recording["swing/state"]
    rows = np.hstack([poses["p"], poses["quaternion"]])
    places = np.searchsorted(poses["timestamp"], arrays["times"].astype(float) - 1e-6)
    assert len(places) == 90  # 30 poses in each of 2.99 s
    assert np.array_equal(arrays["poses"].reshape(len(places), -1), rows[places].astype(np.float32))
    assert data["note"].startswith("one pose every 0.0336 s")
    plot = next(each for each in data["plots"] if each["title"].startswith("Velocity"))
    assert [each["name"] for each in plot["curves"]] == ["yaw", "pitch"]
    assert np.array_equal(arrays[plot["curves"][1]["y"]], state["velocity"][:, 1].astype(np.float32))
    assert data["events"] == []
    assert data["subtitle"] == "spatial.mcap: 300 states in 2.99 s"


def test_forces_springs_and_beams_are_in_the_page_at_each_time(pulled: Path) -> None:
    data, arrays = contents(written(pulled))
    frames = len(arrays["times"])
    assert data["arrows"] == 1
    ends = arrays["arrow_ends"].reshape(frames, 6)
    shown = arrays["arrow_text"] >= 0
    assert not shown[0]  # no force yet
    assert data["texts"][arrays["arrow_text"][-1]] == "pull 10 N"
    assert np.allclose(ends[-1, :3], [0.5, 0.0, 0.5])
    lengths, times = ends[shown][:, 5] - ends[shown][:, 2], arrays["times"][shown]
    assert np.allclose(lengths, times * lengths[-1], atol=1e-6)  # the force grows with the time
    assert data["springs"] == [[-1, [0.0, 0.0, 0.0], 0, [0.0, 0.0, 0.0]]]
    assert data["lines_counts"] == [[2]] * frames
    assert np.allclose(arrays["lines"].reshape(frames, 2, 3)[:, 1, 2], arrays["times"])


def test_the_same_recording_gives_the_same_page(spatial: Path) -> None:
    first = written(spatial).read_bytes()
    assert written(spatial).read_bytes() == first
    assert len(first) < 200_000


def test_a_browser_opens_the_page_as_a_file_and_plays_it_without_any_request(pulled: Path) -> None:
    path = written(pulled)
    with chromium("720,420") as browser:
        browser.open(f"{path.as_uri()}#t=0.25")
        assert browser.until("window.page && document.body.dataset.shown") == "0.25"
        assert browser.ask("document.querySelector('#failure').textContent") == ""
        assert browser.ask("document.querySelectorAll('figure').length") >= 2
        browser.ask("page.seek(0.5)")
        browser.until("document.body.dataset.shown === '0.5'")
        place, turn = browser.ask("page.scene.body(page.frame, 0)")
        assert np.allclose(place, [0.25, 0.0, 0.5], atol=0.02)
        assert turn == [1.0, 0.0, 0.0, 0.0]
        assert "pull 5 N" in browser.ask("document.querySelector('#labels').textContent")
        browser.click("▶")
        browser.until("page.now === page.whole[1] && !page.playing")
        picture = (255 * browser.picture()).astype(int)
        assert ((picture[..., 0] > 1.8 * picture[..., 1]) & (picture[..., 2] > picture[..., 1])).sum() > 50  # the block
        turned = browser.ask("turned([Math.cos(0.3), 0, Math.sin(0.3), 0], [1, 2, 3])")
        assert np.allclose(turned, rotation(np.array([np.cos(0.3), 0.0, np.sin(0.3), 0.0])) @ [1.0, 2.0, 3.0])
        assert {urlsplit(each).scheme for each in browser.requests} <= {"file", "data", "blob"}
        assert browser.errors == []


def test_bad_requests_for_a_page_are_refused_in_one_line(spatial: Path, tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "text.mcap").write_text("no recording")
    page = str(tmp_path / "out.html")
    for words, says in (
        ([spatial, "--html", "out.htm"], "--html 'out.htm': the file name must end in .html; write 'out.html'"),
        ([spatial, "--html", "/none/out.html"], "there is no folder '/none'; create it first"),
        (["--html", page], "--html makes a page of one recording, and 0 are named; name one"),
        ([spatial, spatial, "--html", page], "--html makes a page of one recording, and 2 are named; name one"),
        (
            [spatial, "--html", page, "--png", "x.png"],
            "--html writes one file, without --png; leave one of the two out",
        ),
        ([spatial, "--html", page, "--plot", "positon"], "there is no field 'positon' to plot"),
        ([tmp_path / "text.mcap", "--html", page], "text.mcap"),
    ):
        assert command_line(["view", *map(str, words)]) == 2
        error = capsys.readouterr().err
        assert says in error
        assert error.count("\n") == 1
    assert not Path(page).exists()
