"""Checks of a plan beyond its schema: names, numbers, node classes, parameters, one commanding node per actuator."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping, Sequence
from importlib.util import find_spec
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from nodes.messages.topics import resolve
from nodes.node import Node
from nodes.plan.files.including import Entry, Tables
from nodes.plan.files.source import Source
from nodes.plan.handlers import misdeclared, uncalled
from nodes.plan.key_checks import PlanError, convert, suggestion, worded
from nodes.plan.launch_plan import LOCAL, NAME, NAME_LENGTH, LinkPlan, NodePlan, Plan, SimPlan, joined
from nodes.plan.loading import is_file, load_class, locate, reference, shortened
from nodes.plan.topic_checks import (
    check_misspelt,
    check_recorded_files,
    check_topics,
    check_types,
    unexecuted,
    unreceived,
)
from robots.files import is_reference, load, located
from sim_core.errors import InvalidRequest
from sim_core.tables import fields_of, out_of_range

LOCAL_HOSTS = (LOCAL, "127.0.0.1", "::1")


def check_plan(plan: Plan, tables: Tables, host: str | None = None) -> list[str]:
    """Check a plan. Raises PlanError for the first error found. Returns warnings, one line each.

    Paths in `run` that are not found below the plan's folder are made absolute.

    tables  the tables that the plan was made from, with their places in the launch files
    host    name of this host if it is not the server's host. If this host lacks the packages for simulation, only the
            nodes that run on this host are checked; the launch on the server's host checks the whole plan
    """
    if not can_simulate():
        return _check(plan, tables, host, only=host)
    from robots.registry import built_once
    from sim_core.errors import DescriptionWarning

    is_refused = True
    try:
        with built_once(), warnings.catch_warnings(record=True) as found:  # most nodes ask for the robot too
            warnings.simplefilter("always", DescriptionWarning)
            notes = _check(plan, tables, host, only=None)
            is_refused = False
    finally:
        caught = {str(each.message): each for each in found}
        for each in caught.values():
            # in a launch that starts, the processes that build a robot print these
            if is_refused or not issubclass(each.category, DescriptionWarning):
                warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)
    return notes


def _check(plan: Plan, tables: Tables, host: str | None, only: str | None) -> list[str]:
    """Check a plan as `check_plan` does; only the nodes of the host `only`, if that is not None."""
    _check_one_clock(plan, tables)
    _check_hosts(plan, tables)
    _find_timing(plan, tables, host)
    actuators: dict[str, list[str]] = {}
    for view in plan.views:
        part = tables.part(view.sim.namespace)
        _check_sim(view, part, with_methods=only is None)
        if only is None:
            actuators[view.sim.robot_name] = _check_robot(view, part)
    seen: dict[str, Source | None] = {"sim": None}
    commanders: dict[str, dict[str, str]] = {}
    classes: dict[str, type[Node]] = {}
    notices: list[str] = []
    for node, entry in zip(plan.nodes, tables.nodes, strict=True):
        where = entry.source
        _check_node(node, seen, where)
        _check_times(node, plan.sim.mode, where)
        if only is not None and node.host != only:
            continue
        cls = classes[node.name] = _node_class(node, plan, entry)
        in_params = where.below("params")
        node.params = worded(node.params, cls.Params)  # as its process receives them
        if isinstance(own := node.params.get("parameters"), dict):  # parameters of a robot model inside the node
            _find_file(own, entry, in_params)
        if isinstance(model := node.params.get("robot"), str) and is_reference(model):
            node.params["robot"] = _located(model, entry, in_params)
        params = convert(node.params, cls.Params, in_params)
        if wrong := misdeclared(cls) or uncalled(cls):
            raise PlanError(f"{where}: {wrong}")
        check_topics(cls, node, plan, where)
        robot, view = plan.robot_of(node.namespace), plan.view(node.namespace)
        try:
            cls.check(params, view)
            notices += _check_guard(cls, node, view, where)
            if "raw_command" in cls.subscribes:
                notices += _check_margins(node, params, view, is_driver=False)
            for name in cls.publishes:
                commanded, _, topic = resolve(node.remap.get(name, name), robot).rpartition("/")
                if topic in ("command", "raw_command") and commanded in actuators:
                    guards = [each for each, kind in classes.items() if "raw_command" in kind.subscribes]
                    names, others = cls.commands(params, view), commanders.setdefault(f"{commanded}/{topic}", {})
                    _check_commands(names, actuators[commanded], others, node.name, str(where), guards)
        except ValueError as error:
            raise error if isinstance(error, PlanError) else PlanError(f"{in_params}: {error}") from None
    for view in plan.views:
        view.commanders = commanders.get(f"{view.sim.robot_name}/command", {})
    check_recorded_files(classes, plan, {entry.name: entry for entry in tables.nodes})
    if only is None:
        places = {entry.name: entry.source for entry in tables.nodes}
        check_misspelt(classes, plan, places)
        check_types(classes, plan, places)
        return [*notices, *unreceived(classes, plan, places), *unexecuted(classes, plan, places)]
    return notices


def _find_timing(plan: Plan, tables: Tables, host: str | None) -> None:
    """Make the path in `timing_from` absolute; on a host other than the server's, set it to "".

    The key `timing_from` names a recording with measured delays and losses of messages. Only the server reads this
    recording, to emulate the delays and losses in lockstep.
    Raises PlanError if the file is not found, the mode is not lockstep, or an included file has the key.
    """
    for part in tables.parts.values():
        if "timing_from" in part.plain:
            where = part.plain["timing_from"].source.at("timing_from")
            raise PlanError(
                f"{where}: key 'timing_from': an included file must not have this key; move it to the launched file"
            )
    if not plan.timing_from or host is not None:
        plan.timing_from = ""
        return
    entry = tables.plain["timing_from"]
    where = f"{entry.source.at('timing_from')}: key 'timing_from'"
    if plan.sim.mode != "lockstep":
        raise PlanError(
            f'{where} works in mode "lockstep" only, but [sim] has mode "{plan.sim.mode}"; remove the key, or set '
            'mode = "lockstep"'
        )
    found = next((path for path in (folder / plan.timing_from for folder in entry.folders) if is_file(path)), None)
    if found is None:
        raise PlanError(f"{where}: no such file {shortened(plan.timing_from)!r}; give a recording of a run in realtime")
    plan.timing_from = str(found.resolve())


def _check_guard(cls: type[Node], node: NodePlan, plan: Plan, where: Source) -> list[str]:
    """Check the limits of a driver's commands in the table `guard`; returns one-line notices.

    Raises PlanError, which names the key, for limits that are missing or do not fit the driver.
    """
    if node.guard is None:
        return []
    from nodes.guard.driver import require_driver  # numpy, which most nodes of a robot's own computer do not need
    from nodes.guard.limits import GuardParams

    in_guard = where.below("guard")
    try:
        limits = convert(node.guard, GuardParams, in_guard)
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


ONE_CLOCK = ("mode", "step_ms", "speed", "deadline_ms", "host", "overrun_policy", "cpu", "realtime_priority")


def _check_one_clock(plan: Plan, tables: Tables) -> None:
    """Check that all simulations of a launch share one clock: equal time steps, modes, speeds and computers."""
    first, *others = plan.views
    for other in others:
        for key in ONE_CLOCK:
            one, two = getattr(first.sim, key), getattr(other.sim, key)
            if one != two:
                where = tables.part(other.sim.namespace).of_sim().source.at(key)
                there = f"{two!r}, and {joined(first.sim.namespace, 'sim')} has {one!r}"
                raise PlanError(f"{where}: key {key!r} is {there}; give all simulations of a launch the same value")


def _check_commands(
    names: Collection[str] | None,
    actuators: Sequence[str],
    commanders: dict[str, str],
    node: str,
    where: str,
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


def _check_hosts(plan: Plan, tables: Tables) -> None:
    """Check the addresses in [hosts] and the host of each node.

    In the plan, the host "localhost" of a node is replaced by the name of the server's host.
    """
    for name, address in plan.hosts.items():
        where = f"{tables.plain['hosts'].source.table('[hosts]', 'hosts').at(name)}: key {name!r}"
        if not NAME.fullmatch(name) or name in LOCAL_HOSTS:
            raise PlanError(
                f"{where}: a host's name must consist of letters, digits and _, with a letter first, and must not be "
                f"{LOCAL}; choose another name"
            )
        try:
            ip_address(address)
        except ValueError:
            raise PlanError(
                f"{where}: {address!r} is no numeric address; give an address such as 192.168.1.20, because a name may "
                f"resolve differently on each host (run 'getent ahosts {address}' to see the address on this computer)"
            ) from None
    first = plan.sim.namespace
    named: list[tuple[Source, SimPlan | NodePlan]] = [
        (tables.part(first).of_sim().source, plan.sim),
        *((entry.source, node) for entry, node in zip(tables.nodes, plan.nodes, strict=True)),
    ]
    for source, each in named:
        if each.host in LOCAL_HOSTS and (each is not plan.sim or not plan.hosts):
            each.host = plan.sim.host
        elif each.host not in plan.hosts:
            there = f"; the hosts are {', '.join(plan.hosts)}" if plan.hosts else "; add a table [hosts] with this host"
            raise PlanError(f"{source.at('host')}: key 'host': {each.host!r} is not in [hosts]{there}")


def can_simulate() -> bool:
    """Whether the packages that a simulation needs (the extra `sim`) are installed."""
    try:
        return all(find_spec(name) for name in ("casadi", "llvmlite", "numba", "numpy", "scipy"))
    except ModuleNotFoundError:
        return False


def _check_sim(plan: Plan, tables: Tables, with_methods: bool) -> None:
    sim, where = plan.sim, tables.of_sim().source
    if sim.watchdog_ms is True:
        raise PlanError(
            f"{where.at('watchdog_ms')}: key 'watchdog_ms': true is not a time; give a time in ms, or 0 or false for "
            "no watchdog"
        )
    if with_methods:
        _check_methods(sim, where)
    if len(plan.name) > NAME_LENGTH or not plan.name.isprintable():
        what = f"the name has {len(plan.name)} characters" if plan.name.isprintable() else repr(plan.name[:NAME_LENGTH])
        place = tables.source.at("name")
        raise PlanError(f"{place}: key 'name': {what}; give at most {NAME_LENGTH} printable characters")
    source = tables.plain["duration_s"].source if "duration_s" in tables.plain else tables.source
    check_duration(plan, f"{source.at('duration_s')}: key 'duration_s'")


def check_duration(plan: Plan, where: str) -> None:
    """Raise PlanError for a duration that is out of range or below one time step; the message begins with `where`."""
    kind = next(field.type for field in fields_of(Plan) if field.name == "duration_s")
    if plan.duration_s is None:
        return
    if line := out_of_range(plan.duration_s, kind):
        raise PlanError(f"{where} {line}")
    if plan.duration_s < plan.sim.step_s * (1.0 - 1e-9):
        raise PlanError(
            f"{where}: {plan.duration_s:g} s is less than one time step of {plan.sim.step_ms:g} ms; give a longer "
            "duration"
        )


def _check_methods(sim: SimPlan, source: Source) -> None:
    """Check the names, the keys and the values of the tables [sim.stepper] and [sim.stabilizer]."""
    from sim_core.errors import UnknownName

    for key, make in (("stepper", sim.make_stepper), ("stabilizer", sim.make_stabilizer)):
        given = getattr(sim, key)
        table = source.table(f"[sim.{key}]", key)
        where = f"{source.at(key)}: key {key!r}" if isinstance(given, str) else str(table)
        if isinstance(given, dict) and not isinstance(given.get("name"), str):
            raise PlanError(f"{where}: key 'name' is missing; add it, as in name = \"{_usual(key)}\"")
        try:
            make()
        except UnknownName as error:
            what = f"no {key}" if error.kind == key else "unknown key"
            where = where if isinstance(given, str) else table.at(error.name)
            raise PlanError(f"{where}: {what} {error.name!r}{suggestion(error.name, error.available)}") from None
        except InvalidRequest as error:
            raise PlanError(f"{where}: {error}") from None


def _usual(key: str) -> str:
    return str(getattr(SimPlan(robot=""), key))


def _check_robot(plan: Plan, tables: Tables) -> list[str]:
    """Check the robot and its parameters; returns the names of its actuators."""
    from robots.registry import OWN_FILE, build, names
    from sim_core.errors import SimulationWarning
    from sim_core.mechanism.validation import check_bounds

    entry = tables.of_sim()
    where = entry.source
    known = names()
    _find_file(plan.sim.parameters, entry, where)
    if is_reference(plan.sim.robot):
        plan.sim.robot = _located(plan.sim.robot, entry, where)
    elif plan.sim.robot not in known:
        near = suggestion(plan.sim.robot, known)
        raise PlanError(f"{where.at('robot')}: key 'robot': there is no robot {plan.sim.robot!r}{near}{OWN_FILE}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SimulationWarning)  # the server prints these warnings
            mechanism = build(plan.sim.robot, **plan.sim.parameters)
    except (ValueError, TypeError) as error:
        key = _named(str(error), plan.sim)
        raise PlanError(f"{where.at(*key.split('.', 1))}: key {key!r}: {error}") from None
    if plan.sim.reactions:
        try:
            plan.sim.make_mechanism()
        except ValueError as error:
            raise PlanError(f"{where.at('reactions')}: key 'reactions': {error}") from None
    for tunable in mechanism.tunables:
        if tunable.name in plan.sim.parameters:
            try:
                check_bounds(f"robot {plan.sim.robot!r}", tunable, tunable.value)
            except InvalidRequest as error:
                at = where.at("parameters", tunable.name)
                raise PlanError(f"{at}: key 'parameters.{tunable.name}': {error}") from None
    _check_milestones(plan, tables, {joint.name: joint.unit for joint in mechanism.moving_joints})
    return [actuator.name for actuator in mechanism.actuators]


def _located(robot: str, entry: Entry, where: Source) -> str:
    """Reference to a robot's Python function with the absolute path of the function's file.

    The file is searched in the folders `entry.folders`. Raises PlanError if it is not found.
    """
    try:
        found = located(robot, *entry.folders)
        load(found)
    except InvalidRequest as error:
        raise PlanError(f"{where.at('robot')}: key 'robot': {error}") from error.__cause__
    return found


def _find_file(parameters: dict[str, Any], entry: Entry, where: Source) -> None:
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


def _named(refusal: str, sim: SimPlan) -> str:
    """Key of [sim] to which a robot's error message refers: "parameters.NAME", "parameters" or "robot".

    The key is "parameters.NAME" if the message begins with the name of a parameter. Otherwise it is "parameters" if
    the plan sets any parameter of the robot, and "robot" if not.
    """
    subject = refusal.removeprefix(f"robot {sim.robot!r}: ").partition(" ")[0]
    if subject in sim.parameters:
        return f"parameters.{subject}"
    return "parameters" if sim.parameters else "robot"


def _check_milestones(plan: Plan, tables: Tables, units: Mapping[str, str]) -> None:
    """Check the keys `name`, `joint` and `after` of all milestones.

    Raises PlanError if two milestones have the same name, if a joint does not exist or is not rotational, if `after`
    names no milestone, or if milestones wait for each other in a circle.
    """
    milestones = plan.milestones
    after = {milestone.name: milestone.after for milestone in milestones}
    for number, (milestone, entry) in enumerate(zip(milestones, tables.milestones, strict=True)):
        where = entry.source
        if milestone.name in [other.name for other in milestones[:number]]:
            raise PlanError(
                f"{where.at('name')}: key 'name': the name is already used; give every milestone its own name"
            )
        if milestone.joint not in units:
            raise PlanError(
                f"{where.at('joint')}: key 'joint': there is no joint "
                f"{milestone.joint!r}{suggestion(milestone.joint, units)}"
            )
        if units[milestone.joint] != "rad":
            unit = units[milestone.joint]
            what = f"{milestone.joint!r} has positions in {unit}; choose a joint with an angle"
            raise PlanError(f"{where.at('joint')}: key 'joint': {what}")
        if milestone.after and milestone.after not in after:
            hint = suggestion(milestone.after, after)
            raise PlanError(f"{where.at('after')}: key 'after': there is no milestone {milestone.after!r}{hint}")
        chain = [milestone.name]
        while before := after.get(chain[-1]):
            if before in chain:
                raise PlanError(
                    f"{where.at('after')}: key 'after': the milestones wait for each other in a circle, "
                    f"{' after '.join(map(repr, [*chain, before]))}; remove one of these keys 'after'"
                )
            chain.append(before)


def _check_node(node: NodePlan, seen: dict[str, Source | None], where: Source) -> None:
    if len(node.name) > NAME_LENGTH:
        reason = f"{node.name[:20]!r} ... has {len(node.name)} characters; give at most {NAME_LENGTH}"
        within = f" with its namespace {node.namespace!r}" if node.namespace else ""
        raise PlanError(f"{where.place('name')}: node: key 'name': {reason}{within}")
    if not NAME.fullmatch(node.local_name) or "/" in node.local_name:
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


def _check_times(node: NodePlan, mode: str, where: Source) -> None:
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


def _node_class(node: NodePlan, plan: Plan, entry: Entry) -> type[Node]:
    try:
        path, name = locate(node.run, *entry.folders)
        below = Path(plan.folder) / (node.run.rpartition(":")[0] or node.run)
        if not is_file(below) or below.resolve() != path:
            node.run = reference(path, name)
        return load_class(reference(path, name))
    except PlanError as error:
        raise PlanError(f"{entry.source.at('run')}: {error}") from error.__cause__
