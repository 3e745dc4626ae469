"""Text of a value in an error message."""

from __future__ import annotations

from typing import Any

SHOWN = 60  # characters of a value in an error message


def shown(value: Any) -> str:
    """The repr of a value on one line, shortened to SHOWN characters."""
    try:
        text = " ".join(repr(value).split())
    except Exception:  # an int of too many digits, or an object's own repr
        text = f"a {type(value).__name__}"
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 3]}..."


def printable(text: str, kept: str = "") -> str:
    """The text with control characters as escapes, such as \\x1b, so that a terminal shows them and obeys none.

    kept  control characters that stay, such as "\\n"
    """
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() or each in kept else each.encode("unicode_escape").decode() for each in text
    )
