"""Composition of launch files: arguments, groups, conditions and included files become one list of tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from nodes.framework.plan.files.arguments import Argument, Arguments, arguments_of, is_true, substituted
from nodes.framework.plan.files.document import Document, read_document
from nodes.framework.plan.files.source import Source
from nodes.framework.plan.key_checks import PlanError, convert, suggestion
from nodes.framework.plan.launch_plan import NAME, NAME_LENGTH, PLAIN_KEYS, Milestone, NodePlan, Plan, SimPlan, joined
from nodes.framework.plan.node_classes import shortened

PARTS = ("nodes", "milestones", "groups", "include")  # lists of tables, composed in the order of the file
TOP = {"sim", "hosts", "args", *PARTS, *PLAIN_KEYS}


class NodeTable(NodePlan, kw_only=True, forbid_unknown_fields=True):
    """A table [[nodes]] of a launch file.

    if  condition on the arguments, such as "args.viewer and not args.fast"; if it is false, the node is left out
    """

    condition: bool | str = msgspec.field(name="if", default=True)


class MilestoneTable(Milestone, kw_only=True, forbid_unknown_fields=True):
    """A table [[milestones]] of a launch file.

    if  condition on the arguments; if it is false, the milestone is left out
    """

    condition: bool | str = msgspec.field(name="if", default=True)


class Group(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A table [[groups]]: nodes that are switched on and off together.

    if          condition on the arguments, such as "args.viewer and not args.fast"; if it is false, the whole group
                is left out
    nodes       the group's nodes, written [[groups.nodes]]
    milestones  the group's milestones, written [[groups.milestones]]
    include     launch files that the group includes, written [[groups.include]]
    """

    condition: bool | str = msgspec.field(name="if", default=True)
    nodes: list[dict[str, Any]] = []
    milestones: list[dict[str, Any]] = []
    include: list[dict[str, Any]] = []


