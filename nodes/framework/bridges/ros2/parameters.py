"""Parameters of a launch's nodes as parameters of ROS 2 nodes: one node of the graph for each node of the launch."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from nodes.framework.bridges.ros2 import graph
from nodes.framework.bridges.ros2.session import RosSession
from nodes.framework.client import Client, UnknownNameError
from nodes.framework.messages import Event
from nodes.framework.ros2.interfaces.builtin_interfaces import Time
from nodes.framework.ros2.interfaces.rcl_interfaces import (
    DescribeParameters,
    FloatingPointRange,
    GetParameters,
    GetParameterTypes,
    ListParameters,
    ListParametersResult,
    Parameter,
    ParameterDescriptor,
    ParameterEvent,
    ParameterType,
    ParameterValue,
    SetParameters,
    SetParametersAtomically,
    SetParametersResult,
)
from nodes.framework.transport.registry import RegistryError
from nodes.framework.transport.service import ServiceError
from nodes.framework.transport.sockets import AddressError
from sim_core.support.suggestion import did_you_mean

UNREACHABLE = (ServiceError, RegistryError, UnknownNameError, AddressError, ConnectionError)
_FIELDS: dict[int, str] = {
    ParameterType.PARAMETER_BOOL: "bool_value",
    ParameterType.PARAMETER_INTEGER: "integer_value",
    ParameterType.PARAMETER_DOUBLE: "double_value",
    ParameterType.PARAMETER_STRING: "string_value",
    ParameterType.PARAMETER_BYTE_ARRAY: "byte_array_value",
    ParameterType.PARAMETER_BOOL_ARRAY: "bool_array_value",
    ParameterType.PARAMETER_INTEGER_ARRAY: "integer_array_value",
    ParameterType.PARAMETER_DOUBLE_ARRAY: "double_array_value",
    ParameterType.PARAMETER_STRING_ARRAY: "string_array_value",
}
_SCALARS: dict[type, int] = {
    bool: ParameterType.PARAMETER_BOOL,
    int: ParameterType.PARAMETER_INTEGER,
    float: ParameterType.PARAMETER_DOUBLE,
    str: ParameterType.PARAMETER_STRING,
}
_TO_ARRAY = ParameterType.PARAMETER_BOOL_ARRAY - ParameterType.PARAMETER_BOOL


class NodeParameters:
    """The parameters of one node of a launch, as a node of the ROS graph.

    A parameter that is a table has one ROS parameter for each of its entries, such as "joints.elbow.lower".
    """

    def __init__(self, session: RosSession, client: Client, name: str) -> None:
        self.name = name
        self._client = client
        self._node = session.node(f"/{graph.ros_name(name)}")
        for leaf, kind, answer in (
            ("list_parameters", ListParameters, self._list),
            ("get_parameters", GetParameters, self._get),
            ("get_parameter_types", GetParameterTypes, self._types),
            ("describe_parameters", DescribeParameters, self._describe),
            ("set_parameters", SetParameters, self._set),
            ("set_parameters_atomically", SetParametersAtomically, self._set_together),
        ):
            self._node.serve(f"{self._node.name}/{leaf}", kind, answer)

    def close(self) -> None:
        """Undeclare the node."""
        self._node.close()

    def _list(self, request: ListParameters.Request) -> ListParameters.Response:
        names = [
            name
            for name in self._values()
            if _is_within(name, request.prefixes) and (not request.depth or name.count(".") < request.depth)
        ]
        prefixes = sorted({name.rpartition(".")[0] for name in names if "." in name})
        return ListParameters.Response(ListParametersResult(names, prefixes))

    def _get(self, request: GetParameters.Request) -> GetParameters.Response:
        values = self._values()
        return GetParameters.Response([_ros_value(values.get(name)) for name in request.names])

    def _types(self, request: GetParameterTypes.Request) -> GetParameterTypes.Response:
        values = self._values()
        return GetParameterTypes.Response(bytes(_ros_value(values.get(name)).type for name in request.names))

    def _describe(self, request: DescribeParameters.Request) -> DescribeParameters.Response:
        values, limits = self._values(), self._call("describe_parameters")
        found = [_descriptor(name, values.get(name), limits.get(name) or {}) for name in request.names]
        return DescribeParameters.Response(found)

    def _set(self, request: SetParameters.Request) -> SetParameters.Response:
        return SetParameters.Response([self._change([each]) for each in request.parameters])

    def _set_together(self, request: SetParametersAtomically.Request) -> SetParametersAtomically.Response:
        return SetParametersAtomically.Response(self._change(request.parameters))

    def _change(self, parameters: list[Parameter]) -> SetParametersResult:
        """Set parameters in one call, so that all are set or none."""
        try:
            before = self._call("get_parameters")
            changed: dict[str, Any] = {}
            for each in parameters:
                key, *path = each.name.split(".")
                if each.name not in dict(_flat(before)):
                    known = ", ".join(dict(_flat(before)))
                    hint = did_you_mean(each.name[:80], dict(_flat(before)))
                    raise ValueError(f"node {self.name!r} has no parameter {each.name[:80]!r}{hint}; it has {known}")
                changed[key] = _with_entry(changed.get(key, before[key]), path, _plain_value(each.value))
            self._call("set_parameters", **changed)
        except (*UNREACHABLE, ValueError) as error:
            return SetParametersResult(False, str(error))
        return SetParametersResult(True)

    def _values(self) -> dict[str, Any]:
        """{name of a ROS parameter: its value}; {} if the node does not answer."""
        try:
            return dict(_flat(self._call("get_parameters")))
        except UNREACHABLE:
            return {}

    def _call(self, service: str, **args: Any) -> dict[str, Any]:
        found: dict[str, Any] = self._client.call(self.name, service, **args)
        return found


def parameter_event(event: Event, stamp: Time) -> ParameterEvent:
    """The message on /parameter_events of an event of the launch that a parameter of a node was set."""
    old, new = (
        {name: found for name, value in _flat({event.key: json.loads(text)}) if (found := _ros_value(value)).type}
        for text in (event.old, event.new)
    )
    return ParameterEvent(
        stamp,
        f"/{graph.ros_name(event.node)}",
        [Parameter(name, value) for name, value in new.items() if name not in old],
        [Parameter(name, value) for name, value in new.items() if name in old and old[name] != value],
        [Parameter(name, value) for name, value in old.items() if name not in new],
    )


def _flat(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _with_entry(table: Any, path: list[str], value: Any) -> Any:
    """A copy of the table with `value` at the path; the value itself for an empty path."""
    if not path:
        return value
    return {**table, path[0]: _with_entry(table[path[0]], path[1:], value)}


def _is_within(name: str, prefixes: list[str]) -> bool:
    return not prefixes or any(name == each or name.startswith(f"{each}.") for each in prefixes)


def _ros_value(value: Any) -> ParameterValue:
    """The value as a ROS parameter; one without a value if ROS has no type for it."""
    kind = _type_of(value)
    if not kind:
        return ParameterValue()
    if kind == ParameterType.PARAMETER_DOUBLE_ARRAY:
        value = [float(each) for each in value]
    found = ParameterValue(kind)
    setattr(found, _FIELDS[kind], value)
    return found


def _type_of(value: Any) -> int:
    if not isinstance(value, list):
        return _SCALARS.get(type(value), ParameterType.PARAMETER_NOT_SET)
    kinds = {type(each) for each in value} or {float}
    if kinds == {int, float}:
        kinds = {float}
    kind = _SCALARS.get(kinds.pop()) if len(kinds) == 1 else None
    return ParameterType.PARAMETER_NOT_SET if kind is None else kind + _TO_ARRAY


def _plain_value(value: ParameterValue) -> Any:
    if value.type == ParameterType.PARAMETER_NOT_SET:
        return None
    if value.type not in _FIELDS:
        raise ValueError(f"a parameter has the type {value.type}, which ROS does not have")
    return getattr(value, _FIELDS[value.type])


def _descriptor(name: str, value: Any, limits: Mapping[str, Any]) -> ParameterDescriptor:
    found = ParameterDescriptor(name, _type_of(value), limits.get("unit") or "")
    low, high = limits.get("low"), limits.get("high")
    if low is not None and high is not None and found.type == ParameterType.PARAMETER_DOUBLE:
        found.floating_point_range = [FloatingPointRange(low, high)]
    elif low is not None or high is not None:
        found.additional_constraints = f"from {'any' if low is None else low} to {'any' if high is None else high}"
    return found
