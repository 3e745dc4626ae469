"""Table of columns (TOML) that says which columns of a log are positions, velocities, efforts and commands of a robot's
joints, and in which units.
"""

from __future__ import annotations

import math
import tomllib
from pathlib import Path
from typing import Any, Literal

import msgspec

from nodes.hil.logs.tables import LogError
from nodes.hil.logs.units import (
    COUNT_RATES,
    COUNTS,
    CURRENTS,
    TIMES,
    TURN,
    UNKNOWN,
    Channel,
    units_of,
)
from sim_core.tables import misfit

CHANNELS: tuple[Channel, ...] = ("position", "velocity", "effort", "command")


class Column(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """A column and its unit. The value at the joint is factor * (column - offset), in SI units and radians.

    column           name of the column; "file.csv:name" selects one of several files
    unit             unit of the column; by default rad, rad/s and N m, or m, m/s and N of a sliding joint; "counts" or
                     "counts/s" for an encoder, "A" or "mA" for a motor current, "unknown" for an effort whose unit is
                     not known
    offset           number in the column, in its unit, that is 0 at the joint
    sign             -1 if the column counts the other way
    gear             turns of the motor per turn of the joint, if the column is of the motor's shaft
    counts_per_turn  counts of an encoder per turn, or per metre of a sliding joint
    gain             torque or force per ampere, N m/A or N/A, of the motor's shaft
    gain_sigma       standard deviation of `gain` relative to `gain`: 0.1 is 10 %
    mode             mode of a command: "effort", "velocity" or "position"
    """

    column: str
    unit: str = ""
    offset: float = 0.0
    sign: Literal[-1, 1] = 1
    gear: float = 1.0
    counts_per_turn: float | None = None
    gain: float | None = None
    gain_sigma: float = 0.0
    mode: Literal["effort", "velocity", "position"] = "effort"

    def factor(self, channel: Channel, slides: bool, place: str) -> float:
        """Factor from the column to the joint, in SI units and radians.

        channel  quantity of the column; for a command the quantity of its mode
        place    beginning of error messages
        Raises LogError for a unit that does not fit, or a number that is missing.
        """
        if not (math.isfinite(self.gear) and self.gear != 0.0):
            raise LogError(f"{place}: gear is {self.gear}; it must be a number other than 0")
        if not 0.0 <= self.gain_sigma < math.inf:
            raise LogError(f"{place}: gain_sigma is {self.gain_sigma}; it must be a number of at least 0")
        geared = self.gear if channel in ("effort", "command") else 1.0 / self.gear
        return self.sign * geared * self._unit_factor(channel, slides, place)

    def _unit_factor(self, channel: Channel, slides: bool, place: str) -> float:
        known = units_of(channel, slides)
        unit = self.unit or next(iter(known))
        is_count = unit == (COUNTS if channel == "position" else COUNT_RATES) and channel in ("position", "velocity")
        is_current = unit in CURRENTS and channel in ("effort", "command")
        if self.counts_per_turn is not None and not is_count:
            raise LogError(f"{place}: counts_per_turn belongs to the unit {COUNTS!r}, and the unit is {unit!r}")
        if is_count:
            if not self.counts_per_turn or not math.isfinite(self.counts_per_turn):
                raise LogError(f"{place}: the unit is {unit!r}; give counts_per_turn, the counts per turn")
            return (1.0 if slides else TURN) / self.counts_per_turn
        if is_current and (self.gain is None or not math.isfinite(self.gain) or self.gain == 0.0):
            raise LogError(f"{place}: the unit is {unit!r}; give gain, the torque (N m) or force (N) per ampere")
        gain = 1.0 if self.gain is None else self.gain
        if unit == UNKNOWN and channel in ("effort", "command"):
            return gain
        factor = CURRENTS[unit] if is_current else known.get(unit)
        if factor is None:
            more = {"position": (COUNTS,), "velocity": (COUNT_RATES,)}.get(channel, ("A", "mA", UNKNOWN))
            kind = "sliding" if slides else "rotating"
            raise LogError(
                f"{place}: unit {unit!r} is no unit of the {channel} of a {kind} joint; "
                f"use one of {', '.join([*known, *more])}"
            )
        return factor * gain


class Channels(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Columns of a joint or of a motor. A text is the name of a column in SI units and radians."""

    position: Column | str | None = None
    velocity: Column | str | None = None
    effort: Column | str | None = None
    command: Column | str | None = None

    def named(self) -> dict[Channel, Column]:
        """{channel: its column} of the channels that the log has."""
        found: dict[Channel, Column] = {}
        for channel in CHANNELS:
            value = getattr(self, channel)
            if value is not None:
                found[channel] = Column(column=value) if isinstance(value, str) else value
        return found


class TimeColumn(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """The column of time, which every file has under the same name.

    column  name of the column; "" if the log has none: the samples then follow each other by 1 / rate_hz
    unit    s, ms, us or ns
    ranges  [start, end] of each part of the log to import, s by the log's time; all of it without a range
    """

    column: str = ""
    unit: str = "s"
    rate_hz: float | None = None
    ranges: list[tuple[float, float]] = []


class Coupling(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Joints that several motors move together, such as a wrist with a differential.

    The positions of the joints are matrix @ positions of the motors; the efforts of the joints are the solution x of
    matrix' @ x = efforts of the motors.

    motors  names of tables [motors.NAME]; their channels take the place of those of the joints
    matrix  as many rows as joints, and as many columns as motors
    """

    joints: list[str]
    motors: list[str]
    matrix: list[list[float]]


class Columns(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """The whole table of columns.

    robot       name of a robot, or a URDF or MJCF file, as in a launch file
    parameters  parameters of the robot
    locked      {joint of the robot that is not in the log: position at which it was held, rad or m}
    time        the column of time
    joints      {joint of the robot: its columns}
    motors      {motor of a coupling: its columns}
    couplings   joints that several motors move together
    step_ms     step size of simulations of the model, ms
    """

    robot: str
    parameters: dict[str, float | str] = {}
    locked: dict[str, float] = {}
    time: TimeColumn = TimeColumn()
    joints: dict[str, Channels] = {}
    motors: dict[str, Channels] = {}
    couplings: list[Coupling] = []
    step_ms: float = 1.0


def read_columns(path: Path) -> Columns:
    """The table of columns in a TOML file. Raises LogError that names the file, the table and the key."""
    try:
        found: dict[str, Any] = tomllib.loads(path.read_text())
        if wrong := misfit(found, Columns):
            raise LogError(f"--columns {str(path)!r}: {wrong}")
        return msgspec.convert(found, Columns)
    except OSError as error:
        raise LogError(f"--columns {str(path)!r}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise LogError(f"--columns {str(path)!r} is no TOML: {error}") from None


def time_factor(time: TimeColumn) -> float:
    """Factor from the column of time to seconds. Raises LogError for an unknown unit."""
    if time.unit not in TIMES:
        raise LogError(f"[time]: unit is {time.unit!r}; it must be one of {', '.join(TIMES)}")
    return TIMES[time.unit]