class Include(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A table [[include]]: another launch file, whose nodes are added to those of the including file.

    file       launch file to include, relative to the including file's folder or to the folder above launch/
    if         condition on the arguments; if it is false, nothing is included
    args       values of the included file's arguments
    namespace  first part of the names of the included nodes and topics, as in "left/charmie/state"; with a namespace, a
               launch may have several tables [sim]
    """

    file: str
    condition: bool | str = msgspec.field(name="if", default=True)
    args: dict[str, Any] = {}
    namespace: str = ""


@dataclass
class Entry:
    """One table of a launch file, and the place where it is written."""

    table: dict[str, Any]
    source: Source
    folder: Path  # project folder of its file
    namespace: str = ""

    def __post_init__(self) -> None:
        # folders to search for the files named in this table, in order of preference
        self.folders = self.folder, Path.cwd(), self.source.file.resolve().parent

    @property
    def name(self) -> str:
        """Name of a node, with its namespace."""
        return joined(self.namespace, str(self.table.get("name")))


@dataclass
class Tables:
    """All tables of a launch file and of the files that it includes, without the tables that a condition switches off.

    plain         values of the keys outside of tables
    nodes         nodes of all namespaces
    milestones    milestones of all namespaces
    switched_off  {name: place} of the nodes whose condition is false
    parts         {namespace: tables of the included file that contains the simulation of the namespace}
    warnings      one line, with file and line, for each argument that is not used in its file
    """

    source: Source
    plain: dict[str, Entry] = field(default_factory=dict)
    sim: Entry | None = None
    nodes: list[Entry] = field(default_factory=list)
    milestones: list[Entry] = field(default_factory=list)
    arguments: dict[str, Argument] = field(default_factory=dict)
    switched_off: dict[str, Source] = field(default_factory=dict)
    parts: dict[str, Tables] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def part(self, namespace: str) -> Tables:
        """The tables for one namespace: its nodes and milestones, and all other tables of the file with its simulation.

        If no simulation runs in the namespace, the other tables are those of `self`.
        """
        own = self.parts.get(namespace, self)
        return replace(
            own,
            nodes=[entry for entry in self.nodes if entry.namespace == namespace],
            milestones=[entry for entry in self.milestones if entry.namespace == namespace],
            parts={},
        )

    def of_sim(self) -> Entry:
        """The table [sim]. Raises PlanError if there is none."""
        if self.sim is None:
            raise PlanError(f'{self.source.file}: the table [sim] is missing; add it with robot = "..."')
        return self.sim


def composed(document: Document, given: Mapping[str, Any] | Sequence[str] = ()) -> Tables:
    """The tables of a launch file and of the files that it includes.

    Raises PlanError with a one-line message for the first error.

    given  values of the file's arguments: {name: value}, or texts "name=value"
    """
    return _composed(document, arguments_of(document, given), ())


def _composed(document: Document, arguments: Arguments, parents: tuple[Path, ...]) -> Tables:
    source = document.source
    file = source.file
    if len(document.values) > 1 and not TOP & set(document.values):
        remedy = f'parameters = {{ file = "{file.name}" }} in [sim] of a launch file'
        raise PlanError(
            f"{file}: this is no launch file, because it has no table [sim]; to use it as a robot's parameter file, "
            f"write {remedy}"
        )
    for key in document.values:
        if key not in TOP:
            raise PlanError(f"{source.at(key)}: unknown key {key!r}{misplaced(key, Plan) or suggestion(key, TOP)}")
    tables = Tables(source, arguments=arguments.declared, warnings=list(arguments.warnings))
    composition = _Composition(arguments, project_folder(file), (*parents, file), tables)
    composition.add_plain(document.values, source)
    composition.add_parts(document.values, source)
    return composition.tables


def misplaced(key: str, here: type[msgspec.Struct]) -> str:
    """Text that names the table to which a misplaced key belongs; "" if no other table has the key.

    A key with an additional s is recognized, too: for `links`, the text names `link`, a key of [[nodes]].

    here  type of the table in which the key was written; Plan for keys outside of tables
    """
    for table, kind in (("[sim]", SimPlan), ("[[nodes]]", NodePlan)):
        for name in kind.__struct_encode_fields__:
            if here is not kind and key in (name, f"{name}s") and name not in TOP:
                return f"; {name!r} is a key of {table}; write it there"
    if here is not Plan and key in PLAIN_KEYS:
        return f"; {key!r} belongs above all tables; write it there"
    return ""


@dataclass(frozen=True)
class _Composition:
    """Collects the tables of one launch file and of the files that it includes."""

    arguments: Arguments
    folder: Path
    files: tuple[Path, ...]  # from the launched file through the files that lead to this file, to this file
    tables: Tables

    def add_plain(self, values: Mapping[str, Any], source: Source) -> None:
        """Add the tables [sim] and [hosts], and the keys outside of tables, such as `duration_s`."""
        for key in (*PLAIN_KEYS, "hosts"):
            if key in values:
                value = substituted(values[key], self.arguments.values, source.table("", key))
                self.tables.plain[key] = Entry({key: value}, source, self.folder)
        if "sim" in values:
            if not isinstance(values["sim"], dict):
                raise PlanError(f'{source.at("sim")}: sim must be a table; write [sim] with robot = "..."')
            place = source.table("[sim]", "sim")
            self.tables.sim = Entry(substituted(values["sim"], self.arguments.values, place), place, self.folder)

    def add_parts(self, values: Mapping[str, Any], source: Source, off_by: Source | None = None) -> None:
        """Add nodes, milestones, groups and included files, in the order in which they are written.

        off_by  group of these tables if it is switched off: their arguments and conditions are checked, and nothing is
                added
        """
        for kind, written, place in sorted(_parts(values, source), key=lambda part: part[2].line or 0):
            table = {
                key: item if key in PARTS else substituted(item, self.arguments.values, place.table(place.label, key))
                for key, item in written.items()
            }
            place = replace(place, label=_label(kind, int(place.path[-1]), table))
            is_on = is_true(table.pop("if", True), self.arguments, place.at("if"))
            off = off_by or (None if is_on else place)
            if kind == "nodes" and off is None:
                namespace = table.pop("namespace", "") if isinstance(table.get("namespace"), str) else ""
                self.tables.nodes.append(Entry(table, place, self.folder, namespace))
            elif kind == "milestones" and off is None:
                self.tables.milestones.append(Entry(table, place, self.folder))
            elif kind == "groups":
                convert(table, Group, place)
                self.add_parts(table, place, off)
            elif kind == "include":
                include = convert(table, Include, place)
                if off is None:
                    self._include(include, place)
            elif kind == "nodes" and off is not None:
                self.tables.switched_off[str(table.get("name"))] = off

    def _include(self, include: Include, place: Source) -> None:
        try:
            file = self._file(include.file)
            resolved = file.resolve()
        except (OSError, ValueError, RuntimeError) as error:  # too long, a NUL, links in a circle
            reason = error.strerror if isinstance(error, OSError) else error
            raise PlanError(
                f"{place.at('file')}: key 'file': {shortened(include.file)!r} names no file: {reason}"
            ) from None
        known = [each.resolve() for each in self.files]
        if resolved in known:
            circle = [*self.files[known.index(resolved) :], file]
            names = " includes ".join(each.name for each in circle)
            raise PlanError(f"{place.at('file')}: key 'file': {names}; a file cannot include itself")
        if not include.file:
            raise PlanError(f"{place.at('file')}: key 'file' is empty; give a launch file")
        document = read_document(file, f"{place.at('file')}: key 'file'", self.files[-1].stem)
        arguments = arguments_of(document, include.args, place.at("args"))
        if include.namespace and not all(NAME.fullmatch(each) for each in include.namespace.split("/")):
            what = f"{include.namespace!r} is no valid name; use letters, digits and _, with a letter first"
            raise PlanError(f"{place.at('namespace')}: key 'namespace': {what}")
        if len(include.namespace) >= NAME_LENGTH:
            what = f"{include.namespace[:20]!r} ... has {len(include.namespace)} characters"
            limit = f"with a node's name behind it, at most {NAME_LENGTH} are allowed"
            raise PlanError(f"{place.at('namespace')}: key 'namespace': {what}; {limit}")
        other = _composed(document, arguments, self.files)
        self.tables.warnings += [line for line in other.warnings if line not in self.tables.warnings]
        if include.namespace:
            self._merge_into_namespace(other, include.namespace, place)
        else:
            self._merge(other, place)

    def _file(self, name: str) -> Path:
        """Path of an included file: in the folder of the including file or, if it is not there, in the project folder.

        A path in the including file's folder begins with the path of that folder, so that both are absolute or both are
        relative to the working folder.
        """
        own = self.files[-1]
        if (project := self.folder / name).is_file() and not (own.parent / name).is_file():
            return project
        return own.parent / name

    def _merge(self, other: Tables, place: Source) -> None:
        """Add the tables of an included file, without a namespace.

        For keys outside of tables, the values of the including file take precedence. Raises PlanError for a second
        table [sim], and for such a key that two included files set to different values.
        """
        mine = self.tables
        for key, entry in other.plain.items():
            present = mine.plain.get(key)
            if present is None:
                mine.plain[key] = entry
            elif present.source.file != self.files[-1] and present.table != entry.table:
                there = (
                    f"{present.source.at(key)} has {present.table[key]!r}, {entry.source.at(key)} {entry.table[key]!r}"
                )
                raise PlanError(f"{place}: key {key!r}: {there}; set {key} in {self.files[-1]} to override both")
        if other.sim is not None:
            if mine.sim is not None:
                there = f"is in {mine.sim.source.place()} and in {other.sim.source.place()}"
                raise PlanError(f"{place}: [sim] {there}; remove one of these tables, or give the include a namespace")
            mine.sim = other.sim
        for namespace, part in other.parts.items():
            self._add_part(namespace, part, place)
        mine.nodes += other.nodes
        mine.milestones += other.milestones
        mine.switched_off |= other.switched_off

    def _merge_into_namespace(self, other: Tables, namespace: str, place: Source) -> None:
        """Add the tables of an included file under a namespace.

        The simulation of the included file, if any, becomes a separate simulation in `Tables.parts`.
        """
        mine = self.tables
        for name, part in [*([("", other)] if other.sim is not None else []), *other.parts.items()]:
            self._add_part(joined(namespace, name), part, place)
        for entry in (*other.nodes, *other.milestones):
            entry.namespace = joined(namespace, entry.namespace)
        mine.nodes += other.nodes
        mine.milestones += other.milestones
        mine.switched_off |= {joined(namespace, name): off for name, off in other.switched_off.items()}

    def _add_part(self, namespace: str, part: Tables, place: Source) -> None:
        if (other := self.tables.parts.get(namespace)) is not None:
            there = f"{other.of_sim().source.place()} and {part.of_sim().source.place()}"
            raise PlanError(
                f"{place.at('namespace')}: key 'namespace': {namespace!r} has two tables [sim], in {there}; use two "
                "namespaces"
            )
        self.tables.parts[namespace] = part


def _parts(values: Mapping[str, Any], source: Source) -> Iterator[tuple[str, dict[str, Any], Source]]:
    """(kind, table, place) of each table in the lists [[nodes]], [[milestones]], [[groups]] and [[include]]."""
    for kind in PARTS:
        for index, table in enumerate(tables_of(values, kind, source)):
            yield kind, dict(table), source.table(_label(kind, index, table), kind, index)


def _label(kind: str, index: int, table: Mapping[str, Any]) -> str:
    """Name of a table in messages, such as "node 'recorder'"."""
    noun = {"nodes": "node", "milestones": "milestone", "groups": "group"}.get(kind, kind)
    name = table.get("file" if kind == "include" else "name", f"number {index + 1}")
    return f"{noun} {name!r}"


def tables_of(values: Mapping[str, Any], key: str, source: Source) -> list[dict[str, Any]]:
    """The list of tables at a key; [] if the key is absent. Raises PlanError if the value is not a list of tables."""
    tables = values.get(key, [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise PlanError(f"{source.at(key)}: {key!r} must be a list of tables; write [[{key}]]")
    return tables


def project_folder(file: Path) -> Path:
    """Project folder of a launch file: the parent of the nearest folder "launch" that contains the file.

    The file may be in a subfolder of "launch". If no folder "launch" contains the file, the result is the file's own
    folder.
    """
    for parent in file.resolve().parents:
        if parent.name == "launch":
            return parent.parent
    return file.resolve().parent
