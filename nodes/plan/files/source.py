"""Places in launch files, as error messages name them: "launch/demo.toml:12: node 'damp'"."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from nodes.plan.files.lines import KeyPath, Lines


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
