"""Checks of the topics of a plan's nodes: message types, remapped and misspelt names, and one recorder per file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from nodes.messages import JointCommand, Message
from nodes.messages.topics import GLOBAL_TOPICS, ROBOT_TOPICS, lookup, resolve
from nodes.node import Node
from nodes.plan.files.including import Entry
from nodes.plan.files.source import Source
from nodes.plan.key_checks import PlanError, suggestion
from nodes.plan.launch_plan import NodePlan, Plan
from sim_core.support.suggestion import nearest

TOPIC = re.compile(r"/?[A-Za-z][A-Za-z0-9_]*(/[A-Za-z][A-Za-z0-9_]*)*")


def check_topics(cls: type[Node], node: NodePlan, plan: Plan, where: Source) -> None:
    """Check the names and types of a node's topics. Raises PlanError with a one-line message for the first error."""
    declared = {**cls.publishes, **cls.subscribes}
    for name, new in node.remap.items():
        at = f"{where.below('remap').at(name)}: key {name!r}"
        if name not in declared or name == "*":
            own = [each for each in declared if each != "*"]
            raise PlanError(f"{at}: the node has no topic {name!r}{suggestion(name, own) if own else ''}")
        if not TOPIC.fullmatch(new):
            raise PlanError(
                f"{at}: {new!r} is no valid topic name; write a name such as 'measured_state' or '/left/charmie/state'"
            )
    robot = plan.robot_of(node.namespace)
    for what, table in (("publishes", cls.publishes), ("subscribes", cls.subscribes)):
        for name, message in table.items():
            _check_topic(what, node.remap.get(name, name), message, robot, plan, where)


def _check_topic(what: str, name: str, message: type[Message], robot: str, plan: Plan, where: Source) -> None:
    if name == "*":
        return
    if not robot and not name.startswith("/"):
        there = ", ".join(filter(None, (view.sim.namespace for view in plan.views)))
        whole = f"/{plan.sim.robot_name}/{name}"
        raise PlanError(
            f"{where}: {what}: {name!r} is a topic of a robot, and no robot is simulated in this node's namespace; "
            f'set the key `namespace` of the node to one of {there}, or remap {name!r} to a full name such as "{whole}"'
        )
    row = lookup(resolve(name, robot))
    if row is not None and row.message is not message:
        raise PlanError(
            f"{where}: {what}: topic {name!r} has messages of type {row.message.__name__}, but the node declares "
            f"{message.__name__}; declare the topic's type, or use another topic"
        )


def check_misspelt(classes: Mapping[str, type[Node]], plan: Plan, where: Mapping[str, Source]) -> None:
    """Raise PlanError for a topic name that looks misspelt: no other node uses it, and it resembles a known name."""

    def names(table: Mapping[str, type[Message]], node: NodePlan) -> dict[str, type[Message]]:
        return {node.remap.get(name, name): message for name, message in table.items()}

    nodes = [node for node in plan.nodes if node.name in classes]
    published = {name for node in nodes for name in names(classes[node.name].publishes, node)}
    subscribed = {name for node in nodes for name in names(classes[node.name].subscribes, node)}
    for node in nodes:
        cls = classes[node.name]
        for what, table, known, verb in (
            ("subscribes", names(cls.subscribes, node), published, "publishes"),
            ("publishes", names(cls.publishes, node), subscribed, "subscribes to"),
        ):
            for name, message in table.items():
                if name == "*" or name.startswith("/") or name in ROBOT_TOPICS or name in known:
                    continue
                similar = {row.name for row in ROBOT_TOPICS.values() if row.message is message} | known
                if near := nearest(name, sorted(similar), cutoff=0.8):
                    line = f"{what}: no node {verb} {name!r}; did you mean {near!r}?"
                    raise PlanError(f"{where[node.name]}: {line}")


def check_types(classes: Mapping[str, type[Node]], plan: Plan, where: Mapping[str, Source]) -> None:
    """Raise PlanError for a topic that is declared with two message types, by two nodes or by one.

    Only names of types are compared, as two nodes may define the same type in a file each.
    """
    first: dict[str, tuple[str, str, str]] = {}  # {full topic: (name of the type, verb, node)}
    for node in plan.nodes:
        cls = classes.get(node.name, Node)
        both = ("publishes", cls.publishes), ("subscribes to", cls.subscribes)
        for verb, name, message in ((verb, *each) for verb, table in both for each in table.items()):
            topic = resolve(node.remap.get(name, name), plan.robot_of(node.namespace))
            kind, how, other = first.setdefault(topic, (message.__name__, verb, node.name))
            if name != "*" and kind != message.__name__:
                there = "it" if other == node.name else f"node {other!r}"
                raise PlanError(
                    f"{where[node.name]}: the node {verb} topic {'/' + topic!r} with messages of type "
                    f"{message.__name__}, and {there} {how} it with {kind}; use two topics"
                )


