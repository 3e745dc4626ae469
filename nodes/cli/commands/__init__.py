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
    "info": "recordings.files",
    "export": "recordings.files",
    "compare": "recordings.comparing",
    "replay": "recordings.replaying",
    "view": "recordings.view",
    "reproduce": "models.studies",
    "sweep": "sweeping.sweep",
    "hil": "recordings.hil",
    "keys": "setup.keys",
    "new": "setup.controller",
    "doctor": "setup.doctor",
}  # {command or group: module}


def add_commands(app: typer.Typer, names: Iterable[str]) -> None:
    """Add the commands or groups with these names to an application, with the other commands of their modules."""
    for path, name in {MODULES[name]: name for name in names}.items():
        module = importlib.import_module(f"{__name__}.{path}")
        if hasattr(module, "add_to"):
            module.add_to(app)
        else:
            app.add_typer(module.app, name=name)
