"""Warnings about parts of a model file that are not read: one warning per kind of part, with line numbers of the
file.
"""

from __future__ import annotations

import warnings

from robots.importing.xml_reader import Element
from sim_core.errors import DescriptionWarning

SHOWN = 4  # line numbers in one warning


class Notes:
    """Collects warnings about elements of a file.

    `warn` issues one DescriptionWarning per message, with the line numbers of all elements that have this message.
    """

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self._lines: dict[str, list[str]] = {}

    def add(self, element: Element, message: str) -> None:
        """Record that the warning `message` concerns an element; the warning gives the element's line and name."""
        included = element.owner.removeprefix(self._owner).removeprefix(": ")
        file = f" of {included}" if included else ""
        name = f" ({element.label})" if element.label else ""
        self._lines.setdefault(message, []).append(f"{element.line}{file}{name}")

    @property
    def texts(self) -> list[str]:
        """Texts of the warnings, one line each, in the order in which the messages were first added."""
        found = []
        for message, lines in self._lines.items():
            more = f" and {len(lines) - SHOWN} more" if len(lines) > SHOWN else ""
            found.append(f"{self._owner}: line{'s' * (len(lines) > 1)} {', '.join(lines[:SHOWN])}{more}: {message}")
        return found

    def warn(self) -> None:
        """Issue the collected warnings."""
        for text in self.texts:
            warnings.warn(text, DescriptionWarning, stacklevel=3)
