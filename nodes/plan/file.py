"""Reading of a launch file with the overrides of the command line, checked before any process starts."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nodes.plan.checks import check_plan
from nodes.plan.launch_plan import DEPTH, PLAIN_KEYS, Milestone, NodePlan, Plan, SimPlan
from nodes.plan.tables import PlanError, convert, suggestion
from sim_core.errors import did_you_mean

MCAP = b"\x89MCAP"  # first bytes of a recording
SIZE = 8_000_000  # largest size of a launch file, bytes
TOO_DEEP = f"tables and lists are nested more than {DEPTH} deep"


def load_plan(path: str | Path, overrides: Sequence[str] = (), host: str | None = None) -> Plan:
    """Checked plan of a launch file, with overrides "node.key=value" and "sim.key=value" applied.

    host  host that runs its nodes of the plan here: without an installed simulation only these nodes are checked
    """
    file = Path(path)
    try:
        document = tomllib.loads(_text(file))
    except FileNotFoundError:
        raise PlanError(f"{file}: no such launch file{_launch_file_like(file)}") from None
    except UnicodeDecodeError:
        raise PlanError(f"{file}: {_no_text(file)}") from None
    except OSError as error:
        raise PlanError(f"{file}: cannot be read: {error}") from None
    except RecursionError:
        raise PlanError(f"{file}: {TOO_DEEP}") from None
    except ValueError as error:  # of tomllib, or of a number of thousands of digits
        raise PlanError(f"{file}: not valid TOML: {error}") from None
    for override in overrides:
        _override(document, override, str(file))
    if _is_deeper(document, DEPTH):
        raise PlanError(f"{file}: {TOO_DEEP}")
    plan = _plan(document, file)
    check_plan(plan, file, host)
    return plan


def _text(file: Path) -> str:
    """Text of a launch file; PlanError for a file above the size limit."""
    if file.is_file() and file.stat().st_size > SIZE:
        raise PlanError(f"{file}: {file.stat().st_size} bytes; a launch file has at most {SIZE}")
    return file.read_text(encoding="utf-8")


def _is_deeper(value: object, depth: int) -> bool:
    """Whether tables and lists are nested more than `depth` deep."""
    level: list[object] = [value]
    for _ in range(depth):
        level = [
            inner
            for each in level
            if isinstance(each, dict | list)
            for inner in (each.values() if isinstance(each, dict) else each)
            if isinstance(inner, dict | list)
        ]
    return bool(level)


def _launch_file_like(file: Path) -> str:
    """Text such as "; did you mean 'launch/charmie_pick.toml'?" for a launch file of a similar name nearby, else ""."""
    folders = [file.parent, *(file.parent / each for each in ("launch", "launch/examples"))]
    there = {each.stem: each for folder in reversed(folders) for each in sorted(folder.glob("*.toml"))}
    name = file.name.removesuffix(".toml")
    near = [name] if name in there else difflib.get_close_matches(name, there, n=1)
    return f"; did you mean {str(there[near[0]])!r}?" if near else ""


def _no_text(file: Path) -> str:
    """Message about a file that is not text, with the command that reads it if it is a recording."""
    with file.open("rb") as opened:
        recording = opened.read(len(MCAP)) == MCAP
    if recording:
        return f"a recording, no launch file; show it with 'armswing view {file}' or 'armswing info {file}'"
    return "no launch file: it is not text; a launch file is TOML"


def project_folder(file: Path) -> Path:
    """Folder that contains launch/, for a file in launch/ or below it; otherwise the file's own folder."""
    for parent in file.resolve().parents:
        if parent.name == "launch":
            return parent.parent
    return file.resolve().parent


