"""Text of a ROS message's definition, as bags contain it: the fields of the message and of all messages in them."""

from __future__ import annotations

from functools import cache

from nodes.framework.ros2.interface import Field, RosMessage, fields, nested, type_name

SEPARATOR = "=" * 80


@cache
def definition(message: type[RosMessage]) -> str:
    """The definition of a message in the format "ros2msg", without comments, constants and default values."""
    others = {each: f"{SEPARATOR}\nMSG: {_short(each)}\n{_lines(each)}" for each in nested(message)}
    return "".join([_lines(message), *others.values()])


def _lines(message: type[RosMessage]) -> str:
    return "".join(f"{_kind(each)} {each.name}\n" for each in fields(message))


def _kind(field: Field) -> str:
    kind = field.kind if isinstance(field.kind, str) else _short(field.kind)
    if not field.is_list:
        return kind
    if field.count is not None:
        return f"{kind}[{field.count}]"
    return f"{kind}[]" if field.bound is None else f"{kind}[<={field.bound}]"


def _short(message: type[RosMessage]) -> str:
    """Name of a message in a definition, such as "std_msgs/Header"."""
    return type_name(message).replace("/msg/", "/")
