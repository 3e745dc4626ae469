"""`armswing new`: writes a first controller and its launch file, which run unchanged."""

from __future__ import annotations

import keyword
import os
import textwrap
from pathlib import Path
from typing import Annotated, Any

import typer

from nodes.cli.terminal import InputError, print_line, warn
from nodes.framework.recording.new_file import write_file
from robots.files import is_reference, located, robot_name
from sim_core.support.suggestion import did_you_mean

app = typer.Typer(epilog="Example: armswing new controller my_damper", no_args_is_help=True)

CONTROLLER = '''\
"""Damps {joint!r} of the robot {robot_name}."""

import msgspec

from armswing import Node, messages


class {class_name}(Node):
    subscribes = {{"state": messages.RobotState}}
    publishes = {{"command": messages.JointCommand}}
    stateless = True  # else list the attributes in which it keeps its state: state_attributes = ("name",)

    class Params(msgspec.Struct, forbid_unknown_fields=True):
        joint: str = "{joint}"
{actuator}        damping: float = {damping:g}  # {damping_unit}
        limit: float = {limit}  # {unit}, {limit_is}

    @classmethod
    def commands(cls, params, plan):
        return [params.{commanded}]  # actuators that it commands; without this method, all

    def on_start(self, context):
        self.context = context  # context.params changes with `armswing param set`

    def on_message(self, name, state):
        params = self.context.params
        effort = -params.damping * state.velocity[state.name.index(params.joint)]
        effort = max(-params.limit, min(params.limit, effort))
        yield "command", messages.JointCommand(name=[params.{commanded}], value=[effort], state_seq=state.seq)
'''

LAUNCH = """\
# armswing launch {file} --duration 5
[sim]
robot = "{robot}"
mode = "realtime"            # realtime | fast | lockstep
step_ms = 1.0
watchdog_ms = 100            # without a command for so long the actuators are made safe; 0: never
safe_mode = {safe:<17}# zero_effort | hold

[[nodes]]
name = "{name}"
run = "{name}.py:{class_name}"
restart = "never"            # never | on-failure | always
params = {{ damping = {damping:g} }}
{rest}
[[nodes]]
name = "recorder"
run = "nodes/recorder.py:Recorder"
params = {{ file = "{name}.mcap" }}
"""

REST = """
[[nodes]]
name = "rest"                # holds the other joints by their servos; what nobody commands falls
run = "nodes/controllers/position.py:JointPosition"

[nodes.params]
joints = [
{joints}
]
"""
RESERVED = ("sim", "rest", "recorder")
SHARE = 0.1  # default damping as a fraction of the servo's, small enough to stay stable with delayed commands


@app.callback()
def _group() -> None:
    """Write starter files, for example for a controller of your own."""


@app.command("controller", epilog="Example: armswing new controller my_damper --robot charmie --joint left_arm_4")
def new_controller(
    name: Annotated[
        str, typer.Argument(help="Name of the node: lower-case letters, digits and _.", show_default=False)
    ],
    folder: Annotated[Path, typer.Option("--folder", help="Folder for the controller and its launch file.")] = Path(),
    robot: Annotated[
        str, typer.Option("--robot", help="One of `armswing robot list`, path/to/file.py:function or robot.urdf.")
    ] = "rotary_pendulum",
    joint: Annotated[
        str,
        typer.Option(
            "--joint", help="Joint or actuator that the controller commands.", show_default="the robot's first"
        ),
    ] = "",
) -> None:
    """Write a controller of 26 lines and a launch file that runs this controller."""
    if not name.isidentifier() or name != name.lower() or keyword.iskeyword(name) or name in RESERVED:
        raise InputError(f"{name!r} is no name for a node; use lower-case letters, digits and _, such as 'my_damper'")
    if not folder.is_dir():
        raise InputError(f"--folder {str(folder)!r}: there is no such folder")
    class_name = "".join(part.capitalize() for part in name.split("_"))
    about = _about(robot, joint)
    if is_reference(robot):  # as the launch file finds it, which is written in the folder
        robot = os.path.relpath(located(robot), folder)
    words = about | {
        "robot": robot,
        "robot_name": robot_name(robot),
        "name": name,
        "class_name": class_name,
        "file": folder / f"{name}.toml",
    }
    files = {folder / f"{name}.py": CONTROLLER.format(**words), folder / f"{name}.toml": LAUNCH.format(**words)}
    for path in files:
        if path.exists():
            raise InputError(f"{str(path)!r} exists; choose another name, or another --folder")
    for path, text in files.items():
        write_file(path, text)
        print_line(f"wrote {path}")
    print_line(f"try it: armswing launch {folder / name}.toml --duration 5 && armswing view {name}.mcap")


def _about(robot: str, joint: str) -> dict[str, Any]:
    """Return the values that fill the templates of the controller and the launch file.

    They are the joint, the joint's damping with unit, the joint's effort limit, and a node that holds the other joints.
    """
    from robots.registry import BUILTIN, build

    mechanism = build(robot)
    joints = {joint.name for joint in mechanism.joints if joint.coordinates == (joint.name,)}
    single = [each for each in mechanism.actuators if each.joint in joints]
    driven = {each.joint: each for each in single} | {each.name: each for each in single}
    if not driven:
        able = ", ".join(each for each in BUILTIN if build(each).actuators)
        raise InputError(f"robot {robot!r} has no actuator of a hinge or slide joint; choose one of the robots {able}")
    if joint and joint not in driven:
        raise InputError(
            f"--joint {joint!r}: there is no such actuator or driven joint; robot {robot!r} has "
            f"{', '.join(driven)}{did_you_mean(joint, driven)}"
        )
    chosen = driven[joint] if joint else single[0]
    held = [f'"{each.name}"' for each in single if each.servo and each is not chosen and each.name == each.joint]
    loose = [each.name for each in single if each.servo and each is not chosen and each.name != each.joint]
    if loose:
        warn(f"nothing holds {', '.join(map(repr, loose))}: the node `rest` holds actuators named as their joints only")
    rows = textwrap.fill(", ".join(held) + ",", 100, initial_indent="    ", subsequent_indent="    ")
    return {
        "joint": chosen.joint,
        "actuator": "" if chosen.name == chosen.joint else f'        actuator: str = "{chosen.name}"  # of the joint\n',
        "commanded": "joint" if chosen.name == chosen.joint else "actuator",
        "damping": SHARE * chosen.servo.damping if chosen.servo else 1e-3,
        "unit": chosen.unit,
        "limit": 'float("inf")' if chosen.effort_limit is None else f"{chosen.effort_limit:g}",
        "limit_is": "none in the description" if chosen.effort_limit is None else "what its actuator can do",
        "safe": '"hold"' if chosen.servo else '"zero_effort"',
        "damping_unit": "N s/m" if mechanism.joint(chosen.joint).is_length else "N m s/rad",
        "rest": REST.format(joints=rows) if held else "",
    }
