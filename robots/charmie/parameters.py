"""Parameter file of CHARMIE: schema and reader."""

from __future__ import annotations

import math
import warnings
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from sim_core.errors import InvalidRequest, ParameterWarning
from sim_core.support.limited import read_limited
from sim_core.support.toml_text import load_toml
from sim_core.tables import misfit

DEFAULT_FILE = Path(__file__).with_name("charmie.toml")

Positive = Annotated[float, Meta(gt=0.0)]
NotNegative = Annotated[float, Meta(ge=0.0)]
Point = tuple[float, float, float]
Size = tuple[Positive, Positive, Positive]


class _Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base class of the tables of the parameter file; unknown keys are errors."""


class ServoGains(_Table, frozen=True):
    """Gains of an actuator's servo for velocity and position commands.

    `stiffness` is in N m/rad or N/m, `damping` in N m s/rad or N s/m.
    """

    stiffness: Positive
    damping: NotNegative


class Wheels(_Table, frozen=True):
    """Omnidirectional wheels, evenly spaced around the yaw axis at `distance` (m) from this axis.

    mass         mass of each wheel (kg)
    first_angle  direction of the first wheel as seen from the yaw axis (rad), measured from x towards y
    speed_limit  largest rate of a wheel (rad/s)
    """

    count: Annotated[int, Meta(ge=3)]
    mass: NotNegative
    radius: Positive
    distance: Positive
    pulses_per_turn: Annotated[int, Meta(gt=0)]
    first_angle: float
    speed_limit: Positive


class Base(_Table, frozen=True):
    """Link 3, which is the mobile base, in SI units.

    Three fictitious actuators move the base along x and y and about z. The limits and servo gains of the base are those
    of the fictitious actuators.
    """

    mass: Positive
    size: Size
    floor_gap: NotNegative
    lift_joint: Point
    speed_limit: Positive
    turn_limit: Positive
    acceleration_limit: Positive
    effort_limit: Positive
    torque_limit: Positive
    slide_servo: ServoGains
    turn_servo: ServoGains
    wheels: Wheels


class LowerBody(_Table, frozen=True):
    """Link 4, the lower body: its mass (kg), and its size and points in the link's axes (m)."""

    mass: Positive
    size: Size
    center_of_mass: Point
    tilt_joint: Point


class UpperBody(_Table, frozen=True):
    """Link 5, the upper body: its mass (kg), and its size and points in the link's axes (m)."""

    mass: Positive
    size: Size
    center_of_mass: Point
    left_shoulder: Point
    right_shoulder: Point
    neck: Point


class ArmLink(_Table, frozen=True):
    """One of the links 7 to 12: a uniform box along z from the link's joint to the next joint.

    axis  axis of the joint between the preceding link and this link
    """

    axis: Literal["x", "y", "z"]
    length: Positive
    width: Positive
    mass: Positive
    lower: float
    upper: float
    effort_limit: Positive
    servo: ServoGains


class Claw(_Table, frozen=True):
    """Link 13, the driven finger of the claw. `hinge` and `center` are in link 12's axes (m)."""

    axis: Literal["x", "y", "z"]
    hinge: Point
    center: Point
    length: Positive
    width: Positive
    mass: Positive
    lower: float
    upper: float
    effort_limit: Positive
    servo: ServoGains


class Arm(_Table, frozen=True):
    """Links 6 to 13 of an arm; both arms have the same numbers."""

    mount_mass: Positive
    mount_size: Size
    velocity_limit: Positive
    acceleration_limit: Positive
    links: Annotated[tuple[ArmLink, ...], Meta(min_length=6, max_length=6)]
    claw: Claw


class HeadLink(_Table, frozen=True):
    """Link 7c or 8c of the head. `joint` is the position (m) of the link's joint in the preceding link's axes."""

    joint: Point
    mass: Positive
    size: Size
    center_of_mass: Point
    lower: float
    upper: float
    servo: ServoGains