def unreceived(classes: Mapping[str, type[Node]], plan: Plan, where: Mapping[str, Source]) -> Iterator[str]:
    """Yield one line, with file and key, for each publication that `remap` gives a topic without subscribers.

    Only full names, such as "/left/charmie/command", are checked, except topics of the launch's robots and global
    topics. The line suggests a topic with a similar name, if there is one. If there is none, and a node outside of
    namespaces subscribes to all topics, no line is yielded, because this node receives the publication.
    """
    robots, received = [view.sim.robot_name for view in plan.views], _received(classes, plan)
    receives_all = any(
        "*" in classes[node.name].subscribes for node in plan.nodes if node.name in classes and not node.namespace
    )
    for node in plan.nodes:
        for name in classes[node.name].publishes if node.name in classes else ():
            new = node.remap.get(name, "")
            topic, (prefix, _, leaf) = new[1:], new[1:].rpartition("/")
            is_of_robot = prefix in robots and leaf in ROBOT_TOPICS
            if not new.startswith("/") or topic in received or topic in GLOBAL_TOPICS or is_of_robot:
                continue
            known = {each for each in received if lookup(topic) is None or each.rpartition("/")[2] == leaf}
            known |= {f"{robot}/{leaf}" for robot in robots if leaf in ROBOT_TOPICS}
            near = nearest(topic, sorted(known))
            if near or not receives_all:
                at = f"{where[node.name].below('remap').at(name)}: key {name!r}"
                meant = f"; did you mean {'/' + near!r}?" if near else ""
                yield f"{at}: no node of this launch subscribes to {new!r}{meant}"


def unexecuted(classes: Mapping[str, type[Node]], plan: Plan, where: Mapping[str, Source]) -> Iterator[str]:
    """Yield one line, with file and key, for each node whose commands were remapped to a topic that nobody executes.

    Neither the simulation nor a node subscribes to this topic by its name. For example, the guard subscribes to
    `raw_command`; in a launch without a guard, nobody does. A recorder subscribes to all topics, but executes nothing.
    """
    robots, received = [view.sim.robot_name for view in plan.views], _received(classes, plan)
    for node in plan.nodes:
        for name, message in classes[node.name].publishes.items() if node.name in classes else ():
            new = node.remap.get(name, "")
            topic = resolve(new, plan.robot_of(node.namespace)) if new else ""
            robot, _, leaf = topic.rpartition("/")
            if message is not JointCommand or robot not in robots or topic in received:
                continue
            if new.startswith("/") and leaf not in ROBOT_TOPICS:
                continue  # `unreceived` reports it
            remedy = "add a guard, or remove the key" if leaf == "raw_command" else "remove the key"
            at = f"{where[node.name].below('remap').at(name)}: key {name!r}"
            yield f"{at}: no node of this launch executes the commands {new!r}; {remedy}"


def _received(classes: Mapping[str, type[Node]], plan: Plan) -> set[str]:
    """Full names of the topics that the simulation or a node subscribes to by name."""
    received = {f"{view.sim.robot_name}/command" for view in plan.views}
    for node in plan.nodes:
        names = classes[node.name].subscribes if node.name in classes else {}
        robot = plan.robot_of(node.namespace)
        received |= {resolve(node.remap.get(name, name), robot) for name in names if name != "*"}
    return received


def check_recorded_files(classes: Mapping[str, type[Node]], plan: Plan, entries: Mapping[str, Entry]) -> None:
    """Raise PlanError if two recorders on the same host write to the same file."""
    writers: dict[Path, str] = {}
    for node in plan.nodes:
        file = node.params.get("file")
        if node.name not in classes or "*" not in classes[node.name].subscribes or not isinstance(file, str):
            continue
        path = Path(file).absolute()
        if path in writers and node.host == plan.node(writers[path]).host:
            at = entries[node.name].source.below("params").at("file")
            raise PlanError(f"{at}: key 'file': {file!r} is also written by node {writers[path]!r}; give another file")
        writers[path] = node.name
