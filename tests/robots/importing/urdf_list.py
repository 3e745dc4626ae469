"""Writes the pages of the documentation that list URDF files: read, or refused and why.

.venv/bin/python tests/robots/importing/urdf_list.py                   # docs/guides/urdf_files.md: example-robot-data
.venv/bin/python tests/robots/importing/urdf_list.py NAME=FOLDER ...   # docs/guides/urdf_collections.md

NAME is OWNER/REPOSITORY@COMMIT of a public repository on GitHub, FOLDER a folder with its files. With the option
--dynamics in front, the dynamics of each file that is read are compared with pinocchio's.
"""

from __future__ import annotations

import importlib.metadata
import re
import sys
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [] if str(ROOT) in sys.path else [str(ROOT)]

import numpy as np  # noqa: E402
import pinocchio  # noqa: E402

from armswing import build  # noqa: E402
from robots.export import export  # noqa: E402
from sim_core.errors import InvalidRequest  # noqa: E402
from sim_core.mechanism import Mechanism  # noqa: E402
from sim_core.mechanism.checks.inertias import SINGULAR  # noqa: E402
from tests.robots.importing.parts import derived_miss  # noqa: E402
from tests.robots.importing.robot_files import CHOICES, PACKAGE, robot_files  # noqa: E402

PAGE = ROOT / "docs/guides/urdf_files.md"
COLLECTIONS = ROOT / "docs/guides/urdf_collections.md"
LONGEST = 240  # characters of a refusal
STATES = 20
RELATIVE = 1e-9
REMEDY = re.compile(r"pass (\w+)=(\w+)")
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
HEAD_OF_COLLECTIONS = """# URDF files of public repositories

{count} URDF files of {collections} repositories: {read} are read, {share:.1f} %,
{plain} of them without a parameter and the others with the parameters that the refusal names.
Of the {loaded} files that pinocchio loads, {loaded_read} are read, {loaded_share:.1f} %.
{dynamics}The lines of refusals are cut off here.
`tests/robots/importing/urdf_list.py --dynamics OWNER/REPOSITORY@COMMIT=FOLDER ...` writes this page from clones.

| repository | files | read without a parameter | read with parameters | refused |
| --- | --- | --- | --- | --- |
"""


@dataclass
class Result:
    """How a file is read.

    joints      number of moving joints; None for a file that is refused
    parameters  parameters with which it is read
    refusal     line of the refusal
    loaded      whether pinocchio loads the file
    miss        largest relative difference of the dynamics from pinocchio's; None if they were not compared
    misread     whether pinocchio leaves out parts of the file, so that it reads an export of it
    """

    joints: int | None = None
    parameters: dict[str, str] | None = None
    refusal: str = ""
    loaded: bool = False
    miss: float | None = None
    misread: bool = False

    @property
    def text(self) -> str:
        """The cell of the table."""
        if self.joints is None:
            more = " ..." if len(self.refusal) > LONGEST else ""
            return f"refused: {escaped(self.refusal[:LONGEST])}{more}"
        return "read" + "".join(f', `{key} = "{value}"`' for key, value in (self.parameters or {}).items())


compared: set[str] = set()  # hashes of mechanisms


def escaped(line: str) -> str:
    """A line as Markdown."""
    return re.sub(r"[|_*<>]", r"\\\g<0>", line)


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
    return "", f"refused: {escaped(line)}"


def page() -> str:
    """Text of the page about example-robot-data."""
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


def read_with_remedies(path: Path) -> tuple[Mechanism | None, dict[str, str], str]:
    """(mechanism or None, parameters, line of the refusal): the file, read with the parameters that refusals name."""
    parameters: dict[str, str] = {}
    while True:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                mechanism = build(str(path), meshes="boxes", **parameters)
                line = " ".join(str(each.message) for each in caught if "mass matrix is singular" in str(each.message))
            except InvalidRequest as error:
                mechanism, line = None, str(error).replace(f"robot {str(path)!r}: ", "")
        named = [(key, value) for key, value in REMEDY.findall(line) if value not in parameters.get(key, "").split()]
        if not named:
            return mechanism, parameters, line
        for key, value in named:
            parameters[key] = f"{parameters[key]} {value}" if key == "repair" and key in parameters else value


