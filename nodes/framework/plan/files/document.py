"""Reading of a launch file's TOML text, with limits on its size and nesting."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nodes.framework.plan.files.shipped import installed_launch_files
from nodes.framework.plan.files.source import Lines, Source
from nodes.framework.plan.key_checks import PlanError
from nodes.framework.plan.launch_plan import DEPTH
from sim_core.support.suggestion import did_you_mean, falls_hint
from sim_core.support.toml_text import load_toml
from sim_core.trusted_files import UntrustedFile, require_named

MCAP = b"\x89MCAP"  # first bytes of a recording
SIZE = 8_000_000  # largest size of a launch file, bytes
TOO_DEEP = f"tables and lists are nested more than {DEPTH} deep"


@dataclass(frozen=True)
class Document:
    """The tables and keys of one launch file, and their places in it."""

    values: dict[str, Any]
    source: Source


def read_document(file: Path, asked_in: str = "", without: str = "") -> Document:
    """The tables of a launch file. Raises PlanError with a one-line message if the file cannot be read or is not TOML.

    asked_in  place where another launch file includes this file, "" if none does; if the file is missing, the message
              begins with this place
    without   name, without the suffix, of a launch file that the message does not suggest in place of a missing file,
              such as the including file; "" to allow all suggestions
    """
    place = f"{asked_in}: {str(file)!r}" if asked_in else str(file)
    try:
        text = _text(file)
        values = load_toml(text)
    except PlanError:
        raise
    except UntrustedFile as error:
        raise PlanError(str(error)) from None
    except FileNotFoundError:
        raise PlanError(f"{place}: no such launch file{_launch_file_like(file, without)}") from None
    except IsADirectoryError:
        raise PlanError(f"{place}: this is a folder; give a launch file{_launch_file_in(file)}") from None
    except UnicodeDecodeError:
        raise PlanError(f"{place}: {_no_text(file)}") from None
    except OSError as error:
        raise PlanError(f"{place}: cannot be read: {error.strerror or error}") from None
    except RecursionError:
        raise PlanError(f"{file}: {TOO_DEEP}") from None
    except ValueError as error:  # not TOML, or a number of thousands of digits
        raise PlanError(f"{file}: not valid TOML: {error}{falls_hint(Path(file))}") from None
    if is_deeper(values, DEPTH):
        raise PlanError(f"{file}: {TOO_DEEP}")
    return Document(values, Source(file, Lines(text)))


def _text(file: Path) -> str:
    """Text of a launch file.

    Raises PlanError for a file above the size limit, and UntrustedFile for a file that any user could have written.
    """
    if file.is_file():
        require_named(file)
        if file.stat().st_size > SIZE:
            raise PlanError(f"{file}: the file has {file.stat().st_size} bytes; shorten it to at most {SIZE}")
    with file.open(encoding="utf-8") as opened:  # not read_text: a device such as /dev/zero has no end
        text = opened.read(SIZE + 1)
    if len(text) > SIZE:
        raise PlanError(f"{file}: the file has more than {SIZE} bytes; shorten it")
    return text


def is_deeper(value: object, depth: int) -> bool:
    """Whether tables and lists are nested more than `depth` deep."""
    level: list[object] = [value]
    for _ in range(depth):
        level = [
            inner
            for each in level
            if isinstance(each, dict | list)
            for inner in (each.values() if isinstance(each, dict) else each)
            if isinstance(inner, dict | list)
        ]
    return bool(level)


def _launch_file_in(folder: Path) -> str:
    """Text with the name of a launch file in a folder, such as ", such as launch/charmie_drive.toml"; "" if there is
    none.
    """
    return next((f", such as {each}" for each in sorted(folder.glob("*.toml"))), "")


def _launch_file_like(file: Path, without: str) -> str:
    """Text such as "; did you mean 'launch/charmie_pick.toml'?" for a launch file of a similar name; "" if there is
    none.
    """
    folders = [file.parent, *(file.parent / each for each in ("launch", "launch/examples"))]
    there = {name: Path(name) for name in installed_launch_files()}
    there |= {each.stem: each for folder in reversed(folders) for each in sorted(folder.glob("*.toml"))}
    there.pop(without, None)
    name = file.name.removesuffix(".toml")
    return did_you_mean(name, [name] if name in there else there, show=lambda near: str(there[near]))


def _no_text(file: Path) -> str:
    """Message about a file that is no launch file because it is not text.

    If the file is a recording, the message names the commands that read it.
    """
    with file.open("rb") as opened:
        recording = opened.read(len(MCAP)) == MCAP
    if recording:
        return f"this is a recording, not a launch file; show it with 'armswing view {file}' or 'armswing info {file}'"
    return "this is no launch file, because it is not text; give a TOML file"
