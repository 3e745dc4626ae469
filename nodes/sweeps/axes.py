"""Axes of a sweep: the values of one key of a launch, which are listed, evenly spaced, or drawn at random."""

from __future__ import annotations

import hashlib
import math
import tomllib
import zlib
from typing import Any

import msgspec

FORMS = "key=FROM:TO:NUMBER, key=VALUE,VALUE,..., key=normal:MEAN:DEVIATION or key=uniform:LOW:HIGH"
RANDOM = {"normal": ("MEAN", "DEVIATION"), "uniform": ("LOW", "HIGH")}
MOST_VALUES = 1_000_000
DIGITS = 12  # significant digits of evenly spaced values, so that 0.1:0.3:3 gives 0.2


class AxisError(ValueError):
    """A text that is not an axis. The only argument is one line with the text and the valid forms."""


class Axis(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The values that one key takes in a sweep.

    values  the listed or evenly spaced values; empty for a random axis
    random  "normal" or "uniform"; "" for an axis of listed values
    first, second  mean and standard deviation, or lower and upper end, of a random axis
    """

    key: str
    values: tuple[Any, ...] = ()
    random: str = ""
    first: float = 0.0
    second: float = 0.0

    def draw(self, seed: int) -> float:
        """Value of a random axis in the cell with this seed; axes of one cell are independent."""
        import numpy as np

        generator = np.random.default_rng([seed, zlib.crc32(self.key.encode())])
        if self.random == "normal":
            return float(generator.normal(self.first, self.second))
        return float(generator.uniform(self.first, self.second))

    def text(self) -> str:
        """Text such as "sim.parameters.mass: 3 values, 0.1 .. 0.3"."""
        if self.random:
            names = " ".join(f"{name.lower()} {x:g}" for name, x in zip(RANDOM[self.random], self.ends, strict=True))
            return f"{self.key}: {self.random}, {names}"
        first, last = as_text(self.values[0]), as_text(self.values[-1])
        return f"{self.key}: {len(self.values)} values, {first} .. {last}"

    @property
    def ends(self) -> tuple[float, float]:
        """The two parameters of a random axis: mean and standard deviation, or lower and upper end."""
        return self.first, self.second


def parse_axis(text: str) -> Axis:
    """The axis that a text of the option `--over` describes. AxisError, one line, for an invalid text."""
    key, equals, given = (part.strip() for part in text.partition("="))
    if not equals or not key or not given:
        raise AxisError(f"--over {text!r}: an axis is {FORMS}")
    kind, *numbers = given.split(":")
    if kind in RANDOM:
        return _random_axis(text, key, kind, numbers)
    values = _spaced(text, kind, numbers) if len(numbers) == 2 else None
    if values is None:
        values = _listed(text, given)
    if len(values) == 1:
        raise AxisError(
            f"--over {text!r}: an axis has at least two values; set a fixed value by --set {key}={as_text(values[0])}"
        )
    if len({as_text(value) for value in values}) < len(values):
        raise AxisError(f"--over {text!r}: a value is listed twice; use --repeat to run a combination several times")
    return Axis(key, tuple(values))


def as_text(value: Any) -> str:
    """A value in TOML notation, for an override "key=value"; floats are exact."""
    if isinstance(value, str):
        return msgspec.json.encode(value).decode()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(as_text, value))}]"
    if isinstance(value, dict):
        pairs = (f"{msgspec.json.encode(key).decode()} = {as_text(item)}" for key, item in value.items())
        return f"{{ {', '.join(pairs)} }}"
    return repr(value)


def seed_of(seed: int, cell: int) -> int:
    """Seed of one cell of a sweep with this seed: 52 bits, which tables and JSON represent exactly."""
    digest = hashlib.blake2b(f"{seed}/{cell}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 12


def _random_axis(text: str, key: str, kind: str, numbers: list[str]) -> Axis:
    form = f"{key}={kind}:{':'.join(RANDOM[kind])}"
    try:
        first, second = map(float, numbers)
    except ValueError:
        raise AxisError(f"--over {text!r}: write this axis as {form}, with two numbers") from None
    if not math.isfinite(first) or not math.isfinite(second):
        raise AxisError(f"--over {text!r}: both numbers of {form} must be finite")
    if kind == "normal" and second <= 0.0:
        raise AxisError(f"--over {text!r}: DEVIATION must be above 0; set a fixed value by --set {key}={numbers[0]}")
    if kind == "uniform" and second <= first:
        raise AxisError(f"--over {text!r}: LOW must be below HIGH; set a fixed value by --set {key}={numbers[0]}")
    return Axis(key, random=kind, first=first, second=second)


def _spaced(text: str, first: str, rest: list[str]) -> list[Any] | None:
    """Evenly spaced values of FROM:TO:NUMBER, whole numbers where FROM, TO and the spacing are whole.

    None where the text does not have three numbers.
    """
    try:
        low, high, count = float(first), float(rest[0]), int(rest[1])
    except ValueError:
        if _is_number(first) and _is_number(rest[0]):
            raise AxisError(f"--over {text!r}: NUMBER of FROM:TO:NUMBER must be a whole number") from None
        return None
    if not (math.isfinite(low) and math.isfinite(high)) or count < 1 or (low == high and count > 1):
        raise AxisError(f"--over {text!r}: FROM and TO of FROM:TO:NUMBER must differ, and NUMBER must be at least 2")
    if count > MOST_VALUES:
        raise AxisError(f"--over {text!r}: an axis has at most {MOST_VALUES} values")
    values = [float(f"{low + (high - low) * k / max(count - 1, 1):.{DIGITS}g}") for k in range(count)]
    whole = all("." not in end and "e" not in end.lower() for end in (first, rest[0]))
    return [int(x) for x in values] if whole and all(x.is_integer() for x in values) else values


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _listed(text: str, given: str) -> list[Any]:
    """Values separated by commas, in TOML notation; an unquoted word is a string."""
    try:
        return list(tomllib.loads(f"values = [{given}]")["values"])
    except tomllib.TOMLDecodeError:
        pass
    found: list[Any] = []
    for part in (part.strip() for part in given.split(",")):
        if not part:
            raise AxisError(f"--over {text!r}: a value is empty; an axis is {FORMS}")
        try:
            found.append(tomllib.loads(f"value = {part}")["value"])
        except tomllib.TOMLDecodeError:
            found.append(part)
    return found
