"""Stepping loops of the integrators that were compiled during the installation, and their copy to a cache folder.

The compiled loops are valid for the sources and the folder of sim_core with which they were compiled. The names of
their files depend on the processor and on the versions of numba and llvmlite.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from functools import cache
from pathlib import Path

from sim_core.kernels.machine_code.native import short_hash, source_hash
from sim_core.trusted_files import require_own

VARIABLE = "ARMSWING_INSTALLED_LOOPS"  # environment variable: folder of installed loops; empty for none


def installed_loops() -> Path | None:
    """Folder of the stepping loops that were compiled during the installation; the folder need not exist.

    The name of the folder depends on the sources and the place of sim_core. The folder is in the one that the
    environment variable ARMSWING_INSTALLED_LOOPS names, by default in share/armswing/loops of the Python installation.
    The result is None if the variable is set but empty; no installed loops are used then.
    """
    root = os.environ.get(VARIABLE, str(Path(sys.prefix, "share", "armswing", "loops")))
    place = str(Path(__file__).resolve().parents[2])
    return Path(root, short_hash(source_hash(), place)[:16]) if root else None


@cache
def copy_installed_loops(folder: Path) -> None:
    """Make `folder` a copy of the installation's compiled loops, unless `folder` exists.

    Errors of the disk are ignored: the loops are then compiled when they are first called. Raises UntrustedFile if
    another user could have written a file of the installed loops.
    """
    source = installed_loops()
    if source is None or folder.exists() or not source.is_dir():
        return
    for each in (source, *source.rglob("*")):
        require_own(each, source.parent, f"set {VARIABLE} to a folder of your own, or to nothing")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        replace_folder(folder, source)
    except OSError:  # another process was quicker, or the cache folder cannot be written
        pass


def replace_folder(folder: Path, source: Path) -> None:
    """Make `folder`, which is absent or empty, a copy of `source` in one step; raises OSError if that fails."""
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}") as temporary:
        os.replace(shutil.copytree(source, Path(temporary, "copy")), folder)
