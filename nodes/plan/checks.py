"""Checks of a plan beyond its schema: names, numbers, node classes, parameters, one commanding node per actuator."""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Collection, Mapping, Sequence
from importlib.util import find_spec
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import msgspec

from nodes.messages import Message
from nodes.messages.topics import ROBOT_TOPICS, lookup, resolve
from nodes.node import Node
from nodes.plan.handlers import uncalled
from nodes.plan.launch_plan import LOCAL, NAME, NAME_LENGTH, Milestone, NodePlan, Plan, SimPlan
from nodes.plan.loading import is_file, load_class, locate, shortened
from nodes.plan.tables import PlanError, convert, suggestion, worded
from robots.files import is_reference, load, located
from sim_core.errors import InvalidRequest
from sim_core.tables import out_of_range

LOCAL_HOSTS = (LOCAL, "127.0.0.1", "::1")


def check_plan(plan: Plan, file: Path, host: str | None = None) -> None:
    """Raise PlanError for the first error found.

    Paths in `run` that are not found below the plan's folder are made absolute.

    host  further host that runs its nodes of the plan here; where the simulation is not installed, only these nodes are
          checked. The launch at the server checks the whole plan, and both plans are compared.
    """
    only = host if host is not None and not can_simulate() else None
    _check_hosts(plan, file)
    _check_sim(plan, file, with_methods=only is None)
    actuators = _check_robot(plan, file) if only is None else None
    seen: set[str] = {"sim"}
    commanders: dict[str, str] = {}
    classes: dict[str, type[Node]] = {}
    for node in plan.nodes:
        where = f"{file}: node {node.name!r}"
        _check_node(node, seen, where)
        if only is not None and node.host != only:
            continue
        cls = classes[node.name] = _node_class(node, plan, file, where)
        node.params = worded(node.params, cls.Params)  # as its process receives them
        if isinstance(own := node.params.get("parameters"), dict):  # parameters of a robot model inside the node
            _find_file(own, plan, file, f"{where}: params")
        if isinstance(model := node.params.get("robot"), str) and is_reference(model):
            node.params["robot"] = _located(model, plan, file, f"{where}: params")
        params = convert(node.params, cls.Params, f"{where}: params")
        if wrong := uncalled(cls):
            raise PlanError(f"{where}: {wrong}")
        _check_topics(cls.publishes, plan.sim.robot_name, f"{where}: publishes")
        _check_topics(cls.subscribes, plan.sim.robot_name, f"{where}: subscribes")
        try:
            cls.check(params, plan)
            command = f"{plan.sim.robot_name}/command"
            if actuators is not None and any(resolve(each, plan.sim.robot_name) == command for each in cls.publishes):
                names = cls.commands(params, plan)
                _check_commands(names, actuators, commanders, node.name, where)
        except ValueError as error:
            raise error if isinstance(error, PlanError) else PlanError(f"{where}: params: {error}") from None
    for name, cls in classes.items() if only is None else ():
        _check_misspelt(cls, list(classes.values()), f"{file}: node {name!r}")


def _check_commands(
    names: Collection[str] | None, actuators: Sequence[str], commanders: dict[str, str], node: str, where: str
) -> None:
    """Add the actuators that a node commands to `commanders`; raise PlanError for an actuator that has two."""
    if names is None:
        if commanders:
            other = next(iter(commanders.values()))
            raise PlanError(
                f"{where}: commands the actuators that node {other!r} commands, as its classmethod commands() does "
                "not name its own; remove one"
            )
        names = actuators or [""]  # a robot without actuators has one commanding node, too
    else:
        for name in names:
            if name not in actuators:
                raise PlanError(
                    f"{where}: commands actuator {name!r}, which the robot does not have{suggestion(name, actuators)}"
                )
    for name in names:
        if name in commanders:
            what = f"actuator {name!r}, which" if len(names) < len(actuators) else "the actuators that"
            other = commanders[name]
            every = len(actuators) > 1 and list(commanders.values()).count(other) == len(actuators)
            fewer = "; a node commands all actuators unless its classmethod commands() names fewer" if every else ""
            raise PlanError(f"{where}: commands {what} node {other!r} commands{fewer}; remove one")
        commanders[name] = node


def _check_hosts(plan: Plan, file: Path) -> None:
    """Check the addresses in [hosts] and the host of each node; a node whose host is this computer gets the server's
    host."""
    for name, address in plan.hosts.items():
        where = f"{file}: [hosts]: key {name!r}"
        if not NAME.fullmatch(name) or name in LOCAL_HOSTS:
            raise PlanError(f"{where}: a host's name is letters, digits and _, a letter first, and not {LOCAL}")
        try:
            ip_address(address)
        except ValueError:
            raise PlanError(
                f"{where}: {address!r} is no numeric address such as 192.168.1.20; a name may resolve differently on"
                f" each host; 'getent ahosts {address}' shows its address here"
            ) from None
    named: list[tuple[str, SimPlan | NodePlan]] = [
        ("[sim]", plan.sim),
        *((f"node {node.name!r}", node) for node in plan.nodes),
    ]
    for owner, each in named:
        if each.host in LOCAL_HOSTS and (each is not plan.sim or not plan.hosts):
            each.host = plan.sim.host
        elif each.host not in plan.hosts:
            there = f"; its hosts are {', '.join(plan.hosts)}" if plan.hosts else "; a table [hosts] names them"
            raise PlanError(f"{file}: {owner}: key 'host': {each.host!r} is not in [hosts]{there}")


