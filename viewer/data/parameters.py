"""Parameters of the live nodes: their values, units and limits, and a value as text."""

from __future__ import annotations

import json
import math
from typing import Any

from nodes.framework.client import Client
from nodes.framework.transport.service import ServiceError


def read_all(client: Client) -> tuple[dict[str, Any], dict[str, Any]]:
    """({node: parameters}, {node: units and limits}) of all nodes that have parameters."""
    values, limits = {}, {}
    for entry in client.nodes():
        try:
            values[entry.name] = client.call(entry.name, "get_parameters")
            limits[entry.name] = client.call(entry.name, "describe_parameters")
        except (ServiceError, LookupError):  # a node of another program may have none
            continue
    return values, limits


def value_text(value: Any) -> str:
    """A value of a parameter as text: strings without quotation marks, all other values in JSON notation."""
    return value if isinstance(value, str) else json.dumps(value)


def parse_value(text: str, before: Any) -> Any:
    """Value of the text that a user typed to replace the value `before` of a parameter.

    If `before` is a string, the text is returned. Otherwise, the text is read in JSON notation. A whole number is
    converted to a float if `before` is a float. Raises ValueError with a one-line message for a text that is not JSON
    or not finite.
    """
    if isinstance(before, str):
        return text
    try:
        value = json.loads(text.strip())
    except json.JSONDecodeError:
        raise ValueError(f"{text!r} cannot be read as a value; write a value like {value_text(before)}") from None
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{text!r} is not finite; write a finite number")
    if isinstance(before, float) and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    return value


def outside(value: Any, limit: dict[str, Any]) -> bool:
    """Whether a number lies outside its limits."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    low, high = limit.get("low"), limit.get("high")
    return (low is not None and value < low) or (high is not None and value > high)


def limits_text(limit: dict[str, Any]) -> str:
    """Limits as text, such as "0 .. 10"; "" if there are none."""
    low, high = limit.get("low"), limit.get("high")
    if low is None and high is None:
        return ""
    return f"{'' if low is None else f'{low:g}'} .. {'' if high is None else f'{high:g}'}".strip()
