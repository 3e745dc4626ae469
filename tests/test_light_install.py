"""A computer without the extras: controllers, drivers and recorders run; all else names what installs it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from nodes.framework.client import Client, NotLiveError, read_recording

ROOT = Path(__file__).resolve().parent.parent
EXTRAS = "casadi llvmlite numba numpy scipy skfuzzy networkx pyqtgraph PyQt5 matplotlib jinja2 serial foxglove"
REFUSE = f"""
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {EXTRAS.split()!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Refuse())
sys.path.insert(0, {str(ROOT)!r})
"""
CLI = f"{REFUSE}\nfrom nodes.cli import main\nmain()"
PLAN = """
[hosts]
desk = "127.0.0.2"
robot = "127.0.0.3"
[sim]
robot = "rotary_pendulum"
host = "desk"
[[nodes]]
name = "planner"
run = "nodes/controllers/swing_up.py:SwingUp"
host = "desk"
[[nodes]]
name = "driver"
run = "my_driver.py:Driver"
host = "robot"
[[nodes]]
name = "recorder"
run = "nodes/recorder.py:Recorder"
host = "robot"
params = { file = "run.mcap" }
"""


class Desk:
    """A live simulation with all that is installed, and commands of a computer without the extras beside it."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.folder, self.environment = folder, environment
        self._started: list[subprocess.Popen[str]] = []

    def start(self, *words: str, light: bool = True) -> subprocess.Popen[str]:
        program = ["-c", CLI] if light else ["-m", "nodes.cli"]
        command = [sys.executable, "-P", *program, *words]
        pipe = subprocess.PIPE
        started = subprocess.Popen(
            command, cwd=self.folder, env=self.environment, stdout=pipe, stderr=pipe, text=True, start_new_session=True
        )
        self._started.append(started)
        return started

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        process = self.start(*words)
        out, err = process.communicate(timeout=60.0)
        return subprocess.CompletedProcess(words, process.returncode, out, err)

    def close(self) -> None:
        for process in self._started:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    runtime = tempfile.mkdtemp(prefix="as")  # short: ipc paths have a limit
    monkeypatch.setenv("XDG_RUNTIME_DIR", runtime)
    for name in ("my_driver.py", "my_controller.py"):
        (tmp_path / name).write_text((ROOT / "launch/examples" / name).read_text())
    made = Desk(tmp_path, os.environ | {"PYTHONPATH": str(ROOT)})
    yield made
    made.close()
    shutil.rmtree(runtime)


def waited(condition: Callable[[], object], timeout_s: float = 60.0) -> object:
    deadline = time.monotonic() + timeout_s
    while not (found := condition()):
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)  # between two looks at the condition
    return found


def running(*names: str) -> bool:
    try:
        with Client() as client:
            states = {entry.name: entry.state for entry in client.nodes()}
    except NotLiveError:
        return False
    return all(states.get(name) in ("ready", "running") for name in names)


def test_a_controller_and_a_recorder_run_without_what_the_extras_install(desk: Desk) -> None:
    (desk.folder / "plan.toml").write_text('[sim]\nrobot = "rotary_pendulum"\nstep_ms = 5.0\n')
    desk.start("launch", "plan.toml", light=False)
    waited(lambda: running("sim"))
    controller = desk.start("run", "my_controller.py:HoldArm")
    recorder = desk.start("record", "--output", "run.mcap")
    file = desk.folder / "run.mcap"

    def is_recorded() -> bool:
        assert controller.poll() is None, controller.communicate()
        assert recorder.poll() is None, recorder.communicate()
        return file.exists() and file.stat().st_size > 100_000

    waited(is_recorded)
    for process in (recorder, controller):
        os.kill(process.pid, signal.SIGINT)
        assert process.wait(30.0) == 0, process.communicate()
    recording = read_recording(file)
    assert len(recording["rotary_pendulum/command"]["timestamp"]) > 10
    assert len(recording["rotary_pendulum/state"]["timestamp"]) > 10


def test_a_further_hosts_launch_checks_its_own_nodes_without_what_the_extras_install(desk: Desk) -> None:
    (desk.folder / "plan.toml").write_text(PLAN)
    program = """
import json
from nodes.framework.launching.hosts import host_launch
from nodes.framework.launching.hosts.remote_nodes import digests
from nodes.framework.plan.files.file import load_plan
plan = load_plan("plan.toml", host="robot")
print(json.dumps([[node.name for node in plan.nodes_on("robot")], digests(plan)]))
"""

    def answer(text: str) -> list[Any]:
        command = [sys.executable, "-P", "-c", text]
        done = subprocess.run(
            command, cwd=desk.folder, env=desk.environment, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, done.stderr
        found: list[Any] = json.loads(done.stdout)
        return found

    assert answer(REFUSE + program)[0] == ["driver", "recorder"]
    assert answer(REFUSE + program) == answer(program)  # the plan is that of the server
    (desk.folder / "plan.toml").write_text(PLAN.replace("my_driver.py:Driver", "my_driver.py:Drive"))
    refused = desk.run("launch", "plan.toml", "--host", "robot")
    assert refused.returncode == 2
    assert "node 'driver': run = " in refused.stderr
    assert "did you mean 'Driver'?" in refused.stderr


@pytest.fixture(scope="module")
def light(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the libraries of a light install alone, so that nothing but the absence of the others raises."""
    folder = tmp_path_factory.mktemp("light")
    for path in Path(pytest.__file__).parents[1].iterdir():
        if path.name.partition(".")[0] not in EXTRAS.split():
            (folder / path.name).symlink_to(path)
    return folder


@pytest.mark.parametrize(
    ("words", "extra"),
    [
        ("robot list", "sim"),
        ("robot show rotary_pendulum", "sim"),
        ("launch plan.toml", "sim"),
        ("run nodes/controllers/pd.py:JointPD", "sim"),
        ("view", "viewer"),
    ],
)
def test_what_is_missing_is_named_with_the_command_that_installs_it(desk: Desk, words: str, extra: str) -> None:
    (desk.folder / "plan.toml").write_text('[sim]\nrobot = "rotary_pendulum"\n')
    done = desk.run(*words.split())
    assert done.returncode in (1, 2, 3)
    assert f"pip install 'armswing[{extra}]'" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "extra"), [("robot list", "sim"), ("launch plan.toml", "sim"), ("bridge foxglove", "foxglove")]
)
def test_a_command_in_a_light_install_ends_with_one_line(words: str, extra: str, light: Path, tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text('[sim]\nrobot = "rotary_pendulum"\n')
    program = f"import sys; sys.path[:0] = {[str(ROOT), str(light)]!r}; from nodes.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program, *words.split()],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=os.environ | {"XDG_RUNTIME_DIR": str(tmp_path)},
        timeout=60,
    )
    assert done.returncode in (1, 2, 3)
    assert done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.endswith(f"pip install 'armswing[{extra}]' installs it\n")


@pytest.mark.parametrize(
    "name", ["from armswing import Simulation", "from armswing import build", "import sim_core as s; s.assemble"]
)
def test_python_names_it_too(name: str) -> None:
    done = subprocess.run([sys.executable, "-P", "-c", f"{REFUSE}\n{name}"], capture_output=True, text=True, timeout=60)
    last = done.stderr.splitlines()[-1]
    assert last == "ModuleNotFoundError: No module named 'numpy'; pip install 'armswing[sim]' installs it"
