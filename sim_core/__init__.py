"""Multibody dynamics: mechanisms, their equations of motion, and simulation with constraint stabilization.

Public names, such as `Simulation`, are imported from `sim_core`. The module that defines a name is loaded when the name
is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from sim_core.support.extras import with_install_hint

if TYPE_CHECKING:
    from sim_core.inverse import forward_dynamics as forward_dynamics
    from sim_core.inverse import forward_kinematics as forward_kinematics
    from sim_core.inverse import inverse_dynamics as inverse_dynamics
    from sim_core.inverse import mass_matrix as mass_matrix
    from sim_core.simulation import Simulation as Simulation
    from sim_core.state import State as State
    from sim_core.system import System as System
    from sim_core.system import assemble as assemble

_HOMES = {
    "Simulation": "sim_core.simulation",
    "State": "sim_core.state",
    "System": "sim_core.system",
    "assemble": "sim_core.system",
    "forward_dynamics": "sim_core.inverse",
    "forward_kinematics": "sim_core.inverse",
    "inverse_dynamics": "sim_core.inverse",
    "mass_matrix": "sim_core.inverse",
}
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"sim_core has no {name!r}; it has {', '.join(__all__)}")
    try:
        return getattr(importlib.import_module(_HOMES[name]), name)
    except ModuleNotFoundError as error:
        raise with_install_hint(error) from None


def __dir__() -> list[str]:
    return __all__
