"""Load a user's node by path: "path/to/file.py:Class".

A file of the installed packages is imported as the module it is. Any other is loaded under a name of its own,
with its folder appended to sys.path (never prepended): its neighbours import, and a user's own `nodes/` never
shadows ours.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import sysconfig
import traceback
import zlib
from pathlib import Path
from types import ModuleType

import nodes
from nodes.node import Node
from nodes.plan.tables import PlanError, suggestion

PYTHON = sysconfig.get_paths()["stdlib"]
PACKAGE_ROOT = Path(nodes.__file__).resolve().parent.parent


def locate(run: str, *folders: str | Path) -> tuple[Path, str]:
    """(file, class name) of `run`, relative to the first of `folders` or the package root that holds it."""
    file, colon, name = run.rpartition(":")
    if not colon or not file.endswith(".py") or not name.isidentifier():
        raise PlanError(f"run = {run!r}: write 'path/to/file.py:ClassName'")
    tried = [Path(folder).resolve() / file for folder in (*folders, PACKAGE_ROOT)]
    for path in tried:
        if is_file(path):
            return path.resolve(), name
    there = ", ".join(dict.fromkeys(map(str, tried)))
    raise PlanError(f"run = {shortened(run)!r}: no such file; tried {shortened(there)}")


def is_file(path: Path) -> bool:
    """Whether a file is there; False too for a name that no file can have."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def shortened(text: str) -> str:
    """The beginning of a text that is longer than a line."""
    return text if len(text) <= 400 else f"{text[:400]}..."


def load_class(run: str, *folders: str | Path) -> type[Node]:
    """The Node class that `run` names; PlanError, one line, when there is none."""
    path, name = locate(run, *folders)
    try:
        module = _module(path)
    except PlanError:
        raise
    except Exception as error:
        raise PlanError(f"run = {run!r}: {_failed(path, error)}") from error
    found = getattr(module, name, None)
    if not (isinstance(found, type) and issubclass(found, Node)):
        classes = [key for key, value in vars(module).items() if isinstance(value, type) and issubclass(value, Node)]
        there = [key for key in classes if vars(module)[key] is not Node]
        what = "is no subclass of Node" if found is not None else "does not exist"
        raise PlanError(f"run = {run!r}: class {name!r} {what}{suggestion(name, there) if there else ''}")
    return found


def _failed(path: Path, error: Exception) -> str:
    """What went wrong in importing a file, and on which line: of a syntax error its own, else the last one outside."""
    said = error.msg if isinstance(error, SyntaxError) else str(error)
    if isinstance(error, SyntaxError) and error.filename:
        file, line = error.filename, error.lineno
    else:
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not _is_of_python(frame.filename)]
        file, line = (frames[-1].filename, frames[-1].lineno) if frames else (str(path), None)
    where = f"importing {path} failed" + ("" if file == str(path) else f", in {file}")
    return f"{where}{'' if line is None else f', line {line}'}: {type(error).__name__}: {said}"


def _is_of_python(file: str) -> bool:
    """Whether a frame is not in a user's code: the import machinery, the standard library, packages, or here."""
    parts = Path(file).parts
    return file.startswith("<") or file == __file__ or "site-packages" in parts or file.startswith(PYTHON)


def _module(path: Path) -> ModuleType:
    if path.is_relative_to(PACKAGE_ROOT / "nodes"):
        return importlib.import_module(".".join(path.relative_to(PACKAGE_ROOT).with_suffix("").parts))
    folder = str(path.parent)
    if folder not in sys.path:
        sys.path.append(folder)
    name = f"{path.stem}_{zlib.crc32(str(path).encode()):08x}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise PlanError(f"{path} cannot be loaded as Python")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
