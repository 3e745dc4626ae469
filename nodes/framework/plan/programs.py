"""Nodes that are programs, `run = "build/my_controller"`: executable files that describe themselves.

`PROGRAM --describe` prints the program's topics and parameters as JSON. The checks of a plan use a class that is made
from this description.
`armswing export client --lang c` writes a client library for such programs in C.
"""

from __future__ import annotations

import os
import subprocess
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar

import msgspec

from nodes.framework.messages import Message
from nodes.framework.messages.protocol import mismatch
from nodes.framework.messages.topics import lookup, resolve
from nodes.framework.plan.key_checks import PlanError
from nodes.framework.plan.launch_plan import NodePlan, Plan
from nodes.node import Node
from sim_core.tables import Range
from sim_core.trusted_files import UntrustedFile, require_named

DESCRIBE_S = 20.0  # longest time of `--describe`, under an emulator too
INFINITE = float("inf")


class ParameterDescription(msgspec.Struct, kw_only=True):
    """A parameter of a program: a number with inclusive limits.

    low, high  smallest and largest value; None if there is no limit
    """

    name: str
    default: float
    unit: str = ""
    low: float | None = None
    high: float | None = None


class ProgramDescription(msgspec.Struct, kw_only=True):
    """Description that a program prints with `--describe`; the other fields are attributes of `Node`.

    curve  whether the program connects to other computers, with keys
    """

    name: str
    protocol: int = 1
    curve: bool = False
    subscribes: list[str] = []
    publishes: list[str] = []
    lossless: bool = False
    rate_hz: float | None = None
    parameters: list[ParameterDescription] = []


class ProgramNode(Node):
    """Base of the classes that stand for programs in the checks of a plan. Creating an instance raises PlanError.

    file   executable file
    curve  whether the program connects to other computers, with keys
    """

    file: ClassVar[Path]
    curve: ClassVar[bool] = False

    def __init__(self) -> None:
        raise PlanError(
            f"{self.file} is a program, which runs in a process of its own; start it with 'armswing launch'"
        )

    def on_message(self, name: str, message: Message) -> None:
        """Never called: the program receives its messages itself."""

    @classmethod
    def check(cls, params: Any, plan: Plan) -> None:
        """Raise ValueError if the node is not on the server's host and its program was built without CURVE."""
        for node in plan.nodes:
            if not cls.curve and node.host != plan.sim.host and Path(plan.folder, node.run).resolve() == cls.file:
                raise ValueError(
                    f"node {node.name!r} is a program that was built without keys, so it can run on the server's host "
                    f"only; build it with 'make CURVE=1', or set host = {plan.sim.host!r}"
                )


def program_class(file: Path) -> type[ProgramNode]:
    """Class that stands for the program in an executable file.

    Raises PlanError with a one-line message if the file is not a program of a node.
    """
    found = file.stat()
    return _program_class(file, found.st_mtime_ns, found.st_size)


@cache
def _program_class(file: Path, _changed_ns: int, _size: int) -> type[ProgramNode]:
    described = describe(file)
    if line := mismatch(f"program {file}", described.protocol):
        raise PlanError(line)
    fields = [(each.name, _kind(each), each.default) for each in described.parameters]
    params = msgspec.defstruct("Params", fields, forbid_unknown_fields=True, module=__name__)
    body = {
        "file": file,
        "curve": described.curve,
        "subscribes": {name: message_of(name) for name in described.subscribes},
        "publishes": {name: message_of(name) for name in described.publishes},
        "lossless": described.lossless,
        "rate_hz": described.rate_hz,
        "Params": params,
        "__module__": __name__,
        "__doc__": f"The program {file}.",
    }
    return type(described.name, (ProgramNode,), body)


def describe(file: Path) -> ProgramDescription:
    """Topics and parameters of a program, as it prints them with `--describe`.

    Raises PlanError with a one-line message for any failure.
    """
    if not os.access(file, os.X_OK):
        raise PlanError(
            f"run = '{file}': the file is not executable; write 'path/to/file.py:ClassName', or run 'chmod +x {file}'"
        )
    try:
        require_named(file)
        done = subprocess.run(
            [file, "--describe"], capture_output=True, timeout=DESCRIBE_S, stdin=subprocess.DEVNULL, check=False
        )
    except UntrustedFile as error:
        raise PlanError(str(error)) from None
    except OSError as error:
        raise PlanError(f"run = '{file}': the program cannot be run: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        raise PlanError(f"run = '{file}': the program did not reply to --describe within {DESCRIBE_S:g} s") from None
    try:
        return msgspec.json.decode(done.stdout, type=ProgramDescription)
    except msgspec.MsgspecError as error:
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        why = f"exit code {done.returncode}{': ' + last[0] if last else ''}" if done.returncode else str(error)
        raise PlanError(
            f"run = '{file}': the program is not a node; with --describe it must print its topics and parameters as "
            f"JSON ({why})"
        ) from None


def message_of(name: str) -> type[Message]:
    """Message type that the topic table gives for a topic name; `Message` if the table does not have the topic."""
    row = lookup(resolve(name, "robot"))
    return Message if row is None else row.message


def _kind(each: ParameterDescription) -> Any:
    low, high = (-INFINITE if each.low is None else each.low), (INFINITE if each.high is None else each.high)
    return Annotated[float, Range(low, high, each.unit)]


def arguments(cls: type[ProgramNode], plan: Plan, node: NodePlan, folder: Path) -> list[str]:
    """Command with which a launch starts a program: the executable file and its arguments.

    folder  folder of the launch's domain, with its sockets, see `nodes/framework/transport/domain.py`
    """
    robot, mode = plan.robot_of(node.namespace), plan.sim.mode
    participant = mode == "lockstep" or (mode == "fast" and cls.lossless)
    given = ["--launched", "--name", node.name, "--robot", robot, "--host", node.host, "--folder", str(folder)]
    given += ["--mode", mode, "--participant", str(int(participant))]
    for name in (*cls.subscribes, *cls.publishes):
        given += ["--topic", f"{name}={resolve(node.remap.get(name, name), robot)}"]
    for key, value in node.params.items():
        given += ["--param", f"{key}={float(value)!r}"]
    return [str(cls.file), *given]
