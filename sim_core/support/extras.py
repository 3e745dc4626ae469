"""Optional libraries: `pip install .` does not install them, but the extras of armswing do.

If a public name or a command needs an optional library that is missing, the error contains the install command.
"""

from __future__ import annotations

from importlib.util import find_spec

INSTALLS = "pip install 'armswing"
EXTRAS = {  # {top-level module: the extra of armswing that installs it}
    **dict.fromkeys(("casadi", "llvmlite", "networkx", "numba", "numpy", "scipy", "skfuzzy"), "sim"),
    **dict.fromkeys(("PyQt5", "pyqtgraph"), "viewer"),
    **dict.fromkeys(("jinja2", "matplotlib"), "studies"),
    "distributed": "dask",
    "foxglove": "foxglove",
    "gymnasium": "gym",
    "imageio_ffmpeg": "film",
    "mujoco": "mjcf",
    "pandas": "notebook",
    "rerun": "rerun",
    **dict.fromkeys(("rosbags", "xxhash", "zenoh"), "ros2"),
    "serial": "serial",
    "viser": "web",
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


def can_simulate() -> bool:
    """Whether the packages that a simulation needs (the extra `sim`) are installed."""
    try:
        return all(find_spec(name) for name in ("casadi", "llvmlite", "numba", "numpy", "scipy"))
    except ModuleNotFoundError:
        return False
