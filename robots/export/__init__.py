"""Export of robots to files for other programs. Modules are imported on first use."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from sim_core.errors import UnknownName
from sim_core.mechanism import Mechanism

if TYPE_CHECKING:
    from robots.export.tree import Export

# {format: module whose function `export` writes it}
FORMATS = {"urdf": "robots.export.urdf", "mjcf": "robots.export.mjcf"}
# formats of several files: compiled kernels for a robot's computer
FOLDERS = ("c", "object")


def export(mechanism: Mechanism, format_name: str, open_tree: bool = False) -> Export:
    """Export a mechanism as text in one of FORMATS, with notes on the parts that the format cannot express.

    open_tree  whether parts that the format cannot express, such as constraints that close loops, are left out with a
               note; otherwise they are an error

    Raises InvalidRequest for absolute coordinates, for a constraint that the format cannot express (unless
    `open_tree`), and for bodies that readers of the format reject.
    """
    if format_name not in FORMATS:
        raise UnknownName("robot export", "format", format_name, [*FORMATS, *FOLDERS])
    written: Export = importlib.import_module(FORMATS[format_name]).export(mechanism, open_tree)
    return written