def can_simulate() -> bool:
    """Whether the packages of the extra `sim` are installed."""
    try:
        return all(find_spec(name) for name in ("casadi", "llvmlite", "numba", "numpy", "scipy"))
    except ModuleNotFoundError:
        return False


def _check_sim(plan: Plan, file: Path, with_methods: bool) -> None:
    sim = plan.sim
    if sim.watchdog_ms is True:
        raise PlanError(f"{file}: [sim]: key 'watchdog_ms': true is not a time; give ms, or 0 or false for none")
    if with_methods:
        _check_methods(sim, file)
    if len(plan.name) > NAME_LENGTH or not plan.name.isprintable():
        what = f"{len(plan.name)} characters" if plan.name.isprintable() else repr(plan.name[:NAME_LENGTH])
        raise PlanError(f"{file}: key 'name': {what}; a plan's name has at most {NAME_LENGTH}, all of them printable")
    check_duration(plan, f"{file}: key 'duration_s'")


def check_duration(plan: Plan, where: str) -> None:
    """Raise PlanError, beginning with `where`, for a duration out of its range or below one step."""
    kind = next(field.type for field in msgspec.structs.fields(Plan) if field.name == "duration_s")
    if plan.duration_s is None:
        return
    if line := out_of_range(plan.duration_s, kind):
        raise PlanError(f"{where}: {line}")
    if plan.duration_s < plan.sim.step_s * (1.0 - 1e-9):
        raise PlanError(f"{where}: {plan.duration_s:g} s is less than one step of {plan.sim.step_ms:g} ms")


def _check_methods(sim: SimPlan, file: Path) -> None:
    """Check stepper and stabilizer: names, keys of their tables, values."""
    from sim_core.errors import UnknownName

    for key, make in (("stepper", sim.make_stepper), ("stabilizer", sim.make_stabilizer)):
        asked = getattr(sim, key)
        where = f"{file}: [sim]: key {key!r}" if isinstance(asked, str) else f"{file}: [sim.{key}]"
        if isinstance(asked, dict) and not isinstance(asked.get("name"), str):
            raise PlanError(f"{where}: key 'name' is missing, as in name = \"{_usual(key)}\"")
        try:
            make()
        except UnknownName as error:
            what = f"no {key}" if error.kind == key else "unknown key"
            raise PlanError(f"{where}: {what} {error.name!r}{suggestion(error.name, error.available)}") from None
        except InvalidRequest as error:
            raise PlanError(f"{where}: {error}") from None


def _usual(key: str) -> str:
    return str(getattr(SimPlan(robot=""), key))


