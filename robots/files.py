"""Robots from a user's files: a function in a Python file, "path/to/file.py:function", or a model file, "robot.urdf".

The folder of a Python file is appended to sys.path. The file can therefore import modules from this folder, but these
modules cannot replace packages of armswing.
"""

from __future__ import annotations

import importlib.util
import os
import re
import sys
import sysconfig
import traceback
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from sim_core.errors import InvalidRequest
from sim_core.support.extras import install_hint
from sim_core.support.suggestion import MODELS, did_you_mean
from sim_core.trusted_files import UntrustedFile, is_open_folder, require_named

FORM = "path/to/file.py:function"
MODEL_FORM = "path/to/robot.urdf"
LONGEST_SHOWN = 400  # characters of a name in an error message
ROOT = Path(__file__).parents[1]
SHARE = ROOT / "armswing" / "share"  # its folder launch/ has the installed launch files and examples
PYTHON = sysconfig.get_paths()["stdlib"]
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")  # the function's name is the first part of the robot's topics


def is_reference(robot: str) -> bool:
    """Whether `robot` refers to a file, such as "file.py:function" or "robot.urdf", and not to a registered robot."""
    return robot.rpartition(":")[0].endswith(".py") or robot.endswith(".py") or is_model_file(robot)


def is_model_file(robot: str) -> bool:
    """Whether `robot` is the path of a URDF or MJCF file."""
    return robot.lower().endswith(MODELS)


def split(robot: str) -> tuple[str, str]:
    """(file, function) of a robot reference; the function of a model file is ""."""
    if is_model_file(robot):
        return robot, ""
    file, _, name = robot.rpartition(":")
    return file, name


def robot_name(robot: str) -> str:
    """Name of a robot as it appears in topics.

    For a Python file, the name is that of the function. For a model file, the name is the file's name without
    extension, with _ in place of characters other than letters, digits and _; a name that does not begin with a letter
    gets the prefix robot_. For a registered robot, it is the registered name.
    """
    if is_model_file(robot):
        name = re.sub(r"[^A-Za-z0-9_]", "_", Path(robot).stem)
        return name if NAME.fullmatch(name) else f"robot_{name}"
    return robot.rpartition(":")[2] if is_reference(robot) else robot


def located(robot: str, *folders: str | Path) -> str:
    """The reference `robot` with an absolute path of its file, which is searched for in `folders`, in order.

    robot    "path/to/file.py:function" or the path of a model file
    folders  folders to search before the installed files, by default the working directory
    Raises InvalidRequest if `robot` does not refer to a file, or if the file is in none of the folders.
    """
    file, name = split(robot)
    if (not name and not is_model_file(robot)) or (name and not (file.endswith(".py") and NAME.fullmatch(name))):
        raise InvalidRequest(f"robot {robot!r} does not refer to a function in a file; write {FORM!r}")
    places = list(dict.fromkeys(Path(folder).resolve() / file for folder in folders or (Path.cwd(),)))
    for place in (*places, SHARE / file):
        if os.path.isfile(place):  # False, not an error, for a name that no file can have
            return f"{place.resolve()}:{name}" if name else str(place.resolve())
    tried = ", ".join(map(str, places))
    raise InvalidRequest(f"robot {robot[:LONGEST_SHOWN]!r}: no such file; tried {tried[:LONGEST_SHOWN]}")


def located_if_there(robot: str, *folders: str | Path) -> str:
    """The reference `robot` with an absolute path of its file, as `located` returns it.

    The name of a registered robot, and a reference to a file that is in none of the folders, are returned unchanged.
    """
    try:
        return located(robot, *folders) if is_reference(robot) else robot
    except InvalidRequest:
        return robot


def with_located_corrections(parameters: Mapping[str, Any], *folders: str | Path) -> dict[str, Any]:
    """A robot's parameters with an absolute path of the file `corrections`, if it is in one of the folders."""
    file = parameters.get("corrections")
    there = [place for folder in folders if file and os.path.isfile(place := Path(folder).resolve() / str(file))]
    return {**parameters, **({"corrections": str(there[0])} if there else {})}


