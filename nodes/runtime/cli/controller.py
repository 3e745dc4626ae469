"""`armswing new`: a first file of your own that runs as it is."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nodes.runtime.cli.terminal import InputError, say

app = typer.Typer(
    help="Start something of your own.", epilog="Example: armswing new controller my_damper", no_args_is_help=True
)

CONTROLLER = '''\
"""Damps the arm of the rotary pendulum."""

import msgspec

from armswing import Node, messages


class {class_name}(Node):
    listens = {{"state": messages.RobotState}}
    speaks = {{"command": messages.JointCommand}}

    class Params(msgspec.Struct, forbid_unknown_fields=True):
        joint: str = "arm"
        damping: float = 1e-3  # N m s/rad

    def on_start(self, context):
        self.context = context  # its params change with `armswing param set`

    def on_message(self, name, state):
        params = self.context.params
        effort = -params.damping * state.velocity[state.name.index(params.joint)]
        yield "command", messages.JointCommand(name=[params.joint], value=[effort], answers=state.seq)
'''

LAUNCH = """\
# armswing launch {file} --duration 5
[sim]
robot = "rotary_pendulum"
mode = "realtime"            # realtime | fast | lockstep
step_ms = 1.0
watchdog_ms = 100            # without a command for so long the actuators are made safe; 0: never
safe_mode = "zero_effort"    # zero_effort | hold

[[nodes]]
name = "{name}"
run = "{name}.py:{class_name}"
restart = "never"            # never | on-failure | always
params = {{ damping = 1e-3 }}

[[nodes]]
name = "recorder"
run = "nodes/recorder.py:Recorder"
params = {{ file = "{name}.mcap" }}
"""


@app.callback()
def _group() -> None:
    """Start something of your own."""


@app.command("controller", epilog="Example: armswing new controller my_damper")
def new_controller(
    name: Annotated[str, typer.Argument(help="What to call it: small letters and _.", show_default=False)],
    folder: Annotated[Path, typer.Option("--folder", help="Where to write.")] = Path(),
) -> None:
    """Write a controller of 20 lines and a launch file that runs it."""
    import keyword

    if not name.isidentifier() or name != name.lower() or keyword.iskeyword(name) or name == "sim":
        raise InputError(f"{name!r} is no name for a node; use small letters, digits and _, like 'my_damper'")
    if not folder.is_dir():
        raise InputError(f"--folder {str(folder)!r}: there is no such folder")
    class_name = "".join(part.capitalize() for part in name.split("_"))
    files = {
        folder / f"{name}.py": CONTROLLER.format(class_name=class_name),
        folder / f"{name}.toml": LAUNCH.format(name=name, class_name=class_name, file=folder / f"{name}.toml"),
    }
    for path in files:
        if path.exists():
            raise InputError(f"{str(path)!r} is there already; choose another name, or another --folder")
    for path, text in files.items():
        path.write_text(text)
        say(f"wrote {path}")
    say(f"try it: armswing launch {folder / name}.toml --duration 5 && armswing view {name}.mcap")
