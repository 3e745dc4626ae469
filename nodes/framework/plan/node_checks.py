"""Checks of a plan's nodes: names, classes, parameters, topics, commanded actuators, and one recorder per file."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from nodes.framework.messages import JointCommand, Message
from nodes.framework.messages.topics import GLOBAL_TOPICS, ROBOT_TOPICS, lookup, resolve
from nodes.framework.plan.files.including import Entry
from nodes.framework.plan.files.source import Source
from nodes.framework.plan.key_checks import PlanError, convert, suggestion, worded
from nodes.framework.plan.launch_plan import NAME, NAME_LENGTH, LinkPlan, NodePlan, Plan
from nodes.framework.plan.node_classes import load_class, locate, misdeclared, reference, shortened, uncalled
from nodes.node import Node
from robots.files import is_file, is_reference, load, located
from sim_core.errors import InvalidRequest
from sim_core.support.extras import can_simulate
from sim_core.support.suggestion import nearest

TOPIC = re.compile(r"/?[A-Za-z][A-Za-z0-9_]*(/[A-Za-z][A-Za-z0-9_]*)*")


def check_names(nodes: Sequence[tuple[NodePlan, Entry]]) -> None:
    """Raise PlanError for a node whose name is too long, is no valid name or is used twice."""
    seen: dict[str, Source | None] = {"sim": None}
    for node, entry in nodes:
        where = entry.source
        if len(node.name) > NAME_LENGTH:
            reason = f"{node.name[:20]!r} ... has {len(node.name)} characters; give at most {NAME_LENGTH}"
            within = f" with its namespace {node.namespace!r}" if node.namespace else ""
            raise PlanError(f"{where.place('name')}: node: key 'name': {reason}{within}")
        if not NAME.fullmatch(str(entry.table.get("name"))):
            raise PlanError(
                f"{where.at('name')}: key 'name' is {node.name!r}; use letters, digits and _, with a letter first"
            )
        if node.name in seen:
            other = seen[node.name]
            used = "by the simulation server" if other is None else f"in {other.place()}"
            raise PlanError(
                f"{where.at('name')}: key 'name': {node.name!r} is already used {used}; give the node another name"
            )
        seen[node.name] = where


def check_times(node: NodePlan, mode: str, where: Source) -> None:
    """Raise PlanError for a node with the key `link` or `compute_ms` if the mode is not lockstep."""
    for key, unset in (("link", LinkPlan()), ("compute_ms", 0.0)):
        if getattr(node, key) != unset and mode != "lockstep":
            why = (
                "has no fixed order of messages and turns; lockstep runs as fast as it can, too"
                if mode == "fast"
                else "takes the times of the real network and nodes"
            )
            raise PlanError(
                f'{where.at(key)}: key {key!r} works in mode "lockstep" only, as mode "{mode}" of [sim] {why}; '
                'set mode = "lockstep", or remove the key'
            )


def node_class_of(node: NodePlan, plan: Plan, entry: Entry) -> type[Node]:
    try:
        path, name = locate(node.run, *entry.folders)
        below = Path(plan.folder) / (node.run.rpartition(":")[0] or node.run)
        if not is_file(below) or below.resolve() != path:
            node.run = reference(path, name)
        cls = load_class(reference(path, name))
    except PlanError as error:
        raise PlanError(f"{entry.source.at('run')}: {error}") from error.__cause__
    if wrong := misdeclared(cls) or uncalled(cls):
        raise PlanError(f"{entry.source}: {wrong}")
    return cls


def check_params(
    node: NodePlan, entry: Entry, cls: type[Node], robot: str, view: Plan, actuators: Collection[str]
) -> tuple[list[str], list[tuple[str, Collection[str] | None]]]:
    """Check the parameters of a node and the limits of its guard.

    Returns one-line notices, and (topic, names of the commanded actuators) for each topic with commands that the node
    publishes; None stands for all actuators.

    robot      first part of the topics of the node's robot
    view       plan of the simulation in the node's namespace
    actuators  names of the robots whose actuators are known
    """
    where = entry.source.table(f"{entry.source.label}: params", "params")
    node.params = worded(node.params, cls.Params)  # as its process receives them
    if isinstance(own := node.params.get("parameters"), dict):  # parameters of a robot model inside the node
        find_file(own, entry, where)
    if isinstance(model := node.params.get("robot"), str) and is_reference(model):
        node.params["robot"] = located_reference(model, entry, where)
    params = convert(node.params, cls.Params, where)
    notices: list[str] = []
    commands: list[tuple[str, Collection[str] | None]] = []
    try:
        cls.check(params, view)
        if node.guard is not None:
            notices += _check_guard(cls, node, node.guard, view, entry.source)
        if "raw_command" in cls.subscribes:
            notices += _check_margins(node, params, view, is_driver=False)
        for name in cls.publishes:
            topic = resolve(node.remap.get(name, name), robot)
            commanded, _, kind = topic.rpartition("/")
            if kind in ("command", "raw_command") and commanded in actuators:
                commands.append((topic, cls.commands(params, view)))
    except ValueError as error:
        raise error if isinstance(error, PlanError) else PlanError(f"{where}: {error}") from None
    return notices, commands


def _check_guard(cls: type[Node], node: NodePlan, guard: dict[str, Any], plan: Plan, where: Source) -> list[str]:
    """Check the limits of a driver's commands in the table `guard`; returns one-line notices.

    Raises PlanError, which names the key, for limits that are missing or do not fit the driver.
    """
    from nodes.guard.driver import require_driver  # numpy, which most nodes of a robot's own computer do not need
    from nodes.guard.limits import GuardParams

    in_guard = where.below("guard")
    try:
        limits = convert(guard, GuardParams, in_guard)
        require_driver(cls, limits, plan)
        return _check_margins(node, limits, plan, is_driver=True)
    except ValueError as error:
        raise error if isinstance(error, PlanError) else PlanError(f"{in_guard}: {error}") from None


def _check_margins(node: NodePlan, params: Any, plan: Plan, is_driver: bool) -> list[str]:
    """Check a guard's limits against the worst case of the robot's model; returns one-line notices.

    Raises ValueError with a one-line message if the robot cannot keep the limits.

    is_driver  whether the guard is in a driver's own process
    """
    from nodes.guard.limits import GuardParams

    if not isinstance(params, GuardParams) or not plan.sim.robot:
        return []
    if not can_simulate():
        return [f"the margins of the guard {node.name!r} are not checked: this needs pip install 'armswing[sim]'"]
    from nodes.guard.worst_case import check_margins

    return [f"the guard {node.name!r}: {line}" for line in check_margins(params, plan, is_driver)]


def check_commands(
    names: Collection[str] | None,
    actuators: Sequence[str],
    commanders: dict[str, str],
    node: str,
    where: Source,
    guards: Collection[str],
) -> None:
    """Add the actuators that a node commands to `commanders`, {actuator: node}.

    guards  names of the nodes that receive the commands of other nodes as `raw_command`
    Raises PlanError if another node already commands one of these actuators.
    """
    behind_guard = ""
    if guards and (node in guards) != any(each in guards for each in commanders.values()):
        behind_guard = ', or give the one that is no guard the key remap = { command = "raw_command" }'
    if names is None:
        if commanders:
            other = next(iter(commanders.values()))
            raise PlanError(
                f"{where}: the node's classmethod commands() names no actuators, so that the node commands all "
                f"actuators, also those of node {other!r}; return the names of the node's actuators from commands(), "
                f"or remove one of the two nodes{behind_guard}"
            )
        names = actuators or [""]  # a robot without actuators has one commanding node, too
    else:
        for name in names:
            if name not in actuators:
                raise PlanError(
                    f"{where}: the node commands actuator {name!r}, which the robot does not "
                    f"have{suggestion(name, actuators)}"
                )
    for name in names:
        if name in commanders:
            what = f"actuator {name!r}" if len(names) < len(actuators) else "all actuators"
            other = commanders[name]
            every = len(actuators) > 1 and list(commanders.values()).count(other) == len(actuators)
            fewer = "; a node commands all actuators unless its classmethod commands() names fewer" if every else ""
            raise PlanError(
                f"{where}: two nodes, {other!r} and {node!r}, command {what}{fewer}; remove one of the two "
                f"nodes{behind_guard}"
            )
        commanders[name] = node


def located_reference(robot: str, entry: Entry, where: Source) -> str:
    """Reference to a robot's Python function with the absolute path of the function's file.

    The file is searched in the folders `entry.folders`. Raises PlanError if it is not found.
    """
    try:
        found = located(robot, *entry.folders)
        load(found)
    except InvalidRequest as error:
        raise PlanError(f"{where.at('robot')}: key 'robot': {error}") from error.__cause__
    return found


def find_file(parameters: dict[str, Any], entry: Entry, where: Source) -> None:
    """Make the path in a robot's parameter `file` absolute.

    The file is searched in the folders `entry.folders`. Raises PlanError if it is not found.
    """
    given = parameters.get("file")
    if not isinstance(given, str) or not given:
        return
    places = [Path(folder).resolve() / given for folder in entry.folders]
    found = next((place for place in places if is_file(place)), None)
    if found is None:
        tried = ", ".join(dict.fromkeys(map(str, places)))
        at = where.at("parameters", "file")
        raise PlanError(f"{at}: key 'parameters.file': no such file {shortened(given)!r}; tried {shortened(tried)}")
    if found != Path.cwd() / given:
        parameters["file"] = str(found)


def check_topics(cls: type[Node], node: NodePlan, robot: str, plan: Plan, where: Source) -> None:
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


def check_recorded_files(classes: Mapping[str, type[Node]], plan: Plan, where: Mapping[str, Source]) -> None:
    """Raise PlanError if two recorders on the same host write to the same file."""
    writers: dict[Path, str] = {}
    for node in plan.nodes:
        file = node.params.get("file")
        if node.name not in classes or "*" not in classes[node.name].subscribes or not isinstance(file, str):
            continue
        path = Path(file).absolute()
        if path in writers and node.host == plan.node(writers[path]).host:
            at = where[node.name].below("params").at("file")
            raise PlanError(f"{at}: key 'file': {file!r} is also written by node {writers[path]!r}; give another file")
        writers[path] = node.name
