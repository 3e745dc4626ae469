"""Launch plan that runs a controller twice in lockstep: its usual program, and its program for another processor.

Both programs receive the same messages in each lockstep step.
"""

from __future__ import annotations

import shlex
from pathlib import Path

import msgspec

from nodes.framework.messages.topics import resolve
from nodes.framework.plan.key_checks import PlanError
from nodes.framework.plan.launch_plan import NodePlan, Plan
from nodes.framework.plan.node_classes import load_class
from nodes.framework.plan.programs import ProgramNode, program_class

OTHER = "raw_command"  # topic of the other processor's commands: the simulation does not take them
RECORDER = "processor_recorder"


def plan_of_processors(plan: Plan, name: str, program: Path, emulator: str, recording: Path) -> tuple[Plan, str]:
    """Add a controller's program for another processor to a lockstep plan. Returns (new plan, name of the added node).

    The new plan also has a recorder. The simulation obeys the commands of node `name`; the commands of the
    added node are only recorded, as `raw_command`.

    name       node of the plan that runs a program and publishes "command" only
    program    the same controller, built for another processor
    emulator   command that runs `program`; "" if this computer can run `program` directly
    recording  file for the recorder
    Raises PlanError with a one-line message if the node or the program is not suitable.
    """
    node = plan.node(name)
    cls = load_class(node.run, plan.folder)
    if not issubclass(cls, ProgramNode):
        raise PlanError(
            f"node {name!r} runs Python code (run = {node.run!r}), which is the same for all processors; "
            "choose a node that runs a compiled program"
        )
    if set(cls.publishes) != {"command"} or node.remap:
        raise PlanError(
            f"node {name!r} publishes other topics than 'command' or has a remap; "
            "choose a node that publishes 'command' only and has no remap"
        )
    if plan.sim.mode != "lockstep":
        raise PlanError(
            f"plan {plan.name!r} has mode {plan.sim.mode!r}, but only mode 'lockstep' delivers the same messages to "
            'this program and its build for the other processor; set mode = "lockstep"'
        )
    robot = plan.robot_of(node.namespace)
    for each in plan.nodes:
        other = load_class(each.run, plan.folder)
        topics = {resolve(each.remap.get(topic, topic), robot) for topic in (*other.subscribes, *other.publishes)}
        if resolve(OTHER, robot) in topics:
            raise PlanError(
                f"node {each.name!r} uses the topic {OTHER!r}, which the comparison needs for the commands of the "
                "other build; remove this node or remap its topic"
            )
    file = wrapper(program, emulator, recording.parent) if emulator else program.resolve()
    build = program_class(file)
    if build.Params is not cls.Params and _parameters(build) != _parameters(cls):
        raise PlanError(
            f"{program} has other parameters than node {name!r}; build it from the same controller as this node"
        )
    other_name = f"{node.name}_other"
    copy = msgspec.structs.replace(node, name=other_name, run=str(file), remap={"command": OTHER})
    recorder = NodePlan(
        name=RECORDER, run="nodes/recorder.py:Recorder", params={"file": str(recording)}, host=node.host
    )
    return msgspec.structs.replace(plan, nodes=[*plan.nodes, copy, recorder]), other_name


def wrapper(program: Path, emulator: str, folder: Path) -> Path:
    """Create an executable script in `folder` that runs the program with the emulator; returns its path."""
    file = folder / f"{program.name}_emulated"
    file.write_text(f'#!/bin/sh\nexec {emulator} {shlex.quote(str(program.resolve()))} "$@"\n')
    file.chmod(0o755)
    return file.resolve()


def _parameters(cls: type[ProgramNode]) -> list[tuple[str, object]]:
    return [(field.name, field.default) for field in msgspec.structs.fields(cls.Params)]
