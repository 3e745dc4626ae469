"""The MJCF files of dm_control.suite, and the page of the documentation that lists which are read.

.venv/bin/pip install --no-deps dm-control
.venv/bin/python tests/robots/importing/suite_files.py    # writes docs/guides/mjcf_files.md
"""

from __future__ import annotations

import importlib.metadata
import re
import sys
import warnings
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [] if str(ROOT) in sys.path else [str(ROOT)]

from armswing import build  # noqa: E402
from robots.importing.mjcf.unread import IGNORABLE  # noqa: E402
from sim_core.errors import InvalidRequest  # noqa: E402
from sim_core.mechanism import Mechanism  # noqa: E402

PACKAGE = "dm-control"
FOLDER = "dm_control/suite/"
EVERYTHING = {"ignore": " ".join(IGNORABLE)}
PAGE = ROOT / "docs/guides/mjcf_files.md"
LONGEST = 300  # characters of a refusal in the table
HEAD = """# MJCF files that are read

The {count} MJCF files of dm_control.suite {version}: {read} are read, {with_ignore} of them with `ignore`,
which leaves out what would be refused; {refused} are refused. `make soak` compares mass matrix, and bias less
passive forces, of each one that is read with its tendons and equality constraints with MuJoCo, in 100 random
states, to 1e-9 relative, where dm-control is installed and the robot has at most 50 coordinates.
`tests/robots/importing/suite_files.py` writes this page.

| file | moving joints | result |
| --- | --- | --- |
"""


@cache
def suite_files() -> dict[str, Path]:
    """{name: file}, sorted; empty if the package is not installed."""
    try:
        listed = importlib.metadata.files(PACKAGE) or []
    except importlib.metadata.PackageNotFoundError:
        return {}
    found = {str(each).removeprefix(FOLDER): Path(str(each.locate())) for each in listed if FOLDER in str(each)}
    return {name: path for name, path in sorted(found.items()) if re.fullmatch(r"\w+\.xml", name)}


def choices_for(path: Path, **others: str) -> dict[str, str] | str:
    """The parameters with which a file is read, as few as possible; the line of the refusal if there are none.

    others  parameters with which every file is read
    """
    found = read(path, **others)
    return found if isinstance(found, str) else found[0]


def read(path: Path, **others: str) -> tuple[dict[str, str], Mechanism] | str:
    """(parameters with which a file is read, as few as possible; the mechanism); the line of the refusal if none."""
    line = ""
    for parameters in ({}, *({"ignore": name} for name in IGNORABLE), EVERYTHING):
        try:
            return parameters, build(str(path), meshes="boxes", **parameters, **others)
        except InvalidRequest as error:
            line = line or str(error).replace(f"robot {str(path)!r}: ", "")
    return line


def row(name: str, path: Path, **others: str) -> str:
    """Line of the table for a file: its name, number of moving joints, and how it is read or why it is refused.

    others  parameters with which every file is read
    """
    found = read(path, **others)
    if isinstance(found, str):
        shown = found if len(found) <= LONGEST else f"{found[:LONGEST]} ..."
        escaped = re.sub(r"[|_*<>]", r"\\\g<0>", shown)
        return f"| `{name}` |  | refused: {escaped} |\n"
    given = "".join(f', with `{key} = "{value}"`' for key, value in found[0].items())
    moving = [joint for joint in found[1].joints if joint.coordinates]
    return f"| `{name}` | {len(moving)} | read{given} |\n"


def counts_of(rows: list[str]) -> dict[str, int]:
    """{"count", "read", "with_ignore", "refused"}: how many of the lines of a table are which."""
    read = [line for line in rows if "| read" in line]
    with_ignore = sum("| read, with" in line for line in read)
    return {"count": len(rows), "read": len(read), "with_ignore": with_ignore, "refused": len(rows) - len(read)}


def page() -> str:
    """Text of the page."""
    rows = [row(name, path) for name, path in suite_files().items()]
    return HEAD.format(version=importlib.metadata.version(PACKAGE), **counts_of(rows)) + "".join(rows)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    if not suite_files():
        sys.exit(f"{PACKAGE} is not installed: .venv/bin/pip install --no-deps {PACKAGE}")
    PAGE.write_text(page())
    print(f"wrote {PAGE.relative_to(ROOT)}")
