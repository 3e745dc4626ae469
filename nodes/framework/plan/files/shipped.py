"""Launch files that are installed with armswing, with the examples and data that they need. They are found by name."""

from __future__ import annotations

import re
from pathlib import Path

from robots.files import SHARE, is_file

FOLDERS = ("", "launch", "launch/examples")  # in which a launch file is searched
QUOTED = re.compile(r'"([^"\n]+)"')


def launch_file(name: str | Path) -> Path:
    """Path of the launch file with a path or a name such as "gibbon_cable"; the suffix .toml may be left out.

    Files in the working folder and its folder launch/ take precedence over the installed ones. If there is no such
    file, the result is the given path.
    """
    given = Path(name)
    for root in (Path(), SHARE):
        for folder in FOLDERS:
            for file in (given, given.parent / f"{given.name}.toml"):
                if is_file(root / folder / file):
                    return root / folder / file
    return given


def installed_launch_files() -> dict[str, Path]:
    """{name: path} of the installed launch files."""
    return {file.stem: file for folder in FOLDERS for file in sorted((SHARE / folder).glob("*.toml"))}


def about(file: Path) -> str:
    """First sentence of the comment with which a launch file begins; "" if it begins with no comment."""
    lines = file.read_text().splitlines()
    end = next((number for number, line in enumerate(lines) if len(line) < 3 or line[0] != "#"), len(lines))
    return re.split(r"(?<=:)\s|(?<=\.)\s(?=[A-Z])", " ".join(line[2:] for line in lines[:end]))[0].rstrip(".:")


def with_needed_files(file: Path) -> dict[Path, Path]:
    """{path where a copy is found: file} of an installed launch file and of the installed files that it refers to.

    The paths are relative to the folder of the copied launch file.
    """
    found: dict[Path, Path] = {}
    waiting = [(Path(file.name), file)]
    while waiting:
        place, path = waiting.pop()
        found[place] = path
        for text in QUOTED.findall(path.read_text()):
            reference = Path(text.partition(":")[0])
            for copied, there in (
                (place.parent / reference, path.parent / reference),
                (reference, SHARE / reference),
            ):
                if is_file(there) and _is_installed(there) and copied not in found:
                    waiting.append((copied, there))
    return found


def _is_installed(file: Path) -> bool:
    return file.resolve().is_relative_to((SHARE / "launch").resolve())
