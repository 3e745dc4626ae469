"""Axes of a sweep: the values that one key of a launch takes, which are listed, evenly spaced, or drawn at random."""

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
    """Raised for a text that does not describe an axis. The message is one line with the text and the mistake."""

    exit_code = 2


class Axis(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Axis of a sweep: the values that one key of the launch takes in the runs.

    values         the listed or evenly spaced values; empty for a random axis
    random         distribution of a random axis, "normal" or "uniform"; "" for any other axis
    first, second  mean and standard deviation of a normal distribution, or lower and upper end of a uniform one
    """

    key: str
    values: tuple[Any, ...] = ()
    random: str = ""
    first: float = 0.0
    second: float = 0.0

    def draw(self, seed: int) -> float:
        """Random value of the axis for the run with this seed. The values of different axes are independent."""
        import numpy as np

        generator = np.random.default_rng([seed, zlib.crc32(self.key.encode())])
        if self.random == "normal":
            return float(generator.normal(self.first, self.second))
        return float(generator.uniform(self.first, self.second))

    def text(self) -> str:
        """Description of the axis, such as "sim.parameters.mass: 3 values, 0.1 .. 0.3"."""
        if self.random:
            names = " ".join(f"{name.lower()} {x:g}" for name, x in zip(RANDOM[self.random], self.ends, strict=True))
            return f"{self.key}: {self.random}, {names}"
        first, last = as_text(self.values[0]), as_text(self.values[-1])
        return f"{self.key}: {len(self.values)} values, {first} .. {last}"

    def values_text(self, most: int) -> str:
        """The values as text. Of more than `most` values, only the first and the last `most` // 2 are written.

        For a random axis, the text describes the distribution.
        """
        if self.random:
            return self.text().partition(": ")[2]
        texts = [f"{value:.{DIGITS}g}" if isinstance(value, float) else as_text(value) for value in self.values]
        if len(texts) > most:
            texts = [*texts[: most // 2], "...", *texts[len(texts) - most // 2 :]]
        return ", ".join(texts)

    @property
    def ends(self) -> tuple[float, float]:
        """The two parameters of a random axis: mean and standard deviation, or lower and upper end."""
        return self.first, self.second


def parse_axis(text: str) -> Axis:
    """Axis that a text of the option `--over` describes. Raises AxisError with a one-line message for other texts."""
    key, equals, given = (part.strip() for part in text.partition("="))
    if not equals or not key or not given:
        raise AxisError(f"--over {text!r}: write an axis as {FORMS}")
    kind, *numbers = given.split(":")
    if kind in RANDOM:
        return _random_axis(text, key, kind, numbers)
    values = _spaced(text, kind, numbers) if len(numbers) == 2 else None
    if values is None:
        values = _listed(text, given)
    if len(values) == 1 and len(numbers) == 1 and _is_number(kind) and _is_number(numbers[0]):
        raise AxisError(
            f"--over {text!r}: the NUMBER of values is missing; write FROM:TO:NUMBER, such as {key}={given}:5"
        )
    if len(values) == 1:
        raise AxisError(
            f"--over {text!r}: an axis needs 2 or more values; pass --set {key}={as_text(values[0])} for a fixed value"
        )
    if len({_equality_key(value) for value in values}) < len(values):
        raise AxisError(f"--over {text!r}: a value is listed twice; use --repeat to run a combination several times")
    return Axis(key, tuple(values))


def _equality_key(value: Any) -> Any:
    """Key that is equal for equal values: 1 and 1.0 are equal, 1, true and "1" are not."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if is_number else as_text(value)


def as_text(value: Any) -> str:
    """A value in TOML notation, as in an override "key=value"; floats keep their exact value."""
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
    """Seed of the cell (run) with the index `cell`, in a sweep with the seed `seed`.

    The returned seed has 52 bits, so that tables and JSON represent it exactly.
    """
    digest = hashlib.blake2b(f"{seed}/{cell}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 12


def _random_axis(text: str, key: str, kind: str, numbers: list[str]) -> Axis:
    form = f"{key}={kind}:{':'.join(RANDOM[kind])}"
    try:
        first, second = map(float, numbers)
    except ValueError:
        raise AxisError(
            f"--over {text!r}: write this axis as {form}, with two numbers in place of the capital letters"
        ) from None
    if not math.isfinite(first) or not math.isfinite(second):
        raise AxisError(f"--over {text!r}: a number is not finite; write {form} with two finite numbers")
    if kind == "normal" and second <= 0.0:
        raise AxisError(
            f"--over {text!r}: the DEVIATION of normal:MEAN:DEVIATION must be above 0; for a fixed value, pass --set "
            f"{key}={numbers[0]} instead of --over"
        )
    if kind == "uniform" and second <= first:
        raise AxisError(
            f"--over {text!r}: the LOW of uniform:LOW:HIGH must be below HIGH; for a fixed value, pass --set "
            f"{key}={numbers[0]} instead of --over"
        )
    return Axis(key, random=kind, first=first, second=second)


def _spaced(text: str, first: str, rest: list[str]) -> list[Any] | None:
    """Evenly spaced values of a text FROM:TO:NUMBER. The values are ints if FROM, TO and the spacing are whole numbers.

    Returns None if FROM or TO is not a number.

    text   whole text of the option, for messages
    first  FROM
    rest   TO and NUMBER
    """
    try:
        low, high, count = float(first), float(rest[0]), int(rest[1])
    except ValueError:
        if _is_number(first) and _is_number(rest[0]):
            raise AxisError(f"--over {text!r}: the NUMBER of FROM:TO:NUMBER must be a whole number") from None
        return None
    if not (math.isfinite(low) and math.isfinite(high)) or count < 1 or (low == high and count > 1):
        raise AxisError(
            f"--over {text!r}: in FROM:TO:NUMBER, FROM and TO must be different finite numbers, and NUMBER must be at "
            "least 2"
        )
    if count > MOST_VALUES:
        raise AxisError(f"--over {text!r}: the NUMBER of FROM:TO:NUMBER must be at most {MOST_VALUES}")
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
    """Values that are separated by commas, in TOML notation; a word without quotation marks is a string."""
    try:
        return list(tomllib.loads(f"values = [{given}]")["values"])
    except tomllib.TOMLDecodeError:
        pass
    found: list[Any] = []
    for part in (part.strip() for part in given.split(",")):
        if not part:
            raise AxisError(f"--over {text!r}: a value is empty; write an axis as {FORMS}")
        try:
            found.append(tomllib.loads(f"value = {part}")["value"])
        except tomllib.TOMLDecodeError:
            found.append(part)
    return found
