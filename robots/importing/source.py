"""Python source code of a mechanism: a file with a function that returns the mechanism, which a user can edit."""

from __future__ import annotations

import dataclasses
import keyword
from typing import Any

import sim_core.mechanism
from sim_core.mechanism import Mechanism

WIDTH = 110
FUNCTION = '''"""{about}"""

from __future__ import annotations

{imports}


def {name}() -> Mechanism:
    """{about}"""
    return {mechanism}
'''


def function_name(robot: str) -> str:
    """Name of the function that returns a robot: the robot's name, with _ after a keyword of Python."""
    return f"{robot}_" if keyword.iskeyword(robot) else robot


def python_source(mechanism: Mechanism, name: str, about: str) -> str:
    """Source of a Python file with a function `name` that returns a mechanism equal to the given one.

    Fields with default values are left out of the source.
    about  docstring of the file and of the function
    """
    classes: set[type] = set()
    about = about.replace("\\", "/").replace('"', "'")
    name = function_name(name)
    text = _written(mechanism, 1, classes)
    return FUNCTION.format(about=about, name=name, imports=_imports(classes), mechanism=text)


def _imports(classes: set[type]) -> str:
    """Import statements of the classes: public ones from `armswing.mechanism`, others from their modules."""
    modules: dict[str, list[str]] = {}
    for each in classes:
        module = "armswing.mechanism" if hasattr(sim_core.mechanism, each.__name__) else each.__module__
        modules.setdefault(module, []).append(each.__name__)
    return "\n".join(f"from {module} import {', '.join(sorted(names))}" for module, names in sorted(modules.items()))


def _written(value: Any, depth: int, classes: set[type]) -> str:
    """A value as a Python expression, on several lines if it is long.

    depth    level of indentation
    classes  set to which the names of the classes in the expression are added
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        classes.add(type(value))
        parts = [
            f"{field.name}={_written(getattr(value, field.name), depth + 1, classes)}"
            for field in dataclasses.fields(value)
            if not _is_default(field, getattr(value, field.name))
        ]
        return _listed(f"{type(value).__name__}(", parts, ")", depth)
    if isinstance(value, tuple):
        parts = [_written(item, depth + 1, classes) for item in value]
        return _listed("(", parts, ",)" if len(parts) == 1 else ")", depth)
    return repr(value)


def _listed(start: str, parts: list[str], end: str, depth: int) -> str:
    line = f"{start}{', '.join(parts)}{end}"
    if len(line) + 4 * depth <= WIDTH and "\n" not in line:
        return line
    indent = "    " * (depth + 1)
    return "\n".join([start, *[f"{indent}{part}," for part in parts], "    " * depth + end.removeprefix(",")])


def _is_default(field: dataclasses.Field[Any], value: Any) -> bool:
    if field.default is not dataclasses.MISSING:
        return type(value) is type(field.default) and bool(value == field.default)
    return field.default_factory is not dataclasses.MISSING and bool(value == field.default_factory())
