"""Reading of a launch file with arguments and overrides, checked before any process starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from nodes.framework.plan.checks import check_duration, check_plan
from nodes.framework.plan.files.document import read_document
from nodes.framework.plan.files.including import Entry, Tables, composed, misplaced, project_folder
from nodes.framework.plan.files.shipped import launch_file
from nodes.framework.plan.key_checks import PlanError, convert
from nodes.framework.plan.launch_plan import Milestone, NodePlan, Plan, SimPlan, joined
from nodes.framework.plan.overrides import override


def load_plan(
    path: str | Path,
    overrides: Sequence[str] = (),
    host: str | None = None,
    arguments: Mapping[str, Any] | Sequence[str] = (),
    duration_s: float | None = None,
    warnings: list[str] | None = None,
) -> Plan:
    """Plan of a launch file, with arguments and overrides applied, after all checks.

    path       path of the launch file, or the name of an installed one, such as "gibbon_cable"
    overrides  texts such as "node.key=value" and "sim.key=value"
    host       name of this host if it is not the server's host; if this host lacks the packages for simulation, only
               the nodes that run on it are checked
    arguments  values of the file's arguments, {name: value} or texts "name=value"
    duration_s simulated seconds from the option --duration, for all simulations of the launch; None: the key
               `duration_s` of the launched file or, if it has none, of the included files
    warnings   list to which warnings are appended, one line each with file and key, such as a warning about a
               publication that no node receives; None to leave the warnings out

    Raises PlanError, one line with file, line and key.
    """
    tables = composed(read_document(launch_file(path)), arguments)
    for text in overrides:
        override(tables, text)
    plan = _plan(tables)
    if duration_s is None and plan.simulations:
        _share_duration(plan, tables)
    found = check_plan(plan, tables, host)
    if warnings is not None:
        warnings += [*tables.warnings, *found]
    if duration_s is not None:
        for each in (plan, *plan.simulations.values()):
            each.duration_s = duration_s
            check_duration(each, "--duration")
    for namespace, view in plan.simulations.items():
        view.nodes = _nodes_of(plan, namespace)
    return plan


def _plan(tables: Tables) -> Plan:
    """The plan of a launch. Where simulations have namespaces, `Plan.simulations` has one plan for each."""
    views = {namespace: _one_plan(part := tables.part(namespace), part.of_sim()) for namespace in tables.parts}
    if tables.sim is None and views:
        first = next(iter(views))
        plan = _one_plan(replace(tables.part(""), milestones=[]), tables.parts[first].of_sim())
        plan.sim = views[first].sim
    else:
        part = tables.part("")
        plan = _one_plan(part, part.of_sim())
    for entry in tables.nodes:
        node = convert(entry.table, NodePlan, entry.source, misplaced)
        node.name, node.namespace = joined(entry.namespace, node.name), entry.namespace
        plan.nodes.append(node)
    for namespace, view in views.items():
        view.sim.namespace = namespace
        view.domain, view.hosts = plan.domain, plan.hosts
        if "seed" not in tables.parts[namespace].plain:
            view.seed = plan.seed
    plan.simulations = views
    for namespace, view in plan.simulations.items():
        view.nodes = _nodes_of(plan, namespace)
    return plan


def _one_plan(tables: Tables, sim: Entry) -> Plan:
    """The plan of one simulation from its tables and its table [sim], without the nodes."""
    file = tables.source.file
    top: dict[str, Any] = {"name": file.stem, "sim": {"robot": ""}, "folder": str(project_folder(file))}
    for entry in tables.plain.values():
        convert({**top, **entry.table}, Plan, entry.source)
        top |= entry.table
    plan = convert(top, Plan, tables.source)
    plan.sim = convert(sim.table, SimPlan, sim.source, misplaced)
    plan.milestones = [convert(entry.table, Milestone, entry.source) for entry in tables.milestones]
    return plan


def _nodes_of(plan: Plan, namespace: str) -> list[NodePlan]:
    """The nodes of a namespace for the plan of its simulation. There, their names are without the namespace."""
    own = [node for node in plan.nodes if node.namespace == namespace]
    return [msgspec.structs.replace(node, name=node.local_name, namespace="") for node in own]


def _share_duration(plan: Plan, tables: Tables) -> None:
    """Give all simulations one duration: that of the launched file or, if it has none, of the included files.

    Raises PlanError if the included files have different durations.
    """
    found = {
        namespace: (view.duration_s, tables.parts[namespace].plain["duration_s"].source)
        for namespace, view in plan.simulations.items()
        if view.duration_s is not None
    }
    if plan.duration_s is None and found:
        values = {duration_s for duration_s, _ in found.values()}
        if len(values) > 1:
            there = ", ".join(f"{source.place('duration_s')} has {s:g} s" for s, source in found.values())
            where = f"{tables.source.file}: key 'duration_s'"
            raise PlanError(
                f"{where}: {there}; write one duration_s for all simulations in this file, or pass --duration"
            )
        plan.duration_s = values.pop()
    for view in plan.simulations.values():
        view.duration_s = plan.duration_s
