"""Plan of a run with a controller and its build for another processor, which gets the same turns."""

from __future__ import annotations

import shlex
from pathlib import Path

import msgspec

from nodes.messages.topics import resolve
from nodes.plan.key_checks import PlanError
from nodes.plan.launch_plan import NodePlan, Plan
from nodes.plan.loading import load_class
from nodes.plan.programs import ProgramNode, program_class

OTHER = "raw_command"  # topic of the other processor's commands: the simulation does not take them
RECORDER = "processor_recorder"


def plan_of_processors(plan: Plan, name: str, program: Path, emulator: str, recording: Path) -> tuple[Plan, str]:
    """The plan with the node's other build and a recorder, and the name of the other build's node.

    The simulation takes the commands of the node of the plan; those of the other build are recorded as `raw_command`.

    name      node of the plan, a program that publishes "command" only
    program   the same controller, built for another processor
    emulator  command that runs `program`; "" where it runs by itself

    PlanError, one line, for another node or program.
    """
    node = plan.node(name)
    cls = load_class(node.run, plan.folder)
    if not issubclass(cls, ProgramNode):
        raise PlanError(f"node {name!r}: run = {node.run!r} is Python, which has one build for all processors")
    if set(cls.publishes) != {"command"} or node.remap:
        raise PlanError(f"node {name!r}: a comparison takes a program that publishes 'command' only, without remap")
    if plan.sim.mode != "lockstep":
        raise PlanError(f"plan {plan.name!r} has mode {plan.sim.mode!r}; the same turns for both need lockstep")
    robot = plan.robot_of(node.namespace)
    for each in plan.nodes:
        other = load_class(each.run, plan.folder)
        topics = {resolve(each.remap.get(topic, topic), robot) for topic in (*other.subscribes, *other.publishes)}
        if resolve(OTHER, robot) in topics:
            raise PlanError(f"node {each.name!r} uses the topic {OTHER!r}, on which the other build's commands are")
    file = wrapper(program, emulator, recording.parent) if emulator else program.resolve()
    build = program_class(file)
    if build.Params is not cls.Params and _parameters(build) != _parameters(cls):
        raise PlanError(f"{program}: its parameters are not those of node {name!r}: it is another controller")
    other_name = f"{node.name}_other"
    copy = msgspec.structs.replace(node, name=other_name, run=str(file), remap={"command": OTHER})
    recorder = NodePlan(
        name=RECORDER, run="nodes/recorder.py:Recorder", params={"file": str(recording)}, host=node.host
    )
    return msgspec.structs.replace(plan, nodes=[*plan.nodes, copy, recorder]), other_name


def wrapper(program: Path, emulator: str, folder: Path) -> Path:
    """An executable script in `folder` that runs the program with the emulator."""
    file = folder / f"{program.name}_emulated"
    file.write_text(f'#!/bin/sh\nexec {emulator} {shlex.quote(str(program.resolve()))} "$@"\n')
    file.chmod(0o755)
    return file.resolve()


def _parameters(cls: type[ProgramNode]) -> list[tuple[str, object]]:
    return [(field.name, field.default) for field in msgspec.structs.fields(cls.Params)]