def load(robot: str) -> Callable[..., Any]:
    """The function that builds a robot from a file. A file that has changed is read again.

    Raises InvalidRequest with a one-line message for a missing file or function, or if importing the file fails.
    """
    path, name = split(located(robot))
    if is_model_file(robot):
        from robots import importing

        return importing.builder(Path(path), f"robot {robot!r}")
    try:
        module = python_module(Path(path), Path(path).read_bytes())
    except UntrustedFile:
        raise
    except (Exception, SystemExit) as error:  # a user's code may raise anything; it is reported in one line
        raise InvalidRequest(f"robot {robot!r}: {failure(error, Path(path))}") from error
    function = getattr(module, name, None)
    if function is None:
        there = [
            key
            for key, value in vars(module).items()
            if callable(value) and getattr(value, "__module__", "") == module.__name__
        ]
        functions = f"; its functions are {', '.join(there)}" if there else "; it defines no function"
        raise InvalidRequest(f"robot {robot!r}: {path} has no function {name!r}{functions}{did_you_mean(name, there)}")
    if not callable(function):
        raise InvalidRequest(
            f"robot {robot!r}: {name!r} in {path} is not a function; name one that returns a Mechanism"
        )
    found: Callable[..., Any] = function
    return found


def python_module(path: Path, content: bytes | None = None) -> ModuleType:
    """Import a Python file as a module with a unique name.

    The file is always compiled: Python's own cache compares times in whole seconds and sizes, and so can return the
    code from before an edit.

    Raises UntrustedFile for a file that any user could have written. Modules beside the file can be imported unless
    every user can make files there, as in /tmp.

    content  content of the file, so that a file with new content is imported again; None imports a file once
    """
    require_named(path)
    folder = str(path.parent)
    if folder not in sys.path and not is_open_folder(path.parent):
        sys.path.append(folder)
    name = f"{path.stem}_{zlib.crc32(str(path).encode()):08x}"
    if content is not None:
        name += f"_{zlib.crc32(content):08x}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} cannot be loaded as Python; name a file that ends in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        source = path.read_bytes() if content is None else content
        if b"\0" in source:  # Python before 3.11.4 raises ValueError
            raise SyntaxError("source code cannot contain null bytes", (str(path), None, None, None))
        exec(compile(source, path, "exec", dont_inherit=True), module.__dict__)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def failure(error: Exception | SystemExit, path: Path, doing: str = "importing") -> str:
    """One-line message about an exception in a user's file, with the file and line of the last frame in the user's
    code.

    doing  the action that failed, such as "importing"
    """
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    if isinstance(error, SystemExit):
        text = f"it calls sys.exit({error.code!r}); a file that is imported must not end the program"
    if isinstance(error, SyntaxError) and error.filename:
        file, line = error.filename, error.lineno
    else:
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not _is_of_python(frame.filename)]
        file, line = (frames[-1].filename, frames[-1].lineno) if frames else (str(path), None)
    where = f"{doing} {path} failed" + ("" if file == str(path) else f", in {file}")
    hint = _neighbour_hint(error, path) or install_hint(error)
    return f"{where}{'' if line is None else f', line {line}'}: {type(error).__name__}: {text}{hint}"


def _neighbour_hint(error: BaseException, path: Path) -> str:
    """End of a message about a module that is beside a file in an open folder, and therefore cannot be imported."""
    if not (isinstance(error, ModuleNotFoundError) and error.name and is_open_folder(path.parent)):
        return ""
    beside = path.parent / error.name.partition(".")[0]
    if not (beside.is_dir() or beside.with_suffix(".py").is_file()):
        return ""
    return f"; every user can make files in {path.parent}, so modules there are not imported: use a folder of your own"


def _is_of_python(file: str) -> bool:
    """Whether a source file is part of Python, of an installed package or of armswing, and not written by the user."""
    parts = Path(file).parts
    ours = [
        str(ROOT / each) for each in ("robots/files.py", "robots/registry.py", "nodes/framework/plan/node_classes.py")
    ]
    return file.startswith("<") or file in ours or "site-packages" in parts or file.startswith(PYTHON)


def is_file(path: Path) -> bool:
    """Whether a file exists; False also for an invalid file name."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False
