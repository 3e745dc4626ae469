"""Registry of robots by name: built-in robots, robots of other packages, and robots in a user's files.

Other packages add robots by entry points in the group `armswing.robots`. An entry point refers to a function that takes
keyword parameters and returns a Mechanism.
"""

from __future__ import annotations

import dataclasses
import inspect
import typing
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from robots import files
from robots.arms import chain
from robots.benchmarks import (
    crank_slider,
    four_bar,
    gear_train,
    iftomm,
    lipinski,
    rolling,
    rotary_pendulum,
    schiehlen,
    squeezer,
    triple_pendulum,
)
from robots.brachiation import acromonk, ricmonk
from robots.charmie import mechanism as charmie
from robots.corrections import read_corrections, with_corrections
from robots.gibbon import mechanism as gibbon
from robots.locking import positions_of, with_locked_joints
from robots.parameters import ParameterInfo
from robots.wheeled import differential_drive
from sim_core.errors import InvalidRequest, UnknownName
from sim_core.mechanism import Mechanism
from sim_core.mechanism.validation import validate
from sim_core.mobility import with_contact_stiffness

Builder = Callable[..., Mechanism]
PUSHABLE = "pushable"  # parameter of every robot: bodies on which a force can act from outside, "arm, hand"; "*": all
CORRECTIONS = "corrections"  # parameter of every robot: a TOML file with other inertias and friction
LOCKED = "locked"  # parameter of every robot: joints that are held at a position, "head_1=0.2, head_2"
FILE = "file"  # name of the parameter that gives a robot's parameter file

BUILTIN: dict[str, Builder] = {
    "acromonk": acromonk.acromonk,
    "andrews_squeezer": squeezer.andrews_squeezer,
    "arm_2dof": chain.arm_2dof,
    "arm_4dof": chain.arm_4dof,
    "arm_6dof": chain.arm_6dof,
    "chaplygin_sleigh": rolling.chaplygin_sleigh,
    "charmie": charmie.charmie,
    "crank_slider": crank_slider.crank_slider,
    "differential_drive": differential_drive.differential_drive,
    "double_pendulum": schiehlen.double_pendulum,
    "epicyclic_gear_train": gear_train.epicyclic_gear_train,
    "equal_crank_slider": crank_slider.equal_crank_slider,
    "four_bar_chain": iftomm.four_bar_chain,
    "gibbon": gibbon.gibbon,
    "lipinski_pendulum": lipinski.lipinski_pendulum,
    "parallelogram_four_bar": four_bar.parallelogram_four_bar,
    "ricmonk": ricmonk.ricmonk,
    "rolling_disk": rolling.rolling_disk,
    "rotary_pendulum": rotary_pendulum.rotary_pendulum,
    "simple_pendulum": iftomm.simple_pendulum,
    "single_pendulum": schiehlen.single_pendulum,
    "snakeboard": rolling.snakeboard,
    "triple_pendulum": triple_pendulum.triple_pendulum,
}


@cache
def _entry_points() -> dict[str, Any]:
    return {point.name: point for point in entry_points(group="armswing.robots") if point.name not in BUILTIN}


def names() -> list[str]:
    """Names of all built-in robots and robots of installed packages, sorted."""
    return sorted([*BUILTIN, *_entry_points()])


def _load(name: str) -> Builder:
    point = _entry_points()[name]
    try:
        loaded = point.load()
    except Exception as error:  # another package's code may raise anything; it is reported in one line
        why = f"{type(error).__name__}: {error}"
        raise InvalidRequest(f"robot {name!r}: the entry point {point.value!r} cannot be loaded: {why}") from error
    if not callable(loaded):
        raise InvalidRequest(
            f"robot {name!r}: the entry point {point.value!r} is no function; refer to one that returns a Mechanism"
        )
    function: Builder = loaded
    return function


def other_forms(name: str) -> str:
    """End of a message about a robot that is not known: how robots and corrections in files are given."""
    if name.endswith(".toml"):
        return f'; a file of corrections is given to its robot as a parameter, corrections="{name}"'
    return f"; one of your own is {files.FORM!r} or {files.MODEL_FORM!r}"


def builder(name: str) -> Builder:
    """The function that builds a robot. Its signature and docstring describe the robot's parameters."""
    if not isinstance(name, str):
        raise InvalidRequest(f"the name of a robot is {name!r}; it must be text, such as 'triple_pendulum'")
    if name in BUILTIN:
        return BUILTIN[name]
    if name in _entry_points():
        return _load(name)
    if files.is_reference(name):
        return files.load(name)
    raise UnknownName("the registry", "robot", name, names(), other_forms(name))


@dataclass(frozen=True)
class Parameter:
    """A parameter of the function that builds a robot.

    default  default value; None also if the parameter has no default
    choices  permitted values; empty if the parameter is not limited to a list of values
    meaning  description for displays and documentation
    none     text that says which value is used if the default is None or empty
    """

    name: str
    default: Any
    unit: str = ""
    choices: tuple[Any, ...] = ()
    meaning: str = ""
    none: str = ""


OF_EVERY_ROBOT = (
    Parameter(PUSHABLE, None, "", (), 'bodies to which forces may be applied: "arm, hand", or "*"', "none"),
    Parameter(LOCKED, None, "", (), 'joints that are fixed at a position, rad or m: "head_1=0.2, head_2"', "none"),
    Parameter(CORRECTIONS, None, "", (), "TOML file with other inertias and friction, as of armswing hil fit", "none"),
)


