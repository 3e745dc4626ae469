"""Encodes the result of `Node.snapshot` as bytes, and decodes the bytes to equal values of the same types.

Values may be numbers, text, bytes, None, lists, tuples, dicts, sets, deques, numpy arrays, messages and other structs,
and objects whose attributes are such values. Two references to one object become two equal objects. Equal values give
equal bytes.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Mapping
from typing import Any

import msgspec

from nodes.framework.messages.structs import UNSTAMPED
from nodes.node import Node

KIND = "~"  # key of the tables that stand for values which MessagePack lacks
PLAIN = (type(None), bool, float, str, bytes)
PACKAGES = ("nodes.", "sim_core.", "robots.")  # modules whose classes are restored, besides the node's own
LARGEST = 2**63  # of the integers that MessagePack holds

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder().decode


def encode_state(value: object, home: str = "") -> bytes:
    """The value as bytes.

    home  module of the node's class; the value may contain objects of this module's classes
    Raises TypeError with the path of the attribute for a value that cannot be encoded.
    """
    return _encode(_plain(value, "snapshot", home))


def decode_state(data: bytes, home: str = "") -> Any:
    """The value that `encode_state` encoded as `data`.

    home  module of the node's class; the value may contain objects of this module's classes
    Raises ValueError with a one-line message for other bytes.
    """
    try:
        return _value(_decode(data), home)
    except (msgspec.MsgspecError, TypeError, KeyError, IndexError, AttributeError) as error:
        raise ValueError(
            f"the bytes do not contain a saved node state: {error}; use a snapshot of the same node"
        ) from None


def _plain(value: Any, path: str, home: str) -> Any:
    kind = type(value)
    if kind in PLAIN:
        return value
    if value is msgspec.UNSET:
        return _tagged("unset", None)
    if kind is int:
        return value if -LARGEST <= value < LARGEST else _tagged("int", str(value))
    if kind is list:
        return [_plain(item, f"{path}[{k}]", home) for k, item in enumerate(value)]
    if kind is dict:
        if all(type(key) is str and key != KIND for key in value):
            return {key: _plain(item, f"{path}.{key}", home) for key, item in value.items()}
        return _tagged(
            "dict", [[_plain(key, path, home), _plain(item, f"{path}.{key}", home)] for key, item in value.items()]
        )
    if kind.__module__ == "numpy" and value.dtype.kind in "biufU":
        if value.shape == () and kind.__name__ != "ndarray":
            return value.item()
        return _tagged("array", value.tobytes(), dtype=value.dtype.str, shape=list(value.shape))
    if kind in (tuple, set, frozenset, deque):
        items = [_plain(item, f"{path}[{k}]", home) for k, item in enumerate(value)]
        if kind in (set, frozenset):
            items.sort(key=_encode)
        return _tagged(kind.__name__, items, **({"most": value.maxlen} if kind is deque else {}))
    if isinstance(value, msgspec.Struct):
        # an unset timestamp is known by its identity: left out, it stays unset
        fields = {name: getattr(value, name) for name in value.__struct_fields__}
        return _object(kind, {name: item for name, item in fields.items() if item is not UNSTAMPED}, path, home)
    has_more = isinstance(value, type | list | dict | tuple | set | frozenset | deque)  # besides its attributes
    if hasattr(value, "__dict__") and not has_more and _is_known(kind.__module__, home):
        return _object(kind, vars(value), path, home)
    raise TypeError(
        f"{path} is a {kind.__name__}, which cannot be saved; leave it out of the snapshot, and create it in `restore`"
    )


def _object(kind: type, values: Mapping[str, Any], path: str, home: str) -> dict[str, Any]:
    fields = {name: _plain(item, f"{path}.{name}", home) for name, item in values.items()}
    module = "" if kind.__module__ == home else kind.__module__  # the name of a user's module is of this computer
    return _tagged("object", fields, type=f"{module}:{kind.__qualname__}")


def _tagged(kind: str, value: Any, **more: Any) -> dict[str, Any]:
    return {KIND: kind, **more, "": value}


def _value(plain: Any, home: str) -> Any:
    if type(plain) is list:
        return [_value(item, home) for item in plain]
    if type(plain) is not dict:
        return plain
    kind = plain.get(KIND)
    if kind is None:
        return {key: _value(item, home) for key, item in plain.items()}
    inner = plain[""]
    if kind == "unset":
        return msgspec.UNSET
    if kind == "int":
        return int(inner)
    if kind == "array":
        import numpy as np  # nodes without arrays need no numpy

        return np.frombuffer(inner, dtype=np.dtype(plain["dtype"])).reshape(plain["shape"]).copy()
    if kind == "dict":
        return {_value(key, home): _value(item, home) for key, item in inner}
    if kind == "object":
        return _made(_class(plain["type"], home), {name: _value(item, home) for name, item in inner.items()})
    items = [_value(item, home) for item in inner]
    if kind == "deque":
        return deque(items, plain["most"])
    return {"tuple": tuple, "set": set, "frozenset": frozenset}[kind](items)


def _is_known(module: str, home: str) -> bool:
    return module == home or module.startswith(PACKAGES)


def _class(name: str, home: str) -> type:
    """The class named "module:name", which is in this project or in the module `home`. Imports no module."""
    module, _, path = name.partition(":")
    module = _moved(module) or home
    found: Any = sys.modules.get(module) if _is_known(module, home) else None
    for part in path.split("."):
        found = getattr(found, part, None)
    if not isinstance(found, type) or found.__module__ != module:
        raise ValueError(
            f"the bytes contain an object of an unknown class: there is no class {name!r}; "
            "use a snapshot of the same node"
        )
    return found


def _moved(module: str) -> str:
    """The module of today for one that a snapshot of version 0.2.0 names, which had no wings."""
    first, _, rest = module.removeprefix("nodes.").partition(".")
    old = module.startswith("nodes.") and first in ("client", "messages", "plan", "recording", "transport")
    return ".".join(filter(None, ("nodes.framework", first, rest))) if old else module


def _made(kind: type, values: dict[str, Any]) -> Any:
    if issubclass(kind, msgspec.Struct):
        return kind(**values)
    made = kind.__new__(kind)
    vars(made).update(values)
    return made


def keeps_state(cls: type[Node]) -> bool:
    """Whether snapshots contain the state of nodes of this class.

    They do if the class overrides `snapshot` or lists attributes in `state_attributes`.
    """
    return bool(cls.state_attributes) or cls.snapshot is not Node.snapshot
