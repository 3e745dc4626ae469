"""Output of commands: control characters in names and messages are shown as text, and a terminal obeys none of them."""

from __future__ import annotations

import json

import pytest

from nodes.cli.terminal import print_json, print_line, print_table, warn
from nodes.framework.launching.display import Display

BOMB = "arm\x1b[2J\x1b]0;title\x07\x9b31m\u202e"
SHOWN = r"arm\x1b[2J\x1b]0;title\x07\x9b31m\u202e"


def test_control_characters_are_shown_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    print_line(f"{BOMB}\n\tü")
    print_table(["name"], [[BOMB]])
    warn(BOMB)
    with Display(None) as display:
        display.print_line(f"{BOMB}\r", "node")
    printed, errors = capsys.readouterr()
    assert printed == f"{SHOWN}\n\tü\nname\n{SHOWN}\n"
    assert errors == f"{SHOWN}\n[node] {SHOWN}\n"


def test_json_has_no_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"name": "\x1b\x7f\x9b"})
    printed = capsys.readouterr().out
    assert json.loads(printed) == {"name": "\x1b\x7f\x9b"}
    assert printed.replace("\n", "").isprintable()