def examined(path: Path, dynamics: bool) -> Result:
    """How a file is read, and with `dynamics` the comparison with pinocchio."""
    found = Result()
    try:
        found.loaded = pinocchio.buildModelFromUrdf(str(path)) is not None
    except Exception:  # pinocchio raises anything
        found.loaded = False
    mechanism, found.parameters, found.refusal = read_with_remedies(path)
    if mechanism is None:
        return found
    found.joints = len([joint for joint in mechanism.joints if joint.coordinates])
    if dynamics and mechanism.canonical_hash not in compared:
        compared.add(mechanism.canonical_hash)
        planar = any(joint.kind == "planar" for joint in mechanism.joints)
        original = found.loaded and "repair" not in (found.parameters or {}) and not planar
        try:
            found.miss = difference(path, found.parameters or {}, original)
            if original and found.miss > RELATIVE:  # pinocchio left out an inertia, or another part, with an error line
                found.misread, found.miss = True, difference(path, found.parameters or {}, original=False)
        except (ValueError, AssertionError) as error:
            print(f"{path}: not compared: {error}", flush=True)
    return found


def difference(path: Path, parameters: dict[str, str], original: bool) -> float:
    """Largest relative difference of the dynamics from pinocchio's.

    original  whether pinocchio reads the file itself; otherwise it reads what an export writes of the repaired file
    """
    choices = {**parameters, **CHOICES}
    if original:
        return derived_miss(str(path), STATES, **choices)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "repaired.urdf"
        file.write_text(export(build(str(path), **choices), "urdf").text)
        return derived_miss(str(file), STATES, **CHOICES)


def page_of_collections(folders: dict[str, Path], dynamics: bool) -> str:
    """Text of the page about the files in folders, {OWNER/REPOSITORY@COMMIT: folder}."""
    results: dict[str, dict[str, Result]] = {}
    for name, folder in folders.items():
        results[name] = {}
        for path in sorted(folder.rglob("*")):
            if path.suffix.lower() == ".urdf" and path.is_file():
                found = results[name][str(path.relative_to(folder))] = examined(path, dynamics)
                print(f"{path.relative_to(folder)}: {found.text[:100]}, {found.miss}", flush=True)
    every = [each for rows in results.values() for each in rows.values()]
    read = [each for each in every if each.joints is not None]
    loaded = [each for each in every if each.loaded]
    misses = [each.miss for each in read if each.miss is not None]
    text = HEAD_OF_COLLECTIONS.format(
        count=len(every),
        collections=len(results),
        read=len(read),
        share=100.0 * len(read) / len(every),
        plain=sum(not each.parameters for each in read),
        loaded=len(loaded),
        loaded_read=sum(each.joints is not None for each in loaded),
        loaded_share=100.0 * sum(each.joints is not None for each in loaded) / len(loaded),
        dynamics=f"Inverse and forward dynamics of the {len(misses)} robots among them that differ equal\n"
        f"pinocchio's in {STATES} random states to {max(misses):.0e} relative. Pinocchio reads an export of repaired\n"
        f"files, and of {sum(each.misread for each in read)} files of which it leaves out an inertia: a number has a "
        "line break.\n"
        if misses
        else "",
    )
    for name, rows in results.items():
        good = [each for each in rows.values() if each.joints is not None]
        plain = sum(not each.parameters for each in good)
        repository, _, commit = name.partition("@")
        place = f"[{repository}](https://github.com/{repository}) at `{commit}`"
        text += f"| {place} | {len(rows)} | {plain} | {len(good) - plain} | {len(rows) - len(good)} |\n"
    for name, rows in results.items():
        text += f"\n## {name.partition('@')[0]}\n\n| file | moving joints | result |\n| --- | --- | --- |\n"
        for file, each in rows.items():
            text += f"| `{file}` | {'' if each.joints is None else each.joints} | {each.text} |\n"
    return text


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    arguments = sys.argv[1:]
    with_dynamics = "--dynamics" in arguments
    named = [each for each in arguments if not each.startswith("--")]
    if named:
        given = {name: Path(folder) for name, _, folder in (each.rpartition("=") for each in named)}
        COLLECTIONS.write_text(page_of_collections(given, with_dynamics))
    else:
        PAGE.write_text(page())
    print(f"wrote {(COLLECTIONS if named else PAGE).relative_to(ROOT)}")
