"""What a robot's own computer has to carry: no Qt and no plotting, and no compiler where a controller has no model."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from sim_core.support.extras import install_hint

ROOT = Path(__file__).resolve().parent.parent
DRAWING = ("pyqt", "pyside", "qt", "pyqtgraph", "pyopengl", "matplotlib", "vtk", "jinja2")
COMPILERS = ("numba", "llvmlite", "casadi", "scipy", "skfuzzy")
NODES = sorted(path.relative_to(ROOT) for path in (ROOT / "nodes").glob("*.py") if path.name != "__init__.py") + sorted(
    path.relative_to(ROOT) for path in (ROOT / "nodes" / "controllers").glob("*.py") if path.name != "__init__.py"
)


def base_requirements() -> Iterator[str]:
    """Names of all packages that come with armswing without an extra, and with what they require themselves."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    waiting = [Requirement(text) for text in project["dependencies"]]
    seen: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        requirement = waiting.pop()
        name, extras = canonicalize_name(requirement.name), frozenset(requirement.extras)
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        yield name
        for text in requires(name) or []:
            further = Requirement(text)
            if any(further.marker is None or further.marker.evaluate({"extra": extra}) for extra in {"", *extras}):
                waiting.append(further)


def imported(code: str) -> set[str]:
    """Top-level modules that a fresh interpreter has loaded after some code."""
    program = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); {code}; print(*{{n.partition('.')[0] for n in sys.modules}})"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", program], capture_output=True, text=True, timeout=100, check=True
    )
    return set(done.stdout.split())


def test_without_extras_nothing_that_draws_is_installed() -> None:
    names = set(base_requirements())
    assert {"pyzmq", "mcap", "msgspec"} <= names
    assert not {name for name in names if name.startswith(DRAWING)}
    assert not names & {"casadi", "llvmlite", "numba", "numpy", "scikit-fuzzy", "scipy"}


def test_the_extra_for_the_viewer_is_what_brings_qt() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert any(Requirement(text).name == "PyQt5" for text in extras["viewer"])


def test_the_extra_all_is_what_a_person_uses_and_make_installs_it() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    [everything] = extras["all"]
    assert Requirement(everything).extras == set(extras) - {
        "all",
        "docs",
        "dev",
        "film",
        "rerun",
        "dask",
    }  # large, and for clusters
    assert "$(PIP) '.[all]'\n" in (ROOT / "Makefile").read_text()


def test_every_package_of_an_extra_is_named_with_it_where_it_is_missing() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    modules = {"scikit-fuzzy": "skfuzzy", "pyqt5": "PyQt5", "pyserial": "serial"}
    for extra in ("sim", "viewer", "studies", "serial"):
        for text in extras[extra]:
            name = canonicalize_name(Requirement(text).name)
            missing = ModuleNotFoundError("none", name=f"{modules.get(name, name)}.part")
            assert install_hint(missing) == f"; pip install 'armswing[{extra}]' installs it", name
    assert install_hint(ModuleNotFoundError("none", name="of_mine")) == install_hint(ValueError("none")) == ""


def test_no_node_and_no_process_of_a_launch_imports_what_draws() -> None:
    modules = [".".join(path.with_suffix("").parts) for path in NODES]
    modules += [
        "nodes.framework.launching.process",
        "nodes.framework.hosting.runner",
        "nodes.framework.simulation.event_loop",
        "nodes.framework.launching.launch",
    ]
    loaded = imported("; ".join(f"import {module}" for module in modules))
    assert "zmq" in loaded
    assert not {name for name in loaded if name.lower().startswith(DRAWING)}


@pytest.mark.parametrize("module", ["nodes.controllers.pd", "nodes.controllers.swing_up", "nodes.trajectory"])
def test_a_node_without_a_model_imports_no_compiler(module: str) -> None:
    loaded = imported(
        "import nodes.framework.launching.process, nodes.framework.hosting.runner, nodes.framework.plan.node_classes\n"
        f"import {module}"
    )
    assert not loaded & set(COMPILERS)


@pytest.mark.parametrize("module", ["nodes.controllers.computed_torque", "nodes.controllers.gravity_pd"])
def test_a_controller_with_a_model_imports_no_compiler_before_it_builds_one(module: str) -> None:
    loaded = imported(f"import nodes.framework.launching.process, nodes.framework.hosting.runner, {module}")
    assert not loaded & set(COMPILERS)


@pytest.mark.parametrize("file", ["bench_arm.urdf", "cart_arm.xml"])
def test_a_robot_of_a_file_without_convex_hulls_imports_no_scipy(file: str) -> None:
    path = ROOT / "launch/examples" / file
    assert "scipy" not in imported(f"from robots.registry import build; build({str(path)!r})")
