"""Messages and services of the ROS package rcl_interfaces: parameters of nodes."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import field

from nodes.framework.ros2.interface import AtMost, Bytes, Int64, RosMessage, RosService, UInt8, UInt64
from nodes.framework.ros2.interfaces.builtin_interfaces import Time


class ParameterType(RosMessage):
    """The types of parameters."""

    PARAMETER_NOT_SET: ClassVar[UInt8] = 0
    PARAMETER_BOOL: ClassVar[UInt8] = 1
    PARAMETER_INTEGER: ClassVar[UInt8] = 2
    PARAMETER_DOUBLE: ClassVar[UInt8] = 3
    PARAMETER_STRING: ClassVar[UInt8] = 4
    PARAMETER_BYTE_ARRAY: ClassVar[UInt8] = 5
    PARAMETER_BOOL_ARRAY: ClassVar[UInt8] = 6
    PARAMETER_INTEGER_ARRAY: ClassVar[UInt8] = 7
    PARAMETER_DOUBLE_ARRAY: ClassVar[UInt8] = 8
    PARAMETER_STRING_ARRAY: ClassVar[UInt8] = 9


class ParameterValue(RosMessage):
    """Value of a parameter; `type`, a constant of ParameterType, tells which of the other fields holds it."""

    type: UInt8 = 0
    bool_value: bool = False
    integer_value: Int64 = 0
    double_value: float = 0.0
    string_value: str = ""
    byte_array_value: Bytes = b""
    bool_array_value: list[bool] = []
    integer_array_value: list[Int64] = []
    double_array_value: list[float] = []
    string_array_value: list[str] = []


class Parameter(RosMessage):
    """A parameter and its value."""

    name: str = ""
    value: ParameterValue = field(default_factory=ParameterValue)


class FloatingPointRange(RosMessage):
    """Range of a parameter that is a number, with the step between its values; 0 for any value."""

    from_value: float = 0.0
    to_value: float = 0.0
    step: float = 0.0


class IntegerRange(RosMessage):
    """Range of a parameter that is an integer, with the step between its values; 0 for any value."""

    from_value: Int64 = 0
    to_value: Int64 = 0
    step: UInt64 = 0


class ParameterDescriptor(RosMessage):
    """Type, meaning and limits of a parameter."""

    name: str = ""
    type: UInt8 = 0
    description: str = ""
    additional_constraints: str = ""
    read_only: bool = False
    dynamic_typing: bool = False
    floating_point_range: Annotated[list[FloatingPointRange], AtMost(1)] = []
    integer_range: Annotated[list[IntegerRange], AtMost(1)] = []


class ListParametersResult(RosMessage):
    """Names of parameters, and the prefixes of names."""

    names: list[str] = []
    prefixes: list[str] = []


class SetParametersResult(RosMessage):
    """Whether a parameter was set, and why not."""

    successful: bool = False
    reason: str = ""


class ParameterEvent(RosMessage):
    """Change of parameters of a node."""

    stamp: Time = field(default_factory=Time)
    node: str = ""
    new_parameters: list[Parameter] = []
    changed_parameters: list[Parameter] = []
    deleted_parameters: list[Parameter] = []


class GetParameters(RosService):
    """Returns values of parameters."""

    class Request(RosMessage):
        names: list[str] = []

    class Response(RosMessage):
        values: list[ParameterValue] = []


class GetParameterTypes(RosService):
    """Returns types of parameters, constants of ParameterType."""

    class Request(RosMessage):
        names: list[str] = []

    class Response(RosMessage):
        types: Annotated[bytes, "uint8"] = b""


class SetParameters(RosService):
    """Sets parameters, one after the other."""

    class Request(RosMessage):
        parameters: list[Parameter] = []

    class Response(RosMessage):
        results: list[SetParametersResult] = []


class SetParametersAtomically(RosService):
    """Sets all parameters or none."""

    class Request(RosMessage):
        parameters: list[Parameter] = []

    class Response(RosMessage):
        result: SetParametersResult = field(default_factory=SetParametersResult)


class ListParameters(RosService):
    """Returns names of parameters, to a depth of levels (0: all)."""

    class Request(RosMessage):
        DEPTH_RECURSIVE: ClassVar[UInt64] = 0

        prefixes: list[str] = []
        depth: UInt64 = 0

    class Response(RosMessage):
        result: ListParametersResult = field(default_factory=ListParametersResult)


class DescribeParameters(RosService):
    """Returns types, meanings and limits of parameters."""

    class Request(RosMessage):
        names: list[str] = []

    class Response(RosMessage):
        descriptors: list[ParameterDescriptor] = []