def parameters(name: str) -> list[Parameter]:
    """The parameters of a robot, from the signature of the function that builds it and its ParameterInfo
    annotations.
    """
    function = builder(name)
    hints, found = _hints(function), []
    for parameter in inspect.signature(function).parameters.values():
        hint = hints.get(parameter.name, Any)
        kind, *notes = typing.get_args(hint) if typing.get_origin(hint) is typing.Annotated else (hint,)
        about = next((note for note in notes if isinstance(note, ParameterInfo)), ParameterInfo(""))
        default = None if parameter.default is inspect.Parameter.empty else parameter.default
        choices = typing.get_args(kind) if typing.get_origin(kind) is typing.Literal else ()
        found.append(Parameter(parameter.name, default, about.unit, choices, about.text, about.none))
    return found


def _hints(function: Builder) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function, include_extras=True)
    except Exception:  # another package's annotations may not be resolvable
        return {}


def _counted(hint: Any, value: Any) -> Any:
    """`value` as an int if the parameter is an int and the value is whole: 24.0 from a launch file becomes 24."""
    kind = typing.get_args(hint)[0] if typing.get_origin(hint) is typing.Annotated else hint
    among = typing.get_args(kind)
    counts = kind is int or (float not in among and any(one is int or type(one) is int for one in among))
    return int(value) if counts and isinstance(value, float) and value.is_integer() else value


def with_joint_coordinates(name: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of a robot, with coordinates = "joint" added.

    Nothing is added if the robot `name` has no parameter `coordinates`, or if `parameters` already contains it.
    """
    has_choice = "coordinates" in inspect.signature(builder(name)).parameters
    return {"coordinates": "joint", **parameters} if has_choice else dict(parameters)


# {arguments: mechanism, and the warnings at its construction}
_Built = dict[str, tuple[Mechanism, list[warnings.WarningMessage]]]
_built: ContextVar[_Built | None] = ContextVar("_built", default=None)
_shown_warnings: dict[Any, Any] = {}  # registry of `warnings`: by default, each warning is shown once


@contextmanager
def built_once() -> Iterator[None]:
    """Context in which `build` returns the same mechanism for equal arguments, instead of building it again.

    Its warnings are given each time. Files that a robot is built from must not change in the context.
    """
    token = _built.set({})
    try:
        yield
    finally:
        _built.reset(token)


def build(name: str, **parameters: Any) -> Mechanism:
    """Build and validate the mechanism of a robot.

    Every robot has three additional parameters. `pushable`: names of bodies on which an external force can act, such as
    "arm, hand", or "*" for all. `locked`: joints that are fixed at a position in rad or m, such as
    "head_1=0.2, head_2", where a joint without a position is fixed at 0. `corrections`: a TOML file with other inertias
    of bodies and other friction of joints, such as `armswing hil fit` writes.

    Raises UnknownName for an unknown robot or parameter, InvalidRequest for invalid values.
    """
    known = _built.get()
    if known is None or not all(isinstance(value, (str, bool, int, float)) for value in parameters.values()):
        return _build(name, parameters)
    key = repr((name, sorted(parameters.items())))  # 1, 1.0 and True differ
    given: list[warnings.WarningMessage] = []
    try:
        if key not in known:
            with warnings.catch_warnings(record=True) as given:
                warnings.simplefilter("always")
                known[key] = _build(name, parameters), given
        mechanism, given = known[key]
        return mechanism
    finally:  # after an error too
        for each in given:
            warnings.warn_explicit(each.message, each.category, each.filename, each.lineno, registry=_shown_warnings)


def _build(name: str, parameters: dict[str, Any]) -> Mechanism:
    function = builder(name)
    known, hints = inspect.signature(function).parameters, _hints(function)
    pushable = None if PUSHABLE in known else parameters.pop(PUSHABLE, None)
    corrections = None if CORRECTIONS in known else parameters.pop(CORRECTIONS, None)
    locked = None if LOCKED in known else parameters.pop(LOCKED, None)
    for parameter in parameters:
        if parameter not in known:
            more = (
                f"; a number of its file: change it in a copy, {FILE}=COPY"
                if "." in parameter and FILE in known
                else ""
            )
            every = dict.fromkeys((*known, PUSHABLE, LOCKED, CORRECTIONS))
            raise UnknownName(f"robot {name!r}", "parameter", parameter, every, more)
    try:
        mechanism = function(**{key: _counted(hints.get(key), value) for key, value in parameters.items()})
    except TypeError as error:
        raise InvalidRequest(f"robot {name!r} cannot be built from {parameters}: {error}") from error
    except Exception as error:
        if not files.is_reference(name) or isinstance(error, ValueError):
            raise
        path = Path(files.split(files.located(name))[0])
        raise InvalidRequest(f"robot {name!r}: {files.failure(error, path, 'building it from')}") from error
    if not isinstance(mechanism, Mechanism):
        raise InvalidRequest(
            f"robot {name!r}: the builder function returned a {type(mechanism).__name__}; it must return a Mechanism"
        )
    if corrections:
        mechanism = with_corrections(mechanism, read_corrections(Path(str(corrections))))
    if locked is not None:
        mechanism = with_locked_joints(mechanism, positions_of(locked, f"robot {name!r}"))
    if pushable is not None:
        bodies = [body.name for body in mechanism.bodies]
        chosen = bodies if pushable == "*" else [name.strip() for name in str(pushable).split(",") if name.strip()]
        mechanism = dataclasses.replace(mechanism, pushable=tuple(chosen))
    validate(mechanism)
    return with_contact_stiffness(mechanism)
