"""Messages as JSON in a recording: JSON Schema of each message type, and decoding to typed messages.

JSON has no NaN or infinity. A non-finite number is written as null: every number in a schema is number or null, and
null becomes NaN again in a float field.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import msgspec
from msgspec import inspect

from nodes.framework.messages import Message
from nodes.framework.messages.codec import AnyMessage

DECODE_ERRORS = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)  # of a payload that is no valid message
NULLABLE = ("integer", "number", "object")
SCHEMA_DIALECT = "http://json-schema.org/draft-07/schema#"


@cache
def schema_name(kind: type[Message]) -> str:
    """Name of a message type in a recording, such as "armswing.RobotState"."""
    return f"armswing.{kind.__name__}"


@cache
def json_schema(kind: type[Message]) -> bytes:
    """JSON Schema of a message type, in which nested message types are written out where they are used.

    A number that may be null has both a `$ref` to "number or null" and the key "type": "number". Validators of JSON
    Schema draft 7 use the `$ref` and ignore the other key. Foxglove refuses channels with union types, and uses the key
    "type". The schema has no other references.
    """
    generated = msgspec.json.schema(kind)
    definitions = generated["$defs"]
    root = _simplified(definitions[kind.__name__], definitions)
    root["$schema"] = SCHEMA_DIALECT
    root["definitions"] = {f"{number}_or_null": {"type": [number, "null"]} for number in NULLABLE}
    return msgspec.json.encode(root, order="deterministic")


def schema_of(message: Message) -> bytes:
    """JSON Schema of a message's type. That of an `AnyMessage` describes the fields of this message alone."""
    if not isinstance(message, AnyMessage):
        return json_schema(type(message))
    return msgspec.json.encode({**_described(message.content), "$schema": SCHEMA_DIALECT}, order="deterministic")


def _described(value: Any) -> dict[str, Any]:
    """Schema of plain data; {} for data of which nothing is known, such as None or the entries of an empty list."""
    if isinstance(value, dict):
        return {"type": "object", "properties": {str(name): _described(item) for name, item in value.items()}}
    if isinstance(value, list):
        return {"type": "array", "items": _described(value[0]) if value else {}}
    kinds = {bool: "boolean", int: "number", float: "number", str: "string"}
    return {"type": kinds[type(value)]} if type(value) in kinds else {}


_encoder = msgspec.json.Encoder()


def encode_json(message: Message) -> bytes:
    """JSON of a message. Raises TypeError or ValueError for an `AnyMessage` with content that JSON cannot express."""
    return _encoder.encode(message.content if isinstance(message, AnyMessage) else message)


def _simplified(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """A copy of the schema with references resolved, nullable numbers marked, and a single "type" in each entry.

    A value that may have several types, other than null, gets the schema {}, which every value satisfies.
    """
    if "$ref" in schema:
        return _simplified(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    if "anyOf" in schema:  # X | None
        options = [option for option in schema["anyOf"] if option.get("type") != "null"]
        if len(options) > 1:  # a number or a vector: readers find out which from the value
            return {}
        return _nullable(_simplified(options[0], definitions))
    kind = schema.get("type", "string" if "enum" in schema else None)
    found: dict[str, Any] = {"type": kind}
    if "description" in schema:
        found["description"] = schema["description"]
    if "enum" in schema:
        found["enum"] = schema["enum"]
    if kind == "number":
        return _nullable(found)
    if kind == "array":
        found["items"] = _simplified(schema["items"], definitions)
    if kind == "object":
        properties = schema.get("properties", {})
        found["properties"] = {name: _simplified(field, definitions) for name, field in properties.items()}
        if isinstance(extra := schema.get("additionalProperties"), dict) and (one := _simplified(extra, definitions)):
            found["additionalProperties"] = one
    return found


def _nullable(schema: dict[str, Any]) -> dict[str, Any]:
    if schema["type"] in NULLABLE:
        return {**schema, "$ref": f"#/definitions/{schema['type']}_or_null"}
    return schema


@cache
def _decoder(kind: type[Message]) -> msgspec.json.Decoder[Message]:
    return msgspec.json.Decoder(kind)


def decode_json(kind: type[Message], payload: bytes) -> Message:
    """The message of a recorded JSON payload; null becomes NaN in every float field."""
    try:
        return _decoder(kind).decode(payload)
    except msgspec.ValidationError:
        plain = msgspec.json.decode(payload)
        return msgspec.convert(_with_nan(plain, inspect.type_info(kind)), kind)


def field_without_number(payload: bytes) -> str:
    """First field of a payload that is NaN or infinite, such as "a.b[2] is NaN"; "" if there is none."""

    def found(value: Any, path: str) -> str:
        if isinstance(value, dict):
            return next(filter(None, (found(item, f"{path}.{name}") for name, item in value.items())), "")
        if isinstance(value, list):
            return next(filter(None, (found(item, f"{path}[{index}]") for index, item in enumerate(value))), "")
        return f"{path.removeprefix('.')[:80]} is {value.text}" if isinstance(value, _Constant) else ""

    try:
        return found(json.loads(payload, parse_constant=_Constant), "")
    except (ValueError, RecursionError):
        return ""


class _Constant:
    def __init__(self, text: str) -> None:
        self.text = text


def _with_nan(value: Any, kind: inspect.Type) -> Any:
    """`value` with NaN in place of each null where the type `kind` requires a float."""
    if isinstance(kind, inspect.UnionType):
        kind = _chosen(value, kind)
    if value is None:
        return float("nan") if isinstance(kind, inspect.FloatType) else None
    if isinstance(kind, inspect.StructType) and isinstance(value, dict):
        fields = {field.encode_name: field.type for field in kind.fields}
        return {name: _with_nan(item, fields[name]) if name in fields else item for name, item in value.items()}
    if isinstance(kind, inspect.ListType) and isinstance(value, list):
        return [_with_nan(item, kind.item_type) for item in value]
    if isinstance(kind, inspect.DictType) and isinstance(value, dict):
        return {name: _with_nan(item, kind.value_type) for name, item in value.items()}
    return value


def _chosen(value: Any, union: inspect.UnionType) -> inspect.Type:
    """The member of a union type that matches a recorded value.

    A recorded null matches None if the union contains None; otherwise null stands for NaN and matches float.
    """
    wanted: tuple[type, ...] = (inspect.FloatType,)
    if isinstance(value, list | dict):
        wanted = (inspect.ListType,) if isinstance(value, list) else (inspect.StructType, inspect.DictType)
    elif value is None:
        wanted = (inspect.NoneType, inspect.FloatType)
    found = (kind for sought in wanted for kind in union.types if isinstance(kind, sought))
    return next(found, union.types[0])
