"""Loading of a user's node class by path: "path/to/file.py:Class", or "path/to/program" of an executable file.

A file inside the installed packages is imported under its ordinary module name. Any other file is loaded under a unique
module name, and its folder is appended to sys.path, so that the file can import modules beside it. The folder is never
prepended, so that a user's own folder `nodes/` does not hide this package.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

import nodes
from nodes.framework.messages import Message
from nodes.framework.plan.key_checks import PlanError, suggestion
from nodes.framework.plan.programs import program_class
from nodes.node import Node
from robots.files import SHARE, failure, is_file, python_module
from sim_core.support.shown import shown
from sim_core.support.suggestion import nearest
from sim_core.trusted_files import UntrustedFile

PACKAGE_ROOT = Path(nodes.__file__).resolve().parent.parent


def locate(run: str, *folders: str | Path) -> tuple[Path, str]:
    """(file, class name) that a node's `run` names; the class name is "" for a program.

    A relative file is searched in `folders`, then among the installed files; the first file found is returned. Raises
    PlanError if no folder contains the file, or if `run` has neither of the forms "path/to/file.py:ClassName" and
    "path/to/program".
    """
    file, colon, name = run.rpartition(":")
    if not colon and run and not run.endswith(".py"):
        file, name = run, ""
    elif not file.endswith(".py") or not name.isidentifier():
        raise PlanError(
            f"run = {run!r} names no class or program; write 'path/to/file.py:ClassName', or the path of a program"
        )
    tried = [Path(folder).resolve() / file for folder in (*folders, PACKAGE_ROOT)]
    for path in (*tried, SHARE / file):
        if is_file(path):
            return path.resolve(), name
    there = ", ".join(dict.fromkeys(map(str, tried)))
    form = "" if name else "; for a node in Python write 'path/to/file.py:ClassName'"
    raise PlanError(f"run = {shortened(run)!r}: there is no such file; tried {shortened(there)}{form}")


def reference(file: Path, name: str) -> str:
    """Value of the key `run` for a class in a file, or for a program if `name` is ""."""
    return f"{file}:{name}" if name else str(file)


def shortened(text: str) -> str:
    """The text, cut after 400 characters with "..." appended if it is longer."""
    return text if len(text) <= 400 else f"{text[:400]}..."


def load_class(run: str, *folders: str | Path) -> type[Node]:
    """The node class that `run` names. Raises PlanError with a one-line message if file or class is missing."""
    path, name = locate(run, *folders)
    if not name:
        return program_class(path)
    try:
        module = _module(path)
    except PlanError:
        raise
    except UntrustedFile as error:
        raise PlanError(str(error)) from None
    except (Exception, SystemExit) as error:
        raise PlanError(f"run = {run!r}: {failure(error, path)}") from error
    return node_class(module, name, run)


def node_class(module: ModuleType, name: str, run: str) -> type[Node]:
    """The node class with this name in a module. Raises PlanError with a one-line message if there is none.

    run  reference to the class, for messages
    """
    found = getattr(module, name, None)
    if not (isinstance(found, type) and issubclass(found, Node)):
        classes = [key for key, value in vars(module).items() if isinstance(value, type) and issubclass(value, Node)]
        there = [key for key in classes if vars(module)[key] is not Node]
        what = "is no subclass of Node" if found is not None else "does not exist"
        raise PlanError(f"run = {run!r}: class {name!r} {what}{suggestion(name, there) if there else ''}")
    return found


def _module(path: Path) -> ModuleType:
    if path.is_relative_to(PACKAGE_ROOT / "nodes"):
        return importlib.import_module(".".join(path.relative_to(PACKAGE_ROOT).with_suffix("").parts))
    return python_module(path)


HANDLERS = tuple(name for name in vars(Node) if name.startswith("on_"))
EXAMPLE = '{"state": RobotState}'
SPEAKING = tuple(name for name in HANDLERS if name != "on_stop")


def misdeclared(cls: type[Node]) -> str:
    """One-line error about `subscribes`, `publishes` or `services` of a node class; "" if all three are valid."""
    for field in ("subscribes", "publishes"):
        table = getattr(cls, field)
        if not isinstance(table, Mapping):
            return f"{cls.__name__}.{field} is {shown(table)}; write {{topic: message type}}, such as {EXAMPLE}"
        for name, message in table.items():
            if not isinstance(name, str) or not (isinstance(message, type) and issubclass(message, Message)):
                entry = f"{shown(name)}: {shown(message)}"
                return f"{cls.__name__}.{field} has the entry {entry}; write topic: message type, as in {EXAMPLE}"
    if not isinstance(cls.services, Mapping) or not all(isinstance(word, str) for word in cls.services):
        return f"{cls.__name__}.services is {shown(cls.services)}; write {{name: one line of help}}"
    return ""


def uncalled(cls: type[Node]) -> str:
    """One-line error about a misspelt or missing handler of a node class; "" if there is no such error."""
    own = [name for base in cls.__mro__ if base not in (Node, object) for name in vars(base)]
    for name in own:
        if name.startswith("_") or hasattr(Node, name) or not callable(getattr(cls, name)):
            continue
        near = nearest(name, HANDLERS, cutoff=0.8)
        if near and near not in own:
            return f"{cls.__name__} has {name!r}, which is never called; did you mean {near!r}?"
    if cls.subscribes and cls.publishes and not set(own) & set(SPEAKING):
        topics = ", ".join(map(repr, cls.subscribes))
        return f"{cls.__name__} subscribes to {topics}, but has no 'on_message' to receive it"
    return ""
