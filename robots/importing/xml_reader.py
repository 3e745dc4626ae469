"""Reading of XML files as elements with line numbers and checked access to attributes; every error message is one line.

A file with a document type declaration is refused, so that no entity is expanded and no other file is read.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn
from xml.parsers import expat

from sim_core.errors import InvalidMechanism
from sim_core.support.limited import read_limited
from sim_core.support.suggestion import nearest

BOM = b"\xef\xbb\xbf"
DECLARATION = re.compile(rb"<\?xml[^<>]*+>(?<=\?>)")
NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")
DEEPEST = 200  # nesting of elements
LARGEST_BYTES, MOST_ELEMENTS, MOST_JOINTS = 16_000_000, 20_000, 1000  # of a file
LONGEST_TAG, MOST_ERRORS = 4_000_000, 100  # bytes of an element's attributes; listed in a message
LONG_TAG = re.compile(rb"<(?![!?])[^<>]{%d}" % LONGEST_TAG)
MISSPELT = 0.8  # similarity, 0 to 1, from which on an attribute is the misspelt name of a missing one
WORDS = {1: "one number", 2: "two numbers", 3: "three numbers", 4: "four numbers", 6: "six numbers"}


class ElementError(InvalidMechanism):
    """An error in an element of a file.

    message  the error message without robot, line and name of the element
    """

    def __init__(self, where: str, message: str) -> None:
        self.message = message
        super().__init__(f"{where}: {message}")


class Errors:
    """Collects the errors of a file, so that one message names all of them.

    lines  error messages without the owner, in the order in which they were found
    """

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self.lines: list[str] = []

    @contextmanager
    def collected(self) -> Iterator[None]:
        """Context manager that collects an InvalidMechanism; the rest of its `with` statement is skipped."""
        try:
            yield
        except InvalidMechanism as error:
            line = str(error).removeprefix(f"{self._owner}: ")
            self.lines += [line] if line not in self.lines else []

    def check(self) -> None:
        """Raise InvalidMechanism, with a one-line message that lists all collected errors, if there are any."""
        if len(self.lines) == 1:
            raise InvalidMechanism(f"{self._owner}: {self.lines[0]}")
        if self.lines:
            listed = " ".join(f"({number}) {line}" for number, line in enumerate(self.lines[:MOST_ERRORS], start=1))
            raise InvalidMechanism(f"{self._owner}: {len(self.lines)} errors: {listed}")


@dataclass
class Element:
    """An XML element: its tag, attributes, child elements in order, and the line on which it begins.

    owner      beginning of every error message, such as "robot 'panda.urdf'"
    label      kind and name of the element for error messages, such as "joint 'elbow'"; "" means the tag
    content    text between the tags, without white space at the ends
    inherited  {attribute that comes from a default of the file: line of this default}
    """

    tag: str
    attributes: dict[str, str]
    line: int
    owner: str
    label: str = ""
    children: list[Element] = field(default_factory=list)
    content: str = ""
    inherited: dict[str, int] = field(default_factory=dict)

    def fail(self, message: str) -> NoReturn:
        """Raise ElementError with `message`, preceded by the robot, the line and the name of this element.

        If the message begins with the name of an inherited attribute, the line of this attribute follows.
        """
        line = self.inherited.get(message.partition(" ")[0])
        raise ElementError(self.where, message + (f"; it comes from the default at line {line}" if line else ""))

    @property
    def where(self) -> str:
        """Robot, line and name of this element, as text for the beginning of messages."""
        return f"{self.owner}: line {self.line}: {self.label or f'<{self.tag}>'}"

    def walk(self) -> Iterator[Element]:
        """Yield this element and all its descendants, in the order of the file."""
        waiting = [self]
        while waiting:
            element = waiting.pop()
            yield element
            waiting += reversed(element.children)

    def has_content_of(self, other: Element) -> bool:
        """Whether tag, attributes, text and child elements are those of another element, wherever both are."""
        own, others = (list(each.walk()) for each in (self, other))
        return [(each.tag, each.attributes, each.content, len(each.children)) for each in own] == [
            (each.tag, each.attributes, each.content, len(each.children)) for each in others
        ]

    def all(self, tag: str) -> list[Element]:
        """All child elements with the given tag."""
        return [child for child in self.children if child.tag == tag]

    def optional(self, tag: str) -> Element | None:
        """The child element with the given tag; None if there is none. Raises InvalidMechanism if several differ."""
        found = self.all(tag)
        if len(found) > 1 and any(not each.has_content_of(found[0]) for each in found[1:]):
            found[1].fail(
                f"{self.label or f'<{self.tag}>'} has another <{tag}> at line {found[0].line}; remove one of them"
            )
        if found and self.label and not found[0].label:
            found[0].label = f"{self.label}: <{tag}>"
        return found[0] if found else None

    def child(self, tag: str) -> Element:
        """The child element with the given tag. Raises InvalidMechanism unless there is exactly one."""
        found = self.optional(tag)
        if found is None:
            self.fail(f"the element <{tag}> is missing; add it")
        return found

    def text(self, name: str, default: str | None = None) -> str:
        """Text of an attribute; `default` if the attribute is missing.

        Raises InvalidMechanism if there is no default and the attribute is missing or empty.
        """
        value = self.attributes.get(name, default)
        if value is None:
            given = nearest(name, self.attributes, MISSPELT)
            self.fail(f"attribute {name!r} is missing" + (f"; {given!r} is given; write {name!r}" if given else ""))
        if not value.strip() and default is None:
            self.fail(f"attribute {name!r} is empty")
        return value

    def name(self, attribute: str = "name") -> str:
        """Name of the element, from an attribute.

        Raises InvalidMechanism if the attribute is missing, empty or not printable.
        """
        value = self.text(attribute)
        if not value.isprintable():
            self.fail(f"attribute {attribute!r} is {value!r}; it must be printable text")
        return value

    def number(self, name: str, default: float | None = None) -> float:
        """Value of an attribute that consists of one finite number; `default` if the attribute is missing.

        Raises InvalidMechanism for other text, or if the attribute is missing and there is no default.
        """
        return self.numbers(name, 1, None if default is None else (default,))[0]

    def numbers(self, name: str, count: int, default: tuple[float, ...] | None = None) -> tuple[float, ...]:
        """Values of an attribute that consists of `count` finite numbers; `default` if the attribute is missing.

        Raises InvalidMechanism for other text, or if the attribute is missing and there is no default.
        """
        if name not in self.attributes and default is not None:
            return default
        words = self.text(name).split()
        if len(words) != count:
            self.fail(f"{name} is {short(self.attributes[name])}; it must be {WORDS.get(count, f'{count} numbers')}")
        for word in words:
            if not NUMBER.fullmatch(word) or not math.isfinite(float(word)):
                self.fail(f"{name} is {short(self.attributes[name])}; {word!r} is not a finite number")
        return tuple(float(word) + 0.0 for word in words)  # + 0.0 turns -0.0 into 0.0


def read_xml(path: Path, owner: str) -> Element:
    """Read an XML file and return its root element.

    Raises InvalidMechanism with a one-line message if the file cannot be read.
    """
    try:
        content = read_limited(path, LARGEST_BYTES)
    except OSError as error:
        raise InvalidMechanism(f"{owner}: {path} cannot be read: {error.strerror}") from error
    return parse_xml(content, owner)


def parse_xml(content: bytes, owner: str) -> Element:
    """Parse an XML document and return its root element.

    Raises InvalidMechanism with a one-line message that names the line of an error.
    """
    if LONG_TAG.search(content):
        raise InvalidMechanism(f"{owner}: a start tag has more than {LONGEST_TAG} bytes; shorten it")
    declaration = DECLARATION.search(content)
    before = content[: declaration.start()].removeprefix(BOM) if declaration else b""
    if declaration and before and b"<" not in re.sub(rb"<!--(?:(?!<!--).)*?-->", b"", before, flags=re.DOTALL):
        # an XML declaration after comments or white space is moved to the beginning; line numbers stay
        content = declaration[0] + before + content[declaration.end() :]
    parser = expat.ParserCreate()
    parser.buffer_text = True
    roots: list[Element] = []
    opened: list[Element] = []
    count, joints = itertools.count(1), itertools.count(1)

    def start(tag: str, attributes: dict[str, str]) -> None:
        element = Element(tag, attributes, parser.CurrentLineNumber, owner)
        if len(opened) >= DEEPEST:
            element.fail(f"elements are nested more than {DEEPEST} levels deep; reduce the nesting")
        if next(count) > MOST_ELEMENTS:
            element.fail(f"the file has more than {MOST_ELEMENTS} elements; shorten it")
        if tag == "joint" and next(joints) > MOST_JOINTS:
            element.fail(f"the file has more than {MOST_JOINTS} joints; shorten it")
        (opened[-1].children if opened else roots).append(element)
        opened.append(element)

    def end(tag: str) -> None:
        opened.pop()

    def text(data: str) -> None:
        if opened and data.strip():
            opened[-1].content += data.strip()

    def doctype(*_: object) -> None:
        raise InvalidMechanism(
            f"{owner}: line {parser.CurrentLineNumber}: the file has a document type declaration (DOCTYPE), which "
            "is not read; remove it"
        )

    parser.StartElementHandler, parser.EndElementHandler, parser.StartDoctypeDeclHandler = start, end, doctype
    parser.CharacterDataHandler = text
    try:
        parser.Parse(content, True)
    except expat.ExpatError as error:
        what = expat.ErrorString(error.code)
        raise InvalidMechanism(f"{owner}: line {error.lineno}: the XML is broken: {what}") from None
    except (LookupError, ValueError) as error:
        if isinstance(error, InvalidMechanism):
            raise
        raise InvalidMechanism(f"{owner}: the XML is broken: {error}") from None
    return roots[0]


def short(text: str) -> str:
    """A text of a file in quotes, on one line, for a message; a long text is cut off."""
    text = " ".join(text.split())
    return repr(text if len(text) <= 60 else f"{text[:57]}...")
