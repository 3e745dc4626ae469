"""The commands of `armswing`, in the order of `armswing --help`.

A module of this package either has a group of commands, `app`, or adds commands by its function `add_to`. A module is
imported only for its own commands, so that each command line starts fast.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable

import typer

MODULES = {
    "launch": "running.launching",
    "run": "running.launching",
    "robot": "models.robots",
    "topic": "network.topics",
    "message": "network.messages",
    "node": "network.graph",
    "graph": "network.connections",
    "sim": "running.simulation",
    "estop": "running.estop",
    "param": "running.parameters",
    "bridge": "network.bridges",
    "record": "recordings.files",
    "play": "recordings.files",
    "import": "recordings.importing",
    "info": "recordings.files",
    "export": "recordings.exporting",
    "compare": "recordings.comparing",
    "replay": "recordings.replaying",
    "view": "recordings.view",
    "reproduce": "models.studies",
    "sweep": "sweeping.sweep",
    "bode": "sweeping.bode",
    "hil": "recordings.hil",
    "keys": "setup.keys",
    "new": "setup.controller",
    "doctor": "setup.doctor",
}  # {command or group: module}
SUMMARIES = {
    "launch": "Start the simulation server and every node of a launch file, and print a summary at the end.",
    "run": "Run one node in this terminal, beside a live launch.",
    "robot": "Robots that can be simulated.",
    "topic": "Print, measure and publish messages on topics.",
    "message": "The messages of the topics.",
    "node": "The live nodes.",
    "graph": "Print the topics with their publishers and subscribers, one line per topic.",
    "sim": "Control the live simulation.",
    "estop": "Stop the actuators of all robots of the launch. The command works on any of the launch's computers.",
    "param": "Parameters of the live nodes.",
    "bridge": "Show a live launch in other programs.",
    "record": "Record every topic of the live domain until Ctrl-C.",
    "play": "Publish the messages of a recording again, at the recorded speed or at a multiple of this speed.",
    "import": "Write a log of another program as a recording, with measured states and applied commands of a robot.",
    "info": "Show runs, topics, message counts, rates, duration and parameters of a recording.",
    "export": (
        "Write a recording as CSV, as a file for Rerun or Foxglove, or as a bag of ROS 2; "
        "or write the C client library."
    ),
    "compare": (
        "Compare two recordings: the differences of their launch plans, and each joint's largest deviation of position."
    ),
    "replay": (
        "Feed a recorded run to one node, without sockets, and compare the node's messages with the recorded messages."
    ),
    "view": "Show plots and a picture of the bodies, live or from recordings; or write a picture, a film or a page.",
    "reproduce": "Repeat a paper's simulations, and write an HTML page with plots, tables and a verdict on each claim.",
    "sweep": "Run a launch file in lockstep for every combination of values, in one process per core.",
    "bode": "Measure the loop gain of a launch in lockstep, with its controllers in the loop, and print its margins.",
    "hil": "Check hardware, and compare it with the model: measured states with predicted ones.",
    "keys": "Keys for launches that span computers.",
    "new": "Write first files of your own.",
    "doctor": (
        "Check this computer: libraries, Qt, cores, settings, "
        "and the rate that a loop sustains. Exit code 1 on a fault."
    ),
}  # {command or group: its line in `armswing --help`}


def add_commands(app: typer.Typer, names: Iterable[str]) -> None:
    """Add the commands or groups with these names to an application, with the other commands of their modules."""
    for path, name in {MODULES[name]: name for name in names}.items():
        module = importlib.import_module(f"{__name__}.{path}")
        if hasattr(module, "add_to"):
            module.add_to(app)
        else:
            app.add_typer(module.app, name=name, help=SUMMARIES[name])


def add_summaries(app: typer.Typer) -> None:
    """Add all commands and groups to an application that only lists them, so that none of their modules is loaded."""
    for name, summary in SUMMARIES.items():
        app.command(name, help=summary)(lambda: None)