class Head(_Table, frozen=True):
    """Links 6c to 8c, the head."""

    mount_mass: Positive
    mount_size: Size
    velocity_limit: Positive
    effort_limit: Positive
    pan: HeadLink
    tilt: HeadLink


class LinearActuator(_Table, frozen=True):
    """A linear actuator between two bodies.

    lower, upper, velocity_limit, joint_effort_limit and servo are limits and gains of the joint that the actuator moves
    (rad or m; N or N m). effort_limit, rod_velocity_limit and rod_servo are limits and gains of the actuator's rod (N,
    m/s); they are used only with closed loops.
    """

    base_point: Point
    body_point: Point
    start_length: Positive
    lower: float
    upper: float
    velocity_limit: Positive
    effort_limit: Positive
    joint_effort_limit: Positive
    servo: ServoGains
    rod_velocity_limit: Positive
    rod_servo: ServoGains


class ExtensionSpring(_Table, frozen=True):
    """An extension spring, whose tension is pretension + stiffness (length - free_length)."""

    stiffness: NotNegative
    free_length: Positive
    pretension: NotNegative


class TiltSpring(ExtensionSpring, frozen=True):
    """The extension spring 5s, from `base_point` on link 4 to `body_point` on link 5."""

    base_point: Point
    body_point: Point


class Balance(_Table, frozen=True):
    """One half of the balancing mechanism of the lift. The other half is its mirror image with -x in place of x."""

    pivot: Point
    bar_length: Positive
    spring_at: Positive
    slide_height: float
    slider_length: NotNegative
    spring_anchor: Point
    spring: ExtensionSpring


class Auxiliary(_Table, frozen=True):
    """Masses (kg) and width (m) of the bodies in the closed loops."""

    cylinder_mass: Positive
    rod_mass: Positive
    bar_mass: Positive
    slider_mass: Positive
    width: Positive


class Parameters(_Table, frozen=True):
    """All numbers of CHARMIE, in SI units and radians: the sections of `charmie.toml`."""

    gravity: NotNegative
    base: Base
    lower_body: LowerBody
    upper_body: UpperBody
    arm: Arm
    head: Head
    lift: LinearActuator
    tilt: LinearActuator
    balance: Balance
    tilt_spring: TiltSpring
    auxiliary: Auxiliary


LARGEST_BYTES = 1_000_000  # of a file
FIRST_LINK = 7  # number of the first entry of the array `arm.links`, which holds links 7 to 12


def read_parameters(file: str | Path = "") -> Parameters:
    """Read the parameters from a TOML file, by default charmie.toml.

    Raises InvalidRequest if the file is missing or invalid; the message names the file and the wrong key.
    """
    path = Path(file) if file else DEFAULT_FILE
    where = f"robot 'charmie': {path}"
    try:
        text = read_limited(path, LARGEST_BYTES).decode()
    except OSError as error:
        raise InvalidRequest(f"{where} cannot be read: {error.strerror}") from error
    except ValueError as error:  # no text
        raise InvalidRequest(f"{where} is not valid TOML: {error}") from error
    found, numbers = _read_text(text, where)
    if file:
        _warn_of_absurd(where, numbers)
    return found


@lru_cache(maxsize=4)
def _read_text(text: str, where: str) -> tuple[Parameters, dict[str, float]]:
    """The parameters, and {dotted key: number}, of the text of a parameter file.

    where  label of the robot and the file, which begins an error message
    """
    try:
        document = load_toml(text)
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"{where} is not valid TOML: {error}") from error
    if wrong := misfit(document, Parameters, first={"arm.links": FIRST_LINK}):
        raise InvalidRequest(f"{where}: {wrong}")
    numbers = _flattened("", document)
    for key, number in numbers.items():
        owner = key.removesuffix(".lower")
        if owner != key and number > numbers[f"{owner}.upper"]:
            raise InvalidRequest(
                f"{where}: {key} is {number}; it must be at most {owner}.upper, {numbers[f'{owner}.upper']}"
            )
    return msgspec.convert(document, Parameters), numbers