def _plan(document: dict[str, Any], file: Path) -> Plan:
    top = {"sim", "nodes", "milestones", "hosts", *PLAIN_KEYS}
    if len(document) > 1 and not top & set(document):
        told = f'in the launch file: [sim], parameters = {{ file = "{file.name}" }}'
        raise PlanError(f"{file}: no launch file: it has no table [sim]; a robot's parameter file is named {told}")
    for key in document:
        if key not in top:
            raise PlanError(f"{file}: unknown key {key!r}{suggestion(key, top)}")
    sim = document.get("sim")
    if not isinstance(sim, dict):
        raise PlanError(f'{file}: a table [sim] with robot = "..." is missing')
    nodes = [
        convert(table, NodePlan, f"{file}: node {table.get('name', f'number {index}')!r}")
        for index, table in enumerate(_tables(document, "nodes", file), 1)
    ]
    milestones = [
        convert(table, Milestone, f"{file}: milestone {table.get('name', f'number {index}')!r}")
        for index, table in enumerate(_tables(document, "milestones", file), 1)
    ]
    rest: dict[str, Any] = {key: document[key] for key in ("seed", "domain", "duration_s", "hosts") if key in document}
    plan = convert(
        {
            "name": document.get("name", file.stem),
            "sim": {"robot": ""},
            "folder": str(project_folder(file)),
            **rest,
        },
        Plan,
        str(file),
    )
    plan.sim = convert(sim, SimPlan, f"{file}: [sim]")
    plan.nodes, plan.milestones = nodes, milestones
    return plan


def _tables(document: dict[str, Any], key: str, file: Path) -> list[dict[str, Any]]:
    tables = document.get(key, [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise PlanError(f"{file}: {key!r} is a list of tables, written [[{key}]]")
    return tables


def _override(document: dict[str, Any], override: str, where: str) -> None:
    """Apply one override "owner.key=value"; a key that a node's table does not have is one of its params."""
    target, equals, text = override.partition("=")
    owner, dot, key = target.strip().partition(".")
    if not equals or not owner or (dot and not key):
        raise PlanError(f"--set {override!r}: write node.key=value, sim.key=value or seed=value")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except RecursionError:
        raise PlanError(f"--set {target}: {TOO_DEEP}") from None
    except ValueError:
        value = text.strip()  # a bare word is a string: the shell eats the quotes
    if not dot:
        if owner not in PLAIN_KEYS:
            names = ", ".join(["sim", *(str(table.get("name")) for table in _node_tables(document))])
            raise PlanError(f"--set {override!r}: write node.key=value; {owner!r} alone is no key; nodes are {names}")
        document[owner] = value
        return
    if owner == "hosts" and isinstance(hosts := document.setdefault("hosts", {}), dict):
        if hosts and key not in hosts:
            raise PlanError(f"--set {override!r}: [hosts] has no {key!r}{suggestion(key, hosts)}")
        hosts[key] = value
        return
    table = _owner(document, owner, override, where)
    if owner == "sim" and (first := key.partition(".")[0]) not in SimPlan.__struct_fields__:
        near, rest = difflib.get_close_matches(first, SimPlan.__struct_fields__, n=1), key.partition(".")[2]
        if rest and near:
            meant = f"; did you mean sim.{near[0]}.{rest}={text}?"
        else:
            hint = did_you_mean(first, SimPlan.__struct_fields__)
            meant = f"{hint}; one of the robot is sim.parameters.{first}=value"
        raise PlanError(f"--set {override!r}: [sim] has no key {first!r}{meant}")
    if owner != "sim" and key not in NodePlan.__struct_fields__ and not key.startswith("params."):
        key = f"params.{key}"
    *path, last = key.split(".")
    for part in path:
        table = table.setdefault(part, {})
        if not isinstance(table, dict):
            raise PlanError(f"--set {override!r}: {part!r} is no table")
    table[last] = value


def _owner(document: dict[str, Any], owner: str, override: str, where: str) -> dict[str, Any]:
    if owner == "sim":
        table: dict[str, Any] = document.setdefault("sim", {})
        return table
    tables = _node_tables(document)
    for table in tables:
        if table.get("name") == owner:
            return table
    names = ["sim", *(str(table.get("name")) for table in tables)]
    raise PlanError(f"{where}: --set {override!r}: no node {owner!r}{suggestion(owner, names)}")


def _node_tables(document: dict[str, Any]) -> list[dict[str, Any]]:
    tables = document.get("nodes", [])
    return [table for table in tables if isinstance(table, dict)] if isinstance(tables, list) else []
