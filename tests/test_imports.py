"""Imports stand at the top of files: few are inside functions, each with its reason, and files form no circle.

Few small files have one importer, in their folder: such a file is part of its importer's story.

An import inside a function that keeps an optional library out of a light process needs no reason.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("armswing", "nodes", "robots", "sim_core", "viewer")
# modules of the libraries that every installation has
LIGHT = {
    "lz4",
    "mcap",
    "msgpack",
    "msgspec",
    "rich",
    "setproctitle",
    "typer",
    "zmq",
    "zstandard",
} | sys.stdlib_module_names
MOST_WITH_REASON = 100
SMALL = 80  # lines
MOST_SMALL = 30  # files under SMALL lines with one importer, in their folder


@dataclass
class File:
    """A file of the packages: the modules that it imports at its top, and all modules that it names in imports."""

    path: Path
    lines: int
    top: set[str] = field(default_factory=set)
    all: set[str] = field(default_factory=set)
    inner: list[tuple[str, set[str], bool]] = field(default_factory=list)  # inside functions: (place, modules, reason)


@cache
def files() -> dict[str, File]:
    """{module: its imports}."""
    paths = {path: path.relative_to(ROOT).with_suffix("") for name in PACKAGES for path in (ROOT / name).rglob("*.py")}
    modules = {".".join(path.parts).removesuffix(".__init__"): path.with_suffix(".py") for path in paths.values()}
    found = {}
    for module, path in modules.items():
        text = (ROOT / path).read_text()
        lines = text.splitlines()
        file = found[module] = File(path, len(lines))
        for node, is_inner, is_typing in imports(ast.parse(text)):
            if isinstance(node, ast.Import):
                named = {each.name for each in node.names}
            else:
                submodules = {f"{node.module}.{each.name}" for each in node.names}
                named = {each if each in modules else str(node.module) for each in submodules}
            file.all |= named
            if is_inner:
                file.inner.append((f"{path}:{node.lineno}", named, has_reason(lines, node)))
            elif not is_typing:
                file.top |= named
    return found


def imports(node: ast.AST, inner: bool = False, typing: bool = False) -> Iterator[tuple[ast.stmt, bool, bool]]:
    """(import statement, whether it is inside a function, whether it is for type checkers alone)."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child, inner, typing
        else:
            is_function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            is_typing = isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"
            yield from imports(child, inner or is_function, typing or is_typing)


def has_reason(lines: list[str], node: ast.stmt) -> bool:
    """Whether a comment stands in the line of an import, or above the imports of which it is one."""
    if re.search(r"# (?!noqa|type:)|noqa: \w+  \S", lines[node.lineno - 1]):
        return True
    above = node.lineno - 2
    while re.match(r"\s+(from|import) |$", lines[above]):
        above -= 1
    return lines[above].strip().startswith("#")


@cache
def libraries(module: str) -> set[str]:
    """The optional libraries that are loaded with a module."""
    seen: set[str] = set()
    found: set[str] = set()
    todo = [module]
    while todo:
        parts = todo.pop().split(".")
        for name in (".".join(parts[:count]) for count in range(1, len(parts) + 1)):
            if name in files() and name not in seen:
                seen.add(name)
                todo += files()[name].top
        if parts[0] not in {*PACKAGES, *LIGHT}:
            found.add(parts[0])
    return found


def circles(successors: Callable[[str], set[str]]) -> list[list[str]]:
    """Sets of files of which each leads to each other one, the largest first (Tarjan)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for other in successors(name):
            if other not in index:
                visit(other)
            if other in stack:
                low[name] = min(low[name], low[other])
        if low[name] == index[name]:
            at = stack.index(name)
            found.append(sorted(stack[at:]))
            del stack[at:]

    for name in files():
        if name not in index:
            visit(name)
    return sorted((each for each in found if len(each) > 1), key=len, reverse=True)


def test_few_imports_are_inside_functions_and_each_has_its_reason() -> None:
    light = [
        (place, reason)
        for module, file in files().items()
        for place, named, reason in file.inner
        if not set().union(*map(libraries, named)) - libraries(module)
    ]
    without = [place for place, reason in light if not reason]
    assert without == []
    assert len(light) <= MOST_WITH_REASON, light


def test_files_form_no_circle_with_imports_for_type_checkers_included() -> None:
    assert circles(lambda name: files()[name].all & files().keys() - {name}) == []


def test_few_small_files_have_one_importer_in_their_folder() -> None:
    importers: dict[str, list[str]] = {name: [] for name in files()}
    for name, file in files().items():
        for other in file.all & files().keys() - {name}:
            importers[other].append(name)
    small = [
        str(file.path)
        for name, file in files().items()
        if file.lines < SMALL
        and len(importers[name]) == 1
        and files()[importers[name][0]].path.parent == file.path.parent
        and file.path.name not in ("__init__.py", "__main__.py")
    ]
    assert len(small) <= MOST_SMALL, small
