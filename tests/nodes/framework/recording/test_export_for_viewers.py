"""Recordings as files for Rerun and Foxglove, read back by readers that are not ours."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mcap.reader import make_reader

from nodes.cli.application import run
from nodes.framework.messages import Event, PlotValues, Polylines, RobotState, Status
from nodes.framework.messages.codec import decode
from nodes.framework.plan.launch_plan import Plan, SimPlan
from nodes.framework.recording.reader import read_recording
from nodes.framework.recording.writer import RecordingWriter
from nodes.framework.simulation.compose import compose

STATE = "rotary_pendulum/state"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "run.mcap"
    plan = Plan(name="fall", folder=".", sim=SimPlan(robot="rotary_pendulum", mode="lockstep"), nodes=[])
    with RecordingWriter(path, {}) as writer:

        def carry(topic: str, payload: bytes) -> None:
            message = decode(topic, payload)
            writer.write(topic, message, message.timestamp)

        with compose(plan, carry) as composition:
            composition.run(0.2)
        for node, frames in (("a", 1), ("b", 2)):
            writer.write("status", Status(timestamp=0.2, node=node, counters={"sent": frames}), 0.2)
        values: dict[str, float | list[float]] = {"error": 0.5, "tip": [1.0, float("nan")]}
        writer.write("rotary_pendulum/hold/plot", PlotValues(timestamp=0.2, values=values), 0.2)
        lines = Polylines(timestamp=0.2, name=["a", "b"], count=[2, 3], points=[float(k) for k in range(15)])
        writer.write("rotary_pendulum/overlay", lines, 0.2)
        writer.write("rotary_pendulum/event", Event(timestamp=0.2, kind="pause", detail="by hand"), 0.2)
    return path


def rerun_chunks(path: Path) -> dict[str, Any]:
    reader = pytest.importorskip("rerun.chunk", reason="rerun-sdk is not installed: pip install 'armswing[rerun]'")
    return {chunk.entity_path: chunk for chunk in reader.RrdReader(str(path)).stream().to_chunks()}


def test_rerun_reads_back_every_curve_pose_shape_and_event(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("rerun", reason="rerun-sdk is not installed: pip install 'armswing[rerun]'")
    target = tmp_path / "run.rrd"
    assert run(["export", str(file), "--rerun", str(target)]) == 0
    assert capsys.readouterr().out == f"wrote {target}\n"
    chunks, recording = rerun_chunks(target), read_recording(file)
    state = recording[STATE]
    expected = {f"/{STATE}/{field}/{name}": state[field][:, place] for field in ("position", "velocity", "effort")
                for place, name in enumerate(("arm", "pendulum"))}  # fmt: skip
    expected |= {f"/{STATE}/energy": state["energy"], f"/{STATE}/outputs/tip_z": state["outputs.tip_z"]}
    for entity, values in expected.items():
        batch = chunks[entity].to_record_batch()
        times, numbers = batch.column("sim_time").cast("int64").to_numpy(), batch.column("Scalars:scalars")
        np.testing.assert_array_equal(times, np.round(state["log_time"] * 1e9).astype(np.int64))
        np.testing.assert_array_equal([number for (number,) in numbers.to_pylist()], values)
    poses = recording["rotary_pendulum/body_poses"]
    for place, body in enumerate(recording.description.bodies):  # type: ignore[union-attr]
        batch = chunks[f"/world/rotary_pendulum/{body.name}"].to_record_batch()
        moved = [row[0] for row in batch.column("Transform3D:translation").to_pylist()]
        np.testing.assert_allclose(moved, poses["p"][:, 3 * place : 3 * place + 3], rtol=1e-6, atol=1e-7)  # float32
        turned = [row[0] for row in batch.column("Transform3D:quaternion").to_pylist()]
        w_last = np.roll(poses["quaternion"][:, 4 * place : 4 * place + 4], -1, axis=1)
        np.testing.assert_allclose(turned, w_last, rtol=1e-6, atol=1e-7)
        shapes = [path for path in chunks if path.startswith(f"/world/rotary_pendulum/{body.name}/")]
        assert len(shapes) == len(body.shapes)
        assert all(chunks[path].is_static for path in shapes)
    assert chunks["/rotary_pendulum/event"].to_record_batch().column("TextLog:text").to_pylist() == [["pause by hand"]]
    for node, frames in (("a", 1.0), ("b", 2.0)):
        sent = chunks[f"/status/{node}/counters/sent"].to_record_batch().column("Scalars:scalars")
        assert sent.to_pylist() == [[frames]]
    assert {f"/rotary_pendulum/hold/plot/values/{name}" for name in ("error", "tip/0", "tip/1")} <= chunks.keys()
    strips = chunks["/world/rotary_pendulum/overlay"].to_record_batch().column("LineStrips3D:strips").to_pylist()
    assert strips == [[[[0, 1, 2], [3, 4, 5]], [[6, 7, 8], [9, 10, 11], [12, 13, 14]]]]


def test_a_file_for_foxglove_has_every_message_and_the_scene(file: Path, tmp_path: Path) -> None:
    pytest.importorskip("foxglove")
    target = tmp_path / "foxglove.mcap"
    assert run(["export", str(file), "--foxglove", str(target)]) == 0
    with target.open("rb") as stream, file.open("rb") as source:
        found: dict[str, list[Any]] = {}
        for schema, channel, message in make_reader(stream).iter_messages():
            assert schema is not None
            found.setdefault(channel.topic, []).append((schema.name, message.log_time, message.data))
        for _, channel, message in make_reader(source).iter_messages():
            name, time, data = found[f"/{channel.topic}"].pop(0)
            assert (time, json.loads(data)) == (message.log_time, json.loads(message.data))
            assert name.startswith("armswing.")
    added = {topic: {name for name, *_ in rows} for topic, rows in found.items() if rows}
    assert added == {
        "/tf": {"foxglove.FrameTransforms"},
        "/rotary_pendulum/scene": {"foxglove.SceneUpdate"},
        "/rotary_pendulum/scene_overlay": {"foxglove.SceneUpdate"},
        "/rotary_pendulum/joint_states": {"foxglove.JointStates"},
    }
    assert len(found["/rotary_pendulum/joint_states"]) == 201


def overlapping(file: Path) -> Path:
    """A recording of two runs: the second begins at zero again."""
    path = file.with_name("two.mcap")
    with RecordingWriter(path, {}) as writer:
        for seq in range(20):
            t = 0.01 * (seq % 10)
            writer.write(STATE, RobotState(timestamp=t, seq=seq + 1, name=["arm"], position=[t], velocity=[0.0]), t)
    return path


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (lambda file: [file], "name what to write: --csv FOLDER, --rerun FILE, --foxglove FILE or --rosbag2"),
        (lambda file: [file, "--rerun", file], "is the recording itself; choose another file"),
        (lambda file: [file, "--rerun", file.parent], "expected the path of a file in a folder that exists"),
        (lambda file: [file, "--foxglove", file.parent / "no" / "x.mcap"], "in a folder that exists"),
        (lambda file: [overlapping(file), "--rerun", file.parent / "x.rrd"], "has 2 runs that overlap in time; choose"),
        (lambda file: [file, "--foxglove", file.parent / "x.mcap", "--run", 1], "--foxglove always writes all runs"),
    ],
)
def test_what_cannot_be_written_is_one_line(
    arguments: Callable[[Path], list[Any]], says: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = file.read_bytes()
    assert run(["export", *map(str, arguments(file))]) == 2
    error = capsys.readouterr().err
    assert says in error
    assert error.count("\n") == 1
    assert file.read_bytes() == before
