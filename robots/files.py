"""Python files of a user: imports a module by its path, and finds a robot by "path/to/file.py:function".

The file's folder is appended to sys.path (never prepended), so that modules beside it can be imported but cannot shadow
packages of armswing.
"""

from __future__ import annotations

import importlib.util
import re
import sys
import sysconfig
import traceback
import zlib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from sim_core.errors import InvalidRequest, did_you_mean, install_hint

FORM = "path/to/file.py:function"
ROOT = Path(__file__).parents[1]
PYTHON = sysconfig.get_paths()["stdlib"]
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")  # the function's name is the first part of the robot's topics


def is_reference(robot: str) -> bool:
    """Whether `robot` refers to a Python file ("file.py:function"), not to a name in the registry."""
    return robot.rpartition(":")[0].endswith(".py") or robot.endswith(".py")


def robot_name(robot: str) -> str:
    """A robot's name in topics: the function's name for a reference to a file, otherwise its name in the registry."""
    return robot.rpartition(":")[2] if is_reference(robot) else robot


def located(robot: str, *folders: str | Path) -> str:
    """The reference with the absolute path of its file, which is searched for in `folders` in order.

    InvalidRequest, one line, if `robot` is no reference or no folder has the file.
    """
    file, _, name = robot.rpartition(":")
    if not file.endswith(".py") or not NAME.fullmatch(name):
        raise InvalidRequest(f"robot {robot!r}: write {FORM!r}")
    places = list(dict.fromkeys(Path(folder).resolve() / file for folder in folders or (Path.cwd(),)))
    for place in places:
        if place.is_file():
            return f"{place.resolve()}:{name}"
    raise InvalidRequest(f"robot {robot!r}: no such file; tried {', '.join(map(str, places))}")


def located_if_there(robot: str, *folders: str | Path) -> str:
    """`located` for any robot: registry names, and references whose file is not found, are returned unchanged."""
    try:
        return located(robot, *folders) if is_reference(robot) else robot
    except InvalidRequest:
        return robot


def load(robot: str) -> Callable[..., Any]:
    """The function that a reference names, from the file's present content; InvalidRequest, one line, if it fails."""
    path, _, name = located(robot).rpartition(":")
    try:
        module = python_module(Path(path), Path(path).read_bytes())
    except Exception as error:  # a user's code may raise anything; it is reported in one line
        raise InvalidRequest(f"robot {robot!r}: {failure(error, Path(path))}") from error
    function = getattr(module, name, None)
    if function is None:
        there = [
            key
            for key, value in vars(module).items()
            if callable(value) and getattr(value, "__module__", "") == module.__name__
        ]
        functions = f"; its functions are {', '.join(there)}" if there else "; it has no function"
        raise InvalidRequest(f"robot {robot!r}: {path} has no {name!r}{functions}{did_you_mean(name, there)}")
    if not callable(function):
        raise InvalidRequest(f"robot {robot!r}: {name!r} of {path} is no function that gives a Mechanism")
    found: Callable[..., Any] = function
    return found


def python_module(path: Path, version: bytes = b"") -> ModuleType:
    """Import a file as a module with a unique name; it is imported again if its content (`version`) has changed."""
    folder = str(path.parent)
    if folder not in sys.path:
        sys.path.append(folder)
    name = f"{path.stem}_{zlib.crc32(version, zlib.crc32(str(path).encode())):08x}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} cannot be loaded as Python")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def failure(error: Exception, path: Path, doing: str = "importing") -> str:
    """Message for an exception in a user's file: the error, and the file and line of the last frame in the user's code.

    doing  what failed, such as "importing"
    """
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    if isinstance(error, SyntaxError) and error.filename:
        file, line = error.filename, error.lineno
    else:
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not _is_of_python(frame.filename)]
        file, line = (frames[-1].filename, frames[-1].lineno) if frames else (str(path), None)
    where = f"{doing} {path} failed" + ("" if file == str(path) else f", in {file}")
    return f"{where}{'' if line is None else f', line {line}'}: {type(error).__name__}: {text}{install_hint(error)}"


def _is_of_python(file: str) -> bool:
    """Whether a frame is outside the user's code: import machinery, standard library, packages, or armswing."""
    parts = Path(file).parts
    ours = [str(ROOT / each) for each in ("robots/files.py", "robots/registry.py", "nodes/plan/loading.py")]
    return file.startswith("<") or file in ours or "site-packages" in parts or file.startswith(PYTHON)
