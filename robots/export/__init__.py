"""Robots as files that other programs read. Names are loaded when they are asked for."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from sim_core.errors import UnknownName
from sim_core.mechanism import Mechanism

if TYPE_CHECKING:
    from robots.export.tree import Export

# format -> the module whose `export` writes it
FORMATS = {"urdf": "robots.export.urdf", "mjcf": "robots.export.mjcf"}
# formats that are several files: a robot's kernels for its own computer
FOLDERS = ("c", "object")


def export(mechanism: Mechanism, format_name: str, open_tree: bool = False) -> Export:
    """The mechanism as text in one of FORMATS, and a line for each thing the format cannot say.

    open_tree  leave the constraints that close loops out where the format has no word for them, and say so
    Raises InvalidRequest for absolute coordinates, loops, and bodies that the format's readers refuse.
    """
    if format_name not in FORMATS:
        raise UnknownName("robot export", "format", format_name, [*FORMATS, *FOLDERS])
    written: Export = importlib.import_module(FORMATS[format_name]).export(mechanism, open_tree)
    return written
