"""ROS 2 interfaces as Python classes: a struct per message, a class with Request and Response per service.

A module of `interfaces` holds the interfaces of the ROS package of its name. The annotation of a field gives its ROS
type: `bool`, `str`, `float` (float64), the aliases below, another message, or a list of these. Jazzy and Kilted have
the same definitions of all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, ClassVar, get_args, get_origin, get_type_hints

import msgspec

Int8 = Annotated[int, "int8"]
UInt8 = Annotated[int, "uint8"]
Int16 = Annotated[int, "int16"]
UInt16 = Annotated[int, "uint16"]
Int32 = Annotated[int, "int32"]
UInt32 = Annotated[int, "uint32"]
Int64 = Annotated[int, "int64"]
UInt64 = Annotated[int, "uint64"]
Float32 = Annotated[float, "float32"]
UInt8s = Annotated[bytes, "uint8"]
"""A sequence of uint8."""
Bytes = Annotated[bytes, "byte"]
"""A sequence of byte."""

_PLAIN = {bool: "bool", str: "string", float: "float64"}


class RosMessage(msgspec.Struct):
    """A ROS message. Fields have the names of the definition, and its default values."""


class RosService:
    """A ROS service: the messages that its requests and responses are."""

    Request: ClassVar[type[RosMessage]]
    Response: ClassVar[type[RosMessage]]


@dataclass(frozen=True)
class AtMost:
    """Marks a sequence with a bound, as `Annotated[list[float], AtMost(1)]`. An int marks an array of that length."""

    count: int


@dataclass(frozen=True)
class Field:
    """A field of a message.

    kind         ROS type of the field or of its entries: a primitive type such as "float64", "string", or a message
    is_list      whether the field is an array or a sequence
    count        length of an array; None for a sequence
    bound        largest length of a sequence; None if there is no bound
    """

    name: str
    kind: str | type[RosMessage]
    is_list: bool = False
    count: int | None = None
    bound: int | None = None


def type_name(interface: type[RosMessage] | type[RosService]) -> str:
    """ROS name of an interface, such as "sensor_msgs/msg/JointState" or "rcl_interfaces/srv/GetParameters_Request"."""
    package = interface.__module__.rpartition(".")[2]
    name = interface.__qualname__.replace(".", "_")
    is_message = issubclass(interface, RosMessage) and name == interface.__name__
    return f"{package}/{'msg' if is_message else 'srv'}/{name}"


@cache
def fields(message: type[RosMessage]) -> tuple[Field, ...]:
    """The fields of a message in the order of its definition."""
    hints = get_type_hints(message, include_extras=True)
    return tuple(_field(name, hints[name]) for name in message.__struct_fields__)


def _field(name: str, hint: Any) -> Field:
    marks: tuple[Any, ...] = ()
    if get_origin(hint) is Annotated:
        hint, *rest = get_args(hint)
        marks = tuple(rest)
    if hint is bytes:
        return Field(name, marks[0], is_list=True, count=marks[1] if len(marks) > 1 else None)
    if get_origin(hint) is not list:
        return Field(name, marks[0] if marks else _kind(hint))
    entry = get_args(hint)[0]
    kind = get_args(entry)[1] if get_origin(entry) is Annotated else _kind(entry)
    mark = marks[0] if marks else None
    if isinstance(mark, AtMost):
        return Field(name, kind, is_list=True, bound=mark.count)
    return Field(name, kind, is_list=True, count=mark)


def _kind(hint: Any) -> str | type[RosMessage]:
    if hint in _PLAIN:
        return _PLAIN[hint]
    if isinstance(hint, type) and issubclass(hint, RosMessage):
        return hint
    raise TypeError(f"{hint} is not the type of a field in ROS 2")


def nested(message: type[RosMessage]) -> Iterator[type[RosMessage]]:
    """Yield the messages in the fields of a message, and those in their fields; some more than once."""
    for each in fields(message):
        if not isinstance(each.kind, str):
            yield each.kind
            yield from nested(each.kind)
