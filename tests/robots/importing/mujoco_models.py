"""Table of the MJCF files in a folder: which are read, and which are refused and why.

git clone https://github.com/google-deepmind/mujoco
.venv/bin/python tests/robots/importing/mujoco_models.py mujoco              # prints the table
.venv/bin/python tests/robots/importing/mujoco_models.py mujoco --compare    # compares those that are read with MuJoCo
.venv/bin/python tests/robots/importing/mujoco_models.py mujoco --page       # writes docs/guides/mujoco_files.md

The files are those that MuJoCo itself reads.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [] if str(ROOT) in sys.path else [str(ROOT)]

import mujoco  # noqa: E402

from armswing import build  # noqa: E402
from robots.export import export  # noqa: E402
from sim_core.errors import InvalidMechanism  # noqa: E402
from tests.robots.importing.same import assert_same  # noqa: E402
from tests.robots.importing.suite_files import choices_for, counts_of, row  # noqa: E402
from tests.robots.importing.test_mjcf_import import worst_miss  # noqa: E402

PAGE = ROOT / "docs/guides/mujoco_files.md"
STATES = 10
LARGEST = 60  # coordinates of a robot whose kernels are compiled in seconds
RELATIVE = 1e-9
QUICK = {"contacts": "ignore", "limits": "none"}  # the contacts of many humanoids take long
HEAD = """# Files of MuJoCo that are read

The {count} MJCF files in the repository [google-deepmind/mujoco](https://github.com/google-deepmind/mujoco), commit
`{commit}`, that MuJoCo {version} reads: {read} are read, {with_ignore} of them with `ignore`, which leaves out
what would be refused; {refused} are refused (all with `contacts = "ignore"`). One command prints this table for
any folder:

```text
git clone https://github.com/google-deepmind/mujoco
.venv/bin/python tests/robots/importing/mujoco_models.py mujoco
```

With `--compare` it compares mass matrix, bias less passive forces, and positions of bodies with MuJoCo, in {states}
random states, to 1e-9 relative, for each file that is read without `ignore` and has at most {largest} coordinates,
and checks that an export and an import give the same mechanism.

| file | moving joints | result |
| --- | --- | --- |
"""


def models_in(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield the (path below the folder, file) of each model in a folder that MuJoCo reads, sorted."""
    for path in sorted(folder.rglob("*.xml")):
        with contextlib.suppress(ValueError):
            mujoco.MjModel.from_xml_path(str(path))
            yield str(path.relative_to(folder)), path


def commit_of(folder: Path) -> str:
    """Commit of the repository that has the folder."""
    command = ["git", "-C", str(folder), "rev-parse", "--short=12", "HEAD"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def comparison(path: Path) -> str:
    """One line: how a file compares with MuJoCo; "" for one that is refused or read only with `ignore`."""
    if choices_for(path, **QUICK) != {}:
        return ""
    mechanism = build(str(path), meshes="boxes", **QUICK)
    with tempfile.NamedTemporaryFile("w", suffix=".xml") as file:
        file.write(export(mechanism, "mjcf").text)
        file.flush()
        again = "the same after an export"
        try:
            assert_same(build(file.name, limits="none"), mechanism)
        except AssertionError as error:
            again = f"DIFFERENT after an export: {error}"
    if mechanism.coordinate_count > LARGEST:
        return f"not compared, because of its {mechanism.coordinate_count} coordinates; {again}"
    try:
        miss = worst_miss(str(path), STATES, friction="ignore", meshes="boxes")
    except InvalidMechanism as error:
        return f"not compared: {error}; {again}"
    return f"{'agrees' if miss < RELATIVE else 'DIFFERS'}, {miss:.1e}; {again}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--compare", action="store_true", help="compare the files that are read with MuJoCo")
    parser.add_argument("--page", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    options = parser.parse_args()
    folder = options.folder.resolve()
    with tempfile.TemporaryDirectory() as place:
        os.chdir(place)  # MuJoCo writes its warnings into a file of the current folder
        if options.compare:
            for name, path in models_in(folder):
                if line := comparison(path):
                    print(f"{name}: {line}", flush=True)
            return
        rows = [row(name, path, **QUICK) for name, path in models_in(folder)]
        text = "".join(rows)
        if options.page:
            found = {"commit": commit_of(folder), "version": mujoco.__version__}
            PAGE.write_text(HEAD.format(**counts_of(rows), **found, states=STATES, largest=LARGEST) + text)
            print(f"wrote {PAGE.relative_to(ROOT)}")
        else:
            print(text, end="")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
