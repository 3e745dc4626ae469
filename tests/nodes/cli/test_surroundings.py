"""Commands in surroundings that fail: a deleted working folder, and an error stream that takes no more lines."""

from __future__ import annotations

import errno
import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from nodes.cli.application import run as armswing
from nodes.framework.launching.display import Display


def test_a_deleted_working_folder_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert armswing(["info", "run.mcap"]) == 2
    line = "armswing: the working folder does not exist any more; change to another folder\n"
    assert capsys.readouterr() == ("", line)


class FullStream(io.StringIO):
    """A text stream on a full disk."""

    def write(self, text: str) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_error_stream_does_not_end_a_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    display = Display.__new__(Display)
    display.log, display._live = None, None
    monkeypatch.setattr("sys.stderr", FullStream())
    display.print_line("t = 1.0 s: sim running")


INTERRUPTED = """
import sys
class Interrupt:  # as Ctrl-C does at that moment
    def find_spec(self, name, *more):
        if name == "nodes.cli.commands.models.maps":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupt())
sys.argv = ["armswing", "robot"]
from nodes.cli import main
main()
"""


def test_an_interrupt_while_modules_are_imported_is_no_traceback() -> None:
    ran = subprocess.run([sys.executable, "-P", "-c", INTERRUPTED], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (130, "", "")


VERSION = """
import atexit, os, sys
sys.argv = ["armswing", "--version"]
atexit.register(lambda: print("threads", os.environ["OPENBLAS_NUM_THREADS"]))
from nodes.cli import main
main()
"""


@pytest.mark.parametrize(("given", "used"), [(None, "1"), ("3", "3")])
def test_linear_algebra_uses_one_thread_unless_the_user_gives_a_number(given: str | None, used: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    environment |= {"OPENBLAS_NUM_THREADS": given} if given else {}
    command = [sys.executable, "-P", "-c", VERSION]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert ran.stdout.splitlines()[-1] == f"threads {used}"


def test_a_warning_before_an_error_is_one_line_too(tmp_path: Path) -> None:
    urdf = (
        '<robot name="rod"><link name="base"/><link name="rod"><inertial><mass value="1"/>'
        '<inertia ixx="1" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/></inertial></link>'
        '<joint name="hinge" type="continuous"><parent link="base"/><child link="rod"/></joint></robot>'
    )
    (tmp_path / "rod.urdf").write_text(urdf)
    (tmp_path / "run.toml").write_text('[sim]\nrobot = "rod.urdf"\nmode = "lockstep"\nreactions = ["hing"]\n')
    command = [sys.executable, "-P", "-m", "nodes.cli", "launch", "run.toml"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert ran.returncode == 2
    *warned, refused = ran.stderr.splitlines()
    assert any("inertia has principal moments" in line for line in warned)
    assert all(line.startswith("warning: robot ") for line in warned)
    assert "did you mean 'hinge'?" in refused
