"""Shared by all commands: printing, input errors, and the options that many commands have."""

from __future__ import annotations

import logging
import re
import signal
import sys
import threading
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from sim_core.support.shown import printable
from sim_core.support.suggestion import did_you_mean

_CONTROL_IN_JSON = re.compile(r"[\x7f-\x9f]")  # control characters that JSON does not escape


class InputError(Exception):
    """Raised for an invalid request of the user. The message is one line for the user; the exit code is 2."""

    exit_code = 2


class UnavailableError(Exception):
    """Raised if a valid request cannot be met now, for example because no launch is live.

    The message is one line for the user; the exit code is 1.
    """

    exit_code = 1


Domain = Annotated[
    int | None,
    typer.Option(
        "--domain",
        envvar="ARMSWING_DOMAIN",
        min=0,
        show_default="0",
        help="Number of the launch, where several run on this computer.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]


class NegativeNumbers(TyperCommand):
    """Command with numbers as arguments: "-45" is a number, and "--secnds" an unknown option."""

    ignore_unknown_options = True  # passes negative numbers on to the arguments

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words of the command line. An unknown option is refused with the nearest known one."""
        known = [name for param in self.get_params(ctx) for name in (*param.opts, *param.secondary_opts)]
        for word in args[: args.index("--") if "--" in args else None]:
            name = word.partition("=")[0]
            is_known = name in known or (name[1:2] != "-" and name[:2] in known)
            if re.match(r"--?[a-z]", name) and not is_known and not _is_number(word):
                hint = did_you_mean(name, known)
                raise InputError(f"there is no option {name}{hint}; see '{ctx.command_path} --help'")
        return list(super().parse_args(ctx, args))


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def print_line(text: str = "") -> None:
    """Print a line to standard output; nothing is interpreted as markup, and control characters are shown as text."""
    print(printable(text, "\n\t"), flush=True)


def warn(text: str) -> None:
    """Print a line to the error stream; control characters are shown as text."""
    print(printable(text, "\n\t"), file=sys.stderr, flush=True)


@contextmanager
def working(what: str) -> Iterator[None]:
    """Context manager that shows a line on a terminal while the body of its `with` statement runs.

    The line is removed afterwards. Nothing is shown where the output is not a terminal.
    """
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console  # 0.03 s of each command

    with Console(stderr=True).status(f"{what} ..."):
        yield


@contextmanager
def compilations_shown() -> Iterator[None]:
    """Context manager that prints compilations, their estimated time and progress on stderr, if it is no terminal."""
    log, handler = logging.getLogger("armswing.compile"), logging.StreamHandler()
    level = log.level
    if not sys.stderr.isatty():
        log.addHandler(handler)
        log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(level)


def print_json(data: Any, *, indent: int | None = 2) -> None:
    """Print plain data or structs as JSON. Non-finite numbers become null."""
    import msgspec  # 0.01 s of each command

    encoded = msgspec.json.encode(data)
    text = (msgspec.json.format(encoded, indent=indent) if indent else encoded).decode()
    print(_CONTROL_IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", text), flush=True)


def print_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print aligned columns under a header; without rows, print nothing. The last column is not padded."""
    table = [list(header), *[list(row) for row in rows]]
    if len(table) == 1:
        return
    widths = [max(len(row[column]) for row in table) for column in range(len(header))]
    for row in table:
        print_line("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def parse_assignments(texts: Sequence[str], option: str, example: str = "gain=2.5") -> dict[str, Any]:
    """Return {key: value} of texts such as "gain=2.5". Values are written as in TOML; an unquoted word is a string."""
    assignments: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise InputError(f"{option} {text!r}: expected key=value, for example {option} {example}")
        assignments[key.strip()] = parse_value(value.strip())
    return assignments


def parse_value(text: str) -> Any:
    """The value of a text as in TOML ("2.5", "true", "[1, 2]"); an unquoted word is a string."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def require_recording(file: Path) -> None:
    """Raise InputError if the recording does not exist.

    The message suggests the file in the recording's folder with the nearest name.
    """
    if not file.is_file():
        there = {str(other): other for other in file.parent.glob("*.mcap")}
        folder = ", which is a folder" if file.is_dir() else ""
        raise InputError(f"no recording {str(file)!r}{folder}{did_you_mean(str(file), there)}")


@contextmanager
def until_stopped() -> Iterator[threading.Event]:
    """Context manager that yields an event; Ctrl-C and SIGTERM set this event."""
    stop = threading.Event()
    before = {number: signal.signal(number, lambda *_: stop.set()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
