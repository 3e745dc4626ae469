"""Files on a disk that takes only a part of them: one line names the file, and an earlier file stays as it was."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from nodes.cli.application import run as armswing
from nodes.framework.messages import BodyDescription, BodyPoses, Description, JointDescription, RobotState, Shape
from nodes.framework.recording.new_file import NotWrittenError, new_file, write_file
from nodes.framework.recording.writer import RecordingWriter

EARLIER = b"earlier"


def armswing_with_room_for(size: int, arguments: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a command in a process in which no file may have more than `size` bytes."""
    return subprocess.run(
        [sys.executable, "-P", "-m", "nodes.cli", *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60.0,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size)),
    )


@pytest.fixture(scope="module")
def arm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording of a body that moves for 2 s."""
    path = tmp_path_factory.mktemp("run") / "arm.mcap"
    body = BodyDescription(name="link", shapes=[Shape(kind="line", points=[0.0, 0.0, 0.0, 1.0, 0.0, 0.0])])
    with RecordingWriter(path, {"robot": "arm"}) as writer:
        writer.write(
            "arm/description", Description(robot="arm", joints=[JointDescription(name="hinge")], bodies=[body]), 0.0
        )
        for tick in range(1000):
            time = 2e-3 * tick
            state = RobotState(timestamp=time, seq=tick + 1, name=["hinge"], position=[time**2], velocity=[2.0 * time])
            writer.write("arm/state", state, time)
            if tick % 10 == 0:
                poses = BodyPoses(
                    timestamp=time, seq=tick // 10 + 1, p=[time, 0.0, 0.0], quaternion=[1.0, 0.0, 0.0, 0.0]
                )
                writer.write("arm/body_poses", poses, time)
    return path


FORMS = {
    "csv": ("export", "--csv", "arm.state.csv", None),
    "rerun": ("export", "--rerun", "arm.rrd", "rerun"),
    "foxglove": ("export", "--foxglove", "arm.mcap", "foxglove"),
    "png": ("view", "--png", "arm.png", "PyQt5.QtWidgets"),
    "gif": ("view", "--gif", "arm.gif", "PyQt5.QtWidgets"),
    "mp4": ("view", "--mp4", "arm.mp4", "PyQt5.QtWidgets"),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_file_that_the_disk_does_not_take_is_named_and_leaves_the_earlier_one(
    form: str, arm: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command, option, name, module = FORMS[form]
    if module is not None:
        pytest.importorskip(module, exc_type=ImportError)  # also where Qt's system libraries are missing
    if form in ("gif", "mp4"):
        pytest.importorskip("imageio_ffmpeg")
    monkeypatch.setenv("QT_QPA_PLATFORM", "offscreen")
    target, given = tmp_path / name, tmp_path if form == "csv" else tmp_path / name
    more = ["--to", "0.3", "--size", "320x240", "--fps", "10"] if form in ("gif", "mp4") else []
    arguments = [command, str(arm), option, str(given), *more]
    assert armswing(arguments) == 0
    size = target.stat().st_size // 2
    target.write_bytes(EARLIER)
    done = armswing_with_room_for(size, arguments)
    assert (done.returncode, "Traceback" in done.stderr) == (1, False), done.stderr
    assert any(str(target) in line and "File too large" in line for line in done.stderr.splitlines())
    assert target.read_bytes() == EARLIER
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_an_error_in_between_leaves_the_earlier_file(tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    path.write_bytes(EARLIER)

    def write_half() -> None:
        with new_file(path) as part:
            part.write_bytes(b"half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_half()
    assert [each.read_bytes() for each in tmp_path.iterdir()] == [EARLIER]


def test_the_target_of_a_link_is_replaced_and_a_device_is_written_directly(tmp_path: Path) -> None:
    link, target = tmp_path / "link", tmp_path / "target"
    link.symlink_to(target)
    write_file(link, "text")
    assert link.is_symlink()
    assert target.read_text() == "text"
    write_file("/dev/null", "text")
    assert Path("/dev/null").is_char_device()
    with pytest.raises(NotWrittenError, match="/dev/full"):
        write_file("/dev/full", "text")
