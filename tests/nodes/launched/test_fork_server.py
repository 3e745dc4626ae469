"""The processes of a launch's nodes are copies of its fork server; who looks at them sees processes of their own."""

from __future__ import annotations

import errno
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from nodes.framework.client import Client
from nodes.framework.launching import launch

NODES = '''
import atexit
import os
import random
import sys
import threading
import time

from nodes.node import Node


class Teller(Node):
    """Writes what its process is like, and what happens at its end."""

    def on_start(self, context):
        import numpy

        self.name = context.name
        print(f"said by {self.name}", end="")
        self.write("numbers", random.random(), numpy.random.random())
        self.write("descriptors", *sorted(os.readlink(f"/proc/self/fd/{n}") for n in (0, 1, 2)))
        self.write("restarts", os.environ["ARMSWING_RESTARTS"], os.environ.get("SPT_NOENV"))
        self.write("modules", *(name for name in ("typer", "nodes.cli.application") if name in sys.modules))
        atexit.register(self.write, "exit function")
        global unclosed
        unclosed = open(f"{self.name}.global", "w")  # which an interpreter closes at its end
        unclosed.write("whole")
        self.itself = self
        self.unclosed = open(f"{self.name}.cycle", "wb")
        self.unclosed.write(b"whole")
        threading.Thread(target=self.outlive).start()

    def outlive(self):
        time.sleep(1.5)
        self.write("thread")

    def write(self, *words):
        with open(f"{self.name}.txt", "a") as file:
            print(*words, file=file)


class Quitter(Teller):
    """Ends its process with an exit code of its own."""

    def on_start(self, context):
        sys.exit(7)
'''


@pytest.fixture
def plan(ground: Any) -> Path:
    """A launch file with two nodes of one class, in a fast run."""
    (ground.folder / "tellers.py").write_text(NODES)
    nodes = "".join(f'[[nodes]]\nname = "{name}"\nrun = "tellers.py:Teller"\n' for name in ("one", "two"))
    file: Path = ground.launch_file(nodes, mode="fast")
    return file


def test_each_node_has_a_process_as_if_it_were_started_anew(ground: Any, plan: Path) -> None:
    done = ground.run("launch", plan, "--duration", "0.1")
    assert done.returncode == 0, done.stderr
    one, two = (
        [line.split() for line in (ground.folder / f"{name}.txt").read_text().splitlines()] for name in ("one", "two")
    )
    assert one[0] != two[0]  # random numbers
    log = ground.runtime / "armswing" / "0" / "logs" / "one.log"
    assert one[1] == ["descriptors", *sorted(["/dev/null", str(log), str(log)])]
    assert one[2] == ["restarts", "0", "None"]
    assert one[3] == ["modules"]
    assert one[4:] == [["thread"], ["exit", "function"]]  # in the order of an interpreter's end
    for unclosed in ("one.global", "one.cycle"):
        assert (ground.folder / unclosed).read_text() == "whole"
    assert log.read_text() == "said by one"


def test_exit_codes_of_nodes_reach_the_launch(ground: Any, plan: Path) -> None:
    plan.write_text(plan.read_text().replace("Teller", "Quitter"))
    done = ground.run("launch", plan, "--duration", "0.1")
    assert done.returncode == 7, done.stderr


def test_processes_are_children_of_the_launch_and_named(ground: Any) -> None:
    launch = ground.start("launch", ground.launch_file(ground.node("Listener")))
    ground.wait_until_running(launch, 2)
    children = psutil.Process(launch.pid).children()
    assert [" ".join(child.cmdline()).strip() for child in children] == [
        "armswing: fork server",
        "armswing: sim",
        "armswing: listener",
    ]
    assert [os.getsid(child.pid) for child in children] == [child.pid for child in children]
    assert all(child.environ()["XDG_RUNTIME_DIR"] == str(ground.runtime) for child in children)


def test_a_launch_whose_fork_server_was_killed_starts_processes_anew(ground: Any, until: Any) -> None:
    """And one that is restarted by the fork server is a copy as the first was."""
    launch = ground.start("launch", ground.launch_file(ground.node("Listener", more='restart = "always"')))
    _, first = ground.wait_until_running(launch, 2)

    def listener_after(old: psutil.Process) -> psutil.Process:
        def pid() -> int:
            with Client(0) as client:
                return next((e.pid for e in client.nodes() if e.name == "listener" and e.state == "ready"), old.pid)

        until(lambda: pid() != old.pid)
        return psutil.Process(pid())

    first.kill()
    second = listener_after(first)
    assert second.name() == "armswing: listener"
    (server,) = [c for c in psutil.Process(launch.pid).children() if c.name() == "armswing: fork server"]
    server.kill()
    second.kill()
    third = listener_after(second)
    assert third.name().startswith("python")
    launch.send_signal(signal.SIGINT)
    out, _ = launch.communicate(timeout=30.0)
    assert launch.returncode == 130
    assert re.search(r"restarts +listener 2\n", out), out


@pytest.mark.parametrize("error", [TimeoutError(), ConnectionResetError(), OSError(errno.ECHILD, "no child")])
def test_a_process_that_the_fork_server_cannot_start_is_started_anew(
    error: OSError, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Failing:
        def start(self, *_: object) -> int:
            raise error

    monkeypatch.setattr(launch, "fork_server", Failing)
    node = launch.program("nobody", tmp_path / "no_plan.json")
    output = os.open(tmp_path / "log", os.O_WRONLY | os.O_CREAT)
    pid = launch.spawn(node, os.environ, output)
    os.close(output)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 2
    assert "not a saved plan" in (tmp_path / "log").read_text()


def test_a_process_with_threads_has_no_fork_server() -> None:
    code = (
        "import threading, time; from nodes.framework.launching.fork_server import *\n"
        "threading.Thread(target=time.sleep, args=(1.0,)).start(); start_fork_server(); print(fork_server())"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, timeout=60.0)
    assert done.stdout == "None\n", done.stderr
