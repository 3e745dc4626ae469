"""Checks of a plan beyond its schema: names, numbers, node classes, parameters, one commanding node per actuator."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping
from ipaddress import ip_address

from nodes.framework.plan.files.including import Tables
from nodes.framework.plan.files.source import Source
from nodes.framework.plan.key_checks import PlanError, suggestion
from nodes.framework.plan.launch_plan import LOCAL, NAME, NAME_LENGTH, NodePlan, Plan, SimPlan, joined
from nodes.framework.plan.node_checks import (
    check_commands,
    check_misspelt,
    check_names,
    check_params,
    check_recorded_files,
    check_times,
    check_topics,
    check_types,
    find_file,
    located_reference,
    node_class_of,
    unexecuted,
    unreceived,
)
from nodes.framework.plan.node_classes import shortened
from robots.files import is_file, is_reference
from sim_core.errors import DescriptionWarning, InvalidRequest, SimulationWarning, UnknownName
from sim_core.support.extras import can_simulate
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
    robots = {view.sim.robot_name: (view, tables.part(view.sim.namespace)) for view in plan.views}
    nodes = list(zip(plan.nodes, tables.nodes, strict=True))
    views = {node.name: (plan.robot_of(node.namespace), plan.view(node.namespace)) for node in plan.nodes}
    _check_one_clock(plan, tables)
    _check_hosts(plan, tables)
    _find_timing(plan, tables, host)
    for view, part in robots.values():
        _check_sim(view, part, with_methods=only is None)
    actuators = {name: _check_robot(*robot) for name, robot in robots.items()} if only is None else {}
    check_names(nodes)
    for node, entry in nodes:
        check_times(node, plan.sim.mode, entry.source)
    here = [(node, entry) for node, entry in nodes if only is None or node.host == only]
    classes = {node.name: node_class_of(node, plan, entry) for node, entry in here}
    places = {node.name: entry.source for node, entry in nodes}
    for node, entry in here:
        check_topics(classes[node.name], node, views[node.name][0], plan, entry.source)
    notices: list[str] = []
    commanded: list[tuple[NodePlan, Source, str, Collection[str] | None]] = []
    for node, entry in here:
        found, commands = check_params(node, entry, classes[node.name], *views[node.name], actuators)
        notices += found
        commanded += [(node, entry.source, topic, names) for topic, names in commands]
    commanders: dict[str, dict[str, str]] = {}
    guards = [name for name, cls in classes.items() if "raw_command" in cls.subscribes]
    for node, where, topic, names in commanded:
        own = actuators[topic.rpartition("/")[0]]
        check_commands(names, own, commanders.setdefault(topic, {}), node.name, where, guards)
    for name, (view, _) in robots.items():
        view.commanders = commanders.get(f"{name}/command", {})
    check_recorded_files(classes, plan, places)
    if only is None:
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
    if 1e3 * plan.duration_s < plan.sim.step_ms * (1.0 - 1e-9):
        raise PlanError(
            f"{where}: {plan.duration_s:g} s is less than one time step of {plan.sim.step_ms:g} ms; give a longer "
            "duration"
        )


def _check_methods(sim: SimPlan, source: Source) -> None:
    """Check the names, the keys and the values of the tables [sim.stepper] and [sim.stabilizer]."""
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
    from robots.registry import build, names, other_forms
    from sim_core.mechanism.validation import check_bounds

    entry = tables.of_sim()
    where = entry.source
    known = names()
    find_file(plan.sim.parameters, entry, where)
    if is_reference(plan.sim.robot):
        plan.sim.robot = located_reference(plan.sim.robot, entry, where)
    elif plan.sim.robot not in known:
        near = suggestion(plan.sim.robot, known)
        other = other_forms(plan.sim.robot)
        raise PlanError(f"{where.at('robot')}: key 'robot': there is no robot {plan.sim.robot!r}{near}{other}")
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
