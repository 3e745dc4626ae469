"""Nodes that end, hang or lose their file during a run: a launch that lacks a node does not end with exit code 0."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from nodes.framework.client import Client

ENDING = """
import os, sys
import msgspec
from nodes.node import Node
from nodes.framework.messages import JointCommand, RobotState

class Ending(Node):
    subscribes = {"state": RobotState}
    publishes = {"command": JointCommand}

    class Params(msgspec.Struct, forbid_unknown_fields=True):
        how: str = ""

    def on_start(self, context):
        self.how = context.params.how

    def on_message(self, name, state):
        if state.timestamp > 0.1 and self.how == "sys.exit":
            sys.exit()
        if state.timestamp > 0.1 and self.how == "os._exit":
            os._exit(0)
        while state.timestamp > 0.1 and self.how == "hang":
            pass
        yield "command", JointCommand(name=["arm"], value=[0.0], state_seq=state.seq)
"""


def ending(how: str, more: str = "") -> str:
    return f'[[nodes]]\nname = "ending"\nrun = "ending.py:Ending"\nparams = {{ how = "{how}" }}\n{more}'


@pytest.mark.parametrize(
    ("how", "line"),
    [
        ("sys.exit", "node 'ending': its code called sys.exit(None); return instead"),
        ("os._exit", "node 'ending' ended during the run"),
        ("hang", "node 'ending' hung: it did not answer the request to end"),
    ],
)
def test_a_required_node_that_is_missing_at_the_end_fails_the_launch(how: str, line: str, ground: Any) -> None:
    (ground.folder / "ending.py").write_text(ENDING)
    done = ground.run("launch", ground.launch_file(ending(how), more="duration_s = 0.5\n"))
    assert done.returncode == 1, done.stdout + done.stderr
    assert line in done.stdout + done.stderr


def test_a_node_that_is_asked_to_end_does_not_fail_the_launch(ground: Any, until: Callable[..., None]) -> None:
    (ground.folder / "ending.py").write_text(ENDING)
    process = ground.start("launch", ground.launch_file(ending("")))
    ground.wait_until_running(process, 2)
    with Client(0) as client:
        client.call("ending", "shutdown")
        until(lambda: all(entry.name != "ending" for entry in client.nodes()))
        client.call("sim", "shutdown")
    out, err = process.communicate(timeout=60.0)
    assert process.returncode == 0, out + err


def test_a_nodes_file_that_is_deleted_during_the_run_does_not_change_its_end(ground: Any) -> None:
    (ground.folder / "ending.py").write_text(ENDING)
    recorder = '[[nodes]]\nname = "recorder"\nrun = "nodes/recorder.py:Recorder"\nparams = { file = "run.mcap" }\n'
    process = ground.start("launch", ground.launch_file(ending("") + recorder))
    ground.wait_until_running(process, 3)
    (ground.folder / "ending.py").unlink()
    with Client(0) as client:
        client.call("sim", "shutdown")
    out, err = process.communicate(timeout=60.0)
    assert process.returncode == 0, out + err
    assert "file written" in out


def test_a_file_that_ends_the_program_when_it_is_imported_is_refused(ground: Any) -> None:
    (ground.folder / "ending.py").write_text("import sys\n" + ENDING + "\nsys.exit()\n")
    done = ground.run("launch", ground.launch_file(ending("")))
    assert done.returncode == 2
    assert "ending.py failed, line 27: SystemExit: it calls sys.exit(None)" in done.stderr
    assert done.stderr.count("\n") == 1
