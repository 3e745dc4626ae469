"""The public names of armswing: `from armswing import Node, Simulation, build`.

Scripts, node files and robot files need no other imports than these names and the modules `mechanism`, `messages`,
`client`, `charmie` and `environments` of this package. The modules of other packages may move. The module that defines
a name is loaded when the name is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from sim_core.support.extras import with_install_hint

if TYPE_CHECKING:
    from armswing import charmie as charmie
    from armswing import client as client
    from armswing import environments as environments
    from armswing import mechanism as mechanism
    from armswing import messages as messages
    from armswing.running import OpenRun as OpenRun
    from armswing.running import open_run as open_run
    from armswing.running import run as run
    from nodes.framework.plan.files.file import load_plan as load_plan
    from nodes.framework.plan.key_checks import PlanError as PlanError
    from nodes.framework.plan.launch_plan import NodePlan as NodePlan
    from nodes.framework.plan.launch_plan import Plan as Plan
    from nodes.framework.plan.launch_plan import SimPlan as SimPlan
    from nodes.framework.recording.reader import Recording as Recording
    from nodes.framework.recording.reader import read_recording as read_recording
    from nodes.framework.recording.writer import RecordingWriter as RecordingWriter
    from nodes.framework.simulation.compose import Composition as Composition
    from nodes.framework.simulation.compose import compose as compose
    from nodes.framework.simulation.restart.finding import read_restart as read_restart
    from nodes.node import Context as Context
    from nodes.node import Node as Node
    from robots.parameters import ParameterInfo as ParameterInfo
    from robots.registry import build as build
    from robots.registry import names as names
    from sim_core.analysis import comparison as comparison
    from sim_core.analysis import stability as stability
    from sim_core.analysis.linearization import LinearSystem as LinearSystem
    from sim_core.analysis.linearization import OperatingPoint as OperatingPoint
    from sim_core.analysis.linearization import linearize as linearize
    from sim_core.analysis.linearization import operating_point as operating_point
    from sim_core.errors import InvalidRequest as InvalidRequest
    from sim_core.errors import SimulationError as SimulationError
    from sim_core.inverse import forward_dynamics as forward_dynamics
    from sim_core.inverse import forward_kinematics as forward_kinematics
    from sim_core.inverse import inverse_dynamics as inverse_dynamics
    from sim_core.inverse import mass_matrix as mass_matrix
    from sim_core.simulation import Simulation as Simulation
    from sim_core.state import State as State
    from sim_core.system import System as System
    from sim_core.system import assemble as assemble

_MODULES = {
    **{name: f"armswing.{name}" for name in ("charmie", "client", "environments", "mechanism", "messages")},
    **{name: f"sim_core.analysis.{name}" for name in ("comparison", "stability")},
}
_HOMES = {
    "OpenRun": "armswing.running",
    "open_run": "armswing.running",
    "run": "armswing.running",
    "Context": "nodes.node",
    "Node": "nodes.node",
    "load_plan": "nodes.framework.plan.files.file",
    "PlanError": "nodes.framework.plan.key_checks",
    "NodePlan": "nodes.framework.plan.launch_plan",
    "Plan": "nodes.framework.plan.launch_plan",
    "SimPlan": "nodes.framework.plan.launch_plan",
    "Recording": "nodes.framework.recording.reader",
    "read_recording": "nodes.framework.recording.reader",
    "RecordingWriter": "nodes.framework.recording.writer",
    "Composition": "nodes.framework.simulation.compose",
    "compose": "nodes.framework.simulation.compose",
    "read_restart": "nodes.framework.simulation.restart.finding",
    "ParameterInfo": "robots.parameters",
    "build": "robots.registry",
    "names": "robots.registry",
    "LinearSystem": "sim_core.analysis.linearization",
    "OperatingPoint": "sim_core.analysis.linearization",
    "linearize": "sim_core.analysis.linearization",
    "operating_point": "sim_core.analysis.linearization",
    "InvalidRequest": "sim_core.errors",
    "SimulationError": "sim_core.errors",
    "forward_dynamics": "sim_core.inverse",
    "forward_kinematics": "sim_core.inverse",
    "inverse_dynamics": "sim_core.inverse",
    "mass_matrix": "sim_core.inverse",
    "Simulation": "sim_core.simulation",
    "State": "sim_core.state",
    "System": "sim_core.system",
    "assemble": "sim_core.system",
}
__all__ = sorted([*_HOMES, *_MODULES])


def __dir__() -> list[str]:
    """The public names, for tab completion."""
    return __all__


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"armswing has no {name!r}; it has {', '.join(__all__)}")
    try:
        home = importlib.import_module(_MODULES.get(name) or _HOMES[name])
    except ModuleNotFoundError as error:
        raise with_install_hint(error) from None
    return home if name in _MODULES else getattr(home, name)
