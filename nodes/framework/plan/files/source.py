"""Places in launch files, as error messages name them: "launch/demo.toml:12: node 'damp'".

`tomllib` reports no line numbers; `Lines` finds them in the text.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

KeyPath = tuple[str | int, ...]  # ("nodes", 0, "params", "gain"): keys, and the numbers of list entries from 0

_TOKEN = re.compile(
    r'"""(?:[^"\\]++|\\.|"(?!""))*+"{3,5}|\'\'\'.*?\'{3,5}|"(?:[^"\\\n]++|\\.)*+"|\'[^\'\n]*+\'|#[^\n]*+|[\[{]|[\]}]|\n',
    re.DOTALL,
)


@dataclass(frozen=True)
class Source:
    """A table of a launch file and its place, for messages.

    label  name of the table in messages; "" for the whole file
    path   keys that lead to the table
    """

    file: Path
    lines: Lines
    label: str = ""
    path: KeyPath = ()

    def __str__(self) -> str:
        return self.at()

    @property
    def line(self) -> int | None:
        """Number of the table's line; None where it was not written in the file."""
        return self.lines.of(self.path)

    def at(self, *keys: str | int) -> str:
        """Text with file, line and label of the table, or of the key at `keys`, for a message.

        The line is left out where the value was not written in the file.
        """
        line = self.lines.of((*self.path, *keys))
        place = f"{self.file}:{line}" if line is not None else str(self.file)
        return f"{place}: {self.label}" if self.label else place

    def place(self, *keys: str | int) -> str:
        """File and line of the table, or of one of its keys."""
        return replace(self, label="").at(*keys)

    def table(self, label: str, *keys: str | int) -> Source:
        """The table at the path `keys` below this table; messages call it `label`."""
        return replace(self, label=label, path=(*self.path, *keys))

    def below(self, key: str) -> Source:
        """The table at `key` below this one, with the key added to the label: "node 'damp': params"."""
        return replace(self, label=f"{self.label}: {key}" if self.label else key, path=(*self.path, key))


def at(where: Source | str, *keys: str | int) -> str:
    """Text of a place in a launch file, for messages.

    For a Source, the text consists of file, line and label of the key; a `where` that is text is returned unchanged.
    """
    return where.at(*keys) if isinstance(where, Source) else where


class Lines:
    """Line numbers, from 1, of the keys and tables of a valid TOML text."""

    def __init__(self, text: str) -> None:
        self._lines: dict[KeyPath, int] = {}
        self._entries: dict[KeyPath, int] = {}  # {path of a list of tables: index of its last entry so far}
        table: KeyPath = ()
        for number, statement in _statements(text):
            if statement.startswith("[["):
                table = self._entry(_keys(_key_text(statement[2:], "]")))
                self._add(table, number)
            elif statement.startswith("["):
                table = self._resolved(_keys(_key_text(statement[1:], "]")))
                self._add(table, number)
            else:
                self._add_assignment(table, statement, number)

    def of(self, path: KeyPath) -> int | None:
        """Line number of a key or table; for a key that is not in the text, the number of the nearest enclosing table.

        Returns None if the text has no enclosing table either, or if `forget` removed the line number.
        """
        while path:
            if path in self._lines:
                return self._lines[path] or None
            path = path[:-1]
        return None

    def forget(self, path: KeyPath) -> None:
        """Remove the line number of a key whose value no longer comes from the text, as after an override."""
        self._lines[path] = 0

    def _add(self, path: KeyPath, number: int) -> None:
        self._lines.setdefault(path, number)

    def _add_assignment(self, table: KeyPath, statement: str, number: int) -> None:
        key = _key_text(statement, "=")
        keys = _keys(key)
        for end in range(1, len(keys) + 1):
            self._add((*table, *keys[:end]), number)
        if statement[len(key) :].lstrip("= \t")[:1] not in "[{" or "{" not in statement:  # without inline tables
            return
        for inner in _inner(tomllib.loads(f"value = {statement[len(key) :].lstrip().removeprefix('=')}")["value"]):
            self._add((*table, *keys, *inner), number)

    def _entry(self, keys: KeyPath) -> KeyPath:
        """Path of the next entry of a list of tables, such as ("nodes", 2)."""
        path = (*self._resolved(keys[:-1]), keys[-1])
        index = self._entries[path] = self._entries.get(path, -1) + 1
        return (*path, index)

    def _resolved(self, keys: KeyPath) -> KeyPath:
        """Path of the table that a header names, such as ("nodes", 2, "params") for "nodes.params".

        The key of a list of tables is followed by the index of the list's last entry so far.
        """
        path: KeyPath = ()
        for key in keys:
            path = (*path, key)
            if path in self._entries:
                path = (*path, self._entries[path])
        return path


def _statements(text: str) -> Iterator[tuple[int, str]]:
    """(line number, text) of each table header and each assignment of a TOML text."""
    begin, depth, number, line = 0, 0, 1, 1
    for token in _TOKEN.finditer(text):
        mark = token[0]
        if mark in "[{":
            depth += 1
        elif mark in "]}":
            depth -= 1
        line += mark.count("\n")
        if mark != "\n":
            continue
        if depth == 0:
            if statement := _stripped(text[begin : token.start()]):
                yield number, statement
            begin, number = token.end(), line
    if statement := _stripped(text[begin:]):
        yield number, statement


def _stripped(statement: str) -> str:
    return "" if (text := statement.strip()).startswith("#") else text


def _key_text(statement: str, end: str) -> str:
    """Text of the key at the start of a statement, up to the character `end` ("=" or "]").

    An `end` inside a quoted key does not count.
    """
    found = re.match(rf"(?:\"(?:[^\"\\]++|\\.)*+\"|'[^']*+'|[^{end}\"']++)++", statement)
    return found[0] if found else statement


def _keys(text: str) -> KeyPath:
    """The parts of a dotted key: ("sim", "parameters") of "sim.parameters"."""
    value: Any = tomllib.loads(f"{text.strip()} = 0")
    keys = []
    while isinstance(value, dict):
        (key, value), *_ = value.items()
        keys.append(key)
    return tuple(keys)


def _inner(value: object) -> Iterator[KeyPath]:
    """Paths of the keys in the inline tables of a value, at any depth; elements of lists are given by their index."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in pairs:
        if isinstance(value, dict) or isinstance(item, dict):
            yield (key,)
        for inner in _inner(item):
            yield (key, *inner)
