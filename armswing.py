"""The public names of armswing in one place: `from armswing import Node, Simulation, build`."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from sim_core.support.extras import with_install_hint

if TYPE_CHECKING:
    from nodes.node import Context as Context
    from nodes.node import Node as Node
    from robots.registry import build as build
    from robots.registry import names as names
    from sim_core.inverse import forward_dynamics as forward_dynamics
    from sim_core.inverse import forward_kinematics as forward_kinematics
    from sim_core.inverse import inverse_dynamics as inverse_dynamics
    from sim_core.inverse import mass_matrix as mass_matrix
    from sim_core.simulation import Simulation as Simulation
    from sim_core.system import assemble as assemble

_HOMES = {
    "Context": "nodes.node",
    "Node": "nodes.node",
    "messages": "nodes",
    "client": "nodes",
    "build": "robots.registry",
    "names": "robots.registry",
    "Simulation": "sim_core.simulation",
    "assemble": "sim_core.system",
    "forward_dynamics": "sim_core.inverse",
    "forward_kinematics": "sim_core.inverse",
    "inverse_dynamics": "sim_core.inverse",
    "mass_matrix": "sim_core.inverse",
}
__all__ = sorted(_HOMES)


def __dir__() -> list[str]:
    """The public names, for tab completion."""
    return __all__


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"armswing has no {name!r}; it has {', '.join(__all__)}")
    try:
        home = importlib.import_module(_HOMES[name])
    except ModuleNotFoundError as error:
        raise with_install_hint(error) from None
    return importlib.import_module(f"{_HOMES[name]}.{name}") if name in ("messages", "client") else getattr(home, name)
