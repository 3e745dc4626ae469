"""Functions that encode and decode one type of ROS message, generated as Python source from the message's fields."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from nodes.framework.ros2.interface import Field, RosMessage, fields

CODES = {
    "bool": "?",
    "byte": "B",
    "int8": "b",
    "uint8": "B",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "uint64": "Q",
    "float32": "f",
    "float64": "d",
}
_OCTETS = ("uint8", "byte")  # lists of these are bytes in Python
_WORD = 8


def encoding_function(kind: type[RosMessage]) -> Callable[[RosMessage], bytes]:
    """Function (message) -> its body in CDR, little-endian, without header."""
    source = _Encoding()
    source.write_message(kind, "m")
    source.flush()
    return source.compiled("def function(m):\n o = bytearray()\n", " return bytes(o)\n")


def decoding_function(kind: type[RosMessage], byte_order: str) -> Callable[[bytes], tuple[Any, int]]:
    """Function (body in CDR without header) -> (message, end of its last field).

    byte_order  "<" or ">"

    The function raises struct.error or ValueError for a body that is no such message.
    """
    source = _Decoding(byte_order)
    message = source.read_message(kind)
    source.flush()
    return source.compiled("def function(b):\n p = 0\n", f" return {message}, p\n")


def smallest_size(kind: str | type[RosMessage]) -> int:
    """Least number of bytes that a value of a type has, without padding."""
    if kind == "string":
        return 4
    if isinstance(kind, str):
        return struct.calcsize(f"<{CODES[kind]}")
    return (
        sum(
            (each.count or 1) * smallest_size(each.kind) if each.count or not each.is_list else 4
            for each in fields(kind)
        )
        or 1
    )


class _Source:
    """Source of a function: its lines, the names that they use, and the scalars that are still to be written.

    A run of scalars is one `struct.Struct` for each position (modulo 8) at which the run can begin, as its padding
    depends on it.
    """

    def __init__(self, byte_order: str) -> None:
        self.byte_order = byte_order
        self.names: dict[str, Any] = {"pack": struct.pack, "unpack_from": struct.unpack_from}
        self.names |= {"text": _text, "checked": _checked, "octets": _octets}
        self._lines: list[str] = []
        self._indent = 1
        self._number = 0
        self.codes: list[str] = []

    def line(self, text: str) -> None:
        self._lines.append(" " * self._indent + text)

    def begin(self, text: str) -> None:
        self.line(text)
        self._indent += 1

    def end(self) -> None:
        self._indent -= 1

    def name(self, value: Any = None) -> str:
        """A new name, which stands for `value` if one is given."""
        self._number += 1
        name = f"v{self._number}"
        if value is not None:
            self.names[name] = value
        return name

    def runs(self, codes: list[str]) -> tuple[struct.Struct, ...]:
        """The layout of scalars for each position modulo 8 of their beginning."""
        found = []
        for start in range(_WORD):
            position, layout = start, self.byte_order
            for code in codes:
                size = struct.calcsize(self.byte_order + code)
                layout += f"{-position % size}x{code}"
                position += -position % size + size
            found.append(struct.Struct(layout))
        return tuple(found)

    def compiled(self, head: str, tail: str) -> Callable[..., Any]:
        code = compile(head + "\n".join(self._lines) + "\n" + tail, "<CDR>", "exec")
        exec(code, self.names)
        return self.names["function"]  # type: ignore[no-any-return]


class _Encoding(_Source):
    """Source of a function that appends a message `m` to the bytes `o`."""

    def __init__(self) -> None:
        super().__init__("<")
        self._values: list[str] = []

    def write_message(self, kind: type[RosMessage], value: str) -> None:
        for field in fields(kind):
            self._write(field, f"{value}.{field.name}")
        if not fields(kind):
            self._write_scalar("uint8", "0")

    def _write(self, field: Field, value: str) -> None:
        if field.is_list:
            self._write_list(field, value)
        else:
            self._write_one(field.kind, value)

    def _write_one(self, kind: str | type[RosMessage], value: str) -> None:
        if not isinstance(kind, str):
            self.write_message(kind, value)
        elif kind == "string":
            text = self.name()
            self.line(f"{text} = {value}.encode()")
            self._write_scalar("uint32", f"len({text}) + 1")
            self.flush()
            self.line(f"o += {text}; o.append(0)")
        else:
            self._write_scalar(kind, value)

    def _write_scalar(self, kind: str, value: str) -> None:
        self.codes.append(CODES[kind])
        self._values.append(value)

    def _write_list(self, field: Field, value: str) -> None:
        items = self.name()
        self.line(f"{items} = {value}")
        if field.count is None:
            if field.bound is not None:
                self.line(f"checked(len({items}) <= {field.bound}, {field.name!r})")
            self._write_scalar("uint32", f"len({items})")
        else:
            self.line(f"checked(len({items}) == {field.count}, {field.name!r})")
        self.flush()
        if field.kind in _OCTETS:
            self.line(f"o += bytes({items})")
        elif isinstance(field.kind, str) and field.kind != "string":
            code = CODES[field.kind]
            self.begin(f"if {items}:")
            self.line(f"o += bytes(-len(o) % {smallest_size(field.kind)})")
            self.line(f"o += pack(f'<{{len({items})}}{code}', *{items})")
            self.end()
        else:
            item = self.name()
            self.begin(f"for {item} in {items}:")
            self._write_one(field.kind, item)
            self.flush()
            self.end()

    def flush(self) -> None:
        """Write the scalars that are still to be written."""
        if self.codes:
            runs = self.name(tuple(each.pack for each in self.runs(self.codes)))
            self.line(f"o += {runs}[len(o) & 7]({', '.join(self._values)})")
        self.codes, self._values = [], []


class _Decoding(_Source):
    """Source of a function that reads a message from the bytes `b`, from position `p` on."""

    def __init__(self, byte_order: str) -> None:
        super().__init__(byte_order)
        self._targets: list[str] = []

    def read_message(self, kind: type[RosMessage]) -> str:
        """Write the lines that read a message; returns the expression that makes it."""
        values = [self._read(field) for field in fields(kind)]
        if not values:
            self._read_scalar("uint8")
        return f"{self.name(kind)}({', '.join(values)})"

    def _read(self, field: Field) -> str:
        return self._read_list(field) if field.is_list else self._read_one(field.kind)

    def _read_one(self, kind: str | type[RosMessage]) -> str:
        if not isinstance(kind, str):
            return self.read_message(kind)
        if kind != "string":
            return self._read_scalar(kind)
        size = self._read_scalar("uint32")
        self.flush()
        self.line(f"{size}, p = text(b, p, {size})")
        return size

    def _read_scalar(self, kind: str) -> str:
        target = self.name()
        self.codes.append(CODES[kind])
        self._targets.append(target)
        return target

    def _read_list(self, field: Field) -> str:
        if field.count is None:
            count = self._read_scalar("uint32")
            self.flush()
            least = smallest_size(field.kind)
            self.line(f"checked({count} * {least} <= len(b) - p, {field.name!r})")
            if field.bound is not None:
                self.line(f"checked({count} <= {field.bound}, {field.name!r})")
        else:
            self.flush()
            count = str(field.count)
        return self._read_items(field.kind, count)

    def _read_items(self, kind: str | type[RosMessage], count: str) -> str:
        items = self.name()
        if kind in _OCTETS:
            self.line(f"{items}, p = octets(b, p, {count})")
        elif isinstance(kind, str) and kind != "string":
            size = smallest_size(kind)
            self.line(f"{items} = []")
            self.begin(f"if {count}:")
            self.line(f"p += -p % {size}")
            self.line(f"{items} = list(unpack_from(f'{self.byte_order}{{{count}}}{CODES[kind]}', b, p))")
            self.line(f"p += {size} * {count}")
            self.end()
        else:
            self.line(f"{items} = []")
            self.begin(f"for _ in range({count}):")
            item = self._read_one(kind)
            self.flush()
            self.line(f"{items}.append({item})")
            self.end()
        return items

    def flush(self) -> None:
        """Write the line that reads the scalars that are still to be read."""
        if self.codes:
            runs, run = self.name(self.runs(self.codes)), self.name()
            self.line(f"{run} = {runs}[p & 7]")
            self.line(f"{', '.join(self._targets)}, = {run}.unpack_from(b, p); p += {run}.size")
        self.codes, self._targets = [], []


def _checked(is_right: bool, name: str) -> None:
    if not is_right:
        raise ValueError(f"the number of entries of {name!r} is wrong")


def _text(body: bytes, position: int, size: int) -> tuple[str, int]:
    """(a string of `size` bytes with its end mark, position behind it)."""
    end = position + size
    if end > len(body):
        raise ValueError(f"a string has {size} bytes; {len(body) - position} are left")
    if size and body[end - 1]:
        raise ValueError("a string does not end with a zero byte")
    return body[position : max(end - 1, position)].decode(), end


def _octets(body: bytes, position: int, count: int) -> tuple[bytes, int]:
    """(`count` bytes, position behind them)."""
    end = position + count
    if end > len(body):
        raise ValueError(f"a list has {count} bytes; {len(body) - position} are left")
    return body[position:end], end
