"""Type hashes of ROS 2 interfaces (RIHS01): SHA-256 of a canonical JSON text of the type description (REP 2016)."""

from __future__ import annotations

import hashlib
import json
from functools import cache
from typing import Any

from nodes.framework.ros2.interface import Field, RosMessage, RosService, fields, nested, type_name
from nodes.framework.ros2.interfaces.service_msgs import ServiceEventInfo

# type_description_interfaces/msg/FieldType
_NESTED = 1
_ARRAY, _BOUNDED_SEQUENCE, _SEQUENCE = 48, 96, 144
_IDS = {
    "int8": 2,
    "uint8": 3,
    "int16": 4,
    "uint16": 5,
    "int32": 6,
    "uint32": 7,
    "int64": 8,
    "uint64": 9,
    "float32": 10,
    "float64": 11,
    "bool": 15,
    "byte": 16,
    "string": 17,
}
PLACEHOLDER = "structure_needs_at_least_one_member"  # uint8 field of a message without fields


@cache
def type_hash(interface: type[RosMessage] | type[RosService]) -> str:
    """The hash of an interface, such as "RIHS01_df66...", as rmw implementations and rosbag2 write it."""
    described: dict[str, Any] = {}
    own = _service(interface, described) if issubclass(interface, RosService) else _message(interface, described)
    others = [described[name] for name in sorted(described) if name != own["type_name"]]
    text = json.dumps({"type_description": own, "referenced_type_descriptions": others})
    return f"RIHS01_{hashlib.sha256(text.encode()).hexdigest()}"


def _message(message: type[RosMessage], described: dict[str, Any]) -> dict[str, Any]:
    """Description of a message; it and those of the messages in its fields are added to `described`."""
    for each in {message, *nested(message)}:
        entries = [_described(field) for field in fields(each)] or [_entry(PLACEHOLDER, _IDS["uint8"])]
        described[type_name(each)] = {"type_name": type_name(each), "fields": entries}
    return described[type_name(message)]  # type: ignore[no-any-return]


def _service(service: type[RosService], described: dict[str, Any]) -> dict[str, Any]:
    """Description of a service, whose fields are its request, its response and the event of both."""
    name = type_name(service)
    for each in (service.Request, service.Response, ServiceEventInfo):
        _message(each, described)
    described[f"{name}_Event"] = {
        "type_name": f"{name}_Event",
        "fields": [
            _entry("info", _NESTED, nested_type=type_name(ServiceEventInfo)),
            _entry("request", _BOUNDED_SEQUENCE + _NESTED, 1, f"{name}_Request"),
            _entry("response", _BOUNDED_SEQUENCE + _NESTED, 1, f"{name}_Response"),
        ],
    }
    parts = ("request", "response", "event")
    return {
        "type_name": name,
        "fields": [_entry(f"{part}_message", _NESTED, nested_type=f"{name}_{part.capitalize()}") for part in parts],
    }


def _described(field: Field) -> dict[str, Any]:
    is_plain = isinstance(field.kind, str)
    type_id = _IDS[field.kind] if isinstance(field.kind, str) else _NESTED
    if field.count is not None:
        type_id += _ARRAY
    elif field.bound is not None:
        type_id += _BOUNDED_SEQUENCE
    elif field.is_list:
        type_id += _SEQUENCE
    capacity = field.count or field.bound or 0
    return _entry(field.name, type_id, capacity, "" if is_plain else type_name(field.kind))  # type: ignore[arg-type]


def _entry(name: str, type_id: int, capacity: int = 0, nested_type: str = "") -> dict[str, Any]:
    kind = {"type_id": type_id, "capacity": capacity, "string_capacity": 0, "nested_type_name": nested_type}
    return {"name": name, "type": kind}