TWO_TURNS = 4 * math.pi  # rad; a joint limit beyond it is probably in degrees
_shown_warnings: dict[Any, Any] = {}  # registry of `warnings`: each warning is shown once
FAR = 100.0  # ratio to the default number, or its inverse, beyond which a number is suspicious
UNITS = {"length": "m", "width": "m", "size": "m", "radius": "m", "distance": "m", "center": "m", "mass": "kg"}
SMALLER = {"m": "mm", "kg": "g"}


def _warn_of_absurd(where: str, numbers: dict[str, float]) -> None:
    """Warn of a joint limit that seems to be in degrees; if there is no such limit, of the number farthest from its
    default.

    The distance of a number from its default is measured by the ratio of the two. There is no warning for ratios
    between 1 / FAR and FAR, nor for a number or default of 0.
    """
    for key, x in numbers.items():
        if key.endswith((".lower", ".upper")) and key.partition(".")[0] != "lift" and abs(x) > TWO_TURNS:
            _warn(where, f"{key} is {x:g} rad, {abs(x) / (2 * math.pi):.1f} turns; is it in degrees?")
            return
    ships = _flattened("", load_toml(DEFAULT_FILE.read_text(encoding="utf-8")))
    ratios = {key: abs(x / ships[key]) for key, x in numbers.items() if x and ships.get(key)}
    far = {key: ratio for key, ratio in ratios.items() if not 1 / FAR <= ratio <= FAR}
    if not far:
        return
    key = max(far, key=lambda name: abs(math.log(far[name])))
    leaf = key.removesuffix(".x").removesuffix(".y").removesuffix(".z").rpartition(".")[2].split("_")[-1]
    unit = UNITS.get(leaf, "")
    smaller = f"; {SMALLER[unit]}?" if unit and 300.0 < far[key] < 3000.0 else ""
    more = f" ({len(far) - 1} more numbers are as far off)" if len(far) > 1 else ""
    share = f"{far[key]:.0f} times" if far[key] > 1.0 else f"1/{1 / far[key]:.0f} of"
    says = f"{key} is {f'{numbers[key]:g} {unit}'.strip()}, {share} the default{smaller}{more}"
    _warn(where, says)


def _warn(where: str, says: str) -> None:
    """Show a warning once. The warning names the default parameter file, and not a line of code, as the place of its
    origin.
    """
    warnings.warn_explicit(f"{where}: {says}", ParameterWarning, DEFAULT_FILE.name, 0, registry=_shown_warnings)


def numbers_of(p: Parameters, *sections: str) -> dict[str, float]:
    """Return {dotted key: number} of all parameters or of some sections.

    Examples of keys are base.size.x and arm.links.7.mass. Keys of points and sizes end in .x, .y or .z. In the keys,
    the links of the arm have the numbers of the paper.
    """
    table = msgspec.to_builtins(p)
    found: dict[str, float] = {}
    for section in sections or tuple(table):
        found |= _flattened(section, table[section])
    return found


def _flattened(key: str, value: object) -> dict[str, float]:
    if isinstance(value, dict):
        return {
            k: x for name, entry in value.items() for k, x in _flattened(f"{key}.{name}".lstrip("."), entry).items()
        }
    if isinstance(value, list | tuple):
        tables = any(isinstance(entry, dict) for entry in value)
        names = [str(n) for n in range(FIRST_LINK, FIRST_LINK + len(value))] if tables else ["x", "y", "z"]
        pairs = zip(names, value, strict=True)
        return {k: x for name, entry in pairs for k, x in _flattened(f"{key}.{name}", entry).items()}
    return {key: float(value)} if isinstance(value, int | float) else {}