def _check_robot(plan: Plan, file: Path) -> list[str]:
    """Check the robot and its parameters; returns the names of its actuators."""
    from robots.registry import OWN_FILE, build, names
    from sim_core.errors import SimulationWarning
    from sim_core.mechanism.validation import check_bounds

    where = f"{file}: [sim]"
    known = names()
    _find_file(plan.sim.parameters, plan, file, where)
    if is_reference(plan.sim.robot):
        plan.sim.robot = _located(plan.sim.robot, plan, file, where)
    elif plan.sim.robot not in known:
        near = suggestion(plan.sim.robot, known)
        raise PlanError(f"{where}: key 'robot': no robot {plan.sim.robot!r}{near}{OWN_FILE}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SimulationWarning)  # the server prints these warnings
            mechanism = build(plan.sim.robot, **plan.sim.parameters)
    except (ValueError, TypeError) as error:
        key = _named(str(error), plan.sim)
        raise PlanError(f"{where}: key {key!r}: {error}") from None
    for tunable in mechanism.tunables:
        if tunable.name in plan.sim.parameters:
            try:
                check_bounds(f"robot {plan.sim.robot!r}", tunable, tunable.value)
            except InvalidRequest as error:
                raise PlanError(f"{where}: key 'parameters.{tunable.name}': {error}") from None
    _check_milestones(plan.milestones, {joint.name: joint.unit for joint in mechanism.moving_joints}, file)
    return [actuator.name for actuator in mechanism.actuators]


def _located(robot: str, plan: Plan, file: Path, where: str) -> str:
    """A robot's file and function with the absolute path, looked for where a `run` is; PlanError where it is not."""
    try:
        found = located(robot, plan.folder, Path.cwd(), file.resolve().parent)
        load(found)
    except InvalidRequest as error:
        raise PlanError(f"{where}: key 'robot': {error}") from error.__cause__
    return found


def _find_file(parameters: dict[str, Any], plan: Plan, file: Path, where: str) -> None:
    """Make a robot's parameter `file` absolute; it is searched for in the same folders as a `run`."""
    asked = parameters.get("file")
    if not isinstance(asked, str) or not asked:
        return
    places = [Path(folder).resolve() / asked for folder in (plan.folder, Path.cwd(), file.resolve().parent)]
    found = next((place for place in places if is_file(place)), None)
    if found is None:
        tried = ", ".join(dict.fromkeys(map(str, places)))
        raise PlanError(f"{where}: key 'parameters.file': no such file {shortened(asked)!r}; tried {shortened(tried)}")
    if found != Path.cwd() / asked:
        parameters["file"] = str(found)


def _named(refusal: str, sim: SimPlan) -> str:
    """Key of [sim] that a robot's error message is about, by the parameter that the message begins with."""
    subject = refusal.removeprefix(f"robot {sim.robot!r}: ").partition(" ")[0]
    if subject in sim.parameters:
        return f"parameters.{subject}"
    return "parameters" if sim.parameters else "robot"


def _check_milestones(milestones: Sequence[Milestone], units: Mapping[str, str], file: Path) -> None:
    """Check milestones: unique names, existing joints with angles, references without a cycle."""
    after = {milestone.name: milestone.after for milestone in milestones}
    for number, milestone in enumerate(milestones):
        at = f"{file}: milestone {milestone.name!r}"
        if milestone.name in [other.name for other in milestones[:number]]:
            raise PlanError(f"{at}: key 'name': already used; every milestone needs its own name")
        if milestone.joint not in units:
            raise PlanError(f"{at}: key 'joint': no joint {milestone.joint!r}{suggestion(milestone.joint, units)}")
        if units[milestone.joint] != "rad":
            raise PlanError(
                f"{at}: key 'joint': {milestone.joint!r} is in {units[milestone.joint]}; expected a joint with an angle"
            )
        if milestone.after and milestone.after not in after:
            raise PlanError(f"{at}: key 'after': no milestone {milestone.after!r}{suggestion(milestone.after, after)}")
        chain = [milestone.name]
        while before := after.get(chain[-1]):
            if before in chain:
                raise PlanError(f"{at}: key 'after': {' after '.join(map(repr, [*chain, before]))} is a circle")
            chain.append(before)


def _check_node(node: NodePlan, seen: set[str], where: str) -> None:
    if len(node.name) > NAME_LENGTH:
        told = f"{len(node.name)} characters, {node.name[:20]!r} ...; a node's name has at most {NAME_LENGTH}"
        raise PlanError(f"{where.partition(': node ')[0]}: node: key 'name': {told}")
    if not NAME.fullmatch(node.name):
        raise PlanError(f"{where}: key 'name': use letters, digits and _, a letter first")
    if node.name in seen:
        raise PlanError(f"{where}: key 'name': already used; every node (and 'sim') needs its own name")
    seen.add(node.name)


def _node_class(node: NodePlan, plan: Plan, file: Path, where: str) -> type[Node]:
    beside = file.resolve().parent
    try:
        path, name = locate(node.run, plan.folder, Path.cwd(), beside)
        if not is_file(Path(plan.folder) / node.run.rpartition(":")[0]):
            node.run = f"{path}:{name}"
        return load_class(f"{path}:{name}")
    except PlanError as error:
        raise PlanError(f"{where}: {error}") from error.__cause__


def _check_topics(table: Mapping[str, type[Message]], robot: str, where: str) -> None:
    for name, message in table.items():
        row = None if name == "*" else lookup(resolve(name, robot))
        if row is not None and row.message is not message:
            raise PlanError(f"{where}: {name!r} carries {row.message.__name__}, not {message.__name__}")


def _check_misspelt(cls: type[Node], everyone: list[type[Node]], where: str) -> None:
    """Raise PlanError for a topic that no other node has and whose name is similar to a known one; other topics are
    valid."""
    said = {name for other in everyone for name in other.publishes}
    heard = {name for other in everyone for name in other.subscribes}
    for what, table, known, verb in (
        ("subscribes", cls.subscribes, said, "publishes"),
        ("publishes", cls.publishes, heard, "subscribes to"),
    ):
        for name, message in table.items():
            if name == "*" or name.startswith("/") or name in ROBOT_TOPICS or name in known:
                continue
            names = {row.name for row in ROBOT_TOPICS.values() if row.message is message} | known
            near = difflib.get_close_matches(name, sorted(names), n=1, cutoff=0.8)
            if near:
                raise PlanError(f"{where}: {what}: nobody {verb} {name!r}; did you mean {near[0]!r}?")
