"""Optional libraries: `pip install .` does not install them, but the extras of armswing do.

If armswing imports an optional library that is missing, the ModuleNotFoundError contains the install command.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import FrameType, ModuleType

INSTALLS = "pip install 'armswing"
PACKAGES = {"armswing", "nodes", "robots", "sim_core", "viewer"}
EXTRAS = {  # {top-level module: the extra of armswing that installs it}
    **dict.fromkeys(("casadi", "llvmlite", "networkx", "numba", "numpy", "scipy", "skfuzzy"), "sim"),
    **dict.fromkeys(("PyQt5", "pyqtgraph"), "viewer"),
    **dict.fromkeys(("jinja2", "matplotlib"), "studies"),
    "distributed": "dask",
    "foxglove": "foxglove",
    "imageio_ffmpeg": "film",
    "pandas": "notebook",
    "rerun": "rerun",
    "serial": "serial",
    **dict.fromkeys(("collada", "fast_simplification", "trimesh"), "meshes"),
}


def install_hint(error: BaseException) -> str:
    """Text with the install command for the library whose absence caused an error.

    An example is "; pip install 'armswing[sim]' installs it". Returns "" if no extra of armswing installs this library,
    or if the message of the error already contains the command.
    """
    extra = missing_extra(error)
    return f"; {INSTALLS}[{extra}]' installs it" if extra and INSTALLS not in str(error) else ""


def missing_extra(error: BaseException) -> str:
    """The extra of armswing that installs the library whose absence caused an error; "" if there is none."""
    name = error.name if isinstance(error, ModuleNotFoundError) else None
    return EXTRAS.get((name or "").partition(".")[0], "")


def with_install_hint(error: ModuleNotFoundError) -> ModuleNotFoundError:
    """A copy of the error with the install command appended to its message."""
    return ModuleNotFoundError(f"{error}{install_hint(error)}", name=error.name)


class MissingLibraryFinder:
    """Finder at the end of `sys.meta_path` that adds the install command to errors of failed imports in armswing."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> None:
        """Raise ModuleNotFoundError with the install command if `name` is a missing library that armswing imports."""
        if name in EXTRAS and _is_imported_by_armswing(sys._getframe(1)):
            raise with_install_hint(ModuleNotFoundError(f"No module named {name!r}", name=name))


def _is_imported_by_armswing(frame: FrameType | None) -> bool:
    """Whether armswing made the import: the innermost stack frame outside the import system runs code of armswing.

    False for a call of `importlib.util.find_spec`, which only tests whether a library exists.
    """
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if module == "importlib.util":
            return False
        if module.partition(".")[0] not in ("importlib", "_frozen_importlib", "_frozen_importlib_external"):
            return module.partition(".")[0] in PACKAGES
        frame = frame.f_back
    return False


def install_finder() -> None:
    """Append MissingLibraryFinder to `sys.meta_path`, once."""
    if MissingLibraryFinder not in sys.meta_path:
        sys.meta_path.append(MissingLibraryFinder)
