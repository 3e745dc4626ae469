"""Writes the page of the documentation that lists the URDF files of example-robot-data: read, or refused and why.

.venv/bin/python tests/robots/importing/urdf_list.py    # writes docs/guides/urdf_files.md
"""

from __future__ import annotations

import importlib.metadata
import re
import sys
import warnings
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [] if str(ROOT) in sys.path else [str(ROOT)]

import numpy as np  # noqa: E402
import pinocchio  # noqa: E402

from robots import build  # noqa: E402
from sim_core.errors import InvalidRequest  # noqa: E402
from sim_core.mechanism.checks.masses import SINGULAR  # noqa: E402
from tests.robots.importing.robot_files import PACKAGE, robot_files  # noqa: E402

PAGE = ROOT / "docs/guides/urdf_files.md"
HEAD = """# URDF files that are read

The {count} URDF files of [example-robot-data](https://pypi.org/project/example-robot-data/) {version}: {read} are
read, {refused} are refused; {singular} of those read cannot be simulated, because a link without inertia makes the
mass matrix singular. `make soak` compares mass matrix, inverse and forward dynamics of each one with pinocchio,
in 100 random states, to 1e-9 relative, with the root link fixed and free (with `friction = "ignore"`,
`mimic = "free"` and `limits = "none"`, as pinocchio reads a file), and reads, exports and reads each again.
`tests/robots/importing/urdf_list.py` writes this page.

| file | moving joints | result |
| --- | --- | --- |
"""


def is_singular(path: Path) -> bool:
    """Whether the mass matrix at the start is singular by pinocchio: a link beyond some joint has no inertia."""
    model = pinocchio.buildModelFromUrdf(str(path))
    if model.nv == 0:
        return False
    M = pinocchio.crba(model, model.createData(), pinocchio.neutral(model))
    M = np.triu(M) + np.triu(M, 1).T
    scale = np.sqrt(np.diag(M))
    return bool(scale.min() == 0.0 or np.linalg.eigvalsh(M / np.outer(scale, scale))[0] < SINGULAR)


def result(path: Path) -> tuple[str, str]:
    """Number of moving joints, and how the file is read or the line of the refusal."""
    try:
        joints = len(build(str(path), meshes="boxes").moving_joints)
        return str(joints), "read; its mass matrix is singular: refused in simulations" if is_singular(path) else "read"
    except InvalidRequest as error:
        line = str(error).replace(f"robot {str(path)!r}: ", "")
    escaped = re.sub(r"[|_*<>]", r"\\\g<0>", line)
    return "", f"refused: {escaped}"


def page() -> str:
    """Text of the page."""
    rows = {name: result(path) for name, path in robot_files().items()}
    read = [text for _, text in rows.values() if text.startswith("read")]
    text = HEAD.format(
        count=len(rows),
        version=importlib.metadata.version(PACKAGE),
        read=len(read),
        singular=sum("singular" in text for text in read),
        refused=len(rows) - len(read),
    )
    return text + "".join(f"| `{name}` | {joints} | {text} |\n" for name, (joints, text) in rows.items())


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    PAGE.write_text(page())
    print(f"wrote {PAGE.relative_to(ROOT)}")
